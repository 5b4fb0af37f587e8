"""Flat arrays of nodes given as an array, as lists of arrays, as a matrix of probabilities, or as Gaussians."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probi._notes import counted, warn
from probi._types import Array
from probi.errors import InputError, InputWarning
from probi.validation import as_array, as_floats, generator

# With at least this many realizations per node, and this many times more than nodes, the axes of an array were perhaps
# swapped: draws or members first.
MANY_REALIZATIONS, FEW_NODES = 1000, 20


def warn_of_swapped_axes(points: Array) -> None:
    """Warn if an array (n, m, d) has few nodes with very many realizations."""
    n_nodes, n_each, _ = points.shape
    if n_nodes > 1 and n_each >= MANY_REALIZATIONS and n_each >= FEW_NODES * n_nodes:
        warn(
            f"X has shape {points.shape}, which makes {n_nodes} nodes with {n_each:,} realizations each. If the first "
            "axis holds the realizations, use X.transpose(1, 0, 2); if not, use Nodes.from_list(X) to silence this "
            "warning.",
            InputWarning,
        )


def of_dense(points: Array, probabilities: Any) -> tuple[Array, Array | None, Array]:
    """Points, probabilities and offsets of nodes with equally many realizations: (n, m, d), and (n, m) or None."""
    n_nodes, n_each, n_features = points.shape
    if n_features == 0 or (n_nodes and n_each == 0):
        raise InputError(
            f"X has shape {points.shape}: its nodes have no {'realization' if n_features else 'features'}."
        )
    if probabilities is not None:
        probabilities = as_floats(probabilities, "probabilities", 2, points.dtype)
        if probabilities.shape != (n_nodes, n_each):
            raise InputError(
                f"probabilities must have shape {(n_nodes, n_each)} to match X, got {probabilities.shape}."
            )
        probabilities = probabilities.reshape(-1)
    return points.reshape(-1, n_features), probabilities, np.arange(n_nodes + 1) * n_each


def of_lists(X: Sequence[Any], probabilities: Sequence[Any] | None) -> tuple[Array, Array | None, Array]:
    """Points, probabilities and offsets of nodes that are given one by one."""
    parts = [_as_realizations(part, i) for i, part in enumerate(X)]
    if not parts:
        raise InputError("X is empty: give at least one array of shape (m, d), a node's realizations.")
    n_features = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != n_features:
            raise InputError(
                f"X[{i}] has {counted(part.shape[1], 'feature')}, but X[0] has {n_features}. All need the same."
            )
    points = np.concatenate(parts)
    offsets = np.cumsum([0, *map(len, parts)])
    if probabilities is None:
        return points, None, offsets
    if len(probabilities) != len(parts):
        raise InputError(f"There are probabilities for {len(probabilities)} nodes, but X has {len(parts)}.")
    given = [as_floats(p, f"probabilities[{i}]", 1, points.dtype) for i, p in enumerate(probabilities)]
    for i, (part, p) in enumerate(zip(parts, given, strict=True)):
        if len(p) != len(part):
            raise InputError(f"Node {i} has {len(part)} realizations, but {len(p)} probabilities.")
    return points, np.concatenate(given), offsets


def _as_realizations(part: Any, i: int) -> Array:
    points = as_floats(part, f"X[{i}]", 2)
    if len(points) == 0:
        raise InputError(f"X[{i}] has shape {points.shape}: the node has no realization. Drop it.")
    return points


def of_matrix(points: Array, P: Any) -> tuple[Array, Array, Array]:
    """Points, probabilities and offsets of the nodes whose probabilities are the rows of ``P``, dense or sparse."""
    if hasattr(P, "tocsr"):
        if len(P.shape) != 2:
            raise InputError(f"P must have 2 dimensions, but its shape is {P.shape}.")
        entries = P.tocsr().copy()
        entries.sum_duplicates()  # duplicate entries mean their sum; also sorts the columns
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


# -- Gaussians --------------------------------------------------------------------------------------------------------


def of_gaussians(means: Array, covariances: ArrayLike, n: int | None, random_state: Any) -> tuple[Array, Array | None]:
    """Points (n_nodes, m, d) of Gaussian nodes, and their probabilities (n_nodes, m) or None for equal ones."""
    n_nodes, d = means.shape
    if d == 0:
        raise InputError(f"Means have no features: their shape is {means.shape}.")
    roots = _roots(covariances, n_nodes, d)
    if n is None:
        standard, probabilities = _sigma_points(d)
        return _placed(means, roots, np.broadcast_to(standard, (n_nodes, *standard.shape))), np.tile(
            probabilities, (n_nodes, 1)
        )
    if n < 1:
        raise InputError(f"n is {n}: draw at least one realization per node.")
    return _placed(means, roots, generator(random_state).standard_normal((n_nodes, n, d))), None


def _placed(means: Array, roots: Array, standard: Array) -> Array:
    """Turn standard normal positions into positions of each node; roots are (n_nodes, d, d)."""
    placed: Array = means[:, None, :] + standard @ np.swapaxes(roots, 1, 2)
    return placed.astype(means.dtype, copy=False)


def _sigma_points(d: int) -> tuple[Array, Array]:
    """Middle and two points on each axis that give a standard Gaussian's mean, covariance and mean norm exactly.

    With mass q off the middle, at radius r on 2 d points: covariance q r^2 / d = 1, mean norm q r = E|Z|, so
    q = E|Z|^2 / d. The usual unscented weights miss the mean norm by 13 % in the plane, and distances are our cost.
    """
    mean_norm = math.sqrt(2.0) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
    off_middle = mean_norm**2 / d
    radius = math.sqrt(d / off_middle)
    axes = radius * np.eye(d)
    probabilities = np.full(2 * d + 1, off_middle / (2 * d))
    probabilities[0] = 1.0 - off_middle
    return np.concatenate([np.zeros((1, d)), axes, -axes]), probabilities


def _roots(covariances: ArrayLike, n_nodes: int, d: int) -> Array:
    """Square roots of the covariances, (n_nodes, d, d); a semidefinite one is fine, as for an exact coordinate."""
    array = as_array(covariances, "covariances")
    # Rounding of what the caller computed may leave small negative eigenvalues and asymmetry.
    noise = 32 * float(np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps)
    given = as_floats(array, "covariances", array.ndim, np.float64)
    if not np.isfinite(given).all():
        raise InputError("Covariances must be finite.")
    expected = {0: (), 1: (n_nodes,), 2: (d, d), 3: (n_nodes, d, d)}
    if given.ndim > 3 or given.shape != expected[given.ndim]:
        raise InputError(
            f"Covariances have shape {given.shape}; give ({n_nodes}, {d}, {d}), ({d}, {d}), ({n_nodes},) or one number."
        )
    if given.ndim < 2:
        _refuse(given.reshape(-1) < 0.0, "is negative")
        return np.asarray(np.sqrt(np.broadcast_to(given, (n_nodes,)))[:, None, None] * np.eye(d))
    matrices = given.reshape(-1, d, d)
    _refuse(
        np.abs(matrices - np.swapaxes(matrices, 1, 2)).max((1, 2)) > 1e-8 * np.abs(matrices).max((1, 2)),
        "is not symmetric",
    )
    values, vectors = np.linalg.eigh(matrices)
    _refuse(values.min(1) < -d * noise * np.abs(values).max(1), "has a negative eigenvalue")
    roots = (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    return np.broadcast_to(roots, (n_nodes, d, d))


def _refuse(bad: Array, problem: str) -> None:
    if bad.any():
        where = f"of node {int(np.flatnonzero(bad)[0])} " if bad.size > 1 else ""
        raise InputError(f"The covariance {where}{problem}.")
