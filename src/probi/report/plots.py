"""The plots: clusters in a plane, cost by number of clusters and by cluster, and centers feature by feature.

Each is described once, as a Picture. The report draws it as SVG; the public functions draw it with matplotlib, without
pyplot and its global state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from probi._notes import counted
from probi._types import Array, Floats, Integers
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes
from probi.report import _picture as style
from probi.report._matplotlib import plot
from probi.report._picture import (
    MARGIN,
    Axis,
    Bars,
    Dots,
    Line,
    Mark,
    Numbers,
    Panel,
    Picture,
    Ticks,
    color,
    ellipse,
    has_colors,
    limits,
    marker,
    round_ticks,
    strokes,
)
from probi.report._scene import (
    Original,
    Scene,
    check_result,
    covariance,
    enumerated,
    make_scene,
    number,
    percent,
    principal_plane,
    short,
    with_unit,
)
from probi.solver.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# More marks would only hide each other.
MAX_REALIZATIONS, MAX_MEDIANS = 4000, 1500

ROW_FILL = 0.7  # fraction of its row that the nodes of a cluster fill, if there is one feature only
GOLDEN = 0.6180339887498949  # its multiples modulo 1 are evenly spread, for any number of them
MAX_STRETCH = 6.0  # axes whose lengths differ by more than this factor have separate scales

MAX_NUMBERED = 10  # if clusters have no colors, only the largest have a number
FAINT = 0.35  # opacity of medians if clusters have no colors, so that centers stand out
MIN_ELLIPSE = 0.023  # half of its longer axis, as a fraction of the plot; a smaller one would only hide the center

OUTLIERS = " Gray crosses: outliers, which belong to no cluster; those farther away are drawn at the edge."

MAX_LABELS = 16  # numbers of clusters that fit below an axis
MAX_BARS = 20  # of the most expensive clusters

MAX_FEATURES, MAX_PANELS = 60, 24
MAX_NAME = 22  # characters below a panel
LINEAR = 2.0  # standard deviations up to which the symmetric log scale is linear
EXTREME = 6.0  # standard deviations; a panel with larger values has a symmetric log scale
FEW_STEPS = (1.0, 2.0, 3.0, 5.0, 10.0)  # so that few ticks fill a low panel


# -- clusters in a plane ----------------------------------------------------------------------------------------------


def plot_clusters(
    result: Result,
    nodes: Nodes | ArrayLike,
    *,
    features: Sequence[str] | None = None,
    original: Original | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw nodes, their clusters and the centers in a plane.

    Two features are drawn directly, to one scale: longitude and latitude as on a map. One feature is drawn as one row
    per cluster; more are projected onto the plane with most of the variance of the nodes' centers of gravity. Up to 20
    clusters have a color and a number each; with more, none has a color, and only the largest have numbers.

    Parameters
    ----------
    result : Result
        Its centers are drawn. Each node has the color of the nearest one, so ``nodes`` need not be those that were
        solved.
    nodes : Nodes or array-like
        All nodes or a sample; arrays as in :func:`probi.solve`. At most a few thousand realizations are drawn, always
        the same ones.
    features : sequence of str, default=None
        Names of the features; None: x0, x1, ...
    original : function, default=None
        Maps coordinates of the clustering (n, d) to original units (n, d'), for example points on a sphere to longitude
        and latitude; ``features`` then names the d' columns.
    ax : matplotlib Axes, default=None
        Axes to draw in; None: those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        That of ``ax``, if given.

    Examples
    --------
    >>> import numpy as np, probi
    >>> from probi.report import plot_clusters
    >>> X = np.random.default_rng(0).normal(size=(60, 5, 2)) + np.repeat([[0, 0], [9, 9]], 30, axis=0)[:, None]
    >>> nodes = probi.Nodes.from_dense(X)
    >>> figure = plot_clusters(probi.solve(nodes, 2, random_state=0), nodes, features=["lon", "lat"])
    >>> figure.axes[0].get_xlabel()
    'lon'
    >>> figure.axes[0].get_title(loc="left").splitlines()[0]
    '2 clusters of uncertain nodes'
    """
    return plot(clusters_picture(make_scene(result, nodes, features, original)), ax)


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
    plane, nodes, k = choose_plane(scene), scene.nodes, scene.n_clusters
    heights = np.arange(len(nodes)) * GOLDEN % 1.0  # in a row, between 0 and 1
    rows = sample_indices(nodes.n_realizations, MAX_REALIZATIONS, seed=0)
    realizations = plane.project(nodes.points[rows], scene.owners[rows], scene.by_realization(heights)[rows])
    chosen = sample_indices(len(nodes), MAX_MEDIANS, seed=1)
    labels = scene.labels[chosen]
    medians = plane.project(certified_medians(nodes.take(chosen), SPREAD_TOL)[0], labels, heights[chosen])
    centers = plane.project(scene.coordinates, np.arange(k), np.full(k, 0.5))
    middles = plane.project(nodes.points, scene.owners, np.full(len(scene.owners), 0.5)) if has_colors(k) else None
    outlines = [] if middles is None else list(ellipses(scene, middles, plane.has_rows))
    ends = [middle + sign * np.hypot(*halves) for _, middle, *halves in outlines for sign in (-1, 1)]
    points = np.vstack([realizations[scene.owners[rows] >= 0], medians[labels >= 0], centers, *ends])
    x, y = limits(points[:, 0]), limits((np.vstack([points, medians]) if plane.has_rows else points)[:, 1])
    # Outliers, which do not shape the limits, are drawn at the edge.
    realizations, medians = (np.clip(positions, *inner_corners(x, y)) for positions in (realizations, medians))
    aspect, sides = axes_scale(plane, x[1] - x[0], y[1] - y[0])
    large = [outline for outline in outlines if np.hypot(*(outline[2] / sides)) >= MIN_ELLIPSE]
    marks: list[Mark] = []
    if not nodes.is_certain:  # certain nodes are their own medians
        marks.append(_realization_dots(realizations, [color(c, k) for c in scene.owners[rows]]))
    marks.append(_median_dots(medians, labels, k))
    marks += [Line(f"ellipse {c}", *ellipse(*outline), style.INK, 1.0, dashed=True) for c, *outline in large]
    marks += _center_marks(scene, centers, np.vstack([realizations, medians]))
    return Picture(
        f"{counted(k, 'cluster')} of {'nodes' if nodes.is_certain else 'uncertain nodes'}",
        _clusters_caption(scene, len(rows), len(chosen), bool(large)) + plane.note + scene.sample_note,
        f"Scatter plot of {counted(len(chosen), 'node')} in {counted(k, 'cluster')} around numbered centers.",
        min(1.4 + 0.42 * k, 14.0) if plane.has_rows else 4.6,
        Axis(plane.x, x),
        Axis(plane.y, y, [] if plane.has_rows else None, has_line=not plane.has_rows),
        [Panel(marks)],
        aspect=aspect,
    )


def _realization_dots(positions: Floats, colors: list[str]) -> Dots:
    alpha = float(np.clip(40 / np.sqrt(len(positions)), 0.3, 0.6))
    return Dots("realizations", positions, 1.12, colors, alpha=alpha, shapes=["o"] * len(positions))


def _median_dots(positions: Floats, labels: Array, k: int) -> Dots:
    edge = ("#00000066", 0.3, 1.0) if has_colors(k) else ("none", 0.0, FAINT)
    colors, shapes = [color(c, k) for c in labels], [marker(c, k) for c in labels]
    return Dots("medians", positions, 1.87, colors, *edge, shapes)


def _center_marks(scene: Scene, centers: Floats, node_marks: Floats) -> list[Mark]:
    """Dots at the centers, and numbers beside them that should not hide ``node_marks``."""
    k = scene.n_clusters
    fill, edge = (style.DISC, style.DISC_INK) if has_colors(k) else (style.EXCESS, style.DISC)
    numbered = scene.largest(k if has_colors(k) else MAX_NUMBERED)
    numbered = numbered[np.isfinite(scene.centers[numbered]).all(axis=1)]
    return [
        Dots("dots", centers, dot_radii(scene), fill, edge, 0.8),
        Numbers("numbers", centers, numbered, [color(c, k) for c in numbered], node_marks),
    ]


