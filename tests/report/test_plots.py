"""What pictures hold: positions, lengths and words of what was drawn, against plain definitions."""

import functools
import io
import itertools
import pickle
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from samples import blobs, quiet_solve

from probi import InputError, Nodes, PLloyd, Summary, expected_distances, one_medians, solve
from probi.report import ReportContext, plot_clusters, plot_cost_split, plot_elbow, plot_profiles
from probi.report._picture import color
from probi.report._scene import number
from probi.report.page import render_report
from probi.report.plots import MAX_REALIZATIONS

pytestmark = pytest.mark.slow


@functools.cache
def uncertain(d=2, n=40, k=3, seed=0):
    """Nodes with different weights and probabilities, and a solution."""
    rng = np.random.default_rng(seed)
    X, _ = blobs(n=n, k=k, d=d, m=5, seed=seed, scale=9.0)
    nodes = Nodes.from_dense(X, rng.dirichlet(np.ones(5), n) * rng.uniform(0.5, 1.0, (n, 1)), rng.exponential(size=n))
    return nodes, quiet_solve(nodes, k, random_state=0)


def masses_of(nodes):
    return np.repeat(nodes.weights, np.diff(nodes.offsets)) * nodes.probabilities


def owners_of(nodes, result):
    return np.repeat(result.labels, np.diff(nodes.offsets))


def discs(axes):
    """Numbers and positions of the centers drawn."""
    marks = [text for text in axes.texts if text.get_gid() == "numbers"]
    return [mark.get_text() for mark in marks], np.array([mark.xy for mark in marks])


def ellipses(axes):
    """Points on the ellipse of each cluster, evenly around it."""
    return {int(name.split()[1]): points[:-1] for name, points in lines(axes).items() if name.startswith("ellipse")}


def lines(axes):
    """Points of lines by their names, (n, 2)."""
    return {line.get_gid(): np.asarray(line.get_xydata(), float) for line in axes.lines}


def segments(points):
    """Lower and upper ends of the strokes of a line."""
    assert np.isnan(points[2::3, 1]).all()  # nothing leads from one to the next
    return points[0::3], points[1::3]


def scattered(axes, gid):
    """Positions of marks of a kind, sorted, and the marks."""
    found = [c for c in axes.collections if c.get_gid() == gid]
    places = np.concatenate([np.asarray(c.get_offsets()) for c in found])
    return places[np.lexsort(places.T)], found


def title_of(figure):
    return figure.axes[0].get_title(loc="left")


def saved(figure):
    """A figure as SVG, its texts as they are: to draw them as paths takes a third of the time."""
    file = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


# -- clusters ---------------------------------------------------------------------------------------------------------


def test_two_features_are_drawn_as_they_are():
    nodes, result = uncertain()
    (axes,) = plot_clusters(result, nodes, features=["lon", "lat"]).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("lon", "lat")
    numbers, places = discs(axes)
    assert numbers == ["0", "1", "2"]
    assert_allclose(places, result.centers)
    points = nodes.points[np.lexsort(nodes.points.T)]
    assert_allclose(scattered(axes, "realizations")[0], points)
    (medians,) = scattered(axes, "medians")[1]
    drawn = np.diag(expected_distances(nodes, medians.get_offsets())) / nodes.total_probabilities
    assert np.all(drawn <= 1.01 * one_medians(nodes)[1])


def test_marks_have_the_colour_of_their_cluster():
    nodes, result = uncertain()
    (axes,) = plot_clusters(result, nodes).axes
    (marks,) = [c for c in axes.collections if c.get_gid() == "realizations"]
    expected = [color(c, 3) for c in owners_of(nodes, result)]
    assert [to_hex(c) for c in marks.get_facecolors()] == expected


