"""Summaries to and from Arrow: one IPC file, a row a node, readable by anything that reads Arrow.

Parameters and counters stand as JSON in the metadata of the schema, together with a checksum over the whole file, in
which the checksum itself counts as zeros. It is checked before anything else looks at the bytes.
"""

import hashlib
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi._checks import as_floats, check_offsets, check_points, check_probabilities, check_weights, frozen
from probi.audit import AuditSample
from probi.buffer import Buffer
from probi.coreset.rings import PAPER_MEDIANS
from probi.errors import InputError
from probi.medians import CERTIFIED_MEDIANS
from probi.nodes import Nodes
from probi.stream import Key, Plan, Stream, Totals

Array = NDArray[Any]

FORMAT = 1
CHECKSUM = re.compile(rb"probi-sha256:([0-9a-f]{64})")
NO_CHECKSUM = b"probi-sha256:" + b"0" * 64

# Statistics that are kept, as they are named in Nodes, with the names of their columns.
STATISTICS = {
    CERTIFIED_MEDIANS: ("median", "spread", "spread_at_least"),
    PAPER_MEDIANS: ("paper_median", "paper_spread"),
}

# In the column "level": nodes that are in no coreset.
IN_BUFFER, IN_AUDIT = -1, -2


def summary_to_bytes(plan: Plan, streams: list[Stream], audit: AuditSample) -> bytes:
    """Write the state of a summary."""
    parts = [(s, level, i, nodes) for s, level, i, nodes in _parts(streams)]
    if audit.nodes is not None:
        parts.append((0, IN_AUDIT, 0, audit.nodes))
    header = {
        "format": FORMAT,
        "n_clusters": plan.n_clusters,
        "size": plan.size,
        "preset": plan.preset,
        "streams": [
            {"key": stream.key._asdict(), "n_digested": stream.n_digested, "totals": stream.totals._asdict()}
            for stream in streams
        ],
        "audit_keys": audit.keys.tolist(),
    }
    metadata = {"probi": json.dumps(header), "checksum": NO_CHECKSUM}
    table = pa.table(_columns(parts)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    return CHECKSUM.sub(b"probi-sha256:" + hashlib.sha256(data).hexdigest().encode(), data)


def _parts(streams: list[Stream]) -> Any:
    """Nodes of all streams, with their places: stream, level, number in the level."""
    for s, stream in enumerate(streams):
        for level, coresets in enumerate(stream.levels):
            for i, coreset in enumerate(coresets):
                yield s, level, i, coreset
        if len(stream.buffer):
            yield s, IN_BUFFER, 0, stream.buffer.nodes()


def _columns(parts: list[tuple[int, int, int, Nodes]]) -> dict[str, pa.Array]:
    if not parts:
        return {}
    places = np.array([part[:3] for part in parts])
    lengths = [len(part[3]) for part in parts]
    columns = {
        name: pa.array(np.repeat(places[:, i], lengths).astype(np.int32))
        for i, name in enumerate(("stream", "level", "number"))
    }
    alone = [part[3] for part in parts]
    columns["weight"] = pa.array(np.concatenate([nodes.weights for nodes in alone]))
    for statistic, names in STATISTICS.items():
        for i, name in enumerate(names):
            columns[name] = _with_gaps([_value(nodes, statistic, i) for nodes in alone], lengths, alone[0].n_features)
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(nodes.offsets) for nodes in alone]))])
    points = _points(np.concatenate([nodes.points for nodes in alone]))
    columns["points"] = pa.LargeListArray.from_arrays(offsets, points)
    columns["probabilities"] = pa.LargeListArray.from_arrays(
        offsets, pa.array(np.concatenate([nodes.probabilities for nodes in alone]))
    )
    return columns


def _value(nodes: Nodes, statistic: str, i: int) -> Array | None:
    found = nodes.known(statistic)
    return None if found is None else found[i]


def _with_gaps(values: list[Array | None], lengths: list[int], n_features: int) -> pa.Array:
    """Column of a statistic, null for nodes of which it is not known."""
    is_place = any(value is not None and value.ndim == 2 for value in values)
    chunks = []
    for value, n in zip(values, lengths, strict=True):
        kind = pa.list_(pa.float64(), n_features) if is_place else pa.float64()
        if value is None:
            chunks.append(pa.nulls(n, kind))
        else:
            wide = value.astype(np.float64)
            chunks.append(_points(wide) if is_place else pa.array(wide))
    if all(value is None for value in values):
        return pa.nulls(sum(lengths))
    return pa.concat_arrays(chunks)


