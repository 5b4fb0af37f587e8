"""1-median of a node from a few of its realizations, at a cost that does not depend on how many there are."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance

# Drawn realizations whose subsets have their means tried, all fifteen of them.
N_SUBSETS = 4

# Steps of Weiszfeld on drawn realizations, the first to their mean, the others stretched, which still lowers the cost
# while the factor is below 2. More change less than another draw would.
N_STEPS, STRETCHED = 5, 1.7


@kernel
def sampled_medians(points, cumulated, offsets, chosen, uniforms, n_spanning, n_repetitions, medians, start, stop):
    """Best candidate for each of the nodes chosen[start:stop].

    Each repetition has its own ``n_spanning`` drawn realizations. Candidates are the means of all non-empty subsets of
    the first four, and the end of Weiszfeld's steps on all of them if there are more. The other drawn ones judge them.

    IN   cumulated (n_realizations,): sums of the probabilities of each node up to and with a realization;
         chosen (n_chosen,) node numbers, uniforms (n_chosen, n_drawn) in [0, 1)
    OUT  medians (n_chosen, d), rows start:stop overwritten
    """
    d, n_drawn = points.shape[1], uniforms.shape[1]
    rows, candidate, following = np.empty(n_drawn, np.int64), np.empty((1, d)), np.empty(d)
    first_judge, n_subsets = n_spanning * n_repetitions, 1 << min(n_spanning, N_SUBSETS)
    equal = np.ones(n_spanning)
    for i in range(start, stop):
        first, last = offsets[chosen[i]], offsets[chosen[i] + 1]
        for j in range(n_drawn):
            rows[j] = first + np.searchsorted(cumulated[first:last], uniforms[i, j] * cumulated[last - 1], "right")
            rows[j] = min(rows[j], last - 1)
        lowest = np.inf
        for repetition in range(n_repetitions):
            some = rows[repetition * n_spanning : (repetition + 1) * n_spanning]
            for subset in range(1, n_subsets + 1):
                if subset < n_subsets:
                    _mean_of_subset(points, some, subset, candidate)
                elif n_spanning > N_SUBSETS:
                    median_of_some(points, some, equal, n_spanning, candidate, following)
                else:
                    continue
                cost = 0.0
                for j in range(first_judge, n_drawn):
                    cost += np.sqrt(squared_distance(points, rows[j], candidate, 0))
                if cost < lowest:
                    lowest = cost
                    for f in range(d):
                        medians[i, f] = candidate[0, f]


@part
def _mean_of_subset(points, rows, subset, candidate):
    """Mean of those rows whose bits are set in the number of a subset.

    OUT  candidate (1, d)
    """
    d, size = points.shape[1], 0
    for f in range(d):
        candidate[0, f] = 0.0
    for j in range(min(rows.shape[0], N_SUBSETS)):
        if subset >> j & 1:
            size += 1
            for f in range(d):
                # A running mean: far from the origin a sum would lose what they differ in.
                candidate[0, f] += (np.float64(points[rows[j], f]) - candidate[0, f]) / size


@part
def median_of_some(points, rows, weights, n, middle, following):
    """Some steps of Weiszfeld from the mean of the first ``n`` of some realizations.

    OUT  middle (1, d), following (d,) overwritten
    """
    d = points.shape[1]
    for f in range(d):
        middle[0, f] = np.float64(points[rows[0], f])
    for step in range(N_STEPS):
        pull = 0.0
        for f in range(d):
            following[f] = 0.0
        for j in range(n):
            share = weights[j]
            if step > 0:
                radius = np.sqrt(squared_distance(points, rows[j], middle, 0))
                share = weights[j] / radius if radius > 0.0 else 0.0
            pull += share
            for f in range(d):
                # Relative to where it is: far from the origin nothing may change.
                following[f] += share * (np.float64(points[rows[j], f]) - middle[0, f])
        if pull > 0.0:
            factor = (STRETCHED if step > 0 else 1.0) / pull
            for f in range(d):
                middle[0, f] += factor * following[f]
