"""Options that commands share, each defined once."""

import csv
import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from probi.engines import NAMES, PART_BYTES
from probi.errors import InputError
from probi.io.formats import FORMATS
from probi.io.options import MAX_BAD, MAX_NODE_ROWS, Options
from probi.summary.config import SummaryConfig

if TYPE_CHECKING:
    FormatName = str
    EngineName = str
else:
    FormatName = Literal[tuple(FORMATS)]  # so that the help lists them
    EngineName = Literal["local", *NAMES]

Layout = Literal["points", "groups", "long", "nested"]

READING = "Reading"

PART_MEGABYTES = PART_BYTES >> 20
NO_COLUMN = "none"  # for --id, --probability and --weight: no column has this role
EVERY = 1_000_000  # nodes between two checkpoints

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Files, folders, patterns, or - for standard input.")
]
Clusters = Annotated[
    str, typer.Option("-k", "--clusters", metavar="K", help="Number of clusters: 20, or several: 5,10,20 or 2:30.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed; the same one gives the same bits.")]
Starts = Annotated[
    int | None,
    typer.Option(
        "--n-init",
        metavar="N",
        help="Starts of the solver; default 10, or 1 for 32 clusters and more or with --preset paper.",
    ),
]
Folder = Annotated[Path | None, typer.Option("-o", "--output", help="Folder for the results.")]
Checkpoint = Annotated[
    Path | None, typer.Option("--checkpoint", help="Save the state to this file; rerun the command to resume.")
]
Every = Annotated[
    int, typer.Option("--checkpoint-every", min=1, metavar="NODES", help="Nodes between two checkpoints.")
]
_engine_option = functools.partial(typer.Option, rich_help_panel="Engines")
Engine = Annotated[
    EngineName,
    _engine_option("--engine", metavar="NAME", help=f"Where to run: local (this process), {' or '.join(NAMES)}."),
]
Workers = Annotated[
    str | None,
    _engine_option("--workers", metavar="WHERE", help="Number of workers on this machine, or the scheduler's address."),
]
PartSize = Annotated[
    int, _engine_option("--part-size", metavar="MB", min=1, help="Size of the part that a worker reads at a time.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Only print errors.")]
Centers = Annotated[
    Path, typer.Option("--centers", help="Centers: a results folder, its centers.parquet, or a table of features.")
]
WhichClusters = Annotated[
    int | None, typer.Option("-k", "--clusters", help="Number of clusters, if there are centers for several.")
]
Like = Annotated[
    Path | None,
    typer.Option(
        "--like", metavar="RESULTS", help="Read files as the run of this results folder did.", rich_help_panel=READING
    ),
]


def _reading(
    layout: Annotated[Layout | None, typer.Option(help="Meaning of a row; inferred by default.")] = None,
    group_size: Annotated[int | None, typer.Option(help="Rows per node, for layout groups.")] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help="Feature columns: a,b or WAP*; default all numeric columns."),
    ] = None,
    id: Annotated[
        list[str] | None, typer.Option(metavar="COLUMNS", help="Id columns of nodes: a, or a,b, or none.")
    ] = None,
    probability: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of probabilities, or none.")] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of weights, or none.")] = None,
    probabilities: Annotated[
        Literal["keep", "normalize"], typer.Option(help="keep them, or normalize those of each node to sum to 1.")
    ] = "keep",
    id_per_file: Annotated[bool, typer.Option("--id-per-file", help="Ids are unique only within a file.")] = False,
    format: Annotated[FormatName | None, typer.Option(help="File format; inferred by default.")] = None,
    delimiter: Annotated[str | None, typer.Option(help="CSV delimiter; inferred by default.")] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether CSV has a header; inferred by default.")
    ] = None,
    decimal: Annotated[str | None, typer.Option(metavar="SIGN", help="Decimal sign of CSV: comma or point.")] = None,
    scale: Annotated[str, typer.Option(help="Scale features: none, standard, robust, or a JSON file.")] = "none",
    lonlat: Annotated[
        str | None, typer.Option(metavar="LON,LAT", help="Columns in degrees; distances are then in km.")
    ] = None,
    missing: Annotated[
        Literal["error", "skip-row", "skip-node", "absent"],
        typer.Option(help="How to treat rows with a missing value."),
    ] = "error",
    on_bad: Annotated[Literal["stop", "skip"], typer.Option(help="stop at a bad row, or skip its node.")] = "stop",
    max_bad: Annotated[
        float, typer.Option(metavar="SHARE", help="Largest fraction of rows that may be left out.", min=0, max=1)
    ] = MAX_BAD,
    gather: Annotated[bool, typer.Option("--gather", help="Gather rows of a node that are not contiguous.")] = False,
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        typer.Option(help="Type of coordinates; float32 needs half the memory."),
    ] = None,
    max_node_rows: Annotated[int, typer.Option(help="Maximum number of rows per node.", min=1)] = MAX_NODE_ROWS,
) -> Options:
    given = dict(locals())
    return Options(
        **given
        | {
            "features": names(features) or None,
            "id": False if id == [NO_COLUMN] else names(id) or None,
            "probability": False if probability == NO_COLUMN else probability,
            "weight": False if weight == NO_COLUMN else weight,
            "delimiter": "\t" if delimiter == "\\t" else delimiter,
            "lonlat": _pair(lonlat),
        }
    )