def test_an_ellipse_is_one_standard_deviation_around_the_mean():
    nodes, result = uncertain()
    (axes,) = plot_clusters(result, nodes).axes
    owners, masses = owners_of(nodes, result), masses_of(nodes)
    found = ellipses(axes)
    assert sorted(found) == [0, 1, 2]
    for c, ellipse in found.items():
        points, weights = nodes.points[owners == c], masses[owners == c]
        assert_allclose(ellipse.mean(axis=0), np.average(points, axis=0, weights=weights))
        # Half the variance of the half axes; the same at every point of it.
        covariance = np.cov(points.T, aweights=weights, ddof=0)
        assert_allclose(2 * np.cov(ellipse.T, ddof=0), covariance)
        centered = ellipse - ellipse.mean(axis=0)
        assert_allclose(np.einsum("ij,jk,ik->i", centered, np.linalg.inv(covariance), centered), 1.0)


def test_original_units():
    nodes, result = uncertain()
    figure = plot_clusters(result, nodes, features=["a", "b"], original=lambda x: 10 * x + [100, 0])
    assert_allclose(discs(figure.axes[0])[1], 10 * result.centers + [100, 0])
    points = 10 * nodes.points + [100, 0]
    assert_allclose(scattered(figure.axes[0], "realizations")[0], points[np.lexsort(points.T)])


def test_a_sphere_is_drawn_as_a_map():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4, 3))
    nodes = Nodes.from_dense(X / np.linalg.norm(X, axis=2, keepdims=True))
    result = solve(nodes, 2, random_state=0)

    def lon_lat(x):
        return np.degrees(
            np.column_stack([np.arctan2(x[:, 1], x[:, 0]), np.arctan2(x[:, 2], np.hypot(x[:, 0], x[:, 1]))])
        )

    (axes,) = plot_clusters(result, nodes, features=["lon", "lat"], original=lon_lat).axes
    assert axes.get_xlabel() == "lon"
    assert_allclose(discs(axes)[1], lon_lat(result.centers))
    latitudes = np.radians(lon_lat(result.centers)[:, 1])
    assert axes.get_aspect() == pytest.approx(np.median(1 / np.cos(latitudes)), rel=1e-3)


def test_more_features_are_drawn_in_their_principal_plane():
    nodes, result = uncertain(d=5)
    figure = plot_clusters(result, nodes)
    (axes,) = figure.axes
    gravity = nodes.gravity_centers
    variances, directions = np.linalg.eigh(np.cov(gravity.T, aweights=nodes.mass, ddof=0))
    shares = variances[::-1] / variances.sum()
    assert f"{shares[0]:.0%}".replace("%", "\u202f%") in axes.get_xlabel()
    assert f"{shares[1]:.0%}".replace("%", "\u202f%") in axes.get_ylabel()
    assert f"shows {shares[:2].sum():.0%}".replace("%", "\u202f%") in title_of(figure).replace("\n", " ")
    middle = np.average(gravity, axis=0, weights=nodes.mass)
    assert_allclose(np.abs(discs(axes)[1]), np.abs((result.centers - middle) @ directions[:, :-3:-1]))
    strongest = np.abs(directions[:, -1]).argmax()
    assert f"mostly x{strongest}" in axes.get_xlabel()


def test_one_feature_has_a_row_for_each_cluster():
    nodes, result = uncertain(d=1)
    (axes,) = plot_clusters(result, nodes, features=["depth"]).axes
    assert axes.get_xlabel() == "depth"
    _, places = discs(axes)
    assert_allclose(places[:, 0], result.centers[:, 0])
    assert_array_equal(np.argsort(places[:, 1]), np.argsort(result.centers[:, 0]))
    owners, masses = owners_of(nodes, result), masses_of(nodes)
    for c, ellipse in ellipses(axes).items():
        variance = np.cov(nodes.points[owners == c, 0], aweights=masses[owners == c], ddof=0)
        assert_allclose(np.ptp(ellipse[:, 0]), 2 * np.sqrt(variance))
    rows = scattered(axes, "realizations")[1][0].get_offsets()[:, 1]
    assert np.all(np.abs(rows - places[owners, 1]) < 0.5)


