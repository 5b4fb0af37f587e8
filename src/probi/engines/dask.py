"""probi on Dask: workers summarize partitions, and the summaries are merged in a tree.

>>> import dask.array as da
>>> import numpy as np
>>> import probi
>>> from probi.engines import dask as on_dask
>>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
>>> summary = on_dask.summarize(points, 4, random_state=0)
>>> summary.n_nodes
20000
>>> result = probi.solve(summary, 4, random_state=0)
>>> on_dask.assign(points, result.centers)
dask.array<_labels, shape=(20000,), dtype=int32, chunksize=(5000,), chunktype=numpy.ndarray>
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import resource_tracker
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as kind
from numpy.typing import ArrayLike

from probi import _parallel
from probi._notes import counted
from probi.engines import PART_BYTES
from probi.engines.engine import N_FIRST, Engine, Files, Frame, OnPart, Space, no_progress
from probi.engines.tasks import Summarize, Task, groups, merge, unpack_part
from probi.errors import InputError, MissingExtraError
from probi.estimators import KMedianBase
from probi.io.options import Options
from probi.nodes import Nodes
from probi.objective import assign_inliers, memberships
from probi.summary import Summary
from probi.tables.to_arrays import sorted_by_id
from probi.validation import check_count, seed_of

try:
    import dask
    import dask.array as da
    import dask.bag as db
    import dask.dataframe as dd
    import dask.system
    import pandas as pd
    from dask.callbacks import Callback
    from dask.delayed import Delayed, delayed
    from distributed import Client, LocalCluster, as_completed, default_client
except ImportError as error:
    raise MissingExtraError("Dask is not installed: pip install 'dask[dataframe]' distributed") from error

__all__ = ["DaskPROBI", "assign", "summarize"]

# Timeout for reaching a scheduler.
CONNECT_SECONDS = 10


def summarize(
    source: Any,
    n_clusters: int,
    *,
    client: Any = None,
    part_bytes: int = PART_BYTES,
    on_part: OnPart = no_progress,
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
        Parameters of :class:`~probi.Summary` and options of :func:`probi.io.read`; of the latter, an Array takes only
        ``layout`` and ``group_size``, and a Bag takes none.

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
    return DaskEngine(client).summarize(source, n_clusters, options, part_bytes, on_part)


def assign(
    source: Any,
    centers: ArrayLike,
    *,
    outlier_distance: float = math.inf,
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
    outlier_distance : float, default=inf
        Nodes that are farther from all centers, beyond their spread, have the label -1: ``result.outlier_distance``.
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
        per node: its first row (files), its id if it has one, its cluster, and how sure that is: the columns of
        ``assignment.parquet``.

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
    engine = DaskEngine(client)
    if not isinstance(source, (da.Array, db.Bag)):
        return engine.assign(source, centers, reading, space, part_bytes, outlier_distance)
    collection, size, _ = engine.open(source, reading)
    if isinstance(source, db.Bag):
        return collection.map(assign_inliers, np.asarray(centers), outlier_distance)
    return collection.map_blocks(
        _labels, np.asarray(centers), outlier_distance, size, chunks=(tuple(n // size for n in collection.chunks[0]),),
        drop_axis=list(range(1, collection.ndim)), dtype=np.int32, meta=np.empty(0, np.int32),
    )  # fmt: skip


class DaskEngine(Engine):
    """Dask's workers, on a client or on the active scheduler. A part is a Delayed."""

    frames = (dd.DataFrame,)

    def __init__(self, client: Any = None) -> None:
        self._client = client

    @property
    def description(self) -> str:
        """Number of workers, and address of the dashboard."""
        n_workers = len(self._client.scheduler_info(-1)["workers"])
        return f"Dask with {counted(n_workers, 'worker')}, {self._client.dashboard_link}"

    def open(self, source: Any, reading: Mapping[str, Any], space: Space = None, part_bytes: int = PART_BYTES) -> Any:
        """Find out how to read a source; an Array is rechunked so that no node is split, a Bag is unchanged."""
        with self._computing():
            if isinstance(source, (da.Array, db.Bag)):
                return Collection.of(source, reading)
            return super().open(source, reading, space, part_bytes)

    def run(self, source: Any, how: Any, task: Task) -> Any:
        """Run a task on each part of a source."""
        if not isinstance(how, Collection):
            with self._computing():
                return super().run(source, how, task)
        parts = how.nodes.to_delayed()
        if isinstance(source, da.Array):
            parts = parts.reshape(-1)
        return [_call(task, _summarize_nodes, task, *part, how.group_size) for part in enumerate(parts)]

    def _computing(self) -> Any:
        """Also compute the first rows and the lengths of partitions on the client."""
        return contextlib.nullcontext() if self._client is None else dask.config.set(scheduler=self._client)

    def on_files(self, files: Files, task: Task, numbers: range) -> list[Delayed]:
        """Delayed results for parts of files."""
        shared = delayed(files, pure=True)
        return [_call(task, Files.run, shared, task, number) for number in numbers]

    def first_rows(self, frame: Any, n_rows: int, reading: Mapping[str, Any]) -> pa.Table:
        """Rows of the first partitions: of as many as are needed to estimate scales, else of one that has some."""
        tables: list[pa.Table] = []
        for part in frame.to_delayed():
            n_left = n_rows - sum(map(len, tables))
            if n_left <= 0 or n_left < n_rows <= N_FIRST:
                break
            (rows,) = dask.compute(delayed(_rows)(part, 0, n_left))
            tables.append(_table(_with_text_names(rows)))
        return pa.concat_tables(tables, promote_options="permissive")

    def on_frame(self, frame: Any, how: Frame, task: Task) -> list[Delayed]:
        """Delayed results for partitions, after a shuffle if rows of a node may be in several of them."""
        columns = how.known.columns
        frame = _with_text_names(frame)[columns.used]
        if columns.layout == "long":
            # Rows of a node may be in several partitions, and a shuffle brings them in any order.
            # By tasks: other methods depend on the current client, or on a disk that all workers share.
            frame = frame.shuffle(on=list(columns.ids), npartitions=frame.npartitions, shuffle_method="tasks")
        parts = frame.to_delayed()
        size = columns.group_size or 1
        pieces = _whole_groups(parts, size) if columns.layout == "groups" else [[part] for part in parts]
        shared = delayed(how, pure=True)
        return [_call(task, _run_on_frame, shared, task, number, piece) for number, piece in enumerate(pieces)]

    def to_frame(self, parts: Sequence[Delayed], empty: pa.Table) -> Any:
        """Lazy DataFrame of assignments."""
        frames = [_call("frame", _frame_of, part, empty.column_names) for part in parts]
        return dd.from_delayed(frames, meta=_pandas(empty), verify_meta=False)

    def collect(self, parts: Sequence[Delayed]) -> list[bytes]:
        """Compute all parts."""
        return list(dask.compute(*parts, scheduler=self._client))

    def merge(self, parts: Sequence[Delayed], task: Summarize, on_part: OnPart = no_progress) -> bytes:
        """Compute the root of a tree of merges, and report how many leaves are done."""
        leaves, client = parts, self._client or _active_client()
        while len(parts) > 1:
            parts = [_call("merge", merge, [parts[i] for i in group]) for group in groups(len(parts), task.fan_in)]
        (root,) = parts
        left = {leaf.key for leaf in leaves}

        def count(key: Any, *_: Any) -> None:
            if key in left:
                left.remove(key)
                on_part(len(leaves) - len(left), len(leaves))

        if client is None:
            with Callback(posttask=count):
                return bytes(root.compute())
        waiting = as_completed(client.compute([root, *leaves]))
        try:
            # Futures are dropped once counted, so that the scheduler can free a leaf after its merge.
            while (future := next(waiting)).key != root.key and future.status == "finished":
                count(future.key)
            return bytes(future.result())
        finally:
            # After an error or Ctrl-C the rest is not needed. Released, not cancelled: others may hold them too.
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


