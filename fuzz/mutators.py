"""Changes of inputs that know their structure: what is checked first (checksums, lengths, CRCs) is made right again.

A mutator takes an input and a random generator, and returns another input, or raises anything: then bytes are changed
without a plan.
"""

import ast
import bz2
import gzip
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz import values
from fuzz.seeds import compressed, signed
from fuzz.values import changed_json, changed_table, changed_text, forged

Mutator = Callable[[bytes, random.Random], bytes]


# -- tables ------------------------------------------------------------------------------------------------------------


def parquet(data: bytes, rng: random.Random) -> bytes:
    """A table with other columns, or a footer with other numbers, whose length is made right."""
    if rng.random() < 0.4:
        return data[:1] + _to_parquet(changed_table(pq.read_table(io.BytesIO(data[1:])), rng), rng)
    return _option(data, rng) + _forged_parquet(data[1:], rng)


def _to_parquet(table: pa.Table, rng: random.Random) -> bytes:
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        row_group_size=rng.choice([1, 3, 7, 1000]),
        compression=rng.choice(["none", "snappy", "zstd", "gzip", "brotli", "lz4"]),
        use_dictionary=rng.random() < 0.5,
        data_page_version=rng.choice(["1.0", "2.0"]),
        store_schema=rng.random() < 0.7,
        write_page_index=rng.random() < 0.3,
        data_page_size=rng.choice([64, 1 << 20]),
    )
    return out.getvalue()


def _forged_parquet(data: bytes, rng: random.Random) -> bytes:
    n_footer = struct.unpack("<I", data[-8:-4])[0]
    body, footer = data[: -8 - n_footer], data[-8 - n_footer : -8]
    if rng.random() < 0.7:
        footer = _forged_thrift(footer, rng)
    else:
        body = _forged_thrift(body, rng)
    length = len(footer) if rng.random() < 0.98 else rng.choice(values.INTEGERS) % (1 << 32)
    return body + footer + struct.pack("<I", length) + data[-4:]


def _forged_thrift(data: bytes, rng: random.Random) -> bytes:
    """Bytes in which a varint is another one, or any bytes are others."""
    if rng.random() < 0.5:
        return forged(data, rng)
    at = rng.randrange(len(data))
    end = at
    while end < len(data) - 1 and data[end] & 0x80:
        end += 1
    number = rng.choice(values.INTEGERS) % (1 << 64)
    varint = b""
    while number > 0x7F:
        varint, number = varint + bytes([number & 0x7F | 0x80]), number >> 7
    return data[:at] + varint + bytes([number]) + data[end + 1 :]


def ipc(data: bytes, rng: random.Random, is_stream: bool = False) -> bytes:
    """A table with other columns, or messages with other numbers."""
    if rng.random() < 0.5:
        opened = pa.ipc.open_stream(data[1:]) if is_stream else pa.ipc.open_file(pa.py_buffer(data[1:]))
        return data[:1] + to_ipc(changed_table(opened.read_all(), rng), rng, is_stream)
    return _option(data, rng) + forged(data[1:], rng)


def to_ipc(table: pa.Table, rng: random.Random, is_stream: bool) -> bytes:
    """A table as the bytes of a file or a stream."""
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(
        compression=rng.choice([None, None, "zstd", "lz4"]),
        use_legacy_format=rng.random() < 0.1,
        emit_dictionary_deltas=rng.random() < 0.3,
        unify_dictionaries=rng.random() < 0.3,
    )
    with (pa.ipc.new_stream if is_stream else pa.ipc.new_file)(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice([1, 3, 1000]))
    return bytes(out.getvalue().to_pybytes())


def csv(data: bytes, rng: random.Random) -> bytes:
    """Text with other cells or lines."""
    return _option(data, rng) + changed_text(data[1:], rng)


