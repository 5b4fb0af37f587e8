"""The paper's reduce (Algorithm 2): rings around centers, and the same number of draws from each bucket."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import geometry
from probi.coreset.kumar import kumar_medians
from probi.coreset.preset import Preset, Retained, concat_nonempty
from probi.medians import paper_medians
from probi.nodes import Nodes
from probi.objective import Assignment
from probi.solver.lloyd import p_lloyd
from probi.solver.problem import draw
from probi.solver.seeding import seed_as_in_paper
from probi.validation import frozen

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Key of the statistic that holds the paper's medians and spreads.
PAPER_MEDIANS = "paper medians"

# Nodes with more realizations get Kumar's median, as section 4.1 advises for "non-sparse nodes" without a number.
# Here it takes a quarter of the time of Weiszfeld's steps; with 100 the times are equal.
SPARSE = 1000

# Rounds of LloydMedian, section 4.2.
MAX_ITER = 10


class RingSampling(Preset):
    """Algorithm 2 and section 3.2 of the paper."""

    name = "paper"
    solver = "paper"
    # The paper's tree is binary; its B_0 and B_1 together are a leaf.
    fan_in = 2

    def reduce(self, parts: Sequence[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        """Draw about ``size`` nodes."""
        return reduce(parts, self.size, self.n_clusters, rng)

    def final_coreset(self, streams: Sequence[Retained], rng: np.random.Generator) -> Nodes:
        """Union of all buckets, each B_0 reduced (section 3.2); B_1 holds nodes as they were read."""
        everything = [nodes for stream in streams for nodes in stream.parts]
        if sum(len(part) for part in everything) <= self.size:
            return concat_nonempty(everything)
        parts = []
        for stream in streams:
            parts += stream.coresets
            waiting = stream.waiting
            if waiting is not None and len(waiting) >= self.size:
                parts.append(waiting[: self.size])
                waiting = waiting[self.size :]
            if waiting is not None and len(waiting):
                parts.append(self.reduce([waiting], stream.rng))
        return concat_nonempty(parts)

    @property
    def description(self) -> str:
        """What it keeps, for people."""
        return f"{super().description}, as in the paper"


def reduce(parts: Sequence[Nodes], size: int, n_clusters: int, rng: np.random.Generator) -> Nodes:
    """Draw about ``size`` nodes: max(size / number of buckets, 1) from each bucket, with replacement, by mass.

    A drawn node gets the weight mass(bucket) / (draws * total probability); drawn again, the sum. So each bucket, and
    with it the total, keeps its mass.
    """
    nodes = Nodes.concat(parts)
    used = np.flatnonzero(nodes.mass > 0.0)
    if len(used) < len(nodes):
        nodes = nodes.take(used)
    if len(used) == 0:
        return nodes
    medians, spreads = nodes.statistic(PAPER_MEDIANS, lambda: _medians(nodes, rng))
    labels, distances = _nearest_centers(medians, nodes.mass, n_clusters, rng)
    bucket_of, n_buckets = buckets(labels, distances, spreads, nodes.mass)
    n_draws = max(size // n_buckets, 1)
    chosen, masses = draws(bucket_of, n_buckets, n_draws, nodes.mass, rng)
    return nodes.take(chosen).with_weights(masses / nodes.total_probabilities[chosen])


def _medians(nodes: Nodes, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """1-medians of nodes and spreads, as the paper takes them: Weiszfeld, and Kumar's where that does not work."""
    medians, spreads, hit = paper_medians(nodes)
    n_each = np.diff(nodes.offsets)
    # A node with one realization is its own median: nothing to replace.
    replaced = np.flatnonzero((hit & (n_each > 1)) | (n_each > SPARSE))
    if len(replaced):
        medians[replaced] = kumar_medians(nodes, replaced, rng)
        some = nodes.take(replaced)
        expected = np.empty(len(some))
        _parallel.run(
            geometry.distances_of_pairs, some.pieces(), some.points, some.probabilities, some.offsets,
            medians[replaced], expected,
        )  # fmt: skip
        spreads[replaced] = expected / some.total_probabilities
    return frozen(medians), frozen(spreads)


def _nearest_centers(
    medians: Floats, mass: Floats, n_clusters: int, rng: np.random.Generator
) -> tuple[NDArray[np.int32], Floats]:
    """LloydMedian (section 4.2) on the medians: nearest center of each, and the distance to it."""
    nodes = Nodes.from_points(medians, mass)
    centers, _ = p_lloyd(nodes, seed_as_in_paper(nodes, n_clusters, rng), MAX_ITER)
    assignment = Assignment(nodes)
    assignment.update(centers, np.zeros(n_clusters), exact=True)
    return assignment.labels, assignment.nearest


def buckets(
    labels: NDArray[np.int32], distances: Floats, spreads: Floats, mass: Floats
) -> tuple[NDArray[np.int64], int]:
    """Index of each node's bucket (center, ring of the distance, ring of the spread), and the number of buckets.

    Ring 0 of distances is the open ball with radius R, ring h from 2^(h-1) R to below 2^h R; ring 0 of spreads goes to
    R and includes it, ring a from above 2^(a-1) R to 2^a R.
    """
    radius = float((mass * (distances + spreads)).sum() / (8.0 * mass.sum()))
    rings = np.zeros((3, len(labels)), np.int64)
    rings[0] = labels
    rings[1] = rings_of(distances, radius)
    if radius > 0.0:
        fraction, exponent = np.frexp(spreads / radius)
        # An exact power of two still belongs to the ring that ends there.
        rings[2] = np.maximum(exponent - (fraction == 0.5), 0)
    _, numbers = np.unique(rings, axis=1, return_inverse=True)
    numbers = numbers.reshape(-1)
    return numbers, int(numbers.max()) + 1


def rings_of(distances: Floats, radius: float) -> Indices:
    """Ring of each distance: 0 below the radius, h from 2^(h-1) times the radius to below 2^h times it."""
    if not radius > 0.0:
        return np.zeros(len(distances), np.int64)
    _, exponent = np.frexp(distances / radius)
    return np.maximum(exponent, 0).astype(np.int64)


def draws(
    bucket_of: Indices, n_buckets: int, n_draws: int, mass: Floats, rng: np.random.Generator
) -> tuple[Indices, Floats]:
    """Distinct nodes drawn, and the mass that each stands for."""
    masses = np.zeros(len(mass))
    order = np.argsort(bucket_of, kind="stable")
    offsets = np.searchsorted(bucket_of[order], np.arange(n_buckets + 1))
    uniforms = rng.random((n_buckets, n_draws))
    for bucket in range(n_buckets):
        inside = order[offsets[bucket] : offsets[bucket + 1]]
        drawn = draw(mass[inside], uniforms[bucket])
        masses[inside] = np.bincount(drawn, minlength=len(inside)) * (mass[inside].sum() / n_draws)
    chosen = np.flatnonzero(masses)
    return chosen, masses[chosen]
