"""The steps that commands share: open, summarize, solve, assign; and the results, as values, files, text and report."""

import math
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from probi._notes import counted, rounded
from probi._stores import AnyPath, without_secrets
from probi._system import peak_megabytes, versions
from probi.choosing import KChoice, compare
from probi.cli.console import Console, Interrupts, print_json, print_table
from probi.cli.imports import allow
from probi.errors import InputError, StoppedError
from probi.io.node_assembler import MAX_LISTED, Batch, Counts, by_kind, check_left_out
from probi.io.options import Options, check_like_run, like_run
from probi.io.passes import Checkpoint, Tally, assign_all, summarize
from probi.io.reader import Reader
from probi.io.transform import Transform
from probi.io.write import assignment_file, write_centers, write_json
from probi.solver.options import SolveOptions
from probi.solver.progress import Step
from probi.solver.result import Result
from probi.solver.solve import solve
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.summary.file import is_archive

# Characters of an id in a table on the terminal.
MAX_NAME = 24


@contextmanager
def timed(timings: dict[str, float], step: str) -> Iterator[None]:
    """Measure how many seconds a step takes."""
    start = time.perf_counter()
    yield
    timings[step] = round(time.perf_counter() - start, 3)


def summary_config(ks: list[int], options: dict[str, Any]) -> SummaryConfig:
    """Config of a summary for up to the largest number of clusters; errors name options, not Python's arguments."""
    try:
        return SummaryConfig(ks[-1], **options)
    except InputError as error:
        named = re.sub(r'\b(preset|epsilon|delta)="?([\w.]*\w)"?,?', r"--\1 \2", str(error))
        raise InputError(re.sub(r"(?<!-)\b(epsilon|delta)\b", r"--\1", named)) from None


def parameters_of(files: list[str], reading: Options, **others: Any) -> dict[str, Any]:
    """Everything on which a result depends, as plain values."""
    values = asdict(reading) | {"files": [without_secrets(str(file)) for file in files]} | others
    values["scale"] = without_secrets(reading.scale)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def check_output(path: AnyPath, reader: Reader) -> None:
    """Raise if the output would overwrite an input file."""
    for source in reader.sources:
        if source.path is not None and source.path.resolve() == path.resolve():
            raise InputError(f"{path} is an input and would be overwritten by the result. Use another file: -o.")


def create_folder(path: AnyPath) -> None:
    """Create a folder if it does not exist."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, but the results need a folder. Use another name: -o.")
    path.mkdir(parents=True, exist_ok=True)


def space_of(summary: Summary) -> Transform:
    """Features of a summary; one made in Python may have no names."""
    if "space" in summary.about:
        return Transform.from_json(summary.about["space"])
    return Transform(tuple(f"x{j}" for j in range(summary.n_features or 0)))


def is_summary(path: AnyPath) -> bool:
    """Whether a file is a summary, or a window: read as a summary it raises a clear error, as a table it would not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1 << 20)
    return b"probi-sha256:" in start or path.suffix == ".probi" or is_archive(start)


def print_summary(console: Console, path: AnyPath, summary: Summary) -> None:
    """Describe a summary."""
    kind = "checkpoint" if "checkpoint" in summary.about else "summary"
    values: dict[str, Any] = {"file": str(path), "kind": kind, "bytes": path.stat().st_size}
    values |= {"n_nodes": summary.n_nodes, "kept": summary.n_retained}
    values |= {name: getattr(summary, name) for name in ("n_clusters", "size", "preset", "max_realizations")}
    values["thinning_bound"] = summary.thinning_bound if summary.max_realizations else None
    values |= {name: getattr(summary, name) for name in ("mass", "spread_cost", "lower_bound", "n_features")}
    values["features"] = summary.about.get("space", {}).get("features")
    console.print_values(values)


def open_reader(
    console: Console, files: list[str], reading: Options, before: Mapping[str, Any] | None = None, results: Any = None
) -> Reader:
    """Open files, and report how they are read; if given, as ``before`` by the run of a results folder."""
    reading = like_run(reading, before, str(results))
    reader = Reader(files, reading)
    console.say(f"{_name(reader)}: {reader.columns}.")
    if reading.features is None and reading.lonlat is None and reader.columns.degrees:
        console.say(f"Note: {reader.columns.degrees_note}")
    check_like_run(reader, before, str(results))
    return reader


def _name(reader: Reader) -> str:
    return str(reader.sources[0]) if len(reader.sources) == 1 else f"{len(reader.sources)} files"


