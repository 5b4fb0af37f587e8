"""Clock and memory for the benchmarks."""

import time
from collections.abc import Callable
from typing import Any

from probi._notes import peak_megabytes

__all__ = ["best_of", "peak_megabytes"]


def best_of(runs: int, function: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest time of several runs, in seconds, and the last result; the machine is noisy, so take the best."""
    shortest, result = float("inf"), None
    for _ in range(runs):
        start = time.perf_counter()
        result = function()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, result
