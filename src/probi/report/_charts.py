"""The plots of costs and of profiles: cost by number of clusters, by cluster, and centers feature by feature."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probi._notes import counted
from probi._types import Floats, Integers
from probi.report import _style as style
from probi.report._marks import Bars, Dots, Line, Mark, strokes
from probi.report._picture import Axis, Panel, Picture, Ticks, limits, round_ticks
from probi.report._scene import Scene, quantiles
from probi.report._style import Words, color, enumerated, measured, number, percent, short
from probi.solver.result import Result

MAX_LABELS = 16  # numbers of clusters that fit below an axis
MAX_BARS = 20  # the most expensive clusters have one

MAX_FEATURES, MAX_PANELS = 60, 24
LONGEST_NAME = 22  # characters below a panel
LINEAR = 2.0  # standard deviations up to which a scale that must also show extremes is an ordinary one
EXTREME = 6.0  # where such a scale begins to be worth it
FEW_STEPS = (1.0, 2.0, 3.0, 5.0, 10.0)  # so that few ticks fill a low panel


# -- cost by number of clusters ---------------------------------------------------------------------------------------


def elbow_picture(results: Sequence[Result], chosen: int | None, unit: str = "") -> Picture:
    """Cost over the number of clusters, above the nodes' own spread."""
    ks, costs, errors, floors = elbow_curve(results)
    box = floor_limits(ks, costs + 2 * errors, floors)
    x_limits, y_limits = (limits(ks), limits(costs)) if box is None else box[:2]
    marks: list[Mark] = []
    if box is not None and box[2] > 0:
        edges, line = (
            np.concatenate([x_limits[:1], ks, x_limits[1:]]),
            np.concatenate([floors[:1], floors, floors[-1:]]),
        )
        marks.append(Line("floor", edges, line, style.SPREAD, 1.2, area=0.45))
    marks.append(Line("cost", ks, costs, style.EXCESS, 1.4))
    marks.append(Line("errors", *strokes(ks, costs - 2 * errors, costs + 2 * errors), style.EXCESS, 5.0, alpha=0.4))
    marks.append(Dots("costs", np.column_stack([ks, costs]), 2.5, style.EXCESS))
    if chosen is not None:
        best = results[chosen]
        marks.append(Dots("chosen", np.array([[len(best.centers), best.cost]]), 5.7, "none", style.INK, 1.0))
    ticks: Ticks = [(k, str(k)) for k in np.unique(ks).tolist()]
    if len(ticks) > MAX_LABELS:
        ticks = [(value, text) for value, text in round_ticks(*x_limits, 9) if value == round(value)]
    x, y = Axis("Number of clusters", x_limits, ticks), Axis(cost_name(unit), y_limits, has_grid=True)
    return Picture(elbow_words(ks, costs, errors, floors, chosen, unit), 3.4, x, y, [Panel(marks)])


def cost_name(unit: str) -> str:
    """Label of an axis of costs."""
    return f"Expected cost, {unit}" if unit else "Expected cost"


def elbow_curve(results: Sequence[Result]) -> tuple[Integers, Floats, Floats, Floats]:
    """Numbers of clusters, in order, with costs, standard errors and spreads."""
    order = sorted(range(len(results)), key=lambda i: len(results[i].centers))
    ks = np.array([len(results[i].centers) for i in order])
    costs, errors, floors = (
        np.array([getattr(results[i], name) for i in order], np.float64)
        for name in ("cost", "standard_error", "spread_cost")
    )
    return ks, costs, errors, floors


def floor_limits(
    ks: Integers, tops: Floats, floors: Floats
) -> tuple[tuple[float, float], tuple[float, float], float] | None:
    """Limits of both axes such that the spread is visible, and its height; None if nothing is finite."""
    floor = float(np.nanmin(floors, initial=np.inf))
    top = float(np.nanmax(tops, initial=-np.inf))
    if not (np.isfinite(floor) and np.isfinite(top)):
        return None
    height = max(top - floor, 1e-3 * abs(top)) or 1.0
    pad = max(0.4, 0.04 * (ks[-1] - ks[0]))
    return (ks[0] - pad, ks[-1] + pad), (max(floor - 0.16 * height, 0.0), top + 0.08 * height), floor


def elbow_words(
    ks: Integers, costs: Floats, errors: Floats, floors: Floats, chosen: int | None, unit: str = ""
) -> Words:
    """Describe the plot."""
    alt = (
        f"Line chart: the cost goes from {number(costs[0])} with {counted(int(ks[0]), 'cluster')} "
        f"to {number(costs[-1])} with {counted(int(ks[-1]), 'cluster')}."
    )
    return Words("Cost by number of clusters", _elbow_caption(errors, floors, chosen, unit), alt)


