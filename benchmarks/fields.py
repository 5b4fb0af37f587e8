"""Labeled arrays: an ensemble in Zarr that is larger than memory.

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

N_MEMBERS, N_STEPS, CHUNK, N_CLUSTERS = 51, 8, 50, 6


def main(data: Path) -> None:
    larger_than_memory()


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
        f"ds.probi.cluster {ours['seconds']:.1f} s, {ours['megabytes']:.0f} MB; it reads the data twice: throughput "
        f"{ratio:.2f} of reading alone, per pass {2 * ratio:.2f}",
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

    from probi._system import peak_megabytes

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
