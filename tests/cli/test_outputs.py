"""Outputs never take the place of inputs or of each other, and belong to the data that was read."""

import pytest
from commands import error_line, probi
from table_files import write

from probi import _files
from probi.cli import steps
from probi.io.rows import Rows

POINTS = {"x": [1.0, 2.0, 9.0, 3.0], "y": [0.0, 1.0, 2.0, 3.0]}
OVERWRITTEN = "is an input and would be overwritten"


@pytest.fixture(autouse=True)
def no_report(monkeypatch):
    monkeypatch.setattr("probi.cli.results.write_run_report", lambda outcome, path: None)


@pytest.fixture
def data(tmp_path):
    return write(tmp_path / "data.csv", POINTS)


def test_a_checkpoint_is_not_the_result(data, tmp_path, capsys):
    both = ("-o", tmp_path / "s.probi", "--checkpoint", tmp_path / "s.probi")
    said = error_line(probi(capsys, "summarize", data, "-k", 2, *both, "-q"))
    assert "would be both the result and the checkpoint" in said
    out = tmp_path / "out"
    said = error_line(probi(capsys, "cluster", data, "-k", 2, "-o", out, "--checkpoint", out / "summary.probi", "-q"))
    assert "would be both the result and the checkpoint" in said


@pytest.mark.parametrize("link", ["symlink_to", "hardlink_to"])
def test_links_to_an_output_are_inputs(data, tmp_path, capsys, link):
    before = data.read_bytes()
    getattr(tmp_path / "link.csv", link)(data)
    assert OVERWRITTEN in error_line(
        probi(capsys, "convert", data, "--to", "points", "-o", tmp_path / "link.csv", "-q")
    )
    out = tmp_path / "out"
    out.mkdir()
    getattr(out / "centers.csv", link)(data)
    assert OVERWRITTEN in error_line(probi(capsys, "cluster", data, "-k", 2, "-o", out, "-q"))
    assert data.read_bytes() == before


def test_no_file_of_a_results_folder_is_an_input(tmp_path, capsys):
    data = write(tmp_path / "result.json", POINTS, format="csv")
    before = data.read_bytes()
    ran = probi(capsys, "cluster", data, "--format", "csv", "-k", 2, "-o", tmp_path, "-q")
    assert OVERWRITTEN in error_line(ran)
    assert data.read_bytes() == before


def test_centers_and_scales_are_not_overwritten(data, tmp_path, capsys):
    centers = write(tmp_path / "centers.csv", {"x": [1.0], "y": [2.0]})
    ran = probi(capsys, "assign", data, "--centers", centers, "-o", centers, "-q")
    assert OVERWRITTEN in error_line(ran)
    scales = tmp_path / "scales.json"
    scales.write_text('{"x": 2.0, "y": 3.0}')
    ran = probi(capsys, "summarize", data, "-k", 2, "--scale", scales, "-o", scales, "-q")
    assert OVERWRITTEN in error_line(ran)


def test_hard_links_count_once(data, tmp_path, capsys):
    (tmp_path / "again.csv").hardlink_to(data)
    ran = probi(capsys, "cluster", data, tmp_path / "again.csv", "-k", 2, "-q")
    assert "was given twice" in error_line(ran)


@pytest.mark.parametrize("text", ["5,6\n", "7\n"])
def test_a_file_that_changes_between_the_passes_stops_the_run(data, tmp_path, capsys, monkeypatch, text):
    solve_all = steps.solve_all

    def change(*arguments):
        with data.open("a") as file:
            file.write(text)
        return solve_all(*arguments)

    monkeypatch.setattr(steps, "solve_all", change)
    ran = probi(capsys, "cluster", data, "-k", 2, "-o", tmp_path / "out", "-q")
    assert "data.csv has changed since the first pass over it" in error_line(ran)
    assert "2 clusters, cost" in ran.out
    assert not list((tmp_path / "out").iterdir())


def test_a_file_that_changes_during_the_second_pass_stops_the_run(data, tmp_path, capsys, monkeypatch):
    of_file = Rows.of_file
    calls = []

    def change(*arguments):
        calls.append(None)
        if len(calls) == 2:  # the second pass has read its first rows
            data.write_text("x,y\n1,2\n")
        return of_file(*arguments)

    monkeypatch.setattr(Rows, "of_file", change)
    ran = probi(capsys, "cluster", data, "-k", 2, "-o", tmp_path / "out", "-q")
    assert "data.csv has changed since the first pass over it" in error_line(ran)
    assert not list((tmp_path / "out").iterdir())


def test_two_runs_do_not_share_a_folder(data, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    with _files.locked_folder(out):
        said = error_line(probi(capsys, "cluster", data, "-k", 2, "-o", out, "-q"))
    assert said.startswith(f"Another run is writing to {out}.")
    assert probi(capsys, "cluster", data, "-k", 2, "-o", out, "-q").code == 0


@pytest.mark.parametrize("option", ["-o", "--checkpoint"])
@pytest.mark.parametrize("killed", [False, True])
def test_two_runs_do_not_share_a_file(data, tmp_path, capsys, option, killed):
    """Both read on from one checkpoint, and the first to end removed it under the other."""
    names = {"-o": tmp_path / "s.probi", "--checkpoint": tmp_path / "run.probi"}
    command = ["summarize", data, "-k", 2, "-q", *(word for pair in names.items() for word in pair)]
    if killed:  # its lock file is still there
        (tmp_path / f".{names[option].name}.lock").touch()
    else:
        with _files.locked_file(names[option]):
            said = error_line(probi(capsys, *command))
        assert said == f"Another run is writing to {names[option]}. Wait for its end, or use another name."
    assert probi(capsys, *command).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "s.probi"]
