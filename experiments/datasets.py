"""The five data sets of the paper: loaders for the real files, and stand-ins of the same size where there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]  # (n, d)

# Rows that make a node, as in section 5 of the paper.
GROUP = 10


@dataclass(frozen=True)
class DataSet:
    """One data set of the paper's section 5.

    ``load`` gives the real rows, or None where no file is there; ``stand_in`` makes rows start:stop of something that
    has the same size and dimension and is not the same.
    """

    name: str
    n_points: int
    n_features: int
    ks: tuple[int, ...]
    where: str
    load: Callable[[Path], Rows | None]
    stand_in: Callable[[int, int], Rows]

    @property
    def n_nodes(self) -> int:
        """Nodes of ten rows each."""
        return self.n_points // GROUP


class MissingDataError(Exception):
    """The files of a data set are not in the folder; the message says where to get them."""


def rows_of(data_set: DataSet, data: Path, may_stand_in: bool) -> tuple[Rows | None, bool]:
    """The real rows and False; or None and True where a stand-in is to be used, if that is allowed."""
    rows = data_set.load(data)
    if rows is not None:
        return rows, False
    if not may_stand_in:
        raise MissingDataError(f"{data_set.name}: no file of it in {data}. {data_set.where} Or use --stand-in.")
    return None, True


# -- loaders ----------------------------------------------------------------------------------------------------------


def _first(data: Path, *names: str) -> Path | None:
    return next((data / name for name in names if (data / name).is_file()), None)


def table(path: Path, n_features: int, drop: int = 0) -> Rows:
    """Numbers of a Parquet file, or of text with commas, semicolons or blanks, without the first ``drop`` columns."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        found = pq.read_table(path)
        columns = [column.to_numpy() for column in found.columns]
    else:
        import pyarrow as pa
        import pyarrow.csv as pacsv

        with path.open("rb") as file:
            line = file.readline().decode()
        delimiter = next((mark for mark in ",;\t" if mark in line), " ")
        has_header = any(character.isalpha() for character in line.replace("e", "").replace("E", ""))
        n_columns = len(line.split(delimiter))
        names = [f"c{j}" for j in range(n_columns)]
        reading = pacsv.ReadOptions(column_names=names, skip_rows=int(has_header))
        types = dict.fromkeys(names[drop:], pa.float32())
        found = pacsv.read_csv(
            path, reading, pacsv.ParseOptions(delimiter=delimiter), pacsv.ConvertOptions(column_types=types)
        )
        columns = [column.to_numpy() for column in found.columns]
    rows = np.empty((len(columns[0]), len(columns) - drop), np.float32)
    for j, column in enumerate(columns[drop:]):
        rows[:, j] = column
    if rows.shape[1] != n_features:
        raise ValueError(f"{path} has {rows.shape[1]} columns, but {n_features} are wanted.")
    return rows


def fvecs(path: Path) -> Rows:
    """Vectors of an fvecs file: each is its length as int32, then its values as float32."""
    raw = np.fromfile(path, np.float32)
    if raw.size == 0:
        raise ValueError(f"{path} is empty.")
    n_features = int(raw[:1].view(np.int32)[0])
    if n_features < 1 or raw.size % (n_features + 1):
        raise ValueError(f"{path} is no fvecs file: its length does not fit vectors of {n_features} values.")
    rows = raw.reshape(-1, n_features + 1)
    if not (rows[:, :1].copy().view(np.int32) == n_features).all():
        raise ValueError(f"{path} is no fvecs file: its vectors have different lengths.")
    return np.ascontiguousarray(rows[:, 1:])


def load_covertype(data: Path) -> Rows | None:
    """All 55 columns, the label among them, as the paper's dimension says."""
    path = _first(data, "covertype.parquet", "covtype.data", "covtype.csv")
    if path is not None:
        return table(path, 55)
    home = data / "sklearn"
    if not home.is_dir():
        return None
    from sklearn.datasets import fetch_covtype

    found = fetch_covtype(data_home=home, download_if_missing=False)
    return np.column_stack([found.data, found.target]).astype(np.float32)


def load_census(data: Path) -> Rows | None:
    """68 attributes; the first column is the case id."""
    path = _first(data, "USCensus1990.data.txt", "census1990.csv", "census1990.parquet")
    return None if path is None else table(path, 68, drop=1)


