"""Local search for many clusters: what a step changes lies near it, and only that is looked at."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import squared_distance
from probi._kernels.pull import RELAXATION

# Centers nearest to a new one, whose nodes may join it.
N_AROUND = 32

# A swap moves at most this many centers, so many of them around the new one; the rest take the nodes of the old one.
MAX_REGION, MAX_AROUND = 16, 8

# The region of a swap is made of the clusters that account for this share of what it changes.
COVERED = 0.9

# A swap is tried unless it costs more than this many times what the new center saves, before any center moves.
HOPELESS = 2.0

# Rounds after which a swap is judged, and how far it may be behind, in gains of the last round.
MAX_ROUNDS, MAX_LAG = 6, 2.0

# Rounds of a swap that is already accepted go on as long as each gains this share of what was demanded.
WORTHWHILE = 0.1


@kernel
def reassign_nearby(rows, centers, neighbors, gaps, labels, nearest, start, stop):
    """Move rows start:stop to the nearest of their own center and its neighbors.

    IN   rows (n, d), centers (k, d), neighbors (k, m): other centers by distance, gaps (k, m): these distances
    INOUT labels (n,)
    OUT  nearest (n,)
    """
    for row in range(start, stop):
        own = labels[row]
        best, at = squared_distance(rows, row, centers, own), own
        reach = 2.0 * np.sqrt(best)
        for j in range(neighbors.shape[1]):
            if gaps[own, j] >= reach:
                break
            squared = squared_distance(rows, row, centers, neighbors[own, j])
            if squared < best:
                best, at = squared, neighbors[own, j]
        labels[row], nearest[row] = at, np.sqrt(best)


@kernel
def nearest_centers(centers, neighbors, gaps, start, stop):
    """The nearest other centers of centers start:stop, by distance.

    OUT  neighbors (k, m), gaps (k, m): their distances
    """
    k, m = neighbors.shape[0], neighbors.shape[1]
    distances = np.empty(k)
    for own in range(start, stop):
        for c in range(k):
            distances[c] = np.sqrt(squared_distance(centers, c, centers, own))
        distances[own] = np.inf
        for j in range(m):
            # Insert by distance; most centers are farther than all in the list.
            neighbors[own, j], gaps[own, j] = -1, np.inf
        for c in range(k):
            if distances[c] < gaps[own, m - 1]:
                j = m - 1
                while j > 0 and gaps[own, j - 1] > distances[c]:
                    neighbors[own, j], gaps[own, j] = neighbors[own, j - 1], gaps[own, j - 1]
                    j -= 1
                neighbors[own, j], gaps[own, j] = c, distances[c]


@kernel
def swap_nearby(rows, mass, spreads, n_free, uniforms, min_gain, centers, labels, nearest, second):
    """Try swaps of centers, and keep those that lower the cost; look only at nodes around the old and the new center.

    A new center is put on a node drawn by its excess cost, and replaces the center whose removal costs least. Both
    change the clusters around them, the region; a few rounds of Lloyd's algorithm inside it, where nodes stay in the
    region, give an upper bound of the cost after the swap. If it is low enough, the region's centers are replaced.

    IN   rows (n, d), mass, spreads (n,), n_free: leading features in which centers move,
         uniforms (n_swaps, 2): random numbers that choose the new centers, min_gain: what a swap must save
    INOUT centers (k, d), labels (n,), nearest (n,), second (n,): distance to the next center
    RETURN number of swaps made
    """
    k, d = centers.shape
    heads, following = np.full(k, -1), np.empty(rows.shape[0], np.int64)
    excess, losses = np.zeros(k), np.zeros(k)
    for row in range(rows.shape[0] - 1, -1, -1):
        c = labels[row]
        following[row], heads[c] = heads[c], row
        excess[c] += mass[row] * max(0.0, nearest[row] - spreads[row])
        losses[c] += mass[row] * (second[row] - nearest[row])
    is_known = np.zeros(k, np.bool_)
    heirs = np.empty(rows.shape[0], np.int64)
    gaps, change, around = np.empty(k), np.empty(k), np.empty(N_AROUND, np.int64)
    region, place = np.empty(MAX_REGION, np.int64), np.full(k, -1)
    members, homes = np.empty(rows.shape[0], np.int64), np.empty(rows.shape[0], np.int64)
    distances, others = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    moved, new = np.empty((MAX_REGION, d)), np.zeros((1, d))
    n_made = 0
    for swap in range(uniforms.shape[0]):
        drawn = _draw(mass, spreads, nearest, heads, following, excess, uniforms[swap])
        if drawn < 0:
            break
        for f in range(n_free):
            new[0, f] = rows[drawn, f]
        saved = _savings(rows, mass, nearest, heads, following, centers, new, gaps, around, change)
        old = -1
        while True:
            # Losses that other swaps may have changed are computed only when they are the smallest.
            old = _least(losses, change)
            if old < 0 or is_known[old]:
                break
            losses[old] = _loss(rows, mass, nearest, heads, following, centers, old, gaps, around, heirs)
            is_known[old] = True
        if old < 0 or losses[old] > HOPELESS * saved:
            continue
        region[0], place[old] = old, 0
        n_region = _grow_region(change, region, place, 1, MAX_AROUND)
        for c in range(k):
            change[c] = 0.0
        row = heads[old]
        while row >= 0:
            change[heirs[row]] += mass[row]
            row = following[row]
        n_region = _grow_region(change, region, place, n_region, MAX_REGION)
        n_members, before = 0, 0.0
        for a in range(n_region):
            for f in range(d):
                moved[a, f] = new[0, f] if a == 0 else centers[region[a], f]
            row = heads[region[a]]
            while row >= 0:
                members[n_members] = row
                n_members += 1
                before += mass[row] * nearest[row]
                row = following[row]
        if _settle_region(
            rows,
            mass,
            members,
            n_members,
            n_free,
            before,
            min_gain,
            moved,
            n_region,
            homes,
            distances,
            others,
        ):
            n_made += 1
            for a in range(n_region):
                c = region[a]
                heads[c], excess[c], losses[c] = -1, 0.0, 0.0
                for f in range(d):
                    centers[c, f] = moved[a, f]
            for i in range(n_members - 1, -1, -1):
                row, c = members[i], region[homes[i]]
                labels[row], nearest[row], second[row] = c, distances[i], others[i]
                losses[c] += mass[row] * (others[i] - distances[i])
                following[row], heads[c] = heads[c], row
                excess[c] += mass[row] * max(0.0, nearest[row] - spreads[row])
            for c in range(k):
                is_known[c] = False
        for a in range(n_region):
            place[region[a]] = -1
    return n_made


@part
def _draw(mass, spreads, nearest, heads, following, excess, uniforms):
    """Row drawn by excess cost, first its cluster, then the row; -1 if no row has any."""
    total = 0.0
    for c in range(excess.shape[0]):
        total += excess[c]
    left = uniforms[0] * total
    cluster = -1
    for c in range(excess.shape[0]):
        if excess[c] > 0.0:
            cluster = c
            if left < excess[c]:
                break
            left -= excess[c]
    if cluster < 0:
        return -1
    left = uniforms[1] * excess[cluster]
    drawn, row = -1, heads[cluster]
    while row >= 0:
        share = mass[row] * max(0.0, nearest[row] - spreads[row])
        if share > 0.0:
            drawn = row
            if left < share:
                break
            left -= share
        row = following[row]
    return drawn


@part
def _closest(gaps, n_around, around):
    """Indices of the smallest gaps (k,), which become infinite; their number."""
    n = min(n_around, gaps.shape[0])
    for j in range(n):
        around[j] = np.argmin(gaps)
        gaps[around[j]] = np.inf
    return n


@part
def _savings(rows, mass, nearest, heads, following, centers, new, gaps, around, change):
    """Cost that a new center (1, d) saves at the nodes of the centers around it.

    OUT  change (k,): savings by cluster; gaps, around: overwritten
    """
    for c in range(centers.shape[0]):
        gaps[c] = squared_distance(centers, c, new, 0)
        change[c] = 0.0
    saved = 0.0
    for j in range(_closest(gaps, N_AROUND, around)):
        row = heads[around[j]]
        while row >= 0:
            gain = nearest[row] - np.sqrt(squared_distance(rows, row, new, 0))
            if gain > 0.0:
                change[around[j]] += mass[row] * gain
            row = following[row]
        saved += change[around[j]]
    return saved


@part
def _least(losses, change):
    """Center with the smallest loss among those that a new one does not affect; -1 if there is none."""
    least = -1
    for c in range(losses.shape[0]):
        if change[c] == 0.0 and (least < 0 or losses[c] < losses[least]):
            least = c
    return least


@part
def _loss(rows, mass, nearest, heads, following, centers, old, gaps, around, heirs):
    """Cost of removing a center, if its nodes go to those around it.

    OUT  heirs (n,): where each of its nodes would go; gaps, around: overwritten
    """
    for c in range(centers.shape[0]):
        gaps[c] = squared_distance(centers, c, centers, old)
    gaps[old] = np.inf
    n_around = _closest(gaps, min(N_AROUND, centers.shape[0] - 1), around)
    loss = 0.0
    row = heads[old]
    while row >= 0:
        best, at = np.inf, old
        for j in range(n_around):
            squared = squared_distance(rows, row, centers, around[j])
            if squared < best:
                best, at = squared, around[j]
        heirs[row] = at
        loss += mass[row] * (np.sqrt(best) - nearest[row])
        row = following[row]
    return loss


@part
def _grow_region(change, region, place, n_region, n_most):
    """Add the clusters with the largest changes, until they and those already in the region account for most of it."""
    total = covered = 0.0
    for c in range(change.shape[0]):
        total += change[c]
        if place[c] >= 0:
            covered += change[c]
    while n_region < n_most and covered < COVERED * total:
        largest = -1
        for c in range(change.shape[0]):
            if place[c] < 0 and change[c] > 0.0 and (largest < 0 or change[c] > change[largest]):
                largest = c
        if largest < 0:
            break
        region[n_region], place[largest] = largest, n_region
        covered += change[largest]
        n_region += 1
    return n_region


@part
def _settle_region(
    rows, mass, members, n_members, n_free, before, min_gain, moved, n_region, homes, distances,
    others,
):  # fmt: skip
    """Rounds of Lloyd's algorithm on some rows and centers alone; return whether they save ``min_gain``.

    IN   members: the rows, before: their cost
    INOUT moved (n_region, d): the centers
    OUT  homes, distances, others: of each member, its center, the distance to it and to the next
    """
    d = moved.shape[1]
    columns, squared, sums = np.empty((d, n_region)), np.empty(n_region), np.empty((n_region, d + 2))
    last = np.inf
    for turn in range(MAX_ROUNDS):
        cost = 0.0
        for a in range(n_region):
            for f in range(d):
                columns[f, a] = moved[a, f]
            for f in range(d + 2):
                sums[a, f] = 0.0
        for i in range(n_members):
            row = members[i]
            for a in range(n_region):
                squared[a] = 0.0
            for f in range(d):
                x = np.float64(rows[row, f])
                for a in range(n_region):
                    difference = x - columns[f, a]
                    squared[a] += difference * difference
            best, smallest, following = 0, np.inf, np.inf
            for a in range(n_region):
                if squared[a] < following:
                    if squared[a] < smallest:
                        best, smallest, following = a, squared[a], smallest
                    else:
                        following = squared[a]
            distance = np.sqrt(smallest)
            homes[i], distances[i], others[i] = best, distance, np.sqrt(following)
            cost += mass[row] * distance
            if distance > 0.0:
                share = mass[row] / distance
                sums[best, d] += share
                for f in range(n_free):
                    sums[best, f] += share * (np.float64(rows[row, f]) - moved[best, f])
            else:
                sums[best, d + 1] += mass[row]
        behind = cost - (before - min_gain)
        if behind < 0.0 and (last - cost < WORTHWHILE * min_gain or turn == MAX_ROUNDS - 1):
            return True
        if behind >= 0.0 and (behind > MAX_LAG * (last - cost) or turn == MAX_ROUNDS - 1):
            return False
        last = cost
        for a in range(n_region):
            length = 0.0
            for f in range(n_free):
                length += sums[a, f] * sums[a, f]
            length, held = np.sqrt(length), sums[a, d + 1]
            if sums[a, d] > 0.0 and length > held:
                # Weiszfeld's step, in the form of Vardi and Zhang where mass lies on the center itself.
                factor = (RELAXATION if held == 0.0 else 1.0) * (1.0 - held / length) / sums[a, d]
                for f in range(n_free):
                    moved[a, f] += factor * sums[a, f]
    return False
