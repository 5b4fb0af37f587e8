"""The default reduce: what a coreset keeps exactly, and what it keeps on average."""

import itertools

import naive
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import ARRAYS, blobs, certain, coreset_costs, numbered, random_centers, uncertain
from strategies import build, nodes

from probi import Nodes, _parallel, expected_cost
from probi._kernels import sampling
from probi.coreset import importance
from probi.coreset.importance import reduce
from probi.medians import CERTIFIED_MEDIANS, SPREAD_TOL, certified_medians
from probi.solver.problem import capped_probabilities

# Statistical tests have fixed seeds and allow so many standard errors: for right code and one number, one choice of
# seeds in 15,000 would be red.
STANDARD_ERRORS = 4.0


def reduced(some, size, k, seed=0):
    return reduce([some], size, k, np.random.default_rng(seed))


def many(n=2000, **options):
    return numbered(n, **{"k": 5} | options)


def some_centers(some, k=5):
    """Sets of centers anywhere, and one of realizations."""
    rng = np.random.default_rng(9)
    return [*(random_centers(some, k, seed) for seed in range(4)), some.points[rng.integers(0, some.n_realizations, k)]]


# -- exact promises ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "k"), [(4, 1), (20, 5), (100, 5), (1999, 5), (300, 70)])
def test_chooses_exactly_the_size_and_keeps_the_mass(size, k, dtype):
    some = many(dtype=dtype)
    for seed in range(5):
        coreset = reduced(some, size, k, seed)
        assert len(coreset) == len(np.unique(coreset.ids)) == size
        assert_allclose(coreset.mass.sum(), some.mass.sum(), rtol=1e-12)
        assert (coreset.weights > 0.0).all()
        assert coreset.dtype == dtype


@given(nodes(max_size=20), st.data())
def test_few_nodes_of_any_kind(some, data):
    weights = data.draw(st.lists(st.integers(0, 4).map(float), min_size=len(some), max_size=len(some)))
    assume(any(weights))
    every = build(some, weights)
    size, n_used = data.draw(st.integers(1, 20)), np.count_nonzero(weights)
    coreset = reduced(every, size, data.draw(st.integers(1, 4)), data.draw(st.integers(0, 99)))
    assert len(coreset) == min(size, n_used)
    assert_allclose(coreset.mass.sum(), every.mass.sum(), rtol=1e-12)


def test_nodes_are_chosen_as_they_are():
    some = many()
    coreset = reduced(some, 100, 5)
    assert coreset.with_weights(np.ones(100)) == some.take(coreset.ids).with_weights(np.ones(100))


@pytest.mark.parametrize("size", [30, 31, 1000])
def test_all_are_kept_if_there_are_not_more(size):
    some = many(n=30)
    assert reduced(some, size, 5) is some


def test_nodes_without_weight_are_never_chosen():
    some = many(n=400)
    weights = np.where(np.arange(400) % 3, some.weights, 0.0)
    some = some.with_weights(weights)
    for seed in range(20):
        coreset = reduced(some, 50, 5, seed)
        assert (weights[coreset.ids] > 0.0).all()
    n_used = np.count_nonzero(weights)
    assert_array_equal(reduced(some, n_used, 5).ids, np.flatnonzero(weights))
    assert len(reduced(some, n_used - 1, 5)) == n_used - 1


@pytest.fixture
def cells_made(monkeypatch):
    """Cells of the nodes in each reduce, all of which have mass."""
    seen = []
    choose = sampling.choose

    def look(leaves, cell_of, *more):
        seen.append(cell_of[leaves])
        return choose(leaves, cell_of, *more)

    monkeypatch.setattr(sampling, "choose", look)
    return seen


def test_each_cell_keeps_its_mass(cells_made):
    some = many()
    for seed in range(10):
        coreset = reduced(some, 200, 5, seed)
        cells = cells_made[-1]
        assert cells.max() + 1 == importance.CELLS_PER_CLUSTER * 5
        assert_allclose(np.bincount(cells[coreset.ids], coreset.mass), np.bincount(cells, some.mass), rtol=1e-12)


def test_cells_are_made_where_the_mass_is(cells_made):
    # Five heavy nodes at two places among thousands of light ones, of which few are looked at.
    X, weights = np.random.default_rng(10).normal(size=(5000, 2)), np.full(5000, 1e-3)
    X[:3], X[3:5], weights[:5] = [10.0, 0.0], [10.0, 10.0], 1000.0
    for seed in range(10):
        reduced(Nodes.from_points(X, weights), 50, 1, seed)
        assert_array_equal(cells_made[-1][:5] == cells_made[-1][0], [True, True, True, False, False])


