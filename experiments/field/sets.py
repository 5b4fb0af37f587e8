"""Ten labelled data sets, each with a card that says what it is and what was taken of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments import generated

Floats = Any
Labels = Any
Labelled = tuple[Floats, Labels]

SEED = 22  # of what is drawn from a data set, once and for all


@dataclass(frozen=True)
class LabelledSet:
    """A data set: ``load`` gives points and classes, or None where its file is missing."""

    name: str
    origin: str
    classes: str
    taken: str
    load: Callable[[Path], Labelled | None]

    def points(self, data: Path) -> Labelled | None:
        """Points with mean 0 and standard deviation 1 per feature, without constant features; classes as 0, 1, ..."""
        loaded = self.load(data)
        if loaded is None:
            return None
        X, classes = loaded
        X = np.asarray(X, np.float64)
        scales = X.std(axis=0)
        X = (X - X.mean(axis=0))[:, scales > 0] / scales[scales > 0]
        return X, np.unique(classes, return_inverse=True)[1]


def _per_class(X: Floats, classes: Labels, n: int) -> Labelled:
    """As many rows of each class, at random."""
    rng = np.random.default_rng(SEED)
    rows = [rng.choice(np.flatnonzero(classes == one), n, replace=False) for one in np.unique(classes)]
    chosen = np.sort(np.concatenate(rows))
    return X[chosen], classes[chosen]


def _of_scikit_learn(name: str, n_per_class: int | None = None) -> Callable[[Path], Labelled]:
    def load(data: Path) -> Labelled:
        from sklearn import datasets

        X, classes = getattr(datasets, f"load_{name}")(return_X_y=True)
        return (X, classes) if n_per_class is None else _per_class(X, classes, n_per_class)

    return load


def _table(data: Path, name: str) -> Any:
    path = data / name
    if not path.is_file():
        return None
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _columns(table: Any, names: list[str]) -> Floats:
    return np.column_stack([table[name].to_numpy() for name in names]).astype(np.float64)


def _covertype(data: Path) -> Labelled | None:
    table = _table(data, "covertype.parquet")
    if table is None:
        return None
    return _per_class(_columns(table, table.column_names[:10]), table["Cover_Type"].to_numpy(), 40)


N_KINDS_OF_CONNECTIONS = 5


def _kddcup(data: Path) -> Labelled | None:
    table = _table(data, "kddcup99_corrected.parquet")
    if table is None:
        return None
    _, of_row, counts = np.unique(table["c41"].to_pylist(), return_inverse=True, return_counts=True)
    kept = np.isin(of_row, np.argsort(-counts, kind="stable")[:N_KINDS_OF_CONNECTIONS])
    numbers = [name for name in table.column_names if name not in ("c01", "c02", "c03", "c41")]
    return _per_class(np.log1p(_columns(table, numbers)[kept]), of_row[kept], 60)


N_HEARD = 50  # access points


def _uji(data: Path) -> Labelled | None:
    table = _table(data, "ujiindoorloc_train.parquet")
    if table is None:
        return None
    signals = _columns(table, [name for name in table.column_names if name.startswith("WAP")])
    signals = np.where(signals == 100, -105.0, signals)
    heard = np.argsort(-(signals > -105.0).sum(axis=0), kind="stable")[:N_HEARD]
    floors = 10 * table["BUILDINGID"].to_numpy().astype(int) + table["FLOOR"].to_numpy()
    return _per_class(signals[:, heard], floors, 24)


AIR = ["PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "TEMP", "PRES", "DEWP", "WSPM"]


def _beijing(data: Path) -> Labelled | None:
    table = _table(data, "beijing_air_quality.parquet")
    if table is None:
        return None
    # One thread: days stay in the order of the file.
    days = table.group_by(["station", "year", "month", "day"], use_threads=False)
    days = days.aggregate([(name, "mean") for name in AIR])
    X = _columns(days, [f"{name}_mean" for name in AIR])
    complete = np.isfinite(X).all(axis=1)
    seasons = days["month"].to_numpy().astype(int) % 12 // 3
    return _per_class(X[complete], seasons[complete], 75)


SIZES = (120, 80, 50, 30, 20)


def _groups(data: Path) -> Labelled:
    rng = np.random.default_rng(SEED)
    points = generated.groups(rng, SIZES, d=5, gap=5.0, scales=np.linspace(1.5, 0.5, len(SIZES)))
    return points, np.repeat(np.arange(len(SIZES)), SIZES)


def _moons(data: Path) -> Labelled:
    from sklearn.datasets import make_moons

    points, classes = make_moons(300, noise=0.05, random_state=SEED)
    return points, classes


ALL = {
    one.name: one
    for one in (
        LabelledSet("iris", "scikit-learn", "species", "all rows", _of_scikit_learn("iris")),
        LabelledSet("wine", "scikit-learn", "cultivars", "all rows", _of_scikit_learn("wine")),
        LabelledSet(
            "breast cancer", "scikit-learn", "malignant or benign", "125 rows per class",
            _of_scikit_learn("breast_cancer", 125),
        ),
        LabelledSet("digits", "scikit-learn", "digits", "30 rows per class", _of_scikit_learn("digits", 30)),
        LabelledSet(
            "Covertype", "UCI, doi 10.24432/C50K5N", "kinds of forest",
            "the ten measured attributes, 40 rows per class", _covertype,
        ),
        LabelledSet(
            "KDD Cup", "KDD Cup 1999, UCI KDD archive", "kinds of connections",
            "38 numbers x as log(1 + x), the five most frequent kinds, 60 rows each", _kddcup,
        ),
        LabelledSet(
            "UJIIndoorLoc", "UCI, Torres-Sospedra and others (2014)", "floors of three buildings",
            "the 50 access points heard most often, 24 fingerprints per floor", _uji,
        ),
        LabelledSet(
            "Beijing", "UCI, doi 10.24432/C5RK5G", "seasons",
            "means of a day and station of six pollutants and four weather values, 75 days per season", _beijing,
        ),
        LabelledSet(
            "groups", "generated", "Gaussian groups of 120 to 20 nodes, with standard deviations of 1.5 to 0.5",
            "5 features, places at least 5 apart", _groups,
        ),
        LabelledSet(
            "moons", "generated, make_moons of scikit-learn", "two half circles", "2 features, noise 0.05", _moons
        ),
    )
}  # fmt: skip
