"""Values that nobody expects, and changes of values, tables, text and bytes."""

import io
import json
import random
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

INTEGERS = [
    0, 1, -1, 2, 3, 7, 8, 64, 127, 128, 255, 256, 1000, 2**15, 2**16 - 1, 10**6, 2**31 - 1, 2**31, -(2**31), 2**32 - 1,
    2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1,
]  # fmt: skip
FLOATS = [0.0, -0.0, 0.5, 1.0, 1e-310, 1e-200, 1e18, 1e154, 1e308, -1e308, float("nan"), float("inf"), -float("inf")]
TEXTS = ["", "a", "0", "nan", "\x1b[31m", "\u202e", "=cmd()", "Berlin", "default", "theory", "float32", "a" * 300, "\0"]
JSON: list[Any] = [*INTEGERS, *FLOATS, *TEXTS, 10**400, None, True, False, [], {}, [[]], [0], [1.5], {"a": 1}, "delete"]
# Attributes of labeled arrays.
ATTRIBUTES = [
    *FLOATS, 0, -1, 2**31 - 1, "", "K", "degC", "days since 1850-01-01", "hours since 2000", "days since -9999-99-99",
    "months since 1", "noleap", "360_day", "degrees_north", "latitude longitude", "\x1b", np.array([1.0, 2.0]),
]  # fmt: skip
# Sizes of dimensions, and what Zarr's metadata may say of how values are stored, by the version of the format.
SIZES = [0, 1, 2, 5, 1000, 10**5, 10**6, 10**8, 2**31, 2**53, 2**62]
STORED: dict[int, list[dict[str, Any]]] = {
    2: [
        *({"dtype": dtype} for dtype in ("<f4", ">f8", "<i2", "|b1", "<M8[ns]", "<M8[D]", "<m8[s]", "<U3", "|S9")),
        {"dtype": "|O", "filters": [{"id": "vlen-utf8"}]}, {"dtype": "|O", "filters": [{"id": "pickle"}]},
        {"dtype": [["a", "<f4"], ["b", "<f4"]]}, {"dtype": "<U100000000"}, {"dtype": "|V8"}, {"order": "F"},
        *({"compressor": {"id": name}} for name in ("gzip", "zlib", "zstd", "lz4", "bz2", "lzma", "pickle", "json2")),
        {"compressor": None}, {"filters": [{"id": "delta", "dtype": "<f8"}]}, {"filters": [{"id": "shuffle"}]},
        {"filters": [{"id": "fixedscaleoffset", "offset": 0, "scale": 0, "dtype": "<f8"}]},
        {"dimension_separator": "/"}, {"fill_value": 0}, {"fill_value": "NaN"}, {"fill_value": None},
    ],
    3: [
        *({"data_type": name} for name in ("float16", "int8", "uint64", "bool", "complex64", "string", "bytes", "r16")),
        {"data_type": {"name": "numpy.datetime64", "configuration": {"unit": "ns", "scale_factor": 1}}},
        {"data_type": {"name": "fixed_length_utf32", "configuration": {"length_bytes": 4 * 10**8}}},
        {"data_type": "string", "fill_value": "a" * 5000, "codecs": [{"name": "vlen-utf8"}]},
        {"codecs": [{"name": "bytes"}]}, {"codecs": []}, {"codecs": [{"name": "vlen-bytes"}, {"name": "gzip"}]},
        {"codecs": [{"name": "transpose", "configuration": {"order": [1, 0, 2]}}, {"name": "bytes"}]},
        {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "crc32c"}]},
        *({"codecs": [{"name": "bytes"}, {"name": name}]} for name in ("gzip", "zstd", "blosc", "numcodecs.lzma")),
        {"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1, 1, 1], "codecs": [
            {"name": "bytes"}], "index_codecs": [{"name": "bytes"}, {"name": "crc32c"}]}}]},
        {"chunk_key_encoding": {"name": "v2"}}, {"chunk_key_encoding": {"name": "default", "configuration":
            {"separator": "."}}}, {"storage_transformers": [{"name": "a"}]}, {"fill_value": 0}, {"node_type": "group"},
    ],
}  # fmt: skip
CELLS = [
    b"", b"--5", b"+5", b"nan", b"-inf", b"1e400", b"1_0", b"0x10", b"007", b"-0", b"1,5", b"1.10", b'"', b'""', b"'",
    b"[", b"[[", b"[1,2]", b"[[1,2],[3]]", b"[[]]", b"[null]", b"[NaN]", b"[" * 200, b"{}", b"\xff", b"\xef\xbb\xbf",
    b"\0", b"\r", b"\n", b"\r\n", b";", b"\t", b"|", b",", b" ", b"1" * 400, b"\xe2\x80\xae", b"=1+1", b"true", b"NULL",
    b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"12345678901234567890123", b"1e-320",
    b"id", b"x", b"points", b"probability", b"weight", b"2020-01-01", b"0.5",
]  # fmt: skip
TYPES = [
    pa.null(), pa.bool_(), pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(),
    pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.decimal256(50, 4), pa.date32(), pa.date64(), pa.time32("s"),
    pa.time64("ns"), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.timestamp("us", "Europe/Berlin"),
    pa.duration("ms"),
    pa.month_day_nano_interval(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(8),
    pa.string_view(), pa.binary_view(), pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2),
    pa.list_view(pa.float64()), pa.list_(pa.list_(pa.float64())), pa.list_(pa.list_(pa.float32(), 2)),
    pa.list_(pa.string()), pa.struct([("x", pa.float64()), ("y", pa.float64())]), pa.list_(pa.struct([("x",
    pa.int8())])),
    pa.map_(pa.string(), pa.float64()), pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.float64()),
    pa.run_end_encoded(pa.int32(), pa.float64()), pa.list_(pa.dictionary(pa.int8(), pa.float64())),
]  # fmt: skip
NAMES = [
    "", " ", "id", "x", "x0", "points", "probability", "weight", "prob", "lon", "lat", "x*", "[x]", "\x1b[31m",
    "\u202e",
    "=a", "a,b", 'a"b', "a\nb", "cluster", "file", "row", "distance", "node", "level", "period", "é" * 100,
]  # fmt: skip

