"""Nearest expected center of each node, exact, with as few exact expected distances as the bounds allow."""

import numpy as np

from probi._kernels._compile import kernel, part
from probi._kernels.geometry import (
    FEW,
    expected_distance,
    squared_distance,
    squared_distances_of_four,
    two_smallest,
)


@part
def others_moved(moves):
    """Largest move, its center, and the largest of the others."""
    largest, at, second = 0.0, 0, 0.0
    for c in range(moves.shape[0]):
        if moves[c] > largest:
            second = largest
            largest = moves[c]
            at = c
        elif moves[c] > second:
            second = moves[c]
    return largest, at, second


@kernel
def half_gaps(centers, out, start, stop):
    """Half the distance of centers start:stop to the nearest other one, infinite for a single one; OUT out (k,)."""
    for c in range(start, stop):
        smallest = np.inf
        for other in range(centers.shape[0]):
            if other != c:
                smallest = min(smallest, squared_distance(centers, c, centers, other))
        out[c] = 0.5 * np.sqrt(smallest)


@kernel
def reassign(
    points, probabilities, offsets, totals, gravity, variances, centers, columns, halves, moves, relative, slack,
    exact, labels, nearest, other, start, stop,
):  # fmt: skip
    """Assign nodes start:stop to their nearest expected center; ties go to the lowest index.

    Three bounds save work. D_i is 1-Lipschitz in the center, so a node whose own center is still closer than the lower
    bound of all others keeps its label; so does one that is nearer to its center than half the distance from there to
    any other. For the rest there is the sandwich |m - c| <= D(c) <= sqrt(|m - c|^2 + V), m the center of gravity: only
    centers whose lower end is below the best upper end are computed exactly.

    IN   totals (n,) total probabilities, gravity (n, >= d), variances (n,), columns (d, k) = centers transposed,
         halves (k,) half the distance of each center to the nearest other,
         moves (k,) how far each moved since the last call,
         relative and slack: margins that cover rounding,
         exact: whether ``nearest`` must be exact, not just an upper bound
    INOUT labels (n,), nearest (n,) upper bound of the distance to the own center, other (n,) lower bound of the
         distance to any other (-inf: unknown, check all)
    RETURN the number of exact expected distances
    """
    k = centers.shape[0]
    largest, largest_at, second_largest = others_moved(moves)
    todo = np.empty(stop - start, np.int64)
    n_todo = 0
    evaluations = 0
    for node in range(start, stop):
        own = labels[node]
        nearest[node] += moves[own]
        rest = other[node] - second_largest
        other[node] -= second_largest if own == largest_at else largest
        if rest == -np.inf:
            todo[n_todo] = node
            n_todo += 1
            continue
        safe = max(other[node], halves[own])
        kept = nearest[node] * (1.0 + relative) + slack < safe
        # One exact distance may save k bounds, and for a node of few realizations it is cheaper.
        if exact or (not kept and 2 * (offsets[node + 1] - offsets[node]) <= k):
            nearest[node] = expected_distance(points, probabilities, offsets, node, centers, own) / totals[node]
            evaluations += 1
            kept = nearest[node] * (1.0 + relative) + slack < safe
        if not kept and own != largest_at and nearest[node] * (1.0 + relative) + slack < rest:
            # Often one center moves far, as after a swap, and the others little: check it separately.
            mover = np.sqrt(squared_distance(gravity, node, centers, largest_at)) * (1.0 - relative) - slack
            if nearest[node] * (1.0 + relative) + slack < mover:
                other[node] = min(rest, mover)
                continue
        if kept:
            continue
        todo[n_todo] = node
        n_todo += 1

    squared, of_four = np.empty((4, k)), np.empty((4, k))
    for first in range(0, n_todo, 4):
        last = n_todo - 1
        # A tile past the end repeats the last node: every node takes the same path through the same code.
        squared_distances_of_four(
            gravity, todo[first], todo[min(first + 1, last)], todo[min(first + 2, last)], todo[min(first + 3, last)],
            centers, columns, squared,
        )  # fmt: skip
        for t in range(min(4, n_todo - first)):
            node = todo[first + t]
            evaluations += _settle(
                points, probabilities, offsets, totals, variances, centers, columns, relative, slack, exact,
                squared[t], of_four, labels, nearest, other, node,
            )  # fmt: skip
    return evaluations


