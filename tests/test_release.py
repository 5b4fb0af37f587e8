"""What a release consists of beside the code: the manual page, the recipe, the list of pages in llms.txt."""

import re
import tomllib
from pathlib import Path

import man_page
import pytest

import probi

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_manual_page_is_up_to_date():
    path = ROOT / "docs" / "reference" / "probi.1"
    assert path.read_text("utf-8") == man_page.page(), "python tools/man_page.py > docs/reference/probi.1"


def test_the_manual_page_has_all_commands_and_no_stray_requests():
    text = man_page.page()
    for name in ("cluster", "summarize", "merge", "solve", "assign", "evaluate", "info", "check", "convert", "demo"):
        assert f".SS probi {name} " in text
    requests = {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))}
    assert requests <= {'.\\"', ".TH", ".SH", ".SS", ".B", ".I", ".PP", ".TP", ".nf", ".fi", ".RS", ".RE"}
    assert r"\-\-outliers" in text


@pytest.mark.parametrize("text", [".TH", "'x", "a\\b"])
def test_text_is_no_request(text):
    assert not man_page._escaped(text).startswith((".", "'"))
    assert "\\b" not in man_page._escaped(text)


def test_the_recipe_needs_what_the_package_needs():
    text = (ROOT / "recipe" / "meta.yaml").read_text("utf-8")
    run = text.partition("  run:\n")[2].partition("\ntest:")[0]
    needed = {line.strip("- ").replace(" ", "") for line in run.splitlines() if line.strip()}
    assert needed - {"python>={{python_min}}"} == set(PROJECT["dependencies"])
    assert f'version = "{probi.__version__}"' in text
    assert f'python_min = "{PROJECT["requires-python"].removeprefix(">=")}"' in text


def test_citation_and_changelog_have_the_version():
    if "dev" in probi.__version__:
        pytest.skip("no release")
    stated = dict(
        re.findall(r"^(version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    )
    newest = re.search(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert (stated["version"], stated["date-released"]) == newest.groups()
    assert stated["version"] == probi.__version__


def test_pages_listed_in_llms_txt_exist():
    text = (ROOT / "docs" / "llms.txt").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\.html\)", text)
    assert len(links) > 10
    made = ("reference/cli", "gallery/index")  # when the site is built
    assert [link for link in links if link not in made and not (ROOT / "docs" / f"{link}.md").is_file()] == []