def inner_corners(x: tuple[float, float], y: tuple[float, float]) -> tuple[Floats, Floats]:
    """Lower left and upper right corner, just inside a plot with these limits; outliers are drawn between them."""
    corners = np.array([x, y]).T
    inset = 0.2 * MARGIN * (corners[1] - corners[0])
    return corners[0] + inset, corners[1] - inset


def sample_indices(n: int, at_most: int, seed: int) -> Integers:
    """Indices of a fixed random sample, or of all if there are at most ``at_most``."""
    return np.arange(n) if n <= at_most else np.sort(np.random.default_rng(seed).choice(n, at_most, replace=False))


def axes_scale(plane: Plane, width: float, height: float) -> tuple[float | None, tuple[float, float]]:
    """Ratio of the scales, None if they are separate, and the lengths of both axes in their own units."""
    shorter, longer = sorted((width, plane.aspect * height))
    # Distances are the same in all directions, so scales should be equal, unless the plot would become too thin.
    if plane.has_rows or longer >= MAX_STRETCH * shorter:
        return None, (width, height)
    return plane.aspect, (longer, longer / plane.aspect)


def choose_plane(scene: Scene) -> Plane:
    """The features themselves, or the plane with the most variance."""
    n_shown = scene.centers.shape[1]
    if n_shown == 1:
        return _plane_of_rows(scene)
    if n_shown == 2:
        x, y = (short(name, 40) for name in scene.features)
        return Plane(lambda points, clusters, heights: scene.to_original(points), x, y, "", aspect=aspect_of(scene))
    return _plane_of_variance(scene)


def aspect_of(scene: Scene) -> float:
    """Length of one unit of y in units of x, as the median over centers; for degrees 1 / cos(latitude)."""
    centers = np.asarray(scene.coordinates, np.float64)
    step = 1e-4 * float(scene.nodes.points[:1000].std(axis=0).max()) or 1e-4
    moved = centers[:, None] + step * np.eye(centers.shape[1])
    values = scene.to_original(moved.reshape(-1, centers.shape[1])).reshape(*moved.shape[:2], 2)
    units = np.sqrt(np.square(values - scene.centers[:, None]).sum(axis=1))  # of x and y in one step, (k, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = units[:, 0] / units[:, 1]
    ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
    return float(np.median(ratios)) if len(ratios) else 1.0


def _plane_of_rows(scene: Scene) -> Plane:
    """One feature: each cluster has a row, from the lowest center up, and each node a height in it."""
    rank = np.empty(scene.n_clusters)
    rank[np.argsort(scene.centers[:, 0], kind="stable")] = np.arange(scene.n_clusters)
    rank = np.append(rank, -1.0)  # of outliers, whose label is -1

    def project(points: Array, clusters: Array, heights: Array) -> Floats:
        return np.column_stack([scene.to_original(points)[:, 0], rank[clusters] + ROW_FILL * (heights - 0.5)])

    note = " Each cluster has its own row; the height within it has no meaning."
    return Plane(project, short(scene.features[0], 60), "", note, has_rows=True)


def _plane_of_variance(scene: Scene) -> Plane:
    """More than two features: the plane with the most variance of the nodes' centers of gravity."""
    nodes = scene.nodes
    mass = np.where(scene.labels < 0, 0.0, nodes.mass)
    middle, directions, shares = principal_plane(np.asarray(nodes.gravity_centers, np.float64), mass)
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
    """Second line of an axis label: the features with the largest share in its direction, if any is large."""
    if names is None or not direction.any():
        return ""
    order = np.argsort(-np.abs(direction), kind="stable")
    strong = [short(names[j], MAX_NAME) for j in order[:2] if abs(direction[j]) >= 0.3]
    return f"\nmostly {', '.join(strong)}" if strong else ""


