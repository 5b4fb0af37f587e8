"""probi solve: a summary to centers."""

from typing import Annotated

import typer

from probi.cli import app
from probi.cli.console import Console


@app.command(
    "probi solve week.probi -k 20 -o out",
    "probi solve week.probi -k 2:30",
)
def solve(
    summary: Annotated[
        app.AnyPath, typer.Argument(help="File of probi summarize, or summary.probi of a results folder.")
    ],
    clusters: str,
    output: app.AnyPath | None = None,
    seed: int = 0,
    n_init: int | None = None,
    outliers: float | None = None,
    outlier_distance: float | None = None,
    *,
    console: Console,
) -> None:
    """Find centers for a summary, for one number of clusters or several."""
    from probi.cli import steps
    from probi.cli.results import Results
    from probi.summary import Summary

    timings: dict[str, float] = {}
    ks = app.numbers_of_clusters(clusters)
    trimming = steps.trimming(outliers, outlier_distance)
    loaded = Summary.load(summary)
    with steps.timed(timings, "solve"):
        solutions = steps.solve_all(console, loaded, ks, n_init, seed, str(summary), trimming)
        choice = steps.compare_all(console, loaded, solutions, seed)
    parameters = {"summary": str(summary), "k": ks, "n_init": n_init, "seed": seed, **trimming}
    results = Results(loaded, steps.space_of(loaded), solutions, parameters, timings, choice=choice)
    with steps.results_folder(output):
        results.finish(console, output)
