"""Weighted statistics of realizations; values that are not finite are ignored."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]


def quantiles(values: Array, masses: Floats, shares: tuple[float, ...]) -> Floats:
    """Weighted quantiles of each column: the smallest value with at least this fraction of the mass at or below it.

    Parameters
    ----------
    values : ndarray of shape (n, d)
    masses : ndarray of shape (n,)
    shares : tuple of n_shares floats

    Returns
    -------
    ndarray of shape (n_shares, d)
        NaN for a column without mass.
    """
    found = np.full((len(shares), values.shape[1]), np.nan)
    for j, column in enumerate(values.T):
        usable = np.isfinite(column) & (masses > 0)
        if usable.any():
            order = np.argsort(column[usable], kind="stable")
            sums = np.cumsum(masses[usable][order])
            at = np.searchsorted(sums, np.array(shares) * sums[-1] * (1 - 1e-12))
            found[:, j] = column[usable][order][at]
    return found


def means(values: Array, masses: Floats) -> Floats:
    """Mean of each column, (d,); NaN for a column without mass."""
    total = masses.sum()
    if total > 0 and np.isfinite(values).all():
        return np.asarray(masses @ values / total)
    usable = np.where(np.isfinite(values), masses[:, None], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((usable * np.nan_to_num(values)).sum(axis=0) / usable.sum(axis=0))


def deviations(values: Array, masses: Floats) -> Floats:
    """Standard deviation of each column, (d,); 0 if it is only rounding."""
    middle = means(values, masses)
    found = np.sqrt(means((values - middle) ** 2, masses))
    rounding = 1e-12 * np.abs(np.nan_to_num(middle))
    return np.where(found > rounding, found, 0.0)


def covariance(values: Array, masses: Floats) -> tuple[Floats, Floats] | None:
    """Mean (d,) and covariance (d, d) of the rows that are finite; None if they have no mass."""
    usable = np.isfinite(values).all(axis=1) & (masses > 0)
    if not usable.any():
        return None
    shares = masses[usable] / masses[usable].sum()
    middle = shares @ values[usable]
    offsets = values[usable] - middle
    return middle, (offsets * shares[:, None]).T @ offsets


def principal_plane(values: Array, masses: Floats) -> tuple[Floats, Floats, Floats]:
    """Plane with the most variance.

    Parameters
    ----------
    values : ndarray of shape (n, d)
    masses : ndarray of shape (n,)

    Returns
    -------
    middle : ndarray of shape (d,)
    axes : ndarray of shape (2, d)
        Of length 1, the largest coordinate positive; 0 where there is no such direction.
    shares : ndarray of shape (2,)
        Part of the variance along each axis.
    """
    total = masses.sum()
    weights = masses / total if total > 0 else np.full(len(masses), 1 / len(masses))
    middle = weights @ values
    variance, directions = _principal(np.sqrt(weights)[:, None] * (values - middle))
    axes, shares = np.zeros((2, values.shape[1])), np.zeros(2)
    n_found = min(2, len(variance))
    largest = np.abs(directions[:n_found]).argmax(axis=1)
    axes[:n_found] = directions[:n_found] * np.sign(directions[np.arange(n_found), largest])[:, None]
    if variance.sum() > 0:
        shares[:n_found] = variance[:n_found] / variance.sum()
    return middle, axes, shares


def _principal(values: Array) -> tuple[Floats, Floats]:
    """Variances and directions, the largest first."""
    if len(values) < values.shape[1]:
        _, singular, directions = np.linalg.svd(values, full_matrices=False)
        return singular**2, directions
    # Eigenvectors of the smaller Gram matrix: a hundred times faster, and half the digits suffice for a plot.
    variance, directions = np.linalg.eigh(values.T @ values)
    return np.maximum(variance[::-1], 0.0), directions.T[::-1]
