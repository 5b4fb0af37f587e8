"""Files: those that a user names, their formats, and how files of any format are read and written as tables."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from probi._files import AnyPath, as_path, file_key, is_pattern, paths_matching
from probi._stores import StorePath, without_secrets
from probi.errors import InputError, ProbiError
from probi.io.formats import FORMATS
from probi.io.rows import Rows
from probi.nodes import Nodes
from probi.tables import Given
from probi.tables.columns import Columns

# Coordinates per chunk: some megabytes, so that threads have work and memory stays small.
COORDINATES = 1 << 20
MIN_ROWS, MAX_ROWS = 64, 1 << 17

STANDARD_INPUT = "-"

# Format of sources that are not files but tables in memory, such as a partition of a DataFrame.
IN_MEMORY = "tables"


# -- files that a user names ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """One file; without a path, standard input or tables in memory."""

    path: AnyPath | None
    format: str
    name: str | None = None  # what it is called in messages and results, if not by its path
    tables: Any = None  # an iterable of Arrow tables of the same schema, not empty

    def __str__(self) -> str:
        return self.name or ("standard input" if self.path is None else str(self.path))

    @property
    def size(self) -> int | None:
        """Bytes, where they are known."""
        if self.is_folder:
            return sum(stat.st_size or 0 for stat in self.stats)
        return None if self.path is None or not self.path.is_file() else self.path.stat().st_size

    @property
    def version(self) -> tuple[Any, ...] | None:
        """Changes when the file does; None where that is not known."""
        if self.is_folder:
            return len(self.stats), self.size, max((stat.st_mtime_ns or 0 for stat in self.stats), default=0)
        if self.path is None or not self.path.is_file():
            return None
        if isinstance(self.path, StorePath):
            return self.path.version()
        stat = self.path.stat()
        return stat.st_size, stat.st_mtime_ns

    def refreshed(self) -> "Source":
        """The same file, without cached sizes and times."""
        return replace(self, path=self.path.without_cached_info() if isinstance(self.path, StorePath) else self.path)

    @property
    def is_folder(self) -> bool:
        """Whether a folder is read as one file."""
        return self.format != IN_MEMORY and load_format(self.format).is_folder

    @cached_property
    def stats(self) -> list[Any]:
        """Sizes and times of the files of a folder."""
        below: Iterable[Any] = () if self.path is None else self.path.rglob("*")
        return [file.stat() for file in below if file.is_file()]


def find_sources(inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], format: str | None) -> list[Source]:
    """Files that the inputs mean, in order; those of a folder or a pattern are sorted by name."""
    if format is not None and format not in FORMATS:
        raise InputError(f"Unknown format {format!r}; use one of {', '.join(FORMATS)}.")
    names = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    if not names:
        raise InputError("No input file was given.")
    if STANDARD_INPUT in names:
        if len(names) > 1:
            raise InputError("Standard input ('-') cannot be read together with other files.")
        return [Source(None, format or "csv")]
    paths = [path for name in names for path in _paths(os.fspath(name), format)]
    seen: set[Any] = set()
    for path in paths:
        if (key := file_key(path)) in seen:
            raise InputError(f"{path} was given twice; its nodes would count twice.")
        seen.add(key)
    return [Source(path, format or _format_of_file(path)) for path in paths]


def _paths(name: str, format: str | None) -> list[AnyPath]:
    path = as_path(name)
    if isinstance(path, StorePath):
        path = path.with_cached_info()
    if path.is_dir() and not _is_folder(path, format):
        # Hidden files are markers of Spark, Hive and editors, not data.
        below: Iterable[Any] = path.rglob("*")
        files = [p for p in sorted(below) if p.is_file()]
        shown = [p for p in files if not any(part.startswith((".", "_")) for part in p.relative_to(path).parts)]
        paths = [p for p in shown if format is not None or format_of_name(p.name) is not None]
        if not paths:
            raise InputError(f"{path} contains no file that ends in {list_endings(formats_by_ending())}.")
        return paths
    if path.exists():
        return [path]
    if is_pattern(path):
        paths = paths_matching(path)
        if not paths:
            raise InputError(f"No file matches the pattern {path}.")
        return paths
    raise InputError(f"There is no file {path}.")


def _is_folder(path: AnyPath, format: str | None) -> bool:
    """Whether a folder is one file of its format."""
    name = format or format_of_name(path.name)
    return name is not None and load_format(name).is_folder


def _format_of_file(path: AnyPath) -> str:
    """Name of the format of a file, by its name or else by the bytes with which it begins."""
    format = format_of_name(path.name)
    if format is not None:
        return format
    if not path.is_file():  # reading a pipe or a device would consume it
        return "csv"
    with path.open("rb") as file:
        start = file.read(6)
    for name in FORMATS:
        if start.startswith(load_format(name).magic):
            return name
    raise InputError(f"Cannot infer a format for {path}; pass format (--format).")


def formats_by_ending() -> dict[str, str]:
    """Return the name of the format for each ending of a file's name."""
    return {ending: name for name in FORMATS for ending in load_format(name).endings}


