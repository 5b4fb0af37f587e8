"""Workers of Dask for ``probi cluster --engine dask``."""

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

import dask.system
from distributed import Client, LocalCluster

from probi.engines._work import Engine, Files, OnPart, Summarize, Task
from probi.engines.dask.parts import parts_of_files
from probi.engines.dask.summaries import tree
from probi.errors import InputError

# How long a scheduler is waited for.
CONNECT_SECONDS = 10


class _Engine:
    """Files on the workers of a client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        n_workers = len(client.scheduler_info(-1)["workers"])
        self.where = f"Dask with {n_workers} worker{'s' * (n_workers != 1)}, {client.dashboard_link}"

    def summarize(self, files: Files, task: Summarize, on_part: OnPart) -> bytes:
        return tree(parts_of_files(files, task), task, self._client, on_part)

    def run(self, files: Files, task: Task, numbers: range) -> list[bytes]:
        found: list[bytes] = self._client.gather(self._client.compute(parts_of_files(files, task, numbers)))
        return found


@contextmanager
def connected(workers: str | None) -> Iterator[Engine]:
    """Connect to a scheduler by its address, or start as many workers on this machine; None: one a core."""
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
    # Processes of one thread each: what is not in kernels holds the interpreter's lock.
    # What goes wrong on a worker is raised here, in one sentence; its log says it again with a trace.
    with _for_this_process_only(signal.SIGINT):
        local = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        )
    with local as cluster, Client(cluster) as client:
        yield _Engine(client)


@contextmanager
def _for_this_process_only(number: signal.Signals) -> Iterator[None]:
    """Start processes that do not get a signal: a terminal sends Ctrl-C to all of them, and each would print a trace.

    It is blocked meanwhile, which threads and processes inherit, also those that replace a lost worker; here it comes
    as soon as they have started.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # or the first process to start would start it, and unblock signals after that
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
