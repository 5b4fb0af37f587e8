"""Rows that are in no node: counted by kind, the first of each named, and an error where they are too many."""

import numpy as np
import pytest
from commands import error_line, probi
from table_files import batches_of, tiny, write

from probi import InputWarning, Nodes, Summary
from probi.engines.tasks import Assign
from probi.errors import InputError
from probi.io import node_assembler
from probi.io.node_assembler import Counts, by_kind
from probi.io.reader import read

NAN = float("nan")
SKIPPING = {"on_bad": "skip", "missing": "skip-row"}
# 60 rows: every third lacks a value, every tenth is infinite.
X = [NAN if i % 3 == 0 else float("inf") if i % 10 == 1 else float(i) for i in range(60)]
N_MISSING, N_INFINITE = 20, 4
KINDS = {"infinite in column 'x'": N_INFINITE, "no value in column 'x'": N_MISSING}


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(node_assembler, "MAX_LISTED", 3)


@pytest.mark.parametrize("rows", [2, 7, 100])
@pytest.mark.usefixtures("few")
def test_the_first_of_each_kind_are_named_and_all_are_counted(tmp_path, monkeypatch, rows):
    tiny(monkeypatch, rows)
    batches = batches_of(write(tmp_path / "x.parquet", {"x": X}), **SKIPPING)
    named = [(r.row, r.kind) for batch in batches for r in batch.rejected]
    missing, infinite = reversed(KINDS)
    assert named == [(1, missing), (2, infinite), (4, missing), (7, missing), (12, infinite), (32, infinite)]
    assert batches[-1].counts.left_out == KINDS
    left_out = np.concatenate([batch.left_out for batch in batches])
    assert left_out.tolist() == np.flatnonzero(~np.isfinite(X)).tolist()


@pytest.mark.usefixtures("few")
def test_a_node_is_left_out_for_its_first_bad_row(tmp_path):
    columns = {"id": list("aaabbb"), "x": [0.0, "red", "blue", 1.0, 2.0, 3.0]}
    *_, last = batches_of(write(tmp_path / "x.csv", columns), layout="long", features=["x"], on_bad="skip")
    assert last.counts.left_out == {"in a node with such a row": 1, "not a number in column 'x'": 2}


def test_check_and_rejected_csv_are_short(tmp_path, capsys, few):
    path = write(tmp_path / "x.csv", {"x": X})
    ran = probi(capsys, "check", path)
    assert (ran.code, len(ran.out.splitlines())) == (2, 6)
    assert "Left out 24 of 60 rows: 20 no value in column 'x', 4 infinite in column 'x'." in ran.err
    skipping = ("--on-bad", "skip", "--missing", "skip-row", "-k", 2, "-o", tmp_path / "out")
    ran = probi(capsys, "cluster", path, *skipping, "--max-bad", "0.4")
    assert ran.code == 0
    assert "Left out 24 of 60 rows: 20 no value" in ran.err
    assert len((tmp_path / "out" / "rejected.csv").read_text().splitlines()) == 7


def test_too_many_are_an_error_and_a_checkpoint_goes_on(tmp_path, capsys):
    path, out = write(tmp_path / "x.csv", {"x": X}), tmp_path / "out"
    options = ("-k", 2, "-q", "--on-bad", "skip", "--missing", "skip-row", "--checkpoint", tmp_path / "run.probi")
    said = error_line(probi(capsys, "cluster", path, "-o", out, *options))
    assert said.startswith(f"{path}: 24 of 60 rows (40.0%) were left out, more than 10%: 20 no value in column 'x', 4")
    assert "allow it with --max-bad 0.4." in said
    assert not (out / "result.json").exists()
    assert probi(capsys, "cluster", path, "-o", out, *options, "--max-bad", "0.4").code == 0
    # Rows that are too few for a group are no mistake of the data.
    path = write(tmp_path / "y.csv", {"x": list(range(9))})
    assert probi(capsys, "cluster", path, "--group-size", 5, "-k", 1, "-q", "--max-bad", "0").code == 0


def test_iterating_raises_after_the_last_batch(tmp_path):
    path = write(tmp_path / "x.parquet", {"x": X})
    reader = read(path, **SKIPPING)
    batches = iter(reader)
    assert len(next(batches)) == 36
    with pytest.raises(InputError, match=r"24 of 60 rows \(40\.0%\) were left out, more than 10%"):
        next(batches)
    assert reader.counts.left_out == KINDS
    assert sum(map(len, read(path, max_bad=0.4, **SKIPPING))) == 36
    with pytest.raises(InputError, match="max_bad is 10, but must be a share"):
        read(path, max_bad=10)


def test_many_kinds_are_taken_together():
    counts = Counts(left_out={f"kind {i:02}": 1 + i % 3 for i in range(12)})
    assert by_kind(counts) == [
        *(f"3 kind {i:02}" for i in (2, 5, 8, 11)), *(f"2 kind {i:02}" for i in (1, 4, 7, 10)),
        "1 kind 00", "1 kind 03", "2 for other reasons",
    ]  # fmt: skip


