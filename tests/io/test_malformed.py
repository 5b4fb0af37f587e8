"""Malformed inputs, each made by a small function: exit code 2, and one sentence with the file and the row."""

import gzip
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import error_line, probi
from table_files import write

from probi import Nodes, Summary


class Bad(NamedTuple):
    """An input: a function that makes it, the row to blame, what the message says, options of the command."""

    make: Any
    row: int | None
    says: str
    options: tuple[str, ...]
    line: int | None


CORPUS: list[Bad] = []


def bad(says, *options, row=None, line=None):
    def add(make):
        CORPUS.append(Bad(make, row, says, options, line))
        return make

    return add


def bad_text(name, text, says, *options, row=None, line=None, file="x.csv"):
    """A malformed file of text."""

    def make(folder):
        data = text.encode() if isinstance(text, str) else text
        (folder / file).write_bytes(data)
        return folder / file

    make.__name__ = name
    bad(says, *options, row=row, line=line)(make)


def bad_table(name, columns, says, *options, row=None, file="x.parquet"):
    """A malformed table in Parquet, or in the format that the name says."""

    def make(folder):
        return write(folder / file, columns)

    make.__name__ = name
    bad(says, *options, row=row)(make)


# -- text ------------------------------------------------------------------------------------------------------------

POINTS = "x,y\n" + "1,2\n3,4\n" * 20
LONG = ("--layout", "long", "--id", "id")

bad_text("too_few_cells", "x,y\n1,2\n3,4\n5\n6,7\n", "has 1 cells instead of 2", row=3, line=4)
bad_text("too_many_cells", "x,y\n1,2\n3,4,5\n6,7\n", "has 3 cells instead of 2", row=2, line=3)
bad_text("too_few_cells_after_blank_lines", "x,y\n\n1,2\n\n\n3\n", "has 1 cells", row=2, line=6)
bad_text("latin1_in_a_feature", b"x,y\n1,2\n3,4\n5,6\xe9\n7,8\n", "in column 'y', which is not a number", row=3)
bad_text("latin1_in_an_id", b"id,x,p\na,1,1\nb\xe9,2,1\n", "in column 'id', which is not text in UTF-8", row=2)
bad_text("latin1_in_the_header", b"x,h\xf6he\n1,2\n3,4\n", "is not text in UTF-8", row=0)
bad_text("utf16", POINTS.encode("utf-16"), "not text in UTF-8", row=1)
bad_text("utf16_without_a_mark", POINTS.encode("utf-16-le"), "not text in UTF-8", row=1)
bad_text("zeros_called_csv", bytes(5000), "not text in UTF-8", row=1)
bad_text("empty_csv", "", "the file is empty")
bad_text("blank_lines_only", "\n\n\r\n\n", "the file is empty")
bad_text("a_mark_of_utf8_only", b"\xef\xbb\xbf", "the file is empty")
bad_text("a_header_only", "x,y\n", "has no rows")
bad_text("a_header_without_line_end", "x,y", "has no rows")
bad_text("mixed_types", "x,y\n1,2\nred,4\n5,6\n7,8\n", "has 'red' in column 'x', which is not a number", row=2)
bad_text("text_in_a_late_row", "x,y\n" + "1,2\n" * 4998 + "7,high\n1,2\n", "has 'high'", row=4999, line=5000)
bad_text("one_row", "x,y\n1,2\n", "has 1 node, too few")
bad_text("1e300", "x,y\n1,2\n3,1e300\n4,5\n", "so large that distances overflow", row=2)
bad_text("1e400", "x,y\n1,2\n3,4\n1e400,5\n", "has inf in column 'x'", row=3)
bad_text("nan", "x,y\n1,2\nnan,4\n3,4\n", "has no value in column 'x'", row=2)
bad_text("minus_inf", "x,y\n1,2\n3,-inf\n3,4\n", "has -inf in column 'y'", row=2)
bad_text("an_empty_cell", "x,y\n1,2\n3,\n4,5\n", "has no value in column 'y'", row=2)
bad_text("a_quote_that_never_closes", 'x,y\n1,2\n3,"4\n5,6\n', "has", row=2)
bad_text("old_mac_line_ends", "x,y\r1,2\r3,4\r", "carriage return")
bad_text("a_column_name_twice", "x,y,x\n1,2,3\n4,5,6\n", "duplicate column name 'x'", row=0)
bad_text("a_column_without_a_name", "x,,y\n1,2,3\n4,5,6\n", "column 2 has no name", row=0)
bad_text("no_column_of_numbers", "name,color\na,red\nb,blue\n", "There are no features")
bad_text("an_unknown_feature", POINTS, "There is no column 'z'", "--features", "x,z")
bad_text("an_unknown_id", POINTS, "There is no column 'z'", "--id", "z")
bad_text("an_unknown_probability", POINTS, "There is no column 'z'", "--probability", "z")
bad_text("an_unknown_weight", POINTS, "There is no column 'z'", "--weight", "z")
bad_text("an_unknown_longitude", POINTS, "no feature 'lon'", "--lonlat", "lon,y")
bad_text("long_without_an_id", POINTS, "--id", "--layout", "long")
bad_text("groups_without_a_size", POINTS, "--group-size", "--layout", "groups")
bad_text("too_few_rows_for_a_group", POINTS, "has 40 rows, but none can be used", "--group-size", "50")
bad_text("a_delimiter_of_two_signs", POINTS, "not a single ASCII character", "--delimiter", "::")
bad_text("nested_json_that_does_not_parse", 'id,x,p\n1,"[1]","[1]"\n2,"[1, 2","[0.5, 0.5]"\n3,"[2]","[1]"\n',
         "which is not a list of numbers", row=2)  # fmt: skip
