"""The nearest of many centers: lower bounds in float32 first, then the exact distance to the one that remains.

With coordinates relative to a reference point, |x - c|^2 = |x|^2 + |c|^2 - 2 x.c takes one operation per feature, and
vector registers hold twice as many numbers in float32: three times faster than exact distances. If each sum of d
features starts with (1 - e)(|x|^2 + |c|^2), where e = (2 d + 16) u and u = 2^-24, then rounding cannot lift it above
the true number:

- x and c are rounded, so |x - c| is off by u (|x| + |c|) and its square by 4 u (|x|^2 + |c|^2);
- both squares are rounded, by u, and |x|^2 is that of x before it is rounded, which is off by 2 u;
- d + 2 terms are summed in any order, whose magnitudes sum to no more than 2 (|x|^2 + |c|^2): (2 d + 4) u of that.

What is left of e covers rounding in float64. The bound is good where the reference is not much farther away than the
centers are from each other.

Rows come in tiles, transposed: vectors run over rows, whatever the dimension.
"""

import numpy as np

from probi._kernels._compile import kernel, never_inlined, part
from probi._kernels.geometry import squared_distance

# Rows that are compared at a time: four vector registers of float32.
WIDTH = 32

# Features that are transposed at a time: their part of a tile stays in the cache next to the core.
FEATURES_AT_ONCE = 16

# Infinity in float32, as an integer: numbers that are not negative are in the order of their bits.
INFINITY = np.int32(0x7F800000)

# Squares below the first lose digits in float32, sums above the second may overflow. Coordinates are scaled so that the
# centers' are at most 1.
UNDERFLOW, OVERFLOW = 1e-36, 1e30

# Smaller coordinates are not scaled: their reciprocal may overflow.
SMALLEST = 1e-290


@part
def screen_buffers(m, d):
    """Arrays that ``load_centers`` and ``screen`` work in, for m centers and d features.

    RETURN pairs (n_pairs, n_quads, 8) float32: two centers at a time, four features of each,
         sizes (2 n_pairs,) float32: squared lengths of the centers,
         quads (n_quads, 4 WIDTH) float32: rows, four features in a line,
         lengths (WIDTH,) float32: squared lengths of the rows, sums (2 WIDTH,) float32,
         least (3 WIDTH,) int32: smallest sum of each row, the next one, the number of the center,
         bounds (WIDTH,): lower bound of the distance to any other
    """
    n_pairs, n_quads = (m + 1) // 2, (d + 3) // 4
    pairs, sizes = np.zeros((n_pairs, n_quads, 8), np.float32), np.empty(2 * n_pairs, np.float32)
    quads, lengths = np.zeros((n_quads, 4 * WIDTH), np.float32), np.empty(WIDTH, np.float32)
    return pairs, sizes, quads, lengths, np.empty(2 * WIDTH, np.float32), np.empty(3 * WIDTH, np.int32), np.empty(WIDTH)


@part
def _shrunk(squares, d):
    """Squared length, less what rounding may add to a sum of d features."""
    return np.float32(squares * (1.0 - (d + 8) * 2.0**-23))


