"""The plots of the report as SVG; they show the same as those of :mod:`probi.report.plots`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probi.report import _chart as chart
from probi.report._chart import PAD, SMALL, WIDTH, Axes, Ticks, limits, path, text
from probi.report._clusters import (
    FAINT,
    NUMBER_SIZE,
    RADIUS,
    STRETCHED,
    Plane,
    alpha_of,
    beside,
    choose_plane,
    clusters_words,
    dot_radii,
    ellipses,
    numbered,
    some_medians,
    some_realizations,
)
from probi.report._costs import MAX_TICKS, cost_bars, cost_name, elbow_curve, elbow_words, floor_limits, split_words
from probi.report._profiles import (
    LONGEST_NAME,
    MAX_FEATURES,
    band_of,
    bar_width,
    columns_of,
    extreme_ticks,
    height_of,
    is_extreme,
    largest,
    name_of,
    profiles_words,
    symmetric_log,
)
from probi.report._scene import Scene
from probi.report._style import DISC, DISC_INK, EXCESS, INK, LINE, MUTED, SPREAD, color, has_colors, marker
from probi.report._words import Words, short
from probi.solver.result import Result

Floats = NDArray[np.float64]

SMALLEST_ELLIPSE = 7.0  # half of its longer axis; a smaller one would only hide the center
N_LAYERS = 12  # layers in which the marks of all clusters alternate on top
RIGHT = 72 * WIDTH - PAD


# -- clusters ---------------------------------------------------------------------------------------------------------

# Around 0, 0; with the sizes of matplotlib's marks.
SMALL_DOT = "M-1.12 0a1.12 1.12 0 1 0 2.24 0a1.12 1.12 0 1 0-2.24 0Z"
SHAPES = {
    "o": "M-1.87 0a1.87 1.87 0 1 0 3.74 0a1.87 1.87 0 1 0-3.74 0Z",
    "s": "M-1.87-1.87h3.74v3.74h-3.74Z",
    "^": "M0-1.87l1.87 3.74h-3.74Z",
}


def clusters_picture(scene: Scene, height: float) -> tuple[str, Words]:
    """Realizations, medians, ellipses and centers in a plane."""
    plane = choose_plane(scene)
    rows, realizations = some_realizations(scene, plane)
    chosen, medians = some_medians(scene, plane)
    labels, k = scene.labels[chosen], scene.n_clusters
    outlines = [half_axes for _, *half_axes in ellipses(scene, plane)] if has_colors(k) else []
    centers = plane.project(scene.coordinates, np.arange(k), np.full(k, 0.5))
    extremes = [middle + sign * np.hypot(*halves) for middle, *halves in outlines for sign in (-1, 1)]
    axes, frame = _plane_axes(plane, np.vstack([realizations, medians, centers, *extremes]), 72 * height)
    parts = list(_marks(axes, scene, rows, realizations, labels, medians))
    parts += frame
    scale = np.array([axes.x(1.0) - axes.x(0.0), axes.y(1.0) - axes.y(0.0)])
    large = [outline for outline in outlines if np.hypot(*(outline[1] * scale)) >= SMALLEST_ELLIPSE]
    for middle, first, second in large:
        points = chart.ellipse(axes.places(middle[None])[0], first * scale, second * scale)
        parts.append(path(points, stroke=INK, width=1.0, more="; stroke-dasharray: 4 2"))
    parts += _centers(axes, scene, centers, np.vstack([realizations, medians]))
    words = clusters_words(scene, plane, len(rows), len(chosen), bool(large))
    return chart.svg(parts, 72 * height, words.alt), words


def _plane_axes(plane: Plane, points: Floats, height: float) -> tuple[Axes, list[str]]:
    x_limits, y_limits = limits(points[:, 0]), limits(points[:, 1])
    y_ticks: Ticks = [] if plane.has_rows else chart.round_ticks(*y_limits, 9)
    left, beside = chart.left_of(y_ticks, plane.y)
    box = (left, PAD + SMALL / 2, RIGHT - SMALL, height - chart.below(plane.x))
    if not plane.has_rows:
        x_limits, y_limits = _one_scale(x_limits, y_limits, (box[2] - box[0]) / (box[3] - box[1]), plane.aspect)
        y_ticks = chart.round_ticks(*y_limits, 9)
    x_ticks = chart.ticks_across(*x_limits, box[2] - box[0])
    axes = Axes(*box, x_limits, y_limits)
    frame = [axes.spine("bottom"), *axes.x_ticks(x_ticks), *axes.names(plane.x, plane.y, beside)]
    return axes, frame if plane.has_rows else [*frame, axes.spine("left"), *axes.y_ticks(y_ticks)]


def _one_scale(
    x: tuple[float, float], y: tuple[float, float], sides: float, aspect: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Extend the limits of one axis to equal scales, unless the plot would become too thin."""
    width, height = x[1] - x[0], aspect * (y[1] - y[0])
    if max(width, height) >= STRETCHED * min(width, height):
        return x, y
    wider, higher = max(sides * height - width, 0.0) / 2, max(width / sides - height, 0.0) / 2 / aspect
    return (x[0] - wider, x[1] + wider), (y[0] - higher, y[1] + higher)


