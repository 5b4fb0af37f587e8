"""The buffer of a stream: copies of nodes in arrays that grow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from samples import certain, uncertain
from strategies import build, nodes

from probi import Nodes
from probi.summary.buffer import Buffer


def filled(parts):
    buffer = Buffer()
    for part in parts:
        buffer.append(part)
    return buffer


def test_an_empty_buffer_has_no_nodes():
    assert len(Buffer()) == 0
    assert len(Buffer.of(certain(3)[:0])) == 0


@pytest.mark.slow
@given(st.lists(nodes(dimension=2, min_size=0, max_size=4), min_size=1, max_size=8), st.sampled_from("fd"))
def test_nodes_come_out_as_they_went_in(parts, dtype):
    parts = [build(part, [float(i) for i in range(len(part))], dtype) for part in parts if part]
    buffer = filled(parts)
    assert len(buffer) == sum(len(part) for part in parts)
    if parts:
        assert buffer.form == (2, np.dtype(dtype), None)
        assert buffer.nodes() == Nodes.concat(parts)
        assert_array_equal(buffer.nodes().total_probabilities, Nodes.concat(parts).total_probabilities)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_buffers_join_whatever_their_nodes_were_given_with(dtype):
    plain = certain(5, dtype=dtype)
    parts = [Nodes.from_points(plain.points), uncertain(4, dtype=dtype), plain.with_weights(np.arange(5.0))]
    for some in (parts, parts[::-1], parts[:1]):
        joined = Buffer.joined([filled([part]) for part in some])
        assert (joined.form, joined.n_realizations) == (filled(some).form, filled(some).n_realizations)
        assert joined.nodes() == filled(some).nodes()
        assert joined.nodes().magnitude == filled(some).nodes().magnitude
        assert joined.nodes().probabilities.dtype == dtype


@pytest.mark.parametrize("step", [1, 7, 16, 100])
def test_the_split_does_not_matter(step):
    some = uncertain(333)
    assert filled([some[start : start + step] for start in range(0, len(some), step)]).nodes() == some


def test_what_the_caller_does_with_its_arrays_afterwards_does_not_matter():
    X, weights = np.ones((2, 3, 2)), np.ones(2)
    buffer = filled([Nodes.from_dense(X, weights=weights)])
    X[:], weights[:] = 7.0, 7.0
    assert buffer.nodes() == Nodes.from_dense(np.ones((2, 3, 2)))


def test_what_was_taken_out_stays_as_it_is_and_cannot_be_written_to():
    some = uncertain(40)
    buffer = Buffer.of(some[:5])
    kept = buffer.nodes()
    buffer.append(some[5:7])  # there is room
    buffer.append(some[7:])  # there is none
    assert kept == some[:5]
    with pytest.raises(ValueError, match="read-only"):
        kept.points[:] = 0.0


def test_the_magnitude_is_that_of_the_nodes_not_of_free_places():
    buffer = Buffer.of(Nodes.from_points([[1.0, -3.0]]))
    buffer._arrays["points"][1:] = 1e9
    assert buffer.nodes().magnitude == 3.0


def test_ids_come_out_as_they_went_in():
    some = Nodes.from_points(certain(40).points, ids=np.array([f"n{i}" for i in range(40)], object))
    buffer = filled([some[i : i + 1] for i in range(40)])
    assert buffer.form == (2, np.float64, "object")
    assert buffer.nodes() == some


def test_the_first_nodes_say_which_dtype_and_how_many_features():
    buffer = Buffer()
    buffer.append(certain(3, d=5, dtype=np.float32))
    assert buffer.form == (5, np.dtype(np.float32), None)
    assert buffer.nodes().points.dtype == buffer.nodes().probabilities.dtype == np.float32


def test_arrays_grow_seldom():
    some, buffer, seen = uncertain(2000), Buffer(), []
    for i in range(2000):
        buffer.append(some[i : i + 1])
        if not any(buffer._arrays["points"] is points for points in seen):
            seen.append(buffer._arrays["points"])
    assert len(buffer) == 2000
    assert len(seen) < 20


@pytest.mark.parametrize("n_before", [0, 1, 2])
def test_without_memory_to_grow_nothing_changes(monkeypatch, n_before):
    some = uncertain(40)
    buffer = Buffer.of(some[:10])
    room, calls = Buffer._room, []

    def no_memory(self, *arguments):
        calls.append(arguments)
        if len(calls) > n_before:
            raise MemoryError
        return room(self, *arguments)

    monkeypatch.setattr(Buffer, "_room", no_memory)
    with pytest.raises(MemoryError):
        buffer.append(some[10:])
    assert buffer.nodes() == some[:10]
    monkeypatch.undo()
    buffer.append(some[10:])
    assert buffer.nodes() == some


@pytest.mark.parametrize("make", [certain, uncertain])
def test_nodes_that_follow_are_not_in_it(make):
    some = make(40)
    buffer = Buffer.of(some[:10])
    assert buffer.followed_by(some[10:33]) == some[:33]
    assert buffer.nodes() == some[:10]
    buffer.append(some[10:20])
    assert buffer.nodes() == some[:20]
    assert buffer.n_realizations == some[:20].n_realizations


def test_large_arrays_have_room_for_what_is_expected(monkeypatch):
    monkeypatch.setattr("probi.summary.buffer.LARGE", 100)
    some = uncertain(1000)
    buffer = Buffer()
    buffer.expect(1000, some.n_realizations)
    buffer.append(some[:20])
    arrays = dict(buffer._arrays)
    buffer.append(some[20:])
    assert all(buffer._arrays[name] is array for name, array in arrays.items())
    assert buffer.nodes() == some


def test_certain_nodes_take_no_more_than_their_points_until_others_come():
    points, weighted = Nodes.from_points(certain(40).points), certain(3, seed=1)
    buffer = filled([points[:25], points[25:]])
    assert list(buffer._arrays) == ["points"]
    buffer.append(weighted)
    assert set(buffer._arrays) == {"points", "weights"}
    buffer.append(uncertain(5))
    buffer.append(points[:2])
    assert buffer.nodes() == Nodes.concat([points, weighted, uncertain(5), points[:2]])
    assert_array_equal(buffer.nodes().total_probabilities[:43], 1.0)


@pytest.mark.parametrize("make", [certain, uncertain])
def test_a_copy_shares_memory_until_it_grows_and_neither_sees_what_the_other_adds(make):
    some = make(40)
    buffer = Buffer.of(some[:10])
    copy = buffer.copy()
    assert np.shares_memory(copy.nodes().points, buffer.nodes().points)
    buffer.append(some[10:12])  # there is room, behind the nodes they share
    copy.append(some[20:22])
    assert buffer.nodes() == some[:12]
    assert copy.nodes() == Nodes.concat([some[:10], some[20:22]])
    assert copy.n_realizations == copy.nodes().n_realizations
