"""solve: how good its answers are, what must not matter to them, and what it refuses."""

import functools
import re
import threading

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import blobs, quiet_solve
from strategies import build, examples, nodes, points

import probi
from probi import InputError, Nodes, SolverWarning, _parallel, assign, expected_cost, objective, solve
from probi.solver import search as searches
from probi.solver.problem import Problem
from probi.solver.result import _by_mass

PRESETS = ["default", "paper"]


def check_valid(result, some, k):
    assert result.centers.shape == (k, some.n_features)
    assert np.isfinite(result.centers).all()
    assert np.isfinite(result.cost)
    assert result.labels.shape == (len(some),)
    assert ((result.labels >= 0) & (result.labels < k)).all()
    assert_array_equal(result.labels, assign(some, result.centers))


@pytest.fixture
def with_kernels(monkeypatch):
    """Search with kernels and threads, as in larger problems."""
    monkeypatch.setattr(searches, "MAX_SMALL", 0)
    monkeypatch.setattr(searches, "MAX_ALONE", 0)
    monkeypatch.setattr(objective, "MAX_SMALL", 0)


@pytest.fixture(params=["small", "kernels"])
def search(request):
    """Both ways to search: in plain arrays, as in all small problems, and with kernels."""
    if request.param == "kernels":
        request.getfixturevalue("with_kernels")
    return request.param


# -- the answer -------------------------------------------------------------------------------------------------------


@functools.cache
def tiny_instances(spread):
    """Nodes around whole numbers, a number of clusters, and the smallest cost with centers on realizations."""
    solved = []
    for X, shares, weights, k in tiny_arrays(spread):
        lists = [[(tuple(x), p) for x, p in zip(v, q, strict=True)] for v, q in zip(X, shares, strict=True)]
        places = sorted({x for v in lists for x, _ in v})
        best = naive.best_cost_among(lists, weights, places, min(k, len(places)))
        solved.append((Nodes.from_dense(X, shares, weights), k, best))
    return solved


def tiny_arrays(spread):
    rng = np.random.default_rng(int(10 * spread))
    for _ in range(25):
        n, d = rng.integers(3, 7), rng.integers(1, 4)
        m = 1 if spread == 0.0 else 3
        X = rng.integers(-20, 21, size=(n, 1, d)) + 20.0 * spread * rng.uniform(-1, 1, size=(n, m, d))
        shares = rng.integers(1, 5, size=(n, m))
        yield X, shares / shares.sum(axis=1, keepdims=True), 1.0 + np.arange(n) % 3, int(rng.integers(1, 4))


@pytest.mark.usefixtures("search")
@pytest.mark.slow
# Starts are tried on medians: where nodes are as wide as the gaps between them, the best there need not be the best.
@pytest.mark.parametrize(("spread", "above"), [(0.0, 1e-9), (0.02, 0.01), (0.5, 0.05)])
def test_tiny_instances_are_solved_as_well_as_by_trying_all_realizations(spread, above):
    excess = []
    for some, k, best in tiny_instances(spread):
        found = quiet_solve(some, k, random_state=0)
        excess.append(found.cost / best - 1.0 if best else found.cost)
    assert max(excess) <= above
    assert np.mean(excess) < 0.0  # centers need not stand on realizations


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("preset", PRESETS)
def test_clusters_that_are_far_apart_are_found(preset):
    X, labels = blobs(n=400, k=6, d=2, scale=300.0)
    found = solve(Nodes.from_dense(X), 6, preset=preset, n_init=10, random_state=0)
    assert len(set(zip(labels, found.labels, strict=True))) == 6


@pytest.mark.parametrize(("k", "of_nodes", "of_summary"), [(15, 10, 10), (16, 10, 5), (31, 10, 5), (32, 1, 1)])
def test_more_clusters_take_fewer_starts(k, of_nodes, of_summary):
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(300, 2)))
    summary = probi.Summary(k, size=200)
    summary.update(nodes)
    for source, expected in ((nodes, of_nodes), (summary, of_summary)):
        steps = []
        solve(source, k, random_state=0, on_progress=steps.append)
        assert {step.total for step in steps if step.what == "start"} == {expected}


