"""Dask and Spark with one worker against this process, on the same Parquet files; and what is sent.

Start-up of the engines is not counted: each has done a small job before.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import probi
import probi.io
from benchmarks.common import best_of

N_ROWS, N_FEATURES, K = 5_000_000, 10, 20
RUNS = 3


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder))
        base = _measured("local", folder, 1, 2)
        print(f"local, 2 threads: {base['seconds']:.2f} s")
        for engine in ("dask", "spark"):
            for workers in (1, 2):
                try:
                    found = _measured(engine, folder, workers, 2 // workers)
                except subprocess.CalledProcessError as error:
                    print(f"skipped: {engine}: {error.stderr.strip().splitlines()[-1]}")
                    break
                print(
                    f"{engine}, {workers} workers of {2 // workers} threads: {found['seconds']:.2f} s, "
                    f"{found['seconds'] / base['seconds']:.2f} times the local run"
                )
        _bytes_sent(Path(folder))


def _write(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    middles = 10 * rng.normal(size=(30, N_FEATURES))
    for i in range(5):
        points = (middles[rng.integers(30, size=N_ROWS // 5)] + rng.normal(size=(N_ROWS // 5, N_FEATURES))).astype("f4")
        table = pa.table({f"x{j}": points[:, j] for j in range(N_FEATURES)})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=250_000)


def _measured(engine: str, folder: str, workers: int, threads: int) -> dict[str, Any]:
    """Seconds in a process of its own, whose workers are no one else's; each has one task at a time."""
    # Arrow's own threads go by OMP_NUM_THREADS.
    environment = os.environ | {"PROBI_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.engines", engine, folder, str(workers), str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _local(folder: str, workers: int, threads: int) -> Callable[[], probi.Summary]:
    def summarize() -> probi.Summary:
        summary = probi.Summary(K, random_state=0)
        for nodes in probi.io.read(folder):
            summary.update(nodes)
        return summary

    return summarize


def _dask(folder: str, workers: int, threads: int) -> Callable[[], probi.Summary]:
    from distributed import Client

    from probi.engines import dask

    seeds = iter(range(1000))
    # Dask gives its workers one thread for kernels, unless it is told otherwise.
    environment = {"OMP_NUM_THREADS": str(threads)}
    client = Client(n_workers=workers, threads_per_worker=1, dashboard_address=":0", env=environment)

    def summarize() -> probi.Summary:
        # Another seed each time, or the scheduler could give what it remembers.
        return dask.summarize(folder, K, random_state=next(seeds), client=client, part_bytes=1 << 25)

    return summarize


def _spark(folder: str, workers: int, threads: int) -> Callable[[], probi.Summary]:
    from pyspark.sql import SparkSession

    from probi.engines import spark

    SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false").getOrCreate()
    return lambda: spark.summarize(folder, K, random_state=0, part_bytes=1 << 25)


def _bytes_sent(folder: Path) -> None:
    """What merges get and what comes home, of a tree of parts in this process."""
    from probi.engines.engine import Files, reader_of
    from probi.engines.tasks import Summarize, groups, merge, unpack_part
    from probi.summary.config import SummaryConfig

    for part_bytes in (1 << 22, 1 << 25):
        files = Files.of(reader_of(folder, {}), part_bytes)
        task = Summarize(SummaryConfig(K))
        parts = [files.run(task, number) for number in range(len(files.parts))]
        n_parts, leaf, largest = len(parts), max(map(len, parts)), 0
        while len(parts) > 1:
            grouped = [[parts[i] for i in group] for group in groups(len(parts), task.fan_in)]
            largest = max(largest, *(sum(map(len, group)) for group in grouped))
            parts = [merge(group) for group in grouped]
        summary, _ = unpack_part(parts[0])
        print(
            f"{n_parts} parts: a part's summary has at most {leaf / 1e6:.2f} MB, a merge gets at most "
            f"{largest / 1e6:.2f} MB, {len(parts[0]) / 1e6:.2f} MB come home; {summary.n_nodes:,} nodes"
        )


if __name__ == "__main__":
    engine, folder, workers, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    run = {"local": _local, "dask": _dask, "spark": _spark}[engine](folder, workers, threads)
    run()
    print(json.dumps({"seconds": best_of(RUNS, run)[0]}))
