"""The steps that commands share: open, summarize, solve, assign."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from probi._files import AnyPath, as_path, file_key, locked_file, locked_folder
from probi._notes import counted
from probi._stores import without_secrets
from probi.cli.app import allow_import
from probi.cli.console import Console, Interrupts
from probi.errors import InputError, StoppedError
from probi.io.formats.base import Source
from probi.io.node_assembler import MAX_LISTED, Batch, Counts, by_kind, check_left_out
from probi.io.options import Options, check_like_run, like_run
from probi.io.passes import Checkpoint, Tally, assign_all, summarize
from probi.io.reader import Reader
from probi.io.transform import SCALES, Transform
from probi.io.write import assignment_file
from probi.solver.options import SolveOptions, Step
from probi.solver.result import Result
from probi.solver.solve import solve
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.summary.file import is_archive

if TYPE_CHECKING:
    from probi.choosing import KChoice
    from probi.io.labels import GridLabels


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


# Files of a results folder.
RESULTS = (
    "centers.parquet", "centers.csv", "assignment.parquet", "summary.probi", "report.html", "result.json",
    "rejected.csv", "labels.nc",
)  # fmt: skip


def check_outputs(
    outputs: Sequence[AnyPath], sources: Sequence[Source], reading: Options, *inputs: AnyPath | None
) -> None:
    """Raise if an output, such as a checkpoint, would overwrite an input or another output."""
    scale = None if reading.scale in SCALES else as_path(reading.scale)
    keys = {file_key(path) for path in (*(source.path for source in sources), scale, *inputs) if path is not None}
    for path in outputs:
        if (key := file_key(path)) in keys:
            raise InputError(
                f"{path} is an input and would be overwritten by the result. Use another name (-o, --checkpoint), or "
                "list the files to read."
            )
        if any(file_key(other) == key for other in outputs if other is not path):
            raise InputError(f"{path} would be both the result and the checkpoint. Use another name for one of them.")


@contextmanager
def results_folder(path: AnyPath | None) -> Iterator[None]:
    """Create the folder if there is to be one, and let no other run write to it."""
    if path is None:
        yield
        return
    create_folder(path)
    with locked_folder(path):
        yield


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
    space = summary.about.get("space")
    values["features"] = space.get("features") if isinstance(space, dict) else None
    console.print_values(values)


def open_reader(
    console: Console, files: list[str], reading: Options, before: Mapping[str, Any] | None = None, results: Any = None
) -> Reader:
    """Open files, and report how they are read; if given, as ``before`` by the run of a results folder."""
    reading = like_run(reading, before, str(results))
    reader = Reader(files, reading)
    console.say(f"{_name_of_input(reader)}: {reader.columns}.")
    if reading.features is None and reading.lonlat is None and reader.columns.degrees:
        console.say(f"Note: {reader.columns.degrees_note}")
    check_like_run(reader, before, str(results))
    return reader


def _name_of_input(reader: Reader) -> str:
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
        raise InputError(f"{_name_of_input(reader)} has {what}: there is nothing to cluster.")
    try:
        check_left_out(counts, reader.options)
    except InputError as error:
        raise InputError(f"{_name_of_input(reader)}: {error}{_rejects_hint(rejects)}") from None
    report_left_out(console, counts, rejects)


@contextmanager
def stoppable(checkpoint: AnyPath | None, can_resume: bool = True) -> Iterator[None]:
    """Say how to resume after a Ctrl-C that stops at once; remove the checkpoint at the end. Others cannot use it."""
    with locked_file(checkpoint):
        try:
            yield
        except KeyboardInterrupt:
            how = _how_to_resume(checkpoint) if can_resume else "Nothing was saved."
            raise StoppedError(f"Stopped. {how}") from None
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
    with console.progress("Solving") as bar:
        for i, k in enumerate(ks):
            share = i / len(ks) if len(ks) > 1 else None

            def show(step: Step, k: int = k, share: float | None = share) -> None:
                bar.say(f"k = {k}, {step}", share)

            results.append(solve(summary, k, n_init=n_init, random_state=seed, on_progress=show, **trimming))
    return results


def compare_all(console: Console, summary: Summary, results: list[Result], seed: int) -> "KChoice | None":
    """Compare solutions for several numbers of clusters; None if there is only one."""
    if len(results) == 1:
        return None
    from probi.choosing import compare  # takes 10 ms, which one number of clusters does without

    allow_import("scipy")  # which matches clusters of possible worlds
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
            return assign_all(reader, centers, on_batch=show, outlier_distances=distances), counts
        with assignment_file(path) as file:
            return assign_all(reader, centers, file.write, show, outlier_distances=distances), counts


def write_grid(console: Console, reader: Reader, folder: AnyPath, results: list[Result]) -> "GridLabels | None":
    """Write labels.nc if the input is one file of labeled arrays; one of another run would not match the centers."""
    path = folder / "labels.nc"
    if reader.labeled is None or len(reader.sources) > 1:
        path.unlink(missing_ok=True)
        return None
    from probi.io.labels import grid_labels  # loads xarray

    again = Reader(reader.sources, reader.options, reader.known())
    grid = grid_labels(again, folder / "assignment.parquet", results, reader.space)
    several = "a dimension of the nodes has several levels, which NetCDF does not hold"
    reason = several if grid is None else grid.write(path)
    if reason is not None:
        console.say(f"No labels.nc: {reason}. See assignment.parquet.")
    return grid
