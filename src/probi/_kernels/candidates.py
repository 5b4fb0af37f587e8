"""Search for centers among certain nodes: first centers, rounds, and the effect of swaps.

All of it serves the search, never a reported number, so it runs in the precision of the rows, which may be float32.
Rows come in tiles, transposed: vectors run over rows, whatever the dimension, and all centers are compared. Bounds
would save three quarters of the comparisons and took twice as long: a row is then compared on its own. The number of
features is a multiple of four.
"""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.pull import COST, N_SCALARS, ON_POINT, RECIPROCAL, move
from probi._kernels.sampling import first_above

# Rows in a tile, and candidates for swaps: four vector registers of float32.
WIDTH = 32


@kernel
def shrink(points, center, nearest, start, stop):
    """Lower ``nearest`` to the distance to one more center (1, d) where that is nearer, for rows start:stop."""
    for row in range(start, stop):
        nearest[row] = min(nearest[row], np.sqrt(squared_distance(points, row, center, 0)))


@part
def _load(rows, first, n, tile):
    """Copy n <= WIDTH rows, from ``first`` on; OUT tile (d / 4, 4 WIDTH): four features in a line."""
    for i in range(n):
        row = rows[first + i]
        for g in range(tile.shape[0]):
            quad = tile[g]
            quad[i] = row[4 * g]
            quad[i + WIDTH] = row[4 * g + 1]
            quad[i + 2 * WIDTH] = row[4 * g + 2]
            quad[i + 3 * WIDTH] = row[4 * g + 3]


@part
def _squares(tile, one, two, work):
    """Squared distances of all rows of a tile to two places.

    IN   tile (d / 4, 4 WIDTH), one, two (d,)
    OUT  work: the first WIDTH numbers are those of the first place, the next those of the second
    """
    for i in range(2 * WIDTH):
        work[i] = 0.0
    for g in range(tile.shape[0]):
        quad = tile[g]
        ax, ay, az, aw = one[4 * g], one[4 * g + 1], one[4 * g + 2], one[4 * g + 3]
        bx, by, bz, bw = two[4 * g], two[4 * g + 1], two[4 * g + 2], two[4 * g + 3]
        for i in range(WIDTH):
            x = quad[i]
            y = quad[i + WIDTH]
            z = quad[i + 2 * WIDTH]
            w = quad[i + 3 * WIDTH]
            work[i] += (x - ax) * (x - ax) + (y - ay) * (y - ay) + (z - az) * (z - az) + (w - aw) * (w - aw)
            work[i + WIDTH] += (x - bx) * (x - bx) + (y - by) * (y - by) + (z - bz) * (z - bz) + (w - bw) * (w - bw)


