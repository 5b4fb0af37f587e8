"""Rows of files on their way to nodes: where each comes from, and what is wrong with it."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probi._types import Array, Integers, Mask
from probi.errors import InputError
from probi.tables.columns import Columns, is_list, is_text
from probi.tables.to_arrays import NUMBER, convert_texts, is_view, list_lengths, number_of, numbers, one_chunk
from probi.validation import COORDINATES, LARGEST, PROBABILITIES, WEIGHTS, Range, is_above_1, is_zero, sums_per_node

# One integer identifies a row: the number of its file times FILE, plus its number there.
FILE = 1 << 44

# Column of whole lines that could not be read; no column of a file has this name.
LINE = ""

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
LONGITUDES, LATITUDES = Range(-360.0, 360.0), Range(-90.0, 90.0)


class Rejected(NamedTuple):
    """A row that is in no node, with the reason; rows count from 1."""

    file: str
    row: int
    line: int | None
    kind: str  # of error, the same words for all rows that have it
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
    lines: Integers  # (n_rows,) line in a file of text, from 1 on; 0 in other files
    unread: pa.Table | None = None
    done: int = 0  # how much of its file has been read up to the last row, in bytes, rows or batches
    fraction: float | None = None  # the same for all files together, between 0 and 1

    @classmethod
    def starting_at(
        cls, row: int, table: pa.Table, done: int, unread: pa.Table | None = None, lines: Integers | None = None
    ) -> "Rows":
        """Rows of a file from this one on."""
        lines = np.broadcast_to(np.int64(0), table.num_rows) if lines is None else lines
        for j, name in enumerate(table.schema.names):
            if is_view(table.schema.field(j).type):
                table = table.set_column(j, name, one_chunk(table[j]))
        return cls(table, np.arange(row, row + table.num_rows), lines, unread, done)

    @property
    def file(self) -> int:
        """Number of the file of the first row."""
        return int(self.where[0]) // FILE

    def of_file(self, file: int, column: str | None, name: str, fraction: float | None) -> "Rows":
        """The same rows with the number of their file, whose name is added as a column if one is given."""
        table = self.table
        if column is not None:
            table = table.add_column(0, column, pa.repeat(name, table.num_rows))
        return replace(self, table=table, where=self.where + file * FILE, fraction=fraction)

    def __len__(self) -> int:
        return len(self.where)

    def cut(self, start: int, stop: int) -> "Rows":
        """Rows start:stop."""
        return self._some(lambda table: table.slice(start, stop - start), slice(start, stop))

    def take(self, index: Integers) -> "Rows":
        """Rows with these numbers, each at most once."""
        return self._some(lambda table: table.take(pa.array(index)), index)

    def _some(self, choose: Callable[[pa.Table], pa.Table], index: Any) -> "Rows":
        unread = None if self.unread is None else choose(self.unread)
        if unread is not None and all(column.null_count == len(column) for column in unread.columns):
            unread = None
        return Rows(choose(self.table), self.where[index], self.lines[index], unread, self.done, self.fraction)

    def rejected(self, row: int, kind: str, reason: str, names: Sequence[str]) -> Rejected:
        """A row of this table with the reason why it is left out."""
        file, number = divmod(int(self.where[row]), FILE)
        values: Any = self.table.slice(row, 1).to_pylist()[0]
        for column, cell in ({} if self.unread is None else self.unread.slice(row, 1).to_pylist()[0]).items():
            if cell is not None and column == LINE:
                values = _text_of(cell["line"])
            elif cell is not None:
                values[column] = _text_of(cell)
        line = int(self.lines[row]) or None
        return Rejected(names[file], number + 1, line, kind, reason, json.dumps(values, default=str))


def concat_rows(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows."""
    if len(parts) == 1:
        return parts[0]
    unread = None
    if any(part.unread is not None for part in parts):
        # A table without columns still has rows: they become nulls where a part could be read.
        tables = [part.table.select([]) if part.unread is None else part.unread for part in parts]
        unread = pa.concat_tables(tables, promote_options="default")
    return Rows(
        pa.concat_tables(_with_equal_encodings([part.table for part in parts]), promote_options="permissive"),
        np.concatenate([part.where for part in parts]),
        np.concatenate([part.lines for part in parts]),
        unread,
        fraction=parts[-1].fraction,
    )


def _with_equal_encodings(tables: list[pa.Table]) -> list[pa.Table]:
    """Decode columns that are a dictionary in some tables only, which Arrow does not concatenate."""
    for j, name in enumerate(tables[0].column_names):
        types = [table.schema.field(name).type for table in tables]
        if any(map(pa.types.is_dictionary, types)) and len(set(types)) > 1:
            tables = [table.set_column(j, name, one_chunk(table[name])) for table in tables]
    return tables


