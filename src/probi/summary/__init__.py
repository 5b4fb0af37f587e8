"""Summaries of a stream of nodes: :class:`Summary` of all of it, :class:`Window` of its last periods."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probi.summary.summary import Summary as Summary
    from probi.summary.window import Window as Window

_CLASSES = ["Summary", "Window"]


def __getattr__(name: str) -> Any:
    """Load a class when it is first used: the command line takes its options from here, and --help loads no kernel."""
    if name not in _CLASSES:
        raise AttributeError(f"module 'probi.summary' has no attribute {name!r}")
    value = getattr(import_module(f"probi.summary.{name.lower()}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return _CLASSES
