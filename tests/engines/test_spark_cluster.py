"""probi on an executor of Spark in a process of its own, which is killed."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import probi
from engines import listening
from engines.here import Here, Tables
from engines.spark_sessions import ADAPTIVE, EXECUTOR, SETTINGS, environment, need_spark, session, wait_until
from samples import blobs
from table_files import columns_of, some_nodes, write

from probi import Nodes, Summary, expected_cost, io, solve

need_spark()

from pyspark.sql import SparkSession  # noqa: E402

from probi.engines import spark as on_spark  # noqa: E402

pytestmark = pytest.mark.spark

N_PARTS, N_ROWS, N_CLUSTERS = 8, 24_000, 3
POINTS = {"layout": "points", "random_state": 1}
GROUPS = {"group_size": 10, "random_state": 1}


@pytest.mark.slow
def test_the_command_line_writes_the_same_folder(capsys, monkeypatch, tmp_path):
    """Before all others: it starts and stops a session of its own, whose Java they go on with.

    That Java and its web UI are reached from this machine alone: nothing here tells it its address.
    """
    columns = columns_of(some_nodes("long", n=3000), "long")
    columns["x0"][4321] = float("nan")
    path = write(tmp_path / "x.parquet", columns, step=1000)
    settings = ("cluster", path, "-k", "2,3", "--layout", "long", "--size", 40, "--missing", "skip-node", "--json")
    here = probi(capsys, *settings, "-o", tmp_path / "here")
    untold = {name: SETTINGS[name] for name in SETTINGS.keys() - {ADAPTIVE, "spark.driver.host", "spark.ui.enabled"}}
    conf = " ".join(f"--conf '{name}={value}'" for name, value in untold.items())
    for name, value in (environment() | {"PYSPARK_SUBMIT_ARGS": f"{conf} pyspark-shell"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("SPARK_LOCAL_IP")
    before, opened, make_engine = listening.addresses(), set(), on_spark.SparkEngine

    def engine(session):
        opened.update(listening.addresses() - before)
        return make_engine(session)

    monkeypatch.setattr(on_spark, "SparkEngine", engine)
    there = probi(capsys, *settings, "-o", tmp_path / "there", "--engine", "spark", "--workers", "local[2]")
    assert re.search(r"local\[2\].*http://(127\.0\.0\.1|localhost):", there.err)
    assert len(opened) >= 2  # the driver, its web UI
    assert listening.beyond_this_machine(opened) == set()
    costs = [[solution["cost"] for solution in ran.json["solutions"]] for ran in (there, here)]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert {path.name for path in (tmp_path / "there").iterdir()} == names
    # One part is the whole, so all that was found is the same.
    for name in ("summary.probi", "centers.parquet", "rejected.csv"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    tables = [pq.read_table(tmp_path / run / "assignment.parquet") for run in ("there", "here")]
    assert tables[0] == tables[1]
    assert SparkSession.getActiveSession() is None  # the command has stopped its session


@pytest.mark.parametrize(
    ("workers", "variables", "expected"),
    [
        ("3", {}, True),
        ("local[*]", {"SPARK_HOME": "/spark"}, True),
        ("spark://host:7077", {}, False),
        (None, {}, True),  # nothing says otherwise: Spark runs here
        (None, {"PYSPARK_GATEWAY_PORT": "1"}, False),
        (None, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, False),
        (None, {"SPARK_HOME": "/spark"}, False),
        (None, {"SPARK_CONF_DIR": "/etc/spark"}, False),
    ],
)
def test_a_master_that_was_configured_may_be_elsewhere(monkeypatch, workers, variables, expected):
    for name in on_spark.CONFIGURATION:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert on_spark.is_on_this_machine(workers) == expected


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Points around three places, in eight files."""
    X = blobs(n=N_ROWS, k=N_CLUSTERS, d=10, m=1)[0][:, 0]
    folder = tmp_path_factory.mktemp("table")
    for i, part in enumerate(np.split(X, N_PARTS)):
        table = pa.table({f"x{j}": part[:, j] for j in range(10)})
        pq.write_table(table, folder / f"{i:02d}.parquet")
    return folder


