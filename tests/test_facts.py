"""The nine facts of docs/how-it-works/proofs.md, one test each, with the plainest arithmetic there is."""

import math

import numpy as np
import pytest

import probi
from probi.medians import SPREAD_TOL, certified_medians

pytestmark = pytest.mark.parametrize("seed", range(12))


class Node:
    """A random node: points (m, d), normalised probabilities, center of gravity, variance, a good median, spread."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        m, d = self.rng.integers(3, 9), self.rng.integers(1, 4)
        self.x = self.rng.normal(size=(m, d)) * self.rng.choice([0.1, 1.0, 10.0], size=(m, 1))
        p = self.rng.random(m) + 0.01
        self.q = p / p.sum()
        self.m = self.q @ self.x
        self.variance = self.q @ ((self.x - self.m) ** 2).sum(axis=1)
        medians, spreads = probi.one_medians(probi.Nodes(self.x, self.q, [0, m]), tol=1e-9)
        self.y, self.s = medians[0], spreads[0]

    def d(self, c):
        return float(self.q @ np.linalg.norm(self.x - c, axis=1))

    def places(self, n=20):
        return self.rng.normal(scale=5.0, size=(n, self.x.shape[1]))


def at_most(a, b):
    return a <= b + 1e-9 * (1.0 + abs(b))


def test_1_absence_only_rescales(seed):
    node = Node(seed)
    centers = node.places(3)
    absent = probi.Nodes(node.x, 0.3 * node.q, [0, len(node.q)], weights=[2.0])
    lighter = probi.Nodes(node.x, node.q, [0, len(node.q)], weights=[0.6])
    assert math.isclose(probi.expected_cost(absent, centers), probi.expected_cost(lighter, centers))


def test_2_expected_distance_is_a_metric_distance(seed):
    node = Node(seed)
    for c, other in zip(node.places(), node.places(), strict=True):
        gap = np.linalg.norm(c - other)
        assert at_most(abs(node.d(c) - node.d(other)), gap)
        assert at_most(gap, node.d(c) + node.d(other))
        assert at_most(abs(node.d(c) - np.linalg.norm(node.y - c)), node.s)


def test_3_sandwich(seed):
    node = Node(seed)
    for c in node.places():
        low = np.linalg.norm(node.m - c)
        assert at_most(low, node.d(c))
        assert at_most(node.d(c), math.sqrt(low**2 + node.variance))
        assert at_most(math.sqrt(low**2 + node.variance) - low, node.variance / (2.0 * low))


def test_4_the_center_of_gravity_costs_at_most_twice_the_spread(seed):
    node = Node(seed)
    assert at_most(node.d(node.m), 2.0 * node.s)


def test_5_certificate(seed):
    node = Node(seed)
    for z in [*node.places(), node.m]:
        distances = np.linalg.norm(node.x - z, axis=1)
        g = node.q @ ((node.x - z) / distances[:, None])
        size = np.linalg.norm(g)
        bound = (node.d(z) - g @ (node.m - z)) / (1.0 + size)
        assert at_most(bound, node.s)
        assert at_most(node.d(z) * (1.0 - size) / (1.0 + size), bound)
        assert at_most(node.d(z) * (1.0 - 2.0 * size), node.d(z) * (1.0 - size) / (1.0 + size))


def _step(node, z):
    """Step of Vardi and Zhang, and whether the point is a median by fact 5."""
    distances = np.linalg.norm(node.x - z, axis=1)
    others = distances > 0.0
    e = node.q[~others].sum()
    h = node.q[others] @ ((node.x[others] - z) / distances[others, None])
    size = np.linalg.norm(h)
    return max(0.0, 1.0 - e / size) * h / (node.q[others] / distances[others]).sum(), size <= e


def test_6_the_step_of_vardi_and_zhang_lowers_the_expected_distance(seed):
    node = Node(seed)
    for z in [*node.places(), *node.x]:
        step, is_median = _step(node, z)
        if is_median:
            assert at_most(node.d(z), node.s)
        else:
            assert node.d(z + step) < node.d(z)
    for z in node.places():  # beside realizations the step may be stretched
        assert node.d(z + 1.9 * _step(node, z)[0]) < node.d(z)


def _nodes(seed, n=60):
    rng = np.random.default_rng(seed)
    return probi.Nodes.from_dense(rng.normal(size=(n, 1, 2)) * 4 + rng.normal(size=(n, 5, 2)))


def test_7_spread_is_a_lower_bound_of_the_cost(seed):
    nodes = _nodes(seed)
    result = probi.solve(nodes, 4, random_state=0)
    true = float(nodes.mass @ probi.one_medians(nodes, tol=1e-9)[1])
    assert at_most(result.lower_bound, true)
    assert at_most(true, result.spread_cost)
    assert at_most(result.spread_cost, 1.01 * result.lower_bound)
    for centers in (result.centers, nodes.gravity_centers):
        assert at_most(true, probi.expected_cost(nodes, centers))


def _error(part, whole, sets):
    return max(abs(probi.expected_cost(part, c) / probi.expected_cost(whole, c) - 1.0) for c in sets)


def test_8_coresets_unite_and_compose(seed):
    rng = np.random.default_rng(seed)
    sets = [rng.normal(scale=4.0, size=(3, 2)) for _ in range(10)]

    def sampled(nodes, n):
        chosen = rng.choice(len(nodes), n, replace=False)
        return nodes.take(chosen).with_weights(nodes.weights[chosen] * len(nodes) / n)

    wholes = [_nodes(seed), _nodes(seed + 100)]
    parts = [sampled(nodes, 30) for nodes in wholes]
    whole, part = probi.Nodes.concat(wholes), probi.Nodes.concat(parts)
    each = max(_error(p, w, sets) for p, w in zip(parts, wholes, strict=True))
    first = _error(part, whole, sets)
    assert at_most(first, each)
    again = sampled(part, 20)
    assert at_most(_error(again, whole, sets), (1.0 + first) * (1.0 + _error(again, part, sets)) - 1.0)


def test_9_nothing_is_computed_twice(seed):
    nodes = _nodes(seed)
    medians, spreads, lower = certified_medians(nodes, SPREAD_TOL)
    some = nodes.take([5, 3, 3]).with_weights([7.0, 0.5, 2.0])
    for kept, known in zip(certified_medians(some, SPREAD_TOL), (medians, spreads, lower), strict=True):
        np.testing.assert_array_equal(kept, known[[5, 3, 3]])
    assert any(name.startswith("medians") for name in some._statistics)  # known without computing
