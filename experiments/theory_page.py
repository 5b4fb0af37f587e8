"""The page about the coreset with a promise, made of what was recorded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import theory
from experiments.records import read
from experiments.writing import number, table, words

Row = dict[str, Any]


def theory_page(folder: Path) -> str:
    """All parts that there is data for."""
    parts = [make(folder) for make in (_promise, _equal, _steps, _kumar, _thinning, _growth)]
    if not any(parts):
        return ""
    head = [
        "# Theory, measured\n",
        words("""
            `lss_coreset` and `Summary(preset="theory")` are Algorithm 1 of the paper: a coreset with a
            promise instead of a size. Is the promise kept, what does it cost, and how near is the default,
            which promises nothing?
        """),
    ]
    return "\n".join([*head, *filter(None, parts)])


def _groups(rows: list[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def _promise(folder: Path) -> str:
    rows = read(folder / "theory_promise.csv")
    if not rows:
        return ""
    out: list[Sequence[str]] = []
    for (name, epsilon), some in _groups(rows, "data_set", "epsilon").items():
        n, sizes = some[0]["n_nodes"], [r["size"] for r in some]
        broken = sum(r["worst"] > epsilon for r in some)
        size = f"{np.mean(sizes):,.0f}" if min(sizes) < n else "all of them"
        out.append(
            [f"{name}, {n:,} nodes", f"{epsilon}", f"{some[0]['n_draws']:,}", size, f"{broken} of {len(some)}",
             f"{max(r['worst'] for r in some):.4f}"]
        )  # fmt: skip
    columns = ["data", "ε", "draws a bucket", "nodes kept", "broken", "worst error"]
    return "\n".join(
        [
            "## Is the promise kept?\n",
            words(f"""
                k = {theory.K}, δ = {theory.DELTA}: at most that share of coresets may be off by more than ε for
                some centers. Tried for each coreset: centers found on it, three sets at random, all far away,
                all on one point, all but one on one cluster. Tails are generated points in the plane, cubes of
                normal numbers: most are near 0, a few far away.
            """),
            table(columns, out),
            words("""
                Where nodes kept are *all of them*, the promise needs more draws from each bucket than the
                bucket has nodes: there is no smaller coreset with this proof, and none is pretended. Errors
                are far below ε everywhere, with a constant of 1 in the number of draws: the union over all
                sets of centers, and one bound for all shapes of buckets, is what costs so much.
            """),
        ]
    )


def _equal(folder: Path) -> str:
    rows = read(folder / "theory_equal.csv")
    if not rows:
        return ""
    out: list[Sequence[str]] = []
    for (name, size), some in _groups(rows, "data_set", "size").items():
        cells = []
        for method in theory.METHODS:
            worst = [r["worst"] for r in some if r["method"] == method]
            cells.append(f"{np.mean(worst):.4f} / {max(worst):.4f}" if worst else "–")
        out.append([f"{name}, {size:,} nodes kept", *cells])
    return "\n".join(
        [
            "## The default and others at the same size\n",
            words(f"""
                Mean / worst over {theory.EQUAL_SEEDS} seeds of the largest relative error over the same sets of
                centers, of one reduce each, with as many nodes as the promise leads to.
            """),
            table(
                ["", *(f"{method} preset" if method != "uniform" else "uniform draws" for method in theory.METHODS)],
                out,
            ),
        ]
    )


def _steps(folder: Path) -> str:
    rows = {(r["method"], r["step"]): r for r in read(folder / "theory_steps.csv")}
    if not rows:
        return ""
    titles = {
        "medians": ("medians of nodes", "sum of spreads ÷ smallest"),
        "centers": ("centers or cells around them", "their cost ÷ that of k centers"),
        "all": ("the whole reduce", "worst relative error"),
    }
    out: list[Sequence[str]] = []
    for step, (title, meaning) in titles.items():
        cells = []
        for method in ("theory", "paper", "default"):
            row = rows[method, step]
            cells.append(f"{number(row['seconds'])} s; {row['quality']:.4f}")
        out.append([f"{title}; {meaning}", *cells])
    out.append(["nodes kept", *(f"{rows[m, 'size']['quality']:,.0f}" for m in ("theory", "paper", "default"))])
    return "\n".join(
        [
            "## What each step costs and buys\n",
            words(f"""
                One reduce of Beijing's air (24 realizations per node, 6 dimensions), k = {theory.STEPS_K} and 200·k
                nodes for the presets, k = {theory.K} and ε = {theory.EPSILONS[0]} for the whole of Algorithm 1. The
                first number is seconds (best of three), the second how good the step is.
            """),
            table(["step", "Algorithm 1", "Algorithm 2 (paper preset)", "default"], out),
        ]
    )


def _kumar(folder: Path) -> str:
    rows = read(folder / "theory_kumar.csv")
    if not rows:
        return ""
    out: list[Sequence[str]] = [
        [f"{precision}", f"{m:,}", f"{100 * r['kept']:.1f} %", f"{r['mean']:.4f}", number(r["microseconds"]),
         number(1000 * r["table_seconds"])]
        for (precision, m), (r,) in sorted(_groups(rows, "precision", "n_realizations").items(), reverse=True)
    ]  # fmt: skip
    return "\n".join(
        [
            "## Kumar's median\n",
            words(f"""
                Step 1 draws a constant number of realizations. {theory.N_RUNS:,} runs on a skewed node in 5
                dimensions, four repetitions each, which promise 1 + ε in 15 of 16 runs. The time of a run, given
                the table of cumulated probabilities, does not grow with the realizations, but for memory that no
                longer fits a cache; the table is one pass.
            """),
            table(["ε", "realizations", "within 1 + ε", "mean cost ÷ smallest", "µs a run", "ms for the table"], out),
        ]
    )


def _thinning(folder: Path) -> str:
    rows = {r["max_realizations"]: r for r in read(folder / "theory_thinning.csv")}
    if len(rows) < 2:
        return ""
    whole, thin = rows[0], rows[theory.MOST]
    n, m, d = theory.DENSE
    out: list[Sequence[str]] = [
        [f"{theory.MOST} realizations" if r is thin else "all realizations", number(r["pass_seconds"]),
         number(r["solve_seconds"]), f"{r['cost']:,.1f}", f"{r['stated']:,.1f} ± {r['error']:,.1f}",
         f"{100 * r['lower_bound'] / r['cost']:.1f} %"]
        for r in (whole, thin)
    ]  # fmt: skip
    both = [r["pass_seconds"] + r["solve_seconds"] for r in (whole, thin)]
    return "\n".join(
        [
            "## Dense nodes\n",
            words(f"""
                Step 5 alone, on arrival: `Summary({theory.DENSE_K}, size=200,
                max_realizations={theory.MOST})` of {n:,} nodes with {m:,} realizations in {d} dimensions, in
                memory; best of three.
            """),
            table(
                ["kept of each node", "pass s", "solve s", "cost on all", "cost as stated", "certified lower bound"],
                out,
            ),
            words(f"""
                The solution costs {100 * (thin["cost"] / whole["cost"] - 1):+.2f} %, the pass is
                {whole["pass_seconds"] / thin["pass_seconds"]:.1f} times as fast, pass and solution together
                {both[0] / both[1]:.1f} times. Certified for all centers is no more than
                {100 * thin["certified"] / thin["cost"]:.0f} % of the cost: in many dimensions a few points are
                far from every distribution. What a pass without thinning takes is mostly copying and medians;
                thinning looks at every realization once, because one that is rare and far must not be missed.
            """),
        ]
    )


def _growth(folder: Path) -> str:
    rows = read(folder / "theory_growth.csv")
    if not rows:
        return ""
    parts = [
        "## Running time beside the bound\n",
        words("""
            The paper states O(k n m log(n/δ) log log(W/(w_min p_min ε))). Seconds of `lss_coreset` (ε = 0.5,
            δ = 0.1, 5 dimensions, best of three) over that product without its constant:
        """),
    ]
    for axis, title in (("n", "nodes"), ("m", "realizations per node"), ("k", "clusters")):
        some = sorted((r for r in rows if r["axis"] == axis), key=lambda r: r[axis])
        if some:
            cells = [[f"{r[axis]:,}", number(r["seconds"]), number(1e9 * r["seconds"] / r["bound"])] for r in some]
            parts.append(table([title, "seconds", "ns for each of the product"], cells))
    parts.append(
        words("""
            Over nodes the time grows as the product does. Over realizations and clusters it grows more slowly,
            because step 1 costs the same for any number of realizations and no step has all of k, n and m as
            factors; from 1,000 realizations on there is work for step 5, node by node.
        """)
    )
    return "\n".join(parts)
