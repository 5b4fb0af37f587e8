"""probi check names every row that cannot be used."""

import json
import re

import numpy as np
import pytest
from commands import error_line, probi
from table_files import write

X = [0.0, 1.0, 2.0, 9.0, 8.0]

PLANTED = {
    "x": [0.0, None, 2.0, float("inf"), 4.0, 5.0, 1e200, 7.0],
    "weight": [1.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
}


@pytest.mark.parametrize("file", ["x.csv", "x.csv.gz", "x.parquet", "x.arrow", "x.arrows"])
def test_check_names_every_bad_row(tmp_path, capsys, file):
    path = write(tmp_path / file, PLANTED, step=3)
    ran = probi(capsys, "check", path, "--weight", "weight")
    assert ran.code == 2
    lines = ran.out.splitlines()
    assert [int(re.search(r", row (\d+)", line)[1]) for line in lines] == [2, 3, 4, 7]
    reasons = ["has no value in column 'x'", "has -1 in column 'weight'", "has inf in column 'x'", "overflow"]
    assert all(reason in line for reason, line in zip(reasons, lines, strict=True))
    said = ran.err.splitlines()
    assert "8 rows: 4 good in 4 nodes, 4 bad" in said[-2]
    assert "Left out 4 of 8 rows: 1 infinite in column 'x', 1 negative in column 'weight', 1 no value" in said[-1]
    values = json.loads(probi(capsys, "check", path, "--weight", "weight", "--json", "-q").out)
    counts = {"rows": 8, "nodes": 4, "used": 4, "missing": 0, "rejected": 4, "incomplete": 0}
    assert counts.items() <= values["counts"].items()
    assert sum(values["counts"]["left_out"].values()) == 4
    assert [(entry["file"], entry["row"]) for entry in values["rows"]] == [(str(path), row) for row in (2, 3, 4, 7)]


def test_check_names_the_rows_of_a_node_with_a_bad_one(tmp_path, capsys):
    path = write(tmp_path / "x.csv", {"id": list("aabcc"), "x": X, "p": [0.5, 0.5, 1.0, 0.7, 0.5]})
    ran = probi(capsys, "check", path, "-q")
    assert ran.code == 2
    assert [re.search(r"row (\d+) .*", line)[0][:20] for line in ran.out.splitlines()] == [
        "row 4 (line 5) begin", "row 5 (line 6) belon",
    ]  # fmt: skip


@pytest.mark.parametrize("file", ["x.csv", "x.parquet", "x.arrow", "x.npy"])
def test_check_of_a_clean_file(tmp_path, capsys, file):
    if file == "x.npy":
        np.save(tmp_path / file, np.zeros((5, 1)))
    else:
        write(tmp_path / file, {"x": X})
    ran = probi(capsys, "check", tmp_path / file)
    assert (ran.code, ran.out) == (0, "")
    assert "5 rows: 5 good in 5 nodes, 0 bad" in ran.err
    assert probi(capsys, "check", tmp_path / file, "-q") == (0, "", "")


def test_check_of_a_file_without_rows(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("x,y\n")
    said = error_line(probi(capsys, "check", tmp_path / "x.csv", "-q"))
    assert f"{tmp_path / 'x.csv'} has no rows" in said


def test_check_of_several_files_names_each(tmp_path, capsys):
    write(tmp_path / "a.csv", {"x": [1.0, None, 3.0]})
    write(tmp_path / "b.csv", {"x": [float("inf"), 2.0]})
    ran = probi(capsys, "check", tmp_path, "-q")
    assert ran.code == 2
    assert [line.partition(" has")[0] for line in ran.out.splitlines()] == [
        f"{tmp_path / 'a.csv'}, row 2 (line 3)", f"{tmp_path / 'b.csv'}, row 1 (line 2)",
    ]  # fmt: skip


def test_check_counts_rows_that_may_be_missing_apart(tmp_path, capsys):
    path = write(tmp_path / "x.csv", {"id": list("aabb"), "x": [0.0, None, 2.0, 3.0], "p": [0.5] * 4})
    counts = {}
    for rule in ("error", "skip-row", "skip-node"):
        ran = probi(capsys, "check", path, "--missing", rule, "--json", "-q")
        counts[rule] = json.loads(ran.out)["counts"]
        assert ran.code == 2
    assert [(c["used"], c["missing"], c["rejected"]) for c in counts.values()] == [(2, 0, 2), (3, 1, 0), (2, 2, 0)]


def test_check_names_rows_that_are_no_group(tmp_path, capsys):
    path = write(tmp_path / "x.csv", {"x": X})
    ran = probi(capsys, "check", path, "--group-size", "2")
    assert ran.code == 0  # cluster would leave them out too, and say so
    assert ran.out == f"{path}, row 5 (line 6) is one of 1 last rows, too few for a group of 2\n"
    assert "1 in an incomplete group" in ran.err
