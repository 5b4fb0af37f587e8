"""The steps that commands share: open, summarize, solve, assign, also in the coordinates of given centers."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from probi._notes import counted
from probi.cli.console import Console, Interrupts, print_values
from probi.errors import InputError, StoppedError
from probi.io.node_assembler import MAX_LISTED, Batch, Counts, by_kind, check_left_out
from probi.io.options import Options, as_before, check_as_before
from probi.io.passes import Checkpoint, Tally, assign_all, summarize
from probi.io.reader import Reader
from probi.io.transform import Transform
from probi.io.write import Centers, assignment_file, read_centers
from probi.solver.progress import Step
from probi.solver.result import Result
from probi.solver.solve import solve
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.summary.file import is_archive
from probi.tables.columns import degrees_in
from probi.tables.convert import degrees_note


class Clock(dict[str, float]):
    """Seconds taken by each step."""

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Measure how long a step takes."""
        start = time.perf_counter()
        yield
        self[step] = round(time.perf_counter() - start, 3)


def summary_config(ks: list[int], options: dict[str, Any]) -> SummaryConfig:
    """Config of a summary for up to the largest number of clusters; errors name options, not Python's arguments."""
    try:
        return SummaryConfig(ks[-1], **options)
    except InputError as error:
        named = re.sub(r'\b(preset|epsilon|delta)="?([\w.]*\w)"?,?', r"--\1 \2", str(error))
        raise InputError(re.sub(r"(?<!-)\b(epsilon|delta)\b", r"--\1", named)) from None


def parameters_of(files: list[str], reading: Options, **others: Any) -> dict[str, Any]:
    """Everything on which a result depends, as plain values."""
    values = asdict(reading) | {"files": list(map(str, files))} | others
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def check_output(path: Path, reader: Reader) -> None:
    """Raise if the output would overwrite an input file."""
    for source in reader.sources:
        if source.path is not None and source.path.resolve() == path.resolve():
            raise InputError(f"{path} is an input and would be overwritten by the result. Use another file: -o.")


def create_folder(path: Path) -> None:
    """Create a folder if it does not exist."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file, but the results need a folder. Use another name: -o.")
    path.mkdir(parents=True, exist_ok=True)


def space_of(summary: Summary) -> Transform:
    """Features of a summary; one made in Python may have no names."""
    if "space" in summary.about:
        return Transform.from_json(summary.about["space"])
    return Transform(tuple(f"x{j}" for j in range(summary.n_features or 0)))


def is_summary(path: Path) -> bool:
    """Whether a file is a summary, or a window: read as a summary it raises a clear error, as a table it would not."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1 << 20)
    return b"probi-sha256:" in start or path.suffix == ".probi" or is_archive(start)


def print_summary(path: Path, summary: Summary, as_json: bool) -> None:
    """Describe a summary."""
    kind = "checkpoint" if "checkpoint" in summary.about else "summary"
    values: dict[str, Any] = {"file": str(path), "kind": kind, "bytes": path.stat().st_size}
    values |= {"n_nodes": summary.n_nodes, "kept": summary.n_retained}
    values |= {name: getattr(summary, name) for name in ("n_clusters", "size", "preset", "max_realizations")}
    values["thinning_bound"] = summary.thinning_bound if summary.max_realizations else None
    values |= {name: getattr(summary, name) for name in ("mass", "spread_cost", "lower_bound", "n_features")}
    values["features"] = summary.about.get("space", {}).get("features")
    print_values(values, as_json)


def open_reader(
    console: Console,
    files: Sequence[str],
    reading: Options,
    before: Mapping[str, Any] | None = None,
    results: Path | None = None,
) -> Reader:
    """Open files, and report how they are read; if given, as ``before`` by the run of a results folder."""
    reading = as_before(reading, before, str(results))
    reader = Reader(files, reading)
    console.say(f"{_name(reader)}: {reader.columns}.")
    if reading.features is None and reading.lonlat is None and reader.columns.degrees:
        console.say(f"Note: {degrees_note(reader.columns)}")
    check_as_before(reader, before, str(results))
    return reader


def _name(reader: Reader) -> str:
    return str(reader.sources[0]) if len(reader.sources) == 1 else f"{len(reader.sources)} files"


def summarize_files(
    console: Console,
    reader: Reader,
    config: SummaryConfig,
    parameters: dict[str, Any],
    rejects: Path | None,
    checkpoint: Path | None,
    every: int,
) -> tuple[Summary, Counts]:
    """Read the files once; Ctrl-C stops between batches, with a checkpoint if one is wanted."""
    if checkpoint is not None and reader.options.gather:
        raise InputError(
            "--checkpoint and --gather cannot be combined: gathering reads everything before the first node."
        )
    # max_bad does not change what is read: a run with a larger one may resume from the checkpoint.
    compared = {name: value for name, value in parameters.items() if name != "max_bad"}
    saver = None if checkpoint is None else Checkpoint(checkpoint, every, reader, compared)
    with console.progress("Reading") as bar, Interrupts(console) as interrupts:
        try:
            summary, counts = summarize(
                reader,
                Summary.from_config(config),
                rejects=rejects,
                checkpoint=saver,
                on_resume=lambda counts: console.say(f"Resuming from {checkpoint}, after {counts.nodes:,} nodes."),
                on_batch=lambda batch: bar.update(batch.counts.nodes, batch.fraction),
                is_stopped=interrupts.is_stopped,
            )
        except StoppedError as stop:
            raise StoppedError(f"{stop} {_how_to_resume(checkpoint)}") from None
    if reader.n_across_files:
        console.say(
            f"Note: the rows of {counted(reader.n_across_files, 'node')} were gathered from several files. If ids "
            "are unique only within a file, these are different nodes: use --id-per-file."
        )
    check_counts(console, reader, counts, rejects)
    return summary, counts


