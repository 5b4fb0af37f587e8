"""Labeled arrays of xarray as nodes, read block by block, and centers back on the dimensions of the features."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from probi import _notes
from probi._types import Array, Floats, Mask
from probi.errors import InputError, InputWarning
from probi.inputs.dimensions import Names, check_labeled, choose_roles, written
from probi.validation import check_choice

# Size of a block: large enough to read at full speed, small enough to keep several in memory. A larger chunk of the
# file is one block up to the second size; an even larger chunk is divided, and read once per block.
BLOCK_BYTES, MAX_BLOCK_BYTES = 1 << 22, 1 << 26

MISSING = ("error", "absent")

ALL_NAN = "All values are NaN: no node has a realization."

# By the CF standard name of a coordinate: the first letter after "degrees" in its units, as in "degrees_north", and its
# usual names.
EARTH = {"latitude": ("n", ("latitude", "lat")), "longitude": ("e", ("longitude", "lon"))}

# The value of ``weights`` that weights the cells of a grid by area.
COS_LATITUDE = "cos_latitude"

# Label of nodes without a realization; an outlier has -1.
NO_LABEL = np.iinfo(np.int32).min


class Block(NamedTuple):
    """Nodes in a box: slices along the dimensions of the nodes, and the arrays of those that have a realization."""

    slices: dict[str, slice]
    present: Mask  # of all nodes at these positions, in C order
    points: Array
    probabilities: Array | None
    offsets: Array
    weights: Array | None
    ids: Array | None

    @property
    def arrays(self) -> tuple[Array, Array | None, Array, Array | None, Array | None]:
        """Arguments of :class:`probi.Nodes`."""
        return self[2:]


class VariableColumns(NamedTuple):
    """Features of one variable: a column for each position along its own dimensions."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    start: int

    @property
    def stop(self) -> int:
        """End of its columns."""
        return self.start + math.prod(self.shape)