def compressed_csv(data: bytes, rng: random.Random) -> bytes:
    """Other text with the right checksum, or damaged compressed bytes."""
    content = data[1:]
    if rng.random() < 0.3:
        return _option(data, rng) + forged(content, rng)
    if content.startswith(b"\x1f\x8b"):
        text = gzip.decompress(content)
    elif content.startswith(b"BZh"):
        text = bz2.decompress(content)
    else:
        codec = "zstd" if content.startswith(b"\x28\xb5") else "lz4"
        text = pa.CompressedInputStream(pa.BufferReader(content), codec).read(1 << 22)
    text = changed_text(text[: 1 << 20], rng)
    if rng.random() < 0.1:
        text += rng.choice([b"1,2\n", b'"', b"3", b"\n", b'1,"\n', b"[", b"\0"]) * rng.choice([10**3, 10**5, 10**7])
    return _option(data, rng) + compressed(text, rng.choice([".gz", ".gz", ".zst", ".bz2", ".lz4"]))


def npy(data: bytes, rng: random.Random) -> bytes:
    """A header with other values, and its length made right, or other bytes."""
    content = data[1:]
    if rng.random() < 0.3:
        return _option(data, rng) + forged(content, rng)
    version = content[6]
    size = 2 if version == 1 else 4
    n_header = int.from_bytes(content[8 : 8 + size], "little")
    start = 8 + size
    header, body = content[start : start + n_header].decode("latin-1"), content[start + n_header :]
    if rng.random() < 0.6:
        fields = ast.literal_eval(header.strip())
        header = repr(values.changed_literal(fields, rng))
    else:
        header = changed_text(header.encode("latin-1"), rng).decode("latin-1")
    version = rng.choice([version, version, 1, 2, 3])
    text = header.encode("latin-1", "replace") + b"\n"
    length = len(text).to_bytes(2 if version == 1 else 4, "little")
    return _option(data, rng) + b"\x93NUMPY" + bytes([version, 0]) + length + text + body


def _option(data: bytes, rng: random.Random) -> bytes:
    """The byte that says how to read, sometimes another one."""
    return data[:1] if rng.random() < 0.9 else bytes([rng.randrange(12)])


# -- labeled arrays ----------------------------------------------------------------------------------------------------


def netcdf(data: bytes, rng: random.Random) -> bytes:
    """A dataset with other attributes, coordinates or values; or other bytes."""
    if rng.random() < 0.2:
        return _option(data, rng) + forged(data[1:], rng)
    import xarray

    dataset = xarray.open_dataset(io.BytesIO(data[1:]), engine="h5netcdf", decode_cf=False).load()
    return _option(data, rng) + bytes(_changed_dataset(dataset, rng).to_netcdf(engine="h5netcdf"))


def _changed_dataset(dataset: Any, rng: random.Random) -> Any:
    name = rng.choice(list(dataset.variables))
    variable = dataset[name]
    kind = rng.randrange(5)
    if kind == 0:
        keys = [*variable.attrs, "units", "calendar", "_FillValue", "scale_factor", "add_offset", "missing_value"]
        variable.attrs[rng.choice(keys)] = rng.choice(values.ATTRIBUTES)
        return (
            dataset.assign({name: variable}) if name not in dataset.coords else dataset.assign_coords({name: variable})
        )
    if kind == 1:
        others = np.asarray(variable.values).astype(rng.choice(["f4", "f8", "i2", "i8", "u1", "U5", "S3", "bool"]))
        return dataset.assign({name: (variable.dims, others, variable.attrs)})
    if kind == 2:
        flat = np.array(variable.values).reshape(-1)
        flat[rng.randrange(len(flat))] = rng.choice([0, 1, -1, 100])
        return dataset.assign({name: (variable.dims, flat.reshape(variable.shape), variable.attrs)})
    if kind == 3:
        return dataset.drop_vars(name)
    dim = rng.choice(list(dataset.sizes))
    return dataset.rename({dim: rng.choice(["time", "number", "id", "points", "weight", "probability", "x y"])})


def zarr(data: bytes, rng: random.Random) -> bytes:
    """Metadata with other values, or other chunks."""
    with zipfile.ZipFile(io.BytesIO(data[1:])) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    if name.endswith(".json") and rng.random() < 0.9:
        members[name] = json.dumps(changed_json(json.loads(members[name]), rng)).encode()
    elif rng.random() < 0.2:
        del members[name]
    else:
        members[name] = forged(members[name], rng)
    return _option(data, rng) + values.archive(members)


