"""Threads: run a kernel over ranges of nodes on a pool, and prefetch items on a separate thread.

Kernels release the interpreter lock, so plain threads are enough; unlike Numba's own threading layers they may be
called from many threads at once and after a fork. The ranges never depend on the number of threads, so neither do
results.
"""

import _thread
import ctypes
import math
import mmap
import os
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

import numpy as np

from probi.errors import InputError

Range = tuple[int, int]
T = TypeVar("T")

# joblib and Dask set OMP_NUM_THREADS to divide the machine among their workers; it is the default here too.
THREAD_VARIABLES = ("PROBI_NUM_THREADS", "OMP_NUM_THREADS")

# More threads never helped a memory-bound loop; threads are only started when needed.
MAX_THREADS = 64

# Coordinates per task of a thread: enough to hide the overhead of a kernel call, few enough to share the work.
GRAIN = 1 << 18

# The same for a copy, which takes far less time per coordinate.
COPY_GRAIN = 1 << 21

# Nodes per range, at least, where ranges are shorter than that because each node is compared with many centers.
MIN_PIECE = 512

_n_jobs: ContextVar[int | None] = ContextVar("n_jobs", default=None)
_inside = threading.local()
_lock = threading.Lock()
# Helpers, and what they are to do.
_n_started = 0
_waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()


def ranges(n_items: int, step: int) -> list[Range]:
    """Cut ``n_items`` into ranges of ``step``; the last may be shorter."""
    return [(start, min(start + step, n_items)) for start in range(0, n_items, step)]


def ranges_of_equal_work(work: Any, at_most: int | None, at_least: int) -> list[Range]:
    """Cut items, whose work up to the end of each is given as coordinates, into ranges of about ``GRAIN``.

    ``at_least`` this many ranges, if each then has ``MIN_PIECE`` items, and ``at_most`` this many.
    """
    n_items = len(work)
    if n_items == 0:
        return []
    n_ranges = max(1 + int(work[-1] // GRAIN), min(at_least, n_items // MIN_PIECE))
    if at_most is not None:
        n_ranges = min(n_ranges, at_most)
    if n_ranges == 1:  # most often
        return [(0, n_items)]
    bounds = np.searchsorted(work, work[-1] / n_ranges * np.arange(1, n_ranges))
    bounds = np.unique(np.concatenate([[0], bounds, [n_items]]))
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))


@contextmanager
def limited(n_jobs: int | None) -> Iterator[None]:
    """Use ``n_jobs`` threads inside the context, as in joblib (-1: all cores, -2: all but one)."""
    token = _n_jobs.set(n_jobs)
    try:
        n_threads()
        yield
    finally:
        _n_jobs.reset(token)


def n_threads() -> int:
    """Threads to use: from the enclosing :func:`limited`, else from the environment, else one per core."""
    n_jobs = _n_jobs.get()
    name = "n_jobs"
    for variable in THREAD_VARIABLES:
        if n_jobs is None and os.environ.get(variable, "").strip():
            name = variable
            n_jobs = _parse(variable, os.environ[variable])
    if n_jobs is None:
        n_jobs = -1
    if n_jobs == 0:
        raise InputError(f"{name} is 0. Use a number of threads, -1 for one per core, or omit it.")
    return min(MAX_THREADS, n_jobs if n_jobs > 0 else max(1, _n_cores() + 1 + n_jobs))


def _parse(variable: str, text: str) -> int:
    try:
        # OpenMP allows a list with one number per nesting level.
        return int(text.split(",")[0])
    except ValueError:
        raise InputError(f"The environment variable {variable} is {text!r}, not a number of threads.") from None


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(kernel: Callable[..., Any], pieces: Sequence[Range], *arguments: Any) -> list[Any]:
    """Call ``kernel(*arguments, start, stop)`` for each range; return the results in the order of the ranges."""
    helpers = 0 if len(pieces) < 2 or _is_worker() else min(n_threads(), len(pieces)) - 1
    if helpers < 1:
        return [kernel(*arguments, start, stop) for start, stop in pieces]
    job = _Job(kernel, pieces, arguments)
    job.start(helpers)
    _as_worker(job.work)
    results: list[Any] = job.finish()
    return results


def copy_into(target: Any, values: Any) -> None:
    """Copy values, an array or one number, into an array; several threads share a large one.

    Most of the time the system clears fresh pages, which it does for several threads side by side.
    """
    if target.size <= COPY_GRAIN:
        target[...] = values
        return
    step = 1 + COPY_GRAIN // target[0].size
    run(_copy_rows, ranges(len(target), step), target, np.broadcast_to(values, target.shape))


def _copy_rows(target: Any, values: Any, start: int, stop: int) -> None:
    target[start:stop] = values[start:stop]


