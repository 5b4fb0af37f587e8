"""What Nodes compute once: mass, centers of gravity, variances; and how work is cut into pieces."""

import threading
import time

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import STATISTICS, as_lists, assert_same_statistics, three
from strategies import build, coordinates, nodes

from probi import Nodes, _parallel

# -- statistics ---------------------------------------------------------------------------------------------------


@given(nodes(), st.sampled_from([np.float32, np.float64]), st.data())
def test_statistics_match_the_definition(some, dtype, data):
    weights = data.draw(st.lists(st.floats(0, 10), min_size=len(some), max_size=len(some)))
    built = build(some, weights, dtype)
    stored = as_lists(built)  # float32 is rounded once, when it is stored; all sums are float64
    assert_allclose(built.total_probabilities, [naive.total_probability(node) for node in stored], rtol=1e-12)
    masses = [w * naive.total_probability(node) for w, node in zip(weights, stored, strict=True)]
    assert_allclose(built.mass, masses, rtol=1e-12)
    assert_allclose(built.gravity_centers, [naive.gravity_center(node) for node in stored], rtol=1e-12, atol=1e-12)
    assert_allclose(built.variances, [naive.variance(node) for node in stored], rtol=1e-12, atol=1e-12)
    assert_allclose(built._squared_radii, [naive.squared_radius(node) for node in stored], rtol=1e-12, atol=1e-12)


@given(nodes())
def test_splitting_a_realization_changes_nothing(some):
    whole = build(some)
    split = build([[(x, p / 2) for x, p in node for _ in range(2)] for node in some])  # the same distributions
    assert_allclose(split.mass, whole.mass, rtol=1e-12)
    assert_allclose(split.gravity_centers, whole.gravity_centers, rtol=1e-12, atol=1e-12)
    assert_allclose(split.variances, whole.variances, rtol=1e-12, atol=1e-12)


@given(st.lists(st.lists(st.integers(-800, 800).map(lambda x: x / 8), min_size=2, max_size=6), min_size=1, max_size=5))
def test_moving_far_away_changes_no_variance(places):
    # Multiples of 1/8 move by 1e6 without rounding: what changes is the kernel's doing.
    near = build([[((x, -x), 1 / (len(node) + 1)) for x in [*node, 200.0]] for node in places])
    far = Nodes(near.points + 1e6, near.probabilities, near.offsets)
    assert (near.variances > 0).all()
    assert_allclose(far.variances, near.variances, rtol=1e-9)
    assert_allclose(far.gravity_centers, near.gravity_centers + 1e6, rtol=1e-15)


@given(st.lists(coordinates, min_size=1, max_size=5), st.floats(0.01, 1.0))
def test_certain_nodes_are_their_own_gravity_centers(places, present):
    points = np.array(places)[:, None]
    for some in (Nodes.from_points(points), Nodes(points, np.full(len(points), present), np.arange(len(points) + 1))):
        assert some.is_certain
        assert some.gravity_centers is some.points
        assert_array_equal(some.variances, np.zeros(len(points)))


def test_a_realization_that_never_happens_changes_nothing():
    some = Nodes([[0.0], [50.0], [2.0]], [0.5, 0.0, 0.5], [0, 3])
    assert_array_equal(some.gravity_centers, [[1]])
    assert_array_equal(some.variances, [1])


def test_statistics_are_computed_once():
    some = three()
    for name in STATISTICS:
        assert getattr(some, name) is getattr(some, name)


def test_statistics_are_computed_once_when_threads_ask_at_once():
    some = three()
    together = threading.Barrier(8)
    computed, got = [], []

    def compute():
        time.sleep(0.02)  # long enough for the others to come
        computed.append(np.zeros(3))
        return computed[-1]

    def ask():
        together.wait(20)
        got.append((some.statistic("slow", compute), some.gravity_centers, some.variances, some.mass))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(computed) == 1
    assert len(got) == 8
    assert all(one is first for mine in got for one, first in zip(mine, got[0], strict=True))


def test_a_statistic_that_failed_is_computed_again():
    some = three()
    with pytest.raises(ZeroDivisionError):
        some.statistic("ratio", lambda: 1 / 0)
    assert some.statistic("ratio", lambda: 5) == 5


