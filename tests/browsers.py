"""Chromium without a window, driven over a pipe."""

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
from urllib.parse import urlencode

from matplotlib.image import imread

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
        data = json.dumps(message).encode() + b"\0"
        while data:  # a pipe takes what it has room for
            data = data[os.write(self._orders, data) :]
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

    def open(self, path, width=1000, scheme="light", media="", query=""):
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 700
        )
        self.send(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self.send("Page.navigate", url=Path(path).as_uri() + (f"?{urlencode({'q': query})}" if query else ""))
        self._until(lambda message: message.get("method") == "Page.loadEventFired")

    def run(self, expression):
        """Value of an expression, of what it promises where it is a promise."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition):
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(condition):
            assert time.monotonic() < end, f"not in {PATIENCE} s: {condition}"
            time.sleep(0.02)

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

    # -- what a reader does

    def move(self, x, y, kind="mouseMoved", **parameters):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **parameters)

    def click(self, x, y):
        self.move(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.move(x, y, kind, button="left", clickCount=1)

    def press(self, *keys, shift=False):
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for key in keys:
            common = {"key": key, "modifiers": 8 * shift, "windowsVirtualKeyCode": codes.get(key, 0)}
            # A button is pressed by the character that Enter writes.
            self.send("Input.dispatchKeyEvent", type="keyDown", text="\r" if key == "Enter" else "", **common)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text):
        self.send("Input.insertText", text=text)

    def middle(self, selector, number=0):
        """The middle of an element, in pixels of the window, after it was scrolled into view."""
        return self.run(
            f"(() => {{ const e = document.querySelectorAll({json.dumps(selector)})[{number}];"
            " e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            " return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def count(self, selector):
        return self.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def complaints(self, address):
        """What a page that keeps quiet has none of: messages, errors, dialogs, and requests beside its own."""
        events = self.seen("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        events += self.seen("Page.javascriptDialogOpening")
        urls = [event["request"]["url"] for event in self.seen("Network.requestWillBeSent")]
        return events + [url for url in urls if url != address and not url.startswith("data:")]
