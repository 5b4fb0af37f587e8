"""Completed copies of a table as nodes, and the draws of missing values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import probi
from probi import InputError, Nodes, impute

pd = pytest.importorskip("pandas")


def table(n=40, rate=0.3, seed=0):
    """Three features that depend on each other, some values missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    X = np.stack([x, 2 * x + 0.1 * rng.normal(size=n), rng.normal(size=n)], axis=1)
    X[rng.random(X.shape) < rate] = np.nan
    X[0] = [0.0, 0.0, 0.0]
    return X


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
def test_nodes_are_those_of_the_definition(m, n, seed):
    rng = np.random.default_rng(seed)
    copies = rng.integers(3, size=(m, n, 2)).astype(float)
    copies[:, rng.random(n) < 0.5] = 7.0
    nodes = Nodes.from_imputations(copies)
    for i in range(n):
        rows = [tuple(copy[i]) for copy in copies]
        wanted = rows[:1] if len(set(rows)) == 1 else rows
        assert_array_equal(nodes[i].points, wanted)
        assert_allclose(nodes[i].probabilities, 1 / len(wanted))


def test_frames_arrays_and_the_long_format_of_mice_are_the_same():
    copies = np.array(impute.draws(table(), m=3, random_state=0))
    wanted = Nodes.from_imputations(copies)
    assert np.diff(wanted.offsets).min() == 1
    assert np.diff(wanted.offsets).max() == 3
    frames = [pd.DataFrame(copy, columns=["a", "b", "c"]) for copy in copies]
    assert Nodes.from_imputations(list(copies)) == wanted
    assert Nodes.from_imputations(frames) == wanted
    # complete(imp, "long", include = TRUE): the original table is there too, with its missing values.
    original = pd.DataFrame(table(), columns=["a", "b", "c"])
    parts = [frame.assign(**{".imp": i, ".id": range(1, 41)}) for i, frame in enumerate([original, *frames])]
    nodes = Nodes.from_imputations(pd.concat(parts, ignore_index=True))
    assert_array_equal(nodes.ids, range(1, 41))
    assert_array_equal(nodes.points, wanted.points)


def test_the_index_becomes_ids():
    frames = [pd.DataFrame({"a": [1.0, i]}, index=["x", "y"]) for i in range(3)]
    assert_array_equal(Nodes.from_imputations(frames).ids, ["x", "y"])
    assert_array_equal(Nodes.from_imputations(frames, ids=[5, 6], weights=[2.0, 1.0]).ids, [5, 6])


@pytest.mark.slow
def test_draws_keep_what_is_there_and_are_reproducible():
    X = table()
    copies = impute.draws(X, m=5, random_state=3)
    assert len(copies) == 5
    there = ~np.isnan(X)
    for copy in copies:
        assert_array_equal(copy[there], X[there])
        assert not np.isnan(copy).any()
        assert (copy <= np.nanmax(X, axis=0)).all()
    assert_array_equal(copies, impute.draws(X, m=5, random_state=3))
    assert not np.array_equal(copies[0], copies[1])
    # The second feature is told by the first, the third by nothing.
    told = np.isnan(X[:, 1]) & there[:, 0]
    untold = np.isnan(X[:, 2])
    deviations = np.std(copies, axis=0)
    assert deviations[told, 1].mean() < 0.5 * deviations[untold, 2].mean()


def test_a_column_with_one_known_value_has_that_value():
    X = np.column_stack([table(), np.full(40, 7.0), np.full(40, -9.0)])
    X[3:9, 3] = np.nan
    for copy in impute.draws(X, m=2, random_state=0):
        assert_array_equal(copy[:, 3:], np.column_stack([np.full(40, 7.0), np.full(40, -9.0)]))
        assert_array_equal(copy[:, :3][~np.isnan(X[:, :3])], X[:, :3][~np.isnan(X[:, :3])])


def test_draws_of_a_frame_are_frames():
    frame = pd.DataFrame(table(), columns=["a", "b", "c"], index=np.arange(40) * 10)
    copies = impute.draws(frame, m=2, random_state=0)
    assert list(copies[0].columns) == ["a", "b", "c"]
    assert_array_equal(Nodes.from_imputations(copies).ids, frame.index)
    polars = pytest.importorskip("polars")
    copies = impute.draws(polars.DataFrame(table(), schema=["a", "b", "c"]), m=2, random_state=0)
    assert copies[0].columns == ["a", "b", "c"]
    assert len(Nodes.from_imputations(copies)) == 40


def test_a_complete_table_is_certain():
    X = np.nan_to_num(table())
    nodes = Nodes.from_imputations(impute.draws(X, m=3, random_state=0))
    assert nodes.is_certain
    assert_array_equal(nodes.points, X)


FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
LONG = FRAME.assign(**{".imp": 1, ".id": [1, 2]})


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        ([], "frames is empty"),
        (FRAME, "frames is one table: give a list of completed copies"),
        (np.zeros((2, 3)), "frames must have 3 dimensions"),
        ([FRAME, FRAME[["b", "a"]]], r"Copy 1 has other columns than copy 0: \['b', 'a'\] and \['a', 'b'\]"),
        ([FRAME, FRAME[:1]], r"Copy 1 has shape \(1, 2\), but copy 0 has \(2, 2\)"),
        ([FRAME.set_index([[1, 2]]), FRAME.set_index([[2, 1]])], "The copies have different rows"),
        ([FRAME, FRAME.assign(a=["x", "y"])], "Column 'a' has dtype .*, not numbers: encode it as numbers"),
        ([FRAME.where(FRAME < 4)], r"Copy 0 has NaN in row 1, column 1: .*probi.impute.draws\(frame\)"),
        (LONG.drop(columns=".id"), r"There is a column .imp but no .id: .* complete\(imp, 'long'\)"),
        (LONG.assign(**{".imp": 0}), "There are no imputations: all rows have .imp = 0"),
        (pd.concat([LONG, LONG[::-1].assign(**{".imp": 2})]), "The imputations have different rows: .id must be"),
    ],
)
def test_messages(frames, message):
    with pytest.raises(InputError, match=message):
        Nodes.from_imputations(frames)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.assign(c=np.nan), "Column 'c' has no value at all"),
        (np.full((3, 1), np.nan), "Column 0 has no value at all"),
        (FRAME.assign(c=np.inf), "infinite values"),
        (FRAME.assign(c="x"), "Column 'c' has dtype"),
    ],
)
def test_messages_of_draws(frame, message):
    with pytest.raises(InputError, match=message):
        impute.draws(frame)


@pytest.mark.slow
def test_clusters_survive_missing_values():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 30)
    X = truth[:, None] * np.array([4.0, 4.0, 0.0]) + rng.normal(size=(60, 3))
    X[rng.random(X.shape) < 0.3] = np.nan
    labels = probi.solve(Nodes.from_imputations(impute.draws(X, m=4, random_state=0)), 2, random_state=0).labels
    assert max(np.mean(labels == truth), np.mean(labels != truth)) > 0.9
