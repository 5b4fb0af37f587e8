"""probi evaluate: the cost of centers."""

import math
from dataclasses import asdict

from probi._files import as_path
from probi.cli import app
from probi.cli.console import Console
from probi.io.options import Options


@app.command(
    "probi evaluate week.probi --centers out",
    "probi evaluate new.parquet --centers out",
    "probi evaluate covertype.parquet --layout groups --group-size 10 --centers mine.csv",
)
def evaluate(
    files: list[str], centers: app.AnyPath, clusters: app.WhichClusters = None, *, console: Console, reading: Options
) -> None:
    """Compute the cost of centers, without outliers: exactly for files of nodes, with an error bar for a summary.

    Files are read in the same way as by the run that found the centers, as in probi assign.
    """
    from probi.cli import steps
    from probi.cli.centers import coordinates_in, load_centers, reader_in_space_of
    from probi.summary import Summary

    given = load_centers(centers, clusters)
    if len(files) == 1 and steps.is_summary(as_path(files[0])):
        summary = Summary.load(files[0])
        coordinates = coordinates_in(summary, given, files[0])
        # In other units a distance means nothing.
        distance = given.outlier_distance if given.space == steps.space_of(summary) else math.inf
        console.print_values(asdict(summary.evaluate(coordinates, distance)))
        return
    reader, coordinates = reader_in_space_of(given, centers, console, files, reading)
    (tally,), counts = steps.assign_reader(console, reader, [coordinates], None, [given.outlier_distance])
    steps.report_left_out(console, counts)
    console.print_values({"n_nodes": tally.n_nodes, "cost": tally.cost, "standard_error": 0.0}, counts)
