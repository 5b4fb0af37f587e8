"""Streams: solving against reading, memory, honesty of error bars, one summary for several k."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import probi
from benchmarks.common import best_of, peak_megabytes
from benchmarks.data import covertype_nodes

RUNS = 3


def main(data: Path) -> None:
    overhead()
    nodes = covertype_nodes(data)
    if nodes is not None:
        solving(nodes)
        one_for_all(nodes)
        coverage(nodes)
    memory()
    wide_memory()


def summarised(nodes: probi.Nodes, k: int, seed: int = 0) -> probi.Summary:
    summary = probi.Summary(k, random_state=seed)
    summary.update(nodes)
    summary.coreset()
    return summary


def solving(nodes: probi.Nodes) -> None:
    print("\nCovertype: reading (check, summary, coreset) and solving with n_init = 10, seconds, best of runs")
    for k in (10, 20, 30):
        probi.solve(summarised(nodes, k), k, random_state=0)
        read, summary = best_of(RUNS, lambda k=k: summarised(nodes[:], k))
        solve, _ = best_of(RUNS, lambda k=k, s=summary: probi.solve(s, k, random_state=0))
        print(f"k = {k}: {read:.3f} + {solve:.3f}, solving takes {solve / read:.2f} times as long", flush=True)


def one_for_all(nodes: probi.Nodes) -> None:
    print("\nCovertype: one summary made for k = 30, solved for fewer, against one made for that k; mean of 10 seeds")
    large = [summarised(nodes, 30, seed) for seed in range(10)]
    for k in (5, 10, 20):
        costs = [
            [
                probi.expected_cost(nodes, probi.solve(summary, k, random_state=seed).centers)
                for summary in (large[seed], summarised(nodes, k, seed))
            ]
            for seed in range(10)
        ]
        for_all, for_k = np.mean(costs, axis=0)
        print(f"k = {k}: {for_all:.5g} against {for_k:.5g}, {for_all / for_k - 1:+.2%}", flush=True)


def coverage(nodes: probi.Nodes, n_seeds: int = 200) -> None:
    print(f"\nCovertype, k = 10, {n_seeds} seeds: does cost +- 2 standard errors contain the cost on all nodes?")
    inside, errors, biases = [], [], []
    for seed in range(n_seeds):
        result = probi.solve(summarised(nodes, 10, seed), 10, n_init=2, random_state=seed)
        truth = probi.expected_cost(nodes, result.centers)
        inside.append(abs(result.cost - truth) <= 2 * result.standard_error)
        errors.append(result.standard_error / truth)
        biases.append(result.cost / truth - 1)
    print(
        f"in {np.mean(inside):.1%} of them; mean standard error {np.mean(errors):.2%} of the cost, "
        f"mean of estimate / truth - 1 {np.mean(biases):+.3%} (spread {np.std(biases):.2%})",
        flush=True,
    )


def overhead() -> None:
    nodes = probi.Nodes.from_points(np.zeros((1, 3)))
    summary = probi.Summary(1000)

    def many() -> None:
        for _ in range(20_000):
            summary.update(nodes)

    seconds, _ = best_of(3, many)
    print(f"update with one node: {seconds / 20_000 * 1e6:.1f} microseconds")


def memory() -> None:
    print("\npeak memory of a generated stream of nodes with 10 realizations in 10 dimensions, k = 20, MB")
    peaks = []
    for n in (1_000_000, 10_000_000):
        command = [sys.executable, "-c", f"from benchmarks.streams import stream; stream({n})"]
        peaks.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(f"{n:>11,} nodes: {peaks[-1]:.0f}", flush=True)
    print(f"{peaks[1] / peaks[0] - 1:+.1%}")


def stream(n_nodes: int, batch: int = 10_000) -> None:
    """Read a generated stream and print the peak memory of this process."""
    rng = np.random.default_rng(0)
    middles = 10 * rng.standard_normal((30, 10), dtype=np.float32)
    summary = probi.Summary(20, random_state=0)
    for _ in range(n_nodes // batch):
        places = middles[rng.integers(30, size=batch)][:, None] + rng.standard_normal((batch, 10, 10), dtype=np.float32)
        summary.update(probi.Nodes.from_dense(places))
    probi.solve(summary, 20, random_state=0)
    print(peak_megabytes())


def wide_memory() -> None:
    print("\npeak memory of streams of large nodes beyond a process that has solved a small one, k = 20, MB")
    for n_nodes, n_each, d in ((40_000, 300, 10), (60_000, 300, 10), (40_000, 1, 1000)):
        code = f"from benchmarks.streams import wide_stream; wide_stream({n_nodes}, {n_each}, {d})"
        done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        print(f"{n_nodes:,} nodes x {n_each} realizations x {d:>5,} features: {float(done.stdout):.0f}", flush=True)


def wide_stream(n_nodes: int, n_each: int, d: int) -> None:
    """Print the memory that a stream of large nodes takes beyond that of a small one, which loads all kernels."""
    _read_wide(10_000, 3, 10)
    before = peak_megabytes()
    _read_wide(n_nodes, n_each, d)
    print(peak_megabytes() - before)


def _read_wide(n_nodes: int, n_each: int, d: int, batch: int = 1000) -> None:
    rng = np.random.default_rng(0)
    middles = 10 * rng.standard_normal((30, d), dtype=np.float32)
    summary = probi.Summary(20, random_state=0)
    for _ in range(n_nodes // batch):
        places = rng.standard_normal((batch, n_each, d), dtype=np.float32)
        places += middles[rng.integers(30, size=batch)][:, None]
        summary.update(probi.Nodes.from_dense(places))
    probi.solve(summary, 20, random_state=0)