CHECKPOINT = (
    "parameters", "inputs", "read", "position", "counts", "space", "rejected_size", "seen", "fraction"
)  # fmt: skip
CHECKPOINT_PATHS: list[list[Any]] = [
    ["checkpoint"], ["space"], *(["checkpoint", name] for name in CHECKPOINT),
    *(["checkpoint", "position", i] for i in range(3)), *(["checkpoint", "read", 0, i] for i in range(2)),
    *(["checkpoint", "counts", name] for name in ("nodes", "rows", "used", "missing", "rejected", "left_out", "extra")),
    *(["checkpoint", "space", name] for name in ("features", "scale", "lonlat", "extra")),
    *(["checkpoint", "inputs", 0, name] for name in ("name", "size", "modified", "edges")),
    *(["checkpoint", "parameters", name] for name in ("features", "files", "layout", "n_clusters", "size")),
]  # fmt: skip

COMMANDS = ["cluster", "summarize", "merge", "solve", "assign", "evaluate", "info", "check", "convert"]
FLAGS = ["--json", "-q", "--gather", "--id-per-file", "--header", "--no-header", "--assign", "--no-assign"]
OPTIONS = [
    *FLAGS, "-k", "-o", "--outliers", "--outlier-distance", "--checkpoint", "--checkpoint-every", "--size", "--preset",
    "--seed", "--shard", "--max-realizations", "--epsilon", "--delta", "--audit-size", "--layout", "--features", "--id",
    "--probability", "--weight", "--probabilities", "--group-size", "--node", "--realization", "--format",
    "--delimiter",
    "--decimal", "--lonlat", "--scale", "--missing", "--on-bad", "--max-bad", "--dtype", "--max-node-rows", "--centers",
    "--like", "--to", "--part-size",
]  # fmt: skip
ARGUMENTS = [
    "x.csv", "long.csv", "s.probi", "c.csv", "none.csv", "out.csv", "out.parquet", "out", ".", "-", "", "1", "2", "2:4",
    "1:3000000000", "0", "-1", "1e9", "0.1", "0.5", "nan", "inf", "1e-300", "99999999999999999999", "5,2", "1:5:2", ":",
    "x", "y", "x,y", "id", "id,x", "x*", "[", "none", "points", "groups", "long", "nested", "paper", "theory",
    "default",
    "csv", "parquet", "ipc", "npy", "netcdf", "zarr", "grib", ";", "comma", "point", "tab", "standard",
    "robust", "skip",
    "stop", "error", "skip-row", "skip-node", "absent", "float32", "float64", "keep", "normalize", '"', "\x1b[31m",
    "\u202e", "x.csv*", "\udcff", "a" * 300, "latitude", "out.npy", "out.csv.gz", "out.arrow", "out.nc", "%s", "{}",
]  # fmt: skip