@pytest.mark.parametrize("many_times", ["heavy", "far away"])
def test_a_node_that_counts_more_than_all_others_keeps_its_weight(many_times):
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(1000, 2)), np.ones(1000)
    if many_times == "heavy":
        weights[123] = 1e4
    else:
        X[123] = 1e4
    some = Nodes.from_points(X, weights, ids=np.arange(1000))
    for seed in range(20):
        coreset = reduced(some, 100, 3, seed)
        own = coreset.weights[coreset.ids == 123]
        # Beyond its own weight it may stand for the rest of its cell, where no other was chosen.
        assert len(own) == 1
        assert weights[123] <= own[0] <= 1.01 * weights[123]


@pytest.mark.parametrize("heavy", [1e3, 1e17])
def test_a_node_that_is_kept_stands_for_itself_and_the_others_for_the_rest(heavy):
    # One cell: all are in it. Beside 1e17 the mass of the others is lost to rounding in any sum of both.
    some = Nodes.from_points(np.random.default_rng(2).normal(size=(100, 2)), ids=np.arange(100))
    some = some.with_weights(np.where(np.arange(100) < 3, heavy, 1.0))
    coreset = reduced(some, 13, 1)
    assert_array_equal(coreset.weights[:3], heavy)
    assert_array_equal(coreset.ids[:3], [0, 1, 2])
    assert_allclose(coreset.weights[3:].sum(), 97.0, rtol=1e-12)


def test_a_tiny_cluster_far_away_is_always_represented():
    X = np.random.default_rng(3).normal(size=(5000, 2))
    X[::1000] += 200.0
    some = Nodes.from_points(X, ids=np.arange(5000))
    for seed in range(50):
        coreset = reduced(some, 200, 4, seed)
        there = coreset.ids % 1000 == 0
        assert_allclose(coreset.weights[there].sum(), 5.0, rtol=0.5)


# -- on average -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_costs_are_right_on_average():
    some = many()
    centers = some_centers(some)
    true = np.array([expected_cost(some, c) for c in centers])
    found = coreset_costs(reduce, some, 100, 5, centers, n_seeds=200)
    # Masses that are made exact leave a bias that is small beside the error of one coreset, up to 2 % here.
    allowed = STANDARD_ERRORS * found.std(axis=0, ddof=1) / np.sqrt(200) + 1e-3 * true
    assert (np.abs(found.mean(axis=0) - true) <= allowed).all()


@pytest.mark.slow
def test_equal_nodes_are_chosen_equally_often():
    # One cell, two places, 8 of 100 nodes: each is chosen 40 times in 500, with a standard deviation of 6.
    some = Nodes.from_points(np.repeat([[0.0], [1.0]], 50, axis=0), ids=np.arange(100))
    chosen = np.concatenate([reduced(some, 8, 1, seed).ids for seed in range(500)])
    counts = np.bincount(chosen, minlength=100)
    assert counts.min() > 10  # five standard deviations: for right code, one choice of seeds in 10,000
    assert counts.max() < 70


def test_a_spread_is_a_cost_that_no_center_undoes():
    # All medians at one place, five spreads are three times the others: five nodes have 1.5 % of the cost, not half.
    X = np.tile([[-1.0], [0.0], [1.0]], (1000, 1, 1))
    X[:5] *= 3.0
    some = Nodes.from_dense(X, ids=np.arange(1000))
    n_chosen = [np.count_nonzero(reduced(some, 15, 1, seed).ids < 5) for seed in range(20)]
    # Expected: 3.5 of all 100.
    assert sum(n_chosen) < 15


def uniform_sample(parts, size, _, rng):
    """The same number of nodes, each as likely as any other, with the same total mass."""
    (some,) = parts
    chosen = some.take(rng.choice(len(some), size, replace=False))
    return chosen.with_weights(chosen.weights * (some.mass.sum() / chosen.mass.sum()))


@pytest.mark.slow
def test_the_error_is_smaller_than_that_of_a_uniform_sample():
    some = many()
    centers = some_centers(some)
    true = np.array([expected_cost(some, c) for c in centers])
    squared = [
        ((coreset_costs(method, some, 100, 5, centers, n_seeds=60) / true - 1) ** 2).mean(axis=0)
        for method in (reduce, uniform_sample)
    ]
    # Measured: 5 to 20 times smaller. A mean square of 60 errors is off by a factor of 2 once in 10,000 times.
    assert (np.sqrt(squared[0]) < 0.5 * np.sqrt(squared[1])).all()


