"""The data that a report brings for its scripts: what it says of nodes and clusters, how large and how safe it is."""

import base64
import json
import re
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from samples import blobs, numbered

from probi import Nodes, assign, memberships, solve
from probi.report import ReportContext, _explore
from probi.report._explore import STEPS, Profiles, embedded, spread_out
from probi.report._scene import make_scene
from probi.report.page import render_report
from probi.report.plots import choose_plane
from probi.solver.result import Clusters


def data_of(results, nodes, chosen=0, context=None, **options):
    page = render_report(results, nodes, context, chosen=chosen, **options)
    return embedded_in(page)


def embedded_in(page):
    return json.loads(re.search(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def unpacked(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


@pytest.fixture(scope="module")
def nodes():
    return numbered(n=120, k=5, d=3, scale=8.0, spread=3.0)


@pytest.fixture(scope="module")
def results(nodes):
    return [solve(nodes, k, n_init=1, random_state=0) for k in (3, 5)]


@pytest.fixture(scope="module")
def data(results, nodes):
    return data_of(results, nodes, chosen=1)


def test_labels_and_memberships_are_those_of_every_solution(data, nodes, results):
    for solution, result in zip(data["solutions"], results, strict=True):
        labels, second = unpacked(solution["labels"], "u1"), unpacked(solution["second"], "u1")
        assert_array_equal(labels, assign(nodes, result.centers))
        rows, every = memberships(nodes, result.centers), np.arange(len(nodes))
        own = unpacked(solution["probabilities"], "u1")
        assert np.abs(own - 100 * rows[every, labels]).max() <= 1
        assert_array_equal(own == 100, rows[every, labels] == 1.0)  # what is not certain is not called so
        others = unpacked(solution["secondProbabilities"], "u1")
        rows[every, labels] = 0.0
        assert np.abs(others - 100 * rows.max(axis=1)).max() <= 1
        assert_array_equal(others > 0, rows.max(axis=1) > 0)
        assert_array_equal(rows[every, second], rows.max(axis=1))


def test_outliers_have_no_cluster_and_do_not_stretch_the_plot(nodes):
    away = np.where(np.arange(nodes.n_realizations) < nodes.offsets[3], 1e6, 0.0)[:, None]
    far = nodes.with_points(nodes.points + away)
    clean = nodes[3:]
    results = [replace(solve(clean, k, n_init=1, random_state=0), outlier_distance=1e5) for k in (3, 5)]
    data = data_of(results, far)
    for solution, result in zip(data["solutions"], results, strict=True):
        labels, second = unpacked(solution["labels"], "u1"), unpacked(solution["second"], "u1")
        assert_array_equal(labels[:3], 255)
        assert_array_equal(labels[3:], assign(clean, result.centers))
        assert_array_equal(unpacked(solution["probabilities"], "u1")[:3], 0)
        assert_array_equal(second[:3], memberships(far[:3], result.centers).argmax(axis=1))
        alone = Profiles(make_scene(replace(results[0], outlier_distance=np.inf), clean, None, None), 8)
        owners = np.repeat(assign(clean, result.centers), np.diff(clean.offsets))
        assert solution["middle"] == alone.quartiles(owners, len(result.centers))
    assert max(np.ptp(data["plane"][axis]["limits"]) for axis in "xy") < 3 * np.ptp(clean.points)
    assert "outliers" in data["caption"]
    page = render_report(results, far, None)
    assert "of the mass was left out as outliers" in page
    assert "outlier" not in render_report(solve(clean, 3, n_init=1, random_state=0), clean, None).split("<script")[0]


def test_positions_are_those_of_the_plot(data, nodes, results):
    plane = choose_plane(make_scene(results[1], nodes, None, None))
    limits = np.array([data["plane"][axis]["limits"] for axis in "xy"])

    def values(steps):
        return limits[:, 0] + np.reshape(steps, (-1, 2)) / STEPS * np.ptp(limits, axis=1)

    close = {"atol": np.ptp(limits, axis=1).max() / STEPS, "rtol": 0}
    middle = np.zeros(1)
    for solution, result in zip(data["solutions"], results, strict=True):
        assert_allclose(values(solution["centers"]), plane.project(result.centers, middle, middle), **close)
    assert data["nodes"]["names"] == [str(i) for i in range(120)]
    drawn = unpacked(data["nodes"]["drawn"], "<u2")
    assert_array_equal(drawn, np.diff(nodes.offsets))
    points = unpacked(data["nodes"]["points"], "<u2")
    assert_allclose(values(points), plane.project(nodes.points, middle, middle), **close)
    largest = np.repeat(np.maximum.reduceat(nodes.probabilities, nodes.offsets[:-1]), drawn)
    assert_allclose(unpacked(data["nodes"]["shares"], "u1") / 255, nodes.probabilities / largest, atol=1 / 255)


def test_profiles_are_the_quartiles_of_realizations(nodes, results):
    """They are sorted once for all solutions, by another way than that of the static plots."""
    scene = make_scene(results[1], nodes, None, None)
    found = np.array(Profiles(scene, 5).quartiles(scene.owners, 5), float)
    for c in range(5):
        assert_allclose(found[c], scene.standardized(scene.quartiles(c)).ravel(), atol=0.0051)


def test_a_cluster_without_nodes_and_a_center_that_is_nowhere_are_missing():
    nodes = numbered(n=30, d=2)
    result = solve(nodes, 3, n_init=1, random_state=0)
    far = replace(result, centers=np.vstack([result.centers[0], [1e6, 1e6], result.centers[2]]))

    def original(points):
        values = np.array(points)
        values[values[:, 0] > 1e5] = np.nan
        return values

    data = data_of(far, nodes, original=original)
    solution = data["solutions"][0]
    assert solution["centers"][1] == [None, None]
    assert solution["ellipses"][1] == [None] * 6
    assert solution["middle"][1] == [None] * 4
    assert solution["representatives"] is None  # a result made by hand has none


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 20))
def test_some_realizations_of_each_node(sizes, at_most):
    sizes = np.array(sizes)
    rows, of_node = spread_out(sizes, at_most)
    assert_array_equal(np.bincount(of_node), np.minimum(sizes, at_most))
    assert_array_equal(np.searchsorted(np.cumsum(sizes), rows, side="right"), of_node)
    assert len(set(rows.tolist())) == len(rows)
    if sizes.max() <= at_most:
        assert_array_equal(rows, np.arange(sizes.sum()))


@pytest.mark.parametrize("evil", ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "\u2028\u2029", "&lt;"])
def test_no_text_can_end_the_data(evil):
    text = embedded({"names": [evil], evil: 1})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"names": [evil], evil: 1}


