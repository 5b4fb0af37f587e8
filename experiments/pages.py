"""Pages and pictures of the results, made of the recorded data alone: no number is typed by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments import peers, quality
from experiments.answers_page import answers_page
from experiments.calibration import calibration_page
from experiments.field.page import field_page
from experiments.hostile import hostile_section
from experiments.imputation import imputation_page
from experiments.pictures import paper_pictures, plot_distortion, plot_gap, plot_growth
from experiments.point_peers_page import points_section
from experiments.records import read
from experiments.reproduction import reproduction
from experiments.theory_page import theory_page
from experiments.writing import number, table, words

PAPER = Path(__file__).parent / "data" / "paper_tables.csv"
STATISTICS: dict[str, Callable[[Any], float]] = {
    "mean": lambda x: float(np.mean(x)),
    "median": lambda x: float(np.median(x)),
    "variation": lambda x: float(np.std(x) / np.mean(x)),
}

Row = dict[str, Any]

ABOUT = {
    "paper": "its section 5 again, with its numbers beside ours",
    "quality": "how far the cost on a coreset is from the cost on all nodes, over its size",
    "peers": "time, memory and cost of other systems on the same data, and where they are better",
    "growth": "time and memory over nodes, clusters, dimensions, realizations and threads",
    "theory": "the coreset with a promise: is it kept, and what does it cost",
    "answers": "representatives, memberships, possible worlds, the number of clusters, outliers: how well and how fast",
    "calibration": "of labels with a confidence of 0.9, how many are right",
    "imputation": "clusters under missing values: nodes of imputations beside one completed table",
    "field": "systems for uncertain data on ten labelled data sets: ranks, where others are better, add your own",
}


def write_all(folder: Path) -> list[Path]:
    """All pages that there is data for."""
    made = []
    for name, make in (
        ("paper", paper_page), ("quality", quality_page), ("peers", peers_page), ("growth", growth_page),
        ("theory", theory_page), ("answers", answers_page), ("calibration", calibration_page),
        ("imputation", imputation_page), ("field", field_page),
    ):  # fmt: skip
        text = make(folder)
        if text:
            path = folder / f"{name}.md"
            own = folder / f"{name}_machine.json"  # of a page that was measured in a run of its own
            machine = own if own.exists() else folder / "machine.json"
            path.write_text(text + _footer(json.loads(machine.read_text())))
            made.append(path)
    index = ["# Results\n", "Measured, not typed: data beside each page, made by `python -m experiments`.\n"]
    index += [f"- [{path.read_text().splitlines()[0].lstrip('# ')}]({path.name}): {ABOUT[path.stem]}." for path in made]
    (folder / "README.md").write_text("\n".join(index) + "\n")
    return made


def _footer(machine: Row) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in machine["versions"].items())
    return (
        f"\n---\nMeasured on {machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}, {versions}; {machine['date']}. {machine['note']}\n"
    )


# -- the paper --------------------------------------------------------------------------------------------------------


def paper_page(folder: Path) -> str:
    """The paper's three tables, with its values, our paper preset and our default side by side."""
    rows = read(folder / "paper_runs.csv")
    if not rows:
        return ""
    theirs = {(r["statistic"], r["data_set"], r["k"]): r for r in read(PAPER)}
    text = [
        "# The paper's experiments\n",
        words("""
            Section 5 of *PROBI: A Heuristic for the probabilistic k-median problem* (Fichtenberger and
            Schmidt): nodes of ten consecutive rows. *Paper* is what its tables say (C++ on an Intel E7400,
            2.8 GHz); *paper preset* is `Summary(preset="paper")`, *default* is `Summary()`, both with 200·k
            nodes. *Summary cost* is that of the solution on the summary, *full cost* that of the same
            centers on all nodes. Ratios are to the mean of P-LLOYD++ on all nodes. The *excess* ratio
            leaves out the nodes' own spread on both sides, which no clustering can change. Seconds are
            those of a process that has its compiled code loaded; reading the file is not counted.
            "Variation" is the standard deviation over the mean; the paper's "variance coefficient" is not
            defined there and taken for it.
        """),
    ]
    text.append(reproduction(rows, theirs, read(folder / "paper_readings.csv")))
    for stand_in in (False, True):
        for name in dict.fromkeys(r["data_set"] for r in rows if r["stand_in"] == stand_in):
            chosen = [r for r in rows if r["data_set"] == name and r["stand_in"] == stand_in]
            text.append(_paper_set(name, stand_in, chosen, theirs))
    text += paper_pictures(rows, list(theirs.values()), folder)
    text.append(_gap_section(rows, folder))
    return "\n".join(part for part in text if part)