@dataclass(frozen=True)
class ThisProcess:
    """Both passes over files, in this process."""

    console: Console
    reader: Reader
    parameters: dict[str, Any]
    checkpoint: AnyPath | None
    every: int  # nodes between two checkpoints

    def summarize(self, config: SummaryConfig, rejects: AnyPath | None) -> tuple[Summary, Counts]:
        """Read the files once; Ctrl-C stops between batches, with a checkpoint if one is wanted."""
        console, reader, path = self.console, self.reader, self.checkpoint
        if path is not None and reader.options.gather:
            raise InputError(
                "--checkpoint and --gather cannot be combined: gathering reads everything before the first node."
            )
        # max_bad does not change what is read: a run with a larger one may resume from the checkpoint.
        compared = {name: value for name, value in self.parameters.items() if name != "max_bad"}
        with console.progress("Reading") as bar, Interrupts(console) as interrupts:
            try:
                summary, counts = summarize(
                    reader,
                    Summary.from_config(config),
                    rejects=rejects,
                    checkpoint=None if path is None else Checkpoint(path, self.every, reader, compared),
                    on_resume=lambda counts: console.say(f"Resuming from {path}, after {counts.nodes:,} nodes."),
                    on_batch=lambda batch: bar.update(batch.counts.nodes, batch.fraction),
                    is_stopped=interrupts.is_stopped,
                )
            except StoppedError as stop:
                raise StoppedError(f"{stop} {_how_to_resume(path)}") from None
        if reader.n_across_files:
            console.say(
                f"Note: the rows of {counted(reader.n_across_files, 'node')} were gathered from several files. If ids "
                "are unique only within a file, these are different nodes: use --id-per-file."
            )
        check_counts(console, reader, counts, rejects)
        return summary, counts

    def assign(self, solutions: list[Result], path: AnyPath) -> list[Tally]:
        """Read the files a second time and write the cluster of each node."""
        # The files themselves: a folder or a pattern may match more by now, such as rejected.csv.
        again = Reader(self.reader.sources, self.reader.options, self.reader.known())
        centers, distances = [one.centers for one in solutions], [one.outlier_distance for one in solutions]
        return assign_reader(self.console, again, centers, path, distances)[0]


def check_counts(console: Console, reader: Reader, counts: Counts, rejects: AnyPath | None) -> None:
    """Report the rows left out; raise if that is all of them, or more than allowed."""
    if counts.nodes == 0:
        what = f"{counts.rows:,} rows, but none can be used" if counts.rows else "no rows"
        raise InputError(f"{_name(reader)} has {what}: there is nothing to cluster.")
    try:
        check_left_out(counts, reader.options)
    except InputError as error:
        raise InputError(f"{_name(reader)}: {error}{_rejects_hint(rejects)}") from None
    report_left_out(console, counts, rejects)


