"""News fragments are files that towncrier can build the changelog from."""

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
SETTINGS = PROJECT["tool"]["towncrier"]
KINDS = [kind["directory"] for kind in SETTINGS["type"]]
FRAGMENTS = sorted(path for path in (REPOSITORY / "changes").iterdir() if path.name != "README.md")


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_is_one_item_of_a_known_kind(path):
    assert re.fullmatch(rf"\d+\.({'|'.join(KINDS)})(\.\d+)?\.md", path.name)
    text = path.read_text("utf-8")
    assert text.endswith(".\n")
    assert text.count("\n") == 1  # one item per file, on one line


def test_every_kind_is_explained():
    explained = re.findall(r"^\| `(\w+)` \|", (REPOSITORY / "changes" / "README.md").read_text("utf-8"), re.MULTILINE)
    assert explained == KINDS


def test_the_changelog_has_the_place_for_the_next_version():
    assert (REPOSITORY / SETTINGS["filename"]).read_text("utf-8").count(SETTINGS["start_string"]) == 1
