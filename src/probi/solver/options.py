"""The parameters of :func:`probi.solve`, and their checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from probi._notes import counted
from probi._types import Floats
from probi.errors import InputError
from probi.nodes import Nodes
from probi.objective import check_centers
from probi.solver.progress import Progress
from probi.validation import check_count


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

    def __post_init__(self) -> None:
        check_count("n_clusters", self.n_clusters)
        for name in ("n_init", "max_iter"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
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
