"""Arrow IPC, the file and the stream, also as Feather."""

import contextlib
import struct
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from probi._stores import StorePath
from probi.errors import InputError
from probi.io.formats.base import Format, OpenOptions, Source, TableFile, standard_input
from probi.summary.claims import block_places, exceeds, message_claims

# Bytes that are read at once of metadata.
PAGE = 1 << 12


class IpcFile(TableFile):
    """An opened file or stream of Arrow."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        super().__init__(source, options)
        is_file = source.path is not None and source.path.is_file()
        data = _open_file(source.path) if is_file else _open_stream(source)
        is_stream = not is_file or data.read(6) != b"ARROW1"
        if is_file:
            data.seek(0)
        if is_file and not isinstance(source.path, StorePath):
            _check_claims(source, is_stream)
        opened: Any = pa.ipc.open_stream(data) if is_stream else pa.ipc.open_file(data)
        self.schema = opened.schema
        if b"probi" in (self.schema.metadata or {}):
            raise InputError("this is a summary, not a table of nodes. Use probi solve, merge, evaluate or info.")
        # How far each batch is in the file counts bytes of a stream, or batches: counting rows would
        # require reading and decompressing all of them.
        if is_stream:
            self.total = source.size
            batches = ((batch, 0 if self.total is None else data.tell()) for batch in opened)
        else:
            self.total = opened.num_record_batches
            batches = ((opened.get_batch(i), i + 1) for i in range(opened.num_record_batches))
        head = list(islice(batches, 1))
        self._batches = chain(head, batches)
        for batch, _ in head:
            batch.validate(full=True)
            if is_stream:
                self.start = batch.serialize().to_pybytes()
        self.first = pa.Table.from_batches([batch.slice(0, 1000) for batch, _ in head], self.schema)

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """All batches."""
        row = 0
        for batch, done in self._batches:
            # Arrow does not check offsets unless asked to, and would follow invalid ones.
            batch.validate(full=True)
            yield row, pa.Table.from_batches([batch]), done
            row += batch.num_rows


class _Slices:
    """Bytes of a file by slices; the last block read is kept, because metadata are close together."""

    def __init__(self, file: Any) -> None:
        self._file, self._start, self._block = file, 0, b""

    def __getitem__(self, place: slice) -> bytes:
        start, stop = place.start, place.stop
        if not self._start <= start <= stop <= self._start + len(self._block):
            self._file.seek(start)
            self._start, self._block = start, self._file.read(max(PAGE, stop - start))
        return self._block[start - self._start : stop - self._start]


def _check_claims(source: Source, is_stream: bool) -> None:
    """Raise if a batch claims far more than its bytes can hold."""
    claimed = stored = 0
    # What is damaged or cut off, pyarrow refuses when it comes to it.
    with Path(str(source.path)).open("rb") as file, contextlib.suppress(struct.error, OSError, ValueError):
        for claimed, stored in _claims(_Slices(file), source.size or 0, is_stream):
            if exceeds(claimed, stored):
                break
    if exceeds(claimed, stored):
        raise InputError(
            f"a batch claims {claimed / 1e9:,.1f} GB in {stored:,} bytes. If it is right, write it in smaller batches."
        )


def _claims(data: Any, n_bytes: int, is_stream: bool) -> Iterator[tuple[int, int]]:
    """Bytes that each batch claims, and those that it has."""
    if not is_stream:
        for place in block_places(data, n_bytes):
            yield message_claims(data, place)[1:3]
        return
    at, end = -1, 0
    while at < end < n_bytes:  # a forged length may lead back
        at = end
        _, claimed, stored, end = message_claims(data, at)
        yield claimed, stored


def _open_file(path: Any) -> Any:
    # Not memory-mapped: if the file is truncated, the process would be killed.
    return path.open() if isinstance(path, StorePath) else pa.OSFile(str(path))


def _open_stream(source: Source) -> Any:
    return pa.PythonFile(standard_input(), mode="r") if source.path is None else pa.OSFile(str(source.path))


FORMAT = Format(
    endings=(".arrow", ".arrows", ".ipc", ".feather"),
    magic=(b"ARRO", b"\xff\xff\xff\xff"),
    open=IpcFile,
    create=lambda path, schema, name: pa.ipc.new_file(path, schema),
)
