"""The command ``probi``: its commands, and what becomes of errors."""

import functools
import os
import signal
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Annotated, Any

import typer

from probi import __version__
from probi.cli import cluster, demo, inspect
from probi.cli import options as opt
from probi.errors import ProbiError, StoppedError

# pyarrow imports pandas where there is one, and Numba SciPy's BLAS: half a second for nothing, no command uses either.
# The engines do.
NEEDLESS = ("pandas", "scipy")

# What typer makes of Ctrl-C before a command has begun.
INTERRUPTED = 130


class _Without(MetaPathFinder):
    """Lets an import of some packages fail as if they were not installed."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages

    def find_spec(self, name: str, *_: Any) -> None:
        """Find a module."""
        if name in self._packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _stoppable(command: Callable[..., Any]) -> Callable[..., Any]:
    """Say that Ctrl-C ended a command; typer would end it without a word, and with a code of its own."""

    @functools.wraps(command)
    def until_stopped(**given: Any) -> Any:
        try:
            return command(**given)
        except KeyboardInterrupt:
            raise StoppedError("Stopped.") from None

    return until_stopped


app = typer.Typer(
    name="probi",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    cluster.cluster, cluster.summarize, cluster.merge, cluster.solve, inspect.assign, inspect.evaluate, inspect.info,
    inspect.check, inspect.convert, demo.demo,
):  # fmt: skip
    app.command(epilog=opt.examples_of(command))(_stoppable(command))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"probi {__version__}")
        raise typer.Exit


@app.callback()
def probi(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cluster uncertain data of any size: k-median for objects that are distributions, not points.

    Results go to standard output, talk to standard error. Exit codes: 0 all is well, 1 it failed or was stopped,
    2 the input or an option cannot be used.
    """


def main() -> None:
    """Run the command line; what is wrong is said in a sentence, not in a traceback."""
    arguments = sys.argv[1:]
    if not any(argument.startswith("--engine") for argument in arguments):
        sys.meta_path.insert(0, _Without(NEEDLESS))
    # As Ctrl-C: what was begun is left as it was, and the last line says so.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more is to be flushed at the end
        if not isinstance(error, BrokenPipeError):  # whoever read it, such as head, has enough
            code = _fail(f"standard output: {error.strerror}.", 1)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line with these arguments and return the exit code."""
    try:
        app(arguments, prog_name="probi")
    except SystemExit as end:  # of typer, which shows what is wrong with options by itself
        if end.code == INTERRUPTED:
            return _fail("Stopped.", 1)
        return end.code if isinstance(end.code, int) else 1
    except StoppedError as error:
        return _fail(str(error), 1)
    except ProbiError as error:
        return _fail(str(error), 2)
    except MemoryError:
        return _fail("There is not enough memory. Try a smaller --size, or --dtype float32.", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        wrong_name = isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError))
        return _fail(f"{where}{error.strerror or error}.", 2 if wrong_name else 1)
    return 0


def _fail(sentence: str, code: int) -> int:
    print(f"probi: {sentence}", file=sys.stderr)
    return code