def _marks(
    axes: Axes, scene: Scene, rows: NDArray[Any], realizations: Floats, labels: NDArray[Any], medians: Floats
) -> Iterator[str]:
    """Realizations, then medians."""
    alpha, k = alpha_of(scene, len(rows)), scene.n_clusters
    if alpha > 0:
        yield from _layers(
            axes.places(realizations),
            np.array([color(c, k) for c in scene.owners[rows]]),
            "realization",
            lambda look: (SMALL_DOT, f"fill: {chart.shown(look)}; fill-opacity: {alpha:.2f}"),
        )
    yield from _layers(
        axes.places(medians),
        np.array([f"{color(c, k)}{marker(c, k)}" for c in labels]),
        "median",
        lambda look: (
            SHAPES[look[7:]],
            f"fill: {chart.shown(look[:7])}; stroke: #000000; stroke-opacity: 0.4; stroke-width: 0.3"
            if has_colors(k)
            else f"fill: {chart.shown(look[:7])}; fill-opacity: {FAINT}",
        ),
    )


def _layers(places: Floats, looks: NDArray[Any], name: str, drawn: Callable[[str], tuple[str, str]]) -> Iterator[str]:
    """Marks of several looks in alternating layers, after a definition of each look."""
    kinds = list(dict.fromkeys(looks.tolist()))
    seen: set[str] = set()
    for layer in np.array_split(np.arange(len(looks)), N_LAYERS):
        for i, look in enumerate(kinds):
            marks = chart.marks(places[layer[looks[layer] == look]], f"{name}-{i}")
            if marks and look not in seen:
                seen.add(look)
                yield chart.mark(f"{name}-{i}", *drawn(look))
            yield marks


def _centers(axes: Axes, scene: Scene, centers: Floats, marks: Floats) -> Iterator[str]:
    """A dot at each center, and a disc with its number beside it."""
    k = scene.n_clusters
    fill, stroke = (DISC, DISC_INK) if has_colors(k) else (EXCESS, DISC)
    places, numbers = axes.places(centers), numbered(scene)
    frame = np.array([[axes.left, axes.top], [axes.right, axes.bottom]])
    discs = beside(places, numbers, axes.places(marks), frame)
    for c, disc in zip(numbers.tolist(), discs, strict=True):
        yield path(chart.polyline(*np.array([disc, places[c]]).T), stroke=MUTED, width=0.8)
    for (x, y), radius in zip(places, dot_radii(scene), strict=True):
        if np.isfinite([x, y]).all():
            yield path(_circle(x, y, radius), fill=fill, stroke=stroke, width=0.8)
    for c, (x, y) in zip(numbers.tolist(), discs, strict=True):
        yield path(_circle(x, y, RADIUS), fill=DISC, stroke=color(c, k), width=1.6)
        yield text(x, y, str(c), size=NUMBER_SIZE, color=DISC_INK, anchor="middle", bold=True)


# -- costs ------------------------------------------------------------------------------------------------------------


