"""Tables of any library, in any layout: the same nodes."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import LAYOUTS, as_nodes, assert_same, columns_of, options_of, some_nodes

import probi.io
from probi import Nodes
from probi.errors import InputError, InputWarning


def arrow(columns):
    return pa.table(columns)


def arrow_in_chunks(columns):
    table = pa.table(columns)
    return pa.concat_tables([table.slice(start, 3) for start in range(0, max(1, table.num_rows), 3)])


def of_pandas(columns):
    return pd.DataFrame(columns)


def of_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def of_duckdb(columns):
    return pytest.importorskip("duckdb").from_arrow(pa.table(columns))


LIBRARIES = [arrow, arrow_in_chunks, of_pandas, of_polars, of_duckdb]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ids", ["int", "str"])
def test_the_same_nodes_from_every_library(library, layout, ids):
    plain = some_nodes(layout, ids=ids)
    table = library(columns_of(plain, layout))
    assert_same(Nodes.from_table(table, **options_of(layout)), as_nodes(plain))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([datetime.date(2024, 1, 1), datetime.date(1969, 12, 31)], "datetime64[D]"),
        ([datetime.datetime(2024, 1, 1, 12, 30, 0, 5), datetime.datetime(1900, 1, 1)], "datetime64[us]"),
        ([1.5, -0.25], "float64"),
        ([True, False], "bool"),
        (["é", "ß\n"], "object"),
        ([b"\xff", b""], "object"),
        ([-(2**63), 2**63 - 1], "int64"),
    ],
)
def test_ids_of_any_kind_have_one_dtype_whatever_the_library(library, values, dtype):
    table = library({"id": [values[0], values[0], values[1]], "x": [1.0, 2.0, 3.0]})
    nodes = Nodes.from_table(table, "long")
    assert nodes.ids.dtype == np.dtype(dtype)
    assert nodes.ids.tolist() == values
    assert nodes.offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize("type", ["int8", "uint8", "int16", "int32", "uint32"])
def test_small_integers_as_ids_are_int64(type):
    nodes = Nodes.from_table(pa.table({"id": pa.array([1, 1, 2], type), "x": [1.0, 2.0, 3.0]}), "long")
    assert nodes.ids.dtype == np.int64


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_as_ids_are_in_microseconds(unit, zone):
    times = np.array(["2024-03-31T00:00:00", "2024-03-31T00:00:01"], f"datetime64[{unit}]")
    column = pa.array(times).cast(pa.timestamp(unit, zone))
    nodes = Nodes.from_table(pa.table({"id": column, "x": [1.0, 2.0]}), "long")
    assert nodes.ids.dtype == "datetime64[us]"
    assert nodes.ids.tolist() == times.astype("datetime64[us]").tolist()


def test_large_unsigned_ids_stay():
    nodes = Nodes.from_table(pa.table({"id": pa.array([2**64 - 1, 0], "uint64"), "x": [1.0, 2.0]}), "long")
    assert nodes.ids.tolist() == [2**64 - 1, 0]


def dictionary_arrow():
    return pa.table({"id": pa.array(["a", "a", "b"]).dictionary_encode(), "x": [1.0, 2.0, 3.0]})


def dictionary_pandas():
    return pd.DataFrame({"id": pd.Categorical(["a", "a", "b"]), "x": [1.0, 2.0, 3.0]})


def dictionary_polars():
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"id": polars.Series(["a", "a", "b"], dtype=polars.Categorical), "x": [1.0, 2.0, 3.0]})


def dictionary_duckdb():
    return pytest.importorskip("duckdb").sql(
        "select unnest(['a','a','b'])::enum('a','b') as id, unnest([1.0::double, 2, 3]) as x"
    )


@pytest.mark.parametrize("make", [dictionary_arrow, dictionary_pandas, dictionary_polars, dictionary_duckdb])
def test_dictionary_ids_are_spelled_out(make):
    expected = Nodes([[1.0], [2.0], [3.0]], None, [0, 2, 3], ids=np.array(["a", "b"], object))
    assert_same(Nodes.from_table(make(), "long"), expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_ids_of_several_columns_are_a_structured_array(library):
    table = library({"u": [1, 1, 1], "v": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
    nodes = Nodes.from_table(table, "long", id=["u", "v"])
    assert nodes.ids.dtype.names == ("u", "v")
    assert [nodes.ids.dtype[name] for name in ("u", "v")] == [np.int64, object]
    assert nodes.ids.tolist() == [(1, "a"), (1, "b")]
    assert nodes.offsets.tolist() == [0, 2, 3]
    assert Nodes.from_table(table, "long", id=["v", "u"]).offsets.tolist() == [0, 2, 3]


POINTS = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
PAIR = pa.list_(pa.float64(), 2)


@pytest.mark.parametrize(
    "type",
    [
        pa.list_(PAIR), pa.large_list(PAIR), pa.list_(pa.list_(pa.float64())), pa.list_(pa.list_(pa.int64())),
        pa.large_list(pa.large_list(pa.float64())),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("cut", [False, True])
def test_lists_of_points_of_all_kinds(type, cut):
    values = [[[9.0, 9.0]], *POINTS, [[8.0, 8.0]]] if cut else POINTS
    table = pa.table({"points": pa.array(values, type)})
    table = table.slice(1, 2) if cut else table
    assert_same(Nodes.from_table(table), Nodes([[1.0, 2], [3, 4], [5, 6]], None, [0, 2, 3]))


def test_points_in_lists_of_one_size():
    table = pa.table({"points": pa.array([POINTS[0]] * 2, pa.list_(PAIR, 2))})
    assert_same(Nodes.from_table(table), Nodes([[1.0, 2], [3, 4], [1, 2], [3, 4]], None, [0, 2, 4]))


@pytest.mark.parametrize("make", [pa.list_, pa.large_list, lambda of: pa.list_(of, 2)])
def test_one_list_column_a_feature(make):
    of = make(pa.float64())
    table = pa.table({"x": pa.array([[1, 3], [5, 6]], of), "y": pa.array([[2, 4], [6, 7]], of), "p": [[0.5, 0.5]] * 2})
    assert_same(Nodes.from_table(table), Nodes([[1.0, 2], [3, 4], [5, 6], [6, 7]], [0.5] * 4, [0, 2, 4]))


def test_polars_arrays_and_duckdb_lists():
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    expected = Nodes([[1.0, 2], [3, 4], [5, 6]], None, [0, 2, 3])
    frame = polars.DataFrame({"points": polars.Series(POINTS, dtype=polars.List(polars.Array(polars.Float64, 2)))})
    assert_same(Nodes.from_table(frame), expected)
    assert_same(
        Nodes.from_table(duckdb.sql("select unnest([[[1.0,2],[3,4]],[[5,6]]])::double[2][] as points")), expected
    )


def test_a_feature_may_be_text_or_decimal_where_it_is_named():
    table = pa.table({"x": [" 1.5", "-2e3"], "y": pa.array(["1.25", "3"]).cast(pa.decimal128(5, 2))})
    assert Nodes.from_table(table, features=["x", "y"]).points.tolist() == [[1.5, 1.25], [-2000.0, 3.0]]


def test_text_that_is_no_number_is_told():
    with pytest.raises(InputError, match="'zwei' where numbers are expected"):
        Nodes.from_table(pa.table({"x": ["1", "zwei"]}), features=["x"])


@pytest.mark.parametrize(
    ("types", "dtype"),
    [
        (["float", "float"], "float32"), (["float", "double"], "float64"), (["int16", "bool"], "float32"),
        (["int32"], "float64"), (["halffloat", "uint8"], "float32"),
    ],
)  # fmt: skip
def test_the_smallest_dtype_that_holds_all_values(types, dtype):
    values = {"bool": [True, False], "halffloat": np.array([1, 2], np.float16)}
    table = pa.table({f"x{j}": pa.array(values.get(type, [1, 2]), type) for j, type in enumerate(types)})
    assert Nodes.from_table(table).dtype == dtype


def test_groups_leave_out_an_incomplete_end():
    nodes = Nodes.from_table(pa.table({"x": [0.0, 1, 2, 3, 4]}), group_size=2)
    assert nodes == Nodes([[0.0], [1], [2], [3]], None, [0, 2, 4])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_table_without_rows(layout):
    table = pa.table(columns_of(some_nodes(layout), layout)).slice(0, 0)
    if layout == "nested":
        table = table.set_column(1, "points", pa.array([], pa.list_(PAIR)))
    nodes = Nodes.from_table(table, **options_of(layout))
    assert nodes.shape == (0, 2)


def test_pandas_index():
    frame = pd.DataFrame({"id": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
    expected = Nodes([[1.0], [2.0], [3.0]], None, [0, 2, 3], ids=np.array(["a", "b"], object))
    assert_same(Nodes.from_table(frame.set_index("id"), "long"), expected)
    # The numbers of rows after a filter are no feature, and no column that one is told of.
    assert Nodes.from_table(frame[["x"]][frame["x"] > 1]).points.tolist() == [[2.0], [3.0]]
    assert Nodes.from_table(frame[["x"]].iloc[[2, 0, 1]]).points.tolist() == [[3.0], [1.0], [2.0]]


@pytest.mark.parametrize("value", [None, float("nan")])
def test_an_id_that_is_missing_is_an_error(value):
    table = pa.table({"id": [1.0, value, 2.0], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match=r"Row 1 .* has no id in id"):
        Nodes.from_table(table, "long")


def test_rows_of_a_node_must_stand_together_and_agree_on_the_weight():
    table = pa.table({"id": [1, 2, 1], "x": [1.0, 2.0, 3.0], "weight": [1.0, 2.0, 1.0]})
    with pytest.raises(InputError, match="Rows of node 1 are not contiguous"):
        Nodes.from_table(table, "long", weight="weight")
    with pytest.raises(InputError, match=r"different weights.*weight=False"):
        Nodes.from_table(table.set_column(0, "id", pa.array([1, 1, 1])), "long", weight="weight")


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"x": [[1.0, 2.0]], "y": [[1.0]]}, "'y' and 'x' have different lengths"),
        ({"x": [[1.0, 2.0]], "p": [[1.0]]}, "'p' and 'x' have different lengths"),
        ({"x": [[1.0], []]}, "empty or missing"),
        ({"x": [[1.0], None]}, "empty or missing"),
        ({"points": [[[1.0, 2.0]], [[1.0]]]}, "not have 2 coordinates"),
        ({"points": [[[1.0, 2.0]], [None]]}, "not have 2 coordinates"),
        ({"x": [1.0, None]}, "nan in feature 0"),
    ],
)
def test_what_is_no_node_is_an_error(columns, match):
    with pytest.raises(InputError, match=match):
        Nodes.from_table(pa.table(columns))


def test_rows_that_share_an_id_are_asked_about():
    table = pa.table({"id": ["b", "a", "a"], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match=r"id 'a'.*realizations of one node.*layout=\"long\".*layout=\"points\""):
        Nodes.from_table(table)
    assert len(Nodes.from_table(table, "long")) == 2
    assert len(Nodes.from_table(table, "points")) == 3
    assert len(Nodes.from_table(table, id=False, features=["x"])) == 3
    assert len(Nodes.from_table(table[:2])) == 2
    two = pa.table({"u": [1, 1, 2], "v": [1, 1, 1], "x": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="have the id 1, 1"):
        Nodes.from_table(two, id=["u", "v"])


def test_what_was_guessed_is_said():
    table = pa.table({"name": ["a", "b"], "lon": [1.0, 2.0], "lat": [1.0, 2.0]})
    with pytest.warns(
        InputWarning, match=r"layout points .*; left out: name.*features=\[.*use\. lon.*geo.to_sphere"
    ) as caught:
        Nodes.from_table(table)
    assert (len(caught), caught[0].filename) == (1, __file__)
    assert Nodes.from_table(table, features=["lon", "lat"]).n_features == 2  # said, so nothing is to be told


def test_what_is_no_table_is_an_error():
    with pytest.raises(InputError, match="dict is not a table"):
        Nodes.from_table({"x": [1.0]})


def test_a_record_batch_and_a_capsule_are_tables():
    batch = pa.record_batch({"x": [1.0, 2.0]})

    class Capsule:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.table(batch).__arrow_c_stream__(requested_schema)

    assert Nodes.from_table(batch) == Nodes.from_table(Capsule()) == Nodes.from_points([[1.0], [2.0]])


def test_numbers_that_only_mean_proportions():
    table = pa.table({"id": ["a", "a", "b"], "x": [0.0, 1.0, 5.0], "p": [3.0, 1.0, 7.0]})
    assert Nodes.from_table(table, probabilities="normalize").probabilities.tolist() == [0.75, 0.25, 1.0]
    for options, match in [
        ({"probabilities": "normalise"}, "must be one of keep, normalize"),
        ({"probabilities": "normalize", "layout": "points"}, "no column of probabilities to normalize"),
    ]:
        with pytest.raises(InputError, match=match):
            Nodes.from_table(table, **options)


def test_scattered_rows_of_a_node_are_gathered():
    table = pa.table({"u": ["b", "a", "b", "a"], "v": [1, 1, 1, 2], "x": [1.0, 2.0, 3.0, 4.0]})
    nodes = Nodes.from_table(table, "long", id=["u", "v"], gather=True)
    assert nodes.ids.tolist() == [("b", 1), ("a", 1), ("a", 2)]
    assert (nodes.points.ravel().tolist(), nodes.offsets.tolist()) == ([1.0, 3.0, 2.0, 4.0], [0, 2, 3, 4])
    with pytest.raises(InputError, match=r"Rows of node 'b' are not contiguous.*gather=True"):
        Nodes.from_table(table, "long", id="u", features=["x"])


# Beside whole nodes one that lacks a value, and one of which nothing is left.
LACKING = {"id": [1, 1, 2, 2, 3, 4], "x": [0.0, 1.0, None, 8.0, float("nan"), 9.0], "y": [0.0, 0.0, 5.0, 5.0, 5.0, 5.0]}


SOME_LEFT = [("long", "skip-row"), ("long", "absent"), ("nested", "absent")]  # of the second node


@pytest.mark.parametrize("layout", ["long", "nested", "points"])
@pytest.mark.parametrize("missing", ["skip-row", "skip-node", "absent"])
@pytest.mark.parametrize("p", [False, True])
def test_what_lacks_a_value_as_in_files(tmp_path, layout, missing, p):
    columns = LACKING | ({"p": [0.5, 0.5, 0.25, 0.75, 1.0, 1.0]} if p and layout != "points" else {})
    if layout == "nested":
        nodes = [np.flatnonzero(np.equal(columns["id"], node)) for node in (1, 2, 3, 4)]
        columns = {name: [[column[i] for i in node] for node in nodes] for name, column in columns.items()}
        columns["id"] = [1, 2, 3, 4]
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "x.parquet")
    options = {"layout": layout, "missing": missing}
    expected = Nodes.concat(list(probi.io.read(tmp_path / "x.parquet", **options, max_bad=1.0)))
    assert_same(Nodes.from_table(table, **options), expected)
    whole = {"points": [1, 1, 2, 4], "nested": [1, 4], "long": [1, 4]}[layout]
    assert expected.ids.tolist() == ([1, 2, 4] if (layout, missing) in SOME_LEFT else whole)


def test_words_for_missing_values():
    for missing, probabilities, match in [
        ("skip", "keep", "must be one of error, skip-row, skip-node, absent"),
        ("absent", "normalize", "contradict each other"),
    ]:
        with pytest.raises(InputError, match=match):
            Nodes.from_table(pa.table(LACKING), "long", missing=missing, probabilities=probabilities)
