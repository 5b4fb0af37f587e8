"""What only a process of its own shows: pipes, terminals, closed pipes, a missing package, the demo."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from commands import Ran, command, probi, probi_process
from table_files import write

from probi import __version__
from probi.io.demo_data import otis_table

# As people have it: what is printed waits, and may fail only at the very end.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

posix = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo terminals and no head on Windows")


@pytest.fixture
def path(tmp_path):
    """Rows few enough that a process needs hardly any kernel."""
    return write(tmp_path / "x.csv", {"x": (np.arange(600.0) % 97).tolist(), "y": (np.arange(600.0) % 31).tolist()})


def python(program, *arguments, **options):
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, timeout=60, check=False, **options
    )
    return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


@pytest.mark.process
def test_a_pipe_in_and_a_pipe_out(path):
    with path.open("rb") as file:
        ran = probi_process("cluster", "-", "-k", "2", "--n-init", "1", "--json", stdin=file)
    assert ran.json["counts"]["rows"] == 600
    (line,) = ran.err.splitlines()
    assert line == "standard input: layout points (each row a certain node); 2 features (x, y)."


@pytest.mark.process
def test_the_exit_code_of_the_process(path):
    ran = probi_process("check", "missing.csv", cwd=path.parent)
    assert ran.code == 2
    assert "Traceback" not in ran.err


# -- terminals --------------------------------------------------------------------------------------------------------

# A bar at once, drawn after each batch: with its own clock, a busy machine would not draw it in time.
DRAWN = """
import sys
from probi.cli import app, console
app.block_unused_imports()
from probi.io.formats import csv_file
csv_file.BLOCK = 600
console.SHOW_AFTER_SECONDS = 0.0
update = console.Progress.update

def update_and_draw(progress, *values):
    if progress._timer.is_alive():
        progress._timer.join()
    update(progress, *values)
    if progress._bar is not None:
        progress._bar.refresh()

