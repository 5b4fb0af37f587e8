"""PROBI as an estimator for Dask collections."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike

from probi import _parallel
from probi._random import seed_of
from probi.engines.dask.summaries import assign, summarize
from probi.estimators import KMedianBase


class DaskPROBI(KMedianBase):
    """:class:`probi.PROBI` for Dask collections, and for files that Dask workers read.

    Parameters
    ----------
    n_clusters, summary_size, preset, n_init, init, max_iter, tol, random_state, n_jobs, verbose, summary_params
        As in :class:`probi.PROBI`; the summary is solved in this process.
    reading : dict, default=None
        How DataFrames and files are read, as in :func:`probi.io.read`: ``{"layout": "groups", "group_size": 10}``.
        Weights are a column of the data: ``{"weight": "column"}``.

    Attributes
    ----------
    cluster_centers_, cost_, lower_bound_, result_, summary_, n_iter_, n_features_in_
        As in :class:`probi.PROBI`; the cost is an estimate with a standard error, ``result_.standard_error``.
    labels_ : dask Array, Bag or DataFrame
        Result of :meth:`predict` for the fitted data, lazy.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from probi.engines.dask import DaskPROBI
    >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
    >>> model = DaskPROBI(n_clusters=4, random_state=0).fit(points)
    >>> model.labels_.compute().shape
    (20000,)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        summary_size: int | None = None,
        preset: str = "default",
        n_init: int | None = None,
        init: ArrayLike | None = None,
        max_iter: int | None = None,
        tol: float = 1e-4,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        summary_params: dict[str, Any] | None = None,
        reading: dict[str, Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.summary_size = summary_size
        self.preset = preset
        self.n_init = n_init
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.summary_params = summary_params
        self.reading = reading

    def fit(self, X: Any, y: None = None) -> Self:
        """Summarize all partitions and solve the summary.

        Parameters
        ----------
        X : dask DataFrame, Array or Bag, or paths
            As in :func:`summarize`.
        y : None
            Not used.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> import dask.array as da
        >>> import numpy as np
        >>> import probi
        >>> from probi.engines import dask as on_dask
        >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
        >>> on_dask.DaskPROBI(n_clusters=4, random_state=0).fit(points).cluster_centers_.shape
        (4, 3)
        """
        seed = seed_of(self.random_state)  # draws from a Generator only once
        self.summary_ = summarize(
            X, self.n_clusters, size=self.summary_size, preset=self.preset, random_state=seed,
            **self.summary_params or {}, **self.reading or {},
        )  # fmt: skip
        self.n_features_in_ = self.summary_.n_features or 0
        with _parallel.limited(self.n_jobs):
            self._keep(self._solved(self.summary_, seed))
        self.labels_ = self.predict(X)
        return self

    def predict(self, X: Any) -> Any:
        """Assign nodes lazily; see :func:`assign`.

        Parameters
        ----------
        X : dask DataFrame, Array or Bag, or paths
            As in :func:`summarize`.

        Returns
        -------
        dask Array, Bag or DataFrame
            Labels, and more for a DataFrame or files.

        Examples
        --------
        >>> import dask.array as da
        >>> import numpy as np
        >>> import probi
        >>> from probi.engines import dask as on_dask
        >>> points = da.from_array(np.random.default_rng(0).normal(size=(20_000, 3)), chunks=(5_000, 3))
        >>> model = on_dask.DaskPROBI(n_clusters=4, random_state=0).fit(points)
        >>> model.predict(points[:10]).shape
        (10,)
        """
        with self._fitted():
            space = self.summary_.about.get("space")
            return assign(X, self.result_.centers, **{"space": space} if space else {}, **self.reading or {})
