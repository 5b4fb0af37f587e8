"""The audit sample: nodes that no center ever looks at, kept to say what centers cost on all the data."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from probi.medians import SPREAD_TOL, certified_medians, measured
from probi.nodes import Nodes
from probi.objective import Assignment
from probi.summary.config import AUDIT_SIZE

Floats = NDArray[np.float64]

# Nodes whose coordinates are looked at to find a typical place.
N_TYPICAL = 255

# Above this, sizes would leave float64.
LARGEST_SIZE = 1e300


@dataclass(frozen=True)
class Surroundings:
    """Where the nodes of a stream lie, as far as it was read: how likely each is to be audited goes by it.

    Attributes
    ----------
    place : ndarray of shape (n_features,)
        A typical place: the median of each coordinate of nodes that came first.
    mass : float
        Of the nodes read.
    distance : float
        Sum of mass times distance to the place.
    """

    place: Floats
    mass: float = 0.0
    distance: float = 0.0

    @classmethod
    def around(cls, nodes: Nodes) -> Self:
        """A typical place among nodes, of which none counts yet."""
        some = nodes[:: 1 + len(nodes) // N_TYPICAL]
        return cls(np.median(some.gravity_centers.astype(np.float64), axis=0))

    def distances(self, nodes: Nodes) -> Floats:
        """Distance of each node's median to the place."""
        medians, _, _ = certified_medians(nodes, SPREAD_TOL)
        differences = medians - self.place
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", differences, differences)))

    def after(self, nodes: Nodes, distances: Floats) -> "Surroundings":
        """Surroundings once these nodes are read, too."""
        mass, distance = float(nodes.mass.sum()), float((nodes.mass * distances).sum())
        return replace(self, mass=self.mass + mass, distance=self.distance + distance)

    def sizes(self, nodes: Nodes, distances: Floats) -> Floats:
        """Size of each node: its mass times (1 + distance / mean distance of all nodes so far).

        What a node costs beyond its spread is at most its mass times its distance to a center. So a node that may carry
        much of the cost is hardly missed, and none is less likely to be audited than half of its share in the mass.
        """
        if not self.distance > 0.0:
            return nodes.mass
        return np.minimum(nodes.mass * (1.0 + distances * (self.mass / self.distance)), LARGEST_SIZE)

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
