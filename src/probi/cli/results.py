"""The results of a run: as values, as files, as text."""

import json
import math
import platform
import shlex
import sys
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from probi import __version__
from probi._memory import peak_megabytes
from probi._notes import rounded
from probi.cli.console import print_table
from probi.io.node_assembler import Counts
from probi.io.passes import Tally
from probi.io.transform import Transform
from probi.io.write import write_centers, write_json
from probi.solver.result import Result
from probi.summary import Summary

PACKAGES = ("numpy", "numba", "pyarrow")


@dataclass(frozen=True)
class Results:
    """Solutions of one summary, and how they were computed."""

    summary: Summary
    space: Transform
    results: list[Result]  # by increasing number of clusters
    parameters: dict[str, Any]
    seed: int
    timings: dict[str, float]
    sources: list[str] = field(default_factory=list)
    counts: Counts | None = None  # of rows, if files were read
    tallies: list[Tally] = field(default_factory=list)  # one per result, if there was a second pass

    @property
    def chosen(self) -> int:
        """Index of the solution shown in detail: the one with the most clusters. No rule tells which k is right."""
        return len(self.results) - 1

    @cached_property
    def shown(self) -> list[Result]:
        """The results to show first: with the exact cost, if a second pass computed it."""
        if not self.tallies:
            return self.results
        return [
            replace(
                result, cost=tally.cost, standard_error=0.0,
                lower_bound=min(result.lower_bound, tally.cost), spread_cost=min(result.spread_cost, tally.cost),
            )
            for result, tally in zip(self.results, self.tallies, strict=True)
        ]  # fmt: skip

    @cached_property
    def values(self) -> dict[str, Any]:
        """Contents of result.json and output of --json; computed once, so that time and memory agree."""
        summary, space, result = self.summary, self.space, self.results[self.chosen]
        return {
            "details_of": "the solution with the most clusters; all are in solutions",
            "n_clusters": len(result.centers),
            "cost": result.cost,
            "standard_error": result.standard_error,
            "exact_cost": self.tallies[self.chosen].cost if self.tallies else None,
            "lower_bound": result.lower_bound,
            "spread_cost": result.spread_cost,
            "thinning_bound": result.thinning_bound,
            "n_nodes": summary.n_nodes,
            "counts": None if self.counts is None else asdict(self.counts),
            "seed": self.seed,
            "parameters": self.parameters,
            "command": command_line(),
            "features": list(space.features),
            "lonlat": space.lonlat,
            "scale": None if space.scale is None else dict(zip(space.coordinate_names, space.scale, strict=True)),
            "unit": space.unit,
            "reading": summary.about.get("reading"),
            "summary": {
                "size": summary.size, "kept": summary.n_retained, "mass": summary.mass, "preset": summary.preset
            },
            "solutions": [self._solution(i) for i in range(len(self.results))],
            "versions": versions(),
            "timings": dict(self.timings),
            "peak_memory_mb": round(peak_megabytes(), 1),
        }  # fmt: skip

    def _solution(self, i: int) -> dict[str, Any]:
        result = self.results[i]
        tally = self.tallies[i] if self.tallies else None
        inverse = self.space.inverse(result.centers)
        return {
            "n_clusters": len(result.centers),
            "cost": result.cost,
            "standard_error": result.standard_error,
            "exact_cost": None if tally is None else tally.cost,
            "lower_bound": result.lower_bound,
            "spread_cost": result.spread_cost,
            "thinning_bound": result.thinning_bound,
            "excess": result.excess,
            "above_optimum_at_most": above_optimum(result),
            "clusters": [
                {
                    "cluster": c,
                    "mass": float(result.clusters.mass[c]),
                    "cost": float(result.clusters.cost[c]),
                    "spread": float(result.clusters.spread[c]),
                    "n_nodes": None if tally is None else int(tally.counts[c]),
                    "center": dict(zip(self.space.features, map(float, inverse[c]), strict=True)),
                }
                for c in range(len(result.centers))
            ],
        }

    def write(self, folder: Path) -> None:
        """Write centers, result.json, report and summary to a folder; small files first, in case the disk fills up."""
        from probi.cli.report_context import write_run_report

        if not self.tallies:
            # One from another run would not match the centers.
            (folder / "assignment.parquet").unlink(missing_ok=True)
        write_centers(folder, self.results, self.space, self.summary.about.get("reading"))
        write_json(folder / "result.json", self.values)
        write_run_report(self, folder / "report.html")
        self.summary.sealed().save(folder / "summary.probi")

    def show(self, as_json: bool) -> None:
        """Print the result on standard output."""
        if as_json:
            print(json.dumps(self.values, indent=2))
            return
        if len(self.results) > 1:
            self._show_costs()
        result = self.shown[self.chosen]
        print(_headline(result, self.results[self.chosen], self.space.unit))
        names = self.space.features[:4]
        inverse = self.space.inverse(result.centers)
        clusters, total = result.clusters, result.clusters.mass.sum()
        rows = []
        for c, (mass, cost, spread) in enumerate(zip(clusters.mass, clusters.cost, clusters.spread, strict=True)):
            each = mass or math.nan
            numbers = [f"{mass / total:.1%}", f"{cost / each:,.6g}", f"{spread / each:,.6g}"]
            rows.append([str(c), *numbers, *(f"{value:,.6g}" for value in inverse[c, : len(names)])])
        print_table(["cluster", "mass", "to center", "spread", *names], rows)
        if len(self.space.features) > len(names):
            print(f"and {len(self.space.features) - len(names)} more features of the centers.")

    def _show_costs(self) -> None:
        rows = [
            [str(len(r.centers)), f"{r.cost:,.6g}", f"{rounded(r.standard_error):,g}", f"{r.excess:,.6g}"]
            for r in self.shown
        ]
        print_table(["k", "cost", "±", "beyond spread"], rows)
        print(f"Details are for the largest, k = {rows[self.chosen][0]}; for another, run again with only that -k.")


def above_optimum(result: Result) -> float | None:
    """Upper bound on the relative gap between the cost, plus two standard errors, and the optimum."""
    worst = result.cost + 2.0 * result.standard_error
    return worst / result.lower_bound - 1.0 if result.lower_bound > 0.0 else None


def _headline(result: Result, estimated: Result, unit: str) -> str:
    error = _error_bar(result)
    if result.cost != estimated.cost and estimated.standard_error:
        error = f" (estimate of the summary: {estimated.cost:,.6g}{_error_bar(estimated)})"
    share = result.spread_cost / result.cost if result.cost > 0 else 0.0
    spread = f"; {share:.0%} of it is the nodes' own spread" if result.spread_cost else ""
    above = above_optimum(result)
    bound = "" if above is None else f"; at most {above:.1%} above the optimum"
    cost = f"{result.cost:,.6g}{' ' * bool(unit)}{unit}{error}"
    k = len(result.centers)
    return f"{k} cluster{'s' * (k != 1)}, cost {cost}{spread}{bound}."


def _error_bar(result: Result) -> str:
    return f" ± {rounded(result.standard_error):,g}" if result.standard_error else ""


def command_line() -> str:
    """The command as typed."""
    return shlex.join(["probi", *sys.argv[1:]])


def versions() -> dict[str, str]:
    """Versions on which the result may depend."""
    installed = {"probi": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed
