"""CSV as it is found in the wild."""

import re

import numpy as np
import pytest
from table_files import assert_same, batches_of, joined, read_nodes, write

import probi.io
from probi import Nodes
from probi.errors import InputError
from probi.io.formats import csv_file as csv_reader
from probi.io.formats.csv_file import _last_line_end


@pytest.fixture(params=[(1 << 22, 1 << 19), (70, 1 << 19), (16, 1 << 19), (1, 1 << 19), (1 << 22, 1)])
def block(request, monkeypatch):
    for name, value in zip(("BLOCK", "MAX_LINES"), request.param, strict=True):
        monkeypatch.setattr(csv_reader, name, value)
    return request.param


@pytest.fixture
def file(tmp_path):
    def make(text, name="x.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return make


THREE = Nodes([[1.0, 2.0], [3.0, 4.5], [-1000.0, 0.25]], None, [0, 1, 2, 3])
ROWS = ["x,y", "1,2", "3,4.5", "-1e3,.25"]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(ROWS), "\n".join(ROWS) + "\n", "\r\n".join(ROWS) + "\r\n", "\r\n".join(ROWS),
        "\ufeff" + "\n".join(ROWS), "\n\n".join(ROWS) + "\n\n\n", "\r\n\r\n".join(ROWS), "\n\n" + "\n".join(ROWS),
        "\ufeff\r\n" + "\r\n".join(ROWS), "\n".join(ROWS).replace(",", ";"), "\n".join(ROWS).replace(",", "\t"),
        "\n".join(ROWS).replace(",", "|"), "\n".join(ROWS).replace(",", " , "), "\n".join(ROWS[1:]),
        '"x","y"\n"1","2"\n"3","4.5"\n"-1e3",".25"\n', "\n".join(ROWS).replace("x,y", " x , y "),
        "x,note,y\n1,äöü,2\n3,,4.5\n-1e3,NA,.25",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("block")
def test_ways_to_write_the_same(file, text):
    assert_same(read_nodes(file(text)), THREE)


def test_a_file_without_names(file):
    path = file("1,2\n3,4\n")
    assert probi.io.read(path).columns.features == ("x0", "x1")
    assert len(read_nodes(path)) == 2
    assert read_nodes(path, header=True).points.tolist() == [[3.0, 4.0]]
    with pytest.raises(InputError, match=r"row 1 .* has 'x' in column 'x0'"):
        read_nodes(file("x,y\n1,2\n3,4\n"), header=False, features=["x0", "x1"])


def test_a_delimiter_that_is_said(file):
    assert read_nodes(file("x y\n1 2\n"), delimiter=" ").points.tolist() == [[1.0, 2.0]]
    assert read_nodes(file("x\ty\n1\t2\n", "a.tsv")).points.tolist() == [[1.0, 2.0]]
    with pytest.raises(InputError, match="delimiter '::' is not a single ASCII character"):
        read_nodes(file("x::y\n"), delimiter="::")


def test_a_delimiter_between_quotes_is_none(file):
    path = file('"x,a,b";y\n1;2\n')
    assert probi.io.read(path).columns.features == ("x,a,b", "y")


@pytest.mark.usefixtures("block")
def test_quotes_with_commas_and_line_ends_in_them(file):
    ids = ['a,"b"', "two\nlines", "\n", "three\r\n\nlines,", "plain", '""', "x" * 200 + "\n" + "y" * 200]
    text = 'id,"x\nz",p\n' + "".join(f'"{id.replace(chr(34), chr(34) * 2)}",{i},0.5\n' * 2 for i, id in enumerate(ids))
    nodes = read_nodes(file(text))
    assert nodes.ids.tolist() == ids
    assert nodes.points[:, 0].tolist() == [float(i) for i in range(len(ids)) for _ in range(2)]
    assert nodes.offsets.tolist() == list(range(0, 2 * len(ids) + 1, 2))


@pytest.mark.usefixtures("block")
def test_the_line_of_a_row_after_lines_between_quotes(file):
    text = 'id,x,p\n"one\nor\ntwo",1,1\n\nb,2,1\nc,bad,1\n"\n",3,1\nd,4,-1\n'
    batches = batches_of(file(text), on_bad="skip")
    assert [(r.row, r.line) for b in batches for r in b.rejected] == [(3, 7), (5, 10)]


def test_the_last_line_end():
    def naive(data):
        ends = [i + 1 for i in range(len(data)) if data[i : i + 1] == b"\n" and data[:i].count(b'"') % 2 == 0]
        return max(ends, default=0)

    draw = np.random.default_rng(0)
    for _ in range(300):
        data = bytes(draw.choice(list(b'ab\n\n"'), draw.integers(0, 12)).tolist())
        assert _last_line_end(data) == naive(data), data


@pytest.mark.parametrize(
    "ids", ["007 7 07", "1.10 1.1 1.100", "12e4 120000 1.2e5", "0x10 16 +16", "-0 0 00", "1_0 10 010"]
)
@pytest.mark.usefixtures("block")
def test_ids_that_look_like_numbers_stay_what_they_are(file, ids):
    text = "id,x,p\n" + "".join(f"{id},1,1\n" for id in ids.split())
    assert read_nodes(file(text)).ids.tolist() == ids.split()


def test_plain_whole_numbers_are_numbers(file):
    nodes = read_nodes(file("id,x,p\n-5,1,1\n0,2,1\n999999999999999999,2,1\n"))
    assert nodes.ids.dtype == np.int64
    assert nodes.ids.tolist() == [-5, 0, 999999999999999999]


@pytest.mark.usefixtures("block")
def test_ids_beyond_64_bits_are_text(file):
    ids = ["12345678901234567890", "12345678901234567891", "9223372036854775808"]
    assert read_nodes(file("id,x,p\n" + "".join(f"{id},1,1\n" for id in ids))).ids.tolist() == ids


@pytest.mark.parametrize("late", ["007", "-01", "00", "1.5", "12345678901234567890", "A7", "1e3"])
def test_an_id_that_is_no_plain_number_only_later(file, monkeypatch, late):
    """The first rows say that ids are whole numbers: 007 must not become 7 then, but be told."""
    monkeypatch.setattr(csv_reader, "BLOCK", 64)
    path = file("id,x,p\n" + "".join(f"{i},1,1\n" for i in range(40)) + f"{late},1,1\n99,1,1\n")
    with pytest.raises(
        InputError, match=rf"row 41 \(line 42\) has '{re.escape(late)}' in column 'id', .* whole number"
    ):
        read_nodes(path)
    batches = batches_of(path, on_bad="skip")
    assert joined(batches).ids.tolist() == [*range(40), 99]


@pytest.mark.usefixtures("block")
def test_spaces_belong_to_text_and_not_to_numbers(file):
    """Whether the rows beside it are good or bad."""
    for bad in ("", "b, bad ,1\n"):
        batches = batches_of(file("id,x,p\n a, 1 ,0.5\na, 2,0.5\n" + bad + "c,\t3 ,0.5\n"), on_bad="skip")
        assert joined(batches).ids.tolist() == [" a", "a", "c"]
        assert joined(batches).points[:, 0].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("text", ["", "NA", "NaN", "nan", "N/A", "null", "NULL", '""', "  "])
@pytest.mark.usefixtures("block")
def test_what_counts_as_missing(file, text):
    for bad in ("", "9,bad\n"):
        batches = batches_of(file(f"x,y\n1,2\n5,{text}\n{bad}3,4\n5,6\n7,8\n"), missing="skip-row", on_bad="skip")
        assert joined(batches).points[:, 1].tolist() == [2, 4, 6, 8]
        assert (batches[-1].counts.missing, batches[-1].counts.rejected) == (1, int(bool(bad)))


def test_whole_numbers_first_and_others_later(file, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK", 64)
    text = "x,y\n" + "1,2\n" * 100 + "0.5,1e-3\n" + "99999999999999999999,2\n"
    nodes = read_nodes(file(text))
    assert nodes.points[-2:].tolist() == [[0.5, 1e-3], [1e20, 2.0]]
    assert len(nodes) == 102


@pytest.mark.parametrize("bad", ["1,zwei", "1", "1,2,3", "1,inf", "1,"])
def test_a_bad_row_in_a_later_block(file, monkeypatch, bad):
    monkeypatch.setattr(csv_reader, "BLOCK", 64)
    path = file("x,y\n\n" + "1,2\n" * 60 + "\n\n" + bad + "\n" + "1,2\n" * 60)
    with pytest.raises(InputError, match=r"x\.csv, row 61 \(line 65\) (of node \S+ )?has"):
        read_nodes(path)
    batches = batches_of(path, on_bad="skip")
    assert [(r.row, r.line) for b in batches for r in b.rejected] == [(61, 65)]
    assert len(joined(batches)) == 120


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "the file is empty"),
        ("\n\n  \n", "the file is empty"),
        ("x,x\n1,2\n", "duplicate column name 'x' in the header"),
        ("x,,y\n1,2,3\n", "column 2 has no name in the header"),
        (b"\xe4,y\n1,2\n", "header .* is not text in UTF-8"),
        ("x,y\n1,2\n".encode("utf-16"), "not text in UTF-8"),
        ("x,y\n1,2\n".encode("utf-16-le"), "not text in UTF-8"),
        ("x,y\r1,2\r3,4\r", "end with a carriage return only"),
        ("a,b\nu,v\n", "no features"),
        ('"x,y\n1,2\n3,4\n', "unexpected end of data"),
    ],
)
def test_files_that_are_refused(file, text, match):
    with pytest.raises(InputError, match=rf"x\.csv.*({match})"):
        read_nodes(file(text))


