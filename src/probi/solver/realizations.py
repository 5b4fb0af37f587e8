"""Search among realizations: where those of a node are far apart, a good center may be near no median."""

import numpy as np

from probi._types import Floats
from probi.objective import expected_distances
from probi.solver.lloyd import MAX_LAG, Lloyd, one_round
from probi.solver.options import OnRound, silent
from probi.solver.problem import Problem, draw

# Realizations drawn to find out whether medians are near them, and how near they are to one on average, as a share of
# the distance to their own median. Forecasts of a hurricane have 0.23, nodes with two distant modes 0.9.
N_DRAWN, NEAR = 64, 1 / 3

# Candidates per swap, and rounds after which it is judged.
N_CANDIDATES, MAX_ROUNDS = 16, 6


def are_near_medians(problem: Problem, rng: np.random.Generator) -> bool:
    """Whether realizations are near to medians of other nodes: starts among medians then do as well."""
    nodes = problem.nodes
    own = np.repeat(np.arange(len(nodes)), np.diff(nodes.offsets))
    distances = np.sqrt(((nodes.points - problem.medians[own]) ** 2).sum(axis=1))
    scores = nodes.weights[own] * nodes.probabilities * distances
    if not scores.any():
        return True
    drawn = draw(scores, rng.random(N_DRAWN))
    nearest = expected_distances(problem.medians, nodes.points[drawn]).min(axis=0)
    return bool(np.mean(nearest / distances[drawn]) <= NEAR)


class NodeSwaps:
    """Swaps of centers of uncertain nodes for realizations; each must save the share ``min_gain`` of the cost."""

    def __init__(self, problem: Problem, centers: Floats, rng: np.random.Generator, min_gain: float) -> None:
        self.problem = problem
        self.rng = rng
        self.min_gain = min_gain
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

    def gains_at_once(self) -> bool:
        """Whether one of the candidates, in exchange for a center, lowers the cost before any center moves."""
        return bool(self.problem.excess(self._nearest).any()) and self._best_swap()[1] < -self.min_gain * self.cost

    def _settle(self, centers: Floats) -> None:
        self.centers = centers
        distances = self._distances_to(centers)
        self._labels = np.argmin(distances, axis=1)
        self._nearest = distances.min(axis=1)
        distances[np.arange(len(distances)), self._labels] = np.inf
        self._second = distances.min(axis=1)
        self.cost = float(np.sum(self.problem.nodes.mass * self._nearest))

    def _try(self) -> Floats | None:
        """Centers after the best swap and a few rounds, if they are better."""
        lloyd = Lloyd(self.problem.nodes, self._best_swap()[0])
        goal = self.cost * (1.0 - self.min_gain)
        for _ in range(MAX_ROUNDS):
            before = lloyd.cost
            one_round(self.problem, lloyd)
            if lloyd.cost < goal:
                return lloyd.centers
            if lloyd.cost - goal > MAX_LAG * (before - lloyd.cost):
                return None  # too slow to reach the goal
        return None

    def _best_swap(self) -> tuple[Floats, float]:
        """Centers with the best swap for one of the realizations drawn, before any center moves; change of the cost."""
        nodes, k = self.problem.nodes, len(self.centers)
        excess = self.problem.excess(self._nearest) / nodes.total_probabilities
        scores = np.repeat(excess, np.diff(nodes.offsets)) * nodes.probabilities
        candidates = nodes.points[draw(scores, self.rng.random(N_CANDIDATES))].astype(np.float64)
        distances = self._distances_to(candidates)
        joined = np.minimum(self._nearest[:, None], distances)
        left = nodes.mass[:, None] * (np.minimum(self._second[:, None], distances) - joined)
        gains = np.sum(nodes.mass[:, None] * (joined - self._nearest[:, None]), axis=0)
        changes = gains[:, None] + np.array([np.bincount(self._labels, column, k) for column in left.T])
        new, leaving = np.unravel_index(np.argmin(changes), changes.shape)
        centers = self.centers.copy()
        centers[leaving] = candidates[new]
        return centers, float(changes[new, leaving])

    def _distances_to(self, centers: Floats) -> Floats:
        nodes = self.problem.nodes
        return expected_distances(nodes, centers) / nodes.total_probabilities[:, None]
