"""Parts of files for workers that read at the same time: about equal in bytes, and no node is torn between two."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probi.io.node_assembler import Assembly, Counts, Position
from probi.io.reader import Reader
from probi.io.rows import FILE, Rows, joined
from probi.tables.columns import Columns
from probi.tables.to_arrays import has_ids, node_starts
from probi.validation import check_count

# Rows before a border that are looked at for an id. Most often the last one has it.
LOOK_BACK = (1, 1 << 10, 1 << 20)


class Part(NamedTuple):
    """From where on to read, and up to where; None is the end."""

    start: Position
    stop: Position | None


def cut(reader: Reader, part_bytes: int) -> list[Part]:
    """Parts of at least so many bytes each, if there are so many; they depend on the files alone.

    Files are cut where that is cheap: Parquet between row groups, NPY anywhere, others not at all.
    """
    check_count("part_bytes", part_bytes)
    borders, size = [Position()], 0
    for file in range(len(reader.sources)):
        for row, n_bytes in reader.opened(file).pieces:
            if size >= part_bytes:
                borders.append(Position(file, row))
                size = 0
            size += n_bytes
    return [Part(start, stop) for start, stop in zip(borders, [*borders[1:], None], strict=True)]


def without_torn_nodes(reader: Reader, part: Part) -> Part:
    """The same part from the first node that begins in it to the end of the last one.

    Both neighbours of a border find the same place for it, so each node is in one part.
    """
    stop = None if part.stop is None else _node_border(reader, part.stop)
    return Part(_node_border(reader, part.start), stop)


def _node_border(reader: Reader, border: Position) -> Position:
    """Where the first node begins at or after a border."""
    columns = reader.columns
    if columns.layout == "groups":
        size = columns.group_size or 1
        return Position(border.file, -(-border.row // size) * size)
    if columns.layout != "long" or border == Position():
        return border
    ids = replace(columns, features=(), points=None, probability=None, weight=None)
    for n_back in LOOK_BACK:
        start = _back(reader, border, n_back)
        found = _first_node(reader, ids, start, border)
        if found is not None:
            return found
    return border


def _back(reader: Reader, border: Position, n_rows: int) -> Position:
    """So many rows before a border, also in files before it, as far as their lengths are known."""
    file, row = border
    while row < n_rows and file > 0:
        n_before = reader.opened(file - 1).n_rows
        if n_before is None:
            break
        n_rows -= row
        file, row = file - 1, n_before
    return Position(file, max(0, row - n_rows))


def _first_node(reader: Reader, ids: Columns, start: Position, border: Position) -> Position | None:
    """Where the first node begins at or after a border; None if rows from the start to the border have no id."""
    rows: Rows | None = None
    for more in _rows(reader, ids, start):
        rows = more if rows is None else joined([rows, more])
        first = np.searchsorted(rows.where, border.file * FILE + border.row)
        known = has_ids(rows.table, ids)
        if start < border and first > 0 and not known[:first].any():
            return None
        # What follows a row with an id is known; a row without one belongs to what stands on both sides of it.
        starts = node_starts(rows.table, ids)
        starts = starts[(starts >= first) & (starts <= np.max(np.flatnonzero(known), initial=-1))]
        if len(starts):
            return Position(*divmod(int(rows.where[starts[0]]), FILE))
    return Position(len(reader.sources), 0)


def _rows(reader: Reader, columns: Columns, start: Position) -> Iterator[Rows]:
    kinds = Assembly(reader, start, Counts())
    for file in range(start.file, len(reader.sources)):
        for chunk in reader.opened(file).chunks(columns, start.row if file == start.file else 0):
            kinds.check_types(chunk.table.schema, file)
            yield chunk.of_file(file, columns.file, str(reader.sources[file]))
