"""The audit sample: nodes not used to choose centers, kept to estimate what centers cost on all the data."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from probi import _parallel
from probi._kernels import geometry
from probi._parallel import GRAIN
from probi._types import Array, Floats, Integers
from probi.medians import SPREAD_TOL, certified_medians, measured
from probi.nodes import Nodes
from probi.objective import Assignment
from probi.solver.problem import capped_probabilities
from probi.summary.config import AUDIT_SIZE
from probi.validation import frozen

# Nodes from which typical locations are computed, at most.
N_TYPICAL = 255

# Nodes of a leaf from which its mean distances are estimated, at least.
N_SURVEYED = 1 << 10

# Typical locations per leaf. With only one, a group far away hides nodes that are moderately far from the rest.
N_LOCATIONS = 3

# At most one node in this many is excluded from a typical distance.
MIN_NODES_PER_LARGE = 8

# Caps sizes, so that sums of them stay finite in float64.
LARGEST_SIZE = 1e300
# Reciprocals of smaller sizes would be infinite keys, of nodes that are never audited.
SMALLEST_SIZE = 1e-300
# Keys stay above 0 however often the weights are multiplied.
SMALLEST_KEY = 1e-307

# Samples with no more realizations are copied twice to be joined: calls take longer than copies of so few.
MAX_COPIED_TWICE = 1 << 14


def typical_locations(points: Floats, n: int) -> Floats:
    """The median of each coordinate, then n - 1 points far from it and from each other.

    Each is the point at which the running sum of distances to the nearest location so far passes half its total: of
    two distant groups, a point in the other one.
    """
    locations = [_median(points)]
    nearest = np.full(len(points), np.inf)
    while len(locations) < n:
        differences = points - locations[-1]
        nearest = np.minimum(nearest, np.sqrt((differences * differences).sum(axis=1)))
        passed = np.cumsum(nearest)
        locations.append(points[np.searchsorted(passed, 0.5 * passed[-1])])
    return np.array(locations)


def _median(points: Floats) -> Floats:
    """Median of each coordinate, as np.median computes it, which takes longer than all else for a small shard."""
    ordered, half = np.sort(points, axis=0), len(points) // 2
    median: Floats = ordered[half] if len(points) % 2 else (ordered[half - 1] + ordered[half]) / 2.0
    return median


def usual_sums(mass: Floats, distances: Floats) -> tuple[float, Floats]:
    """Sum of masses, and of mass times each row of distances (m, n), without nodes that dominate one of the sums.

    Such a node is certain to be audited. It must not hide how far apart the others are, so it is excluded unless all
    distances of the others are 0.
    """
    scores = np.vstack([mass, mass * distances])
    most = _n_large(len(mass))
    sums = scores.sum(axis=1)
    large = [capped_probabilities(score, most)[0] for score in scores[scores.max(axis=1) * most >= sums]]
    if large:
        usual = ~np.any(large, axis=0)
        if scores[1:, usual].any():
            sums = scores[:, usual].sum(axis=1)
    return float(sums[0]), sums[1:]


class Survey(NamedTuple):
    """What the sizes of the nodes of one leaf depend on, besides the surroundings and their own locations.

    Attributes
    ----------
    locations : ndarray of shape (1 + N_LOCATIONS, n_features)
        That of the surroundings, then typical ones of the leaf.
    factors : ndarray of shape (N_LOCATIONS,)
        Reciprocal means, over the leaf, of distances to its first location, to the nearest of two, and so on.
    farthest : ndarray of shape (1 + N_LOCATIONS,)
        The largest of each kind of distance, or more.
    mass, distance : float
        Of the leaf, as in :class:`Surroundings`.
    """

    locations: Floats
    factors: Floats
    farthest: Floats
    mass: float
    distance: float


@dataclass(frozen=True)
class Surroundings:
    """Location and scale of the nodes read so far, which determine how likely a node is to be audited.

    Attributes
    ----------
    location : ndarray of shape (n_features,)
        A typical location: the median of each coordinate of the first nodes.
    mass : float
        Of the nodes read, without those that dominate a sum.
    distance : float
        Sum of their mass times distance to the location.
    """

    location: Floats
    mass: float = 0.0
    distance: float = 0.0

    @classmethod
    def of(cls, nodes: Nodes) -> Self:
        """A typical location among nodes, none of which counts yet."""
        step = 1 + len(nodes) // N_TYPICAL
        some = nodes[::step] if step > 1 else nodes
        return cls(_median(some.gravity_centers.astype(np.float64)))

    def survey(self, leaf: Nodes) -> Survey:
        """Typical locations of a leaf and mean distances to them."""
        medians, mass = certified_medians(leaf, SPREAD_TOL)[0], leaf.mass
        some = medians[:: 1 + len(leaf) // N_TYPICAL].astype(np.float64)
        locations = np.vstack([self.location, typical_locations(some, N_LOCATIONS)])
        sums, farthest = _sums_and_farthest(medians, mass, locations, leaf.magnitude)
        usual, distance = (sums[0], sums[2:]), sums[1]
        if _may_dominate(mass, farthest, sums):
            distances = distances_to_locations(medians, locations)
            usual = usual_sums(mass, distances[1:])
            sums[0], (distance,) = usual_sums(mass, distances[:1])
        factors = np.array([_reciprocal_mean(usual[0], total) for total in usual[1]])
        return Survey(locations, factors, farthest, float(sums[0]), float(distance))

    def after(self, survey: Survey) -> "Surroundings":
        """Surroundings after the nodes of a leaf are read."""
        return replace(self, mass=self.mass + survey.mass, distance=self.distance + survey.distance)

    def sizes(self, leaf: Nodes, survey: Survey, index: Integers | None = None) -> Floats:
        """Size of each node of a leaf, or of those with an index: its mass times (1 + distances / their means).

        These are the distance to the location, relative to that of all nodes so far, and those to the nearest of the
        locations of the leaf, relative to the leaf: a small cluster that contains one of them is still far from the
        earlier ones.

        The excess of a node over its spread is at most its mass times its distance to a center. So a node that may
        carry much of the cost is rarely missed, and every node is audited about in proportion to its mass at least.
        """
        medians, mass = certified_medians(leaf, SPREAD_TOL)[0], leaf.mass
        if index is not None:
            medians, mass = medians[index], mass[index]
        factors = self._relative(distances_to_locations(medians, survey.locations), survey)
        # Capped twice, to avoid 0 times infinity.
        sizes = np.minimum(mass * np.minimum(factors, LARGEST_SIZE), LARGEST_SIZE)
        return (
            np.where(mass > 0.0, np.maximum(sizes, SMALLEST_SIZE), 0.0)
            if sizes.min(initial=1.0) < SMALLEST_SIZE
            else sizes
        )

    def largest_size_per_mass(self, survey: Survey) -> float:
        """Bound on the size of any node of a leaf, divided by its mass."""
        return float(np.minimum(self._relative(survey.farthest, survey), LARGEST_SIZE))

    def _relative(self, distances: Floats, survey: Survey) -> Floats:
        """1 + distances of each kind (1 + N_LOCATIONS, ...) relative to their means."""
        relative: Floats = np.ones(distances.shape[1:])
        for distance, factor in zip(distances[1:], survey.factors, strict=True):
            relative += distance * factor
        relative += distances[0] * _reciprocal_mean(self.mass, self.distance)
        return relative

    def scaled(self, factor: float) -> "Surroundings":
        """Surroundings with all weights multiplied."""
        return replace(self, mass=self.mass * factor, distance=self.distance * factor)


def _sums_and_farthest(medians: Array, mass: Floats, locations: Floats, magnitude: float) -> tuple[Floats, Floats]:
    """Sums of mass and of mass times each kind of distance, and the largest of each kind or a bound on it.

    In a large leaf the sums are estimated from some of its nodes: sizes only have to be about right. No node may have a
    larger distance than the bound. It comes from the largest coordinate, if that is enough to see that no node
    dominates a sum. Else one kind is computed for all; the others follow by the triangle inequality.
    """
    step = 1 + len(medians) // N_SURVEYED
    some = frozen(medians[::step]), frozen(mass[::step])
    pieces = _parallel.ranges(len(some[1]), 1 + GRAIN // locations.size)
    parts = np.array(_parallel.run(geometry.sums_over_locations, pieces, *some, locations))
    sums, farthest = parts[:, 0].sum(axis=0), np.sqrt(parts[:, 1, 1:].max(axis=0))
    if step > 1:
        # Without mass in the part, the sums are 0, and all nodes are looked at.
        sums *= mass.sum() / sums[0] if sums[0] > 0.0 else 0.0
        between = np.sqrt(((locations[1:] - locations[0]) ** 2).sum(axis=1))
        beyond = np.append(0.0, np.minimum.accumulate(between))
        # Rounded up: medians are sums too.
        farthest = (1.0 + 1e-9) * math.sqrt(((magnitude + np.abs(locations[0])) ** 2).sum()) + beyond
        if _may_dominate(mass, farthest, sums):
            farthest = distances_to_locations(medians, locations[:1]).max() + beyond
    return sums, farthest


def _may_dominate(mass: Floats, farthest: Floats, sums: Floats) -> bool:
    """Whether a node may dominate the sum of masses, or of mass times a kind of distance, by the largest of these."""
    return bool((mass.max() * np.append(1.0, farthest) * _n_large(len(mass)) >= sums).any())


def distances_to_locations(medians: Array, locations: Floats) -> Floats:
    """Distances (n_locations, n) to the first location, to the second, to the nearest of the second and third, ..."""
    distances = np.empty((len(locations), len(medians)))
    pieces = _parallel.ranges(len(medians), 1 + GRAIN // locations.size)
    _parallel.run(geometry.distances_to_locations, pieces, frozen(medians), locations, distances)
    return distances


def _n_large(n_nodes: int) -> int:
    """Largest number of nodes that may dominate a sum over ``n_nodes``."""
    return min(AUDIT_SIZE, n_nodes // MIN_NODES_PER_LARGE)


def _reciprocal_mean(mass: float, total: float) -> float:
    """Mass divided by mass times distance, capped; 0 if there is no distance."""
    return min(mass / total, LARGEST_SIZE) if total > 0.0 else 0.0


@dataclass(frozen=True)
class AuditSample:
    """Priority sample (Duffield, Lund and Thorup): nodes with the smallest keys uniform / size.

    Any sizes fixed before the uniform numbers are drawn give unbiased estimates. It holds one node more than it uses,
    whose key is the threshold of the others. Samples of parts of the data join to the sample of all data, in any
    order.

    Attributes
    ----------
    nodes : Nodes or None
        By increasing key; None while there are none.
    keys, sizes : ndarray of shape (n_nodes,)
    limit : int
        Number of nodes used.
    """

    nodes: Nodes | None = None
    keys: Floats = field(default_factory=lambda: np.empty(0))
    sizes: Floats = field(default_factory=lambda: np.empty(0))
    limit: int = AUDIT_SIZE

    @property
    def threshold(self) -> float:
        """Smallest key outside the sample; infinite while all nodes are in it."""
        return float(self.keys[self.limit]) if len(self.keys) > self.limit else math.inf

    def __len__(self) -> int:
        return len(self.keys)

    def candidates(self, leaf: Nodes, uniforms: Floats, survey: Survey, around: Surroundings) -> "AuditSample":
        """Nodes of a leaf with keys below the threshold; sizes are computed only for those that may have one.

        A long stream has a low threshold, so these are few: the others have no key below it even with the largest size
        in the leaf. The threshold only falls, so nodes of later leaves may be compared with that of an earlier one.
        """
        may_be_in = None
        if len(self.keys) > self.limit:
            largest = self.threshold * around.largest_size_per_mass(survey)
            with np.errstate(over="ignore", invalid="ignore"):
                # First by the largest mass, which leaves few. A little more, for rounding.
                may_be_in = np.flatnonzero(uniforms < self._largest_key(largest, leaf.mass.max()))
                is_in = uniforms[may_be_in] < self._largest_key(largest, leaf.mass[may_be_in])
            may_be_in = may_be_in[is_in]
            uniforms = uniforms[may_be_in]
        return self._below(leaf, uniforms, around.sizes(leaf, survey, may_be_in), may_be_in)

    def _largest_key(self, per_mass: float, mass: Any) -> Any:
        """Uniform numbers of at least this give no key below the threshold, for the largest sizes of these masses."""
        return (1.0 + 1e-6) * np.maximum(per_mass * mass, self.threshold * SMALLEST_SIZE)

    def added(self, nodes: Nodes, uniforms: Floats, sizes: Floats | None = None) -> "AuditSample":
        """Sample with more nodes; a uniform number in (0, 1] and a size are given for each, None means their masses."""
        return self.joined(self._below(nodes, uniforms, nodes.mass if sizes is None else sizes, None))

    def _below(self, nodes: Nodes, uniforms: Floats, sizes: Floats, index: Integers | None) -> "AuditSample":
        """Sample of nodes alone, or of those with an index, without keys above the threshold of this one."""
        with np.errstate(divide="ignore", over="ignore"):
            keys = uniforms / sizes
        chosen = np.flatnonzero(keys < self.threshold)
        if len(chosen) > self.limit + 1:  # to sort them all takes ten times as long
            last = np.partition(keys[chosen], self.limit)[self.limit]
            chosen = chosen[keys[chosen] <= last]
        chosen = chosen[np.argsort(keys[chosen], kind="stable")[: self.limit + 1]]
        if len(chosen) == 0:
            return AuditSample(limit=self.limit)
        taken = nodes.take(chosen if index is None else index[chosen])
        return AuditSample(measured(taken), keys[chosen], sizes[chosen], self.limit)

    def joined(self, *others: "AuditSample") -> "AuditSample":
        """Sample of the data of all of them, with the smallest of their limits."""
        limit = min(sample.limit for sample in (self, *others))
        parts = [sample for sample in (self, *others) if sample.nodes is not None]
        if len(parts) <= 1 and all(len(sample) <= limit + 1 for sample in parts):
            (only,) = parts or [self]
            return only if only.limit == limit else replace(only, limit=limit)
        keys, sizes = (np.concatenate([getattr(sample, name) for sample in parts]) for name in ("keys", "sizes"))
        order = np.argsort(keys, kind="stable")[: limit + 1]
        nodes = [measured(sample.nodes) for sample in parts if sample.nodes is not None]
        if sum(some.n_realizations for some in nodes) <= MAX_COPIED_TWICE:
            return AuditSample(Nodes.concat(nodes).take(order), keys[order], sizes[order], limit)
        ends = np.cumsum([len(sample) for sample in parts])
        of_part = np.searchsorted(ends, order, side="right")
        indices = [
            order[of_part == i] - (end - len(part)) for i, (end, part) in enumerate(zip(ends, parts, strict=True))
        ]
        places = [np.flatnonzero(of_part == i) for i in range(len(parts))]
        return AuditSample(Nodes._gathered(nodes, indices, places), keys[order], sizes[order], limit)

    def scaled(self, factor: float) -> "AuditSample":
        """Sample of the same data with all weights multiplied."""
        if self.nodes is None:
            return self
        with np.errstate(over="ignore"):
            keys, sizes = self.keys / factor, np.minimum(self.sizes * factor, LARGEST_SIZE)
        nodes = self.nodes.with_weights(self.nodes.weights * factor)
        # What has faded to nothing beside any newer node is no longer audited: its key would be infinite.
        remaining = np.flatnonzero(np.isfinite(keys) & (sizes > 0.0))
        if len(remaining) == 0:
            return AuditSample(limit=self.limit)
        if len(remaining) < len(keys):
            nodes, keys, sizes = nodes.take(remaining), keys[remaining], sizes[remaining]
        return replace(self, nodes=nodes, keys=np.maximum(keys, SMALLEST_KEY), sizes=sizes)

    def with_nodes(self, change: Callable[[Nodes], Nodes]) -> "AuditSample":
        """Sample of the same data in another form."""
        return self if self.nodes is None else replace(self, nodes=change(self.nodes))

    def excess(self, centers: Floats) -> tuple[float, float]:
        """Estimate the cost of all nodes beyond their spreads, and its standard error."""
        excess, _, error = self.trimmed_excess(centers, math.inf)
        return excess, error

    def trimmed_excess(self, centers: Floats, outlier_distance: float) -> tuple[float, float, float]:
        """Estimate the excess of all nodes but outliers, the spread of outliers, and the standard error of the cost.

        The cost is the spread of all nodes, plus the first, minus the second.

        A node in the sample counts max(size, 1 / threshold) / size times; this is unbiased, estimates of different
        nodes are uncorrelated, and the variance has an unbiased estimate too (Duffield, Lund and Thorup, 2007).
        """
        if self.nodes is None:
            return 0.0, 0.0, 0.0
        used, sizes = self.nodes[: self.limit], self.sizes[: self.limit]
        assignment = Assignment.of(used, centers, exact=True)
        _, spreads, _ = certified_medians(used, SPREAD_TOL)
        beyond = assignment.nearest - spreads
        is_out = beyond > outlier_distance
        excess, lost = used.mass * np.where(is_out, 0.0, beyond), used.mass * np.where(is_out, spreads, 0.0)
        least = 1.0 / self.threshold
        # Each the square root of a variance: hypot does not overflow or vanish where sums of squares do.
        errors = (excess - lost) / sizes * math.sqrt(least) * np.sqrt(np.maximum(least - sizes, 0.0))
        counts = np.maximum(sizes, least)
        error = math.hypot(*errors)
        return math.fsum(excess / sizes * counts), math.fsum(lost / sizes * counts), error


# Candidates join the audit sample once there is one per this many of its nodes: each time all are copied.
NODES_PER_CANDIDATE = 4


class GrowingSample(NamedTuple):
    """An audit sample, and candidates that have not joined it yet."""

    sample: AuditSample
    candidates: tuple[AuditSample, ...] = ()
    n_candidates: int = 0

    def plus(self, *more: AuditSample) -> "GrowingSample":
        """The same with more candidates."""
        nonempty = [sample for sample in more if len(sample)]
        if not nonempty:
            return self
        grown = GrowingSample(self.sample, (*self.candidates, *nonempty), self.n_candidates + sum(map(len, nonempty)))
        full = NODES_PER_CANDIDATE * grown.n_candidates > self.sample.limit
        return GrowingSample(grown.joined()) if full else grown

    def joined(self) -> AuditSample:
        """Audit sample with all candidates."""
        return self.sample.joined(*self.candidates)
