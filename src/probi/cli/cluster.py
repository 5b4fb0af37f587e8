"""probi cluster, summarize, merge, solve."""

from pathlib import Path
from typing import Annotated, Any

import typer

from probi.cli import options as opt
from probi.cli.console import Console
from probi.io.options import Options


@opt.examples(
    "probi cluster points.csv -k 8",
    "probi cluster covertype.parquet --layout groups --group-size 10 -k 20 -o out",
    "zcat gps.csv.gz | probi cluster - -k 12 --layout long --id trip --lonlat lon,lat",
    "probi cluster 'part-*.parquet' -k 2:30 -o out --checkpoint run.probi",
    "probi cluster /shared/days -k 20 -o out --engine dask --workers tcp://scheduler:8786",
)
@opt.reads_nodes
@opt.makes_summary
def cluster(
    files: opt.Files,
    clusters: opt.Clusters,
    reading: Options,
    summary: dict[str, Any],
    output: opt.Folder = None,
    n_init: opt.Starts = None,
    assign: Annotated[
        bool, typer.Option("--assign/--no-assign", help="Read the files again and write assignment.parquet.")
    ] = True,
    checkpoint: opt.Checkpoint = None,
    checkpoint_every: opt.Every = opt.EVERY,
    engine: opt.Engine = "local",
    workers: opt.Workers = None,
    part_size: opt.PartSize = opt.PART_MEGABYTES,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Cluster files of nodes: read once, summarize, solve, write.

    Without -o the result is only printed. With -o FOLDER it is written to centers.parquet, centers.csv,
    assignment.parquet, summary.probi, report.html, result.json, and rejected.csv if rows were left out.
    """
    from probi.cli.engine_options import Elsewhere
    from probi.cli.jobs import cluster_files
    from probi.cli.steps import stoppable

    elsewhere = Elsewhere.checked(engine, workers, part_size, checkpoint, summary["shard"])
    with stoppable(checkpoint, can_resume=elsewhere is None):
        cluster_files(
            Console(quiet), files, opt.numbers_of_clusters(clusters), reading, summary, output, n_init=n_init,
            assign=assign, checkpoint=checkpoint, every=checkpoint_every, elsewhere=elsewhere, as_json=json,
        )  # fmt: skip


@opt.examples(
    "probi summarize monday.parquet -k 30 --shard 0 -o monday.probi",
    "probi summarize tuesday.parquet -k 30 --shard 1 -o tuesday.probi",
    "probi merge monday.probi tuesday.probi -o week.probi",
)
@opt.reads_nodes
@opt.makes_summary
def summarize(
    files: opt.Files,
    clusters: opt.Clusters,
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the summary.")],
    reading: Options,
    summary: dict[str, Any],
    checkpoint: opt.Checkpoint = None,
    checkpoint_every: opt.Every = opt.EVERY,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Read files of nodes into a summary, to merge or solve later."""
    from probi.cli.jobs import summarize_into

    summarize_into(
        Console(quiet), files, opt.numbers_of_clusters(clusters), reading, summary, output, checkpoint=checkpoint,
        every=checkpoint_every, as_json=json,
    )  # fmt: skip


@opt.examples(
    "probi merge monday.probi tuesday.probi -o week.probi",
    "probi merge monday/summary.probi tuesday/summary.probi -o week.probi",
)
def merge(
    summaries: Annotated[
        list[Path],
        typer.Argument(metavar="SUMMARY...", help="Files of probi summarize, or summary.probi of results folders."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="File for the merged summary.")],
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Merge summaries of parts of the data into one; their order does not matter.

    Each part needs its own number: --shard of probi summarize and probi cluster.
    """
    from probi.cli.jobs import merge_summaries

    merge_summaries(summaries, output, json)


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
    from probi.cli.jobs import solve_summary

    solve_summary(Console(quiet), summary, opt.numbers_of_clusters(clusters), output, seed, n_init, json)
