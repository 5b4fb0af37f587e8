"""Nodes with fewer realizations: what is kept exactly, what is kept on the mean, and bounds of the rest."""

import math

import naive
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import examples

import probi
from probi import InputError, Nodes, _parallel, expected_distances, thinning
from probi._kernels import thinning as kernels


def dense(n=5, m=400, d=3, seed=0, dtype=np.float64, uneven=True):
    """Nodes of two lumps of different mass each, far from the origin, some absent at times."""
    rng = np.random.default_rng(seed)
    X = 50 + rng.normal(size=(n, m, d)) * rng.uniform(0.5, 3, size=(n, 1, 1))
    X[:, : m // 5] += 8
    chances = rng.uniform(0.1, 1, size=(n, m)) ** 3 if uneven else np.ones((n, m))
    chances *= rng.uniform(0.3, 1, size=(n, 1)) / chances.sum(axis=1, keepdims=True)
    weights, ids = rng.uniform(1, 5, n), np.arange(n) + 7
    return Nodes.from_dense(X.astype(dtype), chances.astype(dtype), weights=weights, ids=ids)


def rows_of(nodes, i):
    part = nodes.points[nodes.offsets[i] : nodes.offsets[i + 1]]
    return {tuple(row) for row in part.tolist()}


# -- kept exactly -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [33, 100, 256, 257, 2000])  # all looked at, and some of them
def test_fewer_realizations_of_the_same_nodes(dtype, m):
    nodes = dense(m=m, dtype=dtype)
    thin = nodes.thin(32, random_state=0)
    assert np.diff(thin.offsets).max() <= 32
    assert thin.dtype == dtype
    for name in ("weights", "ids", "total_probabilities", "mass"):
        assert_array_equal(getattr(thin, name), getattr(nodes, name))
    for i in range(len(nodes)):
        assert rows_of(thin, i) <= rows_of(nodes, i)
    sums = np.add.reduceat(thin.probabilities.astype(np.float64), thin.offsets[:-1])
    assert_allclose(sums, nodes.total_probabilities, rtol=1e-6 if dtype == np.float32 else 1e-14)
    assert (thin.probabilities > 0).all()


def test_small_nodes_stay_as_they_are_among_large_ones():
    small, large = dense(n=3, m=20), dense(n=2, m=500, seed=1)
    mixed = Nodes.concat([small[:1], large[:1], small[1:], large[1:]])
    thin = mixed.thin(20, random_state=3)
    for i in (0, 2, 3):
        assert thin[i : i + 1] == mixed[i : i + 1]
    assert_array_equal(np.diff(thin.offsets)[[0, 2, 3]], 20)
    assert np.diff(thin.offsets)[[1, 4]].max() <= 20


def test_equal_points_are_one_and_nothing_is_lost():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 12, 2))
    owner = rng.integers(12, size=(4, 5000))
    X = np.take_along_axis(values, owner[:, :, None], axis=1)
    nodes = Nodes.from_list(X)
    thin, bounds = nodes.thin(12, random_state=0, return_bounds=True)
    assert_array_equal(np.diff(thin.offsets), 12)
    centers = rng.normal(size=(6, 2))
    assert_allclose(expected_distances(thin, centers), expected_distances(nodes, centers), rtol=1e-12)
    assert_array_equal(bounds.certified, 0.0)
    assert_array_equal(bounds.standard_error, 0.0)


def test_realizations_without_probability_are_left_out():
    chances = np.zeros((1, 100))
    chances[0, 40:43] = 0.25
    nodes = Nodes.from_dense(np.arange(100.0).reshape(1, 100, 1), chances)
    thin = nodes.thin(3)
    assert_array_equal(thin.points.reshape(-1), [40, 41, 42])
    assert_array_equal(thin.probabilities, 0.25)


def test_one_realization_is_left():
    thin = dense().thin(1, random_state=0)
    assert thin.is_certain
    assert_allclose(thin.probabilities, thin.total_probabilities)


# -- the same whatever happens around it ------------------------------------------------------------------------------


def test_neither_threads_nor_the_seed_of_another_kind_matter():
    nodes = dense(n=300, m=80)
    with _parallel.limited(1):
        one = nodes.thin(8, random_state=5)
    with _parallel.limited(3):
        assert nodes.thin(8, random_state=5) == one
    assert nodes.thin(8, random_state=6) != one
    assert nodes.thin(8, random_state=np.random.default_rng(1)) == nodes.thin(8, random_state=np.random.default_rng(1))


