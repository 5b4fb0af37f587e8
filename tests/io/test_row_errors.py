"""Each kind of fault, in each layout where it can be: the error says where; skipping leaves out exactly that node."""

import copy
import re

import numpy as np
import pyarrow as pa
import pytest
from table_files import Plain, as_nodes, assert_same, batches_of, columns_of, joined, read_nodes, tiny, write

import probi.io
from probi import Nodes
from probi.errors import InputError
from probi.io.rows import find_row_errors
from probi.tables.columns import Columns

NAN, INF = float("nan"), float("inf")

# Rows of the long layout: a is in 1 and 2, b in 3, c in 4, 5 and 6, d in 7.
PLAIN = [
    Plain("a", 1.0, [((0.0, 1.0), 0.5), ((2.0, 3.0), 0.25)]),
    Plain("b", 3.0, [((4.0, 5.0), 1.0)]),
    Plain("c", 2.0, [((6.0, 7.0), 0.25), ((8.0, 9.0), 0.25), ((1.0, 2.0), 0.5)]),
    Plain("d", 1.0, [((5.0, 5.0), 0.5)]),
]
POINTS = [Plain(node.id, node.weight, [(node.realizations[0][0], 1.0)]) for node in PLAIN]
GROUPS = [Plain(None, 1.0, [((float(i + j), 1.0), 1 / 3) for j in range(3)]) for i in range(4)]

LARGE = "has 1e+200 in column 'x1', so large that distances overflow"
NO_VALUE = "has no value in column 'x1'"
RANGE = "must not be negative"
BAD, MISSING = "with --on-bad skip", "skip such rows or nodes with --missing skip-row"


def check(path, plain, number, rows, row, reason, advice=BAD, line=True, **options):
    """The node ``number`` is bad because of ``row``, and is in ``rows``; rows count from 1."""
    where = f"{path}, row {row} (line {row + 1})" if line and path.suffix == ".csv" else f"{path}, row {row}"
    with pytest.raises(InputError, match=rf"{re.escape(where)}( of node \S+)? {re.escape(reason)}") as error:
        read_nodes(path, **options)
    assert advice in str(error.value)
    batches = batches_of(path, on_bad="skip", **options)
    assert_same(joined(batches), as_nodes(plain[:number] + plain[number + 1 :]))
    rejected = {r.row: r for batch in batches for r in batch.rejected}
    assert sorted(rejected) == rows
    assert all(r.file == str(path) for r in rejected.values())
    assert rejected[row].reason == reason
    assert {rejected[r].reason for r in rows if r != row} <= {f"belongs to a node that is left out for row {row}"}
    counts = batches[-1].counts
    assert (counts.rejected, counts.missing, counts.nodes) == (len(rows), 0, len(plain) - 1)


def planted(plain, layout, changes):
    columns = copy.deepcopy(columns_of(plain, layout))
    for name, row, value in changes:
        columns[name][row - 1] = value
    return columns


@pytest.fixture(params=["whole", "tiny"])
def chunk(request, monkeypatch):
    if request.param == "tiny":
        tiny(monkeypatch, 2, block=40)


VALUES = [
    (None, NO_VALUE, MISSING),
    (NAN, NO_VALUE, MISSING),
    (INF, "has inf in column 'x1'", BAD),
    (-INF, "has -inf in column 'x1'", BAD),
    (1e200, LARGE, BAD),
]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize(("value", "reason", "advice"), VALUES)
@pytest.mark.usefixtures("chunk")
def test_values_in_rows(tmp_path, format, value, reason, advice):
    long = write(tmp_path / f"long.{format}", planted(PLAIN, "long", [("x1", 5, value)]))
    check(long, PLAIN, 2, [4, 5, 6], 5, reason, advice)
    points = write(tmp_path / f"points.{format}", planted(POINTS, "points", [("x1", 3, value)]))
    check(points, POINTS, 2, [3], 3, reason, advice, layout="points", weight="weight")
    groups = write(tmp_path / f"groups.{format}", planted(GROUPS, "groups", [("x1", 5, value)]))
    check(groups, GROUPS, 1, [4, 5, 6], 5, reason, advice, group_size=3)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize(("value", "reason", "advice"), VALUES)
