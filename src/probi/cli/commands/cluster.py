"""probi cluster: files of nodes to a folder of results."""

import contextlib
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probi.cli import app
from probi.cli.console import Console
from probi.engines import NAMES
from probi.errors import InputError
from probi.io.options import Options

if TYPE_CHECKING:
    from probi.io.passes import Tally


@app.command(
    "probi cluster points.csv -k 8",
    "probi cluster covertype.parquet --layout groups --group-size 10 -k 20 -o out",
    "zcat gps.csv.gz | probi cluster - -k 12 --layout long --id trip --lonlat lon,lat",
    "probi cluster 'part-*.parquet' -k 2:30 -o out --checkpoint run.probi",
    "probi cluster forecast.nc --node latitude,longitude -k 6 -o out",
    "probi cluster /shared/days -k 20 -o out --engine dask --workers tcp://scheduler:8786",
)
def cluster(
    files: list[str],
    clusters: str,
    output: app.AnyPath | None = None,
    n_init: int | None = None,
    outliers: float | None = None,
    outlier_distance: float | None = None,
    assign: Annotated[
        bool, typer.Option("--assign/--no-assign", help="Read the files again and write assignment.parquet.")
    ] = True,
    checkpoint: app.AnyPath | None = None,
    checkpoint_every: int = app.EVERY,
    engine: app.EngineName = "local",
    workers: str | None = None,
    part_size: int = app.PART_MEGABYTES,
    *,
    console: Console,
    summary_options: dict[str, Any],
    reading: Options,
) -> None:
    """Cluster files of nodes: read once, summarize, solve, write.

    Without -o the result is only printed. With -o FOLDER it is written to centers.parquet, centers.csv,
    assignment.parquet, summary.probi, report.html, result.json, rejected.csv if rows were left out, and labels.nc if
    the input is NetCDF, Zarr or GRIB.
    """
    from probi.cli import steps
    from probi.cli.results import Results
    from probi.io.formats.base import find_sources

    _check_engine(engine, workers, checkpoint, summary_options.get("shard", 0))
    is_local = engine == "local"
    trimming = steps.trimming(outliers, outlier_distance)
    others = trimming if is_local else {**trimming, "engine": engine, "part_size": part_size}
    timings: dict[str, float] = {}
    with (
        steps.stoppable(checkpoint, can_resume=is_local),
        contextlib.ExitStack() as results_lock,
        contextlib.ExitStack() as stack,
    ):
        ks = app.numbers_of_clusters(clusters)
        config = steps.summary_config(ks, summary_options)
        parameters = steps.parameters_of(files, reading, k=ks, **summary_options, n_init=n_init, **others)
        outputs = [] if output is None else [output / name for name in steps.RESULTS]
        outputs += [] if checkpoint is None else [checkpoint]
        steps.check_outputs(outputs, find_sources(files, reading.format), reading)
        reader = steps.open_reader(console, files, reading)
        results_lock.enter_context(steps.results_folder(output))
        rejects = None if output is None else output / "rejected.csv"
        passes: Any = steps.ThisProcess(console, reader, parameters, checkpoint, checkpoint_every)
        if not is_local:
            from probi.cli.workers import connected

            passes = stack.enter_context(connected(engine, workers, part_size, console, reader))

        with steps.timed(timings, "read"):
            summarized, counts = passes.summarize(config, rejects)

        sources = [str(source) for source in reader.sources]
        with steps.timed(timings, "solve"):
            name = sources[0] if len(sources) == 1 else "The input"
            solutions = steps.solve_all(console, summarized, ks, n_init, config.seed, name, trimming)
            choice = steps.compare_all(console, summarized, solutions, config.seed)

        tallies: list[Tally] = []
        grid = None
        write_error: Exception | None = None
        if output is not None and assign and all(source.size is not None for source in reader.sources):
            try:
                with steps.timed(timings, "assign"):
                    tallies = passes.assign(solutions, output / "assignment.parquet")
                    grid = steps.write_grid(console, reader, output, solutions)
            except (OSError, InputError) as error:  # a full disk, a changed file: the result is still shown
                write_error = error
        elif output is not None and assign:
            console.say("No assignment.parquet: a stream cannot be read twice. Run probi assign on a copy of it.")
        stack.close()  # the workers are no longer needed

        results = Results(
            summarized, reader.space, solutions, parameters, timings, sources, counts, tallies, choice, grid
        )
        results.finish(console, output, write_error)


def _check_engine(engine: str, workers: str | None, checkpoint: app.AnyPath | None, shard: int) -> None:
    """Raise if options of an engine contradict each other."""
    if engine == "local":
        if workers is not None:
            raise InputError(f"--workers requires --engine {' or --engine '.join(NAMES)}.")
    elif checkpoint is not None:
        raise InputError(f"--checkpoint requires --engine local: {engine} itself repeats the work of a lost worker.")
    elif shard:
        raise InputError(f"--shard requires --engine local: {engine} numbers its parts itself.")
    elif workers is not None and re.fullmatch(r"0+|-.*|\d+\.\d*", workers):
        raise InputError(f"--workers must be a positive integer or the address of a scheduler, got {workers}.")
