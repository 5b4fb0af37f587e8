"""Seeding and swaps: the effect of a new center, for several candidates in one pass over certain nodes."""

import numpy as np

from probi._kernels._compile import kernel
from probi._kernels.geometry import squared_distance, squared_distances_of_four, two_smallest


@kernel
def shrink(points, center, nearest, start, stop):
    """Lower ``nearest`` to the distance to one more center (1, d) where that is nearer, for rows start:stop."""
    for row in range(start, stop):
        nearest[row] = min(nearest[row], np.sqrt(squared_distance(points, row, center, 0)))


@kernel
def candidate_costs(rows, mass, nearest, candidates, columns, distances, start, stop):
    """Cost of rows start:stop if a candidate were added, for each candidate.

    IN   rows (n, d), mass (n,), nearest (n,), candidates (n_candidates, d), columns (d, n_candidates): transposed
    OUT  distances (n, n_candidates)
    RETURN costs (n_candidates,)
    """
    n_candidates = candidates.shape[0]
    costs = np.zeros(n_candidates)
    squared = np.empty((4, n_candidates))
    last = stop - 1
    for first in range(start, stop, 4):
        squared_distances_of_four(
            rows, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), candidates, columns, squared
        )
        for row in range(first, min(first + 4, stop)):
            for c in range(n_candidates):
                distance = np.sqrt(squared[row - first, c])
                distances[row, c] = distance
                costs[c] += mass[row] * min(distance, nearest[row])
    return costs


@kernel
def two_nearest(rows, centers, columns, labels, nearest, second, start, stop):
    """Nearest center, its distance and the second smallest distance of rows start:stop.

    IN   rows (n, d), centers (k, d), columns (d, k): transposed
    OUT  labels (n,), nearest (n,), second (n,): infinite for k = 1
    """
    k = centers.shape[0]
    squared = np.empty((4, k))
    last = stop - 1
    for first in range(start, stop, 4):
        squared_distances_of_four(
            rows, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), centers, columns, squared
        )
        for row in range(first, min(first + 4, stop)):
            labels[row], smallest, following = two_smallest(squared[row - first])
            nearest[row] = np.sqrt(smallest)
            second[row] = np.sqrt(following)


@kernel
def swap_changes(mass, labels, nearest, second, distances, n_clusters, start, stop):
    """Change of cost if a candidate replaced a center, over rows start:stop.

    IN   mass, labels, nearest, second (n,), distances (n, n_candidates) to the candidates
    RETURN changes (n_candidates, n_clusters + 1): column c is the cost of removing center c once the candidate is
         added, the last column the change by the candidate alone
    """
    n_candidates = distances.shape[1]
    changes = np.zeros((n_candidates, n_clusters + 1))
    for row in range(start, stop):
        for c in range(n_candidates):
            kept = min(nearest[row], distances[row, c])
            changes[c, n_clusters] += mass[row] * (kept - nearest[row])
            changes[c, labels[row]] += mass[row] * (min(second[row], distances[row, c]) - kept)
    return changes
