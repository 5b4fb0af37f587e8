"""Summaries and windows as Arrow IPC files with one row per node, readable by any Arrow library.

A file holds one summary, or those of the periods of a window. Parameters and counters are JSON in the schema metadata,
next to a checksum of the whole file, computed with zeros in place of the checksum itself. It is verified before the
bytes are parsed.
"""

import contextlib
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from probi._types import Array
from probi.coreset.importance import SIZE_PER_CLUSTER
from probi.coreset.paper import PAPER_MEDIANS
from probi.errors import InputError
from probi.nodes import Nodes
from probi.summary.audit import AuditSample, Surroundings
from probi.summary.buffer import Buffer, Form
from probi.summary.claims import STREAM, claims_too_much
from probi.summary.config import SummaryConfig
from probi.summary.stream import Seal, ShardKey, State, Stream, Totals
from probi.tables.to_arrays import list_array, one_chunk, point_array
from probi.thinning import ThinningTotals
from probi.validation import (
    LARGEST,
    as_floats,
    check_count,
    check_offsets,
    check_points,
    check_probabilities,
    check_weights,
    frozen,
    plain_ids,
)

# Windows had their own numbers up to 3: see _read_archive.
FORMAT = 8
# Parameters that older formats did not save: up to format 2 the size of the audit sample was a constant (and sizes of
# audited nodes their masses), up to format 6 every leaf had the same number of nodes. Up to format 7 the rule by which
# coresets join was the one that presets still have.
BEFORE = {"audit_size": 2500, "leaf_coordinates": 0}
CHECKSUM_PREFIX = b"probi-sha256:"
CHECKSUM = re.compile(CHECKSUM_PREFIX + rb"([0-9a-f]{64})")
NO_CHECKSUM = CHECKSUM_PREFIX + b"0" * 64
ARCHIVE_CHECKSUM = re.compile(rb"probi-window-sha256:([0-9a-f]{64})\Z")

# A statistic that is saved, because it is random, and its columns. Certified medians are not saved: on Covertype they
# took more bytes than the nodes, and are recomputed, to the bit, in milliseconds.
KEPT, KEPT_COLUMNS = PAPER_MEDIANS, ("paper_median", "paper_spread")

# Points of real data repeat: a summary of Covertype takes 9 MB instead of 104, in a tenth of a second.
# On one thread: each of Arrow's threads keeps pages for itself, 60 MB in all after some hundred saves.
COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
ON_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)

# Relative tolerance for sums of probabilities that were rounded to float32.
ROUNDING = 1e-4

# Values of the column "level" for nodes in no coreset.
IN_BUFFER, IN_AUDIT = -1, -2

# What may look like a checksum at the beginning of a file, where its own stands.
MAX_CANDIDATES = 16

WRONG_KIND = {
    "summary": "This is a Window, not a Summary: probi.Window.load reads it.",
    "window": "This is a Summary, not a Window: probi.Summary.load reads it.",
}

# More levels than a stream of any length can have.
MAX_LEVELS = 64


def to_bytes(config: SummaryConfig, states: Mapping[Any, State], window: dict[str, Any] | None = None) -> bytes:
    """Serialize summaries by period, with the parameters and counters of their window; None is that of no window."""
    header = {"format": FORMAT, "config": config.shared} | ({} if window is None else {"window": window})
    states = {period: states[period] for period in sorted(states)}
    parts = [(period, *part) for period, state in states.items() for part in _parts(state)]
    kinds = dict.fromkeys(Form.of(nodes).ids for *_, nodes in parts if nodes.ids is not None)
    # Periods may differ, but a column has one type.
    id_columns = {kind: f"id_{i}" if i > 1 else "id" for i, kind in enumerate(kinds, 1)}
    entries = [_entry(period, state, id_columns) for period, state in states.items()]
    # A user's text must not look like the checksum; JSON reads the escaped colon as the same text.
    text = json.dumps(header | {"summaries": entries}).replace("probi-sha256:", "probi-sha256\\u003a")
    table = pa.table(_columns(parts, id_columns)).replace_schema_metadata({"probi": text, "checksum": NO_CHECKSUM})
    file = _to_ipc(table, COMPRESSED)
    if claims_too_much(file.getvalue()):  # constant numbers, say: the file would not load
        file = _to_ipc(table, pa.ipc.IpcWriteOptions())
    checksum, places = _checksum(file.getvalue())
    for place in places:
        file.seek(place)
        file.write(checksum)
    return file.getvalue()


