"""Nodes as flat arrays: their layout, the values computed from them, selections and concatenation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from probi import _notes, _parallel
from probi._kernels import pull
from probi._notes import counted
from probi._types import Array, Floats, Integers
from probi.errors import InputError
from probi.validation import NodeParts, as_index, checked_parts, concat_ids, constant, frozen, warn_of_rounding


class NodeLayout:
    """Base class of :class:`probi.Nodes`, which documents the layout and has the other ways to make nodes."""

    points: Array  # (n_realizations, n_features) float32 or float64
    ids: Array | None  # (n_nodes,)
    magnitude: float  # at least the largest absolute coordinate, for margins of rounding

    def __init__(
        self,
        points: ArrayLike,
        probabilities: ArrayLike | None,
        offsets: ArrayLike,
        weights: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> None:
        parts, n_rounded = checked_parts(points, probabilities, offsets, weights, ids)
        self._set(parts)
        if n_rounded:
            warn_of_rounding(n_rounded, len(self))

    def _set(self, parts: NodeParts) -> Self:
        for name, value in zip(NodeParts._fields, parts, strict=True):
            if value is not None:
                self.__dict__[name] = value
        self.ids = parts.ids
        self._statistics: dict[str, Any] = self.__dict__.pop("statistics")
        self._n_nodes = len(parts.points) if parts.offsets is None else len(parts.offsets) - 1
        self._lock = _parallel.Lock()
        return self

    @classmethod
    def _trusted(cls, **parts: Any) -> Self:
        """Make nodes from the parts of others, some of them replaced."""
        return cls.__new__(cls)._set(NodeParts(**parts))

    @classmethod
    def _checked(cls, *arrays: Any) -> tuple[Self, int]:
        """Make nodes as the constructor does; also return for how many rounding put the probabilities above 1."""
        parts, n_rounded = checked_parts(*arrays)
        return cls.__new__(cls)._set(parts), n_rounded

    def _parts(self) -> dict[str, Any]:
        """Values of NodeParts by name."""
        return {name: self.__dict__.get(name) for name in NodeParts._fields} | {"statistics": dict(self._statistics)}

    # Arrays of ones, and the offsets of certain nodes, are made on first use: writing them takes longer than reading
    # many points.

    @cached_property
    def probabilities(self) -> Array:
        """Of each realization, (n_realizations,), in the dtype of the points."""
        return frozen(np.ones(len(self.points), self.dtype))

    @cached_property
    def offsets(self) -> Integers:
        """Start of each node, followed by the number of points, (n_nodes + 1,)."""
        return frozen(np.arange(len(self) + 1))

    @cached_property
    def weights(self) -> Floats:
        """How many nodes each one represents, (n_nodes,)."""
        return constant(1.0, len(self))

    @cached_property
    def total_probabilities(self) -> Floats:
        """Sum of the probabilities of each node, (n_nodes,)."""
        return constant(1.0, len(self))

    # -- what they are ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._n_nodes

    @property
    def n_realizations(self) -> int:
        """Realizations of all nodes together."""
        return len(self.points)

    @property
    def n_features(self) -> int:
        """Dimension of the space."""
        return int(self.points.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n_nodes, n_features), so that scikit-learn's tools can split nodes like rows."""
        return len(self), self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: of points and probabilities."""
        return self.points.dtype

    @property
    def is_certain(self) -> bool:
        """Whether each node has one realization."""
        return self.n_realizations == len(self)

    @property
    def mass(self) -> Floats:
        """Weight times total probability, of each node."""
        if "total_probabilities" not in self.__dict__:
            return self.weights
        return self.statistic("mass", lambda: frozen(self.weights * self.total_probabilities))  # type: ignore[no-any-return]

    @property
    def gravity_centers(self) -> Array:
        """Centers of gravity, (n_nodes, n_features); float64, or the points themselves if nodes are certain."""
        # The points themselves are not kept as a statistic: parts of the nodes would copy them twice.
        return self.points if self.is_certain else self._moments()[0]

    @property
    def variances(self) -> Floats:
        """Mean squared distance of each node to its center of gravity."""
        if self.is_certain:
            return self.statistic("no variances", lambda: frozen(np.zeros(len(self))))  # type: ignore[no-any-return]
        return self._moments()[1]

    @property
    def _squared_radii(self) -> Floats:
        """Largest squared distance of a realization of each node to its center of gravity."""
        return self.variances if self.is_certain else self._moments()[2]

    def _moments(self) -> tuple[Array, Floats, Floats]:
        return self.statistic("moments", self._compute_moments)  # type: ignore[no-any-return]

    def _compute_moments(self) -> tuple[Array, Floats, Floats]:
        gravity, variances, radii = np.empty(self.shape), np.empty(len(self)), np.empty(len(self))
        _parallel.run(
            pull.node_moments, self.pieces(), self.points, self.probabilities, self.offsets,
            self.total_probabilities, gravity, variances, radii,
        )  # fmt: skip
        return frozen(gravity), frozen(variances), frozen(radii)

    def statistic(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a cached array (or tuple of arrays) with one row per node, computed once, by one thread, on first use.

        :meta private:
        """
        if name not in self._statistics:
            with self._lock():
                if name not in self._statistics:
                    self._statistics[name] = compute()
        return self._statistics[name]

    def known(self, name: str) -> Any:
        """Return a cached statistic, or None if it was not computed.

        :meta private:
        """
        return self._statistics.get(name)

    def pieces(self, at_most: int | None = None, at_least: int = 1) -> list[tuple[int, int]]:
        """Divide the nodes into ranges of about equal work, which depend only on the nodes and the arguments.

        ``at_least`` is for work that grows with the number of centers.

        :meta private:
        """
        work = (self.offsets[1:] + np.arange(len(self))) * self.n_features
        return _parallel.ranges_of_equal_work(work, at_most, at_least)

    # -- parts and copies -------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Self:
        """Select nodes: a slice gives a view, an index array or a mask a copy, an integer one node."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._cut(start, max(start, stop))
            return self.take(np.arange(start, stop, step))
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # how scikit-learn indexes objects with a shape
        index = np.asarray(key)
        if index.dtype == bool:
            if index.shape != (len(self),):
                raise InputError(f"A mask of shape {index.shape} does not fit {len(self)} nodes.")
            return self.take(np.flatnonzero(index))
        return self.take(np.atleast_1d(index))

    def _cut(self, start: int, stop: int) -> Self:
        offsets = self.__dict__.get("offsets")
        first, last = (start, stop) if offsets is None else (offsets[start], offsets[stop])
        cut_offsets = None if offsets is None else frozen(offsets[start : stop + 1] - first)
        ids = None if self.ids is None else self.ids[start:stop]
        return self._made_of(
            [self], lambda arrays: arrays[0][start:stop], lambda arrays: arrays[0][first:last], cut_offsets, ids,
            self.magnitude,
        )  # fmt: skip

    def take(self, index: ArrayLike) -> Self:
        """Nodes with these indices, in this order.

        Indices may repeat; negative ones count from the end.

        Parameters
        ----------
        index : array-like of int
            Indices of nodes.

        Returns
        -------
        Nodes
            A copy.

        Examples
        --------
        >>> import probi
        >>> nodes = probi.Nodes.from_points([[0.0], [1.0], [2.0]], ids=["a", "b", "c"])
        >>> nodes.take([2, 0]).ids
        array(['c', 'a'], dtype='<U1')
        """
        return self._gathered([self], [as_index(index, len(self))])

    @classmethod
    def _gathered(
        cls, parts: Sequence[Self], indices: Sequence[Integers], places: Sequence[Integers] | None = None
    ) -> Self:
        """Nodes of several parts of one form, by their valid indices in each; each is copied once.

        ``places`` are their indices in the result; None: one part after the other.
        """
        ends = np.cumsum([len(index) for index in indices])
        ids = _joined_ids([None if part.ids is None else part.ids[i] for part, i in zip(parts, indices, strict=True)])
        if ids is not None and places is not None:
            ids = frozen(ids[np.argsort(np.concatenate(places))])
        targets: Sequence[slice | Integers] = places or [
            slice(end - len(index), end) for index, end in zip(indices, ends, strict=True)
        ]
        copies: list[_Copy] = list(zip(range(len(parts)), indices, targets, strict=True))
        offsets, copies_of_rows = None, cast(Iterable[_Copy], copies)
        if not all(part.is_certain for part in parts):
            offsets = np.zeros(ends[-1] + 1, np.int64)
            for number, index, target in copies:
                offsets[1:][target] = np.diff(parts[number].offsets)[index]
            offsets = frozen(np.cumsum(offsets))
            copies_of_rows = _CopiesOfRows([part.offsets for part in parts], offsets, copies)
            if offsets[-1] <= ROWS_AT_ONCE:
                copies_of_rows = list(copies_of_rows)  # made once for all arrays
        return cls._made_of(
            parts, partial(_gather, copies, ends[-1]),
            partial(_gather, copies_of_rows, ends[-1] if offsets is None else offsets[-1]), offsets, ids,
            max(part.magnitude for part in parts),
        )  # fmt: skip

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Concatenate nodes.

        Parameters
        ----------
        parts : sequence of Nodes
            With the same number of features; all with ids of one type, or all without.

        Returns
        -------
        Nodes
            A copy, if there is more than one part.

        Examples
        --------
        >>> import probi
        >>> a, b = probi.Nodes.from_points([[0.0]]), probi.Nodes.from_dense([[[1.0], [2.0]]])
        >>> probi.Nodes.concat([a, b])
        Nodes(2 nodes, 3 realizations (1 to 2 per node), 1 feature, float64, mass 2)
        """
        if not parts:
            raise InputError("Nothing to concatenate: pass at least one Nodes.")
        if len({part.n_features for part in parts}) > 1:
            raise InputError(f"Parts have different numbers of features: {[part.n_features for part in parts]}.")
        if len({part.ids is None for part in parts}) > 1:
            raise InputError("Some parts have ids and some have none. All or none of them need ids.")
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0] + [part.n_realizations for part in parts])
        offsets = None
        if any("offsets" in part.__dict__ for part in parts):
            shifted = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
            offsets = frozen(np.concatenate([*shifted, starts[-1:]]))
        ids, magnitude = _joined_ids([part.ids for part in parts]), max(part.magnitude for part in parts)
        return cls._made_of(parts, _concatenated, _concatenated, offsets, ids, magnitude)

    @classmethod
    def _made_of(
        cls,
        parts: Sequence[Self],
        by_node: Callable[[Sequence[Array]], Array],
        by_realization: Callable[[Sequence[Array]], Array],
        offsets: Array | None,
        ids: Array | None,
        magnitude: float,
    ) -> Self:
        """Nodes made of parts, by functions that make one of their arrays with a row per node, and per realization."""

        def made(name: str, join: Callable[[Sequence[Array]], Array]) -> Array | None:
            if not any(name in part.__dict__ for part in parts):
                return None
            return join([getattr(part, name) for part in parts])

        points = by_realization([part.points for part in parts])
        shared = [name for name in list(parts[0]._statistics) if all(name in part._statistics for part in parts[1:])]
        return cls._trusted(
            points=points,
            ids=ids,
            magnitude=magnitude,
            offsets=offsets,
            probabilities=made("probabilities", by_realization),
            weights=made("weights", by_node),
            total_probabilities=made("total_probabilities", by_node),
            statistics={name: _each(by_node, [part._statistics[name] for part in parts]) for name in shared},
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeLayout):
            return NotImplemented
        if self.dtype != other.dtype or self.shape != other.shape or (self.ids is None) != (other.ids is None):
            return False
        names = ("offsets", "weights", "probabilities", "points") + (("ids",) if self.ids is not None else ())
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self._parts() | {"statistics": {}})

    def __repr__(self) -> str:
        per_node = f" ({self._realizations_per_node()})" if len(self) else ""
        return (
            f"Nodes({counted(len(self), 'node')}, {counted(self.n_realizations, 'realization')}{per_node}, "
            f"{counted(self.n_features, 'feature')}, {self.dtype}, mass {math.fsum(self.mass):,.6g})"
        )

    def _realizations_per_node(self) -> str:
        sizes = np.diff(self.offsets)
        low, high = sizes.min(), sizes.max()
        return f"{low:,} per node" if low == high else f"{low:,} to {high:,} per node"

    def _repr_html_(self) -> str:
        """Show the first nodes in a notebook."""
        shown, d = min(len(self), _notes.MAX_ROWS // 2), min(self.n_features, _notes.MAX_COLUMNS)
        means = self[:shown].gravity_centers[:, :d]
        rows = [
            [
                str(i) if self.ids is None else str(self.ids[i]),
                f"{self.offsets[i + 1] - self.offsets[i]:,}", f"{self.mass[i]:.6g}", *(f"{x:.6g}" for x in means[i]),
            ]
            for i in range(shown)
        ]  # fmt: skip
        header = ["node" if self.ids is None else "id", "realizations", "mass", *(f"mean x{j}" for j in range(d))]
        return _notes.html_table(repr(self), rows, header)


def _joined_ids(ids: Sequence[Array | None]) -> Array | None:
    """Ids of nodes of one or several parts; None if a part has none."""
    given = [array for array in ids if array is not None]
    if len(given) < len(ids):
        return None
    return frozen(given[0] if len(given) == 1 else concat_ids(given))


def _concatenated(arrays: Sequence[Array]) -> Array:
    return frozen(np.concatenate(arrays))


# Part, indices of rows in it, and where they go.
_Copy = tuple[int, Integers, slice | Integers]

# Realizations that are copied at a time: their indices take memory too.
ROWS_AT_ONCE = 1 << 16


class _CopiesOfRows:
    """Copies of the realizations of nodes, a block at a time."""

    def __init__(self, sources: list[Integers], offsets: Integers, copies: Sequence[_Copy]) -> None:
        self._sources, self._offsets, self._copies = sources, offsets, copies
        self._step = 1 + ROWS_AT_ONCE * (len(offsets) - 1) // (1 + int(offsets[-1]))

    def __iter__(self) -> Iterator[_Copy]:
        for number, index, target in self._copies:
            for start, stop in _parallel.ranges(len(index), self._step):
                rows = _rows_of(self._sources[number], index[start:stop])
                if isinstance(target, slice):
                    first, last = self._offsets[[target.start + start, target.start + stop]]
                    yield number, rows, slice(first, last)
                else:
                    yield number, rows, _rows_of(self._offsets, target[start:stop])


def _rows_of(offsets: Integers, chosen: Integers) -> Integers:
    """Realizations of some nodes."""
    sizes = np.diff(offsets)[chosen]
    ends = np.cumsum(sizes)
    rows: Integers = np.repeat(offsets[chosen] - (ends - sizes), sizes)
    rows += np.arange(len(rows))
    return rows


def _gather(copies: Iterable[_Copy], n_rows: int, arrays: Sequence[Array]) -> Array:
    """Array with rows of several arrays."""
    out = None
    for number, rows, target in copies:
        if len(rows) == n_rows and isinstance(target, slice):  # all at once, which is faster without ``out``
            return frozen(arrays[number].take(rows, axis=0))
        if out is None:
            out = _parallel.large_array((int(n_rows), *arrays[0].shape[1:]), arrays[0].dtype)
        if isinstance(target, slice):
            # "clip" changes no valid index, and NumPy then writes to the array itself, not to a copy.
            np.take(arrays[number], rows, axis=0, out=out[target], mode="clip")
        else:
            out[target] = arrays[number].take(rows, axis=0)
    return frozen(np.empty((0, *arrays[0].shape[1:]), arrays[0].dtype) if out is None else out)


def _each(function: Callable[[Sequence[Array]], Array], values: Sequence[Any]) -> Any:
    """Apply a function to some arrays, or to those at each place of some tuples of arrays."""
    if isinstance(values[0], tuple):
        return tuple(function(arrays) for arrays in zip(*values, strict=True))
    return function(values)


def _restore(cls: type[NodeLayout], parts: dict[str, Any]) -> NodeLayout:
    return cls._trusted(
        **{name: frozen(value) if isinstance(value, np.ndarray) else value for name, value in parts.items()}
    )
