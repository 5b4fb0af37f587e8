"""Search on a few certain nodes for several numbers of clusters side by side.

It takes the steps of :mod:`probi.solver.search`. For a few nodes the arithmetic of a step takes less time than to call
it, so each call makes the step of all sets of centers, for all numbers of clusters. Results for a number do not depend
on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from probi import _parallel
from probi._kernels import few_nodes as kernels
from probi._kernels.pull import RELAXATION
from probi._types import Floats, Integers, Labels, Mask
from probi.objective import expected_distances
from probi.solver.lloyd import MAX_LAG
from probi.solver.local_search import MANY
from probi.solver.on_nodes import Candidate, distinct, nearly_as_good
from probi.solver.problem import Problem, draw_each
from probi.solver.search import MAX_ALONE, N_CANDIDATES, N_DRAWN, N_LEFT, N_ROUNDS, N_TRIALS, START_TOL

# Nodes, all distances between which are computed; and coordinates of all nodes times the largest number of clusters.
# With 500 nodes, or with more coordinates, a search for each number alone may be faster.
MAX_NODES, MAX_SIZE = 400, 1 << 16

# Starts for each number, at most: more of them take memory.
MAX_STARTS = 16


def is_for_several(problem: Problem, n_clusters: int, n_init: int) -> bool:
    """Whether a search for up to so many clusters side by side is faster than one for each number."""
    is_few = len(problem.nodes) <= MAX_NODES and problem.nodes.points.size * n_clusters <= MAX_SIZE
    return is_few and n_clusters < MANY and n_init <= MAX_STARTS


def search_several(
    problem: Problem, n_clusters: Sequence[int], n_init: int, n_swapped: int, min_gain: float, patience: Sequence[int],
    max_iter: int, tol: float, rng: np.random.Generator,
) -> dict[int, tuple[Candidate, list[Floats]]]:  # fmt: skip
    """For each number of clusters, the best centers, and those of starts that are nearly as good."""
    search, ks, n = SeveralSearch(problem), np.array(n_clusters), len(problem.nodes)
    for_starts, *for_swaps = rng.spawn(1 + n_swapped)
    seeds = search.seeds(n_init, int(ks.max()), for_starts)
    starts = Sets.of(np.tile(seeds, (len(ks), 1, 1)), np.repeat(ks, n_init), n)
    search.descend(starts, len(ks), max_iter, START_TOL)
    tried = [starts.candidates(slice(first, first + n_init)) for first in range(0, len(starts.costs), n_init)]
    chosen = [distinct(of_k, START_TOL)[:n_swapped] for of_k in tried]
    centers, numbers = _swapped(search, chosen, ks, min_gain, np.array(patience), for_swaps)
    last = Sets.of(centers, ks, n)
    search.descend(last, len(ks), max_iter, tol)
    found = [one._replace(start=number) for one, number in zip(last.candidates(), numbers, strict=True)]
    others = [[start.centers for start in nearly_as_good(of_k)] for of_k in tried]
    return dict(zip(n_clusters, zip(found, others, strict=True), strict=True))


def _swapped(
    search: SeveralSearch, starts: list[list[Candidate]], n_clusters: Integers, min_gain: float, patience: Integers,
    rngs: Sequence[np.random.Generator],
) -> tuple[Floats, list[int]]:  # fmt: skip
    """Improve starts of each number of clusters by swaps; centers (g, k, d) of the best of each, and its number."""
    of_group = np.repeat(np.arange(len(starts)), [len(of_k) for of_k in starts])
    ranks = np.concatenate([np.arange(len(of_k)) for of_k in starts])
    flat = [start for of_k in starts for start in of_k]
    centers = np.zeros((len(flat), int(n_clusters.max()), flat[0].centers.shape[1]))
    for out, start in zip(centers, flat, strict=True):
        out[: len(start.centers)] = start.centers
    centers, costs = search.improve(centers, n_clusters[of_group], ranks, min_gain, patience[of_group], rngs)
    order = np.lexsort((np.array([start.start for start in flat]), costs, of_group))
    best = order[np.searchsorted(of_group[order], np.arange(len(starts)))]
    return centers[best], [flat[i].start for i in best]


class Sets(NamedTuple):
    """Sets of centers in groups, one set after the other, and what a round finds out; arrays have a row per set."""

    n_centers: Integers
    centers: Floats  # (s, k, d): of each set, the first n_centers count
    labels: Labels  # (s, n)
    nearest: Floats  # (s, n): distances to the nearest centers
    second: Floats  # (s, n): to the next ones
    costs: Floats
    n_rounds: Labels

    @classmethod
    def of(cls, centers: Floats, n_centers: Integers, n_nodes: int) -> Sets:
        """Before the first round."""
        shape = len(centers), n_nodes
        nearest, second = np.empty(shape), np.empty(shape)
        labels, costs = np.empty(shape, np.int32), np.full(len(centers), np.inf)
        return cls(n_centers, centers, labels, nearest, second, costs, np.zeros(len(centers), np.int32))

    def candidates(self, some: slice = slice(None)) -> list[Candidate]:
        """What rounds of some of the sets led to."""
        rows = zip(self.costs[some], self.centers[some], self.n_centers[some], self.n_rounds[some], strict=True)
        return [Candidate(float(cost), i, places[:k], int(n)) for i, (cost, places, k, n) in enumerate(rows)]


class SeveralSearch:
    """A few certain nodes, the distances between them, and what is done with groups of sets of centers for them."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self._mass = problem, problem.nodes.mass
        self._medians = problem.medians.astype(np.float64)
        self._columns = np.ascontiguousarray(problem.nodes.points.T, np.float64)
        self._between = np.ascontiguousarray(expected_distances(problem.nodes, self._medians).T)

    def seeds(self, n_starts: int, n_clusters: int, rng: np.random.Generator) -> Floats:
        """First centers (s, k, d) of starts, as in :func:`probi.solver.search.seeds`; fewer are the first of them."""
        uniforms, starts = rng.random((n_clusters, n_starts, N_CANDIDATES)), np.arange(n_starts)
        # First centers evenly spread over the mass, so that fewer starts begin alike.
        uniforms[0] = (starts[:, None] + uniforms[0]) / n_starts
        chosen = np.empty((n_starts, n_clusters), np.int64)
        nearest, scores = np.full((n_starts, len(self._mass)), np.inf), np.tile(self._mass, (n_starts, 1))
        for c in range(n_clusters):
            drawn = draw_each(scores, uniforms[c, :, : N_CANDIDATES if c else 1])
            shorter = np.minimum(nearest[:, None], self._between[drawn])
            best = (shorter * self._mass).sum(axis=2).argmin(axis=1)
            chosen[:, c], nearest = drawn[starts, best], shorter[starts, best]
            scores = self.problem.excess(nearest)
            # Every node lies on a center: more centers change nothing, wherever they are.
            scores[~scores.any(axis=1)] = self._mass
        return self._medians[chosen]

    def descend(
        self, sets: Sets, n_groups: int, max_iter: int, tol: float, goals: Floats | float = np.inf,
        n_left: dict[int, int] | None = None, going: Mask | None = None,
    ) -> None:  # fmt: skip
        """Rounds of each set, until one saves less than ``tol`` of its cost, or it lags behind the best of its group.

        See :meth:`probi.solver.search.Search.descend`; of each group, only the best ``n_left[r]`` go on after round r.
        """
        size, n_left = len(sets.costs) // n_groups, n_left or {}
        costs, left = sets.costs, np.arange(len(sets.costs)) if going is None else np.flatnonzero(going)
        for number in range(1, max_iter + 1):
            before = costs[left]
            self._round(sets, left)
            gains, best = before - costs[left], np.minimum(goals, costs.reshape(n_groups, size).min(axis=1))
            lags = costs[left] - best[left // size]
            left = left[(gains > tol * costs[left]) & (lags <= MAX_LAG * gains)]
            if number in n_left:
                left = _best_of_each(left, costs, n_groups, n_left[number])
            if len(left) == 0:
                break

    def _round(self, sets: Sets, chosen: Integers) -> None:
        size = self._columns.size * int(sets.n_centers[chosen].sum())
        step = len(chosen) if size <= MAX_ALONE else -(-len(chosen) // _parallel.n_threads())
        n_empty = _parallel.run(
            kernels.rounds, _parallel.ranges(len(chosen), step), self._columns, self._mass, self.problem.n_free,
            RELAXATION, sets.n_centers, chosen, *sets[1:6],
        )  # fmt: skip
        sets.n_rounds[chosen] += 1
        for s in chosen if any(n_empty) else ():
            masses: Floats = np.bincount(sets.labels[s], self._mass, sets.n_centers[s]).astype(np.float64, copy=False)
            self.problem.reseed_empty(masses, sets.nearest[s], sets.centers[s])

    def improve(
        self, centers: Floats, n_centers: Integers, ranks: Integers, min_gain: float, patience: Integers,
        rngs: Sequence[np.random.Generator],
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Swap centers of sets, each its own group, as :meth:`probi.solver.search.Search.improve` does; their costs.

        There is a generator for each rank. Sets of one rank share random numbers, so that none depends on another.
        """
        known = Sets.of(centers.copy(), n_centers, len(self._mass))
        self._settle(known, np.arange(len(centers)))
        n_failed = np.zeros(len(centers), np.int64)
        left = np.arange(len(centers))
        while len(left):
            # Evenly spread, so that fewer nodes are drawn twice.
            uniforms = (np.arange(N_DRAWN) + [rng.random(N_DRAWN) for rng in rngs]) / N_DRAWN
            left = left[self.problem.excess(known.nearest[left]).any(axis=1)]
            if len(left) == 0:
                break
            swapped, is_swap = self._swaps(known, left, uniforms[ranks[left]])
            n_trials = is_swap.shape[1]
            goals = known.costs[left] * (1.0 - min_gain)
            tried = Sets.of(swapped, np.repeat(n_centers[left], n_trials), len(self._mass))
            self.descend(tried, len(left), N_ROUNDS, 0.0, goals, N_LEFT, is_swap.ravel())
            n_failed[left] += is_swap.sum(axis=1)
            costs = tried.costs.reshape(is_swap.shape)
            at, groups = costs.argmin(axis=1), np.arange(len(left))
            gained = np.flatnonzero(costs[groups, at] < goals)
            self._accept(known, left[gained], tried.centers[gained * n_trials + at[gained]], n_failed)
            left = left[n_failed[left] < patience[left]]
        return known.centers, known.costs

    def _settle(self, sets: Sets, chosen: Integers) -> None:
        """Assign nodes to the centers of sets, which stay where they are."""
        self._round(sets._replace(centers=sets.centers.copy()), chosen)

    def _accept(self, known: Sets, chosen: Integers, centers: Floats, n_failed: Integers) -> None:
        """Keep new centers of some sets where the cost is lower: else the gain was only rounding."""
        if len(chosen) == 0:
            return
        after = Sets.of(centers, known.n_centers[chosen], len(self._mass))
        self._settle(after, np.arange(len(chosen)))
        is_lower = after.costs < known.costs[chosen]
        arrays: Iterable[tuple[Any, Any]] = zip(known[1:], after[1:], strict=True)
        for old, new in arrays:
            old[chosen[is_lower]] = new[is_lower]
        n_failed[chosen[is_lower]] = 0

    def _swaps(self, known: Sets, chosen: Integers, uniforms: Floats) -> tuple[Floats, Mask]:
        """For each of the sets chosen, the best t with one center replaced, (g * t, k, d), and which are swaps."""
        nearest, second = known.nearest[chosen, None], known.second[chosen, None]
        drawn = draw_each(self.problem.excess(nearest[:, 0]), uniforms)
        distances = self._between[drawn]
        joined = np.minimum(nearest, distances)
        left = np.minimum(second, distances) - joined
        numbers = np.arange(known.centers.shape[1])[:, None]
        masses = np.where(known.labels[chosen, None] == numbers, self._mass, 0.0)
        changes = np.einsum("gcn,gkn->gck", left, masses)
        changes += np.einsum("gcn,n->gc", joined - nearest, self._mass)[:, :, None]
        changes[np.broadcast_to(known.n_centers[chosen, None, None] <= numbers.T, changes.shape)] = np.inf
        changes[:, 1:][drawn[:, 1:] == drawn[:, :-1]] = np.inf
        order = np.argsort(changes.min(axis=2), axis=1, kind="stable")[:, :N_TRIALS]
        groups, trials = np.ogrid[: len(chosen), : order.shape[1]]
        leaving = changes[groups, order].argmin(axis=2)
        swapped = np.repeat(known.centers[chosen, None], order.shape[1], axis=1)
        swapped[groups, trials, leaving] = self._medians[drawn[groups, order]]
        return swapped.reshape(-1, *known.centers.shape[1:]), changes[groups, order, leaving] < np.inf


def _best_of_each(left: Integers, costs: Floats, n_groups: int, n: int) -> Integers:
    """The best n sets of each group among those that are left."""
    candidates = np.full(costs.shape, np.inf)
    candidates[left] = costs[left]
    order = np.argsort(candidates.reshape(n_groups, -1), axis=1, kind="stable")[:, :n]
    best = np.sort((order + len(costs) // n_groups * np.arange(n_groups)[:, None]).ravel())
    return np.asarray(best[candidates[best] < np.inf])
