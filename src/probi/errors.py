"""What can go wrong, as classes: every error of probi is a ProbiError, and a ValueError where that is the custom."""


class ProbiError(Exception):
    """Base of all errors that probi raises on purpose.

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
    """Data or a parameter that cannot be used; the message says what, where, and what to do.

    It is a ValueError too, as scikit-learn's users expect.

    Examples
    --------
    >>> import probi
    >>> probi.Summary(n_clusters=10, size=20)
    Traceback (most recent call last):
        ...
    probi.errors.InputError: A size of 20 is too small for 10 clusters: give at least 40.
    """


class InputWarning(UserWarning):
    """Data was mended, or read in one way and perhaps meant in another; the message says what, and what to do.

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
    """An answer is valid, but not what was asked for: fewer distinct centers, a tolerance that was not reached.

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
    """A package that is needed here and not elsewhere is not installed; the message says how to install it.

    It is an ImportError too.

    Examples
    --------
    >>> import probi
    >>> try:
    ...     from probi.engines import dask
    ... except probi.MissingExtraError as error:
    ...     print(error)  # how to install Dask
    """


class StoppedError(ProbiError):
    """Reading was stopped on request; what was read is in the checkpoint, if there is one."""
