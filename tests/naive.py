"""Definitions as slow and as plain as the paper states them: no NumPy, no imports from probi.

A node is a list of (point, probability); nodes come with a list of weights.
"""

import itertools
import math
from fractions import Fraction


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


def squared_radius(node):
    center = gravity_center(node)
    return max(math.dist(x, center) ** 2 for x, _ in node)


def spread_at(node, place):
    """Expected distance to a place, given that the node is there."""
    return expected_distance(node, place) / total_probability(node)


def median_cost(node, rounds=4000):
    """Smallest expected distance, given that the node is there, by Weiszfeld with Vardi and Zhang."""
    y, total = gravity_center(node), total_probability(node)
    best = min(spread_at(node, x) for x, _ in node)
    for _ in range(rounds):
        pull, reciprocal, here, cost = [0.0] * len(y), 0.0, 0.0, 0.0
        for x, p in node:
            distance = math.dist(x, y)
            cost += p * distance
            if distance == 0.0:
                here += p
                continue
            reciprocal += p / distance
            pull = [a + p * (xf - yf) / distance for a, xf, yf in zip(pull, x, y, strict=True)]
        best = min(best, cost / total)
        strength = math.hypot(*pull)
        if reciprocal == 0.0 or strength <= here:
            break
        factor = (1.0 - here / strength) / reciprocal
        y, before = [yf + factor * a for yf, a in zip(y, pull, strict=True)], y
        if math.dist(y, before) <= 1e-15 * math.hypot(*y):  # nothing but rounding
            break
    return min(best, spread_at(node, y))


def best_cost_among(nodes, weights, places, k):
    """Smallest expected cost with k centers chosen among the places, by trying all sets."""
    rows = [[weight * x for x in row] for weight, row in zip(weights, expected_distances(nodes, places), strict=True)]
    numbers = itertools.combinations(range(len(places)), k)
    return min(sum(min(row[c] for c in chosen) for row in rows) for chosen in numbers)


def weiszfeld_by_the_papers_rule(node, ratio=0.1, most=15):
    """From the center of gravity, while a step is at most ``ratio`` times the one before; None if it hits a point."""
    y = gravity_center(node)
    lengths: list[float] = []
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
    lengths: list[float] = []
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


def dual_lower_bound(node, y):
    """Lower bound of the smallest expected distance (node present), from what is seen at y.

    The unit vectors towards the realizations, less their mean g so that they balance, are 1 + |g| long at most. What
    lies at y may have any vector of at most that length: the one that balances the others best.
    """
    total, d = total_probability(node), len(y)
    here = math.fsum(p / total for x, p in node if math.dist(x, y) == 0.0)
    away = [(x, p / total) for x, p in node if math.dist(x, y) > 0.0]
    units = [(x, p, [(xf - yf) / math.dist(x, y) for xf, yf in zip(x, y, strict=True)]) for x, p in away]
    pull = [math.fsum(p * u[f] for _, p, u in units) for f in range(d)]
    if here > 0.0:
        units.append((y, here, [-pull[f] / max(here, math.hypot(*pull)) for f in range(d)]))
    g = [math.fsum(p * u[f] for _, p, u in units) for f in range(d)]
    products = [p * sum(xf * (uf - gf) for xf, uf, gf in zip(x, u, g, strict=True)) for x, p, u in units]
    return math.fsum(products) / (1.0 + math.hypot(*g))


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


def cell_costs(rows, masses, cells, means, n_space):
    """Of cells, lists of row numbers: distance of each row to a mean given for its cell, mass and cost of each cell.

    Features behind the first ``n_space`` are spreads, and the mean has 0 there.
    """
    distances, sums = {}, []
    for cell, mean in zip(cells, means, strict=True):
        for i in cell:
            distances[i] = math.dist(rows[i], mean[:n_space] + [0.0] * (len(rows[i]) - n_space))
        sums.append((sum(masses[i] for i in cell), sum(masses[i] * distances[i] for i in cell)))
    return distances, sums