def reads_nodes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the reading options to a command, which receives them together as ``reading``."""
    return _with_options(command, "reading", READING, list(inspect.signature(_reading).parameters.values()), _reading)


# Of the fields of a summary's config, whose annotations are text.
TYPES: dict[str, Any] = {"int": int, "int | None": int | None, "float | None": float | None, "str": str}


def makes_summary(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a summary except the number of clusters; the command receives them as the dict ``summary``."""
    parameters = [
        inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=entry.default,
            annotation=Annotated[TYPES[str(entry.type)], typer.Option(**entry.metadata)],
        )
        for entry in fields(SummaryConfig)
        if entry.metadata
    ]
    return _with_options(command, "summary", "Summary", parameters, dict)


def _with_options(
    command: Callable[..., Any], name: str, panel: str, options: list[inspect.Parameter], gather: Callable[..., Any]
) -> Callable[..., Any]:
    """Replace a parameter of a command by options; the command receives what ``gather`` makes of those given."""
    for option in options:
        option.annotation.__metadata__[0].rich_help_panel = panel
    own = inspect.signature(command)
    parameters = [p for p in own.parameters.values() if p.name != name] + options

    @functools.wraps(command)
    def with_options(**given: Any) -> Any:
        gathered = gather(**{option.name: given.pop(option.name) for option in options if option.name in given})
        return command(**{name: gathered}, **given)

    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    with_options.__signature__ = own.replace(parameters=keywords)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def examples(*lines: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add examples to a command, as the epilog of its help."""

    def with_examples(command: Callable[..., Any]) -> Callable[..., Any]:
        shown = (f"  {line.replace('[', chr(92) + '[')}" for line in lines)
        command.epilog = "\n\n".join(["Examples:", *shown])  # type: ignore[attr-defined]
        return command

    return with_examples


def names(values: list[str] | None) -> list[str]:
    """Split names at commas, in one option or several; quotes protect a comma."""
    return [name.strip() for value in values or [] for name in next(csv.reader([value]), []) if name.strip()]


def _pair(value: str | None) -> tuple[str, str] | None:
    if value is None:
        return None
    found = names([value])
    if len(found) != 2:
        raise InputError(f"--lonlat must be two columns, LON,LAT, got {value!r}.")
    return found[0], found[1]


def numbers_of_clusters(text: str) -> list[int]:
    """Parse 20, or 5,10,20, or 2:30, or 2:30:4 as numbers of clusters, in increasing order."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            start, *rest = (int(number) for number in part.split(":"))
            stop, step = [*rest, 1][:2] if rest else (start, 1)
            if len(rest) > 2 or start < 1 or stop < start or step < 1:
                raise ValueError
            found |= set(range(start, stop + 1, step))
    except ValueError:
        raise InputError(f"-k must be a number, or several such as 5,10,20 or 2:30, got {text!r}.") from None
    return sorted(found)
