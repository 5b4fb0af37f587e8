"""A plot, described once: its marks, axes, panels and texts; drawn as SVG for the report, or by :mod:`._matplotlib`.

The report does not use matplotlib, whose import and layout would take longer than the rest of a run. Lengths of SVG are
in points, 1/72 inch; y points down. Its colors and fonts are those of the page.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi._types import Array, Floats, Integers
from probi.report._scene import number

Ticks = Sequence[tuple[float, str]]

# Colors that the page defines by these names, for light and dark mode.
COLORS = {"ink": "#1f2733", "muted": "#667080", "line": "#d9dde3", "spread": "#9fb3c8", "excess": "#33618f"}
INK, MUTED, LINE, SPREAD, EXCESS = COLORS.values()
VARIABLES = {paint: f"var(--{name})" for name, paint in COLORS.items()}
DISC, DISC_INK = "#ffffff", "#1f2732"  # discs stay white on a dark page, so their numbers stay dark

# Paul Tol's "bright" scheme, extended: each next color is the one farthest from all before it, for normal and for
# color-deficient vision; visible on white and on black.
PALETTE = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#9687ff", "#692db4", "#2da596", "#873c1e",
    "#96960f", "#b45ad2", "#ffa5c3", "#e178d2", "#78c396", "#00694b", "#4b78ff", "#c35a0f", "#874bd2", "#966978",
)  # fmt: skip
# Color-blind readers can tell seven colors apart, but not twenty, so each group of seven has its own marker.
SAME_MARKER = 7

SMALL = 10.0  # size of text
# Forms of paths. A shape has the numbers left, middle, radius, diameter.
VERTICAL, HORIZONTAL = "M{0} {1}V{2}", "M{1} {0}H{2}"  # x or y, start, stop
RECTANGLE = "M{0} {2}H{1}V{3}H{0}Z"  # left, right, top, bottom
SHAPES = {
    "o": "M{0} {1}a{2} {2} 0 1 0 {3} 0a{2} {2} 0 1 0-{3} 0Z",
    "s": "M-{2}-{2}H{2}V{2}H-{2}Z",
    "^": "M0-{2}L{2} {2}H-{2}Z",
    "X": "M-{2}-{2}l.5-.5L{2} {2}l-.5 .5ZM-{2} {2}l-.5-.5L{2}-{2}l.5 .5Z",
}
N_CORNERS = 60  # of an ellipse
N_LAYERS = 12  # layers in which the marks of all clusters alternate on top
RADIUS, NUMBER_SIZE = 6.5, 8.5  # of the disc with the number of a cluster, and of the number, in points
N_DIRECTIONS = 16  # in which a disc may be placed

# Of SVG, in points. Narrower than matplotlib's plots, with larger text: readable when scaled to the width of a phone.
WIDTH = 5.2 * 72
PAD = 3.0  # around a plot
TICK = 3.0  # length of a tick
GAP = 3.5  # between a tick and its text, and between that and the name of an axis
BETWEEN = 8.0  # between panels side by side
NAME = SMALL + 0.5  # size of the name of an axis
LINE_HEIGHT = 1.2 * NAME
DIGIT = 0.64  # width of a digit in a wide font, relative to the text size; the reader's font is unknown

MARGIN = 0.05  # fraction of an axis left free at each end
MAX_TICKS = 9
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # between ticks, times a power of ten


def has_colors(n_clusters: int) -> bool:
    """Whether each cluster has its own color; if there are too many, none has."""
    return n_clusters <= len(PALETTE)


def color(cluster: int, n_clusters: int) -> str:
    """Color of a cluster, or of outliers, -1."""
    return PALETTE[cluster] if has_colors(n_clusters) and cluster >= 0 else MUTED


def marker(cluster: int, n_clusters: int) -> str:
    """Marker of a cluster, or of outliers, -1."""
    if cluster < 0:
        return "X"
    return [*SHAPES][cluster // SAME_MARKER if has_colors(n_clusters) else 0]


# -- scales -----------------------------------------------------------------------------------------------------------


def limits(values: Array) -> tuple[float, float]:
    """Limits of an axis that shows all finite values, with a margin."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        around = 0.05 * max(abs(low), abs(high)) or 0.05
        low, high = low - around, high + around
    return low - MARGIN * (high - low), high + MARGIN * (high - low)


