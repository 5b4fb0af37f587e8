"""probi assign: the nearest center of each node."""

import math
from typing import Annotated, Any

import typer

from probi.cli import app
from probi.cli.console import Console
from probi.io.options import Options


@app.command("probi assign new.parquet --centers out -o new_assignment.parquet")
def assign(
    files: list[str],
    centers: app.AnyPath,
    output: Annotated[
        app.AnyPath, typer.Option("-o", "--output", help="File for the assignment; its suffix determines the format.")
    ],
    clusters: app.WhichClusters = None,
    *,
    console: Console,
    reading: Options,
) -> None:
    """Assign each node to its nearest center, or to none (-1) if the run of the centers would leave it out.

    Files are read in the same way as by the run that found the centers: layout, ids, probabilities, longitude and
    latitude, scales. An option that contradicts that run is an error.
    """
    from probi.cli import steps
    from probi.cli.centers import load_centers, reader_in_space_of
    from probi.io.write import assignment_format

    assignment_format(output)  # raises before anything is read
    given = load_centers(centers, clusters)
    reader, coordinates = reader_in_space_of(given, centers, console, files, reading)
    files_of_centers = (centers, *(centers / name for name in ("centers.parquet", "result.json")))
    steps.check_outputs([output], reader.sources, reading, *files_of_centers)
    (tally,), counts = steps.assign_reader(console, reader, [coordinates], output, [given.outlier_distance])
    steps.report_left_out(console, counts)
    values: dict[str, Any] = {
        "n_nodes": tally.n_nodes,
        "cost": tally.cost,
        "counts": tally.counts.tolist(),
        "file": str(output),
    }
    if given.outlier_distance < math.inf:
        values["n_outliers"] = tally.n_outliers
    console.print_values(values, counts)
