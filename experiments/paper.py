"""Section 5 of the paper again: PROBI as the paper has it, PROBI as we have it, and P-LLOYD++ on all data."""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import probi
from experiments.datasets import GROUP, DataSet, Rows, rows_of
from experiments.records import Records

METHODS = ("default", "paper")
KEYS = ("data_set", "stand_in", "k", "method", "run")
VALUES = ("summary_cost", "full_cost", "spread_cost", "summary_seconds", "solve_seconds", "peak_mb")

# Rows that are handed to a summary at once.
BATCH = 50_000


def run(
    data_set: DataSet, data: Path, cache: Path, records: Records, runs: int, may_stand_in: bool, report: Any
) -> None:
    """All that is missing of a data set; each row is recorded when it is there."""
    rows, stand_in = rows_of(data_set, data, may_stand_in)
    name = data_set.name
    wanted = [
        (k, method, seed)
        for k in data_set.ks
        for method in (*METHODS, "plloyd")
        for seed in range(runs)
        if not records.has(data_set=name, stand_in=stand_in, k=k, method=method, run=seed)
    ]
    if not wanted:
        return
    path = cache / f"{name}{'-stand-in' if stand_in else ''}.f32"
    store(data_set, rows, path)
    del rows
    nodes = probi.Nodes.from_groups(np.fromfile(path, np.float32).reshape(-1, data_set.n_features), GROUP)
    for k, method in dict.fromkeys((k, method) for k, method, _ in wanted):
        seeds = [seed for k_, method_, seed in wanted if (k_, method_) == (k, method)]
        report(f"{name}{' (stand-in)' if stand_in else ''}, k={k}, {method}, {len(seeds)} runs")
        found = (
            on_all_data(nodes, k, seeds) if method == "plloyd" else streamed(path, data_set, k, method, seeds, nodes)
        )
        for seed, values in zip(seeds, found, strict=True):
            records.add(data_set=name, stand_in=stand_in, k=k, method=method, run=seed, **values)


def store(data_set: DataSet, rows: Rows | None, path: Path) -> None:
    """Rows as raw float32 in a file, once: streams are read from there, in pieces."""
    if path.is_file() and path.stat().st_size == data_set.n_points * data_set.n_features * 4:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    with temporary.open("wb") as file:
        for start in range(0, data_set.n_points, 1 << 18):
            stop = min(start + (1 << 18), data_set.n_points)
            part = data_set.stand_in(start, stop) if rows is None else rows[start:stop]
            file.write(np.ascontiguousarray(part, np.float32).data)
    temporary.replace(path)


def on_all_data(nodes: probi.Nodes, k: int, seeds: list[int]) -> Iterator[dict[str, float]]:
    """P-LLOYD++ as the paper has it, on all nodes."""
    for seed in seeds:
        start = time.perf_counter()
        result = probi.solve(nodes, k, preset="paper", random_state=seed)
        seconds = time.perf_counter() - start
        yield {"full_cost": result.cost, "spread_cost": result.spread_cost, "solve_seconds": seconds}


def streamed(
    path: Path, data_set: DataSet, k: int, preset: str, seeds: list[int], nodes: probi.Nodes
) -> Iterator[dict[str, float]]:
    """Summaries of the stream, made and solved in a process of their own, whose memory is theirs alone."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        # Loads the compiled code, so that no run is timed with it.
        pool.submit(stream_once, path, data_set.n_features, k, preset, 0, 3000 * k).result()
        spread_cost = 0.0
        for seed in seeds:
            values, centers = pool.submit(stream_once, path, data_set.n_features, k, preset, seed).result()
            spread_cost = spread_cost or _spread_cost(nodes)
            yield values | {"full_cost": probi.expected_cost(nodes, centers), "spread_cost": spread_cost}


def _spread_cost(nodes: probi.Nodes) -> float:
    _, spreads = probi.one_medians(nodes, tol=1e-2)
    return float(nodes.mass @ spreads)


def stream_once(
    path: Path, n_features: int, k: int, preset: str, seed: int, most: int | None = None
) -> tuple[dict[str, float], NDArray[Any]]:
    """One pass and one solution: cost on the summary, seconds, peak memory, centers; of the first rows, if so many."""
    from benchmarks.common import peak_megabytes

    summary = probi.Summary(k, preset=preset, random_state=seed)
    seconds = 0.0
    with path.open("rb") as file:
        while True:
            rows = np.fromfile(file, np.float32, BATCH * n_features).reshape(-1, n_features)
            if len(rows) == 0 or (most is not None and summary.n_nodes * GROUP >= most):
                break
            start = time.perf_counter()
            summary.update(probi.Nodes.from_groups(rows, GROUP))
            seconds += time.perf_counter() - start
    start = time.perf_counter()
    result = probi.solve(summary, k, random_state=seed)
    values = {
        "summary_cost": result.coreset_cost,
        "summary_seconds": seconds,
        "solve_seconds": time.perf_counter() - start,
        "peak_mb": peak_megabytes(),
    }
    return values, result.centers
