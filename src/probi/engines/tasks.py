"""The tasks of a worker, for any engine: a part of the data in, the bytes of a summary out."""

import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi.errors import InputError
from probi.io.node_assembler import MAX_LISTED, Batch, Counts, check_left_out
from probi.io.options import Options
from probi.io.passes import Tally, assign_all, summarize
from probi.io.reader import Reader, ReaderInfo
from probi.io.recent_ids import Seen
from probi.io.rows import Rejected
from probi.io.sources import Source
from probi.io.splits import Part, cut, without_torn_nodes
from probi.io.transform import N_ESTIMATED, SCALES, Transform
from probi.io.write import empty_assignment_table
from probi.nodes import Nodes
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.tables.to_arrays import in_order_of_ids
from probi.validation import warn_of_rounding

Array = NDArray[Any]

# Parts assigned at a time: this process holds their tables.
PARTS_AT_ONCE = 64

# Called with the number of parts done, and of all parts.
OnPart = Callable[[int, int], None]

# Id hashes (8 bytes each) per part that are compared with those of other parts.
N_COMPARED = 1000

# Key in ``Summary.about`` under which a worker sends the statistics of its part.
PART_STATS = "part"


# -- tasks ------------------------------------------------------------------------------------------------------------


class Task(Protocol):
    """What to do with one numbered part of the data."""

    def __call__(self, reader: Reader, number: int, part: Part | None = None) -> bytes:
        """Process what a reader reads."""
        ...


@dataclass(frozen=True)
class Summarize:
    """Summarize a part of the data as a shard; the config has the shard of the first part."""

    config: SummaryConfig
    keeps_rejected: bool = False  # whether rejected rows are sent back, to be listed

    @property
    def fan_in(self) -> int:
        """Neighboring parts merged by one task: those that become one block of a summary."""
        return self.config.fan_in

    def empty(self, number: int) -> Summary:
        """Empty summary for a part."""
        return Summary.from_config(self.config.for_shard(self.config.shard + number))

    def __call__(self, reader: Reader, number: int, part: Part | None = None) -> bytes:
        """Summarize what a reader reads."""
        stats = PartStats()
        seen: Seen | None = None

        def note(batch: Batch) -> None:
            nonlocal seen
            stats.note(batch, self.keeps_rejected)
            seen = batch.seen or seen

        summary, stats.counts = summarize(reader, self.empty(number), part=part, on_batch=note)
        stats.some_ids = [] if seen is None else seen.smallest(N_COMPARED)
        return _pack_part(summary, stats)

    def of_nodes(self, batches: Iterable[Nodes], number: int) -> bytes:
        """Summarize nodes in memory."""
        summary = self.empty(number)
        for nodes in batches:
            summary.update(nodes)
        n = summary.n_nodes
        return _pack_part(summary, PartStats(Counts(n, n, n)))


@dataclass(frozen=True)
class Assign:
    """Assign the nodes of a part; returns an Arrow stream with one row per node, and sums in its metadata."""

    centers: tuple[Array, ...]

    def __call__(self, reader: Reader, number: int, part: Part | None = None) -> bytes:
        """Assign what a reader reads."""
        tables: list[pa.Table] = []
        tallies = assign_all(reader, self.centers, tables.append, part=part)
        sums = [asdict(tally) | {"counts": tally.counts.tolist(), "centers": None} for tally in tallies]
        empty = self.empty(reader.known(), len(reader.sources))
        table = pa.concat_tables([empty, *tables], promote_options="permissive") if tables else empty
        return table_to_bytes(table.replace_schema_metadata({"sums": json.dumps(sums)}))

    def empty(self, known: ReaderInfo, n_files: int) -> pa.Table:
        """The table of a part without nodes."""
        return empty_assignment_table(known.schema, known.columns, [len(c) for c in self.centers], n_files)

    def tallies(self, table: pa.Table) -> list[Tally]:
        """Sums of a part, from its table."""
        tallies = []
        for centers, sums in zip(self.centers, json.loads(table.schema.metadata[b"sums"]), strict=True):
            tally = Tally(centers, sums["cost"], sums["n_between"], n_nodes=sums["n_nodes"])
            tally.counts += np.array(sums["counts"])
            tally.restore_between(sums["between"])
            tallies.append(tally)
        return tallies


