"""The paper's reduce: buckets, draws and Kumar's medians."""

from types import SimpleNamespace

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import ARRAYS, coreset_costs, numbered, random_centers
from scipy.special import chdtri

from probi import Nodes, _parallel, expected_cost, expected_distances, one_medians
from probi.coreset import paper
from probi.coreset.paper import PAPER_MEDIANS, buckets, kumar_medians, reduce
from probi.medians import paper_medians

# Statistical tests have fixed seeds: right code would be red for one choice of them in 10,000.
STANDARD_ERRORS, ERROR_RATE = 4.0, 1e-4


def uncertain(n=1000, **options):
    return numbered(n, **options)


@pytest.fixture
def reduced(monkeypatch):
    """Reduce, and look at the buckets on the way: coreset, bucket of each node, number of buckets."""
    seen = SimpleNamespace()

    def look(*arguments):
        seen.bucket_of, seen.n_buckets = buckets(*arguments)
        return seen.bucket_of, seen.n_buckets

    monkeypatch.setattr(paper, "buckets", look)

    def run(some, size, k, seed=0):
        coreset = reduce([some], size, k, np.random.default_rng(seed))
        return coreset, seen.bucket_of, seen.n_buckets

    return run


# -- buckets ----------------------------------------------------------------------------------------------------------


def check_buckets(labels, distances, spreads, mass):
    """Numbers of buckets name the same classes as the definition, and follow each other without a gap."""
    numbers, n_buckets = buckets(
        np.array(labels, np.int32), np.array(distances), np.array(spreads), np.array(mass)
    )  # fmt: skip
    expected = naive.ring_buckets(labels, distances, spreads, mass)
    assert n_buckets == len(set(expected))
    assert sorted(set(numbers.tolist())) == list(range(n_buckets))
    assert len(set(zip(numbers.tolist(), expected, strict=True))) == n_buckets


# Few binary digits: nothing is rounded, and distances and spreads often lie on the border of a ring.
lengths = st.one_of(st.integers(0, 32), st.sampled_from([2**i for i in range(12)])).map(lambda x: x / 16)


@given(st.lists(st.tuples(st.integers(0, 2), lengths, lengths, st.integers(1, 4).map(float)), min_size=1, max_size=12))
def test_buckets_match_the_definition(some):
    check_buckets(*(list(column) for column in zip(*some, strict=True)))


@pytest.mark.parametrize("h", [0, 1, 2, 3])
@pytest.mark.parametrize("hair", [-1, 0, 1])
def test_borders_of_rings(h, hair):
    # The last node makes R = 1: distances and spreads sum to 8 times the number of nodes.
    at = 2.0**h * (1.0 + hair * 2.0**-40)
    mass = [1.0] * 6
    for distances, spreads in (([at, 0.5, 0, 0, 0, 0], [0] * 6), ([0] * 6, [at, 0.5, 0, 0, 0, 0])):
        rest = 48.0 - sum(distances) - sum(spreads)
        check_buckets([0] * 6, [*distances[:-1], rest], spreads, mass)


def test_distances_are_in_open_balls_and_spreads_may_lie_on_the_border():
    # Four nodes whose distances and spreads sum to 8 * 4: R = 1.
    distances, spreads = np.array([0.0, 1.0, 0.0, 31.0]), np.zeros(4)
    numbers, n_buckets = buckets(np.zeros(4, np.int32), distances, spreads, np.full(4, 0.5))
    assert n_buckets == 3
    assert numbers[0] == numbers[2] != numbers[1]
    numbers, n_buckets = buckets(np.zeros(4, np.int32), spreads, distances, np.full(4, 0.5))
    assert n_buckets == 2
    assert numbers[0] == numbers[1] == numbers[2]


def test_without_any_cost_there_is_one_bucket_for_each_center():
    numbers, n_buckets = buckets(np.array([2, 0, 2, 0, 5], np.int32), np.zeros(5), np.zeros(5), np.ones(5))
    assert n_buckets == 3
    assert_array_equal(numbers, [1, 0, 1, 0, 2])


def test_rings_go_on_as_far_as_there_are_nodes():
    # Light nodes very far away, in rings 36 and 70: none is dropped, and no ring takes what lies beyond it.
    far, mass = [1.0, 1.0, 1e10, 1e20], [1.0, 1.0, 1e-30, 1e-30]
    check_buckets([0] * 4, far, [0.0] * 4, mass)
    check_buckets([0] * 4, [0.0] * 4, far, mass)


