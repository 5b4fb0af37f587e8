"""Options that commands share, each defined once."""

import csv
import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from probi.engines import PART_BYTES
from probi.errors import InputError
from probi.io.formats import FORMATS
from probi.io.options import MAX_BAD, MAX_NODE_ROWS, Options
from probi.summary.config import SummaryConfig

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]  # so that the help lists them

READING = "Reading"
ENGINES = "More than one process"

PART_MEGABYTES = PART_BYTES >> 20
NO_COLUMN = "none"  # for --id, --probability and --weight: no column has this role
EVERY = 1_000_000  # nodes between two checkpoints

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Files, folders, patterns, or - for standard input.")
]
Clusters = Annotated[
    str, typer.Option("-k", "--clusters", metavar="K", help="Clusters: 20, or several: 5,10,20 or 2:30.")
]
Seed = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="The same seed gives the same result, bit by bit.")
]
Starts = Annotated[
    int | None, typer.Option("--n-init", metavar="N", help="Starts of the solver; 10, or 1 with --preset paper.")
]
Folder = Annotated[Path | None, typer.Option("-o", "--output", help="Folder for the results.")]
Checkpoint = Annotated[
    Path | None, typer.Option("--checkpoint", help="Save the state here; run the command again to go on from it.")
]
Every = Annotated[int, typer.Option("--checkpoint-every", min=1, metavar="NODES", help="Nodes between two saves.")]
Engine = Annotated[
    Literal["local", "dask", "spark"],
    typer.Option(
        "--engine", metavar="NAME", help="Who reads: local (this process), dask or spark.", rich_help_panel=ENGINES
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="WHERE",
        help="Workers on this machine, or the scheduler's address.",
        rich_help_panel=ENGINES,
    ),
]
PartSize = Annotated[
    int,
    typer.Option("--part-size", metavar="MB", min=1, help="What a worker reads at a time.", rich_help_panel=ENGINES),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No talk on standard error, errors excepted.")]
Centers = Annotated[
    Path, typer.Option("--centers", help="Centers: a results folder, its centers.parquet, or a table of features.")
]

Like = Annotated[
    Path | None,
    typer.Option(
        "--like", metavar="RESULTS", help="Read as the run of this results folder did.", rich_help_panel=READING
    ),
]


def _reading(
    layout: Annotated[
        Literal["points", "groups", "long", "nested"] | None,
        typer.Option(help="What a row is; guessed if not given.", rich_help_panel=READING),
    ] = None,
    group_size: Annotated[int | None, typer.Option(help="Rows a node, layout groups.", rich_help_panel=READING)] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS", help="Coordinates: a,b or WAP*; all numbers if not given.", rich_help_panel=READING
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help="Names of nodes: a, or a,b, or none.", rich_help_panel=READING),
    ] = None,
    probability: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Probabilities, or none.", rich_help_panel=READING)
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Weights, or none.", rich_help_panel=READING)
    ] = None,
    probabilities: Annotated[
        Literal["keep", "normalize"],
        typer.Option(help="Divide those of each node by their sum: normalize.", rich_help_panel=READING),
    ] = "keep",
    id_per_file: Annotated[
        bool, typer.Option("--id-per-file", help="Ids start anew in each file.", rich_help_panel=READING)
    ] = False,
    format: Annotated[
        FormatName | None,
        typer.Option(help="By the name if not given.", rich_help_panel=READING),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="Of CSV; guessed.", rich_help_panel=READING)] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Whether CSV has one; guessed.", rich_help_panel=READING)
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Of CSV: a comma, or a point.", rich_help_panel=READING)
    ] = None,
    scale: Annotated[
        str,
        typer.Option(help="Divide features: none, standard, robust, or a JSON file.", rich_help_panel=READING),
    ] = "none",
    lonlat: Annotated[
        str | None,
        typer.Option(metavar="LON,LAT", help="Columns in degrees; distances become km.", rich_help_panel=READING),
    ] = None,
    missing: Annotated[
        Literal["error", "skip-row", "skip-node", "absent"],
        typer.Option(help="What to do with rows without a value.", rich_help_panel=READING),
    ] = "error",
    on_bad: Annotated[
        Literal["stop", "skip"],
        typer.Option(help="At rows that cannot be used stop, or skip their nodes.", rich_help_panel=READING),
    ] = "stop",
    max_bad: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Stop if more rows are left out.", rich_help_panel=READING, min=0, max=1),
    ] = MAX_BAD,
    gather: Annotated[
        bool,
        typer.Option("--gather", help="Put scattered rows of a node together.", rich_help_panel=READING),
    ] = False,
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        typer.Option(help="float32 takes half the memory.", rich_help_panel=READING),
    ] = None,
    max_node_rows: Annotated[
        int, typer.Option(help="More rows of one node are an error.", rich_help_panel=READING, min=1)
    ] = MAX_NODE_ROWS,
) -> Options:
    return Options(
        layout=layout,
        group_size=group_size,
        features=names(features) or None,
        id=False if id == [NO_COLUMN] else names(id) or None,
        probability=False if probability == NO_COLUMN else probability,
        weight=False if weight == NO_COLUMN else weight,
        probabilities=probabilities,
        id_per_file=id_per_file,
        format=format,
        delimiter="\t" if delimiter == "\\t" else delimiter,
        header=header,
        decimal=decimal,
        scale=scale,
        lonlat=_pair(lonlat),
        missing=missing,
        on_bad=on_bad,
        max_bad=max_bad,
        gather=gather,
        dtype=dtype,
        max_node_rows=max_node_rows,
    )


