"""The results of a run: as values, as files, as text, as a report."""

import json
import math
import shlex
import sys
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from probi._notes import counted, rounded
from probi._system import peak_megabytes, versions
from probi.cli.console import Console, print_table, size_of_file
from probi.io.node_assembler import Counts, by_kind
from probi.io.passes import Tally
from probi.io.transform import Transform
from probi.io.write import write_centers, write_json
from probi.solver.result import Result
from probi.summary import Summary


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
        summary, space = self.summary, self.space
        return {
            "details_of": "the solution with the most clusters; all are in solutions",
            **self._costs(self.chosen),
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

    def _costs(self, i: int) -> dict[str, Any]:
        result = self.results[i]
        return {
            "n_clusters": len(result.centers),
            "cost": result.cost,
            "standard_error": result.standard_error,
            "exact_cost": self.tallies[i].cost if self.tallies else None,
            "lower_bound": result.lower_bound,
            "spread_cost": result.spread_cost,
            "thinning_bound": result.thinning_bound,
        }

    def _solution(self, i: int) -> dict[str, Any]:
        result = self.results[i]
        tally = self.tallies[i] if self.tallies else None
        inverse = self.space.inverse(result.centers)
        return {
            **self._costs(i),
            "excess": result.excess,
            "above_optimum_at_most": result.above_optimum,
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

    def finish(self, folder: Path | None, console: Console, as_json: bool, write_error: OSError | None = None) -> None:
        """Write the results and print them; print them even if writing failed, now or before."""
        if folder is not None and write_error is None:
            try:
                with console.progress("Writing"):
                    self.write(folder)
                size = (folder / "summary.probi").stat().st_size
                console.say(f"Results are in {folder}; summary.probi has {size_of_file(size)}.")
            except OSError as error:
                write_error = error
        self.show(as_json)
        if write_error is not None:
            raise write_error

    def write(self, folder: Path) -> None:
        """Write centers, result.json, report and summary to a folder; small files first, in case the disk fills up."""
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


def _headline(result: Result, estimated: Result, unit: str) -> str:
    error = _error_bar(result)
    if result.cost != estimated.cost and estimated.standard_error:
        error = f" (estimate of the summary: {estimated.cost:,.6g}{_error_bar(estimated)})"
    share = result.spread_cost / result.cost if result.cost > 0 else 0.0
    spread = f"; {share:.0%} of it is the nodes' own spread" if result.spread_cost else ""
    above = result.above_optimum
    bound = "" if above is None else f"; at most {above:.1%} above the optimum"
    cost = f"{result.cost:,.6g}{' ' * bool(unit)}{unit}{error}"
    k = len(result.centers)
    return f"{k} cluster{'s' * (k != 1)}, cost {cost}{spread}{bound}."


def _error_bar(result: Result) -> str:
    return f" ± {rounded(result.standard_error):,g}" if result.standard_error else ""


def command_line() -> str:
    """The command as typed."""
    return shlex.join(["probi", *sys.argv[1:]])


def write_run_report(results: Results, path: Path) -> None:
    """Write the report of a run, report.html."""
    from probi.report import Borderline, ReportContext, write_report  # jinja2 is needed for nothing else

    second_pass: dict[str, Any] = {}
    if results.tallies:
        tally = results.tallies[results.chosen]
        borderline = [Borderline(*between[2:]) for between in tally.between]  # without what they are sorted by
        second_pass = {"borderline": borderline, "n_borderline": tally.n_between, "counts": tally.counts}
    context = ReportContext(
        title=f"{_numbers(results.results)} of {counted(results.summary.n_nodes, 'node')} from {_sources(results)}",
        read=_read(results),
        settings=_settings(results),
        reproduce=_command_with_seed(results.seed),
        unit=results.space.unit,
        **second_pass,
    )
    space, sample = results.space, results.summary.sample()
    write_report(
        path, results.shown, sample, context, chosen=results.chosen, features=space.features, original=space.inverse
    )


def _command_with_seed(seed: int) -> str:
    """The command as typed, with the default seed if none was given."""
    words = sys.argv[1:]
    is_said = words[:1] not in (["cluster"], ["solve"]) or any(word.split("=")[0] == "--seed" for word in words)
    return command_line() if is_said else f"{command_line()} --seed {seed}"


def _numbers(results: list[Result]) -> str:
    """``8 clusters``, ``2 to 12 clusters``."""
    fewest, most = len(results[0].centers), len(results[-1].centers)
    return counted(most, "cluster") if fewest == most else f"{fewest} to {most} clusters"


def _sources(results: Results) -> str:
    names = [Path(name).name for name in results.sources]
    return names[0] if len(names) == 1 else f"{len(names)} files" if names else "a summary"


def _read(results: Results) -> dict[str, str]:
    names, counts = results.sources, results.counts
    found = {"Files": ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")}
    found["Nodes"] = f"{results.summary.n_nodes:,}"
    if counts is not None:
        found["Rows"] = f"{counts.rows:,}"
        found["Rows left out"] = "; ".join(by_kind(counts)) or "none"
    found["Features"] = f"{len(results.space.features):,}"
    return found


def _settings(results: Results) -> dict[str, str]:
    summary, space = results.summary, results.space
    settings = {
        "Seed": str(results.seed),
        "Summary": f"{summary.size:,} nodes, for up to {summary.n_clusters} clusters, preset {summary.preset}",
        "Scaling": "none" if space.scale is None else "each coordinate divided by its own scale",
    }
    if space.lonlat is not None:
        settings["Distances"] = f"{' and '.join(space.lonlat)} on a sphere; straight lines in kilometers"
    result = results.results[results.chosen]
    if results.tallies and result.standard_error > 0:
        estimate = f"{result.cost:,.6g} ± {rounded(result.standard_error):,g} {space.unit}".rstrip()
        settings["Cost"] = f"summed over all nodes in a second pass; the estimate of the summary was {estimate}"
    if len(results.results) > 1:
        settings["Another k"] = "details are for the largest k; for another, run probi solve summary.probi -k K"
    return settings
