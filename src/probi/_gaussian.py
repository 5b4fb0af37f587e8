"""Realizations that stand for Gaussian errors."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probi._random import generator
from probi.errors import InputError
from probi.validation import as_array, as_floats

Array = NDArray[Any]


def realizations(means: Array, covariances: ArrayLike, n: int | None, random_state: Any) -> tuple[Array, Array | None]:
    """Points (n_nodes, m, d) of Gaussian nodes, and their probabilities (n_nodes, m) or None for equal ones."""
    n_nodes, d = means.shape
    if d == 0:
        raise InputError(f"Means have no features: their shape is {means.shape}.")
    roots = _roots(covariances, n_nodes, d)
    if n is None:
        shape, chances = _sigma_points(d)
        return _placed(means, roots, np.broadcast_to(shape, (n_nodes, *shape.shape))), np.tile(chances, (n_nodes, 1))
    if n < 1:
        raise InputError(f"n is {n}: draw at least one realization a node.")
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
    chances = np.full(2 * d + 1, off_middle / (2 * d))
    chances[0] = 1.0 - off_middle
    return np.concatenate([np.zeros((1, d)), axes, -axes]), chances


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
