"""Files named by URLs are read and written like files on disk; what is secret in a URL is never shown."""

import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from commands import error_line, probi
from store_servers import SECRET, s3_server, web_server
from table_files import columns_of, options_of, read_nodes, some_nodes, tiny, write

import probi as pb
from probi import _files, _stores
from probi._files import as_path
from probi._stores import StorePath, without_secrets
from probi.cli import steps
from probi.errors import InputError
from probi.io.formats.base import find_sources

# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/a b/c.csv", "s3://bucket/a b/c.csv"),
        ("s3://KEY:SECRET@bucket/x.csv", "s3://bucket/x.csv"),
        ("s3://KEY:SEC/RET@bucket/x.csv", "s3://bucket/x.csv"),
        ("s3://bucket/x.csv?region=eu&secret_key=SECRET", "s3://bucket/x.csv"),
        ("https://SECRET@host/x.csv", "https://host/x.csv"),
        ("https://host:8080/a@b/x.csv?X-Amz-Signature=SEC/RET", "https://host:8080/a@b/x.csv"),
        ("abfs://box:SECRET@account.dfs.core.windows.net/x", "abfs://box@account.dfs.core.windows.net/x"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("simplecache::s3://K:SECRET@bucket/x", "simplecache::s3://bucket/x"),
        ("zip://x.csv::s3://K:SECRET@bucket/a.zip?k=SECRET", "zip://x.csv::s3://bucket/a.zip"),
        ("404, url='https://host/x?sig=SECRET', again", "404, url='https://host/x', again"),
        ("--checkpoint=s3://K:SECRET@bucket/run", "--checkpoint=s3://bucket/run"),
        ("s3://bucket/part-?.csv", "s3://bucket/part-?.csv"),
        ("s3://bucket/user@x/y.csv", "s3://bucket/user@x/y.csv"),
        ("a.csv", "a.csv"),
        ("https://user:SEC'R ET\"<@host/x.csv", "https://host/x.csv"),
        ("--checkpoint=s3://K:SEC'RET@bucket/run", "--checkpoint=s3://bucket/run"),
        ("s3://K:SEC@SEC@bucket/x.csv", "s3://bucket/x.csv"),
        ("s3://K:12/SECRET@bucket/x.csv", "s3://bucket/x.csv"),
        ("https://host/x.csv?SECRET", "https://host/x.csv"),
        ("https://host/x.csv#token=SECRET", "https://host/x.csv"),
        ("https://host/x.csv?sig=SEC'SECRET", "https://host/x.csv"),
        ("https://[::1]:80/x.csv?SECRET", "https://[::1]:80/x.csv"),
        ("https://host/a;token=SECRET/x.csv;v=1", "https://host/a/x.csv"),
        ("s3://bucket/a;b/x.csv", "s3://bucket/a;b/x.csv"),
    ],
)
def test_secrets_are_not_shown(url, shown):
    assert without_secrets(url) == shown
    assert not isinstance(path := as_path(url), StorePath) or str(path) == shown
    assert "SEC" not in shown


def test_a_file_in_an_archive_of_a_store_keeps_its_url():
    path = as_path("zip://a/x.csv::https://user:SECRET@host/b.zip?k=SECRET")
    assert path._url == "zip://a/x.csv::https://user:SECRET@host/b.zip?k=SECRET"
    assert str(path) == "zip://a/x.csv::https://host/b.zip"
    assert path.name == "x.csv"
    assert as_path("zip://x.csv::https://host/b.zip")._url == "zip://x.csv::https://host/b.zip"


def test_errors_of_other_libraries_that_quote_a_part_of_a_url():
    path = as_path("s3://AKIAKEY:a SECRET/b@bucket/x.csv?region=eu&k=SECRET%2FTOO")
    with pytest.raises(OSError, match=r"x\.csv: Cannot parse") as caught, _stores._naming_errors(path):
        raise ValueError(
            "Cannot parse '//AKIAKEY:a SECRET' or SECRET/TOO or SECRET%2FTOO or s3://AKIAKEY:a SECRET/b@bucket/x"
        )
    for secret in ("SECRET", "AKIAKEY"):
        assert secret not in str(caught.value)


