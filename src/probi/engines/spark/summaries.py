"""Summaries and assignments of what Spark holds."""

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
from probi.engines._work import (
    Assign,
    Files,
    Frame,
    OnPart,
    Summarize,
    finished,
    groups,
    merge,
    reader_of,
    table_of_bytes,
)
from probi.engines.spark.parts import PARTS, how_to_read, part_row, parts_of_files, parts_of_frame
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
    """Summarise a Spark DataFrame, or files that the executors read.

    The number of a partition is the number of its shard, and neighbours are merged in a tree, so the same partitions
    give the same bytes, whatever the number of executors and the order in which they finish.

    Parameters
    ----------
    source : DataFrame or paths
        Files, folders and patterns are read as in :func:`probi.io.read`, and must be in places that all executors see.
    n_clusters : int
        Largest number of clusters to solve for later.
    order : str, default=None
        Column that says in which order the rows of a DataFrame are, needed for the layout "groups". Its values must
        all be different.
    n_partitions : int, default=None
        Partitions into which the layouts "long" and "groups" bring the rows of a DataFrame, so that those of a node
        are together. None: ``spark.sql.shuffle.partitions``.
    session : SparkSession, default=None
        For files. None: the active one.
    part_bytes : int, default=67108864
        Files: how much one task reads, in bytes as the files count them: Parquet before, CSV after compression.
    on_part : callable, default does nothing
        Called with the number of parts that are done and of all of them, to show progress.
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
        data, _ = merged_frame(source, how, task, order, n_partitions, on_part)
    else:
        leaves = parts_of_files(Files.of(reader_of(source, options), part_bytes), task, session)
        data, _ = merged(leaves, task.fan_in, on_part)
    return finished(data, source, options)


# -- merging ----------------------------------------------------------------------------------------------------------


class _Merge:
    """Merges the parts of each group that are in a partition."""

    def __init__(self, fan_in: int) -> None:
        self.fan_in = fan_in

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, list[tuple[int, bytes]]] = {}
        for batch in batches:
            for number, data in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                found.setdefault(number // self.fan_in, []).append((number, data))
        for number, parts in sorted(found.items()):
            yield part_row(number, merge([data for _, data in sorted(parts)]))


def merged(leaves: DataFrame, fan_in: int, on_part: OnPart = lambda n_done, n_parts: None) -> tuple[bytes, int]:
    """Bytes of one summary of all parts, and the number of the parts."""
    leaves = leaves.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with told_plainly(), watched(leaves.sparkSession, on_part):
            n_parts = int(leaves.agg(F.max("number")).collect()[0][0]) + 1
        parts, n_left = leaves, n_parts
        while n_left > 1:
            n_left = len(list(groups(n_left, fan_in)))
            together = parts.repartition(n_left, F.floor(F.col("number") / fan_in))
            parts = together.mapInArrow(_Merge(fan_in), PARTS)
        with told_plainly():
            return bytes(parts.collect()[0].data), n_parts
    finally:
        leaves.unpersist()


def merged_frame(
    frame: DataFrame,
    how: Frame,
    task: Summarize,
    order: str | None,
    n_partitions: int | None,
    on_part: OnPart = lambda n_done, n_parts: None,
) -> tuple[bytes, int]:
    """Bytes of one summary of a DataFrame, and the number of its parts."""
    with ExitStack() as end:
        return merged(parts_of_frame(frame, how, task, order, n_partitions, end), task.fan_in, on_part)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Raise what a worker found wrong with the data as the same error here, without the trace of the engine."""
    try:
        yield
    except Exception as error:
        found = re.search(r"probi\.errors\.(\w+): (.*)", str(error))
        if found is None or isinstance(error, ProbiError):
            raise
        raise InputError(found[2].strip()) from None


@contextmanager
def watched(session: Any, on_part: OnPart) -> Iterator[None]:
    """Tell how many tasks of the running stages are done."""
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
        With ``scale``: the scales that the centers were found with, ``summary.about["space"]``. None: they are
        estimated from this source.
    order, n_partitions, session, part_bytes, **reading
        As in :func:`summarize`, but for ``max_bad``, which has no meaning here: how much is left out is known only when
        all parts are.

    Returns
    -------
    DataFrame
        A row a node: its id if it has one, its cluster, expected distances to its own center and to the next. Of files
        also where it begins.

    Examples
    --------
    >>> from probi.engines import spark as on_spark
    >>> rows = [("a", 0.0), ("a", 1.0), ("b", 9.0), ("b", 9.5), ("c", 9.2)]
    >>> frame = spark.createDataFrame(rows, ["id", "x"])  # spark is the session
    >>> found = on_spark.assign(frame, [[0.5], [9.2]], layout="long")
    >>> sorted((row.id, row.cluster) for row in found.collect())
    [('a', 0), ('b', 1), ('c', 1)]
    """
    task = Assign((np.asarray(centers),))
    if isinstance(source, DataFrame):
        how = how_to_read(source, reading, order, space)
        leaves = parts_of_frame(source, how, task, order, n_partitions)
        schema = task.empty(how.known, 1).drop_columns("row").schema  # which would be counted in partitions
    else:
        files = Files.of(reader_of(source, reading, space), part_bytes)
        leaves, schema = parts_of_files(files, task, session), task.empty(files.known, len(files.sources)).schema
    return leaves.mapInArrow(_Rows(schema.names), ", ".join(map(_spark_column, schema)))


def _spark_column(field: Any) -> str:
    """A column in the language of Spark."""
    type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    return f"`{field.name}` {from_arrow_type(type).simpleString()}"


class _Rows:
    """From the bytes of each part to rows."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column("data"):
                table = table_of_bytes(data.as_py())
                table = table.select(self.names)
                for j, field in enumerate(table.schema):
                    if pa.types.is_dictionary(field.type):
                        table = table.set_column(j, field.name, table.column(j).cast(field.type.value_type))
                yield from table.to_batches()
