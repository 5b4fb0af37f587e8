"""Nodes: how they are made, cut and carried, and the statistics that are computed once for each of them."""

import copy
import pickle
from datetime import datetime

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import ARRAYS, STATISTICS, as_lists, assert_same_statistics, three
from strategies import build, nodes

import probi
from probi import Nodes, _node_layout

# -- how they are made --------------------------------------------------------------------------------------------


def test_constructor_keeps_what_it_was_given():
    some = three()
    assert_array_equal(some.points, [[0, 0], [4, 0], [7, 7], [1, 0], [2, 0], [3, 9]])
    assert_array_equal(some.probabilities, [0.25, 0.75, 0.5, 0.25, 0.25, 0.5])
    assert_array_equal(some.offsets, [0, 2, 3, 6])
    assert_array_equal(some.weights, [1, 2, 3])
    assert_array_equal(some.ids, ["a", "b", "c"])
    assert_array_equal(some.total_probabilities, [1, 0.5, 1])
    assert (len(some), some.n_realizations, some.n_features, some.shape) == (3, 6, 2, (3, 2))
    assert not some.is_certain
    assert some.magnitude == 9


def test_constructor_without_probabilities_makes_them_equal():
    some = Nodes([[0], [1], [2], [3], [4]], None, [0, 1, 5])
    assert_array_equal(some.probabilities, [1, 0.25, 0.25, 0.25, 0.25])
    assert_array_equal(some.weights, [1, 1])
    assert some.ids is None


def test_from_points_makes_certain_nodes():
    X = [[1.0, 2.0], [3.0, 4.0]]
    some = Nodes.from_points(X, weights=[2, 3], ids=[7, 8])
    assert some == Nodes(X, [1, 1], [0, 1, 2], weights=[2, 3], ids=[7, 8])
    assert some.is_certain


@pytest.mark.parametrize(("n_rows", "n_nodes"), [(12, 3), (11, 2), (8, 2), (3, 0)])
def test_from_groups_leaves_out_an_incomplete_last_group(n_rows, n_nodes):
    X = np.arange(2.0 * n_rows).reshape(n_rows, 2)
    some = Nodes.from_groups(X, size=4)
    assert some == Nodes(X[: 4 * n_nodes], None, np.arange(n_nodes + 1) * 4)
    assert len(some) == n_nodes


def test_from_dense_is_one_node_a_row():
    X, P = np.arange(12.0).reshape(2, 3, 2), np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.3]])
    expected = Nodes(X.reshape(6, 2), P.reshape(6), [0, 3, 6], weights=[4, 5], ids=["x", "y"])
    assert Nodes.from_dense(X, P, weights=[4, 5], ids=["x", "y"]) == expected
    assert_array_equal(Nodes.from_dense(X).probabilities, np.full(6, 1 / 3))


POINTS = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
CHANCES = np.array([[0.5, 0.0, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.125]])


def test_from_matrix_of_a_dense_matrix():
    some = Nodes.from_matrix(POINTS, CHANCES, weights=[1, 2, 3], ids=[4, 5, 6])
    expected = Nodes(POINTS[[0, 2, 3, 1, 3]], [0.5, 0.25, 0.25, 1, 0.125], [0, 3, 4, 5], [1, 2, 3], [4, 5, 6])
    assert some == expected


@pytest.mark.parametrize("layout", ["csr_array", "csr_matrix", "csc_array", "coo_array", "coo_matrix", "lil_array"])
def test_from_matrix_of_a_sparse_matrix_is_the_same(layout):
    sparse = getattr(scipy.sparse, layout)(CHANCES)
    assert Nodes.from_matrix(POINTS, sparse) == Nodes.from_matrix(POINTS, CHANCES)


def test_from_matrix_of_unsorted_entries_is_the_same():
    rows, columns = np.nonzero(CHANCES)
    order = [3, 1, 4, 0, 2]
    sparse = scipy.sparse.coo_array((CHANCES[rows, columns][order], (rows[order], columns[order])), CHANCES.shape)
    assert Nodes.from_matrix(POINTS, sparse) == Nodes.from_matrix(POINTS, CHANCES)


