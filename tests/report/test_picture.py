"""The pictures of the report: that marks stand where the numbers say."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from samples import blobs, quiet_solve

from probi import Nodes, assign
from probi.geo import lonlat_of, on_sphere
from probi.report._picture import (
    EXCESS,
    PALETTE,
    RADIUS,
    SPREAD,
    color,
    css_color,
    limits,
    marker,
    place_discs,
    polyline,
    round_ticks,
)
from probi.report._scene import make_scene
from probi.report.plots import MAX_NUMBERED, clusters_picture, elbow_picture, profiles_picture, split_picture

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


def dots_of(picture):
    """Where the dots of the centers are, in order."""
    dots = [e for e in elements(picture, "path") if "fill: #ffffff; stroke: #1f2732" in e.get("style")]
    return np.array([middles(dot.get("d"))[0] for dot in dots])


def middles(path):
    """Middles of circles: half a diameter to the right of where each begins."""
    found = re.findall(rf"M({NUMBER}) ({NUMBER})a{NUMBER} {NUMBER} 0 1 0 ({NUMBER}) 0a", path)
    return np.array([[float(x) + float(width) / 2, float(y)] for x, y, width in found])


def numbers_in(picture):
    return [e.text for e in elements(picture, "text") if "bold" in e.get("style")]


@pytest.mark.parametrize("height", [3, 9])
def test_centers_stand_where_they_are_and_a_distance_is_the_same_in_all_directions(height):
    result, _, scene = solved()
    picture = clusters_picture(scene)._replace(height=height).svg()
    assert numbers_in(picture) == ["0", "1", "2"]
    x, y = (scale_of(result.centers[:, j], dots_of(picture)[:, j]) for j in (0, 1))
    assert x > 0 > y
    assert x == pytest.approx(-y, rel=1e-3)


def test_a_degree_of_longitude_is_as_long_as_it_is_at_that_latitude():
    rng = np.random.default_rng(0)
    lon, lat = 10 + rng.normal(size=(2, 60)) * [[2.0], [1.0]] + [[0], [50]]
    nodes = Nodes.from_points(on_sphere(lon, lat))
    result = quiet_solve(nodes, 3, random_state=0)
    scene = make_scene(result, nodes, ["lon", "lat"], lonlat_of)
    places, centers = dots_of(clusters_picture(scene).svg()), lonlat_of(result.centers)
    x, y = (scale_of(centers[:, j], places[:, j]) for j in (0, 1))
    assert x / -y == pytest.approx(np.cos(np.radians(60)), rel=0.03)


def test_discs_stand_beside_their_clusters_and_apart():
    rng = np.random.default_rng(0)
    centers = np.array([[60.0, 60], [70, 60], [200, 20], [195, 280], [5, 150]])
    marks = np.repeat(centers, 30, axis=0) + rng.uniform(-7, 7, (150, 2))
    discs = place_discs(centers, np.arange(5), marks, np.array([[0.0, 0], [300, 300]]))
    assert np.linalg.norm(discs[:, None] - marks, axis=2).min() > RADIUS
    apart = np.linalg.norm(discs[:, None] - discs, axis=2)[np.triu_indices(5, 1)]
    assert apart.min() > 2 * RADIUS
    assert (discs > RADIUS).all()
    assert (discs < 300 - RADIUS).all()


def seen_by(paint, weakness):
    """A colour as people with all or without one kind of cones see it, in OKLab (B. Ottosson, 2020)."""
    rgb = np.array([int(paint[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.clip(weakness @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4), 0, 1)
    cones = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.63]]
    lab = [[0.2105, 0.7936, -0.0041], [1.978, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(lab) @ np.cbrt(np.array(cones) @ linear)


# Machado, Oliveira and Fernandes (2009): nobody misses red cones or green ones more than these.
WEAKNESSES = {
    "none": np.eye(3),
    "red": np.array([[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.052]]),
    "green": np.array([[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]]),
}


@pytest.mark.parametrize("weakness", WEAKNESSES)
def test_twenty_clusters_look_different_also_to_the_colour_blind(weakness):
    labs = [seen_by(paint, WEAKNESSES[weakness]) for paint in PALETTE]
    assert len(labs) == 20
    distances = {(i, j): math.dist(labs[i], labs[j]) for i in range(20) for j in range(i)}
    assert min(distances.values()) > 0.05
    same_marks = [d for (i, j), d in distances.items() if marker(i, 20) == marker(j, 20)]
    assert min(same_marks) > 0.07


def test_of_more_clusters_none_has_a_colour_and_the_largest_have_numbers():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(90, 3)))
    result = quiet_solve(nodes, 21, n_init=1, random_state=0)
    described = clusters_picture(make_scene(result, nodes, None, None))
    picture = described.svg()
    assert not [paint for paint in PALETTE if paint in picture]
    assert "dasharray" not in picture
    assert len(numbers_in(picture)) == MAX_NUMBERED
    assert set(numbers_in(picture)) <= set(map(str, np.argsort(-result.clusters.mass, kind="stable")[:MAX_NUMBERED]))
    assert "the 10 largest are numbered" in described.caption


def test_every_realization_and_median_is_drawn_in_the_colour_of_its_cluster():
    result, nodes, scene = solved()
    picture = clusters_picture(scene).svg()
    looks = {e.get("id"): e[0].get("style") for e in elements(picture, "marker")}
    counts = np.bincount(assign(nodes, result.centers))
    for c in range(3):
        drawn = {"realizations": 0, "medians": 0}
        for line in elements(picture, "polyline"):
            name = re.search(r"url\(#(.*)\)", line.get("style"))[1]
            if f"fill: {color(c, 3)}" in looks[name]:
                drawn[name.split("-")[0]] += len(pairs(line.get("points")))
        assert drawn == {"realizations": counts[c] * (nodes.n_realizations // len(nodes)), "medians": counts[c]}


def test_an_ellipse_is_one_standard_deviation_of_its_cluster():
    result, _, scene = solved()
    picture = clusters_picture(scene).svg()
    per_unit = scale_of(result.centers[:, 0], dots_of(picture)[:, 0])
    ellipses = [pairs(e.get("d"))[:-1] for e in elements(picture, "path") if "dasharray" in e.get("style")]
    assert len(ellipses) == 3
    for c, places in enumerate(ellipses):
        points = scene.nodes.points[scene.owners == c]
        # Points all around an ellipse have half the variance of its half axes.
        found = 2 * np.cov(places.T, bias=True) / per_unit**2
        assert_allclose(found * [[1, -1], [-1, 1]], np.cov(points.T, bias=True), rtol=0.02)


def test_ellipses_that_would_hide_their_centers_are_not_drawn():
    nodes = Nodes.from_points([[0.0, 0.0], [0.1, 0.0], [99.0, 99.0], [99.0, 99.1]])
    described = clusters_picture(make_scene(quiet_solve(nodes, 2, random_state=0), nodes, None, None))
    picture = described.svg()
    assert "dasharray" not in picture
    assert "Dashed" not in described.caption


def test_bars_are_as_long_as_the_cost():
    result, _, _ = solved()
    picture = split_picture(result).svg()
    order = np.argsort(-result.clusters.cost, kind="stable")
    widths = {}
    for paint in (SPREAD, EXCESS):
        (bars,) = [e for e in elements(picture, "path") if f"fill: {css_color(paint)}" in e.get("style")][:1]
        found = re.findall(rf"M({NUMBER}) {NUMBER}H({NUMBER})", bars.get("d"))
        widths[paint] = np.array([float(end) - float(start) for start, end in found])
    together = np.concatenate([widths[SPREAD], widths[EXCESS]])
    spreads = result.clusters.spread[order]
    values = np.concatenate([spreads, result.clusters.cost[order] - spreads])
    assert_allclose(together / together.sum(), values / values.sum(), atol=1e-3)


@pytest.mark.slow
def test_the_elbow_goes_through_the_costs():
    nodes = solved()[1]
    results = [quiet_solve(nodes, k, random_state=0) for k in (5, 1, 3)]
    lines = [e for e in elements(elbow_picture(results, 2).svg(), "path") if "--excess" in e.get("style")]
    (line,) = [e for e in lines if re.fullmatch(r"M[^MHVCZ]*", e.get("d"))]
    found = pairs(line.get("d"))
    assert scale_of(np.array([1, 3, 5]), found[:, 0]) > 0
    assert scale_of(np.array([results[i].cost for i in (1, 2, 0)]), found[:, 1]) < 0


def test_costs_have_their_unit_and_no_words_lie_across_the_curve():
    nodes = solved()[1]
    results = [quiet_solve(nodes, k, random_state=0) for k in (1, 3)]
    described = elbow_picture(results, 1, "km")
    picture = described.svg()
    named = {e.text for e in elements(picture, "text") if not re.fullmatch(r"[\d,.]+", e.text)}
    assert named == {"Number of clusters", "Expected cost, km"}
    assert re.search(r"the nodes' own spread, [\d,.]+ km; no clustering costs less", described.caption)
    assert "good" not in described.caption
    assert "Expected cost, km" in [e.text for e in elements(split_picture(results[1], "km").svg(), "text")]


def test_a_profile_is_the_center_in_standard_deviations():
    result, _, scene = solved(d=5)
    picture = profiles_picture(scene).svg()
    heights, found = scene.standardized(result.centers), []
    for c in range(3):
        (dots,) = [e for e in elements(picture, "path") if e.get("style") == f"fill: {color(c, 3)}"]
        found.append(scale_of(heights[c], middles(dots.get("d"))[:, 1]))
        # No line leads from one feature to the next.
        (bars,) = [e for e in elements(picture, "path") if f"stroke: {color(c, 3)}" in e.get("style")]
        assert len(re.fullmatch(rf"(M({NUMBER}) {NUMBER}L\2 {NUMBER})*", bars.get("d"))[0].split("M")) == 1 + 5
    assert_allclose(found, found[0], rtol=1e-2)  # one scale for all panels
    assert found[0] < 0


def test_what_is_missing_interrupts_a_line():
    assert polyline(np.array([0, 1, 2, 3.0]), np.array([0, np.nan, 2, 3])) == "M0 0M2 2L3 3"


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3.7, 5.2), (1e9, 1e9 + 3), (-1e-9, 2e-9), (1e120, 3e120), (0.1, 0.7), (-5, -4.9)]
)
@pytest.mark.parametrize("at_most", [3, 6, 9])
def test_ticks_are_round_few_and_different(low, high, at_most):
    ticks = round_ticks(low, high, at_most)
    values, words = zip(*ticks, strict=True)
    slack = 1e-6 * (high - low)
    assert low - slack <= min(values)
    assert max(values) <= high + slack
    assert 1 <= len(ticks) <= at_most + 1
    assert len(set(words)) == len(words)


def test_an_axis_of_one_value_has_room_around_it():
    for value in (0.0, 5.0, -1e9):
        low, high = limits(np.array([value, value, np.nan]))
        assert low < value < high