class Ran(NamedTuple):
    """What an executor did, and the one that took its place when it was killed."""

    files: list  # by partition
    groups: Summary  # before
    points: Summary
    told: list  # numbers of parts that were done, and of all
    lost: set  # partitions that the first executor had made for the summary, or was about to
    again: set  # those that the second one made


@pytest.fixture(scope="module")
def executor():
    with session(EXECUTOR) as started:
        yield started


@pytest.fixture(scope="module")
def ran(executor, folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_spark, "POLL_SECONDS", 0.05)
        return run_and_kill(executor, folder, tmp_path_factory.mktemp("notes") / "partitions")


def run_and_kill(executor, folder, notes):
    groups = on_spark.summarize(folder, N_CLUSTERS, **GROUPS, session=executor, part_bytes=1)
    frame = executor.read.parquet(str(folder))
    assert frame.rdd.getNumPartitions() == N_PARTS
    notes.touch()
    path, told = str(notes), []

    def slow(batches):
        """Rows as they are, after a while; writes down the partition, its first number, the stage and the executor."""
        from pyspark import TaskContext

        batches = list(batches)
        time.sleep(0.2)
        # Spark's Python is a child of a child of the executor.
        executor = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
        with Path(path).open("a") as notes:
            task = TaskContext.get()
            notes.write(f"{task.partitionId()} {batches[0].column(0)[0].as_py()!r} {task.stageId()} {executor}\n")
        yield from batches

    with ThreadPoolExecutor() as pool:
        job = pool.submit(
            on_spark.summarize, frame.mapInArrow(slow, frame.schema), N_CLUSTERS, **POINTS,
            on_part=lambda *counts: told.append(counts),
        )  # fmt: skip
        # Some parts are done. Before them, partitions are read to find out what the columns are.
        wait_until(lambda: job.done() or (told and told[-1][0] >= 3), "the job does not get on", 400)
        killed = notes.read_text().split()[-1]
        os.kill(int(killed), signal.SIGKILL)
        points = job.result()
    made = [line.split() for line in notes.read_text().splitlines()]
    firsts = {pq.read_table(path).column(0)[0].as_py(): path.name for path in folder.iterdir()}
    files = {int(partition): firsts[float(first)] for partition, first, *_ in made}
    last = max(int(stage) for *_, stage, process in made if process == killed)
    lost = {partition for partition, _, stage, process in made if process == killed and int(stage) == last}
    again = {partition for partition, *_, process in made if process != killed}
    return Ran([files[i] for i in range(N_PARTS)], groups, points, told, lost, again)


def test_executors_give_the_same_bytes_as_one_process(ran, folder):
    tables = Tables(pq.read_table(folder / name) for name in ran.files)
    points = Here().summarize(tables, N_CLUSTERS, dict(POINTS))
    groups = Here().summarize(folder, N_CLUSTERS, dict(GROUPS), 1)
    points.about = ran.points.about  # DataFrames have other names
    assert ran.points.to_bytes() == points.to_bytes()
    assert ran.groups.to_bytes() == groups.to_bytes()


def test_a_killed_executor_is_noticed_by_nobody(ran):
    """But by those who wait: the bytes are those above."""
    assert len(ran.lost & ran.again) > 2, "only what it was about to make was lost with the executor"
    assert max(of for _, of in ran.told) == N_PARTS


@pytest.mark.parametrize(("name", "reading"), [("points", {"layout": "points"}), ("groups", {"group_size": 10})])
def test_the_solution_is_as_good_as_that_of_one_machine(ran, folder, name, reading):
    nodes = Nodes.concat(list(io.read(folder, **reading)))
    local = Summary(N_CLUSTERS, random_state=1)
    local.update(nodes)
    summary = getattr(ran, name)
    assert summary.n_nodes == len(nodes) > summary.n_retained
    assert summary.mass == pytest.approx(nodes.mass.sum(), rel=1e-12)
    costs = [expected_cost(nodes, solve(some, N_CLUSTERS, random_state=1).centers) for some in (summary, local)]
    assert costs[0] <= 1.01 * costs[1]
