"""The report of a run, report.html."""

import sys
from pathlib import Path

from probi._notes import rounded
from probi.cli.results import Results, command_line
from probi.io.node_assembler import by_kind
from probi.report import Borderline, ReportContext, write_report
from probi.solver.result import Result


def write_run_report(outcome: Results, path: Path) -> None:
    """Write the report of a run."""
    tally = outcome.tallies[outcome.chosen] if outcome.tallies else None
    story = ReportContext(
        title=f"{_numbers(outcome.results)} of {_plural(outcome.summary.n_nodes, 'node')} from {_sources(outcome)}",
        read=_read(outcome),
        settings=_settings(outcome),
        reproduce=_command_with_seed(outcome.seed),
        borderline=[]
        if tally is None
        else [Borderline(b.node, b.cluster, b.distance, b.other, b.other_distance) for b in tally.max_between()],
        n_borderline=None if tally is None else tally.n_between,
        counts=None if tally is None else tally.counts,
        unit=outcome.space.unit,
    )
    write_report(
        path,
        outcome.told,
        outcome.summary.sample(),
        story,
        chosen=outcome.chosen,
        features=outcome.space.features,
        original=outcome.space.inverse,
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


def _sources(outcome: Results) -> str:
    names = [Path(name).name for name in outcome.sources]
    return names[0] if len(names) == 1 else f"{len(names)} files" if names else "a summary"


def _read(outcome: Results) -> dict[str, str]:
    names, counts = outcome.sources, outcome.counts
    found = {"Files": ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")}
    found["Nodes"] = f"{outcome.summary.n_nodes:,}"
    if counts is not None:
        found["Rows"] = f"{counts.rows:,}"
        found["Rows left out"] = "; ".join(by_kind(counts)) or "none"
    found["Features"] = f"{len(outcome.space.features):,}"
    return found


def _settings(outcome: Results) -> dict[str, str]:
    summary, space = outcome.summary, outcome.space
    settings = {
        "Seed": str(outcome.seed),
        "Summary": f"{summary.size:,} nodes, for up to {summary.n_clusters} clusters, preset {summary.preset}",
        "Scaling": "none" if space.scale is None else "each coordinate divided by its own scale",
    }
    if space.lonlat is not None:
        settings["Distances"] = f"{' and '.join(space.lonlat)} on a sphere; straight lines in kilometers"
    result = outcome.results[outcome.chosen]
    if outcome.tallies and result.standard_error > 0:
        estimate = f"{result.cost:,.6g} ± {rounded(result.standard_error):,g} {space.unit}".rstrip()
        settings["Cost"] = f"summed over all nodes in a second pass; the estimate of the summary was {estimate}"
    if len(outcome.results) > 1:
        settings["Another k"] = "details are for the largest k; for another, run probi solve summary.probi -k K"
    return settings