def _paper_set(name: str, stand_in: bool, rows: list[Row], theirs: dict[Any, Row]) -> str:
    runs = max(r["run"] for r in rows) + 1
    parts = [f"## {name}{' (stand-in)' if stand_in else ''}\n"]
    if stand_in:
        parts.append(
            words("""
            **Stand-in:** generated rows of the true size and dimension, because the file is not at hand;
            costs cannot be compared with the paper's, and its numbers are not shown beside them.
        """)
        )
    for statistic in STATISTICS:
        parts.append(f"{statistic.capitalize()} of {runs} run{'s' * (runs > 1)}:\n")
        parts.append(_paper_table(name, stand_in, rows, theirs, statistic))
        if runs == 1:
            break
    return "\n".join(parts)


def _paper_table(name: str, stand_in: bool, rows: list[Row], theirs: dict[Any, Row], statistic: str) -> str:
    columns = ["k", "", "summary cost", "full cost", "÷ P-LLOYD++", "excess ÷", "summary s", "solve s", "peak MB"]
    out = []
    for k in sorted({r["k"] for r in rows}):
        here = {m: [r for r in rows if r["k"] == k and r["method"] == m] for m in ("plloyd", "paper", "default")}
        base = float(np.mean([r["full_cost"] for r in here["plloyd"]])) if here["plloyd"] else None
        if not stand_in and (found := theirs.get((statistic, name, k))):
            theirs_base = theirs.get(("mean", name, k), {}).get("plloyd_full_cost")
            ratio = found["full_cost"] / theirs_base if theirs_base and statistic != "variation" else None
            out.append(
                [k, "paper", *map(number, (found["summary_cost"], found["full_cost"], ratio, None)),
                 *map(number, (found["summary_seconds"], found["solve_seconds"], None))]
            )  # fmt: skip
            if found["plloyd_full_cost"] is not None:
                seconds = found["plloyd_seconds"]
                out.append(
                    [
                        k,
                        "paper, P-LLOYD++",
                        *map(number, (None, found["plloyd_full_cost"], None, None, None, seconds, None)),
                    ]
                )
        for method, label in (("paper", "paper preset"), ("default", "default"), ("plloyd", "P-LLOYD++")):
            if here[method]:
                out.append([k, label, *_our_cells(here[method], base, statistic)])
    return table(columns, out, n_left=2)


def _our_cells(rows: list[Row], base: float | None, statistic: str) -> list[str]:
    def of(name: str) -> float | None:
        values = [r[name] for r in rows if r[name] is not None]
        return STATISTICS[statistic](values) if values else None

    ratio = excess = None
    if base is not None and statistic != "variation":
        spread = rows[0]["spread_cost"]
        full = of("full_cost") or 0.0
        ratio, excess = full / base, (full - spread) / (base - spread)
    peak = max((r["peak_mb"] for r in rows if r["peak_mb"] is not None), default=None)
    return [
        *(number(of(name), 4) for name in ("summary_cost", "full_cost")),
        *(f"{value:.3f}" if value is not None else "–" for value in (ratio, excess)),
        number(of("summary_seconds")), number(of("solve_seconds")), number(peak),
    ]  # fmt: skip


def _correlation(pairs: list[tuple[float, float]]) -> float:
    return float(np.corrcoef(np.array(pairs).T)[0, 1])


