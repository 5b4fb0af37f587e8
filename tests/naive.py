"""Definitions as slow and as plain as the paper states them: no NumPy, no imports from probi.

A node is a list of (point, probability); nodes come with a list of weights.
"""

import itertools
import math


def expected_distance(node, center):
    return sum(p * math.dist(x, center) for x, p in node)


def expected_distances(nodes, centers):
    return [[expected_distance(node, c) for c in centers] for node in nodes]


def assign(nodes, centers):
    rows = expected_distances(nodes, centers)
    return [row.index(min(row)) for row in rows]


def expected_cost(nodes, weights, centers):
    rows = expected_distances(nodes, centers)
    return math.fsum(w * min(row) for w, row in zip(weights, rows, strict=True))


def total_probability(node):
    return math.fsum(p for _, p in node)


def gravity_center(node):
    total = total_probability(node)
    d = len(node[0][0])
    return [math.fsum(p * x[f] for x, p in node) / total for f in range(d)]


def variance(node):
    center = gravity_center(node)
    return math.fsum(p * math.dist(x, center) ** 2 for x, p in node) / total_probability(node)


def spread_at(node, place):
    """Expected distance to a place, given that the node is there."""
    return expected_distance(node, place) / total_probability(node)


def median_cost(node, rounds=4000):
    """Smallest expected distance, given that the node is there: by Weiszfeld with Vardi and Zhang, and at realizations."""
    y = gravity_center(node)
    best = min(spread_at(node, x) for x, _ in node)
    for _ in range(rounds):
        best = min(best, spread_at(node, y))
        pull, reciprocal, here = [0.0] * len(y), 0.0, 0.0
        for x, p in node:
            distance = math.dist(x, y)
            if distance == 0.0:
                here += p
                continue
            reciprocal += p / distance
            pull = [a + p * (xf - yf) / distance for a, xf, yf in zip(pull, x, y, strict=True)]
        strength = math.hypot(*pull)
        if reciprocal == 0.0 or strength <= here:
            break
        factor = (1.0 - here / strength) / reciprocal
        y = [yf + factor * a for yf, a in zip(y, pull, strict=True)]
    return min(best, spread_at(node, y))


def best_cost_among(nodes, weights, places, k):
    """Smallest expected cost with k centers chosen among the places, by trying all sets."""
    return min(expected_cost(nodes, weights, chosen) for chosen in itertools.combinations(places, k))


def weiszfeld_by_the_papers_rule(node, ratio=0.1, most=15):
    """From the center of gravity, while a step is at most ``ratio`` times the one before; None if it hits a point."""
    y = gravity_center(node)
    lengths = []
    while len(lengths) < most and (len(lengths) < 2 or lengths[-1] <= ratio * lengths[-2]):
        distances = [math.dist(x, y) for x, _ in node]
        if any(distance == 0.0 for distance in distances):
            return None
        shares = [p / distance for (_, p), distance in zip(node, distances, strict=True)]
        total = math.fsum(shares)
        new = [math.fsum(s * x[f] for (x, _), s in zip(node, shares, strict=True)) / total for f in range(len(y))]
        lengths.append(math.dist(new, y))
        y = new
    return y