@given(st.integers(3, 700), st.integers(2, 40), st.integers(0, 2**32 - 1))
@example(8, 2, 0)  # one group: as many draws as items without two
@example(257, 2, 0)
def test_random_numbers_outside_those_of_a_node_are_not_used(size, max_kept, seed):
    max_kept = min(max_kept, size - 1)
    nodes, n_candidates = dense(n=1, m=size, seed=seed), thinning.CANDIDATES * max_kept
    (first,), (last,) = kernels.draws_of(np.array([size]), n_candidates)
    uniforms = np.random.default_rng(seed).uniform(size=last - first)
    # Offsets and totals that may be written to, as nodes.thin has them: else the kernel would be compiled again.
    given = kernels.Given(nodes.points, nodes.probabilities, nodes.offsets.copy(), nodes.total_probabilities.copy())

    def thin(outside):
        around = np.full(last, outside)
        kept = kernels.Kept(
            np.zeros((1, max_kept, 3)), np.zeros((1, max_kept)), np.zeros(1, np.int64), np.zeros((1, 3)),
            np.zeros((1, 2)),
        )  # fmt: skip
        kernels.thin(
            given, np.array([0]), np.concatenate([around, uniforms, around]), np.array([last - first]), n_candidates,
            False, False, kept,
        )  # fmt: skip
        return kept

    for with_zeros, with_ones in zip(thin(0.0), thin(1.0), strict=True):
        assert_array_equal(with_zeros, with_ones)


def test_nodes_that_are_alike_are_drawn_apart():
    """Equal nodes get different random numbers, or the error would not average out."""
    nodes = dense(n=1, m=300)
    thin = Nodes.concat([nodes] * 40).thin(8, random_state=0)
    assert len({thin[i : i + 1].points.tobytes() for i in range(40)}) == 40


@pytest.mark.parametrize("shift", [0.0, 1024.0, 1048576.0])
@pytest.mark.parametrize("factor", [1.0, 2.0**-20, 2.0**20])
def test_place_and_unit_do_not_matter(shift, factor):
    """Multiples of 1/8, so that all of them are exact."""
    rng = np.random.default_rng(0)
    X = rng.integers(-80, 80, size=(5, 300, 2)) / 8
    here = Nodes.from_dense(X).thin(16, random_state=0)
    there = Nodes.from_dense((X + shift) * factor).thin(16, random_state=0)
    assert_array_equal(here.offsets, there.offsets)
    assert_allclose((here.points + shift) * factor, there.points)
    # Distances to the middle are as exact as its coordinates, and what one gives to others goes by their differences.
    assert_allclose(here.probabilities, there.probabilities, rtol=0, atol=4 * np.spacing(10.0 + shift))


# -- on the mean ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("m", [200, 2000])
def test_expected_distances_are_kept_on_the_mean(m):
    """Means of 400 independent thinnings, within 4.5 standard errors: 15 numbers, wrong by chance once in 10,000."""
    nodes = dense(n=3, m=m)
    centers = np.array([[50.0, 50, 50], [58, 58, 58], [0, 0, 0], [54, 54, 54], [80, 50, 50]])
    found = expected_distances(Nodes.concat([nodes] * 400).thin(32, random_state=0), centers).reshape(400, 3, 5)
    exact = expected_distances(nodes, centers)
    deviation = found.std(axis=0)
    assert (np.abs(found.mean(axis=0) - exact) <= 4.5 * deviation / 20).all()
    # Strata do better than draws: half of the bound at most, and a tenth of the spread.
    _, bounds = nodes.thin(32, random_state=0, return_bounds=True)
    assert (deviation <= 0.5 * bounds.standard_error[:, None]).all()


