"""Solvers: seeding, Lloyd's rounds, swaps, and the two presets made of them."""

import itertools
import warnings

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2
from strategies import build, nodes, nodes_and_centers, points

from probi import InputError, Nodes, SolverWarning, _parallel, assign, expected_cost, expected_distances, solve
from probi._kernels import candidates
from probi.medians import certified_medians
from probi.solver.lloyd import Lloyd, one_round, p_lloyd, weiszfeld_moves
from probi.solver.problem import Problem, draw
from probi.solver.seeding import N_CANDIDATES, seed, seed_as_in_paper
from probi.solver.swaps import Swaps

PRESETS = ["default", "paper"]

# A statistical test with a fixed seed: a right sampler would fail it for one seed in ten thousand.
ERROR_RATE = 1e-4


def blobs(n=300, k=4, d=3, m=4, seed=0, scale=50.0, spread=0.3):
    """Uncertain nodes in k clusters far from each other, on a grid of 1/1024 so that shifts are exact."""
    rng = np.random.default_rng(seed)
    middles = scale * rng.normal(size=(k, d))
    labels = np.arange(n) % k
    X = middles[labels][:, None] + rng.normal(size=(n, 1, d)) + spread * rng.normal(size=(n, m, d))
    return np.round(X * 1024) / 1024, labels


