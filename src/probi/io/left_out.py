"""Which rows of a batch are in no node, and why."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from probi.io.row_errors import Faults, Kind

Rows = NDArray[np.int64]

# Rows that are not bad themselves.
WITH_A_BAD_ONE = "in a node with such a row"


class LeftOut:
    """Rows that are left out, each for one kind of reason, and some of them for a missing value."""

    def __init__(self, n_rows: int) -> None:
        self._kinds: list[Kind] = []
        self._codes = np.full(n_rows, -1, np.int32)  # which of the kinds; -1 stays
        self._missing = np.zeros(n_rows, bool)

    @property
    def rows(self) -> Rows:
        """Those that are left out."""
        return np.flatnonzero(self._codes >= 0)

    @property
    def staying(self) -> Rows:
        """The others."""
        return np.flatnonzero(self._codes < 0)

    @property
    def n_missing(self) -> int:
        """How many are left out for a missing value, their own or one of their node."""
        return int(self._missing.sum())

    def leave_out(self, rows: Rows, faults: Faults, is_missing: bool) -> None:
        """Leave out rows with the faults that they have."""
        self._missing[rows[self._codes[rows] < 0]] = is_missing
        self._codes[rows] = faults.codes[rows] + len(self._kinds)
        self._kinds += faults.kinds

    def leave_out_nodes(self, bad: Rows, starts: Rows, numbers: Rows, is_missing: bool) -> None:
        """Leave out all rows of nodes that have a bad one; ``numbers`` are those of the rows in their file."""
        node = np.searchsorted(starts, np.arange(len(self._codes)), side="right") - 1
        first = np.full(len(starts), -1)
        nodes, at = np.unique(node[bad], return_index=True)
        first[nodes] = bad[at]
        others = np.flatnonzero((first[node] >= 0) & (self._codes < 0))
        self._missing[others] = is_missing
        self._codes[others] = len(self._kinds)
        cause = numbers[first[node]]
        self._kinds.append(Kind(WITH_A_BAD_ONE, lambda row: f"belongs to a node that is left out for row {cause[row]}"))

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each kind."""
        numbers = np.bincount(self._codes[self.rows], minlength=len(self._kinds)).tolist()
        counts: dict[str, int] = {}
        for kind, number in zip(self._kinds, numbers, strict=True):
            if number:
                counts[kind.name] = counts.get(kind.name, 0) + number
        return counts

    def first(self, most: Callable[[str], int]) -> Iterator[tuple[int, Kind]]:
        """The first rows of each kind, as many as its name allows, with the kind."""
        shown: list[Rows] = []
        for name in self.counts:
            codes = [code for code, kind in enumerate(self._kinds) if kind.name == name]
            shown.append(np.flatnonzero(np.isin(self._codes, codes))[: max(0, most(name))])
        for row in np.sort(np.concatenate([*shown, np.zeros(0, np.int64)])).tolist():
            yield row, self._kinds[self._codes[row]]
