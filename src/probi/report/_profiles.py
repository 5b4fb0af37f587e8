"""Draws the profile of each cluster: its center, feature by feature."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probi.report._scene import Scene, quantiles
from probi.report._style import INK, LINE, MUTED, PLAIN, SMALL, color, new_figure, style_axes
from probi.report._words import Words, enumerated, percent, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_FEATURES, MAX_PANELS = 60, 24
LONGEST_NAME = 22  # characters below a panel
MAX_MARKED = 24  # features whose names are not small
LINEAR = 2.0  # standard deviations up to which a scale that must also show extremes is an ordinary one
EXTREME = 6.0  # where such a scale begins to be worth it


def draw_profiles(scene: Scene) -> tuple["Figure", Words]:
    """Draw one panel per cluster; return the figure and its caption."""
    shown = scene.most_different(MAX_FEATURES)
    clusters = largest(scene)
    centers = scene.standardized(scene.centers)[:, shown]
    bands = [band_of(scene, c)[:, shown] for c in clusters]
    n_columns = columns_of(len(shown), len(clusters))
    figure = new_figure(height_of(scene, shown, len(clusters), n_columns))
    panels = figure.subplots(-(-len(clusters) // n_columns), n_columns, sharey=True, squeeze=False).ravel()
    for panel, c, band in zip(panels, clusters, bands, strict=False):
        _draw_panel(panel, color(c, scene.n_clusters), c, centers[c], band)
        panel.set_title(name_of(scene, c), loc="left", fontsize=SMALL, pad=3, color=INK)
    _finish(figure, panels, len(clusters), n_columns, [scene.features[j] for j in shown], [centers, *bands])
    return figure, profiles_words(scene, shown, len(clusters))


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


def height_of(scene: Scene, shown: Integers, n_clusters: int, n_columns: int) -> float:
    """Height of the plot, in inches."""
    rows = -(-n_clusters // n_columns)
    longest = max(len(short(scene.features[j], LONGEST_NAME)) for j in shown)
    # The label beside a single row of panels is as long as two inches.
    return 0.5 + (0.78 if rows > 3 else 1.2 if rows > 1 else 2.3) * rows + 0.075 * longest


def bar_width(n_features: int) -> float:
    """Width of the bars of a panel, in points."""
    return 6.0 if n_features <= 12 else 4.0 if n_features <= MAX_MARKED else 2.5


def _draw_panel(panel: "Axes", paint: str, cluster: int, center: Floats, band: Floats) -> None:
    style_axes(panel)
    at = np.arange(len(center))
    panel.axhline(0.0, color=MUTED, linewidth=0.6, zorder=1)
    # No line from one feature to the next: there is nothing between two of them.
    wide = bar_width(len(at))
    panel.vlines(at, *band, color=paint, alpha=0.4, linewidth=wide, zorder=2, gid=f"band {cluster}")
    panel.plot(
        at, center, color=paint, marker="o", markersize=min(3.2, wide), linestyle="none", zorder=3,
        gid=f"center {cluster}",
    )  # fmt: skip


def name_of(scene: Scene, cluster: int) -> str:
    """Title of a panel."""
    mass = scene.cluster_masses
    share = mass[cluster] / mass.sum() if mass.sum() > 0 else np.nan
    return f"Cluster {cluster}, {percent(share)}" if len(scene.features) > 6 else f"Cluster {cluster}"


def _finish(
    figure: "Figure", panels: Any, n_panels: int, n_columns: int, names: list[str], drawn: list[Floats]
) -> None:
    """Scale, ticks and names that all panels share."""
    _set_scale(panels[0], np.concatenate([np.ravel(values) for values in drawn]))
    last_row = (n_panels - 1) // n_columns
    for i, panel in enumerate(panels):
        panel.set_visible(i < n_panels)
        panel.set_xlim(-0.5, len(names) - 0.5)
        panel.tick_params(axis="x", length=0)
        _draw_rules(panel, len(names))
        panel.set_xticks([])
        if i + n_columns >= n_panels:  # the lowest panel of its column
            _name_features(panel, names, in_layout=i // n_columns == last_row)
    figure.supylabel("Standard deviations", fontsize=SMALL, color=INK, rotation_mode="anchor", va="top", ha="center")


def _set_scale(panel: "Axes", heights: Floats) -> None:
    """A linear scale, or a symmetric logarithmic one if there are extreme values."""
    from matplotlib.ticker import MaxNLocator

    finite = heights[np.isfinite(heights)]
    if is_extreme(finite):
        panel.set_yscale("symlog", linthresh=LINEAR, linscale=1.0)
        panel.set_yticks(*extreme_ticks(finite))
        panel.minorticks_off()
    else:
        panel.yaxis.set_major_locator(MaxNLocator(3, min_n_ticks=3))


def _name_features(panel: "Axes", names: list[str], in_layout: bool) -> None:
    """Names below a panel; outside of the layout, they use the space of a missing panel."""
    panel.set_xticks(np.arange(len(names)), [short(name, LONGEST_NAME) for name in names], **PLAIN)
    for text in panel.get_xticklabels():
        # Anchored to their ticks in any font: that of a browser is not the one measured here.
        text.set(rotation=90, rotation_mode="anchor", ha="right", va="center")
        text.set(fontsize=SMALL if len(names) <= MAX_MARKED else 6.5, in_layout=in_layout)


def _draw_rules(panel: "Axes", n_features: int) -> None:
    """A thin vertical line per feature, all in one path: a grid would be most of the plot's bytes."""
    across = np.repeat(np.arange(n_features), 3)
    up = np.tile([0.0, 1.0, np.nan], n_features)
    panel.plot(across, up, transform=panel.get_xaxis_transform(), color=LINE, linewidth=0.5, zorder=0.5)


def is_extreme(heights: Floats) -> bool:
    """Whether some values are so extreme that a linear scale would hide the others."""
    return bool(np.abs(heights).max(initial=0.0) > EXTREME)


def symmetric_log(heights: NDArray[Any]) -> Floats:
    """The scale that also shows extremes, as matplotlib has it: linear in the middle, logarithmic beyond."""
    middle = 1.0 / (1.0 - 1.0 / 10.0)
    beyond = np.log10(np.maximum(np.abs(heights), LINEAR) / LINEAR)
    return np.where(np.abs(heights) <= LINEAR, heights * middle, np.sign(heights) * LINEAR * (middle + beyond))


def extreme_ticks(heights: Floats) -> tuple[list[float], list[str]]:
    """Ticks of such a scale, and their labels."""
    steps = [step for step in (2.0, 10.0, 100.0, 1000.0) if step < 1.3 * np.abs(heights).max()]
    ticks = (
        [-step for step in steps if -step > 1.3 * heights.min()] + [0.0] + [s for s in steps if s < 1.3 * heights.max()]
    )
    return ticks, [f"{tick:g}".replace("-", "−") for tick in ticks]


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
