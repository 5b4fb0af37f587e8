"""Runs that are killed and interrupted at random moments, and resumed: the results have the same bytes each time.

``python -m benchmarks kills``: 200 times each of SIGKILL, SIGINT and SIGTERM.
"""

import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import probi
from probi import _parallel
from probi.cli import app, console, results
from probi.io.formats import base, csv_file

TIMES = 200
N_NODES = 2_000
# Seconds between two batches, so that most moments are in the middle of reading; and those after which a run is killed.
PAUSE, LATEST = 0.01, 0.8
# Kills of one run before it may end.
MAX_KILLS = 5


def write_data(path: Path) -> None:
    """Nodes of three realizations; some rows cannot be used."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write("id,x,y\n")
        for number in range(N_NODES):
            for x, y in rng.normal(size=(3, 2)) + 5 * rng.integers(3):
                file.write(f"{number},{'inf' if number % 100 == 7 else x},{y}\n")


def run(data: Path, folder: Path, pause: float = 0.0) -> int:
    """Start a run in a process of its own; return its number."""
    # Until the child handles them as probi.__main__ does, for which there is no moment before that.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    process = os.fork()
    if process:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return process
    code = 70
    try:
        console.Progress.update = lambda *_: time.sleep(pause)  # type: ignore[method-assign]
        os.dup2(os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        code = app.run([
            "cluster", str(data), "-k", "3", "--size", "20", "--n-init", "1", "--layout", "long", "--on-bad", "skip",
            "-q", "-o", str(folder / "out"), "--checkpoint", str(folder / "run.probi"), "--checkpoint-every", "50",
        ])  # fmt: skip
    except KeyboardInterrupt:
        code = 1
    finally:
        os._exit(code)


def contents(folder: Path) -> dict[str, bytes]:
    """Files of results, but that with times."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "result.json"}


def killed(data: Path, folder: Path, number: int, draw: random.Random) -> int:
    """Kill runs that resume from each other until one ends; return how many were."""
    for kills in range(MAX_KILLS):
        process = run(data, folder, PAUSE)
        time.sleep(draw.uniform(0.0, LATEST))
        os.kill(process, number)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code == 0:
            return kills
        assert code == (-number if number == signal.SIGKILL else 1), (code, (folder / "said").read_text())
    assert os.waitstatus_to_exitcode(os.waitpid(run(data, folder), 0)[1]) == 0, (folder / "said").read_text()
    return MAX_KILLS


def main(data: Path, times: int = TIMES) -> None:
    """Print a row per signal."""
    base.MAX_ROWS, csv_file.BLOCK = 100, 2_000
    results.write_run_report = lambda results, path: None
    with _parallel.limited(1):  # kernels are loaded once, and no thread is there at a fork
        summary = probi.Summary(3, size=20, random_state=0)
        summary.update(np.random.default_rng(0).normal(size=(300, 3, 2)))
        probi.solve(summary, 3, n_init=1, random_state=0)
    home = Path(tempfile.mkdtemp())
    try:
        file = home / "x.csv"
        write_data(file)
        (home / "whole").mkdir()
        assert os.waitpid(run(file, home / "whole"), 0)[1] == 0, (home / "whole" / "said").read_text()
        expected = contents(home / "whole" / "out")
        for name in ("SIGKILL", "SIGINT", "SIGTERM"):
            draw, n_kills, n_runs = random.Random(name), 0, 0
            while n_kills < times:
                folder = home / f"{name}-{n_runs}"
                folder.mkdir()
                n_kills += killed(file, folder, getattr(signal, name), draw)
                n_runs += 1
                assert contents(folder / "out") == expected, folder
                left = sorted(path.name for path in folder.iterdir())
                assert left == ["out", "said"], left
                shutil.rmtree(folder)
            print(f"{name}: {n_kills} kills of {n_runs} runs, each resumed: same bytes", flush=True)
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(Path(), int(sys.argv[1]) if len(sys.argv) > 1 else TIMES)