def ellipses(scene: Scene, points: Floats, has_rows: bool) -> Iterator[tuple[int, Floats, Floats, Floats]]:
    """One standard deviation of the realizations, per cluster: its number, mean and half axes, the longer one first.

    ``points`` are the realizations in the plane, (n, 2), in the middle of their rows if there are rows.
    """
    for c, inside in enumerate(scene.members):
        moments = covariance(points[inside], scene.masses[inside])
        if moments is None:
            continue
        middle, covariances = moments
        variances, directions = np.linalg.eigh(covariances)
        halves = np.sqrt(np.maximum(variances, 0.0)) * directions
        if has_rows:
            halves = np.array([[0.0, np.sqrt(max(covariances[0, 0], 0.0))], [ROW_FILL / 2, 0.0]])
        yield c, middle, halves[:, 1], halves[:, 0]


def dot_radii(scene: Scene) -> Floats:
    """Radii of the dots at the centers, in points; if there are many clusters, they grow with the mass."""
    if has_colors(scene.n_clusters):
        return np.full(scene.n_clusters, 2.6)
    shares = np.nan_to_num(scene.shares)
    return np.asarray(np.clip(2.2 * np.sqrt(shares * scene.n_clusters), 1.2, 6.0))


def _clusters_caption(scene: Scene, n_drawn: int, n_medians: int, has_ellipses: bool) -> str:
    """What is drawn, and how much of the data."""
    of_all_nodes = n_drawn_note(n_medians, len(scene.nodes))
    if scene.nodes.is_certain:
        caption = f"Marks: nodes{of_all_nodes}."
    else:
        caption = f"Faint: realizations{n_drawn_note(n_drawn, scene.nodes.n_realizations)}."
        caption += f" Solid: medians of the nodes{of_all_nodes}."
    if has_colors(scene.n_clusters):
        caption += " White dots: centers, with their numbers beside them."
    else:
        caption += f" Dots: centers, larger with more mass; the {MAX_NUMBERED} largest are numbered."
    caption += " Dashed: one standard deviation of the realizations of a cluster." * has_ellipses
    return caption + OUTLIERS * bool((scene.labels < 0).any())


def n_drawn_note(n_drawn: int, n_all: int) -> str:
    """How many of all are drawn, unless all are."""
    return "" if n_drawn == n_all else f" ({n_drawn:,} of {n_all:,}, chosen at random)"


# -- cost by number of clusters ---------------------------------------------------------------------------------------


def plot_elbow(results: Sequence[Result], *, chosen: int | None = None, ax: Axes | None = None) -> Figure:
    """Draw the cost of solutions over their number of clusters.

    Bars are two standard errors long in each direction. The shaded area is the nodes' own spread, which no clustering
    can reduce.

    Parameters
    ----------
    results : sequence of Result
        Results for the same data and several numbers of clusters, in any order.
    chosen : int, default=None
        Index of the result to mark.
    ax : matplotlib Axes, default=None
        Axes to draw in; None: those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        That of ``ax``, if given.

    Examples
    --------
    >>> import numpy as np, probi
    >>> from probi.report import plot_elbow
    >>> nodes = probi.Nodes.from_points(np.random.default_rng(0).normal(size=(60, 2)))
    >>> figure = plot_elbow([probi.solve(nodes, k, random_state=0) for k in (1, 2, 3)])
    >>> figure.axes[0].get_xticks()
    array([1, 2, 3])
    """
    if isinstance(results, Result) or hasattr(results, "result_"):
        raise InputError(
            "plot_elbow draws the costs of several numbers of clusters, but got one result. Pass a list: "
            "plot_elbow([probi.solve(nodes, k) for k in range(2, 9)])."
        )
    if not results:
        raise InputError("No results to draw. Pass at least one.")
    for result in results:
        check_result(result)
    return plot(elbow_picture(results, chosen), ax)