def test_ids_of_several_columns_and_hostile_ones_are_text(results, nodes):
    pairs = np.array([(i, "</script>") for i in range(120)], [("trip", "i8"), ("bus", "U9")])
    named = Nodes(nodes.points, nodes.probabilities, nodes.offsets, ids=pairs)
    assert data_of(results, named)["nodes"]["names"][3] == "3, </script>"


def many(n, ks, d=4):
    """Many nodes, and solutions that were not computed, because only their size counts."""
    X = blobs(n=n, k=7, d=d, m=10)[0]
    nodes = Nodes.from_dense(X, ids=[f"a long id of the node {i}" for i in range(n)])
    rng = np.random.default_rng(0)
    clusters = [Clusters(*rng.uniform(1, 1e6, (3, k)), rng.integers(1, 9, k)) for k in ks]
    one = solve(nodes[:9], 2, n_init=1, random_state=0)
    results = [
        replace(one, centers=X[:k, 0], clusters=sums, labels=None, cost=1e9)
        for k, sums in zip(ks, clusters, strict=True)
    ]
    return nodes, results


@pytest.mark.slow
def test_5000_nodes_and_29_solutions_fit_into_2_megabytes():
    nodes, results = many(5000, range(2, 31))
    page = render_report(results, nodes, None, chosen=28)
    assert len(page.encode()) < 2_000_000
    assert embedded_in(page)["nodes"]["count"] == 5000


def test_of_more_nodes_the_same_sample_is_drawn_and_the_page_says_so(monkeypatch, nodes, results):
    monkeypatch.setattr(_explore, "MAX_NODES", 50)
    first, again = (data_of(results, nodes) for _ in range(2))
    assert first == again
    assert first["nodes"]["count"] == 50
    assert "50 of 120, chosen at random" in first["caption"]
    index = unpacked(first["nodes"]["index"], "<u4")
    assert first["nodes"]["names"] == [str(i) for i in index]
    assert_array_equal(unpacked(first["solutions"][0]["labels"], "u1"), assign(nodes, results[0].centers)[index])


def test_many_clusters_have_wide_labels_and_short_profiles():
    nodes, results = many(400, [300], d=14)
    solution = data_of(results, nodes)["solutions"][0]
    assert_array_equal(unpacked(solution["labels"], "<u2"), assign(nodes, results[0].centers))
    assert len(solution["profile"][0]) == 12
    _, more = many(3000, [2400], d=14)
    scene = make_scene(more[0], nodes, None, None)
    assert len(Profiles(scene, 2400).features) == 10


def test_counts_of_all_solutions_are_in_their_tables(nodes, results):
    counts = [np.array([50, 40, 30]), np.array([60, 30, 10, 10, 10])]
    data = data_of(results, nodes, chosen=1, context=ReportContext("t", {}, {}, "", counts=counts))
    assert [solution["columns"][0]["values"] for solution in data["solutions"]] == [[50, 40, 30], [60, 30, 10, 10, 10]]


def test_scripts_keep_the_form_that_no_formatter_checks():
    # Browser tests run every script; a formatter would need Node.js. These are the rules that readers rely on.
    for script in resources.files("probi.report").iterdir():
        if script.name.endswith(".js"):
            for number, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1):
                place = f"{script.name}:{number}"
                assert len(line) <= 120, place
                assert line == line.rstrip().replace("\t", ""), place
                assert (len(line) - len(line.lstrip())) % 2 == 0 or line.lstrip().startswith("*"), place
                assert not re.search(r"innerHTML|insertAdjacentHTML|\beval\b|\bvar ", line), place
