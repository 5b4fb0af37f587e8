"""Thin a node: merge equal and near points, then draw a few that stand for their neighbours."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.sampled_median import cost_of_some, length, median_of_some
from probi._kernels.tree import grow

# Realizations whose median is the middle. Bounds of the spread are then within 12 %; with 512 of them 8 %, but nodes of
# 10,000 realizations took a tenth longer.
N_SAMPLED = 256

# Equal and near points are merged only up to this many kept ones: the time grows with their square.
MAX_MERGED = 4096

# Points nearer to each other than this many spreads are merged. Where that suffices, it changes far less than drawing.
NEAR = 0.01


class Given(NamedTuple):
    """Arrays of the nodes to thin."""

    points: NDArray[Any]  # (n_realizations, d)
    probabilities: NDArray[Any]  # (n_realizations,)
    offsets: NDArray[Any]  # (n + 1,)
    totals: NDArray[Any]  # (n,) probability of each node


class Kept(NamedTuple):
    """What is kept of each of the chosen nodes, and what that changes."""

    points: NDArray[Any]  # (n_chosen, max_kept, d)
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


def draws_of(sizes: NDArray[Any], n_candidates: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """First draw, and draw after the last, that ``thin`` may use for nodes of these sizes.

    Those before N_SAMPLED choose realizations for the middle, the following ones candidates, the last ones which of
    these are kept. Small nodes skip the first steps. ``_draw`` uses one per item at most, and none for two of them: an
    item that is cut and joins a second group is the last of the first.
    """
    last = N_SAMPLED + sizes + n_candidates
    first = np.where(sizes > N_SAMPLED, 0, np.where(sizes > n_candidates, N_SAMPLED, last))
    return first, last + np.minimum(sizes, n_candidates) - 2


@kernel
def thin(given, chosen, uniforms, first_uniforms, n_candidates, bounded, kept, start, stop):
    """At most ``kept.points.shape[1]`` realizations for each of the nodes chosen[start:stop], which have more.

    If no more points are distinct, each is kept with the sum of its probabilities: nothing is lost. If merging points
    NEAR to each other suffices, little is lost. A node that may keep one realization keeps the one nearest to its
    middle. Otherwise some are drawn, first up to ``n_candidates`` along the node and then, in an order in which
    neighbours are close, as many of those as are wanted (``_draw``). That is unbiased for any center, and keeps the
    total and the expected distance to the middle.

    IN   chosen (n_chosen,) node numbers; uniforms (n,): random numbers in [0, 1); first_uniforms (stop - start,): where
         draw 0 of a node is (``draws_of``)
    OUT  kept: rows start:stop overwritten
    """
    points, probabilities, offsets, totals = given.points, given.probabilities, given.offsets, given.totals
    kept_points, kept_probabilities, sizes, errors, spreads = kept
    d, max_kept = points.shape[1], kept_points.shape[1]
    longest = 0
    for i in range(start, stop):
        longest = max(longest, offsets[chosen[i] + 1] - offsets[chosen[i]])
    radii, groups, along = np.empty(longest), np.empty(longest, np.int64), np.arange(longest)
    middle, following, held = np.zeros((1, d)), np.empty(d), np.empty((3, 3))
    width = max(N_SAMPLED, n_candidates + 1)
    integers, floats = np.empty((4, width), np.int64), np.empty((3, width))
    rows, order, drawn, leaf_starts = integers[0], integers[1], integers[2], integers[3]
    weights, importance, arrived = floats[0], floats[1], floats[2]
    flat, cell_of = np.empty((n_candidates, d)), np.empty(n_candidates, np.int32)
    tree = _Tree(
        np.empty(2 * n_candidates, np.uint64), np.empty(2 * n_candidates), np.empty(2 * n_candidates, np.uint64),
        np.empty(2 * n_candidates, np.int32),
    )  # fmt: skip
    for i in range(start, stop):
        first, last = offsets[chosen[i]], offsets[chosen[i] + 1]
        total, draw = totals[chosen[i]], first_uniforms[i - start]
        errors[i] = 0.0
        spreads[i] = -1.0
        sizes[i] = _leaders(points, probabilities, first, last, 0.0, kept_points[i], kept_probabilities[i], groups)
        if sizes[i] > 0:
            _keep_total(kept_probabilities[i], sizes[i], total)
            continue
        m = _by_probability(probabilities, first, last, total, uniforms, draw, rows, weights)
        median_of_some(points, rows, weights, m, middle, following)
        spread, lower, widest = _around(points, probabilities, first, last, total, middle, radii, following)
        spreads[i, 0], spreads[i, 1] = spread, lower
        if max_kept == 1:
            # The same for every seed, so it does not average out over nodes.
            errors[i, 1:] = _nearest_to_middle(points, probabilities, first, last, radii, kept_points[i])
            sizes[i], kept_probabilities[i, 0] = 1, total
            continue
        reach = NEAR * spread
        sizes[i] = _leaders(points, probabilities, first, last, reach, kept_points[i], kept_probabilities[i], groups)
        if sizes[i] > 0:
            errors[i, 1:] = _center_groups(
                points, probabilities, first, last, kept_points[i], kept_probabilities[i], groups, sizes[i]
            )
            _keep_total(kept_probabilities[i], sizes[i], total)
            continue
        m, variance = 0, 0.0
        if last - first > n_candidates:
            m, variance = _draw(
                along[: last - first], probabilities[first:last], radii, n_candidates // 2, spread, total, uniforms,
                draw + N_SAMPLED, held, rows, weights,
            )  # fmt: skip
        else:
            for r in range(last - first):
                if probabilities[first + r] > 0.0:
                    rows[m], weights[m] = r, probabilities[first + r]
                    m += 1
        for j in range(m):
            order[j], importance[j] = j, weights[j] * (radii[rows[j]] + spread)
            for f in range(d):
                flat[j, f] = (np.float64(points[first + rows[j], f]) - middle[0, f]) / widest
        grow(
            flat[:m], importance[:m], order[:m], 1, tree.features[: 2 * m], tree.thresholds[: 2 * m],
            tree.firsts[: 2 * m], tree.leaf_of[: 2 * m], cell_of[:m], following.reshape(1, d),
        )  # fmt: skip
        for j in range(m):
            importance[j] = radii[rows[j]]
        n, more = _draw(
            order[:m], weights, importance, max_kept // 2, spread, total, uniforms,
            draw + N_SAMPLED + last - first + n_candidates, held, drawn, arrived,
        )  # fmt: skip
        sizes[i] = n
        for j in range(n):
            kept_probabilities[i, j] = arrived[j]
            for f in range(d):
                kept_points[i, j, f] = points[first + rows[drawn[j]], f]
        _keep_total(kept_probabilities[i], n, total)
        errors[i, 0] = variance + more
        errors[i, 2] = total * spread + cost_of_some(kept_points[i], along, kept_probabilities[i], n, middle, 0)
        if bounded:
            for j in range(m):
                rows[j] += first
            carried = _to_candidates(
                points, probabilities, first, last, middle, widest, rows, order[:m], tree, leaf_starts, arrived
            )
            carried += _from_candidates(points, rows, arrived, order[:m], kept_points[i], kept_probabilities[i], n)
            errors[i, 2] = min(errors[i, 2], carried)


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
def _center_groups(points, probabilities, first, last, kept_points, kept_probabilities, groups, n):
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
def _around(points, probabilities, first, last, total, middle, radii, pull):
    """Distances of all realizations to the middle, and bounds of the spread.

    Of the unit vectors u from the middle to the realizations, with mean g, all u - g are at most 1 + |g| long and sum
    to zero. Divided by that they are a solution of the dual problem, and bound the spread from below.

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
    # Realizations on the middle balance a pull in any direction.
    slope = max(0.0, length(pull) - here) / total
    spread = cost / total
    return spread, max(0.0, spread * (1.0 - slope) / (1.0 + slope)), widest


