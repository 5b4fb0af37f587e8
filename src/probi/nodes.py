"""Nodes: uncertain objects in one flat layout, checked once, immutable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from probi import _notes, _parallel
from probi._kernels import pull
from probi._kernels.thinning import Given
from probi._notes import counted
from probi._realizations import of_dense, of_gaussians, of_lists, of_matrix
from probi._types import Array, Floats, Integers
from probi.errors import InputError, InputWarning
from probi.thinning import Thinned, ThinningBounds, allowed_realizations, thin
from probi.validation import (
    NodeParts,
    as_array,
    as_floats,
    as_index,
    as_weights,
    certain_parts,
    check_array_like,
    check_points,
    checked_parts,
    concat_ids,
    constant,
    frozen,
    is_list_of_arrays,
    seed_of,
    warn_of_rounding,
)

# Coordinates per task of a thread: enough to hide the overhead of a kernel call, few enough to share the work.
GRAIN = 1 << 18

# Nodes per range, at least, where ranges are shorter than that because each node is compared with many centers.
MIN_PIECE = 512

# With at least this many realizations per node, and this many times more than nodes, the axes of an array were perhaps
# swapped: draws or members first.
MANY_REALIZATIONS, FEW_NODES = 1000, 20


class Nodes:
    """Uncertain objects ("nodes"): each is a discrete distribution over points.

    Node ``i`` takes position ``points[r]`` with probability ``probabilities[r]`` for ``r`` in
    ``offsets[i]:offsets[i + 1]``. With the remaining probability the node is absent. Arrays are checked once and
    exposed as read-only views, without a copy if the dtype allows: do not change them afterwards.

    Parameters
    ----------
    points : array-like of shape (n_realizations, n_features)
        Realizations of all nodes, one after the other. float32 and float64 are kept, integers become float64.
    probabilities : array-like of shape (n_realizations,) or None
        Of each realization. Those of a node may sum to less than 1. None: equal ones that sum to 1. A sum that exceeds
        1 by rounding to six decimals or to float32 is corrected, with an :class:`InputWarning`; a larger one is an
        error.
    offsets : array-like of shape (n_nodes + 1,)
        Start of each node, followed by the number of points.
    weights : array-like of shape (n_nodes,), default=None
        How many nodes each one represents. None: one each.
    ids : array-like of shape (n_nodes,), default=None
        Labels of the nodes.

    Notes
    -----
    Distances are square roots of sums of squares in float64. Distances below 1e-154, whose squares underflow, lose
    precision if other coordinates are larger; data that is that small overall is refused.

    Examples
    --------
    A sensor that is near 0 or, with probability 0.2, broken; and one that is certain:

    >>> import probi
    >>> nodes = probi.Nodes([[0.0], [0.2], [50.0], [3.0]], [0.4, 0.4, 0.2, 1.0], [0, 3, 4])
    >>> nodes
    Nodes(2 nodes, 4 realizations (1 to 3 per node), 1 feature, float64, mass 2)
    >>> nodes.gravity_centers
    array([[10.08],
           [ 3.  ]])
    """

    points: Array  # (n_realizations, n_features) float32 or float64
    ids: Array | None  # (n_nodes,)
    magnitude: float  # at least the largest absolute coordinate, for margins of rounding

    def __init__(
        self,
        points: ArrayLike,
        probabilities: ArrayLike | None,
        offsets: ArrayLike,
        weights: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> None:
        parts, n_rounded = checked_parts(points, probabilities, offsets, weights, ids)
        self._set(parts)
        if n_rounded:
            warn_of_rounding(n_rounded, len(self))

    def _set(self, parts: NodeParts) -> Self:
        for name, value in zip(NodeParts._fields, parts, strict=True):
            if value is not None:
                self.__dict__[name] = value
        self.ids = parts.ids
        self._statistics: dict[str, Any] = self.__dict__.pop("statistics")
        self._n_nodes = len(parts.points) if parts.offsets is None else len(parts.offsets) - 1
        self._lock = _parallel.Lock()
        return self

    @classmethod
    def _trusted(cls, **parts: Any) -> Self:
        """Make nodes from the parts of others, some of them replaced."""
        return cls.__new__(cls)._set(NodeParts(**parts))

    @classmethod
    def _counted(cls, *arrays: Any) -> tuple[Self, int]:
        """Make nodes as the constructor does; also return for how many rounding put the probabilities above 1."""
        parts, n_rounded = checked_parts(*arrays)
        return cls.__new__(cls)._set(parts), n_rounded

    def _parts(self) -> dict[str, Any]:
        """Values of NodeParts by name."""
        return {name: self.__dict__.get(name) for name in NodeParts._fields} | {"statistics": dict(self._statistics)}

    # Arrays of ones, and the offsets of certain nodes, are made on first use: writing them takes longer than reading
    # many points.

    @cached_property
    def probabilities(self) -> Array:
        """Of each realization, (n_realizations,), in the dtype of the points."""
        return frozen(np.ones(len(self.points), self.dtype))

    @cached_property
    def offsets(self) -> Integers:
        """Start of each node, followed by the number of points, (n_nodes + 1,)."""
        return frozen(np.arange(len(self) + 1))

    @cached_property
    def weights(self) -> Floats:
        """How many nodes each one represents, (n_nodes,)."""
        return constant(1.0, len(self))

    @cached_property
    def total_probabilities(self) -> Floats:
        """Sum of the probabilities of each node, (n_nodes,)."""
        return constant(1.0, len(self))

    # -- other ways to make them ------------------------------------------------------------------------------------

    @classmethod
    def from_points(cls, X: ArrayLike, weights: ArrayLike | None = None, ids: ArrayLike | None = None) -> Self:
        """Certain nodes: each row of an array is the position of a node.

        Parameters
        ----------
        X : array-like of shape (n_nodes, n_features)
            Positions.
        weights, ids : array-like of shape (n_nodes,), default=None
            As in :class:`Nodes`.

        Returns
        -------
        Nodes
            One realization each, with probability 1.

        Examples
        --------
        >>> import probi
        >>> probi.Nodes.from_points([[0.0, 0.0], [3.0, 4.0]])
        Nodes(2 nodes, 2 realizations (1 per node), 2 features, float64, mass 2)
        """
        return cls.__new__(cls)._set(certain_parts(frozen(as_floats(X, "X", 2)), weights, ids))

    @classmethod
    def from_groups(cls, X: ArrayLike, size: int = 10) -> Self:
        """Nodes from groups of consecutive rows with equal probabilities; an incomplete last group is left out.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Realizations.
        size : int, default=10
            Rows per node.

        Returns
        -------
        Nodes
            ``n_rows // size`` of them.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> probi.Nodes.from_groups(np.arange(14.0).reshape(7, 2), size=3)
        Nodes(2 nodes, 6 realizations (3 per node), 2 features, float64, mass 2)
        """
        if size < 1:
            raise InputError(f"size must be at least 1, got {size}.")
        points = as_floats(X, "X", 2)
        n_nodes = len(points) // size
        return cls(points[: n_nodes * size], None, np.arange(n_nodes + 1) * size)

    @classmethod
    def from_dense(
        cls, X: ArrayLike, probabilities: ArrayLike | None = None, weights: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Nodes with the same number of realizations per node.

        Parameters
        ----------
        X : array-like of shape (n_nodes, m, n_features)
            The m realizations of each node.
        probabilities : array-like of shape (n_nodes, m), default=None
            Of each realization. None: 1 / m. For proportions, pass ``P / P.sum(1, keepdims=True)``.
        weights, ids : array-like of shape (n_nodes,), default=None
            As in :class:`Nodes`.

        Returns
        -------
        Nodes
            With m realizations per node.

        Warns
        -----
        InputWarning
            If there are few nodes with very many realizations, as if the axes were swapped.

        Examples
        --------
        >>> import probi
        >>> nodes = probi.Nodes.from_dense([[[0.0], [1.0]], [[5.0], [9.0]]], [[0.5, 0.5], [0.9, 0.1]])
        >>> nodes.gravity_centers
        array([[0.5],
               [5.4]])
        """
        points = as_floats(X, "X", 3)
        n_nodes, n_each, _ = points.shape
        # Probabilities that sum to 1 along the second axis confirm the order of axes.
        many = n_each >= MANY_REALIZATIONS and n_each >= FEW_NODES * n_nodes
        if probabilities is None and n_nodes > 1 and many:
            _notes.warn(
                f"X has shape {points.shape}, which makes {n_nodes} nodes with {n_each:,} realizations each. "
                "If the first axis holds the realizations, use X.transpose(1, 0, 2); if not, use Nodes.from_list(X) to "
                "silence this warning.",
                InputWarning,
            )
        return cls(*of_dense(points, probabilities), weights, ids)

    @classmethod
    def from_list(
        cls, X: Sequence[ArrayLike], probabilities: Sequence[ArrayLike] | None = None,
        weights: ArrayLike | None = None, ids: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Nodes with any number of realizations, passed as one array per node.

        Parameters
        ----------
        X : sequence of array-like of shape (m_i, n_features)
            The realizations of each node.
        probabilities : sequence of array-like of shape (m_i,), default=None
            Of each realization. None: 1 / m_i.
        weights, ids : array-like of shape (n_nodes,), default=None
            As in :class:`Nodes`.

        Returns
        -------
        Nodes
            One per array.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> tracks = [np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), np.array([[5.0, 5.0]])]
        >>> probi.Nodes.from_list(tracks)
        Nodes(2 nodes, 4 realizations (1 to 3 per node), 2 features, float64, mass 2)
        """
        return cls(*of_lists(X, probabilities), weights, ids)

    @classmethod
    def from_matrix(cls, X: ArrayLike, P: Any, weights: ArrayLike | None = None, ids: ArrayLike | None = None) -> Self:
        """Nodes over shared points, the paper's model: node ``i`` is at ``X[j]`` with probability ``P[i, j]``.

        Parameters
        ----------
        X : array-like of shape (m, n_features)
            The points.
        P : array-like or sparse matrix of shape (n_nodes, m)
            Probabilities; a zero means that the node never takes the point. For proportions, pass
            ``P / P.sum(1, keepdims=True)``.
        weights, ids : array-like of shape (n_nodes,), default=None
            As in :class:`Nodes`.

        Returns
        -------
        Nodes
            With one realization per nonzero probability in their row of ``P``.

        Examples
        --------
        A customer who visits one of three shops:

        >>> import probi
        >>> shops = [[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]]
        >>> probi.Nodes.from_matrix(shops, [[0.7, 0.3, 0.0], [0.0, 0.0, 1.0]])
        Nodes(2 nodes, 3 realizations (1 to 2 per node), 2 features, float64, mass 2)
        """
        return cls(*of_matrix(as_floats(X, "X", 2), P), weights, ids)

    @classmethod
    def from_gaussian(
        cls,
        means: ArrayLike,
        covariances: ArrayLike,
        n: int | None = None,
        weights: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        random_state: Any = None,
    ) -> Self:
        """Nodes that represent Gaussian errors, such as the error ellipses of GPS fixes.

        Parameters
        ----------
        means : array-like of shape (n_nodes, n_features)
            Measured positions.
        covariances : array-like
            (n_nodes, d, d); (d, d) for all nodes; (n_nodes,) variances or one variance for isotropic errors.
        n : int, default=None
            Number of equally likely random realizations per node. None: 2 d + 1 sigma points, without randomness. Their
            mean and covariance are exact, and so is the expected distance to the mean of an isotropic Gaussian.
        weights, ids : array-like of shape (n_nodes,), default=None
            As in :class:`Nodes`.
        random_state : None, int, Generator or RandomState
            For the draws.

        Returns
        -------
        Nodes
            With ``n`` or 2 d + 1 realizations per node.

        Examples
        --------
        >>> import probi
        >>> fixes = probi.Nodes.from_gaussian([[0.0, 0.0], [9.0, 9.0]], [[4.0, 0.0], [0.0, 1.0]])
        >>> fixes.points[:5].round(2)
        array([[ 0.  ,  0.  ],
               [ 3.19,  0.  ],
               [ 0.  ,  1.6 ],
               [-3.19,  0.  ],
               [ 0.  , -1.6 ]])
        """
        dense = of_gaussians(as_floats(means, "means", 2), covariances, n, random_state)
        return cls(*of_dense(*dense), weights, ids)

    @classmethod
    def from_table(
        cls,
        table: Any,
        layout: str | None = None,
        *,
        features: Sequence[str] | None = None,
        id: str | Sequence[str] | Literal[False] | None = None,
        probability: str | Literal[False] | None = None,
        weight: str | Literal[False] | None = None,
        group_size: int | None = None,
        probabilities: str = "keep",
        missing: str = "error",
        gather: bool = False,
    ) -> Self:
        """Nodes from a table of pyarrow, pandas, polars, DuckDB or anything with Arrow's PyCapsule interface.

        Parameters
        ----------
        table : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            Read without a copy if types allow.
        layout : {"points", "groups", "long", "nested"}, default=None
            Meaning of a row: a certain node; a realization, with ``group_size`` rows per node; a realization, with a
            shared id per node; a node, with lists. None: inferred from the columns.
        features : sequence of str, default=None
            Columns of coordinates, or patterns such as ``"WAP*"``. None: all numeric columns without another role.
        id : str, sequence of str or False, default=None
            Columns that identify a node. None: one called id, node, node_id or key, if it exists. False: none; a column
            of that name is a feature.
        probability, weight : str or False, default=None
            Columns. None: those called probability, prob or p, and weight, if the layout has them. False: none.
        group_size : int, default=None
            Rows per node, in the layout "groups"; an incomplete last group is left out.
        probabilities : {"keep", "normalize"}, default="keep"
            "normalize" divides those of each node by their sum, for values that are only proportional to probabilities.
        missing : {"error", "skip-row", "skip-node", "absent"}, default="error"
            How to treat rows with a missing value, as in :func:`probi.io.read`: leave out the row, its node, or the
            row with its probability.
        gather : bool, default=False
            Gather rows of a node that are not contiguous; nodes are in the order of their first rows.

        Returns
        -------
        Nodes
            With ids, if there is a column of them.

        Raises
        ------
        InputError
            If the columns are ambiguous: rows that share an id without probabilities, a weight that may be a feature.
            The message names both calls.

        Warns
        -----
        InputWarning
            If columns are left out although ``features`` is not given, and if longitude and latitude are treated as
            plain numbers.

        Examples
        --------
        >>> import probi
        >>> import pyarrow as pa
        >>> table = pa.table({"id": ["a", "a", "b"], "x": [0.0, 1.0, 5.0], "y": [2.0, 2.0, 3.0]})
        >>> nodes = probi.Nodes.from_table(table, layout="long")
        >>> nodes, nodes.ids
        (Nodes(2 nodes, 3 realizations (1 to 2 per node), 2 features, float64, mass 2), array(['a', 'b'], dtype=object))
        """
        from probi.tables.convert import arrays_of

        roles = {"features": features, "id": id, "probability": probability, "weight": weight, "group_size": group_size}
        return cls(*arrays_of(table, layout, probabilities, missing, gather, **roles))

    @classmethod
    def from_xarray(
        cls,
        obj: Any,
        node: str | Sequence[str],
        realization: str | Sequence[str] | Literal[False] | None = None,
        features: str | Sequence[str] | None = None,
        *,
        weights: Any = None,
        scale: Mapping[str, float] | None = None,
        missing: str = "error",
    ) -> Self:
        """Nodes from a DataArray or Dataset of xarray, such as an ensemble forecast.

        Each dimension has a role: those of ``node`` tell nodes apart, the realization dimension counts members or
        draws, and all others are features, as are several variables.

        Parameters
        ----------
        obj : DataArray or Dataset
            Of numbers. It is loaded into memory; ``ds.probi.cluster`` of ``probi.xarray`` reads chunk by chunk.
        node : str or sequence of str
            Dimensions of the nodes: ``("latitude", "longitude")`` for places, ``"number"`` for the members.
        realization : str, sequence of str or False, default=None
            Dimensions of the realizations. None: that of the coordinate with the standard name "realization", else one
            called realization, number, member, ensemble, ens, mem, sample or draw (with chain); none if such a
            dimension is the node. False: none, values are certain.
        features : str or sequence of str, default=None
            Variables of a Dataset. None: all numbers that have the dimensions of the nodes.
        weights : "cos_latitude" or DataArray, default=None
            Weights of nodes. "cos_latitude" is the area of the cells of a grid; where latitude is a feature, each is
            multiplied by the root of it instead, so that squared distances are means over the area.
        scale : mapping of str to float, default=None
            Divisor of each variable, which variables of different units need.
        missing : {"error", "absent"}, default="error"
            How to treat realizations with NaN in some features; "absent" leaves them out with their probability.

        Returns
        -------
        Nodes
            In C order of the dimensions of ``node``, with their coordinates as ids. A missing member, with NaN in all
            features, lowers the probability of its node; a node without any is left out, and so is a feature that is
            NaN everywhere.

        Raises
        ------
        InputError
            If the realization dimension is not known or ambiguous, if units differ, or if coordinates repeat; the
            message says what to write.

        See Also
        --------
        from_draws : Posterior draws of ArviZ.

        Examples
        --------
        Five members of a forecast with three steps at four places; one member is missing at the first place:

        >>> import numpy as np
        >>> import probi
        >>> import xarray as xr
        >>> values = np.random.default_rng(0).normal(size=(5, 3, 4))
        >>> values[0, :, 0] = np.nan
        >>> coords = {"station": ["Bonn", "Köln", "Aachen", "Trier"]}
        >>> forecast = xr.DataArray(values, coords, dims=("number", "step", "station"))
        >>> nodes = probi.Nodes.from_xarray(forecast, node="station")
        >>> nodes
        Nodes(4 nodes, 19 realizations (4 to 5 per node), 3 features, float64, mass 3.8)
        >>> nodes.ids
        array(['Bonn', 'Köln', 'Aachen', 'Trier'], dtype=object)
        """
        from probi.inputs.fields import Field

        field = Field(obj, node, realization, features, weights, scale, missing)
        return cls.concat([cls(*block.arrays) for block in field.blocks(in_order=True)])

    @classmethod
    def from_draws(
        cls,
        obj: Any,
        var_names: str | Sequence[str] | None = None,
        *,
        node: str | Sequence[str],
        max_realizations: int | None = 500,
        random_state: Any = 0,
    ) -> Self:
        """Nodes from posterior draws: a node is one school, store or subject, and its draws are its realizations.

        Parameters
        ----------
        obj : InferenceData, DataTree, Dataset or DataArray
            Of ArviZ, any version: its group "posterior", or a Dataset with the dimensions chain and draw, or sample.
        var_names : str or sequence of str, default=None
            Parameters that are features. None: all that have the dimensions of the nodes; others, such as a global
            mean, are left out.
        node : str or sequence of str
            Dimensions of the nodes, such as ``"school"``.
        max_realizations : int, default=500
            Nodes with more draws are thinned, as in :meth:`thin`. None keeps all draws.
        random_state : None, int, Generator or RandomState, default=0
            For thinning.

        Returns
        -------
        Nodes
            With the coordinates of ``node`` as ids, and the draws of all chains with equal probabilities.

        See Also
        --------
        from_xarray : Other labeled arrays.

        Examples
        --------
        The effects of eight schools in a posterior of four chains:

        >>> import numpy as np
        >>> import probi
        >>> import xarray as xr
        >>> rng = np.random.default_rng(0)
        >>> posterior = xr.Dataset(
        ...     {
        ...         "mu": (("chain", "draw"), rng.normal(size=(4, 100))),
        ...         "theta": (("chain", "draw", "school"), rng.normal(size=(4, 100, 8))),
        ...     },
        ...     coords={"school": list("ABCDEFGH")},
        ... )
        >>> nodes = probi.Nodes.from_draws(posterior, node="school")
        >>> nodes
        Nodes(8 nodes, 3,200 realizations (400 per node), 1 feature, float64, mass 8)
        """
        from probi.inputs.draws import of_draws

        key = seed_of(random_state) % 2**64
        parts: list[Self] = []
        for block in of_draws(obj, var_names, node).blocks(in_order=True):
            part = cls(*block.arrays)
            if max_realizations is not None:
                part = part._thin(allowed_realizations(max_realizations, None), key, sum(map(len, parts)))[1]
            parts.append(part)
        return cls.concat(parts)

    @classmethod
    def from_imputations(cls, frames: Any, weights: ArrayLike | None = None, ids: ArrayLike | None = None) -> Self:
        """Nodes from multiple imputation: a row is a node, and its completed copies are the realizations.

        Parameters
        ----------
        frames : list of DataFrame or array-like, ndarray of shape (m, n_rows, n_features), or DataFrame
            The m completed copies of a table, with the same rows; or mice's long format, with the columns .imp and .id,
            of which the original table (.imp = 0) is left out.
        weights, ids : array-like of shape (n_rows,), default=None
            As in :class:`Nodes`. Without ids: .id, or the index of the DataFrames if it does more than count.

        Returns
        -------
        Nodes
            With m realizations, or one for rows that are the same in all copies, because nothing was missing.

        See Also
        --------
        probi.impute.draws : Make the copies.

        Examples
        --------
        >>> import probi
        >>> copies = [[[1.0, 2.0], [3.0, 0.1]], [[1.0, 2.0], [3.0, 0.4]], [[1.0, 2.0], [3.0, 0.2]]]
        >>> probi.Nodes.from_imputations(copies)
        Nodes(2 nodes, 4 realizations (1 to 3 per node), 2 features, float64, mass 2)
        """
        from probi.inputs.imputations import of_imputations

        points, probabilities, offsets, found = of_imputations(frames)
        return cls(points, probabilities, offsets, weights, found if ids is None else ids)

    @classmethod
    def from_errors(
        cls,
        X: Any,
        sigma: Any = None,
        correlation: ArrayLike | None = None,
        *,
        features: str | Sequence[str] | None = None,
        scale: Mapping[str, float] | None = None,
        confidence: float | None = None,
        n: int | None = None,
        weights: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        random_state: Any = None,
    ) -> Self:
        """Nodes from measurements with Gaussian errors: catalogs, and GPS fixes with an accuracy.

        Parameters
        ----------
        X : array-like of shape (n_nodes, n_features), table or GeoDataFrame
            Measured values; a table of pandas, polars or astropy (with units, if it is a QTable); or points of
            geopandas, in any coordinate reference system.
        sigma : array-like, str or sequence of str, default=None
            Standard errors, of shape (n_nodes, n_features), (n_features,), (n_nodes,) or one number; or the columns
            that have them. None: the columns named as in Gaia (``parallax_error``) or VizieR (``e_parallax``). Of a
            GeoDataFrame: in meters, one column or one to the east and one to the north.
        correlation : array-like, default=None
            Correlations of the errors, (d, d) or (n_nodes, d, d), or for two features (n_nodes,) or one number. None:
            the columns named as in Gaia (``pmra_pmdec_corr``), and 0 where there is none.
        features : str or sequence of str, default=None
            Columns of a table. None: those with an error.
        scale : mapping of str to float, default=None
            Divisor of each column of a table, which columns of different units need.
        confidence : float, default=None
            Of a GeoDataFrame: ``sigma`` is the radius of a circle that contains the true location with this
            probability, 0.68 for the accuracy that Android reports. None: it is a standard error.
        n, weights, ids, random_state
            As in :meth:`from_gaussian`. Without ids: the index of a DataFrame if it does more than count.

        Returns
        -------
        Nodes
            Of a GeoDataFrame: in kilometers on the sphere, for :func:`probi.geo.from_sphere`.

        See Also
        --------
        from_gaussian : From covariances.
        probi.geo.to_sphere : Longitude and latitude.

        Examples
        --------
        >>> import pandas as pd
        >>> import probi
        >>> stars = pd.DataFrame(
        ...     {
        ...         "pmra": [3.1, -7.4],
        ...         "pmra_error": [0.1, 0.3],
        ...         "pmdec": [0.4, 2.2],
        ...         "pmdec_error": [0.1, 0.2],
        ...         "pmra_pmdec_corr": [0.0, -0.6],
        ...     }
        ... )
        >>> nodes = probi.Nodes.from_errors(stars, features=["pmra", "pmdec"])
        >>> nodes
        Nodes(2 nodes, 10 realizations (5 per node), 2 features, float64, mass 2)
        >>> nodes.gravity_centers
        array([[ 3.1,  0.4],
               [-7.4,  2.2]])
        """
        from probi.inputs.measurements import is_geographic, of_errors, of_fixes

        if is_geographic(X):
            points, probabilities, found = of_fixes(X, sigma, confidence, n, random_state)
            return cls(*of_dense(points, probabilities), weights, found if ids is None else ids)
        if confidence is not None:
            raise InputError("confidence is for a GeoDataFrame: sigma is a standard error otherwise.")
        means, covariances, found = of_errors(X, sigma, correlation, features, scale)
        return cls.from_gaussian(means, covariances, n, weights, found if ids is None else ids, random_state)

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Concatenate nodes.

        Parameters
        ----------
        parts : sequence of Nodes
            With the same number of features; all with ids of one type, or all without.

        Returns
        -------
        Nodes
            A copy, if there is more than one part.

        Examples
        --------
        >>> import probi
        >>> a, b = probi.Nodes.from_points([[0.0]]), probi.Nodes.from_dense([[[1.0], [2.0]]])
        >>> probi.Nodes.concat([a, b])
        Nodes(2 nodes, 3 realizations (1 to 2 per node), 1 feature, float64, mass 2)
        """
        if not parts:
            raise InputError("Nothing to concatenate: pass at least one Nodes.")
        if len({part.n_features for part in parts}) > 1:
            raise InputError(f"Parts have different numbers of features: {[part.n_features for part in parts]}.")
        if len({part.ids is None for part in parts}) > 1:
            raise InputError("Some parts have ids and some have none. All or none of them need ids.")
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0] + [part.n_realizations for part in parts])
        offsets = None
        if any("offsets" in part.__dict__ for part in parts):
            shifted = [part.offsets[:-1] + start for part, start in zip(parts, starts, strict=False)]
            offsets = frozen(np.concatenate([*shifted, starts[-1:]]))
        ids, magnitude = _joined_ids([part.ids for part in parts]), max(part.magnitude for part in parts)
        return cls._made_of(parts, _concatenated, _concatenated, offsets, ids, magnitude)

    @classmethod
    def _made_of(
        cls,
        parts: Sequence[Self],
        by_node: Callable[[Sequence[Array]], Array],
        by_realization: Callable[[Sequence[Array]], Array],
        offsets: Array | None,
        ids: Array | None,
        magnitude: float,
    ) -> Self:
        """Nodes made of parts, by functions that make one of their arrays with a row per node, and per realization."""

        def made(name: str, join: Callable[[Sequence[Array]], Array]) -> Array | None:
            if not any(name in part.__dict__ for part in parts):
                return None
            return join([getattr(part, name) for part in parts])

        points = by_realization([part.points for part in parts])
        shared = [name for name in list(parts[0]._statistics) if all(name in part._statistics for part in parts[1:])]
        return cls._trusted(
            points=points,
            ids=ids,
            magnitude=magnitude,
            offsets=offsets,
            probabilities=made("probabilities", by_realization),
            weights=made("weights", by_node),
            total_probabilities=made("total_probabilities", by_node),
            statistics={name: _each(by_node, [part._statistics[name] for part in parts]) for name in shared},
        )

    # -- what they are ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._n_nodes

    @property
    def n_realizations(self) -> int:
        """Realizations of all nodes together."""
        return len(self.points)

    @property
    def n_features(self) -> int:
        """Dimension of the space."""
        return int(self.points.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n_nodes, n_features), so that scikit-learn's tools can split nodes like rows."""
        return len(self), self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: of points and probabilities."""
        return self.points.dtype

    @property
    def is_certain(self) -> bool:
        """Whether each node has one realization."""
        return self.n_realizations == len(self)

    @property
    def mass(self) -> Floats:
        """Weight times total probability, of each node."""
        if "total_probabilities" not in self.__dict__:
            return self.weights
        return self.statistic("mass", lambda: frozen(self.weights * self.total_probabilities))  # type: ignore[no-any-return]

    @property
    def gravity_centers(self) -> Array:
        """Centers of gravity, (n_nodes, n_features); float64, or the points themselves if nodes are certain."""
        # The points themselves are not kept as a statistic: parts of the nodes would copy them twice.
        return self.points if self.is_certain else self._moments()[0]

    @property
    def variances(self) -> Floats:
        """Mean squared distance of each node to its center of gravity."""
        if self.is_certain:
            return self.statistic("no variances", lambda: frozen(np.zeros(len(self))))  # type: ignore[no-any-return]
        return self._moments()[1]

    def _moments(self) -> tuple[Array, Floats]:
        return self.statistic("moments", self._compute_moments)  # type: ignore[no-any-return]

    def _compute_moments(self) -> tuple[Array, Floats]:
        gravity, variances = np.empty(self.shape), np.empty(len(self))
        _parallel.run(
            pull.node_moments, self.pieces(), self.points, self.probabilities, self.offsets,
            self.total_probabilities, gravity, variances,
        )  # fmt: skip
        return frozen(gravity), frozen(variances)

    def statistic(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a cached array (or tuple of arrays) with one row per node, computed once, by one thread, on first use.

        :meta private:
        """
        with self._lock:
            if name not in self._statistics:
                self._statistics[name] = compute()
            return self._statistics[name]

    def known(self, name: str) -> Any:
        """Return a cached statistic, or None if it was not computed.

        :meta private:
        """
        return self._statistics.get(name)

    def pieces(self, at_most: int | None = None, at_least: int = 1) -> list[tuple[int, int]]:
        """Divide the nodes into ranges of about equal work, which depend only on the nodes and the arguments.

        ``at_least`` so many if each then has ``MIN_PIECE`` nodes: for work that grows with the number of centers.

        :meta private:
        """
        if len(self) == 0:
            return []
        work = (self.offsets[1:] + np.arange(len(self))) * self.n_features
        n_pieces = max(1 + int(work[-1] // GRAIN), min(at_least, len(self) // MIN_PIECE))
        if at_most is not None:
            n_pieces = min(n_pieces, at_most)
        bounds = np.searchsorted(work, work[-1] / n_pieces * np.arange(1, n_pieces))
        bounds = np.unique(np.concatenate([[0], bounds, [len(self)]]))
        return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))

    # -- parts and copies -------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Self:
        """Select nodes: a slice gives a view, an index array or a mask a copy, an integer one node."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self._cut(start, max(start, stop))
            return self.take(np.arange(start, stop, step))
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]  # how scikit-learn indexes objects with a shape
        index = np.asarray(key)
        if index.dtype == bool:
            if index.shape != (len(self),):
                raise InputError(f"A mask of shape {index.shape} does not fit {len(self)} nodes.")
            return self.take(np.flatnonzero(index))
        return self.take(np.atleast_1d(index))

    def _cut(self, start: int, stop: int) -> Self:
        offsets = self.__dict__.get("offsets")
        first, last = (start, stop) if offsets is None else (offsets[start], offsets[stop])
        cut_offsets = None if offsets is None else frozen(offsets[start : stop + 1] - first)
        ids = None if self.ids is None else self.ids[start:stop]
        return self._made_of(
            [self], lambda arrays: arrays[0][start:stop], lambda arrays: arrays[0][first:last], cut_offsets, ids,
            self.magnitude,
        )  # fmt: skip

    def take(self, index: ArrayLike) -> Self:
        """Nodes with these indices, in this order.

        Indices may repeat; negative ones count from the end.

        Parameters
        ----------
        index : array-like of int
            Indices of nodes.

        Returns
        -------
        Nodes
            A copy.

        Examples
        --------
        >>> import probi
        >>> nodes = probi.Nodes.from_points([[0.0], [1.0], [2.0]], ids=["a", "b", "c"])
        >>> nodes.take([2, 0]).ids
        array(['c', 'a'], dtype='<U1')
        """
        return self._gathered([self], [as_index(index, len(self))])

    @classmethod
    def _gathered(cls, parts: Sequence[Self], indices: Sequence[Integers]) -> Self:
        """Nodes of several parts of one form, by their valid indices in each; each is copied once."""
        rows, offsets = list(indices), None
        if not all(part.is_certain for part in parts):
            sizes = [np.diff(part.offsets)[index] for part, index in zip(parts, indices, strict=True)]
            offsets = frozen(np.concatenate([[0], np.cumsum(np.concatenate(sizes))]))
            rows = [part._rows_of(index) for part, index in zip(parts, indices, strict=True)]
        ids = [None if part.ids is None else part.ids[index] for part, index in zip(parts, indices, strict=True)]
        return cls._made_of(
            parts, lambda arrays: _gather(arrays, indices), lambda arrays: _gather(arrays, rows), offsets,
            _joined_ids(ids), max(part.magnitude for part in parts),
        )  # fmt: skip

    def _rows_of(self, chosen: Integers) -> Integers:
        """Realizations of some nodes."""
        if self.is_certain:
            return chosen
        sizes = np.diff(self.offsets)[chosen]
        ends = np.cumsum(sizes)
        rows: Integers = np.repeat(self.offsets[chosen] - (ends - sizes), sizes)
        return rows + np.arange(len(rows))

    def scaled(self, factors: ArrayLike) -> Self:
        """Nodes with each feature multiplied by its factor, for example 1 / standard deviation.

        Parameters
        ----------
        factors : float or array-like of shape (n_features,)
            One for all features, or one each.

        Returns
        -------
        Nodes
            With other points and everything else unchanged.

        Examples
        --------
        >>> import probi
        >>> probi.Nodes.from_points([[1.0, 1000.0]]).scaled([1.0, 0.001]).points
        array([[1., 1.]])
        """
        values = np.asarray(factors)
        if values.shape not in ((), (self.n_features,)):
            raise InputError(f"Factors have shape {values.shape}, but there are {self.n_features} features.")
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise InputError("Factors must be finite numbers.")
        with np.errstate(over="ignore"):
            return self.with_points((self.points * values.astype(np.float64)).astype(self.dtype))

    def with_points(self, points: ArrayLike) -> Self:
        """The same nodes with other points.

        Parameters
        ----------
        points : array-like of shape (n_realizations, any number of features)
            New position of each realization.

        Returns
        -------
        Nodes
            With the same probabilities, weights and ids.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> nodes = probi.Nodes.from_dense([[[1.0], [100.0]]])
        >>> nodes.with_points(np.log10(nodes.points)).gravity_centers
        array([[1.]])
        """
        new = frozen(as_floats(points, "points", 2, self.dtype))
        if len(new) != self.n_realizations:
            raise InputError(f"There are {len(new)} points for {self.n_realizations} realizations.")
        changed = {"points": new, "magnitude": check_points(new, self.__dict__.get("offsets")), "statistics": {}}
        return self._trusted(**self._parts() | changed)

    def thin(
        self,
        max_realizations: int | None = None,
        epsilon: float | None = None,
        *,
        random_state: Any = None,
        return_bounds: bool = False,
    ) -> Any:
        """Nodes with fewer realizations, which represent the others; weights and total probabilities are unchanged.

        Equal realizations are merged first, without loss, then those within a hundredth of the spread. If that is not
        enough, two are drawn from each of several groups of the node's realizations, so that its expected distance to
        its approximate median is unchanged and that to any other center is unbiased. A single realization is the one
        nearest to that median.

        Parameters
        ----------
        max_realizations : int, default=None
            Maximum number of realizations per node; nodes with at most that many are unchanged.
        epsilon : float, default=None
            Instead of ``max_realizations``: bound on the standard error of the expected distance to any center,
            relative to the node's spread. It needs 5.5 / epsilon ** 2 realizations.
        random_state : None, int, Generator or RandomState, default=None
            The same seed gives the same bits.
        return_bounds : bool, default=False
            Also return bounds on the error; this takes longer.

        Returns
        -------
        Nodes
            Or, with ``return_bounds``, Nodes and a :class:`probi.ThinningBounds`.

        Notes
        -----
        Step 5 of the coreset of Lammersen, Schmidt and Sohler, which the paper omits.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> readings = np.random.default_rng(0).normal(size=(50_000, 3))
        >>> probi.Nodes.from_groups(readings, 10_000).thin(32, random_state=0)
        Nodes(5 nodes, 159 realizations (31 to 32 per node), 3 features, float64, mass 5)
        """
        n_allowed = allowed_realizations(max_realizations, epsilon)
        thinned, nodes = self._thin(n_allowed, seed_of(random_state) % 2**64, 0, return_bounds)
        if not return_bounds:
            return nodes
        return nodes, ThinningBounds(np.hypot(np.sqrt(thinned.variances), thinned.biases), thinned.moved)

    def _thin(self, max_realizations: int, key: int, first: int, bounded: bool = False) -> tuple[Thinned, Self]:
        """Result of :meth:`thin` and its nodes, for a random key and the number of the first node under it."""
        given = Given(self.points, self.probabilities, self.offsets, self.total_probabilities)
        thinned = thin(given, max_realizations, key, first, bounded)
        arrays = {name: frozen(getattr(thinned, name)) for name in ("points", "probabilities", "offsets")}
        arrays["total_probabilities"] = frozen(thinned.totals)
        return thinned, self._trusted(**self._parts() | arrays | {"statistics": {}})

    def with_weights(self, weights: ArrayLike) -> Self:
        """The same nodes with other weights; cached statistics are kept.

        Parameters
        ----------
        weights : array-like of shape (n_nodes,)
            How many nodes each one represents.

        Returns
        -------
        Nodes
            With the same points, probabilities and ids.

        Examples
        --------
        >>> import probi
        >>> probi.Nodes.from_points([[0.0], [1.0]]).with_weights([3, 1]).mass
        array([3., 1.])
        """
        kept = {name: value for name, value in dict(self._statistics).items() if name != "mass"}
        return self._trusted(**self._parts() | {"weights": as_weights(weights, len(self)), "statistics": kept})

    def to_arrow(self) -> Any:
        """Table of pyarrow with one row per node: id, weight, list of points, list of probabilities.

        Returns
        -------
        pyarrow.Table
            In the layout "nested", which :meth:`from_table` reads.

        Examples
        --------
        >>> import probi
        >>> table = probi.Nodes.from_points([[0.0, 1.0]], ids=["a"]).to_arrow()
        >>> table.column_names
        ['id', 'weight', 'points', 'probability']
        """
        from probi.tables.convert import to_table

        return to_table(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nodes):
            return NotImplemented
        if self.dtype != other.dtype or self.shape != other.shape or (self.ids is None) != (other.ids is None):
            return False
        names = ("offsets", "weights", "probabilities", "points") + (("ids",) if self.ids is not None else ())
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self._parts() | {"statistics": {}})

    def __repr__(self) -> str:
        per_node = f" ({self._realizations_per_node()})" if len(self) else ""
        return (
            f"Nodes({counted(len(self), 'node')}, {counted(self.n_realizations, 'realization')}{per_node}, "
            f"{counted(self.n_features, 'feature')}, {self.dtype}, mass {math.fsum(self.mass):,.6g})"
        )

    def _realizations_per_node(self) -> str:
        sizes = np.diff(self.offsets)
        low, high = sizes.min(), sizes.max()
        return f"{low:,} per node" if low == high else f"{low:,} to {high:,} per node"

    def _repr_html_(self) -> str:
        """Show the first nodes in a notebook."""
        shown, d = min(len(self), _notes.MAX_ROWS // 2), min(self.n_features, _notes.MAX_COLUMNS)
        means = self[:shown].gravity_centers[:, :d]
        rows = [
            [
                str(i) if self.ids is None else str(self.ids[i]),
                f"{self.offsets[i + 1] - self.offsets[i]:,}", f"{self.mass[i]:.6g}", *(f"{x:.6g}" for x in means[i]),
            ]
            for i in range(shown)
        ]  # fmt: skip
        header = ["node" if self.ids is None else "id", "realizations", "mass", *(f"mean x{j}" for j in range(d))]
        return _notes.html_table(repr(self), rows, header)


def _joined_ids(ids: Sequence[Array | None]) -> Array | None:
    """Ids of nodes of one or several parts; None if a part has none."""
    given = [array for array in ids if array is not None]
    if len(given) < len(ids):
        return None
    return frozen(given[0] if len(given) == 1 else concat_ids(given))


def _concatenated(arrays: Sequence[Array]) -> Array:
    return frozen(np.concatenate(arrays))


def _gather(arrays: Sequence[Array], indices: Sequence[Integers]) -> Array:
    """Rows of several arrays by their indices in each, one array after the other."""
    if len(arrays) == 1:
        return frozen(arrays[0].take(indices[0], axis=0))
    ends = np.cumsum([len(index) for index in indices])
    out = np.empty((ends[-1], *arrays[0].shape[1:]), arrays[0].dtype)
    for array, index, end in zip(arrays, indices, ends, strict=True):
        # "clip" changes no valid index, and NumPy then writes to the array itself, not to a copy.
        np.take(array, index, axis=0, out=out[end - len(index) : end], mode="clip")
    return frozen(out)


def _each(function: Callable[[Sequence[Array]], Array], values: Sequence[Any]) -> Any:
    """Apply a function to some arrays, or to those at each place of some tuples of arrays."""
    if isinstance(values[0], tuple):
        return tuple(function(arrays) for arrays in zip(*values, strict=True))
    return function(values)


def _restore(cls: type[Nodes], parts: dict[str, Any]) -> Nodes:
    return cls._trusted(
        **{name: frozen(value) if isinstance(value, np.ndarray) else value for name, value in parts.items()}
    )


# -- what users give as nodes -----------------------------------------------------------------------------------------


def as_nodes(X: Any) -> Nodes:
    """Nodes as they are; arrays and lists of arrays by their shape; otherwise an error that names the right call."""
    if isinstance(X, Nodes):
        return X
    check_array_like(X)
    if is_list_of_arrays(X):
        return Nodes.from_list(X)
    array = as_array(X, "X")
    if array.ndim == 2:
        return Nodes.from_points(array)
    if array.ndim == 3:
        return Nodes.from_dense(array)
    advice = "Nodes are (n, d) for points, (n, m, d) for m realizations each, or a list of arrays of shape (m, d)."
    if array.ndim == 1:
        advice = "Give X.reshape(-1, 1) for points with one feature, or X.reshape(1, -1) for one point."
    raise InputError(f"X has shape {array.shape}. {advice}")


def holds_realizations(X: Any) -> bool:
    """Whether X may have several points per node: Nodes, a 3-D array or a list of 2-D arrays."""
    return isinstance(X, Nodes) or getattr(X, "ndim", 0) == 3 or is_list_of_arrays(X)
