"""The pictures of the report: that marks stand where the numbers say."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from samples import blobs, quiet_solve

from probi import Nodes, assign
from probi.report import _chart as chart
from probi.report._drawings import clusters_picture, elbow_picture, profiles_picture, split_picture
from probi.report._scene import make_scene
from probi.report._style import EXCESS, SPREAD, color

NUMBER = r"-?[\d.]+"


def solved(d=2, k=3):
    nodes = Nodes.from_dense(blobs(n=30, k=k, d=d, seed=0, scale=9.0)[0])
    result = quiet_solve(nodes, k, random_state=0)
    return result, nodes, make_scene(result, nodes, None, None)


def elements(picture, tag):
    return [e for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("}" + tag)]


def pairs(text):
    return np.array(re.findall(NUMBER, text), float).reshape(-1, 2)


def scale_of(values, places):
    """Slope of places over values, which must be a straight line, to the hundredth of a point that is written."""
    slope, start = np.polyfit(values, places, 1)
    assert_allclose(places, start + slope * values, atol=0.02)
    return slope


@pytest.mark.parametrize("height", [3, 9])
def test_centers_stand_where_they_are_and_a_distance_is_the_same_in_all_directions(height):
    result, _, scene = solved()
    discs = [e for e in elements(clusters_picture(scene, height)[0], "text") if "bold" in e.get("style")]
    assert [disc.text for disc in discs] == ["0", "1", "2"]
    x, y = (scale_of(result.centers[:, j], [float(disc.get("xy"[j])) for disc in discs]) for j in (0, 1))
    assert x > 0 > y
    assert x == pytest.approx(-y, rel=1e-3)


def test_every_realization_and_median_is_drawn_in_the_colour_of_its_cluster():
    result, nodes, scene = solved()
    picture = clusters_picture(scene, 4.6)[0]
    looks = {e.get("id"): e[0].get("style") for e in elements(picture, "marker")}
    counts = np.bincount(assign(nodes, result.centers))
    for c in range(3):
        drawn = {"realization": 0, "median": 0}
        for line in elements(picture, "polyline"):
            name = re.search(r"url\(#(.*)\)", line.get("style"))[1]
            if f"fill: {color(c)}" in looks[name]:
                drawn[name.split("-")[0]] += len(pairs(line.get("points")))
        assert drawn == {"realization": counts[c] * (nodes.n_realizations // len(nodes)), "median": counts[c]}


def test_an_ellipse_is_one_standard_deviation_of_its_cluster():
    result, _, scene = solved()
    picture = clusters_picture(scene, 4.6)[0]
    discs = [e for e in elements(picture, "text") if "bold" in e.get("style")]
    per_unit = scale_of(result.centers[:, 0], [float(disc.get("x")) for disc in discs])
    ellipses = [pairs(e.get("d"))[::3][:4] for e in elements(picture, "path") if "dasharray" in e.get("style")]
    for c, ends in enumerate(ellipses):
        points = scene.nodes.points[scene.owners == c]
        deviations = np.sqrt(np.linalg.eigvalsh(np.cov(points.T, bias=True)))[::-1]
        found = [math.dist(ends[i], ends[i + 2]) / 2 / per_unit for i in (0, 1)]
        assert_allclose(found, deviations, rtol=0.02)


def test_bars_are_as_long_as_the_cost():
    result, _, _ = solved()
    picture = split_picture(result, 2.0)[0]
    order = np.argsort(-result.clusters.cost, kind="stable")
    widths = {}
    for paint in (SPREAD, EXCESS):
        (bars,) = [e for e in elements(picture, "path") if f"fill: {chart.shown(paint)}" in e.get("style")][:1]
        found = re.findall(rf"M({NUMBER}) {NUMBER}H({NUMBER})", bars.get("d"))
        widths[paint] = np.array([float(end) - float(start) for start, end in found])
    together = np.concatenate([widths[SPREAD], widths[EXCESS]])
    spreads = result.clusters.spread[order]
    values = np.concatenate([spreads, result.clusters.cost[order] - spreads])
    assert_allclose(together / together.sum(), values / values.sum(), atol=1e-3)


def test_the_elbow_goes_through_the_costs():
    nodes = solved()[1]
    results = [quiet_solve(nodes, k, random_state=0) for k in (5, 1, 3)]
    lines = [e for e in elements(elbow_picture(results, 2, 3.4)[0], "path") if "--excess" in e.get("style")]
    (line,) = [e for e in lines if re.fullmatch(r"M[^MHVCZ]*", e.get("d"))]
    found = pairs(line.get("d"))
    assert scale_of(np.array([1, 3, 5]), found[:, 0]) > 0
    assert scale_of(np.array([results[i].cost for i in (1, 2, 0)]), found[:, 1]) < 0


def test_a_profile_is_the_center_in_standard_deviations():
    result, _, scene = solved(d=5)
    picture = profiles_picture(scene)[0]
    heights, found = scene.standardised(result.centers), []
    for c in range(3):
        (line,) = [e for e in elements(picture, "path") if f"stroke: {color(c)}; stroke-width: 1.4" in e.get("style")]
        found.append(scale_of(heights[c], pairs(line.get("d"))[:, 1]))
    assert_allclose(found, found[0], rtol=1e-2)  # one scale for all panels
    assert found[0] < 0


def test_what_is_missing_interrupts_a_line():
    assert chart.polyline(np.array([0, 1, 2, 3.0]), np.array([0, np.nan, 2, 3])) == "M0 0M2 2L3 3"


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3.7, 5.2), (1e9, 1e9 + 3), (-1e-9, 2e-9), (1e120, 3e120), (0.1, 0.7), (-5, -4.9)]
)
@pytest.mark.parametrize("at_most", [3, 6, 9])
def test_ticks_are_round_few_and_different(low, high, at_most):
    ticks = chart.round_ticks(low, high, at_most)
    values, words = zip(*ticks, strict=True)
    slack = 1e-6 * (high - low)
    assert low - slack <= min(values)
    assert max(values) <= high + slack
    assert 1 <= len(ticks) <= at_most + 1
    assert len(set(words)) == len(words)


def test_an_axis_of_one_value_has_room_around_it():
    for value in (0.0, 5.0, -1e9):
        low, high = chart.limits(np.array([value, value, np.nan]))
        assert low < value < high
