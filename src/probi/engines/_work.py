"""What a worker does, whatever engine it belongs to: a part of the data in, the bytes of a summary out."""

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
from probi.io.assign import Tally, assign_all
from probi.io.node_assembler import MAX_LISTED, Batch, Counts, check_left_out
from probi.io.options import Options
from probi.io.reader import Reader, ReaderInfo
from probi.io.recent_ids import Seen
from probi.io.rows import Rejected
from probi.io.sources import Source
from probi.io.splits import Part, cut, without_torn_nodes
from probi.io.summarize import summarize
from probi.io.transform import N_ESTIMATED, SCALES, Transform
from probi.io.write import empty_assignment_table
from probi.nodes import Nodes
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.tables.to_arrays import in_order_of_ids
from probi.validation import warn_of_rounding

Array = NDArray[Any]

# Parts whose assignments are brought together at a time.
PARTS_AT_ONCE = 64

# Called with the number of parts that are done, and of all.
OnPart = Callable[[int, int], None]

# Ids of a part that are compared with those of others, of 8 bytes each.
N_COMPARED = 1000

# Where a worker's account of its part stands in what is said about a summary.
ACCOUNT = "part"


# -- what is to be done with a part -----------------------------------------------------------------------------------


class Task(Protocol):
    """Something to do with a part of the data, whose number is given."""

    def __call__(self, reader: Reader, number: int, part: Part | None = None) -> bytes:
        """Do it with what a reader reads."""
        ...


@dataclass(frozen=True)
class Summarize:
    """Summarise a part of the data, a shard of its own; the shard of the config is that of the first part."""

    config: SummaryConfig
    keeps_rejected: bool = False  # whether rows that are left out come home, for people to look at

    @property
    def fan_in(self) -> int:
        """Neighbouring parts that are merged into one by one worker: those that become one block of a summary."""
        return self.config.fan_in

    def empty(self, number: int) -> Summary:
        """Summary for a part."""
        return Summary.from_config(self.config.for_shard(self.config.shard + number))

    def __call__(self, reader: Reader, number: int, part: Part | None = None) -> bytes:
        """Summarise what a reader reads."""
        account = PartStats()
        seen: Seen | None = None

        def note(batch: Batch) -> None:
            nonlocal seen
            account.note(batch, self.keeps_rejected)
            seen = batch.seen or seen

        summary, account.counts = summarize(reader, self.empty(number), part=part, on_batch=note)
        account.some_ids = [] if seen is None else seen.smallest(N_COMPARED)
        return _with_account(summary, account)

    def of_nodes(self, batches: Iterable[Nodes], number: int) -> bytes:
        """Summarise nodes that are in memory."""
        summary = self.empty(number)
        for nodes in batches:
            summary.update(nodes)
        n = summary.n_nodes
        return _with_account(summary, PartStats(Counts(n, n, n)))


@dataclass(frozen=True)
class Assign:
    """Assign the nodes of a part; gives an Arrow stream with a row a node, and sums in its metadata."""

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
        """What a part without nodes gives."""
        return empty_assignment_table(known.schema, known.columns, [len(c) for c in self.centers], n_files)

    def tallies(self, table: pa.Table) -> list[Tally]:
        """Sums of a part, from what it gave."""
        found = []
        for places, sums in zip(self.centers, json.loads(table.schema.metadata[b"sums"]), strict=True):
            tally = Tally(places, sums["cost"], sums["n_between"], n_nodes=sums["n_nodes"])
            tally.counts += np.array(sums["counts"])
            tally.restore_between(sums["between"])
            found.append(tally)
        return found


def table_to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def table_of_bytes(data: bytes) -> pa.Table:
    """A table from :func:`table_to_bytes`."""
    return pa.ipc.open_stream(data).read_all()


# -- summaries on their way -------------------------------------------------------------------------------------------


