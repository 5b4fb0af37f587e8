"""1-medians against the definition, with what is certified about them."""

import math
import warnings

import naive
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import build, coordinates, examples, node, nodes, points

import probi
from probi import InputError, Nodes, SolverWarning, _parallel, medians, one_medians
from probi.medians import certified_medians, paper_medians

# Rounds of the naive iteration: few enough for hundreds of nodes. It can only end above the optimum.
ROUNDS = 300


def one(places, probabilities):
    return Nodes(places, probabilities, [0, len(places)])


def median_of(places, probabilities):
    return one_medians(one(places, probabilities))[0][0]


def spreads_of(some):
    return one_medians(build(some))[1]


# -- the definition ---------------------------------------------------------------------------------------------------


@given(nodes())
def test_spread_is_the_expected_distance_to_the_median(some):
    places, spreads = one_medians(build(some))
    assert_allclose(spreads, [naive.spread_at(v, y) for v, y in zip(some, places, strict=True)], rtol=1e-12)


@pytest.mark.slow
@examples(60)
@given(nodes(max_size=3))
def test_no_place_is_better_by_more_than_tol(some):
    best = np.array([naive.median_cost(v, ROUNDS) for v in some])
    assert (spreads_of(some) <= (1 + 1e-6) * best * (1 + 1e-13)).all()


@pytest.mark.slow
def test_reaches_the_naive_optimum():
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 6):
        some = [[(tuple(x), 0.125) for x in rng.normal(size=(8, d))] for _ in range(3)]
        best = [naive.median_cost(v, 4000) for v in some]
        assert_allclose(one_medians(build(some), tol=1e-9)[1], best, rtol=1e-8)


@pytest.mark.slow
@examples(60)
@given(nodes(max_size=3), st.sampled_from([1e-2, 1e-6, 1e-9]))
def test_certificate_encloses_the_optimum_and_meets_within_tol(some, tol):
    _, spreads, lower = certified_medians(build(some), tol)
    best = np.array([naive.median_cost(v, ROUNDS) for v in some])
    assert (lower <= best * (1 + 1e-12)).all()
    assert (spreads <= (1 + tol) * best * (1 + 1e-12)).all()
    assert (spreads <= (1 + tol) * lower * (1 + 1e-13)).all()


