"""probi on Dask: workers summarize partitions, and the summaries are merged in a tree.

>>> import dask.array as da
>>> import numpy as np
>>> import probi
>>> from probi.engines import dask as on_dask
>>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
>>> summary = on_dask.summarize(points, 4, random_state=0)
>>> summary.n_nodes
20000
>>> result = probi.solve(summary, 4, random_state=0)
>>> on_dask.assign(points, result.centers)
dask.array<_labels, shape=(20000,), dtype=int32, chunksize=(5000,), chunktype=numpy.ndarray>
"""

from probi.errors import MissingExtraError

try:
    import dask.dataframe  # noqa: F401
except ImportError as error:
    raise MissingExtraError("Dask is not installed: pip install 'dask[dataframe]' distributed") from error

from probi.engines.dask.estimator import DaskPROBI
from probi.engines.dask.summaries import assign, summarize

__all__ = ["DaskPROBI", "assign", "summarize"]
