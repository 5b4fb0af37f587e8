"""Windows: which nodes count, that they count as in a plain summary, and that nothing else matters; and decay."""

import copy
import functools
import itertools
import json
import pickle
import threading
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from samples import certain, summarized, uncertain
from strategies import examples

from probi import InputError, Nodes, Summary, Window, expected_cost, solve
from probi.summary import file
from probi.summary.stream import ShardKey


def window(period=10, n_periods=3, **options):
    return Window(period, n_periods, **{"n_clusters": 2, "size": 8, "random_state": 0} | options)


def read(nodes, times, step=None, **options):
    """Window of nodes that come in batches of ``step``, or all at once."""
    found = window(**options)
    for start in range(0, len(nodes), step or max(1, len(nodes))):
        stop = start + step if step else len(nodes)
        found.update(nodes[start:stop], times[start:stop])
    return found


def in_order(n, n_periods_seen=7, seed=0, period=10):
    """Nodes and their times, which rise with some disorder."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, n_periods_seen * period, n)) - rng.exponential(period, n)
    return uncertain(n, seed=seed), times


def chosen_by_hand(times, period, n_periods, max_ahead=None):
    """For each node: whether it counts at the end, was late, was too far ahead; by the plain definition."""
    numbers = [time // period for time in times]
    max_ahead = n_periods if max_ahead is None else max_ahead
    late, ahead, latest = [], [], None
    for number in numbers:
        ahead.append(latest is not None and number > latest + max_ahead)
        if not ahead[-1]:
            latest = number if latest is None else max(latest, number)
        late.append(number <= latest - n_periods)
    counts = [number > latest - n_periods and not far for number, far in zip(numbers, ahead, strict=True)]
    return counts, late, ahead


# -- which nodes count ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@examples(60)
@given(
    st.lists(st.integers(-40, 90), min_size=1, max_size=40),
    st.integers(1, 12),
    st.integers(1, 5),
    st.lists(st.integers(1, 39), max_size=4),
    st.none() | st.integers(1, 30),
)
@pytest.mark.filterwarnings("ignore:Nodes more than")
def test_the_nodes_that_count(times, period, n_periods, cuts, max_ahead):
    points = np.arange(len(times), dtype=float)[:, None]
    found = Window(period, n_periods, n_clusters=1, random_state=0, max_ahead=max_ahead)
    borders = [0, *sorted({cut for cut in cuts if cut < len(times)}), len(times)]
    for start, stop in itertools.pairwise(borders):
        found.update(Nodes.from_points(points[start:stop]), times[start:stop])
    counts, late, ahead = chosen_by_hand(times, period, n_periods, max_ahead)
    assert sorted(found.summary().coreset().points[:, 0]) == points[counts][:, 0].tolist()
    assert (found.n_nodes, found.n_late, found.n_ahead) == (sum(counts), sum(late), sum(ahead))
    times = [time for time, far in zip(times, ahead, strict=True) if not far]
    counts = [count for count, far in zip(counts, ahead, strict=True) if not far]
    assert found.stop - found.start == n_periods * period
    assert found.stop - period <= max(times) < found.stop
    for last in range(1, n_periods + 1):
        n_last = sum(time >= found.stop - last * period for time in times)
        assert found.summary(last).n_nodes == n_last
    assert len(found._state.summaries) == len({t // period for t, c in zip(times, counts, strict=True) if c})


def test_a_gap_drops_what_is_before_it():
    found = window(max_ahead=10**9)
    found.update(uncertain(30), 5)
    found.update(uncertain(20), 15)
    found.update(uncertain(10), 10_000)
    assert found.n_nodes == 10
    assert (found.start, found.stop) == (9_980, 10_010)
    found.update(uncertain(4), 9_985)
    assert (found.n_nodes, found.n_late) == (14, 0)
    found.update(uncertain(7), 9_979)
    assert (found.n_nodes, found.n_late) == (14, 7)


def test_a_clock_from_the_far_future_does_not_empty_the_window():
    found = window()
    found.update(uncertain(30), 5)
    found.update(uncertain(20), 15)
    before = found.to_bytes()
    with pytest.warns(UserWarning, match=r"more than 3 periods ahead .* call advance"):
        found.update(uncertain(1), 10**9)
    assert (found.n_nodes, found.n_late, found.n_ahead, found.stop) == (50, 0, 1, 20)
    assert "0 late, 1 too far ahead" in repr(found)
    found.update(uncertain(10), 25)
    assert (found.n_nodes, found.n_late) == (60, 0)
    # An error instead, for those who ask for it: nothing has changed.
    strict = Window.from_bytes(before)
    with pytest.raises(UserWarning, match="skipped"):  # as the tests' own filter does
        strict.update(uncertain(3), [16, 10**9, 17])
    assert strict.to_bytes() == before


def test_the_limit_is_that_of_the_user():
    found = window(max_ahead=1)
    found.update(uncertain(2), [5, 19])  # one period further
    with pytest.warns(UserWarning, match="more than 1 periods"):
        found.update(uncertain(4), [30, 29, 39, 40])  # too far, good, good by the one before, good
    assert (found.n_nodes, found.n_ahead, found.stop) == (3, 1, 50)
    assert found.max_ahead == Window.from_bytes(found.to_bytes()).max_ahead == copy.copy(found).max_ahead == 1
    assert window(n_periods=7).max_ahead == 7
    found.advance(1000)  # said on purpose
    found.update(uncertain(4), 1010)
    assert (found.n_nodes, found.n_ahead) == (4, 1)


def test_a_window_told_the_time_does_not_believe_the_first_node():
    found = window()
    found.advance(0)
    with pytest.warns(UserWarning, match="ahead"):
        found.update(uncertain(1), 10**9)
    assert (found.n_nodes, found.n_ahead, found.stop) == (0, 1, 10)
    assert Window.from_bytes(found.to_bytes()).n_ahead == 1


def test_time_goes_on_without_nodes():
    found = window()
    found.advance(100)
    assert (found.n_nodes, found.start, found.stop) == (0, 80, 110)
    found.update(uncertain(5), 79)
    found.update(uncertain(6), 80)
    assert (found.n_nodes, found.n_late) == (6, 5)
    found.advance(50)
    assert found.stop == 110
    found.advance(109)
    assert found.n_nodes == found.summary().n_nodes == 6
    found.advance(110)
    assert found.n_nodes == found.summary().n_nodes == 0
    with pytest.raises(InputError, match="one time"):
        found.advance([120, 130])


def test_before_the_first_node():
    found = window()
    assert (found.n_nodes, found.n_late, found.start, found.stop) == (0, 0, None, None)
    assert found.summary().n_nodes == found.summary(1).n_nodes == 0
    found.update(uncertain(0), [])
    found.update(uncertain(0), 1e9)
    assert found.stop is None
    with pytest.raises(InputError, match="empty"):
        found.summary().coreset()


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_each_node_counts_as_in_a_plain_summary(preset):
    n = {"default": 3000, "paper": 700}[preset]
    nodes, times = in_order(n)
    found = read(nodes, times, preset=preset)
    counts = np.array(chosen_by_hand(times, 10, 3)[0])
    plain = summarized(nodes[counts], preset=preset)
    whole = found.summary()
    assert 0 < plain.n_nodes < n
    assert whole.n_nodes == plain.n_nodes
    for name in ("mass", "spread_cost", "lower_bound"):
        assert_allclose(getattr(whole, name), getattr(plain, name), rtol=1e-12)
    assert_allclose(whole.coreset().mass.sum(), nodes[counts].mass.sum(), rtol=1e-9)


@pytest.mark.slow
def test_as_good_as_a_plain_summary_of_the_nodes_that_count():
    nodes, times = in_order(40_000, n_periods_seen=30)
    found = read(nodes, times, n_periods=12, size=None, n_clusters=5)
    counts = np.array(chosen_by_hand(times, 10, 12)[0])
    inside = nodes[counts]
    plain = summarized(inside, size=None, n_clusters=5)
    whole = found.summary()
    assert whole.n_retained < whole.n_nodes / 2
    centers = {name: solve(s, 5, random_state=0).centers for name, s in (("window", whole), ("plain", plain))}
    costs = {name: expected_cost(inside, places) for name, places in centers.items()}
    assert costs["window"] < 1.01 * costs["plain"]
    for places in centers.values():
        assert_allclose(expected_cost(whole.coreset(), places), expected_cost(inside, places), rtol=0.02)
    cost, error = whole.evaluate(centers["window"])
    assert abs(cost - costs["window"]) < 4 * error < 0.1 * cost


# -- what does not matter ---------------------------------------------------------------------------------------------


# Several leaves a period, of 64 nodes each; in the paper preset, of 16, and three levels.
N = {"default": 1500, "paper": 700}


@functools.cache
def read_at_once(preset):
    return read(*in_order(N[preset]), preset=preset, n_periods=5)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("parts", [None, 2])  # node by node, and two
def test_any_split_gives_the_same_bytes(preset, parts):
    whole = read_at_once(preset)
    split = read(*in_order(N[preset]), N[preset] * 2 // 3 if parts else 1, preset=preset, n_periods=5)
    assert whole.n_late > 0
    assert split.to_bytes() == whole.to_bytes()
    assert split.summary().to_bytes() == whole.summary().to_bytes()
    assert split.summary(2).to_bytes() == whole.summary(2).to_bytes()


def test_one_time_for_all_is_the_same_time_for_each():
    one, each = window(), window()
    one.update(uncertain(50), 12)
    each.update(uncertain(50), np.full(50, 12.0))
    assert one.to_bytes() == each.to_bytes()


def test_nodes_that_left_leave_no_trace():
    early, late = uncertain(500, seed=1), uncertain(500, seed=2)
    both, alone = window(max_ahead=10), window(max_ahead=10)
    both.update(early, np.linspace(0, 29, 500))
    both.update(late, np.linspace(70, 99, 500))
    alone.update(late, np.linspace(70, 99, 500))
    assert both.to_bytes() == alone.to_bytes()


def test_a_summary_is_a_copy_and_is_kept_until_the_next_update():
    nodes, times = in_order(600)
    found = read(nodes, times)
    before = found.to_bytes()
    taken = found.summary()
    kept = found._cache[found.n_periods]
    bytes_of_it = taken.to_bytes()
    taken.update(uncertain(100, seed=5))
    taken.scale(0.5)
    assert found.summary().to_bytes() == bytes_of_it
    assert found._cache[found.n_periods] is kept
    assert found.to_bytes() == before
    found.update(uncertain(1), times.max())
    assert found.summary().n_nodes == found.n_nodes
    assert found.summary().to_bytes() != bytes_of_it


def test_dates():
    nodes, times = in_order(400)
    seconds = np.round(times * 360).astype(int)  # so that ten units are an hour
    dates = np.datetime64("2026-03-01") + seconds * np.timedelta64(1, "s")
    plain = read(nodes, seconds, period=3600)
    for period in (np.timedelta64(1, "h"), timedelta(hours=1), np.timedelta64(3600, "s")):
        found = read(nodes, dates, period=period)
        assert (found.n_nodes, found.n_late) == (plain.n_nodes, plain.n_late)
        assert found.start == np.datetime64("2026-03-01") + plain.start * np.timedelta64(1, "s")
        assert_allclose(found.summary().mass, plain.summary().mass)
    one = window(period=timedelta(days=1))
    one.update(nodes, datetime(2026, 3, 1, 12))
    assert one.stop == np.datetime64("2026-03-02")


def test_the_first_and_the_last_date_never_wrap():
    found = window(period=timedelta(days=1), n_periods=10**13)
    found.update(uncertain(3), np.datetime64(-(10**13), "D"))
    assert (found.start, found.stop) == (np.datetime64(1 - 2 * 10**13, "D"), np.datetime64(1 - 10**13, "D"))
    found.advance(np.datetime64(10**13, "D"))
    assert (found.start, found.stop) == (np.datetime64(1, "D"), np.datetime64(10**13 + 1, "D"))
    with pytest.raises(InputError, match="n_periods is 1000000000000000, which"):
        window(period=timedelta(days=1), n_periods=10**15)


def test_times_before_zero():
    found = read(uncertain(200), np.linspace(-95, -1, 200))
    assert (found.start, found.stop) == (-30, 0)
    assert found.n_nodes == found.summary().n_nodes > 0
    assert Window.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()


def test_float32_and_float64():
    found = window()
    found.update(uncertain(100, dtype=np.float32), 5)
    assert found.summary().dtype == np.float32
    found.update(uncertain(100, seed=1), 15)
    assert found.summary().dtype == np.float64
    assert found.summary().n_nodes == 200


def test_nodes_are_thinned_when_they_arrive():
    found = read(uncertain(200), np.full(200, 5), max_realizations=2)
    assert np.diff(found.summary().coreset().offsets).max() == 2
    assert found.max_realizations == found.summary().max_realizations == 2
    assert found.summary().thinning_bound > 0


@pytest.mark.slow
def test_memory_is_that_of_the_periods_that_count():
    found = window(period=1, n_periods=4)
    most = 0
    for time in range(20):
        found.update(uncertain(300, seed=time), time)
        most = max(most, sum(s.n_retained for s in found._state.summaries.values()))
        assert len(found._state.summaries) == min(time + 1, 4)
    one = summarized(uncertain(300))
    assert most <= 4 * (one.n_retained + 64)


def test_shards_are_the_periods():
    found = read(uncertain(100), np.linspace(0, 69, 100))
    shards = {number: [stream.key for stream in s._streams] for number, s in found._state.summaries.items()}
    assert shards == {number: [ShardKey(number % 4, 0, 0, 0)] for number in (4, 5, 6)}
    # Groups of four neighbours are taken together, as in any merge.
    many = read(uncertain(500), np.linspace(160, 259, 500), n_periods=10).summary()
    assert [tuple(stream.key[:2]) for stream in many._streams] == [(0, 1), (1, 1), (8, 0), (9, 0)]


@pytest.mark.parametrize("n_periods", [1, 2, 4, 5, 16, 17])
def test_periods_that_count_have_different_shards(n_periods):
    found = window(period=1, n_periods=n_periods)
    for time in range(-20, 40):
        found.update(uncertain(1), time)
        shards = {stream.key.number for s in found._state.summaries.values() for stream in s._streams}
        assert len(shards) == len(found._state.summaries) == min(time + 21, n_periods)


def test_threads_may_update_at_the_same_time():
    found = window(n_periods=5)
    parts = [(uncertain(40, seed=seed), seed % 5 * 10) for seed in range(24)]

    def work(number):
        for nodes, time in parts[number::4]:
            found.update(nodes, time)
            found.summary()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found.n_nodes == found.summary().n_nodes == 24 * 40
    assert_allclose(found.summary().mass, sum(nodes.mass.sum() for nodes, _ in parts))


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"period": 0}, "period is 0"),
        ({"n_periods": 0}, "n_periods is 0"),
        ({"n_periods": 2.0}, "n_periods is 2.0"),
        ({"n_periods": 2**60}, "exceeds the limit"),
        ({"size": 7}, "too small"),
        ({"preset": "best"}, "preset is 'best'"),
        ({"epsilon": 0.1}, "need preset"),
        ({"max_realizations": 0}, "max_realizations is 0"),
        ({"n_clusters": 0}, "n_clusters is 0"),
        ({"random_state": -1}, "negative"),
    ],
)
def test_parameters_that_make_no_sense(options, match):
    with pytest.raises(InputError, match=match):
        window(**options)


@pytest.mark.parametrize(
    ("nodes", "time", "match"),
    [
        (np.ones(3), 5, r"X has shape \(3,\)"),
        (uncertain(3), [1, 2], r"shape \(2,\), but there are 3 nodes"),
        (uncertain(3), [[1, 2, 3]], r"shape \(1, 3\)"),
        (uncertain(3), np.nan, "not finite"),
        (uncertain(3), np.ma.masked_array([45, 46, 99999], mask=[0, 0, 1]), "masked"),
        (uncertain(3), np.datetime64("2020"), "times must be numbers"),
        (uncertain(3, d=3), 45, "3 features, but the window has read nodes with 2"),
    ],
)
def test_what_cannot_be_read_changes_nothing(nodes, time, match):
    found = read(*in_order(100))
    before = found.to_bytes()
    with pytest.raises(InputError, match=match):
        found.update(nodes, time)
    assert found.to_bytes() == before


@pytest.mark.parametrize("last", [0, -1, 4, 1.0, True, "all"])
def test_periods_that_are_not_there(last):
    with pytest.raises(InputError, match="last"):
        window().summary(last)


def test_an_update_that_fails_half_way_changes_nothing(monkeypatch):
    found = read(*in_order(100))
    before = found.to_bytes()
    calls = Counter()
    update = Summary.update

    def failing(self, nodes):
        calls["update"] += 1
        if calls["update"] == 3:
            raise MemoryError
        update(self, nodes)

    monkeypatch.setattr(Summary, "update", failing)
    with pytest.raises(MemoryError):
        found.update(uncertain(30), np.linspace(45, 69, 30))
    assert calls["update"] == 3
    assert found.to_bytes() == before


# -- words, copies and files ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_words():
    found = window(period=np.timedelta64(1, "D"), n_periods=1000, size=200, preset="paper")
    found.update(certain(1000), np.datetime64("2026-03-01T07"))
    assert repr(found) == (
        "Window(1,000 nodes in 1 of 1,000 periods of 1 day, 0 late, up to 2 clusters, coreset of 200, as in the paper)"
    )


STATES = {
    "empty": window,
    "nodes": lambda: read(*in_order(700)),
    "paper": lambda: read(*in_order(200), preset="paper"),
    "thinned": lambda: read(*in_order(300), max_realizations=2),
    "theory": lambda: read(*in_order(700), size=None, preset="theory", epsilon=0.9, delta=0.5),
    "gaps": lambda: read(uncertain(90), np.repeat([0, 30, 60], 30), n_periods=9),
    "advanced": lambda: window_advanced(),
    "dates": lambda: read(
        uncertain(50), np.datetime64("2026-03-01") + np.arange(50), period=timedelta(days=7), random_state=None
    ),
    "seconds": lambda: read(uncertain(50), np.arange(50) / 4, period=0.75),
}


def window_advanced():
    found = read(uncertain(50), np.arange(50))
    found.advance(100)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_saved_and_loaded(tmp_path, state):
    found = STATES[state]()
    found.save(tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == found.to_bytes()
    again = Window.load(str(tmp_path / "w"))
    others = [again, copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))]
    more, time = uncertain(70, seed=9), 7 if found.stop is None else found.stop - found.period  # in a period it has
    before = found.to_bytes()
    for other in others:
        assert repr(other) == repr(found)
        assert other.to_bytes() == before
        assert other.summary().to_bytes() == found.summary().to_bytes()
        assert (other.start, other.stop, other.period) == (found.start, found.stop, found.period)
        other.update(more, time)
        assert found.to_bytes() == before
    found.update(more, time)
    assert {other.to_bytes() for other in others} == {found.to_bytes()}
    assert list(tmp_path.iterdir()) == [tmp_path / "w"]


def test_any_program_that_knows_arrow_can_read_it(tmp_path):
    found = read(*in_order(300))
    found.save(tmp_path / "w.arrow")
    table = pa.ipc.open_file(str(tmp_path / "w.arrow")).read_all()
    header = json.loads(table.schema.metadata[b"probi"])
    assert (header["format"], header["config"]) == (file.FORMAT, found._config.shared)
    assert [entry["period"] for entry in header["summaries"]] == [4, 5, 6]
    in_summary = table.filter(pa.compute.not_equal(table["level"], file.IN_AUDIT))
    retained = Counter(in_summary["period"].to_pylist())
    assert retained == {period: summary.n_retained for period, summary in found._state.summaries.items()}


def test_each_period_keeps_its_dtype():
    found = read(uncertain(90, dtype=np.float32), np.repeat([0, 10], [20, 70]))
    found.update(uncertain(80), 25)
    again = Window.from_bytes(found.to_bytes())
    assert [summary.dtype for summary in again._state.summaries.values()] == [np.float32, np.float32, np.float64]
    for period, summary in found._state.summaries.items():
        assert again._state.summaries[period].to_bytes() == summary.to_bytes()


OLDER = sorted((Path(__file__).parents[1] / "data").glob("window_format_*"))


@pytest.mark.parametrize("path", [None, *OLDER], ids=str)
def test_damage_is_found_wherever_it_is(path):
    data = path.read_bytes() if path else read(uncertain(40), np.arange(40)).to_bytes()
    rng = np.random.default_rng(0)
    for place in [*range(60), *rng.integers(len(data), size=300).tolist(), *range(len(data) - 120, len(data))]:
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(InputError, match=r"checksum"):
            Window.from_bytes(bytes(damaged))
    for stop in (0, 1, len(data) // 2, len(data) - 1):
        with pytest.raises(InputError, match="checksum"):
            Window.from_bytes(data[:stop])
    with pytest.raises(InputError, match="checksum"):
        Window.from_bytes(data + b"x")


def forged(change, states=None, found=None, config=None):
    """Bytes of a window with a right checksum whose header was changed."""
    found = found or read(uncertain(40), np.arange(40))
    _, header, known = file.from_bytes(found.to_bytes(), "window")
    return file.to_bytes(config or found._config, known | (states or {}), header | change)


@pytest.mark.parametrize(
    "change",
    [
        {"max_ahead": 0}, {"max_ahead": "far"}, {"n_ahead": -1},
        {"period": {"length": 0, "unit": None}}, {"period": 3}, {"n_periods": -1}, {"n_periods": 2},
        {"seed": 1}, {"latest": 2}, {"latest": 100}, {"latest": None}, {"latest": "now"}, {"n_late": "x"},
        {"n_features": 3}, {"period": {"length": 1.5, "unit": "s"}}, {"period": {"length": 2**70, "unit": "s"}},
        {"period": {"length": 2**61, "unit": "W"}}, {"period": {"length": 1, "unit": ["s"]}}, {"n_periods": 2**70},
    ],
    ids=str,
)  # fmt: skip
def test_forged_windows_are_refused(change):
    assert Window.from_bytes(forged({})).n_nodes == 30
    with pytest.raises(InputError):
        Window.from_bytes(forged(change))


@pytest.mark.parametrize(
    "change",
    [
        {"latest": 2**200}, {"latest": 2**60}, {"n_periods": 2**70}, {"n_periods": 2**51}, {"latest": 2**51},
        {"latest": -(2**51)},
    ],
    ids=str,
)  # fmt: skip
def test_forged_windows_without_nodes_are_refused(change):
    empty = window(period=timedelta(days=1))
    assert Window.from_bytes(forged({"latest": 2**40}, found=empty)).stop > np.datetime64("9999")
    with pytest.raises(InputError):
        Window.from_bytes(forged(change, found=empty))


@pytest.mark.parametrize("shared", [{}, 1, None, {"n_clusters": 2, "size": 8, "preset": "default", "more": 1}], ids=str)
def test_forged_configs_are_refused(shared):
    with pytest.raises(InputError):
        Window.from_bytes(forged({}, config=SimpleNamespace(shared=shared)))


@pytest.mark.parametrize("period", [None, "1", 1.0, [1]], ids=str)
def test_forged_periods_are_refused(period):
    found = read(uncertain(9), np.arange(9))
    states = {period if period != [1] else (1,): found._state.summaries[0]._saved()}
    with pytest.raises(InputError):
        Window.from_bytes(file.to_bytes(found._config, states, {"n_periods": 3}))


def test_a_window_of_format_2_is_read_as_it_was_meant():
    window = Window.load(Path(__file__).parents[1] / "data" / "window_format_2.window")
    assert (window.n_nodes, window.n_periods, window.size) == (150, 3, 16)
    assert window.summary().evaluate([[1.0, 1.0], [3.0, 2.0]]).cost == pytest.approx(200.94794067217688, rel=1e-12)
    assert Window.from_bytes(window.to_bytes()).to_bytes() == window.to_bytes()


@pytest.mark.parametrize(("format", "max_ahead", "n_ahead"), [(1, 3, 0), (3, 5, 1)])
def test_windows_of_formats_1_and_3_are_read_as_they_were_meant(format, max_ahead, n_ahead):
    """120 nodes of four periods, then one that was too far ahead; format 1 had no limit and takes the usual one."""
    window = Window.load(Path(__file__).parents[1] / "data" / f"window_format_{format}.window")
    assert (window.n_nodes, window.size, window._config.audit_size) == (90, 16, 60)
    assert (window.start, window.stop, window.n_late) == (10, 40, 0)
    assert (window.max_ahead, window.n_ahead) == (max_ahead, n_ahead)
    assert window.summary().evaluate([[1.0, 1.0], [3.0, 2.0]]).cost == pytest.approx(149.29823287677834, rel=1e-12)
    assert Window.from_bytes(window.to_bytes()).to_bytes() == window.to_bytes()


def test_forged_summaries_are_refused():
    other = summarized(uncertain(5), size=9)._saved()
    with pytest.raises(InputError, match="period 2 does not belong to it"):
        Window.from_bytes(
            forged({}, {2: other._replace(streams=[replace(other.streams[0], key=ShardKey(7, 0, 0, 0))])})
        )


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "x").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InputError, match=r"x: Not a probi window"):
        Window.load(tmp_path / "x")


@pytest.mark.parametrize("summary", [Summary(3), summarized(uncertain(5))], ids=["empty", "nodes"])
def test_a_window_that_is_a_summary_is_said_to_be_one(tmp_path, summary):
    summary.save(tmp_path / "s")
    with pytest.raises(InputError, match=r"s: This is a Summary, not a Window: probi.Summary.load reads it\.$"):
        Window.load(tmp_path / "s")


@pytest.mark.parametrize("state", ["empty", "nodes"])
def test_a_summary_that_is_a_window_is_said_to_be_one(tmp_path, state):
    STATES[state]().save(tmp_path / "w")
    with pytest.raises(InputError, match=r"w: This is a Window, not a Summary: probi.Window.load reads it\.$"):
        Summary.load(tmp_path / "w")


# -- decay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [20, 900])  # all kept; and far more than that
def test_decay_is_weights_that_fall_with_age(n):
    """Scaled by 1/2 after each day, a node of age a has 0.5 ** a of its weight."""
    days = [uncertain(n, seed=seed) for seed in range(8)]
    faded = Summary(2, 40, random_state=0)
    for age, day in zip(range(7, -1, -1), days, strict=True):
        faded.update(day)
        if age:
            faded.scale(0.5)
    explicit = Nodes.concat(
        [day.with_weights(day.weights * 0.5**age) for age, day in zip(range(7, -1, -1), days, strict=True)]
    )
    assert faded.n_nodes == len(explicit)
    assert_allclose(faded.mass, explicit.mass.sum(), rtol=1e-12)
    by_weights = summarized(explicit, size=40)
    assert_allclose(faded.spread_cost, by_weights.spread_cost, rtol=1e-12)
    centers = np.array([[0.0, 0.0], [45.0, 40.0], [90.0, 80.0]])
    cost, error = faded.evaluate(centers)
    assert_allclose(cost, expected_cost(explicit, centers), rtol=1e-9 if error == 0 else 0.1)
    assert abs(cost - expected_cost(explicit, centers)) <= 4 * error + 1e-9 * cost
    # Half is exact in binary, so not a bit differs from nodes that came with the smaller weights.
    assert faded.coreset() == by_weights.coreset()
