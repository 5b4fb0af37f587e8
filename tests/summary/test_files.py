"""Summaries as bytes and files: round trips, what stands in them, and what happens to damaged ones."""

import copy
import errno
import hashlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import certain, summarized, uncertain
from strategies import examples

import probi
from probi import InputError, Nodes, Summary, Window, expected_cost, solve
from probi.coreset.importance import ImportanceSampling
from probi.summary import file
from probi.summary.config import SummaryConfig
from probi.summary.stream import ShardKey

PRESETS = ["default", "paper"]
# Nodes for three levels: a leaf has 64 of them, in the paper preset 16.
FEW = {"default": 400, "paper": 120}
CENTERS = np.array([[0.0, 0.0], [45.0, 40.0], [90.0, 80.0]])


def mixed_summary(preset="default"):
    """Coresets with medians and without, a buffer, an audit sample, a block, and a stream after it."""
    summary = summarized(uncertain(200), preset=preset)
    summary.update(certain(100))
    for number in range(1, 8):
        summary.merge(summarized(uncertain(30, seed=number), preset=preset, shard=number))
    summary.update(uncertain(100, seed=20))
    summary.merge(summarized(certain(70), preset=preset, shard=12))
    return summary


def states():
    """Summaries in all states that a file must hold."""
    for preset in PRESETS:
        yield f"{preset} empty", lambda preset=preset: Summary(2, 8, preset, random_state=0)
        yield f"{preset} one node", lambda preset=preset: summarized(uncertain(1), preset=preset)
        yield f"{preset} buffer", lambda preset=preset: summarized(uncertain(15), preset=preset)
        yield f"{preset} a leaf", lambda preset=preset: summarized(uncertain(64), preset=preset)
        yield (
            f"{preset} levels",
            lambda preset=preset: summarized(uncertain(2300 if preset == "default" else 200), preset=preset),
        )
        yield f"{preset} certain", lambda preset=preset: summarized(certain(FEW[preset]), preset=preset)
        yield (
            f"{preset} float32",
            lambda preset=preset: summarized(uncertain(FEW[preset], dtype=np.float32), preset=preset),
        )
        yield f"{preset} mixed", lambda preset=preset: mixed_summary(preset)
    yield "seed of 128 bits", lambda: summarized(certain(100), random_state=np.random.default_rng(0))
    yield "scaled", lambda: scaled(summarized(uncertain(700)), 1 / 3)
    yield "widened", widened
    yield "leaf without mass", lambda: summarized(without_mass(certain(300), 64, 128))
    yield "nothing but zeros", lambda: summarized(without_mass(certain(300), 0, 300))


def scaled(summary, factor):
    summary.scale(factor)
    return summary


def widened():
    """Summary of float32 nodes, some of whose probabilities sum to more than 1 by rounding, that became float64."""
    tenths = Nodes.from_dense(certain(3000, dtype=np.float32).points.reshape(300, 10, 2))
    assert tenths.total_probabilities.max() > 1.0
    summary = summarized(tenths)
    summary.update(certain(3))
    return summary


def without_mass(some, start, stop):
    number = np.arange(len(some))
    return some.with_weights(np.where((number >= start) & (number < stop), 0.0, some.weights))


STATES = dict(states())


def pickled(summary):
    return pickle.loads(pickle.dumps(summary))


