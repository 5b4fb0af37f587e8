"""Small nodes that several tests look at, and ways to look at them."""

import os
import pickle
import signal
import sys
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.special import chdtri

from probi import Nodes, SolverWarning, Summary, expected_cost, solve

ARRAYS = ("points", "probabilities", "offsets", "weights", "ids", "total_probabilities")
STATISTICS = ("mass", "gravity_centers", "variances", "_squared_radii")


def three(dtype=np.float64):
    """Three nodes with 2, 1 and 3 realizations, weights and ids; the second is absent half of the time."""
    return Nodes(
        np.array([[0, 0], [4, 0], [7, 7], [1, 0], [2, 0], [3, 9]], dtype),
        np.array([0.25, 0.75, 0.5, 0.25, 0.25, 0.5], dtype),
        [0, 2, 3, 6],
        weights=[1, 2, 3],
        ids=["a", "b", "c"],
    )


def as_lists(some):
    """Nodes as tests/naive.py wants them: lists of (point, probability), of the values that are really stored."""
    return [
        [(tuple(x), p) for x, p in zip(part.points.tolist(), part.probabilities.tolist(), strict=True)] for part in some
    ]


def assert_same_statistics(some, other):
    for name in STATISTICS:
        assert_array_equal(getattr(some, name), getattr(other, name))


def blobs(n=300, k=4, d=3, m=4, seed=0, scale=50.0, spread=0.3):
    """Uncertain nodes in k clusters far from each other, on a grid of 1/1024 so that shifts are exact."""
    rng = np.random.default_rng(seed)
    middles = scale * rng.normal(size=(k, d))
    labels = np.arange(n) % k
    X = middles[labels][:, None] + rng.normal(size=(n, 1, d)) + spread * rng.normal(size=(n, m, d))
    return np.round(X * 1024) / 1024, labels


def numbered(n=1000, k=4, seed=0, dtype=np.float64, least_weight=1, **options):
    """Uncertain nodes in clusters, some absent at times, with weights up to 3 and with their numbers as ids."""
    X, _ = blobs(n=n, k=k, seed=seed, **options)
    rng = np.random.default_rng(seed)
    probabilities = rng.integers(1, 5, X.shape[:2]) / (5.0 * X.shape[1])
    weights = rng.integers(least_weight, 4, n)
    return Nodes.from_dense(X.astype(dtype), probabilities.astype(dtype), weights=weights, ids=np.arange(n))


def random_centers(some, k, seed):
    """Centers anywhere in the box around the nodes: nobody would choose them."""
    rng = np.random.default_rng(seed)
    return rng.uniform(some.points.min(axis=0), some.points.max(axis=0), (k, some.n_features))


def some_centers(seed=0, k=3, d=2):
    """Centers near the nodes of :func:`certain` and :func:`uncertain`."""
    return 50.0 * np.random.default_rng(seed).normal(size=(k, d)) + 40.0


def coreset_costs(reduce, some, size, k, centers, n_seeds):
    """Cost of each of some sets of centers, by coresets of different seeds: (n_seeds, n_sets)."""
    found = []
    for seed in range(n_seeds):
        coreset = reduce([some], size, k, np.random.default_rng(seed))
        found.append([expected_cost(coreset, c) for c in centers])
    return np.array(found)


def quiet_solve(*arguments, **options):
    """Solve where too few distinct nodes are no surprise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        return solve(*arguments, **options)


# -- streams ----------------------------------------------------------------------------------------------------------


def certain(n, d=2, dtype=np.float64, seed=0):
    """Certain nodes with weights, in five clusters."""
    rng = np.random.default_rng(seed)
    X = 20.0 * rng.integers(5, size=(n, 1)) + rng.normal(size=(n, d))
    return Nodes.from_points(X.astype(dtype), rng.exponential(size=n))


def uncertain(n, d=2, dtype=np.float64, seed=0):
    """Nodes in five clusters with 1 to 4 realizations and weights, half of them absent at times."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 5, size=n))])
    owner = np.repeat(np.arange(n), np.diff(offsets))
    X = 20.0 * rng.integers(5, size=(n, 1))[owner] + rng.normal(size=(len(owner), d))
    shares = rng.uniform(0.1, 1.0, size=len(owner))
    present = np.where(np.arange(n) % 2, 1.0, rng.uniform(0.2, 1.0, size=n))
    chances = shares / np.bincount(owner, shares)[owner] * present[owner]
    return Nodes(X.astype(dtype), chances.astype(dtype), offsets, rng.exponential(size=n))


def summarized(nodes, step=None, **options):
    """Summary of nodes that come in batches of ``step``, or all at once."""
    summary = Summary(**{"n_clusters": 2, "size": 8, "random_state": 0} | options)
    for start in range(0, len(nodes), step or max(1, len(nodes))):
        summary.update(nodes[start : start + step] if step else nodes)
    return summary


# -- other processes --------------------------------------------------------------------------------------------------


def in_child(function):
    """What a function returns in a forked child; the child is killed if it does not answer in 20 seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            os.write(writing, pickle.dumps(function()))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    assert data, "the child did not answer"
    return pickle.loads(data)


def forking(test):
    """Skip where there is no fork; Python 3.12 and later warn of a fork beside threads, which is the point here."""
    warning = "ignore:This process .* is multi-threaded, use of fork:DeprecationWarning"
    no_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    return no_fork(pytest.mark.filterwarnings(warning)(test))


# Points to draw from, one of which has no weight.
PLACES = [(0.0, 0.0), (4.0, 0.0), (0.0, 5.0), (7.0, 7.0), (9.0, 1.0)]
WEIGHTS = [1.0, 2.0, 0.0, 3.0, 0.5]

# A statistical test with a fixed seed: a right sampler would fail it for one seed in ten thousand.
ERROR_RATE = 1e-4


def check_frequencies(counts, chances):
    """Chi-square test of counts against chances; what has no chance must not occur."""
    counts, chances = np.asarray(counts), np.asarray(chances)
    possible = chances > 0
    assert counts[~possible].sum() == 0
    expected = counts.sum() * chances[possible] / chances.sum()
    assert expected.min() > 5
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    assert statistic < chdtri(possible.sum() - 1, ERROR_RATE)


def interrupted_by(trace, call):
    """Whether a call ends because the trace function raises KeyboardInterrupt."""
    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # else Python 3.12 has no events of opcodes, also where trace asks for them
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def read_only(array):
    """View that cannot be written to, as nodes give their arrays to kernels, which are compiled for these."""
    view = array.view()
    view.flags.writeable = False
    return view