@pytest.mark.usefixtures("chunk")
def test_values_in_lists(tmp_path, format, value, reason, advice):
    if format == "csv" and value is NAN:
        value = None  # JSON has no NaN in it
    columns = planted(PLAIN, "nested", [])
    columns["points"][2][1][1] = value
    check(write(tmp_path / f"a.{format}", columns), PLAIN, 2, [3], 3, reason, advice)
    columns = planted(PLAIN, "nested columns", [])
    columns["x1"][2][1] = value
    check(write(tmp_path / f"b.{format}", columns), PLAIN, 2, [3], 3, reason, advice)


SUM = "begins a node (3 rows) whose probabilities sum to 1.65, above 1"


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("changes", "row", "reason", "advice"),
    [
        ([("probability", 5, -0.25)], 5, f"has -0.25 in column 'probability', which {RANGE}", BAD),
        ([("probability", 5, INF)], 5, "has inf in column 'probability'", BAD),
        ([("probability", 5, None)], 5, "has no value in column 'probability'", MISSING),
        ([("probability", 5, 0.9)], 4, SUM, BAD),
        ([("probability", 5, 0.250002)], 4, SUM.replace("1.65", "1.000002"), BAD),
        (
            [("probability", r, 0.0) for r in (4, 5, 6)],
            4,
            "begins a node whose probabilities are all 0",
            BAD,
        ),
        ([("weight", 5, 3.0)], 5, "has weight 3, but its node's first row has 2", BAD),
        ([("weight", r, -2.0) for r in (4, 5, 6)], 4, f"has -2 in column 'weight', which {RANGE}", BAD),
        ([("weight", 6, None)], 6, "has no value in column 'weight'", MISSING),
        ([("weight", 4, INF)], 4, "has inf in column 'weight'", BAD),
        ([("id", 5, None)], 5, "has no id in column 'id'", MISSING),
    ],
)
@pytest.mark.usefixtures("chunk")
def test_faults_of_the_long_layout(tmp_path, format, changes, row, reason, advice):
    path = write(tmp_path / f"x.{format}", planted(PLAIN, "long", changes))
    if len(changes) > 1 and "weight" in reason:  # each of the rows has the fault
        with pytest.raises(InputError, match=re.escape(reason)):
            read_nodes(path)
        batches = batches_of(path, on_bad="skip")
        assert_same(joined(batches), as_nodes(PLAIN[:2] + PLAIN[3:]))
        assert [(r.row, r.reason) for b in batches for r in b.rejected] == [(r, reason) for r in (4, 5, 6)]
    else:
        check(path, PLAIN, 2, [4, 5, 6], row, reason, advice)


def test_a_small_excess_is_one_in_float64_and_none_in_float32(tmp_path):
    path = write(tmp_path / "x.parquet", planted(PLAIN, "long", [("probability", 5, 0.250002)]))
    assert len(read_nodes(path, dtype="float32")) == 4
    assert len(read_nodes(path, on_bad="skip")) == 3


def test_what_does_not_fit_in_float32(tmp_path):
    path = write(tmp_path / "x.parquet", planted(POINTS, "points", [("x1", 3, 1e39)]))
    assert len(read_nodes(path, layout="points", weight="weight")) == 4
    with pytest.raises(InputError, match=r"row 3 of node .* has 1e\+39 in column 'x1', so large"):
        read_nodes(path, layout="points", weight="weight", dtype="float32")
    assert len(read_nodes(path, layout="points", weight="weight", dtype="float32", on_bad="skip")) == 3


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("name", "value", "reason", "advice"),
    [
        ("probability", [0.25, 0.25], "has 2 values in column 'probability', but 3 in 'points'", BAD),
        ("probability", [0.5, 0.5, 0.5], "is a node (3 rows) whose probabilities sum to 1.5, above 1", BAD),
        ("probability", [0.0, 0.0, 0.0], "is a node whose probabilities are all 0", BAD),
        ("probability", [0.5, -0.5, 0.5], f"has -0.5 in column 'probability', which {RANGE}", BAD),
        ("probability", None, "has no list in column 'probability'", MISSING),
        ("probability", [], "has an empty list in column 'probability'", BAD),
        ("probability", [0.25, None, 0.25], "has no value in column 'probability'", MISSING),
        ("points", None, "has no list in column 'points'", MISSING),
        ("points", [], "has an empty list in column 'points'", BAD),
        ("points", [[1.0, 2.0], [1.0], [1.0, 2.0]], "has a point with 1 coordinates, not 2", BAD),
        ("points", [[1.0, 2.0], None, [1.0, 2.0]], "has a point with no coordinates, not 2", BAD),
        ("weight", -2.0, f"has -2 in column 'weight', which {RANGE}", BAD),
        ("weight", None, "has no value in column 'weight'", MISSING),
        ("id", None, "has no id in column 'id'", MISSING),
    ],
)
@pytest.mark.usefixtures("chunk")
def test_faults_of_the_nested_layout(tmp_path, format, name, value, reason, advice):
    path = write(tmp_path / f"x.{format}", planted(PLAIN, "nested", [(name, 3, value)]))
    check(path, PLAIN, 2, [3], 3, reason, advice)


