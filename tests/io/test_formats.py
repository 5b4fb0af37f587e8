"""Layout by layout, format by format: what a file holds is what comes out, whatever the batches are."""

import gzip
import itertools
import os
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import (
    FORMATS,
    GROUP,
    LAYOUTS,
    as_nodes,
    assert_same,
    batches_of,
    columns_of,
    csv_text,
    joined,
    options_of,
    read_nodes,
    some_nodes,
    tiny,
    write,
)

import probi.io
from probi import Nodes
from probi.errors import InputError
from probi.io.formats import csv_file as csv_reader
from probi.io.rows import FILE


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("ids", ["int", "str"])
def test_what_a_file_holds(tmp_path, layout, format, ids):
    plain = some_nodes(layout, ids=ids)
    path = write(tmp_path / f"nodes.{format}", columns_of(plain, layout))
    assert_same(read_nodes(path, **options_of(layout)), as_nodes(plain))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("format", ["parquet", "csv", "arrow", "arrows"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_every_small_size_give_the_same_nodes(tmp_path, monkeypatch, layout, format, rows):
    plain = some_nodes(layout, seed=rows)
    columns = columns_of(plain, layout)
    path = write(tmp_path / f"nodes.{format}", columns, step=rows + 1)
    tiny(monkeypatch, rows, block=11 * rows)
    batches = batches_of(path, **options_of(layout))
    assert len(batches) > 2
    assert_same(joined(batches), as_nodes(plain))
    n_rows = len(next(iter(columns.values())))
    counts = batches[-1].counts
    assert (counts.rows, counts.used, counts.nodes) == (n_rows, n_rows, len(plain))
    # Where each node begins in the file.
    sizes = [1 if layout.startswith("nested") else len(node.realizations) for node in plain]
    assert np.concatenate([batch.where for batch in batches]).tolist() == np.cumsum([0, *sizes[:-1]]).tolist()


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_row_groups_of_parquet(tmp_path, size, compression):
    plain = some_nodes("long")
    path = tmp_path / "nodes.pq"
    pq.write_table(pa.table(columns_of(plain, "long")), path, row_group_size=size, compression=compression)
    assert_same(read_nodes(path), as_nodes(plain))


@pytest.mark.parametrize("layout", ["points", "groups"])
@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", "i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_two_dimensions(tmp_path, monkeypatch, layout, dtype, order):
    tiny(monkeypatch, 2)
    values = np.asarray(np.arange(24).reshape(12, 2), dtype, order)
    np.save(tmp_path / "x.npy", values)
    expected = Nodes.from_points(values) if layout == "points" else Nodes.from_groups(values, GROUP)
    nodes = read_nodes(
        tmp_path / "x.npy", **({"group_size": GROUP} if layout == "groups" else {}), dtype=str(expected.dtype)
    )
    assert_same(nodes, expected)


def test_npy_of_three_dimensions_is_nested(tmp_path, monkeypatch):
    tiny(monkeypatch, 2)
    values = np.arange(30.0).reshape(5, 3, 2)
    np.save(tmp_path / "x.npy", values)
    assert_same(read_nodes(tmp_path / "x.npy"), Nodes.from_dense(values))


@pytest.mark.parametrize("kind", ["i4", ">i8", "U9", "S9"])
def test_npy_with_named_fields(tmp_path, monkeypatch, kind):
    tiny(monkeypatch, 2)
    plain = some_nodes("long")
    columns = columns_of(plain, "long")
    fields = {"id": kind, "x0": ">f8", "x1": "f8", "probability": "f8", "weight": "f4"}
    rows = np.array(list(zip(*columns.values(), strict=True)), list(fields.items()))
    np.save(tmp_path / "x.npy", rows)
    nodes = read_nodes(tmp_path / "x.npy")
    expected = as_nodes(plain)
    assert np.array_equal(nodes.points, expected.points)
    assert np.array_equal(nodes.offsets, expected.offsets)
    convert = {"U": str, "S": lambda id: str(id).encode()}.get(kind[0], int)
    assert nodes.ids.tolist() == [convert(node.id) for node in plain]


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(3),
        np.zeros((2, 2, 2, 2)),
        np.array([["a"]]),
        np.zeros((3, 2), complex),
        np.zeros((3, 0, 2)),
        np.array(1),
    ],
)
def test_npy_that_holds_no_nodes(tmp_path, values):
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(InputError, match=r"x\.npy"):
        read_nodes(tmp_path / "x.npy")


# -- several files ----------------------------------------------------------------------------------------------------


