"""Labeled arrays: scenarios of an ensemble against xclim, and an ensemble in Zarr that is larger than memory.

PROBI_GIGABYTES is the size of the ensemble, 2 by default.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import peers

N_MEMBERS, N_STEPS, CHUNK, N_CLUSTERS = 51, 8, 50, 6


RUNS, XCLIM_RUNS, MAX_CHOSEN = 5, 2, 10


def main(data: Path) -> None:
    against_xclim()
    larger_than_memory()


def against_xclim() -> None:
    """Seconds, and cost of the members that are chosen and of the centers, on the same standardized values.

    Both get a number of scenarios, or choose one among the same numbers; for the costs, probi is asked for the number
    that xclim has chosen.
    """
    import xarray as xr

    import probi.xarray

    print("\nscenarios of an ensemble against xclim 0.62, kmeans_reduce_ensemble; seconds, best of runs (of processor)")
    python = peers.environment("xclim", ["xclim==0.62.0"])
    for n_members, n_values in ((51, 6), (51, 1000)):
        values = ensemble(n_members, n_values)
        members = xr.DataArray(values, dims=("number", "place"), name="t2m")
        members[:9, :3].probi.scenarios(2, random_state=0)  # compiles
        for k, most in ((5, 0), (None, MAX_CHOSEN)):
            numbers = range(1, most + 1)
            if python is None:
                continue
            theirs = peers.run(python, "run_xclim.py", values, n_clusters=k, max_clusters=most, runs=XCLIM_RUNS)
            labels, ids = np.array(theirs["labels"]), theirs["ids"]
            times = []
            for _ in range(RUNS):
                start, cpu = time.perf_counter(), time.process_time()
                chosen = k or choose(values, numbers)
                ours = members.probi.scenarios(chosen, random_state=0)
                times.append((time.perf_counter() - start, time.process_time() - cpu))
            n_theirs = len(ids)
            if chosen != n_theirs:
                ours = members.probi.scenarios(n_theirs, random_state=0)
            means = np.array([values[labels == c].mean(axis=0) for c in range(n_theirs)])
            costs = [
                probi.expected_cost(values, centers)
                for centers in (means, ours.t2m.values, values[ids], values[ours.representative.values])
            ]
            seconds, cpu = min(run[0] for run in times), min(run[1] for run in times)
            print(
                f"{n_members:>4} members x {n_values:>5} values, "
                f"k {k or f'chosen of {numbers.start} to {numbers.stop - 1}: {n_theirs} and {chosen}'}: "
                f"xclim {theirs['seconds']:.3f} s ({theirs['cpu']:.3f}), probi {seconds:.4f} s ({cpu:.4f}): "
                f"1/{theirs['seconds'] / seconds:.0f} (1/{theirs['cpu'] / cpu:.0f}); "
                f"cost of the centers {costs[1] / costs[0]:.4f}, of the members chosen {costs[3] / costs[2]:.4f}",
                flush=True,
            )


def choose(values: np.ndarray, numbers: range) -> int:
    """Number of scenarios that is recommended; the largest one without a clear number."""
    import probi

    choice = probi.choose_k(values, numbers, n_worlds=0, random_state=0)
    return choice.recommended or int(choice.n_clusters[-1])


def ensemble(n_members: int, n_values: int) -> np.ndarray:
    """Standardized values of members in four regimes of different sizes."""
    rng = np.random.default_rng(0)
    regime = rng.choice(4, n_members, p=[0.5, 0.25, 0.15, 0.1])
    values = rng.normal(size=(4, n_values))[regime] + rng.normal(size=(n_members, n_values))
    return (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)


def larger_than_memory() -> None:
    """Peak memory and throughput of ``ds.probi.cluster`` over places, each in a process of its own."""
    gigabytes = float(os.environ.get("PROBI_GIGABYTES") or 2.0)
    print(f"\nZarr of {gigabytes:g} GB, {N_MEMBERS} members x {N_STEPS} steps, k = {N_CLUSTERS}; seconds")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ensemble.zarr"
        in_process("write", path, gigabytes)
        read = in_process("read", path)
        ours = in_process("cluster", path)
    print(f"reading alone {read['seconds']:.1f} s, {read['megabytes']:.0f} MB")
    ratio = read["seconds"] / ours["seconds"]
    print(
        f"ds.probi.cluster {ours['seconds']:.1f} s, {ours['megabytes']:.0f} MB: throughput {ratio:.2f} of reading "
        f"alone, by processor time {read['cpu'] / ours['cpu']:.2f}",
        flush=True,
    )


def in_process(task: str, path: Path, *arguments: object) -> dict:
    command = [sys.executable, "-m", "benchmarks.fields", task, str(path), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout or "{}")


def write(path: Path, gigabytes: float) -> None:
    """Write a field of waves, smooth enough to compress as forecasts do, with members around it."""
    import xarray as xr

    rng = np.random.default_rng(0)
    side = CHUNK * round((gigabytes * 1e9 / 4 / N_MEMBERS / N_STEPS) ** 0.5 / CHUNK)
    rows = np.linspace(0.0, 6.0, side, dtype=np.float32)
    for start in range(0, side, CHUNK):
        y, x = np.meshgrid(rows[start : start + CHUNK], rows, indexing="ij")
        steps = np.arange(N_STEPS, dtype=np.float32)[:, None, None]
        means = 10.0 * np.sin(y + steps / 5) * np.cos(x)
        noise = rng.normal(size=(N_MEMBERS, *means.shape)).astype(np.float32)
        block = np.round(280.0 + means + noise, 2).astype(np.float32)  # as packed values are
        dims = ("number", "step", "latitude", "longitude")
        coords = {"latitude": rows[start : start + CHUNK], "longitude": rows}
        dataset = xr.DataArray(block, coords, dims, name="t2m", attrs={"units": "K"}).to_dataset()
        encoding = {"t2m": {"chunks": (N_MEMBERS, N_STEPS, CHUNK, CHUNK)}}
        if start:
            dataset.to_zarr(path, append_dim="latitude", consolidated=False)
        else:
            dataset.to_zarr(path, encoding=encoding, consolidated=False)


def timed(path: Path, work: object) -> None:
    import xarray as xr

    from probi._notes import peak_megabytes

    dataset = xr.open_zarr(path, consolidated=False)
    start, cpu = time.perf_counter(), time.process_time()
    work(dataset)  # type: ignore[operator]
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": cpu, "megabytes": peak_megabytes()}))


def read(dataset: object) -> None:
    """All chunks, block by block, and nothing else."""
    for start in range(0, dataset.sizes["latitude"], CHUNK):  # type: ignore[attr-defined]
        dataset["t2m"].isel(latitude=slice(start, start + CHUNK)).to_numpy()  # type: ignore[index]


def cluster(dataset: object) -> None:
    import probi.xarray  # noqa: F401

    dataset.probi.cluster(N_CLUSTERS, node=("latitude", "longitude"), random_state=0)  # type: ignore[attr-defined]


if __name__ == "__main__":
    task, path = sys.argv[1], Path(sys.argv[2])
    if task == "write":
        write(path, float(sys.argv[3]))
    else:
        timed(path, {"read": read, "cluster": cluster}[task])
