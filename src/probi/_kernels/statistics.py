"""Center of gravity and variance of each node."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance


@kernel
def node_moments(points, probabilities, offsets, totals, gravity, variances, start, stop):
    """Center of gravity and variance of nodes start:stop.

    IN   points (n_realizations, d), probabilities (n_realizations,), offsets (n_nodes + 1,), totals (n_nodes,)
    OUT  gravity (n_nodes, d), variances (n_nodes,): mean squared distance to it
    """
    d = points.shape[1]
    for node in range(start, stop):
        first, last = offsets[node], offsets[node + 1]
        base = heaviest(probabilities, first, last)
        center = gravity[node]
        for f in range(d):
            center[f] = 0.0
        for r in range(first, last):
            # Relative to one realization: no cancellation far from the origin.
            share = probabilities[r] / totals[node]
            for f in range(d):
                center[f] += share * (np.float64(points[r, f]) - np.float64(points[base, f]))
        for f in range(d):
            center[f] += points[base, f]
        variance = 0.0
        for r in range(first, last):
            variance += probabilities[r] / totals[node] * squared_distance(points, r, gravity, node)
        variances[node] = variance


@part
def heaviest(probabilities, first, last):
    """First of the most likely realizations first:last: a base for differences that has probability."""
    best = first
    for r in range(first, last):
        if probabilities[r] > probabilities[best]:
            best = r
    return best
