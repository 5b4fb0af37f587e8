"""Errors and warnings: every error of probi is a ProbiError, and a ValueError or ImportError where users expect one."""


class ProbiError(Exception):
    """Base class of all errors that probi raises.

    Examples
    --------
    >>> import probi
    >>> try:
    ...     probi.Nodes.from_points([[0.0, float("nan")]])
    ... except probi.ProbiError as error:
    ...     print(error)
    Node 0 has nan in feature 1. Drop the node or repair the value.
    """


class InputError(ProbiError, ValueError):
    """Invalid data or parameter; the message says what, where, and what to do.

    Also a ValueError, as scikit-learn users expect.

    Examples
    --------
    >>> import probi
    >>> probi.Summary(n_clusters=10, size=20)
    Traceback (most recent call last):
        ...
    probi.errors.InputError: A size of 20 is too small for 10 clusters: give at least 40.
    """


class InputWarning(UserWarning):
    """Data was corrected, or is ambiguous; the message says what, and what to do.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import probi
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     nodes = probi.Nodes.from_dense(np.zeros((1, 6, 2)), np.full((1, 6), 0.166667))
    >>> print(caught[0].message)
    The probabilities of 1 of 1 nodes sum to slightly more than 1, as rounded ones do. They were divided by their sum.
    >>> nodes.total_probabilities
    array([1.])
    """


class SolverWarning(UserWarning):
    """A result is valid, but not as requested: fewer distinct centers, or a tolerance not reached.

    Examples
    --------
    >>> import warnings
    >>> import probi
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     result = probi.solve(probi.Nodes.from_points([[1.0], [1.0], [5.0]]), 3, random_state=0)
    >>> [warning.category.__name__ for warning in caught], result.n_distinct
    (['SolverWarning'], 2)
    """


class MissingExtraError(ProbiError, ImportError):
    """An optional package is not installed; the message says how to install it.

    Also an ImportError.

    Examples
    --------
    >>> import probi
    >>> try:
    ...     from probi.engines import dask
    ... except probi.MissingExtraError as error:
    ...     print(error)  # how to install Dask
    """


class StoppedError(ProbiError):
    """Reading was stopped on request; the checkpoint, if there is one, has what was read."""
