"""Compile the kernels that a first run needs late, in a separate process, while the run compiles the others."""

import os
import warnings

import numpy as np

from probi._types import Floats
from probi.nodes import Nodes
from probi.objective import Assignment
from probi.solver.lloyd import Lloyd
from probi.solver.problem import Problem
from probi.solver.search import MAX_SMALL, Search
from probi.solver.solve import solve


def main(dtype: str) -> None:
    """Solve problems with this dtype, the kernels needed last first; stop when the parent process ends.

    They are just too large for the search on small problems, which needs hardly any kernel.
    """
    parent = os.getppid()
    warnings.simplefilter("ignore")
    points = np.random.default_rng(0).normal(size=(MAX_SMALL, 2)).astype(dtype)
    problem = Problem.of(Nodes.from_points(points))
    centers = points[:2].astype(np.float64)
    steps = (
        lambda: Assignment.of(problem.nodes, centers, exact=True),
        lambda: _try_swaps(problem, centers),
        lambda: Lloyd(problem.nodes, centers).sums(),
        lambda: solve(problem.nodes, 2, random_state=0),
        lambda: solve(Nodes.from_groups(points, 4), 2, random_state=0),
    )
    for step in steps:
        if os.getppid() != parent:
            return
        step()


def _try_swaps(problem: Problem, centers: Floats) -> None:
    search = Search(problem.in_float32(problem.origin) or problem)
    search.changes(search.settled(centers), centers)
