"""Solver: P-LLOYD++ in both presets on Covertype, with the paper's costs and scikit-learn's KMeans beside it."""

from pathlib import Path

import numpy as np

import probi
from benchmarks.common import best_of, peak_megabytes
from benchmarks.data import covertype

N_SEEDS = 10
PAPER = {10: 4.32e7, 20: 3.53e7, 30: 3.20e7}  # mean cost of P-LLOYD++ over 100 runs, from its table of means
BEST_KNOWN = {10: 4.318e7, 20: 3.475e7, 30: 3.090e7}  # of an earlier prototype: 25 starts, 120 swaps


def main(data: Path) -> None:
    points = covertype(data)
    if points is None:
        return
    nodes = probi.Nodes.from_groups(points)
    costs(nodes)
    against_kmeans(points[: len(nodes) * 10])


def costs(nodes: probi.Nodes) -> None:
    print(f"cost on all of Covertype, groups of 10, {N_SEEDS} seeds; seconds a run")
    titles = f"{'k':>3} {'preset':>8} {'mean':>11} {'best':>11} {'worst':>11} {'sd/mean':>8} {'s':>6} {'peak MB':>8}"
    print(f"{titles}   compared")
    for k in PAPER:
        for preset in ("paper", "default"):
            runs = [
                best_of(1, lambda k=k, p=preset, s=s: probi.solve(nodes, k, preset=p, random_state=s).cost)
                for s in range(N_SEEDS)
            ]
            values = np.array([cost for _, cost in runs])
            seconds = min(time for time, _ in runs)
            if preset == "paper":
                compared = f"mean {values.mean() / PAPER[k] - 1:+.2%} of the paper's {PAPER[k]:.3g}"
            else:
                compared = (
                    f"mean {values.mean() / BEST_KNOWN[k] - 1:+.2%}, worst {values.max() / BEST_KNOWN[k] - 1:+.2%}"
                    f" of the best known {BEST_KNOWN[k]:.4g}"
                )
            print(
                f"{k:>3} {preset:>8} {values.mean():>11.5g} {values.min():>11.5g} {values.max():>11.5g} "
                f"{values.std() / values.mean():>8.4f} {seconds:>6.2f} {peak_megabytes():>8.0f}   {compared}",
                flush=True,
            )


def against_kmeans(points: np.ndarray) -> None:
    """One start of each on the same points; KMeans sees them as certain and solves the easier problem."""
    from sklearn.cluster import KMeans

    print("\none start, k = 20, from the array to labels: seconds for seeds 0 to 4, mean expected cost of the centers")
    for dtype in (np.float32, np.float64):
        X = points.astype(dtype)
        nodes = probi.Nodes.from_groups(X)
        probi.PLloyd(20, n_init=1, random_state=0).fit(nodes)  # compiles
        rows = []
        for seed in range(5):
            kmeans, plloyd = KMeans(20, n_init=1, random_state=seed), probi.PLloyd(20, n_init=1, random_state=seed)
            theirs, _ = best_of(1, lambda model=kmeans, X=X: model.fit(X))
            ours, _ = best_of(1, lambda model=plloyd, X=X: model.fit(probi.Nodes.from_groups(X)))
            rows.append((theirs, ours, probi.expected_cost(nodes, kmeans.cluster_centers_), plloyd.cost_))
        theirs, ours, their_cost, our_cost = np.array(rows).T
        print(
            f"{X.dtype}: KMeans {_times(theirs)}, cost {their_cost.mean():.4g}; PLloyd {_times(ours)}, "
            f"cost {our_cost.mean():.4g}; time {ours.mean() / theirs.mean():.2f}, cost "
            f"{our_cost.mean() / their_cost.mean():.3f} times theirs; peak {peak_megabytes():.0f} MB",
            flush=True,
        )


def _times(seconds: np.ndarray) -> str:
    return " ".join(f"{s:.2f}" for s in seconds)