@pytest.mark.slow
@pytest.mark.parametrize("m", [40, 500])  # all are candidates, and some of them
@pytest.mark.parametrize("most", [2, 3, 4, 6, 8, 32])
def test_heavy_tails_are_drawn_without_a_bias(most, m):
    """Means of 4,000 thinnings of a lognormal node, within 4.5 standard errors at three centers: wrong once in 50,000.

    That is 0.1 to 1 % of the expected distance; ratios of draws were off by up to 3.4 %.
    """
    node = Nodes.from_dense(np.random.default_rng(5).lognormal(0.0, 2.0, size=(1, m, 2)))
    centers = np.array([[1.0, 1.0], [3.0, 0.0], [40.0, 40.0]])
    exact = expected_distances(node, centers)
    found = expected_distances(Nodes.concat([node] * 4000).thin(most, random_state=0), centers)
    assert (np.abs(found.mean(axis=0) - exact) <= 4.5 * found.std(axis=0) / np.sqrt(4000)).all()
    _, bounds = node.thin(most, random_state=0, return_bounds=True)
    # The bound is one of the node, for all centers; it depends a little on the candidates.
    assert (found.std(axis=0) <= 1.05 * bounds.standard_error[0]).all()


@pytest.mark.parametrize("m", [40, 500])
def test_the_expected_distance_to_the_middle_does_not_change(m):
    """Half of the probability is at one place, so that this is the middle."""
    rng = np.random.default_rng(3)
    p = np.concatenate([[0.5], np.full(m, 0.5 / m)])
    nodes = Nodes.from_dense(np.concatenate([np.zeros((1, 2)), rng.standard_cauchy(size=(m, 2))])[None], p[None])
    for most in (2, 5, 8):
        thin = Nodes.concat([nodes] * 20).thin(most, random_state=0)
        assert_allclose(expected_distances(thin, np.zeros((1, 2))), expected_distances(nodes, np.zeros((1, 2)))[0, 0])


