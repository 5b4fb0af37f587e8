"""A plot, described once: its axes, panels and texts; drawn as SVG for the report, or by matplotlib."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probi._types import Array
from probi.errors import MissingExtraError
from probi.report import _marks as svg
from probi.report._marks import INK, LINE, MUTED, PLAIN, SMALL, Bars, Box, Mark, paint_of, root_figure
from probi.report._scene import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ticks = Sequence[tuple[float, str]]

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

# Of matplotlib.
INCHES = 6.4
TEXT = 8.5


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

    # -- as SVG

    def svg(self) -> str:
        """The picture for the report."""
        boxes, x_ticks, y_ticks = self._layout()
        parts: list[str] = []
        for i, (box, panel) in enumerate(zip(boxes, self.panels, strict=True)):
            is_lowest, is_first = i + self.n_columns >= len(boxes), i % self.n_columns == 0
            parts += self._frame(box, x_ticks, y_ticks, is_lowest, is_first)
            parts.append(svg.text(box.left, box.top - 3 - 0.5 * SMALL, panel.title) if panel.title else "")
            for mark in panel.marks:
                parts += mark.svg(box)
        parts += self._names(boxes, x_ticks, y_ticks)
        parts += self._legend(boxes[0])
        view = f"0 0 {svg.length(WIDTH)} {svg.length(72 * self.height)}"
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
        grid = svg.outlines(svg.VERTICAL, across, box.top, box.bottom) if self.x.has_grid else []
        grid += svg.outlines(svg.HORIZONTAL, up, box.left, box.right) if self.y.has_grid else []
        yield svg.path(grid, stroke=LINE, width=0.6)
        turned = self.x.is_turned
        lines = svg.outlines(svg.HORIZONTAL, box.bottom, box.left, box.right)
        if is_lowest and not turned:
            lines += svg.outlines(svg.VERTICAL, across, box.bottom, box.bottom + TICK)
        if self.y.has_line:
            lines += svg.outlines(svg.VERTICAL, box.left, box.top, box.bottom)
            lines += svg.outlines(svg.HORIZONTAL, up, box.left, box.left - TICK)
        yield svg.path(lines, stroke=MUTED, width=0.6)
        below, anchor = (GAP, "end") if turned else (TICK + GAP + 0.5 * SMALL, "middle")
        for x, (_, label) in zip(across, x_ticks, strict=True) if is_lowest else ():
            yield svg.text(x, box.bottom + below, label, anchor=anchor, turned=turned)
        for y, (_, label) in zip(up, y_ticks, strict=True) if is_first else ():
            yield svg.text(box.left - TICK - GAP, y, label, anchor="end")

    def _names(self, boxes: list[Box], x_ticks: Ticks, y_ticks: Ticks) -> Iterator[str]:
        """Names of the axes, in the middle of all panels."""
        first, last = boxes[0], boxes[-1]
        below = last.bottom + self._below(x_ticks) + 0.5 * NAME
        for i, line in enumerate(self.x.name.splitlines()):
            middle = (first.left + last.right) / 2
            yield svg.text(middle, below + i * LINE_HEIGHT, line, size=NAME, anchor="middle")
        lines = self.y.name.splitlines()
        start = first.left - self._beside(y_ticks) - (len(lines) - 0.5) * LINE_HEIGHT
        for i, line in enumerate(lines):
            middle = (first.top + last.bottom) / 2
            yield svg.text(start + i * LINE_HEIGHT, middle, line, size=NAME, anchor="middle", turned=True)

    def _legend(self, box: Box) -> Iterator[str]:
        """Colors of bars, below the last one."""
        x = box.left + 4
        for bars in self.panels[0].marks:
            if isinstance(bars, Bars):
                y = float(box.y(len(bars.starts) + 0.25))
                yield svg.path(svg.outlines(svg.RECTANGLE, x, x + 17, y - 3, y + 3), fill=bars.color)
                yield svg.text(x + 23, y, bars.name)
                x += 40 + 0.92 * DIGIT * SMALL * len(bars.name)

    # -- by matplotlib, without pyplot and its global state

    def plot(self, axes: "Axes | None" = None) -> "Figure":
        """Draw in axes, or in a new figure; return the figure."""
        title = "\n".join([self.title, *textwrap.wrap(self.caption, 88)])
        if axes is not None:
            self._draw(axes, self.panels[0])
        else:
            axes = self._new_figure()
        figure = root_figure(axes)
        if self.panels[0].title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=TEXT, color=INK, linespacing=1.4, **PLAIN)
        else:
            axes.set_title(title, loc="left", fontsize=TEXT, pad=8, linespacing=1.4, **PLAIN)
        return figure

    def _new_figure(self) -> "Axes":
        """Draw all panels in a new figure; return the first of its axes."""
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise MissingExtraError("Plots need matplotlib: pip install 'matplotlib>=3.9'.") from error

        figure = Figure(figsize=(INCHES, self.height), layout="constrained", facecolor="white")
        all_axes = figure.subplots(self.n_rows, self.n_columns, sharey=True, squeeze=False).ravel()
        for axes in all_axes[len(self.panels) :]:
            axes.remove()
        for i, (axes, panel) in enumerate(zip(all_axes, self.panels, strict=False)):
            _style_axes(axes)
            self._draw(axes, panel)
            if panel.title:
                axes.set_title(panel.title, loc="left", fontsize=TEXT, pad=3, color=INK)
                axes.set_ylabel("")
            if i + self.n_columns < len(self.panels):  # not the lowest panel of its column
                axes.set_xticks([])
            # Names below other rows than the last use the space of a missing panel.
            for text in axes.get_xticklabels() if i // self.n_columns < self.n_rows - 1 else ():
                text.set_in_layout(False)
        if self.panels[0].title:
            figure.supylabel(self.y.name, fontsize=TEXT, color=INK, rotation_mode="anchor", va="top", ha="center")
        return all_axes[0]  # type: ignore[no-any-return]

    def _draw(self, axes: "Axes", panel: Panel) -> None:
        # With equal scales the limits follow from the marks and the shape of the axes.
        axes.set_xlim(*self.x.limits, auto=self.aspect is not None)
        axes.set_ylim(*self.y.limits, auto=self.aspect is not None)
        if self.aspect is not None:
            axes.set_aspect(self.aspect, adjustable="datalim")
        for which, axis in ((axes.xaxis, self.x), (axes.yaxis, self.y)):
            _style_axis(axes, which, axis)
        for i, mark in enumerate(panel.marks):
            mark.draw(axes, {"gid": mark.name, "zorder": 1.6 + 0.1 * i})
        if any(isinstance(mark, Bars) for mark in panel.marks):
            axes.legend(
                loc="lower left", ncols=2, fontsize=TEXT, frameon=False, borderpad=0, labelcolor=paint_of(axes, INK)
            )


def _one_scale(
    x: tuple[float, float], y: tuple[float, float], sides: float, aspect: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Extend the limits of one axis to equal scales."""
    width, height = x[1] - x[0], aspect * (y[1] - y[0])
    wider, higher = max(sides * height - width, 0.0) / 2, max(width / sides - height, 0.0) / 2 / aspect
    return (x[0] - wider, x[1] + wider), (y[0] - higher, y[1] + higher)


