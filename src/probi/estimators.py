"""scikit-learn estimators for the solvers."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from probi import _parallel
from probi._types import Array, Floats, Labels
from probi.errors import InputError
from probi.nodes import Nodes, as_nodes, holds_realizations
from probi.objective import assign_inliers, expected_cost, expected_distances, memberships
from probi.solver.on_nodes import refine
from probi.solver.options import Progress, SolveOptions
from probi.solver.problem import Problem
from probi.solver.result import Result, make_result, warnings_about
from probi.solver.solve import solve_quietly
from probi.solver.trimmed import trimmed_result
from probi.summary import Summary
from probi.validation import seed_of

# Maximum number of rounds on all nodes for centers that were found on a coreset. In 768 dimensions, where the error of
# the coreset is largest, 12 rounds lower the cost by 0.45 %; further ones lower it by less than 0.01 % each.
MAX_ROUNDS = 12

# Fitted attributes, and the attributes of a Result that they return.
_RESULT_ATTRIBUTES = {
    "cluster_centers_": "centers",
    "labels_": "labels",
    "cost_": "cost",
    "lower_bound_": "lower_bound",
    "n_iter_": "n_iter",
    "representatives_": "representatives",
}


@dataclass(eq=False, repr=False, kw_only=True)
class KMedianBase(ClusterMixin, BaseEstimator):
    """Base class of all estimators, including those of engines: parameters, solving, and attributes of the result.

    A dataclass stores its parameters as given, as scikit-learn requires.

    :meta private:
    """

    n_clusters: int = field(default=8, kw_only=False)
    preset: str = "default"
    n_init: int | None = None
    init: ArrayLike | None = None
    max_iter: int | None = None
    tol: float = 1e-4
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    outliers: float | None = None
    outlier_distance: float | None = None

    def _solve(self, source: Nodes | Summary, random_state: Any) -> Result:
        """Solve with the parameters of the estimator; warnings are of scikit-learn's class."""
        # None: a summary determines the preset of its solver.
        preset = self.preset if isinstance(source, Nodes) else None
        options = SolveOptions(
            self.n_clusters, self.n_init, preset, self.init, self.max_iter, self.tol, random_state,
            Progress(verbose=self.verbose), self.outliers, self.outlier_distance,
        )  # fmt: skip
        result = solve_quietly(source, options)
        for message in warnings_about(result):
            warnings.warn(message, ConvergenceWarning, stacklevel=3)
        return result

    def _threads_if_fitted(self) -> Any:
        """Raise unless there are centers; return a context that limits threads to ``n_jobs``."""
        check_is_fitted(self)
        return _parallel.limited(self.n_jobs)

    def __getattr__(self, name: str) -> Any:
        # Called only for missing attributes: parts of the result, which is computed on access if there is a summary.
        stored = self.__dict__
        if name in ("result_", *_RESULT_ATTRIBUTES) and ("result_" in stored or "summary_" in stored):
            if "result_" not in stored:
                with _parallel.limited(self.n_jobs):
                    self.result_ = self._solve(self.summary_, self._seed)
            value = self.result_ if name == "result_" else getattr(self.result_, _RESULT_ATTRIBUTES[name])
            if value is not None:
                return value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        # Tab completion lists lazy attributes; labels exist only after fit.
        # Not scikit-learn's own __dir__: it accesses every name, and _n_features_out would compute centers.
        result = self.__dict__.get("result_")
        lazy = {"result_", *_RESULT_ATTRIBUTES} if result is not None or "summary_" in self.__dict__ else set()
        return [*object.__dir__(self), *(lazy - {"labels_"} if getattr(result, "labels", None) is None else lazy)]


