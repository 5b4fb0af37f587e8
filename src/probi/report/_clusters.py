"""Draws clusters in a plane."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probi._notes import counted
from probi.medians import SPREAD_TOL, certified_medians
from probi.report._scene import Scene, covariance, principal_plane
from probi.report._style import DISC, DISC_INK, EXCESS, MUTED, PLAIN, color, has_colors, ink, label, marker, root_figure
from probi.report._words import Words, enumerated, percent, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path

Array = NDArray[Any]
Floats = NDArray[np.float64]

# More marks would only hide each other.
MAX_REALIZATIONS, MAX_MEDIANS = 4000, 1500

ROW = 0.7  # fraction of its row that the nodes of a cluster fill, if there is one feature only
GOLDEN = 0.6180339887498949  # its multiples modulo 1 are evenly spread, for any number of them
STRETCHED = 6.0  # axes whose lengths differ by more than this factor have separate scales

RADIUS, NUMBER_SIZE = 6.5, 8.5  # of the disc with the number of a cluster, and of the number, in points
MAX_NUMBERED = 10  # if clusters have no colors, only the largest have a number
FAINT = 0.35  # opacity of medians if clusters have no colors, so that centers stand out
N_DIRECTIONS = 16  # in which a disc may be placed


@dataclass(frozen=True, eq=False)
class Plane:
    """Projection from coordinates of the clustering to the plane of the plot."""

    project: Callable[[Array, Array, Array], Floats]  # coordinates (n, d), clusters (n,), heights in a row (n,)
    x: str
    y: str
    note: str
    has_rows: bool = False
    aspect: float = 1.0  # length of one unit of y, in units of x


def draw_clusters(axes: "Axes", scene: Scene) -> Words:
    """Draw realizations, medians, ellipses and centers; return the caption."""
    plane = choose_plane(scene)
    label(axes, plane.x, plane.y)
    n_drawn = _draw_realizations(axes, scene, plane)
    n_medians = _draw_medians(axes, scene, plane)
    if has_colors(scene.n_clusters):
        _draw_ellipses(axes, scene, plane)
    _set_limits(axes, plane)
    _draw_centers(axes, scene, plane)
    return clusters_words(scene, plane, n_drawn, n_medians, has_colors(scene.n_clusters))


# -- the plane --------------------------------------------------------------------------------------------------------


def choose_plane(scene: Scene) -> Plane:
    """The features themselves, or the plane with the most variance."""
    n_shown = scene.centers.shape[1]
    if n_shown == 1:
        return _rows(scene)
    if n_shown == 2:
        x, y = (short(name, 40) for name in scene.features)
        return Plane(lambda points, clusters, heights: scene.to_original(points), x, y, "", aspect=aspect_of(scene))
    return _principal(scene)


def aspect_of(scene: Scene) -> float:
    """Length of one unit of y in units of x, as the median over centers; for degrees 1 / cos(latitude)."""
    places = np.asarray(scene.coordinates, np.float64)
    step = 1e-4 * float(scene.nodes.points[:1000].std(axis=0).max()) or 1e-4
    moved = places[:, None] + step * np.eye(places.shape[1])
    values = scene.to_original(moved.reshape(-1, places.shape[1])).reshape(*moved.shape[:2], 2)
    units = np.sqrt(np.square(values - scene.centers[:, None]).sum(axis=1))  # in one step, (k, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = units[:, 0] / units[:, 1]
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    return float(np.median(ratios)) if len(ratios) else 1.0


def _rows(scene: Scene) -> Plane:
    """One feature: each cluster has a row, from the lowest center up, and each node a height in it."""
    rank = np.empty(scene.n_clusters)
    rank[np.argsort(scene.centers[:, 0], kind="stable")] = np.arange(scene.n_clusters)

    def project(points: Array, clusters: Array, heights: Array) -> Floats:
        return np.column_stack([scene.to_original(points)[:, 0], rank[clusters] + ROW * (heights - 0.5)])

    note = " Each cluster has its own row; the height within it has no meaning."
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
    """The features with the largest share in a direction."""
    if names is None or not direction.any():
        return ""
    order = np.argsort(-np.abs(direction), kind="stable")
    strong = [j for j in order[:2] if abs(direction[j]) >= 0.3]
    return f"\nmostly {enumerated([short(names[j], 22) for j in strong], 2)}" if strong else ""


# -- what is drawn ----------------------------------------------------------------------------------------------------


def some_realizations(scene: Scene, plane: Plane) -> tuple[NDArray[np.int64], Floats]:
    """Indices of the realizations to draw, always the same ones, and their positions."""
    n = scene.nodes.n_realizations
    rows = np.arange(n)
    if n > MAX_REALIZATIONS:
        rows = np.sort(np.random.default_rng(0).choice(n, MAX_REALIZATIONS, replace=False))
    heights = scene.by_realization(heights_of(len(scene.nodes)))
    return rows, plane.project(scene.nodes.points[rows], scene.owners[rows], heights[rows])


def alpha_of(scene: Scene, n_drawn: int) -> float:
    """Opacity of realizations; certain nodes are their own medians, which are drawn anyway."""
    return 0.0 if scene.nodes.is_certain else float(np.clip(40 / np.sqrt(n_drawn), 0.3, 0.6))


def _draw_realizations(axes: "Axes", scene: Scene, plane: Plane) -> int:
    rows, places = some_realizations(scene, plane)
    axes.scatter(
        places[:, 0], places[:, 1], s=5, c=[color(c, scene.n_clusters) for c in scene.owners[rows]],
        alpha=alpha_of(scene, len(rows)), linewidths=0, zorder=1.6, rasterized=True, gid="realizations",
    )  # fmt: skip
    return len(rows)


def _draw_medians(axes: "Axes", scene: Scene, plane: Plane) -> int:
    numbers, places = some_medians(scene, plane)
    labels, k = scene.labels[numbers], scene.n_clusters
    marks = np.array([marker(c, k) for c in labels])
    for mark in np.unique(marks):
        inside = marks == mark
        axes.scatter(
            places[inside, 0], places[inside, 1], s=14, c=[color(c, k) for c in labels[inside]], marker=str(mark),
            edgecolors="#00000066" if has_colors(k) else "none", alpha=None if has_colors(k) else FAINT, linewidths=0.3,
            zorder=1.7, rasterized=True, gid="medians",
        )  # fmt: skip
    return len(numbers)


def some_medians(scene: Scene, plane: Plane) -> tuple[NDArray[np.int64], Floats]:
    """Indices of the nodes whose medians to draw, always the same ones, and the positions of the medians."""
    n = len(scene.nodes)
    nodes = np.arange(n)
    if n > MAX_MEDIANS:
        nodes = np.sort(np.random.default_rng(1).choice(n, MAX_MEDIANS, replace=False))
    medians = certified_medians(scene.nodes.take(nodes), SPREAD_TOL)[0]
    return nodes, plane.project(medians, scene.labels[nodes], heights_of(n)[nodes])


def heights_of(n_nodes: int) -> Floats:
    """Height of each node in a row, between 0 and 1."""
    return np.asarray(np.arange(n_nodes) * GOLDEN % 1.0, np.float64)


def ellipses(scene: Scene, plane: Plane) -> Iterator[tuple[int, Floats, Floats, Floats]]:
    """Cluster, mean and half axes, the longer one first: one standard deviation of the realizations of a cluster."""
    points = plane.project(scene.nodes.points, scene.owners, np.full(len(scene.owners), 0.5))
    for c, inside in enumerate(scene.members):
        moments = covariance(points[inside], scene.masses[inside])
        if moments is None:
            continue
        middle, covariances = moments
        variances, directions = np.linalg.eigh(covariances)
        halves = np.sqrt(np.maximum(variances, 0.0)) * directions
        if plane.has_rows:
            halves = np.array([[0.0, np.sqrt(max(covariances[0, 0], 0.0))], [ROW / 2, 0.0]])
        yield c, middle, halves[:, 1], halves[:, 0]


def _draw_ellipses(axes: "Axes", scene: Scene, plane: Plane) -> None:
    from matplotlib.patches import Ellipse

    for c, (x, y), longer, shorter in ellipses(scene, plane):
        angle = float(np.degrees(np.arctan2(longer[1], longer[0])))
        axes.add_patch(
            Ellipse(
                (x, y), 2 * np.hypot(*longer), 2 * np.hypot(*shorter), angle=angle, fill=False, edgecolor=ink(axes),
                linestyle=(0, (4, 2)), linewidth=1.0, zorder=3, gid=f"ellipse {c}",
            )
        )  # fmt: skip


def _set_limits(axes: "Axes", plane: Plane) -> None:
    axes.autoscale_view()
    if plane.has_rows:
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        return
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    sides = abs(right - left), abs(top - bottom) * plane.aspect
    # Distances are the same in all directions, so scales should be equal, unless the plot would become too thin.
    if min(sides) > 0 and max(sides) < STRETCHED * min(sides):
        axes.set_aspect(plane.aspect, adjustable="datalim")


# -- centers ----------------------------------------------------------------------------------------------------------


def _draw_centers(axes: "Axes", scene: Scene, plane: Plane) -> None:
    k = scene.n_clusters
    places = plane.project(scene.coordinates, np.arange(k), np.full(k, 0.5))
    axes.update_datalim(places)
    axes.autoscale_view()
    axes.scatter(
        places[:, 0], places[:, 1], s=np.square(2 * dot_radii(scene)), c=EXCESS if not has_colors(k) else DISC,
        edgecolors=DISC if not has_colors(k) else DISC_INK, linewidths=0.8, zorder=4, gid="dots",
    )  # fmt: skip
    numbers = numbered(scene)
    shifts = _shifts(axes, places, numbers)
    disc = Disc(RADIUS / NUMBER_SIZE)
    for c, shift in zip(numbers.tolist(), shifts, strict=True):
        axes.annotate(
            str(c), tuple(places[c]), xytext=tuple(shift), textcoords="offset points", ha="center", va="center",
            fontsize=NUMBER_SIZE, fontweight="bold", color=DISC_INK, zorder=5, gid=f"center {c}",
            bbox={"boxstyle": disc, "facecolor": DISC, "edgecolor": color(c, k), "linewidth": 1.6},
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8, "shrinkB": 2}, annotation_clip=False,
            **PLAIN,
        )  # fmt: skip


def dot_radii(scene: Scene) -> Floats:
    """Radii of the dots at the centers, in points; if there are many clusters, they grow with the mass."""
    if has_colors(scene.n_clusters):
        return np.full(scene.n_clusters, 2.6)
    masses = scene.cluster_masses
    shares = masses / masses.sum() if masses.sum() > 0 else np.zeros(len(masses))
    return np.asarray(np.clip(2.2 * np.sqrt(shares * scene.n_clusters), 1.2, 6.0))


def numbered(scene: Scene) -> NDArray[np.int64]:
    """Clusters whose number is drawn: all, or the largest if there are many; only finite ones."""
    order = np.argsort(-scene.cluster_masses, kind="stable")
    kept = order if has_colors(scene.n_clusters) else order[:MAX_NUMBERED]
    return np.sort(kept)[np.isfinite(scene.centers[np.sort(kept)]).all(axis=1)]


@dataclass(frozen=True)
class Disc:
    """A circular box around text, of the same size for all texts; a class, so that figures can be pickled."""

    ratio: float  # radius relative to the size of the text

    def __call__(self, x: float, y: float, width: float, height: float, size: float) -> "Path":
        """Return the circle around the center of the text."""
        from matplotlib.path import Path

        return Path.circle((x + width / 2, y + height / 2), self.ratio * size)


def _shifts(axes: "Axes", places: Floats, numbers: NDArray[np.int64]) -> Floats:
    """Offset of each disc from its center, in points."""
    figure = root_figure(axes)
    figure.draw_without_rendering()  # the layout determines the size of the axes
    points = 72 / figure.dpi
    drawn = [c.get_offsets() for c in axes.collections if c.get_gid() in ("realizations", "medians")]
    marks = axes.transData.transform(np.concatenate([np.asarray(offsets) for offsets in drawn])) * points
    start = axes.transData.transform(places) * points
    box = axes.get_window_extent()
    frame = np.array([[box.x0, box.y0], [box.x1, box.y1]]) * points
    return beside(start, numbers, marks, frame) - start[numbers]


def beside(centers: Floats, numbers: NDArray[np.int64], marks: Floats, frame: Floats) -> Floats:
    """Positions of the discs with numbers: near their centers, where they hide little.

    Parameters
    ----------
    centers : ndarray of shape (n_clusters, 2)
        In points of the plot.
    numbers : ndarray of shape (n,)
        The centers that get a disc.
    marks : ndarray of shape (n_marks, 2)
        What should not be hidden.
    frame : ndarray of shape (2, 2)
        Two corners of the plot.

    Returns
    -------
    ndarray of shape (n, 2)
        Centers of the discs.
    """
    turns = 2 * np.pi * np.arange(N_DIRECTIONS) / N_DIRECTIONS
    directions = np.column_stack([np.cos(turns), np.sin(turns)])
    distances = np.array([2.0, 3.0, 4.5, 6.5, 9.0]) * RADIUS
    shifts = (distances[:, None, None] * directions).reshape(-1, 2)
    marks = marks[np.isfinite(marks).all(axis=1)]
    dots = centers[np.isfinite(centers).all(axis=1)]
    low, high = frame.min(axis=0) + RADIUS, frame.max(axis=0) - RADIUS
    placed = np.empty((0, 2))
    for c in numbers.tolist():
        spots = centers[c] + shifts
        costs = np.repeat(distances / RADIUS, N_DIRECTIONS)
        costs += 2.0 * _n_near(spots, marks, RADIUS + 1) + 60.0 * _n_near(spots, dots, RADIUS + 3)
        costs += 600.0 * _n_near(spots, placed, 2 * RADIUS + 2)
        costs += 1e6 * ((spots < low) | (spots > high)).any(axis=1)
        placed = np.vstack([placed, spots[costs.argmin()]])
    return placed


def _n_near(spots: Floats, others: Floats, radius: float) -> Floats:
    """How many of the others are within the radius of each spot."""
    near = np.abs(spots[:, None, 0] - others[:, 0]) ** 2 + (spots[:, None, 1] - others[:, 1]) ** 2 < radius**2
    return np.asarray(near.sum(axis=1), np.float64)


# -- words ------------------------------------------------------------------------------------------------------------


def clusters_words(scene: Scene, plane: Plane, n_drawn: int, n_medians: int, has_ellipses: bool) -> Words:
    """Describe the plot, and how much of the data is drawn."""
    clusters = counted(scene.n_clusters, "cluster")
    alt = f"Scatter plot of {counted(n_medians, 'node')} in {clusters} around numbered centers."
    return Words(_title(scene), _caption(scene, plane, n_drawn, n_medians, has_ellipses), alt)


def _title(scene: Scene) -> str:
    kind = "nodes" if scene.nodes.is_certain else "uncertain nodes"
    return f"{counted(scene.n_clusters, 'cluster')} of {kind}"


def _caption(scene: Scene, plane: Plane, n_drawn: int, n_medians: int, has_ellipses: bool) -> str:
    n, n_all = len(scene.nodes), scene.nodes.n_realizations
    parts = []
    if not scene.nodes.is_certain:
        parts.append(f"Faint: realizations{_some(n_drawn, n_all)}.")
        parts.append(f"Solid: medians of the nodes{_some(n_medians, n)}.")
    else:
        parts.append(f"Marks: nodes{_some(n_medians, n)}.")
    if has_colors(scene.n_clusters):
        parts.append("White dots: centers, with their numbers beside them.")
    else:
        parts.append(f"Dots: centers, larger with more mass; the {MAX_NUMBERED} largest are numbered.")
    if has_ellipses:
        parts.append("Dashed: one standard deviation of the realizations of a cluster.")
    return " ".join(parts) + plane.note + scene.part


def _some(n_drawn: int, n_all: int) -> str:
    return "" if n_drawn == n_all else f" ({n_drawn:,} of {n_all:,}, chosen at random)"
