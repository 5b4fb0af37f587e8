"""Clock, memory and data for the benchmarks."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import probi


def best_of(runs: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest time of several runs, in seconds, and the last result; the machine is noisy, so take the best."""
    shortest, result = float("inf"), None
    for _ in range(runs):
        start = time.perf_counter()
        result = function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result


def peak_megabytes() -> float:
    """Largest resident memory of this process so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def covertype(data: Path, dtype: Any = np.float32) -> np.ndarray | None:
    """All 55 columns of Covertype as the paper takes them, label included; None, with a word, if it is not there."""
    path = data / "covertype.parquet"
    if not path.is_file():
        print(f"skipped: no covertype.parquet in {data}; give the folder with DATA=...")
        return None
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    points = np.empty((table.num_rows, table.num_columns), dtype)
    for f, column in enumerate(table.columns):
        points[:, f] = column.to_numpy()
    return points


def random_nodes(n_nodes: int, n_each: int, d: int, seed: int = 0, spread: float = 0.1) -> probi.Nodes:
    """Tight nodes around random places."""
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((n_nodes, 1, d), dtype=np.float32)
    return probi.Nodes.from_dense(places + spread * rng.standard_normal((n_nodes, n_each, d), dtype=np.float32))
