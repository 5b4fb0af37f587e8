"""Lower bounds of the cost of a cluster, as a function of its center."""

import numpy as np

from probi._kernels._compile import kernel, part

# Products of features are summed in blocks of so many features: all of them would take too long for many features.
BLOCK = 64


@kernel
def cost_model(points, probabilities, offsets, weights, base, radius, start, stop):
    """Sums for lower bounds of what nodes start:stop cost with a center at distance ``radius`` from a base point z.

    For |y - z| = r, a = |x - z|, s = sqrt(a^2 + r^2) and t = (x - z)(y - z):
    |x - y| = sqrt(s^2 - 2 t) >= s - t / s - c t^2 with c = 2 / (s (s + |a - r|)^2), which is the best such c, because
    |t| <= a r and the bound is tight at t = a r. All three terms sum up over realizations: a number, a vector and a
    matrix.

    IN   weights (n,), base (d,) float64, radius > 0
    RETURN totals (4,): weight, cost at z, sum of s, sum of 1 / s; slope (d,); matrices (n_blocks, BLOCK, BLOCK), lower
         triangles, of the products of features within each block
    """
    d = base.shape[0]
    totals, slope = np.zeros(4), np.zeros(d)
    matrices = np.zeros((-(-d // BLOCK), BLOCK, BLOCK))
    x = np.empty(d)
    for node in range(start, stop):
        for r in range(offsets[node], offsets[node + 1]):
            weight = weights[node] * probabilities[r]
            if weight == 0.0:
                continue
            squared = 0.0
            for f in range(d):
                x[f] = np.float64(points[r, f]) - base[f]
                squared += x[f] * x[f]
            a = np.sqrt(squared)
            s = np.sqrt(squared + radius * radius)
            totals[0] += weight
            totals[1] += weight * a
            totals[2] += weight * s
            totals[3] += weight / s
            # In two factors, neither of which overflows.
            factor = np.sqrt(2.0 * weight / s) / (s + abs(a - radius))
            for f in range(d):
                slope[f] += weight / s * x[f]
                x[f] *= factor
            for b in range(matrices.shape[0]):
                _add_products(x[b * BLOCK : min(d, (b + 1) * BLOCK)], matrices[b])
    return totals, slope, matrices


@part
def _add_products(x, matrix):
    for f in range(x.shape[0]):
        row = matrix[f]
        for g in range(f + 1):
            row[g] += x[f] * x[g]


@kernel
def lower_bounds(medians, base, radius, totals, slope, matrices, out, start, stop):
    """Lower bounds of the cost of all nodes with the median of each of nodes start:stop as the center.

    Nearer to the base point than ``radius`` no bound is known. Beyond it, the cost is convex along the ray from there,
    so it grows at least as fast as inside the sphere. In several blocks, the root mean square of a sum is at most the
    sum of those of its parts.

    OUT  out (n,), start:stop overwritten
    """
    d = base.shape[0]
    y = np.empty(d)
    for i in range(start, stop):
        squared, rise = 0.0, 0.0
        for f in range(d):
            y[f] = np.float64(medians[i, f]) - base[f]
            squared += y[f] * y[f]
            rise += slope[f] * y[f]
        r = np.sqrt(squared)
        if r < radius:
            out[i] = totals[1] if r == 0.0 else -np.inf
            continue
        root = 0.0
        for b in range(matrices.shape[0]):
            root += np.sqrt(max(0.0, _quadratic_form(y[b * BLOCK : min(d, (b + 1) * BLOCK)], matrices[b])))
        out[i] = totals[1] + r / radius * (totals[2] - totals[1]) - rise - radius / r * root * root


@part
def _quadratic_form(x, matrix):
    total = 0.0
    for f in range(x.shape[0]):
        row, inner = matrix[f], 0.0
        for g in range(f):
            inner += row[g] * x[g]
        total += x[f] * (2.0 * inner + row[f] * x[f])
    return total
