"""Summary of a stream: what must not matter, what is exact, what it says about all the data, and what is refused."""

import functools
import gc
import itertools
import math
import weakref
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import as_lists, blobs, certain, some_centers, summarized, uncertain
from strategies import build, examples, nodes

from probi import InputError, Nodes, Summary, _parallel, expected_cost, one_medians, solve
from probi.summary.config import AUDIT_SIZE
from probi.summary.stream import Totals

PRESETS = ["default", "paper"]
KINDS = {"certain": certain, "uncertain": uncertain}

# With a size of 8 a leaf has 64 nodes, in the paper preset 16: three levels and more, and in the default so many nodes
# that not all of them are in the audit sample.
N = {"default": 3000, "paper": 120}

# Where three levels are enough: six leaves and more.
FEW = {"default": 400, "paper": 120}


# -- what must not matter: batches and threads ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype"), [("certain", np.float64), ("uncertain", np.float32)])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_size_of_batches_does_not_matter(preset, kind, dtype):
    some = KINDS[kind](N[preset], dtype=dtype)
    expected = summarized(some, preset=preset)
    assert len(expected._streams[0].levels) > 2
    for step in (7, 1000) if preset == "default" else (1, 50):  # test_leaves.py reads one by one
        assert summarized(some, step, preset=preset).to_bytes() == expected.to_bytes()


@functools.cache
def whole(preset, kind):
    return summarized(KINDS[kind](FEW[preset]), preset=preset).to_bytes()


@pytest.mark.slow
@examples(8)
@given(st.lists(st.floats(0, 1), max_size=6), st.sampled_from(PRESETS), st.sampled_from(sorted(KINDS)))
def test_any_split_gives_the_same_bytes(cuts, preset, kind):
    n = FEW[preset]
    some, borders = KINDS[kind](n), [0, *sorted(int(cut * n) for cut in cuts), n]
    summary = Summary(2, 8, preset, random_state=0)
    for start, stop in itertools.pairwise(borders):
        summary.update(some[start:stop])
    assert summary.to_bytes() == whole(preset, kind)