class Field:
    """Labeled arrays with a role for each dimension.

    A block has whole nodes: all realizations and features of a box along the dimensions of the nodes. Blocks end where
    chunks of the data end, so that each chunk is read once, if blocks of that kind are not too large.

    Parameters
    ----------
    obj : DataArray or Dataset
    node, realization, features, weights, scale, missing
        As in :meth:`probi.Nodes.from_xarray`.
    strict : bool, default=True
        Whether to warn of variables that are left out.
    has_ids : bool, default=True
        Whether blocks have the ids of nodes, which are their coordinates.
    """

    def __init__(
        self,
        obj: Any,
        node: Names,
        realization: Names | Literal[False] | None = None,
        features: Names | None = None,
        weights: Any = None,
        scale: Mapping[str, float] | None = None,
        missing: str = "error",
        strict: bool = True,
        has_ids: bool = True,
    ) -> None:
        check_choice("missing", missing, MISSING)
        dataset = as_dataset(obj)
        self.roles = choose_roles(dataset, node, realization, features, strict)
        self.dataset = dataset[list(self.roles.variables)]
        self.missing, self._has_ids = missing, has_ids
        self.columns = _columns(self.dataset, self.roles.node, self.roles.realization)
        self.shape: tuple[int, ...] = tuple(self.dataset.sizes[name] for name in self.roles.node)
        self.n_realizations: int = math.prod(self.dataset.sizes[name] for name in self.roles.realization)
        self.n_columns = self.columns[-1].stop
        self.dtype: np.dtype[Any] = _dtype(self.dataset)
        self.coordinates = _coordinates(self.dataset, self.roles.node)
        self._weights, self._factors = self._weights_and_factors(weights)
        self._apply_scale(scale)
        # Columns that have a value: unknown until the first values are read.
        self._kept: Mask | None = None

    # -- properties -------------------------------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Number of nodes, including those without any realization."""
        return math.prod(self.shape)

    @property
    def n_bytes(self) -> int:
        """Size of all points in memory."""
        return self.n_nodes * self.n_realizations * self.n_columns * self.dtype.itemsize

    @property
    def kept(self) -> Mask:
        """Mask of the columns that have a value; all of them before any values are read."""
        return np.ones(self.n_columns, np.bool_) if self._kept is None else self._kept

    @property
    def is_scaled(self) -> bool:
        """Whether points are the values of the variables multiplied by factors."""
        return self._factors is not None

    @property
    def is_loaded(self) -> bool:
        """Whether all values are arrays in memory already."""
        return all(map(_is_loaded, self.dataset.data_vars.values()))

    @property
    def coords_without_realizations(self) -> Any:
        """Coordinates of nodes and features, as xarray has them, for a Dataset of results."""
        dropped = [name for name in self.roles.realization if name in self.dataset.dims]
        return self.dataset.drop_dims(dropped).coords

    def _weights_and_factors(self, weights: Any) -> tuple[Any, Floats | None]:
        """Weights of nodes as a DataArray, and factors of features; each None if there are none."""
        if weights is None:
            return None, None
        nodes = set(self.roles.node)
        if not isinstance(weights, str):
            if not set(getattr(weights, "dims", ("",))) <= nodes:
                raise InputError(f"weights must be a DataArray along {written(self.roles.node)}, or {COS_LATITUDE!r}.")
            return weights, None
        check_choice("weights", weights, (COS_LATITUDE,))
        latitude = earth_coordinate(self.dataset, "latitude")
        if latitude is None:
            raise InputError(
                f"weights={COS_LATITUDE!r} needs a coordinate called latitude or lat, or one with that standard name."
            )
        # At a pole rounding may make the cosine negative.
        cosine = np.abs(np.cos(np.deg2rad(latitude.astype(np.float64))))
        if set(latitude.dims) <= nodes:
            return cosine, None
        factors = np.ones(self.n_columns)
        for part in self.columns:
            if set(latitude.dims) <= set(part.dims):
                sizes = {name: self.dataset.sizes[name] for name in part.dims if name not in latitude.dims}
                # A squared distance is a sum over cells, so the factor of each is the square root of its area.
                root = np.sqrt(np.maximum(cosine, 1e-16)).expand_dims(sizes).transpose(*part.dims)
                factors[part.start : part.stop] = root.to_numpy().reshape(-1)
        return None, factors

    def _apply_scale(self, scale: Mapping[str, float] | None) -> None:
        """Divide the factors of features by the scales of their variables."""
        names = [part.name for part in self.columns]
        divisors = check_scale(names, [self.dataset[name].attrs.get("units") for name in names], scale)
        if divisors is None:
            return
        factors = np.ones(self.n_columns) if self._factors is None else self._factors
        for part, divisor in zip(self.columns, divisors, strict=True):
            factors[part.start : part.stop] /= divisor
        self._factors = factors

    # -- blocks -----------------------------------------------------------------------------------------------------

    def blocks(self, in_order: bool = False) -> Iterator[Block]:
        """Read the nodes in blocks; blocks without any realization are left out.

        With ``in_order`` nodes are in C order of their dimensions, otherwise in the order of the chunks.
        """
        any_present = False
        for slices in self.boxes(in_order):
            block = self.read(slices)
            if block.present.any():
                any_present = True
                yield block
        if not any_present:
            raise InputError(ALL_NAN)

    def read_all(self) -> Block:
        """Read all nodes as one block."""
        block = self.read({name: slice(0, size) for name, size in zip(self.roles.node, self.shape, strict=True)})
        if not block.present.any():
            raise InputError(ALL_NAN)
        return block

    def boxes(self, in_order: bool = False) -> list[dict[str, slice]]:
        """For each block, its slices along the dimensions of the nodes."""
        per_node = self.n_realizations * self.n_columns * self.dtype.itemsize
        if in_order:
            per_row, chunks = per_node * math.prod(self.shape[1:]), self._chunks()
            edges = _edges(self.shape[:1], chunks[:1], per_row) + [[0, size] for size in self.shape[1:]]
        else:
            edges = _edges(self.shape, self._chunks(), per_node)
        ranges = [list(itertools.pairwise(dim)) for dim in edges]
        return [
            {name: slice(*range_) for name, range_ in zip(self.roles.node, box, strict=True)}
            for box in itertools.product(*ranges)
        ]

    def _chunks(self) -> list[int]:
        """Sizes of the chunks of the largest variable along the dimensions of the nodes; 1 without chunks."""
        largest = max(self.columns, key=lambda part: part.stop - part.start).name
        variable = self.dataset[largest]
        # Loaded data keeps the encoding of its file, but is no longer read in its chunks.
        in_file = {} if _is_loaded(variable) else variable.encoding.get("preferred_chunks") or {}
        by_dask = {name: max(sizes) for name, sizes in variable.chunksizes.items()}
        return [int(by_dask.get(name) or in_file.get(name) or 1) for name in self.roles.node]

    def read(self, slices: dict[str, slice]) -> Block:
        """Read the nodes in a box."""
        values = self._values(slices)
        present: Mask = np.ones(len(values), np.bool_)
        weights, ids = self._node_weights(slices), self._ids(slices)
        n, m, d = values.shape
        if not np.isnan(values.max()):  # the maximum propagates NaN, and needs no temporary array
            self._keep(np.ones(d, np.bool_))
            return Block(slices, present, values.reshape(n * m, d), None, np.arange(n + 1) * m, weights, ids)
        missing = self._find_missing(values, slices)
        present = np.asarray(~missing.all(axis=1))
        counts = (~missing).sum(axis=1)[present]
        points = values[~missing][:, self._kept]  # realizations in order, of present nodes alone
        return Block(
            slices,
            present,
            points,
            np.full(len(points), 1.0 / m, self.dtype),
            np.concatenate([[0], np.cumsum(counts)]),
            None if weights is None else weights[present],
            None if ids is None else ids[present],
        )

    def _values(self, slices: dict[str, slice]) -> Array:
        """Scaled values of all variables in a box, (n, m, d), in one dtype."""
        loaded = self.dataset.isel(slices).compute()
        if len(self.columns) == 1:  # without a copy, if possible
            out = np.ascontiguousarray(self._variable_values(loaded, self.columns[0]), self.dtype)
        else:
            n_nodes = math.prod(loaded.sizes[name] for name in self.roles.node)
            out = np.empty((n_nodes, self.n_realizations, self.n_columns), self.dtype)
            for part in self.columns:
                out[:, :, part.start : part.stop] = self._variable_values(loaded, part)
        if self._factors is not None:
            out = out * self._factors.astype(self.dtype)
        return out

    def _variable_values(self, loaded: Any, part: VariableColumns) -> Array:
        """Values of one variable, (n, m, its columns); without a realization dimension, they are the same for all."""
        variable = loaded[part.name]
        absent = {name: loaded.sizes[name] for name in self.roles.realization if name not in variable.dims}
        if absent:
            variable = variable.expand_dims(absent)
        values: Array = variable.transpose(*self.roles.node, *self.roles.realization, *part.dims).to_numpy()
        n_nodes = math.prod(loaded.sizes[name] for name in self.roles.node)
        return values.reshape(n_nodes, self.n_realizations, part.stop - part.start)

    def _find_missing(self, values: Array, slices: dict[str, slice]) -> Mask:
        """Which realizations are missing, (n, m); features without any value are left out from now on."""
        is_nan = np.isnan(values)
        all_nan = np.asarray(is_nan.all(axis=2))
        if all_nan.all():
            return all_nan
        self._keep(np.asarray(~is_nan.all(axis=(0, 1))))
        any_nan = np.asarray(is_nan[:, :, self._kept].any(axis=2))
        incomplete = np.argwhere(any_nan & ~all_nan)
        if len(incomplete) and self.missing == "error":
            node, realization = incomplete[0]
            raise InputError(
                f"Realization {realization} of node {self._describe(slices, node)} has values for some features and "
                "NaN for others. Fill them in, or write missing='absent' to leave out such realizations."
            )
        return any_nan

    def _keep(self, kept: Mask) -> None:
        """Remember which columns have values; raise if a later block has values in others."""
        if self._kept is None:
            self._kept = kept
        elif (kept & ~self._kept).any():
            column = int(np.flatnonzero(kept & ~self._kept)[0])
            name = next(part.name for part in self.columns if part.start <= column < part.stop)
            raise InputError(
                f"A feature of {name!r} is NaN for the first nodes, but not for later ones: leave out the feature, or "
                "the nodes that lack it."
            )

    # -- coordinates ------------------------------------------------------------------------------------------------

    def _ids(self, slices: dict[str, slice]) -> Array | None:
        """Ids of the nodes in a box: coordinates, with a field per dimension if there are several; None without any."""
        if not self._has_ids or not any(name in self.dataset.coords for name in self.roles.node):
            return None
        parts = [self.coordinates[name][slices[name]] for name in self.roles.node]
        if len(parts) == 1:
            return parts[0]
        shape = tuple(map(len, parts))
        out = np.empty(
            math.prod(shape), [(name, part.dtype) for name, part in zip(self.roles.node, parts, strict=True)]
        )
        for axis, (name, part) in enumerate(zip(self.roles.node, parts, strict=True)):
            along = part.reshape([-1 if other == axis else 1 for other in range(len(shape))])
            out[name] = np.broadcast_to(along, shape).reshape(-1)
        return out

    def _node_weights(self, slices: dict[str, slice]) -> Array | None:
        """Weights of the nodes in a box, in C order; None if all are 1."""
        if self._weights is None:
            return None
        selected = self._weights.isel({name: slices[name] for name in self._weights.dims})
        sizes = {name: slices[name].stop - slices[name].start for name in self.roles.node if name not in selected.dims}
        values: Array = selected.expand_dims(sizes).transpose(*self.roles.node).to_numpy()
        return values.reshape(-1)

    def _describe(self, slices: dict[str, slice], node: int) -> str:
        """Coordinates of a node in a box, for messages."""
        sizes = [slices[name].stop - slices[name].start for name in self.roles.node]
        positions = np.unravel_index(node, sizes)
        return ", ".join(
            f"{name}={self.coordinates[name][slices[name].start + position]}"
            for name, position in zip(self.roles.node, positions, strict=True)
        )

    # -- centers ----------------------------------------------------------------------------------------------------

    def unstack(self, centers: Array) -> dict[str, tuple[tuple[str, ...], Array]]:
        """Centers (k, n_features) by variable, in its own units: its feature dimensions and an array (k, ...).

        Features that are NaN everywhere in the data are NaN in the centers.
        """
        columns = np.full((len(centers), self.n_columns), np.nan)
        columns[:, self.kept] = centers
        if self._factors is not None:
            columns /= self._factors
        return {
            part.name: (part.dims, columns[:, part.start : part.stop].reshape(len(centers), *part.shape))
            for part in self.columns
        }


