"""A tree of cuts through rows: compact cells, and an order in which neighbours are close."""

import numpy as np

from probi._kernels._compile import kernel, part, prefetch

# Bins of the histogram that determines where a cell is cut.
N_BINS = 32

# Rows that descend at once, and steps after which those that have arrived drop out.
BLOCK, STEPS = 128, 4

# float32 features in a line of the cache.
LINE = 16

# Rows per leaf at which the tree stops growing; with two, half of the leaves hold one.
LEAF = 2

# Rows that decide along which feature a cell is cut further: only the order depends on it.
N_SURVEYED = 32


@kernel
def lifted_rows(medians, spreads, rows, start, stop):
    """Rows to cut: medians followed by the spread.

    OUT  rows (n, d + 1), start:stop overwritten
    """
    d = medians.shape[1]
    for row in range(start, stop):
        for f in range(d):
            rows[row, f] = medians[row, f]
        rows[row, d] = spreads[row]


@kernel
def projected_rows(medians, spreads, base, columns, factors, n_columns, rows, start, stop):
    """Rows to cut: medians relative to ``base``, each feature added to a few columns, and the spread if rows are wider.

    IN   columns, factors (d, n_copies): of each feature, the columns and what it is multiplied by
    OUT  rows (n, n_columns), or one more for the spread, start:stop overwritten
    """
    for row in range(start, stop):
        for c in range(rows.shape[1]):
            rows[row, c] = 0.0
        for f in range(medians.shape[1]):
            x = np.float64(medians[row, f]) - base[f]
            for j in range(columns.shape[1]):
                rows[row, columns[f, j]] += factors[f, j] * x
        if rows.shape[1] > n_columns:
            rows[row, n_columns] = spreads[row]


@part
def grow(rows, mass, order, max_cells, features, thresholds, firsts, leaf_of, cell_of, means):
    """Grow a tree over some rows: first cells, always cutting the one with the largest cost, then leaves inside them.

    The cost of a cell is taken as its mass times the root of its mean squared distance to its mean, an upper bound of
    the sum of distances that needs no second pass over the rows. Cells are cut where two groups are farthest apart,
    which also separates a few distant rows; inside a cell only an order is needed, so cuts are at the mean.

    IN   rows (m, d), mass (m,), max_cells
    INOUT order (m,): numbers of the rows, sorted by leaf
    OUT  features, thresholds, firsts (2 m,): rows of a tree node with a value of at most the threshold go to its first
         child, the others to the next one; a leaf is its own first child and has an infinite threshold.
         leaf_of (2 m,): number of a leaf, from left to right; cell_of (m,): cell of each leaf
         means (max_cells, d): of each cell
    RETURN numbers of leaves and of cells
    """
    d, m = rows.shape[1], order.shape[0]
    starts, stops = np.empty(2 * m, np.int64), np.empty(2 * m, np.int64)
    cells, costs, widest = np.empty(max_cells, np.int64), np.empty(max_cells), np.empty(max_cells, np.int64)
    sums, squares, bins = np.empty(d), np.empty(d), np.empty((3, N_BINS))
    starts[0], stops[0], cells[0] = 0, m, 0
    for node in range(2 * m):
        features[node], thresholds[node], firsts[node] = 0, np.inf, node
    costs[0], widest[0] = _survey(rows, mass, order, means[0], squares, 0, m, 1)
    n_nodes, n_cells = 1, 1
    while n_cells < max_cells:
        worst = 0
        for c in range(1, n_cells):
            if costs[c] > costs[worst]:
                worst = c
        if costs[worst] <= 0.0:
            break
        node = cells[worst]
        threshold = _farthest_apart(rows, mass, order, bins, widest[worst], starts[node], stops[node])
        if not _cut(rows, order, widest[worst], threshold, node, n_nodes, starts, stops):
            costs[worst] = 0.0
            continue
        features[node], thresholds[node], firsts[node] = widest[worst], threshold, n_nodes
        cells[worst], cells[n_cells] = n_nodes, n_nodes + 1
        for c in (worst, n_cells):
            costs[c], widest[c] = _survey(rows, mass, order, means[c], squares, starts[cells[c]], stops[cells[c]], 1)
        n_nodes += 2
        n_cells += 1
    for c in range(n_cells):
        # Children come after their parent, so one pass in order meets every node.
        n_before = n_nodes
        node = cells[c]
        while node < n_nodes:
            size = stops[node] - starts[node]
            if size > LEAF:
                step = 1 + size // N_SURVEYED
                cost, feature = _survey(rows, mass, order, sums, squares, starts[node], stops[node], step)
                threshold = sums[feature]
                if cost > 0.0 and _cut(rows, order, feature, threshold, node, n_nodes, starts, stops):
                    features[node], thresholds[node], firsts[node] = feature, threshold, n_nodes
                    n_nodes += 2
            node = max(node + 1, n_before)
    return _number_leaves(firsts, cells[:n_cells], leaf_of, cell_of), n_cells


# By itself; thinning calls it for each node.
grow_tree = kernel(grow)


@part
def _survey(rows, mass, order, sums, squares, start, stop, step):
    """Cost of the rows order[start:stop], and the feature in which it varies most, by each ``step``-th row.

    OUT  sums (d,): the mean; squares (d,): mass times variance
    """
    d, first, total = rows.shape[1], rows[order[start]], 0.0
    for f in range(d):
        sums[f] = 0.0
        squares[f] = 0.0
    for i in range(start, stop, step):
        row, weight = rows[order[i]], mass[order[i]]
        total += weight
        for f in range(d):
            # Relative to one of them: far from the origin squares would lose the differences.
            difference = np.float64(row[f]) - np.float64(first[f])
            sums[f] += weight * difference
            squares[f] += weight * difference * difference
    total_squares, share = 0.0, 1.0 / total
    for f in range(d):
        squares[f] = max(0.0, squares[f] - sums[f] * sums[f] * share)
        sums[f] = np.float64(first[f]) + sums[f] * share
        total_squares += squares[f]
    # In a loop of its own: the one above fills vector registers.
    widest, most = 0, squares[0]
    for f in range(1, d):
        if squares[f] > most:
            widest, most = f, squares[f]
    return np.sqrt(total * total_squares), widest


