"""Members chosen by xclim's kmeans_reduce_ensemble, timed; runs in its own environment."""

import json
import sys
import time

import numpy as np
import xarray as xr
from xclim.ensembles import _reduce, kmeans_reduce_ensemble

members = xr.DataArray(np.load(sys.argv[1]), dims=("realization", "criteria"))
options = json.loads(sys.argv[2])
n_clusters = options["n_clusters"]
method = {"rsq_optimize": None} if n_clusters is None else {"n_clusters": n_clusters}
profile, choose = _reduce._calc_rsq, _reduce._get_nclust


def limited(n: int) -> int:
    """It tries all numbers of clusters up to that of the members; here up to a largest one, as others do."""
    return min(n, options["max_clusters"] or n)


_reduce._calc_rsq = lambda z, method, graph, n_sim, *more: profile(z, method, graph, limited(n_sim), *more)
_reduce._get_nclust = lambda method, n_sim, **more: choose(method, limited(n_sim), **more)
kmeans_reduce_ensemble(members[:9, :3], method={"n_clusters": 2}, random_state=0, make_graph=False)  # loads all
times = []
for _ in range(options["runs"]):
    start, cpu = time.perf_counter(), time.process_time()
    ids, labels, _ = kmeans_reduce_ensemble(members, method=method, random_state=0, make_graph=False)
    times.append((time.perf_counter() - start, time.process_time() - cpu))
print(
    json.dumps(
        {"seconds": min(times)[0], "cpu": min(times)[1], "ids": [int(i) for i in ids], "labels": labels.tolist()}
    )
)
