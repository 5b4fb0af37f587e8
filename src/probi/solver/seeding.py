"""Initial centers for many clusters, and those of the paper: the farther a node, the likelier it is drawn."""

from typing import NamedTuple

import numpy as np

from probi import _parallel
from probi._kernels import candidates as kernels
from probi._parallel import GRAIN
from probi._types import Floats, Labels
from probi.nodes import Nodes
from probi.objective import join_centers
from probi.solver.options import OnRound, silent
from probi.solver.problem import Problem, draw, draw_distinct

# With many clusters, each draw doubles the number of centers, but adds at least this many.
MIN_BATCH = 8


class Partition(NamedTuple):
    """Centers, and for each node the nearest of them, the distance to it and a lower bound of that to the next."""

    centers: Floats
    labels: Labels
    nearest: Floats
    second: Floats


def partition(problem: Problem, centers: Floats) -> Partition:
    """The nearest center of each of some certain nodes."""
    n = len(problem.nodes)
    result = Partition(centers, np.zeros(n, np.int32), np.full(n, np.inf), np.full(n, np.inf))
    join_centers(problem.nodes.points, centers, 0, *result[1:])
    return result


def seed_in_batches(
    problem: Problem, n_clusters: int, rng: np.random.Generator, on_round: OnRound = silent
) -> Partition:
    """D-sampling on certain nodes, many centers at a time: drawn by excess cost, all of them kept.

    Fewer centers than asked for if every node lies on one of them.
    """
    chosen = draw_distinct(problem.nodes.mass, 1, rng.random())[0]
    known = partition(problem, problem.medians[chosen].astype(np.float64))
    while (k := len(known.centers)) < n_clusters:
        on_round(0, np.inf)
        n_new = min(n_clusters - k, max(k, MIN_BATCH))
        chosen = draw_distinct(problem.excess(known.nearest), n_new, rng.random())[0]
        if len(chosen) == 0:
            break
        known = known._replace(centers=np.concatenate([known.centers, problem.medians[chosen].astype(np.float64)]))
        join_centers(problem.nodes.points, known.centers, k, *known[1:])
    return known


def seed_as_in_paper(nodes: Nodes, n_clusters: int, rng: np.random.Generator) -> Floats:
    """D-sampling over realizations (section 4.4): each by its mass times its distance to the nearest center so far.

    A point that several nodes share is drawn by the sum of its masses, its total realization score, because each of
    its copies is drawn by its own.
    """
    masses = np.repeat(nodes.weights, np.diff(nodes.offsets)) * nodes.probabilities
    pieces = _parallel.ranges(nodes.n_realizations, 1 + GRAIN // nodes.n_features)
    nearest = np.full(nodes.n_realizations, np.inf)
    centers = np.empty((n_clusters, nodes.n_features))
    scores = masses
    for c in range(n_clusters):
        centers[c] = nodes.points[draw(scores, rng.random(1))[0]]
        _parallel.run(kernels.shrink, pieces, nodes.points, centers[c : c + 1], nearest)
        scores = masses * nearest
        if not scores.any():
            scores = masses
    return centers
