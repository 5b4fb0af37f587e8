"""Stability: what would change if the centers were found again, in other possible worlds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi import _parallel
from probi._notes import counted
from probi._types import Array, Floats, Integers, Labels
from probi.errors import InputError
from probi.nodes import Nodes, as_nodes
from probi.objective import assign, check_centers, expected_cost
from probi.solver.lloyd import Lloyd, one_round
from probi.solver.options import SolveOptions
from probi.solver.problem import Problem
from probi.solver.solve import Summarized, solve_quietly
from probi.validation import check_count, keyed, seed_of

# Rounds of a world end when one gains less than this share of the cost: labels hardly change then. Those of the first
# world, from whose end the others start, end later.
TOL, MAX_ROUNDS = 2e-3, 20
FIRST_TOL, MAX_FIRST_ROUNDS = 1e-5, 100

# Worlds solved before their labels are counted: each needs memory for labels of all nodes.
AT_ONCE = 16

# The first world is also solved without a start, on this many of its nodes per cluster. If that leads to centers that
# are cheaper by this share of the cost, other worlds start from the better one for as many of their own nodes.
N_TRIED, MIN_GAIN = 200, 1e-3

# Two worlds have the same outcome if their centers divide the nodes so that the adjusted Rand index is at least this.
SAME = 0.9
N_COMPARED = 1000  # nodes, at most
MAX_OUTCOMES, MIN_PROBABILITY = 5, 0.05


class Outcome(NamedTuple):
    """A typical outcome: centers of one possible world, to which those of others are similar.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
        Numbered as those of the stability.
    probability : float
        Share of the worlds whose centers divide the nodes alike: the adjusted Rand index is at least 0.9.

    Examples
    --------
    >>> import probi
    >>> X = [[0.0], [0.1], [9.0], [9.1]]
    >>> probi.stability(X, 2, n_worlds=10, random_state=0).outcomes[0].probability
    1.0
    """

    centers: Floats
    probability: float


@dataclass(frozen=True, eq=False)
class Stability:
    """How labels and clusters vary over possible worlds.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
        The centers found, with which all worlds are compared.
    labels : ndarray of shape (n_nodes,)
        Cluster of each node; for a summary, of each node of its coreset.
    confidence : ndarray of shape (n_nodes,)
        Share of the worlds in which the node is in the cluster of its label, of those in which it is present. It is
        not a number if it never is. With 100 worlds its standard error is at most 0.05.
    jaccard : ndarray of shape (n_clusters,)
        For each cluster, the mean over worlds of shared mass divided by mass in either: near 1 if it is found again,
        below about 0.5 if it dissolves.
    rand_index : float
        Mean over worlds of the adjusted Rand index of labels: 1 if no node changes its cluster, 0 for labels at random.
    outcomes : tuple of Outcome
        Typical outcomes, the most probable first: at most five, each of at least 5 % of the worlds.
    n_worlds : int
        Number of worlds.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> X = np.random.default_rng(0).normal(size=(100, 5, 2)) + 9 * (np.arange(100) % 2)[:, None, None]
    >>> result = probi.stability(X, 2, random_state=0)
    >>> result
    Stability(2 clusters in 100 worlds: Jaccard 1 to 1, adjusted Rand index 1, 1 typical outcome)
    >>> float(result.confidence.min())
    1.0
    """

    centers: Floats
    labels: Labels
    confidence: Floats
    jaccard: Floats
    rand_index: float
    outcomes: tuple[Outcome, ...]
    n_worlds: int

    def __repr__(self) -> str:
        return (
            f"Stability({counted(len(self.centers), 'cluster')} in {counted(self.n_worlds, 'world')}: Jaccard "
            f"{np.nanmin(self.jaccard):.3g} to {np.nanmax(self.jaccard):.3g}, adjusted Rand index "
            f"{self.rand_index:.3g}, {counted(len(self.outcomes), 'typical outcome')})"
        )


def stability(
    nodes: Nodes | Summarized | ArrayLike,
    n_clusters: int,
    n_worlds: int = 100,
    random_state: Any = None,
    *,
    centers: ArrayLike | None = None,
) -> Stability:
    """Find out which labels and clusters would be the same in other possible worlds.

    In a possible world each node takes one of its realizations, or is absent. Each world is solved, from the centers
    found for the nodes themselves, its clusters are matched to theirs, and labels are compared.

    Parameters
    ----------
    nodes : Nodes, Summary or array-like
        What is clustered, as in :func:`probi.solve`. For a summary, worlds also vary as its sample does.
    n_clusters : int
        Number of centers.
    n_worlds : int, default=100
        Number of possible worlds.
    random_state : None, int, Generator or RandomState, default=None
        The same seed gives the same bits, for any number of threads.
    centers : array-like of shape (n_clusters, n_features), default=None
        Centers that are known. None: those that :func:`probi.solve` finds with the same seed.

    Returns
    -------
    Stability
        Confidence per node, Jaccard index per cluster, adjusted Rand index, and typical outcomes.

    See Also
    --------
    memberships : Only the node varies; the centers stay.

    Notes
    -----
    Possible worlds, and typical outcomes instead of a single consensus, are those of Züfle and others, "Representative
    clustering of uncertain data" (KDD 2014). The first world is also solved without a start; if that finds better
    centers, each of the others starts from those that fit it better. Solutions that neither start leads to are not
    seen, so a clustering may be less stable than this says, but hardly more.

    A node of a coreset represents many others, which vary independently: in a world its mass is a Poisson number of
    draws among its realizations. For the error of the sample, masses are multiplied by random numbers with the variance
    of independent sampling. The sample of a summary is systematic and varies less.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> rng = np.random.default_rng(0)
    >>> X = np.array([0, 0, 0, 9, 9, 9, 5.2])[:, None, None] + rng.normal(size=(7, 50, 1))
    >>> probi.stability(X, 2, random_state=0).confidence
    array([1.  , 1.  , 1.  , 1.  , 1.  , 1.  , 0.75])
    """
    n_worlds = check_count("n_worlds", n_worlds)
    seed = seed_of(random_state)
    is_sample = isinstance(nodes, Summarized) and not nodes._is_whole
    if centers is None:
        known: Floats = solve_quietly(nodes, SolveOptions(n_clusters, random_state=keyed(seed, 0))).centers
    source = nodes.coreset() if isinstance(nodes, Summarized) else as_nodes(nodes)
    if centers is not None:
        known = check_centers(centers, source.n_features)
        if len(known) != n_clusters:
            raise InputError(f"There are {counted(len(known), 'center')}, but n_clusters is {n_clusters}.")
    worlds = _Worlds(source, known, seed, is_sample)
    return worlds.stability(n_worlds)


class _World(NamedTuple):
    """One world: its centers, numbered as those of the nodes, and what its labels have in common with theirs."""

    centers: Floats
    is_present: Array
    agrees: Floats  # share of each node's mass that has its label
    overlap: Floats  # (k, k): mass by label of the nodes and label in the world


class _Worlds:
    """Possible worlds of nodes, compared with known centers."""

    def __init__(self, nodes: Nodes, centers: Floats, seed: int, is_sample: bool) -> None:
        self.nodes, self.centers, self.seed, self.is_sample = nodes, centers, seed, is_sample
        self.labels = assign(nodes, centers)
        self._sums = np.cumsum(nodes.probabilities, dtype=np.float64)
        self._before = np.concatenate([[0.0], self._sums])[nodes.offsets[:-1]]
        # A node's realizations are often equally likely, and then easier to draw.
        sizes = np.diff(nodes.offsets)
        means = np.repeat(nodes.total_probabilities / sizes, sizes)
        self._are_equal = bool(np.allclose(nodes.probabilities, means, rtol=1e-6, atol=0.0))
        self.starts = self._starts()

    def stability(self, n_worlds: int) -> Stability:
        """Solve all worlds and sum up."""
        present, agreed = np.zeros(len(self.nodes)), np.zeros(len(self.nodes))
        centers, jaccards, indices = [], [], []
        for group in _parallel.ranges(n_worlds, AT_ONCE):
            numbers = [(i, i + 1) for i in range(*group)]
            for world in _parallel.run(lambda i, _: self.solved(i), numbers):
                present += world.is_present
                agreed += world.agrees
                centers.append(world.centers)
                jaccards.append(_jaccard(world.overlap))
                indices.append(adjusted_rand_index(world.overlap, len(self.nodes)))
        with np.errstate(invalid="ignore"):
            confidence = agreed / present
        jaccard = np.array(jaccards)
        seen = ~np.isnan(jaccard)
        with np.errstate(invalid="ignore"):
            jaccard = np.where(seen, jaccard, 0.0).sum(axis=0) / seen.sum(axis=0)
        outcomes = self._outcomes(np.array(centers))
        return Stability(self.centers, self.labels, confidence, jaccard, float(np.mean(indices)), outcomes, n_worlds)

    # -- one world

    def draw(self, number: int) -> tuple[Nodes, Integers]:
        """Certain nodes of a world, and the node that each comes from."""
        rng, nodes = keyed(self.seed, 1, number), self.nodes
        if self.is_sample:
            weights = nodes.weights
            noise = np.sqrt(np.maximum(0.0, 1.0 - 1.0 / np.maximum(weights, 1.0)))
            varied = weights * (1.0 + noise * (rng.standard_exponential(len(nodes)) - 1.0))
            of_node = np.repeat(np.arange(len(nodes)), np.diff(nodes.offsets))
            counts = rng.poisson(np.minimum(varied[of_node] * nodes.probabilities, 1e15)).astype(np.float64)
            rows = np.flatnonzero(counts)
            return Nodes.from_points(nodes.points.take(rows, axis=0), counts[rows]), of_node[rows]
        target = rng.random(len(nodes))
        of_node = np.flatnonzero(target < nodes.total_probabilities)
        rows = self._rows(of_node, target[of_node])
        return Nodes.from_points(nodes.points.take(rows, axis=0), nodes.weights[of_node]), of_node

    def _rows(self, of_node: Integers, target: Floats) -> Integers:
        """The realization of each node at which the sum of probabilities passes its target."""
        starts, stops = self.nodes.offsets[of_node], self.nodes.offsets[of_node + 1]
        if self._are_equal:
            share = target / self.nodes.total_probabilities[of_node]
            rows = starts + (share * (stops - starts)).astype(np.int64)
        else:
            rows = np.searchsorted(self._sums, self._before[of_node] + target, side="right")
        return np.clip(rows, starts, stops - 1)

    def solved(self, number: int) -> _World:
        """Solve a world from each start, and match the clusters of the best solution."""
        k = len(self.centers)
        world, of_node = self.draw(number)
        labels, centers = self._solve(world)
        overlap = _shared_mass(self.labels[of_node], labels, world.mass, k)
        order = _matched(overlap)
        masses = np.bincount(of_node, world.mass, minlength=len(self.nodes))
        same = order[self.labels[of_node]] == labels
        with np.errstate(invalid="ignore"):
            agrees = np.bincount(of_node, world.mass * same, minlength=len(self.nodes)) / masses
        is_present = masses > 0.0
        return _World(centers[order], is_present, np.where(is_present, agrees, 0.0), overlap[:, order])

    def _starts(self) -> list[Floats]:
        """Centers from which worlds are solved: those of the first world, from the known ones and from scratch.

        Single realizations differ more than nodes do, so the centers of all worlds differ from the known ones in the
        same way: from there, rounds would be many.
        """
        world, _ = self.draw(0)
        if len(world) < len(self.centers) or not world.mass.any():
            return [self.centers]
        first = _descended(world, self.centers, FIRST_TOL, MAX_FIRST_ROUNDS)
        options = SolveOptions(len(self.centers), n_init=1, tol=TOL, random_state=keyed(self.seed, 2))
        fresh = solve_quietly(self._some(world), options).centers
        second = _descended(world, np.ascontiguousarray(fresh), FIRST_TOL, MAX_FIRST_ROUNDS)
        if second.cost >= (1.0 - MIN_GAIN) * first.cost:
            return [first.centers]
        return [first.centers, second.centers]

    def _some(self, world: Nodes) -> Nodes:
        """Some nodes of a world, evenly among them."""
        return world[:: max(1, len(world) // (N_TRIED * len(self.centers)))]

    def _solve(self, world: Nodes) -> tuple[Labels, Floats]:
        """Labels and centers of a world, from the best start."""
        if len(world) < len(self.centers) or not world.mass.any():
            return assign(world, self.centers), self.centers
        start, *others = self.starts
        if others:
            some = self._some(world)
            start = min(self.starts, key=lambda centers: expected_cost(some, centers))
        lloyd = _descended(world, start, TOL, MAX_ROUNDS)
        return lloyd.assignment.labels, lloyd.centers

    # -- all worlds

    def _outcomes(self, centers: Floats) -> tuple[Outcome, ...]:
        """Group worlds by how their centers divide the nodes, each with the first one that differs from all before."""
        some = self.nodes[:: 1 + len(self.nodes) // N_COMPARED]
        leaders: list[tuple[Floats, Labels]] = []
        sizes: list[int] = []
        for one in centers:
            labels = assign(some, one)
            for i, (_, others) in enumerate(leaders):
                if self._alike(some, labels, others):
                    sizes[i] += 1
                    break
            else:
                leaders.append((one, labels))
                sizes.append(1)
        order = np.argsort(-np.array(sizes), kind="stable")[:MAX_OUTCOMES]
        outcomes = [Outcome(leaders[i][0], sizes[i] / len(centers)) for i in order]
        return tuple(outcome for outcome in outcomes if outcome.probability >= MIN_PROBABILITY)

    def _alike(self, nodes: Nodes, labels: Labels, others: Labels) -> bool:
        overlap = _shared_mass(labels, others, nodes.mass, len(self.centers))
        return adjusted_rand_index(overlap, len(nodes)) >= SAME


def _descended(world: Nodes, centers: Floats, tol: float, max_rounds: int) -> Lloyd:
    """Rounds until one gains less than ``tol`` of the cost, and the assignment to the centers of the last one."""
    problem, lloyd = Problem.of(world), Lloyd(world, centers)
    for _ in range(max_rounds):
        before = lloyd.cost
        one_round(problem, lloyd)
        if not before - lloyd.cost > tol * lloyd.cost:
            break
    lloyd.assign()
    return lloyd


def _shared_mass(labels: Labels, others: Labels, mass: Floats, k: int) -> Floats:
    """Mass of each pair of labels, (k, k)."""
    shared: Floats = np.bincount(labels * np.intp(k) + others, mass, k * k).astype(np.float64, copy=False)
    return shared.reshape(k, k)


def _matched(overlap: Floats) -> Integers:
    """For each label of the nodes the one of the world that shares the most mass, one to one."""
    from scipy.optimize import linear_sum_assignment

    return np.asarray(linear_sum_assignment(overlap, maximize=True)[1])


def _jaccard(overlap: Floats) -> Floats:
    """Shared mass of matched clusters divided by mass in either; not a number if both are empty."""
    shared = np.diag(overlap)
    either = overlap.sum(axis=0) + overlap.sum(axis=1) - shared
    with np.errstate(invalid="ignore"):
        jaccard: Floats = shared / either
    return jaccard


def adjusted_rand_index(overlap: Floats, n: int) -> float:
    """Adjusted Rand index of two clusterings of n nodes, by the mass that each pair of clusters shares.

    Masses count as shares of n nodes; equal ones give the usual index.
    """
    total = overlap.sum()
    if total == 0.0 or n < 2:
        return 1.0
    counts = overlap * (n / total)

    def pairs(numbers: Floats) -> float:
        # A cluster with less than one node has no pairs.
        return float(np.maximum(0.5 * numbers * (numbers - 1.0), 0.0).sum())

    rows, columns, both = pairs(counts.sum(axis=1)), pairs(counts.sum(axis=0)), pairs(counts)
    expected, most = rows * columns / (0.5 * n * (n - 1.0)), 0.5 * (rows + columns)
    return 1.0 if most - expected <= 0.0 else (both - expected) / (most - expected)