def test_a_path_in_a_store_has_the_names_of_a_path():
    path = as_path("s3://K:S@bucket/out/?region=eu")
    assert (str(path), repr(path)) == ("s3://bucket/out", "StorePath('s3://bucket/out')")
    file = path / "centers.csv"
    assert (file.name, file.suffix, str(file.parent)) == ("centers.csv", ".csv", "s3://bucket/out")
    assert file._url == "s3://K:S@bucket/out/centers.csv?region=eu"
    assert file.parent == path != as_path("s3://bucket/out")
    assert file.with_suffix(".parquet") == path / "centers.parquet"
    assert pickle.loads(pickle.dumps(file)) == file
    assert str(as_path("s3://bucket") / "x") == "s3://bucket/x"
    assert as_path("memory://a/::b.csv").name == "::b.csv"


def test_what_is_not_a_url_is_a_local_path(tmp_path):
    assert as_path("a/b.csv") == as_path("./a/b.csv")
    assert as_path(f"file://{tmp_path}") == tmp_path
    assert as_path(tmp_path) is not None
    assert not isinstance(as_path("C:/x"), StorePath)


def test_an_unknown_protocol_is_a_sentence():
    with pytest.raises(InputError, match="cannot be opened: Protocol not known: nothing"):
        find_sources("nothing://K:SECRET@host/x.csv", None)


def test_fsspec_that_is_missing_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(InputError, match=r"pip install 'probi\[stores\]'"):
        find_sources("https://host/x.csv?key=1", None)


# -- any file system of fsspec ----------------------------------------------------------------------------------------


@pytest.fixture
def memory():
    """The file system of fsspec that is in memory."""
    import fsspec

    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.mark.slow
def test_a_file_system_of_fsspec(memory, tmp_path, capsys):
    path = write(tmp_path / "x.csv", columns_of(some_nodes("long", n=60), "long"))
    memory.pipe("/in/x.csv", path.read_bytes())
    arguments = ["-k", "2", "--layout", "long", "--seed", "1"]
    assert probi(capsys, "cluster", path, "-o", tmp_path / "out", *arguments).code == 0
    ran = probi(capsys, "cluster", "memory://in", "-o", "memory://out", "--checkpoint", "memory://run", *arguments)
    assert ran.code == 0, ran.err
    check_same_results(tmp_path / "out", lambda name: memory.cat(f"/out/{name}"))
    assert not memory.exists("/run")
    # What was written is found again.
    ran = probi(capsys, "assign", "memory://in/*.csv", "--centers", "memory://out", "-o", "memory://again.parquet")
    assert ran.code == 0, ran.err
    assert memory.cat("/again.parquet") == (tmp_path / "out" / "assignment.parquet").read_bytes()
    ran = probi(capsys, "solve", "memory://out/summary.probi", "-k", "2", "-o", "memory://solved", "--json")
    assert ran.json["parameters"]["summary"] == "memory://out/summary.probi"
    assert probi(capsys, "info", "memory://out", "--json").json["kind"] == "summary"


@pytest.mark.parametrize("text", [b"x,y\n1,2\n3,4\n9,9\n9,8\n", b"x,y\n1,2\n3,4\n9,8\n"])
def test_a_file_in_a_store_that_changes_between_the_passes_stops_the_run(memory, tmp_path, capsys, monkeypatch, text):
    """It has another size, or the same one and another tag, as servers of the web have them."""
    info = type(memory).info
    tagged = lambda self, path, **options: {**info(self, path, **options), "ETag": hash(self.cat(path))}  # noqa: E731
    monkeypatch.setattr(type(memory), "info", tagged)
    memory.pipe("/x.csv", b"x,y\n1,2\n3,4\n9,9\n")
    check_a_change_stops("memory://x.csv", lambda: memory.pipe("/x.csv", text), tmp_path, capsys, monkeypatch)


