"""Reports as a browser shows them."""

import base64

import numpy as np
import pytest
from samples import blobs

from probi import Nodes, solve
from probi.report import Borderline, ReportContext, write_report

pytestmark = pytest.mark.browser

EVIL = ["<script>alert(1)</script>", "$x_{", "</svg><img src=x onerror=alert(2)>"]
LONG = "a_file_with_a_very_long_name_" * 8 + ".csv"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report with everything in it: several results, many features, long and hostile names."""
    nodes = Nodes.from_dense(blobs(n=120, k=12, d=12)[0])
    results = [solve(nodes, k, n_init=1, random_state=0) for k in (3, 12)]
    close = [Borderline(EVIL[0], 0, 1234.5, 1, 1300.0), Borderline("i" * 200, 2, 1.0, 3, 1.1)]
    story = ReportContext(
        f"{EVIL[0]} {LONG}", {"file": LONG, EVIL[1]: EVIL[2]}, {"seed": "0"}, f"probi cluster {LONG} -k 3", close, 99
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    features = [*EVIL, LONG, *(f"Horizontal_Distance_To_{j}" for j in range(8))]
    write_report(path, results, nodes, story, chosen=1, features=features)
    return path


def test_nothing_is_logged_run_or_fetched(browser, report):
    browser.open(report)
    browser.run("document.fonts.ready.then(() => 1)")
    assert browser.complaints(report.as_uri()) == []
    assert report.as_uri() in [event["request"]["url"] for event in browser.seen("Network.requestWillBeSent")]


def test_the_policy_stops_what_should_not_be_there(browser, report, tmp_path):
    """The other way round: a page that does fetch is noticed, so that the test above can fail."""
    page = report.read_text(encoding="utf-8").replace("</main>", "<img src='http://127.0.0.1:9/x.png'></main>")
    (tmp_path / "bad.html").write_text(page, encoding="utf-8")
    browser.open(tmp_path / "bad.html")
    assert "Content Security Policy" in str(browser.seen("Log.entryAdded"))


def test_hostile_names_are_text(browser, report):
    browser.open(report)
    text = browser.run("document.body.innerText")
    labels = browser.run("[...document.querySelectorAll('svg text')].map(t => t.textContent)")
    for evil in EVIL:
        assert evil in text
        assert [label for label in labels if label[:10] == evil[:10]]
    assert browser.count("script, img, [onerror], [onload]") == 2  # its own, and its data
    assert browser.count("figure svg") == 4


@pytest.mark.parametrize("width", [320, 768, 1400])
def test_the_page_never_scrolls_sideways(browser, report, width):
    browser.open(report, width)
    assert browser.run("document.documentElement.scrollWidth") == width
    # Nothing sticks out either, besides what scrolls in a box of its own.
    sticking_out = (
        "[...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, svg')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert browser.run(sticking_out) == []
    inside = "[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect().width)"
    assert all(drawn > 100 for drawn in browser.run(inside))


def test_text_of_pictures_can_be_read_on_a_telephone(browser, report):
    browser.open(report, 400)
    sizes = browser.run(
        "[...document.querySelectorAll('svg text')].map(t => { const m = t.getScreenCTM();"
        " return parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.a, m.b); })"
    )
    assert min(sizes) >= 8


def test_a_click_sorts_a_table(browser, report):
    browser.open(report)
    column = "[...document.querySelector('table').tBodies[0].rows].map(r => Number(r.cells[3].dataset.v))"
    costs = browser.run(column)
    click = "document.querySelectorAll('table thead th')[3].querySelector('button').click()"
    for falling in (True, False):
        browser.run(click)
        assert browser.run(column) == sorted(costs, reverse=falling)
    assert browser.run("document.querySelectorAll('[aria-sort=ascending]').length") == 1


def test_light_and_dark_follow_the_reader(browser, report):
    light, dark = {}, {}
    for scheme, found in (("light", light), ("dark", dark)):
        browser.open(report, 700, scheme)
        found["page"] = np.median(browser.picture()[:, :, :3])
        found["text"] = browser.run("getComputedStyle(document.querySelector('svg text')).fill")
        found["axis"] = browser.run(
            "getComputedStyle([...document.querySelectorAll('svg path')]"
            ".find(p => p.style.stroke.includes('--muted'))).stroke"
        )
    assert light["page"] > 240
    assert dark["page"] < 40
    for what in ("text", "axis"):
        assert brightness(light[what]) < 130 < brightness(dark[what])


def brightness(color):
    return np.mean([float(part) for part in color.removeprefix("rgb(").removesuffix(")").split(",")])


def test_paper_is_light_and_pictures_are_whole(browser, report):
    browser.open(report, 673, "dark", media="print")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert brightness(browser.run("getComputedStyle(document.body).color")) < 60
    assert browser.run("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"
    # 297 mm less margins of 16 mm are 1001 pixels of 1/96 inch.
    assert (
        max(browser.run("[...document.querySelectorAll('figure')].map(f => f.getBoundingClientRect().height)")) < 1001
    )
    assert base64.b64decode(browser.send("Page.printToPDF")["data"]).startswith(b"%PDF")


def test_columns_of_numbers_stand_in_line(browser, report):
    browser.open(report)
    edges = browser.run(
        "[...document.querySelectorAll('table')].map(t => [...t.tBodies[0].rows].map(r => {"
        " const c = r.cells[2], g = document.createRange(); g.selectNodeContents(c);"
        " return Math.round(g.getBoundingClientRect().right); }))"
    )
    assert all(len(set(column)) == 1 for column in edges[:2])
    assert browser.run("getComputedStyle(document.querySelector('td')).fontVariantNumeric").count("tabular-nums") == 1
