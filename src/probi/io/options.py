"""How to read: the options of :func:`probi.io.read`, and those that repeat how an earlier run read its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from probi.errors import InputError
from probi.summary.config import option_field
from probi.tables import ID_NAMES, Given, Layout

if TYPE_CHECKING:
    from probi.io.reader import Reader

# More rows of one node are taken for a mistake, such as a wrong column of ids: they must fit in memory at once.
MAX_NODE_ROWS = 100_000
# A larger share of rows that are left out is taken for a mistake.
MAX_BAD = 0.1


@dataclass(frozen=True)
class Options:
    """How to read; see :func:`read`. The metadata of a field describe its command-line option."""

    layout: Layout | None = option_field(None, "Meaning of a row; inferred by default.")
    features: Sequence[str] | None = option_field(
        None, "Feature columns: a,b or WAP*; default all numeric columns.", metavar="COLUMNS"
    )
    id: Given | Sequence[str] = option_field(None, "Id columns of nodes: a, or a,b, or none.", metavar="COLUMNS")
    probability: Given = option_field(None, "Column of probabilities, or none.", metavar="COLUMN")
    weight: Given = option_field(None, "Column of weights, or none.", metavar="COLUMN")
    probabilities: Literal["keep", "normalize"] = option_field(
        "keep", "Keep them, or normalize those of each node to sum to 1."
    )
    group_size: int | None = option_field(None, "Rows per node, for layout groups.", metavar="N")
    node: Sequence[str] | None = option_field(
        None, "Dimensions that tell nodes apart, of NetCDF, Zarr and GRIB.", metavar="DIMENSIONS"
    )
    realization: Sequence[str] | Literal[False] | None = option_field(
        None, "Dimensions of the realizations, or none; inferred by default.", metavar="DIMENSIONS"
    )
    format: str | None = option_field(None, "File format; inferred by default.")
    delimiter: str | None = option_field(None, "CSV delimiter; inferred by default.", metavar="SIGN")
    header: bool | None = option_field(None, "Whether CSV has a header; inferred by default.")
    decimal: str | None = option_field(None, "Decimal sign of CSV: comma or point.", metavar="SIGN")
    lonlat: tuple[str, str] | None = option_field(
        None, "Columns in degrees; distances are then in km.", metavar="LON,LAT"
    )
    scale: str = option_field("none", "Scale features: none, standard, robust, or a JSON file.", metavar="HOW")
    missing: Literal["error", "skip-row", "skip-node", "absent"] = option_field(
        "error", "How to treat rows with a missing value."
    )
    on_bad: Literal["stop", "skip"] = option_field("stop", "Stop at a bad row, or skip its node.")
    max_bad: float = option_field(MAX_BAD, "Largest share of rows that may be left out.", metavar="SHARE", min=0, max=1)
    id_per_file: bool = option_field(False, "Ids are unique only within a file.")
    gather: bool = option_field(False, "Gather rows of a node that are not contiguous.")
    dtype: Literal["float32", "float64"] | None = option_field(
        None, "Type of coordinates; float32 needs half the memory."
    )
    max_node_rows: int = option_field(MAX_NODE_ROWS, "Maximum number of rows per node.", metavar="N", min=1)

    def __post_init__(self) -> None:
        from probi.validation import check_choice, check_missing  # needs NumPy, which the help does without

        check_missing(self.missing, self.probabilities)
        check_choice("on_bad", self.on_bad, ("stop", "skip"))
        check_choice("probabilities", self.probabilities, ("keep", "normalize"))
        pair: Any = self.lonlat
        if pair is not None and (isinstance(pair, str) or len(pair) != 2):
            raise InputError(f"lonlat is {pair!r}, but must be two columns, as in ('lon', 'lat').")
        if self.decimal not in (None, ".", ","):
            raise InputError(f"decimal is {self.decimal!r}, but must be a point or a comma.")
        if not 0 <= self.max_bad <= 1:
            raise InputError(f"max_bad is {self.max_bad!r}, but must be a share between 0 and 1.")
        if self.dtype not in (None, "float32", "float64"):
            raise InputError(f"dtype is {self.dtype!r}, but must be float32 or float64.")


DEFAULTS = {option.name: option.default for option in fields(Options)}


# -- as an earlier run -------------------------------------------------------------------------------------------------

# Options that say what a row means.
MEANING = ("layout", "group_size", "features", "id", "probability", "weight", "lonlat", "probabilities", "id_per_file")
# The same of labeled arrays; results of older versions do not record them.
LABELED = ("node", "realization")
# Types of what is recorded, beside the defaults; lists are those of names.
RECORDED: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("layout", "probability", "weight", "probabilities", "missing", "on_bad", "decimal"), str),
    **dict.fromkeys(("features", "id", "lonlat", "node", "realization"), list),
    **dict.fromkeys(("id_per_file", "gather"), bool),
    **dict.fromkeys(("group_size", "max_node_rows"), int),
    "max_bad": (int, float),
}
# Options that say what to do with rows. One that is given now takes precedence.
HANDLING = ("missing", "on_bad", "max_bad", "gather", "decimal", "max_node_rows")


def reading_of(reader: "Reader") -> dict[str, Any]:
    """Options, as plain values, that give columns the same roles again."""
    columns, labeled = reader.columns, reader.labeled
    return {
        "layout": columns.layout,
        "group_size": columns.group_size,
        "features": columns.feature_columns if labeled is None else list(labeled.variables or ()),
        "id": list(columns.stored_ids),
        "probability": columns.probability,
        "weight": columns.weight,
        "lonlat": None if reader.space.lonlat is None else list(reader.space.lonlat),
        **{option: getattr(reader.options, option) for option in ("probabilities", "id_per_file", *HANDLING)},
        **{option: _plain(getattr(labeled, option)) for option in LABELED if labeled is not None},
    }


def like_run(options: Options, before: Mapping[str, Any] | None, name: str) -> Options:
    """Options completed by how a run read its files; one that contradicts it is an error.

    ``name`` is that of its results. If ``before`` is None, there is no such run, and the options are returned.
    """
    if before is None:
        return options
    try:
        # Results of older versions do not record how rows were handled.
        handling = {option: before.get(option, DEFAULTS[option]) for option in HANDLING}
        before = {option: before[option] for option in MEANING} | {option: before.get(option) for option in LABELED}
        if not all(map(_is_recorded, *zip(*(handling | before).items(), strict=True))):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{name} does not record how its run read its files.") from None
    # None: not given, because it has its default.
    given: dict[str, Any] = {
        option: value if (value := getattr(options, option)) != DEFAULTS[option] else None
        for option in (*MEANING, *LABELED)
    }
    for option, value in given.items():
        # Features may be patterns: they are compared once the columns are known. Ids matter only where rows of a node
        # share one.
        if value is None or option == "features" or (option == "id" and before["layout"] != "long"):
            continue
        if _listed(value or None) != _listed(before[option]):
            convert = (
                ", or bring the files into that layout: probi convert" if option in ("layout", "group_size") else ""
            )
            raise InputError(
                f"--{option.replace('_', '-')} is {_text(value)}, but the run in {name} had {_text(before[option])}. "
                f"Leave the option out{convert}."
            )
    if before["layout"] != "long" and set(map(str.lower, before["id"])) <= set(ID_NAMES):
        before["id"] = []  # inferred again if there is one
    filled: dict[str, Any] = {
        option: value if given[option] is None else given[option] for option, value in before.items()
    }
    # A column that had no role then has none now, whatever its name.
    filled |= {option: filled[option] or False for option in ("probability", "weight")}
    filled["id"] = None if filled["id"] == [] else filled["id"]
    filled["lonlat"] = None if filled["lonlat"] is None else tuple(filled["lonlat"])
    handling = {option: value for option, value in handling.items() if getattr(options, option) == DEFAULTS[option]}
    return replace(options, **filled, **handling)


def check_like_run(reader: "Reader", before: Mapping[str, Any] | None, name: str) -> None:
    """Raise if the columns of a reader have other roles than in the earlier run."""
    if before is None:
        return
    for option, value in reading_of(reader).items():
        if option not in ("id", "lonlat", *HANDLING) and _listed(value) != _listed(before.get(option)):
            raise InputError(
                f"{reader.sources[0]} would be read with {option.replace('_', ' ')} {_text(value)}, but the run in "
                f"{name} had {_text(before[option])}. Rename or drop columns, or leave --features out."
            )


def _is_recorded(option: str, value: Any) -> bool:
    """Whether a run may have recorded this value."""
    if value is None:
        return DEFAULTS[option] is None and option not in ("features", "id")
    if value is False and option in LABELED:
        return True
    names = value if isinstance(value, list) else []
    return isinstance(value, RECORDED[option]) and all(isinstance(name, str) for name in names)


def _plain(value: Any) -> Any:
    """Names as JSON holds them; False where there are none."""
    return list(value) if value else False


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else value


def _text(value: Any) -> str:
    values = _listed(value)
    return "none" if values in (None, []) else ",".join(map(str, values)) if isinstance(values, list) else str(values)
