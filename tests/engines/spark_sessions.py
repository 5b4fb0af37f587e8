"""The Spark session of the tests: threads of one process, or an executor in a process of its own."""

import atexit
import contextlib
import functools
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

# A Java that lives for a minute: the second compiler, and checking classes that Spark brings, would not earn what they
# cost.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions -XX:-PrintWarnings -Xverify:none"
# Nor would collecting garbage each time that its classes have grown.
JAVA += " -XX:MetaspaceSize=256m -Xmn150m"

EXECUTOR_MEGABYTES = 700

THREADS = "local[2]"
# One executor of two cores: a second one takes as long to start as all tests of it together.
EXECUTOR = f"local-cluster[1,2,{EXECUTOR_MEGABYTES}]"

# Also of this folder, for spark_daemon.py.
PATHS = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])

# Plans that change while a query runs: what users have, and a fifth of the time of all tests. Those that rely on
# partitions as they were asked for turn it on.
ADAPTIVE = "spark.sql.adaptive.enabled"

# One file is one partition, on any number of cores.
SETTINGS = {
    ADAPTIVE: "false",
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": f"{EXECUTOR_MEGABYTES}m",
    "spark.sql.shuffle.partitions": "3",
    # Nor would code that is written and compiled for each query, of some hundred rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Python processes are forked from one that has imported all they need: there are dozens of them.
    "spark.python.daemon.module": "engines.spark_daemon",
    "spark.executorEnv.PYTHONPATH": PATHS,
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


@functools.cache
def home():
    """Where Spark is: executors write their logs below it, so it is a folder that goes away with this process."""
    import pyspark

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for entry in Path(pyspark.__file__).parent.iterdir():
        (folder / entry.name).symlink_to(entry)
    return str(folder)


def environment():
    """Variables by which Spark finds itself, its Python and its address."""
    return {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": home(), "SPARK_LOCAL_IP": "127.0.0.1"}


@contextlib.contextmanager
def session(master):
    """A session of this process. One after the other: they share their Java."""
    from pyspark.sql import SparkSession

    os.environ |= environment()
    builder = SparkSession.builder.master(master).appName("probi tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    assert started.sparkContext.master == master
    # As Spark sets it for DataFrames: what it has RDDs do would need another process to fork from, which imports again.
    started.sparkContext.environment["SPARK_SIMPLIFIED_TRACEBACK"] = "1"
    try:
        yield started
    finally:
        started.stop()
        del os.environ["SPARK_HOME"]


def wait_until(is_so, otherwise, seconds=60):
    for _ in range(20 * seconds):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError(otherwise)


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
