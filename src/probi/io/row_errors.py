"""What is wrong with which row: asked when a table did not become nodes, and by ``probi check``."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi.errors import InputError
from probi.io.rows import LINE, Rows, text_of
from probi.tables.columns import Columns, is_list, is_text
from probi.tables.to_arrays import NUMBER, converted_texts, list_lengths, number_of, numbers, one_chunk
from probi.validation import LARGEST, LEAST_PROBABILITY, largest_sum

Array = NDArray[Any]
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class Kind(NamedTuple):
    """What may be wrong with rows: what they share, and a sentence about one of them, made for those that are shown."""

    name: str
    sentence: Callable[[int], str]
    missing: bool = False  # only a value is not there
    advice: str = "Mend it, or leave such nodes out: --on-bad skip."


class Faults:
    """At most one fault a row.

    Of a row that lacks a value, this is what is told: as it is left out for it, what else it holds does not matter.
    """

    def __init__(self, n_rows: int) -> None:
        self.kinds: list[Kind] = []
        self.codes = np.full(n_rows, -1, np.int32)  # which of the kinds; -1 for none

    def note(self, rows: Array, kind: Kind, first: bool = False) -> None:
        """Note a fault of some rows that have none, or of all of them if it is to come first."""
        if not first:
            weaker = np.array([kind.missing and not other.missing for other in self.kinds] + [True])
            rows = rows[weaker[self.codes[rows]]]  # -1 is the last one
        if len(rows):
            self.codes[rows] = len(self.kinds)
            self.kinds.append(kind)

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows that have one."""
        return np.flatnonzero(self.codes >= 0)

    @property
    def missing(self) -> NDArray[np.int64]:
        """Rows that only lack a value."""
        return np.flatnonzero(np.array([kind.missing for kind in self.kinds] + [False])[self.codes])

    def of(self, row: int) -> Kind:
        """What is wrong with a row that has a fault."""
        return self.kinds[int(self.codes[row])]


def find_faults(
    table: pa.Table,
    columns: Columns,
    starts: Array,
    lonlat: tuple[str, str] | None,
    dtype: Any = np.float64,
    any_sum: bool = False,
) -> Faults:
    """Find what is wrong with the rows of a table.

    ``starts`` are the first rows of the nodes, ``dtype`` is that of the points; ``any_sum``: probabilities may sum to
    any number above 0.
    """
    faults = Faults(table.num_rows)
    look = _look_at_lists if columns.layout == "nested" else _look_at_rows
    look(faults, table, columns, starts, lonlat, np.dtype(dtype), any_sum)
    return faults


def note_unread(faults: Faults, rows: Rows) -> None:
    """Note cells and lines that could not be read; they come before what their nulls look like."""
    for name in () if rows.unread is None else reversed(rows.unread.column_names):
        assert rows.unread is not None  # for the type checker
        cells = rows.unread[name]
        bad = np.flatnonzero(np.asarray(cells.combine_chunks().is_valid()))
        if name == LINE:
            kind = Kind("wrong number of cells", lambda row, cells=cells: cells[row]["reason"].as_py())  # type: ignore[misc]
        else:
            wanted = _wanted(rows.table.schema.field(name).type)
            kind = _not_wanted(name, wanted, lambda row, cells=cells: text_of(cells[row].as_py()))  # type: ignore[misc]
        faults.note(bad, kind, first=True)


def _not_wanted(name: str, wanted: str, text: Callable[[int], str]) -> Kind:
    return Kind(
        f"not {wanted.partition(' such as')[0].partition(' as in')[0]} in column {name!r}",
        lambda row: f"has {_shown(text(row))} in column {name!r}, which is not {wanted}",
    )


def _wanted(type: pa.DataType) -> str:
    if is_list(type):
        return "a list of numbers such as [1, 2]"
    return {pa.string(): "text in UTF-8", pa.int64(): "a whole number as in the rows before"}.get(type, "a number")


