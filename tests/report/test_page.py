"""What a report says, and that nothing in it can do harm."""

import base64
import functools
import hashlib
import html
import re
import threading
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from samples import blobs, quiet_solve

from probi import InputError, Nodes, Summary, assign, solve
from probi.report import Borderline, ReportContext, write_report
from probi.report._scene import fixed, number, percent, plus_minus
from probi.report.page import render_report

pytestmark = pytest.mark.slow

STORY = ReportContext("Sensors", {"file": "a.csv", "rows": "1,200"}, {"seed": "7"}, "probi cluster a.csv -k 3 --seed 7")
EVIL = "<script>alert(1)</script>"
EVILS = [EVIL, '" onload="alert(2)', "$x_{", "&lt;b&gt;", "</svg><img src=x onerror=alert(3)>", "]]>", "{{ 7 * 7 }}"]
VOID = {"meta", "link", "br", "wbr", "img"}


@functools.cache
def make(n=60, k=3, d=3, seed=0):
    nodes = Nodes.from_dense(blobs(n=n, k=k, d=d, seed=seed, scale=9.0)[0])
    return [quiet_solve(nodes, k, random_state=0)], nodes


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails where a tag is not closed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.cells, self.words = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    @property
    def text(self):
        return re.sub(r"[ \n]+", " ", " ".join(self.words))

    def values(self, tag, name):
        return [value for where, key, value in self.attributes if (where, key) == (tag, name)]


def read(results, nodes, story=STORY, **options):
    return Page(render_report(results, nodes, story, **options))


@functools.cache
def usual(n_results=1):
    """The page of what :func:`make` makes, which several tests look at."""
    results, nodes = make()
    return render_report(results * n_results, nodes, STORY)


@functools.cache
def harmless_tags():
    """Tags of a page without anything evil."""
    return set(read(*make(d=2), features=["x", "y"]).tags)


def pictures(text):
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


# -- form -------------------------------------------------------------------------------------------------------------


def test_a_page_is_well_formed_and_needs_nothing_else():
    text = usual(2)
    page = Page(text)
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">')
    policy = dict(zip(page.values("meta", "http-equiv"), page.values("meta", "content"), strict=False))
    # One script may run, this one; none that a name could bring.
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    allowed = f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}';"
    rules = f"default-src 'none'; style-src 'unsafe-inline'; {allowed} img-src data:"
    assert rules in policy["Content-Security-Policy"]
    assert not {"iframe", "object", "embed", "form", "base", "foreignobject"} & set(page.tags)
    assert not [key for _, key, _ in page.attributes if key.startswith("on")]
    for tag, key, value in page.attributes:
        if key in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert value.startswith(("#", "data:")), (tag, key, value)
        assert "http" not in (value or "").replace("http-equiv", "") or key == "xmlns", (tag, key, value)
    assert not re.search(r"@import|url\((?!#)|http", re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1])
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_pictures_are_svg_in_the_colours_of_the_page():
    found = pictures(usual(2))
    assert len(found) == 4
    for svg in found:
        assert svg.get("role") == "img"
        assert len(svg.get("aria-label")) > 20
        assert svg.get("width") is None
        styles = " ".join(element.get("style", "") for element in svg.iter())
        assert "var(--ink)" in styles
        assert "#1f2733" not in styles
        assert not [e for e in svg.iter() if e.tag.endswith(("metadata", "style", "script"))]
        fonts = re.findall(r"font(?:-family)?:[^;]*", styles)
        assert fonts
        assert all(font.endswith(" var(--sans)") for font in fonts)


def test_ids_are_unique_and_references_lead_somewhere():
    page = Page(usual(2))
    ids = [value for _, key, value in page.attributes if key == "id"]
    assert ids
    assert len(ids) == len(set(ids))
    targets = {value[1:] for _, key, value in page.attributes if key == "href" and value.startswith("#")}
    targets |= {name for _, _, value in page.attributes for name in re.findall(r"url\(#(.*?)\)", value or "")}
    assert targets == set(ids)


def test_the_same_input_gives_the_same_bytes_whatever_the_settings():
    results, nodes = make()
    plain = usual()
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path", "lines.marker": "x"}):
        other = dict(matplotlib.rcParams)
        assert render_report(results, nodes, STORY) == plain
        assert dict(matplotlib.rcParams) == other
    assert dict(matplotlib.rcParams) == before


