"""The page on what is asked beside centers."""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from experiments import answers, generated
from experiments.records import read
from experiments.writing import number, table, words

Row = dict[str, Any]


def answers_page(folder: Path) -> str:
    """What was measured of each answer."""
    parts = [make(folder) for make in (_representatives, _memberships, _worlds, _numbers, _outliers)]
    if not any(parts):
        return ""
    head = [
        "# The answers beside centers\n",
        words("""
            Which real node stands for a cluster, how sure a label is, whether a clustering is stable, how many
            clusters there are, and which nodes belong to none: each compared with something that shares no code with
            it. Seconds on the clock depend on what else the machine does; *CPU* are the seconds of all its
            processors together. Whether a confidence can be believed is on a page of its own:
        [Calibration](calibration.md). """),
    ]
    return "\n".join([*head, *filter(None, parts)])


def _representatives(folder: Path) -> str:
    rows = read(folder / "answers_representatives.csv")
    theirs = next((r for r in rows if r["system"] == answers.MEDOIDS.name), None)
    if theirs is None:
        return ""
    cells = []
    for r in rows:
        faster, ratio = theirs["cpu_seconds"] / r["cpu_seconds"], r["cost"] / theirs["cost"]
        times = [number(r["seconds"]), number(r["cpu_seconds"]), f"1/{faster:.0f}"]
        cells.append([r["system"], *times, number(r["cost"], 4), f"{ratio:.4f}", number(r["peak_mb"])])
    columns = ["system", "seconds", "CPU", "CPU ÷ kmedoids", "cost", "÷ kmedoids", "peak MB"]
    return "\n".join(
        [
            "## Representatives\n",
            words(f"""
                Covertype in groups of ten, k = {answers.K_COVERTYPE}: the cost of all nodes with the chosen real
                nodes as centers. FasterPAM looks for the best medoids among {answers.SAMPLED:,} gravity centers,
                with all their distances in memory; probi takes the node of each cluster that serves it best, of all
                nodes, and computes no matrix of distances.
            """),
            table(columns, cells),
        ]
    )


def _memberships(folder: Path) -> str:
    rows = read(folder / "answers_memberships.csv")
    if not rows:
        return ""
    tested = [r for r in rows if r["df"]]
    p_values = np.array([r["p_value"] for r in tested])
    uniform = stats.kstest(p_values, "uniform").pvalue
    passes = uniform >= answers.LEVEL and p_values.min() >= answers.LEVEL / len(tested)
    return "\n".join(
        [
            "## Memberships\n",
            words(f"""
                {len(rows):,} random instances: 1 to 5 nodes with 1 to 39 realizations, 1 to 30 features, 2 to 40
                centers; some nodes are absent with probability 0.7. In each, {answers.N_DRAWN:,} worlds are drawn in
                which the node is present, and the centers nearest to it are counted. A chi-squared test compares
                counts and memberships. If memberships are right, the p-values of the instances are uniform. Two
                tests, which right memberships fail with probability {answers.LEVEL:g} each: that they are uniform
                (Kolmogorov and Smirnov), and that the least is at least {answers.LEVEL:g} divided by their number.
            """),
            words(f"""
                Measured: {len(tested):,} instances with at least two centers to compare; uniform with p =
                {uniform:.2g}; the least p-value is {p_values.min():.2g}. Memberships
                **{"are" if passes else "are not"}** equal to drawn worlds within the sampling error.
            """),
        ]
    )


def _worlds(folder: Path) -> str:
    rows = {r["system"]: r for r in read(folder / "answers_worlds.csv")}
    if not {"solve", "worlds"} <= set(rows):
        return ""
    ratio = rows["worlds"]["cpu_seconds"] / rows["solve"]["cpu_seconds"]
    cells = [[name, f"{r['n_nodes']:,}", number(r["seconds"]), number(r["cpu_seconds"])] for name, r in rows.items()]
    text = [
        "## Possible worlds\n",
        words(f"""
            Beijing, a node per day and station, k = {answers.K_BEIJING}: {answers.N_WORLDS} worlds, each solved from
            known centers, take {ratio:.1f} times the CPU seconds of one solve{_with_centers(rows)}.
        """),
        table(["", "nodes", "seconds", "CPU"], cells),
    ]
    if {"worlds, full days", "ELKI, full days"} <= set(rows):
        ours, theirs = rows["worlds, full days"], rows["ELKI, full days"]
        text.append(
            words(f"""
                ELKI 0.7.1 has the representative clusterings of Züfle and others (KDD 2014). Its loader needs nodes
                with equally many realizations, so both are compared on days with all 24 readings:
                {answers.N_WORLDS} worlds, k-medians in each, and medoids of the clusterings found. It takes
                {theirs["cpu_seconds"] / ours["cpu_seconds"]:.0f} times our CPU seconds, with its start. It reports no
                confidence per node, and cannot write the clusterings that it found, so only times are compared.
            """)
        )
    return "\n".join(text)


