"""Marks of plots, in the units of the axes: each is drawn as SVG for the report, or by matplotlib.

The report does not use matplotlib, whose import and layout would take longer than the rest of a run. Lengths of SVG are
in points, 1/72 inch; y points down. Its colors and fonts are those of the page.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from probi._types import Array, Floats, Integers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

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

# Names of features are plain text of matplotlib, never formulas: "$" is a dollar sign.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}


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

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """A line, and the area."""
        if self.area:
            floor = axes.get_ylim()[0]
            axes.fill_between(self.x, floor, self.y, color=self.color, alpha=self.area, linewidth=0, **look)
        axes.plot(
            self.x, self.y, color=paint_of(axes, self.color), linewidth=self.width, alpha=self.alpha,
            linestyle=(0, (4, 2)) if self.dashed else "-", solid_capstyle="butt", **look,
        )  # fmt: skip


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

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """A collection for each shape."""
        shapes = np.array(self.shapes or ["o"] * len(self.points))
        for shape in np.unique(shapes):
            inside = shapes == shape
            x, y = self.points[inside].T
            fill = self.fill if isinstance(self.fill, str) else np.array(self.fill)[inside].tolist()
            axes.scatter(
                x, y, s=np.square(2 * self.radius), facecolors=fill, marker=str(shape),
                edgecolors=paint_of(axes, self.edge), alpha=None if self.alpha == 1.0 else self.alpha,
                linewidths=self.width, rasterized=fill is not self.fill, **look,
            )  # fmt: skip


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

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """A container."""
        rows = np.arange(len(self.starts))
        axes.barh(rows, self.lengths, 0.72, left=self.starts, color=self.color, label=self.name, **look)


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

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """Annotations."""
        figure = root_figure(axes)
        figure.draw_without_rendering()  # the layout determines the size of the axes
        shifts = np.zeros((len(self.numbers), 2))
        if self.marks is not None:
            places, marks = (axes.transData.transform(some) * 72 / figure.dpi for some in (self.centers, self.marks))
            frame = axes.get_window_extent().get_points() * 72 / figure.dpi
            shifts = place_discs(places, self.numbers, marks, frame) - places[self.numbers]
        for c, paint, shift in zip(self.numbers, self.colors, shifts, strict=True):
            axes.annotate(
                str(c), tuple(self.centers[c]), xytext=tuple(shift), textcoords="offset points", ha="center",
                va="center", fontsize=NUMBER_SIZE, fontweight="bold", color=DISC_INK, annotation_clip=False,
                bbox={"boxstyle": disc, "facecolor": DISC, "edgecolor": paint, "linewidth": 1.6},
                arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8, "shrinkB": 2}, **look, **PLAIN,
            )  # fmt: skip


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

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """A mesh."""
        from matplotlib.colors import ListedColormap

        axes.pcolormesh(
            self.x, self.y, np.ma.masked_less(self.labels, 0), cmap=ListedColormap(list(self.colors)), vmin=-0.5,
            vmax=len(self.colors) - 0.5, rasterized=True, **look,
        )  # fmt: skip


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


def disc(x: float, y: float, width: float, height: float, size: float) -> "Path":
    """A circular box around text, of the same size for all texts."""
    from matplotlib.path import Path

    return Path.circle((x + width / 2, y + height / 2), RADIUS / NUMBER_SIZE * size)


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


def paint_of(axes: "Axes", color: str) -> str:
    """A color; ink is that of text in these axes, which may be the user's."""
    from matplotlib.colors import to_hex

    return str(to_hex(axes.xaxis.label.get_color())) if color == INK else color


def root_figure(axes: "Axes") -> "Figure":
    """Figure that contains the axes, even in subfigures."""
    if axes.figure is None:
        raise TypeError("These axes are in no figure.")
    return axes.figure.figure
