"""Bad data is refused once, at the border, by an error that names the node; the caller's arrays stay as they are."""

import copy
import re
import sys
import types
import warnings

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal

import probi
from probi import Nodes, validation

POINTS = np.arange(12.0).reshape(6, 2)
DENSE = np.arange(12.0).reshape(3, 2, 2)
MATRIX = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5]])
MASK = [False, False, True]


def changed(array, place, value, dtype=np.float64):
    array = np.array(array, dtype)
    array[place] = value
    return array


def nodes(**arguments):
    """Arguments of three nodes with 2, 1 and 3 realizations, some of them replaced."""
    good = {
        "points": POINTS.copy(),
        "probabilities": np.array([0.25, 0.75, 0.5, 0.25, 0.25, 0.5]),
        "offsets": np.array([0, 2, 3, 6]),
        "weights": np.array([1.0, 2.0, 3.0]),
        "ids": np.array(["a", "b", "c"]),
    }
    return Nodes, good | arguments


def points(**arguments):
    return Nodes.from_points, {"X": POINTS.copy(), "weights": np.ones(6)} | arguments


def dense(**arguments):
    return Nodes.from_dense, {"X": DENSE.copy(), "probabilities": np.full((3, 2), 0.5)} | arguments


def matrix(**arguments):
    return Nodes.from_matrix, {"X": POINTS[:3].copy(), "P": MATRIX.copy()} | arguments


