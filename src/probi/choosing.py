"""How many clusters: solutions for several numbers, compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi import _notes, _parallel
from probi._notes import counted, rounded
from probi._types import Floats, Integers, Labels, Mask
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes, as_nodes
from probi.objective import TwoNearest, two_nearest
from probi.solver.options import OnProgress, Progress, SolveOptions
from probi.solver.result import Result, without_outliers
from probi.solver.solve import Summarized, solve_several
from probi.validation import check_count, keyed, seed_of
from probi.worlds import stability

# Nodes in memory that are looked at: hundreds per cluster are enough, and more take longer than to solve.
MAX_NODES = 1 << 14

# Half the width of a window, as a fraction of the distance between two centers: the three windows around the centers
# and around the middle do not touch.
HALF_WIDTH = 1 / 8

# The radius of the windows holds this share of a cluster's nodes that are level with its center: more nodes decide,
# and hardly any that are beside the cluster.
RADIUS = 0.7

# Nodes of a third cluster count if the nearer of the two centers is at most this much farther from them than their own:
# if nothing separates the clusters. In many dimensions, the nodes of other clusters are beside all lines, and hardly
# farther from them than those of the two.
FARTHER = 1.1

# Nodes added to each count, so that few nodes support nothing: of 12 nodes that are equally likely in all windows, none
# is in the middle in less than one of 100 cases. In trials, 180 sets of 40 to 400 nodes without structure, in 1 to
# 50 dimensions, had an overlap of at least 0.62.
EXTRA_NODES = 6

# Clusters with at most this overlap are separated. Data with a single mode has about 1 or more, at least 0.6 in trials
# with few nodes; clusters four standard deviations apart have 0.3.
SEPARATED = 0.5

# Squared distances from a line below this fraction of those from a center are rounding errors.
ROUNDING = 1e-12

# Pairs of clusters times nodes that are looked at together: arrays that stay in the processor's cache.
AT_ONCE = 1 << 15

# Possible worlds for the stability of each number of clusters.
N_WORLDS = 10

# Arrays of a KChoice that are measured for each number of clusters, in the order of tables.
MEASURES = ("silhouette", "stability", "overlap")


@dataclass(frozen=True, eq=False)
class KChoice:
    """Solutions for several numbers of clusters, what speaks for each, and which is recommended.

    Attributes
    ----------
    n_clusters : ndarray of shape (n,)
        Numbers of clusters, in increasing order.
    results : list of Result
        The solution for each: centers, cost with its standard error, and so on.
    overlap : ndarray of shape (n,)
        Of the two clusters that are least separated: how dense nodes are halfway between their centers, relative to
        the sparser of the two centers. About 1 or more if data without structure was divided, near 0 if there is a
        gap; NaN for one cluster.
    silhouette : ndarray of shape (n,)
        Mean over the nodes of 1 - a / b, where a and b are the expected distances to the two nearest centers; NaN for
        one cluster.
    stability : ndarray of shape (n,)
        Mean adjusted Rand index over possible worlds, as in :func:`stability`: 1 if no node changes its cluster.
    recommended : int or None
        The largest number whose clusters are all separated: with an overlap of at most 0.5. None: no clear number.
    reason : str
        Why, in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> X = np.random.default_rng(0).normal(size=(600, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 200, axis=0)
    >>> choice = probi.choose_k(X, range(2, 6), random_state=0)
    >>> choice.recommended
    3
    >>> choice.results[1]
    Result(3 centers, cost 730.394, 0 of it spread)
    """

    n_clusters: Labels
    results: list[Result] = field(repr=False)
    overlap: Floats
    silhouette: Floats
    stability: Floats
    recommended: int | None
    reason: str

    @property
    def cost(self) -> Floats:
        """Cost of each solution."""
        return np.array([result.cost for result in self.results])

    @property
    def standard_error(self) -> Floats:
        """Standard error of each cost."""
        return np.array([result.standard_error for result in self.results])

    @property
    def chosen(self) -> Result | None:
        """The recommended solution, if there is one."""
        chosen = [result for result in self.results if len(result.centers) == self.recommended]
        return chosen[0] if chosen else None

    def measures(self, i: int) -> dict[str, float | None]:
        """What is measured of one solution besides its cost, by name; None where it is not defined.

        :meta private:
        """
        values = {name: float(getattr(self, name)[i]) for name in MEASURES}
        return {name: None if math.isnan(value) else value for name, value in values.items()}

    def __repr__(self) -> str:
        fewest, most = self.n_clusters[[0, -1]].tolist()
        tried = counted(most, "cluster") if fewest == most else f"{fewest} to {most} clusters"
        return f"KChoice({tried}: {self.reason})"

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        rows = [
            [str(k), f"{result.cost:.6g}", f"{rounded(result.standard_error):g}"]
            + ["" if value is None else f"{value:.2f}" for value in self.measures(i).values()]
            for i, (k, result) in enumerate(zip(self.n_clusters, self.results, strict=True))
        ]
        return _notes.html_table(self.reason, rows, ["k", "cost", "±", *MEASURES])


def choose_k(
    source: Nodes | Summarized | ArrayLike,
    n_clusters: Iterable[int] = range(2, 11),
    *,
    n_init: int | None = None,
    n_worlds: int = N_WORLDS,
    random_state: Any = None,
    on_progress: OnProgress | None = None,
) -> KChoice:
    """Solve for several numbers of clusters, and recommend one if the data has a clear number.

    A number is supported if each two of its clusters are separated: halfway between their centers nodes are at most
    half as dense as around the sparser of these centers. The largest supported number is recommended. Data without
    structure is about as dense between two centers as around them, wherever it is divided, so it supports no number.

    Parameters
    ----------
    source : Nodes, Summary or array-like
        What is clustered, as in :func:`solve`.
    n_clusters : iterable of int, default=range(2, 11)
        Numbers to try; for a summary up to the number it was made for.
    n_init : int, default=None
        Starts for each number, as in :func:`solve`.
    n_worlds : int, default=10
        Possible worlds for the stability of each number, as in :func:`stability`, which takes most of the time. 0:
        none, and stability is NaN; the recommended number does not depend on it.
    random_state : None, int, Generator or RandomState
        The same seed gives the same bits, whatever the number of threads.
    on_progress : callable, default=None
        Called with what the solver has just done, as in :func:`solve`.

    Returns
    -------
    KChoice
        The solutions, with overlap, silhouette and stability of each, the recommended number, and the reason.

    See Also
    --------
    solve : For one number of clusters.
    stability : Which labels and clusters would be the same in other possible worlds.

    Notes
    -----
    Each node is represented by its median and compared with the two centers as they were without it: in many dimensions
    a center follows its own nodes, and gaps would show where there are none. For a summary, nodes are those of the
    coreset, with their weights; of data in memory, at most 16,384 are looked at.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2)) + np.repeat([[0, 0], [9, 0], [0, 9]], 200, axis=0)
    >>> probi.choose_k(X, range(2, 7), random_state=0)
    KChoice(2 to 6 clusters: 3 is the largest number of clusters that are all separated from each other, overlap 0.07.)
    >>> probi.choose_k(rng.normal(size=(600, 2)), range(2, 7), random_state=0).recommended is None
    True
    """
    ks = _numbers(n_clusters)
    check_count("n_worlds", n_worlds, 0)
    if not isinstance(source, Summarized):
        source = as_nodes(source)
    seed = seed_of(random_state)
    progress = Progress(on_progress)
    results = solve_several(source, [SolveOptions(k, n_init, random_state=seed, progress=progress) for k in ks])
    return compare(source, results, seed, n_worlds)


def _numbers(n_clusters: Any) -> list[int]:
    """Numbers of clusters in increasing order; solving checks each of them."""
    if not isinstance(n_clusters, Iterable) or isinstance(n_clusters, str):
        raise InputError(f"n_clusters is {n_clusters!r}, but must be several numbers, such as range(2, 11).")
    ks = sorted(set(n_clusters))
    if not ks:
        raise InputError("n_clusters is empty: there is no number to try. Use, say, range(2, 11).")
    return ks


def compare(
    source: Nodes | Summarized,
    results: Sequence[Result],
    seed: int,
    n_worlds: int = N_WORLDS,
    on_result: Callable[[int], None] = lambda number: None,
) -> KChoice:
    """Compare solutions of one source by increasing number of clusters; ``on_result`` is called with each number."""
    some = _some_nodes(source, seed)
    varied = some if isinstance(source, Nodes) else source  # a summary has the error of its sample, too
    overlaps, silhouettes, stabilities = [], [], []
    for number, result in enumerate(results):
        on_result(number)
        nodes = without_outliers(some, result)
        nearest = two_nearest(nodes, result.centers)
        overlaps.append(overlap(nodes, result.centers, nearest))
        silhouettes.append(silhouette(nodes, nearest))
        stabilities.append(_rand_index(without_outliers(varied, result), result, n_worlds, seed))
    ks = np.array([len(result.centers) for result in results], np.int32)
    recommended, reason = recommend(ks, np.array(overlaps))
    return KChoice(
        n_clusters=ks,
        results=list(results),
        overlap=np.array(overlaps),
        silhouette=np.array(silhouettes),
        stability=np.array(stabilities),
        recommended=recommended,
        reason=reason,
    )


def _rand_index(source: Nodes | Summarized, result: Result, n_worlds: int, seed: int) -> float:
    k = len(result.centers)
    return (
        math.nan if k == 1 or n_worlds == 0 else stability(source, k, n_worlds, seed, centers=result.centers).rand_index
    )


def _some_nodes(source: Nodes | Summarized, seed: int) -> Nodes:
    """Nodes to look at: the coreset of a summary, or some of those in memory."""
    nodes = source if isinstance(source, Nodes) else source.coreset()
    if isinstance(source, Nodes) and len(nodes) > MAX_NODES:
        nodes = nodes.take(np.sort(keyed(seed, len(nodes)).choice(len(nodes), MAX_NODES, replace=False)))
    return nodes


def recommend(ks: Labels, overlaps: Floats) -> tuple[int | None, str]:
    """Recommended number of clusters and the reason, from the overlap for each number."""
    supported = np.flatnonzero(overlaps <= SEPARATED)  # not NaN, for a single cluster
    if not np.isfinite(overlaps).any():
        return None, "No clear number: a single cluster has none to be separated from. Try larger numbers too."
    if len(supported) == 0:
        least = f"the least overlap is {np.nanmin(overlaps):.2f}"
        return None, f"No clear number: with each k, some clusters are not separated from each other; {least}."
    best = int(supported[-1])
    k = int(ks[best])
    reason = (
        f"{k} is the largest number of clusters that are all separated from each other, overlap {overlaps[best]:.2f}"
    )
    return k, f"{reason}; it is also the largest tried, and there may be more." if best == len(ks) - 1 else f"{reason}."


def silhouette(nodes: Nodes, nearest: TwoNearest) -> float:
    """Mean of 1 - a / b by mass, where a and b are the expected distances to the two nearest centers."""
    if nearest.next_labels[0] < 0:
        return math.nan
    between = nearest.next_distances > 0.0  # else the node lies on two centers
    ratio = np.ones(len(nodes))
    ratio[between] = nearest.distances[between] / nearest.next_distances[between]
    return math.fsum(nodes.mass * (1.0 - ratio)) / math.fsum(nodes.mass)


def overlap(nodes: Nodes, centers: Floats, nearest: TwoNearest) -> float:
    """Largest overlap of two neighboring clusters; NaN for a single one.

    The overlap of two clusters is the mass around the middle of their centers divided by that around a center, the
    smaller of the two, each with some nodes added. Around means within a cylinder along the line through the centers.
    All three cylinders are of one size, so nodes that are equally dense everywhere have an overlap of 1. Nodes that
    clearly belong to a third cluster do not count.
    """
    k = len(centers)
    if k == 1:
        return math.nan
    clusters = _Clusters.of(nodes, np.asarray(centers, np.float64), nearest)
    return float(clusters.overlaps(neighbors(clusters.squared_gaps)).max())


def squared_gaps(centers: Floats) -> Floats:
    """Squared distances between centers."""
    gaps = centers[:, None] - centers
    return np.asarray(np.einsum("ijf,ijf->ij", gaps, gaps))


def neighbors(squared: Floats) -> Integers:
    """Pairs of centers such that no third one is nearer to both than they are to each other; by squared distances.

    Between two others, the nodes of a third cluster may lie.
    """
    is_pair = np.triu(np.ones(squared.shape, bool), 1)
    for third in squared:
        is_pair &= squared <= np.maximum(third[:, None], third)
    return np.argwhere(is_pair)


class _Clusters(NamedTuple):
    """Nodes as one point each, in units in which no square overflows, with their clusters."""

    mass: Floats
    labels: Labels
    squared_gaps: Floats  # between centers
    squared_own: Floats  # squared distance of each node to its own center
    own_products: Floats  # (n, k): products of the vectors from the own center to the node and to each center
    moved: Floats  # of each node: by this fraction of its distance the center would be farther without it
    per_node: Floats  # mass per node of each cluster

    @classmethod
    def of(cls, nodes: Nodes, centers: Floats, nearest: TwoNearest) -> _Clusters:
        k, medians = len(centers), certified_medians(nodes, SPREAD_TOL)[0]
        away = medians - centers[nearest.labels]
        centers = centers - centers[0]
        scale = np.abs(centers).max() or 1.0
        # A center is pulled by each node in proportion to 1 / distance.
        pull = np.divide(nodes.mass, nearest.distances, out=np.zeros(len(nodes)), where=nearest.distances > 0.0)
        total = np.bincount(nearest.labels, pull, k)[nearest.labels]
        share = np.minimum(np.divide(pull, total, out=np.zeros(len(nodes)), where=total > 0.0), 0.5)
        # By Kish's rule, sum² / sum of squares nodes of equal mass are as informative.
        relative = nodes.mass / nodes.mass.max()
        sums = np.bincount(nearest.labels, relative, k)
        squares = np.bincount(nearest.labels, relative**2, k)
        per_node = np.divide(squares, sums, out=np.zeros(k), where=sums > 0.0)
        away /= scale
        centers /= scale
        squared_own, own_products = np.einsum("nf,nf->n", away, away), np.empty((len(nodes), k))
        for c in range(k):
            of_c = nearest.labels == c
            # Not by matmul, whose bits depend on the number of threads.
            own_products[of_c] = np.einsum("nf,cf->nc", away[of_c], centers - centers[c])
        moved = share / (1.0 - share)
        gaps = squared_gaps(centers)
        return cls(relative, nearest.labels, gaps, squared_own, own_products, moved, per_node)

    def overlaps(self, pairs: Integers) -> Floats:
        """Overlap of each pair (p, 2) of clusters, of which the first has the smaller number."""
        parts = _parallel.ranges(len(pairs), 1 + AT_ONCE // len(self.mass))
        return np.concatenate([self._overlaps(pairs[start:stop]) for start, stop in parts])

    def _overlaps(self, pairs: Integers) -> Floats:
        """The same for all these pairs at once: calls for each of them took ten times as long as the arithmetic."""
        first, second = pairs.T[..., None]
        of_i, of_j = self.labels == first, self.labels == second  # arrays (p, n) from here on
        position, squared_off, squared_length = self._on_lines(first, second, of_j)
        around_i, around_j, between = (np.abs(position - place) <= HALF_WIDTH for place in (0.0, 1.0, 0.5))
        radius = self._radius(squared_off, np.stack([around_i & of_i, around_j & of_j])).max(axis=0)
        squared = squared_off + np.minimum(np.abs(position), np.abs(1.0 - position)) ** 2 * squared_length
        is_here = of_i | of_j | (squared <= FARTHER**2 * self.squared_own)
        within = np.where((squared_off <= radius[:, None]) & is_here, self.mass, 0.0)
        at_i, at_j, middle = ((within * at).sum(axis=1) for at in (around_i, around_j, between))
        extra = EXTRA_NODES * self.per_node[pairs].max(axis=1)
        counts = (extra > 0.0) & (radius < np.inf)
        ones = np.ones(len(pairs))
        return np.asarray(np.divide(middle + extra, np.minimum(at_i, at_j) + extra, out=ones, where=counts))

    def _on_lines(self, first: Integers, second: Integers, of_j: Mask) -> tuple[Floats, Floats, Floats]:
        """Positions of nodes on the lines through pairs of centers, from 0 to 1, and squared distances from them.

        The own center is taken as it was without the node, for nodes of its cluster. Also the squared distances of the
        centers themselves.
        """
        products, squared = self._products(first, second)
        along = np.where(of_j, self.own_products.T[first[:, 0]], products)
        squared = np.where(of_j, self.squared_own, squared)
        squared_length = self.squared_gaps[first, second]
        moved = np.where(of_j | (self.labels == first), self.moved, 0.0)
        length = squared_length + 2.0 * moved * along + moved**2 * squared
        along = (1.0 + moved) * (along + moved * squared)
        squared = squared * (1.0 + moved) ** 2
        # Of equal centers: no node is near them or between.
        position = np.divide(along, length, out=np.full(along.shape, 2.0), where=length > 0.0)
        off = squared - np.where(length > 0.0, position, 0.0) * along
        position[of_j] = 1.0 - position[of_j]
        return position, np.where(off > ROUNDING * squared, off, 0.0), squared_length

    def _products(self, first: Integers, second: Integers) -> tuple[Floats, Floats]:
        """Products of the vectors from the first center to each node and to the second; squared lengths of the former.

        Computed from those of the vectors from the own center, whatever the number of features. That loses no digits
        that matter: hardly any other center is nearer to the node than its own.
        """
        products, gaps = self.own_products.T, self.squared_gaps[:, self.labels]
        i, j = first[:, 0], second[:, 0]
        of_centers = 0.5 * (gaps[i] - gaps[j] + self.squared_gaps[i, j][:, None])
        return products[j] - products[i] + of_centers, self.squared_own - 2.0 * products[i] + gaps[i]

    def _radius(self, squared_off: Floats, chosen: Mask) -> Floats:
        """Squared distance from each line that holds the share ``RADIUS`` of the mass of nodes chosen (2, p, n)."""
        order = np.argsort(np.where(chosen, squared_off, np.inf), axis=2, kind="stable")
        passed = np.cumsum(np.take_along_axis(chosen * self.mass, order, axis=2), axis=2)
        at = (passed < RADIUS * passed[..., -1:]).sum(axis=2, keepdims=True)
        last = np.take_along_axis(order, at, axis=2)[..., 0]
        rows = np.arange(len(squared_off))
        return np.where(chosen.any(axis=2), squared_off[rows, last], np.inf)
