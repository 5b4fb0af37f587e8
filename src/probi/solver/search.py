"""Search on certain nodes: many sets of centers at once, drawn, moved by rounds, and improved by swaps of one center.

:class:`Search` runs kernels on threads. :class:`SmallSearch` does the same in plain arrays: below some thousand
coordinates, calling kernels and threads takes longer than the arithmetic, and compiling them far longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from probi import _parallel
from probi._kernels import candidates as kernels
from probi._kernels.pull import N_SCALARS, ON_POINT, RECIPROCAL, RELAXATION
from probi._types import Array, Floats, Integers, Labels, Mask
from probi.solver.lloyd import MAX_LAG
from probi.solver.options import OnRound
from probi.solver.problem import Problem, draw, weiszfeld_moves
from probi.validation import frozen

# Coordinates of all nodes times the number of centers, at most, of a small problem. Kernels are faster for more.
MAX_SMALL = 1 << 13

# Coordinates of all nodes times the number of centers of all sets, at most, that one thread takes alone: others would
# begin when it has nearly ended.
MAX_ALONE = 1 << 19

# Starts are compared long before they converge: the last 0.1 % of the cost is gained by all of them alike.
START_TOL = 1e-3

# Tasks per set of centers, at least, if there are nodes enough: a single set keeps all threads busy, too.
MIN_TASKS = 8

# Candidates drawn per center, of which the best is kept. Three starts with one each and one start with three
# cost about the same; the latter was ahead on all four data sets tried.
N_CANDIDATES = 3

# Candidates drawn for swaps, how many of the swaps are tried together, and for how many rounds: right after a swap the
# cost is nearly always higher (as FLS++ observes for k-means). More of each gained nothing. After the second and the
# third round only the best so many go on: of 56 times that one of all gained in the end, one of them did in 55.
N_DRAWN, N_TRIALS, N_ROUNDS = 32, 8, 4
N_LEFT = {2: 4, 3: 2}

# Starts look at a sample of this many nodes per cluster, and at least this many in all: of a coreset, at all nodes.
# With a quarter of them, solutions that differ by less than the sample's error were confused: costs rose by up to
# 0.3 %.
NODES_PER_CLUSTER, MIN_SAMPLE = 200, 2000


class Sets(NamedTuple):
    """Sets of centers (s, k, d), and the distance of each node to the nearest of each set, (s, n)."""

    centers: Floats
    nearest: Array


class Known(NamedTuple):
    """One set of centers (k, d), and for each node the nearest, the distance to it, and that to the next."""

    centers: Floats
    labels: Labels
    nearest: Array
    second: Array


def seed(problem: Problem, n_clusters: int, rng: np.random.Generator) -> Floats:
    """First centers (k, d) for certain nodes, see :func:`seeds`."""
    return np.asarray(seeds(problem.in_float64(), 1, n_clusters, rng).centers[0])


def seeds(
    problem: Problem, n_starts: int, n_clusters: int, rng: np.random.Generator, n_candidates: int = N_CANDIDATES
) -> Sets:
    """Greedy D-sampling on certain nodes: draw by excess cost, keep the candidate that saves most.

    First centers of several starts. The first center of each is drawn by mass.
    """
    rows = _in_fours(problem.nodes.points)
    centers = np.zeros((n_starts, n_clusters, rows.shape[1]), rows.dtype)
    nearest = np.empty((n_starts, len(rows)), rows.dtype)
    uniforms = np.zeros((n_starts, n_clusters, n_candidates))
    for start in uniforms:
        start[0, 0], start[1:] = rng.random(), rng.random((n_clusters - 1, n_candidates))
    step = n_starts if rows.size * n_clusters * n_starts <= MAX_ALONE else 1
    _parallel.run(
        kernels.draw_seeds, _parallel.ranges(n_starts, step), rows, problem.nodes.mass, problem.spreads,
        problem.n_free, uniforms, centers, nearest,
    )  # fmt: skip
    return Sets(centers[..., : problem.nodes.n_features].astype(np.float64), nearest)


def _in_fours(rows: Array) -> Array:
    """Rows with a number of features that kernels can handle: a multiple of four, the last ones zero."""
    n_more = -rows.shape[-1] % 4
    return frozen(np.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, n_more)])) if n_more else rows


class Descent(NamedTuple):
    """Several sets of centers after rounds, (s, k, d); of each, the cost before the last round, and the rounds."""

    centers: Floats
    costs: Floats
    n_rounds: Labels


class Search:
    """Certain nodes, and what is done with sets of centers for them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._mass, self._rows = problem.nodes.mass, _in_fours(problem.nodes.points)
        self._pieces = problem.nodes.pieces(at_least=MIN_TASKS)

    def seeds(self, n_starts: int, n_clusters: int, rng: np.random.Generator) -> Floats:
        """First centers of several starts, see :func:`seeds`."""
        return seeds(self.problem, n_starts, n_clusters, rng).centers

    def descend(
        self, centers: Floats, max_iter: int, tol: float, on_rounds: Sequence[OnRound] = (), goal: float = np.inf,
        n_left: Mapping[int, int] = MappingProxyType({}),
    ) -> Descent:  # fmt: skip
        """Rounds of each set of centers (s, k, d), until one saves less than ``tol`` of its cost.

        A set that will hardly get below the goal, or below the best of the others, is given up. So are all but the best
        ``n_left[r]`` after round r.
        """
        centers, n_sets = centers.copy(), len(centers)
        costs, n_rounds, going = np.full(n_sets, np.inf), np.zeros(n_sets, np.int32), np.arange(n_sets)
        for number in range(1, max_iter + 1):
            before = costs[going]
            self._round(centers, going, costs)
            n_rounds[going] += 1
            for i in going[: len(on_rounds)]:
                on_rounds[i](int(n_rounds[i]), float(costs[i]))
            gains, lags = before - costs[going], costs[going] - min(goal, costs.min())
            going = going[(gains > tol * costs[going]) & (lags <= MAX_LAG * gains)]
            if len(going) > n_left.get(number, n_sets):
                going = np.sort(going[np.argsort(costs[going], kind="stable")[: n_left[number]]])
            if len(going) == 0:
                break
        return Descent(centers, costs, n_rounds)

    def _round(self, centers: Floats, going: Integers, costs: Floats) -> None:
        """Make a round as in :func:`probi.solver.lloyd.one_round` of some sets; note their costs before it."""
        sums, nearest = self._sums(centers, going)[:2]
        n_empty = kernels.move_centers(
            sums, len(self._pieces), self.problem.n_free, RELAXATION, going, centers, costs
        )  # fmt: skip
        if n_empty:
            d = centers.shape[2]
            masses = sums[:: len(self._pieces), :, d + RECIPROCAL] + sums[:: len(self._pieces), :, d + ON_POINT]
            for i in np.flatnonzero((masses == 0.0).any(axis=1)):
                self.problem.reseed_empty(masses[i], nearest[i], centers[going[i]])

    def _sums(self, centers: Floats, going: Integers) -> tuple[Floats, Array, Array, Labels]:
        """Assign nodes to the nearest centers of some sets.

        The pull there by pieces, see ``pull_of_nearest``, distances to the nearest and the next, and labels.
        """
        rows, n_pieces = self._rows, len(self._pieces)
        each = np.empty((len(going), n_pieces, 3), np.int64)
        each[..., 0], each[..., 1:] = np.arange(len(going))[:, None], self._pieces
        tasks = each.reshape(-1, 3)
        sums = np.zeros((len(tasks), centers.shape[1], centers.shape[2] + N_SCALARS))
        k, d = centers.shape[1:]
        places = np.full((len(going), k + -k % 4, rows.shape[1]), np.inf, rows.dtype)
        places[:, :k, :d], places[:, :k, d:] = centers[going], 0.0
        labels = np.empty((len(going), len(rows)), np.int32)
        nearest, second = np.empty(labels.shape, rows.dtype), np.empty(labels.shape, rows.dtype)
        is_short = rows.size * k * len(going) <= MAX_ALONE
        # Several tasks per call if there are enough: a call takes a third as long as a task on a sample.
        step = len(tasks) if is_short else max(1, len(tasks) // (2 * _parallel.n_threads()))
        _parallel.run(
            kernels.pull_of_nearest, _parallel.ranges(len(tasks), step), rows, self._mass, self.problem.n_free,
            places, labels, nearest, second, tasks, sums,
        )  # fmt: skip
        return sums, nearest, second, labels

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
            if len(swapped) == 0:
                break
            tried = self.descend(swapped, N_ROUNDS, 0.0, goal=cost * (1.0 - min_gain), n_left=N_LEFT)
            n_tried += len(swapped)
            n_failed += len(swapped)
            at = int(np.argmin(tried.costs))
            if tried.costs[at] < cost * (1.0 - min_gain):
                after = self.settled(tried.centers[at])
                if self._cost(after) < cost:  # else the gain was only rounding
                    known, cost, n_failed = after, self._cost(after), 0
            on_swap(n_tried, cost)
        return known.centers, cost, n_tried

    def settled(self, centers: Floats) -> Known:
        """One set of centers with its clusters."""
        _, nearest, second, labels = self._sums(centers[None], np.arange(1))
        return Known(centers, labels[0], nearest[0], second[0])

    def _cost(self, known: Known) -> float:
        return float(np.sum(self._mass * known.nearest))

    def swap(self, known: Known, rng: np.random.Generator, n_trials: int = N_TRIALS) -> Floats:
        """Sets with one of the centers replaced in each, by candidates drawn by their excess cost.

        Those swaps, each with the best center to leave, after which the cost is lowest before any center moves. None if
        every node lies on a center.
        """
        centers, excess = known.centers, self.problem.excess(known.nearest)
        if not excess.any():
            return np.empty((0, *centers.shape))
        candidates = self.problem.medians[np.unique(draw(excess, rng.random(N_DRAWN)))].astype(np.float64)
        changes = self.changes(known, candidates)
        order = np.argsort(changes.min(axis=1), kind="stable")[:n_trials]
        swapped = np.tile(centers, (len(order), 1, 1))
        swapped[np.arange(len(order)), changes.argmin(axis=1)[order]] = candidates[order]
        return swapped

    def changes(self, known: Known, candidates: Floats) -> Floats:
        """Change of cost (c, k) if a candidate, of at most ``WIDTH``, replaced a center."""
        rows, k = self._rows, len(known.centers)
        columns = np.zeros((rows.shape[1], kernels.WIDTH), rows.dtype)
        columns[: candidates.shape[1], : len(candidates)] = candidates.T
        parts = _parallel.run(
            kernels.swap_changes, self._pieces, rows, self._mass, columns.reshape(-1, 4 * kernels.WIDTH), k, *known[1:],
        )  # fmt: skip
        changes = np.sum(parts, axis=0)[:, : len(candidates)].T
        return np.asarray(changes[:, :k] + changes[:, k:])


class SmallSearch(Search):
    """The same in plain arrays: all distances are computed, and no bounds are kept."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._columns = np.ascontiguousarray(problem.nodes.points.T, np.float64)

    def seeds(self, n_starts: int, n_clusters: int, rng: np.random.Generator) -> Floats:
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
        return centers

    def _round(self, centers: Floats, going: Integers, costs: Floats) -> None:
        (n_sets, k, d), n_free = centers[going].shape, self.problem.n_free
        differences, distances = self._distances(centers[going])
        nearest = distances.min(axis=1)
        masses = _is_own(distances.argmin(axis=1), k) * self._mass
        pulls = masses / np.where(nearest == 0.0, np.inf, nearest)[:, None]
        sums = np.zeros((n_sets, k, d + N_SCALARS))
        sums[..., :n_free] = np.einsum("skn,skfn->skf", pulls, differences[:, :, :n_free])
        sums[..., d + RECIPROCAL] = pulls.sum(axis=2)
        sums[..., d + ON_POINT] = (masses * (nearest == 0.0)[:, None]).sum(axis=2)
        costs[going] = (masses * nearest[:, None]).sum(axis=(1, 2))
        after = centers[going] + weiszfeld_moves(sums.reshape(n_sets * k, -1), RELAXATION).reshape(n_sets, k, d)
        owned = masses.sum(axis=2)
        for i in np.flatnonzero((owned == 0.0).any(axis=1)):
            self.problem.reseed_empty(owned[i], nearest[i], after[i])
        centers[going] = after

    def settled(self, centers: Floats) -> Known:
        """One set of centers with its clusters."""
        distances = self._distances(centers[None])[1]
        labels, nearest = distances.argmin(axis=1), distances[0].min(axis=0)
        second = np.where(_is_own(labels, len(centers))[0], np.inf, distances[0]).min(axis=0)
        return Known(centers, labels[0].astype(np.int32), nearest, second)

    def changes(self, known: Known, candidates: Floats) -> Floats:
        """Change of cost if a candidate replaced a center."""
        distances = self._distances(candidates[None])[1][0]
        joined = np.minimum(known.nearest, distances)
        left = np.minimum(known.second, distances) - joined
        is_own = _is_own(known.labels[None], len(known.centers))[0]
        changes = ((joined - known.nearest) * self._mass).sum(axis=1)[:, None]
        return np.asarray(changes + np.einsum("cn,kn->ck", left * self._mass, is_own))

    def _distances(self, centers: Floats) -> tuple[Floats, Floats]:
        """Differences (s, k, d, n) of nodes and centers (s, k, d), and distances (s, k, n)."""
        differences = self._columns - centers[..., None]
        return differences, np.sqrt(np.einsum("skfn,skfn->skn", differences, differences))


def _is_own(labels: Integers | Labels, k: int) -> Mask:
    """Which center is that of each node, (s, k, n)."""
    return np.asarray(labels[:, None] == np.arange(k)[:, None])


def is_small(problem: Problem, n_clusters: int) -> bool:
    """Whether a search in plain arrays is faster than one with kernels and threads."""
    return problem.nodes.points.size * n_clusters <= MAX_SMALL


class Searches(NamedTuple):
    """Searches on a sample of certain nodes, if there are many, and on all nodes.

    They see some features, or all, relative to an origin.
    """

    on_sample: Search
    on_all: Search
    features: Integers | None
    origin: Floats

    @classmethod
    def of(cls, problem: Problem, n_clusters: int, rng: np.random.Generator) -> Searches:
        """Chosen by rough centers; small problems are searched as they are."""
        if is_small(problem, n_clusters):
            search = SmallSearch(problem)
            return cls(search, search, None, np.zeros(problem.nodes.n_features))
        problem, origin, rough = _with_rough_centers(problem, n_clusters, rng)
        nearest, size = rough.nearest[0].astype(np.float64), max(NODES_PER_CLUSTER * n_clusters, MIN_SAMPLE)
        sample, chosen = problem, None
        if size <= len(nearest) // 2:
            labels = Search(problem).settled(rough.centers[0]).labels
            chosen, mass = problem.sample(size, labels, nearest, rng.random())
            sample, nearest = problem.part(chosen, mass), nearest[chosen]
        features: Integers | None = sample.major_features(nearest)
        if features is not None and len(features) <= problem.n_free // 2:
            problem, origin = problem.narrowed(features), np.append(origin[features], 0.0)
            sample = problem if chosen is None else problem.part(chosen, mass)
        else:
            features = None
        on_all = Search(problem)
        return cls(on_all if chosen is None else Search(sample), on_all, features, origin)


def _with_rough_centers(problem: Problem, n_clusters: int, rng: np.random.Generator) -> tuple[Problem, Floats, Sets]:
    """The problem relative to an origin, and rough centers: in float32 if that is precise enough."""
    origin = problem.origin
    single = problem.in_float32(origin)
    if single is not None:
        rough = seeds(single, 1, n_clusters, rng, n_candidates=2)
        if single.is_precise(rough.nearest[0]):
            return single, origin, rough
    problem = problem.in_float64()
    return problem, np.zeros(len(origin)), seeds(problem, 1, n_clusters, rng, n_candidates=2)