def test_threads_do_not_disturb_each_other():
    results, nodes = make(n=20)
    plain = render_report(results, nodes, STORY)
    found = []
    threads = [threading.Thread(target=lambda: found.append(render_report(results, nodes, STORY))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [plain] * 3


def test_a_file_is_written_as_a_whole(tmp_path):
    results, nodes = make()
    write_report(tmp_path / "report.html", results, nodes, STORY)
    assert (tmp_path / "report.html").read_bytes().decode() == usual()
    write_report(str(tmp_path / "report.html"), results, nodes, replace(STORY, title="Another"))
    assert "Another" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("evil", EVILS)
def test_every_string_of_a_user_is_shown_as_text(evil):
    results, nodes = make(d=2)
    story = ReportContext(
        evil, {evil: evil}, {evil: evil}, evil, [Borderline(evil, 0, 1.0, 1, 1.1)], 1, unit=evil
    )  # fmt: skip
    text = render_report(results, nodes, story, features=[evil, "y"])
    page = Page(text)
    assert set(page.tags) <= harmless_tags() | {"wbr"}
    assert page.tags.count("script") == 2  # its own, and its data
    assert not [key for _, key, _ in page.attributes if key.startswith("on")]
    # Title and heading, read and settings with their keys, command, node, unit, trait and column, and in two pictures.
    assert "".join(page.words).count(evil) >= 11
    labels = ["".join(e.itertext()) for svg in pictures(text) for e in svg.iter() if e.tag.endswith("text")]
    assert evil in labels
    assert f"Expected cost, {evil}" in labels


# -- what it says -----------------------------------------------------------------------------------------------------


def test_the_head_says_what_the_cost_means():
    results, nodes = make()
    (result,) = results
    text = Page(usual()).text
    assert f"expected cost of {number(result.cost, 6)} (exact)." in text
    assert f"{percent(result.spread_cost / result.cost)} of it is the nodes' own spread" in text
    assert f"at most {number(result.cost / result.lower_bound, 2)} times the optimum (certified lower bound)" in text
    near = replace(result, lower_bound=result.cost / 1.5)
    assert "at most 50\u202f% above the optimum (certified lower bound)" in read([near], nodes).text


def test_an_estimate_has_its_error_and_a_bound_that_allows_for_it():
    result = replace(
        make()[0][0], cost=1234.4, standard_error=12.3, spread_cost=1024.0, lower_bound=1000.0, labels=None
    )
    text = read([result], make()[1]).text
    assert "1,234 ± 12 (estimated, ± one standard error). 83\u202f% of it" in text
    assert "at most 26\u202f% above the optimum (certified lower bound, two standard errors)" in text  # 1259 / 1000
    assert "estimates from the coreset" in text


def test_a_far_bound_is_a_factor_and_certain_nodes_have_none():
    results, nodes = make()
    assert "at most 5 times the optimum" in read([replace(results[0], cost=50.0, lower_bound=10.0)], nodes).text
    points = Nodes.from_points(np.random.default_rng(0).normal(size=(20, 2)))
    text = read([solve(points, 2, random_state=0)], points).text
    assert "The nodes have no spread" in text
    assert "optimum" not in text


def test_what_was_read_and_how_to_make_it_again():
    text = Page(usual()).text
    assert "file a.csv rows 1,200" in text
    assert "probi cluster a.csv -k 3 --seed 7 seed 7 Versions probi" in text


def test_the_elbow_comes_with_several_results_and_the_chosen_one_is_shown():
    _, nodes = make()
    results = [solve(nodes, k, random_state=0) for k in (2, 3, 5)]
    assert "Cost by number of clusters" not in read(results[:1], nodes).text
    page = read(results, nodes, chosen=2)
    assert "Cost by number of clusters" in page.text
    assert "5 centers with an expected cost" in page.text
    assert "Details are shown for 5 clusters; solutions exist for k = 2, 3, 5." in page.text
    for wrong in (3, -1):
        with pytest.raises(InputError, match="chosen must be between 0 and 2"):
            render_report(results, nodes, STORY, chosen=wrong)


def rows_of(page, width):
    return [page.cells[i : i + width] for i in range(0, len(page.cells), width)]


def test_the_table_of_clusters():
    results, nodes = make(d=2)
    (result,) = results
    header, *rows = rows_of(read(results, nodes, replace(STORY, unit="km"), features=["a", "b"]), 7)[:4]
    # Every node counts once, so that the mass is the number of nodes.
    assert header[:6] == ["Cluster", "Nodes", "Share", "Costkm", "Spreadkm", "Mean distancekm"]
    clusters = result.clusters
    for c, row in enumerate(rows):
        assert row[:3] == [str(c), "20", percent(1 / 3)]
        numbers = [float(cell.replace(",", "")) for cell in row[3:6]]
        assert numbers == pytest.approx([clusters.cost[c], clusters.spread[c], clusters.cost[c] / 20], rel=5e-3)


def test_what_is_estimated_is_marked_and_what_was_counted_is_not():
    X = blobs(n=3000, k=3, d=2)[0]
    nodes = Nodes.from_dense(X)
    summary = Summary(3, size=60, random_state=0)
    summary.update(nodes)
    result = solve(summary, 3, random_state=0)
    sample = summary.sample()
    header, *rows = rows_of(read([result], sample), 7)[:4]
    assert header[1:6] == ["Nodesabout", "Share", "Costabout", "Spreadabout", "Mean distanceabout"]
    assert all(cell.replace(",", "").replace(".", "").strip("0").__len__() <= 3 for row in rows for cell in row[3:5])
    counts = np.bincount(assign(nodes, result.centers), minlength=3)
    page = read([result], sample, replace(STORY, counts=counts))
    assert [row[1] for row in rows_of(page, 7)[:4]] == ["Nodes", "1,000", "1,000", "1,000"]
    # Where nodes have weights, their mass is another number, and the sample shows that they have.
    heavy = sample.with_weights(np.full(len(sample), 2.0))
    page = read([result], heavy, replace(STORY, counts=counts))
    assert rows_of(page, 8)[0][1:3] == ["Nodes", "Massabout"]
    whole = Summary(3, random_state=0)
    whole.update(nodes[:30])
    assert "about" not in "".join(read([solve(whole, 3, random_state=0)], whole.sample()).cells)
    with pytest.raises(InputError, match="counts must have one entry per center, 3, got 2"):
        read([result], nodes, replace(STORY, counts=counts[:2]))


def test_traits_are_the_features_that_set_a_center_apart():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 5))
    X[:20, 3] += 30.0
    X[20:40, 1] -= 20.0
    nodes = Nodes.from_points(X * [1, 1, 1, 100, 1])
    result = solve(nodes.scaled([1, 1, 1, 0.01, 1]), 3, random_state=0)
    page = read(
        [result], nodes.scaled([1, 1, 1, 0.01, 1]), features=list("abcde"), original=lambda x: x * [1, 1, 1, 100, 1]
    )
    for row, center in zip(rows_of(page, 7)[1:4], result.centers, strict=True):
        words = row[6].split()
        if center[3] > 15:
            assert words[0] == "d"
            assert float(words[1].replace(",", "")) == pytest.approx(100 * center[3], rel=1e-2)
            assert words[2] == "▲"
        elif center[1] < -10:
            assert words[0] == "b"
            assert words[2] == "▼"