class _SharedWork(ABC):
    """Work shared by the calling thread and its helpers; no thread works on it after :meth:`finish`."""

    def __init__(self, n: int) -> None:
        self._waiting: deque[int] = deque(range(n))
        self._errors: list[BaseException] = []
        # Threads that have claimed something. Not a number: an interrupt may come just after this thread has.
        self._running: set[int] = set()
        # Entered as a lock: an interrupt cannot come between acquiring and entering it, as it can with a condition.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)

    def start(self, helpers: int) -> None:
        """Let other threads work too. One that starts late, because the pool was busy, finds nothing to do."""
        _start_helpers(self.work, helpers)

    def work(self) -> None:
        """Process what is waiting until nothing is left; errors are kept for :meth:`finish`."""
        try:
            self._work()
        except BaseException as error:
            with self._lock:
                self._errors.append(error)
                self._waiting.clear()
        finally:
            self._release()

    @abstractmethod
    def _work(self) -> None: ...

    def _release(self) -> None:
        """Release what this thread has claimed."""
        with self._lock:
            self._running.discard(threading.get_ident())
            self._changed.notify_all()

    def finish(self) -> Any:
        """Wait for threads that have claimed something, and return the result or raise the first error."""
        with self._lock:
            self._changed.wait_for(lambda: not self._running)
        if self._errors:
            raise self._errors[0]
        return self._take_result()

    @abstractmethod
    def _take_result(self) -> Any:
        """Return the result, and forget all else: a helper that starts late must not keep data alive."""


class _Job(_SharedWork):
    """Ranges to call a kernel for."""

    def __init__(self, kernel: Callable[..., Any], pieces: Sequence[Range], arguments: tuple[Any, ...]) -> None:
        super().__init__(len(pieces))
        self._kernel, self._pieces, self._arguments = kernel, pieces, arguments
        self._results: list[Any] = [None] * len(pieces)

    def _work(self) -> None:
        while (index := self._claim()) is not None:
            self._results[index] = self._kernel(*self._arguments, *self._pieces[index])

    def _claim(self) -> int | None:
        with self._lock:
            if not self._waiting:
                return None
            self._running.add(threading.get_ident())
            index = self._waiting.popleft()
            return index

    def _take_result(self) -> list[Any]:
        results, self._results, self._arguments = self._results, [], ()
        return results


class Task(NamedTuple):
    """A function, and the numbers of the earlier tasks whose results are its arguments."""

    function: Callable[..., Any]
    needs: tuple[int, ...] = ()


def run_tasks(tasks: Sequence[Task], at_once: int = MAX_THREADS) -> Any:
    """Run tasks that depend on earlier ones, at most ``at_once`` at a time; return the result of the last.

    A task that runs alone may use all threads itself. A free thread takes the first task whose arguments are ready, so
    few results wait for the tasks that need them, and each is dropped after its last use.
    """
    graph = _Graph(tasks)
    helpers = 0 if _is_worker() else min(n_threads(), len(tasks), at_once) - 1
    if helpers < 1:
        graph.work()
    else:
        graph.start(helpers)
        _as_worker(graph.work)
    return graph.finish()


class _Graph(_SharedWork):
    """Tasks that depend on each other."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        super().__init__(len(tasks))
        self._tasks = tasks
        self._results: dict[int, Any] = {}
        self._n_uses = [0] * len(tasks)
        for task in tasks:
            for number in task.needs:
                self._n_uses[number] += 1
        self._n_uses[-1] += 1

    def _work(self) -> None:
        while (claimed := self._claim()) is not None:
            number, arguments = claimed
            del claimed
            result = self._tasks[number].function(*arguments)
            del arguments
            with self._lock:
                if self._n_uses[number]:
                    self._results[number] = result
                del result
            self._release()

    def _claim(self) -> tuple[int, list[Any]] | None:
        """Wait for a task that can run; return its number and arguments, or None if no task is left."""
        with self._lock:
            while self._waiting:
                for number in self._waiting:
                    needs = self._tasks[number].needs
                    if all(needed in self._results for needed in needs):
                        self._running.add(threading.get_ident())
                        self._waiting.remove(number)
                        return number, [self._use(needed) for needed in needs]
                self._changed.wait()
        return None

    def _use(self, number: int) -> Any:
        self._n_uses[number] -= 1
        return self._results[number] if self._n_uses[number] else self._results.pop(number)

    def _take_result(self) -> Any:
        result = self._results.pop(len(self._tasks) - 1)
        self._tasks = ()
        return result


def _is_worker() -> bool:
    """Whether this thread runs a range or a task, and so must not start others."""
    return getattr(_inside, "worker", False)


def _as_worker(function: Callable[[], None]) -> None:
    """Call a function without nested parallelism: all threads are busy, and one that waits for its own may deadlock."""
    before = _is_worker()
    try:  # first: an interrupt must not leave the mark
        _inside.worker = True
        function()
    finally:
        _inside.worker = before


# Larger arrays are not kept: they would count for the memory of a long stream.
MAX_SCRATCH_BYTES = 1 << 22


def scratch(name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Array for intermediate results, not cleared: the next one of this name on the same thread takes the same memory.

    The system clears fresh memory page by page, which took a tenth of the time to reduce plain points, and more while
    another thread does the same.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if n_bytes > MAX_SCRATCH_BYTES:
        return np.empty(shape, dtype)
    kept = getattr(_inside, "scratch", None)
    if kept is None:
        kept = _inside.scratch = {}
    if name not in kept or kept[name].size < n_bytes:
        kept[name] = np.empty(n_bytes, np.uint8)
    return kept[name][:n_bytes].view(dtype).reshape(shape)


# Smaller arrays are left to the allocator: it has memory at hand, and fresh pages take ten times as long to fill.
LARGE_BYTES = 1 << 24


def large_array(shape: tuple[int, ...], dtype: Any) -> Any:
    """Array for nodes that are kept, with any content: of pages of its own, if it is large.

    They return to the system as soon as it is freed. Allocators keep freed memory of up to 32 MB for later, and much of
    it cannot be used again, because arrays that were made since lie in between.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if n_bytes < LARGE_BYTES or np.dtype(dtype).hasobject:
        return np.empty(shape, dtype)
    # Private: a forked child must not write into the arrays of its parent.
    private: dict[str, Any] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    try:
        pages = mmap.mmap(-1, n_bytes, **private)
    except OSError as error:
        raise MemoryError(f"Unable to allocate {n_bytes:,} bytes: {error.strerror}.") from None
    if hasattr(mmap, "MADV_HUGEPAGE"):  # as NumPy does
        with suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8).view(dtype).reshape(shape)


