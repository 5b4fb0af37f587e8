"""Completed copies of one table, as multiple imputation makes them: a row is a node, its copies the realizations."""

from __future__ import annotations

from typing import Any

import numpy as np

from probi._types import Array
from probi.errors import InputError
from probi.inputs.dataframes import as_numbers, column, index_of
from probi.validation import as_floats

# Columns of the long format of mice, and the number of the original table in it, which has its missing values.
COPY, ROW, ORIGINAL = ".imp", ".id", 0


def of_imputations(frames: Any) -> tuple[Array, Array | None, Array, Array | None]:
    """Points, probabilities, offsets and ids; a row that is equal in all copies has one realization."""
    copies, ids = _long(frames) if _is_long(frames) else _several(frames)
    _check_complete(copies)
    # Copies of a row differ only where values were missing.
    certain = (copies == copies[:1]).all(axis=(0, 2))
    m, n, d = copies.shape
    counts = np.where(certain, 1, m)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    kept = np.ones((n, m), np.bool_)
    kept[certain, 1:] = False
    points = copies.transpose(1, 0, 2)[kept].reshape(-1, d)
    return points, None, offsets, ids


def _is_long(frames: Any) -> bool:
    return hasattr(frames, "columns") and COPY in list(frames.columns)


def _long(frame: Any) -> tuple[Array, Array]:
    """Copies (m, n, d) and ids from mice's long format."""
    names = list(frame.columns)
    if ROW not in names:
        raise InputError(f"There is a column {COPY} but no {ROW}: export the table with complete(imp, 'long').")
    number, row = column(frame, COPY), column(frame, ROW)
    features = [name for name in names if name not in (COPY, ROW)]
    values = as_numbers(frame, features)
    parts = [(values[number == copy], row[number == copy]) for copy in np.unique(number) if copy != ORIGINAL]
    if not parts:
        raise InputError(f"There are no imputations: all rows have {COPY} = {ORIGINAL}, the original table.")
    first = parts[0][1]
    if any(not np.array_equal(rows, first) for _, rows in parts):
        raise InputError(f"The imputations have different rows: {ROW} must be the same, in the same order, in all.")
    return np.stack([part for part, _ in parts]), first


def _several(frames: Any) -> tuple[Array, Array | None]:
    """Copies (m, n, d) from tables or arrays, and ids from the index of the first, unless it only counts."""
    if hasattr(frames, "columns"):
        raise InputError(
            f"frames is one table: give a list of completed copies of it, or mice's long format with {COPY}."
        )
    if hasattr(frames, "ndim"):
        return as_floats(frames, "frames", 3), None
    tables = list(frames)
    if not tables:
        raise InputError("frames is empty: give at least one completed copy of the table.")
    names = [list(table.columns) if hasattr(table, "columns") else None for table in tables]
    arrays: list[Array] = []
    for i, table in enumerate(tables):
        if names[i] != names[0]:
            raise InputError(f"Copy {i} has other columns than copy 0: {names[i]} and {names[0]}.")
        own = names[i]
        array = as_floats(table, f"frames[{i}]", 2) if own is None else as_numbers(table, own)
        if array.shape != (arrays or [array])[0].shape:
            raise InputError(f"Copy {i} has shape {array.shape}, but copy 0 has {arrays[0].shape}.")
        arrays.append(array)
    indices = [index_of(table) for table in tables]
    if any(not _same(index, indices[0]) for index in indices):
        raise InputError("The copies have different rows: their index must be the same, in the same order, in all.")
    return np.stack(arrays), indices[0]


def _same(a: Array | None, b: Array | None) -> bool:
    return (a is None) == (b is None) and (a is None or np.array_equal(a, np.asarray(b)))


def _check_complete(copies: Array) -> None:
    missing = np.argwhere(np.isnan(copies))
    if len(missing):
        copy, row, column = missing[0]
        raise InputError(
            f"Copy {copy} has NaN in row {row}, column {column}: give completed copies, for example by "
            "probi.impute.draws(frame)."
        )
