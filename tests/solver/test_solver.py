"""What solvers are made of: seeding, Lloyd's rounds, P-LLOYD++, realizations."""

import itertools

import naive
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from samples import PLACES, WEIGHTS, blobs, check_frequencies
from strategies import build, nodes_and_centers

from probi import Nodes, SolverWarning, assign, expected_cost, expected_distances, solve
from probi.medians import certified_medians
from probi.solver.lloyd import Lloyd, one_round, p_lloyd
from probi.solver.problem import Problem, draw, weiszfeld_moves
from probi.solver.realizations import NodeSwaps, are_near_medians
from probi.solver.search import seed, seeds
from probi.solver.seeding import seed_as_in_paper

# -- draws and seeding ------------------------------------------------------------------------------------------------


def test_draws_go_by_score():
    scores = np.array([0.0, 1.0, 0.0, 0.0, 2.5, 0.5, 0.0])
    drawn = draw(scores, np.random.default_rng(0).random(4000))
    check_frequencies(np.bincount(drawn, minlength=7), scores)


def test_a_score_of_zero_is_not_drawn_at_the_ends_either():
    for scores in ([0.0, 1.0, 0.0], [0.0, 0.0, 0.1, 0.2, 0.0, 0.0], [1e-300, 1.0, 0.0]):
        drawn = draw(np.array(scores), np.array([0.0, 0.5, np.nextafter(1.0, 0.0)]))
        assert (np.array(scores)[drawn] > 0).all()


def places_drawn(draw_centers, places, n_draws):
    """How often each place was the last center."""
    places = np.asarray(places, float)
    counts = np.zeros(len(places), int)
    for number in range(n_draws):
        last = draw_centers(np.random.default_rng(number))[-1]
        counts[np.flatnonzero((places == last).all(axis=1))[0]] += 1
    return counts


@pytest.mark.slow
def test_the_first_center_is_drawn_by_mass():
    chances = [1.0, 0.25, 1.0, 0.5, 1.0]
    some = Nodes(PLACES, chances, range(6), WEIGHTS)
    counts = places_drawn(lambda rng: seed(Problem.of(some), 1, rng), PLACES, 2000)
    check_frequencies(counts, np.multiply(WEIGHTS, chances))


@pytest.mark.slow
@pytest.mark.parametrize("n_candidates", [1, 3])
def test_the_next_center_is_the_best_of_draws_by_cost(n_candidates):
    some = Nodes.from_points(PLACES, WEIGHTS)
    first = WEIGHTS / np.sum(WEIGHTS)
    expected = sum(
        p * np.array(naive.greedy_draw_probabilities(PLACES, WEIGHTS, [x], n_candidates))
        for x, p in zip(PLACES, first, strict=True)
        if p > 0
    )
    counts = places_drawn(lambda rng: seeds(Problem.of(some), 1, 2, rng, n_candidates).centers[0], PLACES, 3000)
    check_frequencies(counts, expected)


def test_seeds_of_uncertain_nodes_stand_on_their_medians():
    some = Nodes.from_dense(blobs(n=40)[0])
    lifted = Problem.of(some).lifted()
    centers = seed(lifted, 6, np.random.default_rng(0))
    medians = certified_medians(some, 1e-2)[0]
    assert_array_equal(centers[:, -1], np.zeros(6))
    assert all((medians == place).all(axis=1).any() for place in centers[:, :-1])


def test_seeding_finds_clusters_that_are_far_apart():
    X, labels = blobs(n=200, k=8, scale=1000.0)
    lifted = Problem.of(Nodes.from_dense(X)).lifted()
    centers = seed(lifted, 8, np.random.default_rng(1))
    found = assign(Nodes.from_dense(X), centers[:, :-1])
    assert len(set(zip(labels, found, strict=True))) == 8


def test_a_node_of_weight_zero_is_never_a_seed():
    X = np.random.default_rng(0).normal(size=(12, 3, 2))
    X[::2] += 1000.0
    some = Nodes.from_dense(X, weights=np.arange(12) % 2)
    lifted = Problem.of(some).lifted()
    for number in range(20):
        assert seed(lifted, 6, np.random.default_rng(number)).max() < 100.0
        assert seed_as_in_paper(some, 6, np.random.default_rng(number)).max() < 100.0


def test_seeds_beyond_the_distinct_nodes_are_still_nodes():
    some = Nodes.from_points([[0.0], [0.0], [1.0]])
    for centers in (
        seed(Problem.of(some), 3, np.random.default_rng(0)),
        seed_as_in_paper(some, 3, np.random.default_rng(0)),
    ):
        assert_array_equal(np.unique(centers), [0.0, 1.0])


def paper_nodes():
    """Nodes that share the point (4, 0): its masses count together, wherever it stands."""
    return [
        [((0.0, 0.0), 0.5), ((4.0, 0.0), 0.25)],
        [((4.0, 0.0), 0.5), ((0.0, 5.0), 0.5)],
        [((7.0, 7.0), 0.125), ((4.0, 0.0), 0.125), ((9.0, 1.0), 0.0)],
    ], [1.0, 2.0, 4.0]


