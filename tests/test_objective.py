"""Expected distances, assignment and the objective against their definitions."""

import math
import tracemalloc

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import build, examples, nodes_and_centers, points, weighted_nodes_and_centers

from probi import InputError, Nodes, _parallel, assign, expected_cost, expected_distances, objective
from probi.medians import certified_medians
from probi.objective import Assignment, two_nearest


@pytest.fixture(scope="module", autouse=True)
def _with_bounds():
    """Small problems are assigned as large ones are; tests/solver/test_small.py compares the two ways."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "MAX_SMALL", 0)
        yield


def as_lists(nodes):
    """Nodes as the naive definitions take them, with the numbers that are stored."""
    rows = list(zip(nodes.points.astype(float).tolist(), nodes.probabilities.astype(float).tolist(), strict=True))
    return [rows[a:b] for a, b in zip(nodes.offsets[:-1], nodes.offsets[1:], strict=True)]


def conditional(nodes, centers):
    """Expected distances given that the node is there: D of the design."""
    return expected_distances(nodes, centers) / nodes.total_probabilities[:, None]


def test_the_cost_of_many_nodes_is_rounded_once(monkeypatch):
    """As for few: of all magnitudes, in any order, with zeros of both signs; and where the sum overflows."""
    rng = np.random.default_rng(0)
    magnitudes = rng.integers(-1074, 990, 3000)
    nearest = np.concatenate([np.ldexp(rng.random(3000), magnitudes), [5e-324, 2.0**-1022, 0.0, -0.0], np.ones(5)])
    nodes = Nodes.from_points(np.zeros((len(nearest), 1)))
    monkeypatch.setattr(objective, "MAX_SUMMED", 0)
    monkeypatch.setattr(objective, "SUMMED_AT_ONCE", 700)
    for some in (nearest, nearest[nearest < 1e-300], nearest[(nearest > 1e-5) & (nearest < 1e5)], nearest[:1]):
        for costs in (some, rng.permutation(some)):
            assert objective.total_cost(nodes[: len(costs)], costs) == math.fsum(costs.tolist())
    assert objective.total_cost(nodes[:2], np.array([1.0, np.inf])) == np.inf
    assert np.isnan(objective.total_cost(nodes[:2], np.array([1.0, np.nan])))
    assert objective.total_cost(nodes[:2], np.array([1.0, -0.25])) == 0.75


# -- the definitions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(weighted_nodes_and_centers())
def test_distances_and_cost_match_the_definition(dtype, data):
    some, weights, centers = data
    nodes = build(some, weights, dtype)
    stored = as_lists(nodes)
    assert_allclose(expected_distances(nodes, centers), naive.expected_distances(stored, centers), rtol=1e-12)
    assert_allclose(expected_cost(nodes, centers), naive.expected_cost(stored, weights, centers), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(nodes_and_centers())
def test_no_center_is_nearer_than_the_assigned_one(dtype, data):
    some, centers = data
    nodes = build(some, None, dtype)
    distances = np.array(naive.expected_distances(as_lists(nodes), centers))
    own = distances[np.arange(len(some)), assign(nodes, centers)]
    assert (own <= distances.min(axis=1) * (1 + 1e-12)).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 2, 3, 7, 16, 33, 60])
def test_distances_match_the_definition_in_any_dimension(d, dtype):
    rng = np.random.default_rng(d)
    nodes = Nodes(rng.normal(size=(23, d)).astype(dtype), None, [0, 1, 4, 10, 12, 23], [1, 2, 0, 3, 0.5])
    centers = rng.normal(size=(11, d))
    stored = as_lists(nodes)
    assert_allclose(expected_distances(nodes, centers), naive.expected_distances(stored, centers), rtol=1e-12)
    assert_allclose(expected_cost(nodes, centers), naive.expected_cost(stored, nodes.weights, centers), rtol=1e-12)
    assert_array_equal(assign(nodes, centers), naive.assign(stored, centers))


def test_distances_whose_squares_vanish_are_lost_but_nothing_above_them_is_certified():
    nodes = Nodes([[0.0, 0.0], [3e-160, 4e-160], [1.0, 1.0]], [0.5, 0.5, 1.0], [0, 2, 3])
    assert_allclose(expected_distances(nodes, [[0.0, 0.0]])[0], 2.5e-160, rtol=1e-3)
    assert certified_medians(nodes, 1e-2)[2][0] <= 2.5e-160
    assert expected_distances(nodes.scaled([1e10, 1e10]), [[0.0, 0.0]])[0] == 2.5e-150


def test_no_nodes_cost_nothing():
    none = Nodes(np.empty((0, 2)), [], [0])
    assert expected_distances(none, [[0.0, 0.0], [1.0, 1.0]]).shape == (0, 2)
    assert assign(none, [[0.0, 0.0]]).shape == (0,)
    assert expected_cost(none, [[0.0, 0.0]]) == 0.0


# -- facts of the design ----------------------------------------------------------------------------------------------


@given(weighted_nodes_and_centers(), st.sampled_from([0.5, 0.25, 0.9]))
def test_a_chance_to_be_absent_only_rescales(data, chance):
    some, weights, centers = data
    rarer = build([[(x, chance * p) for x, p in v] for v in some], weights)
    nodes = build(some, weights)
    assert_allclose(expected_distances(rarer, centers), chance * expected_distances(nodes, centers), rtol=1e-12)
    assert_allclose(expected_cost(rarer, centers), chance * expected_cost(nodes, centers), rtol=1e-12)


@given(nodes_and_centers())
def test_distances_are_a_metric(data):
    some, centers = data
    nodes = build(some)
    D, size = conditional(nodes, centers), 1e-12 * (1 + np.abs(nodes.points).max() + np.abs(centers).max())
    gaps = np.array([[np.linalg.norm(np.subtract(a, b)) for b in centers] for a in centers])
    assert (np.abs(D[:, :, None] - D[:, None, :]) <= gaps + size).all()  # 1-Lipschitz in the center
    assert (D[:, :, None] + D[:, None, :] >= gaps - size).all()  # the triangle over the node


@given(nodes_and_centers())
def test_the_median_stands_for_the_node_within_its_spread(data):
    some, centers = data
    nodes = build(some)
    y, spreads, _ = certified_medians(nodes, 1e-2)
    from_median = np.linalg.norm(y[:, None] - np.array(centers)[None], axis=2)
    assert (np.abs(conditional(nodes, centers) - from_median) <= spreads[:, None] + 1e-9).all()


@given(nodes_and_centers())
def test_the_center_of_gravity_sandwiches_the_distance(data):
    some, centers = data
    nodes = build(some)
    D = conditional(nodes, centers)
    from_gravity = np.linalg.norm(nodes.gravity_centers[:, None] - np.array(centers)[None], axis=2)
    assert (from_gravity <= D + 1e-9).all()
    assert (np.sqrt(from_gravity**2 + nodes.variances[:, None]) + 1e-9 >= D).all()


@given(weighted_nodes_and_centers())
def test_splitting_a_realization_changes_nothing(data):
    some, weights, centers = data
    split = [[(x, p / 2) for x, p in v for _ in range(2)] for v in some]
    assert_allclose(expected_distances(build(split), centers), expected_distances(build(some), centers), rtol=1e-12)
    assert_allclose(
        expected_cost(build(split, weights), centers), expected_cost(build(some, weights), centers), rtol=1e-12
    )


@given(nodes_and_centers())
def test_weight_three_is_three_copies(data):
    some, centers = data
    assert_allclose(
        expected_cost(build(some, [3.0] * len(some)), centers), expected_cost(build(some * 3), centers), rtol=1e-12
    )


@given(nodes_and_centers())
def test_weights_and_chances_do_not_move_labels(data):
    some, centers = data
    expected = assign(build(some), centers)
    assert_array_equal(assign(build(some, np.arange(len(some)) / 2), centers), expected)
    assert_array_equal(assign(build([[(x, p / 4) for x, p in v] for v in some]), centers), expected)


@given(nodes_and_centers(), st.integers(0, 2**32 - 1), st.sampled_from([1e-3, 1.0, 3.7, 1e6]))
def test_moving_turning_and_scaling_the_space_scales_the_distances(data, seed, scale):
    some, centers = data
    nodes, rng = build(some), np.random.default_rng(seed)
    d = nodes.n_features
    turn, shift = np.linalg.qr(rng.normal(size=(d, d)))[0], 10 * rng.normal(size=d)
    moved = Nodes(scale * (nodes.points @ turn + shift), nodes.probabilities, nodes.offsets)
    found = expected_distances(moved, scale * (np.array(centers) @ turn + shift))
    assert_allclose(found, scale * expected_distances(nodes, centers), rtol=1e-12, atol=1e-12 * scale)


@given(st.integers(1, 4).flatmap(lambda d: st.tuples(st.lists(points(d), min_size=1), st.lists(points(d), min_size=1))))
def test_certain_nodes_are_plain_weighted_k_median(data):
    X, centers = map(np.array, data)
    weights = np.arange(len(X)) % 3
    plain = np.linalg.norm(X[:, None] - centers[None], axis=2)
    nodes = Nodes.from_points(X, weights)
    assert_allclose(expected_distances(nodes, centers), plain, rtol=1e-12)
    assert_allclose(expected_cost(nodes, centers), weights @ plain.min(axis=1), rtol=1e-12)


# -- the assignment is the argmin, to the bit -------------------------------------------------------------------------


def assert_two_smallest(nodes, centers):
    """Nearest and next center are those of all exact distances, to the bit; ties go to the lowest index."""
    distances = expected_distances(nodes, centers)
    order = np.argsort(distances, axis=1, kind="stable")[:, :2]
    smallest = np.take_along_axis(distances, order, axis=1) / nodes.total_probabilities[:, None]
    found = two_nearest(nodes, centers)
    assert_array_equal(found.labels, order[:, 0])
    assert_array_equal(found.distances, smallest[:, 0])
    if len(centers) == 1:
        assert (found.next_labels == -1).all()
        assert np.isinf(found.next_distances).all()
    else:
        assert_array_equal(found.next_labels, order[:, 1])
        assert_array_equal(found.next_distances, smallest[:, 1])


def check_argmin(nodes, centers):
    distances = expected_distances(nodes, centers)
    assert_array_equal(assign(nodes, centers), distances.argmin(axis=1))
    assert_allclose(expected_cost(nodes, centers), nodes.weights @ distances.min(axis=1), rtol=1e-13)
    assert_two_smallest(nodes, centers)


@given(weighted_nodes_and_centers())
def test_assignment_is_the_argmin(data):
    some, weights, centers = data
    check_argmin(build(some, weights), centers)


def test_the_lowest_index_wins_where_a_rounded_distance_ties():
    # One unit in the last place apart; times 0.9 both distances are the same number.
    nodes = Nodes([[0.0]], [0.9], [0, 1])
    centers = np.array([[float.fromhex("0x1.b045719a7c5a5p+0")], [float.fromhex("0x1.b045719a7c5a4p+0")]])
    check_argmin(nodes, centers)


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 9, 15, 40])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 100.0])
def test_assignment_is_the_argmin_for_tight_and_wide_nodes(spread, k):
    rng = np.random.default_rng(k)
    for d in (1, 2, 5, 60):
        middle = 3.0 * rng.normal(size=(130, 1, d))
        X = middle + spread * rng.normal(size=(130, 4, d))
        shares = rng.exponential(size=(130, 4))
        shares *= rng.choice([0.3, 0.9, 1.0], size=(130, 1)) / shares.sum(axis=1, keepdims=True)
        nodes = Nodes.from_dense(X, shares, rng.choice([0.0, 1.0, 2.5], size=130))
        check_argmin(nodes, 3.0 * rng.normal(size=(k, d)))
        check_argmin(nodes, nodes.points[rng.integers(nodes.n_realizations, size=k)])
        check_argmin(nodes, nodes.gravity_centers[rng.integers(130, size=k)])


@pytest.mark.parametrize("k", [1, 2, 5, 8, 13, 40])
@pytest.mark.parametrize("m", [1, 2, 4, 9])
def test_assignment_is_the_argmin_among_ties_on_a_grid(m, k):
    rng = np.random.default_rng(10 * k + m)
    for d in (1, 2, 4):
        # Powers of two as shares: no rounding, so many expected distances are equal to the bit.
        X = rng.integers(-2, 3, size=(200, m, d))
        nodes = Nodes.from_dense(X, np.full((200, m), 1 / 16))
        check_argmin(nodes, rng.integers(-2, 3, size=(k, d)).astype(float))
        check_argmin(nodes, np.repeat(rng.integers(-2, 3, size=(1, d)).astype(float), k, axis=0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 9, 33, 70])
def test_assignment_is_the_argmin_of_centers_one_unit_in_the_last_place_apart(d, dtype):
    rng = np.random.default_rng(d)
    shares = rng.dirichlet(np.ones(4), 1000) * rng.uniform(0.1, 0.99, (1000, 1))
    nodes = Nodes.from_dense(rng.normal(size=(1000, 4, d)).astype(dtype), shares.astype(dtype))
    centers = rng.normal(size=(4, d))
    check_argmin(nodes, np.concatenate([centers, np.nextafter(centers, np.inf), centers]))


@pytest.mark.parametrize("function", [assign, expected_cost, expected_distances, two_nearest])
def test_centers_of_another_dimension_are_refused(function):
    """The kernels would read beyond the ends of arrays."""
    with pytest.raises(InputError, match="7 features"):
        function(Nodes.from_points(np.zeros((5, 3))), np.zeros((2, 7)))


@pytest.mark.parametrize("total", [1.0, 0.9, 0.3])
def test_equal_centers_leave_the_later_ones_empty(total):
    rng = np.random.default_rng(0)
    shares = rng.exponential(size=(300, 3))
    nodes = Nodes.from_dense(rng.normal(size=(300, 3, 2)), total * shares / shares.sum(axis=1, keepdims=True))
    centers = rng.normal(size=(6, 2))
    assert assign(nodes, np.concatenate([centers, centers, centers])).max() < 6


def test_assignment_is_the_argmin_for_coordinates_of_mixed_magnitude():
    rng = np.random.default_rng(2)
    for scales in ([1e-3, 1e9], [1e9, 1e-3, 1.0], [1e-3, 1e-3]):
        for shift in (0.0, 1e9):
            X = rng.normal(size=(300, 4, len(scales))) * scales + shift
            X[:100, :, 0] = shift  # nodes that differ in the small feature only
            nodes = Nodes.from_dense(X)
            for k in (3, 12):
                centers = rng.normal(size=(k, len(scales))) * scales + shift
                check_argmin(nodes, centers)
                centers[:, 0] = shift
                check_argmin(nodes, centers)


def test_small_nodes_beside_a_far_one_are_assigned_exactly():
    rng = np.random.default_rng(3)
    X = 1e-3 * rng.normal(size=(200, 3, 2))
    X[0] += 1e9
    check_argmin(Nodes.from_dense(X), 1e-3 * rng.normal(size=(10, 2)))
    check_argmin(Nodes.from_dense(X), np.concatenate([1e-3 * rng.normal(size=(10, 2)), [[1e9, 1e9]]]))


def test_assignment_is_the_argmin_where_a_center_of_gravity_is_rounded():
    # Nodes of a few units in the last place amid centers on a sphere: rounding a center of gravity to coordinates
    # shifts it by more than the distances differ.
    rng = np.random.default_rng(11)
    ulp, origin = 2.0**-22, 2.0**30
    X = origin + ulp * rng.integers(-3, 4, size=(400, 3, 3))
    shares = rng.exponential(size=(400, 3))
    nodes = Nodes.from_dense(X, shares / shares.sum(axis=1, keepdims=True))
    for k in (2, 4, 10):
        directions = rng.normal(size=(k, 3))
        check_argmin(nodes, origin + 1000.0 * directions / np.linalg.norm(directions, axis=1, keepdims=True))


# -- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bits_do_not_depend_on_the_number_of_threads(dtype):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(12_001, 6, 9)).astype(dtype)
    centers = rng.normal(size=(12, 9))
    found = []
    for n_jobs in (1, 2, 3, 7):
        with _parallel.limited(n_jobs):
            nodes = Nodes.from_dense(X)
            assert len(nodes.pieces()) > 2
            found.append(
                (
                    expected_distances(nodes, centers).tobytes(),
                    assign(nodes, centers).tobytes(),
                    expected_cost(nodes, centers),
                    nodes.gravity_centers.tobytes(),
                    nodes.variances.tobytes(),
                )
            )
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("k", [3, 40])
def test_the_cost_of_certain_nodes_takes_little_memory_and_has_the_same_bits(monkeypatch, k):
    rng = np.random.default_rng(0)
    nodes, centers = Nodes.from_points(rng.normal(size=(200_000, 2)), rng.exponential(size=200_000)), np.eye(k, 2)
    at_once = expected_cost(nodes, centers)
    monkeypatch.setattr(objective, "CERTAIN_AT_ONCE", 3_001)
    tracemalloc.start()
    in_parts = expected_cost(nodes, centers)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert in_parts == at_once
    assert peak < 24 * len(nodes)  # labels and bounds of all nodes would take twice as much


def test_several_pieces_give_what_one_gives():
    rng = np.random.default_rng(5)
    nodes = Nodes.from_dense(rng.normal(size=(12_001, 6, 9)))
    centers = rng.normal(size=(12, 9))
    part = nodes[5_000:5_100]
    assert_array_equal(expected_distances(nodes, centers)[5_000:5_100], expected_distances(part, centers))
    assert_array_equal(assign(nodes, centers)[5_000:5_100], assign(part, centers))


# -- bad centers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [expected_distances, assign, expected_cost])
@pytest.mark.parametrize(
    ("centers", "message"),
    [
        ([[0.0, 0.0, 0.0]], "Centers have 3 features, but the nodes have 2"),
        ([[0.0, 0.0], [np.nan, 1.0]], "nan"),
        ([[0.0, np.inf]], "inf"),
        ([[0.0, 1e200]], "large"),
        (np.empty((0, 2)), "There are no centers"),
        ([0.0, 0.0], "2 dimensions"),
        ([["a", "b"]], "real numbers"),
        ([[0.0, 1.0], [2.0]], "centers"),
    ],
)
def test_bad_centers_are_refused(function, centers, message):
    with pytest.raises(InputError, match=message):
        function(Nodes.from_points([[0.0, 0.0], [1.0, 1.0]]), centers)


def test_centers_that_cannot_be_written_to_need_no_other_kernels():
    centers = np.zeros((2, 3))
    centers.flags.writeable = False
    assert objective.check_centers(centers, 3).flags.writeable


def test_centers_of_any_real_dtype_and_order_are_taken():
    nodes = Nodes.from_points([[0.0, 0.0], [3.0, 4.0]])
    expected = [[0.0, 5.0], [5.0, 0.0]]
    for centers in (
        [[0, 0], [3, 4]],
        np.array([[0, 0], [3, 4]], np.float32),
        np.asfortranarray([[0.0, 0.0], [3.0, 4.0]]),
    ):
        assert_array_equal(expected_distances(nodes, centers), expected)


def test_inputs_are_not_modified():
    nodes = Nodes.from_dense(np.random.default_rng(6).normal(size=(30, 3, 2)))
    centers = np.random.default_rng(7).normal(size=(4, 2))
    points, kept = nodes.points.copy(), centers.copy()
    for function in (expected_distances, assign, expected_cost):
        function(nodes, centers)
    assert_array_equal(nodes.points, points)
    assert_array_equal(centers, kept)


# -- assignment from round to round -----------------------------------------------------------------------------------


def check_round(found, nodes, centers):
    """Labels as from scratch, and bounds that are none by accident."""
    D = conditional(nodes, centers)
    rows = np.arange(len(nodes))
    size = 1e-12 * (np.abs(nodes.points).max() + np.abs(centers).max())
    assert_array_equal(found.labels, assign(nodes, centers))
    assert (found.nearest >= D[rows, found.labels] - size).all()
    D[rows, found.labels] = np.inf
    assert (found.other <= D.min(axis=1) + size).all()


@pytest.mark.parametrize("spread", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("k", [1, 2, 6, 20])
def test_moving_centers_are_followed(k, spread):
    rng = np.random.default_rng(k)
    nodes = Nodes.from_dense(rng.normal(size=(400, 1, 3)) + spread * rng.normal(size=(400, 3, 3)))
    centers = rng.normal(size=(k, 3))
    found, moves = Assignment(nodes), np.zeros(k)
    for step in (0.3, 0.1, 0.03, 0.01, 0.0, 1e-6, 0.1):
        found.update(centers, moves, exact=False)
        check_round(found, nodes, centers)
        moved = centers + step * rng.normal(size=(k, 3))
        centers, moves = moved, np.linalg.norm(moved - centers, axis=1)


@pytest.mark.parametrize("k", [2, 6, 20])
def test_one_center_that_jumps_is_followed(k):
    rng = np.random.default_rng(k)
    nodes = Nodes.from_dense(rng.normal(size=(400, 1, 2)) + 0.05 * rng.normal(size=(400, 3, 2)))
    centers = rng.normal(size=(k, 2))
    found, moves = Assignment(nodes), np.zeros(k)
    for turn in range(8):
        found.update(centers, moves, exact=False)
        check_round(found, nodes, centers)
        moved = centers + 1e-3 * rng.normal(size=(k, 2))
        moved[turn % k] = 3.0 * rng.normal(size=2) if turn % 3 else [1e4, 0.0]
        centers, moves = moved, np.linalg.norm(moved - centers, axis=1)


@pytest.mark.slow
@examples(35)
@given(nodes_and_centers(), st.data())
def test_any_walk_of_the_centers_is_followed(data, steps):
    some, centers = data
    nodes, centers = build(some), np.array(centers)
    found, moves = Assignment(nodes), np.zeros(len(centers))
    for _ in range(4):
        found.update(centers, moves, exact=False)
        check_round(found, nodes, centers)
        moved = centers.copy()
        moved[steps.draw(st.integers(0, len(centers) - 1))] = steps.draw(points(nodes.n_features))
        centers, moves = moved, np.linalg.norm(moved - centers, axis=1)


def test_exact_distances_are_exact_when_asked_for():
    rng = np.random.default_rng(8)
    nodes = Nodes.from_dense(rng.normal(size=(300, 1, 2)) + 0.01 * rng.normal(size=(300, 3, 2)))
    centers = rng.normal(size=(5, 2))
    found = Assignment(nodes)
    found.update(centers, np.zeros(5), exact=True)
    assert_allclose(found.nearest, conditional(nodes, centers).min(axis=1), rtol=1e-14)


def test_exact_distances_are_exact_after_moves_too():
    rng = np.random.default_rng(8)
    nodes = Nodes.from_dense(rng.normal(size=(300, 1, 2)) + 0.01 * rng.normal(size=(300, 3, 2)))
    centers = rng.normal(size=(5, 2))
    found = Assignment(nodes)
    found.update(centers, np.zeros(5), exact=False)
    found.update(centers + 0.01, np.full(5, 0.02), exact=True)
    assert_allclose(found.nearest, conditional(nodes, centers + 0.01).min(axis=1), rtol=1e-14)


def tight_clusters():
    """Nodes that are small beside the gaps between twenty clusters."""
    rng = np.random.default_rng(9)
    centers = 10.0 * rng.normal(size=(20, 5))
    middles = centers[rng.integers(20, size=5000)] + rng.normal(size=(5000, 5))
    return Nodes.from_dense(middles[:, None] + 0.2 * rng.normal(size=(5000, 10, 5))), centers


def test_few_exact_distances_are_computed():
    nodes, centers = tight_clusters()
    found = Assignment(nodes)
    assert found.update(centers, np.zeros(20), exact=False) <= 0.4 * len(nodes)
    assert Assignment(nodes).update(centers, np.zeros(20), exact=True) <= 1.4 * len(nodes)


def test_hardly_any_node_is_looked_at_when_centers_hardly_move():
    nodes, centers = tight_clusters()
    found = Assignment(nodes)
    found.update(centers, np.zeros(20), exact=False)
    assert found.update(centers + 1e-3, np.full(20, 2.3e-3), exact=False) <= 0.1 * len(nodes)
    assert_array_equal(found.labels, assign(nodes, centers + 1e-3))


@pytest.mark.parametrize(("m", "d", "k"), [(1, 2, 9), (7, 2, 8), (10, 10, 20), (9, 3, 33)])
@pytest.mark.parametrize("far", [0.0, 1e9])
@pytest.mark.parametrize("exact", [True, False])
def test_labels_of_nodes_wider_than_the_distances_of_centers(monkeypatch, m, d, k, far, exact):
    monkeypatch.setattr(objective, "MAX_SMALL", 0)
    rng = np.random.default_rng(k)
    shares = rng.uniform(0.0, 1.0 / m, (200, m))
    some = Nodes.from_dense(far + rng.normal(size=(200, m, d)), shares)
    centers = far + 0.2 * rng.normal(size=(k, d))
    centers[5] = centers[3]  # of equal centers, the first is taken
    assignment = Assignment.of(some, centers, exact=exact)
    distances = expected_distances(some, centers)
    assert_array_equal(assignment.labels, distances.argmin(axis=1))
    own = distances[np.arange(200), assignment.labels] / some.total_probabilities
    if exact:
        assert_array_equal(assignment.nearest, own)
    assert (assignment.nearest >= own).all()
    distances[np.arange(200), assignment.labels] = np.inf
    assert (assignment.other <= distances.min(axis=1) / some.total_probabilities).all()
