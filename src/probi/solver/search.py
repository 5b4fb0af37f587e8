"""Search on certain nodes: many sets of centers at once, drawn, moved by rounds, and improved by swaps of one center.

:class:`Search` runs kernels on threads. :class:`SmallSearch` does the same in plain arrays: below some thousand
coordinates, calling kernels and threads takes longer than the arithmetic, and compiling them far longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from probi import _parallel
from probi._kernels import candidates as kernels
from probi._kernels.pull import COST, N_SCALARS, ON_POINT, RECIPROCAL, RELAXATION
from probi._types import Floats, Integers, Labels, Mask
from probi.solver.lloyd import MAX_LAG
from probi.solver.options import OnRound
from probi.solver.problem import Problem, draw, weiszfeld_moves

# Coordinates of all nodes times the number of centers, at most, of a small problem. Kernels are faster for more.
MAX_SMALL = 1 << 13

# Tasks per set of centers, at least, if there are nodes enough: a single set keeps all threads busy, too.
MIN_TASKS = 8

# Candidates drawn per center, of which the best is kept. Three starts with one each and one start with three
# cost about the same; the latter was ahead on all four data sets tried.
N_CANDIDATES = 3

# Candidates drawn for swaps, how many of the swaps are tried together, and for how many rounds: right after a swap the
# cost is nearly always higher (as FLS++ observes for k-means). More of each gained nothing.
N_DRAWN, N_TRIALS, N_ROUNDS = 32, 8, 4

# Starts look at a sample of this many nodes per cluster, and at least this many in all: of a coreset, at all nodes.
# With a quarter of them, solutions that differ by less than the sample's error were confused: costs rose by up to
# 0.3 %.
NODES_PER_CLUSTER, MIN_SAMPLE = 200, 2000


class Sets(NamedTuple):
    """Sets of centers (s, k, d), and the nodes in the clusters of each.

    ``labels``, ``nearest`` and ``other`` (s, n) are as in :class:`probi.objective.Assignment`; ``moves`` (s, k) is how
    far centers have moved since.
    """

    centers: Floats
    labels: Labels
    nearest: Floats
    other: Floats
    moves: Floats

    @classmethod
    def of(cls, centers: Floats, n_nodes: int) -> Self:
        """No node is in any cluster yet."""
        shape = len(centers), n_nodes
        return cls(
            centers.copy(), np.zeros(shape, np.int32), np.zeros(shape), np.full(shape, -np.inf),
            np.zeros(centers.shape[:2]),
        )  # fmt: skip


def seed(problem: Problem, n_clusters: int, rng: np.random.Generator) -> Floats:
    """First centers (k, d) for certain nodes, see :func:`seeds`."""
    return np.asarray(seeds(problem, 1, n_clusters, rng).centers[0])


def seeds(
    problem: Problem, n_starts: int, n_clusters: int, rng: np.random.Generator, n_candidates: int = N_CANDIDATES
) -> Sets:
    """Greedy D-sampling on certain nodes: draw by excess cost, keep the candidate that saves most.

    First centers of several starts. The first center of each is drawn by mass.
    """
    nodes = problem.nodes
    sets = Sets.of(np.empty((n_starts, n_clusters, nodes.n_features)), len(nodes))
    uniforms = np.zeros((n_starts, n_clusters, n_candidates))
    for start in uniforms:
        start[0, 0], start[1:] = rng.random(), rng.random((n_clusters - 1, n_candidates))
    _parallel.run(
        kernels.draw_seeds, _parallel.ranges(n_starts, 1), nodes.points, nodes.mass, problem.spreads, problem.medians,
        uniforms, *sets[:4],
    )  # fmt: skip
    return sets


class Descent(NamedTuple):
    """Several sets of centers after rounds, (s, k, d); of each, the cost before the last round, and the rounds."""

    centers: Floats
    costs: Floats
    n_rounds: Labels


class Search:
    """Certain nodes, and what is done with sets of centers for them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._mass = problem.nodes.mass
        self._pieces = problem.nodes.pieces(at_least=MIN_TASKS)

    def seeds(self, n_starts: int, n_clusters: int, rng: np.random.Generator) -> Sets:
        """First centers of several starts, see :func:`seeds`."""
        return seeds(self.problem, n_starts, n_clusters, rng)

    def descend(
        self, sets: Floats | Sets, max_iter: int, tol: float, on_rounds: Sequence[OnRound] = (), goal: float = np.inf
    ) -> Descent:
        """Rounds of each set of centers, until one saves less than ``tol`` of its cost.

        A set that will hardly get below the goal, or below the best of the others, is given up.
        """
        sets = sets if isinstance(sets, Sets) else Sets.of(sets, len(self._mass))
        n_sets = len(sets.centers)
        costs, n_rounds, going = np.full(n_sets, np.inf), np.zeros(n_sets, np.int32), np.arange(n_sets)
        for _ in range(max_iter):
            before = costs[going]
            costs[going] = self._round(sets, going)
            n_rounds[going] += 1
            for i in going[: len(on_rounds)]:
                on_rounds[i](int(n_rounds[i]), float(costs[i]))
            gains, lags = before - costs[going], costs[going] - min(goal, costs.min())
            going = going[(gains > tol * costs[going]) & (lags <= MAX_LAG * gains)]
            if len(going) == 0:
                break
        return Descent(sets.centers, costs, n_rounds)

    def _round(self, sets: Sets, going: Integers) -> Floats:
        """Make a round as in :func:`probi.solver.lloyd.one_round` of some sets; return the costs before it."""
        sums = self._sums(sets, going)
        n_free, d = self.problem.n_free, sets.centers.shape[2]
        sums[..., n_free:d] = 0.0  # no pull moves a center off the ground
        moves = weiszfeld_moves(sums.reshape(-1, sums.shape[2]), RELAXATION).reshape(len(going), -1, d)
        before = sets.centers[going]
        after = before + moves
        masses = sums[..., d + RECIPROCAL] + sums[..., d + ON_POINT]
        for i in np.flatnonzero((masses == 0.0).any(axis=1)):
            self.problem.reseed_empty(masses[i], sets.nearest[going[i]], after[i])
        sets.centers[going] = after
        sets.moves[going] = np.sqrt(((after - before) ** 2).sum(axis=2))
        return np.asarray(sums[..., d + COST].sum(axis=1))

    def _sums(self, sets: Sets, going: Integers) -> Floats:
        """Assign nodes to the nearest centers of some sets; return the pull there, see ``pull_of_nearest``."""
        centers, labels, nearest, other, moves = sets
        columns = np.ascontiguousarray(centers.transpose(0, 2, 1))
        tasks = np.array([(s, *piece) for s in going for piece in self._pieces])
        sums = np.zeros((len(tasks), centers.shape[1], centers.shape[2] + N_SCALARS))
        # Several tasks per call if there are enough: a call takes a third as long as a task on a sample.
        step = max(1, len(tasks) // (2 * _parallel.n_threads()))
        _parallel.run(
            kernels.pull_of_nearest, _parallel.ranges(len(tasks), step), self.problem.nodes.points, self._mass, centers,
            columns, moves, labels, nearest, other, tasks, sums,
        )  # fmt: skip
        return np.asarray(sums.reshape(len(going), len(self._pieces), *sums.shape[1:]).sum(axis=1))

    def improve(
        self, centers: Floats, min_gain: float, patience: int, rng: np.random.Generator, on_swap: OnRound,
        n_trials: int = N_TRIALS,
    ) -> tuple[Floats, float, int]:  # fmt: skip
        """Swap centers (k, d) until ``patience`` swaps in a row have not saved the share ``min_gain`` of the cost.

        So many are tried at once. Centers, their cost, and the number of swaps tried.
        """
        known = self.settled(centers)
        cost, n_failed, n_tried = self._cost(known), 0, 0
        while n_failed < patience:
            swapped = self.swap(known, rng, n_trials)
            if len(swapped.centers) == 0:
                break
            tried = self.descend(swapped, N_ROUNDS, 0.0, goal=cost * (1.0 - min_gain))
            n_tried += len(swapped.centers)
            n_failed += len(swapped.centers)
            at = int(np.argmin(tried.costs))
            if tried.costs[at] < cost * (1.0 - min_gain):
                after = self.settled(tried.centers[at])
                if self._cost(after) < cost:  # else the gain was only rounding
                    known, cost, n_failed = after, self._cost(after), 0
            on_swap(n_tried, cost)
        return known.centers[0], cost, n_tried

    def settled(self, centers: Floats) -> Sets:
        """One set of centers; ``other`` is the distance to the second center."""
        sets = Sets.of(centers[None], len(self._mass))
        self._sums(sets, np.arange(1))
        return sets

    def _cost(self, settled: Sets) -> float:
        return float(np.sum(self._mass * settled.nearest[0]))

    def swap(self, known: Sets, rng: np.random.Generator, n_trials: int = N_TRIALS) -> Sets:
        """Sets with one of the centers replaced in each, by candidates drawn by their excess cost.

        Those swaps, each with the best center to leave, after which the cost is lowest before any center moves. None if
        every node lies on a center.
        """
        centers, labels, nearest, second = (array[0] for array in known[:4])
        excess = self.problem.excess(nearest)
        if not excess.any():
            return Sets.of(np.empty((0, *centers.shape)), len(excess))
        drawn = np.unique(draw(excess, rng.random(N_DRAWN)))
        candidates = self.problem.medians[drawn].astype(np.float64)
        changes, distances = self.changes(known, candidates)
        order = np.argsort(changes.min(axis=1), kind="stable")[:n_trials]
        leaving = changes.argmin(axis=1)[order]
        swapped = np.tile(centers, (len(order), 1, 1))
        swapped[np.arange(len(order)), leaving] = candidates[order]
        to_new = np.ascontiguousarray(distances[:, order].T)
        joins = to_new < nearest
        other = np.where(joins, nearest, np.minimum(second, to_new))
        other[labels == leaving[:, None]] = -np.inf  # whose center has left
        new_labels = np.where(joins, leaving[:, None], labels).astype(np.int32)
        return Sets(swapped, new_labels, np.where(joins, to_new, nearest), other, np.zeros(swapped.shape[:2]))

    def changes(self, known: Sets, candidates: Floats) -> tuple[Floats, Floats]:
        """Change of cost (c, k) if a candidate replaced a center, and the distances (n, c) to the candidates."""
        k = known.centers.shape[1]
        distances = np.empty((len(self._mass), len(candidates)))
        parts = _parallel.run(
            kernels.swap_changes, self._pieces, self.problem.nodes.points, self._mass, candidates,
            np.ascontiguousarray(candidates.T), k, known.labels[0], known.nearest[0], known.other[0], distances,
        )  # fmt: skip
        changes = np.sum(parts, axis=0)
        return changes[:, :k] + changes[:, k:], distances


class SmallSearch(Search):
    """The same in plain arrays: all distances are computed, and no bounds are kept."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._columns = np.ascontiguousarray(problem.nodes.points.T, np.float64)

    def seeds(self, n_starts: int, n_clusters: int, rng: np.random.Generator) -> Sets:
        """First centers of several starts."""
        medians = self.problem.medians.astype(np.float64)
        uniforms = rng.random((n_starts, n_clusters, N_CANDIDATES))
        starts = np.arange(n_starts)
        centers = np.empty((n_starts, n_clusters, medians.shape[1]))
        nearest = np.full((n_starts, len(self._mass)), np.inf)
        scores = np.tile(self._mass, (n_starts, 1))
        for c in range(n_clusters):
            n_drawn = N_CANDIDATES if c else 1
            drawn = np.array([draw(*pair) for pair in zip(scores, uniforms[:, c, :n_drawn], strict=True)])
            candidates = medians[drawn]
            shorter = np.minimum(nearest[:, None], self._distances(candidates)[1])
            best = np.argmin((shorter * self._mass).sum(axis=2), axis=1)
            centers[:, c], nearest = candidates[starts, best], shorter[starts, best]
            scores = self.problem.excess(nearest)
            # Every node lies on a center: more centers change nothing, wherever they are.
            scores[~scores.any(axis=1)] = self._mass
        return Sets.of(centers, len(self._mass))

    def _sums(self, sets: Sets, going: Integers) -> Floats:
        d, n_free = sets.centers.shape[2], self.problem.n_free
        differences, distances = self._distances(sets.centers[going])
        sets.labels[going] = distances.argmin(axis=1)
        is_own, nearest = _is_own(sets.labels[going], distances.shape[1]), distances.min(axis=1)
        sets.nearest[going] = nearest
        masses = is_own * self._mass
        pulls = masses / np.where(nearest == 0.0, np.inf, nearest)[:, None]
        sums = np.zeros((*distances.shape[:2], d + N_SCALARS))
        sums[..., :n_free] = np.einsum("skn,skfn->skf", pulls, differences[:, :, :n_free])
        sums[..., d + RECIPROCAL] = pulls.sum(axis=2)
        sums[..., d + ON_POINT] = (masses * (nearest == 0.0)[:, None]).sum(axis=2)
        sums[..., d + COST] = (masses * nearest[:, None]).sum(axis=2)
        return sums

    def settled(self, centers: Floats) -> Sets:
        """One set of centers, with the distances to the second."""
        sets = Sets.of(centers[None], len(self._mass))
        distances = self._distances(sets.centers)[1]
        sets.labels[:], sets.nearest[:] = distances.argmin(axis=1), distances.min(axis=1)
        sets.other[:] = np.where(_is_own(sets.labels, len(centers)), np.inf, distances).min(axis=1)
        return sets

    def changes(self, known: Sets, candidates: Floats) -> tuple[Floats, Floats]:
        """Change of cost if a candidate replaced a center, and the distances to the candidates."""
        nearest, distances = known.nearest[0], self._distances(candidates[None])[1][0]
        joined = np.minimum(nearest, distances)
        left = np.minimum(known.other[0], distances) - joined
        is_own = _is_own(known.labels, known.centers.shape[1])[0]
        changes = ((joined - nearest) * self._mass).sum(axis=1)[:, None]
        return changes + np.einsum("cn,kn->ck", left * self._mass, is_own), distances.T

    def _distances(self, centers: Floats) -> tuple[Floats, Floats]:
        """Differences (s, k, d, n) of nodes and centers (s, k, d), and distances (s, k, n)."""
        differences = self._columns - centers[..., None]
        return differences, np.sqrt(np.einsum("skfn,skfn->skn", differences, differences))


def _is_own(labels: Labels, k: int) -> Mask:
    """Which center is that of each node, (s, k, n)."""
    return np.asarray(labels[:, None] == np.arange(k)[:, None])


def is_small(problem: Problem, n_clusters: int) -> bool:
    """Whether a search in plain arrays is faster than one with kernels and threads."""
    return problem.nodes.points.size * n_clusters <= MAX_SMALL


class Searches(NamedTuple):
    """Searches on a sample of certain nodes, if there are many, and on all nodes; and the features they see."""

    on_sample: Search
    on_all: Search
    features: Integers | None

    @classmethod
    def of(cls, problem: Problem, n_clusters: int, rng: np.random.Generator) -> Searches:
        """Chosen by rough centers; small problems are searched as they are."""
        if is_small(problem, n_clusters):
            search = SmallSearch(problem)
            return cls(search, search, None)
        rough = seeds(problem, 1, n_clusters, rng, n_candidates=1)
        nearest, size = rough.nearest[0], max(NODES_PER_CLUSTER * n_clusters, MIN_SAMPLE)
        sample, chosen = problem, None
        if size <= len(nearest) // 2:
            chosen, mass = problem.sample(size, rough.labels[0], nearest, rng.random())
            sample, nearest = problem.part(chosen, mass), nearest[chosen]
        features: Integers | None = sample.major_features(nearest)
        if features is not None and len(features) <= problem.n_free // 2:
            problem = problem.narrowed(features)
            sample = problem if chosen is None else problem.part(chosen, mass)
        else:
            features = None
        on_all = Search(problem)
        return cls(on_all if chosen is None else Search(sample), on_all, features)
