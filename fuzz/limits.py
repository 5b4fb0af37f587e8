"""What a parser may take: seconds of CPU, and memory."""

import contextlib
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from fuzz.targets import TARGETS, FindingError, require

SECONDS = 10
# For an input below 1 MB.
MEGABYTES = 1000


def check(name: str, data: bytes) -> bool:
    """Whether a parser accepts an input; raise a finding if it takes too much, or what it raises."""
    with measured(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return TARGETS[name](data)
        except RecursionError as error:  # its traceback is long
            raise FindingError(f"RecursionError: {error}") from None


@contextlib.contextmanager
def measured() -> Iterator[None]:
    """Raise a finding if what is done takes more than the limits."""
    before, start = _peak(reset=True), time.process_time()
    yield
    took, peak = time.process_time() - start, _peak()
    require(took < SECONDS, f"it took {took:.0f} seconds")
    require(peak - before < MEGABYTES, f"it took {peak - before:,.0f} MB")


def _peak(reset: bool = False) -> float:
    """Largest resident memory of this process since the last reset, in MB; 0 where that is not known."""
    if sys.platform != "linux":
        return 0.0
    with contextlib.suppress(OSError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000
    return 0.0
