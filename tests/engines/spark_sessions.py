"""The Spark session of the tests: a small cluster on this machine, two executors in processes of their own."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest

# A Java that lives for a minute: the second compiler would not earn what it costs.
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

EXECUTOR_MEGABYTES = 700

# One file is one partition, on any number of cores.
SETTINGS = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.memory": f"{EXECUTOR_MEGABYTES}m",
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
def cluster():
    """A session of this process, whose work is done by two executors of one core each."""
    import pyspark
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as home:
        # Executors write their logs below Spark's home, so they get one that goes away.
        for entry in Path(pyspark.__file__).parent.iterdir():
            (Path(home) / entry.name).symlink_to(entry)
        os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1"}
        builder = SparkSession.builder.master(f"local-cluster[2,1,{EXECUTOR_MEGABYTES}]").appName("probi tests")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        started = builder.getOrCreate()
        started.sparkContext.setLogLevel("ERROR")
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
