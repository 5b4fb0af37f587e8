"""Pictures drawn by matplotlib, without pyplot and its global state."""

from __future__ import annotations

import textwrap
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from probi.errors import MissingExtraError
from probi.report import _picture as style
from probi.report._picture import Axis, Bars, Cells, Dots, Line, Mark, Numbers, Panel, Picture, place_discs
from probi.report._scene import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path

INCHES = 6.4  # width of a new figure
TEXT = 8.5  # size of text

# Names of features are plain text, never formulas: "$" is a dollar sign.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}


def plot(picture: Picture, axes: Axes | None = None) -> Figure:
    """Draw in axes, or in a new figure; return the figure."""
    title = "\n".join([picture.title, *textwrap.wrap(picture.caption, 88)])
    if axes is not None:
        _draw_panel(axes, picture, picture.panels[0])
    else:
        axes = _new_figure(picture)
    figure = _root_figure(axes)
    if picture.panels[0].title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=TEXT, color=style.INK, linespacing=1.4, **PLAIN)
    else:
        axes.set_title(title, loc="left", fontsize=TEXT, pad=8, linespacing=1.4, **PLAIN)
    return figure


def _new_figure(picture: Picture) -> Axes:
    """Draw all panels in a new figure; return the first of its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Plots need matplotlib: pip install 'matplotlib>=3.9'.") from error

    panels, n_rows, n_columns = picture.panels, picture.n_rows, picture.n_columns
    figure = Figure(figsize=(INCHES, picture.height), layout="constrained", facecolor="white")
    all_axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False).ravel()
    for axes in all_axes[len(panels) :]:
        axes.remove()
    for i, (axes, panel) in enumerate(zip(all_axes, panels, strict=False)):
        _style_axes(axes)
        _draw_panel(axes, picture, panel)
        if panel.title:
            axes.set_title(panel.title, loc="left", fontsize=TEXT, pad=3, color=style.INK)
            axes.set_ylabel("")
        if i + n_columns < len(panels):  # not the lowest panel of its column
            axes.set_xticks([])
        # Names below other rows than the last use the space of a missing panel.
        for text in axes.get_xticklabels() if i // n_columns < n_rows - 1 else ():
            text.set_in_layout(False)
    if panels[0].title:
        figure.supylabel(picture.y.name, fontsize=TEXT, color=style.INK, rotation_mode="anchor", va="top", ha="center")
    return all_axes[0]  # type: ignore[no-any-return]


def _draw_panel(axes: Axes, picture: Picture, panel: Panel) -> None:
    # With equal scales the limits follow from the marks and the shape of the axes.
    axes.set_xlim(*picture.x.limits, auto=picture.aspect is not None)
    axes.set_ylim(*picture.y.limits, auto=picture.aspect is not None)
    if picture.aspect is not None:
        axes.set_aspect(picture.aspect, adjustable="datalim")
    for which, axis in ((axes.xaxis, picture.x), (axes.yaxis, picture.y)):
        _style_axis(axes, which, axis)
    for i, mark in enumerate(panel.marks):
        _draw(mark, axes, {"gid": mark.name, "zorder": 1.6 + 0.1 * i})
    if any(isinstance(mark, Bars) for mark in panel.marks):
        axes.legend(
            loc="lower left", ncols=2, fontsize=TEXT, frameon=False, borderpad=0, labelcolor=_color_in(axes, style.INK)
        )


def _style_axes(axes: Axes) -> None:
    """Style axes without frame, with thin lines and small text, independent of the user's settings."""
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=style.MUTED, linewidth=0.6)
    axes.tick_params(color=style.MUTED, labelcolor=style.INK, labelsize=TEXT, width=0.6, length=3, direction="out")
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set(color=style.INK, fontsize=TEXT + 0.5)
    axes.grid(False)


def _style_axis(axes: Axes, which: Any, axis: Axis) -> None:
    """Name, ticks and grid of one axis."""
    which.set_label_text(axis.name, **PLAIN)
    if axis.has_grid:
        which.grid(True, color=style.LINE, linewidth=0.6)
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


# -- marks ------------------------------------------------------------------------------------------------------------


