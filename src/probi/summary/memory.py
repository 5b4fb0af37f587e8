"""Memory that a summary takes, estimated before it reads its nodes."""

import contextlib
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from probi.errors import InputError
from probi.summary.config import SummaryConfig

# At most so many times what reading, saving and solving really take, beyond FIXED.
FACTOR = 2.0
# Scratch arrays of the threads, and what allocators keep for later.
FIXED = 1 << 25
# Nodes of a stream of unknown length. Each further level, of four or sixteen times as many, takes one coreset more.
MANY = 10**9
# Columns of a row in the tree, at most, and the arrays of one number per node beside them.
MAX_COLUMNS, NUMBERS_PER_NODE = 128, 5
# Nodes with fewer coordinates in all than this are always read: no machine is too small.
MIN_COORDINATES = 1 << 26


def estimate(config: SummaryConfig, n_features: int, n_realizations: float, dtype: Any, n_nodes: int | None) -> int:
    """Bytes that reading, saving and solving take at most, beside the nodes given."""
    n = MANY if n_nodes is None else n_nodes
    if config.max_realizations is not None:
        n_realizations = min(n_realizations, config.max_realizations)
    item, certain = np.dtype(dtype).itemsize, n_realizations <= 1
    node = 8 * NUMBERS_PER_NODE + n_features * item
    if not certain:
        node += int(n_realizations * (n_features + 1) * item)
    leaf = config.expected_leaf(n_realizations * n_features)
    # A level waits for its groups; a coreset of a higher level, and of a leaf of large nodes, joins the one before it.
    wide = config.is_wide(leaf * n_realizations * n_features)
    n_levels = 1 + math.ceil(math.log(max(1.0, n / leaf), config.leaves_joined if wide else config.fan_in))
    n_waiting = 0 if wide else min(n_levels, config.joining_level)
    coreset = min(n, config.coresets.size) * node
    coresets = int(n_levels - n_waiting + (config.fan_in - 1) * n_waiting) * coreset if n >= leaf else 0
    audit = min(n, config.audit_size + 1) * node
    row = 8 * (NUMBERS_PER_NODE + (0 if certain and n_features <= MAX_COLUMNS else min(n_features, MAX_COLUMNS) + 1))
    kept = min(n, leaf) * node + coresets + audit
    reading = min(n, leaf) * row + 2 * coreset + 2 * audit
    return int(FIXED + kept + max(reading, 2.25 * kept, 3 * coreset))


def require(n_bytes: int) -> None:
    """Raise if even the least memory that such an estimate can mean is more than there is."""
    least, limit = (n_bytes - FIXED) / FACTOR, limit_bytes()
    if least > limit:
        raise InputError(
            f"The summary would take at least {least / 1e9:,.1f} GB, but there are {limit / 1e9:,.1f} GB of memory. "
            "Use a smaller size (--size), fewer realizations (--max-realizations) or float32 (--dtype)."
        )


def limit_bytes() -> float:
    """Memory that this process may take: that of the machine, or the limit of its container or its own."""
    limits = [math.inf]
    with contextlib.suppress(AttributeError, ValueError, OSError):  # Windows
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # there is none, or it is "max"
            limits.append(int(Path(path).read_text()))
    if sys.platform != "win32":
        import resource

        limits += [soft for soft, _ in [resource.getrlimit(resource.RLIMIT_AS)] if soft != resource.RLIM_INFINITY]
    return min(limits)