# -- draws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 16, 100, 500])
def test_each_bucket_gets_the_same_number_of_draws_and_keeps_its_mass(reduced, size):
    some = uncertain()
    for seed in range(5):
        coreset, bucket_of, n_buckets = reduced(some, size, 4, seed)
        n_draws = max(size // n_buckets, 1)
        masses = np.bincount(bucket_of, some.mass)
        times = coreset.mass / masses[bucket_of[coreset.ids]] * n_draws
        assert_allclose(times, np.round(times), atol=1e-9)
        assert times.min() > 0.5
        assert_array_equal(np.bincount(bucket_of[coreset.ids], np.round(times)), np.full(n_buckets, n_draws))
        assert_allclose(np.bincount(bucket_of[coreset.ids], coreset.mass), masses, rtol=1e-12)
        assert len(np.unique(coreset.ids)) == len(coreset)  # drawn again: one node with the sum
    assert n_buckets > 8


def test_draws_go_by_mass():
    mass = np.array([1.0, 2.0, 4.0, 1.0, 3.0, 5.0])
    bucket_of = np.array([0, 1, 0, 1, 1, 0])
    chosen, masses = paper.draws(bucket_of, 2, 3000, mass, np.random.default_rng(0))
    assert_array_equal(chosen, np.arange(6))
    counts = masses / np.bincount(bucket_of, mass)[bucket_of] * 3000
    expected = 3000 * mass / np.bincount(bucket_of, mass)[bucket_of]
    assert ((counts - expected) ** 2 / expected).sum() < chdtri(4, ERROR_RATE)


def test_weights_are_for_nodes_that_may_be_absent(reduced):
    # Weight is mass / total probability: nodes that are there half of the time stand for twice as many.
    some = Nodes.from_points(np.zeros((50, 1)))
    rare = Nodes(some.points, np.full(50, 0.5), some.offsets, ids=np.arange(50))
    coreset, _, _ = reduced(rare, 10, 1)
    assert_allclose(coreset.weights.sum(), 50.0, rtol=1e-12)


@pytest.mark.slow
def test_costs_are_right_on_average():
    some = uncertain()
    rng = np.random.default_rng(9)
    centers = [*(random_centers(some, 4, seed) for seed in range(4)), some.points[rng.integers(0, 4000, 4)]]
    true = np.array([expected_cost(some, c) for c in centers])
    found = coreset_costs(reduce, some, 100, 4, centers, n_seeds=150)
    standard_errors = found.std(axis=0, ddof=1) / np.sqrt(150)
    assert (np.abs(found.mean(axis=0) - true) <= STANDARD_ERRORS * standard_errors).all()
    assert (standard_errors < 0.01 * true).all()


@pytest.mark.slow
def test_a_node_alone_in_its_bucket_is_never_lost(reduced):
    X = np.random.default_rng(1).normal(size=(3000, 2))
    X[7] = 1e4
    some = Nodes.from_points(X, ids=np.arange(3000))
    for seed in range(20):
        coreset, _, _ = reduced(some, 20, 2, seed)
        assert coreset.weights[coreset.ids == 7] == 1.0


def test_nodes_without_weight_are_never_drawn(reduced):
    some = uncertain(n=200)
    some = some.with_weights(np.where(np.arange(200) % 2, some.weights, 0.0))
    coreset, _, _ = reduced(some, 50, 4)
    assert (coreset.ids % 2 == 1).all()
    assert_allclose(coreset.mass.sum(), some.mass.sum(), rtol=1e-12)


@pytest.mark.parametrize("m", [1, 3])
def test_all_nodes_equal(m, reduced):
    some = Nodes.from_dense(np.full((60, m, 2), 7.0))
    coreset, _, n_buckets = reduced(some, 20, 5)
    assert n_buckets == 1
    assert_allclose(coreset.mass.sum(), 60.0, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_papers_medians_travel_with_the_nodes(dtype, reduced):
    some = uncertain(dtype=dtype)
    all_medians = paper._medians(some, np.random.default_rng(0))  # none of these is drawn
    coreset, _, _ = reduced(some, 100, 4)
    again, _, _ = reduced(coreset, 50, 4)
    for nodes in (coreset, again):
        for ours, theirs in zip(nodes.known(PAPER_MEDIANS), all_medians, strict=True):
            assert_array_equal(ours, theirs[nodes.ids])


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    found = []
    monkeypatch.setattr("probi._parallel.GRAIN", 1 << 10)
    for n_jobs in (1, 2, 3):
        with _parallel.limited(n_jobs):
            coreset = reduce([uncertain()], 100, 4, np.random.default_rng(0))
        found.append(b"".join(getattr(coreset, name).tobytes() for name in ARRAYS))
    assert found[0] == found[1] == found[2]


def test_the_input_is_not_modified():
    some = uncertain(n=200)
    before = {name: getattr(some, name).copy() for name in ARRAYS}
    reduce([some], 50, 4, np.random.default_rng(0))
    for name in ARRAYS:
        assert_array_equal(getattr(some, name), before[name])
    # Another thread takes nodes of a leaf for the audit sample meanwhile, with what is known of them.
    assert some.known(PAPER_MEDIANS) is None


# -- medians ----------------------------------------------------------------------------------------------------------


def kumar_ratios(some, seed):
    """Expected distance to Kumar's median, as multiple of the smallest."""
    places = kumar_medians(some, np.arange(len(some)), np.random.default_rng(seed))
    reached = np.array([expected_distances(v, y[None])[0, 0] for v, y in zip(some, places, strict=True)])
    return reached / some.total_probabilities / one_medians(some)[1]


def skewed(n, m, d, seed=0, dtype=np.float64):
    """Nodes with unequal probabilities, that sum to 0.9, and a median far from the mean."""
    rng = np.random.default_rng(seed)
    shares = rng.exponential(size=(n, m))
    X = np.round(1024 * rng.exponential(size=(n, m, d))) / 1024
    return Nodes.from_dense(X.astype(dtype), (0.9 * shares / shares.sum(axis=1, keepdims=True)).astype(dtype))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "dtype"), [(1, np.float64), (2, np.float32), (5, np.float64), (20, np.float32)])
