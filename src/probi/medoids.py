"""Representatives of clusters: the real node that serves best as a center."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi import _parallel
from probi._kernels import medoids as kernels
from probi._notes import name_of
from probi._parallel import GRAIN
from probi._types import Array, Floats, Integers, Labels
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes, as_nodes
from probi.objective import Assignment, check_centers, expected_cost, expected_distances, rounding_margins, total_cost

# If trying all nodes of a cluster takes no more coordinates than this, bounds would take longer, and longer to compile.
MAX_TRIED = 1 << 20

# Bounds are tight enough if they leave so few candidates.
FEW = 32

# Candidates whose cost is computed at a time.
AT_ONCE = 8

# Candidates of one cluster whose cost is computed, at most. Where many nodes serve almost equally well, as on a circle
# around the center, no bound can tell them apart; what is left open is stated then.
MAX_EVALUATIONS = 1024

# Bounds are computed at a point where the gradient of the cost is at most this share of the mass. Centers from a solver
# are such points; from others, Weiszfeld steps lead to one.
MAX_SLOPE, MAX_STEPS = 0.1, 20

# Bounds are tightened at these quantiles of the distances of nodes that may still be the best, one after the other.
SHELLS = (0.1, 0.5, 0.2, 0.8, 0.3, 0.1, 0.6, 0.1)

# Relative rounding error of sums over all realizations of a cluster, and more.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Representatives:
    """The real node of each cluster that serves best as its center, with its median as the center.

    Attributes
    ----------
    index : ndarray of shape (n_clusters,), int64
        Which node it is; -1 for a cluster without mass. For a summary, the index in ``summary.coreset()``.
    ids : ndarray of shape (n_clusters,) or None
        Ids of these nodes, if nodes have ids. That of a cluster without mass means nothing.
    medians : ndarray of shape (n_clusters, n_features)
        Medians of these nodes; not a number for a cluster without mass.
    cost : ndarray of shape (n_clusters,)
        Cost of serving all nodes of the cluster from that median. For a summary, of the nodes of its coreset.
    center_cost : ndarray of shape (n_clusters,)
        Cost of serving the same nodes from the center.
    gap : ndarray of shape (n_clusters,)
        No node of the cluster costs less than ``cost - gap``: 0 where the representative is certainly the best. It is
        positive only if more than 1,024 nodes serve almost equally well.
    total_cost : float
        Cost of assigning each node to the nearest of the medians. For a summary, its estimate for all the data.
    standard_error : float
        Of the total cost; 0 where it is exact.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes.from_points([[0.0], [1.0], [3.0], [9.0]], ids=["a", "b", "c", "d"])
    >>> chosen = probi.representatives(nodes, [[1.25], [9.0]])
    >>> chosen
    Representatives(b and d, cost 3)
    >>> chosen.cost, chosen.increase
    (array([3., 0.]), array([-0.07692308,  0.        ]))
    """

    index: Integers
    ids: Array | None
    medians: Array
    cost: Floats
    center_cost: Floats
    gap: Floats
    total_cost: float
    standard_error: float

    @property
    def increase(self) -> Floats:
        """How much more it costs than the center, as a share of the cost of the center; below 0 if it is better."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.cost == self.center_cost, 0.0, self.cost / self.center_cost - 1.0)

    @property
    def names(self) -> list[str]:
        """Ids as text, or indices if there are none; empty for a cluster without mass."""
        chosen = self.index if self.ids is None else self.ids
        return [name_of(one) if i >= 0 else "" for one, i in zip(chosen, self.index, strict=True)]

    def __repr__(self) -> str:
        known = [name for name, i in zip(self.names, self.index, strict=True) if i >= 0]
        names = known if len(known) <= 6 else [*known[:5], f"{len(known) - 5} more"]
        listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
        return f"Representatives({listed}, cost {self.total_cost:.6g})"


