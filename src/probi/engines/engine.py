"""What engines share: sources that are read in parts, the two passes over them, and streams."""

import math
import os
import platform
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from probi._files import as_path
from probi._types import Array, Labels
from probi.engines import PART_BYTES
from probi.engines.tasks import Assign, Summarize, Task, finish, groups, unpack_part
from probi.errors import InputError
from probi.io.formats.base import Source
from probi.io.node_assembler import Batch, Counts, NodeAssembler, Part, Position, check_left_out
from probi.io.options import Options
from probi.io.passes import Tally
from probi.io.reader import Reader, ReaderInfo
from probi.io.rows import FILE, Rows, concat_rows
from probi.io.transform import N_ESTIMATED, SCALES, Transform
from probi.objective import assign_inliers
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.tables.columns import Columns
from probi.tables.to_arrays import has_ids, node_starts, sorted_by_id
from probi.validation import check_count

# Parts assigned at a time: this process holds their tables.
PARTS_AT_ONCE = 64

# Rows at the start of a table from which the roles of its columns are inferred.
N_FIRST = 1000

# Rows before a boundary that are searched for an id. Usually the last one has it.
LOOK_BACK = (1, 1 << 10, 1 << 20)

# Called with the number of parts done, and of all parts.
OnPart = Callable[[int, int], None]

Space = Transform | Mapping[str, Any] | None


def no_progress(n_done: int, n_parts: int) -> None:
    """Report nothing."""


class Engine(ABC):
    """Workers that run tasks on parts of files, and of DataFrames if the engine has them.

    What is returned for parts may be lazy: only the engine itself looks into it.
    """

    frames: tuple[type, ...] = ()  # classes of its DataFrames

    @property
    def description(self) -> str:
        """Name of the engine and address of its dashboard, for the console."""
        return type(self).__name__

    # -- what an engine implements

    @abstractmethod
    def on_files(self, files: "Files", task: Task, numbers: range) -> Any:
        """Result of ``files.run(task, number)`` for each number."""

    @abstractmethod
    def collect(self, parts: Any) -> list[bytes]:
        """Results of all parts, in order."""

    @abstractmethod
    def merge(self, parts: Any, task: Summarize, on_part: OnPart = no_progress) -> bytes:
        """Merge neighbors, ``task.fan_in`` at a time, until one is left."""

    def first_rows(self, frame: Any, n_rows: int, reading: Mapping[str, Any]) -> pa.Table:
        """Some of the first rows of a DataFrame."""
        raise NotImplementedError

    def on_frame(self, frame: Any, how: "Frame", task: Task) -> Any:
        """Result of ``how.run(task, number, tables)`` for each partition; no node is split between two of them."""
        raise NotImplementedError

    def to_frame(self, parts: Any, empty: pa.Table) -> Any:
        """A DataFrame of assignments, with the columns of an empty one."""
        raise NotImplementedError

    # -- what engines share

    def open(self, source: Any, reading: Mapping[str, Any], space: Space = None, part_bytes: int = PART_BYTES) -> Any:
        """Find out how to read a source, as :class:`Files` or :class:`Frame`; in a known space if there is one."""
        if not isinstance(source, self.frames):
            return Files.of(reader_of(source, reading, space), part_bytes)
        estimates = space is None and reading.get("scale", "none") in SCALES[1:]
        return Frame.of(self.first_rows(source, N_ESTIMATED if estimates else N_FIRST, reading), reading, space)

    def run(self, source: Any, how: Any, task: Task) -> Any:
        """Run a task on each part of a source."""
        if isinstance(how, Files):
            return self.on_files(how, task, range(len(how.parts)))
        return self.on_frame(source, how, task)

    def summarize(
        self,
        source: Any,
        n_clusters: int,
        options: dict[str, Any],
        part_bytes: int = PART_BYTES,
        on_part: OnPart = no_progress,
    ) -> Summary:
        """Summarize a source; the options are those of a summary and those of reading."""
        config = SummaryConfig.taken_from(n_clusters, options)
        return self.summarize_opened(source, self.open(source, options, None, part_bytes), config, on_part)

    def summarize_opened(self, source: Any, how: Any, config: SummaryConfig, on_part: OnPart = no_progress) -> Summary:
        """Summarize a source that :meth:`open` knows how to read."""
        task = Summarize(config)
        return finish(self.merge(self.run(source, how, task), task, on_part), how.options)

    def assign(
        self,
        source: Any,
        centers: ArrayLike,
        reading: Mapping[str, Any],
        space: Space,
        part_bytes: int,
        outlier_distance: float = math.inf,
    ) -> Any:
        """DataFrame of the assignments of a source."""
        task = Assign((np.asarray(centers),), (outlier_distance,))
        how = self.open(source, reading, space, part_bytes)
        return self.to_frame(self.run(source, how, task), how.empty(task))

    def assign_files(
        self, files: "Files", task: Assign, write: Callable[[pa.Table], None], on_part: OnPart
    ) -> list[Tally]:
        """Assign all nodes; ``write`` gets one table per part, in order. Returns the sums per set of centers.

        Only some parts are assigned at a time, because this process holds their tables.
        """
        sums = [Tally(one) for one in task.centers]
        for numbers in groups(len(files.parts), PARTS_AT_ONCE):
            for data in self.collect(self.on_files(files, task, numbers)):
                table, tallies = unpack_part(data)
                if table.num_rows:
                    write(table)
                for total, tally in zip(sums, tallies, strict=True):
                    total.add(tally)
            on_part(numbers.stop, len(files.parts))
        return sums


