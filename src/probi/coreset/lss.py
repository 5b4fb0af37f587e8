"""Algorithm 1 of the paper: the coreset of Lammersen, Schmidt and Sohler (2012), with an error bound instead of a size.

Five steps, each a function here. The primary source is not available, so the proof is ours: see
``docs/how-it-works/theory.md``. The number of draws is the smallest for which it holds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from probi._types import Floats, Integers
from probi.coreset.importance import Preset, Retained, concat_nonempty
from probi.coreset.paper import buckets, draws, kumar_medians, nearest, rings_of, spreads_around
from probi.errors import InputError, SolverWarning
from probi.nodes import Nodes, as_nodes
from probi.solver.problem import Problem, draw
from probi.solver.search import seed
from probi.validation import check_count, check_share, frozen, generator, max_allowed

__all__ = ["lss_coreset"]


# Points that centers may be chosen from, if there are fewer nodes.
N_CANDIDATES = 1 << 16

# Nodes with no more realizations stay as they are in step 5.
FEW_REALIZATIONS = 64

# The size of such a coreset is unknown in advance. A leaf is four times what its buckets would hold if TYPICAL_NODES
# nodes had eight of them per cluster: enough to be reduced.
TYPICAL_NODES, BUCKETS_PER_CLUSTER = 1 << 16, 8

# Centers per cluster of the bicriteria solver: D-sampling of 2 k is a constant approximation with constant
# probability (Wei, 2016).
CENTERS_PER_CLUSTER = 2


class Guarantee(NamedTuple):
    """The cost of centers on the coreset is off by at most epsilon times a rough cost, with probability 1 - delta.

    For all sets of k centers at once out of a list that was fixed before anything was drawn, of ``N_CANDIDATES`` points
    or as many as there are nodes. The rough cost is that of step 3, at most a constant times the smallest cost.
    """

    epsilon: float
    delta: float

    @classmethod
    def checked(cls, epsilon: Any, delta: Any) -> Guarantee:
        """Return a guarantee, or raise on invalid numbers."""
        check_share("epsilon", epsilon)
        check_share("delta", delta)
        return cls(float(epsilon), float(delta))

    def share(self, *numbers: int) -> Guarantee:
        """Guarantee of one coreset among many, such that all of them together keep this guarantee.

        The numbers, from 0 on, identify it; the first is its level. Shares fall with the square of each number
        + 1, whose inverses sum to pi ** 2 / 6. Errors of the levels above each other multiply, failures of all add up.
        """
        shares = [6.0 / (math.pi * (number + 1)) ** 2 for number in numbers]
        return Guarantee(math.log1p(self.epsilon) * shares[0], self.delta * math.prod(shares))

    def step(self) -> Guarantee:
        """Guarantee of each step.

        Two of them err, one on top of the other: (1 + e)(1 + e) - 1 is epsilon. Four of them may fail.
        """
        return Guarantee(math.sqrt(1.0 + self.epsilon) - 1.0, self.delta / 4.0)

    def planned_draws(self, n: int, n_clusters: int) -> int:
        """Draws per bucket of n items for which a leaf is sized; usually fewer are needed."""
        return math.ceil((n_clusters * math.log(n) - math.log(self.delta / 2.0)) / self.step().epsilon ** 2)


@dataclass(frozen=True)
class GuaranteedSampling(Preset):
    """Algorithm 1 over a stream: as many nodes as a guarantee needs."""

    guarantee: Guarantee

    @classmethod
    def of(cls, n_clusters: int, size: Any, epsilon: Any, delta: Any) -> Self:
        """Return the preset for these parameters, or raise on those that make no sense; None means not given."""
        if size is not None:
            raise InputError('With preset="theory" the size follows from epsilon and delta: do not give one.')
        if epsilon is None or delta is None:
            raise InputError(
                'preset="theory" needs epsilon and delta, the largest error and how often it may be exceeded: '
                'for example preset="theory", epsilon=0.2, delta=0.1.'
            )
        guarantee = Guarantee.checked(epsilon, delta)
        draws = guarantee.share(0).planned_draws(TYPICAL_NODES, n_clusters)
        return cls(n_clusters, BUCKETS_PER_CLUSTER * n_clusters * draws, guarantee)

    def reduce(self, parts: Sequence[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        """Choose as many nodes as the share of this coreset in the guarantee needs."""
        return reduce(parts, self.n_clusters, self.guarantee.share(*numbers), rng)

    def block_level(self, n_levels: int) -> int:
        """A coreset of coresets stands a level above them, where it may err less."""
        return n_levels

    def final_coreset(self, streams: Sequence[Retained], rng: np.random.Generator) -> Nodes:
        """Union of all: it keeps the guarantee, and another reduce would cost some of it."""
        return concat_nonempty([nodes for stream in streams for nodes in stream.parts])

    @property
    def description(self) -> str:
        """What it keeps, for people."""
        return f"error at most {self.guarantee.epsilon:.3g} with probability {1.0 - self.guarantee.delta:.3g}"


def lss_coreset(
    nodes: Nodes | ArrayLike, n_clusters: int, epsilon: float, delta: float, random_state: Any = None
) -> Nodes:
    """Coreset with a guarantee: the cost of k centers on it is about that on all nodes.

    With probability 1 - delta the costs of all sets of k centers out of a list differ by at most epsilon times T. The
    list has as many points as there are nodes, or 65,536 if these are fewer, and is fixed before the coreset is drawn:
    the medians of all nodes, say. T is the cost of a rough solution with 4 k centers, spreads included. It is a
    constant times the smallest cost at most, and 0.5 to 0.9 times in our measurements: epsilon is then a bound of the
    relative error. Nothing is proved for centers that a solver finds on the coreset.

    Parameters
    ----------
    nodes : Nodes or array-like
        What the coreset is to stand for; arrays as in :func:`probi.solve`.
    n_clusters : int
        Number of centers that the guarantee is for.
    epsilon : float
        Largest error as a share of T, between 0 and 1.
    delta : float
        Probability with which the guarantee may be broken, between 0 and 1.
    random_state : None, int, Generator or RandomState, default=None
        The same seed gives the same bits.

    Returns
    -------
    Nodes
        Some of the nodes with new weights, those with many realizations thinned. The total mass is kept.

    Warns
    -----
    SolverWarning
        If the guarantee needs so many draws that all nodes are kept as they are.

    See Also
    --------
    probi.Summary : With ``preset="theory"`` the same for a stream.

    Notes
    -----
    Algorithm 1 of the paper, which calls it the coreset of Lammersen, Schmidt and Sohler. Chosen here: the number of
    draws from each bucket is the smallest for which Hoeffding's inequality gives the guarantee; buckets with no more
    nodes than that are kept whole; a quarter of delta each goes to medians, rough centers, nodes and realizations.
    Multiplicities of the original are weights, which is the same and needs no smallest weight.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> from probi.coreset.lss import lss_coreset
    >>> X = np.random.default_rng(0).normal(size=(100_000, 2)) ** 3
    >>> lss_coreset(probi.Nodes.from_points(X), n_clusters=2, epsilon=0.5, delta=0.1, random_state=0)
    Nodes(4,796 nodes, 4,796 realizations (1 per node), 2 features, float64, mass 100,000)
    """
    nodes = as_nodes(nodes)
    check_count("n_clusters", n_clusters)
    guarantee = Guarantee.checked(epsilon, delta)
    coreset = reduce([nodes], int(n_clusters), guarantee, generator(random_state))
    if len(coreset) == len(nodes) > 0 and coreset.n_realizations == nodes.n_realizations:
        warnings.warn(
            f"For epsilon={epsilon} and delta={delta} a coreset has no fewer than these {len(nodes):,} nodes.",
            SolverWarning,
            stacklevel=2,
        )
    return coreset


def reduce(parts: Sequence[Nodes], n_clusters: int, guarantee: Guarantee, rng: np.random.Generator) -> Nodes:
    """Make a coreset of the nodes of all parts, with a guarantee; nodes without mass are left out."""
    nodes = Nodes.concat(parts)
    nodes = nodes.take(np.flatnonzero(nodes.mass > 0.0))
    if len(nodes) == 0:
        return nodes
    step = guarantee.step()
    medians, bucket_of, n_draws = make_buckets(nodes, n_clusters, step, rng)
    chosen, masses = sample(bucket_of, int(bucket_of.max()) + 1, n_draws, nodes.mass, rng)
    # A factor, so that a node that represents only itself keeps its weight to the bit.
    coreset = nodes.take(chosen).with_weights(nodes.weights[chosen] * (masses / nodes.mass[chosen]))
    each = Guarantee(step.epsilon, step.delta / len(coreset))
    return reduce_distributions(coreset, medians[chosen], each, rng, n_candidates(nodes))


def n_candidates(nodes: Nodes) -> int:
    """Length of the lists of points that centers may be chosen from."""
    return max(len(nodes), N_CANDIDATES)


def make_buckets(
    nodes: Nodes, n_clusters: int, step: Guarantee, rng: np.random.Generator
) -> tuple[Floats, Integers, int]:
    """Steps 1 to 3: medians of the nodes, their buckets, and the number of draws per bucket."""
    medians, spreads = approximate_medians(nodes, step, rng)
    centers = bicriteria_centers(Nodes.from_points(medians, nodes.mass), n_clusters, step, rng)
    bucket_of, radii = partition(medians, spreads, nodes.mass, centers)
    log_sets = n_clusters * math.log(n_candidates(nodes))
    return medians, bucket_of, draws_needed(bucket_of, nodes.mass, radii, step, log_sets)


# -- the five steps ---------------------------------------------------------------------------------------------------


def approximate_medians(nodes: Nodes, guarantee: Guarantee, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Step 1: a median of each node by constant-size sampling, best of log2(n / delta) repetitions, and its spread."""
    if nodes.is_certain:
        return np.asarray(nodes.points, np.float64), np.zeros(len(nodes))
    # Each fails in at most half of all cases, and all nodes together in delta of them.
    n_repetitions = math.ceil(math.log2(len(nodes) / guarantee.delta))
    medians = kumar_medians(nodes, np.arange(len(nodes)), rng, n_repetitions=n_repetitions)
    return medians, spreads_around(nodes, medians)