@pytest.mark.slow
@given(nodes(min_size=3, dimension=2), st.integers(1, 3), st.sampled_from(PRESETS))
def test_what_is_reported_belongs_together(some, k, preset):
    weights = [float(i % 3) for i in range(1, len(some) + 1)]
    some = build(some, weights)
    found = quiet_solve(some, k, preset=preset, random_state=1)
    check_valid(found, some, k)
    assert found.cost == expected_cost(some, found.centers)
    assert found.coreset_cost == found.cost
    assert found.standard_error == 0.0
    assert 0.0 <= found.lower_bound <= found.cost
    clusters = found.clusters
    for c in range(k):
        own = found.labels == c
        assert_allclose(clusters.mass[c], some.mass[own].sum(), rtol=1e-12)
        assert clusters.count[c] == own.sum()
    assert_allclose(clusters.cost.sum(), found.cost, rtol=1e-12)
    assert (clusters.spread <= clusters.cost).all()
    assert found.spread_cost <= found.cost
    assert found.lower_bound <= clusters.spread.sum() * (1 + 1e-12)
    assert found.n_distinct == np.count_nonzero(clusters.count)


def test_the_lower_bound_is_reached_where_each_node_has_its_center():
    some = Nodes.from_dense(blobs(n=12, m=5)[0])
    found = solve(some, 12, random_state=0)
    assert found.cost <= found.lower_bound * 1.02


def test_a_cost_is_never_below_its_spread():
    """Spreads are known to 1 %: the center of a node alone may be nearer to it than its median."""
    for seed in range(5):
        found = solve(np.random.default_rng(seed).normal(size=(1, 7, 3)), 1, random_state=0)
        assert found.lower_bound <= found.spread_cost == found.cost == found.clusters.spread[0]


@pytest.mark.usefixtures("search")
@pytest.mark.slow
def test_one_center_of_certain_nodes_is_their_median():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 3)), rng.exponential(size=40)
    found = solve(Nodes.from_points(X, weights), 1, tol=1e-10, max_iter=1000, random_state=0)
    whole = [(tuple(x), w) for x, w in zip(X, weights, strict=True)]
    assert_allclose(found.cost, naive.median_cost(whole, 2000) * weights.sum(), rtol=1e-8)


@pytest.mark.usefixtures("search")
@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_as_many_centers_as_certain_nodes_cost_nothing(preset):
    X = np.random.default_rng(1).normal(size=(9, 2))
    found = solve(Nodes.from_points(X), 9, preset=preset, random_state=0)
    assert found.cost == 0.0
    assert_array_equal(np.sort(found.labels), np.arange(9))


@pytest.mark.slow
@examples(25)
@given(st.lists(points(2), min_size=2, max_size=5, unique=True), st.integers(0, 99))
def test_as_many_centers_as_distinct_nodes_cost_nothing(places, number):
    some = Nodes.from_points(np.array(places * 3))
    assert solve(some, len(places), random_state=number).cost == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_centers_come_in_order_of_falling_mass(preset):
    rng = np.random.default_rng(2)
    some = Nodes.from_dense(rng.normal(size=(200, 2, 2)), weights=rng.exponential(size=200))
    for number in range(5):
        mass = solve(some, 7, preset=preset, random_state=number).clusters.mass
        assert (np.diff(mass) <= 0).all()


def test_mass_falls_also_where_a_node_lies_between_two_centers():
    some = Nodes.from_points([[0.0], [5.0], [10.0], [100.0]], [1.0, 1.0, 3.0, 3.5])
    for number in range(10):
        assert (np.diff(solve(some, 3, random_state=number, n_init=1).clusters.mass) <= 0).all()


@pytest.mark.parametrize("preset", PRESETS)
def test_init_keeps_its_order(preset):
    X, _ = blobs(n=90, k=3)
    some = Nodes.from_dense(X)
    init = X[:3, 0]  # one of each cluster
    for order in ([0, 1, 2], [2, 0, 1]):
        found = solve(some, 3, preset=preset, init=init[order])
        assert_array_equal(assign(Nodes.from_points(found.centers), init[order]), [0, 1, 2])
        assert_array_equal(found.labels, np.argsort(order)[np.arange(90) % 3])


# -- what must not matter ---------------------------------------------------------------------------------------------


