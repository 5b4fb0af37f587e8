"""SVG inside an HTML page, in the page's colors and fonts.

The report does not use matplotlib, whose import and layout would take longer than the rest of a run.
Lengths are in points, 1/72 inch; y points down, as in SVG.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probi._types import Floats
from probi.report._style import EXCESS, INK, LINE, MUTED, SPREAD

# Colors that the page defines, for light and dark mode.
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    SPREAD: "var(--spread)",
    EXCESS: "var(--excess)",
}

# Narrower than matplotlib's plots, with larger text: readable when scaled to the width of a phone.
WIDTH = 5.2 * 72
SMALL = 10.0  # size of text


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


def shown(color: str) -> str:
    """A color as the page defines it."""
    return VARIABLES.get(color, color)


def length(value: float) -> str:
    """A length, to a hundredth of a point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def path(
    points: str, *, stroke: str = "none", width: float = 0.0, fill: str = "none", alpha: float = 1.0, more: str = ""
) -> str:
    """A path with a fill color, an outline color, or both; nothing if there are no points."""
    paint = f"fill: {shown(fill)}"
    if width:
        paint += f"; stroke: {shown(stroke)}; stroke-width: {length(width)}"
    if alpha < 1.0:
        paint += f"; {'fill' if fill != 'none' else 'stroke'}-opacity: {length(alpha)}"
    return f'<path d="{points}" style="{paint}{more}"/>' if points else ""


def text(
    x: float, y: float, words: str, *, size: float = SMALL, color: str = INK, anchor: str = "start",
    turned: bool = False, bold: bool = False,
) -> str:  # fmt: skip
    """One line of text, vertically centered; it reads upward if ``turned``."""
    base = f' transform="rotate(-90 {length(x)} {length(y)})"' if turned else ""
    style = f"font: {'bold ' * bold}{length(size)}px var(--sans); text-anchor: {anchor}; fill: {shown(color)}"
    return (
        f'<text x="{length(x)}" y="{length(y)}" dy="0.35em"{base} style="{style}">{escape(words, quote=False)}</text>'
    )


def vertical(x: ArrayLike, start: ArrayLike, stop: ArrayLike) -> str:
    """Path of vertical lines; where a number is missing there is none."""
    return _lines("M{} {}V{}", x, start, stop)


def horizontal(y: ArrayLike, start: ArrayLike, stop: ArrayLike) -> str:
    """Path of horizontal lines."""
    return _lines("M{} {}H{}", start, y, stop)


def rectangles(left: ArrayLike, right: ArrayLike, top: ArrayLike, bottom: ArrayLike) -> str:
    """Path of rectangles."""
    return _lines("M{0} {2}H{1}V{3}H{0}Z", left, right, top, bottom)


def _lines(form: str, *numbers: ArrayLike) -> str:
    rows = np.column_stack([np.ravel(each) for each in np.broadcast_arrays(*numbers)])
    return "".join(form.format(*map(length, row)) for row in rows[np.isfinite(rows).all(axis=1)].tolist())


def polyline(x: Floats, y: Floats) -> str:
    """Path through points, interrupted at missing ones."""
    steps, pen = [], "M"
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        if math.isfinite(a) and math.isfinite(b):
            steps.append(f"{pen}{length(a)} {length(b)}")
            pen = "L"
        else:
            pen = "M"
    return "".join(steps)


def circle(middle: ArrayLike, radius: float) -> str:
    """Path of a circle; nothing if its middle is missing."""
    (x, y), r = np.asarray(middle, np.float64), length(radius)
    if not math.isfinite(x + y):
        return ""
    across = length(2 * radius)
    return f"M{length(x - radius)} {length(y)}a{r} {r} 0 1 0 {across} 0a{r} {r} 0 1 0-{across} 0Z"


def shape(name: str, radius: float) -> str:
    """Path of a mark around 0, 0: a circle "o", a square "s", a triangle "^"."""
    r = length(radius)
    return (
        circle((0, 0), radius)
        if name == "o"
        else f"M-{r}-{r}H{r}V{r}H-{r}Z"
        if name == "s"
        else f"M0-{r}L{r} {r}H-{r}Z"
    )


def marks(places: Floats, mark: str) -> str:
    """The same mark at many positions; each is drawn on top of the previous one."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places.tolist())
    return f'<polyline points="{points}" style="fill: none; marker: url(#{mark})"/>' if points else ""


def mark(name: str, shape: str) -> str:
    """Definition of a mark for :func:`marks`: a path around 0, 0."""
    return (
        f'<marker id="{name}" markerUnits="userSpaceOnUse" markerWidth="1" markerHeight="1" overflow="visible">'
        f"{shape}</marker>"
    )


def picture(parts: Iterable[str], height: float, alt: str) -> str:
    """A picture of the standard width."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {length(WIDTH)} {length(height)}"'
    return f'{head} role="img" aria-label="{escape(alt)}">' + "\n".join(part for part in parts if part) + "</svg>"
