"""How every kernel is compiled: one decorator, so that one decision stands in one place."""

from collections.abc import Callable
from typing import Any

import numba

# Reassociation lets LLVM use vector registers in a sum. No "arcp": a division that becomes a product in one place and
# not in another makes equal distances differ. No check for NaN may stand in a kernel: even so, x - x is 0 to LLVM.
FASTMATH = {"reassoc", "contract"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a hot loop: without the interpreter lock, cached on disk where there is a place to write."""
    return _compiled(function, inline="never")


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile what kernels call into each of them, by Numba itself.

    Left to LLVM, a callee from the disk cache is not inlined and a fresh one is, and sums are rounded differently:
    bits would depend on the state of the cache. Handing over a dozen arrays also takes 200 ns a call.
    """
    return _compiled(function, inline="always")


def _compiled(function: Callable[..., Any], inline: Any) -> Callable[..., Any]:
    try:
        return numba.njit(nogil=True, cache=True, fastmath=FASTMATH, inline=inline)(function)
    except RuntimeError:
        # Numba raises at import when it finds no folder for its cache (a read-only home on a worker):
        # slower to start is better than not to start.
        return numba.njit(nogil=True, cache=False, fastmath=FASTMATH, inline=inline)(function)
