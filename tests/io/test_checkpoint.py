"""A run that was stopped goes on from its checkpoint and ends with the same bytes; another run is refused."""

import contextlib
import errno
import io
import itertools
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from commands import Ran, error_line, files_of, probi
from hypothesis import given
from hypothesis import strategies as st
from samples import forking, in_child
from strategies import examples
from table_files import columns_of, csv_text, some_nodes, tiny, write

from probi import Summary, solve
from probi.cli import console
from probi.errors import InputError, StoppedError
from probi.io.options import Options
from probi.io.passes import Checkpoint, summarize
from probi.io.reader import Reader


@pytest.fixture(autouse=True)
def fast_disk(monkeypatch):
    """No waiting for the disk: only a power cut could tell. That it is waited for, tests/test_files.py says."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


# -- stops after any batch, in the library ---------------------------------------------------------------------------


def run(inputs, folder, stop=None, seed=0, **options):
    """Read everything, or stop after so many batches: the bytes of the summary, its counts, what was rejected."""
    reader = Reader(inputs, Options(**options))
    calls = itertools.count(1)
    rejects = folder / "rejected.csv"
    summary, counts = summarize(
        reader,
        Summary(2, size=8, random_state=seed),
        rejects=rejects,
        checkpoint=Checkpoint(folder / "run.probi", 9, reader, {"seed": seed}),
        is_stopped=lambda: next(calls) == stop,
    )
    return summary.to_bytes(), counts, rejects.read_bytes() if rejects.exists() else None


def new_folder(parent):
    return Path(tempfile.mkdtemp(dir=parent))


def check_every_stop(tmp_path, inputs, **options):
    """Stop once after each batch; and after every single one in turn."""
    before = new_folder(tmp_path)
    expected = run(inputs, before, **options)
    n_batches = 0
    for n_batches in itertools.count(1):
        folder = new_folder(tmp_path)
        try:
            run(inputs, folder, stop=n_batches, **options)
        except StoppedError:
            assert run(inputs, folder, **options) == expected
        else:
            break
    assert n_batches > 4  # else nothing was tested
    check_stops_in_turn(tmp_path, inputs, expected, 2 * n_batches + 10, **options)
    return expected


def check_stops_in_turn(tmp_path, inputs, expected, most=100, **options):
    """Stop after every single batch, again and again; borders of batches are others after a stop."""
    folder, found = new_folder(tmp_path), None
    for _ in range(most):
        with contextlib.suppress(StoppedError):
            found = run(inputs, folder, stop=1, **options)
            break
    assert found == expected


@pytest.mark.slow
@pytest.mark.parametrize("format", ["parquet", "csv", "csv.gz", "arrow", "arrows"])
def test_one_file(tmp_path, monkeypatch, format):
    tiny(monkeypatch, 19, block=380)
    path = write(tmp_path / f"x.{format}", columns_of(some_nodes("long", n=25), "long"), step=11)
    _, counts, rejected = check_every_stop(tmp_path, path, layout="long")
    assert (counts.nodes, rejected) == (25, None)


@pytest.mark.slow
def test_npy(tmp_path, monkeypatch):
    tiny(monkeypatch, 13)
    np.save(tmp_path / "x.npy", np.arange(160.0).reshape(-1, 2) % 17)
    check_every_stop(tmp_path, tmp_path / "x.npy", group_size=3)


def with_faults(columns):
    """Some rows that lack a value, some that are bad."""
    columns["x1"][4] = columns["x1"][30] = None
    columns["x0"][11] = columns["x0"][45] = float("inf")
    return columns


SKIPPING = {"on_bad": "skip", "missing": "skip-row"}


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["groups", "long"])
def test_several_files_with_rejected_rows(tmp_path, monkeypatch, layout):
    tiny(monkeypatch, 7, block=200)
    columns = with_faults(columns_of(some_nodes(layout, n=18), layout))
    (tmp_path / "in").mkdir()
    for i, start in enumerate(range(0, len(columns["x0"]), 20)):
        part = {name: values[start : start + 20] for name, values in columns.items()}
        write(tmp_path / "in" / f"{i}.csv", part)
    _, counts, rejected = check_every_stop(
        tmp_path, tmp_path / "in", **SKIPPING, **({"group_size": 3} if layout == "groups" else {"layout": layout})
    )
    assert counts.missing == 2
    assert counts.rejected >= 2
    assert len(rejected.splitlines()) == 1 + counts.missing + counts.rejected + counts.incomplete
    # And where only the first of each kind are named.
    monkeypatch.setattr("probi.io.node_assembler.MAX_LISTED", 1)
    options = {"group_size": 3} if layout == "groups" else {"layout": layout}
    expected = run(tmp_path / "in", new_folder(tmp_path), **SKIPPING, **options)
    check_stops_in_turn(tmp_path, tmp_path / "in", expected, **SKIPPING, **options)
    assert len(expected[2].splitlines()) == 1 + len(counts.left_out)


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["standard", "robust"])
def test_scales_are_estimated_once(tmp_path, monkeypatch, scale):
    tiny(monkeypatch, 17)
    monkeypatch.setattr(sys.modules["probi.io.reader"], "N_ESTIMATED", 40)
    path = write(tmp_path / "x.parquet", columns_of(some_nodes("long", n=30), "long"))
    data, _, _ = check_every_stop(tmp_path, path, layout="long", scale=scale)
    assert Summary.from_bytes(data).about["space"]["scale"] is not None


@pytest.mark.slow
def test_standard_input_that_comes_again(tmp_path, monkeypatch):
    tiny(monkeypatch, block=550)
    data = csv_text(with_faults(columns_of(some_nodes("long", n=40), "long"))).encode()

    class Input:
        @property
        def buffer(self):
            return io.BufferedReader(io.BytesIO(data))

    monkeypatch.setattr(sys, "stdin", Input())
    _, _, rejected = check_every_stop(tmp_path, "-", layout="long", **SKIPPING)
    assert rejected.count(b"standard input") > 2


@pytest.mark.slow
@examples(10)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(2, 30)), max_size=4), st.sampled_from(["csv", "parquet"]))
def test_any_stops_and_other_batches_after_each(stops, format):
    """How many rows a chunk has may change between a stop and the next run: another machine, another version."""
    with tempfile.TemporaryDirectory() as parent, pytest.MonkeyPatch.context() as monkeypatch:
        path = write(Path(parent) / f"x.{format}", with_faults(columns_of(some_nodes("long", n=35), "long")))
        options = {"layout": "long", **SKIPPING}
        expected = run(path, new_folder(parent), **options)
        folder = new_folder(parent)
        for stop, rows in stops:
            tiny(monkeypatch, rows, block=20 * rows)
            with contextlib.suppress(StoppedError):
                assert run(path, folder, stop=stop, **options) == expected
        assert run(path, folder, **options) == expected


def test_checkpoints_are_written_every_so_many_nodes(tmp_path, monkeypatch):
    tiny(monkeypatch, 2)
    path = write(tmp_path / "x.parquet", {"x": np.arange(20.0)})
    reader = Reader(path, Options())
    checkpoint = Checkpoint(tmp_path / "run.probi", 6, reader, {})
    seen = []

    def look(batch):
        file = checkpoint.path
        seen.append(Summary.load(file).about["checkpoint"]["counts"]["nodes"] if file.exists() else 0)

    summarize(reader, Summary(2, random_state=0), checkpoint=checkpoint, on_batch=look)
    assert seen == [0, 0, 0, 6, 6, 6, 12, 12, 12, 18]  # before what is due after this batch
    assert Summary.load(checkpoint.path).about["checkpoint"]["counts"]["nodes"] == 20
    checkpoint.path.unlink()
    assert not checkpoint.path.exists()


@pytest.mark.parametrize("ids", ["text", "numbers", "pairs"])
def test_a_node_that_comes_back_after_the_stop(tmp_path, monkeypatch, ids):
    tiny(monkeypatch, 4)
    texts = [*"aabbccddeeffgghh", "a", "a"]
    columns = {"text": {"id": texts}, "numbers": {"id": [ord(text) for text in texts]}}
    columns["pairs"] = {"id": columns["numbers"]["id"], "v": texts}
    path = write(tmp_path / "x.parquet", columns[ids] | {"x": np.arange(18.0)})
    options = {"layout": "long", "id": ["id", "v"] if ids == "pairs" else "id"}
    with pytest.raises(InputError, match="is not contiguous"):
        run(path, new_folder(tmp_path), **options)
    folder = new_folder(tmp_path)
    for stop in (1, 2, 1):
        with pytest.raises(StoppedError):
            run(path, folder, stop=stop, **options)
    with pytest.raises(InputError, match="is not contiguous"):
        run(path, folder, **options)


def test_a_checkpoint_without_ids_and_checksums_is_read(tmp_path, monkeypatch):
    """As older versions wrote it."""
    tiny(monkeypatch, 4)
    path = write(tmp_path / "x.parquet", columns_of(some_nodes("long", n=20), "long"))
    expected = run(path, new_folder(tmp_path), layout="long")
    folder = new_folder(tmp_path)
    with pytest.raises(StoppedError):
        run(path, folder, layout="long", stop=3)
    saved = Summary.load(folder / "run.probi")
    for name in ("seen", "read", "fraction"):
        del saved.about["checkpoint"][name]
    saved.save(folder / "run.probi")
    assert run(path, folder, layout="long") == expected


# -- the whole command -----------------------------------------------------------------------------------------------

BASIC = ("-k", "2,3", "--n-init", "1", "--layout", "long")


def stopped_after(monkeypatch, n_batches):
    """Ctrl-C after so many batches."""
    calls = itertools.count(1)
    monkeypatch.setattr(console.Interrupts, "is_stopped", lambda self: next(calls) == n_batches)


@pytest.fixture
def job(tmp_path, monkeypatch, capsys):
    """A function that runs the command on one file, with a checkpoint; other arguments may be given."""
    tiny(monkeypatch, 13, block=250)
    monkeypatch.setattr(
        "probi.cli.results.write_run_report", lambda outcome, path: None
    )  # takes longest, and is not compared
    # Nor is how stable the solutions are, which has no say in the number of clusters.
    monkeypatch.setattr("probi.choosing._rand_index", lambda *_: np.nan)
    path = write(tmp_path / "x.parquet", with_faults(columns_of(some_nodes("long", n=70), "long")), step=11)

    def start(*options, inputs=(path,), stop=None, basic=BASIC, output=tmp_path / "out"):
        with monkeypatch.context() as patch:
            if stop is not None:
                stopped_after(patch, stop)
            skipping = ("--on-bad", "skip", "--missing", "skip-row", "--checkpoint-every", "10")
            where = () if output is None else ("-o", output)
            return probi(
                capsys, "cluster", *inputs, *basic, *skipping, *where, "-q", "--checkpoint", tmp_path / "run.probi",
                *options,
            )  # fmt: skip

    start.path, start.out, start.checkpoint = path, tmp_path / "out", tmp_path / "run.probi"
    return start


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--scale", "standard"), ("--preset", "paper", "--dtype", "float32")])
def test_all_files_of_the_results_are_the_same(job, tmp_path, monkeypatch, options):
    monkeypatch.setattr(sys.modules["probi.io.reader"], "N_ESTIMATED", 40)
    assert job(*options, output=tmp_path / "whole").code == 0
    expected = files_of(tmp_path / "whole", "result.json")
    assert set(expected) == {
        "summary.probi", "centers.parquet", "centers.csv", "assignment.parquet", "rejected.csv"
    }  # fmt: skip
    for stop in (6,) if options else (1, 6):
        said = error_line(job(*options, stop=stop), code=1)
        assert said.startswith("Stopped after ")
        assert f"Rerun the same command to resume from {job.checkpoint}." in said
        assert not (job.out / "centers.csv").exists()
        assert job(*options).code == 0
        assert files_of(job.out, "result.json") == expected
        assert not job.checkpoint.exists()
        for file in job.out.iterdir():
            file.unlink()


@pytest.mark.slow
def test_the_checkpoint_stays_if_the_end_fails(job, monkeypatch):
    """A crash after reading costs no second reading."""

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("probi.cli.results.write_centers", fail)
        assert error_line(job(), code=1) == "No space left on device."
    assert job.checkpoint.exists()
    n_read = []
    monkeypatch.setattr(console.Progress, "update", lambda self, n, _: n_read.append(self._what))
    assert job("--no-assign").code == 0
    assert "Reading" not in n_read


@pytest.mark.slow
def test_summarize_too(job, capsys, tmp_path, monkeypatch):
    arguments = ("summarize", job.path, "-k", 2, "--layout", "long", "--on-bad", "skip", "-q", "--size", 8)
    whole, parts, checkpoint = tmp_path / "whole.probi", tmp_path / "parts.probi", ("--checkpoint", job.checkpoint)
    assert probi(capsys, *arguments, "-o", whole).code == 0
    with monkeypatch.context() as patch:
        stopped_after(patch, 5)
        assert "resume from" in error_line(probi(capsys, *arguments, "-o", parts, *checkpoint), code=1)
    assert not parts.exists()
    assert probi(capsys, "info", job.checkpoint).out.splitlines()[1] == "kind: checkpoint"
    assert probi(capsys, *arguments, "-o", parts, *checkpoint).code == 0
    assert whole.read_bytes() == parts.read_bytes()
    assert not job.checkpoint.exists()


# -- refused ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stopped(job):
    assert job(stop=4).code == 1
    return job


@pytest.mark.parametrize(
    ("options", "basic", "says"),
    [
        (("--seed", "1"), BASIC, "seed was 0 and is 1"),
        ((), ("-k", "2,4", *BASIC[2:]), "k was [2, 3] and is [2, 4]"),
        ((), BASIC[:4], "layout was 'long' and is None"),
        (("--size", "50"), BASIC, "size was None and is 50"),
        (("--preset", "paper"), BASIC, "preset was 'default' and is 'paper'"),
        (("--scale", "standard"), BASIC, "scale was 'none' and is 'standard'"),
        (("--features", "x0"), BASIC, "features was None and is ['x0']"),
        (("--missing", "skip-node"), BASIC, "missing was 'skip-row' and is 'skip-node'"),
        (("--dtype", "float32"), BASIC, "dtype was None and is 'float32'"),
    ],
)
def test_other_parameters(stopped, options, basic, says):
    before = stopped.checkpoint.read_bytes()
    said = error_line(stopped(*options, basic=basic))
    assert f"{stopped.checkpoint} belongs to a run with other parameters: {says}." in said
    assert stopped.checkpoint.read_bytes() == before


def test_other_files(stopped, tmp_path):
    other = tmp_path / "y.parquet"
    other.write_bytes(stopped.path.read_bytes())
    for inputs in ([other], [stopped.path, other]):
        assert "files was [" in error_line(stopped(inputs=inputs))


def test_another_file_in_the_folder(job, tmp_path):
    (tmp_path / "in").mkdir()
    job.path.rename(tmp_path / "in" / "a.parquet")
    inputs = [tmp_path / "in"]
    assert job(inputs=inputs, stop=4).code == 1
    write(tmp_path / "in" / "b.parquet", columns_of(some_nodes("long", seed=1), "long"))
    assert "belongs to a run on other files" in error_line(job(inputs=inputs))


@pytest.mark.parametrize("line", [1, -1])
def test_a_file_that_has_changed(job, tmp_path, monkeypatch, line):
    """Also where its size and time are as before: both of its ends are looked at."""
    monkeypatch.setattr("probi.io.passes.EDGE", 100)
    path = write(tmp_path / "x.csv", columns_of(some_nodes("long", n=80), "long"))
    assert job(inputs=[path], stop=4).code == 1
    times = path.stat()
    lines = path.read_text().splitlines()
    lines[line] = lines[line][:-3] + "3.0"  # the weight
    path.write_text("\n".join([*lines, ""]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    assert f"{path} has changed since the checkpoint" in error_line(job(inputs=[path]))


@pytest.mark.slow
@pytest.mark.parametrize(("format", "stop"), [("csv", 6), ("parquet", 20), ("arrow", 40)])
def test_a_file_that_has_changed_in_the_middle(job, tmp_path, monkeypatch, format, stop):
    """With its size and time as before, and in a part that has been read."""
    monkeypatch.setattr("probi.io.passes.EDGE", 100)
    tables = [columns_of(some_nodes("long", n=60, seed=i), "long") for i in (0, 1)]
    tables[1]["id"] = [id - 1000 for id in tables[1]["id"]]
    paths = [write(tmp_path / f"{i}.{format}", table) for i, table in enumerate(tables)]
    if format == "csv":
        paths = paths[:1]  # in the file that is being read
    assert job(inputs=paths, stop=stop).code == 1
    assert Summary.load(job.checkpoint).about["checkpoint"]["position"][0] == len(paths) - 1
    times, data = paths[0].stat(), bytearray(paths[0].read_bytes())
    place = 600 if format == "csv" else len(data) * 2 // 3
    data[place] ^= 1
    paths[0].write_bytes(data)
    os.utime(paths[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    before = job.checkpoint.read_bytes()
    assert f"{paths[0]} has changed since the checkpoint" in error_line(job(inputs=paths))
    assert job.checkpoint.read_bytes() == before
    data[place] ^= 1
    paths[0].write_bytes(data)
    os.utime(paths[0], ns=(times.st_atime_ns, times.st_mtime_ns))
    assert job(inputs=paths).code == 0


def test_a_file_that_has_grown(job, tmp_path):
    path = write(tmp_path / "x.csv", columns_of(some_nodes("long", n=80), "long"))
    assert job(inputs=[path], stop=4).code == 1
    with path.open("a") as file:
        file.write("1,1,1,1,1\n")
    assert f"{path} has changed since the checkpoint" in error_line(job(inputs=[path]))


@pytest.mark.slow
def test_standard_input_with_another_start(tmp_path, monkeypatch, capsys):
    tiny(monkeypatch, block=100)
    text = csv_text({"x": range(100)})
    arguments = ("cluster", "-", "-k", "2", "-q", "--checkpoint", tmp_path / "run.probi")
    with monkeypatch.context() as patch:
        stopped_after(patch, 2)
        assert probi(capsys, *arguments, stdin=text.encode(), monkeypatch=monkeypatch).code == 1
    other = text.replace("\n5\n", "\n6\n").encode()
    assert "standard input has changed" in error_line(probi(capsys, *arguments, stdin=other, monkeypatch=monkeypatch))
    short = text[:40].encode()
    assert error_line(probi(capsys, *arguments, stdin=short, monkeypatch=monkeypatch))
    assert probi(capsys, *arguments, stdin=text.encode(), monkeypatch=monkeypatch).code == 0


@pytest.mark.slow
def test_a_summary_that_is_no_checkpoint(job, tmp_path):
    assert job(output=tmp_path / "first").code == 0
    summary = (tmp_path / "first" / "summary.probi").read_bytes()
    job.checkpoint.write_bytes(summary)
    assert f"{job.checkpoint} is a summary, not a checkpoint" in error_line(job())
    assert job.checkpoint.read_bytes() == summary


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "data"])
def test_a_damaged_checkpoint(stopped, damage):
    data = stopped.checkpoint.read_bytes()
    middle = len(data) // 2
    changed = {
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "cut": data[:middle],
        "empty": b"",
        "data": stopped.path.read_bytes(),
    }[damage]
    stopped.checkpoint.write_bytes(changed)
    said = error_line(stopped())
    assert str(stopped.checkpoint) in said
    assert "Name another checkpoint, or remove this one to start over." in said
    assert stopped.checkpoint.read_bytes() == changed


@pytest.mark.parametrize("about", [{}, {"parameters": 3}, []])
def test_a_checkpoint_of_another_version(stopped, about):
    summary = Summary.load(stopped.checkpoint)
    summary.about["checkpoint"] = about
    summary.save(stopped.checkpoint)
    assert "is a checkpoint of another version of probi" in error_line(stopped())


@pytest.mark.slow
def test_the_rejected_rows_must_still_be_there(stopped, tmp_path):
    rejected = stopped.out / "rejected.csv"
    data = rejected.read_bytes()
    for other in (b"", data[:-1]):
        rejected.write_bytes(other)
        assert f"{rejected} does not hold the rows that were left out" in error_line(stopped())
    rejected.unlink()
    assert f"{rejected} does not hold the rows" in error_line(stopped())
    assert f"{tmp_path / 'other' / 'rejected.csv'} does not" in error_line(stopped(output=tmp_path / "other"))
    rejected.write_bytes(data + b"what was written after the checkpoint\n")
    assert stopped().code == 0
    assert b"after the checkpoint" not in rejected.read_bytes()
    assert rejected.read_bytes().startswith(data)


@pytest.mark.slow
def test_a_run_without_a_folder_goes_on_without_one(job):
    assert job(stop=4, output=None).code == 1
    assert "which would now lack rows" in error_line(job())
    assert job(output=None).code == 0


def test_gathering_takes_no_checkpoint(job):
    assert "--checkpoint and --gather cannot be combined" in error_line(job("--gather"))


# -- a full disk -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("call", ["fsync", "write"])
def test_a_full_disk_leaves_the_old_checkpoint(stopped, monkeypatch, call):
    before = stopped.checkpoint.read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if call == "fsync":
            patch.setattr(os, "fsync", full)
        else:
            patch.setattr(Path, "write_bytes", full)
        said = error_line(stopped("--missing", "skip-row"), code=1)
    if call == "write":
        assert said == f"{stopped.checkpoint}: No space left on device."
    assert stopped.checkpoint.read_bytes() == before
    assert [path.name for path in stopped.checkpoint.parent.iterdir() if ".part" in path.name] == []
    assert stopped().code == 0


def test_a_folder_that_cannot_be_written(stopped, monkeypatch):
    before = stopped.checkpoint.read_bytes()
    opened = io.open

    def refuse(file, mode="r", *others, **options):
        if str(file).endswith(".part"):
            raise PermissionError(errno.EACCES, "Permission denied", str(file))
        return opened(file, mode, *others, **options)

    with monkeypatch.context() as patch:
        patch.setattr(io, "open", refuse)
        assert error_line(stopped(), code=1) == f"{stopped.checkpoint}: Permission denied."
    assert stopped.checkpoint.read_bytes() == before


@forking
def test_files_that_really_cannot_grow(capsys, tmp_path):
    """A limit of the system on the size of files, which is met in the middle of a write."""
    import resource

    path = write(tmp_path / "x.parquet", {"x": np.random.default_rng(0).normal(size=4000)})
    arguments = ("summarize", path, "-k", "2", "--size", "3000", "-q", "-o")

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        return tuple(probi(capsys, *arguments, tmp_path / "x.probi"))

    # Without a limit first: then no kernel has to be compiled and written to its cache below it.
    assert probi(capsys, *arguments, tmp_path / "whole.probi").code == 0
    assert (tmp_path / "whole.probi").stat().st_size > 20_000
    (tmp_path / "whole.probi").unlink()
    ended = Ran(*in_child(limited))
    assert error_line(ended, code=1) == f"{tmp_path / 'x.probi'}: File too large."
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]


@pytest.mark.slow
def test_the_solution_of_a_resumed_summary(job, tmp_path):
    """Centers in the results are those of the library for the summary in the results."""
    assert job(stop=3).code == 1
    assert job().code == 0
    summary = Summary.load(job.out / "summary.probi")
    centers = np.loadtxt(job.out / "centers.csv", delimiter=",", skiprows=1, usecols=(2, 3))
    assert np.array_equal(centers[2:], solve(summary, 3, n_init=1, random_state=0).centers)