def _points(points: Array) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), points.shape[1])


# -- and back -----------------------------------------------------------------------------------------------------


def summary_from_bytes(data: bytes) -> tuple[Plan, list[Stream], AuditSample]:
    """Read what :func:`summary_to_bytes` wrote, or raise an InputError."""
    _check_checksum(data)
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        header = json.loads(table.schema.metadata[b"probi"])
        version = header["format"]
        if version > FORMAT:
            raise InputError(f"The summary has format {version}, but this version of probi reads up to {FORMAT}.")
        return _state(table, header)
    except (pa.ArrowException, KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"This is no summary that probi can read: {error!r}.") from None


def _check_checksum(data: bytes) -> None:
    stated = set(CHECKSUM.findall(data))
    if not stated:
        raise InputError("This is no summary of probi: it does not carry its checksum.")
    if stated != {hashlib.sha256(CHECKSUM.sub(NO_CHECKSUM, data)).hexdigest().encode()}:
        raise InputError("The summary is damaged or incomplete: its checksum does not fit.")


def _state(table: pa.Table, header: dict[str, Any]) -> tuple[Plan, list[Stream], AuditSample]:
    plan = Plan(header["n_clusters"], header["size"], header["preset"])
    streams = [
        Stream(Key(**entry["key"]), plan, entry["n_digested"], Totals(**entry["totals"])) for entry in header["streams"]
    ]
    audit = AuditSample()
    for (s, level, _), nodes in _read_parts(table):
        if level == IN_AUDIT:
            audit = AuditSample(nodes, frozen(np.array(header["audit_keys"], np.float64)))
        elif level == IN_BUFFER:
            streams[s].buffer = Buffer.of(nodes)
        else:
            while len(streams[s].levels) <= level:
                streams[s].levels.append([])
            streams[s].levels[level].append(nodes)
    return plan, streams, audit


def _read_parts(table: pa.Table) -> Any:
    """Nodes of each part, with their place; parts stand together, in the order in which they were written."""
    if table.num_rows == 0:
        return
    table = table.combine_chunks()
    places = np.column_stack([table[name].to_numpy() for name in ("stream", "level", "number")])
    borders = np.flatnonzero((places[1:] != places[:-1]).any(axis=1)) + 1
    for start, stop in zip([0, *borders], [*borders, len(places)], strict=True):
        yield places[start].tolist(), _read_nodes(table.slice(start, stop - start))


def _read_nodes(table: pa.Table) -> Nodes:
    """Checked as if a user had given them: kernels trust what they get."""
    points, probabilities = (table[name].combine_chunks() for name in ("points", "probabilities"))
    offsets = np.asarray(points.offsets) - points.offsets[0].as_py()
    places = points.flatten()
    flat = frozen(as_floats(np.asarray(places.flatten()), "points", 1).reshape(-1, places.type.list_size))
    borders = frozen(check_offsets(offsets, len(flat)))
    chances = frozen(as_floats(np.asarray(probabilities.flatten()), "probabilities", 1, flat.dtype))
    weights = frozen(as_floats(table["weight"].to_numpy(), "weights", 1, np.float64))
    check_weights(weights, len(borders) - 1)
    return Nodes._trusted(
        points=flat,
        probabilities=chances,
        offsets=borders,
        weights=weights,
        ids=None,
        # float32 data that became float64 keeps the rounding of its sums.
        total_probabilities=frozen(check_probabilities(chances, borders, np.float32)),
        magnitude=check_points(flat, borders),
        statistics=dict(_read_statistics(table, flat.shape[1])),
    )


def _read_statistics(table: pa.Table, n_features: int) -> Any:
    for statistic, names in STATISTICS.items():
        columns = [table[name].combine_chunks() for name in names]
        if any(column.null_count for column in columns):
            continue
        values = []
        for column in columns:
            is_place = pa.types.is_fixed_size_list(column.type)
            value = np.asarray(column.flatten() if is_place else column, np.float64)
            values.append(frozen(value.reshape(-1, n_features) if is_place else value))
        yield statistic, tuple(values)