def elbow_picture(results: Sequence[Result], chosen: int | None, height: float, unit: str = "") -> tuple[str, Words]:
    """Cost over the number of clusters, above the nodes' own spread."""
    ks, costs, errors, floors = elbow_curve(results)
    box = floor_limits(ks, costs + 2 * errors, floors)
    x_limits, y_limits = (limits(ks), limits(costs)) if box is None else box[:2]
    unique = np.unique(ks)
    x_ticks = [(float(k), str(k)) for k in unique] if len(unique) <= MAX_TICKS else chart.whole_ticks(*x_limits, 9)
    y_ticks = chart.round_ticks(*y_limits, 8)
    left, beside = chart.left_of(y_ticks, "y")
    x_name = "Number of clusters"
    axes = Axes(left, PAD + SMALL / 2, RIGHT - SMALL, 72 * height - chart.below(x_name), x_limits, y_limits)
    parts = [axes.grid(ys=y_ticks)]
    if box is not None and box[2] > 0:
        parts += _floor(axes, ks, floors)
    parts += [axes.spine("left"), axes.spine("bottom"), *axes.x_ticks(x_ticks), *axes.y_ticks(y_ticks)]
    parts += axes.names(x_name, cost_name(unit), beside)
    x, y = axes.x(ks), axes.y(costs)
    parts.append(path(chart.polyline(x, y), stroke=EXCESS, width=1.4))
    for at, low, high in zip(x, axes.y(costs - 2 * errors), axes.y(costs + 2 * errors), strict=True):
        if np.isfinite(low) and np.isfinite(high):
            ends = "".join(f"M{chart.length(at - 3)} {chart.length(end)}h6" for end in (low, high))
            parts.append(path(chart.vertical(at, low, high) + ends, stroke=EXCESS, width=1.4))
    parts += [path(_circle(a, b, 2.25), fill=EXCESS) for a, b in zip(x, y, strict=True) if np.isfinite(b)]
    if chosen is not None and np.isfinite(results[chosen].cost):
        best = results[chosen]
        parts.append(path(_circle(axes.x(len(best.centers)), axes.y(best.cost), 5.7), stroke=INK, width=1.0))
    words = elbow_words(ks, costs, errors, floors, chosen, unit)
    return chart.svg(parts, 72 * height, words.alt), words


def _floor(axes: Axes, ks: NDArray[Any], floors: Floats) -> list[str]:
    edges = axes.x(np.concatenate([axes.x_limits[:1], ks, axes.x_limits[1:]]))
    line = axes.y(np.concatenate([floors[:1], floors, floors[-1:]]))
    finite = np.isfinite(line)
    edges, line = edges[finite], line[finite]
    area = chart.polyline(np.append(edges, edges[[-1, 0]]), np.append(line, [axes.bottom] * 2), close=True)
    return [
        path(area, fill=SPREAD, more="; fill-opacity: 0.45"),
        path(chart.polyline(edges, line), stroke=SPREAD, width=1.2),
    ]


def _circle(x: Any, y: Any, radius: float) -> str:
    return chart.ellipse(np.array([float(x), float(y)]), np.array([radius, 0.0]), np.array([0.0, radius]))


def split_picture(result: Result, height: float, unit: str = "") -> tuple[str, Words]:
    """One bar per cluster: its nodes' own spread, then the excess."""
    names, spreads, excesses = cost_bars(result)
    n = len(names)
    right = 1.05 * float(np.max(spreads + excesses)) or 1.0
    y_ticks = [(float(i), name) for i, name in enumerate(names)]
    left, beside = chart.left_of(y_ticks, "y")
    x_ticks = chart.ticks_across(0.0, right, RIGHT - 2 * SMALL - left)
    axes = Axes(left, PAD, RIGHT - 2 * SMALL, 72 * height - chart.below("x"), (0.0, right), (n + 0.8, -0.6))
    rows = np.arange(n)
    first, second = axes.x(spreads), axes.x(spreads + excesses)
    tops, bottoms = axes.y(rows - 0.36), axes.y(rows + 0.36)
    parts = [axes.grid(xs=x_ticks)]
    for ends, starts, paint in ((first, np.full(n, axes.left), SPREAD), (second, first, EXCESS)):
        bars = zip(starts, ends, tops, bottoms, strict=True)
        parts.append(path("".join(_box(*bar) for bar in bars), fill=paint))
    parts += [axes.spine("bottom"), *axes.x_ticks(x_ticks), *axes.y_ticks(y_ticks, 0.0)]
    parts += axes.names(cost_name(unit), "Cluster", beside)
    parts += _legend(axes.left + 4, float(axes.y(n + 0.25)))
    words = split_words(result, names, unit)
    return chart.svg(parts, 72 * height, words.alt), words


def _box(left: float, right: float, top: float, bottom: float) -> str:
    x, y = chart.length(left), chart.length(top)
    return f"M{x} {y}H{chart.length(right)}V{chart.length(bottom)}H{x}Z"


def _legend(x: float, y: float) -> Iterator[str]:
    for paint, words in ((SPREAD, "the nodes' own spread"), (EXCESS, "distance beyond it")):
        yield path(_box(x, x + 17, y - 3, y + 3), fill=paint)
        yield text(x + 23, y, words)
        x += 40 + 0.92 * chart.width_of([words])


