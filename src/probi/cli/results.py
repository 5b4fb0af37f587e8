"""The results of a command: as values, files, text and report."""

import math
import shlex
import sys
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probi._files import AnyPath
from probi._notes import counted, peak_megabytes, rounded, versions
from probi._stores import without_secrets
from probi.cli.console import Console, print_json, print_table
from probi.io.node_assembler import Counts, by_kind
from probi.io.passes import Tally
from probi.io.transform import Transform
from probi.io.write import write_centers, write_json
from probi.solver.result import Result, outlier_share
from probi.summary import Summary

if TYPE_CHECKING:
    from probi.choosing import KChoice
    from probi.io.labels import GridLabels

# Characters of an id in a table on the terminal.
MAX_NAME = 24


@dataclass(frozen=True)
class Results:
    """Solutions of one summary, and how they were computed.

    Details are shown of one solution: the recommended one, or the one with the most clusters if no k is clear.
    """

    summary: Summary
    space: Transform
    results: list[Result]  # by increasing number of clusters
    parameters: dict[str, Any]
    timings: dict[str, float]
    sources: list[str] = field(default_factory=list)
    counts: Counts | None = None  # of rows, if files were read
    tallies: list[Tally] = field(default_factory=list)  # one per result, if there was a second pass
    choice: "KChoice | None" = None  # of several numbers of clusters
    grid: "GridLabels | None" = None  # if there was a second pass over labeled arrays

    @property
    def chosen(self) -> int:
        """Index of the solution whose details are shown."""
        if self.choice is None or self.choice.recommended is None:
            return len(self.results) - 1
        return [len(result.centers) for result in self.results].index(self.choice.recommended)

    @cached_property
    def shown(self) -> list[Result]:
        """The results to show first: with the exact cost, if a second pass computed it."""
        if not self.tallies:
            return self.results
        return [
            replace(
                result, cost=tally.cost, standard_error=0.0,
                lower_bound=min(result.lower_bound, tally.cost), spread_cost=min(result.spread_cost, tally.cost),
            ).of_source(result)
            for result, tally in zip(self.results, self.tallies, strict=True)
        ]  # fmt: skip

    @cached_property
    def values(self) -> dict[str, Any]:
        """Contents of result.json and output of --json; computed once, so that time and memory agree."""
        summary, space = self.summary, self.space
        return {
            "details_of": f"the {self._chosen_as} solution; all are in solutions",
            "recommended": None if self.choice is None else self.choice.recommended,
            "reason": None if self.choice is None else self.choice.reason,
            **self._costs(self.chosen),
            "n_nodes": summary.n_nodes,
            "counts": None if self.counts is None else asdict(self.counts),
            "seed": self.parameters["seed"],
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

    @property
    def _chosen_as(self) -> str:
        """Which solution the chosen one is, in a word."""
        return "only" if self.choice is None else "largest" if self.choice.recommended is None else "recommended"

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

    def _outliers(self, i: int) -> dict[str, Any]:
        result = self.results[i]
        if result.outlier_distance == math.inf:
            return {}
        n_outliers = self.tallies[i].n_outliers if self.tallies else None
        mass = result.outlier_mass
        return {"outlier_distance": result.outlier_distance, "outlier_mass": mass, "n_outliers": n_outliers}

    def _solution(self, i: int) -> dict[str, Any]:
        result = self.results[i]
        centers = self.space.inverse(result.centers)
        representatives = result.representatives
        medians = self.space.inverse(representatives.medians)
        return {
            **self._costs(i),
            "excess": result.excess,
            "above_optimum_at_most": result.above_optimum,
            "representatives_cost": representatives.total_cost,
            "representatives_standard_error": representatives.standard_error,
            **({} if self.choice is None else self.choice.measures(i)),
            **self._outliers(i),
            "clusters": [
                {
                    "cluster": c,
                    **{name: float(getattr(result.clusters, name)[c]) for name in ("mass", "cost", "spread")},
                    "n_nodes": int(self.tallies[i].counts[c]) if self.tallies else None,
                    "center": dict(zip(self.space.features, map(float, centers[c]), strict=True)),
                    "representative": {
                        "id": None if representatives.ids is None else representatives.names[c],
                        "cost": float(representatives.cost[c]),
                        "median": dict(zip(self.space.features, map(float, medians[c]), strict=True)),
                    }
                    if representatives.index[c] >= 0
                    else None,
                }
                for c in range(len(result.centers))
            ],
        }

    def finish(self, console: Console, folder: AnyPath | None, write_error: Exception | None = None) -> None:
        """Write the results and print them; print them even if writing failed, now or before."""
        if folder is not None and write_error is None:
            try:
                with console.progress("Writing"):
                    self.write(folder)
                size = (folder / "summary.probi").stat().st_size or 0
                shown = f"{size / 1e6:,.1f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"
                console.say(f"Results are in {folder}; summary.probi has {shown}.")
            except OSError as error:
                write_error = error
        if console.json:
            print_json(self.values)
        else:
            self.show()
        if write_error is not None:
            raise write_error

    def write(self, folder: AnyPath) -> None:
        """Write centers, result.json, report and summary to a folder; small files first, in case the disk fills up."""
        if not self.tallies:
            # Assignments of an earlier run would not match the centers.
            (folder / "assignment.parquet").unlink(missing_ok=True)
        write_centers(folder, self.results, self.space, self.summary.about.get("reading"))
        write_json(folder / "result.json", self.values)
        write_run_report(self, folder / "report.html")
        self.summary.sealed().save(folder / "summary.probi")

    def show(self) -> None:
        """Print the result on standard output."""
        if self.choice is not None:
            self._show_choice(self.choice)
        result = self.shown[self.chosen]
        print(_headline(result, self.results[self.chosen], self.space.unit))
        if result.outlier_distance < math.inf:
            distance = _with_unit(f"{result.outlier_distance:,.6g}", self.space.unit)
            print(f"Left out as outliers: {outlier_share(result):.2%} of the mass, farther than {distance}.")
        names = self.space.features[:4]
        centers = self.space.inverse(result.centers)
        clusters, total = result.clusters, result.clusters.mass.sum()
        representatives = self.results[self.chosen].representatives
        rows = []
        for c, (mass, cost, spread) in enumerate(zip(clusters.mass, clusters.cost, clusters.spread, strict=True)):
            divisor = mass or math.nan  # an empty cluster has no means
            numbers = [f"{mass / total:.1%}", f"{cost / divisor:,.6g}", f"{spread / divisor:,.6g}"]
            ids = [] if representatives.ids is None else [_shortened(representatives.names[c])]
            rows.append([str(c), *numbers, *ids, *(f"{value:,.6g}" for value in centers[c, : len(names)])])
        id_header = [] if representatives.ids is None else ["representative"]
        print_table(["cluster", "mass", "to center", "spread", *id_header, *names], rows)
        if len(self.space.features) > len(names):
            print(f"and {len(self.space.features) - len(names)} more features of the centers.")

    def _show_choice(self, choice: "KChoice") -> None:
        measures = [choice.measures(i) for i in range(len(self.results))]
        rows = [
            [
                str(len(result.centers)), f"{result.cost:,.6g}", f"{rounded(result.standard_error):,g}",
                f"{result.excess:,.6g}", *("" if value is None else f"{value:.2f}" for value in values.values()),
            ]
            for result, values in zip(self.shown, measures, strict=True)
        ]  # fmt: skip
        print_table(["k", "cost", "±", "beyond spread", *measures[0]], rows)
        print(choice.reason)
        k = len(self.results[self.chosen].centers)
        print(f"Details are for the {self._chosen_as} k, {k}; for another, run again with only that -k.")


def _shortened(name: str) -> str:
    """An id that fits into a table; long ones often differ at their ends."""
    half = MAX_NAME // 2
    return name if len(name) <= MAX_NAME else f"{name[:half]}…{name[1 - half :]}"


def _headline(result: Result, estimated: Result, unit: str) -> str:
    """Number of clusters, cost with its error or the estimate before a second pass, spread and bound."""
    error = _error_bar(result)
    if result.cost != estimated.cost and estimated.standard_error:
        error = f" (estimate of the summary: {estimated.cost:,.6g}{_error_bar(estimated)})"
    share = result.spread_cost / result.cost if result.cost > 0 else 0.0
    spread = f"; {share:.0%} of it is the nodes' own spread" if result.spread_cost else ""
    above = result.above_optimum
    bound = "" if above is None else f"; at most {above:.1%} above the optimum"
    cost = _with_unit(f"{result.cost:,.6g}", unit)
    k = len(result.centers)
    return f"{k} cluster{'s' * (k != 1)}, cost {cost}{error}{spread}{bound}."


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit else text


def _error_bar(result: Result) -> str:
    return f" ± {rounded(result.standard_error):,g}" if result.standard_error else ""


def command_line() -> str:
    """The command as typed, without secrets."""
    return shlex.join(["probi", *map(without_secrets, sys.argv[1:])])


def write_run_report(results: Results, path: AnyPath) -> None:
    """Write the report of a run, report.html."""
    from probi.report import Borderline, LabelMap, ReportContext, write_report  # jinja2 is needed for nothing else

    second_pass: dict[str, Any] = {}
    grid = None if results.grid is None else results.grid.map(len(results.results[results.chosen].centers))
    if results.tallies:
        tally = results.tallies[results.chosen]
        borderline = [Borderline(*node[2:]) for node in tally.borderline]  # without ratio and order, the sort keys
        second_pass = {"borderline": borderline, "n_borderline": tally.n_borderline}
        second_pass["counts"] = [tally.counts for tally in results.tallies]
    fewest, most = (len(results.results[i].centers) for i in (0, -1))
    clusters = counted(most, "cluster") if fewest == most else f"{fewest} to {most} clusters"
    names = [Path(name).name for name in results.sources]
    source = names[0] if len(names) == 1 else f"{len(names)} files" if names else "a summary"
    words = sys.argv[1:]
    # Other commands, such as probi demo, have a fixed seed.
    has_seed = words[:1] not in (["cluster"], ["solve"]) or any(word.split("=")[0] == "--seed" for word in words)
    sample = results.summary.sample()
    context = ReportContext(
        title=f"{clusters} of {counted(results.summary.n_nodes, 'node')} from {source}",
        read=_input_facts(results),
        settings=_settings(results, len(sample)),
        reproduce=command_line() + ("" if has_seed else f" --seed {results.parameters['seed']}"),
        unit=results.space.unit,
        map=None if grid is None else LabelMap(*grid),
        **second_pass,
    )
    shown, space = results.shown, results.space
    write_report(path, shown, sample, context, chosen=results.chosen, features=space.features, original=space.inverse)


def _input_facts(results: Results) -> dict[str, str]:
    """What was read, label to text, for the report."""
    names, counts = results.sources, results.counts
    rows = {} if counts is None else {"Rows": f"{counts.rows:,}", "Rows left out": "; ".join(by_kind(counts)) or "none"}
    return {
        "Files": ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else ""),
        "Nodes": f"{results.summary.n_nodes:,}",
        **rows,
        "Features": f"{len(results.space.features):,}",
    }


