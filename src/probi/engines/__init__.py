"""Clusters of machines: each worker summarizes its part of the data, and the summaries are merged.

Only plumbing between an engine that users run (:mod:`probi.engines.dask`, :mod:`probi.engines.spark`) and
:class:`probi.Summary`. Workers send summaries as bytes.
"""

from importlib import import_module
from typing import Any

# Bytes of files per part: large enough that starting a task is cheap, small enough that a lost worker costs seconds.
PART_BYTES = 1 << 26


def __getattr__(name: str) -> Any:
    """Load an engine when it is first used."""
    if name in ("dask", "spark"):
        return import_module(f"probi.engines.{name}")
    raise AttributeError(f"module 'probi.engines' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "dask", "spark"]
