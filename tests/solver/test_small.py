"""The search on small problems: each step does what its twin for larger problems does."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import PLACES, WEIGHTS, blobs, check_frequencies
from strategies import build, points, weighted_nodes_and_centers

from probi import Nodes, assign, objective, solve
from probi.objective import Assignment
from probi.solver import small
from probi.solver.lloyd import Lloyd, one_round
from probi.solver.problem import Problem
from probi.solver.progress import silent
from probi.solver.small import SmallSearch


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


@given(points_and_sets_of_centers())
def test_a_round_is_that_of_lloyd(data):
    nodes, sets = data
    problem = Problem.of(nodes)
    once = SmallSearch(problem).descend(sets, 1, 0.0)
    for centers, after, cost in zip(sets, once.centers, once.costs, strict=True):
        lloyd = Lloyd(nodes, centers)
        one_round(problem, lloyd)
        assert_allclose(after, lloyd.centers, rtol=1e-9, atol=1e-9)
        assert_allclose(cost, lloyd.cost, rtol=1e-12, atol=1e-12)


def test_centers_of_lifted_nodes_stay_on_the_ground():
    problem = lifted()
    search = SmallSearch(problem)
    found = search.descend(search.seeds(3, 4, np.random.default_rng(0)), 20, 0.0)
    assert_array_equal(found.centers[..., -1], np.zeros((3, 4)))


@pytest.mark.slow
def test_seeds_are_the_best_of_draws_by_cost():
    search = SmallSearch(Problem.of(Nodes.from_points(PLACES, WEIGHTS)))
    centers = search.seeds(3000, 2, np.random.default_rng(0))
    counts = [(centers[:, 1] == place).all(axis=1).sum() for place in PLACES]
    first = WEIGHTS / np.sum(WEIGHTS)
    chances = sum(
        p * np.array(naive.greedy_draw_probabilities(PLACES, WEIGHTS, [x], small.N_CANDIDATES))
        for x, p in zip(PLACES, first, strict=True)
        if p > 0
    )
    check_frequencies([(centers[:, 0] == place).all(axis=1).sum() for place in PLACES], first)
    check_frequencies(counts, chances)


def test_the_best_swaps_are_tried():
    rng = np.random.default_rng(0)
    places, weights = rng.normal(size=(15, 2)), rng.integers(1, 4, size=15).astype(float)
    centers = rng.normal(size=(3, 2))
    search = SmallSearch(Problem.of(Nodes.from_points(places, weights)))
    nodes = [[(x, 1.0)] for x in places]

    def cost(some):
        return naive.expected_cost(nodes, weights, some)

    def swapped(place, c):
        return [place if i == c else center for i, center in enumerate(centers)]

    best = sorted(min(cost(swapped(place, c)) for c in range(3)) for place in places)
    tried = search.swap(centers, rng)
    costs = [cost(some) for some in tried]
    assert costs == sorted(costs)
    # Nearly all nodes are drawn, by their excess: among them is the best one.
    assert_allclose(costs[0], best[0], rtol=1e-12)
    for some in tried:
        (changed,) = np.flatnonzero((some != centers).any(axis=1))
        assert (places == some[changed]).all(axis=1).any()


def test_nothing_is_swapped_where_every_node_lies_on_a_center():
    search = SmallSearch(Problem.of(Nodes.from_points([[0.0], [1.0], [1.0]])))
    centers = np.array([[0.0], [1.0]])
    assert search.swap(centers, np.random.default_rng(0)).shape == (0, 2, 1)
    assert search.improve(centers, 0.0, 1e-5, 8, np.random.default_rng(0), silent)[2] == 0


def test_sets_that_lag_are_given_up():
    rng = np.random.default_rng(3)
    search = SmallSearch(Problem.of(Nodes.from_points(rng.standard_t(2, size=(200, 2)))))
    sets = search.seeds(8, 5, rng)
    together = search.descend(sets, 50, 1e-4)
    alone = [search.descend(some[None], 50, 1e-4) for some in sets]
    assert together.n_rounds.sum() < 0.8 * sum(one.n_rounds[0] for one in alone)
    assert together.costs.min() <= 1.001 * min(one.costs[0] for one in alone)


def test_swaps_repair_what_rounds_cannot():
    X, labels = blobs(n=120, k=6, scale=100.0)
    problem = Problem.of(Nodes.from_dense(X)).lifted()
    search = SmallSearch(problem)
    start = search.descend(problem.medians[np.flatnonzero(labels == 0)[:6]].astype(float)[None], 50, 1e-4)
    centers, cost, _ = search.improve(start.centers[0], start.costs[0], 1e-5, 8, np.random.default_rng(0), silent)
    assert cost < 0.5 * start.costs[0]
    found = assign(Nodes.from_dense(X), centers[:, :-1])
    assert len(set(zip(labels, found, strict=True))) == 6


def test_more_starts_than_are_made_together():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(30, 2)))
    steps = []
    solve(nodes, 3, n_init=40, random_state=0, on_progress=steps.append)
    ends = [step.number for step in steps if step.what == "start" and step.is_over]
    assert ends == list(range(1, 41))


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
