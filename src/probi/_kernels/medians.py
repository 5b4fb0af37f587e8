"""1-medians of nodes, each with a certified lower bound of its optimum: by formulas, a few steps, or a search."""

import numpy as np

from probi._kernels._compile import kernel, never_inlined, part
from probi._kernels.geometry import expected_distance
from probi._kernels.median_search import (
    DIRECTION,
    HERE,
    LOOSE,
    N_ROWS,
    STATE,
    TRIAL,
    advance,
    begin,
    begin_on_base,
    nearest,
    plain_steps,
    pull_at_trial,
    rounded_down,
)  # fmt: skip
from probi._kernels.pull import N_SCALARS, ON_POINT, RECIPROCAL, add_pull, heaviest

# Residual of a collinear node, relative to its length: rounding of coordinates, not geometry.
COLLINEAR = 1e-12

# Coordinates larger than the spread by this factor are rounded by more than 1e-8 of it.
FAR = 1e8

# Rows are padded with zeros to a multiple of this, which changes no sum: 55 features are 48 in vector registers and 7
# one by one.
LANES = 8

# With at most this many columns, to leave out those that do not vary gains less than to look for them.
NARROW = 2 * LANES

# Realizations that there is room for at first.
ROOM = 16

# Masses on both sides that differ by less than rounding are equal: the median is the middle, not one of its ends.
EVEN = 1e-12


@kernel
def quick_medians(points, probabilities, offsets, totals, tol, skip_from, medians, spreads, lower, left, start, stop):
    """1-median of nodes start:stop by a formula or, if ``tol`` is loose, by a few plain steps.

    IN   totals (n,), tol, skip_from: nodes with this many realizations or more are skipped
    OUT  medians (n, d), spreads (n,): expected distance to them, lower (n,): certified lower bound of the best one;
         both given that the node is present. left (n,) bool: whether the node needs the full search
    """
    d = points.shape[1]
    columns, varies, work, out, states, local, terms = _workspace(points)
    along, order, middle = np.empty(ROOM), np.empty(ROOM, np.int64), np.empty((1, d))
    state = states[0]
    for node in range(start, stop):
        first, n, total = offsets[node], offsets[node + 1] - offsets[node], totals[node]
        left[node] = False
        if n >= skip_from:
            continue
        base = heavy = heaviest(probabilities, first, first + n)
        if is_majority(probabilities[base], total):
            for f in range(d):
                medians[node, f] = points[base, f]
            spreads[node] = expected_distance(points, probabilities, offsets, node, medians, node) / total
            lower[node] = rounded_down(spreads[node], n)
            continue
        if n > order.shape[0]:
            local, terms = np.zeros((2 * n, local.shape[1])), np.empty((2, 2 * n + 3))
            along, order = np.empty(2 * n), np.empty(2 * n, np.int64)
        n_columns = make_local(points, base, local, columns, varies, first, n)
        width = padded(n_columns)
        node_probabilities = probabilities[first : first + n]
        one, other = ends_of_median(local, node_probabilities, total, work, along, order, width)
        left[node] = True
        if one < 0 and tol < LOOSE:
            continue
        if one >= 0:
            base = first + one
            make_local(points, base, local, columns, varies, first, n)
        begin(local, node_probabilities, total, probabilities[heavy], work, state, width)
        if one >= 0:
            # The certificate comes from the search: nearly collinear or nearly even is not exact.
            begin_on_base(work, state, width)
        if plain_steps(local, node_probabilities, total, tol, out, work, terms, state, width):
            _add_local(points, base, columns, n_columns, work, TRIAL, medians[node])
            spreads[node] = state.cost / total
            lower[node] = rounded_down(state.lower / total, n)
            left[node] = False
            if _is_far(medians[node], spreads[node]):
                spreads[node] = expected_distance(points, probabilities, offsets, node, medians, node) / total
        if one >= 0 and not left[node]:
            # The middle of two even halves, unless rounding makes it worse.
            for f in range(d):
                middle[0, f] = 0.5 * points[base, f] + 0.5 * points[first + other, f]
            spread = expected_distance(points, probabilities, offsets, node, middle, 0) / total
            if spread <= spreads[node] * (1.0 + EVEN):
                for f in range(d):
                    medians[node, f] = middle[0, f]
                spreads[node] = spread
                lower[node] = min(lower[node], spread)


