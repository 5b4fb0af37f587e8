"""One pass over files: rows in, whole nodes out, and every row accounted for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from probi._types import Integers, Mask
from probi.errors import InputError, ProbiError
from probi.io.formats.base import COORDINATES, load_format, naming_errors
from probi.io.options import Options
from probi.io.recent_ids import RecentIds
from probi.io.rows import FILE, Rejected, RowErrors, Rows, add_unread, concat_rows, find_row_errors, valid_range
from probi.nodes import Nodes
from probi.tables.columns import Columns, kind_of
from probi.tables.to_arrays import (
    check_id_lengths,
    first_rows,
    flatten,
    has_ids,
    ids_of,
    kept_starts,
    list_lengths,
    node_starts,
    without_missing,
)

if TYPE_CHECKING:
    from probi.io.reader import Reader

# Rows listed per kind of error; all are counted.
MAX_LISTED = 1000
# Kinds of errors named in one sentence.
MAX_KINDS = 10

MISSING_ADVICE = "Fill it in, or skip such rows or nodes with --missing skip-row or --missing skip-node."

NOTHING = "no realization with all its values"


class Position(NamedTuple):
    """Where reading resumes: number of the file, number of the row in it."""

    file: int = 0
    row: int = 0


class Part(NamedTuple):
    """What a worker reads: from where on, and where the first node begins that it does not read (None: to the end)."""

    start: Position
    stop: Position | None


@dataclass(frozen=True)
class Counts:
    """What became of the rows; ``rows`` is the sum of used, missing, rejected and incomplete ones."""

    rows: int = 0
    nodes: int = 0
    used: int = 0
    missing: int = 0  # left out for a missing value
    rejected: int = 0  # left out as bad, or with a bad one
    incomplete: int = 0  # last rows of a file, too few for a group
    left_out: dict[str, int] = field(default_factory=dict)  # rows that are in no node, by what is wrong with them
    normalized: int = 0  # nodes whose probabilities were divided by their sum, which rounding had put above 1
    absent: int = 0  # realizations in lists that lack a value and count as absent, with missing="absent"

    def __add__(self, other: Counts) -> Counts:
        left_out = Counter(self.left_out) + Counter(other.left_out)
        names = [entry.name for entry in fields(self) if entry.name != "left_out"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Counts(**sums, left_out=dict(sorted(left_out.items())))  # the same order for any batches


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
        Where reading continues after them: number of the file, number of the row in it.
    counts : Counts
        Rows and nodes up to here, and what became of the rows.
    left_out : ndarray
        Rows that are in no node, numbered as in ``where``.
    rejected : tuple
        The first 1,000 of them for each kind of reason, over all batches, with file, number and reason.
    fraction : float or None
        How much of the input has been read, where that is known.
    edges : tuple of str or None
        In a long table: ids of the first and last row that has one.
    seen : RecentIds or None
        In a long table: the ids up to here, which reveal rows that are not contiguous.

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
    where: Integers
    position: Position
    counts: Counts
    left_out: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    rejected: tuple[Rejected, ...] = ()
    fraction: float | None = None
    edges: tuple[str, str] | None = None
    seen: RecentIds | None = None


@dataclass
class NodeAssembler:
    """One pass over the files: rows in, whole nodes out."""

    reader: Reader
    start: Position
    counts: Counts
    stop: Position | None = None  # start of the first node that is not read
    list_scattered: bool = False  # leave out rows that are not contiguous with their node, instead of an error
    seen: RecentIds | None = None  # of a long table

    def __post_init__(self) -> None:
        self._names = [str(source) for source in self.reader.sources]
        self._file = self.start.file  # that is being read
        self._id_types: dict[str, str] = {}
        # A part may begin with a later file. Types of text files are known only while they are read.
        if not load_format(self.reader.sources[0].format).is_text:
            self._check_types(self.reader.schema, 0)

    def batches(self) -> Iterator[Batch]:
        """Yield whole nodes; if there are none, one batch with the counts. Every error is one of probi."""
        try:
            yield from self._batches()
        except ProbiError:
            raise
        except Exception:
            with naming_errors(self.reader.sources[self._file]):
                raise

    def _batches(self) -> Iterator[Batch]:
        columns = self.reader.columns
        # In the other layouts rows of a node are always contiguous.
        if self.reader.options.gather and columns.layout == "long":
            parts = list(self.rows(columns, Position()))
            if parts:
                yield from self._gathered(concat_rows(parts), self.start.row)
            return
        finish = self._incomplete if columns.layout == "groups" else self._batch
        waiting: list[Rows] = []
        for new in self.rows(columns, self.start):
            if waiting and columns.layout == "groups" and waiting[0].file != new.file:
                yield finish(waiting.pop())
            rows = concat_rows([*waiting, new])
            end = self._end_of_whole_nodes(rows)
            if end:
                yield self._batch(rows.cut(0, end))
            waiting = [rows.cut(end, len(rows))] if end < len(rows) else []
        if waiting:
            yield finish(waiting.pop())

    def rows(self, columns: Columns, start: Position) -> Iterator[Rows]:
        """Yield the rows of all files from a position on, and none from the stop on."""
        for file in range(start.file, len(self.reader.sources)):
            if self.stop is not None and Position(file, 0) >= self.stop:
                return
            self._file = file
            opened = self.reader.opened(file)
            for chunk in opened.chunks(columns, start.row if file == start.file else 0):
                first = int(chunk.where[0])
                last = self.stop.row if self.stop is not None and self.stop.file == file else first + len(chunk)
                if last <= first:
                    return
                self._check_types(chunk.table.schema, file)
                with naming_errors(self.reader.sources[file]):
                    check_id_lengths(chunk.table, columns.stored_ids)
                fraction = self.reader.fraction(file, chunk.done, opened.total)
                yield chunk.cut(0, last - first).of_file(file, columns.file, self._names[file], fraction)
            self.reader.check_unchanged(file)

    def _check_types(self, schema: pa.Schema, file: int) -> None:
        """Raise if the ids of a file have another type than those before: one id would become two."""
        for name in self.reader.columns.stored_ids:
            now = kind_of(schema.field(name).type, is_id=True)
            before = now if now is None else self._id_types.setdefault(name, now)
            if now != before:
                raise InputError(
                    f"{self._names[file]} has {now} in column {name!r}, where the files before have {before}. "
                    "Make them the same."
                )

    def _end_of_whole_nodes(self, rows: Rows) -> int:
        """Return where the last node begins that may continue in the next rows."""
        columns, max_rows = self.reader.columns, self.reader.options.max_node_rows
        if columns.layout == "groups":
            return len(rows) - len(rows) % (columns.group_size or 1)
        if columns.layout != "long":
            return len(rows)
        has_id = has_ids(rows.table, columns)
        with_id = np.flatnonzero(has_id)
        if not len(with_id):
            return len(rows)
        starts = node_starts(rows.table, columns, has_id)
        # The node of the last row with an id may continue, also after rows without one.
        end = int(starts[np.searchsorted(starts, with_id[-1], side="right") - 1])
        if with_id[-1] - end >= max_rows:
            raise InputError(f"{self._where(rows, end)} begins a node {_too_many(max_rows)}")
        return end if len(rows) - end <= max_rows else len(rows)

    def _gathered(self, rows: Rows, start: int) -> Iterator[Batch]:
        """Group rows by node, nodes in the order of their first rows; positions count in this order."""
        columns = self.reader.columns
        first = first_rows(rows.table, columns.ids)
        elsewhere = rows.where // FILE != rows.where[first] // FILE
        self.reader.n_across_files = len(np.unique(first[elsewhere]))
        rows = rows.take(np.argsort(first, kind="stable"))
        starts = np.append(node_starts(rows.table, columns), len(rows))
        step = max(1, COORDINATES // len(columns.features))
        while start < len(rows):
            stop = int(starts[np.searchsorted(starts, min(start + step, len(rows)))])
            yield replace(self._batch(rows.cut(start, stop)), position=Position(0, stop))
            start = stop

    # -- whole nodes --------------------------------------------------------------------------------------------------

    def _batch(self, rows: Rows) -> Batch:
        """Make nodes of rows; leave out rows with errors where the options allow it."""
        has_id = has_ids(rows.table, self.reader.columns)
        starts = node_starts(rows.table, self.reader.columns, has_id)
        self._check_sizes(rows, starts)
        n_original, n_absent = np.diff(np.append(starts, len(rows))), 0
        known = RowErrors(len(rows))
        if self.reader.options.missing == "absent" and self.reader.columns.layout == "nested":
            table, n_original, lacking = without_missing(rows.table, self.reader.columns)
            rows, nothing = replace(rows, table=table), lacking == n_original
            known.add(np.flatnonzero(nothing), NOTHING, f"has {NOTHING}", missing=True)
            n_absent = int(lacking[~nothing].sum())
        self._check_contiguous(known, rows, starts, has_id)
        add_unread(known, rows)
        left_out = RowErrors(len(rows))
        while True:  # without the rows that lack a value, the others may have other errors
            stay = left_out.good_rows
            kept, firsts = rows if len(stay) == len(rows) else rows.take(stay), kept_starts(starts, stay)
            try:
                if (known.codes[stay] >= 0).any() or not has_id[stay].all():
                    raise InputError("Rows could not be read, or have no id.")
                node = np.searchsorted(starts, stay[firsts], side="right") - 1
                nodes, n_normalized = self._nodes(kept, firsts, n_original[node])
                break
            except (InputError, pa.ArrowException) as error:
                errors = self._row_errors(kept, firsts, stay, known)
                if not len(errors.rows):
                    raise InputError(f"{self._span(kept)}: {error}") from None
                self._leave_out(left_out, rows, starts, errors)
        n_missing = len(left_out.missing)
        new = Counts(
            len(rows), len(nodes), len(kept), n_missing, len(rows) - len(kept) - n_missing, normalized=n_normalized,
            absent=n_absent,
        )  # fmt: skip
        file, row = divmod(int(rows.where.max()) + 1, FILE)
        rejected = self._count(new, rows, left_out)
        return Batch(
            nodes, kept.where[firsts], Position(file, row), self.counts, rows.where[left_out.rows], rejected,
            rows.fraction, self._edges(rows, has_id), None if self.seen is None else self.seen.copy(),
        )  # fmt: skip

    def _count(self, new: Counts, rows: Rows, left_out: RowErrors) -> tuple[Rejected, ...]:
        """Count rows by what became of them; return the first of each kind that are left out."""
        before = self.counts.left_out
        self.counts += replace(new, left_out=left_out.counts)
        return tuple(
            rows.rejected(row, kind.name, kind.describe(row), self._names)
            for row, kind in left_out.first(lambda name: MAX_LISTED - before.get(name, 0))
        )

    def _edges(self, rows: Rows, has_id: Mask) -> tuple[str, str] | None:
        with_id = np.flatnonzero(has_id)
        if self.reader.columns.layout != "long" or not len(with_id):
            return None
        ids = ids_of(rows.table, self.reader.columns.ids, with_id[[0, -1]])
        return _shown(ids[0]), _shown(ids[1])

    def _row_errors(self, kept: Rows, firsts: Integers, stay: Integers, known: RowErrors) -> RowErrors:
        """Errors of the rows that stay, by their numbers among all; the known ones come first."""
        reader, options = self.reader, self.reader.options
        any_sum = options.probabilities == "normalize"
        of_kept = find_row_errors(kept.table, reader.columns, firsts, options.lonlat, reader.dtype, any_sum)
        errors = RowErrors(len(known.codes))
        bad, kinds = of_kept.rows, [kind._replace(rows=stay[kind.rows]) for kind in of_kept.kinds]
        errors.put(stay[bad], of_kept.codes[bad], kinds)
        unread = stay[known.codes[stay] >= 0]
        errors.put(unread, known.codes[unread], known.kinds)
        return errors

    def _nodes(self, rows: Rows, starts: Integers, n_original: Integers) -> tuple[Nodes, int]:
        """Make nodes; also return how many had probabilities that rounding had put above 1.

        ``n_original`` are the numbers of realizations that the nodes had before some were left out.
        """
        options, columns = self.reader.options, self.reader.columns
        arrays = flatten(rows.table, columns, self.reader.dtype, starts)
        for j, name in enumerate(columns.features):
            degrees = arrays.points[:, j] if name in (options.lonlat or ()) else arrays.points[:0]
            if len(degrees) and not valid_range(name, options.lonlat, self.reader.dtype).holds(degrees):
                raise InputError(f"{name!r} is not in degrees.")
        arrays = arrays.adjusted(n_original, options.missing, options.probabilities)
        nodes, n_normalized = Nodes._checked(*arrays)
        return nodes, n_normalized

    def _check_sizes(self, rows: Rows, starts: Integers) -> None:
        """Raise if a node has more realizations than are allowed, before they are copied."""
        columns, max_rows = self.reader.columns, self.reader.options.max_node_rows
        if columns.layout == "nested":
            sizes = list_lengths(rows.table[columns.list_columns[0]])
        else:
            sizes = np.diff(np.append(starts, len(rows)))
        if len(sizes) and sizes.max() > max_rows:
            row = int(sizes.argmax()) if columns.layout == "nested" else int(starts[sizes.argmax()])
            raise InputError(f"{self._where(rows, row)} begins a node {_too_many(max_rows)}")

    def _check_contiguous(self, errors: RowErrors, rows: Rows, starts: Integers, has_id: Mask) -> None:
        """Raise if a node of a long table was read before, because a part of it is already in use; or list its rows."""
        columns = self.reader.columns
        if columns.layout != "long":
            return
        named = starts[has_id[starts]]
        self.seen = RecentIds() if self.seen is None else self.seen
        again = named[self.seen.seen_before(ids_of(rows.table, columns.ids, named))]
        if not len(again):
            return
        sentence = "is not contiguous with the other rows of its node"
        if not self.list_scattered:
            row = int(again[0])
            several = int(rows.where[row]) // FILE > 0 and columns.file is None
            restart = " If ids restart in each file, pass --id-per-file." if several else ""
            raise InputError(
                f"{self._where(rows, row)} {self._of_node(rows, row)}{sentence}. Sort the file by "
                f"the column of ids, or gather the rows in memory with --gather.{restart}"
            )
        node = np.searchsorted(starts, np.arange(len(rows)), side="right") - 1
        rows_again = np.flatnonzero(np.isin(starts[node], again))
        errors.add(rows_again, "not contiguous with the other rows of their node", sentence)

    def _leave_out(self, left_out: RowErrors, rows: Rows, starts: Integers, errors: RowErrors) -> None:
        """Leave out rows and nodes as the options say, or raise the first error.

        Rows that lack a value go first: their other errors do not matter then.
        """
        options = self.reader.options
        lacking = errors.missing if options.missing != "error" else errors.rows[:0]
        for_missing = len(lacking) > 0
        bad = lacking if for_missing else errors.rows
        if not for_missing and options.on_bad == "stop":
            row = int(bad[0])
            kind = errors.kind_of(row)
            advice = MISSING_ADVICE if kind.missing else kind.advice
            raise InputError(f"{self._where(rows, row)} {self._of_node(rows, row)}{kind.describe(row)}. {advice}")
        if not for_missing or options.missing == "skip-node":
            left_out.add_nodes(bad, starts, rows.where % FILE + 1, for_missing)
        left_out.put(bad, errors.codes[bad], [kind._replace(missing=for_missing) for kind in errors.kinds])

    def _of_node(self, rows: Rows, row: int) -> str:
        """Name the node of a row, as part of a sentence, if the row has an id."""
        columns, one = self.reader.columns, rows.table.slice(row, 1)
        return f"of node {_shown(ids_of(one, columns.ids)[0])} " if columns.ids and has_ids(one, columns)[0] else ""

    def _incomplete(self, rows: Rows) -> Batch:
        """Leave out the last rows of a file, which are too few for a group."""
        sentence = f"is one of {len(rows)} last rows, too few for a group of {self.reader.columns.group_size}"
        left_out = RowErrors(len(rows))
        left_out.add(np.arange(len(rows)), "at the end of a file, too few for a group", sentence)
        rejected = self._count(Counts(len(rows), incomplete=len(rows)), rows, left_out)
        nodes = Nodes(np.empty((0, len(self.reader.columns.features)), self.reader.dtype), None, [0])
        position = Position(rows.file + 1, 0)
        return Batch(nodes, rows.where[:0], position, self.counts, rows.where, rejected, rows.fraction)

    def _where(self, rows: Rows, row: int) -> str:
        """File, row and line, as the start of a sentence."""
        return str(rows.rejected(row, "", "", self._names)).rstrip()

    def _span(self, rows: Rows) -> str:
        first, last = int(rows.where.min()), int(rows.where.max())
        return f"{self._names[first // FILE]}, rows {first % FILE + 1} to {last % FILE + 1}"


def check_left_out(counts: Counts, options: Options) -> None:
    """Raise if more rows were left out than the options allow.

    Those that are too few for a group do not count, nor does what is absent on request.
    """
    n_bad = counts.rejected + (0 if options.missing == "absent" else counts.missing)
    if n_bad <= options.max_bad * counts.rows:
        return
    share = n_bad / counts.rows
    raise InputError(
        f"{n_bad:,} of {counts.rows:,} rows ({share:.1%}) were left out, more than {options.max_bad:.0%}: "
        f"{', '.join(by_kind(counts))}. Fix them, or allow it with --max-bad {math.ceil(share * 100) / 100:g}."
    )


def by_kind(counts: Counts) -> list[str]:
    """Describe what was left out, the most frequent kinds first."""
    kinds = sorted(counts.left_out.items(), key=lambda entry: (-entry[1], entry[0]))
    others = [f"{sum(n for _, n in kinds[MAX_KINDS:]):,} for other reasons"] if len(kinds) > MAX_KINDS else []
    return [f"{n:,} {name}" for name, n in kinds[:MAX_KINDS]] + others


def _too_many(max_rows: int) -> str:
    return f"of more than {max_rows:,} rows. Is the column of ids right? If so, allow more: --max-node-rows."


def _shown(value: Any) -> str:
    return repr(value.item() if isinstance(value, np.generic) else value)
