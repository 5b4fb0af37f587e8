"""The search for a 1-median, step by step, with a certified lower bound of the optimum.

The search is a state machine: ``advance`` judges a trial point by its pull and chooses the next one. Small nodes run it
in a loop inside a kernel; for a huge node the same function gets sums that several threads computed.
"""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.pull import COST, ON_POINT, RECIPROCAL, RELAXATION

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

EPS = np.finfo(np.float64).eps

# The mass on a realization may balance the pull up to this factor: rounding of one vector.
HELD = 1.0 + 4.0 * EPS

# Sums of so many distances are off by about a unit in the last place.
TERMS_OF_AN_ULP = 16

# Squares of differences below 1e-154 underflow, which may lose distances up to this (in 4,000 features).
LOST = 1e-160

# Smaller products are never a divisor.
VANISHING = 1e-290

# A loose tolerance is nearly always reached by a few plain steps, which take a third of the time of the full search.
LOOSE, FEW_STEPS = 1e-3, 24


@part
def pull_at_trial(local, probabilities, out, work, terms, width):
    """Pull of all realizations at the trial point, as ``probi._kernels.pull.add_pull``, faster for small nodes.

    Sums over features for four realizations at once, and square roots and divisions for all: none waits for another.

    IN   local (>= n, >= width), probabilities (n,)
    OUT  out (>= width + 3,): sum of p (x - y) / |x - y|, sum of p / |x - y|, mass that lies on y, cost
         terms (2, >= n + 3): distances |x - y|, and p / |x - y|
    """
    n, y, distances, shares = probabilities.shape[0], work[TRIAL], terms[0], terms[1]
    last = n - 1
    for r in range(0, n, 4):
        a, b, c, e = local[r], local[min(r + 1, last)], local[min(r + 2, last)], local[min(r + 3, last)]
        of_a = of_b = of_c = of_e = 0.0
        for f in range(width):
            z = y[f]
            of_a += (a[f] - z) * (a[f] - z)
            of_b += (b[f] - z) * (b[f] - z)
            of_c += (c[f] - z) * (c[f] - z)
            of_e += (e[f] - z) * (e[f] - z)
        distances[r], distances[r + 1], distances[r + 2], distances[r + 3] = of_a, of_b, of_c, of_e
    cost, reciprocal, on_point = 0.0, 0.0, 0.0
    for r in range(n):
        distance, probability = np.sqrt(distances[r]), np.float64(probabilities[r])
        share = probability / distance if distance > 0.0 else 0.0
        on_point += 0.0 if distance > 0.0 else probability
        cost += probability * distance
        reciprocal += share
        distances[r], shares[r] = distance, share
    shares[n] = shares[n + 1] = shares[n + 2] = 0.0
    for f in range(width):
        out[f] = 0.0
    for r in range(0, n, 4):
        a, b, c, e = local[r], local[min(r + 1, last)], local[min(r + 2, last)], local[min(r + 3, last)]
        p, q, s, t = shares[r], shares[r + 1], shares[r + 2], shares[r + 3]
        for f in range(width):
            z = y[f]
            out[f] += (p * (a[f] - z) + q * (b[f] - z)) + (s * (c[f] - z) + t * (e[f] - z))
    out[width + RECIPROCAL], out[width + ON_POINT], out[width + COST] = reciprocal, on_point, cost


@part
def nearest(distances, probabilities):
    """Row of the nearest realization with a probability, and the distance to it."""
    row, smallest = 0, np.inf
    for r in range(probabilities.shape[0]):
        if distances[r] < smallest and probabilities[r] > 0.0:
            row, smallest = r, distances[r]
    return row, smallest


@part
def plain_steps(local, probabilities, total, tol, out, work, terms, state, width):
    """Take relaxed Weiszfeld steps, each of which lowers the cost; True when the certificate reaches the tolerance.

    Close to a realization that is the median the bound never becomes tight, so the last trial is the nearest one. Gives
    up on a realization that misses the tolerance, where the step is undefined.

    INOUT work: from the trial point to the last one; state: its cost, and the lower bound
    """
    for step in range(FEW_STEPS + 1):
        pull_at_trial(local, probabilities, out, work, terms, width)
        lower, _ = _lower_bound(out, total, work, state, width)
        state[COST_HERE] = out[width + COST]
        state[LOWER] = min(max(state[LOWER], lower), out[width + COST])
        if out[width + COST] - state[LOWER] <= tol * state[LOWER]:
            return True
        if out[width + ON_POINT] > 0.0 or step == FEW_STEPS:
            return False
        if step < FEW_STEPS - 1:
            factor = (FIRST_RELAXATION if step == 0 else LOOSE_RELAXATION) / out[width + RECIPROCAL]
            for f in range(width):
                work[TRIAL, f] += factor * out[f]
        else:
            row, _ = nearest(terms[0], probabilities)
            for f in range(width):
                work[TRIAL, f] = local[row, f]
    return False