def elbow_picture(results: Sequence[Result], chosen: int | None, unit: str = "") -> Picture:
    """Cost over the number of clusters, above the nodes' own spread."""
    ordered = sorted(results, key=lambda result: len(result.centers))
    ks = np.array([len(result.centers) for result in ordered])
    costs, errors, floors = (
        np.array([getattr(result, name) for result in ordered], np.float64)
        for name in ("cost", "standard_error", "spread_cost")
    )
    floor = float(np.nanmin(floors, initial=np.inf))
    top = float(np.nanmax(costs + 2 * errors, initial=-np.inf))
    x_limits, y_limits = limits(ks), limits(costs)
    marks: list[Mark] = []
    if np.isfinite(floor) and np.isfinite(top):  # extend the limits, so that the spread is visible
        height = max(top - floor, 1e-3 * abs(top)) or 1.0
        pad = max(0.4, 0.04 * (ks[-1] - ks[0]))
        x_limits, y_limits = (ks[0] - pad, ks[-1] + pad), (max(floor - 0.16 * height, 0.0), top + 0.08 * height)
        if floor > 0:
            floor_x, floor_y = np.r_[x_limits[0], ks, x_limits[1]], np.r_[floors[0], floors, floors[-1]]
            marks.append(Line("floor", floor_x, floor_y, style.SPREAD, 1.2, area=0.45))
    marks.append(Line("cost", ks, costs, style.EXCESS, 1.4))
    marks.append(Line("errors", *strokes(ks, costs - 2 * errors, costs + 2 * errors), style.EXCESS, 5.0, alpha=0.4))
    marks.append(Dots("costs", np.column_stack([ks, costs]), 2.5, style.EXCESS))
    caption = "Every further cluster lowers the cost; how many to use depends on their purpose."
    if np.any(errors > 0):
        caption += " Bars: two standard errors in each direction."
    if 0 < floor < np.inf:
        caption += f" Shaded: the nodes' own spread, {with_unit(number(floor), unit)}; no clustering costs less."
    if chosen is not None:
        marked = results[chosen]
        marks.append(Dots("chosen", np.array([[len(marked.centers), marked.cost]]), 5.7, "none", style.INK, 1.0))
        caption += " Ring: the solution shown in detail."
    alt = (
        f"Line chart: the cost goes from {number(costs[0])} with {counted(int(ks[0]), 'cluster')} "
        f"to {number(costs[-1])} with {counted(int(ks[-1]), 'cluster')}."
    )
    ticks: Ticks = [(k, str(k)) for k in np.unique(ks).tolist()]
    if len(ticks) > MAX_LABELS:
        ticks = [(value, text) for value, text in round_ticks(*x_limits, 9) if value == round(value)]
    x, y = Axis("Number of clusters", x_limits, ticks), Axis(cost_name(unit), y_limits, has_grid=True)
    return Picture("Cost by number of clusters", caption, alt, 3.4, x, y, [Panel(marks)])


def cost_name(unit: str) -> str:
    """Label of an axis of costs."""
    return f"Expected cost, {unit}" if unit else "Expected cost"


# -- cost by cluster --------------------------------------------------------------------------------------------------


def plot_cost_split(result: Result, *, ax: Axes | None = None) -> Figure:
    """Draw the cost of each cluster: its nodes' own spread, and the excess.

    Only the 20 most expensive clusters have a bar.

    Parameters
    ----------
    result : Result
        Returned by :func:`probi.solve`.
    ax : matplotlib Axes, default=None
        Axes to draw in; None: those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        That of ``ax``, if given.

    Examples
    --------
    >>> import probi
    >>> from probi.report import plot_cost_split
    >>> nodes = probi.Nodes([[0.0], [2.0], [1.0], [9.0]], [0.5, 0.5, 1.0, 1.0], [0, 2, 3, 4])
    >>> figure = plot_cost_split(probi.solve(nodes, 1, random_state=0))
    >>> [float(bar.get_width()) for bar in figure.axes[0].patches]  # spread 1 of the first node, 8 to the last one
    [1.0, 8.0]
    """
    check_result(result)
    return plot(split_picture(result), ax)