def check_a_change_stops(url, change, tmp_path, capsys, monkeypatch):
    solve_all = steps.solve_all
    monkeypatch.setattr(steps, "solve_all", lambda *arguments: (change(), solve_all(*arguments))[1])
    ran = probi(capsys, "cluster", url, "-k", 2, "-o", tmp_path / "out", "-q")
    assert f"{url} has changed since the first pass over it" in error_line(ran)
    assert not list((tmp_path / "out").iterdir())


def check_same_results(folder, read):
    """Files of results have the same bytes; two others hold times, and the command."""
    for name in ("centers.parquet", "centers.csv", "assignment.parquet", "summary.probi"):
        assert read(name) == (folder / name).read_bytes(), name
    for name in ("result.json", "report.html"):
        assert read(name)


def write_and_fail(path, data, error):
    with _files.replacing(path) as temporary:
        temporary.write_bytes(data)
        raise error


def test_a_failed_write_leaves_the_old_file(memory):
    memory.pipe("/x", b"old")
    with pytest.raises(RuntimeError):
        write_and_fail(as_path("memory://x"), b"new", RuntimeError)
    assert memory.cat("/x") == b"old"
    _files.write_atomically(as_path("memory://x"), b"new")
    assert memory.cat("/x") == b"new"


# -- S3 ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def s3():
    """The address of an S3 on this machine."""
    with pytest.MonkeyPatch.context() as patch, s3_server(patch) as address:
        yield address


@pytest.fixture
def bucket(s3, request):
    """A folder of its own in the bucket."""
    return as_path(f"s3://bucket/{request.node.name}")


def put(path, target):
    target.upload(path)
    return str(target)


