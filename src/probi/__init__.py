"""probi: k-median clustering of uncertain data."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probi._thinning import ThinningBounds
    from probi.distances import assign, expected_cost, expected_distances
    from probi.errors import InputError, MissingExtraError, ProbiError, SolverWarning
    from probi.estimators import PROBI, PLloyd
    from probi.medians import one_medians
    from probi.nodes import Nodes
    from probi.solver.result import Clusters, Evaluation, Result
    from probi.solver.solve import solve
    from probi.summary import Summary
    from probi.window import Window

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

# Where each name is defined. Numba takes a third of a second to import and scikit-learn another: `probi --help` waits
# for neither, and `import probi` waits for what is used.
_MODULES = {
    name: module
    for module, names in {
        "probi._thinning": ("ThinningBounds",),
        "probi.distances": ("assign", "expected_cost", "expected_distances"),
        "probi.errors": ("InputError", "MissingExtraError", "ProbiError", "SolverWarning"),
        "probi.estimators": ("PROBI", "PLloyd"),
        "probi.medians": ("one_medians",),
        "probi.nodes": ("Nodes",),
        "probi.solver.result": ("Clusters", "Evaluation", "Result"),
        "probi.solver.solve": ("solve",),
        "probi.summary": ("Summary",),
        "probi.window": ("Window",),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'probi' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