def _elbow_caption(errors: Floats, floors: Floats, chosen: int | None, unit: str) -> str:
    caption = "Every further cluster lowers the cost; how many to use depends on their purpose."
    if np.any(errors > 0):
        caption += " Bars: two standard errors in each direction."
    floor = float(np.nanmin(floors, initial=np.inf))
    if 0 < floor < np.inf:
        caption += f" Shaded: the nodes' own spread, {measured(number(floor), unit)}; no clustering costs less."
    if chosen is not None:
        caption += " Ring: the solution shown in detail."
    return caption


# -- cost by cluster --------------------------------------------------------------------------------------------------


def split_picture(result: Result, unit: str = "") -> Picture:
    """One bar per cluster: its nodes' own spread, then the excess."""
    names, spreads, excesses = cost_bars(result)
    n = len(names)
    right = 1.05 * float(np.max(spreads + excesses)) or 1.0
    x = Axis(cost_name(unit), (0.0, right), has_grid=True)
    # The legend has its own row.
    y = Axis("Cluster", (n + 0.8, -0.6), [(i, name) for i, name in enumerate(names)], has_line=False)
    marks: list[Mark] = [
        Bars("the nodes' own spread", np.zeros(n), spreads, style.SPREAD),
        Bars("distance beyond it", spreads, excesses, style.EXCESS),
    ]
    return Picture(split_words(result, names, unit), 1.1 + 0.24 * max(3, n), x, y, [Panel(marks)])


def cost_bars(result: Result) -> tuple[list[str], Floats, Floats]:
    """Names, spreads and excesses of the most expensive clusters, in this order."""
    clusters = result.clusters
    costs, spreads = np.nan_to_num(clusters.cost), np.nan_to_num(clusters.spread)
    order = np.argsort(-costs, kind="stable")
    # A computed spread may exceed the true one by its tolerance, and then slightly exceed the cost.
    excesses = np.maximum(costs - spreads, 0.0)
    kept = order[:MAX_BARS]
    return [str(c) for c in kept], spreads[kept], excesses[kept]


def split_words(result: Result, names: list[str], unit: str = "") -> Words:
    """Describe the plot."""
    clusters = result.clusters
    cost, spread = float(np.nansum(clusters.cost)), float(np.nansum(clusters.spread))
    caption = "The most expensive cluster is at the top. Other centers can reduce only the second part of a bar."
    if cost > 0:
        caption += f" Over all clusters, it is {percent(max(0.0, 1 - spread / cost))} of the cost."
    n_others = len(clusters.cost) - len(names)
    if n_others > 0:
        others = cost - float(np.nansum(clusters.cost[[int(name) for name in names]]))
        caption += (
            f" The {n_others:,} cheapest of {len(clusters.cost):,} clusters, "
            f"which cost {measured(number(others), unit)} together, are left out."
        )
    alt = f"Bar chart: cluster {names[0]} costs most, {number(float(np.nanmax(clusters.cost)))} of {number(cost)}."
    return Words("Where the cost comes from", caption, alt)


# -- profiles ---------------------------------------------------------------------------------------------------------


