"""The search on certain nodes: what each step does, with kernels and in plain arrays."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import PLACES, WEIGHTS, blobs, check_frequencies
from strategies import build, points, weighted_nodes_and_centers

from probi import Nodes, assign, expected_cost, expected_distances, objective, solve
from probi.objective import Assignment
from probi.solver import problem as problems
from probi.solver import search
from probi.solver.lloyd import Lloyd, one_round
from probi.solver.options import silent
from probi.solver.problem import Problem
from probi.solver.search import Search, Searches, SmallSearch, seeds
from probi.solver.several import SeveralSearch

KINDS = pytest.mark.parametrize("kind", [Search, SmallSearch])


def lifted(n=60):
    return Problem.of(Nodes.from_dense(blobs(n=n)[0])).lifted()


@st.composite
def points_and_sets_of_centers(draw):
    """Weighted points, and several sets of as many centers, some of them on points."""
    d, k = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    places = draw(st.lists(points(d), min_size=2, max_size=12))
    weights = draw(st.lists(st.integers(0, 3).map(float), min_size=len(places), max_size=len(places)))
    weights[0] = 1.0
    centers = st.lists(st.one_of(points(d), st.sampled_from(places)), min_size=k, max_size=k)
    return Nodes.from_points(places, weights), np.array(draw(st.lists(centers, min_size=1, max_size=3)))


# -- rounds -----------------------------------------------------------------------------------------------------------


@KINDS
@given(points_and_sets_of_centers())
def test_a_round_is_that_of_lloyd(kind, data):
    nodes, sets = data
    problem = Problem.of(nodes)
    once = kind(problem).descend(sets, 1, 0.0)
    for centers, after, cost in zip(sets, once.centers, once.costs, strict=True):
        lloyd = Lloyd(nodes, centers)
        one_round(problem, lloyd)
        assert_allclose(after, lloyd.centers, rtol=1e-9, atol=1e-9)
        assert_allclose(cost, lloyd.cost, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (31, 4, 2), (100, 5, 4), (3000, 12, 9), (1000, 3, 31)])
def test_every_node_joins_the_nearest_center(dtype, n, d, k):
    rng = np.random.default_rng(0)
    nodes = Nodes.from_points(rng.standard_t(2, size=(n, d)).astype(dtype), rng.uniform(size=n))
    centers = rng.normal(size=(k, d)).astype(dtype).astype(float)
    known, D = Search(Problem.of(nodes)).settled(centers), expected_distances(nodes, centers)
    rtol = 8 * np.finfo(dtype).eps
    assert_allclose(known.nearest, D.min(axis=1), rtol=rtol)
    assert_allclose(D[np.arange(n), known.labels], D.min(axis=1), rtol=rtol)
    assert_allclose(known.second, np.partition(D, 1, axis=1)[:, 1] if k > 1 else np.full(n, np.inf), rtol=rtol)


def test_of_equally_near_centers_the_first_is_taken():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(70, 2)))
    assert not Search(Problem.of(nodes)).settled(np.zeros((7, 2))).labels.any()


def test_a_round_in_float32_is_nearly_that_in_float64():
    rng = np.random.default_rng(0)
    problem = Problem.of(Nodes.from_points(1e4 + rng.standard_t(3, size=(2000, 5)), rng.uniform(size=2000)))
    centers = problem.nodes.points[:9] + 0.1
    single = problem.in_float32(problem.origin)
    exact, rounded = Search(problem).descend(centers[None], 3, 0.0), Search(single)
    found = rounded.descend(centers[None] - problem.origin, 3, 0.0)
    assert rounded.settled(centers).nearest.dtype == np.float32
    assert_allclose(found.centers + problem.origin, exact.centers, atol=1e-4)
    assert_allclose(found.costs, exact.costs, rtol=1e-6)


def test_float32_is_relative_to_the_middle_of_the_data():
    # Relative to 0 all digits of float32 would be those of the shift.
    points = np.random.default_rng(0).normal(1e5, size=(3000, 3))
    searches = Searches.of(Problem.of(Nodes.from_points(points)), 5, np.random.default_rng(0))
    rows = searches.on_all.problem.nodes.points
    assert rows.dtype == np.float32
    assert_allclose(rows + searches.origin, points, rtol=0, atol=1e-6)


def test_groups_too_far_apart_for_float32_are_searched_in_float64():
    points = np.random.default_rng(0).normal(size=(3000, 3))
    points[:1500] += 1e5
    searches = Searches.of(Problem.of(Nodes.from_points(points)), 5, np.random.default_rng(0))
    assert searches.on_all.problem.nodes.dtype == np.float64


@KINDS
def test_centers_of_lifted_nodes_stay_on_the_ground(kind):
    some = kind(lifted())
    found = some.descend(some.seeds(3, 4, np.random.default_rng(0)), 20, 0.0)
    assert_array_equal(found.centers[..., -1], np.zeros((3, 4)))


@KINDS
def test_an_empty_cluster_starts_anew_where_a_node_costs_most(kind):
    some = kind(Problem.of(Nodes.from_points([[0.0], [1.0], [2.0], [40.0]])))
    assert some.descend(np.array([[[1.0], [-500.0]]]), 1, 0.0).centers[0, 1, 0] == 40.0


@KINDS
def test_sets_that_lag_are_given_up(kind):
    rng = np.random.default_rng(3)
    some = kind(Problem.of(Nodes.from_points(rng.standard_t(2, size=(200, 2)))))
    sets = some.seeds(8, 5, rng)
    together = some.descend(sets, 50, 1e-4)
    alone = [some.descend(one[None], 50, 1e-4) for one in sets]
    assert together.n_rounds.sum() < 0.8 * sum(one.n_rounds[0] for one in alone)
    assert together.costs.min() <= 1.001 * min(one.costs[0] for one in alone)


# -- seeds ------------------------------------------------------------------------------------------------------------


@KINDS
def test_of_many_sets_only_the_best_go_on(kind):
    points = np.random.default_rng(0).normal(size=(200, 2))
    search = kind(Problem.of(Nodes.from_points(points)))
    sets = points[:32].reshape(8, 4, 2)
    costs = search.descend(sets, 2, -np.inf).costs
    n_rounds = search.descend(sets, 5, -np.inf, n_left={2: 3}).n_rounds
    best = np.isin(np.arange(8), np.argsort(costs)[:3])
    assert (n_rounds[~best] == 2).all()
    assert (n_rounds[best] > 2).all()


@pytest.mark.parametrize("kind", [Search, SmallSearch, SeveralSearch])
@pytest.mark.slow
def test_seeds_are_the_best_of_draws_by_cost(kind):
    some = kind(Problem.of(Nodes.from_points(PLACES, WEIGHTS)))
    centers = some.seeds(3000, 2, np.random.default_rng(0))
    counts = [(centers[:, 1] == place).all(axis=1).sum() for place in PLACES]
    first = WEIGHTS / np.sum(WEIGHTS)
    chances = sum(
        p * np.array(naive.greedy_draw_probabilities(PLACES, WEIGHTS, [x], search.N_CANDIDATES))
        for x, p in zip(PLACES, first, strict=True)
        if p > 0
    )
    check_frequencies([(centers[:, 0] == place).all(axis=1).sum() for place in PLACES], first)
    check_frequencies(counts, chances)


@given(points_and_sets_of_centers())
def test_seeds_come_with_the_distances_to_them(data):
    nodes, sets = data
    found = seeds(Problem.of(nodes), 3, sets.shape[1], np.random.default_rng(0))
    for s in range(3):
        assert_allclose(found.nearest[s], expected_distances(nodes, found.centers[s]).min(axis=1), rtol=1e-12)


def test_more_starts_than_are_made_together():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(30, 2)))
    steps = []
    solve(nodes, 3, n_init=40, random_state=0, on_progress=steps.append)
    ends = [step.number for step in steps if step.what == "start" and step.is_over]
    assert ends == list(range(1, 41))


# -- swaps ------------------------------------------------------------------------------------------------------------


def weighted_search(kind, n=120, k=5, number=0):
    """A search on weighted points, and first centers."""
    rng = np.random.default_rng(number)
    some = Nodes.from_points(rng.normal(size=(n, 2)), rng.integers(0, 4, size=n).astype(float))
    return kind(Problem.of(some)), some.points[:k].astype(float)


@KINDS
@pytest.mark.parametrize("k", [1, 2, 5, 11])
def test_the_change_each_swap_would_make_is_foretold(kind, k):
    some, centers = weighted_search(kind, k=k)
    nodes, candidates = some.problem.nodes, np.random.default_rng(1).normal(size=(9, 2))
    changes = some.changes(some.settled(centers), candidates)
    for new, leaving in np.ndindex(9, k):
        swapped = centers.copy()
        swapped[leaving] = candidates[new]
        difference = expected_cost(nodes, swapped) - expected_cost(nodes, centers)
        assert_allclose(changes[new, leaving], difference, rtol=1e-9, atol=1e-9)


@KINDS
def test_the_best_swaps_are_tried(kind):
    rng = np.random.default_rng(0)
    places, weights = rng.normal(size=(15, 2)), rng.integers(1, 4, size=15).astype(float)
    centers = rng.normal(size=(3, 2))
    some = kind(Problem.of(Nodes.from_points(places, weights)))
    nodes = [[(x, 1.0)] for x in places]

    def cost(some):
        return naive.expected_cost(nodes, weights, some)

    def swapped(place, c):
        return [place if i == c else center for i, center in enumerate(centers)]

    best = sorted(min(cost(swapped(place, c)) for c in range(3)) for place in places)
    tried = some.swap(some.settled(centers), rng)
    costs = [cost(one) for one in tried]
    assert costs == sorted(costs)
    # Nearly all nodes are drawn, by their excess: among them is the best one.
    assert_allclose(costs[0], best[0], rtol=1e-12)
    for one in tried:
        (changed,) = np.flatnonzero((one != centers).any(axis=1))
        assert (places == one[changed]).all(axis=1).any()


@KINDS
@pytest.mark.parametrize("number", range(5))
def test_swaps_never_raise_the_cost(kind, number):
    some, centers = weighted_search(kind, number=number)
    found, cost, n_tried = some.improve(centers, 1e-5, 4, np.random.default_rng(number), silent)
    assert n_tried >= 4
    assert cost < expected_cost(some.problem.nodes, centers)
    assert_allclose(expected_cost(some.problem.nodes, found), cost, rtol=1e-12)


@KINDS
def test_nothing_is_swapped_where_every_node_lies_on_a_center(kind):
    some = kind(Problem.of(Nodes.from_points([[0.0], [1.0], [1.0]])))
    centers = np.array([[0.0], [1.0]])
    assert some.swap(some.settled(centers), np.random.default_rng(0)).shape == (0, 2, 1)
    assert some.improve(centers, 1e-5, 8, np.random.default_rng(0), silent)[2] == 0


@KINDS
def test_swaps_repair_what_rounds_cannot(kind):
    X, labels = blobs(n=120, k=6, scale=100.0)
    problem = Problem.of(Nodes.from_dense(X)).lifted()
    some = kind(problem)
    start = some.descend(problem.medians[np.flatnonzero(labels == 0)[:6]].astype(float)[None], 50, 1e-4)
    centers, cost, _ = some.improve(start.centers[0], 1e-5, 8, np.random.default_rng(0), silent)
    assert cost < 0.5 * start.costs[0]
    found = assign(Nodes.from_dense(X), centers[:, :-1])
    assert len(set(zip(labels, found, strict=True))) == 6


# -- samples and features ---------------------------------------------------------------------------------------------


def rows_with_minor_features(n=4000):
    """Points in four clusters by two features; three others hardly matter, and one is constant."""
    rng = np.random.default_rng(0)
    major = 100.0 * rng.normal(size=(4, 2))[np.arange(n) % 4] + rng.normal(size=(n, 2))
    minor = np.arange(n)[:, None] % 4 * [1e-3, 2e-3, 0.0] + 1e-3 * rng.normal(size=(n, 3)) * [1.0, 1.0, 0.0]
    return np.column_stack([minor[:, 0], major[:, 0], minor[:, 1:], major[:, 1]])


def test_features_that_hardly_matter_are_left_out():
    problem = Problem.of(Nodes.from_points(rows_with_minor_features()))
    some = Searches.of(problem, 4, np.random.default_rng(0))
    assert_array_equal(some.features, [1, 4])
    centers = problem.nodes.points[:4].astype(float)
    narrow = np.column_stack([centers[:, [1, 4]], np.zeros(4)])
    # Up to the share of the cost that the others have.
    cost = expected_cost(problem.nodes, centers)
    assert_allclose(expected_cost(some.on_all.problem.nodes, narrow - some.origin), cost, rtol=1e-3)
    assert len(some.on_sample.problem.nodes) == search.MIN_SAMPLE


def test_a_feature_matters_within_groups_that_are_far_apart():
    rng = np.random.default_rng(0)
    X = np.column_stack([1e9 * (np.arange(4000) % 2), rng.normal(size=4000), 1e-9 * rng.normal(size=(4000, 3))])
    # Two centers are enough for the first feature.
    assert_array_equal(Searches.of(Problem.of(Nodes.from_points(X)), 4, rng).features, [0, 1])


def test_centers_get_all_features_back():
    X = rows_with_minor_features()
    some = Nodes.from_points(X)
    problem = Problem.of(some)
    searches = Searches.of(problem, 4, np.random.default_rng(0))
    start = np.column_stack([X[:4, [1, 4]], np.zeros(4)]) - searches.origin
    found = searches.on_all.descend(start[None], 50, 1e-6)
    settled = searches.on_all.settled(found.centers[0])
    centers = found.centers[0] + searches.origin
    wide = problem.widened(centers, searches.features, settled.labels, settled.nearest)
    means = np.array([X[np.arange(4000) % 4 == c].mean(axis=0) for c in range(4)])
    assert_allclose(wide, means, atol=0.2)
    assert_allclose(wide[:, [0, 2, 3]], means[:, [0, 2, 3]], atol=3e-4)
    assert_allclose(solve(some, 4, random_state=0).cost, expected_cost(some, wide), rtol=1e-3)


def wide_nodes(kind):
    """Nodes with many more features than there are nodes, in a few groups."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 90))[np.arange(20) % 3] + 0.3 * rng.normal(size=(20, 90))
    if kind == "uncertain":
        return Nodes.from_dense(X[:, None] + 0.2 * rng.normal(size=(20, 4, 90)), weights=rng.uniform(size=20))
    scaled = {"tiny": 1e-140 * X, "huge": 1e140 * X, "far": 1e6 + X, "float32": X.astype(np.float32)}
    return Nodes.from_points(scaled.get(kind, X))