def test_labels_of_the_result_do_not_matter():
    nodes, result = uncertain()
    part = nodes[:17]
    for labels in (None, result.labels, np.zeros(17, np.int32)):
        (axes,) = plot_clusters(replace(result, labels=labels), part).axes
        (marks,) = [c for c in axes.collections if c.get_gid() == "realizations"]
        expected = [color(c, 3) for c in np.repeat(result.labels[:17], np.diff(part.offsets))]
        assert [to_hex(c) for c in marks.get_facecolors()] == expected


def test_of_many_realizations_some_are_drawn_and_the_caption_says_so():
    X, _ = blobs(n=1200, m=4, d=2)
    nodes = Nodes.from_dense(X)
    result = solve(nodes, 2, random_state=0)
    figure, again = (plot_clusters(result, nodes) for _ in range(2))
    drawn, marks = scattered(figure.axes[0], "realizations")
    assert len(drawn) == MAX_REALIZATIONS < nodes.n_realizations
    assert all(mark.get_rasterized() for mark in marks)
    assert_array_equal(drawn, scattered(again.axes[0], "realizations")[0])
    assert "4,000 of 4,800" in title_of(figure).replace("\n", " ")


def test_of_very_many_clusters_none_has_a_colour():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(90, 2)))
    (axes,) = plot_clusters(quiet_solve(nodes, 21, n_init=1, random_state=0), nodes).axes
    assert len({to_hex(c) for mark in scattered(axes, "medians")[1] for c in mark.get_facecolors()}) == 1
    assert not ellipses(axes)
    assert len(discs(axes)[0]) == 10


def test_a_certain_node_is_drawn_once():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(20, 2)))
    figure = plot_clusters(solve(nodes, 2, random_state=0), nodes)
    assert {c.get_gid() for c in figure.axes[0].collections} == {"medians", "dots"}
    assert len(scattered(figure.axes[0], "medians")[0]) == 20
    assert "realizations" not in title_of(figure).split("Dashed")[0]


# -- costs ------------------------------------------------------------------------------------------------------------


def several():
    """Results of a summary that estimates, so that there are standard errors; in no order."""
    X, _ = blobs(n=6000, k=5, d=2, scale=9.0)
    summary = Summary(6, size=60, random_state=0)
    summary.update(Nodes.from_dense(X))
    return [solve(summary, k, random_state=0) for k in (4, 2, 6)]


def test_the_elbow_has_costs_and_two_standard_errors():
    results = several()
    assert all(result.standard_error > 0 for result in results)
    figure = plot_elbow(results, chosen=0)
    (axes,) = figure.axes
    in_order = [results[i] for i in (1, 0, 2)]
    curve = np.column_stack([[2, 4, 6], [result.cost for result in in_order]])
    assert_allclose(lines(axes)["cost"], curve)
    (dots,) = scattered(axes, "costs")[1]
    assert_allclose(dots.get_offsets(), curve)
    bottoms, tops = segments(lines(axes)["errors"])
    assert_allclose((bottoms + tops) / 2, curve)
    assert_allclose((tops - bottoms)[:, 1], [4 * result.standard_error for result in in_order])
    (ring,) = [c for c in axes.collections if c.get_gid() == "chosen"]
    assert_allclose(ring.get_offsets(), [[4, results[0].cost]])


def test_the_elbow_stands_on_the_spread():
    results = several()
    (axes,) = plot_elbow(results).axes
    (floor,) = [c for c in axes.collections if c.get_gid() == "floor"]
    assert_allclose(floor.get_paths()[0].vertices[:, 1].max(), results[0].spread_cost)
    assert axes.get_ylim()[0] < results[0].spread_cost
    assert not [c for c in axes.collections if c.get_gid() == "chosen"]


def test_certain_nodes_have_no_floor():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(20, 2)))
    (axes,) = plot_elbow([solve(nodes, k, random_state=0) for k in (1, 2)]).axes
    assert axes.get_ylim()[0] == 0
    assert not [c for c in axes.collections if c.get_gid() == "floor"]