def importance_shares(masses, distances, cells):
    """Shares of a row in the cost of all, the mass of its cell and the cost of its cell; a cost of 0 is not shared.

    Given distances to the means of cells.
    """
    costs = [sum(masses[i] * distances[i] for i in cell) for cell in cells]
    found = {}
    for cell, cost in zip(cells, costs, strict=True):
        for i in cell:
            found[i] = masses[i] / (len(cells) * sum(masses[j] for j in cell))
            if cost > 0.0:
                found[i] += masses[i] * distances[i] * (1.0 / sum(costs) + 1.0 / (len(cells) * cost))
    return found


def coreset_factors(masses, distances, cells, size, offset):
    """Factors of the rows chosen by importance; each cell keeps its mass, if one of its rows is chosen."""
    shares, order = importance_shares(masses, distances, cells), [i for cell in cells for i in cell]
    chances = dict(zip(order, capped_chances([shares[i] for i in order], size), strict=True))
    others = [i for i in order if chances[i] < 1]
    picked = {others[j] for j in systematic_sample([chances[i] for i in others], Fraction(offset))}
    factors = {}
    for cell in cells:
        rest = sum(Fraction(masses[i]) for i in cell if chances[i] < 1)
        heavy = sum(Fraction(masses[i]) for i in cell if chances[i] == 1)
        sampled = sum(Fraction(masses[i]) / chances[i] for i in cell if i in picked)
        for i in cell:
            if i in picked:
                factors[i] = rest / sampled / chances[i]
            elif chances[i] == 1:
                factors[i] = 1 if sampled else 1 + rest / heavy
    return factors


def draw_once(masses, size, uniforms):
    """Distinct rows, one draw from each of equal parts of the mass, and for how many draws each stands."""
    chances = capped_chances(masses, size)
    light = [Fraction(m) if chance < 1 else Fraction(0) for m, chance in zip(masses, chances, strict=True)]
    n_draws = size - sum(chance == 1 for chance in chances) if sum(light) else 0
    drawn = {}
    for j in range(n_draws):
        place = (j + Fraction(uniforms[j])) / n_draws * sum(light)
        drawn[next(i for i in range(len(light)) if sum(light[: i + 1]) > place)] = 1
    heavy = {i: masses[i] * n_draws / (sum(light) or 1) for i, chance in enumerate(chances) if chance == 1}
    most = min(1, n_draws / max(1, sum(heavy.values())))
    return drawn | {i: max(1, times * most) for i, times in heavy.items()}


def leaf_ends(coordinates, most, short):
    """Numbers of nodes after which a leaf ends: it has ``most`` nodes, or one of the pairs of nodes and coordinates."""
    ends, n, total = [], 0, 0
    for i, of_node in enumerate(coordinates, 1):
        n, total = n + 1, total + of_node
        if n >= most or any(n >= nodes and total >= enough for nodes, enough in short):
            ends.append(i)
            n, total = 0, 0
    return ends


def distances_to_nearest(points, locations):
    """Rows: distances to location 0, to 1, to the nearer of 1 and 2, to the nearest of 1 to 3, ..."""
    sets = [locations[:1], *(locations[1:n] for n in range(2, len(locations) + 1))]
    return [[min(math.dist(x, place) for place in places) for x in points] for places in sets]


def capped_chances(scores, size):
    """Chances that go by scores and sum to ``size``: what is 1 or more becomes 1, and the others share what is left."""
    certain: set[int] = set()
    while True:
        total = sum(Fraction(s) for i, s in enumerate(scores) if i not in certain)
        room = size - len(certain)
        if room == 0 or total == 0:
            return [Fraction(i in certain) for i in range(len(scores))]
        chances = [Fraction(1) if i in certain else s * room / total for i, s in enumerate(scores)]
        over = {i for i, chance in enumerate(chances) if chance >= 1}
        if over == certain:
            return chances
        certain = over