WIDE = pytest.mark.parametrize("kind", ["certain", "uncertain", "tiny", "huge", "far", "float32"])


@WIDE
def test_few_nodes_are_as_far_apart_in_the_space_that_they_span(kind):
    problem = Problem.of(wide_nodes(kind)).lifted()
    narrow, back = problem.in_span()
    assert narrow.n_free == 19
    assert_allclose(
        back(narrow.medians), problem.medians.astype(float), rtol=1e-9, atol=1e-12 * problem.nodes.magnitude
    )
    centers = np.pad(narrow.medians[:5, :19], [(0, 0), (0, narrow.nodes.n_features - 19)])
    there, here = (expected_distances(*pair) for pair in ((narrow.nodes, centers), (problem.nodes, back(centers))))
    assert_allclose(there, here, rtol=1e-6, atol=1e-9 * here.max())


@WIDE
def test_few_nodes_have_the_clusters_that_a_search_in_all_features_finds(kind, monkeypatch):
    nodes = wide_nodes(kind)
    narrow = solve(nodes, 3, random_state=0)
    monkeypatch.setattr(problems, "MAX_SPANNING", 0)
    wide = solve(nodes, 3, random_state=0)
    assert_array_equal(narrow.labels, wide.labels)
    assert_allclose(narrow.cost, wide.cost, rtol=1e-4)


