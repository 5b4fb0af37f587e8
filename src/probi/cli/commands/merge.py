"""probi merge: several summaries to one."""

from typing import Annotated

import typer

from probi.cli import app
from probi.cli.console import Console
from probi.errors import InputError


@app.command(
    "probi merge monday.probi tuesday.probi -o week.probi",
    "probi merge monday/summary.probi tuesday/summary.probi -o week.probi",
)
def merge(
    summaries: Annotated[
        list[app.AnyPath],
        typer.Argument(metavar="SUMMARY", help="Files of probi summarize, or summary.probi of results folders."),
    ],
    output: Annotated[app.AnyPath, typer.Option("-o", "--output", help="File for the merged summary.")],
    *,
    console: Console,
) -> None:
    """Merge summaries of parts of the data into one; their order does not matter.

    Each part needs its own number: --shard of probi summarize and probi cluster.
    """
    from probi.cli import steps
    from probi.summary import Summary

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
    steps.print_summary(console, output, merged)