def list_endings(endings: Iterable[str]) -> str:
    """Endings for a message; those of compressed text are not all written out."""
    endings = list(endings)
    plain = [ending for ending in endings if ending.count(".") == 1]
    compressed = dict.fromkeys(ending[ending.rindex(".") :] for ending in endings if ending.count(".") > 1)
    return ", ".join(plain) + (f" (text also with {', '.join(compressed)})" if compressed else "")


def format_of_name(file_name: str) -> str | None:
    """Return the name of the format with the ending of this file name, if there is one."""
    name = file_name.lower()
    return next((format for ending, format in formats_by_ending().items() if name.endswith(ending)), None)


def standard_input() -> Any:
    """Standard input as bytes.

    Reopened if it is a real file: Python's own object must not be locked by a reading thread at the end.
    """
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (AttributeError, OSError):
        return sys.stdin.buffer


# -- a format ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenOptions:
    """What is known about a file before it is opened; formats that store types need none of it."""

    delimiter: str | None = None
    header: bool | None = None
    decimal: str | None = None
    schema: pa.Schema | None = None  # that of the first file, whose types are not inferred again
    max_bytes: int | None = None  # for a look at the start: about as many bytes are read
    # Of labeled arrays: roles of dimensions, and what else tells how their nodes are made.
    node: Sequence[str] | None = None
    realization: Sequence[str] | Literal[False] | None = None
    variables: Sequence[str] | None = None
    weight: Given = None
    missing: str = "error"
    is_scaled: bool = False  # features may have different units


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
    # Of labeled arrays: the roles of columns, and names of the features that a column of points holds.
    roles: Mapping[str, Any] = MappingProxyType({})
    feature_names: tuple[str, ...] | None = None

    def __init__(self, source: Source, options: OpenOptions) -> None:
        self.source = source
        self.options = options  # with which another reader opens it; what was inferred is filled in
        # Rows at which reading can start as cheaply as at the first, with the bytes up to the next.
        self.pieces = [(0, source.size or 0)]

    def chunks(self, columns: Columns, skip: int) -> Iterator[Rows]:
        """Rows from ``skip`` on, with the columns that play a role, in chunks of bounded size."""
        names = columns.used
        step = self._rows_per_chunk(names)
        with naming_errors(self.source):
            for row, table, done in self.tables(names, step, skip):
                for start in range(0, table.num_rows, step):
                    begin, end = max(start, skip - row), min(start + step, table.num_rows)
                    if begin < end:
                        yield Rows.starting_at(row + begin, table.slice(begin, end - begin).select(names), done)

    def _rows_per_chunk(self, names: list[str]) -> int:
        """Rows that hold about COORDINATES numbers, judged by the first ones."""
        some = self.first.select(names) if self.first.num_rows else self.first
        n_bytes = sum(map(_n_bytes, some.columns))
        size = max(1, n_bytes // 8 // max(1, some.num_rows))
        return int(np.clip(COORDINATES // max(size, len(names)), MIN_ROWS, MAX_ROWS))

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """Tables that follow each other: their first rows, the tables, and how far in the file each ends.

        Rows before ``skip`` may be left out; tables should have about ``step`` rows where that is cheap.
        """
        raise NotImplementedError


def _n_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of a column; pyarrow 19 cannot tell them of texts that are views, as polars writes them."""
    return int((column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column).nbytes)


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
    is_labeled: bool = False  # holds labeled arrays, whose dimensions have roles
    is_folder: bool = False  # one of its "files" is a folder


def load_format(name: str) -> Format:
    """Return a format by its name."""
    return FORMAT if name == IN_MEMORY else import_module(FORMATS[name]).FORMAT


def open_file(source: Source, options: OpenOptions | None = None) -> TableFile:
    """Open a file of any format."""
    with naming_errors(source):
        return load_format(source.format).open(source, options or OpenOptions())


@contextlib.contextmanager
def naming_errors(source: Source) -> Iterator[None]:
    """Re-raise errors of other libraries and the system as an InputError that names the file."""
    try:
        yield
    except InputError as error:
        if str(error).startswith(str(source)):
            raise
        raise InputError(f"{source}: {error}") from None
    except ProbiError:
        raise
    except MemoryError:
        raise InputError(
            f"{source} claims to hold more than fits in memory. If it does, write smaller batches or row groups."
        ) from None
    except Exception as error:  # libraries of formats and stores have errors of their own kinds
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        on_one_line = without_secrets(" ".join(text.split())).removeprefix(f"{source}: ")
        raise InputError(f"{source} cannot be read as {source.format}: {on_one_line[:300].rstrip('.')}.") from None


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
