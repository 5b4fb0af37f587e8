"""Summaries: error and cost on real data, in hostile orders, in shards, beside a uniform sample and gravity centers."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import probi
from benchmarks.data import beijing_nodes, covertype_nodes, kddcup_nodes

N_SEEDS = 10
SETS = {
    "Covertype": (covertype_nodes, (10, 20, 30)),
    "Beijing": (beijing_nodes, (5, 10, 20)),
    "KDD Cup": (kddcup_nodes, (10, 20)),
}
N_SHARDS = 16


def main(data: Path) -> None:
    print(
        f"{N_SEEDS} seeds, one pass, summary of 200 k nodes. error: mean |cost on the coreset / cost on all nodes - 1|;"
    )
    print("cost: on all nodes, mean, as a multiple of the mean of PLloyd(preset='paper') and of the best seen here;")
    print("excess: the same without the nodes' own spread, which no centers can change")
    for name, (load, ks) in SETS.items():
        nodes = load(data)
        if nodes is not None:
            for k in ks:
                table(name, nodes, k)


def table(name: str, nodes: probi.Nodes, k: int) -> None:
    yardstick = np.mean([probi.solve(nodes, k, preset="paper", random_state=s).cost for s in range(N_SEEDS)])
    best = probi.solve(nodes, k, random_state=0)
    rows = {label: [run(nodes, k, seed) for seed in range(N_SEEDS)] for label, run in ways()}
    lowest = min(best.cost, min(full for row in rows.values() for _, full in row))
    spread = best.spread_cost
    print(f"\n{name}, k = {k}: PLloyd(paper) {yardstick:.4g}, lowest cost seen {lowest:.5g}, spread {spread:.4g}")
    print(f"{'':<28} {'error':>7} {'worst':>7} {'cost / PLloyd':>14} {'/ lowest':>9} {'excess / lowest':>16}")
    for label, row in rows.items():
        small, full = np.array(row).T
        errors = np.abs(small / full - 1.0)
        excess = (full.mean() - spread) / (lowest - spread)
        print(
            f"{label:<28} {errors.mean():>7.2%} {errors.max():>7.2%} {full.mean() / yardstick:>14.4f} "
            f"{full.mean() / lowest:>9.4f} {excess:>16.4f}",
            flush=True,
        )


def ways() -> Iterator[tuple[str, Callable[[probi.Nodes, int, int], tuple[float, float]]]]:
    """Ways from nodes to centers: cost of the centers on what was solved, and on all nodes."""
    for preset in ("default", "paper"):
        for label, order in ORDERS.items():
            yield f"{preset}, {label}", lambda nodes, k, seed, p=preset, o=order: summary(nodes, k, seed, p, o)
        yield f"{preset}, {N_SHARDS} shards merged", lambda nodes, k, seed, p=preset: shards(nodes, k, seed, p)
    yield "uniform sample", uniform
    yield "gravity centers of all", gravity


def in_file_order(nodes: probi.Nodes, seed: int) -> probi.Nodes:
    return nodes


def shuffled(nodes: probi.Nodes, seed: int) -> probi.Nodes:
    return nodes.take(np.random.default_rng(seed).permutation(len(nodes)))


def by_first_coordinate(nodes: probi.Nodes, seed: int) -> probi.Nodes:
    return nodes.take(np.argsort(nodes.gravity_centers[:, 0], kind="stable"))


ORDERS = {"as in the file": in_file_order, "shuffled": shuffled, "sorted": by_first_coordinate}


def summary(
    nodes: probi.Nodes, k: int, seed: int, preset: str, order: Callable[[probi.Nodes, int], probi.Nodes]
) -> tuple[float, float]:
    read = probi.Summary(k, preset=preset, random_state=seed)
    read.update(order(nodes, seed))
    return solved(read, nodes, k, seed)


def shards(nodes: probi.Nodes, k: int, seed: int, preset: str) -> tuple[float, float]:
    parts = [probi.Summary(k, preset=preset, random_state=seed, shard=i) for i in range(N_SHARDS)]
    borders = np.linspace(0, len(nodes), N_SHARDS + 1).astype(int)
    for part, start, stop in zip(parts, borders[:-1], borders[1:], strict=True):
        part.update(nodes[start:stop])
    for part in parts[1:]:
        parts[0].merge(part)
    return solved(parts[0], nodes, k, seed)


def solved(read: probi.Summary, nodes: probi.Nodes, k: int, seed: int) -> tuple[float, float]:
    result = probi.solve(read, k, random_state=seed)
    return result.coreset_cost, probi.expected_cost(nodes, result.centers)


def uniform(nodes: probi.Nodes, k: int, seed: int) -> tuple[float, float]:
    """As many nodes as a summary has, each with the same chance, and weights that keep the mass."""
    chosen = np.random.default_rng(seed).choice(len(nodes), min(200 * k, len(nodes)), replace=False)
    sample = nodes.take(chosen)
    sample = sample.with_weights(sample.weights * (nodes.mass.sum() / sample.mass.sum()))
    result = probi.solve(sample, k, random_state=seed)
    return result.cost, probi.expected_cost(nodes, result.centers)


def gravity(nodes: probi.Nodes, k: int, seed: int) -> tuple[float, float]:
    """k-median of all centers of gravity: the distributions are thrown away, and so is the spread."""
    result = probi.solve(probi.Nodes.from_points(nodes.gravity_centers, nodes.mass), k, n_init=1, random_state=seed)
    return result.cost, probi.expected_cost(nodes, result.centers)