def _text_of(cell: bytes) -> str:
    """Text of a cell; bytes that are not UTF-8 are replaced."""
    return cell.decode("utf-8", "replace")


# -- errors -----------------------------------------------------------------------------------------------------------

# Rows that are not bad themselves.
WITH_A_BAD_ONE = "in a node with such a row"


class ErrorKind(NamedTuple):
    """What rows with the same error have in common; a row is described only when it is shown."""

    name: str
    sentence: str | Callable[..., str]  # or a function of what the values hold for a row
    rows: Integers  # in rising order; of a row that has the error several times, the first is described
    values: tuple[Any, ...] = ()  # arrays with an entry for each of the rows
    missing: bool = False  # the row only lacks a value
    advice: str = "Fix the row, or skip its node with --on-bad skip."

    def describe(self, row: int) -> str:
        """What is wrong with a row."""
        if isinstance(self.sentence, str):
            return self.sentence
        at = int(np.searchsorted(self.rows, row))
        return self.sentence(*(values[at] for values in self.values))


class RowErrors:
    """At most one error per row: those that were found, or those for which rows are left out.

    A missing value takes precedence: the row is left out for it, whatever else it holds.
    """

    def __init__(self, n_rows: int) -> None:
        self.kinds: list[ErrorKind] = []
        self.codes = np.full(n_rows, -1, np.int32)  # index into kinds; -1: no error

    def add(
        self, rows: Integers, name: str, sentence: str | Callable[..., str], *values: Any, overrides: bool = False,
        **others: Any,
    ) -> None:  # fmt: skip
        """Add an error of some rows, as in ErrorKind; it ``overrides`` theirs, or applies to those without one."""
        kind = ErrorKind(name, sentence, rows, values, **others)
        if not overrides:
            weaker = np.array([kind.missing and not other.missing for other in self.kinds] + [True])
            rows = rows[weaker[self.codes[rows]]]  # -1 is the last one
        if len(rows):
            self.codes[rows] = len(self.kinds)
            self.kinds.append(kind)

    def put(self, rows: Integers, codes: Array, kinds: Sequence[ErrorKind]) -> None:
        """Replace the errors of some rows by others: indices into these kinds."""
        self.codes[rows] = codes + len(self.kinds)
        self.kinds += kinds

    def add_nodes(self, bad: Integers, starts: Integers, numbers: Integers, missing: bool) -> None:
        """Add all rows of nodes that have a bad one; ``numbers`` are those of the rows in their file."""
        node = np.searchsorted(starts, np.arange(len(self.codes)), side="right") - 1
        first = np.full(len(starts), -1)
        nodes, at = np.unique(node[bad], return_index=True)
        first[nodes] = bad[at]
        others = np.flatnonzero((first[node] >= 0) & (self.codes < 0))
        sentence = "belongs to a node that is left out for row {}".format
        self.add(others, WITH_A_BAD_ONE, sentence, numbers[first[node[others]]], missing=missing)

    @property
    def rows(self) -> Integers:
        """Rows with an error."""
        return np.flatnonzero(self.codes >= 0)

    @property
    def good_rows(self) -> Integers:
        """Rows without an error."""
        return np.flatnonzero(self.codes < 0)

    @property
    def missing(self) -> Integers:
        """Rows that only lack a value, or are left out for one."""
        return np.flatnonzero(np.array([kind.missing for kind in self.kinds] + [False])[self.codes])

    def kind_of(self, row: int) -> ErrorKind:
        """Error of a row that has one."""
        return self.kinds[int(self.codes[row])]

    @property
    def counts(self) -> dict[str, int]:
        """Rows per kind of error."""
        numbers = np.bincount(self.codes[self.rows], minlength=len(self.kinds)).tolist()
        counts: Counter[str] = Counter()
        for kind, number in zip(self.kinds, numbers, strict=True):
            counts[kind.name] += number
        return dict(+counts)

    def first(self, max_rows: Callable[[str], int]) -> Iterator[tuple[int, ErrorKind]]:
        """The first rows of each kind, as many as its name allows, with the kind."""
        shown = np.zeros(len(self.codes), bool)
        for name in self.counts:
            codes = [code for code, kind in enumerate(self.kinds) if kind.name == name]
            shown[np.flatnonzero(np.isin(self.codes, codes))[: max(0, max_rows(name))]] = True
        for row in np.flatnonzero(shown).tolist():
            yield row, self.kind_of(row)


