"""Local search for many clusters, on certain nodes: what a step changes lies near it, and only that is looked at."""

from typing import NamedTuple

import numpy as np

from probi import _parallel
from probi._kernels import local_search as kernels
from probi._kernels.many_centers import join_nearest
from probi._kernels.pull import COST, N_SCALARS, ON_POINT, RECIPROCAL, RELAXATION
from probi._parallel import GRAIN
from probi._types import Floats, Integers, Labels
from probi.solver.options import OnRound, silent
from probi.solver.problem import Problem, draw_distinct, weiszfeld_moves
from probi.solver.seeding import Partition, partition, seed_in_batches
from probi.validation import frozen

# From this many clusters on, starts and swaps look only at what they change, and one start is enough.
MANY = 32

# A node is compared with this many centers around its own, in rounds between swaps and in the last rounds. In ten
# dimensions a cell has far more neighbors than 32: with 96 the last rounds gain nearly as much as with all.
N_NEAR, N_NEAR_AT_LAST = 32, 96

# Of new centers, a node is compared with this many around its own. Only those in the list: 0.2 % more cost with heavy
# tails.
N_NEW = 16

# Lists of near centers are renewed after this many rounds.
RENEWAL = 4

# Starts see this many nodes per cluster. Their swaps find most of what swaps on all nodes find, in a quarter of the
# time.
SAMPLE_PER_CLUSTER = 50

# Rough centers by which the sample is drawn.
N_ROUGH = 64

# Starts draw this many times the centers, and remove those that cost least to remove.
OVERSEEDING = 1.5

# New centers are chosen among this many times as many candidates, by what each saves at every n-th node around it.
N_CANDIDATES, STEP = 4, 8

# Rounds after centers were added, and after others were removed.
ROUNDS_WITH_NEW, ROUNDS_WITHOUT_OLD = 2, 2

# Rows with at least this many features are read as fast wherever they are.
LONG_ROW = 64

# Share of its last move by which a center moves on in the next round: fewer rounds lead to the same cost.
MOMENTUM = 0.7

# Rounds end when they save less than this share of the cost: swaps change more.
ROUND_TOL = 3e-3

# Ranges of clusters for threads, at most.
MAX_SHARES = 16


class LocalEffort(NamedTuple):
    """How long swaps are tried.

    One of ``per_swap`` centers is swapped at a time, as long as that saves the share ``gain`` of the cost; then half as
    many, and so on, ``n_sizes`` times in all. The last rounds end when one saves less than ``slack`` times ``tol``.
    """

    per_swap: int
    n_sizes: int
    gain: float
    slack: float = 1.0


# For a start on the sample, for a coreset, whose own error hides the last per mille, and for data in memory.
START, QUICK, THOROUGH = LocalEffort(4, 1, 2e-3), LocalEffort(4, 1, 2e-3, 3.0), LocalEffort(8, 3, 3e-4)

# For a coreset of HUNDREDS of clusters, where one swap is a fifth of the time to solve it: costs rise by up to
# 0.13 %. For 50 clusters they would rise by 0.3 %, and without any swap on all nodes, by 0.6 % for 500. The last rounds
# save less of the cost on all data than on the coreset, down to a third: to end them earlier costs up to 0.08 % on all
# data, and up to 0.17 % on the coreset.
HUNDREDS, QUICKER = 256, QUICK._replace(gain=5e-3, slack=5.0)


class LocalResult(NamedTuple):
    """Centers and their cost, and the rounds and swaps that led to them."""

    centers: Floats
    cost: float
    n_rounds: int
    n_swaps: int


