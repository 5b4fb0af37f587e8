"""PROBI as an estimator for what Dask holds."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike

from probi import _parallel
from probi.engines.dask.summaries import assign, summarize
from probi.errors import InputError
from probi.estimators import PROBI


class DaskPROBI(PROBI):
    """:class:`probi.PROBI` for data that Dask holds, and for files that its workers read.

    Parameters
    ----------
    n_clusters, summary_size, preset, n_init, init, max_iter, tol, random_state, n_jobs, verbose, summary_params
        As in :class:`probi.PROBI`; the summary is solved in this process.
    reading : dict, default=None
        How DataFrames and files are read, as in :func:`probi.io.read`: ``{"layout": "groups", "group_size": 10}``.

    Attributes
    ----------
    cluster_centers_, cost_, lower_bound_, result_, summary_, n_iter_, n_features_in_
        As in :class:`probi.PROBI`; the cost is an estimate with a standard error, ``result_.standard_error``.
    labels_ : dask Array, Bag or DataFrame
        What :meth:`predict` gives for the data that was fitted: lazy.

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
        super().__init__(
            n_clusters, summary_size=summary_size, preset=preset, n_init=n_init, init=init, max_iter=max_iter, tol=tol,
            random_state=random_state, n_jobs=n_jobs, verbose=verbose, summary_params=summary_params,
        )  # fmt: skip
        self.reading = reading

    def fit(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Summarise all partitions and solve the summary.

        Parameters
        ----------
        X : dask DataFrame, Array or Bag, or paths
            As in :func:`summarize`.
        y : None
            Not used.
        sample_weight : None
            Weights are a column of the data: ``reading={"weight": ...}``.

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
        if sample_weight is not None:
            raise InputError("Weights are a column of the data here: reading={'weight': 'column'}.")
        self._start()
        self.summary_ = summarize(
            X, self.n_clusters, size=self.summary_size, preset=self.preset, random_state=self._seed,
            **self.summary_params or {}, **self.reading or {},
        )  # fmt: skip
        self.n_features_in_ = self.summary_.n_features or 0
        with _parallel.limited(self.n_jobs):
            self.result_ = self._solved(self.summary_, self._seed)
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

    def partial_fit(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Not here: merge summaries instead.

        :meta private:
        """
        raise InputError("DaskPROBI is fitted at once. For more data later merge summaries: Summary.merge.")

    def transform(self, X: Any) -> Any:
        """Not here: :func:`assign` gives the two smallest distances of each node.

        :meta private:
        """
        raise InputError("DaskPROBI does not transform. probi.engines.dask.assign gives labels and distances.")

    def score(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> float:
        """Not here: ``cost_`` is the estimate for the data that was fitted.

        :meta private:
        """
        raise InputError("DaskPROBI has no score. cost_ is the cost of the data that was fitted, with its error.")
