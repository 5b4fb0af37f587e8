"""Coreset quality as the literature measures it: distortion over several sets of centers.

Distortion of a coreset for given centers is max(cost on it / cost on all nodes, the inverse). As in Schwiegelshohn and
Sheikh-Omar (ESA 2022) the worst over centers found on the coreset, on all data, and drawn at random is what counts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import probi
from benchmarks.data import beijing_nodes, covertype_nodes, kddcup_nodes
from experiments.datasets import ALL, GROUP
from experiments.records import Records

KEYS = ("data_set", "stand_in", "k", "method", "size", "seed")
VALUES = ("distortion", "on_coreset", "on_all", "at_random")

SIZES = (10, 20, 50, 100, 200, 500)  # nodes per cluster
USUAL = 200
N_USUAL = 20
K = 20
N_FIXED = 3


def data_sets(data: Path) -> dict[str, tuple[bool, Callable[[], probi.Nodes | None]]]:
    """Whether each is a stand-in, and how to get it."""
    tower = ALL["Tower"]
    rows = tower.load(data)

    def tower_nodes() -> probi.Nodes:
        return probi.Nodes.from_groups(tower.stand_in(0, tower.n_points) if rows is None else rows, GROUP)

    return {
        "Covertype": (False, lambda: covertype_nodes(data)),
        "Beijing": (False, lambda: beijing_nodes(data)),
        "KDD Cup": (False, lambda: kddcup_nodes(data)),
        "Tower": (rows is None, tower_nodes),
    }


def coreset(nodes: probi.Nodes, method: str, size: int, seed: int) -> probi.Nodes:
    """Nodes that stand for all, by one of three methods."""
    if method == "uniform":
        return uniform_sample(nodes, size, seed)
    summary = probi.Summary(K, size=size, preset=method, random_state=seed)
    summary.update(nodes)
    return summary.coreset()


def uniform_sample(nodes: probi.Nodes, size: int, seed: int) -> probi.Nodes:
    """Nodes drawn with equal probabilities, weighted so that they stand for all."""
    rng = np.random.default_rng(seed)
    chosen = nodes.take(np.sort(rng.choice(len(nodes), min(size, len(nodes)), replace=False)))
    return chosen.with_weights(chosen.weights * (len(nodes) / len(chosen)))


def run(data: Path, records: Records, n_seeds: int, report: Any) -> None:
    """Fill what is missing; the usual size of the default gets at least N_USUAL seeds."""
    for name, (stand_in, load) in data_sets(data).items():
        wanted = [
            (method, size * K, seed)
            for size in SIZES
            for method in ("default", "paper", "uniform")
            for seed in range(max(N_USUAL, n_seeds) if (method, size) == ("default", USUAL) else n_seeds)
            if not records.has(data_set=name, stand_in=stand_in, k=K, method=method, size=size * K, seed=seed)
        ]
        if not wanted:
            continue
        nodes = load()
        if nodes is None:
            continue
        report(f"quality of coresets: {name}, {len(wanted)} coresets")
        on_all = [(c, probi.expected_cost(nodes, c)) for c in _found_on_all(nodes)]
        at_random = [(c, probi.expected_cost(nodes, c)) for c in _at_random(nodes)]
        for method, size, seed in wanted:
            made = coreset(nodes, method, size, seed)
            found = probi.solve(made, K, n_init=2, random_state=seed).centers
            worst = {
                "on_coreset": distortion(made, [(found, probi.expected_cost(nodes, found))]),
                "on_all": distortion(made, on_all),
                "at_random": distortion(made, at_random),
            }
            records.add(
                data_set=name, stand_in=stand_in, k=K, method=method, size=size, seed=seed,
                distortion=max(worst.values()), **worst,
            )  # fmt: skip


def _found_on_all(nodes: probi.Nodes) -> list[Any]:
    return [probi.solve(nodes, K, n_init=2, random_state=100 + seed).centers for seed in range(N_FIXED)]


def _at_random(nodes: probi.Nodes) -> list[Any]:
    """Nodes' gravity centers, which nobody has improved."""
    rng = np.random.default_rng(0)
    return [np.asarray(nodes.gravity_centers[rng.choice(len(nodes), K, replace=False)]) for _ in range(N_FIXED)]


def distortion(made: probi.Nodes, centers: list[tuple[Any, float]]) -> float:
    """Worst of max(cost on the coreset / cost on all nodes, the inverse) over centers that come with the latter."""
    ratios = [probi.expected_cost(made, places) / cost for places, cost in centers]
    return max(max(ratio, 1 / ratio) for ratio in ratios)
