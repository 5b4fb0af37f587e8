"""1-medians of nodes, each with a certified lower bound of its optimum.

The search is a state machine: ``advance`` judges a trial point by its pull and chooses the next one. Small nodes run it
in a loop inside the kernel; for a huge node the same function gets sums that several threads computed.
"""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import expected_distance
from probi._kernels.pull import COST, N_SCALARS, ON_POINT, RECIPROCAL, RELAXATION, add_pull, heaviest

# Rows of the workspace: current point, its pull, trial point, its pull, center of gravity, direction; then the
# curvature pairs of L-BFGS.
HERE, PULL, TRIAL, TRIAL_PULL, GRAVITY, DIRECTION = 0, 1, 2, 3, 4, 5
MEMORY = 5
N_ROWS = 6 + 2 * MEMORY

# Slots of the state.
COST_HERE, RECIPROCAL_HERE, ON_HERE, NEAREST, NEAREST_DISTANCE, LOWER, TESTED, KIND, N_PAIRS, N_ACCEPTED = range(10)
UNBALANCED_HERE, STEP, LARGEST, ROUNDING, BLUR = range(10, 15)
N_STATE = 15
FIRST, WEISZFELD, QUASI_NEWTON, TEST = 0.0, 1.0, 2.0, 3.0

# A loose tolerance is reached before RELAXATION pays: there 1.2 at first and 1.5 then took 4.3 evaluations (1.7: 6.4),
# and fewer on five of six other kinds of nodes; ten Gaussian points in the plane took 7 % more.
FIRST_RELAXATION, LOOSE_RELAXATION = 1.2, 1.5

# With fewer accepted points the pairs say little about the curvature at the optimum.
FIRST_QUASI_NEWTON = 3

# A quasi-Newton step that raises the cost is shortened to a quarter, down to this share of the mean distance; then
# Weiszfeld's step replaces it.
MIN_STEP = 0.01

# A realization with this share of the mass is tried at once: with its equals it may be a majority, and between two
# heavy ones lies a valley so flat that steps along it barely advance.
HEAVY = 0.25

# Costs that differ by a smaller share are equal up to rounding.
FLAT = 1e-15

# A realization nearer than this share of the mean distance coincides with the current point.
SAME_POINT = 1e-13

# Residual of a collinear node, relative to its length: rounding of coordinates, not geometry.
COLLINEAR = 1e-12

EPS = np.finfo(np.float64).eps

# The mass on a realization may balance the pull up to this factor: rounding of one vector.
HELD = 1.0 + 4.0 * EPS

# Sums of so many distances are off by about a unit in the last place.
TERMS_OF_AN_ULP = 16

# Coordinates larger than the spread by this factor are rounded by more than 1e-8 of it.
FAR = 1e8

# Squares of differences below 1e-154 underflow, which may lose distances up to this (in 4,000 features).
LOST = 1e-160

# Smaller products are never a divisor.
VANISHING = 1e-290

# Rows are padded with zeros to a multiple of this, which changes no sum: 55 features are 48 in vector registers and 7
# one by one.
LANES = 8

# A loose tolerance is nearly always reached by a few plain steps, which take a third of the time of the full search.
LOOSE, FEW_STEPS = 1e-3, 24

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
    work, state, out, local = _workspace(d)
    exact = np.empty((1, d))
    for node in range(start, stop):
        first, last, total = offsets[node], offsets[node + 1], totals[node]
        left[node] = False
        if last - first >= skip_from:
            continue
        row = exact_median(points, probabilities, total, exact[0], first, last)
        if row >= 0 and is_majority(probabilities[row], total):
            spread = expected_distance(points, probabilities, offsets, node, exact, 0) / total
            for f in range(d):
                medians[node, f] = exact[0, f]
            spreads[node], lower[node] = spread, claimed(spread, last - first)
            continue
        left[node] = True
        if row < 0 and tol < LOOSE:
            continue
        if last - first > local.shape[0]:
            local = np.zeros((2 * (last - first), work.shape[1]))
        base = row if row >= 0 else heaviest(probabilities, first, last)
        make_local(points, base, local, first, last)
        node_probabilities = probabilities[first:last]
        begin(local, node_probabilities, total, work, state, last - first)
        if row >= 0:
            # The certificate comes from the search: nearly collinear or nearly even is not exact.
            begin_on_base(work, state)
        if _plain_steps(local, node_probabilities, total, tol, out, work, state, last - first):
            for f in range(d):
                medians[node, f] = points[base, f] + work[TRIAL, f]
            spreads[node] = state[COST_HERE] / total
            lower[node] = claimed(state[LOWER] / total, last - first)
            left[node] = False
            if _is_far(medians[node], spreads[node]):
                spreads[node] = expected_distance(points, probabilities, offsets, node, medians, node) / total
        if row >= 0 and not left[node]:
            # The middle of two even halves, unless rounding makes it worse.
            spread = expected_distance(points, probabilities, offsets, node, exact, 0) / total
            if spread <= spreads[node] * (1.0 + EVEN):
                for f in range(d):
                    medians[node, f] = exact[0, f]
                spreads[node] = spread
                lower[node] = min(lower[node], spread)