def as_dataset(obj: Any) -> Any:
    """Dataset of a DataArray, whose variable is called "value" if it has no usable name; a Dataset is unchanged."""
    check_labeled(obj)
    if hasattr(obj, "data_vars"):
        return obj
    has_name = obj.name is not None and obj.name not in obj.coords and obj.name not in obj.dims
    return obj.to_dataset(name=obj.name if has_name else "value")


def check_scale(names: Sequence[str], units: Sequence[Any], scale: Mapping[str, float] | None) -> list[float] | None:
    """Divisor of each feature, or None without ``scale``; then features of different units are an error."""
    if scale is None:
        different = {str(unit) for unit in units if unit is not None}
        if len(different) > 1:
            listed = ", ".join(f"{name} ({unit or 'no unit'})" for name, unit in zip(names, units, strict=True))
            example = ", ".join(f"{name!r}: ..." for name in names)
            raise InputError(
                f"Features have different units: {listed}. Write scale={{{example}}} with the difference in each "
                "that counts as much as those in the others, or select features of one unit."
            )
        return None
    if not set(scale) <= set(names):
        raise InputError(f"scale must give a number for features by name, among {', '.join(map(repr, names))}.")
    divisors = [float(scale.get(name, 1.0)) for name in names]
    if not all(math.isfinite(value) and value > 0.0 for value in divisors):
        raise InputError("Scales must be positive numbers.")
    return divisors


