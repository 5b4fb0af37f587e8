"""Spark sessions of the tests: one in the process of the tests, others in processes of their own.

Only one of them can be in a process. As a program: the name of a function and its arguments as JSON.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# A Java that lives for a minute: the second compiler would not earn what it costs.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# One file is one partition, on any number of cores.
SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": "3",
    # Who does not answer is gone.
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.sql.files.openCostInBytes": "64m",
}


def need_spark():
    """Skip all tests of a module where there is no Spark, or no Java to run it."""
    pytest.importorskip("pyspark", reason="Spark is not installed")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        pytest.skip("no java, which Spark needs", allow_module_level=True)


@contextlib.contextmanager
def session(master, **settings):
    """A session of this process."""
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master(master).appName("probi tests")
    for name, value in (SETTINGS | settings).items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    try:
        yield started
    finally:
        started.stop()


# -- processes --------------------------------------------------------------------------------------------------------


def answer(function, **arguments):
    """What a function of this module returns in a process of its own.

    Waits also for the Java of that process, which writes to the same pipes.
    """
    command = [sys.executable, __file__, function, json.dumps(arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


class Cluster:
    """A standalone master and two workers of one core each on this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.master = self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.address = self._said("master", r"Starting Spark master at (spark://\S+)")
        self.workers = [self._start_worker(i) for i in range(2)]
        for i in range(2):
            self._said(f"worker{i}", r"(Successfully registered) with master")

    def _start_worker(self, i):
        options = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        return self._start(
            f"worker{i}", "worker.Worker", *options, "--work-dir", self.folder / f"work{i}", self.address
        )

    def _start(self, name, program, *options):
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = os.environ | {
            "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA, "PYSPARK_PYTHON": sys.executable,
        }  # fmt: skip
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{program}", *options]
        with self._log(name).open("wb") as log:
            # A session of its own: with a worker its executors can be killed too.
            return subprocess.Popen(
                list(map(str, command)), env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def _log(self, name):
        return self.folder / f"{name}.log"

    def _said(self, name, pattern):
        log = self._log(name)
        wait_until(lambda: re.search(pattern, log.read_text()), f"{name} does not start, see {log}")
        return re.search(pattern, log.read_text())[1]

    def kill_worker(self):
        """Kill the first worker and its executors, as if the machine were gone."""
        os.killpg(self.workers[0].pid, signal.SIGKILL)
        self.workers[0].wait()

    def stop(self):
        for process in [*self.workers, self.master]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until(is_so, otherwise, seconds=60):
    for _ in range(20 * seconds):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError(otherwise)


# -- what runs there --------------------------------------------------------------------------------------------------


class Slow:
    """Rows as they are, after a while; writes down which partitions were asked for."""

    def __init__(self, notes, seconds):
        self.notes, self.seconds = notes, seconds

    def __call__(self, batches):
        from pyspark import TaskContext

        batches = list(batches)
        time.sleep(self.seconds)
        with Path(self.notes).open("a") as notes:
            notes.write(f"{TaskContext.get().partitionId()}\n")
        yield from batches


POINTS = {"layout": "points", "random_state": 1}


def summarize(master, folder, save, notes):
    """Save summaries of the same files, as a DataFrame of points and as groups; then the first once more, slowly."""
    from probi.engines import spark as on_spark

    told = []
    with session(master) as spark:
        frame = save_summaries(spark, folder, save)
        slow = frame.mapInArrow(Slow(notes, 0.2), frame.schema)
        summary = on_spark.summarize(slow, 10, **POINTS, on_part=lambda *counts: told.append(counts))
        summary.save(Path(save) / "slow")
        return {"n_partitions": frame.rdd.getNumPartitions(), "told": told}


def save_summaries(spark, folder, save):
    """Save summaries of files, as a DataFrame of points and as groups; return the DataFrame."""
    from probi.engines import spark as on_spark

    frame = spark.read.parquet(str(folder))
    on_spark.summarize(frame, 10, **POINTS).save(Path(save) / "points")
    groups = {"group_size": 10, "random_state": 1, "part_bytes": 1}
    on_spark.summarize(folder, 10, **groups, session=spark).save(Path(save) / "groups")
    return frame


def run_stream(spark, folder, state, checkpoint, **settings):
    """Read a stream to its end, a file a batch."""
    from probi.engines.spark import StreamingSummary

    sink = StreamingSummary(state, **{"n_clusters": 2, "size": 8, "layout": "long", "n_partitions": 2} | settings)
    frame = spark.readStream.schema("id long, x0 double, x1 double, probability double, weight double")
    frame = frame.option("maxFilesPerTrigger", 1).parquet(str(folder))
    query = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    return {"n_nodes": sink.summary.n_nodes, "query": query.id, "state": sink.summary.about["stream"]}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