def test_weight_three_is_three_copies():
    X, _ = blobs(n=60, k=5)
    weighted = solve(Nodes.from_dense(X, weights=np.full(60, 3.0)), 5, random_state=0)
    copied = solve(Nodes.from_dense(np.concatenate([X, X, X])), 5, random_state=0)
    assert_allclose(weighted.cost, copied.cost, rtol=1e-4)
    assert_allclose(weighted.lower_bound, copied.lower_bound, rtol=1e-12)


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("preset", PRESETS)
def test_far_from_the_origin_nothing_changes(preset):
    X, _ = blobs()
    here = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    there = solve(Nodes.from_dense(X + 1e6), 4, preset=preset, random_state=0)
    assert_array_equal(there.labels, here.labels)
    assert_allclose(there.cost, here.cost, rtol=1e-9)
    assert_allclose(there.centers - 1e6, here.centers, atol=1e-6)


@pytest.mark.usefixtures("search")
@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("factor", [2.0**-40, 2.0**60])
def test_scaling_space_or_weights_by_powers_of_two_changes_no_bit(preset, factor):
    X, _ = blobs(n=100)
    plain = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    scaled = solve(Nodes.from_dense(X * factor), 4, preset=preset, random_state=0)
    weighted = solve(Nodes.from_dense(X, weights=np.full(100, factor)), 4, preset=preset, random_state=0)
    assert_array_equal(scaled.centers, plain.centers * factor)
    assert_array_equal(weighted.centers, plain.centers)
    assert weighted.cost == plain.cost * factor


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("preset", PRESETS)
def test_nodes_of_weight_zero_get_a_label_and_change_nothing(preset):
    X, _ = blobs(n=80)
    ghosts = 200.0 * np.random.default_rng(5).normal(size=(20, 4, 3))
    alone = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    weights = np.repeat([1.0, 0.0], [80, 20])
    both = Nodes.from_dense(np.concatenate([X, ghosts]), weights=weights)
    haunted = solve(both, 4, preset=preset, random_state=0)
    assert_allclose(haunted.centers, alone.centers, rtol=1e-12)
    assert haunted.cost == alone.cost
    assert_array_equal(haunted.labels, assign(both, haunted.centers))


