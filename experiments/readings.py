"""Readings of Algorithm 2 where its text is open, on Covertype: does one of them give the paper's rows?"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import probi
from experiments.datasets import ALL, GROUP, DataSet, rows_of
from experiments.records import Records
from probi.coreset import paper
from probi.solver.problem import draw

KEYS = ("data_set", "stand_in", "reading", "k", "run")
VALUES = ("summary_cost", "full_cost", "n_retained", "mass")

# Nodes that are handed to a summary at once.
BATCH = 5000


class Reading(NamedTuple):
    """What a run does otherwise than the paper preset."""

    said: str
    by_points: bool = False  # draws from a bucket: 200 k over its number of nodes, not over the number of buckets
    whole_weights: bool = False  # weights are rounded down to whole numbers
    last_ring: int | None = None  # nodes beyond it are lost


READINGS = {
    "buckets": Reading("`s` divides by the number of buckets (the paper preset)"),
    "points": Reading("`s` divides by the number of points in this bucket (as printed)", by_points=True),
    "whole": Reading("number of buckets; weights rounded down to whole numbers", whole_weights=True),
    "points whole": Reading(
        "points in this bucket; weights rounded down to whole numbers", by_points=True, whole_weights=True
    ),
    "rings": Reading("number of buckets; nodes beyond the third ring lost", last_ring=3),
}


def run(
    data: Path, records: Records, runs: int, report: Callable[[str], None], data_set: DataSet | None = None
) -> None:
    """All that is missing; a stand-in is never taken for the data."""
    data_set = data_set or ALL["Covertype"]
    rows, stand_in = rows_of(data_set, data, False)
    nodes = probi.Nodes.from_groups(np.ascontiguousarray(rows, np.float32), GROUP)
    for name, reading in READINGS.items():
        for k in data_set.ks:
            report(f"{data_set.name}, {name}, k={k}, {runs} runs")
            for seed in range(runs):
                keys = {"data_set": data_set.name, "stand_in": stand_in, "reading": name, "k": k, "run": seed}
                if not records.has(**keys):
                    records.add(**keys, **once(nodes, reading, k, seed))


def once(nodes: probi.Nodes, reading: Reading, k: int, seed: int, size: int | None = None) -> dict[str, float]:
    """One pass and one solution."""
    summary = probi.Summary(k, size, "paper", random_state=seed)
    with read_as(reading, summary.size):
        for start in range(0, len(nodes), BATCH):
            summary.update(nodes[start : start + BATCH])
        coreset = summary.coreset()
        result = probi.solve(coreset, k, preset="paper", random_state=seed)
    return {
        "summary_cost": result.cost,
        "full_cost": probi.expected_cost(nodes, result.centers),
        "n_retained": len(coreset),
        "mass": float(coreset.mass.sum() / nodes.mass.sum()),
    }


@contextmanager
def read_as(reading: Reading, size: int) -> Iterator[None]:
    """Let the paper's reduce follow a reading."""
    at_work = threading.local()  # the nodes that the reduce of a thread loses; several run at a time
    buckets = paper.buckets

    def buckets_and_lost(labels: Any, distances: Any, spreads: Any, mass: Any) -> Any:
        radius = float((mass * (distances + spreads)).sum() / (8.0 * mass.sum()))
        last = np.inf if reading.last_ring is None else 2.0**reading.last_ring * radius
        at_work.lost = (distances >= last) | (spreads > last)
        return buckets(labels, distances, spreads, mass)

    def draws(bucket_of: Any, n_buckets: int, n_draws: int, mass: Any, rng: Any) -> Any:
        drawn = np.zeros(len(mass))
        for bucket in range(n_buckets):
            inside = np.flatnonzero((bucket_of == bucket) & ~at_work.lost)
            if len(inside) == 0:
                continue
            n = max(size // len(inside), 1) if reading.by_points else n_draws
            weight = mass[inside].sum() / n
            weight = np.floor(weight) if reading.whole_weights else weight
            drawn[inside] = weight * np.bincount(draw(mass[inside], rng.random(n)), minlength=len(inside))
        chosen = np.flatnonzero(drawn)
        return chosen, drawn[chosen]

    with mock.patch.object(paper, "buckets", buckets_and_lost), mock.patch.object(paper, "draws", draws):
        yield