def test_from_matrix_drops_explicit_zeros():
    rows, columns = np.indices(CHANCES.shape).reshape(2, -1)
    sparse = scipy.sparse.coo_array((CHANCES.reshape(-1), (rows, columns)), CHANCES.shape)
    assert sparse.nnz == CHANCES.size
    assert Nodes.from_matrix(POINTS, sparse) == Nodes.from_matrix(POINTS, CHANCES)


@pytest.mark.parametrize(
    "sparse",
    [
        scipy.sparse.coo_array(([0.25, 0.5, 0.25, 1.0], ([0, 0, 0, 1], [1, 0, 1, 2])), (2, 4)),
        scipy.sparse.csr_array(([0.25, 0.5, 0.25, 1.0], [1, 0, 1, 2], [0, 3, 4]), (2, 4)),
    ],
    ids=["coo", "csr"],
)
def test_from_matrix_adds_up_entries_that_stand_twice(sparse):
    # That is what scipy.sparse means by them: toarray() adds them up.
    assert Nodes.from_matrix(POINTS, sparse) == Nodes.from_matrix(POINTS, [[0.5, 0.5, 0, 0], [0, 0, 1, 0]])
    assert sparse.nnz == 4  # the caller's matrix is as it was


# -- dtypes and memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_as", "stored_as"),
    [
        ("float32", "float32"),
        ("float64", "float64"),
        ("float16", "float32"),
        (">f4", "float32"),
        (">f8", "float64"),
        ("int8", "float64"),
        ("uint64", "float64"),
        (">i4", "float64"),
        ("bool", "float64"),
        ("longdouble", "float64"),
    ],
)
def test_dtypes(given_as, stored_as):
    X = np.array([[1, 0], [0, 1], [1, 1], [0, 0]], given_as)
    probabilities = np.array([1, 0, 0, 1], given_as)
    expected = np.array(X, stored_as)
    makers = [Nodes.from_points, lambda X: Nodes.from_groups(X, 2), lambda X: Nodes(X, probabilities, [0, 2, 4])]
    for some in [make(X) for make in makers] + [Nodes.from_dense(X.reshape(2, 2, 2))]:
        assert some.dtype == stored_as
        assert some.dtype.isnative
        assert some.points.dtype == some.probabilities.dtype == some.dtype
        assert some.weights.dtype == some.total_probabilities.dtype == np.float64
        assert_array_equal(some.points, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_and_their_dtype_decide(dtype):
    some = Nodes(np.zeros((2, 1), dtype), np.array([0.1, 0.2], np.float64), np.array([0, 2], ">i2"))
    assert some.probabilities.dtype == dtype
    assert some.offsets.dtype == np.int64
    assert Nodes.from_gaussian(np.zeros((1, 2), dtype), 1.0).dtype == dtype
    assert Nodes.from_matrix(POINTS.astype(dtype), CHANCES).dtype == dtype
    assert three(dtype).scaled([2.0, 3.0]).dtype == dtype
    assert three(dtype).with_weights([1, 1, 1]).dtype == dtype


def test_arrays_in_another_order_are_the_same_nodes():
    X = np.arange(12.0).reshape(4, 3)
    assert Nodes.from_groups(np.asfortranarray(X), 2) == Nodes.from_groups(X, 2)
    assert Nodes.from_points(np.repeat(X, 2, axis=0)[::2]) == Nodes.from_points(X)
    assert Nodes.from_points(X[::-1]).points.flags.c_contiguous


def test_arrays_are_not_copied_where_the_dtype_allows():
    X, P, weights, ids = np.zeros((4, 2), np.float32), np.full(4, 0.5, np.float32), np.ones(2), np.arange(2)
    some = Nodes(X, P, [0, 2, 4], weights, ids)
    for name, given_array in {"points": X, "probabilities": P, "weights": weights, "ids": ids}.items():
        assert np.shares_memory(getattr(some, name), given_array)


MADE_IN_MANY_WAYS = {
    "constructor": three,
    "from_points": lambda: Nodes.from_points(np.zeros((3, 2)), weights=np.ones(3), ids=np.arange(3)),
    "slice": lambda: three()[0:2],
    "take": lambda: three().take([2, 0]),
    "concat": lambda: Nodes.concat([three(), three()]),
    "scaled": lambda: three().scaled(2.0),
    "with_weights": lambda: three().with_weights([1.0, 1.0, 1.0]),
    "pickle": lambda: pickle.loads(pickle.dumps(three())),
}


@pytest.mark.parametrize("way", MADE_IN_MANY_WAYS)
def test_arrays_are_read_only(way):
    some = MADE_IN_MANY_WAYS[way]()
    for name in ARRAYS + STATISTICS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(some, name)[0] = 0


@pytest.mark.parametrize("way", MADE_IN_MANY_WAYS)
def test_statistics_of_parts_are_read_only_too(way):
    whole = MADE_IN_MANY_WAYS[way]()
    assert_same_statistics(whole, whole)
    for some in (whole[0:2], whole.take([0, 1]), whole.with_weights(whole.weights), Nodes.concat([whole, whole])):
        for name in STATISTICS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(some, name)[0] = 0


def test_the_callers_arrays_stay_writable_and_as_they_were():
    given_arrays = {
        "points": np.arange(8.0).reshape(4, 2),
        "probabilities": np.array([0.5, 0.5, 0.25, 0.25]),
        "offsets": np.array([0, 2, 4]),
        "weights": np.array([1.0, 2.0]),
        "ids": np.array([5, 6]),
    }
    before = copy.deepcopy(given_arrays)
    some = Nodes(**given_arrays)
    assert_same_statistics(some, some)
    for name, array in given_arrays.items():
        assert_array_equal(array, before[name])
        assert array.flags.writeable


# -- parts and copies ---------------------------------------------------------------------------------------------


def test_concat_puts_parts_one_after_the_other():
    whole = three()
    assert Nodes.concat([whole[:1], whole[1:1], whole[1:]]) == whole
    assert Nodes.concat([whole]) == whole
    joined = Nodes.concat([whole, whole[1:2]])
    assert as_lists(joined) == as_lists(whole) + as_lists(whole)[1:2]
    assert_array_equal(joined.weights, [1, 2, 3, 2])
    assert_array_equal(joined.ids, ["a", "b", "c", "b"])
    assert_array_equal(joined.total_probabilities, [1, 0.5, 1, 0.5])


def test_concat_knows_the_largest_magnitude():
    parts = [Nodes.from_points([[1.0]]), Nodes.from_points([[-8.0]]), Nodes.from_points([[2.0]])]
    assert Nodes.concat(parts).magnitude == 8


def test_concat_of_two_dtypes_is_float64():
    joined = Nodes.concat([three(np.float32), three(np.float64)])
    assert joined == Nodes.concat([three(np.float64), three(np.float64)])


EPOCH = datetime(1970, 1, 1)
PAIR = np.array([(1, 2)], [("u", "i8"), ("v", "i8")])


def labelled(ids):
    return Nodes.from_points(np.zeros((len(ids), 1)), ids=ids)


@pytest.mark.parametrize(
    ("ids", "joined"),
    [
        (([1, 2], [3]), [1, 2, 3]),
        (([], [3], [], [4]), [3, 4]),  # nothing is no number
        ((np.array([1], np.int32), np.array([2], np.int64)), [1, 2]),
        ((["a"], np.array(["bc"], object)), ["a", "bc"]),
        ((PAIR, PAIR), [(1, 2), (1, 2)]),
        ((np.array([0], "M8[D]"), np.array([0], "M8[s]")), [EPOCH, EPOCH]),
    ],
)
def test_concat_keeps_ids_as_they_are(ids, joined):
    found = Nodes.concat([labelled(part) for part in ids]).ids.tolist()
    assert found == joined
    assert list(map(type, found)) == list(map(type, joined))


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "Nothing"),
        ([Nodes.from_points([[1.0]]), Nodes.from_points([[1.0, 2.0]])], "features"),
        ([Nodes.from_points([[1.0]], ids=[1]), Nodes.from_points([[1.0]])], "ids"),
        ([labelled([1]), labelled(["a"])], "Some ids are whole numbers, others are text"),
        ([labelled([1]), labelled(np.array(["a"], object))], "whole numbers, others are text"),
        ([labelled([1]), labelled([1.5])], "whole numbers, others are numbers"),
        ([labelled(np.array([1])), labelled(np.array([1], np.uint64))], "int64, others are uint64"),
        ([labelled(["a"]), labelled(np.array(["2026-03-01"], "M8[D]"))], "text, others are dates"),
        ([labelled(PAIR), labelled(PAIR.astype([("u", "U1"), ("v", "i8")]))], "whole numbers, others are text"),
        ([labelled(PAIR), labelled(PAIR.astype([("u", "i8"), ("w", "i8")]))], "different fields"),
        ([labelled(PAIR), labelled([1])], "different fields"),
    ],
)
def test_concat_of_what_does_not_fit_is_refused(parts, problem):
    with pytest.raises(probi.InputError, match=problem):
        Nodes.concat(parts)


