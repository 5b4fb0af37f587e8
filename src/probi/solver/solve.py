"""Solve the probabilistic k-median problem in memory."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probi._random import generator
from probi.distances import Assignment, assign, check_centers, total_cost
from probi.errors import InputError, SolverWarning
from probi.medians import certified_medians
from probi.nodes import Nodes
from probi.solver.lloyd import Lloyd, descend, p_lloyd
from probi.solver.problem import SPREAD_TOL, Problem
from probi.solver.result import Clusters, Result
from probi.solver.seeding import seed, seed_as_in_paper
from probi.solver.swaps import Swaps

Floats = NDArray[np.float64]

PRESETS = ("default", "paper")
MAX_ITER = {"default": 100, "paper": 10}
N_INIT = {"default": 10, "paper": 1}

# A start is dropped or kept long before it has converged; what a last per mille would bring is the same for all.
START_TOL = 1e-3

# Starts that are improved by swaps, the best ones. On Covertype swaps bring them together: more of them cost time and
# gain little, one alone is at times 0.3 % above the best known cost.
N_SWAPPED = 2

# With no more coordinates than this, starts are also tried on the nodes themselves: nodes with two distant realizations
# are not well described by a median, and here it costs next to nothing.
SMALL = 1 << 17


def solve(
    nodes: Nodes,
    n_clusters: int,
    n_init: int | None = None,
    preset: str | None = None,
    init: ArrayLike | None = None,
    max_iter: int | None = None,
    tol: float = 1e-4,
    random_state: Any = None,
    verbose: int = 0,
) -> Result:
    """Find centers with a small expected cost.

    Parameters
    ----------
    nodes : Nodes
    n_clusters : int
        Number of centers.
    n_init : int, default=None
        Starts, of which the best is taken further. None: 10, and 1 with ``preset="paper"``.
    preset : {"default", "paper"}, default=None
        "paper" is P-LLOYD++ as in section 4.4 of the paper. The default tries starts on the nodes' medians, improves
        the best one by swaps of centers, and finishes on the nodes themselves.
    init : array-like of shape (n_clusters, n_features), default=None
        Centers to start from, instead of drawn ones. They keep their order and are not swapped.
    max_iter : int, default=None
        Most rounds on the nodes. None: 100, and 10 with ``preset="paper"``.
    tol : float, default=1e-4
        The default preset stops when a round lowers the cost by less than this share of it.
    random_state : None, int, Generator or RandomState
        The same seed gives the same bits, whatever the number of threads.
    verbose : int, default=0
        1 prints a line a start.

    Returns
    -------
    Result

    Warns
    -----
    SolverWarning
        If there are fewer distinct nodes than clusters, so that some clusters stay empty.

    Examples
    --------
    >>> import probi
    >>> nodes = probi.Nodes.from_dense([[[0.0], [1.0]], [[0.5], [1.5]], [[9.0], [9.5]]])
    >>> result = probi.solve(nodes, n_clusters=2, random_state=0)
    >>> result.labels
    array([0, 0, 1], dtype=int32)
    >>> result.cost
    1.25
    """
    result = solved(nodes, n_clusters, n_init, preset, init, max_iter, tol, random_state, verbose)
    if result.n_distinct < n_clusters:
        warnings.warn(few_distinct(result), SolverWarning, stacklevel=2)
    return result


def few_distinct(result: Result) -> str:
    """Say that some clusters are empty; the estimators say it with a class of scikit-learn's."""
    k = len(result.centers)
    return (
        f"Only {result.n_distinct} of {k} clusters have a node. There are too few distinct nodes, or, with "
        'preset="paper", a center lost all of its nodes.'
    )


def solved(
    nodes: Nodes,
    n_clusters: int,
    n_init: int | None,
    preset: str | None,
    init: ArrayLike | None,
    max_iter: int | None,
    tol: float,
    random_state: Any,
    verbose: int,
) -> Result:
    """Solve without a warning; parameters as in :func:`solve`."""
    preset = "default" if preset is None else preset
    _check(nodes, n_clusters, preset, n_init, max_iter, tol)
    rng = generator(random_state)
    n_init = 1 if init is not None else n_init or N_INIT[preset]
    max_iter = max_iter or MAX_ITER[preset]
    given = None if init is None else check_centers(init, nodes.n_features)
    if given is not None and len(given) != n_clusters:
        raise InputError(f"init has {len(given)} centers, but n_clusters is {n_clusters}.")
    if preset == "paper":
        centers, n_iter = _solve_as_in_paper(nodes, n_clusters, n_init, given, max_iter, rng, verbose)
    else:
        centers, n_iter = _solve(nodes, n_clusters, n_init, given, max_iter, tol, rng, verbose)
    return finished(nodes, centers, n_iter, keep_order=given is not None)


def _check(nodes: Nodes, n_clusters: int, preset: str, n_init: int | None, max_iter: int | None, tol: float) -> None:
    if not isinstance(nodes, Nodes):
        raise InputError(f"Expected Nodes, not {type(nodes).__name__}. Nodes.from_points takes an array of points.")
    for name, value in (("n_clusters", n_clusters), ("n_init", n_init), ("max_iter", max_iter)):
        if (value is not None or name == "n_clusters") and not _is_count(value):
            raise InputError(f"{name} is {value!r}, but must be a whole number of at least 1.")
    if n_clusters > len(nodes):
        raise InputError(
            f"n_clusters={n_clusters} is more than n_samples={len(nodes)}, the nodes there are. Ask for fewer."
        )
    if preset not in PRESETS:
        raise InputError(f"preset is {preset!r}, but must be one of {', '.join(PRESETS)}.")
    share: Any = tol
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)) or not share >= 0.0:
        raise InputError(f"tol is {tol!r}, but must be a number that is not negative.")
    if not nodes.mass.any():
        raise InputError("All weights are zero: nothing counts, so there is nothing to solve.")