def test_bytes_that_are_no_utf8(file):
    text = b"id,x,note,p\na,1,\xff,1\n\xe4\xf6,2,,1\nb,3,,1\nc,4\xff,,1\n\xe4,5,6,7,8\nd,6,,1\n"
    batches = batches_of(file(text), on_bad="skip")
    assert joined(batches).ids.tolist() == ["a", "b", "d"]  # what stands in a column that is not read does not matter
    reasons = {r.row: r.reason for b in batches for r in b.rejected}
    assert "which is not text in UTF-8" in reasons[2]
    assert "in column 'x', which is not a number" in reasons[4]
    assert reasons[5] == "has 5 cells instead of 4"


def test_a_quote_that_never_closes(file):
    path = file('id,x,p\na,1,1\n"b,2,1\nc,3,1\n')
    with pytest.raises(InputError, match=r"x\.csv, row 2 \(line 3\) has 1 cells instead of 3"):
        read_nodes(path)
    assert read_nodes(path, on_bad="skip").ids.tolist() == ["a"]


@pytest.mark.parametrize("row", ['b,"' + "1\n" * 4000, "b," + "1" * 8000])
def test_a_line_longer_than_the_limit(file, monkeypatch, row):
    monkeypatch.setattr(csv_reader, "BLOCK", 512)
    monkeypatch.setattr(csv_reader, "LONGEST_LINE", 4096)
    with pytest.raises(InputError, match=r"x\.csv: a line, or a quote that does not close, is longer"):
        read_nodes(file("id,x\na,1\n" + row), layout="long")


