"""Local search: take one center away, put one elsewhere, and see whether the cost falls."""

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import candidates as kernels
from probi.objective import Assignment, expected_distances
from probi.solver.lloyd import Lloyd, one_round
from probi.solver.problem import Problem, draw
from probi.solver.progress import OnRound, silent

Floats = NDArray[np.float64]

# Places tried for the new center; all of them, with each center to take away, cost one pass over the points.
N_CANDIDATES = 16

# A swap is judged after at most so many rounds: right after it the cost is nearly always higher (as FLS++ observes for
# k-means), and most that end lower do so within six.
FORESIGHT = 6

# Gains of successive rounds shrink; one that is behind by more than this many times its last gain is given up.
PACE = 2.0


class Swaps:
    """Search for better centers by swaps, on certain nodes; a swap must gain at least a share of the cost."""

    def __init__(self, problem: Problem, centers: Floats, rng: np.random.Generator, least_gain: float) -> None:
        self.problem = problem
        self.rng = rng
        self.least_gain = least_gain
        n = len(problem.nodes)
        self._pieces = problem.nodes.pieces()
        self._labels, self._nearest, self._second = np.empty(n, np.int32), np.empty(n), np.empty(n)
        self._distances = np.empty((n, N_CANDIDATES))
        self._settle(centers)

    def run(self, patience: int, on_swap: OnRound = silent) -> int:
        """Try swaps until ``patience`` of them have failed one after the other; return how many were tried."""
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
                self._settle(before[1])  # rounding gave a gain that is none
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
        """Centers after the most promising swap and a few rounds, if they are better."""
        place, column, leaving, _ = self._promising()
        centers = self.centers.copy()
        centers[leaving] = place
        lloyd = Lloyd(self.problem.nodes, centers, self._assignment(column, leaving))
        goal = self.cost * (1.0 - self.least_gain)
        for _ in range(FORESIGHT):
            before = lloyd.cost
            one_round(self.problem, lloyd)
            if lloyd.cost < goal:
                return lloyd.centers
            if lloyd.cost - goal > PACE * (before - lloyd.cost):
                return None  # at this pace it does not get there
        return None

    def _candidates(self) -> Floats:
        """Draw places for the new center by what nodes cost beyond their spreads, and measure all distances to them."""
        nodes = self.problem.nodes
        chosen = draw(self.problem.excess(self._nearest), self.rng.random(N_CANDIDATES))
        places = self.problem.places[chosen].astype(np.float64)
        _parallel.run(
            kernels.candidate_costs, self._pieces, nodes.points, nodes.mass, self._nearest, places,
            np.ascontiguousarray(places.T), self._distances,
        )  # fmt: skip
        return places

    def _promising(self) -> tuple[Floats, int, int, float]:
        """Among drawn places and all centers, the pair that costs least at once.

        Place, its column, center to leave, and change of the cost.
        """
        nodes, k = self.problem.nodes, len(self.centers)
        places = self._candidates()
        parts = _parallel.run(
            kernels.swap_changes, self._pieces, nodes.mass, self._labels, self._nearest, self._second,
            self._distances, k,
        )  # fmt: skip
        changes = np.sum(parts, axis=0)
        changes = changes[:, :k] + changes[:, k:]
        column, leaving = np.unravel_index(np.argmin(changes), (N_CANDIDATES, k))
        return places[column], int(column), int(leaving), float(changes[column, leaving])

    def _assignment(self, column: int, leaving: int) -> Assignment:
        """Assignment after a swap, from what is known; only nodes whose center left are to be looked at."""
        found = Assignment(self.problem.nodes)
        to_new = self._distances[:, column]
        joins = to_new < self._nearest
        found.labels[:] = np.where(joins, leaving, self._labels)
        found.nearest[:] = np.where(joins, to_new, self._nearest)
        found.other[:] = np.where(joins, self._nearest, np.minimum(self._second, to_new))
        found.other[self._labels == leaving] = -np.inf
        return found


class NodeSwaps(Swaps):
    """The same search on uncertain nodes, with new centers drawn among their realizations."""

    def gain_at_once(self) -> bool:
        """Whether one of the places drawn, in exchange for a center, lowers the cost before any center moves."""
        return bool(self.problem.excess(self._nearest).any()) and self._promising()[3] < -self.least_gain * self.cost

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
        places = nodes.points[draw(scores, self.rng.random(N_CANDIDATES))].astype(np.float64)
        self._distances = self._distances_to(places)
        return places

    def _distances_to(self, centers: Floats) -> Floats:
        nodes = self.problem.nodes
        return expected_distances(nodes, centers) / nodes.total_probabilities[:, None]