def _gap_section(rows: list[Row], folder: Path) -> str:
    """The paper's remark that the gap between summary and full cost hints at the quality of a solution."""
    points = []
    for r in rows:
        if r["method"] == "plloyd" or r["stand_in"]:
            continue
        base = [
            q["full_cost"]
            for q in rows
            if q["method"] == "plloyd" and (q["data_set"], q["k"]) == (r["data_set"], r["k"])
        ]
        if base:
            gap = abs(r["full_cost"] - r["summary_cost"]) / r["full_cost"]
            points.append((r["method"], r["k"], gap, r["full_cost"] / float(np.mean(base))))
    if len(points) < 10:
        return ""
    plot_gap(points, folder / "paper_gap.svg")
    lines = []
    for method in ("paper", "default"):
        some = [(gap, ratio) for m, _, gap, ratio in points if m == method]
        within = [
            _correlation([(g, q) for m, k2, g, q in points if m == method and k2 == k])
            for k in sorted({k for m, k, _, _ in points if m == method})
        ]
        together = _correlation(some)
        shown = ", ".join(f"{value:.2f}" for value in within)
        lines.append([method, f"{together:.2f}", shown, number(float(np.median([g for g, _ in some])))])
    return (
        "## Does the gap hint at the quality?\n\n"
        + words("""
            The paper remarks that the difference between the cost on the summary and on all data hints at
            the quality of the solution. Correlation of (full − summary) ÷ full with full ÷ P-LLOYD++, over
            runs:
        """)
        + "\n"
        + table(["method", "all k together", "for each k", "median gap"], lines)
        + "\n![Gap against quality](paper_gap.svg)\n"
    )


# -- coreset quality --------------------------------------------------------------------------------------------------


def quality_page(folder: Path) -> str:
    """Distortion by size and method."""
    rows = read(folder / "quality.csv")
    if not rows:
        return ""
    text = ["# Quality of coresets\n", (quality.__doc__ or "").partition("\n\n")[2]]
    text.append(
        f"k = {quality.K}; mean / worst over seeds of the worst distortion over {1 + 2 * quality.N_FIXED} sets.\n"
    )
    for name in dict.fromkeys(r["data_set"] for r in rows):
        some = [r for r in rows if r["data_set"] == name]
        text.append(f"## {name}{' (stand-in)' if some[0]['stand_in'] else ''}\n")
        out = []
        for size in sorted({r["size"] for r in some}):
            cells = []
            for method in ("default", "paper", "uniform"):
                found = [r["distortion"] for r in some if r["size"] == size and r["method"] == method]
                cells.append(f"{np.mean(found):.4f} / {max(found):.4f}" if found else "–")
            n = sum(r["size"] == size and r["method"] == "default" for r in some)
            out.append([f"{size // quality.K}·k", *cells, n])
        text.append(table(["nodes", "default", "paper preset", "uniform sample", "seeds of the default"], out))
    plot_distortion(rows, folder / "quality.svg")
    text.append("![Distortion over size](quality.svg)\n")
    text.append(hostile_section(folder))
    return "\n".join(text)


# -- peers ------------------------------------------------------------------------------------------------------------


