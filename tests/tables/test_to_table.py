"""From nodes to tables and back: nothing is lost, and what a layout cannot hold is an error."""

import numpy as np
import pyarrow as pa
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from table_files import assert_same

from probi import Nodes
from probi.errors import InputError
from probi.tables.convert import to_table

NAMES = ["north", "east", "up", "time"]


@st.composite
def nodes_with_labels(draw):
    """Nodes of either dtype, with weights or none, with ids of some kind or none."""
    some = draw(strategies.nodes())
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    weights = draw(st.one_of(st.none(), st.lists(st.integers(0, 4), min_size=len(some), max_size=len(some))))
    nodes = strategies.build(some, weights, dtype)
    n = len(nodes)
    ids = draw(
        st.sampled_from(
            [
                None,
                np.arange(n)[::-1] - 2,
                np.array([f"{i} é" for i in range(n)], object),
                np.arange(n) + 0.5,
                np.datetime64("2024-02-28") + np.arange(n),
                np.datetime64("2024-02-28T23:59:59.999999") + np.arange(n),
            ]
        )
    )
    return Nodes(nodes.points, nodes.probabilities, nodes.offsets, nodes.weights, ids)


@pytest.mark.slow
@examples(40)
@given(nodes_with_labels())
def test_to_arrow_and_back(nodes):
    assert_same(Nodes.from_table(nodes.to_arrow()), nodes)


@pytest.mark.slow
@examples(40)
@given(nodes_with_labels(), st.booleans())
def test_long_and_back(nodes, named):
    names = NAMES[: nodes.n_features] if named else None
    table = to_table(nodes, "long", names)
    back = Nodes.from_table(table, "long")
    ids = np.arange(len(nodes)) if nodes.ids is None else nodes.ids
    assert_same(back, Nodes(nodes.points, nodes.probabilities, nodes.offsets, nodes.weights, ids))
    assert set(names or ["x0"]) <= set(table.column_names)


@pytest.mark.slow
@examples(40)
@given(nodes_with_labels())
def test_nested_columns_and_back(nodes):
    table = to_table(nodes, "nested", NAMES[: nodes.n_features])
    assert_same(Nodes.from_table(table, features=NAMES[: nodes.n_features]), nodes)


@pytest.mark.slow
@examples(40)
@given(nodes_with_labels())
def test_points_and_back(nodes):
    certain = Nodes.from_points(nodes.gravity_centers.astype(nodes.dtype), nodes.weights, nodes.ids)
    table = to_table(certain, "points")
    weight = "weight" if "weight" in table.column_names else None
    assert_same(Nodes.from_table(table, "points", weight=weight), certain)


@pytest.mark.slow
@examples(40)
@given(nodes_with_labels(), st.integers(1, 7))
def test_groups_and_back(nodes, size):
    points = np.repeat(nodes.points, size, axis=0)
    groups = Nodes(points, None, np.arange(0, len(points) + 1, size))
    assert_same(Nodes.from_table(to_table(groups, "groups"), group_size=size), groups)


def test_ids_of_several_columns_and_back():
    ids = np.array([(1, "a"), (1, "b")], [("u", "int64"), ("v", object)])
    nodes = Nodes([[1.0], [2.0], [3.0]], None, [0, 2, 3], ids=ids)
    for table, layout in [(nodes.to_arrow(), "nested"), (to_table(nodes, "long"), "long")]:
        assert_same(Nodes.from_table(table, layout, id=["u", "v"]), nodes)


def test_a_part_of_nodes_is_a_table_of_that_part():
    nodes = Nodes([[1.0], [2.0], [3.0], [4.0]], [0.5, 0.5, 1.0, 1.0], [0, 2, 3, 4])[1:]
    assert Nodes.from_table(nodes.to_arrow()) == nodes


@pytest.mark.parametrize("layout", ["long", "nested", "points", "groups"])
def test_no_nodes_at_all(layout):
    nodes = Nodes(np.empty((0, 2)), None, [0])
    table = to_table(nodes, layout)
    assert table.num_rows == 0
    back = Nodes.from_table(table, layout, group_size=2 if layout == "groups" else None)
    assert back.shape == nodes.shape


TWO = Nodes([[1.0], [2.0], [3.0], [4.0]], None, [0, 2, 4])


@pytest.mark.parametrize(
    ("nodes", "layout"),
    [
        (TWO, "points"),
        (Nodes([[1.0]], [0.5], [0, 1]), "points"),
        (Nodes([[1.0], [2.0], [3.0]], None, [0, 2, 3]), "groups"),
        (Nodes([[1.0], [2.0]], [0.75, 0.25], [0, 2]), "groups"),
        (TWO.with_weights([1.0, 2.0]), "groups"),
    ],
)
def test_what_a_layout_cannot_hold_is_an_error(nodes, layout):
    with pytest.raises(InputError, match=f"do not fit the layout '{layout}'.*Use 'long' or 'nested'"):
        to_table(nodes, layout)


def test_an_unknown_layout_and_a_wrong_number_of_names_are_errors():
    with pytest.raises(InputError, match="no layout 'wide'"):
        to_table(TWO, "wide")
    with pytest.raises(InputError, match="2 names for 1 features"):
        to_table(TWO, "long", ["x", "y"])


@pytest.mark.parametrize("layout", ["long", "nested"])
@pytest.mark.parametrize("name", ["id", "weight", "probability"])
def test_two_columns_of_one_name_are_an_error_and_not_lost(layout, name):
    nodes = Nodes([[1.0, 2.0]], None, [0, 1], weights=[2.0], ids=["a"])
    with pytest.raises(InputError, match=f"Two columns would be called '{name}'"):
        to_table(nodes, layout, [name, "x"])
    with pytest.raises(InputError, match="Two columns would be called 'x'"):
        to_table(nodes, layout, ["x", "x"])


def test_moved():
    nodes = Nodes([[1.0], [2.0], [3.0]], [0.5, 0.25, 1.0], [0, 2, 3], [2.0, 3.0], ["a", "b"])
    nodes.gravity_centers  # noqa: B018  computed, and to be forgotten
    moved = nodes.with_points([[1.0, 5.0], [2.0, 5.0], [9.0, 5.0]])
    expected = Nodes([[1.0, 5.0], [2.0, 5.0], [9.0, 5.0]], [0.5, 0.25, 1.0], [0, 2, 3], [2.0, 3.0], ["a", "b"])
    assert_same(moved, expected)
    assert moved.magnitude == 9.0
    assert moved.gravity_centers.tolist() == expected.gravity_centers.tolist()
    assert nodes.with_points(nodes.points.astype(np.float32)).dtype == np.float64
    with pytest.raises(InputError, match="2 points for 3 realizations"):
        nodes.with_points([[1.0], [2.0]])
    with pytest.raises(InputError, match="Node 1 has nan"):
        nodes.with_points([[1.0], [2.0], [np.nan]])


def test_to_arrow_says_what_it_holds():
    table = TWO.to_arrow()
    assert table.schema.names == ["weight", "points", "probability"]
    assert table.schema.field("points").type == pa.large_list(pa.list_(pa.float64(), 1))
