"""probi info: what is in a file."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from probi._stores import as_path
from probi.cli import options as opt
from probi.cli.console import Console
from probi.io.options import Options

if TYPE_CHECKING:
    from probi.io.reader import Reader


@opt.command(
    "probi info out/summary.probi",
    "probi info data/*.parquet",
)
def info(files: list[str], *, console: Console, reading: Options) -> None:
    """Describe a file: a summary, also that of a results folder, or a table and how it would be read."""
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
    values = {"files": [str(source) for source in reader.sources], "n_rows": _n_rows(reader)}
    console.print_values(values | asdict(reader.columns))


def _n_rows(reader: "Reader") -> int | None:
    """Rows of all files; None if they are known only after reading."""
    total = 0
    for file in range(len(reader.sources)):
        n_rows = reader.opened(file).n_rows
        if n_rows is None:
            return None
        total += n_rows
    return total
