"""Covertype in groups of ten, as in the paper: what it reports, and invariance at full size."""

import numpy as np
import pyarrow.parquet as pq
import pytest

import probi
from probi.objective import Assignment

# Best costs found so far, and what the paper's table of means has for P-LLOYD++.
BEST = {10: 4.318e7, 20: 3.475e7, 30: 3.090e7}
PAPER = {10: 4.32e7, 20: 3.53e7, 30: 3.20e7}


@pytest.fixture(scope="module")
def points(data_file):
    table = pq.read_table(data_file("covertype.parquet"))
    return np.column_stack([column.to_numpy() for column in table.columns]).astype(np.float64)


@pytest.fixture(scope="module")
def nodes(points):
    return probi.Nodes.from_groups(points)


@pytest.mark.parametrize("k", [10, 30])
def test_paper_preset_costs_what_the_paper_reports(nodes, k):
    costs = [probi.solve(nodes, k, preset="paper", random_state=seed).cost for seed in range(2)]
    # Ten seeds are within 3 % (make bench); two of them are averaged here, with a standard deviation below 1 %.
    assert np.mean(costs) == pytest.approx(PAPER[k], rel=0.04)


@pytest.mark.parametrize("k", [20])
def test_default_is_near_the_best_known_cost(nodes, k):
    assert probi.solve(nodes, k, random_state=0).cost <= 1.003 * BEST[k]


def test_translation_changes_no_label(points, nodes):
    here = probi.solve(nodes, 20, n_init=1, random_state=0)
    there = probi.solve(probi.Nodes.from_groups(points + 1e6), 20, n_init=1, random_state=0)
    assert np.array_equal(here.labels, there.labels)
    assert there.cost == pytest.approx(here.cost, rel=1e-9)


def test_few_exact_distances_are_enough(nodes):
    centers = probi.solve(nodes, 20, n_init=1, random_state=0).centers
    assert Assignment(nodes).update(centers, np.zeros(20), exact=True) <= 1.4 * len(nodes)


@pytest.mark.parametrize("k", [10, 30])
def test_a_summary_stands_for_all_nodes(nodes, k):
    """Three seeds; the error of ten is 0.2 to 0.5 % on the mean, never above 1.1 % (make bench), the cost 1.003."""
    errors, costs = [], []
    for seed in range(3):
        summary = probi.Summary(k, random_state=seed)
        summary.update(nodes)
        result = probi.solve(summary, k, random_state=seed)
        costs.append(probi.expected_cost(nodes, result.centers))
        errors.append(abs(result.coreset_cost / costs[-1] - 1.0))
    assert np.mean(errors) <= 0.01
    assert np.mean(costs) <= 1.01 * BEST[k]


def test_the_summary_of_the_paper_stands_for_all_nodes(nodes):
    summary = probi.Summary(20, preset="paper", random_state=0)
    summary.update(nodes)
    result = probi.solve(summary, 20, random_state=0)
    cost = probi.expected_cost(nodes, result.centers)
    assert abs(result.coreset_cost / cost - 1.0) <= 0.06
    assert cost <= 1.1 * PAPER[20]