def peers_page(folder: Path) -> str:
    """Time, memory and cost of others on the same data."""
    rows = read(folder / "peers.csv")
    if not rows:
        return ""
    text = [
        "# The field\n",
        words(f"""
            The same data in the same run, each system in a process and an environment of its own; seconds
            are the best of {peers.RUNS} runs on data in memory, cost is the mean expected cost of their
            centers on all nodes, each node assigned as a whole. Excess is the cost beyond the nodes' own
            spread, over that of the best here. Peak memory holds the data in memory too, whose part is in
            brackets.
        """),
        words("""
            What a system *sees*: nodes; nodes with the same number of realizations each (*equal nodes*); each
            realization as a point; or each node's center of gravity (*gravity*). *Stream* means that it reads
            once and keeps less than all. BICO is a coreset of points for k-means, in C++; ELKI's UK-means
            and CK-means (Java) are k-means of uncertain objects; kmedoids looks for centers among a sample of
            the data; MiniBatchKMeans, Birch and KMeans are those of scikit-learn.
        """),
        words("""
            Covertype, KDD Cup and Tower: nodes of ten consecutive rows of a table about land, network connections
            and, generated, the colours of a picture. Beijing: a node is a day at a station, its realizations
            the hourly readings of six pollutants. UJIIndoorLoc: a place in a building, and strengths of wireless
            signals heard there. Otis: a forecast of where the storm will be, by up to 31 simulations.
        """),
    ]
    sees = {peer.name: peer for peer in peers.ALL_PEERS}
    order = [*sees]
    for name in dict.fromkeys(r["data_set"] for r in rows):
        some = [r for r in rows if r["data_set"] == name]
        text.append(f"## {name}{' (stand-in)' if some[0]['stand_in'] else ''}, k = {some[0]['k']}\n")
        best = min(r["excess"] for r in some if r["excess"] is not None)
        ours = next((r["seconds"] for r in some if r["peer"] == "probi, default"), None)
        out, failed = [], []
        for r in sorted(some, key=lambda r: order.index(r["peer"]) if r["peer"] in order else len(order)):
            peer = sees.get(r["peer"])
            kind = f"{peer.sees}{', stream' if peer.is_stream else ''}" if peer else ""
            if r["cost"] is None:
                failed.append(f"- {r['peer']} failed: {r['note']}.")
                continue
            slower = f"{r['seconds'] / ours:.1f} x" if ours else "–"
            memory = f"{r['peak_mb']:,.0f} ({r['data_mb']:,.0f})"
            out.append(
                [
                    r["peer"],
                    kind,
                    number(r["seconds"]),
                    slower,
                    number(r["cost"], 4),
                    f"{r['excess'] / best:.3f}",
                    memory,
                ]
            )
        columns = ["system", "sees", "seconds", "÷ probi", "cost", "excess ÷ best", "peak MB"]
        text.append(table(columns, out, n_left=2))
        text += [*failed, ""] if failed else []
    text.append(_where_others_win(rows, {peer.name for peer in peers.ALL_PEERS if peer.is_stream}))
    text.append(points_section(folder))
    text.append("## Not run\n")
    text += [f"- {name}: {reason}." for name, reason in peers.SKIPPED.items()]
    return "\n".join(text) + "\n"


def _where_others_win(rows: list[Row], streams: set[str]) -> str:
    """Streaming systems of others that are faster than our default, and any of them that costs less."""
    faster, cheaper = [], []
    for name in dict.fromkeys(r["data_set"] for r in rows):
        some = [r for r in rows if r["data_set"] == name and r["cost"] is not None]
        ours = next((r for r in some if r["peer"] == "probi, default"), None)
        if ours is None:
            continue
        for r in some:
            if "probi" in r["peer"] or "P-LLOYD" in r["peer"]:
                continue
            time, cost = r["seconds"] / ours["seconds"], r["cost"] / ours["cost"]
            line = f"- {name}: {r['peer']}, {time:.2f} times the seconds, {cost:.3f} times the cost."
            if r["peer"] in streams and time < 1.0:
                faster.append(line)
            if cost < 1.0:
                cheaper.append(line)
    return "\n".join(
        [
            "## Where others are better\n",
            "Streaming systems that take less time than our default:\n",
            *(faster or ["- none"]),
            "",
            words("""
                One pass of MiniBatchKMeans compares each point with k centers and moves those, and nothing else:
                it keeps no summary, cannot be merged or solved again for another k, tells no error, and what comes
                first decides. On small data (Otis, UJIIndoorLoc) there is nothing to summarise, and ten starts of
                our solver take longer than one of others.
            """),
            "\nSystems of any kind with a lower cost than our default:\n",
            *(cheaper or ["- none"]),
            "",
        ]
    )


# -- growth -----------------------------------------------------------------------------------------------------------


# Why time and memory grow as they do, by axis.
WHY = {
    "n": """
        Linear: a node is looked at once on the lowest level, and each level above has a quarter of the nodes of the one
        below. Solving sees the coreset only. Memory grows with the number of levels.
    """,
    "k": """
        A leaf has 8 to 64 times as many nodes as the coreset, and its tree is deeper by the logarithm of k: so the
        time per node hardly grows. The coreset has 200 nodes per cluster. From 32 clusters on, a round of the solver
        compares a node with the centers around its own, and only the first and the last assignment with all: so solving
        grows about as k does. Memory grows with the leaf, once that outweighs the program.
    """,
    "d": """
        Every number is read a few times, so time is linear once numbers outweigh what a node costs; beyond some hundred
        dimensions a node no longer fits into the fastest cache. Memory is that of a leaf, whose nodes are kept whole.
    """,
    "m": """
        As over dimensions: every number is read a few times, and a leaf holds its nodes with all their realizations.
    """,
    "threads": """
        Leaves of a batch, and nodes of a leaf, are worked on side by side; what is left of a stream of small batches
        runs on one thread.
    """,
}


