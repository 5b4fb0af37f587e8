"""Calibration: of labels with a confidence of 0.9, are nine of ten right?

Nodes of known origin: a true place is drawn from one of some Gaussian groups, and is measured with a Gaussian error.
What is "right", and what the realizations of a node stand for, decide what a confidence means.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import probi
from experiments.pictures import plot_calibration
from experiments.records import Records, read
from experiments.writing import table, words

KEYS = ("setting", "kind", "tenth")
VALUES = ("n_nodes", "confidence", "right", "error")

# Vague nodes are rare, and each tenth needs thousands of nodes to be judged: a few draws sort a pool of nodes into
# tenths, as many of each are taken, and each node counts for all those that it was taken from.
N_POOL, N_FEW = 2_000_000, 100
N_PER_TENTH, N_DRAWS = 10_000, 1000
# Centers are found with some of the nodes and draws; stability is that of those nodes.
N_SOLVED, N_SOLVED_DRAWS = 20_000, 50
DRAWS_AT_ONCE = 2_000_000
N_WORLDS = 100

# The largest difference that is allowed, and the largest standard error of a share that is judged by it.
BAR, MAX_ERROR = 0.02, 0.01

Floats = Any


@dataclass(frozen=True)
class Setting:
    """Groups with a standard deviation of 1, their places, and the errors of measurements."""

    name: str
    places: tuple[tuple[float, ...], ...]
    errors: tuple[float, float]  # the least and the largest, known for each node


SETTINGS = (
    Setting("3 groups in 1-d, errors of 1", ((0.0,), (4.0,), (8.0,)), (1.0, 1.0)),
    Setting("4 groups in 2-d, errors of 1", ((0.0, 0.0), (4.0, 0.0), (0.0, 4.0), (4.0, 4.0)), (1.0, 1.0)),
    Setting(
        "6 groups in 2-d, errors of 0.3", tuple((3.0 * i, 3.0 * j) for i in range(3) for j in range(2)), (0.3, 0.3)
    ),
    Setting(
        "5 groups in 5-d, errors of 1", tuple(tuple(4.0 * (i == j) for j in range(5)) for i in range(5)), (1.0, 1.0)
    ),
    Setting("4 groups in 2-d, errors of 0.2 to 2", ((0.0, 0.0), (4.0, 0.0), (0.0, 4.0), (4.0, 4.0)), (0.2, 2.0)),
    Setting(
        "3 groups in 5-d, errors of 2", tuple(tuple(5.0 * (i == j) for j in range(5)) for i in range(3)), (2.0, 2.0)
    ),
)

# What is compared: what the realizations are and what the confidence is, and when a label is right.
KINDS = {
    "place": "membership, draws of the place given the measurement: is the true place nearest to that center?",
    "origin": "membership, groups as candidates: does it come from the group of its label?",
    "no prior": "membership, measurement and error alone: is the true place nearest to that center?",
    "place for origin": "membership, draws of the place: does it come from that group?",
    "stability": "stability, draws of the place: is the true place nearest to that center?",
}
CALIBRATED = ("place", "origin")


class World:
    """Nodes of known origin in a setting."""

    def __init__(self, setting: Setting, rng: np.random.Generator) -> None:
        self.rng, self.groups = rng, np.array(setting.places)
        self.origin = rng.integers(len(self.groups), size=N_POOL)
        shape = (N_POOL, self.groups.shape[1])
        self.places = self.groups[self.origin] + rng.normal(size=shape)
        self.errors = rng.uniform(*setting.errors, size=(N_POOL, 1))
        self.measured = self.places + self.errors * rng.normal(size=shape)
        squared = np.column_stack([((self.measured - group) ** 2).sum(axis=1) for group in self.groups])
        weights = np.exp(-0.5 * (squared - squared.min(axis=1, keepdims=True)) / (1.0 + self.errors**2))
        self.posterior = weights / weights.sum(axis=1, keepdims=True)  # of the groups

    def draws(self, rows: Floats, m: int) -> Floats:
        """Draws of the true places, given what was measured and how places are distributed: of a group, then in it."""
        counts = self.rng.multinomial(m, self.posterior[rows])
        squared_error = self.errors[rows, None] ** 2
        means = (self.measured[rows, None] + squared_error * self.groups) / (1.0 + squared_error)
        points = np.repeat(means.reshape(-1, self.groups.shape[1]), counts.ravel(), axis=0)
        points = points.reshape(len(rows), m, -1)
        return points + np.sqrt(squared_error / (1.0 + squared_error)) * self.rng.normal(size=points.shape)

    def without_prior(self, rows: Floats, m: int) -> Floats:
        """Draws around the measurements, as if each place were as likely as any other."""
        noise = self.rng.normal(size=(len(rows), m, self.groups.shape[1]))
        return self.measured[rows, None] + self.errors[rows, None] * noise


def run(results: Path, report: Any) -> None:
    """Fill what is missing."""
    records = Records(results / "calibration.csv", KEYS, VALUES)
    for number, setting in enumerate(SETTINGS):
        if any(row["setting"] == setting.name for row in records):
            continue
        report(f"calibration: {setting.name}")
        for kind, judged in confidences(setting, number).items():
            for row in tenths(*judged):
                records.add(setting=setting.name, kind=kind, **row)


def confidences(setting: Setting, seed: int) -> dict[str, tuple[Floats, ...]]:
    """For each kind the confidence of the labels, whether they are right, and how many nodes each stands for."""
    world = World(setting, np.random.default_rng([3, seed]))
    solved = probi.Nodes.from_dense(world.draws(np.arange(N_SOLVED), N_SOLVED_DRAWS))
    centers = probi.solve(solved, len(world.groups), random_state=seed).centers
    nearest = probi.assign(world.places, centers)
    group = probi.assign(world.groups, centers)[world.origin]
    rows, weights = _taken(_memberships(world.draws, np.arange(N_POOL), N_FEW, centers)[1], world.rng)
    drawn = _memberships(world.draws, rows, N_DRAWS, centers)
    bare = _memberships(world.without_prior, rows, N_DRAWS, centers)
    candidates = _label_memberships(probi.Nodes.from_matrix(world.groups, world.posterior), centers)
    stable = probi.stability(solved, len(centers), N_WORLDS, seed, centers=centers)
    return {
        "place": (drawn[1], drawn[0] == nearest[rows], weights),
        "origin": (candidates[1], candidates[0] == group, np.ones(N_POOL)),
        "no prior": (bare[1], bare[0] == nearest[rows], weights),
        "place for origin": (drawn[1], drawn[0] == group[rows], weights),
        "stability": (stable.confidence, stable.labels == nearest[:N_SOLVED], np.ones(N_SOLVED)),
    }


def _taken(confidence: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """As many nodes of each tenth, at random, and how many each stands for."""
    of_node = _tenth_of(confidence)
    share = np.minimum(1.0, N_PER_TENTH / np.maximum(np.bincount(of_node, minlength=10), 1))[of_node]
    rows = np.flatnonzero(rng.random(len(of_node)) < share)
    return rows, 1.0 / share[rows]


def _memberships(draw: Any, rows: Floats, m: int, centers: Floats) -> tuple[Floats, Floats]:
    """Labels of nodes, and the memberships of those."""
    parts = [
        _label_memberships(probi.Nodes.from_dense(draw(some, m)), centers)
        for some in np.array_split(rows, 1 + len(rows) * m // DRAWS_AT_ONCE)
    ]
    return np.concatenate([labels for labels, _ in parts]), np.concatenate([members for _, members in parts])


def _label_memberships(nodes: probi.Nodes, centers: Floats) -> tuple[Floats, Floats]:
    labels = probi.assign(nodes, centers)
    return labels, probi.memberships(nodes, centers)[np.arange(len(nodes)), labels]


def _tenth_of(confidence: Floats) -> Floats:
    return np.minimum((10 * confidence).astype(int), 9)


def tenths(confidence: Floats, right: Floats, weights: Floats) -> Iterator[dict[str, Any]]:
    """For each tenth of confidences: nodes, mean confidence, share of labels that is right, and its standard error.

    If confidences are right, each label is right with its own one, which gives the variance of the share.
    """
    of_node = _tenth_of(confidence)
    for tenth in np.unique(of_node).tolist():
        some = of_node == tenth
        weight, sure = weights[some] / weights[some].sum(), confidence[some]
        yield {
            "tenth": tenth,
            "n_nodes": len(sure),
            "confidence": float(weight @ sure),
            "right": float(weight @ right[some]),
            "error": float(np.sqrt(weight**2 @ (sure * (1.0 - sure)))),
        }


# -- the page ---------------------------------------------------------------------------------------------------------


def largest(rows: list[dict[str, Any]]) -> float:
    """Largest difference over tenths with enough nodes."""
    return max(abs(r["confidence"] - r["right"]) for r in rows if r["error"] <= MAX_ERROR)


def calibration_page(folder: Path) -> str:
    """Differences of confidence and share that is right, and the tenths of what is calibrated."""
    rows = read(folder / "calibration.csv")
    if not rows:
        return ""
    settings = list(dict.fromkeys(r["setting"] for r in rows))
    by_kind = [
        [name, *(f"{largest([r for r in rows if (r['setting'], r['kind']) == (name, kind)]):.3f}" for kind in KINDS)]
        for name in settings
    ]
    plot_calibration(rows, settings, KINDS, MAX_ERROR, folder / "calibration.svg")
    return "\n".join(
        [
            "# Calibration\n",
            words((__doc__ or "").partition("\n\n")[0]),
            words(f"""
                {N_POOL:,} nodes per setting. A true place comes from one of some Gaussian groups with a standard
                deviation of 1, and is measured with a Gaussian error that is known. Centers are found with
                {N_SOLVED:,} of the nodes; each node gets its label and the confidence in it. The labels are sorted
                into tenths by confidence, and in each tenth the mean confidence is compared with the share of labels
                that is right. Where confidences need {N_DRAWS:,} draws per node, about {N_PER_TENTH:,} nodes of each
                tenth are taken at random, by {N_FEW} draws, and counted for all; stability is that of the
                {N_SOLVED:,} nodes. The table has the largest difference over tenths in which the standard error of
                the share (binomial, with the weights of the nodes) is at most {MAX_ERROR}.
            """),
            table(["setting", *KINDS], by_kind),
            _missing(settings),
            "![Share of labels that is right over confidence, for each setting](calibration.svg)\n",
            *(f"- **{name}**: {text}" for name, text in KINDS.items()),
            "",
            _verdict(rows, settings),
            "## Each tenth of what is calibrated\n",
            words("Mean confidence → share that is right ± standard error (nodes looked at):"),
            table(
                ["setting", "kind", *(f"0.{t} to {(t + 1) / 10:g}" for t in range(3, 10))],
                _all_tenths(rows, settings),
                2,
            ),
        ]
    )


def _missing(settings: list[str]) -> str:
    missing = [setting.name for setting in SETTINGS if setting.name not in settings]
    return words(f"Not measured yet: {'; '.join(missing)}. The same command goes on.") if missing else ""


def _verdict(rows: list[dict[str, Any]], settings: list[str]) -> str:
    within = {kind: sum(_is_within(rows, name, kind) for name in settings) for kind in KINDS}
    n = len(settings)
    return "\n".join(
        [
            "## What it says\n",
            words(f"""
                **A membership is as calibrated as the realizations are.** If they are draws of where the node may
                really be, given all that is known, its membership is a probability of the true place: within {BAR} in
                {within["place"]} of {n} settings. If the candidates are the groups themselves, with the probability of
                each (`Nodes.from_matrix`), it is a probability of the origin: within {BAR} in {within["origin"]} of
                {n}. Each node has {N_DRAWS:,} draws. With few draws the lowest tenths are off: the label is
                chosen by the same draws that count for it.
            """),
            words(f"""
                **A measurement and its error alone are not enough** ({within["no prior"]} of {n} settings within
                {BAR}): that says that each place is as likely as any other, but places are in groups. Where errors
                are small compared to the groups, it does not matter.
            """),
            words(f"""
                **A membership of places is no probability of the origin** ({within["place for origin"]} of {n}): where
                groups overlap, a place nearest to one center may well come from another group.
            """),
            words(f"""
                **Stability was within {BAR} in {within["stability"]} of {n} settings, but promises nothing**, and its
                {N_SOLVED:,} nodes are enough to judge the upper tenths only. It asks whether the label would be the
                same if the centers were found anew in another world. Here many nodes fix the centers, so it differs
                little from a membership with {N_WORLDS} draws; with few or vague nodes it does. It knows nothing of
                the truth.
            """),
            words("""
                **A margin is no probability** at all: it compares distances, and does not know how uncertain a node
                is. It is not in the table, because no share belongs to it.
            """),
        ]
    )


def _is_within(rows: list[dict[str, Any]], setting: str, kind: str) -> bool:
    return largest([r for r in rows if (r["setting"], r["kind"]) == (setting, kind)]) <= BAR


def _all_tenths(rows: list[dict[str, Any]], settings: list[str]) -> Iterator[list[str]]:
    known = {(r["setting"], r["kind"], r["tenth"]): r for r in rows}
    for name in settings:
        for kind in CALIBRATED:
            cells = [known.get((name, kind, tenth)) for tenth in range(3, 10)]
            yield [name, kind, *(_cell(row) for row in cells)]


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['confidence']:.3f} → {row['right']:.3f} ± {row['error']:.3f} ({row['n_nodes']:,})"
