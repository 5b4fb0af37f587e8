"""Columns of tables of pandas, polars and astropy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from probi._types import Array
from probi.errors import InputError


def names_of(table: Any) -> list[Any] | None:
    """Names of the columns, or None for what is no table."""
    names = getattr(table, "colnames", None) or getattr(table, "columns", None)
    return None if names is None else list(names)


def as_numbers(table: Any, names: Sequence[Any]) -> Array:
    """Columns of a table as one array of floats."""
    columns = [column(table, name) for name in names]
    for name, values in zip(names, columns, strict=True):
        if values.dtype.kind not in "fiub":
            raise InputError(
                f"Column {name!r} has dtype {values.dtype}, not numbers: encode it as numbers, or leave it out."
            )
    small = all(values.dtype.kind == "f" and values.dtype.itemsize <= 4 for values in columns)
    return np.stack([values.astype(np.float32 if small else np.float64) for values in columns], axis=1)


def index_of(table: Any) -> Array | None:
    """Index of a table of pandas, unless it counts the rows."""
    index = getattr(table, "index", None)
    if index is None or callable(index):
        return None
    labels = np.asarray(index)
    return None if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels))) else labels


def column(table: Any, name: Any) -> Array:
    """A column as an array, with NaN where it is masked; a quantity without its unit."""
    values = table[name]
    values = getattr(values, "value", values) if hasattr(values, "unit") and not callable(values) else values
    if hasattr(values, "filled") and np.asarray(values).dtype.kind == "f":
        values = values.filled(np.nan)
    return np.asarray(values)
