"""Find links of the built site that lead nowhere: python tools/site_links.py docs/_build/html.

A link within the site needs a file, and a place in it where it names one. Of a link that leaves the site the address is
checked, and nothing is asked of the network.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

TEMPLATES = "_static"  # of the theme, which copies all it has
PLACES = ("id", "name")
LINKS = ("href", "src")
# A name with a dot, of letters, digits and hyphens; a path without characters that belong encoded.
HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?", re.I)
NOT_IN_ADDRESSES = re.compile(r'[\s<>"{}|\\^`]')
MARKDOWN_LINK = re.compile(r"\]\(([^)\s]+)\)")
# What browsers scroll to without an element of this name.
ALWAYS_THERE = ("", "top")


class Page(HTMLParser):
    """Links of a page, and the places in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set(ALWAYS_THERE)
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note links and places of an element."""
        is_card = ("property", "og:image") in attrs
        for name, value in attrs:
            if value is None:
                continue
            if name in LINKS or (is_card and name == "content"):
                self.links.add(value)
            elif name == "srcset":
                self.links.update(one.split()[0] for one in value.split(",") if one.strip())
            elif name in PLACES:
                self.places.add(value)


def problems(site: Path) -> list[str]:
    """A line per link that leads nowhere."""
    paths = [path for path in sorted(site.rglob("*.html")) if path.parent.name != TEMPLATES]
    pages = {path: Page(path.read_text("utf-8")) for path in paths}
    found = []
    for path, page in pages.items():
        found += [_line(site, path, link, _problem(site, path, link, pages)) for link in sorted(page.links)]
    for path in sorted(site.glob("*.txt")):
        links = MARKDOWN_LINK.findall(path.read_text("utf-8"))
        found += [_line(site, path, link, _problem(site, path, link, pages)) for link in links]
    return [line for line in found if line]


def _line(site: Path, path: Path, link: str, problem: str) -> str:
    return f"{path.relative_to(site).as_posix()}: {link}: {problem}" if problem else ""


def _problem(site: Path, path: Path, link: str, pages: dict[Path, Page]) -> str:
    """Why a link leads nowhere; nothing where it leads somewhere."""
    try:
        parts = urlsplit(link)
    except ValueError as error:
        return str(error)
    if parts.scheme in ("data", "javascript"):
        return ""
    if parts.scheme or parts.netloc:
        return _problem_outside(parts.scheme, parts.netloc, link)
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site):
        return "leaves the site"
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    place = unquote(parts.fragment)
    return "no such place" if target in pages and place not in pages[target].places else ""


def _problem_outside(scheme: str, host: str, link: str) -> str:
    if scheme == "mailto":
        return "" if re.fullmatch(r"mailto:[^@\s]+@[^@\s]+\.[^@\s]+", link) else "no address"
    if scheme not in ("", "http", "https"):
        return f"unknown scheme {scheme!r}"
    return "" if HOST.fullmatch(host) and not NOT_IN_ADDRESSES.search(link) else "no address"


def main() -> int:
    site = Path(sys.argv[1]).resolve()
    if not (site / "index.html").is_file():
        print(f"no site in {site}", file=sys.stderr)
        return 1
    found = problems(site)
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
