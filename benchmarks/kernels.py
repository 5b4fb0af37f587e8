"""Kernels: pruned against plain assignment over dimensions and numbers of centers; medians; validation."""

from pathlib import Path

import numpy as np

import probi
from benchmarks import plain
from benchmarks.common import best_of
from benchmarks.data import covertype, random_nodes
from probi.medians import certified_medians
from probi.objective import Assignment


def main(data: Path) -> None:
    points = covertype(data)
    if points is not None:
        covertype_rows(points)
    print("\nassignment, random tight nodes of 10 realizations, float32")
    header()
    for d in (2, 3, 10, 55, 128, 520):
        nodes = random_nodes(max(2000, 2_000_000 // (10 * d)), 10, d)
        for k in (5, 20, 100, 500):
            row(f"d = {d}", nodes, k)


def header() -> None:
    titles = f"{'data':<12} {'k':>4} {'pruned ms':>10} {'plain ms':>10} {'ratio':>6} {'exact a node':>13}"
    print(f"{titles}  labels  plain: ns a distance")


def row(name: str, nodes: probi.Nodes, k: int) -> None:
    rng = np.random.default_rng(1)
    centers = np.ascontiguousarray(nodes.gravity_centers[rng.choice(len(nodes), k, replace=False)])
    probi.assign(nodes, centers)
    plain.assign(nodes[:10], centers)
    pruned_time, labels = best_of(5, lambda: probi.assign(nodes, centers))
    plain_time, expected = best_of(2, lambda: plain.assign(nodes, centers))
    exact = Assignment(nodes).update(centers, np.zeros(k), exact=False) / len(nodes)
    equal = "equal" if np.array_equal(labels, expected) else "DIFFERENT"
    each = plain_time / (nodes.n_realizations * k) * 1e9
    print(
        f"{name:<12} {k:>4} {pruned_time * 1e3:>10.1f} {plain_time * 1e3:>10.1f} {plain_time / pruned_time:>6.1f} "
        f"{exact:>13.2f}  {equal}   {each:.1f}",
        flush=True,
    )


def covertype_rows(points: np.ndarray) -> None:
    read, _ = best_of(5, lambda: float(points.max()))
    check, nodes = best_of(5, lambda: probi.Nodes.from_groups(points))
    print(f"Covertype: {nodes}")
    print(f"one pass of NumPy's max {read * 1e3:.1f} ms, checked and made nodes in {check * 1e3:.1f} ms")
    print("\nmedians to tol: ms, cost above lower bound")
    certified_medians(nodes[:10], 0.5)
    for tol in (1e-2, 1e-4, 1e-6, 1e-9):
        seconds, (_, spreads, lower) = best_of(3, lambda tol=tol: certified_medians(nodes.scaled(1.0), tol))
        print(f"{tol:>7.0e} {seconds * 1e3:>8.0f}   {spreads.sum() / lower.sum() - 1:.1e}")
    print("\nassignment, Covertype in groups of 10")
    header()
    solution = probi.solve(nodes, 20, n_init=1, random_state=0).centers
    evaluations = Assignment(nodes).update(solution, np.zeros(20), exact=False)
    exactly = Assignment(nodes).update(solution, np.zeros(20), exact=True)
    for k in (5, 20, 100, 500):
        row("Covertype", nodes, k)
    print(
        f"at a solution with k = 20: {evaluations / len(nodes):.2f} exact distances a node for labels, "
        f"{exactly / len(nodes):.2f} for labels and cost"
    )