def start_locally(
    problem: Problem, n_clusters: int, rng: np.random.Generator, max_iter: int, on_swap: OnRound = silent,
    on_round: OnRound = silent,
) -> LocalResult:  # fmt: skip
    """Centers for a problem with certain nodes: drawn, moved and swapped."""
    search = LocalSearch(problem, seed_in_batches(problem, round(OVERSEEDING * n_clusters), rng, on_round))
    while (extra := len(search.centers) - n_clusters) > 0:
        search.settle(ROUNDS_WITH_NEW, 0.0)
        search.remove(extra if extra <= n_clusters // 8 else extra // 2)
    if extra < 0:
        # Every node lies on a center: more of them change nothing, wherever they are.
        search = LocalSearch(
            problem, partition(problem, np.resize(search.centers, (n_clusters, problem.nodes.n_features)))
        )
    n_rounds = search.settle(max_iter, ROUND_TOL, on_round)
    n_swaps = _swap(search, START, rng, on_swap)
    return LocalResult(search.centers, search.cost, n_rounds, n_swaps)


def improve_locally(
    problem: Problem, centers: Floats, rng: np.random.Generator, max_iter: int, tol: float, effort: LocalEffort,
    on_swap: OnRound = silent, on_round: OnRound = silent,
) -> LocalResult:  # fmt: skip
    """Swap centers until that gains little, then move them until a round saves less than ``tol`` of the cost."""
    search = LocalSearch(problem, partition(problem, centers))
    search.settle(max_iter, ROUND_TOL, on_round)
    n_swaps = _swap(search, effort, rng, on_swap)
    search.look_farther()
    n_rounds = search.settle(max_iter, effort.slack * tol, on_round)
    return LocalResult(search.centers, search.cost, n_rounds, n_swaps)


def _swap(search: "LocalSearch", effort: LocalEffort, rng: np.random.Generator, on_swap: OnRound) -> int:
    """Swap centers until that gains little; return the number of swaps."""
    n_swaps, n = 0, -(-len(search.centers) // effort.per_swap)
    for _ in range(effort.n_sizes):
        before = np.inf
        while before - search.cost > effort.gain * search.cost:
            before = search.cost
            n_swaps += search.swap(n, rng)
            on_swap(n_swaps, search.cost)
        n = -(-n // 2)
    return n_swaps


class LocalSearch:
    """Centers among certain nodes. Each node has the nearest of the centers around its own, rarely not that of all.

    Attributes
    ----------
    centers : ndarray of shape (k, n_features)
    cost : float
        Of the centers before their last move.
    """

    def __init__(self, problem: Problem, start: Partition) -> None:
        nodes = problem.nodes
        self._rows, self._mass, self._spreads = nodes.points, nodes.mass, problem.spreads
        self._labels, self._nearest, self._second = start.labels, start.nearest, start.second
        self._n_free, self._n_near = problem.n_free, N_NEAR
        self.centers = start.centers
        self.cost = float(np.sum(self._mass * self._nearest))
        self._lists: Labels
        self._drops: Floats
        self._sort()
        self._renew()

    def _sort(self) -> None:
        """Let short rows of a cluster stand together in memory, where rounds are twice as fast; copy what changes.

        Long rows are read as fast wherever they are.
        """
        order: Integers | slice = slice(None)
        if self._rows.shape[1] < LONG_ROW:
            members: Integers = kernels.by_cluster(self._labels, len(self.centers))[0]
            # Taken twice as fast as indexed; read-only like long rows, or kernels would be compiled for each kind.
            self._rows = frozen(self._rows.take(members, axis=0))
            order = members
            self._mass, self._spreads = frozen(self._mass[order]), self._spreads[order]
        self._labels = self._labels[order].copy()
        self._nearest, self._second = self._nearest[order].copy(), self._second[order].copy()

    def settle(self, max_iter: int, tol: float, on_round: OnRound = silent) -> int:
        """Move the centers until a round saves less than ``tol`` of the cost; return the number of rounds."""
        before, momentum, was_plain = np.inf, np.zeros(self.centers.shape), True
        for n_rounds in range(1, max_iter + 1):
            if n_rounds % RENEWAL == 0:
                self._lists = _nearest_of(self.centers, self.centers, self._n_near)
            moves = self._move(momentum)
            on_round(n_rounds, self.cost)
            gain, before = before - self.cost, self.cost
            # If momentum in the round before has raised the cost, go on without it.
            if gain <= tol * self.cost and (gain >= 0.0 or was_plain):
                break
            was_plain = not momentum.any()
            momentum = (MOMENTUM if gain > 0.0 else 0.0) * moves
        return n_rounds

    def look_farther(self) -> None:
        """Compare nodes with more centers from now on."""
        self._n_near = N_NEAR_AT_LAST
        self._renew()
        self._drops[:] = np.inf

    def swap(self, n: int, rng: np.random.Generator) -> int:
        """Add centers, remove as many others, and keep the change if it lowers the cost; return their number."""
        before = vars(self).copy()
        self._sort()
        n_new = self._add(n, rng)
        for _ in range(ROUNDS_WITH_NEW):
            self._move()
        self.remove(n_new)
        for _ in range(ROUNDS_WITHOUT_OLD):
            self._move()
        if not self.cost < before["cost"]:
            vars(self).update(before)
        return n_new

    def _add(self, n: int, rng: np.random.Generator) -> int:
        """Add up to n centers, on nodes drawn by their excess cost; return their number."""
        k = len(self.centers)
        members, starts = kernels.by_cluster(self._labels, k)
        candidates = draw_distinct(self._excess(), N_CANDIDATES * n, rng.random())[0]
        saved = np.empty(len(candidates))
        _parallel.run(
            kernels.savings, _parallel.ranges(len(candidates), 16), self._rows, self._mass, self._nearest, members,
            starts, self._labels, self._lists, STEP, candidates, saved,
        )  # fmt: skip
        candidates = candidates[np.argsort(-saved, kind="stable")]
        chosen = kernels.first_apart(self._rows, self._nearest, candidates, n)
        self.centers = np.concatenate([self.centers, np.zeros((len(chosen), self.centers.shape[1]))])
        self._place(np.arange(k, k + len(chosen)), chosen, members, starts)
        return len(chosen)

    def _place(self, numbers: Integers, chosen: Integers, members: Integers, starts: Integers) -> None:
        """Put centers, which have no nodes, on chosen nodes; ``members`` and ``starts`` are those of the others."""
        if len(chosen) == 0:
            return
        around = self.centers[: len(starts) - 1]
        self.centers = self.centers.copy()
        self.centers[numbers, : self._n_free] = self._rows[chosen, : self._n_free]
        self._second -= self._drops[self._labels]
        lists = numbers[_nearest_of(around, self.centers[numbers], N_NEW)].astype(np.int32)
        _parallel.run(
            join_nearest, self._shares(starts), self._rows, members, starts, around, lists, self.centers, self._labels,
            self._nearest, self._second,
        )  # fmt: skip
        self._renew()

    def remove(self, n: int) -> None:
        """Remove n centers, one after the other the one that costs least to remove."""
        k = len(self.centers)
        self._drops[:] = np.inf  # distances of the next centers, not bounds of them
        self._look()
        losses = np.bincount(self._labels, self._mass * (self._second - self._nearest), minlength=k)
        members, starts = kernels.by_cluster(self._labels, k)
        removed = kernels.remove_cheapest(
            self._rows, self._mass, n, members, starts, self.centers, self._lists, losses, self._labels, self._nearest,
            self._second,
        )  # fmt: skip
        self._labels = (np.cumsum(~removed, dtype=np.int32) - np.int32(1))[self._labels]
        self.centers = self.centers[~removed]
        self._renew()

    def _excess(self) -> Floats:
        return self._mass * np.maximum(self._nearest - self._spreads, 0.0)

    def _renew(self) -> None:
        """Find the centers around each, once there are others."""
        self._lists = _nearest_of(self.centers, self.centers, self._n_near)
        self._drops = np.zeros(len(self.centers))

    def _look(self) -> Floats:
        """Assign each node to one of the centers around its own; return the pull at the centers, see the kernel."""
        k, d = self.centers.shape
        members, starts = kernels.by_cluster(self._labels, k)
        sums, moved, shares = np.zeros((k, d + N_SCALARS)), np.empty(len(members), np.int64), self._shares(starts)
        counts = _parallel.run(
            kernels.round_nearby, shares, self._rows, self._mass, self._n_free, members, starts, self.centers,
            self._lists, self._drops, self._labels, self._nearest, self._second, sums, moved,
        )  # fmt: skip
        kernels.add_moved(
            self._rows, self._mass, self._n_free, self.centers, self._labels, self._nearest, moved,
            starts[[first for first, _ in shares]], np.array(counts), sums,
        )  # fmt: skip
        self.cost = float(sums[:, d + COST].sum())
        self._drops = np.zeros(k)
        return sums

    def _shares(self, starts: Integers) -> list[tuple[int, int]]:
        """Ranges of clusters with about as many rows each."""
        n_rows, n_clusters = len(self._rows), len(starts) - 1
        n_shares = min(1 + n_rows * self._lists.shape[1] * self._rows.shape[1] // GRAIN, MAX_SHARES)
        bounds = np.searchsorted(starts, n_rows / n_shares * np.arange(1, n_shares))
        bounds = np.unique(np.concatenate([[0], bounds, [n_clusters]]))
        return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))

    def _move(self, momentum: Floats | float = 0.0) -> Floats:
        """Assign, then move centers by one relaxed Weiszfeld step and their momentum; reseed empty clusters.

        Return how far they moved.
        """
        sums, d = self._look(), self.centers.shape[1]
        moves = weiszfeld_moves(sums, RELAXATION) + momentum
        self.centers = self.centers + moves
        moved = np.sqrt((moves**2).sum(axis=1))[self._lists]
        moved[self._lists == np.arange(len(moved))[:, None]] = 0.0  # all but the center itself
        self._drops = moved.max(axis=1)
        empty = np.flatnonzero((sums[:, d + RECIPROCAL] == 0.0) & (sums[:, d + ON_POINT] == 0.0))
        if len(empty):
            excess = self._excess()
            worst = np.argsort(-excess, kind="stable")[: len(empty)]
            worst = worst[excess[worst] > 0.0]
            self._place(empty[: len(worst)], worst, *kernels.by_cluster(self._labels, len(self.centers)))
            moves[empty] = 0.0
        return moves


def _nearest_of(queries: Floats, centers: Floats, n: int) -> Labels:
    """The n nearest centers of each query, by distance; all if there are fewer."""
    lists = np.zeros((len(queries), min(n, len(centers))), np.int32)
    _parallel.run(
        kernels.nearest_centers, _parallel.ranges(len(queries), 64), queries, np.ascontiguousarray(centers.T), lists
    )  # fmt: skip
    return lists


def sample(problem: Problem, size: int, rng: np.random.Generator) -> Problem:
    """Smaller problem with certain nodes, see :meth:`probi.solver.problem.Problem.sample`."""
    if len(problem.nodes) <= size:
        return problem
    rough = seed_in_batches(problem, N_ROUGH, rng)
    return problem.part(*problem.sample(size, rough.labels, rough.nearest, rng.random()))
