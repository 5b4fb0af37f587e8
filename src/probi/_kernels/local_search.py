"""Local search for many clusters: a row is compared with the centers near its own, not with all."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.many_centers import WIDTH, load_centers, load_rows, nearest_exactly, screen, screen_buffers
from probi._kernels.pull import COST, ON_POINT, RECIPROCAL


@kernel
def by_cluster(labels, k):
    """Rows sorted by label, and where each label begins; rows of a cluster stay in order.

    IN   labels (n,), all below k
    RETURN members (n,), starts (k + 1,)
    """
    starts, members = np.zeros(k + 1, np.int64), np.empty(labels.shape[0], np.int64)
    for label in labels:
        starts[label + 1] += 1
    for c in range(k):
        starts[c + 1] += starts[c]
    positions = starts.copy()
    for row in range(labels.shape[0]):
        members[positions[labels[row]]] = row
        positions[labels[row]] += 1
    return members, starts


@kernel
def nearest_centers(queries, columns, lists, start, stop):
    """The nearest centers of queries start:stop, by distance; a query that is a center is its own nearest.

    Those within a bound are ranked by comparing all of them with each other, which vectors do four times as fast as a
    sorted list that grows.

    IN   queries (n, d), columns (d, k): centers, transposed
    OUT  lists (n, m), m <= k: rows start:stop overwritten
    """
    k, m = columns.shape[1], lists.shape[1]
    squared = np.empty(k)
    # The bits of numbers that are not negative are in the order of the numbers.
    bits = squared.view(np.int64)
    near, gaps = np.empty(k, np.int64), np.empty(k, np.int64)
    for query in range(start, stop):
        for c in range(k):
            squared[c] = 0.0
        for f in range(columns.shape[0]):
            x, line = queries[query, f], columns[f]
            for c in range(k):
                squared[c] += (line[c] - x) * (line[c] - x)
        bound = _bound_of_smallest(bits, m)
        n_near, n_at_bound = 0, m
        for c in range(k):
            n_at_bound -= bits[c] < bound
        for c in range(k):
            at_bound = bits[c] == bound and n_at_bound > 0
            near[n_near], gaps[n_near] = c, bits[c]
            n_near += bits[c] < bound or at_bound
            n_at_bound -= at_bound
        for j in range(m):
            lists[query, j] = -1
        for i in range(n_near):
            gap, rank = gaps[i], 0
            for j in range(n_near):
                rank += gaps[j] < gap
            # Of equal gaps, the first center comes first.
            while rank < m and lists[query, rank] >= 0:
                rank += 1
            if rank < m:
                lists[query, rank] = near[i]


@part
def _bound_of_smallest(values, m):
    """A value that at least m of some values do not exceed, and hardly more than that, unless they are equal.

    IN   values (k,) int64, none below 0; m <= k
    """
    low, high, n_zero = np.int64(np.iinfo(np.int64).max), np.int64(0), 0
    for value in values:
        high = max(high, value)
        low = min(low, value - 1 if value > 0 else low)
        n_zero += value == 0
    if n_zero >= m:
        return np.int64(0)
    n = values.shape[0]
    # Fewer than m values are up to low, and n are up to high.
    while n > m + m // 4 and high - low > 1:
        middle, n_here = low + (high - low) // 2, 0
        for value in values:
            n_here += value <= middle
        if n_here < m:
            low = middle
        else:
            high, n = middle, n_here
    return high


@kernel
def round_nearby(
    rows, mass, n_free, members, starts, centers, lists, drops, labels, nearest, second, pull, moved, start, stop
):  # fmt: skip
    """Assign the rows of clusters start:stop to the nearest center of their cluster's list, and add their pull.

    A row stays where it is if no other center of the list can be nearer. The pull of rows that move is added by
    ``add_moved``, so that each cluster's sums are written by one thread.

    IN   rows (n, d), mass (n,), n_free: leading features in which centers move, members (n,): rows by cluster,
         starts (k + 1,): where clusters begin in it, centers (k, d), lists (k, m): centers near each, itself included,
         drops (k,): how far other centers of its list moved since the last call
    INOUT labels, nearest, second (n,): lower bound of the distance to other centers of the list
    INOUT pull (k, d + 3), zero: as in ``cluster_pull``, of rows that stay
    OUT  moved (n,): from starts[start] on, rows that move to another cluster
    RETURN their number
    """
    d, n_moved = centers.shape[1], starts[start]
    pairs, sizes, quads, lengths, sums, least, bounds = screen_buffers(lists.shape[1], d)
    tile, distances, shares = np.zeros((d, WIDTH)), np.empty(WIDTH), np.empty(WIDTH)
    # Rows that may change wait until there are enough of them for a tile.
    todo = np.empty(2 * WIDTH, np.int64)
    for own in range(start, stop):
        n_todo, unit = 0, 0.0
        for first in range(starts[own], starts[own + 1], WIDTH):
            n, n_unsure = min(WIDTH, starts[own + 1] - first), 0
            load_rows(rows, members, first, n, centers[own], tile, distances)
            for i in range(n):
                second[members[first + i]] -= drops[own]
                n_unsure += distances[i] > second[members[first + i]]
            # If most rows of the tile may change, it is compared at once: to read rows again takes as long.
            at_once = 2 * n_unsure > n
            if not at_once:
                for i in range(n):
                    row, shares[i] = members[first + i], 0.0
                    nearest[row] = distances[i]
                    if distances[i] > second[row]:
                        todo[n_todo] = row
                        n_todo += 1
                    else:
                        shares[i] = _share(mass[row], distances[i], pull[own], d)
                _add_shares(tile, shares, n, n_free, pull[own])
            while at_once or n_todo >= WIDTH or (n_todo > 0 and first + WIDTH >= starts[own + 1]):
                if unit == 0.0:
                    unit = load_centers(centers, lists[own], centers[own], pairs, sizes)
                unsure, at_first = members, first
                if not at_once:
                    n = min(n_todo, WIDTH)
                    n_todo -= n
                    unsure, at_first = todo, n_todo
                    load_rows(rows, unsure, at_first, n, centers[own], tile, distances)
                at_once = False
                screen(tile, distances, unit, pairs, sizes, quads, lengths, sums, least, bounds)
                for i in range(n):
                    row, at, distance = unsure[at_first + i], least[2 * WIDTH + i], distances[i]
                    following, shares[i] = bounds[i], 0.0
                    if lists[own, at] != own:
                        distance = np.sqrt(squared_distance(rows, row, centers, lists[own, at]))
                    if distance > following:
                        at, distance, following = nearest_exactly(rows, row, centers, lists[own])
                    labels[row], nearest[row], second[row] = lists[own, at], distance, following
                    if labels[row] == own:
                        shares[i] = _share(mass[row], distance, pull[own], d)
                    else:
                        moved[n_moved] = row
                        n_moved += 1
                _add_shares(tile, shares, n, n_free, pull[own])
    return n_moved - starts[start]


@kernel
def add_moved(rows, mass, n_free, centers, labels, nearest, moved, firsts, counts, pull):
    """Add the pull of rows that have moved to other clusters.

    IN   moved (n,): counts[i] rows from firsts[i] on
    INOUT pull (k, d + 3)
    """
    d = centers.shape[1]
    for i in range(counts.shape[0]):
        for j in range(firsts[i], firsts[i] + counts[i]):
            row, label = moved[j], labels[moved[j]]
            share = _share(mass[row], nearest[row], pull[label], d)
            for f in range(n_free):
                pull[label, f] += share * (np.float64(rows[row, f]) - centers[label, f])


@part
def _share(mass, distance, pull, d):
    """Add a row's cost and reciprocal distance to the sums of a cluster; return the factor of its direction."""
    pull[d + COST] += mass * distance
    if distance > 0.0:
        pull[d + RECIPROCAL] += mass / distance
        return mass / distance
    pull[d + ON_POINT] += mass
    return 0.0


