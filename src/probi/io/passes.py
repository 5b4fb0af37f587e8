"""The two passes over files, and the checkpoints from which a stopped pass resumes.

The first pass summarizes all nodes. The second assigns each, sums exactly, and lists nodes between clusters.
"""

import contextlib
import csv
import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

import numpy as np
import pyarrow as pa

from probi._files import AnyPath
from probi._notes import name_of
from probi._parallel import StoppedWaitingError
from probi._stores import StorePath
from probi._types import Array
from probi.errors import InputError, StoppedError
from probi.io.node_assembler import Batch, Counts, Part, Position, check_left_out
from probi.io.options import DEFAULTS, reading_of
from probi.io.reader import Reader
from probi.io.recent_ids import RecentIds
from probi.io.rows import FILE, Rejected
from probi.io.transform import Transform
from probi.io.write import assignment_columns, assignment_table
from probi.nodes import Nodes
from probi.objective import OUTLIER, TwoNearest, are_outliers, total_cost, two_nearest
from probi.summary import Summary

# -- checkpoints ------------------------------------------------------------------------------------------------------

# Bytes at both ends of a file that identify it, besides its size and modification time.
EDGE = 1 << 20

# More rows, nodes and bytes than any input has; a forged file may state any number.
MAX_NUMBER = 1 << 63


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint holds."""

    summary: Summary
    position: Position
    counts: Counts
    space: Transform
    rejected_size: int | None  # None: rows that are left out are not written
    seen: RecentIds | None = None  # ids of a long table
    fraction: float | None = None  # how much of the input has been read, by bytes, where that is known


class Checkpoint:
    """A file that is replaced while a stream is read.

    Parameters
    ----------
    path : Path or StorePath
    every : int
        Nodes between two checkpoints.
    reader : Reader
        What is read; a changed file is refused.
    parameters : dict
        What else the result depends on; other values are refused.
    """

    def __init__(self, path: AnyPath, every: int, reader: Reader, parameters: dict[str, Any]) -> None:
        self.path, self.every = path, every
        self._parameters = parameters
        self._inputs = [_identity(reader, i) for i in range(len(reader.sources))]
        self._read = [
            _Prefix(None if source.is_folder else source.path, entry.get("size") or 0)
            for source, entry in zip(reader.sources, self._inputs, strict=True)
        ]
        self._n_saved = 0

    def load(self) -> CheckpointState | None:
        """Load the state; None if there is no checkpoint yet; a checkpoint of another run is an error."""
        if not self.path.exists():
            return None
        try:
            summary = Summary.load(self.path)
        except InputError as error:
            raise InputError(f"{error} Name another checkpoint, or remove this one to start over.") from None
        state = summary.about.pop("checkpoint", None)
        if state is None:
            raise InputError(f"{self.path} is a summary, not a checkpoint. Name another file.")
        try:
            self._check_same(state)
            counts, left_out = dict(state["counts"]), state["counts"].get("left_out", {})
            numbers = [*(counts | {"left_out": 0}).values(), *left_out.values(), *state["position"]]
            if not all(type(number) is int and 0 <= number < MAX_NUMBER for number in numbers):
                raise ValueError
            before, fraction = Counts(**counts), state.get("fraction")
            if before.missing + before.rejected > before.rows or not 0.0 <= (fraction or 0.0) <= 1.0:
                raise ValueError
            self._n_saved = before.nodes
            return CheckpointState(
                summary,
                Position(*state["position"]),
                before,
                Transform.from_json(state["space"]),
                state["rejected_size"],
                RecentIds.from_json(state["seen"]) if state.get("seen") is not None else None,
                fraction,
            )
        except InputError:
            raise
        except Exception:  # forged fields may fail anywhere
            raise InputError(
                f"{self.path} is a checkpoint of another version of probi. Remove it to start over."
            ) from None

    def _check_same(self, state: dict[str, Any]) -> None:
        for name, value in self._parameters.items():
            # Options that are newer than the checkpoint had their defaults.
            before = state["parameters"].get(name, DEFAULTS.get(name))
            if before != value:
                raise InputError(
                    f"{self.path} belongs to a run with other parameters: {name} was {before!r} and is {value!r}. "
                    "Give the same arguments again, or another checkpoint file."
                )
        before = state["inputs"]
        if [entry["name"] for entry in before] != [entry["name"] for entry in self._inputs]:
            raise InputError(f"{self.path} belongs to a run on other files. Name the same ones, or another checkpoint.")
        # Checkpoints of older versions have no checksums of what was read.
        read = state.get("read", [None] * len(before))
        for old, new, prefix, digest in zip(before, self._inputs, self._read, read, strict=True):
            if old != new or (digest is not None and prefix.up_to(digest[0]) != digest):
                raise InputError(
                    f"{new['name']} has changed since the checkpoint {self.path} was written. Remove the checkpoint to "
                    "start over."
                )

    def is_due(self, counts: Counts) -> bool:
        """Whether enough nodes have been read since the last one."""
        return counts.nodes - self._n_saved >= self.every

    def save(self, state: CheckpointState) -> None:
        """Replace the file."""
        saved = state.summary.__copy__()
        saved.about["checkpoint"] = {
            "parameters": self._parameters,
            "inputs": self._inputs,
            "read": self._checksums(state.fraction),
            "position": list(state.position),
            "counts": asdict(state.counts),
            "space": state.space.to_json(),
            "rejected_size": state.rejected_size,
            "seen": None if state.seen is None else state.seen.to_json(),
            "fraction": state.fraction,
        }
        saved.save(self.path)
        self._n_saved = state.counts.nodes

    def _checksums(self, fraction: float | None) -> list[list[Any]]:
        """Number of bytes read of each file, and their checksum."""
        left = int((fraction or 0.0) * sum(prefix.size for prefix in self._read))
        checksums = []
        for prefix in self._read:
            checksums.append(prefix.up_to(min(left, prefix.size)))
            left -= min(left, prefix.size)
        return checksums


class _Prefix:
    """Checksum of the bytes of a file that have been read, extended as reading proceeds.

    None for a file in a store: its bytes would be downloaded again, and a store changes the modification time whenever
    the file changes.
    """

    def __init__(self, path: AnyPath | None, size: int) -> None:
        self.size = size
        self._path = None if isinstance(path, StorePath) else path
        self._n_bytes, self._digest = 0, hashlib.sha256()

    def up_to(self, n_bytes: int) -> list[Any]:
        """Extend the checksum to this many bytes; return their number and checksum."""
        if self._path is not None and n_bytes > self._n_bytes:
            with self._path.open("rb") as opened:
                opened.seek(self._n_bytes)
                while self._n_bytes < n_bytes and (block := opened.read(min(EDGE, n_bytes - self._n_bytes))):
                    self._digest.update(block)
                    self._n_bytes += len(block)
        return [self._n_bytes, self._digest.hexdigest()]


def _identity(reader: Reader, file: int) -> dict[str, Any]:
    """What identifies a file; standard input is identified by its first bytes."""
    source = reader.sources[file]
    if source.is_folder:
        times = [stat.st_mtime_ns or 0 for stat in source.stats]
        return {"name": str(source), "size": source.size, "files": len(times), "modified": max(times, default=0)}
    if source.path is None or not source.path.is_file():
        return {"name": str(source), "start": reader.digest_of_start()}
    stat = source.path.stat()
    known = {"name": str(source), "size": stat.st_size, "modified": stat.st_mtime_ns}
    if isinstance(source.path, StorePath) and stat.st_mtime_ns is not None:
        return known
    digest = hashlib.sha256()
    with source.path.open("rb") as opened:
        digest.update(opened.read(EDGE))
        opened.seek(max(0, (stat.st_size or 0) - EDGE))
        digest.update(opened.read(EDGE))
    return known | {"edges": digest.hexdigest()}


# -- rejected.csv -----------------------------------------------------------------------------------------------------


class RejectedFile:
    """Appends rows to a file, which is created with the first row: clean input leaves none.

    ``size`` is the length so far. A file of another run is replaced; after a stop it is cut to the size that it had
    at the checkpoint. One in a store is written on this machine, and uploaded when it is flushed.
    """

    def __init__(self, path: AnyPath, size: int = 0) -> None:
        self.path, self.size = path, size
        self._file: TextIO | None = None
        self._stack = contextlib.ExitStack()
        if isinstance(path, StorePath):
            folder = self._stack.enter_context(tempfile.TemporaryDirectory())
            self._local = Path(folder) / path.name
        else:
            self._local = path
        if not size:
            path.unlink(missing_ok=True)
        elif isinstance(path, StorePath):
            self._local.write_bytes(path.read_bytes()[:size])
        else:
            os.truncate(path, size)

    def write(self, rows: Sequence[Rejected]) -> None:
        """Add rows."""
        if not rows:
            return
        try:
            if self._file is None:
                self._file = self._local.open("a", newline="", encoding="utf-8", errors="backslashreplace")
            writer = csv.writer(self._file, lineterminator="\n")
            writer.writerows(rows if self.size else [Rejected._fields, *rows])
            self._file.flush()
            self.size = self._file.tell()
        except OSError as error:  # ENOSPC names no file
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def flush(self) -> None:
        """Flush to disk, or to the store."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            if isinstance(self.path, StorePath):
                self.path.upload(self._local)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._stack:
            if isinstance(self.path, StorePath):
                self.flush()
            if self._file is not None:
                with contextlib.suppress(OSError):  # disk full: already reported
                    self._file.close()