@singledispatch
def _draw(mark: Mark, axes: Axes, look: dict[str, Any]) -> None:
    """Draw a mark; ``look`` are its name and its layer."""
    raise NotImplementedError


@_draw.register(Line)
def _draw_line(mark: Line, axes: Axes, look: dict[str, Any]) -> None:
    if mark.area:
        floor = axes.get_ylim()[0]
        axes.fill_between(mark.x, floor, mark.y, color=mark.color, alpha=mark.area, linewidth=0, **look)
    axes.plot(
        mark.x, mark.y, color=_color_in(axes, mark.color), linewidth=mark.width, alpha=mark.alpha,
        linestyle=(0, (4, 2)) if mark.dashed else "-", solid_capstyle="butt", **look,
    )  # fmt: skip


@_draw.register(Dots)
def _draw_dots(mark: Dots, axes: Axes, look: dict[str, Any]) -> None:
    shapes = np.array(mark.shapes or ["o"] * len(mark.points))
    for shape in np.unique(shapes):
        inside = shapes == shape
        x, y = mark.points[inside].T
        fill = mark.fill if isinstance(mark.fill, str) else np.array(mark.fill)[inside].tolist()
        axes.scatter(
            x, y, s=np.square(2 * mark.radius), facecolors=fill, marker=str(shape),
            edgecolors=_color_in(axes, mark.edge), alpha=None if mark.alpha == 1.0 else mark.alpha,
            linewidths=mark.width, rasterized=fill is not mark.fill, **look,
        )  # fmt: skip


@_draw.register(Bars)
def _draw_bars(mark: Bars, axes: Axes, look: dict[str, Any]) -> None:
    rows = np.arange(len(mark.starts))
    axes.barh(rows, mark.lengths, 0.72, left=mark.starts, color=mark.color, label=mark.name, **look)


@_draw.register(Numbers)
def _draw_numbers(mark: Numbers, axes: Axes, look: dict[str, Any]) -> None:
    figure = _root_figure(axes)
    figure.draw_without_rendering()  # the layout determines the size of the axes
    shifts = np.zeros((len(mark.numbers), 2))
    if mark.marks is not None:
        places, marks = (axes.transData.transform(some) * 72 / figure.dpi for some in (mark.centers, mark.marks))
        frame = axes.get_window_extent().get_points() * 72 / figure.dpi
        shifts = place_discs(places, mark.numbers, marks, frame) - places[mark.numbers]
    for c, paint, shift in zip(mark.numbers, mark.colors, shifts, strict=True):
        axes.annotate(
            str(c), tuple(mark.centers[c]), xytext=tuple(shift), textcoords="offset points", ha="center",
            va="center", fontsize=style.NUMBER_SIZE, fontweight="bold", color=style.DISC_INK, annotation_clip=False,
            bbox={"boxstyle": _disc, "facecolor": style.DISC, "edgecolor": paint, "linewidth": 1.6},
            arrowprops={"arrowstyle": "-", "color": style.MUTED, "linewidth": 0.8, "shrinkB": 2}, **look, **PLAIN,
        )  # fmt: skip


@_draw.register(Cells)
def _draw_cells(mark: Cells, axes: Axes, look: dict[str, Any]) -> None:
    from matplotlib.colors import ListedColormap

    axes.pcolormesh(
        mark.x, mark.y, np.ma.masked_less(mark.labels, 0), cmap=ListedColormap(list(mark.colors)), vmin=-0.5,
        vmax=len(mark.colors) - 0.5, rasterized=True, **look,
    )  # fmt: skip


def _disc(x: float, y: float, width: float, height: float, size: float) -> Path:
    """A circular box around text, of the same size for all texts."""
    from matplotlib.path import Path

    return Path.circle((x + width / 2, y + height / 2), style.RADIUS / style.NUMBER_SIZE * size)


def _color_in(axes: Axes, color: str) -> str:
    """A color; ink is that of text in these axes, which may be the user's."""
    from matplotlib.colors import to_hex

    return str(to_hex(axes.xaxis.label.get_color())) if color == style.INK else color


def _root_figure(axes: Axes) -> Figure:
    """Figure that contains the axes, even in subfigures."""
    if axes.figure is None:
        raise TypeError("These axes are in no figure.")
    return axes.figure.figure