def _checksum(data: bytes) -> tuple[bytes, tuple[int, int]]:
    """The checksum, and where it belongs: the metadata stand at the beginning and at the end.

    What looks like a checksum between them is an id.
    """
    checksum = CHECKSUM_PREFIX + hashlib.sha256(data).hexdigest().encode()
    return checksum, (data.index(NO_CHECKSUM), data.rindex(NO_CHECKSUM))


def _to_ipc(table: pa.Table, options: Any) -> io.BytesIO:
    """The bytes of a table, which are written and read without a copy of all of them."""
    file = io.BytesIO()
    with pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table)
    return file


def _entry(period: int | None, state: State, id_columns: Mapping[Any, str]) -> dict[str, Any]:
    """Header of one summary."""
    parts = list(_parts(state))
    ids = Form.of(parts[0][2]).ids if parts else None
    return {
        "period": period,
        "dtype": str(parts[0][2].dtype) if parts else None,
        "ids": None if ids is None else id_columns[ids],
        "streams": [
            {
                "key": stream.key._asdict(),
                "n_digested": stream.n_digested,
                "totals": stream.totals._asdict(),
                "thinning": stream.thinning._asdict(),
                "surroundings": stream.surroundings and _to_json(stream.surroundings),
                "seal": stream.seal._asdict(),
                "leaf_number": stream.leaf_number,
            }
            for stream in state.streams
        ],
        "parts": [[stream, level, len(nodes)] for stream, level, nodes in parts],
        "audit_keys": state.audit.keys.tolist(),
        "audit_sizes": state.audit.sizes.tolist(),
        "about": state.about,
    }


def _to_json(around: Surroundings) -> dict[str, Any]:
    return {"location": around.location.tolist(), "mass": around.mass, "distance": around.distance}


def _parts(state: State) -> Iterator[tuple[int, int, Nodes]]:
    """Nodes of all streams, with the number of the stream and the level, then those of the audit sample."""
    for s, stream in enumerate(state.streams):
        for level, coresets in enumerate(stream.levels):
            for coreset in coresets:
                yield s, level, coreset
        if len(stream.buffer):
            yield s, IN_BUFFER, stream.buffer.nodes()
    if state.audit.nodes is not None:
        yield 0, IN_AUDIT, state.audit.nodes


def _columns(parts: list[tuple[int | None, int, int, Nodes]], id_columns: Mapping[Any, str]) -> dict[str, pa.Array]:
    if not parts:
        return {}
    *numbers, node_sets = zip(*parts, strict=True)
    lengths = [len(nodes) for nodes in node_sets]
    columns = {
        name: pa.array(np.repeat(values, lengths).astype(kind))
        for name, values, kind in zip(("period", "stream", "level"), numbers, ("i8", "i4", "i4"), strict=True)
        if values[0] is not None
    }
    for kind, name in id_columns.items():
        ids = [_ids_to_arrow(nodes.ids) if Form.of(nodes).ids == kind else None for nodes in node_sets]
        type = next(array.type for array in ids if array is not None)
        columns[name] = pa.concat_arrays(
            [pa.nulls(n, type) if array is None else array for n, array in zip(lengths, ids, strict=True)]
        )
    columns["weight"] = pa.array(np.concatenate([nodes.weights for nodes in node_sets]))
    # Thinned nodes keep the sums from before, which differ from those of their probabilities by rounding.
    columns["total_probability"] = pa.array(np.concatenate([nodes.total_probabilities for nodes in node_sets]))
    kept = [nodes.known(KEPT) for nodes in node_sets]
    if any(kept):
        for i, (name, kind) in enumerate(_types_of_kept(node_sets[0].n_features).items()):
            columns[name] = pa.concat_arrays(
                [
                    pa.nulls(n, kind) if known is None else _values(known[i].astype(np.float64))
                    for n, known in zip(lengths, kept, strict=True)
                ]
            )
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(nodes.offsets) for nodes in node_sets]))])
    for name in ("points", "probabilities"):
        values = _values(np.concatenate([getattr(nodes, name) for nodes in node_sets]))
        columns[name] = list_array(offsets, values)
    return columns