def representatives(nodes: Nodes | ArrayLike | Any, centers: ArrayLike) -> Representatives:
    """For each cluster, find the real node whose median serves its nodes at the least cost: a medoid of nodes.

    Parameters
    ----------
    nodes : Nodes, array-like or Summary
        What was clustered; arrays as in :func:`probi.solve`. In a summary, the nodes of its coreset are compared.
    centers : array-like of shape (k, n_features)
        Centers, which decide which nodes form a cluster.

    Returns
    -------
    Representatives
        Which nodes, what they cost, and how much more that is than the cost of the centers.

    Notes
    -----
    Exact: of nodes that serve equally well, the first is taken. A bound on the cost of a cluster by the direction and
    the distance from its center excludes nearly all nodes; the costs of the others are computed. Medians are those of
    the solver, within 1 % of the spread of their nodes. Nodes of weight 0 do not represent others.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> X = np.random.default_rng(0).normal(size=(1000, 5, 2)) + 9 * (np.arange(1000) % 2)[:, None, None]
    >>> result = probi.solve(X, 2, random_state=0)
    >>> chosen = probi.representatives(X, result.centers)
    >>> chosen.index
    array([204, 617])
    >>> bool((chosen.increase < 0.01).all())
    True
    """
    is_summary = hasattr(nodes, "coreset")
    source = nodes.coreset() if is_summary else as_nodes(nodes)  # type: ignore[union-attr]
    centers = check_centers(centers, source.n_features)
    assignment = Assignment.of(source, centers, exact=True)
    medians, _, _ = certified_medians(source, SPREAD_TOL)
    index, gap = np.full(len(centers), -1), np.zeros(len(centers))
    cost, center_cost = np.zeros(len(centers)), np.zeros(len(centers))
    for c, members in enumerate(_members(source, assignment.labels, len(centers))):
        if len(members):
            cluster = _Cluster(source, medians, members)
            index[c], cost[c], gap[c] = cluster.medoid(centers[c])
            center_cost[c] = total_cost(cluster.nodes, assignment.nearest[members])
    chosen = medians[index].astype(np.float64)
    chosen[index < 0] = np.nan
    served = chosen[index >= 0]
    total, error = nodes.evaluate(served) if is_summary else (expected_cost(source, served), 0.0)  # type: ignore[union-attr]
    ids = None if source.ids is None else source.ids[index]
    return Representatives(index, ids, chosen, cost, center_cost, gap, float(total), float(error))


def _members(nodes: Nodes, labels: Labels, k: int) -> list[Integers]:
    """Numbers of the nodes of each cluster that have mass, in increasing order."""
    counted = np.flatnonzero(nodes.mass > 0.0)
    ordered = counted[np.argsort(labels[counted], kind="stable")]
    return np.split(ordered, np.searchsorted(labels[ordered], np.arange(1, k)))