def split_picture(result: Result, unit: str = "") -> Picture:
    """One bar for each of the most expensive clusters, in this order: its nodes' own spread, then the excess."""
    costs, spreads = np.nan_to_num(result.clusters.cost), np.nan_to_num(result.clusters.spread)
    # A computed spread may exceed the true one by its tolerance, and then slightly exceed the cost.
    excesses = np.maximum(costs - spreads, 0.0)
    shown = np.argsort(-costs, kind="stable")[:MAX_BARS]
    n = len(shown)
    marks: list[Mark] = [
        Bars("the nodes' own spread", np.zeros(n), spreads[shown], style.SPREAD),
        Bars("distance beyond it", spreads[shown], excesses[shown], style.EXCESS),
    ]
    right = 1.05 * float(np.max((spreads + excesses)[shown])) or 1.0
    x = Axis(cost_name(unit), (0.0, right), has_grid=True)
    # The limits leave a row for the legend.
    y = Axis("Cluster", (n + 0.8, -0.6), [(i, str(c)) for i, c in enumerate(shown)], has_line=False)
    cost, spread = float(np.nansum(result.clusters.cost)), float(np.nansum(result.clusters.spread))
    caption = "The most expensive cluster is at the top. Other centers can reduce only the second part of a bar."
    if cost > 0:
        caption += f" Over all clusters, it is {percent(max(0.0, 1 - spread / cost))} of the cost."
    if n < len(costs):
        others = cost - float(np.nansum(result.clusters.cost[shown]))
        caption += (
            f" The {len(costs) - n:,} cheapest of {len(costs):,} clusters, "
            f"which cost {with_unit(number(others), unit)} together, are left out."
        )
    most = number(float(np.nanmax(result.clusters.cost)))
    alt = f"Bar chart: cluster {shown[0]} costs most, {most} of {number(cost)}."
    return Picture("Where the cost comes from", caption, alt, 1.1 + 0.24 * max(3, n), x, y, [Panel(marks)])


# -- profiles ---------------------------------------------------------------------------------------------------------


def plot_profiles(
    result: Result, nodes: Nodes | ArrayLike, *, features: Sequence[str] | None = None, original: Original | None = None
) -> Figure:
    """Draw each center feature by feature, with bars for the middle half of its cluster's realizations.

    Features are measured in standard deviations from their overall median, so that they share one scale. Only the 60
    features in which the centers differ most and the 24 largest clusters are drawn.

    Parameters
    ----------
    result, nodes, features, original
        As in :func:`plot_clusters`.

    Returns
    -------
    matplotlib.figure.Figure
        A new one.

    Examples
    --------
    >>> import numpy as np, probi
    >>> from probi.report import plot_profiles
    >>> nodes = probi.Nodes.from_points(np.random.default_rng(0).normal(size=(60, 8)))
    >>> figure = plot_profiles(probi.solve(nodes, 2, random_state=0), nodes)
    >>> len(figure.axes)
    2
    """
    return plot(profiles_picture(make_scene(result, nodes, features, original)))