def test_centers_are_in_original_units():
    results, nodes = make(d=2)
    page = read(results, nodes, features=["a", "b"], original=lambda x: 1000 * x)
    cells = page.cells[4 * 7 :]
    assert cells[:3] == ["Cluster", "a", "b"]
    found = [[float(cell.replace("−", "-").replace(",", "")) for cell in cells[i + 1 : i + 3]] for i in (3, 6, 9)]
    np.testing.assert_allclose(found, 1000 * results[0].centers, atol=60)
    cells = read(*make(d=9)).cells[4 * 7 :]
    assert cells[:5] == ["Feature", "0", "1", "2", "x0"]


def test_centers_have_the_digits_that_their_clusters_deserve():
    """Three digits of a cluster's width: towns of 10 km get three decimals of a degree, though the land is wide."""
    rng = np.random.default_rng(0)
    towns = np.repeat([[7.0, 51.0], [13.0, 48.0]], 40, axis=0)
    nodes = Nodes.from_points(towns + rng.normal(size=(80, 2)) * [0.1, 0.07])
    page = read([quiet_solve(nodes, 2, random_state=0)], nodes, features=["lon", "lat"])
    cells = page.cells[3 * 7 :][3:9]
    assert all(re.fullmatch(r"\d+\.\d{3}", cell) for i, cell in enumerate(cells) if i % 3)


