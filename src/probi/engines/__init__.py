"""Clusters of machines: each worker summarises its part of the data, and the summaries are merged.

Nothing but plumbing between an engine that users have (:mod:`probi.engines.dask`, :mod:`probi.engines.spark`) and
:class:`probi.Summary`. What crosses the wire are summaries as bytes.
"""

# Bytes of files that are one part: enough to make starting a task cheap, few enough that a lost worker costs seconds.
PART_BYTES = 1 << 26