def test_lists_of_features_of_unequal_length(tmp_path):
    path = write(tmp_path / "x.parquet", planted(PLAIN, "nested columns", [("x1", 3, [1.0])]))
    check(path, PLAIN, 2, [3], 3, "has 1 values in column 'x1', but 3 in 'x0'")


@pytest.mark.usefixtures("chunk")
def test_text_where_a_number_is_wanted(tmp_path):
    reason = "has 'n/k' in column 'x1', which is not a number"
    columns = planted(PLAIN, "long", [("x1", 5, "n/k")])
    check(write(tmp_path / "x.csv", columns), PLAIN, 2, [4, 5, 6], 5, reason)
    texts = columns | {"x1": [str(value) for value in columns["x1"]]}
    check(write(tmp_path / "x.parquet", texts), PLAIN, 2, [4, 5, 6], 5, reason, features=["x0", "x1"])
    columns = planted(PLAIN, "nested columns", [("probability", 3, [0.25, "n/k", 0.5])])
    texts = columns | {"probability": [list(map(str, values)) for values in columns["probability"]]}
    reason = "has 'n/k' in column 'probability', which is not a number"
    check(write(tmp_path / "z.parquet", texts), PLAIN, 2, [3], 3, reason)
    columns = planted(PLAIN, "nested", [("points", 3, "viele")])
    reason = "has 'viele' in column 'points', which is not a list of numbers such as [1, 2]"
    check(write(tmp_path / "y.csv", columns), PLAIN, 2, [3], 3, reason)


