"""A node with fewer realizations: equal points as one, then a few that stand for their neighbours."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.tree import grow

# Steps of Weiszfeld towards the median around which importance is measured. It need not be exact.
N_STEPS = 4


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
    start,
    stop,
):
    """At most ``places.shape[1]`` realizations for each of the nodes chosen[start:stop], which have more.

    Where no more points than that are different, each is kept with the sum of its probabilities: nothing is lost. Else
    up to ``n_candidates`` realizations are drawn by probability, one from each of as many strata, brought into an order
    in which neighbours are close, and thinned by importance, again one from each stratum. The total is kept.

    IN   totals (n,): probability of each node; chosen (n_chosen,) node numbers; numbers (n_chosen,) uint64: they
         and ``key`` tell the random numbers of a node, which so do not depend on the nodes around it
    OUT  places (n_chosen, most, d), chances (n_chosen, most), sizes (n_chosen,): rows start:stop overwritten;
         errors (n_chosen, 2): for any center fixed before, a bound of the variance of the expected distance; for all
         centers at once, if ``bounded``, how far the node was moved (the cost of carrying each realization to one that
         stands for it), which takes a look at all of them
    """
    d, most = points.shape[1], places.shape[1]
    rows, weights = np.empty(n_candidates, np.int64), np.empty(n_candidates)
    relative, middle, following = np.empty((n_candidates, d)), np.zeros((1, d)), np.empty(d)
    radii, flat = np.empty(n_candidates), np.empty((n_candidates, d), np.float32)
    importance, order = np.empty(n_candidates), np.empty(n_candidates, np.int64)
    features, thresholds = np.empty(2 * n_candidates, np.uint64), np.empty(2 * n_candidates, np.float32)
    firsts, leaf_of = np.empty(2 * n_candidates, np.uint64), np.empty(2 * n_candidates, np.int32)
    cell_of = np.empty(n_candidates, np.int32)
    for i in range(start, stop):
        first, last = offsets[chosen[i]], offsets[chosen[i] + 1]
        errors[i, 0], errors[i, 1] = 0.0, 0.0
        total = totals[chosen[i]]
        sizes[i] = _distinct(points, probabilities, first, last, places, chances, i)
        if sizes[i] > 0:
            _keep_total(chances, i, sizes[i], total)
            continue
        m, carried = _candidates(points, probabilities, first, last, total, key, numbers[i], bounded, rows, weights)
        for j in range(m):
            for f in range(d):
                # Relative to one of them: far from the origin nothing may change.
                relative[j, f] = np.float64(points[rows[j], f]) - np.float64(points[rows[0], f])
        spread = _median(relative, weights, m, total, middle, following, radii)
        if spread <= 0.0:  # all that were looked at are one point
            for f in range(d):
                places[i, 0, f] = points[rows[0], f]
            chances[i, 0], sizes[i], errors[i, 1] = total, 1, carried
            continue
        sampled = total / m if m == n_candidates and last - first > n_candidates else 0.0
        whole, widest = 0.0, 0.0
        for j in range(m):
            order[j] = j
            importance[j] = weights[j] * (radii[j] / spread + 2.0)
            whole += importance[j]
            widest = max(widest, radii[j])
            # Of the draws of candidates, and of those among them.
            errors[i, 0] += sampled * weights[j] * radii[j] * radii[j]
        for j in range(m):
            for f in range(d):
                flat[j, f] = (relative[j, f] - middle[0, f]) / widest
            errors[i, 0] += whole / most * weights[j] * weights[j] / importance[j] * (radii[j] + spread) ** 2
        grow(
            flat[:m], importance[:m], order[:m], 1, features[: 2 * m], thresholds[: 2 * m], firsts[: 2 * m],
            leaf_of[: 2 * m], cell_of[:m],
        )  # fmt: skip
        sizes[i] = _strata(points, rows, weights, importance, order, m, whole, key, numbers[i], places, chances, i)
        _keep_total(chances, i, sizes[i], total)
        if bounded:
            for f in range(d):
                middle[0, f] += np.float64(points[rows[0], f])
            errors[i, 1] = min(
                carried + _carried(points, rows, weights, order, m, places, chances, sizes[i], i),
                _through(points, probabilities, first, last, places, chances, sizes[i], i, middle),
            )


@part
def _uniform(key, number, draw):
    """A random number in [0, 1) for each draw of each number under a key: SplitMix64 of all three."""
    x = (key ^ (number * np.uint64(0x9E3779B97F4A7C15))) + np.uint64(draw + 1) * np.uint64(0xD1342543DE82EF95)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return np.float64(x >> np.uint64(11)) * 2.0**-53


@part
def _distinct(points, probabilities, first, last, places, chances, i):
    """Write the different points of a node and their probabilities; 0 if there are more than fit."""
    d, n = points.shape[1], 0
    for r in range(first, last):
        if probabilities[r] <= 0.0:
            continue
        at = 0
        while at < n:
            f = 0
            while f < d and places[i, at, f] == points[r, f]:
                f += 1
            if f == d:
                break
            at += 1
        if at == n:
            if n == places.shape[1]:
                return 0
            for f in range(d):
                places[i, n, f] = points[r, f]
            chances[i, n] = 0.0
            n += 1
        chances[i, at] += probabilities[r]
    return n


@part
def _candidates(points, probabilities, first, last, total, key, number, bounded, rows, weights):
    """All realizations, or one from each of equal shares of the probability; and the cost of carrying all to them.

    OUT  rows (n_candidates,), weights (n_candidates,): those that are used overwritten
    RETURN how many, and if ``bounded`` the sum of probability times distance to the one that stands for it
    """
    most, n = rows.shape[0], 0
    if last - first <= most:
        for r in range(first, last):
            if probabilities[r] > 0.0:
                rows[n], weights[n] = r, probabilities[r]
                n += 1
        return n, 0.0
    share = total / most
    below, r = 0.0, first  # probability of the realizations before r
    for j in range(most):
        wanted = (j + _uniform(key, number, j)) * share
        while r < last - 1 and below + probabilities[r] <= wanted:
            below += probabilities[r]
            r += 1
        while r > first and probabilities[r] <= 0.0:  # rounding at the end
            r -= 1
        rows[j], weights[j] = r, share
    carried, left, j = 0.0, share, 0
    for r in range(first, last if bounded else first):
        mass = np.float64(probabilities[r])
        while mass > 0.0:
            flow = min(mass, left) if j < most - 1 else mass
            carried += flow * np.sqrt(squared_distance(points, r, points, rows[j]))
            mass -= flow
            left -= flow
            if left <= 0.0 and j < most - 1:
                j += 1
                left = share
    return most, carried


@part
def _median(relative, weights, m, total, middle, following, radii):
    """Some steps of Weiszfeld from the mean.

    OUT  middle (1, d), radii (m,): distances to it
    RETURN mean distance to it
    """
    d = relative.shape[1]
    for f in range(d):
        middle[0, f] = 0.0
        for j in range(m):
            middle[0, f] += weights[j] * relative[j, f]
        middle[0, f] /= total
    spread = 0.0
    for step in range(N_STEPS):
        spread, pull = 0.0, 0.0
        for f in range(d):
            following[f] = 0.0
        for j in range(m):
            radii[j] = np.sqrt(squared_distance(relative, j, middle, 0))
            spread += weights[j] * radii[j]
            if radii[j] > 0.0:
                pull += weights[j] / radii[j]
                for f in range(d):
                    following[f] += weights[j] / radii[j] * relative[j, f]
        if step < N_STEPS - 1 and pull > 0.0:
            for f in range(d):
                middle[0, f] = following[f] / pull
    return spread / total


@part
def _strata(points, rows, weights, importance, order, m, whole, key, number, places, chances, i):
    """Draw one candidate from each of equal shares of the importance, along the order; one drawn again counts twice."""
    d, most = points.shape[1], places.shape[1]
    below, at, n, before = 0.0, 0, 0, -1
    for t in range(most):
        wanted = (t + _uniform(key, number, rows.shape[0] + t)) * whole / most
        while at < m - 1 and below + importance[at] <= wanted:
            below += importance[at]
            at += 1
        if at != before:
            for f in range(d):
                places[i, n, f] = points[rows[order[at]], f]
            chances[i, n] = 0.0
            before = at
            n += 1
        chances[i, n - 1] += weights[order[at]] / importance[at]
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
def _through(points, probabilities, first, last, places, chances, n, i, middle):
    """Cost of carrying everything to one point and from there to the realizations that are left."""
    cost = 0.0
    for r in range(first, last):
        cost += probabilities[r] * np.sqrt(squared_distance(points, r, middle, 0))
    for j in range(n):
        cost += chances[i, j] * np.sqrt(squared_distance(places[i], j, middle, 0))
    return cost


@part
def _carried(points, rows, weights, order, m, places, chances, n, i):
    """Cost of carrying the candidates to the realizations that are left, both along the order."""
    cost, at = 0.0, 0
    left = chances[i, 0]
    for j in range(m):
        row, mass = rows[order[j]], weights[order[j]]
        while mass > 0.0:
            flow = min(mass, left) if at < n - 1 else mass
            cost += flow * np.sqrt(squared_distance(points, row, places[i], at))
            mass -= flow
            left -= flow
            if left <= 0.0 and at < n - 1:
                at += 1
                left = chances[i, at]
    return cost
