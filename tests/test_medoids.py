"""Representatives: the real node of each cluster that serves best as its center."""

import copy
import pickle
import warnings

import naive
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from samples import as_lists, blobs, numbered
from strategies import build, weighted_nodes_and_centers

import probi
from probi import PROBI, InputError, Nodes, PLloyd, Summary, assign, expected_cost, medoids, representatives, solve
from probi._parallel import limited
from probi.medians import SPREAD_TOL, certified_medians


def check(nodes, centers, rtol=1e-9):
    """Compare with all costs of all nodes, by the definition."""
    found = representatives(nodes, centers)
    medians = certified_medians(nodes, SPREAD_TOL)[0].astype(float)
    labels = assign(nodes, centers)
    for c in range(len(centers)):
        members = np.flatnonzero((labels == c) & (nodes.mass > 0))
        if len(members) == 0:
            assert found.index[c] == -1
            assert np.isnan(found.medians[c]).all()
            continue
        some = nodes.take(members)
        if len(members) <= 10:
            _, least = naive.representative(as_lists(some), some.weights.tolist(), medians[members].tolist())
        else:
            least = (probi.expected_distances(some, medians[members]) * some.weights[:, None]).sum(axis=0).min()
        assert found.index[c] in members
        assert_array_equal(found.medians[c], medians[found.index[c]])
        own = expected_cost(some, medians[[found.index[c]]])
        assert_allclose(found.cost[c], own, rtol=1e-12)
        assert_allclose(own, least, rtol=rtol, atol=1e-12)
        assert_allclose(found.center_cost[c], expected_cost(some, np.asarray(centers)[[c]]), rtol=1e-12)
        assert found.gap[c] == 0.0
    return found


@given(weighted_nodes_and_centers())
def test_matches_the_definition(data):
    some, weights, centers = data
    if any(weights):
        check(build(some, weights), centers)


@pytest.fixture
def bounds_always(monkeypatch):
    monkeypatch.setattr(medoids, "MAX_TRIED", 0)


@pytest.mark.usefixtures("bounds_always")
@given(weighted_nodes_and_centers())
def test_bounds_exclude_none_that_is_best(data):
    some, weights, centers = data
    if any(weights):
        check(build(some, weights), centers)


def shapes(shape, n, d, rng):
    if shape == "tails":
        return rng.standard_t(1.5, size=(n, d))
    if shape == "skewed":
        return rng.lognormal(0, 2, size=(n, d)) * 10.0 ** np.arange(d)
    if shape == "bimodal":
        return rng.normal(size=(n, d)) + 100.0 * rng.integers(2, size=(n, 1))
    if shape == "lattice":
        return rng.integers(-1, 2, size=(n, d)).astype(float)
    if shape == "line":
        return rng.normal(size=(n, 1)) * np.ones(d)
    return rng.normal(size=(n, d))


@pytest.mark.slow
@pytest.mark.usefixtures("bounds_always")
@pytest.mark.parametrize("shape", ["tails", "skewed", "bimodal", "lattice", "line", "normal"])
@pytest.mark.parametrize(
    ("d", "m", "dtype", "shift"), [(1, 2, "f8", 0), (3, 4, "f4", 0), (2, 3, "f8", 1e9), (130, 2, "f8", 0)]
)
def test_hostile_clusters_match_the_definition(shape, d, m, dtype, shift):
    rng = np.random.default_rng(5)
    if shape == "skewed":
        d = min(d, 8)
    X = shapes(shape, 240, d, rng)[:, None] + 10.0 ** rng.uniform(-3, 1, (240, 1, 1)) * rng.normal(size=(240, m, d))
    nodes = Nodes.from_dense(
        (X + shift).astype(dtype), weights=10.0 ** rng.integers(-2, 3, 240) * rng.integers(0, 3, 240)
    )
    for centers in (X[:3, 0] + shift, 50.0 * rng.normal(size=(2, d)) + shift, [np.median(X, axis=(0, 1)) + shift]):
        check(nodes, centers, rtol=1e-6 if shift else 1e-9)


def count_evaluations(monkeypatch):
    counts = []
    evaluate = medoids._Cluster._evaluate
    monkeypatch.setattr(
        medoids._Cluster, "_evaluate", lambda self, rows: (counts.append(len(rows)), evaluate(self, rows))
    )
    return counts


@pytest.mark.slow
@pytest.mark.usefixtures("bounds_always")
@pytest.mark.parametrize(("d", "most"), [(2, 60), (10, 60), (100, 60)])
def test_few_costs_are_computed(d, most, monkeypatch):
    nodes = Nodes.from_dense(np.random.default_rng(0).normal(size=(1500, 4, d)))
    centers = solve(nodes, 2, n_init=1, random_state=0).centers
    counts = count_evaluations(monkeypatch)
    check(nodes, centers)
    assert sum(counts) <= most


