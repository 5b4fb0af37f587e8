"""Clusters of machines: each worker summarizes its part of the data, and the summaries are merged.

Only plumbing between an engine that users run (:mod:`probi.engines.dask`, :mod:`probi.engines.spark`) and
:class:`probi.Summary`. Workers send summaries as bytes. An engine is one module of this folder.
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

# Bytes of files per part: large enough that starting a task is cheap, small enough that a lost worker costs seconds.
PART_BYTES = 1 << 26

# Engines by name: all modules but those that they share.
NAMES = sorted({module.name for module in iter_modules(__path__)} - {"engine", "tasks"})


def __getattr__(name: str) -> Any:
    """Load an engine when it is first used."""
    if name in NAMES:
        return import_module(f"probi.engines.{name}")
    raise AttributeError(f"module 'probi.engines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *NAMES]