@part
def _settle(
    points, probabilities, offsets, totals, variances, centers, columns, relative, slack, exact, squared, of_four,
    labels, nearest, other, node,
):  # fmt: skip
    """Find the label of one node from the squared distances of its center of gravity to all centers."""
    k = centers.shape[0]
    best, smallest, runner_up = two_smallest(squared)
    squared[best] = smallest
    upper = np.sqrt(smallest + variances[node]) * (1.0 + relative) + slack
    reach = (upper + slack) / (1.0 - relative)
    squared_reach = reach * reach
    if runner_up > squared_reach:
        labels[node], other[node] = best, np.sqrt(runner_up) * (1.0 - relative) - slack
        nearest[node] = upper
        if exact:
            nearest[node] = expected_distance(points, probabilities, offsets, node, centers, best) / totals[node]
        return int(exact)

    n_rivals = 0
    for c in range(k):
        n_rivals += squared[c] <= squared_reach
    if 2 * n_rivals > k >= FEW:
        # Nodes that are wide compared to the distances of centers: approximate distances to all centers at once take
        # half to a quarter of the time of exact ones, and leave one or two of these.
        _square_expected_distances(points, probabilities, offsets, totals, node, centers, columns, of_four, squared)
        best, smallest, _ = two_smallest(squared)
        squared[best] = smallest
        reach = (np.sqrt(smallest) * (1.0 + relative) + 2.0 * slack) / (1.0 - relative)
        squared_reach = reach * reach

    runner_up = np.inf
    for c in range(k):
        if squared[c] > squared_reach and squared[c] < runner_up:
            runner_up = squared[c]
    runner_up = np.sqrt(runner_up) * (1.0 - relative) - slack
    evaluations = 0
    total = totals[node]
    guess = best
    expected = distance = np.inf
    for turn in range(k + 1):
        # The guess first, then the others by index. All go through one call: the compiler may round the same sum
        # differently in two calls, and equal centers must get equal distances for the lowest index to win.
        c = guess if turn == 0 else turn - 1
        if turn > 0:
            if c == guess or squared[c] > squared_reach:
                continue
            lower = np.sqrt(squared[c]) * (1.0 - relative) - slack
            if lower > distance:
                runner_up = min(runner_up, lower)
                continue
        evaluations += 1
        # Compared before the division, which can equate numbers that differ in the last bit.
        rival = expected_distance(points, probabilities, offsets, node, centers, c)
        if rival < expected or (rival == expected and c < best):
            runner_up = min(runner_up, distance)
            expected, distance, best = rival, rival / total, c
        else:
            runner_up = min(runner_up, rival / total)
    labels[node], nearest[node], other[node] = best, distance, runner_up
    return evaluations


@part
def _square_expected_distances(points, probabilities, offsets, totals, node, centers, columns, of_four, out):
    """Squares of the expected distances of a node to all centers, but for rounding.

    OUT  of_four (4, k) any content, out (k,)
    """
    k, first, last = out.shape[0], offsets[node], offsets[node + 1] - 1
    for c in range(k):
        out[c] = 0.0
    for r in range(first, last + 1, 4):
        squared_distances_of_four(
            points, r, min(r + 1, last), min(r + 2, last), min(r + 3, last), centers, columns, of_four
        )
        for t in range(min(4, last + 1 - r)):
            line, probability = of_four[t], probabilities[r + t] / totals[node]
            for c in range(k):
                out[c] += probability * np.sqrt(line[c])
    for c in range(k):
        out[c] *= out[c]


@kernel
def two_nearest(
    points, probabilities, offsets, totals, gravity, variances, centers, columns, relative, slack, labels, nearest,
    next_labels, next_nearest, start, stop,
):  # fmt: skip
    """Find the nearest and the next expected center of nodes start:stop; ties go to the lowest index.

    The same sandwich as in :func:`reassign`: only centers whose lower end is below the second smallest upper end are
    computed.

    IN   totals (n,) total probabilities, gravity (n, >= d), variances (n,), columns (d, k) = centers transposed,
         relative and slack: margins that cover rounding
    OUT  labels (n,), nearest (n,) expected distances, next_labels (n,) and next_nearest (n,) those of the next center,
         -1 and infinite where there is none
    RETURN the number of exact expected distances
    """
    k = centers.shape[0]
    squared = np.empty((4, k))
    evaluations = 0
    for first in range(start, stop, 4):
        last = stop - 1
        squared_distances_of_four(
            gravity, first, min(first + 1, last), min(first + 2, last), min(first + 3, last), centers, columns, squared
        )
        for t in range(min(4, stop - first)):
            node = first + t
            squared_reach = _reach_of_two(squared[t], variances[node], relative, slack)
            best, second = -1, -1
            distance = other = np.inf
            for c in range(k):
                if squared[t, c] > squared_reach:
                    continue
                evaluations += 1
                rival = expected_distance(points, probabilities, offsets, node, centers, c)
                if rival < distance:
                    second, other = best, distance
                    best, distance = c, rival
                elif rival < other:
                    second, other = c, rival
            labels[node], nearest[node] = best, distance
            next_labels[node], next_nearest[node] = second, other
    return evaluations


@part
def _reach_of_two(squared, variance, relative, slack):
    """Squared distance to the center of gravity beyond which a center is neither the nearest nor the next."""
    smallest = following = np.inf
    for c in range(squared.shape[0]):
        if squared[c] < smallest:
            following = smallest
            smallest = squared[c]
        elif squared[c] < following:
            following = squared[c]
    upper = np.sqrt(following + variance) * (1.0 + relative) + slack
    reach = (upper + slack) / (1.0 - relative)
    return reach * reach
