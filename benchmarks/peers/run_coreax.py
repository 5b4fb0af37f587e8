"""Coreset of points by coreax, timed; runs in an environment of its own.

Gets the path of an array of points and options as JSON: model, size, runs. Prints JSON: seconds (best of the runs; what
JAX compiles is compiled before), the chosen rows and their weights, which sum to the number of points.
"""

import json
import sys
import time
import warnings

import equinox
import jax
import numpy as np
from coreax.data import Data
from coreax.kernels import SquaredExponentialKernel, median_heuristic
from coreax.solvers import KernelHerding
from coreax.weights import MMDWeightsOptimiser

warnings.filterwarnings("ignore")
N_HEURISTIC = 1000  # points for the kernel's width: the heuristic holds all pairs in memory
BLOCK = 1000


def herding(data, kernel, size):
    return KernelHerding(size, kernel, block_size=BLOCK).reduce(data)[0]


def herding_weighted(data, kernel, size):
    return herding(data, kernel, size).solve_weights(MMDWeightsOptimiser(kernel), block_size=BLOCK)


MODELS = {"herding": herding, "herding_weighted": herding_weighted}

options = json.loads(sys.argv[2])
points = jax.numpy.asarray(np.load(sys.argv[1]), jax.numpy.float32)


@equinox.filter_jit
def reduce(points, kernel):
    made = MODELS[options["model"]](Data(points), kernel, options["size"])
    return made.unweighted_indices, made.indices.weights


some = points[np.random.default_rng(0).choice(len(points), min(N_HEURISTIC, len(points)), replace=False)]
kernel = SquaredExponentialKernel(length_scale=median_heuristic(some))
jax.block_until_ready(reduce(points, kernel))
times = []
for _ in range(options["runs"]):
    start = time.perf_counter()
    rows, weights = jax.block_until_ready(reduce(points, kernel))
    times.append(time.perf_counter() - start)
weights = np.asarray(weights, np.float64)
weights *= len(points) / weights.sum()
print(json.dumps({"seconds": min(times), "rows": np.asarray(rows).tolist(), "weights": weights.tolist()}))
