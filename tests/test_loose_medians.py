"""1-medians to a loose tolerance: plain steps must hold the same certificate as the full search."""

import functools
import math

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from samples import as_lists
from strategies import build, examples, node, nodes

from probi import Nodes
from probi._kernels import median_search as kernels
from probi._kernels._compile import kernel
from probi._kernels.pull import FIRST_RELAXATION, LOOSE_RELAXATION, N_SCALARS
from probi.medians import certified_medians

# Rounds of the naive iteration; it can only end above the optimum.
ROUNDS = 300
TOLERANCES = [kernels.LOOSE, 1e-2, 0.1]


begin, take_plain_steps = kernel(kernels.begin), kernel(kernels.plain_steps)


def plain_steps(places, shares, tol):
    """Whether plain steps reached the tolerance, where they ended, its expected distance, and the lower bound."""
    d = places.shape[1]
    work, state, out = np.zeros((kernels.N_ROWS, d)), np.empty(1, kernels.STATE)[0], np.empty(d + N_SCALARS)
    total = float(np.sum(shares, dtype=np.float64))
    begin(places, shares, total, shares.max(), work, state, d)
    terms = np.empty((2, len(places) + 3))
    reached = take_plain_steps(places, shares, total, tol, out, work, terms, state, d)
    return reached, work[kernels.TRIAL], state.cost / total, state.lower / total


@functools.lru_cache(maxsize=200)  # the same for all tolerances
def best_cost(some):
    return naive.median_cost(list(some), ROUNDS)


def check_certificate(some, tol):
    """The bounds of one node, if plain steps reached the tolerance; whether they did."""
    places, shares = np.array([x for x, _ in some]), np.array([p for _, p in some])
    reached, y, spread, lower = plain_steps(places, shares, tol)
    best = best_cost(tuple((x, p) for x, p in some if p > 0.0))
    assert lower <= best * (1 + 1e-12) + 1e-300
    if reached:
        assert_allclose(spread, naive.spread_at(some, y), rtol=1e-12)
        assert best <= spread * (1 + tol / 10)  # the naive iteration is near the optimum, not at it
        assert spread <= (1 + tol) * lower * (1 + 1e-13)
    return reached


@pytest.mark.slow
@examples(60)
@given(st.integers(1, 4).flatmap(lambda d: node(d, most=8)), st.sampled_from(TOLERANCES))
def test_plain_steps_certify_what_they_say(some, tol):
    check_certificate(some, tol)


