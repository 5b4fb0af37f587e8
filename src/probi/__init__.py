"""probi: k-median clustering of uncertain data."""

from typing import TYPE_CHECKING, Any

from probi._thinning import ThinningBounds
from probi.distances import assign, expected_cost, expected_distances
from probi.errors import InputError, MissingExtraError, ProbiError, SolverWarning
from probi.medians import one_medians
from probi.nodes import Nodes
from probi.solver.result import Clusters, Evaluation, Result
from probi.solver.solve import solve
from probi.summary import Summary
from probi.window import Window

if TYPE_CHECKING:
    from probi.estimators import PROBI, PLloyd

__version__ = "0.1.0.dev0"
__all__ = [
    "PROBI",
    "Clusters",
    "Evaluation",
    "InputError",
    "MissingExtraError",
    "Nodes",
    "PLloyd",
    "ProbiError",
    "Result",
    "SolverWarning",
    "Summary",
    "ThinningBounds",
    "Window",
    "assign",
    "expected_cost",
    "expected_distances",
    "one_medians",
    "solve",
]


def __getattr__(name: str) -> Any:
    """Load what needs scikit-learn when it is first asked for: importing it takes a second."""
    if name in ("PLloyd", "PROBI"):
        from probi import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'probi' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
