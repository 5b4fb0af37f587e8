"""The tasks of a worker, for any engine: a part of the data in, the bytes of a summary or of an assignment out."""

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from probi._types import Array
from probi.errors import InputError
from probi.io.node_assembler import MAX_LISTED, Batch, Counts, Part, check_left_out
from probi.io.options import Options
from probi.io.passes import assign_all, summarize
from probi.io.reader import Reader, ReaderInfo
from probi.io.recent_ids import RecentIds
from probi.io.rows import Rejected
from probi.io.write import empty_assignment_table
from probi.nodes import Nodes
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.validation import warn_of_rounding

# Id hashes (8 bytes each) per part that are compared with those of other parts.
N_COMPARED = 1000


# -- tasks ------------------------------------------------------------------------------------------------------------


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
        seen: RecentIds | None = None

        def note(batch: Batch) -> None:
            nonlocal seen
            stats.note(batch, self.keeps_rejected)
            seen = batch.seen or seen

        summary, stats.counts = summarize(reader, self.empty(number), part=part, on_batch=note)
        stats.some_ids = [] if seen is None else seen.smallest(N_COMPARED)
        return pickle.dumps((summary, stats))

    def of_nodes(self, batches: Iterable[Nodes], number: int) -> bytes:
        """Summarize nodes in memory."""
        summary = self.empty(number)
        try:
            for nodes in batches:
                summary.update(nodes)
        except InputError as error:
            raise InputError(f"partition {number}: {error}") from None
        n = summary.n_nodes
        return pickle.dumps((summary, PartStats(Counts(n, n, n))))


@dataclass(frozen=True)
class Assign:
    """Assign the nodes of a part; returns a table with one row per node, and sums per set of centers."""

    centers: tuple[Array, ...]
    outlier_distances: tuple[float, ...] | None = None  # of each set

    def __call__(self, reader: Reader, number: int, part: Part | None = None) -> bytes:
        """Assign what a reader reads."""
        tables: list[pa.Table] = []
        tallies = assign_all(reader, self.centers, tables.append, part=part, outlier_distances=self.outlier_distances)
        empty = self.empty(reader.known(), len(reader.sources))
        table = pa.concat_tables([empty, *tables], promote_options="permissive") if tables else empty
        return pickle.dumps((table, tallies))

    def empty(self, known: ReaderInfo, n_files: int) -> pa.Table:
        """The table of a part without nodes."""
        return empty_assignment_table(known.schema, known.columns, [len(c) for c in self.centers], n_files)


# What to do with one numbered part of the data.
Task = Summarize | Assign


# -- their results ----------------------------------------------------------------------------------------------------


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
    n_parts: int = 1

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
        self.n_parts += other.n_parts
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


def unpack_part(data: bytes) -> tuple[Any, Any]:
    """Summary of a part and its :class:`PartStats`, or its table of assignments and its sums."""
    return pickle.loads(data)  # type: ignore[no-any-return]


def finish(data: bytes, options: Options) -> Summary:
    """Summary of all parts, with the counts of rows in ``about``; raise if too many rows were left out."""
    summary: Summary
    summary, stats = unpack_part(data)
    check_left_out(stats.counts, options)
    if stats.counts.normalized:
        warn_of_rounding(stats.counts.normalized, stats.counts.nodes)
    summary.about["counts"] = asdict(stats.counts)
    return summary


def merge(parts: Sequence[bytes]) -> bytes:
    """Merge the summaries of neighboring parts, given in order."""
    summary, stats = unpack_part(parts[0])
    for other, more in map(unpack_part, parts[1:]):
        summary.merge(other)
        stats.add(more)
    return pickle.dumps((summary, stats))


def groups(n_parts: int, fan_in: int) -> Iterator[range]:
    """Numbers of the parts in each group of neighbors."""
    return (range(n_parts)[start : start + fan_in] for start in range(0, n_parts, fan_in))
