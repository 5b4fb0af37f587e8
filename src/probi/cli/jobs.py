"""The work of probi cluster, summarize, merge and solve.

Separate from the commands, so that --help loads neither Numba nor pyarrow.
"""

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from probi.cli.console import Console, size_of_file
from probi.cli.engine_options import Elsewhere
from probi.cli.options import EVERY
from probi.cli.results import Results
from probi.cli.steps import (
    Clock,
    assign_files,
    check_no_results,
    check_output,
    open_reader,
    results_folder,
    solve_all,
    space_of,
    stoppable,
    summarize_files,
)
from probi.cli.views import print_summary
from probi.engines.tasks import Summarize
from probi.errors import InputError
from probi.io.options import Options
from probi.io.sources import find_sources
from probi.summary import Summary
from probi.summary.config import SummaryConfig


def cluster_files(
    console: Console,
    files: list[str],
    ks: list[int],
    reading: Options,
    summary: dict[str, Any],
    output: Path | None,
    *,
    n_init: int | None = None,
    assign: bool = True,
    checkpoint: Path | None = None,
    every: int = EVERY,
    elsewhere: Elsewhere | None = None,
    as_json: bool = False,
) -> None:
    """Cluster files; see :func:`probi.cli.cluster.cluster`. With ``elsewhere``, the workers of an engine read them."""
    clock = Clock()
    others = {} if elsewhere is None else elsewhere.parameters
    config = SummaryConfig(ks[-1], **summary)
    parameters = _parameters(files, reading, k=ks, **summary, n_init=n_init, **others)
    if output is not None:
        check_no_results(output, find_sources(files, reading.format))
    reader = open_reader(console, files, reading)
    if output is not None:
        results_folder(output)
    rejects = None if output is None else output / "rejected.csv"
    with contextlib.ExitStack() as stack:
        workers = None if elsewhere is None else stack.enter_context(elsewhere.workers(console, reader))
        with clock.timed("read"):
            if workers is None:
                summarized, counts = summarize_files(
                    console, reader, Summary.from_config(config), parameters, rejects, checkpoint, every
                )
            else:
                summarized, counts = workers.summarize(Summarize(config), rejects)
        sources = [str(source) for source in reader.sources]
        with clock.timed("solve"):
            solutions = solve_all(
                console, summarized, ks, n_init, config.seed, sources[0] if len(sources) == 1 else "The input"
            )
        tallies, write_error = [], None
        if output is not None and assign and all(source.size is not None for source in reader.sources):
            path = output / "assignment.parquet"
            try:
                with clock.timed("assign"):
                    if workers is None:
                        tallies = assign_files(console, reader, solutions, path)
                    else:
                        tallies = workers.assign(solutions, path)
            except OSError as error:  # such as a full disk: the result is still shown
                write_error = error
        elif output is not None and assign:
            console.say("No assignment.parquet: a stream cannot be read twice. Run probi assign on a copy of it.")
    results = Results(summarized, reader.space, solutions, parameters, config.seed, clock, sources, counts, tallies)
    _finish(results, output, console, as_json, write_error)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)


def _finish(
    results: Results, folder: Path | None, console: Console, as_json: bool, write_error: OSError | None = None
) -> None:
    """Write the results and print them; print them even if writing failed, now or before."""
    if folder is not None and write_error is None:
        try:
            with console.progress("Writing"):
                results.write(folder)
            size = (folder / "summary.probi").stat().st_size
            console.say(f"Results are in {folder}; summary.probi has {size_of_file(size)}.")
        except OSError as error:
            write_error = error
    results.show(as_json)
    if write_error is not None:
        raise write_error


def _parameters(files: list[str], reading: Options, **others: Any) -> dict[str, Any]:
    """Everything on which the result depends, as plain values."""
    values = asdict(reading) | {"files": list(map(str, files))} | others
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def summarize_into(
    console: Console,
    files: list[str],
    ks: list[int],
    reading: Options,
    summary: dict[str, Any],
    output: Path,
    *,
    checkpoint: Path | None,
    every: int,
    as_json: bool,
) -> None:
    """Write the summary of files; see :func:`probi.cli.cluster.summarize`."""
    config = SummaryConfig(ks[-1], **summary)
    parameters = _parameters(files, reading, k=ks[-1:], **summary)
    reader = open_reader(console, files, reading)
    check_output(output, reader)
    with stoppable(checkpoint):
        summarized, _ = summarize_files(
            console, reader, Summary.from_config(config), parameters, None, checkpoint, every
        )
    sealed = summarized.sealed()
    sealed.save(output)
    if checkpoint is not None:
        checkpoint.unlink(missing_ok=True)
    print_summary(output, sealed, as_json)


def merge_summaries(summaries: list[Path], output: Path, as_json: bool) -> None:
    """Write one summary of several; see :func:`probi.cli.cluster.merge`."""
    merged = Summary.load(summaries[0])
    for path in summaries[1:]:
        other = Summary.load(path)
        if other.about.get("space") != merged.about.get("space"):
            raise InputError(f"{path} and {summaries[0]} have different features or scales and cannot be merged.")
        try:
            merged.merge(other)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    merged.save(output)
    print_summary(output, merged, as_json)


def solve_summary(
    console: Console, path: Path, ks: list[int], output: Path | None, seed: int, n_init: int | None, as_json: bool
) -> None:
    """Find centers for a summary; see :func:`probi.cli.cluster.solve`."""
    clock = Clock()
    summary = Summary.load(path)
    with clock.timed("solve"):
        solutions = solve_all(console, summary, ks, n_init, seed, str(path))
    parameters = {"summary": str(path), "k": ks, "n_init": n_init, "seed": seed}
    if output is not None:
        results_folder(output)
    _finish(Results(summary, space_of(summary), solutions, parameters, seed, clock), output, console, as_json)