console.Progress.update = update_and_draw
sys.exit(app.main())
"""


def in_terminal(*arguments):
    """What a terminal shows, and standard output, which is no terminal."""
    import pty

    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-c", DRAWN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    out = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    return shown.decode(), out


@pytest.mark.process
@posix
def test_a_bar_in_a_terminal(path):
    shown, out = in_terminal("cluster", path, "-k", "2", "--n-init", "1")
    assert re.search(r"Reading .*\d+%.* [\d,]+ nodes, [\d,]+ per second, [\d,]+ MB.*\d:\d\d:\d\d", shown)
    assert "100%" in shown or re.search(r"9\d%", shown)
    assert "a second" not in out
    assert out.startswith("2 clusters")


@pytest.mark.process
@posix
def test_no_bar_where_it_is_quiet_or_no_terminal(path):
    shown, out = in_terminal("cluster", path, "-k", "2", "--n-init", "1", "-q")
    assert shown == ""
    ran = python(DRAWN, "cluster", path, "-k", "2", "--n-init", "1")
    assert ran.out == out
    assert ran.err == f"{path}: layout points (each row a certain node); 2 features (x, y).\n"


@pytest.mark.process
@posix
@pytest.mark.parametrize(
    ("arguments", "wait"),
    [
        (("cluster", "x.csv", "-k", "1:6", "--n-init", "1", "-q"), True),
        (("check", "bad.csv", "-q"), True),
        (("info", "x.csv"), False),
    ],
)
def test_a_reader_that_has_enough(path, arguments, wait):
    """As with | head -1, after the first line or at once: no traceback."""
    write(path.parent / "bad.csv", {"x": [1.0, 2.0, "red"] * 700})
    process = subprocess.Popen(
        command(*arguments), cwd=path.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=BUFFERED
    )
    if wait:
        assert process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read().decode()
    process.stderr.close()
    process.wait(timeout=30)
    assert err == ""


@pytest.mark.process
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_standard_output_on_a_full_disk(path):
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            command("info", path), stdout=full, stderr=subprocess.PIPE, check=False, env=BUFFERED
        )  # fmt: skip
    assert ended.returncode == 1
    assert ended.stderr.decode() == "probi: standard output: No space left on device.\n"


# -- the demo ---------------------------------------------------------------------------------------------------------


def test_the_table_of_the_demo():
    """799 hours of forecasts with 19,947 positions; a member at most once an hour, and some have lost the storm."""
    table = otis_table()
    assert len(table) == 19_947
    hours = table.group_by(["init", "tau"]).aggregate([("member", "count"), ("member", "count_distinct")])
    assert len(hours) == 799
    assert hours["member_count"] == hours["member_count_distinct"]
    assert max(hours["member_count"].to_pylist()) == 31
    assert min(hours["member_count"].to_pylist()) < 31
    assert set(table["probability"].to_pylist()) == {1 / 31}
    assert -180 <= min(table["lon"].to_pylist()) <= max(table["lon"].to_pylist()) < 0


@pytest.mark.slow
def test_the_demo(tmp_path, capsys):
    out = tmp_path / "demo"
    ran = probi(capsys, "demo", "-o", out)
    assert ran.code == 0, ran.err
    assert sorted(file.name for file in out.iterdir()) == [
        "assignment.parquet", "centers.csv", "centers.parquet", "forecasts.parquet", "report.html", "result.json",
        "summary.probi",
    ]  # fmt: skip
    values = json.loads((out / "result.json").read_text())
    assert (values["counts"]["rows"], values["n_nodes"], values["unit"]) == (19_947, 799, "km")
    assert values["summary"]["mass"] == pytest.approx(19_947 / 31)
    assert values["standard_error"] == 0.0
    assert ran.out.splitlines()[0].startswith(f"6 clusters, cost {values['cost']:,.6g} km")
    table = pq.read_table(out / "assignment.parquet")
    assert table.column_names[:3] == ["row", "init", "tau"]
    assert len(table) == 799
    shown, *_, last = ran.err.splitlines()
    assert last == f"Report: {(out / 'report.html').resolve().as_uri()}"
    assert "<html" in (out / "report.html").read_text()[:200]
    # What it says it does can be typed, and does the same.
    again = tmp_path / "again"
    words = shown.removeprefix("$ probi ").split()
    assert probi(capsys, *words[:-1], again, "-q").code == 0
    for name in ("centers.parquet", "summary.probi", "assignment.parquet"):
        assert (again / name).read_bytes() == (out / name).read_bytes()


def test_the_demo_where_a_file_is_in_the_way(tmp_path, capsys):
    (tmp_path / "demo").write_text("mine")
    ran = probi(capsys, "demo", "-o", tmp_path / "demo")
    assert ran.code == 2
    assert "is a file, but the results need a folder" in ran.err
    assert (tmp_path / "demo").read_text() == "mine"


# -- Ctrl-C where nothing is read -------------------------------------------------------------------------------------


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_an_interrupt_of_any_command(path, capsys, monkeypatch):
    # In the command, before it, and while its options are read.
    for place in ("probi.io.reader.Reader", "probi.cli.app.Options", "typer.core.TyperGroup.parse_args"):
        with monkeypatch.context() as patch:
            patch.setattr(place, interrupt)
            assert probi(capsys, "info", path) == (1, "", "probi: Stopped.\n")
    assert probi(capsys, "info", path).code == 0


@pytest.mark.process
def test_an_interrupt_while_modules_are_imported():
    code = (
        "import runpy, sys, types\n"
        "class Interrupted(types.ModuleType):\n"
        "    def __getattr__(self, name): raise KeyboardInterrupt\n"
        "sys.modules['probi.cli.app'] = Interrupted('probi.cli.app')\n"
        "runpy.run_module('probi', run_name='__main__')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "probi: Stopped.\n")


@pytest.mark.process
def test_what_is_to_be_done_at_exit_is_done():
    code = (
        "import atexit, sys; from probi.__main__ import main; sys.argv = ['probi', '--version']\n"
        "atexit.register(lambda: print('done', file=sys.stderr)); print('begun', end=' '); main()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"begun probi {__version__}\n", "done\n")


def test_an_interrupt_after_reading_says_how_to_go_on(path, tmp_path, capsys, monkeypatch):
    checkpoint = tmp_path / "run.probi"
    arguments = ("cluster", path, "-k", 2, "--n-init", 1, "-q", "--checkpoint", checkpoint)
    with monkeypatch.context() as patch:
        patch.setattr("probi.cli.steps.solve_all", interrupt)
        ran = probi(capsys, *arguments)
    assert ran == (1, "", f"probi: Stopped. Rerun the same command to resume from {checkpoint}.\n")
    assert checkpoint.exists()
    assert probi(capsys, *arguments).code == 0
    assert not checkpoint.exists()
