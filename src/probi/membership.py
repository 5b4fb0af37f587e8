"""Memberships: how likely each center is the nearest one to a node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi import _parallel
from probi._kernels import memberships as kernels
from probi._types import Floats, Labels
from probi.errors import InputError
from probi.nodes import Nodes, as_nodes
from probi.objective import MAX_SMALL, TwoNearest, check_centers, expected_distances, rounding_margins
from probi.validation import constant

# Memberships computed at a time where only some of them are kept.
AT_ONCE = 1 << 20


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
        return _sparse(nodes, centers, threshold)
    if threshold:
        raise InputError("threshold is for sparse=True: a dense array has all memberships.")
    return _dense(nodes, centers)


def _sparse(nodes: Nodes, centers: Floats, threshold: float) -> Any:
    from scipy.sparse import csr_array, vstack

    if not 0.0 <= threshold < 1.0:
        raise InputError(f"threshold must be at least 0 and below 1, got {threshold}.")
    rows = []
    for start, stop in _parallel.ranges(len(nodes), 1 + AT_ONCE // len(centers)):
        dense = _dense(nodes[start:stop], centers)
        rows.append(csr_array(np.where(dense > threshold, dense, 0.0)))
    return vstack(rows, format="csr") if rows else csr_array((0, len(centers)))


def _dense(nodes: Nodes, centers: Floats) -> Floats:
    out = np.empty((len(nodes), len(centers)))
    columns = np.ascontiguousarray(centers.T)
    relative, slack = rounding_margins(nodes, centers)

    def fill(start: int, stop: int) -> None:
        part = nodes[start:stop]
        if nodes.points.size * len(centers) <= MAX_SMALL:
            out[start:stop] = _compare_all(part, centers)
            return
        n = len(part.points)
        kernels.memberships(
            part.points, constant(1.0, n), np.arange(n + 1), part.probabilities, part.offsets,
            part.total_probabilities, part.gravity_centers, part.variances, centers, columns, relative, slack,
            out[start:stop], 0, stop - start,
        )  # fmt: skip

    if len(nodes):
        nodes.variances  # noqa: B018 computed once, by all threads
        _parallel.run(fill, nodes.pieces())
    return out


def _compare_all(nodes: Nodes, centers: Floats) -> Floats:
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
    for start, stop in _parallel.ranges(len(nodes), 1 + AT_ONCE // len(centers)):
        own, every = nearest.labels[start:stop], np.arange(stop - start)
        rows = _dense(nodes[start:stop], centers)
        probabilities[start:stop] = rows[every, own]
        rows[every, own] = 0.0
        best = rows.argmax(axis=1).astype(np.int32)
        second_probabilities[start:stop] = rows[every, best]
        second[start:stop] = np.where(rows[every, best] > 0.0, best, second[start:stop])
    return LabelMemberships(probabilities, second, second_probabilities)