def load_tower(data: Path) -> Rows | None:
    """Red, green and blue of each pixel, row by row."""
    path = _first(data, "tower.parquet", "tower.csv", "tower.txt", "Tower.txt")
    return None if path is None else table(path, 3)


def load_caltech(data: Path) -> Rows | None:
    """SIFT descriptors of 128 values."""
    path = _first(data, "caltech128.fvecs", "caltech128.parquet")
    if path is None:
        return None
    return fvecs(path) if path.suffix == ".fvecs" else table(path, 128)


def load_bigcross(data: Path) -> Rows | None:
    """The file itself, or the product of Tower and Covertype if both are there."""
    path = _first(data, "bigcross.parquet", "bigcross.csv", "BigCross.txt")
    if path is not None:
        return table(path, 57)
    tower, covertype = load_tower(data), load_covertype(data)
    if tower is None or covertype is None:
        return None
    return cross(tower, covertype[:, :54], 0, N_BIGCROSS)


def cross(tower: Rows, covertype: Rows, start: int, stop: int) -> Rows:
    """Rows start:stop of a subset of the Cartesian product of two sets.

    What is known of BigCross: 11,620,300 rows of 57 = 3 + 54 values, "a subset of the Cartesian product" by the authors
    of StreamKM++. Which subset is not said. Here each row of Covertype meets 20 rows of Tower in turn, a large odd
    step apart, so that a product row has neighbours in both.
    """
    rows = np.arange(start, stop)
    return np.concatenate([tower[rows * 7919 % len(tower)], covertype[rows // 20 % len(covertype)]], axis=1)


# -- stand-ins --------------------------------------------------------------------------------------------------------

BLOCK = 1 << 16


def in_blocks(make: Callable[[int, int], Rows]) -> Callable[[int, int], Rows]:
    """Rows start:stop of blocks that are made each by itself, so that any part can be made without the others."""

    def rows(start: int, stop: int) -> Rows:
        blocks = [make(block, BLOCK) for block in range(start // BLOCK, -(-stop // BLOCK))]
        first = start // BLOCK * BLOCK
        return np.concatenate(blocks)[start - first : stop - first]

    return rows


def _components(seed: int, k: int, d: int) -> tuple[Rows, Rows, NDArray[np.float64]]:
    """Middles, deviations and shares of the parts of a mixture: unequal sizes, unequal widths."""
    rng = np.random.default_rng([seed, 0])
    middles = rng.gamma(2.0, 1.0, (k, d)).astype(np.float32)
    deviations = rng.gamma(2.0, 0.15, (k, d)).astype(np.float32)
    shares = rng.pareto(1.5, k) + 0.1
    return middles, deviations, shares / shares.sum()


def _census_block(block: int, n: int) -> Rows:
    """Small whole numbers: 60 kinds of people, who come in runs, each answer mostly that of its kind."""
    middles, _, shares = _components(1990, 60, 68)
    rng = np.random.default_rng([1990, 1, block])
    kinds = np.repeat(rng.choice(60, n // 4 + 1, p=shares), 4)[:n]
    usual = np.floor(middles[kinds] * 1.5)
    other = rng.integers(0, 9, (n, 68))
    return np.where(rng.random((n, 68)) < 0.75, usual, other).astype(np.float32)


def _tower_block(block: int, n: int) -> Rows:
    """Pixels of a picture of 2560 x 1920: a sky that fades, a tower with windows, ground, and noise."""
    rng = np.random.default_rng([2560, block])
    pixel = np.arange(block * n, block * n + n)
    y, x = pixel // 2560 / 1920.0, pixel % 2560 / 2560.0
    sky = np.column_stack([90 + 90 * y, 140 + 70 * y, 235 - 30 * y])
    stone = np.column_stack([150 + 40 * np.sin(40 * y), 130 + 30 * np.sin(40 * y + 1), 110 + 20 * x])
    window = np.column_stack([40 + 30 * y, 35 + 20 * x, 45 + 10 * y])
    ground = np.column_stack([70 + 50 * np.sin(25 * x), 100 + 40 * np.sin(31 * x + 9 * y), 50 + 30 * y])
    half = 0.05 + 0.12 * y
    in_tower = (np.abs(x - 0.5) < half) & (y > 0.12)
    in_window = in_tower & (np.sin(60 * x) > 0.6) & (np.sin(70 * y) > 0.5)
    color = np.where((y > 0.85)[:, None], ground, sky)
    color = np.where(in_tower[:, None], stone, color)
    color = np.where(in_window[:, None], window, color)
    return np.clip(np.round(color + rng.normal(0, 9, (n, 3))), 0, 255).astype(np.float32)


def _caltech_block(block: int, n: int) -> Rows:
    """SIFT-like: 128 values that are not negative, mostly small, of length about 512, cut at 255; 400 visual words."""
    middles, _, shares = _components(101, 400, 128)
    rng = np.random.default_rng([101, 1, block])
    words = rng.choice(400, n, p=shares)
    rows = middles[words] ** 2 * rng.gamma(1.0, 1.0, (n, 128)).astype(np.float32)
    rows *= 512.0 / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.minimum(np.round(rows), 255).astype(np.float32)


def _covertype_block(block: int, n: int) -> Rows:
    """Ten measurements that wander from row to row, and 45 columns of 0 and 1 (the last up to 7)."""
    rng = np.random.default_rng([581012, block])
    start = np.array([2950, 155, 14, 270, 46, 2350, 212, 223, 142, 1980.0])
    step = np.array([12, 9, 1, 14, 5, 40, 3, 2, 4, 40.0])
    spread = np.array([250, 90, 7, 200, 55, 1500, 25, 18, 35, 1300.0])
    walk = np.cumsum(rng.normal(size=(n, 10)) * step, axis=0)
    period = 4 * spread
    walk = np.abs((walk + rng.uniform(0, 1, 10) * period) % period - period / 2) - spread
    kinds = np.zeros((n, 45))
    at = rng.integers(40, size=n // 25 + 1).repeat(25)[:n]
    kinds[np.arange(n), 4 + at] = 1
    kinds[np.arange(n), at % 4] = 1
    kinds[:, 44] = 1 + at % 7
    return np.column_stack([np.round(start + walk), kinds]).astype(np.float32)


def _bigcross_block(block: int, n: int) -> Rows:
    tower, covertype = in_blocks(_tower_block), in_blocks(_covertype_block)
    rows = np.arange(block * n, block * n + n)
    lines = rows // 20
    cover = covertype(int(lines[0]), int(lines[-1]) + 1)[:, :54]
    # As in cross(), but of pixels that can be made without the whole picture.
    pixels = tower(int(lines[0]) * 8 % 4_000_000, int(lines[0]) * 8 % 4_000_000 + n)
    return np.concatenate([pixels[rows * 7919 % n], cover[lines - lines[0]]], axis=1)


N_BIGCROSS = 11_620_300

ALL = {
    "Covertype": DataSet(
        "Covertype", 581_012, 55, (10, 20, 30),
        "It is covtype.data of the UCI repository (doi 10.24432/C50K5N), or scikit-learn's fetch_covtype in sklearn/.",
        load_covertype, in_blocks(_covertype_block),
    ),
    "Census": DataSet(
        "Census", 2_458_285, 68, (10, 20, 30, 40, 50, 75, 100),
        "It is USCensus1990.data.txt of the UCI repository (US Census Data 1990, doi 10.24432/C5VP42).",
        load_census, in_blocks(_census_block),
    ),
    "Tower": DataSet(
        "Tower", 4_915_200, 3, (20, 40, 60, 80, 100, 250),
        "It is the data set of that name of the StreamKM++ and BICO papers: tower.txt, a line a pixel.",
        load_tower, in_blocks(_tower_block),
    ),
    "Caltech128": DataSet(
        "Caltech128", 3_168_383, 128, (10, 20, 30, 40, 50, 100, 150),
        "It is SIFT descriptors of the Caltech101 pictures, as in the BICO paper: caltech128.fvecs or .parquet.",
        load_caltech, in_blocks(_caltech_block),
    ),
    "BigCross": DataSet(
        "BigCross", N_BIGCROSS, 57, (15, 20, 25, 30, 50, 100, 250),
        "It is a subset of Tower x Covertype by the authors of StreamKM++: bigcross.csv, or both of these.",
        load_bigcross, in_blocks(_bigcross_block),
    ),
}  # fmt: skip
