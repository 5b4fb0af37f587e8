"""All files are looked at before the first one is read."""

import os

import numpy as np
import pyarrow as pa
import pytest
from commands import error_line
from commands import probi as command
from table_files import assert_same, write

import probi.io
from probi import InputError, Nodes
from probi.io.formats import csv_file
from probi.io.reader import Reader

COLUMNS = {"id": [1, 1, 2], "x": [0.5, 1.0, 2.0], "p": [0.5, 0.5, 1.0]}
OTHERS = {
    "renamed": ({"id": [1], "lon": [0.5], "p": [1.0]}, "has no column 'x', which {first} has. It has lon instead."),
    "without": ({"id": [1], "x": [0.5]}, "has no column 'p', which {first} has."),
    "text": ({"id": [1], "x": ["a"], "p": [1.0]}, "has text in column 'x', where {first} has numbers."),
    "other ids": ({"id": ["a"], "x": [0.5], "p": [1.0]}, "has text in column 'id', where {first} has "),
}


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "arrow", "arrows"])
@pytest.mark.parametrize("what", OTHERS)
def test_what_is_wrong_in_the_last_file_is_said_at_once(tmp_path, capsys, what, ending):
    paths = [write(tmp_path / f"{i}.{ending}", COLUMNS) for i in range(4)]
    columns, says = OTHERS[what]
    write(paths[-1], columns)
    expected = f"{paths[-1]} {says.format(first=paths[0], last=paths[-1])}"
    with pytest.raises(InputError) as caught:
        probi.io.read(tmp_path)
    assert str(caught.value).startswith(expected)
    skips = ending.startswith("csv") and what in ("text", "other ids")  # and names each of these rows
    for name, *options in (("info",), ("cluster", "-k", 1), *([] if skips else [("check",)])):
        assert error_line(command(capsys, name, tmp_path, *options, "-q")).startswith(expected)


def test_rows_that_are_to_be_skipped_are_no_other_kind(tmp_path):
    """A sensor that says nothing at first."""
    write(tmp_path / "0.csv", {"x": [1.0, 2.0]})
    write(tmp_path / "1.csv", {"x": ["off"] * 2000 + [3.0] * 19_000})
    with pytest.raises(InputError, match=r"1\.csv has text in column 'x'"):
        probi.io.read(tmp_path)
    assert sum(len(nodes) for nodes in probi.io.read(tmp_path, on_bad="skip")) == 19_002


def test_another_precision_is_said_at_once(tmp_path):
    write(tmp_path / "0.parquet", {"x": pa.array([1.0], pa.float32())})
    write(tmp_path / "1.parquet", {"x": [1.0]})
    with pytest.raises(InputError, match=r"1\.parquet has features in float64, but .*0\.parquet in float32"):
        probi.io.read(tmp_path)
    assert probi.io.read(tmp_path, dtype="float64").dtype == "float64"


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_what_is_not_another_kind(tmp_path, ending):
    """More columns, another order, whole numbers, ids that look like numbers in text, no rows."""
    first = {"id": ["a", "a"], "x": [0.5, 1.0], "p": [0.5, 0.5]}
    others = [
        {"p": [1], "more": ["z"], "x": [3], "id": ["b"]},
        {name: [] for name in first} if ending == "csv" else {"id": ["d"], "x": [0.5], "p": [1.0]},
        {"id": ["7"], "x": [0.5], "p": [1.0]},
    ]
    for i, columns in enumerate([first, *others]):
        write(tmp_path / f"{i}.{ending}", columns)
    assert sum(len(nodes) for nodes in probi.io.read(tmp_path)) >= 3


def test_a_file_that_is_no_file_is_not_touched(tmp_path):
    """A pipe can be read only once."""
    write(tmp_path / "0.csv", {"x": [1.0]})
    os.mkfifo(tmp_path / "1.csv")
    reader = probi.io.read([tmp_path / "0.csv", tmp_path / "1.csv"])
    assert len(reader.sources) == 2


def test_only_the_start_of_a_text_is_read(tmp_path, monkeypatch):
    write(tmp_path / "0.csv", {"x": [1.0]})
    write(tmp_path / "1.csv", {"x": np.arange(200_000.0)})
    read = []
    first_block = csv_file._first_block
    monkeypatch.setattr(csv_file, "_first_block", lambda *how: read.append(first_block(*how)) or read[-1])
    probi.io.read(tmp_path)
    assert max(map(len, read)) <= 1 << 12


def test_a_second_reader_infers_nothing(tmp_path, monkeypatch):
    write(tmp_path / "0.csv", {"id": [1, 2], "x": [1.5, 2.5]}, delimiter=";")
    write(tmp_path / "1.csv", {"id": [3, 4], "x": [3.5, 4.5]}, delimiter="|")
    first = probi.io.read(tmp_path)
    expected = Nodes.concat(list(first))

    def fail(*arguments):
        raise AssertionError("inferred again")

    monkeypatch.setattr(csv_file, "_infer_delimiter", fail)
    monkeypatch.setattr(csv_file.CsvFile, "_infer_type", fail)
    monkeypatch.setattr(csv_file.CsvFile, "_is_number", fail)  # which tells a header
    second = Reader(first.sources, first.options, first.known())
    assert_same(Nodes.concat(list(second)), expected)


def test_the_first_lines_are_parsed_once(tmp_path, monkeypatch):
    path = write(tmp_path / "x.csv", {"id": ["a", "b"], "x": [1.5, 2.5]})
    parsed = []
    read = csv_file.CsvFile._read
    monkeypatch.setattr(csv_file.CsvFile, "_read", lambda *how: parsed.append(1) or read(*how))
    reader = probi.io.read(path)
    assert len(parsed) == 1
    Reader(reader.sources, reader.options, reader.known()).opened(0)
    assert len(parsed) == 1