def bicriteria_centers(points: Nodes, n_clusters: int, guarantee: Guarantee, rng: np.random.Generator) -> Floats:
    """Step 2: more centers than clusters, at some times the smallest cost; best of log2(1 / delta) repetitions."""
    best, lowest = np.empty((0, points.n_features)), np.inf
    for _ in range(math.ceil(-math.log2(guarantee.delta))):
        centers = _centers_by_sample(points, CENTERS_PER_CLUSTER * n_clusters, rng)
        cost = float((points.mass * nearest(points, centers)[1]).sum())
        if cost < lowest:
            best, lowest = centers, cost
    return best


def _centers_by_sample(points: Nodes, n_centers: int, rng: np.random.Generator) -> Floats:
    """Indyk's speed-up (1999): solve a sample of about sqrt(k n), then the points far from its centers."""
    n = len(points)
    size = math.ceil(math.sqrt(n_centers * n * math.log(max(n, 2))))
    if 2 * size >= n:
        return seed(Problem.of(points), n_centers, rng)
    times = np.bincount(draw(points.mass, rng.random(size)), minlength=n)
    drawn = np.flatnonzero(times)
    sampled = points.take(drawn).with_weights(times[drawn].astype(np.float64))
    first = seed(Problem.of(sampled), n_centers, rng)
    # A sample of this size can miss the farthest k ln(n) / size of all mass.
    order = np.argsort(-nearest(points, first)[1], kind="stable")
    share = np.cumsum(points.mass[order]) / points.mass.sum()
    far = order[: 1 + np.searchsorted(share, n_centers * math.log(n) / size)]
    second = seed(Problem.of(points.take(np.sort(far))), n_centers, rng)
    return np.concatenate([first, second])