def find_row_errors(
    table: pa.Table,
    columns: Columns,
    starts: Array,
    lonlat: tuple[str, str] | None,
    dtype: Any = np.float64,
    any_sum: bool = False,
) -> RowErrors:
    """Find the errors of the rows of a table.

    ``starts`` are the first rows of the nodes, ``dtype`` is that of the points; ``any_sum``: probabilities may sum to
    any number above 0.
    """
    errors, rows, verb = RowErrors(table.num_rows), starts, "begins"
    for name in columns.ids:
        lacking = np.flatnonzero(np.asarray(one_chunk(table[name]).is_null(nan_is_null=True)))
        errors.add(lacking, f"no id in column {name!r}", f"has no id in column {name!r}", missing=True)
    ranges = [valid_range(name, lonlat, dtype) for name in columns.features]
    if columns.layout == "nested":
        if columns.weight is not None:
            _check_column(errors, table, columns.weight, WEIGHTS)
        probabilities, starts, rows = _check_lists(errors, table, columns, ranges)
        verb = "is"
    else:
        for name, valid in zip(columns.features, ranges, strict=True):
            _check_column(errors, table, name, valid)
        weights, probabilities = (
            None if role is None else _check_column(errors, table, role, valid)
            for role, valid in ((columns.weight, WEIGHTS), (columns.probability, PROBABILITIES))
        )
        if weights is not None:
            first = np.repeat(weights[starts], np.diff(np.append(starts, table.num_rows)))
            differ = np.flatnonzero((weights != first) & np.isfinite(weights) & np.isfinite(first))
            sentence = "has weight {:g}, but its node's first row has {:g}".format
            errors.add(differ, "weights of a node differ", sentence, weights[differ], first[differ])
    if probabilities is not None and len(starts):
        _check_sums(errors, probabilities, starts, rows, np.dtype(dtype), any_sum, verb)
    return errors


def add_unread(errors: RowErrors, rows: Rows) -> None:
    """Add cells and lines that could not be read; they override what their nulls look like."""
    if rows.unread is None:
        return
    for name in reversed(rows.unread.column_names):
        cells = one_chunk(rows.unread[name])
        bad = np.flatnonzero(np.asarray(cells.is_valid()))
        if name == LINE:
            lines = cells.take(pa.array(bad))
            errors.add(bad, "wrong number of cells", lambda line: line["reason"].as_py(), lines, overrides=True)
        else:
            expected = _expected(rows.table.schema.field(name).type)
            _add_unreadable(errors, bad, name, expected, cells.take(pa.array(bad)), overrides=True)


def valid_range(name: str, lonlat: tuple[str, str] | None, dtype: Any) -> Range:
    """Range of a feature."""
    if lonlat is not None and name in lonlat:
        return LONGITUDES if name == lonlat[0] else LATITUDES
    largest = min(COORDINATES.high, float(np.finfo(dtype).max))
    return Range(-largest, largest)


def _add_unreadable(
    errors: RowErrors, rows: Integers, name: str, expected: str, cells: pa.Array, overrides: bool = False
) -> None:
    def describe(cell: Any) -> str:
        value = cell.as_py()
        text = repr(value if isinstance(value, str) else _text_of(value))
        return f"has {text if len(text) <= 40 else text[:37] + '...'} in column {name!r}, which is not {expected}"

    kind = f"not {expected.partition(' such as')[0].partition(' as in')[0]} in column {name!r}"
    errors.add(rows, kind, describe, cells, overrides=overrides)


def _expected(type: pa.DataType) -> str:
    if is_list(type):
        return "a list of numbers such as [1, 2]"
    return {pa.string(): "text in UTF-8", pa.int64(): "a whole number as in the rows before"}.get(type, "a number")


def _check_column(errors: RowErrors, table: pa.Table, name: str, valid: Range) -> Array:
    """Check a column of numbers; return its values."""
    return _check_numbers(errors, one_chunk(table[name]), np.arange(table.num_rows), name, valid)


def _check_numbers(errors: RowErrors, array: pa.Array, rows: Integers, name: str, valid: Range) -> Array:
    """Check numbers, or texts that may be numbers; return their values. ``rows`` are those of :func:`_check_values`."""
    try:
        values = numbers(array)
        _check_values(errors, values, rows, name, valid)
    except InputError:
        if not is_text(array.type):
            raise
        converted, bad = convert_texts(array, pa.float64(), NUMBER, number_of)
        _add_unreadable(errors, rows[bad], name, "a number", array.filter(pa.array(bad)))
        values = numbers(converted)
        _check_values(errors, values[~bad], rows[~bad], name, valid)
    return values