@pytest.mark.parametrize(
    "cut",
    [slice(None), slice(1, 3), slice(2), slice(-1, None), slice(1, 1), slice(2, 1), slice(9, 12), slice(None, None, 2),
     slice(None, None, -1)],
    ids=str,
)  # fmt: skip
def test_slices_are_slices_of_lists(cut):
    whole = three()
    part = whole[cut]
    assert as_lists(part) == as_lists(whole)[cut]
    assert part.weights.tolist() == whole.weights.tolist()[cut]
    assert part.ids.tolist() == whole.ids.tolist()[cut]
    assert part.offsets[0] == 0
    assert part.offsets[-1] == part.n_realizations


def test_a_slice_is_a_view():
    whole = three()
    assert_same_statistics(whole, whole)
    part = whole[1:3]
    for name in (*ARRAYS, *STATISTICS):
        if name != "offsets":  # they start at 0 again
            assert np.shares_memory(getattr(part, name), getattr(whole, name))


WAYS = {
    "as made": lambda some: some,
    "constructor": lambda some: Nodes(some.points, None, np.arange(len(some) + 1)),
    "slice": lambda some: some[2:9],
    "every second": lambda some: some[::2],
    "take": lambda some: some.take([7, 0, 7]),
    "concat": lambda some: Nodes.concat([some, some[:3]]),
    "scaled": lambda some: some.scaled(2.0),
    "pickle": lambda some: pickle.loads(pickle.dumps(some)),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_trivial_for_points_is_made_only_when_asked_for(way):
    some = WAYS[way](Nodes.from_points(np.arange(20.0).reshape(10, 2)))
    assert some.is_certain
    assert some.mass is some.weights  # and neither offsets nor probabilities
    assert not {"probabilities", "offsets", "total_probabilities"} & set(vars(some))
    explicit = Nodes(some.points, np.ones(len(some)), np.arange(len(some) + 1), np.ones(len(some)))
    for name in (*ARRAYS, "mass", "variances"):
        assert_array_equal(getattr(some, name), getattr(explicit, name))
    for index in (slice(1, 3), [1, 0]):  # and after they were made
        assert some[index] == explicit[index]
    assert Nodes.concat([some, explicit, some]) == Nodes.concat([explicit] * 3)


def test_take_in_any_order_and_more_than_once():
    whole = three()
    part = whole.take([2, -2, 2, 0, -3])
    expected = [2, 1, 2, 0, 0]
    assert as_lists(part) == [as_lists(whole)[i] for i in expected]
    assert part.weights.tolist() == [3, 2, 3, 1, 1]
    assert part.ids.tolist() == ["c", "b", "c", "a", "a"]
    assert part.total_probabilities.tolist() == [1, 0.5, 1, 1, 1]
    assert whole[[2, -2, 2, 0, -3]] == part
    assert whole[np.array([2, 1, 2, 0, 0], np.uint8)] == part
    assert whole[[2, -2, 2, 0, -3], ...] == part  # as scikit-learn splits what has a shape


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int64, np.uint64])
def test_take_of_more_nodes_than_the_dtype_counts(dtype):
    whole = Nodes.from_points(np.arange(70_000.0)[:, None])
    assert_array_equal(whole.take(np.array([5, 100], dtype)).points, [[5], [100]])