# What is wrong: (constructor, its arguments), and the node's number or, where there is none, a word of the message.
CASES = {
    # coordinates
    "NaN coordinate": (nodes(points=changed(POINTS, (4, 1), np.nan)), 2),
    "infinite coordinate": (nodes(points=changed(POINTS, (2, 0), np.inf)), 1),
    "minus infinity": (nodes(points=changed(POINTS, (0, 0), -np.inf)), 0),
    "NaN in float32": (nodes(points=changed(POINTS, (4, 1), np.nan, np.float32)), 2),
    "infinity in float32": (nodes(points=changed(POINTS, (4, 1), np.inf, np.float32)), 2),
    "infinity in float16": (nodes(points=changed(POINTS, (4, 1), np.inf, np.float16)), 2),
    "NaN in a row": (points(X=changed(POINTS, (5, 0), np.nan)), 5),
    "infinity in a float32 row": (points(X=changed(POINTS, (5, 0), np.inf, np.float32)), 5),
    "NaN in a group": ((Nodes.from_groups, {"X": changed(POINTS, (3, 0), np.nan), "size": 2}), 1),
    "NaN in a dense node": (dense(X=changed(DENSE, (2, 0, 1), np.nan)), 2),
    "NaN in a shared point": (matrix(X=changed(POINTS[:3], (2, 0), np.nan)), 2),
    "NaN in a mean": ((Nodes.from_gaussian, {"means": changed(POINTS, (3, 0), np.nan), "covariances": 1.0}), 3),
    "1e200": (nodes(points=changed(POINTS, (3, 0), 1e200)), 2),
    "minus 1e200": (nodes(points=changed(POINTS, (3, 0), -1e200)), 2),
    "beyond float64": (nodes(points=np.full((6, 2), np.longdouble("1e400"))), 0),
    "all coordinates 1e-200": (nodes(points=np.full((6, 2), 1e-200)), "so small"),
    "points of three dimensions": (nodes(points=DENSE), "2 dimensions"),
    "points of one dimension": (points(X=np.arange(6.0)), "2 dimensions"),
    "dense of two dimensions": (dense(X=POINTS), "3 dimensions"),
    "ragged points": (points(X=[[1.0], [2.0, 3.0]]), "cannot be made an array"),
    "no features": (nodes(points=np.zeros((6, 0))), "no features"),
    "rows without features": (points(X=np.zeros((6, 0))), "no features"),
    "dense without features": (dense(X=np.zeros((3, 2, 0))), "no features"),
    "means without features": ((Nodes.from_gaussian, {"means": np.zeros((3, 0)), "covariances": 1.0}), "no features"),
    "strings": (points(X=np.array([["1", "2"], ["3", "4"]])), "real numbers"),
    "bytes": (points(X=np.array([[b"1"]])), "real numbers"),
    "objects": (points(X=POINTS.astype(object)), "real numbers"),
    "None": (points(X=[[1.0, None]]), "real numbers"),
    "complex numbers": (points(X=POINTS + 0j), "real numbers"),
    "dates": (points(X=POINTS.astype("datetime64[s]")), "real numbers"),
    "durations": (points(X=POINTS.astype("timedelta64[s]")), "real numbers"),
    "a sparse matrix of points": (points(X=scipy.sparse.csr_array(POINTS)), "real numbers"),
    "masked coordinates": (points(X=np.ma.masked_greater(POINTS, 8)), "masked"),
    "a list of masked rows": (points(X=list(np.ma.masked_greater(POINTS, 8))), "masked"),
    "masked rows in lists": (dense(X=[list(np.ma.masked_greater(POINTS, 8)), list(POINTS)]), "masked"),
    # probabilities
    "negative probability": (nodes(probabilities=[0.5, 0.5, 1, 0.5, -0.1, 0.5]), 2),
    "NaN probability": (nodes(probabilities=[0.5, 0.5, np.nan, 0.5, 0.1, 0.4]), 1),
    "infinite probability": (nodes(probabilities=[0.5, np.inf, 1, 0.5, 0.1, 0.4]), 0),
    "probability above 1": (nodes(probabilities=[0.5, 0.5, 1.5, 0.5, 0.1, 0.4]), 1),
    "above 1 in float32": (nodes(points=POINTS.astype("f4"), probabilities=[0.5, 0.5, 1.001, 0.5, 0.1, 0.4]), 1),
    "sum of 1.2": (nodes(probabilities=[0.5, 0.5, 1, 0.5, 0.2, 0.5]), 2),
    "sum just above 1": (nodes(probabilities=[0.5, 0.5, 1, 0.5, 0.25, 0.25 + 2e-6]), 2),
    "sum above 1 in float32": (nodes(points=POINTS.astype("f4"), probabilities=[0.5, 0.501, 1, 0.5, 0.2, 0.3]), 0),
    "total probability 0": (nodes(probabilities=[0.5, 0.5, 1, 0, 0, 0]), 2),
    "certain node that is nowhere": ((Nodes, {"points": [[1], [2]], "probabilities": [1, 0], "offsets": [0, 1, 2]}), 1),
    "too few probabilities": (nodes(probabilities=[0.5, 0.5]), "2 probabilities for 6 points"),
    "too many probabilities": (nodes(probabilities=np.full(7, 0.1)), "7 probabilities for 6 points"),
    "probabilities for no points": (nodes(points=np.zeros((0, 2)), offsets=[0], weights=[], ids=[]), "6 probabilities"),
    "probabilities of two dimensions": (nodes(probabilities=np.full((6, 1), 0.1)), "1 dimension"),
    "probabilities as text": (nodes(probabilities=["a"] * 6), "real numbers"),
    "masked probabilities": (nodes(probabilities=np.ma.array(np.full(6, 0.1), mask=MASK * 2)), "masked"),
    "dense probabilities of another shape": (dense(probabilities=np.full((2, 3), 0.1)), "(2, 3)"),
    "dense probability of NaN": (dense(probabilities=changed(np.full((3, 2), 0.5), (1, 0), np.nan)), 1),
    "dense without realizations": (dense(X=np.zeros((3, 0, 2)), probabilities=None), "no realization"),
    # matrices of probabilities
    "row of zeros": (matrix(P=changed(MATRIX, 1, 0)), 1),
    "sparse row of zeros": (matrix(P=scipy.sparse.csr_array(changed(MATRIX, 2, 0))), 2),
    "row with a sum above 1": (matrix(P=changed(MATRIX, (0, 2), 0.2)), 0),
    "sparse row with a sum above 1": (matrix(P=scipy.sparse.coo_array(changed(MATRIX, (2, 2), 0.7))), 2),
    "sparse NaN": (matrix(P=scipy.sparse.csr_array(changed(MATRIX, (1, 1), np.nan))), 1),
    "matrix with too few columns": (matrix(P=MATRIX[:, :2]), "2 columns"),
    "sparse matrix with too many columns": (matrix(P=scipy.sparse.csr_array((3, 5))), "5 columns"),
    "matrix of one dimension": (matrix(P=np.array([0.5, 0.25, 0.25])), "2 dimensions"),
    "sparse matrix of one dimension": (matrix(P=scipy.sparse.coo_array(np.array([0.5, 0.25, 0.25]))), "dimension"),
    "sparse complex matrix": (matrix(P=scipy.sparse.csr_array(MATRIX + 0j)), "real numbers"),
    # weights
    "negative weight": (nodes(weights=[1, -1, 1]), 1),
    "NaN weight": (nodes(weights=[1, 1, np.nan]), 2),
    "infinite weight": (nodes(weights=[np.inf, 1, 1]), 0),
    "negative weight of a row": (points(weights=changed(np.ones(6), 3, -0.5)), 3),
    "weights that add up too far": (nodes(weights=[9e149, 9e149, 1]), "sum"),
    "weight that is too large": (nodes(weights=[1, 1e308, 1e308]), 1),
    "too few weights": (nodes(weights=[1, 1]), "2 weights for 3 nodes"),
    "one weight for all": (nodes(weights=1.0), "1 dimension"),
    "weights of two dimensions": (nodes(weights=np.ones((3, 1))), "1 dimension"),
    "weights as text": (nodes(weights=["a", "b", "c"]), "real numbers"),
    "masked weights": (nodes(weights=np.ma.array([1.0, 2.0, 3.0], mask=MASK)), "masked"),
    # ids
    "too few ids": (nodes(ids=["a", "b"]), "3 nodes"),
    "ids of two dimensions": (nodes(ids=np.zeros((3, 1))), "(3, 1)"),
    "ragged ids": (nodes(ids=[[1], [2, 3], [4]]), "ids"),
    # offsets
    "node without realization": (nodes(offsets=[0, 2, 2, 6]), 1),
    "offsets that do not start at 0": (nodes(offsets=[1, 2, 3, 6]), "start at 0"),
    "offsets that decrease": (nodes(offsets=[0, 3, 2, 6]), 1),
    "offsets that end too early": (nodes(offsets=[0, 2, 3, 5]), "6 points"),
    "offsets that end too late": (nodes(offsets=[0, 2, 3, 7]), "6 points"),
    "offsets of no node for some points": (nodes(offsets=[0]), "6 points"),
    "offsets as floats": (nodes(offsets=[0.0, 2.0, 3.0, 6.0]), "integers"),
    "offsets as text": (nodes(offsets=["0", "6"]), "integers"),
    "offsets as truth values": (nodes(offsets=[False, True]), "integers"),
    "no offsets": (nodes(offsets=[]), "1-D"),
    "one offset": (nodes(offsets=0), "1-D"),
    "offsets of two dimensions": (nodes(offsets=[[0, 2], [2, 6]]), "1-D"),
    "ragged offsets": (nodes(offsets=[[0], [2, 6]]), "ffsets"),
    "masked offsets": (nodes(offsets=np.ma.array([0, 2, 3, 6], mask=[0, 0, 1, 0])), "masked"),
    # groups
    "groups of nothing": ((Nodes.from_groups, {"X": POINTS, "size": 0}), "at least 1"),
    "groups of a negative size": ((Nodes.from_groups, {"X": POINTS, "size": -2}), "at least 1"),
}  # fmt: skip


