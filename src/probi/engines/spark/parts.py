"""A Spark DataFrame, or files, as a DataFrame with one row per part."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody does
from pyspark.sql.types import LongType, StructField, StructType

from probi.engines.tasks import Files, Frame, Task, n_first, table_from_bytes, table_to_bytes
from probi.errors import InputError
from probi.tables.columns import Columns

# Result for a part: its number and bytes.
PARTS = "number long, data binary"

# Temporary columns.
NODE, ROW = "__probi_node", "__probi_row"


def parts_of_files(files: Files, task: Task, session: Any, numbers: range | None = None) -> DataFrame:
    """Result of a task for each part of some files, or for the parts with these numbers."""
    session = session or SparkSession.getActiveSession()
    if session is None:
        raise InputError("There is no active Spark session. Create one, or pass it as session.")
    numbers = range(len(files.parts)) if numbers is None else numbers
    rows = session.range(numbers.start, numbers.stop, 1, len(numbers))
    return rows.mapInArrow(_ReadPart(files, task), PARTS)


class _ReadPart:
    """Reads the parts of files whose numbers it receives."""

    def __init__(self, files: Files, task: Task) -> None:
        self.files, self.task = files, task

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield part_row(number, self.files.run(self.task, number))


def part_row(number: int, data: bytes) -> pa.RecordBatch:
    """Result for a part, as an Arrow batch for Spark."""
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), pa.array([data])], ["number", "data"])


def how_to_read(frame: DataFrame, reading: dict[str, Any], order: str | None = None, space: Any = None) -> Frame:
    """Infer the roles of the columns from the first rows; the column that gives the order is no feature."""
    if order is not None and reading.get("group_size") and reading.get("features") is None:
        frame = frame.drop(order)
    rows = map_in_arrow(frame.limit(n_first(reading)), _to_ipc, "data binary").collect()
    tables = [table_from_bytes(bytes(row.data)) for row in rows]
    if not tables:
        raise InputError("The DataFrame has no rows: there is nothing to cluster.")
    return Frame.of(pa.concat_tables(tables), reading, space)


def _to_ipc(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([table_to_bytes(pa.Table.from_batches([batch]))])], ["data"])


def parts_of_frame(
    frame: DataFrame, how: Frame, task: Task, order: str | None, n_partitions: int | None, end: ExitStack | None = None
) -> DataFrame:
    """Result of a task for each partition of a DataFrame; no node is split between two of them."""
    used = how.known.columns.used
    extra = [order] if order is not None and order not in used else []
    frame = colocate_nodes(frame.select(*map(_column, [*used, *extra])), how.known.columns, order, n_partitions, end)
    return map_in_arrow(frame.select(*map(_column, used)), _ReadPartition(how, task), PARTS)


def colocate_nodes(
    frame: DataFrame, columns: Columns, order: str | None, n_partitions: int | None, end: ExitStack | None = None
) -> DataFrame:
    """Rows of a node contiguous in one partition, in an order that does not depend on the engine.

    What Spark caches for this is released when ``end`` closes.
    """
    if columns.layout == "groups":
        if order is None:
            raise InputError(
                "A Spark DataFrame has no row order, which groups need. Pass the column that gives it as order."
            )
        frame = _in_groups(frame, order, columns.group_size or 1, end)
        ids, by = [NODE], [ROW]
    elif columns.layout == "long":
        # Rows equal in all of these columns are interchangeable.
        ids, by = list(columns.ids), columns.used
    else:
        return frame
    n_parts = n_partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return frame.repartition(n_parts, *map(_column, ids)).sortWithinPartitions(*map(_column, by))


def _column(name: str) -> Any:
    return F.col(f"`{name}`")


def map_in_arrow(frame: DataFrame, function: Callable[[Iterable[Any]], Iterator[Any]], schema: Any) -> DataFrame:
    """``frame.mapInArrow``, which by itself fails on column names with a dot."""
    if any("." in name for name in frame.columns):
        function = _RestoreNames(frame.columns, function)
        frame = frame.toDF(*(f"column {i}" for i in range(len(frame.columns))))
    return frame.mapInArrow(function, schema)


class _RestoreNames:
    """Restores the names of columns."""

    def __init__(self, names: list[str], function: Callable[[Iterable[Any]], Iterator[Any]]) -> None:
        self.names, self.function = names, function

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return self.function(batch.rename_columns(self.names) for batch in batches)


class _ReadPartition:
    """Reads a partition of a DataFrame."""

    def __init__(self, how: Frame, task: Task) -> None:
        self.how, self.task = how, task

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        yield part_row(number, self.how.run(self.task, number, tables))


# -- groups of rows ---------------------------------------------------------------------------------------------------


def _in_groups(frame: DataFrame, order: str, group_size: int, end: ExitStack | None) -> DataFrame:
    """The same rows with the number of their node; the last group may be incomplete.

    Sorted once and cached: Spark samples to partition a sorted frame, and the partitions must be the same when their
    rows are counted and when they are numbered.
    """
    ordered = frame.sort(_column(order)).persist(StorageLevel.MEMORY_AND_DISK)
    if end is not None:
        end.callback(ordered.unpersist)
    counts = {row[0]: row[1] for row in ordered.groupBy(F.spark_partition_id()).count().collect()}
    rows, n_rows = {}, 0
    for number in sorted(counts):
        rows[number] = range(n_rows, n_rows + counts[number])
        n_rows += counts[number]
    return map_in_arrow(ordered, _NumberRows(order, rows, group_size), with_columns(frame, LongType(), ROW, NODE))


def with_columns(frame: DataFrame, type: Any, *names: str) -> Any:
    """Schema of a DataFrame with more columns."""
    return StructType([*frame.schema.fields, *(StructField(name, type) for name in names)])


class _NumberRows:
    """Numbers the rows of a sorted partition, and the nodes they belong to."""

    def __init__(self, order: str, rows: dict[int, range], group_size: int) -> None:
        self.order, self.rows, self.group_size = order, rows, group_size

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        expected = self.rows.get(TaskContext.get().partitionId(), range(0))
        row, last = expected.start, None
        for batch in batches:
            last = self._check_order(last, batch.column(self.order).to_pylist())
            rows = np.arange(row, row + batch.num_rows)
            row += batch.num_rows
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(rows), pa.array(rows // self.group_size)], [*batch.schema.names, ROW, NODE]
            )
        if row != expected.stop:
            raise InputError("Spark sorted the rows again after they were counted. Do not clear its cache in between.")

    def _check_order(self, last: Any, values: list[Any]) -> Any:
        """Raise if values are missing or repeated; return the last one."""
        for value in values:
            if value is None or value != value or value == last:
                what = f"{value!r} twice" if value == last and value is not None else "no value"
                raise InputError(f"Column {self.order!r} has {what}, but must give the order of all rows.")
            last = value
        return last