def _shown(value: str, most: int = 40) -> str:
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def _look_at_rows(
    faults: Faults, table: pa.Table, columns: Columns, starts: Array, lonlat: Any, dtype: Any, any_sum: bool
) -> None:
    _look_at_ids(faults, table, columns)
    everything = np.arange(table.num_rows)
    values = {}
    for name in [*columns.features, *(name for name in (columns.weight, columns.probability) if name)]:
        values[name], texts = _read_numbers(table[name], name)
        allowed = _range_of(name, lonlat, dtype) if name in columns.features else (0.0, LARGEST)
        others = everything
        if texts is not None:
            bad, kind = texts
            faults.note(bad, kind)
            others = np.setdiff1d(everything, bad)
        _look_at_values(faults, values[name][others], others, name, allowed)
    sizes = np.diff(np.append(starts, table.num_rows))
    if columns.weight is not None:
        weights = values[columns.weight]
        first = np.repeat(weights[starts], sizes)
        faults.note(
            np.flatnonzero((weights != first) & np.isfinite(weights) & np.isfinite(first)),
            Kind(
                "weights of a node differ",
                lambda row: f"has weight {weights[row]:g}, but its node's first row has {first[row]:g}",
            ),
        )
    if columns.probability is not None:
        _look_at_sums(faults, values[columns.probability], starts, starts, dtype, any_sum, "begins")


def _read_numbers(column: Any, name: str) -> tuple[Array, tuple[Array, Kind] | None]:
    """Values of a column, and the rows where one is text that is no number."""
    array = one_chunk(column)
    try:
        return numbers(array), None
    except InputError:
        if not is_text(array.type):
            raise
    values, bad = converted_texts(array, pa.float64(), NUMBER, _number_of)
    return numbers(values), (np.flatnonzero(bad), _not_wanted(name, "a number", lambda row: array[row].as_py()))


def _number_of(text: str) -> float:
    value, is_number = number_of(text)
    if not is_number:
        raise ValueError(text)
    return value


def _look_at_ids(faults: Faults, table: pa.Table, columns: Columns) -> None:
    for name in columns.ids:
        lacking = np.flatnonzero(np.asarray(one_chunk(table[name]).is_null(nan_is_null=True)))
        text = f"no id in column {name!r}"
        faults.note(lacking, Kind(text, lambda row, text=text: f"has {text}", missing=True))  # type: ignore[misc]


def _range_of(name: str, lonlat: tuple[str, str] | None, dtype: Any) -> tuple[float, float]:
    if lonlat is not None and name in lonlat:
        return (-360.0, 360.0) if name == lonlat[0] else (-90.0, 90.0)
    largest = min(LARGEST, float(np.finfo(dtype).max))
    return -largest, largest


def _look_at_values(faults: Faults, values: Array, rows: Array, name: str, allowed: tuple[float, float]) -> None:
    """Values that are not in their range; ``rows`` says to which row each belongs, in rising order."""
    low, high = allowed
    values = values.astype(np.float64)
    bad = np.flatnonzero(~((values >= low) & (values <= high)))
    if not len(bad):
        return
    values, rows = values[bad], rows[bad]
    missing, infinite = np.isnan(values), np.isinf(values)
    large = ~missing & ~infinite & (np.abs(values) > high) & (high >= LARGEST_FLOAT32)
    where = f"in column {name!r}"
    wanted = "must not be negative" if high == LARGEST else f"must lie between {low:g} and {high:g}"
    outside = "negative" if high == LARGEST else "out of range"
    for chosen, name_of_kind, sentence in (
        (missing, f"no value {where}", "has no value {where}"),
        (infinite, f"infinite {where}", "has {value} {where}"),
        (large, f"too large {where}", "has {value:g} {where}, so large that distances overflow"),
        (~(missing | infinite | large), f"{outside} {where}", "has {value:g} {where}, which {wanted}"),
    ):
        faults.note(
            rows[chosen], Kind(name_of_kind, _Sentence(sentence, where, wanted, rows[chosen], values[chosen]),
                               missing=chosen is missing)
        )  # fmt: skip


@dataclass(frozen=True)
class _Sentence:
    """Says what value of a row is wrong: the first one, where a row has several."""

    text: str
    where: str
    wanted: str
    rows: Array
    values: Array

    def __call__(self, row: int) -> str:
        value = self.values[np.searchsorted(self.rows, row)]
        return self.text.format(value=value, where=self.where, wanted=self.wanted)