def keys(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.stores
@pytest.mark.parametrize("format", ["parquet", "csv", "csv.gz", "csv.zst", "arrow", "arrows"])
def test_s3_reads_every_format(bucket, tmp_path, monkeypatch, format):
    tiny(monkeypatch)
    path = write(tmp_path / f"x.{format}", columns_of(some_nodes("long"), "long"))
    url = put(path, bucket / path.name)
    assert read_nodes(url, **options_of("long")) == read_nodes(path, **options_of("long"))


@pytest.mark.stores
@pytest.mark.parametrize("shape", [(40, 3), (12, 5, 2)])
def test_s3_reads_rows_of_arrays(bucket, tmp_path, monkeypatch, shape):
    tiny(monkeypatch)
    np.save(tmp_path / "x.npy", np.arange(np.prod(shape), dtype=">f4").reshape(shape))
    url = put(tmp_path / "x.npy", bucket / "x.npy")
    assert read_nodes(url) == read_nodes(tmp_path / "x.npy")
    np.save(tmp_path / "f.npy", np.asfortranarray(np.ones(shape)))
    with pytest.raises(InputError, match=r"f\.npy: its array is stored by columns"):
        read_nodes(put(tmp_path / "f.npy", bucket / "f.npy"))
    (tmp_path / "c.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-4])
    with pytest.raises(InputError, match="the file is cut off"):
        read_nodes(put(tmp_path / "c.npy", bucket / "c.npy"))


@pytest.mark.stores
def test_s3_folders_and_patterns_are_those_of_a_disk(bucket, tmp_path):
    names = (
        "b.csv",
        "a-b/x.csv",
        "a/x.csv",
        "a/y.csv.zst",
        "a/c/d e.csv",
        "a/.h.csv",
        "_m/x.csv",
        "n.txt.md",
        "é?.csv",
    )
    for name in names:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("x\n1\n")
        put(path, bucket / name)
    patterns = (
        "",
        "/",
        "/a",
        "/*.csv",
        "/**/*.csv",
        "/a/**",
        "/*/x.csv",
        "/[ab]/?.csv",
        "/a*/**/*.csv",
        "/a/c/d e.csv",
    )
    for pattern in patterns:
        here = [str(s.path.relative_to(tmp_path)) for s in find_sources(f"{tmp_path}{pattern}", None)]
        there = [str(s.path.relative_to(bucket)) for s in find_sources(f"{bucket}{pattern}", None)]
        assert there == here != [], pattern
    for wrong, sentence in (
        ("none.csv", "There is no file s3://"), ("*.parquet", "No file matches the pattern s3://"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=sentence):
            find_sources(f"{bucket}/{wrong}", None)
    with pytest.raises(InputError, match="was given twice"):
        find_sources([f"{bucket}/a/x.csv", f"{bucket}/a"], None)


@pytest.mark.stores
def test_s3_summaries(bucket):
    summary = pb.Summary(2, random_state=0)
    summary.update(pb.Nodes.from_points([[0.0], [1.0], [5.0]]))
    summary.save(f"{bucket}/a.probi")
    assert pb.Summary.load(f"{bucket}/a.probi").to_bytes() == summary.to_bytes()
    with pytest.raises(FileNotFoundError, match=r"none\.probi"):
        pb.Summary.load(f"{bucket}/none.probi")
    (bucket / "x").upload(Path(__file__))
    with pytest.raises(InputError, match=r"s3://bucket/.*/x: Not a probi summary"):
        pb.Summary.load(f"{bucket}/x")


def faulty(path):
    """Nodes of which some have rows that cannot be used."""
    columns = columns_of(some_nodes("long", n=400), "long")
    columns["x1"][14] = columns["x0"][130] = columns["x0"][-3] = float("inf")
    return write(path, columns)


ARGUMENTS = [
    "-k", "3", "--layout", "long", "--on-bad", "skip", "--size", "20", "--n-init", "1", "--checkpoint-every", "90",
]  # fmt: skip


@pytest.mark.stores
def test_s3_stopped_and_resumed(bucket, tmp_path, capsys, monkeypatch):
    from probi.cli import console

    tiny(monkeypatch, 37, block=600)
    path = faulty(tmp_path / "x.csv")
    assert probi(capsys, "cluster", path, "-o", tmp_path / "out", *ARGUMENTS).code == 0
    url = put(path, bucket / "x.csv")
    arguments = ["cluster", url, "-o", f"{bucket}/out", "--checkpoint", f"{bucket}/run.probi", *ARGUMENTS]
    calls = iter(range(10**6))
    with monkeypatch.context() as patch:
        patch.setattr(console.Interrupts, "is_stopped", lambda self: next(calls) == 9)
        ran = probi(capsys, *arguments)
    assert error_line_of_stop(ran).endswith(f"resume from {bucket}/run.probi.")
    assert keys(bucket) == ["out/rejected.csv", "run.probi", "x.csv"]
    ran = probi(capsys, *arguments)
    assert ran.code == 0, ran.err
    assert f"Resuming from {bucket}/run.probi, after " in ran.err
    check_same_results(tmp_path / "out", lambda name: (bucket / "out" / name).read_bytes())
    expected = (tmp_path / "out" / "rejected.csv").read_text().replace(str(path), url)
    assert (bucket / "out" / "rejected.csv").read_text("utf-8") == expected
    assert "run.probi" not in keys(bucket)


def error_line_of_stop(ran):
    assert ran.code == 1, ran
    return ran.err.splitlines()[-1]


@pytest.mark.stores
def test_s3_a_changed_file_is_not_resumed(bucket, tmp_path, capsys, monkeypatch):
    from probi.cli import console

    tiny(monkeypatch, block=600)
    url = put(faulty(tmp_path / "x.csv"), bucket / "x.csv")
    arguments = ["cluster", url, "--checkpoint", f"{bucket}/run.probi", *ARGUMENTS]
    with monkeypatch.context() as patch:
        patch.setattr(console.Interrupts, "is_stopped", lambda self: True)
        assert probi(capsys, *arguments).code == 1
    put(write(tmp_path / "x.csv", columns_of(some_nodes("long", n=300), "long")), bucket / "x.csv")
    ran = probi(capsys, *arguments)
    assert ran.code == 2
    assert "has changed since the checkpoint" in ran.err


@pytest.mark.stores
def test_s3_a_file_that_changes_between_the_passes_stops_the_run(bucket, tmp_path, capsys, monkeypatch):
    """Its size is asked for again: what a listing said once is not enough."""
    path = tmp_path / "x.csv"
    path.write_text("x,y\n1,2\n3,4\n9,9\n")
    put(path, bucket / "x.csv")
    path.write_text("x,y\n1,2\n3,4\n9,9\n9,8\n")
    check_a_change_stops(f"{bucket}/x.csv", lambda: put(path, bucket / "x.csv"), tmp_path, capsys, monkeypatch)


@pytest.mark.stores
def test_s3_errors_are_sentences(bucket, tmp_path, capsys, monkeypatch):
    (tmp_path / "x.csv").write_text("x,y\n1,2\n2,3\n")
    (tmp_path / "x.parquet").write_text("no such thing, but long enough")
    url = put(tmp_path / "x.csv", bucket / "x.csv")
    assert error_line(probi(capsys, "cluster", f"{bucket}/y.csv", "-k", "1")) == f"There is no file {bucket}/y.csv."
    line = error_line(probi(capsys, "info", put(tmp_path / "x.parquet", bucket / "x.parquet")))
    assert line.startswith(f"{bucket}/x.parquet cannot be read as parquet: ")
    # Before anything is read.
    monkeypatch.setattr("probi.io.passes.summarize", None)
    ran = probi(capsys, "cluster", url, "-k", "1", "-o", "s3://no-such-bucket/out")
    assert "There is no bucket no-such-bucket, in which s3://no-such-bucket/out would be.\n" in ran.err
    ran = probi(capsys, "cluster", url, "-k", "1", "-o", url)
    assert "is a file, but the results need a folder" in ran.err
    assert "is an input and would be overwritten" in probi(capsys, "convert", url, "-o", url).err


@pytest.mark.stores
def test_s3_secrets_are_written_nowhere(s3, bucket, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not this one")
    host = s3.removeprefix("http://")
    put_query = f"?scheme=http&region=us-east-1&endpoint_override={host}"
    base = f"s3://AKIAKEY:{SECRET}@bucket/secrets"
    path = faulty(tmp_path / "x.csv")
    as_path(f"{base}/x.csv{put_query}").upload(path)
    arguments = ["cluster", f"{base}/x.csv{put_query}", "-o", f"{base}/out{put_query}", *ARGUMENTS]
    arguments += ["--checkpoint", f"{base}/run.probi{put_query}"]
    monkeypatch.setattr(sys, "argv", ["probi", *arguments])
    said = ""
    with monkeypatch.context() as patch:
        tiny(patch, block=600)
        patch.setattr("probi.cli.console.Interrupts.is_stopped", lambda self: True)
        said += str(probi(capsys, *arguments))
    written = as_path(f"{base}/run.probi{put_query}").read_bytes()
    ran = probi(capsys, *arguments)
    assert ran.code == 0, ran.err
    said += str(ran)
    said += str(probi(capsys, *arguments[:-1], f"{base}/none/run{put_query}", "--scale", f"{base}/none{put_query}"))
    said += str(
        probi(capsys, "assign", f"{base}/none.csv{put_query}", "--centers", f"{base}/out{put_query}", "-o", "a.b")
    )
    folder = as_path(f"{base}/out{put_query}")
    for name in keys(folder):
        written += (folder / name).read_bytes()
    assert len(keys(folder)) == 7
    assert b"s3://bucket/secrets/x.csv" in written
    assert "s3://bucket/secrets/x.csv" in said
    for secret in (SECRET, "not this one", host, "AKIAKEY"):
        assert secret not in said
        assert secret.encode() not in written
    table = pa.ipc.open_file(pa.BufferReader((folder / "summary.probi").read_bytes())).read_all()
    assert SECRET not in str(table.schema.metadata)


KILLED = """
import sys, time
from probi.cli import app, console
from probi.io.formats import base, csv_file
csv_file.BLOCK = 600
console.Progress.update = lambda *_: time.sleep(0.02)
sys.exit(app.run(sys.argv[1:]))
"""


@pytest.mark.stores
@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Windows are others")
def test_s3_killed_and_resumed(bucket, tmp_path, capsys):
    path = faulty(tmp_path / "x.csv")
    assert probi(capsys, "cluster", path, "-o", tmp_path / "out", *ARGUMENTS).code == 0
    url = put(path, bucket / "x.csv")
    arguments = ["cluster", url, "-o", f"{bucket}/out", "--checkpoint", f"{bucket}/run.probi", *ARGUMENTS]
    process = subprocess.Popen([sys.executable, "-c", KILLED, *arguments], stderr=subprocess.PIPE)
    stop = time.monotonic() + 60
    while not (bucket / "run.probi").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < stop
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert keys(bucket / "out") in ([], ["rejected.csv"])
    ran = probi(capsys, *arguments)
    assert "Resuming from s3://" in ran.err, ran.err
    check_same_results(tmp_path / "out", lambda name: (bucket / "out" / name).read_bytes())
    assert "run.probi" not in keys(bucket)


@pytest.mark.stores
def test_s3_a_failed_upload_leaves_the_old_object(bucket, tmp_path):
    _files.write_atomically(bucket / "x", b"old")
    with pytest.raises(KeyboardInterrupt):
        write_and_fail(bucket / "x", bytes(1 << 23), KeyboardInterrupt)
    assert (bucket / "x").read_bytes() == b"old"
    with pytest.raises(OSError, match=r"s3://no-such-bucket/x: .*bucket does not exist"):
        _files.write_atomically(as_path("s3://no-such-bucket/x"), b"new")
    with pytest.raises(OSError, match=re.escape(str(bucket))):
        (bucket / "x").upload(tmp_path / "none")
    assert (bucket / "x").read_bytes() == b"old"


# -- the web ----------------------------------------------------------------------------------------------------------


@pytest.mark.stores
def test_files_on_the_web(tmp_path, capsys):
    (tmp_path / "web").mkdir()
    for name in ("x.csv", "x.parquet", "x.arrow"):
        path = write(tmp_path / "web" / name, columns_of(some_nodes("long", n=300), "long"))
    with web_server(tmp_path / "web") as address:
        for name in ("x.csv", "x.parquet", "x.arrow"):
            found = read_nodes(f"{address}/{name}?key={SECRET}", layout="long")
            assert found == read_nodes(path, layout="long")
        for query in ("", "?key=guessed"):
            line = error_line(probi(capsys, "info", f"{address}/x.csv{query}"))
            assert line == f"There is no file {address}/x.csv."


@pytest.mark.stores
def test_s3_netcdf(bucket, tmp_path):
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(np.random.default_rng(0).normal(size=(4, 6)), dims=("member", "place"), name="t")
    array.to_netcdf(tmp_path / "x.nc", engine="h5netcdf")
    url = put(tmp_path / "x.nc", bucket / "x.nc")
    assert read_nodes(url, node=["place"]) == read_nodes(tmp_path / "x.nc", node=["place"])
    with pytest.raises(InputError, match="only NetCDF is read from a store"):
        read_nodes(put(tmp_path / "x.nc", bucket / "x.grib"), node=["place"])
