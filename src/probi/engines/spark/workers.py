"""Spark executors for ``probi cluster --engine spark``."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from probi.engines.spark.parts import parts_of_files
from probi.engines.spark.summaries import merge_parts, plain_errors
from probi.engines.tasks import Engine, Files, OnPart, Summarize, Task
from probi.errors import InputError


class _Engine:
    """Files on the executors of a session."""

    def __init__(self, session: Any) -> None:
        self._session = session
        context = session.sparkContext
        self.description = f"Spark {context.version} at {context.master}, {context.uiWebUrl or 'no web UI'}"

    def summarize(self, files: Files, task: Summarize, on_part: OnPart) -> bytes:
        return merge_parts(parts_of_files(files, task, self._session), task.fan_in, on_part)[0]

    def run(self, files: Files, task: Task, numbers: range) -> list[bytes]:
        with plain_errors():
            rows = parts_of_files(files, task, self._session, numbers).collect()
        return [bytes(row.data) for row in sorted(rows, key=lambda row: int(row.number))]


@contextmanager
def connected(workers: str | None) -> Iterator[Engine]:
    """Connect to a master by its address, or use that many local threads; None: as configured by spark-submit."""
    builder = SparkSession.builder.appName("probi").config("spark.ui.showConsoleProgress", "false")
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
        yield _Engine(session)
    finally:
        session.stop()
