"""Ranges on threads: the order of results, how many threads, errors, forks, and the compiler's cache."""

import _thread
import os
import platform
import queue
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from samples import forking, in_child

import probi
from probi import _parallel

SOURCE = Path(probi.__file__).resolve().parent

RANGES = [(start, start + 3) for start in range(0, 60, 3)]


def add_up(start, stop):
    return sum(range(start, stop))


SUMS = [add_up(*one) for one in RANGES]


@pytest.fixture(autouse=True)
def no_thread_settings(monkeypatch):
    for variable in _parallel.THREAD_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(_parallel, "_n_cores", lambda: 4)


def meeting(n_threads):
    """Return a kernel whose calls wait for each other: it comes to an end only on ``n_threads`` threads at once."""
    together = threading.Barrier(n_threads)

    def kernel(start, stop):
        together.wait(20)
        return threading.get_ident()

    return kernel


# -- ranges and results -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_items", "step", "expected"),
    [(7, 3, [(0, 3), (3, 6), (6, 7)]), (6, 3, [(0, 3), (3, 6)]), (2, 5, [(0, 2)]), (0, 5, [])],
)
def test_ranges(n_items, step, expected):
    assert _parallel.ranges(n_items, step) == expected


@pytest.mark.parametrize("n_jobs", [1, 2, 3, 7])
def test_results_come_in_the_order_of_the_ranges(n_jobs):
    def early_ones_take_long(start, stop):
        time.sleep(0.002 if start < 20 else 0)
        return start, stop

    with _parallel.limited(n_jobs):
        assert _parallel.run(early_ones_take_long, RANGES) == RANGES


def test_arguments_come_before_the_range():
    assert _parallel.run(lambda *given: given, [(2, 5)], "a", 7) == [("a", 7, 2, 5)]


def test_no_ranges_give_no_results():
    assert _parallel.run(add_up, []) == []


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_large_arrays_are_written_whole(monkeypatch, n_jobs):
    monkeypatch.setattr(_parallel, "COPY_GRAIN", 40)
    values = np.arange(330.0).reshape(110, 3)
    with _parallel.limited(n_jobs):
        for given in (values, 7, values[0]):
            target = np.full((112, 3), -1.0)
            _parallel.copy_into(target[1:-1], given)
            expected = np.full((112, 3), -1.0)
            expected[1:-1] = given
            assert_array_equal(target, expected)


def test_each_range_is_run_once():
    counts = np.zeros(600, int)

    def count(start, stop):
        counts[start:stop] += 1

    with _parallel.limited(7):
        _parallel.run(count, _parallel.ranges(600, 1))
    assert_array_equal(counts, np.ones(600))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_for_any_number_of_threads(monkeypatch, dtype):
    monkeypatch.setattr("probi._parallel.GRAIN", 64)
    points = np.random.default_rng(0).normal(size=(300, 3, 4)).astype(dtype)
    centers = points[:5, 0]
    found = []
    for n_jobs in (1, 2, 3, 7):
        with _parallel.limited(n_jobs):
            nodes = probi.Nodes.from_dense(points)
            assert len(nodes.pieces()) > 7
            found.append((nodes.variances, probi.expected_distances(nodes, centers), probi.assign(nodes, centers)))
    for others in found[1:]:
        for one, first in zip(others, found[0], strict=True):
            assert_array_equal(one, first)


# -- how many threads ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize(
    ("n_jobs", "n_threads"), [(None, 4), (1, 1), (3, 3), (9, 9), (1000, 64), (-1, 4), (-2, 3), (-4, 1), (-100, 1)]
)
def test_n_jobs_means_what_it_means_in_joblib(n_jobs, n_threads):
    with _parallel.limited(n_jobs):
        assert _parallel.n_threads() == n_threads


def test_no_jobs_are_refused():
    with pytest.raises(probi.InputError, match="n_jobs is 0"), _parallel.limited(0):
        pytest.fail("it should not come to this")
    assert _parallel.n_threads() >= 1


