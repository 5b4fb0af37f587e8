"""How to read: the options of :func:`probi.io.read`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from probi.errors import InputError

# A name, False (no column has this role) or None (guess).
Given = str | Literal[False] | None

# More rows of one node are taken for a mistake, such as a wrong column of ids: they must fit in memory at once.
MOST_NODE_ROWS = 100_000
MISSING = ("error", "skip-row", "skip-node")
ON_BAD = ("stop", "skip")


@dataclass(frozen=True)
class Options:
    """How to read; see :func:`read`."""

    layout: str | None = None
    features: Sequence[str] | None = None
    id: Given | Sequence[str] = None
    probability: Given = None
    weight: Given = None
    group_size: int | None = None
    format: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    lonlat: tuple[str, str] | None = None
    scale: str = "none"
    missing: str = "error"
    on_bad: str = "stop"
    gather: bool = False
    dtype: str | None = None
    most_node_rows: int = MOST_NODE_ROWS

    def __post_init__(self) -> None:
        for name, value, known in (("missing", self.missing, MISSING), ("on_bad", self.on_bad, ON_BAD)):
            if value not in known:
                raise InputError(f"{name} is {value!r}, but must be one of {', '.join(known)}.")
        if self.dtype not in (None, "float32", "float64"):
            raise InputError(f"There is no dtype {self.dtype!r} here: choose float32 or float64.")
