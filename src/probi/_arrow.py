"""Summaries to and from Arrow: one IPC file, a row a node, readable by anything that reads Arrow.

Parameters and counters stand as JSON in the metadata of the schema, together with a checksum over the whole file, in
which the checksum itself counts as zeros. It is checked before anything else looks at the bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterator
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
    parts = list(_parts(streams))
    if audit.nodes is not None:
        parts.append((0, IN_AUDIT, audit.nodes))
    header = {
        "format": FORMAT,
        "n_clusters": plan.n_clusters,
        "size": plan.size,
        "preset": plan.preset,
        "streams": [
            {"key": stream.key._asdict(), "n_digested": stream.n_digested, "totals": stream.totals._asdict()}
            for stream in streams
        ],
        "parts": [[stream, level, len(nodes)] for stream, level, nodes in parts],
        "audit_keys": audit.keys.tolist(),
    }
    metadata = {"probi": json.dumps(header), "checksum": NO_CHECKSUM}
    table = pa.table(_columns(parts)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    return CHECKSUM.sub(b"probi-sha256:" + hashlib.sha256(data).hexdigest().encode(), data)


def _parts(streams: list[Stream]) -> Iterator[tuple[int, int, Nodes]]:
    """Nodes of all streams, with the number of the stream and the level."""
    for s, stream in enumerate(streams):
        for level, coresets in enumerate(stream.levels):
            for coreset in coresets:
                yield s, level, coreset
        if len(stream.buffer):
            yield s, IN_BUFFER, stream.buffer.nodes()


def _columns(parts: list[tuple[int, int, Nodes]]) -> dict[str, pa.Array]:
    if not parts:
        return {}
    alone = [nodes for _, _, nodes in parts]
    lengths = [len(nodes) for nodes in alone]
    columns = {
        name: pa.array(np.repeat([part[i] for part in parts], lengths).astype(np.int32))
        for i, name in enumerate(("stream", "level"))
    }
    columns["weight"] = pa.array(np.concatenate([nodes.weights for nodes in alone]))
    for statistic, names in STATISTICS.items():
        for i, name in enumerate(names):
            kind = pa.list_(pa.float64(), alone[0].n_features) if name.endswith("median") else pa.float64()
            columns[name] = pa.concat_arrays([_statistic(nodes, statistic, i, kind) for nodes in alone])
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(nodes.offsets) for nodes in alone]))])
    points = _points(np.concatenate([nodes.points for nodes in alone]))
    columns["points"] = pa.LargeListArray.from_arrays(offsets, points)
    columns["probabilities"] = pa.LargeListArray.from_arrays(
        offsets, pa.array(np.concatenate([nodes.probabilities for nodes in alone]))
    )
    return columns


def _statistic(nodes: Nodes, statistic: str, i: int, kind: pa.DataType) -> pa.Array:
    """The i-th array of a statistic, null where it is not known."""
    found = nodes.known(statistic)
    if found is None:
        return pa.nulls(len(nodes), kind)
    value = found[i].astype(np.float64)
    return _points(value) if value.ndim == 2 else pa.array(value)


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
    audit, start = AuditSample(), 0
    for s, level, n_nodes in header["parts"]:
        nodes = _read_nodes(table.slice(start, n_nodes))
        start += n_nodes
        if len(nodes) != n_nodes or s < 0:
            raise ValueError(f"part ({s}, {level}) has {len(nodes)} nodes, not {n_nodes}")
        if level == IN_AUDIT:
            audit = AuditSample(nodes, frozen(np.array(header["audit_keys"], np.float64)))
        elif level == IN_BUFFER:
            streams[s].buffer = Buffer.of(nodes)
        else:
            while len(streams[s].levels) <= level:
                streams[s].levels.append([])
            streams[s].levels[level].append(nodes)
    if start != table.num_rows or len(audit.keys) != (0 if audit.nodes is None else len(audit.nodes)):
        raise ValueError("its parts do not add up")
    return plan, streams, audit


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
