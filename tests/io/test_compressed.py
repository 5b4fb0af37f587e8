"""Compressed text is read and written like plain text."""

import pytest
from commands import probi
from table_files import COMPRESSED, columns_of, read_nodes, some_nodes, tiny, write

from probi.errors import InputError


@pytest.mark.slow
@pytest.mark.parametrize("format", COMPRESSED)
def test_compressed_text(tmp_path, monkeypatch, capsys, format):
    tiny(monkeypatch, block=60)
    columns = columns_of(some_nodes("long"), "long")
    expected = read_nodes(write(tmp_path / "x.csv", columns), layout="long")
    path = write(tmp_path / f"x.{format}", columns)
    assert read_nodes(path, layout="long") == expected
    # By its first bytes, twice in one file, from standard input; and what probi writes.
    (tmp_path / "unnamed").write_bytes(path.read_bytes())
    assert read_nodes(tmp_path / "unnamed", layout="long") == expected
    written = tmp_path / f"y.{format}"
    assert probi(capsys, "convert", path, "--layout", "long", "--to", "long", "-o", written).code == 0
    assert written.read_bytes()[:3] == path.read_bytes()[:3]
    assert read_nodes(written, layout="long") == expected
    ran = probi(capsys, "info", "-", "--layout", "long", stdin=path.read_bytes(), monkeypatch=monkeypatch)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("format", COMPRESSED)
def test_compressed_text_that_is_cut_off(tmp_path, format):
    path = write(tmp_path / f"x.{format}", columns_of(some_nodes("long", n=2000), "long"))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"x\.csv.*: the \w+ data is damaged or cut off"):
        read_nodes(path, layout="long")
