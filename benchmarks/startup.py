"""What a first use costs: import, compilation, and the same with the compiled code cached."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.files import BARE_READ, GROUPS, PROBI, timed

N_WARM = 7  # runs of a command

IMPORT = "import time; t = time.perf_counter(); from probi import Nodes, solve; print(time.perf_counter() - t)"
FIT = """
import time
t = time.perf_counter()
import numpy as np
from probi import Nodes, PLloyd
points = np.random.default_rng(0).standard_normal((20_000, 2))
PLloyd(3, random_state=0).fit({data})
print(time.perf_counter() - t)
"""
FITS = {
    "200 points": "points[:200]",
    "200 nodes of 5 realizations": "Nodes.from_groups(points[:1000], 5)",
    "20,000 points": "points",
    "4,000 nodes of 5 realizations": "Nodes.from_groups(points, 5)",
}

# A stream that is reduced, with realizations, solved and assigned: all that the default needs.
KERNELS = """
import json, time
import numpy as np
from numba.core import event
import probi

class Listener(event.Listener):
    def __init__(self):
        self.running, self.rows = [], []
    def on_start(self, compiled):
        self.running.append((compiled.data["dispatcher"].py_func.__qualname__, time.perf_counter()))
    def on_end(self, compiled):
        name, start = self.running.pop()
        if not self.running:  # a kernel, and not one of its parts
            self.rows.append((name, time.perf_counter() - start))

listener = Listener()
event.register("numba:compile", listener)
from probi import objective
from probi.solver import search
search.MAX_SMALL = objective.MAX_SMALL = 0  # small problems need hardly any kernel
nodes = probi.Nodes.from_groups(np.random.default_rng(0).standard_normal((6000, 2)), 3)
summary = probi.Summary(3, size=40, random_state=0)
summary.update(nodes)
probi.assign(nodes, probi.solve(summary, 3, random_state=0).centers)
print(json.dumps(listener.rows))
"""


def main(data: Path) -> None:
    print(f"from probi import Nodes, solve: {min(measure(IMPORT) for _ in range(5)):.2f} s (best of 5)")
    first_fits()
    kernels()
    warm_commands(data)


# -- a first run, in which kernels are compiled ------------------------------------------------------------------------


def first_fits() -> None:
    """Whole fits of fresh processes, imports included: without any compiled kernel, then with them."""
    for data, expression in FITS.items():
        code, cold, warm = FIT.format(data=expression), [], []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as cache:
                environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
                cold.append(measure(code, environment))
                warm.append(measure(code, environment))
        print(
            f"PLloyd(3).fit of {data}: {min(cold):.1f} s without compiled kernels, {min(warm):.2f} s with (best of 3)"
        )


def kernels() -> None:
    """Time to compile each kernel that a stream needs, one after the other in one process."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PROBI_COMPILE_AHEAD": "0"}
        rows = json.loads(output(KERNELS, environment))
    for name, seconds in sorted(rows, key=lambda row: -row[1]):
        print(f"  {name:<20} {seconds:5.2f} s to compile")
    print(f"  {len(rows)} kernels{'':<10} {sum(seconds for _, seconds in rows):5.2f} s")


# -- commands whose kernels are compiled ------------------------------------------------------------------------------


def warm_commands(data: Path) -> None:
    """Whole processes, the best of several: what somebody waits for who types a command the second time."""
    covertype = data / "covertype.parquet"
    with tempfile.TemporaryDirectory() as name:
        points = Path(name) / "points.csv"
        np.savetxt(points, np.random.default_rng(0).normal(size=(200, 2)), delimiter=",", header="x,y", comments="")
        for words in (["--help"], ["cluster", str(points), "-k", "2"], ["cluster", str(points), "-k", "2", "-o", name]):
            shown = " ".join(["probi", *words]).replace(f"{name}/", "").replace(name, "FOLDER")
            print(f"{shown}: {best_of([*PROBI, *words])[0]:.2f} s (best of {N_WARM})")
        if not covertype.is_file():
            print(f"skipped: no covertype.parquet in {data}; give the folder with DATA=...")
            return
        command = [*PROBI, "cluster", str(covertype), *GROUPS, "--no-assign", "-o", name]
        bare, ours = best_of([sys.executable, "-c", BARE_READ, str(covertype)], command)
        print(f"probi cluster covertype.parquet -o FOLDER --no-assign: {ours:.2f} s, {ours / bare:.2f} x a bare read")


def best_of(*commands: list[str]) -> list[float]:
    """Seconds of each of these commands, which run in turn, so that a busy moment meets them all."""
    for command in commands:
        timed(command)  # compiles, if need be
    runs = [[timed(command)[0] for command in commands] for _ in range(N_WARM)]
    return [min(seconds) for seconds in zip(*runs, strict=True)]


def measure(code: str, environment: dict[str, str] | None = None) -> float:
    return float(output(code, environment))


def output(code: str, environment: dict[str, str] | None = None) -> str:
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return run.stdout
