"""probi assign, evaluate, info, check, convert: work with nodes, centers and summaries."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from probi.cli import options as opt
from probi.cli.console import Console
from probi.io.options import Options


@opt.examples(
    "probi assign new.parquet --centers out -o new_assignment.parquet",
)
@opt.reads_nodes
def assign(
    files: opt.Files,
    centers: opt.Centers,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File for the assignment; its suffix determines the format.")
    ],
    reading: Options,
    clusters: Annotated[
        int | None, typer.Option("-k", "--clusters", help="Number of clusters, if there are centers for several.")
    ] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Assign each node to its nearest center, for any given centers.

    Files are read in the same way as by the run that found the centers: layout, ids, probabilities, longitude and
    latitude, scales. An option that contradicts that run is an error.
    """
    from probi.cli.views import assign_to_file

    assign_to_file(Console(quiet), files, centers, clusters, reading, output, json)


@opt.examples(
    "probi evaluate week.probi --centers out",
    "probi evaluate new.parquet --centers out",
    "probi evaluate covertype.parquet --layout groups --group-size 10 --centers mine.csv",
)
@opt.reads_nodes
def evaluate(
    files: opt.Files,
    centers: opt.Centers,
    reading: Options,
    clusters: Annotated[
        int | None, typer.Option("-k", "--clusters", help="Number of clusters, if there are centers for several.")
    ] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Compute the cost of centers: exact for files of nodes, with an error bar for a summary.

    Files are read in the same way as by the run that found the centers, as in probi assign.
    """
    from probi.cli.views import evaluate_centers

    evaluate_centers(Console(quiet), files, centers, clusters, reading, json)


@opt.examples(
    "probi info out/summary.probi",
    "probi info data/*.parquet",
)
@opt.reads_nodes
def info(files: opt.Files, reading: Options, json: opt.Json = False, quiet: opt.Quiet = False) -> None:
    """Describe a file: a summary, also that of a results folder, or a table and how it would be read."""
    from probi.cli.views import describe

    describe(files, reading, json)


@opt.examples(
    "probi check sensors.csv --layout long --id sensor",
    "probi check new.csv --like out",
)
@opt.reads_nodes
def check(
    files: opt.Files,
    reading: Options,
    like: opt.Like = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """List rows that cannot be used, the first 1,000 of each kind, and count them; exit with 2 if there are any."""
    from probi.cli.views import check_rows

    check_rows(Console(quiet), files, reading, like, json)


@opt.examples(
    "probi convert sensors.csv --layout long --id sensor --to nested -o sensors.parquet",
)
@opt.reads_nodes
def convert(
    files: opt.Files,
    output: Annotated[Path, typer.Option("-o", "--output", help="Output file; its suffix determines the format.")],
    reading: Options,
    to: Annotated[
        Literal["points", "groups", "long", "nested"], typer.Option("--to", help="Layout to write.")
    ] = "nested",
    like: opt.Like = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
) -> None:
    """Write nodes in another layout or format."""
    from probi.cli.views import convert_nodes

    convert_nodes(Console(quiet), files, reading, like, output, to, json)
