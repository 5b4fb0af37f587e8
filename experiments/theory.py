"""The coreset with a promise, measured: is it kept, what does it cost, and how near is the default to it?

Data sets are small enough for many seeds. Sets of centers: found on the coreset, drawn at random, and adversarial (all
far away, all on one point, all but one on one cluster).
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import probi
from benchmarks.data import beijing_nodes, random_nodes
from experiments.peers import otis_nodes
from experiments.records import Records
from probi.coreset import importance, lss, paper
from probi.coreset.lss import Guarantee, lss_coreset, make_buckets
from probi.medians import SPREAD_TOL, certified_medians, measured
from probi.solver.lloyd import p_lloyd
from probi.solver.seeding import seed_as_in_paper

K = 3
EPSILONS, DELTA, N_SEEDS = (0.5, 0.2, 0.1), 0.1, 50
PRECISIONS, N_RUNS = (0.9, 0.5, 0.2, 0.1), 1000
REALIZATIONS = (10**3, 10**4, 10**5, 10**6)
EQUAL_SEEDS = 10
STEPS_K = 20
METHODS = ("theory", "default", "paper", "uniform")
DENSE = (2000, 10_000, 10)  # nodes, realizations, dimensions
DENSE_K, MOST = 5, 32

AXES = {  # nodes, realizations, clusters
    "n": [(n, 10, 5) for n in (10**3, 3 * 10**3, 10**4, 3 * 10**4, 10**5)],
    "m": [(3000, m, 5) for m in (1, 3, 10, 30, 100, 300, 1000)],
    "k": [(10**4, 10, k) for k in (2, 4, 8, 16, 32)],
}

PROMISE = ("data_set", "epsilon", "seed"), ("n_nodes", "n_draws", "size", "worst", "seconds")
KUMAR = ("precision", "n_realizations"), ("runs", "kept", "mean", "microseconds", "table_seconds")
EQUAL = ("data_set", "size", "method", "seed"), ("worst",)
STEPS = ("method", "step"), ("seconds", "quality")
GROWTH = ("axis", "n", "m", "k"), ("seconds", "bound")
THINNED = (
    ("max_realizations",),
    ("pass_seconds", "solve_seconds", "cost", "stated", "error", "lower_bound", "certified"),
)


def run(data: Path, folder: Path, report: Callable[[str], None]) -> None:
    """Fill what is missing."""
    _thinned(Records(folder / "theory_thinning.csv", *THINNED), report)
    _kumar(Records(folder / "theory_kumar.csv", *KUMAR), report)
    _growth(Records(folder / "theory_growth.csv", *GROWTH), report)
    _promise(data, Records(folder / "theory_promise.csv", *PROMISE), report)
    _equal(data, Records(folder / "theory_equal.csv", *EQUAL), report)
    _steps(data, Records(folder / "theory_steps.csv", *STEPS), report)


def data_sets(data: Path) -> dict[str, probi.Nodes]:
    """Forecasts of a hurricane, air over Beijing, and points of which some are very far."""
    found = {"Otis": otis_nodes()}
    beijing = beijing_nodes(data)
    if beijing is not None:
        found["Beijing"] = beijing
    found["Tails"] = probi.Nodes.from_points(np.random.default_rng(0).normal(size=(100_000, 2)) ** 3)
    return found


def adversaries(nodes: probi.Nodes, k: int) -> Iterator[Any]:
    """Centers that nobody would choose, and some at random."""
    medians, _ = probi.one_medians(nodes, tol=1e-2)
    middle, far = np.median(medians, axis=0), 1000 * np.abs(medians - np.median(medians, axis=0)).max()
    yield np.repeat([middle + far], k, axis=0)
    yield np.repeat([medians[0]], k, axis=0)
    yield np.concatenate([np.repeat([middle], k - 1, axis=0), [middle + far]])
    rng = np.random.default_rng(0)
    for _ in range(3):
        yield np.asarray(medians[rng.choice(len(medians), k, replace=False)], float)


def _worst(coreset: probi.Nodes, nodes: probi.Nodes, fixed: list[tuple[Any, float]], seed: int) -> float:
    found = probi.solve(coreset, K, n_init=1, max_iter=10, random_state=seed).centers
    sets = [*fixed, (found, probi.expected_cost(nodes, found))]
    return max(abs(probi.expected_cost(coreset, centers) / cost - 1.0) for centers, cost in sets)


def _promise(data: Path, records: Records, report: Callable[[str], None]) -> None:
    for name, nodes in data_sets(data).items():
        report(f"is the promise kept: {name}, {len(nodes)} nodes")
        fixed = [(centers, probi.expected_cost(nodes, centers)) for centers in adversaries(nodes, K)]
        for epsilon in EPSILONS:
            for seed in range(N_SEEDS):
                if records.has(data_set=name, epsilon=epsilon, seed=seed):
                    continue
                start = time.perf_counter()
                coreset = _lss(nodes, epsilon, seed)
                seconds = time.perf_counter() - start
                *_, n_draws = make_buckets(nodes, K, Guarantee(epsilon, DELTA).step(), np.random.default_rng(seed))
                records.add(
                    data_set=name, epsilon=epsilon, seed=seed, n_nodes=len(nodes), n_draws=n_draws, size=len(coreset),
                    worst=_worst(coreset, nodes, fixed, seed), seconds=seconds,
                )  # fmt: skip


def _lss(nodes: probi.Nodes, epsilon: float, seed: int) -> probi.Nodes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", probi.SolverWarning)
        return lss_coreset(nodes, K, epsilon, DELTA, seed)


def _kumar(records: Records, report: Callable[[str], None]) -> None:
    rng = np.random.default_rng(0)
    for m in REALIZATIONS:
        node = probi.Nodes.from_dense(rng.exponential(size=(1, m, 5)) ** 2)
        best = probi.one_medians(node)[1][0]
        table_seconds, sums = _best(lambda node=node: paper.cumulative_probabilities(node))
        report(f"Kumar's median of {m} realizations")
        for precision in PRECISIONS:
            if records.has(precision=precision, n_realizations=m):
                continue
            n_repetitions = math.ceil(-math.log2(DELTA))
            index = np.zeros(N_RUNS, np.int64)  # the same node in every run
            seconds = math.inf
            for _ in range(3):
                start = time.perf_counter()
                places = paper.kumar_medians(node, index, np.random.default_rng(1), precision, n_repetitions, sums)
                seconds = min(seconds, time.perf_counter() - start)
            cost = np.concatenate([probi.expected_distances(node, y)[0] for y in np.array_split(places, 20)])
            records.add(
                precision=precision, n_realizations=m, runs=N_RUNS, kept=float((cost <= (1 + precision) * best).mean()),
                mean=float((cost / best).mean()), microseconds=1e6 * seconds / N_RUNS, table_seconds=table_seconds,
            )  # fmt: skip


def _equal(data: Path, records: Records, report: Callable[[str], None]) -> None:
    """The default, the paper's reduce and uniform draws at the sizes that the promise leads to."""
    for name, nodes in data_sets(data).items():
        fixed = [(centers, probi.expected_cost(nodes, centers)) for centers in adversaries(nodes, K)]
        for epsilon in EPSILONS[:2]:
            size = len(_lss(nodes, epsilon, 0))
            if size == len(nodes):
                continue
            report(f"coresets of {size} nodes: {name}")
            for seed in range(EQUAL_SEEDS):
                for method in METHODS:
                    if not records.has(data_set=name, size=size, method=method, seed=seed):
                        worst = _worst(_made(nodes, method, size, epsilon, seed), nodes, fixed, seed)
                        records.add(data_set=name, size=size, method=method, seed=seed, worst=worst)


