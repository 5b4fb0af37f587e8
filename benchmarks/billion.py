"""A stream of a billion points: points per second, peak memory, and the error of an estimate."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import probi
from benchmarks.common import peak_megabytes

N_POINTS = 10**9
CHUNK = 10**6
N_CLUSTERS = 20

VALUES = (
    "summary_seconds", "make_seconds", "exact_seconds", "estimate", "standard_error", "exact", "peak_mb", "base_mb",
)  # fmt: skip


def main(data: Path) -> None:
    measured = in_process(N_POINTS)
    print(
        f"{measured['n']:,} x 3 points, k = {N_CLUSTERS}: {measured['summary_seconds']:.0f} s, "
        f"{measured['n'] / measured['summary_seconds'] / 1e6:.1f} million a second; "
        f"peak memory {measured['peak_mb']:.0f} MB, {measured['base_mb']:.0f} before; "
        f"making the points took {measured['make_seconds']:.0f} s, their exact cost {measured['exact_seconds']:.0f} s\n"
        f"cost of fixed centers: {measured['estimate']:.6g} ± {measured['standard_error']:.2g}, "
        f"truth {measured['exact']:.6g}, error {measured['estimate'] / measured['exact'] - 1:+.2%}"
    )


def in_process(n: int) -> dict[str, Any]:
    """Measure in a process of its own, so that its peak memory counts nothing else."""
    command = [sys.executable, "-m", "benchmarks.billion", str(n)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure(n: int) -> dict[str, float]:
    """Stream n points, made chunk by chunk; only updates of the summary count as its time."""
    rng = np.random.default_rng(0)
    middles = 10 * rng.standard_normal((30, 3), dtype=np.float32)
    centers = middles[:N_CLUSTERS].astype(np.float64)

    def make(size: int) -> np.ndarray:
        return middles[rng.integers(30, size=size)] + rng.standard_normal((size, 3), dtype=np.float32)

    warm = probi.Summary(2, size=8)
    warm.update(probi.Nodes.from_points(make(1000)))
    probi.expected_cost(make(1000), centers)
    warm.evaluate(centers)
    summary, base = probi.Summary(N_CLUSTERS, random_state=0), peak_megabytes()
    seconds = {"make": 0.0, "exact": 0.0, "summary": 0.0}
    exact = 0.0
    for start in range(0, n, CHUNK):
        began = time.perf_counter()
        chunk = make(min(CHUNK, n - start))
        made = time.perf_counter()
        summary.update(probi.Nodes.from_points(chunk))
        read = time.perf_counter()
        exact += probi.expected_cost(chunk, centers)
        seconds["make"] += made - began
        seconds["summary"] += read - made
        seconds["exact"] += time.perf_counter() - read
        if sys.stderr.isatty():
            print(f"\r{start + len(chunk):,} points", end="", file=sys.stderr, flush=True)
    began = time.perf_counter()
    summary.coreset()
    seconds["summary"] += time.perf_counter() - began
    found = summary.evaluate(centers)
    return {
        "n": n, "exact": exact, "estimate": found.cost, "standard_error": found.standard_error,
        "peak_mb": peak_megabytes(), "base_mb": base, **{f"{name}_seconds": value for name, value in seconds.items()},
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