class _Cluster:
    """The nodes of one cluster, all of which are candidates, and what is known of the cost of each as the center."""

    def __init__(self, nodes: Nodes, medians: Array, members: Integers) -> None:
        self.nodes, self.medians, self.members = nodes.take(members), medians[members], members
        size = nodes.n_features * (1 + self.nodes.n_realizations // len(members))
        self._pieces = _parallel.ranges(len(members), 1 + GRAIN // size)
        self._short_pieces = _parallel.ranges(len(members), 1 + GRAIN // (size * min(nodes.n_features, kernels.BLOCK)))
        self._costs = np.full(len(members), np.inf)
        self._n_evaluated = 0

    def medoid(self, center: Floats) -> tuple[int, float, float]:
        """Number of the best node, its cost, and how much less another one may cost at most."""
        n = len(self.members)
        bounds = np.full(n, -np.inf)
        if self.nodes.points.size * n > MAX_TRIED:
            bounds = self._bounds(center)
        left_open = np.inf
        for rows in self._by_bound(bounds):
            if self._n_evaluated >= MAX_EVALUATIONS and n > MAX_EVALUATIONS:
                left_open = float(bounds[rows[0]])
                break
            self._evaluate(rows)
        best = int(self._costs.argmin())  # the first of equal ones: members are in the order of nodes
        cost = float(self._costs[best])
        gap = max(0.0, cost - left_open)
        return int(self.members[best]), cost, gap

    def _bounds(self, center: Floats) -> Floats:
        """Lower bounds of the costs of all candidates; the most promising ones are evaluated on the way."""
        base, distances = center, self._distances_to(center)
        model = self._model(base, distances)
        for _ in range(MAX_STEPS):
            if model is None or np.sqrt((model.slope**2).sum()) <= MAX_SLOPE * model.totals[0]:
                break
            base = base + model.slope / model.totals[3]  # a Weiszfeld step
            distances = self._distances_to(base)
            model = self._model(base, distances)
        if model is None:  # all medians are equal
            self._evaluate(np.zeros(1, np.int64))
            return np.full(len(self.members), np.inf)
        bounds = self._lower_bounds(model)
        self._evaluate(np.argsort(bounds, kind="stable")[: AT_ONCE // 2])
        for quantile in SHELLS:
            left = np.flatnonzero(bounds <= self._costs.min())
            if len(left) <= FEW:
                break
            shell = self._model(base, distances, float(np.quantile(distances[left], quantile)))
            if shell is not None:
                np.maximum(bounds, self._lower_bounds(shell), out=bounds)
        return bounds

    def _by_bound(self, bounds: Floats) -> Iterator[Integers]:
        """Candidates that may be the best, some at a time, the most promising first."""
        left = np.flatnonzero(np.isinf(self._costs) & (bounds <= self._costs.min()))
        if len(left) > AT_ONCE:
            # Equal medians cost the same, and the first one counts. np.unique takes long for rows of many features.
            seen: dict[bytes, int] = {}
            for at, row in zip(left.tolist(), self.medians[left], strict=True):
                seen.setdefault(row.tobytes(), at)
            left = np.array(list(seen.values()))
        left = left[np.argsort(bounds[left], kind="stable")]
        while len(left):
            yield left[:AT_ONCE]
            left = left[AT_ONCE:]
            left = left[bounds[left] <= self._costs.min()]

    def _distances_to(self, base: Floats) -> Floats:
        distances: Floats = np.sqrt(((self.medians - base) ** 2).sum(axis=1))
        return distances

    def _model(self, base: Floats, distances: Floats, radius: float = 0.0) -> _CostModel | None:
        """Bounds at a distance from a base point; if that is 0, at the distance of the nearest candidate not on it."""
        if radius == 0.0:
            apart = distances[distances > 0.0]
            if len(apart) == 0:
                return None
            radius = float(apart.min())
        nodes = self.nodes
        parts = _parallel.run(
            kernels.cost_model, self._short_pieces, nodes.points, nodes.probabilities, nodes.offsets, nodes.weights,
            base, radius,
        )  # fmt: skip
        totals, slope, matrices = parts[0]
        for part in parts[1:]:
            totals, slope, matrices = totals + part[0], slope + part[1], matrices + part[2]
        return _CostModel(base, radius, totals, slope, matrices)

    def _lower_bounds(self, model: _CostModel) -> Floats:
        out = np.empty(len(self.members))
        _parallel.run(kernels.lower_bounds, self._pieces, self.medians, *model, out)
        _, slack = rounding_margins(self.nodes, model.base[None])
        bounds: Floats = out - ROUNDING * (abs(out) + model.totals[2]) - slack * model.totals[0]
        return bounds

    def _evaluate(self, rows: Integers) -> None:
        """Compute the exact costs of some candidates."""
        distances = expected_distances(self.nodes, self.medians[rows]) / self.nodes.total_probabilities[:, None]
        self._costs[rows] = [total_cost(self.nodes, column) for column in distances.T]
        self._n_evaluated += len(rows)


class _CostModel(NamedTuple):
    """What :func:`probi._kernels.medoids.cost_model` sums up around a base point."""

    base: Floats
    radius: float
    totals: Floats
    slope: Floats
    matrices: Floats