def realization_masses():
    some, weights = paper_nodes()
    return np.array(
        [sum(w * p for v, w in zip(some, weights, strict=True) for x, p in v if x == place) for place in PLACES]
    )


@pytest.mark.slow
def test_the_papers_first_center_is_drawn_by_the_mass_of_its_realizations():
    some = build(*paper_nodes())
    counts = places_drawn(lambda rng: seed_as_in_paper(some, 1, rng), PLACES, 2000)
    check_frequencies(counts, realization_masses())


@pytest.mark.slow
def test_the_papers_next_center_is_drawn_by_mass_times_distance():
    some, masses = build(*paper_nodes()), realization_masses()
    distances = np.array([[np.hypot(*np.subtract(a, b)) for b in PLACES] for a in PLACES])
    scores = masses[None] * distances
    chances = (masses / masses.sum()) @ (scores / scores.sum(axis=1, keepdims=True))
    counts = places_drawn(lambda rng: seed_as_in_paper(some, 2, rng), PLACES, 3000)
    check_frequencies(counts, chances)


# -- Lloyd's rounds ---------------------------------------------------------------------------------------------------


@given(nodes_and_centers())
def test_the_cost_never_rises_from_round_to_round(data):
    some, centers = data
    weights = np.arange(1, len(some) + 1) % 3 + 0.5
    for problem in (Problem.of(build(some, weights)), Problem.of(build(some, weights)).lifted()):
        lloyd = Lloyd(problem.nodes, problem.raised(np.array(centers)))
        costs = []
        for _ in range(6):
            one_round(problem, lloyd)
            costs.append(lloyd.cost)
        assert not lloyd.centers[:, problem.n_free :].any()  # on the ground
        assert all(b <= a * (1 + 1e-12) + 1e-12 for a, b in itertools.pairwise(costs))


@given(nodes_and_centers())
def test_the_cost_of_a_round_is_that_of_the_centers_before_it(data):
    some, centers = data
    problem = Problem.of(build(some))
    lloyd = Lloyd(problem.nodes, np.array(centers))
    for _ in range(3):
        before = lloyd.centers.copy()
        one_round(problem, lloyd)
        assert_allclose(lloyd.cost, expected_cost(problem.nodes, before), rtol=1e-12, atol=1e-12)


def test_rounds_lower_the_cost_to_a_fixed_point():
    some = Nodes.from_dense(blobs()[0])
    problem = Problem.of(some)
    lloyd = Lloyd(some, some.points[:4].astype(float))
    one_round(problem, lloyd)
    first = lloyd.cost
    for _ in range(200):
        one_round(problem, lloyd)
    assert lloyd.cost < 0.9 * first
    assert np.abs(weiszfeld_moves(lloyd.sums())).max() < 1e-6


def test_an_empty_cluster_starts_anew_where_a_node_costs_most():
    some = Nodes.from_points([[0.0], [1.0], [2.0], [40.0]])
    lloyd = Lloyd(some, np.array([[1.0], [-500.0]]))
    one_round(Problem.of(some), lloyd)
    assert lloyd.centers[1, 0] == 40.0


def test_nodes_of_weight_zero_do_not_keep_a_center():
    X, weights = [[0.0], [1.0], [10.0], [11.0], [500.0]], [1.0, 1.0, 1.0, 1.0, 0.0]
    assert solve(Nodes.from_points(X, weights), 2, init=[[0.0], [500.0]]).cost == 2.0


@given(nodes_and_centers())
def test_cluster_sums_match_the_definition(data):
    some, centers = data
    weights = np.arange(len(some)) * 0.75
    lloyd = Lloyd(build(some, weights), np.array(centers))
    lloyd.assign()
    expected = naive.lloyd_sums(some, weights, lloyd.assignment.labels, centers)
    assert_allclose(lloyd.sums(), expected, rtol=1e-10, atol=1e-10)
    assert_allclose(lloyd.cost, naive.expected_cost(some, weights, centers), rtol=1e-12, atol=1e-12)


@given(nodes_and_centers())
def test_a_move_is_the_step_of_weiszfeld_or_vardi_and_zhang(data):
    some, centers = data
    weights = np.arange(1, len(some) + 1) * 0.75
    lloyd = Lloyd(build(some, weights), np.array(centers))
    lloyd.assign()
    labels = lloyd.assignment.labels
    for c, move in enumerate(weiszfeld_moves(lloyd.sums())):
        masses = [(x, w * p) for v, w, own in zip(some, weights, labels, strict=True) for x, p in v if own == c]
        step = np.subtract(naive.weiszfeld_step(masses, centers[c]), centers[c])
        assert_allclose(move, step, rtol=1e-9, atol=1e-9)


