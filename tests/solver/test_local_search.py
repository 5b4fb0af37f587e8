"""Local search for many clusters: its steps against plain definitions, and its solutions against known ones."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import blobs

from probi import Nodes, SolverWarning, _parallel, expected_cost, solve
from probi._kernels import local_search as kernels
from probi._kernels.geometry import two_smallest
from probi.solver import local_search
from probi.solver import solve as solver
from probi.solver.lloyd import Lloyd, one_round
from probi.solver.local_search import LocalSearch, improve_locally, sample, start_locally
from probi.solver.problem import Problem
from probi.solver.seeding import partition, seed_in_batches


def grid(side, n_each, spread=0.05, seed=0):
    """Clusters on a square grid with distance 1, and the number of them."""
    rng = np.random.default_rng(seed)
    corners = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    return Nodes.from_points(np.repeat(corners, n_each, axis=0) + spread * rng.normal(size=(side**2 * n_each, 2)))


def optimum_of_grid(nodes, side):
    corners = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    return expected_cost(nodes, corners)


def distances_to(centers, points):
    return np.linalg.norm(np.asarray(points)[:, None] - np.asarray(centers)[None], axis=2)


def random_search(n, k, d, number, dtype=np.float64, least=0):
    """A search, and the problem it is about; some weights are zero unless another one is the least."""
    rng = np.random.default_rng(number)
    nodes = Nodes.from_points(rng.normal(size=(n, d)).astype(dtype), rng.integers(least, 4, n).astype(float))
    problem = Problem.of(nodes)
    centers = nodes.points[rng.choice(n, k, replace=False)].astype(float)
    return problem, LocalSearch(problem, partition(problem, centers))


def check_books(search):
    """Each row has the distance to its center, and lists have different centers."""
    k = len(search.centers)
    assert search._labels.min() >= 0
    assert search._labels.max() < k
    distances = distances_to(search.centers, search._rows)
    rows = np.arange(len(distances))
    assert_allclose(search._nearest, distances[rows, search._labels], rtol=1e-9, atol=1e-12)
    assert search._lists.shape == (k, min(search._n_near, k))
    assert (np.diff(np.sort(search._lists, axis=1), axis=1) > 0).all()


@given(st.lists(st.integers(0, 6), max_size=40))
def test_rows_are_sorted_by_cluster_and_stay_in_order(labels):
    members, starts = kernels.by_cluster(np.array(labels, np.int32), 7)
    assert members.tolist() == sorted(range(len(labels)), key=labels.__getitem__)
    assert starts.tolist() == [sum(label < c for label in labels) for c in range(8)]


@given(st.lists(st.floats(0.0, 1e300) | st.just(np.inf), min_size=1, max_size=40))
def test_two_smallest(values):
    at, smallest, following = two_smallest(np.array(values))
    assert at == np.argmin(values)
    assert smallest == values[at]
    assert following == min(values[:at] + values[at + 1 :], default=np.inf)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.integers(0, 10**6))
def test_lists_hold_the_nearest_centers(n, k, d, number):
    rng = np.random.default_rng(number)
    queries, centers = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    distances = np.array(naive.expected_distances([[(q, 1.0)] for q in queries.tolist()], centers.tolist()))
    lists = local_search._nearest_of(queries, centers, 5)
    assert_allclose(np.take_along_axis(distances, lists, axis=1), np.sort(distances, axis=1)[:, :5], rtol=1e-12)
    assert_array_equal(local_search._nearest_of(centers, centers, 5)[:, 0], np.arange(k))


@given(st.integers(1, 90), st.integers(1, 40), st.sampled_from([1, 2, 4, 10**6]), st.integers(0, 10**6))
def test_of_centers_at_equal_distances_the_first_are_listed(k, m, n_values, number):
    rng = np.random.default_rng(number)
    centers = rng.integers(n_values, size=(k, 2)) * rng.choice([1.0, 2.0**-300, 2.0**400])
    squared = ((centers[:, None] - centers) ** 2).sum(axis=2)  # exact
    lists = local_search._nearest_of(centers, centers, m)
    assert_array_equal(lists, np.argsort(squared, axis=1, kind="stable")[:, :m])


@given(st.integers(1, 30), st.integers(0, 10**6))
def test_a_partition_is_exact(k, number):
    rng = np.random.default_rng(number)
    nodes = Nodes.from_points(rng.normal(size=(700, 2)))  # more than a thread takes at a time
    centers = rng.normal(size=(k, 2))
    known, distances = partition(Problem.of(nodes), centers), distances_to(centers, nodes.points)
    assert_array_equal(known.labels, distances.argmin(axis=1))
    ordered = np.sort(np.column_stack([distances, np.full(700, np.inf)]), axis=1)
    assert_allclose(known.nearest, ordered[:, 0], rtol=1e-12)
    check_bounds(known.second, ordered[:, 1], nodes.points, centers)


def check_bounds(bounds, distances, points, centers):
    """Lower bounds, whose squares are too low by no more than twice the margin that ``many_centers`` derives.

    Points and centers are no farther from the reference point, which is among the centers, than the box of all is wide.
    """
    both = np.concatenate([points, centers])
    squared_width = (np.ptp(both, axis=0) ** 2).sum()
    margin = 2.0 * (2 * both.shape[1] + 16) * 2.0**-24 * (2.0 * squared_width)
    assert (bounds <= distances * (1.0 + 1e-12)).all()
    assert (bounds >= np.sqrt(np.maximum(distances**2 - margin, 0.0)) * (1.0 - 1e-12)).all()


@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])  # compiles for 10 s
@given(k=st.integers(2, 30), d=st.integers(1, 4), number=st.integers(0, 10**6))
def test_with_all_centers_near_rounds_are_those_of_lloyd(dtype, k, d, number):
    # Fewer centers than are looked at: bounds may skip work, but change neither labels nor the pull.
    problem, search = random_search(200, k, d, number, dtype, least=1)
    lloyd = Lloyd(problem.nodes, search.centers)
    for _ in range(6):
        one_round(problem, lloyd)
        search._move()
        assert_allclose(search.cost, lloyd.cost, rtol=1e-9)
        assert_allclose(search.centers, lloyd.centers, rtol=1e-7, atol=1e-9)


@given(st.integers(40, 60), st.integers(0, 10**6))
def test_rounds_among_near_centers_keep_their_books(k, number):
    _, search = random_search(400, k, 3, number)
    costs = []
    for _ in range(4):
        search._look()
        check_books(search)
        search._move()
        costs.append(search.cost)
    assert (np.diff(costs) <= 1e-9 * costs[0]).all()


def test_rounds_with_momentum_save_more(monkeypatch):
    costs = []
    for momentum in (0.0, local_search.MOMENTUM):
        monkeypatch.setattr(local_search, "MOMENTUM", momentum)
        _, search = random_search(3000, 40, 3, 0)
        search.settle(10, 0.0)
        costs.append(search.cost)
    assert costs[1] < 0.998 * costs[0]


def test_rounds_go_on_after_momentum_has_raised_the_cost(monkeypatch):
    monkeypatch.setattr(local_search, "MOMENTUM", 3.0)
    _, search = random_search(3000, 40, 3, 0)
    costs = []
    assert search.settle(30, 1e-4, lambda _, cost: costs.append(cost)) > 8
    assert (np.diff(costs) > 0.0).any()


@given(st.integers(2, 40), st.integers(0, 10**6))
def test_savings_are_what_a_center_saves_around_it(k, number):
    _, search = random_search(300, k, 2, number)
    members, starts = kernels.by_cluster(search._labels, k)
    candidates, saved = np.arange(0, 300, 7), np.empty(43)
    kernels.savings(
        search._rows, search._mass, search._nearest, members, starts, search._labels, search._lists, 1, candidates,
        saved, 0, 43,
    )  # fmt: skip
    for candidate, value in zip(candidates, saved, strict=True):
        around = np.isin(search._labels, search._lists[search._labels[candidate]])
        gains = search._nearest - np.linalg.norm(search._rows - search._rows[candidate], axis=1)
        assert_allclose(value, search._mass[around] @ np.maximum(gains[around], 0.0), rtol=1e-9, atol=1e-12)


def cheapest_to_remove(distances, mass, n):
    """By definition: n times, of the centers left, the one without which the cost is lowest."""
    left = [*range(distances.shape[1])]
    for _ in range(n):
        costs = [mass @ distances[:, [c for c in left if c != out]].min(axis=1) for out in left]
        left.pop(int(np.argmin(costs)))
    return left


@given(st.integers(2, 30), st.integers(1, 20), st.integers(0, 10**6))
def test_removed_centers_are_those_that_cost_least(k, n, number):
    n = min(n, k - 1)
    problem, search = random_search(100, k, 2, number)
    before = search.centers
    left = cheapest_to_remove(distances_to(before, search._rows), search._mass, n)
    search.remove(n)
    assert_array_equal(search.centers, before[left])
    check_books(search)
    assert_array_equal(np.sort(search._nearest), np.sort(partition(problem, search.centers).nearest))


def test_a_center_is_removed_whose_neighbors_are_gone(monkeypatch):
    monkeypatch.setattr(local_search, "N_NEAR", 2)
    _, search = random_search(100, 40, 2, 0)
    search.remove(37)
    assert len(search.centers) == 3
    check_books(search)


def test_new_centers_are_apart():
    # On a line: the second row is nearer to the first than to its own center, the third is not.
    rows, nearest = np.array([[0.0], [0.9], [2.0], [2.5], [9.0]]), np.array([1.0, 1.0, 1.0, 1.0, 0.1])
    order = np.array([0, 1, 2, 3, 4])
    assert_array_equal(kernels.first_apart(rows, nearest, order, 5), [0, 2, 4])
    assert_array_equal(kernels.first_apart(rows, nearest, order, 2), [0, 2])
    assert_array_equal(kernels.first_apart(rows, nearest, order[::-1].copy(), 5), [4, 3, 1])


@given(st.integers(32, 60), st.integers(1, 3), st.integers(0, 10**6))
def test_swaps_lower_the_cost_and_keep_their_books(k, d, number):
    problem, search = random_search(400, k, d, number)
    search.settle(3, 0.0)
    rng = np.random.default_rng(number)
    for _ in range(5):
        before, centers = search.cost, search.centers.copy()
        assert 1 <= search.swap(4, rng) <= 4
        assert search.cost <= before
        assert len(search.centers) == k
        if search.cost == before:
            assert_array_equal(search.centers, centers)
        search._look()
        check_books(search)
        assert_allclose(search.cost, problem.nodes.mass[np.argsort(problem.nodes.mass)] @ search._nearest[
            np.argsort(search._mass)
        ], rtol=1e-9)  # fmt: skip


def test_an_empty_cluster_starts_anew_where_a_node_costs_most():
    problem, search = random_search(300, 40, 2, 0)
    far = search.centers.copy()
    far[5] = 1e3
    search = LocalSearch(problem, partition(problem, far))
    excess = search._excess()
    search._move()
    assert search._rows[np.argmax(excess)].tolist() in search.centers.tolist()
    assert search.centers.max() < 100.0


def test_swaps_repair_what_rounds_cannot():
    # One cluster has no center and another one two: no small move helps.
    nodes = grid(7, 20)
    centers = np.stack(np.meshgrid(np.arange(7), np.arange(7)), axis=-1).reshape(-1, 2).astype(float)
    best = expected_cost(nodes, centers)
    centers[0] = centers[48] + 0.01
    assert expected_cost(nodes, centers) > 1.3 * best
    improved = improve_locally(Problem.of(nodes), centers, np.random.default_rng(0), 100, 1e-4, local_search.QUICK)
    assert expected_cost(nodes, improved.centers) <= best


def test_a_start_finds_all_clusters_that_are_apart():
    # 10 starts, each right with a probability of at least 0.99: red by chance below once in 1,000 changes of the seed.
    nodes = grid(8, 30)
    costs = [start_locally(Problem.of(nodes), 64, np.random.default_rng(s), 100).cost for s in range(10)]
    assert sum(cost < 1.02 * optimum_of_grid(nodes, 8) for cost in costs) >= 9


def test_seeds_in_batches_are_nodes_and_spread_out():
    nodes = grid(8, 30)
    known = seed_in_batches(Problem.of(nodes), 64, np.random.default_rng(0))
    assert len(set(map(tuple, known.centers))) == 64
    assert set(map(tuple, known.centers)) <= set(map(tuple, nodes.points))
    distances = distances_to(known.centers, nodes.points)
    assert_array_equal(known.labels, distances.argmin(axis=1))
    distances.sort(axis=1)
    assert_allclose(known.nearest, distances[:, 0], rtol=1e-12)
    check_bounds(known.second, distances[:, 1], nodes.points, known.centers)
    assert expected_cost(nodes, known.centers) < 4.0 * optimum_of_grid(nodes, 8)  # drawn by mass alone: above 6


def test_seeds_end_where_every_node_has_one():
    nodes = Nodes.from_points(np.repeat(np.arange(20.0)[:, None], 3, axis=0))
    known = seed_in_batches(Problem.of(nodes), 50, np.random.default_rng(0))
    assert_array_equal(np.unique(known.centers[:, 0]), np.arange(20.0))
    assert len(known.centers) < 50
    assert not known.nearest.any()


def test_a_sample_estimates_the_cost_and_keeps_far_and_heavy_nodes():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(5000, 3)), np.ones(5000)
    points[7], weights[11] = 1e6, 1e5
    problem = Problem.of(Nodes.from_points(points, weights))
    centers = points[:40]
    costs = []
    for s in range(30):
        smaller = sample(problem, 500, np.random.default_rng(s)).nodes
        assert len(smaller) <= 501
        assert 1e6 in smaller.points[:, 0]
        assert 1e5 in smaller.weights
        costs.append(expected_cost(smaller, centers))
    # Unbiased: the mean of 30 lies within three of its standard errors. One of them is off by some 2 %.
    truth = expected_cost(problem.nodes, centers)
    assert abs(np.mean(costs) - truth) < 3.0 * np.std(costs) / np.sqrt(30)
    assert np.std(costs) < 0.05 * truth


def test_a_small_problem_is_its_own_sample():
    problem = Problem.of(grid(3, 5))
    assert sample(problem, 45, np.random.default_rng(0)) is problem


@pytest.mark.parametrize("k", [solver.MANY, 100])
def test_many_clusters_of_uncertain_nodes_are_found(k):
    side = 10
    corners = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)[:k]
    rng = np.random.default_rng(0)
    points = np.repeat(corners, 40, axis=0)[:, None] + 0.05 * rng.normal(size=(40 * k, 3, 2))
    nodes = Nodes.from_dense(points)
    result = solve(nodes, k, random_state=0)
    assert result.cost <= expected_cost(nodes, corners) * 1.0001
    assert result.cost == expected_cost(nodes, result.centers)
    assert (np.diff(result.clusters.mass) <= 0.0).all()


def test_many_clusters_do_not_depend_on_threads():
    nodes = Nodes.from_dense(blobs(n=4000, k=50, d=4, seed=3)[0])
    with _parallel.limited(1):
        one = solve(nodes, 60, random_state=5)
    with _parallel.limited(3):
        three = solve(nodes, 60, random_state=5)
    assert_array_equal(one.centers, three.centers)
    assert one.cost == three.cost


def test_more_starts_are_asked_for():
    nodes = Nodes.from_dense(blobs(n=3000, k=50, d=3, seed=4)[0])
    lines = []
    solve(nodes, 40, n_init=3, random_state=0, on_progress=lines.append)
    assert {str(line).split(":")[0].split(",")[0] for line in lines} >= {f"start {i} of 3" for i in (1, 2, 3)}


def test_rounds_and_swaps_are_reported_as_they_are():
    nodes = Nodes.from_dense(blobs(n=3000, k=50, d=3, seed=4)[0])
    steps = []
    solve(nodes, 40, max_iter=3, random_state=0, on_progress=steps.append)
    over = {step.what: step for step in steps if step.is_over}
    assert [*over] == ["start", "swaps", "nodes"]
    assert 2 <= over["start"].n_rounds <= 3
    assert max(step.n_rounds for step in steps if step.what == "start") <= 3
    swaps = [step.n_rounds for step in steps if step.what == "swaps" and not step.is_over]
    assert over["swaps"].n_rounds == swaps[-1]
    assert all(0 < n <= 10 for n in np.diff([0, *swaps]) if n > 0)  # a quarter of the centers at a time
    assert over["nodes"].n_rounds <= 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_as_many_clusters_as_nodes_cost_nothing(dtype):
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(50, 2)).astype(dtype))
    assert solve(nodes, 50, random_state=0).cost == 0.0


def test_fewer_distinct_nodes_than_clusters():
    nodes = Nodes.from_points(np.repeat(np.arange(20.0)[:, None], 50, axis=0))
    with pytest.warns(SolverWarning, match="Only 20 of 40 clusters"):
        result = solve(nodes, 40, random_state=0)
    assert result.cost == 0.0
    assert result.n_iter <= 2  # rounds end where nothing is left to gain


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "shift"), [("far", 0.0), ("heavy", 1e7), ("scales", 0.0), ("scales", 1e7)])
def test_many_clusters_of_hostile_data(kind, shift):
    # Against the search that looks at all nodes: what is far, heavy or small must not be lost by sampling.
    rng = np.random.default_rng(1)
    points, weights = rng.normal(size=(12_000, 3)), np.ones(12_000)
    if kind == "far":
        points[:5] = 1e5 * rng.normal(size=(5, 3))
    elif kind == "heavy":
        weights[:3] = 1e8
    else:
        points[:6000] *= 1e-3
    nodes = Nodes.from_points(points + shift, weights)
    local = solve(nodes, 40, random_state=0)
    solver_many, solver.MANY = solver.MANY, 1000
    try:
        exhaustive = solve(nodes, 40, n_init=3, random_state=0)
    finally:
        solver.MANY = solver_many
    assert local.cost < 1.01 * exhaustive.cost


def test_constants_of_the_search_fit_each_other():
    assert local_search.N_NEW < local_search.N_NEAR <= solver.MANY
    assert local_search.N_ROUGH <= local_search.SAMPLE_PER_CLUSTER * solver.MANY