def test_there_are_enough_bad_cases():
    assert len(CASES) >= 30


@pytest.mark.parametrize("name", CASES)
def test_bad_data_is_refused(name):
    (make, arguments), told = CASES[name]
    pattern = rf"\b(Node|Row) {told}\b" if isinstance(told, int) else re.escape(told)
    with pytest.raises(probi.InputError, match=pattern) as caught:
        make(**arguments)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, probi.ProbiError)


@pytest.mark.parametrize("name", CASES)
def test_after_an_error_the_callers_arrays_are_as_they_were(name):
    (make, arguments), _ = CASES[name]
    arrays = {key: value for key, value in arguments.items() if isinstance(value, np.ndarray)}
    before = copy.deepcopy(arrays)
    with pytest.raises(ValueError):  # noqa: PT011 -- which one it is, the test above says
        make(**arguments)
    for key, array in arrays.items():
        assert array.flags.writeable
        assert array.dtype == before[key].dtype
        assert array.tobytes() == before[key].tobytes()


def test_the_arguments_that_cases_start_from_are_good():
    # Else a case could be refused for another reason than the one it is about.
    for make, arguments in (nodes(), points(), dense(), matrix()):
        assert len(make(**arguments)) in (3, 6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 7, 64, 100])
def test_no_place_in_an_array_hides_a_bad_value(dtype, value, n):
    # The loop that looks for them runs in vectors, with a rest, and fastmath must not assume them away.
    for place in range(n):
        with pytest.raises(probi.InputError, match=rf"\b(Node|Row) {place}\b"):
            Nodes.from_points(changed(np.arange(float(n))[:, None], place, value, dtype))


def test_a_bad_value_in_a_later_range_is_found(monkeypatch):
    monkeypatch.setattr(validation, "CHECK_GRAIN", 4)
    for place in range(30):
        with pytest.raises(probi.InputError, match=rf"\b(Node|Row) {place}\b"):
            Nodes.from_points(changed(np.arange(30.0)[:, None], place, np.nan))


def test_offsets_so_far_apart_that_their_difference_overflows_are_refused():
    # 2^63 - 1 to -2^63 + 5 looks like a step of 6 in int64. Checked alone: with such offsets a kernel reads anywhere.
    with pytest.raises(probi.InputError, match="Node"):
        validation.check_offsets([0, 2**63 - 1, -(2**63) + 5, 1], 1)


# -- what looks odd and is fine -----------------------------------------------------------------------------------


