"""What forks Spark's Python processes in the tests, once it has imported and loaded all they need.

Spark starts dozens of them. Each would import Numba and load the kernels, and compile Spark's own modules, which it is
to take from an archive.
"""

import gc
import sys

# The same modules are installed, compiled; and archives are looked through again with every task.
sys.path[:] = [path for path in sys.path if not path.endswith((".zip", ".jar"))]
sys.path_importer_cache.clear()

import numpy as np  # noqa: E402
import pyspark.worker  # noqa: E402, F401
from engines.here import Here, tables_of  # noqa: E402
from pyspark.daemon import manager  # noqa: E402

import probi.engines.spark  # noqa: E402, F401
from probi import _parallel  # noqa: E402


def load_kernels():
    """Work as a process of Spark does, on this thread: others would not be there after a fork."""
    x = np.random.default_rng(0).normal(size=(2, 400))
    long = {"id": np.arange(400) // 2, "probability": np.full(400, 0.5)}
    with _parallel.limited(1):
        for columns, layout in (({}, "points"), (long, "long")):
            frame = tables_of({"x": x[0], "y": x[1]} | columns, [0, 200])
            Here().summarize(frame, 2, {"size": 8, "layout": layout, "random_state": 0})
            Here().assign(frame, x[:, :2], {"layout": layout}, None, 1)


if __name__ == "__main__":
    load_kernels()
    gc.freeze()  # Spark collects garbage after each task: ten times as long as the task took
    manager()
