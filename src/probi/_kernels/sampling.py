"""Samples of rows: distinct ones by mass for a tree, and the coreset, by importance and along the tree's order."""

import numpy as np

from probi._kernels._compile import kernel, part


@part
def cap(scores, size):
    """Which scores are certain to be chosen if ``size`` of them are chosen with probabilities proportional to scores.

    As ``probi.solver.problem.capped_probabilities``, without arrays.

    RETURN limit: scores of at least this are certain; how many these are; sum of the others, 0 if none is chosen
    """
    limit, n_certain, total = np.inf, 0, 0.0
    for i in range(scores.shape[0]):
        total += scores[i]
    while n_certain < size and total > 0.0:
        lower = total / (size - n_certain)
        n_above, rest = 0, 0.0
        for i in range(scores.shape[0]):
            above = scores[i] >= lower
            n_above += above
            rest += 0.0 if above else scores[i]
        if n_above <= n_certain:
            return limit, n_certain, total
        limit, n_certain, total = lower, n_above, rest
    return limit, n_certain, 0.0


@kernel
def draw_once(mass, size, uniforms, drawn, times):
    """Draw about ``size`` distinct rows by mass, in ascending order.

    IN   mass (n,); uniforms (size,) in [0, 1): one draw from each of equal parts of the mass
    OUT  drawn (size,): rows; times (size,): how many draws each stands for. Rows that are certain stand for their mass,
         but all of them together for no more than the others.
    RETURN number of rows drawn
    """
    limit, n_certain, total = cap(mass, size)
    n_draws = size - n_certain if total > 0.0 else 0
    heavy = 0.0
    for row in range(mass.shape[0]):
        heavy += mass[row] if mass[row] >= limit else 0.0
    per_mass = n_draws / total if n_draws > 0 else 0.0
    per_heavy_mass = per_mass * min(1.0, n_draws / max(heavy * per_mass, 1.0))
    passed, draw, n = 0.0, 0, 0
    for row in range(mass.shape[0]):
        if mass[row] >= limit:
            drawn[n], times[n] = row, max(1.0, mass[row] * per_heavy_mass)
            n += 1
            continue
        passed += mass[row] * per_mass
        first = draw
        while draw < n_draws and draw + uniforms[draw] < passed:
            draw += 1
        if draw > first:
            drawn[n], times[n] = row, 1.0
            n += 1
    return n


@kernel
def choose(order, leaves, cell_of, mass, masses, costs, size, offset, distances, scores, chosen, factors):
    """Choose ``size`` rows by importance, so that each cell keeps its mass.

    The importance of a row is a sum of three shares: of the total cost, of the mass of its cell and of the cost of its
    cell. Rows that would be chosen more than once are certain; of the others a systematic sample is drawn along the
    order. Certain rows stand for themselves, the picked ones for the rest of their cell; if none was picked, the
    certain ones share it.

    IN   order (n_used,): rows with mass, sorted by leaf; leaves, mass (n,), cell_of (n_leaves,); masses and costs
         (n_cells,), as distances (n,) from ``measure``; offset in [0, 1)
    INOUT distances: overwritten, as is scores (n,)
    OUT  chosen (size + 1,): the chosen rows, ascending; factors (size + 1,): what their weights are multiplied by
    RETURN how many are chosen
    """
    whole, n_cells = 0.0, masses.shape[0]
    cells = np.zeros((5, n_cells))
    by_mass, by_cost, certain, rest, picked = cells[0], cells[1], cells[2], cells[3], cells[4]
    for c in range(n_cells):
        whole += costs[c]
    for c in range(n_cells):
        by_mass[c] = 1.0 / (n_cells * masses[c])
        # A cell without cost (all rows at one point) has none to share.
        by_cost[c] = 1.0 / whole + 1.0 / (n_cells * costs[c]) if costs[c] > 0.0 else 0.0
    for row in range(mass.shape[0]):
        cell = np.uint64(cell_of[np.uint64(leaves[row])])
        scores[row] = mass[row] * (by_mass[cell] + by_cost[cell] * distances[row])
        distances[row] = 0.0
    limit, n_certain, total = cap(scores, size)
    if total > 0.0:
        systematic_sample(order, scores, limit, total, size - n_certain, offset, distances)
    n = 0
    for row in range(mass.shape[0]):
        cell, is_certain = np.uint64(cell_of[np.uint64(leaves[row])]), scores[row] >= limit
        # The rest is summed separately: as a difference it would vanish next to one huge mass.
        certain[cell] += mass[row] if is_certain else 0.0
        rest[cell] += 0.0 if is_certain else mass[row]
        picked[cell] += mass[row] * distances[row]
        chosen[n], factors[n] = row, distances[row]
        n += is_certain or distances[row] > 0.0
    for i in range(n):
        cell = np.uint64(cell_of[np.uint64(leaves[chosen[i]])])
        if factors[i] > 0.0:
            factors[i] *= rest[cell] / picked[cell]
        else:
            factors[i] = 1.0 if picked[cell] > 0.0 else 1.0 + rest[cell] / certain[cell]
    return n


@part
def systematic_sample(order, scores, limit, total, n_picks, offset, picks):
    """Systematic sampling: pick where the running sum of inclusion probabilities passes offset, offset + 1, ...

    IN   order (n_used,); scores (n,) below the limit (others are left out) with sum ``total``: probabilities times
         total / n_picks
    INOUT picks (n,): zeros, then reciprocal probabilities of exactly n_picks of them
    """
    step = total / n_picks
    passed, n_picked, following = 0.0, 0, offset * step
    for i in range(order.shape[0]):
        row = np.uint64(order[i])
        if scores[row] < limit:
            passed += scores[row]
            if passed > following and n_picked < n_picks:
                picks[row] = step / scores[row]
                n_picked += 1
                following = (offset + n_picked) * step
    i = 0
    while n_picked < n_picks and i < order.shape[0]:
        # Rounding may miss the last pick.
        row = np.uint64(order[i])
        if 0.0 < scores[row] < limit and picks[row] == 0.0:
            picks[row] = step / scores[row]
            n_picked += 1
        i += 1