@part
def _by_probability(probabilities, first, last, total, uniforms, draw, rows, weights):
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
def _draw(order, masses, radii, n_groups, spread, total, uniforms, draw, held, rows, weights):
    """Draw at most two items from each of some groups of equal importance, which is mass times (radius + spread).

    Groups are cut along the order, through an item if necessary. Items join a group one by one, and whenever it holds
    three, one of them leaves (``_leave``): that is unbiased, and each group keeps its mass and its cost, which is mass
    times radius.

    For any center, the distance of an item to it differs from that of the middle by at most its radius. So a group's
    share of the expected distance differs from that of its mass at the middle by at most its cost, whose square bounds
    the variance. Costs sum to total * spread, and none is above twice that over ``n_groups``.

    IN   order (n,), masses, radii: of the items that it indexes; uniforms, from ``draw`` on; held (3, 3): workspace
    OUT  rows, weights (>= 2 n_groups,): items drawn, in order, and their masses
    RETURN their number, a bound of the variance of the expected distance to any center
    """
    n, n_held, group, filled, cost, variance = 0, 0, 1, 0.0, 0.0, 0.0
    for j in range(order.shape[0]):
        mass, radius = np.float64(masses[order[j]]), radii[order[j]]
        while mass > 0.0:
            # Fill the group up to its end; the last one takes the rest.
            group_end = 2.0 * total * spread * group / n_groups
            fits, full = mass, False
            if group < n_groups and filled + mass * (radius + spread) > group_end:
                fits, full = min(mass, max(0.0, group_end - filled) / (radius + spread)), True
            filled += fits * (radius + spread)
            cost += fits * radius
            mass -= fits
            if fits > 0.0:
                n_held = _join(held, n_held, fits, radius, j)
            if n_held == 3:
                n_held = _leave(held, uniforms[draw])
                draw += 1
            if full:
                n = _emit(order, held, n_held, rows, weights, n)
                variance += cost * cost
                group, n_held, cost = group + 1, 0, 0.0
    return _emit(order, held, n_held, rows, weights, n), variance + cost * cost


