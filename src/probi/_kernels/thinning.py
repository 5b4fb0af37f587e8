"""A node with fewer realizations: equal and near points as one, then a few that stand for their neighbours."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.sampled_median import median_of_some
from probi._kernels.tree import grow

# Realizations whose median is the middle. What is then known of the spread is within 12 %; 512 of them: 8 %, but with
# 10,000 realizations that took a tenth longer.
N_LOOKED_AT = 256

# With more realizations left than this, equal and near points are not looked for: that takes the square of them.
MAX_MERGED = 4096

# Points this near to each other, in spreads, are one. Where that is enough, it changes far less than drawing would.
NEAR = 0.01


@kernel
def thin(
    points,
    probabilities,
    offsets,
    totals,
    chosen,
    numbers,
    key,
    n_candidates,
    bounded,
    places,
    chances,
    sizes,
    errors,
    spreads,
    start,
    stop,
):
    """At most ``places.shape[1]`` realizations for each of the nodes chosen[start:stop], which have more.

    Where no more points than that are different, each is kept with the sum of its probabilities: nothing is lost. Where
    no more are NEAR to each other, so are those, and little is lost. A node that may keep one keeps the one nearest to
    its middle. Else some are drawn, first up to ``n_candidates`` along the node and then, in an order in which
    neighbours are close, as many of those as are wanted (``_draw``). That has no bias, for any center, and keeps the
    total and the expected distance to the middle.

    IN   totals (n,): probability of each node; chosen (n_chosen,) node numbers; numbers (n_chosen,) uint64: they
         and ``key`` tell the random numbers of a node, which so do not depend on the nodes around it
    OUT  places (n_chosen, most, d), chances (n_chosen, most), sizes (n_chosen,): rows start:stop overwritten;
         errors (n_chosen, 3): for any center fixed before, bounds of the variance of the expected distance and of its
         bias; for all centers at once, how far the node was moved: the cost of carrying each realization to the middle
         and on, or, if ``bounded`` and less, to one that stands for it;
         spreads (n_chosen, 2): bounds of the spread before, from above and from below; -1 where nothing was lost
    """
    d, most = points.shape[1], places.shape[1]
    longest = 0
    for i in range(start, stop):
        longest = max(longest, offsets[chosen[i] + 1] - offsets[chosen[i]])
    radii, middle, following = np.empty(longest), np.zeros((1, d)), np.empty(d)
    looked_at, shares = np.empty(N_LOOKED_AT, np.int64), np.empty(N_LOOKED_AT)
    rows, weights, importance = np.empty(n_candidates, np.int64), np.empty(n_candidates), np.empty(n_candidates)
    flat, order = np.empty((n_candidates, d)), np.empty(n_candidates, np.int64)
    features, thresholds = np.empty(2 * n_candidates, np.uint64), np.empty(2 * n_candidates)
    firsts, leaf_of = np.empty(2 * n_candidates, np.uint64), np.empty(2 * n_candidates, np.int32)
    groups, drawn = np.empty(longest, np.int64), np.empty(n_candidates, np.int64)
    cell_of, leaf_starts, arrived = (
        np.empty(n_candidates, np.int32),
        np.empty(n_candidates + 1, np.int64),
        np.empty(n_candidates),
    )
    along, held = np.arange(longest), np.empty((3, 3))
    for i in range(start, stop):
        first, last = offsets[chosen[i]], offsets[chosen[i] + 1]
        total = totals[chosen[i]]
        errors[i] = 0.0
        spreads[i] = -1.0
        sizes[i] = _leaders(points, probabilities, first, last, 0.0, places, chances, groups, i)
        if sizes[i] > 0:
            _keep_total(chances, i, sizes[i], total)
            continue
        m = _by_probability(probabilities, first, last, total, key, numbers[i], looked_at, shares)
        median_of_some(points, looked_at, shares, m, middle, following)
        spread, lower, widest = _around(points, probabilities, first, last, total, middle, radii, following)
        spreads[i, 0], spreads[i, 1] = spread, lower
        if most == 1:
            # The same for every seed: other nodes do not make up for it.
            errors[i, 1:] = _nearest_to_middle(points, probabilities, first, last, radii, places, i)
            sizes[i], chances[i, 0] = 1, total
            continue
        sizes[i] = _leaders(points, probabilities, first, last, NEAR * spread, places, chances, groups, i)
        if sizes[i] > 0:
            errors[i, 1:] = _centered(points, probabilities, first, last, places, chances, groups, sizes[i], i)
            _keep_total(chances, i, sizes[i], total)
            continue
        m, variance = 0, 0.0
        if last - first > n_candidates:
            m, variance = _draw(
                along[: last - first], probabilities[first:last], radii, n_candidates // 2, spread, total, key,
                numbers[i], N_LOOKED_AT, held, rows, weights,
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
            flat[:m], importance[:m], order[:m], 1, features[: 2 * m], thresholds[: 2 * m], firsts[: 2 * m],
            leaf_of[: 2 * m], cell_of[:m],
        )  # fmt: skip
        for j in range(m):
            importance[j] = radii[rows[j]]
        n, more = _draw(
            order[:m], weights, importance, most // 2, spread, total, key, numbers[i],
            N_LOOKED_AT + last - first + n_candidates, held, drawn, arrived,
        )  # fmt: skip
        sizes[i] = n
        for j in range(n):
            chances[i, j] = arrived[j]
            for f in range(d):
                places[i, j, f] = points[first + rows[drawn[j]], f]
        _keep_total(chances, i, n, total)
        errors[i, 0] = variance + more
        errors[i, 2] = total * spread + _to_middle(places, chances, n, i, middle)
        if bounded:
            for j in range(m):
                rows[j] += first
            carried = _to_candidates(
                points, probabilities, first, last, middle, widest, rows, order, m, features, thresholds, firsts,
                leaf_of, leaf_starts, arrived,
            )  # fmt: skip
            carried += _from_candidates(points, rows, arrived, order, m, places, chances, n, i)
            errors[i, 2] = min(errors[i, 2], carried)


@part
def _uniform(key, number, draw):
    """A random number in [0, 1) for each draw of each number under a key: SplitMix64 of all three."""
    x = (key ^ (number * np.uint64(0x9E3779B97F4A7C15))) + np.uint64(draw + 1) * np.uint64(0xD1342543DE82EF95)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return np.float64(x >> np.uint64(11)) * 2.0**-53


@part
def _leaders(points, probabilities, first, last, reach, places, chances, groups, i):
    """Points of a node that are farther than ``reach`` from each other, with the probabilities of those near to them.

    OUT  groups (longest,): for each realization, to which of them it goes; -1 without probability
    RETURN how many, 0 if there are more than fit
    """
    d, n = points.shape[1], 0
    if places.shape[1] > MAX_MERGED:
        return 0
    for r in range(first, last):
        groups[r - first] = -1
        if probabilities[r] <= 0.0:
            continue
        at = 0
        while at < n and squared_distance(points, r, places[i], at) > reach * reach:
            at += 1
        groups[r - first] = at
        if at < n:
            chances[i, at] += probabilities[r]
            continue
        if n == places.shape[1]:
            return 0
        for f in range(d):
            places[i, n, f] = points[r, f]
        chances[i, n] = probabilities[r]
        n += 1
    return n


@part
def _centered(points, probabilities, first, last, places, chances, groups, n, i):
    """Move each leader to the mean of its group: left at one end, all nodes would be off in the same direction.

    RETURN the cost of carrying the others there
    """
    d, carried = points.shape[1], 0.0
    shifts = np.zeros((n, d))
    for r in range(first, last):
        at = groups[r - first]
        if at >= 0:
            for f in range(d):
                shifts[at, f] += probabilities[r] * (np.float64(points[r, f]) - np.float64(places[i, at, f]))
    for at in range(n):
        for f in range(d):
            places[i, at, f] += shifts[at, f] / chances[i, at]
    for r in range(first, last):
        at = groups[r - first]
        if at >= 0:
            carried += probabilities[r] * np.sqrt(squared_distance(points, r, places[i], at))
    return carried


@part
def _nearest_to_middle(points, probabilities, first, last, radii, places, i):
    """Keep the realization that is nearest to the middle; return the cost of carrying the others there."""
    nearest, off, carried = first, np.inf, 0.0
    for r in range(first, last):
        if probabilities[r] > 0.0 and radii[r - first] < off:
            nearest, off = r, radii[r - first]
    for f in range(points.shape[1]):
        places[i, 0, f] = points[nearest, f]
    for r in range(first, last):
        carried += probabilities[r] * np.sqrt(squared_distance(points, r, points, nearest))
    return carried


@part
def _around(points, probabilities, first, last, total, middle, radii, pull):
    """Distances of all realizations to the middle, and what follows for the spread.

    Of the unit vectors u from the middle to the realizations, with mean g, all u - g are at most 1 + |g| long and sum
    to zero. Divided by that they are a solution of the dual problem, and bound the spread from below.

    OUT  radii (longest,): the first last - first overwritten; pull (d,) overwritten
    RETURN the expected distance to the middle, what no point's is below, the largest distance
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
    squared = 0.0
    for f in range(d):
        squared += pull[f] ** 2
    # Realizations that lie there pull in whatever direction is needed.
    slope = max(0.0, np.sqrt(squared) - here) / total
    spread = cost / total
    return spread, max(0.0, spread * (1.0 - slope) / (1.0 + slope)), widest