@pytest.mark.parametrize(("cells", "n"), [("c,8.0,9.0", 3), ("c,8.0,9.0,0.25,2.0,7", 6), ("c", 1)])
@pytest.mark.usefixtures("chunk")
def test_rows_with_too_few_or_too_many_cells(tmp_path, cells, n):
    """The id of such a row is not known; c stands around it."""
    path = write(tmp_path / "x.csv", columns_of(PLAIN, "long"))
    lines = path.read_text().split("\n")
    lines[5] = cells
    path.write_text("\n".join(lines))
    check(path, PLAIN, 2, [4, 5, 6], 5, f"has {n} cells instead of 5")
    batch = next(b for b in batches_of(path, on_bad="skip") if b.rejected)
    assert cells in next(r for r in batch.rejected if r.row == 5).values


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.usefixtures("chunk")
def test_a_node_that_comes_back(tmp_path, format):
    path = write(tmp_path / f"x.{format}", planted(PLAIN, "long", [("id", 7, "a")]))
    advice = "Sort the file by the column of ids, or gather the rows in memory with --gather."
    reason = "of node 'a' is not contiguous with the other rows of its node"
    # Also where bad rows are skipped: half of the node has been used already.
    for on_bad in ("stop", "skip"):
        with pytest.raises(InputError, match=rf"row 7.* {reason}\. {re.escape(advice)}$"):
            read_nodes(path, on_bad=on_bad)
    *_, last = probi.io.read(path, on_bad="skip").batches(list_scattered=True)
    assert (last.rejected[0].row, last.counts.rejected) == (7, 1)
    nodes = read_nodes(path, gather=True, weight="weight", probability="probability", on_bad="skip")
    assert nodes.ids.tolist() == ["b", "c"]  # together a has 1.25


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.usefixtures("chunk")
def test_degrees_out_of_range(tmp_path, format):
    options = {"layout": "points", "weight": "weight", "lonlat": ("x0", "x1"), "on_bad": "skip"}
    for name, value, most in [("x1", 90.5, 90), ("x1", -91.0, 90), ("x0", 361.0, 360)]:
        path = write(tmp_path / f"x.{format}", planted(POINTS, "points", [(name, 3, value)]))
        reason = f"row 3 .*has {value:g} in column '{name}', which must lie between -{most} and {most}"
        with pytest.raises(InputError, match=reason):
            read_nodes(path, layout="points", weight="weight", lonlat=("x0", "x1"))
        batches = batches_of(path, **options)
        assert joined(batches).ids.tolist() == ["a", "b", "d"]
        assert [r.row for b in batches for r in b.rejected] == [3]
    path = write(
        tmp_path / f"y.{format}", planted(POINTS, "points", [("x0", 1, -180.0), ("x0", 2, 360.0), ("x1", 3, -90.0)])
    )
    assert len(read_nodes(path, layout="points", weight="weight", lonlat=("x0", "x1"))) == 4
    path = write(
        tmp_path / f"z.{format}",
        columns_of(PLAIN, "nested")
        | {
            "points": [[[0.0, 95.0]], *columns_of(PLAIN[1:], "nested")["points"]],
            "probability": [[1.0], *columns_of(PLAIN[1:], "nested")["probability"]],
        },
    )
    assert read_nodes(path, lonlat=("x0", "x1"), on_bad="skip").ids.tolist() == ["b", "c", "d"]


# -- what is missing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["x0", "probability", "weight", "id"])
@pytest.mark.usefixtures("chunk")
def test_rows_and_nodes_that_lack_a_value(tmp_path, format, name):
    path = write(tmp_path / f"x.{format}", planted(PLAIN, "long", [(name, 5, None)]))
    batches = batches_of(path, missing="skip-row")
    c = Plain("c", 2.0, [PLAIN[2].realizations[0], PLAIN[2].realizations[2]])
    assert_same(joined(batches), as_nodes([*PLAIN[:2], c, PLAIN[3]]))
    assert [(r.row, "no" in r.reason) for b in batches for r in b.rejected] == [(5, True)]
    assert (batches[-1].counts.missing, batches[-1].counts.used) == (1, 6)
    batches = batches_of(path, missing="skip-node")
    assert_same(joined(batches), as_nodes(PLAIN[:2] + PLAIN[3:]))
    assert (batches[-1].counts.missing, batches[-1].counts.used) == (3, 4)
    assert [r.row for b in batches for r in b.rejected] == [4, 5, 6]


@pytest.mark.usefixtures("chunk")
def test_equal_probabilities_are_of_the_rows_that_stay(tmp_path):
    path = write(tmp_path / "x.csv", planted(GROUPS, "groups", [("x1", 5, None)]))
    nodes = read_nodes(path, group_size=3, missing="skip-row")
    assert np.diff(nodes.offsets).tolist() == [3, 2, 3, 3]
    assert nodes.probabilities[3:5].tolist() == [0.5, 0.5]


@pytest.mark.usefixtures("chunk")
def test_a_node_whose_rows_all_lack_something_is_not_there(tmp_path):
    path = write(tmp_path / "x.csv", planted(PLAIN, "long", [("x0", 4, None), ("x1", 5, None), ("weight", 6, None)]))
    assert read_nodes(path, missing="skip-row").ids.tolist() == ["a", "b", "d"]


@pytest.mark.usefixtures("chunk")
def test_rows_without_an_id_at_a_border_belong_to_no_other_node(tmp_path):
    path = write(tmp_path / "x.csv", planted(PLAIN, "long", [("id", 3, None), ("id", 7, None)]))
    batches = batches_of(path, on_bad="skip")
    assert_same(joined(batches), as_nodes([PLAIN[0], PLAIN[2]]))
    assert [r.row for b in batches for r in b.rejected] == [3, 7]