@pytest.mark.slow
@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize(("m", "d"), [(3, 2), (6, 3), (10, 9), (30, 2)])
def test_plain_steps_certify_random_nodes_and_nearly_always_get_there(m, d, tol):
    rng = np.random.default_rng(m)
    reached = []
    for _ in range(25):
        shares = rng.integers(1, 5, m)
        some = [(tuple(x), 0.9 * p) for x, p in zip(rng.exponential(size=(m, d)), shares / shares.sum(), strict=True)]
        reached.append(check_certificate(some, tol))
    # Few realizations are often the median themselves, which the full search has to find.
    assert np.mean(reached) > (0.9 if m > 3 and tol > kernels.LOOSE else 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("tol", TOLERANCES)
def test_plain_steps_certify_nodes_with_equal_realizations(tol):
    rng = np.random.default_rng(1)
    reached = []
    for _ in range(50):
        places = rng.integers(0, 3, size=(9, 2)).astype(float)
        reached.append(check_certificate([(tuple(x), 1 / 9) for x in places], tol))
    assert any(reached)


@pytest.mark.slow
def test_the_lower_bound_is_the_best_one_of_the_places_on_the_way():
    rng, n_reached = np.random.default_rng(2), 0
    for _ in range(30):
        shares = rng.integers(1, 9, 6) / 50
        some = [(tuple(x), p) for x, p in zip(rng.exponential(size=(6, 2)) ** 3, shares, strict=True)]
        y, best = naive.gravity_center(some), 0.0
        for step in range(kernels.FEW_STEPS):
            best, before = max(best, naive.dual_lower_bound(some, y)), y
            target = naive.weiszfeld_step(some, y)
            relaxation = LOOSE_RELAXATION if step else FIRST_RELAXATION
            y = [a + relaxation * (b - a) for a, b in zip(y, target, strict=True)]
        nearest = min((x for x, _ in some), key=lambda x: math.dist(x, before))
        best = min(max(best, naive.dual_lower_bound(some, nearest)), naive.spread_at(some, nearest))
        # Out of reach but for a realization that is the median (its cost less rounding), so that all steps are made.
        reached, y, _, lower = plain_steps(np.array([x for x, _ in some]), shares, 1e-13)
        assert_allclose(y, nearest, rtol=1e-12)
        assert_allclose(lower, best, rtol=1e-9)
        n_reached += reached
    assert 0 < n_reached < 30


def test_plain_steps_find_a_realization_that_is_the_median():
    cross = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    reached, y, spread, lower = plain_steps(cross, np.full(5, 0.2), 1e-3)
    assert reached
    assert_allclose(y, [0.0, 0.0], atol=1e-15)
    assert_allclose([spread, lower], [1.2, 1.2], rtol=1e-12)


def test_plain_steps_give_up_on_a_realization_that_is_not_the_median():
    # The center of gravity, where they begin, is the last one.
    some = np.array([[4.0, 1.0], [4.0, -1.0], [4.0, 0.0], [-8.0, 0.0], [0.0, 0.0]])
    reached, _, _, _ = plain_steps(some, np.array([0.25, 0.25, 0.125, 0.3125, 0.0625]), 0.01)
    assert not reached


def test_plain_steps_do_not_stop_for_a_realization_of_probability_zero():
    cross = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    reached, y, spread, lower = plain_steps(cross, np.array([0.0, 0.25, 0.25, 0.25, 0.25]), 0.1)
    assert reached
    assert_allclose(y, [0.0, 0.0], atol=1e-15)
    assert_allclose([spread, lower], [1.5, 1.5], rtol=1e-12)


# -- what users get ---------------------------------------------------------------------------------------------------


def check_medians(some, tol):
    places, spreads, lower = certified_medians(some, tol)
    lists = as_lists(some)
    best = np.array([naive.median_cost([(x, p) for x, p in v if p > 0.0], ROUNDS) for v in lists])
    assert (lower <= best * (1 + 1e-12)).all()
    assert (best <= spreads * (1 + tol / 10)).all()
    assert (spreads <= (1 + tol) * lower * (1 + 1e-13)).all()
    assert_allclose(spreads, [naive.spread_at(v, y) for v, y in zip(lists, places, strict=True)], rtol=1e-12)


@pytest.mark.slow
@examples(60)
@given(nodes(max_size=3, most=8), st.sampled_from(TOLERANCES), st.sampled_from([np.float32, np.float64]))
def test_loose_certificates_enclose_the_optimum(some, tol, dtype):
    check_medians(build(some, dtype=dtype), tol)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 7, 8, 9, 17])
def test_loose_certificates_of_long_rows(d, dtype):
    # From 8 features on rows are padded with zeros.
    X = np.random.default_rng(d).exponential(size=(20, 6, d))
    check_medians(Nodes.from_dense(X.astype(dtype)), 1e-2)


def test_far_from_the_origin_loose_spreads_are_the_same():
    X = np.round(np.random.default_rng(4).normal(size=(300, 6, 3)) * 1024) / 1024
    here, there = (certified_medians(Nodes.from_dense(Y), 1e-2) for Y in (X, X + 1e6))
    assert_allclose(there[1], here[1], rtol=1e-12)
    assert_allclose(there[2], here[2], rtol=1e-12)
    assert_allclose(there[0] - 1e6, here[0], atol=1e-9)