def reads_nodes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of reading; it gets them together, as ``reading``."""
    return _with_options(command, "reading", list(inspect.signature(_reading).parameters.values()), _reading)


def makes_summary(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a summary, all but the number of clusters; it gets them as a dict, ``summary``."""
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
    return _with_options(command, "summary", parameters, dict)


# Of the fields of a summary's config, whose annotations are text.
TYPES: dict[str, Any] = {
    "int": int, "int | None": int | None, "float | None": float | None, "str": str,
}  # fmt: skip


def _with_options(
    command: Callable[..., Any], name: str, options: list[inspect.Parameter], gather: Callable[..., Any]
) -> Callable[..., Any]:
    """Give a command options in the place of a parameter, which gets what ``gather`` makes of them."""
    own = inspect.signature(command)
    parameters = [p for p in own.parameters.values() if p.name != name] + options

    @functools.wraps(command)
    def with_options(**given: Any) -> Any:
        gathered = gather(**{option.name: given.pop(option.name) for option in options})
        return command(**{name: gathered}, **given)

    keywords = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    with_options.__signature__ = own.replace(parameters=keywords)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def examples(*lines: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command examples, which its --help shows."""

    def with_examples(command: Callable[..., Any]) -> Callable[..., Any]:
        command.__examples__ = lines  # type: ignore[attr-defined]
        return command

    return with_examples


def examples_of(command: Callable[..., Any]) -> str | None:
    """Examples of a command, as the end of its help."""
    lines = getattr(command, "__examples__", ())
    return "\n\n".join(["Examples:", *(f"  {line.replace('[', chr(92) + '[')}" for line in lines)]) if lines else None


def names(values: list[str] | None) -> list[str]:
    """Names separated by commas, in one option or several; quotes protect a comma."""
    return [name.strip() for value in values or [] for name in next(csv.reader([value]), []) if name.strip()]


def _pair(value: str | None) -> tuple[str, str] | None:
    if value is None:
        return None
    found = names([value])
    if len(found) != 2:
        raise InputError(f"--lonlat is {value!r}, but must be two columns: --lonlat LON,LAT.")
    return found[0], found[1]


def numbers_of_clusters(text: str) -> list[int]:
    """Read 20, or 5,10,20, or 2:30, or 2:30:4 as numbers of clusters, in rising order."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            start, *rest = (int(number) for number in part.split(":"))
            stop, step = [*rest, 1][:2] if rest else (start, 1)
            if len(rest) > 2 or start < 1 or stop < start or step < 1:
                raise ValueError
            found |= set(range(start, stop + 1, step))
    except ValueError:
        raise InputError(f"-k is {text!r}, but must be a number, or several as 5,10,20 or 2:30.") from None
    return sorted(found)