def _call(what: str | Task, function: Callable[..., Any], *arguments: Any) -> Delayed:
    """Delayed call of a function, under the name the dashboard shows: that of a task, or another one."""
    name = "probi-" + (what if isinstance(what, str) else type(what).__name__.lower())
    call = delayed(function, name=f"{name}-{dask.base.tokenize(function)}", pure=True)
    return call(*arguments, dask_key_name=f"{name}-{dask.base.tokenize(function, *arguments)}")


# -- arrays and bags --------------------------------------------------------------------------------------------------


class Collection(NamedTuple):
    """A Bag of Nodes, or an Array chunked along its first axis only, and between groups of rows."""

    nodes: Any
    group_size: int = 1
    options: Options = Options()

    @classmethod
    def of(cls, source: Any, reading: Mapping[str, Any]) -> Self:
        """Check the options and the shape."""
        if isinstance(source, db.Bag):
            if reading:
                raise InputError(f"A Bag of Nodes takes no reading options, got {', '.join(reading)}.")
            return cls(source)
        unknown = [name for name in reading if name not in ("group_size", "layout")]
        if unknown:
            raise InputError(f"An Array takes no option {unknown[0]}: use a DataFrame for that.")
        n_axes = source.ndim
        if n_axes not in (2, 3):
            raise InputError(f"An Array of nodes must have 2 or 3 dimensions, got {n_axes}.")
        size = reading.get("group_size")
        if size is not None:
            check_count("group_size", size)
        size = int(size or 1)
        layout = "nested" if n_axes == 3 else "groups" if "group_size" in reading else "points"
        if reading.get("layout") not in (None, layout):
            raise InputError(f"This Array has the layout {layout!r}, not {reading['layout']!r}.")
        if n_axes == 3 and size > 1:
            raise InputError("group_size is for an Array of rows; this one has nodes along its first axis.")
        if np.isnan(source.shape[0]):
            source = source.compute_chunk_sizes()
        if len(source) % size:
            raise InputError(f"{len(source):,} rows are not a multiple of group_size {size}.")
        ends = np.unique(-(-np.cumsum(source.chunks[0]) // size) * size)
        chunks = tuple(int(n) for n in np.diff(ends, prepend=0))
        return cls(source.rechunk((chunks, *((-1,) * (n_axes - 1)))), size)


def _nodes_of_block(block: Any, group_size: int) -> Nodes:
    return Nodes.from_dense(block) if block.ndim == 3 else Nodes.from_groups(block, group_size)


def _summarize_nodes(task: Summarize, number: int, part: Any, group_size: int) -> bytes:
    """Summarize a list of nodes, or a block of an array; lazily, so that errors name the part."""
    batches = (_nodes_of_block(block, group_size) for block in [part]) if hasattr(part, "ndim") else part
    return task.of_nodes(batches, number)


def _labels(block: Any, centers: Any, outlier_distance: float, group_size: int) -> Any:
    return assign_inliers(_nodes_of_block(block, group_size), centers, outlier_distance)


def _memberships(block: Any, centers: Any, group_size: int) -> Any:
    return memberships(_nodes_of_block(block, group_size), centers)


# -- data frames ------------------------------------------------------------------------------------------------------


def _with_text_names(frame: Any) -> Any:
    """The same frame with text column names, as Arrow requires."""
    return frame.rename(columns=dict(zip(frame.columns, map(str, frame.columns), strict=True)))


def _whole_groups(parts: Sequence[Delayed], group_size: int) -> list[list[Delayed]]:
    """Rows of each partition from the start of its first group to the end of its last one."""
    starts = np.cumsum([0, *dask.compute(*[delayed(len)(part) for part in parts])])
    edges = np.minimum(-(-starts // group_size) * group_size, starts[-1])
    pieces = []
    for number, (first, last) in enumerate(pairwise(edges)):
        # The last group may end in a later partition; of one without the start of a group no rows are left.
        used = range(number, max(number + 1, int(np.searchsorted(starts, last))))
        pieces.append([delayed(_rows)(parts[i], *np.maximum([first, last] - starts[i], 0).tolist()) for i in used])
    return pieces


def _rows(frame: Any, start: int, stop: int) -> Any:
    return frame.iloc[start:stop]


def _run_on_frame(how: Frame, task: Task, number: int, frames: Sequence[Any]) -> bytes:
    def tables() -> Iterator[pa.Table]:
        table = pa.concat_tables(map(_table, frames), promote_options="permissive")
        columns = how.known.columns
        yield sorted_by_id(table, columns) if columns.layout == "long" else table

    return how.run(task, number, tables())


def _table(frame: Any) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)


def _frame_of(data: bytes, names: list[str]) -> Any:
    return _pandas(unpack_part(data)[0].select(names))


def _pandas(table: pa.Table) -> Any:
    return table.to_pandas(types_mapper=_dtype_of_ids)


def _dtype_of_ids(type: Any) -> Any:
    """Arrow types for what pandas holds as objects, which Dask takes for text. None: pandas' own."""
    is_object = kind.is_date(type) or kind.is_time(type) or kind.is_decimal(type) or kind.is_binary(type)
    return pd.ArrowDtype(type) if is_object or kind.is_large_binary(type) else None


# -- the estimator ----------------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class DaskPROBI(KMedianBase):
    """:class:`probi.PROBI` for Dask collections, and for files that Dask workers read.

    Parameters
    ----------
    n_clusters, preset, n_init, init, max_iter, tol, random_state, n_jobs, verbose
        As in :class:`probi.PROBI`; the summary is solved in this process.
    outliers, outlier_distance : float, default=None
        What is left out, as in :class:`probi.PLloyd`; :meth:`predict` labels it -1.
    summary_size, summary_params
        As in :class:`probi.PROBI`.
    reading : dict, default=None
        How DataFrames and files are read, as in :func:`probi.io.read`: ``{"layout": "groups", "group_size": 10}``.
        Weights are a column of the data: ``{"weight": "column"}``.

    Attributes
    ----------
    cluster_centers_, cost_, lower_bound_, representatives_, result_, summary_, n_iter_, n_features_in_
        As in :class:`probi.PROBI`; the cost is an estimate with a standard error, ``result_.standard_error``.
    labels_ : dask Array, Bag or DataFrame
        Result of :meth:`predict` for the fitted data, lazy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from probi.engines.dask import DaskPROBI
    >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
    >>> model = DaskPROBI(n_clusters=4, random_state=0).fit(points)
    >>> model.labels_.compute().shape
    (20000,)
    """

    summary_size: int | None = None
    summary_params: dict[str, Any] | None = None
    reading: dict[str, Any] | None = None

    def fit(self, X: Any, y: None = None) -> Self:
        """Summarize all partitions and solve the summary.

        Parameters
        ----------
        X : dask DataFrame, Array or Bag, or paths
            As in :func:`summarize`.
        y : None
            Not used.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> import dask.array as da
        >>> import numpy as np
        >>> import probi
        >>> from probi.engines import dask as on_dask
        >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
        >>> on_dask.DaskPROBI(n_clusters=4, random_state=0).fit(points).cluster_centers_.shape
        (4, 3)
        """
        seed = seed_of(self.random_state)  # draws from a Generator only once
        self.summary_ = summarize(
            X, self.n_clusters, size=self.summary_size, preset=self.preset, random_state=seed,
            **self.summary_params or {}, **self.reading or {},
        )  # fmt: skip
        self.n_features_in_ = self.summary_.n_features or 0
        with _parallel.limited(self.n_jobs):
            self.result_ = self._solve(self.summary_, seed)
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Any) -> Any:
        """Assign nodes lazily; see :func:`assign`.

        Parameters
        ----------
        X : dask DataFrame, Array or Bag, or paths
            As in :func:`summarize`.

        Returns
        -------
        dask Array, Bag or DataFrame
            Labels, and more for a DataFrame or files.

        Examples
        --------
        >>> import dask.array as da
        >>> import numpy as np
        >>> import probi
        >>> from probi.engines import dask as on_dask
        >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
        >>> model = on_dask.DaskPROBI(n_clusters=4, random_state=0).fit(points)
        >>> model.predict(points[:10]).shape
        (10,)
        """
        with self._threads_if_fitted():
            result, space = self.result_, self.summary_.about.get("space")
            return assign(
                X, result.centers, outlier_distance=result.outlier_distance, space=space, **self.reading or {}
            )

    def predict_proba(self, X: Any) -> Any:
        """Memberships of nodes, lazily; see :func:`probi.memberships`.

        Parameters
        ----------
        X : dask Array or Bag
            As in :func:`summarize`. For a DataFrame and files, :meth:`predict` returns the memberships in the own
            cluster and in the second.

        Returns
        -------
        dask Array of shape (n, n_clusters) or Bag
            A Bag has one array per item.

        Examples
        --------
        >>> import dask.array as da
        >>> import numpy as np
        >>> from probi.engines import dask as on_dask
        >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
        >>> model = on_dask.DaskPROBI(n_clusters=4, random_state=0).fit(points)
        >>> model.predict_proba(points[:10]).sum(axis=1).compute()
        array([1., 1., 1., 1., 1., 1., 1., 1., 1., 1.])
        """
        with self._threads_if_fitted():
            if not isinstance(X, (da.Array, db.Bag)):
                raise InputError("predict_proba is for an Array or a Bag: predict has memberships for a DataFrame.")
            collection, size, _ = DaskEngine().open(X, self.reading or {})
            centers = self.result_.centers
            if isinstance(X, db.Bag):
                return collection.map(memberships, centers)
            chunks = (tuple(n // size for n in collection.chunks[0]), (len(centers),))
            return collection.map_blocks(
                _memberships, centers, size, chunks=chunks, drop_axis=list(range(2, collection.ndim)), dtype=np.float64
            )


# -- the command line -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected(workers: str | None) -> Iterator[Engine]:
    """Connect to a scheduler by its address, or start that many workers on this machine; None: one per core."""
    if workers is not None and not workers.isdecimal():
        try:
            client = Client(workers, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"There is no Dask scheduler at {workers}: {error}.") from None
        with client:
            try:
                client.wait_for_workers(1, timeout=CONNECT_SECONDS)
            except TimeoutError:
                raise InputError(f"The Dask scheduler at {workers} has no workers.") from None
            yield DaskEngine(client)
        return
    n_workers = int(workers) if workers is not None else dask.system.CPU_COUNT
    # Processes of one thread each: code outside kernels holds the interpreter lock.
    # Errors of a worker are raised here in one sentence; its log would repeat them with a traceback.
    with _for_this_process_only(signal.SIGINT):
        local = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",  # a port alone would be open to other machines
            silence_logs=logging.CRITICAL,
        )
    with local as cluster, Client(cluster) as client:
        yield DaskEngine(client)


@contextlib.contextmanager
def _for_this_process_only(number: signal.Signals) -> Iterator[None]:
    """Start processes that ignore a signal: a terminal sends Ctrl-C to all of them, and each would print a traceback.

    The signal is blocked meanwhile. Threads and processes inherit that, including those that replace a lost worker;
    this process receives it once they have started.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # else the first process would start it, and that unblocks signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
