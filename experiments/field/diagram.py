"""Critical-difference diagram of mean ranks, as SVG."""

from pathlib import Path

from matplotlib.figure import Figure

from experiments.field.ranks import Ranking
from experiments.pictures import save

OURS, OTHER = "#4477aa", "#777777"


def plot_ranks(rankings: dict[str, Ranking], path: Path) -> None:
    """A panel per score: mean ranks, each with half of the critical difference to both sides."""
    height = 0.9 + 0.24 * max(len(one.ranks) for one in rankings.values())
    figure = Figure(figsize=(7.4, height * len(rankings)), layout="constrained")
    panels = figure.subplots(len(rankings), 1, squeeze=False).ravel()
    for panel, (score, one) in zip(panels, rankings.items(), strict=True):
        names, half = list(one.ranks), one.critical / 2
        best = min(one.ranks.values())
        panel.axvspan(best - half, best + half, color="#dddddd", linewidth=0)
        for y, name in enumerate(names):
            color = OURS if name.startswith("probi") else OTHER
            panel.plot([one.ranks[name] - half, one.ranks[name] + half], [y, y], color=color, linewidth=2)
            panel.plot(one.ranks[name], y, "o", color=color, markersize=5)
        panel.set_yticks(range(len(names)), names, fontsize=8)
        panel.invert_yaxis()
        panel.set_title(f"{score}, {one.n_settings} settings", fontsize=9, loc="left")
        panel.set_xlabel("mean rank (1 is best)", fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(axis="x", alpha=0.3)
    save(figure, path)
