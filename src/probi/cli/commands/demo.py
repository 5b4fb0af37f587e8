"""probi demo: the example that comes with probi."""

import shlex
from pathlib import Path

from probi.cli import app
from probi.cli.commands.cluster import cluster
from probi.cli.console import Console

N_CLUSTERS = 6
SEED = 7


@app.command(
    "probi demo",
    "probi demo -o otis",
)
def demo(output: Path = Path("probi-demo"), *, console: Console) -> None:
    """Cluster the ensemble forecasts of hurricane Otis, which come with probi.

    A node is the storm at one hour of one forecast. Its realizations are the positions in the 31 members of an
    ensemble, each with probability 1/31. Members that have lost the storm count as probability that it is absent.
    """
    from probi.cli import steps
    from probi.io.demo_data import otis_table
    from probi.io.write import write_table

    steps.create_folder(output)
    forecasts = output / "forecasts.parquet"
    write_table(forecasts, otis_table())
    arguments = f"--layout long --id init,tau --lonlat lon,lat -k {N_CLUSTERS} --seed {SEED} -o"
    console.say(f"$ probi cluster {shlex.quote(str(forecasts))} {arguments} {shlex.quote(str(output))}")
    cluster(
        files=[str(forecasts)], layout="long", id=["init,tau"], lonlat="lon,lat", clusters=str(N_CLUSTERS), seed=SEED,
        output=output, json=console.json, quiet=console.quiet,
    )  # fmt: skip
    console.say(f"Report: {(output / 'report.html').resolve().as_uri()}")
