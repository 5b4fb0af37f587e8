"""Small nodes that several tests look at, and ways to look at them."""

import warnings

import numpy as np
from numpy.testing import assert_array_equal

from probi import Nodes, SolverWarning, solve

ARRAYS = ("points", "probabilities", "offsets", "weights", "ids", "total_probabilities")
STATISTICS = ("mass", "gravity_centers", "variances")


def three(dtype=np.float64):
    """Three nodes with 2, 1 and 3 realizations, weights and ids; the second is absent half of the time."""
    return Nodes(
        np.array([[0, 0], [4, 0], [7, 7], [1, 0], [2, 0], [3, 9]], dtype),
        np.array([0.25, 0.75, 0.5, 0.25, 0.25, 0.5], dtype),
        [0, 2, 3, 6],
        weights=[1, 2, 3],
        ids=["a", "b", "c"],
    )


def as_lists(some):
    """Nodes as tests/naive.py wants them: lists of (point, probability), of the values that are really stored."""
    return [
        [(tuple(x), p) for x, p in zip(part.points.tolist(), part.probabilities.tolist(), strict=True)] for part in some
    ]


def assert_same_statistics(some, other):
    for name in STATISTICS:
        assert_array_equal(getattr(some, name), getattr(other, name))


def blobs(n=300, k=4, d=3, m=4, seed=0, scale=50.0, spread=0.3):
    """Uncertain nodes in k clusters far from each other, on a grid of 1/1024 so that shifts are exact."""
    rng = np.random.default_rng(seed)
    middles = scale * rng.normal(size=(k, d))
    labels = np.arange(n) % k
    X = middles[labels][:, None] + rng.normal(size=(n, 1, d)) + spread * rng.normal(size=(n, m, d))
    return np.round(X * 1024) / 1024, labels


def quiet_solve(*arguments, **options):
    """Solve where too few distinct nodes are no surprise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        return solve(*arguments, **options)
