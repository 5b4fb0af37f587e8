"""Nearest center of each realization, exact, with as few distances as the bounds allow."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import expected_distance, squared_distance, squared_distances_of_four, two_smallest


@kernel
def memberships(nodes, ones, singles, centers, columns, margins, out, start, stop):
    """Probability that each center is the nearest one, for nodes start:stop, given that they are present.

    Two bounds save distances. With m the center of gravity and c the center nearest to it, a realization x is nearest
    to c if |m - c| + 2 |x - m| is below the distance of m to any other center. And p |x - m|^2 is at most the variance
    of the node, so a node far from the border between two centers needs no look at its realizations.

    IN   ones (n_realizations,), singles (n_realizations + 1,): probabilities and offsets of realizations as nodes of
         their own; columns (d, k) = centers transposed
    OUT  out (n, k), rows start:stop overwritten
    RETURN the number of exact distances
    """
    squared = np.empty((4, centers.shape[0]))
    evaluations = 0
    for first in range(start, stop, 4):
        last = stop - 1
        squared_distances_of_four(
            nodes.gravity, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), centers, columns,
            squared,
        )  # fmt: skip
        for node in range(first, min(first + 4, stop)):
            evaluations += _share_out(nodes, node, ones, singles, centers, margins, squared[node - first], out[node])
    return evaluations


@part
def _share_out(nodes, node, ones, singles, centers, margins, squared, row):
    """Fill the row of one node, from the squared distances of its center of gravity."""
    points, relative, slack = nodes.points, margins.relative, margins.slack
    moment = nodes.totals[node] * nodes.variances[node]  # at least p |x - m|^2
    best, smallest, runner_up = two_smallest(squared)
    squared[best] = smallest
    row[:] = 0.0
    # Realizations nearer to m than this are nearest to the same center as m.
    safe = 0.5 * (np.sqrt(runner_up) * (1.0 - relative) - np.sqrt(smallest) * (1.0 + relative)) - slack
    reach = max(0.0, (safe - slack) * (1.0 - relative))
    total, evaluations = 0.0, 0
    for r in range(nodes.offsets[node], nodes.offsets[node + 1]):
        p = np.float64(nodes.probabilities[r])
        total += p
        if safe > 0.0 and moment * (1.0 + relative) < p * safe * safe:
            row[best] += p
            continue
        squared_radius = squared_distance(nodes.gravity, node, points, r)
        if squared_radius < reach * reach:
            row[best] += p
            continue
        radius = np.sqrt(squared_radius) * (1.0 + relative) + slack
        nearest, count = _nearest_center(points, r, centers, squared, best, radius, margins)
        evaluations += count
        if nearest < 0:
            nearest = _first_nearest(points, ones, singles, r, centers)
        row[nearest] += p
    # Divided by the sum of the same numbers in the same order: a node nearest to one center as a whole has exactly 1.
    for c in range(row.shape[0]):
        row[c] /= total
    return evaluations


@part
def _nearest_center(points, r, centers, squared, guess, radius, margins):
    """Center nearest to one realization, -1 if rounding may decide between two, and the number of distances.

    IN   squared (k,) squared distances of a place that is within the radius; guess: where to begin
    """
    relative, slack = margins
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
