"""Clustering of points by another library, timed; runs in an environment of its own.

Gets the path of an array of points and options as JSON: model, n_clusters, runs, and what the model needs. Prints JSON:
seconds (best of the runs; also of all processors), centers of each run, peak memory. With
max_total_seconds, no run starts after that.
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


def faiss(points, k, seed, options):
    import faiss as package

    # As it comes: 25 iterations on at most 256 points per centroid.
    return _faiss(package, points, k, seed)


def faiss_all(points, k, seed, options):
    import faiss as package

    return _faiss(package, points, k, seed, max_points_per_centroid=len(points))


def _faiss(package, points, k, seed, **settings):
    model = package.Kmeans(points.shape[1], k, seed=seed + 1, **settings)
    model.train(points)
    return model.centroids


def intelex(points, k, seed, options):
    from sklearnex.cluster import KMeans

    return KMeans(k, n_init=1, random_state=seed).fit(points).cluster_centers_


def kmeans_once(points, k, seed, options):
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=1, random_state=seed).fit(points).cluster_centers_


def minibatch_once(points, k, seed, options):
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(k, n_init=1, random_state=seed).fit(points).cluster_centers_


def mlpack(points, k, seed, options):
    from mlpack import kmeans as package

    # Its seed 0 means the clock.
    found = package(
        input_=points, clusters=k, algorithm="hamerly", kmeans_plus_plus=True,
        max_iterations=options["max_iterations"], seed=seed + 1,
    )  # fmt: skip
    return found["centroid"]


def flspp(points, k, seed, options):
    from flspp import FLSpp

    return FLSpp(k, random_state=seed).fit(points).cluster_centers_


def superkmeans(points, k, seed, options):
    from superkmeans import SuperKMeans

    return SuperKMeans(k, points.shape[1], seed=seed).train(points)


def superkmeans_all(points, k, seed, options):
    from superkmeans import SuperKMeans

    model = SuperKMeans(
        k, points.shape[1], seed=seed, hierarchical=False, sampling_fraction=1.0, max_points_per_cluster=len(points)
    )
    return model.train(points)


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
    "faiss": faiss,
    "faiss_all": faiss_all,
    "intelex": intelex,
    "kmeans_once": kmeans_once,
    "minibatch_once": minibatch_once,
    "mlpack": mlpack,
    "flspp": flspp,
    "superkmeans": superkmeans,
    "superkmeans_all": superkmeans_all,
}
# What a library takes without a copy; the others take both kinds of floats.
DTYPES = {
    "faiss": np.float32, "faiss_all": np.float32, "superkmeans": np.float32, "superkmeans_all": np.float32,
    "mlpack": np.float64, "flspp": np.float64,
}  # fmt: skip

options = json.loads(sys.argv[2])
points = np.ascontiguousarray(np.load(sys.argv[1]), DTYPES.get(options["model"]))
before = peak_megabytes()
# Imports and threads are started before the clock.
warm_up = np.random.default_rng(0).normal(size=(1000, points.shape[1])).astype(points.dtype)
MODELS[options["model"]](warm_up, 2, 0, options)
times: list[float] = []
cpu_times = []
centers = []
for seed in range(options["runs"]):
    if sum(times) > options.get("max_total_seconds", np.inf):
        break
    start, cpu_start = time.perf_counter(), time.process_time()
    found = MODELS[options["model"]](points, options["n_clusters"], seed, options)
    times.append(time.perf_counter() - start)
    cpu_times.append(time.process_time() - cpu_start)
    centers.append(np.asarray(found).tolist())
measured = {"seconds": min(times), "cpu_seconds": min(cpu_times), "peak_mb": peak_megabytes(), "data_mb": before}
print(json.dumps({"centers": centers, **measured}))