def test_very_many_clusters_have_tables_that_scroll_in_a_box():
    nodes = Nodes.from_points(np.random.default_rng(0).normal(size=(80, 3)))
    text = render_report([quiet_solve(nodes, 40, n_init=1, random_state=0)], nodes, STORY)
    assert text.count('<div class="scroll long"') == 2
    assert "The table scrolls: it has 40 rows." in Page(text).text
    assert not re.search(r'class="text traits"', text)
    wide = Nodes.from_points(np.random.default_rng(0).normal(size=(70, 200)))
    result = quiet_solve(wide, 60, n_init=1, random_state=0)
    assert "The 10 smallest clusters are left out." in read([result], wide).text


def test_borderline_nodes():
    results, nodes = make()
    close = [Borderline("station 12", 0, 10.0, 2, 10.5), Borderline("b", 1, 0.0, 2, np.nan)]
    page = read(results, nodes, replace(STORY, borderline=close, n_borderline=1234, unit="km"))
    assert "There are 1,234 of them; the 2 closest calls are shown." in page.text
    row = page.cells[page.cells.index("station 12") :][:6]
    assert row == ["station 12", "0", "10.0", "2", "10.5", "5.0\u202f%"]
    assert "Distance, km" in page.cells
    assert "There are none." in read(results, nodes, replace(STORY, n_borderline=0)).text
    assert "belong elsewhere" not in Page(usual()).text


# -- what is unusual --------------------------------------------------------------------------------------------------


def solved(nodes, k):
    return [quiet_solve(nodes, k, random_state=0)], nodes


UNUSUAL = {
    "one cluster": lambda: solved(make()[1], 1),
    "one feature": lambda: solved(make(d=1)[1], 3),
    "sixty features": lambda: solved(make(d=60)[1], 3),
    "many features": lambda: solved(make(d=230, n=12)[1], 3),
    "three nodes": lambda: solved(make(n=3)[1], 3),
    "one point": lambda: solved(Nodes.from_points(np.ones((5, 3))), 1),
    "empty cluster": lambda: solved(Nodes.from_points(np.repeat(np.eye(3), 2, axis=0)), 5),
    "thirty clusters": lambda: solved(make(n=200, k=5)[1], 33),
    "huge": lambda: solved(Nodes.from_points(1e30 * np.random.default_rng(0).normal(size=(9, 3))), 2),
    "tiny": lambda: solved(Nodes.from_points(1e-30 * np.random.default_rng(0).normal(size=(9, 3))), 2),
    "nothing is known": lambda: (
        [replace(make()[0][0], cost=np.nan, standard_error=np.nan, spread_cost=np.nan, lower_bound=np.nan)], make()[1]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_solutions_can_be_reported(case):
    results, nodes = UNUSUAL[case]()
    page = read(results, nodes)
    assert not re.search(r"\b(nan|inf|None)\b", page.text)
    # Very many features or clusters have the table of centers instead of profiles, and two features the first picture.
    few = 2 < nodes.n_features <= 12 and len(results[0].centers) <= 20
    assert len(page.values("svg", "aria-label")) == 2 + few


def test_an_empty_cluster_is_said_and_has_no_mean_distance():
    results, nodes = UNUSUAL["empty cluster"]()
    page = read(results, nodes)
    assert "2 clusters of these have no nodes." in page.text
    last = rows_of(page, 7)[5]
    assert last[:3] == ["4", "0", "0\u202f%"]
    assert last[5] == "–"


def test_left_out_features_are_counted():
    assert "30 features in which the centers differ least are left out" in read(*UNUSUAL["many features"]()).text


def test_numbers_are_written_for_people():
    assert number(1234567.8) == "1,234,568"
    assert number(-0.00001234) == "−1.234 × 10⁻⁵"
    assert number(2e15) == "2 × 10¹⁵"
    assert fixed(-0.0001, 2) == "0.00"
    assert fixed(np.nan, 2) == "–"
    assert percent(1.99) == "199\u202f%"
    assert plus_minus(0.0123456, 0.00012) == "0.01235 ± 0.00012"
    assert plus_minus(5.0, np.nan) == "5"
    assert html.escape(percent(0.5)) == "50\u202f%"


def test_nothing_else_is_needed_than_a_result_and_nodes(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3, 2))
    result = solve(X, 2, random_state=0)
    write_report(tmp_path / "r.html", result, X)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<h1>2 clusters</h1>" in page
    assert "probi.solve(nodes, n_clusters=2, random_state=SEED)" in page
    with pytest.raises(InputError, match="The result must come before the nodes"):
        write_report(tmp_path / "r.html", X, result)