def test_parts_carry_what_was_computed():
    whole = three()
    never = pytest.fail
    pair = whole.statistic("pair", lambda: (np.arange(3), np.arange(6).reshape(3, 2)))
    assert_same_statistics(whole, whole)
    for part, index in [(whole[1:], [1, 2]), (whole.take([2, 0]), [2, 0]), (whole[::2], [0, 2])]:
        for name in STATISTICS:
            assert_array_equal(getattr(part, name), getattr(whole, name)[index])
        for carried, computed in zip(part.statistic("pair", never), pair, strict=True):
            assert_array_equal(carried, computed[index])
    joined = Nodes.concat([whole[1:], whole[:1]])
    assert_array_equal(joined.statistic("pair", never)[0], [1, 2, 0])
    assert_array_equal(whole.with_weights([1, 1, 1]).statistic("pair", never)[1], pair[1])


@pytest.mark.slow
@given(nodes(min_size=2), st.data())
def test_carried_statistics_are_those_computed_afresh(some, data):
    cut = data.draw(st.integers(0, len(some)))
    computed, fresh = build(some), build(some)
    assert_same_statistics(computed, computed)
    assert_same_statistics(computed[cut:], fresh[cut:])
    assert_same_statistics(computed.take([0, -1]), fresh.take([0, -1]))
    # One part knows its statistics and the other does not: what is missing is computed.
    assert_same_statistics(Nodes.concat([computed[:cut], fresh[cut:]]), fresh)


def test_a_part_is_cut_while_another_thread_computes():
    whole = three()

    class Slow:
        """A statistic that takes so long to cut that another thread adds one meanwhile."""

        def __getitem__(self, key):
            thread = threading.Thread(target=whole.statistic, args=("another", lambda: np.zeros(3)))
            thread.start()
            thread.join(0.2)  # it may have to wait until the cut is done
            return self

    whole.statistic("slow", Slow)
    assert whole[1:] == three()[1:]


# -- pieces -------------------------------------------------------------------------------------------------------


def covered(pieces):
    return [node for start, stop in pieces for node in range(start, stop)]


@given(nodes(max_size=12), st.integers(1, 60), st.one_of(st.none(), st.integers(1, 4)))
def test_pieces_cover_all_nodes_once_in_order(some, grain, at_most):
    built = build(some)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_parallel, "GRAIN", grain)
        pieces = built.pieces(at_most)
    assert covered(pieces) == list(range(len(some)))
    assert all(start < stop for start, stop in pieces)
    if at_most is not None:
        assert len(pieces) <= at_most


@given(nodes(max_size=12), st.integers(1, 60))
def test_pieces_are_about_equal(some, grain):
    built = build(some)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_parallel, "GRAIN", grain)
        pieces = built.pieces()
    for start, stop in pieces:
        # A realization or the start of a node is one row of work; the first node of a piece may be of any size.
        rows = built.offsets[stop] - built.offsets[start + 1] + stop - (start + 1)
        assert rows * built.n_features <= grain


def test_pieces_of_one_huge_node_between_small_ones():
    huge = 4 * _parallel.GRAIN
    sizes = [2, 2, 2, huge, 2, 2, 2]
    offsets = np.cumsum([0, *sizes])
    some = Nodes(np.zeros((offsets[-1], 1)), None, offsets)
    assert covered(some.pieces()) == list(range(7))
    assert covered(some.pieces(2)) == list(range(7))
    assert len(some.pieces()) > 1


def test_no_nodes_have_no_pieces():
    assert three()[:0].pieces() == []


def test_more_work_has_more_pieces():
    assert len(three().pieces()) == 1
    assert len(Nodes.from_points(np.zeros((_parallel.GRAIN, 2))).pieces()) == 4


def test_pieces_and_statistics_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(_parallel, "GRAIN", 64)
    some = Nodes.from_dense(np.random.default_rng(3).normal(size=(200, 3, 2)))
    pieces, variances, gravity = some.pieces(), some.variances, some.gravity_centers
    assert len(pieces) > 7
    for n_jobs in (1, 2, 3, 7):
        with _parallel.limited(n_jobs):
            again = Nodes(some.points, some.probabilities, some.offsets)
            assert again.pieces() == pieces
            assert_array_equal(again.variances, variances)
            assert_array_equal(again.gravity_centers, gravity)
    monkeypatch.setenv("PROBI_NUM_THREADS", "1")
    assert some.pieces() == pieces