@kernel
def searched_medians(
    points, probabilities, offsets, totals, tol, max_evaluations, chosen, medians, spreads, lower, start, stop
):  # fmt: skip
    """1-median of the nodes chosen[start:stop], to a relative error of tol unless ``max_evaluations`` end the search.

    OUT  medians (n, d), spreads (n,), lower (n,): those of the chosen nodes, as in ``quick_medians``
    """
    work, state, out, local = _workspace(points.shape[1])
    for i in range(start, stop):
        node = chosen[i]
        first, last, total = offsets[node], offsets[node + 1], totals[node]
        if last - first > local.shape[0]:
            local = np.zeros((2 * (last - first), work.shape[1]))
        base = heaviest(probabilities, first, last)
        make_local(points, base, local, first, last)
        node_probabilities = probabilities[first:last]
        begin(local, node_probabilities, total, work, state, last - first)
        for _ in range(max_evaluations):
            out.fill(0.0)
            _, row, distance = add_pull(local, node_probabilities, 1.0, work, TRIAL, out, 0, last - first)
            if advance(local, total, tol, out, row, distance, work, state):
                break
        finish(points, base, work, state, medians[node], first)
        spreads[node] = state[COST_HERE] / total
        lower[node] = claimed(state[LOWER] / total, last - first)
        if _is_far(medians[node], spreads[node]):
            spreads[node] = expected_distance(points, probabilities, offsets, node, medians, node) / total


@part
def _is_far(median, spread):
    """Whether a median is so far from the origin that its rounding affects the spread."""
    largest = 0.0
    for f in range(median.shape[0]):
        largest = max(largest, abs(median[f]))
    return largest > FAR * spread


