"""Summaries that thin nodes on arrival: the same bits however they come, and honest about what was lost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from samples import random_centers
from strategies import examples

from probi import InputError, Nodes, Summary, _parallel, expected_cost, one_medians, solve

MOST = 8


def dense(n=400, m=60, d=2, seed=0, dtype=np.float64):
    """Nodes with up to m realizations, in three clusters, with weights and far points; some are small already."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, m + 1, n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    middles = 8.0 * draw.integers(0, 3, size=(n, 1)) + draw.normal(size=(n, d))
    X = np.repeat(middles, sizes, axis=0) + draw.standard_t(3, size=(offsets[-1], d))
    shares = draw.exponential(size=offsets[-1])
    shares *= 0.9 / np.repeat(np.add.reduceat(shares, offsets[:-1]), sizes)
    return Nodes(X.astype(dtype), shares.astype(dtype), offsets, weights=draw.uniform(1, 4, n))


def summed(some, splits=(), most=MOST, **options):
    summary = Summary(3, size=12, random_state=5, max_realizations=most, **options)
    for a, b in zip([0, *splits], [*splits, len(some)], strict=True):
        summary.update(some[a:b])
    return summary


def test_no_node_keeps_more_than_it_may():
    some = dense()
    summary = summed(some)
    for kept in (summary.coreset(), summary.sample()):
        assert np.diff(kept.offsets).max() <= MOST
    assert summary.max_realizations == MOST
    assert summary.n_nodes == 400
    assert summary.mass == pytest.approx(some.mass.sum(), rel=1e-12)
    assert "at most 8 realizations per node" in repr(summary)


@pytest.mark.slow
@examples(15)
@given(st.lists(st.integers(0, 400), max_size=6), st.sampled_from([1, 3]))
def test_any_split_and_any_threads_give_the_same_bytes(splits, n_threads):
    with _parallel.limited(n_threads):
        assert summed(dense(), sorted(splits)).to_bytes() == summed(dense()).to_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_to_stop_and_go_on_is_to_go_on(preset):
    some = dense()
    first = summed(some[:137], preset=preset)
    again = Summary.from_bytes(first.to_bytes())
    assert again.thinning_bound == first.thinning_bound > 0
    again.update(some[137:])
    assert again.to_bytes() == summed(some, preset=preset).to_bytes()


def test_nodes_are_thinned_by_their_number_not_by_their_batch():
    """The same node in two places of a stream is drawn twice, independently."""
    one = dense(n=1, m=60, seed=3)
    some = Nodes.concat([one, one])
    kept = summed(some).sample()
    assert kept[0] != kept[1]
    assert kept == summed(some, [1]).sample()


def test_small_nodes_are_read_as_without():
    some = dense(m=MOST)
    plain = Summary(3, size=12, random_state=5)
    plain.update(some)
    summary = summed(some)
    assert_array_equal(summary.coreset().points, plain.coreset().points)
    assert (summary.spread_cost, summary.lower_bound) == (plain.spread_cost, plain.lower_bound)
    assert summary.thinning_bound == 0.0
    centers = random_centers(some, 3, 0)
    assert summary.evaluate(centers) == plain.evaluate(centers)


def test_bounds_are_of_the_nodes_as_they_came():
    some = dense(m=300)
    _, spreads = one_medians(some, tol=1e-9)
    least = float((some.mass * spreads).sum())
    summary = summed(some)
    assert 0.85 * least < summary.lower_bound <= least
    assert least * (1 - 1e-9) <= summary.spread_cost < 1.02 * least


def test_bounds_do_not_fall_with_what_is_kept():
    """Of one realization a node no spread is left."""
    some = dense(m=300)
    _, spreads = one_medians(some, tol=1e-9)
    least = float((some.mass * spreads).sum())
    summary = summed(some, most=1)
    assert 0.8 * least < summary.lower_bound <= least
    assert least * (1 - 1e-9) <= summary.spread_cost < 1.05 * least
    found = summary.evaluate(random_centers(some, 3, 0))
    assert found.lower_bound == summary.lower_bound <= found.cost


def test_no_solution_is_said_to_cost_less_than_any_can():
    X = np.random.default_rng(0).normal(size=(2, 200, 2)) + 5 * np.arange(2)[:, None, None]
    summary = Summary(2, random_state=0, max_realizations=5)
    summary.update(Nodes.from_dense(X))
    result = solve(summary, 2, random_state=0)
    assert result.lower_bound == summary.lower_bound <= result.cost


@examples(25)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 20), st.sampled_from([np.float32, np.float64]))
def test_no_centers_see_more_than_the_certified_bound(seed, d, most, dtype):
    some = dense(n=9, m=50, d=d, seed=seed, dtype=dtype)
    summary = summed(some, most=most)  # so few nodes are all kept
    for centers in (random_centers(some, 2, seed), some.points[:3].astype(float), random_centers(some, 1, 1) + 1e4):
        truth = expected_cost(some, centers)
        found = summary.evaluate(centers)
        assert abs(found.cost - truth) <= found.thinning_bound + 1e-6 * truth
        assert found.thinning_bound == summary.thinning_bound


def test_the_standard_error_covers_thinning():
    """Sixty streams of the same nodes, all kept: thinning is the only error, and is within what is stated."""
    some = dense(n=40, m=300)
    centers = random_centers(some, 3, 1)
    truth = expected_cost(some, centers)
    found = []
    for seed in range(60):
        summary = Summary(10, random_state=seed, max_realizations=MOST)
        summary.update(some)
        found.append(summary.evaluate(centers))
    errors = np.array([one.cost - truth for one in found])
    stated = np.array([one.standard_error for one in found])
    assert np.sqrt((errors**2).mean()) < stated.min()
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(60)  # once in 15,000 times
    # It is a bound for any centers, so it is not tight; but it is of use.
    assert stated.max() < 0.1 * truth


