"""The gallery: every script runs alone, without a network or data sets, and draws something."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("plot_*.py"))

# What sphinx-gallery does: run the script, then take the figures that pyplot knows.
RUN = """
import runpy, sys
import matplotlib.pyplot as plt
runpy.run_path(sys.argv[1], run_name="__main__")
for number in plt.get_fignums():
    plt.figure(number).savefig(f"{number}.png")
"""


def test_there_are_scripts():
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_runs_alone_and_draws(script, tmp_path):
    # One thread for scikit-learn: on small data its threads mostly wait for each other.
    environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    environment.pop("PROBI_DATA", None)
    ended = subprocess.run(
        [sys.executable, "-c", RUN, str(script)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr
    assert ended.stdout.strip(), "a script prints the numbers that its text is about"
    pictures = list(tmp_path.iterdir())
    assert pictures, "no figure"
    assert all(picture.suffix == ".png" and picture.stat().st_size > 10_000 for picture in pictures), pictures


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
