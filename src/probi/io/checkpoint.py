"""Checkpoints: a summary with the place where reading goes on, so that a crash costs minutes."""

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from probi.errors import InputError
from probi.io.assemble import Counts, Position
from probi.io.reader import Reader
from probi.io.space import Space
from probi.summary import Summary

# Bytes at both ends of a file that are looked at to recognise it, besides its size and its time of change.
EDGE = 1 << 20


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds."""

    summary: Summary
    position: Position
    counts: Counts
    space: Space
    rejected_size: int | None  # None: rows that are left out are not written


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
        self._n_saved = 0

    def load(self) -> Saved | None:
        """What was saved, None if there is no checkpoint yet; one of another run is an error."""
        if not self.path.exists():
            return None
        try:
            summary = Summary.load(self.path)
        except InputError as error:
            raise InputError(f"{error} Name another checkpoint, or remove this one to start anew.") from None
        state = summary.about.pop("checkpoint", None)
        if state is None:
            raise InputError(f"{self.path} is a summary, but no checkpoint. Name another file.")
        try:
            self._check_same(state)
            self._n_saved = state["counts"]["nodes"]
            return Saved(
                summary,
                Position(*state["position"]),
                Counts(**state["counts"]),
                Space.from_json(state["space"]),
                state["rejected_size"],
            )
        except (KeyError, TypeError, AttributeError):
            raise InputError(
                f"{self.path} is a checkpoint of another version of probi. Remove it to start anew."
            ) from None

    def _check_same(self, state: dict[str, Any]) -> None:
        for name, value in self._parameters.items():
            before = state["parameters"].get(name)
            if before != value:
                raise InputError(
                    f"{self.path} belongs to a run with other parameters: {name} was {before!r} and is {value!r}. "
                    "Give the same arguments again, or another checkpoint file."
                )
        before = state["inputs"]
        if [entry["name"] for entry in before] != [entry["name"] for entry in self._inputs]:
            raise InputError(f"{self.path} belongs to a run on other files. Name the same ones, or another checkpoint.")
        for old, new in zip(before, self._inputs, strict=True):
            if old != new:
                raise InputError(
                    f"{new['name']} has changed since the checkpoint {self.path} was written. Remove the checkpoint to "
                    "start anew."
                )

    def is_due(self, counts: Counts) -> bool:
        """Whether enough nodes have been read since the last one."""
        return counts.nodes - self._n_saved >= self.every

    def save(
        self, summary: Summary, position: Position, counts: Counts, space: Space, rejected_size: int | None
    ) -> None:
        """Replace the file."""
        saved = summary.__copy__()
        saved.about["checkpoint"] = {
            "parameters": self._parameters,
            "inputs": self._inputs,
            "position": list(position),
            "counts": asdict(counts),
            "space": space.to_json(),
            "rejected_size": rejected_size,
        }
        saved.save(self.path)
        self._n_saved = counts.nodes


def _identity(reader: Reader, file: int) -> dict[str, Any]:
    """What a file is recognised by; standard input by its first bytes."""
    source = reader.sources[file]
    if source.path is None or not source.path.is_file():
        return {"name": str(source), "start": reader.digest_of_start()}
    found = source.path.stat()
    digest = hashlib.sha256()
    with source.path.open("rb") as opened:
        digest.update(opened.read(EDGE))
        opened.seek(max(0, found.st_size - EDGE))
        digest.update(opened.read(EDGE))
    return {
        "name": str(source),
        "size": found.st_size,
        "modified": found.st_mtime_ns,
        "edges": digest.hexdigest(),
    }