@pytest.mark.usefixtures("chunk")
def test_what_is_left_without_the_missing_rows_is_looked_at_again(tmp_path):
    changes = [("x0", 4, None), ("probability", 4, 0.5), ("probability", 5, 0.75), ("probability", 6, 0.75)]
    path = write(tmp_path / "x.csv", planted(PLAIN, "long", changes))
    with pytest.raises(InputError, match=r"row 5 \(line 6\) of node \S+ begins a node \(2 rows\) .* sum to 1.5"):
        read_nodes(path, missing="skip-row")
    batches = batches_of(path, missing="skip-row", on_bad="skip")
    assert (batches[-1].counts.missing, batches[-1].counts.rejected) == (1, 2)
    assert joined(batches).ids.tolist() == ["a", "b", "d"]
    # And what is too much only with the missing row is no fault.
    path = write(tmp_path / "y.csv", planted(PLAIN, "long", [("x0", 4, None), ("probability", 4, 0.5)]))
    assert read_nodes(path, missing="skip-row").ids.tolist() == ["a", "b", "c", "d"]


def test_options_that_do_not_exist():
    for options, match in [
        ({"missing": "drop"}, "missing is 'drop', but must be one of error, skip-row, skip-node"),
        ({"on_bad": "raise"}, "on_bad is 'raise', but must be one of stop, skip"),
        ({"dtype": "float16"}, "dtype is 'float16', but must be"),
        ({"lonlat": "lon,lat"}, r"lonlat is 'lon,lat', but must be two columns, as in \('lon', 'lat'\)\."),
        ({"lonlat": ("lon",)}, r"lonlat is \('lon',\), but must be two columns"),
    ]:
        with pytest.raises(InputError, match=match):
            read_nodes("x.csv", **options)


def test_a_node_of_too_many_rows(tmp_path, monkeypatch):
    tiny(monkeypatch, 2)
    path = write(tmp_path / "x.parquet", columns_of(PLAIN, "long"))
    assert len(read_nodes(path, max_node_rows=3)) == 4
    with pytest.raises(InputError, match=r"row 4 begins a node of more than 2 rows.*--max-node-rows"):
        read_nodes(path, max_node_rows=2)
    path = write(tmp_path / "y.parquet", columns_of(PLAIN, "nested"))
    with pytest.raises(InputError, match=r"row 3 begins a node of more than 2 rows"):
        read_nodes(path, max_node_rows=2)


def test_the_node_is_named_where_it_has_a_name(tmp_path):
    columns = {"a": ["u", "u", "v"], "b": [1, 1, 2], "x": [0.0, 1.0, None], "p": [0.5, 0.5, 1.0]}
    path = write(tmp_path / "x.csv", columns)
    with pytest.raises(InputError, match=r"row 3 \(line 4\) of node \('v', 2\) has no value in column 'x'"):
        read_nodes(path, layout="long", id=["a", "b"])
    with pytest.raises(InputError, match=r"row 3 \(line 4\) has no value in column 'x'"):
        read_nodes(path, layout="points", features=["x"])


ABOVE = np.nextafter(1e150, INF)
EDGES = [-INF, -ABOVE, -1e150, -1e-300, -0.0, 0.0, 1e-150, 1e-130, 0.5, 1.0, 1.1, 1e150, ABOVE, 1e308, INF, NAN]


@pytest.mark.parametrize("value", EDGES)
@pytest.mark.parametrize("column", ["x", "probability", "weight"])
def test_nodes_and_readers_refuse_the_same_values(column, value):
    values = {"x": [1.0, 2.0], "probability": [0.5, 0.5], "weight": [1.0, 1.0]}
    values[column][1] = value
    try:
        Nodes(np.array(values["x"])[:, None], values["probability"], [0, 1, 2], values["weight"])
        refused = []
    except InputError as error:
        refused = [int(re.match(r"Node (\d+) ", str(error))[1])]
    columns = Columns("long", ("x",), ("id",), "probability", "weight")
    errors = find_row_errors(pa.table({"id": [0, 1], **values}), columns, np.arange(2), None)
    assert errors.rows.tolist() == refused