def test_what_rounding_would_blur_is_searched_in_all_features():
    """Two groups far apart in one feature, with structure in the others that is lost in coordinates across both."""
    rng = np.random.default_rng(0)
    X = 1e-6 * rng.normal(size=(4, 90))[np.arange(20) % 4]
    X[:, 0] += 1e9 * (np.arange(20) % 4 // 2)
    problem = Problem.of(Nodes.from_points(X))
    assert problem.in_span()[0] is problem  # equal nodes, too
    assert_allclose(solve(X, 4, random_state=0).cost, 0.0, atol=1e-9)
    X += 1e-9 * rng.normal(size=X.shape)
    problem = Problem.of(Nodes.from_points(X))
    assert problem.in_span()[0] is problem
    assert_array_equal(np.unique(solve(X, 4, random_state=0).labels[:4]), np.arange(4))


@pytest.mark.parametrize("X", [np.ones((1, 90)), np.ones((5, 90)), 1e-140 + 1e-155 * np.eye(5, 90)])
def test_nodes_that_span_nothing_or_hardly_anything(X):
    problem = Problem.of(Nodes.from_points(X))
    assert problem.in_span()[0] is problem
    assert solve(X, 1, random_state=0).cost <= 1e-154


def test_a_sample_has_the_mass_of_all_and_every_far_node():
    rng = np.random.default_rng(0)
    X, weights, k = rng.normal(size=(6000, 2)), rng.exponential(size=6000), 12
    X[[5, 70]] = [[1e6, 0.0], [-1e6, 0.0]]
    masses = []
    for number in range(20):
        some = Searches.of(Problem.of(Nodes.from_points(X, weights)), k, np.random.default_rng(number))
        sample = some.on_sample.problem.nodes
        assert len(sample) == k * search.NODES_PER_CLUSTER
        assert {1e6, -1e6} <= set((sample.points[:, 0] + some.origin[0]).round())
        masses.append(sample.mass.sum() / weights.sum())
    assert_allclose(np.mean(masses), 1.0, atol=0.03)


def test_few_nodes_are_all_looked_at():
    rng = np.random.default_rng(0)
    for d in (2, 40):
        some = Searches.of(Problem.of(Nodes.from_points(rng.normal(size=(300, d)))), 4, rng)
        assert some.on_sample is some.on_all


@given(weighted_nodes_and_centers())
def test_all_distances_give_the_labels_and_bits_of_bounds(data):
    some, weights, centers = data
    nodes, centers = build(some, weights), np.array(centers)
    every, pruned = Assignment(nodes), Assignment(nodes)
    assert every.update(centers, np.zeros(len(centers)), exact=True) == len(nodes) * len(centers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "MAX_SMALL", 0)
        pruned.update(centers, np.zeros(len(centers)), exact=True)
    assert_array_equal(every.labels, pruned.labels)
    assert_array_equal(every.nearest, pruned.nearest)
    assert (pruned.other <= every.other).all()
