"""How every kernel is compiled: one decorator, one set of options."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.extending import intrinsic, register_jitable

from probi._kernels._cache import KernelCache

# Reassociation lets LLVM use vector registers in a sum. No "arcp": a division that becomes a product in one call and
# not in another makes equal distances differ. Kernels must not test for NaN: LLVM still folds x - x to 0.
FASTMATH = {"reassoc", "contract"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a hot loop: without the interpreter lock, cached on disk if a folder is writable."""
    compiled: Any = numba.njit(nogil=True, fastmath=FASTMATH, forceinline=True)(function)
    # Numba raises when it finds no folder for its cache (a read-only home on a worker): a slow start beats none.
    with suppress(RuntimeError):
        compiled._cache = KernelCache(function)
    return compiled  # type: ignore[no-any-return]


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that kernels call: it is compiled into each of them.

    It is never cached by itself. LLVM inlines a fresh callee but not one from the disk cache, which changes rounding:
    bits would depend on the state of the cache. Called from Python, it stays Python.
    """
    return register_jitable(nogil=True, fastmath=FASTMATH, forceinline=True)(function)


def _never_inlined(_: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.function.attributes.discard("alwaysinline")
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return numba.types.none(), codegen


# Called in a part, it keeps that part a separate function. A loop inlined into two callers may be rounded in two ways;
# a separate function gives the same bits to all callers. Numbers that are compared for ties, or by users across
# functions, come from one.
never_inlined: Any = intrinsic(_never_inlined)