# -- the first pass: summarize ----------------------------------------------------------------------------------------

SAME_AGAIN = "Name the same folder as before, or remove the checkpoint to start over."


def summarize(
    reader: Reader,
    summary: Summary,
    *,
    rejects: AnyPath | None = None,
    checkpoint: Checkpoint | None = None,
    on_resume: Callable[[Counts], None] = lambda counts: None,
    on_batch: Callable[[Batch], None] = lambda batch: None,
    is_stopped: Callable[[], bool] = lambda: False,
    part: Part | None = None,
) -> tuple[Summary, Counts]:
    """Read everything into a summary, or into that of a checkpoint; return it and the counts.

    ``summary.about`` then has the space and the roles of the columns. ``is_stopped`` is called after each batch; if it
    returns True, a checkpoint is written and StoppedError is raised. If a ``part`` is given, only that is read.
    """
    saved = checkpoint.load() if checkpoint is not None else None
    state = saved or CheckpointState(summary, part.start if part else Position(), Counts(), reader.space, 0)
    summary = state.summary
    rejected_size = 0 if rejects is None else _rejected_size(rejects, state)
    if saved is not None:
        reader.resume_with(saved.space, saved.seen)
        on_resume(saved.counts)
    with contextlib.ExitStack() as stack:
        rejected = None if rejects is None else stack.enter_context(RejectedFile(rejects, rejected_size))
        batches = reader.batches(state.position, state.counts, is_stopped, part.stop if part else None)
        stack.callback(batches.close)

        def save() -> None:
            if checkpoint is None:
                return
            if rejected is not None:
                rejected.flush()
            size = None if rejected is None else rejected.size
            checkpoint.save(replace(state, space=reader.space, rejected_size=size))

        stopped = False
        try:
            for batch in batches:
                summary.update(batch.nodes)
                if rejected is not None:
                    rejected.write(batch.rejected)
                new = {name: getattr(batch, name) for name in ("position", "counts", "fraction")}
                state = replace(state, **new, seen=batch.seen or state.seen)
                on_batch(batch)
                stopped = is_stopped()
                if stopped:
                    break
                if checkpoint is not None and checkpoint.is_due(state.counts):
                    save()
        except StoppedWaitingError:
            stopped = True
        save()
        if stopped:
            raise StoppedError(f"Stopped after {state.counts.nodes:,} nodes ({state.counts.rows:,} rows).")
    summary.about |= {"space": reader.space.to_json(), "reading": reading_of(reader)}
    return summary, state.counts