@part
def _add_shares(tile, shares, n, n_free, pull):
    """Add the pull of the first n rows of a tile."""
    for f in range(n_free):
        line = tile[f]
        total = 0.0
        for i in range(n):
            total += shares[i] * line[i]
        pull[f] += total


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
    RETURN removed (k,)
    """
    k = lists.shape[0]
    # Rows of each cluster as a linked list: its first row, and for each row the next one.
    heads, following = np.full(k, -1), np.empty(rows.shape[0], np.int64)
    for c in range(k):
        for i in range(starts[c + 1] - 1, starts[c] - 1, -1):
            following[members[i]], heads[c] = heads[c], members[i]
    removed, is_known = np.zeros(k, np.bool_), np.zeros(k, np.bool_)
    targets, distances = np.full(rows.shape[0], -1), np.empty(rows.shape[0])
    for _ in range(n):
        while True:
            cheapest = 0
            for c in range(k):
                if losses[c] < losses[cheapest]:
                    cheapest = c
            if is_known[cheapest]:
                break
            losses[cheapest] = _loss(
                rows, mass, centers, lists, removed, heads, following, nearest, targets, distances, cheapest
            )
            is_known[cheapest] = True
        removed[cheapest], losses[cheapest] = True, np.inf
        row = heads[cheapest]
        while row >= 0:
            after, target = following[row], targets[row]
            labels[row], nearest[row], second[row] = target, distances[row], -np.inf
            following[row], heads[target], targets[row] = heads[target], row, -1
            row = after
        for c in range(k):
            is_known[c] = False
    return removed


@part
def _loss(rows, mass, centers, lists, removed, heads, following, nearest, targets, distances, own):
    """Cost of removing a center.

    INOUT targets, distances (n,): where each of its rows goes, and how far that is; below 0 if not known yet
    """
    loss = 0.0
    row = heads[own]
    while row >= 0:
        # The nearest of others stays the nearest until it is removed itself.
        if targets[row] < 0 or removed[targets[row]]:
            best, at = np.inf, -1
            for c in lists[own]:
                if c != own and not removed[c]:
                    squared = squared_distance(rows, row, centers, c)
                    if squared < best:
                        best, at = squared, c
            if at < 0:
                # All other centers of the list are removed.
                for c in range(removed.shape[0]):
                    if c != own and not removed[c]:
                        squared = squared_distance(rows, row, centers, c)
                        if squared < best:
                            best, at = squared, c
            targets[row], distances[row] = at, np.sqrt(best)
        loss += mass[row] * (distances[row] - nearest[row])
        row = following[row]
    return loss