def _is_count(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= 1)


def _solve(
    nodes: Nodes, n_clusters: int, n_init: int, init: Floats | None, max_iter: int, tol: float,
    rng: np.random.Generator, verbose: int,
) -> tuple[Floats, int]:  # fmt: skip
    problem = Problem.of(nodes)
    lifted = problem.lifted()
    small = not nodes.is_certain and nodes.n_realizations * nodes.n_features <= SMALL
    starts, finalists = [], []
    for start in range(n_init):
        stream = np.random.default_rng(rng.integers(2**63))
        centers = seed(lifted, n_clusters, stream) if init is None else lifted.raised(init)
        tried = Lloyd(lifted.nodes, centers)
        n_rounds = descend(lifted, tried, max_iter, START_TOL)
        if verbose:
            print(f"start {start + 1}/{n_init}: cost of medians {tried.cost:.6g} after {n_rounds} rounds")
        starts.append((tried.cost, start, tried.centers))
        if small:
            finalists.append(_on_nodes(problem, centers, max_iter, tol))
    starts.sort(key=lambda found: found[:2])
    if init is None:
        starts = [_swapped(lifted, found, rng, verbose) for found in starts[:N_SWAPPED]]
    best = Lloyd(lifted.nodes, min(starts, key=lambda found: found[:2])[2])
    descend(lifted, best, max_iter, tol)
    finalists.append(_on_nodes(problem, best.centers, max_iter, tol))
    final, n_rounds = min(finalists, key=lambda found: found[0].cost)
    if verbose:
        print(f"nodes: cost {final.cost:.6g} after {n_rounds} rounds")
    return final.centers, n_rounds


def _swapped(
    lifted: Problem, found: tuple[float, int, Floats], rng: np.random.Generator, verbose: int
) -> tuple[float, int, Floats]:
    """Improve a start (cost, number, centers) by swaps."""
    _, number, centers = found
    search = Swaps(lifted, centers, np.random.default_rng(rng.integers(2**63)))
    search.run(patience(len(centers)))
    if verbose:
        print(f"swaps from {number + 1}: cost of medians {search.cost:.6g}")
    return search.cost, number, search.centers


def _on_nodes(problem: Problem, centers: Floats, max_iter: int, tol: float) -> tuple[Lloyd, int]:
    lloyd = Lloyd(problem.nodes, np.ascontiguousarray(centers[:, : problem.nodes.n_features]))
    return lloyd, descend(problem, lloyd, max_iter, tol)


def patience(n_clusters: int) -> int:
    """Swaps that may fail one after the other: with more centers there are more places where one may help.

    Twice as many took half as long again on Covertype and found nothing better.
    """
    return 6 + n_clusters // 4


def _solve_as_in_paper(
    nodes: Nodes, n_clusters: int, n_init: int, init: Floats | None, max_iter: int, rng: np.random.Generator,
    verbose: int,
) -> tuple[Floats, int]:  # fmt: skip
    best, best_cost, best_rounds = None, np.inf, 0
    for start in range(n_init):
        stream = np.random.default_rng(rng.integers(2**63))
        centers = seed_as_in_paper(nodes, n_clusters, stream) if init is None else init
        centers, n_rounds = p_lloyd(nodes, centers, max_iter)
        cost = finished(nodes, centers, n_rounds, keep_order=True).cost if n_init > 1 or verbose else 0.0
        if verbose:
            print(f"start {start + 1}/{n_init}: cost {cost:.6g} after {n_rounds} rounds")
        if cost < best_cost:
            best, best_cost, best_rounds = centers, cost, n_rounds
    assert best is not None
    return best, best_rounds


def finished(nodes: Nodes, centers: Floats, n_iter: int, keep_order: bool) -> Result:
    """Evaluate centers on all nodes, exactly, and put them into their order."""
    k = len(centers)
    if not keep_order:
        centers = _by_falling_mass(nodes, centers)
    # Assigned in their order, not renamed: the lowest index wins a tie.
    found = Assignment(nodes)
    found.update(centers, np.zeros(k), exact=True)
    _, spreads, lower = certified_medians(nodes, SPREAD_TOL)
    count = np.bincount(found.labels, minlength=k)
    clusters = Clusters(
        mass=_summed(found.labels, nodes.mass, k),
        cost=_summed(found.labels, nodes.mass * found.nearest, k),
        spread=_summed(found.labels, nodes.mass * spreads, k),
        count=count,
    )
    cost = total_cost(nodes, found.nearest)
    return Result(
        centers=centers,
        cost=cost,
        standard_error=0.0,
        lower_bound=min(cost, total_cost(nodes, lower)),
        coreset_cost=cost,
        labels=found.labels,
        clusters=clusters,
        n_iter=n_iter,
        n_distinct=int(np.count_nonzero(count)),
    )


def _by_falling_mass(nodes: Nodes, centers: Floats) -> Floats:
    """Centers in order of falling mass; equal ones by coordinates.

    A node between two centers goes to the first of them, so a new order may change the masses: sort again.
    """
    for _ in range(len(centers)):
        mass = _summed(assign(nodes, centers), nodes.mass, len(centers))
        order = np.lexsort((*centers.T[::-1], -mass))
        centers = np.ascontiguousarray(centers[order])
        if (order == np.arange(len(order))).all():
            break
    return centers


def _summed(labels: NDArray[np.int32], values: Floats, k: int) -> Floats:
    return np.bincount(labels, values, minlength=k).astype(np.float64, copy=False)
