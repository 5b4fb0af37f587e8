"""Numbers at the ends of their ranges: nothing wrong without a word, and nothing saved that does not load."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from probi import InputError, Nodes, Summary, solve

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
