"""Which rows of a batch are in no node, and why."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from probi.io.row_errors import ErrorKind, RowErrors

Rows = NDArray[np.int64]

# Rows that are not bad themselves.
WITH_A_BAD_ONE = "in a node with such a row"


class LeftOut(RowErrors):
    """Rows that are left out, each for one kind of error, and some of them for a missing value."""

    def __init__(self, n_rows: int) -> None:
        super().__init__(n_rows)
        self._for_missing = np.zeros(n_rows, bool)

    @property
    def kept(self) -> Rows:
        """The others."""
        return np.flatnonzero(self.codes < 0)

    @property
    def n_missing(self) -> int:
        """How many are left out for a missing value, their own or one of their node."""
        return int(self._for_missing.sum())

    def leave_out(self, rows: Rows, errors: RowErrors, for_missing: bool) -> None:
        """Leave out rows with the errors that they have."""
        self._for_missing[rows[self.codes[rows] < 0]] = for_missing
        self.codes[rows] = errors.codes[rows] + len(self.kinds)
        self.kinds += errors.kinds

    def leave_out_nodes(self, bad: Rows, starts: Rows, numbers: Rows, for_missing: bool) -> None:
        """Leave out all rows of nodes that have a bad one; ``numbers`` are those of the rows in their file."""
        node = np.searchsorted(starts, np.arange(len(self.codes)), side="right") - 1
        first = np.full(len(starts), -1)
        nodes, at = np.unique(node[bad], return_index=True)
        first[nodes] = bad[at]
        others = np.flatnonzero((first[node] >= 0) & (self.codes < 0))
        self._for_missing[others] = for_missing
        cause = numbers[first[node]]
        kind = ErrorKind(WITH_A_BAD_ONE, lambda row: f"belongs to a node that is left out for row {cause[row]}")
        self.add(others, kind)

    @property
    def counts(self) -> dict[str, int]:
        """Rows per kind of error."""
        numbers = np.bincount(self.codes[self.rows], minlength=len(self.kinds)).tolist()
        counts: dict[str, int] = {}
        for kind, number in zip(self.kinds, numbers, strict=True):
            if number:
                counts[kind.name] = counts.get(kind.name, 0) + number
        return counts

    def first(self, max_rows: Callable[[str], int]) -> Iterator[tuple[int, ErrorKind]]:
        """The first rows of each kind, as many as its name allows, with the kind."""
        shown: list[Rows] = []
        for name in self.counts:
            codes = [code for code, kind in enumerate(self.kinds) if kind.name == name]
            shown.append(np.flatnonzero(np.isin(self.codes, codes))[: max(0, max_rows(name))])
        for row in np.sort(np.concatenate([*shown, np.zeros(0, np.int64)])).tolist():
            yield row, self.kind_of(row)
