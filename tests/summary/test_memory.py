"""Memory told in advance: it bounds what a summary takes, and what cannot fit is refused."""

import json
import subprocess
import sys

import numpy as np
import pytest
from commands import error_line, probi

from probi import InputError, Summary
from probi.summary import memory

# Clusters, features and realizations of a node.
SHAPES = {"points": (4, 3, 1), "embeddings": (2, 768, 1), "ensembles": (10, 10, 10), "dense nodes": (2, 10, 300)}

# Peak memory of four leaves, the last of them nearly full, while they are read, saved and solved. Each shape in a
# process of its own: others would leave memory that is used again.
PROGRAM = """
import json, os, sys
import numpy as np
import probi
from probi import _parallel

def status(name):
    with open("/proc/self/status") as lines:
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))

def nodes(n, d, m):
    points = np.random.default_rng(0).normal(size=(n, m, d))
    return probi.Nodes.from_points(points[:, 0]) if m == 1 else probi.Nodes.from_dense(points)

def run(k, size, d, m, step):
    summary = probi.Summary(k, size=size, random_state=0)
    n = 4 * summary._config.expected_leaf(d * m) - 1
    some = nodes(step, d, m)
    before = status("VmRSS")
    for start in range(0, n, step):
        summary.update(some[: n - start])
    summary.to_bytes()
    probi.solve(summary, 2, n_init=1, random_state=0)
    return status("VmHWM") - before, summary.memory_estimate(d, m, n_nodes=n)

with _parallel.limited(1):
    for k, d, m in json.loads(sys.argv[1]):
        if os.fork() == 0:
            run(2, 20, d, m, 100)
            with open("/proc/self/clear_refs", "w") as file:
                file.write("5")
            print(*run(k, None, d, m, 500), flush=True)
            os._exit(0)
        os.wait()
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_an_estimate_bounds_what_is_taken_and_is_at_most_twice_as_much():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([*SHAPES.values()])], check=True, capture_output=True, timeout=300
    )
    for name, line in zip(SHAPES, ran.stdout.splitlines(), strict=True):
        taken, estimate = map(int, line.split())
        assert taken <= estimate <= memory.FACTOR * taken + memory.FIXED, (name, taken, estimate)


def test_an_estimate_grows_with_nodes_up_to_a_leaf_and_slowly_after_it():
    summary = Summary(10, size=500)
    short, leaf, long, any_number = (
        summary.memory_estimate(5, n_nodes=n) - memory.FIXED for n in (0, 4_000, 10**6, None)
    )
    assert short == 0
    assert 0 < leaf < long < any_number < 10 * leaf
    assert summary.memory_estimate(5, 100) > 5 * summary.memory_estimate(5)
    assert Summary(10, size=500, max_realizations=1).memory_estimate(5, 100) == summary.memory_estimate(5)
    assert summary.memory_estimate(500, dtype=np.float32) < 0.6 * summary.memory_estimate(500)


@pytest.mark.parametrize("given", [{"n_features": 0}, {"n_realizations": 0.5}, {"n_nodes": -1}])
def test_an_estimate_of_nothing_is_refused(given):
    with pytest.raises(InputError, match=f"{next(iter(given))} is .*, but must be a whole number"):
        Summary(2).memory_estimate(**{"n_features": 2} | given)


def test_nodes_that_cannot_fit_are_refused_and_change_nothing(monkeypatch):
    monkeypatch.setattr(memory, "MIN_COORDINATES", 1000)
    summary = Summary(2, random_state=0)
    summary.update(np.zeros((100, 2)))
    before = summary.to_bytes()
    monkeypatch.setattr(memory, "limit_bytes", lambda: 100_000)
    with pytest.raises(
        InputError, match=r"^The summary would take at least 0.0 GB, but there are 0.0 GB of memory. Use"
    ):
        summary.update(np.zeros((3000, 2)))
    assert summary.to_bytes() == before
    summary.update(np.zeros((100, 2)))
    monkeypatch.undo()
    summary.update(np.zeros((3000, 2)))
    assert summary.n_nodes == 3200


@pytest.mark.skipif(sys.platform != "linux", reason="limits differ")
def test_memory_is_that_of_the_machine_or_the_limit_of_the_process(monkeypatch):
    import resource

    assert 1e8 < memory.limit_bytes() < 1e15
    monkeypatch.setattr(resource, "getrlimit", lambda _: (123_456, 10**9))
    assert memory.limit_bytes() == 123_456


def test_info_tells_how_much_memory_a_run_takes(tmp_path, capsys):
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).normal(size=(600, 4)))
    groups = ("--layout", "groups", "--group-size", 3)
    found = probi(capsys, "info", path, *groups, "--estimate", "-k", "2:5", "--size", 60, "--json").json
    estimate = Summary(5, size=60).memory_estimate(4, 3, n_nodes=200)
    assert found["memory_estimate_mb"] == 400 + estimate // 10**6
    assert "memory_estimate_mb" not in probi(capsys, "info", path, *groups, "--json").json
    empty = tmp_path / "x.csv"
    empty.write_text("x,y\n")
    assert "nothing to estimate" in error_line(probi(capsys, "info", empty, "--estimate", "-k", 2))
    assert error_line(probi(capsys, "info", path, "--estimate")) == "--estimate needs the number of clusters: -k."
