"""Local search: replace one center by a candidate, and keep the swap if the cost falls."""

import numpy as np

from probi import _parallel
from probi._kernels import candidates as kernels
from probi._types import Floats
from probi.objective import Assignment, expected_distances
from probi.solver.lloyd import MAX_LAG, Lloyd, one_round
from probi.solver.problem import Problem, draw
from probi.solver.progress import OnRound, silent

# Candidates per swap; all of them, in exchange for any center, are evaluated in one pass over the points.
N_CANDIDATES = 16

# A swap is judged after at most so many rounds: right after it the cost is nearly always higher (as FLS++ observes for
# k-means), and most that end lower do so within six.
MAX_ROUNDS = 6


class Swaps:
    """Search for better centers by swaps, on certain nodes; each must save the share ``min_gain`` of the cost."""

    def __init__(self, problem: Problem, centers: Floats, rng: np.random.Generator, min_gain: float) -> None:
        self.problem = problem
        self.rng = rng
        self.min_gain = min_gain
        n = len(problem.nodes)
        self._pieces = problem.nodes.pieces()
        self._labels, self._nearest, self._second = np.empty(n, np.int32), np.empty(n), np.empty(n)
        self._distances = np.empty((n, N_CANDIDATES))
        self._settle(centers)

    def run(self, patience: int, on_swap: OnRound = silent) -> int:
        """Try swaps until ``patience`` of them have failed in a row; return the number tried."""
        failures = n_tried = 0
        while failures < patience and self.problem.excess(self._nearest).any():
            before, better = (self.cost, self.centers), self._try()
            n_tried += 1
            on_swap(n_tried, self.cost)
            if better is not None:
                self._settle(better)
                if self.cost < before[0]:
                    failures = 0
                    continue
                self._settle(before[1])  # the gain was only rounding
            failures += 1
        return n_tried

    def _settle(self, centers: Floats) -> None:
        self.centers = centers
        nodes = self.problem.nodes
        _parallel.run(
            kernels.two_nearest, self._pieces, nodes.points, centers, np.ascontiguousarray(centers.T),
            self._labels, self._nearest, self._second,
        )  # fmt: skip
        self.cost = float(np.sum(nodes.mass * self._nearest))

    def _try(self) -> Floats | None:
        """Centers after the best swap and a few rounds, if they are better."""
        candidate, column, leaving, _ = self._best_swap()
        centers = self.centers.copy()
        centers[leaving] = candidate
        lloyd = Lloyd(self.problem.nodes, centers, self._assignment(column, leaving))
        goal = self.cost * (1.0 - self.min_gain)
        for _ in range(MAX_ROUNDS):
            before = lloyd.cost
            one_round(self.problem, lloyd)
            if lloyd.cost < goal:
                return lloyd.centers
            if lloyd.cost - goal > MAX_LAG * (before - lloyd.cost):
                return None  # too slow to reach the goal
        return None

    def _candidates(self) -> Floats:
        """Draw candidates by the excess cost of nodes, and compute all distances to them."""
        nodes = self.problem.nodes
        chosen = draw(self.problem.excess(self._nearest), self.rng.random(N_CANDIDATES))
        candidates = self.problem.medians[chosen].astype(np.float64)
        _parallel.run(
            kernels.candidate_costs, self._pieces, nodes.points, nodes.mass, self._nearest, candidates,
            np.ascontiguousarray(candidates.T), self._distances,
        )  # fmt: skip
        return candidates

    def _best_swap(self) -> tuple[Floats, int, int, float]:
        """Among drawn candidates and all centers, the swap with the lowest cost before any center moves.

        Candidate, its column, center that leaves, and change of the cost.
        """
        nodes, k = self.problem.nodes, len(self.centers)
        candidates = self._candidates()
        parts = _parallel.run(
            kernels.swap_changes, self._pieces, nodes.mass, self._labels, self._nearest, self._second,
            self._distances, k,
        )  # fmt: skip
        changes = np.sum(parts, axis=0)
        changes = changes[:, :k] + changes[:, k:]
        column, leaving = np.unravel_index(np.argmin(changes), (N_CANDIDATES, k))
        return candidates[column], int(column), int(leaving), float(changes[column, leaving])

    def _assignment(self, column: int, leaving: int) -> Assignment:
        """Assignment after a swap, from known distances; only nodes whose center left must be searched."""
        assignment = Assignment(self.problem.nodes)
        to_new = self._distances[:, column]
        joins = to_new < self._nearest
        assignment.labels[:] = np.where(joins, leaving, self._labels)
        assignment.nearest[:] = np.where(joins, to_new, self._nearest)
        assignment.other[:] = np.where(joins, self._nearest, np.minimum(self._second, to_new))
        assignment.other[self._labels == leaving] = -np.inf
        return assignment


class NodeSwaps(Swaps):
    """The same search on uncertain nodes, with new centers drawn among their realizations."""

    def gains_at_once(self) -> bool:
        """Whether one of the candidates, in exchange for a center, lowers the cost before any center moves."""
        return bool(self.problem.excess(self._nearest).any()) and self._best_swap()[3] < -self.min_gain * self.cost

    def _settle(self, centers: Floats) -> None:
        self.centers = centers
        distances = self._distances_to(centers)
        self._labels[:] = np.argmin(distances, axis=1)
        self._nearest[:] = distances.min(axis=1)
        distances[np.arange(len(distances)), self._labels] = np.inf
        self._second[:] = distances.min(axis=1)
        self.cost = float(np.sum(self.problem.nodes.mass * self._nearest))

    def _candidates(self) -> Floats:
        nodes = self.problem.nodes
        excess = self.problem.excess(self._nearest) / nodes.total_probabilities
        scores = np.repeat(excess, np.diff(nodes.offsets)) * nodes.probabilities
        candidates = nodes.points[draw(scores, self.rng.random(N_CANDIDATES))].astype(np.float64)
        self._distances = self._distances_to(candidates)
        return candidates

    def _distances_to(self, centers: Floats) -> Floats:
        nodes = self.problem.nodes
        return expected_distances(nodes, centers) / nodes.total_probabilities[:, None]
