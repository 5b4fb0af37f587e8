"""Small real files, from which the search starts."""

import bz2
import gzip
import hashlib
import io
import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.targets import CHECKPOINTED
from fuzz.values import ARGUMENTS, CHECKPOINT_PATHS, archive
from probi import Nodes, Summary, Window
from probi.cli import app
from probi.summary import file

# Inputs that once failed, or that reach distinct places: a folder for each parser.
CORPUS = Path(__file__).parent / "corpus"
SAVED = Path(__file__).parent.parent / "tests" / "data"


# -- what seeds and mutators share -------------------------------------------------------------------------------------


def signed(data: bytes) -> bytes:
    """A summary or window with the right checksum."""
    for pattern in (file.ARCHIVE_CHECKSUM, file.CHECKSUM):
        if found := pattern.search(data):
            prefix = found[0][:-64]
            plain = data.replace(found[0], prefix + b"0" * 64)
            return plain.replace(prefix + b"0" * 64, prefix + hashlib.sha256(plain).hexdigest().encode())
    return data


def compressed(data: bytes, suffix: str) -> bytes:
    """Bytes of a compressed file, by the ending of its name."""
    if suffix == ".gz":
        return gzip.compress(data, mtime=0)
    if suffix == ".bz2":
        return bz2.compress(data)
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, {".zst": "zstd", ".lz4": "lz4"}[suffix]) as stream:
        stream.write(data)
    return bytes(out.getvalue().to_pybytes())


# -- tables ------------------------------------------------------------------------------------------------------------


def tables() -> Iterator[tuple[int, pa.Table]]:
    """Tables in all layouts, with the number of how they are read (``READ`` in targets.py)."""
    x, y = np.arange(6.0), np.array([0.5, 1, -2, 8, 1e6, 0.25])
    yield 0, pa.table({"x": x, "y": y})
    yield 1, pa.table({"id": ["a", "b", "c", "d", "e", "é"], "x": x.astype("f4"), "weight": y * y})
    long = {"id": [1, 1, 2, 3, 3, 3], "x": x, "y": y, "probability": [0.5, 0.5, 1.0, 0.25, 0.25, 0.25]}
    yield 2, pa.table(long)
    yield 5, pa.table({"id": ["a", "b", "a", "c", "b", "c"], "x": [1.0, None, 2, 3, 4, 5]})
    points = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]]
    chances = [[0.5, 0.5], [1.0], [0.25, 0.25, 0.25]]
    yield 3, pa.table({"id": [7, 8, 9], "points": points, "probability": chances})
    yield 8, pa.table({"x": [[1.0, None], [2.0], [3.0, 4.0]], "y": [[1.0, 1.0], [2.0], [3.0, 4.0]]})
    yield 4, pa.table({"x": x, "y": np.arange(6, dtype="i2")})
    text = pa.array(["a", "b", "a", "b", "c", "c"]).dictionary_encode()
    yield 11, pa.table({"id": text, "x": x, "day": pa.array([1, 2, 3, 4, 5, 6], pa.date32())})


def _tables(to_bytes: Callable[[pa.Table], bytes]) -> Iterator[bytes]:
    for option, table in tables():
        yield bytes([option]) + to_bytes(table)


def _to_parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=4)
    return out.getvalue()


