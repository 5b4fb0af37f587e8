"""The audit sample against the definition, and its error bars against many samples."""

import math
from functools import reduce
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import numbered, random_centers, read_only

from probi import Nodes, expected_cost
from probi._kernels import geometry
from probi.medians import CERTIFIED_MEDIANS, SPREAD_TOL, certified_medians
from probi.objective import expected_distances
from probi.summary import audit as audits
from probi.summary.audit import (
    N_LOCATIONS,
    N_SURVEYED,
    AuditSample,
    GrowingSample,
    Surroundings,
    distances_to_locations,
    typical_locations,
    usual_sums,
)

N = 20


def uncertain(n=400, **options):
    return numbered(n, **{"least_weight": 0} | options)


def uniforms(n, seed=0):
    """Numbers in (0, 1]."""
    return 1.0 - np.random.default_rng(seed).random(n)


def sample_of(some, numbers, sizes=None):
    return AuditSample(limit=N).added(some, numbers, sizes)


def true_excess(some, centers):
    """What nodes cost beyond their spreads."""
    _, spreads, _ = certified_medians(some, SPREAD_TOL)
    return expected_cost(some, centers) - math.fsum(some.mass * spreads)


def assert_same(ours, theirs):
    """Same nodes with the same keys and medians, to the bit."""
    assert ours.nodes == theirs.nodes
    assert_array_equal(ours.keys, theirs.keys)
    assert_array_equal(ours.sizes, theirs.sizes)
    if not ours.nodes.is_certain:
        for a, b in zip(ours.nodes.known(CERTIFIED_MEDIANS), theirs.nodes.known(CERTIFIED_MEDIANS), strict=True):
            assert_array_equal(a, b)


# -- the definition ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 19, 20, 21, 22, 400])
def test_holds_the_nodes_with_the_smallest_keys(n, dtype):
    some = uncertain(n, dtype=dtype, k=1)
    sample = sample_of(some, uniforms(n))
    chosen, keys = naive.priority_sample(some.mass.tolist(), uniforms(n).tolist(), N)
    assert_array_equal(sample.keys, keys)
    if chosen:
        assert sample.nodes == some.take(chosen)
        assert sample.nodes.dtype == dtype
    assert sample.threshold == (keys[N] if len(keys) > N else math.inf)


def test_nodes_without_mass_are_never_in_it():
    some = uncertain(60)
    sample = sample_of(some, uniforms(60))
    assert (some.weights == 0.0).sum() > 5
    assert (sample.nodes.mass > 0.0).all()
    nothing = sample_of(some.with_weights(np.zeros(60)), uniforms(60))
    assert nothing.nodes is None
    assert nothing.excess(np.zeros((1, 3))) == (0.0, 0.0)


def test_nodes_without_mass_are_not_missed():
    some = uncertain(15)
    sample = sample_of(some, uniforms(15))
    assert sorted(sample.nodes.ids) == np.flatnonzero(some.weights).tolist()


def test_sizes_other_than_masses():
    some, sizes = uncertain(), np.random.default_rng(3).pareto(1.0, 400)
    sample = sample_of(some, uniforms(400), sizes)
    chosen, keys = naive.priority_sample(sizes.tolist(), uniforms(400).tolist(), N)
    assert_array_equal(sample.keys, keys)
    assert_array_equal(sample.sizes, sizes[chosen])
    assert sample.nodes == some.take(chosen)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 3])
