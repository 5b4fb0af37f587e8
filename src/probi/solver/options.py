"""The parameters of :func:`probi.solve`, their checks, and the progress that listeners are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probi._notes import counted
from probi._types import Floats
from probi.errors import InputError
from probi.nodes import Nodes
from probi.objective import check_centers
from probi.validation import check_count


class Step(NamedTuple):
    """What a solver has just done. It prints as a line.

    Attributes
    ----------
    what : str
        Which part of the work: "start", "swaps" or "nodes".
    number, total : int
        Of the starts, from 1.
    n_rounds : int
        Rounds in this part so far, or swaps tried; 0 while first centers are drawn.
    cost : float
        Of the centers so far; infinite before the first round.
    is_over : bool
        Whether this part of the work is done.
    """

    what: str
    number: int
    total: int
    n_rounds: int
    cost: float
    is_over: bool

    def __str__(self) -> str:
        """One line for people."""
        name, unit = {
            "start": (f"start {self.number} of {self.total}", "round"),
            "swaps": (f"swaps from start {self.number}", "swap"),
            "nodes": ("all realizations", "round"),
        }[self.what]
        if self.n_rounds == 0:
            return f"{name}: drawing centers"
        if self.is_over:
            return f"{name}: cost {self.cost:.6g} after {self.n_rounds} {unit}{'s' * (self.n_rounds != 1)}"
        return f"{name}, {unit} {self.n_rounds}: cost {self.cost:.6g}"


OnProgress = Callable[[Step], None]
# Called with the number of rounds so far and the cost.
OnRound = Callable[[int, float], None]


def silent(n_rounds: int, cost: float) -> None:
    """Report nothing."""


class Progress:
    """Reports the steps of a solver."""

    def __init__(self, on_progress: OnProgress | None = None, verbose: int = 0) -> None:
        self._on_progress, self._verbose = on_progress, verbose

    @property
    def has_listener(self) -> bool:
        """Whether anyone listens."""
        return self._on_progress is not None or bool(self._verbose)

    def report(self, step: Step) -> None:
        """Report a step: ``verbose`` 1 prints it if a part of the work is over, 2 always."""
        if self._verbose > 1 or (self._verbose and step.is_over):
            print(step, flush=True)
        if self._on_progress is not None:
            self._on_progress(step)

    def rounds(self, what: str, number: int = 1, total: int = 1) -> OnRound:
        """Return a function that reports rounds of a part of the work."""
        return lambda n_rounds, cost: self.report(Step(what, number, total, n_rounds, cost, False))

    def finish(self, what: str, number: int, total: int, n_rounds: int, cost: float) -> None:
        """Report that a part of the work is done."""
        self.report(Step(what, number, total, n_rounds, cost, True))


@dataclass(frozen=True)
class SolveOptions:
    """Parameters as in :func:`probi.solve`; None where the preset decides."""

    n_clusters: int
    n_init: int | None = None
    preset: str | None = None
    init: ArrayLike | None = None
    max_iter: int | None = None
    tol: float = 1e-4
    random_state: Any = None
    progress: Progress = field(default_factory=Progress)
    outliers: float | None = None
    outlier_distance: float | None = None
    # What the last solution found out about its nodes, for the next one if it is of the same nodes.
    shared: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("n_clusters", "n_init", "max_iter"):
            if name == "n_clusters" or getattr(self, name) is not None:
                object.__setattr__(self, name, check_count(name, getattr(self, name)))
        tol: Any = self.tol
        if isinstance(tol, bool) or not isinstance(tol, (int, float, np.number)) or not tol >= 0.0:
            raise InputError(f"tol is {tol!r}, but must be a number that is not negative.")
        if self.outliers is not None:
            if self.outlier_distance is not None:
                raise InputError("outliers and outlier_distance cannot be combined. Give a share or a distance.")
            check_number("outliers", self.outliers, 0.0, 1.0)
        if self.outlier_distance is not None:
            check_number("outlier_distance", self.outlier_distance, 0.0, np.inf)
        if isinstance(self.init, str):
            raise InputError(
                f"init is {self.init!r}, but must be centers: an array of shape (n_clusters, n_features). Omit "
                "it to draw starts as k-means++ does."
            )

    @property
    def leaves_out(self) -> bool:
        """Whether outliers are left out."""
        return bool(self.outliers) or self.outlier_distance is not None

    def initial_centers(self, nodes: Nodes) -> Floats | None:
        """Centers to start from; None if they are to be drawn."""
        if self.init is None:
            return None
        centers = check_centers(self.init, nodes.n_features)
        if len(centers) != self.n_clusters:
            raise InputError(f"init has {counted(len(centers), 'center')}, but n_clusters is {self.n_clusters}.")
        return centers


def check_number(name: str, value: Any, least: float, end: float) -> None:
    """Raise unless a parameter is a number that is at least one bound and below the other."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not least <= value < end:
        below = "" if end == np.inf else f" and below {end:g}"
        raise InputError(f"{name} is {value!r}, but must be a number of at least {least:g}{below}.")
