"""A sealed summary: nothing but a coreset and the audit sample, and still a summary."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from samples import certain, summarized, uncertain

from probi import Nodes, Summary, expected_cost, solve
from probi.summary.stream import ShardKey

CENTERS = np.array([[0.0, 0.0], [45.0, 40.0], [90.0, 80.0]])
PRESETS = ["default", "paper"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [certain, uncertain])
@pytest.mark.parametrize("preset", [*PRESETS, "theory"])
@pytest.mark.parametrize("n", [0, 5, 700])
def test_it_says_the_same_as_before(n, preset, kind):
    options = {"epsilon": 0.5, "delta": 0.5, "size": None} if preset == "theory" else {}
    n = min(n, 200) if preset == "paper" else n  # whose leaves are a quarter as long
    summary = summarized(kind(n), preset=preset, **options)
    before = summary.to_bytes()
    sealed = Summary.from_bytes(summary.sealed().to_bytes())
    assert summary.to_bytes() == before
    assert (sealed.n_nodes, sealed.mass, sealed.spread_cost) == (n, summary.mass, summary.spread_cost)
    assert sealed.sealed().to_bytes() == sealed.to_bytes()
    if n:
        assert sealed.n_retained == len(summary.coreset())
        assert sealed.coreset() == summary.coreset()
        assert sealed.evaluate(CENTERS) == summary.evaluate(CENTERS)
        found, expected = (solve(which, 1, n_init=1, random_state=0) for which in (sealed, summary))
        assert (found.cost, found.centers.tolist()) == (expected.cost, expected.centers.tolist())


def test_nodes_that_are_kept_whole_are_reduced_too():
    nodes = uncertain(60)  # more than the size, less than a leaf
    summary = summarized(nodes)
    sealed = summary.sealed()
    assert (summary.n_retained, sealed.n_retained) == (60, summary.size)
    assert summary.evaluate(CENTERS).standard_error == 0.0
    assert sealed.coreset() == summary.coreset()
    assert sealed.evaluate(CENTERS).cost == pytest.approx(expected_cost(nodes, CENTERS), rel=1e-9)  # audits all 60


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_it_reads_on_in_any_batches(preset):
    first, more = uncertain(300), uncertain({"default": 1000, "paper": 200}[preset], seed=3)
    sealed = summarized(first, preset=preset).sealed()
    found = set()
    for step in (1, 70, 333, len(more)):
        summary = Summary.from_bytes(sealed.to_bytes())
        for start in range(0, len(more), step):
            summary.update(more[start : start + step])
        found.add(summary.to_bytes())
    assert len(found) == 1
    assert summary.n_nodes == 300 + len(more)
    everything = Nodes.concat([first, more])
    assert_allclose(summary.mass, everything.mass.sum())
    found = summary.evaluate(CENTERS)
    assert abs(found.cost - expected_cost(everything, CENTERS)) < 4.0 * found.standard_error + 1e-9


def test_no_random_numbers_are_used_twice(monkeypatch):
    """Sealed again and again, at any place in a leaf: each leaf and each coreset has numbers of its own."""
    used = []
    random = ShardKey.random
    monkeypatch.setattr(ShardKey, "random", lambda key, *purpose: used.append(purpose) or random(key, *purpose))
    summary = summarized(uncertain(50))
    draw = np.random.default_rng(0)
    partial = set()
    for round_ in range(12):
        used.clear()
        summary.update(uncertain(int(draw.integers(1, 900)), seed=round_))
        new = [purpose for purpose in used if purpose[0] in (0, 1)]
        assert len(set(new)) == len(new)
        assert partial.isdisjoint(new)
        summary = summary.sealed()
        partial |= {purpose for purpose in used if purpose[0] in (0, 1)}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_sealed_shards_merge_in_any_order(preset):
    lengths = {"default": (700, 8, 63, 300, 130), "paper": (175, 8, 15, 75, 33)}[preset]
    parts = [uncertain(n, seed=n) for n in lengths]
    shards = [summarized(part, preset=preset, shard=i).sealed() for i, part in enumerate(parts)]
    found = set()
    for order in itertools.islice(itertools.permutations(shards), 0, None, 17):
        whole = order[0].__copy__()
        for other in order[1:]:
            whole.merge(other)
        found.add(whole.to_bytes())
    assert len(found) == 1
    assert whole.n_nodes == sum(lengths)
    everything = Nodes.concat(parts)
    assert_allclose(whole.coreset().mass.sum(), everything.mass.sum())
    cost = whole.evaluate(CENTERS)
    assert abs(cost.cost - expected_cost(everything, CENTERS)) < 4.0 * cost.standard_error + 1e-9


@pytest.mark.parametrize("nodes", [certain(9000, d=64, dtype=np.float32), uncertain(9000, d=16)])
def test_it_takes_few_bytes_beside_its_nodes(nodes):
    summary = Summary(5, random_state=0)
    summary.update(nodes)
    sealed = summary.sealed()
    n_bytes = sum(n.points.nbytes + n.probabilities.nbytes for n in (summary.coreset(), summary.sample()))
    n_header = 2 * 2501 * 2 * 20  # keys and sizes of the audit sample, as text, in two places
    assert len(sealed.to_bytes()) <= 1.3 * n_bytes + n_header