ROUND_TRIPS = {
    "bytes": lambda summary: Summary.from_bytes(summary.to_bytes()),
    "pickle": pickled,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


# -- round trips ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_a_round_trip_changes_nothing(state):
    summary = STATES[state]()
    copies = {way: turned(summary) for way, turned in ROUND_TRIPS.items()}
    for way, again in copies.items():
        assert again is not summary, way
        assert again.to_bytes() == summary.to_bytes(), way
    for way, again in copies.items():
        assert repr(again) == repr(summary), way
        assert (again.spread_cost, again.lower_bound) == (summary.spread_cost, summary.lower_bound), way
        if summary.n_nodes:
            assert again.coreset() == summary.coreset(), way
            assert again.evaluate(CENTERS) == summary.evaluate(CENTERS), way
    # They go on alike, and apart from each other.
    more = uncertain(70, seed=30)  # a leaf, of the paper's four
    before = {way: again.to_bytes() for way, again in copies.items()}
    summary.update(more)
    for way, again in copies.items():
        assert again.to_bytes() == before[way], way
        again.update(more)
        assert again.to_bytes() == summary.to_bytes(), way


def test_bytes_may_come_as_a_view():
    data = summarized(certain(100)).to_bytes()
    for kind in (bytearray, memoryview):
        assert Summary.from_bytes(kind(data)).to_bytes() == data


@pytest.mark.slow
@examples(12)
@given(st.floats(0, 0.8), st.floats(0.1, 0.8), st.sampled_from(PRESETS), st.sampled_from([np.float32, np.float64]))
def test_to_stop_and_go_on_from_bytes_is_to_go_on(first, share, preset, dtype):
    some = uncertain(FEW[preset], dtype=dtype)
    n, step = int(first * len(some)), int(share * len(some))
    stopped = Summary(2, 8, preset, random_state=0)
    for start, stop in ((0, n), *((start, start + step) for start in range(n, len(some), step))):
        stopped.update(some[start:stop])
        stopped = Summary.from_bytes(stopped.to_bytes())
    assert stopped.to_bytes() == summarized(some, preset=preset).to_bytes()


# -- what stands in the bytes -----------------------------------------------------------------------------------------


def test_any_program_that_knows_arrow_can_read_it(tmp_path):
    some = uncertain(700)
    summary = summarized(some)
    summary.save(tmp_path / "summary.arrow")
    with pa.OSFile(str(tmp_path / "summary.arrow")) as stored:
        table = pa.ipc.open_file(stored).read_all()
    level = table["level"].to_numpy()
    in_coreset = level != file.IN_AUDIT
    assert table.num_rows == summary.n_retained + 640  # a row a node; all nodes of ten leaves are in the audit sample
    assert in_coreset.sum() == summary.n_retained
    chances = np.array([sum(chances) for chances in table["probabilities"].to_pylist()])
    assert_allclose((table["weight"].to_numpy() * chances)[in_coreset].sum(), some.mass.sum(), rtol=1e-9)
    first = table["points"][0].as_py()
    assert any(np.array_equal(first, part.points) for part in some)
    assert set(table.schema.metadata) == {b"probi", b"checksum"}
    header = json.loads(table.schema.metadata[b"probi"])
    config = header["config"]
    assert (header["format"], config["n_clusters"], config["size"], config["preset"]) == (8, 2, 8, "default")


@pytest.mark.parametrize("format", [1, 3, 4])
def test_older_formats_are_read_as_they_were_meant(format):
    """400 nodes, all of them audited, faded by half, then 30 more, as the programs of their time evaluated them."""
    summary = Summary.load(Path(__file__).parents[1] / "data" / f"summary_format_{format}.probi")
    assert (summary.n_nodes, summary.n_retained, summary.mass) == (430, 94, 172.5)
    # What those programs had as constants, and their files do not say.
    assert (summary._config.leaf, summary._config.fan_in, summary._config.audit_size) == (128, 4, 2500)
    cost, error = summary.evaluate([[1.0, 1.0], [3.0, 2.0]])
    assert_allclose([cost, error], [270.7324626264218, 0.0], rtol=1e-12)
    assert Summary.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()


def test_format_2_is_read_as_it_was_meant():
    # 3,008 nodes, of which 2,501 were audited by mass, as the program of that time evaluated them.
    summary = Summary.load(Path(__file__).parents[1] / "data" / "summary_format_2.probi")
    assert summary.n_nodes == 3008
    cost, error = summary.evaluate([[1.0]])
    assert_allclose([cost, error], [3222.111603088399, 47.38461236517194], rtol=1e-12)
    again = Summary.from_bytes(summary.to_bytes())
    assert tuple(again.evaluate([[1.0]])) == (cost, error)
    more = Nodes.from_points(np.random.default_rng(0).lognormal(size=(500, 1)).astype(np.float32))
    again.update(more)
    assert abs(again.evaluate([[1.0]]).cost - cost - expected_cost(more, [[1.0]])) < 4 * error


def test_format_5_is_read_as_it_was_meant():
    """150 nodes thinned on arrival, faded by half, then 50 more, as the program of that time evaluated them."""
    summary = Summary.load(Path(__file__).parents[1] / "data" / "summary_format_5.probi")
    assert (summary.n_nodes, summary.n_retained, summary.mass) == (200, 88, 125.0)
    config = summary._config
    assert (config.leaf, config.fan_in, config.audit_size, config.max_realizations) == (128, 4, 60, 3)
    assert summary.about == {"space": {"features": ["a", "b"]}}
    cost, error = summary.evaluate([[1.0, 1.0], [3.0, 2.0]])
    assert_allclose([cost, error], [231.65492555542974, 22.312461545893576], rtol=1e-12)
    assert Summary.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()


def test_format_6_is_read_as_it_was_meant():
    """300 nodes, sealed, faded by half, then 200 more: leaves of 128 nodes each, and no other limit."""
    summary = Summary.load(Path(__file__).parents[1] / "data" / "summary_format_6.probi")
    assert (summary.n_nodes, summary.n_retained, summary.mass) == (500, 104, 708.5)
    config, (stream,) = summary._config, summary._streams
    assert (config.leaf, config.leaf_coordinates, config.audit_size) == (128, 0, 60)
    assert (stream.seal, stream.leaf_number) == ((300, 3, 0), 4)
    assert summary.about == {"space": {"features": ["a", "b"]}}
    cost, error = summary.evaluate([[1.0, 1.0], [3.0, 2.0]])
    assert_allclose([cost, error], [1289.9932418617232, 59.81674192887638], rtol=1e-12)
    assert Summary.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()


def test_format_7_is_read_as_it_was_meant():
    """700 points, then 600 nodes, in leaves of 60 coordinates whose coresets join; 900 more join them as they did."""
    summary = Summary.load(Path(__file__).parents[1] / "data" / "summary_format_7.probi")
    assert (summary.n_nodes, summary.n_retained, summary.mass) == (1300, 23, 2599.0)
    config, (stream,) = summary._config, summary._streams
    assert (config.leaf_coordinates, config.joining_level, config.leaves_joined, stream.leaf_number) == (60, 2, 16, 73)
    centers = [[1.0, 1.0], [3.0, 2.0]]
    assert_allclose([*summary.evaluate(centers)], [4645.983041848138, 448.88099701476733], rtol=1e-12)
    assert Summary.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()
    points = np.random.default_rng(2).integers(0, 40, (900, 3, 2)) / 8.0
    summary.update(Nodes.from_dense(points, weights=1.0 + np.arange(900) % 3))
    assert_allclose(summary.coreset().points.sum(), 134.0, rtol=1e-12)
    assert_allclose([*summary.evaluate(centers)], [7415.160176237008, 511.14508812923907], rtol=1e-12)


@pytest.mark.parametrize(("constant", "other"), [("fan_in", 3), ("joining_level", 1), ("leaves_joined", 3)])
def test_a_summary_goes_on_as_it_began_whatever_the_program_would_choose_today(monkeypatch, constant, other):
    rng = np.random.default_rng(0)
    points = Nodes.from_points(rng.lognormal(0.0, 2.0, (1600, 8 if constant == "leaves_joined" else 1)))
    config = SummaryConfig(2, 8, audit_size=50, leaf_coordinates=96 if constant == "leaves_joined" else 0)
    summary, centers = Summary.from_config(config), np.ones((1, points.n_features))
    summary.update(points[:1400])
    known, data = summary.evaluate(centers), summary.to_bytes()
    assert known.standard_error > 0.0
    summary.update(points[1400:])
    monkeypatch.setattr(ImportanceSampling, constant, other)
    again = Summary.from_bytes(data)
    assert again.evaluate(centers) == known
    assert again.to_bytes() == data
    again.update(points[1400:])
    assert again.to_bytes() == summary.to_bytes()


def digest(step):
    """Checksum of two summaries and of a window that reads ``step`` nodes at a time."""
    nodes, times = uncertain(300), np.random.default_rng(0).uniform(0, 70, 300).cumsum() / 150
    window = Window(10, 3, n_clusters=2, size=8, random_state=0)
    for start in range(0, 300, step):
        window.update(nodes[start : start + step], times[start : start + step])
    assert window.n_nodes > 64
    data = STATES["default mixed"]().to_bytes() + STATES["paper levels"]().to_bytes() + window.to_bytes()
    return hashlib.sha256(data).hexdigest()


SAME_IN_ANOTHER_PROCESS = """
import sys
sys.path.insert(0, {tests!r})
from summary.test_files import digest
print(digest(50))
"""


@pytest.mark.process
def test_two_processes_give_the_same_bytes(tmp_path):
    environment = os.environ | {
        "PYTHONPATH": str(Path(probi.__file__).resolve().parent.parent),
        "PYTHONHASHSEED": "17",
        "PROBI_NUM_THREADS": "1",
        "HOME": str(tmp_path),
        "TZ": "Asia/Tokyo",
    }
    code = SAME_IN_ANOTHER_PROCESS.format(tests=str(Path(__file__).resolve().parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == digest(300)


# -- files ------------------------------------------------------------------------------------------------------------


def listing(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", [str, Path])
def test_save_and_load(tmp_path, kind):
    summary = mixed_summary()
    path = kind(tmp_path / "summary.arrow")
    summary.save(path)
    assert Path(path).read_bytes() == summary.to_bytes()
    assert Summary.load(path).to_bytes() == summary.to_bytes()
    summary.update(certain(100))
    summary.save(path)  # over the old one
    assert Summary.load(path).to_bytes() == summary.to_bytes()
    assert listing(tmp_path) == ["summary.arrow"]


def test_a_file_beside_the_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    summarized(certain(10)).save("summary.arrow")
    assert Summary.load("summary.arrow").n_nodes == 10


def full_disk(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("error", [full_disk, interrupted])
@pytest.mark.parametrize("where", ["os.fsync", "pathlib.Path.replace"])
def test_a_crash_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, where, error):
    path = tmp_path / "summary.arrow"
    summary = summarized(certain(100))
    summary.save(path)
    before = path.read_bytes()
    summary.update(certain(100))
    with monkeypatch.context() as patch:
        patch.setattr(where, error)
        with pytest.raises((OSError, KeyboardInterrupt)):
            summary.save(path)
    assert path.read_bytes() == before
    assert listing(tmp_path) == ["summary.arrow"]
    summary.save(path)
    assert Summary.load(path).n_nodes == 200


def test_data_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    steps, fsync, replace = [], os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append("flush"), fsync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, other: (steps.append("rename"), replace(self, other)))
    summarized(certain(10)).save(tmp_path / "summary.arrow")
    assert steps[:2] == ["flush", "rename"]


def test_no_folder_and_no_file_are_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        summarized(certain(10)).save(tmp_path / "nowhere" / "summary.arrow")
    with pytest.raises(FileNotFoundError, match=r"missing\.arrow"):
        Summary.load(tmp_path / "missing.arrow")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("data", [b"", b"some text", summarized(certain(30)).to_bytes()[:-1]])
def test_errors_name_the_file(tmp_path, data):
    path = tmp_path / "broken.arrow"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"broken\.arrow: "):
        Summary.load(path)


def test_keys_are_as_they_were():
    # What random numbers depend on: another name or order in a file would change all that is read afterwards.
    assert pickled(summarized(uncertain(150)))._streams[0].key == ShardKey(number=0, height=0, generation=0, seed=0)
    again = pickled(summarized(certain(30), shard=9, random_state=5))
    assert again._streams[0].key == ShardKey(9, 0, 0, 5)


def test_a_loaded_summary_is_solved_alike():
    summary = summarized(uncertain(700))
    first, second = (solve(one, 2, random_state=0) for one in (summary, pickled(summary)))
    assert_array_equal(first.centers, second.centers)
    assert first.cost == second.cost


# -- what a user wants to be known about it -------------------------------------------------------------------------


def test_what_is_said_about_it_is_saved():
    summary = summarized(certain(50))
    summary.about["space"] = {"features": ["a", "b"], "scale": [1.5, 0.1]}
    assert Summary.from_bytes(summary.to_bytes()).about == summary.about
    assert copy.deepcopy(summary).about == summary.about
    copy.deepcopy(summary).about["space"]["features"].append("c")
    assert summary.about["space"]["features"] == ["a", "b"]


def test_a_merge_keeps_what_both_say():
    left, right = summarized(certain(30), shard=0), summarized(certain(30, seed=1), shard=1)
    left.about, right.about = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "d": 3}
    assert left.merge(right).about == {"a": 1}


def test_files_are_compressed():
    nodes = Nodes.from_points(np.zeros((4000, 20)))
    assert len(summarized(nodes, n_clusters=20, size=4000).to_bytes()) < nodes.points.nbytes / 20


def test_a_sample_to_look_at():
    few = certain(60)
    assert summarized(few, size=100).sample() == few
    many = certain(5000)
    sample = summarized(many, size=8).sample()
    assert 2500 <= len(sample) <= 2501
    places = {tuple(point) for point in many.points.tolist()}
    assert all(tuple(point) in places for point in sample.points.tolist())


LOOKS_LIKE_A_CHECKSUM = ["probi-sha256:" + digit * 64 for digit in "0a"]


@pytest.mark.parametrize("text", LOOKS_LIKE_A_CHECKSUM)
def test_text_that_looks_like_the_checksum_is_only_text(text):
    summary = Summary(1, random_state=0)
    summary.update(Nodes.from_points([[0.0], [1.0]], ids=[text, "b"]))
    summary.about = {text: text, "columns": [text]}
    loaded = Summary.from_bytes(summary.to_bytes())
    assert loaded.about == summary.about
    assert loaded.coreset().ids.tolist() == [text, "b"]


def test_a_field_of_the_ids_may_look_like_the_checksum():
    ids = np.array([(1, 2), (3, 4)], dtype=[(LOOKS_LIKE_A_CHECKSUM[1], "i8"), ("b", "i8")])
    summary = Summary(1, random_state=0)
    summary.update(Nodes.from_points([[0.0], [1.0]], ids=ids))
    assert Summary.from_bytes(summary.to_bytes()).coreset().ids.dtype.names == ids.dtype.names
