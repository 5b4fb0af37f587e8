"""Processes that are killed or interrupted in the middle: the next one goes on, and ends with the same bytes."""

import random
import re
import signal
import sys
import time

import psutil
import pytest
from commands import Ran, error_line, files_of
from forked import Server
from table_files import columns_of, some_nodes, write

from probi import Summary

# What a whole run loads, and its kernels, on one thread: others would not be there after a fork. No report.
PREPARATION = """
import contextlib, io, sys
from pathlib import Path
from probi import _parallel
from probi.cli import app
app.block_unused_imports()
from probi.cli import results
results.write_run_report = lambda outcome, path: None
path, *arguments = {arguments!r}
Path(path).write_text("id,x,y\\n" + "".join(f"{{i // 2}},{{i % 7}},{{i % 3}}\\n" for i in range(400)))
with _parallel.limited(1), contextlib.redirect_stdout(io.StringIO()):
    assert app.run(arguments) == 0
"""

# Small batches, slow enough to be killed between any two of them, or in the middle of a file.
DRIVER = """
import pathlib, sys, time
from probi.cli import app, console
from probi.io.formats import base, csv_file
csv_file.BLOCK = 2000
base.MAX_ROWS = 100
pause = float(sys.argv.pop(1))
console.Progress.update = lambda *_: time.sleep(pause)

def write_slowly(path, data):
    with path.open("wb") as file:
        file.write(data[: len(data) // 2])
        file.flush()
        time.sleep(2 * pause)
        file.write(data[len(data) // 2 :])

pathlib.Path.write_bytes = write_slowly
sys.exit(app.main())
"""
pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows are others"),
]


def arguments(path, folder, checkpoint=True):
    return [
        "cluster", str(path), "-k", "3", "--size", "20", "--n-init", "1", "--layout", "long", "--on-bad", "skip",
        "-o", str(folder / "out"), *(["--checkpoint", str(folder / "run.probi")] if checkpoint else []),
        "--checkpoint-every", "30", "--max-bad", "0.5",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Return a function that starts a command."""
    folder = tmp_path_factory.mktemp("first")
    first = [str(folder / "x.csv"), *arguments(folder / "x.csv", folder), "-q"]
    with Server(PREPARATION.format(arguments=first), DRIVER) as server:
        yield lambda arguments, pause=0.0: server.start(pause, *arguments)


def end(process):
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out, err)


def wait_for(condition):
    """Wait until something is so, for a minute at most."""
    stop = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < stop, "this took too long"
        time.sleep(0.005)


def wait_until_idle(process):
    """Wait until a process has used no CPU time for a second."""
    used = []

    def is_idle():
        used.append(sum(psutil.Process(process.pid).cpu_times()[:2]))
        time.sleep(0.1)
        return used[-10:] == 10 * [used[-1]]

    wait_for(is_idle)


def stamp(path):
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.fixture(scope="module")
def data(start, tmp_path_factory):
    """A file, and what an uninterrupted run makes of it."""
    folder = tmp_path_factory.mktemp("whole")
    columns = columns_of(some_nodes("long", n=600), "long")
    for row in range(7, len(columns["x0"]), 25):
        columns["x0"][row] = float("inf")
    path = write(folder / "x.csv", columns)
    assert end(start(arguments(path, folder, checkpoint=False))).code == 0
    return path, files_of(folder / "out", "result.json")


def test_kills_at_random_moments(start, data, tmp_path):
    path, expected = data
    checkpoint = tmp_path / "run.probi"
    draw = random.Random(0)
    for _ in range(2):  # benchmarks kills has hundreds
        process = start(arguments(path, tmp_path), pause=0.05)
        before = stamp(checkpoint)
        wait_for(lambda before=before, process=process: stamp(checkpoint) != before or process.poll() is not None)
        time.sleep(draw.uniform(0, 0.1))
        process.kill()
        ran = end(process)
        assert ran.code == -signal.SIGKILL, ran.err
    assert not (tmp_path / "out" / "centers.csv").exists()
    assert end(start(arguments(path, tmp_path))).code == 0
    assert files_of(tmp_path / "out", "result.json") == expected
    assert not checkpoint.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_interrupt_stops_after_the_batch(start, data, tmp_path, number):
    path, expected = data
    checkpoint = tmp_path / "run.probi"
    process = start(arguments(path, tmp_path), pause=0.05)
    wait_for(checkpoint.exists)
    process.send_signal(number)
    ran = end(process)
    assert ran.code == 1
    assert ran.out == ""
    _, note, said = ran.err.splitlines()
    assert note == "Stopping after this batch; Ctrl-C again to stop at once."
    assert said.startswith("probi: Stopped after ")
    assert said.endswith(f"Rerun the same command to resume from {checkpoint}.")
    assert end(start(arguments(path, tmp_path))).code == 0
    assert files_of(tmp_path / "out", "result.json") == expected


def test_an_interrupt_without_a_checkpoint_says_so(start, data, tmp_path):
    path, _ = data
    process = start([*arguments(path, tmp_path, checkpoint=False), "-q"], pause=0.1)
    wait_for((tmp_path / "out" / "rejected.csv").exists)
    process.send_signal(signal.SIGINT)
    said = error_line(end(process), code=1)
    assert said.endswith("Nothing was saved; with --checkpoint FILE the next run could resume here.")


def test_a_second_interrupt_stops_at_once(start, data, tmp_path):
    path, _ = data
    process = start([*arguments(path, tmp_path), "-q"], pause=30)
    wait_for((tmp_path / "out" / "rejected.csv").exists)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    said = error_line(end(process), code=1)
    assert said == f"Stopped. Rerun the same command to resume from {tmp_path / 'run.probi'}."


def test_an_interrupt_while_a_pipe_says_nothing(start, tmp_path):
    """The reading thread waits for bytes that never come; Ctrl-C saves what came and ends the command all the same."""
    saved = tmp_path / "run.probi"
    process = start(["cluster", "-", "-k", "2", "--checkpoint", saved])
    process.stdin.write("x,y\n" + "1,2\n3,5\n" * 6_000)  # more than a block, so that a part of it is parsed
    process.stdin.flush()
    try:
        assert process.stderr.readline().startswith("standard input: layout points")
        wait_until_idle(process)  # all that came is in the summary
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 1
        said = process.stderr.read()
        assert re.search(r"Stopped after [1-9][\d,]* nodes", said)
        assert "Fatal" not in said
        assert Summary.load(saved).n_nodes > 10_000
    finally:
        process.kill()
        end(process)
