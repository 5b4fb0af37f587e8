"""Names of files, folders and patterns."""

import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import read_nodes, write

from probi.errors import InputError
from probi.io.formats.base import find_sources, formats_by_ending


def names(inputs, format=None):
    return [(source.path.name, source.format) for source in find_sources(inputs, format)]


@pytest.fixture
def folder(tmp_path):
    for name in (
        "b.csv",
        "a.parquet",
        "c.CSV",
        "notes.md",
        "_SUCCESS",
        ".hidden.csv",
        "sub/d.npy",
        "_old/e.csv",
        "z.tsv.gz",
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x\n1\n")
    return tmp_path


def test_files_of_a_folder_sorted_by_name_without_marks_and_other_things(folder):
    expected = [("a.parquet", "parquet"), ("b.csv", "csv"), ("c.CSV", "csv"), ("d.npy", "npy"), ("z.tsv.gz", "csv")]
    assert names(folder) == expected
    assert names(str(folder)) == expected


def test_a_format_that_is_said_holds_for_all_files(folder):
    assert ("notes.md", "csv") in names(folder, "csv")
    assert {format for _, format in names(folder, "csv")} == {"csv"}


def test_patterns(folder):
    assert names(f"{folder}/*.csv") == [("b.csv", "csv")]
    assert names(f"{folder}/**/*.npy") == [("d.npy", "npy")]
    assert names([f"{folder}/b*", folder / "a.parquet"]) == [("b.csv", "csv"), ("a.parquet", "parquet")]


def test_a_name_with_a_bracket_is_a_name_first(tmp_path):
    (tmp_path / "x[1].csv").write_text("x\n1\n")
    (tmp_path / "x1.csv").write_text("x\n1\n")
    assert names(str(tmp_path / "x[1].csv")) == [("x[1].csv", "csv")]


@pytest.mark.parametrize("ending", sorted(formats_by_ending()))
def test_endings(tmp_path, ending):
    (tmp_path / f"x{ending}").write_bytes(b"")
    assert names(tmp_path / f"x{ending}") == [(f"x{ending}", formats_by_ending()[ending])]


def test_a_file_whose_name_does_not_tell_is_known_by_its_first_bytes(tmp_path):
    table = pa.table({"x": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "parquet")
    np.save(tmp_path / "npy.npy", np.array([[1.0], [2.0]]))
    (tmp_path / "npy.npy").rename(tmp_path / "npy")
    for ending, name in ((".arrow", "ipc file"), (".arrows", "ipc stream"), (".csv.gz", "zipped")):
        write(tmp_path / f"x{ending}", {"x": [1.0, 2.0]}).rename(tmp_path / name)
    for name in ("parquet", "npy", "ipc file", "ipc stream", "zipped"):
        assert read_nodes(tmp_path / name).points.tolist() == [[1.0], [2.0]]
    (tmp_path / "text").write_text("x\n1\n")
    with pytest.raises(InputError, match=r"Cannot infer a format for .*text; pass format \(--format\)"):
        find_sources(tmp_path / "text", None)
    assert read_nodes(tmp_path / "text", format="csv").points.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ([], "No input file was given"),
        (["nothing.csv"], "There is no file nothing.csv"),
        (["nothing*.csv"], r"No file matches the pattern nothing\*.csv"),
        (["-", "x.csv"], "cannot be read together"),
        (["b.csv", "./b.csv"], "b.csv was given twice"),
        (["b.csv", "sub/../b.csv"], "b.csv was given twice"),
        (["b.csv", "."], "b.csv was given twice"),
        (["empty"], "empty contains no file that ends in .parquet"),
    ],
)
def test_errors(folder, monkeypatch, inputs, match):
    monkeypatch.chdir(folder)
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match=match):
        find_sources(inputs, None)


def test_an_unknown_format():
    with pytest.raises(InputError, match="Unknown format 'xlsx'; use one of parquet, csv, ipc, npy"):
        find_sources("x", "xlsx")


def test_standard_input_and_sizes(folder):
    (source,) = find_sources("-", None)
    assert (str(source), source.size, source.format) == ("standard input", None, "csv")
    (source,) = find_sources(folder / "b.csv", None)
    assert (str(source), source.size) == (str(folder / "b.csv"), 4)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=Path.write_text, args=(tmp_path / "pipe", "x,y\n1,2\n3,4\n"))
    writer.start()
    assert read_nodes(tmp_path / "pipe").points.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    writer.join()