def _columns(dataset: Any, node: tuple[str, ...], realization: tuple[str, ...]) -> list[VariableColumns]:
    """Columns of each variable, one variable after the other."""
    columns, start = [], 0
    for name, variable in dataset.data_vars.items():
        dims = tuple(dim for dim in variable.dims if dim not in node and dim not in realization)
        columns.append(VariableColumns(name, dims, tuple(dataset.sizes[dim] for dim in dims), start))
        start = columns[-1].stop
        if columns[-1].stop == columns[-1].start:
            raise InputError(f"Variable {name!r} has no features: one of its dimensions {dims} has size 0.")
    return columns


def _is_loaded(variable: Any) -> bool:
    """Whether the values of a variable are an array in memory already."""
    return bool(getattr(variable.variable, "_in_memory", False))


def _dtype(dataset: Any) -> np.dtype[Any]:
    """float32 if all variables are, else float64."""
    small = all(variable.dtype.kind == "f" and variable.dtype.itemsize <= 4 for variable in dataset.data_vars.values())
    return np.dtype(np.float32 if small else np.float64)


def _edges(shape: Sequence[int], chunks: Sequence[int], per_node: int) -> list[list[int]]:
    """Edges of blocks along each dimension: a block is several whole chunks, or a part of a chunk that is too large."""
    steps = [min(chunk, size) for chunk, size in zip(chunks, shape, strict=True)]
    n_bytes = per_node * math.prod(steps)
    if n_bytes > MAX_BLOCK_BYTES:
        n_times = 1
        for axis, step in enumerate(steps):  # the first dimension first: parts along it are contiguous in a chunk
            steps[axis] = max(1, step * MAX_BLOCK_BYTES // n_bytes)
            n_times *= -(-step // steps[axis])
            n_bytes = n_bytes // step * steps[axis]
            if n_bytes <= MAX_BLOCK_BYTES:
                break
        if n_times > 1:
            _notes.warn(
                "A chunk holds more nodes than fit in memory with all their realizations, so each chunk is read "
                f"{n_times} times. Store the data in chunks that are whole along the realizations and features, and "
                "shorter along the nodes.",
                InputWarning,
            )
    for axis in reversed(range(len(steps))):
        n_chunks = max(1, BLOCK_BYTES // max(1, n_bytes))
        grown = min(shape[axis], steps[axis] * n_chunks)
        n_bytes = n_bytes // steps[axis] * grown
        steps[axis] = grown
        if grown < shape[axis]:
            break
    return [[*range(0, size, step), size] for size, step in zip(shape, steps, strict=True)]


def earth_coordinate(dataset: Any, kind: str) -> Any:
    """Coordinate of the latitude or longitude, found by standard name, by units or by name; None if there is none."""
    letter, names = EARTH[kind]
    units = re.compile(rf"degrees?_?{letter}", re.IGNORECASE)
    coords = [(str(name).lower(), coordinate) for name, coordinate in dataset.coords.items() if coordinate.dims]
    by_standard_name = [c for _, c in coords if c.attrs.get("standard_name") == kind]
    by_units = [c for _, c in coords if units.match(str(c.attrs.get("units", "")))]
    by_name = [c for name, c in coords if name in names]
    return next(iter([*by_standard_name, *by_units, *by_name]), None)


def _coordinates(dataset: Any, node: tuple[str, ...]) -> dict[str, Array]:
    """Coordinate of each dimension of the nodes, as ids; positions where there is none."""
    ids = {}
    for name in node:
        index = dataset.indexes.get(name)
        if index is None:
            ids[name] = np.arange(dataset.sizes[name])
            continue
        if not index.is_unique:
            repeated = index[index.duplicated()][0]
            raise InputError(
                f"Coordinate {name!r} has {repeated} more than once, so nodes would share an id. Write "
                f"obj.drop_duplicates({name!r}), or obj.drop_vars({name!r}) to number the nodes."
            )
        is_sorted = index.is_monotonic_increasing or index.is_monotonic_decreasing
        if len(node) > 1 and index.dtype.kind in "fiu" and not is_sorted:
            _notes.warn(
                f"Coordinate {name!r} is not sorted, so results cannot be drawn as a map. Write "
                f"obj.sortby({name!r}) first.",
                InputWarning,
            )
        ids[name] = _as_ids(index)
    return ids


def _as_ids(index: Any) -> Array:
    """Values of an index: numbers, dates and text as they are, several levels as fields, other objects as text."""
    if getattr(index, "nlevels", 1) > 1:
        levels = [_as_ids(index.get_level_values(i)) for i in range(index.nlevels)]
        names = [str(name) if name is not None else f"level_{i}" for i, name in enumerate(index.names)]
        out = np.empty(len(index), [(name, level.dtype) for name, level in zip(names, levels, strict=True)])
        for name, level in zip(names, levels, strict=True):
            out[name] = level
        return out
    values = index.to_numpy()
    if values.dtype.kind in "fiubMU":
        return np.asarray(values)
    if values.dtype.kind == "m":
        return np.asarray(values).astype(str)
    texts = [v if isinstance(v, str) else v.isoformat() if hasattr(v, "isoformat") else str(v) for v in values]
    return np.array(texts, dtype=object)
