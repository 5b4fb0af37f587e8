"""The audit sample: nodes that no center ever looks at, kept to say what centers cost on all the data."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import geometry
from probi.medians import SPREAD_TOL, certified_medians, measured
from probi.nodes import GRAIN, Nodes
from probi.objective import Assignment
from probi.solver.problem import capped
from probi.summary.config import AUDIT_SIZE

Floats = NDArray[np.float64]

# Nodes whose coordinates are looked at to find typical places.
N_TYPICAL = 255

# Places among the nodes of a leaf. With one, nodes that lie a bit apart vanish beside another group far away.
N_PLACES = 3

# At most every so-manieth node is left out where a typical distance is looked for.
LEAST_A_LARGE_ONE = 8

# Above this, sizes would leave float64.
LARGEST_SIZE = 1e300


def typical_places(points: Floats, n: int) -> Floats:
    """The median of each coordinate, then n - 1 of the points that lie apart.

    Each of them is the one in which the sum of distances to the places so far passes its half: of two groups that lie
    apart, one in the other group.
    """
    places = [np.median(points, axis=0)]
    nearest = np.full(len(points), np.inf)
    while len(places) < n:
        differences = points - places[-1]
        nearest = np.minimum(nearest, np.sqrt((differences * differences).sum(axis=1)))
        passed = np.cumsum(nearest)
        places.append(points[np.searchsorted(passed, 0.5 * passed[-1])])
    return np.array(places)


def usual_sums(mass: Floats, distances: Floats) -> tuple[float, Floats]:
    """Sum of masses, and of mass times each row of distances (m, n), without nodes that carry much of one of them.

    Such a node is sure to be audited. It must not hide how far apart the others are, so it does not count, unless the
    others have no distance at all.
    """
    scores = np.vstack([mass, mass * distances])
    most = min(AUDIT_SIZE, len(mass) // LEAST_A_LARGE_ONE)
    sums = scores.sum(axis=1)
    large = [capped(score, most)[0] for score in scores[scores.max(axis=1) * most >= sums]]
    if large:
        usual = ~np.any(large, axis=0)
        if scores[1:, usual].any():
            sums = scores[:, usual].sum(axis=1)
    return float(sums[0]), sums[1:]


@dataclass(frozen=True)
class Surroundings:
    """Where the nodes of a stream lie, as far as it was read: how likely each is to be audited goes by it.

    Attributes
    ----------
    place : ndarray of shape (n_features,)
        A typical place: the median of each coordinate of nodes that came first.
    mass : float
        Of the nodes read, without those that carry much of a sum by themselves.
    distance : float
        Sum of their mass times distance to the place.
    """

    place: Floats
    mass: float = 0.0
    distance: float = 0.0

    @classmethod
    def around(cls, nodes: Nodes) -> Self:
        """A typical place among nodes, of which none counts yet."""
        some = nodes[:: 1 + len(nodes) // N_TYPICAL]
        return cls(np.median(some.gravity_centers.astype(np.float64), axis=0))

    def measured(self, leaf: Nodes) -> Floats:
        """How far each node's median is (2, n_nodes): its distance to the place, and what its leaf says.

        That is a sum of distances to the nearest of places in the leaf, each divided by its mean over the leaf. Of
        these places the first counts alone, then the first two, and so on: a small cluster that has one of them to
        itself is still far from those before.
        """
        medians, _, _ = certified_medians(leaf, SPREAD_TOL)
        some = medians[:: 1 + len(leaf) // N_TYPICAL].astype(np.float64)
        places = np.vstack([self.place, typical_places(some, N_PLACES)])
        distances = np.empty((len(places), len(leaf)))
        pieces = _parallel.ranges(len(leaf), 1 + GRAIN // places.size)
        _parallel.run(geometry.distances_to_places, pieces, medians, places, distances)
        mass, sums = usual_sums(leaf.mass, distances[1:])
        found = np.vstack([distances[0], np.zeros(len(leaf))])
        for row, total in zip(distances[1:], sums, strict=True):
            if total > 0.0:
                found[1] += row * min(mass / total, LARGEST_SIZE)
        return found

    def after(self, nodes: Nodes, distances: Floats) -> "Surroundings":
        """Surroundings once these nodes are read, too."""
        mass, (distance,) = usual_sums(nodes.mass, distances[:1])
        return replace(self, mass=self.mass + mass, distance=self.distance + float(distance))

    def sizes(self, nodes: Nodes, distances: Floats) -> Floats:
        """Size of each node: its mass times (1 + distance / mean distance so far + what its leaf says).

        What a node costs beyond its spread is at most its mass times its distance to a center. So a node that may carry
        much of the cost is hardly missed, and none is much less likely to be audited than its share in the mass says.
        """
        factors: Floats = 1.0 + distances[1]
        if self.distance > 0.0:
            factors += distances[0] * min(self.mass / self.distance, LARGEST_SIZE)
        # Twice: no product of 0 and infinity.
        return np.minimum(nodes.mass * np.minimum(factors, LARGEST_SIZE), LARGEST_SIZE)

    def scaled(self, factor: float) -> "Surroundings":
        """Surroundings with all weights multiplied."""
        return replace(self, mass=self.mass * factor, distance=self.distance * factor)


@dataclass(frozen=True)
class AuditSample:
    """Priority sample (Duffield, Lund and Thorup): nodes with the smallest keys uniform / size.

    Any sizes that are fixed before the uniform numbers are drawn give unbiased estimates. It holds one node more than
    it uses: its key is the threshold of the others. Samples of parts of the data join to the sample of all of it, in
    any order.

    Attributes
    ----------
    nodes : Nodes or None
        In order of their keys; None while there are none.
    keys, sizes : ndarray of shape (n_nodes,)
    limit : int
        Nodes that are used.
    """

    nodes: Nodes | None = None
    keys: Floats = field(default_factory=lambda: np.empty(0))
    sizes: Floats = field(default_factory=lambda: np.empty(0))
    limit: int = AUDIT_SIZE

    @property
    def threshold(self) -> float:
        """Key from which on nodes are not in the sample; infinite while all of them are."""
        return float(self.keys[self.limit]) if len(self.keys) > self.limit else math.inf

    def added(self, nodes: Nodes, uniforms: Floats, sizes: Floats | None = None) -> "AuditSample":
        """Sample with more nodes, given a number in (0, 1] and a size for each; None means their masses."""
        sizes = nodes.mass if sizes is None else sizes
        with np.errstate(divide="ignore"):
            keys = uniforms / sizes
        chosen = np.flatnonzero(keys < self.threshold)
        if len(chosen) == 0:
            return self
        chosen = chosen[np.argsort(keys[chosen], kind="stable")[: self.limit + 1]]
        more = AuditSample(measured(nodes.take(chosen)), keys[chosen], sizes[chosen], self.limit)
        return self.joined(more)

    def joined(self, *others: "AuditSample") -> "AuditSample":
        """Sample of the data of all of them; of different limits the smallest holds."""
        limit = min(sample.limit for sample in (self, *others))
        parts = [sample for sample in (self, *others) if sample.nodes is not None]
        if not parts:
            return replace(self, limit=limit)
        keys, sizes = (np.concatenate([getattr(sample, name) for sample in parts]) for name in ("keys", "sizes"))
        order = np.argsort(keys, kind="stable")[: limit + 1]
        if len(parts) == 1 and len(order) == len(keys):
            return replace(parts[0], limit=limit)
        nodes = Nodes.concat([sample.nodes for sample in parts if sample.nodes is not None])
        return AuditSample(measured(nodes.take(order)), keys[order], sizes[order], limit)

    def scaled(self, factor: float) -> "AuditSample":
        """Sample of the same data with all weights multiplied."""
        if self.nodes is None:
            return self
        nodes = self.nodes.with_weights(self.nodes.weights * factor)
        return replace(self, nodes=nodes, keys=self.keys / factor, sizes=self.sizes * factor)

    def with_nodes(self, change: Callable[[Nodes], Nodes]) -> "AuditSample":
        """Sample of the same data in another form."""
        return self if self.nodes is None else replace(self, nodes=change(self.nodes))

    def excess(self, centers: Floats) -> tuple[float, float]:
        """Estimate what all nodes cost beyond their spreads, and the standard error of that.

        A node in the sample stands for max(size, 1 / threshold) / size of itself; this is unbiased, estimates of
        different nodes are uncorrelated, and the variance has an unbiased estimate of its own (Duffield, Lund and
        Thorup, 2007).
        """
        if self.nodes is None:
            return 0.0, 0.0
        used, sizes = self.nodes[: self.limit], self.sizes[: self.limit]
        found = Assignment(used)
        found.update(centers, np.zeros(len(centers)), exact=True)
        _, spreads, _ = certified_medians(used, SPREAD_TOL)
        excess = used.mass * (found.nearest - spreads)
        least = 1.0 / self.threshold
        variances = (excess / sizes) ** 2 * least * np.maximum(least - sizes, 0.0)
        return math.fsum(excess / sizes * np.maximum(sizes, least)), math.sqrt(math.fsum(variances))
