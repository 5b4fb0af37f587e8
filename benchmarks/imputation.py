"""Clusters under missing values: labels of nodes of several imputations against mean imputation and one imputation."""

import os
from pathlib import Path

import numpy as np

import probi
from probi import impute

SHARES = (0.1, 0.3, 0.5)
WAYS = ("column means", "one imputation", "nodes")

# Enough for a table of 64 features, and much faster than the defaults.
OPTIONS = {"m": 10, "max_iter": 5}
MAX_NEIGHBORS = 10


def main(data: Path) -> None:
    """Adjusted Rand index to the classes, mean over seeds; PROBI_SEEDS is their number, 10 by default."""
    n_seeds = int(os.environ.get("PROBI_SEEDS") or 10)
    print(f"adjusted Rand index, mean over {n_seeds} seeds (standard error of the difference to nodes)")
    print(f"{'data':<16} {'missing':>8} " + "".join(f"{way:>24}" for way in WAYS))
    for name, (X, classes) in data_sets().items():
        for share in SHARES:
            found = np.array([indices(X, classes, share, seed) for seed in range(n_seeds)])
            means = found.mean(axis=0)
            errors = (found - found[:, -1:]).std(axis=0, ddof=1) / np.sqrt(n_seeds)
            cells = (f"{mean:>15.3f} ({error:.3f})" for mean, error in zip(means, errors, strict=True))
            print(f"{name:<16} {share:>8.0%} " + " ".join(cells), flush=True)


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Tables with classes, all features of standard deviation 1."""
    from sklearn import datasets

    blobs = datasets.make_blobs(400, 8, centers=5, cluster_std=2.5, random_state=0)
    loaded = {
        name: getattr(datasets, f"load_{name}")(return_X_y=True) for name in ("iris", "wine", "breast_cancer", "digits")
    }
    return {name: (standardized(X), y) for name, (X, y) in (loaded | {"blobs": blobs}).items()}


def standardized(X: np.ndarray) -> np.ndarray:
    scales = X.std(axis=0)
    return X[:, scales > 0] / scales[scales > 0]


def indices(X: np.ndarray, classes: np.ndarray, share: float, seed: int) -> list[float]:
    """Index of each way, for values that are missing at random; no row loses all of them."""
    from sklearn.metrics import adjusted_rand_score

    rng = np.random.default_rng(seed)
    gone = rng.random(X.shape) < share
    gone[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    Z = np.where(gone, np.nan, X)
    near = {"n_nearest_features": MAX_NEIGHBORS} if X.shape[1] > MAX_NEIGHBORS else {}
    copies = impute.draws(Z, random_state=seed, **OPTIONS, **near)
    ways = (
        probi.Nodes.from_points(np.where(gone, np.nanmean(Z, axis=0), X)),
        probi.Nodes.from_points(copies[0]),
        probi.Nodes.from_imputations(copies),
    )
    k = len(np.unique(classes))
    return [float(adjusted_rand_score(classes, probi.solve(nodes, k, random_state=seed).labels)) for nodes in ways]
