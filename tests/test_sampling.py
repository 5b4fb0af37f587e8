"""Distinct rows by mass, and the choice of a coreset along an order."""

from fractions import Fraction
from itertools import chain

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import read_only

from probi._kernels import sampling

# -- distinct rows ----------------------------------------------------------------------------------------------------


def drawn_once(mass, size, uniforms):
    """Rows, and how many draws each stands for."""
    drawn, times = np.empty(size, np.int64), np.empty(size)
    n = sampling.draw_once(read_only(np.array(mass, float)), size, np.array(uniforms, float), drawn, times)
    return drawn[:n], times[:n]


@given(
    st.lists(st.integers(0, 9) | st.integers(0, 10**6), min_size=1, max_size=30).filter(any),
    st.integers(1, 20),
    st.randoms(use_true_random=False),
)
def test_drawn_rows_match_the_definition(mass, size, random):
    uniforms = [random.randrange(1000) / 1000 + 0.00037 for _ in range(size)]  # on no border
    rows, times = drawn_once(mass, size, uniforms)
    expected = naive.draw_once(mass, size, uniforms)
    assert_array_equal(rows, sorted(expected))
    assert_allclose(times, [float(expected[row]) for row in rows], rtol=1e-9)


def test_rows_are_drawn_by_mass():
    mass, counts = np.array([0.0, 1.0, 2.0, 3.0, 100.0]), np.zeros(5)
    rng = np.random.default_rng(0)
    for _ in range(1000):
        counts[drawn_once(mass, 3, rng.random(3))[0]] += 1
    # The last one is certain; the others share two draws.
    assert_allclose(counts, [0, 333, 667, 1000, 1000], atol=60)


# -- the coreset ------------------------------------------------------------------------------------------------------


def chosen_by(mass, distances, leaf_sizes, size, offset, order=None, n_leaves=1):
    """Factors of all rows. Leaves are parts of the order, and each ``n_leaves`` of them are a cell."""
    mass, distances, n = np.array(mass, float), np.array(distances, float), len(mass)
    leaves, cell_of = np.empty(n, np.int32), (np.arange(len(leaf_sizes)) // n_leaves).astype(np.int32)
    leaves[np.arange(n) if order is None else order] = np.repeat(np.arange(len(leaf_sizes)), leaf_sizes)
    masses, costs = (np.bincount(cell_of[leaves], of_row) for of_row in (mass, mass * distances))
    chosen, factors = np.empty(size + 1, np.int64), np.empty(size + 1)
    n_chosen = sampling.choose(
        leaves, cell_of, read_only(mass), masses, costs, distances, size, offset, np.empty(n), chosen, factors
    )
    assert_array_equal(np.diff(chosen[:n_chosen]) > 0, True)
    of_all = np.zeros(n)
    of_all[chosen[:n_chosen]] = factors[:n_chosen]
    return of_all


@given(
    st.integers(0, 2**32 - 1), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.integers(1, 3), st.booleans()
)
def test_factors_match_the_definition(seed, sizes, n_leaves, heavy):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    mass = rng.integers(1, 4, n) * (1000.0 if heavy else 1.0) ** (rng.random(n) < 0.1)
    # Few digits, because the definition computes with fractions; the offset has all of them, and is on no border.
    distances = np.round(64 * rng.exponential(size=n)) / 64 * (rng.random(n) < 0.8)
    order, offset, size = rng.permutation(n), rng.random(), int(rng.integers(1, n + 1))
    leaves = [sorted(part.tolist()) for part in np.split(order, np.cumsum(sizes)[:-1])]
    cells = [list(chain(*leaves[i : i + n_leaves])) for i in range(0, len(leaves), n_leaves)]
    expected = naive.coreset_factors(mass.tolist(), distances.tolist(), cells, size, offset)
    found = chosen_by(mass, distances, sizes, size, offset, order, n_leaves)
    assert_allclose(found, [float(expected.get(i, 0.0)) for i in range(n)], rtol=1e-9)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0, exclude_max=True))
def test_exactly_as_many_as_asked_for_are_chosen_and_cells_keep_their_mass(seed, offset):
    rng = np.random.default_rng(seed)
    mass, distances = rng.exponential(size=200) ** 3, rng.exponential(size=200)
    size = int(rng.integers(20, 150))
    factors = chosen_by(mass, distances, [100, 60, 40], size, offset)
    assert np.count_nonzero(factors) == size
    for a, b in ((0, 100), (100, 160), (160, 200)):
        if factors[a:b].any():
            assert_allclose((mass * factors)[a:b].sum(), mass[a:b].sum(), rtol=1e-12)


def test_rows_are_chosen_as_often_as_their_importance_says():
    mass, distances = np.ones(6), np.array([0.0, 1.0, 2.0, 3.0, 0.0, 60.0])
    counts = sum(chosen_by(mass, distances, [6], 3, (i + 0.5) / 1000) > 0.0 for i in range(1000))
    shares = naive.importance_shares(mass.tolist(), distances.tolist(), [list(range(6))])
    chances = naive.capped_chances([Fraction(shares[i]) for i in range(6)], 3)
    assert_allclose(counts, [1000 * float(chance) for chance in chances], atol=2)


@pytest.mark.parametrize("heavy", [1e3, 1e17])
def test_a_certain_row_does_not_swallow_the_mass_of_the_others(heavy):
    factors = chosen_by([heavy, *np.ones(99)], np.ones(100), [100], 13, 0.5)
    assert factors[0] == 1.0
    assert_allclose(factors[1:].sum(), 99.0, rtol=1e-12)
