"""A file as a sequence of tables of bounded size, whatever its format."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probi.errors import InputError
from probi.io.sources import Source, standard_input
from probi.tables.columns import Columns

# Coordinates of a chunk: some megabytes, so that threads have work and memory stays small.
COORDINATES = 1 << 20
MAX_ROWS = 1 << 17

# Bytes of an array that are not cut further between workers; a row group of Parquet has about as many.
PIECE = 1 << 23


# Column of whole lines that could not be read; no column of a file is called so.
LINE = ""


@dataclass(frozen=True)
class Chunk:
    """Rows of a file, as a table.

    ``row`` counts rows of data from 0; ``line`` is a function from a row of the chunk to its line in a file of text;
    ``done`` says how far in the file this is, in bytes, rows or batches. ``unread`` holds the bytes of cells that could
    not be read, by column and row, where the table has nulls; of a line with too few or too many cells all of it and
    the reason, in the column LINE. None: everything could be read.
    """

    table: pa.Table
    row: int
    unread: pa.Table | None = None
    line: Callable[[int], int] | None = None
    done: int = 0


class TableFile(Protocol):
    """An opened file."""

    schema: pa.Schema
    total: int | None  # what ``done`` ends at, if known
    # Rows where reading may as well begin as at the start, with the bytes up to the next; one where only that is known.
    pieces: list[tuple[int, int]]
    n_rows: int | None  # where they are known without reading

    @property
    def first(self) -> pa.Table:
        """Some first rows."""
        ...

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        """Columns that play a role, from row ``skip`` on."""
        ...


def open_file(source: Source, **csv_options: Any) -> TableFile:
    """Open a file of any format; what its library complains about is an InputError that names the file."""
    from probi.io.csv_file import CsvFile

    with trouble_in(source):
        if source.tables is not None:
            return _Tables(source)
        if source.format == "parquet":
            return _Parquet(source)
        if source.format == "ipc":
            return _Ipc(source)
        if source.format == "npy":
            return _Npy(source)
        return CsvFile(source, **csv_options)


class trouble_in:  # noqa: N801  a context manager, named as it reads
    """Turn what pyarrow, NumPy and the system raise about a file into an InputError with its name."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, InputError):
            if not str(error).startswith(str(self.source)):
                raise InputError(f"{self.source}: {error}") from None
        elif isinstance(error, (pa.ArrowException, OSError, EOFError, ValueError)):
            raise InputError(f"{self.source} cannot be read as {self.source.format}: {_sentence(error)}") from None


def _sentence(error: BaseException) -> str:
    """First sentence of a library's message, on one line."""
    text = " ".join((error.strerror or str(error) if isinstance(error, OSError) else str(error)).split())
    return text[:300].rstrip(".") + "."


