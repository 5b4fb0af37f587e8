"""Centers to a file and back; assignments; nodes in any format, in batches."""

import functools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from samples import blobs
from table_files import assert_same, read_nodes, write

from probi import Nodes, solve
from probi.errors import InputError
from probi.io.transform import Transform
from probi.io.write import assignment_file, read_centers, write_centers, write_json, write_nodes

NODES = Nodes.from_dense(blobs(60, d=2)[0])
SPACE = Transform(("x", "y"), scale=(2.0, 0.1))


@functools.cache
def results():
    return [solve(NODES, k, n_init=1, random_state=0) for k in (2, 3)]


@pytest.mark.parametrize("k", [2, 3])
def test_centers_to_parquet_and_back_bit_by_bit(tmp_path, k):
    write_centers(tmp_path, results(), SPACE)
    for path in (tmp_path, tmp_path / "centers.parquet"):
        found = read_centers(path, k)
        assert_array_equal(found.coordinates, results()[k - 2].centers)
        assert (found.space, found.features) == (SPACE, ("x", "y"))


@pytest.mark.parametrize("k", [2, 3])
def test_centers_as_csv_are_in_original_units(tmp_path, k):
    write_centers(tmp_path, results(), SPACE, {"layout": "points"})
    beside = read_centers(tmp_path / "centers.csv", k)
    assert_array_equal(beside.coordinates, results()[k - 2].centers)
    assert (beside.space, beside.reading) == (SPACE, {"layout": "points"})
    (tmp_path / "centers.parquet").unlink()
    found = read_centers(tmp_path / "centers.csv", k)
    assert_allclose(found.coordinates, results()[k - 2].centers * [2.0, 0.1], rtol=1e-14)
    assert (found.space, found.features) == (None, ("x", "y"))


def test_centers_on_the_sphere(tmp_path):
    space = Transform(("lon", "h", "lat"), ("lon", "lat"))
    nodes = space.nodes(Nodes.from_points(np.array([[10.0, 3.0, 50.0], [-170.0, 4.0, -20.0], [10.0, 3.5, 50.5]])))
    write_centers(tmp_path, [solve(nodes, 2, random_state=0)], space)
    table = pq.read_table(tmp_path / "centers.parquet")
    assert table.column_names[2:5] == ["lon", "h", "lat"]
    assert_allclose(sorted(table["lon"].to_pylist()), [-170, 10], atol=0.01)
    exact = read_centers(tmp_path).coordinates
    (tmp_path / "centers.parquet").unlink()
    assert_allclose(space.coordinates(read_centers(tmp_path / "centers.csv").coordinates), exact, rtol=1e-9)


def test_any_table_of_features_holds_centers(tmp_path):
    path = write(tmp_path / "mine.csv", {"y": [1.0, 2.0], "x": [3, 4]})
    found = read_centers(path)
    assert found.features == ("y", "x")
    assert_array_equal(found.coordinates, [[1, 3], [2, 4]])
    with pytest.raises(InputError, match=r"mine\.csv has no centers for 5 clusters, but for 2"):
        read_centers(path, 5)


def test_which_of_several(tmp_path):
    write_centers(tmp_path, results(), SPACE)
    for name in ("centers.csv", "centers.parquet"):
        with pytest.raises(InputError, match=r"has centers for 2, 3 clusters\. Choose with -k"):
            read_centers(tmp_path / name)


def test_an_assignment_of_no_nodes_is_a_table_too(tmp_path):
    with assignment_file(tmp_path / "a.parquet"):
        pass
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 0


def test_an_assignment_that_fails_is_not_there(tmp_path):
    def fail():
        with assignment_file(tmp_path / "a.parquet"):
            raise InputError("row 3")

    with pytest.raises(InputError, match="row 3"):
        fail()
    assert list(tmp_path.iterdir()) == []


# -- nodes -----------------------------------------------------------------------------------------------------------


def parts(nodes, step=7):
    return [nodes[start : start + step] for start in range(0, len(nodes), step)]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "pq", "csv", "csv.gz", "arrow", "feather"])
@pytest.mark.parametrize("layout", ["groups", "long", "nested"])
def test_batches_of_any_size_are_one_file(tmp_path, layout, format):
    options = {"group_size": 4} if layout == "groups" else {"layout": layout}
    for step in (1, 7, 1000):
        path = tmp_path / f"x.{format}"
        assert write_nodes(path, parts(NODES, step), layout, ["x", "y"]) == 60
        found = read_nodes(path, **options)
        assert_array_equal(found.points, NODES.points)
        assert_array_equal(found.offsets, NODES.offsets)
        assert_array_equal(found.probabilities, NODES.probabilities)
        assert found.ids is None if layout != "long" else found.ids.tolist() == list(range(60))


@pytest.mark.parametrize("weights", [np.arange(60) // 30 + 1.0, 2.0 - np.arange(60) // 30])
@pytest.mark.parametrize("layout", ["long", "nested"])
def test_weights_that_are_1_in_some_batches(tmp_path, layout, weights):
    nodes = Nodes(NODES.points, NODES.probabilities, NODES.offsets, weights, np.arange(60))
    write_nodes(tmp_path / "x.parquet", parts(nodes), layout, ["x", "y"], weighted=True)
    assert_same(read_nodes(tmp_path / "x.parquet", layout=layout), nodes)


def test_names_of_columns_that_need_quotes(tmp_path):
    names = ['a,b', 'say "x"']  # fmt: skip
    write_nodes(tmp_path / "x.csv", [NODES], "long", names)
    found = read_nodes(tmp_path / "x.csv", layout="long", features=names)
    assert_array_equal(found.points, NODES.points)


def test_ids_of_several_columns(tmp_path):
    ids = np.empty(60, [("day", np.int64), ("who", object)])
    ids["day"], ids["who"] = np.arange(60) // 10, [f"w{i}" for i in range(60)]
    nodes = Nodes(NODES.points, NODES.probabilities, NODES.offsets, None, ids)
    for layout in ("long", "nested"):
        write_nodes(tmp_path / "x.csv", parts(nodes), layout, ["x", "y"])
        found = read_nodes(tmp_path / "x.csv", layout=layout, id=["day", "who"])
        assert found.ids.tolist() == ids.tolist()


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.arrow", "x.npy"])
def test_no_nodes_are_no_file(tmp_path, name):
    with pytest.raises(InputError, match="no nodes to write"):
        write_nodes(tmp_path / name, [], "nested", ["x"])
    assert list(tmp_path.iterdir()) == []


def test_json_holds_numbers_of_numpy(tmp_path):
    write_json(tmp_path / "x.json", {"a": np.float64(1.5), "b": np.arange(2), "c": np.int32(3), "d": tmp_path})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": 1.5, "b": [0, 1], "c": 3, "d": str(tmp_path)}


def test_pieces_of_a_table_of_centers(tmp_path):
    table = pa.table({"x": [1.0, 2.0], "n_clusters": [2, 2], "cluster": [0, 1], "cluster_mass": [3.0, 4.0]})
    pq.write_table(table, tmp_path / "c.parquet")
    assert read_centers(tmp_path / "c.parquet").features == ("x",)
