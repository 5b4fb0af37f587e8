"""The command line on files and pipes: time against a bare read, memory of a long stream, and kills in the middle."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROBI = [sys.executable, "-m", "probi"]
GROUPS = ["--layout", "groups", "--group-size", "10", "-k", "20"]
RUNS = 5
N_KILLS = 30

# What the whole of probi is compared with: reading the file into one array, in a fresh Python.
BARE_READ = """
import sys
import numpy as np
import pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
X = np.empty((table.num_rows, table.num_columns), np.float32)
for j, column in enumerate(table.columns):
    X[:, j] = column.to_numpy()
"""

# A CSV of so many megabytes, made by repeating a block of random numbers, as fast as a pipe takes it.
STREAM = """
import sys
import numpy as np
rng = np.random.default_rng(0)
rows = rng.normal(size=(20_000, 10)) + 10 * rng.integers(8, size=(20_000, 1))
block = "".join(",".join(f"{x:.6f}" for x in row) + "\\n" for row in rows).encode()
sys.stdout.buffer.write((",".join(f"x{j}" for j in range(10)) + "\\n").encode())
for _ in range(int(float(sys.argv[1]) * 1e6 / len(block))):
    sys.stdout.buffer.write(block)
"""


def main(data: Path) -> None:
    covertype = data / "covertype.parquet"
    if covertype.is_file():
        against_a_bare_read(covertype)
    else:
        print(f"skipped: no covertype.parquet in {data}; give the folder with DATA=...")
    long_streams()
    if covertype.is_file():
        kills(covertype)


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of a process."""
    before = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        assert process.stderr is not None
        raise RuntimeError(process.stderr.read().decode())
    return time.perf_counter() - before, usage.ru_maxrss / 1e3


def against_a_bare_read(path: Path) -> None:
    """Whole processes in turn, the best of several."""
    bare = [sys.executable, "-c", BARE_READ, str(path)]
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "bare read into float32": bare,
            "probi cluster --no-assign": [*PROBI, "cluster", str(path), *GROUPS, "--no-assign"],
            "probi cluster -o FOLDER --no-assign": [
                *PROBI, "cluster", str(path), *GROUPS, "--no-assign", "-o", f"{folder}/a",
            ],
            "probi cluster -o FOLDER": [*PROBI, "cluster", str(path), *GROUPS, "-o", f"{folder}/b"],
        }  # fmt: skip
        timed(commands["probi cluster -o FOLDER"])  # compiles, if need be
        runs = [{name: timed(command) for name, command in commands.items()} for _ in range(RUNS)]
    least = {name: min(run[name][0] for run in runs) for name in commands}
    print(f"covertype.parquet, groups of 10, k=20, best of {RUNS} runs in turn")
    for name in commands:
        peak = max(run[name][1] for run in runs)
        ratio = least[name] / least["bare read into float32"]
        print(f"  {name:38} {least[name]:6.2f} s  {ratio:5.2f} x  {peak:6.0f} MB")


def long_streams() -> None:
    """CSV through a pipe, of growing length."""
    print("CSV of 10 columns through a pipe, k=8")
    for megabytes in (200, 1000, 2000):
        with subprocess.Popen([sys.executable, "-c", STREAM, str(megabytes)], stdout=subprocess.PIPE) as source:
            start = time.perf_counter()
            command = [*PROBI, "cluster", "-", "-k", "8", "--json", "--quiet"]
            process = subprocess.Popen(command, stdin=source.stdout, stdout=subprocess.PIPE)
            assert source.stdout is not None and process.stdout is not None  # noqa: PT018
            source.stdout.close()
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.perf_counter() - start
        rows = json.loads(output)["counts"]["rows"]
        print(
            f"  {megabytes:5} MB: {rows:12,} rows in {seconds:6.1f} s, {rows / seconds:12,.0f} rows and "
            f"{megabytes / seconds:4.0f} MB a second, peak {usage.ru_maxrss / 1e3:5.0f} MB"
        )
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  (all processes together: {usage.ru_utime + usage.ru_stime:.0f} s of CPU)")


def kills(path: Path, n_kills: int = N_KILLS) -> None:
    """Kill a run at random moments, start it again until it ends, and compare with one that was left alone."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def command(output: str) -> list[str]:
            saving = ["--checkpoint", str(folder / f"{output}.ckpt"), "--checkpoint-every", "5000"]
            return [
                *PROBI,
                "cluster",
                str(path),
                *GROUPS,
                "--no-assign",
                "--quiet",
                "-o",
                str(folder / output),
                *saving,
            ]

        seconds, _ = timed(command("alone"))
        wanted = _results(folder / "alone")
        n_same = n_gone_on = n_before_the_end = 0
        for _ in range(n_kills):
            process = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL)
            time.sleep(rng.uniform(0.0, seconds))
            n_before_the_end += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            n_gone_on += (folder / "killed.ckpt").exists()
            timed(command("killed"))
            n_same += _results(folder / "killed") == wanted
            shutil.rmtree(folder / "killed")
        print(
            f"{n_kills} kills within {seconds:.1f} s: {n_before_the_end} before the end, {n_gone_on} with a save, "
            f"{n_same} ended with the same summary and centers"
        )


def _results(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("summary.probi", "centers.parquet", "centers.csv")]
