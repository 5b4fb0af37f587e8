"""Clustering of points by another library, timed; runs in an environment of its own.

Gets the path of an array of points and options as JSON: model, n_clusters, runs, and what the model needs. Prints JSON:
seconds (best of the runs), centers of each run, peak memory.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")


def bico(points, k, seed, options):
    import bico as package

    model = package.BICO(k, summary_size=options["size"], random_state=seed, fit_coreset=True)
    return model.fit(np.asarray(points, np.float64)).cluster_centers_


def minibatch(points, k, seed, options):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(k, random_state=seed, n_init=3).fit(points).cluster_centers_


def minibatch_stream(points, k, seed, options):
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(k, random_state=seed, n_init=3)
    for start in range(0, len(points), options["batch"]):
        model.partial_fit(points[start : start + options["batch"]])
    return model.cluster_centers_


def birch(points, k, seed, options):
    from sklearn.cluster import Birch

    # Its threshold is a length: a share of the spread of the data, or it keeps every point.
    rng = np.random.default_rng(seed)
    some = points[rng.choice(len(points), min(len(points), 2000), replace=False)]
    threshold = options["threshold"] * float(np.sqrt(some.var(axis=0).sum()))
    model = Birch(n_clusters=None, threshold=threshold).fit(points)
    from sklearn.cluster import KMeans

    if len(model.subcluster_centers_) < k:
        raise ValueError(f"only {len(model.subcluster_centers_)} subclusters")
    return KMeans(k, n_init=3, random_state=seed).fit(model.subcluster_centers_).cluster_centers_


def kmeans(points, k, seed, options):
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=3, random_state=seed).fit(points).cluster_centers_


def medoids(points, k, seed, options):
    import kmedoids as package
    from sklearn.metrics import pairwise_distances

    rng = np.random.default_rng(seed)
    some = points[rng.choice(len(points), min(len(points), options["sample"]), replace=False)]
    found = package.fasterpam(pairwise_distances(some), k, random_state=seed)
    return some[found.medoids]


def peak_megabytes():
    # Not getrusage, which also counts the process that started this one.
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) * 1024 / 1e6


MODELS = {
    "bico": bico,
    "minibatch": minibatch,
    "minibatch_stream": minibatch_stream,
    "birch": birch,
    "kmeans": kmeans,
    "medoids": medoids,
}

points = np.ascontiguousarray(np.load(sys.argv[1]))
options = json.loads(sys.argv[2])
before = peak_megabytes()
times, centers = [], []
for seed in range(options["runs"]):
    start = time.perf_counter()
    found = MODELS[options["model"]](points, options["n_clusters"], seed, options)
    times.append(time.perf_counter() - start)
    centers.append(np.asarray(found).tolist())
print(json.dumps({"seconds": min(times), "centers": centers, "peak_mb": peak_megabytes(), "data_mb": before}))
