"""The page of the field, made of the records alone."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np

from experiments.field import noise, sets
from experiments.field.diagram import plot_ranks
from experiments.field.ranks import LEVEL, ranking, significantly_better
from experiments.field.run import N_SEEDS, SYSTEMS, settings
from experiments.field.worker import load
from experiments.records import read
from experiments.writing import number, table, words

Row = dict[str, Any]
OURS = "probi"
SCORES = {"ari": "adjusted Rand index", "nmi": "mutual information", "cost": "expected cost"}

EXAMPLE = '''\
"""Ward's method on the means of the objects."""

REQUIRES = ["scikit-learn"]  # installed into an environment of its own
VERSION = "scikit-learn"  # what the page says


def ward(objects, k, seed):
    from sklearn.cluster import AgglomerativeClustering

    return AgglomerativeClustering(k).fit_predict(objects.means)


SYSTEMS = {"Ward of means": ward}
'''

# What a system does that expected distances to k centers do not.
STRENGTHS = {
    "GaussianMixture of means": "it fits a covariance per cluster, so clusters may be long or of different widths",
    "HDBSCAN of means": "it follows densities, so clusters may have any shape",
    "ELKI FDBSCAN": "it follows densities of objects, so clusters may have any shape",
    "ELKI representative": "it clusters possible worlds and returns the one that is most like the others",
    "kmedoids of means": "its centers are means of objects that exist",
    "probi, 5 % outliers": "nodes far from all centers do not move them",
    "probi, paper preset": "the same objective from other starts",
}
SQUARES = "it minimizes squares, which weigh far nodes more and favor clusters of the same width"
VOTES = "realizations are clustered one by one and those of a node vote, so that those of another class do not move it"
STRENGTHS |= dict.fromkeys(("k-means of means", "faiss of means", "ELKI CK-means", "ELKI UK-means"), SQUARES)
STRENGTHS |= dict.fromkeys(("k-means of realizations", "MiniBatchKMeans of realizations"), VOTES)


def field_page(folder: Path) -> str:
    """Ranks, where others are better, calibration, times, cards and the protocol."""
    rows = read(folder / "field.csv")
    if not rows:
        return ""
    return "\n".join(
        part
        for part in (
            "# Known classes\n",
            _status(rows),
            _ranks(rows, folder),
            _means(rows, "kind", noise.KINDS),
            _means(rows, "data", sets.ALL),
            _others(rows),
            _calibration(folder),
            _resources(rows),
            _not_run(rows, folder),
            _cards(folder),
            _protocol(),
            _how_to_add(),
        )
        if part
    )


def _status(rows: list[Row]) -> str:
    done, all_ = len({_setting(r) for r in rows}), len(settings())
    more = "" if done == all_ else " `python -m experiments field` goes on from there."
    return words(f"""
        Do clusters of uncertain data agree with known classes? {len(sets.ALL)} labelled data sets, each made uncertain
        in {len(noise.KINDS)} ways at {len(noise.LEVELS)} levels with {N_SEEDS} seeds, and the same nodes for every
        system. Recorded: **{done:,} of {all_:,}** runs (data set, way, level and seed), {len(rows):,} results.{more}
    """)


def _setting(row: Row) -> tuple[Any, ...]:
    return row["data"], row["kind"], row["level"], row["seed"]


# -- ranks ------------------------------------------------------------------------------------------------------------


def scores_by_setting(rows: list[Row], score: str) -> dict[str, Any]:
    """Mean over seeds in each data set, way and level; nan where a system has no score.

    Only runs count that all systems have a result in, or a note that says why not. Systems without a score in more than
    half of the settings, like those that choose the number of clusters, are left out.
    """
    systems = list(dict.fromkeys(r["system"] for r in rows))
    by_run: dict[Any, dict[str, float]] = {}
    for r in rows:
        by_run.setdefault(_setting(r), {})[r["system"]] = np.nan if r[score] is None else r[score]
    complete = {key: of for key, of in by_run.items() if len(of) == len(systems)}
    cells: dict[Any, list[dict[str, float]]] = {}
    for key, of in complete.items():
        cells.setdefault(key[:3], []).append(of)
    means = {name: np.array([_mean([of[name] for of in some]) for some in cells.values()]) for name in systems}
    return {name: values for name, values in means.items() if len(values) and np.isfinite(values).mean() >= 0.5}


def _mean(values: list[float]) -> float:
    known = [value for value in values if np.isfinite(value)]
    return float(np.mean(known)) if known else np.nan


def _ranks(rows: list[Row], folder: Path) -> str:
    rankings = {}
    for score, said in SCORES.items():
        scores = scores_by_setting(rows, score)
        if len(scores) > 2 and OURS in scores and len(scores[OURS]) > 1:
            rankings[said] = ranking(scores, is_higher_better=score != "cost")
    if not rankings:
        return ""
    plot_ranks(rankings, folder / "field.svg")
    names = list(dict.fromkeys(itertools.chain(*(one.ranks for one in rankings.values()))))
    cells = [
        [name, *(f"{one.ranks[name]:.2f}" if name in one.ranks else "–" for one in rankings.values())] for name in names
    ]
    verdicts = [_verdict(said, one) for said, one in rankings.items()]
    return "\n".join(
        [
            "## Mean ranks\n",
            words(f"""
                Mean ranks over all settings (data set, way and level), 1 is best, of means over seeds; a system
                without a result is last. Lines are half of Nemenyi's critical difference to both sides: if two do not
                overlap, the systems differ significantly (level {LEVEL}, after Friedman's test). The gray band is the
                best one's. Settings with the same data are alike, so true p-values are larger than these.
            """),
            "![Mean ranks of all systems with critical differences](field.svg)\n",
            table(["system", *rankings], cells),
            *verdicts,
        ]
    )


def _verdict(said: str, one: Any) -> str:
    best = next(iter(one.ranks))
    behind = one.ranks[OURS] - one.ranks[best]
    better = [name for name, rank in one.ranks.items() if one.ranks[OURS] - rank >= one.critical]
    if best == OURS:
        text = "probi's default is the best"
    elif not better:
        text = f"{best} is the best, and probi's default is {behind:.2f} behind, which is not significant"
    else:
        text = f"significantly better than probi's default: {', '.join(better)}"
    return f"- By {said} {text} (critical difference {one.critical:.2f}, Friedman's p = {one.p_value:.1g})."


def _means(rows: list[Row], key: str, all_: Any) -> str:
    names = [name for name in all_ if any(r[key] == name for r in rows)]
    systems = dict.fromkeys(r["system"] for r in rows)
    cells = []
    for system in systems:
        of = [[r["ari"] for r in rows if (r["system"], r[key]) == (system, name)] for name in names]
        cells.append([system, *(number(_mean([np.nan if v is None else v for v in some]), 2) for some in of)])
    said = {"kind": "way to make data uncertain", "data": "data set"}[key]
    return f"\nMean adjusted Rand index by {said}:\n\n" + table(["system", *names], cells)


# -- where others are better ------------------------------------------------------------------------------------------


def _others(rows: list[Row]) -> str:
    """Data sets and ways in which a system has significantly better classes or a lower cost than ours."""
    lines = []
    for name, kind in itertools.product(sets.ALL, noise.KINDS):
        some = [r for r in rows if (r["data"], r["kind"]) == (name, kind)]
        lines += [_line(name, kind, some, system, p) for system, p in _better(some, "ari").items()]
    lower = []
    for name, kind in itertools.product(sets.ALL, noise.KINDS):
        some = [r for r in rows if (r["data"], r["kind"]) == (name, kind)]
        lower += [f"{name}, {kind}: {system}" for system in _better(some, "cost", -1.0)]
    n_pairs = len({_setting(r) for r in rows}) / max(1, len({(r["data"], r["kind"]) for r in rows}))
    few = (
        words(f"""With {n_pairs:.1f} runs per data set and way so far, Wilcoxon's test can hardly be significant after
        Holm's correction: this list grows with the runs.""")
        if n_pairs < 9
        else ""
    )
    header = ["data set", "way", "system", "its index", "probi", "p", "cost ÷ probi's", "why"]
    return "\n".join(
        [
            "\n## Where others are better\n",
            words(f"""
                For each data set and way, the same runs of all levels and seeds are compared in pairs (Wilcoxon's
                signed-rank test, level {LEVEL}, Holm's correction over the systems). By adjusted Rand index:
            """),
            few,
            table(header, lines, 3, is_last_left=True) if lines else "- none\n",
            "By expected cost: " + ("; ".join(lower) if lower else "none") + ".\n",
        ]
    )


def _better(rows: list[Row], score: str, sign: float = 1.0) -> dict[str, float]:
    runs = sorted({_setting(r) for r in rows})
    values = {(_setting(r), r["system"]): r[score] for r in rows if r[score] is not None}
    systems = dict.fromkeys(r["system"] for r in rows)
    paired = {name: sign * np.array([values.get((one, name), np.nan) for one in runs]) for name in systems}
    if OURS not in paired or len(runs) < 2:
        return {}
    return significantly_better(paired.pop(OURS), paired)


def _line(name: str, kind: str, rows: list[Row], system: str, p: float) -> list[str]:
    its, ours = ([r for r in rows if r["system"] == one] for one in (system, OURS))
    means = [_mean([r["ari"] for r in some if r["ari"] is not None]) for some in (its, ours)]
    costs = {_setting(r): r["cost"] for r in ours if r["cost"] is not None}
    ratio = _mean([r["cost"] / costs[_setting(r)] for r in its if r["cost"] is not None and _setting(r) in costs])
    return [name, kind, system, *(f"{mean:.3f}" for mean in means), f"{p:.1g}", number(ratio, 4), _why(system, ratio)]


def _why(system: str, ratio: float) -> str:
    """What a system does otherwise; and whether probi missed its own optimum or the classes are not its clusters."""
    strength = STRENGTHS.get(system, "another objective")
    if not np.isfinite(ratio):
        return strength
    if ratio < 0.999:
        return f"probi missed cheaper clusters; {strength}"
    return f"the classes are not the cheapest clusters; {strength}"


# -- confidence, time, what did not run -------------------------------------------------------------------------------


def _calibration(folder: Path) -> str:
    rows = read(folder / "field_confidence.csv")
    if not rows:
        return ""
    cells = []
    for system, kind in dict.fromkeys((r["system"], r["kind_of_confidence"]) for r in rows):
        some = [r for r in rows if (r["system"], r["kind_of_confidence"]) == (system, kind)]
        means = [_mean([r[name] for r in some]) for name in ("confidence", "right", "ece", "brier")]
        cells.append([system, kind, *(f"{mean:.3f}" for mean in means), len(some)])
    return "\n".join(
        [
            "\n## Confidence\n",
            words("""
                A label is right if its cluster is the one matched to the node's class (one to one). The calibration
                error is the mean difference, over ten bins, of confidence and share that is right; both it and the
                Brier score are best at 0. A confidence knows the uncertainty of the data, not that classes may differ
                from clusters: where a method does not find the classes, no confidence of this kind can be right.
            """),
            table(["system", "confidence", "mean", "right", "calibration error", "Brier score", "runs"], cells, 2),
        ]
    )


def _resources(rows: list[Row]) -> str:
    cells = []
    for system in dict.fromkeys(r["system"] for r in rows):
        some = [r for r in rows if r["system"] == system and r["seconds"] is not None]
        if some:
            medians = [np.median([r[name] for r in some]) for name in ("seconds", "cpu_seconds")]
            peak, added = max(r["peak_mb"] for r in some), max(r["peak_mb"] - r["base_mb"] for r in some)
            cells.append([system, some[-1]["version"], *map(number, medians), f"{peak:,.0f}", f"{added:,.0f}"])
    return "\n".join(
        [
            "\n## Time and memory\n",
            words("""
                Medians of seconds on the clock and of the processor, for one core, without starting and converting;
                beside other work, those on the clock are upper bounds. Peak memory of the process, and how much of it a
                run added. ELKI's is that of a Java process that keeps what it once had.
            """),
            table(["system", "version", "seconds", "CPU", "peak MB", "added MB"], cells, 2),
        ]
    )


def _not_run(rows: list[Row], folder: Path) -> str:
    notes = {r["system"]: r["note"] for r in read(folder / "field_systems.csv")}
    systems = dict.fromkeys(r["system"] for r in rows)
    known = [name for path in sorted(SYSTEMS.glob("*.py")) for name in load(str(path)).SYSTEMS]
    lines = [f"- {name}: {notes.get(name) or 'not yet'}." for name in known if name not in systems]
    run = {r["data"] for r in rows}
    absent = [name for name in sets.ALL if name not in run]
    lines += [f"- {name}: no result: its file is missing, or its turn has not come." for name in absent]
    for system in systems:
        failed = [r for r in rows if r["system"] == system and r["note"]]
        if failed:
            lines.append(f"- {system}: no answer in {len(failed)} runs; the last reason: {failed[-1]['note']}")
    return "\n".join(["## What did not run\n", *(lines or ["- Every system answered in every run."]), ""])


# -- protocol ---------------------------------------------------------------------------------------------------------


def _cards(folder: Path) -> str:
    shapes = {r["data"]: f"{r['n']} × {r['d']}, {r['k']}" for r in read(folder / "field_sets.csv")}
    cells = [[one.name, shapes.get(one.name, "–"), one.classes, one.taken, one.origin] for one in sets.ALL.values()]
    ways = [[name, ", ".join(f"{level:g}" for level in kind.levels), kind.about] for name, kind in noise.KINDS.items()]
    return "\n".join(
        [
            "## Data sets\n",
            table(["data set", "nodes × features, classes", "classes are", "taken", "origin"], cells, 5),
            words("""
                Every feature has mean 0 and standard deviation 1; constant ones are left out. What is drawn from a
                data set is drawn once: all runs have the same points. The files of Covertype, KDD Cup, UJIIndoorLoc
                and Beijing are read from the folder of `--data`.
            """),
            f"## Ways to make data uncertain\n\nEach node has {noise.M} realizations.\n",
            table(["way", "levels", "what it is"], ways, 3),
        ]
    )


PROTOCOL = (
    """The true value of a node is a row of the data set. An observation is that value with an error; realizations are
    drawn around the observation, not around the truth. The code is `experiments/field/noise.py`; a run is determined by
    data set, way, level and seed.""",
    """A system gets the realizations, their probabilities, the number of classes as number of clusters, and the seed.
    It does not get classes, and no setting is tuned to a data set. HDBSCAN and FDBSCAN choose the number of
    clusters.""",
    """Labels are compared with the classes by adjusted Rand index and normalized mutual information. Nodes
    labelled as noise are one more cluster.""",
    """The expected cost is that of the best centers of a system's clusters (their 1-medians), with every node at the
    nearest: all are judged by their clusters, whatever centers they have. A system with more clusters than classes has
    no cost.""",
    """Systems run in a process and an environment of their own, warmed up, on one core.""",
)


def _protocol() -> str:
    return "\n".join(["## Protocol\n", *(f"{i}. " + words(text) for i, text in enumerate(PROTOCOL, 1))])


def _how_to_add() -> str:
    return "\n".join(
        [
            "\n## Add a system in ten lines\n",
            words("""
                A system is a function of objects, number of clusters and seed that returns labels, -1 for noise; with
                a confidence per object, it returns labels and a dict of confidences. Objects have `points`,
                `probabilities`, `offsets`, `means` (one point per object) and `vote` (labels of realizations to labels
                of objects). Save this as `ward.py`:
            """),
            f"```python\n{EXAMPLE}```\n",
            "```sh\npython -m experiments field --system ward.py\n```\n",
            words("""
                This runs it in all settings and writes this page with it; what is recorded is not run again. A file in
                `experiments/field/systems/` needs no option.
            """),
        ]
    )
