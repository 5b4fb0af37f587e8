"""Sums over the realizations of nodes: center of gravity and variance, and the pull behind a Weiszfeld step."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance


@kernel
def node_moments(points, probabilities, offsets, totals, gravity, variances, radii, start, stop):
    """Center of gravity, variance and radius of nodes start:stop.

    IN   points (n_realizations, d), probabilities (n_realizations,), offsets (n_nodes + 1,), totals (n_nodes,)
    OUT  gravity (n_nodes, d), variances (n_nodes,): mean squared distance to it, radii (n_nodes,): the largest one
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
        variance = radius = 0.0
        for r in range(first, last):
            squared = squared_distance(points, r, gravity, node)
            variance += probabilities[r] / totals[node] * squared
            radius = max(radius, squared)
        variances[node], radii[node] = variance, radius


@part
def heaviest(probabilities, first, last):
    """First of the most likely realizations first:last: a base for differences that has probability."""
    best = first
    for r in range(first, last):
        if probabilities[r] > probabilities[best]:
            best = r
    return best


# ``out`` is d columns for the pull, then these.
RECIPROCAL, ON_POINT, COST = 0, 1, 2
N_SCALARS = 3

# Factor of a Weiszfeld step. Any in (0, 2) lowers the cost, because the step is the minimum of a quadratic upper bound;
# its curvature is too high on the whole, and 1.7 took the fewest rounds to a tight tolerance on Covertype (1.0: half as
# many again).
RELAXATION = 1.7

# A loose tolerance is reached before that pays: there 1.2 at first and 1.5 then took 4.3 evaluations (1.7: 6.4), and
# fewer on five of six other kinds of nodes; ten Gaussian points in the plane took 7 % more.
FIRST_RELAXATION, LOOSE_RELAXATION = 1.2, 1.5


@part
def weiszfeld_factor(reciprocal, on_point, strength, relaxation):
    """Factor of the pull in Weiszfeld's step; Vardi and Zhang's, where mass on the point itself holds it back.

    IN   reciprocal: sum of p / distance, on_point: mass on the point, strength: length of the pull
    """
    hold = max(0.0, 1.0 - on_point / strength) if on_point > 0.0 else 1.0
    return relaxation * hold / reciprocal


@part
def move(center, total, n_free, relaxation):
    """Move a center by one relaxed Weiszfeld step, in its first n_free features.

    INOUT center (d,), total (d + 3,): pull and scalars as in ``add_pull``; the pull is divided
    """
    d = center.shape[0]
    reciprocal, on_point, strength = total[d + RECIPROCAL], total[d + ON_POINT], 0.0
    if reciprocal > 0.0:
        # As lengths, in the units of space: squares of tiny masses would underflow.
        for f in range(n_free):
            total[f] /= reciprocal
            strength += total[f] * total[f]
        factor = 0.0
        if strength > 0.0:
            # Off the realizations the step minimizes an upper bound and may be relaxed; on one it does not.
            factor = weiszfeld_factor(
                1.0, on_point / reciprocal, np.sqrt(strength), 1.0 if on_point > 0.0 else relaxation
            )
        for f in range(n_free):
            center[f] += factor * total[f]


@part
def dual_bound(shifted_cost, slope):
    """Lower bound of the smallest cost, from the unit vectors u from a point y towards the realizations.

    The vectors u - g sum to zero, where g is their mean, and are at most 1 + |g| long. Divided by that, they solve the
    dual problem, with the value (cost - <g, m - y>) / (1 + |g|), where m is the center of gravity. Mass on y is any
    vector in the unit ball, which balances a pull up to its own size.

    IN   shifted_cost: cost - <g, m - y>, or less; slope: |g|
    """
    return shifted_cost / (1.0 + slope)


@part
def add_pull(points, probabilities, weight, centers, c, out, start, stop):
    """Add the pull of realizations start:stop at center c to ``out``.

    INOUT out (d + 3,): sum of w p (x - c) / |x - c|, sum of w p / |x - c|, mass that lies on the center, cost
    RETURN expected distance (without the weight), row of the nearest realization, distance to it
    """
    d = centers.shape[1]
    expected = 0.0
    nearest, nearest_distance = start, np.inf
    for r in range(start, stop):
        distance = np.sqrt(squared_distance(points, r, centers, c))
        expected += probabilities[r] * distance
        if distance < nearest_distance and probabilities[r] > 0.0:
            nearest, nearest_distance = r, distance
        mass = weight * probabilities[r]
        if distance > 0.0:
            share = mass / distance
            out[d + RECIPROCAL] += share
            for f in range(d):
                out[f] += share * (np.float64(points[r, f]) - centers[c, f])
        else:
            out[d + ON_POINT] += mass
    out[d + COST] += weight * expected
    return expected, nearest, nearest_distance


@kernel
def cluster_pull(points, probabilities, offsets, weights, totals, labels, centers, nearest, start, stop):
    """Pull of nodes start:stop at the centers of their clusters.

    IN   weights (n,), totals (n,) total probabilities, labels (n,), centers (k, d)
    OUT  nearest (n,): expected distance of each node to its center, given that the node is present
    RETURN sums (k, d + 3) as in ``add_pull``. Each call has its own array: threads that add to rows of one share cache
         lines and took half as long again.
    """
    sums = np.zeros((centers.shape[0], centers.shape[1] + N_SCALARS))
    for node in range(start, stop):
        c = labels[node]
        expected, _, _ = add_pull(
            points, probabilities, weights[node], centers, c, sums[c], offsets[node], offsets[node + 1]
        )
        nearest[node] = expected / totals[node]
    return sums


@kernel
def part_pull(points, probabilities, center, start, stop):
    """Pull of realizations start:stop, part of one huge node, at the center (1, d).

    RETURN as ``add_pull`` leaves ``out``, followed by the nearest row and its distance
    """
    d = points.shape[1]
    out = np.zeros(d + N_SCALARS + 2)
    _, nearest, distance = add_pull(points, probabilities, 1.0, center, 0, out, start, stop)
    out[d + N_SCALARS] = nearest
    out[d + N_SCALARS + 1] = distance
    return out
