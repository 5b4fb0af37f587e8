"""A table in memory, from any library, as the arrays of its nodes."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from probi.errors import InputError
from probi.tables.columns import choose_columns
from probi.tables.flat import flatten, has_ids


def arrays_of(
    table: Any,
    layout: str | None,
    features: Sequence[str] | None,
    id: str | Sequence[str] | None,
    probability: str | None,
    weight: str | None,
    group_size: int | None,
) -> tuple[Any, ...]:
    """Arguments for Nodes; see Nodes.from_table."""
    if not (hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")):
        raise InputError(
            f"{type(table).__name__} is no table: it has no __arrow_c_stream__. pandas (2.2 or later), polars, DuckDB "
            "and pyarrow have it."
        )
    arrow = pa.table(table)
    columns = choose_columns(
        arrow.schema, layout, features=features, id=id, probability=probability, weight=weight,
        group_size=group_size, first=arrow.slice(0, 100),
    )  # fmt: skip
    n_rows = arrow.num_rows - (arrow.num_rows % columns.group_size if columns.group_size else 0)
    arrow = arrow.slice(0, n_rows)
    if not (there := has_ids(arrow, columns)).all():
        raise InputError(
            f"Row {int(there.argmin())} (the first is 0) has no id in {', '.join(columns.ids)}. Fill it in."
        )
    flat = flatten(arrow, columns)
    if columns.layout == "long":
        check_together(flat.ids)
    return flat.points, flat.probabilities, flat.offsets, flat.weights, flat.ids


def check_together(ids: Any) -> None:
    """Raise if an id comes back after another one."""
    seen = set()
    for value in ids.tolist():
        if value in seen:
            raise InputError(
                f"The rows of node {value!r} do not stand together. Sort the table by the column of ids first."
            )
        seen.add(value)
