"""Fewer realizations a node: step 5 of Lammersen, Schmidt and Sohler's coreset, by itself."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import thinning
from probi.errors import InputError
from probi.validation import check_count, check_share, max_allowed

Array = NDArray[Any]

# Candidates that are drawn for each realization that is kept. They add a quarter to the bound of the variance.
CANDIDATES = 4

# With so many realizations a node, over the square of epsilon, the bound of the standard error is epsilon spreads: two
# realizations for each group, whose costs may be twice their mean, and candidates add to that. The rest makes up for
# spreads that are measured around a middle, up to 5 % above the smallest.
MAX_A_SQUARE = 4.0 * (1.0 + 1.0 / CANDIDATES) * 1.05**2

# Nodes that one thread takes at a time.
STEP = 8


class ThinningBounds(NamedTuple):
    """How much the expected distance of each node may have changed by thinning.

    Attributes
    ----------
    standard_error : ndarray of shape (n_nodes,)
        Bound of the root of the mean squared error, for any center that does not depend on what was drawn. Draws have
        no bias; where nothing is drawn, because one realization is kept or those near to each other become one, the
        bound is that of the bias.
    certified : ndarray of shape (n_nodes,)
        Bound for all centers at once: no less than the Wasserstein distance to the node as it was, and equal to it in
        one dimension. In many dimensions far larger than what happens.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> nodes = probi.Nodes.from_list(np.random.default_rng(0).normal(size=(3, 1000, 1)))
    >>> thin, bounds = nodes.thin(50, random_state=0, return_bounds=True)
    >>> _, spreads = probi.one_medians(nodes)
    >>> bool((bounds.certified < 0.2 * spreads).all()), bounds.standard_error.shape
    (True, (3,))
    """

    standard_error: Array
    certified: Array


class ThinningTotals(NamedTuple):
    """What thinning did to nodes, in sums over them.

    Attributes
    ----------
    variance : float
        Of the expected cost of any centers that were fixed before.
    bias : float
        Bound of it where nothing was drawn, which so does not average out over nodes.
    moved : float
        Certified: no centers' expected cost changed by more than this.
    spread_cost, lower_bound : float
        By how much those sums were larger before.
    """

    variance: float = 0.0
    moved: float = 0.0
    spread_cost: float = 0.0
    lower_bound: float = 0.0
    bias: float = 0.0

    def then(self, *each: Array) -> ThinningTotals:
        """With more nodes, one after the other: how they come in batches must not change a bit."""
        return ThinningTotals(
            *(float(np.add.accumulate(np.append(total, values))[-1]) for total, values in zip(self, each, strict=True))
        )

    def plus(self, other: ThinningTotals) -> ThinningTotals:
        """Sums over the nodes of both."""
        return ThinningTotals(*(a + b for a, b in zip(self, other, strict=True)))

    def scaled(self, factor: float) -> ThinningTotals:
        """Sums with all weights multiplied."""
        variance, *others = self
        return ThinningTotals(factor**2 * variance, *(factor * value for value in others))


NOTHING_LOST = ThinningTotals()


class Thinned(NamedTuple):
    """Arrays of nodes with fewer realizations, and what that may have changed of each node's expected distances."""

    points: Array
    probabilities: Array
    offsets: Array
    totals: Array  # (n_nodes,) total probabilities; as they were, but for rounding above 1
    variances: Array  # (n_nodes,) bound of the variance, for any center that was fixed before
    biases: Array  # (n_nodes,) bound of the bias
    moved: Array  # (n_nodes,) certified for all centers at once
    spreads: Array  # (n_nodes, 2) bounds of the spread before, from above and from below; -1 where nothing was lost


def allowed_realizations(max_realizations: int | None, epsilon: float | None) -> int:
    """How many realizations a node may keep, said in either way."""
    if (max_realizations is None) == (epsilon is None):
        raise InputError("Say either how many realizations a node may keep (max_realizations) or its error (epsilon).")
    if max_realizations is not None:
        check_count("max_realizations", max_realizations)
        return int(max_realizations)
    check_share("epsilon", epsilon)
    assert epsilon is not None  # it is one of the two
    # No fewer than one group leaves.
    return max(2, math.ceil(MAX_A_SQUARE / float(epsilon) ** 2))


