"""Draws clusters in a plane."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probi.medians import SPREAD_TOL, certified_medians
from probi.report._measures import covariance, principal_plane
from probi.report._scene import Scene
from probi.report._style import DISC, DISC_INK, MUTED, PLAIN, color, ink, label, marker, owner
from probi.report._words import Words, enumerated, percent, plural, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Ellipse
    from matplotlib.path import Path

Array = NDArray[Any]
Floats = NDArray[np.float64]

# More marks than these hide each other and say no more.
MOST_REALIZATIONS, MOST_MEDIANS = 4000, 1500

ROW = 0.7  # share of the row of a cluster that its nodes fill, where there is one feature only
GOLDEN = 0.6180339887498949  # its multiples, modulo 1, are spread evenly however many there are
STRETCHED = 6.0  # sides of a picture that differ more are not drawn to one scale


@dataclass(frozen=True, eq=False)
class Plane:
    """How coordinates of the clustering get on paper."""

    project: Callable[[Array, Array, Array], Floats]  # coordinates (n, d), clusters (n,), heights in a row (n,)
    x: str
    y: str
    note: str
    has_rows: bool = False


def draw_clusters(axes: "Axes", scene: Scene) -> Words:
    """Draw realizations, medians, ellipses and centers; say what is to be seen."""
    plane = choose_plane(scene)
    label(axes, plane.x, plane.y)
    n_drawn = _draw_realizations(axes, scene, plane)
    n_medians = _draw_medians(axes, scene, plane)
    _draw_ellipses(axes, scene, plane)
    _set_limits(axes, plane)
    _draw_centers(axes, scene, plane)
    return clusters_words(scene, plane, n_drawn, n_medians)


# -- the plane --------------------------------------------------------------------------------------------------------


def choose_plane(scene: Scene) -> Plane:
    """Features as they are, or the plane that shows most."""
    n_shown = scene.centers.shape[1]
    if n_shown == 1:
        return _rows(scene)
    if n_shown == 2:
        x, y = (short(name, 40) for name in scene.features)
        return Plane(lambda points, clusters, heights: scene.to_original(points), x, y, "")
    return _principal(scene)


def _rows(scene: Scene) -> Plane:
    """One feature: each cluster has a row, from the lowest center up, and each node a height in it."""
    rank = np.empty(scene.n_clusters)
    rank[np.argsort(scene.centers[:, 0], kind="stable")] = np.arange(scene.n_clusters)

    def project(points: Array, clusters: Array, heights: Array) -> Floats:
        return np.column_stack([scene.to_original(points)[:, 0], rank[clusters] + ROW * (heights - 0.5)])

    note = " Each cluster has a row of its own; the height within it means nothing."
    return Plane(project, short(scene.features[0], 60), "", note, has_rows=True)


def _principal(scene: Scene) -> Plane:
    nodes = scene.nodes
    middle, directions, shares = principal_plane(np.asarray(nodes.gravity_centers, np.float64), nodes.mass)
    names = scene.features if len(scene.features) == nodes.n_features else None
    x, y = (
        f"{which} principal direction: {percent(share)} of the variance{_strongest(direction, names)}"
        for which, share, direction in zip(("First", "Second"), shares, directions, strict=True)
    )
    note = (
        f" The plane shows {percent(float(shares.sum()))} of the variance of the nodes' centers of gravity"
        f" in {nodes.n_features} dimensions."
    )
    return Plane(lambda points, clusters, heights: (points - middle) @ directions.T, x, y, note)


def _strongest(direction: Floats, names: list[str] | None) -> str:
    """The features that a direction is mostly made of."""
    if names is None or not direction.any():
        return ""
    order = np.argsort(-np.abs(direction), kind="stable")
    strong = [j for j in order[:2] if abs(direction[j]) >= 0.3]
    return f"\nmostly {enumerated([short(names[j], 22) for j in strong], 2)}" if strong else ""


# -- what is drawn ----------------------------------------------------------------------------------------------------


def some_realizations(scene: Scene, plane: Plane) -> tuple[NDArray[np.int64], Floats]:
    """Numbers of the realizations to draw, always the same ones, and where they are."""
    n = scene.nodes.n_realizations
    rows = np.arange(n)
    if n > MOST_REALIZATIONS:
        rows = np.sort(np.random.default_rng(0).choice(n, MOST_REALIZATIONS, replace=False))
    heights = scene.by_realization(heights_of(len(scene.nodes)))
    return rows, plane.project(scene.nodes.points[rows], scene.owners[rows], heights[rows])


def alpha_of(scene: Scene, n_drawn: int) -> float:
    """How opaque realizations are; certain nodes are their own medians, which are drawn anyway."""
    return 0.0 if scene.nodes.is_certain else float(np.clip(40 / np.sqrt(n_drawn), 0.3, 0.6))


def _draw_realizations(axes: "Axes", scene: Scene, plane: Plane) -> int:
    rows, places = some_realizations(scene, plane)
    axes.scatter(
        places[:, 0], places[:, 1], s=5, c=[color(c) for c in scene.owners[rows]], alpha=alpha_of(scene, len(rows)),
        linewidths=0, zorder=1.6, rasterized=True, gid="realizations",
    )  # fmt: skip
    return len(rows)


def _draw_medians(axes: "Axes", scene: Scene, plane: Plane) -> int:
    numbers = some_medians(scene)
    medians = certified_medians(scene.nodes.take(numbers), SPREAD_TOL)[0]
    labels = scene.labels[numbers]
    places = plane.project(medians, labels, heights_of(len(scene.nodes))[numbers])
    marks = np.array([marker(c) for c in labels])
    for mark in np.unique(marks):
        inside = marks == mark
        axes.scatter(
            places[inside, 0], places[inside, 1], s=14, c=[color(c) for c in labels[inside]], marker=str(mark),
            edgecolors="#00000066", linewidths=0.3, zorder=1.7, rasterized=True, gid="medians",
        )  # fmt: skip
    return len(numbers)


def some_medians(scene: Scene) -> NDArray[np.int64]:
    """Numbers of the nodes whose medians to draw, always the same ones."""
    n = len(scene.nodes)
    if n <= MOST_MEDIANS:
        return np.arange(n)
    return np.sort(np.random.default_rng(1).choice(n, MOST_MEDIANS, replace=False))


def heights_of(n_nodes: int) -> Floats:
    """Height of each node in a row, between 0 and 1."""
    return np.asarray(np.arange(n_nodes) * GOLDEN % 1.0, np.float64)


def _draw_ellipses(axes: "Axes", scene: Scene, plane: Plane) -> None:
    """One standard deviation of the realizations of each cluster, around their mean."""
    points = plane.project(scene.nodes.points, scene.owners, np.full(len(scene.owners), 0.5))
    for c in range(scene.n_clusters):
        inside = scene.owners == c
        found = covariance(points[inside], scene.masses[inside])
        if found is not None:
            ellipse = _ellipse(*found, ROW if plane.has_rows else None)
            ellipse.set(fill=False, edgecolor=ink(axes), linestyle=(0, (4, 2)), linewidth=1.0, zorder=3)
            ellipse.set_gid(f"ellipse {c}")
            axes.add_patch(ellipse)


def _ellipse(middle: Floats, covariances: Floats, height: float | None) -> "Ellipse":
    from matplotlib.patches import Ellipse

    variances, directions = np.linalg.eigh(covariances)
    small, large = 2 * np.sqrt(np.maximum(variances, 0.0))
    if height is not None:
        return Ellipse((middle[0], middle[1]), large, height)
    angle = float(np.degrees(np.arctan2(directions[1, 1], directions[0, 1])))
    return Ellipse((middle[0], middle[1]), large, small, angle=angle)


def _set_limits(axes: "Axes", plane: Plane) -> None:
    axes.autoscale_view()
    if plane.has_rows:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        return
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    sides = abs(right - left), abs(top - bottom)
    # A distance is the same in all directions, so the scale should be; but a thin line shows nothing.
    if min(sides) > 0 and max(sides) < STRETCHED * min(sides):
        axes.set_aspect("equal", adjustable="datalim")


# -- centers ----------------------------------------------------------------------------------------------------------


def _draw_centers(axes: "Axes", scene: Scene, plane: Plane) -> None:
    k = scene.n_clusters
    places = plane.project(scene.places, np.arange(k), np.full(k, 0.5))
    axes.update_datalim(places)
    axes.autoscale_view()
    radius, size = (7.0, 8.5) if k <= 12 else (6.0, 7.0)
    shifts = _shifts(axes, places, 2 * radius + 1)
    for c in range(k):
        far = float(np.hypot(*shifts[c])) > radius
        axes.annotate(
            str(c), tuple(places[c]), xytext=tuple(shifts[c]), textcoords="offset points", ha="center", va="center",
            fontsize=size, fontweight="bold", color=DISC_INK, zorder=5, gid=f"center {c}",
            bbox={"boxstyle": Disc(radius / size), "facecolor": DISC, "edgecolor": color(c), "linewidth": 1.6},
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8, "shrinkB": 0} if far else None,
            annotation_clip=False, **PLAIN,
        )  # fmt: skip


@dataclass(frozen=True)
class Disc:
    """A box around text that is a circle of the same size for all texts; a class, so that figures can be pickled."""

    ratio: float  # radius over size of the text

    def __call__(self, x: float, y: float, width: float, height: float, size: float) -> "Path":
        """Return the circle around the middle of the text."""
        from matplotlib.path import Path

        return Path.circle((x + width / 2, y + height / 2), self.ratio * size)


def _shifts(axes: "Axes", places: Floats, gap: float) -> Floats:
    """How far to move each disc, in points, so that no two overlap."""
    figure = owner(axes)
    figure.draw_without_rendering()  # the layout decides how large the axes are
    start = axes.transData.transform(places) * 72 / figure.dpi
    return apart(start, gap) - start


def apart(start: Floats, gap: float) -> Floats:
    """Positions as near to these as a few pushes find them, all at least about ``gap`` from each other."""
    turns = 2 * np.pi * GOLDEN * np.arange(len(start))
    found = start + 1e-3 * np.column_stack([np.cos(turns), np.sin(turns)])  # equal ones must part somewhere
    for _ in range(300):
        offsets = found[:, None] - found[None]
        distances = np.hypot(offsets[..., 0], offsets[..., 1])
        np.fill_diagonal(distances, np.inf)
        push = np.maximum(gap - distances, 0.0) / 2
        if not push.any():
            break
        found = found + (offsets * (push / distances)[..., None]).sum(axis=1)
    return np.where(np.hypot(*(found - start).T)[:, None] > 0.01, found, start)


# -- words ------------------------------------------------------------------------------------------------------------


def clusters_words(scene: Scene, plane: Plane, n_drawn: int, n_medians: int) -> Words:
    """Say what is to be seen, and how much of it is drawn."""
    alt = (
        f"Scatter plot of {plural(n_medians, 'node')} in {plural(scene.n_clusters, 'cluster')} around numbered centers."
    )
    return Words(_title(scene), _caption(scene, plane, n_drawn, n_medians), alt)


def _title(scene: Scene) -> str:
    kind = "nodes" if scene.nodes.is_certain else "uncertain nodes"
    return f"{plural(scene.n_clusters, 'cluster')} of {kind}"


def _caption(scene: Scene, plane: Plane, n_drawn: int, n_medians: int) -> str:
    n, n_all = len(scene.nodes), scene.nodes.n_realizations
    parts = []
    if not scene.nodes.is_certain:
        parts.append(f"Faint: realizations{_some(n_drawn, n_all)}.")
        parts.append(f"Solid: medians of the nodes{_some(n_medians, n)}.")
    else:
        parts.append(f"Marks: nodes{_some(n_medians, n)}.")
    parts.append("Numbered: centers. Dashed: one standard deviation of the realizations of a cluster.")
    return " ".join(parts) + plane.note + scene.part


def _some(n_drawn: int, n_all: int) -> str:
    return "" if n_drawn == n_all else f" ({n_drawn:,} of {n_all:,}, chosen at random)"
