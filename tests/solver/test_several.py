"""Searches for several numbers of clusters side by side, against the search for one of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import probi
from probi import _parallel
from probi.nodes import Nodes
from probi.objective import expected_cost, expected_distances
from probi.solver import several
from probi.solver import solve as solver
from probi.solver.problem import Problem, draw, draw_each
from probi.solver.search import N_DRAWN, N_TRIALS, Search
from probi.solver.several import Sets, SeveralSearch


def weighted_problem(n=120, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return Problem.of(Nodes.from_points(rng.standard_t(3, size=(n, d)), rng.integers(0, 4, n) + 0.5))


def sets_of(problem, n_centers, seed=0):
    """Sets of centers near nodes; of each only the first few count."""
    rng = np.random.default_rng(seed)
    points = problem.nodes.points
    chosen = rng.integers(0, len(points), (len(n_centers), max(n_centers)))
    centers = points[chosen] + 0.01 * rng.normal(size=(*chosen.shape, points.shape[1]))
    return Sets.of(centers, np.array(n_centers), len(points))


# -- rounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lift", [False, True])
@pytest.mark.parametrize("n_rounds", [1, 4])
def test_rounds_are_those_of_each_set_alone(lift, n_rounds):
    nodes = Nodes.from_dense(np.random.default_rng(0).normal(size=(60, 4, 3)), weights=np.arange(60.0) + 1)
    problem = Problem.of(nodes).lifted() if lift else weighted_problem()
    n_centers = [1, 2, 5, 9, 5]
    sets = sets_of(problem, n_centers)
    if lift:
        sets.centers[..., -1] = 0.0
    before = sets.centers.copy()
    SeveralSearch(problem).descend(sets, len(n_centers), n_rounds, -np.inf)
    for i, k in enumerate(n_centers):
        alone = Search(problem).descend(before[i : i + 1, :k], n_rounds, -np.inf)
        assert_allclose(sets.centers[i, :k], alone.centers[0], rtol=1e-9, atol=1e-12)
        assert_allclose(sets.costs[i], alone.costs[0], rtol=1e-12)
        assert_array_equal(sets.centers[i, k:], before[i, k:])
    assert (sets.n_rounds == n_rounds).all()


def test_a_round_finds_the_two_nearest_centers():
    problem, n_centers = weighted_problem(), [1, 2, 7]
    sets = sets_of(problem, n_centers)
    before = sets.centers.copy()
    SeveralSearch(problem).descend(sets, 3, 1, 0.0)
    for i, k in enumerate(n_centers):
        distances = np.sort(expected_distances(problem.nodes, before[i, :k]), axis=1)
        assert_allclose(sets.nearest[i], distances[:, 0], rtol=1e-12)
        assert_allclose(sets.second[i], distances[:, 1] if k > 1 else np.inf, rtol=1e-12)
        assert_array_equal(sets.labels[i], expected_distances(problem.nodes, before[i, :k]).argmin(axis=1))
        assert_allclose(sets.costs[i], expected_cost(problem.nodes, before[i, :k]), rtol=1e-12)


def test_an_empty_cluster_starts_anew_where_a_node_costs_most():
    problem = Problem.of(Nodes.from_points([[0.0], [1.0], [2.0], [40.0]]))
    sets = Sets.of(np.array([[[1.0], [7.0], [7.0]], [[1.0], [-500.0], [7.0]]]), np.array([1, 2]), 4)
    SeveralSearch(problem).descend(sets, 2, 1, 0.0)
    assert sets.centers[0, 1:].tolist() == [[7.0], [7.0]]  # these two do not count
    assert sets.centers[1, 1:].tolist() == [[40.0], [7.0]]


def test_sets_lag_behind_those_of_their_own_group_alone():
    problem = weighted_problem()
    sets = sets_of(problem, [5, 5, 5, 1])
    alone = Sets.of(sets.centers[:3].copy(), sets.n_centers[:3], len(problem.nodes))
    # The fourth set costs far more than the others, and the first three cost less than the fifth and the sixth.
    both = Sets.of(np.r_[sets.centers[:3], np.repeat(sets.centers[3:], 3, axis=0)], np.repeat([5, 1], 3), 120)
    search = SeveralSearch(problem)
    search.descend(alone, 1, 50, 1e-4)
    search.descend(both, 2, 50, 1e-4)
    assert_array_equal(both.n_rounds[:3], alone.n_rounds)
    assert_array_equal(both.centers[:3], alone.centers)
    assert (both.n_rounds[3:] > 2).all()


def test_of_each_group_only_the_best_go_on():
    problem = weighted_problem()
    costs = sets_of(problem, [4] * 12)
    going = sets_of(problem, [4] * 12)
    search = SeveralSearch(problem)
    search.descend(costs, 12, 2, -np.inf)
    search.descend(going, 2, 5, -np.inf, n_left={2: 2})
    for group in (slice(0, 6), slice(6, 12)):
        best = np.isin(np.arange(6), np.argsort(costs.costs[group])[:2])
        assert (going.n_rounds[group][~best] == 2).all()
        assert (going.n_rounds[group][best] > 2).all()


# -- draws and swaps --------------------------------------------------------------------------------------------------


def test_draws_are_those_from_each_row_alone():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (40, 9)) * rng.uniform(size=(40, 9))
    scores[:, 4] += 0.1
    uniforms = np.c_[rng.random((40, 50)), np.zeros(40), np.ones(40)]  # 1 stands for what rounding may lead to
    drawn = draw_each(scores, uniforms)
    for row, some, wanted in zip(scores, uniforms, drawn, strict=True):
        assert_array_equal(draw(row, some), wanted)


@pytest.mark.parametrize("n", [120, 11])  # of 11 nodes, some are drawn several times
def test_the_best_swaps_are_tried(n):
    problem, n_centers = weighted_problem(n), [1, 3, 6]
    search, known = SeveralSearch(problem), sets_of(problem, n_centers)
    search._settle(known, np.arange(3))
    uniforms = (np.arange(N_DRAWN) + np.full((3, N_DRAWN), 0.5)) / N_DRAWN
    swapped, is_swap = search._swaps(known, np.arange(3), uniforms)
    swapped = swapped.reshape(3, N_TRIALS, *known.centers.shape[1:])
    for i, k in enumerate(n_centers):
        alone, centers = Search(problem), known.centers[i, :k]
        drawn = np.unique(draw(problem.excess(known.nearest[i]), uniforms[i]))
        changes = alone.changes(alone.settled(centers), problem.medians[drawn])
        order = np.argsort(changes.min(axis=1), kind="stable")[:N_TRIALS]
        assert is_swap[i].sum() == len(order)
        for trial, c in zip(swapped[i][is_swap[i]], order, strict=True):
            wanted = centers.copy()
            wanted[changes[c].argmin()] = problem.medians[drawn[c]]
            assert_array_equal(trial[:k], wanted)


def generators():
    return np.random.default_rng(0).spawn(2)


def test_swaps_of_a_set_do_not_depend_on_the_others():
    problem = weighted_problem()
    sets, search, ranks = sets_of(problem, [2, 9, 5, 5]), SeveralSearch(problem), np.array([0, 0, 0, 1])
    for i in range(4):
        (alone,), _ = search.improve(
            sets.centers[[i]], sets.n_centers[[i]], ranks[[i]], 1e-5, np.array([6]), generators()
        )
        together, _ = search.improve(sets.centers, sets.n_centers, ranks, 1e-5, np.full(4, 6), generators())
        assert_array_equal(together[i], alone)


def test_swaps_never_raise_the_cost():
    problem, n_centers = weighted_problem(), [2, 5, 5, 9]
    sets, search = sets_of(problem, n_centers), SeveralSearch(problem)
    known = sets.centers.copy()
    ranks = np.array([0, 0, 1, 0])
    centers, costs = search.improve(sets.centers, sets.n_centers, ranks, 1e-5, np.full(4, 6), generators())
    assert_array_equal(sets.centers, known)
    for i, k in enumerate(n_centers):
        assert costs[i] < expected_cost(problem.nodes, known[i, :k])
        assert_allclose(costs[i], expected_cost(problem.nodes, centers[i, :k]), rtol=1e-12)


def test_nothing_is_swapped_where_every_node_lies_on_a_center(monkeypatch):
    monkeypatch.delattr(SeveralSearch, "_swaps")
    problem = Problem.of(Nodes.from_points([[0.0], [1.0], [1.0]]))
    centers = np.array([[[0.0], [1.0]], [[0.0], [1.0]]])
    found, costs = SeveralSearch(problem).improve(
        centers, np.array([2, 2]), np.zeros(2, int), 1e-5, np.full(2, 6), generators()
    )
    assert_array_equal(found, centers)
    assert_array_equal(costs, [0.0, 0.0])


# -- solutions --------------------------------------------------------------------------------------------------------


def solutions(nodes, ks, seed=0):
    return {len(result.centers): result for result in probi.choose_k(nodes, ks, n_worlds=0, random_state=seed).results}


def uncertain_nodes():
    rng = np.random.default_rng(0)
    return Nodes.from_dense(3 * rng.normal(size=(50, 1, 2)) + rng.normal(size=(50, 5, 2)), weights=rng.uniform(size=50))


KINDS = {
    "certain": lambda: np.random.default_rng(0).normal(size=(60, 2)),
    "wide": lambda: np.random.default_rng(0).normal(size=(20, 100)),
    "uncertain": uncertain_nodes,
    "equal": lambda: np.repeat([[0.0, 1.0], [2.0, 0.0], [5.0, 5.0]], 7, axis=0),
    "far away": lambda: 1e8 + np.random.default_rng(0).normal(size=(60, 2)),
    "one heavy": lambda: Nodes.from_points(np.random.default_rng(0).normal(size=(60, 2)), np.r_[1e6, np.ones(59)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_does_not_depend_on_the_other_numbers(kind):
    nodes = KINDS[kind]()
    together = solutions(nodes, [1, 2, 5, 9])
    for k in (2, 5):
        alone = solutions(nodes, [k])[k]
        assert_array_equal(together[k].centers, alone.centers)
        assert together[k].cost == alone.cost
        assert together[k].n_iter == alone.n_iter


@pytest.mark.filterwarnings("ignore:Only 3 of")
@pytest.mark.parametrize("kind", KINDS)
def test_solutions_are_as_good_as_those_of_solve(kind, monkeypatch):
    nodes, calls = KINDS[kind](), []
    search = solver.search_several
    monkeypatch.setattr(solver, "search_several", lambda *arguments: calls.append(1) or search(*arguments))
    ks, seeds = [1, 2, 4, 7], range(5)
    together = np.array([[result.cost for result in solutions(nodes, ks, seed).values()] for seed in seeds])
    alone = np.array([[probi.solve(nodes, k, random_state=seed).cost for k in ks] for seed in seeds])
    assert len(calls) == len(seeds)
    assert_allclose(together.mean(axis=0), alone.mean(axis=0), rtol=5e-3, atol=1e-6)


def test_the_same_bits_for_any_number_of_threads():
    nodes = uncertain_nodes()

    def run(n_threads):
        with _parallel.limited(n_threads):
            return solutions(nodes, range(1, 7))

    for one, two in zip(run(1).values(), run(2).values(), strict=True):
        assert_array_equal(one.centers, two.centers)


@pytest.mark.parametrize(("name", "limit"), [("MAX_NODES", 59), ("MAX_SIZE", 60 * 2 * 4 - 1), ("MAX_STARTS", 9)])
def test_larger_problems_are_searched_for_each_number(name, limit, monkeypatch):
    points = KINDS["certain"]()
    monkeypatch.setattr(several, name, limit)
    for k, result in solutions(points, range(1, 5)).items():
        assert_array_equal(result.centers, probi.solve(points, k, random_state=0).centers)


def test_what_cannot_be_solved_is_refused():
    with pytest.raises(probi.InputError, match="n_clusters=4 is more than n_samples=3"):
        probi.choose_k(np.eye(3), range(2, 5))
    with pytest.raises(probi.InputError, match="All weights are zero"):
        probi.choose_k(Nodes.from_points(np.eye(3), np.zeros(3)), range(1, 3))


def test_members_are_solved_with_all_options_of_solve():
    nodes, steps = uncertain_nodes(), []
    wanted = solutions(nodes, [4])[4]
    result = solver.solve_members(nodes, 4, random_state=0, on_progress=steps.append)
    assert_array_equal(result.centers, wanted.centers)
    assert steps
    for options in ({"outliers": 0.1}, {"preset": "paper"}, {"init": nodes.gravity_centers[:4]}, {"n_init": 40}):
        by_solve = probi.solve(nodes, 4, random_state=0, **options)
        assert_array_equal(solver.solve_members(nodes, 4, random_state=0, **options).centers, by_solve.centers)
    with pytest.warns(probi.SolverWarning, match="Only 1 of 2 clusters"):
        solver.solve_members(Nodes.from_points(np.ones((5, 2))), 2)
