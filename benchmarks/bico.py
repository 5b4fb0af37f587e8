"""Summaries against BICO (C++), in one run: every row of data with the ratio of seconds that we want."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import probi
from benchmarks import peers
from benchmarks.common import best_of
from benchmarks.data import covertype, cross_product, picture, sift_like

# Runs of probi, whose times are short and noisy, and of BICO.
RUNS, BICO_RUNS = 10, 3

N_SIFT = 312_000


def main(data: Path) -> None:
    """Summary only, best of several runs; BICO gets float64 points in memory, probi the same array as it is."""
    print("summary of 200 k nodes against BICO 0.1.5 (C++), the same points in one run; seconds, best of runs")
    print(f"{'data':<38} {'k':>4} {'BICO':>8} {'MB':>6} {'probi':>7} {'ratio':>6} {'wanted':>7}")
    python = peers.environment("bico", ["bico==0.1.5"])
    points = covertype(data)
    rgb = picture(5_000_000)
    row(python, "RGB 5,000,000 x 3", rgb, 20, 15)
    row(python, "RGB 5,000,000 x 3", rgb, 100, 12)
    name, some = sift(data)
    row(python, name, some, 10, 150)
    if points is not None:
        row(python, "Covertype 581,010 x 55, groups of 10", points[:581_010], 20, 45, probi.Nodes.from_groups)
        row(python, "cross product 1,000,000 x 57", cross_product(points[:, :54], 1_000_000), 250, 100, bico_runs=1)


def row(
    python: Path | None,
    name: str,
    X: np.ndarray,
    k: int,
    wanted: int,
    make: Callable[[np.ndarray], probi.Nodes] = probi.Nodes.from_points,
    bico_runs: int = BICO_RUNS,
) -> None:
    """Print one row; ``wanted`` is the ratio to reach."""
    summarised(make(X), k)  # compiles
    ours, _ = best_of(RUNS, lambda: summarised(make(X), k))
    theirs = peers.run(python, "run_bico.py", X, n_clusters=k, size=200 * k, runs=bico_runs) if python else {}
    bico = theirs.get("seconds", float("nan"))
    print(
        f"{name:<38} {k:>4} {bico:>8.2f} {theirs.get('peak_megabytes', 0):>6.0f} {ours:>7.3f} "
        f"{f'1/{bico / ours:.1f}':>6} {f'1/{wanted}':>7}",
        flush=True,
    )


def summarised(nodes: probi.Nodes, k: int) -> probi.Summary:
    """Summary of nodes, with its coreset."""
    summary = probi.Summary(k, random_state=0)
    summary.update(nodes)
    summary.coreset()
    return summary


def sift(data: Path) -> tuple[str, np.ndarray]:
    """Name and rows of SIFT descriptors: of the data folder, or of generated pictures."""
    from experiments.datasets import ALL

    rows = ALL["Caltech128"].load(data)
    if rows is not None:
        return f"SIFT {N_SIFT:,} x 128", np.asarray(rows[:N_SIFT], np.float32)
    return f"SIFT of generated pictures {N_SIFT:,} x 128", sift_like(N_SIFT)