@part
def load_centers(centers, chosen, reference, pairs, sizes):
    """Copy chosen centers, relative to a reference point; return the unit of length, in which none is above 1.

    IN   centers (k, d), chosen (m,), reference (d,)
    OUT  pairs, sizes
    """
    d = centers.shape[1]
    unit = 0.0
    for c in chosen:
        for f in range(d):
            unit = max(unit, abs(centers[c, f] - reference[f]))
    unit = unit if unit > SMALLEST else 1.0
    scale = 1.0 / unit
    for j in range(sizes.shape[0]):
        sizes[j] = np.inf
    for j in range(chosen.shape[0]):
        squares = 0.0
        for f in range(d):
            x = np.float32((centers[chosen[j], f] - reference[f]) * scale)
            pairs[j // 2, f // 4, j % 2 * 4 + f % 4] = np.float32(-2.0) * x
            squares += np.float64(x) * np.float64(x)
        sizes[j] = _shrunk(squares, d)
    return unit


@part
def load_rows(rows, members, first, n, reference, tile, distances):
    """Copy rows, relative to a reference point, and compute their distances to it.

    IN   rows (n_rows, d), members: numbers of n of them, from position ``first`` on, n <= WIDTH
    OUT  tile (d, WIDTH), distances (WIDTH,)
    """
    never_inlined()
    d = reference.shape[0]
    for i in range(WIDTH):
        distances[i] = 0.0
    for f0 in range(0, d, FEATURES_AT_ONCE):
        f1 = min(f0 + FEATURES_AT_ONCE, d)
        for i in range(n):
            row = members[first + i]
            for f in range(f0, f1):
                tile[f, i] = np.float64(rows[row, f]) - reference[f]
        for f in range(f0, f1):
            line = tile[f]
            for i in range(WIDTH):
                distances[i] += line[i] * line[i]
    for i in range(WIDTH):
        distances[i] = np.sqrt(distances[i])


@part
def screen(tile, distances, unit, pairs, sizes, quads, lengths, sums, least, bounds):
    """Find the center with the smallest lower bound, for all rows of a tile.

    IN   tile (d, WIDTH), distances (WIDTH,): of the rows to the reference point
    OUT  least: from 2 WIDTH on, the number of the center, bounds; the center is the nearest if its distance is below
    """
    d, scale = tile.shape[0], 1.0 / unit
    for f in range(d):
        line, quad = tile[f], quads[f // 4][f % 4 * WIDTH : (f % 4 + 1) * WIDTH]
        for i in range(WIDTH):
            quad[i] = np.float32(line[i] * scale)
    for i in range(WIDTH):
        length = distances[i] * scale
        lengths[i] = _shrunk(length * length, d)
    _screen(pairs, sizes, quads, lengths, sums, least)
    following = least[WIDTH:].view(np.float32)
    for i in range(WIDTH):
        # A sum that is negative, by rounding, says nothing; so does one that may have overflowed.
        reliable = lengths[i] < OVERFLOW
        bounds[i] = np.sqrt(max(np.float64(following[i]) - UNDERFLOW, 0.0)) * unit if reliable else -1.0


@part
def _screen(pairs, sizes, quads, lengths, sums, least):
    """Lower bounds of the squared distances of all rows of a tile to all centers; keep the two smallest of each.

    One array for all that is kept, with fixed distances in it: LLVM then sees that a loop over it can use vectors.
    """
    bits = sums.view(np.int32)
    for i in range(WIDTH):
        least[i] = INFINITY
        least[i + WIDTH] = INFINITY
        least[i + 2 * WIDTH] = 0
    for pair in range(pairs.shape[0]):
        for i in range(WIDTH):
            sums[i] = sizes[2 * pair] + lengths[i]
            sums[i + WIDTH] = sizes[2 * pair + 1] + lengths[i]
        for g in range(quads.shape[0]):
            quad = quads[g]
            both = pairs[pair, g]
            for i in range(WIDTH):
                x = quad[i]
                y = quad[i + WIDTH]
                z = quad[i + 2 * WIDTH]
                w = quad[i + 3 * WIDTH]
                sums[i] += both[0] * x + both[1] * y + both[2] * z + both[3] * w
                sums[i + WIDTH] += both[4] * x + both[5] * y + both[6] * z + both[7] * w
        number = np.int32(2 * pair)
        for i in range(WIDTH):
            one = bits[i]
            other = bits[i + WIDTH]
            old = least[i]
            at = least[i + 2 * WIDTH]
            new = min(one, other)
            # Numbers grow, so the larger one is the later. "number if new < old else at" would become a masked store:
            # with 10 features, a comparison would take 0.9 ns instead of 0.55 on AMD processors.
            least[i + 2 * WIDTH] = max(at, np.int32(number + (other < one)) if new < old else np.int32(0))
            least[i + WIDTH] = min(min(least[i + WIDTH], max(one, other)), max(old, new))
            least[i] = min(old, new)


@part
def nearest_exactly(rows, row, centers, chosen):
    """The nearest of the chosen centers, its distance and that of the next, where bounds do not decide.

    A separate function: it is rarely called, and callers that contain it take longer.
    """
    never_inlined()
    smallest = following = np.inf
    best = 0
    for j in range(chosen.shape[0]):
        square = squared_distance(rows, row, centers, chosen[j])
        if square < smallest:
            following = smallest
            smallest, best = square, j
        elif square < following:
            following = square
    return best, np.sqrt(smallest), np.sqrt(following)


@kernel
def join_nearest(rows, members, starts, references, lists, centers, labels, nearest, second, start, stop):
    """Let the rows of groups start:stop join centers of their group's list that are nearer than their own.

    IN   rows (n, d), members (n,): rows by group, starts (n_groups + 1,): where groups begin in it,
         references (n_groups, d): a point near each, lists (n_groups, m): centers, centers (k, d)
    INOUT labels, nearest, second (n,): the nearest center known, its distance, and a lower bound of that of the next
    """
    d = centers.shape[1]
    pairs, sizes, quads, lengths, sums, least, bounds = screen_buffers(lists.shape[1], d)
    tile, distances = np.zeros((d, WIDTH)), np.empty(WIDTH)
    for group in range(start, stop):
        chosen, reference = lists[group], references[group]
        unit = load_centers(centers, chosen, reference, pairs, sizes)
        for first in range(starts[group], starts[group + 1], WIDTH):
            n = min(WIDTH, starts[group + 1] - first)
            load_rows(rows, members, first, n, reference, tile, distances)
            screen(tile, distances, unit, pairs, sizes, quads, lengths, sums, least, bounds)
            for i in range(n):
                row, at, following = members[first + i], least[2 * WIDTH + i], bounds[i]
                distance = np.sqrt(squared_distance(rows, row, centers, chosen[at]))
                if distance > following:
                    at, distance, following = nearest_exactly(rows, row, centers, chosen)
                if distance < nearest[row]:
                    second[row] = min(nearest[row], following)
                    labels[row], nearest[row] = chosen[at], distance
                elif distance < second[row]:
                    second[row] = distance
