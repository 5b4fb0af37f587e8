"""What is to be solved: the nodes, and where candidates for centers lie."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes

Array = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """Nodes to assign, with a place for a center (the median) and an irreducible cost (the spread) of each.

    Attributes
    ----------
    nodes : Nodes
    places : ndarray of shape (n_nodes, n_features)
        Where a new center could stand to serve a node best.
    spreads : ndarray of shape (n_nodes,)
        What the node costs even then, per unit of mass.
    n_free : int
        Leading features in which centers may move.
    """

    nodes: Nodes
    places: Array
    spreads: Floats
    n_free: int

    @classmethod
    def of(cls, nodes: Nodes) -> Self:
        """State the problem as it stands."""
        medians, spreads, _ = certified_medians(nodes, SPREAD_TOL)
        return cls(nodes, medians, spreads, nodes.n_features)

    def lifted(self) -> "Problem":
        """State nearly the same problem with one point a node: the median, lifted by the spread.

        In one more dimension the node becomes the point (y, s) while centers stay on the ground, (c, 0). Then its
        distance sqrt(|y - c|^2 + s^2) is s at the median, as it should be, and |y - c| + O(1 / |y - c|) far away. On
        real data the cost of a solution differs by 0.1 % from the true one, and a pass over the points is as many
        times cheaper as a node has realizations. So starts and swaps are tried here, and only the last rounds run on
        the nodes themselves.
        """
        if self.nodes.is_certain:
            return self
        points = np.empty((len(self.nodes), self.nodes.n_features + 1), self.nodes.dtype)
        points[:, :-1] = self.places
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
        """What each node costs beyond its own spread: the part that centers can change."""
        return self.nodes.mass * np.maximum(nearest - self.spreads, 0.0)


def draw(scores: Floats, uniforms: Floats) -> NDArray[np.int64]:
    """Draw indices with probabilities proportional to scores; uniforms in [0, 1) decide."""
    total = np.cumsum(scores)
    if not total[-1] > 0.0:
        raise InputError("All weights are zero: nothing counts, so there is nothing to solve.")
    found = np.searchsorted(total, uniforms * total[-1], side="right")
    # Rounding may push a number up to the end; the last index with a score is meant.
    return np.asarray(np.minimum(found, np.searchsorted(total, total[-1])))


def capped(scores: Floats, size: int) -> tuple[NDArray[np.bool_], Floats]:
    """Chances proportional to scores that sum to ``size``, none above 1: which are 1, and the rest (0 for those).

    What is cut off at 1 goes to the others, which may lift some of them above 1: again, until none is.
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