def systematic_sample(chances, offset):
    """Numbers of the intervals, laid end to end, in which offset, offset + 1, ... lie; a border is of the next one."""
    chosen, end = [], 0
    for i, chance in enumerate(chances):
        begin, end = end, end + chance
        # The points offset + j in [begin, end), whose number is that of the j below each border.
        if math.ceil(end - offset) > math.ceil(begin - offset):
            chosen.append(i)
    return chosen


def ring_buckets(labels, distances, spreads, masses):
    """Bucket (l, h, a) of each node, as the paper has it: open balls around centers, spreads up to and with 2^a R."""
    parts = [Fraction(m) * (Fraction(d) + Fraction(s)) for d, s, m in zip(distances, spreads, masses, strict=True)]
    radius = sum(parts) / (8 * sum(map(Fraction, masses)))
    found = []
    for label, distance, spread in zip(labels, distances, spreads, strict=True):
        h = a = 0
        while radius > 0 and not distance < 2**h * radius:
            h += 1
        while radius > 0 and not spread <= 2**a * radius:
            a += 1
        found.append((label, h, a))
    return found


def priority_sample(masses, uniforms, size):
    """Numbers and keys of the ``size`` nodes with the smallest uniform / mass, and of the next, the limit."""
    keys = sorted((u / mass, i) for i, (mass, u) in enumerate(zip(masses, uniforms, strict=True)) if mass > 0.0)
    return [i for _, i in keys[: size + 1]], [key for key, _ in keys[: size + 1]]


def priority_estimate(values, masses, sizes, keys, limit):
    """Sum of mass times value over all nodes, and its standard error, by a priority sample (Duffield, Lund, Thorup)."""
    least = 1.0 / keys[limit] if len(keys) > limit else 0.0
    triples = list(zip(values, masses, sizes, strict=True))[:limit]
    variance = math.fsum((v * mass / size) ** 2 * least * max(0.0, least - size) for v, mass, size in triples)
    return math.fsum(v * mass / size * max(size, least) for v, mass, size in triples), math.sqrt(variance)


def memberships(nodes, centers, tol=0.0):
    """Smallest and largest share of each center: a realization counts for one of those that are nearest within tol."""
    least = [[0.0] * len(centers) for _ in nodes]
    most = [[0.0] * len(centers) for _ in nodes]
    for i, node in enumerate(nodes):
        total = total_probability(node)
        for x, p in node:
            distances = [math.dist(x, c) for c in centers]
            nearest = [c for c, distance in enumerate(distances) if distance <= min(distances) + tol]
            for c in nearest:
                most[i][c] += p / total
            if len(nearest) == 1 or tol == 0.0:
                least[i][nearest[0]] += p / total
    return least, most


def representative(nodes, weights, medians):
    """The node of a cluster whose median serves all of them at the least cost, and that cost; the first of equals."""
    costs = [math.fsum(w * expected_distance(node, y) for node, w in zip(nodes, weights, strict=True)) for y in medians]
    return costs.index(min(costs)), min(costs)


# -- how many clusters ------------------------------------------------------------------------------------------------


def silhouette(nodes, weights, centers):
    """Mean by mass of 1 - a / b, with the expected distances a and b to the two nearest centers."""
    total = mean = 0.0
    for node, w in zip(nodes, weights, strict=True):
        a, b = sorted(expected_distance(node, c) for c in centers)[:2]
        mass = w * total_probability(node)
        total += mass
        mean += mass * (1 - a / b if b > 0 else 0.0)
    return mean / total


def on_line(point, start, end):
    """Position of a point on a line, 0 at its start and 1 at its end, and its squared distance from the line."""
    line = [b - a for a, b in zip(start, end, strict=True)]
    length = math.fsum(x * x for x in line)
    if length == 0:
        return math.inf, math.dist(point, start) ** 2
    t = math.fsum((x - a) * v for x, a, v in zip(point, start, line, strict=True)) / length
    foot = [a + t * v for a, v in zip(start, line, strict=True)]
    off = math.dist(point, foot)
    return t, off**2 if off > 1e-6 * math.dist(point, start) else 0.0


