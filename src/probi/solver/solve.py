"""Solve the probabilistic k-median problem in memory."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from probi._types import Floats
from probi.errors import InputError, SolverWarning
from probi.nodes import Nodes, as_nodes
from probi.objective import expected_cost
from probi.solver.lloyd import p_lloyd
from probi.solver.local_search import (
    HUNDREDS,
    MANY,
    QUICK,
    QUICKER,
    SAMPLE_PER_CLUSTER,
    THOROUGH,
    LocalEffort,
    improve_locally,
    sample,
    start_locally,
)
from probi.solver.on_nodes import Candidate, best_on_nodes, by_cost, distinct, nearly_as_good, refine
from probi.solver.options import OnProgress, OnRound, Progress, SolveOptions
from probi.solver.problem import ALL_ZERO, Problem
from probi.solver.realizations import NodeSwaps, are_near_medians
from probi.solver.result import Evaluation, Result, make_result, warnings_about, without_outliers
from probi.solver.search import START_TOL, Search, Searches, is_small
from probi.solver.seeding import seed_as_in_paper
from probi.solver.several import is_for_several, search_several
from probi.solver.trimmed import solve_trimmed
from probi.validation import check_mass, generator

# Maximum number of starts that run side by side.
MAX_STARTS_AT_ONCE = 16

# With no more coordinates than this, starts that are nearly as good as the best are finished on the nodes too, and
# others are drawn among realizations.
MAX_TINY = 1 << 17

# Nodes per cluster of the sample on which swaps among realizations are tried first: if none gains there, they end.
NODES_PER_CLUSTER_IN_TRIAL = 50

# Starts, and fewer of them for SEVERAL clusters of a summary, where swaps gain more: the second half of ten starts took
# a fifth to a third of the time, and changed mean costs of five data sets by -0.14 to 0.12 %.
N_STARTS, FEWER_STARTS, SEVERAL = 10, 5, 16


class Effort(NamedTuple):
    """How many starts to try, and how long swaps of centers."""

    n_starts: int
    n_swapped: int  # best starts that are improved by swaps
    min_gain: float  # share of the cost that a swap must gain
    patience: int  # swaps that may fail in a row
    n_trials: int  # swaps tried at once on all nodes, after those on a sample
    local: LocalEffort  # the same for many clusters

    @classmethod
    def for_nodes(cls, n_clusters: int) -> Effort:
        """As much effort as pays off.

        On Covertype swaps lead two starts to the same solution. More starts gain little; a single one is sometimes
        0.3 % above the best known cost. Twice the patience took half as long again and gained nothing.
        """
        n_starts = N_STARTS if n_clusters < MANY else 1
        return cls(n_starts, n_swapped=2, min_gain=1e-5, patience=6 + n_clusters // 4, n_trials=8, local=THOROUGH)

    @classmethod
    def for_coreset(cls, n_clusters: int) -> Effort:
        """Less effort: gains below 0.01 % are lost in the coreset's own error, about 0.3 % of the cost."""
        local = QUICK if n_clusters < HUNDREDS else QUICKER
        n_starts = N_STARTS if n_clusters < SEVERAL else FEWER_STARTS if n_clusters < MANY else 1
        return cls(n_starts, n_swapped=1, min_gain=1e-4, patience=3 + n_clusters // 8, n_trials=4, local=local)


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
        Data in memory, or the summary of a stream. Rows of an array of shape (n, n_features) are certain nodes; an
        array of shape (n, m, n_features) has m equally likely realizations per node; a list of arrays of shape
        (m, n_features) has one array per node.
    n_clusters : int
        Number of centers; for a summary at most the number it was made for.
    n_init : int, default=None
        Number of starts, of which the best is refined. None: 10; with more clusters, where swaps gain more than starts,
        fewer: 5 from 16 clusters of a summary on, and 1 from 32 on. Also 1 with ``preset="paper"``.
    preset : {"default", "paper"}, default=None
        "paper" is P-LLOYD++ as in section 4.4 of the paper. The default tries starts on the nodes' medians, improves
        the best ones by swaps of centers, and finishes on the nodes themselves. None: that of the summary.
    init : array-like of shape (n_clusters, n_features), default=None
        Initial centers; they keep their order and are not swapped. None: centers are drawn.
    max_iter : int, default=None
        Maximum number of rounds on the nodes. None: 100, or 10 with ``preset="paper"``.
    tol : float, default=1e-4
        The default preset stops when a round lowers the cost by less than this share of it; three times this share for
        32 and more clusters of a summary, whose own error is larger, and five times for 256 and more.
    random_state : None, int, Generator or RandomState, default=None
        The same seed gives the same bits, for any number of threads.
    verbose : int, default=0
        1 prints a line per start, 2 also one per round.
    on_progress : callable, default=None
        Called often, with the step that the solver has just done: an object that prints as one line.
    outliers : float, default=None
        Maximum share of the mass to leave out, such as 0.02 (trimmed k-median): the nodes whose expected distance to
        the nearest center exceeds their own spread most. They get the label -1; centers and costs are those of the
        other nodes.
    outlier_distance : float, default=None
        Instead of a share: leave out nodes whose expected distance to the nearest center exceeds their own spread by
        more than this.

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
    return _warned(result)


def _warned(result: Result) -> Result:
    """The result, after warnings about it to the caller's caller."""
    for message in warnings_about(result):
        warnings.warn(message, SolverWarning, stacklevel=3)
    return result


def solve_quietly(source: Nodes | Summarized | ArrayLike, options: SolveOptions) -> Result:
    """Solve as :func:`solve` does, without warnings."""
    # Nodes are recognized first: to ask for a protocol takes long.
    if not isinstance(source, Nodes) and isinstance(source, Summarized):
        return _solve_summary(source, options)
    return _solve_in_memory(as_nodes(source), options, Effort.for_nodes)


def solve_several(source: Nodes | Summarized, options: Sequence[SolveOptions]) -> list[Result]:
    """Solve for several numbers of clusters, with options that differ in nothing else; few nodes are searched once."""
    shared: dict[str, Any] = _searched(source, options) if isinstance(source, Nodes) else {}
    return [solve_quietly(source, replace(one, shared=shared)) for one in options]


def solve_members(
    nodes: Nodes, n_clusters: int, verbose: int = 0, on_progress: OnProgress | None = None, **options: Any
) -> Result:
    """Solve as :func:`solve` does; few nodes by the search for several numbers of clusters.

    It takes a third of the time, once its kernel is compiled; :func:`solve` would rather have nothing to compile.
    """
    progress = Progress(on_progress, verbose)
    return _warned(solve_several(nodes, [SolveOptions(n_clusters, progress=progress, **options)])[0])


def _searched(nodes: Nodes, options: Sequence[SolveOptions]) -> dict[str, Any]:
    """What solutions for several numbers of clusters share: for few nodes, the centers to finish on the nodes."""
    ks, one = [each.n_clusters for each in options], options[0]
    if one.init is not None or one.preset not in (None, "default") or one.leaves_out:
        return {}
    n_init = one.n_init or N_STARTS
    _check(nodes, max(ks))
    lifted, from_span = Problem.of(nodes).lifted().in_span()
    shared = {"nodes": nodes, "span": (lifted, from_span)}
    if not is_for_several(lifted, max(ks), n_init):
        return shared
    efforts = [Effort.for_nodes(k) for k in ks]
    patience = [effort.patience for effort in efforts]
    found = search_several(
        lifted, ks, n_init, efforts[0].n_swapped, efforts[0].min_gain, patience,
        one.max_iter or PRESETS["default"].max_iter, one.tol, generator(one.random_state),
    )  # fmt: skip
    return {**shared, "found": found}


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
    # Not of a copy: the original keeps its audit sample for the next solution.
    evaluation = summary.evaluate(result.centers, result.outlier_distance)
    summary = copy.copy(summary)  # the result keeps it, and the caller may add nodes to the original
    return replace(
        result,
        cost=evaluation.cost,
        standard_error=evaluation.standard_error,
        spread_cost=evaluation.spread_cost,
        lower_bound=evaluation.lower_bound,
        thinning_bound=evaluation.thinning_bound,
        labels=None,
    ).of_source(without_outliers(summary, result))


def _solve_nodes(nodes: Nodes, options: SolveOptions, effort: Effort) -> Result:
    """Check the options, fill in the defaults of the preset and run it on all nodes."""
    preset = "default" if options.preset is None else options.preset
    _check(nodes, options.n_clusters)
    if preset not in PRESETS:
        raise InputError(f"preset is {preset!r}, but must be one of {', '.join(PRESETS)}.")
    init = options.initial_centers(nodes)
    chosen = PRESETS[preset]
    n_init = 1 if init is not None else options.n_init or chosen.n_init or effort.n_starts
    max_iter = options.max_iter or chosen.max_iter
    parameters = Parameters(options.n_clusters, n_init, init, max_iter, options.tol, options.shared)
    best = chosen.run(nodes, parameters, effort, generator(options.random_state), options.progress)
    return make_result(nodes, best.centers, best.n_rounds, init is not None, best.assignment)


def _check(nodes: Nodes, n_clusters: int) -> None:
    """Raise unless nodes can be solved for so many clusters."""
    if n_clusters > len(nodes):
        raise InputError(
            f"n_clusters={n_clusters} is more than n_samples={len(nodes)}, the number of nodes. Ask for fewer."
        )
    if not nodes.mass.any():
        raise InputError(ALL_ZERO)
    check_mass(float(nodes.mass.sum()), nodes.magnitude)


class Parameters(NamedTuple):
    """Parameters of a preset, with all defaults filled in."""

    n_clusters: int
    n_init: int
    init: Floats | None
    max_iter: int
    tol: float
    shared: dict[str, Any]


def _solve_by_default(
    nodes: Nodes, parameters: Parameters, effort: Effort, rng: np.random.Generator, progress: Progress
) -> Candidate:
    """Starts on the nodes' medians, swaps of centers, and last rounds on the nodes themselves."""
    problem = Problem.of(nodes)
    n_clusters, _, init, max_iter, tol, _ = parameters
    on_round = progress.rounds("nodes")
    if init is not None:
        best = refine(problem, init, max_iter, tol, on_round)
    else:
        if parameters.shared.get("nodes") is not nodes:
            parameters.shared.update(nodes=nodes, span=problem.lifted().in_span())
        lifted, from_span = parameters.shared["span"]
        if "found" in parameters.shared:
            best, others = parameters.shared["found"][n_clusters]
            progress.finish("start", best.start + 1, parameters.n_init, best.n_rounds, best.cost)
        else:
            search = _search_locally if n_clusters >= MANY and not is_small(lifted, n_clusters) else _search
            best, others = search(lifted, parameters, effort, rng, progress)
        best = best._replace(centers=from_span(best.centers))
        if not nodes.is_certain or best.n_rounds == 0:
            starts = [best.centers, *(from_span(centers) for centers in others if _is_tiny(nodes))]
            best = best_on_nodes(problem, starts, max_iter, tol, on_round)
        if not nodes.is_certain:
            best = _improve_by_realizations(problem, best, parameters, effort, rng, on_round)
    progress.finish("nodes", 1, 1, best.n_rounds, best.cost)
    return best


def _search(
    lifted: Problem, parameters: Parameters, effort: Effort, rng: np.random.Generator, progress: Progress
) -> tuple[Candidate, list[Floats]]:
    """Try starts, and improve the best ones by swaps; return the best of all, and starts that are nearly as good.

    If only some features were searched, ``n_rounds`` is 0: the last rounds, on all features, are still to be made.
    """
    searches = Searches.of(lifted, parameters.n_clusters, rng)
    on_all, features, origin = searches.on_all, searches.features, searches.origin
    tried = _try_starts(searches.on_sample, parameters, rng, progress)
    swapped = [
        _improve_by_swaps(searches, start, parameters, effort, rng, progress)
        for start in distinct(tried, START_TOL)[: effort.n_swapped]
    ]
    best = min(swapped, key=by_cost)
    last = on_all.descend(best.centers[None], parameters.max_iter, parameters.tol, [progress.rounds("nodes")])
    cost, n_rounds = float(last.costs[0]), int(last.n_rounds[0])
    if features is not None:
        settled = on_all.settled(last.centers[0])
        centers = lifted.widened(last.centers[0] + origin, features, settled.labels, settled.nearest)
        return Candidate(cost, best.start, centers, 0), []
    others = [start.centers + origin for start in nearly_as_good(tried)]
    return Candidate(cost, best.start, last.centers[0] + origin, n_rounds), others


def _try_starts(
    search: Search, parameters: Parameters, rng: np.random.Generator, progress: Progress
) -> list[Candidate]:
    """Draw centers and descend from them, some starts side by side."""
    n_clusters, n_init, _, max_iter, *_ = parameters
    tried: list[Candidate] = []
    while len(tried) < n_init:
        numbers = range(len(tried), min(len(tried) + MAX_STARTS_AT_ONCE, n_init))
        on_rounds = [progress.rounds("start", i + 1, n_init) for i in numbers]
        for on_round in on_rounds:
            on_round(0, np.inf)
        descent = search.descend(search.seeds(len(numbers), n_clusters, rng), max_iter, START_TOL, on_rounds)
        for i, centers, cost, n_rounds in zip(numbers, *descent, strict=True):
            tried.append(Candidate(float(cost), i, centers, int(n_rounds)))
            progress.finish("start", i + 1, n_init, int(n_rounds), float(cost))
    return tried


def _improve_by_swaps(
    searches: Searches,
    start: Candidate,
    parameters: Parameters,
    effort: Effort,
    rng: np.random.Generator,
    progress: Progress,
) -> Candidate:
    """Swap centers, on the sample first if there is one, then on all nodes."""
    on_sample, on_all, n_init = searches.on_sample, searches.on_all, parameters.n_init
    on_swap = progress.rounds("swaps", start.start + 1, n_init)
    # Twice the patience: swaps on a sample are cheap.
    patience = effort.patience if on_sample is on_all else 2 * effort.patience
    centers, cost, n_tried = on_sample.improve(start.centers, effort.min_gain, patience, rng, on_swap)
    if on_sample is not on_all:
        centers = on_all.descend(centers[None], parameters.max_iter, START_TOL).centers[0]
        centers, cost, n_more = on_all.improve(centers, effort.min_gain, effort.patience, rng, on_swap, effort.n_trials)
        n_tried += n_more
    progress.finish("swaps", start.start + 1, n_init, n_tried, cost)
    return Candidate(cost, start.start, centers, start.n_rounds)


def _search_locally(
    lifted: Problem, parameters: Parameters, effort: Effort, rng: np.random.Generator, progress: Progress
) -> tuple[Candidate, list[Floats]]:
    """Try starts on a sample of the nodes, and improve the best one by swaps that look only at nearby nodes.

    Unlike :func:`_search`, it returns no other starts.
    """
    n_clusters, n_init, _, max_iter, tol, _ = parameters
    seeds = [int(rng.integers(2**63)) for _ in range(n_init)]
    sampled = sample(lifted, SAMPLE_PER_CLUSTER * n_clusters, rng)

    def start(i: int) -> Candidate:
        on_swap, on_round = (progress.rounds(what, i + 1, n_init) for what in ("swaps", "start"))
        tried = start_locally(sampled, n_clusters, np.random.default_rng(seeds[i]), max_iter, on_swap, on_round)
        progress.finish("start", i + 1, n_init, tried.n_rounds, tried.cost)
        return Candidate(tried.cost, i, tried.centers, tried.n_rounds)

    best = min(map(start, range(n_init)), key=by_cost)
    on_swap, on_round = progress.rounds("swaps", best.start + 1, n_init), progress.rounds("nodes")
    better = improve_locally(lifted, best.centers, rng, max_iter, tol, effort.local, on_swap, on_round)
    progress.finish("swaps", best.start + 1, n_init, better.n_swaps, better.cost)
    return Candidate(better.cost, best.start, better.centers, better.n_rounds), []


def _improve_by_realizations(
    problem: Problem,
    known: Candidate,
    parameters: Parameters,
    effort: Effort,
    rng: np.random.Generator,
    on_round: OnRound,
) -> Candidate:
    """Improve known centers by starts and swaps among realizations, if possible.

    Where nodes have distant realizations, a good center may lie far from all medians, at a point that many nodes may
    take. Large problems skip the starts. Swaps continue only if one of the first candidates lowers the cost.
    """
    n_clusters, n_init, _, max_iter, tol, _ = parameters
    best = known
    if _is_tiny(problem.nodes) and not are_near_medians(problem, rng):
        seeds = [int(rng.integers(2**63)) for _ in range(n_init)]
        starts = [seed_as_in_paper(problem.nodes, n_clusters, np.random.default_rng(seed)) for seed in seeds]
        other = best_on_nodes(problem, starts, max_iter, tol, on_round, known.cost)
        best = min(best, other, key=lambda candidate: candidate.cost)
    sampled = problem.every(len(problem.nodes) // (NODES_PER_CLUSTER_IN_TRIAL * n_clusters))
    for part in [problem] if sampled is problem else [sampled, problem]:
        search = NodeSwaps(part, best.centers, rng, effort.min_gain)
        if not search.gains_at_once():
            return best
    search.run(effort.patience, on_round)
    swapped = best_on_nodes(problem, [search.centers], max_iter, tol, on_round)
    return min(best, swapped, key=lambda candidate: candidate.cost)


def _is_tiny(nodes: Nodes) -> bool:
    return nodes.points.size <= MAX_TINY


def _solve_as_in_paper(
    nodes: Nodes, parameters: Parameters, effort: Effort, rng: np.random.Generator, progress: Progress
) -> Candidate:
    """P-LLOYD++ (section 4.4), which ignores ``effort``."""
    n_clusters, n_init, init, max_iter, *_ = parameters
    candidates: list[Candidate] = []
    for start in range(n_init):
        stream = np.random.default_rng(rng.integers(2**63))
        centers = seed_as_in_paper(nodes, n_clusters, stream) if init is None else init
        centers, n_rounds = p_lloyd(nodes, centers, max_iter, progress.rounds("start", start + 1, n_init))
        cost = expected_cost(nodes, centers) if n_init > 1 or progress.has_listener else 0.0
        progress.finish("start", start + 1, n_init, n_rounds, cost)
        candidates.append(Candidate(cost, start, centers, n_rounds))
    return min(candidates, key=by_cost)


class _Preset(NamedTuple):
    """Defaults of ``n_init`` (None: by effort) and ``max_iter``, and the function to run."""

    n_init: int | None
    max_iter: int
    run: Callable[[Nodes, Parameters, Effort, np.random.Generator, Progress], Candidate]


PRESETS = {"default": _Preset(None, 100, _solve_by_default), "paper": _Preset(1, 10, _solve_as_in_paper)}
