"""The search for a 1-median, step by step, with a certified lower bound of the optimum.

The search is a state machine: ``advance`` judges a trial point by its pull and chooses the next one. Small nodes run it
in a loop inside a kernel; for a huge node the same function gets sums that several threads computed.
"""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.pull import (
    COST,
    FIRST_RELAXATION,
    LOOSE_RELAXATION,
    ON_POINT,
    RECIPROCAL,
    RELAXATION,
    dual_bound,
    weiszfeld_factor,
)

# Rows of the workspace: current point, its pull, trial point, its pull, center of gravity, direction; then the
# curvature pairs of L-BFGS.
HERE, PULL, TRIAL, TRIAL_PULL, GRAVITY, DIRECTION = 0, 1, 2, 3, 4, 5
MEMORY = 5
N_ROWS = 6 + 2 * MEMORY

# Kinds of trial points: the first, those of steps, and a realization that may be the median.
FIRST, WEISZFELD, QUASI_NEWTON, TEST = 0, 1, 2, 3

# State of a search. A record, because the search of a huge node returns to Python between its steps.
STATE = np.dtype(
    (
        np.record,
        [
            # Of the current point: cost, sum of p / distance, mass on it, pull that this mass does not balance.
            ("cost", np.float64), ("reciprocal", np.float64), ("on_point", np.float64), ("unbalanced", np.float64),
            # Row of the realization nearest to it, distance to that, and the last row that was tested.
            ("nearest", np.int64), ("nearest_distance", np.float64), ("tested", np.int64),
            # Best lower bound of the optimum, kind of the trial point, length of the quasi-Newton step.
            ("lower", np.float64), ("kind", np.int64), ("step", np.float64),
            # Curvature pairs and points accepted so far.
            ("n_pairs", np.int64), ("n_accepted", np.int64),
            # Largest probability, relative rounding error of a cost, rounding error of the center of gravity.
            ("largest_probability", np.float64), ("relative_error", np.float64), ("gravity_error", np.float64),
        ],
    )
)  # fmt: skip

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
UNDERFLOW = 1e-160

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
        state.cost = out[width + COST]
        state.lower = min(max(state.lower, lower), out[width + COST])
        if out[width + COST] - state.lower <= tol * state.lower:
            return True
        if out[width + ON_POINT] > 0.0 or step == FEW_STEPS:
            return False
        if step < FEW_STEPS - 1:
            relaxation = FIRST_RELAXATION if step == 0 else LOOSE_RELAXATION
            factor = weiszfeld_factor(out[width + RECIPROCAL], 0.0, 0.0, relaxation)
            for f in range(width):
                work[TRIAL, f] += factor * out[f]
        else:
            row, _ = nearest(terms[0], probabilities)
            for f in range(width):
                work[TRIAL, f] = local[row, f]
    return False


@part
def _lower_bound(out, total, work, state, width):
    """Lower bound of the optimum (``dual_bound``) from the pull ``out`` at the trial point, less the rounding error.

    RETURN also the unbalanced part of the pull
    """
    cost = out[width + COST]
    squared_strength, shift = 0.0, 0.0
    for f in range(width):
        squared_strength += out[f] * out[f]
        shift += out[f] * (work[GRAVITY, f] - work[TRIAL, f])
    strength = np.sqrt(squared_strength)
    share = max(0.0, strength - out[width + ON_POINT] * HELD) / strength if strength > 0.0 else 0.0
    shift *= share
    error = state.relative_error * (cost + abs(shift)) if share > 0.0 else 0.0
    lower = dual_bound(cost - shift - error, share * strength / total)
    return min(cost, lower) - state.gravity_error, share * strength


