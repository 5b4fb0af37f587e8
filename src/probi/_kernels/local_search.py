"""Local search for many clusters: a row is compared with the centers near its own, not with all."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance, squared_distances_of_four, two_smallest
from probi._kernels.pull import COST, N_SCALARS, ON_POINT, RECIPROCAL


@kernel
def nearest_centers(queries, centers, columns, lists, start, stop):
    """The nearest centers of queries start:stop, by distance; a query that is a center is its own nearest.

    IN   queries (n, d), centers (k, d), columns (d, k): transposed
    OUT  lists (n, m), m <= k: rows start:stop overwritten
    """
    k, m = centers.shape[0], lists.shape[1]
    squared, gaps = np.empty((4, k)), np.empty(m)
    last = stop - 1
    for first in range(start, stop, 4):
        squared_distances_of_four(
            queries, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), centers, columns, squared
        )
        for query in range(first, min(first + 4, stop)):
            for j in range(m):
                gaps[j] = np.inf
            for c in range(k):
                gap = squared[query - first, c]
                if gap < gaps[m - 1]:
                    # Insert by distance; most centers are farther than all in the list.
                    j = m - 1
                    while j > 0 and gaps[j - 1] > gap:
                        gaps[j], lists[query, j] = gaps[j - 1], lists[query, j - 1]
                        j -= 1
                    gaps[j], lists[query, j] = gap, c


@part
def _gather(centers, chosen, some, columns):
    """Copy chosen centers, as rows and as columns."""
    for j in range(chosen.shape[0]):
        for f in range(centers.shape[1]):
            some[j, f] = centers[chosen[j], f]
            columns[f, j] = centers[chosen[j], f]


@kernel
def join_nearest(rows, members, starts, lists, centers, labels, nearest, second, start, stop):
    """Let the rows of groups start:stop join centers of their group's list that are nearer than their own.

    IN   rows (n, d), members (n,): rows by group, starts (n_groups + 1,): where groups begin in it,
         lists (n_groups, m): centers, centers (k, d)
    INOUT labels, nearest, second (n,): the nearest center known, its distance, and the distance of the next
    """
    m, d = lists.shape[1], centers.shape[1]
    some, columns, squared = np.empty((m, d)), np.empty((d, m)), np.empty((4, m))
    for group in range(start, stop):
        _gather(centers, lists[group], some, columns)
        last = starts[group + 1] - 1
        for first in range(starts[group], last + 1, 4):
            squared_distances_of_four(
                rows, members[first], members[min(first + 1, last)], members[min(first + 2, last)],
                members[min(first + 3, last)], some, columns, squared,
            )  # fmt: skip
            for t in range(min(4, last + 1 - first)):
                row = members[first + t]
                at, smallest, following = two_smallest(squared[t])
                distance = np.sqrt(smallest)
                if distance < nearest[row]:
                    second[row] = min(nearest[row], np.sqrt(following))
                    labels[row], nearest[row] = lists[group, at], distance
                elif distance < second[row]:
                    second[row] = distance


@kernel
def round_nearby(
    rows, mass, n_free, members, starts, centers, lists, moves, drops, labels, nearest, second, start, stop
):  # fmt: skip
    """Assign the rows of clusters start:stop to the nearest center of their cluster's list, and add their pull.

    A row stays where it is if no other center of the list can be nearer.

    IN   rows (n, d), mass (n,), n_free: leading features in which centers move, members (n,): rows by cluster,
         starts (k + 1,): where clusters begin in it, centers (k, d), lists (k, m): centers near each, itself included,
         moves (k,), drops (k,): how far the center, and the others of its list, moved since the last call
    INOUT labels, nearest, second (n,): lower bound of the distance to other centers of the list
    RETURN sums (k, d + 3) as in ``cluster_pull``
    """
    k, d = centers.shape
    m = lists.shape[1]
    sums = np.zeros((k, d + N_SCALARS))
    largest = 0
    for c in range(start, stop):
        largest = max(largest, starts[c + 1] - starts[c])
    todo = np.empty(largest, np.int64)
    some, columns, squared = np.empty((m, d)), np.empty((d, m)), np.empty((4, m))
    for own in range(start, stop):
        n_todo = 0
        for i in range(starts[own], starts[own + 1]):
            row = members[i]
            second[row] -= drops[own]
            if nearest[row] - moves[own] <= second[row]:
                nearest[row] = np.sqrt(squared_distance(rows, row, centers, own))
                if nearest[row] <= second[row]:
                    _add_row(rows, mass, n_free, centers, nearest[row], sums, row, own)
                    continue
            todo[n_todo] = row
            n_todo += 1
        if n_todo > 0:
            _gather(centers, lists[own], some, columns)
        last = n_todo - 1
        for first in range(0, n_todo, 4):
            squared_distances_of_four(
                rows, todo[first], todo[min(first + 1, last)], todo[min(first + 2, last)], todo[min(first + 3, last)],
                some, columns, squared,
            )  # fmt: skip
            for t in range(min(4, n_todo - first)):
                row = todo[first + t]
                at, smallest, following = two_smallest(squared[t])
                labels[row], nearest[row], second[row] = lists[own, at], np.sqrt(smallest), np.sqrt(following)
                _add_row(rows, mass, n_free, centers, nearest[row], sums, row, labels[row])
    return sums


@part
def _add_row(rows, mass, n_free, centers, distance, sums, row, c):
    """Add the pull of one row at center c."""
    d = centers.shape[1]
    sums[c, d + COST] += mass[row] * distance
    if distance > 0.0:
        share = mass[row] / distance
        sums[c, d + RECIPROCAL] += share
        for f in range(n_free):
            sums[c, f] += share * (np.float64(rows[row, f]) - centers[c, f])
    else:
        sums[c, d + ON_POINT] += mass[row]


@kernel
def savings(rows, mass, nearest, members, starts, labels, lists, step, candidates, out, start, stop):
    """What new centers on candidates start:stop would save, estimated by every ``step``-th row around them.

    IN   members, starts, lists: as in ``round_nearby``, candidates (n_candidates,): rows
    OUT  out (n_candidates,)
    """
    for i in range(start, stop):
        new, saved = candidates[i], 0.0
        for c in lists[labels[new]]:
            for j in range(starts[c], starts[c + 1], step):
                row = members[j]
                gain = nearest[row] - np.sqrt(squared_distance(rows, row, rows, new))
                if gain > 0.0 and row != new:
                    saved += mass[row] * gain
        out[i] = step * saved + mass[new] * nearest[new]


@kernel
def first_apart(rows, nearest, candidates, n):
    """The first n candidates, without those that are nearer to one before than to their own center.

    IN   rows (n_rows, d), nearest (n_rows,), candidates (n_candidates,): rows
    """
    chosen = np.empty(n, np.int64)
    n_chosen = 0
    for row in candidates:
        i = 0
        while i < n_chosen and squared_distance(rows, row, rows, chosen[i]) >= nearest[row] * nearest[row]:
            i += 1
        if i == n_chosen:
            chosen[n_chosen] = row
            n_chosen += 1
            if n_chosen == n:
                break
    return chosen[:n_chosen]


@kernel
def remove_cheapest(rows, mass, n, members, starts, centers, lists, losses, labels, nearest, second):
    """Remove n centers, one after the other the one that costs least; its rows go to others of its list.

    Removing a center never makes it cheaper to remove another, so old losses are lower bounds: only the smallest is
    computed anew, until it stays the smallest.

    IN   members, starts, lists: as in ``round_nearby``
    INOUT losses (k,): lower bounds of what each costs; labels, nearest (n,), second (n,): -inf where the center changed
    RETURN gone (k,)
    """
    k = lists.shape[0]
    heads, following = np.full(k, -1), np.empty(rows.shape[0], np.int64)
    for c in range(k):
        for i in range(starts[c + 1] - 1, starts[c] - 1, -1):
            following[members[i]], heads[c] = heads[c], members[i]
    gone, is_known = np.zeros(k, np.bool_), np.zeros(k, np.bool_)
    heirs, distances = np.empty(rows.shape[0], np.int64), np.empty(rows.shape[0])
    for _ in range(n):
        while True:
            cheapest = 0
            for c in range(k):
                if losses[c] < losses[cheapest]:
                    cheapest = c
            if is_known[cheapest]:
                break
            losses[cheapest] = _loss(
                rows, mass, centers, lists, gone, heads, following, nearest, heirs, distances, cheapest
            )
            is_known[cheapest] = True
        gone[cheapest], losses[cheapest] = True, np.inf
        row = heads[cheapest]
        while row >= 0:
            after, heir = following[row], heirs[row]
            labels[row], nearest[row], second[row] = heir, distances[row], -np.inf
            following[row], heads[heir] = heads[heir], row
            row = after
        for c in range(k):
            is_known[c] = False
    return gone


@part
def _loss(rows, mass, centers, lists, gone, heads, following, nearest, heirs, distances, own):
    """Cost of removing a center.

    OUT  heirs, distances (n,): where each of its rows goes, and how far that is
    """
    loss = 0.0
    row = heads[own]
    while row >= 0:
        best, at = np.inf, -1
        for c in lists[own]:
            if c != own and not gone[c]:
                squared = squared_distance(rows, row, centers, c)
                if squared < best:
                    best, at = squared, c
        if at < 0:
            # All centers of the list are gone.
            for c in range(gone.shape[0]):
                if c != own and not gone[c]:
                    squared = squared_distance(rows, row, centers, c)
                    if squared < best:
                        best, at = squared, c
        heirs[row], distances[row] = at, np.sqrt(best)
        loss += mass[row] * (distances[row] - nearest[row])
        row = following[row]
    return loss
