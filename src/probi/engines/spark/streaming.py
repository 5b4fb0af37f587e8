"""Structured streaming: one summary of all micro-batches, each counted once."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from probi.engines.spark.parts import how_to_read
from probi.engines.spark.summaries import merge_frame
from probi.engines.tasks import Summarize, unpack_part
from probi.errors import InputError
from probi.io.node_assembler import Counts, check_left_out
from probi.io.options import Options
from probi.summary import Summary
from probi.summary.config import SummaryConfig


class StreamingSummary:
    r"""One summary of a structured stream, kept in a file; pass it to ``foreachBatch``.

    Each micro-batch is counted once: the file records the last one and is replaced atomically, so a batch that the
    engine repeats after a failure is skipped. The query needs a ``checkpointLocation``.

    Parameters
    ----------
    path : str or path
        File of the summary, on the driver; resumes from it if it exists.
    n_clusters, random_state, order, n_partitions, **options
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
        self,
        path: Any,
        n_clusters: int,
        *,
        random_state: int | None = None,
        order: str | None = None,
        n_partitions: int | None = None,
        **options: Any,
    ) -> None:
        self._path = Path(path)
        options["random_state"] = 0 if random_state is None else random_state
        self._config = SummaryConfig.taken_from(n_clusters, options)
        self._order, self._n_partitions, self._reading = order, n_partitions, options
        self._summary = Summary.load(self._path) if self._path.exists() else None
        if self._summary is not None:
            self._check_state(self._summary)

    @property
    def summary(self) -> Summary:
        """Summary of all batches so far."""
        if self._summary is None:
            return Summary.from_config(self._config)
        return self._summary.__copy__()

    def _check_state(self, summary: Summary) -> None:
        if "stream" not in summary.about:
            raise InputError(f"{self._path} is a summary, but not of a stream. Use another file.")
        before, wanted = summary.about["stream"]["seed"], self._config.seed
        for name, value in self._config.shared.items():
            if (known := summary._config.shared[name]) != value:
                raise InputError(
                    f"{self._path} has {name} {known!r}, but {value!r} was requested. Use another file to start over."
                )
        if before != wanted:
            raise InputError(f"{self._path} has seed {before}, but {wanted} was requested. Use another file.")

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Add a micro-batch, unless it was added before."""
        state = {} if self._summary is None else self._summary.about["stream"]
        query = _query_id(frame)
        if state and state["query"] != query:
            raise InputError(
                f"{self._path} belongs to another query, whose batches have the same numbers. Use another file, or the "
                "checkpointLocation that belongs to it."
            )
        if state and batch_id <= state["batch"]:
            return
        # Shard 0 is the empty summary, because the first batch may be empty.
        first = state.get("next_shard", 1)
        summary = self.summary
        space = summary.about.get("space")
        # Over the whole stream: a batch may be small.
        counts = Counts(**summary.about.get("counts", {}))
        new, new_counts, n_parts = self._summarize(frame, first, space)
        if new is not None:
            summary.merge(new)
            summary.about["space"] = new.about["space"]
            check_left_out(counts + new_counts, Options(**self._reading))
            summary.about["counts"] = asdict(counts + new_counts)
        summary.about["stream"] = {
            "query": query, "batch": batch_id, "next_shard": first + n_parts, "seed": self._config.seed
        }  # fmt: skip
        summary.save(self._path)
        self._summary = summary

    def _summarize(self, frame: DataFrame, first_shard: int, space: Any) -> tuple[Summary | None, Counts, int]:
        """Summary of a micro-batch in the scales of earlier ones, its counts of rows, and its number of shards.

        The summary is None if the batch has no rows.
        """
        if not frame.take(1):
            return None, Counts(), 0
        task = Summarize(self._config.for_shard(first_shard))
        how = how_to_read(frame, self._reading, self._order, space)
        data, n_parts = merge_frame(frame, how, task, self._order, self._n_partitions)
        summary, stats = unpack_part(data)
        return summary, stats.counts, n_parts


def _query_id(frame: DataFrame) -> str | None:
    """Id of the query of a micro-batch; a restart of the query keeps it."""
    query: str | None = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return query
