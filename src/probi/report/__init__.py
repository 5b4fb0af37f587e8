"""Pictures of solutions and a report of one page; needs the extra "plot" (matplotlib, jinja2)."""

from probi.report import _extra  # noqa: F401  first of all: it says what to install
from probi.report.page import Borderline, Story, write_report
from probi.report.plots import plot_clusters, plot_cost_split, plot_elbow, plot_profiles

__all__ = [
    "Borderline",
    "Story",
    "plot_clusters",
    "plot_cost_split",
    "plot_elbow",
    "plot_profiles",
    "write_report",
]
