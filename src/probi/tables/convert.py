"""Nodes from a table in memory, of any library, and back to a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from probi import _notes
from probi._types import Array
from probi.errors import InputError, InputWarning
from probi.tables.columns import Columns, choose_columns, repeated
from probi.tables.to_arrays import (
    NodeArrays,
    check_inferred_points,
    first_rows,
    flatten,
    has_ids,
    id_columns,
    kept_starts,
    list_array,
    matrix,
    node_starts,
    numbers,
    point_array,
    without_missing,
)
from probi.validation import check_choice, check_missing

if TYPE_CHECKING:
    from probi.nodes import Nodes


def arrays_of(
    table: Any, layout: str | None, probabilities: str, missing: str, gather: bool, **roles: Any
) -> NodeArrays:
    """Arguments for Nodes; see Nodes.from_table."""
    if not (hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")):
        raise InputError(
            f"{type(table).__name__} is not a table: it has no __arrow_c_stream__. pandas (2.2 or later), polars "
            "(1.3 or later), DuckDB and pyarrow have it."
        )
    check_missing(missing, probabilities)
    arrow = pa.table(table)
    columns = choose_columns(arrow.schema, layout, first=lambda: arrow.slice(0, 100), **roles)
    if layout is None:
        check_inferred_points(lambda: arrow, columns)
    if roles["features"] is None:
        _warn_of_inferred_roles(columns)
    n_rows = arrow.num_rows - (arrow.num_rows % columns.group_size if columns.group_size else 0)
    arrow = arrow.slice(0, n_rows)
    if not (has_id := has_ids(arrow, columns)).all():
        raise InputError(
            f"Row {int(has_id.argmin())} (the first is 0) has no id in {', '.join(columns.ids)}. Fill it in."
        )
    if gather and columns.layout == "long":
        arrow = arrow.take(pa.array(np.argsort(first_rows(arrow, columns.ids), kind="stable")))
    arrow, starts, n_original = _without_missing(arrow, columns, missing)
    arrays = flatten(arrow, columns, starts=starts)
    if probabilities == "normalize" and arrays.probabilities is None:
        raise InputError("There is no column of probabilities to normalize. Name it: probability.")
    check_choice("probabilities", probabilities, ("keep", "normalize"))
    arrays = arrays.adjusted(n_original, missing, probabilities)
    if columns.layout == "long":
        check_contiguous(arrays.ids)
    return arrays


def _without_missing(table: pa.Table, columns: Columns, missing: str) -> tuple[pa.Table, Array, Array]:
    """Drop rows that lack a value; return the table, the first rows of nodes, and their realizations before."""
    starts = node_starts(table, columns)
    n_original = np.diff(np.append(starts, table.num_rows))
    if missing == "error":
        return table, starts, n_original
    names = [name for name in (columns.weight, columns.probability) if name]
    if columns.layout == "nested":
        left, n_original, lacking = without_missing(table, columns)
        dropped = (n_original < 0) | (lacking == n_original if missing == "absent" else lacking > 0)
        table = left if missing == "absent" else table
        names = [name for name in names if name == columns.weight]
    else:
        dropped = np.asarray(np.isnan(matrix(table, columns.features)).any(axis=1))
    for name in names:
        dropped |= np.isnan(numbers(table[name]))
    node = np.searchsorted(starts, np.arange(table.num_rows), side="right") - 1
    if missing == "skip-node":
        dropped = np.bincount(node, dropped, minlength=len(starts))[node] > 0
    stay = np.flatnonzero(~dropped)
    firsts = kept_starts(starts, stay)
    return table.take(pa.array(stay)), firsts, n_original[node[stay[firsts]]]


def _warn_of_inferred_roles(columns: Columns) -> None:
    """Warn about columns that are left out, and about degrees used as plain numbers."""
    notes = []
    if columns.left_out:
        notes.append("Text, dates and numbers of realizations are left out; features=[...] names the columns to use.")
    if columns.degrees:
        notes.append(columns.degrees_note)
    if notes:
        _notes.warn(f"The table was read as: {columns}. {' '.join(notes)}", InputWarning)


def check_contiguous(ids: Any) -> None:
    """Raise if an id recurs after another one."""
    seen = set()
    for value in ids.tolist():
        if value in seen:
            raise InputError(
                f"Rows of node {value!r} are not contiguous. Sort the table by the column of ids, or pass gather=True."
            )
        seen.add(value)


# -- back to a table --------------------------------------------------------------------------------------------------


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
    if (twice := repeated(names)) is not None:
        raise InputError(f"Two columns would be called {twice!r}. Rename the feature, or the part of the id.")
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
