"""NPY: one array, of (rows, features) or (nodes, realizations, features), or with named fields."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from probi._stores import StorePath
from probi.errors import InputError
from probi.io.formats.base import Format, OpenOptions, Source, TableFile
from probi.nodes import Nodes
from probi.tables.convert import to_table

# Bytes that are not divided further between workers; a row group of Parquet has about as many.
PIECE = 1 << 23


class NpyFile(TableFile):
    """An opened NPY file, mapped into memory."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        super().__init__(source, options)
        self._array = array = _map(source)
        self.total = self.n_rows = len(array)
        bytes_per_row = array.nbytes // max(1, len(array))
        step = max(1, PIECE // max(1, bytes_per_row))
        self.pieces = [(row, min(step, len(array) - row) * bytes_per_row) for row in range(0, len(array), step)]
        self.first = self._table(0, 100)
        self.schema = self.first.schema

    def _table(self, start: int, stop: int) -> pa.Table:
        part = self._array[start:stop]
        if part.dtype.names is not None:
            return pa.table({name: _plain(part[name]) for name in part.dtype.names})
        if part.ndim == 2:
            return pa.table({f"x{j}": _plain(part[:, j]) for j in range(part.shape[1])})
        _, n_each, n_features = part.shape
        points = pa.FixedSizeListArray.from_arrays(_plain(part.reshape(-1)), n_features)
        return pa.table({"points": pa.FixedSizeListArray.from_arrays(points, n_each)})

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """Tables of ``step`` rows, from row ``skip`` on."""
        for start in range(skip, len(self._array), step):
            yield start, self._table(start, start + step), min(start + step, len(self._array))


def _map(source: Source) -> Any:
    """Map the array of a file into memory; raise if it cannot be a table."""
    if source.path is None:
        raise InputError("NPY cannot be read from standard input. Name the file.")
    with source.path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise InputError("this is not an NPY file: it does not begin like one.")
    try:
        if isinstance(source.path, StorePath):
            array: Any = _StoredArray(source.path)
        else:
            array = np.load(source.path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "Python objects" in str(error):
            raise InputError("it holds Python objects, which probi does not load: that could run code.") from None
        raise
    is_array = isinstance(array, (np.ndarray, _StoredArray))
    has_fields = is_array and bool(array.dtype.names)
    if not is_array or array.ndim not in (1, 2, 3) or (array.ndim == 1) != has_fields:
        raise InputError("the array must be (rows, features) or (nodes, realizations, features), or have named fields.")
    if not has_fields and array.dtype.kind not in "fiub":
        raise InputError(f"the array holds {array.dtype}, not numbers.")
    return array


class _StoredArray:
    """The array of a file in a store, of which rows are read where memory-mapped ones would be."""

    def __init__(self, path: Any) -> None:
        self._file = path.open()
        version = np.lib.format.read_magic(self._file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0}.get(version, np.lib.format.read_array_header_2_0)
        self.shape, by_columns, self.dtype = read_header(self._file)
        if self.dtype.hasobject:
            raise ValueError("Python objects")
        if by_columns and self.ndim > 1:
            raise InputError(
                "its array is stored by columns (in Fortran order), which cannot be read by rows from a store. Copy "
                "the file to a local disk."
            )
        self._start = self._file.tell()
        self._row_bytes = self.dtype.itemsize * math.prod(self.shape[1:])
        if path.stat().st_size < self._start + self.nbytes:
            raise InputError("the file is cut off: it has fewer rows than its header says.")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self._row_bytes * len(self)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __getitem__(self, rows: slice) -> Any:
        start, stop, _ = rows.indices(len(self))
        self._file.seek(self._start + start * self._row_bytes)
        data = self._file.read((stop - start) * self._row_bytes)
        return np.frombuffer(data, self.dtype).reshape(-1, *self.shape[1:])


def _plain(values: Any) -> pa.Array:
    """Arrow array of a part of a mapped file, in this machine's byte order."""
    return pa.array(np.ascontiguousarray(values, values.dtype.newbyteorder("=")))


def _write_nodes(path: Path, batches: Iterable[Nodes], layout: str) -> int:
    """Write an array (n, d) of points or groups, or (n, m, d) of nested nodes; all are in memory at once."""
    parts = list(batches)
    if not parts:
        return 0
    nodes = Nodes.concat(parts)
    if layout == "long":
        raise InputError("NPY holds numbers only: use the layout points, groups or nested, or another format.")
    # Raises if more than the ids would be lost.
    to_table(nodes, "groups" if layout == "nested" else layout)
    if not (nodes.weights == 1.0).all():
        raise InputError("NPY holds points only: these nodes have weights. Use another format.")
    array = nodes.points
    if layout == "nested":
        array = array.reshape(len(nodes), -1, nodes.n_features)
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    return len(nodes)


FORMAT = Format(endings=(".npy",), magic=(b"\x93NUM",), open=NpyFile, write_nodes=_write_nodes)