@pytest.mark.slow
def test_weight_three_means_three_copies():
    X, _ = blobs(n=600, k=3, spread=1.0)
    once, copies = Nodes.from_dense(X, weights=np.full(600, 3.0)), Nodes.from_dense(np.repeat(X, 3, axis=0))
    centers = [random_centers(once, 3, 0), *X[[[0, 1, 2], [9, 25, 41]], 0]]
    ours, theirs = (coreset_costs(reduce, some, 80, 3, centers, n_seeds=150) for some in (once, copies))
    standard_error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / 150)
    allowed = STANDARD_ERRORS * standard_error + 1e-3 * ours.mean(axis=0)
    assert (np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) <= allowed).all()
    # Equal standard deviations of 150 normal numbers each differ by a factor of 1.4 once in 25,000 times.
    assert_allclose(np.log(ours.std(axis=0) / theirs.std(axis=0)), 0.0, atol=np.log(1.4))


# -- special nodes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3])
def test_all_nodes_equal(m):
    some = Nodes.from_dense(np.full((500, m, 2), 7.0), weights=np.arange(500.0))
    coreset = reduced(some, 20, 5)
    assert len(coreset) == 20
    assert_allclose(coreset.mass.sum(), some.mass.sum(), rtol=1e-12)


def test_many_equal_nodes():
    # Cells of equal nodes cost nothing; among them one place that does.
    X = np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 9.0]], 300, axis=0)
    X[-100:] += np.random.default_rng(5).normal(size=(100, 2))
    some = Nodes.from_points(X, ids=np.arange(900))
    for seed in range(20):
        coreset = reduced(some, 40, 3, seed)
        assert len(coreset) == 40
        # The first two places are cells of their own.
        masses = np.bincount(np.minimum(coreset.ids // 300, 2), coreset.mass)
        assert_allclose(masses, [300.0, 300.0, 300.0], rtol=1e-12)


@pytest.mark.parametrize(("k", "size"), [(1, 4), (1, 50), (5, 20), (12, 48)])
@pytest.mark.parametrize("m", [1, 3])
def test_one_feature_and_few_picks(m, k, size):
    some = Nodes.from_dense(np.random.default_rng(6).normal(size=(700, m, 1)))
    coreset = reduced(some, size, k)
    assert len(coreset) == size
    assert_allclose(coreset.mass.sum(), 700.0, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e140, 1e-130])
def test_extreme_coordinates(scale):
    X = np.random.default_rng(7).normal(size=(300, 2))
    some, scaled = (Nodes.from_points(X * s, ids=np.arange(300)) for s in (1.0, scale))
    coreset = reduced(scaled, 40, 3)
    assert len(coreset) == 40
    assert_allclose(expected_cost(coreset, [[0.0, 0.0]]) / scale, expected_cost(some, [[0.0, 0.0]]), rtol=0.1)


# -- what must not matter ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("change", [lambda X: X + 1e6, lambda X: X * 2.0**40, lambda X: X * 2.0**-40])
def test_the_choice_does_not_depend_on_place_and_scale(change, m):
    X, _ = blobs(n=500, m=m)
    for seed in range(5):
        here, there = (reduced(Nodes.from_dense(Y, ids=np.arange(500)), 60, 4, seed) for Y in (X, change(X)))
        assert_array_equal(there.ids, here.ids)
        assert_allclose(there.weights, here.weights, rtol=1e-6)


@pytest.mark.parametrize("m", [1, 4])
def test_bits_do_not_depend_on_the_number_of_threads(m, monkeypatch):
    monkeypatch.setattr(importance, "GRAIN", 1 << 10)
    monkeypatch.setattr(importance, "ROWS_PER_TASK", 100)
    X, _ = blobs(n=3000, k=6, m=m)
    found = []
    for n_jobs in (1, 2, 3):
        with _parallel.limited(n_jobs):
            coreset = reduced(Nodes.from_dense(X, ids=np.arange(3000)), 200, 6)
        found.append(b"".join(getattr(coreset, name).tobytes() for name in ARRAYS))
    assert found[0] == found[1] == found[2]


def test_bits_depend_on_the_seed_alone():
    some, again = many(), many()
    assert reduced(some, 100, 5, seed=1) == reduced(again, 100, 5, seed=1)
    assert reduced(some, 100, 5, seed=1) != reduced(some, 100, 5, seed=2)


def test_the_input_is_not_modified():
    some = many(n=300)
    mass = some.mass.copy()
    before = {name: getattr(some, name).copy() for name in ARRAYS}
    reduced(some, 50, 5)
    for name in ARRAYS:
        assert_array_equal(getattr(some, name), before[name])
    assert_array_equal(some.mass, mass)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_medians_and_spreads_travel_with_the_nodes(dtype):
    some = many(n=300, dtype=dtype)
    coreset = reduced(some, 50, 5)
    expected = certified_medians(many(n=300, dtype=dtype), SPREAD_TOL)
    for ours, theirs in zip(coreset.known(CERTIFIED_MEDIANS), expected, strict=True):
        assert_array_equal(ours, theirs[coreset.ids])
    assert_array_equal(coreset.mass, coreset.weights * coreset.total_probabilities)


# -- inclusion probabilities ------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 10**9)), min_size=1, max_size=30), st.integers(1, 30))
def test_capped_chances_match_the_definition(scores, size):
    kept, inclusion = capped_probabilities(np.array(scores, float), size)
    expected = naive.capped_chances(scores, size)
    assert_array_equal(kept, [chance == 1 for chance in expected])
    assert_allclose(kept + inclusion, [float(chance) for chance in expected], rtol=1e-12)
    assert (inclusion[kept] == 0.0).all()


@given(st.lists(st.floats(1e-9, 1e9), min_size=3, max_size=40), st.data())
def test_capped_chances_sum_to_the_size_and_go_by_score(scores, data):
    size = data.draw(st.integers(1, len(scores) - 1))
    scores = np.array(scores)
    kept, inclusion = capped_probabilities(scores, size)
    assert_allclose(kept.sum() + inclusion.sum(), size, rtol=1e-12)
    assert (inclusion < 1.0 + 1e-12).all()
    ratios = inclusion[~kept] / scores[~kept]
    assert_allclose(ratios, ratios[:1].repeat(len(ratios)), rtol=1e-12)
    if kept.any() and not kept.all():
        assert scores[kept].min() >= scores[~kept].max()


def test_capped_leaves_scores_alone():
    scores = np.array([9.0, 1.0, 2.0])
    capped_probabilities(scores, 2)
    assert_array_equal(scores, [9.0, 1.0, 2.0])


@pytest.mark.parametrize("cuts", [[], [1], [1, 2], [150], [40, 41, 299]])
@pytest.mark.parametrize("make", [certain, uncertain])
def test_parts_are_one_set_of_nodes(make, cuts):
    some = make(300)
    cell_offsets = [0, *cuts, 300]
    parts = [some[a:b] for a, b in itertools.pairwise(cell_offsets)]
    whole, found = (reduce(given, 40, 2, np.random.default_rng(3)) for given in ([some], parts))
    assert found == whole
    assert found.magnitude == whole.magnitude
    for mine, theirs in zip(certified_medians(found, SPREAD_TOL), certified_medians(whole, SPREAD_TOL), strict=True):
        assert_array_equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 3])