def _measured(row: dict[str, Any]) -> list[str]:
    values = (row.get(name) for name in ("overlap", "agreement"))
    return [f"{value:.2f}" if isinstance(value, int | float) else "" for value in values]


def _with_centers(rows: dict[str, dict[str, Any]]) -> str:
    if "worlds and centers" not in rows:
        return ""
    ratio = rows["worlds and centers"]["cpu_seconds"] / rows["solve"]["cpu_seconds"]
    return f"; if the centers are found as well, {ratio:.1f} times"


def _numbers(folder: Path) -> str:
    rows = read(folder / "answers_numbers.csv")
    if not rows:
        return ""
    kinds = [r for r in rows if r["group"] == generated.KINDS]
    cells = []
    for kind in dict.fromkeys(r["kind"] for r in kinds):
        some = [r for r in kinds if r["kind"] == kind]
        answered = ", ".join(str(r["recommended"] or "none") for r in some)
        cells.append([kind, some[0]["n_true"] or "none", answered, f"{np.mean([r['overlap'] for r in some]):.2f}"])
    text = [
        "## The number of clusters\n",
        words("""
            `choose_k` with 2 to 18 clusters on generated data. First ten kinds: eight with 2 to 12 clusters, two
            without any, each with several seeds. The overlap is that of the true number, or the least one where there
            is none; 0.5 is the limit. These kinds were known when the rule was made, and so were the sets in
            [Choosing k](../guide/choosing-k.md#the-rule), with which its constants were chosen.
        """),
        table(["kind", "true", "answers", "overlap"], cells),
    ]
    for group, said in (
        (generated.DRAWN, "with clusters: 2 to 12 of them, 4 to 12 standard deviations apart"),
        (generated.DRAWN_NONE, "without clusters"),
    ):
        some = [r for r in rows if r["group"] == group]
        if not some:
            continue
        wrong = [r for r in some if r["recommended"] != r["n_true"]]
        none = sum(r["recommended"] == 0 for r in wrong)
        missed = (
            f"; {none} of the {len(wrong)} others were answered “no clear number”"
            if wrong and group == generated.DRAWN
            else ""
        )
        text.append(
            words(f"""
                Then {len(some)} settings drawn at random, {said}; 2 to 50 features, 50 to 400 nodes per cluster,
                Gaussian, Laplace, Student t or skewed, balanced or with sizes from 1 to 0.1, certain or with errors.
                No rule was tried on them before. **Right: {len(some) - len(wrong)} of {len(some)}**{missed}.
            """)
        )
        if wrong:
            lines = [
                [r["kind"].partition(": ")[2], r["n_true"] or "none", r["recommended"] or "none", *_measured(r)]
                for r in wrong
            ]
            text.append(table(["wrong on", "true", "answer", "overlap", "agreement"], lines))
            text.append(
                words("""
                    Overlap and agreement are those of the clusters found with the true number: the agreement is the
                    adjusted Rand index with the groups that nodes come from. Where it is well below 1, not even that
                    number finds the groups.
                """)
            )
    return "\n".join(text)


def _outliers(folder: Path) -> str:
    rows = read(folder / "answers_outliers.csv")
    if not rows:
        return ""
    sources = {"points": "5,000 points", "nodes": "5,000 uncertain nodes", "summary": "a summary of 40,000 points"}
    cells = []
    for planted in generated.PLANTED:
        line = [planted]
        for source in sources:
            some = [r for r in rows if (r["planted"], r["source"]) == (planted, source)]
            values = [[r["recall"] for r in some], [r["precision"] for r in some]]
            line.append("–" if not some else " / ".join(f"{np.mean(v):.3f} ({min(v):.3f})" for v in values))
        cells.append(line)
    n_seeds = 1 + max(r["seed"] for r in rows)
    return "\n".join(
        [
            "## Outliers\n",
            words(f"""
                Five Gaussian clusters, 12 standard deviations apart, and {answers.SHARE:.0%} outliers: 60 to 200
                standard deviations away, all in one place, or between clusters, at least 5 from each center. Recall /
                precision with `outliers={answers.SHARE}`; means of {n_seeds} seeds, and the least. Uncertain nodes
                have five readings, each with an error of one standard deviation.
            """),
            table(["outliers", *sources.values()], cells),
        ]
    )
