"""Results of a solver."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from probi import _notes
from probi._notes import counted, rounded
from probi._types import Array, Floats, Integers, Labels
from probi.medians import SPREAD_TOL, certified_medians
from probi.medoids import Representatives, representatives
from probi.nodes import Nodes
from probi.objective import Assignment, excess, total_cost

# Error of a coreset, as a share of the cost: about CORESET_ERROR divided by the root of its nodes per cluster. With 200
# of them that is 1 %; the largest error in all runs of docs/results was 0.7 %. The estimated cost and the cost of the
# coreset contradict each other if they differ by more than CONTRADICTION standard errors.
CORESET_ERROR, CONTRADICTION = 0.14, 4.0


@dataclass(frozen=True, eq=False)
class Clusters:
    """Sums over the nodes of each cluster, as arrays of shape (n_clusters,).

    Attributes
    ----------
    mass : ndarray
        Weight times total probability.
    cost : ndarray
        Share of the expected cost.
    spread : ndarray
        The part of it that is the nodes' own spread, which no center can change.
    count : ndarray
        Number of nodes.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes([[0.0], [2.0], [9.0]], [0.5, 0.5, 1.0], [0, 2, 3], weights=[3, 1])
    >>> clusters = probi.solve(nodes, 2, random_state=0).clusters
    >>> clusters.mass, clusters.cost, clusters.spread, clusters.count
    (array([3., 1.]), array([3., 0.]), array([3., 0.]), array([1, 1]))
    """

    mass: Floats
    cost: Floats
    spread: Floats
    count: Integers


@dataclass(frozen=True, eq=False)
class Result:
    """A solution of the probabilistic k-median problem.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
        In order of descending mass; in the order of ``init`` if given.
    cost : float
        Expected cost: exact for :class:`~probi.Nodes`; for a :class:`~probi.Summary` an estimate for all the data,
        by nodes not used to choose the centers.
    standard_error : float
        Of the cost; 0 where it is exact.
    spread_cost : float
        The part of the cost that is the nodes' own spread, which no center can change.
    lower_bound : float
        Certified: no centers, however many, cost less, because no center reduces a node's own spread.
    coreset_cost : float
        Cost on the nodes solved: for :class:`~probi.Nodes` the cost itself, for a summary that of its coreset.
    labels : ndarray of shape (n_nodes,) or None
        Center of each node, -1 for an outlier; None for a summary, whose nodes are gone.
    clusters : Clusters
        Mass, cost, spread and count of each cluster; for a summary those of its coreset.
    n_iter : int
        Rounds that the best start took on the nodes.
    n_distinct : int
        Clusters that have a node; below ``n_clusters`` if nodes are equal, or nearly so for their spread.
    thinning_bound : float
        Certified: the cost changed by no more than this because realizations were left out. The standard error
        includes its likely part.
    outlier_distance : float
        Nodes are outliers if their expected distance to the nearest center, beyond their own spread, is larger than
        this. Infinite if none were to be left out. Costs and clusters are those of the other nodes.
    outlier_mass : float
        Mass of the outliers; for a summary that in its coreset.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes([[0.0], [2.0], [9.0], [9.5]], [0.5, 0.5, 1.0, 1.0], [0, 2, 3, 4])
    >>> result = probi.solve(nodes, 2, random_state=0)
    >>> result
    Result(2 centers, cost 1.5, 1 of it spread)
    >>> result.labels
    array([1, 0, 0], dtype=int32)
    >>> result.excess, result.standard_error
    (0.5, 0.0)
    """

    centers: Array
    cost: float
    standard_error: float
    spread_cost: float
    lower_bound: float
    coreset_cost: float
    labels: Labels | None
    clusters: Clusters = field(repr=False)
    n_iter: int
    n_distinct: int = field(repr=False)
    thinning_bound: float = 0.0
    outlier_distance: float = math.inf
    outlier_mass: float = 0.0

    @property
    def excess(self) -> float:
        """Cost of the centers beyond the nodes' own spread."""
        return self.cost - self.spread_cost

    @property
    def above_optimum(self) -> float | None:
        """Certified: the cost, plus two standard errors, is at most this fraction above the optimum; None: unknown."""
        worst = self.cost + 2.0 * self.standard_error
        return worst / self.lower_bound - 1.0 if self.lower_bound > 0.0 and np.isfinite(worst) else None

    @property
    def representatives(self) -> Representatives:
        """For each cluster the real node that serves best as its center, as in :func:`probi.representatives`.

        Computed on first access, from the nodes or the summary that were solved.
        """
        known = self.__dict__
        if "_representatives" not in known:
            if "_source" not in known:
                raise AttributeError("This result was not made by solve: use probi.representatives(nodes, centers).")
            source = known.pop("_source")
            of_result = isinstance(source, Result)
            known["_representatives"] = source.representatives if of_result else representatives(source, self.centers)
        found: Representatives = known["_representatives"]
        return found

    def of_source(self, source: Any) -> Self:
        """Remember what was solved, or another result of it, until representatives are computed.

        :meta private:
        """
        self.__dict__["_source"] = source
        return self

    def __getstate__(self) -> dict[str, Any]:
        # Representatives are a few numbers, the nodes that they are computed from may be all of memory.
        if "_source" in self.__dict__:
            _ = self.representatives
        return self.__dict__.copy()

    def __repr__(self) -> str:
        error = f" ± {rounded(self.standard_error):g}" if self.standard_error else ""
        spread = f"{self.spread_cost:.6g} of it spread"
        return f"Result({counted(len(self.centers), 'center')}, cost {self.cost:.6g}{error}, {spread})"

    def _repr_html_(self) -> str:
        """Show the clusters in a notebook: the first ones, and the first features of their centers."""
        shown, d = min(len(self.centers), _notes.MAX_ROWS), min(self.centers.shape[1], _notes.MAX_COLUMNS)
        sums = (self.clusters.count, self.clusters.mass, self.clusters.cost, self.clusters.spread)
        rows = [
            [
                str(c),
                f"{sums[0][c]:,}",
                *(f"{of[c]:.6g}" for of in sums[1:]),
                *(f"{x:.6g}" for x in self.centers[c, :d]),
            ]
            for c in range(shown)
        ]
        count = "nodes" if self.labels is not None else "nodes of the coreset"
        header = ["cluster", count, "mass", "cost", "spread", *(f"center x{j}" for j in range(d))]
        return _notes.html_table(repr(self), rows, header)


