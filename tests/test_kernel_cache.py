"""Compiled kernels on disk: what is noticed, what is shared, and what a first run says and starts."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from numpy.testing import assert_array_equal

import probi
from probi import _notes
from probi._kernels import _dispatcher, geometry
from probi.cli.console import Console

pytestmark = pytest.mark.process

SOURCE = Path(probi.__file__).parent

VARIANCES = """
import json, sys
import probi
from probi._kernels import pull
nodes = probi.Nodes([[0.0], [2.0], [5.0]], [0.5, 0.5, 1.0], [0, 2, 3])
print(json.dumps([nodes.variances.tolist(), sum(pull.node_moments.dispatcher.stats.cache_misses.values())]))
"""


def start(code, cache, source=SOURCE, ahead="0", **pipes):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(source).parent),
        "NUMBA_CACHE_DIR": str(cache),
        "PROBI_COMPILE_AHEAD": ahead,
    }
    pipes = pipes or {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", code], env=environment, text=True, **pipes)


def output(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert errors == ""  # a pipe is told nothing of compiling
    return out


@pytest.fixture
def package(tmp_path):
    """A copy of the sources, which a test may change."""
    return shutil.copytree(SOURCE, tmp_path / "src" / "probi", ignore=shutil.ignore_patterns("__pycache__", "data"))


def test_a_change_in_what_a_kernel_calls_is_noticed(package, tmp_path):
    """And what only compiling needs is not imported to load."""
    code = f"{VARIANCES}\nprint('numba.np.linalg' in sys.modules)"
    assert output(start(code, tmp_path / "cache", package)).splitlines() == ["[[1.0, 0.0], 1]", "True"]
    assert list((tmp_path / "cache").rglob("*node_moments*.nbc"))
    assert output(start(code, tmp_path / "cache", package)).splitlines() == ["[[1.0, 0.0], 0]", "False"]
    helper = package / "_kernels" / "geometry.py"  # not the file of the kernel
    text = helper.read_text("utf-8")
    changed = text.replace("total += difference * difference", "total += 3.0 * difference * difference")
    assert changed != text
    helper.write_text(changed, "utf-8")
    assert json.loads(output(start(VARIANCES, tmp_path / "cache", package))) == [[3.0, 0.0], 1]


def test_processes_that_start_together_compile_a_kernel_once(tmp_path):
    together = [start(VARIANCES, tmp_path) for _ in range(2)]
    assert sorted(json.loads(output(process)) for process in together) == [[[1.0, 0.0], n] for n in (0, 1)]
    assert not list(tmp_path.rglob("*.lock"))


def test_a_process_without_a_place_for_the_cache_compiles_for_itself(package, tmp_path, monkeypatch):
    """Numba looks in three places; a path below a regular file is no folder, not even for root."""
    for file in (package / "_kernels" / "__pycache__", tmp_path / "file"):
        file.touch()
    nowhere = str(tmp_path / "file" / "below")
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, nowhere)
    code = f"{VARIANCES}\nprint(type(pull.node_moments.dispatcher._cache).__name__)"
    assert output(start(code, nowhere, package)).splitlines() == ["[[1.0, 0.0], 1]", "NullCache"]


def test_a_small_problem_needs_one_kernel(tmp_path):
    code = "import numpy, probi; probi.solve(numpy.random.default_rng(0).normal(size=(200, 2)), 3, random_state=0)"
    output(start(code, tmp_path, ahead="1"))
    assert [path.name.split("-")[0] for path in tmp_path.rglob("*.nbi")] == ["geometry.expected_distances"]


def test_a_kernel_has_its_own_copy_of_what_it_calls():
    """Else it would run the copy of the kernel that its process compiled first: its bits would depend on the cache."""
    rng = np.random.default_rng(0)
    nodes = probi.Nodes.from_groups(rng.normal(size=(900, 3)), 30)  # sums so long that compilers can round them anyhow
    compiled = _dispatcher.make_dispatcher(geometry.distances_of_pairs.__wrapped__)
    compiled._cache = NullCache()
    centers, found = rng.normal(size=(len(nodes), 3)), np.zeros((2, len(nodes)))
    for kernel, out in zip((compiled, geometry.distances_of_pairs), found, strict=True):
        kernel(nodes.points, nodes.probabilities, nodes.offsets, centers, out, 0, len(nodes))
    assert_array_equal(*found)
    (overload,) = compiled.overloads.values()
    text = overload.library.get_llvm_str()
    assert re.search(r"define internal .*expected_distance", text)
    assert "linkonce_odr" not in text


def test_a_second_process_compiles_what_is_needed_later(monkeypatch):
    started = []

    class Process:
        def __init__(self, command, env, **_):
            started.append((command, env[_dispatcher.VARIABLE]))

        def wait(self):
            pass

    monkeypatch.setattr(_dispatcher, "_is_announced", True)
    monkeypatch.setattr(_dispatcher, "_is_started", False)
    monkeypatch.setattr(_dispatcher, "_may_start", lambda: True)
    monkeypatch.setattr(subprocess, "Popen", Process)
    signature = (numba.float64[:, ::1], numba.float64[::1])
    _dispatcher._begin_first_run(_dispatcher.BASIC[0], signature)
    assert not started
    for _ in range(2):
        _dispatcher._begin_first_run("reassign", signature)
    (((python, option, code), ahead),) = started
    assert (python, option, ahead) == (sys.executable, "-c", "0")  # it starts no other
    exec(code, {})  # here kernels are there, and it has nothing to compile


def test_a_terminal_is_told_once_that_kernels_are_compiled(tmp_path):
    pty = pytest.importorskip("pty")
    for said in (1, 0):
        terminal, other_end = pty.openpty()
        process = start(VARIANCES, tmp_path, ahead="1", stdout=subprocess.PIPE, stderr=other_end)
        process.communicate(timeout=300)
        os.close(other_end)
        try:
            shown = os.read(terminal, 10_000).decode()
        except OSError:  # nothing was written, and the other end is closed
            shown = ""
        os.close(terminal)
        assert shown.count("compiling kernels") == said
        assert shown.count("probi: compiled in") == said
        assert shown.count("\n") == 2 * said


def test_a_notebook_is_told_and_who_wants_quiet_is_not(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    for quiet in (False, True):
        monkeypatch.setattr(_notes, "quiet", False)
        monkeypatch.setattr(_dispatcher, "_is_announced", False)
        monkeypatch.setattr(_dispatcher, "_stopwatch", _dispatcher._Stopwatch())
        Console(quiet=quiet)
        _dispatcher._begin_first_run(_dispatcher.BASIC[0], (numba.float64[::1],))
        for change in (+1, -1):
            _dispatcher._stopwatch.running(change)
        _dispatcher._stopwatch._say()
        said = "" if quiet else r"probi: compiling kernels .*\nprobi: compiled in \d+ seconds\.\n"
        assert re.fullmatch(said, capsys.readouterr().err)