@dataclass(eq=False, repr=False, kw_only=True)
class _KMedian(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KMedianBase):
    """Base class of PLloyd and PROBI: prediction, transformation and scores."""

    def fit_predict(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> Labels:
        """Find the centers and return the label of each node.

        Parameters
        ----------
        X : Nodes or array-like
            As in :meth:`fit`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Multiplies the weights of nodes.

        Returns
        -------
        ndarray of shape (n,)
            Index of the center of each node.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> probi.PLloyd(n_clusters=2, random_state=0).fit_predict(X)
        array([0, 0, 0, 0, 1, 1, 1], dtype=int32)
        """
        labels: Labels = self.fit(X, sample_weight=sample_weight).labels_
        return labels

    def predict(self, X: Any) -> Labels:
        """Center with the smallest expected distance for each node; -1 for outliers, if the fit left some out.

        Parameters
        ----------
        X : Nodes or array-like
            As in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n,)
            Index of the center of each node.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> model = probi.PLloyd(n_clusters=2, random_state=0).fit(X)
        >>> model.predict([[1.0], [7.0]])
        array([0, 1], dtype=int32)
        """
        with self._threads_if_fitted():
            return assign_inliers(self._nodes(X), self.cluster_centers_, self.result_.outlier_distance)

    def predict_proba(self, X: Any) -> Floats:
        """Probability that each center is the nearest one to a realization of the node.

        The center of a node as a whole, which :meth:`predict` returns, need not be its most probable one.

        Parameters
        ----------
        X : Nodes or array-like
            As in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n, n_clusters)
            The :func:`probi.memberships`; rows sum to 1.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> model = probi.PLloyd(n_clusters=2, random_state=0).fit(X)
        >>> model.predict_proba(probi.Nodes.from_dense([[[0.0], [1.0], [8.0], [9.0], [9.5]]]))
        array([[0.4, 0.6]])
        """
        with self._threads_if_fitted():
            probabilities: Floats = memberships(self._nodes(X), self.cluster_centers_)
            return probabilities

    def transform(self, X: Any) -> Array:
        """Expected distance of each node to each center.

        Parameters
        ----------
        X : Nodes or array-like
            As in :meth:`fit`.

        Returns
        -------
        ndarray of shape (n, n_clusters)
            In the dtype of the nodes.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> model = probi.PLloyd(n_clusters=2, random_state=0).fit(X)
        >>> model.transform(probi.Nodes.from_dense([[[0.0], [2.1]]])).round(2)
        array([[1.05, 8.05]])
        """
        with self._threads_if_fitted():
            nodes = self._nodes(X)
            return expected_distances(nodes, self.cluster_centers_).astype(nodes.dtype, copy=False)

    def score(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> float:
        """Negative expected cost of the nodes: higher is better.

        Parameters
        ----------
        X : Nodes or array-like
            As in :meth:`fit`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Multiplies the weights of nodes.

        Returns
        -------
        float
            Negative :func:`probi.expected_cost`.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> model = probi.PLloyd(n_clusters=2, random_state=0).fit(X)
        >>> round(model.score([[0.1], [11.1]]), 6)
        -2.0
        """
        with self._threads_if_fitted():
            return -expected_cost(self._nodes(X, sample_weight), self.cluster_centers_)

    def _nodes(self, X: Any, sample_weight: ArrayLike | None = None, reset: bool = False) -> Nodes:
        """Convert input to nodes, and check that its features are those of the fit."""
        # scikit-learn's checks know no realizations: for input of 0 or 4 dimensions they would ask for 2, never for 3.
        if holds_realizations(X) or np.isscalar(X) or X is None or getattr(X, "ndim", 0) > 3:
            nodes = as_nodes(X)
            if len(nodes) == 0:
                raise InputError("At least 1 node is required, got 0.")
            self._check_feature_count(nodes, reset)
        else:
            nodes = Nodes.from_points(validate_data(self, X, reset=reset, dtype=[np.float64, np.float32]))
        if sample_weight is None:
            return nodes
        factors = np.asarray(sample_weight, dtype=np.float64)
        if factors.shape not in ((), (len(nodes),)):
            raise InputError(f"sample_weight has shape {factors.shape}, but there are {len(nodes)} nodes.")
        return nodes.with_weights(nodes.weights * factors)

    def _check_feature_count(self, nodes: Nodes, reset: bool) -> None:
        """Check the number of features, or store it if ``reset``; what validate_data does for an array."""
        if reset:
            self.n_features_in_ = nodes.n_features
            if hasattr(self, "feature_names_in_"):  # of an earlier fit: nodes have no names of features
                del self.feature_names_in_
        elif nodes.n_features != self.n_features_in_:
            raise InputError(
                f"X has {nodes.n_features} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class PLloyd(_KMedian):
    """k-median clustering of uncertain nodes in memory (P-LLOYD++).

    Assigns each node as a whole to the center with the smallest expected distance and moves centers until the expected
    cost stops decreasing. Rows of an ordinary 2-D array are certain nodes, so this is k-median for ordinary data too.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of centers.
    preset : {"default", "paper"}, default="default"
        "paper" is P-LLOYD++ as published: one start, at most 10 rounds. The default finds lower costs.
    n_init : int, default=None
        Number of starts, of which the best is refined. None: as in :func:`solve`.
    init : array-like of shape (n_clusters, n_features), default=None
        Initial centers; they keep their order. None: centers are drawn.
    max_iter : int, default=None
        Maximum number of rounds on the nodes. None: 100, or 10 with ``preset="paper"``.
    tol : float, default=1e-4
        The default preset stops when a round lowers the cost by less than this fraction of it.
    random_state : None, int, Generator or RandomState, default=None
        The same seed gives the same bits, for any number of threads.
    n_jobs : int, default=None
        Threads; -1 means one per core, -2 one less. None: the environment variable PROBI_NUM_THREADS or
        OMP_NUM_THREADS, otherwise one per core.
    verbose : int, default=0
        1 prints a line per start, 2 also one per round.
    outliers, outlier_distance : float, default=None
        Share of the mass to leave out, or the distance beyond which nodes are left out, as in :func:`solve`. Outliers
        get the label -1.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        In order of decreasing mass, or in the order of ``init`` if given.
    labels_ : ndarray of shape (n_nodes,)
        Center of each node.
    cost_ : float
        Expected cost, exact.
    lower_bound_ : float
        Certified lower bound on the cost of any number of centers.
    result_ : Result
        All of the above, and mass, cost, spread and count of each cluster.
    representatives_ : Representatives
        For each cluster the real node that serves best as its center; computed on first access.
    n_iter_ : int
        Rounds of the best start on the nodes.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If the input had names.

    See Also
    --------
    solve : The same as a function.

    Notes
    -----
    Section 4.4 of the paper. The default preset differs from it: it draws and compares several starts on the nodes'
    medians, swaps centers, and re-seeds empty clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from probi import Nodes, PLloyd
    >>> readings = np.array([[[0.0], [0.2], [9.9]], [[0.1], [0.3], [0.2]], [[5.0], [5.2], [5.1]]])
    >>> model = PLloyd(n_clusters=2, random_state=0).fit(Nodes.from_dense(readings))
    >>> model.labels_
    array([0, 0, 1], dtype=int32)
    >>> model.cluster_centers_.round(2)
    array([[0.2],
           [5.1]])
    """

    def fit(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the centers.

        Parameters
        ----------
        X : Nodes or array-like
            Nodes; an array of shape (n, n_features) with one certain node per row; one of shape (n, m, n_features) with
            m equally likely realizations per node; a list of arrays of shape (m, n_features), one per node.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Multiplies the weights of nodes.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> probi.PLloyd(n_clusters=2, random_state=0).fit(X).cluster_centers_.round(1)
        array([[0.1],
               [9.1]])
        """
        with _parallel.limited(self.n_jobs):
            self.result_ = self._solve(self._nodes(X, sample_weight, reset=True), self.random_state)
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class PROBI(_KMedian):
    """k-median clustering of uncertain nodes that arrive in a stream.

    Keeps a bounded summary of the nodes read and solves k-median on it, so memory is nearly constant. Rows
    of an ordinary 2-D array are certain nodes, so this is streaming k-median for ordinary data too.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of centers.
    preset : {"default", "paper", "theory"}, default="default"
        "paper" is PROBI as published. The default finds far better centers.
    n_init, init, max_iter, tol
        As in :class:`PLloyd`, for solving the summary; :meth:`fit` then runs up to 12 rounds on all nodes.
    random_state : None, int, Generator or RandomState, default=None
        The same seed gives the same bits, for any number of threads and any split into batches.
    n_jobs : int, default=None
        Threads, as in :class:`PLloyd`.
    verbose : int, default=0
        1 prints a line per start, 2 also one per round.
    outliers, outlier_distance : float, default=None
        Outliers to leave out, as in :class:`PLloyd`.
    summary_size : int, default=None
        Nodes in the summary's coreset; None means 200 * n_clusters. Larger is slower and closer to the cost of all
        data.
    summary_params : dict, default=None
        Further parameters of :class:`Summary`, such as ``{"max_realizations": 32}``.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        In order of decreasing mass. After :meth:`partial_fit` they are computed on first access.
    labels_ : ndarray of shape (n_nodes,)
        Center of each node, after :meth:`fit`.
    cost_ : float
        Expected cost: exact after :meth:`fit`, an estimate for all nodes read after :meth:`partial_fit`.
    lower_bound_ : float
        Certified lower bound on the cost of any number of centers.
    result_ : Result
        All of the above, with the standard error of the cost and the clusters.
    summary_ : Summary
        The summary of the nodes: save it, merge it, solve it for fewer clusters.
    representatives_ : Representatives
        For each cluster the real node that serves best as its center, among the nodes of the data after :meth:`fit`,
        of the coreset after :meth:`partial_fit`; computed on first access.
    n_iter_ : int
        Rounds of the best start on the coreset.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        If the input had names.

    See Also
    --------
    Summary : The summary alone.
    PLloyd : The same for data in memory; it uses every node and is slower.

    Notes
    -----
    Algorithm 2 and section 3.2 of the paper; :class:`Summary` describes where the default differs.

    Examples
    --------
    >>> import numpy as np
    >>> from probi import PROBI, Nodes
    >>> rng = np.random.default_rng(0)
    >>> model = PROBI(n_clusters=2, random_state=0)
    >>> for batch in range(100):
    ...     X = rng.normal(size=(100, 5, 2)) + 1 + 8 * rng.integers(2, size=(100, 1, 1))
    ...     model = model.partial_fit(Nodes.from_dense(X))
    >>> model.summary_.n_nodes
    10000
    >>> np.sort(model.cluster_centers_, axis=0).round(1)
    array([[1., 1.],
           [9., 9.]])
    """

    summary_size: int | None = None
    summary_params: dict[str, Any] | None = None

    def fit(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Summarize the nodes, solve the summary, refine the centers by a few rounds on all nodes, and label the nodes.

        The centers are not refined if outliers are left out, nor with ``preset="paper"``.

        Parameters
        ----------
        X : Nodes or array-like
            Nodes; an array of shape (n, n_features) with one certain node per row; one of shape (n, m, n_features) with
            m equally likely realizations per node; a list of arrays of shape (m, n_features), one per node.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Multiplies the weights of nodes.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> probi.PROBI(n_clusters=2, random_state=0).fit(X).labels_
        array([0, 0, 0, 0, 1, 1, 1], dtype=int32)
        """
        with _parallel.limited(self.n_jobs):
            nodes = self._nodes(X, sample_weight, reset=True)
            self._start()
            self.summary_.update(nodes)
            estimate = self._solve(self.summary_, self._seed)
            if estimate.outlier_distance < math.inf:
                options = SolveOptions(self.n_clusters, init=self.init, outlier_distance=estimate.outlier_distance)
                self.result_ = trimmed_result(nodes, estimate.centers, estimate.n_iter, options)
            else:
                self.result_ = self._refine(nodes, estimate)
        return self

    def _refine(self, nodes: Nodes, estimate: Result) -> Result:
        """Refine centers that were found on a coreset by a few rounds on all nodes; the paper's preset only labels."""
        centers, assignment, n_coreset = estimate.centers, None, int(estimate.clusters.count.sum())
        if self.summary_._solver_preset == "default" and n_coreset < len(nodes):
            refined = refine(Problem.of(nodes), centers, min(MAX_ROUNDS, self.max_iter or MAX_ROUNDS), self.tol)
            centers, assignment = refined.centers, refined.assignment
        return make_result(nodes, centers, estimate.n_iter, self.init is not None, assignment)

    def partial_fit(self, X: Any, y: None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Add one batch of nodes to the summary; centers are computed on access.

        Parameters
        ----------
        X : Nodes or array-like
            As in :meth:`fit`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            Multiplies the weights of nodes.

        Returns
        -------
        self
            The estimator.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> X = np.array([[0.0], [0.1], [0.1], [0.2], [9.0], [9.1], [9.2]])
        >>> model = probi.PROBI(n_clusters=2, random_state=0)
        >>> for batch in (X[:2], X[2:]):
        ...     model = model.partial_fit(batch)
        >>> model.summary_.n_nodes, round(model.cost_, 6)
        (7, 0.4)
        """
        with _parallel.limited(self.n_jobs):
            first = not hasattr(self, "summary_")
            nodes = self._nodes(X, sample_weight, reset=first)
            if first:
                self._start()
            self.summary_.update(nodes)
        self._drop_result()
        return self

    def _start(self) -> None:
        """Start a summary, and keep the seed for solving: a Generator would give another one each time."""
        self._seed = seed_of(self.random_state)
        self.summary_ = Summary(
            self.n_clusters, self.summary_size, self.preset, self._seed, **self.summary_params or {}
        )
        self._drop_result()

    def _drop_result(self) -> None:
        """Drop centers computed before the latest nodes."""
        self.__dict__.pop("result_", None)
