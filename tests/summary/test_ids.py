"""Ids of retained nodes: kept while all nodes have ids of one kind, else dropped for all."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from samples import certain, summarized, uncertain
from summary.test_damage import assert_refused, forged

from probi import Nodes, Summary, Window
from probi.summary import file

NUMBERS = np.arange(400)
TEXTS = np.array([f"n{i}" for i in NUMBERS])
PAIRS = np.empty(400, [("day", "M8[D]"), ("trip number", "U4")])
PAIRS["day"], PAIRS["trip number"] = NUMBERS // 20, TEXTS

# Ids of each kind, in the dtypes in which users may pass them.
KINDS = {
    "whole numbers": [NUMBERS, NUMBERS.astype(np.int32), NUMBERS.astype(np.uint16), NUMBERS.astype(">i8")],
    "large whole numbers": [NUMBERS.astype(np.uint64) + np.uint64(2**63)],
    "numbers": [NUMBERS / 4, (NUMBERS / 4).astype(np.float32)],
    "text": [TEXTS, TEXTS.astype(object), TEXTS.astype("U20"), TEXTS.astype(np.dtypes.StringDType())],
    "days": [NUMBERS.astype("M8[D]"), NUMBERS.astype(">M8[D]")],
    "times": [NUMBERS.astype("M8[ns]")],
    "pairs": [PAIRS, PAIRS.astype([("day", "M8[D]"), ("trip number", "O")])],
}
OF_NO_KIND = [
    TEXTS.astype("S"), NUMBERS.astype("m8[s]"), NUMBERS.astype("M8[h]"), NUMBERS.astype(object), NUMBERS * 1j,
    np.array([*"a" * 399, None]), np.array([*"a" * 399, "\ud800"]), TEXTS.astype([("a", "S4")]),
    np.zeros(400, [("a", "i4", 2)]), np.zeros(400, []),
]  # fmt: skip


def with_ids(some, ids):
    """The same nodes with the first of some ids."""
    ids = None if ids is None else ids[: len(some)]
    return Nodes(some.points, some.probabilities, some.offsets, some.weights, ids)


def assert_ids_belong(nodes, read):
    """Raise unless each node has the points of the node that was read with its id."""
    assert nodes.ids is not None
    index = {id: i for i, id in enumerate(read.ids.tolist())}
    assert len(index) == len(read)
    assert len(nodes) > 0
    same = read.take(np.array([index[id] for id in nodes.ids.tolist()]))
    assert_array_equal(nodes.offsets, same.offsets)
    assert_array_equal(nodes.points, same.points)


@pytest.mark.parametrize(
    ("kind", "preset"), [*((kind, "default") for kind in KINDS), ("text", "paper"), ("text", "theory")]
)
def test_retained_nodes_keep_their_ids(kind, preset):
    options = {"epsilon": 0.9, "delta": 0.1, "size": None} if preset == "theory" else {}
    some = with_ids(uncertain(400), KINDS[kind][0])
    summary = summarized(some, preset=preset, **options)
    for state in (summary, summary.sealed(), Summary.from_bytes(summary.to_bytes())):
        assert_ids_belong(state.coreset(), some)
        assert_ids_belong(state.sample(), some)
    assert Summary.from_bytes(summary.to_bytes()).to_bytes() == summary.to_bytes()


def test_thinned_nodes_keep_their_ids():
    some = with_ids(certain(400), NUMBERS)
    twice = Nodes(np.repeat(some.points, 2, axis=0), None, 2 * some.offsets, some.weights, some.ids)
    summary = summarized(twice, max_realizations=1)
    assert summary.thinning_bound == 0.0
    assert_ids_belong(summary.coreset(), some)


def test_nothing_but_the_ids_depends_on_them():
    some = uncertain(400)
    plain, named = summarized(some), summarized(with_ids(some, TEXTS))
    assert with_ids(named.coreset(), None) == plain.coreset()
    assert with_ids(named.sample(), None) == plain.sample()
    assert named.evaluate(np.zeros((1, 2))) == plain.evaluate(np.zeros((1, 2)))


@pytest.mark.slow
@given(st.data())
def test_the_split_into_batches_and_the_dtype_of_a_kind_do_not_matter(data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    cuts = data.draw(st.lists(st.integers(0, 150), max_size=6).map(sorted))
    some = uncertain(150)
    expected, summary = summarized(with_ids(some, KINDS[kind][0])), Summary(2, 8, random_state=0)
    for start, stop in itertools.pairwise([0, *cuts, 150]):
        ids = KINDS[kind][data.draw(st.integers(0, len(KINDS[kind]) - 1))]
        summary.update(with_ids(some, ids)[start:stop])
    assert summary.to_bytes() == expected.to_bytes()
    assert summary.coreset().ids.dtype == expected.coreset().ids.dtype


# Not the two whose last id is the odd one: without it they are text.
ANY = [None, *OF_NO_KIND[:5], *OF_NO_KIND[7:], *(ids[0] for ids in KINDS.values())]


@pytest.mark.slow
@given(
    st.permutations(range(len(ANY))),
    st.tuples(st.integers(0, 150), st.integers(0, 150)).map(sorted).filter(lambda cuts: 0 < cuts[1] - cuts[0] < 150),
)
def test_ids_of_several_kinds_are_dropped_for_all_nodes(order, cuts):
    first, second = (ANY[i] for i in order[:2])
    some, summary = uncertain(150), Summary(2, 8, random_state=0)
    for ids, part in ((first, slice(cuts[0])), (second, slice(*cuts)), (first, slice(cuts[1], None))):
        summary.update(with_ids(some, ids)[part])
    assert summary.to_bytes() == summarized(some).to_bytes()


@pytest.mark.parametrize("ids", OF_NO_KIND, ids=lambda ids: str(ids.dtype))
def test_ids_of_other_kinds_are_dropped(ids):
    some = uncertain(400)
    assert summarized(with_ids(some, ids)).to_bytes() == summarized(some).to_bytes()


def test_the_callers_ids_may_be_used_again():
    some, ids = uncertain(400), NUMBERS.copy()
    summary = summarized(with_ids(some, ids))
    ids[:] = 0
    assert_ids_belong(summary.coreset(), with_ids(some, NUMBERS))
    assert summary.to_bytes() == summarized(with_ids(some, NUMBERS)).to_bytes()


def test_ids_stay_where_nodes_of_float32_are_widened():
    some = with_ids(uncertain(400), NUMBERS)
    narrow = Nodes(some.points.astype(np.float32), some.probabilities.astype(np.float32), some.offsets, ids=NUMBERS)
    summary = summarized(narrow[:200])
    summary.update(some[200:])
    assert summary.dtype == np.float64
    assert sorted(summary.sample().ids) == NUMBERS[: len(summary.sample())].tolist()


# -- merges -----------------------------------------------------------------------------------------------------------


def shards(*ids):
    """Summaries of 90 nodes each, which have these ids."""
    return [
        summarized(with_ids(uncertain(90, seed=i), values), shard=i, random_state=0) for i, values in enumerate(ids)
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::4])
def test_a_merge_keeps_ids(order):
    ids = [TEXTS[90 * i : 90 * (i + 1)].astype("U4" if i % 2 else object) for i in range(4)]
    parts = shards(*ids)
    first, *others = (parts[i] for i in order)
    for other in others:
        first.merge(other)
    read = Nodes.concat([with_ids(uncertain(90, seed=i), values) for i, values in enumerate(ids)])
    assert_ids_belong(first.coreset(), read)
    assert_ids_belong(first.sample(), read)
    assert Summary.from_bytes(first.to_bytes()).to_bytes() == first.to_bytes()
    one, *more = shards(*ids)
    for other in more:
        one.merge(other)
    assert first.to_bytes() == one.to_bytes()


@pytest.mark.parametrize("others", [None, TEXTS, NUMBERS.astype(np.uint64)], ids=["none", "text", "uint64"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_merge_of_several_kinds_drops_ids(others, order):
    parts, plain = shards(NUMBERS, NUMBERS[100:], others), shards(None, None, None)
    for summaries in (parts, plain):
        summaries[order[0]].merge(summaries[order[1]]).merge(summaries[order[2]])
    assert parts[order[0]].to_bytes() == plain[order[0]].to_bytes()


def test_an_empty_summary_has_no_kind():
    empty = Summary(2, 8, random_state=0, shard=7)
    (some,) = shards(NUMBERS)
    assert empty.merge(some).coreset().ids is not None
    assert_array_equal(some.merge(Summary(2, 8, random_state=0, shard=8)).coreset().ids, empty.coreset().ids)


# -- windows and files ------------------------------------------------------------------------------------------------


def test_a_window_keeps_the_ids_of_each_period():
    some = uncertain(90)
    window = Window(1, 4, n_clusters=2, size=8, random_state=0)
    for period, ids in enumerate([NUMBERS, None, TEXTS, TEXTS[100:].astype(object)]):
        window.update(with_ids(some, ids), period)
    again = Window.from_bytes(window.to_bytes())
    assert again.to_bytes() == window.to_bytes()
    for state in (window, again):
        assert state.summary().coreset().ids is None
        assert_ids_belong(state.summary(last=1).coreset(), with_ids(some, TEXTS[100:]))
        both = with_ids(Nodes.concat([some, some]), np.concatenate([TEXTS[:90], TEXTS[100:190]]))
        assert_ids_belong(state.summary(last=2).coreset(), both)
        state.advance(6)
        assert_ids_belong(state.summary().coreset(), with_ids(some, TEXTS[100:]))


def columns_of(data):
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return table, json.loads(table.schema.metadata[b"probi"])


def test_the_file_holds_a_column_of_ids():
    summary = summarized(with_ids(uncertain(30), TEXTS))
    table, header = columns_of(summary.to_bytes())
    assert header["summaries"][0]["ids"] == "id"
    assert table["id"].to_pylist() == TEXTS[:30].tolist()
    table, header = columns_of(summarized(uncertain(30)).to_bytes())
    assert header["summaries"][0]["ids"] is None
    assert not any(name.startswith("id") for name in table.column_names)


def test_a_leaf_without_mass_still_has_a_kind():
    none_left = with_ids(uncertain(64), TEXTS).with_weights(np.zeros(64))
    summary = Summary.from_bytes(summarized(none_left).to_bytes())
    (stream,) = file.from_bytes(summary.to_bytes(), "summary")[2][None].streams
    assert len(stream.levels[0][0]) == 0
    summary.update(with_ids(uncertain(7), TEXTS))
    assert_array_equal(summary.coreset().ids, TEXTS[:7])


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([None, *range(29)]), pa.array([b"a"] * 30), pa.array([[1]] * 30), pa.array(range(30), pa.int32()),
        pa.array([None, *"a" * 29]), pa.array([{"a": None}] * 30), pa.array([{}] * 30), pa.nulls(30), None,
    ],
    ids=lambda ids: "missing" if ids is None else str(ids.type),
)  # fmt: skip
def test_a_file_with_other_ids_is_refused(ids):
    data = summarized(with_ids(uncertain(30), NUMBERS)).to_bytes()
    Summary.from_bytes(forged(data=data))

    def change(columns):
        del columns["id"]
        return columns if ids is None else columns | {"id": ids}

    assert_refused(forged(change, data=data))
