"""The map of labels: each cell has the color of its own cluster, where its coordinates are."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probi.report import LabelMap
from probi.report._map import MAX_COLUMNS, MAX_ROWS, edges, map_picture
from probi.report._matplotlib import plot
from probi.report._picture import PALETTE

NUMBER = r"(-?[\d.]+)"
RUN = re.compile(rf"M{NUMBER} {NUMBER}H{NUMBER}V{NUMBER}")


def grid(n_rows=7, n_columns=11, k=4, north_first=True, seed=0):
    """Labels at random, some missing, over latitudes that are not equally spaced."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, k, (n_rows, n_columns)).astype(np.int32)
    labels[0, 0] = np.iinfo(np.int32).min
    latitude = np.cumsum(rng.uniform(1.0, 2.0, n_rows)) + 30.0
    return LabelMap(np.linspace(300.0, 350.0, n_columns), latitude[::-1] if north_first else latitude, labels)


def painted(picture, shown):
    """Index of the color that is drawn at each cell, -1 for none; positions from the limits of the axes."""
    box = picture._layout()[0][0]
    x, y = box.x(shown.longitude), box.y(shown.latitude)
    assert box.left < x.min() < x.max() < box.right
    assert box.top < y.min() < y.max() < box.bottom
    out = np.full(shown.labels.shape, -1)
    for element in ElementTree.fromstring(picture.svg()).iter():
        if "crispEdges" in element.get("style", ""):
            color = PALETTE.index(re.search(r"fill: (#\w+)", element.get("style"))[1])
            for run in RUN.findall(element.get("d")):
                x0, y0, x1, y1 = map(float, run)
                inside = np.ix_((y > min(y0, y1)) & (y < max(y0, y1)), (x > x0) & (x < x1))
                assert (out[inside] == -1).all()
                out[inside] = color
    return out


@pytest.mark.parametrize("north_first", [True, False])
def test_cells_have_the_color_of_their_cluster(north_first):
    shown = grid(north_first=north_first)
    picture = map_picture(shown, 4)
    assert_array_equal(painted(picture, shown), np.maximum(shown.labels, -1))
    box = picture._layout()[0][0]
    assert box.y(shown.latitude.max()) < box.y(shown.latitude.min())  # north is up
    assert "have none" in picture.caption


def test_edges_are_halfway_between_cells():
    assert_allclose(edges(np.array([1.0, 2.0, 4.0])), [0.5, 1.5, 3.0, 5.0])
    assert_allclose(edges(np.array([7.0])), [6.5, 7.5])


def test_a_number_is_inside_its_cluster():
    labels = np.zeros((20, 30), np.int32)
    labels[:, 20:] = 1
    labels[2:4, 2:25] = 2  # across both
    shown = LabelMap(np.arange(30.0), np.arange(20.0), labels)
    numbers = map_picture(shown, 4).panels[0].marks[1]  # cluster 3 has no cell
    assert numbers.numbers.tolist() == [0, 1, 2]
    for cluster, (x, y) in enumerate(numbers.centers[:3]):
        assert labels[int(y), int(x)] == cluster
    x, y = numbers.centers[0]
    assert 5 <= x <= 15
    assert 8 <= y <= 15


def test_matplotlib_draws_the_same_cells():
    shown = grid()
    axes = plot(map_picture(shown, 4)).axes[0]
    (mesh,) = axes.collections
    colors = mesh.to_rgba(mesh.get_array().reshape(shown.labels.shape))
    for cluster, paint in enumerate(PALETTE[:4]):
        wanted = [int(paint[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        assert np.allclose(colors[shown.labels == cluster][:, :3], wanted)
    assert (colors[shown.labels < 0][:, 3] == 0).all()
    assert sorted(text.get_text() for text in axes.texts) == ["0", "1", "2", "3"]


def test_a_large_grid_is_thinned_and_many_clusters_have_no_numbers():
    shown = grid(400, 1500, k=30)
    picture = map_picture(shown, 30)
    cells, *rest = picture.panels[0].marks
    assert rest == []
    assert (np.array(cells.labels.shape) <= [MAX_ROWS, MAX_COLUMNS]).all()
    assert f"{cells.labels.size:,} of 600,000 cells are drawn" in picture.caption
    assert len(picture.svg()) < 2_000_000
