"""What presets share, and the default one: compact cells, an importance per node, a systematic sample, exact masses."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import sampling, tree
from probi._parallel import GRAIN
from probi._types import Array
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import Nodes
from probi.validation import check_count, frozen

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Leaves = NDArray[np.int32]

# Default number of nodes kept per cluster, as in the paper.
SIZE_PER_CLUSTER = 200

# With fewer nodes per cluster a summary is meaningless.
MIN_SIZE_PER_CLUSTER = 4

# Two to eight cells per cluster give the same error within its noise; with one, small clusters share a cell.
CELLS_PER_CLUSTER = 4

# Minimum of the mean number of picks per cell. A third of all picks go by mass alone, the same number to every cell, so
# each gets at least two: every cell is represented.
PICKS_PER_CELL = 8

# Nodes whose coordinates determine a typical location.
N_TYPICAL = 255

# Nodes with more features than this are projected to this many columns, each feature added to a few of them.
WIDE, N_PROJECTED, N_COPIES = 128, 64, 4

# Masses beyond this and its reciprocal are multiplied by a power of two before their ratios are computed, so that none
# overflows. Nodes with a smaller share of the largest mass than this are not chosen.
MODERATE, NEGLIGIBLE = 1e-100, 1e-150

# Rows that a thread passes down the tree at a time.
ROWS_PER_TASK = 1 << 13


# -- any preset --------------------------------------------------------------------------------------------------------


class Retained(NamedTuple):
    """What is kept of one stream.

    Attributes
    ----------
    coresets : list of Nodes
        Those of the highest level first.
    waiting : Nodes or None
        Nodes that do not fill a leaf yet.
    rng : Generator
        For the final coreset of this stream alone.
    """

    coresets: list[Nodes]
    waiting: Nodes | None
    rng: np.random.Generator

    @property
    def parts(self) -> list[Nodes]:
        """Coresets and waiting nodes."""
        return self.coresets if self.waiting is None else [*self.coresets, self.waiting]


@dataclass(frozen=True)
class Preset(ABC):
    """How coresets of ``size`` nodes are made for ``n_clusters`` clusters. Each subclass is one preset."""

    # The matching preset of the solver.
    solver: ClassVar[str] = "default"
    # Coresets of one level that are merged into one of the next.
    fan_in: ClassVar[int] = 4
    # Coordinates at which a leaf ends before it has all its nodes; 0: it does not.
    leaf_coordinates: ClassVar[int] = 0
    # Level from which on a coreset joins the one that is there, without waiting for a group of them. No stream has as
    # many levels as this.
    joining_level: ClassVar[int] = 64
    # Leaves of large nodes that join one coreset before it becomes one of the next level. With 4 and with 16, errors
    # are those of groups of four within their noise; with one coreset for 40 leaves and more they are half as large
    # again.
    leaves_joined: ClassVar[int] = 16

    n_clusters: int
    size: int

    @classmethod
    def of(cls, n_clusters: int, size: Any, epsilon: Any, delta: Any) -> Self:
        """Return the preset for these parameters, or raise on those that make no sense; None means not given."""
        if epsilon is not None or delta is not None:
            raise InputError('epsilon and delta need preset="theory": only it gives a guarantee.')
        size = SIZE_PER_CLUSTER * n_clusters if size is None else size
        check_count("size", size)
        least = MIN_SIZE_PER_CLUSTER * n_clusters
        if size < least:
            raise InputError(f"A size of {size} is too small for {n_clusters} clusters: give at least {least}.")
        return cls(n_clusters, int(size))

    @property
    def leaf(self) -> int:
        """Nodes that become one coreset."""
        return self.fan_in * self.size

    @abstractmethod
    def reduce(self, parts: Sequence[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        """Choose weighted nodes that stand for those of all parts, of which at least one is not empty.

        The numbers identify this coreset among others of the same summary; the first is its level.
        """

    def reduce_if_larger(self, parts: list[Nodes], make_rng: Callable[[], np.random.Generator], *numbers: int) -> Nodes:
        """Nodes of all parts as they are if there are at most ``size`` of them, else a coreset.

        Few nodes need no generator, which takes longer to make than all else.
        """
        if sum(len(part) for part in parts) <= self.size:
            return concat_nonempty(parts)
        return self.reduce(nonempty(parts), make_rng(), *numbers)

    def block_level(self, n_levels: int) -> int:
        """Level of the coreset that replaces several streams with up to ``n_levels`` levels."""
        return 0

    def final_coreset(self, streams: Sequence[Retained], rng: np.random.Generator) -> Nodes:
        """One coreset of all that is kept of several streams."""
        return self.reduce_if_larger([nodes for stream in streams for nodes in stream.parts], lambda: rng)

    @property
    def description(self) -> str:
        """What it keeps, for people."""
        return f"coreset of {self.size:,}"


def nonempty(parts: list[Nodes]) -> list[Nodes]:
    """Drop empty parts (from leaves without mass), which have no medians; keep at least one."""
    return [part for part in parts if len(part)] or parts[:1]


def concat_nonempty(parts: list[Nodes]) -> Nodes:
    """Nodes of all parts."""
    return Nodes.concat(nonempty(parts))


# -- the default -------------------------------------------------------------------------------------------------------

# In summaries of these sizes a leaf has up to 64 times as many nodes, in others eight times: larger leaves mean fewer
# trees and levels, but more nodes waiting in the buffer. Those with many coordinates are shorter
# (``SummaryConfig.short_leaves``).
MEDIUM_SIZES = range(1 << 10, (1 << 13) + 1)


class ImportanceSampling(Preset):
    """The default."""

    leaf_coordinates = 1 << 24
    joining_level = 2

    @property
    def leaf(self) -> int:
        """Nodes that become one coreset, at most."""
        return (16 if self.size in MEDIUM_SIZES else 2) * self.fan_in * self.size

    def reduce(self, parts: Sequence[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        """Choose ``size`` nodes."""
        return reduce(parts, self.size, self.n_clusters, rng)


def reduce(parts: Sequence[Nodes], size: int, n_clusters: int, rng: np.random.Generator) -> Nodes:
    """Choose exactly ``size`` nodes of all parts, with weights that keep the mass of each cell.

    Nodes are represented by points, their medians lifted by their spreads
    (:meth:`probi.solver.problem.Problem.lifted`): any inclusion probabilities will do, as long as weights compensate.
    They are proportional to a sum of three shares: of the total cost, of the mass of the own cell and of the cost of
    the own cell, as for sensitivities (Feldman and Langberg). Nodes that would be chosen more than once are kept as
    they are. Only the chosen nodes are concatenated: the realizations of all would take as much memory again.
    """
    # Read-only in both cases: kernels are compiled for one kind of array.
    mass = _relative(parts[0].mass if len(parts) == 1 else frozen(np.concatenate([part.mass for part in parts])))
    n_used = int(np.count_nonzero(mass))
    if n_used <= size:
        nodes = Nodes.concat(parts)
        return nodes if n_used == len(nodes) else nodes.take(np.flatnonzero(mass))
    rows, n_columns = _rows(parts)
    n_cells = max(1, min(CELLS_PER_CLUSTER * n_clusters, size // PICKS_PER_CELL))
    leaves, cell_of, masses, costs, distances = _cells(rows, mass, n_columns, size, n_cells, rng)
    scores, chosen, factors = _parallel.scratch("scores", mass.shape), np.empty(size + 1, np.int64), np.empty(size + 1)
    n_chosen = sampling.choose(
        leaves, cell_of, mass, masses, costs, distances, size, rng.random(), scores, chosen, factors
    )
    return _take(parts, chosen[:n_chosen], factors[:n_chosen])


def _relative(mass: Floats) -> Floats:
    """Masses whose ratios kernels can compute: multiplied by a power of two if all are extreme, 0 if negligible."""
    largest = float(mass.max(initial=0.0))
    if largest > 0.0 and not MODERATE < largest < 1.0 / MODERATE:
        mass = frozen(np.ldexp(mass, -math.frexp(largest)[1]))
        largest = float(mass.max())
    if mass.min(initial=1.0) < NEGLIGIBLE * largest:
        mass = frozen(np.where(mass < NEGLIGIBLE * largest, 0.0, mass))
    return mass


def _take(parts: Sequence[Nodes], chosen: Indices, factors: Floats) -> Nodes:
    """Take nodes by their indices in the concatenated parts, and multiply their weights."""
    taken = Nodes._gathered(parts, _indices_in_parts(parts, chosen))
    return taken.with_weights(taken.weights * factors)


def _indices_in_parts(parts: Sequence[Sized], chosen: Indices) -> list[Indices]:
    """Indices in each part of what is chosen, in ascending order, from the concatenated parts."""
    offsets = _offsets(parts)
    at = np.searchsorted(chosen, offsets)
    return [chosen[first:last] - start for start, first, last in zip(offsets, at, at[1:], strict=False)]


def _offsets(parts: Sequence[Sized]) -> Indices:
    """Where each part begins in the concatenated parts, and where the last one ends."""
    return np.cumsum([0] + [len(part) for part in parts])


def _rows(parts: Sequence[Nodes]) -> tuple[list[Array], int]:
    """Nodes as rows, in arrays one after the other, and the number of leading columns that are coordinates.

    Plain points are rows as they are. Other nodes are medians followed by spreads. Nodes with many features are
    projected at random to fewer: distances change little, and rows take less memory than the nodes. They are float64:
    in float32, of two groups 10^9 times as far apart as each is wide, one would lose all structure.
    """
    d, certain = parts[0].n_features, all(part.is_certain for part in parts)
    if certain and d <= WIDE:
        return [part.points for part in parts], d
    statistics = [certified_medians(part, SPREAD_TOL) for part in parts]
    offsets = _offsets(parts)
    n_columns = d if d <= WIDE else N_PROJECTED
    rows: Floats = _parallel.scratch("rows", (int(offsets[-1]), n_columns if certain else n_columns + 1))
    tasks = [(i, a, b) for i, part in enumerate(parts) for a, b in _parallel.ranges(len(part), 1 + GRAIN // d)]
    base = _typical(statistics, offsets) if d > WIDE else None

    def fill(start: int, stop: int) -> None:
        for i, a, b in tasks[start:stop]:
            (medians, spreads, _), of_part = statistics[i], rows[offsets[i] : offsets[i + 1]]
            if base is None:
                tree.lifted_rows(medians, spreads, of_part, a, b)
            else:
                tree.projected_rows(medians, spreads, base, *_projection(d), n_columns, of_part, a, b)

    _parallel.run(fill, _parallel.ranges(len(tasks), 1))
    return [frozen(rows)], n_columns


def _typical(statistics: list[tuple[Array, Floats, Floats]], offsets: Indices) -> Floats:
    """The median of each coordinate, over every step-th node."""
    step = 1 + int(offsets[-1]) // N_TYPICAL
    some = [medians[-start % step :: step] for (medians, _, _), start in zip(statistics, offsets, strict=False)]
    typical: Floats = np.median(np.concatenate(some).astype(np.float64), axis=0)
    return typical


@lru_cache(maxsize=4)
def _projection(n_features: int) -> tuple[NDArray[np.int64], Floats]:
    """Columns that each feature is added to, and with which factors: a sparse random projection (Kane and Nelson).

    The same for all coresets: rows are compared only with each other.
    """
    rng = np.random.default_rng(n_features)
    shape = (n_features, N_COPIES)
    block = N_PROJECTED // N_COPIES
    columns = rng.integers(block, size=shape) + block * np.arange(N_COPIES)
    return columns, rng.choice([-1.0, 1.0], size=shape) / np.sqrt(N_COPIES)


def _cells(
    rows: list[Array], mass: Floats, n_columns: int, sample_size: int, max_cells: int, rng: np.random.Generator
) -> tuple[Leaves, Leaves, Floats, Floats, Floats]:
    """Leaf of each row, cell of each leaf, mass and cost of each cell, distance of each row to the mean of its cell."""
    grown = _grow(rows, mass, sample_size, max_cells, rng)
    leaves, distances = _parallel.scratch("leaves", mass.shape, np.int32), _parallel.scratch("distances", mass.shape)
    offsets = _offsets(rows)

    def place(start: int, stop: int) -> Floats:
        sums = np.zeros((len(grown.means), 2))
        for i in range(np.searchsorted(offsets, start, "right") - 1, np.searchsorted(offsets, stop)):
            of_part = slice(offsets[i], offsets[i + 1])
            a, b = max(start - offsets[i], 0), min(stop - offsets[i], len(rows[i]))
            tree.place(rows[i], mass[of_part], n_columns, *grown, leaves[of_part], distances[of_part], sums, a, b)
        return sums

    masses, costs = np.array(_parallel.run(place, _parallel.ranges(len(mass), ROWS_PER_TASK))).sum(axis=0).T.copy()
    return leaves, grown.cell_of, masses, costs, distances


class _Tree(NamedTuple):
    """A tree and its cells, as :func:`probi._kernels.tree.grow` makes them."""

    features: Array
    thresholds: Floats
    firsts: Array
    leaf_of: Leaves
    cell_of: Leaves
    means: Floats


def _grow(rows: list[Array], mass: Floats, sample_size: int, max_cells: int, rng: np.random.Generator) -> _Tree:
    """Tree over a sample of the rows, drawn by mass but each at most once, so that a huge mass does not fill it.

    The means of its cells are those of the sample.
    """
    drawn, times = np.empty(sample_size, np.int64), np.empty(sample_size)
    m = sampling.draw_once(mass, sample_size, rng.random(sample_size), drawn, times)
    # A copy of the sample: its rows are looked at again and again, and take less of the cache. Shares, not numbers of
    # draws: the sum of so many of the largest squares would overflow.
    indices = _indices_in_parts(rows, drawn[:m])
    some = np.concatenate([part.take(index, axis=0) for part, index in zip(rows, indices, strict=True)])
    shares = times[:m] / sample_size
    made = _Tree(
        np.empty(2 * m, np.uint64), np.empty(2 * m), np.empty(2 * m, np.uint64), np.empty(2 * m, np.int32),
        np.empty(m, np.int32), np.empty((max_cells, some.shape[1])),
    )  # fmt: skip
    n_leaves, n_cells = tree.grow_tree(some, shares, np.arange(m), max_cells, *made)
    return made._replace(cell_of=made.cell_of[:n_leaves], means=made.means[:n_cells])
