"""Look at the built site and a report as readers do: python tools/site_in_browser.py docs/_build/html.

axe judges whether all can read them, on a light screen and on a dark phone: nothing serious or critical is accepted.
The search of the site finds what readers call things elsewhere. Without Chromium, or where npm has no axe, nothing is
looked at, which is said.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

browsers: Any = import_module("browsers")

AXE = "axe-core@4.14.0"
FOLDER = ROOT / ".cache" / "axe"
SEVERE = ("serious", "critical")
# A page of each kind.
PAGES = (
    "index.html", "getting-started.html", "glossary.html", "search.html", "genindex.html", "how-it-works/proofs.html",
    "results/field.html", "gallery/index.html", "gallery/plot_scenarios.html", "reference/index.html",
    "reference/cli.html", "reference/generated/probi.Nodes.html", "_modules/probi/nodes.html",
)  # fmt: skip
LOOKS = (("light", 1400), ("dark", 400))  # scheme, and width in pixels
# What is typed into the search, and a page that must be among the first results.
SEARCHES = {
    "k-medians": "glossary",
    "uncertain k-means": "glossary",
    "ensemble clustering": "glossary",
    "Parquet": "reference/format",
}
N_FIRST = 5

# A color on its way to another one is that of nobody.
AT_REST = """
document.head.append(Object.assign(document.createElement("style"), {textContent: "* { transition: none !important }"}))
"""
JUDGE = """
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.map(
  ({id, impact, help, nodes}) => ({id, impact, help, nodes: nodes.map(node => node.target.join(" "))})))
"""
FOUND = "[...document.querySelectorAll('#search-results li a')].map(link => link.getAttribute('href'))"
IS_DONE = "Boolean(document.querySelector('.search-summary')?.textContent)"


def axe() -> str | None:
    """Source of axe, which npm fetches once; None where it cannot."""
    source = FOLDER / "node_modules" / "axe-core" / "axe.min.js"
    npm = shutil.which("npm")
    if not source.is_file() and npm is not None:
        command = [npm, "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", str(FOLDER), AXE]
        subprocess.run(command, check=False, capture_output=True)
    return source.read_text("utf-8") if source.is_file() else None


def severe_findings(browser: Any, source: str, pages: dict[str, Path], look: tuple[str, int]) -> Iterator[str]:
    """What axe says of pages in a scheme and a width."""
    scheme, width = look
    for name, path in pages.items():
        browser.open(path, width, scheme)
        browser.run(AT_REST)
        browser.run(source)
        for finding in browser.run(JUDGE):
            if finding["impact"] in SEVERE:
                where = f"{finding['id']}: {', '.join(finding['nodes'][:3])}"
                yield f"{name} ({scheme}, {width} pixels): {finding['impact']}: {finding['help']}: {where}"


def failed_searches(browser: Any, site: Path) -> Iterator[str]:
    """Words that do not lead to their page."""
    for words, wanted in SEARCHES.items():
        browser.open(site / "search.html", query=words)
        browser.wait(IS_DONE)
        links = [link.partition("#")[0].partition("?")[0].removesuffix(".html") for link in browser.run(FOUND)]
        if wanted not in links[:N_FIRST]:
            yield f"search: {words}: {wanted} is not among the first {N_FIRST}: {links[:N_FIRST]}"


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    source = axe()
    if browsers.CHROMIUM is None or source is None:
        print(f"not looked at in a browser: no {'axe-core from npm' if browsers.CHROMIUM else 'Chromium'}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        pages = {name: site / name for name in PAGES} | reports(Path(folder))

        def look_at(look: tuple[str, int]) -> list[str]:
            with started(Path(folder) / look[0]) as browser:
                return list(severe_findings(browser, source, pages, look))

        with ThreadPoolExecutor() as pool:
            judged = pool.map(look_at, LOOKS)  # each in a browser of its own, side by side
            with started(Path(folder) / "search") as browser:
                found = list(failed_searches(browser, site))
            found += [finding for findings in judged for finding in findings]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


@contextmanager
def started(folder: Path) -> Iterator[Any]:
    """A browser that keeps its files in a folder."""
    browser = browsers.Browser(folder)
    try:
        browser.start()
        yield browser
    finally:
        browser.close()


def reports(folder: Path) -> dict[str, Path]:
    """The report of the demo, with a map."""
    probi = [sys.executable, "-m", "probi"]
    subprocess.run([*probi, "demo", "-o", folder / "map"], check=True, capture_output=True)
    return {"report of the demo": folder / "map" / "report.html"}


if __name__ == "__main__":
    sys.exit(main())
