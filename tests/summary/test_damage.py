"""Damaged, foreign and forged summaries: an error in words, whatever the bytes."""

import hashlib
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import summarized, uncertain
from strategies import examples

from probi import InputError, Summary
from probi.summary import file

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


@examples(50)
@given(st.binary())
def test_any_other_bytes_are_no_summary(data):
    assert_refused(data)


def written(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=file.COMPRESSED) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def signed(data):
    """The same bytes with the checksum that belongs to them."""
    plain = file.CHECKSUM.sub(file.NO_CHECKSUM, data)
    return file.CHECKSUM.sub(b"probi-sha256:" + hashlib.sha256(plain).hexdigest().encode(), plain)


def test_a_foreign_arrow_file_is_no_summary():
    table = pa.table({"points": [1.0, 2.0]})
    assert_refused(written(table))
    assert_refused(signed(written(table.replace_schema_metadata({"checksum": file.NO_CHECKSUM}))))
    assert_refused(signed(b"not even Arrow" + file.NO_CHECKSUM))


# -- nonsense with a right checksum -----------------------------------------------------------------------------------


def forged(columns=lambda columns: columns, header=lambda header: header, data=DATA):
    """A small summary whose columns (a dict of arrays) and header (a dict) are changed in place or replaced."""
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all().combine_chunks()
    found = {name: table[name].combine_chunks() for name in table.column_names}
    parameters = json.loads(table.schema.metadata[b"probi"])
    found = columns(found) or found
    parameters = header(parameters) or parameters
    metadata = {"probi": json.dumps(parameters), "checksum": file.NO_CHECKSUM}
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
    assert Summary.from_bytes(forged(header=put("config", "n_clusters", value=1))).n_clusters == 1


BAD_COLUMNS = {
    "no points": without("points"),
    "no probabilities": without("probabilities"),
    "no weight": without("weight"),
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
    "total probabilities are text": column("total_probability", all_the_same("likely")),
    "one total probability is null": column("total_probability", one_null),
    "one total probability is no sum": column("total_probability", one_value(0.123)),
}

# Medians are drawn in the paper's preset, and only there kept in the file.
BAD_PAPER_COLUMNS = {
    "no medians": without("paper_median"),
    "no spreads": without("paper_spread"),
    "spreads are text": column("paper_spread", all_the_same("wide")),
    "NaN in spreads": column("paper_spread", one_value(np.nan)),
    "infinite spread": column("paper_spread", one_value(np.inf)),
    "negative spread": column("paper_spread", one_value(-1.0)),
    "medians are numbers": column("paper_median", all_the_same(1.0)),
    "medians are lists of any length": column("paper_median", all_the_same([1.0, 2.0])),
    "medians with three features": column("paper_median", all_the_same([1.0, 2.0, 3.0], pa.list_(pa.float64(), 3))),
    "medians with one feature": column("paper_median", all_the_same([1.0], pa.list_(pa.float64(), 1))),
    "NaN in medians": column("paper_median", all_the_same([np.nan, 2.0], pa.list_(pa.float64(), 2))),
}


@pytest.mark.parametrize("name", BAD_COLUMNS)
def test_nonsense_in_columns_is_an_error(name):
    assert_refused_in_words(forged(columns=BAD_COLUMNS[name]))


@pytest.fixture(scope="module")
def of_the_paper():
    return summarized(uncertain(700), preset="paper").to_bytes()


@pytest.mark.parametrize("name", BAD_PAPER_COLUMNS)
def test_nonsense_in_columns_of_the_paper_is_an_error(name, of_the_paper):
    assert_refused_in_words(forged(columns=BAD_PAPER_COLUMNS[name], data=of_the_paper))


