"""The gallery: scripts that read like pages. `make docs` runs them, and an error in one stops it."""

import ast
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))


def test_there_are_scripts():
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_reads_like_a_page(script):
    source = script.read_text("utf-8")
    tree = ast.parse(source)
    title, rule, *_ = (ast.get_docstring(tree) or "").splitlines()
    assert title
    assert rule == "=" * len(title)
    assert re.findall(r"^# %%$", source, re.MULTILINE)
    assert source.count("sphinx_gallery_start_ignore") == source.count("sphinx_gallery_end_ignore")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_shows_public_names_only(script):
    tree = ast.parse(script.read_text("utf-8"))
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    used = [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    names = [part for module in imported for part in module.split(".")] + used
    assert [name for name in names if name.startswith("_")] == []
