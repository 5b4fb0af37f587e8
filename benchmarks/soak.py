"""Streams without end: memory and time per batch stay, counters pass 2^31 and 2^53, estimates hold.

``python -m benchmarks soak --minutes 60``. The first minute, or a quarter of the time, is for caches to fill.
"""

import ctypes
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

import probi
from probi.summary.summary import Summary

BATCH, K = 2_000, 5
CENTERS = 20.0 * np.random.default_rng(0).normal(size=(K, 4))
C_LIBRARY = ctypes.CDLL(None)
PR_SET_THP_DISABLE = 41
# Of counters at the start: each is passed after a few batches.
BEFORE = (0, 2**31 - 3 * BATCH, 2**53 - 3 * BATCH)


def nodes_of(number: int) -> probi.Nodes:
    """A batch: three realizations around one of the centers, some nodes absent at times, heavy tails."""
    rng = np.random.default_rng(number)
    points = CENTERS[rng.integers(K, size=(BATCH, 1))] + rng.standard_t(3, size=(BATCH, 3, 4))
    probabilities = np.full((BATCH, 3), 1 / 3) * rng.uniform(0.5, 1.0, (BATCH, 1))
    return probi.Nodes.from_dense(points, probabilities, weights=rng.uniform(0.5, 1.5, BATCH))


@dataclass
class Known:
    """A summary, and what it must know: the number of nodes, and the cost of the centers on all of them."""

    summary: Summary
    n_nodes: int = 0
    cost: float = 0.0

    def add(self, nodes: probi.Nodes, cost: float) -> None:
        self.summary.update(nodes)
        self.count(nodes, cost)

    def count(self, nodes: probi.Nodes, cost: float) -> None:
        self.n_nodes, self.cost = self.n_nodes + len(nodes), self.cost + cost

    def errors(self) -> float:
        """How many standard errors the estimate is off."""
        assert self.summary.n_nodes == self.n_nodes, (self.summary.n_nodes, self.n_nodes)
        cost, error = self.summary.evaluate(CENTERS)
        return abs(cost - self.cost) / error


def begun_at(n_nodes: int) -> Known:
    """A summary that has read a batch, sealed, and so many more nodes of no weight."""
    nodes = nodes_of(0)
    summary = probi.Summary(K, random_state=0)
    summary.update(nodes)
    summary = summary.sealed()
    (stream,), audit = summary._state
    seal = stream.seal._replace(n_nodes=n_nodes + BATCH)
    summary._state = [replace(stream, n_digested=n_nodes + BATCH, seal=seal)], audit
    return Known(summary, n_nodes + BATCH, probi.expected_cost(nodes, CENTERS))


@dataclass
class Soak:
    """All that is fed, and what was measured of it."""

    folder: Path
    streams: list[Known] = field(default_factory=lambda: [begun_at(n) for n in BEFORE])
    merged: Known = field(default_factory=lambda: Known(probi.Summary(K, random_state=0)))
    window: probi.Window = field(default_factory=lambda: probi.Window(10, n_periods=6, n_clusters=K, random_state=0))
    n_batches: int = 0

    def step(self) -> None:
        """One batch to all of them; some of the other calls, in turn."""
        number = self.n_batches = self.n_batches + 1
        nodes = nodes_of(number)
        cost = probi.expected_cost(nodes, CENTERS)
        for known in self.streams:
            known.add(nodes, cost)
        self.window.update(nodes, number)
        shard = probi.Summary(K, random_state=0, shard=number)
        shard.update(nodes)
        self.merged.summary.merge(shard)
        self.merged.count(nodes, cost)
        for every, call in self.others().items():
            if number % every == 0:
                call()

    def others(self) -> dict[int, Callable[[], object]]:
        """Calls besides reading, by the number of batches between two of them."""
        return {20: self.scale, 25: self.save_and_load, 50: self.solve, 200: self.engine}

    def scale(self) -> None:
        for known in (*self.streams, self.merged):
            known.summary.scale(0.99)
            known.cost *= 0.99

    def save_and_load(self) -> None:
        path = self.folder / "state.probi"
        for known in (*self.streams, self.merged):
            known.summary.save(path)
            loaded = probi.Summary.load(path)
            assert loaded.to_bytes() == known.summary.to_bytes()
            known.summary = loaded
        self.window.save(path)
        self.window = probi.Window.load(path)

    def solve(self) -> None:
        assert probi.solve(self.window.summary(), K, n_init=1, random_state=0).cost > 0.0
        assert max(known.errors() for known in self.streams) < 6.0

    def engine(self) -> None:
        if importlib.util.find_spec("dask") is None:
            return
        import dask.array as da

        from probi.engines import dask as on_dask

        points = da.from_array(nodes_of(self.n_batches).gravity_centers, chunks=(500, 4))
        assert on_dask.summarize(points, K, random_state=0).n_nodes == BATCH


def megabytes() -> float:
    """Memory of this process, without pages that its allocators keep although nothing is on them."""
    pa.default_memory_pool().release_unused()
    if hasattr(C_LIBRARY, "malloc_trim"):
        C_LIBRARY.malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main(data: Path, minutes: float = 1.0) -> None:
    """Print one row per minute, and at the end what the bars are about."""
    if hasattr(C_LIBRARY, "prctl"):
        # As time passes, Linux replaces small pages by huge ones: 2 MB each, although little is on them.
        C_LIBRARY.prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    length = min(60.0, 15.0 * minutes)
    rows: list[tuple[float, float]] = []  # largest memory, median CPU time of a batch
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder))
        soak.step()
        for call in soak.others().values():  # what they import and compile stays
            call()
        begin = time.monotonic()
        while time.monotonic() < begin + 60.0 * minutes:
            most, times, end = 0.0, [], time.monotonic() + length
            while time.monotonic() < end:
                before = time.process_time()
                soak.step()
                if not any(soak.n_batches % every == 0 for every in soak.others()):
                    times.append(time.process_time() - before)
                most = max(most, megabytes())
            rows.append((most, statistics.median(times)))
            print(
                f"{(time.monotonic() - begin) / 60:6.1f} min  {soak.n_batches:8,} batches  {most:7.1f} MB  "
                f"{1e3 * rows[-1][1]:6.2f} ms CPU per batch", flush=True,
            )  # fmt: skip
        later = rows[1:] or rows
        print(f"memory: {max(row[0] for row in later) / later[0][0] - 1:+.2%} after the second row (bar 2 %)")
        first, last = later[0][1], later[-1][1]
        print(f"time per batch: {last / first - 1:+.2%} from the second to the last row (bar 5 %)")
        off = ", ".join(f"{known.errors():.2f}" for known in (*soak.streams, soak.merged))
        print(f"estimates are off by {off} standard errors (bar 2); nodes read: {soak.streams[-1].n_nodes:,}")
