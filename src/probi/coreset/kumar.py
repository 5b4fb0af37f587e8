"""Kumar, Sabharwal and Sen's 1-median by sampling: constant time per node, however many realizations it has."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._kernels import sampled_median
from probi.nodes import Nodes

Floats = NDArray[np.float64]

# The precision that the paper requires.
PRECISION = 0.9

# Realizations that span the candidates, and those that judge them, over the square of the precision. The original
# proves that a constant number of both suffices, but its constants are not available. These are 4 and 32 at the paper's
# precision; the cost was then 1.05 times the smallest on the mean of Covertype's nodes (1.06: Beijing's air) and above
# the 1 + 0.9 that is asked for in 4 of 10,000 cases. Between two points whose probabilities are such that the wrong one
# costs 1 + precision times as much, the judges err once in 30 times.
SPANNING, JUDGING = 3.2, 25.6

# Share of the precision that one repetition keeps in three of four cases, by measure (it fails in 23 % of cases where
# the wrong one of two points costs just too much); the rest is what those that judge between repetitions may miss.
KEPT_BY_ONE = 1.0 / 3.0

# Random numbers generated at a time.
MAX_NUMBERS = 1 << 22


def n_drawn(precision: float) -> tuple[int, int]:
    """How many realizations of each repetition span the candidates, and how many judge them."""
    return math.ceil(SPANNING / precision**2), math.ceil(JUDGING / precision**2)


def n_last_judges(precision: float, n_repetitions: int) -> int:
    """How many realizations it takes to choose between repetitions, and be wrong in 2 ** -(n_repetitions + 1) of cases.

    Let f be the expected distance, and g a candidate with f(g) <= (1 + a) of the smallest. One with f(b) > (1 + e) of
    it looks better than g to n judges with a probability of at most exp(-n q ** 2 / 2), q = (e - a) / (2 + e + a):
    |x - b| - |x - g| lies within |b - g| <= f(b) + f(g) of 0 and is f(b) - f(g) on the mean (Hoeffding's inequality),
    and (f(b) - f(g)) / (f(b) + f(g)) >= q. There are fewer than ``n_repetitions`` such b.
    """
    if n_repetitions == 1:
        return 0
    kept = KEPT_BY_ONE * precision
    q = (precision - kept) / (2.0 + precision + kept)
    return math.ceil(2.0 / q**2 * (math.log(n_repetitions) + (n_repetitions + 1) * math.log(2.0)))


def cumulative_probabilities(nodes: Nodes) -> Floats:
    """Running sums of the probabilities within each node, by which realizations are drawn."""
    sums = np.empty(nodes.n_realizations)
    _parallel.run(sampled_median.cumulate, nodes.pieces(), nodes.probabilities, nodes.offsets, sums)
    return sums


def kumar_medians(
    nodes: Nodes,
    chosen: NDArray[Any],
    rng: np.random.Generator,
    precision: float = PRECISION,
    n_repetitions: int = 1,
    sums: Floats | None = None,
) -> Floats:
    """Approximate medians of the chosen nodes, (n_chosen, n_features), best of some repetitions.

    Kumar, Sabharwal and Sen (2010) look for a good point in the span of a small random sample, on a grid whose size is
    exponential in 1 / precision. Candidates here are the means of all subsets of four drawn realizations and, where
    more are drawn, the end of some of Weiszfeld's steps on them, which stays in their span. Others judge them.

    Repetitions are independent, so all of them miss a third of the precision in 4 ** -n_repetitions of all cases, if
    one alone misses it in at most a quarter of them (this is measured, not proved). New judges then choose among them
    (:func:`n_last_judges`). Together they fail in at most 2 ** -n_repetitions of all cases.

    ``sums`` are those of :func:`cumulative_probabilities`, if known: the only step that reads every realization.
    """
    sums = cumulative_probabilities(nodes) if sums is None else sums
    n_spanning, n_judging = n_drawn(precision)
    n_numbers = n_repetitions * (n_spanning + n_judging) + n_last_judges(precision, n_repetitions)
    medians = np.empty((len(chosen), nodes.n_features))
    step = max(1, MAX_NUMBERS // n_numbers)
    for first in range(0, len(chosen), step):
        some = chosen[first : first + step]
        _parallel.run(
            sampled_median.sampled_medians, _parallel.ranges(len(some), 256), nodes.points, nodes.probabilities, sums,
            nodes.offsets, some, rng.random((len(some), n_numbers)), n_spanning, n_judging, n_repetitions,
            medians[first : first + step],
        )  # fmt: skip
    return medians
