"""From one array a node to the flat arrays of all."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probi._notes import counted
from probi.errors import InputError
from probi.validation import as_floats

Array = NDArray[Any]


def joined(X: Sequence[Any], probabilities: Sequence[Any] | None) -> tuple[Array, Array | None, Array]:
    """Points, probabilities and offsets of nodes that are given one by one."""
    parts = [_realizations(part, i) for i, part in enumerate(X)]
    if not parts:
        raise InputError("X is empty: give at least one array of shape (m, d), a node's realizations.")
    n_features = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != n_features:
            raise InputError(
                f"X[{i}] has {counted(part.shape[1], 'feature')}, but X[0] has {n_features}. Give all the same ones."
            )
    points = np.concatenate(parts)
    offsets = np.cumsum([0, *map(len, parts)])
    if probabilities is None:
        return points, None, offsets
    if len(probabilities) != len(parts):
        raise InputError(f"There are probabilities for {len(probabilities)} nodes, but X has {len(parts)}.")
    chances = [as_floats(p, f"probabilities[{i}]", 1, points.dtype) for i, p in enumerate(probabilities)]
    for i, (part, p) in enumerate(zip(parts, chances, strict=True)):
        if len(p) != len(part):
            raise InputError(f"Node {i} has {len(part)} realizations, but {len(p)} probabilities.")
    return points, np.concatenate(chances), offsets


def _realizations(part: Any, i: int) -> Array:
    points = as_floats(part, f"X[{i}]", 2)
    if len(points) == 0:
        raise InputError(f"X[{i}] has shape {points.shape}: the node has no realization. Drop it.")
    return points