def clouds(kind, n=500, m=50, d=2):
    """Nodes around places, with realizations of one kind."""
    draw = np.random.default_rng(7)
    places = 4 * draw.normal(size=(n, 1, d))
    if kind == "lognormal":
        return Nodes.from_dense(places + draw.lognormal(0, 1, size=(n, m, d)))
    if kind == "heavy":
        return Nodes.from_dense(places + draw.lognormal(0, 2, size=(n, m, d)))
    if kind == "one place":  # nothing but what was drawn tells nodes apart
        return Nodes.from_dense(draw.lognormal(0, 1, size=(n, m, 1)))
    if kind == "lumps":
        far = (draw.random((n, m, 1)) < 0.3) * draw.normal(size=(n, 1, d)) * 6
        return Nodes.from_dense(places + far + 0.3 * draw.normal(size=(n, m, d)))
    return Nodes.from_dense(places + draw.standard_t(2, size=(n, m, d)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "most"),
    [
        *((kind, 8) for kind in ("lognormal", "heavy", "one place", "lumps", "t")),
        *((kind, most) for kind in ("lognormal", "one place") for most in (1, 4, 32)),
    ],
)
def test_two_standard_errors_cover_the_truth(kind, most):
    """Twenty seeds, centers fixed before: at least 18 of them, and the bar for a true 95 % fails once in 13 times.

    Measured are all of 100 in every case: the bounds are for any centers. So they must be of use too.
    """
    some = clouds(kind)
    centers = solve(some, 5, n_init=1, random_state=0).centers
    truth = expected_cost(some, centers)
    covered, stated = 0, []
    for seed in range(20):
        summary = Summary(10, random_state=seed, max_realizations=most)
        summary.update(some)
        cost, error = summary.evaluate(centers)
        covered += abs(cost - truth) <= 2 * error
        stated.append(error / truth)
    assert covered >= 18
    assert max(stated) < {1: 1.1, 4: 0.1, 8: 0.05, 32: 0.02}[most]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lognormal", "one place"])
def test_two_standard_errors_cover_the_truth_of_a_solution(kind):
    """Centers found on what was drawn, thinned to 8: each node has chosen the center that suits its draws."""
    some = clouds(kind)
    covered = 0
    for seed in range(20):
        summary = Summary(10, random_state=seed, max_realizations=8)
        summary.update(some)
        result = solve(summary, 5, n_init=1, random_state=seed)
        covered += abs(result.cost - expected_cost(some, result.centers)) <= 2 * result.standard_error
    assert covered >= 18  # of a true 95 %, fewer would be covered once in 13 times; measured are 20


def test_only_what_was_drawn_has_a_bias_of_choice():
    """One thinned node among many that are not: no more than is certified for it."""
    lumps = Nodes.from_dense(np.random.default_rng(0).normal(size=(300, 8, 2)) * 5)
    one = Nodes.from_dense(np.random.default_rng(1).normal(size=(1, 60, 2)))
    summary = Summary(3, random_state=0, max_realizations=8)
    summary.update(Nodes.concat([lumps, one]))
    found = summary.evaluate(random_centers(lumps, 3, 0))
    assert 0.0 < found.standard_error < 1.5 * summary.thinning_bound


@pytest.mark.slow
def test_the_estimate_of_a_long_stream_is_near_the_truth():
    some = dense(n=6000, m=40, seed=2)
    summary = Summary(3, size=60, random_state=0, max_realizations=MOST)
    summary.update(some)
    result = solve(summary, 3, random_state=0)
    truth = expected_cost(some, result.centers)
    assert abs(result.cost - truth) < 3 * result.standard_error
    assert result.lower_bound <= result.spread_cost <= result.cost
    assert result.thinning_bound == summary.thinning_bound
    best = solve(some, 3, random_state=0).cost
    assert truth < 1.02 * best


@pytest.mark.parametrize("n_each", [10, 180])  # within a leaf, and beyond it
def test_shards_merge_in_any_order(n_each):
    some = dense(n=5 * n_each)
    parts = [summed(some[i * n_each : (i + 1) * n_each], shard=i) for i in range(5)]
    forward, backward = (Summary.from_bytes(parts[i].to_bytes()) for i in (0, 4))
    for i in range(1, 5):
        forward.merge(parts[i])
        backward.merge(parts[4 - i])
    assert forward.to_bytes() == backward.to_bytes()
    assert forward.thinning_bound == pytest.approx(sum(part.thinning_bound for part in parts), rel=1e-12)
    assert forward.spread_cost == pytest.approx(sum(part.spread_cost for part in parts), rel=1e-12)


def test_scaling_scales_what_was_lost():
    some = dense()
    summary = summed(some)
    centers = random_centers(some, 3, 0)
    before = summary.evaluate(centers)
    bound = summary.thinning_bound
    summary.scale(0.25)
    after = summary.evaluate(centers)
    assert summary.thinning_bound == pytest.approx(bound / 4, rel=1e-12)
    for name in ("cost", "standard_error", "lower_bound", "spread_cost", "thinning_bound"):
        assert getattr(after, name) == pytest.approx(getattr(before, name) / 4, rel=1e-9), name


def test_summaries_that_keep_more_and_less_do_not_merge():
    with pytest.raises(InputError, match="max_realizations 8 and None cannot be merged"):
        summed(dense()[:5]).merge(summed(dense()[:5], most=None, shard=1))


@pytest.mark.parametrize("value", [0, -3, 2.5, "many", True])
def test_nonsense_is_refused(value):
    with pytest.raises(InputError, match="max_realizations is"):
        Summary(3, max_realizations=value)
