"""Nodes: uncertain objects in one flat layout, checked once, immutable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from probi._kernels.thinning import Given
from probi._node_layout import NodeLayout
from probi._realizations import of_dense, of_gaussians, of_lists, of_matrix, warn_of_swapped_axes
from probi.errors import InputError
from probi.thinning import Thinned, ThinningBounds, allowed_realizations, thin
from probi.validation import (
    as_array,
    as_floats,
    as_weights,
    certain_parts,
    check_array_like,
    check_points,
    frozen,
    is_list_of_arrays,
    seed_of,
)


class Nodes(NodeLayout):
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
        1 by rounding to six decimals or to float32 is corrected, with an :class:`InputWarning`; a larger sum is an
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
    precision if other coordinates are larger; data is refused if all of it is that small.

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
        # Probabilities that sum to 1 along the second axis would confirm the order of the axes.
        if probabilities is None:
            warn_of_swapped_axes(points)
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
            Number of equally likely random realizations per node. None: 2 d + 1 sigma points, which are deterministic.
            Their mean and covariance are exact, and so is the expected distance to the mean of an isotropic Gaussian.
        weights, ids : array-like of shape (n_nodes,), default=None
            As in :class:`Nodes`.
        random_state : None, int, Generator or RandomState, default=None
            For the random realizations.

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
            How to treat rows with a missing value, as in :func:`probi.io.read`: raise an error, leave out the row, its
            node, or the row with its probability.
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
            Numeric data. It is loaded into memory; ``ds.probi.cluster`` of ``probi.xarray`` reads chunk by chunk.
        node : str or sequence of str
            Dimensions of the nodes: ``("latitude", "longitude")`` for places, ``"number"`` for the members.
        realization : str, sequence of str or False, default=None
            Dimensions of the realizations. None: that of the coordinate with the standard name "realization", else one
            called realization, number, member, ensemble, ens, mem, sample or draw (with chain); none if such a
            dimension is the node. False: none, values are certain.
        features : str or sequence of str, default=None
            Variables of a Dataset. None: all numeric ones that have the dimensions of the nodes.
        weights : "cos_latitude" or DataArray, default=None
            Weights of nodes. "cos_latitude" weights the cells of a grid by area; where latitude is a feature dimension,
            each feature is multiplied by the root of its area instead, so that squared distances weight cells by area.
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
            As in :class:`Nodes`. Without ids: .id, or the index of the DataFrames unless it only numbers the rows.

        Returns
        -------
        Nodes
            With m realizations per node, or one if all copies of its row are equal, because nothing was missing.

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

        points, probabilities, offsets, own_ids = of_imputations(frames)
        return cls(points, probabilities, offsets, weights, own_ids if ids is None else ids)

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
            As in :meth:`from_gaussian`. Without ids: the index of a DataFrame unless it only numbers the rows.

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
        from probi.inputs.measurements import of_measurements

        points, probabilities, own_ids = of_measurements(
            X, sigma, correlation, confidence, features, scale, n, random_state
        )
        return cls(*of_dense(points, probabilities), weights, own_ids if ids is None else ids)

    # -- modified copies -------------------------------------------------------------------------------------------

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
        """Nodes with fewer realizations that represent all; weights and total probabilities are unchanged.

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
        """Thinned arrays with their error bounds, and the nodes made of them.

        ``key`` and the index of a node, counted from ``first``, seed its random numbers.
        """
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


# -- conversion of arrays ---------------------------------------------------------------------------------------------


def as_nodes(X: Any) -> Nodes:
    """Convert an array or a list of arrays, by shape, to nodes; Nodes are returned unchanged.

    Raises an InputError that names the right call for anything else.
    """
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
