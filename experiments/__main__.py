"""Experiments from the command line: ``python -m experiments paper --data folder --runs 5``."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import billion
from experiments import (
    answers,
    calibration,
    datasets,
    growth,
    hostile,
    imputation,
    pages,
    paper,
    peers,
    point_peers,
    quality,
    readings,
    readme,
    theory,
)
from experiments.field import run as field
from experiments.records import Records, write_machine

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    whats = ["paper", "readings", "quality", "hostile", "growth", "billion", "peers", "points", "theory"]
    whats += ["answers", "calibration", "imputation", "field", "pages"]
    parser.add_argument("what", choices=whats)
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder with the files of the data sets")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "experiments", help="folder for large files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for results")
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind; the paper has 100")
    parser.add_argument("--only", nargs="*", help="data sets, by name")
    parser.add_argument("--system", nargs="*", type=Path, default=[], help="field: files with more systems")
    parser.add_argument("--jobs", type=int, default=1, help="field: settings that run at the same time")
    parser.add_argument("--note", default="", help="what is to be known about the machine, said on every page")
    parser.add_argument("--stand-in", action="store_true", help="generate data sets whose files are not there")
    chosen = parser.parse_args()
    start = time.monotonic()

    def report(text: str) -> None:
        print(f"[{time.monotonic() - start:7.1f} s] {text}", file=sys.stderr, flush=True)

    if chosen.what != "pages":
        # Some are measured in a run of their own, which says nothing about the other results.
        own = {
            name: f"{name}_machine" for name in ("points", "growth", "answers", "calibration", "imputation", "field")
        }
        name = (own | {"billion": "growth_machine"}).get(chosen.what, "machine")
        write_machine(chosen.results, chosen.note, f"{name}.json")
    try:
        _run(chosen, report)
    except KeyboardInterrupt:
        report("Stopped. The same command again goes on from here.")
        return 1
    for path in pages.write_all(chosen.results):
        report(f"wrote {path}")
    if chosen.results == RESULTS:
        readme.write(ROOT / "README.md", RESULTS)
    return 0


def _run(chosen: argparse.Namespace, report: Callable[[str], None]) -> None:
    if chosen.what == "paper":
        records = Records(chosen.results / "paper_runs.csv", paper.KEYS, paper.VALUES)
        for name in chosen.only or datasets.ALL:
            data_set = datasets.ALL[name]
            try:
                paper.run(data_set, chosen.data, chosen.cache, records, chosen.runs, chosen.stand_in, report)
            except datasets.MissingDataError as error:
                report(str(error))
    elif chosen.what == "readings":
        records = Records(chosen.results / "paper_readings.csv", readings.KEYS, readings.VALUES)
        readings.run(chosen.data, records, chosen.runs, report)
    elif chosen.what == "quality":
        quality.run(
            chosen.data, Records(chosen.results / "quality.csv", quality.KEYS, quality.VALUES), chosen.runs, report
        )
    elif chosen.what == "hostile":
        records = Records(chosen.results / "quality_hostile.csv", hostile.KEYS, hostile.VALUES)
        hostile.run(chosen.data, records, chosen.runs, report)
    elif chosen.what == "growth":
        growth.run(Records(chosen.results / "growth.csv", growth.KEYS, growth.VALUES), report)
    elif chosen.what == "billion":
        records = Records(chosen.results / "billion.csv", ("n",), billion.VALUES)
        if not records.has(n=billion.N_POINTS):
            records.add(**billion.in_process(billion.N_POINTS))
    elif chosen.what == "peers":
        peers.run(chosen.data, Records(chosen.results / "peers.csv", peers.KEYS, peers.VALUES), report)
    elif chosen.what == "points":
        rows = Records(chosen.results / "points.csv", point_peers.KEYS, point_peers.VALUES)
        point_peers.run(chosen.data, rows, report)
        rows = Records(chosen.results / "points_coresets.csv", point_peers.CORESET_KEYS, point_peers.CORESET_VALUES)
        point_peers.run_coresets(chosen.data, rows, report)
    elif chosen.what == "theory":
        theory.run(chosen.data, chosen.results, report)
    elif chosen.what == "answers":
        answers.run(chosen.data, chosen.results, chosen.runs, report)
    elif chosen.what == "calibration":
        calibration.run(chosen.results, report)
    elif chosen.what == "imputation":
        imputation.run(chosen.results, chosen.only, report)
    elif chosen.what == "field":
        field.run(chosen.data, chosen.results, chosen.runs, chosen.system, report, chosen.jobs)


if __name__ == "__main__":
    sys.exit(main())
