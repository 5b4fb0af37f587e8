"""What a first use costs: import, compilation, and the same with the compiled code cached."""

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
import numpy as np
from probi import Nodes, PLloyd
rng = np.random.default_rng(0)
nodes = Nodes.from_dense(rng.standard_normal((500, 5, 3)))
t = time.perf_counter()
PLloyd(4, random_state=0).fit(nodes)
first = time.perf_counter() - t
t = time.perf_counter()
PLloyd(4, random_state=0).fit(nodes)
print(first - (time.perf_counter() - t))
"""


def main(data: Path) -> None:
    print(f"from probi import Nodes, solve: {min(measure(IMPORT) for _ in range(5)):.2f} s (best of 5)")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        print(f"a first PLloyd().fit, beyond the fit itself: {measure(FIT, environment):.1f} s to compile everything")
        again = min(measure(FIT, environment) for _ in range(3))
        print(f"the same in a second process, compiled code cached: {again:.2f} s (best of 3)")
    warm_commands(data)


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
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)
