"""Ids that have been: against a set of Python, and in bounded memory."""

import json
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probi.io.recent_ids import RecentIds


def naive(batches):
    """Which ids have been before, or stand twice in their batch; the first of those does not count."""
    seen = set()
    for batch in batches:
        back = []
        for id in batch:
            back.append(id in seen)
            seen.add(id)
        yield back


COMPOSITE = [("u", "int64"), ("v", object)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda ids: np.array(ids, np.int64),
        lambda ids: np.array(ids, np.int64).astype(np.uint64),
        lambda ids: np.array([f"{i}é" for i in ids], object),
        lambda ids: np.array([str(i).encode() for i in ids], object),
        lambda ids: np.array(ids, np.float64) / 4,
        lambda ids: np.datetime64("1970-01-01") + np.array(ids, np.int64),
        lambda ids: np.array([(i // 2, f"{i % 2}") for i in ids], COMPOSITE),
        lambda ids: np.array([(i, i) for i in ids], [("u", "int64"), ("v", "int32")]),
    ],
)
@given(batches=st.lists(st.lists(st.integers(-9, 9), max_size=8), max_size=8))
def test_the_same_as_a_set(make, batches):
    seen = RecentIds()
    for batch, back in zip(batches, naive(batches), strict=True):
        seen = RecentIds.from_json(json.loads(json.dumps(seen.to_json())))  # as after a stop
        before = seen.copy()
        assert seen.seen_before(make(batch)).tolist() == back
        assert before.seen_before(make(batch)).tolist() == back


def test_no_two_of_many_ids_are_taken_for_one():
    """Python's hash of -1 is that of -2, also in tuples."""
    u, v = (part.ravel() for part in np.mgrid[-200:200, -200:200])
    pairs = np.empty(len(u), [("u", "int64"), ("v", "int64")])
    pairs["u"], pairs["v"] = u, v
    assert not RecentIds().seen_before(pairs).any()
    assert not RecentIds().seen_before(np.arange(-1000, 1000) / 2).any()
    assert not RecentIds().seen_before(np.array([Decimal(-1), Decimal(-2)])).any()
    assert RecentIds().seen_before(np.array([0.0, -0.0])).tolist() == [False, True]


def test_memory_is_bounded_and_the_oldest_are_forgotten():
    most = 1 << 12
    seen = RecentIds(most)
    for start in range(0, 40 * most, 100):
        assert not seen.seen_before(np.arange(start, start + 100)).any()
        assert sum(map(len, seen._runs)) <= most
        assert len(seen._runs) < 40
    last = 40 * most - (40 * most) % 100
    recent = np.arange(last - most // 2, last)
    assert seen.seen_before(recent[:100]).all()
    assert not seen.seen_before(np.arange(100)).any()


@pytest.mark.process
def test_ids_are_known_in_another_process():
    """Python's own hashes of texts are others in each process."""
    ids = "np.array(['a', 'bc', 'c', '', 'b\\0', 'b', '\\udcff', b'x', 2.5], object)"
    code = (
        "import numpy as np; from probi.io.recent_ids import RecentIds; recent = RecentIds(); "
        f"recent.seen_before({ids}); print(recent.to_json())"
    )
    ran = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)]
    assert ran[0] == ran[1]


@pytest.mark.slow
def test_no_two_of_many_texts_are_taken_for_one():
    assert not RecentIds().seen_before(np.array([f"{i}-{j}" for i in range(500) for j in range(500)], object)).any()
    assert not RecentIds().seen_before(np.array(["a", "aa", "aaa", "", "ab", "ba"], object)).any()


def test_many_ids_take_little_room():
    seen = RecentIds()
    seen.seen_before(np.arange(1_000_000) * 3)
    assert len(json.dumps(seen.to_json())) < 100_000
    seen.seen_before(np.random.default_rng(0).integers(-(2**62), 2**62, 100_000))
    assert len(json.dumps(seen.to_json())) < 1_100_000


def test_ids_are_not_changed():
    ids = np.array([3, 1, 2])
    RecentIds().seen_before(ids)
    assert ids.tolist() == [3, 1, 2]