def test_wide_nodes_are_rows_of_a_projection(m):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(50, m, 200)).astype(np.float32)
    some = Nodes.from_points(points[:, 0]) if m == 1 else Nodes.from_dense(points)
    (rows,), n_columns = importance._rows([some[:20], some[20:]])
    medians, spreads, _ = certified_medians(some, SPREAD_TOL)
    columns, factors = importance._projection(200)
    dense = np.zeros((200, n_columns))
    for f, c in itertools.product(range(200), range(importance.N_COPIES)):
        dense[f, columns[f, c]] += factors[f, c]
    centered = medians - np.median(medians.astype(np.float64), axis=0)
    assert_allclose(rows[:, :n_columns], centered @ dense, rtol=1e-9, atol=1e-9)
    if m > 1:
        assert_allclose(rows[:, n_columns], spreads, rtol=1e-9)


def test_a_projection_keeps_distances():
    # Of 2,000 distances 99 % are within 30 %: the standard deviation of a squared one is sqrt(2 / 64), some 18 %.
    rng = np.random.default_rng(1)
    some = Nodes.from_points(np.concatenate([rng.normal(size=(1000, 600)), rng.standard_t(2, size=(1000, 600))]))
    (rows,), _ = importance._rows([some])
    pairs = rng.permutation(2000)
    true = np.linalg.norm(some.points - some.points[pairs], axis=1)
    projected = np.linalg.norm(rows - rows[pairs], axis=1)
    ratio = projected / true / np.median(projected / true)
    assert np.quantile(abs(ratio - 1.0), 0.99) < 0.4
    assert np.quantile(abs(ratio - 1.0), 0.5) < 0.1


@pytest.mark.slow
def test_costs_of_wide_nodes_are_close():
    # Clusters that only all 300 features together tell apart, and a few far nodes: costs of a coreset of a tenth.
    rng = np.random.default_rng(2)
    middles = 0.3 * rng.normal(size=(8, 300))
    points = middles[rng.integers(0, 8, 6000)] + 0.2 * rng.normal(size=(6000, 300))
    points[:5] += 50.0 * rng.normal(size=(5, 300))
    some = Nodes.from_points(points)
    for centers in (middles, points[10:18], points[:3]):
        ratios = [
            expected_cost(reduced(some, 600, 8, seed), centers) / expected_cost(some, centers) for seed in range(5)
        ]
        assert_allclose(ratios, 1.0, atol=0.01)
