"""What a reader of the report explores: nodes, realizations, memberships and clusters of all solutions, as JSON.

Positions are whole numbers from 0 to ``STEPS`` between the limits of the plot; arrays of many numbers are base64.
"""

import base64
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probi._notes import counted, name_of
from probi._types import Array, Floats, Integers, Labels
from probi.medians import SPREAD_TOL, certified_medians
from probi.objective import OUTLIER, assign_inliers, memberships
from probi.report._picture import PALETTE, SAME_MARKER, limits
from probi.report._scene import Scene, clean, fixed, short
from probi.report.plots import (
    GOLDEN,
    MAX_NAME,
    OUTLIERS,
    Plane,
    axes_scale,
    choose_plane,
    ellipses,
    inner_corners,
    n_drawn_note,
    sample_indices,
)
from probi.solver.result import Result

STEPS = 65535  # positions are 16 bits: finer than any screen

# These keep the page below 2 MB.
MAX_NODES = 5000
MAX_LABELS = 150_000  # nodes times solutions; each is four bytes
MAX_POINTS, MAX_PER_NODE = 40_000, 50  # realizations
MAX_PROFILED, MAX_VALUES = 12, 24_000  # features per cluster, and values of all clusters of all solutions
MAX_ID = 40  # characters


class Table(NamedTuple):
    """Texts of the table of clusters of one solution."""

    columns: list[Any]  # name, detail and cells of each
    traits: list[list[tuple[str, str, float]]]