@dataclass
class PartStats:
    """What became of the rows of a part; where rows of a node share an id, those of its first and last row.

    ``some_ids`` are the smallest hashes of its ids, by which files that are not sorted by their ids are noticed.
    """

    counts: Counts = field(default_factory=Counts)
    rejected: list[Rejected] = field(default_factory=list)
    first: str | None = None
    last: str | None = None
    some_ids: list[int] = field(default_factory=list)

    def note(self, batch: Batch, keeps_rejected: bool) -> None:
        """Note what came with a batch."""
        if keeps_rejected:
            self.rejected += batch.rejected
        if batch.edges is not None:
            self.first = batch.edges[0] if self.first is None else self.first
            self.last = batch.edges[1]

    def add(self, other: "PartStats") -> None:
        """Add the account of the part that comes next."""
        if self.last is not None and self.last == other.first:
            raise InputError(
                f"The rows of node {self.last} stand in two files or partitions that are read apart. Put them into "
                "one, or read the files with --engine local. If ids start anew in each file, say so: --id-per-file."
            )
        if not set(self.some_ids).isdisjoint(other.some_ids):
            raise InputError(
                "Rows of the same node are in several files or partitions that are read apart. Sort the data by the "
                "column of ids, or read the files with --engine local --gather. If ids start anew in each file, say "
                "so: --id-per-file."
            )
        self.some_ids = sorted([*self.some_ids, *other.some_ids])[:N_COMPARED]
        self.counts += other.counts
        self.rejected = _first_of_each_kind(self.rejected + other.rejected)
        self.first = other.first if self.first is None else self.first
        self.last = self.last if other.last is None else other.last


def _first_of_each_kind(rows: list[Rejected]) -> list[Rejected]:
    """As many as one process would have named."""
    n_named: Counter[str] = Counter()
    first = []
    for row in rows:
        n_named[row.kind] += 1
        if n_named[row.kind] <= MAX_LISTED:
            first.append(row)
    return first


def _with_account(summary: Summary, account: PartStats) -> bytes:
    summary.about[ACCOUNT] = asdict(account)
    return summary.to_bytes()


def opened(data: bytes) -> tuple[Summary, PartStats]:
    """Summary and account of a part."""
    summary = Summary.from_bytes(data)
    entry = summary.about.pop(ACCOUNT)
    rejected = [Rejected(*row) for row in entry["rejected"]]
    return summary, PartStats(Counts(**entry["counts"]), rejected, entry["first"], entry["last"], entry["some_ids"])


def finished(data: bytes, source: Any, reading: Mapping[str, Any]) -> Summary:
    """Summary of all parts; what became of the rows is said about it."""
    summary, account = opened(data)
    check_left_out(account.counts, source.options if isinstance(source, Reader) else Options(**reading))
    if account.counts.normalized:
        warn_of_rounding(account.counts.normalized, account.counts.nodes)
    summary.about["counts"] = asdict(account.counts)
    return summary


def merge(parts: Sequence[bytes]) -> bytes:
    """One summary of neighbouring parts, given in their order."""
    summary, account = opened(parts[0])
    for data in parts[1:]:
        other, more = opened(data)
        summary.merge(other)
        account.add(more)
    return _with_account(summary, account)


def groups(n_parts: int, fan_in: int) -> Iterator[range]:
    """Numbers of neighbouring parts that are merged into one."""
    return (range(start, min(start + fan_in, n_parts)) for start in range(0, n_parts, fan_in))


# -- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files:
    """Files and how they are cut into parts: all that a worker needs to read one of them."""

    sources: tuple[Source, ...]
    options: Options
    known: ReaderInfo
    parts: tuple[Part, ...]
    sizes: tuple[int, ...]
    times: tuple[int, ...]  # of change: what is remembered of a file is not taken for another one

    @classmethod
    def of(cls, reader: Reader, part_bytes: int) -> "Files":
        """Cut what a reader reads into parts."""
        paths = [source.path for source in reader.sources if source.path is not None and source.path.is_file()]
        if len(paths) < len(reader.sources):
            raise InputError("Workers cannot share standard input or a pipe. Name files that all of them can read.")
        if reader.options.gather:
            raise InputError("An engine cannot gather rows that do not stand together. Sort the files by the ids.")
        known = reader.known()
        # A worker may be in another folder.
        sources = [replace(s, path=p.absolute(), name=str(s)) for s, p in zip(reader.sources, paths, strict=True)]
        stats = [path.stat() for path in paths]
        return cls(
            tuple(sources),
            reader.options,
            known,
            tuple(cut(reader, part_bytes)),
            tuple(found.st_size for found in stats),
            tuple(found.st_mtime_ns for found in stats),
        )

    def run(self, task: Task, number: int) -> bytes:
        """Do something with one part, on the worker that reads it."""
        part = self.parts[number]
        self._check_same(part)
        reader = Reader(self.sources, self.options, self.known)
        return task(reader, number, without_torn_nodes(reader, part))

    def _check_same(self, part: Part) -> None:
        """Raise if the files of a part are not those that were cut: changed since, or others of the same name."""
        last = len(self.sources) if part.stop is None else min(part.stop.file + 1, len(self.sources))
        for source, size in zip(self.sources[part.start.file : last], self.sizes[part.start.file : last], strict=True):
            found = source.size
            if found != size:
                what = "does not exist" if found is None else f"has {found:,} bytes instead of {size:,}"
                raise InputError(
                    f"{source.path} {what} on {platform.node()}. All workers must see the same files, and nobody may "
                    "change them meanwhile."
                )


