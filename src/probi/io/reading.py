"""How a run read its files: stored with its results, so that other files are read the same way."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from probi.errors import InputError
from probi.io.options import MAX_BAD, MAX_NODE_ROWS, Options
from probi.io.reader import Reader
from probi.tables.columns import ID_NAMES

# Options that say what a row means.
MEANING = ("layout", "group_size", "features", "id", "probability", "weight", "lonlat", "probabilities", "id_per_file")
# Those that are never None: a value other than this was given.
DEFAULTS = {"probabilities": "keep", "id_per_file": False}
# Options that say what to do with rows, and their defaults. One that is given now takes precedence.
HANDLING = {
    "missing": "error", "on_bad": "stop", "max_bad": MAX_BAD, "gather": False, "decimal": None,
    "max_node_rows": MAX_NODE_ROWS,
}  # fmt: skip


def reading_of(reader: Reader) -> dict[str, Any]:
    """Options, as plain values, that give columns the same roles again."""
    columns = reader.columns
    return {
        "layout": columns.layout,
        "group_size": columns.group_size,
        "features": columns.feature_columns,
        "id": list(columns.stored_ids),
        "probability": columns.probability,
        "weight": columns.weight,
        "lonlat": None if reader.space.lonlat is None else list(reader.space.lonlat),
        **{option: getattr(reader.options, option) for option in (*DEFAULTS, *HANDLING)},
    }


def as_before(options: Options, before: Mapping[str, Any] | None, name: str) -> Options:
    """Options completed by how a run read its files; one that contradicts it is an error.

    ``name`` is that of its results. None is known of a run before: nothing is added.
    """
    if before is None:
        return options
    try:
        # Results of older versions do not say what was done with rows.
        handling = {option: before.get(option, default) for option, default in HANDLING.items()}
        before = {option: before[option] for option in MEANING}
    except (AttributeError, KeyError, TypeError):
        raise InputError(f"{name} does not say how its run read its files.") from None
    given = {option: getattr(options, option) for option in MEANING}
    given |= {option: None for option, default in DEFAULTS.items() if given[option] == default}
    for option, value in given.items():
        # Features may be patterns, and are compared once the columns are known. Where rows do not share it, an id is
        # only a name.
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
    filled = {option: value if given[option] is None else given[option] for option, value in before.items()}
    # A column that had no role then has none now, whatever its name.
    filled |= {option: filled[option] or False for option in ("probability", "weight")}
    filled["id"] = None if filled["id"] == [] else filled["id"]
    filled["lonlat"] = None if filled["lonlat"] is None else tuple(filled["lonlat"])
    given_now = {option for option, default in HANDLING.items() if getattr(options, option) != default}
    return replace(options, **filled, **{name: value for name, value in handling.items() if name not in given_now})


def check_as_before(reader: Reader, before: Mapping[str, Any] | None, name: str) -> None:
    """Raise if the columns of a reader have other roles than in the run before."""
    if before is None:
        return
    for option, value in reading_of(reader).items():
        if option not in ("id", "lonlat", *HANDLING) and _listed(value) != _listed(before[option]):
            raise InputError(
                f"{reader.sources[0]} would be read with {option.replace('_', ' ')} {_text(value)}, but the run in "
                f"{name} had {_text(before[option])}. Rename or drop columns, or leave --features out."
            )


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else value


def _text(value: Any) -> str:
    values = _listed(value)
    return "none" if values in (None, []) else ",".join(map(str, values)) if isinstance(values, list) else str(values)