# -- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """Files cut into parts: all that a worker needs to read one part."""

    sources: tuple[Source, ...]
    options: Options
    known: ReaderInfo
    parts: tuple[Part, ...]
    sizes: tuple[int, ...]
    times: tuple[int, ...]  # of modification: a cached result of an older version of a file is not reused

    @classmethod
    def of(cls, reader: Reader, part_bytes: int) -> "Files":
        """Cut what a reader reads into parts."""
        paths = [source.path for source in reader.sources if source.path is not None and source.path.is_file()]
        if len(paths) < len(reader.sources):
            raise InputError("Workers cannot share standard input or a pipe. Use files that all of them can read.")
        if reader.options.gather:
            raise InputError("An engine cannot gather rows of a node that are not contiguous. Sort the files by id.")
        known = reader.known()
        # A worker may run in another folder.
        sources = [replace(s, path=p.absolute(), name=str(s)) for s, p in zip(reader.sources, paths, strict=True)]
        sizes, times = zip(*((stat.st_size, stat.st_mtime_ns) for stat in (p.stat() for p in paths)), strict=True)
        return cls(tuple(sources), reader.options, known, tuple(cut(reader, part_bytes)), sizes, times)

    def empty(self, task: Assign) -> pa.Table:
        """Table of the assignments of no nodes."""
        return task.empty(self.known, len(self.sources))

    def run(self, task: Task, number: int) -> bytes:
        """Run a task on one part, on the worker that reads it."""
        part = self.parts[number]
        self._check_same(part)
        reader = Reader(self.sources, self.options, self.known)
        return task(reader, number, without_torn_nodes(reader, part))

    def _check_same(self, part: Part) -> None:
        """Raise if the files of a part differ from those that were cut into parts."""
        last = len(self.sources) if part.stop is None else min(part.stop.file + 1, len(self.sources))
        for source, size in zip(self.sources[part.start.file : last], self.sizes[part.start.file : last], strict=True):
            size_here = source.size
            if size_here != size:
                what = "does not exist" if size_here is None else f"has {size_here:,} bytes instead of {size:,}"
                raise InputError(
                    f"{source.path} {what} on {platform.node()}. All workers must see the same files, which must "
                    "not change during the run."
                )


def reader_of(source: Any, reading: Mapping[str, Any], space: Space = None) -> Reader:
    """Open the files a user gives to an engine."""
    if isinstance(source, Reader):
        return source
    several = isinstance(source, (list, tuple)) and all(isinstance(entry, (str, os.PathLike)) for entry in source)
    if not several and not isinstance(source, (str, os.PathLike)):
        raise InputError(
            f"{type(source).__name__} is neither a collection of this engine nor a file name. For data in memory use "
            "probi.Summary."
        )
    return _in_space(Reader(source, Options(**reading)), space)


def _in_space(reader: Reader, space: Space) -> Reader:
    if space is not None:
        reader.resume_with(space if isinstance(space, Transform) else Transform.from_json(dict(space)))
    return reader