# -- summaries ---------------------------------------------------------------------------------------------------------


def summary(data: bytes, rng: random.Random) -> bytes:
    """Another header, other columns or other bytes, with the right checksum."""
    if data.startswith(b"PK"):
        return signed(_archive_of_window(data, rng))
    if rng.random() < 0.3:
        return signed(forged(data, rng))
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    table.validate(full=True)  # to write a forged one may abort
    metadata = dict(table.schema.metadata)
    if rng.random() < 0.6:
        for _ in range(rng.choice([1, 1, 2, 5])):
            metadata[b"probi"] = json.dumps(changed_json(json.loads(metadata[b"probi"]), rng)).encode()
    else:
        table = changed_table(table, rng)
    out = pa.BufferOutputStream()
    table = table.replace_schema_metadata(metadata)
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "zstd", "lz4"]))
    with pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rng.choice([3, 10**6, 10**6]))
    return signed(out.getvalue().to_pybytes())


def _archive_of_window(data: bytes, rng: random.Random) -> bytes:
    """Another window as it was up to format 3."""
    if rng.random() < 0.3:
        return forged(data[:-80], rng) + data[-80:]
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members, comment = {name: archive.read(name) for name in archive.namelist()}, archive.comment
    name = rng.choice(["window.json", *members])
    if name == "window.json":
        members[name] = json.dumps(changed_json(json.loads(members[name]), rng)).encode()
    else:
        members[name] = summary(members[name], rng)
    return values.archive(members, comment)


def edits(data: bytes, rng: random.Random) -> bytes:
    """A list of changed fields of a checkpoint: one more, one less, or another value."""
    listed = json.loads(data)
    if rng.random() < 0.5 or not listed:
        return json.dumps([*listed, [rng.choice(values.CHECKPOINT_PATHS), rng.choice(values.JSON)]]).encode()
    if rng.random() < 0.2:
        return json.dumps(rng.sample(listed, len(listed) - 1)).encode()
    return json.dumps(changed_json(listed, rng)).encode()


def centers(data: bytes, rng: random.Random) -> bytes:
    """Centers in Parquet with other metadata or columns, or other text."""
    if not data.startswith(b"PAR1"):
        return changed_text(data, rng)
    if rng.random() < 0.3:
        return _forged_parquet(data, rng)
    table = pq.read_table(io.BytesIO(data))
    if rng.random() < 0.4:
        return _to_parquet(changed_table(table, rng), rng)
    about = changed_json(json.loads(table.schema.metadata[b"probi"]), rng)
    return _to_parquet(table.replace_schema_metadata({b"probi": json.dumps(about).encode()}), rng)


def arguments(data: bytes, rng: random.Random) -> bytes:
    """Other arguments: an option more, one less, or another value."""
    given = data.decode("utf-8", "replace").split("\n")
    kind = rng.randrange(5)
    if kind <= 1:
        option = rng.choice(values.OPTIONS)
        added = [option] if option in values.FLAGS else [option, rng.choice(values.ARGUMENTS)]
        at = rng.randrange(1, len(given) + 1)
        given[at:at] = added
    elif kind == 2 and len(given) > 1:
        del given[rng.randrange(1, len(given))]
    elif kind == 3:
        at = rng.randrange(len(given))
        given[at] = rng.choice([*values.ARGUMENTS, *values.COMMANDS])
    else:
        at = rng.randrange(len(given))
        given[at] = re.sub("[/\0\n]", "", changed_text(given[at].encode(), rng).decode("utf-8", "replace"))
    return "\n".join(given).encode()


MUTATORS: dict[str, Mutator] = {
    "summary": summary,
    "window": summary,
    "checkpoint": edits,
    "centers": centers,
    "parquet": parquet,
    "ipc": ipc,
    "stream": lambda data, rng: ipc(data, rng, is_stream=True),
    "csv": csv,
    "compressed": compressed_csv,
    "npy": npy,
    "netcdf": netcdf,
    "zarr": zarr,
    "options": arguments,
}
