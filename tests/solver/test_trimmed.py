"""Outliers: left out by the definition, found where they were planted, on nodes and on summaries."""

import math

import naive
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from strategies import build, weighted_nodes_and_centers

import probi
from probi import choosing
from probi.medians import SPREAD_TOL, certified_medians
from probi.objective import excess, trimmed_cost
from probi.solver.options import SolveOptions
from probi.solver.trimmed import _RemainingCenters, threshold, trimmed_excess

CENTERS = np.array([[0.0, 0.0], [12.0, 0.0], [0.0, 12.0], [12.0, 12.0], [24.0, 6.0]])


def planted(kind, n=2000, share=0.02, seed=0):
    """Points of five clusters and outliers, and which are outliers."""
    rng = np.random.default_rng(seed)
    n_out = round(n * share)
    inliers = CENTERS[rng.integers(5, size=n - n_out)] + rng.normal(size=(n - n_out, 2))
    directions = rng.normal(size=(n_out, 2))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    if kind == "far":
        out = CENTERS.mean(axis=0) + directions * rng.uniform(60, 200, (n_out, 1))
    elif kind == "all in one place":
        out = 100.0 + rng.normal(size=(n_out, 2))
    else:  # between the clusters
        out = rng.uniform(CENTERS.min(axis=0) - 2, CENTERS.max(axis=0) + 2, (100 * n_out, 2))
        out = out[np.linalg.norm(out[:, None] - CENTERS, axis=2).min(axis=1) > 5][:n_out]
    return np.vstack([inliers, out]), np.arange(n) >= n - n_out


@given(weighted_nodes_and_centers(), st.sampled_from([0.1, 0.25, 0.5]))
def test_outliers_and_cost_match_the_definition(data, share):
    some, weights, centers = data
    weights = [w + 1.0 for w in weights]
    nodes = build(some, weights)
    spreads = certified_medians(nodes, SPREAD_TOL)[1].tolist()
    centers = np.array(centers)
    of_nodes = excess(nodes, centers)
    limit = threshold(nodes, of_nodes, SolveOptions(len(centers), outliers=share))
    # Rounding may decide between equally far nodes, on either side.
    if np.count_nonzero(np.isclose(of_nodes, limit, rtol=1e-9, atol=1e-9)) == 1:
        out, cost = naive.trimmed(some, weights, spreads, centers.tolist(), share)
        assert set(np.flatnonzero(of_nodes > limit)) == out
        assert_allclose(trimmed_cost(nodes, centers, limit)[0], cost, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["far", "between", "all in one place"])
def test_planted_outliers_are_found(kind):
    points, is_out = planted(kind)
    result = probi.solve(points, 5, outliers=0.02, random_state=0)
    assert_array_equal(result.labels == -1, is_out)
    assert result.outlier_mass == is_out.sum()
    # As if they had never been there.
    without = probi.solve(points[~is_out], 5, random_state=0)
    assert_allclose(result.cost, without.cost, rtol=1e-3)
    assert_allclose(np.sort(result.centers, axis=0), np.sort(without.centers, axis=0), atol=0.05)
    assert result.clusters.count.sum() == (~is_out).sum()
    assert_allclose(result.clusters.cost.sum(), result.cost, rtol=1e-12)
    assert (np.diff(result.clusters.mass) <= 0).all()
    assert result.lower_bound == 0.0
    assert not is_out[result.representatives.index].any()


@pytest.mark.parametrize("parameters", [{"outliers": 0.02}, {"outlier_distance": 100.0}])
def test_outliers_in_several_places_hold_no_center(parameters):
    # The two places cost more than all the rest, so the first centers, one more than needed, serve them.
    rng = np.random.default_rng(0)
    points = rng.normal(size=(600, 2)) + 9 * (np.arange(600) % 2)[:, None]
    points[:12] += 500.0 * (-1.0) ** np.arange(12)[:, None]
    result = probi.solve(points, 2, random_state=0, **parameters)
    assert_array_equal(np.flatnonzero(result.labels == -1), np.arange(12))