@part
def _join(held, n, mass, radius, at):
    """Insert an item among up to two others, by its radius; return their number.

    INOUT held (3, 3): mass, radius and position in the order of each
    """
    slot = n
    while slot > 0 and held[slot - 1, 1] > radius:
        for column in range(3):
            held[slot, column] = held[slot - 1, column]
        slot -= 1
    held[slot, 0], held[slot, 1], held[slot, 2] = mass, radius, at
    return n + 1


@part
def _leave(held, uniform):
    """Remove one of three items, keeping the expected mass of each, and their total mass and cost.

    The one with the middle radius gives its mass to the two others, in the shares that keep the cost, or takes from
    them in the same shares until one has none left; with the probabilities that leave no bias. (The cube method of
    Deville and Tille, 2004, with two balancing variables.) Return the number left.
    """
    low, middle, high = held[0, 0], held[1, 0], held[2, 0]
    width = held[2, 1] - held[0, 1]
    share = (held[2, 1] - held[1, 1]) / width if width > 0.0 else 0.5
    low_first = low * (1.0 - share) < high * share
    step = low / share if low_first else high / (1.0 - share)
    if uniform * (middle + step) < step:
        held[0, 0] = low + share * middle
        held[1, 0], held[1, 1], held[1, 2] = high + (1.0 - share) * middle, held[2, 1], held[2, 2]
    elif low_first:
        held[0, 0], held[0, 1], held[0, 2] = middle + step, held[1, 1], held[1, 2]
        held[1, 0], held[1, 1], held[1, 2] = high - (1.0 - share) * step, held[2, 1], held[2, 2]
    else:
        held[0, 0], held[1, 0] = low - share * step, middle + step
    return 2


@part
def _emit(order, held, n_held, rows, weights, n):
    """Write the items of a group, in order; merge one that it shares with the group before. Return their number."""
    turned = n_held == 2 and held[0, 2] > held[1, 2]
    for h in range(n_held):
        at = 1 - h if turned else h
        row = order[np.int64(held[at, 2])]
        if n > 0 and rows[n - 1] == row:
            weights[n - 1] += held[at, 0]
        elif held[at, 0] > 0.0:  # not emptied together with another
            rows[n], weights[n] = row, held[at, 0]
            n += 1
    return n


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


@kernel
def keyed_uniforms(key, numbers, firsts, offsets, out, start, stop):
    """Random numbers in [0, 1) for each draw of each of numbers[start:stop] under a key: SplitMix64 of all three.

    IN   numbers (n,) uint64, firsts (n,): first draw of each; offsets (n + 1,): where its draws begin
    OUT  out (offsets[stop] - offsets[start],)
    """
    for i in range(start, stop):
        number = key ^ (numbers[i] * np.uint64(0x9E3779B97F4A7C15))
        for j in range(offsets[i + 1] - offsets[i]):
            x = number + np.uint64(firsts[i] + j + 1) * np.uint64(0xD1342543DE82EF95)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x = x ^ (x >> np.uint64(31))
            out[offsets[i] - offsets[start] + j] = np.float64(x >> np.uint64(11)) * 2.0**-53
