"""How time and memory grow with nodes, clusters, dimensions, realizations, threads: each point in its own process."""

import json
import subprocess
import sys
from typing import Any

from experiments.records import Records

KEYS = ("axis", "n", "k", "d", "m", "threads")
VALUES = ("summary_seconds", "solve_seconds", "peak_mb", "base_mb")

# The point that all axes go through.
BASE = {"n": 100_000, "k": 20, "d": 10, "m": 10, "threads": 2}
AXES: dict[str, tuple[int, ...]] = {
    "n": (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
    "k": (5, 10, 20, 50, 100, 200, 500),
    "d": (2, 5, 10, 30, 100, 300, 1000),
    "m": (1, 3, 10, 30, 100, 300, 1000),
    "threads": (1, 2),
}
# Below some leaves (32,000 nodes each for k = 20, 400,000 for k = 500) nothing is summarised yet, only kept.
LONGER = {"k": {"n": 1_000_000}, "threads": {"n": 1_000_000}}

# Coordinates of a batch.
BATCH = 2_000_000

MEASURE = """
import json, os, sys, time
import numpy as np
point = json.loads(sys.argv[1])
os.environ["PROBI_NUM_THREADS"] = str(point["threads"])
import probi
from benchmarks.common import peak_megabytes
n, k, d, m = (point[name] for name in "nkdm")
rng = np.random.default_rng(0)
middles = 10 * rng.standard_normal((30, d), dtype=np.float32)
batch = max(1, min(n, point["batch"] // (d * m)))

def nodes(size):
    places = middles[rng.integers(30, size=size)][:, None]
    return probi.Nodes.from_dense(places + rng.standard_normal((size, m, d), dtype=np.float32))

warm = probi.Summary(2, size=8)
for _ in range(3):
    warm.update(nodes(max(2, min(200, batch))))
probi.solve(warm, 2, random_state=0)
base = peak_megabytes()
summary, seconds, left = probi.Summary(k, random_state=0), 0.0, n
while left:
    some = nodes(min(batch, left))
    left -= len(some)
    start = time.perf_counter()
    summary.update(some)
    seconds += time.perf_counter() - start
start = time.perf_counter()
probi.solve(summary, k, random_state=0)
solve = time.perf_counter() - start
print(json.dumps({"summary_seconds": seconds, "solve_seconds": solve, "peak_mb": peak_megabytes(), "base_mb": base}))
"""


def run(records: Records, report: Any) -> None:
    """Measure what is missing."""
    for axis, values in AXES.items():
        for value in values:
            point = BASE | LONGER.get(axis, {}) | {axis: value}
            if records.has(axis=axis, **point):
                continue
            report(f"growth: {axis} = {value:,}")
            command = [sys.executable, "-c", MEASURE, json.dumps(point | {"batch": BATCH})]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            records.add(axis=axis, **point, **json.loads(done.stdout.splitlines()[-1]))
