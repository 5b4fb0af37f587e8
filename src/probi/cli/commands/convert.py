"""probi convert: nodes in another layout or format."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from probi.cli import app
from probi.cli.console import Console
from probi.errors import InputError
from probi.io.options import Options

if TYPE_CHECKING:
    from probi.nodes import Nodes


@app.command("probi convert sensors.csv --layout long --id sensor --to nested -o sensors.parquet")
def convert(
    files: list[str],
    output: Annotated[
        app.AnyPath, typer.Option("-o", "--output", help="Output file; its suffix determines the format.")
    ],
    to: Annotated[app.Layout, typer.Option("--to", help="Layout to write.")] = "nested",
    like: app.AnyPath | None = None,
    *,
    console: Console,
    reading: Options,
) -> None:
    """Write nodes in another layout or format."""
    from probi.cli import steps
    from probi.io.node_assembler import Counts, check_left_out
    from probi.io.write import nodes_format, reading_of_run, write_nodes

    nodes_format(output)  # raises before anything is read
    before = None if like is None else {**reading_of_run(like), "lonlat": None}  # features are written unchanged
    reader = steps.open_reader(console, files, reading, before, like)
    if reader.space.scale is not None or reading.scale != "none" or reading.lonlat is not None:
        raise InputError("convert writes features unchanged: it accepts neither --scale nor --lonlat.")
    steps.check_outputs([output], reader.sources, reading)
    counts = Counts()

    def nodes() -> "Iterator[Nodes]":
        nonlocal counts
        for batch in reader.batches():
            counts = batch.counts
            if len(batch.nodes):
                yield batch.nodes
        check_left_out(counts, reader.options)

    columns = reader.columns
    n_nodes = write_nodes(output, nodes(), to, columns.features, columns.weight is not None, reader.id_name)
    steps.report_left_out(console, counts)
    console.print_values({"n_nodes": n_nodes, "file": str(output)}, counts)
