"""Clusters of machines: each worker summarizes its part of the data, and the summaries are merged.

Only plumbing between an engine that users run (:mod:`probi.engines.dask`, :mod:`probi.engines.spark`) and
:class:`probi.Summary`. Workers send summaries as bytes. An engine is one module of this folder.
"""

from pkgutil import iter_modules

from probi._lazy import lazy

# Bytes of files per part: large enough that starting a task is cheap, small enough that a lost worker costs seconds.
PART_BYTES = 1 << 26

# Engines by name: all modules but those that they share.
NAMES = sorted({module.name for module in iter_modules(__path__)} - {"engine", "tasks"})

__getattr__, __dir__ = lazy(__name__, {}, NAMES)