# -- profiles ---------------------------------------------------------------------------------------------------------


def profiles_picture(scene: Scene) -> tuple[str, Words]:
    """One panel per cluster: its center, feature by feature, with bars for the middle half of its realizations."""
    features = scene.most_different(MAX_FEATURES)
    clusters = largest(scene)
    centers = scene.standardized(scene.centers)[:, features]
    bands = [band_of(scene, c)[:, features] for c in clusters]
    n_columns = columns_of(len(features), len(clusters))
    height = 72 * height_of(scene, features, len(clusters), n_columns)
    heights = np.concatenate([np.ravel(values) for values in (centers, *bands)])
    heights = heights[np.isfinite(heights)]
    names = [short(scene.features[j], LONGEST_NAME) for j in features]
    parts: list[str] = []
    for i, axes in enumerate(_panels(heights, names, len(clusters), n_columns, height)):
        c = int(clusters[i])
        parts += _panel(axes, color(c, scene.n_clusters), centers[c], bands[i])
        parts.append(text(axes.left, axes.top - 3 - 0.5 * SMALL, name_of(scene, c)))
        if i % n_columns == 0:
            parts += axes.y_ticks(_steps(heights, axes))
        else:
            parts += axes.y_ticks([(value, "") for value, _ in _steps(heights, axes)])[:1]
        if i + n_columns >= len(clusters):  # the lowest panel of its column
            parts += _names(axes, names)
    parts.append(text(PAD + SMALL / 2, height / 2, "Standard deviations", anchor="middle", turned=True))
    words = profiles_words(scene, features, len(clusters))
    return chart.svg(parts, height, words.alt), words


def _panels(heights: Floats, names: list[str], n_panels: int, n_columns: int, height: float) -> Iterator[Axes]:
    """Axes of all panels, row by row, with a common scale."""
    scale = symmetric_log if is_extreme(heights) else chart.plain
    y_limits = limits(scale(heights))
    first = Axes(0, 0, 1, 1, (0, 1), y_limits, scale)
    left = PAD + 1.6 * SMALL + chart.left_of(_steps(heights, first), "")[0] - PAD
    bottom = height - PAD - chart.width_of(names, 0.92 * SMALL) - GAP_BELOW
    n_rows = -(-n_panels // n_columns)
    title = SMALL + 8
    each = (bottom - PAD) / n_rows
    gap = 8.0
    width = (RIGHT - left - gap * (n_columns - 1)) / n_columns
    for i in range(n_panels):
        row, column = divmod(i, n_columns)
        x, top = left + column * (width + gap), PAD + row * each
        yield Axes(x, top + title, x + width, top + each - 3, (-0.5, len(names) - 0.5), y_limits, scale)


GAP_BELOW = 4.0  # between a panel and the names of the features
FEW_STEPS = (1.0, 2.0, 3.0, 5.0, 10.0)  # so that few ticks fill a low panel


def _steps(heights: Floats, axes: Axes) -> Ticks:
    if is_extreme(heights):
        return list(zip(*extreme_ticks(heights), strict=True))
    few = chart.round_ticks(*axes.y_limits, 3, FEW_STEPS)
    return few if len(few) >= 3 else chart.round_ticks(*axes.y_limits, 5, FEW_STEPS)


def _panel(axes: Axes, paint: str, center: Floats, band: Floats) -> Iterator[str]:
    at = axes.x(np.arange(len(center)))
    rules = "".join(chart.vertical(x, axes.bottom, axes.top) for x in at)
    yield path(rules, stroke=LINE, width=0.5)
    yield path(chart.horizontal(float(axes.y(0.0)), axes.left, axes.right), stroke=MUTED, width=0.6)
    wide = bar_width(len(at))
    bars = [
        chart.vertical(x, low, high)
        for x, low, high in zip(at, *axes.y(band), strict=True)
        if np.isfinite([low, high]).all()
    ]
    yield path("".join(bars), stroke=paint, width=wide, more="; stroke-opacity: 0.4")
    dots = "".join(_circle(x, y, min(1.6, wide / 2)) for x, y in zip(at, axes.y(center), strict=True) if np.isfinite(y))
    yield path(dots, fill=paint)
    yield axes.spine("left")
    yield axes.spine("bottom")


def _names(axes: Axes, names: list[str]) -> Iterator[str]:
    for x, name in zip(axes.x(np.arange(len(names))), names, strict=True):
        yield text(float(x), axes.bottom + GAP_BELOW, name, anchor="end", turned=True)
