"""Clustering of points by another library, timed; runs in an environment of its own.

Gets the path of an array of points and options as JSON: model, n_clusters, runs, and what the model needs. Prints JSON:
seconds (best of the runs), centers of each run, peak memory.
"""

import json
import resource
import sys
import time
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def bico(points, k, seed, options):
    import bico as package

    return (
        package.BICO(k, summary_size=options["size"], random_state=seed, fit_coreset=True).fit(points).cluster_centers_
    )


def minibatch(points, k, seed, options):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(k, random_state=seed, n_init=3).fit(points).cluster_centers_


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


MODELS = {"bico": bico, "minibatch": minibatch, "birch": birch, "kmeans": kmeans, "medoids": medoids}

points = np.ascontiguousarray(np.load(sys.argv[1]), np.float64)
options = json.loads(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
times, centers = [], []
for seed in range(options["runs"]):
    start = time.perf_counter()
    found = MODELS[options["model"]](points, options["n_clusters"], seed, options)
    times.append(time.perf_counter() - start)
    centers.append(np.asarray(found).tolist())
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({"seconds": min(times), "centers": centers, "peak_mb": peak, "data_mb": before}))
