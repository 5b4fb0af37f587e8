"""Nearest of many centers by bounds in float32: never another result than that of exact distances."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from samples import read_only

from probi import Nodes, objective
from probi.objective import Assignment, join_centers

KINDS = (
    "plain",
    "far",
    "two groups",
    "scales",
    "tails",
    "tiny",
    "huge",
    "below",
    "copies",
    "on centers",
    "one far row",
)


def hostile(kind, n, k, d, dtype, number=0):
    """Points and centers on which numbers with seven digits, or of a small range, may fail."""
    rng = np.random.default_rng(number)
    points, centers = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    if kind == "far":
        points, centers = points + 1e6, centers + 1e6
    elif kind == "two groups":
        points[::2] += 1e6
        centers[::2] += 1e6
    elif kind == "scales":
        points[::2] *= 1e-4
        centers[::2] *= 1e-4
    elif kind == "tails":
        points, centers = rng.standard_cauchy((n, d)) ** 3, rng.standard_cauchy((k, d)) ** 3
    elif kind in ("tiny", "huge", "below"):
        factor = {"tiny": 1e-18, "huge": 1e17, "below": 1e-300 if dtype == np.float64 else 1e-38}[kind]
        points, centers = points * factor, centers * factor
    elif kind == "copies":
        centers[:] = centers[rng.integers(0, min(3, k), k)]
    elif kind == "on centers":
        points = centers[rng.integers(0, k, n)]
    elif kind == "one far row":
        points[3] = 1e30 * rng.normal(size=d)
    return points.astype(dtype), centers.astype(dtype).astype(np.float64)


def distances_to(centers, points):
    """In more digits than the kernels have."""
    return np.sqrt(((points[:, None].astype(np.longdouble) - centers[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 3), (5, 4), (33, 10), (70, 2), (64, 19)])
def test_joined_centers_are_the_nearest_and_bounds_hold(kind, k, d, dtype):
    points, centers = hostile(kind, 150, k, d, dtype)
    labels, nearest, second = np.zeros(150, np.int32), np.full(150, np.inf), np.full(150, np.inf)
    join_centers(read_only(points), centers, 0, labels, nearest, second)
    exact = distances_to(centers, points)
    rows = np.arange(150)
    own = exact[rows, labels]
    # Squares below the range of numbers are zero, here as in the objective.
    assert (own <= exact.min(axis=1) * (1 + 1e-14) + 1e-150).all()
    assert_allclose(nearest, own.astype(float), rtol=1e-14, atol=1e-150)
    exact[rows, labels] = np.inf
    assert (second <= exact.min(axis=1) * (1 + 1e-14)).all()


@pytest.mark.parametrize("kind", ["plain", "far", "tails", "huge"])
def test_bounds_are_close(kind):
    # Where no group of centers is far from all others; a bound of 0 would be valid too, and useless.
    points, centers = hostile(kind, 150, 40, 10, np.float64)
    labels, nearest, second = np.zeros(150, np.int32), np.full(150, np.inf), np.full(150, np.inf)
    join_centers(read_only(points), centers, 0, labels, nearest, second)
    assert np.mean(second >= 0.999 * np.sort(distances_to(centers, points), axis=1)[:, 1]) > 0.9


def test_centers_join_in_parts():
    points, centers = hostile("plain", 700, 50, 3, np.float64)
    labels, nearest, second = np.zeros(700, np.int32), np.full(700, np.inf), np.full(700, np.inf)
    for first, last in ((0, 7), (7, 8), (8, 50)):
        join_centers(read_only(points), centers[:last], first, labels, nearest, second)
    exact = distances_to(centers, points).astype(float)
    assert_array_equal(labels, exact.argmin(axis=1))
    exact.sort(axis=1)
    assert_allclose(nearest, exact[:, 0], rtol=1e-14)
    assert_allclose(second, exact[:, 1], rtol=1e-4)
    assert (second <= exact[:, 1] * (1 + 1e-14)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "below"])  # refused as data
@pytest.mark.parametrize("k", [2, 40])
def test_an_assignment_has_the_same_bits_without_them(kind, exact, dtype, k, monkeypatch):
    points, centers = hostile(kind, 1200, k, 5, dtype)
    nodes, found = Nodes.from_points(points), []
    for least in (0, np.inf):
        monkeypatch.setattr(objective, "MIN_SCREENED", least)
        monkeypatch.setattr(objective, "MANY_CENTERS", np.inf)
        assert objective._bounds_pay_off(nodes, k) == (least == 0)
        assignment = Assignment(nodes)
        assignment.update(centers, np.zeros(k), exact=exact)
        found.append(assignment)
        reached = distances_to(centers, points)
        own = reached[np.arange(1200), assignment.labels].copy()
        reached[np.arange(1200), assignment.labels] = np.inf
        assert (assignment.nearest >= own * (1 - 1e-14) - 1e-150).all()
        assert (assignment.other <= reached.min(axis=1) * (1 + 1e-14)).all()
    assert_array_equal(found[0].labels, found[1].labels)
    if exact:
        assert_array_equal(found[0].nearest, found[1].nearest)