@dataclass(frozen=True)
class Evaluation:
    """Cost of centers on all the data behind a summary; unpacks as ``cost, standard_error``.

    Attributes
    ----------
    cost : float
        Estimated expected cost: ``spread_cost + excess``.
    standard_error : float
        Of the cost; 0 where the summary still holds every node. Also of thinning, for centers that were fixed before.
    lower_bound : float
        Certified: no centers, however many, cost less.
    spread_cost : float
        The part of the cost that is the nodes' own spread, which no center can change; a sum over all nodes.
    thinning_bound : float
        Certified: the cost changed by no more than this because realizations were left out on arrival.

    Examples
    --------
    >>> import probi
    >>> summary = probi.Summary(1, random_state=0)
    >>> summary.update(probi.Nodes([[0.0], [2.0], [9.0]], [0.5, 0.5, 1.0], [0, 2, 3]))
    >>> evaluation = summary.evaluate([[1.0]])
    >>> evaluation
    Evaluation(cost=9.0, standard_error=0.0, lower_bound=1.0, spread_cost=1.0, thinning_bound=0.0)
    >>> cost, standard_error = evaluation
    """

    cost: float
    standard_error: float
    lower_bound: float
    spread_cost: float
    thinning_bound: float = 0.0

    @property
    def excess(self) -> float:
        """Cost of the centers beyond the nodes' own spread."""
        return self.cost - self.spread_cost

    def __iter__(self) -> Iterator[float]:
        return iter((self.cost, self.standard_error))


def make_result(
    nodes: Nodes, centers: Floats, n_iter: int, keep_order: bool, assignment: Assignment | None = None
) -> Result:
    """Evaluate centers exactly on all nodes, sorted by mass unless ``keep_order``; the assignment may be known."""
    k = len(centers)
    if assignment is None:
        assignment = Assignment.of(nodes, centers, exact=False)
    if not keep_order:
        centers = _sort_by_mass(nodes, centers, assignment)
    assignment.update(centers, np.zeros(k), exact=True)
    _, spreads, lower = certified_medians(nodes, SPREAD_TOL)
    # Both are upper bounds of the true spread: a center may be better than a median that is exact to 1 %.
    spreads = np.minimum(spreads, assignment.nearest)
    count = np.bincount(assignment.labels, minlength=k)
    clusters = Clusters(
        mass=_sums(assignment.labels, nodes.mass, k),
        cost=_sums(assignment.labels, nodes.mass * assignment.nearest, k),
        spread=_sums(assignment.labels, nodes.mass * spreads, k),
        count=count,
    )
    cost = total_cost(nodes, assignment.nearest)
    return Result(
        centers=centers,
        cost=cost,
        standard_error=0.0,
        spread_cost=total_cost(nodes, spreads),
        lower_bound=min(cost, total_cost(nodes, lower)),
        coreset_cost=cost,
        labels=assignment.labels,
        clusters=clusters,
        n_iter=n_iter,
        n_distinct=int(np.count_nonzero(count)),
    ).of_source(nodes)


