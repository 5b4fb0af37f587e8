"""What a solver returns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Sums over the nodes of each cluster, as arrays of shape (n_clusters,).

    Attributes
    ----------
    mass : ndarray
        Weight times total probability.
    cost : ndarray
        Share of the expected cost.
    spread : ndarray
        The part of it that is the nodes' own spread, which no center can change.
    count : ndarray
        Number of nodes.
    """

    mass: Floats
    cost: Floats
    spread: Floats
    count: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Result:
    """A solution of the probabilistic k-median problem.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
        In order of falling mass; in the order of ``init`` where that was given.
    cost : float
        Expected cost: exact for :class:`~probi.Nodes`; for a :class:`~probi.Summary` an estimate for all the data,
        by nodes that the centers were not chosen for.
    standard_error : float
        Of the cost; 0 where it is exact.
    spread_cost : float
        The part of the cost that is the nodes' own spread, which no center can change.
    lower_bound : float
        Certified: no centers, however many, cost less, because no center can undo a node's own spread.
    coreset_cost : float
        Cost on what was solved: for :class:`~probi.Nodes` the cost itself, for a summary that of its coreset.
    labels : ndarray of shape (n_nodes,) or None
        Center of each node; None for a summary, whose nodes are gone.
    clusters : Clusters
        Mass, cost, spread and count of each cluster; for a summary those of its coreset.
    n_iter : int
        Rounds that the best start took on the nodes.
    n_distinct : int
        Clusters that have a node; below ``n_clusters`` if there are not enough distinct nodes.
    thinning_bound : float
        Certified: the cost changed by no more than this because realizations were left out. The standard error has
        what is likely of it.
    """

    centers: NDArray[Any]
    cost: float
    standard_error: float
    spread_cost: float
    lower_bound: float
    coreset_cost: float
    labels: NDArray[np.int32] | None
    clusters: Clusters = field(repr=False)
    n_iter: int
    n_distinct: int = field(repr=False)
    thinning_bound: float = 0.0

    @property
    def excess(self) -> float:
        """What the centers cost beyond the nodes' own spread."""
        return self.cost - self.spread_cost

    def __repr__(self) -> str:
        # Two digits, and no exponent where it can be avoided: 270, not 2.7e+02.
        error = f" ± {float(f'{self.standard_error:.2g}'):g}" if self.standard_error else ""
        spread = f"{self.spread_cost:.6g} of it spread"
        return f"Result({len(self.centers)} centers, cost {self.cost:.6g}{error}, {spread})"


@dataclass(frozen=True)
class Evaluation:
    """What centers cost on all the data behind a summary; unpacks as ``cost, standard_error``.

    Attributes
    ----------
    cost : float
        Estimated expected cost: ``spread_cost + excess``.
    standard_error : float
        Of the cost; 0 where the summary still holds every node. Also of thinning, for centers that were fixed before.
    lower_bound : float
        Certified: no centers, however many, cost less.
    spread_cost : float
        The part of the cost that is the nodes' own spread, which no center can change; a sum over all nodes.
    thinning_bound : float
        Certified: the cost changed by no more than this because realizations were left out on arrival.
    """

    cost: float
    standard_error: float
    lower_bound: float
    spread_cost: float
    thinning_bound: float = 0.0

    @property
    def excess(self) -> float:
        """What the centers cost beyond the nodes' own spread."""
        return self.cost - self.spread_cost

    def __iter__(self) -> Iterator[float]:
        return iter((self.cost, self.standard_error))