def grid_nodes(n, m, d, least_share):
    """Nodes on a coarse grid: many ties, equal points and lines."""
    rng = np.random.default_rng(m + 100 * d)
    shares = rng.integers(least_share, 4, size=(n, m)) + (np.arange(m) == 0)
    return Nodes.from_dense(rng.integers(-2, 3, size=(n, m, d)), shares / shares.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("m", [3, 4, 5, 8, 13])
def test_certificate_holds_among_many_ties(m, d):
    some = grid_nodes(300, m, d, least_share=1)
    optimum = certified_medians(some, 1e-9)[1]
    for tol in (1e-2, 1e-6, 1e-9):
        _, spreads, lower = certified_medians(some, tol)
        assert (lower <= optimum * (1 + 1e-13)).all()
        assert (optimum <= spreads * (1 + 1e-9)).all()
        assert (spreads <= (1 + tol) * lower * (1 + 1e-13)).all()


# -- exact answers ----------------------------------------------------------------------------------------------------


def test_one_realization_is_its_own_median():
    places, spreads = one_medians(Nodes([[1.0, 2.0], [3.0, 4.0], [5.0, 5.0]], [0.3, 0.5, 0.5], [0, 1, 3]))
    assert_array_equal(places[0], [1.0, 2.0])
    assert spreads[0] == 0.0


def test_certain_nodes_are_their_own_medians():
    X = np.random.default_rng(0).normal(size=(5, 3))
    places, spreads = one_medians(Nodes.from_points(X))
    assert_array_equal(places, X)
    assert_array_equal(spreads, np.zeros(5))


@given(st.integers(1, 4).flatmap(lambda d: st.tuples(points(d), points(d))), st.integers(1, 9), st.integers(1, 9))
def test_of_two_realizations_the_heavier_one_or_the_middle(pair, a, b):
    expected = np.mean(pair, axis=0) if a == b else pair[0] if a > b else pair[1]
    assert_array_equal(median_of(pair, [a / 20, b / 20]), expected)


@given(st.integers(1, 4).flatmap(points), st.lists(st.integers(1, 9), min_size=1, max_size=7))
def test_equal_realizations_are_the_median(place, shares):
    places, spreads = one_medians(one([place] * len(shares), np.array(shares) / 100))
    assert_array_equal(places[0], place)
    assert spreads[0] == 0.0


@pytest.mark.parametrize("d", [1, 2, 5])
@given(st.data())
def test_on_a_line_it_is_the_weighted_median(d, data):
    whole = st.integers(-9, 9)
    start, direction = (
        data.draw(st.lists(whole, min_size=d, max_size=d)),
        data.draw(st.lists(whole, min_size=d, max_size=d)),
    )
    assume(any(direction))
    along = data.draw(st.lists(whole, min_size=1, max_size=9))
    shares = data.draw(st.lists(st.integers(0, 5), min_size=len(along), max_size=len(along)))
    assume(any(shares))
    low, high = naive.weighted_median_on_line(along, shares)
    places = np.array(start) + np.outer(along, direction)
    found = median_of(places, np.array(shares) / sum(shares))
    assert_array_equal(found, np.array(start) + (low + high) / 2 * np.array(direction))


@given(node(3, most=5), points(3))
def test_a_majority_is_the_median(rest, place):
    some = [[(place, 0.5), *((x, 0.49 * p) for x, p in rest)]]
    assert_array_equal(one_medians(build(some))[0][0], place)


@given(node(3, most=5), points(3), st.integers(2, 5), st.randoms(use_true_random=False))
def test_a_majority_of_equal_copies_is_the_median(rest, place, n_copies, random):
    some = [(place, 0.6 / n_copies)] * n_copies + [(x, 0.4 * p) for x, p in rest]
    random.shuffle(some)
    assert_array_equal(one_medians(build([some]))[0][0], place)


def test_a_bare_majority_of_equal_copies_is_the_median():
    places = [[-2.0, 1.0], [-2.0, 1.0], [2.0, 2.0], [1.0, 2.0]]
    assert_array_equal(median_of(places, [0.5, 0.0003, 0.49968, 0.00002]), [-2.0, 1.0])


# -- what must not matter ---------------------------------------------------------------------------------------------


@given(nodes(dimension=2), st.lists(st.tuples(st.integers(0, 9), points(2)), min_size=1, max_size=4))
def test_realizations_of_probability_zero_do_not_matter(some, ghosts):
    haunted = [list(v) for v in some]
    for at, place in ghosts:
        for v in haunted:
            v.insert(min(at, len(v)), (place, 0.0))
    assert_allclose(spreads_of(haunted), spreads_of(some), rtol=1e-6)


@pytest.mark.parametrize(
    ("some", "ghost"),
    [
        pytest.param([((0.0, 0.0), 0.4), ((0.0, 1.0), 0.3), ((1.0, 0.2), 0.3)], (1e13, 0.0), id="far away"),
        pytest.param([((0.0, -2.0), 0.5), ((-1.0, 1.0), 0.25), ((-1.0, 2.0), 0.25)], (0.0, -1.0), id="on the way"),
        pytest.param([((0.0, 0.0), 0.5), ((2.0, 0.0), 0.25), ((2.0, 4.0), 0.25)], (1.0, 1.0), id="at the start"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_realization_of_probability_zero_does_not_matter(some, ghost, first):
    haunted = [(ghost, 0.0), *some] if first else [*some, (ghost, 0.0)]
    assert_allclose(spreads_of([haunted]), spreads_of([some]), rtol=1e-6)


def test_certificates_are_as_good_among_realizations_of_probability_zero():
    _, spreads, lower = certified_medians(grid_nodes(5000, 4, 2, least_share=0), 1e-6)
    assert (spreads <= (1 + 1e-6) * lower * (1 + 1e-13)).all()


@given(nodes(), st.randoms(use_true_random=False))
def test_the_order_of_realizations_does_not_matter(some, random):
    shuffled = [random.sample(v, len(v)) for v in some]
    assert_allclose(spreads_of(shuffled), spreads_of(some), rtol=1e-6)


@given(nodes())
def test_splitting_a_realization_changes_nothing(some):
    split = [[(x, p / 2) for x, p in v for _ in range(2)] for v in some]
    assert_allclose(spreads_of(split), spreads_of(some), rtol=1e-6)


@given(nodes())
def test_a_chance_to_be_absent_changes_nothing(some):
    rarer = [[(x, p / 4) for x, p in v] for v in some]
    ours, theirs = one_medians(build(rarer)), one_medians(build(some))
    assert_array_equal(ours[0], theirs[0])
    assert_array_equal(ours[1], theirs[1])


def test_a_tiny_chance_to_be_there_changes_nothing():
    places = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.1], [3.0, 3.0]]
    expected = one_medians(one(places, np.full(4, 0.25)))[1]
    assert_allclose(one_medians(one(places, np.full(4, 0.25e-100)))[1], expected, rtol=1e-6)


@given(nodes(dimension=3), points(3), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 0.7, 12.0, 1e5]))
def test_moving_turning_and_scaling_the_space_keeps_the_spread(some, shift, seed, scale):
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    moved = [[(tuple(scale * (turn @ np.array(x)) + shift), p) for x, p in v] for v in some]
    size = max(abs(c) for v in some for x, _ in v for c in x) + max(map(abs, shift)) / scale
    assert_allclose(spreads_of(moved), scale * spreads_of(some), rtol=1e-6 + 1e-12, atol=1e-14 * scale * size)