def test_distances_go_by_the_nearest_of_more_and_more_places(m, dtype):
    some = uncertain(400, m=m, dtype=dtype)
    location = np.full(some.n_features, 0.3)
    medians = certified_medians(some, SPREAD_TOL)[0].astype(float)
    locations = typical_locations(medians[::2], N_LOCATIONS)
    rows = np.array(naive.distances_to_nearest(medians.tolist(), [location.tolist(), *locations.tolist()]))
    around = Surroundings(location)
    survey = around.survey(some)
    assert_allclose(survey.farthest, rows.max(axis=1), rtol=1e-12)
    (mass, sums), (usual, (distance,)) = usual_sums(some.mass, rows[1:]), usual_sums(some.mass, rows[:1])
    assert_allclose([survey.mass, survey.distance], [usual, distance], rtol=1e-12)
    relative = np.sum(rows[1:] * mass / sums[:, None], axis=0) + rows[0] * usual / distance
    sizes = some.mass * (1.0 + relative)
    assert_allclose(around.after(survey).sizes(some, survey), sizes, rtol=1e-12)
    assert_allclose(around.after(survey).sizes(some, survey, np.array([7, 3])), sizes[[7, 3]], rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [3, 9])
def test_sums_over_locations_match_the_definition(d, dtype):
    rng = np.random.default_rng(0)
    points, mass, locations = rng.normal(size=(30, d)).astype(dtype), rng.exponential(size=30), rng.normal(size=(4, d))
    found = geometry.sums_over_locations(read_only(points), read_only(mass), locations, 3, 20)
    rows = naive.distances_to_nearest(points[3:20].tolist(), locations.tolist())
    sums = [math.fsum(m * x for m, x in zip(mass[3:20], row, strict=True)) for row in ([1.0] * 17, *rows)]
    expected = [sums, [max(mass[3:20]), *(max(row) ** 2 for row in rows)]]
    assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("far", [0.0, 30.0, 1e6])
def test_a_part_of_a_large_leaf_says_how_far_its_nodes_are_and_none_is_farther_than_the_bound(far):
    points = np.random.default_rng(0).normal(size=(16 * N_SURVEYED, 2))
    points[5] += far  # not in the part
    some = Nodes.from_points(points, np.random.default_rng(1).uniform(1.0, 2.0, len(points)))
    around = Surroundings(np.array([0.5, 0.0]))
    survey = around.survey(some)
    rows = distances_to_locations(points, survey.locations)
    assert (survey.farthest >= rows.max(axis=1)).all()
    (mass, sums), (usual, (distance,)) = usual_sums(some.mass, rows[1:]), usual_sums(some.mass, rows[:1])
    assert_allclose(survey.factors, mass / sums, rtol=0.05)
    assert_allclose([survey.mass, survey.distance], [usual, distance], rtol=0.05)
    # A node that may dominate a sum is not left to chance: then all are looked at.
    assert (survey.distance == pytest.approx(distance, rel=1e-12)) == (far > 0.0)


def test_typical_places_are_in_each_of_two_groups():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(255, 2)) + np.where(np.arange(255) < 200, 0.0, 1e9)[:, None]
    locations = typical_locations(points, 2)
    assert_array_equal(locations[0], np.median(points, axis=0))
    assert np.linalg.norm(locations[1] - 1e9) < 10.0
    assert_array_equal(typical_locations(np.ones((5, 2)), 3), np.ones((3, 2)))


@pytest.mark.parametrize(("weight", "factor"), [(1e9, 3.0), (1.0, 1e9)])
def test_a_node_that_carries_a_sum_does_not_say_what_is_far(weight, factor):
    points = np.random.default_rng(0).normal(size=(400, 2))
    plain = Nodes.from_points(points[1:])
    around = Surroundings(np.zeros(2))
    usual = around.after(around.survey(plain))
    points[0] = factor
    some = Nodes.from_points(points, np.r_[weight, np.ones(399)])
    survey = around.survey(some)
    found = around.after(survey)
    assert_allclose([found.mass, found.distance], [usual.mass, usual.distance], rtol=0.1)
    sizes = found.sizes(some, survey)
    assert sizes[0] > 1e6 * sizes[1:].max()


def test_where_only_few_nodes_have_a_distance_they_do_say_it():
    points = np.zeros((400, 2))
    points[:2] = 5.0
    some = Nodes.from_points(points)
    around = Surroundings(np.zeros(2))
    survey = around.survey(some)
    found = around.after(survey)
    assert found.distance == pytest.approx(2 * math.hypot(5.0, 5.0))
    assert (found.sizes(some, survey)[:2] > 100.0).all()


