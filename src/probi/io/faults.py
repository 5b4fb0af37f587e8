"""What is wrong with which row: asked when a table did not become nodes, and by ``probi check``."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi._checks import LARGEST, LEAST_PROBABILITY
from probi.errors import InputError
from probi.tables.columns import Columns, is_text
from probi.tables.flat import list_lengths, number_of, numbers, one_chunk

Array = NDArray[Any]
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class Fault(NamedTuple):
    """One row that cannot be used, and what to do about it. ``missing``: only because a value is not there."""

    row: int
    reason: str
    missing: bool = False
    advice: str = "Mend it, or leave such nodes out: --on-bad skip."


def find_faults(
    table: pa.Table, columns: Columns, starts: Array, lonlat: tuple[str, str] | None, dtype: Any = np.float64
) -> list[Fault]:
    """At most one fault a row, by row; ``starts`` are the first rows of the nodes, ``dtype`` is that of the points.

    Of a row that lacks a value, this is what is told: as it is left out for it, what else it holds does not matter.
    """
    found = _nested_faults if columns.layout == "nested" else _row_faults
    faults: dict[int, Fault] = {}
    for fault in found(table, columns, starts, lonlat, np.dtype(dtype)):
        if fault.row not in faults or (fault.missing and not faults[fault.row].missing):
            faults[fault.row] = fault
    return [faults[row] for row in sorted(faults)]


def _row_faults(table: pa.Table, columns: Columns, starts: Array, lonlat: Any, dtype: Any) -> Iterator[Fault]:
    yield from _id_faults(table, columns)
    values = {}
    for name in [*columns.features, *(name for name in (columns.weight, columns.probability) if name)]:
        values[name], texts = _read_numbers(table[name], name)
        yield from texts
        bad = {fault.row for fault in texts}
        allowed = _range_of(name, lonlat, dtype) if name in columns.features else (0.0, LARGEST)
        yield from (fault for fault in _value_faults(values[name], name, allowed) if fault.row not in bad)
    sizes = np.diff(np.append(starts, table.num_rows))
    if columns.weight is not None:
        weights = values[columns.weight]
        first = np.repeat(weights[starts], sizes)
        for row in np.flatnonzero((weights != first) & np.isfinite(weights) & np.isfinite(first)):
            yield Fault(int(row), f"has weight {weights[row]:g}, but its node's first row has {first[row]:g}")
    if columns.probability is not None:
        yield from _sum_faults(values[columns.probability], starts, sizes, dtype)


def _read_numbers(column: Any, name: str) -> tuple[Array, list[Fault]]:
    """Values of a column, and faults where one is text that is no number."""
    array = one_chunk(column)
    try:
        return numbers(array), []
    except InputError:
        if not is_text(array.type):
            raise
    read = [(float("nan"), True) if text is None else number_of(text) for text in array.to_pylist()]
    faults = [
        Fault(row, f"has {array[row].as_py()!r} in column {name!r}, which is not a number")
        for row, (_, is_number) in enumerate(read)
        if not is_number
    ]
    return np.array([value for value, _ in read]), faults


def _id_faults(table: pa.Table, columns: Columns) -> Iterator[Fault]:
    for name in columns.ids:
        for row in np.flatnonzero(np.asarray(one_chunk(table[name]).is_null(nan_is_null=True))):
            yield Fault(int(row), f"has no id in column {name!r}", missing=True)


def _range_of(name: str, lonlat: tuple[str, str] | None, dtype: Any) -> tuple[float, float]:
    if lonlat is not None and name in lonlat:
        return (-360.0, 360.0) if name == lonlat[0] else (-90.0, 90.0)
    largest = min(LARGEST, float(np.finfo(dtype).max))
    return -largest, largest


def _value_faults(values: Array, name: str, allowed: tuple[float, float]) -> Iterator[Fault]:
    low, high = allowed
    values = values.astype(np.float64)
    for row in np.flatnonzero(~((values >= low) & (values <= high))):
        value = values[row]
        if np.isnan(value):
            yield Fault(int(row), f"has no value in column {name!r}", missing=True)
        elif not np.isfinite(value):
            yield Fault(int(row), f"has {value} in column {name!r}")
        elif abs(value) > high >= LARGEST_FLOAT32:
            yield Fault(int(row), f"has {value:g} in column {name!r}, so large that distances overflow")
        else:
            wanted = "must not be negative" if high == LARGEST else f"must lie between {low:g} and {high:g}"
            yield Fault(int(row), f"has {value:g} in column {name!r}, which {wanted}")


def _sum_faults(chances: Array, starts: Array, sizes: Array, dtype: Any) -> Iterator[Fault]:
    """Nodes whose probabilities sum to more than 1, or to nothing; the same tolerance as in Nodes."""
    if not len(starts):
        return
    with np.errstate(all="ignore"):
        # A value that is no probability is a fault of its own, and the sum says nothing.
        chances = np.where((chances >= 0.0) & (chances < np.inf), chances, np.nan).astype(dtype)
        totals = np.add.reduceat(chances, starts, dtype=np.float64)
        above = totals > 1.0 + 4.0 * np.finfo(dtype).eps * (4.0 + np.sqrt(sizes))
    for node in np.flatnonzero(above):
        reason = f"begins a node ({sizes[node]} rows) whose probabilities sum to {totals[node]:.9g}, above 1"
        yield Fault(int(starts[node]), reason)
    for node in np.flatnonzero(totals <= LEAST_PROBABILITY):
        yield Fault(int(starts[node]), "begins a node whose probabilities are all 0: it is nowhere")


# -- nested -----------------------------------------------------------------------------------------------------------


def _nested_faults(table: pa.Table, columns: Columns, starts: Array, lonlat: Any, dtype: Any) -> Iterator[Fault]:
    yield from _id_faults(table, columns)
    if columns.weight is not None:
        weights, texts = _read_numbers(table[columns.weight], columns.weight)
        yield from texts
        yield from _value_faults(weights, columns.weight, (0.0, LARGEST))
    names = [columns.points] if columns.points else list(columns.features)
    names += [columns.probability] if columns.probability else []
    lengths = {name: list_lengths(table[name]) for name in names}
    for row in range(table.num_rows):
        of_row = {name: int(lengths[name][row]) for name in names}
        fault = _list_fault(table, columns, row, of_row, lonlat, dtype)
        if fault is not None:
            yield fault


def _list_fault(
    table: pa.Table, columns: Columns, row: int, lengths: dict[str, int], lonlat: Any, dtype: Any
) -> Fault | None:
    """The first fault of a node's lists."""
    first = next(iter(lengths))
    for name, length in lengths.items():
        if length < 1:
            return Fault(row, f"has {'no' if length < 0 else 'an empty'} list in column {name!r}", length < 0)
        if length != lengths[first]:
            return Fault(row, f"has {length} values in column {name!r}, but {lengths[first]} in {first!r}")
    if columns.points:
        points = table[columns.points][row].as_py()
        for point in points:
            if point is None or len(point) != len(columns.features):
                size = "no" if point is None else len(point)
                return Fault(row, f"has a point with {size} coordinates, not {len(columns.features)}")
        values = dict(zip(columns.features, np.array(points, np.float64).T, strict=True))
    else:
        values = {name: np.array(table[name][row].as_py(), np.float64) for name in columns.features}
    for name, array in values.items():
        for fault in _value_faults(array, name, _range_of(name, lonlat, dtype)):
            return Fault(row, fault.reason, fault.missing)
    if columns.probability:
        chances = np.array(table[columns.probability][row].as_py(), np.float64)
        for fault in _value_faults(chances, columns.probability, (0.0, LARGEST)):
            return Fault(row, fault.reason, fault.missing)
        for fault in _sum_faults(chances, np.array([0]), np.array([len(chances)]), dtype):
            return Fault(row, fault.reason.replace("begins", "is"))
    return None