def test_ten_times_a_tenth_in_float32_is_not_above_1():
    tenth = np.full(10, 0.1, np.float32)
    assert tenth.sum(dtype=np.float64) > 1
    some = Nodes(np.zeros((10, 1), np.float32), tenth, [0, 10])
    assert_array_equal(some.total_probabilities, tenth.sum(dtype=np.float64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [3, 1000, 100_000])
def test_probabilities_normalised_in_their_own_dtype_are_fine(dtype, n):
    shares = np.random.default_rng(n).random(n).astype(dtype)
    for probabilities in (np.full(n, 1 / n, dtype), shares / shares.sum()):
        some = Nodes(np.zeros((n, 1), dtype), probabilities, [0, n])
        assert abs(some.total_probabilities[0] - 1) < 1e-6


# -- what rounding explains -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 99, 1500, 15_000])
def test_probabilities_rounded_to_six_decimals_sum_to_1_again(dtype, n):
    shares = np.random.default_rng(n).random(n)
    for exact in (np.full(n, 1 / n), shares / shares.sum()):
        for rounded in (exact.round(6), exact.round(6).astype(np.float32), exact.astype(np.float32)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", probi.InputWarning)
                some = Nodes(np.zeros((n, 1), dtype), rounded, [0, n])
            # Below 1 the rest is absent, which does no harm; in float32 a few units above 1 stay as they are.
            assert some.total_probabilities[0] <= validation.max_allowed(n, dtype)
            assert some.total_probabilities[0] >= min(1, rounded.sum(dtype=np.float64)) - 1e-7


def test_a_softmax_in_float32_is_fine():
    third = np.full((2, 3), 1 / 3, np.float32)
    for make in (
        lambda: Nodes.from_dense(np.zeros((2, 3, 1)), third),
        lambda: Nodes.from_matrix(np.zeros((3, 1)), third),
    ):
        with pytest.warns(probi.InputWarning, match="of 2 of 2 nodes sum to slightly more than 1") as caught:
            some = make()
        assert (len(caught), caught[0].filename) == (1, __file__)
        assert_allclose(some.total_probabilities, 1.0, rtol=1e-15)
        assert third.sum() > 0  # the caller's own stay as they were
        assert probi.Nodes.from_table(some.to_arrow()) == some


@pytest.mark.parametrize(("n", "excess"), [(1, 1e-6), (6, 5e-6), (10**5, 0.011)])
def test_what_rounding_does_not_explain_is_refused(n, excess):
    probabilities = np.full(n, 1 / n)
    probabilities[0] += excess
    with pytest.raises(probi.InputError, match="above 1"):
        Nodes(np.zeros((n, 1)), probabilities, [0, n])


def test_weight_0_is_fine():
    some = Nodes.from_points([[1.0], [2.0]], weights=[0, 1])
    assert_array_equal(some.mass, [0, 1])
    assert_array_equal(Nodes.from_points([[1.0], [2.0]], weights=[0, 0]).mass, [0, 0])


def test_a_realization_of_probability_0_is_fine():
    assert_array_equal(Nodes([[1.0], [2.0]], [0, 1], [0, 2]).total_probabilities, [1])


def test_a_masked_array_with_nothing_masked_is_fine():
    assert_array_equal(Nodes.from_points(np.ma.array(POINTS)).points, POINTS)


def test_a_thread_may_be_importing_masked_arrays(monkeypatch):
    """A reader on its own thread raised where a compiler imported numpy.ma at that moment."""
    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    assert_array_equal(Nodes.from_points(POINTS).points, POINTS)


def test_lists_and_whole_numbers_are_fine():
    assert Nodes([[1], [2]], [1, 0], [0, 2], weights=[3]) == Nodes([[1.0], [2.0]], [1.0, 0.0], [0, 2], weights=[3.0])


@pytest.mark.parametrize("size", [1e140, 1e-130, 0.0])
def test_coordinates_far_from_1_give_right_distances(size):
    some = Nodes([[3 * size, 0.0], [0.0, 4 * size]], [0.5, 0.5], [0, 2])
    assert probi.expected_distances(some, [[0.0, 0.0]]) == pytest.approx(3.5 * size, rel=1e-12, abs=0)


def test_the_largest_float32_give_right_distances():
    largest = np.float32(3e38)
    some = Nodes(np.array([[largest, 0], [0, -largest]], np.float32), [1, 1], [0, 1, 2])
    expected = np.array([[0.0, 2.0], [np.sqrt(2), np.sqrt(2)]]) * float(largest)
    found = probi.expected_distances(some, [[float(largest), 0.0], [-float(largest), 0.0]])
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [0, 1, 3000, validation.MAX_SHARED + 1])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_arrays_are_read_only(value, n):
    array = validation.constant(value, n)
    assert_array_equal(array, np.full(n, value))
    assert array.dtype == np.float64
    assert array.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        array[:] = 2.0
