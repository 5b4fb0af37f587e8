"""Fewer realizations per node: step 5 of Lammersen, Schmidt and Sohler's coreset, on its own."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from probi import _parallel
from probi._kernels import thinning as kernels
from probi._kernels.sampling import keyed_uniforms
from probi._kernels.thinning import Given
from probi._types import Array
from probi.errors import InputError
from probi.validation import check_count, check_share, frozen, max_allowed

# Candidates drawn per realization kept. They add a quarter to the bound of the variance.
CANDIDATES = 4

# With this many realizations per node, over the square of epsilon, the standard error is at most epsilon spreads: two
# realizations per group, whose costs may be twice their mean, and candidates add to that. The last factor allows for
# spreads measured around a middle, up to 5 % above the smallest.
MAX_PER_SQUARE = 4.0 * (1.0 + 1.0 / CANDIDATES) * 1.05**2

# Nodes and realizations per task of a thread, at least.
STEP, MIN_REALIZATIONS = 8, 4096


class ThinningBounds(NamedTuple):
    """How much the expected distance of each node may have changed by thinning.

    Attributes
    ----------
    standard_error : ndarray of shape (n_nodes,)
        Bound of the root mean squared error, for any center that does not depend on the draws. Draws are unbiased;
        where nothing is drawn, because one realization is kept or near ones are merged, it bounds the bias.
    certified : ndarray of shape (n_nodes,)
        Bound for all centers at once: no less than the Wasserstein distance to the node as it was, and equal to it in
        one dimension. In many dimensions far larger than the actual change.

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
    """The effect of thinning, summed over nodes.

    Attributes
    ----------
    variance : float
        Of the expected cost of any centers that were fixed before thinning.
    bias : float
        Bound of the bias where nothing was drawn, which does not average out over nodes.
    moved : float
        Certified: no centers' expected cost changed by more than this.
    spread_cost, lower_bound : float
        By how much those sums were larger before thinning.
    """

    variance: float = 0.0
    moved: float = 0.0
    spread_cost: float = 0.0
    lower_bound: float = 0.0
    bias: float = 0.0

    def then(self, *each: Array) -> ThinningTotals:
        """Add more nodes, one after the other: the split into batches must not change a bit."""
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
    """Arrays of nodes with fewer realizations, and how much each node's expected distances may have changed."""

    points: Array
    probabilities: Array
    offsets: Array
    totals: Array  # (n_nodes,) total probabilities; unchanged, except for rounding above 1
    variances: Array  # (n_nodes,) bound of the variance, for any center fixed before thinning
    biases: Array  # (n_nodes,) bound of the bias
    moved: Array  # (n_nodes,) certified for all centers at once
    spreads: Array  # (n_nodes, 2) upper and lower bound of the spread before; -1 where nothing was lost


def allowed_realizations(max_realizations: int | None, epsilon: float | None) -> int:
    """Number of realizations that a node may keep, from either parameter."""
    if (max_realizations is None) == (epsilon is None):
        raise InputError("Give either max_realizations, which a node may keep, or epsilon, its error.")
    if max_realizations is not None:
        check_count("max_realizations", max_realizations)
        return int(max_realizations)
    check_share("epsilon", epsilon)
    assert epsilon is not None  # it is one of the two
    # One group keeps two.
    return max(2, math.ceil(MAX_PER_SQUARE / float(epsilon) ** 2))


