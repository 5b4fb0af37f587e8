"""The two passes over files: summarize all nodes; then assign each, sum exactly, and list nodes between clusters."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi.errors import InputError, StoppedError
from probi.io.checkpoint import Checkpoint, Rejects, Saved
from probi.io.node_assembler import Batch, Counts, Position, check_left_out
from probi.io.options import reading_of
from probi.io.prefetch import StoppedWaitingError
from probi.io.reader import Reader
from probi.io.recent_ids import RecentIds
from probi.io.rows import FILE
from probi.io.splits import Part
from probi.io.write import assignment_columns, assignment_table
from probi.nodes import Nodes
from probi.objective import TwoNearest, total_cost, two_nearest
from probi.summary import Summary

# -- the first pass: summarize ----------------------------------------------------------------------------------------

SAME_AGAIN = "Name the same folder as before, or remove the checkpoint to start over."


def summarize(
    reader: Reader,
    summary: Summary,
    *,
    rejects: Path | None = None,
    checkpoint: Checkpoint | None = None,
    on_resume: Callable[[Counts], None] = lambda counts: None,
    on_batch: Callable[[Batch], None] = lambda batch: None,
    is_stopped: Callable[[], bool] = lambda: False,
    part: Part | None = None,
) -> tuple[Summary, Counts]:
    """Read everything into a summary, or into that of a checkpoint; return it and the counts.

    The space, and what the columns mean, are left in ``summary.about``. ``is_stopped`` is asked after each batch; if it
    says so, a checkpoint is written and StoppedError is raised. Only the ``part`` is read, if one is given.
    """
    saved = checkpoint.load() if checkpoint is not None else None
    position, counts, rejected_size = part.start if part else Position(), Counts(), 0
    seen: RecentIds | None = None
    fraction: float | None = None
    if saved is not None:
        summary, position, counts, seen, fraction = (
            saved.summary, saved.position, saved.counts, saved.seen, saved.fraction
        )  # fmt: skip
        reader.resume_with(saved.space, seen)
        rejected_size = _rejected_size(rejects, saved)
        on_resume(counts)
    with contextlib.ExitStack() as stack:
        rejected = None if rejects is None else stack.enter_context(Rejects(rejects, rejected_size))
        batches = reader.batches(position, counts, is_stopped, part.stop if part else None)
        stack.callback(batches.close)  # type: ignore[attr-defined]

        def save() -> None:
            if checkpoint is None:
                return
            if rejected is not None:
                rejected.flush()
            size = None if rejected is None else rejected.size
            checkpoint.save(Saved(summary, position, counts, reader.space, size, seen, fraction))

        stopped = False
        try:
            for batch in batches:
                summary.update(batch.nodes)
                if rejected is not None:
                    rejected.write(batch.rejected)
                position, counts, fraction = batch.position, batch.counts, batch.fraction
                seen = batch.seen or seen
                on_batch(batch)
                stopped = is_stopped()
                if stopped:
                    break
                if checkpoint is not None and checkpoint.is_due(counts):
                    save()
        except StoppedWaitingError:
            stopped = True
        save()
        if stopped:
            raise StoppedError(f"Stopped after {counts.nodes:,} nodes ({counts.rows:,} rows).")
    summary.about |= {"space": reader.space.to_json(), "reading": reading_of(reader)}
    return summary, counts


def _rejected_size(rejects: Path | None, saved: Saved) -> int:
    """Size of the file of rejected rows at the checkpoint; an error if those rows are gone."""
    if rejects is None:
        return 0
    if saved.rejected_size is None:
        if saved.counts.rows > saved.counts.used:
            raise InputError(f"The checkpoint is of a run without {rejects}, which would now lack rows. {SAME_AGAIN}")
        return 0
    if saved.rejected_size and (not rejects.is_file() or rejects.stat().st_size < saved.rejected_size):
        raise InputError(f"{rejects} does not hold the rows that were left out before the checkpoint. {SAME_AGAIN}")
    return saved.rejected_size


# -- the second pass: assign ------------------------------------------------------------------------------------------

Array = NDArray[Any]

# A node is between clusters if its second center is at most this fraction farther than its first.
NEARLY = 0.05
N_SHOWN = 20


class Between(NamedTuple):
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
    cost: float = 0.0
    counts: Array = field(init=False)
    n_between: int = 0
    between: list[Between] = field(default_factory=list)  # the nearest to a tie, in order
    n_nodes: int = 0

    def __post_init__(self) -> None:
        self.counts = np.zeros(len(self.centers), np.int64)

    def columns(self, nodes: Nodes, names: Callable[[int], str], suffix: str) -> dict[str, Array]:
        """Columns of the assignment of some nodes, which are added to the sums."""
        nearest = two_nearest(nodes, self.centers)
        self.cost += total_cost(nodes, nearest.distances)
        self.counts += np.bincount(nearest.labels, minlength=len(self.centers))
        if len(self.centers) > 1:
            self._add_between(names, nearest)
        self.n_nodes += len(nodes)
        return {column.name + suffix: column.values(nearest) for column in assignment_columns(len(self.centers))}

    def _add_between(self, names: Callable[[int], str], two_nearest: TwoNearest) -> None:
        nearest, own, other, to_other = two_nearest
        near = np.flatnonzero(to_other <= (1.0 + NEARLY) * own)
        self.n_between += len(near)
        with np.errstate(invalid="ignore"):
            ratios = np.where(own[near] > 0, to_other[near] / own[near], 1.0)
        order = np.argsort(ratios, kind="stable")[:N_SHOWN]
        self._keep_nearest(
            Between(
                ratio, self.n_nodes + i, names(i), int(nearest[i]), float(own[i]), int(other[i]), float(to_other[i])
            )
            for i, ratio in zip(near[order].tolist(), ratios[order].tolist(), strict=True)
        )

    def _keep_nearest(self, entries: Iterable[Between]) -> None:
        self.between = sorted([*self.between, *entries])[:N_SHOWN]

    def add(self, other: "Tally") -> None:
        """Add the sums of the nodes that come next."""
        self._keep_nearest(entry._replace(order=entry.order + self.n_nodes) for entry in other.between)
        self.cost += other.cost
        self.counts += other.counts
        self.n_between += other.n_between
        self.n_nodes += other.n_nodes


def assign_all(
    reader: Reader,
    centers: Sequence[Array],
    write: Callable[[pa.Table], None] = lambda table: None,
    on_batch: Callable[[Batch], None] = lambda batch: None,
    part: Part | None = None,
) -> list[Tally]:
    """Assign every node, or those of a part, to each set of centers; return the sums of each set.

    ``write`` gets a table per batch, with a row per node.
    """
    tallies = [Tally(np.asarray(one)) for one in centers]
    sources = [str(source) for source in reader.sources]
    counts = Counts()
    for batch in reader.batches() if part is None else reader.batches(part.start, stop=part.stop):
        if len(batch.nodes):
            columns: dict[str, Array] = {}
            names = _namer(reader, batch)
            for tally in tallies:
                suffix = f"_{len(tally.centers)}" if len(tallies) > 1 else ""
                columns |= tally.columns(batch.nodes, names, suffix)
            write(assignment_table(batch, columns, sources, reader.id_name, reader.columns.file))
        on_batch(batch)
        counts = batch.counts
    if part is None:
        check_left_out(counts, reader.options)
    return tallies


def _namer(reader: Reader, batch: Batch) -> Callable[[int], str]:
    """Return a function from a node of a batch to its name: its id, or its row."""

    def name(node: int) -> str:
        if batch.nodes.ids is not None:
            value = batch.nodes.ids[node]
            return ", ".join(map(str, value.item() if isinstance(value, np.void) else [value]))
        file, row = divmod(int(batch.where[node]), FILE)
        source = f" of {reader.sources[file]}" if len(reader.sources) > 1 else ""
        return f"row {row + 1}{source}"

    return name
