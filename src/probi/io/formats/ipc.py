"""Arrow IPC, the file and the stream, also as Feather."""

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from probi.errors import InputError
from probi.io.formats.base import Format, OpenOptions, Source, TableFile, standard_input


class IpcFile(TableFile):
    """An opened file or stream of Arrow."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        super().__init__(source, options)
        self._file: Any = None
        self._stream: Any = None
        is_file = source.path is not None and source.path.is_file()
        self._data = pa.memory_map(str(source.path)) if is_file else _open_stream(source)
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
        self._head: list[pa.RecordBatch] = []
        if self._file is not None:
            self.total = self._file.num_record_batches  # counting rows would mean to read, and unzip, all of it
            head = [self._file.get_batch(0)] if self._file.num_record_batches else []
        else:
            self.total = source.size
            head = self._head = list(islice(self._stream, 1))
            # Identifies an input that can be read only once.
            self.start = b"".join(batch.serialize().to_pybytes() for batch in head)
        for batch in head:
            batch.validate(full=True)
        self.first = pa.Table.from_batches([batch.slice(0, 1000) for batch in head], self.schema)

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """All batches; how far each is in the file counts batches, or bytes of a stream."""
        row = 0
        for batch, done in self._batches():
            # Arrow does not check offsets unless asked to, and would follow invalid ones.
            batch.validate(full=True)
            yield row, pa.Table.from_batches([batch]), done
            row += batch.num_rows

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        if self._file is not None:
            for i in range(self._file.num_record_batches):
                yield self._file.get_batch(i), i + 1
        else:
            for batch in chain(self._head, self._stream):
                self._head = []
                yield batch, 0 if self.total is None else self._data.tell()


def _open_stream(source: Source) -> Any:
    return pa.PythonFile(standard_input(), mode="r") if source.path is None else pa.OSFile(str(source.path))


FORMAT = Format(
    endings=(".arrow", ".arrows", ".ipc", ".feather"),
    magic=(b"ARRO", b"\xff\xff\xff\xff"),
    open=IpcFile,
    create=lambda path, schema, name: pa.ipc.new_file(path, schema),
)
