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
    """An opened NPY file."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        super().__init__(source, options)
        self._array = array = _open(source)
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


def _open(source: Source) -> "_ArrayFile":
    """Open the array of a file; raise if it cannot be a table."""
    if source.path is None:
        raise InputError("NPY cannot be read from standard input. Name the file.")
    array = _ArrayFile(source.path)
    has_fields = bool(array.dtype.names)
    if array.ndim not in (1, 2, 3) or (array.ndim == 1) != has_fields:
        raise InputError("the array must be (rows, features) or (nodes, realizations, features), or have named fields.")
    if not has_fields and array.dtype.kind not in "fiub":
        raise InputError(f"the array holds {array.dtype}, not numbers.")
    return array


class _ArrayFile:
    """An array of which rows are read. Not memory-mapped: if the file is truncated, the process would be killed.

    What the header claims is compared with the size of the file first.
    """

    def __init__(self, path: Any) -> None:
        self._buffer = bytearray()
        self._file: Any = None
        self._file = path.open("rb")
        if self._file.read(6) != b"\x93NUMPY":
            raise InputError("this is not an NPY file: it does not begin like one.")
        self._file.seek(0)
        try:
            version = np.lib.format.read_magic(self._file)
            is_old = version == (1, 0)
            header = np.lib.format.read_array_header_1_0 if is_old else np.lib.format.read_array_header_2_0
            self.shape, self._by_columns, self.dtype = header(self._file)
            if version == (3, 0) and self.dtype.names:
                self.dtype.names = tuple(name.encode("latin-1").decode("utf-8") for name in self.dtype.names)
        except Exception as error:  # a forged header may fail anywhere in Python's parser
            raise InputError(f"the header is damaged: {' '.join(str(error).split())[:200]}.") from None
        if self.dtype.hasobject:
            raise InputError("it holds Python objects, which probi does not load: that could run code.")
        self._by_columns &= self.ndim > 1
        if self._by_columns and isinstance(path, StorePath):
            raise InputError(
                "its array is stored by columns (in Fortran order), which cannot be read by rows from a store. Copy "
                "the file to a local disk."
            )
        n_bytes = path.stat().st_size
        # An empty array may claim any number of columns, or of rows without one.
        is_huge = 0 in self.shape and math.prod(length or 1 for length in self.shape) > n_bytes
        if any(length < 0 for length in self.shape) or self.dtype.itemsize == 0 or is_huge:
            raise InputError(f"the header is damaged: it says {self.dtype} of shape {self.shape}.")
        self._start = self._file.tell()
        self._per_row = math.prod(self.shape[1:])
        if n_bytes < self._start + self.nbytes:
            raise InputError("the file is cut off: it has fewer rows than its header says.")

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self._per_row * self.dtype.itemsize * len(self)

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __getitem__(self, rows: slice) -> Any:
        start, stop, _ = rows.indices(len(self))
        if not self._by_columns:
            return self._read(start * self._per_row, (stop - start) * self._per_row).reshape(-1, *self.shape[1:])
        columns = [self._read(column * len(self) + start, stop - start).copy() for column in range(self._per_row)]
        return np.array(columns).reshape(*self.shape[:0:-1], stop - start).T

    def _read(self, start: int, n: int) -> Any:
        """Numbers of the file, from this one on, in memory that the next ones take: fresh memory took a fifth more."""
        n_bytes = n * self.dtype.itemsize
        if len(self._buffer) < n_bytes:
            self._buffer = bytearray(n_bytes)
        data = memoryview(self._buffer)[:n_bytes]
        self._file.seek(self._start + start * self.dtype.itemsize)
        if self._file.readinto(data) < n_bytes:
            raise InputError("the file is cut off: it has fewer rows than its header says.")
        return np.frombuffer(data, self.dtype)


def _plain(values: Any) -> pa.Array:
    """Arrow array of a copy of a part of a file, in this machine's byte order."""
    return pa.array(np.array(values, values.dtype.newbyteorder("=")))


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
