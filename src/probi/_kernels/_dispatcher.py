"""How Numba compiles every kernel: one set of options, and a disk cache. Imported when the first kernel is called.

A first run compiles for seconds. A second process takes half of that work: it compiles what the first one needs later.
A process that needs a kernel the other one is compiling waits for it and loads it.
"""

import atexit
import contextlib
import gc
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numba
from llvmlite import ir
from llvmlite.binding import Linkage
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.runtime.nrt import rtsys
from numba.core.targetconfig import ConfigStack
from numba.extending import lower_builtin, register_jitable, type_callable

from probi import _notes
from probi._kernels._compile import never_inlined, new_parts, prefetch

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: no waiting, so at worst two processes compile the same kernel
    fcntl = None

# 0 forbids starting a process; the one that compiles ahead starts no other.
VARIABLE = "PROBI_COMPILE_AHEAD"

# A kernel takes a few seconds to compile. A process suspended halfway must not block the others.
MAX_WAIT, PAUSE = 60.0, 0.02

MESSAGE = "compiling kernels for the first run, 1 to 20 seconds; later runs start at once."

# Kernels that all problems need. Small ones need no others, so these do not start the second process.
BASIC = ("expected_distances", "quick_medians", "node_moments")

# After so many seconds without compiling, a first run has compiled what it needs.
REST = 2.0

_is_announced = _is_started = False

# A fork waits for a kernel that another thread compiles or loads: nobody would release Numba's lock in the child.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


class _Stopwatch:
    """Reports once how long a first run compiled: after a pause in compiling, or at exit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._n_running, self._start, self._seconds = 0, 0.0, 0.0

    def begin(self) -> None:
        """Start the clock, once the user was told that kernels are compiled."""
        self._start = time.monotonic()
        atexit.register(self._say)

    def running(self, change: int) -> None:
        """Count a kernel whose compilation starts (+1) or ends (-1)."""
        with self._lock:
            self._n_running += change
            if self._timer is not None:
                self._timer.cancel()
            if self._start and self._n_running == 0:
                self._seconds = time.monotonic() - self._start
                self._timer = threading.Timer(REST, self._say)
                self._timer.daemon = True
                self._timer.start()

    def _say(self) -> None:
        with self._lock:
            if self._start and self._seconds:
                _notes.note(f"compiled in {self._seconds:.0f} seconds.")
                self._start = 0.0


_stopwatch = _Stopwatch()


def _digest() -> str:
    """Digest of all kernels' sources.

    Numba checks the file of a kernel but not those of its callees: after a change there it would run stale code. This
    digest in the key prevents that.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


SOURCES = _digest()


class KernelCache(FunctionCache):
    """Numba's disk cache of one function; a process waits for what another one is compiling."""

    _turn: IO[bytes] | None = None

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._function_name = function.__name__

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), SOURCES)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code compiled for a signature, by any process; None if there is none yet."""
        compiled = self._load(sig, target_context)
        if compiled is None:
            _begin_first_run(self._function_name, sig)
            _stopwatch.running(+1)
            with contextlib.suppress(OSError):
                self._turn = self._wait(sig)
            compiled = self._load(sig, target_context)
            if compiled is not None:
                self._end()
        return compiled

    def _load(self, sig: Any, target_context: Any) -> Any:
        """Load compiled code, if there is some.

        Numba would first import and register all that compiling needs, which takes longer than loading the kernels.
        """
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code, and release the processes that wait for it."""
        try:
            super().save_overload(sig, data)
        finally:
            self._end()

    def _wait(self, sig: Any) -> IO[bytes] | None:
        """Wait until no other process compiles this kernel for this signature; return the locked file."""
        if fcntl is None:
            return None
        self._impl.locator.ensure_cache_path()
        name = hashlib.sha256(str(sig).encode()).hexdigest()[:16]
        file = (Path(self.cache_path) / f"{self._impl.filename_base}.{name}.lock").open("wb")
        give_up = time.monotonic() + MAX_WAIT
        while time.monotonic() < give_up:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(PAUSE)
        return file

    def _end(self) -> None:
        """Release the lock: the kernel is compiled."""
        _stopwatch.running(-1)
        if self._turn is not None:
            with contextlib.suppress(OSError):
                Path(self._turn.name).unlink()
            self._turn.close()
            self._turn = None


