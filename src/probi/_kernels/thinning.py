"""Thin a node: merge equal and near points, then draw a few that stand for their neighbours."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.pull import dual_bound
from probi._kernels.sampled_median import cost_of_some, length, median_of_some
from probi._kernels.sampling import draw_pairs
from probi._kernels.tree import grow

# Realizations whose median is the middle. Bounds of the spread are then within 12 %; with 512 of them 8 %, but nodes of
# 10,000 realizations took a tenth longer.
N_SAMPLED = 256

# Equal and near points are merged only up to this many kept ones: the time grows with their square.
MAX_MERGED = 4096

# Points nearer to each other than this many spreads are merged. Where that suffices, it changes far less than drawing.
NEAR = 0.01


class Given(NamedTuple):
    """Arrays of the nodes to thin; the kernel gets them as float64, whatever the dtype of the data."""

    points: NDArray[Any]  # (n_realizations, d)
    probabilities: NDArray[Any]  # (n_realizations,)
    offsets: NDArray[Any]  # (n + 1,)
    totals: NDArray[Any]  # (n,) probability of each node


class Kept(NamedTuple):
    """What is kept of each of the chosen nodes, and what that changes."""

    points: NDArray[Any]  # (n_chosen, max_kept, d) float64
    probabilities: NDArray[Any]  # (n_chosen, max_kept)
    sizes: NDArray[Any]  # (n_chosen,)
    # (n_chosen, 3): for any center fixed before, bounds of the variance of the expected distance and of its bias; for
    # all centers at once, how far the node was moved: the cost of carrying each realization to the middle and on, or,
    # if ``bounded`` and less, to one that stands for it.
    errors: NDArray[Any]
    spreads: NDArray[Any]  # (n_chosen, 2): upper and lower bound of the spread before; -1 where nothing was lost


class _Tree(NamedTuple):
    """Tree over the candidates, as in ``grow``."""

    features: NDArray[Any]
    thresholds: NDArray[Any]
    firsts: NDArray[Any]
    leaf_of: NDArray[Any]


class _Workspace(NamedTuple):
    """What ``thin`` computes of one node after the other; its longest node has so many realizations."""

    radii: NDArray[Any]  # (longest,) distances to the middle
    masses: NDArray[Any]  # (longest,) probabilities
    groups: NDArray[Any]  # (longest,) as in ``_leaders``
    along: NDArray[Any]  # (longest,) 0, 1, 2, …
    middle: NDArray[Any]  # (1, d)
    mean: NDArray[Any]  # (1, d) of the candidates, as in ``grow``
    pull: NDArray[Any]  # (d,)
    held: NDArray[Any]  # (3, 3) as in ``draw_pairs``
    rows: NDArray[Any]  # (>= n_candidates + 1,) realizations that are candidates
    weights: NDArray[Any]  # (>= n_candidates + 1,) their masses
    order: NDArray[Any]  # (>= n_candidates + 1,) candidates sorted so that neighbours are close
    values: NDArray[Any]  # (>= n_candidates + 1,) importances, then radii of candidates
    drawn: NDArray[Any]  # (>= n_candidates + 1,) candidates that are kept
    arrived: NDArray[Any]  # (>= n_candidates + 1,) their masses, then what is carried to each candidate
    leaf_starts: NDArray[Any]  # (>= n_candidates + 1,) as in ``_to_candidates``
    flat: NDArray[Any]  # (n_candidates, d) candidates relative to the middle
    cell_of: NDArray[Any]  # (n_candidates,) as in ``grow``
    tree: _Tree


def draws_of(sizes: NDArray[Any], n_candidates: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """First draw, and draw after the last, that ``thin`` may use for nodes of these sizes.

    Those before N_SAMPLED choose realizations for the middle, the following ones candidates, the last ones which of
    these are kept. Small nodes skip the first steps. ``draw_pairs`` uses one per item at most, and none for two of
    them: an item that is cut and joins a second group is the last of the first.
    """
    last = N_SAMPLED + sizes + n_candidates
    first = np.where(sizes > N_SAMPLED, 0, np.where(sizes > n_candidates, N_SAMPLED, last))
    return first, last + np.minimum(sizes, n_candidates) - 2


@kernel
def thin(given, chosen, uniforms, first_uniforms, n_candidates, bounded, single, kept):
    """At most ``kept.points.shape[1]`` realizations for each of the chosen nodes, which have more.

    If no more points are distinct, each is kept with the sum of its probabilities: nothing is lost. If merging points
    NEAR to each other suffices, little is lost. A node that may keep one realization keeps the one nearest to its
    middle. Otherwise some are drawn, first up to ``n_candidates`` along the node and then, in an order in which
    neighbours are close, as many of those as are wanted (``draw_pairs``). That is unbiased for any center, and keeps
    the total and the expected distance to the middle.

    IN   chosen (n_chosen,) node numbers; uniforms (n,): random numbers in [0, 1); first_uniforms (n_chosen,): where
         draw 0 of a node is (``draws_of``); single: whether new points are rounded to float32
    OUT  kept: overwritten
    """
    points, probabilities, offsets = given.points, given.probabilities, given.offsets
    kept_points, kept_probabilities, sizes, errors, spreads = kept
    work = _workspace(given, chosen, n_candidates)
    for i in range(chosen.shape[0]):
        first, last, total = offsets[chosen[i]], offsets[chosen[i] + 1], given.totals[chosen[i]]
        draw = first_uniforms[i]
        errors[i] = 0.0
        spreads[i] = -1.0
        sizes[i] = _leaders(points, probabilities, first, last, 0.0, kept_points[i], kept_probabilities[i], work.groups)
        if sizes[i] > 0:
            _keep_total(kept_probabilities[i], sizes[i], total)
            continue
        m = _stratified_sample(probabilities, first, last, total, uniforms, draw, work.rows, work.weights)
        median_of_some(points, work.rows, work.weights, m, work.middle, work.pull)
        spread, lower, widest = _distances_to_middle(
            points, probabilities, first, last, total, work.middle, work.radii, work.pull
        )  # fmt: skip
        spreads[i, 0], spreads[i, 1] = spread, lower
        if kept_points.shape[1] == 1:
            # The same for every seed, so it does not average out over nodes.
            errors[i, 1:] = _nearest_to_middle(points, probabilities, first, last, work.radii, kept_points[i])
            sizes[i], kept_probabilities[i, 0] = 1, total
            continue
        sizes[i] = _leaders(
            points, probabilities, first, last, NEAR * spread, kept_points[i], kept_probabilities[i], work.groups
        )
        if sizes[i] > 0:
            errors[i, 1:] = _center_groups(
                points, probabilities, first, last, kept_points[i], kept_probabilities[i], work.groups, sizes[i], single
            )
            _keep_total(kept_probabilities[i], sizes[i], total)
            continue
        m, variance = _draw_candidates(
            probabilities, first, last, n_candidates, spread, total, uniforms, draw + N_SAMPLED, work
        )
        _sort_candidates(points, first, m, spread, widest, work)
        draw += N_SAMPLED + last - first + n_candidates
        n, more = _draw_kept(
            points, first, m, spread, total, uniforms, draw, kept_points[i], kept_probabilities[i], work
        )
        sizes[i], errors[i, 0] = n, variance + more
        errors[i, 2] = total * spread + cost_of_some(
            kept_points[i], work.along, kept_probabilities[i], n, work.middle, 0
        )
        if bounded:
            carried = _carry(
                points, probabilities, first, last, m, widest, kept_points[i], kept_probabilities[i], n, work
            )
            errors[i, 2] = min(errors[i, 2], carried)


@part
def _workspace(given, chosen, n_candidates):
    d, longest = given.points.shape[1], 0
    for node in chosen:
        longest = max(longest, given.offsets[node + 1] - given.offsets[node])
    along = np.empty(longest, np.int64)
    for r in range(longest):
        along[r] = r
    width = max(N_SAMPLED, n_candidates + 1)
    integers, floats = np.empty((4, width), np.int64), np.empty((3, width))
    tree = _Tree(
        np.empty(2 * n_candidates, np.uint64), np.empty(2 * n_candidates), np.empty(2 * n_candidates, np.uint64),
        np.empty(2 * n_candidates, np.int32),
    )  # fmt: skip
    return _Workspace(
        np.empty(longest), np.empty(longest), np.empty(longest, np.int64), along, np.empty((1, d)), np.empty((1, d)),
        np.empty(d), np.empty((3, 3)), integers[0], floats[0], integers[1], floats[1], integers[2], floats[2],
        integers[3], np.empty((n_candidates, d)), np.empty(n_candidates, np.int32), tree,
    )  # fmt: skip


@part
def _draw_candidates(probabilities, first, last, n_candidates, spread, total, uniforms, draw, work):
    """Draw up to ``n_candidates`` of a node's realizations, in their own order; all of them if they are few.

    OUT  work.rows, work.weights: counted from the node's first one, and their masses
    RETURN their number, a bound of the variance of the expected distance to any center
    """
    if last - first > n_candidates:
        for r in range(last - first):
            work.masses[r] = probabilities[first + r]
        return draw_pairs(
            work.along[: last - first], work.masses, work.radii, n_candidates // 2, spread, total, uniforms, draw,
            work.held, work.rows, work.weights,
        )  # fmt: skip
    m = 0
    for r in range(last - first):
        if probabilities[first + r] > 0.0:
            work.rows[m], work.weights[m] = r, probabilities[first + r]
            m += 1
    return m, 0.0


@part
def _sort_candidates(points, first, m, spread, widest, work):
    """Grow a tree over the candidates, and put them in an order in which neighbours are close.

    OUT  work.order, work.tree
    """
    d, rows, tree = points.shape[1], work.rows, work.tree
    for j in range(m):
        work.order[j], work.values[j] = j, work.weights[j] * (work.radii[rows[j]] + spread)
        for f in range(d):
            work.flat[j, f] = (np.float64(points[first + rows[j], f]) - work.middle[0, f]) / widest
    grow(
        work.flat[:m], work.values[:m], work.order[:m], 1, tree.features[: 2 * m], tree.thresholds[: 2 * m],
        tree.firsts[: 2 * m], tree.leaf_of[: 2 * m], work.cell_of[:m], work.mean,
    )  # fmt: skip


@part
def _draw_kept(points, first, m, spread, total, uniforms, draw, kept_points, kept_probabilities, work):
    """Draw the realizations to keep from the sorted candidates.

    RETURN as ``_draw_candidates``
    """
    rows, drawn = work.rows, work.drawn
    for j in range(m):
        work.values[j] = work.radii[rows[j]]
    n, variance = draw_pairs(
        work.order[:m], work.weights, work.values, kept_points.shape[0] // 2, spread, total, uniforms, draw, work.held,
        drawn, work.arrived,
    )  # fmt: skip
    for j in range(n):
        kept_probabilities[j] = work.arrived[j]
        for f in range(points.shape[1]):
            kept_points[j, f] = points[first + rows[drawn[j]], f]
    _keep_total(kept_probabilities, n, total)
    return n, variance


@part
def _carry(points, probabilities, first, last, m, widest, kept_points, kept_probabilities, n, work):
    """Cost of carrying all realizations to the candidates in their leaves, and on to the kept ones.

    INOUT work.rows: then counted from the first row of ``points``
    """
    for j in range(m):
        work.rows[j] += first
    carried = _to_candidates(
        points, probabilities, first, last, work.middle, widest, work.rows, work.order[:m], work.tree, work.leaf_starts,
        work.arrived,
    )  # fmt: skip
    return carried + _from_candidates(
        points, work.rows, work.arrived, work.order[:m], kept_points, kept_probabilities, n
    )


@part
def _leaders(points, probabilities, first, last, reach, kept_points, kept_probabilities, groups):
    """Points of a node farther than ``reach`` from each other, with the summed probabilities of those near to them.

    OUT  groups (longest,): for each realization, the one it goes to; -1 without probability
    RETURN their number, 0 if there are more than fit
    """
    d, n = points.shape[1], 0
    if kept_points.shape[0] > MAX_MERGED:
        return 0
    for r in range(first, last):
        groups[r - first] = -1
        if probabilities[r] <= 0.0:
            continue
        at = 0
        while at < n and squared_distance(points, r, kept_points, at) > reach * reach:
            at += 1
        groups[r - first] = at
        if at < n:
            kept_probabilities[at] += probabilities[r]
            continue
        if n == kept_points.shape[0]:
            return 0
        for f in range(d):
            kept_points[n, f] = points[r, f]
        kept_probabilities[n] = probabilities[r]
        n += 1
    return n


@part
def _center_groups(points, probabilities, first, last, kept_points, kept_probabilities, groups, n, single):
    """Move each leader to the mean of its group; otherwise the errors of all nodes would share a direction.

    RETURN the cost of carrying the others there
    """
    d, carried = points.shape[1], 0.0
    shifts = np.zeros((n, d))
    for r in range(first, last):
        at = groups[r - first]
        if at >= 0:
            for f in range(d):
                shifts[at, f] += probabilities[r] * (np.float64(points[r, f]) - np.float64(kept_points[at, f]))
    for at in range(n):
        for f in range(d):
            kept_points[at, f] += shifts[at, f] / kept_probabilities[at]
            if single:
                kept_points[at, f] = np.float32(kept_points[at, f])
    for r in range(first, last):
        at = groups[r - first]
        if at >= 0:
            carried += probabilities[r] * np.sqrt(squared_distance(points, r, kept_points, at))
    return carried


@part
def _nearest_to_middle(points, probabilities, first, last, radii, kept_points):
    """Keep the realization that is nearest to the middle; return the cost of carrying the others there."""
    nearest, off, carried = first, np.inf, 0.0
    for r in range(first, last):
        if probabilities[r] > 0.0 and radii[r - first] < off:
            nearest, off = r, radii[r - first]
    for f in range(points.shape[1]):
        kept_points[0, f] = points[nearest, f]
    for r in range(first, last):
        carried += probabilities[r] * np.sqrt(squared_distance(points, r, points, nearest))
    return carried


@part
def _distances_to_middle(points, probabilities, first, last, total, middle, radii, pull):
    """Distances of all realizations to the middle, and bounds of the spread.

    The center of gravity is at most the spread away, which bounds the shift in ``dual_bound``.

    OUT  radii (longest,): the first last - first overwritten; pull (d,) overwritten
    RETURN the expected distance to the middle, a lower bound of that to any point, the largest distance
    """
    d = points.shape[1]
    cost, here, widest = 0.0, 0.0, 0.0
    for f in range(d):
        pull[f] = 0.0
    for r in range(first, last):
        radius = np.sqrt(squared_distance(points, r, middle, 0))
        radii[r - first] = radius
        cost += probabilities[r] * radius
        widest = max(widest, radius)
        if radius > 0.0:
            share = probabilities[r] / radius
            for f in range(d):
                pull[f] += share * (np.float64(points[r, f]) - middle[0, f])
        else:
            here += probabilities[r]
    slope = max(0.0, length(pull) - here) / total
    spread = cost / total
    return spread, max(0.0, dual_bound(spread * (1.0 - slope), slope)), widest


@part
def _stratified_sample(probabilities, first, last, total, uniforms, draw, rows, weights):
    """Stratified sample: one realization from each of equal shares of the probability; all of them if they are few.

    OUT  rows, weights (N_SAMPLED,): used entries overwritten
    RETURN their number
    """
    n = 0
    if last - first <= N_SAMPLED:
        for r in range(first, last):
            if probabilities[r] > 0.0:
                rows[n], weights[n] = r, probabilities[r]
                n += 1
        return n
    below, r = 0.0, first  # probability of the realizations before r
    for j in range(N_SAMPLED):
        wanted = (j + uniforms[draw + j]) * total / N_SAMPLED
        while r < last - 1 and below + probabilities[r] <= wanted:
            below += probabilities[r]
            r += 1
        rows[j], weights[j] = r, 1.0
    return N_SAMPLED


@part
def _keep_total(kept_probabilities, n, total):
    """Scale probabilities so that they add up to the total."""
    current = 0.0
    for j in range(n):
        current += kept_probabilities[j]
    for j in range(n):
        kept_probabilities[j] *= total / current


@part
def _leaf(points, r, middle, widest, tree):
    """Leaf of the tree over the candidates to which a realization belongs."""
    at = np.uint64(0)
    while True:
        f = tree.features[at]
        value = (np.float64(points[r, f]) - middle[0, f]) / widest
        following = tree.firsts[at] + np.uint64(value > tree.thresholds[at])
        if following == at:
            return tree.leaf_of[at]
        at = following


@part
def _to_candidates(points, probabilities, first, last, middle, widest, rows, order, tree, leaf_starts, arrived):
    """Cost of carrying each realization to the nearest of the candidates in its leaf.

    OUT  arrived (n_candidates,): probability carried to each of them, in the order of neighbours; leaf_starts
         (n_candidates + 1,): position in that order at which each leaf begins
    """
    m, n_leaves = order.shape[0], 0
    for j in range(m):
        arrived[j] = 0.0
        leaf = _leaf(points, rows[order[j]], middle, widest, tree)
        if leaf == n_leaves:
            leaf_starts[n_leaves] = j
            n_leaves += 1
    leaf_starts[n_leaves] = m
    cost = 0.0
    for r in range(first, last):
        leaf = _leaf(points, r, middle, widest, tree)
        nearest, lowest = leaf_starts[leaf], np.inf
        for j in range(leaf_starts[leaf], leaf_starts[leaf + 1]):
            squared = squared_distance(points, r, points, rows[order[j]])
            if squared < lowest:
                nearest, lowest = j, squared
                if squared == 0.0:
                    break
        cost += probabilities[r] * np.sqrt(lowest)
        arrived[nearest] += probabilities[r]
    return cost


@part
def _from_candidates(points, rows, arrived, order, kept_points, kept_probabilities, n):
    """Cost of carrying the probability at the candidates on to the kept realizations, both in order."""
    cost, at = 0.0, 0
    left = kept_probabilities[0]
    for j in range(order.shape[0]):
        row, mass = rows[order[j]], arrived[j]
        while mass > 0.0:
            flow = min(mass, left) if at < n - 1 else mass
            cost += flow * np.sqrt(squared_distance(points, row, kept_points, at))
            mass -= flow
            left -= flow
            if left <= 0.0 and at < n - 1:
                at += 1
                left = kept_probabilities[at]
    return cost