@kernel
def draw_seeds(rows, mass, spreads, n_free, uniforms, centers, nearest, start, stop):
    """First centers of starts start:stop, one by one: the best of a few candidates, which are drawn by excess cost.

    The first center is drawn by mass; so are others once every row lies on a center.

    IN   rows (n, d), mass (n,), spreads (n,), n_free: leading features of a row in which its own center lies, at 0 in
         the others, uniforms (n_starts, k, n_candidates) in [0, 1)
    OUT  centers (n_starts, k, d) of the rows' dtype; nearest (n_starts, n): distances to the nearest of them
    """
    (n, d), n_candidates = rows.shape, uniforms.shape[2]
    n_places = n_candidates + n_candidates % 2
    scores, costs = np.empty(n), np.empty(n_places)
    candidates, distances = np.zeros((n_places, d), rows.dtype), np.empty((n_places, n), rows.dtype)
    tile, work = np.zeros((rows.shape[1] // 4, 4 * WIDTH), rows.dtype), np.empty(2 * WIDTH, rows.dtype)
    for s in range(start, stop):
        near = nearest[s]
        for row in range(n):
            near[row] = np.inf
        for c in range(centers.shape[1]):
            total = 0.0
            if c > 0:
                # In two loops, of which the first uses vectors.
                for row in range(n):
                    excess = np.float64(near[row]) - spreads[row]
                    scores[row] = mass[row] * (excess if excess > 0.0 else 0.0)
                for row in range(n):
                    total += scores[row]
                    scores[row] = total
            if not total > 0.0:
                total = 0.0
                for row in range(n):
                    total += mass[row]
                    scores[row] = total
            n_drawn = n_candidates if c > 0 else 1
            for j in range(n_places):
                costs[j] = 0.0
            for j in range(n_drawn):
                drawn = first_above(scores, uniforms[s, c, j] * total)
                for f in range(n_free):
                    candidates[j, f] = rows[drawn, f]
            for first in range(0, n, WIDTH):
                m = min(WIDTH, n - first)
                _load(rows, first, m, tile)
                for j in range(0, n_drawn, 2):
                    _squares(tile, candidates[j], candidates[j + 1], work)
                    for t in range(min(2, n_drawn - j)):
                        out, cost = distances[j + t], 0.0
                        for i in range(m):
                            distance, known = np.sqrt(work[t * WIDTH + i]), near[first + i]
                            out[first + i] = distance
                            cost += mass[first + i] * np.float64(distance if distance < known else known)
                        costs[j + t] += cost
            best = 0
            for j in range(n_drawn):
                if costs[j] < costs[best]:
                    best = j
            for f in range(d):
                centers[s, c, f] = candidates[best, f]
            for row in range(n):
                distance, known = distances[best, row], near[row]
                near[row] = distance if distance < known else known


@kernel
def pull_of_nearest(rows, mass, n_free, centers, labels, nearest, second, tasks, sums, start, stop):
    """Assign rows to the nearest centers of several sets, and sum their pull there.

    Rounding may decide between centers that are equally near.

    IN   rows (n, d), mass (n,), n_free: leading features in which centers move,
         centers (s, m, d) of the rows' dtype: m is a multiple of four, those after the first k are infinitely far,
         tasks (n_tasks, 3): set, first row and last row (excluded) of tasks, of which start:stop are done
    OUT  labels, nearest, second (s, n): nearest centers, distances to them and to the next ones
    INOUT sums (n_tasks, k, d + 3), zero: as in ``cluster_pull``
    """
    d = sums.shape[2] - N_SCALARS
    # One array for all numbers of a tile, with fixed distances in it: LLVM then sees that loops can use vectors.
    tile, work = np.zeros((rows.shape[1] // 4, 4 * WIDTH), rows.dtype), np.empty(N_LINES * WIDTH, rows.dtype)
    numbers = np.empty(centers.shape[1], rows.dtype)
    for c in range(centers.shape[1]):
        numbers[c] = c
    for task in range(start, stop):
        s, out = tasks[task, 0], sums[task]
        for first in range(tasks[task, 1], tasks[task, 2], WIDTH):
            n = min(WIDTH, tasks[task, 2] - first)
            _load(rows, first, n, tile)
            _two_nearest(tile, centers[s], numbers, work)
            for i in range(n):
                labels[s, first + i] = np.int32(work[(KEPT + 2) * WIDTH + i])
            for i in range(n):
                nearest[s, first + i] = np.sqrt(work[KEPT * WIDTH + i])
                second[s, first + i] = np.sqrt(work[(KEPT + 1) * WIDTH + i])
            for i in range(n):
                row = first + i
                label, distance, weight = labels[s, row], np.float64(nearest[s, row]), mass[row]
                line = out[label]
                line[d + COST] += weight * distance
                if distance > 0.0:
                    share = weight / distance
                    line[d + RECIPROCAL] += share
                    for f in range(n_free):
                        line[f] += share * np.float64(rows[row, f])
                else:
                    line[d + ON_POINT] += weight
        for c in range(out.shape[0]):
            for f in range(n_free):
                out[c, f] -= out[c, d + RECIPROCAL] * np.float64(centers[s, c, f])


# Where a tile's numbers are in ``work``, in units of WIDTH: squared distances to two places; then, twice, the smallest
# so far, the next, and the number of the center.
KEPT, ALSO_KEPT, N_LINES = 2, 5, 8


@part
def _two_nearest(tile, centers, numbers, work):
    """Find the nearest center of each row of a tile.

    IN   centers (k, d): k is a multiple of four, numbers (k,): 0, 1, 2, ... of the rows' dtype; integers would be
         converted one by one
    OUT  work: from KEPT on, the squared distance to it, that to the next, and its number
    """
    for i in range(WIDTH):
        work[i + KEPT * WIDTH] = np.inf
        work[i + (KEPT + 1) * WIDTH] = np.inf
        work[i + (KEPT + 2) * WIDTH] = 0.0
    for c in range(0, centers.shape[0], 4):
        # Back and forth: where a number is stored that was just loaded, LLVM stores some of a vector, which takes long.
        _squares(tile, centers[c], centers[c + 1], work)
        _keep(numbers[c], numbers[c + 1], work, KEPT * WIDTH, ALSO_KEPT * WIDTH)
        _squares(tile, centers[c + 2], centers[c + 3], work)
        _keep(numbers[c + 2], numbers[c + 3], work, ALSO_KEPT * WIDTH, KEPT * WIDTH)


@part
def _keep(number, after, work, source, target):
    """Keep the two smallest of the numbers at ``source`` and of two more; ties go to the first."""
    for i in range(WIDTH):
        one = work[i]
        two = work[i + WIDTH]
        old = work[i + source]
        following = work[i + source + WIDTH]
        label = work[i + source + 2 * WIDTH]
        new, far, at = one, two, number
        if two < one:
            new, far, at = two, one, after
        lost = new
        if new < old:
            lost, old, label = old, new, at
        if far < following:
            following = far
        if lost < following:
            following = lost
        work[i + target] = old
        work[i + target + WIDTH] = following
        work[i + target + 2 * WIDTH] = label


@kernel
def move_centers(sums, n_pieces, n_free, relaxation, going, centers, costs):
    """Move the centers of several sets by one relaxed Weiszfeld step.

    IN   sums (n_tasks, k, d + 3): of ``pull_of_nearest``, ``n_pieces`` tasks for each of the sets ``going``
    INOUT sums: the sum of all tasks of a set in its first; centers (s, k, d)
    OUT  costs (s,): before the step
    RETURN how many clusters are empty
    """
    k, d, n_empty = centers.shape[1], centers.shape[2], 0
    for g in range(going.shape[0]):
        s, cost = going[g], 0.0
        for c in range(k):
            total = sums[g * n_pieces, c]
            for piece in range(1, n_pieces):
                for f in range(total.shape[0]):
                    total[f] += sums[g * n_pieces + piece, c, f]
            cost += total[d + COST]
            n_empty += total[d + RECIPROCAL] == 0.0 and total[d + ON_POINT] == 0.0
            move(centers[s, c], total, n_free, relaxation)
        costs[s] = cost
    return n_empty


@kernel
def swap_changes(rows, mass, candidates, n_clusters, labels, nearest, second, start, stop):
    """Change of cost if a candidate replaced a center, over rows start:stop.

    IN   rows (n, d), candidates (d / 4, 4 WIDTH): transposed, four features in a line,
         mass, labels, nearest, second (n,)
    RETURN changes (n_clusters + 1, WIDTH): row c is the cost of removing center c once the candidate is added, the
         last row the change by the candidate alone
    """
    changes, work = np.zeros((n_clusters + 1, WIDTH)), np.empty(2 * WIDTH, rows.dtype)
    by_itself = changes[n_clusters]
    for first in range(start, stop, 2):
        _squares(candidates, rows[first], rows[min(first + 1, stop - 1)], work)
        for t in range(min(2, stop - first)):
            row = first + t
            weight, near, following, removed = mass[row], nearest[row], second[row], changes[labels[row]]
            for c in range(WIDTH):
                distance = np.sqrt(work[t * WIDTH + c])
                kept = distance if distance < near else near
                other = distance if distance < following else following
                by_itself[c] += weight * np.float64(kept - near)
                removed[c] += weight * np.float64(other - kept)
    return changes
