"""probi check: rows that cannot be used."""

from dataclasses import asdict, replace
from typing import Any

import typer

from probi.cli import app
from probi.cli.console import Console, Interrupts, print_json, printable
from probi.errors import InputError
from probi.io.options import Options


@app.command(
    "probi check sensors.csv --layout long --id sensor",
    "probi check new.csv --like out",
)
def check(files: list[str], like: app.AnyPath | None = None, *, console: Console, reading: Options) -> None:
    """Count the rows that cannot be used, and list the first 1,000 of each kind; exit with 2 if there are any."""
    from probi.cli import steps
    from probi.io.node_assembler import Counts
    from probi.io.write import reading_of_run

    before = None if like is None else reading_of_run(like)
    reader = steps.open_reader(console, files, replace(reading, on_bad="skip"), before, like)
    counts = Counts()
    bad_rows: list[Any] = []
    with console.progress("Checking") as bar, Interrupts(console) as interrupts:
        for batch in reader.batches(list_scattered=True):
            counts = batch.counts
            bar.update(counts.nodes, batch.fraction)
            for rejected in batch.rejected:
                if console.json:
                    bad_rows.append(rejected._asdict())
                else:
                    print(printable(str(rejected)))
            interrupts.check()
    if console.json:
        print_json({"counts": asdict(counts), "rows": bad_rows})
    else:
        console.say(
            f"{counts.rows:,} rows: {counts.used:,} good in {counts.nodes:,} nodes, {counts.rejected:,} bad or in a "
            f"bad node, {counts.missing:,} with a missing value, {counts.incomplete:,} in an incomplete group."
        )
        steps.report_left_out(console, counts)
    if counts.rejected or counts.missing:
        raise typer.Exit(2)
    if counts.nodes == 0:
        raise InputError(f"{reader.sources[0]} has no rows: there is nothing to cluster.")
