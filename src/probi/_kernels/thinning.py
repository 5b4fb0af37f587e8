"""A node with fewer realizations: equal and near points as one, then a few that stand for their neighbours."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.sampled_median import median_of_some
from probi._kernels.tree import grow

# Realizations whose median is the middle. What is then known of the spread is within 12 %; 512 of them: 8 %, but with
# 10,000 realizations that took a tenth longer.
N_LOOKED_AT = 256

# Realizations drawn from a node are made to stand for all of it by a factor of at most this, fewer than FEW of them not
# at all: with 40 realizations of a lognormal distribution four would cost 4 % too much, and cost 1.6 % too little so.
MOST_SCALED, FEW = 1.5, 8

# With more realizations left than this, equal and near points are not looked for: that takes the square of them.
MOST_MERGED = 4096

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
    no more are NEAR to each other, so are those, and little is lost. Else some are drawn by importance, which is the
    probability times (distance to the middle / spread + 2): first up to ``n_candidates``, one from each of as many
    strata along the node; then, in an order in which neighbours are close, as many of those as are wanted, again one
    from each stratum. The total is kept.

    IN   totals (n,): probability of each node; chosen (n_chosen,) node numbers; numbers (n_chosen,) uint64: they
         and ``key`` tell the random numbers of a node, which so do not depend on the nodes around it
    OUT  places (n_chosen, most, d), chances (n_chosen, most), sizes (n_chosen,): rows start:stop overwritten;
         errors (n_chosen, 2): for any center fixed before, a bound of the variance of the expected distance; for all
         centers at once, how far the node was moved: the cost of carrying each realization to the middle and on, or, if
         ``bounded`` and less, to one that stands for it;
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
    groups = np.empty(longest, np.int64)
    cell_of, leaf_starts, arrived = (
        np.empty(n_candidates, np.int32),
        np.empty(n_candidates + 1, np.int64),
        np.empty(n_candidates),
    )
    for i in range(start, stop):
        first, last = offsets[chosen[i]], offsets[chosen[i] + 1]
        total = totals[chosen[i]]
        errors[i, 0], errors[i, 1] = 0.0, 0.0
        spreads[i, 0], spreads[i, 1] = -1.0, -1.0
        sizes[i] = _leaders(points, probabilities, first, last, 0.0, places, chances, groups, i)
        if sizes[i] > 0:
            _keep_total(chances, i, sizes[i], total)
            continue
        m = _by_probability(probabilities, first, last, total, key, numbers[i], looked_at, shares)
        median_of_some(points, looked_at, shares, m, middle, following)
        spread, lower, widest = _around(points, probabilities, first, last, total, middle, radii, following)
        spreads[i, 0], spreads[i, 1] = spread, lower
        sizes[i] = _leaders(points, probabilities, first, last, NEAR * spread, places, chances, groups, i)
        if sizes[i] > 0:
            carried = _centered(points, probabilities, first, last, places, chances, groups, sizes[i], i)
            _keep_total(chances, i, sizes[i], total)
            errors[i, 0], errors[i, 1] = carried**2, carried
            continue
        m = _by_importance(probabilities, first, last, radii, spread, key, numbers[i], rows, weights, importance, total)
        for j in range(m):
            order[j] = j
            for f in range(d):
                flat[j, f] = (np.float64(points[rows[j], f]) - middle[0, f]) / widest
        grow(
            flat[:m], importance[:m], order[:m], 1, features[: 2 * m], thresholds[: 2 * m], firsts[: 2 * m],
            leaf_of[: 2 * m], cell_of[:m],
        )  # fmt: skip
        off = _strata(weights, importance, rows, order, m, total, radii, first, most, key, numbers[i], arrived)
        sizes[i] = _emit(points, rows, order, m, arrived, places, chances, i)
        _keep_total(chances, i, sizes[i], total)
        errors[i, 0] = _variance(total, spread, off, most, n_candidates, last - first)
        errors[i, 1] = total * spread + _to_middle(places, chances, sizes[i], i, middle)
        if bounded:
            carried = _to_candidates(
                points, probabilities, first, last, middle, widest, rows, order, m, features, thresholds, firsts,
                leaf_of, leaf_starts, arrived,
            )  # fmt: skip
            carried += _from_candidates(points, rows, arrived, order, m, places, chances, sizes[i], i)
            errors[i, 1] = min(errors[i, 1], carried)


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
    if places.shape[1] > MOST_MERGED:
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
def _variance(total, spread, off, most, n_candidates, n_realizations):
    """Bound of the variance of the expected distance to any center that was fixed before.

    Distances to a center, compared with that of the realization nearest to the middle, which is ``off`` from it, differ
    by at most r + off for one with the distance r to the middle. With a = max(1, off / s) and importance p (r / s + 2),
    which sums to 3, the moment of a draw is at most the mean of (r + a s)^2 / (r / s + 2), which is
    s (r + 2 (a - 1) s + (a - 2)^2 s^2 / (r + 2 s)).
    """
    if most == 1:
        return (total * (spread + off)) ** 2
    # Scaled draws are compared with their mean instead, which is like a = 1.
    a = max(1.0, off / spread) if most < FEW else 1.0
    moment = spread**2 * (1.0 + 2.0 * (a - 1.0) + 0.5 * (a - 2.0) ** 2)
    n_draws = 1.0 / (most - 1 if most < FEW else most)
    return 3.0 * total**2 * moment * (n_draws + (1.0 / n_candidates if n_realizations > n_candidates else 0.0))


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
def _by_importance(probabilities, first, last, radii, spread, key, number, rows, weights, importance, total):
    """Candidates, one from each of equal shares of the importance; all realizations where they are few.

    One that is drawn again counts twice. Weights are those of probability over chance to be drawn.

    OUT  rows, weights, importance (n_candidates,): those that are used overwritten
    RETURN how many
    """
    most, n = rows.shape[0], 0
    if last - first <= most:
        for r in range(first, last):
            if probabilities[r] > 0.0:
                rows[n], weights[n] = r, probabilities[r]
                importance[n] = probabilities[r] * (radii[r - first] / spread + 2.0)
                n += 1
        return n
    inverse = 1.0 / spread
    below, r, before = 0.0, first, -1
    step = 3.0 * total / most
    for j in range(most):
        wanted = (j + _uniform(key, number, N_LOOKED_AT + j)) * step
        while r < last - 1:
            own = probabilities[r] * (radii[r - first] * inverse + 2.0)
            if below + own > wanted:
                break
            below += own
            r += 1
        if r != before:
            rows[n], weights[n], importance[n] = r, 0.0, 0.0
            before = r
            n += 1
        importance[n - 1] += step
        weights[n - 1] += step / (radii[r - first] * inverse + 2.0)
    return n


@part
def _strata(weights, importance, rows, order, m, total, radii, first, most, key, number, held):
    """Draw one candidate from each of equal shares of the importance, along the order.

    They are scaled to stand for the whole node, but not by much: one that has drawn nothing but its far realizations
    would move there. What is left goes to the one nearest to the middle: of those that were drawn or, where they are
    FEW, of all candidates, which then has a place of its own.

    OUT  held (n_candidates,): probability of each candidate in the order, 0 for those that were not drawn
    RETURN how far the one nearest to the middle is from it
    """
    n_draws, limit = (most, MOST_SCALED) if most >= FEW else (most - 1, 1.0)
    below, at, found = 0.0, 0, 0.0
    for j in range(m):
        held[j] = 0.0
    for t in range(n_draws):
        wanted = (t + _uniform(key, number, N_LOOKED_AT + rows.shape[0] + t)) * 3.0 * total / n_draws
        while at < m - 1 and below + importance[at] <= wanted:
            below += importance[at]
            at += 1
        share = weights[order[at]] / importance[at] * 3.0 * total / n_draws
        held[at] += share
        found += share
    nearest, off = 0, np.inf
    for j in range(m):
        radius = radii[rows[order[j]] - first]
        if radius < off and (most < FEW or held[j] > 0.0):
            nearest, off = j, radius
    rest = max(0.0, total - limit * found)
    factor = limit if rest > 0.0 else total / found
    for j in range(m):
        held[j] *= factor
    held[nearest] += rest
    return off


@part
def _emit(points, rows, order, m, held, places, chances, i):
    """Write the candidates that hold something, in order; return how many there are."""
    n = 0
    for j in range(m):
        if held[j] > 0.0:
            for f in range(points.shape[1]):
                places[i, n, f] = points[rows[order[j]], f]
            chances[i, n] = held[j]
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
