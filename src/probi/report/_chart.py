"""Axes and marks as SVG inside an HTML page, in the page's colors and fonts.

The report does not use matplotlib, whose import and layout would take longer than the rest of a run.
Lengths are in points, 1/72 inch; y points down, as in SVG.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probi.report._style import EXCESS, INK, LINE, MUTED, SPREAD
from probi.report._words import number

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ticks = list[tuple[float, str]]

# Colors that the page defines, for light and dark mode.
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    SPREAD: "var(--spread)",
    EXCESS: "var(--excess)",
}

# Narrower than matplotlib's plots, with larger text: readable when scaled to the width of a phone.
WIDTH = 5.2  # inches
SMALL = 10.0  # size of text

PAD = 3.0  # around a plot
TICK = 3.0  # length of a tick
GAP = 3.5  # between a tick and its text, and between that and the name of an axis
DIGIT = 0.64  # width of a digit in a wide font, relative to the text size; the reader's font is unknown
LINE_HEIGHT = 1.2
MARGIN = 0.05  # fraction of an axis left free at each end
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)  # between ticks, times a power of ten
KAPPA = 0.5522847498307936  # a quarter of a circle as a cubic curve


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


def ticks_across(low: float, high: float, room: float) -> Ticks:
    """Round numbers between two limits, as many as fit side by side."""
    for at_most in range(8, 1, -1):
        ticks = round_ticks(low, high, at_most)
        if len(ticks) * (width_of([words for _, words in ticks]) + SMALL) <= room:
            return ticks
    return round_ticks(low, high, 1)


def whole_ticks(low: float, high: float, at_most: int) -> Ticks:
    """Like :func:`round_ticks`, for integers only."""
    return [(value, text) for value, text in round_ticks(low, high, at_most) if value == round(value)]


# -- elements ---------------------------------------------------------------------------------------------------------


def shown(color: str) -> str:
    """A color as the page defines it."""
    return VARIABLES.get(color, color)


def length(value: float) -> str:
    """A length, to a hundredth of a point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def path(points: str, *, stroke: str | None = None, width: float = 0.0, fill: str | None = None, more: str = "") -> str:
    """A path with a fill color, an outline color, or both."""
    paint = f"fill: {shown(fill) if fill else 'none'}"
    if stroke:
        paint += f"; stroke: {shown(stroke)}; stroke-width: {length(width)}"
    return f'<path d="{points}" style="{paint}{more}"/>'


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = SMALL,
    color: str = INK,
    anchor: str = "start",
    turned: bool = False,
    bold: bool = False,
) -> str:
    """One line of text, vertically centered; it reads upward if ``turned``."""
    base = f' transform="rotate(-90 {length(x)} {length(y)})"' if turned else ""
    style = f"font: {'bold ' * bold}{length(size)}px var(--sans); text-anchor: {anchor}; fill: {shown(color)}"
    return (
        f'<text x="{length(x)}" y="{length(y)}" dy="0.35em"{base} style="{style}">{escape(words, quote=False)}</text>'
    )


def vertical(x: float, start: float, stop: float) -> str:
    """Path of a vertical line."""
    return f"M{length(x)} {length(start)}V{length(stop)}"


def horizontal(y: float, start: float, stop: float) -> str:
    """Path of a horizontal line."""
    return f"M{length(start)} {length(y)}H{length(stop)}"


def polyline(x: Floats, y: Floats, close: bool = False) -> str:
    """Path through points, interrupted at missing ones."""
    steps, pen = [], "M"
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(a) and math.isfinite(b):
            steps.append(f"{pen}{length(a)} {length(b)}")
            pen = "L"
        else:
            pen = "M"
    return "".join(steps) + "Z" * (close and bool(steps))


def ellipse(middle: Floats, first: Floats, second: Floats) -> str:
    """Path of an ellipse with two conjugate half diameters."""

    def at(u: float, v: float) -> str:
        x, y = middle + u * first + v * second
        return f"{length(x)} {length(y)}"

    corners = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 0)]
    curve = f"M{at(1, 0)}"
    for (a, b), (c, d) in itertools.pairwise(corners):
        curve += f"C{at(a + KAPPA * c, b + KAPPA * d)} {at(c + KAPPA * a, d + KAPPA * b)} {at(c, d)}"
    return curve + "Z"


def marks(places: Floats, mark: str) -> str:
    """The same mark at many positions; each is drawn on top of the previous one."""
    finite = places[np.isfinite(places).all(axis=1)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in finite.tolist())
    return f'<polyline points="{points}" style="fill: none; marker: url(#{mark})"/>' if points else ""


def mark(name: str, shape: str, style: str) -> str:
    """Definition of a mark for :func:`marks`: a path around 0, 0."""
    return (
        f'<marker id="{name}" markerUnits="userSpaceOnUse" markerWidth="1" markerHeight="1" overflow="visible">'
        f'<path d="{shape}" style="{style}"/></marker>'
    )