def in_parts(folder, columns, cuts, format):
    """Columns in several files, cut at these rows."""
    n_rows = len(next(iter(columns.values())))
    borders = [0, *cuts, n_rows]
    paths = []
    for i, (start, stop) in enumerate(itertools.pairwise(borders)):
        part = {name: values[start:stop] for name, values in columns.items()}
        paths.append(write(folder / f"part-{i}.{format}", part, step=3))
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layout", ["points", "long", "nested"])
def test_files_one_after_the_other(tmp_path, monkeypatch, layout, format):
    tiny(monkeypatch, 3, block=60)
    plain = some_nodes(layout)
    # In the long layout nodes go on in the next file, one over a whole file.
    paths = in_parts(tmp_path, columns_of(plain, layout), [8, 9, 10, 21], format)
    options = options_of(layout)
    ways = (paths, str(tmp_path), tmp_path, f"{tmp_path}/part-*", [f"{tmp_path}/part-[01]*", *paths[2:]])
    # Files are found before their columns are looked at, whatever their format.
    for inputs in ways if (layout, format) == ("points", "csv") else ways[:1]:
        batches = batches_of(inputs, **options)
        assert_same(joined(batches), as_nodes(plain))
    files = np.concatenate([batch.where for batch in batches]) // FILE
    assert (files.min(), files.max()) == (0, 4)
    assert 0.95 < batches[-1].fraction <= 1.0  # a stream has a few bytes after its last batch


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_groups_count_from_the_start_of_each_file(tmp_path, monkeypatch, format, rows):
    tiny(monkeypatch, rows, block=20)
    columns = {"x": [float(i) for i in range(20)]}
    paths = in_parts(tmp_path, columns, [7, 9], format)
    batches = batches_of(paths, group_size=3)
    points = [[0.0], [1], [2], [3], [4], [5], *([float(i)] for i in range(9, 18))]
    assert_same(joined(batches), Nodes(points, None, range(0, 16, 3)))
    assert (batches[-1].counts.incomplete, batches[-1].counts.used) == (5, 15)
    rejected = [(row.file, row.row) for batch in batches for row in batch.rejected]
    assert rejected == [
        (str(paths[0]), 7),
        (str(paths[1]), 1),
        (str(paths[1]), 2),
        (str(paths[2]), 10),
        (str(paths[2]), 11),
    ]
    assert "too few for a group of 3" in batches[-1].rejected[0].reason


def test_columns_are_found_by_name_in_every_file(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,z,x\n4,9,3\n")
    assert read_nodes(tmp_path).points.tolist() == [[1, 2], [3, 4]]
    (tmp_path / "c.csv").write_text("y,z\n4,9\n")
    with pytest.raises(InputError, match=r"c\.csv has no column 'x', which .*a\.csv has"):
        read_nodes(tmp_path)


def test_ids_of_another_kind_in_the_next_file(tmp_path):
    """CSV takes the types of the first file; what does not fit is told."""
    (tmp_path / "a.csv").write_text("id,x\nA1,1\n17,2\n")
    (tmp_path / "b.csv").write_text("id,x\n17,2\n18,3\n")
    nodes = read_nodes(tmp_path, layout="long")
    assert nodes.ids.tolist() == ["A1", "17", "18"]
    assert nodes.offsets.tolist() == [0, 1, 3, 4]
    with pytest.raises(InputError, match=r"a\.csv has text in column 'id', where .*b\.csv has numbers"):
        read_nodes([tmp_path / "b.csv", tmp_path / "a.csv"], layout="long")
    pq.write_table(pa.table({"id": [1, 1], "x": [1.0, 2.0]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"id": ["1", "2"], "x": [1.0, 2.0]}), tmp_path / "d.parquet")
    with pytest.raises(InputError, match=r"d\.parquet has text in column 'id', where .*c\.parquet has whole numbers"):
        read_nodes(f"{tmp_path}/*.parquet", layout="long")


def test_bytes_are_ids_of_one_kind_however_they_are_stored(tmp_path):
    for name, type in (("a", pa.binary()), ("b", pa.binary_view()), ("c", pa.large_binary())):
        table = pa.table({"id": pa.array([name.encode()] * 2, type), "x": [1.0, 2.0]})
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table)
    assert read_nodes(tmp_path, layout="long").ids.tolist() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("layout", ["long", "points", "nested"])
@pytest.mark.parametrize("dictionary_first", [True, False])
@pytest.mark.parametrize("rows", [3, 1000])
def test_ids_as_a_dictionary_in_one_file_and_plain_in_the_next(tmp_path, monkeypatch, layout, dictionary_first, rows):
    tiny(monkeypatch, rows)
    plain = some_nodes(layout, n=20, ids="str")
    columns = columns_of(plain, layout)
    cut = sum(len(node.realizations) for node in plain[:9]) - 1 if layout == "long" else 9  # within a node
    for i, (a, b) in enumerate([(0, cut), (cut, None)]):
        part = {name: pa.array(values[a:b]) for name, values in columns.items()}
        if dictionary_first == (i == 0):
            part["id"] = part["id"].dictionary_encode()
        pq.write_table(pa.table(part), tmp_path / f"{i}.parquet")
    assert_same(read_nodes(tmp_path, **options_of(layout)), as_nodes(plain))


