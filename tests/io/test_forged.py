"""Files that claim what they do not hold, or hold what nobody expects: one sentence that names the file."""

import gzip
import hashlib
import struct
import time
from io import BytesIO

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import error_line, probi
from table_files import write

from probi import InputError, Nodes, Summary, io
from probi.io.formats import csv_file, parquet
from probi.summary import claims, file
from probi.tables import columns, to_arrays


def npy(path, header, body=b"\0" * 64):
    text = header.encode("latin-1") + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body)
    return path


@pytest.mark.parametrize(
    ("descr", "shape"),
    [
        ("'<f8'", "(1000000000000, 4)"),
        ("'<f8'", "(-4, 4)"),
        ("'<f8'", "(4, -4)"),
        ("'<f8'", f"({10**30}, 4)"),
        ("'<f8'", f"(0, {2**63})"),
        ("'<f8'", f"({2**62}, 0)"),
        ("'|V0'", "(4, 4)"),
        ("[('a', '<c16')]", "(4,)"),
        ("[('a', '<f8', (2,))]", "(4,)"),
        ("[('a', [('b', '<f8')])]", "(8,)"),
        ("'<f16'", "(2, 2)"),
        ("(" * 300, "(2, 2)"),
    ],
)
def test_headers_of_npy(tmp_path, descr, shape):
    path = npy(tmp_path / "x.npy", f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
    with pytest.raises(InputError, match=r"x\.npy"):
        list(io.read(path))


def test_an_npy_file_that_is_cut_off_while_it_is_read(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((300_000, 8)))
    batches = iter(io.read(path))
    next(batches)
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match="the file is cut off"):
        list(batches)


@pytest.mark.parametrize("shape", [(7, 3), (5, 4, 3)])
def test_arrays_in_fortran_order(tmp_path, shape):
    array = np.random.default_rng(0).normal(size=shape)
    np.save(tmp_path / "x.npy", np.asfortranarray(array))
    (nodes,) = io.read(tmp_path / "x.npy")
    assert np.array_equal(nodes.points, array.reshape(-1, 3))


def test_names_of_fields_are_not_mistaken(tmp_path):
    array = np.zeros(3, [("größe", "<f8"), ("長さ", "<f8")])
    with pytest.warns(UserWarning, match="3.0"):
        np.save(tmp_path / "x.npy", array)
    assert io.read(tmp_path / "x.npy").columns.features == ("größe", "長さ")


def test_an_ipc_file_that_is_cut_off_while_it_is_read(tmp_path):
    path = tmp_path / "x.arrow"
    table = pa.table({"x": np.zeros(1_000_000), "y": np.zeros(1_000_000)})
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=100_000)
    batches = iter(io.read(path))
    next(batches)
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(InputError, match=r"x\.arrow cannot be read as ipc"):
        list(batches)


@pytest.mark.parametrize("options", [("--gather",), ("--missing", "skip-row", "--max-bad", "1")])
def test_text_of_polars(tmp_path, capsys, options):
    ids = ["a", "b", "a", "c"] if "--gather" in options else ["a", "b", "c", "c"]
    x = [1.0, 2.0, 3.0, 4.0 if "--gather" in options else None]
    path = tmp_path / "x.arrow"
    pl.DataFrame({"id": ids, "x": x}).write_ipc(path)
    ran = probi(capsys, "cluster", path, "--layout", "long", "--id", "id", "-k", 1, "-q", "--json", *options)
    assert ran.json["n_nodes"] == 3