@kernel
def searched_medians(
    points, probabilities, offsets, totals, tol, max_evaluations, chosen, medians, spreads, lower, start, stop
):  # fmt: skip
    """1-median of the nodes chosen[start:stop], to a relative error of tol unless ``max_evaluations`` end the search.

    OUT  medians (n, d), spreads (n,), lower (n,): those of the chosen nodes, as in ``quick_medians``
    """
    d = points.shape[1]
    columns, varies, work, out, states, local, terms = _workspace(points)
    state = states[0]
    for i in range(start, stop):
        node = chosen[i]
        first, n, total = offsets[node], offsets[node + 1] - offsets[node], totals[node]
        if n > local.shape[0]:
            local, terms = np.zeros((2 * n, local.shape[1])), np.empty((2, 2 * n + 3))
        base = heavy = heaviest(probabilities, first, first + n)
        n_columns = make_local(points, base, local, columns, varies, first, n)
        width = padded(n_columns)
        node_probabilities = probabilities[first : first + n]
        begin(local, node_probabilities, total, probabilities[heavy], work, state, width)
        for _ in range(max_evaluations):
            pull_at_trial(local, node_probabilities, out, work, terms, width)
            row, distance = nearest(terms[0], node_probabilities)
            if advance(local, total, tol, out, row, distance, work, state, width):
                break
        if state.on_point > 0.0:
            # A realization is copied to the bit.
            for f in range(d):
                medians[node, f] = points[first + state.nearest, f]
        else:
            _add_local(points, base, columns, n_columns, work, HERE, medians[node])
        spreads[node] = state.cost / total
        lower[node] = rounded_down(state.lower / total, n)
        if _is_far(medians[node], spreads[node]):
            spreads[node] = expected_distance(points, probabilities, offsets, node, medians, node) / total


@part
def _is_far(median, spread):
    """Whether a median is so far from the origin that its rounding affects the spread."""
    distance = 0.0
    for f in range(median.shape[0]):
        distance += abs(median[f])
    return distance > FAR * spread


@part
def _workspace(points):
    """Columns of a node, how they vary, rows and sums of the search, its state, room for realizations and terms."""
    d, width = points.shape[1], padded(points.shape[1])
    return (
        np.empty(d, np.uint64), np.empty(d, points.dtype), np.empty((N_ROWS, width)), np.empty(width + N_SCALARS),
        np.empty(1, STATE), np.zeros((ROOM, width)), np.empty((2, ROOM + 3)),
    )  # fmt: skip


