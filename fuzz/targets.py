"""The parsers, each as a function of bytes.

A function returns whether its bytes were accepted. What it raises is a finding: an error of another library, or a file
that does not hold the same when it is written anew.
"""

import contextlib
import functools
import io
import itertools
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import typer.main

from probi import Nodes, ProbiError, Summary, Window
from probi import io as files
from probi.cli import app, results
from probi.io.write import read_centers, reading_of_run, write_nodes

# How a table is read; the first byte of an input says which. Never reordered: the inputs of the corpus count on it.
READ: tuple[dict[str, Any], ...] = (
    {},
    {"layout": "points"},
    {"layout": "long", "id": "id"},
    {"layout": "nested"},
    {"layout": "groups", "group_size": 3},
    {"layout": "long", "id": "id", "gather": True, "missing": "skip-row", "max_bad": 1.0},
    {"on_bad": "skip", "max_bad": 1.0},
    {"missing": "absent", "max_bad": 1.0},
    {"layout": "nested", "missing": "skip-row", "max_bad": 1.0, "dtype": "float32"},
    {"probabilities": "normalize", "id": False},
    {"decimal": ",", "delimiter": ";", "header": False},
    {"layout": "points", "id": ["id", "x"], "id_per_file": True, "on_bad": "skip", "max_bad": 1.0},
)
# The same of labeled arrays.
READ_LABELED: tuple[dict[str, Any], ...] = (
    {"node": ["latitude", "longitude"]},
    {"node": ["latitude"], "missing": "absent"},
    {"node": ["latitude", "longitude"], "weight": "cos_latitude", "realization": False, "missing": "absent"},
    {"node": ["longitude"], "scale": "standard", "missing": "absent"},
    {"node": ["place", "time"]},
    {"node": ["place"], "missing": "absent"},
    {"node": ["time"], "weight": "cos_latitude", "missing": "absent"},
    {"node": ["time"], "realization": ["member"], "features": ["t"], "missing": "absent"},
)

# A file of constants may hold any number of rows.
MAX_BATCHES = 8

POINTS = "id,x,y\n" + "".join(f"{i},{i % 7},{i % 5}\n" for i in range(40))


class FindingError(AssertionError):
    """A parser did what none may do."""


def require(condition: bool, problem: str) -> None:
    """Raise a finding unless the condition holds."""
    if not condition:
        raise FindingError(problem)


@functools.cache
def folder() -> Path:
    """A folder of this process."""
    kept = tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    folder.kept = kept  # type: ignore[attr-defined]
    return Path(kept.name)


# -- tables ------------------------------------------------------------------------------------------------------------


def table(ending: str, data: bytes, options: tuple[dict[str, Any], ...] = READ) -> bool:
    """Read a file; what is accepted is written as Parquet, and read again."""
    if not data:
        return False
    path = folder() / f"table{ending}"
    path.write_bytes(data[1:])
    return _read_twice(path, options[data[0] % len(options)])


def _read_twice(path: Path, options: dict[str, Any]) -> bool:
    try:
        reader = files.read(path, **options)
        parts = list(itertools.islice(reader, MAX_BATCHES))
    except ProbiError as error:
        require(str(path) in str(error) or path.suffix == ".zarr", f"{error!s} does not name the file")
        return False
    if not parts:
        return False
    nodes = Nodes.concat(parts)
    names = reader.columns.features
    anew = folder() / "anew.parquet"
    try:
        write_nodes(anew, [nodes], "nested", names, id_name=reader.id_name)
    except ProbiError:  # two columns would have the same name, say
        return True
    ids = [] if nodes.ids is None else list(nodes.ids.dtype.names or [reader.id_name])
    roles = {"features": [*map(_literal, names)], "id": ids or False, "weight": "weight", "probability": "probability"}
    again = Nodes.concat(list(files.read(anew, layout="nested", max_node_rows=1 << 40, **roles)))
    require(_equal(nodes, again), f"{nodes!r} is {again!r} when written anew")
    return True


