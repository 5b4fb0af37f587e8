"""Initial centers, drawn one by one: the farther a node, the likelier."""

import numpy as np

from probi import _parallel
from probi._kernels import candidates as kernels
from probi._types import Floats
from probi.nodes import GRAIN, Nodes
from probi.solver.problem import Problem, draw
from probi.solver.progress import OnRound, silent

# Candidates drawn per center, of which the best is kept. Three starts with one each and one start with three
# cost about the same; the latter was ahead on all four data sets tried.
N_CANDIDATES = 3

# With many clusters, this share of the centers so far is drawn at a time, but no more than so many: on 600,000 points
# and 500 clusters the cost after the first rounds was the same as with one at a time, in a fifth of the time.
BATCH_SHARE, MAX_BATCH = 8, 16


def seed(problem: Problem, n_clusters: int, rng: np.random.Generator, on_round: OnRound = silent) -> Floats:
    """Greedy D-sampling on certain nodes: draw by excess cost, keep the candidate that saves most.

    The first center is drawn by mass. ``on_round`` is called with round 0 before each center.
    """
    nodes = problem.nodes
    pieces = nodes.pieces()
    centers = np.empty((n_clusters, nodes.n_features))
    nearest = np.full(len(nodes), np.inf)
    scores = nodes.mass
    for c in range(n_clusters):
        on_round(0, np.inf)
        chosen = draw(scores, rng.random(N_CANDIDATES if c else 1))
        candidates = problem.medians[chosen].astype(np.float64)
        costs, distances = _costs_with(nodes, pieces, nearest, candidates)
        best = int(np.argmin(costs))
        centers[c] = candidates[best]
        nearest = np.minimum(nearest, distances[:, best])
        scores = problem.excess(nearest)
        if not scores.any():
            # Every node lies on a center: more centers change nothing, wherever they are.
            scores = nodes.mass
    return centers


def seed_in_batches(problem: Problem, n_clusters: int, rng: np.random.Generator, on_round: OnRound = silent) -> Floats:
    """The same, several centers at a time once there are many: fewer passes over the nodes, and cheaper ones."""
    nodes = problem.nodes
    pieces = nodes.pieces()
    centers = np.empty((n_clusters, nodes.n_features))
    nearest = np.full(len(nodes), np.inf)
    scores = nodes.mass
    c = 0
    while c < n_clusters:
        on_round(0, np.inf)
        n_new = min(n_clusters - c, max(1, min(c // BATCH_SHARE, MAX_BATCH)))
        chosen = np.unique(draw(scores, rng.random(N_CANDIDATES * n_new if c else 1)))
        candidates = problem.medians[chosen].astype(np.float64)
        costs, distances = _costs_with(nodes, pieces, nearest, candidates)
        best = np.argsort(costs, kind="stable")[:n_new]
        _parallel.run(kernels.shrink_to, pieces, distances, best, nearest)
        centers[c : c + len(best)] = candidates[best]
        c += len(best)
        scores = problem.excess(nearest)
        if not scores.any():
            scores = nodes.mass
    return centers


def _costs_with(
    nodes: Nodes, pieces: list[tuple[int, int]], nearest: Floats, candidates: Floats
) -> tuple[Floats, Floats]:
    """Cost if each candidate were added, and the distances to the candidates."""
    distances = np.empty((len(nodes), len(candidates)))
    costs: Floats = sum(
        _parallel.run(
            kernels.candidate_costs, pieces, nodes.points, nodes.mass, nearest, candidates,
            np.ascontiguousarray(candidates.T), distances,
        )
    )  # fmt: skip
    return costs, distances


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