def _made(nodes: probi.Nodes, method: str, size: int, epsilon: float, seed: int) -> probi.Nodes:
    """One reduce by one method."""
    rng = np.random.default_rng(seed)
    if method == "theory":
        return _lss(nodes, epsilon, seed)
    if method == "uniform":
        return _uniform(nodes, size, rng)
    return {"default": importance.reduce, "paper": paper.reduce}[method]([nodes], size, K, rng)


def _steps(data: Path, records: Records, report: Callable[[str], None]) -> None:
    """Steps of one reduce, in the three ways, one after the other: seconds (best of three), and how good they are."""
    nodes = beijing_nodes(data)
    if nodes is None or records.has(method="theory", step="all"):
        return
    report("steps of a reduce")
    guarantee = Guarantee(EPSILONS[0], DELTA)
    smallest = probi.one_medians(nodes)[1]

    def bare() -> probi.Nodes:
        return probi.Nodes(nodes.points, nodes.probabilities, nodes.offsets)

    def spread(spreads: Any) -> float:
        return float(spreads.sum() / smallest.sum())

    medians = {
        "theory": lambda: lss.approximate_medians(bare(), guarantee, np.random.default_rng(0))[1],
        "paper": lambda: paper._medians(bare(), np.random.default_rng(0))[1],
        "default": lambda: certified_medians(bare(), SPREAD_TOL)[1],
    }
    for method, compute in medians.items():
        seconds, spreads = _best(compute)
        records.add(method=method, step="medians", seconds=seconds, quality=spread(spreads))
    places = probi.Nodes.from_points(probi.one_medians(nodes)[0])
    best = probi.solve(places, STEPS_K, random_state=0).cost
    around = {
        "theory": lambda: lss.bicriteria_centers(places, STEPS_K, guarantee, np.random.default_rng(0)),
        "paper": lambda: p_lloyd(places, seed_as_in_paper(places, STEPS_K, np.random.default_rng(0)), paper.MAX_ITER)[
            0
        ],
    }
    for method, find in around.items():
        seconds, centers = _best(find)
        records.add(method=method, step="centers", seconds=seconds, quality=probi.expected_cost(places, centers) / best)
    rows, n_columns = importance._rows([measured(bare())])
    seconds, (leaves, cell_of, *_) = _best(
        lambda: importance._cells(
            rows,
            nodes.mass,
            n_columns,
            200 * STEPS_K,
            importance.CELLS_PER_CLUSTER * STEPS_K,
            np.random.default_rng(0),
        )
    )
    cells = cell_of[leaves]
    alone = [places.take(np.flatnonzero(cells == cell)) for cell in range(cells.max() + 1)]
    in_cells = sum(probi.expected_cost(part, probi.one_medians(_as_one(part))[0]) for part in alone)
    records.add(method="default", step="centers", seconds=seconds, quality=in_cells / best)
    fixed = [(centers, probi.expected_cost(nodes, centers)) for centers in adversaries(nodes, K)]
    for method in ("theory", "paper", "default"):
        size = len(_lss(nodes, EPSILONS[0], 0)) if method == "theory" else 200 * STEPS_K
        seconds, made = _best(lambda method=method, size=size: _made(bare(), method, size, EPSILONS[0], 0))
        records.add(method=method, step="all", seconds=seconds, quality=_worst(made, nodes, fixed, 0))
        records.add(method=method, step="size", seconds=0.0, quality=len(made))


