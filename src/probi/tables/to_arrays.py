"""Columns of Arrow tables as arrays, and back; whole nodes as the flat arrays that Nodes is made of."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kind

from probi._types import Array, Integers, Mask
from probi.errors import InputError
from probi.tables.columns import Columns, innermost, is_list, is_text
from probi.validation import as_floats, normalized

# Bytes of texts that the rows of a table may share, and of an id.
MAX_TEXT, MAX_ID = 1 << 28, 1 << 14


class NodeArrays(NamedTuple):
    """Arguments of Nodes, in their order; missing values are NaN."""

    points: Array  # (n_realizations, n_features)
    probabilities: Array | None  # (n_realizations,)
    offsets: Array  # (n_nodes + 1,)
    weights: Array | None  # (n_nodes,)
    ids: Array | None  # (n_nodes,)

    def adjusted(self, n_original: Integers, missing: str, probabilities: str) -> "NodeArrays":
        """The same with other probabilities, as the options of :func:`probi.io.read` say.

        ``n_original`` are the numbers of realizations that the nodes had before some were left out.
        """
        if self.probabilities is None and missing == "absent":
            return self._replace(probabilities=np.repeat(1.0 / n_original, np.diff(self.offsets)))
        if self.probabilities is None or probabilities != "normalize":
            return self
        given = as_floats(self.probabilities, "probabilities", 1, self.points.dtype)
        return self._replace(probabilities=normalized(given, self.offsets))


def flatten(table: pa.Table, columns: Columns, dtype: Any = None, starts: Array | None = None) -> NodeArrays:
    """Arrays of a table whose nodes are all complete.

    ``starts`` are the first rows of the nodes, needed where rows were dropped: the table alone no longer tells.
    """
    dtype = dtype or float_dtype(table.schema, columns)
    if columns.layout == "nested":
        return _flatten_nested(table, columns, dtype)
    if starts is None:
        starts = node_starts(table, columns)
    return NodeArrays(
        points=matrix(table, columns.features, dtype),
        probabilities=None if columns.probability is None else numbers(table[columns.probability]),
        offsets=np.append(starts, table.num_rows),
        weights=None if columns.weight is None else _node_weights(numbers(table[columns.weight]), starts),
        ids=ids_of(table, columns.ids, starts) if columns.ids else None,
    )


def _node_weights(weights: Array, starts: Array) -> Array:
    """Weight of each node, which all its rows must agree on."""
    of_nodes = weights[starts]
    if not np.array_equal(np.repeat(of_nodes, np.diff(np.append(starts, len(weights)))), weights, equal_nan=True):
        raise InputError(
            "Rows of a node have different weights. Repeat the weight of the node in each of its rows, or make the "
            "column a feature: weight=False (--weight none)."
        )
    return of_nodes


def node_starts(table: pa.Table, columns: Columns, has_id: Mask | None = None) -> Integers:
    """First row of each node; ``has_id`` is what :func:`has_ids` returns, if known.

    Rows without an id belong to the node of the rows around them; between two nodes they are a node of their own.
    """
    if columns.layout == "groups":
        return np.arange(0, table.num_rows, columns.group_size)
    if columns.layout != "long":
        return np.arange(table.num_rows)
    import pyarrow.compute as pc  # takes 40 ms, which numbers in Parquet do without

    has_id = has_ids(table, columns) if has_id is None else has_id
    with_id = np.flatnonzero(has_id)
    same_node = np.ones(max(0, len(with_id) - 1), bool)  # the same node as in the row with an id before
    for name in columns.ids if len(same_node) else ():
        column = one_chunk(table[name])
        column = column if len(with_id) == len(column) else column.take(pa.array(with_id))
        same_node &= np.asarray(pc.equal(column[1:], column[:-1]))
    new = np.zeros(table.num_rows, bool)
    new[with_id[:1]] = True
    new[with_id[1:][~same_node]] = True
    gaps = np.flatnonzero(~has_id & np.append(True, has_id[:-1]))
    after = np.searchsorted(with_id, gaps)
    inside = np.append(np.insert(same_node, 0, False), False)[after] if len(with_id) else np.zeros(len(gaps), bool)
    new[gaps[~inside]] = True
    return np.flatnonzero(new)


def first_rows(table: pa.Table, ids: tuple[str, ...]) -> Integers:
    """For each row, the first row with the same id."""
    codes = np.zeros(table.num_rows, np.int64)
    for name in ids:
        code = one_chunk(table[name]).dictionary_encode("encode").indices
        _, codes = np.unique(codes * table.num_rows + np.asarray(code), return_inverse=True)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return first[inverse]


def kept_starts(starts: Integers, stay: Integers) -> Integers:
    """First rows of the nodes among the rows that are kept."""
    return np.unique(np.searchsorted(starts, stay, side="right"), return_index=True)[1]


def sorted_by_id(table: pa.Table, columns: Columns) -> pa.Table:
    """Sort rows by node, in an order that depends only on their values.

    For rows that an engine has brought together, in any order.
    """
    plain = pa.table({name: one_chunk(table[name]) for name in columns.used})
    # Rows that are equal in all columns are interchangeable.
    return plain.sort_by([(name, "ascending") for name in columns.used])


def has_ids(table: pa.Table, columns: Columns) -> Mask:
    """Rows whose id is complete."""
    has_id = np.ones(table.num_rows, bool)
    for name in columns.ids:
        has_id &= ~np.asarray(one_chunk(table[name]).is_null(nan_is_null=True))
    return has_id


def check_inferred_points(rows: Callable[[], pa.Table], columns: Columns) -> None:
    """Raise if rows share an id where the layout "points" was inferred: they may be realizations of one node."""
    if columns.layout != "points" or not columns.ids:
        return
    table = rows()
    plain = pa.table({name: one_chunk(table[name]) for name in columns.ids})
    counts = plain.group_by(list(columns.ids)).aggregate([([], "count_all")])
    numbers = counts["count_all"].to_numpy()
    if len(numbers) < table.num_rows:
        first = counts.slice(int((numbers > 1).argmax()), 1).to_pylist()[0]
        raise repeated_id([first[name] for name in columns.ids])


def repeated_id(values: Sequence[Any]) -> InputError:
    """Error that asks whether rows with one id are a node."""
    return InputError(
        f"Several rows have the id {', '.join(map(repr, values))}. Are they realizations of one node, or nodes of "
        'their own? Say which: layout="long" (--layout long) or layout="points" (--layout points).'
    )


# -- columns as arrays ------------------------------------------------------------------------------------------------


def one_chunk(column: Any) -> pa.Array:
    """Column as one array, with dictionaries decoded and views (polars' strings) converted."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # an empty column may stay one
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if kind.is_dictionary(array.type):
        return _decoded(_without_views(array.dictionary), array.indices)
    return _without_views(array)


def _decoded(values: pa.Array, indices: pa.Array) -> pa.Array:
    """Values of a dictionary, one per index; a long text that many rows share would take gigabytes."""
    if is_text(values.type) and values.nbytes * len(indices) > MAX_TEXT:
        import pyarrow.compute as pc

        n_bytes = pc.sum(pc.binary_length(values).cast(pa.int64()).take(indices)).as_py() or 0
        if n_bytes > MAX_TEXT:
            raise InputError(
                f"{len(indices):,} rows share long texts that would take {n_bytes / 1e9:,.1f} GB. Use shorter ids."
            )
    return values.take(indices)


def is_view(type: pa.DataType) -> bool:
    """Whether a column holds views, as polars writes text; few functions of Arrow support them."""
    return bool(kind.is_string_view(type) or kind.is_binary_view(type))


def _without_views(array: pa.Array) -> pa.Array:
    if kind.is_string_view(array.type):
        return array.cast(pa.large_string())
    return array.cast(pa.large_binary()) if kind.is_binary_view(array.type) else array


def float_dtype(schema: pa.Schema, columns: Columns) -> str:
    """The smallest of float32 and float64 that holds all features exactly."""
    small = (
        kind.is_float16, kind.is_float32, kind.is_boolean, kind.is_int8, kind.is_int16, kind.is_uint8, kind.is_uint16
    )  # fmt: skip
    types = [innermost(schema.field(name).type) for name in columns.feature_columns]
    return "float32" if all(any(fits(type) for fits in small) for type in types) else "float64"


def matrix(table: pa.Table, names: Sequence[str], dtype: Any = np.float64) -> Array:
    """Columns side by side, (n_rows, n_columns); null is NaN."""
    out = np.empty((table.num_rows, len(names)), dtype)
    for j, name in enumerate(names):
        row = 0
        for chunk in table[name].chunks:
            with np.errstate(over="ignore"):  # infinite then, which Nodes refuses
                out[row : row + len(chunk), j] = numbers(chunk)
            row += len(chunk)
    return out


def numbers(column: Any) -> Array:
    """Column as floats (integers without nulls stay integers); null is NaN."""
    array = one_chunk(column)
    if is_text(array.type):
        array = _read_numbers(array)
    elif kind.is_decimal(array.type) or kind.is_null(array.type):
        array = array.cast(pa.float64())
    elif kind.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif not (kind.is_integer(array.type) or kind.is_floating(array.type)):
        raise InputError(f"A column holds {array.type} where numbers are expected.")
    if array.null_count == 0 and len(array) and not kind.is_boolean(array.type):
        return np.from_dlpack(array)  # to_numpy would import pandas, which takes a quarter of a second
    return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _read_numbers(texts: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    try:
        return pc.utf8_trim_whitespace(texts).cast(pa.float64())
    except pa.ArrowInvalid:
        bad = convert_texts(texts, pa.float64(), NUMBER, number_of)[1]
        raise InputError(f"A column holds {texts[int(bad.argmax())].as_py()!r} where numbers are expected.") from None


# Texts that Arrow reads as numbers, and 64-bit integers without leading zeros.
NUMBER = r"^-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
PLAIN = r"^(0|-?[1-9]\d{0,16})$"


def convert_texts(
    texts: pa.Array, type: pa.DataType, pattern: str | None, convert: Callable[[str], Any]
) -> tuple[pa.Array, Mask]:
    """Values of texts, or of bytes; those that ``convert`` refuses are null, and marked.

    Texts that match the pattern are converted at once; of the others, each distinct one by ``convert``.
    """
    import pyarrow.compute as pc

    plain = np.zeros(len(texts), bool)
    if pattern is not None:
        plain = np.asarray(pc.fill_null(pc.match_substring_regex(texts, pattern), False))
    others = np.asarray(texts.is_valid()) & ~plain
    different = texts.filter(pa.array(others)).dictionary_encode()
    converted, refused = [], np.zeros(len(different.dictionary), bool)
    for i, text in enumerate(different.dictionary.to_pylist()):
        try:
            converted.append(convert(text if isinstance(text, str) else text.decode("utf-8")))
        except (ValueError, TypeError, RecursionError, pa.ArrowException):  # deeply nested JSON
            converted.append(None)
            refused[i] = True
    codes, bad = np.zeros(len(texts), np.int64), np.zeros(len(texts), bool)
    codes[others] = np.asarray(different.indices)
    bad[others] = refused[codes[others]]
    values = pa.array(converted, type).take(pa.array(codes, mask=~others))
    if plain.any():
        at_once = pc.if_else(pa.array(plain), texts, None).cast(pa.string()).cast(type)
        values = pc.if_else(pa.array(plain), at_once, values)
    return values, bad


def number_of(text: str) -> float:
    """Parse a number; ArrowInvalid, a ValueError, if the text is none."""
    return pa.scalar(text.strip()).cast(pa.float64()).as_py()  # type: ignore[no-any-return]


def ids_of(table: pa.Table, names: tuple[str, ...], rows: Array | None = None) -> Array:
    """Ids as an array: the values of one column, or a structured array with a field per column."""
    columns = [_id_values(one_chunk(table[name]), rows) for name in names]
    if len(columns) == 1:
        return columns[0]
    out = np.empty(len(columns[0]), [(name, values.dtype) for name, values in zip(names, columns, strict=True)])
    for name, values in zip(names, columns, strict=True):
        out[name] = values
    return out


def id_columns(ids: Array | None, name: str = "id") -> dict[str, pa.Array]:
    """Ids as columns: one with the given name, or one per field; without ids none."""
    if ids is None:
        return {}
    columns = {name: ids} if ids.dtype.names is None else {name: ids[name] for name in ids.dtype.names}
    try:
        return {name: pa.array(np.ascontiguousarray(values)) for name, values in columns.items()}
    except pa.ArrowException as error:  # of a duration that no 64 bits hold, say
        raise InputError(f"A table cannot hold the ids: {error}.") from None


def id_type(type: pa.DataType) -> pa.DataType:
    """Type of the ids of a column after :func:`ids_of`."""
    type = type.value_type if kind.is_dictionary(type) else type
    if kind.is_integer(type):
        return type if kind.is_uint64(type) else pa.int64()
    if kind.is_timestamp(type):
        return pa.timestamp("us")
    return pa.string() if is_text(type) else type


def _id_values(array: pa.Array, rows: Array | None) -> Array:
    """Values in one dtype per kind, whatever library made the table: int64, str objects, microseconds."""
    if rows is not None and len(rows) != len(array):
        array = array.take(pa.array(rows))
    if kind.is_integer(array.type) and array.null_count == 0:
        array = array if kind.is_uint64(array.type) else array.cast(pa.int64())
    elif kind.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us"), safe=False)
    elif not (kind.is_date(array.type) or kind.is_floating(array.type) or kind.is_boolean(array.type)):
        out = np.empty(len(array), object)
        out[:] = array.to_pylist()
        return out
    return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def check_id_lengths(table: pa.Table, names: Sequence[str]) -> None:
    """Raise on ids that are long texts: they are kept with nodes, and a small file may hold many."""
    for name in names:
        for chunk in table[name].chunks:
            texts = chunk.dictionary if kind.is_dictionary(chunk.type) else chunk
            if is_text(texts.type) and (longest := int(_lengths(texts).max(initial=0))) > MAX_ID:
                raise InputError(
                    f"Column {name!r} has an id of {longest:,} bytes, but at most {MAX_ID:,} are allowed. Use shorter "
                    "ids, or none (--id none)."
                )


def _lengths(texts: pa.Array) -> Array:
    """Bytes of each text, not copied."""
    start, stop, data = texts.offset, texts.offset + len(texts), texts.buffers()[1]
    if not len(texts):
        return np.zeros(0, np.int64)
    if kind.is_string_view(texts.type):  # of 16 bytes, which begin with the length
        return np.frombuffer(data, np.int32)[4 * start : 4 * stop : 4]
    return np.diff(np.frombuffer(data, np.int64 if kind.is_large_string(texts.type) else np.int32)[start : stop + 1])


# -- nested -----------------------------------------------------------------------------------------------------------


def list_lengths(column: Any) -> Array:
    """Length of each list; -1 for null."""
    import pyarrow.compute as pc

    return np.asarray(pc.fill_null(pc.list_value_length(one_chunk(column)), -1)).astype(np.int64)


def without_missing(table: pa.Table, columns: Columns) -> tuple[pa.Table, Array, Array]:
    """A nested table without the realizations that lack a value; lists that become empty are null.

    Returns also the lengths of the lists before, and how many of these realizations each node had. Lists of a node that
    have different lengths stay as they are.
    """
    names = columns.list_columns
    lists = {name: one_chunk(table[name]) for name in names}
    lengths = {name: list_lengths(lists[name]) for name in names}
    n_original = lengths[names[0]]
    fit = np.logical_and.reduce([lengths[name] == n_original for name in names]) & (n_original > 0)
    lacking = np.zeros(int(n_original[fit].sum()), bool)
    for name in names:
        lacking |= _is_incomplete(lists[name].filter(pa.array(fit)).flatten())
    if not lacking.any():
        return table, n_original, np.zeros(len(n_original), np.int64)
    for name in names:
        owners = np.repeat(np.arange(table.num_rows), np.maximum(lengths[name], 0))
        kept = np.ones(len(owners), bool)
        kept[fit[owners]] = ~lacking
        left = np.bincount(owners[kept], minlength=table.num_rows)
        dropped = (lengths[name] < 0) | (fit & (left == 0))
        values = lists[name].flatten().filter(pa.array(kept))
        offsets = pa.array(np.concatenate([[0], np.cumsum(left)]).astype(np.int32))
        new = pa.ListArray.from_arrays(offsets, values, mask=pa.array(dropped))
        table = table.set_column(table.schema.get_field_index(name), name, new)
    owners = np.repeat(np.flatnonzero(fit), n_original[fit])
    return table, n_original, np.bincount(owners[lacking], minlength=len(n_original))


def _is_incomplete(values: pa.Array) -> Mask:
    """Which numbers, or points, are missing or incomplete."""
    if not is_list(values.type):
        return np.asarray(values.is_null(nan_is_null=True))
    sizes = list_lengths(values)
    lacking = sizes < 0
    coordinates = np.asarray(values.flatten().is_null(nan_is_null=True))
    lacking[np.repeat(np.arange(len(values)), np.maximum(sizes, 0))[coordinates]] = True
    return lacking


def _flatten_nested(table: pa.Table, columns: Columns, dtype: Any) -> NodeArrays:
    names = columns.feature_columns
    lengths = list_lengths(table[names[0]])
    for name in columns.list_columns[1:]:
        if not np.array_equal(list_lengths(table[name]), lengths):
            raise InputError(f"The lists of {name!r} and {names[0]!r} have different lengths.")
    if (lengths < 1).any():
        raise InputError(f"A list of {names[0]!r} is empty or missing.")
    inner = {name: one_chunk(table[name]).flatten() for name in columns.list_columns}
    if columns.points:
        d = len(columns.features)
        if not (list_lengths(inner[columns.points]) == d).all():
            raise InputError(f"A point does not have {d} coordinates like the first one.")
        with np.errstate(over="ignore"):
            points = numbers(inner[columns.points].flatten()).astype(dtype, copy=False).reshape(-1, d)
    else:
        points = matrix(pa.table({name: inner[name] for name in names}), names, dtype)
    return NodeArrays(
        points=points,
        probabilities=numbers(inner[columns.probability]) if columns.probability else None,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        weights=numbers(table[columns.weight]) if columns.weight else None,
        ids=ids_of(table, columns.ids) if columns.ids else None,
    )


def list_array(offsets: Array, values: pa.Array) -> pa.Array:
    """Lists with the realizations of each node."""
    return pa.LargeListArray.from_arrays(offsets, values)


def point_array(points: Array) -> pa.Array:
    """Points (n, d) as lists of a fixed size."""
    return pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), points.shape[1])
