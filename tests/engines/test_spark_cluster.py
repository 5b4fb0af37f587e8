"""probi on a standalone Spark cluster on this machine: a master and two workers, one of which is killed."""

import os
import shlex
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import probi as probi_command
from commands import probi_process
from engines.spark_sessions import SETTINGS, Cluster, answer, need_spark, save_summaries, wait_until
from samples import blobs
from table_files import columns_of, some_nodes, write

import probi.io
from probi import Nodes, Summary, expected_cost, solve

need_spark()

pytestmark = pytest.mark.spark

N_PARTS, N_ROWS = 8, 100_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    """The ten measures of Covertype, or what was made in their place, in eight files."""
    try:
        table = pq.read_table(request.getfixturevalue("data_file")("covertype.parquet"))
        table = table.select(table.column_names[:10]).slice(0, N_ROWS)
    except pytest.skip.Exception:
        X = blobs(n=N_ROWS, k=10, d=10, m=1)[0][:, 0]  # as many as are solved for: one optimum
        table = pa.table({f"x{j}": X[:, j] for j in range(10)})
    folder = tmp_path_factory.mktemp("table")
    borders = np.linspace(0, len(table), N_PARTS + 1).astype(int).tolist()
    for i, (start, stop) in enumerate(pairwise(borders)):
        pq.write_table(table.slice(start, stop - start), folder / f"{i:02d}.parquet")
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield started
    finally:
        started.stop()


class Ran(NamedTuple):
    """What two workers did, one of which was killed in the last job."""

    folder: Path
    n_partitions: int
    told: list  # numbers of parts that were done, and of all
    times: Counter  # how often each partition of the last job was made


@pytest.fixture(scope="module")
def ran(cluster, folder, tmp_path_factory):
    save = tmp_path_factory.mktemp("summaries")
    notes = save / "notes"
    notes.touch()
    with ThreadPoolExecutor() as pool:
        job = pool.submit(
            answer, "summarize", master=cluster.address, folder=str(folder), save=str(save), notes=str(notes)
        )
        # The first partitions are made twice: before all, to find out what the columns are.
        wait_until(lambda: job.done() or len(notes.read_text().split()) >= 5, "the job does not get on", 400)
        cluster.kill_worker()
        told = job.result()
    return Ran(save, **told, times=Counter(notes.read_text().split()))


def test_two_workers_give_the_same_bytes_as_one_process(ran, spark, folder, tmp_path):
    save_summaries(spark, folder, tmp_path)
    assert ran.n_partitions == N_PARTS
    for name in ("points", "groups"):
        assert (ran.folder / name).read_bytes() == (tmp_path / name).read_bytes()


def test_a_killed_worker_changes_nothing(ran):
    assert (ran.folder / "slow").read_bytes() == (ran.folder / "points").read_bytes()
    assert set(ran.times) == set(map(str, range(N_PARTS)))
    assert sum(times > 1 for times in ran.times.values()) > 1, "nothing was lost with the worker"
    assert max(of for _, of in ran.told) == N_PARTS


@pytest.mark.parametrize(("name", "reading"), [("points", {"layout": "points"}), ("groups", {"group_size": 10})])
def test_the_solution_is_as_good_as_that_of_one_machine(ran, folder, name, reading):
    nodes = Nodes.concat(list(probi.io.read(folder, **reading)))
    local = Summary(10, random_state=1)
    local.update(nodes)
    summary = Summary.load(ran.folder / name)
    assert summary.n_nodes == len(nodes) > summary.n_retained
    assert summary.mass == pytest.approx(nodes.mass.sum(), rel=1e-12)
    costs = [expected_cost(nodes, solve(some, 10, random_state=1).centers) for some in (summary, local)]
    assert costs[0] <= 1.01 * costs[1]


def test_the_command_line_writes_the_same_folder(cluster, capsys, tmp_path):
    columns = columns_of(some_nodes("long", n=3000), "long")
    columns["x0"][4321] = float("nan")
    path = write(tmp_path / "x.parquet", columns, step=1000)
    settings = ("cluster", path, "-k", "2,3", "--layout", "long", "--size", 40, "--missing", "skip-node", "--json")
    here = probi_command(capsys, *settings, "-o", tmp_path / "here")
    # A cluster's own Python is asked for by the usual variable; a driver that is elsewhere has its address.
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    conf = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*conf, "pyspark-shell"])
    elsewhere = ("--engine", "spark", "--workers", cluster.address)
    there = probi_process(*settings, "-o", tmp_path / "there", *elsewhere, env=environment, timeout=400)
    assert cluster.address in there.err
    costs = [[solution["cost"] for solution in ran.json["solutions"]] for ran in (there, here)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert {path.name for path in (tmp_path / "there").iterdir()} == names
    # One part is the whole, so all that was found is the same.
    for name in ("summary.probi", "centers.parquet", "rejected.csv"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    tables = [pq.read_table(tmp_path / run / "assignment.parquet") for run in ("there", "here")]
    assert tables[0] == tables[1]
