"""Expected distances, assignment, memberships, and the objective, whose only definition is ``expected_cost``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi import _parallel
from probi._kernels import assignment as assignment_kernels
from probi._kernels import geometry
from probi._kernels import memberships as membership_kernels
from probi._kernels.exact_sum import DIGIT_BITS, exact_digits
from probi._kernels.many_centers import join_nearest
from probi._notes import counted
from probi._types import Array, Floats, Integers, Labels, Mask
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes, as_nodes
from probi.validation import as_floats, check_mass, check_points, constant

# Coordinates of all nodes times the number of centers, in a problem for which all distances are computed.
MAX_SMALL = 1 << 14

# Bounds in float32 find the nearest center of certain nodes faster if there are at most so many features per center:
# rows are transposed first, which pays off if they are compared with many centers. With fewer than MANY_CENTERS, only
# from so many coordinates times centers on: a smaller problem takes less time than to compile it.
FEATURES_PER_CENTER, MANY_CENTERS, MIN_SCREENED = 3, 32, 1 << 22

# Ranges of nodes that are assigned, at least, if there are nodes enough.
MIN_PIECES = 8

# Costs that Python sums: a kernel is twenty times as fast, but has to be compiled first. Costs that a thread sums then.
MAX_SUMMED, SUMMED_AT_ONCE = 1 << 15, 1 << 18

# Nodes that a thread compares with all centers at a time.
ROWS_AT_ONCE = 512

# Certain nodes whose cost is computed at a time: labels and bounds of all would take 50 bytes per node.
CERTAIN_AT_ONCE = 1 << 18

# Memberships computed at a time where only some of them are kept.
MEMBERSHIPS_AT_ONCE = 1 << 20

# Label of an outlier.
OUTLIER = -1

# Calls that this is divided into, at most.
MAX_CALLS = 64


def check_centers(centers: ArrayLike, n_features: int) -> Floats:
    """Return centers as a float64 array of shape (k, n_features), or raise."""
    # Writable, also where those of the user are not: kernels would be compiled once more for them.
    array = np.require(as_floats(centers, "centers", 2, np.float64), requirements=["C", "W"])
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
    return _distances(nodes, check_centers(centers, nodes.n_features))


def _distances(nodes: Nodes, centers: Floats) -> Floats:
    """Expected distance of each node to each center, which were checked before."""
    out = np.empty((len(nodes), len(centers)))
    pieces = nodes.pieces()
    if nodes.points.size * len(centers) > _parallel.GRAIN:
        # The work per node grows with k, so ranges may be shorter than those of one pass over the data.
        pieces = [(a + s, a + e) for a, b in pieces for s, e in _parallel.ranges(b - a, -(-(b - a) // len(centers)))]
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
    return total_cost(nodes, _exact_nearest(nodes, centers))


def _exact_nearest(nodes: Nodes, centers: Floats) -> Floats:
    """Expected distance of each node to its nearest center, given that it is present."""
    if not nodes.is_certain:  # statistics of parts would be forgotten, and computed again for the next centers
        return Assignment.of(nodes, centers, exact=True).nearest
    nearest = np.empty(len(nodes))
    for start, stop in _parallel.ranges(len(nodes), CERTAIN_AT_ONCE):
        nearest[start:stop] = Assignment.of(nodes[start:stop], centers, exact=True).nearest
    return nearest


def total_cost(nodes: Nodes, nearest: Floats) -> float:
    """Sum of mass times expected distance, exactly rounded, so independent of the order of summation."""
    products = nodes.mass * nearest
    is_plain = len(products) > MAX_SUMMED and products.min() >= 0.0 and products.max() < math.inf
    if not is_plain:
        return math.fsum(products.tolist())
    digits = _parallel.run(exact_digits, _parallel.ranges(len(products), SUMMED_AT_ONCE), products.view(np.uint64))
    total = sum(int(digit) << DIGIT_BITS * place for part in digits for place, digit in enumerate(part))
    return total / (1 << 1074)  # a division of integers is rounded once


def excess(nodes: Nodes, centers: Floats) -> Floats:
    """Expected distance of each node to its nearest center beyond its own spread, given that it is present."""
    return beyond_spread(nodes, _exact_nearest(nodes, centers))


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
        if self._is_new and nodes.is_certain and _bounds_pay_off(nodes, len(centers)):
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
        distances = _distances(self.nodes, centers)
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


def _bounds_pay_off(nodes: Nodes, n_centers: int) -> bool:
    """Whether bounds in float32 find the nearest of some centers of certain nodes faster than distances to all."""
    is_long = n_centers >= MANY_CENTERS or nodes.points.size * n_centers >= MIN_SCREENED
    return is_long and n_centers > 1 and nodes.n_features <= FEATURES_PER_CENTER * n_centers


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


# -- memberships -------------------------------------------------------------------------------------------------------


def memberships(nodes: Nodes | ArrayLike, centers: ArrayLike, *, sparse: bool = False, threshold: float = 0.0) -> Any:
    """Probability that each center is the nearest one to a realization of the node.

    Where :func:`assign` gives each node as a whole to the center with the smallest expected distance, this says how
    its realizations are shared out. The center of a node need not be its most probable one: a node may lie a little
    closer to one center most of the time, and far from it else.

    Parameters
    ----------
    nodes : Nodes or array-like
        Uncertain objects; arrays as in :func:`probi.solve`.
    centers : array-like of shape (k, n_features)
        Any points.
    sparse : bool, default=False
        Return a sparse matrix: with many centers, nearly all memberships are 0.
    threshold : float, default=0.0
        With ``sparse``: memberships up to this are left out, so that rows may sum to less than 1.

    Returns
    -------
    ndarray or scipy.sparse.csr_array of shape (n_nodes, k)
        Given that the node is present: the probability that it is absent is shared out in proportion, and rows sum to
        1. A realization equally near to several centers counts for the first of them.

    See Also
    --------
    assign : The center of each node as a whole.
    stability : How labels change if the centers are found again.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes([[0.0], [2.0], [5.0]], [0.3, 0.1, 1.0], [0, 2, 3])
    >>> probi.memberships(nodes, [[0.0], [3.0]])
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    """
    nodes = as_nodes(nodes)
    centers = check_centers(centers, nodes.n_features)
    if sparse:
        return _sparse_memberships(nodes, centers, threshold)
    if threshold:
        raise InputError("threshold is for sparse=True: a dense array has all memberships.")
    return _all_memberships(nodes, centers)


def _sparse_memberships(nodes: Nodes, centers: Floats, threshold: float) -> Any:
    from scipy.sparse import csr_array, vstack

    if not 0.0 <= threshold < 1.0:
        raise InputError(f"threshold must be at least 0 and below 1, got {threshold}.")
    rows = []
    for start, stop in _parallel.ranges(len(nodes), 1 + MEMBERSHIPS_AT_ONCE // len(centers)):
        dense = _all_memberships(nodes[start:stop], centers)
        rows.append(csr_array(np.where(dense > threshold, dense, 0.0)))
    return vstack(rows, format="csr") if rows else csr_array((0, len(centers)))


def _all_memberships(nodes: Nodes, centers: Floats) -> Floats:
    out = np.empty((len(nodes), len(centers)))
    columns = np.ascontiguousarray(centers.T)
    relative, slack = rounding_margins(nodes, centers)

    def fill(start: int, stop: int) -> None:
        part = nodes[start:stop]
        if nodes.points.size * len(centers) <= MAX_SMALL:
            out[start:stop] = _memberships_of_few(part, centers)
            return
        n = len(part.points)
        membership_kernels.memberships(
            part.points, constant(1.0, n), np.arange(n + 1), part.probabilities, part.offsets, part.gravity_centers,
            part._squared_radii, centers, columns, relative, slack, out[start:stop], 0, stop - start,
        )  # fmt: skip

    if len(nodes):
        nodes._squared_radii  # noqa: B018 computed once, by all threads
        _parallel.run(fill, nodes.pieces())
    return out


def _memberships_of_few(nodes: Nodes, centers: Floats) -> Floats:
    """Compute all distances: for small problems, bounds take longer, and longer to compile."""
    # By the function that reports distances, so that ties are the same everywhere.
    nearest = expected_distances(Nodes.from_points(nodes.points), centers).argmin(axis=1)
    of_node = np.repeat(np.arange(len(nodes)), np.diff(nodes.offsets))
    sums: Floats = np.zeros((len(nodes), len(centers)))
    totals = np.zeros(len(nodes))
    probabilities = nodes.probabilities.astype(np.float64)
    np.add.at(sums, (of_node, nearest), probabilities)
    np.add.at(totals, of_node, probabilities)
    return sums / totals[:, None]


class LabelMemberships(NamedTuple):
    """Membership of each node in its own cluster, and the most probable of the others with its membership.

    If no realization is nearest to another center, that is the next one by expected distance, with membership 0; with
    a single center it is -1.
    """

    probabilities: Floats
    second: Labels
    second_probabilities: Floats


def label_memberships(nodes: Nodes, centers: ArrayLike, nearest: TwoNearest) -> LabelMemberships:
    """Find the memberships that tell how sure a label is; ``nearest`` are the two nearest centers of the nodes."""
    centers = check_centers(centers, nodes.n_features)
    probabilities, second_probabilities = np.empty(len(nodes)), np.empty(len(nodes))
    second = nearest.next_labels.copy()
    for start, stop in _parallel.ranges(len(nodes), 1 + MEMBERSHIPS_AT_ONCE // len(centers)):
        own, every = nearest.labels[start:stop], np.arange(stop - start)
        rows = _all_memberships(nodes[start:stop], centers)
        probabilities[start:stop] = rows[every, own]
        rows[every, own] = 0.0
        best = rows.argmax(axis=1).astype(np.int32)
        second_probabilities[start:stop] = rows[every, best]
        second[start:stop] = np.where(rows[every, best] > 0.0, best, second[start:stop])
    return LabelMemberships(probabilities, second, second_probabilities)