def test_a_relaxed_move_is_a_longer_one_except_on_a_realization():
    # pull (2,), then reciprocal distances, mass on the center, cost
    sums = np.array(
        [[3.0, 4.0, 2.0, 0.0, 9.0], [3.0, 4.0, 2.0, 1.0, 9.0], [3.0, 4.0, 2.0, 6.0, 9.0], [0.0, 0.0, 0.0, 5.0, 0.0]]
    )
    assert_allclose(weiszfeld_moves(sums), [[1.5, 2.0], [1.2, 1.6], [0.0, 0.0], [0.0, 0.0]])
    assert_allclose(weiszfeld_moves(sums, 1.7), [[2.55, 3.4], [1.2, 1.6], [0.0, 0.0], [0.0, 0.0]])


# -- P-LLOYD++ as in the paper ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 20])
@pytest.mark.parametrize("max_iter", [1, 2, 10])
def test_rounds_of_the_paper_match_the_definition(d, max_iter):
    # In 20 dimensions steps shrink tenfold, so that more than two of them are made.
    rng = np.random.default_rng(d)
    X = 3.0 * rng.normal(size=(60, 1, d)) + rng.normal(size=(60, 5, d))
    weights = rng.integers(0, 4, size=60).astype(float)
    shares = rng.exponential(size=(60, 5))
    shares *= rng.choice([0.5, 1.0], size=(60, 1)) / shares.sum(axis=1, keepdims=True)
    some = Nodes.from_dense(X, shares, weights)
    lists = [[(tuple(x), p) for x, p in zip(v, q, strict=True)] for v, q in zip(X, shares, strict=True)]
    init = some.points[rng.integers(300, size=4)]
    expected = naive.p_lloyd(lists, weights, [tuple(c) for c in init], max_iter)
    found, n_rounds = p_lloyd(some, init, max_iter)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert n_rounds <= max_iter
    assert_allclose(
        solve(some, 4, preset="paper", init=init, max_iter=max_iter).centers, expected, rtol=1e-9, atol=1e-12
    )


def test_an_empty_cluster_keeps_its_center_in_the_paper():
    some = Nodes.from_points([[0.0], [1.0], [2.0]])
    with pytest.warns(SolverWarning, match="Only 1 of 2 clusters") as caught:
        found = solve(some, 2, preset="paper", init=[[1.0], [-500.0]])
    assert found.centers[1, 0] == -500.0
    assert "not enough distinct nodes" not in str(caught[0].message)  # there are three


def test_the_paper_makes_one_start_of_ten_rounds():
    some = Nodes.from_dense(np.random.default_rng(0).normal(size=(3000, 3, 2)))
    assert solve(some, 12, preset="paper", random_state=0).n_iter == 10
    assert 10 < solve(some, 12, preset="paper", random_state=0, max_iter=200).n_iter < 200
    assert_array_equal(*(solve(some, 12, preset="paper", random_state=0, n_init=n).centers for n in (None, 1)))


def test_more_starts_of_the_paper_are_no_worse():
    some = Nodes.from_dense(blobs(n=100, k=8)[0])
    one, ten = (solve(some, 8, preset="paper", n_init=n_init, random_state=3).cost for n_init in (1, 10))
    assert ten < one


# -- realizations -----------------------------------------------------------------------------------------------------


def nodes_with_hubs(n=200, d=8):
    """Each node may be at a place of its own, where its median is, or at one of three that all share."""
    rng = np.random.default_rng(0)
    hubs = rng.normal(size=(3, d))
    places = np.stack([rng.normal(size=(n, d)), hubs[rng.integers(3, size=n)]], axis=1)
    return Nodes.from_dense(places, np.tile([0.51, 0.49], (n, 1))), hubs


def test_swaps_find_what_many_nodes_share():
    some, hubs = nodes_with_hubs()
    problem = Problem.of(some)
    search = NodeSwaps(problem, problem.medians[:3].astype(float), np.random.default_rng(0), min_gain=1e-5)
    before = search.cost
    assert search.gains_at_once()
    search.run(patience=8)
    assert search.cost < 0.9 * before
    assert_allclose(search.cost, expected_cost(some, search.centers), rtol=1e-12)
    assert (expected_distances(hubs, search.centers).min(axis=1) < 0.1).all()
    assert not search.gains_at_once()


def test_the_change_of_the_best_swap_is_foretold():
    problem = Problem.of(Nodes.from_dense(blobs(n=60)[0]))
    search = NodeSwaps(problem, problem.medians[:4].astype(float), np.random.default_rng(0), min_gain=1e-5)
    centers, change = search._best_swap()
    assert_allclose(expected_cost(problem.nodes, centers) - search.cost, change, rtol=1e-9)


def test_starts_among_realizations_are_for_nodes_whose_realizations_are_far_from_medians():
    rng = np.random.default_rng(0)
    wide = Nodes.from_dense(rng.normal(size=(400, 1, 2)) + rng.normal(size=(400, 5, 2)))
    apart = np.array([[-9.0, 0.0], [9.0, 0.0]])
    modes = Nodes.from_dense(rng.normal(size=(400, 2, 2)) + apart, np.tile([0.6, 0.4], (400, 1)))
    for some, are_near in ((wide, True), (modes, False), (nodes_with_hubs()[0], False)):
        assert are_near_medians(Problem.of(some), rng) == are_near
    assert are_near_medians(Problem.of(Nodes.from_dense(np.ones((5, 3, 2)))), rng)
