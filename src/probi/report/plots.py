"""Plots of solutions as matplotlib figures, without pyplot and its global state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from probi.errors import InputError
from probi.nodes import Nodes
from probi.report._charts import clusters_picture, elbow_picture, profiles_picture, split_picture
from probi.report._scene import Original, check_result, make_scene
from probi.solver.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_clusters(
    result: Result,
    nodes: Nodes | ArrayLike,
    *,
    features: Sequence[str] | None = None,
    original: Original | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw nodes, their clusters and the centers in a plane.

    Two features are drawn directly, to one scale: longitude and latitude as on a map. One feature is drawn as one row
    per cluster; more are projected onto the plane with most of the variance of the nodes' centers of gravity. Up to 20
    clusters have a color and a number each; with more, none has a color, and only the largest have numbers.

    Parameters
    ----------
    result : Result
        Its centers are drawn. Each node has the color of the nearest one, so ``nodes`` need not be those that were
        solved.
    nodes : Nodes or array-like
        All nodes or a sample; arrays as in :func:`probi.solve`. At most a few thousand realizations are drawn, always
        the same ones.
    features : sequence of str, default=None
        Names of the features; None: x0, x1, ...
    original : function, default=None
        Maps coordinates of the clustering (n, d) to original units (n, d'), for example points on a sphere to longitude
        and latitude; ``features`` then names the d' columns.
    ax : matplotlib Axes, default=None
        Axes to draw in; None: those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        That of ``ax``, if given.

    Examples
    --------
    >>> import numpy as np, probi
    >>> from probi.report import plot_clusters
    >>> X = np.random.default_rng(0).normal(size=(60, 5, 2)) + np.repeat([[0, 0], [9, 9]], 30, axis=0)[:, None]
    >>> nodes = probi.Nodes.from_dense(X)
    >>> figure = plot_clusters(probi.solve(nodes, 2, random_state=0), nodes, features=["lon", "lat"])
    >>> figure.axes[0].get_xlabel()
    'lon'
    >>> figure.axes[0].get_title(loc="left").splitlines()[0]
    '2 clusters of uncertain nodes'
    """
    return clusters_picture(make_scene(result, nodes, features, original)).plot(ax)


def plot_elbow(results: Sequence[Result], *, chosen: int | None = None, ax: Axes | None = None) -> Figure:
    """Draw the cost of solutions over their number of clusters.

    Bars are two standard errors long in each direction. The shaded area is the nodes' own spread, which no clustering
    can reduce.

    Parameters
    ----------
    results : sequence of Result
        Results for the same data and several numbers of clusters, in any order.
    chosen : int, default=None
        Index of the result to mark.
    ax : matplotlib Axes, default=None
        Axes to draw in; None: those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        That of ``ax``, if given.

    Examples
    --------
    >>> import numpy as np, probi
    >>> from probi.report import plot_elbow
    >>> nodes = probi.Nodes.from_points(np.random.default_rng(0).normal(size=(60, 2)))
    >>> figure = plot_elbow([probi.solve(nodes, k, random_state=0) for k in (1, 2, 3)])
    >>> figure.axes[0].get_xticks()
    array([1, 2, 3])
    """
    if isinstance(results, Result) or hasattr(results, "result_"):
        raise InputError(
            "plot_elbow draws the costs of several numbers of clusters, but got one result. Pass a list: "
            "plot_elbow([probi.solve(nodes, k) for k in range(2, 9)])."
        )
    if not results:
        raise InputError("No results to draw. Pass at least one.")
    for result in results:
        check_result(result)
    return elbow_picture(results, chosen).plot(ax)


def plot_cost_split(result: Result, *, ax: Axes | None = None) -> Figure:
    """Draw the cost of each cluster: its nodes' own spread, and the excess.

    Only the 20 most expensive clusters have a bar.

    Parameters
    ----------
    result : Result
        Returned by :func:`probi.solve`.
    ax : matplotlib Axes, default=None
        Axes to draw in; None: those of a new figure.

    Returns
    -------
    matplotlib.figure.Figure
        That of ``ax``, if given.

    Examples
    --------
    >>> import probi
    >>> from probi.report import plot_cost_split
    >>> nodes = probi.Nodes([[0.0], [2.0], [1.0], [9.0]], [0.5, 0.5, 1.0, 1.0], [0, 2, 3, 4])
    >>> figure = plot_cost_split(probi.solve(nodes, 1, random_state=0))
    >>> [float(bar.get_width()) for bar in figure.axes[0].patches]  # spread 1 of the first node, 8 to the last one
    [1.0, 8.0]
    """
    check_result(result)
    return split_picture(result).plot(ax)


def plot_profiles(
    result: Result, nodes: Nodes | ArrayLike, *, features: Sequence[str] | None = None, original: Original | None = None
) -> Figure:
    """Draw each center feature by feature, with bars for the middle half of its cluster's realizations.

    Features are with_unit in standard deviations from their overall median, so that they share one scale. Only the 60
    features in which the centers differ most and the 24 largest clusters are drawn.

    Parameters
    ----------
    result, nodes, features, original
        As in :func:`plot_clusters`.

    Returns
    -------
    matplotlib.figure.Figure
        A new one.

    Examples
    --------
    >>> import numpy as np, probi
    >>> from probi.report import plot_profiles
    >>> nodes = probi.Nodes.from_points(np.random.default_rng(0).normal(size=(60, 8)))
    >>> figure = plot_profiles(probi.solve(nodes, 2, random_state=0), nodes)
    >>> len(figure.axes)
    2
    """
    return profiles_picture(make_scene(result, nodes, features, original)).plot()
