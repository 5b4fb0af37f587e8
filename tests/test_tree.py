"""The tree of cuts, and the cells it makes."""

from dataclasses import dataclass
from itertools import pairwise

import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import points

from probi._kernels import tree


@dataclass
class Tree:
    """What ``grow_tree`` makes, with the order and the masses it leaves behind."""

    features: np.ndarray
    thresholds: np.ndarray
    firsts: np.ndarray
    leaf_of: np.ndarray
    cell_of: np.ndarray
    n_cells: int
    order: np.ndarray
    mass: np.ndarray

    def leaves(self, rows):
        """Leaf of each row."""
        leaves = np.full(len(rows), -1, np.int32)
        tree.descend(rows, self.features, self.thresholds, self.firsts, self.leaf_of, leaves, 0, len(rows))
        return leaves

    def cells(self, rows):
        """Cell of each row."""
        return self.cell_of[self.leaves(rows)]


def grown(rows, used=None, mass=None, max_cells=4):
    """Grow a tree over some rows."""
    order = np.arange(len(rows)) if used is None else np.array(used)
    mass = np.ones(len(order)) if mass is None else np.array(mass, float)
    m = len(order)
    features, thresholds, firsts = np.empty(2 * m, np.uint64), np.empty(2 * m, np.float64), np.empty(2 * m, np.uint64)
    leaf_of, cell_of = np.full(2 * m, -1, np.int32), np.empty(m, np.int32)
    some = rows[order]  # a copy: it is sorted by leaf, like the order
    n_leaves, n_cells = tree.grow_tree(some, mass, order, max_cells, features, thresholds, firsts, leaf_of, cell_of)
    assert_array_equal(some, rows[order])
    return Tree(features, thresholds, firsts, leaf_of, cell_of[:n_leaves], n_cells, order, mass)


def sorted_by_leaf(made, leaves, used):
    """Order of the used rows, and offsets of the cells in it."""
    cell_offsets, order, mass = (
        np.empty(made.n_cells + 1, np.int64),
        np.empty(len(used), np.int64),
        np.zeros(len(leaves)),
    )
    mass[used] = 1.0
    tree.sort_by_leaf(leaves, mass, made.cell_of, cell_offsets, order)
    return order, cell_offsets


@st.composite
def rows_and_used(draw):
    """Rows of float32, numbers of those to grow a tree over, and masses of these."""
    d = draw(st.integers(1, 3))
    rows = np.array(draw(st.lists(points(d), min_size=1, max_size=30)), np.float64)
    used = draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True))
    mass = draw(st.lists(st.integers(1, 5), min_size=len(used), max_size=len(used)))
    return rows, used, mass


some_cells = st.integers(1, 8)


# -- growing ----------------------------------------------------------------------------------------------------------


@given(rows_and_used(), some_cells)
def test_the_order_is_a_permutation_and_masses_move_along(data, max_cells):
    rows, used, mass = data
    made = grown(rows, used, mass, max_cells)
    assert sorted(zip(made.order.tolist(), made.mass.tolist(), strict=True)) == sorted(zip(used, mass, strict=True))


@given(rows_and_used(), some_cells)
def test_there_are_as_many_cells_as_asked_for_or_one_for_each_place(data, max_cells):
    rows, used, mass = data
    made = grown(rows, used, mass, max_cells)
    n_places = len(np.unique(rows[used], axis=0))
    assert made.n_cells == min(max_cells, n_places)
    assert_array_equal(np.unique(made.cell_of), np.arange(made.n_cells))


@given(rows_and_used(), some_cells)
def test_rows_stand_in_the_order_of_the_leaves_they_descend_to(data, max_cells):
    rows, used, mass = data
    made = grown(rows, used, mass, max_cells)
    leaves = made.leaves(rows)
    assert (np.diff(leaves[made.order]) >= 0).all()
    assert_array_equal(np.unique(leaves[made.order]), np.arange(len(made.cell_of)))  # no leaf is empty
    assert (np.diff(made.cell_of) >= 0).all()


@given(rows_and_used(), some_cells)
def test_a_leaf_holds_a_few_rows_or_equal_ones(data, max_cells):
    rows, used, mass = data
    made = grown(rows, used, mass, max_cells)
    leaves = made.leaves(rows)[used]
    for leaf in range(len(made.cell_of)):
        inside = rows[used][leaves == leaf]
        assert len(inside) <= tree.LEAF or len(np.unique(inside, axis=0)) == 1


def test_a_few_rows_far_away_are_cut_off_first():
    rows = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float64)
    rows[[17, 400]] = [50.0, 0.0]
    assert_array_equal(np.flatnonzero(grown(rows, max_cells=2).cells(rows) == 1), [17, 400])


def test_the_cell_with_the_largest_cost_is_cut():
    rows = np.repeat([-1.0, 1.0, 100.0, 100.5], 10)[:, None].astype(np.float64)
    assert_array_equal(grown(rows, max_cells=3).cells(rows)[::10], [0, 1, 2, 2])