@part
def _lower_bound(out, total, work, state, width):
    """Lower bound of the optimum from the pull ``out`` at the trial point, and the unbalanced part of the pull.

    It is the dual value of the unit vectors towards the realizations, shifted so that they balance and shrunk so that
    they stay in the unit ball: optimum >= (cost - <g, m - y>) / (1 + |g|), g the pull divided by the mass and m the
    center of gravity. Mass on y itself balances up to its own size. The possible rounding error is subtracted.
    """
    cost = out[width + COST]
    squared_strength, lean = 0.0, 0.0
    for f in range(width):
        squared_strength += out[f] * out[f]
        lean += out[f] * (work[GRAVITY, f] - work[TRIAL, f])
    strength = np.sqrt(squared_strength)
    share = max(0.0, strength - out[width + ON_POINT] * HELD) / strength if strength > 0.0 else 0.0
    lean *= share
    error = state[ROUNDING] * (cost + abs(lean)) if share > 0.0 else 0.0
    return min(cost, (cost - lean - error) / (1.0 + share * strength / total)) - state[BLUR], share * strength


@part
def claimed(lower, n_realizations):
    """Lower bound of a spread, less the possible rounding error of so many terms and of squares that underflow."""
    return max(0.0, lower * (1.0 - EPS * (n_realizations // TERMS_OF_AN_ULP)) - LOST)


@part
def begin(local, probabilities, total, largest, work, state, width):
    """Start the search at the center of gravity, which is a 2-approximation."""
    n, gravity = probabilities.shape[0], work[GRAVITY]
    for f in range(width):
        gravity[f] = 0.0
    for r in range(0, n - 3, 4):
        a, b, c, e = local[r], local[r + 1], local[r + 2], local[r + 3]
        p, q, s, t = probabilities[r], probabilities[r + 1], probabilities[r + 2], probabilities[r + 3]
        for f in range(width):
            gravity[f] += (p * a[f] + q * b[f]) + (s * c[f] + t * e[f])
    for r in range(n // 4 * 4, n):
        for f in range(width):
            gravity[f] += probabilities[r] * local[r, f]
    for f in range(width):
        gravity[f] /= total
        work[TRIAL, f] = gravity[f]
    state[LARGEST] = largest
    state[ROUNDING] = EPS * (8.0 + (n + width) / 8.0)
    state[BLUR] = state[ROUNDING] * total * np.sqrt(_dot(work, GRAVITY, GRAVITY, width))
    state[COST_HERE] = np.inf
    state[UNBALANCED_HERE] = np.inf
    state[LOWER] = 0.0
    state[TESTED] = -1.0
    state[KIND] = FIRST
    state[N_PAIRS] = state[N_ACCEPTED] = 0.0


@part
def begin_on_base(work, state, width):
    """Start the search at the base realization, relative to which the others have all their digits."""
    for f in range(width):
        work[TRIAL, f] = 0.0
    state[BLUR] = 0.0


@part
def _dot(work, i, j, width):
    total = 0.0
    for f in range(width):
        total += work[i, f] * work[j, f]
    return total


@part
def advance(local, total, tol, out, row, distance, work, state, width):
    """Judge the trial point by its pull ``out`` and choose the next; True when the search is over."""
    for f in range(width):
        work[TRIAL_PULL, f] = out[f]
    cost = out[width + COST]
    lower, unbalanced = _lower_bound(out, total, work, state, width)
    state[LOWER] = max(state[LOWER], lower)

    # At the limit of float64 the cost no longer distinguishes two points, but the pull still does.
    flat = cost <= state[COST_HERE] * (1.0 + FLAT) and unbalanced < state[UNBALANCED_HERE]
    # Very close to a realization its share is so large that no step leads away; on it, Vardi and Zhang's does.
    accepted = cost < state[COST_HERE] or flat or (state[KIND] == TEST and _on_nearest(total, state))
    if accepted:
        state[UNBALANCED_HERE] = unbalanced
        _accept(out, row, distance, work, state, width)
    # A realization that balances the pull is optimal, though its bound is reduced by rounding.
    if state[COST_HERE] - state[LOWER] <= tol * state[LOWER] or state[UNBALANCED_HERE] == 0.0:
        return True
    if state[KIND] == FIRST and state[LARGEST] >= HEAVY * total:
        for f in range(width):
            work[TRIAL, f] = 0.0  # the heaviest realization, to which the others are relative
        state[KIND] = TEST
        return False
    if accepted and _towards_nearest(local, total, work, state, width):
        state[KIND] = TEST
        return False
    if not accepted and state[KIND] == WEISZFELD:
        return True  # a step that must lower the cost does not: only rounding is left
    if not accepted and state[KIND] == QUASI_NEWTON:
        if state[STEP] * np.sqrt(_dot(work, DIRECTION, DIRECTION, width)) * total > MIN_STEP * state[COST_HERE]:
            state[STEP] *= 0.25
            _stride(work, state, width)
            return False
        state[N_PAIRS] = 0.0
    if state[ON_HERE] == 0.0 and state[N_ACCEPTED] >= FIRST_QUASI_NEWTON and _quasi_newton(total, work, state, width):
        state[KIND] = QUASI_NEWTON
    else:
        _weiszfeld(work, state, width)
        state[KIND] = WEISZFELD
    return False


@part
def _on_nearest(total, state):
    return state[NEAREST_DISTANCE] * total <= SAME_POINT * state[COST_HERE]


@part
def _accept(out, row, distance, work, state, width):
    """Move to the trial point, and store the curvature pair of that step."""
    if state[KIND] != FIRST and state[ON_HERE] == 0.0 and out[width + ON_POINT] == 0.0:
        slot = 6 + 2 * (int(state[N_PAIRS]) % MEMORY)
        for f in range(width):
            work[slot, f] = work[TRIAL, f] - work[HERE, f]
            work[slot + 1, f] = work[PULL, f] - work[TRIAL_PULL, f]
        # The cost is convex: a negative curvature is rounding, and the pair it overwrote may have been in use.
        curved = _dot(work, slot, slot + 1, width) > VANISHING and _dot(work, slot + 1, slot + 1, width) > VANISHING
        state[N_PAIRS] = state[N_PAIRS] + 1.0 if curved else 0.0
    for f in range(width):
        work[HERE, f] = work[TRIAL, f]
        work[PULL, f] = work[TRIAL_PULL, f]
    state[COST_HERE] = out[width + COST]
    state[RECIPROCAL_HERE] = out[width + RECIPROCAL]
    state[ON_HERE] = out[width + ON_POINT]
    state[NEAREST] = row
    state[NEAREST_DISTANCE] = distance
    state[N_ACCEPTED] += 1.0


@part
def _towards_nearest(local, total, work, state, width):
    """Make the nearest realization the trial point if it may be the median and is untested.

    Close to a realization that is the optimum the bound at other points never becomes tight; at the realization
    itself it is exact. An optimum lies in the direction of the pull, and no farther than a mean distance or so.
    """
    row = int(state[NEAREST])
    if state[ON_HERE] > 0.0 or state[NEAREST_DISTANCE] * total > state[COST_HERE]:
        return False
    if not _on_nearest(total, state):
        towards = 0.0
        for f in range(width):
            towards += work[PULL, f] * (local[row, f] - work[HERE, f])
        if state[TESTED] == row or towards <= 0.0:
            return False
    for f in range(width):
        work[TRIAL, f] = local[row, f]
    state[TESTED] = row
    return True


@part
def _weiszfeld(work, state, width):
    """Weiszfeld's step; on a realization Vardi and Zhang's, driven by the pull that its mass does not balance."""
    strength = np.sqrt(_dot(work, PULL, PULL, width))
    factor = RELAXATION / state[RECIPROCAL_HERE]
    if state[ON_HERE] > 0.0:
        factor = (1.0 - state[ON_HERE] / strength) / state[RECIPROCAL_HERE]
    for f in range(width):
        work[TRIAL, f] = work[HERE, f] + factor * work[PULL, f]


@part
def _quasi_newton(total, work, state, width):
    """L-BFGS step from the last pairs; False if there are none or it does not point downhill."""
    n_pairs = int(min(state[N_PAIRS], MEMORY))
    if n_pairs == 0:
        return False
    alpha = np.empty(MEMORY)
    for f in range(width):
        work[DIRECTION, f] = work[PULL, f]
    newest = 6 + 2 * ((int(state[N_PAIRS]) - 1) % MEMORY)
    for back in range(n_pairs):
        s = 6 + 2 * ((int(state[N_PAIRS]) - 1 - back) % MEMORY)
        alpha[back] = _dot(work, s, DIRECTION, width) / _dot(work, s, s + 1, width)
        for f in range(width):
            work[DIRECTION, f] -= alpha[back] * work[s + 1, f]
    scale = _dot(work, newest, newest + 1, width) / _dot(work, newest + 1, newest + 1, width)
    for f in range(width):
        work[DIRECTION, f] *= scale
    for back in range(n_pairs - 1, -1, -1):
        s = 6 + 2 * ((int(state[N_PAIRS]) - 1 - back) % MEMORY)
        beta = _dot(work, s + 1, DIRECTION, width) / _dot(work, s, s + 1, width)
        for f in range(width):
            work[DIRECTION, f] += (alpha[back] - beta) * work[s, f]
    length = np.sqrt(_dot(work, DIRECTION, DIRECTION, width))
    if not (length > 0.0 and _dot(work, DIRECTION, PULL, width) > 0.0):
        return False
    # The optimum is within twice the mean distance, even where a flat valley suggests a longer step.
    state[STEP] = min(1.0, 2.0 * state[COST_HERE] / total / length)
    _stride(work, state, width)
    return True


@part
def _stride(work, state, width):
    for f in range(width):
        work[TRIAL, f] = work[HERE, f] + state[STEP] * work[DIRECTION, f]


# The same search, one step at a time, for a huge node whose realizations several threads share.
huge_begin = kernel(begin)
huge_begin_on_base = kernel(begin_on_base)
huge_advance = kernel(advance)
