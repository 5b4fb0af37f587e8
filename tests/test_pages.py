"""Commands on the pages of the site do what the pages show.

Blocks of Python run as doctests. A block marked ``console`` holds commands after "$ " and what they print, with an
empty line between two of them; those of a page run one after the other in one folder. Commands that need a cluster or
a clone stand in blocks marked ``sh``.
"""

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
RULES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# The reference of the commands is made of their help, whose examples name files that a user would have.
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if BLOCK.search(path.read_text("utf-8")) and path.parent.name not in ("reference", "_build")
)


def commands(text):
    """Commands of a page, each with what it is said to print."""
    for block in BLOCK.findall(text):
        for entry in re.split(r"(?:\A|\n\n)\$ ", block)[1:]:  # some commands print such lines themselves
            command, _, output = entry.partition("\n")
            yield command, output


@pytest.mark.process
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_commands_print_what_the_page_shows(page, tmp_path):
    # Without a buffer results and talk come in the order in which a terminal shows them.
    settings = {"PYTHONUNBUFFERED": "1", "COLUMNS": "100", "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"}
    (tmp_path / "bin").mkdir()
    probi = tmp_path / "bin" / "probi"
    probi.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m probi "$@"\n')
    probi.chmod(0o755)
    settings["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    (tmp_path / "work").mkdir()
    for command, expected in commands(page.read_text("utf-8")):
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path / "work", env=os.environ | settings, text=True, encoding="utf-8",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        shown = doctest.OutputChecker().check_output(expected.strip() + "\n", done.stdout.strip() + "\n", RULES)
        assert shown, f"$ {command}\nprinted\n{done.stdout}"


def test_there_are_pages_with_commands():
    assert PAGES
