"""probi on Apache Spark: executors summarize partitions, and the summaries are merged in a tree.

The executors' Python needs probi; only parameters are sent to them. ::

    from probi.engines import spark as on_spark

    summary = on_spark.summarize(spark.read.parquet("s3a://..."), 20, layout="points")
    model = on_spark.SparkPROBI(20).fit(frame)
    model.transform(frame)
"""

from __future__ import annotations

import math
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from probi.engines import PART_BYTES
from probi.engines.engine import Engine, Files, Frame, OnPart, SavedStream, no_progress
from probi.engines.tasks import Summarize, Task, groups, merge, unpack_part
from probi.errors import InputError, MissingExtraError, ProbiError
from probi.solver.result import Result
from probi.solver.solve import solve
from probi.summary import Summary
from probi.summary.config import SummaryConfig
from probi.tables.columns import Columns

try:
    from pyspark import StorageLevel, TaskContext
    from pyspark.ml import Estimator, Model
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812  as everybody does
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import IntegerType, LongType, StructType
except ImportError as error:
    raise MissingExtraError("Spark is not installed: pip install pyspark") from error

__all__ = ["SparkPROBI", "SparkPROBIModel", "StreamingSummary", "assign", "summarize"]

# Result for a part: its number and bytes.
PARTS = "number long, data binary"

# Temporary columns.
NODE, ROW = "__probi_node", "__probi_row"

POLL_SECONDS = 0.5

Batches = Iterable[pa.RecordBatch]


