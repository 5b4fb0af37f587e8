"""How every kernel is compiled: one decorator, so that one decision stands in one place."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.extending import intrinsic, register_jitable

from probi._kernels._cache import KernelCache

# Reassociation lets LLVM use vector registers in a sum. No "arcp": a division that becomes a product in one place and
# not in another makes equal distances differ. No check for NaN may stand in a kernel: even so, x - x is 0 to LLVM.
FASTMATH = {"reassoc", "contract"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a hot loop: without the interpreter lock, cached on disk where there is a place to write."""
    compiled: Any = numba.njit(nogil=True, fastmath=FASTMATH, forceinline=True)(function)
    # Numba raises when it finds no folder for its cache (a read-only home on a worker): slower to start is better than
    # not to start.
    with suppress(RuntimeError):
        compiled._cache = KernelCache(function)
    return compiled  # type: ignore[no-any-return]


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark what kernels call: it is compiled with each of them and becomes a part of it.

    It is never cached by itself. A callee from the disk cache is not inlined by LLVM and a fresh one is, and sums are
    rounded differently then: bits would depend on the state of the cache. Called from Python, it stays Python.
    """
    return register_jitable(nogil=True, fastmath=FASTMATH, forceinline=True)(function)


def _never_inlined(_: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.function.attributes.discard("alwaysinline")
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return numba.types.none(), codegen


# Called in a part: kernels call that part as a function that stands by itself. Loops that are inlined into two places
# may be rounded in two ways; a function is compiled in the same way wherever it is called from. So numbers that are
# compared for a tie, or by users across functions, come from one.
never_inlined: Any = intrinsic(_never_inlined)