def release_freed_memory() -> None:
    """Return freed memory to the system: the allocator of GNU keeps some of it for each thread that ever asked for any.

    It takes a few milliseconds, and what is freed later is kept again.
    """
    with suppress(OSError, TypeError, AttributeError):  # other systems and allocators
        ctypes.CDLL(None).malloc_trim(0)


class Lock:
    """A reentrant lock that is renewed in a forked child, where the thread that held it does not exist.

    ``with lock():`` enters the lock of Python itself. An interrupt in a method ``__enter__`` could come after the lock
    was acquired, and it would stay so.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), _process

    def __call__(self) -> Any:
        """The lock of this process."""
        if self._process is not _process:
            self.__init__()  # type: ignore[misc]
        return self._lock


# Another object in each forked child. Its number would be asked of the system, each time that a lock is entered.
_process = object()


def _start_helpers(work: Callable[[], None], n: int) -> None:
    """Let ``n`` threads call a function when they are free; threads are started up to the largest number asked for.

    An interrupt may leave the locks of Python's pools and threads acquired; queues and plain threads have none.
    """
    global _n_started
    # No more threads, or the interpreter is shutting down: the calling thread does the rest.
    with suppress(RuntimeError), _lock:
        while _n_started < min(n, MAX_THREADS):
            _thread.start_new_thread(_help, (_waiting,))
            _n_started += 1
    for _ in range(min(n, _n_started)):
        _waiting.put(work)


def _help(waiting: "queue.SimpleQueue[Callable[[], None]]") -> None:
    while True:
        _as_worker(waiting.get())


def _forget_helpers() -> None:
    """Start over in a forked child: it has none of the parent's threads, one of which may have held the lock."""
    global _n_started, _waiting, _lock, _process
    _n_started, _waiting, _lock, _process = 0, queue.SimpleQueue(), threading.Lock(), object()
    _inside.worker = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_helpers)


# -- prefetching ------------------------------------------------------------------------------------------------------

# Items prefetched: one is being made while another is used.
AHEAD = 2
_END = object()

# Interval at which is_stopped is polled, and how long the thread may take to end.
POLL_SECONDS = 0.2
END_SECONDS = 2.0


class StoppedWaitingError(Exception):
    """Stopped while waiting for the next item."""


def prefetched(
    items: Iterable[T], is_stopped: Callable[[], bool] = lambda: False, ahead: int = AHEAD
) -> Generator[T, None, None]:
    """Yield the same items, prefetched on a thread; an exception there is raised here, after the items before it.

    At most ``ahead`` items wait, and one more is in the making.

    Raises StoppedWaitingError if ``is_stopped`` returns True while waiting for the next item. The thread ends with the
    items, or when this generator is closed; one that waits for a silent pipe is abandoned.
    """
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(ahead)
    stop = threading.Event()

    def put(item: Any, error: BaseException | None = None) -> bool:
        while not stop.is_set():
            try:
                ready.put((item, error), timeout=0.1)
                return True
            except queue.Full:
                pass
        return False

    def make() -> None:
        iterator: Any = None
        try:
            iterator = iter(items)
            for item in iterator:
                if not put(item):
                    return
            put(_END)
        except BaseException as error:
            put(_END, error)
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    thread = threading.Thread(target=make, name="probi-read", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item, error = ready.get(timeout=POLL_SECONDS)
            except queue.Empty:
                if is_stopped():
                    raise StoppedWaitingError from None
                continue
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stop.set()
        thread.join(timeout=END_SECONDS)
