"""What a reader can do with the picture of a report, on a telephone and on a wide screen, with and without a mouse."""

import re

import numpy as np
import pytest
from browsers import Browser
from samples import blobs

import probi
from probi import Nodes, memberships, solve
from probi.report import LabelMap, ReportContext, write_report

pytestmark = pytest.mark.browser

EVIL = "</script><img src=x onerror=alert(1)>"
KS = (2, 4, 7, 8, 12, 30)
CHOSEN = 3  # 8 clusters
FEATURES = [EVIL, "salinity", "depth"]
NARROW, WIDE = 400, 1400


@pytest.fixture(scope="module")
def nodes():
    X = blobs(n=240, k=8, d=3, m=5, scale=8.0, spread=2.5)[0]
    probabilities = np.random.default_rng(0).dirichlet(np.ones(5), size=len(X))
    return Nodes.from_dense(X, probabilities, ids=[EVIL if i == 7 else f"buoy {i}" for i in range(len(X))])


@pytest.fixture(scope="module")
def results(nodes):
    return [solve(nodes, k, n_init=1, random_state=0) for k in KS]


@pytest.fixture(scope="module")
def path(nodes, results, tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "report.html"
    context = ReportContext("Buoys", {"file": "buoys.csv"}, {}, "probi cluster buoys.csv -k 2,4,7,8,12,30")
    write_report(path, results, nodes, context, chosen=CHOSEN, features=FEATURES)
    return path


@pytest.fixture
def page(browser, path):
    """Return a function that opens the report with a width; at the end, nothing was logged and nothing was fetched."""

    def opened(width, **options) -> Browser:
        browser.open(path, width, **options)
        return browser

    yield opened
    assert browser.complaints(path.as_uri()) == []


def find(page, name):
    page.run("document.querySelector('#find').focus(); document.querySelector('#find').value = ''")
    page.type(name)


def set_slider(page, i):
    page.run(f"(s => {{ s.value = {i}; s.dispatchEvent(new Event('input')); }})(document.querySelector('#k'))")


def card_of(nodes, result, name):
    """What the card of a node must say."""
    node = nodes.ids.tolist().index(name)
    row = memberships(nodes[node : node + 1], result.centers)[0]
    label = result.labels[node]
    others = np.where(np.arange(len(row)) == label, -1.0, row)

    def text(share):
        return f"{min(max(round(100 * share), 1), 100 if share == 1 else 99)}\u202f%"

    lines = [name, str(label), "its cluster", text(row[label])]
    if others.max() > 0:
        lines += [str(others.argmax()), "second", text(others.max())]
    return [*lines, "5 realizations"]


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_pointing_at_a_node_shows_its_realizations_and_memberships(page, nodes, results, width):
    page = page(width)
    find(page, "buoy 100")  # to learn where it is
    place = page.middle(".live .chosen")
    page.press("Escape")
    page.move(1, 1)
    assert page.run("document.querySelector('.card').hidden")
    page.move(*place)
    assert page.text(".card").split("\n") == card_of(nodes, results[CHOSEN], "buoy 100")
    assert page.count(".live .realization") == 5
    radii = page.run("[...document.querySelectorAll('.live .realization')].map(c => Number(c.getAttribute('r')))")
    expected = nodes.probabilities[500:505]
    assert np.array_equal(np.argmax(radii), expected.argmax())
    inside = page.run(
        "(() => { const c = document.querySelector('.card').getBoundingClientRect(),"
        " s = document.querySelector('.stage').getBoundingClientRect();"
        " return c.left >= s.left - 1 && c.right <= s.right + 1 && c.width > 100; })()"
    )
    assert inside


def test_the_slider_shows_every_solution(page, nodes, results):
    page = page(NARROW)
    page.run("document.querySelector('#k').focus()")
    page.press("ArrowLeft")
    assert page.run("document.querySelector('figure.explore h3').textContent") == "7 clusters of uncertain nodes"
    assert page.text(".k output") == "7"
    assert page.count("#clusters tbody tr") == page.count(".list li") == page.count(".disc-mark") == 7
    set_slider(page, len(KS) - 1)
    assert page.count("#clusters tbody tr") == page.count(".list li") == 30
    find(page, "buoy 17")
    assert page.text(".card").split("\n") == card_of(nodes, results[-1], "buoy 17")
    costs = page.run("[...document.querySelectorAll('#clusters tbody tr')].map(r => Number(r.cells[3].dataset.v))")
    np.testing.assert_allclose(costs, results[-1].clusters.cost, rtol=1e-5)


def test_the_table_of_another_solution_is_the_one_that_a_report_of_it_has(browser, page, nodes, results, tmp_path):
    """Scripts write the table of clusters a second time: it must be the same."""
    cells = (
        "[...document.querySelectorAll('#clusters tr')].map(r => "
        "[...r.cells].map(c => [c.className, c.dataset.v && Number(c.dataset.v).toPrecision(5),"
        " c.textContent.replace(/\\s+/g, '')]))"
    )
    write_report(tmp_path / "other.html", results, nodes, chosen=1, features=FEATURES)
    browser.open(tmp_path / "other.html", WIDE)
    expected = browser.run(cells)
    page = page(WIDE)
    set_slider(page, 1)
    assert page.run(cells) == expected


def test_a_click_on_a_cluster_shows_its_profile_and_its_representative(page, results):
    page = page(WIDE)
    numbers = page.run("[...document.querySelectorAll('.disc-mark')].map(d => d.textContent)")
    where = numbers.index("3")
    page.click(*page.middle(".disc-mark circle", where))
    assert page.text(".panel h4").split()[:3] == ["3", "Cluster", "3"]
    assert results[CHOSEN].representatives.names[3] in page.text(".stands")
    assert page.count(".live .representative") == 1
    names = page.run("[...document.querySelectorAll('.profile > span:not(.number)')].map(s => s.textContent)")
    assert len(names) == 3
    assert {"salinity", "depth"} < set(names)
    assert page.count(".profile svg .center") + page.count(".profile svg > svg > path:not(.representative)") == 3
    # A node of another cluster opens that one.
    find(page, "buoy 100")
    page.click(*page.middle(".live .chosen"))
    assert page.text(".panel h4").split()[0] == str(results[CHOSEN].labels[100])


def test_search_finds_ids_goes_on_and_says_when_there_are_none(page):
    page = page(NARROW)
    find(page, "buoy 23")
    assert page.text(".find output") == "1 of 11"  # 23 and 230 to 239
    assert page.text(".card strong") == "buoy 23"
    page.press("Enter")
    assert page.text(".find output") == "2 of 11"
    assert page.text(".card strong") == "buoy 230"
    assert "buoy 230: cluster" in page.text("[role=status]")
    find(page, "no such buoy")
    assert page.text(".find output") == "none"
    assert page.run("document.querySelector('.card').hidden")
    page.press("Escape")
    assert page.run("document.querySelector('#find').value") == page.text(".find output") == ""
    # In a part of the plot that is not visible.
    for _ in range(8):
        page.run("document.querySelector('.zoom button').click()")
    for name in ("buoy 5", "buoy 6"):
        find(page, name)
        x, y = page.middle(".live .chosen")
        left, top, right, bottom = page.run(
            "(r => [r.left, r.top, r.right, r.bottom])(document.querySelector('.live').getBoundingClientRect())"
        )
        assert left < x < right
        assert top < y < bottom


def test_everything_works_with_the_keyboard(page):
    page = page(WIDE)
    page.run("document.querySelector('#k').focus()")
    order = []
    for _ in range(6):
        page.press("Tab")
        order.append(page.run("document.activeElement.id || document.activeElement.textContent.slice(0, 3)"))
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert order[:4] == ["find", "+", "−", "All"]
    page.run("document.querySelector('.live').focus()")
    assert "arrows go from node to node" in page.run("document.activeElement.getAttribute('aria-label')")
    seen = set()
    for arrow in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.press(arrow)
        seen.add(page.text("[role=status]"))
    assert len(seen) >= 3
    sentence = r"(buoy \d+|.*img.*): cluster \d with probability .*; 5 realizations\."
    assert all(re.fullmatch(sentence, text) for text in seen)
    label = page.text(".card .disc")
    page.press("Enter")
    assert page.text(".panel h4").split()[0] == label
    ticks = "[...document.querySelectorAll('.tick.across')].map(t => t.textContent)"
    full = page.run(ticks)
    page.press("+", "+")
    zoomed = page.run(ticks)
    assert zoomed != full
    page.press("ArrowRight", shift=True)
    assert page.run(ticks) != full
    page.press("Escape")
    assert page.run("document.querySelector('.card').hidden")
    page.press("Escape")
    assert page.count(".list") == 1
    page.press("Escape")
    assert page.run(ticks) == full
    # Clusters, from the list and back.
    page.run("document.querySelector('.list button').focus()")
    page.press("ArrowDown", "Enter")
    assert page.text(".panel h4").split()[0] == "1"
    assert page.run("document.activeElement.className") == "back"
    page.press("Escape")
    assert page.run("document.activeElement.getAttribute('aria-label')").startswith("Cluster 1,")


def test_zooming_and_dragging_with_the_mouse(page):
    page = page(WIDE)
    ticks = "[...document.querySelectorAll('.tick.across')].map(t => t.textContent)"
    page.middle(".live")
    full, places = page.run(ticks), [page.middle(".disc-mark circle", i) for i in range(8)]
    innermost = int(np.argmin(np.abs(places - np.mean(places, axis=0)).sum(axis=1)))
    x, y = page.middle(".disc-mark circle", innermost)
    page.move(x, y, "mouseWheel", deltaX=0, deltaY=-300, modifiers=2)  # the cluster stays where it is
    zoomed = page.run(ticks)
    assert zoomed != full
    page.move(x, y, "mousePressed", button="left", clickCount=1)
    page.move(x - 40, y, button="left", buttons=1)
    page.move(x - 80, y, button="left", buttons=1)
    page.move(x - 80, y, "mouseReleased", button="left", clickCount=1)  # the cluster has moved along
    assert page.run(ticks) != zoomed
    assert page.count(".list") == 1  # a drag is no click
    page.click(*page.middle(".zoom button", 2))
    assert page.run(ticks) == full
    page.move(x, y, "mouseWheel", deltaX=0, deltaY=300)
    assert page.run(ticks) == full  # the wheel alone scrolls


def test_a_table_of_another_solution_can_be_sorted(page):
    page = page(NARROW)
    set_slider(page, 4)
    column = "[...document.querySelectorAll('#clusters tbody tr')].map(r => Number(r.cells[4].dataset.v))"
    before = page.run(column)
    for falling in (True, False):
        page.run("document.querySelectorAll('#clusters th')[4].querySelector('button').click()")
        assert page.run(column) == sorted(before, reverse=falling)


def test_what_is_shown_is_printed_without_its_tools(page):
    page = page(673, scheme="dark", media="print")
    assert page.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert page.run("getComputedStyle(document.querySelector('.panel')).display") == "none"
    assert page.run("document.querySelector('.live').getBoundingClientRect().width") > 400
    assert page.run("getComputedStyle(document.querySelector('.live .tick')).fill") == "rgb(31, 39, 51)"


def test_hostile_ids_and_features_are_text(page):
    page = page(WIDE)
    find(page, EVIL[:10])
    assert page.text(".card strong") == EVIL
    page.press("Enter")
    page.click(*page.middle(".live .chosen"))
    names = page.run("[...document.querySelectorAll('.profile > span')].map(s => s.textContent)")
    assert [name for name in names if name[:8] == EVIL[:8]]
    set_slider(page, 1)
    assert page.count("img, [onerror]") == 0
    assert page.count("script") == 2


def test_the_page_can_be_read_without_scripts(browser, path):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(path, 1000)
        document = browser.send("DOM.getDocument", depth=0)["root"]["nodeId"]

        def count(selector):
            return len(browser.send("DOM.querySelectorAll", nodeId=document, selector=selector)["nodeIds"])

        assert count("figure.explore svg[role=img] polyline") > 0
        assert count("#clusters tbody tr") == 8
        assert count(".tools, .panel, .card, button, input") == 0
        assert np.ptp(browser.picture()[:, :, :3]) > 200
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_one_feature_has_rows_and_certain_nodes_have_no_memberships(browser, tmp_path):
    some = Nodes.from_points(np.r_[np.arange(20.0), 100 + np.arange(20.0)][:, None])
    two, three = (solve(some, k, random_state=0) for k in (2, 3))
    write_report(tmp_path / "rows.html", [two, three], some)
    browser.open(tmp_path / "rows.html", 1000)
    find(browser, "node 39")
    assert browser.text(".card").split("\n") == ["node 39", str(probi.assign(some, two.centers)[39]), "its cluster"]
    heights = browser.run("[...document.querySelectorAll('.disc-mark circle')].map(c => Number(c.getAttribute('cy')))")
    assert len(set(heights)) == 2
    set_slider(browser, 1)
    assert browser.count(".disc-mark") == 3
    assert browser.complaints((tmp_path / "rows.html").as_uri()) == []


def test_outliers_are_crosses_in_no_cluster(browser, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3, 2)) + 9 * (np.arange(100) % 2)[:, None, None]
    X[7] += 500.0
    far = Nodes.from_dense(X, ids=[f"buoy {i}" for i in range(100)])
    path = tmp_path / "report.html"
    write_report(path, solve(far, 2, outliers=0.01, random_state=0), far)
    browser.open(path, WIDE)
    find(browser, "buoy 7")
    name, *lines = browser.text(".card").split("\n")
    assert name == "buoy 7: outlier"
    assert lines[1:3] == ["nearest center", "100\u202f%"]
    assert "outlier, in no cluster" in browser.text(".unseen[role=status]")
    browser.click(*browser.middle(".live .chosen"))
    assert browser.text(".panel h4") == "Clusters by share"  # no cluster to show
    assert browser.complaints(path.as_uri()) == []


def test_a_map_stays_and_the_picture_after_it_is_explored(browser, nodes, results, tmp_path):
    labels = np.arange(12).reshape(3, 4) % 2
    context = ReportContext("t", {}, {}, "", map=LabelMap(np.arange(4.0), np.arange(3.0), labels))
    write_report(tmp_path / "map.html", results[0], nodes, context)
    browser.open(tmp_path / "map.html", WIDE)
    assert browser.count("figure:nth-of-type(1) svg[role=img]") == 1
    assert browser.count("figure:nth-of-type(2).alive .live") == 1
    assert browser.complaints((tmp_path / "map.html").as_uri()) == []
