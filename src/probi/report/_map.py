"""The map of labels, where the nodes are the cells of a grid of latitudes and longitudes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from probi._notes import counted
from probi._types import Floats, Integers
from probi.report._picture import PALETTE, Axis, Cells, Mark, Numbers, Panel, Picture, has_colors

# More cells would be smaller than a point, and make the page large.
MAX_ROWS, MAX_COLUMNS = 180, 360
MIN_COSINE = 0.25


class LabelMap(NamedTuple):
    """Clusters of the cells of a grid of latitudes and longitudes.

    Attributes
    ----------
    longitude : ndarray of shape (n_columns,)
        In degrees, sorted in either direction.
    latitude : ndarray of shape (n_rows,)
        The same.
    labels : ndarray of shape (n_rows, n_columns)
        Cluster of each cell, negative where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from probi.report import LabelMap
    >>> LabelMap(np.array([5.0, 6.0, 7.0]), np.array([51.0, 50.0]), np.array([[0, 0, 1], [-1, 1, 1]])).labels.shape
    (2, 3)
    """

    longitude: Floats
    latitude: Floats
    labels: Integers


def map_picture(grid: LabelMap, n_clusters: int) -> Picture:
    """Cells in the colors of their clusters, which repeat if there are many: cells of one cluster lie together."""
    drawn = _thinned(grid)
    x, y = edges(drawn.longitude), edges(drawn.latitude)
    clusters = np.unique(drawn.labels[drawn.labels >= 0])
    paints = [PALETTE[cluster % len(PALETTE)] for cluster in range(n_clusters)]
    marks: list[Mark] = [Cells("cells", x, y, drawn.labels, paints)]
    caption = "Each cell has the color of its cluster"
    caption += "; those without values, or outliers, have none" * bool((grid.labels < 0).any())
    if has_colors(n_clusters):
        places = np.full((n_clusters, 2), np.nan)
        places[clusters] = [_inside(drawn, cluster) for cluster in clusters.tolist()]
        marks.append(Numbers("numbers", places, clusters, [paints[c] for c in clusters], None))
    else:
        caption += "; clusters with the same color are different ones unless they touch"
    if drawn.labels.size < grid.labels.size:
        caption += f". {drawn.labels.size:,} of {grid.labels.size:,} cells are drawn"
    # Degrees of longitude are shorter than those of latitude, but near a pole a map would be all height.
    aspect = 1.0 / max(math.cos(math.radians(float(np.median(drawn.latitude)))), MIN_COSINE)
    return Picture(
        f"Map of {counted(n_clusters, 'cluster')}",
        f"{caption}.",
        f"Map of {drawn.labels.size:,} cells in {counted(len(clusters), 'cluster')}.",
        float(np.clip(0.7 + 4.4 * aspect * np.ptp(y) / np.ptp(x), 1.8, 6.0)),  # as wide as the page, within reason
        Axis("longitude", (float(x.min()), float(x.max()))),
        Axis("latitude", (float(y.min()), float(y.max()))),
        [Panel(marks)],
        aspect=aspect,
    )


def edges(coordinate: Floats) -> Floats:
    """Edges of cells: halfway between neighbors, and as far beyond the ends."""
    if len(coordinate) == 1:
        return np.array([coordinate[0] - 0.5, coordinate[0] + 0.5])
    middles = (coordinate[1:] + coordinate[:-1]) / 2
    return np.concatenate([[2 * coordinate[0] - middles[0]], middles, [2 * coordinate[-1] - middles[-1]]])


def _thinned(grid: LabelMap) -> LabelMap:
    """Every second or further row and column, if there are too many."""
    n_rows, n_columns = grid.labels.shape
    down, across = -(-n_rows // MAX_ROWS), -(-n_columns // MAX_COLUMNS)
    rows, columns = slice(down // 2, None, down), slice(across // 2, None, across)
    return LabelMap(grid.longitude[columns], grid.latitude[rows], grid.labels[rows, columns])


def _inside(grid: LabelMap, cluster: int) -> tuple[float, float]:
    """Longitude and latitude of the cell of a cluster that is deepest inside it."""
    cells = np.asarray(grid.labels == cluster)
    while True:
        padded = np.pad(cells, 1)
        inner = cells & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        if not inner.any():
            row, column = np.argwhere(cells)[np.count_nonzero(cells) // 2]
            return float(grid.longitude[column]), float(grid.latitude[row])
        cells = inner
