"""Clusters under missing values: do nodes of several imputations find the classes better than one completed table?

Values of tables with known classes are removed at random. Three ways to complete them are compared by the adjusted Rand
index of the clusters and the classes.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import probi
from experiments.records import Records, read
from experiments.writing import table, words
from probi import impute

WAYS = {
    "means": "column means",
    "one": "one imputation",
    "nodes": "nodes",
    "means_k_means": "column means, k-means",
    "one_k_means": "one imputation, k-means",
}
KEYS = ("data", "share", "seed")
VALUES = ("complete", *WAYS, "seconds")

SHARES, N_SEEDS = (0.1, 0.3, 0.5), 10

# Copies and rounds: half the defaults. All other features predict each one: with 10 of them at random, the draws of
# digits were further from the truth than column means, and so were its clusters from the classes.
M, MAX_ITER = 10, 5


def run(results: Path, only: list[str] | None, report: Any) -> None:
    """Fill what is missing, seed by seed, so that what is not finished is about equal for all shares."""
    records = Records(results / "imputation.csv", KEYS, VALUES)
    for name, (X, classes) in data_sets().items():
        if only and name not in only:
            continue
        for seed in range(N_SEEDS):
            for share in SHARES:
                if not records.has(data=name, share=share, seed=seed):
                    report(f"imputation: {name}, {share:.0%}, seed {seed}")
                    records.add(data=name, share=share, seed=seed, **indices(X, classes, share, seed))


def data_sets() -> dict[str, tuple[Any, Any]]:
    """Tables with classes, all features of standard deviation 1."""
    from sklearn import datasets

    names = ("iris", "wine", "breast_cancer", "digits")
    loaded = {name.replace("_", " "): getattr(datasets, f"load_{name}")(return_X_y=True) for name in names}
    blobs = datasets.make_blobs(400, 8, centers=5, cluster_std=2.5, random_state=0)
    return {name: (standardized(X), y) for name, (X, y) in (loaded | {"blobs": blobs}).items()}


def standardized(X: Any) -> Any:
    scales = X.std(axis=0)
    return X[:, scales > 0] / scales[scales > 0]


def indices(X: Any, classes: Any, share: float, seed: int) -> dict[str, float]:
    """Index of each way, for values that are missing at random; no row loses all of them."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score

    rng = np.random.default_rng(seed)
    gone = rng.random(X.shape) < share
    gone[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    Z = np.where(gone, np.nan, X)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # draws do not converge, as they should not
        copies = impute.draws(Z, M, random_state=seed, max_iter=MAX_ITER)
    k, means = len(np.unique(classes)), np.where(gone, np.nanmean(Z, axis=0), X)
    solved = {"complete": X, "means": means, "one": copies[0], "nodes": probi.Nodes.from_imputations(copies)}
    labels = {way: probi.solve(nodes, k, random_state=seed).labels for way, nodes in solved.items()}
    for way in ("means", "one"):
        labels[f"{way}_k_means"] = KMeans(k, n_init=10, random_state=seed).fit(solved[way]).labels_
    found = {way: float(adjusted_rand_score(classes, labels[way])) for way in ("complete", *WAYS)}
    return found | {"seconds": time.process_time() - start}


# -- the page ---------------------------------------------------------------------------------------------------------


def imputation_page(folder: Path) -> str:
    """Mean index of each way, with the standard error of its difference to nodes."""
    rows = read(folder / "imputation.csv")
    if not rows:
        return ""
    cells = [(name, share) for name in dict.fromkeys(r["data"] for r in rows) for share in SHARES]
    measured = {cell: [r for r in rows if (r["data"], r["share"]) == cell] for cell in cells}
    lines = [_line(*cell, some) for cell, some in measured.items() if len(some) > 1]
    return "\n".join(
        [
            "# Missing values\n",
            words((__doc__ or "").partition("\n\n")[0]),
            words(f"""
                Values are missing at random; `probi.impute.draws` makes {M} completed copies, in {MAX_ITER} rounds.
                Adjusted Rand index of the clusters and the classes, mean over seeds; in parentheses the standard error
                of the difference to nodes. All features have standard deviation 1, and the number of clusters is that
                of the classes. The first four are clustered by `probi.solve`, by expected distances, the first of them
                with no value missing: what a perfect imputation would find. The last two are clustered by
                scikit-learn's KMeans, by squared distances.
            """),
            table(["data", "missing", "seeds", "complete", *WAYS.values()], lines, 2),
            _verdict({cell: some for cell, some in measured.items() if len(some) > 1}),
        ]
    )


def _line(name: str, share: float, rows: list[dict[str, Any]]) -> list[str]:
    nodes = np.array([r["nodes"] for r in rows])
    texts = [f"{np.mean([r['complete'] for r in rows]):.3f}"]
    for way in WAYS:
        values = np.array([r[way] for r in rows])
        error = (values - nodes).std(ddof=1) / np.sqrt(len(rows))
        texts.append(f"{values.mean():.3f}" + ("" if way == "nodes" else f" ({error:.3f})"))
    return [name, f"{share:.0%}", str(len(rows)), *texts]


def _verdict(measured: dict[tuple[str, float], list[dict[str, Any]]]) -> str:
    """In how many rows nodes are at least as good, by both yardsticks, and where they are not."""
    lower = {way: _lower(measured, way) for way in WAYS if way != "nodes"}
    parts = [
        f"{len(measured) - len(where)} of {len(measured)} rows against {WAYS[way]}"
        + (f" (lower: {', '.join(where)})" if where else "")
        for way, where in lower.items()
    ]
    every = {(name, share) for name in data_sets() for share in SHARES}
    missing = sorted(f"{name} at {share:.0%}" for name, share in every - set(measured))
    open_ = f" Not measured yet: {', '.join(missing)}; `python -m experiments imputation` goes on." if missing else ""
    return words(f"Nodes have at least the index in {'; '.join(parts)}.{open_}")


def _lower(measured: dict[tuple[str, float], list[dict[str, Any]]], way: str) -> list[str]:
    """Rows in which nodes have a lower mean than another way, with the difference."""
    texts = []
    for (name, share), rows in measured.items():
        difference = float(np.mean([r["nodes"] - r[way] for r in rows]))
        if difference < 0.0:
            texts.append(f"{name} at {share:.0%} by {-difference:.3f}")
    return texts