# -- where it is hard -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("excess", [1e-3, 1e-6, 1e-9, 1e-12, 0.0, -1e-12, -1e-9, -1e-6, -1e-3])
@pytest.mark.parametrize("far", [1.0, 7.0, 1000.0])
def test_mass_that_nearly_balances_the_pull(excess, far):
    # At the origin the others pull with sqrt(2) times their mass: it is the median if its own mass is not less. The
    # naive iteration crawls here.
    shares = np.array([math.sqrt(2) * (1 + excess), 1.0, 1.0])
    some = one([[0.0, 0.0], [1.0, 0.0], [0.0, far]], shares / shares.sum())
    # In a long node costs are equal, but for rounding, long before the pull is 0.
    tol = 1e-9 if far < 1000.0 else 1e-6
    places, spreads, lower = certified_medians(some, tol)
    assert spreads[0] <= (1 + tol) * lower[0]
    at_origin = probi.expected_distances(some, [[0.0, 0.0]])[0, 0]
    assert lower[0] <= at_origin * (1 + 1e-14)
    if excess > 1e-14:
        assert_array_equal(places[0], [0.0, 0.0])
    if excess == -1e-3:
        assert spreads[0] < at_origin * (1 - 1e-10)


@pytest.mark.parametrize(
    ("places", "shares"),
    [
        ([[2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]], [0.5, 0.4957, 0.0010, 0.0033]),
        (
            [[-0.3067, -0.3026], [-0.725, 0.3796], [1.7982, 2.6642], [-0.2525, -0.7796]],
            [0.4737, 0.0109, 0.0159, 0.4994],
        ),
        ([[1.827, 1.913], [1.329, -1.66], [0.55, 0.9], [-0.204, 0.282]], [0.47368, 0.00008, 0.03344, 0.4928]),
    ],
)
def test_two_heavy_realizations_and_a_few_light_ones(places, shares):
    _, spreads, lower = certified_medians(one(places, shares), 1e-6)
    assert spreads[0] <= (1 + 1e-6) * lower[0]


@pytest.mark.parametrize("flatness", [1e-2, 1e-5, 1e-8])
def test_nodes_that_are_nearly_on_a_line(flatness):
    X = np.random.default_rng(3).normal(size=(200, 7, 2)) * [1.0, flatness]
    some = Nodes.from_dense(X)
    _, spreads, lower = certified_medians(some, 1e-6)
    assert (spreads <= (1 + 1e-6) * lower).all()
    best = np.array([naive.median_cost([(tuple(x), 1 / 7) for x in v], 30) for v in X])
    assert (lower <= best * (1 + 1e-13)).all()


def test_far_from_the_origin_nothing_changes():
    # On a grid of 1/1024 the shift is exact.
    X = np.round(np.random.default_rng(4).normal(size=(300, 6, 3)) * 1024) / 1024
    here, there = one_medians(Nodes.from_dense(X)), one_medians(Nodes.from_dense(X + 1e6))
    assert_allclose(there[1], here[1], rtol=1e-6)
    assert_allclose(there[0] - 1e6, here[0], atol=0.01)


