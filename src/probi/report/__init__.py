"""Plots of solutions, which need the extra "plot" (matplotlib), and a one-page report, which does not."""

from probi.report._map import LabelMap
from probi.report.page import Borderline, ReportContext, write_report
from probi.report.plots import plot_clusters, plot_cost_split, plot_elbow, plot_profiles

__all__ = [
    "Borderline",
    "LabelMap",
    "ReportContext",
    "plot_clusters",
    "plot_cost_split",
    "plot_elbow",
    "plot_profiles",
    "write_report",
]
