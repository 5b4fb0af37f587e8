"""Errors by row, listed when a table could not be made nodes and by ``probi check``; and the rows left out for them."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probi._types import Array, Integers, Mask
from probi.errors import InputError
from probi.io.rows import LINE, Rows, text_of
from probi.tables.columns import Columns, is_list, is_text
from probi.tables.to_arrays import NUMBER, convert_texts, list_lengths, number_of, numbers, one_chunk
from probi.validation import COORDINATES, LARGEST, PROBABILITIES, WEIGHTS, Range, is_above_1, is_nothing, sums_per_node

LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
LONGITUDES, LATITUDES = Range(-360.0, 360.0), Range(-90.0, 90.0)


class ErrorKind(NamedTuple):
    """What rows with the same error share, and a function that describes one of them, called for those shown."""

    name: str
    describe: Callable[[int], str]
    missing: bool = False  # the row only lacks a value
    advice: str = "Fix the row, or skip its node with --on-bad skip."


class RowErrors:
    """At most one error per row.

    A missing value takes precedence: the row is left out for it, whatever else it holds.
    """

    def __init__(self, n_rows: int) -> None:
        self.kinds: list[ErrorKind] = []
        self.codes = np.full(n_rows, -1, np.int32)  # index into kinds; -1: no error

    def add(self, rows: Array, kind: ErrorKind, overrides: bool = False) -> None:
        """Add an error of some rows; it ``overrides`` what they have, or counts for those without one."""
        if not overrides:
            weaker = np.array([kind.missing and not other.missing for other in self.kinds] + [True])
            rows = rows[weaker[self.codes[rows]]]  # -1 is the last one
        if len(rows):
            self.codes[rows] = len(self.kinds)
            self.kinds.append(kind)

    @property
    def rows(self) -> Integers:
        """Rows that have one."""
        return np.flatnonzero(self.codes >= 0)

    @property
    def missing(self) -> Integers:
        """Rows that only lack a value."""
        return np.flatnonzero(np.array([kind.missing for kind in self.kinds] + [False])[self.codes])

    def kind_of(self, row: int) -> ErrorKind:
        """Error of a row that has one."""
        return self.kinds[int(self.codes[row])]


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
    errors = RowErrors(table.num_rows)
    for name in columns.ids:
        lacking = np.flatnonzero(np.asarray(one_chunk(table[name]).is_null(nan_is_null=True)))
        errors.add(lacking, _constant(f"no id in column {name!r}", missing=True))
    check = _check_lists if columns.layout == "nested" else _check_rows
    check(errors, table, columns, starts, lonlat, np.dtype(dtype), any_sum)
    return errors


def add_unread(errors: RowErrors, rows: Rows) -> None:
    """Add cells and lines that could not be read; they override what their nulls look like."""
    for name in () if rows.unread is None else reversed(rows.unread.column_names):
        assert rows.unread is not None  # for the type checker
        cells = rows.unread[name]
        if name == LINE:
            kind = ErrorKind("wrong number of cells", lambda row, cells=cells: cells[row]["reason"].as_py())  # type: ignore[misc]
        else:
            expected = _expected(rows.table.schema.field(name).type)
            kind = _unreadable(name, expected, lambda row, cells=cells: text_of(cells[row].as_py()))  # type: ignore[misc]
        errors.add(np.flatnonzero(np.asarray(cells.combine_chunks().is_valid())), kind, overrides=True)


def valid_range(name: str, lonlat: tuple[str, str] | None, dtype: Any) -> Range:
    """Range of a feature."""
    if lonlat is not None and name in lonlat:
        return LONGITUDES if name == lonlat[0] else LATITUDES
    largest = min(COORDINATES.high, float(np.finfo(dtype).max))
    return Range(-largest, largest)


def _constant(text: str, missing: bool = False, article: str = "") -> ErrorKind:
    return ErrorKind(text, lambda row: f"has {article}{text}", missing)


def _unreadable(name: str, expected: str, text: Callable[[int], str]) -> ErrorKind:
    return ErrorKind(
        f"not {expected.partition(' such as')[0].partition(' as in')[0]} in column {name!r}",
        lambda row: f"has {_shorten(text(row))} in column {name!r}, which is not {expected}",
    )


def _expected(type: pa.DataType) -> str:
    if is_list(type):
        return "a list of numbers such as [1, 2]"
    return {pa.string(): "text in UTF-8", pa.int64(): "a whole number as in the rows before"}.get(type, "a number")


def _shorten(value: str) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _check_rows(
    errors: RowErrors, table: pa.Table, columns: Columns, starts: Array, lonlat: Any, dtype: Any, any_sum: bool
) -> None:
    for name in columns.features:
        _check_column(errors, table, name, valid_range(name, lonlat, dtype))
    if columns.weight is not None:
        weights = _check_column(errors, table, columns.weight, WEIGHTS)
    if columns.probability is not None:
        probabilities = _check_column(errors, table, columns.probability, PROBABILITIES)
    if columns.weight is not None:
        first = np.repeat(weights[starts], np.diff(np.append(starts, table.num_rows)))
        differ = np.flatnonzero((weights != first) & np.isfinite(weights) & np.isfinite(first))
        sentence = "has weight {:g}, but its node's first row has {:g}"
        errors.add(differ, ErrorKind("weights of a node differ", lambda row: sentence.format(weights[row], first[row])))
    if columns.probability is not None:
        _check_sums(errors, probabilities, starts, starts, dtype, any_sum, "begins")


def _check_column(errors: RowErrors, table: pa.Table, name: str, valid: Range) -> Array:
    """Check a column of numbers, or of texts that may be numbers; return its values."""
    array, rows = one_chunk(table[name]), np.arange(table.num_rows)
    try:
        values = numbers(array)
    except InputError:
        if not is_text(array.type):
            raise
        converted, bad = convert_texts(array, pa.float64(), NUMBER, number_of)
        errors.add(np.flatnonzero(bad), _unreadable(name, "a number", lambda row: array[row].as_py()))
        values, rows = numbers(converted), np.flatnonzero(~bad)
    _check_values(errors, values[rows], rows, name, valid)
    return values


def _check_values(errors: RowErrors, values: Array, rows: Array, name: str, valid: Range) -> None:
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
        (missing, f"no value {where}", "has no value {where}"),
        (infinite, f"infinite {where}", "has {value} {where}"),
        (large, f"too large {where}", "has {value:g} {where}, so large that distances overflow"),
        (~(missing | infinite | large), f"{outside} {where}", "has {value:g} {where}, which {rule}"),
    ):
        describe = _describe_first(sentence, where, rule, rows[chosen], values[chosen])
        errors.add(rows[chosen], ErrorKind(kind, describe, missing=chosen is missing))


def _describe_first(text: str, where: str, rule: str, rows: Array, values: Array) -> Callable[[int], str]:
    """Return a function that describes the first wrong value of a row."""
    return lambda row: text.format(value=values[np.searchsorted(rows, row)], where=where, rule=rule)


def _check_sums(
    errors: RowErrors, probabilities: Array, starts: Array, rows: Array, dtype: Any, any_sum: bool, verb: str
) -> None:
    """Check the sums of the probabilities of nodes, which begin at ``starts``; errors belong to ``rows``."""
    if not len(starts):
        return
    sizes = np.diff(np.append(starts, len(probabilities)))
    with np.errstate(all="ignore"):
        # An invalid probability is an error of its own, and the sum says nothing.
        valid = np.where(PROBABILITIES.outside(probabilities), np.nan, probabilities).astype(dtype)
        totals = sums_per_node(valid, starts)
        above = is_above_1(totals, sizes, dtype) & (not any_sum)

    def too_much(row: int) -> str:
        node = np.searchsorted(rows, row)
        return f"{verb} a node ({sizes[node]} rows) whose probabilities sum to {totals[node]:.9g}, above 1"

    advice = "Divide them by their sum (--probabilities normalize), or skip such nodes with --on-bad skip."
    errors.add(rows[above], ErrorKind("probabilities sum to more than 1", too_much, advice=advice))
    nothing = f"{verb} a node whose probabilities are all 0"
    errors.add(rows[is_nothing(totals)], ErrorKind("probabilities are all 0", lambda row: nothing))


# -- nested -----------------------------------------------------------------------------------------------------------


def _check_lists(
    errors: RowErrors, table: pa.Table, columns: Columns, starts: Array, lonlat: Any, dtype: Any, any_sum: bool
) -> None:
    if columns.weight is not None:
        _check_column(errors, table, columns.weight, WEIGHTS)
    names = columns.list_columns
    fit = _check_lengths(errors, table, names)
    inner = {name: one_chunk(table[name].filter(pa.array(fit))).flatten() for name in names}
    lengths = list_lengths(table[names[0]])[fit]
    owners = np.repeat(np.flatnonzero(fit), lengths)
    if columns.points:
        points = inner[columns.points]
        sizes = list_lengths(points)
        odd = sizes != len(columns.features)
        errors.add(owners[odd], _odd_point(owners[odd], sizes[odd], len(columns.features)))
        values = numbers(points.filter(pa.array(~odd)).flatten()).reshape(-1, len(columns.features))
        features = {name: (values[:, j], owners[~odd]) for j, name in enumerate(columns.features)}
    else:
        features = {name: (numbers(inner[name]), owners) for name in columns.features}
    for name, (array, rows) in features.items():
        _check_values(errors, array, rows, name, valid_range(name, lonlat, dtype))
    if columns.probability:
        probabilities = numbers(inner[columns.probability])
        _check_values(errors, probabilities, owners, columns.probability, PROBABILITIES)
        _check_sums(errors, probabilities, np.cumsum(lengths) - lengths, np.flatnonzero(fit), dtype, any_sum, "is")


def _check_lengths(errors: RowErrors, table: pa.Table, names: list[str]) -> Mask:
    """Check that lists are there, not empty, and as long as the others of their row; return which rows pass."""
    lengths = {name: list_lengths(table[name]) for name in names}
    first = names[0]
    fit = np.ones(table.num_rows, bool)
    for name, length in lengths.items():
        for bad, kind in (
            (length < 0, _constant(f"no list in column {name!r}", missing=True)),
            (length == 0, _constant(f"empty list in column {name!r}", article="an ")),
            (length != lengths[first], _different_lengths(name, first, lengths)),
        ):
            errors.add(np.flatnonzero(bad & fit), kind)
            fit &= ~bad
    return fit


def _different_lengths(name: str, first: str, lengths: dict[str, Array]) -> ErrorKind:
    def describe(row: int) -> str:
        return f"has {lengths[name][row]} values in column {name!r}, but {lengths[first][row]} in {first!r}"

    return ErrorKind("lists of different lengths", describe)


def _odd_point(rows: Array, sizes: Array, n_features: int) -> ErrorKind:
    def describe(row: int) -> str:
        size = sizes[np.searchsorted(rows, row)]
        return f"has a point with {'no' if size < 0 else size} coordinates, not {n_features}"

    return ErrorKind("points with another number of coordinates", describe)


# -- rows that are left out -------------------------------------------------------------------------------------------

# Rows that are not bad themselves.
WITH_A_BAD_ONE = "in a node with such a row"


class LeftOut(RowErrors):
    """Rows that are left out, each for one kind of error, and some of them for a missing value."""

    def __init__(self, n_rows: int) -> None:
        super().__init__(n_rows)
        self._for_missing = np.zeros(n_rows, bool)

    @property
    def kept(self) -> Integers:
        """The others."""
        return np.flatnonzero(self.codes < 0)

    @property
    def n_missing(self) -> int:
        """How many are left out for a missing value, their own or one of their node."""
        return int(self._for_missing.sum())

    def leave_out(self, rows: Integers, errors: RowErrors, for_missing: bool) -> None:
        """Leave out rows with the errors that they have."""
        self._for_missing[rows[self.codes[rows] < 0]] = for_missing
        self.codes[rows] = errors.codes[rows] + len(self.kinds)
        self.kinds += errors.kinds

    def leave_out_nodes(self, bad: Integers, starts: Integers, numbers: Integers, for_missing: bool) -> None:
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
        shown: list[Integers] = []
        for name in self.counts:
            codes = [code for code, kind in enumerate(self.kinds) if kind.name == name]
            shown.append(np.flatnonzero(np.isin(self.codes, codes))[: max(0, max_rows(name))])
        for row in np.sort(np.concatenate([*shown, np.zeros(0, np.int64)])).tolist():
            yield row, self.kind_of(row)
