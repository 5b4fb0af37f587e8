"""probi on nodes of an NPZ file, timed in a process of its own like its peers."""

import json
import sys
import time

import numpy as np

import probi
from benchmarks.common import peak_megabytes

parts = np.load(sys.argv[1])
options = json.loads(sys.argv[2])
nodes = probi.Nodes(parts["points"], parts["probabilities"], parts["offsets"])
k = options["n_clusters"]


def stream(seed: int) -> probi.Result:
    summary = probi.Summary(k, preset=options["preset"], random_state=seed)
    batch = options.get("batch", 5000)
    for start in range(0, len(nodes), batch):
        summary.update(nodes[start : start + batch])
    return probi.solve(summary, k, random_state=seed)


def uniform(seed: int) -> probi.Result:
    rng = np.random.default_rng(seed)
    chosen = nodes.take(np.sort(rng.choice(len(nodes), min(len(nodes), 200 * k), replace=False)))
    return probi.solve(chosen, k, preset="paper", random_state=seed)


def everything(seed: int) -> probi.Result:
    return probi.solve(nodes, k, preset=options["preset"], random_state=seed)


def centers_of(seed: int) -> np.ndarray:
    found = run(seed)
    return np.asarray(found.representatives.medians if options.get("representatives") else found.centers)


run = {"stream": stream, "uniform": uniform, "all": everything}[options["model"]]
before = peak_megabytes()
centers_of(0)
times: list[float] = []
cpu_times = []
centers = []
for seed in range(options["runs"]):
    if sum(times) > options.get("max_total_seconds", np.inf):
        break
    start, cpu_start = time.perf_counter(), time.process_time()
    centers.append(centers_of(seed).tolist())
    times.append(time.perf_counter() - start)
    cpu_times.append(time.process_time() - cpu_start)
measured = {"seconds": min(times), "cpu_seconds": min(cpu_times), "peak_mb": peak_megabytes(), "data_mb": before}
print(json.dumps({"centers": centers, **measured}))
