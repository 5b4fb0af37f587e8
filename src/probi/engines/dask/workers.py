"""Dask workers for ``probi cluster --engine dask``."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

import dask.system
from distributed import Client, LocalCluster

from probi.engines.dask.parts import parts_of_files
from probi.engines.dask.summaries import merge_tree
from probi.engines.tasks import Engine, Files, OnPart, Summarize, Task
from probi.errors import InputError

# Timeout for reaching a scheduler.
CONNECT_SECONDS = 10


class _Engine:
    """Files on the workers of a client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        n_workers = len(client.scheduler_info(-1)["workers"])
        self.description = f"Dask with {n_workers} worker{'s' * (n_workers != 1)}, {client.dashboard_link}"

    def summarize(self, files: Files, task: Summarize, on_part: OnPart) -> bytes:
        return merge_tree(parts_of_files(files, task), task, self._client, on_part)

    def run(self, files: Files, task: Task, numbers: range) -> list[bytes]:
        results: list[bytes] = self._client.gather(self._client.compute(parts_of_files(files, task, numbers)))
        return results


@contextmanager
def connected(workers: str | None) -> Iterator[Engine]:
    """Connect to a scheduler by its address, or start that many workers on this machine; None: one per core."""
    if workers is not None and not workers.isdecimal():
        try:
            client = Client(workers, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TimeoutError) as error:
            raise InputError(f"There is no Dask scheduler at {workers}: {error}.") from None
        with client:
            _wait_for_workers(client, workers)
            yield _Engine(client)
        return
    n_workers = int(workers) if workers is not None else dask.system.CPU_COUNT
    # Processes of one thread each: code outside kernels holds the interpreter lock.
    # Errors of a worker are raised here in one sentence; its log would repeat them with a traceback.
    with _for_this_process_only(signal.SIGINT):
        local = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        )
    with local as cluster, Client(cluster) as client:
        yield _Engine(client)


@contextmanager
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


def _wait_for_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except TimeoutError:
        raise InputError(f"The Dask scheduler at {address} has no workers.") from None
