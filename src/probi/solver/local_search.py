"""Local search for many clusters, on certain nodes: what a step changes lies near it, and only that is looked at."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import candidates
from probi._kernels import local_search as kernels
from probi.nodes import Nodes
from probi.objective import Assignment
from probi.solver.lloyd import Lloyd, descend
from probi.solver.problem import Problem, capped_probabilities
from probi.solver.progress import OnRound, silent
from probi.solver.seeding import seed_in_batches
from probi.validation import frozen

Floats = NDArray[np.float64]

# Neighbors of its center that a node may move to: nearly all nodes that change their center go to one of them.
N_NEIGHBORS = 32

# Starts see so many nodes per cluster. Their swaps find most of what swaps on all nodes find, in a quarter of the time.
SAMPLE_PER_CLUSTER = 50

# Rough centers by which the sample is drawn.
N_ROUGH = 32

# Rows with at least this many features are read as fast wherever they are.
LONG_ROW = 64

# Rounds end when they save less than this share of the cost: swaps change more.
ROUND_TOL = 3e-3


class LocalEffort(NamedTuple):
    """How long swaps are tried, and rounds go on after them.

    A swap must save the share ``swap_gain`` of the cost of an average cluster. ``swaps_per_cluster`` are tried at a
    time, and the next ones only if these saved the share ``batch_gain`` of the cost. The last rounds stop at ``share``
    of the tolerance that was asked for: they take less time than those that look at all centers.
    """

    swap_gain: float
    swaps_per_cluster: int
    batch_gain: float
    share: float


# Without clusters to find, costs were 0.2 to 0.3 % above those of ten starts and exhaustive swaps with the first, and
# 0.4 to 0.5 % with the second, in a tenth to a twentieth of the time. A coreset's own error hides that.
THOROUGH, QUICK = LocalEffort(0.003, 2, 3e-4, 0.1), LocalEffort(0.01, 1, 1e-3, 1.0)


class LocalAssignment(Assignment):
    """Labels of certain nodes that only move to a center near their own; the first ones are exact.

    A round takes time in proportion to the nodes, whatever the number of centers.
    """

    def __init__(self, nodes: Nodes, centers: Floats) -> None:
        super().__init__(nodes)
        _parallel.run(
            candidates.two_nearest, self._pieces, nodes.points, centers, np.ascontiguousarray(centers.T),
            self.labels, self.nearest, self.other,
        )  # fmt: skip

    def update(self, centers: Floats, moves: Floats, exact: bool) -> int:
        """Find the nearest of each node's center and its neighbors; ``moves`` and ``exact`` make no difference."""
        k = len(centers)
        m = min(N_NEIGHBORS, k - 1)
        neighbors, gaps = np.empty((k, m), np.int32), np.empty((k, m))
        _parallel.run(kernels.nearest_centers, _parallel.ranges(k, 64), centers, neighbors, gaps)
        _parallel.run(
            kernels.reassign_nearby, self._pieces, self.nodes.points, centers, neighbors, gaps, self.labels,
            self.nearest,
        )  # fmt: skip
        return 0


class LocalResult(NamedTuple):
    """Centers with their assignment, and the rounds and swaps that led to them."""

    lloyd: Lloyd
    n_rounds: int
    n_swaps: int


def start_locally(
    problem: Problem, n_clusters: int, rng: np.random.Generator, max_iter: int, on_swap: OnRound = silent,
    on_round: OnRound = silent,
) -> LocalResult:  # fmt: skip
    """Centers for a problem with certain nodes: drawn, moved and swapped."""
    centers = seed_in_batches(problem, n_clusters, rng, on_round)
    lloyd, n_rounds = _settle(problem, centers, max_iter, ROUND_TOL, on_round)
    better = improve_locally(problem, lloyd.centers, rng, max_iter, ROUND_TOL, QUICK, on_swap, on_round)
    return better._replace(n_rounds=n_rounds + better.n_rounds)


def improve_locally(
    problem: Problem, centers: Floats, rng: np.random.Generator, max_iter: int, tol: float, effort: LocalEffort,
    on_swap: OnRound = silent, on_round: OnRound = silent,
) -> LocalResult:  # fmt: skip
    """Swap centers until that gains little, then move them until a round saves less than ``tol`` of the cost."""
    nodes, k = problem.nodes, len(centers)
    assignment = LocalAssignment(nodes, centers)
    # Short rows of a cluster stand together in memory; long ones need not, and are not copied.
    order = np.argsort(assignment.labels, kind="stable") if nodes.n_features < LONG_ROW else slice(None)
    rows, mass, spreads = (frozen(array[order]) for array in (nodes.points, nodes.mass, problem.spreads))
    labels, nearest, second = assignment.labels[order], assignment.nearest[order], assignment.other[order]
    centers = centers.copy()
    cost, before, n_swaps = float(np.sum(mass * nearest)), np.inf, 0
    while before - cost > effort.batch_gain * cost:
        before = cost
        uniforms = rng.random((effort.swaps_per_cluster * k, 2))
        min_gain = effort.swap_gain * cost / k
        kernels.swap_nearby(rows, mass, spreads, problem.n_free, uniforms, min_gain, centers, labels, nearest, second)
        cost = float(np.sum(mass * nearest))
        n_swaps += len(uniforms)
        on_swap(n_swaps, cost)
    return LocalResult(*_settle(problem, centers, max_iter, effort.share * tol, on_round), n_swaps)


def _settle(problem: Problem, centers: Floats, max_iter: int, tol: float, on_round: OnRound) -> tuple[Lloyd, int]:
    """Rounds among near centers, and their number."""
    lloyd = Lloyd(problem.nodes, centers, LocalAssignment(problem.nodes, centers))
    return lloyd, descend(problem, lloyd, max_iter, tol, on_round)


def sample(problem: Problem, size: int, rng: np.random.Generator) -> Problem:
    """Smaller problem with certain nodes, chosen by their shares of the mass around rough centers and of the cost.

    Nodes that are far from all others, or have most of the mass, are chosen for sure.
    """
    nodes = problem.nodes
    if len(nodes) <= size:
        return problem
    rough = seed_in_batches(problem, N_ROUGH, rng)
    assignment = LocalAssignment(nodes, rough)
    masses = np.bincount(assignment.labels, nodes.mass, minlength=N_ROUGH)
    excess = problem.excess(assignment.nearest)
    scores = nodes.mass / (N_ROUGH * np.maximum(masses, np.finfo(np.float64).tiny)[assignment.labels])
    if excess.any():
        scores += excess / excess.sum()
    kept, inclusion = capped_probabilities(scores, size)
    passed = np.floor(np.cumsum(inclusion) + rng.random())
    chosen = np.flatnonzero(kept | (np.diff(passed, prepend=0.0) > 0.0))
    weights = nodes.mass[chosen] / np.where(kept, 1.0, inclusion)[chosen]
    return Problem(
        Nodes.from_points(nodes.points[chosen], weights), problem.medians[chosen], problem.spreads[chosen],
        problem.n_free,
    )  # fmt: skip