@part
def padded(n_columns):
    """Width of rows with so many columns."""
    return max(n_columns, 1) if n_columns < LANES else -(-n_columns // LANES) * LANES


@part
def make_local(points, base, local, columns, varies, first, n):
    """Realizations first:first + n relative to the one in row ``base``, as float64, in the columns that vary.

    A shift of the data leaves these numbers unchanged, so the search takes the same path to the same point. Columns in
    which a node does not vary change no distance to a point between its realizations: ten neighbors in Covertype
    differ in 12 of 55, on average.

    INOUT local (>= n, padded d), zero from column d on: rows, zero up to the ``padded`` number of columns
    OUT  columns (d,): those that vary; varies (d,): overwritten
    RETURN number of these columns
    """
    never_inlined()  # called twice: saves the time to compile it again
    d, origin = points.shape[1], points[base]
    n_varying = _varying_columns(points, base, columns, varies, first, n) if d > NARROW else d
    if padded(n_varying) < padded(d):
        width = padded(n_varying)
        for r in range(n):
            row, out = points[first + r], local[r]
            for i in range(n_varying):
                f = columns[i]
                out[i] = np.float64(row[f]) - np.float64(origin[f])
            for i in range(n_varying, width):
                out[i] = 0.0
        return n_varying
    for r in range(n):
        row, out = points[first + r], local[r]
        for f in range(d):
            out[f] = np.float64(row[f]) - np.float64(origin[f])
    for f in range(d):
        columns[f] = f
    return d


@part
def _varying_columns(points, base, columns, varies, first, n):
    """Columns in which a node varies.

    OUT  columns (d,): these columns; varies (d,): overwritten
    RETURN how many they are
    """
    d, origin, last = points.shape[1], points[base], first + n - 1
    for f in range(d):
        varies[f] = 0.0
    # Four rows at once, the last ones repeated: 1.5 times as fast as one at a time.
    for r in range(first, first + n, 4):
        a, b, c, e = points[r], points[min(r + 1, last)], points[min(r + 2, last)], points[min(r + 3, last)]
        for f in range(d):
            x = origin[f]
            varies[f] += (abs(a[f] - x) + abs(b[f] - x)) + (abs(c[f] - x) + abs(e[f] - x))
    n_columns = np.uint64(0)
    for f in range(d):
        columns[n_columns] = f
        n_columns += np.uint64(varies[f] > 0.0)
    return np.int64(n_columns)


@part
def _add_local(points, base, columns, n_columns, work, i, median):
    """Write row i of the workspace in the coordinates of the points."""
    for f in range(points.shape[1]):
        median[f] = points[base, f]
    for i_column in range(n_columns):
        median[columns[i_column]] += work[i, i_column]


@part
def ends_of_median(local, probabilities, total, work, along, order, width):
    """Realizations in the middle of which the median lies if all are on one line; equal unless two halves are even.

    OUT  along, order (>= n,): overwritten
    RETURN two rows; -1, -1 if there is no line
    """
    if _is_bent(local, probabilities, width) or not _coordinates_on_line(local, probabilities, work, along, width):
        return -1, -1
    n = probabilities.shape[0]
    _sort(along[:n], order)
    below = 0.0
    for i in range(n):
        one = order[i]
        below += probabilities[one]
        if 2.0 * below >= total * (1.0 - EVEN):
            other = one
            if 2.0 * below <= total * (1.0 + EVEN):
                # Even masses: every point up to the next realization is a median; take the middle.
                j = i + 1
                while j < n and probabilities[order[j]] == 0.0:
                    j += 1
                if j < n:
                    other = order[j]
            return one, other
    return -1, -1


@part
def _is_bent(local, probabilities, width):
    """Whether the second and third realization are in directions from the base that clearly differ, as in most nodes.

    A quick test: False says nothing.
    """
    if probabilities.shape[0] < 3 or probabilities[1] == 0.0 or probabilities[2] == 0.0:
        return False
    both, one, other = 0.0, 0.0, 0.0
    for f in range(width):
        both += local[1, f] * local[2, f]
        one += local[1, f] * local[1, f]
        other += local[2, f] * local[2, f]
    return both * both < 0.9 * one * other


@part
def is_majority(probability, total):
    """Whether a realization is the median, whatever the others are."""
    return 2.0 * probability >= total * (1.0 + EVEN)


@part
def _sort(values, order):
    """Indices that sort the values, by Shell's method: np.argsort takes two seconds to compile.

    OUT  order (n,)
    """
    n = values.shape[0]
    for i in range(n):
        order[i] = i
    gap = 1
    while gap < n:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            moved, j = order[i], i
            while j >= gap and values[order[j - gap]] > values[moved]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = moved
        gap //= 3


@part
def _coordinates_on_line(local, probabilities, work, along, width):
    """Coordinate of each realization on their common line; False if there is none.

    The line goes through the heaviest realization, to which the others are relative, and the first that differs from
    it; most nodes fail at the next one.

    OUT  along (>= n,)
    """
    for f in range(width):
        work[DIRECTION, f] = 0.0
    length = 0.0
    for r in range(probabilities.shape[0]):
        along[r] = 0.0
        if probabilities[r] == 0.0:
            continue
        coordinate, squared_length = 0.0, 0.0
        for f in range(width):
            coordinate += work[DIRECTION, f] * local[r, f]
            squared_length += local[r, f] * local[r, f]
        squared_residual = 0.0
        for f in range(width):
            squared_residual += (local[r, f] - coordinate * work[DIRECTION, f]) ** 2
        if length == 0.0 and squared_length > 0.0:
            length = coordinate = np.sqrt(squared_length)
            for f in range(width):
                work[DIRECTION, f] = local[r, f] / length
        elif squared_residual > COLLINEAR * COLLINEAR * squared_length:
            return False
        along[r] = coordinate
    return True


@kernel
def stepped_medians(points, probabilities, offsets, gravity, ratio, max_steps, medians, spreads, hit, start, stop):
    """Weiszfeld from the center of gravity with the paper's stopping rule, for nodes start:stop.

    Goes on while a step is at most ``ratio`` times as long as the one before, which two steps must show first, and
    for at most ``max_steps`` steps; stops where it hits a realization.

    OUT  medians (n, d), spreads (n,): sum of p |x - y|, hit (n,): whether it stopped on a realization
    """
    d = points.shape[1]
    center = np.empty((1, d))
    out = np.empty(d + N_SCALARS)
    for node in range(start, stop):
        for f in range(d):
            center[0, f] = gravity[node, f]
        hit[node] = False
        before = earlier = 0.0
        for step in range(max_steps + 1):
            out.fill(0.0)
            spread, _, _ = add_pull(points, probabilities, 1.0, center, 0, out, offsets[node], offsets[node + 1])
            if out[d + ON_POINT] > 0.0:
                hit[node] = True
                break
            if step == max_steps or (step >= 2 and before > ratio * earlier):
                break
            squared_length = 0.0
            for f in range(d):
                move = out[f] / out[d + RECIPROCAL]
                center[0, f] += move
                squared_length += move * move
            earlier, before = before, np.sqrt(squared_length)
        for f in range(d):
            medians[node, f] = center[0, f]
        spreads[node] = spread


# For a huge node, whose realizations several threads share.
huge_ends_of_median = kernel(ends_of_median)
