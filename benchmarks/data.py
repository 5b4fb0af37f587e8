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
