"""Summary of points by BICO, timed; runs in its own environment."""

import json
import resource
import sys
import time

import bico
import numpy as np

points = np.ascontiguousarray(np.load(sys.argv[1]), np.float64)
options = json.loads(sys.argv[2])
times = []
for seed in range(options["runs"]):
    start = time.perf_counter()
    model = bico.BICO(options["n_clusters"], summary_size=options["size"], random_state=seed)
    model.partial_fit(points)
    model.partial_fit()
    times.append(time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({"seconds": min(times), "size": len(model.coreset_weights_), "peak_megabytes": peak}))
