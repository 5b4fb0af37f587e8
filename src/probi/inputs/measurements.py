"""Measurements with errors: catalogs with a column of errors per column of values, and GPS fixes with a radius."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from probi._realizations import of_gaussians
from probi._types import Array, Floats
from probi.errors import InputError
from probi.geo import on_sphere, tangents
from probi.inputs.dataframes import as_numbers, column, index_of, names_of
from probi.inputs.dimensions import Names, as_names
from probi.inputs.fields import check_scale
from probi.validation import as_array, as_floats

# How catalogs name the error of a column: Gaia and most others; VizieR; and two more.
ERROR_NAMES = ("{}_error", "e_{}", "{}_err", "sigma_{}")

# How Gaia names the correlation of the errors of two columns.
CORRELATION_NAMES = ("{}_{}_corr", "{1}_{0}_corr")

WGS84 = 4326
METERS_PER_KM = 1000.0


def of_measurements(
    X: Any, sigma: Any, correlation: Any, confidence: float | None, features: Names | None, scale: Any, n: int | None,
    random_state: Any,
) -> tuple[Array, Array | None, Any]:  # fmt: skip
    """Points (n, m, d), probabilities (n, m) or None, and ids of measurements with Gaussian errors."""
    if hasattr(X, "crs") and hasattr(X, "geometry") and hasattr(X, "columns"):  # a GeoDataFrame
        return _fixes(X, sigma, confidence, n, random_state)
    if confidence is not None:
        raise InputError("confidence is for a GeoDataFrame: sigma is a standard error otherwise.")
    means, covariances, ids = _gaussians(X, sigma, correlation, features, scale)
    return *of_gaussians(means, covariances, n, random_state), ids


def _gaussians(X: Any, sigma: Any, correlation: Any, features: Names | None, scale: Any) -> tuple[Array, Floats, Any]:
    """Means (n, d), covariances (n, d, d) and ids."""
    names = names_of(X)
    if names is None:
        if features is not None or scale is not None:
            raise InputError("features and scale are for tables: select columns of X and divide X and sigma instead.")
        means, errors = _arrays(X, sigma)
        correlations = 0.0 if correlation is None else correlation
        ids = None
    else:
        chosen = _features(names, sigma, features)
        means, errors = _columns(X, names, chosen, sigma, scale)
        correlations = _correlations(X, names, chosen) if correlation is None else correlation
        ids = index_of(X)
    _check_values(means, errors)
    return means, _covariances(errors, correlations), ids


def _fixes(
    frame: Any, sigma: Any, confidence: float | None, n: int | None, random_state: Any
) -> tuple[Array, Array | None, Any]:
    """Points (n, m, 3) on the sphere in kilometers, probabilities (n, m) or None, and ids of a GeoDataFrame."""
    lon, lat = _lonlat(frame)
    meters = _radii(frame, sigma, len(lon))
    if confidence is not None:
        if not 0.0 < confidence < 1.0:
            raise InputError(f"confidence is {confidence}, but must lie between 0 and 1: 0.68 for Android's accuracy.")
        # The distance of a two-dimensional Gaussian from its mean has a Rayleigh distribution.
        meters = meters / math.sqrt(-2.0 * math.log1p(-confidence))
    _check_values(np.zeros_like(meters), meters)
    kilometers = meters / METERS_PER_KM
    covariances = kilometers[:, :, None] ** 2 * np.eye(2)
    # In the plane that touches the Earth at each fix: errors are small against its radius.
    offsets, probabilities = of_gaussians(np.zeros((len(lon), 2)), covariances, n, random_state)
    east, north = tangents(lon, lat)
    points = on_sphere(lon, lat)[:, None] + offsets[:, :, :1] * east[:, None] + offsets[:, :, 1:] * north[:, None]
    return points, probabilities, index_of(frame)


# -- arrays and tables ------------------------------------------------------------------------------------------------


def _arrays(X: Any, sigma: Any) -> tuple[Array, Array]:
    if sigma is None:
        raise InputError("sigma is missing: give the standard errors of X, (n, d), (d,) or one number.")
    unit = getattr(X, "unit", None)
    if unit is not None and hasattr(sigma, "to"):
        sigma = sigma.to(unit)
    means = as_floats(getattr(X, "value", X), "X", 2)
    errors = as_array(getattr(sigma, "value", sigma), "sigma")
    if errors.shape == (len(means),) and errors.shape != means.shape[1:]:
        errors = errors[:, None]  # the same in all features of a node
    try:
        return means, np.broadcast_to(as_floats(errors, "sigma", errors.ndim), means.shape)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"sigma has shape {errors.shape}; give {means.shape}, {means.shape[1:]}, {means.shape[:1]} or one number."
        ) from None


def _features(names: Sequence[Any], sigma: Any, features: Names | None) -> list[str]:
    if features is None:
        with_errors = [name for name in names if _error_name(names, name) is not None]
        if sigma is not None or not with_errors:
            raise InputError(f"features is missing: name the columns of values, among {', '.join(map(str, names))}.")
        return with_errors
    chosen = list(as_names("features", features))
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise InputError(f"There is no column {unknown[0]!r}; there are {', '.join(map(str, names))}.")
    return chosen


def _error_name(names: Sequence[Any], name: str) -> str | None:
    return next((pattern.format(name) for pattern in ERROR_NAMES if pattern.format(name) in names), None)


def _columns(table: Any, names: Sequence[Any], chosen: list[str], sigma: Any, scale: Any) -> tuple[Array, Array]:
    """Values and errors of the chosen columns, errors in the units of the values."""
    units = [getattr(table[name], "unit", None) for name in chosen]
    values = as_numbers(table, chosen)
    if sigma is None or isinstance(sigma, str) or _are_names(sigma):
        errors = _error_columns(table, names, chosen, units, sigma)
    else:
        values, errors = _arrays(values, sigma)
    divisors = check_scale(chosen, units, scale)
    return (values, errors) if divisors is None else (values / divisors, errors / divisors)


def _are_names(sigma: Any) -> bool:
    return isinstance(sigma, (list, tuple)) and all(isinstance(name, str) for name in sigma)


def _error_columns(table: Any, names: Sequence[Any], chosen: list[str], units: list[Any], sigma: Any) -> Array:
    if sigma is None:
        own = [_error_name(names, name) or "" for name in chosen]
    else:
        own = list(as_names("sigma", sigma))
    if len(own) != len(chosen):
        raise InputError(f"There are {len(own)} columns of errors for {len(chosen)} features: give one each.")
    for name, error in zip(chosen, own, strict=True):
        if error not in names:
            tried = error or " or ".join(pattern.format(name) for pattern in ERROR_NAMES)
            raise InputError(f"There is no column {tried} with the errors of {name!r}: name it in sigma.")
    errors = as_numbers(table, own).astype(np.float64)
    for i, (name, unit) in enumerate(zip(own, units, strict=True)):
        given = getattr(table[name], "unit", None)
        if unit is not None and given is not None and given != unit:
            try:
                errors[:, i] *= given.to(unit)  # the factor
            except ValueError:
                raise InputError(
                    f"Column {name!r} is in {given}, which cannot be converted to {unit}, the unit of {chosen[i]!r}: "
                    "repair its unit."
                ) from None
    return errors


def _correlations(table: Any, names: Sequence[Any], chosen: list[str]) -> Array:
    """Correlations that the table has under Gaia's names; 0 where it has none."""
    out = np.tile(np.eye(len(chosen)), (len(table), 1, 1))
    for i, a in enumerate(chosen):
        for j, b in enumerate(chosen[:i]):
            own = [pattern.format(b, a) for pattern in CORRELATION_NAMES if pattern.format(b, a) in names]
            if own:
                out[:, i, j] = out[:, j, i] = column(table, own[0])
    return out


