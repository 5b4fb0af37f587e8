"""The problem to solve: nodes, and candidates for their centers."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from probi._types import Array, Floats, Integers, Mask
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes


@dataclass(frozen=True)
class Problem:
    """Nodes to assign, each with its median and its irreducible cost (the spread).

    Attributes
    ----------
    nodes : Nodes
    medians : ndarray of shape (n_nodes, n_features)
        The best position of a center for each node alone.
    spreads : ndarray of shape (n_nodes,)
        Cost of each node even then, per unit of mass.
    n_free : int
        Leading features in which centers may move.
    """

    nodes: Nodes
    medians: Array
    spreads: Floats
    n_free: int

    @classmethod
    def of(cls, nodes: Nodes) -> Self:
        """State the problem exactly."""
        medians, spreads, _ = certified_medians(nodes, SPREAD_TOL)
        return cls(nodes, medians, spreads, nodes.n_features)

    def lifted(self) -> "Problem":
        """Approximate the problem with one point per node: the median, lifted by the spread.

        In one more dimension the node becomes the point (y, s) while centers stay on the ground, (c, 0). Then its
        distance sqrt(|y - c|^2 + s^2) is s at the median, as for the node, and |y - c| + O(1 / |y - c|) far away. On
        real data the cost of a solution differs by 0.1 % from the true one, and a pass over the points is cheaper
        by the number of realizations per node. So starts and swaps are tried here, and only the last rounds run on
        the nodes themselves.
        """
        if self.nodes.is_certain:
            return self
        points = np.empty((len(self.nodes), self.nodes.n_features + 1), self.nodes.dtype)
        points[:, :-1] = self.medians
        points[:, -1] = self.spreads
        ground = points.copy()
        ground[:, -1] = 0.0
        return Problem(Nodes.from_points(points, self.nodes.mass), ground, self.spreads, self.n_free)

    def raised(self, centers: Floats) -> Floats:
        """Give centers as many features as the nodes have here, on the ground."""
        out = np.zeros((len(centers), self.nodes.n_features))
        out[:, : self.n_free] = centers[:, : self.n_free]
        return out

    def excess(self, nearest: Floats) -> Floats:
        """Cost of each node beyond its own spread: the part that centers can change."""
        return self.nodes.mass * np.maximum(nearest - self.spreads, 0.0)


def draw(scores: Floats, uniforms: Floats) -> Integers:
    """Draw indices with probabilities proportional to scores; uniforms in [0, 1) decide."""
    total = np.cumsum(scores)
    if not total[-1] > 0.0:
        raise InputError("All weights are zero: nothing counts, so there is nothing to solve.")
    drawn = np.searchsorted(total, uniforms * total[-1], side="right")
    # Rounding may push a number past the end: take the last index with a score.
    return np.asarray(np.minimum(drawn, np.searchsorted(total, total[-1])))


def draw_distinct(scores: Floats, size: int, uniform: float) -> tuple[Integers, Floats]:
    """Draw ``size`` different indices by their scores, spread evenly over them; and the probability of each.

    Fewer if fewer have a score. A uniform number in [0, 1) decides.
    """
    kept, probabilities = capped_probabilities(scores, size)
    passed = np.floor(np.cumsum(probabilities) + uniform)
    chosen = np.flatnonzero(kept | (np.diff(passed, prepend=0.0) > 0.0))
    return chosen, np.where(kept, 1.0, probabilities)[chosen]


def capped_probabilities(scores: Floats, size: int) -> tuple[Mask, Floats]:
    """Probabilities proportional to scores that sum to ``size``, none above 1: which are 1, and the rest (0 for those).

    The excess above 1 goes to the others, which may lift some of them above 1: repeat until none is.
    """
    kept = np.zeros(len(scores), bool)
    rest = scores.copy()
    while True:
        room = size - np.count_nonzero(kept)
        total = rest.sum()
        if room <= 0 or not total > 0.0:
            return kept, np.zeros(len(scores))
        over = rest >= total / room
        if not over.any():
            return kept, rest * (room / total)
        kept |= over
        rest[over] = 0.0