def _types_of_kept(n_features: int) -> dict[str, pa.DataType]:
    return dict(zip(KEPT_COLUMNS, (pa.list_(pa.float64(), n_features), pa.float64()), strict=True))


def _ids_to_arrow(ids: Array) -> pa.Array:
    """Plain ids; several fields become a struct."""
    names = ids.dtype.names
    if names is not None:
        return pa.StructArray.from_arrays([_ids_to_arrow(ids[name]) for name in names], names)
    return pa.array(np.ascontiguousarray(ids), pa.string() if ids.dtype == object else None)


def _values(values: Array) -> pa.Array:
    """Numbers, or lists of a fixed size."""
    return pa.array(values) if values.ndim == 1 else point_array(values)


# -- reading ------------------------------------------------------------------------------------------------------


def from_bytes(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, Any], dict[Any, State]]:
    """Config as keyword arguments, header of the window, and summaries by period, of a summary or window."""
    if not is_archive(data):
        return _read(data, kind)
    if kind == "summary":
        raise InputError(WRONG_KIND[kind])
    return _read_archive(data)


@contextlib.contextmanager
def refusing(kind: str) -> Iterator[None]:
    """Turn every error into an InputError: forged content with a valid checksum may fail anywhere."""
    try:
        yield
    except pa.ArrowMemoryError as error:
        # Forged sizes may request any amount.
        raise InputError(f"The {kind} requires more memory than available: {error}.") from None
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"Not a valid probi {kind}: {error!r}.") from None


def is_archive(data: bytes) -> bool:
    """Whether bytes begin like a window up to format 3."""
    # In a ZIP archive the name of the first member follows its header of 30 bytes.
    return data.startswith(b"PK") and data[30:41] == b"window.json"


def _read(data: bytes, kind: str) -> tuple[dict[str, Any], dict[str, Any], dict[Any, State]]:
    """Config, header of the window, and summaries by period; one that is not of a window has the period None."""
    _check_checksum(data, CHECKSUM, kind)
    with refusing(kind):
        _require(not claims_too_much(data), "it claims to hold far more than its bytes can")
        # A file is a stream after its first 8 bytes. Its footer could name other messages than were checked.
        stream = pa.BufferReader(memoryview(data)[STREAM:])
        table = pa.ipc.open_stream(stream, options=ON_ONE_THREAD).read_all()
        header = json.loads(table.schema.metadata[b"probi"])
        _check_format(header, FORMAT, kind)
        if ("window" in header) != (kind == "window"):
            raise InputError(WRONG_KIND[kind])
        table.validate(full=True)
        table, config, start, states = table.combine_chunks(), _config(header), 0, {}
        # Up to format 5 a file held one summary, in its header.
        for entry in header["summaries"] if header["format"] > 5 else [{"period": None, **header}]:
            n_nodes = sum(part[2] for part in entry["parts"])
            states[entry["period"]] = _state(table.slice(start, n_nodes), config, entry)
            start += n_nodes
        _require(start == table.num_rows, "its parts do not add up")
        _require(kind == "window" or list(states) == [None], "it does not hold one summary")
        return config, header.get("window", {}), states


