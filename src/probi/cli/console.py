"""Output of the command line: results on standard output, messages and a progress bar on standard error."""

import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from types import FrameType
from typing import TYPE_CHECKING, Any

from probi import _notes
from probi._notes import peak_megabytes

if TYPE_CHECKING:
    from probi.io.node_assembler import Counts

# A progress bar appears after this time.
SHOW_AFTER_SECONDS = 1.0

# Shortest time between two notes, which may change thousands of times per second.
READABLE_SECONDS = 0.1


# Control characters, which may move the cursor or hide text; marks that reverse it; halves of surrogate pairs.
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """A line of text in which names from files cannot control the terminal."""
    return UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class Console:
    """Results on standard output, as JSON if wanted; messages and progress on standard error, unless ``quiet``."""

    def __init__(self, json: bool = False, quiet: bool = False) -> None:
        self.json = json
        self.quiet = _notes.quiet = quiet

    def say(self, text: str) -> None:
        """Print one line."""
        if not self.quiet:
            print(printable(text), file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def warnings(self) -> Iterator[None]:
        """Print warnings as notes, without lines of code, each once: files are opened several times."""
        shown = set()

        def show(message: Warning | str, *_: Any) -> None:
            if str(message) not in shown:
                shown.add(str(message))
                self.say(f"Note: {message}")

        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show  # type: ignore[assignment]
            yield

    def progress(self, what: str, unit: str = "nodes") -> "Progress":
        """Progress bar with rate, time left and memory, if the work takes long and there is a terminal."""
        return Progress(what, unit, shown=not self.quiet and sys.stderr.isatty())

    def print_values(self, values: dict[str, Any], rows: "Counts | None" = None) -> None:
        """Print named values; as JSON with the counts of rows, if files were read."""
        if self.json:
            print_json(values if rows is None else values | {"rows": asdict(rows)})
            return
        for name, value in values.items():
            if value is not None and value != ():
                print(printable(f"{name.replace('_', ' ')}: {_shown(value)}"))


class Progress:
    """A progress bar that appears after a second, even if no progress has been reported."""

    def __init__(self, what: str, unit: str, shown: bool) -> None:
        self._what, self._unit = what, unit
        self._start = time.monotonic()
        self._first: int | None = None
        self._last_said = 0.0
        self._bar: Any = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(SHOW_AFTER_SECONDS, self._show)
        self._timer.daemon = True
        if shown:
            self._timer.start()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._bar is not None:
                self._bar.stop()

    def _show(self) -> None:
        with self._lock:
            if self._timer.finished.is_set():  # closed in the meantime
                return
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            bar = Progress(
                TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn(),
                TextColumn("{task.fields[note]}"), TimeRemainingColumn(), console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = bar.add_task(self._what, total=None, note="")
            bar.start()
            self._bar = bar

    def update(self, n_done: int, fraction: float | None) -> None:
        """Report the number done, and its fraction of the total if known."""
        if self._first is None:
            self._first = n_done  # work done before a resume does not count towards the rate
        rate = (n_done - self._first) / max(time.monotonic() - self._start, 1e-9)
        self._show_note(f"{n_done:,} {self._unit}, {rate:,.0f} per second", fraction)

    def say(self, what: str, fraction: float | None = None) -> None:
        """Show the current step and its fraction of the total, at a readable rate."""
        now = time.monotonic()
        if now - self._last_said > READABLE_SECONDS:
            self._last_said = now
            self._show_note(what, fraction)

    def _show_note(self, what: str, fraction: float | None) -> None:
        if self._bar is not None:
            total, note = None if fraction is None else 1.0, f"{what}, {memory_megabytes():,.0f} MB"
            self._bar.update(self._task, completed=fraction or 0.0, total=total, note=note)


def memory_megabytes() -> float:
    """Current memory of this process."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  called a hundred times per second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError, AttributeError):
        return peak_megabytes()


class Interrupts:
    """Turns Ctrl-C and SIGTERM into a flag that the work checks between batches; the second signal stops it at once.

    With ``at_once`` the first one does; the work still checks, because a library may swallow KeyboardInterrupt.
    """

    def __init__(self, console: Console, at_once: bool = False) -> None:
        self._console, self._at_once, self._is_stopped = console, at_once, False

    def is_stopped(self) -> bool:
        """Whether Ctrl-C was pressed."""
        return self._is_stopped

    def check(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed."""
        if self._is_stopped:
            raise KeyboardInterrupt

    def __enter__(self) -> "Interrupts":
        self._before: dict[signal.Signals, Any] = {}
        with contextlib.suppress(ValueError):  # not the main thread, which receives no signals
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.check()
        self._is_stopped = True
        if self._at_once:
            raise KeyboardInterrupt
        self._console.say("Stopping after this batch; Ctrl-C again to stop at once.")


def print_table(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table of numbers on standard output, aligned to the right.

    Without rich, whose import takes longer than to solve a small problem.
    """
    cells = [[printable(text) for text in row] for row in (columns, *rows)]
    widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
    lines = [
        "   ".join(" " * (width - _width(text)) + text for text, width in zip(row, widths, strict=True))
        for row in cells
    ]
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(lines[0], ("─" if is_unicode else "-") * _width(lines[0]), *lines[1:], sep="\n")


def _width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "FW") for c in text)


def print_json(values: Any) -> None:
    """Print values as JSON on standard output."""
    print(json.dumps(values, indent=2))


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}" if isinstance(value, float) else str(value)
