"""Compile what most tests need for one type of numbers, before several processes of them would do so side by side."""

import os
import sys
import warnings

import numpy as np

import probi
from probi import objective
from probi.coreset.lss import lss_coreset
from probi.solver import search


def main(dtype: str) -> None:
    warnings.simplefilter("ignore", probi.SolverWarning)
    search.MAX_SMALL = objective.MAX_SMALL = 0  # which would need hardly any kernel
    # Alone, beside other things that make does; and tests compare with what two processes compiled.
    os.environ["PROBI_COMPILE_AHEAD"] = "0"
    points = np.random.default_rng(0).normal(size=(3000, 3)).astype(dtype)
    for nodes in (probi.Nodes.from_points(points), probi.Nodes.from_groups(points, 10)):
        for preset in ("default", "paper"):
            summary = probi.Summary(2, size=8, preset=preset, random_state=0)
            summary.update(nodes)
            result = probi.solve(summary, 2, random_state=0)
            probi.solve(nodes, 2, preset=preset, random_state=0)
        if dtype == "float64":  # many clusters have kernels of their own, which few tests need for float32
            probi.solve(nodes, 40, n_init=1, random_state=0)
        probi.assign(nodes, result.centers)
        if dtype == "float64" or not nodes.is_certain:  # no test needs them for certain nodes in float32
            objective.two_nearest(nodes, result.centers)
            probi.memberships(nodes, result.centers)
        probi.representatives(nodes, result.centers)
        probi.expected_distances(nodes, result.centers)
        probi.one_medians(nodes)
        lss_coreset(nodes, 2, 0.5, 0.1, 0)
    if dtype == "float64":  # one kernel for both types, compiled by the process that has less to do
        nodes.thin(4, random_state=0, return_bounds=True)


if __name__ == "__main__":
    main(sys.argv[1])
