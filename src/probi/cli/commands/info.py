"""probi info: what is in a file."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from probi._files import as_path
from probi.cli import app
from probi.cli.console import Console
from probi.errors import InputError
from probi.io.options import Options

if TYPE_CHECKING:
    from probi.io.reader import Reader
    from probi.summary import Summary

# Of a run beside its summary, in MB: Python and kernels, and the batches that are read.
PROCESS_MB = 400


@app.command(
    "probi info out/summary.probi",
    "probi info data/*.parquet",
    "probi info data/*.parquet --estimate -k 20",
)
def info(
    files: list[str],
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Also print the memory that probi cluster takes at most.")
    ] = False,
    clusters: str | None = None,
    *,
    console: Console,
    summary_options: dict[str, Any],
    reading: Options,
) -> None:
    """Describe a summary, a results folder, or a table and how it would be read."""
    from probi.cli import steps
    from probi.io.reader import Reader
    from probi.summary import Summary

    path = as_path(files[0])
    if (path / "summary.probi").is_file() and (path / "centers.parquet").is_file():
        path /= "summary.probi"  # of a results folder, whose tables are not data
    if len(files) == 1 and steps.is_summary(path):
        steps.print_summary(console, path, Summary.load(path))
        return
    reader = Reader(files, reading)
    values: dict[str, Any] = {"files": [str(source) for source in reader.sources], "n_rows": _n_rows(reader)}
    if estimate:
        if clusters is None:
            raise InputError("--estimate needs the number of clusters: -k.")
        config = steps.summary_config(app.numbers_of_clusters(clusters), summary_options)
        values["memory_estimate_mb"] = _megabytes(Summary.from_config(config), reader, values["n_rows"])
    console.print_values(values | asdict(reader.columns))


def _megabytes(summary: "Summary", reader: "Reader", n_rows: int | None) -> int:
    """Memory of a run, estimated from the first nodes."""
    first = next(reader.batches(), None)
    if first is None or len(first.nodes) == 0:
        raise InputError("The files have no nodes: there is nothing to estimate.")
    nodes = first.nodes
    each = math.ceil(nodes.n_realizations / len(nodes))
    rows_per_node = each if reader.columns.layout in ("groups", "long") else 1
    n_nodes = None if n_rows is None else n_rows // rows_per_node
    return PROCESS_MB + summary.memory_estimate(nodes.n_features, each, dtype=nodes.dtype, n_nodes=n_nodes) // 10**6


def _n_rows(reader: "Reader") -> int | None:
    """Rows of all files; None if they are known only after reading."""
    total = 0
    for file in range(len(reader.sources)):
        n_rows = reader.opened(file).n_rows
        if n_rows is None:
            return None
        total += n_rows
    return total
