"""Marks of plots, in the units of the axes: each is drawn as SVG for the report, or by matplotlib."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from probi._types import Array, Floats, Integers
from probi.report import _svg as svg
from probi.report._style import DISC, DISC_INK, INK, MUTED
from probi.report._svg import Box

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path


N_CORNERS = 60  # of an ellipse
N_LAYERS = 12  # layers in which the marks of all clusters alternate on top
RADIUS, NUMBER_SIZE = 6.5, 8.5  # of the disc with the number of a cluster, and of the number, in points
N_DIRECTIONS = 16  # in which a disc may be placed

# Names of features are plain text of matplotlib, never formulas: "$" is a dollar sign.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}


class Mark(Protocol):
    """Something drawn in the units of the axes."""

    @property
    def name(self) -> str:
        """Name by which it is found in a figure."""
        ...

    def svg(self, box: Box) -> Iterator[str]:
        """Elements of SVG."""
        ...

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """Draw with matplotlib; ``look`` has the name and the layer."""
        ...


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
            there = np.isfinite(y)
            below = np.append(x[there], x[there][[-1, 0]]), np.append(y[there], [box.bottom] * 2)
            yield svg.path(svg.polyline(*below) + "Z", fill=self.color, alpha=self.area)
        dashes = "; stroke-dasharray: 4 2" if self.dashed else ""
        yield svg.path(svg.polyline(x, y), stroke=self.color, width=self.width, alpha=self.alpha, more=dashes)

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
    """Dots of one color, or many of several colors and shapes: "o", "s" or "^"."""

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
        if isinstance(self.fill, str):
            circles = list(map(svg.circle, places, np.broadcast_to(self.radius, len(places))))
            for points in circles if self.width else ["".join(circles)]:
                yield svg.path(points, fill=self.fill, stroke=self.edge, width=self.width)
            return
        there = np.isfinite(places).all(axis=1)
        looks = np.array([f"{fill}{shape}" for fill, shape in zip(self.fill, self.shapes, strict=True)])
        kinds, look_of = np.unique(looks[there], return_inverse=True)
        edge: dict[str, Any] = {"stroke": self.edge, "width": self.width, "alpha": self.alpha}
        for i, look in enumerate(kinds.tolist()):
            shape = svg.shape(look[7:], float(self.radius))
            yield svg.mark(f"{self.name}-{i}", svg.path(shape, fill=look[:7], **edge))
        layers = np.array_split(places[there], N_LAYERS), np.array_split(look_of, N_LAYERS)
        for some, looks_of_some in zip(*layers, strict=True):
            for i in range(len(kinds)):
                yield svg.marks(some[looks_of_some == i], f"{self.name}-{i}")

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
        yield svg.path(svg.rectangles(*ends, box.y(rows - 0.36), box.y(rows + 0.36)), fill=self.color)

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """A container."""
        rows = np.arange(len(self.starts))
        axes.barh(rows, self.lengths, 0.72, left=self.starts, color=self.color, label=self.name, **look)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Discs with the numbers of some centers, beside them."""

    name: str
    centers: Floats  # (n_clusters, 2): all of them
    numbers: Integers
    colors: Sequence[str]
    marks: Floats  # what discs should not hide

    def svg(self, box: Box) -> Iterator[str]:
        """Lines to the centers, then discs."""
        places = box.places(self.centers)
        frame = np.array([[box.left, box.top], [box.right, box.bottom]])
        discs = beside(places, self.numbers, box.places(self.marks), frame)
        towards = places[self.numbers] - discs
        ends = discs + towards * (1.0 - 3.0 / np.hypot(*towards.T))[:, None]
        yield svg.path("".join(svg.polyline(*line.T) for line in np.stack([discs, ends], 1)), stroke=MUTED, width=0.8)
        for c, paint, (x, y) in zip(self.numbers, self.colors, discs, strict=True):
            yield svg.path(svg.circle((x, y), RADIUS), fill=DISC, stroke=paint, width=1.6)
            yield svg.text(x, y, str(c), size=NUMBER_SIZE, color=DISC_INK, anchor="middle", bold=True)

    def draw(self, axes: "Axes", look: dict[str, Any]) -> None:
        """Annotations."""
        figure = root_figure(axes)
        figure.draw_without_rendering()  # the layout determines the size of the axes
        places, marks = (axes.transData.transform(some) * 72 / figure.dpi for some in (self.centers, self.marks))
        frame = axes.get_window_extent().get_points() * 72 / figure.dpi
        shifts = beside(places, self.numbers, marks, frame) - places[self.numbers]
        for c, paint, shift in zip(self.numbers, self.colors, shifts, strict=True):
            axes.annotate(
                str(c), tuple(self.centers[c]), xytext=tuple(shift), textcoords="offset points", ha="center",
                va="center", fontsize=NUMBER_SIZE, fontweight="bold", color=DISC_INK, annotation_clip=False,
                bbox={"boxstyle": Disc(RADIUS / NUMBER_SIZE), "facecolor": DISC, "edgecolor": paint, "linewidth": 1.6},
                arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8, "shrinkB": 2}, **look, **PLAIN,
            )  # fmt: skip


@dataclass(frozen=True)
class Disc:
    """A circular box around text, of the same size for all texts; a class, so that figures can be pickled."""

    ratio: float  # radius relative to the size of the text

    def __call__(self, x: float, y: float, width: float, height: float, size: float) -> "Path":
        """Return the circle around the center of the text."""
        from matplotlib.path import Path

        return Path.circle((x + width / 2, y + height / 2), self.ratio * size)


def beside(centers: Floats, numbers: Integers, marks: Floats, frame: Floats) -> Floats:
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


def paint_of(axes: "Axes", color: str) -> str:
    """A color; ink is that of text in these axes, which may be the user's."""
    from matplotlib.colors import to_hex

    return str(to_hex(axes.xaxis.label.get_color())) if color == INK else color


def root_figure(axes: "Axes") -> "Figure":
    """Figure that contains the axes, even in subfigures."""
    from matplotlib.figure import SubFigure

    figure = axes.figure
    while isinstance(figure, SubFigure):
        figure = figure.figure
    if figure is None:
        raise TypeError("These axes are in no figure.")
    return figure