def _look_at_sums(
    faults: Faults, chances: Array, starts: Array, rows: Array, dtype: Any, any_sum: bool, verb: str
) -> None:
    """Nodes whose probabilities sum to more than rounding explains, or to nothing; ``rows`` are told for them."""
    if not len(starts):
        return
    sizes = np.diff(np.append(starts, len(chances)))
    with np.errstate(all="ignore"):
        # A value that is no probability is a fault of its own, and the sum says nothing.
        chances = np.where((chances >= 0.0) & (chances < np.inf), chances, np.nan).astype(dtype)
        totals = np.add.reduceat(chances, starts, dtype=np.float64)
        above = totals > (np.inf if any_sum else largest_sum(sizes, dtype))

    def too_much(row: int) -> str:
        node = np.searchsorted(rows, row)
        return f"{verb} a node ({sizes[node]} rows) whose probabilities sum to {totals[node]:.9g}, above 1"

    advice = "Divide them by their sum (--probabilities normalize), or leave such nodes out: --on-bad skip."
    faults.note(rows[above], Kind("probabilities sum to more than 1", too_much, advice=advice))
    nothing = f"{verb} a node whose probabilities are all 0: it is nowhere"
    faults.note(rows[totals <= LEAST_PROBABILITY], Kind("probabilities are all 0", lambda row: nothing))


# -- nested -----------------------------------------------------------------------------------------------------------


def _look_at_lists(
    faults: Faults, table: pa.Table, columns: Columns, starts: Array, lonlat: Any, dtype: Any, any_sum: bool
) -> None:
    _look_at_ids(faults, table, columns)
    everything = np.arange(table.num_rows)
    if columns.weight is not None:
        weights, texts = _read_numbers(table[columns.weight], columns.weight)
        others = everything
        if texts is not None:
            faults.note(*texts)
            others = np.setdiff1d(everything, texts[0])
        _look_at_values(faults, weights[others], others, columns.weight, (0.0, LARGEST))
    names = [columns.points] if columns.points else list(columns.features)
    names += [columns.probability] if columns.probability else []
    fit = _look_at_lengths(faults, table, names)
    inner = {name: one_chunk(table[name].filter(pa.array(fit))).flatten() for name in names}
    lengths = list_lengths(table[names[0]])
    owners = np.repeat(everything[fit], lengths[fit])
    if columns.points:
        points = inner[columns.points]
        sizes = list_lengths(points)
        odd = sizes != len(columns.features)
        faults.note(owners[odd], _point_of(owners[odd], sizes[odd], len(columns.features)))
        values = numbers(points.filter(pa.array(~odd)).flatten()).reshape(-1, len(columns.features))
        features = {name: (values[:, j], owners[~odd]) for j, name in enumerate(columns.features)}
    else:
        features = {name: (numbers(inner[name]), owners) for name in columns.features}
    for name, (array, rows) in features.items():
        _look_at_values(faults, array, rows, name, _range_of(name, lonlat, dtype))
    if columns.probability:
        chances = numbers(inner[columns.probability])
        _look_at_values(faults, chances, owners, columns.probability, (0.0, LARGEST))
        firsts = np.cumsum(lengths[fit]) - lengths[fit]
        _look_at_sums(faults, chances, firsts, everything[fit], dtype, any_sum, "is")


def _look_at_lengths(faults: Faults, table: pa.Table, names: list[str]) -> NDArray[np.bool_]:
    """Note lists that are not there, or empty, or not as long as the others; tell which rows have none of them."""
    lengths = {name: list_lengths(table[name]) for name in names}
    first = names[0]
    fit = np.ones(table.num_rows, bool)
    for name, length in lengths.items():
        for bad, text, missing in (
            (length < 0, f"no list in column {name!r}", True),
            (length == 0, f"empty list in column {name!r}", False),
        ):
            article = "" if missing else "an "
            faults.note(
                np.flatnonzero(bad & fit),
                Kind(text, lambda row, text=article + text: f"has {text}", missing),  # type: ignore[misc]
            )
            fit &= ~bad
        other = fit & (length != lengths[first])
        sentence = _Lengths(name, first, length, lengths[first])
        faults.note(np.flatnonzero(other), Kind("lists of different lengths", sentence))
        fit &= ~other
    return fit


@dataclass(frozen=True)
class _Lengths:
    """Says that two lists of a row have different lengths."""

    name: str
    first: str
    lengths: Array
    wanted: Array

    def __call__(self, row: int) -> str:
        return f"has {self.lengths[row]} values in column {self.name!r}, but {self.wanted[row]} in {self.first!r}"


def _point_of(rows: Array, sizes: Array, n_features: int) -> Kind:
    def sentence(row: int) -> str:
        size = sizes[np.searchsorted(rows, row)]
        return f"has a point with {'no' if size < 0 else size} coordinates, not {n_features}"

    return Kind("points with another number of coordinates", sentence)
