"""probi on Apache Spark: executors summarize partitions, and the summaries are merged in a tree.

The executors' Python needs probi; only parameters are sent to them. ::

    from probi.engines import spark as on_spark

    summary = on_spark.summarize(spark.read.parquet("s3a://..."), 20, layout="points")
    model = on_spark.SparkPROBI(20).fit(frame)
    model.transform(frame)
"""

from probi.errors import MissingExtraError

try:
    import pyspark  # noqa: F401
except ImportError as error:
    raise MissingExtraError("Spark is not installed: pip install pyspark") from error

from probi.engines.spark.estimator import SparkPROBI, SparkPROBIModel
from probi.engines.spark.streaming import StreamingSummary
from probi.engines.spark.summaries import assign, summarize

__all__ = ["SparkPROBI", "SparkPROBIModel", "StreamingSummary", "assign", "summarize"]
