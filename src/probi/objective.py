"""Expected distances, assignment, and the objective, of which ``expected_cost`` is the only definition."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi import _parallel
from probi._kernels import assignment as assignment_kernels
from probi._kernels import geometry
from probi._kernels.many_centers import join_nearest
from probi._notes import counted
from probi._types import Array, Floats, Integers, Labels, Mask
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes, as_nodes
from probi.validation import as_floats, check_mass, check_points

# Coordinates of all nodes times the number of centers, in a problem for which all distances are computed.
MAX_SMALL = 1 << 14

# From this many centers on, bounds in float32 find the nearest one of certain nodes.
MANY_CENTERS = 32

# Ranges of nodes that are assigned, at least, if there are nodes enough.
MIN_PIECES = 8

# Nodes that a thread compares with all centers at a time.
ROWS_AT_ONCE = 512

# Label of an outlier.
OUTLIER = -1

# Calls that this is divided into, at most.
MAX_CALLS = 64


def check_centers(centers: ArrayLike, n_features: int) -> Floats:
    """Return centers as a float64 array of shape (k, n_features), or raise."""
    array = np.ascontiguousarray(as_floats(centers, "centers", 2, np.float64))
    if len(array) == 0:
        raise InputError("There are no centers.")
    if array.shape[1] != n_features:
        raise InputError(f"Centers have {counted(array.shape[1], 'feature')}, but the nodes have {n_features}.")
    check_points(array, each="Center")
    return array


def expected_distances(nodes: Nodes | ArrayLike, centers: ArrayLike) -> Floats:
    """Expected distance of each node to each center.

    Parameters
    ----------
    nodes : Nodes or array-like
        What is clustered; arrays as in :func:`probi.solve`.
    centers : array-like of shape (k, n_features)
        Any points.

    Returns
    -------
    ndarray of shape (n_nodes, k)
        ``sum_j p_ij |x_ij - c|``. A node that is absent with some probability has distance 0 then; divide by
        ``nodes.total_probabilities`` for the distance given that it is present.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes([[0.0], [2.0], [5.0]], [0.5, 0.5, 1.0], [0, 2, 3])
    >>> probi.expected_distances(nodes, [[0.0], [5.0]])
    array([[1., 4.],
           [5., 0.]])
    """
    nodes = as_nodes(nodes)
    centers = check_centers(centers, nodes.n_features)
    out = np.empty((len(nodes), len(centers)))
    # The work per node grows with k, so ranges may be shorter than those of one pass over the data.
    pieces = [
        (a + s, a + e) for a, b in nodes.pieces() for s, e in _parallel.ranges(b - a, -(-(b - a) // len(centers)))
    ]
    _parallel.run(geometry.expected_distances, pieces, nodes.points, nodes.probabilities, nodes.offsets, centers, out)
    return out


def assign(nodes: Nodes | ArrayLike, centers: ArrayLike) -> Labels:
    """Nearest center of each node, by expected distance; ties go to the lowest index.

    Parameters
    ----------
    nodes : Nodes or array-like
        What is clustered; arrays as in :func:`probi.solve`.
    centers : array-like of shape (k, n_features)
        Any points.

    Returns
    -------
    ndarray of shape (n_nodes,)
        The argmin of each row of :func:`expected_distances`, computed with about one exact distance per node.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes([[0.0], [2.0], [5.0]], [0.5, 0.5, 1.0], [0, 2, 3])
    >>> probi.assign(nodes, [[0.0], [5.0]])
    array([0, 1], dtype=int32)
    """
    nodes = as_nodes(nodes)
    centers = check_centers(centers, nodes.n_features)
    return Assignment.of(nodes, centers, exact=False).labels


def expected_cost(nodes: Nodes | ArrayLike, centers: ArrayLike) -> float:
    """Expected cost of assigning each node as a whole to its nearest center: the objective of probi.

    Parameters
    ----------
    nodes : Nodes or array-like
        What is clustered; arrays as in :func:`probi.solve`.
    centers : array-like of shape (k, n_features)
        Any points.

    Returns
    -------
    float
        ``sum_i w_i min_c sum_j p_ij |x_ij - c|``.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes([[0.0], [2.0], [5.0]], [0.5, 0.5, 1.0], [0, 2, 3])
    >>> probi.expected_cost(nodes, [[0.0], [5.0]])
    1.0
    """
    nodes = as_nodes(nodes)
    centers = check_centers(centers, nodes.n_features)
    check_mass(float(nodes.mass.sum()), nodes.magnitude)
    return total_cost(nodes, Assignment.of(nodes, centers, exact=True).nearest)


def total_cost(nodes: Nodes, nearest: Floats) -> float:
    """Sum of mass times expected distance, exactly rounded, so independent of the order of summation."""
    products = nodes.mass * nearest
    # As Python's floats, which are read faster; a part at a time, because a list of them takes more memory.
    parts = (products[start:stop].tolist() for start, stop in _parallel.ranges(len(products), 1 << 12))
    return math.fsum(itertools.chain.from_iterable(parts))


def excess(nodes: Nodes, centers: Floats) -> Floats:
    """Expected distance of each node to its nearest center beyond its own spread, given that it is present."""
    return beyond_spread(nodes, Assignment.of(nodes, centers, exact=True).nearest)


def beyond_spread(nodes: Nodes, nearest: Floats) -> Floats:
    """The part of expected distances that is not the nodes' own spread."""
    # A spread that is exact to 1 % may exceed the distance to a center.
    return np.maximum(nearest - certified_medians(nodes, SPREAD_TOL)[1], 0.0)