def _literal(name: str) -> str:
    """A name that is no pattern."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _equal(nodes: Nodes, others: Nodes) -> bool:
    same = nodes.dtype == others.dtype and (nodes.ids is None) == (others.ids is None)
    names = ("offsets", "weights", "probabilities", "points")
    return same and all(np.array_equal(getattr(nodes, name), getattr(others, name)) for name in names) and (
        nodes.ids is None or repr(nodes.ids.tolist()) == repr(others.ids.tolist())  # type: ignore[union-attr]
    )  # fmt: skip


def labeled(ending: str, data: bytes) -> bool:
    """Read a file of labeled arrays; see :func:`table`."""
    return table(ending, data, READ_LABELED)


def zarr(data: bytes) -> bool:
    """Read a Zarr folder, which comes as an archive."""
    with tempfile.TemporaryDirectory(dir=folder()) as place:
        path = Path(place) / "x.zarr"
        path.mkdir()
        try:
            with zipfile.ZipFile(io.BytesIO(data[1:])) as archive:
                members = {name: archive.read(name) for name in archive.namelist()[:20]}
        except Exception:  # not what is tried here
            return False
        for name, content in members.items():
            if set(Path(name).parts).isdisjoint({"..", "/"}) and len(content) < 1 << 20:
                with contextlib.suppress(OSError, ValueError):
                    (path / name).parent.mkdir(parents=True, exist_ok=True)
                    (path / name).write_bytes(content)
        return _read_twice(path, READ_LABELED[data[0] % len(READ_LABELED)])


# -- summaries and windows ---------------------------------------------------------------------------------------------


def summary(data: bytes) -> bool:
    """Load a summary; one that is saved again gives the same bytes, and the same answers."""
    try:
        loaded = Summary.from_bytes(data)
    except ProbiError:
        return False
    saved = loaded.to_bytes()
    again = Summary.from_bytes(saved)
    require(again.to_bytes() == saved, "a summary that is loaded and saved has other bytes")
    for answers in (_answers, _grown):
        one, other = _said(answers, loaded), _said(answers, again)
        require(one == other, f"a summary that is loaded and saved gives {other} instead of {one}")
    return True


def window(data: bytes) -> bool:
    """Load a window; see :func:`summary`."""
    try:
        loaded = Window.from_bytes(data)
    except ProbiError:
        return False
    saved = loaded.to_bytes()
    again = Window.from_bytes(saved)
    require(again.to_bytes() == saved, "a window that is loaded and saved has other bytes")
    one, other = (_said(_answers_of_window, window) for window in (loaded, again))
    require(one == other, f"a window that is loaded and saved gives {other} instead of {one}")
    return True


def _said(answers: Callable[[Any], list[Any]], loaded: Any) -> str:
    """Answers as text, or the error that is raised instead."""
    try:
        return repr(answers(loaded))
    except ProbiError as error:
        return str(error)


def _answers(loaded: Summary) -> list[Any]:
    coreset = loaded.coreset()
    values = [loaded, loaded._repr_html_(), loaded.mass, loaded.spread_cost, loaded.lower_bound, coreset]
    if len(coreset):
        values.append(loaded.evaluate(coreset.gravity_centers[: loaded.n_clusters]))
        values.append(loaded.sample())
    return values


def _grown(loaded: Summary) -> list[Any]:
    loaded.update(np.arange(40.0).reshape(-1, 1) % 7 * np.ones(loaded.n_features or 1))
    return [loaded, loaded.to_bytes()]


def _answers_of_window(loaded: Window) -> list[Any]:
    return [loaded, _said(_answers, loaded.summary()) if loaded.n_nodes else None]


# -- the command line --------------------------------------------------------------------------------------------------

# Built once and not for each run.
make_app, get_command = functools.cache(app.make_app), functools.cache(typer.main.get_command)


def command(*arguments: str) -> int:
    """Run a command in the folder of this process; one sentence tells what is wrong."""
    with contextlib.ExitStack() as stack:
        out, err = (stack.enter_context(redirect(io.StringIO())) for redirect in REDIRECTED)
        stack.enter_context(contextlib.chdir(folder()))
        stack.enter_context(_replaced(sys, stdin=SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(b"")))))
        stack.enter_context(_replaced(app, make_app=make_app))
        stack.enter_context(_replaced(typer.main, get_command=get_command))
        code = app.run(list(arguments))
    require(code in (0, 1, 2), f"the code is {code}")
    said = err.getvalue()
    if code and arguments[0] != "check" and "─ Error ─" not in said:  # of typer, about an option
        require(said.count("probi: ") >= 1 and said.endswith(".\n"), f"{said!r} is no sentence")
        require(not set("\x1b\x07\u202e") & set(said + out.getvalue()), f"{said!r} controls the terminal")
    return code


REDIRECTED: tuple[Any, ...] = (contextlib.redirect_stdout, contextlib.redirect_stderr)


@contextlib.contextmanager
def _replaced(place: Any, **others: Any) -> Iterator[None]:
    before = {name: getattr(place, name) for name in others}
    try:
        for name, value in others.items():
            setattr(place, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(place, name, value)


def _prepared() -> None:
    """Write what commands name: points, a summary and centers of them."""
    if not (folder() / "x.csv").exists():
        (folder() / "x.csv").write_text(POINTS)
        (folder() / "long.csv").write_text("id,x,probability\na,1,0.5\na,2,0.5\nb,3,1\nc,4,0.25\n")
        os.utime(folder() / "x.csv", (0, 0))
        require(command("summarize", "x.csv", "-k", "2", "-o", "s.probi", "-q") == 0, "points are not summarized")
        (folder() / "c.csv").write_text("x,y\n1,2\n3,4\n")


# Runs with checkpoints; the first byte of an input says which, or none the first.
CHECKPOINTED = (
    "summarize x.csv -k 2",
    "summarize long.csv -k 1 --layout long --id id --max-bad 1 --on-bad skip",
    "summarize x.csv -k 2 --layout long --id id --id-per-file",
    "summarize x.csv -k 2 --scale standard --max-realizations 1 --shard 3",
    "summarize x.csv -k 2 --lonlat x,y --dtype float32 --preset paper",
    "cluster x.csv -k 2",
)


def checkpoint(data: bytes) -> bool:
    """Resume from a checkpoint, some of whose fields were forged: bytes are JSON, a list of [path, value]."""
    mode = data[0] - ord("0") if data[:1].isdigit() else 0
    try:
        edits = [(list(path), value) for path, value in json.loads(data.lstrip(b"0123456789"))]
    except (ValueError, TypeError, RecursionError):
        return False
    _prepared()
    line = CHECKPOINTED[mode % len(CHECKPOINTED)]
    saved, result = folder() / "checkpoint.probi", folder() / "resumed.probi"
    loaded = Summary.from_bytes(_checkpoint(line))
    for path, value in edits:
        _edit(loaded.about, path, value)
    try:
        loaded.save(saved)
    except (ValueError, TypeError, RecursionError):  # not JSON any more
        return False
    code = _checkpointed(line)
    require(code != 1, "the run failed, although nothing but the checkpoint is wrong")
    if code == 0 and line.startswith("summarize"):
        Summary.load(result)
    return code == 0


def _checkpointed(line: str) -> int:
    name = "resumed.probi" if line.startswith("summarize") else "resumed"
    with _replaced(results, write_run_report=lambda results, path: None):
        return command(*line.split(), "-o", name, "--checkpoint", "checkpoint.probi", "-q")


@functools.cache
def _checkpoint(line: str) -> bytes:
    """Bytes of a checkpoint of a run, at the end of its files."""
    path = folder() / "checkpoint.probi"
    sealed = Summary.sealed

    def stopped(summary: Summary) -> Summary:
        raise KeyboardInterrupt

    path.unlink(missing_ok=True)
    with contextlib.suppress(KeyboardInterrupt, FindingError), _replaced(Summary, sealed=stopped):
        _checkpointed(line)
    assert Summary.sealed is sealed
    return path.read_bytes()


def _edit(values: Any, path: list[Any], value: Any) -> None:
    """Set an item of nested JSON, or delete it (if the value is "delete"); a path that is not there changes nothing."""
    with contextlib.suppress(LookupError, TypeError, ValueError):
        for key in path[:-1]:
            values = values[key]
        if value == "delete":
            del values[path[-1]]
        else:
            values[path[-1]] = value


def centers(data: bytes) -> bool:
    """Read centers, of Parquet or CSV, as ``assign`` and ``evaluate`` do."""
    _prepared()
    ending = ".parquet" if data.startswith(b"PAR1") else ".csv"
    path = folder() / f"some-centers{ending}"
    path.write_bytes(data)
    with contextlib.suppress(ProbiError):
        reading_of_run(path)
    try:
        read_centers(path)
    except ProbiError:
        return False
    return command("evaluate", "x.csv", "--centers", path.name, "-q") == 0


# What is not tried: other machines, and what is told to take long.
EXCLUDED = ("--engine", "--workers", "--n-init", "demo", "--help", "--install-completion", "--show-completion")


def options(data: bytes) -> bool:
    """Run a command: one argument per line. Files are those of the folder only."""
    arguments = data.decode("utf-8", "replace").replace("\0", "").split("\n")
    outside = any("/" in argument or argument.startswith(("~", *EXCLUDED)) for argument in arguments)
    if outside or len(arguments) > 30 or not arguments[0] or arguments[0] not in app.COMMANDS:
        return False
    _prepared()
    with _replaced(results, write_run_report=lambda results, path: None):
        return command(*arguments) == 0


TARGETS: dict[str, Callable[[bytes], bool]] = {
    "summary": summary,
    "window": window,
    "checkpoint": checkpoint,
    "centers": centers,
    "parquet": functools.partial(table, ".parquet"),
    "ipc": functools.partial(table, ".arrow"),
    "stream": functools.partial(table, ".arrows"),
    "csv": functools.partial(table, ".csv"),
    "compressed": functools.partial(table, ".csv.gz"),
    "npy": functools.partial(table, ".npy"),
    "netcdf": functools.partial(labeled, ".nc"),
    "zarr": zarr,
    "options": options,
}