def _check_values(errors: RowErrors, values: Array, rows: Integers, name: str, valid: Range) -> None:
    """Check that values are in their range; ``rows`` says to which row each belongs, in rising order."""
    low, high = valid
    bad = np.flatnonzero(valid.outside(values))
    if not len(bad):
        return
    values, rows = values[bad].astype(np.float64), rows[bad]
    missing, infinite = np.isnan(values), np.isinf(values)
    large = ~missing & ~infinite & (np.abs(values) > high) & (high >= LARGEST_FLOAT32)
    where = f"in column {name!r}"
    rule = "must not be negative" if high == LARGEST else f"must lie between {low:g} and {high:g}"
    outside = "negative" if high == LARGEST else "out of range"
    for chosen, kind, sentence in (
        (missing, "no value", lambda value: f"has no value {where}"),
        (infinite, "infinite", lambda value: f"has {value} {where}"),
        (large, "too large", lambda value: f"has {value:g} {where}, so large that distances overflow"),
        (~(missing | infinite | large), outside, lambda value: f"has {value:g} {where}, which {rule}"),
    ):
        errors.add(rows[chosen], f"{kind} {where}", sentence, values[chosen], missing=chosen is missing)


def _check_sums(
    errors: RowErrors, probabilities: Array, starts: Array, rows: Integers, dtype: Any, any_sum: bool, verb: str
) -> None:
    """Check the sums of the probabilities of nodes, which begin at ``starts``; errors belong to ``rows``."""
    sizes = np.diff(np.append(starts, len(probabilities)))
    with np.errstate(all="ignore"):
        # An invalid probability is an error of its own, and the sum says nothing.
        valid = np.where(PROBABILITIES.outside(probabilities), np.nan, probabilities).astype(dtype)
        totals = sums_per_node(valid, starts)
        above = is_above_1(totals, sizes, dtype) & (not any_sum)
    errors.add(
        rows[above],
        "probabilities sum to more than 1",
        lambda n, total: f"{verb} a node ({n} rows) whose probabilities sum to {total:.9g}, above 1",
        sizes[above],
        totals[above],
        advice="Divide them by their sum (--probabilities normalize), or skip such nodes with --on-bad skip.",
    )
    nothing = f"{verb} a node whose probabilities are all 0"
    errors.add(rows[is_zero(totals)], "probabilities are all 0", nothing)


def _check_lists(
    errors: RowErrors, table: pa.Table, columns: Columns, ranges: Sequence[Range]
) -> tuple[Array | None, Integers, Integers]:
    """Check lists of realizations; return the probabilities of lists that fit, where nodes begin, and their rows."""
    names, d = columns.list_columns, len(columns.features)
    fit = _check_lengths(errors, table, names)
    inner = {name: one_chunk(table[name].filter(pa.array(fit))).flatten() for name in names}
    lengths, rows = list_lengths(table[names[0]])[fit], np.flatnonzero(fit)
    owners = np.repeat(rows, lengths)
    if columns.points:
        points = inner[columns.points]
        sizes = list_lengths(points)
        odd = sizes != d
        errors.add(
            owners[odd],
            "points with another number of coordinates",
            lambda size: f"has a point with {'no' if size < 0 else size} coordinates, not {d}",
            sizes[odd],
        )
        values = numbers(points.filter(pa.array(~odd)).flatten()).reshape(-1, d)
        for j, name in enumerate(columns.features):
            _check_values(errors, values[:, j], owners[~odd], name, ranges[j])
    else:
        for j, name in enumerate(columns.features):
            _check_values(errors, numbers(inner[name]), owners, name, ranges[j])
    probabilities = None
    if columns.probability:
        probabilities = _check_numbers(errors, inner[columns.probability], owners, columns.probability, PROBABILITIES)
    return probabilities, np.cumsum(lengths) - lengths, rows


def _check_lengths(errors: RowErrors, table: pa.Table, names: list[str]) -> Mask:
    """Check that lists are there, not empty, and as long as the others of their row; return which rows pass."""
    first, n_first = names[0], list_lengths(table[names[0]])
    fit = np.ones(table.num_rows, bool)
    for name in names:
        lengths = list_lengths(table[name])
        where, different = f"list in column {name!r}", "has {} values in column {!r}, but {} in {!r}".format
        for bad, kind, sentence, missing in (
            (lengths < 0, f"no {where}", f"has no {where}", True),
            (lengths == 0, f"empty {where}", f"has an empty {where}", False),
            (lengths != n_first, "lists of different lengths", different, False),
        ):
            rows = np.flatnonzero(bad & fit)
            values = (lengths[rows], [name] * len(rows), n_first[rows], [first] * len(rows))
            errors.add(rows, kind, sentence, *values, missing=missing)
            fit &= ~bad
    return fit
