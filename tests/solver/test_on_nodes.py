"""Last rounds on all nodes, for centers that are close already."""

import numpy as np
import pytest

from probi import Nodes, expected_cost
from probi.solver.on_nodes import best_on_nodes, refine
from probi.solver.options import silent
from probi.solver.problem import Problem


@pytest.fixture(scope="module")
def long_rows():
    """Nodes with many features in 40 groups, as float32 of unit length, and centers found on a tenth of them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 80))[rng.integers(40, size=4000)] + rng.normal(size=(4000, 80))
    problem = Problem.of(Nodes.from_points((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)))
    start = problem.nodes.points[rng.choice(4000, 40, replace=False)].astype(np.float64)
    return problem, best_on_nodes(problem.every(10), [start], 100, 1e-4, silent).centers


def test_long_rows_cost_no_more_than_by_plain_rounds(long_rows):
    problem, centers = long_rows
    refined, plain = refine(problem, centers, 100, 1e-4), best_on_nodes(problem, [centers], 100, 1e-4, silent)
    costs = [expected_cost(problem.nodes, c) for c in (centers, plain.centers, refined.centers)]
    assert costs[2] < 1.0005 * costs[1] < 0.97 * costs[0]
    assert refined.cost > (1.0 - 1e-4) * costs[2]  # of the round before, from which momentum may lead a little up
    assert refined.n_rounds > 2


def test_centers_keep_their_order(long_rows):
    problem, centers = long_rows
    order = np.random.default_rng(1).permutation(len(centers))
    moved = refine(problem, centers[order], 2, 0.0).centers
    np.testing.assert_allclose(moved, refine(problem, centers, 2, 0.0).centers[order], rtol=1e-9, atol=1e-12)