SUMMARY = ("summaries", 0)
STREAM = (*SUMMARY, "streams", 0)
BAD_HEADERS = {
    "a list": lambda _: [1],
    "a number": lambda _: 3,
    "text": lambda _: "header",
    "nothing": lambda _: {"format": 1},
    "format is text": put("format", value="one"),
    "format is null": put("format", value=None),
    "format 0": put("format", value=0),
    "no clusters": put("config", "n_clusters", value=0),
    "clusters are text": put("config", "n_clusters", value="2"),
    "more clusters than the size allows": put("config", "n_clusters", value=3),
    "negative size": put("config", "size", value=-8),
    "size is text": put("config", "size", value="8"),
    "size is no whole number": put("config", "size", value=8.5),
    "other preset": put("config", "preset", value="fast"),
    "preset is a list": put("config", "preset", value=["default"]),
    "no config": put("config", value=None),
    "a config with more": put("config", "more", value=1),
    "a leaf of one node": put("config", "leaf", value=1),
    "no fan-in": put("config", "fan_in", value=-1),
    "no summaries": put("summaries", value=[]),
    "two summaries": lambda header: header["summaries"].append(header["summaries"][0] | {"period": 1, "parts": []}),
    "a summary of a period": put(*SUMMARY, "period", value=3),
    "summaries are a number": put("summaries", value=3),
    "points are said to be whole numbers": put(*SUMMARY, "dtype", value="int64"),
    "points are said to be anything": put(*SUMMARY, "dtype", value="some"),
    "no streams": put(*SUMMARY, "streams", value=[]),
    "streams are a number": put(*SUMMARY, "streams", value=3),
    "streams are numbers": put(*SUMMARY, "streams", value=[3]),
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
    "too few nodes for its leaves": put(*STREAM, "n_digested", value=15),
    "too many nodes for its leaves": put(*STREAM, "n_digested", value=10**6),
    "more leaves than nodes": put(*STREAM, "leaf_number", value=10**6),
    "negative leaf": put(*STREAM, "leaf_number", value=-1),
    "leaf is text": put(*STREAM, "leaf_number", value="1"),
    "mass is text": put(*STREAM, "totals", "mass", value="1"),
    "mass is NaN": put(*STREAM, "totals", "mass", value=float("nan")),
    "mass is infinite": put(*STREAM, "totals", "mass", value=float("inf")),
    "negative mass": put(*STREAM, "totals", "mass", value=-1.0),
    "no realizations": put("config", "max_realizations", value=0),
    "realizations are text": put("config", "max_realizations", value="8"),
    "a guarantee without theory": put("config", "epsilon", value=0.1),
    "theory without a guarantee": put("config", "preset", value="theory"),
    "what thinning did is a list": put(*STREAM, "thinning", value=[1.0]),
    "what thinning did has more": put(*STREAM, "thinning", "more", value=1.0),
    "variance of thinning is NaN": put(*STREAM, "thinning", "variance", value=float("nan")),
    "negative variance of thinning": put(*STREAM, "thinning", "variance", value=-1.0),
    "thinning moved less than nothing": put(*STREAM, "thinning", "moved", value=-1.0),
    "infinite loss of spread": put(*STREAM, "thinning", "spread_cost", value=float("inf")),
    "totals are a list": put(*STREAM, "totals", value=[1.0, 2.0, 3.0]),
    "stream out of range": put(*SUMMARY, "parts", 0, 0, value=7),
    "negative stream": put(*SUMMARY, "parts", 0, 0, value=-1),
    "level below all": put(*SUMMARY, "parts", 0, 1, value=-7),
    "level of a long stream": put(*SUMMARY, "parts", 0, 1, value=100_000),
    "part with too many nodes": put(*SUMMARY, "parts", 0, 2, value=9),
    "part with too few nodes": put(*SUMMARY, "parts", 0, 2, value=7),
    "part with a negative number of nodes": put(*SUMMARY, "parts", 0, 2, value=-8),
    "part with no whole number of nodes": put(*SUMMARY, "parts", 0, 2, value=8.0),
    "parts are numbers": put(*SUMMARY, "parts", value=[1, 2]),
    "no parts": put(*SUMMARY, "parts", value=[]),
    "two buffers": lambda header: header["summaries"][0]["parts"][0].__setitem__(1, file.IN_BUFFER),
    "no audit keys": put(*SUMMARY, "audit_keys", value=[]),
    "one audit key too few": lambda header: header["summaries"][0]["audit_keys"].pop() and None,
    "one audit key too many": lambda header: header["summaries"][0]["audit_keys"].append(1e9),
    "audit keys are text": put(*SUMMARY, "audit_keys", value="keys"),
    "audit keys are null": put(*SUMMARY, "audit_keys", value=None),
    "audit keys are lists": lambda header: header["summaries"][0].update(
        audit_keys=[[key] for key in header["summaries"][0]["audit_keys"]]
    ),
    "an audit key is NaN": put(*SUMMARY, "audit_keys", 0, value=float("nan")),
    "an audit key is negative": put(*SUMMARY, "audit_keys", 0, value=-1.0),
    "an audit key is no number of float64": put(*SUMMARY, "audit_keys", 0, value=10**400),
    "no audit sizes": put(*SUMMARY, "audit_sizes", value=[]),
    "an audit size is 0": put(*SUMMARY, "audit_sizes", 0, value=0.0),
    "an audit size is NaN": put(*SUMMARY, "audit_sizes", 0, value=float("nan")),
    "audit limit is 0": put("config", "audit_size", value=0),
    "audit limit is text": put("config", "audit_size", value="many"),
    "audit keys out of order": lambda header: header["summaries"][0]["audit_keys"].reverse(),
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
    metadata = {"probi": text, "checksum": file.NO_CHECKSUM}
    assert_refused_in_words(signed(written(table.replace_schema_metadata(metadata))))


@pytest.mark.slow
def test_flipped_bits_with_a_right_checksum_are_errors_or_other_numbers():
    # Not what an accident does; but no bytes may raise anything else than an InputError.
    rng = np.random.default_rng(1)
    n_refused = 0
    for at, bit in zip(rng.choice(len(DATA), 300, replace=False), rng.integers(8, size=300), strict=True):
        damaged = bytearray(DATA)
        damaged[at] ^= 1 << bit
        try:
            Summary.from_bytes(signed(bytes(damaged)))
        except InputError:
            n_refused += 1
    assert n_refused > 10


def test_a_newer_format_says_so():
    with pytest.raises(InputError, match=r"format 9, but this version of probi reads up to 8"):
        Summary.from_bytes(forged(header=put("format", value=9)))


def test_a_newer_format_may_look_quite_different():
    table = pa.table({"all": ["different"]})
    metadata = {"probi": json.dumps({"format": 9}), "checksum": file.NO_CHECKSUM}
    with pytest.raises(InputError, match="format 9"):
        Summary.from_bytes(signed(written(table.replace_schema_metadata(metadata))))


@pytest.mark.parametrize("what", [None, "text", 7, [1, "a"]])
def test_what_is_no_bytes_is_refused(what):
    with pytest.raises((InputError, TypeError)):
        Summary.from_bytes(what)


@pytest.mark.parametrize("about", [None, [], "text", 3])
def test_something_else_about_it_is_refused(about):
    with pytest.raises(InputError, match="not a JSON object"):
        Summary.from_bytes(forged(header=put(*SUMMARY, "about", value=about)))


def test_a_file_of_a_time_without_it_is_read():
    def drop(header):
        del header["summaries"][0]["about"]

    assert Summary.from_bytes(forged(header=drop)).about == {}
