"""Contents of the tables of a report, as text."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from probi._types import Array, Floats
from probi.errors import InputError
from probi.report._scene import Scene
from probi.report._style import clean, color, decimals_for, fixed, number, percent
from probi.solver.result import Result

N_TRAITS = 3  # features named for each cluster
LEAST_TRAIT = 0.2  # fewer standard deviations from the median are not distinctive
MAX_FEATURES = 200  # in the table of centers
MAX_CELLS = 10_000  # in the same table: only the largest clusters are shown if there are more
FEW_FEATURES = 6  # up to this number, clusters are the rows
TINTS = (0.5, 1.0, 2.0, 3.0)  # standard deviations from the median at which the shade of a cell deepens


@dataclass(frozen=True)
class Trait:
    """A feature in which a center is unusual."""

    feature: str
    value: str
    deviations: str
    is_high: bool


@dataclass(frozen=True)
class Cell:
    """A formatted number, and the value by which the table is sorted.

    In the table of centers, ``tint`` says how unusual it is: "h1" to "h4" if high, "l1" to "l4" if low.
    """

    text: str
    value: float
    tint: str = ""


@dataclass(frozen=True)
class Column:
    """A column of numbers of the table of clusters."""

    name: str
    detail: str  # below the name: the unit, and whether it is an estimate
    cells: list[Cell]


@dataclass(frozen=True)
class Grid:
    """The table of centers: ``cells[i][j]`` belongs to ``rows[i]`` and ``columns[j]``."""

    corner: str
    columns: list[str]
    rows: list[str]
    cells: list[list[Cell]]
    features_left_out: int
    clusters_left_out: int


def cluster_columns(result: Result, scene: Scene, counts: Array | None, unit: str, is_estimate: bool) -> list[Column]:
    """Columns of numbers per cluster; ``counts`` are exact numbers of nodes, if known."""
    clusters = result.clusters
    if counts is not None and len(counts) != len(result.centers):
        raise InputError(f"counts must have one entry per center, {len(result.centers)}, got {len(counts)}.")
    sizes = _sizes(clusters.mass, scene, counts, is_estimate)
    shares = _ratios(clusters.mass if counts is None or len(sizes) > 1 else counts, None)
    found = [
        ("Cost", clusters.cost, unit),
        ("Spread", clusters.spread, unit),
        ("Mean distance", _ratios(clusters.cost, clusters.mass), unit),
    ]
    return [
        *sizes,
        Column("Share", "", [Cell(percent(share), float(share)) for share in shares]),
        *(_column(name, values, unit, is_estimate) for name, values, unit in found),
    ]


def _sizes(masses: Array, scene: Scene, counts: Array | None, is_estimate: bool) -> list[Column]:
    """Number of nodes, and mass if that is different."""
    exact = [] if counts is None else [Column("Nodes", "", [Cell(number(float(n), 15), float(n)) for n in counts])]
    is_number = np.allclose(scene.nodes.mass, 1.0, rtol=1e-6) and (
        counts is None or np.isclose(counts.sum(), masses.sum(), rtol=1e-6)
    )
    if is_number:
        return exact or [_column("Nodes", masses, "", is_estimate)]
    return [*exact, _column("Mass", masses, "", is_estimate)]


def traits(scene: Scene, cluster: int) -> list[Trait]:
    """Features in which a center is farthest from the median of all nodes, in standard deviations."""
    positions = np.nan_to_num(scene.standardized(scene.centers)[cluster])
    order = np.argsort(-np.abs(positions), kind="stable")[:N_TRAITS]
    return [
        Trait(
            feature=scene.features[j],
            value=fixed(float(scene.centers[cluster, j]), _decimals(scene, int(j))),
            deviations=f"{abs(positions[j]):.1f}",
            is_high=bool(positions[j] > 0),
        )
        for j in order
        if abs(positions[j]) >= LEAST_TRAIT
    ]


def centers_grid(scene: Scene) -> Grid:
    """Centers in original units; many features are rows, because their names are long."""
    shown = scene.most_different(MAX_FEATURES)
    order = np.argsort(-scene.cluster_masses, kind="stable")
    clusters = np.sort(order[: max(MAX_CELLS // len(shown), 1)])
    names = [scene.features[j] for j in shown]
    positions = np.nan_to_num(scene.standardized(scene.centers))
    by_feature = []
    for j in shown:
        decimals = _decimals(scene, int(j))
        column = zip(scene.centers[clusters, j].tolist(), positions[clusters, j].tolist(), strict=True)
        by_feature.append([Cell(fixed(value, decimals), value, _tint(position)) for value, position in column])
    numbers = [str(c) for c in clusters]
    left_out = len(scene.features) - len(shown), scene.n_clusters - len(clusters)
    if len(scene.features) <= FEW_FEATURES:
        return Grid("Cluster", names, numbers, [list(row) for row in zip(*by_feature, strict=True)], *left_out)
    return Grid("Feature", numbers, names, by_feature, *left_out)


def _tint(position: float) -> str:
    level = sum(abs(position) >= tint for tint in TINTS)
    return f"{'h' if position > 0 else 'l'}{level}" if level else ""


def borderline_rows(borderline: Any, n_clusters: int) -> list[dict[str, str]]:
    """Rows of the table of nodes between two clusters."""
    distances = _aligned(np.array([x for b in borderline for x in (b.distance, b.other_distance)], np.float64))
    return [
        {
            "node": clean(one.node),
            "cluster": str(one.cluster),
            "color": color(one.cluster, n_clusters),
            "distance": distances[2 * i],
            "other": str(one.other),
            "other_color": color(one.other, n_clusters),
            "other_distance": distances[2 * i + 1],
            "farther": percent(_ratio(one.other_distance - one.distance, one.distance)),
        }
        for i, one in enumerate(borderline)
    ]


def _decimals(scene: Scene, feature: int) -> int | None:
    """Three digits of the width of a cluster, four standard deviations: more would be meaningless."""
    width = 4 * float(scene.inner_scales[feature])
    return decimals_for(scene.centers[:, feature], width if width > 0 else float(scene.scales[feature]))


def _column(name: str, values: Array, unit: str, is_estimate: bool) -> Column:
    texts = _aligned(_rounded(values) if is_estimate else values)
    detail = ", ".join(part for part in (unit, "about" if is_estimate else "") if part)
    return Column(name, detail, [Cell(text, float(value)) for text, value in zip(texts, values, strict=True)])


def _rounded(values: Array) -> Floats:
    """To three significant digits, enough for an estimate."""
    return np.array([float(f"{value:.3g}") for value in values])


def _aligned(values: Array) -> list[str]:
    """Numbers of one column with the same number of decimals: three digits for the median one."""
    finite = np.abs(values[np.isfinite(values) & (values != 0)])
    decimals = decimals_for(values, float(np.median(finite)) if len(finite) else 1.0)
    return [fixed(float(value), decimals) for value in values]


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole and math.isfinite(whole) else math.nan


def _ratios(parts: Array, wholes: Array | None) -> Floats:
    """Ratios of parts to wholes, or to their sum."""
    wholes = np.full(len(parts), np.nansum(parts)) if wholes is None else wholes
    return np.array([_ratio(part, whole) for part, whole in zip(parts, wholes, strict=True)])