def check_counts(console: Console, reader: Reader, counts: Counts, rejects: Path | None) -> None:
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
def stoppable(checkpoint: Path | None, can_resume: bool = True) -> Iterator[None]:
    """Say how to resume after a Ctrl-C that stops at once."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(f"Stopped. {_how_to_resume(checkpoint) if can_resume else 'Nothing was saved.'}") from None


def _how_to_resume(checkpoint: Path | None) -> str:
    if checkpoint is None:
        return "Nothing was saved; with --checkpoint FILE the next run could resume here."
    return f"Rerun the same command to resume from {checkpoint}."


def report_left_out(console: Console, counts: Counts, rejects: Path | None = None) -> None:
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


def _rejects_hint(rejects: Path | None) -> str:
    return "" if rejects is None else f" See {rejects}, which lists the first {MAX_LISTED:,} of each kind."


def solve_all(
    console: Console, summary: Summary, ks: list[int], n_init: int | None, seed: int, name: str
) -> list[Result]:
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

            results.append(solve(summary, k, n_init=n_init, random_state=seed, on_progress=show))
    return results


def assign_reader(
    console: Console, reader: Reader, centers: Sequence[Any], path: Path | None
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
            return assign_all(reader, centers, file.write, show), counts


# -- centers of probi assign and probi evaluate -----------------------------------------------------------------------


def reader_in_space_of(
    centers: Centers, name: Path, console: Console, files: list[str], reading: Options
) -> tuple[Reader, Any]:
    """Reader whose coordinates are those of the centers, and the centers."""
    if reading.scale in ("standard", "robust"):
        raise InputError(
            f"--scale {reading.scale} would be estimated from these files, not from those of the centers. Pass the "
            "scales as a file, such as the result.json of the run that found the centers."
        )
    if centers.space is None:
        _check_degrees(centers, name, reading)
    elif centers.reading is None and reading.lonlat is None:
        reading = replace(reading, lonlat=centers.space.lonlat)
    reader = _open_for(centers, name, console, files, reading)
    _check_same_features(centers, reader.columns.features, str(reader.sources[0]))
    if centers.space is None:
        return reader, reader.space.coordinates(centers.coordinates)
    _check_same_space(reader.space, centers.space, name, reading)
    reader.resume_with(centers.space)
    return reader, centers.coordinates


def _check_degrees(centers: Centers, name: Path, reading: Options) -> None:
    """Raise if a table of centers without a recorded space seems to contain degrees."""
    degrees = degrees_in(centers.features)
    if reading.lonlat is None and degrees is not None:
        lon, lat = degrees
        raise InputError(
            f"{name} has the columns {lon} and {lat}, but does not record how distances were measured. Pass the "
            f"folder of its run, or say that they are degrees: --lonlat {lon},{lat}."
        )


def _check_same_space(given: Transform, theirs: Transform, name: Path, reading: Options) -> None:
    if given.lonlat != theirs.lonlat:
        has = "no longitude and latitude" if theirs.lonlat is None else f"{','.join(theirs.lonlat)}"
        raise InputError(
            f"--lonlat is {','.join(given.lonlat or ())}, but the run in {name} had {has}. Omit the option."
        )
    if reading.scale != "none" and given.scale != theirs.scale:
        raise InputError(f"--scale {reading.scale} has other scales than the run in {name}. Omit the option.")


def _open_for(centers: Centers, name: Path, console: Console, files: list[str], reading: Options) -> Reader:
    """Open files as the run of the centers did, or at least with the same feature columns."""
    if centers.reading is not None or reading.features is not None:
        return open_reader(console, files, reading, centers.reading, name)
    try:
        return open_reader(console, files, replace(reading, features=centers.features))
    except InputError:
        # A column of point lists names no features; standard input cannot be opened again.
        if "-" in files or Reader(files, reading).columns.points is None:
            raise
        return open_reader(console, files, reading)


def _check_same_features(centers: Centers, features: tuple[str, ...], name: str) -> None:
    if features != centers.features:
        theirs, ours = ", ".join(centers.features), ", ".join(features)
        raise InputError(f"The centers have the features {theirs}, but {name} has {ours}.")


def coordinates_in(summary: Summary, centers: Centers, name: str) -> Any:
    """Centers in the coordinates of a summary, whose scales may differ from those of the centers."""
    if "space" not in summary.about:  # made in Python: the user knows its coordinates
        return centers.coordinates
    space = space_of(summary)
    _check_same_features(centers, space.features, name)
    if centers.space == space:
        return centers.coordinates
    inverse = centers.coordinates if centers.space is None else centers.space.inverse(centers.coordinates)
    return space.coordinates(inverse)


def load_centers(path: Path, n_clusters: int | None) -> Centers:
    """Centers of a file; raises for a summary, which has none."""
    if is_summary(path):
        raise InputError(
            f"{path} is a summary, which has no centers yet. First run probi solve {path} -k K -o out, then use "
            "--centers out."
        )
    return read_centers(path, n_clusters)