@pytest.mark.parametrize("far", [1.0, 10.0, 1e6])
def test_nodes_that_cannot_be_in_it_are_not_looked_at(far, monkeypatch):
    points = np.random.default_rng(0).normal(size=(3000, 2))
    points[1501] = far  # not among those of which typical locations are made
    some, numbers = Nodes.from_points(points), uniforms(3000)
    around, whole, part, n_looked_at = Surroundings(np.zeros(2)), AuditSample(limit=N), AuditSample(limit=N), 0
    sizes = Surroundings.sizes

    def count(self, leaf, survey, index=None):
        nonlocal n_looked_at
        n_looked_at += len(leaf if index is None else index)
        return sizes(self, leaf, survey, index)

    for start in range(0, 3000, 300):
        leaf, of_leaf = some[start : start + 300], numbers[start : start + 300]
        survey = around.survey(leaf)
        around = around.after(survey)
        if start == 1500:  # the farthest node is only just in the sample, and no other one
            of_leaf[:] = 1.0
            of_leaf[1] = min(1.0, 0.999 * whole.threshold * around.sizes(leaf, survey)[1])
        whole = whole.added(leaf, of_leaf, around.sizes(leaf, survey))
        with monkeypatch.context() as patch:
            patch.setattr(Surroundings, "sizes", count)
            part = part.joined(part.candidates(leaf, of_leaf, survey, around))
        assert_same(part, whole)
    assert 300 < n_looked_at < 1500


# -- joining ----------------------------------------------------------------------------------------------------------


def parts_of(some, numbers, borders):
    """Samples of consecutive parts of the nodes."""
    borders = sorted({0, len(some), *borders})
    return [sample_of(some[a:b], numbers[a:b]) for a, b in pairwise(borders)]


@given(st.lists(st.integers(0, 150), max_size=6), st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_parts_join_to_the_sample_of_all_in_any_order_and_grouping(borders, random, certain, large):
    some = uncertain(150, m=1 if certain else 3)
    numbers = uniforms(150)
    parts = parts_of(some, numbers, borders)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audits, "MAX_COPIED_TWICE", 0 if large else 1 << 14)
        while len(parts) > 1:
            parts = random.sample(parts, len(parts))
            parts = [parts[0].joined(parts[1]), *parts[2:]]
    assert_same(parts[0], sample_of(some, numbers))


def test_what_is_above_the_threshold_so_far_need_not_be_looked_at():
    some, numbers = uncertain(), uniforms(400)

    def add(sample, start):
        part = slice(start, start + 50)
        return sample.added(some[part], numbers[part])

    assert_same(reduce(add, range(0, 400, 50), AuditSample(limit=N)), sample_of(some, numbers))


def test_many_parts_join_at_once():
    some, numbers = uncertain(), uniforms(400)
    first, *others = parts_of(some, numbers, [3, 50, 200, 230])
    assert_same(first.joined(AuditSample(limit=N), *others), sample_of(some, numbers))
    assert_same(first.joined(), first)


def test_a_few_candidates_wait_until_the_sample_is_looked_at():
    some, numbers = uncertain(least_weight=1), uniforms(400)
    parts = parts_of(some, numbers, [2, 5, 5, 9, 200, 203])
    grown = GrowingSample(AuditSample(limit=N))
    waiting = []
    for part in parts:
        grown = grown.plus(AuditSample(limit=N), part)
        waiting.append(grown.n_candidates)
    assert waiting == [2, 5, 0, 0, 3, 0]  # at most a quarter of N
    assert_same(grown.joined(), sample_of(some, numbers))
    assert grown.plus() is grown


def test_an_empty_sample_joins_to_the_other():
    sample = sample_of(uncertain(), uniforms(400))
    assert_same(sample.joined(AuditSample(limit=N)), sample)
    assert_same(AuditSample(limit=N).joined(sample), sample)
    assert AuditSample(limit=N).joined(AuditSample(limit=N)).nodes is None


