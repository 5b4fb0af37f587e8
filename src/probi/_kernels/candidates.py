"""Search for centers among certain nodes: first centers, rounds, and the effect of swaps."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.assignment import others_moved
from probi._kernels.geometry import squared_distance, squared_distances_of_four, two_smallest
from probi._kernels.pull import COST, ON_POINT, RECIPROCAL
from probi._kernels.sampling import first_above


@kernel
def shrink(points, center, nearest, start, stop):
    """Lower ``nearest`` to the distance to one more center (1, d) where that is nearer, for rows start:stop."""
    for row in range(start, stop):
        nearest[row] = min(nearest[row], np.sqrt(squared_distance(points, row, center, 0)))


@kernel
def draw_seeds(rows, mass, spreads, medians, uniforms, centers, labels, nearest, second, start, stop):
    """First centers of starts start:stop, one by one: the best of a few candidates, which are drawn by excess cost.

    The first center is drawn by mass; so are others once every row lies on a center.

    IN   rows (n, d), mass (n,), spreads (n,), medians (n, d): where the center of a row alone lies,
         uniforms (n_starts, k, n_candidates) in [0, 1)
    OUT  centers (n_starts, k, d); labels, nearest and second (n_starts, n): nearest centers, and distances to them and
         to the next
    """
    n, n_candidates = rows.shape[0], uniforms.shape[2]
    scores, distances = np.empty(n), np.empty((n_candidates, n))
    for s in range(start, stop):
        for row in range(n):
            nearest[s, row] = second[s, row] = np.inf
        for c in range(centers.shape[1]):
            total = 0.0
            if c > 0:
                total = _cumulate_excess(mass, nearest[s], spreads, scores)
            if not total > 0.0:
                total = 0.0
                for row in range(n):
                    total += mass[row]
                    scores[row] = total
            best, chosen, lowest = 0, 0, np.inf
            for j in range(n_candidates if c > 0 else 1):
                drawn = first_above(scores, uniforms[s, c, j] * total)
                _copy(medians, drawn, centers[s, c])
                cost = _cost_with(rows, mass, nearest[s], centers[s], c, distances[j])
                if cost < lowest or j == 0:
                    best, chosen, lowest = j, drawn, cost
            _copy(medians, chosen, centers[s, c])
            for row in range(n):
                distance = distances[best, row]
                second[s, row] = min(second[s, row], max(distance, nearest[s, row]))
                if distance < nearest[s, row]:
                    labels[s, row], nearest[s, row] = c, distance


@part
def _cumulate_excess(mass, nearest, spreads, scores):
    """Cumulative sums of the excess cost of rows, and their total."""
    total = 0.0
    for row in range(mass.shape[0]):
        total += mass[row] * max(nearest[row] - spreads[row], 0.0)
        scores[row] = total
    return total


@part
def _copy(medians, row, center):
    for f in range(center.shape[0]):
        center[f] = medians[row, f]


@part
def _cost_with(rows, mass, nearest, centers, c, distances):
    """Distance of each row to center c, and the cost if that is added."""
    cost = 0.0
    for row in range(rows.shape[0]):
        distances[row] = np.sqrt(squared_distance(rows, row, centers, c))
        cost += mass[row] * min(nearest[row], distances[row])
    return cost


@kernel
def pull_of_nearest(rows, mass, centers, columns, moves, labels, nearest, other, tasks, sums, start, stop):
    """Assign rows to the nearest centers of several sets, and sum their pull there.

    A row keeps its center if that is nearer than any other can be, as in ``reassign``. Rounding may decide between
    centers that are equally near: this serves the search, never a reported number.

    IN   rows (n, d), mass (n,), centers (s, k, d), columns (s, d, k): transposed, moves (s, k): how far each has moved,
         tasks (n_tasks, 3): set, first row and last row (excluded) of tasks, of which start:stop are done
    OUT  nearest (s, n): distances
    INOUT sums (n_tasks, k, d + 3), zero: as in ``cluster_pull``; labels (s, n), other (s, n) lower bounds of distances
         to all other centers; -inf: compare all, after which it is the distance to the second
    """
    for task in range(start, stop):
        s, first, last = tasks[task, 0], tasks[task, 1], tasks[task, 2]
        _assign_rows(rows, centers[s], columns[s], moves[s], labels[s], nearest[s], other[s], first, last)
        _sum_pull(rows, mass, centers[s], labels[s], nearest[s], sums[task], first, last)


@part
def _assign_rows(rows, centers, columns, moves, labels, nearest, other, start, stop):
    """Find the nearest center of rows start:stop."""
    k = centers.shape[0]
    largest, largest_at, second_largest = others_moved(moves)
    todo, n_todo = np.empty(stop - start, np.int64), 0
    for row in range(start, stop):
        own = labels[row]
        other[row] -= second_largest if own == largest_at else largest
        nearest[row] = np.sqrt(squared_distance(rows, row, centers, own))
        if not nearest[row] < other[row]:
            todo[n_todo] = row
            n_todo += 1
    squared, last = np.empty((4, k)), n_todo - 1
    for first in range(0, n_todo, 4):
        squared_distances_of_four(
            rows, todo[first], todo[min(first + 1, last)], todo[min(first + 2, last)], todo[min(first + 3, last)],
            centers, columns, squared,
        )  # fmt: skip
        for t in range(min(4, n_todo - first)):
            row = todo[first + t]
            labels[row], smallest, following = two_smallest(squared[t])
            nearest[row], other[row] = np.sqrt(smallest), np.sqrt(following)


@part
def _sum_pull(rows, mass, centers, labels, nearest, sums, start, stop):
    """Add the pull of rows start:stop at their centers; INOUT sums (k, d + 3)."""
    d = centers.shape[1]
    for row in range(start, stop):
        own, out = labels[row], sums[labels[row]]
        out[d + COST] += mass[row] * nearest[row]
        if nearest[row] > 0.0:
            share = mass[row] / nearest[row]
            out[d + RECIPROCAL] += share
            for f in range(d):
                out[f] += share * (np.float64(rows[row, f]) - centers[own, f])
        else:
            out[d + ON_POINT] += mass[row]


@kernel
def swap_changes(rows, mass, candidates, columns, n_clusters, labels, nearest, second, distances, start, stop):
    """Change of cost if a candidate replaced a center, over rows start:stop.

    IN   rows (n, d), candidates (n_candidates, d), columns (d, n_candidates): transposed,
         mass, labels, nearest, second (n,)
    OUT  distances (n, n_candidates) to the candidates
    RETURN changes (n_candidates, n_clusters + 1): column c is the cost of removing center c once the candidate is
         added, the last column the change by the candidate alone
    """
    n_candidates, last = candidates.shape[0], stop - 1
    changes, squared = np.zeros((n_candidates, n_clusters + 1)), np.empty((4, n_candidates))
    for first in range(start, stop, 4):
        squared_distances_of_four(
            rows, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), candidates, columns, squared
        )
        for row in range(first, min(first + 4, stop)):
            for c in range(n_candidates):
                distance = np.sqrt(squared[row - first, c])
                distances[row, c] = distance
                kept = min(nearest[row], distance)
                changes[c, n_clusters] += mass[row] * (kept - nearest[row])
                changes[c, labels[row]] += mass[row] * (min(second[row], distance) - kept)
    return changes
