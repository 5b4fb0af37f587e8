"""Nodes over shared points, the paper's model: a matrix of probabilities as flat arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probi.errors import InputError
from probi.validation import as_floats

Array = NDArray[Any]


def realizations(points: Array, P: Any) -> tuple[Array, Array, Array]:
    """Points, probabilities and offsets of the nodes whose probabilities are the rows of ``P``, dense or sparse."""
    if hasattr(P, "tocsr"):
        if len(P.shape) != 2:
            raise InputError(f"P must have 2 dimensions, but its shape is {P.shape}.")
        entries = P.tocsr().copy()
        entries.sum_duplicates()  # entries that stand twice mean their sum; also sorts the columns
        shape, columns, values = entries.shape, entries.indices, entries.data
        rows = np.repeat(np.arange(shape[0]), np.diff(entries.indptr))
    else:
        dense = as_floats(P, "P", 2)
        shape = dense.shape
        rows, columns = np.nonzero(dense)
        values = dense[rows, columns]
    if shape[1] != len(points):
        raise InputError(f"P has {shape[1]} columns, but there are {len(points)} points in X.")
    kept = values != 0
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=shape[0]))])
    return points[columns[kept]], values[kept], offsets