def test_a_distance_instead_of_a_share():
    points, is_out = planted("far")
    result = probi.solve(points, 5, outlier_distance=20.0, random_state=0)
    assert_array_equal(result.labels == -1, is_out)
    assert result.outlier_distance == 20.0


def test_wide_nodes_are_not_outliers():
    points, is_out = planted("far", n=500)
    width = np.where(np.arange(500) < 50, 500.0, 0.1)  # wide nodes that belong to clusters
    directions = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])
    nodes = probi.Nodes.from_dense(points[:, None] + width[:, None, None] * directions)
    assert_array_equal(probi.solve(nodes, 5, outliers=0.02, random_state=0).labels == -1, is_out)


def test_the_share_is_one_of_mass_and_never_exceeded():
    points = np.r_[np.zeros(10), 5.0, 9.0][:, None]
    weights = np.r_[np.ones(10), 2.0, 3.0]
    nodes = probi.Nodes.from_points(points, weights)
    for share, n_out in [(0.19, 0), (0.2, 1), (0.33, 1), (0.34, 2)]:
        result = probi.solve(nodes, 1, outliers=share, random_state=0)
        assert np.count_nonzero(result.labels == -1) == n_out
        assert result.outlier_mass <= share * 15 + 1e-9


def test_no_outliers_change_nothing():
    points, _ = planted("between", n=300)
    expected = probi.solve(points, 5, random_state=0)
    result = probi.solve(points, 5, outliers=0.0, random_state=0)
    assert_array_equal(result.centers, expected.centers)
    assert_array_equal(result.labels, expected.labels)
    assert result.outlier_distance == math.inf
    equal = probi.solve(np.ones((20, 2)), 1, outliers=0.1, random_state=0)
    assert (equal.labels == 0).all()


def test_given_centers_keep_their_order():
    points, is_out = planted("far", n=500)
    result = probi.solve(points, 5, outliers=0.02, init=CENTERS, random_state=0)
    assert_allclose(result.centers, CENTERS, atol=1.0)
    assert_array_equal(result.labels == -1, is_out)


def test_a_summary_is_solved_and_evaluated_without_outliers():
    points, is_out = planted("far", n=12_000)
    summary = probi.Summary(5, size=500, random_state=0)
    summary.update(points)
    result = probi.solve(summary, 5, outliers=0.02, random_state=0)
    nodes = probi.Nodes.from_points(points)
    labeled = excess(nodes, result.centers) > result.outlier_distance
    assert (labeled & is_out).sum() / is_out.sum() >= 0.95
    cost, _ = trimmed_cost(nodes, result.centers, result.outlier_distance)
    assert result.standard_error > 0
    assert abs(result.cost - cost) <= 3 * result.standard_error
    assert cost < 0.5 * probi.expected_cost(points, result.centers)


@pytest.mark.slow
def test_the_audit_estimates_the_trimmed_cost_of_uncertain_nodes():
    rng = np.random.default_rng(1)
    points, _ = planted("far", n=3000, share=0.05)
    width = rng.choice([0.1, 20.0], 3000)[:, None, None]
    nodes = probi.Nodes.from_dense(points[:, None] + width * rng.normal(size=(3000, 3, 2)))
    cost, lost = trimmed_cost(nodes, CENTERS, 10.0)
    spread = float((nodes.mass * certified_medians(nodes, SPREAD_TOL)[1]).sum()) - lost
    errors = []
    for seed in range(20):
        summary = probi.Summary(5, size=100, audit_size=300, random_state=seed)
        summary.update(nodes)
        known = summary.evaluate(CENTERS, 10.0)
        errors.append((known.cost - cost) / known.standard_error)
        assert known.lower_bound == 0.0
        assert_allclose(known.spread_cost, spread, rtol=0.1)
    assert abs(np.mean(errors)) < 1.0  # four standard errors and more
    assert 0.4 < np.std(errors) < 2.0


def test_a_summary_of_all_nodes_has_the_exact_cost():
    points, is_out = planted("between", n=300)
    summary = probi.Summary(5, random_state=0)
    summary.update(points)
    result = probi.solve(summary, 5, outliers=0.02, random_state=0)
    assert result.standard_error == 0.0
    assert_allclose(result.cost, result.coreset_cost, rtol=1e-12)
    assert result.outlier_mass == is_out.sum()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [probi.PLloyd, probi.PROBI])