def test_the_rare_and_far_is_drawn_as_often_as_it_matters():
    """Two of 400 realizations make half of the expected distance; draws by probability would mostly miss them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1, 400, 2))
    X[0, :2] += 400.0
    nodes = Nodes.from_dense(X)
    center = np.zeros((1, 2))
    exact = expected_distances(nodes, center)[0, 0]
    found = expected_distances(Nodes.concat([nodes] * 300).thin(16, random_state=0), center)
    assert found.std() < 0.35 * exact
    assert found.mean() == pytest.approx(exact, rel=0.1)


@pytest.mark.slow
def test_thinning_hardly_changes_the_cost_of_a_solution():
    rng = np.random.default_rng(0)
    middles = 10 * rng.normal(size=(5, 4))
    nodes = Nodes.from_dense(middles[rng.integers(5, size=300)][:, None] + rng.normal(size=(300, 1000, 4)))
    thin = nodes.thin(32, random_state=0)
    found, best = (probi.solve(some, 5, random_state=0).centers for some in (thin, nodes))
    assert probi.expected_cost(nodes, found) <= 1.001 * probi.expected_cost(nodes, best)
    assert probi.expected_cost(thin, found) == pytest.approx(probi.expected_cost(nodes, found), rel=0.01)


# -- bounds -----------------------------------------------------------------------------------------------------------


@st.composite
def large_node(draw):
    d = draw(st.integers(1, 3))
    m = draw(st.integers(2, 60))
    numbers = st.integers(-40, 40).map(lambda x: x / 4)
    points = draw(st.lists(st.tuples(*[numbers] * d), min_size=m, max_size=m))
    chances = draw(st.lists(st.integers(0, 8), min_size=m, max_size=m).filter(any))
    centers = draw(st.lists(st.tuples(*[st.floats(-1e3, 1e3)] * d), min_size=1, max_size=4))
    return [(x, p / (8 * m)) for x, p in zip(points, chances, strict=True)], centers


@pytest.mark.slow
@examples(60)
@given(large_node(), st.integers(1, 12), st.integers(0, 5), st.sampled_from([1, 8]))
def test_no_center_sees_more_than_the_certified_bound(case, most, seed, candidates):
    node, centers = case
    points, chances = zip(*node, strict=True)
    nodes = Nodes(np.array(points), np.array(chances), [0, len(node)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probi.thinning.CANDIDATES", candidates)
        thin, bounds = nodes.thin(most, random_state=seed, return_bounds=True)
    for center in centers:
        kept = list(zip(thin.points.tolist(), thin.probabilities.tolist(), strict=True))
        change = abs(naive.expected_distance(kept, center) - naive.expected_distance(node, center))
        assert change <= bounds.certified[0] * (1 + 1e-9) + 1e-9


def test_on_a_line_the_bound_is_the_distance_itself():
    from scipy.stats import wasserstein_distance  # takes a second

    nodes = dense(n=6, m=500, d=1)
    thin, bounds = nodes.thin(10, random_state=0, return_bounds=True)
    for i in range(len(nodes)):
        old, new = nodes[i : i + 1], thin[i : i + 1]
        distance = wasserstein_distance(old.points[:, 0], new.points[:, 0], old.probabilities, new.probabilities)
        assert bounds.certified[i] == pytest.approx(distance * old.total_probabilities[0], rel=1e-9)


def test_bounds_cost_nothing_else():
    nodes = dense(m=2000)
    thin, _ = nodes.thin(32, random_state=0, return_bounds=True)
    assert thin == nodes.thin(32, random_state=0)


@pytest.mark.parametrize("epsilon", [0.2, 0.5])
def test_epsilon_is_the_standard_error_in_spreads(epsilon):
    nodes = dense(n=20, m=5000, d=4)
    thin, bounds = nodes.thin(epsilon=epsilon, random_state=0, return_bounds=True)
    assert np.diff(thin.offsets).max() <= math.ceil(6.75 / epsilon**2)
    _, spreads = probi.one_medians(nodes)
    # The median around which importance is measured is not exact.
    assert (bounds.standard_error <= 1.02 * epsilon * spreads * nodes.total_probabilities).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either"),
        ({"max_realizations": 3, "epsilon": 0.1}, "either"),
        ({"max_realizations": 0}, "max_realizations is 0"),
        ({"max_realizations": 2.5}, "max_realizations"),
        ({"epsilon": 0.0}, "epsilon is 0.0"),
        ({"epsilon": True}, "epsilon is True"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
    ],
)
def test_nonsense_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        dense().thin(**arguments)


# -- near points, and what is known of the spread before --------------------------------------------------------------


def test_near_points_are_one_where_that_is_enough():
    """Five places, and noise of a thousandth of their distances around them: no drawing is as good."""
    rng = np.random.default_rng(0)
    places = 100 + 10 * rng.normal(size=(5, 3))
    X = places[rng.integers(5, size=(4, 3000))] + 0.01 * rng.normal(size=(4, 3000, 3))
    nodes = Nodes.from_list(X)
    thin, bounds = nodes.thin(8, random_state=0, return_bounds=True)
    assert np.diff(thin.offsets).tolist() == [5, 5, 5, 5]
    centers = np.concatenate([places, rng.normal(size=(20, 3)) * 200])
    errors = np.abs(expected_distances(thin, centers) - expected_distances(nodes, centers)).max(axis=1)
    assert (errors <= bounds.certified).all()
    assert (errors <= bounds.standard_error).all()
    assert (bounds.certified < 0.03).all()
    # Nothing was drawn: no seed matters.
    assert thin == nodes.thin(8, random_state=1)


@pytest.mark.parametrize(("d", "share"), [(1, 0.6), (2, 0.8), (7, 0.8)])
def test_the_spread_before_is_between_its_bounds(d, share):
    nodes = dense(n=20, m=1000, d=d)
    found, _ = nodes._thin(16, 3, 0)
    _, spreads = probi.one_medians(nodes, tol=1e-9)
    upper, lower = found.spreads.T
    assert (lower <= spreads * (1 + 1e-12)).all()
    assert (spreads <= upper * (1 + 1e-8)).all()
    assert (lower > share * spreads).all()
    assert (upper < 1.02 * spreads).all()


def test_the_bounds_of_the_spread_are_those_of_the_definition():
    """At a middle on which realizations lie, they pull in whatever direction is needed."""
    X = np.concatenate([np.zeros((60, 2)), np.random.default_rng(0).normal(size=(100, 2)) + 1])
    nodes = Nodes.from_dense(X[None])
    found, _ = nodes._thin(16, 3, 0)
    _, spreads = probi.one_medians(nodes, tol=1e-9)
    assert found.spreads[0, 1] <= spreads[0] <= found.spreads[0, 0]


def test_where_nothing_is_lost_the_spread_is_not_asked_for():
    nodes = Nodes.from_dense(np.tile(np.arange(6.0).reshape(1, 3, 2), (1, 20, 1)))
    found, thin = nodes._thin(4, 0, 0)
    assert found.spreads.tolist() == [[-1.0, -1.0]]
    assert len(thin.points) == 3


@pytest.mark.parametrize(("d", "most"), [(1, 0.2), (2, 1.0), (3, 1.5), (12, 2.05)])
def test_the_certified_bound_is_of_use_in_few_dimensions(d, most):
    """In spreads. In many dimensions no few points are near a distribution, and carrying all to the middle is best."""
    nodes = dense(n=10, m=3000, d=d, uneven=False)
    _, bounds = nodes.thin(32, random_state=0, return_bounds=True)
    _, spreads = probi.one_medians(nodes)
    assert (bounds.certified / nodes.total_probabilities < most * spreads).all()


# -- hard nodes -------------------------------------------------------------------------------------------------------


def expected_at(nodes, place):
    radii = np.linalg.norm(nodes.points - place, axis=1)
    return np.add.reduceat(nodes.probabilities * radii, nodes.offsets[:-1])


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [0.6, 0.99, 0.999])
def test_a_heavy_realization_is_the_middle(heavy):
    n = 2000
    p = np.full(n, (1 - heavy) / (n - 1))
    p[0] = heavy
    one = Nodes(np.random.default_rng(0).normal(size=(n, 2)), p, [0, n])
    nodes = Nodes.concat([one] * 100)
    _, (spread, *_) = probi.one_medians(nodes)
    found, _ = nodes._thin(20, 1, 0)
    assert_allclose(found.spreads, spread, rtol=1e-9)
    thin = nodes.thin(epsilon=0.1, random_state=0)
    errors = expected_at(thin, np.zeros(2)) - expected_at(nodes, np.zeros(2))
    assert np.sqrt((errors**2).mean()) < 0.1 * spread


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 2, 3, 4, 6, 8, 32])
def test_far_realizations_do_not_carry_the_node_away(most):
    """Probability 1e-4 is far away on all sides. Few draws may all go there, and the node may not."""
    rng = np.random.default_rng(1)
    far = rng.normal(size=(20, 2))
    X = np.concatenate([1e4 * far / np.linalg.norm(far, axis=1, keepdims=True), 1e-3 * rng.normal(size=(300, 2))])
    p = np.concatenate([np.full(20, 1e-4 / 20), np.full(300, (1 - 1e-4) / 300)])
    nodes = Nodes.concat([Nodes(X, p, [0, 320])] * 2000)
    thin, bounds = nodes.thin(most, random_state=1, return_bounds=True)
    errors = expected_at(thin, np.array([0.5, 0.5])) - expected_at(nodes, np.array([0.5, 0.5]))
    # The error is a mean of 2,000: a bound that is right is exceeded by far less than 5 %.
    assert np.sqrt((errors**2).mean()) < 1.05 * bounds.standard_error.mean()
    assert (np.abs(errors) <= bounds.certified * (1 + 1e-9)).all()


def test_near_points_do_not_shift_all_nodes_in_one_direction():
    """Sorted realizations: the first of each group is its left end."""
    nodes = Nodes.from_list(np.tile(np.linspace(-2, 2, 1000)[:, None], (3, 1, 1)))
    thin = nodes.thin(450, random_state=0)
    assert np.diff(thin.offsets).max() < 450
    centers = np.array([[5.0], [-5.0]])
    assert_allclose(expected_distances(thin, centers), expected_distances(nodes, centers), rtol=1e-12)


def test_a_rounded_sum_above_one_is_no_more_than_one():
    """Ten thousand rounded probabilities may sum to more than ten of them may."""
    n = 10_000
    nodes = Nodes(np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32),
                  np.full(n, (1 + 2e-5) / n, np.float32), [0, n])  # fmt: skip
    thin = nodes.thin(10, random_state=0)
    assert nodes.total_probabilities[0] > 1.00001
    assert thin.total_probabilities[0] == 1.0
    Nodes(thin.points, thin.probabilities, thin.offsets)


def test_nothing_to_do_takes_no_memory():
    nodes = dense(n=3, m=20)
    assert nodes.thin(10**12) == nodes
    assert nodes.thin(epsilon=1e-9) == nodes
    with pytest.raises(InputError, match="not below"):
        nodes.thin(epsilon=1e-200)
