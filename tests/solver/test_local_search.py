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
from probi.solver import local_search
from probi.solver import solve as solver
from probi.solver.local_search import LocalAssignment, improve_locally, sample, start_locally
from probi.solver.problem import Problem
from probi.solver.seeding import seed_in_batches
from probi.validation import frozen


def grid(side, n_each, spread=0.05, seed=0):
    """Clusters on a square grid with distance 1, and the number of them."""
    rng = np.random.default_rng(seed)
    corners = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    return Nodes.from_points(np.repeat(corners, n_each, axis=0) + spread * rng.normal(size=(side**2 * n_each, 2)))


def optimum_of_grid(nodes, side):
    corners = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2).astype(float)
    return expected_cost(nodes, corners)


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 10**6))
def test_neighbors_are_the_nearest_other_centers(k, d, number):
    centers = np.random.default_rng(number).normal(size=(k, d))
    m = min(3, k - 1)
    neighbors, gaps = np.empty((k, m), np.int32), np.empty((k, m))
    kernels.nearest_centers(centers, neighbors, gaps, 0, k)
    distances = np.array(naive.expected_distances([[(c, 1.0)] for c in centers.tolist()], centers.tolist()))
    distances[np.diag_indices(k)] = np.inf
    assert_allclose(gaps, np.sort(distances, axis=1)[:, :m], rtol=1e-12)
    assert_allclose(np.take_along_axis(distances, neighbors, axis=1), gaps, rtol=1e-12)


@given(st.integers(2, 20), st.integers(0, 10**6))
def test_with_all_centers_as_neighbors_the_labels_are_exact(k, number):
    rng = np.random.default_rng(number)
    nodes = Nodes.from_points(rng.normal(size=(50, 2)))
    assignment = LocalAssignment(nodes, rng.normal(size=(k, 2)))
    centers = rng.normal(size=(k, 2))  # far from the first ones: every label is wrong
    assignment.update(centers, np.zeros(k), exact=False)
    distances = np.linalg.norm(nodes.points[:, None] - centers[None], axis=2)
    assert_array_equal(assignment.labels, distances.argmin(axis=1))
    assert_allclose(assignment.nearest, distances.min(axis=1), rtol=1e-12)


@given(st.integers(3, 30), st.integers(1, 3), st.integers(0, 10**6))
def test_a_swap_lowers_the_cost_and_keeps_its_books(k, d, number):
    rng = np.random.default_rng(number)
    nodes = Nodes.from_points(rng.normal(size=(200, d)), rng.uniform(0.0, 2.0, 200))
    centers = nodes.points[rng.choice(200, k, replace=False)].copy()
    assignment = LocalAssignment(nodes, centers)
    before = nodes.mass @ assignment.nearest
    for _ in range(30):
        n_made = kernels.swap_nearby(
            nodes.points, nodes.mass, frozen(np.zeros(200)), d, rng.random((1, 2)), 1e-3 * before, centers,
            assignment.labels, assignment.nearest, assignment.other,
        )  # fmt: skip
        distances = np.linalg.norm(nodes.points - centers[assignment.labels], axis=1)
        assert_allclose(assignment.nearest, distances, rtol=1e-9, atol=1e-12)
        after = nodes.mass @ assignment.nearest
        assert after < (1.0 - 0.999e-3) * before if n_made else after == before
        before = after


def test_swaps_repair_what_rounds_cannot():
    # One cluster has no center and another one two: no small move helps.
    nodes = grid(7, 20)
    centers = np.stack(np.meshgrid(np.arange(7), np.arange(7)), axis=-1).reshape(-1, 2).astype(float)
    best = expected_cost(nodes, centers)
    centers[0] = centers[48] + 0.01
    assert expected_cost(nodes, centers) > 1.3 * best
    improved = improve_locally(Problem.of(nodes), centers, np.random.default_rng(0), 100, 1e-4, local_search.QUICK)
    assert expected_cost(nodes, improved.lloyd.centers) <= best


def test_a_start_finds_all_clusters_that_are_apart():
    # 10 starts, each right with a probability of at least 0.99: red by chance below once in 1,000 changes of the seed.
    nodes = grid(8, 30)
    costs = [start_locally(Problem.of(nodes), 64, np.random.default_rng(s), 100).lloyd.cost for s in range(10)]
    assert sum(cost < 1.02 * optimum_of_grid(nodes, 8) for cost in costs) >= 9


def test_seeds_in_batches_are_nodes_and_spread_out():
    nodes = grid(8, 30)
    centers = seed_in_batches(Problem.of(nodes), 64, np.random.default_rng(0))
    assert set(map(tuple, centers)) <= set(map(tuple, nodes.points))
    assert expected_cost(nodes, centers) < 4.0 * optimum_of_grid(nodes, 8)  # drawn by mass alone: above 6


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
    # Two descents of at most three rounds each, after the seeds and after the swaps.
    assert 2 <= over["start"].n_rounds <= 6
    assert max(step.n_rounds for step in steps if step.what == "start") <= 6
    assert over["swaps"].n_rounds % 80 == 0
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
@pytest.mark.parametrize("shift", [0.0, 1e7])
@pytest.mark.parametrize("kind", ["far", "heavy", "scales"])
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
    assert kernels.MAX_AROUND < kernels.MAX_REGION <= solver.MANY
    assert local_search.N_ROUGH <= local_search.SAMPLE_PER_CLUSTER * solver.MANY
