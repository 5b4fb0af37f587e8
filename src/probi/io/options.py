"""How to read: the options of :func:`probi.io.read`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from probi.errors import InputError
from probi.tables.missing import check_missing

# A name, False (no column has this role) or None (guess).
Given = str | Literal[False] | None

# More rows of one node are taken for a mistake, such as a wrong column of ids: they must fit in memory at once.
MAX_NODE_ROWS = 100_000
ON_BAD = ("stop", "skip")
PROBABILITIES = ("keep", "normalize")
# A larger share of rows that are left out is taken for a mistake.
MAX_BAD = 0.1


@dataclass(frozen=True)
class Options:
    """How to read; see :func:`read`."""

    layout: str | None = None
    features: Sequence[str] | None = None
    id: Given | Sequence[str] = None
    probability: Given = None
    weight: Given = None
    probabilities: str = "keep"
    group_size: int | None = None
    format: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    decimal: str | None = None
    lonlat: tuple[str, str] | None = None
    scale: str = "none"
    missing: str = "error"
    on_bad: str = "stop"
    max_bad: float = MAX_BAD
    id_per_file: bool = False
    gather: bool = False
    dtype: str | None = None
    max_node_rows: int = MAX_NODE_ROWS

    def __post_init__(self) -> None:
        check_missing(self.missing, self.probabilities)
        for name, value, known in (
            ("on_bad", self.on_bad, ON_BAD),
            ("probabilities", self.probabilities, PROBABILITIES),
        ):
            if value not in known:
                raise InputError(f"{name} is {value!r}, but must be one of {', '.join(known)}.")
        pair: Any = self.lonlat
        if pair is not None and (isinstance(pair, str) or len(pair) != 2):
            raise InputError(f"lonlat is {pair!r}, but must be two columns, as in ('lon', 'lat').")
        if self.decimal not in (None, ".", ","):
            raise InputError(f"decimal is {self.decimal!r}, but must be a point or a comma.")
        if not 0 <= self.max_bad <= 1:
            raise InputError(f"max_bad is {self.max_bad!r}, but must be a share between 0 and 1.")
        if self.dtype not in (None, "float32", "float64"):
            raise InputError(f"dtype is {self.dtype!r}, but must be float32 or float64.")
