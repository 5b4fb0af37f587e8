"""Rounds of many sets of centers for a few nodes, in one call: a call takes longer than the arithmetic of one set."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.pull import N_SCALARS, ON_POINT, RECIPROCAL, move


@kernel
def rounds(columns, mass, n_free, relaxation, n_centers, chosen, centers, labels, nearest, second, costs, start, stop):
    """Assign nodes to the nearest centers of the sets chosen[start:stop], which then make a relaxed Weiszfeld step.

    IN   columns (d, n): coordinates of certain nodes, mass (n,), n_free: leading features in which centers move,
         relaxation: factor of the step, n_centers (s,): of each set, chosen: numbers of sets
    INOUT centers (s, k, d): moved; of set s, only the first n_centers[s] count
    OUT  labels, nearest, second (s, n): nearest centers, distances to them and to the next ones; costs (s,): before the
         step
    RETURN how many clusters are empty
    """
    (d, n), k, n_empty = columns.shape, centers.shape[1], 0
    squares, least, following, numbers = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    sums = np.empty((k, d + N_SCALARS))
    for s in chosen[start:stop]:
        places = centers[s]
        _two_nearest(columns, places[: n_centers[s]], squares, least, following, numbers)
        sums[:] = 0.0
        cost = 0.0
        for i in range(n):
            own, distance = np.int32(numbers[i]), np.sqrt(least[i])
            labels[s, i], nearest[s, i], second[s, i] = own, distance, np.sqrt(following[i])
            line = sums[own]
            cost += mass[i] * distance
            if distance > 0.0:
                share = mass[i] / distance
                line[d + RECIPROCAL] += share
                for f in range(n_free):
                    line[f] += share * (columns[f, i] - places[own, f])
            else:
                line[d + ON_POINT] += mass[i]
        costs[s] = cost
        for c in range(n_centers[s]):
            n_empty += sums[c, d + RECIPROCAL] == 0.0 and sums[c, d + ON_POINT] == 0.0
            move(places[c], sums[c], n_free, relaxation)
    return n_empty


@part
def _two_nearest(columns, centers, squares, least, following, numbers):
    """Find the nearest center of each node.

    IN   columns (d, n), centers (k, d)
    OUT  squares (n,): overwritten; least, following, numbers (n,): squared distance to the nearest center and to the
         next, and number of the nearest, as a float so that loops use vectors
    """
    d, n = columns.shape
    for i in range(n):
        least[i], following[i], numbers[i] = np.inf, np.inf, 0.0
    for c in range(centers.shape[0]):
        for i in range(n):
            squares[i] = 0.0
        for f in range(d):
            column, x = columns[f], centers[c, f]
            for i in range(n):
                squares[i] += (column[i] - x) * (column[i] - x)
        number = np.float64(c)
        for i in range(n):
            square, old = squares[i], least[i]
            other = old if square < old else square
            numbers[i] = number if square < old else numbers[i]
            least[i] = square if square < old else old
            following[i] = other if other < following[i] else following[i]
