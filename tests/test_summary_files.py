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
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import certain, summarized, uncertain

import probi
from probi import InputError, Nodes, Summary, _arrow, solve
from probi.stream import Key

PRESETS = ["default", "paper"]
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
            lambda preset=preset: summarized(uncertain(2300 if preset == "default" else 400), preset=preset),
        )
        yield f"{preset} certain", lambda preset=preset: summarized(certain(700), preset=preset)
        yield f"{preset} float32", lambda preset=preset: summarized(uncertain(700, dtype=np.float32), preset=preset)
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
    return some.reweighted(np.where((number >= start) & (number < stop), 0.0, some.weights))


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


@pytest.mark.parametrize("way", ROUND_TRIPS)
@pytest.mark.parametrize("state", STATES)
def test_a_round_trip_changes_nothing(state, way):
    summary = STATES[state]()
    again = ROUND_TRIPS[way](summary)
    assert again is not summary
    assert again.to_bytes() == summary.to_bytes()
    assert repr(again) == repr(summary)
    assert (again.spread_cost, again.lower_bound) == (summary.spread_cost, summary.lower_bound)
    if summary.n_nodes:
        assert again.coreset() == summary.coreset()
        assert again.evaluate(CENTERS) == summary.evaluate(CENTERS)
    # They go on alike, and apart from each other.
    more = uncertain(600, seed=30)
    before = again.to_bytes()
    summary.update(more)
    assert again.to_bytes() == before
    again.update(more)
    assert again.to_bytes() == summary.to_bytes()


def test_medians_are_read_not_computed_again(monkeypatch):
    data = summarized(uncertain(700)).to_bytes()

    def never(*_):
        pytest.fail("medians were computed")

    monkeypatch.setattr("probi.medians._compute", never)
    again = Summary.from_bytes(data)
    assert all(part.known("medians to 0.01") for level in again._streams[0].levels for part in level)


def test_bytes_may_come_as_a_view():
    data = summarized(certain(100)).to_bytes()
    for kind in (bytearray, memoryview):
        assert Summary.from_bytes(kind(data)).to_bytes() == data


@settings(max_examples=25)
@given(st.integers(0, 300), st.integers(15, 300), st.sampled_from(PRESETS), st.sampled_from([np.float32, np.float64]))
def test_to_stop_and_go_on_from_bytes_is_to_go_on(n, step, preset, dtype):
    some = uncertain(400, dtype=dtype)
    stopped = Summary(2, 8, preset, random_state=0)
    for start, stop in ((0, n), *((start, min(start + step, 400)) for start in range(n, 400, step))):
        stopped.update(some[start:stop])
        stopped = Summary.from_bytes(stopped.to_bytes())
    assert stopped.to_bytes() == summarized(some, preset=preset).to_bytes()


# -- what stands in the bytes -----------------------------------------------------------------------------------------


def test_any_program_that_knows_arrow_can_read_it(tmp_path):
    some = uncertain(700)
    summary = summarized(some)
    summary.save(tmp_path / "summary.arrow")
    with pa.OSFile(str(tmp_path / "summary.arrow")) as file:
        table = pa.ipc.open_file(file).read_all()
    level = table["level"].to_numpy()
    in_coreset = level != _arrow.IN_AUDIT
    assert table.num_rows == summary.n_retained + 640  # a row a node; all nodes of ten leaves are in the audit sample
    assert in_coreset.sum() == summary.n_retained
    chances = np.array([sum(chances) for chances in table["probabilities"].to_pylist()])
    assert_allclose((table["weight"].to_numpy() * chances)[in_coreset].sum(), some.mass.sum(), rtol=1e-9)
    first = table["points"][0].as_py()
    assert any(np.array_equal(first, part.points) for part in some)
    assert set(table.schema.metadata) == {b"probi", b"checksum"}
    header = json.loads(table.schema.metadata[b"probi"])
    assert (header["format"], header["n_clusters"], header["size"], header["preset"]) == (1, 2, 8, "default")


SAME_IN_ANOTHER_PROCESS = """
import hashlib, sys
sys.path.insert(0, {tests!r})
from test_summary_files import STATES
print(hashlib.sha256(STATES["default mixed"]().to_bytes() + STATES["paper levels"]().to_bytes()).hexdigest())
"""


def test_two_processes_give_the_same_bytes(tmp_path):
    environment = os.environ | {
        "PYTHONPATH": str(Path(probi.__file__).resolve().parent.parent),
        "PYTHONHASHSEED": "17",
        "PROBI_NUM_THREADS": "1",
        "HOME": str(tmp_path),
        "TZ": "Asia/Tokyo",
    }
    code = SAME_IN_ANOTHER_PROCESS.format(tests=str(Path(__file__).resolve().parent))
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    expected = STATES["default mixed"]().to_bytes() + STATES["paper levels"]().to_bytes()
    assert done.stdout.strip() == hashlib.sha256(expected).hexdigest()


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


