"""Trimmed k-median: the nodes that are farthest from all centers are left out as outliers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from probi._types import Array, Floats, Integers
from probi.errors import InputError
from probi.nodes import Nodes
from probi.objective import OUTLIER, beyond_spread, excess, two_nearest
from probi.solver.options import SolveOptions
from probi.solver.result import Result, make_result

# Rounds of leaving out and solving the rest, at most; they end when the same nodes are left out.
MAX_ROUNDS = 20

# Times that centers which are worth little are freed, at most; little is below this fraction of what others are worth.
MAX_FREED, LITTLE = 5, 0.5

SolveNodes = Callable[[Nodes, SolveOptions], Result]


def solve_trimmed(nodes: Nodes, options: SolveOptions, solve_nodes: SolveNodes) -> Result:
    """Find centers and outliers with a solver of nodes: leave out the farthest nodes, solve the rest, and so on.

    Far nodes attract centers. So the first centers are half as many again, and those that the remaining nodes miss
    least are removed. Then centers that still serve outliers are freed.
    """
    solve_rest = replace(options, outliers=None, outlier_distance=None)
    if options.init is None:
        n_more = min(options.n_clusters + (options.n_clusters + 1) // 2, len(nodes))
        many = solve_nodes(nodes, replace(solve_rest, n_clusters=n_more)).centers
        centers = _without_least(nodes, many, options)
        fresh = solve_nodes(_rest(nodes, centers, options), solve_rest).centers
        centers = min(centers, fresh, key=partial(_objective, nodes, options))
        centers = _freed(nodes, centers, options, lambda rest: solve_nodes(rest, solve_rest).centers)
    else:
        centers = np.asarray(options.init, np.float64)
    left_out = None
    for _ in range(MAX_ROUNDS):
        rest = _rest(nodes, centers, options)
        result = solve_nodes(rest, replace(solve_rest, init=centers))
        centers = result.centers
        if left_out is not None and np.array_equal(left_out, rest.weights):
            break
        left_out = rest.weights
    return trimmed_result(nodes, centers, result.n_iter, options)


def _freed(nodes: Nodes, centers: Floats, options: SolveOptions, solve_rest: Callable[[Nodes], Floats]) -> Floats:
    """Solve again without what the centers that are worth little serve, as long as that finds better centers.

    The other centers may have use for them: a single far node costs much, unless it is left out.
    """
    for _ in range(MAX_FREED):
        rest = _RemainingCenters(nodes, centers, options)
        worth = np.array([rest.worth(c) for c in range(len(centers))])
        least = np.arange(len(worth)) == worth.argmin()
        for freed in (worth < LITTLE * worth.mean(), least):
            if len(worth) == 1 or not freed.any() or worth[freed].sum() >= LITTLE * worth.sum():
                continue
            fresh = solve_rest(_rest(nodes, centers[~freed], options))
            if _objective(nodes, options, fresh) < _objective(nodes, options, centers):
                centers = fresh
                break
        else:
            break
    return centers


def _objective(nodes: Nodes, options: SolveOptions, centers: Floats) -> float:
    return trimmed_excess(nodes, excess(nodes, centers), options)


def threshold(nodes: Nodes, of_nodes: Floats, options: SolveOptions) -> float:
    """The excess above which nodes are outliers: as given, or such that at most the given share of the mass is."""
    return _limit(nodes.mass, of_nodes, _allowed(nodes, options), options)


def _allowed(nodes: Nodes, options: SolveOptions) -> float:
    """Mass that may be left out."""
    return (
        (options.outliers or 0.0) * float(nodes.mass.sum()) * (1.0 + 1e-12)
    )  # 2 of 100 nodes are 0.02, rounded or not


def _limit(mass: Floats, excess: Floats, allowed: float, options: SolveOptions) -> float:
    if options.outlier_distance is not None:
        return float(options.outlier_distance)
    order = np.argsort(-excess, kind="stable")
    n_left_out = int(np.searchsorted(np.cumsum(mass[order]), allowed, side="right"))
    # The first node that stays, with all that are as far.
    return float(excess[order[min(n_left_out, len(order) - 1)]])


def trimmed_excess(nodes: Nodes, of_nodes: Floats, options: SolveOptions) -> float:
    """The excess that is minimized: of the nodes that stay; with a distance, outliers cost as much as it."""
    return _trimmed_sum(nodes.mass, of_nodes, threshold(nodes, of_nodes, options), options)


def _trimmed_sum(mass: Floats, excess: Floats, limit: float, options: SolveOptions) -> float:
    outside = 0.0 if options.outlier_distance is None else limit
    return math.fsum(mass * np.where(excess > limit, outside, excess))


def _rest(nodes: Nodes, centers: Floats, options: SolveOptions) -> Nodes:
    """The nodes with weight 0 for outliers; all of them if none would be left."""
    of_nodes = excess(nodes, centers)
    weights = np.where(of_nodes > threshold(nodes, of_nodes, options), 0.0, nodes.weights)
    return nodes.with_weights(weights) if weights.any() else nodes


def _without_least(nodes: Nodes, centers: Floats, options: SolveOptions) -> Floats:
    """Remove centers one by one, each time the one whose loss costs the nodes that stay least.

    What a center is worth hardly ever falls when another one is removed, so it is computed again only where it is the
    least.
    """
    rest = _RemainingCenters(nodes, centers, options)
    worth = np.full(len(centers), -np.inf)
    for _ in range(len(centers) - options.n_clusters):
        least = int(worth.argmin())
        worth[least] = rest.worth(least)
        while worth[least] > worth.min():
            least = int(worth.argmin())
            worth[least] = rest.worth(least)
        rest.remove(least)
        worth[least] = np.inf
    return centers[rest.remaining]


class _RemainingCenters:
    """Centers of which some are removed, and the excess of each node over the nearest two that remain."""

    def __init__(self, nodes: Nodes, centers: Floats, options: SolveOptions) -> None:
        self.nodes, self.centers, self.options = nodes, centers, options
        self.remaining = np.arange(len(centers))
        self.allowed, self.limit = _allowed(nodes, options), 0.0
        self.labels, self.next_labels = np.empty((2, len(nodes)), np.int64)
        self.excess, self.next_excess = np.empty((2, len(nodes)))
        self._find_nearest(np.arange(len(nodes)))

    def worth(self, center: int) -> float:
        """How much more the nodes cost without a center: its own nodes go to the next one, or become outliers.

        If they do, the nearest of the outliers stay instead. No other node changes.
        """
        rows = np.flatnonzero((self.labels == center) | (self.excess >= self.limit))
        without = np.where(self.labels[rows] == center, self.next_excess[rows], self.excess[rows])
        mass = self.nodes.mass[rows]
        limit = _limit(mass, without, self.allowed, self.options)
        return _trimmed_sum(mass, without, limit, self.options) - _trimmed_sum(
            mass, self.excess[rows], self.limit, self.options
        )

    def remove(self, center: int) -> None:
        """Remove a center: the nodes for which it is one of the nearest two find the next one."""
        self.remaining = self.remaining[self.remaining != center]
        self._find_nearest(np.flatnonzero((self.labels == center) | (self.next_labels == center)))

    def _find_nearest(self, rows: Integers) -> None:
        part = self.nodes.take(rows)
        nearest = two_nearest(part, self.centers[self.remaining])
        self.labels[rows] = self.remaining[nearest.labels]
        self.next_labels[rows] = self.remaining[nearest.next_labels]
        self.excess[rows] = beyond_spread(part, nearest.distances)
        self.next_excess[rows] = beyond_spread(part, nearest.next_distances)
        # With fewer centers nodes are farther away, so the limit never falls.
        far = np.flatnonzero(self.excess >= self.limit)
        self.limit = _limit(self.nodes.mass[far], self.excess[far], self.allowed, self.options)


def trimmed_result(nodes: Nodes, centers: Floats, n_iter: int, options: SolveOptions) -> Result:
    """Result for centers, with the outliers that belong to them."""
    rest = _rest(nodes, centers, options)
    result = make_result(rest, centers, n_iter, keep_order=options.init is not None)
    of_nodes = excess(nodes, result.centers)
    limit = threshold(nodes, of_nodes, options)
    is_out: Array = of_nodes > limit
    if not nodes.mass[~is_out].any():
        raise InputError(
            f"All nodes are outliers: none is within {limit:g} of a center, beyond its spread. Use a larger distance."
        )
    assert result.labels is not None  # nodes were solved
    count = np.bincount(result.labels[~is_out], minlength=len(centers))
    return replace(
        result,
        lower_bound=0.0,
        labels=np.where(is_out, np.int32(OUTLIER), result.labels),
        clusters=replace(result.clusters, count=count),
        n_distinct=int(np.count_nonzero(count)),
        outlier_distance=limit,
        outlier_mass=math.fsum(nodes.mass[is_out]),
    ).of_source(rest)