def test_mass_counts_for_the_cost_of_a_cell():
    rows = np.repeat([-1.0, 1.0, 100.0, 100.5], 10)[:, None].astype(np.float64)
    mass = np.repeat([1.0, 1.0, 9.0, 9.0], 10)
    assert_array_equal(grown(rows, mass=mass, max_cells=3).cells(rows)[::10], [0, 0, 1, 2])


def test_cells_are_cut_along_the_feature_that_varies_most():
    rows = np.array([(x, 5.0 * y) for x in range(4) for y in range(4)], np.float64)
    assert_array_equal(grown(rows, max_cells=2).cells(rows), (rows[:, 1] > 5.0).astype(int))


def test_neighbours_in_the_order_are_close():
    # A random order has a mean step of 0.52 in the unit square, the best order of 2,000 rows one of about 0.02.
    rows = np.random.default_rng(1).random((2000, 2)).astype(np.float64)
    order = grown(rows).order
    assert np.linalg.norm(np.diff(rows[order], axis=0), axis=1).mean() < 0.06


# -- descending -------------------------------------------------------------------------------------------------------


def test_each_row_goes_down_by_itself():
    rows = np.random.default_rng(2).normal(size=(503, 3)).astype(np.float64)  # several blocks
    made = grown(rows, used=np.arange(0, 503, 3))
    leaves = made.leaves(rows)
    for i, row in enumerate(rows):
        node = 0
        while made.firsts[node] != node:
            node = made.firsts[node] + (row[made.features[node]] > made.thresholds[node])
        assert leaves[i] == made.leaf_of[node]


def test_ranges_of_rows_are_left_alone_by_others():
    rows = np.random.default_rng(3).normal(size=(50, 2)).astype(np.float64)
    made = grown(rows)
    leaves = np.full(50, -1, np.int32)
    tree.descend(rows, made.features, made.thresholds, made.firsts, made.leaf_of, leaves, 13, 36)
    assert_array_equal(leaves[13:36], made.leaves(rows)[13:36])
    assert (leaves[:13] == -1).all()
    assert (leaves[36:] == -1).all()


@given(rows_and_used(), some_cells, st.data())
def test_each_used_row_is_in_one_cell_and_cells_are_ranges_of_the_order(data, max_cells, more):
    rows, some, mass = data
    made = grown(rows, some, mass, max_cells)
    used = sorted({*some, *more.draw(st.lists(st.integers(0, len(rows) - 1)))})
    leaves = made.leaves(rows)
    order, cell_offsets = sorted_by_leaf(made, leaves, used)
    assert sorted(order.tolist()) == used
    assert (np.diff(leaves[order]) >= 0).all()
    assert (cell_offsets[0], cell_offsets[-1]) == (0, len(used))
    for c in range(made.n_cells):
        assert_array_equal(made.cell_of[leaves[order[cell_offsets[c] : cell_offsets[c + 1]]]], c)


# -- measuring --------------------------------------------------------------------------------------------------------


def measured(rows, mass, n_space, leaves, cell_of, n_cells, n_pieces=1):
    """Distances of rows to the means of their cells, masses and costs of the cells, summed over pieces."""
    borders = np.linspace(0, len(rows), n_pieces + 1).astype(int)
    origins = np.array([rows[cell_of[leaves] == c][0] for c in range(n_cells)])
    ranges = list(pairwise(borders))
    sums = sum(tree.sum_cells(rows, mass, n_space, leaves, cell_of, origins, a, b) for a, b in ranges)
    means, distances = origins[:, :n_space] + sums[:, :-1] / sums[:, -1:], np.full(len(rows), np.nan)
    costs = sum(tree.measure(rows, mass, n_space, leaves, cell_of, means, distances, a, b) for a, b in ranges)
    return distances, sums[:, -1], costs


@given(rows_and_used(), some_cells, st.booleans(), st.integers(1, 3))
def test_distances_and_costs_of_cells_match_the_definition(data, max_cells, has_spreads, n_pieces):
    rows, used, mass = data
    made = grown(rows, used, mass, max_cells)
    leaves = made.leaves(rows)
    order, cell_offsets = sorted_by_leaf(made, leaves, used)
    n_space = rows.shape[1] - has_spreads
    masses = np.zeros(len(rows))
    masses[used] = mass
    distances, sums, costs = measured(rows, masses, n_space, leaves, made.cell_of, made.n_cells, n_pieces)
    cells = [order[cell_offsets[c] : cell_offsets[c + 1]].tolist() for c in range(made.n_cells)]
    expected, by_cell = naive.cell_costs(rows.tolist(), masses.tolist(), cells, n_space)
    assert_allclose(distances[order], [expected[i] for i in order], rtol=1e-9, atol=1e-9)
    assert_allclose(np.stack([sums, costs], axis=1), by_cell, rtol=1e-9, atol=1e-9)


def test_far_from_the_origin_distances_are_the_same():
    rows = np.round(np.random.default_rng(4).normal(size=(40, 2)) * 16).astype(np.float64) / 16
    leaves, cell_of = np.zeros(40, np.int32), np.zeros(1, np.int32)
    found = [measured(rows + np.float64(shift), np.ones(40), 2, leaves, cell_of, 1)[0] for shift in (0.0, 2.0**19)]
    assert_allclose(found[1], found[0], rtol=1e-9)