def _style_axes(axes: "Axes") -> None:
    """Style axes without frame, with thin lines and small text, independent of the user's settings."""
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=MUTED, linewidth=0.6)
    axes.tick_params(color=MUTED, labelcolor=INK, labelsize=TEXT, width=0.6, length=3, direction="out")
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set(color=INK, fontsize=TEXT + 0.5)
    axes.grid(False)


def _style_axis(axes: "Axes", which: Any, axis: Axis) -> None:
    """Name, ticks and grid of one axis."""
    which.set_label_text(axis.name, **PLAIN)
    if axis.has_grid:
        which.grid(True, color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        which.set_major_formatter(_tick)
    if axis.ticks is not None:
        which.set_ticks([value for value, _ in axis.ticks], [label for _, label in axis.ticks], **PLAIN)
    if axis.is_turned:
        for text in which.get_ticklabels():
            # Anchored to their ticks in any font: a browser may use another one than is measured here.
            text.set(rotation=90, rotation_mode="anchor", ha="right", va="center")
            text.set_fontsize(TEXT if len(axis.ticks or ()) <= 24 else 6.5)
    if axis.is_turned or not axis.has_line:
        which.set_tick_params(length=0)
    if not axis.has_line:
        axes.spines["left"].set_visible(False)


def _tick(value: float, _: int | None) -> str:
    """A number along an axis as in the text: 12,000."""
    return number(value, 6)