@pytest.mark.parametrize("rows_at_once", [1, 4, 1 << 16])
def test_nodes_of_parts_are_gathered_in_any_order(monkeypatch, rows_at_once):
    monkeypatch.setattr(_node_layout, "ROWS_AT_ONCE", rows_at_once)
    parts, order = [three(), three(), three()[:2]], np.array([7, 0, 5, 2, 3, 6])
    places = [np.flatnonzero((order >= start) & (order < stop)) for start, stop in [(0, 3), (3, 6), (6, 8)]]
    indices = [order[place] - start for place, start in zip(places, (0, 3, 6), strict=True)]
    gathered, expected = Nodes._gathered(parts, indices, places), Nodes.concat(parts).take(order)
    assert gathered == expected
    assert_same_statistics(gathered, expected)
    assert Nodes._gathered(parts, indices) == Nodes.concat(parts).take(
        np.concatenate([order[place] for place in places])
    )


def test_take_of_nothing():
    whole = three()
    for part in (whole.take([]), whole[[]], whole[np.zeros(3, bool)], whole[3:]):
        assert part == whole[0:0]
        assert len(part) == part.n_realizations == 0
        assert part.shape == (0, 2)


@pytest.mark.parametrize("index", [3, -4, [0, 3], [-4], np.array([2**40])])
def test_a_node_that_is_not_there_is_an_index_error(index):
    with pytest.raises(IndexError, match="no node"):
        three()[index]
    with pytest.raises(IndexError, match="no node"):
        three().take(np.atleast_1d(index))


