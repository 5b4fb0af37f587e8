"""Reports as a browser shows them: Chromium without a window, driven over a pipe."""

import base64
import io
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from samples import blobs

from probi import Nodes, solve
from probi.report import Borderline, ReportContext, write_report

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip
# Chromium reads from 3 and writes to 4; the ends of the pipes have other numbers, which are moved out of the way first.
START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, number in zip(ends, (3, 4)):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 60  # seconds for an answer
EVIL = ["<script>alert(1)</script>", "$x_{", "</svg><img src=x onerror=alert(2)>"]
LONG = "a_file_with_a_very_long_name_" * 8 + ".csv"


class Browser:
    """One page, and what happened in it; messages are JSON, ended by a zero byte (the DevTools protocol)."""

    def __init__(self, folder):
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(orders), str(answers), CHROMIUM, *FLAGS, f"--user-data-dir={folder}"],
            pass_fds=(orders, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(orders)
        os.close(answers)
        self._buffer, self._count, self._session, self.events = b"", 0, None, []

    def start(self):
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._orders, json.dumps(message).encode() + b"\0")  # short: a pipe takes it at once
        answer = self._until(lambda message: message.get("id") == self._count)
        assert "error" not in answer, answer
        return answer["result"]

    def _until(self, wanted):
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" not in self._buffer:
                ready, _, _ = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
                assert ready, f"no answer in {PATIENCE} s"
                data = os.read(self._answers, 1 << 20)
                assert data, "the browser is gone"
                self._buffer += data
            text, _, self._buffer = self._buffer.partition(b"\0")
            message = json.loads(text)
            self.events.append(message)
            if wanted(message):
                return message

    def open(self, path, width=1000, scheme="light", media=""):
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 700
        )
        self.send(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self.send("Page.navigate", url=Path(path).as_uri())
        self._until(lambda message: message.get("method") == "Page.loadEventFired")

    def run(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def seen(self, *methods):
        return [message["params"] for message in self.events if message.get("method") in methods]

    def picture(self):
        data = self.send("Page.captureScreenshot", format="png")["data"]
        return 255 * imread(io.BytesIO(base64.b64decode(data)))

    def close(self):
        os.close(self._orders)  # Chromium ends when its pipe does
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("chromium not found: install Debian's package chromium to run this")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    try:
        browser.start()
        yield browser
    finally:
        browser.close()


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
    assert browser.seen("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown") == []
    assert browser.seen("Page.javascriptDialogOpening") == []
    addresses = [event["request"]["url"] for event in browser.seen("Network.requestWillBeSent")]
    assert report.as_uri() in addresses
    assert all(address == report.as_uri() or address.startswith("data:") for address in addresses)


def test_the_policy_stops_what_should_not_be_there(browser, report, tmp_path):
    """The other way round: a page that does fetch is noticed, so that the test above can fail."""
    page = report.read_text(encoding="utf-8").replace("</main>", "<img src='http://127.0.0.1:9/x.png'></main>")
    (tmp_path / "bad.html").write_text(page, encoding="utf-8")
    browser.open(tmp_path / "bad.html")
    assert "Content Security Policy" in str(browser.seen("Log.entryAdded"))


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_names_are_text(browser, report, evil):
    browser.open(report)
    assert evil in browser.run("document.body.innerText")
    labels = browser.run("[...document.querySelectorAll('svg text')].map(t => t.textContent)")
    assert [label for label in labels if label[:10] == evil[:10]]
    assert browser.run("document.querySelectorAll('script, img, [onerror], [onload]').length") == 1  # its own
    assert browser.run("document.querySelectorAll('figure svg').length") == 4


@pytest.mark.parametrize("width", [320, 400, 768, 1400])
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
