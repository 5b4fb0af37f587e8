"""The problem to solve: nodes, their samples and approximations, and steps of their centers."""

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from probi import _parallel
from probi._kernels.pull import N_SCALARS, ON_POINT, RECIPROCAL
from probi._parallel import GRAIN
from probi._types import Array, Floats, Integers, Labels, Mask
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes
from probi.validation import SMALLEST, frozen

ALL_ZERO = "All weights are zero, so there is nothing to solve."

# Features that together add no more than this share to the cost are left out of a search.
MINOR = 1e-3

# A search runs in float32 if the largest coordinate is between SHORTEST and LONGEST, so that squares of it and of far
# smaller differences neither vanish nor overflow; if rounding changes the cost by at most the share ROUNDING; and if
# there are at least MIN_ROUNDED nodes: among fewer, the rounding of a single node that lies on its center matters.
SHORTEST, LONGEST, ROUNDING, MIN_ROUNDED = 1e-12, 1e12, 1e-4, 500

# With at most MAX_SPANNING nodes and at least WIDE times as many features, a search runs in the space that the nodes
# span; not if the distance of a node from the span of others is below the share MIN_RESIDUAL of its distance from one
# of them, which rounding would blur.
MAX_SPANNING, WIDE, MIN_RESIDUAL = 256, 4, 1e-6

# Quotients by smaller sums may overflow.
TINY = 1e-290


