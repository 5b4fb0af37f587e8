"""What is asked beside centers: representatives, memberships, possible worlds, the number of clusters, outliers.

Each is measured against something that does not share its code: another library, drawn worlds, a planted truth.
"""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import adjusted_rand_score

import probi
from benchmarks.data import beijing_nodes, covertype_nodes
from benchmarks.peers import elki
from experiments import generated, peers
from experiments.records import Records

RUNS = 3
TIMES = ("seconds", "cpu_seconds")


def run(data: Path, results: Path, n_runs: int, report: Any) -> None:
    """Fill what is missing."""

    def records(name: str, keys: tuple[str, ...], values: tuple[str, ...]) -> Records:
        return Records(results / f"answers_{name}.csv", keys, values)

    represent(data, records("representatives", ("system",), ("cost", *TIMES, "peak_mb", "data_mb")), report)
    draw_memberships(
        records("memberships", ("instance",), ("n_nodes", "d", "k", "chi_squared", "df", "p_value")), report
    )
    solve_worlds(data, records("worlds", ("system",), ("n_nodes", *TIMES)), report)
    choose(records("numbers", ("kind", "seed"), NUMBERS), n_runs, report)
    trim(records("outliers", ("planted", "source", "seed"), ("recall", "precision")), n_runs, report)


# -- representatives --------------------------------------------------------------------------------------------------

K_COVERTYPE = 20
SAMPLED = 20_000
MEDOIDS = peers.Peer(
    f"kmedoids.fasterpam on {SAMPLED:,} gravity centers", "gravity", "medoids", ("kmedoids", "scikit-learn"),
    (("sample", SAMPLED),),
)  # fmt: skip
REPRESENT = (("preset", "default"), ("representatives", True))
SYSTEMS = (
    peers.Peer("probi on all nodes: centers and representatives", "nodes", "all", options=REPRESENT),
    peers.Peer("probi from a summary: both", "nodes", "stream", options=REPRESENT),
    MEDOIDS,
)
ALONE = "probi on all nodes: representatives of known centers"


def represent(data: Path, records: Records, report: Any) -> None:
    """Cost of real nodes as centers, on all nodes of Covertype; each system in a process of its own."""
    wanted = [system for system in SYSTEMS if not records.has(system=system.name)]
    nodes = covertype_nodes(data) if wanted or not records.has(system=ALONE) else None
    if nodes is None:
        return
    if not records.has(system=ALONE):
        report("representatives of known centers")
        centers = probi.solve(nodes, K_COVERTYPE, random_state=0).centers
        found, measured = timed(lambda: probi.representatives(_fresh(nodes), centers), 1 + RUNS)
        records.add(system=ALONE, cost=found.total_cost, **measured)
    for system in wanted:
        report(f"representatives: {system.name}")
        runs = 1 if system is MEDOIDS else RUNS
        made = peers.run_peer(system, nodes, K_COVERTYPE, max_seconds=3600, runs=runs)
        cost = float(np.mean([probi.expected_cost(nodes, np.array(some)) for some in made["centers"]]))
        records.add(system=system.name, cost=cost, **made)


def _fresh(nodes: probi.Nodes) -> probi.Nodes:
    """The same nodes without what was computed of them."""
    return probi.Nodes(nodes.points, nodes.probabilities, nodes.offsets, nodes.weights)


def timed(run: Callable[[], Any], n_runs: int) -> tuple[Any, dict[str, float]]:
    """What a function returns, and the least times of several runs, on the clock and of all processors."""
    times = []
    for _ in range(n_runs):
        start, cpu_start = time.perf_counter(), time.process_time()
        found = run()
        times.append((time.perf_counter() - start, time.process_time() - cpu_start))
    return found, dict(zip(TIMES, np.min(times, axis=0).tolist(), strict=True))


# -- memberships ------------------------------------------------------------------------------------------------------

N_INSTANCES, N_DRAWN = 1000, 10_000
# Two tests, of which correct memberships fail each with this probability: the p-values of all instances are uniform
# (Kolmogorov and Smirnov), and the least of them is not below this level divided by their number.
LEVEL = 1e-3


def draw_memberships(records: Records, report: Any) -> None:
    """Chi-squared test of memberships against drawn worlds, one for each instance."""
    wanted = [number for number in range(N_INSTANCES) if not records.has(instance=number)]
    if wanted:
        report(f"memberships: {len(wanted)} instances")
    for number in wanted:
        rng = np.random.default_rng([20, number])
        nodes, centers = random_instance(rng)
        statistic, df = compared(nodes, centers, probi.memberships(nodes, centers), rng)
        p_value = float(stats.chi2.sf(statistic, df)) if df else 1.0
        shape = {"n_nodes": len(nodes), "d": nodes.n_features, "k": len(centers)}
        records.add(instance=number, **shape, chi_squared=statistic, df=df, p_value=p_value)


def random_instance(rng: np.random.Generator) -> tuple[probi.Nodes, np.ndarray]:
    """Some nodes, which may be absent, and centers among them."""
    n, d, k = rng.integers(1, 6), int(rng.choice([1, 2, 3, 8, 30])), int(rng.choice([2, 3, 5, 12, 40]))
    sizes = rng.integers(1, 40, n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    points = rng.normal(size=(offsets[-1], d)) * rng.choice([0.1, 1.0, 5.0]) + np.repeat(
        rng.normal(size=(n, d)) * 2, sizes, axis=0
    )
    probabilities = np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])
    probabilities *= np.repeat(rng.choice([1.0, 0.3], n), sizes)
    return probi.Nodes(points, probabilities, offsets), rng.normal(size=(k, d)) * 2


