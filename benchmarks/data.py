"""Data sets of the benchmarks: files of the data folder, and generated points with a true size and shape."""

from pathlib import Path
from typing import Any

import numpy as np

import probi


def _table(data: Path, name: str) -> Any:
    path = data / name
    if not path.is_file():
        print(f"skipped: no {name} in {data}; give the folder with DATA=...")
        return None
    import pyarrow.parquet as pq

    return pq.read_table(path)


def covertype(data: Path, dtype: Any = np.float32) -> np.ndarray | None:
    """All 55 columns of Covertype as the paper takes them, label included; None, with a word, if it is not there."""
    table = _table(data, "covertype.parquet")
    if table is None:
        return None
    points = np.empty((table.num_rows, table.num_columns), dtype)
    for f, column in enumerate(table.columns):
        points[:, f] = column.to_numpy()
    return points


def covertype_nodes(data: Path) -> probi.Nodes | None:
    """Covertype in groups of ten, float32."""
    points = covertype(data)
    return None if points is None else probi.Nodes.from_groups(points)


def beijing_nodes(data: Path) -> probi.Nodes | None:
    """Station-days of Beijing's air: hourly readings of six pollutants in standard deviations, probability 1/24."""
    table = _table(data, "beijing_air_quality.parquet")
    if table is None:
        return None
    pollutants = ["PM2.5", "PM10", "SO2", "NO2", "CO", "O3"]
    frame = table.select([*pollutants, "station", "year", "month", "day"]).to_pandas().dropna()
    points = frame[pollutants].to_numpy(np.float64)
    days = frame.groupby(["station", "year", "month", "day"], sort=False, observed=True).ngroup().to_numpy()
    offsets = np.flatnonzero(np.concatenate([[True], days[1:] != days[:-1], [True]]))
    return probi.Nodes(points / points.std(axis=0), np.full(len(points), 1 / 24), offsets)


def kddcup_nodes(data: Path) -> probi.Nodes | None:
    """KDD Cup 1999 in groups of ten: 38 numeric columns as they are, float64."""
    table = _table(data, "kddcup99_corrected.parquet")
    if table is None:
        return None
    text = {"c01", "c02", "c03", "c41"}  # protocol, service, flag and label
    columns = [table[name].to_numpy() for name in table.column_names if name not in text]
    return probi.Nodes.from_groups(np.column_stack(columns).astype(np.float64))


def picture(n: int, seed: int = 0) -> np.ndarray:
    """RGB rows like those of a picture: 60 colours of different width and frequency, in runs of 50."""
    rng = np.random.default_rng(seed)
    colours, widths = rng.uniform(0, 255, (60, 3)), rng.uniform(2, 25, (60, 1))
    chosen = np.repeat(rng.choice(60, n // 50 + 1, p=rng.dirichlet(np.full(60, 0.5))), 50)[:n]
    return np.clip(np.rint(colours[chosen] + widths[chosen] * rng.standard_normal((n, 3))), 0, 255)


def cross_product(points: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    """Rows of a picture, each beside a random row of other points, float32."""
    out = np.empty((n, 3 + points.shape[1]), np.float32)
    out[:, :3] = picture(n, seed)
    out[:, 3:] = points[np.random.default_rng(seed + 1).integers(0, len(points), n)]
    return out


def random_nodes(n_nodes: int, n_each: int, d: int, seed: int = 0, spread: float = 0.1) -> probi.Nodes:
    """Tight nodes around random places."""
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((n_nodes, 1, d), dtype=np.float32)
    return probi.Nodes.from_dense(places + spread * rng.standard_normal((n_nodes, n_each, d), dtype=np.float32))


def sift_like(n: int, seed: int = 0, per_picture: int = 1500) -> np.ndarray:
    """SIFT descriptors of generated pictures: 128 whole numbers from 0 to 255, float32.

    Like real ones, a sixth of them are 0, most are small (mean 26, standard deviation 37), and nearest neighbors are as
    far as in about 17 dimensions.
    """
    rng = np.random.default_rng(seed)
    out, done = np.empty((n, 128), np.float32), 0
    while done < n:
        rows = rng.permutation(_descriptors(_scene(rng), cell=int(rng.integers(3, 7))))
        rows = rows[: min(per_picture, n - done)]
        out[done : done + len(rows)] = rows
        done += len(rows)
    return out


def _scene(rng: np.random.Generator, side: int = 512) -> np.ndarray:
    """Gray values: things of all sizes in front of each other, with textures of natural spectra."""
    frequencies = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side))
    frequencies[0, 0] = 1.0
    spectra = [np.fft.rfft2(rng.standard_normal((side, side))) / frequencies ** rng.uniform(0.8, 1.6) for _ in range(2)]
    textures = [texture / texture.std() for texture in (np.fft.irfft2(spectrum) for spectrum in spectra)]
    gray = 0.3 * textures[0]
    for _ in range(150):
        (cy, cx), angle, stretch = rng.uniform(0, side, 2), rng.uniform(0, np.pi), rng.uniform(1, 4)
        radius = 8 / rng.uniform(0.05, 1.0) ** 0.8
        reach = int(radius * stretch) + 1
        box = np.s_[max(0, int(cy) - reach) : int(cy) + reach, max(0, int(cx) - reach) : int(cx) + reach]
        y, x = np.arange(side)[box[0], None] - cy, np.arange(side)[box[1]] - cx
        u, v = (np.cos(angle) * x + np.sin(angle) * y) / stretch, np.cos(angle) * y - np.sin(angle) * x
        inside = np.hypot(u, v) < radius if rng.random() < 0.5 else np.maximum(np.abs(u), np.abs(v)) < radius
        value = rng.normal() + 0.4 * rng.exponential() * textures[rng.integers(2)][box]
        gray[box] = np.where(inside, value, gray[box])
    return gray


def _descriptors(gray: np.ndarray, cell: int) -> np.ndarray:
    """Descriptors of the half of all places with more contrast: eight directions of gradients in 4 x 4 cells (Lowe)."""
    dy, dx = np.gradient(gray)
    strength, direction = np.hypot(dy, dx), np.arctan2(dy, dx) * (8 / (2 * np.pi)) % 8
    below = np.floor(direction).astype(int)
    maps, (y, x) = np.zeros((*gray.shape, 8)), np.indices(gray.shape)
    maps[y, x, below % 8] += strength * (1 + below - direction)
    maps[y, x, (below + 1) % 8] += strength * (direction - below)
    n_cells = len(gray) // cell
    used = maps[: n_cells * cell, : n_cells * cell].reshape(n_cells, cell, n_cells, cell, 8).sum(axis=(1, 3))
    windows = np.lib.stride_tricks.sliding_window_view(used, (4, 4), axis=(0, 1))
    squares = (np.arange(4) - 1.5) ** 2
    rows = (windows * np.exp(-(squares[:, None] + squares) / 8)).transpose(0, 1, 3, 4, 2).reshape(-1, 128)
    lengths = np.linalg.norm(rows, axis=1)
    rows = rows[lengths > np.median(lengths)]
    rows = np.minimum(rows / np.linalg.norm(rows, axis=1, keepdims=True), 0.2)
    return np.minimum(np.rint(512 / np.linalg.norm(rows, axis=1, keepdims=True) * rows), 255).astype(np.float32)