def test_one_dtype_for_all_files(tmp_path):
    pq.write_table(pa.table({"x": pa.array([1.0, 2.0], "float")}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([0.1], "double")}), tmp_path / "b.parquet")
    with pytest.raises(InputError, match=r"b\.parquet has features in float64, but .*a\.parquet in float32.*--dtype"):
        read_nodes(tmp_path)
    for dtype in ("float32", "float64"):
        assert {nodes.dtype for nodes in probi.io.read(tmp_path, dtype=dtype)} == {np.dtype(dtype)}
    turned = probi.io.read([tmp_path / "b.parquet", tmp_path / "a.parquet"])
    assert {nodes.dtype for nodes in turned} == {np.dtype("float64")}


# -- standard input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "ipc"])
def test_standard_input(tmp_path, monkeypatch, kind):
    """A pipe, which cannot go back and gives what is there; somebody else writes into it."""
    plain = some_nodes("long")
    data = write(tmp_path / ("x.arrows" if kind == "ipc" else f"x.{kind}"), columns_of(plain, "long")).read_bytes()
    reading, writing = os.pipe()

    def fill():
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for start in range(0, len(data), 100):
                pipe.write(data[start : start + 100])

    monkeypatch.setattr(csv_reader, "BLOCK", 64)
    writer = threading.Thread(target=fill)
    writer.start()
    with os.fdopen(reading, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=pipe))
        nodes = read_nodes("-", **({"format": "ipc"} if kind == "ipc" else {}))
    writer.join()
    assert_same(nodes, as_nodes(plain))


@pytest.mark.parametrize("format", ["parquet", "npy"])
def test_standard_input_cannot_be_what_needs_a_file(format):
    with pytest.raises(InputError, match=r"standard input.* cannot be read from standard input.*Name the file"):
        probi.io.read("-", format=format)


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["parquet", "arrow", "arrows", "npy", "csv.gz"])
def test_half_a_file_is_an_error_that_names_it(tmp_path, format):
    plain = some_nodes("points", n=500)
    path = tmp_path / f"x.{format}"
    if format == "npy":
        np.save(path, np.zeros((500, 2)))
    else:
        write(path, columns_of(plain, "points"))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=rf"x\.{format}"):
        read_nodes(path)


@pytest.mark.parametrize("format", ["parquet", "arrow", "npy"])
def test_something_else_under_this_name(tmp_path, format):
    path = tmp_path / f"x.{format}"
    path.write_text("x,y\n1,2\n" * 100)
    with pytest.raises(InputError, match=rf"x\.{format}(: this is not an NPY file| cannot be read as)"):
        probi.io.read(path)


def test_a_bad_checksum_in_gzip(tmp_path):
    data = bytearray(gzip.compress(csv_text(columns_of(some_nodes("points"), "points")).encode()))
    data[-6] ^= 1
    (tmp_path / "x.csv.gz").write_bytes(data)
    with pytest.raises(InputError, match="damaged or cut off"):
        read_nodes(tmp_path / "x.csv.gz")


@pytest.mark.parametrize("n_before", [0, 3])
def test_lists_that_point_anywhere_are_not_followed(tmp_path, n_before):
    """An Arrow file with an offset beyond the values, in its first or second batch: Arrow itself would follow it."""
    path = write(tmp_path / "x.arrow", {"x": [[0.5]] * n_before + [[1.0, 2.0], [3.0, 4.0, 5.0], [6.0]]}, step=3)
    data = path.read_bytes()
    good, bad = (np.array([0, 2, offset, 6], np.int32).tobytes() for offset in (5, 1 << 30))
    assert data.count(good) == 1
    path.write_bytes(data.replace(good, bad))
    with pytest.raises(InputError, match=r"x\.arrow cannot be read as ipc"):
        read_nodes(path)


def test_a_file_with_no_rows(tmp_path):
    for format in FORMATS:
        path = write(tmp_path / f"x.{format}", {"x": [1.0], "y": [2.0]})
        if format.startswith("csv"):
            (tmp_path / "x.csv").write_text("x,y\n")
        else:
            write(path, {"x": np.zeros(0), "y": np.zeros(0)})
    np.save(tmp_path / "x.npy", np.zeros((0, 2)))
    for name in ("x.csv", "x.parquet", "x.arrow", "x.arrows", "x.npy"):
        assert read_nodes(tmp_path / name) is None
