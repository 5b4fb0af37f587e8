"""Solve the probabilistic k-median problem in memory."""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from probi._notes import rounded
from probi._types import Floats
from probi.errors import InputError, SolverWarning
from probi.nodes import Nodes, as_nodes
from probi.objective import expected_cost
from probi.solver.lloyd import p_lloyd
from probi.solver.local_search import (
    MANY,
    QUICK,
    SAMPLE_PER_CLUSTER,
    THOROUGH,
    LocalEffort,
    improve_locally,
    sample,
    start_locally,
)
from probi.solver.on_nodes import Candidate, best_on_nodes, refine
from probi.solver.options import OnRound, Progress, SolveOptions
from probi.solver.problem import ALL_ZERO, Problem
from probi.solver.realizations import NodeSwaps, are_near_medians
from probi.solver.result import Evaluation, Result, make_result, without_outliers
from probi.solver.search import Searches, is_small
from probi.solver.seeding import seed_as_in_paper
from probi.solver.trimmed import solve_trimmed
from probi.validation import check_mass, generator

# The coreset's own error, as a share of the cost, is about this divided by the root of its nodes per cluster: 1 % with
# 200 of them, where the largest in all runs of docs/results was 0.7 %. Its cost and the estimate contradict each other
# if they differ by more than this many standard errors.
CORESET_ERROR, CONTRADICTION = 0.14, 4.0

# Starts are compared long before they converge: the last per mille gains all of them about the same.
START_TOL = 1e-3

# Starts that are made together, at most.
TOGETHER = 16

# With no more coordinates than this, starts that are nearly as good as the best are finished on the nodes too, and
# others are drawn among realizations.
MAX_TINY = 1 << 17

# Whether swaps among realizations may gain is first looked at on so many nodes per cluster.
NODES_FOR_GATE = 50

# Share of the cost by which the surrogate may err in the comparison of two sets of centers, and by which those differ
# that are not the same.
SURROGATE_ERROR, SAME_TOL = 1e-2, 1e-4