def test_kumars_medians_are_within_the_papers_precision(d, dtype):
    some = skewed(100, 30, d, dtype=dtype)
    ratios = np.concatenate([kumar_ratios(some, seed) for seed in range(10)])
    assert ratios.min() >= 1.0 - 1e-6
    # The promise is 1 + 0.9 with a constant probability. Measured: one node in 3,000 above it, and 1.1 on average.
    assert (ratios > 1.9).mean() <= 0.003
    assert ratios.mean() < 1.15


def test_kumars_median_of_a_node_with_many_realizations():
    # Between small ones: draws must come from all of its own realizations and from no other's.
    rng = np.random.default_rng(2)
    sizes = np.array([3, 100_000, 5])
    X = rng.exponential(size=(sizes.sum(), 3)) + 100.0 * np.repeat([0, 1, 2], sizes)[:, None]
    some = Nodes(X, None, np.concatenate([[0], np.cumsum(sizes)]))
    for seed in range(20):
        ratios = kumar_ratios(some, seed)
        assert ratios[1] < 1.5
        assert ratios.max() < 3.0


def test_far_from_the_origin_kumars_medians_are_the_same():
    some = skewed(50, 20, 3)
    moved = Nodes(some.points + 1e6, some.probabilities, some.offsets)
    here, there = (kumar_medians(v, np.arange(50), np.random.default_rng(3)) for v in (some, moved))
    assert_allclose(there - 1e6, here, atol=1e-9)


def test_kumars_draws_go_by_probability():
    # One realization drawn decides between two heaps: the heap with nine tenths of the mass, but for one node in 50.
    X = np.concatenate([np.zeros((9, 1)), np.ones((1, 1)), np.full((5, 1), 1e6)])
    shares = np.concatenate([np.full(9, 0.01), [0.8], np.zeros(5)])
    some = Nodes(np.tile(X, (200, 1)), np.tile(shares, 200), np.arange(201) * 15)
    places = kumar_medians(some, np.arange(200), np.random.default_rng(4))
    assert (np.abs(places - 1.0) < 1e-12).mean() > 0.95
    assert places.max() <= 1.0  # a realization of probability 0 is never drawn


def test_kumars_medians_are_of_the_chosen_nodes():
    some = Nodes.from_dense(np.arange(10.0)[:, None, None] * np.ones((10, 4, 2)))
    assert_array_equal(kumar_medians(some, np.array([7, 2]), np.random.default_rng(0)), [[7.0, 7.0], [2.0, 2.0]])


CROSS = [[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]]  # its center of gravity is a realization


@pytest.fixture
def asked_kumar(monkeypatch):
    """Numbers of the nodes for which Kumar's algorithm was called."""
    asked = []

    def look(some, chosen, rng):
        asked.extend(chosen.tolist())
        return kumar_medians(some, chosen, rng)

    monkeypatch.setattr(paper, "kumar_medians", look)
    return asked


def test_a_node_with_one_realization_is_its_own_median_and_calls_nobody(asked_kumar):
    X = np.random.default_rng(5).normal(size=(40, 2))
    some = Nodes(X, np.full(40, 0.5), np.arange(41))
    medians, spreads = paper._medians(some, np.random.default_rng(0))
    assert asked_kumar == []
    assert_array_equal(medians, X)
    assert_array_equal(spreads, np.zeros(40))


@pytest.mark.slow
def test_kumar_is_called_where_weiszfeld_hits_a_realization_and_for_many_realizations(asked_kumar, monkeypatch):
    monkeypatch.setattr(paper, "SPARSE", 20)
    rng = np.random.default_rng(6)
    parts = [rng.normal(size=(n, 2)) for n in (1, 20, 21, 4)]
    sizes = [len(part) for part in [*parts, CROSS]]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    some = Nodes(np.concatenate([*parts, CROSS]), np.repeat(0.8 / np.array(sizes), sizes), offsets)
    medians, spreads = paper._medians(some, rng)
    assert asked_kumar == [2, 4]
    plain, plain_spreads, _ = paper_medians(some)
    assert_array_equal(medians[[0, 1, 3]], plain[[0, 1, 3]])
    assert_array_equal(spreads[[0, 1, 3]], plain_spreads[[0, 1, 3]])
    for i, v in enumerate(some):
        expected = expected_distances(v, medians[i : i + 1])[0, 0] / v.total_probabilities[0]
        assert_allclose(spreads[i], expected, rtol=1e-12, atol=1e-15)