def _covariances(errors: Array, correlation: Any) -> Floats:
    n, d = errors.shape
    given = as_array(correlation, "correlation")
    r = as_floats(given, "correlation", given.ndim, np.float64)
    if r.ndim < 2 and r.shape in ((), (n,)) and (d == 2 or not r.any()):
        r = np.where(np.eye(d, dtype=np.bool_), 1.0, r[..., None, None])
    if r.shape not in ((d, d), (n, d, d)):
        pairs = f", ({n},) or one number" if d == 2 else ""
        raise InputError(f"correlation has shape {given.shape}; give ({d}, {d}), ({n}, {d}, {d}){pairs}.")
    if not (np.abs(r) <= 1.0 + 1e-6).all():
        raise InputError("Correlations must lie between -1 and 1.")
    covariances: Floats = errors[:, :, None] * r * errors[:, None, :]
    return covariances


def _check_values(means: Array, errors: Array) -> None:
    for problem, wrong in (
        ("no value or no error", np.isnan(means) | np.isnan(errors)),
        ("an infinite error", np.isinf(errors)),
        ("a negative error", errors < 0.0),
    ):
        if wrong.any():
            row, feature = np.argwhere(wrong)[0]
            raise InputError(f"Row {row} has {problem} in feature {feature}: leave it out, or repair it.")


# -- GPS fixes --------------------------------------------------------------------------------------------------------


def _lonlat(frame: Any) -> tuple[Array, Array]:
    if frame.crs is None:
        raise InputError("The GeoDataFrame has no coordinate reference system: write frame.set_crs(4326) for degrees.")
    kinds = set(frame.geometry.geom_type)
    if kinds != {"Point"}:
        raise InputError(f"Geometries must be points, not {', '.join(sorted(map(str, kinds)))}: use their centroids.")
    geometry = frame.geometry.to_crs(WGS84)
    return geometry.x.to_numpy(), geometry.y.to_numpy()


def _radii(frame: Any, sigma: Any, n: int) -> Array:
    """Standard errors to the east and to the north in meters, (n, 2)."""
    if sigma is None:
        raise InputError("sigma is missing: name the column of the errors in meters, such as 'accuracy'.")
    if isinstance(sigma, str) or _are_names(sigma):
        names = as_names("sigma", sigma)
        unknown = [name for name in names if name not in frame.columns]
        if unknown:
            raise InputError(f"There is no column {unknown[0]!r}; there are {', '.join(map(str, frame.columns))}.")
        if len(names) > 2:
            raise InputError("sigma names more than two columns: give one, or one to the east and one to the north.")
        return np.broadcast_to(as_numbers(frame, names), (n, 2)).astype(np.float64)
    return _arrays(np.zeros((n, 2)), sigma)[1]