def rows_of_a_chunk(table: pa.Table, names: list[str]) -> int:
    """Rows that make about COORDINATES numbers, judged by the first ones."""
    some = table.select(names) if table.num_rows else table
    size = max(1, some.nbytes // 8 // max(1, some.num_rows))
    return int(np.clip(COORDINATES // max(size, len(names)), 64, MAX_ROWS))


class _Parquet:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._file = pq.ParquetFile(_seekable(source), memory_map=False)
        self.schema = self._file.schema_arrow
        self.total: int | None = self._file.metadata.num_rows
        self.n_rows: int | None = self.total
        groups = [self._file.metadata.row_group(g) for g in range(self._file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum([group.num_rows for group in groups])]).astype(np.int64)
        self.pieces = [(int(row), group.total_byte_size) for row, group in zip(self._starts, groups, strict=False)]

    @cached_property
    def first(self) -> pa.Table:
        # By row group and a few rows only: decoding the whole of it would take its memory.
        with trouble_in(self._source):
            batches = self._file.iter_batches(batch_size=1000, row_groups=[0] if self._file.num_row_groups else [])
            return pa.Table.from_batches(list(islice(batches, 1)), self.schema)

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        names = columns.used
        with trouble_in(self._source):
            group = max(0, int(np.searchsorted(self._starts, skip, side="right")) - 1)
            row = int(self._starts[group])
            batches = self._file.iter_batches(
                batch_size=rows_of_a_chunk(self.first, names),
                row_groups=list(range(group, self._file.num_row_groups)),
                columns=names,
            )
            for batch in batches:
                yield from _from(pa.Table.from_batches([batch]).select(names), row, skip)
                row += batch.num_rows


class _Ipc:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._file: Any = None
        self._stream: Any = None
        is_file = source.path is not None and source.path.is_file()
        self._data = pa.memory_map(str(source.path)) if is_file else _opened(source)
        if is_file and self._data.read(6) == b"ARROW1":
            self._data.seek(0)
            self._file = pa.ipc.open_file(self._data)
        else:
            if is_file:
                self._data.seek(0)
            self._stream = pa.ipc.open_stream(self._data)
        self.schema = (self._file or self._stream).schema
        if b"probi" in (self.schema.metadata or {}):
            raise InputError("this is a summary, not a table of nodes. Use probi solve, merge, evaluate or info.")
        self.pieces, self.n_rows = one_piece(source)
        self._head: list[pa.RecordBatch] = []
        if self._file is not None:
            self.total = self._file.num_record_batches  # rows are told only by reading, and unzipping, all of it
            head = [self._file.get_batch(0)] if self._file.num_record_batches else []
        else:
            self.total = source.size
            head = self._head = list(islice(self._stream, 1))
            # What recognises it, where it can be read only once.
            self.start = b"".join(batch.serialize().to_pybytes() for batch in head)
        for batch in head:
            batch.validate(full=True)
        self.first = pa.Table.from_batches([batch.slice(0, 1000) for batch in head], self.schema)

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches, and how far in the file each ends: in batches, or of a stream in bytes."""
        if self._file is not None:
            for i in range(self._file.num_record_batches):
                yield self._file.get_batch(i), i + 1
        else:
            for batch in chain(self._head, self._stream):
                self._head = []
                yield batch, 0 if self.total is None else self._data.tell()

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        names = columns.used
        step, row = rows_of_a_chunk(self.first, names), 0
        with trouble_in(self._source):
            for batch, done in self._batches():
                # Offsets that point anywhere would be followed: Arrow trusts what it reads until it is told not to.
                batch.validate(full=True)
                table = pa.Table.from_batches([batch]).select(names)
                for start in range(0, table.num_rows, step):
                    part = table.slice(start, step)
                    yield from (replace(chunk, done=done) for chunk in _from(part, row, skip))
                    row += part.num_rows


class _Npy:
    def __init__(self, source: Source) -> None:
        self._source = source
        if source.path is None:
            raise InputError("NPY cannot be read from standard input. Name the file.")
        with source.path.open("rb") as file:
            if file.read(6) != b"\x93NUMPY":
                raise InputError("this is no NPY file: it does not begin like one.")
        try:
            array = np.load(source.path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "Python objects" in str(error):
                raise InputError("it holds Python objects, which probi does not load: that could run code.") from None
            raise
        if not isinstance(array, np.ndarray) or array.ndim not in (1, 2, 3) or (array.ndim == 1) != bool(
            array.dtype.names
        ):  # fmt: skip
            raise InputError(
                "the array must be (rows, features) or (nodes, realizations, features), or have named fields."
            )
        if array.dtype.names is None and array.dtype.kind not in "fiub":
            raise InputError(f"the array holds {array.dtype}, not numbers.")
        self._array = array
        self.total: int | None = len(array)
        self.n_rows: int | None = len(array)
        bytes_a_row = array.nbytes // max(1, len(array))
        step = max(1, PIECE // max(1, bytes_a_row))
        self.pieces = [(row, min(step, len(array) - row) * bytes_a_row) for row in range(0, len(array), step)]
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

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        names = columns.used
        step = rows_of_a_chunk(self.first, names)
        for start in range(skip, len(self._array), step):
            table = self._table(start, start + step).select(names)
            yield Chunk(table, start, done=start + table.num_rows)


class _Tables:
    """Tables that are there already: a partition of a DataFrame."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tables = iter(source.tables)
        self._head = next(self._tables)
        self.schema = self._head.schema
        self.first = self._head.slice(0, 1000)
        self.total: int | None = None
        self.pieces, self.n_rows = one_piece(source)

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        names = columns.used
        step, row = rows_of_a_chunk(self.first, names), 0
        with trouble_in(self._source):
            for table in chain([self._head], self._tables):
                for start in range(0, table.num_rows, step):
                    part = table.slice(start, step).select(names)
                    yield from _from(part, row, skip)
                    row += part.num_rows


def _plain(values: Any) -> pa.Array:
    """Arrow array of a part of a mapped file, in this machine's byte order."""
    return pa.array(np.ascontiguousarray(values, values.dtype.newbyteorder("=")))


def one_piece(source: Source) -> tuple[list[tuple[int, int]], int | None]:
    """Pieces and number of rows of a file that tells neither."""
    return [(0, source.size or 0)], None


def _from(table: pa.Table, row: int, skip: int) -> Iterator[Chunk]:
    """The part of a table from row ``skip`` on, if there is one."""
    done = row + table.num_rows
    if done > skip:
        before = max(0, skip - row)
        yield Chunk(table.slice(before), row + before, done=done)


def _seekable(source: Source) -> Any:
    if source.path is None:
        raise InputError("Parquet cannot be read from standard input: its index stands at the end. Name the file.")
    return source.path


def _opened(source: Source) -> Any:
    return pa.PythonFile(standard_input(), mode="r") if source.path is None else pa.OSFile(str(source.path))