def growth_page(folder: Path) -> str:
    """Fitted exponents, and what they mean for very long streams."""
    rows = read(folder / "growth.csv")
    if not rows:
        return ""
    text = [
        "# Growth\n",
        words("""
            Generated nodes around 30 places, one axis at a time through 100,000 nodes, k = 20, 10
            dimensions, 10 realizations per node and 2 threads; 1,000,000 nodes where clusters or threads vary,
            because below a leaf (170,000 nodes for k = 20) nodes are only kept. Exponents are slopes of a straight
            line through the upper half of the points, both axes logarithmic.
        """),
    ]
    names = {"n": "nodes", "k": "clusters", "d": "dimensions", "m": "realizations per node", "threads": "threads"}
    slopes = {}
    for axis, title in names.items():
        some = sorted((r for r in rows if r["axis"] == axis), key=lambda r: r[axis])
        if not some:
            continue
        slopes[axis] = {name: exponent(some, axis, name) for name in ("summary_seconds", "solve_seconds", "peak_mb")}
        text.append(f"## Over {title}\n")
        cells = [
            [f"{r[axis]:,}", *(number(r[c]) for c in ("summary_seconds", "solve_seconds", "peak_mb", "base_mb"))]
            for r in some
        ]
        cells.append(["exponent", *(f"{value:.2f}" for value in slopes[axis].values()), ""])
        text.append(table([title, "summary s", "solve s", "peak MB", "of it before reading"], cells))
        text.append(words(WHY[axis]) + "\n")
    plot_growth(rows, names, folder / "growth.svg")
    text.append("![Growth](growth.svg)\n")
    text.append(_very_long(rows))
    text += [f"\n## A billion points\n\n{words(billion(row))}" for row in read(folder / "billion.csv")]
    return "\n".join(text)


def billion(row: Row) -> str:
    """What the stream of a billion points showed."""
    rate, error = row["n"] / row["summary_seconds"] / 1e6, row["estimate"] / row["exact"] - 1
    return f"""
        Measured (`python -m benchmarks billion`): a stream of {row["n"]:,} points in three dimensions, k = 20,
        is read in {_duration(row["summary_seconds"])}, {rate:.1f} million points per second on two cores, with a
        peak memory of {row["peak_mb"]:.0f} MB, {row["base_mb"]:.0f} of them before the first point. The estimate of
        what fixed centers cost is {abs(error):.2%} {"above" if error > 0 else "below"} the truth; its standard error
        is {row["standard_error"] / row["exact"]:.2%}.
    """


def exponent(rows: list[Row], axis: str, name: str) -> float:
    """Slope of a line through the upper half of the points, in logarithms."""
    upper = rows[len(rows) // 2 :] if len(rows) > 3 else rows
    x = np.log([r[axis] for r in upper])
    y = np.log([max(r[name], 1e-9) for r in upper])
    return float(np.polyfit(x, y, 1)[0])


def _very_long(rows: list[Row]) -> str:
    longest = max((r for r in rows if r["axis"] == "n"), key=lambda r: r["n"])
    per_node = longest["summary_seconds"] / longest["n"]
    out = []
    for n in (10**9, 10**12):
        one, thousand = n * per_node, n * per_node / 1000
        out.append([f"10^{len(str(n)) - 1}", _duration(one), _duration(thousand)])
    return (
        "## Very long streams\n\n"
        + words(f"""
            A node costs {per_node * 1e6:.2f} µs on two cores at {longest["n"]:,} nodes (k = 20, 10 × 10
            numbers each), and that does not grow with the stream: a node is looked at once on the lowest
            level, and every higher level has a fraction of the nodes of the one below. From that
            measurement, without reading the data from anywhere:
        """)
        + "\n"
        + table(["nodes", "one such machine", "a thousand, shards merged"], out)
        + "\n"
        + words("""
            Memory grows with the number of levels, that is with the logarithm: a level holds at most fan-in
            × size nodes. Merging a thousand summaries takes a reduce for every four of them, and solving
            takes what one solve takes.
        """)
    )


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} seconds"
