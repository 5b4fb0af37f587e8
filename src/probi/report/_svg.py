"""Figures as SVG that lives inside an HTML page, in the page's colours and fonts."""

import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from matplotlib import style
from matplotlib.figure import Figure

from probi.report._style import EXCESS, INK, LINE, MUTED, SPREAD

# Colours that a page has its own of, in the light and in the dark.
VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    LINE: "var(--line)",
    SPREAD: "var(--spread)",
    EXCESS: "var(--excess)",
}

DPI = 160  # of the marks, which are pixels; text and lines are not

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_FONT = re.compile(r"(font: [^;]*?[\d.]+px|font-family:)[^;]*")  # as matplotlib wrote it before 3.11, and since
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")

# matplotlib's settings are global: one thread at a time may change them, and puts them back.
_settings = threading.Lock()


@contextmanager
def settings() -> Iterator[None]:
    """Settings of matplotlib under which pictures are made: its own defaults, whatever the user's are."""
    with _settings, style.context({"svg.fonttype": "none", "svg.hashsalt": "probi"}, after_reset=True):
        yield


def inline_svg(figure: Figure, name: str, alt: str) -> str:
    """SVG element of a figure.

    Parameters
    ----------
    figure : Figure
        Made and handed over within :func:`settings`.
    name : str
        Prefix of the ids in it, so that several pictures fit in one page.
    alt : str
        What is to be seen, for those who do not see it.
    """
    root = ElementTree.fromstring(_saved(figure))
    for parent in list(root.iter()):
        for child in [child for child in parent if _is_needless(child)]:
            parent.remove(child)
    names = {old: f"{name}-{i}" for i, old in enumerate(_referenced(root))}
    for element in root.iter():
        _adapt(element, names)
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.attrib |= {"role": "img", "aria-label": alt}
    ElementTree.register_namespace("", _SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode")


def _saved(figure: Figure) -> str:
    file = io.StringIO()
    with warnings.catch_warnings():
        # The browser draws the text, in its own fonts: what those of matplotlib lack does not matter.
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(file, format="svg", dpi=DPI, transparent=True)
    return file.getvalue()


def _is_needless(element: Any) -> bool:
    """Whether it is metadata with the date, or a style sheet, which would be that of the whole page."""
    return element.tag == f"{_SVG}metadata" or [child.tag for child in element] == [f"{_SVG}style"]


def _referenced(root: Any) -> list[str]:
    """Ids that something points to, in the order of the document."""
    found: dict[str, None] = {}
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == _HREF and value.startswith("#"):
                found[value[1:]] = None
            found |= dict.fromkeys(_REFERENCE.findall(value))
    return list(found)


def _adapt(element: Any, names: dict[str, str]) -> None:
    """Give an element the ids, colours, fonts and precision of the page; text is left as it is."""
    old = element.attrib.pop("id", None)
    if old in names:
        element.set("id", names[old])
    target = element.attrib.pop(_HREF, None)
    if target is not None:
        element.set("href", f"#{names[target[1:]]}" if target.startswith("#") else target)
    for key, value in element.attrib.items():
        if key not in ("id", "href"):
            element.set(key, _adapted(value, names))


def _adapted(value: str, names: dict[str, str]) -> str:
    for color, variable in VARIABLES.items():
        value = value.replace(color, variable)
    value = _FONT.sub(r"\1 var(--sans)", value)
    value = _REFERENCE.sub(lambda match: f"url(#{names[match[1]]})", value)
    return _NUMBER.sub(lambda match: f"{float(match[0]):.2f}", value)