def reader_of(source: Any, reading: Mapping[str, Any], space: Transform | Mapping[str, Any] | None = None) -> Reader:
    """Open what a user names for an engine, with coordinates of a space that is known already, if there is one."""
    if isinstance(source, Reader):
        return source
    several = isinstance(source, (list, tuple)) and all(isinstance(entry, (str, os.PathLike)) for entry in source)
    if not several and not isinstance(source, (str, os.PathLike)):
        raise InputError(
            f"{type(source).__name__} is nothing that this engine holds, nor the name of a file. For data in memory "
            "use probi.Summary."
        )
    return _in_space(Reader(source, Options(**reading)), space)


def _in_space(reader: Reader, space: Transform | Mapping[str, Any] | None) -> Reader:
    if space is not None:
        reader.go_on_in(space if isinstance(space, Transform) else Transform.from_json(dict(space)))
    return reader


def n_first(reading: Mapping[str, Any]) -> int:
    """Rows at the start of a table by which the roles of its columns are guessed, and scales estimated."""
    return N_ESTIMATED if reading.get("scale", "none") in SCALES[1:] else 1000


class Engine(Protocol):
    """Workers that read files: what ``probi cluster --engine`` needs of them."""

    def summarize(self, files: Files, task: Summarize, on_part: OnPart) -> bytes:
        """Bytes of the summary of all parts, with its account."""
        ...

    def run(self, files: Files, task: Task, numbers: range) -> list[bytes]:
        """What a task gives for some parts, in their order."""
        ...

    @property
    def where(self) -> str:
        """What it is and where it can be watched, for people."""
        ...


def assign_parts(
    engine: Engine, files: Files, centers: Sequence[Array], write: Callable[[pa.Table], None], on_part: OnPart
) -> list[Tally]:
    """Assign the nodes of all parts; ``write`` gets a table a part, in their order. Returns the sums of each set.

    Only some parts are on their way at a time: their tables come to this process.
    """
    task = Assign(tuple(np.asarray(places) for places in centers))
    sums = [Tally(places) for places in task.centers]
    for numbers in groups(len(files.parts), PARTS_AT_ONCE):
        for data in engine.run(files, task, numbers):
            table = table_of_bytes(data)
            if table.num_rows:
                write(table.replace_schema_metadata(None))
            for total, tally in zip(sums, task.tallies(table), strict=True):
                total.add(tally)
        on_part(numbers.stop, len(files.parts))
    return sums


class Frame(NamedTuple):
    """A table that comes in partitions: how each of them is read."""

    options: Options
    known: ReaderInfo

    @classmethod
    def of(
        cls, first: pa.Table, reading: Mapping[str, Any], space: Transform | Mapping[str, Any] | None = None
    ) -> "Frame":
        """Find out the roles of the columns, by some first rows, and the scales, if the space is not known."""
        options = Options(**reading)
        if options.gather:
            raise InputError("gather is for files: an engine puts the rows of a node together itself.")
        if options.id_per_file:
            raise InputError("id_per_file is for files: give the table a column that tells where its rows come from.")
        reader = Reader([Source(None, "tables", "the table", [first])], options)
        if reader.columns.layout == "long":  # rows of a node may stand anywhere
            reader = Reader([Source(None, "tables", "the table", [in_order_of_ids(first, reader.columns)])], options)
        return cls(options, _in_space(reader, space).known())

    def reader(self, number: int, tables: Iterable[pa.Table]) -> Reader:
        """Open a partition; an empty one may have no table at all."""
        source = Source(None, "tables", f"partition {number}", _never_empty(tables, self.known.schema))
        return Reader([source], self.options, self.known)

    def run(self, task: Task, number: int, tables: Iterable[pa.Table]) -> bytes:
        """Do something with a partition, on the worker that has it."""
        return task(self.reader(number, tables), number)


def _never_empty(tables: Iterable[pa.Table], schema: Any) -> Iterator[pa.Table]:
    empty = True
    for table in tables:
        empty = False
        yield table
    if empty:
        yield schema.empty_table()