def overlap(points, weights, labels, centers, extra=6):
    """Density halfway between two neighboring centers relative to the sparser one, the largest of all pairs."""
    k = len(centers)
    gap = [[math.dist(a, b) for b in centers] for a in centers]
    pairs = [
        (i, j)
        for i, j in itertools.combinations(range(k), 2)
        if not any(max(gap[i][t], gap[j][t]) < gap[i][j] for t in range(k))
    ]
    return max(pair_overlap(points, weights, labels, centers, i, j, extra) for i, j in pairs)


def without(point, weight, label, points, weights, labels, centers):
    """The center of a node as it is without the node, which pulls it by weight / distance."""
    center = centers[label]
    pulls = [
        w / math.dist(x, center)
        for x, w, other in zip(points, weights, labels, strict=True)
        if other == label and math.dist(x, center) > 0
    ]
    if math.dist(point, center) == 0:
        return center
    share = min(weight / math.dist(point, center) / math.fsum(pulls), 0.5)
    return [c - share / (1 - share) * (x - c) for x, c in zip(point, center, strict=True)]


def pair_overlap(points, weights, labels, centers, i, j, extra):
    placed = []
    for x, w, label in zip(points, weights, labels, strict=True):
        start, end = centers[i], centers[j]
        if label in (i, j):
            moved = without(x, w, label, points, weights, labels, centers)
            start, end = (moved, end) if label == i else (start, moved)
        if label == j:  # from the other end
            t, off = on_line(x, end, start)
            t = 1 - t
        else:
            t, off = on_line(x, start, end)
        to_two = min(math.dist(x, centers[i]), math.dist(x, centers[j]))
        is_here = label in (i, j) or to_two <= 1.1 * math.dist(x, centers[label])
        placed.append((t, off, w, label, is_here))
    own = [
        [(off, w) for t, off, w, label, _ in placed if label == c and abs(t - at) <= 1 / 8]
        for c, at in ((i, 0), (j, 1))
    ]
    of = [[w for w, label in zip(weights, labels, strict=True) if label == c] for c in (i, j)]
    if not own[0] or not own[1]:
        return 1.0
    extra *= max(math.fsum(w * w for w in ws) / math.fsum(ws) for ws in of)
    radius = max(weighted_quantile(values, 0.7) for values in own)
    at_i, at_j, middle = (
        math.fsum(w for t, off, w, _, is_here in placed if is_here and abs(t - at) <= 1 / 8 and off <= radius)
        for at in (0, 1, 1 / 2)
    )
    return (middle + extra) / (min(at_i, at_j) + extra)


def weighted_quantile(values, share):
    """The first value with at least this share of the weight up to it."""
    total, passed = math.fsum(w for _, w in values), 0.0
    for value, w in sorted(values):
        passed += w
        if passed >= share * total:
            return value
    raise AssertionError


# -- outliers ---------------------------------------------------------------------------------------------------------


def trimmed(nodes, weights, spreads, centers, share):
    """Outliers and the cost of the others: those farthest beyond their spread, while their mass is within a share."""
    nearest = [min(expected_distances([node], centers)[0]) / total_probability(node) for node in nodes]
    mass = [w * total_probability(node) for node, w in zip(nodes, weights, strict=True)]
    beyond = [max(a - s, 0.0) for a, s in zip(nearest, spreads, strict=True)]
    out = set()
    for value in sorted(set(beyond), reverse=True):  # equally far nodes are all in or all out
        more = {i for i, each in enumerate(beyond) if each >= value}
        if math.fsum(mass[i] for i in more) > share * math.fsum(mass) * (1 + 1e-12):
            break
        out = more
    cost = math.fsum(mass[i] * nearest[i] for i in range(len(nodes)) if i not in out)
    return out, cost