@part
def rounded_down(lower, n_realizations):
    """Lower bound of a spread, less the possible rounding error of so many terms and of squares that underflow."""
    return max(0.0, lower * (1.0 - EPS * (n_realizations // TERMS_OF_AN_ULP)) - UNDERFLOW)


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
    state.largest_probability = largest
    state.relative_error = EPS * (8.0 + (n + width) / 8.0)
    state.gravity_error = state.relative_error * total * np.sqrt(_dot(work, GRAVITY, GRAVITY, width))
    state.cost = np.inf
    state.unbalanced = np.inf
    state.lower = 0.0
    state.tested = -1
    state.kind = FIRST
    state.n_pairs = state.n_accepted = 0


@part
def begin_on_base(work, state, width):
    """Start the search at the base realization, relative to which the others have all their digits."""
    for f in range(width):
        work[TRIAL, f] = 0.0
    state.gravity_error = 0.0


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
    state.lower = max(state.lower, lower)

    # At the limit of float64 the cost no longer distinguishes two points, but the pull still does.
    flat = cost <= state.cost * (1.0 + FLAT) and unbalanced < state.unbalanced
    # Very close to a realization its share is so large that no step leads away; on it, Vardi and Zhang's does.
    accepted = cost < state.cost or flat or (state.kind == TEST and _on_nearest(total, state))
    if accepted:
        state.unbalanced = unbalanced
        _accept(out, row, distance, work, state, width)
    # A realization that balances the pull is optimal, though its bound is reduced by rounding.
    if state.cost - state.lower <= tol * state.lower or state.unbalanced == 0.0:
        return True
    if state.kind == FIRST and state.largest_probability >= HEAVY * total:
        for f in range(width):
            work[TRIAL, f] = 0.0  # the heaviest realization, to which the others are relative
        state.kind = TEST
        return False
    if accepted and _towards_nearest(local, total, work, state, width):
        state.kind = TEST
        return False
    if not accepted and state.kind == WEISZFELD:
        return True  # a step that must lower the cost does not: only rounding is left
    if not accepted and state.kind == QUASI_NEWTON:
        if state.step * np.sqrt(_dot(work, DIRECTION, DIRECTION, width)) * total > MIN_STEP * state.cost:
            state.step *= 0.25
            _set_trial(work, state, width)
            return False
        state.n_pairs = 0
    if state.on_point == 0.0 and state.n_accepted >= FIRST_QUASI_NEWTON and _quasi_newton(total, work, state, width):
        state.kind = QUASI_NEWTON
    else:
        _weiszfeld(work, state, width)
        state.kind = WEISZFELD
    return False


@part
def _on_nearest(total, state):
    return state.nearest_distance * total <= SAME_POINT * state.cost


@part
def _accept(out, row, distance, work, state, width):
    """Move to the trial point, and store the curvature pair of that step."""
    if state.kind != FIRST and state.on_point == 0.0 and out[width + ON_POINT] == 0.0:
        slot = 6 + 2 * (state.n_pairs % MEMORY)
        for f in range(width):
            work[slot, f] = work[TRIAL, f] - work[HERE, f]
            work[slot + 1, f] = work[PULL, f] - work[TRIAL_PULL, f]
        # The cost is convex: a negative curvature is rounding, and the pair it overwrote may have been in use.
        curved = _dot(work, slot, slot + 1, width) > VANISHING and _dot(work, slot + 1, slot + 1, width) > VANISHING
        state.n_pairs = state.n_pairs + 1 if curved else 0
    for f in range(width):
        work[HERE, f] = work[TRIAL, f]
        work[PULL, f] = work[TRIAL_PULL, f]
    state.cost = out[width + COST]
    state.reciprocal = out[width + RECIPROCAL]
    state.on_point = out[width + ON_POINT]
    state.nearest = row
    state.nearest_distance = distance
    state.n_accepted += 1


@part
def _towards_nearest(local, total, work, state, width):
    """Make the nearest realization the trial point if it may be the median and is untested.

    Close to a realization that is the optimum the bound at other points never becomes tight; at the realization
    itself it is exact. An optimum lies in the direction of the pull, and no farther than a mean distance or so.
    """
    row = state.nearest
    if state.on_point > 0.0 or state.nearest_distance * total > state.cost:
        return False
    if not _on_nearest(total, state):
        towards = 0.0
        for f in range(width):
            towards += work[PULL, f] * (local[row, f] - work[HERE, f])
        if state.tested == row or towards <= 0.0:
            return False
    for f in range(width):
        work[TRIAL, f] = local[row, f]
    state.tested = row
    return True


@part
def _weiszfeld(work, state, width):
    """Weiszfeld's step; on a realization Vardi and Zhang's, driven by the pull that its mass does not balance."""
    # On a realization the step does not minimize an upper bound, so it is not relaxed.
    relaxation = 1.0 if state.on_point > 0.0 else RELAXATION
    strength = np.sqrt(_dot(work, PULL, PULL, width))
    factor = weiszfeld_factor(state.reciprocal, state.on_point, strength, relaxation)
    for f in range(width):
        work[TRIAL, f] = work[HERE, f] + factor * work[PULL, f]


@part
def _quasi_newton(total, work, state, width):
    """L-BFGS step from the last pairs; False if there are none or it does not point downhill."""
    n_pairs = min(state.n_pairs, MEMORY)
    if n_pairs == 0:
        return False
    alpha = np.empty(MEMORY)
    for f in range(width):
        work[DIRECTION, f] = work[PULL, f]
    newest = 6 + 2 * ((state.n_pairs - 1) % MEMORY)
    for back in range(n_pairs):
        s = 6 + 2 * ((state.n_pairs - 1 - back) % MEMORY)
        alpha[back] = _dot(work, s, DIRECTION, width) / _dot(work, s, s + 1, width)
        for f in range(width):
            work[DIRECTION, f] -= alpha[back] * work[s + 1, f]
    scale = _dot(work, newest, newest + 1, width) / _dot(work, newest + 1, newest + 1, width)
    for f in range(width):
        work[DIRECTION, f] *= scale
    for back in range(n_pairs - 1, -1, -1):
        s = 6 + 2 * ((state.n_pairs - 1 - back) % MEMORY)
        beta = _dot(work, s + 1, DIRECTION, width) / _dot(work, s, s + 1, width)
        for f in range(width):
            work[DIRECTION, f] += (alpha[back] - beta) * work[s, f]
    length = np.sqrt(_dot(work, DIRECTION, DIRECTION, width))
    if not (length > 0.0 and _dot(work, DIRECTION, PULL, width) > 0.0):
        return False
    # The optimum is within twice the mean distance, even where a flat valley suggests a longer step.
    state.step = min(1.0, 2.0 * state.cost / total / length)
    _set_trial(work, state, width)
    return True


@part
def _set_trial(work, state, width):
    for f in range(width):
        work[TRIAL, f] = work[HERE, f] + state.step * work[DIRECTION, f]


# The same search, one step at a time, for a huge node whose realizations several threads share.
huge_begin = kernel(begin)
huge_begin_on_base = kernel(begin_on_base)
huge_advance = kernel(advance)