def summarize(
    source: Any,
    n_clusters: int,
    *,
    order: str | None = None,
    n_partitions: int | None = None,
    session: Any = None,
    part_bytes: int = PART_BYTES,
    on_part: OnPart = no_progress,
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
        Parameters of :class:`~probi.Summary` and options of :func:`probi.io.read`.

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
    return SparkEngine(session, order, n_partitions).summarize(source, n_clusters, options, part_bytes, on_part)


def assign(
    source: Any,
    centers: ArrayLike,
    *,
    outlier_distance: float = math.inf,
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
    outlier_distance : float, default=inf
        Nodes that are farther from all centers, beyond their spread, have the label -1: ``result.outlier_distance``.
    space : Transform or dict, default=None
        With ``scale``: the scales used to find the centers, ``summary.about["space"]``. None: estimated from this
        source.
    order, n_partitions, session, part_bytes, **reading
        As in :func:`summarize`, except ``max_bad``: how many rows are left out is known only after all parts.

    Returns
    -------
    DataFrame
        One row per node: its first row (files), its id if it has one, its cluster, and how sure that is: the columns of
        ``assignment.parquet``.

    Examples
    --------
    >>> from probi.engines import spark as on_spark
    >>> rows = [("a", 0.0), ("a", 1.0), ("b", 9.0), ("b", 9.5), ("c", 9.2)]
    >>> frame = spark.createDataFrame(rows, ["id", "x"])  # spark is the session
    >>> assignment = on_spark.assign(frame, [[0.5], [9.2]], layout="long")
    >>> sorted((row.id, row.cluster) for row in assignment.collect())
    [('a', 0), ('b', 1), ('c', 1)]
    """
    return SparkEngine(session, order, n_partitions).assign(
        source, centers, reading, space, part_bytes, outlier_distance
    )


class SparkEngine(Engine):
    """Spark's executors. Parts are a DataFrame with a row per part: its number and its bytes."""

    frames = (DataFrame,)

    def __init__(self, session: Any = None, order: str | None = None, n_partitions: int | None = None) -> None:
        self._session, self._order, self._n_partitions = session, order, n_partitions
        self._sorted: list[DataFrame] = []  # cached until the parts are merged

    @property
    def description(self) -> str:
        """Version, and addresses of the master and the web UI."""
        context = self._session.sparkContext
        return f"Spark {context.version} at {context.master}, {context.uiWebUrl or 'no web UI'}"

    def on_files(self, files: Files, task: Task, numbers: range) -> DataFrame:
        """Results for parts of files, lazily."""
        session = self._session or SparkSession.getActiveSession()
        if session is None:
            raise InputError("There is no active Spark session. Create one, or pass it as session.")
        rows = session.range(numbers.start, numbers.stop, 1, len(numbers))
        return rows.mapInArrow(partial(_read_parts, files, task), PARTS)

    def first_rows(self, frame: DataFrame, n_rows: int, reading: Mapping[str, Any]) -> pa.Table:
        """Some rows; the column that gives the order is no feature."""
        if self._order is not None and reading.get("group_size") and reading.get("features") is None:
            frame = frame.drop(self._order)
        rows = _map_in_arrow(frame.limit(n_rows), _pickled, "data binary").collect()
        if not rows:
            raise InputError("The DataFrame has no rows: there is nothing to cluster.")
        return pa.concat_tables(pickle.loads(row.data) for row in rows)

    def on_frame(self, frame: DataFrame, how: Frame, task: Task) -> DataFrame:
        """Results for partitions, lazily."""
        used = how.known.columns.used
        extra = [self._order] if self._order is not None and self._order not in used else []
        frame = self.colocate_nodes(frame.select(*map(_column, [*used, *extra])), how.known.columns)
        return _map_in_arrow(frame.select(*map(_column, used)), partial(_read_partition, how, task), PARTS)

    def colocate_nodes(self, frame: DataFrame, columns: Columns) -> DataFrame:
        """Rows of a node contiguous in one partition, in an order that does not depend on the engine."""
        if columns.layout == "groups":
            frame = self._in_groups(frame, columns.group_size or 1)
            ids, by = [NODE], [ROW]
        elif columns.layout == "long":
            # Rows equal in all of these columns are interchangeable.
            ids, by = list(columns.ids), columns.used
        else:
            return frame
        n_parts = self._n_partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
        return frame.repartition(n_parts, *map(_column, ids)).sortWithinPartitions(*map(_column, by))

    def _in_groups(self, frame: DataFrame, group_size: int) -> DataFrame:
        """The same rows with the number of their node; the last group may be incomplete.

        Sorted once and cached: Spark samples to partition a sorted frame, and the partitions must be the same when
        their rows are counted and when they are numbered.
        """
        if self._order is None:
            raise InputError(
                "A Spark DataFrame has no row order, which groups need. Pass the column that gives it as order."
            )
        ordered = frame.sort(_column(self._order)).persist(StorageLevel.MEMORY_AND_DISK)
        self._sorted.append(ordered)
        rows, n_rows = {}, 0
        for number, n in sorted(ordered.groupBy(F.spark_partition_id()).count().collect()):
            rows[number] = range(n_rows, n_rows + n)
            n_rows += n
        schema = StructType([*frame.schema.fields]).add(ROW, LongType()).add(NODE, LongType())
        return _map_in_arrow(ordered, partial(_number_rows, self._order, rows, group_size), schema)

    def to_frame(self, parts: DataFrame, empty: pa.Table) -> DataFrame:
        """Lazy DataFrame of assignments; Spark has no dictionaries."""
        types = [t.value_type if pa.types.is_dictionary(t) else t for t in empty.schema.types]
        schema = pa.schema(list(zip(empty.column_names, types, strict=True)))
        return parts.mapInArrow(partial(_rows_of, schema), from_arrow_schema(schema))

    def collect(self, parts: DataFrame) -> list[bytes]:
        """Compute all parts."""
        with plain_errors():
            return [bytes(row.data) for row in sorted(parts.collect(), key=lambda row: int(row.number))]

    def merge(self, parts: DataFrame, task: Summarize, on_part: OnPart = no_progress) -> bytes:
        """Merge parts in a tree of shuffles; the leaves are cached, so that a lost executor costs only its own."""
        leaves = parts.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            with plain_errors(), report_progress(leaves.sparkSession, on_part):
                n_left = int(leaves.agg(F.max("number")).collect()[0][0]) + 1
            parts = leaves
            while n_left > 1:
                n_left = len(list(groups(n_left, task.fan_in)))
                grouped = parts.repartition(n_left, F.floor(F.col("number") / task.fan_in))
                parts = grouped.mapInArrow(partial(_merge_groups, task.fan_in), PARTS)
            return self.collect(parts)[0]
        finally:
            for frame in (leaves, *self._sorted):
                frame.unpersist()
            self._sorted.clear()


# -- on executors -----------------------------------------------------------------------------------------------------


def _part_row(number: int, data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), pa.array([data])], ["number", "data"])


