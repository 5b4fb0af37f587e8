"""1-median of a node from a few of its realizations, in a time independent of their number."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.pull import RELAXATION
from probi._kernels.sampling import first_above

# Drawn realizations of which all fifteen subsets' means are candidates.
N_SUBSETS = 4

# Weiszfeld steps on drawn realizations, the first to their mean, the others relaxed. More steps change less than
# another draw would.
N_STEPS = 5

# A realization with more than this share of the weight may be the median itself, which steps would only approach.
HEAVY = 0.05


@kernel
def sampled_medians(points, probabilities, cumulative, offsets, chosen, uniforms, counts, medians, start, stop):
    """Best candidate for each of the nodes chosen[start:stop].

    Each repetition draws realizations of its own: ``n_spanning`` that span candidates (the means of all non-empty
    subsets of the first four, and the end of Weiszfeld's steps on all of them if there are more), then ``n_judging``
    that choose one. Each is biased towards its own judges, so the remaining draws choose among the repetitions; or
    all realizations do, if they are no more than that.

    IN   cumulative (n_realizations,): running sums of the probabilities within each node;
         chosen (n_chosen,) node numbers, uniforms (n_chosen, n_drawn) in [0, 1);
         counts: n_spanning, n_judging, n_repetitions
    OUT  medians (n_chosen, d), rows start:stop overwritten
    """
    n_spanning, n_judging, n_repetitions = counts
    d, n_drawn = points.shape[1], uniforms.shape[1]
    rows, candidate, pull = np.empty(n_drawn, np.int64), np.empty((1, d)), np.empty(d)
    n_each, n_subsets = n_spanning + n_judging, 1 << min(n_spanning, N_SUBSETS)
    n_last = n_drawn - n_each * n_repetitions
    equal, best = np.ones(n_each), np.empty((n_repetitions, d))
    judges, weights = rows[n_drawn - n_last :], np.empty(n_last)
    for i in range(start, stop):
        first, last = offsets[chosen[i]], offsets[chosen[i] + 1]
        for j in range(n_drawn):
            rows[j] = first + first_above(cumulative[first:last], uniforms[i, j] * cumulative[last - 1])
        for repetition in range(n_repetitions):
            drawn = rows[repetition * n_each : (repetition + 1) * n_each]
            lowest = np.inf
            for subset in range(1, n_subsets + 1):
                if subset < n_subsets:
                    _mean_of_subset(points, drawn[:n_spanning], subset, candidate)
                elif n_spanning > N_SUBSETS:
                    median_of_some(points, drawn, equal, n_spanning, candidate, pull)
                else:
                    continue
                cost = cost_of_some(points, drawn[n_spanning:], equal, n_judging, candidate, 0)
                if cost < lowest:
                    lowest = cost
                    for f in range(d):
                        best[repetition, f] = candidate[0, f]
        n_judges, winner, lowest = min(n_last, last - first), 0, np.inf
        for j in range(n_judges):
            weights[j] = 1.0
            if last - first <= n_last:
                judges[j], weights[j] = first + j, probabilities[first + j]
        for repetition in range(n_repetitions if n_repetitions > 1 else 0):
            cost = cost_of_some(points, judges, weights, n_judges, best, repetition)
            if cost < lowest:
                winner, lowest = repetition, cost
        for f in range(d):
            medians[i, f] = best[winner, f]


@part
def cost_of_some(points, rows, weights, n, candidates, c):
    """Sum of the weighted distances of a point to the first ``n`` of some realizations."""
    cost = 0.0
    for j in range(n):
        cost += weights[j] * np.sqrt(squared_distance(points, rows[j], candidates, c))
    return cost


@part
def _mean_of_subset(points, rows, subset, candidate):
    """Mean of the rows whose bits are set in ``subset``.

    OUT  candidate (1, d)
    """
    d, size = points.shape[1], 0
    for f in range(d):
        candidate[0, f] = 0.0
    for j in range(min(rows.shape[0], N_SUBSETS)):
        if subset >> j & 1:
            size += 1
            for f in range(d):
                # A running mean: far from the origin a sum would lose their differences.
                candidate[0, f] += (np.float64(points[rows[j], f]) - candidate[0, f]) / size


@part
def median_of_some(points, rows, weights, n, middle, pull):
    """A few Weiszfeld steps from the mean of the first ``n`` of ``rows``; or the heaviest, if it is the median.

    OUT  middle (1, d), pull (d,) overwritten
    """
    d = points.shape[1]
    for f in range(d):
        middle[0, f] = np.float64(points[rows[0], f])
    for step in range(N_STEPS):
        reciprocal, on_point = _pull_of_some(points, rows, weights, n, middle, pull, step == 0)
        if reciprocal > 0.0:
            # ``weiszfeld_factor``, written out: as a call it is compiled to another rounding, and nodes are thinned to
            # other bits.
            factor = (RELAXATION if step > 0 else 1.0) / reciprocal
            if on_point > 0.0:
                factor *= max(0.0, 1.0 - on_point / length(pull))
            for f in range(d):
                middle[0, f] += factor * pull[f]
    heaviest, heavy, run, total = 0, 0.0, 0.0, 0.0
    for j in range(n):
        # Repeated draws of one realization are adjacent.
        run = weights[j] + (run if j > 0 and rows[j] == rows[j - 1] else 0.0)
        total += weights[j]
        if run > heavy:
            heaviest, heavy = j, run
    if heavy > HEAVY * total:
        _, on_point = _pull_of_some(points, rows, weights, n, points[rows[heaviest] : rows[heaviest] + 1], pull, False)
        if length(pull) <= on_point:
            for f in range(d):
                middle[0, f] = np.float64(points[rows[heaviest], f])


@part
def _pull_of_some(points, rows, weights, n, center, pull, to_the_mean):
    """Sum of the weighted unit vectors from a center to realizations, or, ``to_the_mean``, of the vectors themselves.

    OUT  pull (d,)
    RETURN the sum of the factors of the vectors, the weight that lies on the center
    """
    reciprocal, on_point = 0.0, 0.0
    for f in range(pull.shape[0]):
        pull[f] = 0.0
    for j in range(n):
        share = weights[j]
        if not to_the_mean:
            radius = np.sqrt(squared_distance(points, rows[j], center, 0))
            share = weights[j] / radius if radius > 0.0 else 0.0
            on_point += weights[j] if radius == 0.0 else 0.0
        reciprocal += share
        for f in range(pull.shape[0]):
            # Relative to the center, so that a shift of the data changes nothing.
            pull[f] += share * (np.float64(points[rows[j], f]) - np.float64(center[0, f]))
    return reciprocal, on_point


@part
def length(vector):
    """Euclidean norm."""
    squared = 0.0
    for f in range(vector.shape[0]):
        squared += vector[f] * vector[f]
    return np.sqrt(squared)


@kernel
def cumulate(probabilities, offsets, sums, start, stop):
    """Running sums of the probabilities within each node, so that a tiny node is not lost among others.

    OUT  sums (n_realizations,), those of nodes start:stop overwritten
    """
    for node in range(start, stop):
        total = 0.0
        for r in range(offsets[node], offsets[node + 1]):
            total += probabilities[r]
            sums[r] = total
