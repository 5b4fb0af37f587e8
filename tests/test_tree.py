"""The tree of cuts, and the cells it makes."""

from dataclasses import dataclass
from itertools import pairwise

import naive
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import read_only
from strategies import points

from probi._kernels import tree


@dataclass
class Tree:
    """What ``grow_tree`` makes, with the rows in the order of the leaves."""

    features: np.ndarray
    thresholds: np.ndarray
    firsts: np.ndarray
    leaf_of: np.ndarray
    cell_of: np.ndarray
    means: np.ndarray
    order: np.ndarray

    @property
    def n_cells(self):
        return len(self.means)

    def placed(self, rows, mass=None, n_space=None, ranges=None):
        """Leaves and distances of rows, masses and costs of cells."""
        n_space, mass = rows.shape[1] if n_space is None else n_space, np.ones(len(rows)) if mass is None else mass
        leaves, distances, ranges = (
            np.full(len(rows), -1, np.int32),
            np.full(len(rows), np.nan),
            ranges or [(0, len(rows))],
        )
        rows, mass = read_only(rows), read_only(mass)
        made = (self.features, self.thresholds, self.firsts, self.leaf_of, self.cell_of, self.means)
        sums = np.zeros((self.n_cells, 2))
        for start, stop in ranges:
            tree.place(rows, mass, n_space, *made, leaves, distances, sums, start, stop)
        return leaves, distances, *sums.T

    def leaves(self, rows):
        """Leaf of each row."""
        return self.placed(rows)[0]

    def cells(self, rows):
        """Cell of each row, from left to right."""
        first_leaves = [int(np.argmax(self.cell_of == c)) for c in range(self.n_cells)]
        return np.argsort(np.argsort(first_leaves))[self.cell_of[self.leaves(rows)]]


def grown(rows, used=None, mass=None, max_cells=4):
    """Grow a tree over some rows."""
    used = np.arange(len(rows)) if used is None else np.array(used)
    mass = np.ones(len(used)) if mass is None else np.array(mass, float)
    m, order = len(used), np.arange(len(used))
    features, thresholds, firsts = np.empty(2 * m, np.uint64), np.empty(2 * m, np.float64), np.empty(2 * m, np.uint64)
    leaf_of, cell_of = np.full(2 * m, -1, np.int32), np.empty(m, np.int32)
    means = np.empty((max_cells, rows.shape[1]))
    made = features, thresholds, firsts, leaf_of, cell_of
    n_leaves, n_cells = tree.grow_tree(rows[used], mass, order, max_cells, *made, means)
    return Tree(features, thresholds, firsts, leaf_of, cell_of[:n_leaves], means[:n_cells], used[order])


@st.composite
def rows_and_used(draw):
    """Rows, numbers of those to grow a tree over, and masses of these."""
    d = draw(st.integers(1, 3))
    rows = np.array(draw(st.lists(points(d), min_size=1, max_size=30)), float)
    used = draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, unique=True))
    mass = draw(st.lists(st.integers(1, 5), min_size=len(used), max_size=len(used)))
    return rows, used, mass


some_cells = st.integers(1, 8)


# -- growing ----------------------------------------------------------------------------------------------------------


@given(rows_and_used(), some_cells)
def test_the_order_is_a_permutation(data, max_cells):
    rows, used, mass = data
    assert sorted(grown(rows, used, mass, max_cells).order) == sorted(used)


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
    assert np.count_nonzero(np.diff(made.cell_of)) == made.n_cells - 1  # leaves of a cell are neighbors


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
    leaves, distances, masses, _ = made.placed(rows, ranges=[(13, 36)])
    assert_array_equal(leaves[13:36], made.leaves(rows)[13:36])
    assert not np.isnan(distances[13:36]).any()
    assert (np.r_[leaves[:13], leaves[36:]] == -1).all()
    assert np.isnan(np.r_[distances[:13], distances[36:]]).all()
    assert masses.sum() == 23


# -- measuring --------------------------------------------------------------------------------------------------------


@given(rows_and_used(), some_cells, st.booleans(), st.integers(1, 3))
def test_distances_and_costs_of_cells_match_the_definition(data, max_cells, has_spreads, n_pieces):
    rows, used, mass = data
    made = grown(rows, used[::2], mass[::2], max_cells)  # means of the tree are not those of all rows
    n_space = rows.shape[1] - has_spreads
    masses = np.zeros(len(rows))
    masses[used] = mass
    ranges = list(pairwise(np.linspace(0, len(rows), n_pieces + 1).astype(int)))
    leaves, distances, *sums = made.placed(rows, masses, n_space, ranges)
    cells = [[i for i in used if made.cell_of[leaves[i]] == c] for c in range(made.n_cells)]
    means = made.means.tolist()
    expected, by_cell = naive.cell_costs(rows.tolist(), masses.tolist(), cells, means, n_space)
    assert_allclose(distances[used], [expected[i] for i in used], rtol=1e-9, atol=1e-9)
    assert_allclose(np.stack(sums, axis=1), by_cell, rtol=1e-9, atol=1e-9)


@given(rows_and_used(), some_cells)
def test_means_are_those_of_the_rows_of_the_tree(data, max_cells):
    rows, used, mass = data
    made = grown(rows, used, mass, max_cells)
    cells = made.cell_of[made.leaves(rows)[used]]
    expected = [
        np.average(rows[used][cells == c], axis=0, weights=np.array(mass)[cells == c]) for c in range(made.n_cells)
    ]
    assert_allclose(made.means, expected, rtol=1e-6, atol=1e-6)


def test_far_from_the_origin_distances_are_the_same():
    rows = np.round(np.random.default_rng(4).normal(size=(40, 2)) * 16) / 16
    near, far = (grown(moved, max_cells=3).placed(moved)[1] for moved in (rows, rows + 2.0**19))
    assert_allclose(far, near, rtol=1e-9)
