"""The command ``probi``: its commands, the options that they share, and the handling of errors."""

import csv
import functools
import inspect
import re
import signal
import sys
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from probi import __version__
from probi._files import as_path
from probi._stores import without_secrets
from probi.cli.console import Console, printable
from probi.engines import NAMES, PART_BYTES
from probi.errors import InputError, ProbiError, StoppedError
from probi.io.formats import FORMATS
from probi.io.options import Options
from probi.summary.config import SummaryConfig
from probi.tables import Layout as Layout

if TYPE_CHECKING:
    from probi._files import AnyPath as AnyPath

    EngineName = str
else:
    AnyPath = Path  # typer knows no unions; as_path makes the values
    EngineName = Literal["local", *NAMES]

# In the order of the help. Each is a function of the same name in the module of the same name in probi.cli.commands.
COMMANDS = ("cluster", "summarize", "merge", "solve", "assign", "evaluate", "info", "check", "convert", "demo")

# Exit code of typer for Ctrl-C.
INTERRUPTED = 130

READING = "Reading"

PART_MEGABYTES = PART_BYTES >> 20
NO_COLUMN = "none"  # for --id, --probability and --weight: no column has this role
EVERY = 1_000_000  # nodes between two checkpoints
MAX_NUMBERS = 1000  # of clusters, in one run

_engine_option = functools.partial(typer.Option, rich_help_panel="Engines")

# Options of commands, by the parameter.
OPTIONS = {
    "files": typer.Argument(metavar="FILE", help="Files, folders, patterns, URLs of them, or - for standard input."),
    "clusters": typer.Option(
        "-k", "--clusters", metavar="K", help="Number of clusters: 20, or several: 5,10,20 or 2:30."
    ),
    "seed": typer.Option(min=0, metavar="N", help="Seed; the same one gives the same bits."),
    "n_init": typer.Option(
        metavar="N", help="Starts of the solver; default 10, fewer from 16 clusters on, 1 with --preset paper."
    ),
    "outliers": typer.Option(
        metavar="SHARE", help="Leave out this share of the mass, farthest from all centers: 0.02, for example."
    ),
    "outlier_distance": typer.Option(
        metavar="X", help="Leave out nodes that are farther than this from all centers, beyond their own spread."
    ),
    "output": typer.Option("-o", "--output", help="Folder for the results."),
    "checkpoint": typer.Option(metavar="PATH", help="Save the state to this file; rerun the command to resume."),
    "checkpoint_every": typer.Option(min=1, metavar="NODES", help="Nodes between two checkpoints."),
    "engine": _engine_option(metavar="NAME", help=f"Where to run: local (this process), {' or '.join(NAMES)}."),
    "workers": _engine_option(metavar="WHERE", help="Number of workers on this machine, or the scheduler's address."),
    "part_size": _engine_option(metavar="MB", min=1, help="Size of the part that a worker reads at a time."),
    "centers": typer.Option(
        metavar="PATH", help="Centers: a results folder, its centers.parquet, or a table of features."
    ),
    "like": typer.Option(
        metavar="RESULTS", help="Read files as the run of this results folder did.", rich_help_panel=READING
    ),
}
WhichClusters = Annotated[
    int | None, typer.Option("-k", "--clusters", help="Number of clusters, if there are centers for several.")
]


# -- options that a command receives together --------------------------------------------------------------------------


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag(name: str, help: str, *short: str) -> inspect.Parameter:
    return _parameter(name, False, Annotated[bool, typer.Option(*short, f"--{name}", help=help)])


