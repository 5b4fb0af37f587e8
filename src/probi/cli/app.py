"""The command ``probi``: its subcommands, and the handling of errors."""

import signal
import sys
from importlib import import_module
from typing import Annotated

import typer

from probi import __version__
from probi._stores import without_secrets
from probi.cli.console import printable
from probi.cli.imports import block_unused
from probi.errors import ProbiError, StoppedError

# In the order of the help. Each is a function of the same name in the module of the same name in probi.cli.commands.
COMMANDS = ("cluster", "summarize", "merge", "solve", "assign", "evaluate", "info", "check", "convert", "demo")

# Exit code of typer for Ctrl-C.
INTERRUPTED = 130


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"probi {__version__}")
        raise typer.Exit


def probi(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Cluster uncertain data of any size: k-median for objects that are distributions, not points.

    Results go to standard output, messages to standard error. Exit codes: 0 success, 1 failed or interrupted,
    2 invalid input or option.
    """


def make_app(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """The command line with these commands."""
    app = typer.Typer(
        name="probi",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(probi)
    for name in names:
        command = getattr(import_module(f"probi.cli.commands.{name}"), name)
        app.command(epilog=command.epilog)(command)
    return app


def main() -> int:
    """Run the command line, and return the exit code; errors are reported in a sentence, not as a traceback."""
    arguments = sys.argv[1:]
    if not any(argument.startswith("--engine") for argument in arguments):
        block_unused()
    # Handled like Ctrl-C, so that the last line says that the run was stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader, such as head, has read enough
            code = _fail(f"standard output: {error.strerror}.", 1)
    return code


def run(arguments: list[str]) -> int:
    """Run the command line with these arguments and return the exit code."""
    # Only the module of the command that is run; all of them for --help, completion and a mistyped name.
    names = tuple(arguments[:1]) if arguments[:1] and arguments[0] in COMMANDS else COMMANDS
    try:
        make_app(names)(arguments, prog_name="probi")
    except SystemExit as end:  # raised by typer, which reports invalid options itself
        if end.code == INTERRUPTED:
            return _fail("Stopped.", 1)
        return end.code if isinstance(end.code, int) else 1
    except ProbiError as error:
        return _fail(str(error), 1 if isinstance(error, StoppedError) else 2)
    except MemoryError:
        return _fail("Out of memory. Try a smaller --size, or --dtype float32.", 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        wrong_name = isinstance(error, (FileNotFoundError, IsADirectoryError, NotADirectoryError))
        return _fail(f"{where}{error.strerror or error}.", 2 if wrong_name else 1)
    return 0


def _fail(sentence: str, code: int) -> int:
    print(f"probi: {printable(without_secrets(sentence))}", file=sys.stderr)
    return code
