"""Draws the costs of clusters."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from probi._notes import counted
from probi.report._style import EXCESS, LINE, PLAIN, SMALL, SPREAD, format_ticks, ink, label
from probi.report._words import Words, measured, number, percent
from probi.solver.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

MAX_TICKS = 16  # numbers of clusters that fit below an axis
MAX_BARS = 20  # the most expensive clusters have one


def draw_elbow(axes: "Axes", results: Sequence[Result], chosen: int | None) -> Words:
    """Draw cost over the number of clusters, above the nodes' own spread."""
    ks, costs, errors, floors = elbow_curve(results)
    _draw_floor(axes, ks, costs + 2 * errors, floors)
    axes.errorbar(
        ks, costs, yerr=2 * errors, color=EXCESS, marker="o", markersize=4.5, linewidth=1.4, capsize=3, zorder=3,
        label="cost",
    )  # fmt: skip
    if chosen is not None:
        best = results[chosen]
        axes.scatter(
            [len(best.centers)], [best.cost], s=130, facecolors="none", edgecolors=ink(axes), zorder=4, gid="chosen"
        )
    _elbow_axes(axes, ks)
    return elbow_words(ks, costs, errors, floors, chosen)


def cost_name(unit: str) -> str:
    """Label of an axis of costs."""
    return f"Expected cost, {unit}" if unit else "Expected cost"


def elbow_curve(results: Sequence[Result]) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
    """Numbers of clusters, in order, with costs, standard errors and spreads."""
    order = sorted(range(len(results)), key=lambda i: len(results[i].centers))
    ks = np.array([len(results[i].centers) for i in order])
    costs, errors, floors = (
        np.array([getattr(results[i], name) for i in order], np.float64)
        for name in ("cost", "standard_error", "spread_cost")
    )
    return ks, costs, errors, floors


def floor_limits(
    ks: NDArray[np.int64], tops: Floats, floors: Floats
) -> tuple[tuple[float, float], tuple[float, float], float] | None:
    """Limits of both axes such that the spread is visible, and its height; None if nothing is finite."""
    floor = float(np.nanmin(floors, initial=np.inf))
    top = float(np.nanmax(tops, initial=-np.inf))
    if not (np.isfinite(floor) and np.isfinite(top)):
        return None
    height = max(top - floor, 1e-3 * abs(top)) or 1.0
    pad = max(0.4, 0.04 * (ks[-1] - ks[0]))
    return (ks[0] - pad, ks[-1] + pad), (max(floor - 0.16 * height, 0.0), top + 0.08 * height), floor


def _draw_floor(axes: "Axes", ks: NDArray[np.int64], tops: Floats, floors: Floats) -> None:
    box = floor_limits(ks, tops, floors)
    if box is None:
        return
    (left, right), (bottom, top), floor = box
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    if floor > 0:
        edges = np.concatenate([[left], ks, [right]])
        line = np.concatenate([floors[:1], floors, floors[-1:]])
        axes.fill_between(edges, bottom, line, color=SPREAD, alpha=0.45, linewidth=0, zorder=1, gid="floor")
        axes.plot(edges, line, color=SPREAD, linewidth=1.2, zorder=2)


def _elbow_axes(axes: "Axes", ks: NDArray[np.int64]) -> None:
    from matplotlib.ticker import MaxNLocator

    label(axes, "Number of clusters", cost_name(""))
    format_ticks(axes, "y")
    if len(np.unique(ks)) <= MAX_TICKS:
        axes.set_xticks(np.unique(ks))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(True, axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)


def elbow_words(
    ks: NDArray[np.int64], costs: Floats, errors: Floats, floors: Floats, chosen: int | None, unit: str = ""
) -> Words:
    """Describe the plot."""
    alt = (
        f"Line chart: the cost goes from {number(costs[0])} with {counted(int(ks[0]), 'cluster')} "
        f"to {number(costs[-1])} with {counted(int(ks[-1]), 'cluster')}."
    )
    return Words("Cost by number of clusters", _elbow_caption(errors, floors, chosen, unit), alt)


def _elbow_caption(errors: Floats, floors: Floats, chosen: int | None, unit: str) -> str:
    caption = "Every further cluster lowers the cost; how many to use depends on their purpose."
    if np.any(errors > 0):
        caption += " Bars: two standard errors in each direction."
    floor = float(np.nanmin(floors, initial=np.inf))
    if 0 < floor < np.inf:
        caption += f" Shaded: the nodes' own spread, {measured(number(floor), unit)}; no clustering costs less."
    if chosen is not None:
        caption += " Ring: the solution shown in detail."
    return caption


def draw_cost_split(axes: "Axes", result: Result) -> Words:
    """Draw one bar per cluster: its nodes' own spread, then the excess."""
    from matplotlib.ticker import MaxNLocator

    names, spreads, excesses = cost_bars(result)
    rows = np.arange(len(names))
    axes.barh(rows, spreads, 0.72, color=SPREAD, label="the nodes' own spread")
    axes.barh(rows, excesses, 0.72, left=spreads, color=EXCESS, label="distance beyond it")
    axes.set_yticks(rows, names, **PLAIN)
    axes.set_ylim(len(names) + 0.8, -0.6)  # the legend has its own row
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(True, axis="x", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    label(axes, cost_name(""), "Cluster")
    format_ticks(axes, "x")
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.legend(
        loc="lower left",
        ncols=2,
        fontsize=SMALL,
        frameon=False,
        borderpad=0,
        labelcolor=ink(axes),
    )
    return split_words(result, names)


def cost_bars(result: Result) -> tuple[list[str], Floats, Floats]:
    """Names, spreads and excesses of the most expensive clusters, in this order."""
    clusters = result.clusters
    costs, spreads = np.nan_to_num(clusters.cost), np.nan_to_num(clusters.spread)
    order = np.argsort(-costs, kind="stable")
    # A computed spread may exceed the true one by its tolerance, and then slightly exceed the cost.
    excesses = np.maximum(costs - spreads, 0.0)
    kept = order[:MAX_BARS]
    return [str(c) for c in kept], spreads[kept], excesses[kept]


def split_words(result: Result, names: list[str], unit: str = "") -> Words:
    """Describe the plot."""
    clusters = result.clusters
    cost, spread = float(np.nansum(clusters.cost)), float(np.nansum(clusters.spread))
    caption = "The most expensive cluster is at the top. Other centers can reduce only the second part of a bar."
    if cost > 0:
        caption += f" Over all clusters, it is {percent(max(0.0, 1 - spread / cost))} of the cost."
    n_others = len(clusters.cost) - len(names)
    if n_others > 0:
        others = cost - float(np.nansum(clusters.cost[[int(name) for name in names]]))
        caption += (
            f" The {n_others:,} cheapest of {len(clusters.cost):,} clusters, "
            f"which cost {measured(number(others), unit)} together, are left out."
        )
    alt = f"Bar chart: cluster {names[0]} costs most, {number(float(np.nanmax(clusters.cost)))} of {number(cost)}."
    return Words("Where the cost comes from", caption, alt)
