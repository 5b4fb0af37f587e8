"""Summaries with a guarantee instead of a size."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from samples import numbered, random_centers

from probi import InputError, Nodes, Summary, expected_cost, solve


def tails(n=60_000, seed=0):
    return Nodes.from_points(np.random.default_rng(seed).normal(size=(n, 1)) ** 3)


def theory(some, splits=(), epsilon=0.9, delta=0.5, k=1, **options):
    summary = Summary(k, preset="theory", epsilon=epsilon, delta=delta, random_state=3, **options)
    for a, b in zip([0, *splits], [*splits, len(some)], strict=True):
        summary.update(some[a:b])
    return summary


@pytest.fixture(scope="module")
def streamed():
    return theory(tails())


@pytest.mark.slow
def test_a_stream_is_reduced_level_by_level(streamed):
    (stream,) = streamed._streams
    assert [len(level) for level in stream.levels] == [0, 1] or len(stream.levels) >= 1
    assert streamed.n_nodes == 60_000
    assert streamed.n_retained < 40_000
    assert streamed.mass == 60_000
    assert streamed.coreset().mass.sum() == pytest.approx(60_000, rel=1e-9)
    # Nothing is reduced for an answer: that would cost some of the guarantee.
    assert len(streamed.coreset()) == streamed.n_retained > streamed.size
    assert "error at most 0.9 with probability 0.5" in repr(streamed)


@pytest.mark.slow
def test_the_guarantee_is_kept_over_the_stream(streamed):
    some = tails()
    found = solve(streamed, 1, random_state=0).centers
    sets = [found, np.zeros((1, 1)), np.full((1, 1), 1e4), *(random_centers(some, 1, seed) for seed in range(5))]
    for centers in sets:
        # Promised are 0.9; measured are 0.02.
        assert expected_cost(streamed.coreset(), centers) == pytest.approx(expected_cost(some, centers), rel=0.1)


@pytest.mark.slow
def test_any_split_gives_the_same_bytes(streamed):
    assert theory(tails(), [1, 20_000, 20_001, 59_000]).to_bytes() == streamed.to_bytes()


@pytest.mark.slow
def test_a_file_keeps_the_guarantee(streamed):
    again = Summary.from_bytes(streamed.to_bytes())
    assert again.to_bytes() == streamed.to_bytes()
    assert repr(again) == repr(streamed)
    assert_array_equal(again.coreset().points, streamed.coreset().points)


@pytest.mark.slow
def test_levels_above_may_err_less(monkeypatch):
    """What each reduce of a stream must guarantee, and that it is told so."""
    from probi.coreset import lss

    asked, reduce = [], lss.reduce

    def look(parts, n_clusters, guarantee, rng):
        asked.append(guarantee)
        return reduce(parts, n_clusters, guarantee, rng)

    monkeypatch.setattr("probi.coreset.lss.reduce", look)
    summary = theory(tails())
    by_level = sorted({p.epsilon for p in asked}, reverse=True)
    guarantee = summary._config.coresets.guarantee
    assert by_level == pytest.approx([guarantee.share(level).epsilon for level in range(len(by_level))])
    assert len(by_level) >= 2
    assert max(p.delta for p in asked) == guarantee.share(0, 0, 0, 0, 0).delta
    assert sum(p.delta for p in asked) < guarantee.delta


@pytest.mark.slow
def test_blocks_of_shards_stand_on_a_level_of_their_own():
    parts = [theory(tails(15_000, seed), shard=seed) for seed in range(4)]
    levels = max(len(stream.levels) for part in parts for stream in part._streams)
    whole = Summary.from_bytes(parts[2].to_bytes())
    for i in (0, 3, 1):
        whole.merge(parts[i])
    (block,) = whole._streams
    assert block.key.height == 1
    assert len(block.levels) == levels + 1
    assert whole.n_nodes == 60_000
    assert whole.coreset().mass.sum() == pytest.approx(60_000, rel=1e-9)


def test_short_streams_are_kept_whole():
    some = numbered(n=200)
    summary = theory(some, k=2)
    assert summary.n_retained == 200
    centers = random_centers(some, 2, 0)
    assert summary.evaluate(centers).cost == pytest.approx(expected_cost(some, centers))


def test_a_cost_is_not_called_exact_after_realizations_were_dropped(monkeypatch):
    """A reduce that keeps every node, and fewer realizations of some."""
    from probi.coreset import lss

    def step_5_alone(parts, n_clusters, guarantee, rng):
        nodes = Nodes.concat(parts)
        return lss.reduce_distributions(nodes, nodes.gravity_centers, guarantee, rng)

    monkeypatch.setattr("probi.coreset.lss.reduce", step_5_alone)
    draw = np.random.default_rng(1)
    dense = Nodes.from_list(draw.lognormal(0, 2, size=(20, 5000, 1)), weights=np.full(20, 100))
    summary = Summary(1, preset="theory", epsilon=0.99, delta=0.99, random_state=0)
    some = Nodes.concat([dense, Nodes.from_points(draw.normal(size=(summary._config.leaf - 20, 1)))])
    summary.update(some)
    assert summary.n_retained == summary.n_nodes == len(some)
    assert summary.coreset().n_realizations < some.n_realizations
    cost, error = summary.evaluate([[2.0]])
    assert error > 0.0
    # The audit sample holds nodes as they came. Within four standard errors: wrong once in 15,000 times.
    assert abs(cost - expected_cost(some, [[2.0]])) < 4 * error


def test_a_smaller_error_needs_more_nodes():
    sizes = [Summary(2, preset="theory", epsilon=e, delta=0.1).size for e in (0.5, 0.2, 0.1)]
    assert sizes[1] > 4 * sizes[0]
    assert sizes[2] > 3 * sizes[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "theory"}, "needs epsilon and delta"),
        ({"preset": "theory", "epsilon": 0.1}, "needs epsilon and delta"),
        ({"preset": "theory", "epsilon": 0.1, "delta": 2.0}, "delta is 2.0"),
        ({"preset": "theory", "epsilon": 0.1, "delta": 0.1, "size": 100}, "the size follows"),
        ({"epsilon": 0.1}, 'need preset="theory"'),
        ({"preset": "paper", "delta": 0.1}, 'need preset="theory"'),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Summary(2, **options)


def test_different_guarantees_do_not_merge():
    with pytest.raises(InputError, match=r"epsilon 0.9 and 0.5 cannot be merged"):
        theory(tails(10)).merge(theory(tails(10), epsilon=0.5, shard=1))