def forged(data: bytes, rng: random.Random) -> bytes:
    """Bytes with another number in them, a piece more or less, or other bits."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at, size = rng.randrange(max(1, len(out))), rng.choice([1, 2, 4, 8])
        kind = rng.randrange(8)
        if kind <= 3:
            at -= at % size if rng.random() < 0.8 else 0
            number = rng.choice(INTEGERS) if rng.random() < 0.8 else rng.randrange(len(out) + 9)
            out[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, "little")
        elif kind == 4:
            out[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 5:
            del out[at : at + rng.choice([1, 4, 8, 64, len(out)])]
        elif kind == 6:
            start = rng.randrange(max(1, len(out)))
            out[at:at] = out[start : start + rng.choice([1, 4, 8, 64])]
        elif out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
    return bytes(out)


def changed_json(value: Any, rng: random.Random) -> Any:
    """JSON in which one item is another one, is missing, or is exchanged with a second one."""
    value = json.loads(json.dumps(value))
    places = list(_places(value))
    if not places:
        return rng.choice(JSON)
    # Long lists of numbers, such as those of the audit sample, must not hide the other fields.
    key = rng.choice(sorted({path[:2] for path, *_ in places}, key=repr))
    _, holder, name = rng.choice([place for place in places if place[0][:2] == key])
    kind = rng.randrange(6)
    if kind == 0:
        del holder[name]
    elif kind == 1:
        _, other, others_name = rng.choice(places)
        holder[name], other[others_name] = other[others_name], holder[name]
    elif kind == 2 and isinstance(holder[name], (int, float)) and not isinstance(holder[name], bool):
        holder[name] += rng.choice([-1, 1, 0.5, 1e9])
    elif kind == 3 and isinstance(holder[name], list):
        holder[name] = holder[name] * 2 if rng.random() < 0.5 else holder[name][1:]
    else:
        holder[name] = rng.choice(JSON)
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """All items of nested JSON: their paths, what they are in, and their keys."""
    if isinstance(value, (dict, list)) and len(path) < 20:
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield (*path, key), value, key
            yield from _places(value[key], (*path, key))


def changed_literal(fields: Any, rng: random.Random) -> Any:
    """The header of an NPY file with another value."""
    fields = dict(fields)
    key = rng.choice([*fields, "shape", "descr"])
    if key == "shape":
        shape = [*fields["shape"]]
        kind = rng.randrange(3)
        if kind == 0 and shape:
            shape[rng.randrange(len(shape))] = rng.choice([*INTEGERS, 10**30, 1.5, None, True])
        elif kind == 1:
            shape.insert(0, rng.choice([0, 1, 2, 10**9]))
        else:
            shape = shape[1:]
        fields["shape"] = tuple(shape) if rng.random() < 0.95 else rng.choice(JSON)
    elif key == "descr":
        kinds = [
            "<f8",
            ">f8",
            "<f4",
            "<f2",
            "<i8",
            "|u1",
            "|b1",
            "<c16",
            "<U3",
            "|S5",
            "|V0",
            "|V8",
            "|O",
            "<M8[s]",
            "<m8",
        ]
        kinds += ["<f16", "", "<f3", "x", "<U1000000000"]
        names = rng.sample(["x", "y", "id", "", "x", "weight", "\x1b"], rng.choice([1, 2, 3]))
        structured = [(name, rng.choice(kinds), *rng.choice([(), (), ((2,),)])) for name in names]
        fields["descr"] = structured if rng.random() < 0.4 else rng.choice(kinds)
    else:
        fields[key] = rng.choice(JSON)
    return fields


def changed_text(data: bytes, rng: random.Random) -> bytes:
    """Text with another cell, another line, or other bytes."""
    kind = rng.randrange(6)
    if kind == 0:
        return forged(data, rng)
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    if kind == 1:
        lines.insert(at, rng.choice(lines))
    elif kind == 2:
        del lines[at]
    elif kind == 3:
        lines[at] += rng.choice([b",", b"\r", b'"', b",1", b";"])
    else:
        sign = rng.choice([b",", b",", b";", b"\t", b" "])
        cells = lines[at].split(sign)
        cells[rng.randrange(len(cells))] = rng.choice(CELLS)
        lines[at] = sign.join(cells)
    return rng.choice([b"\n", b"\n", b"\n", b"\n", b"\r\n"]).join(lines)


def changed_table(table: pa.Table, rng: random.Random) -> pa.Table:
    """A table with another column, another name, or other rows."""
    table.validate(full=True)  # else pyarrow may abort
    j = rng.randrange(table.num_columns)
    name, column = table.column_names[j], table.column(j)
    kind = rng.randrange(9)
    if kind <= 1:
        return table.set_column(j, name, _as_type(column, rng.choice(TYPES)))
    if kind == 2:
        return table.rename_columns([*table.column_names[:j], rng.choice(NAMES), *table.column_names[j + 1 :]])
    if kind == 3:
        return table.drop_columns([name])
    if kind == 4:
        return table.append_column(rng.choice([*NAMES, *table.column_names]), column)
    if kind == 5:
        n = len(table)
        rows = rng.choice([[0] * 3, list(range(n))[::-1], [], sorted(range(n), key=lambda _: rng.random()), [None]])
        return table.take(pa.array(rows, pa.int64()))
    if kind == 6 and len(column):
        at = rng.randrange(len(column))
        return table.set_column(j, name, _with_value(column, at, rng))
    if kind == 7:
        offsets = np.sort([rng.randrange(len(column) + 1) for _ in range(len(column) + 1)])
        lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column.combine_chunks())
        return table.set_column(j, name, lists)
    return table.set_column(j, name, _flawed(column, rng))


def _as_type(column: Any, type: pa.DataType) -> Any:
    # pyarrow ends the process where missing items of lists become maps or lists of a fixed size.
    if pa.types.is_map(type):
        return pa.nulls(len(column), type)
    try:
        if not pa.types.is_nested(column.type):
            return column.cast(type, safe=False)
    except pa.ArrowException:
        pass
    try:
        return pa.array(column.to_pylist(), type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.nulls(len(column), type)


def _with_value(column: Any, at: int, rng: random.Random) -> Any:
    if pa.types.is_map(column.type):
        return column
    items = column.to_pylist()
    odd = [*FLOATS, *INTEGERS, *TEXTS, None, [], [None], [1.0], [[1.0]], [[1.0, 2.0], None]]
    for value in rng.sample(odd, len(odd)):
        try:
            return pa.array([*items[:at], value, *items[at + 1 :]], column.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
    return column


def _flawed(column: Any, rng: random.Random) -> Any:
    """A column whose values, validity or text are not what Arrow promises; with such offsets it would abort here."""
    array = column.combine_chunks()
    array = array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)
    if array.type.num_fields or array.offset or pa.types.is_dictionary(array.type):  # pyarrow would abort
        return column
    buffers = array.buffers()
    has_offsets = len(buffers) > 2
    at = rng.choice([i for i, buffer in enumerate(buffers) if buffer is not None and not (i == 1 and has_offsets)])
    buffers[at] = pa.py_buffer(forged(buffers[at].to_pybytes(), rng).ljust(buffers[at].size, b"\0"))
    return pa.Array.from_buffers(array.type, len(array), buffers)


def archive(members: Mapping[str, bytes], comment: bytes = b"") -> bytes:
    """An archive that is not compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.comment = comment
        for name, content in members.items():
            file.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()
