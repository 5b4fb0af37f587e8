"""The plot of clusters in a plane."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from probi._notes import counted
from probi._types import Array, Floats, Integers
from probi.medians import SPREAD_TOL, certified_medians
from probi.report import _style as style
from probi.report._marks import Dots, Line, Mark, Numbers, ellipse
from probi.report._picture import Axis, Panel, Picture, limits
from probi.report._scene import Scene, covariance, principal_plane
from probi.report._style import Words, color, enumerated, has_colors, marker, percent, short

# More marks would only hide each other.
MAX_REALIZATIONS, MAX_MEDIANS = 4000, 1500

ROW = 0.7  # fraction of its row that the nodes of a cluster fill, if there is one feature only
GOLDEN = 0.6180339887498949  # its multiples modulo 1 are evenly spread, for any number of them
STRETCHED = 6.0  # axes whose lengths differ by more than this factor have separate scales

MAX_NUMBERED = 10  # if clusters have no colors, only the largest have a number
FAINT = 0.35  # opacity of medians if clusters have no colors, so that centers stand out
SMALLEST_ELLIPSE = 0.023  # half of its longer axis, as a fraction of the plot; a smaller one would only hide the center


@dataclass(frozen=True, eq=False)
class Plane:
    """Projection from coordinates of the clustering to the plane of the plot."""

    project: Callable[[Array, Array, Array], Floats]  # coordinates (n, d), clusters (n,), heights in a row (n,)
    x: str
    y: str
    note: str
    has_rows: bool = False
    aspect: float = 1.0  # length of one unit of y, in units of x


def clusters_picture(scene: Scene) -> Picture:
    """Realizations, medians, ellipses and centers in a plane."""
    plane, k = choose_plane(scene), scene.n_clusters
    rows, realizations = some_realizations(scene, plane)
    chosen, medians = some_medians(scene, plane)
    outlines = list(ellipses(scene, plane)) if has_colors(k) else []
    centers = plane.project(scene.coordinates, np.arange(k), np.full(k, 0.5))
    ends = [middle + sign * np.hypot(*halves) for _, middle, *halves in outlines for sign in (-1, 1)]
    points = np.vstack([realizations, medians, centers, *ends])
    x, y = limits(points[:, 0]), limits(points[:, 1])
    aspect, sides = _scales(plane, x, y)
    large = [outline for outline in outlines if np.hypot(*(outline[2] / sides)) >= SMALLEST_ELLIPSE]
    marks: list[Mark] = []
    if not scene.nodes.is_certain:  # certain nodes are their own medians
        alpha, owners = float(np.clip(40 / np.sqrt(len(rows)), 0.3, 0.6)), scene.owners[rows]
        fill = [color(c, k) for c in owners]
        marks.append(Dots("realizations", realizations, 1.12, fill, alpha=alpha, shapes=["o"] * len(rows)))
    labels, edge = scene.labels[chosen], ("#00000066", 0.3, 1.0) if has_colors(k) else ("none", 0.0, FAINT)
    fill, shapes = [color(c, k) for c in labels], [marker(c, k) for c in labels]
    marks.append(Dots("medians", medians, 1.87, fill, *edge, shapes))
    marks += [Line(f"ellipse {c}", *ellipse(*outline), style.INK, 1.0, dashed=True) for c, *outline in large]
    fill_and_edge = (style.DISC, style.DISC_INK) if has_colors(k) else (style.EXCESS, style.DISC)
    marks.append(Dots("dots", centers, dot_radii(scene), *fill_and_edge, 0.8))
    numbers, hidden = numbered(scene), np.vstack([realizations, medians])
    marks.append(Numbers("numbers", centers, numbers, [color(c, k) for c in numbers], hidden))
    height = min(1.4 + 0.42 * k, 14.0) if plane.has_rows else 4.6
    words = clusters_words(scene, plane, len(rows), len(chosen), bool(large))
    up = Axis(plane.y, y, [] if plane.has_rows else None, has_line=not plane.has_rows)
    return Picture(words, height, Axis(plane.x, x), up, [Panel(marks)], aspect=aspect)


def _scales(
    plane: Plane, x: tuple[float, float], y: tuple[float, float]
) -> tuple[float | None, tuple[float, float]]:  # fmt: skip
    """Ratio of the scales, and how much of each axis the plot shows."""
    width, height = x[1] - x[0], y[1] - y[0]
    longer, shorter = max(width, plane.aspect * height), min(width, plane.aspect * height)
    # Distances are the same in all directions, so scales should be equal, unless the plot would become too thin.
    if plane.has_rows or longer >= STRETCHED * shorter:
        return None, (width, height)
    return plane.aspect, (longer, longer / plane.aspect)


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


def some_realizations(scene: Scene, plane: Plane) -> tuple[Integers, Floats]:
    """Indices of the realizations to draw, always the same ones, and their positions."""
    n = scene.nodes.n_realizations
    rows = np.arange(n)
    if n > MAX_REALIZATIONS:
        rows = np.sort(np.random.default_rng(0).choice(n, MAX_REALIZATIONS, replace=False))
    heights = scene.by_realization(heights_of(len(scene.nodes)))
    return rows, plane.project(scene.nodes.points[rows], scene.owners[rows], heights[rows])


def some_medians(scene: Scene, plane: Plane) -> tuple[Integers, Floats]:
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


# -- centers ----------------------------------------------------------------------------------------------------------


def dot_radii(scene: Scene) -> Floats:
    """Radii of the dots at the centers, in points; if there are many clusters, they grow with the mass."""
    if has_colors(scene.n_clusters):
        return np.full(scene.n_clusters, 2.6)
    masses = scene.cluster_masses
    shares = masses / masses.sum() if masses.sum() > 0 else np.zeros(len(masses))
    return np.asarray(np.clip(2.2 * np.sqrt(shares * scene.n_clusters), 1.2, 6.0))


def numbered(scene: Scene) -> Integers:
    """Clusters whose number is drawn: all, or the largest if there are many; only finite ones."""
    order = np.argsort(-scene.cluster_masses, kind="stable")
    kept = order if has_colors(scene.n_clusters) else order[:MAX_NUMBERED]
    return np.sort(kept)[np.isfinite(scene.centers[np.sort(kept)]).all(axis=1)]


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