def _read_parts(files: Files, task: Task, batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _part_row(number, files.run(task, number))


def _read_partition(how: Frame, task: Task, batches: Batches) -> Iterator[pa.RecordBatch]:
    number = TaskContext.get().partitionId()
    yield _part_row(number, how.run(task, number, _tables(batches)))


def _tables(batches: Batches) -> Iterator[pa.Table]:
    return (pa.Table.from_batches([batch]) for batch in batches)


def _merge_groups(fan_in: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Merge the groups of parts in a partition."""
    members: dict[int, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for number, data in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            members.setdefault(number // fan_in, []).append((number, data))
    for number, parts in sorted(members.items()):
        yield _part_row(number, merge([data for _, data in sorted(parts)]))


def _rows_of(schema: pa.Schema, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows of assignments, from the bytes of parts."""
    for batch in batches:
        for data in batch.column("data"):
            table, _ = unpack_part(data.as_py())
            yield from table.select(schema.names).cast(schema).to_batches()


def _pickled(batches: Batches) -> Iterator[pa.RecordBatch]:
    for table in _tables(batches):
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(table)])], ["data"])


def _number_rows(order: str, rows: dict[int, range], group_size: int, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Number the rows of a sorted partition, and the nodes they belong to."""
    expected = rows.get(TaskContext.get().partitionId(), range(0))
    row, last = expected.start, None
    for batch in batches:
        last = _check_order(order, last, batch.column(order).to_pylist())
        numbers = np.arange(row, row + batch.num_rows)
        row += batch.num_rows
        columns = [*batch.columns, pa.array(numbers), pa.array(numbers // group_size)]
        yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, ROW, NODE])
    if row != expected.stop:
        raise InputError("Spark sorted the rows again after they were counted. Do not clear its cache in between.")


def _check_order(order: str, last: Any, values: list[Any]) -> Any:
    """Raise if values are missing or repeated; return the last one."""
    for value in values:
        if value is None or value != value or value == last:
            what = f"{value!r} twice" if value == last and value is not None else "no value"
            raise InputError(f"Column {order!r} has {what}, but must give the order of all rows.")
        last = value
    return last


def _predict(
    how: Frame, centers: Any, outlier_distance: float, names: list[str], column: str, batches: Batches
) -> Iterator[pa.RecordBatch]:
    """Add a column with the cluster of each row's node."""
    for table, labels in how.labeled(TaskContext.get().partitionId(), _tables(batches), centers, outlier_distance):
        yield from table.select(names).append_column(column, labels).combine_chunks().to_batches()


def _column(name: str) -> Any:
    return F.col(f"`{name.replace('`', '``')}`")


def _map_in_arrow(frame: DataFrame, function: Callable[[Batches], Iterator[Any]], schema: Any) -> DataFrame:
    """``frame.mapInArrow``, which by itself fails on column names with a dot."""
    if any("." in name for name in frame.columns):
        function = partial(_with_names, frame.columns, function)
        frame = frame.toDF(*(f"column {i}" for i in range(len(frame.columns))))
    return frame.mapInArrow(function, schema)


def _with_names(names: list[str], function: Callable[[Batches], Iterator[Any]], batches: Batches) -> Iterator[Any]:
    return function(batch.rename_columns(names) for batch in batches)


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


# -- the estimator ----------------------------------------------------------------------------------------------------


class SparkPROBI(Estimator):
    """k-median clustering of uncertain nodes in a Spark DataFrame; can be a stage of a Pipeline.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of centers.
    summary_size : int, default=None
        Nodes in the summary; None means 200 * n_clusters.
    preset, n_init, random_state, summary_params, outliers, outlier_distance
        As in :class:`probi.PROBI`.
    prediction_col : str, default="prediction"
        Column that ``transform`` of the model adds.
    order, n_partitions, **reading
        As in :func:`summarize`.

    Examples
    --------
    >>> from probi.engines.spark import SparkPROBI
    >>> rows = [("a", 0.0), ("a", 1.0), ("b", 9.0), ("b", 9.5), ("c", 9.2)]
    >>> frame = spark.createDataFrame(rows, ["id", "x"])  # spark is the session
    >>> model = SparkPROBI(2, layout="long", random_state=0).fit(frame)
    >>> sorted(
    ...     (row.id, row.prediction) for row in model.transform(frame).select("id", "prediction").distinct().collect()
    ... )
    [('a', 1), ('b', 0), ('c', 0)]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        summary_size: int | None = None,
        preset: str = "default",
        n_init: int | None = None,
        random_state: Any = None,
        summary_params: dict[str, Any] | None = None,
        outliers: float | None = None,
        outlier_distance: float | None = None,
        prediction_col: str = "prediction",
        order: str | None = None,
        n_partitions: int | None = None,
        **reading: Any,
    ) -> None:
        super().__init__()
        self.n_clusters, self.summary_size, self.preset, self.n_init = n_clusters, summary_size, preset, n_init
        self.random_state, self.summary_params, self.prediction_col = random_state, summary_params, prediction_col
        self.outliers, self.outlier_distance = outliers, outlier_distance
        self.order, self.n_partitions, self.reading = order, n_partitions, reading

    def _fit(self, dataset: DataFrame) -> SparkPROBIModel:
        given = {"size": self.summary_size, "preset": self.preset, "random_state": self.random_state}
        config = SummaryConfig.taken_from(self.n_clusters, given | (self.summary_params or {}))
        engine = SparkEngine(None, self.order, self.n_partitions)
        how = engine.open(dataset, self.reading)
        summary = engine.summarize_opened(dataset, how, config)
        result = solve(
            summary, self.n_clusters, n_init=self.n_init, random_state=config.seed, outliers=self.outliers,
            outlier_distance=self.outlier_distance,
        )  # fmt: skip
        return SparkPROBIModel(summary, result, how, engine, self.prediction_col)


class SparkPROBIModel(Model):
    """Centers found by ``SparkPROBI.fit``.

    Parameters
    ----------
    summary : Summary
        Summary of the data.
    result : Result
        The solution.
    how : Frame
        How rows of a DataFrame become nodes.
    engine : SparkEngine
        How rows are brought together.
    prediction_col : str
        As in :class:`SparkPROBI`.

    Attributes
    ----------
    summary : Summary
        Summary of the data: save it, merge it, or solve it for fewer clusters.
    result : Result
        Centers, cost with its standard error, and the clusters.

    Examples
    --------
    >>> from probi.engines.spark import SparkPROBI
    >>> rows = [("a", 0.0), ("a", 1.0), ("b", 9.0), ("b", 9.5), ("c", 9.2)]
    >>> frame = spark.createDataFrame(rows, ["id", "x"])  # spark is the session
    >>> model = SparkPROBI(2, layout="long", random_state=0).fit(frame)
    >>> model.centers.round(1)
    array([[9.2],
           [0.5]])
    """

    def __init__(self, summary: Summary, result: Result, how: Frame, engine: SparkEngine, prediction_col: str) -> None:
        super().__init__()
        self.summary, self.result = summary, result
        self._how, self._engine, self._prediction_col = how, engine, prediction_col

    @property
    def centers(self) -> Any:
        """Coordinates of the centers, (k, d)."""
        return self.result.centers

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """All columns, plus the cluster of each row's node; the order of rows changes."""
        if self._prediction_col in dataset.columns:
            raise InputError(f"Column {self._prediction_col!r} already exists. Use another prediction_col.")
        frame = self._engine.colocate_nodes(dataset, self._how.known.columns)
        distance = self.result.outlier_distance
        predict = partial(_predict, self._how, self.centers, distance, dataset.columns, self._prediction_col)
        schema = StructType([*dataset.schema.fields]).add(self._prediction_col, IntegerType())
        return _map_in_arrow(frame, predict, schema)


# -- structured streaming ---------------------------------------------------------------------------------------------


class StreamingSummary(SavedStream):
    r"""One summary of a structured stream, kept in a file; pass it to ``foreachBatch``.

    Each micro-batch is counted once: the file records the last one and is replaced atomically, so a batch that the
    engine repeats after a failure is skipped. The query needs a ``checkpointLocation``.

    Parameters
    ----------
    path : str or path
        File of the summary, on the driver; resumes from it if it exists.
    n_clusters, order, n_partitions, **options
        As in :func:`summarize`; ``max_bad`` is a share of all rows so far, and a batch that exceeds it stops the query.
        If ``random_state`` is None it is 0, so that a restart continues the same stream.

    Examples
    --------
    After a failure, rerun it with the same files to resume:

    >>> import tempfile
    >>> from pathlib import Path
    >>> from probi.engines.spark import StreamingSummary
    >>> folder = tempfile.TemporaryDirectory()
    >>> home = Path(folder.name)
    >>> (home / "in").mkdir()
    >>> _ = (home / "in" / "monday.csv").write_text("0.0,1.0\n2.0,3.0\n")
    >>> stream = spark.readStream.schema("x double, y double").csv(str(home / "in"))  # spark is the session
    >>> sink = StreamingSummary(home / "state.probi", 2, layout="points")
    >>> query = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(home / "state"))
    >>> query.trigger(availableNow=True).start().awaitTermination()
    >>> sink.summary.n_nodes
    2
    >>> folder.cleanup()
    """

    def __init__(
        self, path: Any, n_clusters: int, *, order: str | None = None, n_partitions: int | None = None, **options: Any
    ) -> None:
        super().__init__(SparkEngine(None, order, n_partitions), path, n_clusters, **options)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Add a micro-batch, unless it was added before."""
        # A restart of the query keeps this id.
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if self._is_new(batch_id, query):
            self._add(frame if frame.take(1) else None, batch_id, query)


# -- the command line -------------------------------------------------------------------------------------------------


# Environment variables that may configure the master.
CONFIGURATION = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE")


def is_on_this_machine(workers: str | None) -> bool:
    """Whether no other machine takes part; where Spark is configured, that is not known before it starts."""
    if workers is None:
        return not any(name in os.environ for name in CONFIGURATION)
    return workers.isdecimal() or workers.startswith("local")


@contextmanager
def connected(workers: str | None) -> Iterator[Engine]:
    """Connect to a master by its address, or use that many local threads; None: as configured by spark-submit."""
    builder = SparkSession.builder.appName("probi").config("spark.ui.showConsoleProgress", "false")
    if is_on_this_machine(workers):
        # Spark's ports and web UI are open to other machines unless Java finds this variable when it starts.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if workers is None or workers.isdecimal() or workers.startswith("local"):
        # Local executors use this Python, which has probi; the first in the path may not.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if workers is not None:
        builder = builder.master(f"local[{workers}]" if workers.isdecimal() else workers)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"Cannot start Spark with --workers {workers}: {reason}") from None
    try:
        yield SparkEngine(session)
    finally:
        session.stop()