def table_to_bytes(table: pa.Table) -> bytes:
    """Write a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def table_from_bytes(data: bytes) -> pa.Table:
    """Read what :func:`table_to_bytes` wrote."""
    return pa.ipc.open_stream(data).read_all()


# -- summaries as bytes -----------------------------------------------------------------------------------------------


@dataclass
class PartStats:
    """Statistics of a part: counts of rows, rejected rows, and the first and last id where rows of a node share one.

    ``some_ids`` are the smallest hashes of its ids; they reveal files that are not sorted by id.
    """

    counts: Counts = field(default_factory=Counts)
    rejected: list[Rejected] = field(default_factory=list)
    first: str | None = None
    last: str | None = None
    some_ids: list[int] = field(default_factory=list)

    def note(self, batch: Batch, keeps_rejected: bool) -> None:
        """Add those of a batch."""
        if keeps_rejected:
            self.rejected += batch.rejected
        if batch.edges is not None:
            self.first = batch.edges[0] if self.first is None else self.first
            self.last = batch.edges[1]

    def add(self, other: "PartStats") -> None:
        """Add those of the next part."""
        if self.last is not None and self.last == other.first:
            raise InputError(
                f"Rows of node {self.last} are in two files or partitions that are read separately. Put them into one, "
                "or read the files with --engine local. If ids are unique only within a file, use --id-per-file."
            )
        if not set(self.some_ids).isdisjoint(other.some_ids):
            raise InputError(
                "Rows of the same node are in several files or partitions that are read separately. Sort the data by "
                "id, or read the files with --engine local --gather. If ids are unique only within a file, use "
                "--id-per-file."
            )
        self.some_ids = sorted([*self.some_ids, *other.some_ids])[:N_COMPARED]
        self.counts += other.counts
        self.rejected = _first_of_each_kind(self.rejected + other.rejected)
        self.first = other.first if self.first is None else self.first
        self.last = self.last if other.last is None else other.last


def _first_of_each_kind(rows: list[Rejected]) -> list[Rejected]:
    """As many rows of each kind as one process would list."""
    n_named: Counter[str] = Counter()
    first = []
    for row in rows:
        n_named[row.kind] += 1
        if n_named[row.kind] <= MAX_LISTED:
            first.append(row)
    return first


def _pack_part(summary: Summary, stats: PartStats) -> bytes:
    summary.about[PART_STATS] = asdict(stats)
    return summary.to_bytes()


def unpack_part(data: bytes) -> tuple[Summary, PartStats]:
    """Summary of a part, and its statistics."""
    summary = Summary.from_bytes(data)
    entry = summary.about.pop(PART_STATS)
    rejected = [Rejected(*row) for row in entry["rejected"]]
    return summary, PartStats(Counts(**entry["counts"]), rejected, entry["first"], entry["last"], entry["some_ids"])


def finish(data: bytes, source: Any, reading: Mapping[str, Any]) -> Summary:
    """Summary of all parts, with the counts of rows in ``about``; raise if too many rows were left out."""
    summary, stats = unpack_part(data)
    check_left_out(stats.counts, source.options if isinstance(source, Reader) else Options(**reading))
    if stats.counts.normalized:
        warn_of_rounding(stats.counts.normalized, stats.counts.nodes)
    summary.about["counts"] = asdict(stats.counts)
    return summary


def merge(parts: Sequence[bytes]) -> bytes:
    """Merge the summaries of neighboring parts, given in order."""
    summary, stats = unpack_part(parts[0])
    for data in parts[1:]:
        other, more = unpack_part(data)
        summary.merge(other)
        stats.add(more)
    return _pack_part(summary, stats)


def groups(n_parts: int, fan_in: int) -> Iterator[range]:
    """Numbers of the parts in each group of neighbors."""
    return (range(start, min(start + fan_in, n_parts)) for start in range(0, n_parts, fan_in))


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
        file_stats = [path.stat() for path in paths]
        return cls(
            tuple(sources),
            reader.options,
            known,
            tuple(cut(reader, part_bytes)),
            tuple(stat.st_size for stat in file_stats),
            tuple(stat.st_mtime_ns for stat in file_stats),
        )

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


def reader_of(source: Any, reading: Mapping[str, Any], space: Transform | Mapping[str, Any] | None = None) -> Reader:
    """Open the files a user gives to an engine, in the coordinates of a known space if there is one."""
    if isinstance(source, Reader):
        return source
    several = isinstance(source, (list, tuple)) and all(isinstance(entry, (str, os.PathLike)) for entry in source)
    if not several and not isinstance(source, (str, os.PathLike)):
        raise InputError(
            f"{type(source).__name__} is neither a collection of this engine nor a file name. For data in memory use "
            "probi.Summary."
        )
    return _in_space(Reader(source, Options(**reading)), space)


def _in_space(reader: Reader, space: Transform | Mapping[str, Any] | None) -> Reader:
    if space is not None:
        reader.go_on_in(space if isinstance(space, Transform) else Transform.from_json(dict(space)))
    return reader


def n_first(reading: Mapping[str, Any]) -> int:
    """Rows at the start of a table used to infer the roles of its columns and to estimate scales."""
    return N_ESTIMATED if reading.get("scale", "none") in SCALES[1:] else 1000


class Engine(Protocol):
    """Workers that read files, as ``probi cluster --engine`` uses them."""

    def summarize(self, files: Files, task: Summarize, on_part: OnPart) -> bytes:
        """Bytes of the summary of all parts, with their statistics."""
        ...

    def run(self, files: Files, task: Task, numbers: range) -> list[bytes]:
        """Results of a task for some parts, in order."""
        ...

    @property
    def description(self) -> str:
        """Name of the engine and address of its dashboard, for the console."""
        ...


def assign_parts(
    engine: Engine, files: Files, centers: Sequence[Array], write: Callable[[pa.Table], None], on_part: OnPart
) -> list[Tally]:
    """Assign the nodes of all parts; ``write`` gets one table per part, in order. Returns the sums per set of centers.

    Only some parts are assigned at a time, because this process holds their tables.
    """
    task = Assign(tuple(map(np.asarray, centers)))
    sums = [Tally(one) for one in task.centers]
    for numbers in groups(len(files.parts), PARTS_AT_ONCE):
        for data in engine.run(files, task, numbers):
            table = table_from_bytes(data)
            if table.num_rows:
                write(table.replace_schema_metadata(None))
            for total, tally in zip(sums, task.tallies(table), strict=True):
                total.add(tally)
        on_part(numbers.stop, len(files.parts))
    return sums


class Frame(NamedTuple):
    """How the partitions of a table are read."""

    options: Options
    known: ReaderInfo

    @classmethod
    def of(
        cls, first: pa.Table, reading: Mapping[str, Any], space: Transform | Mapping[str, Any] | None = None
    ) -> "Frame":
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
            reader = Reader([Source(None, "tables", "the table", [in_order_of_ids(first, reader.columns)])], options)
        return cls(options, _in_space(reader, space).known())

    def reader(self, number: int, tables: Iterable[pa.Table]) -> Reader:
        """Open a partition; an empty one may have no tables."""
        source = Source(None, "tables", f"partition {number}", _never_empty(tables, self.known.schema))
        return Reader([source], self.options, self.known)

    def run(self, task: Task, number: int, tables: Iterable[pa.Table]) -> bytes:
        """Run a task on a partition, on the worker that has it."""
        return task(self.reader(number, tables), number)


def _never_empty(tables: Iterable[pa.Table], schema: Any) -> Iterator[pa.Table]:
    empty = True
    for table in tables:
        empty = False
        yield table
    if empty:
        yield schema.empty_table()