def profiles_picture(scene: Scene) -> Picture:
    """One panel per cluster: its center, feature by feature, with bars for the middle half of its realizations."""
    features, clusters = scene.most_different(MAX_FEATURES), scene.largest(MAX_PANELS).tolist()
    centers = scene.standardized(scene.centers)[:, features]
    bands = [scene.standardized(scene.quartiles(c))[:, features] for c in clusters]
    heights = np.concatenate([np.ravel(values) for values in (centers, *bands)])
    heights = heights[np.isfinite(heights)]
    # On a linear scale, a few extreme values would make all others look equal.
    is_extreme = np.abs(heights).max(initial=0.0) > EXTREME
    scale: Any = symmetric_log if is_extreme else np.asarray
    y_limits = limits(scale(heights))
    names = [short(scene.features[j], MAX_NAME) for j in features]
    panels = [
        Panel(_profile(c, color(c, scene.n_clusters), scale(centers[c]), scale(band), y_limits), _panel_title(scene, c))
        for c, band in zip(clusters, bands, strict=True)
    ]
    n = len(features)
    n_columns = min(4 if n <= 6 else 3 if n <= 12 else 2 if n <= 24 else 1, len(clusters))
    n_rows = -(-len(clusters) // n_columns)
    # A single row of panels must be as high as the label of the y axis is long: two inches.
    height = 0.5 + (0.78 if n_rows > 3 else 1.2 if n_rows > 1 else 2.3) * n_rows + 0.075 * max(map(len, names))
    x = Axis("", (-0.5, n - 0.5), list(enumerate(names)), is_turned=True)
    y = Axis("Standard deviations", y_limits, symmetric_log_ticks(heights) if is_extreme else _few_ticks(y_limits))
    alt = f"Charts of {len(clusters)} centers over {n} features; the table of centers below has the numbers."
    caption = _profiles_caption(scene, features, len(clusters))
    return Picture("What each cluster looks like", caption, alt, height, x, y, panels, n_columns)


def _profile(cluster: int, paint: str, center: Floats, band: Floats, y_limits: tuple[float, float]) -> list[Mark]:
    """Marks of a panel. No line leads from one feature to the next: there is nothing between two of them."""
    n = len(center)
    x = np.arange(n)
    width = 6.0 if n <= 12 else 4.0 if n <= 24 else 2.5
    return [
        Line("rules", *strokes(x, *np.repeat([y_limits], n, axis=0).T), style.LINE, 0.5),
        Line("zero", np.array([-0.5, n - 0.5]), np.zeros(2), style.MUTED, 0.6),
        Line(f"band {cluster}", *strokes(x, *band), paint, width, alpha=0.4),
        Dots(f"center {cluster}", np.column_stack([x, center]), min(1.9, width / 2), paint),
    ]


def _few_ticks(y_limits: tuple[float, float]) -> Ticks:
    """Three ticks or a few more, for a low panel."""
    few = round_ticks(*y_limits, 3, FEW_STEPS)
    return few if len(few) >= 3 else round_ticks(*y_limits, 5, FEW_STEPS)


def _panel_title(scene: Scene, cluster: int) -> str:
    share = f", {percent(scene.shares[cluster])}" if len(scene.features) > 6 else ""
    return f"Cluster {cluster}{share}"


def symmetric_log(heights: Any) -> Any:
    """Heights on a symmetric log scale: linear up to ``LINEAR`` on both sides of 0, logarithmic beyond."""
    slope = 1.0 / (1.0 - 1.0 / 10.0)  # of the linear part, as in matplotlib's "symlog" of base 10
    beyond = np.log10(np.maximum(np.abs(heights), LINEAR) / LINEAR)
    return np.where(np.abs(heights) <= LINEAR, heights * slope, np.sign(heights) * LINEAR * (slope + beyond))


def symmetric_log_ticks(heights: Floats) -> Ticks:
    """Ticks of a symmetric log scale."""
    steps = (2.0, 10.0, 100.0, 1000.0)
    below = [-step for step in reversed(steps) if -step > 1.3 * heights.min()]
    ticks = [*below, 0.0, *(step for step in steps if step < 1.3 * heights.max())]
    return [(float(symmetric_log(tick)), f"{tick:g}".replace("-", "−")) for tick in ticks]


def _profiles_caption(scene: Scene, shown: Integers, n_clusters: int) -> str:
    """What is drawn, and what was left out."""
    caption = (
        "Dots: centers. Bars: the middle half of the realizations of a cluster. "
        "Zero: the median of all nodes; the unit is the standard deviation over all nodes."
    )
    if len(scene.features) > 6:
        caption += " Percentages: fraction of the mass."
    left_out = np.delete(np.arange(len(scene.features)), shown)
    if len(left_out):
        names = enumerated([short(scene.features[j], MAX_NAME) for j in left_out], 8)
        caption += f" Left out, because the centers differ least in them: {names}."
    if n_clusters < scene.n_clusters:
        caption += f" Only the {n_clusters} largest of {scene.n_clusters} clusters are drawn."
    return caption + scene.sample_note