def _read_archive(data: bytes) -> tuple[dict[str, Any], dict[str, Any], dict[Any, State]]:
    """Read a window up to format 3: a ZIP archive of summaries and a header, with a checksum as its comment."""
    _check_checksum(data, ARCHIVE_CHECKSUM, "window")
    with refusing("window"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        _require(all(member.compress_size == member.file_size for member in archive.infolist()), "it is compressed")
        window = json.loads(archive.read("window.json"))
        _check_format(window, 3, "window")
        members = {period: archive.read(f"period{period:+d}.probi") for period in window["numbers"]}
        states = {period: _read(member, "summary")[2][None] for period, member in members.items()}
        # Format 1 has no limit of periods ahead.
        return _config(window), {"max_ahead": None, "n_ahead": 0} | window, states


def _check_checksum(data: bytes, checksum: re.Pattern[bytes], kind: str) -> None:
    # An id or a name may look like a checksum too, so each candidate is tried.
    stated = {match[0]: match[1] for match in islice(checksum.finditer(data), MAX_CANDIDATES)}
    if not stated:
        raise InputError(f"Not a probi {kind}: it has no checksum.")
    for marker, digest in stated.items():
        plain = data.replace(marker, marker[:-64] + b"0" * 64)
        if hashlib.sha256(plain).hexdigest().encode() == digest:
            return
    raise InputError(f"The {kind} is damaged or incomplete: its checksum does not match.")


def _check_format(header: dict[str, Any], newest: int, kind: str) -> None:
    check_count("format", header["format"])
    if header["format"] > newest:
        raise InputError(f"The {kind} has format {header['format']}, but this version of probi reads up to {newest}.")


def _state(table: pa.Table, shared: dict[str, Any], entry: dict[str, Any]) -> State:
    """One summary, from its rows and its header."""
    _require(entry.get("dtype") in (None, "float32", "float64"), f"its points are {entry.get('dtype')!r}")
    first = entry["streams"][0]["key"]
    config = SummaryConfig(**shared, seed=first["seed"], shard=first["number"])
    streams = [_stream(config, **stream) for stream in entry["streams"]]
    n_features = {table["points"].type.value_type.list_size} if "points" in table.column_names else set()
    n_located = {len(stream.surroundings.location) for stream in streams if stream.surroundings is not None}
    _require(not n_located or n_located == n_features, "its surroundings have other features than its nodes")
    limit = config.audit_size
    audit, start = AuditSample(limit=limit), 0
    for s, level, n_nodes in entry["parts"]:
        check_count("number of a stream", s, least=0)
        check_count("number of nodes", n_nodes, least=0)
        nodes = _read_nodes(table.slice(start, n_nodes), entry.get("dtype"), entry.get("ids"))
        _require(len(nodes) == n_nodes, f"a part has {len(nodes)} nodes, not {n_nodes}")
        start += n_nodes
        if level == IN_AUDIT:
            # Up to format 2 sizes were masses.
            sizes = _positive(entry.get("audit_sizes", nodes.mass), "sizes")
            keys = _positive(entry["audit_keys"], "keys")
            _require(bool((np.diff(keys) >= 0.0).all()), "the keys of the audit sample are not in order")
            audit = AuditSample(nodes, keys, sizes, limit)
        elif level == IN_BUFFER:
            fits = len(streams[s].buffer) == 0 and n_nodes < config.leaf
            _require(fits, "a stream has more nodes than fit its buffer")
            streams[s].buffer = Buffer.of(nodes, streams[s].thinning)
        else:
            check_count("level", level, least=0)
            _require(level <= MAX_LEVELS, f"there is no level {level}")
            streams[s].levels += [[] for _ in range(level + 1 - len(streams[s].levels))]
            streams[s].levels[level].append(nodes)
    for stream in streams:
        _check_levels(stream)
    n_audited = 0 if audit.nodes is None else len(audit.nodes)
    _require(n_audited == len(entry["audit_keys"]), "the audit sample does not have one key per node")
    _require(n_audited == len(audit.sizes) <= limit + 1, "the audit sample does not have one size per node")
    about = entry.get("about", {})
    _require(isinstance(about, dict), "its metadata is not a JSON object")
    return State(config, streams, audit, about)


def _config(header: dict[str, Any]) -> dict[str, Any]:
    """Parameters that all streams share."""
    # Up to format 4 they were in the header itself, and in that of a window up to format 2 called plan.
    config = header.get("config") or header.get("plan")
    if config is None:
        config = {entry.name: header[entry.name] for entry in fields(SummaryConfig) if entry.name in header}
        config["audit_size"] = header.get("audit_limit", BEFORE["audit_size"])
    config = BEFORE | config
    if config["preset"] == "default" and not config.get("leaf"):  # up to format 4
        size = config["size"] or SIZE_PER_CLUSTER * config["n_clusters"]
        config["leaf"] = (8 if size <= 1 << 13 else 4) * size
    return config


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise InputError(f"Not a valid probi summary: {problem}.")


def _stream(
    config: SummaryConfig, key: dict[str, int], n_digested: int, totals: dict[str, Any],
    thinning: dict[str, Any] | None = None, surroundings: dict[str, Any] | None = None,
    seal: dict[str, int] | None = None, leaf_number: int | None = None,
) -> Stream:  # fmt: skip
    """Stream without its nodes, from its entry in the header."""
    last_seal = Seal(**seal or {})
    if leaf_number is None:  # up to format 6
        check_count("n_digested", n_digested, least=0)
        leaf_number = int(last_seal.leaf + (n_digested - last_seal.n_nodes) // config.leaf)
    counts = {**key, "n_digested": n_digested, "leaf_number": leaf_number, **last_seal._asdict()}
    for name, value in counts.items():
        check_count(name, value, least=0)
    _require(key["height"] <= MAX_LEVELS, f"there is no block of height {key['height']}")
    n_leaves, smallest = leaf_number - last_seal.leaf, config.min_leaf if config.leaf_coordinates else config.leaf
    fits = n_leaves * smallest <= n_digested - last_seal.n_nodes <= n_leaves * config.leaf
    _require(key["height"] > 0 or (n_leaves >= 0 and fits), "a stream has digested a part of a leaf")
    for name, total in totals.items():
        _require(isinstance(total, float) and 0.0 <= total < np.inf, f"{name} is {total!r}")
    thinning = thinning or {}
    for name, total in thinning.items():
        # Differences of spreads may be negative where medians are not exact; the others are not.
        may_be_negative = name in ("spread_cost", "lower_bound")
        valid = isinstance(total, float) and np.isfinite(total) and (total >= 0.0 or may_be_negative)
        _require(valid, f"{name} is {total!r}")
    return Stream(
        ShardKey(**key), config, n_digested, Totals(**totals), buffer=Buffer.of(None, ThinningTotals(**thinning)),
        surroundings=_surroundings(surroundings), seal=last_seal, leaf_number=leaf_number,
    )  # fmt: skip


def _check_levels(stream: Stream) -> None:
    """Raise on more coresets of a level than its leaves have become: the next ones would have numbers below 0.

    A block reads no more nodes, so its coresets have no numbers.
    """
    if stream.key.height > 0:
        return
    n_ever = stream.leaf_number - stream.seal.leaf
    for level, coresets in enumerate(stream.levels):
        n_ever += level == stream.seal.level and stream.seal.n_nodes > 0
        _require(len(coresets) <= n_ever, f"{len(coresets)} coresets of level {level} are more than its leaves became")
        n_ever //= stream.config.fan_in


def _surroundings(values: dict[str, Any] | None) -> Surroundings | None:
    if values is None:
        return None
    location = np.array(values["location" if "location" in values else "place"], np.float64)
    _require(location.ndim == 1 and bool((np.abs(location) <= LARGEST).all()), "surroundings have no location")
    for name in ("mass", "distance"):
        _require(isinstance(values[name], float) and 0.0 <= values[name] < np.inf, f"{name} is {values[name]!r}")
    return Surroundings(frozen(location), values["mass"], values["distance"])


def _positive(values: ArrayLike, name: str) -> Array:
    numbers = np.array(values, np.float64)
    valid = numbers.ndim == 1 and bool(((numbers > 0.0) & np.isfinite(numbers)).all())
    _require(valid, f"the {name} of the audit sample are not positive")
    return frozen(numbers)


def _read_nodes(table: pa.Table, dtype: str | None, id_column: str | None) -> Nodes:
    """Nodes of a table, checked like user data because kernels trust their input."""
    points, probability_lists = one_chunk(table["points"]), one_chunk(table["probabilities"])
    offsets, others = (np.asarray(lists.offsets) for lists in (points, probability_lists))
    offsets, others = offsets - offsets[0], others - others[0]
    _require(np.array_equal(offsets, others), "nodes do not have one probability per point")
    realizations = points.flatten()
    n_features = realizations.type.list_size
    flat = frozen(as_floats(_numbers(realizations.flatten()), "points", 1, dtype).reshape(-1, n_features))
    offsets = frozen(check_offsets(offsets, len(flat)))
    probabilities = frozen(as_floats(_numbers(probability_lists.flatten()), "probabilities", 1, flat.dtype))
    weights = frozen(as_floats(_numbers(one_chunk(table["weight"])), "weights", 1, np.float64))
    check_weights(weights, len(offsets) - 1)
    # Data widened from float32 keeps the rounding of its sums.
    totals = check_probabilities(probabilities, offsets, np.float32)
    if "total_probability" in table.column_names:
        stated = as_floats(_numbers(one_chunk(table["total_probability"])), "total probabilities", 1, np.float64)
        _require(np.allclose(stated, totals, rtol=ROUNDING, atol=0.0), "total probabilities do not match the sums")
        totals = stated
    ids = None if id_column is None else _read_ids(one_chunk(table[id_column]))
    return Nodes._trusted(
        points=flat,
        probabilities=probabilities,
        offsets=offsets,
        weights=weights,
        ids=ids,
        total_probabilities=frozen(totals),
        magnitude=check_points(flat, offsets),
        statistics=_read_statistics(table, n_features),
    )


def _numbers(array: pa.Array) -> Array:
    _require(array.null_count == 0 and pa.types.is_floating(array.type), f"a column has {array.type} or nulls in it")
    return np.asarray(array)


def _read_ids(array: pa.Array) -> Array:
    ids = _ids_from_arrow(array)
    plain = plain_ids(ids)
    _require(plain is not None and plain.dtype == ids.dtype, f"its ids are {array.type}")
    return frozen(ids)


def _ids_from_arrow(array: pa.Array) -> Array:
    if not pa.types.is_struct(array.type):
        missing = array.null_count and not pa.types.is_temporal(array.type)  # NaT is a null
        _require(not missing, "ids are missing")
        ids: Array = array.to_numpy(zero_copy_only=False)
        return ids
    fields = [_ids_from_arrow(field) for field in array.flatten()]
    ids = np.empty(len(array), [(field.name, values.dtype) for field, values in zip(array.type, fields, strict=True)])
    for name, values in zip(ids.dtype.names or (), fields, strict=True):
        ids[name] = values
    return ids


def _read_statistics(table: pa.Table, n_features: int) -> dict[str, tuple[Array, ...]]:
    if not set(KEPT_COLUMNS) & set(table.column_names):
        return {}
    columns = {name: one_chunk(table[name]) for name in KEPT_COLUMNS}
    if any(column.null_count for column in columns.values()):
        return {}
    for name, kind in _types_of_kept(n_features).items():
        _require(columns[name].type == kind, f"{name} has type {columns[name].type}")
    medians, spreads = columns.values()
    values = frozen(_numbers(medians.flatten()).reshape(-1, n_features)), frozen(_numbers(spreads))
    _require(all(np.isfinite(value).all() for value in values), "medians or spreads are not finite")
    _require(not (values[1] < 0.0).any(), "a spread is negative")
    return {KEPT: values}