def profiles_picture(scene: Scene) -> Picture:
    """One panel per cluster: its center, feature by feature, with bars for the middle half of its realizations."""
    features = scene.most_different(MAX_FEATURES)
    clusters = largest(scene)
    centers = scene.standardized(scene.centers)[:, features]
    bands = [band_of(scene, c)[:, features] for c in clusters]
    heights = np.concatenate([np.ravel(values) for values in (centers, *bands)])
    heights = heights[np.isfinite(heights)]
    scale: Any = symmetric_log if is_extreme(heights) else np.asarray
    y_limits = limits(scale(heights))
    y_ticks = extreme_ticks(heights) if is_extreme(heights) else _few_ticks(y_limits)
    names = [short(scene.features[j], LONGEST_NAME) for j in features]
    panels = [
        Panel(_profile(c, color(c, scene.n_clusters), scale(centers[c]), scale(band), y_limits), name_of(scene, c))
        for c, band in zip(clusters.tolist(), bands, strict=True)
    ]
    n_columns = columns_of(len(features), len(clusters))
    height = height_of(-(-len(clusters) // n_columns), max(map(len, names)))
    x = Axis("", (-0.5, len(names) - 0.5), list(enumerate(names)), is_turned=True)
    y = Axis("Standard deviations", y_limits, y_ticks)
    return Picture(profiles_words(scene, features, len(clusters)), height, x, y, panels, n_columns)


def _profile(cluster: int, paint: str, center: Floats, band: Floats, y_limits: tuple[float, float]) -> list[Mark]:
    """Marks of a panel. No line leads from one feature to the next: there is nothing between two of them."""
    n = len(center)
    at = np.arange(n)
    wide = 6.0 if n <= 12 else 4.0 if n <= 24 else 2.5
    return [
        Line("rules", *strokes(at, *np.repeat([y_limits], n, axis=0).T), style.LINE, 0.5),
        Line("zero", np.array([-0.5, n - 0.5]), np.zeros(2), style.MUTED, 0.6),
        Line(f"band {cluster}", *strokes(at, *band), paint, wide, alpha=0.4),
        Dots(f"center {cluster}", np.column_stack([at, center]), min(1.9, wide / 2), paint),
    ]


def _few_ticks(y_limits: tuple[float, float]) -> Ticks:
    few = round_ticks(*y_limits, 3, FEW_STEPS)
    return few if len(few) >= 3 else round_ticks(*y_limits, 5, FEW_STEPS)


def largest(scene: Scene) -> Integers:
    """Clusters to draw: all, or those with the largest mass, in order."""
    return np.sort(np.argsort(-scene.cluster_masses, kind="stable")[:MAX_PANELS])


def band_of(scene: Scene, cluster: int) -> Floats:
    """Quartiles of a cluster's realizations, (2, d')."""
    inside = scene.members[cluster]
    return scene.standardized(quantiles(scene.values[inside], scene.masses[inside], (0.25, 0.75)))


def columns_of(n_features: int, n_clusters: int) -> int:
    """Panels side by side."""
    wanted = 4 if n_features <= 6 else 3 if n_features <= 12 else 2 if n_features <= 24 else 1
    return min(wanted, n_clusters)


def height_of(n_rows: int, longest_name: int) -> float:
    """Height of the plot, in inches."""
    # The label beside a single row of panels is as long as two inches.
    return 0.5 + (0.78 if n_rows > 3 else 1.2 if n_rows > 1 else 2.3) * n_rows + 0.075 * longest_name


def name_of(scene: Scene, cluster: int) -> str:
    """Title of a panel."""
    mass = scene.cluster_masses
    share = mass[cluster] / mass.sum() if mass.sum() > 0 else np.nan
    return f"Cluster {cluster}, {percent(share)}" if len(scene.features) > 6 else f"Cluster {cluster}"


def is_extreme(heights: Floats) -> bool:
    """Whether some values are so extreme that a linear scale would hide the others."""
    return bool(np.abs(heights).max(initial=0.0) > EXTREME)


def symmetric_log(heights: Any) -> Any:
    """The scale that also shows extremes, as matplotlib has it: linear in the middle, logarithmic beyond."""
    middle = 1.0 / (1.0 - 1.0 / 10.0)
    beyond = np.log10(np.maximum(np.abs(heights), LINEAR) / LINEAR)
    return np.where(np.abs(heights) <= LINEAR, heights * middle, np.sign(heights) * LINEAR * (middle + beyond))


def extreme_ticks(heights: Floats) -> Ticks:
    """Ticks of such a scale."""
    steps = [step for step in (2.0, 10.0, 100.0, 1000.0) if step < 1.3 * np.abs(heights).max()]
    below = [-step for step in reversed(steps) if -step > 1.3 * heights.min()]
    ticks = [*below, 0.0, *(step for step in steps if step < 1.3 * heights.max())]
    return [(float(symmetric_log(tick)), f"{tick:g}".replace("-", "−")) for tick in ticks]


def profiles_words(scene: Scene, shown: Integers, n_clusters: int) -> Words:
    """Describe the plot, and what was left out."""
    caption = (
        "Dots: centers. Bars: the middle half of the realizations of a cluster. "
        "Zero: the median of all nodes; the unit is the standard deviation over all nodes."
    )
    if len(scene.features) > 6:
        caption += " Percentages: fraction of the mass."
    left_out = [name for j, name in enumerate(scene.features) if j not in set(shown.tolist())]
    if left_out:
        names = enumerated([short(name, LONGEST_NAME) for name in left_out], 8)
        caption += f" Left out, because the centers differ least in them: {names}."
    if n_clusters < scene.n_clusters:
        caption += f" Only the {n_clusters} largest of {scene.n_clusters} clusters are drawn."
    alt = f"Charts of {n_clusters} centers over {len(shown)} features; the table of centers below has the numbers."
    return Words("What each cluster looks like", caption + scene.part, alt)
