"""PROBI as an estimator of Spark's machine learning library."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.ml import Estimator, Model
from pyspark.sql import DataFrame
from pyspark.sql.types import IntegerType

from probi.engines.spark.parts import colocate_nodes, how_to_read, map_in_arrow, with_columns
from probi.engines.spark.summaries import merge_frame
from probi.engines.tasks import Frame, Summarize, finish
from probi.errors import InputError
from probi.io.node_assembler import Batch
from probi.io.rows import FILE
from probi.objective import assign as nearest
from probi.solver.result import Result
from probi.solver.solve import solve
from probi.summary import Summary
from probi.summary.config import SummaryConfig


class SparkPROBI(Estimator):
    """k-median clustering of uncertain nodes in a Spark DataFrame; can be a stage of a Pipeline.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of centers.
    summary_size : int, default=None
        Nodes in the summary; None means 200 * n_clusters.
    preset, n_init, random_state, summary_params
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
        prediction_col: str = "prediction",
        order: str | None = None,
        n_partitions: int | None = None,
        **reading: Any,
    ) -> None:
        super().__init__()
        self.n_clusters, self.summary_size, self.preset, self.n_init = n_clusters, summary_size, preset, n_init
        self.random_state, self.summary_params, self.prediction_col = random_state, summary_params, prediction_col
        self.order, self.n_partitions, self.reading = order, n_partitions, reading

    def _fit(self, dataset: DataFrame) -> SparkPROBIModel:
        given = {"size": self.summary_size, "preset": self.preset, "random_state": self.random_state}
        task = Summarize(SummaryConfig.taken_from(self.n_clusters, given | (self.summary_params or {})))
        how = how_to_read(dataset, self.reading, self.order)
        data, _ = merge_frame(dataset, how, task, self.order, self.n_partitions)
        summary = finish(data, dataset, self.reading)
        result = solve(summary, self.n_clusters, n_init=self.n_init, random_state=task.config.seed)
        return SparkPROBIModel(summary, result, how, self.prediction_col, self.order, self.n_partitions)


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
    prediction_col, order, n_partitions
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

    def __init__(
        self,
        summary: Summary,
        result: Result,
        how: Frame,
        prediction_col: str,
        order: str | None,
        n_partitions: int | None,
    ) -> None:
        super().__init__()
        self.summary, self.result = summary, result
        self._how, self._prediction_col, self._order, self._n_partitions = how, prediction_col, order, n_partitions

    @property
    def centers(self) -> Any:
        """Coordinates of the centers, (k, d)."""
        return self.result.centers

    def _transform(self, dataset: DataFrame) -> DataFrame:
        """All columns, plus the cluster of each row's node; the order of rows changes."""
        if self._prediction_col in dataset.columns:
            raise InputError(f"Column {self._prediction_col!r} already exists. Use another prediction_col.")
        frame = colocate_nodes(dataset, self._how.known.columns, self._order, self._n_partitions)
        schema = with_columns(dataset, IntegerType(), self._prediction_col)
        return map_in_arrow(frame, _Predict(self._how, self.centers, dataset.columns, self._prediction_col), schema)


class _Predict:
    """Adds a column with the cluster of each row's node."""

    def __init__(self, how: Frame, centers: Any, names: list[str], column: str) -> None:
        self.how, self.centers, self.names, self.column = how, centers, names, column

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: deque[pa.Table] = deque()  # the reader appends to it on its own thread
        n_before = 0

        def tables() -> Iterator[pa.Table]:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                waiting.append(table)
                yield table

        for batch in self.how.reader(TaskContext.get().partitionId(), tables()).batches():
            table = _take_rows(waiting, batch.counts.rows - n_before)
            labels = self._labels(batch, n_before, len(table))
            n_before = batch.counts.rows
            yield from table.select(self.names).append_column(self.column, labels).combine_chunks().to_batches()

    def _labels(self, batch: Batch, n_before: int, n_rows: int) -> pa.Array:
        """Cluster of each row; null for rows in no node."""
        labels = np.zeros(n_rows, np.int32)
        if len(batch.nodes):
            starts = batch.where % FILE - n_before
            # Rows up to the next node belong to this one, or are left out.
            sizes = np.diff(np.append(starts, n_rows))
            labels[starts[0] :] = np.repeat(nearest(batch.nodes, self.centers), sizes)
        left_out = np.zeros(n_rows, bool)
        left_out[batch.left_out % FILE - n_before] = True
        return pa.array(labels, mask=left_out)


def _take_rows(tables: deque[pa.Table], n_rows: int) -> pa.Table:
    """Remove this many rows from the front and return them."""
    taken = []
    while n_rows > 0:
        table = tables.popleft()
        taken.append(table.slice(0, n_rows))
        if len(table) > n_rows:
            tables.appendleft(table.slice(n_rows))
        n_rows -= len(taken[-1])
    return pa.concat_tables(taken)
