"""probi cluster, summarize, merge, solve."""

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from probi.cli import options as opt
from probi.cli.elsewhere import PART_MEGABYTES, Elsewhere
from probi.cli.inspect import print_summary
from probi.cli.outcome import Outcome
from probi.cli.talk import Talk
from probi.cli.work import (
    Clock,
    assign_files,
    open_reader,
    results_folder,
    solve_all,
    space_of,
    stoppable,
    summarize_files,
)
from probi.engines._work import Recipe
from probi.errors import InputError
from probi.io.reader import Options
from probi.summary import Summary

EVERY = 1_000_000


@opt.examples(
    "probi cluster points.csv -k 8",
    "probi cluster covertype.parquet --layout groups --group-size 10 -k 20 -o out",
    "zcat gps.csv.gz | probi cluster - -k 12 --layout long --id trip --lonlat lon,lat",
    "probi cluster 'part-*.parquet' -k 2:30 -o out --checkpoint run.probi",
    "probi cluster /shared/days -k 20 -o out --engine dask --workers tcp://scheduler:8786",
)
@opt.reads_nodes
def cluster(
    files: opt.Files,
    clusters: opt.Clusters,
    reading: Options,
    output: opt.Folder = None,
    seed: opt.Seed = 0,
    size: opt.Size = None,
    preset: opt.Preset = "default",
    max_realizations: opt.MostRealizations = None,
    n_init: opt.Starts = None,
    assign: Annotated[
        bool, typer.Option("--assign/--no-assign", help="Read a second time and write assignment.parquet.")
    ] = True,
    checkpoint: opt.Checkpoint = None,
    checkpoint_every: opt.Every = EVERY,
    engine: opt.Engine = "local",
    workers: opt.Workers = None,
    part_size: opt.PartSize = PART_MEGABYTES,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Cluster files of nodes: read once, summarise, solve, write.

    Without -o the result is only printed. With -o FOLDER the folder gets centers.parquet, centers.csv,
    assignment.parquet, summary.probi, report.html, result.json, and rejected.csv if rows were left out.
    """
    elsewhere = Elsewhere.checked(engine, workers, part_size, checkpoint)
    with stoppable(checkpoint, can_go_on=elsewhere is None):
        cluster_files(
            Talk(quiet), files, opt.numbers_of_clusters(clusters), reading, output, seed=seed, size=size,
            preset=preset, max_realizations=max_realizations, n_init=n_init, assign=assign, checkpoint=checkpoint,
            every=checkpoint_every, elsewhere=elsewhere, as_json=json,
        )  # fmt: skip


def cluster_files(
    talk: Talk,
    files: list[str],
    ks: list[int],
    reading: Options,
    output: Path | None,
    *,
    seed: int = 0,
    size: int | None = None,
    preset: str = "default",
    max_realizations: int | None = None,
    n_init: int | None = None,
    assign: bool = True,
    checkpoint: Path | None = None,
    every: int = EVERY,
    elsewhere: Elsewhere | None = None,
    as_json: bool = False,
) -> None:
    """Do the main job; see :func:`cluster`. With ``elsewhere`` the workers of an engine read the files."""
    clock = Clock()
    others = {} if elsewhere is None else elsewhere.parameters
    kept: dict[str, Any] = {"size": size, "preset": preset, "max_realizations": max_realizations}
    parameters = _parameters(files, reading, k=ks, **kept, n_init=n_init, seed=seed, **others)
    reader = open_reader(talk, files, reading)
    summary = Summary(ks[-1], random_state=seed, **kept)
    if output is not None:
        results_folder(output, reader)
    rejects = None if output is None else output / "rejected.csv"
    with contextlib.ExitStack() as stack:
        workers = None if elsewhere is None else stack.enter_context(elsewhere.workers(talk, reader))
        with clock.timed("read"):
            if workers is None:
                summary, counts = summarize_files(talk, reader, summary, parameters, rejects, checkpoint, every)
            else:
                summary, counts = workers.summarize(Recipe.checked(ks[-1], random_state=seed, **kept), rejects)
        sources = [str(source) for source in reader.sources]
        with clock.timed("solve"):
            results = solve_all(talk, summary, ks, n_init, seed, sources[0])
        tallies = []
        if output is not None and assign and all(source.size is not None for source in reader.sources):
            path = output / "assignment.parquet"
            with clock.timed("assign"):
                if workers is None:
                    tallies = assign_files(talk, reader, results, path)
                else:
                    tallies = workers.assign(results, path)
        elif output is not None and assign:
            talk.say("No assignment.parquet: a stream cannot be read twice. Use probi assign on a copy of it.")
    outcome = Outcome(summary, reader.space, results, parameters, seed, clock, sources, counts, tallies)
    _finish(outcome, output, talk, as_json)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)


def _finish(outcome: Outcome, folder: Path | None, talk: Talk, as_json: bool) -> None:
    """Write the results and show them."""
    if folder is not None:
        with talk.progress("Writing"):
            outcome.write(folder, talk)
        talk.say(f"Results are in {folder}.")
    outcome.tell(as_json)


def _parameters(files: list[str], reading: Options, **others: Any) -> dict[str, Any]:
    """All that the result depends on, as plain values."""
    values = asdict(reading) | {"files": list(map(str, files))} | others
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@opt.examples(
    "probi summarize monday.parquet -k 30 --shard 0 -o monday.probi",
    "probi summarize tuesday.parquet -k 30 --shard 1 -o tuesday.probi",
    "probi merge monday.probi tuesday.probi -o week.probi",
)
@opt.reads_nodes
def summarize(
    files: opt.Files,
    clusters: opt.Clusters,
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the summary.")],
    reading: Options,
    seed: opt.Seed = 0,
    size: opt.Size = None,
    preset: opt.Preset = "default",
    max_realizations: opt.MostRealizations = None,
    shard: Annotated[int, typer.Option(min=0, help="Number of this part of the data, for probi merge.")] = 0,
    checkpoint: opt.Checkpoint = None,
    checkpoint_every: opt.Every = EVERY,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Read files of nodes into a summary, to be merged or solved later."""
    talk, ks = Talk(quiet), opt.numbers_of_clusters(clusters)
    kept: dict[str, Any] = {"size": size, "preset": preset, "max_realizations": max_realizations}
    parameters = _parameters(files, reading, k=ks[-1:], **kept, seed=seed, shard=shard)
    reader = open_reader(talk, files, reading)
    summary = Summary(ks[-1], random_state=seed, shard=shard, **kept)
    with stoppable(checkpoint):
        summary, _ = summarize_files(talk, reader, summary, parameters, None, checkpoint, checkpoint_every)
    summary.save(output)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    print_summary(output, summary, json)


@opt.examples(
    "probi merge monday.probi tuesday.probi -o week.probi",
)
def merge(
    summaries: Annotated[list[Path], typer.Argument(metavar="SUMMARY...", help="Files of probi summarize.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the summary of all.")],
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Merge summaries of parts of the data into one of all of it; their order does not matter."""
    merged = Summary.load(summaries[0])
    for path in summaries[1:]:
        other = Summary.load(path)
        if other.about.get("space") != merged.about.get("space"):
            raise InputError(f"{path} has other features or scales than {summaries[0]}: they cannot be merged.")
        try:
            merged.merge(other)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    merged.save(output)
    print_summary(output, merged, json)


@opt.examples(
    "probi solve week.probi -k 20 -o out",
    "probi solve week.probi -k 2:30",
)
def solve(
    summary: Annotated[Path, typer.Argument(help="File of probi summarize, or summary.probi of a results folder.")],
    clusters: opt.Clusters,
    output: opt.Folder = None,
    seed: opt.Seed = 0,
    n_init: opt.Starts = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Find centers for a summary, for one number of clusters or several."""
    talk, clock, ks = Talk(quiet), Clock(), opt.numbers_of_clusters(clusters)
    found = Summary.load(summary)
    with clock.timed("solve"):
        results = solve_all(talk, found, ks, n_init, seed, str(summary))
    parameters = {"summary": str(summary), "k": ks, "n_init": n_init, "seed": seed}
    if output is not None:
        results_folder(output)
    _finish(Outcome(found, space_of(found), results, parameters, seed, clock), output, talk, json)
