"""The default reduce: compact cells, an importance per node, a systematic sample, exact masses."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import tree as kernels
from probi.coreset.preset import Preset
from probi.medians import SPREAD_TOL, certified_medians
from probi.nodes import GRAIN, Nodes
from probi.solver.problem import capped_probabilities, draw

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Two to eight cells per cluster give the same error within its noise; with one, small clusters share a cell.
CELLS_PER_CLUSTER = 4

# Minimum of the mean number of picks per cell. A third of all picks go by mass alone, the same number to every cell, so
# each gets at least two: every cell is represented.
PICKS_PER_CELL = 8

# Nodes whose coordinates determine a typical location.
N_TYPICAL = 255

# Nodes with more features than this are projected to so many columns, each feature added to a few of them.
WIDE, N_PROJECTED, N_COPIES = 128, 64, 4

# Rows that a thread passes down the tree at a time.
ROWS_PER_TASK = 1 << 13


# In summaries up to this size a leaf has eight times as many nodes, in larger ones four times: larger leaves mean fewer
# levels, less error and less work, but more nodes waiting in the buffer.
SMALL_SIZE = 1 << 13


class ImportanceSampling(Preset):
    """The default."""

    name = "default"

    @property
    def leaf(self) -> int:
        """Nodes that become one coreset."""
        return (2 if self.size <= SMALL_SIZE else 1) * self.fan_in * self.size

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
    mass = np.concatenate([part.mass for part in parts])
    used = np.flatnonzero(mass > 0.0)
    if len(used) <= size:
        nodes = Nodes.concat(parts)
        return nodes if len(used) == len(nodes) else nodes.take(used)
    rows, n_columns = _rows(parts)
    n_cells = max(1, min(CELLS_PER_CLUSTER * n_clusters, size // PICKS_PER_CELL))
    order, cell_offsets, cells = _cells(rows, mass, used, size, n_cells, rng)
    scores = _importance(rows, mass, n_columns, order, cell_offsets, cells)
    kept, inclusion = capped_probabilities(scores, size)
    picked = kept.copy()
    if kept.sum() < size:
        kernels.systematic_sample(inclusion, order, rng.random(), size - int(kept.sum()), picked)
    chosen = np.flatnonzero(picked)
    rest: Floats = np.bincount(cells, np.where(kept, 0.0, mass), len(cell_offsets) - 1).astype(np.float64, copy=False)
    factors = _factors(mass[chosen], cells[chosen], kept[chosen], inclusion[chosen], rest)
    return _take(parts, chosen, factors)


def _take(parts: Sequence[Nodes], chosen: Indices, factors: Floats) -> Nodes:
    """Take nodes by their indices in the concatenated parts, and multiply their weights."""
    offsets = np.cumsum([0] + [len(part) for part in parts])
    at = np.searchsorted(chosen, offsets)
    taken = []
    for part, start, first, last in zip(parts, offsets, at, at[1:], strict=False):
        if first < last:
            index = chosen[first:last] - start
            taken.append(part.take(index).with_weights(part.weights[index] * factors[first:last]))
    return Nodes.concat(taken)


def _rows(parts: Sequence[Nodes]) -> tuple[Floats, int]:
    """Nodes as rows, relative to a typical location and scaled to at most 1, so that no scale or shift matters.

    Also the number of leading columns that are coordinates. Nodes with many features are projected at random to fewer:
    distances change little, and rows take less memory than the nodes.

    Not float32, although they only decide inclusion probabilities: of two groups 10^9 times as far apart as each is
    wide, one would lose all structure.
    """
    statistics = [certified_medians(part, SPREAD_TOL) for part in parts]
    offsets, d = np.cumsum([0] + [len(part) for part in parts]), parts[0].n_features
    n = int(offsets[-1])
    step = 1 + n // N_TYPICAL
    typical = [
        medians[-start % step :: step] for (medians, _, _), start in zip(statistics, offsets, strict=False)
    ]  # every step-th node of all parts
    base = np.median(np.concatenate(typical).astype(np.float64), axis=0)
    tasks = [(i, a, b) for i, part in enumerate(parts) for a, b in _parallel.ranges(len(part), 1 + GRAIN // d)]
    largest = max(float(spreads.max()) for _, spreads, _ in statistics if len(spreads))

    def deviation(start: int, stop: int) -> float:
        return max(float(kernels.largest_deviation(statistics[i][0], base, a, b)) for i, a, b in tasks[start:stop])

    pieces = _parallel.ranges(len(tasks), 1)
    largest = max(largest, *_parallel.run(deviation, pieces))
    # A power of two: scaled data gives scaled rows, to the bit.
    scale = 2.0 ** -np.frexp(largest)[1] if largest > 0.0 else 1.0
    n_columns = d if d <= WIDE else N_PROJECTED
    rows = np.empty((n, n_columns if all(part.is_certain for part in parts) else n_columns + 1))

    def fill(start: int, stop: int) -> None:
        for i, a, b in tasks[start:stop]:
            (medians, spreads, _), of_part = statistics[i], rows[offsets[i] : offsets[i + 1]]
            if d <= WIDE:
                kernels.make_rows(medians, spreads, base, scale, of_part, a, b)
            else:
                kernels.project_rows(medians, spreads, base, scale, *_projection(d), n_columns, of_part, a, b)

    _parallel.run(fill, pieces)
    return rows, n_columns


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
    rows: Floats, mass: Floats, used: Indices, sample_size: int, max_cells: int, rng: np.random.Generator
) -> tuple[Indices, Indices, NDArray[np.int32]]:
    """Order of the rows in which neighbors are close, offsets of the cells in it, and the cell of each row.

    The tree is grown over a sample of the rows, drawn by mass but each at most once, so that a huge mass does not fill
    it. All rows descend the tree.
    """
    drawn, times = _draw_once(mass[used], sample_size, rng)
    some, m = used[drawn], len(drawn)
    features, thresholds, firsts = np.empty(2 * m, np.uint64), np.empty(2 * m), np.empty(2 * m, np.uint64)
    leaf_of, cell_of, leaves = np.empty(2 * m, np.int32), np.empty(m, np.int32), np.empty(len(rows), np.int32)
    n_leaves, n_cells = kernels.grow_tree(rows, times, some, max_cells, features, thresholds, firsts, leaf_of, cell_of)
    pieces = _parallel.ranges(len(rows), ROWS_PER_TASK)
    _parallel.run(kernels.descend, pieces, rows, features, thresholds, firsts, leaf_of, leaves)
    cell_offsets, order, cells = (
        np.empty(n_cells + 1, np.int64),
        np.empty(len(used), np.int64),
        np.zeros(len(rows), np.int32),
    )
    kernels.sort_by_leaf(leaves, used, cell_of[:n_leaves], cell_offsets, order, cells)
    return order, cell_offsets, cells


def _draw_once(mass: Floats, n: int, rng: np.random.Generator) -> tuple[Indices, Floats]:
    """Draw about ``n`` distinct indices by mass, in ascending order; also how many draws each stands for.

    Those drawn with certainty stand for their mass, but all of them together for no more than the others.
    """
    kept, inclusion = capped_probabilities(mass, n)
    n_draws = n - int(kept.sum())
    times = np.where(kept, 1.0, 0.0)
    if n_draws and inclusion.any():
        strata = (np.arange(n_draws) + rng.random(n_draws)) / n_draws
        times[draw(inclusion, strata)] = 1.0
        heavy = mass[kept] / mass[~kept].sum() * n_draws
        times[kept] = np.maximum(1.0, heavy * min(1.0, n_draws / max(heavy.sum(), 1.0)))
    drawn = np.flatnonzero(times)
    return drawn, times[drawn]


def _importance(
    rows: Floats, mass: Floats, n_space: int, order: Indices, cell_offsets: Indices, cells: NDArray[np.int32]
) -> Floats:
    """Importance of each node, to which its inclusion probability is proportional."""
    n_cells = len(cell_offsets) - 1
    distances, masses, costs = np.zeros(len(rows)), np.empty(n_cells), np.empty(n_cells)
    pieces = _parallel.ranges(n_cells, max(1, n_cells * GRAIN // rows.size))
    _parallel.run(kernels.measure, pieces, rows, mass, n_space, order, cell_offsets, distances, masses, costs)
    by_cost = np.zeros(n_cells)
    # A cell without cost (all nodes at one point) has none to share.
    costly = costs > 0.0
    if costly.any():
        by_cost[costly] = 1.0 / costs.sum() + 1.0 / (n_cells * costs[costly])
    by_mass = 1.0 / (n_cells * masses)
    scores = np.empty(len(rows))
    pieces = _parallel.ranges(len(rows), ROWS_PER_TASK)
    _parallel.run(kernels.importance, pieces, mass, distances, cells, by_mass, by_cost, scores)
    return scores


def _factors(
    mass: Floats, cells: NDArray[np.int32], kept: NDArray[np.bool_], inclusion: Floats, rest: Floats
) -> Floats:
    """Factors for the weights of the chosen nodes, so that each cell keeps its mass.

    Kept nodes stand for themselves, the others for the rest of the cell; if none of them was chosen, the kept ones
    share it. The rest is summed separately: as a difference it would vanish next to one huge mass.
    """
    factors = np.ones(len(mass))
    factors[~kept] = 1.0 / inclusion[~kept]
    heavy = np.bincount(cells[kept], mass[kept], minlength=len(rest))
    sampled = np.bincount(cells[~kept], mass[~kept] * factors[~kept], minlength=len(rest))
    with np.errstate(divide="ignore", invalid="ignore"):
        for_sampled = rest / sampled
        for_kept = np.where(sampled > 0.0, 1.0, 1.0 + rest / heavy)
    factors *= np.where(kept, for_kept[cells], for_sampled[cells])
    return factors
