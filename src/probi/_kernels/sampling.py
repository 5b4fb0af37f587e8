"""Samples: rows by mass for a tree, a coreset by importance, realizations that stand for others; keyed uniforms."""

import numpy as np

from probi._kernels._compile import kernel, never_inlined, part

# A probability of 1, as an integer: sums of millions stay in range, and rows that are too unlikely to count stand for
# less than a pick in all.
UNIT = 2.0**36

# Reciprocals of smaller costs overflow.
LEAST_COST = 1e-290


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


@part
def first_above(cumulated, value):
    """First index at which cumulative sums exceed a value, or else at which they reach their maximum."""
    low, high = 0, cumulated.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        # The first above; of those that are equal to the maximum, the first.
        if cumulated[middle] > value or cumulated[middle] == cumulated[-1]:
            high = middle
        else:
            low = middle + 1
    return low


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
    if n_certain > 0:
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
def choose(leaves, cell_of, mass, masses, costs, distances, size, offset, scores, chosen, factors):
    """Choose ``size`` rows by importance, so that each cell keeps its mass.

    The importance of a row is a sum of three shares: of the total cost, of the mass of its cell and of the cost of its
    cell. Rows that would be chosen more than once are certain; of the others a systematic sample is drawn along the
    leaves. Certain rows stand for themselves, the picked ones for the rest of their cell; if none was picked, the
    certain ones share it.

    IN   leaves, mass, distances (n,), cell_of (n_leaves,), masses, costs (n_cells,): as from ``tree.place``;
         offset in [0, 1)
    OUT  chosen (size + 1,): the chosen rows, ascending; factors (size + 1,): what their weights are multiplied by
         scores (n,): overwritten
    RETURN how many are chosen
    """
    total_cost, n_cells = 0.0, masses.shape[0]
    cells = np.zeros((5, n_cells))
    by_mass, by_cost, certain, rest, picked = cells[0], cells[1], cells[2], cells[3], cells[4]
    for c in range(n_cells):
        total_cost += costs[c]
    for c in range(n_cells):
        by_mass[c] = 1.0 / (n_cells * masses[c])
        # A cell without cost (all rows at one point) has none to share.
        by_cost[c] = 1.0 / total_cost + 1.0 / (n_cells * costs[c]) if costs[c] > LEAST_COST else 0.0
    for row in range(mass.shape[0]):
        cell = np.uint64(cell_of[np.uint64(leaves[row])])
        scores[row] = mass[row] * (by_mass[cell] + by_cost[cell] * distances[row])
    limit, n_certain, total = cap(scores, size)
    n = _certain_and_picked(leaves, cell_of.shape[0], scores, limit, total, size - n_certain, offset, chosen, factors)
    if n_certain > 0:
        for row in range(mass.shape[0]):
            cell = np.uint64(cell_of[np.uint64(leaves[row])])
            # The rest is summed separately: as a difference it would vanish next to one huge mass.
            certain[cell] += mass[row] if scores[row] >= limit else 0.0
            rest[cell] += 0.0 if scores[row] >= limit else mass[row]
    else:
        for c in range(n_cells):  # as an assignment of arrays, it takes five seconds to compile
            rest[c] = masses[c]
    for i in range(n):
        picked[cell_of[leaves[chosen[i]]]] += mass[chosen[i]] * factors[i]
    for i in range(n):
        cell = cell_of[leaves[chosen[i]]]
        if factors[i] > 0.0:
            factors[i] *= rest[cell] / picked[cell]
        else:
            factors[i] = 1.0 if picked[cell] > 0.0 else 1.0 + rest[cell] / certain[cell]
    return n


@part
def _certain_and_picked(leaves, n_leaves, scores, limit, total, n_picks, offset, chosen, factors):
    """Rows that are certain, and a systematic sample of the others along the leaves.

    A row is picked where the running sum of inclusion probabilities passes offset, offset + 1, ... The sum runs along
    the leaves, and inside them along the rows. Rows are read in their own order, with a running sum for each leaf.
    Sums are of integers: a leaf ends exactly where the next one begins.

    IN   scores (n,): those of at least ``limit`` are certain; the others have the sum ``total``, and probabilities of
         score times n_picks / total
    OUT  chosen: rows, ascending; factors: reciprocal probabilities of n_picks of them, 0 for those that are certain
    RETURN number of rows
    """
    probability = n_picks / total if total > 0.0 else 0.0
    per_score = UNIT * probability
    sums, following = np.zeros(n_leaves + 1, np.int64), np.zeros(n_leaves, np.int64)
    for row in range(scores.shape[0]):
        leaf = np.uint64(leaves[row])
        sums[leaf + np.uint64(1)] += np.int64(scores[row] * per_score) if scores[row] < limit else 0
    for i in range(n_leaves):
        sums[i + 1] += sums[i]
    step = sums[n_leaves] // n_picks if n_picks > 0 else 0
    # What is left by the division comes first, so that exactly n_picks steps are passed.
    first = sums[n_leaves] - n_picks * step + np.int64(offset * step)
    for i in range(n_leaves):
        n_before = (sums[i] - first + step - 1) // step if step > 0 and sums[i] > first else 0
        following[i] = first + n_before * step if step > 0 else np.iinfo(np.int64).max
    n = 0
    for row in range(scores.shape[0]):
        leaf, score = np.uint64(leaves[row]), scores[row]
        is_certain = score >= limit
        sums[leaf] += 0 if is_certain else np.int64(score * per_score)
        is_picked = sums[leaf] > following[leaf]
        following[leaf] += step if is_picked else 0
        chosen[n], factors[n] = row, 1.0 / (probability * score) if is_picked else 0.0
        n += is_certain or is_picked
    return n


