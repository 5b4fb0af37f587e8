"""Where leaves end: by nodes or coordinates, whatever the batches and threads are."""

import functools
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import certain, uncertain
from strategies import examples

from probi import Nodes, Summary, _parallel, expected_cost
from probi.summary.config import SummaryConfig


def limited(leaf_coordinates=60, **options):
    """Empty summary with short leaves: of 12 nodes and 60 coordinates, 32 nodes and 15 coordinates, or 64 nodes."""
    return Summary.from_config(SummaryConfig(2, 8, leaf_coordinates=leaf_coordinates, **options))


def leaf_sizes(summary, some, step):
    """Nodes of each leaf, as they are digested."""
    sizes, before = [], 0
    for start in range(0, len(some), step):
        summary.update(some[start : start + step])
        (stream,) = summary._streams
        if stream.n_digested > before:
            sizes.append(stream.n_digested - before)
            before = stream.n_digested
    return sizes, stream


@examples(12)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([1, 2, 12]))
def test_ends_match_the_definition(seed, d, most):
    sizes = np.random.default_rng(seed).integers(1, most + 1, 200).tolist()
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    some = Nodes(np.zeros((offsets[-1], d)), None, offsets)
    expected = naive.leaf_ends([d * size for size in sizes], 64, [(12, 61), (32, 15)])
    summary = limited(61)
    assert summary._streams[0]._leaf_ends(some) == expected
    found, stream = leaf_sizes(summary, some, 1)
    assert np.cumsum(found).tolist() == expected
    assert stream.leaf_number == len(expected)


@pytest.mark.parametrize(
    ("leaf_coordinates", "d", "expected"),
    [(0, 2, 64), (10**6, 2, 64), (320, 2, 40), (150, 2, 32), (100, 4, 25), (60, 2, 30), (32, 2, 16), (1, 2, 12)],
)
def test_leaves_of_plain_points(leaf_coordinates, d, expected):
    some = Nodes.from_points(np.random.default_rng(0).normal(size=(200, d)))
    sizes, _ = leaf_sizes(limited(leaf_coordinates), some, 1)
    assert sizes == [expected] * (200 // expected)
    assert limited(leaf_coordinates)._streams[0]._leaf_ends(some) == np.cumsum(sizes).tolist()


@pytest.mark.parametrize(("leaf_coordinates", "expected"), [(0, 512), (6400, 200), (1600, 128), (320, 64)])
def test_leaves_of_64_times_the_size_need_few_coordinates(leaf_coordinates, expected):
    some = Nodes.from_points(np.zeros((600, 2)))
    assert limited(leaf_coordinates, leaf=512)._streams[0]._leaf_ends(some)[0] == expected


def fed(some, cuts=(), n_jobs=1, **options):
    summary = limited(**options)
    borders = sorted({0, len(some), *cuts})
    with _parallel.limited(n_jobs):
        for start, stop in pairwise(borders):
            summary.update(some[start:stop])
    return summary


@functools.cache
def fed_at_once(kind):
    whole = fed(kind(400))
    assert whole._streams[0].leaf_number > 400 // 64
    return whole.to_bytes()


@pytest.mark.slow
@examples(12)
@given(st.lists(st.integers(0, 400), max_size=8), st.sampled_from([1, 2, 5]), st.sampled_from([certain, uncertain]))
def test_batches_and_threads_do_not_matter(cuts, n_jobs, kind):
    assert fed(kind(400), cuts, n_jobs).to_bytes() == fed_at_once(kind)


def test_thinned_nodes_count_by_what_is_left():
    some = Nodes.from_dense(np.random.default_rng(0).normal(size=(100, 12, 2)))
    assert leaf_sizes(limited(), some, 1)[0] == [12] * 8
    assert leaf_sizes(limited(max_realizations=1), some, 1)[0] == [30] * 3
    assert fed(some, [7, 50], max_realizations=2).to_bytes() == fed(some, max_realizations=2).to_bytes()


@pytest.mark.slow
def test_a_file_goes_on_where_it_stopped():
    some = uncertain(700)
    whole, stopped = fed(some), limited()
    for start in range(0, 700, 90):
        stopped.update(some[start : start + 90])
        stopped = Summary.from_bytes(stopped.to_bytes())
    assert stopped.to_bytes() == whole.to_bytes()


def test_a_sealed_stream_counts_on():
    some = uncertain(300)
    summary = fed(some[:105])
    number = summary._streams[0].leaf_number
    sealed = summary.sealed()
    (stream,) = sealed._streams
    assert stream.leaf_number == stream.seal.leaf == number + 1  # the buffer was a leaf
    sealed.update(some[105:])
    assert Summary.from_bytes(sealed.to_bytes()).to_bytes() == sealed.to_bytes()


def test_large_nodes_leave_one_coreset_per_level():
    some = Nodes.from_dense(np.random.default_rng(0).normal(size=(40 * 12, 3, 2)))
    levels = fed(some, leaf_coordinates=12)._streams[0].levels
    assert [[len(coreset) for coreset in level] for level in levels] == [[8], [8]]
    # Sixteen leaves joined twice, then eight.
    masses = [float(coreset.mass.sum()) for level in levels for coreset in level]
    assert masses == pytest.approx([8 * 12, 32 * 12])


def test_from_the_third_level_on_there_is_one_coreset():
    some = Nodes.from_points(np.random.default_rng(0).normal(size=(64 * 4 * 4 * 7, 2)))
    levels = fed(some, leaf_coordinates=0)._streams[0].levels
    assert [len(level) for level in levels] == [0, 0, 1, 1]
    masses = [float(coreset.mass.sum()) for level in levels for coreset in level]
    assert masses == pytest.approx([3 * 16 * 64, 4 * 16 * 64])


@pytest.mark.slow
def test_costs_are_as_near_with_short_leaves():
    some = uncertain(260)  # four leaves and a few nodes, or 21 short leaves
    centers = np.array([[0.0, 0.0], [45.0, 40.0], [90.0, 80.0]])
    true = expected_cost(some, centers)
    coresets = [
        [fed(some, leaf_coordinates=coordinates, seed=seed).coreset() for seed in range(30)] for coordinates in (0, 60)
    ]
    for coreset in coresets[1]:
        assert coreset.mass.sum() == pytest.approx(some.mass.sum(), rel=1e-9)
    costs = [[expected_cost(coreset, centers) for coreset in of_leaves] for of_leaves in coresets]
    long, short = np.sqrt(((np.array(costs) / true - 1) ** 2).mean(axis=1))
    # Root mean squares of 30 numbers differ by a factor of 2 once in 10,000 times.
    assert short < 2.0 * long
