"""Summaries and assignments of Spark DataFrames and files."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody does
from pyspark.sql.pandas.types import from_arrow_type

from probi.engines import PART_BYTES
from probi.engines.spark.parts import PARTS, how_to_read, part_row, parts_of_files, parts_of_frame
from probi.engines.tasks import (
    Assign,
    Files,
    Frame,
    OnPart,
    Summarize,
    finish,
    groups,
    merge,
    reader_of,
    table_from_bytes,
)
from probi.errors import InputError, ProbiError
from probi.summary import Summary
from probi.summary.config import SummaryConfig

POLL_SECONDS = 0.5


def summarize(
    source: Any,
    n_clusters: int,
    *,
    order: str | None = None,
    n_partitions: int | None = None,
    session: Any = None,
    part_bytes: int = PART_BYTES,
    on_part: OnPart = lambda n_done, n_parts: None,
    **options: Any,
) -> Summary:
    """Summarize a Spark DataFrame, or files that the executors read.

    Each partition is a shard with its number, and neighbors are merged in a tree, so the same partitions give the
    same bytes, for any number of executors in any order.

    Parameters
    ----------
    source : DataFrame or paths
        Files, folders and patterns as in :func:`probi.io.read`, where all executors can read them.
    n_clusters : int
        Largest number of clusters to solve for later.
    order : str, default=None
        Column that gives the order of the rows of a DataFrame, needed for the layout "groups". Its values must be
        distinct.
    n_partitions : int, default=None
        Partitions after the shuffle that brings the rows of a node together, in the layouts "long" and "groups".
        None: ``spark.sql.shuffle.partitions``.
    session : SparkSession, default=None
        For files. None: the active one.
    part_bytes : int, default=67108864
        For files: bytes that one task reads; uncompressed for Parquet, compressed for CSV.
    on_part : callable, default does nothing
        Called with the number of parts done and of all parts, to show progress.
    **options
        Parameters of :class:`~probi.Summary`: ``size``, ``preset``, ``random_state``, ``max_realizations``,
        ``epsilon``, ``delta``, ``audit_size``. Further options of :func:`probi.io.read`: ``layout``, ``features``,
        ``id``, ``probability``, ``weight``, ``group_size``, ``lonlat``, ``scale``, ``missing``, ``on_bad``,
        ``max_bad``, ``probabilities``, ``dtype``.

    Returns
    -------
    Summary
        Of all parts; ``summary.about["space"]`` says how columns became coordinates.

    Examples
    --------
    >>> from probi.engines import spark as on_spark
    >>> rows = [("a", 0.0), ("a", 1.0), ("b", 9.0), ("b", 9.5), ("c", 9.2)]
    >>> frame = spark.createDataFrame(rows, ["id", "x"])  # spark is the session
    >>> on_spark.summarize(frame, 2, layout="long", random_state=0)
    Summary(3 nodes read, 3 kept, up to 2 clusters, coreset of 400, mass 3)
    """
    task = Summarize(SummaryConfig.taken_from(n_clusters, options))
    if isinstance(source, DataFrame):
        how = how_to_read(source, options, order)
        data, _ = merge_frame(source, how, task, order, n_partitions, on_part)
    else:
        leaves = parts_of_files(Files.of(reader_of(source, options), part_bytes), task, session)
        data, _ = merge_parts(leaves, task.fan_in, on_part)
    return finish(data, source, options)


# -- merging ----------------------------------------------------------------------------------------------------------


class _Merge:
    """Merges the groups of parts in a partition."""

    def __init__(self, fan_in: int) -> None:
        self.fan_in = fan_in

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        members: dict[int, list[tuple[int, bytes]]] = {}
        for batch in batches:
            for number, data in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                members.setdefault(number // self.fan_in, []).append((number, data))
        for number, parts in sorted(members.items()):
            yield part_row(number, merge([data for _, data in sorted(parts)]))


def merge_parts(leaves: DataFrame, fan_in: int, on_part: OnPart = lambda n_done, n_parts: None) -> tuple[bytes, int]:
    """Bytes of the summary of all parts, and the number of parts."""
    leaves = leaves.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with plain_errors(), report_progress(leaves.sparkSession, on_part):
            n_parts = int(leaves.agg(F.max("number")).collect()[0][0]) + 1
        parts, n_left = leaves, n_parts
        while n_left > 1:
            n_left = len(list(groups(n_left, fan_in)))
            grouped = parts.repartition(n_left, F.floor(F.col("number") / fan_in))
            parts = grouped.mapInArrow(_Merge(fan_in), PARTS)
        with plain_errors():
            return bytes(parts.collect()[0].data), n_parts
    finally:
        leaves.unpersist()


def merge_frame(
    frame: DataFrame,
    how: Frame,
    task: Summarize,
    order: str | None,
    n_partitions: int | None,
    on_part: OnPart = lambda n_done, n_parts: None,
) -> tuple[bytes, int]:
    """Bytes of the summary of a DataFrame, and its number of parts."""
    with ExitStack() as end:
        return merge_parts(parts_of_frame(frame, how, task, order, n_partitions, end), task.fan_in, on_part)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise a worker's error about the data here, without the engine's traceback."""
    try:
        yield
    except Exception as error:
        match = re.search(r"probi\.errors\.(\w+): (.*)", str(error))
        if match is None or isinstance(error, ProbiError):
            raise
        raise InputError(match[2].strip()) from None


