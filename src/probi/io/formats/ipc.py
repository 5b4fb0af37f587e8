"""Arrow IPC, the file and the stream, also as Feather."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from probi.errors import InputError
from probi.io.formats.base import (
    Chunk,
    Format,
    OpenOptions,
    chunks_of,
    one_piece,
    open_stream,
    rows_per_chunk,
    trouble_in,
)
from probi.io.sources import Source
from probi.tables.columns import Columns


class IpcFile:
    """An opened file or stream of Arrow."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        self._source = source
        self._file: Any = None
        self._stream: Any = None
        is_file = source.path is not None and source.path.is_file()
        self._data = pa.memory_map(str(source.path)) if is_file else open_stream(source)
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

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        """Columns that play a role, from row ``skip`` on."""
        names = columns.used
        with trouble_in(self._source):
            yield from chunks_of(self._tables(), names, rows_per_chunk(self.first, names), skip)

    def _tables(self) -> Iterator[tuple[pa.Table, int]]:
        for batch, done in self._batches():
            # Offsets that point anywhere would be followed: Arrow trusts what it reads until it is told not to.
            batch.validate(full=True)
            yield pa.Table.from_batches([batch]), done

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Batches, and how far in the file each ends: in batches, or of a stream in bytes."""
        if self._file is not None:
            for i in range(self._file.num_record_batches):
                yield self._file.get_batch(i), i + 1
        else:
            for batch in chain(self._head, self._stream):
                self._head = []
                yield batch, 0 if self.total is None else self._data.tell()


FORMAT = Format(
    endings=(".arrow", ".arrows", ".ipc", ".feather"),
    magic=(b"ARRO", b"\xff\xff\xff\xff"),
    open=IpcFile,
    create=lambda path, schema, name: pa.ipc.new_file(path, schema),
)
