"""Small nodes that several tests look at, and ways to look at them."""

import numpy as np
from numpy.testing import assert_array_equal

from probi import Nodes

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
