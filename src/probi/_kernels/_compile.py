"""The decorators of kernels. They are cheap: Numba is imported, and a kernel compiled, when the first one is called."""

import functools
from collections import deque
from collections.abc import Callable
from typing import Any


class Kernel:
    """A hot loop; called, it is compiled for the types of its arguments, or loaded from the disk cache."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._dispatcher: Any = None

    def __call__(self, *arguments: Any) -> Any:
        """Run the compiled loop, without the interpreter lock."""
        return (self._dispatcher or self.dispatcher)(*arguments)

    @property
    def dispatcher(self) -> Any:
        """Numba's object for the function."""
        if self._dispatcher is None:
            from probi._kernels._dispatcher import make_dispatcher  # imports Numba, which takes 0.2 s

            # Of two threads that arrive at the same time, both use what one of them made.
            self._dispatcher = self.__dict__.setdefault("_made", make_dispatcher(self._function))
        return self._dispatcher


kernel = Kernel

# Parts that Numba does not know yet.
new_parts: deque[Callable[..., Any]] = deque()


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that kernels call: it is compiled into each of them.

    It is never cached by itself. LLVM inlines a fresh callee but not one from the disk cache, which changes rounding:
    bits would depend on the state of the cache. Called from Python, it stays Python.
    """
    new_parts.append(function)
    return function


def never_inlined() -> None:
    """Called in a part, it keeps that part a separate function.

    A loop inlined into two callers may be rounded in two ways; a separate function gives the same bits to all callers.
    Numbers that are compared for ties, or by users across functions, come from one.
    """


def prefetch(rows: Any, row: int, column: int) -> None:
    """Called in a kernel, it tells the processor that an element of an array (n, d) will soon be read."""
