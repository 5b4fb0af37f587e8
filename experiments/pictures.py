"""Pictures of the results, as SVG."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

Row = dict[str, Any]
COLORS = {
    "paper's table": "#999999",
    "paper": "#ee6677",
    "default": "#4477aa",
    "uniform": "#ccbb44",
    "plloyd": "#228833",
}
LABELS = {"paper": "paper preset", "default": "default", "uniform": "uniform sample", "plloyd": "P-LLOYD++ on all data"}


def save(figure: Figure, path: Path) -> None:
    """Write SVG that is the same for the same data."""
    with matplotlib.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _new(panels: int) -> tuple[Figure, Any]:
    """A figure with at most two panels in a row: more would be too small to read on a page."""
    columns = min(panels, 2)
    rows = -(-panels // columns)
    figure = Figure(figsize=(3.6 * columns, 2.8 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for empty in axes[panels:]:
        empty.set_axis_off()
    for panel in axes[:panels]:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    return figure, axes


def paper_pictures(rows: list[Row], theirs: list[Row], folder: Path) -> list[str]:
    """The paper's figures: cost ratio to P-LLOYD++, gap between summary and full cost, running time, over k."""
    lines = ["## Pictures\n"]
    sets = dict.fromkeys((r["data_set"], r["stand_in"]) for r in rows)
    for name, stand_in in sets:
        some = [r for r in rows if (r["data_set"], r["stand_in"]) == (name, stand_in)]
        paper = [] if stand_in else [r for r in theirs if r["data_set"] == name and r["statistic"] == "mean"]
        path = folder / f"paper_{name.lower()}{'_stand_in' if stand_in else ''}.svg"
        title = f"{name}{' (stand-in)' if stand_in else ''}"
        _paper_picture(title, some, paper, path)
        lines.append(f"![{title}: cost ratio, gap and seconds over k]({path.name})\n")
    return lines


def _paper_picture(title: str, rows: list[Row], paper: list[Row], path: Path) -> None:
    figure, (left, middle, right, words) = _new(3)
    figure.suptitle(title, x=0.01, ha="left")
    ks = sorted({r["k"] for r in rows})

    def mean(method: str, k: int, name: str) -> float:
        values = [r[name] for r in rows if r["method"] == method and r["k"] == k and r[name] is not None]
        return float(np.mean(values)) if values else float("nan")

    for method in ("paper", "default"):
        style = {"color": COLORS[method], "label": LABELS[method], "marker": "o", "markersize": 4}
        left.plot(ks, [mean(method, k, "full_cost") / mean("plloyd", k, "full_cost") for k in ks], **style)
        gaps = [
            abs(mean(method, k, "full_cost") - mean(method, k, "summary_cost")) / mean(method, k, "full_cost")
            for k in ks
        ]
        middle.plot(ks, gaps, **style)
        right.plot(ks, [mean(method, k, "summary_seconds") for k in ks], **style)
    if paper:
        style = {"color": COLORS["paper's table"], "label": "paper's table", "marker": "s", "markersize": 4}
        with_base = [r for r in paper if r["plloyd_full_cost"]]
        left.plot([r["k"] for r in with_base], [r["full_cost"] / r["plloyd_full_cost"] for r in with_base], **style)
        middle.plot(
            [r["k"] for r in paper], [abs(r["full_cost"] - r["summary_cost"]) / r["full_cost"] for r in paper], **style
        )
        right.plot([r["k"] for r in paper], [r["summary_seconds"] for r in paper], **style)
    left.axhline(1.0, color="black", linewidth=0.8)
    left.set(xlabel="k", ylabel="full cost ÷ P-LLOYD++")
    middle.set(xlabel="k", ylabel="|full − summary| ÷ full")
    right.set(xlabel="k", ylabel="seconds for the summary")
    for panel in (middle, right):
        if any((np.asarray(line.get_ydata()) > 0).any() for line in panel.get_lines()):
            panel.set_yscale("log")
    words.legend(handles=left.get_lines()[:-1], frameon=False, loc="center")  # all but the line at 1
    save(figure, path)