@contextmanager
def stoppable(checkpoint: AnyPath | None, can_resume: bool = True) -> Iterator[None]:
    """Say how to resume after a Ctrl-C that stops at once; remove the checkpoint at the end."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(f"Stopped. {_how_to_resume(checkpoint) if can_resume else 'Nothing was saved.'}") from None
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)


def _how_to_resume(checkpoint: AnyPath | None) -> str:
    if checkpoint is None:
        return "Nothing was saved; with --checkpoint FILE the next run could resume here."
    return f"Rerun the same command to resume from {checkpoint}."


def report_left_out(console: Console, counts: Counts, rejects: AnyPath | None = None) -> None:
    """Report how many rows are in no node, and why; and what was corrected."""
    n_left_out = counts.rows - counts.used
    if n_left_out:
        console.say(
            f"Left out {n_left_out:,} of {counts.rows:,} rows: {', '.join(by_kind(counts))}.{_rejects_hint(rejects)}"
        )
    if counts.absent:
        console.say(f"Treated {counts.absent:,} realizations with a missing value in their lists as absent.")
    if counts.normalized:
        console.say(
            f"Divided the probabilities of {counts.normalized:,} of {counts.nodes:,} nodes by their sum, which "
            "exceeded 1 by rounding."
        )


def _rejects_hint(rejects: AnyPath | None) -> str:
    return "" if rejects is None else f" See {rejects}, which lists the first {MAX_LISTED:,} of each kind."


def trimming(outliers: float | None, outlier_distance: float | None) -> dict[str, float]:
    """Arguments of the solver that say what is left out, if anything is; errors name options."""
    given = {"outliers": outliers, "outlier_distance": outlier_distance}
    try:
        SolveOptions(1, outliers=outliers, outlier_distance=outlier_distance)
    except InputError as error:
        named = re.sub(r"outlier(s|_distance)", lambda match: f"--{match[0].replace('_', '-')}", str(error))
        raise InputError(named) from None
    return {name: value for name, value in given.items() if value is not None}


def solve_all(
    console: Console, summary: Summary, ks: list[int], n_init: int | None, seed: int, name: str,
    trimming: Mapping[str, Any],
) -> list[Result]:  # fmt: skip
    """Solve one summary for each number of clusters."""
    n_nodes = summary.n_nodes
    if ks[-1] > n_nodes:
        raise InputError(f"{name} has {counted(n_nodes, 'node')}, too few for {ks[-1]:,} clusters. Use a smaller -k.")
    results = []
    with console.progress("Solving") as bar, console.warnings():
        for i, k in enumerate(ks):
            share = i / len(ks) if len(ks) > 1 else None

            def show(step: Step, k: int = k, share: float | None = share) -> None:
                bar.say(f"k = {k}, {step}", share)

            results.append(solve(summary, k, n_init=n_init, random_state=seed, on_progress=show, **trimming))
    return results


def compare_all(console: Console, summary: Summary, results: list[Result], seed: int) -> KChoice | None:
    """Compare solutions for several numbers of clusters; None if there is only one."""
    if len(results) == 1:
        return None
    allow("scipy")  # which matches clusters of possible worlds
    with console.progress("Comparing") as bar:

        def show(i: int) -> None:
            bar.say(f"k = {len(results[i].centers)}", i / len(results))

        return compare(summary, results, seed, on_result=show)


def assign_reader(
    console: Console, reader: Reader, centers: list[Any], path: AnyPath | None, distances: list[float] | None = None
) -> tuple[list[Tally], Counts]:
    """Assign all nodes of a reader, and write them if there is a path. Also returns the counts of rows."""
    counts = Counts()
    with console.progress("Assigning") as bar:

        def show(batch: Batch) -> None:
            nonlocal counts
            counts = batch.counts
            bar.update(counts.nodes, batch.fraction)

        if path is None:
            return assign_all(reader, centers, on_batch=show), counts
        with assignment_file(path) as file:
            return assign_all(reader, centers, file.write, show, outlier_distances=distances), counts


def write_grid(console: Console, reader: Reader, folder: AnyPath, results: list[Result]) -> None:
    """Write labels.nc if the input is one file of labeled arrays; one of another run would not match the centers."""
    path = folder / "labels.nc"
    if reader.labels is None or len(reader.sources) > 1:
        path.unlink(missing_ok=True)
        return
    from probi.io.labels import write_labels  # loads xarray

    again = Reader(reader.sources, reader.options, reader.known())
    reason = write_labels(path, again, folder / "assignment.parquet", results, reader.space)
    if reason is not None:
        console.say(f"No labels.nc: {reason}. See assignment.parquet.")


# -- results ----------------------------------------------------------------------------------------------------------


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
    choice: KChoice | None = None  # of several numbers of clusters

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
            "details_of": f"the {self._which} solution; all are in solutions",
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
    def _which(self) -> str:
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
        inverse = self.space.inverse(result.centers)
        chosen = result.representatives
        medians = self.space.inverse(chosen.medians)
        return {
            **self._costs(i),
            "excess": result.excess,
            "above_optimum_at_most": result.above_optimum,
            "representatives_cost": chosen.total_cost,
            "representatives_standard_error": chosen.standard_error,
            **({} if self.choice is None else self.choice.measures(i)),
            **self._outliers(i),
            "clusters": [
                {
                    "cluster": c,
                    **{name: float(getattr(result.clusters, name)[c]) for name in ("mass", "cost", "spread")},
                    "n_nodes": int(self.tallies[i].counts[c]) if self.tallies else None,
                    "center": dict(zip(self.space.features, map(float, inverse[c]), strict=True)),
                    "representative": {
                        "id": None if chosen.ids is None else chosen.names[c],
                        "cost": float(chosen.cost[c]),
                        "median": dict(zip(self.space.features, map(float, medians[c]), strict=True)),
                    }
                    if chosen.index[c] >= 0
                    else None,
                }
                for c in range(len(result.centers))
            ],
        }

    def finish(self, console: Console, folder: AnyPath | None, write_error: OSError | None = None) -> None:
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
            # One from another run would not match the centers.
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
            share = result.outlier_mass / (result.outlier_mass + float(result.clusters.mass.sum()))
            unit = f" {self.space.unit}".rstrip()
            print(f"Left out as outliers: {share:.2%} of the mass, farther than {result.outlier_distance:,.6g}{unit}.")
        names = self.space.features[:4]
        inverse = self.space.inverse(result.centers)
        clusters, total = result.clusters, result.clusters.mass.sum()
        chosen = self.results[self.chosen].representatives
        rows = []
        for c, (mass, cost, spread) in enumerate(zip(clusters.mass, clusters.cost, clusters.spread, strict=True)):
            each = mass or math.nan
            numbers = [f"{mass / total:.1%}", f"{cost / each:,.6g}", f"{spread / each:,.6g}"]
            ids = [] if chosen.ids is None else [_shortened(chosen.names[c])]
            rows.append([str(c), *numbers, *ids, *(f"{value:,.6g}" for value in inverse[c, : len(names)])])
        named = [] if chosen.ids is None else ["representative"]
        print_table(["cluster", "mass", "to center", "spread", *named, *names], rows)
        if len(self.space.features) > len(names):
            print(f"and {len(self.space.features) - len(names)} more features of the centers.")

    def _show_choice(self, choice: KChoice) -> None:
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
        print(f"Details are for the {self._which} k, {k}; for another, run again with only that -k.")


def _shortened(name: str) -> str:
    """An id that fits into a table; long ones often differ at their ends."""
    half = MAX_NAME // 2
    return name if len(name) <= MAX_NAME else f"{name[:half]}…{name[1 - half :]}"


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
    """The command as typed, but for secrets."""
    return shlex.join(["probi", *map(without_secrets, sys.argv[1:])])


def write_run_report(results: Results, path: AnyPath) -> None:
    """Write the report of a run, report.html."""
    from probi.report import Borderline, ReportContext, write_report  # jinja2 is needed for nothing else

    second_pass: dict[str, Any] = {}
    if results.tallies:
        tally = results.tallies[results.chosen]
        borderline = [Borderline(*node[2:]) for node in tally.borderline]  # without what they are sorted by
        second_pass = {"borderline": borderline, "n_borderline": tally.n_borderline, "counts": tally.counts}
    fewest, most = (len(results.results[i].centers) for i in (0, -1))
    clusters = counted(most, "cluster") if fewest == most else f"{fewest} to {most} clusters"
    names = [Path(name).name for name in results.sources]
    source = names[0] if len(names) == 1 else f"{len(names)} files" if names else "a summary"
    words = sys.argv[1:]
    is_said = words[:1] not in (["cluster"], ["solve"]) or any(word.split("=")[0] == "--seed" for word in words)
    context = ReportContext(
        title=f"{clusters} of {counted(results.summary.n_nodes, 'node')} from {source}",
        read=_read(results),
        settings=_settings(results),
        reproduce=command_line() + ("" if is_said else f" --seed {results.parameters['seed']}"),
        unit=results.space.unit,
        **second_pass,
    )
    shown, sample, space = results.shown, results.summary.sample(), results.space
    write_report(path, shown, sample, context, chosen=results.chosen, features=space.features, original=space.inverse)


def _read(results: Results) -> dict[str, str]:
    names, counts = results.sources, results.counts
    rows = {} if counts is None else {"Rows": f"{counts.rows:,}", "Rows left out": "; ".join(by_kind(counts)) or "none"}
    return {
        "Files": ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else ""),
        "Nodes": f"{results.summary.n_nodes:,}",
        **rows,
        "Features": f"{len(results.space.features):,}",
    }


def _settings(results: Results) -> dict[str, str]:
    summary, space = results.summary, results.space
    settings = {
        "Seed": str(results.parameters["seed"]),
        "Summary": f"{summary.size:,} nodes, for up to {summary.n_clusters} clusters, preset {summary.preset}",
        "Scaling": "none" if space.scale is None else "each coordinate divided by its own scale",
    }
    if space.lonlat is not None:
        settings["Distances"] = f"{' and '.join(space.lonlat)} on a sphere; straight lines in kilometers"
    result = results.results[results.chosen]
    if results.tallies and result.standard_error > 0:
        estimate = f"{result.cost:,.6g}{_error_bar(result)} {space.unit}".rstrip()
        settings["Cost"] = f"summed over all nodes in a second pass; the estimate of the summary was {estimate}"
    if results.choice is not None:
        settings["Number of clusters"] = results.choice.reason
        settings["Another k"] = (
            f"details are for the {results._which} k; for another, run probi solve summary.probi -k K"
        )
    return settings
