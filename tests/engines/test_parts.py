"""Parts of files for workers: together they are the files, and no node is torn."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from strategies import examples
from table_files import (
    FORMATS,
    GROUP,
    LAYOUTS,
    as_nodes,
    assert_same,
    columns_of,
    joined,
    options_of,
    some_nodes,
    tiny,
    write,
)

import probi.io
from probi import InputError
from probi.engines.engine import cut, without_torn_nodes
from probi.io.formats import npy
from probi.io.node_assembler import Part, Position


def parts_of(inputs, part_bytes=1, **options):
    """Batches of each part, read as a worker reads it: with a reader that has opened nothing before."""
    reader = probi.io.read(inputs, **options)
    known = reader.known()
    for part in cut(reader, part_bytes):
        worker = probi.io.Reader(reader.sources, reader.options, known)
        start, stop = without_torn_nodes(worker, part)
        yield list(worker.batches(start, stop=stop))


def check(inputs, expected, least_parts=1, part_bytes=1, **options):
    parts = list(parts_of(inputs, part_bytes, **options))
    assert len(parts) >= least_parts
    assert_same(joined([batch for part in parts for batch in part]), expected)
    where = np.concatenate([batch.where for part in parts for batch in part])
    assert_array_equal(where, np.unique(where))
    return parts


def can_hold(format, layout):
    if format == "npy":
        return layout in ("points", "groups")
    return not (format.startswith("csv") and layout.startswith("nested"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "layout"), [(f, layout) for f in (*FORMATS, "npy") for layout in LAYOUTS if can_hold(f, layout)]
)
def test_parts_are_the_whole(tmp_path, monkeypatch, layout, format):
    tiny(monkeypatch)
    monkeypatch.setattr(npy, "PIECE", 100)
    plain = some_nodes("groups" if format == "npy" and layout == "points" else layout, n=40)
    columns = columns_of(plain, layout)
    path = tmp_path / f"x.{format}"
    if format == "npy":
        columns = columns_of(plain, "groups")
        np.save(path, np.column_stack(list(columns.values())))
    else:
        write(path, columns)
    options = {} if format == "npy" and layout == "points" else options_of(layout)
    expected = joined(list(probi.io.read(path, **options).batches()))
    check(path, expected, least_parts=4 if format in ("parquet", "npy") else 1, **options)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 100])
def test_groups_count_from_the_start_of_a_file_whatever_the_row_groups(tmp_path, n_rows):
    plain = some_nodes("groups", n=20)
    columns = columns_of(plain, "groups")
    paths = [write(tmp_path / f"{i}.parquet", columns, step=n_rows) for i in range(3)]
    parts = check(paths, as_nodes(plain * 3), group_size=GROUP)
    assert sum(batch.counts.incomplete for part in parts for batch in part[-1:]) == 0


def test_rows_that_are_too_few_for_a_group_are_counted_once(tmp_path):
    columns = columns_of(some_nodes("groups", n=20), "groups")
    torn = {name: values[:-1] for name, values in columns.items()}
    paths = [write(tmp_path / f"{i}.parquet", torn, step=7) for i in range(3)]
    counts = [part[-1].counts for part in parts_of(paths, group_size=GROUP) if part]
    assert sum(c.incomplete for c in counts) == 3 * (GROUP - 1)
    assert sum(c.nodes for c in counts) == 3 * 19
    assert sum(c.rows for c in counts) == 3 * (20 * GROUP - 1)


@pytest.mark.slow
@examples(20)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=7),
    files=st.lists(st.integers(0, 30), max_size=3),
    step=st.integers(1, 8),
    gone=st.sets(st.integers(0, 30), max_size=5),
    rows=st.integers(1, 5),
)
def test_a_long_node_is_in_one_part_wherever_files_and_row_groups_end(tmp_path_factory, sizes, files, step, gone, rows):
    """Also where rows lack their id, which is left out then with the node around it."""
    folder = tmp_path_factory.mktemp("parts")
    ids = [None if i in gone else n for i, n in enumerate(np.repeat(np.arange(len(sizes)), sizes).tolist())]
    columns = {"id": ids, "x0": [float(i) for i in range(len(ids))], "p": [0.0625] * len(ids)}
    borders = [0, *sorted({min(f, len(ids)) for f in files}), len(ids)]
    cuts = [(a, b) for a, b in itertools.pairwise(borders) if a < b]
    paths = [
        write(folder / f"{i}.parquet", {name: values[a:b] for name, values in columns.items()}, step=step)
        for i, (a, b) in enumerate(cuts)
    ]
    if all(value is None for value in ids):
        return
    options = {"layout": "long", "id": "id", "on_bad": "skip", "dtype": "float64"}
    with pytest.MonkeyPatch.context() as patch:
        tiny(patch, rows=rows)
        whole = list(probi.io.read(paths, **options).batches())
        parts = list(parts_of(paths, **options))
    expected, found = joined(whole), joined([batch for part in parts for batch in part])
    if expected is None:
        assert found is None
    else:
        assert_same(found, expected)
    counts = [part[-1].counts for part in parts if part]
    for name in ("rows", "nodes", "used", "rejected"):
        assert sum(getattr(c, name) for c in counts) == getattr(whole[-1].counts, name)


@pytest.mark.slow
def test_a_node_longer_than_several_parts(tmp_path, monkeypatch):
    tiny(monkeypatch)
    n = 50
    columns = {"id": [0] * 3 + [1] * (n - 6) + [2] * 3, "x0": [float(i) for i in range(n)], "p": [1 / 64] * n}
    path = write(tmp_path / "x.parquet", columns, step=2)
    parts = check(path, joined(list(probi.io.read(path).batches())))
    assert [sum(len(batch.nodes) for batch in part) for part in parts if part] == [1, 1, 1]


def test_parts_grow_with_the_bytes_they_may_have(tmp_path):
    columns = columns_of(some_nodes("points", n=400), "points")
    path = write(tmp_path / "x.parquet", columns, step=10)
    counts = [len(cut(probi.io.read(path, weight="weight"), size)) for size in (1, 1000, 2000, 1 << 30)]
    assert counts[0] == 40
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1
    assert cut(probi.io.read(path, weight="weight"), 1 << 30) == [Part(Position(), None)]


def test_small_files_are_taken_together(tmp_path):
    columns = columns_of(some_nodes("points", n=10), "points")
    paths = [write(tmp_path / f"{i}.csv", columns) for i in range(6)]
    size = paths[0].stat().st_size
    found = cut(probi.io.read(paths, weight="weight"), 2 * size)
    assert [part.start for part in found] == [Position(0, 0), Position(2, 0), Position(4, 0)]


def test_a_part_of_no_bytes_is_refused(tmp_path):
    path = write(tmp_path / "x.csv", {"x": [1.0], "y": [2.0]})
    with pytest.raises(InputError, match="part_bytes"):
        cut(probi.io.read(path), 0)


def test_parts_of_files_whose_ids_start_anew(tmp_path, monkeypatch):
    tiny(monkeypatch, 3)
    for i in range(3):
        write(tmp_path / f"{i}.parquet", {"id": [7, 7, 1, 2, 2, 7 + i, 7 + i], "x": np.arange(7.0) + 10 * i}, step=2)
    options = {"layout": "long", "id_per_file": True}
    # In the first file 7 would come back.
    write(tmp_path / "0.parquet", {"id": [5, 5, 1, 2, 2, 7, 7], "x": np.arange(7.0)}, step=2)
    whole = joined(list(probi.io.read(tmp_path, **options).batches()))
    batches = [batch for part in parts_of(tmp_path, **options) for batch in part]
    assert joined(batches) == whole
    assert np.diff(whole.offsets).tolist() == [2, 1, 2, 2] * 3