@part
def _workspace(d):
    """Rows and state of the search, sums of the pull, and room for the realizations of a small node."""
    width = d if d < LANES else -(-d // LANES) * LANES
    return np.zeros((N_ROWS, width)), np.empty(N_STATE), np.empty(width + N_SCALARS), np.zeros((16, width))


@part
def _plain_steps(local, probabilities, total, tol, out, work, state, n_realizations):
    """Take relaxed Weiszfeld steps, each of which lowers the cost; True when the certificate reaches the tolerance.

    Close to a realization that is the median the bound never becomes tight, so the last trial is the nearest one. Gives
    up on a realization that misses the tolerance, where the step is undefined.

    INOUT work: from the trial point to the last one; state: its cost, and the lower bound
    """
    d = work.shape[1]
    for step in range(FEW_STEPS + 1):
        out.fill(0.0)
        _, row, _ = add_pull(local, probabilities, 1.0, work, TRIAL, out, 0, n_realizations)
        lower, _ = _lower_bound(out, total, work, state)
        state[COST_HERE] = out[d + COST]
        state[LOWER] = min(max(state[LOWER], lower), out[d + COST])
        if out[d + COST] - state[LOWER] <= tol * state[LOWER]:
            return True
        if out[d + ON_POINT] > 0.0 or step == FEW_STEPS:
            return False
        factor = (FIRST_RELAXATION if step == 0 else LOOSE_RELAXATION) / out[d + RECIPROCAL]
        for f in range(d):
            work[TRIAL, f] = local[row, f] if step == FEW_STEPS - 1 else work[TRIAL, f] + factor * out[f]
    return False


@part
def _lower_bound(out, total, work, state):
    """Lower bound of the optimum from the pull ``out`` at the trial point, and the unbalanced part of the pull.

    It is the dual value of the unit vectors towards the realizations, shifted so that they balance and shrunk so that
    they stay in the unit ball: optimum >= (cost - <g, m - y>) / (1 + |g|), g the pull divided by the mass and m the
    center of gravity. Mass on y itself balances up to its own size. The possible rounding error is subtracted.
    """
    d = work.shape[1]
    cost = out[d + COST]
    squared_strength, lean = 0.0, 0.0
    for f in range(d):
        squared_strength += out[f] * out[f]
        lean += out[f] * (work[GRAVITY, f] - work[TRIAL, f])
    strength = np.sqrt(squared_strength)
    share = max(0.0, strength - out[d + ON_POINT] * HELD) / strength if strength > 0.0 else 0.0
    lean *= share
    error = state[ROUNDING] * (cost + abs(lean)) if share > 0.0 else 0.0
    return min(cost, (cost - lean - error) / (1.0 + share * strength / total)) - state[BLUR], share * strength


@part
def claimed(lower, n_realizations):
    """Lower bound of a spread, less the possible rounding error of so many terms and of squares that underflow."""
    return max(0.0, lower * (1.0 - EPS * (n_realizations // TERMS_OF_AN_ULP)) - LOST)


@part
def make_local(points, base, local, first, last):
    """Realizations first:last relative to the one in row ``base``, as float64.

    A shift of the data leaves these numbers unchanged, so the search takes the same path to the same point.
    """
    for r in range(first, last):
        for f in range(points.shape[1]):
            local[r - first, f] = np.float64(points[r, f]) - np.float64(points[base, f])


@part
def finish(points, base, work, state, median, first):
    """Write the median in the coordinates of the points; a realization is copied to the bit."""
    nearest = first + int(state[NEAREST])
    for f in range(points.shape[1]):
        median[f] = points[nearest, f] if state[ON_HERE] > 0.0 else points[base, f] + work[HERE, f]


@part
def begin(local, probabilities, total, work, state, n_realizations):
    """Start the search at the center of gravity, which is a 2-approximation."""
    for f in range(local.shape[1]):
        work[GRAVITY, f] = 0.0
    state[LARGEST] = 0.0
    for r in range(n_realizations):
        state[LARGEST] = max(state[LARGEST], probabilities[r])
        share = probabilities[r] / total
        for f in range(local.shape[1]):
            work[GRAVITY, f] += share * local[r, f]
    for f in range(local.shape[1]):
        work[TRIAL, f] = work[GRAVITY, f]
    state[ROUNDING] = EPS * (8.0 + (n_realizations + local.shape[1]) / 8.0)
    state[BLUR] = state[ROUNDING] * total * np.sqrt(_dot(work, GRAVITY, GRAVITY))
    state[COST_HERE] = np.inf
    state[UNBALANCED_HERE] = np.inf
    state[LOWER] = 0.0
    state[TESTED] = -1.0
    state[KIND] = FIRST
    state[N_PAIRS] = state[N_ACCEPTED] = 0.0


@part
def begin_on_base(work, state):
    """Start the search at the base realization, relative to which the others have all their digits."""
    for f in range(work.shape[1]):
        work[TRIAL, f] = 0.0
    state[BLUR] = 0.0


@part
def _dot(work, i, j):
    total = 0.0
    for f in range(work.shape[1]):
        total += work[i, f] * work[j, f]
    return total


@part
def advance(local, total, tol, out, row, distance, work, state):
    """Judge the trial point by its pull ``out`` and choose the next; True when the search is over."""
    d = work.shape[1]
    for f in range(d):
        work[TRIAL_PULL, f] = out[f]
    cost = out[d + COST]
    lower, unbalanced = _lower_bound(out, total, work, state)
    state[LOWER] = max(state[LOWER], lower)

    # At the limit of float64 the cost no longer distinguishes two points, but the pull still does.
    flat = cost <= state[COST_HERE] * (1.0 + FLAT) and unbalanced < state[UNBALANCED_HERE]
    # Very close to a realization its share is so large that no step leads away; on it, Vardi and Zhang's does.
    accepted = cost < state[COST_HERE] or flat or (state[KIND] == TEST and _on_nearest(total, state))
    if accepted:
        state[UNBALANCED_HERE] = unbalanced
        _accept(out, row, distance, work, state)
    # A realization that balances the pull is optimal, though its bound is reduced by rounding.
    if state[COST_HERE] - state[LOWER] <= tol * state[LOWER] or state[UNBALANCED_HERE] == 0.0:
        return True
    if state[KIND] == FIRST and state[LARGEST] >= HEAVY * total:
        for f in range(d):
            work[TRIAL, f] = 0.0  # the heaviest realization, to which the others are relative
        state[KIND] = TEST
        return False
    if accepted and _towards_nearest(local, total, work, state):
        state[KIND] = TEST
        return False
    if not accepted and state[KIND] == WEISZFELD:
        return True  # a step that must lower the cost does not: only rounding is left
    if not accepted and state[KIND] == QUASI_NEWTON:
        if state[STEP] * np.sqrt(_dot(work, DIRECTION, DIRECTION)) * total > MIN_STEP * state[COST_HERE]:
            state[STEP] *= 0.25
            _stride(work, state)
            return False
        state[N_PAIRS] = 0.0
    if state[ON_HERE] == 0.0 and state[N_ACCEPTED] >= FIRST_QUASI_NEWTON and _quasi_newton(total, work, state):
        state[KIND] = QUASI_NEWTON
    else:
        _weiszfeld(work, state)
        state[KIND] = WEISZFELD
    return False


@part
def _on_nearest(total, state):
    return state[NEAREST_DISTANCE] * total <= SAME_POINT * state[COST_HERE]


@part
def _accept(out, row, distance, work, state):
    """Move to the trial point, and store the curvature pair of that step."""
    d = work.shape[1]
    if state[KIND] != FIRST and state[ON_HERE] == 0.0 and out[d + ON_POINT] == 0.0:
        slot = 6 + 2 * (int(state[N_PAIRS]) % MEMORY)
        for f in range(d):
            work[slot, f] = work[TRIAL, f] - work[HERE, f]
            work[slot + 1, f] = work[PULL, f] - work[TRIAL_PULL, f]
        # The cost is convex: a negative curvature is rounding, and the pair it overwrote may have been in use.
        curved = _dot(work, slot, slot + 1) > VANISHING and _dot(work, slot + 1, slot + 1) > VANISHING
        state[N_PAIRS] = state[N_PAIRS] + 1.0 if curved else 0.0
    for f in range(d):
        work[HERE, f] = work[TRIAL, f]
        work[PULL, f] = work[TRIAL_PULL, f]
    state[COST_HERE] = out[d + COST]
    state[RECIPROCAL_HERE] = out[d + RECIPROCAL]
    state[ON_HERE] = out[d + ON_POINT]
    state[NEAREST] = row
    state[NEAREST_DISTANCE] = distance
    state[N_ACCEPTED] += 1.0


@part
def _towards_nearest(local, total, work, state):
    """Make the nearest realization the trial point if it may be the median and is untested.

    Close to a realization that is the optimum the bound at other points never becomes tight; at the realization
    itself it is exact. An optimum lies in the direction of the pull, and no farther than a mean distance or so.
    """
    row = int(state[NEAREST])
    if state[ON_HERE] > 0.0 or state[NEAREST_DISTANCE] * total > state[COST_HERE]:
        return False
    if not _on_nearest(total, state):
        towards = 0.0
        for f in range(work.shape[1]):
            towards += work[PULL, f] * (local[row, f] - work[HERE, f])
        if state[TESTED] == row or towards <= 0.0:
            return False
    for f in range(work.shape[1]):
        work[TRIAL, f] = local[row, f]
    state[TESTED] = row
    return True


@part
def _weiszfeld(work, state):
    """Weiszfeld's step; on a realization Vardi and Zhang's, driven by the pull that its mass does not balance."""
    strength = np.sqrt(_dot(work, PULL, PULL))
    factor = RELAXATION / state[RECIPROCAL_HERE]
    if state[ON_HERE] > 0.0:
        factor = (1.0 - state[ON_HERE] / strength) / state[RECIPROCAL_HERE]
    for f in range(work.shape[1]):
        work[TRIAL, f] = work[HERE, f] + factor * work[PULL, f]


@part
def _quasi_newton(total, work, state):
    """L-BFGS step from the last pairs; False if there are none or it does not point downhill."""
    n_pairs = int(min(state[N_PAIRS], MEMORY))
    if n_pairs == 0:
        return False
    d = work.shape[1]
    alpha = np.empty(MEMORY)
    for f in range(d):
        work[DIRECTION, f] = work[PULL, f]
    newest = 6 + 2 * ((int(state[N_PAIRS]) - 1) % MEMORY)
    for back in range(n_pairs):
        s = 6 + 2 * ((int(state[N_PAIRS]) - 1 - back) % MEMORY)
        alpha[back] = _dot(work, s, DIRECTION) / _dot(work, s, s + 1)
        for f in range(d):
            work[DIRECTION, f] -= alpha[back] * work[s + 1, f]
    scale = _dot(work, newest, newest + 1) / _dot(work, newest + 1, newest + 1)
    for f in range(d):
        work[DIRECTION, f] *= scale
    for back in range(n_pairs - 1, -1, -1):
        s = 6 + 2 * ((int(state[N_PAIRS]) - 1 - back) % MEMORY)
        beta = _dot(work, s + 1, DIRECTION) / _dot(work, s, s + 1)
        for f in range(d):
            work[DIRECTION, f] += (alpha[back] - beta) * work[s, f]
    length = np.sqrt(_dot(work, DIRECTION, DIRECTION))
    if not (length > 0.0 and _dot(work, DIRECTION, PULL) > 0.0):
        return False
    # The optimum is within twice the mean distance, even where a flat valley suggests a longer step.
    state[STEP] = min(1.0, 2.0 * state[COST_HERE] / total / length)
    _stride(work, state)
    return True


@part
def _stride(work, state):
    for f in range(work.shape[1]):
        work[TRIAL, f] = work[HERE, f] + state[STEP] * work[DIRECTION, f]


@part
def exact_median(points, probabilities, total, out, start, stop):
    """Median of realizations start:stop where it has a formula: one point, a majority, all on one line.

    OUT  out (d,), if there is one
    RETURN row of a realization that is also a median up to rounding; -1 if there is no formula
    """
    d = points.shape[1]
    for r in range(start, stop):
        if is_majority(probabilities[r], total):
            for f in range(d):
                out[f] = points[r, f]
            return r
    along = np.empty(stop - start)
    if not _coordinates_on_line(points, probabilities, along, start, stop):
        return -1
    order = np.empty(stop - start, np.int64)
    _sort(along, order)
    below = 0.0
    for i in range(stop - start):
        r = start + order[i]
        below += probabilities[r]
        if 2.0 * below >= total * (1.0 - EVEN):
            other = r
            if 2.0 * below <= total * (1.0 + EVEN):
                # Even masses: every point up to the next realization is a median; take the middle.
                j = i + 1
                while j < stop - start and probabilities[start + order[j]] == 0.0:
                    j += 1
                if j < stop - start:
                    other = start + order[j]
            for f in range(d):
                out[f] = 0.5 * points[r, f] + 0.5 * points[other, f]
            return r
    return -1


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
def _coordinates_on_line(points, probabilities, along, start, stop):
    """Coordinate of each realization on their common line; False if there is none.

    The line goes through the heaviest realization and the first that differs from it; most nodes fail at the next one.
    """
    d = points.shape[1]
    base = heaviest(probabilities, start, stop)
    direction = np.zeros(d)
    length = 0.0
    for r in range(start, stop):
        along[r - start] = 0.0
        if probabilities[r] == 0.0:
            continue
        coordinate = 0.0
        for f in range(d):
            coordinate += direction[f] * (np.float64(points[r, f]) - np.float64(points[base, f]))
        squared_residual = 0.0
        squared_length = 0.0
        for f in range(d):
            difference = np.float64(points[r, f]) - np.float64(points[base, f])
            squared_length += difference * difference
            squared_residual += (difference - coordinate * direction[f]) ** 2
        if length == 0.0 and squared_length > 0.0:
            length = coordinate = np.sqrt(squared_length)
            for f in range(d):
                direction[f] = (np.float64(points[r, f]) - np.float64(points[base, f])) / length
        elif squared_residual > COLLINEAR * COLLINEAR * squared_length:
            return False
        along[r - start] = coordinate
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


# The same search, one step at a time, for a huge node whose realizations several threads share.
huge_exact_median = kernel(exact_median)
huge_begin = kernel(begin)
huge_begin_on_base = kernel(begin_on_base)
huge_advance = kernel(advance)
