"""Numbers at the ends of their ranges: nothing wrong without a word, and nothing saved that does not load."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probi import InputError, Nodes, Summary, expected_cost, solve
from probi.medians import certified_medians

POINTS = np.random.default_rng(3).uniform(-1.0, 1.0, (3000, 2))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_small_integers_do_not_overflow(kind):
    found, expected = (solve(POINTS[:300], k, n_init=n, random_state=0) for k, n in ((kind(100), kind(3)), (100, 3)))
    assert found.cost == expected.cost
    shards = [Summary(2, size=8, audit_size=10, random_state=0, shard=kind(number)) for number in (100, 101, 102, 103)]
    for shard in shards:
        shard.update(POINTS[:20])
    for shard in shards[1:]:
        shards[0].merge(shard)
    assert Summary.from_bytes(shards[0].to_bytes()).n_nodes == 80


def audited(scale, weight):
    summary = Summary(1, size=4, audit_size=20, random_state=0)
    summary.update(Nodes.from_points(POINTS * scale, weights=np.full(len(POINTS), weight)))
    return summary.evaluate([[0.0, 0.0]])


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "weight"), [(1e149, 1e140), (1e-130, 1e-100), (1e-40, 1e-120)])
def test_standard_errors_neither_overflow_nor_vanish(scale, weight):
    expected, found = audited(1.0, 1.0), audited(scale, weight)
    assert expected.standard_error > 0.0
    assert_allclose(found.standard_error / scale / weight, expected.standard_error, rtol=1e-9)


def test_a_summary_of_large_costs_loads():
    summary = Summary(2, size=8, random_state=0)
    points = 1e100 * POINTS.reshape(-1, 2, 2)
    summary.update(Nodes.from_dense(points, weights=np.full(len(points), 1e100)))
    assert summary.spread_cost > 1e200
    assert Summary.from_bytes(summary.to_bytes()).spread_cost == summary.spread_cost


def test_an_error_of_thinning_that_overflows_is_refused():
    summary = Summary(2, size=8, random_state=0, max_realizations=2)
    points = 1e100 * POINTS.reshape(-1, 4, 2)
    with pytest.raises(InputError, match="the error of thinning overflows"):
        summary.update(Nodes.from_dense(points, weights=np.full(len(points), 1e100)))
    assert summary.n_nodes == 0


def test_thinning_counts_beyond_64_bits():
    summary = Summary(2, size=8, random_state=0, max_realizations=2)
    nodes = Nodes.from_dense(POINTS.reshape(-1, 4, 2))
    summary.update(nodes)
    (stream,), audit = summary._state
    summary._state = [replace(stream, n_digested=2**63 + stream.n_digested)], audit
    summary.update(nodes)
    assert summary.n_nodes == 2**63 + 2 * len(nodes)


def test_a_sample_of_nodes_without_weight():
    summary = Summary(1, size=4, random_state=0)
    summary.update(Nodes.from_points(POINTS, weights=np.zeros(len(POINTS))))
    assert len(summary.sample()) > 0


def weights_of(kind):
    """Weights of POINTS."""
    n = len(POINTS)
    if kind == "any":
        return 10.0 ** np.random.default_rng(0).uniform(-323, 100, n)
    weights = np.full(n, {"half": 1e-320, "few": 1e-320, "tiny": 1e-140}[kind])
    weights[: {"half": n // 2, "few": 30}.get(kind, 0)] = 1.0
    return weights


@pytest.mark.parametrize("kind", ["any", "half", "few", "tiny"])
@pytest.mark.parametrize("scale", [1.0, 1e-100])
def test_tiny_weights_beside_large_ones(kind, scale):
    """Reciprocals of tiny masses overflowed, and kernels wrote beyond their arrays."""
    nodes, centers = Nodes.from_points(POINTS * scale, weights=weights_of(kind)), [[0.0, 0.0]]
    summary = Summary(2, size=100, audit_size=200, random_state=0)
    summary.update(nodes)
    true, coreset = expected_cost(nodes, centers), summary.coreset()
    assert len(coreset) <= 100
    assert_allclose(coreset.mass.sum(), nodes.mass.sum(), rtol=1e-12)
    assert_allclose(expected_cost(coreset, centers), true, rtol=0.02)
    cost, error = summary.evaluate(centers)
    assert abs(cost - true) <= 3.0 * error + 1e-9 * true
    assert solve(summary, 2, n_init=1, random_state=0).coreset_cost > 0.0


def test_all_nodes_of_tiny_mass_are_audited():
    """Keys of nodes below 1e-308 were infinite, so that such nodes were never audited: cost 54 times too low."""
    nodes = Nodes.from_points(POINTS, weights=np.append(np.full(len(POINTS) - 1, 1e-310), 1e-130))
    summary = Summary(1, size=4, audit_size=5000, random_state=0)
    summary.update(nodes)
    assert len(summary.sample()) == len(POINTS)


@pytest.mark.parametrize("call", [lambda nodes: solve(nodes, 2), lambda nodes: expected_cost(nodes, [[0.0, 0.0]]),
                                  lambda nodes: summary_of(nodes).evaluate([[0.0, 0.0]])])  # fmt: skip
def test_a_mass_whose_costs_vanish_is_refused(call):
    with pytest.raises(InputError, match="The total mass is 3e-307, so small that costs vanish"):
        call(Nodes.from_points(POINTS, weights=np.full(len(POINTS), 1e-310)))


def summary_of(nodes):
    summary = Summary(2, size=8, random_state=0)
    summary.update(nodes)
    return summary


def test_probabilities_whose_distances_vanish_are_refused():
    with pytest.raises(InputError, match="total probability 2e-200, so small that its distances vanish"):
        Nodes(POINTS[:2], [1e-200, 1e-200], [0, 2])


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, 1.4e-45), (np.float64, 1e-139)])
def test_medians_of_nodes_that_are_nearly_never_there(dtype, least):
    """As of the same nodes with probabilities in proportion that sum to 1."""
    rng = np.random.default_rng(2)
    points = rng.normal(size=(40 * 6, 2)).astype(dtype)
    probabilities = (rng.integers(1, 9, 40 * 6) * least).astype(dtype)
    shares = probabilities.astype(np.float64).reshape(40, 6)
    shares /= shares.sum(axis=1, keepdims=True)
    offsets = 6 * np.arange(41)
    rare, certain = Nodes(points, probabilities, offsets), Nodes(points.astype(float), shares.ravel(), offsets)
    (_, spreads, lower), (_, expected, _) = certified_medians(rare, 1e-6), certified_medians(certain, 1e-6)
    assert_allclose(spreads, expected, rtol=1e-6)
    assert (lower <= expected * (1 + 1e-12)).all()