def partition(medians: Floats, spreads: Floats, mass: Floats, centers: Floats) -> tuple[Integers, Floats]:
    """Step 3: bucket (center, ring of the distance, ring of the spread) of each node, and distance + spread.

    As in the paper's own algorithm; its R is a share of the mean cost, and rings go on as far as there are nodes.
    """
    labels, distances = nearest(Nodes.from_points(medians, mass), centers)
    bucket_of, _ = buckets(labels, distances, spreads, mass)
    return bucket_of, distances + spreads


def draws_needed(bucket_of: Integers, mass: Floats, radii: Floats, guarantee: Guarantee, log_sets: float) -> int:
    """Draws from each bucket with which the guarantee is kept, for exp(log_sets) sets of centers and one sum more.

    The expected distance to the nearest center differs by at most an item's radius from that of the center of its
    bucket. So each of t draws adds a number from a range of 2 * mass * largest radius / t to the cost, and Hoeffding's
    inequality says that the sum is off by more than epsilon * T, with T the sum of mass * radius, with a probability of
    at most 2 exp(-2 t (epsilon T) ** 2 / sum of squared ranges); all buckets at once, so no union over them is needed.
    Those with no more than t members are kept whole and add nothing. The one sum more is that of the spreads.
    """
    members, shares, largest = np.bincount(bucket_of), np.bincount(bucket_of, mass), np.zeros(bucket_of.max() + 1)
    np.maximum.at(largest, bucket_of, radii)
    rough_cost = float(mass @ radii)
    if rough_cost == 0.0:
        return 1
    squares = (2.0 * shares * (largest / rough_cost)) ** 2
    # exp(log_sets) + 1 events of two sides each, and a little more.
    needed = (log_sets + math.log(4.0 / guarantee.delta)) / (2.0 * guarantee.epsilon**2)
    low, high = 1, int(members.max())
    while low < high:
        t = (low + high) // 2
        if needed * float(squares[members > t].sum()) <= t:
            high = t
        else:
            low = t + 1
    return low


