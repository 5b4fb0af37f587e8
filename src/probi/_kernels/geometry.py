"""Distances: the loops that all other kernels call."""

import numpy as np

from probi._kernels._compile import kernel, never_inlined, part


@part
def squared_distance(a, i, b, j):
    """Squared Euclidean distance of row i of a and row j of b, over the columns of b."""
    total = 0.0
    for f in range(b.shape[1]):
        difference = np.float64(a[i, f]) - np.float64(b[j, f])
        total += difference * difference
    return total


@part
def expected_distance(points, probabilities, offsets, node, centers, c):
    """Expected distance of one node to one center, bit-identical in all kernels; absence adds nothing."""
    never_inlined()
    total = 0.0
    for r in range(offsets[node], offsets[node + 1]):
        # Not squared: the k-median cost is linear in distance, and an expectation of squares is another problem.
        total += probabilities[r] * np.sqrt(squared_distance(points, r, centers, c))
    return total


# So many centers, or fewer features, do not fill vector registers: the plain order of loops is faster. With eight
# centers, the default of the estimators, it takes two thirds of the time for 55 features and a quarter for 768.
FEW = 8


@part
def squared_distances_of_four(rows, r0, r1, r2, r3, centers, columns, out):
    """Squared distances of four rows to every center.

    With many centers, features outside and centers inside: vectors run over the centers, whatever the dimension, and
    each loaded value serves four rows. Measured 1.3 to 3 times faster than one pair at a time from 10 centers on. Its
    bits differ from those of ``squared_distance``, so it serves bounds and the choice of candidates, never a reported
    number.

    IN   rows (n, >= d), r0..r3 row numbers (may repeat), centers (k, d), columns (d, k): the same, transposed
    OUT  out (4, k) float64
    """
    k = centers.shape[0]
    if k <= FEW:
        for c in range(k):
            out[0, c] = squared_distance(rows, r0, centers, c)
            out[1, c] = squared_distance(rows, r1, centers, c)
            out[2, c] = squared_distance(rows, r2, centers, c)
            out[3, c] = squared_distance(rows, r3, centers, c)
        return
    out0, out1, out2, out3 = out[0], out[1], out[2], out[3]
    for c in range(k):
        out0[c] = 0.0
        out1[c] = 0.0
        out2[c] = 0.0
        out3[c] = 0.0
    for f in range(centers.shape[1]):
        x0 = np.float64(rows[r0, f])
        x1 = np.float64(rows[r1, f])
        x2 = np.float64(rows[r2, f])
        x3 = np.float64(rows[r3, f])
        for c in range(k):
            center = columns[f, c]
            d0 = x0 - center
            d1 = x1 - center
            d2 = x2 - center
            d3 = x3 - center
            out0[c] += d0 * d0
            out1[c] += d1 * d1
            out2[c] += d2 * d2
            out3[c] += d3 * d3


@part
def two_smallest(values):
    """Index of the smallest of some numbers, none negative, the number, and the next one (infinite if there is none).

    Floats that are not negative are in the order of their bits. Minima of integers run in vector registers, those of
    floats do not, because of NaN. The first of equal numbers is taken. ``values`` is overwritten.
    """
    bits, infinity = values.view(np.int64), np.int64(0x7FF0000000000000)
    least = infinity
    for i in range(bits.shape[0]):
        least = min(least, bits[i])
    at = 0
    while bits[at] != least:
        at += 1
    smallest = values[at]
    bits[at] = infinity
    least = infinity
    for i in range(bits.shape[0]):
        least = min(least, bits[i])
    bits[at] = least
    return at, smallest, values[at]


@kernel
def expected_distances(points, probabilities, offsets, centers, out, start, stop):
    """Expected distance of nodes start:stop to every center.

    IN   points (n_realizations, d), probabilities (n_realizations,), offsets (n_nodes + 1,), centers (k, d)
    OUT  out (n_nodes, k), rows start:stop overwritten
    """
    for node in range(start, stop):
        for c in range(centers.shape[0]):
            out[node, c] = expected_distance(points, probabilities, offsets, node, centers, c)


@kernel
def distances_of_pairs(points, probabilities, offsets, centers, out, start, stop):
    """Expected distance of nodes start:stop, each to the center with the same index.

    OUT  out (n_nodes,), start:stop overwritten
    """
    for node in range(start, stop):
        out[node] = expected_distance(points, probabilities, offsets, node, centers, node)


@kernel
def distances_to_locations(points, locations, out, start, stop):
    """Distances of points start:stop to location 0, to 1, to the nearer of 1 and 2, to the nearest of 1 to 3, ...

    IN   points (n, d), locations (n_locations, d) float64
    OUT  out (n_locations, n), columns start:stop overwritten
    """
    for i in range(start, stop):
        nearest = np.inf
        for p in range(locations.shape[0]):
            squared = squared_distance(points, i, locations, p)
            if p > 0:
                nearest = min(nearest, squared)
                squared = nearest
            out[p, i] = np.sqrt(squared)


# Points whose distances are summed at once: enough for vector registers, few enough for the cache.
BLOCK = 256


@kernel
def sums_over_locations(points, mass, locations, start, stop):
    """Sums and maxima over points start:stop, for the distances that ``distances_to_locations`` returns.

    IN   points (n, d), mass (n,), locations (4, d) float64
    RETURN (2, 5): sums of mass and of mass times each distance; maxima of mass and of each squared distance
    """
    out, squares = np.zeros((2, 5)), np.empty((4, BLOCK))
    for first in range(start, stop, BLOCK):
        n = min(BLOCK, stop - first)
        _squares_of_block(points, first, n, locations, squares)
        for i in range(n):
            out[0, 0] += mass[first + i]
            out[1, 0] = max(out[1, 0], mass[first + i])
        for p in range(4):
            total, most = 0.0, out[1, 1 + p]
            for i in range(n):
                total += mass[first + i] * np.sqrt(squares[p, i])
            for i in range(n):
                most = max(most, squares[p, i])
            out[0, 1 + p] += total
            out[1, 1 + p] = most
    return out


@part
def _squares_of_block(points, first, n, locations, out):
    """Squared distances (4, n) of points to location 0, 1, the nearer of 1 and 2, the nearest of 1 to 3."""
    for i in range(n):
        row = np.uint64(first + i)
        if points.shape[1] < FEW:
            # Features do not fill vector registers: all locations at once took 9 ns per point, not 15.
            a = b = c = e = 0.0
            for f in range(points.shape[1]):
                x = np.float64(points[row, f])
                a += (x - locations[0, f]) * (x - locations[0, f])
                b += (x - locations[1, f]) * (x - locations[1, f])
                c += (x - locations[2, f]) * (x - locations[2, f])
                e += (x - locations[3, f]) * (x - locations[3, f])
            out[0, i], out[1, i], out[2, i], out[3, i] = a, b, c, e
        else:
            for p in range(4):
                out[p, i] = squared_distance(points, row, locations, p)
        out[2, i] = min(out[1, i], out[2, i])
        out[3, i] = min(out[2, i], out[3, i])
