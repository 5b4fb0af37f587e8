"""Nearest center of each realization, exact, with as few distances as the bounds allow."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import expected_distance, squared_distance, squared_distances_of_four, two_smallest

# Centers that may be nearest to a realization of a node, at most, for which all of them are compared.
FEW_RIVALS = 4


@kernel
def memberships(
    points, ones, singles, probabilities, offsets, gravity, radii, centers, columns, relative, slack, out, start, stop
):
    """Probability that each center is the nearest one, for nodes start:stop, given that they are present.

    Two bounds save distances. With m the center of gravity and c the center nearest to it, a realization x is nearest
    to c if |m - c| + 2 |x - m| is below the distance of m to any other center. The largest |x - m| of a node tells that
    of all its realizations at once, and else which centers may be nearest to one of them.

    IN   points (n_realizations, d), ones (n_realizations,), singles (n_realizations + 1,): the offsets of realizations
         as nodes of their own; gravity (n, >= d), radii (n,): largest squared distance of a realization to it,
         columns (d, k) = centers transposed, relative and slack: margins that cover rounding
    OUT  out (n, k), rows start:stop overwritten
    RETURN with how many centers realizations were compared
    """
    squared, rivals = np.empty((4, centers.shape[0])), np.empty(centers.shape[0], np.int64)
    normals = np.empty((FEW_RIVALS, centers.shape[1]))
    evaluations = 0
    for first in range(start, stop, 4):
        last = stop - 1
        squared_distances_of_four(
            gravity, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), centers, columns, squared
        )
        for node in range(first, min(first + 4, stop)):
            evaluations += _share_out(
                points, ones, singles, probabilities, offsets, gravity, radii[node], centers, relative, slack,
                squared[node - first], rivals, normals, out[node], node,
            )  # fmt: skip
    return evaluations


@part
def _share_out(
    points, ones, singles, probabilities, offsets, gravity, squared_radius, centers, relative, slack, squared, rivals,
    normals, row, node,
):  # fmt: skip
    """Fill the row of one node, from the squared distances of its center of gravity m.

    OUT  rivals (k,), normals (FEW_RIVALS, d): overwritten
    """
    best, smallest, runner_up = two_smallest(squared)
    squared[best] = smallest
    row[:] = 0.0
    # Realizations nearer to m than this are nearest to the same center as m.
    safe = 0.5 * (np.sqrt(runner_up) * (1.0 - relative) - np.sqrt(smallest) * (1.0 + relative)) - slack
    reach = max(0.0, (safe - slack) * (1.0 - relative))
    if squared_radius < reach * reach:
        row[best] = 1.0
        return 0
    radius = np.sqrt(squared_radius) * (1.0 + relative) + slack
    limit = (np.sqrt(smallest) + 2.0 * radius) * (1.0 + 4.0 * relative)
    n_rivals = _find_rivals(squared, best, limit, centers, rivals, normals)
    if n_rivals <= FEW_RIVALS:
        # No realization is farther from one of these centers; the squares are rounded by less than the margin.
        far = limit + radius
        margin = 4.0 * far * (4.0 * relative * far + slack)
        return _share_among_few(
            points, ones, singles, probabilities, offsets, gravity, centers, squared, best, rivals[:n_rivals], normals,
            margin, row, node,
        )  # fmt: skip
    total, evaluations = 0.0, 0
    for r in range(offsets[node], offsets[node + 1]):
        p = np.float64(probabilities[r])
        total += p
        from_middle = squared_distance(gravity, node, points, r)
        if from_middle < reach * reach:
            row[best] += p
            continue
        radius = np.sqrt(from_middle) * (1.0 + relative) + slack
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
def _find_rivals(squared, best, limit, centers, rivals, normals):
    """Centers other than the best that may be nearest to a realization: those at most as far from m as the limit.

    OUT  rivals (k,): their numbers; normals (FEW_RIVALS, d): vectors to them from the best, unless they are more
    RETURN how many they are
    """
    n_rivals = 0
    for c in range(squared.shape[0]):
        if c != best and squared[c] <= limit * limit:
            rivals[n_rivals] = c
            n_rivals += 1
    if n_rivals <= FEW_RIVALS:
        for i in range(n_rivals):
            for f in range(centers.shape[1]):
                normals[i, f] = centers[rivals[i], f] - centers[best, f]
    return n_rivals


@part
def _share_among_few(
    points, ones, singles, probabilities, offsets, gravity, centers, squared, best, rivals, normals, margin, row, node
):
    """Fill the row of a node, each of whose realizations x is nearest to the center b = best or to one of few rivals c.

    (|x - c|^2 - |x - b|^2) / 2 = (|m - c|^2 - |m - b|^2) / 2 - <x - m, c - b> is compared for all of them: branches
    that depend on the realization took twice as long. A difference up to the margin may be due to rounding.
    """
    total = 0.0
    for r in range(offsets[node], offsets[node + 1]):
        nearest, smallest, second = best, 0.0, np.inf
        for i in range(rivals.shape[0]):
            product = 0.0
            for f in range(normals.shape[1]):
                product += (np.float64(points[r, f]) - gravity[node, f]) * normals[i, f]
            rival = 0.5 * (squared[rivals[i]] - squared[best]) - product
            second = min(second, max(smallest, rival))
            nearest = rivals[i] if rival < smallest else nearest
            smallest = min(smallest, rival)
        if second - smallest <= margin:
            nearest = _first_nearest(points, ones, singles, r, centers)
        p = np.float64(probabilities[r])
        row[nearest] += p
        total += p
    for c in range(row.shape[0]):
        row[c] /= total
    return rivals.shape[0] * (offsets[node + 1] - offsets[node])


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