def test_all_cores_are_those_that_this_process_may_use():
    expected = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert _parallel.n_threads() == min(64, expected)


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize(
    ("variables", "n_threads"),
    [
        ({"PROBI_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "2"}, 2),
        ({"PROBI_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        ({"PROBI_NUM_THREADS": "3", "OMP_NUM_THREADS": "many"}, 3),
        ({"PROBI_NUM_THREADS": "", "OMP_NUM_THREADS": "2"}, 2),
        ({"PROBI_NUM_THREADS": " 5 "}, 5),
        ({"OMP_NUM_THREADS": "6,2"}, 6),
        ({"PROBI_NUM_THREADS": "-2"}, 3),
        ({"PROBI_NUM_THREADS": "  "}, 4),
    ],
)
def test_the_environment_says_how_many(monkeypatch, variables, n_threads):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _parallel.n_threads() == n_threads
    with _parallel.limited(7):
        assert _parallel.n_threads() == 7


@pytest.mark.parametrize("variable", ["PROBI_NUM_THREADS", "OMP_NUM_THREADS"])
@pytest.mark.parametrize("text", ["many", "2.5", "0", ",", "0x2"])
def test_a_bad_environment_is_an_error_that_names_the_variable(monkeypatch, variable, text):
    monkeypatch.setenv(variable, text)
    with pytest.raises(probi.InputError, match=variable):
        _parallel.run(add_up, RANGES)


def test_limits_are_nested_and_end():
    before = _parallel.n_threads()
    with _parallel.limited(5):
        with _parallel.limited(2):
            assert _parallel.n_threads() == 2
        assert _parallel.n_threads() == 5
        with pytest.raises(ZeroDivisionError), _parallel.limited(3):
            raise ZeroDivisionError
        assert _parallel.n_threads() == 5
    assert _parallel.n_threads() == before


@pytest.mark.usefixtures("four_cores")
def test_a_limit_holds_for_its_own_thread():
    elsewhere = []
    with _parallel.limited(2):
        thread = threading.Thread(target=lambda: elsewhere.append(_parallel.n_threads()))
        thread.start()
        thread.join()
    assert elsewhere == [4]


@pytest.mark.parametrize("n_jobs", [2, 3, 7])
def test_so_many_threads_work_at_once(n_jobs):
    with _parallel.limited(n_jobs):
        used = _parallel.run(meeting(n_jobs), RANGES[:n_jobs])
    assert len(set(used)) == n_jobs
    assert threading.get_ident() in used


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_never_more_threads_at_once(n_jobs):
    busy, most = set(), []

    def watch(start, stop):
        busy.add(threading.get_ident())
        most.append(len(busy))
        time.sleep(0.001)
        busy.discard(threading.get_ident())

    with _parallel.limited(n_jobs):
        _parallel.run(watch, _parallel.ranges(40, 1))
    assert max(most) <= n_jobs


def test_one_thread_is_the_callers():
    with _parallel.limited(1):
        assert set(_parallel.run(lambda start, stop: threading.get_ident(), RANGES)) == {threading.get_ident()}


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("where", [0, 30, 57])
def test_an_error_in_a_kernel_reaches_the_caller(n_jobs, where):
    def fail(start, stop):
        if start == where:
            raise KeyError("on purpose")
        time.sleep(0.001)

    with _parallel.limited(n_jobs):
        with pytest.raises(KeyError, match="on purpose"):
            _parallel.run(fail, RANGES)
        assert _parallel.run(add_up, RANGES) == SUMS


def test_an_error_in_every_thread_leaves_the_pool_usable():
    meet = meeting(3)

    def fail(start, stop):
        meet(start, stop)
        raise KeyError("on purpose")

    with _parallel.limited(3):
        for _ in range(5):
            with pytest.raises(KeyError, match="on purpose"):
                _parallel.run(fail, RANGES[:3])
        assert len(set(_parallel.run(meeting(3), RANGES[:3]))) == 3


def test_after_an_error_no_thread_works_on():
    # Its buffers belong to the caller again.
    n_jobs = 6
    meet, finished = meeting(n_jobs), []

    def fail_but_for_the_last(start, stop):
        meet(start, stop)
        if start < n_jobs - 1:
            raise KeyError("on purpose")
        time.sleep(0.2)
        finished.append(start)

    with _parallel.limited(n_jobs):
        with pytest.raises(KeyError, match="on purpose"):
            _parallel.run(fail_but_for_the_last, _parallel.ranges(n_jobs, 1))
        assert finished == [n_jobs - 1]


def test_threads_that_cannot_be_started_are_done_without(monkeypatch):
    # As in a container that allows a process only so many threads: the first helper starts, the second does not.
    start_thread, started, caller = _thread.start_new_thread, [], threading.get_ident()

    def start(*arguments):
        if started:
            raise RuntimeError("can't start new thread")
        started.append(start_thread(*arguments))

    def helpers_take_long(start, stop):
        time.sleep(0.01 if threading.get_ident() == caller else 0.2)
        return start

    monkeypatch.setattr(_parallel, "_n_started", 0)  # as in a new process
    monkeypatch.setattr(_parallel, "_waiting", queue.SimpleQueue())
    monkeypatch.setattr(_thread, "start_new_thread", start)
    with _parallel.limited(3):
        assert _parallel.run(helpers_take_long, _parallel.ranges(6, 1)) == list(range(6))


# -- many callers, nested callers, forks --------------------------------------------------------------------------


def test_eight_threads_call_at_once():
    together, found = threading.Barrier(8), [None] * 8

    def scaled_sum(factor, start, stop):
        time.sleep(0.0005)
        return factor * add_up(start, stop)

    def call(factor):
        together.wait(20)
        with _parallel.limited(3):
            found[factor] = [_parallel.run(scaled_sum, RANGES, factor) for _ in range(3)]

    threads = [threading.Thread(target=call, args=(factor,)) for factor in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[[factor * one for one in SUMS]] * 3 for factor in range(8)]


def test_eight_threads_ask_for_distances_at_once(monkeypatch):
    monkeypatch.setattr("probi._parallel.GRAIN", 64)
    points = np.random.default_rng(1).normal(size=(100, 2, 3))
    expected = probi.expected_distances(probi.Nodes.from_dense(points), points[:4, 0])
    together, found = threading.Barrier(8), []

    def call():
        together.wait(20)
        with _parallel.limited(4):
            found.append(probi.expected_distances(probi.Nodes.from_dense(points), points[:4, 0]))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for one in found:
        assert_array_equal(one, expected)


def test_a_kernel_may_run_kernels():
    meet = meeting(3)

    def inner(start, stop):
        time.sleep(0.001)  # time for others to take part
        return add_up(start, stop), threading.get_ident()

    def outer(start, stop):
        meet(start, stop)  # so that helpers, too, make nested calls
        with _parallel.limited(3):
            return _parallel.run(inner, RANGES), threading.get_ident()

    with _parallel.limited(3):
        found = _parallel.run(outer, RANGES[:3])
    for nested, outer_thread in found:
        assert [one for one, _ in nested] == SUMS
        assert {thread for _, thread in nested} == {outer_thread}  # all threads have work: nobody asks for help


def work_on_three_threads():
    """Number of threads, and a result of compiled kernels."""
    with _parallel.limited(3):
        used = _parallel.run(meeting(3), RANGES[:3])
        nodes = probi.Nodes.from_dense(np.arange(12.0).reshape(2, 2, 3))
        return len(set(used)), nodes.variances.tolist()


@forking
def test_after_a_fork_the_child_makes_its_own_threads():
    expected = work_on_three_threads()  # the parent has threads now, the child has none of them
    assert expected == (3, [6.75, 6.75])
    assert in_child(work_on_three_threads) == expected
    assert work_on_three_threads() == expected


@forking
def test_after_two_forks_the_grandchild_does_too():
    expected = work_on_three_threads()
    assert in_child(lambda: [work_on_three_threads(), in_child(work_on_three_threads)]) == [expected, expected]


@forking
def test_the_lock_of_the_pool_may_be_held_during_a_fork():
    expected = work_on_three_threads()
    with _parallel._lock:
        assert in_child(work_on_three_threads) == expected


@forking
def test_a_child_does_not_write_into_the_large_arrays_of_its_parent():
    """As a summary would, whose buffer has room for more nodes."""
    array = _parallel.large_array((_parallel.LARGE_BYTES // 8,), np.float64)
    array[:] = 1.0

    def write():
        array[:] = 2.0
        return array[0]

    assert in_child(write) == 2.0
    assert (array == 1.0).all()


def test_a_large_array_that_does_not_fit_is_told_as_others_are():
    with pytest.raises(MemoryError, match="Unable to allocate"):
        _parallel.large_array((1 << 59,), np.float64)


@forking
def test_a_helper_may_fork():
    expected, caller, meet = work_on_three_threads(), threading.get_ident(), meeting(2)

    def fork_in_the_helper(start, stop):
        meet(start, stop)
        return None if threading.get_ident() == caller else in_child(work_on_three_threads)

    with _parallel.limited(2):
        found = _parallel.run(fork_in_the_helper, RANGES[:2])
    assert [one for one in found if one is not None] == [expected]


# -- in a process of its own --------------------------------------------------------------------------------------


def run_python(code):
    """What a script prints, run by a fresh interpreter with this probi."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.process
def test_a_call_at_the_end_of_the_interpreter_still_works():
    code = """
import atexit
from probi import _parallel

def work():
    with _parallel.limited(3):
        return sum(_parallel.run(lambda start, stop: stop - start, _parallel.ranges(100, 7)))

assert work() == 100
atexit.register(lambda: print(work()))  # the pool takes no more work by then
"""
    assert run_python(code) == "100"


# -- tasks that depend on each other ------------------------------------------------------------------------------


def chain_of(n):
    """Tasks that append their number to a list each, after the one before; every third result is also added up."""
    tasks = [_parallel.Task(lambda before, number=number: [*before, number], (number - 1,)) for number in range(1, n)]
    return [
        _parallel.Task(lambda: [0]),
        *tasks,
        _parallel.Task(lambda *lists: sum(map(sum, lists)), tuple(range(0, n, 3))),
    ]


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_tasks_get_the_results_of_others(n_jobs):
    with _parallel.limited(n_jobs):
        assert _parallel.run_tasks(chain_of(20)) == sum(sum(range(n + 1)) for n in range(0, 20, 3))


def test_tasks_run_at_the_same_time():
    kernel = meeting(3)
    tasks = [_parallel.Task(lambda: kernel(0, 1)) for _ in range(3)]
    with _parallel.limited(3):
        threads = _parallel.run_tasks([*tasks, _parallel.Task(lambda *names: set(names), (0, 1, 2))])
    assert len(threads) == 3


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_are_dropped_after_their_last_use(n_jobs):
    alive = weakref.WeakSet()

    class Result:
        def __init__(self, *_):
            alive.add(self)

    seen = []

    def look(before):
        seen.append(len(alive))
        return before

    tasks = [_parallel.Task(Result)]
    for _ in range(20):
        tasks.append(_parallel.Task(Result, (len(tasks) - 1,)))
        tasks.append(_parallel.Task(look, (len(tasks) - 1,)))
    with _parallel.limited(n_jobs):
        _parallel.run_tasks(tasks)
    assert max(seen) <= 2


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_a_task_is_raised_and_no_more_tasks_start(error, n_jobs):
    done = []

    def fail():
        raise error

    tasks = [_parallel.Task(lambda: done.append(1)), _parallel.Task(fail)]
    tasks += [_parallel.Task(lambda _: done.append(2), (1,)), _parallel.Task(lambda *_: done.append(3), (0, 2))]
    with _parallel.limited(n_jobs), pytest.raises(error):
        _parallel.run_tasks(tasks)
    assert set(done) <= {1}


@pytest.mark.parametrize(
    "start",
    [
        lambda data: _parallel.run(lambda a, i, j: a[i:j].sum(), _parallel.ranges(8, 1), data),
        lambda data: _parallel.run_tasks([_parallel.Task(data.sum)] * 8),
    ],
)
def test_a_helper_that_never_starts_keeps_no_data_alive(start, monkeypatch):
    late = []
    monkeypatch.setattr(_parallel, "_start_helpers", lambda work, n: late.append(work))
    data = np.arange(8.0)
    alive = weakref.ref(data)
    with _parallel.limited(2):
        start(data)
    del data
    assert len(late) == 1
    assert alive() is None


class ClaimThenInterrupt:
    """Method that claims work for one thread and then is interrupted, before the thread has begun."""

    def __init__(self, claim, thread):
        self._claim, self._thread, self.n_interrupts = claim, thread, 0

    def __get__(self, work, _):
        def claim():
            claimed = self._claim(work)
            if threading.current_thread() is self._thread and claimed is not None:
                self.n_interrupts += 1
                raise KeyboardInterrupt
            return claimed

        return claim


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("_Job", lambda busy: _parallel.run(busy, _parallel.ranges(8, 1))),
        ("_Graph", lambda busy: _parallel.run_tasks([_parallel.Task(busy)] * 8)),
    ],
)
def test_an_interrupt_just_before_a_thread_begins_does_not_wait_for_ever(kind, start, monkeypatch):
    raised, n_running = [], 0

    def busy(*_):
        nonlocal n_running
        n_running += 1
        time.sleep(0.01)
        n_running -= 1

    def call():
        with _parallel.limited(2), pytest.raises(KeyboardInterrupt):
            start(busy)
        raised.append(n_running)

    thread = threading.Thread(target=call, daemon=True)
    claim = ClaimThenInterrupt(getattr(_parallel, kind)._claim, thread)
    monkeypatch.setattr(getattr(_parallel, kind), "_claim", claim)
    thread.start()
    thread.join(timeout=20)
    assert claim.n_interrupts == 1
    assert raised == [0]  # and no thread works on


def test_one_task_at_a_time_may_use_all_threads():
    kernel = meeting(3)
    with _parallel.limited(3):
        threads = _parallel.run_tasks([_parallel.Task(lambda: _parallel.run(kernel, RANGES[:3]))], at_once=1)
    assert len(set(threads)) == 3


def test_ranges_inside_a_task_run_on_its_thread():
    def names():
        return set(_parallel.run(lambda *_: threading.get_ident(), RANGES)) == {threading.get_ident()}

    with _parallel.limited(3):
        assert _parallel.run_tasks(
            [_parallel.Task(names), _parallel.Task(names), _parallel.Task(lambda *a: all(a), (0, 1))]
        )


# -- memory of intermediate results -------------------------------------------------------------------------------


def test_scratch_memory_belongs_to_a_name_and_a_thread():
    first = _parallel.scratch("a", (30, 2))
    assert first.shape == (30, 2)
    assert np.shares_memory(first, _parallel.scratch("a", (7,), np.int32))
    assert not np.shares_memory(first, _parallel.scratch("b", (30, 2)))
    others = []
    thread = threading.Thread(target=lambda: others.append(_parallel.scratch("a", (30, 2))))
    thread.start()
    thread.join()
    assert not np.shares_memory(first, others[0])


def test_large_scratch_memory_is_not_kept():
    shape = (1 + _parallel.MAX_SCRATCH_BYTES // 8,)
    assert not np.shares_memory(_parallel.scratch("c", shape), _parallel.scratch("c", shape))


# -- memory -----------------------------------------------------------------------------------------------------------


def resident_megabytes():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1e3


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep what they want")
def test_freed_memory_returns_to_the_system():
    filled = [b"x" * 100_000 for _ in range(2000)]
    filled = filled[-1:]  # whatever comes before it stays with the process
    before = resident_megabytes()
    _parallel.release_freed_memory()
    assert resident_megabytes() < before - 150
