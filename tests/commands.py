"""The command line in tests: in this process where that is enough, in one of its own where the process matters."""

import functools
import io
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import NamedTuple

import typer.main

from probi.cli import app

# Typer builds the command anew for each run, in more time than many of the runs take; here it is built once.
app.make_app = functools.cache(app.make_app)
typer.main.get_command = functools.cache(typer.main.get_command)


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        assert self.code == 0, self.err
        return json.loads(self.out)


def probi(capsys, *arguments, stdin=None, monkeypatch=None):
    """Run a command in this process; ``stdin`` are the bytes that it finds in its standard input."""
    if stdin is not None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin))))
    capsys.readouterr()
    code = app.run([str(argument) for argument in arguments])
    return Ran(code, *capsys.readouterr())


def command(*arguments):
    """The same as the start of a process."""
    return [sys.executable, "-m", "probi", *map(str, arguments)]


def probi_process(*arguments, timeout=120, **options):
    """Run a command in a process of its own."""
    ended = subprocess.run(command(*arguments), capture_output=True, timeout=timeout, check=False, **options)
    return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def error_line(ran, code=2):
    """The sentence that a failed command ends with: all that stands on standard error."""
    assert ran.code == code, ran
    (line,) = ran.err.splitlines()
    assert line.startswith("probi: "), ran.err
    assert line.endswith("."), ran.err
    assert "Traceback" not in line
    return line.removeprefix("probi: ")


def files_of(folder, *but):
    """Bytes of all files of a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name not in but}
