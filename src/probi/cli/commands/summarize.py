"""probi summarize: files of nodes to a summary."""

from typing import Annotated, Any

import typer

from probi._files import locked_file
from probi.cli import app
from probi.cli.console import Console
from probi.io.options import Options


@app.command(
    "probi summarize monday.parquet -k 30 --shard 0 -o monday.probi",
    "probi summarize tuesday.parquet -k 30 --shard 1 -o tuesday.probi",
    "probi merge monday.probi tuesday.probi -o week.probi",
)
def summarize(
    files: list[str],
    clusters: str,
    output: Annotated[app.AnyPath, typer.Option("-o", "--output", help="File for the summary.")],
    checkpoint: app.AnyPath | None = None,
    checkpoint_every: int = app.EVERY,
    *,
    console: Console,
    summary_options: dict[str, Any],
    reading: Options,
) -> None:
    """Read files of nodes into a summary, to merge or solve later."""
    from probi.cli import steps

    ks = app.numbers_of_clusters(clusters)
    config = steps.summary_config(ks, summary_options)
    parameters = steps.parameters_of(files, reading, k=ks[-1:], **summary_options)
    reader = steps.open_reader(console, files, reading)
    steps.check_outputs([output, *([] if checkpoint is None else [checkpoint])], reader.sources, reading)
    passes = steps.ThisProcess(console, reader, parameters, checkpoint, checkpoint_every)
    with locked_file(output), steps.stoppable(checkpoint):
        summarized, _ = passes.summarize(config, rejects=None)
        sealed = summarized.sealed()
        sealed.save(output)
    steps.print_summary(console, output, sealed)
