"""Nearest center of each realization, exact, with as few distances as the bounds allow."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import expected_distance, squared_distance, squared_distances_of_four, two_smallest


@kernel
def memberships(
    points, ones, singles, probabilities, offsets, totals, gravity, variances, centers, columns, relative, slack, out,
    start, stop,
):  # fmt: skip
    """Probability that each center is the nearest one, for nodes start:stop, given that they are present.

    Two bounds save distances. With m the center of gravity and c the center nearest to it, a realization x is nearest
    to c if |m - c| + 2 |x - m| is below the distance of m to any other center. And p |x - m|^2 is at most the variance
    of the node, so a node far from the border between two centers needs no look at its realizations.

    IN   points (n_realizations, d), ones (n_realizations,), singles (n_realizations + 1,): the offsets of realizations
         as nodes of their own; totals (n,) total probabilities, gravity (n, >= d), variances (n,),
         columns (d, k) = centers transposed, relative and slack: margins that cover rounding
    OUT  out (n, k), rows start:stop overwritten
    RETURN the number of exact distances
    """
    squared = np.empty((4, centers.shape[0]))
    evaluations = 0
    for first in range(start, stop, 4):
        last = stop - 1
        squared_distances_of_four(
            gravity, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), centers, columns, squared
        )
        for node in range(first, min(first + 4, stop)):
            evaluations += _share_out(
                points, ones, singles, probabilities, offsets, gravity, totals[node] * variances[node], centers,
                relative, slack, squared[node - first], out[node], node,
            )  # fmt: skip
    return evaluations


@part
def _share_out(
    points, ones, singles, probabilities, offsets, gravity, moment, centers, relative, slack, squared, row, node
):
    """Fill the row of one node, from the squared distances of its center of gravity and p |x - m|^2 <= moment."""
    best, smallest, runner_up = two_smallest(squared)
    squared[best] = smallest
    row[:] = 0.0
    # Realizations nearer to m than this are nearest to the same center as m.
    safe = 0.5 * (np.sqrt(runner_up) * (1.0 - relative) - np.sqrt(smallest) * (1.0 + relative)) - slack
    reach = max(0.0, (safe - slack) * (1.0 - relative))
    total, evaluations = 0.0, 0
    for r in range(offsets[node], offsets[node + 1]):
        p = np.float64(probabilities[r])
        total += p
        if safe > 0.0 and moment * (1.0 + relative) < p * safe * safe:
            row[best] += p
            continue
        squared_radius = squared_distance(gravity, node, points, r)
        if squared_radius < reach * reach:
            row[best] += p
            continue
        radius = np.sqrt(squared_radius) * (1.0 + relative) + slack
        nearest, count = _nearest_center(points, r, centers, squared, best, radius, relative, slack)
        evaluations += count
        if nearest < 0:
            nearest = _first_nearest(points, ones, singles, r, centers)
        row[nearest] += p
    # Divided by the sum of the same numbers in the same order: a node nearest to one center as a whole has exactly 1.
    for c in range(row.shape[0]):
        row[c] /= total
    return evaluations


@part
def _nearest_center(points, r, centers, squared, guess, radius, relative, slack):
    """Center nearest to one realization, -1 if rounding may decide between two, and the number of distances.

    IN   squared (k,) squared distances of a place that is within the radius; guess: where to begin
    """
    nearest, smallest = guess, squared_distance(points, r, centers, guess)
    second, count = np.inf, 1
    limit = (np.sqrt(smallest) + radius + slack) * (1.0 + 2.0 * relative)
    for c in range(centers.shape[0]):
        if c == guess or squared[c] > limit * limit:
            continue
        count += 1
        rival = squared_distance(points, r, centers, c)
        if rival < smallest:
            nearest, smallest, second = c, rival, smallest
            limit = (np.sqrt(smallest) + radius + slack) * (1.0 + 2.0 * relative)
        else:
            second = min(second, rival)
    return (-1 if second <= smallest * (1.0 + 4.0 * relative) else nearest), count


@part
def _first_nearest(points, ones, singles, r, centers):
    """Center nearest to one realization, the first of several, by the distances that all functions report."""
    nearest, distance = 0, np.inf
    for c in range(centers.shape[0]):
        rival = expected_distance(points, ones, singles, r, centers, c)
        if rival < distance:
            nearest, distance = c, rival
    return nearest
