"""From columns to the space that is clustered, and back: scales of features, longitude and latitude."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from probi._files import AnyPath
from probi._types import Array
from probi.errors import InputError
from probi.geo import lonlat_of, on_sphere
from probi.nodes import Nodes
from probi.tables.columns import degrees_in

SCALES = ("none", "standard", "robust")

# Distance between the quartiles of a normal distribution, in standard deviations.
QUARTILES_APART = 1.3489795

# Scales are estimated from this many first realizations, however they are batched.
N_ESTIMATED = 100_000


@dataclass(frozen=True)
class Transform:
    """How features become coordinates.

    Longitude and latitude become points on a sphere in three dimensions, in kilometers, because degrees are not
    distances; every coordinate is then divided by its scale.

    Attributes
    ----------
    features : tuple of str
        Names of the original features.
    lonlat : tuple of str or None
        Names of longitude and latitude among them.
    scale : tuple of float or None
        Divisor of each coordinate; None: 1.

    See Also
    --------
    probi.geo.to_sphere : The same for an array of longitudes and latitudes.

    Examples
    --------
    >>> import numpy as np
    >>> from probi.io import Transform
    >>> space = Transform(("lon", "lat", "depth"), lonlat=("lon", "lat"), scale=(100.0, 100.0, 100.0, 5.0))
    >>> coordinates = space.coordinates(np.array([[0.0, 90.0, 10.0]]))
    >>> coordinates.round(2)
    array([[ 0.  ,  0.  , 63.71,  2.  ]])
    >>> space.inverse(coordinates).round(2)
    array([[ 0., 90., 10.]])
    """

    features: tuple[str, ...]
    lonlat: tuple[str, str] | None = None
    scale: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in self.lonlat or ():
            if name not in self.features:
                raise InputError(f"There is no feature {name!r} for longitude and latitude.")
        if self.lonlat is not None and degrees_in(self.lonlat) == self.lonlat[::-1]:
            raise InputError(
                f"lonlat is {','.join(self.lonlat)}, but longitude comes first: {','.join(self.lonlat[::-1])}."
            )
        if self.lonlat is not None and self.lonlat[0] == self.lonlat[1]:
            raise InputError("Longitude and latitude are the same column.")
        if self.scale is not None and len(self.scale) != self.n_coordinates:
            raise InputError(f"There are {len(self.scale)} scales for {self.n_coordinates} coordinates.")
        if self.scale is not None and not all(np.isfinite(s) and s > 0 for s in self.scale):
            raise InputError("Scales must be positive numbers.")

    @property
    def n_coordinates(self) -> int:
        """Dimension of the space that is clustered."""
        return len(self.features) + (1 if self.lonlat else 0)

    @property
    def coordinate_names(self) -> list[str]:
        """Names under which scales are written and read; the sphere's three coordinates share one."""
        if self.lonlat is None:
            return list(self.features)
        return [",".join(self.lonlat)] * 3 + [self.features[j] for j in self._others]

    @property
    def unit(self) -> str:
        """Unit of distances, if known."""
        return "km" if self.lonlat and len(self.features) == 2 and self.scale is None else ""

    def nodes(self, nodes: Nodes) -> Nodes:
        """Nodes of features as nodes of coordinates.

        Parameters
        ----------
        nodes : Nodes
            Their points are features.

        Returns
        -------
        Nodes
            Their points are coordinates.

        Examples
        --------
        >>> import probi
        >>> import numpy as np
        >>> from probi.io import Transform
        >>> globe = Transform(("lon", "lat"), lonlat=("lon", "lat"))
        >>> globe.nodes(probi.Nodes.from_points([[90.0, 0.0]])).points.round(1) + 0.0
        array([[   0.,  6371.,    0.]])
        """
        if self.lonlat is None and self.scale is None:
            return nodes
        return nodes.with_points(self.coordinates(nodes.points))

    def coordinates(self, features: Array) -> Array:
        """Coordinates of features.

        Parameters
        ----------
        features : ndarray of shape (n, n_features)
            In the order of ``features``.

        Returns
        -------
        ndarray of shape (n, n_coordinates)
            Those on the sphere first, if there are longitude and latitude.

        Examples
        --------
        >>> import numpy as np
        >>> from probi.io import Transform
        >>> globe = Transform(("lon", "lat"), lonlat=("lon", "lat"))
        >>> globe.coordinates(np.array([[0.0, 90.0]])).round(1)
        array([[   0.,    0., 6371.]])
        """
        out = features.astype(np.float64)
        if self.lonlat is not None:
            lon, lat = (out[:, self.features.index(name)] for name in self.lonlat)
            out = np.column_stack([on_sphere(lon, lat), out[:, self._others]])
        if self.scale is not None:
            out /= self.scale
        return out.astype(features.dtype, copy=False)

    def inverse(self, coordinates: Array) -> Array:
        """Features of coordinates; points off the sphere are projected onto it.

        Parameters
        ----------
        coordinates : ndarray of shape (n, n_coordinates)
            Of centers, for example.

        Returns
        -------
        ndarray of shape (n, n_features)
            In the order of ``features``.

        Examples
        --------
        >>> import numpy as np
        >>> from probi.io import Transform
        >>> globe = Transform(("lon", "lat"), lonlat=("lon", "lat"))
        >>> globe.inverse(np.array([[0.0, 6000.0, 0.0]]))
        array([[90.,  0.]])
        """
        out = np.array(coordinates, np.float64)
        if self.scale is not None:
            out *= self.scale
        if self.lonlat is not None:
            features = np.empty((len(out), len(self.features)))
            features[:, [self.features.index(name) for name in self.lonlat]] = lonlat_of(out[:, :3])
            features[:, self._others] = out[:, 3:]
            return features
        return out

    @property
    def _others(self) -> list[int]:
        return [j for j, name in enumerate(self.features) if name not in (self.lonlat or ())]

    def scaled_by(self, scale: str, features: Array) -> Transform:
        """The same transform with scales estimated from some rows of features.

        Parameters
        ----------
        scale : {"standard", "robust"}
            By standard deviations, or by the distances of quartiles.
        features : ndarray of shape (n, n_features)
            The rows.

        Returns
        -------
        Transform
            With a scale for each coordinate.

        Examples
        --------
        >>> import numpy as np
        >>> from probi.io import Transform
        >>> Transform(("x",)).scaled_by("standard", np.array([[1.0], [3.0]])).scale
        (1.0,)
        """
        plain = Transform(self.features, self.lonlat)
        values = plain.coordinates(features.astype(np.float64))
        scales = _standard(values) if scale == "standard" else _robust(values)
        if self.lonlat is not None:  # one scale, so that the sphere stays one
            scales[:3] = np.sqrt(np.mean(np.square(scales[:3]))) or 1.0
        return Transform(self.features, self.lonlat, tuple(scales.tolist()))

    def to_json(self) -> dict[str, Any]:
        """The transform as plain values.

        Returns
        -------
        dict
            JSON values.

        Examples
        --------
        >>> from probi.io import Transform
        >>> Transform(("x", "y")).to_json()
        {'features': ('x', 'y'), 'lonlat': None, 'scale': None}
        """
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Transform from :meth:`to_json`, checked.

        Parameters
        ----------
        values : dict
            Plain values.

        Returns
        -------
        Transform
            As it was.

        Examples
        --------
        >>> from probi.io import Transform
        >>> Transform.from_json({"features": ["x"], "scale": [2.0]})
        Transform(features=('x',), lonlat=None, scale=(2.0,))
        """
        try:
            lonlat, scale = values.get("lonlat"), values.get("scale")
            return cls(
                tuple(map(str, values["features"])),
                None if lonlat is None else (str(lonlat[0]), str(lonlat[1])),
                None if scale is None else tuple(map(float, scale)),
            )
        except InputError:
            raise
        except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
            raise InputError(f"Not a valid transform: {error!r}.") from None


def _standard(values: Array) -> Array:
    spread = values.std(axis=0)
    # A constant column has a deviation of rounding errors only.
    constant = spread <= 1e-12 * np.abs(values).max(axis=0, initial=0.0)
    return np.where(constant, 1.0, spread)


def _robust(values: Array) -> Array:
    low, high = np.percentile(values, [25, 75], axis=0)
    spread = (high - low) / QUARTILES_APART
    # Columns that are mostly one value have equal quartiles.
    return np.where(spread > 0, spread, _standard(values))


def read_scale(path: AnyPath, names: list[str]) -> tuple[float, ...]:
    """Scale of each coordinate from a file: a JSON object {name: scale}, or the result.json of another run."""
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: scales cannot be read: {error}.") from None
    if isinstance(values, dict) and isinstance(values.get("scale"), dict):  # not a feature that is called so
        values = values["scale"]
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected a JSON object with a scale for each feature.")
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"{path}: there is no scale for the feature {missing[0]!r}.")
    try:
        return tuple(float(values[name]) for name in names)
    except (TypeError, ValueError):
        raise InputError(f"{path}: a scale is not a number.") from None
