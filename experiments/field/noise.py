"""Six ways to make points uncertain, at three levels. Features have standard deviation 1 before.

A measurement does not know the true value: the observation is the value with an error, and realizations are drawn
around the observation, with errors of the same kind.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = Any
Realizations = tuple[Floats, Floats, Any]  # points, probabilities, offsets

M = 10  # realizations per node
LEVELS = ("low", "medium", "high")
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def realizations(kind: str, X: Floats, level: str, seed: int, name: str) -> Realizations:
    """Realizations of a data set; the same for the same arguments."""
    rng = np.random.default_rng([zlib.crc32(f"{name}, {kind}".encode()), LEVELS.index(level), seed])
    return KINDS[kind].make(X, KINDS[kind].levels[LEVELS.index(level)], rng)


def _equal(points: Floats) -> Realizations:
    """Flat arrays of (n, m, d) realizations with the same probability."""
    n, m, d = points.shape
    return points.reshape(-1, d), np.full(n * m, 1.0 / m), np.arange(0, n * m + 1, m)


def _measured(X: Floats, error: float, rng: np.random.Generator, draw: Draw) -> Floats:
    """Draws around observations with errors; the error of a node is half to one and a half times the usual one."""
    scales = error * rng.uniform(0.5, 1.5, (len(X), 1))
    observed = X + scales * draw(rng, X.shape)
    return observed[:, None] + scales[:, None] * draw(rng, (len(X), M, X.shape[1]))


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.normal(size=shape)


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), shape)


def _heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return rng.standard_t(2, shape)


def _with_errors(draw: Draw) -> Callable[[Floats, float, np.random.Generator], Realizations]:
    return lambda X, error, rng: _equal(_measured(X, error, rng, draw))


def missing(X: Floats, share: float, rng: np.random.Generator) -> Realizations:
    """Realization j has for each missing value that of the j-th nearest row in which it is known (hot deck)."""
    gone = rng.random(X.shape) < share
    gone[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False  # something is known of each row
    points = np.repeat(X[:, None], M, axis=1)
    known = (~gone).astype(float)
    Z = np.where(gone, 0.0, X)
    squared = (Z**2) @ known.T - 2.0 * Z @ Z.T + known @ (Z**2).T
    shared = known @ known.T
    apart = np.where(shared > 0, squared / np.maximum(shared, 1.0), np.inf)
    np.fill_diagonal(apart, np.inf)
    order = np.argsort(apart, axis=1, kind="stable")
    for i, f in np.argwhere(gone):
        donors = order[i][~gone[order[i], f] & (order[i] != i)]
        points[i, :, f] = X[np.resize(donors[:M], M), f]
    return _equal(points)


N_OWN, MODE_ERROR = 6, 0.25


def multimodal(X: Floats, share: float, rng: np.random.Generator) -> Realizations:
    """Six realizations around the observation; the other four, with a share of the probability, around another row."""
    points = _measured(X, MODE_ERROR, rng, _normal)
    others = X[rng.permutation(len(X))]
    points[:, N_OWN:] = others[:, None] + MODE_ERROR * rng.normal(size=(len(X), M - N_OWN, X.shape[1]))
    flat, _, offsets = _equal(points)
    probabilities = np.repeat([(1.0 - share) / N_OWN, share / (M - N_OWN)], [N_OWN, M - N_OWN])
    return flat, np.tile(probabilities, len(X)), offsets


def absent(X: Floats, share: float, rng: np.random.Generator) -> Realizations:
    """Gaussian errors of 0.5; each member is lost with this probability, and its share of the probability with it."""
    points = _measured(X, 0.5, rng, _normal)
    kept = rng.random(points.shape[:2]) >= share
    kept[np.arange(len(X)), rng.integers(M, size=len(X))] = True  # one at least
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return points[kept], np.full(offsets[-1], 1.0 / M), offsets


@dataclass(frozen=True)
class Kind:
    """A way to make points uncertain: what its levels mean, and the function."""

    about: str
    levels: tuple[float, float, float]
    make: Callable[[Floats, float, np.random.Generator], Realizations]


ERRORS = (0.25, 0.5, 1.0)
KINDS = {
    "Gaussian": Kind("Gaussian errors; the level is their standard deviation", ERRORS, _with_errors(_normal)),
    "uniform": Kind("uniform errors; the level is their standard deviation", ERRORS, _with_errors(_uniform)),
    "heavy-tailed": Kind(
        "Student's t with 2 degrees of freedom, whose variance is infinite; the level is its scale",
        ERRORS,
        _with_errors(_heavy),
    ),
    "missing": Kind(
        f"values missing at random, imputed {M} times from the nearest rows; the level is the share that is missing",
        (0.1, 0.3, 0.5),
        missing,
    ),
    "multimodal": Kind(
        "a node may be another one by mistake; the level is the probability of that", (0.15, 0.3, 0.45), multimodal
    ),
    "absent": Kind(
        "members that may be absent: each realization is lost with the probability that is the level",
        (0.25, 0.5, 0.75),
        absent,
    ),
}