def are_outliers(nodes: Nodes, nearest: Floats, outlier_distance: float) -> Mask:
    """Whether each node is an outlier, by its expected distance to the nearest center."""
    if outlier_distance == math.inf:
        return np.zeros(len(nodes), bool)
    return beyond_spread(nodes, nearest) > outlier_distance


def assign_inliers(nodes: Nodes, centers: Floats, outlier_distance: float) -> Labels:
    """Nearest center of each node, -1 for outliers."""
    labels = assign(nodes, centers)
    if outlier_distance < math.inf:
        labels[excess(nodes, centers) > outlier_distance] = OUTLIER
    return labels


def trimmed_cost(nodes: Nodes, centers: Floats, outlier_distance: float) -> tuple[float, float]:
    """Cost of nodes without outliers, and the spread of the outliers."""
    if outlier_distance == math.inf:
        return expected_cost(nodes, centers), 0.0
    is_out = excess(nodes, centers) > outlier_distance
    lost = math.fsum((nodes.mass * certified_medians(nodes, SPREAD_TOL)[1])[is_out])
    return expected_cost(nodes.with_weights(np.where(is_out, 0.0, nodes.weights)), centers), lost


class TwoNearest(NamedTuple):
    """The nearest and the next center of each node, with the expected distances to them, given that it is present.

    With a single center, the next is -1, at an infinite distance.
    """

    labels: Labels
    distances: Floats
    next_labels: Labels
    next_distances: Floats

    @property
    def margins(self) -> Floats:
        """How much nearer the own center is than the next, as a share of the distance to the next: 0 for a tie."""
        with np.errstate(invalid="ignore"):
            share = 1.0 - self.distances / self.next_distances
        return np.where(self.next_distances > 0.0, share, 0.0)


def two_nearest(nodes: Nodes, centers: ArrayLike) -> TwoNearest:
    """Find the two nearest centers of each node, exactly, without computing the distances to all."""
    centers = check_centers(centers, nodes.n_features)
    n, (relative, slack) = len(nodes), rounding_margins(nodes, centers)
    labels, next_labels = np.empty(n, np.int32), np.empty(n, np.int32)
    nearest, next_nearest = np.empty(n), np.empty(n)
    _parallel.run(
        assignment_kernels.two_nearest, nodes.pieces(), nodes.points, nodes.probabilities, nodes.offsets,
        nodes.total_probabilities, nodes.gravity_centers, nodes.variances, centers, np.ascontiguousarray(centers.T),
        relative, slack, labels, nearest, next_labels, next_nearest,
    )  # fmt: skip
    totals = nodes.total_probabilities
    return TwoNearest(labels, nearest / totals, next_labels, next_nearest / totals)


def rounding_margins(nodes: Nodes, centers: Floats) -> tuple[float, float]:
    """Relative and absolute rounding error that bounds on distances between nodes and centers must allow for."""
    relative, slack = _margins(nodes)
    return relative, slack + _slack_of(centers, relative)


def _slack_of(centers: Floats, relative: float) -> float:
    """Absolute rounding error of distances due to the centers, in addition to that of the nodes."""
    return relative * math.sqrt(centers.shape[1]) * float(np.abs(centers).max())