def _rejected_size(rejects: AnyPath, saved: CheckpointState) -> int:
    """Size of the file of rejected rows at the checkpoint; an error if those rows are gone."""
    if saved.rejected_size is None:
        if saved.counts.rows > saved.counts.used:
            raise InputError(f"The checkpoint is of a run without {rejects}, which would now lack rows. {SAME_AGAIN}")
        return 0
    if saved.rejected_size and (not rejects.is_file() or (rejects.stat().st_size or 0) < saved.rejected_size):
        raise InputError(f"{rejects} does not hold the rows that were left out before the checkpoint. {SAME_AGAIN}")
    return saved.rejected_size


# -- the second pass: assign ------------------------------------------------------------------------------------------

# A node is between clusters if its second center is at most this fraction farther than its first.
NEARLY = 0.05
N_SHOWN = 20


class BorderlineNode(NamedTuple):
    """A node between two clusters; the nearest to a tie sorts first."""

    ratio: float
    order: int
    node: str
    cluster: int
    distance: float
    other: int
    other_distance: float


@dataclass
class Tally:
    """Exact sums of one set of centers over all nodes."""

    centers: Array
    outlier_distance: float = math.inf
    cost: float = 0.0
    counts: Array = field(init=False)  # without outliers
    n_outliers: int = 0
    n_borderline: int = 0
    borderline: list[BorderlineNode] = field(default_factory=list)  # the nearest to a tie, in order
    n_nodes: int = 0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.centers), np.int64)

    def assign(self, nodes: Nodes, names: Callable[[int], str], suffix: str) -> dict[str, Array]:
        """Add some nodes to the sums; return the columns of their assignment."""
        nearest = two_nearest(nodes, self.centers)
        is_out = are_outliers(nodes, nearest.distances, self.outlier_distance)
        self.cost += total_cost(nodes, np.where(is_out, 0.0, nearest.distances))
        self.counts += np.bincount(nearest.labels[~is_out], minlength=len(self.centers))
        self.n_outliers += int(np.count_nonzero(is_out))
        if len(self.centers) > 1:
            self._add_borderline(names, nearest)
        self.n_nodes += len(nodes)
        labels = np.where(is_out, np.int32(OUTLIER), nearest.labels)
        return assignment_columns(nodes, self.centers, nearest, suffix) | {f"cluster{suffix}": labels}

    def _add_borderline(self, names: Callable[[int], str], two_nearest: TwoNearest) -> None:
        nearest, own, other, to_other = two_nearest
        near = np.flatnonzero(to_other <= (1.0 + NEARLY) * own)
        self.n_borderline += len(near)
        with np.errstate(invalid="ignore"):
            ratios = np.where(own[near] > 0, to_other[near] / own[near], 1.0)
        order = np.argsort(ratios, kind="stable")[:N_SHOWN]
        self._keep_nearest(
            BorderlineNode(
                ratio, self.n_nodes + i, names(i), int(nearest[i]), float(own[i]), int(other[i]), float(to_other[i])
            )
            for i, ratio in zip(near[order].tolist(), ratios[order].tolist(), strict=True)
        )

    def _keep_nearest(self, entries: Iterable[BorderlineNode]) -> None:
        self.borderline = sorted([*self.borderline, *entries])[:N_SHOWN]

    def add(self, other: "Tally") -> None:
        """Add the sums of the nodes that come next."""
        self._keep_nearest(entry._replace(order=entry.order + self.n_nodes) for entry in other.borderline)
        self.cost += other.cost
        self.counts += other.counts
        self.n_outliers += other.n_outliers
        self.n_borderline += other.n_borderline
        self.n_nodes += other.n_nodes