@dataclass(frozen=True)
class Problem:
    """Nodes to assign, each with its median and its irreducible cost (the spread).

    Attributes
    ----------
    nodes : Nodes
    medians : ndarray of shape (n_nodes, n_features)
        The best position of a center for each node alone.
    spreads : ndarray of shape (n_nodes,)
        Cost of each node with a center there, per unit of mass.
    n_free : int
        Number of leading features in which centers may move; they stay on the ground, at 0 in all others.
    """

    nodes: Nodes
    medians: Array
    spreads: Floats
    n_free: int

    @classmethod
    def of(cls, nodes: Nodes) -> Self:
        """The problem of these nodes, without approximation."""
        medians, spreads, _ = certified_medians(nodes, SPREAD_TOL)
        return cls(nodes, medians, spreads, nodes.n_features)

    def every(self, step: int) -> "Problem":
        """The problem of every ``step``-th node."""
        if step <= 1:
            return self
        return Problem(self.nodes[::step], self.medians[::step], self.spreads[::step], self.n_free)

    def lifted(self) -> "Problem":
        """Approximate the problem with one point per node: the median, lifted by the spread.

        In one more dimension the node becomes the point (y, s) while centers stay on the ground, (c, 0). Then its
        distance sqrt(|y - c|^2 + s^2) is s at the median, as for the node, and |y - c| + O(1 / |y - c|) far away. On
        real data the cost of a solution differs by 0.1 % from the true one, and a pass over the points is cheaper
        by the number of realizations per node. So starts and swaps are tried here, and only the last rounds run on
        the nodes themselves.
        """
        if self.nodes.is_certain:
            return self
        points = np.empty((len(self.nodes), self.nodes.n_features + 1), self.nodes.dtype)
        points[:, :-1] = self.medians
        points[:, -1] = self.spreads
        return self._on_ground(points, self.spreads, self.n_free)

    def in_span(self) -> "tuple[Problem, Callable[[Floats], Floats]]":
        """The problem in the space that the medians span, and a function that maps centers back from it.

        For a few nodes with many features: n nodes span at most n - 1 dimensions, and distances are the same up to
        rounding. Other problems are returned unchanged.
        """
        n_nodes = len(self.nodes)
        if not 2 <= n_nodes <= MAX_SPANNING or WIDE * n_nodes > self.n_free:
            return self, lambda centers: centers
        base = self.medians[0, : self.n_free].astype(np.float64)
        rows = self.medians[1:, : self.n_free] - base
        is_tiny = np.abs(rows).max() < SMALLEST  # squares would vanish
        axes, coordinates = _axes(rows)
        if axes is None or is_tiny:
            return self, lambda centers: centers
        points = np.zeros((n_nodes, len(axes) + self.nodes.n_features - self.n_free))
        points[1:, : len(axes)] = coordinates
        points[:, len(axes) :] = self.nodes.points[:, self.n_free :]

        def from_span(centers: Floats) -> Floats:
            out = np.zeros((len(centers), self.nodes.n_features))
            # Not by matmul, whose bits depend on the number of threads.
            out[:, : self.n_free] = base + np.einsum("kr,rf->kf", centers[:, : len(axes)], axes)
            return out

        return self._on_ground(points, self.spreads, len(axes)), from_span

    def sample(self, size: int, labels: Labels, nearest: Floats, uniform: float) -> tuple[Integers, Floats]:
        """Draw about ``size`` nodes, all of which must be certain; return their indices and their masses in the sample.

        Probabilities grow with the shares of a node in the mass of its cluster and in the cost of rough centers, so
        nodes that are far from all others, or have most of the mass, are always drawn. ``labels`` and ``nearest`` are
        the nearest of these centers and the distances to them; ``uniform`` is a random number in [0, 1).
        """
        masses, excess = np.bincount(labels, self.nodes.mass), self.excess(nearest)
        scores = self.nodes.mass / np.maximum(len(masses) * masses, np.finfo(np.float64).tiny)[labels]
        if excess.any():
            scores += excess / excess.sum()
        chosen, probabilities = draw_distinct(scores, size, uniform)
        return chosen, self.nodes.mass[chosen] / probabilities

    def part(self, chosen: Integers, mass: Floats) -> "Problem":
        """The problem of some nodes, which must be certain, with other masses."""
        nodes = Nodes.from_points(self.nodes.points[chosen], mass)
        return Problem(nodes, frozen(self.medians[chosen]), frozen(self.spreads[chosen]), self.n_free)

    def in_float32(self, origin: Floats) -> "Problem | None":
        """The problem of certain nodes relative to an origin, in float32; None if that loses too much."""
        if len(self.nodes) < MIN_ROUNDED:
            return None
        points, largest = np.empty(self.nodes.points.shape, np.float32), 0.0
        for start, stop in _parallel.ranges(len(points), 1 + GRAIN // self.nodes.n_features):
            differences = self.nodes.points[start:stop] - origin
            largest = max(largest, float(differences.max()), -float(differences.min()))
            if largest > LONGEST:
                return None
            points[start:stop] = differences
        return self._on_ground(points, self.spreads, self.n_free) if largest > SHORTEST else None

    def in_float64(self) -> "Problem":
        """The problem of certain nodes in float64."""
        if self.nodes.dtype == np.float64:
            return self
        nodes = Nodes.from_points(self.nodes.points.astype(np.float64), self.nodes.mass)
        return Problem(nodes, frozen(self.medians.astype(np.float64)), self.spreads, self.n_free)

    def is_precise(self, nearest: Array) -> bool:
        """Whether float32 is precise enough for a search; ``nearest`` are distances in it to rough centers."""
        mass, points = self.nodes.mass, self.nodes.points
        lengths = np.sqrt(np.einsum("nf,nf->n", points, points))
        # Rounding errors of a node, of its center and of their difference, each up to 2**-24 of the length.
        return bool(4 * 2.0**-24 * np.sum(mass * lengths) <= ROUNDING * np.sum(mass * nearest))

    @property
    def origin(self) -> Floats:
        """Mean of the medians, on the ground."""
        origin = np.zeros(self.nodes.n_features)
        origin[: self.n_free] = self._middle
        return origin

    def _on_ground(self, points: Array, spreads: Floats, n_free: int) -> "Problem":
        """The problem of certain nodes at these points, with the mass of the nodes here."""
        ground = points.copy()
        ground[:, n_free:] = 0.0
        return Problem(Nodes.from_points(points, self.nodes.mass), frozen(ground), spreads, n_free)

    def major_features(self, nearest: Floats) -> Integers:
        """Indices of the features that matter for certain nodes at these distances from rough centers.

        If centers ignored all other features, the cost would grow by at most the share ``MINOR``.
        """
        mass, squared = self.nodes.mass, self._from_middle(slice(None)) ** 2
        order = np.argsort((mass[:, None] * squared).sum(axis=0), kind="stable")
        sums, most = np.cumsum(squared[:, order], axis=1), MINOR * float(np.sum(mass * nearest))

        def added(last: int) -> float:
            return float(np.sum(mass * (np.sqrt(nearest**2 + sums[:, last]) - nearest)))

        n_minor = bisect.bisect_right(range(self.n_free - 1), most, key=added)
        return np.sort(order[n_minor:])

    def narrowed(self, features: Integers) -> "Problem":
        """Approximate certain nodes by some of their features; the others only lift them further above the ground."""
        points = np.empty((len(self.nodes), len(features) + 1), self.nodes.dtype)
        points[:, :-1] = self.nodes.points[:, features]
        squared = (self._from_middle(self._others(features)) ** 2).sum(axis=1)
        points[:, -1] = np.sqrt(squared + self.spreads**2)
        return self._on_ground(points, frozen(points[:, -1].astype(np.float64)), len(features))

    def widened(self, centers: Floats, features: Integers, labels: Labels, nearest: Floats) -> Floats:
        """Centers found in some features, completed by a Weiszfeld step from the mean in all others."""
        out, k = np.zeros((len(centers), self.nodes.n_features)), len(centers)
        out[:, features] = centers[:, :-1]
        others = self._others(features)
        pulls = self.nodes.mass / np.where(nearest > 0.0, nearest, np.inf)
        totals = np.bincount(labels, pulls, k)
        totals[totals == 0.0] = 1.0
        order = np.argsort(labels, kind="stable")
        pulled = (pulls[:, None] * self._from_middle(others))[order]
        used, firsts = np.unique(labels[order], return_index=True)
        out[:, others] = self._middle[others]
        out[np.ix_(used, others)] += np.add.reduceat(pulled, firsts) / totals[used, None]
        return out

    def _others(self, features: Integers) -> Integers:
        return np.setdiff1d(np.arange(self.n_free), features)

    @cached_property
    def _middle(self) -> Floats:
        """Mean of the medians, in the features in which centers move."""
        base = self.medians[0, : self.n_free].astype(np.float64)
        differences = self.medians[:, : self.n_free] - base
        differences *= self.nodes.mass[:, None]
        return np.asarray(base + differences.sum(axis=0) / self.nodes.mass.sum())

    def _from_middle(self, features: Integers | slice) -> Floats:
        """Medians relative to their mean, in some of the features in which centers move."""
        return np.asarray(self.medians[:, : self.n_free][:, features] - self._middle[features])

    def raised(self, centers: Floats) -> Floats:
        """Centers with as many features as the nodes, on the ground."""
        out = np.zeros((len(centers), self.nodes.n_features))
        out[:, : self.n_free] = centers[:, : self.n_free]
        return out

    def excess(self, nearest: Floats) -> Floats:
        """Cost of each node beyond its own spread: the part that centers can change."""
        return self.nodes.mass * np.maximum(nearest - self.spreads, 0.0)

    def reseed_empty(self, masses: Floats, nearest: Floats, centers: Floats) -> None:
        """Move centers without mass, in place, to the medians of the nodes with the largest excess above 0."""
        empty = np.flatnonzero(masses == 0.0)
        if len(empty):
            excess = self.excess(nearest)
            worst = np.argsort(-excess, kind="stable")[: len(empty)]
            worst = worst[excess[worst] > 0.0]
            centers[empty[: len(worst)]] = self.medians[worst]


def _axes(rows: Floats) -> tuple[Floats | None, Floats]:
    """Orthonormal axes of the span of rows, by modified Gram-Schmidt, and the coordinates of rows along them.

    The axes are None if they would not be precise. Overwrites ``rows``.
    """
    coordinates = np.zeros((len(rows), len(rows)))
    lengths = np.sqrt(np.einsum("nf,nf->n", rows, rows))
    for i, axis in enumerate(rows):
        coordinates[i, i] = residual = np.sqrt(np.einsum("f,f->", axis, axis))
        if not residual > MIN_RESIDUAL * lengths[i]:
            return None, coordinates
        axis /= residual
        others, along = rows[i + 1 :], coordinates[i + 1 :, i, None]
        along[:, 0] = np.einsum("nf,f->n", others, axis)
        for start, stop in _parallel.ranges(len(others), 1 + GRAIN // len(axis)):  # no second array of all rows
            others[start:stop] -= along[start:stop] * axis
    return rows, coordinates


def weiszfeld_moves(sums: Floats, relaxation: float = 1.0) -> Floats:
    """Weiszfeld step of each center, in the form of Vardi and Zhang where mass lies on the center itself.

    ``sums`` are those of the kernels in ``_kernels.pull``, one row per center.
    """
    d = sums.shape[1] - N_SCALARS
    pull, reciprocal, on_center = sums[:, :d], sums[:, d + RECIPROCAL], sums[:, d + ON_POINT]
    pulled = reciprocal > 0.0
    # As lengths, in the units of space: squares of tiny masses would underflow.
    moves, hold = np.zeros(pull.shape), np.zeros(len(sums))
    moves[pulled] = pull[pulled] / reciprocal[pulled, None]
    hold[pulled] = on_center[pulled] / reciprocal[pulled]
    length = np.sqrt((moves**2).sum(axis=1))
    moving = length > hold
    factor = np.zeros(len(sums))
    # Off the realizations the step minimizes an upper bound and may be relaxed; on one it does not.
    factor[moving] = np.where(hold > 0.0, 1.0, relaxation)[moving] * (1.0 - hold[moving] / length[moving])
    return moves * factor[:, None]


def draw(scores: Floats, uniforms: Floats) -> Integers:
    """Draw indices with probabilities proportional to scores; uniforms in [0, 1) decide."""
    total = np.cumsum(scores)
    if not total[-1] > 0.0:
        raise InputError(ALL_ZERO)
    drawn = np.searchsorted(total, uniforms * total[-1], side="right")
    # Rounding may push a number past the end: take the last index with a score.
    return np.asarray(np.minimum(drawn, np.searchsorted(total, total[-1])))


def draw_each(scores: Floats, uniforms: Floats) -> Integers:
    """Draw as :func:`draw` does from each row of scores (s, n), not all zero, by uniforms (s, j)."""
    totals = np.cumsum(scores, axis=1)
    ends = totals[:, -1:]
    drawn = (totals[:, None] <= (uniforms * ends)[..., None]).sum(axis=2)
    return np.asarray(np.minimum(drawn, (totals < ends).sum(axis=1)[:, None]))


def draw_distinct(scores: Floats, size: int, uniform: float) -> tuple[Integers, Floats]:
    """Draw ``size`` distinct indices by their scores, and return them with the probability of each.

    Systematic sampling: ``uniform``, in [0, 1), is the only random number. Draws fewer if fewer have a score.
    """
    kept, probabilities = capped_probabilities(scores, size)
    passed = np.floor(np.cumsum(probabilities) + uniform)
    chosen = np.flatnonzero(kept | (np.diff(passed, prepend=0.0) > 0.0))
    return chosen, np.where(kept, 1.0, probabilities)[chosen]


def capped_probabilities(scores: Floats, size: int) -> tuple[Mask, Floats]:
    """Probabilities that sum to ``size``, proportional to scores but at most 1.

    Returns a mask of those that are 1, and the others (0 where the mask is set). What is cut off at 1 goes to the
    others, which may lift some of them above 1: repeat until none is.
    """
    kept = np.zeros(len(scores), bool)
    rest = scores.copy()
    while True:
        room = size - np.count_nonzero(kept)
        total = rest.sum()
        if room <= 0 or not total > 0.0:
            return kept, np.zeros(len(scores))
        over = rest >= total / room
        if not over.any():
            return kept, rest * (room / total) if total > TINY else rest / total * room
        kept |= over
        rest[over] = 0.0