def test_estimators_label_outliers(estimator):
    points, is_out = planted("far")
    model = estimator(5, outliers=0.02, random_state=0).fit(points)
    left_out = model.labels_ == -1
    assert left_out[is_out].all()
    assert left_out.sum() <= 1.1 * is_out.sum()  # a summary only knows about how far the share reaches
    assert_array_equal(model.predict(points), model.labels_)
    assert_array_equal(model.predict([[0.0, 1.0], [500.0, 0.0]]) == -1, [False, True])
    assert_allclose(model.cost_, probi.solve(points, 5, outliers=0.02, random_state=0).cost, rtol=0.01)


@pytest.mark.parametrize(
    "parameters",
    [
        {"outliers": 1.0},
        {"outliers": -0.1},
        {"outliers": "2 %"},
        {"outliers": True},
        {"outliers": math.nan},
        {"outlier_distance": -1.0},
        {"outlier_distance": math.inf},
        {"outliers": 0.1, "outlier_distance": 1.0},
    ],
)
def test_parameters_that_make_no_sense(parameters):
    with pytest.raises(probi.InputError, match="outlier"):
        probi.solve(np.zeros((9, 2)), 2, **parameters)


@pytest.mark.slow
@given(weighted_nodes_and_centers(), st.sampled_from([{"outliers": 0.3}, {"outlier_distance": 1.0}]))
def test_what_a_center_is_worth_is_the_cost_without_it(data, parameters):
    some, _, centers = data
    nodes, centers = build(some), np.unique(np.array(centers), axis=0)
    assume(len(centers) > 2)
    options = SolveOptions(1, **parameters)
    some_centers = _RemainingCenters(nodes, centers, options)
    for removed in (0, 1):
        # After the first removal, what is known of the nearest centers has been brought up to date.
        remaining = some_centers.remaining
        before = trimmed_excess(nodes, excess(nodes, centers[remaining]), options)
        for c in remaining:
            after = trimmed_excess(nodes, excess(nodes, centers[remaining[remaining != c]]), options)
            assert_allclose(some_centers.worth(c), after - before, rtol=1e-9, atol=1e-9)
        some_centers.remove(removed)


def test_all_nodes_cannot_be_outliers():
    nodes = probi.Nodes.from_dense(np.random.default_rng(0).normal(size=(20, 3, 2)))
    with pytest.raises(
        probi.InputError, match="All nodes are outliers: none is within 0 of a center, beyond its spread"
    ):
        probi.solve(nodes, 2, outlier_distance=0.0, random_state=0)


def test_a_summary_is_represented_without_outliers():
    points, is_out = planted("far", n=3000)
    summary = probi.Summary(5, size=200, random_state=0)
    summary.update(probi.Nodes.from_points(points, ids=np.arange(3000)))
    result = probi.solve(summary, 5, outliers=0.02, random_state=0)
    found = result.representatives
    assert not is_out[found.ids.astype(int)].any()
    assert_allclose(found.center_cost.sum(), result.coreset_cost, rtol=1e-9)
    assert abs(found.total_cost / result.cost - 1.0) < 0.1  # with outliers it would be twice as much


@pytest.mark.slow
def test_numbers_of_clusters_are_compared_without_outliers():
    # In one place near a cluster, outliers would fill the gap to it.
    rng = np.random.default_rng(0)
    points = np.repeat([[0.0, 0.0], [20.0, 0.0]], 300, axis=0) + rng.normal(size=(600, 2))
    between = np.column_stack([rng.uniform(5, 15, 40), np.zeros(40)])
    nodes = probi.Nodes.from_points(np.vstack([points, between]))
    summary = probi.Summary(2, size=4000, random_state=0)
    summary.update(nodes)
    for source in (nodes, summary):
        with_all, without = (probi.solve(source, 2, random_state=0, outliers=share) for share in (None, 40 / 640))
        assert without.outlier_mass > 35
        overlap_with, overlap_without = (choosing.compare(source, [one], 0).overlap[0] for one in (with_all, without))
        assert overlap_without < 0.7 * overlap_with