def assign_all(
    reader: Reader,
    centers: Sequence[Array],
    write: Callable[[pa.Table], None] = lambda table: None,
    on_batch: Callable[[Batch], None] = lambda batch: None,
    part: Part | None = None,
    outlier_distances: Sequence[float] | None = None,
) -> list[Tally]:
    """Assign every node, or those of a part, to each set of centers; return the sums of each set.

    ``write`` gets a table per batch, with a row per node. Nodes beyond the distance for a set are outliers.
    """
    distances = [math.inf] * len(centers) if outlier_distances is None else outlier_distances
    tallies = [Tally(np.asarray(one), distance) for one, distance in zip(centers, distances, strict=True)]
    sources = [str(source) for source in reader.sources]
    counts = Counts()
    for batch in reader.batches() if part is None else reader.batches(part.start, stop=part.stop):
        if len(batch.nodes):
            columns: dict[str, Array] = {}
            names = partial(_name_of_node, reader, batch)
            for tally in tallies:
                suffix = f"_{len(tally.centers)}" if len(tallies) > 1 else ""
                columns |= tally.assign(batch.nodes, names, suffix)
            write(assignment_table(batch, columns, sources, reader.id_name, reader.columns.file))
        on_batch(batch)
        counts = batch.counts
    if part is None:
        check_left_out(counts, reader.options)
    return tallies


def _name_of_node(reader: Reader, batch: Batch, node: int) -> str:
    """Name of a node of a batch: its id, or its row."""
    if batch.nodes.ids is not None:
        return name_of(batch.nodes.ids[node])
    file, row = divmod(int(batch.where[node]), FILE)
    source = f" of {reader.sources[file]}" if len(reader.sources) > 1 else ""
    return f"row {row + 1}{source}"