def _parameters(config: Any, panel: str, types: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """Options that the fields of a dataclass describe; ``types`` are those that differ on the command line."""
    types = get_type_hints(config) | types
    for each in fields(config):
        if each.metadata:
            kind = types[each.name]
            flags = [f"--{each.name.replace('_', '-')}"] if kind is bool else []  # without --no-...
            option = typer.Option(*flags, rich_help_panel=panel, **each.metadata)
            yield _parameter(each.name, each.default, Annotated[kind, option])


def _reading(**given: Any) -> Options:
    id, delimiter, realization = given.get("id"), given.get("delimiter"), given.get("realization")
    return Options(
        **given
        | {
            "features": names(given.get("features")) or None,
            "id": False if id == [NO_COLUMN] else names(id) or None,
            "delimiter": "\t" if delimiter == "\\t" else delimiter,
            "lonlat": _pair(given.get("lonlat")),
            "node": names(given.get("node")) or None,
            "realization": False if realization == [NO_COLUMN] else names(realization) or None,
        }
        | {name: False for name in ("probability", "weight") if given.get(name) == NO_COLUMN}
    )


TEXT, TEXTS = str | None, list[str] | None
TYPED = {
    "features": TEXTS,
    "id": TEXTS,
    "node": TEXTS,
    "realization": TEXTS,
    "probability": TEXT,
    "weight": TEXT,
    "lonlat": TEXT,
}

# Per parameter of a command: the options that replace it, and the function that makes its value from theirs.
GROUPS: dict[str, tuple[list[inspect.Parameter], Callable[..., Any]]] = {
    "console": ([_flag("json", "Print the result as JSON."), _flag("quiet", "Only print errors.", "-q")], Console),
    "summary_options": ([*_parameters(SummaryConfig, "Summary", {})], dict),
    "reading": ([*_parameters(Options, READING, TYPED | {"format": Literal[*FORMATS] | None})], _reading),
}


def command(*examples: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function a command, with examples as the epilog of its help.

    Its parameters become options, described here or in their annotation. Several options take the place of ``console``,
    ``reading`` (how to read, as Options) and ``summary_options`` (a dict: all of a summary but its number of clusters).
    """

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(function)
        groups = {name: GROUPS[name] for name in own.parameters if name in GROUPS}
        parameters: list[inspect.Parameter] = []
        for name, each in own.parameters.items():
            is_described = name not in OPTIONS or get_origin(each.annotation) is Annotated
            annotation = each.annotation if is_described else Annotated[each.annotation, OPTIONS[name]]
            parameters += groups[name][0] if name in groups else [_parameter(name, each.default, _parsed(annotation))]

        @functools.wraps(function)
        def run(**given: Any) -> Any:
            for name, (options, gather) in groups.items():
                given[name] = gather(**{each.name: given.pop(each.name) for each in options if each.name in given})
            with given["console"].warnings():
                return function(**given)

        made: Any = run
        made.__signature__ = own.replace(parameters=parameters)
        made.__annotations__ = {each.name: each.annotation for each in parameters}
        shown = (f"  {line.replace('[', chr(92) + '[')}" for line in examples)
        made.epilog = "\n\n".join(["Examples:", *shown])
        # typer would keep the line breaks of all paragraphs but the first.
        made.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(function) or "")
        return run

    return make


def _parsed(annotation: Any) -> Any:
    """The same annotation; a path may be a URL."""
    kind, *others = get_args(annotation)
    if Path not in (kind, *get_args(kind)):
        return annotation
    option = copy(others[0])
    option.parser = as_path
    if option.metavar is None and option.param_decls:  # of an argument, it is its name
        option.metavar = "PATH"
    return Annotated[kind, option]


# -- values of options -------------------------------------------------------------------------------------------------


def names(values: list[str] | None) -> list[str]:
    """Split names at commas, in one option or several; quotes protect a comma."""
    try:
        return [name.strip() for value in values or [] for name in next(csv.reader([value]), []) if name.strip()]
    except csv.Error:  # of a carriage return
        raise InputError(f"{values} are not names separated by commas. Put a name with a line end in quotes.") from None


def _pair(value: str | None) -> tuple[str, str] | None:
    if value is None:
        return None
    pair = names([value])
    if len(pair) != 2:
        raise InputError(f"--lonlat must be two columns, LON,LAT, got {value!r}.")
    return pair[0], pair[1]


def numbers_of_clusters(text: str) -> list[int]:
    """Parse 20, or 5,10,20, or 2:30, or 2:30:4 as numbers of clusters, in increasing order."""
    ks: set[int] = set()
    for part in text.split(","):
        try:
            start, *rest = (int(number) for number in part.split(":"))
            stop, step = [*rest, 1][:2] if rest else (start, 1)
            if len(rest) > 2 or start < 1 or stop < start or step < 1:
                raise ValueError
        except ValueError:
            given = text if len(text) < 50 else f"{text[:50]}..."
            raise InputError(f"-k must be a number, or several such as 5,10,20 or 2:30, got {given!r}.") from None
        if (n := (stop - start) // step + 1) > MAX_NUMBERS:
            raise InputError(f"-k {text} asks for {n:,} numbers of clusters; use at most {MAX_NUMBERS:,}.")
        ks |= set(range(start, stop + 1, step))
    return sorted(ks)


# -- the command line --------------------------------------------------------------------------------------------------


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
        block_unused_imports()
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


# -- imports that take long --------------------------------------------------------------------------------------------

# pyarrow imports pandas if it is installed, and Numba SciPy's BLAS and coverage: half a second for nothing, since few
# commands use them. The engines do.
_unused = {"pandas", "scipy", "coverage"}


class _BlockedImports:
    """Finder of modules that makes imports of unused packages fail as if they were not installed.

    A None in sys.modules would not do: pyarrow, compiled by Cython, takes it for the module.
    """

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """Find a module."""
        if name in _unused and "xarray" not in sys.modules:  # which needs pandas, and SciPy for old NetCDF
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def block_unused_imports() -> None:
    """Let imports of packages that no command uses fail."""
    sys.meta_path.insert(0, _BlockedImports)


def allow_import(name: str) -> None:
    """Let a package be imported after all."""
    _unused.discard(name)
