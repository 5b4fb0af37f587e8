"""An interrupt between any two instructions: no lock stays acquired, and the next call works."""

import dis
import threading
from pathlib import Path

import pytest
from samples import forking, in_child, interrupted_by

from probi import Summary, Window, _parallel

# Modules whose instructions are interrupted: all that take locks on behalf of probi.
MODULES = ("_parallel.py", "threading.py", "thread.py")
LOOKS = ("RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD")


def interrupted(call, number):
    """Call a function, and interrupt it at the moment with this number; return whether it has so many.

    Python looks for signals when a function begins, after calls, and at the end of each round of a loop.
    """
    left, last = number, {}

    def trace(frame, event, _):
        nonlocal left
        if Path(frame.f_code.co_filename).name not in MODULES:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= last.get(frame) in LOOKS
            last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if left == 0:
                left = -1
                raise KeyboardInterrupt
        return trace

    return interrupted_by(trace, call)


def in_time(call, seconds=20.0):
    """Result of a call on another thread; None if it does not end."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None


def test_no_lock_of_a_summary_stays_acquired():
    summary = Summary(1, random_state=0)
    summary.update([[0.0], [1.0]])
    number = 1
    while interrupted(summary.sample, number):
        assert in_time(lambda: summary.sample().mass.sum()) == 2.0
        number += 1
    assert number > 1  # which modules take other locks depends on their versions


def test_helpers_work_after_any_interrupt():
    pieces = _parallel.ranges(4, 1)
    number = 1
    with _parallel.limited(3):
        while interrupted(lambda: _parallel.run(lambda start, stop: start, pieces), number):
            number += 1
        # All helpers are free: they and this thread meet.
        together = threading.Barrier(3)
        assert _parallel.run(lambda start, stop: together.wait(20) >= 0, _parallel.ranges(3, 1)) == [True] * 3
    assert number > 20


@forking
def test_a_fork_waits_for_the_compiler():
    from numba.core.compiler_lock import global_compiler_lock

    from probi._kernels import _dispatcher  # noqa: F401  registers what is done at a fork

    held, stop = threading.Event(), threading.Event()

    def compile_something():
        with global_compiler_lock:
            held.set()
            stop.wait(0.3)

    thread = threading.Thread(target=compile_something)
    thread.start()
    assert held.wait(20)
    assert in_child(lambda: global_compiler_lock._lock.acquire(timeout=5.0))
    thread.join()


def test_a_window_counts_what_its_summary_has_read(monkeypatch):
    window = Window(10, n_periods=2, n_clusters=1)
    window.update([[0.0]], 35)
    update = Summary.update

    def interrupted_at_the_end(summary, nodes):
        update(summary, nodes)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Summary, "update", interrupted_at_the_end)
        with pytest.raises(KeyboardInterrupt):
            window.update([[1.0], [2.0]], [38, 5])
    assert (window.n_nodes, window.n_late) == (2, 1)