def test_bars_are_spread_and_excess():
    result = uncertain(k=4)[1]
    (axes,) = plot_cost_split(result).axes
    spreads, excesses = axes.containers
    order = np.argsort(-result.clusters.cost)
    assert_allclose([bar.get_width() for bar in spreads], result.clusters.spread[order])
    assert_allclose([bar.get_width() for bar in excesses], (result.clusters.cost - result.clusters.spread)[order])
    assert_allclose([bar.get_x() for bar in excesses], result.clusters.spread[order])
    assert [text.get_text() for text in axes.get_yticklabels()] == [str(c) for c in order]


def test_the_cheapest_of_many_clusters_have_no_bar():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(300, 2)))
    result = solve(nodes, 45, n_init=1, random_state=0)
    figure = plot_cost_split(result)
    spreads, excesses = figure.axes[0].containers
    assert len(spreads) == 20
    assert_allclose([bar.get_width() for bar in excesses], np.sort(result.clusters.cost)[:-21:-1])
    rest = number(np.sort(result.clusters.cost)[:-20].sum())
    assert f"The 25 cheapest of 45 clusters, which cost {rest} together, are left out." in title_of(figure).replace(
        "\n", " "
    )


# -- profiles ---------------------------------------------------------------------------------------------------------


def weighted_quantile(values, weights, share):
    """The plain definition: go up until enough weight lies below."""
    total, below = sum(weights), 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        below += weight
        if below >= share * total * (1 - 1e-9):
            return value
    raise AssertionError("there is no weight")


def test_profiles_are_centers_in_standard_deviations_with_the_middle_half():
    nodes, result = uncertain(d=4)
    figure = plot_profiles(result, nodes)
    owners, masses = owners_of(nodes, result), masses_of(nodes)
    middle = np.array([weighted_quantile(column, masses, 0.5) for column in nodes.points.T])
    mean = np.average(nodes.points, axis=0, weights=masses)
    scale = np.sqrt(np.average((nodes.points - mean) ** 2, axis=0, weights=masses))
    assert len(figure.axes) == 3
    for c, axes in enumerate(figure.axes):
        (dots,) = [dots for dots in axes.collections if dots.get_gid() == f"center {c}"]
        assert_allclose(dots.get_offsets(), np.column_stack([range(4), (result.centers[c] - middle) / scale]))
        bottoms, tops = segments(lines(axes)[f"band {c}"])
        inside = owners == c
        for j, column in enumerate(nodes.points[inside].T):
            heights = [(weighted_quantile(column, masses[inside], q) - middle[j]) / scale[j] for q in (0.25, 0.75)]
            assert_allclose([bottoms[j], tops[j]], [[j, heights[0]], [j, heights[1]]])


def test_of_many_features_those_stay_in_which_centers_differ():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3, 70))
    X[:40, :, 5:65] += 6.0
    nodes = Nodes.from_dense(X)
    figure = plot_profiles(solve(nodes, 2, random_state=0), nodes)
    shown = [text.get_text() for text in figure.axes[-1].get_xticklabels()]
    assert shown == [f"x{j}" for j in range(5, 65)]
    assert "Left out, because the centers differ least in them: x0, x1, x2, x3, x4, x65, x66, x67 and 2 more." in (
        figure.get_suptitle().replace("\n", " ")
    )


@pytest.mark.parametrize("d", [1, 2, 7, 15, 60])
def test_profiles_name_all_features_below_the_last_panels(d):
    nodes, result = uncertain(d=d)
    figure = plot_profiles(result, nodes, features=[f"f{j}" for j in range(d)])
    figure.draw_without_rendering()
    shown = [text.get_text() for text in figure.axes[-1].get_xticklabels()]
    assert shown == [f"f{j}" for j in range(d)]
    boxes = [text.get_window_extent() for text in figure.axes[-1].get_xticklabels()]
    assert all(a.x1 <= b.x0 + 1 for a, b in itertools.pairwise(boxes))


# -- all of them ------------------------------------------------------------------------------------------------------


def pictures_of(result, nodes, **options):
    """All but the elbow, which has no nodes."""
    return [
        plot_clusters(result, nodes, **options),
        plot_cost_split(result),
        plot_profiles(result, nodes, **options),
    ]