bad_text("a_format_that_nobody_knows", POINTS, "--format", file="x.dat")
bad_text("text_called_parquet", POINTS, "cannot be read as parquet", file="x.parquet")
bad_text("text_called_arrow", POINTS, "cannot be read as ipc", file="x.arrow")
bad_text("text_called_npy", POINTS, "this is not an NPY file", file="x.npy")
for ending in ("parquet", "arrow", "arrows"):
    bad_text(f"empty_{ending}", "", "cannot be read as", file=f"x.{ending}")
bad_text("empty_npy", "", "this is not an NPY file", file="x.npy")
bad_text("empty_gz", "", "the file is empty", file="x.csv.gz")
bad_text("gz_of_nothing", gzip.compress(b""), "the file is empty", file="x.csv.gz")
bad_text("truncated_gz", gzip.compress(POINTS.encode() * 500)[:-40], "damaged or cut off", file="x.csv.gz")
bad_text("gz_with_a_bad_checksum", gzip.compress(POINTS.encode())[:-8] + bytes(8), "damaged", file="x.csv.gz")


# -- values ----------------------------------------------------------------------------------------------------------

X = [0.0, 1.0, 2.0, 9.0, 8.0]
IDS = ["a", "a", "b", "c", "c"]
HALVES = [0.5, 0.5, 1.0, 0.5, 0.5]
TABLE = {"id": IDS, "x": X, "p": HALVES}
MIXED = {"id": ["a", "b", "a", "b"], "x": X[:4], "p": [0.5] * 4}
LISTS = {"x": [[1.0], [2.0, 3.0], [4.0]], "y": [[1.0], [2.0, 3.0], [4.0]], "p": [[1.0], [0.5, 0.5], [1.0]]}
PAIRS = [[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]

for file in ("x.parquet", "x.csv", "x.arrow"):
    kind = file[2:]
    bad_table(f"a_negative_probability_{kind}", TABLE | {"p": [0.5, 0.5, 1.0, 0.5, -0.5]},
              "has -0.5 in column 'p', which must not be negative", row=5, file=file)  # fmt: skip
    bad_table(f"probabilities_above_1_{kind}", TABLE | {"p": [0.5, 0.5, 1.0, 0.7, 0.5]},
              "whose probabilities sum to 1.2, above 1", row=4, file=file)  # fmt: skip
    bad_table(f"rows_that_do_not_stand_together_{kind}", MIXED, "--gather", row=3, file=file)
bad_table("a_probability_above_1", TABLE | {"p": [0.5, 0.5, 1.5, 0.5, 0.5]}, "above 1", row=3)
bad_table("probabilities_all_0", TABLE | {"p": [0.5, 0.5, 1.0, 0.0, 0.0]}, "all 0", row=4)
bad_table("a_probability_that_is_missing", TABLE | {"p": [0.5, None, 1.0, 0.5, 0.5]}, "no value in column 'p'", row=2)
bad_table("an_id_that_is_missing", TABLE | {"id": ["a", "a", None, "c", "c"]}, "has no id in column 'id'", row=3)
bad_table(
    "a_negative_weight", {"x": X, "w": [1.0, 2.0, -1.0, 1.0, 1.0]}, "has -1 in column 'w'", "--weight", "w", row=3
)
bad_table("weights_that_differ", TABLE | {"weight": [1.0, 1.0, 2.0, 1.0, 3.0]}, "has weight 3, but its", row=5)
bad_table("huge_in_parquet", {"x": [1.0, 1e300, 2.0]}, "so large that distances overflow", row=2)
bad_table("null_in_parquet", {"x": [1.0, 2.0, None]}, "has no value in column 'x'", row=3)
bad_table("text_among_named_features", {"x": ["1", "two", "3"]}, "has 'two'", "--features", "x", row=2)
bad_table("dates_as_features", {"x": pa.array([1, 2], pa.date32())}, "cannot be a feature", "--features", "x")
bad_table("no_rows_parquet", {"x": pa.array([], "double")}, "has no rows")
bad_table("no_rows_arrow", {"x": pa.array([], "double")}, "has no rows", file="x.arrow")
bad_table("no_columns", {}, "There are no features")
bad_table(
    "lists_of_unequal_length", LISTS | {"y": [[1.0], [2.0, 3.0, 4.0], [4.0]]}, "has 3 values in column 'y'", row=2
)
bad_table("a_list_of_probabilities_too_short", LISTS | {"p": [[1.0], [0.5], [1.0]]}, "1 values in column 'p'", row=2)
bad_table("an_empty_list", LISTS | {"x": [[1.0], [2.0, 3.0], []]}, "an empty list in column 'x'", row=3)
bad_table("a_null_list", LISTS | {"x": [[1.0], None, [4.0]]}, "has no list in column 'x'", row=2)
bad_table("a_null_in_a_list", LISTS | {"x": [[1.0], [2.0, None], [4.0]]}, "no value in column 'x'", row=2)
bad_table("points_of_other_dimension", {"points": [*PAIRS[:2], [[5.0]]]}, "a point with 1 coordinates, not 2", row=3)
bad_table("a_null_point", {"points": [*PAIRS[:2], [None]]}, "a point with no coordinates", row=3)
bad_table("latitude_91", {"lon": [1.0, 2.0], "lat": [90.0, 91.0]}, "between -90 and 90", "--lonlat", "lon,lat", row=2)
bad_table("longitude_361", {"lon": [361.0, 2.0], "lat": [9.0, 9.0]}, "-360 and 360", "--lonlat", "lon,lat", row=1)
bad_table("structs", {"x": [{"a": 1}, {"a": 2}]}, "There are no features")


@bad("of more than 100,000 rows", "--layout", "long", row=4)
def a_node_of_a_million_rows(folder):
    ids = np.concatenate([[1, 1, 2], np.full(1_000_000, 3), [4]])
    return write(folder / "x.parquet", {"id": ids, "x": np.arange(len(ids)) % 7.0}, step=1 << 17)


@bad("Duplicate column name")
def a_column_name_twice_in_parquet(folder):
    pq.write_table(pa.table([pa.array(X), pa.array(X)], ["x", "x"]), folder / "x.parquet")
    return folder / "x.parquet"


# -- damage ----------------------------------------------------------------------------------------------------------


def cut(path, keep):
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    return path


def flipped(path, *places):
    data = bytearray(path.read_bytes())
    for place in places:
        data[place] ^= 0xFF
    path.write_bytes(data)
    return path


@bad("cannot be read as parquet")
def truncated_parquet(folder):
    return cut(write(folder / "x.parquet", {"x": np.arange(1000.0)}), 0.6)


@bad("cannot be read as parquet")
def parquet_with_a_flipped_footer(folder):
    return flipped(write(folder / "x.parquet", {"x": np.arange(100.0)}), *range(-60, -10))


@bad("cannot be read as parquet")
def parquet_with_damaged_pages(folder):
    path = write(folder / "x.parquet", {"x": np.arange(1000.0)}, step=1000)
    return flipped(path, *range(4, 60))


@bad("cannot be read as ipc")
def truncated_ipc_file(folder):
    return cut(write(folder / "x.arrow", {"x": np.arange(1000.0)}), 0.6)


@bad("cannot be read as ipc")
def truncated_ipc_stream(folder):
    return cut(write(folder / "x.arrows", {"x": np.arange(1000.0)}, step=100), 0.55)


@bad("cannot be read as ipc")
def ipc_with_flipped_bytes(folder):
    return flipped(write(folder / "x.arrow", {"x": np.arange(100.0)}), *range(-120, -20))


@bad("it holds Python objects, which probi does not load")
def npy_with_pickled_objects(folder):
    np.save(folder / "x.npy", np.array([[Trap(str(folder / "trap"))]], object), allow_pickle=True)
    return folder / "x.npy"


def saved(folder, array):
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


@bad("not numbers")
def npy_of_strings(folder):
    return saved(folder, np.array([["a", "b"], ["c", "d"]]))


@bad("must be (rows, features)")
def npy_of_four_dimensions(folder):
    return saved(folder, np.zeros((2, 2, 2, 2)))


@bad("the file is cut off")
def truncated_npy(folder):
    return cut(saved(folder, np.zeros((500, 2))), 0.5)


@bad("the header is damaged")
def npy_with_a_damaged_header(folder):
    return flipped(saved(folder, np.zeros((500, 2))), *range(12, 40))


@bad("has no rows")
def npy_without_rows(folder):
    return saved(folder, np.zeros((0, 2)))


@bad("has no value in column 'x1'", row=2)
def npy_with_nan(folder):
    return saved(folder, np.array([[1, 2], [3, np.nan], [4, 5]]))


# -- names -----------------------------------------------------------------------------------------------------------


@bad("There is no file")
def a_missing_file(folder):
    return folder / "x.csv"


@bad("contains no file")
def a_folder_without_data(folder):
    (folder / "data").mkdir()
    (folder / "data" / "notes.md").write_text("nothing here")
    return folder / "data"


@bad("No file matches the pattern")
def a_pattern_without_a_match(folder):
    return folder / "part-*.csv"


@bad("contains no file")
def a_folder_called_csv(folder):
    (folder / "x.csv").mkdir()
    return folder / "x.csv"


@bad("given twice")
def the_same_file_twice(folder):
    path = write(folder / "x.csv", {"x": X})
    return [folder / "." / "x.csv", path]


@bad("has 'red' in column 'x'", row=2)
def the_second_file_has_a_bad_row(folder):
    return [write(folder / "x0.csv", {"x": X}), write(folder / "x.csv", {"x": [1.0, "red", 2.0]})]


@bad("has no column 'y'")
def the_second_file_lacks_a_column(folder):
    return [write(folder / "x0.csv", {"x": X, "y": X}), write(folder / "x.csv", {"x": X})]


# -- each of them ----------------------------------------------------------------------------------------------------


class Trap:
    """An object that writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def names(found):
    return found if isinstance(found, list) else [found]


@pytest.mark.slow
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.make.__name__)
def test_one_sentence_with_file_and_row(tmp_path, capsys, case):
    inputs = names(case.make(tmp_path))
    said = error_line(probi(capsys, "cluster", *inputs, "-k", "2", "-q", *case.options))
    assert str(inputs[-1]) in said
    assert case.says in said
    if case.row is not None:
        assert re.findall(r"\brow (\d+)\b", said)[0] == str(case.row)
    if case.line is not None:
        assert f"(line {case.line})" in said
    assert not (tmp_path / "trap").exists()


ROWS = [case for case in CORPUS if case.row and not case.make.__name__.startswith(("utf16", "zeros", "one_row"))]


@pytest.mark.slow
@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.make.__name__)
def test_check_names_the_row(tmp_path, capsys, case):
    inputs = names(case.make(tmp_path))
    ran = probi(capsys, "check", *inputs, "-q", *case.options)
    assert ran.code == 2
    if "of more than" in case.says:  # nothing can be left out there
        assert f"{inputs[-1]}, row {case.row} " in error_line(ran)
        return
    assert ran.err == ""
    assert re.search(rf"^{re.escape(str(inputs[-1]))}, row {case.row}\b.*", ran.out, re.M), ran.out
    assert case.says in ran.out or case.says == "--gather"


def test_the_corpus_is_large_and_in_all_formats(tmp_path):
    assert len(CORPUS) >= 80
    assert len({case.make.__name__ for case in CORPUS}) == len(CORPUS)
    endings = set()
    for i, case in enumerate(CORPUS):
        (tmp_path / str(i)).mkdir()
        endings |= {Path(name).suffix for name in names(case.make(tmp_path / str(i)))}
    assert endings >= {".csv", ".gz", ".parquet", ".arrow", ".arrows", ".npy"}


def test_the_trap_is_one(tmp_path):
    """Where pickles are allowed, the file is written: the test above can fail."""
    path = npy_with_pickled_objects(tmp_path)
    np.load(path, allow_pickle=True)
    assert (tmp_path / "trap").exists()


# -- other files than tables -----------------------------------------------------------------------------------------


def scale_file(folder, values):
    (folder / "scale.json").write_text(values if isinstance(values, str) else json.dumps(values))
    return folder / "scale.json"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"x": 1.0}, "no scale for the feature 'y'"),
        ({"x": 1.0, "y": "wide"}, "not a number"),
        ({"x": 1.0, "y": None}, "not a number"),
        ({"x": 1.0, "y": 0.0}, "positive"),
        ({"x": 1.0, "y": -2.0}, "positive"),
        ('{"x": 1.0, "y": NaN}', "positive"),
        ([1.0, 2.0], "JSON object"),
        ('{"x": 1', "cannot be read"),
    ],
)
def test_files_of_scales(tmp_path, capsys, values, says):
    data, scale = write(tmp_path / "x.csv", {"x": X, "y": X}), scale_file(tmp_path, values)
    said = error_line(probi(capsys, "cluster", data, "-k", "2", "-q", "--scale", scale))
    assert says in said
    assert str(scale) in said or str(data) in said


def test_a_scale_that_is_neither_a_word_nor_a_file(tmp_path, capsys):
    data = write(tmp_path / "x.csv", {"x": X})
    said = error_line(probi(capsys, "cluster", data, "-k", "2", "-q", "--scale", "normal"))
    assert "'normal': neither none, standard, robust nor a file" in said


def some_summary(path):
    summary = Summary(2, random_state=0)
    summary.update(Nodes.from_points(np.arange(20.0).reshape(-1, 1)))
    summary.save(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("command", ["solve", "info", "evaluate", "merge"])
@pytest.mark.parametrize("how", ["flipped", "cut", "text", "empty", "missing"])
def test_a_damaged_summary(tmp_path, capsys, command, how):
    path = some_summary(tmp_path / "x.probi")
    centers = write(tmp_path / "centers.csv", {"x0": [1.0, 2.0]})
    if how == "flipped":
        flipped(path, -300)
    elif how == "cut":
        cut(path, 0.5)
    elif how == "missing":
        path.unlink()
    else:
        path.write_text("x,y\n1,2\n" if how == "text" else "")
    options = {"solve": ["-k", 2], "evaluate": ["--centers", centers], "merge": ["-o", tmp_path / "y.probi"]}
    said = error_line(probi(capsys, command, path, *options.get(command, ()), "-q"))
    assert str(path) in said
    assert not (tmp_path / "y.probi").exists()


def damaged(folder):
    return cut(write(folder / "centers.parquet", {"x": X}), 0.7)


def other_metadata(folder):
    table = pa.table({"x": X}).replace_schema_metadata({"probi": '{"space": 3}'})
    pq.write_table(table, folder / "centers.parquet")
    return folder / "centers.parquet"


CENTERS = {
    "damaged": (damaged, "cannot be read"),
    "other metadata": (other_metadata, "cannot be read"),
    "text": (lambda folder: write(folder / "centers.csv", {"x": [1.0, "red"]}), "not a number"),
    "a missing value": (lambda folder: write(folder / "centers.parquet", {"x": [1.0, None]}), "not a number"),
    "infinite": (lambda folder: write(folder / "centers.parquet", {"x": [1.0, float("inf")]}), "not a number"),
    "no rows": (lambda folder: write(folder / "centers.parquet", {"x": pa.array([], "double")}), "no centers"),
    "no features": (lambda folder: write(folder / "centers.csv", {"cluster": [1, 2]}), "no features"),
    "missing": (lambda folder: folder / "centers.parquet", "There is no file"),
    "other features": (lambda folder: write(folder / "centers.csv", {"z": [1.0, 2.0]}), "'z'"),
}


@pytest.mark.parametrize("command", ["assign", "evaluate"])
@pytest.mark.parametrize("case", CENTERS)
def test_damaged_centers(tmp_path, capsys, case, command):
    make, says = CENTERS[case]
    (tmp_path / "in").mkdir()
    data, centers = write(tmp_path / "x.csv", {"x": X}), make(tmp_path / "in")
    output = ["-o", tmp_path / "out.parquet"] if command == "assign" else []
    said = error_line(probi(capsys, command, data, "--centers", centers, "-q", *output))
    assert says in said
    assert str(data if case == "other features" else centers) in said
    assert not (tmp_path / "out.parquet").exists()
