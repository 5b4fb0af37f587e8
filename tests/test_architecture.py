"""The page of the architecture says what is so."""

import importlib
import re
from pathlib import Path

import architecture
import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contributing" / "architecture.md").read_text("utf-8")
NAMES = sorted(set(re.findall(r"`(probi\.[\w.]+)`", PAGE)))


def test_the_drawing_is_that_of_the_contracts():
    drawn = architecture.PICTURE.read_text("utf-8")
    assert drawn == architecture.drawing(), "Draw it again: python tools/architecture.py"


def test_every_module_has_its_place():
    placed = {name for layer in architecture.layers() for name in layer}
    package = ROOT / "src" / "probi"
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    assert modules - {"__init__", "__main__"} == placed


@pytest.mark.parametrize("name", NAMES)
def test_names_in_the_life_of_a_node_exist(name):
    parts = name.split(".")
    found, attributes = None, []
    while found is None:
        try:
            found = importlib.import_module(".".join(parts))
        except ModuleNotFoundError:
            attributes.insert(0, parts.pop())
    for attribute in attributes:
        found = getattr(found, attribute)


def test_there_are_names():
    assert len(NAMES) > 30