def _begin_first_run(name: str, sig: Any) -> None:
    """Announce once that kernels are compiled, and start a process that compiles those needed later."""
    global _is_announced, _is_started
    if not _is_announced:
        _is_announced = True
        if _notes.note(MESSAGE):
            _stopwatch.begin()
    dtypes = [str(kind.dtype) for kind in sig if hasattr(kind, "dtype")]
    if name in BASIC or _is_started or not dtypes or dtypes[0] not in ("float32", "float64") or not _may_start():
        return
    _is_started = True
    code = f"import sys; sys.path[:] = {sys.path!r}; from probi._compile_ahead import main; main({dtypes[0]!r})"
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with contextlib.suppress(OSError):
        process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, VARIABLE: "0"}, **quiet)
        threading.Thread(target=process.wait, daemon=True).start()


def _may_start() -> bool:
    """Whether a core is free and a Python can be started: an embedding program may have none to start."""
    n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limited = any(os.environ.get(name) == "1" for name in ("PROBI_NUM_THREADS", "OMP_NUM_THREADS"))
    allowed = os.environ.get(VARIABLE) != "0"
    return allowed and n_cores > 1 and not limited and "python" in Path(sys.executable or "").name.lower()


# Reassociation lets LLVM use vector registers in a sum. No "arcp": a division that becomes a product in one call and
# not in another makes equal distances differ. Kernels must not test for NaN: LLVM still folds x - x to 0.
FASTMATH = {"reassoc", "contract"}

# Divisions are not checked, since kernels raise nothing, and there is no wrapper for callers in C: it takes time to
# compile both.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": FASTMATH,
    "forceinline": True,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Compiling makes millions of objects that stay: to look for garbage among them takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _KernelLibrary(JITCodeLibrary):
    """Machine code of a kernel, with copies of its own of the parts that it calls.

    A part that is not inlined would be found by its name, in the kernel that the process compiled first: other bits
    than in a process that loads this one from the disk.
    """

    def _finalize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage == Linkage.linkonce_odr:
                function.linkage = "internal"
        super()._finalize_final_module()


class _PartLibrary(JITCodeLibrary):
    """Code of a part. It becomes machine code in the kernels that call it and not by itself: a fifth of the time."""

    def _optimize_final_module(self) -> None:
        """Leave it to the kernels."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, _: str) -> int:
        return 0

    @property
    def codegen(self) -> Any:
        return self

    def set_env(self, _name: str, _environment: Any) -> None:
        """Called by Numba as a method of ``codegen``: there is no code yet that would need Python objects."""


class _PartCompiler(Compiler):
    """Numba's compiler with that kind of library."""

    def define_pipelines(self) -> Any:
        if self.state.library is None:
            self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _KernelCompiler(Compiler):
    """Numba's compiler with that kind of library."""

    def compile_extra(self, func: Any) -> Any:
        with _without_garbage_collection():
            return super().compile_extra(func)

    def define_pipelines(self) -> Any:
        # Numba compiles a callee again for each set of flags of its callers; kernels and parts differ in one alone.
        ConfigStack().top().no_cpython_wrapper = True
        if self.state.library is None:
            self.state.library = _KernelLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()


def make_dispatcher(function: Callable[..., Any]) -> Any:
    """Numba's dispatcher of a function, whose compiled code is cached on disk if a folder is writable."""
    with global_compiler_lock:  # no thread compiles a kernel while another one registers its parts
        while new_parts:
            register_jitable(pipeline_class=_PartCompiler, **OPTIONS)(new_parts.popleft())
    dispatcher: Any = numba.njit(pipeline_class=_KernelCompiler, **OPTIONS)(function)
    # Numba raises when it finds no folder for its cache (a read-only home on a worker): a slow start beats none.
    with contextlib.suppress(RuntimeError):
        dispatcher._cache = KernelCache(function)
    return dispatcher


@type_callable(never_inlined)
def _type_of_never_inlined(_: Any) -> Any:
    return lambda: numba.types.none


@lower_builtin(never_inlined)
def _lower_never_inlined(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
    builder.function.attributes.discard("alwaysinline")
    builder.function.attributes.add("noinline")
    return context.get_dummy_value()


@type_callable(prefetch)
def _type_of_prefetch(_: Any) -> Any:
    return lambda rows, row, column: numba.types.none


@lower_builtin(prefetch, numba.types.Array, numba.types.Integer, numba.types.Integer)
def _lower_prefetch(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    kind, (rows, *index) = signature.args[0], arguments
    rows = context.make_array(kind)(context, builder, rows)
    address = cgutils.get_item_pointer(context, builder, kind, rows, index)
    number = ir.IntType(32)
    hint = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
    function = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0i8")
    # To be read, into all levels of the cache, as data.
    builder.call(function, [builder.bitcast(address, cgutils.voidptr_t), number(0), number(3), number(1)])
    return context.get_dummy_value()