def round_ticks(low: float, high: float, at_most: int, steps: Sequence[float] = STEPS) -> Ticks:
    """Round numbers between two limits, with at most the given number of steps."""
    rough = (high - low) / at_most
    if not (math.isfinite(rough) and rough > 0):
        return []
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in steps if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    largest = max(abs(first), abs(last), 1)
    digits = max(6, math.ceil(math.log10(largest)) + 2)
    return [(i * step, number(i * step, digits)) for i in range(first, last + 1)]


def _ticks_across(low: float, high: float, room: float) -> Ticks:
    """Round numbers between two limits, as many as fit side by side."""
    for at_most in range(MAX_TICKS, 1, -1):
        ticks = round_ticks(low, high, at_most)
        if len(ticks) * (_width_of(ticks) + SMALL) <= room:
            return ticks
    return round_ticks(low, high, 1)


def _width_of(ticks: Ticks, size: float = SMALL) -> float:
    """Width of the longest label."""
    return DIGIT * size * max((len(label) for _, label in ticks), default=0)


# -- SVG --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """A rectangle of the plot, and the mapping of values to it."""

    left: float
    top: float
    right: float
    bottom: float
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]  # at the bottom and at the top

    def x(self, values: ArrayLike) -> Any:
        """Horizontal positions of values."""
        low, high = self.x_limits
        return self.left + (np.asarray(values, np.float64) - low) / (high - low) * (self.right - self.left)

    def y(self, values: ArrayLike) -> Any:
        """Vertical positions of values, from the top."""
        low, high = self.y_limits
        return self.bottom - (np.asarray(values, np.float64) - low) / (high - low) * (self.bottom - self.top)

    def places(self, points: Floats) -> Floats:
        """Positions of points, (n, 2)."""
        return np.column_stack([self.x(points[:, 0]), self.y(points[:, 1])])


def css_color(color: str) -> str:
    """A color as the page defines it."""
    return VARIABLES.get(color, color)