class Assignment:
    """Labels of nodes and bounds on their distances, kept from round to round while centers move.

    Attributes
    ----------
    labels : ndarray of shape (n_nodes,), int32
    nearest : ndarray of shape (n_nodes,)
        Expected distance to the own center, given that the node is present; an upper bound unless ``exact``.
    other : ndarray of shape (n_nodes,)
        Lower bound of the distance to any other center.
    """

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.labels = np.zeros(len(nodes), np.int32)
        self.nearest = np.zeros(len(nodes))
        self.other = np.full(len(nodes), -np.inf)
        self._is_new = True
        self._pieces = nodes.pieces(at_least=MIN_PIECES)
        self._relative, self._slack = _margins(nodes)

    @classmethod
    def of(cls, nodes: Nodes, centers: Floats, exact: bool) -> Assignment:
        """Assign nodes to centers."""
        assignment = cls(nodes)
        assignment.update(centers, np.zeros(len(centers)), exact)
        return assignment

    def update(self, centers: Floats, moves: Floats, exact: bool) -> int:
        """Find the labels for centers that have moved by ``moves``; return the number of exact distances computed."""
        nodes = self.nodes
        if nodes.points.size * len(centers) <= MAX_SMALL:
            return self._compare_all(centers)
        slack = self._slack + _slack_of(centers, self._relative)
        if self._is_new and nodes.is_certain and len(centers) >= MANY_CENTERS:
            self._start_with_bounds(centers, slack)
        self._is_new = False
        evaluations = _parallel.run(
            assignment_kernels.reassign, self._pieces, nodes.points, nodes.probabilities, nodes.offsets,
            nodes.total_probabilities, nodes.gravity_centers, nodes.variances, centers,
            np.ascontiguousarray(centers.T), _half_gaps(centers), moves, self._relative, slack, exact,
            self.labels, self.nearest, self.other,
        )  # fmt: skip
        return sum(evaluations)

    def _start_with_bounds(self, centers: Floats, slack: float) -> None:
        """Find labels and bounds of certain nodes in float32; exact distances decide where the bounds do not."""
        self.nearest[:] = self.other[:] = np.inf
        join_centers(self.nodes.points, centers, 0, self.labels, self.nearest, self.other)
        self.nearest *= 1.0 + self._relative
        self.nearest += slack
        self.other *= 1.0 - self._relative
        self.other -= slack

    def _compare_all(self, centers: Floats) -> int:
        """Compute all distances: for small problems, bounds take longer, and longer to compile."""
        distances = expected_distances(self.nodes, centers)
        rows = np.arange(len(distances))
        self.labels[:] = distances.argmin(axis=1)
        # Divided last: a division can equate numbers that differ in the last bit.
        self.nearest[:] = distances[rows, self.labels] / self.nodes.total_probabilities
        distances[rows, self.labels] = np.inf
        self.other[:] = distances.min(axis=1) / self.nodes.total_probabilities
        return distances.size

    def renumber(self, order: Integers) -> None:
        """Renumber the centers: ``order[i]`` becomes i. Ties are settled by the next :meth:`update`."""
        numbers = np.empty(len(order), np.int32)
        numbers[order] = np.arange(len(order), dtype=np.int32)
        self.labels[:] = numbers[self.labels]


def join_centers(points: Array, centers: Floats, first: int, labels: Labels, nearest: Floats, second: Floats) -> None:
    """Let points join the centers from a first one on that are nearer than their own.

    ``nearest`` is the distance to the own center, ``second`` a lower bound of that to the next; infinite at first.
    """
    starts = np.append(np.arange(0, len(points), ROWS_AT_ONCE), len(points))
    n_groups = len(starts) - 1
    lists = np.tile(np.arange(first, len(centers), dtype=np.int32), (n_groups, 1))
    references = np.tile(np.median(centers, axis=0), (n_groups, 1))
    # Few calls: one takes as long as the arithmetic of some ten rows.
    pieces = _parallel.ranges(n_groups, -(-n_groups // MAX_CALLS))
    _parallel.run(
        join_nearest, pieces, points, np.arange(len(points)), starts, references, lists, centers, labels, nearest,
        second,
    )  # fmt: skip


def _half_gaps(centers: Floats) -> Floats:
    """Half the distance of each center to the nearest other one."""
    out = np.empty(len(centers))
    _parallel.run(assignment_kernels.half_gaps, _parallel.ranges(len(centers), 64), centers, out)
    return out


def _margins(nodes: Nodes) -> tuple[float, float]:
    """Relative and absolute rounding error that bounds must allow for, generous by a factor of two.

    A distance is a sum of d squares, an expected distance a sum of m distances, a center of gravity a sum of m
    points: each addition may err by one unit in the last place of its result.
    """
    longest = int(np.diff(nodes.offsets).max(initial=1))
    relative = float(np.finfo(np.float64).eps) * (nodes.n_features + longest + 8)
    return relative, relative * math.sqrt(nodes.n_features) * nodes.magnitude
