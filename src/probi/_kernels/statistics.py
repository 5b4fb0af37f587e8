"""What is computed once for each node: total probability, center of gravity, variance; and the check of the data."""

import numpy as np

from probi._kernels._compile import kernel
from probi._kernels.geometry import squared_distance


@kernel
def largest_magnitude(flat, start, stop):
    """Largest absolute value of flat[start:stop], NaN if there is one.

    ``not (x <= largest)`` would also catch NaN but does not vectorise; a sum of ``x - x`` does: it is 0 for finite
    values and NaN for NaN and both infinities.
    """
    largest = 0.0
    poison = 0.0
    for i in range(start, stop):
        value = abs(flat[i])
        largest = max(largest, np.float64(value))
        poison += value - value
    return largest + poison


@kernel
def node_moments(points, probabilities, offsets, totals, gravity, variances, start, stop):
    """Center of gravity and variance of nodes start:stop.

    IN   points (n_realizations, d), probabilities (n_realizations,), offsets (n_nodes + 1,), totals (n_nodes,)
    OUT  gravity (n_nodes, d), variances (n_nodes,): mean squared distance to it
    """
    d = points.shape[1]
    for node in range(start, stop):
        first = offsets[node]
        center = gravity[node]
        for f in range(d):
            center[f] = 0.0
        for r in range(first, offsets[node + 1]):
            # Relative to the node's first realization: far from the origin nothing is lost to cancellation.
            share = probabilities[r] / totals[node]
            for f in range(d):
                center[f] += share * (np.float64(points[r, f]) - np.float64(points[first, f]))
        for f in range(d):
            center[f] += points[first, f]
        total = 0.0
        for r in range(first, offsets[node + 1]):
            total += probabilities[r] * squared_distance(points, r, gravity, node)
        variances[node] = total / totals[node]
