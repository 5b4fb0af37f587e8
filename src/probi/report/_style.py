"""Colors, marks and axes of all plots.

Text and lines have a few named colors, which :mod:`probi.report._chart` turns into those of the page, light or dark.
"""

import textwrap
from typing import TYPE_CHECKING, Any

from probi.errors import MissingExtraError
from probi.report._words import Words, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE = "#1f2733", "#667080", "#d9dde3"
SPREAD, EXCESS = "#9fb3c8", "#33618f"
DISC, DISC_INK = "#ffffff", "#1f2732"  # discs stay white on a dark page, so their numbers stay dark

# Paul Tol's "bright" scheme, extended: each next color is the one farthest from all before it, for normal and for
# color-deficient vision; visible on white and on black.
PALETTE = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#9687ff", "#692db4", "#2da596", "#873c1e",
    "#96960f", "#b45ad2", "#ffa5c3", "#e178d2", "#78c396", "#00694b", "#4b78ff", "#c35a0f", "#874bd2", "#966978",
)  # fmt: skip
# Color-blind readers can tell seven colors apart, but not twenty, so each group of seven has its own marker.
SAME_MARKER = 7
MARKERS = ("o", "s", "^")

WIDTH = 6.4  # inches
SMALL = 8.5

# Names of features are plain text, never formulas: "$" is a dollar sign.
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}


def has_colors(n_clusters: int) -> bool:
    """Whether each cluster has its own color; if there are too many, none has."""
    return n_clusters <= len(PALETTE)


def color(cluster: int, n_clusters: int) -> str:
    """Color of a cluster."""
    return PALETTE[cluster] if has_colors(n_clusters) else MUTED


def marker(cluster: int, n_clusters: int) -> str:
    """Marker of a cluster."""
    return MARKERS[cluster // SAME_MARKER] if has_colors(n_clusters) else MARKERS[0]


def new_figure(height: float) -> "Figure":
    """Figure of the standard width, without pyplot and its global state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("Plots need matplotlib: pip install 'matplotlib>=3.9'.") from error

    return Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")


def new_axes(height: float) -> "Axes":
    """Axes that fill a figure."""
    axes: Axes = new_figure(height).add_subplot()
    style_axes(axes)
    return axes


def style_axes(axes: "Axes") -> None:
    """Style axes without frame, with thin lines and small text, independent of the user's settings."""
    axes.set_facecolor("none")
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=MUTED, linewidth=0.6)
    axes.tick_params(color=MUTED, labelcolor=INK, labelsize=SMALL, width=0.6, length=3, direction="out")
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set(color=INK, fontsize=SMALL + 0.5)
    axes.grid(False)


def ink(axes: "Axes") -> str:
    """Color of text in these axes, which may be the user's."""
    from matplotlib.colors import to_hex

    return str(to_hex(axes.xaxis.label.get_color()))


def format_ticks(axes: "Axes", which: str) -> None:
    """Format the numbers along an axis as in the text: 12,000."""
    from matplotlib.ticker import FuncFormatter

    (axes.xaxis if which == "x" else axes.yaxis).set_major_formatter(FuncFormatter(_tick))


def _tick(value: float, _: int | None) -> str:
    return number(value, 6)


def label(axes: "Axes", x: str, y: str) -> None:
    """Name the axes."""
    axes.set_xlabel(x, **PLAIN)
    axes.set_ylabel(y, **PLAIN)


def root_figure(axes: "Axes") -> "Figure":
    """Figure that contains the axes, even in subfigures."""
    from matplotlib.figure import SubFigure

    figure = axes.figure
    while isinstance(figure, SubFigure):
        figure = figure.figure
    if figure is None:
        raise TypeError("These axes are in no figure.")
    return figure


def set_title(axes: "Axes", words: Words) -> "Figure":
    """Write title and caption above axes; return their figure."""
    axes.set_title(_lines(words), loc="left", fontsize=SMALL, pad=8, linespacing=1.4, **PLAIN)
    return root_figure(axes)


def set_figure_title(figure: "Figure", words: Words) -> "Figure":
    """Write title and caption above all axes of a figure."""
    figure.suptitle(_lines(words), x=0.01, ha="left", fontsize=SMALL, color=INK, linespacing=1.4, **PLAIN)
    return figure


def _lines(words: Words) -> str:
    return "\n".join([words.title, *textwrap.wrap(words.caption, 88)])