@contextmanager
def report_progress(session: Any, on_part: OnPart) -> Iterator[None]:
    """Report how many tasks of the running stages are done."""
    try:
        tracker = session.sparkContext.statusTracker()
    except Exception:  # Spark Connect has none
        yield
        return
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(POLL_SECONDS):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if known:
                on_part(sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known))

    thread = threading.Thread(target=watch, name="probi-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


# -- assignments ------------------------------------------------------------------------------------------------------


def assign(
    source: Any,
    centers: ArrayLike,
    *,
    space: Any = None,
    order: str | None = None,
    n_partitions: int | None = None,
    session: Any = None,
    part_bytes: int = PART_BYTES,
    **reading: Any,
) -> Any:
    """Assign nodes to centers, lazily.

    Parameters
    ----------
    source : DataFrame or paths
        As in :func:`summarize`.
    centers : array-like of shape (k, d)
        Coordinates of the centers: ``result.centers``.
    space : Transform or dict, default=None
        With ``scale``: the scales used to find the centers, ``summary.about["space"]``. None: estimated from this
        source.
    order, n_partitions, session, part_bytes, **reading
        As in :func:`summarize`, except ``max_bad``: how many rows are left out is known only after all parts.

    Returns
    -------
    DataFrame
        One row per node: its id if it has one, its cluster, and its expected distances to its own center and to the
        next. For files also its first row.

    Examples
    --------
    >>> from probi.engines import spark as on_spark
    >>> rows = [("a", 0.0), ("a", 1.0), ("b", 9.0), ("b", 9.5), ("c", 9.2)]
    >>> frame = spark.createDataFrame(rows, ["id", "x"])  # spark is the session
    >>> assignment = on_spark.assign(frame, [[0.5], [9.2]], layout="long")
    >>> sorted((row.id, row.cluster) for row in assignment.collect())
    [('a', 0), ('b', 1), ('c', 1)]
    """
    task = Assign((np.asarray(centers),))
    if isinstance(source, DataFrame):
        how = how_to_read(source, reading, order, space)
        leaves = parts_of_frame(source, how, task, order, n_partitions)
        schema = task.empty(how.known, 1).drop_columns("row").schema  # it would count within partitions
    else:
        files = Files.of(reader_of(source, reading, space), part_bytes)
        leaves, schema = parts_of_files(files, task, session), task.empty(files.known, len(files.sources)).schema
    return leaves.mapInArrow(_Rows(schema.names), ", ".join(map(_spark_column, schema)))


def _spark_column(field: Any) -> str:
    """A column in Spark's schema language."""
    type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return f"`{field.name}` {from_arrow_type(type).simpleString()}"


class _Rows:
    """Converts the bytes of each part to rows."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("data"):
                table = table_from_bytes(data.as_py())
                table = table.select(self.names)
                for j, field in enumerate(table.schema):
                    if pa.types.is_dictionary(field.type):
                        table = table.set_column(j, field.name, table.column(j).cast(field.type.value_type))
                yield from table.to_batches()
