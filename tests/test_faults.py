"""Each step fails once: state and files are those before or after, and the next call works.

Points are counted, not guessed: every line of the package for memory that is not there, and every call of the system
for disks. ``HYPOTHESIS_PROFILE=explore`` tries all of them, other runs some.
"""

import copy
import errno
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import files_of
from hypothesis import settings
from strategies import USUAL
from table_files import columns_of, some_nodes, write

from probi import Nodes, Summary, Window, _parallel, solve
from probi.cli import app, results

FOLDER = str(Path(_parallel.__file__).parent)
ALL = settings().max_examples > USUAL
# C functions that change files, and their modules.
SYSTEM = {"posix", "_io", "io", "fcntl"}
CHANGES = {"open", "write", "flush", "fsync", "rename", "replace", "unlink", "mkdir", "chmod", "truncate", "flock"}
# A file that cannot be written at its end is closed all the same.
CLOSES = {"close", "__exit__"}
POINTS = np.random.default_rng(0).normal(size=(270, 3, 2))  # four leaves of 64 nodes, and so a second level


def failed_line(call, number):
    """Whether a call has a line of the package with this number, before which the memory was exhausted."""
    left = number

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        left -= event == "line"
        if left == 0:
            left = -1
            raise MemoryError
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with _parallel.limited(1):
            call()
    except MemoryError:
        pass
    finally:
        sys.settrace(before)
    return left < 0


def failed_system_call(call, number):
    """Result of a call, and whether it has a system call with this number, which failed for want of space."""
    left = number

    def profile(frame, event, function):
        nonlocal left
        names = {"c_call": CHANGES, "c_return": CLOSES}.get(event, ())
        if getattr(function, "__name__", None) not in names or "importlib" in frame.f_code.co_filename:
            return
        own = getattr(function, "__self__", None)
        is_system = (getattr(function, "__module__", None) or type(own).__module__) in SYSTEM
        left -= is_system and own not in (sys.stdout, sys.stderr)
        if left == 0:
            left = -1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        result = call()
    except OSError as error:
        result = error
    finally:
        sys.setprofile(before)
    return result, left < 0


def points_of(failed, step):
    """Numbers of points to try: all of them, or each ``step``-th, until a call has none with the number."""
    number = 1
    while failed(number):
        number += 1 if ALL else step
    assert number > step
    if ALL:
        print(f"{number - 1} points")


def updated(source, more):
    """Calls that change a summary or window."""
    yield lambda each: each.update(*more)
    if isinstance(source, Summary):
        other = Summary(2, size=8, audit_size=8, random_state=0, shard=1)
        other.update(POINTS[:50])
        yield lambda each: each.merge(other)
        yield lambda each: each.scale(0.5)


def some_summary():
    summary = Summary(2, size=8, audit_size=8, random_state=0)
    summary.update(Nodes.from_dense(POINTS[:90]))
    return summary


def some_window():
    window = Window(10, n_periods=2, n_clusters=2, size=8, audit_size=8, random_state=0)
    window.update(POINTS[:90], np.arange(90) // 6)
    return window


@pytest.mark.slow
@pytest.mark.parametrize(("source", "more"), [(some_summary(), (POINTS[90:],)), (some_window(), (POINTS[90:], 31))])
def test_memory_that_is_not_there(source, more):
    before = source.to_bytes()
    for call in updated(source, more):
        wanted = copy.copy(source)
        call(wanted)
        expected = wanted.to_bytes()

        def failed(number, call=call, expected=expected):
            tried = copy.copy(source)
            has_failed = failed_line(lambda: call(tried), number)
            assert tried.to_bytes() in (before, expected)
            if tried.to_bytes() == before:
                call(tried)
            assert tried.to_bytes() == expected
            return has_failed

        points_of(failed, 151)
    assert source.to_bytes() == before


@pytest.mark.slow
def test_memory_that_is_not_there_for_a_solution():
    summary = some_summary()
    wanted, before = solve(summary, 2, n_init=2, random_state=0).centers, summary.to_bytes()

    def failed(number):
        has_failed = failed_line(lambda: solve(summary, 2, n_init=2, random_state=0), number)
        assert summary.to_bytes() == before
        if number % 397 == 1:
            assert np.array_equal(solve(summary, 2, n_init=2, random_state=0).centers, wanted)
        return has_failed

    points_of(failed, 397)


@pytest.mark.slow
def test_a_disk_that_is_full_when_a_summary_is_saved(tmp_path):
    path, old, new = tmp_path / "s.probi", some_summary(), some_summary()
    new.update(POINTS[90:])
    before, after = old.to_bytes(), new.to_bytes()

    def failed(number):
        old.save(path)
        _, has_failed = failed_system_call(lambda: new.save(path), number)
        assert path.read_bytes() in (before, after)
        new.save(path)
        assert path.read_bytes() == after
        assert [each.name for each in tmp_path.iterdir()] == ["s.probi"]
        return has_failed

    points_of(failed, 1)


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_moment_of_a_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(results, "write_run_report", lambda outcome, path: None)
    columns = columns_of(some_nodes("long", n=60), "long")
    columns["x0"][7] = float("inf")
    data = write(tmp_path / "x.csv", columns)

    def run(folder):
        return app.run([
            "cluster", str(data), "-k", "3", "--size", "12", "--n-init", "1", "--layout", "long", "--on-bad", "skip",
            "-q", "-o", str(folder / "out"), "--checkpoint", str(folder / "run.probi"), "--checkpoint-every", "20",
        ])  # fmt: skip

    assert run(tmp_path / "whole") == 0
    expected = files_of(tmp_path / "whole" / "out", "result.json")

    def failed(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        capsys.readouterr()
        code, has_failed = failed_system_call(lambda: run(folder), number)
        said = capsys.readouterr().err
        assert code == 0 or (code in (1, 2) and said.startswith("probi: ") and said.count("\n") == 1), (number, said)
        assert run(folder) == 0
        assert files_of(folder / "out", "result.json") == expected
        assert [each.name for each in folder.iterdir()] == ["out"]
        return has_failed

    points_of(failed, 23)
