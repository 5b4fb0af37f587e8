"""Files and streams of nodes: readers, writers, checkpoints."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probi.io.node_assembler import Batch
    from probi.io.reader import Reader, read
    from probi.io.transform import Transform

__all__ = ["Batch", "Reader", "Transform", "read"]

# Loaded when first used: the options of the command line are defined here too, and its help needs no pyarrow.
_MODULES = {"Batch": "node_assembler", "Reader": "reader", "Transform": "transform", "read": "reader"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module 'probi.io' has no attribute {name!r}")
    value = getattr(import_module(f"probi.io.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
