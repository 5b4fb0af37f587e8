"""1-median of a node from a few of its realizations, at a cost that does not depend on how many there are."""

import numpy as np

from probi._kernels._compile import kernel
from probi._kernels.geometry import squared_distance


@kernel
def sampled_medians(points, cumulated, offsets, chosen, uniforms, n_spanning, medians, start, stop):
    """Best candidate for each of the nodes chosen[start:stop].

    Candidates are the means of all non-empty subsets of the first ``n_spanning`` drawn realizations; the other drawn
    ones judge them.

    IN   cumulated (n_realizations,): sums of the probabilities of each node up to and with a realization;
         chosen (n_chosen,) node numbers, uniforms (n_chosen, n_drawn) in [0, 1)
    OUT  medians (n_chosen, d), rows start:stop overwritten
    """
    d, n_drawn = points.shape[1], uniforms.shape[1]
    rows, candidate = np.empty(n_drawn, np.int64), np.empty((1, d))
    for i in range(start, stop):
        first, last = offsets[chosen[i]], offsets[chosen[i] + 1]
        for j in range(n_drawn):
            rows[j] = first + np.searchsorted(cumulated[first:last], uniforms[i, j] * cumulated[last - 1], "right")
            rows[j] = min(rows[j], last - 1)
        lowest = np.inf
        for subset in range(1, 1 << n_spanning):
            size = 0
            for f in range(d):
                candidate[0, f] = 0.0
            for j in range(n_spanning):
                if subset >> j & 1:
                    size += 1
                    for f in range(d):
                        # A running mean: far from the origin a sum would lose what they differ in.
                        candidate[0, f] += (np.float64(points[rows[j], f]) - candidate[0, f]) / size
            cost = 0.0
            for j in range(n_spanning, n_drawn):
                cost += np.sqrt(squared_distance(points, rows[j], candidate, 0))
            if cost < lowest:
                lowest = cost
                for f in range(d):
                    medians[i, f] = candidate[0, f]
