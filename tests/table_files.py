"""Nodes as plain Python, and what a file or a table of them holds, layout by layout: written out, not computed."""

import bz2
import csv
import gzip
import io
import json
import random
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probi.io
from probi import Nodes
from probi.io.formats import base
from probi.io.formats import csv_file as csv_reader

LAYOUTS = ("points", "groups", "long", "nested", "nested columns")
FORMATS = ("parquet", "csv", "csv.gz", "arrow", "arrows")
COMPRESSED = ("csv.gz", "csv.zst", "csv.bz2", "csv.lz4")
GROUP = 3


class Plain(NamedTuple):
    """A node: its id, its weight, its realizations [(point, probability)]."""

    id: object
    weight: float
    realizations: list


def some_nodes(layout, n=23, seed=0, ids="int", dimension=2):
    """Nodes that fit a layout; numbers that any format holds exactly."""
    draw = random.Random(seed)
    nodes = []
    for i in range(n):
        size = {"points": 1, "groups": GROUP}.get(layout) or draw.randint(1, 5)
        points = [tuple(draw.randint(-80, 80) / 8 for _ in range(dimension)) for _ in range(size)]
        chances = [1 / size] * size
        if layout not in ("points", "groups") and draw.random() < 0.7:
            chances = [draw.choice([0.0625, 0.125]) for _ in range(size)]
        weight = 1.0 if layout == "groups" else draw.choice([1.0, 2.0, 0.5])
        id = {"int": 1000 - 7 * i, "str": f"node {i}"}[ids]
        nodes.append(Plain(None if layout == "groups" else id, weight, list(zip(points, chances, strict=True))))
    return nodes


def as_nodes(plain, dtype=np.float64, dimension=2):
    """The Nodes that the reader must give."""
    pairs = [pair for node in plain for pair in node.realizations]
    ids = [node.id for node in plain]
    return Nodes(
        np.array([x for x, _ in pairs], dtype).reshape(-1, dimension),
        np.array([p for _, p in pairs], dtype),
        np.cumsum([0] + [len(node.realizations) for node in plain]),
        [node.weight for node in plain],
        None if not ids or ids[0] is None else np.array(ids, object if isinstance(ids[0], str) else None),
    )


def columns_of(plain, layout):
    """Columns of the table, as lists."""
    dimension = len(plain[0].realizations[0][0])
    if layout.startswith("nested"):
        out = {"id": [node.id for node in plain]}
        if layout == "nested":
            out["points"] = [[list(x) for x, _ in node.realizations] for node in plain]
        else:
            out |= {f"x{j}": [[x[j] for x, _ in node.realizations] for node in plain] for j in range(dimension)}
        out["probability"] = [[p for _, p in node.realizations] for node in plain]
        return out | {"weight": [node.weight for node in plain]}
    rows = [(node, x, p) for node in plain for x, p in node.realizations]
    out = {} if layout == "groups" else {"id": [node.id for node, _, _ in rows]}
    out |= {f"x{j}": [x[j] for _, x, _ in rows] for j in range(dimension)}
    if layout == "long":
        out["probability"] = [p for _, _, p in rows]
    return out if layout == "groups" else out | {"weight": [node.weight for node, _, _ in rows]}


def options_of(layout):
    """What the reader must be told; the rest it finds out."""
    if layout == "points":
        return {"layout": layout, "weight": "weight"}  # which may as well be a feature
    return {"group_size": GROUP} if layout == "groups" else {"layout": layout.partition(" ")[0]}


def write(path, columns, *, step=7, **csv_options):
    """Write columns in the format that the name of the file says, in pieces of ``step`` rows where there are such."""
    name = path.name
    if ".csv" in name:
        path.write_bytes(compressed(csv_text(columns, **csv_options).encode(), path.suffix))
        return path
    table = pa.table(columns)
    if name.endswith(".parquet"):
        pq.write_table(table, path, row_group_size=step)
    else:
        new = pa.ipc.new_file if name.endswith(".arrow") else pa.ipc.new_stream
        with new(str(path), table.schema) as out:
            out.write_table(table, max_chunksize=step)
    return path


def compressed(data, suffix):
    """Bytes of a compressed file, by the ending of its name."""
    if suffix == ".gz":
        return gzip.compress(data)
    if suffix == ".bz2":
        return bz2.compress(data)
    codec = {".zst": "zstd", ".lz4": "lz4"}.get(suffix)
    if codec is None:
        return data
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, codec) as stream:
        stream.write(data)
    return out.getvalue().to_pybytes()


def csv_text(columns, delimiter=",", line_end="\n"):
    """Text of a CSV file; lists as JSON, None as nothing."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=line_end)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([json.dumps(cell) if isinstance(cell, list) else cell for cell in row])
    return out.getvalue()


def tiny(monkeypatch, rows=4, block=50):
    """Make chunks so small that nodes stand at their borders."""
    monkeypatch.setattr(base, "MIN_ROWS", rows)
    monkeypatch.setattr(base, "MAX_ROWS", rows)
    monkeypatch.setattr(csv_reader, "BLOCK", block)


def batches_of(inputs, **options):
    """All batches; the counts must add up at every one of them."""
    batches = list(probi.io.read(inputs, **options).batches())
    for batch in batches:
        check_counts(batch.counts)
        assert len(batch.where) == len(batch.nodes)
    return batches


def check_counts(counts):
    assert counts.rows == counts.used + counts.missing + counts.rejected + counts.incomplete


def joined(batches):
    """Nodes of all batches; those without any have no ids and do not count."""
    full = [batch.nodes for batch in batches if len(batch.nodes)]
    return Nodes.concat(full) if full else None


def read_nodes(inputs, **options):
    return joined(batches_of(inputs, **options))


def assert_same(nodes, expected):
    """Equal in every bit that tells, dtypes too."""
    assert nodes == expected
    assert nodes.dtype == expected.dtype
    assert (nodes.ids is None) == (expected.ids is None)
    if nodes.ids is not None:
        assert nodes.ids.dtype == expected.ids.dtype
