"""What a worker does with a part, whatever engine it belongs to."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from samples import numbered
from table_files import as_nodes, columns_of, some_nodes, write

import probi.io
from probi import InputError, Summary
from probi.engines._work import Assign, Files, Frame, Recipe, groups, merge, opened, table_of_bytes
from probi.io.assign import N_SHOWN, assign_all

RECIPE = Recipe.checked(3, 40, "default", 5)
PLAIN = some_nodes("long", n=600)
COLUMNS = columns_of(PLAIN, "long")


def tree(parts, fan_in=RECIPE.fan_in):
    while len(parts) > 1:
        parts = [merge([parts[i] for i in group]) for group in groups(len(parts), fan_in)]
    return parts[0]


@pytest.fixture
def files(tmp_path):
    path = write(tmp_path / "x.parquet", COLUMNS, step=50)
    return Files.of(path, 1, {"layout": "long"})


def test_a_tree_of_parts_is_the_summary_of_shards(files):
    parts = [files.run(RECIPE, number) for number in range(len(files.parts))]
    assert len(parts) > 20
    summary, account = opened(tree(parts))
    plain = Summary(3, 40, random_state=5)
    found = [opened(part)[0] for part in parts]
    for other in found[1:]:
        found[0].merge(other)
    assert summary.to_bytes() == found[0].to_bytes()
    assert summary.n_nodes == len(PLAIN) == account.counts.nodes
    assert account.counts.rows == len(COLUMNS["id"])
    plain.update(as_nodes(PLAIN))
    assert summary.mass == pytest.approx(plain.mass)


def test_parts_of_one_part_are_the_summary_of_one_process(files, tmp_path):
    whole = Files.of(tmp_path / "x.parquet", 1 << 30, {"layout": "long"})
    plain = Summary(3, 40, random_state=5)
    plain.update(as_nodes(PLAIN))
    found, _ = opened(whole.run(RECIPE, 0))
    found.about.clear()
    assert found.to_bytes() == plain.to_bytes()


def test_what_a_tree_node_gets_does_not_grow_with_the_parts():
    """Complete groups of neighbours become one coreset of the same size; the audit sample is full from the start."""
    sizes = {}
    for n_parts in (4, 16, 64):
        parts = [RECIPE.of_nodes([numbered(3000, seed=i)], i) for i in range(n_parts)]
        largest = 0
        while len(parts) > 1:
            parts = [merge([parts[i] for i in group]) for group in groups(len(parts), RECIPE.fan_in)]
            largest = max(largest, *map(len, parts))
        sizes[n_parts] = largest
    assert sizes[64] < 1.5 * sizes[4]


def test_a_node_in_two_parts_that_are_read_apart_is_an_error(tmp_path):
    for i in range(2):
        write(tmp_path / f"{i}.csv", {"id": [i, 1], "x0": [0.0, 1.0], "p": [0.5, 0.5]})
    files = Files.of(tmp_path, 1, {"layout": "long"})
    parts = [files.run(RECIPE, number) for number in range(2)]
    with pytest.raises(InputError, match="node 1 stand in two files"):
        merge(parts)


def test_an_empty_part_between_does_not_hide_it(tmp_path):
    for i in range(2):
        write(tmp_path / f"{2 * i}.csv", {"id": [i, 1], "x0": [0.0, 1.0], "p": [0.5, 0.5]})
    (tmp_path / "1.csv").write_text("id,x0,p\n")
    files = Files.of(tmp_path, 1, {"layout": "long"})
    parts = [files.run(RECIPE, number) for number in range(len(files.parts))]
    with pytest.raises(InputError, match="node 1 stand in two files"):
        tree(parts)


def test_rejected_rows_come_along_in_order(tmp_path):
    columns = COLUMNS | {"x0": [float("nan") if i % 97 == 5 else x for i, x in enumerate(COLUMNS["x0"])]}
    path = write(tmp_path / "x.parquet", columns, step=50)
    files = Files.of(path, 1, {"layout": "long", "missing": "skip-node"})
    _, account = opened(tree([files.run(RECIPE, number) for number in range(len(files.parts))]))
    batches = list(probi.io.read(path, layout="long", missing="skip-node").batches())
    assert list(account.rejected) == [row for batch in batches for row in batch.rejected]
    assert account.counts == batches[-1].counts


def test_sums_of_parts_are_the_sums_of_all(files, tmp_path):
    centers = (np.array([[-5.0, 0.0], [5.0, 0.0], [4.0, 1.0]]), np.array([[0.0, 0.0], [0.5, 0.0]]))
    task = Assign(centers)
    expected = assign_all(probi.io.read(tmp_path / "x.parquet", layout="long"), centers)
    tables = [table_of_bytes(files.run(task, number)) for number in range(len(files.parts))]
    sums = task.tallies(tables[0])
    for table in tables[1:]:
        for total, tally in zip(sums, task.tallies(table), strict=True):
            total.add(tally)
    for found, wanted in zip(sums, expected, strict=True):
        assert found.cost == pytest.approx(wanted.cost, rel=1e-12)
        assert_array_equal(found.counts, wanted.counts)
        assert (found.n_nodes, found.n_between) == (wanted.n_nodes, wanted.n_between)
        assert found.n_between > N_SHOWN
        assert found.most_between() == wanted.most_between()


def test_scales_are_those_of_the_first_rows_in_every_part(tmp_path):
    path = write(tmp_path / "x.parquet", COLUMNS, step=50)
    reading = {"layout": "long", "scale": "standard"}
    files = Files.of(path, 1, reading)
    summary, _ = opened(tree([files.run(RECIPE, number) for number in range(len(files.parts))]))
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
            Files.of(inputs, 1, reading)


def test_a_partition_is_named_in_errors(tmp_path):
    import pyarrow as pa

    good = pa.table({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    how = Frame.of(good, {})
    bad = pa.table({"x": [1.0, float("nan")], "y": [3.0, 4.0]})
    with pytest.raises(InputError, match=r"partition 17, row 2 .*'x'"):
        how.run(RECIPE, 17, [bad])


def test_an_empty_partition_is_an_empty_summary():
    import pyarrow as pa

    how = Frame.of(pa.table({"x": [1.0]}), {})
    summary, account = opened(how.run(RECIPE, 3, []))
    assert summary.n_nodes == account.counts.rows == 0