def _as_one(places: probi.Nodes) -> probi.Nodes:
    """All places as one node."""
    return probi.Nodes.from_dense(places.points[None])


def _best(compute: Callable[[], Any]) -> tuple[float, Any]:
    seconds, found = math.inf, None
    for _ in range(3):
        start = time.perf_counter()
        found = compute()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, found


def _uniform(nodes: probi.Nodes, size: int, rng: np.random.Generator) -> probi.Nodes:
    chosen = nodes.take(np.sort(rng.choice(len(nodes), size, replace=False)))
    return chosen.with_weights(chosen.weights * (len(nodes) / size))


def _growth(records: Records, report: Callable[[str], None]) -> None:
    """Time of Algorithm 1 beside the paper's bound, k n m log(n / delta) log log(W / (w_min p_min epsilon))."""
    epsilon = 0.5
    for axis, cases in AXES.items():
        report(f"growth of Algorithm 1 over {axis}")
        for n, m, k in cases:
            if records.has(axis=axis, n=n, m=m, k=k):
                continue
            nodes = random_nodes(n, m, 5)
            seconds = math.inf
            for seed in range(3):
                start = time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", probi.SolverWarning)
                    lss_coreset(nodes, k, epsilon, DELTA, seed)
                seconds = min(seconds, time.perf_counter() - start)
            least = float(nodes.weights.min()) * float(nodes.probabilities.min())
            scale = float(nodes.mass.sum()) / (least * epsilon)
            bound = k * n * m * math.log(n / DELTA) * math.log(math.log(scale))
            records.add(axis=axis, n=n, m=m, k=k, seconds=seconds, bound=bound)


def _thinned(records: Records, report: Callable[[str], None]) -> None:
    """A stream of dense nodes with and without thinning: the pass, the solution, and what it costs on all."""
    wanted = [most for most in (MOST, 0) if not records.has(max_realizations=most)]
    if not wanted:
        return
    n, m, d = DENSE
    report(f"dense nodes: {n} x {m} x {d}")
    rng = np.random.default_rng(0)
    middles = 6.0 * rng.normal(size=(DENSE_K, d))
    X = np.empty((n, m, d))
    for i in range(n):
        X[i] = middles[i % DENSE_K] + rng.normal(size=d) + rng.uniform(0.5, 2.0) * rng.normal(size=(m, d))
    nodes = probi.Nodes.from_dense(X)
    del X
    _dense_pass(nodes[:50], MOST)  # loads the compiled code
    _dense_pass(nodes[:50], 0)
    for most in wanted:
        best: dict[str, Any] = {}
        for _ in range(3):
            found = _dense_pass(nodes, most)
            if not best or found["pass_seconds"] < best["pass_seconds"]:
                best = found
        result, summary = best.pop("result"), best.pop("summary")
        cost = probi.expected_cost(nodes, result.centers)
        records.add(
            max_realizations=most, **best, cost=cost, stated=result.cost, error=result.standard_error,
            lower_bound=result.lower_bound, certified=summary.thinning_bound,
        )  # fmt: skip


def _dense_pass(nodes: probi.Nodes, most: int) -> dict[str, Any]:
    """Read in batches of 100, make the coreset, solve."""
    start = time.perf_counter()
    summary = probi.Summary(DENSE_K, size=200, random_state=0, max_realizations=most or None)
    for first in range(0, len(nodes), 100):
        # As if it had just been read: what is known of it from an earlier run does not count.
        summary.update(probi.Nodes._trusted(**nodes[first : first + 100]._parts() | {"statistics": {}}))
    summary.coreset()
    between = time.perf_counter()
    result = probi.solve(summary, DENSE_K, random_state=0)
    end = time.perf_counter()
    return {"pass_seconds": between - start, "solve_seconds": end - between, "result": result, "summary": summary}