@pytest.mark.parametrize("index", [0.5, "a", [[0, 1]], None, [0.0, 1.0]])
def test_what_is_no_index_is_refused(index):
    with pytest.raises(probi.InputError, match="integers"):
        three()[index]


def test_a_number_gives_one_node_and_a_loop_gives_all():
    whole = three()
    assert whole[1] == whole[-2] == whole[1:2]
    assert Nodes.concat(list(whole)) == whole


def test_masks():
    whole = three()
    assert whole[np.array([True, False, True])] == whole[[True, False, True]] == whole.take([0, 2])
    for mask in ([True, False], [True] * 4, True):
        with pytest.raises(probi.InputError, match="mask"):
            whole[mask]


@given(nodes(), st.data())
def test_take_matches_lists(some, data):
    index = data.draw(st.lists(st.integers(-len(some), len(some) - 1), max_size=8))
    assert as_lists(build(some).take(index)) == [some[i] for i in index]


def test_scaled_multiplies_each_feature():
    whole = three()
    part = whole.scaled([2.0, -0.5])
    assert_array_equal(part.points, whole.points * [2.0, -0.5])
    assert (part.magnitude, whole.scaled(3).magnitude) == (14, 27)
    for name in ("probabilities", "offsets", "weights", "ids", "total_probabilities"):
        assert_array_equal(getattr(part, name), getattr(whole, name))
    assert_array_equal(whole.scaled(2).points, 2 * whole.points)


def test_scaled_forgets_the_statistics():
    whole = three()
    assert_same_statistics(whole, whole)
    assert_allclose(whole.scaled(2).variances, 4 * whole.variances, rtol=1e-15)
    assert_allclose(whole.scaled(2).gravity_centers, 2 * whole.gravity_centers, rtol=1e-15)


def test_scaled_by_a_factor_beyond_float32():
    some = Nodes.from_points(np.full((2, 1), 1e30, np.float32))
    assert_allclose(some.scaled(1e-46).points, 1e-16, rtol=1e-6)


@pytest.mark.parametrize("factors", [[1.0, 2.0, 3.0], [[1.0, 2.0]], [np.nan, 1.0], np.inf, "a", 1j])
def test_bad_factors_are_refused(factors):
    with pytest.raises(probi.InputError, match="Factors"):
        three().scaled(factors)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_beyond_the_largest_number_is_refused(dtype):
    with pytest.raises(probi.InputError):
        three(dtype).scaled(1e308)


def test_reweighted_changes_weights_and_mass_only():
    whole = three()
    before = whole.mass, whole.gravity_centers
    part = whole.with_weights([5, 0, 7])
    assert_array_equal(part.weights, [5, 0, 7])
    assert_array_equal(part.mass, [5, 0, 7])
    assert_array_equal(part.with_weights([1, 1, 1]).mass, [1, 0.5, 1])
    assert part.gravity_centers is before[1]
    assert whole.mass is before[0]
    assert_array_equal(part.ids, whole.ids)
    assert part.points is whole.points