def solved(nodes, k):
    return quiet_solve(nodes, k, random_state=0), nodes


def missing_numbers(results, nodes, **options):
    """Where the pictures of a report have a length that is no number."""
    page = render_report(results, nodes, ReportContext("", {}, {}, ""), **options)
    return re.findall(r"[ \"MLHVC-](?:nan|inf)\b", "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL)))


CASES = {
    "one cluster": lambda: solved(uncertain()[0], 1),
    "three nodes": lambda: solved(uncertain(n=3)[0], 3),
    "one node": lambda: solved(uncertain()[0][:1], 1),
    "all equal": lambda: solved(Nodes.from_points(np.ones((9, 4))), 1),
    "empty cluster": lambda: solved(Nodes.from_points(np.repeat(np.eye(4), 3, axis=0)), 7),
    "one feature": lambda: solved(uncertain(d=1)[0], 4),
    "sixty features": lambda: solved(uncertain(d=60)[0], 3),
    "many clusters": lambda: solved(uncertain(n=60, k=5)[0], 35),
    "no weight": lambda: (quiet_solve(uncertain()[0], 3, random_state=0), uncertain()[0].with_weights(np.zeros(40))),
    "far away": lambda: solved(Nodes.from_points(1e9 + np.random.default_rng(0).normal(size=(30, 3))), 2),
    "float32": lambda: solved(Nodes.from_points(np.random.default_rng(0).normal(size=(30, 3)).astype("f")), 2),
}


@functools.cache
def unusual(case):
    return CASES[case]()


def check_drawn(figure):
    """A figure that can be saved and has no length that is no number."""
    assert isinstance(figure, Figure)
    assert not re.search(r"\bnan\b", re.sub(r'"data:[^"]*"', "", saved(figure)))


@pytest.mark.parametrize("case", CASES)
def test_unusual_nodes_can_be_drawn(case):
    result, nodes = unusual(case)
    for figure in pictures_of(result, nodes):
        check_drawn(figure)
    assert not missing_numbers([result, result], nodes)


def test_unusual_costs_have_an_elbow():
    results = {case: unusual(case)[0] for case in CASES}
    assert results["all equal"].cost == 0
    for some in ([results["all equal"]] * 2, [results["one node"]], [*results.values()]):
        check_drawn(plot_elbow(some))


def test_numbers_that_are_missing_can_be_drawn():
    nodes, result = uncertain()
    nothing = replace(result, cost=np.nan, spread_cost=np.nan, standard_error=np.nan)
    for figure in [plot_elbow([result, nothing]), plot_elbow([nothing])]:
        saved(figure)
    for figure in pictures_of(result, nodes, original=lambda x: np.where(x > x.mean(), np.nan, x)):
        saved(figure)
    assert not missing_numbers([result, nothing], nodes)
    assert not missing_numbers([nothing], nodes, original=lambda x: np.where(x > x.mean(), np.nan, x))
    assert not missing_numbers([result], nodes, original=lambda x: np.full(x.shape, np.nan))


NAMES = [("$x_{", "$x$"), ("<script>alert(1)</script>", "a\nb\x00c"), ("\\frac", "é" * 300), ("位置", "other")]


@pytest.mark.parametrize("names", NAMES)
def test_any_name_can_be_drawn_and_is_no_formula(names):
    nodes, result = uncertain()
    with pytest.warns(UserWarning, match="Glyph") if "位置" in names else nullcontext():
        figure = plot_clusters(result, nodes, features=names)
        figure.savefig(io.BytesIO(), format="png")
    (axes,) = figure.axes
    for name, axis in zip(names, (axes.xaxis, axes.yaxis), strict=True):
        assert not axis.label.get_parse_math()
        if len(name) < 30 and name.isprintable():
            assert axis.label.get_text() == name
        assert len(axis.label.get_text()) <= 40


def test_any_name_can_stand_below_a_profile():
    nodes, result = uncertain(d=8)
    figure = plot_profiles(result, nodes, features=[*itertools.chain(*NAMES)])
    with pytest.warns(UserWarning, match="Glyph"):
        figure.savefig(io.BytesIO(), format="png")
    labels = figure.axes[-1].get_xticklabels()
    assert len(labels) == 8
    assert not any(text.get_parse_math() for text in labels)


def test_pictures_go_into_the_axes_that_are_given():
    nodes, result = uncertain()
    figure = Figure()
    first, second, third, last = figure.subplots(1, 4)
    assert plot_clusters(result, nodes, ax=first) is figure
    assert plot_elbow([result, result], ax=second) is figure
    assert plot_cost_split(result, ax=third) is figure
    assert [bool(axes.has_data()) for axes in (first, second, third, last)] == [True, True, True, False]
    figure.savefig(io.BytesIO())
    part = Figure().subfigures(1, 2)[0]
    assert plot_cost_split(result, ax=part.subplots()) is part.figure


def test_figures_can_be_pickled_and_inputs_stay_as_they_were():
    nodes, result = uncertain()
    before = pickle.dumps((nodes, result))
    for figure in [*pictures_of(result, nodes), plot_elbow([result, result])]:
        assert len(pickle.loads(pickle.dumps(figure)).axes) == len(figure.axes)
    assert pickle.dumps((nodes, result)) == before


def test_what_does_not_fit_is_an_error():
    nodes, result = uncertain()
    with pytest.raises(InputError, match="features must have 2 names, one per feature, got 3"):
        plot_clusters(result, nodes, features=["a", "b", "c"])
    with pytest.raises(InputError, match="Centers have 2 features"):
        plot_profiles(result, uncertain(d=3)[0])
    with pytest.raises(InputError, match="one row per point"):
        plot_clusters(result, nodes, original=lambda x: x[:, 0])
    with pytest.raises(InputError, match="No nodes"):
        plot_clusters(result, nodes[:0])
    with pytest.raises(InputError, match="No results"):
        plot_elbow([])
    for one in (result, PLloyd(2, n_init=1, random_state=0).fit(nodes)):
        with pytest.raises(InputError, match=r"got one result\. Pass a list: plot_elbow\(\[probi\.solve"):
            plot_elbow(one)


@pytest.mark.process
def test_pyplot_stays_out_and_without_matplotlib_a_plot_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import probi, probi.report as r\n"
        "nodes = probi.Nodes.from_points([[0.0, 0.0], [1.0, 1.0]]); s = probi.solve(nodes, 1)\n"
        "try: r.plot_clusters(s, nodes)\n"
        "except probi.MissingExtraError as error: print(error)\n"
        "del sys.modules['matplotlib']\n"
        "from probi.report.page import render_report\n"
        "render_report([s, s], nodes, r.ReportContext('', {}, {}, ''))\n"
        "r.plot_clusters(s, nodes).savefig(sys.argv[1])\n"
        "assert 'matplotlib.figure' in sys.modules\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.png")]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    assert found.stdout == "Plots need matplotlib: pip install 'matplotlib>=3.9'.\n"


@pytest.mark.parametrize("draw", [plot_clusters, plot_profiles])
def test_the_wrong_order_is_answered_with_the_right_one(draw):
    X = np.random.default_rng(0).normal(size=(30, 3, 2))
    nodes, model = Nodes.from_dense(X), PLloyd(2, random_state=0).fit(X)
    for wrong in (nodes, X):
        with pytest.raises(
            InputError, match=r"result must come before the nodes, as in plot_clusters\(result, nodes\)"
        ):
            draw(wrong, model.result_)
    with pytest.raises(InputError, match="Pass the result of the PLloyd: its attribute result_"):
        draw(model, nodes)
    assert draw(model.result_, X).axes  # an array will do


def test_two_profiles_leave_room_for_their_scale():
    X = np.random.default_rng(0).normal(size=(60, 2))
    figure = plot_profiles(solve(X, 2, random_state=0), X)
    figure.canvas.draw()
    assert not figure._supylabel.get_window_extent().overlaps(figure._suptitle.get_window_extent())