def _settings(results: Results, n_drawn: int) -> dict[str, str]:
    """Seed, summary, scaling and the like, label to text, for the report."""
    summary, space = results.summary, results.space
    settings = {
        "Seed": str(results.parameters["seed"]),
        "Summary": f"{summary.size:,} nodes, for up to {summary.n_clusters} clusters, preset {summary.preset}",
        "Scaling": "none" if space.scale is None else "each coordinate divided by its own scale",
    }
    if space.lonlat is not None:
        settings["Distances"] = f"{' and '.join(space.lonlat)} on a sphere; straight lines in kilometers"
    if n_drawn < summary.n_nodes:
        settings["Plots"] = f"drawn from {n_drawn:,} nodes: the audit sample, in which distant nodes are more frequent"
    result = results.results[results.chosen]
    if results.tallies and result.standard_error > 0:
        estimate = _with_unit(f"{result.cost:,.6g}{_error_bar(result)}", space.unit)
        settings["Cost"] = f"summed over all nodes in a second pass; the estimate of the summary was {estimate}"
    if results.choice is not None:
        settings["Number of clusters"] = results.choice.reason
        settings["Another k"] = (
            f"details are for the {results._chosen_as} k; the slider of the plot shows the others, and probi solve "
            "summary.probi -k K makes a report of one"
        )
    return settings
