"""Split files into parts for parallel workers: about equal in bytes, and no node in two of them."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probi.io.node_assembler import Counts, NodeAssembler, Position
from probi.io.reader import Reader
from probi.io.rows import FILE, Rows, joined
from probi.tables.columns import Columns
from probi.tables.to_arrays import has_ids, node_starts
from probi.validation import check_count

# Rows before a boundary that are searched for an id. Usually the last one has it.
LOOK_BACK = (1, 1 << 10, 1 << 20)


class Part(NamedTuple):
    """Where to start and stop reading; None is the end."""

    start: Position
    stop: Position | None


def cut(reader: Reader, part_bytes: int) -> list[Part]:
    """Split into parts of at least ``part_bytes`` each; the split depends only on the files.

    Files are cut where that is cheap: Parquet between row groups, NPY anywhere, others not at all.
    """
    check_count("part_bytes", part_bytes)
    boundaries, size = [Position()], 0
    for file in range(len(reader.sources)):
        for row, n_bytes in reader.opened(file).pieces:
            if size >= part_bytes:
                boundaries.append(Position(file, row))
                size = 0
            size += n_bytes
    return [Part(start, stop) for start, stop in zip(boundaries, [*boundaries[1:], None], strict=True)]


def without_torn_nodes(reader: Reader, part: Part) -> Part:
    """The same part from the first node that begins in it to the end of the last one.

    Both parts at a boundary move it to the same row, so each node is in one part.
    """
    stop = None if part.stop is None else _node_boundary(reader, part.stop)
    return Part(_node_boundary(reader, part.start), stop)


def _node_boundary(reader: Reader, boundary: Position) -> Position:
    """Where the first node at or after a boundary begins."""
    columns = reader.columns
    if columns.layout == "groups":
        size = columns.group_size or 1
        return Position(boundary.file, -(-boundary.row // size) * size)
    if columns.layout != "long" or boundary == Position():
        return boundary
    ids = replace(columns, features=(), points=None, probability=None, weight=None)
    for n_back in LOOK_BACK:
        start = _back(reader, boundary, n_back)
        position = _first_node(reader, ids, start, boundary)
        if position is not None:
            return position
    return boundary


def _back(reader: Reader, boundary: Position, n_rows: int) -> Position:
    """Position ``n_rows`` before a boundary, also in earlier files whose lengths are known."""
    file, row = boundary
    while row < n_rows and file > 0:
        n_before = reader.opened(file - 1).n_rows
        if n_before is None:
            break
        n_rows -= row
        file, row = file - 1, n_before
    return Position(file, max(0, row - n_rows))


def _first_node(reader: Reader, ids: Columns, start: Position, boundary: Position) -> Position | None:
    """Where the first node at or after a boundary begins; None if no row from start to boundary has an id."""
    rows: Rows | None = None
    for more in NodeAssembler(reader, start, Counts()).rows(ids, start):
        rows = more if rows is None else joined([rows, more])
        first = np.searchsorted(rows.where, boundary.file * FILE + boundary.row)
        known = has_ids(rows.table, ids)
        if start < boundary and first > 0 and not known[:first].any():
            return None
        # A row without an id belongs to the node on both sides of it, so only rows up to the last id are decided.
        starts = node_starts(rows.table, ids)
        starts = starts[(starts >= first) & (starts <= np.max(np.flatnonzero(known), initial=-1))]
        if len(starts):
            return Position(*divmod(int(rows.where[starts[0]]), FILE))
    return Position(len(reader.sources), 0)