def test_equal_nodes_are_tried_once(monkeypatch):
    counts = count_evaluations(monkeypatch)
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), 1000, axis=0)
    for some in (X, X[:1000], X[::50]):
        found = representatives(some, [[0.4, 0.2]])
        assert found.index.tolist() == [0]
        assert found.gap.tolist() == [0.0]
    assert sum(counts) <= 12


@pytest.mark.slow
def test_where_bounds_cannot_tell_the_gap_is_stated(monkeypatch):
    monkeypatch.setattr(medoids, "MAX_EVALUATIONS", 64)
    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 2000)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    found = representatives(circle, [[0.0, 0.0]])
    best = np.linalg.norm(circle[:, None] - circle, axis=2).sum(axis=0).min()
    assert found.gap[0] > 0.0
    assert found.cost[0] - found.gap[0] <= best <= found.cost[0]
    assert found.cost[0] < 1.02 * best


def test_any_threads_give_the_same_bits(monkeypatch):
    nodes = numbered(n=3000)
    centers = solve(nodes, 4, n_init=1, random_state=0).centers
    monkeypatch.setattr(medoids, "GRAIN", 500)
    found = []
    for n_jobs in (1, 3):
        with limited(n_jobs):
            found.append(representatives(nodes, centers))
    assert_array_equal(found[0].index, found[1].index)
    assert_array_equal(found[0].cost, found[1].cost)
    assert_array_equal(found[0].ids, nodes.ids[found[0].index])
    assert found[0].total_cost == expected_cost(nodes, found[0].medians)
    assert found[0].names == [str(i) for i in found[0].index]


def test_one_node_with_all_the_weight_represents():
    X, _ = blobs(n=200, k=1)
    nodes = Nodes.from_dense(X, weights=np.where(np.arange(200) == 77, 1e9, 1.0))
    assert representatives(nodes, [X.mean(axis=(0, 1))]).index.tolist() == [77]


@pytest.mark.slow
def test_of_a_summary_among_what_it_keeps():
    nodes = numbered(n=20_000)
    summary = Summary(4, random_state=0)
    summary.update(nodes)
    result = solve(summary, 4, random_state=0)
    found = representatives(summary, result.centers)
    coreset = summary.coreset()
    assert_array_equal(found.ids, coreset.ids[found.index])
    assert_array_equal(found.medians, certified_medians(coreset, SPREAD_TOL)[0][found.index])
    exact = expected_cost(nodes, found.medians)
    assert found.standard_error > 0.0
    assert abs(found.total_cost - exact) < 4 * found.standard_error
    assert exact < 1.02 * representatives(nodes, result.centers).total_cost
    summary.update(nodes[:5000])  # the result is of the nodes before
    assert_array_equal(result.representatives.ids, found.ids)


def test_in_results_and_estimators():
    X, _ = blobs(n=300)
    result = solve(X, 4, random_state=0)
    found = representatives(X, result.centers)
    assert_array_equal(result.representatives.index, found.index)
    assert result.representatives is result.representatives
    model = PLloyd(4, random_state=0).fit(X)
    assert_array_equal(model.representatives_.index, found.index)
    stream = PROBI(4, random_state=0).partial_fit(X)
    assert_array_equal(
        np.sort(stream.representatives_.index), np.sort(PROBI(4, random_state=0).fit(X).representatives_.index)
    )
    assert "representatives_" in dir(model)


def test_results_are_pickled_without_their_nodes():
    X, _ = blobs(n=3000)
    result = solve(X, 4, random_state=0)
    data = pickle.dumps(result)
    assert len(data) < X.nbytes / 5
    for again in (pickle.loads(data), copy.deepcopy(result)):
        assert_array_equal(again.representatives.index, result.representatives.index)
        assert again.cost == result.cost
    from dataclasses import replace

    with pytest.raises(AttributeError, match=r"probi\.representatives"):
        _ = replace(result, cost=1.0).representatives


def test_errors_and_words():
    X = np.arange(20.0).reshape(-1, 2)
    with pytest.raises(InputError, match="3 features"):
        representatives(X, np.zeros((1, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = representatives(X, X[:8] + 0.1)
        empty = representatives(X, [[0.0, 0.0], [1e6, 1e6]])
    assert repr(found) == "Representatives(0, 1, 2, 3, 4 and 3 more, cost 5.65685)"
    assert empty.names[1] == ""
    assert_array_equal(empty.increase[1], 0.0)