def _sort_by_mass(nodes: Nodes, centers: Floats, assignment: Assignment) -> Floats:
    """Centers in order of descending mass, equal ones by coordinates, and the assignment to them.

    A node between two centers goes to the first of them, so a new order may change the masses: sort again.
    """
    for _ in range(len(centers)):
        mass = _sums(assignment.labels, nodes.mass, len(centers))
        order = _by_mass(mass, centers)
        if (order == np.arange(len(order))).all():
            break
        centers = np.ascontiguousarray(centers[order])
        assignment.renumber(order)
        assignment.update(centers, np.zeros(len(centers)), exact=False)
    return centers


def _by_mass(mass: Floats, centers: Floats) -> Integers:
    """Indices of centers in order of descending mass, equal ones by coordinates."""
    order = np.argsort(-mass, kind="stable")
    bounds = np.flatnonzero(np.diff(mass[order], prepend=np.nan, append=np.nan))
    for start, stop in itertools.pairwise(bounds.tolist()):
        if stop > start + 1:  # coordinates are compared only where masses are equal
            order[start:stop] = sorted(order[start:stop], key=lambda c: centers[c].tolist())
    return order


def _sums(labels: Labels, values: Floats, k: int) -> Floats:
    return np.bincount(labels, values, minlength=k).astype(np.float64, copy=False)


def warnings_about(result: Result) -> list[str]:
    """Messages about empty clusters and contradictory costs; the estimators warn in scikit-learn's class."""
    messages, k = [], len(result.centers)
    if result.n_distinct < k:
        messages.append(
            f"Only {result.n_distinct} of {k} clusters have a node. The nodes are equal, or differ by so little "
            'compared to their spread that more centers gain nothing; or, with preset="paper", a center lost all of '
            "its nodes."
        )
    if _is_contradictory(result):
        messages.append(
            f"The estimated cost, {result.cost:.6g} ± {rounded(result.standard_error):g}, and the cost of the coreset, "
            f"{result.coreset_cost:.6g}, disagree: a few nodes may carry most of the cost. Compute the cost on all "
            "the data with probi.expected_cost, or make a larger summary."
        )
    return messages


def _is_contradictory(result: Result) -> bool:
    """Whether the estimate of the cost and the coreset's own cost differ by more than their errors explain."""
    if result.standard_error == 0.0:
        return False
    nodes_per_cluster = float(result.clusters.count.sum()) / len(result.centers)
    error = math.hypot(result.standard_error, CORESET_ERROR / math.sqrt(nodes_per_cluster) * result.coreset_cost)
    return abs(result.cost - result.coreset_cost) > CONTRADICTION * error


def outlier_share(result: Result) -> float:
    """Share of the mass that was left out as outliers."""
    return result.outlier_mass / (result.outlier_mass + float(result.clusters.mass.sum()))


def without_outliers(source: Any, result: Result) -> Any:
    """The nodes or the summary that were solved, without the outliers of the result."""
    if result.outlier_distance == math.inf:
        return source
    if isinstance(source, Nodes):
        is_out = excess(source, result.centers) > result.outlier_distance
        return source.with_weights(np.where(is_out, 0.0, source.weights))
    return _TrimmedSummary(source, result)


@dataclass(frozen=True)
class _TrimmedSummary:
    """A summary without the outliers of a result: all that is asked of a summary once there are centers."""

    summary: Any
    result: Result

    @property
    def n_clusters(self) -> int:
        """Largest number of clusters it is made for."""
        return int(self.summary.n_clusters)

    @property
    def _solver_preset(self) -> str:
        return str(self.summary._solver_preset)

    @property
    def _is_whole(self) -> bool:
        return bool(self.summary._is_whole)

    def coreset(self) -> Nodes:
        """Nodes of its coreset, with weight 0 for outliers."""
        nodes: Nodes = without_outliers(self.summary.coreset(), self.result)
        return nodes

    def evaluate(self, centers: Any, outlier_distance: float = math.inf) -> Any:
        """Estimate the cost of centers, without the nodes that are as far from them."""
        return self.summary.evaluate(centers, min(outlier_distance, self.result.outlier_distance))