def cut(reader: Reader, part_bytes: int) -> list[Part]:
    """Split into parts of at least ``part_bytes`` each; the split depends only on the files.

    Files are cut where that is cheap: Parquet between row groups, NPY anywhere, others not at all.
    """
    check_count("part_bytes", part_bytes)
    boundaries, size = [Position()], 0
    for file in range(len(reader.sources)):
        for row, n_bytes in reader.opened(file).pieces:
            if size >= part_bytes:
                boundaries.append(Position(file, row))
                size = 0
            size += n_bytes
    return [Part(start, stop) for start, stop in zip(boundaries, [*boundaries[1:], None], strict=True)]


def without_torn_nodes(reader: Reader, part: Part) -> Part:
    """The same part from the first node that begins in it to the end of the last one.

    Both parts at a boundary move it to the same row, so each node is in one part.
    """
    stop = None if part.stop is None else _node_boundary(reader, part.stop)
    return Part(_node_boundary(reader, part.start), stop)


def _node_boundary(reader: Reader, boundary: Position) -> Position:
    """Where the first node at or after a boundary begins."""
    columns = reader.columns
    if columns.layout == "groups":
        size = columns.group_size or 1
        return Position(boundary.file, -(-boundary.row // size) * size)
    if columns.layout != "long" or boundary == Position():
        return boundary
    ids = replace(columns, features=(), points=None, probability=None, weight=None)
    for n_back in LOOK_BACK:
        start = _back(reader, boundary, n_back)
        position = _first_node(reader, ids, start, boundary)
        if position is not None:
            return position
    return boundary


def _back(reader: Reader, boundary: Position, n_rows: int) -> Position:
    """Position ``n_rows`` before a boundary, also in earlier files whose lengths are known."""
    file, row = boundary
    while row < n_rows and file > 0:
        n_before = reader.opened(file - 1).n_rows
        if n_before is None:
            break
        n_rows -= row
        file, row = file - 1, n_before
    return Position(file, max(0, row - n_rows))


def _first_node(reader: Reader, ids: Columns, start: Position, boundary: Position) -> Position | None:
    """Where the first node at or after a boundary begins; None if no row from start to boundary has an id."""
    rows: Rows | None = None
    for more in NodeAssembler(reader, start, Counts()).rows(ids, start):
        rows = more if rows is None else concat_rows([rows, more])
        first = np.searchsorted(rows.where, boundary.file * FILE + boundary.row)
        known = has_ids(rows.table, ids)
        if start < boundary and first > 0 and not known[:first].any():
            return None
        # A row without an id belongs to the node on both sides of it, so only rows up to the last id are decided.
        starts = node_starts(rows.table, ids)
        starts = starts[(starts >= first) & (starts <= np.max(np.flatnonzero(known), initial=-1))]
        if len(starts):
            return Position(*divmod(int(rows.where[starts[0]]), FILE))
    return Position(len(reader.sources), 0)


# -- DataFrames -------------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """How the partitions of a DataFrame are read: all that a worker needs to read one."""

    options: Options
    known: ReaderInfo

    @classmethod
    def of(cls, first: pa.Table, reading: Mapping[str, Any], space: Space = None) -> "Frame":
        """Infer the roles of the columns from the first rows, and the scales unless the space is known."""
        options = Options(**reading)
        if options.gather:
            raise InputError("gather is for files: an engine gathers the rows of a node itself.")
        if options.id_per_file:
            raise InputError(
                "id_per_file is for files: add a column to the table that says which file each row is from."
            )
        reader = Reader([Source(None, "tables", "the table", [first])], options)
        if reader.columns.layout == "long":  # rows of a node may be anywhere
            reader = Reader([Source(None, "tables", "the table", [sorted_by_id(first, reader.columns)])], options)
        return cls(options, _in_space(reader, space).known())

    def empty(self, task: Assign) -> pa.Table:
        """Table of the assignments of no nodes; a number of rows would count within a partition."""
        return task.empty(self.known, 1).drop_columns("row")

    def run(self, task: Task, number: int, tables: Iterable[pa.Table]) -> bytes:
        """Run a task on a partition, on the worker that has it."""
        return task(self._reader(number, tables), number)

    def _reader(self, number: int, tables: Iterable[pa.Table]) -> Reader:
        """Open a partition; an empty one may have no tables."""
        some = chain(tables, [self.known.schema.empty_table()])
        source = Source(None, "tables", f"partition {number}", some)
        return Reader([source], self.options, self.known)

    def labeled(
        self, number: int, tables: Iterable[pa.Table], centers: Array, outlier_distance: float = math.inf
    ) -> Iterator[tuple[pa.Table, pa.Array]]:
        """Rows of a partition, in pieces, and the cluster of each row's node; null for rows in no node."""
        waiting: deque[pa.Table] = deque()  # the reader appends to it on its own thread

        def read() -> Iterator[pa.Table]:
            for table in tables:
                waiting.append(table)
                yield table

        n_before = 0
        for batch in self._reader(number, read()).batches():
            if n_rows := batch.counts.rows - n_before:
                labels = assign_inliers(batch.nodes, centers, outlier_distance)
                yield _take_rows(waiting, n_rows), _labels_of_rows(batch, labels, n_before, n_rows)
            n_before = batch.counts.rows


def _take_rows(tables: deque[pa.Table], n_rows: int) -> pa.Table:
    """Remove this many rows from the front and return them."""
    taken = []
    while n_rows > 0:
        table = tables.popleft()
        taken.append(table.slice(0, n_rows))
        if len(table) > n_rows:
            tables.appendleft(table.slice(n_rows))
        n_rows -= len(taken[-1])
    return pa.concat_tables(taken)


def _labels_of_rows(batch: Batch, of_nodes: Labels, n_before: int, n_rows: int) -> pa.Array:
    labels = np.zeros(n_rows, np.int32)
    if len(batch.nodes):
        starts = batch.where % FILE - n_before
        # Rows up to the next node belong to this one, or are left out.
        labels[starts[0] :] = np.repeat(of_nodes, np.diff(np.append(starts, n_rows)))
    left_out = np.zeros(n_rows, bool)
    left_out[batch.left_out % FILE - n_before] = True
    return pa.array(labels, mask=left_out)


# -- streams ----------------------------------------------------------------------------------------------------------


class SavedStream:
    """Summary of a stream, kept in a file that records the last batch and is replaced atomically.

    :meta private:
    """

    def __init__(self, engine: Engine, path: Any, n_clusters: int, **options: Any) -> None:
        self._engine, self._path, self._reading = engine, as_path(path), options
        if options.get("random_state") is None:
            options["random_state"] = 0
        self._config = SummaryConfig.taken_from(n_clusters, options)
        self._summary = Summary.load(self._path) if self._path.exists() else None
        if self._summary is not None:
            self._check_state(self._summary)

    @property
    def summary(self) -> Summary:
        """Summary of all batches so far."""
        if self._summary is None:
            return Summary.from_config(self._config)
        return self._summary.__copy__()

    def _check_state(self, summary: Summary) -> None:
        if "stream" not in summary.about:
            raise InputError(f"{self._path} is a summary, but not of a stream. Use another file.")
        known = summary._config.shared | {"seed": summary.about["stream"]["seed"]}
        for name, value in (self._config.shared | {"seed": self._config.seed}).items():
            if known[name] != value:
                raise InputError(
                    f"{self._path} has {name} {known[name]!r}, but {value!r} was requested. Use another file to start "
                    "over."
                )

    def _is_new(self, batch: int, query: str | None) -> bool:
        """Whether a batch was not added before."""
        state = {} if self._summary is None else self._summary.about["stream"]
        if state and state["query"] != query:
            raise InputError(
                f"{self._path} belongs to another query, whose batches have the same numbers. Use another file, or the "
                "checkpointLocation that belongs to it."
            )
        return not state or batch > state["batch"]

    def _add(self, frame: Any, batch: int, query: str | None) -> None:
        """Add a batch in the scales of earlier ones, and save; None is a batch without rows."""
        summary = self.summary
        # Shard 0 is the empty summary, because the first batch may be empty.
        shard = summary.about.get("stream", {}).get("next_shard", 1)
        if frame is not None:
            task = Summarize(self._config.for_shard(shard))
            how = self._engine.open(frame, self._reading, summary.about.get("space"))
            new, stats = unpack_part(self._engine.merge(self._engine.run(frame, how, task), task))
            # Over the whole stream: a batch may be small.
            counts = Counts(**summary.about.get("counts", {})) + stats.counts
            check_left_out(counts, how.options)
            summary.merge(new)
            summary.about |= {"space": new.about["space"], "counts": asdict(counts)}
            shard += stats.n_parts
        summary.about["stream"] = {
            "query": query, "batch": batch, "next_shard": shard, "seed": self._config.seed
        }  # fmt: skip
        summary.save(self._path)
        self._summary = summary