# -- probabilities that were rounded ----------------------------------------------------------------------------------

ROUNDED = {"id": [i // 6 for i in range(60)], "x": [float(i) for i in range(60)], "p": [0.166667] * 54 + [0.1] * 6}


@pytest.mark.parametrize("file", ["x.parquet", "x.csv"])
def test_rounded_probabilities_are_mended_and_counted(tmp_path, capsys, monkeypatch, file):
    path = write(tmp_path / file, ROUNDED)
    with pytest.warns(InputWarning, match="probabilities of 9 of 10 nodes sum to slightly more than 1"):
        nodes = Nodes.concat(list(read(path)))
    np.testing.assert_allclose(nodes.total_probabilities, [1.0] * 9 + [0.6], rtol=1e-15)
    ran = probi(capsys, "cluster", path, "-k", 2, "-o", tmp_path / "out", "--json")
    assert "Divided the probabilities of 9 of 10 nodes by their sum, which exceeded 1 by rounding." in ran.err
    assert ran.json["counts"]["normalized"] == 9
    assert len(Summary.load(tmp_path / "out" / "summary.probi").coreset()) == 10
    # Bit by bit the same, however the file is cut.
    tiny(monkeypatch, 4, block=40)
    assert Nodes.concat([batch.nodes for batch in batches_of(path) if len(batch.nodes)]) == nodes


def test_numbers_that_only_mean_proportions(tmp_path, capsys):
    columns = {"id": list("aab"), "x": [0.0, 1.0, 5.0], "p": [3.0, 1.0, 7.0]}
    path = write(tmp_path / "x.csv", columns)
    assert "sum to 4, above 1. Divide them by their sum (--probabilities normalize)" in error_line(
        probi(capsys, "cluster", path, "-k", 1, "-q")
    )
    nodes = Nodes.concat(list(read(path, probabilities="normalize")))
    assert nodes.probabilities.tolist() == [0.75, 0.25, 1.0]
    assert probi(capsys, "cluster", path, "-k", 1, "-q", "--probabilities", "normalize").code == 0
    write(path, columns | {"p": [0.0, 0.0, 7.0]})
    with pytest.raises(InputError, match=r"row 1 .*probabilities are all 0"):
        list(read(path, probabilities="normalize"))
    for options, match in [
        ({"layout": "points"}, "no column of probabilities to normalize"),
        ({"missing": "absent"}, "contradict each other"),
    ]:
        with pytest.raises(InputError, match=match):
            read(path, probabilities="normalize", **options)


# -- realizations that are absent -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["groups", "long"])
@pytest.mark.parametrize("rows", [2, 100])
def test_rows_that_lack_a_value_are_absent(tmp_path, monkeypatch, layout, rows):
    tiny(monkeypatch, rows)
    columns = {"id": list("aaabbbccc"), "x": [0.0, NAN, 2.0, NAN, NAN, NAN, 6.0, 7.0, 8.0]}
    options = {"group_size": 3, "features": ["x"]} if layout == "groups" else {"layout": "long"}
    path = write(tmp_path / "x.parquet", columns)
    nodes = Nodes.concat([b.nodes for b in batches_of(path, missing="absent", **options) if len(b.nodes)])
    assert nodes.probabilities.tolist() == [1 / 3] * 5
    assert nodes.points[:, 0].tolist() == [0.0, 2.0, 6.0, 7.0, 8.0]
    reader = read(path, missing="absent", **options)  # on request: no error, however many they are
    assert sum(map(len, reader)) == 2
    assert (reader.counts.missing, reader.counts.left_out) == (4, {"no value in column 'x'": 4})


@pytest.mark.parametrize("form", ["npy", "points", "features", "probabilities"])
def test_members_of_an_ensemble_that_are_absent(tmp_path, form):
    points = np.arange(24.0).reshape(4, 3, 2)
    points[0, 1] = NAN
    points[1, 2, 0] = NAN
    points[2] = NAN
    path = tmp_path / f"x.{'npy' if form == 'npy' else 'parquet'}"
    lists = points.tolist()
    if form == "npy":
        np.save(path, points)
    elif form == "features":
        write(path, {name: points[:, :, j].tolist() for j, name in enumerate("xy")})
    else:
        lists[0][1] = None
        write(path, {"points": lists} | ({"p": [[0.5, 0.25, 0.25]] * 4} if form == "probabilities" else {}))
    (batch,) = batches_of(path, missing="absent")
    assert batch.nodes.points.tolist() == points[~np.isnan(points).any(axis=2)].tolist()
    totals = [0.75, 0.75, 1.0] if form == "probabilities" else [2 / 3, 2 / 3, 1.0]
    np.testing.assert_allclose(batch.nodes.total_probabilities, totals, rtol=1e-15)
    assert batch.where.tolist() == [0, 1, 3]
    assert (batch.counts.absent, batch.counts.left_out) == (2, {"no realization with all its values": 1})


def test_lists_of_other_lengths_are_a_fault_though_some_are_absent(tmp_path):
    path = write(tmp_path / "x.parquet", {"x": [[1.0, NAN], [2.0, 3.0]], "y": [[1.0, 1.0], [2.0]]})
    with pytest.raises(InputError, match="row 2 has 1 values in column 'y', but 2 in 'x'"):
        list(read(path, missing="absent"))
    (batch,) = batches_of(path, missing="absent", on_bad="skip")
    assert batch.nodes.total_probabilities.tolist() == [0.5]


# -- ids that start anew in each file ---------------------------------------------------------------------------------


@pytest.fixture
def days(tmp_path):
    (tmp_path / "days").mkdir()
    monday, tuesday = tmp_path / "days" / "monday.csv", tmp_path / "days" / "tuesday.csv"
    write(monday, {"id": [2, 2, 1, 1], "x": [0.0, 1.0, 8.0, 9.0]})
    write(tuesday, {"id": [1, 1, 2, 2], "x": [8.5, 9.5, 0.5, 1.5]})  # Monday's last is called as Tuesday's first
    return monday.parent


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, 100])
@pytest.mark.parametrize("gather", [False, True])
def test_ids_per_file(days, capsys, monkeypatch, tmp_path, rows, gather):
    tiny(monkeypatch, rows, block=20)
    monday, tuesday = sorted(map(str, days.iterdir()))
    options = {"layout": "long", "id_per_file": True, "gather": gather}
    nodes = Nodes.concat([b.nodes for b in batches_of(days, **options) if len(b.nodes)])
    assert nodes.ids.tolist() == [(monday, 2), (monday, 1), (tuesday, 1), (tuesday, 2)]
    assert np.diff(nodes.offsets).tolist() == [2] * 4
    command = ("cluster", days, "--layout", "long", "--id-per-file", "-k", 2, "-o", tmp_path / "out", "-q")
    assert probi(capsys, *command, *["--gather"] * gather).code == 0
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "out" / "assignment.parquet").select(["file", "id"])
    assert [tuple(row.values()) for row in table.to_pylist()] == nodes.ids.tolist()
    # The file is part of the id, also of a single one.
    arguments = ("--centers", tmp_path / "out", "-o", tmp_path / "a.csv", "-q")
    assert probi(capsys, "assign", monday, *arguments).code == 0
    header, first, *_ = (tmp_path / "a.csv").read_text().splitlines()
    assert (header.split(",")[:3], first.split(",")[0]) == (["file", "row", "id"], f'"{monday}"')
    reader = read(monday, **options)
    assert Assign((np.zeros((1, 1)),)).empty(reader.known(), 1).column_names[:3] == ["file", "row", "id"]


