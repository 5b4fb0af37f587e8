"""How a run read its files: kept with its results, so that other files are read alike."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from probi.errors import InputError
from probi.io.options import Options
from probi.io.reader import Reader

# Options that say what a row means.
MEANING = ("layout", "group_size", "features", "id", "probability", "weight", "lonlat")


def reading_of(reader: Reader) -> dict[str, Any]:
    """What the columns of a reader mean, as plain values of options that choose the same ones again."""
    columns = reader.columns
    return {
        "layout": columns.layout,
        "group_size": columns.group_size,
        "features": [columns.points] if columns.points else list(columns.features),
        "id": list(columns.ids),
        "probability": columns.probability,
        "weight": columns.weight,
        "lonlat": None if reader.space.lonlat is None else list(reader.space.lonlat),
    }


def as_before(options: Options, before: Mapping[str, Any] | None, name: str) -> Options:
    """Options completed by how a run read its files; one that contradicts it is an error.

    ``name`` is that of its results. None is known of a run before: nothing is added.
    """
    if before is None:
        return options
    try:
        before = {option: before[option] for option in MEANING}
    except (KeyError, TypeError):
        raise InputError(f"{name} does not say how its run read its files.") from None
    given = {option: getattr(options, option) for option in MEANING}
    for option, value in given.items():
        # Features may be patterns, and are compared once the columns are known. Where rows do not share it, an id is
        # only a name.
        if value is None or option == "features" or (option == "id" and before["layout"] != "long"):
            continue
        if _listed(value) != _listed(before[option]):
            raise _contradiction(option, f"{_said(value)} is given", before[option], name)
    filled = {option: value if given[option] is None else given[option] for option, value in before.items()}
    lonlat = filled["lonlat"]
    return replace(
        options, **filled | {"id": filled["id"] or None, "lonlat": None if lonlat is None else tuple(lonlat)}
    )


def check_as_before(reader: Reader, before: Mapping[str, Any] | None, name: str) -> None:
    """Raise if a reader found another meaning in its columns than the run before."""
    if before is None:
        return
    for option, value in reading_of(reader).items():
        if option not in ("id", "lonlat") and _listed(value) != _listed(before[option]):
            raise _contradiction(option, f"{reader.sources[0]} has {_said(value)}", before[option], name)


def _contradiction(option: str, now: str, before: Any, name: str) -> InputError:
    what = {"lonlat": "longitude and latitude"}.get(option, option.replace("_", " "))
    remedy = "probi convert writes files in another layout" if option in ("layout", "group_size") else "rename columns"
    return InputError(
        f"As {what}, {now}, but the run in {name} read {_said(before)}. Read the files alike, or {remedy}."
    )


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, (list, tuple)) else value


def _said(value: Any) -> str:
    return (
        "none"
        if value in (None, [], ())
        else ", ".join(map(str, _listed(value)))
        if not isinstance(value, int)
        else str(value)
    )