def _to_ipc(table: pa.Table, new: Any) -> bytes:
    out = pa.BufferOutputStream()
    with new(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return bytes(out.getvalue().to_pybytes())


def _to_csv(table: pa.Table) -> bytes:
    rows = [
        [json.dumps(cell) if isinstance(cell, list) else cell for cell in row.values()] for row in table.to_pylist()
    ]
    texts = [["" if c is None else f'"{c}"' if "," in str(c) else str(c) for c in row] for row in rows]
    lines = [",".join(row) for row in (table.column_names, *texts)]
    return ("\n".join(lines) + "\n").encode()


def csv() -> Iterator[bytes]:
    """Text in all layouts, with quotes, empty lines, and other signs."""
    yield from _tables(_to_csv)
    yield b"\x0a1,5;2,5\n3;4\n"
    yield b'\x06\xef\xbb\xbfx,y\r\n"1",2\r\n\r\n3,"4\n"\r\n--5,1\r\n'
    yield b'\x03points\n"[[1,2],[3,4]]"\n"[[5,6]]"\n'


def compressed_text() -> Iterator[bytes]:
    """The same, compressed."""
    for data, ending in zip(csv(), itertools.cycle([".gz", ".zst", ".bz2", ".lz4"]), strict=False):
        yield data[:1] + compressed(data[1:], ending)


def npy() -> Iterator[bytes]:
    """Arrays of all shapes."""
    arrays = [
        np.arange(12.0).reshape(6, 2), np.asfortranarray(np.arange(24, dtype=">f4").reshape(4, 3, 2)),
        np.array([(1, 2.5, b"a"), (2, 3.5, b"b")], [("id", "<i8"), ("x", "<f8"), ("name", "S3")]),
        np.zeros((3, 2), bool), np.arange(6, dtype="<u2").reshape(3, 2),
    ]  # fmt: skip
    for array in arrays:
        out = io.BytesIO()
        np.save(out, array)
        yield b"\0" + out.getvalue()


def _dataset() -> Any:
    import xarray

    values = np.arange(24.0).reshape(2, 3, 4)
    values[0, 1, 2] = np.nan
    coordinates = {"latitude": [50.0, 51.0, 52.0], "longitude": np.arange(4.0)}
    dims = ("number", "latitude", "longitude")
    return xarray.Dataset(
        {"t": (dims, values, {"units": "K"}), "u": (dims, values.astype("f4"), {"units": "K"})}, coordinates
    )


def _dated() -> Any:
    """Other nodes: texts and dates, packed integers, a coordinate of two dimensions, steps as features."""
    import xarray

    dims, how = ("place", "time", "member"), {"scale_factor": 0.1, "_FillValue": np.int16(7), "coordinates": "lat"}
    coordinates = {
        "place": ["a", "b", "\u00e9"],
        "time": ("time", np.arange(4), {"units": "hours since 2000-01-01"}),
        "lat": (("place", "time"), np.zeros((3, 4))),
    }
    return xarray.Dataset({"t": (dims, np.arange(24, dtype="i2").reshape(3, 4, 2), how)}, coordinates)


def netcdf() -> Iterator[bytes]:
    """A small ensemble, and nodes with texts and dates; HDF5, and the older format."""
    for option, dataset in enumerate([_dataset()] * 4 + [_dated()] * 4):
        yield bytes([option]) + bytes(dataset.to_netcdf(engine="h5netcdf"))
    for option, dataset in ((0, _dataset()), (4, _dated())):
        yield bytes([option]) + bytes(dataset.to_netcdf(engine="scipy"))


def zarr() -> Iterator[bytes]:
    """The same as a folder, in an archive."""
    for version, (option, dataset) in itertools.product((2, 3), ((0, _dataset()), (2, _dataset()), (4, _dated()))):
        with tempfile.TemporaryDirectory() as folder:
            dataset.to_zarr(folder, zarr_format=version, consolidated=False)
            paths = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
            members = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
        yield bytes([option]) + archive(members)


# -- summaries and commands --------------------------------------------------------------------------------------------


def summaries() -> Iterator[bytes]:
    """Summaries of all presets, with ids, of uncertain nodes, merged, scaled; and those of older formats."""
    rng = np.random.default_rng(0)
    points = rng.integers(0, 9, (60, 2)).astype(float)
    small: dict[str, Any] = {"random_state": 0, "size": 8, "audit_size": 10}
    ids = np.array([f"node {i}" for i in range(60)], object)
    uncertain = Nodes(points, np.full(60, 0.25), np.arange(0, 61, 3), ids=np.arange(20))
    for nodes, options in (
        (points, {}),
        (points.astype("f4"), {"preset": "paper"}),
        (Nodes(points, np.ones(60), np.arange(61), ids=ids), {"shard": 3}),
        (uncertain, {"max_realizations": 2}),
    ):
        summary = Summary(1, **small, **options)
        summary.update(nodes)
        summary.about["space"] = {"features": ["x", "y"]}
        yield summary.to_bytes()
    one, other = Summary(1, **small), Summary(1, shard=1, **small)
    one.update(points)
    other.update(points + 5.0)
    one.merge(other)
    yield one.to_bytes()
    one.scale(0.5)
    yield one.to_bytes()
    yield Summary(2, random_state=0).to_bytes()
    yield from (path.read_bytes() for path in sorted(SAVED.glob("summary_*")) if path.stat().st_size < 17_000)


def windows() -> Iterator[bytes]:
    """Windows of numbers and dates; and those of older formats."""
    points = np.random.default_rng(0).integers(0, 9, (60, 2)).astype(float)
    window = Window(10, n_periods=3, n_clusters=1, size=8, audit_size=10, random_state=0)
    window.update(points, np.arange(60.0))
    yield window.to_bytes()
    dated = Window(np.timedelta64(1, "D"), n_periods=2, n_clusters=1, size=8, audit_size=5, random_state=0)
    dated.update(points[:20], np.arange(20).astype("datetime64[h]"))
    yield dated.to_bytes()
    yield Window(0.5, n_periods=2, random_state=0).to_bytes()
    yield from (path.read_bytes() for path in sorted(SAVED.glob("window_*")))


def checkpoints() -> Iterator[bytes]:
    """A checkpoint of each run as it is, and with one field forged."""
    yield from (b"%d[]" % run for run in range(len(CHECKPOINTED)))
    for path in CHECKPOINT_PATHS[::3]:
        yield json.dumps([[path, -1]]).encode()


def centers() -> Iterator[bytes]:
    """Centers of a run, in Parquet and CSV."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "x.csv").write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(40)))
        for k in ("2", "1,3"):
            assert (
                app.run(["cluster", str(path / "x.csv"), "-k", k, "-q", "-o", str(path / "out"), "--scale", "standard"])
                == 0
            )
            yield (path / "out" / "centers.parquet").read_bytes()
        yield (path / "out" / "centers.csv").read_bytes()
    yield b"x,y\n1,2\n3,4\n"


def options() -> Iterator[bytes]:
    """Commands as they are meant."""
    for line in (
        "cluster x.csv -k 2 -q", "cluster x.csv -k 1:3 --json", "summarize long.csv -k 1 -o out.probi --layout long",
        "merge s.probi -o merged.probi", "solve s.probi -k 1", "assign x.csv --centers c.csv -o out.csv",
        "evaluate x.csv --centers c.csv", "info s.probi", "info x.csv --json", "check long.csv --id id",
        "convert long.csv -o out.parquet --to nested --id id", "cluster x.csv -k 2 -o out --scale standard -q",
    ):  # fmt: skip
        yield "\n".join(line.split()).encode()
    yield from (f"info\nx.csv\n--features\n{value}".encode("utf-8", "replace") for value in ARGUMENTS[::9])


SEEDS: dict[str, Callable[[], Iterable[bytes]]] = {
    "summary": summaries,
    "window": windows,
    "checkpoint": checkpoints,
    "centers": centers,
    "parquet": lambda: _tables(_to_parquet),
    "ipc": lambda: _tables(lambda table: _to_ipc(table, pa.ipc.new_file)),
    "stream": lambda: _tables(lambda table: _to_ipc(table, pa.ipc.new_stream)),
    "csv": csv,
    "compressed": compressed_text,
    "npy": npy,
    "netcdf": netcdf,
    "zarr": zarr,
    "options": options,
}