def test_ids_that_come_back_in_another_file(days, capsys):
    write(days / "monday.csv", {"id": [1, 1, 2, 2], "x": [0.0, 1.0, 8.0, 9.0]})
    said = error_line(probi(capsys, "cluster", days, "--layout", "long", "-k", 2, "-q", "--on-bad", "skip"))
    assert "tuesday.csv, row 1 (line 2) of node 1 is not contiguous" in said
    assert "--gather. If ids restart in each file, pass --id-per-file." in said
    with pytest.raises(InputError, match=r"need a column of ids\. Name it"):
        read(days, layout="points", features=["x", "id"], id_per_file=True)
    # One that comes back in its own file has no such remedy; a column of that name is no trouble.
    write(days / "monday.csv", {"id": [1, 2, 1], "x": [0.0, 1.0, 8.0], "file": [1.0, 2.0, 3.0]})
    reader = read(days / "monday.csv", layout="long", id_per_file=True)
    assert reader.columns.ids == ("file_", "id")
    with pytest.raises(InputError, match=r"--gather\.$"):
        list(reader)


@pytest.mark.parametrize("on_bad", ["stop", "skip"])
def test_half_of_a_node_is_never_used(tmp_path, capsys, on_bad):
    path = tmp_path / "u.csv"
    path.write_text("id,x\na,0\nb,8\na,1\nb,9\n")
    said = error_line(probi(capsys, "cluster", path, "--layout", "long", "-k", 2, "-q", "--on-bad", on_bad))
    assert "row 3 (line 4) of node 'a' is not contiguous" in said
    # Not even where the row by which it would be noticed lacks a value.
    path.write_text("id,x\na,0\nb,8\na,\na,9\n")
    for missing in ("skip-row", "skip-node", "absent"):
        with pytest.raises(InputError, match=r"row 3 .* is not contiguous"):
            list(read(path, layout="long", missing=missing, on_bad=on_bad))
    ran = probi(capsys, "check", path, "--layout", "long", "-q", "--missing", "skip-row")
    assert (ran.code, ran.out.count("is not contiguous")) == (2, 2)
