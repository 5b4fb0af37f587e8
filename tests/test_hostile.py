"""Data on which a summary or a solver could be fooled: one huge weight, far groups, nodes with distant realizations."""

import itertools
import warnings

import numpy as np
import pytest

import probi
from probi import Nodes, Summary, expected_cost, solve


def ring(n_clusters, size, radius, rng):
    """Small clusters around the origin."""
    angles = np.repeat(np.arange(n_clusters) * 2 * np.pi / n_clusters, size)
    return radius * np.column_stack([np.cos(angles), np.sin(angles)]) + rng.normal(size=(len(angles), 2))


def beside_a_heavy_node(weight):
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(20_000, 2)), ring(19, 20, 300.0, rng), [[3000.0, 0.0]]])
    weights = np.ones(len(points))
    weights[-1] = weight
    order = rng.permutation(len(points))
    return Nodes.from_points(points[order], weights[order]), 21


def groups_far_apart(gap):
    rng = np.random.default_rng(0)
    parts = [0.05 * np.concatenate([rng.normal(size=(25_000, 2)), ring(10, 6, 2000.0, rng)]) for _ in range(2)]
    parts[1] += [gap, 0.0]
    points = np.concatenate(parts)
    return Nodes.from_points(points[rng.permutation(len(points))]), 22


@pytest.mark.slow
@pytest.mark.parametrize(("make", "scale"), [(beside_a_heavy_node, 1e12), (groups_far_apart, 1e10)])
def test_a_summary_is_not_fooled_by_weight_or_scale(make, scale):
    nodes, k = make(scale)
    full = solve(nodes, k, random_state=0).cost
    for seed in range(2):
        summary = Summary(k, random_state=seed)
        summary.update(nodes)
        with warnings.catch_warnings():
            # The audit may miss what is far in its group but not in comparison with the gap; then it is said.
            warnings.simplefilter("ignore", probi.SolverWarning)
            centers = solve(summary, k, random_state=seed).centers
        assert expected_cost(nodes, centers) <= 1.02 * full


def best_on_a_line(places, shares, k):
    """Smallest cost: some optimal centers are realizations."""
    candidates = np.unique(places)
    distances = (shares[:, :, None] * np.abs(places[:, :, None] - candidates)).sum(axis=1)
    chosen = np.array([*itertools.combinations(range(len(candidates)), k)])
    return distances[:, chosen].min(axis=2).sum(axis=0).min()


@pytest.mark.slow
def test_nodes_with_two_distant_realizations():
    places = np.array([[10.0, -4.0], [-7.0, -4.0], [2.0, 9.0], [-10.0, -3.0], [0.0, -10.0]])
    shares = np.array([[0.46, 0.54], [0.42, 0.58], [0.501, 0.499], [0.504, 0.496], [0.8, 0.2]])
    nodes = Nodes.from_dense(places[:, :, None], shares)
    best = best_on_a_line(places, shares, 3)
    for seed in range(5):
        assert solve(nodes, 3, random_state=seed).cost <= 1.001 * best


@pytest.mark.slow
def test_tiny_instances_are_nearly_always_solved():
    rng, n_missed = np.random.default_rng(0), 0
    for _ in range(80):
        n, m = rng.integers(3, 8), rng.integers(2, 4)
        k = int(rng.integers(2, min(4, n)))
        places, shares = rng.integers(-10, 11, (n, m)).astype(float), rng.dirichlet(np.ones(m), n)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", probi.SolverWarning)  # fewer places than clusters
            cost = solve(Nodes.from_dense(places[:, :, None], shares), k, random_state=0).cost
        n_missed += cost > 1.02 * best_on_a_line(places, shares, k) + 1e-9
    # One in a thousand is what was measured; two or more of 80 then come once in 300 choices of seeds.
    assert n_missed <= 1


@pytest.mark.slow
def test_hubs_that_no_median_is_near_to():
    rng, n, k, d = np.random.default_rng(0), 4000, 10, 50
    hubs = rng.normal(size=(k, d))
    places = np.stack([rng.normal(size=(n, d)), hubs[rng.integers(k, size=n)]], axis=1)
    nodes = Nodes.from_dense(places, np.tile([0.51, 0.49], (n, 1)))
    best = expected_cost(nodes, hubs)
    assert solve(nodes, k, random_state=0).cost <= 1.01 * best
    summary = Summary(k, random_state=0)
    summary.update(nodes)
    assert expected_cost(nodes, solve(summary, k, random_state=0).centers) <= 1.01 * best


def test_given_centers_never_get_worse():
    rng = np.random.default_rng(0)
    hubs = rng.normal(size=(5, 20))
    places = np.stack([rng.normal(size=(500, 20)), hubs[rng.integers(5, size=500)]], axis=1)
    nodes = Nodes.from_dense(places, np.tile([0.51, 0.49], (500, 1)))
    assert solve(nodes, 5, init=hubs).cost <= expected_cost(nodes, hubs) * (1 + 1e-12)