@part
def _farthest_apart(rows, mass, order, bins, feature, start, stop):
    """Value at which the rows order[start:stop] fall into the two parts with the largest variance between them (Otsu).

    It lies halfway between them: a row that descends later and lies in the gap goes to the nearer one.
    """
    low = high = np.float64(rows[order[start], feature])
    for i in range(start, stop):
        low = min(low, np.float64(rows[order[i], feature]))
        high = max(high, np.float64(rows[order[i], feature]))
    for b in range(N_BINS):
        bins[0, b] = 0.0
        bins[1, b] = 0.0
        bins[2, b] = low
    scale = N_BINS / max(high - low, 1e-300)
    weight, moment = 0.0, 0.0
    for i in range(start, stop):
        above = np.float64(rows[order[i], feature]) - low
        b = min(N_BINS - 1, int(above * scale))
        bins[0, b] += mass[order[i]]
        bins[1, b] += mass[order[i]] * above
        bins[2, b] = max(bins[2, b], np.float64(rows[order[i], feature]))
        weight += mass[order[i]]
        moment += mass[order[i]] * above
    best, threshold, top = -1.0, low, low
    left, left_moment = 0.0, 0.0
    for b in range(N_BINS - 1):
        left += bins[0, b]
        left_moment += bins[1, b]
        top = max(top, bins[2, b])
        right = weight - left
        if left > 0.0 and right > 0.0:
            gap = (moment - left_moment) / right - left_moment / left
            if left * right * gap * gap > best:
                best, threshold = left * right * gap * gap, top
    following = high
    for i in range(start, stop):
        if rows[order[i], feature] > threshold:
            following = min(following, np.float64(rows[order[i], feature]))
    middle = 0.5 * threshold + 0.5 * following
    return middle if middle < following else threshold


@part
def _cut(rows, order, feature, threshold, node, new, starts, stops):
    """Sort the rows of a tree node into two new ones, by value; False if one of them would be empty."""
    i = starts[node]
    for j in range(starts[node], stops[node]):
        below = rows[order[j], feature] <= threshold
        # Swapped whether they have to be or not: no branch to guess wrong.
        order[i], order[j] = order[j], order[i]
        i += below
    starts[new], stops[new] = starts[node], i
    starts[new + 1], stops[new + 1] = i, stops[node]
    return starts[node] < i < stops[node]


@part
def _number_leaves(firsts, cells, leaf_of, cell_of):
    """Number leaves from left to right; return how many there are."""
    cell_at, waiting = np.full(firsts.shape[0], -1, np.int32), np.empty(firsts.shape[0], np.int64)
    for c in range(cells.shape[0]):
        cell_at[cells[c]] = c
    waiting[0] = 0
    n_waiting, n_leaves, cell = 1, 0, 0
    while n_waiting > 0:
        n_waiting -= 1
        node = waiting[n_waiting]
        first = np.int64(firsts[node])
        cell = cell_at[node] if cell_at[node] >= 0 else cell
        if first == node:
            leaf_of[node] = n_leaves
            cell_of[n_leaves] = cell
            n_leaves += 1
        else:
            waiting[n_waiting], waiting[n_waiting + 1] = first + 1, first
            n_waiting += 2
    return n_leaves


@kernel
def place(
    rows, mass, n_space, features, thresholds, firsts, leaf_of, cell_of, means, leaves, distances, sums, start, stop
):
    """Leaf of rows start:stop, their distances to the mean of their cell, and mass and cost of each cell.

    A block of rows descends at once: each step waits for memory, and none for a branch.

    IN   features, firsts: unsigned, which saves the test for negative indices: 49 -> 18 ns per row in 3-D
         n_space: leading features of the space; a further one is a spread, which a center at the mean does not reduce
         means (n_cells, >= n_space)
    OUT  leaves, distances (n,), start:stop overwritten
    INOUT sums (n_cells, 2): mass, and mass times distance, of the rows so far
    """
    at, left = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    for first in range(start, stop, BLOCK):
        n = min(BLOCK, stop - first)
        for i in range(n):
            at[i], left[i] = 0, first + i
        while n > 0:
            for _ in range(STEPS):
                for i in range(n):
                    node = at[i]
                    at[i] = firsts[node] + np.uint64(rows[left[i], features[node]] > thresholds[node])
            n_left = 0
            for i in range(n):
                node, row = at[i], left[i]
                leaves[row] = leaf_of[node]
                at[n_left], left[n_left] = node, row
                n_left += firsts[node] != node
            n = n_left
        for row in range(first, min(first + BLOCK, stop)):
            c, squared = np.uint64(cell_of[np.uint64(leaves[row])]), 0.0
            # Rows of the next block come from memory meanwhile: 43 -> 35 ns per row of 128 features.
            for f in range(0, rows.shape[1], LINE):
                prefetch(rows, min(row + BLOCK, rows.shape[0] - 1), f)
            for f in range(n_space):
                difference = np.float64(rows[row, f]) - means[c, f]
                squared += difference * difference
            for f in range(n_space, rows.shape[1]):
                squared += np.float64(rows[row, f]) * np.float64(rows[row, f])
            distances[row] = np.sqrt(squared)
            sums[c, 0] += mass[row]
            sums[c, 1] += mass[row] * distances[row]