@pytest.mark.slow
@examples(15)
@given(nodes(dimension=2), st.integers(1, 9), st.sampled_from(PRESETS), st.sampled_from("fd"), st.data())
def test_any_nodes_in_any_split_keep_their_mass(some, step, preset, dtype, data):
    # Repeated nodes: many are equal. Not all of them weigh nothing, so each leaf has some mass.
    weights = data.draw(st.lists(st.integers(0, 4).map(float), min_size=len(some), max_size=len(some)).filter(any))
    n_times = 1 + {"default": 130, "paper": 40}[preset] // len(some)  # above four leaves
    many = build(some * n_times, weights * n_times, dtype)
    whole = summarized(many, n_clusters=1, size=4, preset=preset)
    assert summarized(many, step, n_clusters=1, size=4, preset=preset).to_bytes() == whole.to_bytes()
    assert whole.n_nodes == len(many)
    assert_allclose(whole.mass, many.mass.sum(), rtol=1e-12)
    assert_allclose(whole.coreset().mass.sum(), many.mass.sum(), rtol=1e-9)
    assert whole.lower_bound <= expected_cost(many, many.points[:3]) * (1 + 1e-12) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_the_number_of_threads_does_not_matter(preset):
    some = uncertain({"default": 1500, "paper": 200}[preset])
    found = []
    for n_jobs in (1, 2, 5):
        with _parallel.limited(n_jobs):
            found.append(summarized(some, len(some) // 3, preset=preset))
    assert len({summary.to_bytes() for summary in found}) == 1
    assert found[1].coreset() == found[0].coreset()
    assert found[2].evaluate(some_centers()) == found[0].evaluate(some_centers())


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_what_a_batch_has_computed_before_does_not_matter(preset):
    # A coreset has medians with it, which the buffer drops: nodes that hit a realization take random numbers.
    rng = np.random.default_rng(3)
    some = Nodes.from_dense(rng.integers(3, size=(3200, 5, 1)).astype(float))
    again = summarized(some, size=400, preset=preset, random_state=1).coreset()
    assert len(again) > 100
    assert summarized(again, 7, preset=preset).to_bytes() == summarized(again, preset=preset).to_bytes()


def test_seeds_and_shards_matter():
    some = certain(500)
    different = [{"random_state": 0}, {"random_state": 1}, {"random_state": 0, "shard": 1}]
    assert len({summarized(some, **options).to_bytes() for options in different}) == 3
    weights = {tuple(summarized(some, **options).coreset().weights) for options in different}
    assert len(weights) == 3  # not only the seed itself is another one


@pytest.mark.parametrize("first", [np.float32, np.float64])
def test_a_float64_node_makes_the_summary_float64(first):
    second = np.float64 if first == np.float32 else np.float32
    parts = [uncertain(150, dtype=first), uncertain(150, dtype=second, seed=1), uncertain(100, dtype=first, seed=2)]
    found = []
    for step in (1, 7, 1000):
        summary = Summary(2, 8, random_state=0)
        for part in parts:
            for start in range(0, len(part), step):
                summary.update(part[start : start + step])
        found.append(summary)
    assert len({summary.to_bytes() for summary in found}) == 1
    assert found[0].dtype == found[0].coreset().dtype == np.float64
    assert found[0].n_nodes == 400
    assert_allclose(found[0].mass, sum(part.mass.sum() for part in parts), rtol=1e-12)


def test_float32_stays_float32():
    summary = summarized(uncertain(500, dtype=np.float32), 7)
    assert summary.dtype == summary.coreset().dtype == np.float32


def test_the_callers_arrays_may_be_used_again():
    X, weights = np.empty((30, 2, 2)), np.empty(30)
    reused, fresh = (Summary(2, 8, random_state=0) for _ in range(2))
    for number in range(7):
        rng = np.random.default_rng(number)
        X[:], weights[:] = rng.normal(size=X.shape), rng.uniform(size=30)
        reused.update(Nodes.from_dense(X, weights=weights))
        fresh.update(Nodes.from_dense(X.copy(), weights=weights.copy()))
    X[:], weights[:] = 0.0, 0.0
    assert reused.to_bytes() == fresh.to_bytes()
    assert reused.coreset() == fresh.coreset()


# -- how much is kept -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("n", [1, 5, 8])
def test_up_to_size_nodes_are_kept_whole(n, preset):
    some = uncertain(n)
    summary = summarized(some, 3, preset=preset)
    assert summary.coreset() == some
    cost, error = summary.evaluate(some_centers())
    assert error == 0.0
    assert_allclose(cost, expected_cost(some, some_centers()), rtol=1e-14)
    assert_allclose(cost, naive.expected_cost(as_lists(some), some.weights, some_centers().tolist()), rtol=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("n", [9, 15, 40, 63])
def test_the_cost_is_exact_as_long_as_the_error_is_zero(n, preset):
    # Up to a leaf the buffer holds every node, though the coreset holds fewer.
    some = uncertain(n)
    cost, error = summarized(some, preset=preset).evaluate(some_centers())
    assert error == 0.0
    assert_allclose(cost, expected_cost(some, some_centers()), rtol=1e-12)


def test_up_to_the_audit_sample_the_cost_is_exact():
    some = uncertain(AUDIT_SIZE)
    cost, error = summarized(some).evaluate(some_centers())
    assert error == 0.0
    assert_allclose(cost, expected_cost(some, some_centers()), rtol=1e-12)


def test_the_size_is_200_a_cluster_where_nothing_is_said():
    assert Summary(7).size == 1400


@pytest.mark.parametrize("kind", KINDS)
def test_the_coreset_has_at_most_size_nodes_and_keeps_the_mass(kind):
    some = KINDS[kind](1500)
    summary = Summary(2, 8, random_state=0)
    for start in range(0, 1500, 37):
        summary.update(some[start : start + 37])
        assert len(summary.coreset()) == min(8, summary.n_nodes)
        assert_allclose(summary.coreset().mass.sum(), some[: start + 37].mass.sum(), rtol=1e-12)


@pytest.mark.slow
def test_the_papers_coreset_is_the_union_of_its_buckets_and_keeps_the_mass():
    some = uncertain(500)
    summary = Summary(2, 8, "paper", random_state=0)
    for start in range(0, 500, 37):
        summary.update(some[start : start + 37])
        assert_allclose(summary.coreset().mass.sum(), some[: start + 37].mass.sum(), rtol=1e-9)
    assert len(summary.coreset()) > 8


def test_nodes_of_the_coreset_are_nodes_of_the_stream():
    some = uncertain(1000)
    known = {part.points.tobytes() + part.probabilities.tobytes() for part in some}
    assert all(part.points.tobytes() + part.probabilities.tobytes() in known for part in summarized(some).coreset())


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream():
    # At most an unfilled leaf, and fan_in - 1 coresets a level.
    fan_in, size, n, step = 4, 4, 9000, 500
    leaf = 2 * fan_in * size
    X = np.random.default_rng(0).normal(size=(n, 1))
    summary = Summary(1, size, random_state=0)
    for start in range(0, n, step):
        summary.update(Nodes.from_points(X[start : start + step]))
        levels = 1 + math.floor(math.log((start + step) / leaf, fan_in))
        assert summary.n_retained < leaf + (fan_in - 1) * size * levels
    assert summary.n_nodes == n
    assert len(summary._streams[0].levels) == 5


def test_a_batch_is_not_kept_alive():
    alive, summaries = {}, []
    for n in (10, 63, 64, 1000):
        points = np.random.default_rng(0).normal(size=(n, 3))
        alive[n] = weakref.ref(points)
        summaries.append(Summary(2, 8, random_state=0))
        summaries[-1].update(Nodes.from_points(points))
        summaries[-1].coreset()
    del points
    gc.collect()  # takes a second among all modules of the tests: once
    assert [n for n, points in alive.items() if points() is not None] == []


# -- what comes out changes nothing -----------------------------------------------------------------------------------

LOOKS = {
    "coreset": lambda summary: summary.coreset(),
    "evaluate": lambda summary: summary.evaluate(some_centers()),
    "solve": lambda summary: solve(summary, 2, random_state=0).centers,
    "repr": repr,
    "mass": lambda summary: (summary.mass, summary.spread_cost, summary.lower_bound),
    "counts": lambda summary: (summary.n_nodes, summary.n_retained, summary.n_features, summary.dtype),
    "bytes": lambda summary: summary.to_bytes(),
}


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("look", LOOKS)
def test_to_look_changes_nothing_and_draws_nothing(look, preset):
    some = uncertain({"default": 300, "paper": 90}[preset])
    n = len(some) * 2 // 3
    looked_at, left_alone = summarized(some[:n], preset=preset), summarized(some[:n], preset=preset)
    before = looked_at.to_bytes()
    first, second = LOOKS[look](looked_at), LOOKS[look](looked_at)
    assert np.array_equal(first, second) if look == "solve" else first == second
    assert looked_at.to_bytes() == before
    looked_at.update(some[n:])
    left_alone.update(some[n:])
    assert looked_at.to_bytes() == left_alone.to_bytes()
    again = LOOKS[look](looked_at), LOOKS[look](left_alone)  # what was found before is forgotten
    assert np.array_equal(*again) if look == "solve" else again[0] == again[1]
    if look in ("coreset", "mass", "counts", "bytes"):
        assert again[0] != first


def test_a_coreset_once_given_out_stays_as_it_was():
    some = uncertain(40)
    summary = summarized(some[:8])
    given_out = summary.coreset()
    summary.update(some[8:])
    summary.scale(2.0)
    assert given_out == some[:8]


# -- sums over all nodes ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counters_are_sums_over_all_nodes(dtype, preset):
    n = {"default": 1000, "paper": 250}[preset]
    some = uncertain(n, dtype=dtype)
    summary = summarized(some, 77, preset=preset)
    assert summary.n_nodes == n
    kept = sum(len(coreset) for level in summary._streams[0].levels for coreset in level)
    assert summary.n_retained == kept + n % summary._config.leaf
    assert_allclose(summary.mass, (some.weights * some.total_probabilities).sum(), rtol=1e-12)
    _, spreads = one_medians(some, tol=1e-9)
    best = (some.mass * spreads).sum()
    assert best * (1 - 1e-8) <= summary.spread_cost <= 1.01 * best
    assert 0.99 * best <= summary.lower_bound <= best


@pytest.mark.slow
def test_no_centers_cost_less_than_the_lower_bound():
    some = uncertain(600)
    summary = summarized(some)
    assert summary.lower_bound > 0.0
    for centers in (some_centers(), some.points[:500], solve(some, 10, random_state=0).centers):
        assert summary.lower_bound <= expected_cost(some, centers)
        assert summary.evaluate(centers).lower_bound <= summary.evaluate(centers).cost


def test_no_number_of_leaves_lifts_the_lower_bound():
    totals = Totals()
    for _ in range(1000):
        totals = totals.plus(Totals(0.1, 0.1, 0.1))
    assert Fraction(totals.lower_bound) <= 1000 * Fraction(0.1)
    assert_allclose(totals.lower_bound, 100.0, rtol=1e-12)


def test_certain_nodes_have_no_spread():
    summary = summarized(certain(500))
    assert summary.spread_cost == summary.lower_bound == 0.0


def test_nodes_without_weight_count_but_cost_nothing():
    some = certain(400)
    some = some.with_weights(some.weights * (np.arange(400) < 300))
    summary = summarized(some, 50)
    assert summary.n_nodes == 400
    assert_allclose(summary.mass, some.mass.sum(), rtol=1e-12)
    assert_allclose(summary.evaluate(some_centers()).cost, expected_cost(some, some_centers()), rtol=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_leaf_without_any_weight_does_no_harm(preset):
    some = certain(400)
    some = some.with_weights(some.weights * (np.arange(400) >= 200))
    summary = summarized(some, 50, preset=preset)
    assert summary.n_nodes == 400
    assert_allclose(summary.coreset().mass.sum(), some.mass.sum(), rtol=1e-9)
    assert summarized(some, preset=preset).to_bytes() == summary.to_bytes()


# -- evaluate and solve -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_estimate_of_a_cost_is_as_near_as_its_standard_error_says(kind):
    some = KINDS[kind](4000)  # far above the audit sample
    found = []
    for number in range(8):
        summary = summarized(some, random_state=number)
        centers = some_centers(seed=number)
        cost, error = summary.evaluate(centers)
        assert 0.0 < error < 0.05 * cost
        found.append((cost - expected_cost(some, centers)) / error)
    assert np.abs(found).max() < 4.0
    assert 0.3 < np.sqrt(np.mean(np.square(found))) < 1.7


def test_an_evaluation_unpacks_and_its_parts_belong_together():
    found = summarized(uncertain(3000)).evaluate(some_centers())
    cost, error = found
    assert (cost, error) == (found.cost, found.standard_error)
    assert found.excess == cost - found.spread_cost
    assert 0.0 < found.lower_bound <= found.spread_cost < cost


def test_a_summary_is_solved_nearly_as_well_as_all_the_data():
    some = Nodes.from_dense(blobs(n=3000, k=4, d=2, m=3)[0])
    summary = summarized(some, 500, n_clusters=6, size=120)
    found = solve(summary, 4, random_state=0)
    truth = expected_cost(some, found.centers)
    assert found.labels is None
    assert found.standard_error > 0.0
    assert abs(found.cost - truth) < 4.0 * found.standard_error
    assert_allclose(found.coreset_cost, expected_cost(summary.coreset(), found.centers), rtol=1e-12)
    assert found.spread_cost == summary.spread_cost
    assert found.excess == found.cost - found.spread_cost
    assert 0.0 < found.lower_bound <= summary.lower_bound
    assert found.lower_bound <= found.cost
    assert tuple(summary.evaluate(found.centers)) == (found.cost, found.standard_error)
    assert found.clusters.count.sum() == 120
    assert_allclose(found.clusters.mass.sum(), 3000.0, rtol=1e-9)
    assert truth < 1.05 * solve(some, 4, random_state=0).cost


@pytest.mark.parametrize("k", [1, 2, 3])
def test_a_summary_serves_fewer_clusters_but_not_more(k):
    summary = summarized(certain(500), n_clusters=3, size=24)
    assert solve(summary, k, random_state=0).centers.shape == (k, 2)
    with pytest.raises(InputError, match="n_clusters is 4, but the summary was made for up to 3"):
        solve(summary, 4)


def test_the_preset_of_a_summary_is_the_default_of_solve():
    summaries = {preset: summarized(certain(900, seed=5), n_clusters=3, preset=preset, size=60) for preset in PRESETS}

    def centers(source, preset):
        return solve(source, 3, preset=preset, random_state=7).centers.tolist()

    for preset, summary in summaries.items():
        assert centers(summary, None) == centers(summary, preset)
    assert centers(summaries["paper"], "default") != centers(summaries["paper"], "paper")


def test_the_seed_makes_solving_repeatable():
    summary = summarized(uncertain(3000), n_clusters=5, size=100)
    found = [solve(summary, 5, random_state=number) for number in (1, 1)]
    assert_array_equal(found[0].centers, found[1].centers)
    assert (found[0].cost, found[0].standard_error) == (found[1].cost, found[1].standard_error)


def test_a_small_summary_is_solved_like_its_nodes():
    some = uncertain(60)
    found = solve(summarized(some, n_clusters=3, size=60), 3, random_state=0)
    assert found.standard_error == 0.0
    assert_allclose(found.cost, expected_cost(some, found.centers), rtol=1e-12)
    assert found.coreset_cost == found.cost


def test_centers_with_other_features_are_refused():
    summary = summarized(certain(100))
    with pytest.raises(InputError, match=r"3.*2|2.*3"):
        summary.evaluate([[0.0, 0.0, 0.0]])
    with pytest.raises(InputError):
        summary.evaluate([[0.0, np.nan]])


@pytest.mark.parametrize("look", ["coreset", "evaluate", "solve"])
@pytest.mark.parametrize("preset", PRESETS)
def test_an_empty_summary_says_so(look, preset):
    with pytest.raises(InputError, match="The summary is empty: it has read no nodes"):
        LOOKS[look](Summary(2, 8, preset, random_state=0))
