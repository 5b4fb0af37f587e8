"""Reading that overlaps with computing."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

# Items made ahead: one is being made while another is used.
AHEAD = 2
_END = object()

# Interval at which is_stopped is polled, and how long the thread may take to end.
POLL_SECONDS = 0.2
SHOW_AFTER_SECONDS = 2.0


class StoppedWaitingError(Exception):
    """Stopped while waiting for the next item."""


def prefetched(items: Iterable[T], is_stopped: Callable[[], bool] = lambda: False) -> Iterator[T]:
    """Yield the same items, made ahead on a thread; an exception there is raised here, after the items before it.

    Raises StoppedWaitingError if ``is_stopped`` returns True while waiting for the next item. The thread ends with the
    items, or when this generator is closed; one that waits for a silent pipe is abandoned.
    """
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(AHEAD)
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
        thread.join(timeout=SHOW_AFTER_SECONDS)