def plot_gap(points: list[tuple[str, int, float, float]], path: Path) -> None:
    """Gap between summary and full cost against the quality of the solution, a dot a run."""
    figure, (axes,) = _new(1)
    for method in ("paper", "default"):
        some = [(gap, ratio) for m, _, gap, ratio in points if m == method]
        axes.scatter(*zip(*some, strict=True), s=8, alpha=0.5, color=COLORS[method], label=LABELS[method], linewidths=0)
    axes.set(xlabel="|full − summary| ÷ full", ylabel="full cost ÷ P-LLOYD++")
    axes.legend(frameon=False, fontsize=8)
    save(figure, path)


def plot_distortion(rows: list[Row], path: Path) -> None:
    """Mean distortion − 1 over the size, a panel a data set."""
    names = list(dict.fromkeys(r["data_set"] for r in rows))
    figure, panels = _new(len(names))
    for panel, name in zip(panels, names, strict=False):
        some = [r for r in rows if r["data_set"] == name]
        for method in ("default", "paper", "uniform"):
            sizes = sorted({r["size"] for r in some if r["method"] == method})
            mine = [r for r in some if r["method"] == method]
            found = [np.mean([r["distortion"] for r in mine if r["size"] == size]) - 1 for size in sizes]
            style = {"marker": "o", "markersize": 4, "color": COLORS[method], "label": LABELS[method]}
            panel.plot([size / some[0]["k"] for size in sizes], found, **style)
        title = f"{name}{' (stand-in)' if some[0]['stand_in'] else ''}"
        panel.set(title=title, xlabel="nodes per cluster", ylabel="distortion − 1", xscale="log", yscale="log")
    panels[0].legend(frameon=False, fontsize=8)
    save(figure, path)


def plot_growth(rows: list[Row], names: dict[str, str], path: Path) -> None:
    """Seconds over each axis."""
    shown = [axis for axis in names if axis != "threads" and any(r["axis"] == axis for r in rows)]
    figure, panels = _new(len(shown))
    for panel, axis in zip(panels, shown, strict=False):
        some = sorted((r for r in rows if r["axis"] == axis), key=lambda r: r[axis])
        for name, color in (("summary_seconds", COLORS["default"]), ("solve_seconds", COLORS["paper"])):
            style = {"marker": "o", "markersize": 4, "color": color, "label": name.partition("_")[0]}
            panel.plot([r[axis] for r in some], [r[name] for r in some], **style)
        panel.set(xlabel=names[axis], ylabel="seconds", xscale="log", yscale="log")
    panels[0].legend(frameon=False, fontsize=8)
    save(figure, path)


def plot_calibration(rows: list[Row], settings: list[str], kinds: Any, max_error: float, path: Path) -> None:
    """Share of labels that is right over confidence, a panel for each setting; the diagonal is calibrated."""
    colors = ("#4477aa", "#228833", "#ee6677", "#ccbb44", "#aa3377")
    styles = ("o-", "s-", "^--", "v--", "D:")
    figure, panels = _new(len(settings))
    for panel, setting in zip(panels, settings, strict=False):
        panel.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=5, solid_capstyle="butt", zorder=0)
        for kind, color, style in zip(kinds, colors, styles, strict=True):
            some = [r for r in rows if (r["setting"], r["kind"]) == (setting, kind) and r["error"] <= max_error]
            x, y = [r["confidence"] for r in some], [r["right"] for r in some]
            panel.plot(x, y, style, color=color, markersize=4, label=kind)
        panel.set_title(setting, fontsize=9, loc="left")
        panel.set(xlim=(0.3, 1.02), ylim=(0.3, 1.02), xlabel="confidence", ylabel="share that is right")
    panels[0].legend(fontsize=7, loc="upper left", frameon=False)
    save(figure, path)
