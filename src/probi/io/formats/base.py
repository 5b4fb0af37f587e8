"""What a file format is: how its files are recognized, read in tables of bounded size, and written."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from probi.errors import InputError
from probi.io.formats import load_format
from probi.io.rows import Rows
from probi.io.sources import Source
from probi.nodes import Nodes
from probi.tables.columns import Columns

# Coordinates per chunk: some megabytes, so that threads have work and memory stays small.
COORDINATES = 1 << 20
MIN_ROWS, MAX_ROWS = 64, 1 << 17


@dataclass(frozen=True)
class OpenOptions:
    """What is known about a file before it is opened; formats that store types need none of it."""

    delimiter: str | None = None
    header: bool | None = None
    decimal: str | None = None
    schema: pa.Schema | None = None  # that of the first file, whose types are not inferred again
    max_bytes: int | None = None  # for a look at the start: about as many bytes are read


class TableFile:
    """An opened file; the class of each format derives from it."""

    schema: pa.Schema
    first: pa.Table  # some first rows
    total: int | None = None  # what ``Rows.done`` ends at, if known
    n_rows: int | None = None  # where they are known without reading
    # Of text: what was inferred of cells, for messages.
    delimiter: str | None = None
    decimal_commas: Mapping[str, str] = MappingProxyType({})  # columns that look like numbers with one, and a value
    start: bytes = b""  # identifies an input that can be read only once

    def __init__(self, source: Source, options: OpenOptions) -> None:
        self.source = source
        self.options = options  # with which another reader opens it; what was inferred is filled in
        # Rows at which reading can start as cheaply as at the first, with the bytes up to the next.
        self.pieces = [(0, source.size or 0)]

    def chunks(self, columns: Columns, skip: int) -> Iterator[Rows]:
        """Rows from ``skip`` on, with the columns that play a role, in chunks of bounded size."""
        names = columns.used
        step = rows_per_chunk(self.first, names)
        with naming_errors(self.source):
            for row, table, done in self.tables(names, step, skip):
                for start in range(0, table.num_rows, step):
                    begin, end = max(start, skip - row), min(start + step, table.num_rows)
                    if begin < end:
                        yield Rows.starting_at(row + begin, table.slice(begin, end - begin).select(names), done)

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """Tables that follow each other: their first rows, the tables, and how far in the file each ends.

        Rows before ``skip`` may be left out; tables should have about ``step`` rows where that is cheap.
        """
        raise NotImplementedError


class TableWriter(Protocol):
    """A file to which tables of one schema are written."""

    def write_table(self, table: pa.Table) -> None:
        """Append a table."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...


@dataclass(frozen=True)
class Format:
    """A file format.

    ``create`` takes a temporary path, the schema, and the name that the file will have, in lower case; without it, no
    tables of this format are written. ``write_nodes`` takes a path, batches of nodes and a layout, and returns how many
    nodes there were; without it, nodes are written as tables.
    """

    endings: tuple[str, ...]
    magic: tuple[bytes, ...]  # with which its files begin
    open: Callable[[Source, OpenOptions], TableFile]
    create: Callable[[Path, pa.Schema, str], TableWriter] | None = None
    write_nodes: Callable[[Path, Iterable[Nodes], str], int] | None = None
    is_text: bool = False  # types are inferred from what is read


class naming_errors:  # noqa: N801  a context manager, named as it reads
    """Re-raise errors of pyarrow, NumPy and the system as an InputError that names the file."""

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


def open_file(source: Source, options: OpenOptions | None = None) -> TableFile:
    """Open a file of any format."""
    with naming_errors(source):
        return load_format(source.format).open(source, options or OpenOptions())


def rows_per_chunk(first: pa.Table, names: list[str]) -> int:
    """Rows that hold about COORDINATES numbers, judged by the first ones."""
    some = first.select(names) if first.num_rows else first
    size = max(1, some.nbytes // 8 // max(1, some.num_rows))
    return int(np.clip(COORDINATES // max(size, len(names)), MIN_ROWS, MAX_ROWS))


# -- tables in memory --------------------------------------------------------------------------------------------------


class InMemory(TableFile):
    """Tables in memory, such as a partition of a DataFrame, read like a file."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        super().__init__(source, options)
        self._tables = iter(source.tables)
        self._head = next(self._tables)
        self.schema = self._head.schema
        self.first = self._head.slice(0, 1000)

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """All tables."""
        row = 0
        for table in chain([self._head], self._tables):
            yield row, table, 0
            row += table.num_rows


FORMAT = Format(endings=(), magic=(), open=InMemory)
