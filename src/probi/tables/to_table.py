"""From nodes to a table in one of the four layouts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi.errors import InputError

if TYPE_CHECKING:
    from probi.nodes import Nodes

Array = NDArray[Any]


def to_table(nodes: "Nodes", layout: str = "nested", features: Sequence[str] | None = None) -> pa.Table:
    """Nodes as a table; without names of features a nested one has a single column of lists of points.

    What a layout cannot hold (probabilities in "points", weights in "groups") is an error and not lost.
    """
    names = list(features) if features is not None else [f"x{j}" for j in range(nodes.n_features)]
    if len(names) != nodes.n_features:
        raise InputError(f"There are {len(names)} names for {nodes.n_features} features.")
    if layout == "nested":
        return _table(_nested(nodes, None if features is None else names))
    if layout == "points":
        _require(
            nodes.is_certain and bool((nodes.probabilities == 1.0).all()), "points", "one certain realization each"
        )
    elif layout == "groups":
        sizes = np.diff(nodes.offsets)
        equal = nodes.probabilities == np.repeat((1.0 / sizes).astype(nodes.dtype), sizes)
        _require(
            len(set(sizes.tolist())) <= 1 and bool(equal.all()), "groups", "equally many, equally likely realizations"
        )
        _require(bool((nodes.weights == 1.0).all()), "groups", "weight 1")
    elif layout != "long":
        raise InputError(f"There is no layout {layout!r}.")
    owner = np.repeat(np.arange(len(nodes)), np.diff(nodes.offsets))
    of_nodes = id_columns(np.arange(len(nodes)) if nodes.ids is None and layout == "long" else nodes.ids)
    columns = [(name, values.take(pa.array(owner))) for name, values in of_nodes.items()]
    columns += [(name, pa.array(nodes.points[:, j])) for j, name in enumerate(names)]
    if layout == "long":
        columns.append(("probability", pa.array(nodes.probabilities)))
    if layout != "groups" and not (nodes.weights == 1.0).all():
        columns.append(("weight", pa.array(nodes.weights[owner])))
    return _table(columns)


def _table(columns: list[tuple[str, pa.Array]]) -> pa.Table:
    names = [name for name, _ in columns]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"Two columns would be called {twice[0]!r}. Rename the feature, or the part of the id.")
    return pa.table([values for _, values in columns], names)


def _require(fits: bool, layout: str, rule: str) -> None:
    if not fits:
        raise InputError(
            f"These nodes do not fit the layout {layout!r}, whose nodes have {rule}. Use 'long' or 'nested'."
        )


def _nested(nodes: "Nodes", names: list[str] | None) -> list[tuple[str, pa.Array]]:
    columns = [*id_columns(nodes.ids).items(), ("weight", pa.array(nodes.weights))]
    if names is None:
        columns.append(("points", list_array(nodes.offsets, point_array(nodes.points))))
    else:
        columns += [(name, list_array(nodes.offsets, pa.array(nodes.points[:, j]))) for j, name in enumerate(names)]
    return [*columns, ("probability", list_array(nodes.offsets, pa.array(nodes.probabilities)))]


def list_array(offsets: Array, values: pa.Array) -> pa.Array:
    """Lists with the realizations of each node."""
    return pa.LargeListArray.from_arrays(offsets, values)


def point_array(points: Array) -> pa.Array:
    """Points (n, d) as lists of a fixed size."""
    return pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), points.shape[1])


def id_columns(ids: Array | None, name: str = "id") -> dict[str, pa.Array]:
    """Ids as columns: one with the given name, or one per field; without ids none."""
    if ids is None:
        return {}
    if ids.dtype.names is None:
        return {name: pa.array(ids)}
    return {name: pa.array(np.ascontiguousarray(ids[name])) for name in ids.dtype.names}
