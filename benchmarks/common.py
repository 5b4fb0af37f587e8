"""Clock and memory for the benchmarks."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def best_of(runs: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest time of several runs, in seconds, and the last result; the machine is noisy, so take the best."""
    shortest, result = float("inf"), None
    for _ in range(runs):
        start = time.perf_counter()
        result = function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result


def peak_megabytes() -> float:
    """Largest resident memory of this process so far; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Linux: getrusage would also count the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1e3
    try:
        import resource
    except ImportError:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
