"""What a first use costs: import, compilation, and the same with the compiled code cached."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

IMPORT = "import time; t = time.perf_counter(); import probi; print(time.perf_counter() - t)"
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


def main(_: Path) -> None:
    print(f"import probi: {min(measure(IMPORT) for _ in range(5)):.2f} s (best of 5)")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        print(f"a first PLloyd().fit, beyond the fit itself: {measure(FIT, environment):.1f} s to compile everything")
        again = min(measure(FIT, environment) for _ in range(3))
        print(f"the same in a second process, compiled code cached: {again:.2f} s (best of 3)")


def measure(code: str, environment: dict[str, str] | None = None) -> float:
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)