def compared(
    nodes: probi.Nodes, centers: np.ndarray, members: np.ndarray, rng: np.random.Generator
) -> tuple[float, int]:
    """Chi-squared statistic of drawn worlds, in which a node is present, and its degrees of freedom."""
    statistic, df = 0.0, 0
    for i, (start, stop) in enumerate(itertools.pairwise(nodes.offsets.tolist())):
        points, probabilities = nodes.points[start:stop], nodes.probabilities[start:stop]
        nearest = np.linalg.norm(points[:, None] - centers, axis=2).argmin(axis=1)
        drawn = rng.choice(len(points), N_DRAWN, p=probabilities / probabilities.sum())
        counts = np.bincount(nearest[drawn], minlength=len(centers))
        expected = N_DRAWN * members[i]
        if counts[members[i] == 0.0].any():
            return np.inf, 1
        few = expected < 5.0  # together, as usual
        counts, expected = np.append(counts[~few], counts[few].sum()), np.append(expected[~few], expected[few].sum())
        if expected[-1] < 5.0:  # too rare for this test
            counts, expected = counts[:-1], expected[:-1]
        statistic += float(((counts - expected) ** 2 / expected).sum())
        df += len(counts) - 1
    return statistic, df


# -- possible worlds --------------------------------------------------------------------------------------------------

K_BEIJING, N_WORLDS = 10, 100


def solve_worlds(data: Path, records: Records, report: Any) -> None:
    """Times of a solve and of worlds on all of Beijing's days; and of ELKI on days with all readings, as it needs."""
    names = ("solve", "worlds", "worlds and centers", "worlds, full days", "ELKI, full days")
    if all(records.has(system=name) for name in names):
        return
    nodes = beijing_nodes(data)
    if nodes is None:
        return
    full = nodes.take(np.flatnonzero(np.diff(nodes.offsets) == 24))
    for name, some in (("worlds", nodes), ("worlds, full days", full)):
        report(f"{name}")
        centers = probi.solve(some, K_BEIJING, random_state=0).centers

        def solve(some: probi.Nodes = some) -> Any:
            return probi.solve(_fresh(some), K_BEIJING, random_state=0)

        def draw(some: probi.Nodes = some, centers: Any = centers) -> Any:
            return probi.stability(_fresh(some), K_BEIJING, N_WORLDS, 0, centers=centers)

        def find_and_draw(some: probi.Nodes = some) -> Any:
            return probi.stability(_fresh(some), K_BEIJING, N_WORLDS, 0)

        # One after the other, so that all have the same load beside them.
        rounds = [[timed(run, 1)[1] for run in (solve, draw, find_and_draw)] for _ in range(1 + RUNS)]
        for key, number in (("solve", 0), (name, 1), ("worlds and centers", 2)):
            if not records.has(system=key):
                best = {unit: min(both[number][unit] for both in rounds) for unit in TIMES}
                records.add(system=key, n_nodes=len(some), **best)
    if not records.has(system=names[-1]):
        report("ELKI's representative clustering")
        try:
            measured = elki.representative_clusterings(full.points.reshape(len(full), 24, -1), K_BEIJING, N_WORLDS, 0)
        except peers.FAILURES as error:
            report(f"ELKI failed: {peers.reason(error)}")
            return
        records.add(system=names[-1], n_nodes=len(full), **measured)


# -- the number of clusters -------------------------------------------------------------------------------------------


NUMBERS = ("group", "n_true", "recommended", "overlap", "agreement")


def choose(records: Records, n_seeds: int, report: Any) -> None:
    """Recommended numbers on generated data: ten kinds, and settings drawn at random."""
    for (group, kind, seed), make in generated.all_kinds(n_seeds):
        if records.has(kind=kind, seed=seed):
            continue
        report(f"number of clusters: {kind}, {seed}")
        nodes, n_true = make()
        choice = probi.choose_k(nodes, range(2, 19), n_worlds=1, random_state=seed)
        overlap = choice.overlap[n_true - 2] if n_true else np.nanmin(choice.overlap)
        records.add(
            kind=kind, seed=seed, group=group, n_true=n_true, recommended=choice.recommended or 0,
            overlap=float(overlap), agreement=_agreement(nodes, n_true, choice),
        )  # fmt: skip


def _agreement(nodes: probi.Nodes, n_true: int, choice: probi.KChoice) -> float | None:
    """Adjusted Rand index of the groups that nodes come from and the clusters found with the true number."""
    if not n_true or nodes.ids is None:
        return None
    return float(adjusted_rand_score(nodes.ids, choice.results[n_true - 2].labels))


# -- outliers ---------------------------------------------------------------------------------------------------------

SHARE = 0.02


def trim(records: Records, n_seeds: int, report: Any) -> None:
    """Recall and precision of planted outliers, in memory and from a summary."""
    for planted, source, seed in itertools.product(
        generated.PLANTED, ("points", "nodes", "summary"), range(2 * n_seeds)
    ):
        if records.has(planted=planted, source=source, seed=seed):
            continue
        report(f"outliers: {planted}, {source}, {seed}")
        rng = np.random.default_rng([seed, len(planted)])
        n = 40_000 if source == "summary" else 5_000
        points, is_out = generated.with_outliers(planted, n, SHARE, rng)
        nodes = probi.Nodes.from_points(points)
        if source == "nodes":
            nodes = probi.Nodes.from_dense(points[:, None] + rng.normal(size=(n, 5, 2)))
        model = probi.PROBI if source == "summary" else probi.PLloyd
        found = model(generated.N_GROUPS, outliers=SHARE, random_state=seed)
        found = found.partial_fit(nodes) if source == "summary" else found.fit(nodes)
        left_out = found.predict(nodes) == -1
        recall, precision = float(left_out[is_out].mean()), float(is_out[left_out].mean())
        records.add(planted=planted, source=source, seed=seed, recall=recall, precision=precision)