# -- damage -----------------------------------------------------------------------------------------------------------

SMALL = summarized(uncertain(150))
DATA = SMALL.to_bytes()


def assert_refused(data):
    with pytest.raises(InputError, match="summary"):
        Summary.from_bytes(data)


def test_no_bit_can_flip_unnoticed():
    assert len(DATA) < 60_000
    rng = np.random.default_rng(0)
    for at, bit in zip(rng.choice(len(DATA), 2000, replace=False), rng.integers(8, size=2000), strict=True):
        damaged = bytearray(DATA)
        damaged[at] ^= 1 << bit
        assert_refused(bytes(damaged))


def test_nothing_may_be_missing_or_added():
    for length in (*range(70), *np.linspace(70, len(DATA) - 1, 300).astype(int), len(DATA) - 1):
        assert_refused(DATA[:length])
    assert_refused(DATA + b"\0")
    assert_refused(DATA[8:])
    assert_refused(DATA + DATA)
    assert_refused(DATA[: len(DATA) // 2] + b"\0" * (len(DATA) - len(DATA) // 2))


@settings(max_examples=50)
@given(st.binary())
def test_any_other_bytes_are_no_summary(data):
    assert_refused(data)


def written(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def signed(data):
    """The same bytes with the checksum that belongs to them."""
    plain = _arrow.CHECKSUM.sub(_arrow.NO_CHECKSUM, data)
    return _arrow.CHECKSUM.sub(b"probi-sha256:" + hashlib.sha256(plain).hexdigest().encode(), plain)


def test_a_foreign_arrow_file_is_no_summary():
    table = pa.table({"points": [1.0, 2.0]})
    assert_refused(written(table))
    assert_refused(signed(written(table.replace_schema_metadata({"checksum": _arrow.NO_CHECKSUM}))))
    assert_refused(signed(b"not even Arrow" + _arrow.NO_CHECKSUM))


# -- nonsense with a right checksum -----------------------------------------------------------------------------------


def forged(columns=lambda columns: columns, header=lambda header: header):
    """A small summary whose columns (a dict of arrays) and header (a dict) are changed in place or replaced."""
    table = pa.ipc.open_file(pa.BufferReader(DATA)).read_all().combine_chunks()
    found = {name: table[name].combine_chunks() for name in table.column_names}
    parameters = json.loads(table.schema.metadata[b"probi"])
    found = columns(found) or found
    parameters = header(parameters) or parameters
    metadata = {"probi": json.dumps(parameters), "checksum": _arrow.NO_CHECKSUM}
    return signed(written(pa.table(found).replace_schema_metadata(metadata)))


def put(*path, value):
    """Change one entry of the header."""

    def change(header):
        *way, last = path
        for step in way:
            header = header[step]
        header[last] = value

    return change


def column(name, change):
    """Replace a column."""

    def replace(columns):
        columns[name] = change(columns[name])

    return replace


def one_value(value, at=5):
    """Change one number of a plain column."""

    def change(array):
        values = np.array(array)
        values[at] = value
        return pa.array(values)

    return change


def one_inside(value, at=5):
    """Change one number inside of lists."""

    def change(array):
        inner = array.values
        nested = pa.types.is_fixed_size_list(inner.type)
        numbers = np.array(inner.values if nested else inner)
        numbers[at] = value
        inner = pa.FixedSizeListArray.from_arrays(pa.array(numbers), 2) if nested else pa.array(numbers)
        return pa.LargeListArray.from_arrays(array.offsets, inner)

    return change


def one_offset(value, at=5):
    """Change where a list begins."""

    def change(array):
        offsets = np.array(array.offsets)
        offsets[at] = value
        return pa.LargeListArray.from_arrays(offsets, array.values)

    return change


def all_the_same(value, kind=None):
    return lambda array: pa.array([value] * len(array), kind)


def one_null(array):
    return pa.array([None, *array.to_pylist()[1:]], array.type)


def without(name):
    return lambda columns: {other: array for other, array in columns.items() if other != name}


def twice(columns):
    return {name: pa.concat_arrays([array, array]) for name, array in columns.items()}


def test_what_is_forged_is_else_as_it_was():
    assert forged() == DATA
    assert Summary.from_bytes(forged(header=put("n_clusters", value=1))).n_clusters == 1


BAD_COLUMNS = {
    "no points": without("points"),
    "no probabilities": without("probabilities"),
    "no weight": without("weight"),
    "no median": without("median"),
    "no spread_at_least": without("spread_at_least"),
    "no paper_spread": without("paper_spread"),
    "no columns": lambda columns: {"a": pa.array([1])},
    "rows twice": twice,
    "NaN in points": column("points", one_inside(np.nan)),
    "infinity in points": column("points", one_inside(np.inf)),
    "huge points": column("points", one_inside(1e200)),
    "negative probability": column("probabilities", one_inside(-0.1)),
    "NaN in probabilities": column("probabilities", one_inside(np.nan)),
    "sum above 1": column("probabilities", one_inside(1.5)),
    "NaN in weights": column("weight", one_value(np.nan)),
    "negative weight": column("weight", one_value(-1.0)),
    "infinite weight": column("weight", one_value(np.inf)),
    "negative offset": column("points", one_offset(-3)),
    "huge offset": column("points", one_offset(10**12)),
    "negative offset of probabilities": column("probabilities", one_offset(-3)),
    "huge offset of probabilities": column("probabilities", one_offset(10**12)),
    "node without points": lambda columns: columns.update(
        points=one_offset(np.array(columns["points"].offsets)[4])(columns["points"])
    ),
    "other lengths of probabilities": lambda columns: columns.update(
        probabilities=one_offset(np.array(columns["probabilities"].offsets)[5] - 1, 5)(columns["probabilities"])
    ),
    "points are numbers": column("points", all_the_same(1.0)),
    "points are text": column("points", all_the_same("here")),
    "points are lists of text": column("points", all_the_same(["here"])),
    "points are lists of numbers": column("points", all_the_same([1.0])),
    "points of no fixed dimension": column("points", all_the_same([[1.0, 2.0]])),
    "points are null": column("points", all_the_same(None)),
    "one node is null": column("points", one_null),
    "probabilities are numbers": column("probabilities", all_the_same(1.0)),
    "probabilities are text": column("probabilities", all_the_same("likely")),
    "probabilities are null": column("probabilities", all_the_same(None)),
    "one node has null probabilities": column("probabilities", one_null),
    "weights are text": column("weight", all_the_same("heavy")),
    "weights are lists": column("weight", all_the_same([1.0])),
    "one weight is null": column("weight", one_null),
    "spreads are text": column("spread", all_the_same("wide")),
    "NaN in spreads": column("spread", one_value(np.nan)),
    "infinite spread": column("spread", one_value(np.inf)),
    "negative spread": column("spread", one_value(-1.0)),
    "NaN in bounds of spreads": column("spread_at_least", one_value(np.nan)),
    "medians are numbers": column("median", all_the_same(1.0)),
    "medians are lists of any length": column("median", all_the_same([1.0, 2.0])),
    "medians with three features": column("median", all_the_same([1.0, 2.0, 3.0], pa.list_(pa.float64(), 3))),
    "medians with one feature": column("median", all_the_same([1.0], pa.list_(pa.float64(), 1))),
    "NaN in medians": column("median", all_the_same([np.nan, 2.0], pa.list_(pa.float64(), 2))),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_nonsense_in_columns_is_an_error(name):
    assert_refused_in_words(forged(columns=BAD_COLUMNS[name]))


STREAM = ("streams", 0)
BAD_HEADERS = {
    "a list": lambda _: [1],
    "a number": lambda _: 3,
    "text": lambda _: "header",
    "nothing": lambda _: {"format": 1},
    "format is text": put("format", value="one"),
    "format is null": put("format", value=None),
    "format 0": put("format", value=0),
    "no clusters": put("n_clusters", value=0),
    "clusters are text": put("n_clusters", value="2"),
    "more clusters than the size allows": put("n_clusters", value=3),
    "negative size": put("size", value=-8),
    "size is text": put("size", value="8"),
    "size is no whole number": put("size", value=8.5),
    "other preset": put("preset", value="fast"),
    "preset is a list": put("preset", value=["default"]),
    "no streams": put("streams", value=[]),
    "streams are a number": put("streams", value=3),
    "streams are numbers": put("streams", value=[3]),
    "a key with more": put(*STREAM, "key", "more", value=1),
    "a key with less": put(*STREAM, "key", value={"number": 0}),
    "negative seed": put(*STREAM, "key", "seed", value=-1),
    "seed is text": put(*STREAM, "key", "seed", value="a"),
    "negative shard": put(*STREAM, "key", "number", value=-1),
    "negative height": put(*STREAM, "key", "height", value=-1),
    "huge height": put(*STREAM, "key", "height", value=10**6),
    "negative generation": put(*STREAM, "key", "generation", value=-1),
    "negative count": put(*STREAM, "n_digested", value=-64),
    "count is text": put(*STREAM, "n_digested", value="64"),
    "count of no whole leaves": put(*STREAM, "n_digested", value=65),
    "mass is text": put(*STREAM, "totals", "mass", value="1"),
    "mass is NaN": put(*STREAM, "totals", "mass", value=float("nan")),
    "mass is infinite": put(*STREAM, "totals", "mass", value=float("inf")),
    "negative mass": put(*STREAM, "totals", "mass", value=-1.0),
    "totals are a list": put(*STREAM, "totals", value=[1.0, 2.0, 3.0]),
    "stream out of range": put("parts", 0, 0, value=7),
    "negative stream": put("parts", 0, 0, value=-1),
    "level below all": put("parts", 0, 1, value=-7),
    "level of a long stream": put("parts", 0, 1, value=100_000),
    "part with too many nodes": put("parts", 0, 2, value=9),
    "part with too few nodes": put("parts", 0, 2, value=7),
    "part with a negative number of nodes": put("parts", 0, 2, value=-8),
    "part with no whole number of nodes": put("parts", 0, 2, value=8.0),
    "parts are numbers": put("parts", value=[1, 2]),
    "no parts": put("parts", value=[]),
    "two buffers": lambda header: header["parts"][0].__setitem__(1, _arrow.IN_BUFFER),
    "no audit keys": put("audit_keys", value=[]),
    "one audit key too few": lambda header: header["audit_keys"].pop() and None,
    "one audit key too many": lambda header: header["audit_keys"].append(1e9),
    "audit keys are text": put("audit_keys", value="keys"),
    "audit keys are null": put("audit_keys", value=None),
    "audit keys are lists": lambda header: header.update(audit_keys=[[key] for key in header["audit_keys"]]),
    "an audit key is NaN": put("audit_keys", 0, value=float("nan")),
    "an audit key is negative": put("audit_keys", 0, value=-1.0),
    "an audit key is no number of float64": put("audit_keys", 0, value=10**400),
    "audit keys out of order": lambda header: header["audit_keys"].reverse(),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_nonsense_in_the_header_is_an_error(name):
    assert_refused_in_words(forged(header=BAD_HEADERS[name]))


def assert_refused_in_words(data):
    with pytest.raises(InputError) as caught:
        Summary.from_bytes(data)
    assert len(str(caught.value)) > 20


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "{}", "null", '"probi"', "\0"])
def test_a_header_that_is_no_header_is_an_error(text):
    table = pa.ipc.open_file(pa.BufferReader(DATA)).read_all()
    metadata = {"probi": text, "checksum": _arrow.NO_CHECKSUM}
    assert_refused_in_words(signed(written(table.replace_schema_metadata(metadata))))


def test_flipped_bits_with_a_right_checksum_are_errors_or_other_numbers():
    # Not what an accident does; but no bytes may raise anything else than an InputError.
    rng = np.random.default_rng(1)
    n_refused = 0
    for at, bit in zip(rng.choice(len(DATA), 600, replace=False), rng.integers(8, size=600), strict=True):
        damaged = bytearray(DATA)
        damaged[at] ^= 1 << bit
        try:
            Summary.from_bytes(signed(bytes(damaged)))
        except InputError:
            n_refused += 1
    assert n_refused > 20


def test_a_newer_format_says_so():
    with pytest.raises(InputError, match=r"format 2, but this version of probi reads up to 1"):
        Summary.from_bytes(forged(header=put("format", value=2)))


def test_a_newer_format_may_look_quite_different():
    table = pa.table({"all": ["different"]})
    metadata = {"probi": json.dumps({"format": 3}), "checksum": _arrow.NO_CHECKSUM}
    with pytest.raises(InputError, match="format 3"):
        Summary.from_bytes(signed(written(table.replace_schema_metadata(metadata))))


@pytest.mark.parametrize("what", [None, "text", 7, [1, "a"]])
def test_what_is_no_bytes_is_refused(what):
    with pytest.raises((InputError, TypeError)):
        Summary.from_bytes(what)


def test_keys_are_as_they_were():
    # What random numbers depend on: another name or order in a file would change all that is read afterwards.
    assert Summary.from_bytes(DATA)._streams[0].key == Key(number=0, height=0, generation=0, seed=0)
    again = pickled(summarized(certain(30), shard=9, random_state=5))
    assert again._streams[0].key == Key(9, 0, 0, 5)


def test_a_loaded_summary_is_solved_alike():
    summary = summarized(uncertain(700))
    first, second = (solve(one, 2, random_state=0) for one in (summary, pickled(summary)))
    assert_array_equal(first.centers, second.centers)
    assert first.cost == second.cost