@given(nodes())
def test_float32_nodes_are_taken_at_their_word(some):
    single = build(some, dtype=np.float32)
    assert single.dtype == np.float32
    exact = Nodes(single.points.astype(float), single.probabilities.astype(float) * 0.5, single.offsets)
    ours, theirs = one_medians(single), one_medians(exact)
    assert_allclose(ours[1], theirs[1], rtol=1e-12)
    assert_allclose(ours[0], theirs[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@pytest.mark.parametrize("n_varying", [0, 1, 7, 8, 9, 19])
def test_columns_in_which_a_node_does_not_vary_do_not_matter(n_varying, tol, dtype):
    rng = np.random.default_rng(n_varying)
    X = np.repeat(rng.normal(size=(40, 1, 20)) * 10.0 ** rng.integers(-3, 4, (40, 1, 20)), 5, axis=1).astype(dtype)
    columns = np.sort([rng.permutation(20)[:n_varying] for _ in X], axis=1).astype(int)  # others for each node
    for x, own in zip(X, columns, strict=True):
        x[:, own] = rng.normal(size=(5, n_varying))
    places, spreads, lower = certified_medians(Nodes.from_dense(X), tol)
    narrow = np.take_along_axis(X, columns[:, None], axis=2) if n_varying else X[:, :, :1]
    expected = certified_medians(Nodes.from_dense(narrow), tol)
    assert_allclose(spreads, expected[1], rtol=1e-12)
    assert_allclose(lower, expected[2], rtol=1e-12)
    for place, x, own in zip(places, X, columns, strict=True):
        assert_array_equal(np.delete(place, own), np.delete(x[0], own))
    assert_allclose(np.take_along_axis(places, columns, axis=1), expected[0][:, :n_varying], rtol=1e-9)


@pytest.mark.parametrize("scale", [1e140, 1e-130])
def test_extreme_coordinates(scale):
    X = np.random.default_rng(5).normal(size=(100, 5, 2))
    assert_allclose(one_medians(Nodes.from_dense(X * scale))[1] / scale, one_medians(Nodes.from_dense(X))[1], rtol=1e-6)


# -- certificates -----------------------------------------------------------------------------------------------------


def hostile_nodes(n, m, d, rng):
    """Nodes far from the origin, on lines or nearly so, in two even halves, with ties, outliers and any scale."""
    X = rng.choice([0.0, 1.0], (n, m, 1)) * rng.normal(size=(n, m, d)) + rng.integers(-2, 3, (n, m, 1))
    nearly = 10.0 ** rng.uniform(-17, -9, (n, 1, 1)) * rng.normal(size=(n, m, d))
    on_line = rng.standard_cauchy((n, m, 1)) * rng.normal(size=(n, 1, d)) + nearly
    X = np.where(rng.random((n, 1, 1)) < 0.5, X, on_line)
    X[:, 0] += np.where(rng.random((n, 1)) < 0.2, 10.0 ** rng.uniform(0, 16, (n, 1)), 0.0)
    X += np.where(rng.random((n, 1, 1)) < 0.6, 10.0 ** rng.uniform(0, 18, (n, 1, 1)), 0.0)
    scales = 10.0 ** rng.uniform(-135, 149, (n, 1, 1)) / np.abs(X).max(axis=(1, 2), keepdims=True, initial=1e-9)
    X *= np.where(rng.random((n, 1, 1)) < 0.2, scales, 1.0)
    halves = rng.random((n, m))
    halves /= 2 * np.repeat(np.add.reduceat(halves, [0, m // 2], axis=1), [m // 2, m - m // 2], axis=1)
    near_even = (1 + rng.integers(-1, 2, (n, m)) * 10.0 ** rng.uniform(-16, -10, (n, 1))) / m
    shares = np.where(rng.random((n, 1)) < 0.4, halves, near_even)
    return X, shares * 0.999 * 10.0 ** np.where(rng.random((n, 1)) < 0.1, rng.uniform(-130, 0, (n, 1)), 0.0)


def spreads_at(X, shares, Y):
    """In extended precision: expected distances of nodes (n, m, d) to points (n, j, d), given that they are there."""
    X, shares = X[:, None].astype(np.longdouble), shares[:, None].astype(np.longdouble)
    distances = np.sqrt(((X - Y[:, :, None].astype(np.longdouble)) ** 2).sum(axis=-1))
    return (shares * distances).sum(axis=-1) / shares.sum(axis=-1)


@pytest.mark.parametrize(("m", "d"), [(2, 1), (4, 1), (2, 2), (5, 2), (8, 3), (3, 9)])
def test_nothing_is_certified_above_a_cost_that_is_reached(m, d):
    X, shares = hostile_nodes(500, m, d, np.random.default_rng(10 * m + d))
    some = Nodes.from_dense(X, shares)
    for tol in (1e-2, 1e-6):
        places, _, lower = certified_medians(some, tol)
        reached = spreads_at(X, shares, np.concatenate([X, places[:, None]], axis=1)).min(axis=1).astype(float)
        assert (lower <= reached + 4 * np.spacing(reached)).all()


def test_the_middle_of_even_halves_is_no_median_where_rounding_puts_it_beside_the_line():
    here = np.array([[[0.0, 0.0], [768.0, 256.0]]])
    for times, expected in [(here, [384.0, 128.0]), (1.7e18 + here, [1.7e18, 1.7e18])]:
        places, spreads, lower = certified_medians(Nodes.from_dense(times), 1e-6)
        assert places.tolist() == [expected]
        assert_allclose([*spreads, *lower], math.hypot(768, 256) / 2, rtol=1e-15)


# -- huge nodes -------------------------------------------------------------------------------------------------------


@pytest.fixture
def low_limits(monkeypatch):
    """Nodes of 16,384 coordinates are huge, and have more than 60 parts."""
    monkeypatch.setattr(medians, "HUGE", 1 << 14)
    monkeypatch.setattr(medians, "GRAIN", 1 << 8)


def huge_among_small():
    """A node above the limit between two small ones, off center so that the search has to go a way."""
    rng = np.random.default_rng(6)
    n = medians.HUGE // 3 + 5_000
    X = np.concatenate([rng.normal(size=(4, 3)), rng.exponential(size=(n, 3)), rng.normal(size=(7, 3))])
    shares = rng.exponential(size=len(X))
    offsets = np.array([0, 4, 4 + n, 11 + n])
    shares /= np.repeat(np.add.reduceat(shares, offsets[:-1]), np.diff(offsets))
    return X, 0.9 * shares, offsets


@pytest.mark.usefixtures("low_limits")
def test_a_huge_node_has_the_median_it_would_have_as_a_small_one(monkeypatch):
    arrays = huge_among_small()
    places, spreads, lower = certified_medians(Nodes(*arrays), 1e-9)
    monkeypatch.setattr(medians, "HUGE", 1 << 60)
    expected, expected_spreads, _ = certified_medians(Nodes(*arrays), 1e-9)
    assert_allclose(spreads, expected_spreads, rtol=1e-9)
    assert_allclose(places, expected, rtol=1e-4)
    assert (spreads <= (1 + 1e-9) * lower).all()


def test_small_nodes_sent_the_way_of_huge_ones_get_the_same_medians(monkeypatch):
    rng = np.random.default_rng(7)
    X = rng.integers(-2, 3, size=(60, 5, 2)).astype(float)
    shares = rng.integers(1, 4, size=(60, 5))
    arrays = X, shares / shares.sum(axis=1, keepdims=True) * 0.9
    expected = certified_medians(Nodes.from_dense(*arrays), 1e-9)
    monkeypatch.setattr(medians, "HUGE", 1)
    monkeypatch.setattr(medians, "GRAIN", 4)  # several parts a node
    found = certified_medians(Nodes.from_dense(*arrays), 1e-9)
    assert_allclose(found[1], expected[1], rtol=1e-9)
    assert (found[1] <= (1 + 1e-9) * found[2] * (1 + 1e-13)).all()
    assert (found[2] <= expected[1] * (1 + 1e-13)).all()


@pytest.mark.usefixtures("low_limits")
def test_a_huge_node_on_a_line_has_an_exact_median():
    along = np.random.default_rng(8).permutation(medians.HUGE + 1).astype(float)
    places, spreads = one_medians(Nodes(along[:, None], None, [0, len(along)]))
    assert places[0, 0] == (len(along) - 1) / 2
    assert_allclose(spreads[0], (len(along) - 1 / len(along)) / 4, rtol=1e-10)


@pytest.mark.usefixtures("low_limits")  # many parts: another order of adding them would show
def test_bits_do_not_depend_on_the_number_of_threads():
    arrays = huge_among_small()
    found = []
    for n_jobs in (1, 2, 7):
        with _parallel.limited(n_jobs):
            found.append(b"".join(array.tobytes() for array in certified_medians(Nodes(*arrays), 1e-9)))
    assert found[0] == found[1] == found[2]


# -- promises and errors ----------------------------------------------------------------------------------------------


def test_a_tolerance_out_of_reach_is_reported():
    some = Nodes.from_dense(np.random.default_rng(9).normal(size=(200, 6, 3)))
    with pytest.warns(SolverWarning, match=r"of 200 medians are certified to .* only, not to tol=1\.0e-17"):
        places, spreads = one_medians(some, tol=1e-17)
    assert np.isfinite(places).all()
    assert_allclose(spreads, one_medians(some)[1], rtol=1e-6)


def test_a_tolerance_within_reach_is_not_reported():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one_medians(Nodes.from_dense(np.random.default_rng(9).normal(size=(20, 6, 3))), tol=1e-9)


@pytest.mark.parametrize("tol", [0.0, -1e-6, math.nan])
def test_a_tolerance_must_be_positive(tol):
    with pytest.raises(InputError, match="tol is"):
        one_medians(Nodes.from_points([[0.0]]), tol=tol)


def test_medians_are_computed_once_for_each_tolerance():
    some = Nodes.from_dense(np.random.default_rng(10).normal(size=(3, 4, 2)))
    first = certified_medians(some, 1e-6)
    assert certified_medians(some, 1e-6) is first
    assert certified_medians(some, 1e-2) is not first
    assert all(not array.flags.writeable for array in first)


def test_a_part_of_the_nodes_keeps_their_medians():
    some = Nodes.from_dense(np.random.default_rng(10).normal(size=(6, 4, 2)))
    places, spreads = one_medians(some)
    for part, rows in ((some[2:5], [2, 3, 4]), (some.take([5, 0]), [5, 0])):
        assert_array_equal(one_medians(part)[0], places[rows])
        assert_array_equal(one_medians(part)[1], spreads[rows])


# -- the paper's rule -------------------------------------------------------------------------------------------------


@given(st.integers(1, 4).flatmap(lambda d: node(d)))
def test_paper_medians_follow_the_papers_rule(some):
    there = [(x, p) for x, p in some if p > 0]
    # Rounding decides where a step ratio is just at the limit: look at nodes where a hair's breadth changes nothing.
    stops = [naive.weiszfeld_by_the_papers_rule(there, ratio) for ratio in (0.1, 0.1 - 1e-7, 0.1 + 1e-7)]
    places, spreads, hit = paper_medians(build([some]))
    if stops[0] is None:
        assert min(math.dist(x, places[0]) for x, _ in there) <= 1e-9
        return
    assume(None not in stops and max(math.dist(stops[0], y) for y in stops) <= 1e-12)
    assume(min(math.dist(x, stops[0]) for x, _ in there) > 1e-6)
    assert_allclose(places[0], stops[0], rtol=1e-9, atol=1e-9)
    assert_allclose(spreads[0], naive.spread_at(some, stops[0]), rtol=1e-9, atol=1e-9)
    assert not hit[0]


@pytest.mark.parametrize("d", [2, 10, 40])
def test_paper_medians_of_nodes_where_steps_shrink_fast(d):
    # In high dimension steps shrink tenfold, and more than two of them are made.
    X = np.random.default_rng(d).normal(size=(20, 60, d)) * np.linspace(0.5, 1.5, 60)[:, None]
    some = [[(tuple(x), 1 / 60) for x in v] for v in X]
    places, _, hit = paper_medians(build(some))
    assert_allclose(places, [naive.weiszfeld_by_the_papers_rule(v) for v in some], rtol=1e-9, atol=1e-12)
    assert not hit.any()


def test_paper_medians_say_where_they_hit_a_realization():
    cross = [((0.0, 0.0), 0.2), ((1.0, 0.0), 0.2), ((-1.0, 0.0), 0.2), ((0.0, 2.0), 0.2), ((0.0, -2.0), 0.2)]
    beside = [((3.0, 0.0), 0.5), ((1.0, 0.0), 0.25), ((1.0, 1.0), 0.25)]
    certain = [((5.0, 5.0), 0.5)]
    haunted = [((2.0, 0.0), 0.0), ((1.0, 0.0), 0.5), ((3.0, 0.0), 0.5)]
    places, spreads, hit = paper_medians(build([cross, beside, certain, haunted]))
    assert_array_equal(hit, [True, False, True, False])
    assert_array_equal(places[0], [0.0, 0.0])
    assert_allclose(spreads[[0, 2]], [1.2, 0.0], rtol=1e-12)


def test_paper_medians_stop_after_fifteen_steps():
    assert (medians.PAPER_RATIO, medians.PAPER_STEPS) == (0.1, 15)


# -- nothing is changed -----------------------------------------------------------------------------------------------


@given(st.lists(coordinates, min_size=6, max_size=6))
def test_inputs_are_not_modified(values):
    X, p = np.array(values).reshape(3, 2), np.array([0.2, 0.3, 0.4])
    kept = X.copy(), p.copy()
    certified_medians(one(X, p), 1e-6)
    assert_array_equal(X, kept[0])
    assert_array_equal(p, kept[1])