# -- equality, repr, pickle ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("points", [[0.0], [1.0], [9.0]]),
        ("points", np.array([[0], [1], [2]], np.float32)),
        ("points", [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]),
        ("probabilities", [0.5, 0.5, 0.5]),
        ("offsets", [0, 1, 3]),
        ("weights", [1.0, 3.0]),
        ("ids", ["x", "z"]),
        ("ids", [1, 2]),
        ("ids", None),
    ],
)
def test_nodes_that_differ_in_one_thing_are_not_equal(name, value):
    same = {
        "points": [[0.0], [1.0], [2.0]],
        "probabilities": [0.25, 0.5, 0.5],
        "offsets": [0, 2, 3],
        "weights": [1.0, 2.0],
        "ids": ["x", "y"],
    }
    assert Nodes(**same) == Nodes(**same)
    assert Nodes(**same) != Nodes(**(same | {name: value}))


def test_nodes_are_equal_to_nothing_else_and_have_no_hash():
    assert three() != 3
    assert three() != three().points.tolist()
    with pytest.raises(TypeError, match="unhashable"):
        hash(three())


def test_what_was_computed_does_not_matter_for_equality():
    some = three()
    assert_same_statistics(some, some)
    assert some == three()


@pytest.mark.parametrize(
    ("some", "text"),
    [
        (Nodes.from_points(np.zeros((1, 1), np.float32)),
         "Nodes(1 node, 1 realization (1 per node), 1 feature, float32, mass 1)"),
        (Nodes.from_dense(np.zeros((1000, 2, 3))),
         "Nodes(1,000 nodes, 2,000 realizations (2 per node), 3 features, float64, mass 1,000)"),
        (three(), "Nodes(3 nodes, 6 realizations (1 to 3 per node), 2 features, float64, mass 5)"),
        (three()[:0], "Nodes(0 nodes, 0 realizations, 2 features, float64, mass 0)"),
    ],
)  # fmt: skip
def test_repr(some, text):
    assert repr(some) == text


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pickle_round_trip(protocol, dtype):
    some = three(dtype)
    assert_same_statistics(some, some)
    back = pickle.loads(pickle.dumps(some, protocol))
    assert back == some
    assert back.magnitude == some.magnitude
    assert_array_equal(back.total_probabilities, some.total_probabilities)
    assert_same_statistics(back, some)
    assert copy.deepcopy(some) == some


def test_pickle_with_buffers_out_of_band():
    buffers = []
    some = three()
    data = pickle.dumps(some, protocol=5, buffer_callback=buffers.append)
    assert buffers
    back = pickle.loads(data, buffers=buffers)
    assert back == some
    assert_same_statistics(back, some)


def test_pickle_of_a_slice_holds_nothing_else():
    whole = Nodes.from_points(np.zeros((10_000, 10)))
    assert len(pickle.dumps(whole[:10])) < len(pickle.dumps(whole)) / 100


# -- no nodes at all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "some",
    [
        Nodes(np.zeros((0, 2)), None, [0]),
        Nodes(np.zeros((0, 2)), [], [0], weights=[], ids=[]),
        Nodes.from_points(np.zeros((0, 2))),
        Nodes.from_dense(np.zeros((0, 3, 2))),
        Nodes.from_matrix(POINTS, np.zeros((0, 4))),
        Nodes.from_matrix(POINTS, scipy.sparse.csr_array((0, 4))),
        Nodes.from_gaussian(np.zeros((0, 2)), 1.0),
    ],
)
def test_no_nodes(some):
    assert len(some) == 0
    assert some.shape == (0, 2)
    assert some.gravity_centers.shape == (0, 2)
    assert some.variances.shape == some.mass.shape == (0,)
    assert some[:] == pickle.loads(pickle.dumps(some)) == Nodes.concat([some, some]) == some


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gathered_nodes_are_takes_one_after_the_other(dtype):
    plain = Nodes.from_points(np.arange(10.0).reshape(5, 2).astype(dtype), ids=list("vwxyz"))
    parts, indices = [three(dtype), plain, three(dtype)], [np.array([2, 0]), np.array([4, 1, 1]), np.array([], int)]
    for part in parts:
        part.mass  # noqa: B018, a statistic that travels along
    found = Nodes._gathered(parts, indices)
    expected = Nodes.concat([part.take(index) for part, index in zip(parts, indices, strict=True)])
    assert found == expected
    assert found.magnitude == expected.magnitude
    assert_array_equal(found.mass, expected.mass)
    assert_array_equal(found.total_probabilities, expected.total_probabilities)
    assert Nodes._gathered([plain, plain], [np.array([1]), np.array([0])]) == plain.take([1, 0])