@part
def _by_probability(probabilities, first, last, total, key, number, rows, weights):
    """Some realizations, one from each of equal shares of the probability; all of them where they are few.

    OUT  rows, weights (n_candidates,): those that are used overwritten
    RETURN how many
    """
    most, n = rows.shape[0], 0
    if last - first <= most:
        for r in range(first, last):
            if probabilities[r] > 0.0:
                rows[n], weights[n] = r, probabilities[r]
                n += 1
        return n
    below, r = 0.0, first  # probability of the realizations before r
    for j in range(most):
        wanted = (j + _uniform(key, number, j)) * total / most
        while r < last - 1 and below + probabilities[r] <= wanted:
            below += probabilities[r]
            r += 1
        rows[j], weights[j] = r, 1.0
    return most


@part
def _draw(order, masses, radii, n_groups, spread, total, key, number, first_draw, held, rows, weights):
    """Draw at most two things from each of some groups of equal importance, which is mass times (radius + spread).

    Groups are cut along the order, through a thing where need be. Things join a group one by one, and whenever it holds
    three, one of them leaves (``_leave``): none of that has a bias, and each group keeps its mass and its cost, which
    is mass times radius.

    For any center, the distance of a thing to it differs from that of the middle by at most its radius. So what a group
    adds to the expected distance, beyond its mass at the middle, is between its cost and minus that: the square of the
    cost bounds the variance. Costs sum to total * spread, and none is above twice that over ``n_groups``.

    IN   order (n,), masses, radii: of what it numbers; held (3, 3): room
    OUT  rows, weights (>= 2 n_groups,): what was drawn, in order, and its mass
    RETURN how many, a bound of the variance of the expected distance to any center
    """
    n, n_held, group, filled, draw, cost, variance = 0, 0, 1, 0.0, first_draw, 0.0, 0.0
    for j in range(order.shape[0]):
        mass, radius = np.float64(masses[order[j]]), radii[order[j]]
        while mass > 0.0:
            # Up to where the group ends; the last one takes what is left.
            border = 2.0 * total * spread * group / n_groups
            fits, full = mass, False
            if group < n_groups and filled + mass * (radius + spread) > border:
                fits, full = min(mass, max(0.0, border - filled) / (radius + spread)), True
            filled += fits * (radius + spread)
            cost += fits * radius
            mass -= fits
            if fits > 0.0:
                n_held = _join(held, n_held, fits, radius, j)
            if n_held == 3:
                n_held = _leave(held, _uniform(key, number, draw))
                draw += 1
            if full:
                n = _emit(order, held, n_held, rows, weights, n)
                variance += cost * cost
                group, n_held, cost = group + 1, 0, 0.0
    return _emit(order, held, n_held, rows, weights, n), variance + cost * cost