def test_a_sign_too_many_is_an_error_of_its_row(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("x,y\n1,2\n3,4\n--5,1\n2,2\n")
    assert "row 3 (line 4) has '--5' in column 'x', which is not a number" in error_line(
        probi(capsys, "cluster", path, "-k", 1, "-q")
    )


def test_deeply_nested_lists_are_an_error_of_their_row(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text(f'points\n"[[1,2]]"\n"[[2,3]]"\n"{"[" * 100_000}"\n')
    said = error_line(probi(capsys, "cluster", path, "-k", 1, "-q"))
    assert "row 3 (line 4) has " in said
    assert "which is not a list of numbers" in said


@pytest.mark.parametrize("layout", ["long", "points"])
def test_text_that_is_not_utf_8(tmp_path, capsys, layout):
    offsets, data = np.array([0, 2, 4, 6], np.int32), b"\xff\xfea\xffb\xfe"
    ids = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    pq.write_table(pa.table({"id": ids, "x": [1.0, 2.0, 3.0]}), tmp_path / "x.parquet")
    ran = probi(capsys, "cluster", tmp_path / "x.parquet", "--layout", layout, "--id", "id", "-k", 1, "-q")
    assert "x.parquet cannot be read as parquet: 'utf-8' codec" in error_line(ran)


def test_a_quote_that_does_not_close_takes_no_minutes(monkeypatch):
    data = b'x\n"' + b"3\n" * 1_000_000
    start = time.process_time()
    assert csv_file._last_line_end(data) == 2
    assert csv_file._first_line_end(data[2:]) == len(data) - 2
    assert time.process_time() - start < 0.5  # 0.02 s; one line end after the other took more than a second


@pytest.mark.parametrize("data", [b'"a\n\n"\nb\n"\n', b'\n\n"\n\n\n",1\n2\n', b"1\n2", b'"\n\n\n', b'\n"\n"\n\n'])
def test_line_ends_are_found_in_either_way(data, monkeypatch):
    found = csv_file._last_line_end(data), csv_file._first_line_end(data)
    monkeypatch.setattr(csv_file, "MAX_TRIES", 1)
    assert (csv_file._last_line_end(data), csv_file._first_line_end(data)) == found
    monkeypatch.setattr(csv_file, "MAX_TRIES", 0)
    assert (csv_file._last_line_end(data), csv_file._first_line_end(data)) == found


def test_a_space_of_the_user(tmp_path, capsys):
    summary = Summary(1, random_state=0)
    summary.update([[0.0], [1.0]])
    summary.about["space"] = "Berlin"
    summary.save(tmp_path / "x.probi")
    assert probi(capsys, "info", tmp_path / "x.probi").code == 0
    assert "Not a valid transform" in error_line(probi(capsys, "solve", tmp_path / "x.probi", "-k", 1, "-q"))


def test_names_do_not_control_the_terminal(tmp_path, capsys):
    path = tmp_path / "\x1b[31m\u202ex.csv"
    path.write_text("\x1b]0;title\x07,a\u202eb\n1,2\n3,4\n")
    for command in (["cluster", path, "-k", 1], ["info", path], ["check", path, "--features", "no"]):
        ran = probi(capsys, *command)
        assert not set("\x1b\x07\u202e") & set(ran.out + ran.err)
        assert "\\x1b" in ran.out + ran.err


def test_no_name_is_a_formula(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("probi.cli.results.write_run_report", lambda outcome, path: None)
    path, out = tmp_path / "x.csv", tmp_path / "out"
    path.write_text("id,=cmd(),@b\n=1+1,1,2\n")
    assert probi(capsys, "cluster", path, "--id", "id", "--layout", "points", "-k", 1, "-q", "-o", out).code == 0
    header, row = (out / "centers.csv").read_text().splitlines()
    assert '"\'=cmd()","\'@b"' in header
    assert '"\'=1+1"' in row
    ran = probi(capsys, "assign", path, "--centers", out / "centers.csv", "-o", tmp_path / "a.csv", "-q", "--json")
    assert ran.json["cost"] == 0.0


@pytest.mark.parametrize("forged", [{"counts": {"nodes": "x"}}, {"position": [0, -1]}])
def test_fields_of_a_checkpoint(tmp_path, capsys, forged):
    path, saved = tmp_path / "x.csv", tmp_path / "c.probi"
    path.write_text("x\n1\n2\n")
    command = ("summarize", path, "-k", 1, "-q", "-o", tmp_path / "s.probi", "--checkpoint", saved)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("probi.cli.steps.Summary.sealed", lambda summary: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            probi(capsys, *command)
    summary = Summary.load(saved)
    summary.about["checkpoint"] |= forged
    summary.save(saved)
    assert "is a checkpoint of another version of probi" in error_line(probi(capsys, *command))


def test_compressed_text_without_end(tmp_path, capsys):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b'x,y\n1,2\n"' + b"3" * 1000))
    assert error_line(probi(capsys, "cluster", path, "-k", 1, "-q"))


@pytest.mark.parametrize(
    "values",
    [[[1.0] * 1_000_000], ["a" * 1_000_000], pa.array([None], pa.binary(1_000_000))],
    ids=["lists", "text", "missing"],
)
def test_columns_that_claim_more_than_their_bytes_hold(tmp_path, monkeypatch, values):
    monkeypatch.setattr(claims, "MAX_CLAIM", 100_000)
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet", data_page_size=1 << 40, compression="zstd")
    assert (tmp_path / "x.parquet").stat().st_size < 2_000
    with pytest.raises(InputError, match=r"x\.parquet: row group 0 claims 0\.0 GB of lists, text or binary in"):
        io.read(tmp_path / "x.parquet")


def test_few_rows_of_long_texts_are_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MAX_FIRST", 20_000)
    pq.write_table(pa.table({"id": ["a" * 9_000] * 10, "x": np.arange(10.0)}), tmp_path / "x.parquet")
    reader = io.read(tmp_path / "x.parquet", id="id", layout="points")
    assert len(reader._open(0).first) == 2
    assert sum(map(len, reader)) == 10


@pytest.mark.parametrize("form", ["file", "stream"])
def test_batches_that_claim_more_than_their_bytes_hold(tmp_path, monkeypatch, form):
    monkeypatch.setattr(claims, "MAX_CLAIM", 100_000)
    numbers, nulls = pa.table({"x": np.zeros(100_000)}), pa.table({"x": pa.nulls(100_000)})
    new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
    for table in (numbers, nulls):  # which have no bytes at all
        with new(tmp_path / "x.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_table(table.slice(0, 10))
            writer.write_table(table)
        with pytest.raises(InputError, match=r"x\.arrow: a batch claims 0\.0 GB in [0-9,]+ bytes"):
            io.read(tmp_path / "x.arrow")


def test_a_long_text_that_rows_share(tmp_path, monkeypatch):
    monkeypatch.setattr(to_arrays, "MAX_TEXT", 5000)
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 6, pa.int8()), pa.array(["a" * 1000, "b"]))
    table = pa.table({"id": ids, "x": np.arange(12.0)})
    assert len(Nodes.from_table(table.slice(0, 8), id="id", layout="points")) == 8
    with pytest.raises(InputError, match="12 rows share long texts that would take"):
        Nodes.from_table(table, id="id", layout="points")


@pytest.mark.parametrize("type", ["string", "large_string", "string_view", "dictionary"])
def test_an_id_that_is_too_long(tmp_path, capsys, type):
    ids = pa.array(["a", "b" * 16_385, "c"], pa.string() if type == "dictionary" else getattr(pa, type)())
    table = pa.table({"id": ids.dictionary_encode() if type == "dictionary" else ids, "x": np.arange(3.0)})
    options = ("--layout", "points", "--id", "id", "-k", 1, "-q")
    for part, code in ((table.slice(0, 1), 0), (table, 2)):
        part = part if code or type != "dictionary" else pa.table({"id": ["a"], "x": [1.0]})
        with pa.ipc.new_file(tmp_path / "x.arrow", part.schema) as writer:
            writer.write_table(part)
        ran = probi(capsys, "cluster", tmp_path / "x.arrow", *options)
        assert ran.code == code
    assert "x.arrow: Column 'id' has an id of 16,385 bytes, but at most 16,384 are allowed." in error_line(ran)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_a_nameless_column(tmp_path, capsys, name):
    path = write(tmp_path / name, {"x": [1.0, 2.0], "": [1.0, 2.0]})
    assert "Column 2 has no name. Give it one." in error_line(probi(capsys, "cluster", path, "-k", 1, "-q"))


def test_many_columns_take_no_minutes(tmp_path):
    names = [f"c{i}" for i in range(20_000)]
    start = time.process_time()
    assert columns.repeated(names) is None
    assert columns.repeated([*names, "c7", "c3"]) == "c3"
    assert time.process_time() - start < 0.5  # 0.01 s; each compared with all others 3 s


def test_a_long_line_is_not_searched_again_for_each_block(monkeypatch):
    searched = []
    find = csv_file._last_line_end
    monkeypatch.setattr(csv_file, "_last_line_end", lambda data: searched.append(len(data)) or find(data))
    monkeypatch.setattr(csv_file, "LONGEST_LINE", 1 << 16)
    csv_file._first_block(BytesIO(b'x\n"' + b"3\n" * 50_000), 100)
    assert sum(searched) < 4 * 100_000


def test_a_node_that_is_too_large_is_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr("probi.io.node_assembler.flatten", None)
    pq.write_table(pa.table({"x": [[1.0] * 20]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="row 1 begins a node of more than 10 rows"):
        list(io.read(tmp_path / "x.parquet", max_node_rows=10))


def test_a_summary_that_claims_more_than_its_bytes_hold():
    summary = Summary(1, random_state=0)
    summary.update(np.random.default_rng(0).normal(size=(100, 3)))
    data = summary.to_bytes()
    # The lengths of its longest column, and the checksum, are forged.
    at = data.index(struct.pack("<q", 2400))
    forged = data[:at] + struct.pack("<q", 1 << 33) + data[at + 8 :]
    checksum = file.CHECKSUM.search(forged)[0]
    plain = forged.replace(checksum, file.NO_CHECKSUM)
    forged = plain.replace(file.NO_CHECKSUM, file.CHECKSUM_PREFIX + hashlib.sha256(plain).hexdigest().encode())
    with pytest.raises(InputError, match="it claims to hold far more than its bytes can"):
        Summary.from_bytes(forged)


def ipc_file(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


NUMBERS = pa.table({"x": np.arange(1001.0)})


@pytest.mark.parametrize(
    "data",
    [
        ipc_file(NUMBERS, use_legacy_format=True),
        ipc_file(pa.table({"x": NUMBERS["x"].dictionary_encode()})),
        # A body that ends where its message begins would be read for ever.
        ipc_file(NUMBERS).replace(struct.pack("<q", 8008), struct.pack("<q", -8 - 136)),
        ipc_file(NUMBERS)[:-4000],
    ],
    ids=["no marker", "dictionary", "negative length", "cut off"],
)
def test_messages_that_no_summary_has(data):
    with pytest.raises((ValueError, struct.error)):
        claims.claims_too_much(data)


def test_a_summary_of_equal_numbers_loads(monkeypatch):
    monkeypatch.setattr(claims, "MAX_CLAIM", 1000)
    monkeypatch.setattr(claims, "MAX_RATIO", 2)
    summary = Summary(1, random_state=0)
    summary.update(np.zeros((100, 300)))
    again = Summary.from_bytes(summary.to_bytes())
    assert again.n_nodes == 100
    assert len(summary.to_bytes()) > 8 * 100 * 300