@part
def draw_pairs(order, masses, radii, n_groups, spread, total, uniforms, draw, held, rows, weights):
    """Draw at most two items from each of some groups of equal importance, which is mass times (radius + spread).

    Groups are cut along the order, through an item if necessary. Items join a group one by one, and whenever it holds
    three, one of them leaves (``_leave``): that is unbiased, and each group keeps its mass and its cost, which is mass
    times radius.

    For any center, the distance of an item to it differs from that of the middle by at most its radius. So a group's
    share of the expected distance differs from that of its mass at the middle by at most its cost, whose square bounds
    the variance. Costs sum to total * spread, and none is above twice that over ``n_groups``.

    IN   order (n,), masses, radii: of the items that it indexes; uniforms, from ``draw`` on; held (3, 3): workspace
    OUT  rows, weights (>= 2 n_groups,): items drawn, in order, and their masses
    RETURN their number, a bound of the variance of the expected distance to any center
    """
    never_inlined()  # called twice: saves the time to compile it again
    n, n_held, group, filled, cost, variance = 0, 0, 1, 0.0, 0.0, 0.0
    for j in range(order.shape[0]):
        mass, radius = np.float64(masses[order[j]]), radii[order[j]]
        while mass > 0.0:
            # Fill the group up to its end; the last one takes the rest.
            group_end = 2.0 * total * spread * group / n_groups
            fits, full = mass, False
            if group < n_groups and filled + mass * (radius + spread) > group_end:
                fits, full = min(mass, max(0.0, group_end - filled) / (radius + spread)), True
            filled += fits * (radius + spread)
            cost += fits * radius
            mass -= fits
            if fits > 0.0:
                n_held = _join(held, n_held, fits, radius, j)
            if n_held == 3:
                n_held = _leave(held, uniforms[draw])
                draw += 1
            if full:
                n = _emit(order, held, n_held, rows, weights, n)
                variance += cost * cost
                group, n_held, cost = group + 1, 0, 0.0
    return _emit(order, held, n_held, rows, weights, n), variance + cost * cost


@part
def _join(held, n, mass, radius, at):
    """Insert an item among up to two others, by its radius; return their number.

    INOUT held (3, 3): mass, radius and position in the order of each
    """
    slot = n
    while slot > 0 and held[slot - 1, 1] > radius:
        for column in range(3):
            held[slot, column] = held[slot - 1, column]
        slot -= 1
    held[slot, 0], held[slot, 1], held[slot, 2] = mass, radius, at
    return n + 1


@part
def _leave(held, uniform):
    """Remove one of three items, keeping the expected mass of each, and their total mass and cost.

    The one with the middle radius gives its mass to the two others, in the shares that keep the cost, or takes from
    them in the same shares until one has none left; with the probabilities that leave no bias. (The cube method of
    Deville and Tille, 2004, with two balancing variables.) Return the number left.
    """
    low, middle, high = held[0, 0], held[1, 0], held[2, 0]
    width = held[2, 1] - held[0, 1]
    share = (held[2, 1] - held[1, 1]) / width if width > 0.0 else 0.5
    low_first = low * (1.0 - share) < high * share
    step = low / share if low_first else high / (1.0 - share)
    if uniform * (middle + step) < step:
        held[0, 0] = low + share * middle
        held[1, 0], held[1, 1], held[1, 2] = high + (1.0 - share) * middle, held[2, 1], held[2, 2]
    elif low_first:
        held[0, 0], held[0, 1], held[0, 2] = middle + step, held[1, 1], held[1, 2]
        held[1, 0], held[1, 1], held[1, 2] = high - (1.0 - share) * step, held[2, 1], held[2, 2]
    else:
        held[0, 0], held[1, 0] = low - share * step, middle + step
    return 2


@part
def _emit(order, held, n_held, rows, weights, n):
    """Write the items of a group, in order; merge one that it shares with the group before. Return their number."""
    swapped = n_held == 2 and held[0, 2] > held[1, 2]
    for h in range(n_held):
        at = 1 - h if swapped else h
        row = order[np.int64(held[at, 2])]
        if n > 0 and rows[n - 1] == row:
            weights[n - 1] += held[at, 0]
        elif held[at, 0] > 0.0:  # not emptied together with another
            rows[n], weights[n] = row, held[at, 0]
            n += 1
    return n


@kernel
def keyed_uniforms(key, numbers, firsts, offsets, out, start, stop):
    """Random numbers in [0, 1) for each draw of each of numbers[start:stop] under a key: SplitMix64 of all three.

    IN   numbers (n,) uint64, firsts (n,): first draw of each; offsets (n + 1,): where its draws begin
    OUT  out (offsets[stop] - offsets[start],)
    """
    for i in range(start, stop):
        number = key ^ (numbers[i] * np.uint64(0x9E3779B97F4A7C15))
        for j in range(offsets[i + 1] - offsets[i]):
            x = number + np.uint64(firsts[i] + j + 1) * np.uint64(0xD1342543DE82EF95)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            x = x ^ (x >> np.uint64(31))
            out[offsets[i] - offsets[start] + j] = np.float64(x >> np.uint64(11)) * 2.0**-53
