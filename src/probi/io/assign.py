"""The second pass: assign every node, sum exactly, and list nodes between two clusters."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi.io.node_assembler import Batch, Counts, check_left_out
from probi.io.reader import Reader
from probi.io.rows import FILE
from probi.io.splits import Part
from probi.io.write import assignment_columns, assignment_table
from probi.nodes import Nodes
from probi.objective import TwoNearest, total_cost, two_nearest

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
    between: list[tuple[float, int, Between]] = field(default_factory=list)
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
        # The smallest ratios are kept, in a heap with the largest of them on top.
        for at in np.argsort(ratios, kind="stable")[:N_SHOWN]:
            i, ratio, order = near[at], float(ratios[at]), self.n_nodes + int(near[at])
            entry = Between(
                ratio, order, names(int(i)), int(nearest[i]), float(own[i]), int(other[i]), float(to_other[i])
            )
            heapq.heappush(self.between, (-ratio, -order, entry))
            if len(self.between) > N_SHOWN:
                heapq.heappop(self.between)

    def restore_between(self, entries: Sequence[Sequence[Any]]) -> None:
        """Restore the nodes between clusters from JSON of :func:`dataclasses.asdict`."""
        self.between = [(ratio, order, Between(*entry)) for ratio, order, entry in entries]

    def add(self, other: "Tally") -> None:
        """Add the sums of the nodes that come next."""
        for ratio, order, entry in other.between:
            heapq.heappush(
                self.between, (ratio, order - self.n_nodes, entry._replace(order=entry.order + self.n_nodes))
            )
        for _ in range(len(self.between) - N_SHOWN):
            heapq.heappop(self.between)
        self.cost += other.cost
        self.counts += other.counts
        self.n_between += other.n_between
        self.n_nodes += other.n_nodes

    def max_between(self) -> list[Between]:
        """Nodes between clusters, the nearest to a tie first."""
        return sorted(entry for _, _, entry in self.between)


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
