"""What plots and tables show: nodes and centers, in original units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probi._inputs import as_nodes
from probi.errors import InputError
from probi.nodes import Nodes
from probi.objective import assign, check_centers
from probi.report._measures import deviations, quantiles
from probi.report._words import feature_names, plural
from probi.solver.result import Result

Array = NDArray[Any]
Floats = NDArray[np.float64]
Original = Callable[[Array], Array]

# Coordinates used for statistics: one second of work, and fractions are accurate to a fraction of a percent.
MAX_COORDINATES = 4_000_000


@dataclass(frozen=True, eq=False)
class Scene:
    """Nodes and their clusters, with the positions of nodes and centers.

    Attributes
    ----------
    nodes : Nodes
        The nodes used: all, or a sample that depends only on the nodes.
    n_nodes : int
        Number of all nodes.
    labels : ndarray of shape (n_nodes,)
        Nearest center of each. Not those of the result, which may belong to other nodes.
    places : ndarray of shape (n_clusters, d)
        Centers in the coordinates of the clustering.
    to_original : function
        Maps these to original units.
    features : list of str
        Names in original units.
    cluster_masses : ndarray of shape (n_clusters,)
        Those of the result, for all its nodes.
    """

    nodes: Nodes
    n_nodes: int
    labels: NDArray[np.int32]
    places: Floats
    to_original: Original
    features: list[str]
    cluster_masses: Floats

    @property
    def n_clusters(self) -> int:
        """Number of centers."""
        return len(self.places)

    @cached_property
    def centers(self) -> Floats:
        """In original units, (n_clusters, d')."""
        return self.to_original(self.places)

    @cached_property
    def values(self) -> Floats:
        """Realizations in original units, (n_realizations, d')."""
        return self.to_original(self.nodes.points)

    @cached_property
    def masses(self) -> Floats:
        """Weight times probability of each realization."""
        return np.asarray(self.by_realization(self.nodes.weights) * self.nodes.probabilities, np.float64)

    @cached_property
    def owners(self) -> NDArray[np.int32]:
        """Cluster of each realization."""
        return np.asarray(self.by_realization(self.labels), np.int32)

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """Indices of the realizations of each cluster."""
        order = np.argsort(self.owners, kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.owners, minlength=self.n_clusters))[:-1])

    @cached_property
    def medians(self) -> Floats:
        """Median of each feature over all realizations, (d',)."""
        return quantiles(self.values, self.masses, (0.5,)).ravel()

    @cached_property
    def scales(self) -> Floats:
        """Standard deviation of each feature over all realizations, (d',); 0 if a feature does not vary."""
        return deviations(self.values, self.masses)

    @cached_property
    def inner_scales(self) -> Floats:
        """Standard deviation of each feature within a cluster, the median over clusters, (d',); 0 if there is none."""
        within = np.array([deviations(self.values[inside], self.masses[inside]) for inside in self.members])
        return np.array([np.median(column[column > 0]) if (column > 0).any() else 0.0 for column in within.T])

    def by_realization(self, by_node: Array) -> Array:
        """Values of nodes, repeated for each of their realizations."""
        return np.repeat(by_node, np.diff(self.nodes.offsets))

    def standardised(self, values: Array) -> Floats:
        """Values in standard deviations from the overall median; 0 if a feature does not vary."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.scales > 0, (values - self.medians) / self.scales, 0.0)

    def max_different(self, at_most: int) -> NDArray[np.int64]:
        """Indices of the features in which the centers differ most from the nodes and each other, in order."""
        positions = np.nan_to_num(np.vstack([self.standardised(self.centers), np.zeros(len(self.features))]))
        order = np.argsort(-np.ptp(positions, axis=0), kind="stable")
        return np.sort(order[:at_most])

    @property
    def part(self) -> str:
        """Says how many of the nodes are drawn, if not all are."""
        if len(self.nodes) == self.n_nodes:
            return ""
        return f" Drawn from {len(self.nodes):,} of {plural(self.n_nodes, 'node')}, chosen at random."


def make_scene(result: Result, nodes: Any, features: Sequence[str] | None, original: Original | None) -> Scene:
    """Scene of nodes, or an array of them, and the centers of a result; raises if they do not match."""
    check_result(result)
    nodes = as_nodes(nodes)
    if len(nodes) == 0:
        raise InputError("No nodes to draw. Pass at least one.")
    places = check_centers(result.centers, nodes.n_features)
    some = some_nodes(nodes, MAX_COORDINATES // nodes.n_features)
    convert = _in_original_units(original)
    n_original = convert(places).shape[1]
    names = feature_names(features, n_original)
    masses = np.nan_to_num(np.asarray(result.clusters.mass, np.float64))
    return Scene(some, len(nodes), assign(some, places), places, convert, names, masses)


def check_result(result: Any) -> None:
    """Raise with the right call if it is not a result."""
    if hasattr(result, "result_"):
        raise InputError(f"Pass the result of the {type(result).__name__}: its attribute result_.")
    if not isinstance(result, Result):
        raise InputError(
            f"The result must come before the nodes, as in plot_clusters(result, nodes), got a {type(result).__name__}."
        )


def some_nodes(nodes: Nodes, max_realizations: int) -> Nodes:
    """All nodes, or a fixed sample with at most ``max_realizations`` realizations, but at least one node."""
    if nodes.n_realizations <= max_realizations:
        return nodes
    order = np.random.default_rng(0).permutation(len(nodes))
    sizes = np.cumsum(np.diff(nodes.offsets)[order])
    n_kept = max(1, int(np.searchsorted(sizes, max_realizations, side="right")))
    return nodes.take(np.sort(order[:n_kept]))


def _in_original_units(original: Original | None) -> Original:
    def convert(points: Array) -> Floats:
        values = np.asarray(points if original is None else original(np.asarray(points)), np.float64)
        if values.ndim != 2 or len(values) != len(points):
            raise InputError(
                f"original returned an array of shape {values.shape} for {len(points)} points. "
                "It must return one row per point, (n, d')."
            )
        return values

    return convert
