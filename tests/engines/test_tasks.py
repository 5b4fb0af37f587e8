"""What a worker does with a part, whatever engine it belongs to."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from samples import numbered
from table_files import as_nodes, columns_of, some_nodes, write

import probi.io
from probi import InputError, Summary
from probi.engines.engine import Files, Frame, reader_of
from probi.engines.tasks import Assign, Summarize, groups, merge, unpack_part
from probi.io.passes import N_SHOWN, assign_all
from probi.summary.config import SummaryConfig

TASK = Summarize(SummaryConfig(3, 40, seed=5))
PLAIN = some_nodes("long", n=600)
COLUMNS = columns_of(PLAIN, "long")


def files_of(source, part_bytes=1, **reading):
    return Files.of(reader_of(source, reading), part_bytes)


def tree(parts, fan_in=TASK.fan_in):
    while len(parts) > 1:
        parts = [merge([parts[i] for i in group]) for group in groups(len(parts), fan_in)]
    return parts[0]


@pytest.fixture
def files(tmp_path):
    path = write(tmp_path / "x.parquet", COLUMNS, step=50)
    return files_of(path, layout="long")


@pytest.mark.slow
def test_a_tree_of_parts_is_the_summary_of_shards(files):
    parts = [files.run(TASK, number) for number in range(len(files.parts))]
    assert len(parts) > 20
    summary, stats = unpack_part(tree(parts))
    plain = Summary(3, 40, random_state=5)
    found = [unpack_part(part)[0] for part in parts]
    for other in found[1:]:
        found[0].merge(other)
    assert summary.to_bytes() == found[0].to_bytes()
    assert summary.n_nodes == len(PLAIN) == stats.counts.nodes
    assert stats.counts.rows == len(COLUMNS["id"])
    plain.update(as_nodes(PLAIN))
    assert summary.mass == pytest.approx(plain.mass)


def test_parts_of_one_part_are_the_summary_of_one_process(files, tmp_path):
    whole = files_of(tmp_path / "x.parquet", 1 << 30, layout="long")
    plain = Summary(3, 40, random_state=5)
    plain.update(as_nodes(PLAIN))
    found, _ = unpack_part(whole.run(TASK, 0))
    found.about.clear()
    assert found.to_bytes() == plain.to_bytes()


@pytest.mark.parametrize("ids", [np.arange(200), [f"n{i}" for i in range(200)]])
def test_nodes_that_are_scattered_over_parts_are_noticed(tmp_path, monkeypatch, ids):
    """Neither inside a part nor at the border of two does an id come twice."""
    monkeypatch.setattr("probi.engines.tasks.N_COMPARED", 20)
    for file in range(4):
        half = slice(100 * (file % 2), 100 * (file % 2) + 100)
        write(tmp_path / f"{file}.parquet", {"id": ids[half], "x": np.arange(100.0) + file}, step=100)
    files = files_of(tmp_path, layout="long")
    parts = [files.run(TASK, number) for number in range(len(files.parts))]
    assert unpack_part(merge(parts[:2]))[0].n_nodes == 200
    with pytest.raises(InputError, match=r"Sort the data by id.*--id-per-file"):
        merge([merge(parts[:2]), merge(parts[2:])])
    per_file = files_of(tmp_path, layout="long", id_per_file=True)
    assert unpack_part(tree([per_file.run(TASK, number) for number in range(4)]))[0].n_nodes == 400


@pytest.mark.slow
def test_what_a_tree_node_gets_does_not_grow_with_the_parts():
    """Complete groups of neighbours become one coreset of the same size; the audit sample is full from the start."""
    sizes = {}
    small = replace(TASK, config=replace(TASK.config, audit_size=200))
    leaves = [small.of_nodes([numbered(300, seed=i)], i) for i in range(64)]
    for n_parts in (4, 64):
        parts, largest = leaves[:n_parts], 0
        while len(parts) > 1:
            parts = [merge([parts[i] for i in group]) for group in groups(len(parts), TASK.fan_in)]
            largest = max(largest, *map(len, parts))
        sizes[n_parts] = largest
    assert sizes[64] < 1.5 * sizes[4]


def test_a_node_in_two_parts_that_are_read_apart_is_an_error(tmp_path):
    for i in range(2):
        write(tmp_path / f"{i}.csv", {"id": [i, 1], "x0": [0.0, 1.0], "p": [0.5, 0.5]})
    files = files_of(tmp_path, layout="long")
    parts = [files.run(TASK, number) for number in range(2)]
    with pytest.raises(InputError, match="node 1 are in two files"):
        merge(parts)


def test_an_empty_part_between_does_not_hide_it(tmp_path):
    for i in range(2):
        write(tmp_path / f"{2 * i}.csv", {"id": [i, 1], "x0": [0.0, 1.0], "p": [0.5, 0.5]})
    (tmp_path / "1.csv").write_text("id,x0,p\n")
    files = files_of(tmp_path, layout="long")
    parts = [files.run(TASK, number) for number in range(len(files.parts))]
    with pytest.raises(InputError, match="node 1 are in two files"):
        tree(parts)


@pytest.mark.slow
def test_rejected_rows_come_along_in_order(tmp_path):
    columns = COLUMNS | {"x0": [float("nan") if i % 97 == 5 else x for i, x in enumerate(COLUMNS["x0"])]}
    path = write(tmp_path / "x.parquet", columns, step=50)
    files = files_of(path, layout="long", missing="skip-node")
    task = replace(TASK, keeps_rejected=True)
    _, stats = unpack_part(tree([files.run(task, number) for number in range(len(files.parts))]))
    batches = list(probi.io.read(path, layout="long", missing="skip-node").batches())
    assert list(stats.rejected) == [row for batch in batches for row in batch.rejected]
    assert stats.counts == batches[-1].counts
    _, without = unpack_part(files.run(TASK, 0))
    assert without.rejected == []


@pytest.mark.parametrize("reading", [{"missing": "skip-node"}, {"on_bad": "skip"}])
def test_a_torn_node_is_noticed_though_one_half_is_left_out(tmp_path, reading):
    value = "" if "missing" in reading else "x"
    (tmp_path / "a.csv").write_text(f"id,x0,p\n1,0,.5\n1,1,.5\n2,{value},.25\n")
    (tmp_path / "b.csv").write_text("id,x0,p\n2,3,.25\n2,4,.5\n3,0,1\n")
    files = files_of(tmp_path, layout="long", features=["x0"], **reading)
    with pytest.raises(InputError, match="node 2 are in two files"):
        tree([files.run(TASK, number) for number in range(len(files.parts))])


def test_ids_of_another_kind_in_a_later_part_are_seen_before_any_worker_starts(tmp_path):
    write(tmp_path / "a.parquet", {"id": [1, 2], "x0": [0.0, 1.0], "p": [1.0, 1.0]})
    write(tmp_path / "b.parquet", {"id": ["1", "3"], "x0": [0.0, 1.0], "p": [1.0, 1.0]})
    for layout in ("long", "points"):
        with pytest.raises(InputError, match=r"b\.parquet has text in column 'id'"):
            files_of(tmp_path, layout=layout)


def test_a_worker_in_another_folder_reads_the_same_file(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    write(tmp_path / "here" / "x.csv", {"x": [1.0, 2.0], "y": [3.0, 5.0]})
    write(tmp_path / "there" / "x.csv", {"x": [7.0], "y": [7.0]})
    monkeypatch.chdir(tmp_path / "here")
    files = files_of("x.csv")
    monkeypatch.chdir(tmp_path / "there")
    assert unpack_part(files.run(TASK, 0))[0].n_nodes == 2
    assert str(files.sources[0]) == "x.csv"


def test_a_file_that_changed_or_is_not_there_is_an_error(tmp_path):
    path = write(tmp_path / "x.csv", {"x": [1.0, 2.0], "y": [3.0, 5.0]})
    files = files_of(path)
    write(path, {"x": [1.0, 2.0, 3.0], "y": [3.0, 5.0, 6.0]})
    with pytest.raises(InputError, match=r"x\.csv has .* bytes instead of .* on "):
        files.run(TASK, 0)
    path.unlink()
    with pytest.raises(InputError, match=r"x\.csv does not exist on "):
        files.run(TASK, 0)


def test_scales_without_a_row_to_estimate_them_from_are_an_error(tmp_path):
    path = write(tmp_path / "x.csv", {"x": [None, None], "y": [1.0, 2.0]})
    with pytest.raises(InputError, match="no row to estimate scales from"):
        files_of(path, scale="standard", missing="skip-row", features=["x", "y"])


@pytest.mark.slow
def test_sums_of_parts_are_the_sums_of_all(files, tmp_path):
    centers = (np.array([[-5.0, 0.0], [5.0, 0.0], [4.0, 1.0]]), np.array([[0.0, 0.0], [0.5, 0.0]]))
    task = Assign(centers)
    expected = assign_all(probi.io.read(tmp_path / "x.parquet", layout="long"), centers)
    sums, *others = (unpack_part(files.run(task, number))[1] for number in range(len(files.parts)))
    for tallies in others:
        for total, tally in zip(sums, tallies, strict=True):
            total.add(tally)
    for found, wanted in zip(sums, expected, strict=True):
        assert found.cost == pytest.approx(wanted.cost, rel=1e-12)
        assert_array_equal(found.counts, wanted.counts)
        assert (found.n_nodes, found.n_borderline) == (wanted.n_nodes, wanted.n_borderline)
        assert found.n_borderline > N_SHOWN
        assert found.borderline == wanted.borderline


@pytest.mark.slow
def test_scales_are_those_of_the_first_rows_in_every_part(tmp_path):
    path = write(tmp_path / "x.parquet", COLUMNS, step=50)
    reading = {"layout": "long", "scale": "standard"}
    files = files_of(path, **reading)
    summary, _ = unpack_part(tree([files.run(TASK, number) for number in range(len(files.parts))]))
    reader = probi.io.read(path, **reading)
    list(reader)
    assert summary.about["space"] == json.loads(json.dumps(reader.space.to_json()))
    assert reader.space.scale is not None


@pytest.mark.parametrize(
    ("inputs", "reading", "message"),
    [("-", {}, "standard input"), ("x.csv", {"gather": True}, "gather")],
)
def test_what_workers_cannot_share_is_refused(tmp_path, monkeypatch, inputs, reading, message):
    write(tmp_path / "x.csv", {"id": [1], "x": [1.0], "p": [1.0]})
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "x.csv").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(InputError, match=message):
            files_of(inputs, **reading)


def test_a_partition_is_named_in_errors(tmp_path):
    import pyarrow as pa

    good = pa.table({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    how = Frame.of(good, {})
    bad = pa.table({"x": [1.0, float("nan")], "y": [3.0, 4.0]})
    with pytest.raises(InputError, match=r"partition 17, row 2 .*'x'"):
        how.run(TASK, 17, [bad])


def test_an_empty_partition_is_an_empty_summary():
    import pyarrow as pa

    how = Frame.of(pa.table({"x": [1.0]}), {})
    summary, stats = unpack_part(how.run(TASK, 3, []))
    assert summary.n_nodes == stats.counts.rows == 0


def test_workers_thin_as_the_task_says(tmp_path):
    X = np.random.default_rng(0).normal(size=(900, 2))
    path = write(tmp_path / "x.parquet", {"x0": X[:, 0], "x1": X[:, 1]})
    task = Summarize(SummaryConfig(3, 40, seed=5, max_realizations=4))
    made, _ = unpack_part(task(reader_of(path, {"layout": "groups", "group_size": 30}), 2))
    local = Summary(3, 40, random_state=5, shard=2, max_realizations=4)
    for nodes in probi.io.read(path, layout="groups", group_size=30):
        local.update(nodes)
    assert made.max_realizations == 4
    assert made.thinning_bound == local.thinning_bound > 0
    assert made.coreset() == local.coreset()