def explorer_data(results: Sequence[Result], chosen: int, scene: Scene, tables: Sequence[Table]) -> dict[str, Any]:
    """All that the scripts of the page show.

    Parameters
    ----------
    results : sequence of Result
        Solutions; the reader switches between them.
    chosen : int
        Index of the one shown first, whose scene is ``scene``.
    scene : Scene
    tables : sequence of Table
        One per result.
    """
    plane = choose_plane(scene)
    shown = sample_indices(len(scene.nodes), min(MAX_NODES, max(1, MAX_LABELS // len(results))), seed=1)
    nodes, heights = scene.nodes.take(shown), shown * GOLDEN % 1.0
    rows, of_node = spread_out(np.diff(nodes.offsets), max(1, min(MAX_PER_NODE, MAX_POINTS // len(nodes))))
    places = project(plane, certified_medians(nodes, SPREAD_TOL)[0], heights)
    points = project(plane, nodes.points[rows], heights[of_node])
    centers = [project(plane, one.centers) for one in results]
    labels = [assign_inliers(scene.nodes, np.asarray(one.centers), one.outlier_distance) for one in results]
    inside = np.any([each[shown] >= 0 for each in labels], axis=0)
    framed = (places[inside], points[inside[of_node]], *centers)
    x, y = (limits(np.concatenate([part[:, j] for part in framed])) for j in (0, 1))
    frame = Frame(x, (0.0, 1.0) if plane.has_rows else y)
    probabilities = nodes.probabilities[rows] / np.maximum.reduceat(nodes.probabilities, nodes.offsets[:-1])[of_node]
    profiles = Profiles(scene, sum(len(one.centers) for one in results))
    all_points, ids = project(plane, scene.nodes.points), nodes.ids
    return {
        "nodes": {
            "count": len(nodes),
            "names": None if ids is None else [short(clean(name_of(value)), MAX_ID) for value in ids],
            "index": packed(shown, "<u4"),
            "sizes": packed(np.diff(nodes.offsets), "<u4"),
            "places": frame.packed(places),
            "drawn": packed(np.bincount(of_node, minlength=len(nodes)), "<u2"),
            "points": frame.packed(points),
            "shares": None if np.ptp(probabilities) < 1e-6 else packed(np.round(255 * probabilities), "u1"),
        },
        "plane": {
            "x": {"name": plane.x, "limits": x},
            "y": {"name": plane.y, "limits": frame.y},
            "aspect": axes_scale(plane, x[1] - x[0], y[1] - y[0])[0],
            "hasRows": plane.has_rows,
        },
        "caption": _caption(scene, len(nodes), len(points))
        + OUTLIERS * any((each < 0).any() for each in labels)
        + plane.note
        + scene.sample_note,
        "isCertain": scene.nodes.is_certain,
        "palette": PALETTE,
        "sameMarker": SAME_MARKER,
        "features": [short(scene.features[j], MAX_NAME) for j in profiles.features],
        "isPartial": len(profiles.features) < len(scene.features),
        "chosen": chosen,
        "solutions": [
            _solution(one, scene, its_labels, plane, frame, profiles, all_points, shown, table)
            for one, its_labels, table in zip(results, labels, tables, strict=True)
        ],
    }


def embedded(data: Any) -> str:
    """JSON that is safe in a script element: no tag ends or starts in it."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def packed(values: Array, kind: str) -> str:
    """Numbers as base64."""
    return base64.b64encode(np.asarray(values).astype(kind).tobytes()).decode()


def spread_out(sizes: Integers, at_most: int) -> tuple[Integers, Integers]:
    """Indices of some realizations of each node, evenly spread over them, and the node of each; all if they are few."""
    n_drawn = np.minimum(sizes, at_most)
    of_node = np.repeat(np.arange(len(sizes)), n_drawn)
    rank = np.arange(len(of_node)) - np.repeat(np.cumsum(n_drawn) - n_drawn, n_drawn)
    inside = (2 * rank + 1) * sizes[of_node] // (2 * n_drawn[of_node])
    return (np.cumsum(sizes) - sizes)[of_node] + inside, of_node


def project(plane: Plane, points: Array, heights: Array | float = 0.5) -> Floats:
    """Positions in the plane, (n, 2). If each cluster has a row, the second is the height in it: scripts add rows."""
    in_row = np.broadcast_to(heights, len(points))
    places = plane.project(np.asarray(points), np.zeros(len(points), np.int32), in_row)
    return np.column_stack([places[:, 0], in_row]) if plane.has_rows else places


class Frame(NamedTuple):
    """Limits of the plot."""

    x: tuple[float, float]
    y: tuple[float, float]

    def steps(self, points: Floats) -> Floats:
        """Positions from 0 to STEPS, (n, 2); not a number if they are missing."""
        low, high = np.array([self.x, self.y]).T
        return np.asarray(np.round((points - low) / (high - low) * STEPS))

    def packed(self, points: Floats) -> str:
        """Positions as base64; outliers beyond the plot are at its edge, positions that are missing at 0."""
        inside = np.clip(points, *inner_corners(self.x, self.y))
        return packed(np.nan_to_num(self.steps(inside)), "<u2")


class Profiles:
    """Features in which the chosen centers differ most, in standard deviations from the median of all nodes."""

    def __init__(self, scene: Scene, n_clusters: int) -> None:
        self.scene = scene
        self.features = scene.most_different(min(MAX_PROFILED, max(1, MAX_VALUES // n_clusters)))
        # Sorted once for all solutions.
        self._sorted = [self._usable(scene.values[:, j]) for j in self.features]

    def _usable(self, column: Floats) -> Integers:
        order = np.argsort(column, kind="stable")
        return np.asarray(order[np.isfinite(column[order]) & (self.scene.masses[order] > 0)])

    def positions(self, values: Array) -> list[list[float | None]]:
        """Of centers or medians in the coordinates of the clustering: one list per row."""
        return numbers(self.scene.standardized(self.scene.to_original(values))[:, self.features])

    def texts(self, values: Array) -> list[list[str]]:
        """The same in original units, as text."""
        decimals = [self.scene.decimals(j) for j in self.features]
        rows = self.scene.to_original(values)[:, self.features].tolist()
        return [[fixed(*pair) for pair in zip(row, decimals, strict=True)] for row in rows]

    def quartiles(self, owners: Labels, n_clusters: int) -> list[list[float | None]]:
        """First and third quartile of each feature over the realizations of each cluster, one after the other."""
        out = np.full((n_clusters, 2, len(self.scene.features)), np.nan)
        is_inside = owners >= 0
        kind = np.uint16 if n_clusters <= 1 << 16 else np.int32  # NumPy sorts 16 bits in linear time
        for j, order in zip(self.features, (each[is_inside[each]] for each in self._sorted), strict=True):
            by_cluster = order[np.argsort(owners[order].astype(kind), kind="stable")]
            sums = np.cumsum(self.scene.masses[by_cluster])
            ends = np.cumsum(np.bincount(owners[order], minlength=n_clusters))
            tops = np.concatenate([[0.0], sums])[ends]
            bottoms = np.concatenate([[0.0], tops[:-1]])
            for side, share in enumerate((0.25, 0.75)):
                targets = bottoms + share * (tops - bottoms) * (1 - 1e-12)
                rows = np.minimum(np.searchsorted(sums, targets), np.maximum(ends - 1, 0))
                values = self.scene.values[by_cluster[rows], j] if len(by_cluster) else np.nan
                out[:, side, j] = np.where(tops > bottoms, values, np.nan)
        return numbers(self.scene.standardized(out)[:, :, self.features].reshape(n_clusters, -1))


def numbers(values: Floats, decimals: int = 2) -> list[list[float | None]]:
    """Rounded numbers; None if they are missing."""
    kind = float if decimals else int
    return [[kind(v) if np.isfinite(v) else None for v in row] for row in np.round(values, decimals).tolist()]


def _solution(
    result: Result, scene: Scene, labels: Labels, plane: Plane, frame: Frame, profiles: Profiles, points: Floats,
    shown: Integers, table: Table,
) -> dict[str, Any]:  # fmt: skip
    """Clusters of one solution, and the labels of the nodes.

    Outliers have the largest number of their kind as label, probability 0 in it, and the most probable cluster second.
    """
    k, centers = len(result.centers), np.asarray(result.centers)
    clusters = replace(scene, labels=labels, coordinates=centers)
    own = labels[shown]
    rows = memberships(scene.nodes.take(shown), centers)
    every, is_out = np.arange(len(shown)), own == OUTLIER
    own_share = np.where(is_out, 0.0, rows[every, own])
    rows[every[~is_out], own[~is_out]] = -1.0
    second = rows.argmax(axis=1)
    second_share = np.maximum(rows[every, second], 0.0)
    kind = "u1" if k < 256 else "<u2"
    chosen = getattr(result, "representatives", None)
    return {
        "k": k,
        "wide": k >= 256,
        "labels": packed(own, kind),
        "probabilities": packed(np.minimum(np.round(100 * own_share), np.where(own_share < 1.0, 99, 100)), "u1"),
        "second": packed(second, kind),
        "secondProbabilities": packed(np.maximum(np.round(100 * second_share), second_share > 0.0), "u1"),
        "centers": numbers(frame.steps(project(plane, centers)), 0),
        "ellipses": numbers(_ellipses(clusters, points, plane.has_rows, frame), 0),
        "profile": profiles.positions(centers),
        "texts": profiles.texts(centers),
        "middle": profiles.quartiles(clusters.owners, k),
        "representatives": None if chosen is None else {
            "names": None if chosen.ids is None else [short(clean(name), MAX_ID) for name in chosen.names],
            "places": numbers(frame.steps(project(plane, chosen.medians)), 0),
            "profile": profiles.positions(chosen.medians),
            "increase": numbers(100 * chosen.increase[:, None], 1),
        },
        "columns": [
            {"name": c.name, "detail": c.detail, "texts": [cell.text for cell in c.cells],
             "values": [v[0] for v in numbers(np.array([[float(f"{cell.value:.6g}")] for cell in c.cells]), 12)]}
            for c in table.columns
        ],
        "traits": [[[name, value, round(z, 1)] for name, value, z in its] for its in table.traits],
    }  # fmt: skip


def _ellipses(scene: Scene, points: Floats, has_rows: bool, frame: Frame) -> Floats:
    """Middle and both half axes of each cluster, (n_clusters, 6); not a number without nodes."""
    out = np.full((scene.n_clusters, 6), np.nan)
    origin = frame.steps(np.zeros((1, 2)))[0]
    for c, middle, *halves in ellipses(scene, points, has_rows):
        out[c] = np.ravel([frame.steps(middle[None])[0], *(frame.steps(half[None])[0] - origin for half in halves)])
    return out


def _caption(scene: Scene, n_nodes: int, n_points: int) -> str:
    """What is drawn, and how much of the data."""
    part = n_drawn_note(n_nodes, len(scene.nodes))
    nodes = f"the nodes{part}" if part else counted(n_nodes, "node")
    numbers = "" if scene.nodes.ids is not None else " Nodes have no ids: they are numbered, from 0, as in the sample."
    if scene.nodes.is_certain:
        return f"Marks: {nodes}. Numbers: centers.{numbers}"
    more = "all" if n_points == scene.nodes.n_realizations else "more"
    return (
        f"Solid: medians of {nodes}. Faint: some realizations; point at a node to see {more} of its own."
        f" Numbers: centers. Dashed: one standard deviation of the realizations of a cluster.{numbers}"
    )
