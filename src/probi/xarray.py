"""The accessor ``probi`` of xarray: ``import probi.xarray`` adds it to every DataArray and Dataset.

>>> import numpy as np
>>> import probi.xarray
>>> import xarray as xr
>>> rng = np.random.default_rng(0)
>>> climate = np.where(np.arange(30) < 20, 5.0, 25.0)  # of each place: cold, then warm
>>> forecast = xr.DataArray(
...     climate + rng.normal(size=(11, 30)), dims=("number", "place"), name="t2m", attrs={"units": "degC"}
... )
>>> result = forecast.probi.cluster(2, node="place", random_state=0)
>>> result.t2m.round(0)
<xarray.DataArray 't2m' (cluster: 2)> ...
array([ 5., 25.])
...
>>> result.label.values
array([0, 0, ..., 1, 1], dtype=int32)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from probi import __version__
from probi._notes import counted
from probi._parallel import prefetched, release_freed_memory
from probi._types import Array, Floats
from probi.errors import InputError, MissingExtraError
from probi.inputs.block_copy import BlockCopy
from probi.inputs.dimensions import find_realization
from probi.inputs.fields import NO_LABEL, Block, Field, as_dataset
from probi.medoids import representatives
from probi.nodes import Nodes
from probi.objective import OUTLIER, Assignment, are_outliers, expected_distances, memberships
from probi.solver.result import Result
from probi.solver.solve import solve, solve_members
from probi.summary import Summary
from probi.validation import check_count, seed_of

try:
    import xarray as xr
except ImportError as error:
    raise MissingExtraError("xarray is not installed: pip install xarray") from error

__all__ = ["ProbiAccessor"]

# Data of at most this size is clustered in memory, larger data through a summary.
MAX_BYTES_IN_MEMORY = 1 << 27


@xr.register_dataarray_accessor("probi")
@xr.register_dataset_accessor("probi")
class ProbiAccessor:
    """Clustering of labeled arrays, as ``ds.probi``.

    Parameters
    ----------
    obj : DataArray or Dataset
        The data to cluster.

    Examples
    --------
    >>> import numpy as np
    >>> import probi.xarray
    >>> import xarray as xr
    >>> members = xr.DataArray(np.random.default_rng(0).normal(size=(11, 4, 5)), dims=("number", "y", "x"))
    >>> members.probi.cluster(3, node=("y", "x"), random_state=0).membership.shape
    (4, 5, 3)
    """

    def __init__(self, obj: Any) -> None:
        self._obj = obj

    def cluster(
        self,
        n_clusters: int,
        node: str | Sequence[str],
        realization: str | Sequence[str] | Literal[False] | None = None,
        features: str | Sequence[str] | None = None,
        *,
        weights: Any = None,
        scale: Mapping[str, float] | None = None,
        missing: str = "error",
        random_state: Any = None,
        **options: Any,
    ) -> Any:
        """Cluster nodes, such as the places of an ensemble forecast.

        Data above 128 MB is read block by block, in two passes: one into a :class:`probi.Summary`, one to label the
        nodes. Blocks follow the chunks of Dask or of the file, so each chunk is read once if it is short along the
        nodes. The second pass reads a copy of the values in a temporary file, which is as large as the data in memory,
        has no name, and is deleted afterwards; TMPDIR names its folder. Without room for twice as much on that disk,
        the data itself is read twice.

        Parameters
        ----------
        n_clusters : int
            Number of clusters.
        node, realization, features, weights, scale, missing
            As in :meth:`probi.Nodes.from_xarray`.
        random_state : None, int, Generator or RandomState, default=None
            The same seed gives the same result, for one set of chunks.
        **options
            Of :func:`probi.solve`, such as ``n_init`` or ``outliers``, whose label is -1.

        Returns
        -------
        Dataset
            On the coordinates of the nodes: ``label`` and ``distance``, the expected distance to the center of the
            label, and ``membership``, the probability that a realization is nearest to each center. With the dimension
            ``cluster``: the centers, under the names of the variables and in their units, and ``mass``. Nodes without
            any realization have NaN.

        See Also
        --------
        scenarios : Cluster the members instead.

        Examples
        --------
        >>> import numpy as np
        >>> import probi.xarray
        >>> import xarray as xr
        >>> rng = np.random.default_rng(0)
        >>> values = np.repeat([0.0, 0.0, 9.0], 4) + rng.normal(size=(5, 12))
        >>> stations = xr.DataArray(values, dims=("member", "station"), name="snow", attrs={"units": "cm"})
        >>> result = stations.probi.cluster(2, node="station", random_state=0)
        >>> result.snow.values.round(1), result.label.values
        (array([0.1, 9.1]), array([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1], dtype=int32))
        """
        _check_new_dimension(self._obj, "cluster")
        field = Field(self._obj, node, realization, features, weights, scale, missing, has_ids=False)
        with BlockCopy(field.n_bytes) as copy:
            run = _Run(field, n_clusters, random_state, options, copy)
            per_node = _NodeResults(field, n_clusters)
            for block, nodes in run.batches():
                per_node.add(block, nodes, run.result)
        result = xr.Dataset(coords=field.coords_without_realizations).assign_coords(cluster=np.arange(n_clusters))
        labels, dims = _with_nan(per_node.labels), field.roles.node
        result["label"] = (dims, labels, {"long_name": "cluster with the smallest expected distance"})
        result["distance"] = (
            dims,
            per_node.distances,
            {"long_name": "expected distance to the center of the cluster", **_unit_attribute(field)},
        )
        result["membership"] = (
            (*dims, "cluster"),
            per_node.memberships,
            {"long_name": "probability that the center of the cluster is the nearest", "units": "1"},
        )
        result["mass"] = ("cluster", run.result.clusters.mass, {"long_name": "weight times probability of the nodes"})
        result = result.assign(_centers(field, run.result.centers, "cluster", set(result.variables)))
        return result.assign_attrs(_attributes(field, run))

    def scenarios(
        self,
        n_clusters: int,
        realization: str | Sequence[str] | None = None,
        features: str | Sequence[str] | None = None,
        *,
        weights: Any = None,
        scale: Mapping[str, float] | None = None,
        missing: str = "error",
        random_state: Any = None,
        **options: Any,
    ) -> Any:
        """Cluster the members of an ensemble: a few scenarios with their probabilities.

        Parameters
        ----------
        n_clusters : int
            Number of scenarios.
        realization : str or sequence of str, default=None
            Dimensions of the members, found as in :meth:`probi.Nodes.from_xarray`. All other dimensions are features.
        features, weights, scale, missing
            As in :meth:`probi.Nodes.from_xarray`; ``weights="cos_latitude"`` weights the cells of a grid by area.
        random_state : None, int, Generator or RandomState, default=None
            The same seed gives the same result.
        **options
            Of :func:`probi.solve`, such as ``n_init``.

        Returns
        -------
        Dataset
            With the dimension ``scenario``, the most probable first: ``probability``, ``representative`` (the
            coordinate of the real member that represents it best, for ``ds.sel``; several variables
            ``representative_...`` if there are several dimensions of members), and its center, under the names of the
            variables and in their units. On the members: ``label`` and ``distance`` to the center.

        See Also
        --------
        cluster : Cluster places or other nodes.

        Examples
        --------
        >>> import numpy as np
        >>> import probi.xarray
        >>> import xarray as xr
        >>> rng = np.random.default_rng(0)
        >>> storm = np.where(np.arange(10) < 7, 0.0, 20.0)[:, None, None]  # three members of ten have a storm
        >>> coords = {"number": np.arange(100, 110)}
        >>> gusts = xr.DataArray(storm + rng.normal(size=(10, 3, 4)), coords, dims=("number", "y", "x"), name="gust")
        >>> result = gusts.probi.scenarios(2, random_state=0)
        >>> result.probability.values, result.gust.mean(("y", "x")).values.round()
        (array([0.7, 0.3]), array([ 0., 20.]))
        >>> gusts.sel(number=result.representative).shape  # the real members
        (2, 3, 4)
        """
        _check_new_dimension(self._obj, "scenario")
        node = find_realization(as_dataset(self._obj), features) if realization is None else realization
        field = Field(self._obj, node, False, features, weights, scale, missing, has_ids=False)
        if n_clusters > field.n_nodes:
            raise InputError(f"There are {counted(field.n_nodes, 'member')} for {n_clusters} scenarios: ask for fewer.")
        run = _Run(field, n_clusters, random_state, options, solve_in_memory=solve_members)
        (block, nodes), centers = next(run.batches()), run.result.centers
        chosen = representatives(nodes, centers).index
        # If members are equal, a scenario may have none; the nearest member then represents it.
        if (chosen < 0).any():
            chosen = np.where(chosen < 0, expected_distances(nodes, centers).argmin(axis=0), chosen)
        members = np.flatnonzero(block.present)[chosen]
        result, mass = xr.Dataset(coords=field.coords_without_realizations), run.result.clusters.mass
        # Added at once: a Dataset takes a third of a millisecond each time.
        variables: dict[str, Any] = {
            "scenario": ("scenario", np.arange(n_clusters)),
            "probability": ("scenario", mass / mass.sum(), {"long_name": "share of the members", "units": "1"}),
        }
        for name, coordinate in _coordinates_of(field, members).items():
            suffix = "" if len(field.roles.node) == 1 else f"_{name}"
            long_name = f"{name} of the member that represents the scenario"
            variables[f"representative{suffix}"] = ("scenario", coordinate, {"long_name": long_name})
        variables.update(_centers(field, centers, "scenario", {*result.coords, *variables}))
        labels, distances = np.full(field.n_nodes, NO_LABEL, np.int32), np.full(field.n_nodes, np.nan)
        labels[block.present], distances[block.present] = _nearest(nodes, run.result)
        variables["label"] = (field.roles.node, _with_nan(labels.reshape(field.shape)), {"long_name": "scenario"})
        variables["distance"] = (
            field.roles.node,
            distances.reshape(field.shape),
            {"long_name": "distance to the center of the scenario", **_unit_attribute(field)},
        )
        return result.assign(variables).assign_attrs(_attributes(field, run))


class _Run:
    """Solve a field; ``result`` is the solution.

    Large data goes through a summary, if there is a copy of blocks to fill for the next pass.
    """

    def __init__(
        self,
        field: Field,
        n_clusters: int,
        random_state: Any,
        options: Mapping[str, Any],
        copy: BlockCopy | None = None,
        solve_in_memory: Callable[..., Result] = solve,
    ) -> None:
        n_clusters = check_count("n_clusters", n_clusters)
        self.field, self.seed = field, seed_of(random_state)
        self._copy = copy
        self._in_memory: tuple[Block, Nodes] | None = None
        self._full: Nodes | None = None
        self.result: Result
        if copy is None or field.n_bytes <= MAX_BYTES_IN_MEMORY:
            block = field.read_all()
            nodes = Nodes(*block.arrays)
            self._in_memory = block, nodes
            self.result = solve_in_memory(nodes, n_clusters, random_state=self.seed, **options)
        else:
            summary = Summary(n_clusters, random_state=self.seed)
            blocks = prefetched(field.blocks(), ahead=1)
            if not field.is_loaded:  # a thread of its own writes: that may take as long as all computations
                blocks = prefetched(copy.adding(blocks), ahead=1)
            with closing(blocks):  # an error must not close the copy before its thread has ended
                for block in blocks:
                    summary.update(self._nodes(block))
            # A copy does not refer to the summary, which would stay in memory beside the results per node.
            self.result = replace(solve(summary, n_clusters, random_state=self.seed, **options))
            del summary
            release_freed_memory()

    def batches(self) -> Iterator[tuple[Block, Nodes]]:
        """Blocks and their nodes; the next block is read ahead."""
        if self._in_memory is not None:
            yield self._in_memory
            return
        source = self._copy if self._copy is not None and self._copy.is_there else self.field
        for block in prefetched(source.blocks(), ahead=1):
            yield block, self._nodes(block)

    def _nodes(self, block: Block) -> Nodes:
        """Nodes of a block. Without missing values, only their points differ from those of others as many."""
        points, probabilities, offsets, weights, _ = block.arrays
        if probabilities is not None:
            return Nodes(points, probabilities, offsets, weights)
        like = self._full
        if like is not None and len(like) == len(offsets) - 1:
            nodes = like.with_points(points)
        else:
            nodes = Nodes(points, None, offsets)
        self._full = nodes
        return nodes if weights is None else nodes.with_weights(weights)


class _NodeResults:
    """Results per node, filled block by block; NaN or NO_LABEL for nodes without a realization."""

    def __init__(self, field: Field, n_clusters: int) -> None:
        self.dims = field.roles.node
        self.labels = np.full(field.shape, NO_LABEL, np.int32)
        self.distances = np.full(field.shape, np.nan, field.dtype)
        self.memberships = np.full((*field.shape, n_clusters), np.nan, np.float32)

    def add(self, block: Block, nodes: Nodes, result: Result) -> None:
        """Compute the results of the nodes in a block."""
        labels, distances = _nearest(nodes, result)
        box = tuple(block.slices[name] for name in self.dims)
        for out, values in (
            (self.labels, labels),
            (self.distances, distances),
            (self.memberships, memberships(nodes, result.centers)),
        ):
            part = out[box]  # not filled yet
            rows = np.full((len(block.present), *values.shape[1:]), part.flat[0], out.dtype)
            rows[block.present] = values
            out[box] = rows.reshape(part.shape)


def _nearest(nodes: Nodes, result: Result) -> tuple[Array, Floats]:
    """Label of each node, -1 for outliers, and its distance to the nearest center."""
    assignment = Assignment.of(nodes, result.centers, exact=True)
    is_outlier = are_outliers(nodes, assignment.nearest, result.outlier_distance)
    return np.where(is_outlier, OUTLIER, assignment.labels), assignment.nearest


def _with_nan(labels: Array) -> Array:
    """Labels with NaN for NO_LABEL: float32 if there is any, since xarray has no missing integers."""
    is_missing = labels == NO_LABEL
    return np.where(is_missing, np.float32(np.nan), labels.astype(np.float32)) if is_missing.any() else labels


# -- the Dataset that is returned -------------------------------------------------------------------------------------


def _check_new_dimension(obj: Any, name: str) -> None:
    """Raise if the data has a dimension that the result adds."""
    if name in obj.sizes:
        raise InputError(f"There is a dimension {name!r} already: rename it, for example obj.rename({name}='group').")


def _centers(field: Field, centers: Floats, dim: str, taken: Set[Any]) -> dict[str, Any]:
    """A variable with the centers for each variable of the data, under other names than those that are taken."""
    variables = {}
    for name, (dims, values) in field.unstack(centers).items():
        attrs = {
            key: value
            for key, value in field.dataset[name].attrs.items()
            if key in ("units", "long_name", "standard_name")
        }
        unused = f"{name}_center" if name in taken else name
        variables[unused] = ((dim, *dims), values.astype(field.dtype), attrs)
    return variables


def _coordinates_of(field: Field, index: Array) -> dict[str, Array]:
    """Coordinates of some nodes along each dimension of the nodes; positions where there are none."""
    positions = np.unravel_index(index, field.shape)
    return {
        name: field.dataset.coords[name].to_numpy()[position] if name in field.dataset.coords else position
        for name, position in zip(field.roles.node, positions, strict=True)
    }


def _unit_attribute(field: Field) -> dict[str, str]:
    """The attribute "units" of distances; empty unless all features share one unit."""
    units = {field.dataset[name].attrs.get("units") for name in field.roles.variables}
    shared = units.pop() if len(units) == 1 and not field.is_scaled else None
    return {} if shared is None else {"units": str(shared)}


def _attributes(field: Field, run: _Run) -> dict[str, Any]:
    """Attributes of the Dataset that say how it was made, of types that NetCDF can store."""
    result = run.result
    return {
        "title": f"{counted(len(result.centers), 'cluster')} of {field.n_nodes:,} nodes by probabilistic k-median",
        "source": f"probi {__version__}",
        "node": ", ".join(field.roles.node),
        "realization": ", ".join(field.roles.realization) or "none",
        "features": ", ".join(field.roles.variables),
        "cost": float(result.cost),
        "standard_error": float(result.standard_error),
        "spread_cost": float(result.spread_cost),
        "random_state": str(run.seed),
    }
