"""One pass over files: rows in, whole nodes out, and every row accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kind
from numpy.typing import NDArray

from probi.errors import InputError
from probi.io.chunks import COORDINATES, Chunk
from probi.io.faults import Fault, find_faults
from probi.io.rows import FILE, Rejected, Rows, joined
from probi.io.seen import Seen
from probi.nodes import Nodes
from probi.tables.columns import is_text
from probi.tables.flat import flatten, has_ids, labels, node_starts, one_chunk

if TYPE_CHECKING:
    from probi.io.reader import Reader

KINDS_OF_IDS = {
    "text": is_text,
    "whole numbers": kind.is_integer,
    "numbers": kind.is_floating,
    "dates": kind.is_date,
    "times": kind.is_timestamp,
}


class Position(NamedTuple):
    """Where reading goes on: number of the file, number of the row in it."""

    file: int = 0
    row: int = 0


@dataclass(frozen=True)
class Counts:
    """What became of the rows; ``rows`` is the sum of the others but ``nodes``."""

    rows: int = 0
    nodes: int = 0
    used: int = 0
    missing: int = 0  # left out for a value that is not there
    rejected: int = 0  # left out as bad, or with a bad one
    incomplete: int = 0  # last rows of a file, too few for a group


@dataclass(frozen=True)
class Batch:
    r"""Nodes, and where they come from.

    Attributes
    ----------
    nodes : Nodes
        Whole ones.
    where : ndarray of shape (n_nodes,)
        Row of the first realization of each node, from 0 on, plus 2 ** 44 times the number of its file.
    position : tuple of int
        Where reading goes on after them: number of the file, number of the row in it.
    counts : Counts
        Rows and nodes up to here, and what became of the rows.
    rejected : tuple
        Rows that were left out, each with its file, its number and the reason.
    fraction : float or None
        How much of the input has been read, where that is known.
    edges : tuple of str or None
        In a long table: ids of the first and last row that has one.
    seen : Seen or None
        In a long table: the ids up to here, by which a node that comes back is noticed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import probi.io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "sensors.csv"
    ...     _ = path.write_text("id,x\na,0\na,1\nb,9\n")
    ...     batches = list(probi.io.read(path, layout="long").batches())
    >>> [(len(batch.nodes), batch.where.tolist(), batch.counts.rows) for batch in batches]
    [(1, [0], 2), (1, [2], 3)]
    """

    nodes: Nodes
    where: NDArray[np.int64]
    position: Position
    counts: Counts
    rejected: tuple[Rejected, ...] = ()
    fraction: float | None = None
    edges: tuple[str, str] | None = None
    seen: Seen | None = None


@dataclass
class Assembly:
    """One pass over the files: rows in, whole nodes out."""

    reader: Reader
    start: Position
    counts: Counts
    stop: Position | None = None  # where a node begins that is not ours any more
    seen: Seen = field(default_factory=Seen)
    fraction: float | None = None
    id_types: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A part may begin with another file than the first. What types a CSV file has is settled while it is read.
        if self.reader.sources[0].format != "csv":
            self.check_types(self.reader.schema, 0)

    def batches(self) -> Iterator[Batch]:
        """Whole nodes, from the start on; where there is none, at least the counts."""
        columns = self.reader.columns
        # In the other layouts rows of a node always stand together.
        gather = self.reader.options.gather and columns.layout == "long"
        start = Position() if gather else self.start
        waiting: list[Rows] = []
        for file in range(start.file, len(self.reader.sources)):
            if self.stop is not None and Position(file, 0) >= self.stop:
                break
            opened = self.reader.opened(file)
            skip = start.row if file == start.file else 0
            for chunk in _up_to(opened.chunks(columns, skip), file, self.stop):
                self.check_types(chunk.table.schema, file)
                self.fraction = self.reader.fraction(file, chunk.done, opened.total)
                if gather:
                    waiting.append(Rows.of_chunk(chunk, file))
                    continue
                rows = joined([*waiting, Rows.of_chunk(chunk, file)])
                end = self._end_of_whole_nodes(rows)
                if end:
                    yield self._batch(rows.cut(0, end))
                waiting = [rows.cut(end, len(rows))] if end < len(rows) else []
            if columns.layout == "groups" and waiting:
                yield self._incomplete(waiting.pop())
        if waiting and gather:
            yield from self._gathered(joined(waiting), self.start.row)
        elif waiting:
            yield self._batch(waiting.pop())

    def check_types(self, schema: pa.Schema, file: int) -> None:
        """Raise if ids of a file are of another kind than those before: the same id would be two."""
        for name in self.reader.columns.ids:
            type = schema.field(name).type
            type = type.value_type if kind.is_dictionary(type) else type
            if kind.is_null(type):
                continue
            what = next((what for what, fits in KINDS_OF_IDS.items() if fits(type)), str(type))
            before = self.id_types.setdefault(name, what)
            if what != before:
                raise InputError(
                    f"{self._names[file]} has {what} in column {name!r}, where the files before have {before}. "
                    "Make them the same."
                )

    def _end_of_whole_nodes(self, rows: Rows) -> int:
        """Rows up to here make whole nodes; those after it may go on."""
        columns, most = self.reader.columns, self.reader.options.most_node_rows
        if columns.layout == "groups":
            return len(rows) - len(rows) % (columns.group_size or 1)
        if columns.layout != "long":
            return len(rows)
        known = np.flatnonzero(has_ids(rows.table, columns))
        if not len(known):
            return len(rows)
        starts = node_starts(rows.table, columns)
        # The node of the last row with an id may go on, also after rows without one.
        end = int(starts[np.searchsorted(starts, known[-1], side="right") - 1])
        if known[-1] - end >= most:
            raise InputError(f"{rows.rejected(end, 'begins a node', self._names)} {_too_many(most)}")
        return end if len(rows) - end <= most else len(rows)

    @property
    def _names(self) -> list[str]:
        return [str(source) for source in self.reader.sources]

    def _gathered(self, rows: Rows, start: int) -> Iterator[Batch]:
        """Rows of a node put together, nodes in the order of their first rows, in which also the position counts."""
        columns = self.reader.columns
        codes = np.zeros(len(rows), np.int64)
        for name in columns.ids:
            code = one_chunk(rows.table[name]).dictionary_encode("encode").indices
            _, codes = np.unique(codes * len(rows) + np.asarray(code), return_inverse=True)
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        rows = rows.taken(np.argsort(first[inverse], kind="stable"))
        starts = np.append(node_starts(rows.table, columns), len(rows))
        step = max(1, COORDINATES // len(columns.features))
        while start < len(rows):
            stop = int(starts[np.searchsorted(starts, min(start + step, len(rows)))])
            yield replace(self._batch(rows.cut(start, stop)), position=Position(0, stop))
            start = stop

    # -- whole nodes --------------------------------------------------------------------------------------------------

    def _batch(self, rows: Rows) -> Batch:
        """Nodes of rows; where that fails, of those rows that can be used."""
        starts = node_starts(rows.table, self.reader.columns)
        known = [Fault(row, what.reason) for row, what in rows.unread.items()] + self._returning(rows, starts)
        out = _LeftOut({}, set())
        while True:  # what is left without the rows that lack a value may have other faults
            kept, firsts = _left(rows, starts, out)
            try:
                if any(fault.row not in out.reasons for fault in known):
                    raise InputError("Rows could not be read.")
                nodes = self._nodes(kept, firsts)
                break
            except (InputError, pa.ArrowException) as error:
                faults = self._faults(kept, firsts, rows, known, out)
                if not faults:
                    raise InputError(f"{self._span(kept)}: {error}") from None
                self._leave_out(out, rows, starts, faults)
        self._count(len(rows), len(nodes), len(kept), len(out.missing), len(out.reasons) - len(out.missing))
        file, row = divmod(int(rows.where.max()) + 1, FILE)
        rejected = tuple(rows.rejected(row, out.reasons[row], self._names) for row in sorted(out.reasons))
        seen = self.seen.copy() if self.reader.columns.layout == "long" else None
        return Batch(
            nodes, kept.where[firsts], Position(file, row), self.counts, rejected, self.fraction, self._edges(rows),
            seen,
        )  # fmt: skip

    def _edges(self, rows: Rows) -> tuple[str, str] | None:
        columns = self.reader.columns
        if columns.layout != "long":
            return None
        known = np.flatnonzero(has_ids(rows.table, columns))
        if not len(known):
            return None
        ids = labels(rows.table, columns.ids, known[[0, -1]])
        assert ids is not None  # a long table has ids
        return _shown(ids[0]), _shown(ids[1])

    def _faults(
        self, kept: Rows, firsts: NDArray[np.int64], rows: Rows, known: list[Fault], out: _LeftOut
    ) -> list[Fault]:
        """Faults of what is left of the rows, by row; the known ones are told first."""
        reader = self.reader
        number = out.staying(len(rows)).tolist()
        found = find_faults(kept.table, reader.columns, firsts, reader.options.lonlat, reader.dtype)
        faults = {number[fault.row]: fault._replace(row=number[fault.row]) for fault in found}
        faults |= {fault.row: fault for fault in known if fault.row not in out.reasons}
        return [faults[row] for row in sorted(faults)]

    def _nodes(self, rows: Rows, starts: NDArray[np.int64]) -> Nodes:
        options, columns = self.reader.options, self.reader.columns
        flat = flatten(rows.table, columns, self.reader.dtype, starts)
        if options.lonlat is not None:
            _check_degrees(flat.points, columns.features, options.lonlat)
        if not has_ids(rows.table, columns).all():
            raise InputError("An id is missing.")
        nodes = Nodes(flat.points, flat.probabilities, flat.offsets, flat.weights, flat.ids)
        sizes = np.diff(nodes.offsets)
        if len(sizes) and sizes.max() > options.most_node_rows:
            row = int(sizes.argmax()) if columns.layout == "nested" else int(starts[sizes.argmax()])
            raise InputError(f"{rows.rejected(row, 'begins a node', self._names)} {_too_many(options.most_node_rows)}")
        return nodes

    def _returning(self, rows: Rows, starts: NDArray[np.int64]) -> list[Fault]:
        """Nodes of a long table that have been before."""
        if self.reader.columns.layout != "long":
            return []
        starts = starts[has_ids(rows.table, self.reader.columns)[starts]]
        ids = labels(rows.table, self.reader.columns.ids, starts)
        assert ids is not None  # a long table has ids
        again = self.seen.again(ids)
        return [
            Fault(
                int(starts[node]),
                "does not stand together with the other rows of its node",
                advice="Sort the file by the column of ids, or let probi put them together in memory: --gather.",
            )
            for node in np.flatnonzero(again)
        ]

    def _leave_out(self, out: _LeftOut, rows: Rows, starts: NDArray[np.int64], faults: list[Fault]) -> None:
        """Leave out rows and nodes as the options say; where they say nothing, this is the end.

        What lacks a value goes first: what else is wrong with it does not matter then.
        """
        options = self.reader.options
        if options.missing != "error":
            faults = [fault for fault in faults if fault.missing] or faults
        stops = np.append(starts[1:], len(rows))
        for fault in faults:
            if fault.missing and options.missing == "skip-row":
                gone = range(fault.row, fault.row + 1)
            elif (fault.missing and options.missing == "skip-node") or options.on_bad == "skip":
                node = int(np.searchsorted(starts, fault.row, side="right")) - 1
                gone = range(int(starts[node]), int(stops[node]))
            else:
                reason = self._of_node(rows, fault.row) + fault.reason
                raise InputError(_sentence(rows.rejected(fault.row, reason, self._names), fault))
            number = int(rows.where[fault.row]) % FILE + 1
            new = [row for row in gone if row not in out.reasons]
            if fault.missing and options.missing != "error":
                out.missing.update(new)
            out.reasons.update(dict.fromkeys(new, f"belongs to a node that is left out for row {number}"))
            out.reasons[fault.row] = fault.reason

    def _of_node(self, rows: Rows, row: int) -> str:
        """To which node a row belongs, where its id tells, as part of a sentence."""
        columns, one = self.reader.columns, rows.table.slice(row, 1)
        ids = labels(one, columns.ids)
        return f"of node {_shown(ids[0])} " if ids is not None and has_ids(one, columns)[0] else ""

    def _incomplete(self, rows: Rows) -> Batch:
        """Last rows of a file that are no group."""
        reason = f"is one of {len(rows)} last rows, too few for a group of {self.reader.columns.group_size}"
        rejected = tuple(rows.rejected(row, reason, self._names) for row in range(len(rows)))
        self.counts = replace(
            self.counts, rows=self.counts.rows + len(rows), incomplete=self.counts.incomplete + len(rows)
        )
        file = int(rows.where[0]) // FILE
        nodes = Nodes(np.empty((0, len(self.reader.columns.features)), self.reader.dtype), None, [0])
        return Batch(nodes, rows.where[:0], Position(file + 1, 0), self.counts, rejected, self.fraction)

    def _count(self, rows: int, nodes: int, used: int, missing: int, rejected: int) -> None:
        new = Counts(rows, nodes, used, missing, rejected)
        self.counts = Counts(**{name: getattr(self.counts, name) + value for name, value in asdict(new).items()})

    def _span(self, rows: Rows) -> str:
        first, last = int(rows.where.min()), int(rows.where.max())
        return f"{self._names[first // FILE]}, rows {first % FILE + 1} to {last % FILE + 1}"


def _up_to(chunks: Iterator[Chunk], file: int, stop: Position | None) -> Iterator[Chunk]:
    """Chunks of a file, and no row of it from the stop on."""
    for chunk in chunks:
        n_left = chunk.table.num_rows if stop is None or stop.file != file else stop.row - chunk.row
        if n_left < chunk.table.num_rows:
            if n_left > 0:
                unread = {row: what for row, what in chunk.unread.items() if row < n_left}
                yield replace(chunk, table=chunk.table.slice(0, n_left), unread=unread)
            return
        yield chunk


class _LeftOut(NamedTuple):
    """Rows that are left out, with the reason, and those of them for a missing value."""

    reasons: dict[int, str]
    missing: set[int]

    def staying(self, n_rows: int) -> NDArray[np.int64]:
        """Numbers of the other rows."""
        return np.setdiff1d(np.arange(n_rows), list(self.reasons))


def _left(rows: Rows, starts: NDArray[np.int64], out: _LeftOut) -> tuple[Rows, NDArray[np.int64]]:
    """Rows that stay, and the first rows of their nodes."""
    if not out.reasons:
        return rows, starts
    stay = out.staying(len(rows))
    _, firsts = np.unique(np.searchsorted(starts, stay, side="right"), return_index=True)
    return rows.taken(stay), firsts


def _sentence(rejected: Rejected, fault: Fault) -> str:
    if fault.missing:
        return f"{rejected}. Fill it in, or leave such rows or nodes out: --missing skip-row, --missing skip-node."
    return f"{rejected}. {fault.advice}"


def _too_many(most: int) -> str:
    return f"of more than {most:,} rows. Is the column of ids right? If so, allow more: --max-node-rows."


def _shown(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)


def _check_degrees(points: Any, features: tuple[str, ...], lonlat: tuple[str, str]) -> None:
    for name, most in zip(lonlat, (360.0, 90.0), strict=True):
        if name in features and not np.abs(points[:, features.index(name)]).max(initial=0.0) <= most:
            raise InputError(f"{name!r} is not in degrees.")
