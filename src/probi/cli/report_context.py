"""The report of a run, report.html."""

import sys
from pathlib import Path

from probi._notes import rounded
from probi.cli.results import Results, command_line
from probi.io.node_assembler import by_kind
from probi.report import Borderline, ReportContext, write_report
from probi.solver.result import Result


def write_run_report(results: Results, path: Path) -> None:
    """Write the report of a run."""
    tally = results.tallies[results.chosen] if results.tallies else None
    story = ReportContext(
        title=f"{_numbers(results.results)} of {_plural(results.summary.n_nodes, 'node')} from {_sources(results)}",
        read=_read(results),
        settings=_settings(results),
        reproduce=_command_with_seed(results.seed),
        borderline=[]
        if tally is None
        else [Borderline(b.node, b.cluster, b.distance, b.other, b.other_distance) for b in tally.between],
        n_borderline=None if tally is None else tally.n_between,
        counts=None if tally is None else tally.counts,
        unit=results.space.unit,
    )
    write_report(
        path,
        results.shown,
        results.summary.sample(),
        story,
        chosen=results.chosen,
        features=results.space.features,
        original=results.space.inverse,
    )


def _command_with_seed(seed: int) -> str:
    """The command as typed, with the default seed if none was given."""
    words = sys.argv[1:]
    is_said = words[:1] not in (["cluster"], ["solve"]) or any(word.split("=")[0] == "--seed" for word in words)
    return command_line() if is_said else f"{command_line()} --seed {seed}"


def _numbers(results: list[Result]) -> str:
    """``8 clusters``, ``2 to 12 clusters``."""
    fewest, most = len(results[0].centers), len(results[-1].centers)
    return _plural(most, "cluster") if fewest == most else f"{fewest} to {most} clusters"


def _plural(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' * (count != 1)}"


def _sources(results: Results) -> str:
    names = [Path(name).name for name in results.sources]
    return names[0] if len(names) == 1 else f"{len(names)} files" if names else "a summary"


def _read(results: Results) -> dict[str, str]:
    names, counts = results.sources, results.counts
    found = {"Files": ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")}
    found["Nodes"] = f"{results.summary.n_nodes:,}"
    if counts is not None:
        found["Rows"] = f"{counts.rows:,}"
        found["Rows left out"] = "; ".join(by_kind(counts)) or "none"
    found["Features"] = f"{len(results.space.features):,}"
    return found


def _settings(results: Results) -> dict[str, str]:
    summary, space = results.summary, results.space
    settings = {
        "Seed": str(results.seed),
        "Summary": f"{summary.size:,} nodes, for up to {summary.n_clusters} clusters, preset {summary.preset}",
        "Scaling": "none" if space.scale is None else "each coordinate divided by its own scale",
    }
    if space.lonlat is not None:
        settings["Distances"] = f"{' and '.join(space.lonlat)} on a sphere; straight lines in kilometers"
    result = results.results[results.chosen]
    if results.tallies and result.standard_error > 0:
        estimate = f"{result.cost:,.6g} ± {rounded(result.standard_error):,g} {space.unit}".rstrip()
        settings["Cost"] = f"summed over all nodes in a second pass; the estimate of the summary was {estimate}"
    if len(results.results) > 1:
        settings["Another k"] = "details are for the largest k; for another, run probi solve summary.probi -k K"
    return settings