@part
def _join(held, n, mass, radius, at):
    """Put a thing among up to two others, by its radius; return how many there are.

    INOUT held (3, 3): mass, radius and place in the order of each
    """
    place = n
    while place > 0 and held[place - 1, 1] > radius:
        for column in range(3):
            held[place, column] = held[place - 1, column]
        place -= 1
    held[place, 0], held[place, 1], held[place, 2] = mass, radius, at
    return n + 1


@part
def _leave(held, uniform):
    """Let one of three things go, so that the expected mass of each is what it was, and their mass and cost are.

    The one with the middle radius gives all it has to the two others, in the shares that keep the cost, or takes from
    them in the same shares until one has nothing left; with the chances that leave no bias. (The cube method of
    Deville and Tille, 2004, with two balancing variables.) Return how many are left.
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
    """Write what a group holds, in order; what it shares with the one before is one. Return how many there are."""
    turned = n_held == 2 and held[0, 2] > held[1, 2]
    for h in range(n_held):
        at = 1 - h if turned else h
        row = order[np.int64(held[at, 2])]
        if n > 0 and rows[n - 1] == row:
            weights[n - 1] += held[at, 0]
        elif held[at, 0] > 0.0:  # not used up together with another
            rows[n], weights[n] = row, held[at, 0]
            n += 1
    return n


@part
def _keep_total(chances, i, n, total):
    """Scale probabilities so that they add up to the total."""
    found = 0.0
    for j in range(n):
        found += chances[i, j]
    for j in range(n):
        chances[i, j] *= total / found


@part
def _to_middle(places, chances, n, i, middle):
    """Cost of carrying the realizations that are left to one point."""
    cost = 0.0
    for j in range(n):
        cost += chances[i, j] * np.sqrt(squared_distance(places[i], j, middle, 0))
    return cost


@part
def _leaf(points, r, middle, widest, features, thresholds, firsts, leaf_of):
    """Leaf of the tree over the candidates to which a realization belongs."""
    at = np.uint64(0)
    while True:
        f = features[at]
        value = (np.float64(points[r, f]) - middle[0, f]) / widest
        following = firsts[at] + np.uint64(value > thresholds[at])
        if following == at:
            return leaf_of[at]
        at = following


@part
def _to_candidates(
    points, probabilities, first, last, middle, widest, rows, order, m, features, thresholds, firsts, leaf_of,
    leaf_starts, arrived,
):  # fmt: skip
    """Cost of carrying each realization to the nearest of the candidates in its leaf.

    OUT  arrived (n_candidates,): probability that came to each of them, in the order of neighbours; leaf_starts
         (n_candidates + 1,): place in that order at which each leaf begins
    """
    n_leaves = 0
    for j in range(m):
        arrived[j] = 0.0
        leaf = _leaf(points, rows[order[j]], middle, widest, features, thresholds, firsts, leaf_of)
        if leaf == n_leaves:
            leaf_starts[n_leaves] = j
            n_leaves += 1
    leaf_starts[n_leaves] = m
    cost = 0.0
    for r in range(first, last):
        leaf = _leaf(points, r, middle, widest, features, thresholds, firsts, leaf_of)
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
def _from_candidates(points, rows, arrived, order, m, places, chances, n, i):
    """Cost of carrying what came to the candidates on to the realizations that are left, both in order."""
    cost, at = 0.0, 0
    left = chances[i, 0]
    for j in range(m):
        row, mass = rows[order[j]], arrived[j]
        while mass > 0.0:
            flow = min(mass, left) if at < n - 1 else mass
            cost += flow * np.sqrt(squared_distance(points, row, places[i], at))
            mass -= flow
            left -= flow
            if left <= 0.0 and at < n - 1:
                at += 1
                left = chances[i, at]
    return cost