def thinned(
    points: Array, probabilities: Array, offsets: Array, totals: Array, most: int, key: int, first: int, bounded: bool
) -> Thinned:
    """Keep at most so many realizations of each node.

    ``key`` and the number of a node, counted from ``first``, tell its random numbers.
    """
    sizes = np.diff(offsets)
    n, d = len(sizes), points.shape[1]
    chosen = np.flatnonzero(sizes > most)
    if len(chosen) == 0:
        nothing = np.zeros(n)
        return Thinned(points, probabilities, offsets, totals, nothing, nothing, nothing, np.full((n, 2), -1.0))
    # A sum of many rounded probabilities may be farther above 1 than that of a few.
    totals = np.where((sizes > most) & (totals > max_allowed(1, probabilities.dtype)), 1.0, totals)
    places, chances = np.empty((len(chosen), most, d), points.dtype), np.empty((len(chosen), most))
    kept, errors, spreads = np.empty(len(chosen), np.int64), np.zeros((len(chosen), 3)), np.empty((len(chosen), 2))
    numbers = (chosen + first).astype(np.uint64)
    _parallel.run(
        thinning.thin, _parallel.ranges(len(chosen), STEP), points, probabilities, offsets, totals, chosen, numbers,
        np.uint64(key), CANDIDATES * most, bounded, places, chances, kept, errors, spreads,
    )  # fmt: skip
    new_sizes = sizes.copy()
    new_sizes[chosen] = kept
    new_offsets = np.concatenate([[0], np.cumsum(new_sizes)])
    whole = np.ones(n, bool)
    whole[chosen] = False
    out_points, out_probabilities = (
        np.empty((new_offsets[-1], d), points.dtype),
        np.empty(new_offsets[-1], points.dtype),
    )
    is_whole = np.repeat(whole, new_sizes)
    from_whole = np.repeat(whole, sizes)
    out_points[is_whole], out_probabilities[is_whole] = points[from_whole], probabilities[from_whole]
    used = np.arange(most) < kept[:, None]
    out_points[~is_whole], out_probabilities[~is_whole] = places[used], chances[used]
    variances, biases, moved = np.zeros((3, n))
    variances[chosen], biases[chosen], moved[chosen] = errors.T
    all_spreads = np.full((n, 2), -1.0)
    all_spreads[chosen] = spreads
    if bounded and d == 1 and len(chosen):
        moved = _exact_distances(points, probabilities, offsets, out_points, out_probabilities, new_offsets)
    return Thinned(out_points, out_probabilities, new_offsets, totals, variances, biases, moved, all_spreads)


def _exact_distances(old: Array, p: Array, old_offsets: Array, new: Array, q: Array, new_offsets: Array) -> Array:
    """Wasserstein distance of each node to its old self on a line: the area between the distribution functions."""
    owners = np.concatenate([np.repeat(np.arange(len(o) - 1), np.diff(o)) for o in (old_offsets, new_offsets)])
    values = np.concatenate([old[:, 0], new[:, 0]]).astype(np.float64)
    mass = np.concatenate([p, -q.astype(np.float64)]).astype(np.float64)
    order = np.lexsort((values, owners))
    owners, values, mass = owners[order], values[order], mass[order]
    sums = np.cumsum(mass)
    same = owners[1:] == owners[:-1]
    # Each node's sum begins at 0 again.
    firsts = np.flatnonzero(np.concatenate([[True], ~same]))
    sums -= np.repeat(np.concatenate([[0.0], sums])[firsts], np.diff(np.append(firsts, len(sums))))
    areas = np.abs(sums[:-1]) * np.where(same, np.diff(values), 0.0)
    return np.bincount(owners[:-1], weights=areas, minlength=len(old_offsets) - 1)
