"""Multiple imputation: several completed copies of a table with missing values, which become uncertain nodes.

>>> import numpy as np
>>> import probi
>>> from probi import impute
>>> X = np.random.default_rng(0).normal(size=(100, 3))
>>> X[:10, 0] = np.nan
>>> nodes = probi.Nodes.from_imputations(impute.draws(X, m=5, random_state=0))
>>> nodes
Nodes(100 nodes, 140 realizations (1 to 5 per node), 3 features, float64, mass 100)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from probi._types import Array
from probi.errors import InputError
from probi.inputs.dataframes import as_numbers
from probi.validation import as_floats, check_count, generator

__all__ = ["draws"]


def draws(frame: Any, m: int = 20, *, random_state: Any = None, **options: Any) -> list[Any]:
    """Completed copies of a table, each with other plausible values where one is missing.

    Each feature is predicted from the others by a Bayesian regression, in rounds, and missing values are drawn from
    the prediction (chained equations, as in the R package mice): values that the rest of the row determines are nearly
    the same in all copies, others differ.

    Parameters
    ----------
    frame : DataFrame or array-like of shape (n_rows, n_features)
        Numbers, with NaN where a value is missing.
    m : int, default=20
        Number of copies.
    random_state : None, int, Generator or RandomState, default=None
        The same seed gives the same copies.
    **options
        Of scikit-learn's ``IterativeImputer``, such as ``max_iter``. With ``n_nearest_features``, copies may be further
        from the truth than column means: it selects features at random.

    Returns
    -------
    list of DataFrame or of ndarray
        As given, without missing values, for :meth:`probi.Nodes.from_imputations`.

    See Also
    --------
    probi.Nodes.from_imputations : Nodes from these copies.

    Notes
    -----
    Draws are limited to the range of the values that are there.

    Examples
    --------
    The second feature is twice the first, so its missing value is nearly certain; nothing tells the third:

    >>> import numpy as np
    >>> from probi import impute
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=50)
    >>> X = np.stack([x, 2 * x + 0.01 * rng.normal(size=50), rng.normal(size=50)], axis=1)
    >>> X[0, 1] = X[1, 2] = np.nan
    >>> copies = np.array(impute.draws(X, m=5, random_state=0))
    >>> copies.std(axis=0)[[0, 1], [1, 2]].round(2)
    array([0.01, 0.67])
    """
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from threadpoolctl import threadpool_limits

    check_count("m", m)
    names = list(frame.columns) if hasattr(frame, "columns") else None
    values = as_floats(frame, "frame", 2) if names is None else as_numbers(frame, names)
    _check_columns(values, names)
    seeds = generator(random_state).integers(2**32, size=m)
    least, most = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    # All draws of a column with one value are that value; scikit-learn refuses a range without width.
    values = np.where(least == most, least, values)
    limits = {"min_value": least, "max_value": np.where(least == most, np.inf, most)}
    copies = []
    # Threads of linear algebra wait for each other longer than a regression on one takes.
    with threadpool_limits(1):
        for seed in seeds:
            imputer = IterativeImputer(sample_posterior=True, random_state=int(seed), **{**limits, **options})
            copies.append(_like(frame, names, imputer.fit_transform(values)))
    return copies


def _check_columns(values: Array, names: list[Any] | None) -> None:
    if np.isinf(values).any():
        raise InputError("frame has infinite values. Replace them by NaN to impute them.")
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if len(empty):
        column = empty[0] if names is None else repr(names[empty[0]])
        raise InputError(f"Column {column} has no value at all, so nothing can be imputed: leave it out.")


def _like(frame: Any, names: list[Any] | None, values: Array) -> Any:
    """Values as a table of the same kind."""
    if names is None:
        return values
    if hasattr(frame, "index") and not callable(frame.index):
        return type(frame)(values, index=frame.index, columns=frame.columns)
    return type(frame)({name: values[:, i] for i, name in enumerate(names)})