class Effort(NamedTuple):
    """How long swaps are tried: on how many of the best starts, for which gain, and how many may fail in a row.

    ``n_trials`` are tried at once on all nodes, after others on a sample of them. ``local`` says the same for many
    clusters.
    """

    n_swapped: int
    min_gain: float
    patience: int
    n_trials: int
    local: LocalEffort

    @classmethod
    def for_nodes(cls, n_clusters: int) -> Effort:
        """All effort that pays off.

        On Covertype swaps lead two starts to one solution: more starts gain little, one alone is at times 0.3 % above
        the best known cost. Twice the patience took half as long again and gained nothing.
        """
        return cls(n_swapped=2, min_gain=1e-5, patience=6 + n_clusters // 4, n_trials=8, local=THOROUGH)

    @classmethod
    def for_coreset(cls, n_clusters: int) -> Effort:
        """Less: the coreset's own error, some 0.3 % of the cost, hides the last tenths of a per mille."""
        return cls(n_swapped=1, min_gain=1e-4, patience=3 + n_clusters // 8, n_trials=4, local=QUICK)


@runtime_checkable
class Summarized(Protocol):
    """A coreset and an estimate for all data behind it: the part of :class:`probi.Summary` that is used here."""

    @property
    def n_clusters(self) -> int:
        """Largest number of clusters it is made for."""

    @property
    def _solver_preset(self) -> str:
        """Preset of the solver that belongs to it."""

    @property
    def _is_whole(self) -> bool:
        """Whether the coreset is all the data."""

    def coreset(self) -> Nodes:
        """Nodes to solve."""

    def evaluate(self, centers: ArrayLike, outlier_distance: float = math.inf) -> Evaluation:
        """Estimate the cost of centers on all the data, without outliers."""


def solve(
    source: Nodes | Summarized | ArrayLike,
    n_clusters: int,
    n_init: int | None = None,
    preset: str | None = None,
    init: ArrayLike | None = None,
    max_iter: int | None = None,
    tol: float = 1e-4,
    random_state: Any = None,
    verbose: int = 0,
    on_progress: Callable[..., None] | None = None,
    outliers: float | None = None,
    outlier_distance: float | None = None,
) -> Result:
    """Find centers with a small expected cost.

    Parameters
    ----------
    source : Nodes, Summary or array-like
        What is clustered: data in memory, or what is kept of a stream. Rows of an array of shape (n, n_features) are
        certain nodes; (n, m, n_features) are nodes with m equally likely realizations each; a list of arrays of shape
        (m, n_features) has a node in each.
    n_clusters : int
        Number of centers; for a summary at most the number it was made for.
    n_init : int, default=None
        Starts, of which the best is taken further. None: 10, but 1 for 32 clusters and more, where swaps gain more than
        starts, and 1 with ``preset="paper"``.
    preset : {"default", "paper"}, default=None
        "paper" is P-LLOYD++ as in section 4.4 of the paper. The default tries starts on the nodes' medians, improves
        the best ones by swaps of centers, and finishes on the nodes themselves. None: that of the summary.
    init : array-like of shape (n_clusters, n_features), default=None
        Centers to start from, instead of drawn ones. They keep their order and are not swapped.
    max_iter : int, default=None
        Maximum number of rounds on the nodes. None: 100, and 10 with ``preset="paper"``.
    tol : float, default=1e-4
        The default preset stops when a round lowers the cost by less than this share of it; three times this share for
        32 and more clusters of a summary, whose own error is larger.
    random_state : None, int, Generator or RandomState
        The same seed gives the same bits, whatever the number of threads.
    verbose : int, default=0
        1 prints a line for each start, 2 for each round too.
    on_progress : callable, default=None
        Called with what the solver has just done, often: an object that prints as a line.
    outliers : float, default=None
        Share of the mass, such as 0.02, that is left out: at most so much, of the nodes whose expected distance to the
        nearest center exceeds their own spread most. They get the label -1, and centers and costs are those of the
        others (trimmed k-median).
    outlier_distance : float, default=None
        Instead of a share: nodes are left out if their expected distance to the nearest center exceeds their own spread
        by more than this.

    Returns
    -------
    Result
        Centers, their cost with its standard error, labels, and the clusters.

    Warns
    -----
    SolverWarning
        If clusters stay empty, because nodes are equal or nearly so; or if the estimated cost and the coreset's own
        cost disagree by more than four standard errors.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes.from_dense([[[0.0], [1.0]], [[0.5], [1.5]], [[9.0], [9.5]]])
    >>> result = probi.solve(nodes, n_clusters=2, random_state=0)
    >>> result.labels
    array([0, 0, 1], dtype=int32)
    >>> result.cost
    1.25
    """
    progress = Progress(on_progress, verbose)
    result = solve_quietly(
        source,
        SolveOptions(
            n_clusters, n_init, preset, init, max_iter, tol, random_state, progress, outliers, outlier_distance
        ),
    )
    if result.n_distinct < n_clusters:
        warnings.warn(few_distinct(result), SolverWarning, stacklevel=2)
    if contradictory(result):
        warnings.warn(contradiction(result), SolverWarning, stacklevel=2)
    return result


def contradictory(result: Result) -> bool:
    """Whether the estimate of the cost and the coreset's own cost differ by more than their errors explain."""
    if result.standard_error == 0.0:
        return False
    nodes_per_cluster = float(result.clusters.count.sum()) / len(result.centers)
    error = math.hypot(result.standard_error, CORESET_ERROR / math.sqrt(nodes_per_cluster) * result.coreset_cost)
    return abs(result.cost - result.coreset_cost) > CONTRADICTION * error


def contradiction(result: Result) -> str:
    """Warning for that case; the estimators issue it in scikit-learn's class."""
    return (
        f"The estimated cost, {result.cost:.6g} ± {rounded(result.standard_error):g}, and the cost of the coreset, "
        f"{result.coreset_cost:.6g}, disagree: a few nodes may carry most of the cost. Compute the cost on all "
        "the data with probi.expected_cost, or make a larger summary."
    )


def few_distinct(result: Result) -> str:
    """Warning about empty clusters; the estimators issue it in scikit-learn's class."""
    k = len(result.centers)
    return (
        f"Only {result.n_distinct} of {k} clusters have a node. The nodes are equal, or differ by so little compared "
        'to their spread that more centers gain nothing; or, with preset="paper", a center lost all of its nodes.'
    )


def solve_quietly(source: Nodes | Summarized | ArrayLike, options: SolveOptions) -> Result:
    """Solve without a warning."""
    if isinstance(source, Summarized):
        return _solve_summary(source, options)
    return _solve_in_memory(as_nodes(source), options, Effort.for_nodes)


def _solve_in_memory(nodes: Nodes, options: SolveOptions, effort: Callable[[int], Effort]) -> Result:
    """Solve nodes, with or without outliers."""

    def solve_nodes(nodes: Nodes, options: SolveOptions) -> Result:
        return _solve_nodes(nodes, options, effort(options.n_clusters))

    return solve_trimmed(nodes, options, solve_nodes) if options.leaves_out else solve_nodes(nodes, options)


def _solve_summary(summary: Summarized, options: SolveOptions) -> Result:
    """Solve the coreset, and evaluate the centers by the audit sample."""
    n_clusters = options.n_clusters
    if n_clusters > summary.n_clusters:
        raise InputError(
            f"n_clusters is {n_clusters}, but the summary was made for up to {summary.n_clusters}. Make one for more."
        )
    options = replace(options, preset=options.preset or summary._solver_preset)
    result = _solve_in_memory(summary.coreset(), options, Effort.for_coreset)
    summary = copy.copy(summary)  # which may read more nodes
    known = summary.evaluate(result.centers, result.outlier_distance)
    return replace(
        result,
        cost=known.cost,
        standard_error=known.standard_error,
        spread_cost=known.spread_cost,
        lower_bound=known.lower_bound,
        thinning_bound=known.thinning_bound,
        labels=None,
    ).of_source(without_outliers(summary, result))


def _solve_nodes(nodes: Nodes, options: SolveOptions, effort: Effort) -> Result:
    preset = "default" if options.preset is None else options.preset
    if options.n_clusters > len(nodes):
        raise InputError(
            f"n_clusters={options.n_clusters} is more than n_samples={len(nodes)}, the nodes there are. Ask for fewer."
        )
    if preset not in PRESETS:
        raise InputError(f"preset is {preset!r}, but must be one of {', '.join(PRESETS)}.")
    if not nodes.mass.any():
        raise InputError(ALL_ZERO)
    check_mass(float(nodes.mass.sum()), nodes.magnitude)
    init = options.initial_centers(nodes)
    chosen = PRESETS[preset]
    n_init = options.n_init or (chosen.n_init if options.n_clusters < MANY else 1)
    n_init = 1 if init is not None else n_init
    start = Start(options.n_clusters, n_init, init, options.max_iter or chosen.max_iter, options.tol)
    best = chosen.run(nodes, start, effort, generator(options.random_state), options.progress)
    return make_result(nodes, best.centers, best.n_rounds, init is not None, best.assignment)


class Start(NamedTuple):
    """Parameters of a solver's preset, with all defaults filled in."""

    n_clusters: int
    n_init: int
    init: Floats | None
    max_iter: int
    tol: float


def _solve(nodes: Nodes, parameters: Start, effort: Effort, rng: np.random.Generator, progress: Progress) -> Candidate:
    """Starts on the nodes' medians, swaps of centers, and last rounds on the nodes themselves."""
    problem = Problem.of(nodes)
    n_clusters, _, init, max_iter, tol = parameters
    on_round = progress.rounds("nodes")
    if init is not None:
        best = refine(problem, init, max_iter, tol, on_round)
    else:
        lifted, back = problem.lifted().in_span()
        search = _search_locally if n_clusters >= MANY and not is_small(lifted, n_clusters) else _search
        best, others = search(lifted, parameters, effort, rng, progress)
        best, others = best._replace(centers=back(best.centers)), [back(centers) for centers in others]
        if not nodes.is_certain or best.n_rounds == 0:
            centers = [best.centers, *others]
            best = best_on_nodes(problem, centers[: None if _is_tiny(nodes) else 1], max_iter, tol, on_round)
        if not nodes.is_certain:
            best = _from_realizations(problem, best, parameters, effort, rng, on_round)
    progress.finish("nodes", 1, 1, best.n_rounds, best.cost)
    return best


def _search(
    lifted: Problem, parameters: Start, effort: Effort, rng: np.random.Generator, progress: Progress
) -> tuple[Candidate, list[Floats]]:
    """Try starts, and improve the best ones by swaps; the best of all, and starts that are nearly as good.

    If only some features were looked at, no rounds are counted: the last ones are still to be made.
    """
    n_clusters, n_init, _, max_iter, tol = parameters
    search, on_all, features, origin = Searches.of(lifted, n_clusters, rng)
    tried: list[Candidate] = []
    while len(tried) < n_init:
        numbers = range(len(tried), min(len(tried) + TOGETHER, n_init))
        on_rounds = [progress.rounds("start", i + 1, n_init) for i in numbers]
        for on_round in on_rounds:
            on_round(0, np.inf)
        descent = search.descend(search.seeds(len(numbers), n_clusters, rng), max_iter, START_TOL, on_rounds)
        for i, centers, cost, n_rounds in zip(numbers, *descent, strict=True):
            tried.append(Candidate(float(cost), i, centers, int(n_rounds)))
            progress.finish("start", i + 1, n_init, int(n_rounds), float(cost))
    better: list[Candidate] = []
    for start in _distinct(tried, START_TOL)[: effort.n_swapped]:
        on_swap = progress.rounds("swaps", start.start + 1, n_init)
        # Two failures in a row: swaps on a sample are cheap.
        patience = effort.patience if search is on_all else 2 * effort.patience
        centers, cost, n_tried = search.improve(start.centers, effort.min_gain, patience, rng, on_swap)
        if search is not on_all:
            centers = on_all.descend(centers[None], max_iter, START_TOL).centers[0]
            centers, cost, n_more = on_all.improve(
                centers, effort.min_gain, effort.patience, rng, on_swap, effort.n_trials
            )
            n_tried += n_more
        progress.finish("swaps", start.start + 1, n_init, n_tried, cost)
        better.append(Candidate(cost, start.start, centers, start.n_rounds))
    best = min(better, key=lambda candidate: candidate[:2])
    last = on_all.descend(best.centers[None], max_iter, tol, [progress.rounds("nodes")])
    cost, n_rounds = float(last.costs[0]), int(last.n_rounds[0])
    if features is not None:
        settled = on_all.settled(last.centers[0])
        centers = lifted.widened(last.centers[0] + origin, features, settled.labels, settled.nearest)
        return Candidate(cost, best.start, centers, 0), []
    lowest, *rest = _distinct(tried, SAME_TOL)
    others = [start.centers + origin for start in rest if start.cost <= (1.0 + SURROGATE_ERROR) * lowest.cost]
    return Candidate(cost, best.start, last.centers[0] + origin, n_rounds), others


def _distinct(starts: list[Candidate], tol: float) -> list[Candidate]:
    """Starts by increasing cost, without those that agree with the one before: they led to the same centers."""
    ordered = sorted(starts, key=lambda candidate: candidate[:2])
    pairs = itertools.pairwise(ordered)
    return ordered[:1] + [start for before, start in pairs if start.cost - before.cost > tol * before.cost]


def _search_locally(
    lifted: Problem, parameters: Start, effort: Effort, rng: np.random.Generator, progress: Progress
) -> tuple[Candidate, list[Floats]]:
    """Try starts on a sample of the nodes, and improve the best one; each swap looks only at nodes around it."""
    n_clusters, n_init, _, max_iter, tol = parameters
    seeds = [int(rng.integers(2**63)) for _ in range(n_init)]
    sampled = sample(lifted, SAMPLE_PER_CLUSTER * n_clusters, rng)

    def start(i: int) -> Candidate:
        on_swap, on_round = (progress.rounds(what, i + 1, n_init) for what in ("swaps", "start"))
        tried = start_locally(sampled, n_clusters, np.random.default_rng(seeds[i]), max_iter, on_swap, on_round)
        progress.finish("start", i + 1, n_init, tried.n_rounds, tried.cost)
        return Candidate(tried.cost, i, tried.centers, tried.n_rounds)

    best = min(map(start, range(n_init)), key=lambda candidate: candidate[:2])
    on_swap, on_round = progress.rounds("swaps", best.start + 1, n_init), progress.rounds("nodes")
    better = improve_locally(lifted, best.centers, rng, max_iter, tol, effort.local, on_swap, on_round)
    progress.finish("swaps", best.start + 1, n_init, better.n_swaps, better.cost)
    return Candidate(better.cost, best.start, better.centers, better.n_rounds), []


def _from_realizations(
    problem: Problem, known: Candidate, parameters: Start, effort: Effort, rng: np.random.Generator, on_round: OnRound
) -> Candidate:
    """Improve known centers by starts and swaps among realizations, if possible.

    Where nodes have distant realizations, a good center may lie far from all medians, at a point that many nodes may
    take. Large problems skip the starts. Swaps are tried if one of the first candidates is a gain.
    """
    n_clusters, n_init, _, max_iter, tol = parameters
    best = known
    if _is_tiny(problem.nodes) and not are_near_medians(problem, rng):
        seeds = [int(rng.integers(2**63)) for _ in range(n_init)]
        starts = [seed_as_in_paper(problem.nodes, n_clusters, np.random.default_rng(seed)) for seed in seeds]
        other = best_on_nodes(problem, starts, max_iter, tol, on_round, known.cost)
        best = min(best, other, key=lambda candidate: candidate.cost)
    sampled = problem.every(len(problem.nodes) // (NODES_FOR_GATE * n_clusters))
    for nodes in (sampled, problem)[sampled is problem :]:
        search = NodeSwaps(nodes, best.centers, rng, effort.min_gain)
        if not search.gains_at_once():
            return best
    search.run(effort.patience, on_round)
    swapped = best_on_nodes(problem, [search.centers], max_iter, tol, on_round)
    return min(best, swapped, key=lambda candidate: candidate.cost)


def _is_tiny(nodes: Nodes) -> bool:
    return nodes.points.size <= MAX_TINY


def _solve_as_in_paper(
    nodes: Nodes, parameters: Start, effort: Effort, rng: np.random.Generator, progress: Progress
) -> Candidate:
    """P-LLOYD++ (section 4.4), which ignores ``effort``."""
    n_clusters, n_init, init, max_iter, _ = parameters
    candidates: list[Candidate] = []
    for start in range(n_init):
        stream = np.random.default_rng(rng.integers(2**63))
        centers = seed_as_in_paper(nodes, n_clusters, stream) if init is None else init
        centers, n_rounds = p_lloyd(nodes, centers, max_iter, progress.rounds("start", start + 1, n_init))
        cost = expected_cost(nodes, centers) if n_init > 1 or progress.has_listener else 0.0
        progress.finish("start", start + 1, n_init, n_rounds, cost)
        candidates.append(Candidate(cost, start, centers, n_rounds))
    return min(candidates, key=lambda candidate: candidate[:2])


class _Preset(NamedTuple):
    """Defaults of ``n_init`` and ``max_iter``, and the function to run."""

    n_init: int
    max_iter: int
    run: Callable[[Nodes, Start, Effort, np.random.Generator, Progress], Candidate]


PRESETS = {"default": _Preset(10, 100, _solve), "paper": _Preset(1, 10, _solve_as_in_paper)}
