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


def named_files():
    """Files and folders in the table of what is where, as paths below src/probi."""
    table = PAGE.partition("| place in `src/probi/` | what |\n|---|---|\n")[2].partition("\n\n")[0]
    for row in table.splitlines():
        places, what = (re.findall(r"`([\w/]+(?:\.py|/))`", cell) for cell in row.strip("| ").split(" | ", 1))
        folder = places[0] if places[0].endswith("/") else ""
        yield from places
        yield from (folder + name for name in what)


@pytest.mark.parametrize("name", sorted(set(named_files())))
def test_files_in_the_table_exist(name):
    assert (ROOT / "src" / "probi" / name).exists()


def test_every_module_is_in_the_table():
    named = set(named_files())
    package = ROOT / "src" / "probi"
    modules = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    # A private module of a folder that the table names needs no words of its own.
    missing = {
        name
        for name in modules - named
        if not name.endswith(("__init__.py", "__main__.py")) and not re.search(r"/_|^_kernels/", name)
    }
    assert missing == set()


def test_there_are_names():
    assert len(NAMES) > 30
    assert len(set(named_files())) > 60
