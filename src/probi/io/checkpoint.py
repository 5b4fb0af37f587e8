"""What a stopped run resumes from: checkpoints (a summary and a position in the files), and rejected.csv."""

import contextlib
import csv
import hashlib
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, TextIO

import pyarrow as pa

from probi.errors import InputError
from probi.io.node_assembler import Counts, Position
from probi.io.options import DEFAULTS
from probi.io.reader import Reader
from probi.io.recent_ids import RecentIds
from probi.io.rows import Rejected
from probi.io.transform import Transform
from probi.summary import Summary

# -- checkpoints ------------------------------------------------------------------------------------------------------

# Bytes at both ends of a file that identify it, besides its size and modification time.
EDGE = 1 << 20


@dataclass(frozen=True)
class Saved:
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
    path : Path
    every : int
        Nodes between two checkpoints.
    reader : Reader
        What is read; a changed file is refused.
    parameters : dict
        What else the result depends on; other values are refused.
    """

    def __init__(self, path: Path, every: int, reader: Reader, parameters: dict[str, Any]) -> None:
        self.path, self.every = path, every
        self._parameters = parameters
        self._inputs = [_identity(reader, i) for i in range(len(reader.sources))]
        self._read = [
            _Prefix(source.path, entry.get("size", 0))
            for source, entry in zip(reader.sources, self._inputs, strict=True)
        ]
        self._n_saved = 0

    def load(self) -> Saved | None:
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
            self._n_saved = state["counts"]["nodes"]
            return Saved(
                summary,
                Position(*state["position"]),
                Counts(**state["counts"]),
                Transform.from_json(state["space"]),
                state["rejected_size"],
                RecentIds.from_json(state["seen"]) if state.get("seen") is not None else None,
                state.get("fraction"),
            )
        except InputError:
            raise
        except (KeyError, TypeError, AttributeError, ValueError, pa.ArrowException):
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

    def save(self, state: Saved) -> None:
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
    """Checksum of the bytes of a file that have been read, extended as reading proceeds."""

    def __init__(self, path: Path | None, size: int) -> None:
        self.size = size
        self._path, self._n_bytes, self._digest = path, 0, hashlib.sha256()

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
    if source.path is None or not source.path.is_file():
        return {"name": str(source), "start": reader.digest_of_start()}
    stat = source.path.stat()
    digest = hashlib.sha256()
    with source.path.open("rb") as opened:
        digest.update(opened.read(EDGE))
        opened.seek(max(0, stat.st_size - EDGE))
        digest.update(opened.read(EDGE))
    return {"name": str(source), "size": stat.st_size, "modified": stat.st_mtime_ns, "edges": digest.hexdigest()}


# -- rejected.csv -----------------------------------------------------------------------------------------------------

HEADER = Rejected._fields


class Rejects:
    """Appends rows to a file, which is created with the first row: clean input leaves none.

    ``size`` is the length so far. A file of another run is replaced; after a stop it is cut to the size that it had
    at the checkpoint.
    """

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path, self.size = path, size
        self._file: TextIO | None = None
        if size:
            os.truncate(path, size)
        else:
            path.unlink(missing_ok=True)

    def write(self, rows: Iterable[Rejected]) -> None:
        """Add rows."""
        rows = list(rows)
        if not rows:
            return
        try:
            self._append(rows)
        except OSError as error:  # ENOSPC names no file
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _append(self, rows: list[Rejected]) -> None:
        if self._file is None:
            self._file = self.path.open("a", newline="", encoding="utf-8", errors="backslashreplace")
        writer = csv.writer(self._file, lineterminator="\n")
        if self.size == 0:
            writer.writerow(HEADER)
        writer.writerows(rows)
        self._file.flush()
        self.size = self._file.tell()

    def flush(self) -> None:
        """Flush to disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # disk full: already reported
                self._file.close()
