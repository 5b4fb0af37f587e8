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
    """Smallest expected distance, given that the node is there, by Weiszfeld with Vardi and Zhang."""
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


def lloyd_sums(nodes, weights, labels, centers):
    """Of each center and its nodes: pull, reciprocal distances, mass on the center, cost."""
    sums = []
    for c, center in enumerate(centers):
        pull, reciprocal, here, cost = [0.0] * len(center), 0.0, 0.0, 0.0
        for node, weight, label in zip(nodes, weights, labels, strict=True):
            for x, p in node if label == c else []:
                distance = math.dist(x, center)
                cost += weight * p * distance
                if distance == 0.0:
                    here += weight * p
                else:
                    reciprocal += weight * p / distance
                    pull = [a + weight * p * (xf - cf) / distance for a, xf, cf in zip(pull, x, center, strict=True)]
        sums.append([*pull, reciprocal, here, cost])
    return sums


def weiszfeld_step(masses, y):
    """Next place after y for a list of (point, mass): Weiszfeld's step, that of Vardi and Zhang on a point."""
    away = [(x, mass / math.dist(x, y)) for x, mass in masses if math.dist(x, y) > 0.0]
    here = sum(mass for x, mass in masses if math.dist(x, y) == 0.0)
    total = sum(share for _, share in away)
    if total == 0.0:
        return y
    strength = math.hypot(*(sum(share * (x[f] - y[f]) for x, share in away) for f in range(len(y))))
    if strength <= here:
        return y
    target = [sum(share * x[f] for x, share in away) / total for f in range(len(y))]
    stay = here / strength
    return [stay * yf + (1.0 - stay) * tf for yf, tf in zip(y, target, strict=True)]


def cluster_median_by_the_papers_rule(masses, ratio=0.1, most=15):
    """From the center of gravity, while a step is at most ``ratio`` times the one before."""
    y = gravity_center(masses)
    lengths = []
    while len(lengths) < most and (len(lengths) < 2 or lengths[-1] <= ratio * lengths[-2]):
        new = weiszfeld_step(masses, y)
        lengths.append(math.dist(new, y))
        y = new
    return y


def p_lloyd(nodes, weights, centers, most_rounds=10):
    """P-LLOYD++ of section 4.4 from given centers: assign nodes, move centers to medians, until no node moves."""
    labels = None
    for _ in range(most_rounds):
        new = assign(nodes, centers)
        if new == labels:
            break
        labels = new
        for c in range(len(centers)):
            masses = [
                (x, weight * p)
                for node, weight, label in zip(nodes, weights, labels, strict=True)
                for x, p in node
                if label == c
            ]
            if sum(mass for _, mass in masses) > 0.0:
                centers = [*centers[:c], cluster_median_by_the_papers_rule(masses), *centers[c + 1 :]]
    return centers


def weighted_median_on_line(places, shares):
    """Places of least cost on a line, as an interval (low, high); shares are whole numbers."""
    half = sum(shares) / 2
    ordered = sorted((t, s) for t, s in zip(places, shares, strict=True) if s)
    low = next(t for t, _ in ordered if sum(s for u, s in ordered if u <= t) >= half)
    high = next(t for t, _ in ordered if sum(s for u, s in ordered if u <= t) > half)
    return low, high


def greedy_draw_probabilities(points, weights, centers, n_candidates):
    """Chance of each point to be the next center: drawn by mass times distance, of some draws the best is kept."""
    scores = [w * min(math.dist(x, c) for c in centers) for x, w in zip(points, weights, strict=True)]
    nodes = [[(x, 1.0)] for x in points]
    chances = [0.0] * len(points)
    for drawn in itertools.product(range(len(points)), repeat=n_candidates):
        costs = [expected_cost(nodes, weights, [*centers, points[i]]) for i in drawn]
        chances[drawn[costs.index(min(costs))]] += math.prod(scores[i] / sum(scores) for i in drawn)
    return chances