@pytest.mark.parametrize("preset", PRESETS)
def test_float32_nodes_are_solved_like_float64_ones(preset):
    X, _ = blobs()
    single, double = (
        solve(Nodes.from_dense(X.astype(t)), 4, preset=preset, random_state=0) for t in (np.float32, float)
    )
    assert_array_equal(single.labels, double.labels)
    assert_allclose(single.cost, double.cost, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_bits_do_not_depend_on_the_number_of_threads(preset):
    X = np.random.default_rng(6).normal(size=(9_000, 3, 20))
    found = []
    for n_jobs in (1, 2, 7):
        with _parallel.limited(n_jobs):
            some = Nodes.from_dense(X)
            assert len(some.pieces()) > 2
            assert len(Problem.of(some).lifted().nodes.pieces()) > 1
            result = solve(some, 5, preset=preset, n_init=2, max_iter=8, random_state=0)
        found.append((result.centers.tobytes(), result.labels.tobytes(), result.cost, result.lower_bound))
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("preset", PRESETS)
def test_nodes_are_not_modified(preset):
    X, _ = blobs(n=50)
    weights = np.arange(50.0)
    some = Nodes.from_dense(X, weights=weights)
    init = X[:4, 0].copy()
    kept = [a.copy() for a in (some.points, some.probabilities, some.offsets, some.weights, init)]
    solve(some, 4, preset=preset, init=init, random_state=0)
    solve(some, 4, preset=preset, random_state=0)
    for now, before in zip((some.points, some.probabilities, some.offsets, some.weights, init), kept, strict=True):
        assert_array_equal(now, before)


# -- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_the_same_seed_gives_the_same_bits(preset):
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    seeds = (lambda: 5, lambda: np.int64(5), lambda: np.random.default_rng(5), lambda: np.random.RandomState(5))
    for make in seeds:
        a, b = (quiet_solve(some, 6, preset=preset, n_init=1, random_state=make()).centers.tobytes() for _ in range(2))
        assert a == b
    assert np.isfinite(quiet_solve(some, 6, preset=preset, n_init=1).cost)


def test_an_int_and_its_generator_are_the_same_seed():
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    a, b = (solve(some, 6, n_init=1, random_state=s).centers for s in (5, np.random.default_rng(5)))
    assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_different_seeds_usually_differ(preset):
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    found = {
        quiet_solve(some, 6, preset=preset, n_init=1, random_state=number).centers.tobytes() for number in range(6)
    }
    assert len(found) >= 5


def test_a_generator_is_advanced():
    some = Nodes.from_dense(np.random.default_rng(7).normal(size=(200, 3, 2)))
    rng = np.random.default_rng(5)
    first, second = (quiet_solve(some, 6, preset="paper", random_state=rng).centers for _ in range(2))
    assert not np.array_equal(first, second)


# -- borders ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("search")
@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_fewer_distinct_nodes_than_clusters_are_reported(preset):
    some = Nodes.from_points(np.repeat([[0.0, 0.0], [5.0, 5.0]], 4, axis=0))
    with pytest.warns(SolverWarning, match="Only 2 of 5 clusters"):
        found = solve(some, 5, preset=preset, random_state=0)
    check_valid(found, some, 5)
    assert found.cost == 0.0


def test_nodes_that_differ_by_little_are_not_called_equal():
    rng = np.random.default_rng(0)
    some = rng.normal(size=(1, 7, 3)) + 1e-3 * rng.normal(size=(6, 1, 3))
    with pytest.warns(SolverWarning, match=r"1 of 4 clusters .* differ by so little compared to their spread"):
        solve(some, 4, random_state=0)


@pytest.mark.usefixtures("search")
@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("k", [1, 3])
def test_constant_data(preset, k):
    for some in (Nodes.from_points(np.full((10, 2), 3.0)), Nodes.from_dense(np.full((10, 4, 2), 3.0))):
        found = quiet_solve(some, k, preset=preset, random_state=0)
        check_valid(found, some, k)
        assert found.cost == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_equal_uncertain_nodes_keep_their_spread(preset):
    some = Nodes.from_dense(np.repeat([[[0.0], [1.0], [5.0]]], 6, axis=0))
    found = quiet_solve(some, 2, preset=preset, random_state=0)
    check_valid(found, some, 2)
    assert found.cost >= found.lower_bound > 0.0


def test_the_default_finds_the_median_of_equal_nodes():
    some = Nodes.from_dense(np.repeat([[[0.0], [1.0], [5.0]]], 6, axis=0))
    assert_allclose(quiet_solve(some, 2, random_state=0).cost, 10.0, rtol=1e-12)


@pytest.mark.parametrize("preset", PRESETS)
def test_one_node(preset):
    found = solve(Nodes([[0.0, 0.0], [3.0, 4.0]], [0.7, 0.1], [0, 2], [2.0]), 1, preset=preset, random_state=0)
    assert found.labels.tolist() == [0]
    assert_allclose(found.cost, 1.0, rtol=1e-12 if preset == "default" else 2.0)


@pytest.mark.parametrize("preset", PRESETS)
def test_one_round(preset):
    some = Nodes.from_dense(blobs()[0])
    found = solve(some, 4, preset=preset, max_iter=1, random_state=0)
    check_valid(found, some, 4)
    assert found.n_iter == 1


@pytest.mark.usefixtures("search")
def test_a_tolerance_of_zero_ends():
    some = Nodes.from_dense(blobs(n=60)[0])
    check_valid(solve(some, 4, tol=0.0, n_init=1, random_state=0), some, 4)


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("kind", ["large", "small", "mixed nodes", "mixed realizations", "mixed features"])
def test_extreme_coordinates_stay_finite(preset, kind):
    X = np.random.default_rng(8).normal(size=(60, 4, 2))
    if kind == "large":
        X *= 1e140
    elif kind == "small":
        X *= 1e-130
    elif kind == "mixed nodes":
        X[:20] *= 1e140
        X[20:40] *= 1e-130
    elif kind == "mixed realizations":
        X[:, 0] *= 1e140
        X[:, 1] *= 1e-130
    else:
        X *= [1e140, 1e-130]
    for some in (Nodes.from_dense(X), Nodes.from_points(X[:, 0])):
        found = quiet_solve(some, 3, preset=preset, random_state=0)
        check_valid(found, some, 3)
        assert found.cost > 0.0


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("factor", [1e-200, 1e-100, 1e140])
@pytest.mark.parametrize("preset", PRESETS)
def test_extreme_weights_change_nothing(preset, factor):
    X, _ = blobs(n=100)
    plain = solve(Nodes.from_dense(X), 4, preset=preset, random_state=0)
    scaled = solve(Nodes.from_dense(X, weights=np.full(100, factor)), 4, preset=preset, random_state=0)
    assert_allclose(scaled.cost / factor, plain.cost, rtol=1e-4)


@pytest.mark.parametrize("preset", PRESETS)
def test_verbose_prints_what_is_done(capsys, preset, search):
    nodes = Nodes.from_dense(blobs(n=50)[0])
    result = solve(nodes, 3, n_init=2, preset=preset, random_state=0, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    parts = ["start 1 of 2", "start 2 of 2"]
    if preset == "default":
        # Both starts agree, so only the better one is taken further.
        cost = {line[6]: float(line.split()[5]) for line in lines if line.startswith("start")}
        parts += [f"swaps from start {min(cost, key=cost.get)}", "all realizations"]
    assert sorted(line.partition(":")[0] for line in lines) == sorted(parts)
    assert all(re.fullmatch(r".*: cost [\d.e+]+ after \d+ (round|swap)s?", line) for line in lines)
    solve(nodes, 3, n_init=2, preset=preset, random_state=0, verbose=2)
    more = capsys.readouterr().out.splitlines()
    assert set(lines) < set(more)
    assert any(re.fullmatch(r"start 2 of 2, round 1: cost [\d.e+]+", line) for line in more)
    steps = []
    found = solve(nodes, 3, n_init=2, preset=preset, random_state=0, on_progress=steps.append)
    assert capsys.readouterr().out == ""
    assert sorted(map(str, steps)) == sorted(more)
    assert found.cost == result.cost


@pytest.mark.usefixtures("search")
@pytest.mark.parametrize("what", ["start", "swaps", "nodes"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_listener_is_called_by_the_calling_thread_and_may_end_the_solver(what, error):
    told = []

    def stop(step):
        assert threading.current_thread() is threading.main_thread()
        told.append(step)
        if step.what == what:
            raise error

    with _parallel.limited(2), pytest.raises(error):
        solve(Nodes.from_dense(blobs(n=400)[0]), 8, n_init=6, random_state=0, on_progress=stop)
    assert [step.what == what for step in told].index(True) == len(told) - 1


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"n_clusters": 0},
        {"n_clusters": -2},
        {"n_clusters": 7},
        {"n_clusters": 2.0},
        {"n_clusters": True},
        {"n_clusters": "2"},
        {"preset": "fast"},
        {"n_init": 0},
        {"n_init": -1},
        {"n_init": 1.5},
        {"n_init": "many"},
        {"max_iter": 0},
        {"max_iter": 2.5},
        {"tol": -1e-9},
        {"tol": float("nan")},
        {"tol": "small"},
        {"init": [[0.0, 0.0]]},
        {"init": [[0.0], [1.0]]},
        {"init": [0.0, 1.0]},
        {"init": [[0.0, np.inf], [1.0, 1.0]]},
        {"init": "k-means++"},
        {"random_state": -1},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(options):
    some = Nodes.from_points(np.random.default_rng(0).normal(size=(6, 2)))
    with pytest.raises(InputError):
        solve(some, **{"n_clusters": 2, **options})


@pytest.mark.parametrize("preset", PRESETS)
def test_weights_that_are_all_zero_are_refused(preset):
    with pytest.raises(InputError, match="nothing to solve"):
        solve(Nodes.from_points([[0.0], [1.0]], [0.0, 0.0]), 1, preset=preset)


def test_centers_are_in_order_of_mass_and_equal_ones_by_coordinates():
    rng = np.random.default_rng(0)
    mass, centers = rng.integers(1, 4, 30).astype(float), rng.integers(0, 2, (30, 3)).astype(float)
    wanted = sorted(range(30), key=lambda c: (-mass[c], *centers[c]))
    assert _by_mass(mass, centers).tolist() == wanted
