"""Summaries and assignments of Dask collections."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.types as kind
from dask.callbacks import Callback
from dask.delayed import Delayed
from distributed import as_completed, default_client
from numpy.typing import ArrayLike

from probi.engines import PART_BYTES
from probi.engines.dask.parts import (
    Blocks,
    check_bag,
    how_to_read,
    named_call,
    nodes_of_block,
    parts_of,
    parts_of_files,
    parts_of_frame,
)
from probi.engines.tasks import (
    Assign,
    Files,
    OnPart,
    Summarize,
    finish,
    groups,
    merge,
    reader_of,
    table_from_bytes,
)
from probi.objective import assign as nearest
from probi.summary import Summary
from probi.summary.config import SummaryConfig


def summarize(
    source: Any,
    n_clusters: int,
    *,
    client: Any = None,
    part_bytes: int = PART_BYTES,
    on_part: OnPart = lambda n_done, n_parts: None,
    **options: Any,
) -> Summary:
    """Summarize a Dask collection, or files that Dask workers read.

    Each partition is a shard with its number, and neighbors are merged in a tree, so the same partitions give the
    same bytes, for any number of workers in any order.

    Parameters
    ----------
    source : dask DataFrame, Array or Bag, or paths
        An Array of points (n, d) or of nodes (n, m, d); a Bag of :class:`~probi.Nodes`; or files, folders and patterns
        as in :func:`probi.io.read`, where all workers can read them.
    n_clusters : int
        Largest number of clusters to solve for later.
    client : distributed.Client, default=None
        None: the active client, else Dask's scheduler in this process.
    part_bytes : int, default=67108864
        For files: bytes that one task reads; uncompressed for Parquet, compressed for CSV.
    on_part : callable, default does nothing
        Called with the number of parts done and of all parts, to show progress.
    **options
        Parameters of :class:`~probi.Summary`: ``size``, ``preset``, ``random_state``, ``max_realizations``,
        ``epsilon``, ``delta``, ``audit_size``. Further options of :func:`probi.io.read`: ``layout``, ``features``,
        ``id``, ``probability``, ``weight``, ``group_size``, ``lonlat``, ``scale``, ``missing``, ``on_bad``,
        ``max_bad``, ``probabilities``, ``dtype``. For an Array only ``group_size``.

    Returns
    -------
    Summary
        Of all parts; for sources with columns, ``summary.about["space"]`` says how they became coordinates.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import probi
    >>> from probi.engines import dask as on_dask
    >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
    >>> on_dask.summarize(points, 4, random_state=0)
    Summary(20,000 nodes read, 800 kept, up to 4 clusters, coreset of 800, mass 20,000)
    """
    task = Summarize(SummaryConfig.taken_from(n_clusters, options))
    with _computing_on(client):
        parts = parts_of(source, task, part_bytes, options)
    return finish(merge_tree(parts, task, client, on_part), source, options)


def merge_tree(leaves: list[Delayed], task: Summarize, client: Any, on_part: OnPart) -> bytes:
    """Merge neighbors until one is left."""
    parts = leaves
    while len(parts) > 1:
        parts = [named_call("merge", merge, [parts[i] for i in group]) for group in groups(len(parts), task.fan_in)]
    data: bytes = _compute(parts[0], leaves, client, on_part)
    return data


class _Counter(Callback):
    """Counts the parts done by a scheduler in this process."""

    def __init__(self, leaves: Sequence[Delayed], on_part: OnPart) -> None:
        self._keys, self._n_done, self._on_part = {leaf.key for leaf in leaves}, 0, on_part
        super().__init__(posttask=self._count)

    def _count(self, key: Any, *_: Any) -> None:
        if key in self._keys:
            self._n_done += 1
            self._on_part(self._n_done, len(self._keys))


def _compute(root: Delayed, leaves: Sequence[Delayed], client: Any, on_part: OnPart) -> Any:
    """Compute the root, and report how many leaves are done."""
    client = client or _active_client()
    if client is None:
        with _Counter(leaves, on_part):
            return dask.compute(root)[0]
    waiting = as_completed(client.compute([root, *leaves]))
    n_done = 0
    try:
        # Futures are dropped once counted, so that the scheduler can free a leaf after its merge.
        for future in waiting:
            if future.key == root.key or future.status != "finished":
                return future.result()
            n_done += 1
            on_part(n_done, len(leaves))
    finally:
        # After an error or Ctrl-C the rest is not needed. Released, not cancelled: others may hold the same futures.
        for future in list(waiting.futures):
            future.release()


def _active_client() -> Any:
    """The client to compute on; None if the user chose another scheduler, or there is none."""
    chosen = dask.config.get("scheduler", None)
    if hasattr(chosen, "compute"):
        return chosen
    if chosen not in (None, "dask.distributed", "distributed"):
        return None
    try:
        return default_client()
    except ValueError:
        return None


def assign(
    source: Any,
    centers: ArrayLike,
    *,
    space: Any = None,
    client: Any = None,
    part_bytes: int = PART_BYTES,
    **reading: Any,
) -> Any:
    """Assign nodes to centers, lazily.

    Parameters
    ----------
    source : dask DataFrame, Array or Bag, or paths
        As in :func:`summarize`.
    centers : array-like of shape (k, d)
        Coordinates of the centers: ``result.centers``.
    space : Transform or dict, default=None
        With ``scale``: the scales used to find the centers, ``summary.about["space"]``. None: estimated from this
        source.
    client, part_bytes
        As in :func:`summarize`; the client only computes the first rows of a DataFrame.
    **reading
        As in :func:`probi.io.read`, except ``max_bad``: how many rows are left out is known only after all parts.

    Returns
    -------
    dask Array, Bag or DataFrame
        Labels: for an Array an Array, for a Bag a Bag of arrays. For a DataFrame and files a DataFrame with one row
        per node: its first row (files), its id if it has one, its cluster, and its expected distances to its own
        center and to the next.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import probi
    >>> from probi.engines import dask as on_dask
    >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
    >>> on_dask.assign(points, [[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]).compute()[:5]
    array([1, 1, 1, 0, 0], dtype=int32)
    """
    centers = np.asarray(centers)
    if isinstance(source, da.Array):
        blocks = Blocks(source, reading)
        group = blocks.group_size
        chunks = (tuple(n // group for n in blocks.array.chunks[0]),)
        return blocks.array.map_blocks(
            _labels, centers, group, chunks=chunks, drop_axis=list(range(1, blocks.array.ndim)), dtype=np.int32,
            meta=np.empty(0, np.int32),
        )  # fmt: skip
    if isinstance(source, db.Bag):
        check_bag(reading)
        return source.map(nearest, centers)
    task = Assign((centers,))
    if isinstance(source, dd.DataFrame):
        with _computing_on(client):
            how = how_to_read(source, reading, space)
            leaves = parts_of_frame(source, how, task)
        empty = task.empty(how.known, 1).drop_columns("row")  # it would count within partitions
    else:
        files = Files.of(reader_of(source, reading, space), part_bytes)
        leaves, empty = parts_of_files(files, task), task.empty(files.known, len(files.sources))
    frames = [named_call("frame", _frame_of, leaf, empty.column_names) for leaf in leaves]
    return dd.from_delayed(frames, meta=_pandas(empty), verify_meta=False)


def _computing_on(client: Any) -> Any:
    """Also compute the first rows and the partition lengths of a DataFrame on this client."""
    return contextlib.nullcontext() if client is None else dask.config.set(scheduler=client)


def _frame_of(data: bytes, names: list[str]) -> Any:
    return _pandas(table_from_bytes(data).select(names))


def _pandas(table: Any) -> Any:
    return table.to_pandas(types_mapper=_dtype_of_ids)


def _dtype_of_ids(type: Any) -> Any:
    """Arrow types for what pandas holds as objects, which Dask takes for text. None: pandas' own."""
    is_object = kind.is_date(type) or kind.is_time(type) or kind.is_decimal(type) or kind.is_binary(type)
    return pd.ArrowDtype(type) if is_object or kind.is_large_binary(type) else None


def _labels(block: Any, centers: Any, group_size: int) -> Any:
    return nearest(nodes_of_block(block, group_size), centers)
