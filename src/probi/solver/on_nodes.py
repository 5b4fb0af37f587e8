"""Last rounds, on all nodes themselves: after a search among medians, or for centers found on a coreset."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from probi import _parallel
from probi._types import Floats
from probi.objective import Assignment
from probi.solver.lloyd import MAX_LAG, Lloyd, one_round
from probi.solver.local_search import LONG_ROW, MANY, LocalSearch
from probi.solver.options import OnRound, silent
from probi.solver.problem import Problem
from probi.solver.seeding import partition

# As shares of the cost: the error of the surrogate (Problem.lifted) when it compares two sets of centers, and the
# smallest difference of two sets that count as different.
SURROGATE_ERROR, SAME_TOL = 1e-2, 1e-4


class Candidate(NamedTuple):
    """Centers that a start led to, after so many rounds; the cost is that before the last one."""

    cost: float
    start: int
    centers: Floats
    n_rounds: int
    assignment: Assignment | None = None


def by_cost(candidate: Candidate) -> tuple[float, int]:
    """Sort key; of equal costs the first start wins."""
    return candidate.cost, candidate.start


def distinct(starts: Sequence[Candidate], tol: float) -> list[Candidate]:
    """Starts by increasing cost, without those that cost the same as the one before: they led to the same centers."""
    ordered = sorted(starts, key=by_cost)
    pairs = itertools.pairwise(ordered)
    return ordered[:1] + [start for before, start in pairs if start.cost - before.cost > tol * before.cost]


def nearly_as_good(starts: Sequence[Candidate]) -> list[Candidate]:
    """Starts that led to other centers than the best one, and may be better on the nodes themselves."""
    lowest, *rest = distinct(starts, SAME_TOL)
    return [start for start in rest if start.cost <= (1.0 + SURROGATE_ERROR) * lowest.cost]


def refine(problem: Problem, centers: Floats, max_iter: int, tol: float, on_round: OnRound = silent) -> Candidate:
    """Rounds on all nodes, until one saves less than ``tol`` of the cost."""
    nodes = problem.nodes
    if nodes.is_certain and nodes.n_features >= LONG_ROW and len(centers) >= MANY:
        # Bounds exclude few of many centers in many dimensions. Near ones alone, in float32 first, take half the time.
        search = LocalSearch(problem, partition(problem, centers))
        search.look_farther()
        n_rounds = search.settle(max_iter, tol, on_round)
        return Candidate(search.cost, 0, search.centers, n_rounds)
    return best_on_nodes(problem, [centers], max_iter, tol, on_round)


def best_on_nodes(
    problem: Problem, starts: list[Floats], max_iter: int, tol: float, on_round: OnRound, goal: float = np.inf
) -> Candidate:
    """Rounds on all nodes, from each of the starts, until the cost stops decreasing; the best of all.

    A start that will hardly get below the goal, or below the best of the others, is given up.
    """
    d = problem.nodes.n_features
    tried = [Lloyd(problem.nodes, np.ascontiguousarray(centers[:, :d])) for centers in starts]
    n_rounds, going = np.zeros(len(tried), int), list(range(len(tried)))
    while going and n_rounds.max() < max_iter:
        before = [tried[i].cost for i in going]
        _parallel.run(lambda at, _: one_round(problem, tried[going[at]]), _parallel.ranges(len(going), 1))  # noqa: B023
        n_rounds[going] += 1
        for i in going:
            on_round(int(n_rounds[i]), tried[i].cost)
        lowest = min(goal, *(lloyd.cost for lloyd in tried), np.inf)
        gains = [cost - tried[i].cost for i, cost in zip(going, before, strict=True)]
        going = [
            i
            for i, gain in zip(going, gains, strict=True)
            if gain > tol * tried[i].cost and tried[i].cost - lowest <= MAX_LAG * gain
        ]
    best = min(range(len(tried)), key=lambda i: tried[i].cost)
    tried[best].assign()
    return Candidate(tried[best].cost, best, tried[best].centers, int(n_rounds[best]), tried[best].assignment)