def sample(
    bucket_of: Integers, n_buckets: int, n_draws: int, mass: Floats, rng: np.random.Generator
) -> tuple[Integers, Floats]:
    """Step 4: draw from each bucket by mass; those with no more members than draws are kept whole.

    Returns the distinct items drawn, and the mass that each stands for.
    """
    masses = mass.copy()
    large = np.bincount(bucket_of, minlength=n_buckets) > n_draws
    inside = np.flatnonzero(large[bucket_of])
    if len(inside):
        numbers = np.cumsum(large) - 1
        drawn, stand_for = draws(numbers[bucket_of[inside]], int(large.sum()), n_draws, mass[inside], rng)
        masses[inside] = 0.0
        masses[inside[drawn]] = stand_for
    chosen = np.flatnonzero(masses)
    return chosen, masses[chosen]


def reduce_distributions(
    nodes: Nodes, medians: Floats, guarantee: Guarantee, rng: np.random.Generator, n_candidates: int = N_CANDIDATES
) -> Nodes:
    """Step 5: Chen's coreset with k = 1 for the distribution of each node, rings around its median and draws from each.

    ``guarantee`` is that of one node: its expected distances change by at most epsilon times the one to the median.
    """
    if int(np.diff(nodes.offsets).max()) <= FEW_REALIZATIONS:
        return nodes
    probabilities, totals = nodes.probabilities.copy(), nodes.total_probabilities.copy()
    is_kept = np.ones(len(probabilities), bool)
    for i in np.flatnonzero(np.diff(nodes.offsets) > FEW_REALIZATIONS):
        first, last = nodes.offsets[i : i + 2]
        chosen, kept = _chen(nodes[i : i + 1], medians[i], guarantee, rng, n_candidates)
        # A sum of many rounded probabilities may be further above 1 than that of a few.
        totals[i] = 1.0 if totals[i] > max_allowed(1, nodes.dtype) else totals[i]
        probabilities[first + chosen] = kept * (totals[i] / kept.sum())
        is_kept[first:last] = False
        is_kept[first + chosen] = True
    arrays = {
        "points": frozen(nodes.points[is_kept]),
        "probabilities": frozen(probabilities[is_kept]),
        "offsets": frozen(np.concatenate([[0], np.cumsum(is_kept)])[nodes.offsets]),
        "total_probabilities": frozen(totals),
    }
    return Nodes._trusted(**nodes._parts() | arrays | {"statistics": {}})


def _chen(
    node: Nodes, median: Floats, guarantee: Guarantee, rng: np.random.Generator, n_candidates: int
) -> tuple[Integers, Floats]:
    """Realizations that stand for one node, and their probabilities."""
    used = np.flatnonzero(node.probabilities > 0.0)
    probabilities = node.probabilities[used].astype(np.float64)
    distances = np.sqrt(((node.points[used] - median) ** 2).sum(axis=1))
    rings = rings_of(distances, float(probabilities @ distances) / (8.0 * float(probabilities.sum())))
    _, numbers = np.unique(rings, return_inverse=True)
    numbers = numbers.reshape(-1)
    n_draws = draws_needed(numbers, probabilities, distances, guarantee, math.log(n_candidates))
    chosen, kept = sample(numbers, int(numbers.max()) + 1, n_draws, probabilities, rng)
    return used[chosen], kept
