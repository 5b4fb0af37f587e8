"""Lloyd's alternation for k-median: assign nodes, then move each center by Weiszfeld steps."""

import numpy as np

from probi import _parallel
from probi._kernels import pull as kernels
from probi._kernels.pull import RELAXATION
from probi._types import Floats
from probi.medians import PAPER_RATIO, PAPER_STEPS
from probi.nodes import Nodes
from probi.objective import MIN_PIECES, Assignment
from probi.solver.options import OnRound, silent
from probi.solver.problem import Problem, weiszfeld_moves

# Numbers in all partial sums together, 64 MB: each range of nodes has k * d of them.
PARTIAL_SUMS = 1 << 23

# Gains of successive rounds shrink; centers further behind than this many times the last gain are given up.
MAX_LAG = 2.0


class Lloyd:
    """Centers among nodes, and the assignment that goes with them.

    Attributes
    ----------
    centers : ndarray of shape (k, n_features)
    assignment : Assignment
        Of the centers before the last step, until :meth:`assign` is called.
    cost : float
        Of that assignment, once :meth:`sums` was computed.
    """

    def __init__(self, nodes: Nodes, centers: Floats, assignment: Assignment | None = None) -> None:
        self.nodes = nodes
        self.centers = centers.copy()
        self.assignment = Assignment(nodes) if assignment is None else assignment
        self.cost = np.inf
        self._moves = np.zeros(len(centers))
        self._pieces = nodes.pieces(1 + PARTIAL_SUMS // (len(centers) * nodes.n_features), MIN_PIECES)

    def assign(self) -> None:
        """Assign each node to its nearest center."""
        self.assignment.update(self.centers, self._moves, exact=False)
        self._moves = np.zeros(len(self.centers))

    def move(self, centers: Floats) -> None:
        """Move the centers; bounds on distances stay valid by the triangle inequality."""
        self._moves += np.sqrt(((centers - self.centers) ** 2).sum(axis=1))
        self.centers = centers

    def sums(self) -> Floats:
        """Pull, reciprocal distances, mass on the center and cost of each cluster; see the kernel."""
        nodes = self.nodes
        parts = _parallel.run(
            kernels.cluster_pull, self._pieces, nodes.points, nodes.probabilities, nodes.offsets, nodes.weights,
            nodes.total_probabilities, self.assignment.labels, self.centers, self.assignment.nearest,
        )  # fmt: skip
        sums: Floats = np.sum(parts, axis=0)
        self.cost = float(sums[:, nodes.n_features + kernels.COST].sum())
        return sums


def one_round(problem: Problem, lloyd: Lloyd) -> None:
    """Assign, then move centers by one relaxed Weiszfeld step; reseed empty clusters. The cost never rises.

    One step per round is enough: with bounds that follow the moves, the assignment costs less than the step.
    """
    lloyd.assign()
    sums = lloyd.sums()
    sums[:, problem.n_free : lloyd.nodes.n_features] = 0.0  # no pull moves a center off the ground
    centers = lloyd.centers + weiszfeld_moves(sums, RELAXATION)
    masses: Floats = np.bincount(lloyd.assignment.labels, lloyd.nodes.mass, len(centers)).astype(np.float64, copy=False)
    problem.reseed_empty(masses, lloyd.assignment.nearest, centers)
    lloyd.move(centers)


def p_lloyd(nodes: Nodes, centers: Floats, max_iter: int, on_round: OnRound = silent) -> tuple[Floats, int]:
    """Rounds of P-LLOYD++ (section 4.4): until no node changes its center, or ``max_iter`` of them.

    An empty cluster, which the paper does not mention, keeps its center.
    """
    lloyd = Lloyd(nodes, centers)
    for n_rounds in range(1, max_iter + 1):
        before = lloyd.assignment.labels.copy()
        lloyd.assign()
        if n_rounds > 1 and np.array_equal(before, lloyd.assignment.labels):
            break
        _paper_medians(lloyd)
        on_round(n_rounds, lloyd.cost)
    return lloyd.centers, n_rounds


def _paper_medians(lloyd: Lloyd) -> None:
    """Move each center to the median of its cluster, by the paper's rule: from the center of gravity, few steps.

    Where the iterate hits a realization the paper resorts to Kumar's algorithm; Vardi and Zhang's step is defined there
    and needs no second algorithm.
    """
    labels, k = lloyd.assignment.labels, len(lloyd.centers)
    mass = lloyd.nodes.mass
    total = np.bincount(labels, mass, minlength=k)
    active = total > 0.0
    start = lloyd.centers.copy()
    for f, column in enumerate(lloyd.nodes.gravity_centers.T):
        start[active, f] = np.bincount(labels, mass * column, minlength=k)[active] / total[active]
    lloyd.move(start)
    before = earlier = np.full(k, np.inf)
    for step in range(PAPER_STEPS):
        if step >= 2:
            active &= before <= PAPER_RATIO * earlier
        if not active.any():
            break
        moves = weiszfeld_moves(lloyd.sums()) * active[:, None]
        lloyd.move(lloyd.centers + moves)
        earlier, before = before, np.sqrt((moves**2).sum(axis=1))
