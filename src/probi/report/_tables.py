"""What stands in the tables of a report, as text."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probi.errors import InputError
from probi.report._scene import Scene
from probi.report._style import color
from probi.report._words import MISSING, clean, decimals_for, fixed, number, percent
from probi.solver.result import Result

N_TRAITS = 3  # features named for each cluster
LEAST_TRAIT = 0.2  # standard deviations from the median that set nothing apart
MOST_FEATURES = 200  # in the table of centers
FEW_FEATURES = 6  # up to which clusters are its rows


@dataclass(frozen=True)
class Trait:
    """A feature in which a center is unusual."""

    feature: str
    value: str
    deviations: str
    is_high: bool


@dataclass(frozen=True)
class ClusterRow:
    """A line of the table of clusters."""

    number: int
    color: str
    count: str
    mass: str
    share: str
    cost: str
    spread: str
    distance: str
    traits: list[Trait]


@dataclass(frozen=True)
class Grid:
    """The table of centers: ``cells[i][j]`` belongs to ``rows[i]`` and ``columns[j]``."""

    corner: str
    columns: list[str]
    rows: list[str]
    cells: list[list[str]]
    left_out: int


def cluster_rows(result: Result, scene: Scene, counts: NDArray[Any] | None) -> list[ClusterRow]:
    """A line a cluster; ``counts`` are exact numbers of nodes, where they are known."""
    clusters = result.clusters
    total = float(np.nansum(clusters.mass))
    if counts is not None and len(counts) != len(result.centers):
        raise InputError(f"There are counts of {len(counts)} clusters, but {len(result.centers)} centers.")
    masses, costs, spreads = (_column(values) for values in (clusters.mass, clusters.cost, clusters.spread))
    distances = _column(_ratios(clusters.cost, clusters.mass))
    return [
        ClusterRow(
            number=c, color=color(c), count=MISSING if counts is None else number(float(counts[c]), 15),
            mass=masses[c], share=percent(_ratio(clusters.mass[c], total)), cost=costs[c], spread=spreads[c],
            distance=distances[c], traits=traits(scene, c),
        )
        for c in range(len(result.centers))
    ]  # fmt: skip


def traits(scene: Scene, cluster: int) -> list[Trait]:
    """Features by which a center is farthest from the median of all nodes, measured in standard deviations."""
    positions = np.nan_to_num(scene.standardised(scene.centers)[cluster])
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
    """All centers in original units; with many features these are the rows, because their names are long."""
    shown = scene.most_different(MOST_FEATURES)
    names = [scene.features[j] for j in shown]
    by_feature = [[fixed(float(x), _decimals(scene, int(j))) for x in scene.centers[:, j]] for j in shown]
    numbers = [str(c) for c in range(scene.n_clusters)]
    left_out = len(scene.features) - len(shown)
    if len(scene.features) <= FEW_FEATURES:
        return Grid("Cluster", names, numbers, [list(row) for row in zip(*by_feature, strict=True)], left_out)
    return Grid("Feature", numbers, names, by_feature, left_out)


def borderline_rows(borderline: Any) -> list[dict[str, str]]:
    """Lines of the table of nodes that could as well belong elsewhere."""
    distances = _column(np.array([x for b in borderline for x in (b.distance, b.other_distance)], np.float64))
    return [
        {
            "node": clean(one.node),
            "cluster": str(one.cluster),
            "color": color(one.cluster),
            "distance": distances[2 * i],
            "other": str(one.other),
            "other_color": color(one.other),
            "other_distance": distances[2 * i + 1],
            "farther": percent(_ratio(one.other_distance - one.distance, one.distance)),
        }
        for i, one in enumerate(borderline)
    ]


def _decimals(scene: Scene, feature: int) -> int | None:
    return decimals_for(scene.centers[:, feature], float(scene.scales[feature]))


def _column(values: NDArray[Any]) -> list[str]:
    """Numbers of one column, with the same decimals: three digits of the median one."""
    finite = np.abs(values[np.isfinite(values) & (values != 0)])
    decimals = decimals_for(values, float(np.median(finite)) if len(finite) else 1.0)
    return [fixed(float(value), decimals) for value in values]


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole and math.isfinite(whole) else math.nan


def _ratios(parts: NDArray[Any], wholes: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([_ratio(part, whole) for part, whole in zip(parts, wholes, strict=True)])