def svg(parts: Iterable[str], height: float, alt: str) -> str:
    """A plot of the standard width."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {length(72 * WIDTH)} {length(height)}"'
    return f'{head} role="img" aria-label="{escape(alt)}">' + "\n".join(part for part in parts if part) + "</svg>"


# -- axes -------------------------------------------------------------------------------------------------------------


def plain(values: Array) -> Floats:
    """The linear scale."""
    return np.asarray(values, np.float64)


@dataclass(frozen=True, eq=False)
class Axes:
    """A rectangle of the plot, and the mapping of values to it."""

    left: float
    top: float
    right: float
    bottom: float
    x_limits: tuple[float, float]
    y_limits: tuple[float, float]  # at the bottom and at the top; values of the scale
    scale: Callable[[Array], Floats] = plain  # of y

    def x(self, values: ArrayLike) -> Floats:
        """Horizontal positions of values."""
        low, high = self.x_limits
        return np.asarray(self.left + (np.asarray(values, np.float64) - low) / (high - low) * (self.right - self.left))

    def y(self, values: ArrayLike) -> Floats:
        """Vertical positions of values, from the top."""
        low, high = self.y_limits
        heights = (self.scale(np.asarray(values, np.float64)) - low) / (high - low)
        return np.asarray(self.bottom - heights * (self.bottom - self.top))

    def places(self, points: Floats) -> Floats:
        """Positions of points, (n, 2)."""
        return np.column_stack([self.x(points[:, 0]), self.y(points[:, 1])])

    def spine(self, side: str) -> str:
        """The line at the left or at the bottom."""
        at_left = vertical(self.left, self.top, self.bottom)
        line = at_left if side == "left" else horizontal(self.bottom, self.left, self.right)
        return path(line, stroke=MUTED, width=0.6)

    def x_ticks(self, ticks: Ticks) -> list[str]:
        """Ticks below the axes, and their labels."""
        at = self.x([value for value, _ in ticks]).tolist()
        dashes = "".join(f"M{length(x)} {length(self.bottom)}v{length(TICK)}" for x in at)
        below = self.bottom + TICK + GAP + 0.5 * SMALL
        texts = [text(x, below, words, anchor="middle") for x, (_, words) in zip(at, ticks, strict=True)]
        return [path(dashes, stroke=MUTED, width=0.6) if dashes else "", *texts]

    def y_ticks(self, ticks: Ticks, dash: float = TICK) -> list[str]:
        """Ticks to the left of the axes, and their labels."""
        at = self.y([value for value, _ in ticks]).tolist()
        dashes = "".join(f"M{length(self.left)} {length(y)}h{length(-dash)}" for y in at)
        beside = self.left - dash - GAP
        texts = [text(beside, y, words, anchor="end") for y, (_, words) in zip(at, ticks, strict=True)]
        return [path(dashes, stroke=MUTED, width=0.6) if dash and dashes else "", *texts]

    def grid(self, xs: Ticks = (), ys: Ticks = ()) -> str:  # type: ignore[assignment]
        """Thin lines at ticks."""
        lines = [vertical(x, self.top, self.bottom) for x in self.x([value for value, _ in xs]).tolist()]
        lines += [horizontal(y, self.left, self.right) for y in self.y([value for value, _ in ys]).tolist()]
        return path("".join(lines), stroke=LINE, width=0.6) if lines else ""

    def names(self, x: str, y: str, beside: float) -> list[str]:
        """Names of the axes; that of y is ``beside`` points to the left of them."""
        size = SMALL + 0.5
        middle, center = (self.left + self.right) / 2, (self.top + self.bottom) / 2
        below = self.bottom + TICK + 2 * GAP + SMALL + 0.5 * size
        names = [
            text(middle, below + i * LINE_HEIGHT * size, line, size=size, anchor="middle")
            for i, line in enumerate(x.splitlines())
        ]
        lines = y.splitlines()
        start = self.left - beside - (len(lines) - 0.5) * LINE_HEIGHT * size
        return names + [
            text(start + i * LINE_HEIGHT * size, center, line, size=size, anchor="middle", turned=True)
            for i, line in enumerate(lines)
        ]


def width_of(texts: Sequence[str], size: float = SMALL) -> float:
    """Width of the longest of these texts."""
    return DIGIT * size * max(map(len, texts), default=0)


def left_of(ticks: Ticks, name: str) -> tuple[float, float]:
    """Space for the name of the y axis with its ticks, and for the ticks alone."""
    beside = TICK + 2 * GAP + width_of([words for _, words in ticks])
    return PAD + beside + LINE_HEIGHT * (SMALL + 0.5) * len(name.splitlines()), beside


def below(name: str) -> float:
    """Space for ticks and the name of the x axis."""
    return PAD + TICK + 2 * GAP + SMALL + LINE_HEIGHT * (SMALL + 0.5) * max(len(name.splitlines()), 1)
