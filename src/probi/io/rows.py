"""Rows of files on their way to nodes: the origin of each, and what could not be read."""

import bisect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probi._types import Integers
from probi.tables.to_arrays import one_chunk

# One integer identifies a row: the number of its file times FILE, plus its number there.
FILE = 1 << 44

LineFinder = Callable[[int], int]  # from a row of a block of text to its line in the file

# Column of whole lines that could not be read; no column of a file has this name.
LINE = ""


class Rejected(NamedTuple):
    """A row that is in no node, with the reason; rows count from 1."""

    file: str
    row: int
    line: int | None
    kind: str  # what is wrong, in words that all such rows share
    reason: str  # what is wrong with this one
    values: str

    def __str__(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.file}, row {self.row}{line} {self.reason}"


@dataclass(frozen=True)
class Rows:
    """A table and where its rows come from.

    ``unread`` holds the bytes of cells that could not be read, by column and row, where the table has nulls; of a line
    with too few or too many cells all of it and the reason, in the column LINE. None: everything could be read.
    """

    table: pa.Table
    where: Integers  # (n_rows,) file * FILE + row, from 0 on
    unread: pa.Table | None = None
    lines: tuple[tuple[int, LineFinder], ...] = ()  # from where on, and a function from a row to its line
    done: int = 0  # how far in its file the last row is, in bytes, rows or batches

    @classmethod
    def starting_at(
        cls, row: int, table: pa.Table, done: int, unread: pa.Table | None = None, line: LineFinder | None = None
    ) -> "Rows":
        """Rows of a file from this one on."""
        return cls(table, np.arange(row, row + table.num_rows), unread, () if line is None else ((row, line),), done)

    def of_file(self, file: int, column: str | None, name: str) -> "Rows":
        """The same rows with the number of their file, whose name is added as a column if one is given."""
        table, start = self.table, file * FILE
        if column is not None:
            table = table.add_column(0, column, pa.repeat(name, table.num_rows))
        lines = tuple((row + start, line) for row, line in self.lines)
        return replace(self, table=table, where=self.where + start, lines=lines)

    def __len__(self) -> int:
        return len(self.where)

    def cut(self, start: int, stop: int) -> "Rows":
        """Rows start:stop."""
        where = self.where[start:stop]
        unread = None if self.unread is None else _unless_empty(self.unread.slice(start, stop - start))
        return Rows(self.table.slice(start, stop - start), where, unread, self._lines_of(where), self.done)

    def taken(self, index: Integers) -> "Rows":
        """Rows with these numbers, each at most once."""
        chosen = pa.array(index)
        unread = None if self.unread is None else _unless_empty(self.unread.take(chosen))
        return Rows(self.table.take(chosen), self.where[index], unread, self.lines, self.done)

    def rejected(self, row: int, kind: str, reason: str, names: Sequence[str]) -> Rejected:
        """A row of this table with the reason why it is left out."""
        file, number = divmod(int(self.where[row]), FILE)
        values: Any = self.table.slice(row, 1).to_pylist()[0]
        for column, cell in ({} if self.unread is None else self.unread.slice(row, 1).to_pylist()[0]).items():
            if cell is not None and column == LINE:
                values = text_of(cell["line"])
            elif cell is not None:
                values[column] = text_of(cell)
        return Rejected(names[file], number + 1, self._line(row), kind, reason, json.dumps(values, default=str))

    def _lines_of(self, where: Integers) -> tuple[tuple[int, LineFinder], ...]:
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


def text_of(cell: bytes) -> str:
    """Text of a cell; bytes that are not UTF-8 are replaced."""
    return cell.decode("utf-8", "replace")


def _unless_empty(unread: pa.Table) -> pa.Table | None:
    return unread if any(column.null_count < len(column) for column in unread.columns) else None


def _joined_unread(parts: Sequence[Rows]) -> pa.Table | None:
    """What could not be read of all parts; nulls where a part was read."""
    types = {field.name: field.type for part in parts if part.unread is not None for field in part.unread.schema}
    if not types:
        return None
    tables = []
    for part in parts:
        there = {} if part.unread is None else dict(zip(part.unread.column_names, part.unread.columns, strict=True))
        tables.append(pa.table({name: there.get(name, pa.nulls(len(part), type)) for name, type in types.items()}))
    return pa.concat_tables(tables)


def _of_one_encoding(tables: list[pa.Table]) -> list[pa.Table]:
    """Decode columns that are a dictionary in some tables only, which Arrow does not concatenate."""
    for j, name in enumerate(tables[0].column_names):
        types = [table.schema.field(name).type for table in tables]
        if any(map(pa.types.is_dictionary, types)) and len(set(types)) > 1:
            tables = [table.set_column(j, name, one_chunk(table[name])) for table in tables]
    return tables


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        pa.concat_tables(_of_one_encoding([part.table for part in parts]), promote_options="permissive"),
        np.concatenate([part.where for part in parts]),
        _joined_unread(parts),
        tuple(dict.fromkeys(entry for part in parts for entry in part.lines)),
    )
