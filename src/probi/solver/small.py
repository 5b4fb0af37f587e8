"""Search on small problems: all distances in plain arrays, many sets of centers at once, and no kernel to compile.

Below some thousand coordinates, calling kernels and threads takes longer than the arithmetic. The steps are those for
larger problems: starts, swaps of centers, rounds of Lloyd's alternation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from probi._kernels.pull import N_SCALARS, ON_POINT, RECIPROCAL, RELAXATION
from probi._types import Floats, Labels, Mask
from probi.solver.lloyd import MAX_LAG, reseed_empty, weiszfeld_moves
from probi.solver.problem import Problem, draw
from probi.solver.progress import OnRound
from probi.solver.seeding import N_CANDIDATES

# Coordinates of all nodes times the number of centers, at most. From about twice as many on kernels are faster.
MAX_SMALL = 1 << 15

# Starts that are made together, at most.
TOGETHER = 16

# Candidates drawn for swaps, how many of the swaps are tried together, and for how many rounds. More of each gained
# nothing.
N_DRAWN, N_TRIALS, N_ROUNDS = 32, 8, 4


def is_small(problem: Problem, n_clusters: int) -> bool:
    """Whether a search in plain arrays is faster than one with kernels and threads."""
    return problem.nodes.points.size * n_clusters <= MAX_SMALL


class Descent(NamedTuple):
    """Several sets of centers after rounds, (s, k, d); of each, the cost before the last round, and the rounds."""

    centers: Floats
    costs: Floats
    n_rounds: Labels


class SmallSearch:
    """Certain nodes, and what is done with sets of centers for them. Nodes are the last axis of all arrays."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._columns = np.ascontiguousarray(problem.nodes.points.T, np.float64)
        self._mass = problem.nodes.mass
        self._medians = problem.medians.astype(np.float64)

    def seeds(self, n_starts: int, n_clusters: int, rng: np.random.Generator) -> Floats:
        """First centers of several starts, (s, k, d), drawn one by one as in :func:`probi.solver.seeding.seed`."""
        uniforms = rng.random((n_clusters, n_starts, N_CANDIDATES))
        starts = np.arange(n_starts)
        centers = np.empty((n_starts, n_clusters, self._medians.shape[1]))
        nearest = np.full((n_starts, len(self._mass)), np.inf)
        scores = np.tile(self._mass, (n_starts, 1))
        for c in range(n_clusters):
            n_drawn = N_CANDIDATES if c else 1
            drawn = np.array([draw(*pair) for pair in zip(scores, uniforms[c, :, :n_drawn], strict=True)])
            candidates = self._medians[drawn]
            shorter = np.minimum(nearest[:, None], self._distances(candidates)[1])
            best = np.argmin((shorter * self._mass).sum(axis=2), axis=1)
            centers[:, c], nearest = candidates[starts, best], shorter[starts, best]
            scores = self.problem.excess(nearest)
            # Every node lies on a center: more centers change nothing, wherever they are.
            scores[~scores.any(axis=1)] = self._mass
        return centers

    def descend(
        self, centers: Floats, max_iter: int, tol: float, on_rounds: Sequence[OnRound] = (), goal: float = np.inf
    ) -> Descent:
        """Rounds of each set of centers, until one saves less than ``tol`` of its cost.

        A set that will hardly get below the goal, or below the best of the others, is given up.
        """
        centers = centers.copy()
        costs, n_rounds = np.full(len(centers), np.inf), np.zeros(len(centers), np.int32)
        going = np.arange(len(centers))
        for _ in range(max_iter):
            before = costs[going]
            centers[going], costs[going] = self._round(centers[going])
            n_rounds[going] += 1
            for i in going[: len(on_rounds)]:
                on_rounds[i](int(n_rounds[i]), float(costs[i]))
            gains, lags = before - costs[going], costs[going] - min(goal, costs.min())
            going = going[(gains > tol * costs[going]) & (lags <= MAX_LAG * gains)]
            if len(going) == 0:
                break
        return Descent(centers, costs, n_rounds)

    def _round(self, centers: Floats) -> tuple[Floats, Floats]:
        """Centers after a round as in :func:`probi.solver.lloyd.one_round`, and the costs before it."""
        d, n_free = centers.shape[2], self.problem.n_free
        differences, distances = self._distances(centers)
        is_own, nearest = _nearest(distances)
        masses = is_own * self._mass
        lies_on = nearest == 0.0
        pulls = masses / np.where(lies_on, np.inf, nearest)[:, None]
        sums = np.zeros((*centers.shape[:2], d + N_SCALARS))
        sums[..., :n_free] = np.einsum("skn,skfn->skf", pulls, differences[:, :, :n_free])
        sums[..., d + RECIPROCAL] = pulls.sum(axis=2)
        sums[..., d + ON_POINT] = (masses * lies_on[:, None]).sum(axis=2)
        moved = centers + weiszfeld_moves(sums.reshape(-1, d + N_SCALARS), RELAXATION).reshape(centers.shape)
        totals = masses.sum(axis=2)
        for s in np.flatnonzero((totals == 0.0).any(axis=1)):
            reseed_empty(self.problem, totals[s], nearest[s], moved[s])
        return moved, (self._mass * nearest).sum(axis=1)

    def swap(self, centers: Floats, rng: np.random.Generator) -> Floats:
        """Copies of centers (k, d) with one of them replaced in each, by candidates drawn by their excess cost.

        Those swaps, each with the best center to leave, after which the cost is lowest before any center moves. None if
        every node lies on a center.
        """
        distances = self._distances(centers[None])[1]
        is_own, nearest = (array[0] for array in _nearest(distances))
        second = np.where(is_own, np.inf, distances[0]).min(axis=0)
        excess = self.problem.excess(nearest)
        if not excess.any():
            return np.empty((0, *centers.shape))
        drawn = np.unique(draw(excess, rng.random(N_DRAWN)))
        to_new = self._distances(self._medians[drawn][None])[1][0]
        joined = np.minimum(nearest, to_new)
        left = np.minimum(second, to_new) - joined
        costs = (joined * self._mass).sum(axis=1)[:, None] + np.einsum("cn,kn->ck", left * self._mass, is_own)
        order = np.argsort(costs.min(axis=1), kind="stable")[:N_TRIALS]
        swapped = np.tile(centers, (len(order), 1, 1))
        swapped[np.arange(len(order)), costs.argmin(axis=1)[order]] = self._medians[drawn[order]]
        return swapped

    def improve(
        self, centers: Floats, cost: float, min_gain: float, patience: int, rng: np.random.Generator, on_swap: OnRound
    ) -> tuple[Floats, float, int]:
        """Swap centers until ``patience`` swaps in a row have not saved the share ``min_gain`` of the cost.

        Centers, their cost before the last round, and the number of swaps tried.
        """
        n_failed = n_tried = 0
        while n_failed < patience:
            swapped = self.swap(centers, rng)
            if len(swapped) == 0:
                break
            tried = self.descend(swapped, N_ROUNDS, 0.0, goal=cost * (1.0 - min_gain))
            at = int(np.argmin(tried.costs))
            n_tried += len(swapped)
            n_failed += len(swapped)
            if tried.costs[at] < cost * (1.0 - min_gain):
                centers, cost, n_failed = tried.centers[at], float(tried.costs[at]), 0
            on_swap(n_tried, cost)
        return centers, cost, n_tried

    def _distances(self, centers: Floats) -> tuple[Floats, Floats]:
        """Differences (s, k, d, n) of nodes and centers (s, k, d), and distances (s, k, n)."""
        differences = self._columns - centers[..., None]
        return differences, np.sqrt(np.einsum("skfn,skfn->skn", differences, differences))


def _nearest(distances: Floats) -> tuple[Mask, Floats]:
    """Which center is the nearest of each node, the first of equal ones (s, k, n), and the distance to it (s, n)."""
    labels = distances.argmin(axis=1)
    return labels[:, None] == np.arange(distances.shape[1])[:, None], distances.min(axis=1)
