"""Rows of files on their way to nodes: where each comes from, what could not be read of it."""

import bisect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kind
from numpy.typing import NDArray

from probi.io.chunks import Chunk, Unread
from probi.tables.flat import one_chunk

# A row is known by the number of its file and its number there, in one integer.
FILE = 1 << 44


class Rejected(NamedTuple):
    """A row that is in no node, with the reason; rows count from 1."""

    file: str
    row: int
    line: int | None
    reason: str
    values: str

    def __str__(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.file}, row {self.row}{line} {self.reason}"


@dataclass(frozen=True)
class Rows:
    """A table and where its rows come from."""

    table: pa.Table
    where: NDArray[np.int64]  # (n_rows,) file * FILE + row
    unread: dict[int, Unread] = field(default_factory=dict)  # by row of this table
    lines: tuple[tuple[int, Callable[[int], int]], ...] = ()  # from where on, and a function to the line

    @classmethod
    def of_chunk(cls, chunk: Chunk, file: int) -> "Rows":
        """Rows of a part of a file."""
        start = file * FILE + chunk.row
        where = np.arange(start, start + chunk.table.num_rows)
        return cls(chunk.table, where, dict(chunk.unread), () if chunk.line is None else ((start, chunk.line),))

    def __len__(self) -> int:
        return len(self.where)

    def cut(self, start: int, stop: int) -> "Rows":
        """Rows start:stop."""
        unread = {row - start: what for row, what in self.unread.items() if start <= row < stop}
        where = self.where[start:stop]
        return Rows(self.table.slice(start, stop - start), where, unread, self._lines_of(where))

    def taken(self, index: NDArray[np.int64]) -> "Rows":
        """Rows with these numbers, each at most once."""
        to = {int(row): i for i, row in enumerate(index)} if self.unread else {}
        unread = {to[row]: what for row, what in self.unread.items() if row in to}
        return Rows(self.table.take(pa.array(index)), self.where[index], unread, self.lines)

    def rejected(self, row: int, reason: str, names: Sequence[str]) -> Rejected:
        """A row of this table with the reason why it is left out."""
        file, number = divmod(int(self.where[row]), FILE)
        values: Any = self.table.slice(row, 1).to_pylist()[0]
        if row in self.unread:
            _, text, column = self.unread[row]
            values = text if column is None else values | {column: text}
        return Rejected(names[file], number + 1, self._line(row), reason, json.dumps(values, default=str))

    def _lines_of(self, where: NDArray[np.int64]) -> tuple[tuple[int, Callable[[int], int]], ...]:
        """Functions for these rows; each holds a block of text, which must not stay longer than its rows."""
        if not len(where):
            return ()
        starts = [start for start, _ in self.lines]
        first, last = bisect.bisect_right(starts, where.min()), bisect.bisect_right(starts, where.max())
        return self.lines[max(0, first - 1) : last]

    def _line(self, row: int) -> int | None:
        at = bisect.bisect_right([start for start, _ in self.lines], self.where[row]) - 1
        if at < 0 or self.lines[at][0] // FILE != self.where[row] // FILE:
            return None
        start, line = self.lines[at]
        return line(int(self.where[row]) - start)


def _of_one_encoding(tables: list[pa.Table]) -> list[pa.Table]:
    """Tables in which no column is a dictionary here and plain there, which Arrow does not put together."""
    for j, name in enumerate(tables[0].column_names):
        types = [table.schema.field(name).type for table in tables]
        if any(map(kind.is_dictionary, types)) and len(set(types)) > 1:
            tables = [table.set_column(j, name, one_chunk(table[name])) for table in tables]
    return tables


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows of all parts, one after the other."""
    if len(parts) == 1:
        return parts[0]
    unread: dict[int, Unread] = {}
    start = 0
    for part in parts:
        unread |= {row + start: what for row, what in part.unread.items()}
        start += len(part)
    return Rows(
        pa.concat_tables(_of_one_encoding([part.table for part in parts]), promote_options="permissive"),
        np.concatenate([part.where for part in parts]),
        unread,
        tuple(dict.fromkeys(entry for part in parts for entry in part.lines)),
    )