def thin(given: Given, max_realizations: int, key: int, first: int, bounded: bool) -> Thinned:
    """Keep at most ``max_realizations`` per node.

    ``key`` and the index of a node, counted from ``first``, seed its random numbers.
    """
    points, probabilities, offsets, totals = given
    sizes = np.diff(offsets)
    n, d = len(sizes), points.shape[1]
    unchanged = sizes <= max_realizations
    (variances, biases, moved), spreads = np.zeros((3, n)), np.full((n, 2), -1.0)
    if unchanged.all():
        return Thinned(*given, variances, biases, moved, spreads)
    # A sum of many rounded probabilities may be further above 1 than that of a few.
    totals = np.where(~unchanged & (totals > max_allowed(1, probabilities.dtype)), 1.0, totals)
    chosen = np.flatnonzero(~unchanged)
    n_candidates = CANDIDATES * max_realizations
    first_draws, last_draws = kernels.draws_of(sizes[chosen], n_candidates)
    draws = np.concatenate([[0], np.cumsum(last_draws - first_draws)])
    given, numbers = given._replace(totals=totals), (chosen + first).astype(np.uint64)

    def thin_some(start: int, stop: int) -> tuple[Array, ...]:
        uniforms = np.empty(draws[stop] - draws[start])
        keyed_uniforms(np.uint64(key), numbers, first_draws, draws, uniforms, start, stop)
        first_uniforms = draws[start:stop] - draws[start] - first_draws[start:stop]
        some, n_some = chosen[start:stop], stop - start
        kept = kernels.Kept(
            np.empty((n_some, max_realizations, d)), np.empty((n_some, max_realizations)), np.empty(n_some, np.int64),
            np.empty((n_some, 3)), np.empty((n_some, 2)),
        )  # fmt: skip
        kernels.thin(
            _as_float64(given, some[0], some[-1] + 1), some - some[0], uniforms, first_uniforms, n_candidates, bounded,
            points.dtype == np.float32, kept,
        )  # fmt: skip
        used = np.arange(max_realizations) < kept.sizes[:, None]
        return (kept.points[used].astype(points.dtype), kept.probabilities[used], *kept[2:])

    step = max(STEP, MIN_REALIZATIONS * len(chosen) // int(sizes[chosen].sum()))
    parts = _parallel.run(thin_some, _parallel.ranges(len(chosen), step))
    kept_points, kept_probabilities, kept_sizes, errors, spreads[chosen] = map(np.concatenate, zip(*parts, strict=True))
    new_sizes = sizes.copy()
    new_sizes[chosen] = kept_sizes
    new_offsets = np.concatenate([[0], np.cumsum(new_sizes)])
    from_unchanged, to_unchanged = np.repeat(unchanged, sizes), np.repeat(unchanged, new_sizes)
    new_points = np.empty((new_offsets[-1], d), points.dtype)
    new_points[to_unchanged], new_points[~to_unchanged] = points[from_unchanged], kept_points
    new_probabilities = np.empty(new_offsets[-1], points.dtype)
    new_probabilities[to_unchanged] = probabilities[from_unchanged]
    new_probabilities[~to_unchanged] = kept_probabilities
    variances[chosen], biases[chosen], moved[chosen] = errors.T
    if bounded and d == 1:
        moved = _exact_distances(points, probabilities, offsets, new_points, new_probabilities, new_offsets)
    return Thinned(new_points, new_probabilities, new_offsets, totals, variances, biases, moved, spreads)


def _as_float64(given: Given, first: int, last: int) -> Given:
    """Nodes first:last for the kernel, which is compiled for one dtype: it takes seconds."""
    start, stop = given.offsets[first], given.offsets[last]
    return Given(
        frozen(given.points[start:stop].astype(np.float64, copy=False)),
        frozen(given.probabilities[start:stop].astype(np.float64, copy=False)),
        given.offsets[first : last + 1] - start,
        given.totals[first:last],
    )


def _exact_distances(old: Array, p: Array, old_offsets: Array, new: Array, q: Array, new_offsets: Array) -> Array:
    """Wasserstein distance of each node to its old self on a line: the area between the distribution functions."""
    owners = np.concatenate([np.repeat(np.arange(len(o) - 1), np.diff(o)) for o in (old_offsets, new_offsets)])
    values = np.concatenate([old[:, 0], new[:, 0]]).astype(np.float64)
    mass = np.concatenate([p, -q.astype(np.float64)]).astype(np.float64)
    order = np.lexsort((values, owners))
    owners, values, mass = owners[order], values[order], mass[order]
    sums = np.cumsum(mass)
    same = owners[1:] == owners[:-1]
    # The sum restarts at 0 for each node.
    firsts = np.flatnonzero(np.concatenate([[True], ~same]))
    sums -= np.repeat(np.concatenate([[0.0], sums])[firsts], np.diff(np.append(firsts, len(sums))))
    areas = np.abs(sums[:-1]) * np.where(same, np.diff(values), 0.0)
    return np.bincount(owners[:-1], weights=areas, minlength=len(old_offsets) - 1)
