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
from probi.io.formats.netcdf import check_heaps

Mutator = Callable[[bytes, random.Random], bytes]

# Bytes of a value in a column of fixed-size binary, whose missing values take as many in memory.
MAX_WIDTH = 1 << 16


# -- tables ------------------------------------------------------------------------------------------------------------


def parquet(data: bytes, rng: random.Random) -> bytes:
    """A table with other columns, or a footer with other numbers, whose length is made right."""
    if rng.random() < 0.4:
        file = pq.ParquetFile(io.BytesIO(data[1:]))
        if max(file.schema.column(j).length for j in range(len(file.schema))) > MAX_WIDTH:
            raise ValueError("too wide to be read")
        rows = file.iter_batches(1000, use_threads=False)  # a file may claim any number
        return data[:1] + _to_parquet(changed_table(pa.Table.from_batches([next(rows)]), rng), rng)
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

    content = data[1:]
    check_heaps(content)  # on which HDF5 would search for ever
    if rng.random() < 0.3:
        return _option(data, rng) + _forged_hdf5(content, rng)
    engine = "scipy" if content.startswith(b"CDF") else "h5netcdf"
    how: Any = {"engine": engine, "decode_cf": False, "create_default_indexes": False}
    if (dataset := xarray.open_dataset(io.BytesIO(content), **how)).nbytes > 1 << 20:
        return _option(data, rng) + forged(content, rng)
    return _option(data, rng) + bytes(_changed_dataset(dataset.load(), rng).to_netcdf(engine=engine))


def _forged_hdf5(content: bytes, rng: random.Random) -> bytes:
    """A file of HDF5 in which a dataset has another shape, type, or way of being stored, or lacks its values."""
    import h5py

    out = io.BytesIO(content)
    with h5py.File(out, "r+") as file:
        variable = file[rng.choice(list(file))]
        names = [scales[0].name if len(scales) else None for scales in variable.dims]
        shape, attributes = list(variable.shape), dict(variable.attrs)
        axis = rng.randrange(len(shape))
        if rng.random() < 0.6:
            shape[axis] = rng.choice(values.SIZES[1:])
        for other in [*file.values()]:  # a dimension has one size
            if other != variable and names[axis] in [s[0].name for s in other.dims if len(s)] and rng.random() < 0.9:
                del file[other.name]
        chunks = tuple(min(size, rng.choice([1, 3, 1000, 10**8])) for size in shape)
        path, dtype = variable.name, rng.choice(["f8", "f8", "f4", "i2", "S5", "O", "c16", "u8", "bool"])
        del file[path]
        stored: dict[str, Any] = {"chunks": rng.choice([None, True, chunks]) if max(shape) < 10**5 else chunks}
        if rng.random() < 0.3:
            stored |= {"compression": rng.choice(["gzip", "lzf"]), "shuffle": True, "fletcher32": rng.random() < 0.5}
        if dtype == "O":
            dtype = h5py.string_dtype() if rng.random() < 0.5 else h5py.vlen_dtype("f8")
        anew = file.create_dataset(path, shape, dtype, **stored)
        for key in attributes.keys() - {"DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME"}:
            anew.attrs[key] = attributes[key]
        for place, (name, size) in enumerate(zip(names, shape, strict=True)):
            if name is not None and name != path:
                if name not in file:
                    file.create_dataset(name, (size,), "f8", chunks=(min(size, 1000),)).make_scale(name.strip("/"))
                anew.dims[place].attach_scale(file[name])
    return out.getvalue()


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
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice([_changed_member, _resized, _stored])(members, rng)
    return _option(data, rng) + values.archive(members)


def _changed_member(members: dict[str, bytes], rng: random.Random) -> None:
    name = rng.choice(list(members))
    if name.rpartition("/")[2] in METADATA and rng.random() < 0.9:
        members[name] = json.dumps(changed_json(json.loads(members[name]), rng)).encode()
    elif rng.random() < 0.2:
        members[f"{rng.choice(['group', 'latitude', 'c'])}/{name}"] = members.pop(name)
    elif rng.random() < 0.4:
        del members[name]
    else:
        members[name] = forged(members[name], rng)


METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup")


def _arrays(members: dict[str, bytes]) -> dict[str, tuple[dict[str, Any], list[Any]]]:
    """Metadata of all arrays, and the names of their dimensions."""
    out = {}
    for name, content in members.items():
        if name.endswith(("zarr.json", ".zarray")) and "shape" in (about := json.loads(content)):
            more = json.loads(members.get(name.replace(".zarray", ".zattrs"), b"{}"))
            out[name] = about, about.get("dimension_names") or more.get("_ARRAY_DIMENSIONS") or []
    return out


def _resized(members: dict[str, bytes], rng: random.Random) -> None:
    """Give a dimension another size in all arrays, or in all that are left; or other chunks."""
    arrays = _arrays(members)
    dim = rng.choice(sorted({str(dim) for _, dims in arrays.values() for dim in dims}))
    size, is_chunk, removed = rng.choice(values.SIZES), rng.random() < 0.4, rng.random() < 0.3
    for name, (about, dims) in arrays.items():
        for axis, other in enumerate(dims):
            if other != dim:
                continue
            if removed and len(dims) == 1:
                del members[name]
                break
            chunks = about["chunks"] if "chunks" in about else about["chunk_grid"]["configuration"]["chunk_shape"]
            (chunks if is_chunk else about["shape"])[axis] = size
            members[name] = json.dumps(about).encode()


def _stored(members: dict[str, bytes], rng: random.Random) -> None:
    """Say otherwise how the values of an array are stored; often none are."""
    name, (about, _) = rng.choice(list(_arrays(members).items()))
    members[name] = json.dumps(about | rng.choice(values.STORED[about["zarr_format"]])).encode()
    folder = f"{name.rpartition('/')[0]}/"
    for other in list(members) if rng.random() < 0.5 else ():
        if other.startswith(folder) and other.rpartition("/")[2] not in METADATA:
            del members[other]


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
    """A list of changed fields of a checkpoint: one more, one less, or another value; or of another run."""
    run = data[:1] if data[:1].isdigit() else b""
    listed = json.loads(data[len(run) :])
    if rng.random() < 0.1:
        run = b"%d" % rng.randrange(10)
    if rng.random() < 0.5 or not listed:
        listed = [*listed, [rng.choice(values.CHECKPOINT_PATHS), rng.choice(values.JSON)]]
    elif rng.random() < 0.2:
        listed = rng.sample(listed, len(listed) - 1)
    else:
        listed = changed_json(listed, rng)
    return run + json.dumps(listed).encode()


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
