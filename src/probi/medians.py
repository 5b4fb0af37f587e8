"""1-medians of nodes."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from probi import _parallel
from probi._kernels import median_search as search
from probi._kernels import medians as kernels
from probi._kernels import pull
from probi._parallel import GRAIN
from probi._types import Array, Floats, Mask
from probi.errors import InputError, SolverWarning
from probi.nodes import Nodes, as_nodes
from probi.validation import constant, frozen

# Nodes with more coordinates than this are shared by all threads, so that no thread waits for another.
HUGE = 4 * GRAIN

# The certified gap shrinks linearly with the gradient; one still open by then is at the limit of float64.
MAX_EVALUATIONS = 200

# Spreads and their lower bounds meet within this. Tighter medians changed no solution; 1e-2 takes a third of the time
# of 1e-4 on Covertype, and the lower bound of a cost is then at most 1 % too low.
SPREAD_TOL = 1e-2

# Keys of the statistics that hold medians: for any tolerance, and for this one.
_STATISTIC = "medians to {}"
CERTIFIED_MEDIANS = _STATISTIC.format(SPREAD_TOL)

# The paper's rule: continue while a step is at most a tenth of the one before, for at most 15 steps.
PAPER_RATIO, PAPER_STEPS = 0.1, 15


def one_medians(nodes: Nodes | ArrayLike, tol: float = 1e-6) -> tuple[Array, Floats]:
    """1-median of each node: the point with the smallest expected distance to it.

    Parameters
    ----------
    nodes : Nodes or array-like
        Each gets its own median; arrays as in :func:`probi.solve`.
    tol : float, default=1e-6
        Guaranteed: the expected distance to the median is at most ``1 + tol`` times the smallest possible. It is exact
        for nodes with a formula: one or two realizations, a majority, all on one line.

    Returns
    -------
    medians : ndarray of shape (n_nodes, n_features)
        The best single position of each node.
    spreads : ndarray of shape (n_nodes,)
        Expected distance of each node to its median, given that it is present.

    Warns
    -----
    SolverWarning
        If rounding prevented the guarantee for some nodes; says for how many and what was reached.

    Examples
    --------
    >>> import probi
    >>> square = probi.Nodes.from_dense([[[0.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 2.0]]])
    >>> medians, spreads = probi.one_medians(square)
    >>> medians
    array([[1., 1.]])
    >>> spreads.round(6)
    array([1.414214])
    """
    nodes = as_nodes(nodes)
    medians, spreads, lower = certified_medians(nodes, tol)
    missed = spreads - lower > tol * lower
    if missed.any():
        reached = float((spreads[missed] / lower[missed] - 1.0).max())
        warnings.warn(
            f"{int(missed.sum())} of {len(nodes)} medians are certified to {reached:.1e} only, not to tol={tol:.1e}.",
            SolverWarning,
            stacklevel=2,
        )
    return medians, spreads


def certified_medians(nodes: Nodes, tol: float) -> tuple[Array, Floats, Floats]:
    """Medians, spreads, and lower bounds of the true spreads; computed once for each tolerance."""
    if not tol > 0.0:
        raise InputError(f"tol is {tol}, but must be positive.")
    if nodes.is_certain:
        # Not stored as a statistic: slices of the nodes would copy their points twice.
        nothing = constant(0.0, len(nodes))
        return nodes.points, nothing, nothing
    statistic: tuple[Array, Floats, Floats] = nodes.statistic(_STATISTIC.format(tol), lambda: _compute(nodes, tol))
    return statistic


def measured(nodes: Nodes) -> Nodes:
    """The same nodes, with medians and spreads computed and stored."""
    certified_medians(nodes, SPREAD_TOL)
    return nodes


def _compute(nodes: Nodes, tol: float) -> tuple[Array, Floats, Floats]:
    medians, spreads, lower = np.empty(nodes.shape), np.empty(len(nodes)), np.empty(len(nodes))
    left = np.empty(len(nodes), bool)
    skip_from = 1 + HUGE // nodes.n_features
    arrays = nodes.points, nodes.probabilities, nodes.offsets, nodes.total_probabilities
    _parallel.run(
        kernels.quick_medians, nodes.pieces(), *arrays, tol, skip_from, medians, spreads, lower, left
    )  # fmt: skip
    chosen = np.flatnonzero(left)
    if len(chosen):
        pieces = _parallel.ranges(len(chosen), 1 + len(nodes) * GRAIN // nodes.points.size)
        _parallel.run(
            kernels.searched_medians, pieces, *arrays, tol, MAX_EVALUATIONS, chosen, medians, spreads, lower
        )  # fmt: skip
    for node in np.flatnonzero(np.diff(nodes.offsets) >= skip_from):
        medians[node], spreads[node], lower[node] = _huge_median(nodes, int(node), tol)
    return frozen(medians), frozen(spreads), frozen(lower)


def _huge_median(nodes: Nodes, node: int, tol: float) -> tuple[Floats, float, float]:
    """Median of one node whose realizations all threads share; the same search, with sums over all threads."""
    d = nodes.n_features
    first, last = int(nodes.offsets[node]), int(nodes.offsets[node + 1])
    total = nodes.total_probabilities[node]
    probabilities = nodes.probabilities[first:last]
    work, state = np.empty((search.N_ROWS, d)), np.empty(1, search.STATE)[0]
    base, middle = first + int(np.argmax(probabilities)), None
    if kernels.is_majority(probabilities.max(), total):
        one = other = base - first
    else:
        local = frozen(nodes.points[first:last] - nodes.points[base].astype(np.float64))
        along, order = np.empty(len(local)), np.empty(len(local), np.int64)
        one, other = kernels.huge_ends_of_median(local, probabilities, total, work, along, order, d)
    if one >= 0:
        base = first + one
        middle = 0.5 * nodes.points[base].astype(np.float64) + 0.5 * nodes.points[first + other]
        local = frozen(nodes.points[first:last] - nodes.points[base].astype(np.float64))
    search.huge_begin(local, probabilities, total, probabilities.max(), work, state, d)
    if one >= 0:
        search.huge_begin_on_base(work, state, d)
    for _ in range(MAX_EVALUATIONS):
        out, row, distance = _summed_pull(local, probabilities, work[search.TRIAL : search.TRIAL + 1].copy())
        if search.huge_advance(local, total, tol, out, row, distance, work, state, d):
            break
    spread, lower = state.cost / total, search.rounded_down(state.lower / total, last - first)
    if middle is not None:
        # The middle of two even halves, unless rounding makes it worse.
        at_middle = _summed_pull(nodes.points[first:last], probabilities, middle[None])[0][d + pull.COST] / total
        if at_middle <= spread * (1.0 + kernels.EVEN):
            return middle, at_middle, min(lower, at_middle)
    # A realization is copied to the bit.
    on_realization = state.on_point > 0.0
    median = nodes.points[first + int(state.nearest)] if on_realization else nodes.points[base] + work[search.HERE]
    return median, spread, lower


def _summed_pull(points: Array, probabilities: Array, center: Floats) -> tuple[Floats, int, float]:
    """Pull at one center (1, d), index of the nearest realization and distance to it, computed by all threads."""
    pieces = _parallel.ranges(len(points), max(1, GRAIN // points.shape[1]))
    parts = np.array(_parallel.run(pull.part_pull, pieces, points, probabilities, center))
    nearest = parts[np.argmin(parts[:, -1])]
    return parts[:, :-2].sum(axis=0), int(nearest[-2]), float(nearest[-1])


def paper_medians(nodes: Nodes) -> tuple[Floats, Floats, Mask]:
    """Medians by the paper's rule, spreads, and whether the iteration stopped because it hit a realization."""
    medians, spreads, hit = np.empty(nodes.shape), np.empty(len(nodes)), np.empty(len(nodes), bool)
    _parallel.run(
        kernels.stepped_medians, nodes.pieces(), nodes.points, nodes.probabilities, nodes.offsets,
        nodes.gravity_centers, PAPER_RATIO, PAPER_STEPS, medians, spreads, hit,
    )  # fmt: skip
    return medians, spreads / nodes.total_probabilities, hit