def quiet_solve(*arguments, **options):
    """Solve where too few distinct nodes are no surprise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        return solve(*arguments, **options)


def check_valid(result, some, k):
    assert result.centers.shape == (k, some.n_features)
    assert np.isfinite(result.centers).all()
    assert np.isfinite(result.cost)
    assert result.labels.shape == (len(some),)
    assert ((result.labels >= 0) & (result.labels < k)).all()
    assert_array_equal(result.labels, assign(some, result.centers))


def check_frequencies(counts, chances):
    """Chi-square test of counts against chances; what has no chance must not occur."""
    counts, chances = np.asarray(counts), np.asarray(chances)
    possible = chances > 0
    assert counts[~possible].sum() == 0
    expected = counts.sum() * chances[possible] / chances.sum()
    assert expected.min() > 5
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    assert statistic < chi2.isf(ERROR_RATE, possible.sum() - 1)


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


PLACES = [(0.0, 0.0), (4.0, 0.0), (0.0, 5.0), (7.0, 7.0), (9.0, 1.0)]
WEIGHTS = [1.0, 2.0, 0.0, 3.0, 0.5]


def test_the_first_center_is_drawn_by_mass():
    chances = [1.0, 0.25, 1.0, 0.5, 1.0]
    some = Nodes(PLACES, chances, range(6), WEIGHTS)
    counts = places_drawn(lambda rng: seed(Problem.of(some), 1, rng), PLACES, 2000)
    check_frequencies(counts, np.multiply(WEIGHTS, chances))


def test_the_next_center_is_the_best_of_draws_by_cost():
    some = Nodes.from_points(PLACES, WEIGHTS)
    first = WEIGHTS / np.sum(WEIGHTS)
    expected = sum(
        p * np.array(naive.greedy_draw_probabilities(PLACES, WEIGHTS, [x], N_CANDIDATES))
        for x, p in zip(PLACES, first, strict=True)
        if p > 0
    )
    counts = places_drawn(lambda rng: seed(Problem.of(some), 2, rng), PLACES, 3000)
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


def test_the_papers_first_center_is_drawn_by_the_mass_of_its_realizations():
    some = build(*paper_nodes())
    counts = places_drawn(lambda rng: seed_as_in_paper(some, 1, rng), PLACES, 2000)
    check_frequencies(counts, realization_masses())


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


# -- swaps ------------------------------------------------------------------------------------------------------------


def swap_search(n=120, k=5, number=0):
    rng = np.random.default_rng(number)
    some = Nodes.from_points(rng.normal(size=(n, 2)), rng.integers(0, 4, size=n).astype(float))
    problem = Problem.of(some)
    return problem, Swaps(problem, some.points[:k].astype(float), np.random.default_rng(number + 1))


def predicted_changes(search, problem):
    """Change of cost for each candidate drawn last and each center, as the kernel foretells it."""
    n, k = len(problem.nodes), len(search.centers)
    changes = candidates.swap_changes(
        problem.nodes.mass, search._labels, search._nearest, search._second, search._distances, k, 0, n
    )
    return changes[:, :k] + changes[:, k:]


@pytest.mark.parametrize("k", [1, 2, 5, 11])
def test_the_change_a_swap_would_make_is_foretold(k):
    problem, search = swap_search(k=k)
    place, column, leaving = search._promising()
    changes = predicted_changes(search, problem)
    swapped = search.centers.copy()
    swapped[leaving] = place
    difference = expected_cost(problem.nodes, swapped) - expected_cost(problem.nodes, search.centers)
    assert_allclose(changes[column, leaving], difference, rtol=1e-9, atol=1e-9)
    assert changes[column, leaving] == changes.min()


def test_every_swap_is_foretold():
    problem, search = swap_search(k=4)
    search._promising()
    changes = predicted_changes(search, problem)
    cost = expected_cost(problem.nodes, search.centers)
    for column in range(changes.shape[0]):
        # The candidate is the node at distance 0.
        place = problem.nodes.points[np.argmin(search._distances[:, column])]
        for leaving in range(4):
            swapped = search.centers.copy()
            swapped[leaving] = place
            assert_allclose(changes[column, leaving], expected_cost(problem.nodes, swapped) - cost, atol=1e-9)


def test_the_assignment_after_a_swap_is_right():
    problem, search = swap_search(k=6, number=3)
    place, column, leaving = search._promising()
    found = search._assignment(column, leaving)
    centers = search.centers.copy()
    centers[leaving] = place
    found.update(centers, np.zeros(6), exact=False)
    assert_array_equal(found.labels, assign(problem.nodes, centers))
    D = expected_distances(problem.nodes, centers)
    rows = np.arange(len(D))
    assert (found.nearest >= D[rows, found.labels] - 1e-12).all()
    D[rows, found.labels] = np.inf
    assert (found.other <= D.min(axis=1) + 1e-12).all()


@pytest.mark.parametrize("number", range(5))
def test_swaps_never_raise_the_cost(number):
    problem, search = swap_search(number=number)
    before = search.cost
    centers = search.run(patience=4)
    assert search.cost < before
    assert_allclose(expected_cost(problem.nodes, centers), search.cost, rtol=1e-12)


def test_swaps_leave_a_trap_that_rounds_do_not():
    # Two of three centers in one of three clusters: no step leads out of it.
    X = np.concatenate(
        [np.random.default_rng(0).normal(size=(50, 2)) + middle for middle in ([0, 0], [100, 0], [0, 100])]
    )
    problem = Problem.of(Nodes.from_points(X))
    trapped = np.array([[-1.0, 0.0], [1.0, 0.0], [50.0, 50.0]])
    lloyd = Lloyd(problem.nodes, trapped)
    for _ in range(50):
        one_round(problem, lloyd)
    search = Swaps(problem, lloyd.centers, np.random.default_rng(0))
    search.run(patience=5)
    assert search.cost < 0.2 * lloyd.cost


# -- the answer -------------------------------------------------------------------------------------------------------


def tiny_instances(spread):
    """A few nodes each, around whole numbers, with weights and a number of clusters."""
    rng = np.random.default_rng(int(10 * spread))
    for _ in range(60):
        n, d = rng.integers(3, 8), rng.integers(1, 4)
        m = 1 if spread == 0.0 else 3
        X = rng.integers(-20, 21, size=(n, 1, d)) + 20.0 * spread * rng.uniform(-1, 1, size=(n, m, d))
        shares = rng.integers(1, 5, size=(n, m))
        yield X, shares / shares.sum(axis=1, keepdims=True), 1.0 + np.arange(n) % 3, int(rng.integers(1, 4))


# Starts are tried on medians: where nodes are as wide as the gaps between them, the best there need not be the best.
@pytest.mark.parametrize(("spread", "above"), [(0.0, 1e-9), (0.02, 0.01), (0.5, 0.05)])
def test_tiny_instances_are_solved_as_well_as_by_trying_all_realizations(spread, above):
    excess = []
    for X, shares, weights, k in tiny_instances(spread):
        lists = [[(tuple(x), p) for x, p in zip(v, q, strict=True)] for v, q in zip(X, shares, strict=True)]
        found = quiet_solve(Nodes.from_dense(X, shares, weights), k, random_state=0)
        places = sorted({x for v in lists for x, _ in v})
        best = naive.best_cost_among(lists, weights, places, min(k, len(places)))
        excess.append(found.cost / best - 1.0 if best else found.cost)
    assert max(excess) <= above
    assert np.mean(excess) < 0.0  # centers need not stand on realizations


@pytest.mark.parametrize("preset", PRESETS)
def test_clusters_that_are_far_apart_are_found(preset):
    X, labels = blobs(n=400, k=6, d=2, scale=300.0)
    found = solve(Nodes.from_dense(X), 6, preset=preset, n_init=10, random_state=0)
    assert len(set(zip(labels, found.labels, strict=True))) == 6


@given(nodes(min_size=3, dimension=2), st.integers(1, 3), st.sampled_from(PRESETS))
def test_what_is_reported_belongs_together(some, k, preset):
    weights = [float(i % 3) for i in range(1, len(some) + 1)]
    some = build(some, weights)
    found = quiet_solve(some, k, preset=preset, random_state=1)
    check_valid(found, some, k)
    assert found.cost == expected_cost(some, found.centers)
    assert found.coreset_cost == found.cost
    assert found.standard_error == 0.0
    assert 0.0 <= found.lower_bound <= found.cost
    clusters = found.clusters
    for c in range(k):
        own = found.labels == c
        assert_allclose(clusters.mass[c], some.mass[own].sum(), rtol=1e-12)
        assert clusters.count[c] == own.sum()
    assert_allclose(clusters.cost.sum(), found.cost, rtol=1e-12)
    assert clusters.spread.sum() <= found.cost * (1 + 1e-2) + 1e-12
    assert found.lower_bound <= clusters.spread.sum() * (1 + 1e-12)
    assert found.n_distinct == np.count_nonzero(clusters.count)


def test_the_lower_bound_is_reached_where_each_node_has_its_center():
    some = Nodes.from_dense(blobs(n=12, m=5)[0])
    found = solve(some, 12, random_state=0)
    assert found.cost <= found.lower_bound * 1.02


def test_one_center_of_certain_nodes_is_their_median():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 3)), rng.exponential(size=40)
    found = solve(Nodes.from_points(X, weights), 1, tol=1e-10, max_iter=1000, random_state=0)
    whole = [(tuple(x), w) for x, w in zip(X, weights, strict=True)]
    assert_allclose(found.cost, naive.median_cost(whole, 2000) * weights.sum(), rtol=1e-8)


@pytest.mark.parametrize("preset", PRESETS)
def test_as_many_centers_as_certain_nodes_cost_nothing(preset):
    X = np.random.default_rng(1).normal(size=(9, 2))
    found = solve(Nodes.from_points(X), 9, preset=preset, random_state=0)
    assert found.cost == 0.0
    assert_array_equal(np.sort(found.labels), np.arange(9))


@settings(max_examples=25)
@given(st.lists(points(2), min_size=2, max_size=5, unique=True), st.integers(0, 99))
def test_as_many_centers_as_distinct_nodes_cost_nothing(places, number):
    some = Nodes.from_points(np.array(places * 3))
    assert solve(some, len(places), random_state=number).cost == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_centers_come_in_order_of_falling_mass(preset):
    rng = np.random.default_rng(2)
    some = Nodes.from_dense(rng.normal(size=(200, 2, 2)), weights=rng.exponential(size=200))
    for number in range(5):
        mass = solve(some, 7, preset=preset, random_state=number).clusters.mass
        assert (np.diff(mass) <= 0).all()


def test_mass_falls_also_where_a_node_lies_between_two_centers():
    some = Nodes.from_points([[0.0], [5.0], [10.0], [100.0]], [1.0, 1.0, 3.0, 3.5])
    for number in range(10):
        assert (np.diff(solve(some, 3, random_state=number, n_init=1).clusters.mass) <= 0).all()


@pytest.mark.parametrize("preset", PRESETS)
def test_init_keeps_its_order(preset):
    X, _ = blobs(n=90, k=3)
    some = Nodes.from_dense(X)
    init = X[:3, 0]  # one of each cluster
    for order in ([0, 1, 2], [2, 0, 1]):
        found = solve(some, 3, preset=preset, init=init[order])
        assert_array_equal(assign(Nodes.from_points(found.centers), init[order]), [0, 1, 2])
        assert_array_equal(found.labels, np.argsort(order)[np.arange(90) % 3])


# -- what must not matter ---------------------------------------------------------------------------------------------


def test_weight_three_is_three_copies():
    X, _ = blobs(n=60, k=5)
    weighted = solve(Nodes.from_dense(X, weights=np.full(60, 3.0)), 5, random_state=0)
    copied = solve(Nodes.from_dense(np.concatenate([X, X, X])), 5, random_state=0)
    assert_allclose(weighted.cost, copied.cost, rtol=1e-4)
    assert_allclose(weighted.lower_bound, copied.lower_bound, rtol=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
def test_far_from_the_origin_nothing_changes(preset):
    X, _ = blobs()
    here = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    there = solve(Nodes.from_dense(X + 1e6), 4, preset=preset, random_state=0)
    assert_array_equal(there.labels, here.labels)
    assert_allclose(there.cost, here.cost, rtol=1e-9)
    assert_allclose(there.centers - 1e6, here.centers, atol=1e-6)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**60])
def test_scaling_space_or_weights_by_powers_of_two_changes_no_bit(preset, factor):
    X, _ = blobs(n=100)
    plain = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    scaled = solve(Nodes.from_dense(X * factor), 4, preset=preset, random_state=0)
    weighted = solve(Nodes.from_dense(X, weights=np.full(100, factor)), 4, preset=preset, random_state=0)
    assert_array_equal(scaled.centers, plain.centers * factor)
    assert_array_equal(weighted.centers, plain.centers)
    assert weighted.cost == plain.cost * factor


@pytest.mark.parametrize("preset", PRESETS)
def test_nodes_of_weight_zero_get_a_label_and_change_nothing(preset):
    X, _ = blobs(n=80)
    ghosts = 200.0 * np.random.default_rng(5).normal(size=(20, 4, 3))
    alone = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    weights = np.repeat([1.0, 0.0], [80, 20])
    both = Nodes.from_dense(np.concatenate([X, ghosts]), weights=weights)
    haunted = solve(both, 4, preset=preset, random_state=0)
    assert_allclose(haunted.centers, alone.centers, rtol=1e-12)
    assert haunted.cost == alone.cost
    assert_array_equal(haunted.labels, assign(both, haunted.centers))


@pytest.mark.parametrize("preset", PRESETS)
def test_float32_nodes_are_solved_like_float64_ones(preset):
    X, _ = blobs()
    single, double = (
        solve(Nodes.from_dense(X.astype(t)), 4, preset=preset, random_state=0) for t in (np.float32, float)
    )
    assert_array_equal(single.labels, double.labels)
    assert_allclose(single.cost, double.cost, rtol=1e-4)


@pytest.mark.parametrize("preset", PRESETS)
def test_bits_do_not_depend_on_the_number_of_threads(preset):
    X = np.random.default_rng(6).normal(size=(9_000, 3, 20))
    found = []
    for n_jobs in (1, 2, 3, 7):
        with _parallel.limited(n_jobs):
            some = Nodes.from_dense(X)
            assert len(some.pieces()) > 2
            assert len(Problem.of(some).lifted().nodes.pieces()) > 1
            result = solve(some, 5, preset=preset, n_init=2, max_iter=8, random_state=0)
        found.append((result.centers.tobytes(), result.labels.tobytes(), result.cost, result.lower_bound))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("preset", PRESETS)
def test_nodes_are_not_modified(preset):
    X, _ = blobs(n=50)
    weights = np.arange(50.0)
    some = Nodes.from_dense(X, weights=weights)
    init = X[:4, 0].copy()
    kept = [a.copy() for a in (some.points, some.probabilities, some.offsets, some.weights, init)]
    solve(some, 4, preset=preset, init=init, random_state=0)
    solve(some, 4, preset=preset, random_state=0)
    for now, before in zip((some.points, some.probabilities, some.offsets, some.weights, init), kept, strict=True):
        assert_array_equal(now, before)


# -- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_seed_gives_the_same_bits(preset):
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    seeds = (lambda: 5, lambda: np.int64(5), lambda: np.random.default_rng(5), lambda: np.random.RandomState(5))
    for make in seeds:
        a, b = (quiet_solve(some, 6, preset=preset, n_init=1, random_state=make()).centers.tobytes() for _ in range(2))
        assert a == b
    assert np.isfinite(quiet_solve(some, 6, preset=preset, n_init=1).cost)


def test_an_int_and_its_generator_are_the_same_seed():
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    a, b = (solve(some, 6, n_init=1, random_state=s).centers for s in (5, np.random.default_rng(5)))
    assert_array_equal(a, b)


@pytest.mark.parametrize("preset", PRESETS)
def test_different_seeds_usually_differ(preset):
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    found = {
        quiet_solve(some, 6, preset=preset, n_init=1, random_state=number).centers.tobytes() for number in range(6)
    }
    assert len(found) >= 5


def test_a_generator_is_advanced():
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    rng = np.random.default_rng(5)
    first, second = (quiet_solve(some, 6, preset="paper", random_state=rng).centers for _ in range(2))
    assert not np.array_equal(first, second)


# -- borders ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
def test_fewer_distinct_nodes_than_clusters_are_reported(preset):
    some = Nodes.from_points(np.repeat([[0.0, 0.0], [5.0, 5.0]], 4, axis=0))
    with pytest.warns(SolverWarning, match="Only 2 of 5 clusters"):
        found = solve(some, 5, preset=preset, random_state=0)
    check_valid(found, some, 5)
    assert found.cost == 0.0


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("k", [1, 3])
def test_constant_data(preset, k):
    for some in (Nodes.from_points(np.full((10, 2), 3.0)), Nodes.from_dense(np.full((10, 4, 2), 3.0))):
        found = quiet_solve(some, k, preset=preset, random_state=0)
        check_valid(found, some, k)
        assert found.cost == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_equal_uncertain_nodes_keep_their_spread(preset):
    some = Nodes.from_dense(np.repeat([[[0.0], [1.0], [5.0]]], 6, axis=0))
    found = quiet_solve(some, 2, preset=preset, random_state=0)
    check_valid(found, some, 2)
    assert found.cost >= found.lower_bound > 0.0


def test_the_default_finds_the_median_of_equal_nodes():
    some = Nodes.from_dense(np.repeat([[[0.0], [1.0], [5.0]]], 6, axis=0))
    assert_allclose(quiet_solve(some, 2, random_state=0).cost, 10.0, rtol=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
def test_one_node(preset):
    found = solve(Nodes([[0.0, 0.0], [3.0, 4.0]], [0.7, 0.1], [0, 2], [2.0]), 1, preset=preset, random_state=0)
    assert found.labels.tolist() == [0]
    assert_allclose(found.cost, 1.0, rtol=1e-12 if preset == "default" else 2.0)


@pytest.mark.parametrize("preset", PRESETS)
def test_one_round(preset):
    some = Nodes.from_dense(blobs()[0])
    found = solve(some, 4, preset=preset, max_iter=1, random_state=0)
    check_valid(found, some, 4)
    assert found.n_iter == 1


def test_a_tolerance_of_zero_ends():
    some = Nodes.from_dense(blobs(n=60)[0])
    check_valid(solve(some, 4, tol=0.0, n_init=1, random_state=0), some, 4)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", ["large", "small", "mixed nodes", "mixed realizations", "mixed features"])
def test_extreme_coordinates_stay_finite(preset, kind):
    X = np.random.default_rng(8).normal(size=(60, 4, 2))
    if kind == "large":
        X *= 1e140
    elif kind == "small":
        X *= 1e-130
    elif kind == "mixed nodes":
        X[:20] *= 1e140
        X[20:40] *= 1e-130
    elif kind == "mixed realizations":
        X[:, 0] *= 1e140
        X[:, 1] *= 1e-130
    else:
        X *= [1e140, 1e-130]
    for some in (Nodes.from_dense(X), Nodes.from_points(X[:, 0])):
        found = quiet_solve(some, 3, preset=preset, random_state=0)
        check_valid(found, some, 3)
        assert found.cost > 0.0


@pytest.mark.parametrize("factor", [1e-200, 1e-100, 1e140])
@pytest.mark.parametrize("preset", PRESETS)
def test_extreme_weights_change_nothing(preset, factor):
    X, _ = blobs(n=100)
    plain = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    scaled = solve(Nodes.from_dense(X, weights=np.full(100, factor)), 4, preset=preset, random_state=0)
    assert_allclose(scaled.cost / factor, plain.cost, rtol=1e-4)


def test_verbose_prints_a_line_a_start(capsys):
    solve(Nodes.from_dense(blobs(n=50)[0]), 3, n_init=2, random_state=0, verbose=1)
    assert capsys.readouterr().out.count("start ") == 2


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"n_clusters": 0},
        {"n_clusters": -2},
        {"n_clusters": 7},
        {"n_clusters": 2.0},
        {"n_clusters": True},
        {"n_clusters": "2"},
        {"preset": "fast"},
        {"n_init": 0},
        {"n_init": -1},
        {"n_init": 1.5},
        {"n_init": "many"},
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"tol": -1e-9},
        {"tol": float("nan")},
        {"tol": "small"},
        {"init": [[0.0, 0.0]]},
        {"init": [[0.0], [1.0]]},
        {"init": [0.0, 1.0]},
        {"init": [[0.0, np.inf], [1.0, 1.0]]},
        {"init": "k-means++"},
        {"random_state": -1},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(options):
    some = Nodes.from_points(np.random.default_rng(0).normal(size=(6, 2)))
    with pytest.raises(InputError):
        solve(some, **{"n_clusters": 2, **options})


def test_an_array_is_not_nodes():
    with pytest.raises(InputError, match="from_points"):
        solve(np.zeros((4, 2)), 2)


@pytest.mark.parametrize("preset", PRESETS)
def test_weights_that_are_all_zero_are_refused(preset):
    with pytest.raises(InputError, match="nothing to solve"):
        solve(Nodes.from_points([[0.0], [1.0]], [0.0, 0.0]), 1, preset=preset)