def length(value: float) -> str:
    """A length, to a hundredth of a point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def path(
    points: Sequence[str], *, stroke: str = "none", width: float = 0.0, fill: str = "none", alpha: float = 1.0,
    more: str = "",
) -> str:  # fmt: skip
    """A path with a fill color, an outline color, or both; nothing if there are no points."""
    paint = f"fill: {css_color(fill)}"
    if width:
        paint += f"; stroke: {css_color(stroke)}; stroke-width: {length(width)}"
    if alpha < 1.0:
        paint += f"; {'fill' if fill != 'none' else 'stroke'}-opacity: {length(alpha)}"
    return f'<path d="{"".join(points)}" style="{paint}{more}"/>' if points else ""


def text(
    x: float, y: float, content: str, *, size: float = SMALL, color: str = INK, anchor: str = "start",
    turned: bool = False, bold: bool = False,
) -> str:  # fmt: skip
    """One line of text, vertically centered; it reads upward if ``turned``."""
    base = f' transform="rotate(-90 {length(x)} {length(y)})"' if turned else ""
    style = f"font: {'bold ' * bold}{length(size)}px var(--sans); text-anchor: {anchor}; fill: {css_color(color)}"
    return (
        f'<text x="{length(x)}" y="{length(y)}" dy="0.35em"{base} style="{style}">{escape(content, quote=False)}</text>'
    )


def outlines(form: str, *numbers: ArrayLike) -> list[str]:
    """Points of paths of one form, one per row of the numbers; none where a number is missing."""
    rows = np.column_stack([np.ravel(each) for each in np.broadcast_arrays(*numbers)])
    return [form.format(*map(length, row)) for row in rows[np.isfinite(rows).all(axis=1)].tolist()]


def stamps(shape: str, places: Floats, radius: float | Floats) -> list[str]:
    """Points of paths of a shape, one around each place."""
    return outlines(SHAPES[shape], places[:, 0] - radius, places[:, 1], radius, 2 * radius)


def polyline(x: Floats, y: Floats) -> str:
    """Points of a path that is interrupted at missing ones."""
    steps, pen = "", "M"
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        is_finite = math.isfinite(a) and math.isfinite(b)
        steps += f"{pen}{length(a)} {length(b)}" if is_finite else ""
        pen = "L" if is_finite else "M"
    return steps


# -- marks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """A line through points, interrupted where one is missing; and the area below it, if that has an opacity."""

    name: str
    x: Array
    y: Array
    color: str
    width: float
    alpha: float = 1.0
    area: float = 0.0
    dashed: bool = False

    def svg(self, box: Box) -> Iterator[str]:
        """A path, and one of the area."""
        x, y = box.x(self.x), box.y(self.y)
        if self.area:
            finite = np.isfinite(y)
            below = np.append(x[finite], x[finite][[-1, 0]]), np.append(y[finite], [box.bottom] * 2)
            yield path(polyline(*below) + "Z", fill=self.color, alpha=self.area)
        dashes = "; stroke-dasharray: 4 2" if self.dashed else ""
        yield path(polyline(x, y), stroke=self.color, width=self.width, alpha=self.alpha, more=dashes)


def strokes(x: Array, low: Array, high: Array) -> tuple[Floats, Floats]:
    """Points of a :class:`Line` that consists of vertical strokes."""
    gap = np.full(len(x), np.nan)
    return np.repeat(np.asarray(x, np.float64), 3), np.column_stack([low, high, gap]).reshape(-1)


def ellipse(middle: Floats, longer: Floats, shorter: Floats) -> tuple[Floats, Floats]:
    """Points of a :class:`Line` that is an ellipse with these half axes."""
    turns = np.linspace(0.0, 2 * np.pi, N_CORNERS + 1)
    x, y = (middle + np.cos(turns)[:, None] * longer + np.sin(turns)[:, None] * shorter).T
    return x, y


@dataclass(frozen=True, eq=False)
class Dots:
    """Dots of one color, or many of several colors and shapes: "o", "s", "^" or "X"."""

    name: str
    points: Floats  # (n, 2)
    radius: float | Floats  # in points
    fill: str | Sequence[str]
    edge: str = "none"
    width: float = 0.0  # of the edge
    alpha: float = 1.0
    shapes: Sequence[str] = ()

    def svg(self, box: Box) -> Iterator[str]:
        """Paths, or marks in alternating layers after a definition of each look."""
        places = box.places(self.points)
        edge: dict[str, Any] = {"stroke": self.edge, "width": self.width, "alpha": self.alpha}
        if isinstance(self.fill, str):
            circles = stamps("o", places, self.radius)
            yield from (path(points, fill=self.fill, **edge) for points in (circles if self.width else [circles]))
            return
        finite = np.isfinite(places).all(axis=1)
        looks = np.array([f"{fill}{shape}" for fill, shape in zip(self.fill, self.shapes, strict=True)])
        kinds, look_of = np.unique(looks[finite], return_inverse=True)
        for i, look in enumerate(kinds.tolist()):
            mark = path(stamps(look[7:], np.zeros((1, 2)), self.radius), fill=look[:7], **edge)
            size = 'markerUnits="userSpaceOnUse" markerWidth="1" markerHeight="1" overflow="visible"'
            yield f'<marker id="{self.name}-{i}" {size}>{mark}</marker>'
        layers = np.array_split(places[finite], N_LAYERS), np.array_split(look_of, N_LAYERS)
        for some, looks_of_some in zip(*layers, strict=True):
            for i in range(len(kinds)):
                points = " ".join(f"{x:.1f},{y:.1f}" for x, y in some[looks_of_some == i].tolist())
                style = f"fill: none; marker: url(#{self.name}-{i})"
                yield f'<polyline points="{points}" style="{style}"/>' if points else ""


@dataclass(frozen=True, eq=False)
class Bars:
    """Horizontal bars, one per row; their name is in the legend."""

    name: str
    starts: Floats
    lengths: Floats
    color: str

    def svg(self, box: Box) -> Iterator[str]:
        """One path."""
        rows = np.arange(len(self.starts))
        ends = box.x(self.starts), box.x(self.starts + self.lengths)
        yield path(outlines(RECTANGLE, *ends, box.y(rows - 0.36), box.y(rows + 0.36)), fill=self.color)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Discs with the numbers of some centers, beside them, or on them if there is nothing to hide."""

    name: str
    centers: Floats  # (n_clusters, 2): all of them
    numbers: Integers
    colors: Sequence[str]
    marks: Floats | None  # what discs should not hide

    def svg(self, box: Box) -> Iterator[str]:
        """Lines to the centers, then discs."""
        places = box.places(self.centers)
        discs = places[self.numbers]
        if self.marks is not None:
            frame = np.array([[box.left, box.top], [box.right, box.bottom]])
            discs = place_discs(places, self.numbers, box.places(self.marks), frame)
            towards = places[self.numbers] - discs
            ends = discs + towards * (1.0 - 3.0 / np.hypot(*towards.T))[:, None]
            yield path(outlines("M{} {}L{} {}", *discs.T, *ends.T), stroke=MUTED, width=0.8)
        circles = stamps("o", discs, RADIUS)
        for c, paint, (x, y), circle in zip(self.numbers, self.colors, discs, circles, strict=True):
            yield path(circle, fill=DISC, stroke=paint, width=1.6)
            yield text(x, y, str(c), size=NUMBER_SIZE, color=DISC_INK, anchor="middle", bold=True)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a grid between edges of columns and of rows, each in the color of its label; none below 0."""

    name: str
    x: Floats  # (n_columns + 1,)
    y: Floats  # (n_rows + 1,)
    labels: Integers  # (n_rows, n_columns)
    colors: Sequence[str]

    def svg(self, box: Box) -> Iterator[str]:
        """A path per label, of runs of cells within rows."""
        x, y = box.x(self.x), box.y(self.y)
        rows, starts, stops, owners = _runs(self.labels)
        for label in np.unique(owners[owners >= 0]).tolist():
            own = owners == label
            runs = outlines(RECTANGLE, x[starts[own]], x[stops[own]], y[rows[own]], y[rows[own] + 1])
            yield path(runs, fill=self.colors[label], more="; shape-rendering: crispEdges")


def _runs(labels: Integers) -> tuple[Integers, Integers, Integers, Integers]:
    """Row, first column, column after the last, and label of each run of equal labels within a row."""
    n_columns = labels.shape[1]
    is_start = np.ones(labels.shape, np.bool_)
    is_start[:, 1:] = labels[:, 1:] != labels[:, :-1]
    first = np.flatnonzero(is_start)
    rows = first // n_columns
    return rows, first % n_columns, np.append(first[1:], labels.size) - rows * n_columns, labels.reshape(-1)[first]


# Something drawn in the units of the axes; its name finds it in a figure of matplotlib.
Mark = Line | Dots | Bars | Numbers | Cells


def place_discs(centers: Floats, numbers: Integers, marks: Floats, frame: Floats) -> Floats:
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
    marks, dots = (some[np.isfinite(some).all(axis=1)] for some in (marks, centers))
    low, high = frame.min(axis=0) + RADIUS, frame.max(axis=0) - RADIUS
    placed = np.empty((0, 2))
    for c in numbers.tolist():
        spots = centers[c] + shifts
        costs = np.repeat(distances / RADIUS, N_DIRECTIONS)
        costs += 2.0 * _n_within(spots, marks, RADIUS + 1) + 60.0 * _n_within(spots, dots, RADIUS + 3)
        costs += 600.0 * _n_within(spots, placed, 2 * RADIUS + 2)
        costs += 1e6 * ((spots < low) | (spots > high)).any(axis=1)
        placed = np.vstack([placed, spots[costs.argmin()]])
    return placed


def _n_within(spots: Floats, others: Floats, radius: float) -> Floats:
    """How many of the others are within the radius of each spot."""
    near = np.abs(spots[:, None, 0] - others[:, 0]) ** 2 + (spots[:, None, 1] - others[:, 1]) ** 2 < radius**2
    return np.asarray(near.sum(axis=1), np.float64)


# -- pictures ---------------------------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """An axis of all panels of a picture."""

    name: str
    limits: tuple[float, float]
    ticks: Ticks | None = None  # None: round numbers
    is_turned: bool = False  # whether labels of ticks read upward
    has_line: bool = True  # and ticks
    has_grid: bool = False


class Panel(NamedTuple):
    """Marks in one rectangle; those of a picture with several have titles."""

    marks: list[Mark]
    title: str = ""


class Picture(NamedTuple):
    """A plot: panels with the same axes, row by row, with title and caption."""

    title: str
    caption: str
    alt: str
    height: float  # in inches
    x: Axis
    y: Axis
    panels: list[Panel]
    n_columns: int = 1
    aspect: float | None = None  # length of one unit of y, in units of x; None: separate scales

    def svg(self) -> str:
        """The picture for the report."""
        boxes, x_ticks, y_ticks = self._layout()
        parts: list[str] = []
        for i, (box, panel) in enumerate(zip(boxes, self.panels, strict=True)):
            is_lowest, is_first = i + self.n_columns >= len(boxes), i % self.n_columns == 0
            parts += self._frame(box, x_ticks, y_ticks, is_lowest, is_first)
            parts.append(text(box.left, box.top - 3 - 0.5 * SMALL, panel.title) if panel.title else "")
            for mark in panel.marks:
                parts += mark.svg(box)
        parts += self._names(boxes, x_ticks, y_ticks)
        parts += self._legend(boxes[0])
        view = f"0 0 {length(WIDTH)} {length(72 * self.height)}"
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" role="img" aria-label="{escape(self.alt)}">'
        return head + "\n".join(part for part in parts if part) + "</svg>"

    def _layout(self) -> tuple[list[Box], Ticks, Ticks]:
        """Boxes of all panels, and the ticks of both axes."""
        x_limits, y_limits = self.x.limits, self.y.limits
        y_ticks = self._y_ticks(y_limits)
        left = PAD + self._beside(y_ticks) + LINE_HEIGHT * len(self.y.name.splitlines())
        right = WIDTH - PAD - (0.0 if self.x.is_turned else SMALL)
        bottom = 72 * self.height - PAD - self._below(self.x.ticks or []) - LINE_HEIGHT * len(self.x.name.splitlines())
        width = (right - left - BETWEEN * (self.n_columns - 1)) / self.n_columns
        height = (bottom - PAD) / self.n_rows
        above, under = (SMALL + 8, 3.0) if self.panels[0].title else (SMALL / 2, 0.0)
        if self.aspect is not None:
            sides = width / (height - above)
            x_limits, y_limits = _one_scale(x_limits, y_limits, sides, self.aspect)
            y_ticks = self._y_ticks(y_limits)
        boxes = []
        for i in range(len(self.panels)):
            row, column = divmod(i, self.n_columns)
            x, top = left + column * (width + BETWEEN), PAD + row * height
            boxes.append(Box(x, top + above, x + width, top + height - under, x_limits, y_limits))
        return boxes, _ticks_across(*x_limits, width) if self.x.ticks is None else self.x.ticks, y_ticks

    @property
    def n_rows(self) -> int:
        """Rows of panels."""
        return -(-len(self.panels) // self.n_columns)

    def _y_ticks(self, limits: tuple[float, float]) -> Ticks:
        return round_ticks(*limits, MAX_TICKS) if self.y.ticks is None else self.y.ticks

    def _beside(self, ticks: Ticks) -> float:
        """Space for the ticks of the y axis."""
        return TICK + 2 * GAP + _width_of(ticks)

    def _below(self, ticks: Ticks) -> float:
        """Space for the ticks of the x axis."""
        return GAP + (_width_of(ticks, 0.92 * SMALL) if self.x.is_turned else TICK + GAP + SMALL)

    def _frame(self, box: Box, x_ticks: Ticks, y_ticks: Ticks, is_lowest: bool, is_first: bool) -> Iterator[str]:
        """Grid, lines of the axes, ticks and their labels."""
        across, up = box.x([value for value, _ in x_ticks]), box.y([value for value, _ in y_ticks])
        grid = outlines(VERTICAL, across, box.top, box.bottom) if self.x.has_grid else []
        grid += outlines(HORIZONTAL, up, box.left, box.right) if self.y.has_grid else []
        yield path(grid, stroke=LINE, width=0.6)
        turned = self.x.is_turned
        lines = outlines(HORIZONTAL, box.bottom, box.left, box.right)
        if is_lowest and not turned:
            lines += outlines(VERTICAL, across, box.bottom, box.bottom + TICK)
        if self.y.has_line:
            lines += outlines(VERTICAL, box.left, box.top, box.bottom)
            lines += outlines(HORIZONTAL, up, box.left, box.left - TICK)
        yield path(lines, stroke=MUTED, width=0.6)
        below, anchor = (GAP, "end") if turned else (TICK + GAP + 0.5 * SMALL, "middle")
        for x, (_, label) in zip(across, x_ticks, strict=True) if is_lowest else ():
            yield text(x, box.bottom + below, label, anchor=anchor, turned=turned)
        for y, (_, label) in zip(up, y_ticks, strict=True) if is_first else ():
            yield text(box.left - TICK - GAP, y, label, anchor="end")

    def _names(self, boxes: list[Box], x_ticks: Ticks, y_ticks: Ticks) -> Iterator[str]:
        """Names of the axes, in the middle of all panels."""
        first, last = boxes[0], boxes[-1]
        below = last.bottom + self._below(x_ticks) + 0.5 * NAME
        for i, line in enumerate(self.x.name.splitlines()):
            middle = (first.left + last.right) / 2
            yield text(middle, below + i * LINE_HEIGHT, line, size=NAME, anchor="middle")
        lines = self.y.name.splitlines()
        start = first.left - self._beside(y_ticks) - (len(lines) - 0.5) * LINE_HEIGHT
        for i, line in enumerate(lines):
            middle = (first.top + last.bottom) / 2
            yield text(start + i * LINE_HEIGHT, middle, line, size=NAME, anchor="middle", turned=True)

    def _legend(self, box: Box) -> Iterator[str]:
        """Colors of bars, below the last one."""
        x = box.left + 4
        for bars in self.panels[0].marks:
            if isinstance(bars, Bars):
                y = float(box.y(len(bars.starts) + 0.25))
                yield path(outlines(RECTANGLE, x, x + 17, y - 3, y + 3), fill=bars.color)
                yield text(x + 23, y, bars.name)
                x += 40 + 0.92 * DIGIT * SMALL * len(bars.name)


def _one_scale(
    x: tuple[float, float], y: tuple[float, float], sides: float, aspect: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Extend the limits of one axis to equal scales."""
    width, height = x[1] - x[0], aspect * (y[1] - y[0])
    wider, higher = max(sides * height - width, 0.0) / 2, max(width / sides - height, 0.0) / 2 / aspect
    return (x[0] - wider, x[1] + wider), (y[0] - higher, y[1] + higher)
