"""A DataFrame of Spark, and files, as a DataFrame with one row a part."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody does
from pyspark.sql.types import LongType, StructField, StructType

from probi.engines._work import Files, Frame, Task, n_first, table_of_bytes, table_to_bytes
from probi.errors import InputError
from probi.tables.columns import Columns

# What a worker gives for a part: its number and bytes.
PARTS = "number long, data binary"

# Columns that are added on the way, and taken away again.
NODE, ROW = "__probi_node", "__probi_row"


def parts_of_files(files: Files, task: Task, session: Any, numbers: range | None = None) -> DataFrame:
    """What a task gives for each part of some files, or those with these numbers."""
    session = session or SparkSession.getActiveSession()
    if session is None:
        raise InputError("There is no active Spark session. Make one, or give it: session.")
    numbers = range(len(files.parts)) if numbers is None else numbers
    rows = session.range(numbers.start, numbers.stop, 1, len(numbers))
    return rows.mapInArrow(_ReadPart(files, task), PARTS)


class _ReadPart:
    """Reads the part of the files whose number comes in."""

    def __init__(self, files: Files, task: Task) -> None:
        self.files, self.task = files, task

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield part_row(number, self.files.run(self.task, number))


def part_row(number: int, data: bytes) -> pa.RecordBatch:
    """What a worker gives for a part, as Spark wants it."""
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), pa.array([data])], ["number", "data"])


def how_to_read(frame: DataFrame, reading: dict[str, Any], order: str | None = None, space: Any = None) -> Frame:
    """Find out the roles of the columns by some first rows; to give an order is a role."""
    if order is not None and reading.get("group_size") and reading.get("features") is None:
        frame = frame.drop(order)
    rows = mapped(frame.limit(n_first(reading)), _to_ipc, "data binary").collect()
    tables = [table_of_bytes(bytes(row.data)) for row in rows]
    if not tables:
        raise InputError("The DataFrame has no rows: there is nothing to cluster.")
    return Frame.of(pa.concat_tables(tables), reading, space)


def _to_ipc(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([table_to_bytes(pa.Table.from_batches([batch]))])], ["data"])


def parts_of_frame(
    frame: DataFrame, how: Frame, task: Task, order: str | None, n_partitions: int | None, end: ExitStack | None = None
) -> DataFrame:
    """What a task gives for each partition of a DataFrame; no node is torn between two of them."""
    used = how.known.columns.used
    extra = [order] if order is not None and order not in used else []
    frame = together(frame.select(*map(_column, [*used, *extra])), how.known.columns, order, n_partitions, end)
    return mapped(frame.select(*map(_column, used)), _ReadPartition(how, task), PARTS)


def together(
    frame: DataFrame, columns: Columns, order: str | None, n_partitions: int | None, end: ExitStack | None = None
) -> DataFrame:
    """Rows of a node in one partition, one after the other, in an order that does not depend on the engine.

    What Spark has to keep for it until then is let go at the ``end``.
    """
    if columns.layout == "groups":
        if order is None:
            raise InputError("A Spark DataFrame has no order of rows, so groups need one. Name its column: order.")
        frame = _in_groups(frame, order, columns.group_size or 1, end)
        ids, by = [NODE], [ROW]
    elif columns.layout == "long":
        # Two rows that are equal in all of these may change places: nobody can tell.
        ids, by = list(columns.ids), columns.used
    else:
        return frame
    n_parts = n_partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    return frame.repartition(n_parts, *map(_column, ids)).sortWithinPartitions(*map(_column, by))


def _column(name: str) -> Any:
    return F.col(f"`{name}`")


def mapped(frame: DataFrame, function: Callable[[Iterable[Any]], Iterator[Any]], schema: Any) -> DataFrame:
    """``frame.mapInArrow``, which does not find columns with a dot in their names."""
    if any("." in name for name in frame.columns):
        function = _Named(frame.columns, function)
        frame = frame.toDF(*(f"column {i}" for i in range(len(frame.columns))))
    return frame.mapInArrow(function, schema)


class _Named:
    """Calls columns by their names again."""

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
    """The same rows with the number of the node of each; the last ones may be too few for a group.

    Sorted once and kept: partitions of a sorted frame are found by sampling, and must be the same when their rows are
    counted and when they are numbered.
    """
    ordered = frame.sort(_column(order)).persist(StorageLevel.MEMORY_AND_DISK)
    if end is not None:
        end.callback(ordered.unpersist)
    counts = {row[0]: row[1] for row in ordered.groupBy(F.spark_partition_id()).count().collect()}
    rows, n_rows = {}, 0
    for number in sorted(counts):
        rows[number] = range(n_rows, n_rows + counts[number])
        n_rows += counts[number]
    return mapped(ordered, _Numbered(order, rows, group_size), with_columns(frame, LongType(), ROW, NODE))


def with_columns(frame: DataFrame, type: Any, *names: str) -> Any:
    """Schema of a DataFrame with more columns."""
    return StructType([*frame.schema.fields, *(StructField(name, type) for name in names)])


class _Numbered:
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
            raise InputError("Spark has sorted the rows anew since they were counted. Do not clear its cache between.")

    def _check_order(self, last: Any, values: list[Any]) -> Any:
        """Raise where rows have no place of their own after the last one; return the new last one."""
        for value in values:
            if value is None or value != value or value == last:
                what = f"{value!r} twice" if value == last and value is not None else "no value"
                raise InputError(f"The column {self.order!r} has {what}, but must say the order of all rows.")
            last = value
        return last
