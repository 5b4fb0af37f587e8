"""The format that the how-to adds, with its module and its line in the registry, is read and written."""

import re
from pathlib import Path

import pyarrow as pa
import pytest
from commands import error_line, probi
from pyarrow import orc
from table_files import as_nodes, assert_same, columns_of, options_of, read_nodes, some_nodes, tiny, write

from probi.io.formats import FORMATS

HOW_TO = Path(__file__).parents[2] / "docs" / "contributing" / "how-to.md"


@pytest.fixture(autouse=True)
def orc_format(tmp_path, monkeypatch):
    """The blocks of the page, as a module and as a line of the registry."""
    page = HOW_TO.read_text("utf-8").partition("## A file format")[2].partition("\n## ")[0]
    module, line = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "orc_of_the_page.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    ((name, _),) = eval(f"{{{line}}}").items()
    monkeypatch.setitem(FORMATS, name, "orc_of_the_page")


@pytest.mark.parametrize("layout", ["points", "groups", "long", "nested"])
def test_converted_there_and_back(tmp_path, capsys, monkeypatch, layout):
    tiny(monkeypatch)
    plain = some_nodes(layout, n=30)
    start = write(tmp_path / "x.parquet", columns_of(plain, layout))
    middle, end = tmp_path / "y.orc", tmp_path / "z.parquet"
    options = options_of(layout)
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert probi(capsys, "convert", start, *arguments, "--to", layout, "-o", middle, "-q").code == 0
    assert orc.ORCFile(str(middle)).nrows
    assert probi(capsys, "convert", middle, *arguments, "--to", layout, "-o", end, "-q").code == 0
    for path in (middle, end):
        assert_same(read_nodes(path, **options), as_nodes(plain))


def test_known_by_its_first_bytes_and_by_its_name(tmp_path):
    plain = some_nodes("long", n=5)
    orc.write_table(pa.table(columns_of(plain, "long")), str(tmp_path / "nodes"))
    for options in ({}, {"format": "orc"}):
        assert_same(read_nodes(tmp_path / "nodes", layout="long", **options), as_nodes(plain))


def test_assignments_are_written_in_it(tmp_path, capsys):
    nodes = write(tmp_path / "x.csv", {"x": [0.0, 9.0]})
    centers = write(tmp_path / "c.csv", {"x": [0.0, 10.0]})
    out = tmp_path / "a.orc"
    assert probi(capsys, "assign", nodes, "--centers", centers, "-o", out, "-q").code == 0
    assert orc.ORCFile(str(out)).read()["cluster"].to_pylist() == [0, 1]


def test_a_format_that_is_only_read_is_refused_by_name(tmp_path, capsys, monkeypatch):
    module = (tmp_path / "modules" / "orc_of_the_page.py").read_text().replace(", create=OrcWriter", "")
    (tmp_path / "modules" / "only_read.py").write_text(module)
    monkeypatch.setitem(FORMATS, "orc", "only_read")
    start = write(tmp_path / "x.csv", {"x": [0.0, 9.0]})
    said = error_line(probi(capsys, "convert", start, "--to", "points", "-o", tmp_path / "y.orc"))
    assert said.startswith(f"Cannot infer a format for {tmp_path / 'y.orc'}")
    assert ".orc" not in said.split(";")[1]