# -- estimates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [None, "by mass and location"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_estimate_matches_the_definition(dtype, sizes):
    some = uncertain(dtype=dtype)
    some = some.with_weights(np.where(np.arange(400) < 5, 100.0, some.weights))  # five above the threshold
    centers = random_centers(some, 3, 0)
    sample = sample_of(some, uniforms(400), None if sizes is None else some.mass * np.linspace(1.0, 5.0, 400))
    nearest = expected_distances(sample.nodes, centers).min(axis=1) / sample.nodes.total_probabilities
    values = nearest - certified_medians(sample.nodes, SPREAD_TOL)[1]
    lists = [values, sample.nodes.mass, sample.sizes, sample.keys]
    expected = naive.priority_estimate(*(numbers.tolist() for numbers in lists), N)
    assert_allclose(sample.excess(centers), expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 20])
def test_exact_while_all_nodes_are_there(n, dtype):
    some = uncertain(n, dtype=dtype).with_weights(np.arange(n) + 1.0)
    centers = random_centers(some, 2, 1)
    estimate, error = sample_of(some, uniforms(n)).excess(centers)
    assert_allclose(estimate, true_excess(some, centers), rtol=1e-9, atol=1e-9)
    assert error == 0.0


def test_one_node_more_and_it_is_an_estimate():
    some = uncertain(21).with_weights(np.ones(21))
    assert sample_of(some, uniforms(21)).excess(random_centers(some, 2, 1))[1] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["alike", "a few heavy ones", "certain"])
def test_estimates_are_unbiased_and_errors_honest(kind):
    some = uncertain(seed=1, k=2, scale=2.0, m=1 if kind == "certain" else 4)
    if kind == "a few heavy ones":
        some = some.with_weights(np.where(np.arange(400) < 8, 100.0, some.weights))
    centers = random_centers(some, 2, 2)
    true = true_excess(some, centers)
    n_seeds = 400
    found = np.array([sample_of(some, uniforms(400, seed)).excess(centers) for seed in range(n_seeds)])
    estimates, errors = found.T
    # Right code is red for one choice of seeds in 15,000.
    assert abs(estimates.mean() - true) <= 4.0 * estimates.std(ddof=1) / math.sqrt(n_seeds)
    # A variance of 400 numbers is off by 30 % once in 20,000 times.
    assert_allclose((errors**2).mean() / estimates.var(ddof=1), 1.0, atol=0.3)
    # 95 % for a normal distribution; with 20 nodes, 93 % is what the error of the error leaves.
    assert (np.abs(estimates - true) <= 2.0 * errors).mean() >= 0.9


def test_samples_of_different_limits_join_to_the_smaller_one():
    some, numbers = uncertain(), uniforms(400)
    small, large = (
        AuditSample(limit=limit).added(some[a:b], numbers[a:b]) for limit, a, b in ((N, 0, 9), (90, 9, 400))
    )
    assert_same(small.joined(large), sample_of(some, numbers))
    assert_same(large.joined(small), sample_of(some, numbers))
    assert_same(large.joined(AuditSample(limit=N)), sample_of(some[9:], numbers[9:]))


# -- other weights ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.25, 8.0])
def test_scaled_is_the_sample_of_scaled_nodes(factor):
    some, centers = uncertain(), np.zeros((1, 3))
    sample = sample_of(some, uniforms(400))
    scaled = sample.scaled(factor)
    assert_same(scaled, sample_of(some.with_weights(factor * some.weights), uniforms(400)))
    assert_allclose(scaled.excess(centers), factor * np.array(sample.excess(centers)), rtol=1e-12)
    assert AuditSample(limit=N).scaled(factor).nodes is None


def test_the_input_is_not_modified():
    some, numbers = uncertain(), uniforms(400)
    sample_of(some, numbers).excess(np.zeros((1, 3)))
    assert some == uncertain()
    assert_array_equal(numbers, uniforms(400))