def test_a_first_row_longer_than_a_block(file, monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK", 32)
    points = [[float(i), 0.5] for i in range(100)]
    nodes = read_nodes(file(f'points\n"{points}"\n"[[1, 2]]"\n'))
    assert nodes.points.tolist() == [*points, [1.0, 2.0]]


def test_few_bad_lines_are_parsed_before_the_first_is_told(file, monkeypatch):
    """Millions of them, of a small compressed file, took 14 seconds and a gigabyte."""
    monkeypatch.setattr(csv_reader, "MAX_LINES", 10)
    blocks = []
    texts = csv_reader.CsvFile._texts
    monkeypatch.setattr(
        csv_reader.CsvFile, "_texts", lambda self, *given: blocks.append(given[0]) or texts(self, *given)
    )
    with pytest.raises(InputError, match=r"row 2 \(line 3\)"):
        read_nodes(file("x,y\n1,2\n" + "1\n" * 50_000))
    assert sum(map(len, blocks[1:])) < 1000


@pytest.mark.slow
def test_many_lines_after_a_quote_take_no_quadratic_time(file):
    """A quote that is not closed for a whole block: each of its line ends was counted from the start."""
    data = b'5" pipe,1\n' + b"a,1\n" * 500_000
    assert _last_line_end(data) == 0


@pytest.mark.parametrize("text", ["[1, 2", "[1, [2]]", '["a"]', "{}", "1", "[[1]]", "nix"])
def test_lists_that_are_none(file, text):
    path = file(f'x\n"[1, 2]"\n"[3]"\n"{text.replace(chr(34), chr(34) * 2)}"\n')
    with pytest.raises(InputError, match=r"row 3 \(line 4\) has .* in column 'x', which is not a list of numbers"):
        read_nodes(path)
    assert read_nodes(path, on_bad="skip").points[:, 0].tolist() == [1.0, 2.0, 3.0]


def test_files_are_closed(file):
    """Also where nobody reads on, or reading ends with an error: an unclosed one is a warning, and that an error."""
    path = file("x,y\n1,2\n1,2\n3,bad\n")
    probi.io.read(path)
    with pytest.raises(InputError):
        read_nodes(path)
    with pytest.raises(InputError):
        probi.io.read(file("x,x\n", "y.csv"))
    next(iter(probi.io.read(file("x,y\n" + "1,2\n" * 10, "z.csv"))))


# -- decimal commas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["x;y;n\n", ""])
@pytest.mark.parametrize("bad", ["", "-1.234;1;1\n", "red;1;1\n"])
def test_decimal_commas(tmp_path, header, bad):
    """With a point, as in thousands, a cell is no number, whatever stands beside it."""
    path = tmp_path / "x.csv"
    path.write_text(header + "1,5;2;1e-1\n" * 3 + bad + "-3,25;4,5;7\n")
    batches = batches_of(path, decimal=",", on_bad="skip", features=None)
    assert joined(batches).points.tolist() == [[1.5, 2.0, 0.1]] * 3 + [[-3.25, 4.5, 7.0]]
    assert batches[-1].counts.rejected == int(bool(bad))


def test_decimal_commas_that_nobody_told_of(tmp_path):
    path = tmp_path / "x.csv"
    comma = "Column 'x' holds '1,5': if that is a decimal comma, pass --decimal ','."
    for text, match in [
        ("x;y\n1,5;2,5\n3,5;4,5\n", rf"There are no features.* The columns are x \(string\), y \(string\)\. {comma}"),
        ("x;n\n1,5;2\n3,5;4\n", comma),  # not silently n alone
        ("a:b\nu:v\n", r"The columns are a:b \(string\)\. Cells were taken to end with ',': .* --delimiter"),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=match):
            probi.io.read(path)
    path.write_text("x;n\n1,5;2\n3,5;4\n")
    assert probi.io.read(path, features=["n"]).columns.features == ("n",)
    for options, match in [
        ({"decimal": ";"}, "must be a point or a comma"),
        ({"decimal": ",", "delimiter": ","}, "cannot both separate cells and be the decimal sign"),
    ]:
        with pytest.raises(InputError, match=match):
            probi.io.read(path, **options)


def test_texts_that_are_numbers_after_all(tmp_path):
    """Beside a bad cell all are looked at one by one; what is a number stays one, as it was written."""
    cells = ["1", "+2", " 3 ", "-4.", ".5", "6e1", "1e400", "nan", "NA", "", "٣"]
    path = write(tmp_path / "x.csv", {"x": [*cells, "red", "1_0"], "y": [0] * (len(cells) + 2)})
    batches = batches_of(path, on_bad="skip", missing="skip-row")
    assert joined(batches).points[:, 0].tolist() == [1, 2, 3, -4, 0.5, 60, 3]
    assert batches[-1].counts.left_out == {
        "infinite in column 'x'": 1, "no value in column 'x'": 3, "not a number in column 'x'": 2
    }  # fmt: skip


def test_lines_after_a_quote_within_a_cell(file):
    # A quote opens a cell only at its start: here no line end is in quotes.
    path = file('name,x\n5" pipe,1\nrod,2\nnut,inf\nrod,3\nrod,\n')
    *_, last = batches_of(path, features=["x"], on_bad="skip", max_bad=1.0)
    assert [(row.row, row.line) for row in last.rejected] == [(3, 4), (5, 6)]
