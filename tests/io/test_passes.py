"""The second pass: exact sums, and the nodes that could as well belong elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from table_files import as_nodes, columns_of, some_nodes, tiny, write

import probi.io
from probi import assign, expected_cost, expected_distances
from probi.io import passes as second_pass
from probi.io.passes import N_SHOWN, NEARLY, assign_all

PLAIN = some_nodes("long", n=300)
NODES = as_nodes(PLAIN)
CENTERS = np.array([[-4.0, -4.0], [5.0, 0.0], [0.0, 6.0]])


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "x.parquet", columns_of(PLAIN, "long"))


def ratios():
    """Distance to the next center over that to the own one, of each node."""
    ordered = np.sort(expected_distances(NODES, CENTERS), axis=1)
    return ordered[:, 1] / ordered[:, 0]


@pytest.mark.slow
@pytest.mark.parametrize("rows", [7, 64, 100_000])
def test_sums_for_batches_of_any_size(path, monkeypatch, rows):
    tiny(monkeypatch, rows)
    (tally,) = assign_all(probi.io.read(path, layout="long"), [CENTERS])
    assert tally.n_nodes == 300
    assert_allclose(tally.cost, expected_cost(NODES, CENTERS), rtol=1e-12)
    assert_array_equal(tally.counts, np.bincount(assign(NODES, CENTERS), minlength=3))
    assert tally.n_borderline == (ratios() <= 1 + NEARLY).sum() > 0


def test_nodes_between_two_centers_the_closest_calls_first(path, monkeypatch):
    tiny(monkeypatch, 64)
    monkeypatch.setattr(second_pass, "N_SHOWN", 4)
    monkeypatch.setattr(second_pass, "NEARLY", 0.2)
    (tally,) = assign_all(probi.io.read(path, layout="long"), [CENTERS])
    order = np.argsort(ratios(), kind="stable")[:4]
    found = tally.borderline
    assert [entry.node for entry in found] == [str(NODES.ids[i]) for i in order]
    distances = expected_distances(NODES, CENTERS) / NODES.total_probabilities[:, None]
    for entry, i in zip(found, order, strict=True):
        assert_allclose(entry.distance, distances[i, entry.cluster], rtol=1e-12)
        assert_allclose(entry.other_distance, distances[i, entry.other], rtol=1e-12)
        assert entry.cluster == distances[i].argmin()
        assert_allclose(entry.ratio, ratios()[i], rtol=1e-9)


def test_as_many_as_can_be_shown_and_no_more(tmp_path):
    path = write(tmp_path / "x.parquet", {"x": np.zeros(100)})
    (tally,) = assign_all(probi.io.read(path), [np.array([[-1.0], [1.0]])])
    assert tally.n_borderline == 100
    assert [entry.node for entry in tally.borderline] == [f"row {i + 1}" for i in range(N_SHOWN)]


def test_a_node_at_two_centers_at_once(tmp_path):
    path = write(tmp_path / "x.parquet", {"x": [0.0, 5.0]})
    (tally,) = assign_all(probi.io.read(path), [np.array([[0.0], [0.0]])])
    assert [(entry.node, entry.ratio) for entry in tally.borderline] == [("row 1", 1.0), ("row 2", 1.0)]


def test_one_center_has_no_next_one(path):
    (tally,) = assign_all(probi.io.read(path, layout="long"), [CENTERS[:1]])
    assert tally.counts.tolist() == [300]
    assert tally.n_borderline == 0
    assert tally.borderline == []


@pytest.mark.parametrize(("n_files", "ids", "names"), [
    (1, None, ["row 1", "row 3"]),
    (2, None, ["row 1 of a.parquet", "row 3 of a.parquet", "row 1 of b.parquet", "row 3 of b.parquet"]),
    (1, ["who"], ["p", "q"]),
    (1, ["who", "day"], ["p, 1", "q, 2"]),
])  # fmt: skip
def test_what_nodes_are_called(tmp_path, monkeypatch, n_files, ids, names):
    monkeypatch.chdir(tmp_path)
    columns = {"x": [0.0, 0.0, 0.0, 0.0], "who": ["p", "p", "q", "q"], "day": [1, 1, 2, 2]}
    for name in "ab"[:n_files]:
        write(tmp_path / f"{name}.parquet", columns)
    options = {"group_size": 2, "features": ["x"]} if ids is None else {"layout": "long", "id": ids, "features": ["x"]}
    files = [f"{name}.parquet" for name in "ab"[:n_files]]
    (tally,) = assign_all(probi.io.read(files, **options), [np.array([[-1.0], [1.0]])])
    assert [entry.node for entry in tally.borderline] == names
