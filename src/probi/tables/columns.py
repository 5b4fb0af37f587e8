"""Roles of the columns of a table: given by the user, or inferred by name and type."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import get_args

import pyarrow as pa
import pyarrow.types as kind

from probi._notes import counted
from probi.errors import InputError
from probi.tables import ID_NAMES, Given, Layout

LAYOUTS = get_args(Layout)

# Names, in lower case, from which roles are inferred if the user gives none.
PROBABILITY_NAMES = ("probability", "probabilities", "prob", "p")
WEIGHT_NAMES = ("weight", "weights")
POINTS_NAMES = ("points", "realizations")

# Names of columns that number the realizations of a node, and are not features then.
MEMBER_NAMES = (
    "member", "realization", "draw", "sample", "number", "imputation", "replicate", "chain", "iteration",
    ".imp", ".draw", ".chain", ".iteration",
)  # fmt: skip

# Prefix of the names that pandas gives to unnamed levels of an index; they are not reported as left out.
UNNAMED_INDEX = "__index_level_"

# Features of the points in one column, whose type claims any number of them: each gets a name, of some hundred bytes.
MAX_FEATURES = 1 << 20

# Names of integer columns that probably identify things; so do all names that end in _id or Id.
GROUPING_NAMES = (
    "group", "object", "entity", "individual", "subject", "patient", "person", "user", "device", "sensor", "station",
    "site", "series", "track", "trip", "vehicle",
)  # fmt: skip
GROUPING_END = re.compile(r"([_. ](id|Id|ID)|[a-z](Id|ID))$")

LONGITUDE_NAMES = ("longitude", "lon", "lng", "long")
LATITUDE_NAMES = ("latitude", "lat")


@dataclass(frozen=True)
class Columns:
    """Roles of a table's columns.

    Attributes
    ----------
    layout : {"points", "groups", "long", "nested"}
        What a row is.
    features : tuple of str
        Names of the features. In a nested table each is a column of lists, unless ``points`` is given.
    ids : tuple of str
        Columns that name a node; together they are its id.
    probability, weight : str or None
        Columns of probabilities and weights.
    points : str or None
        In a nested table: the column that holds lists of points.
    group_size : int or None
        Rows per node, in the layout "groups".
    left_out : tuple of str
        Columns without a role.
    file : str or None
        If ids are unique only per file: the id column that holds the name of the file, and is in no file.
    """

    layout: str
    features: tuple[str, ...]
    ids: tuple[str, ...] = ()
    probability: str | None = None
    weight: str | None = None
    points: str | None = None
    group_size: int | None = None
    left_out: tuple[str, ...] = ()
    file: str | None = None

    @property
    def degrees(self) -> tuple[str, str] | None:
        """Features that are called longitude and latitude, if there are two."""
        return degrees_in(self.features)

    @property
    def degrees_note(self) -> str:
        """That degrees are not distances, and what to do about it."""
        lon, lat = self.degrees or ("", "")
        return (
            f"{lon} and {lat} are used as plain numbers, but degrees are not distances. probi.geo.to_sphere makes "
            f"kilometers of an array of longitudes and latitudes, in this order (--lonlat {lon},{lat})."
        )

    @property
    def used(self) -> list[str]:
        """Columns to read."""
        return [*self.stored_ids, *self.feature_columns, *(name for name in (self.probability, self.weight) if name)]

    @property
    def feature_columns(self) -> list[str]:
        """Columns that hold the features."""
        return [self.points] if self.points else list(self.features)

    @property
    def list_columns(self) -> list[str]:
        """Columns of lists in a nested table, which have one length per node."""
        return [*self.feature_columns, *([self.probability] if self.probability else [])]

    @property
    def stored_ids(self) -> tuple[str, ...]:
        """Columns of ids that a file holds."""
        return tuple(name for name in self.ids if name != self.file)

    def per_file(self, names: Sequence[str]) -> "Columns":
        """The same roles with the name of the file, in a column of its own, as part of the id."""
        if not self.ids:
            raise InputError("Ids per file (--id-per-file) need a column of ids. Name it: id (--id).")
        name = "file"
        while name in names:
            name += "_"
        return replace(self, ids=(name, *self.ids), file=name)

    def __str__(self) -> str:
        """One line for people."""
        row = {
            "points": "each row a certain node",
            "groups": f"{self.group_size} rows per node",
            "long": f"rows of a node share {_join_names(self.ids)}",
            "nested": "each row a node with lists",
        }[self.layout]
        parts = [
            f"layout {self.layout} ({row})",
            f"{counted(len(self.features), 'feature')} ({_join_names(self.features)})",
        ]
        if self.ids and self.layout != "long":
            parts.append(f"id {_join_names(self.ids)}")
        parts += [f"{role} {name}" for role in ("probability", "weight") if (name := getattr(self, role))]
        if self.left_out:
            parts.append(f"left out: {_join_names(self.left_out)}")
        return "; ".join(parts)


def degrees_in(names: Sequence[str]) -> tuple[str, str] | None:
    """Names of longitude and latitude among others, if both are there."""
    pair = [*_with_names(LONGITUDE_NAMES, names)[:1], *_with_names(LATITUDE_NAMES, names)[:1]]
    return (pair[0], pair[1]) if len(pair) == 2 else None


def _join_names(names: Sequence[str], max_names: int = 6) -> str:
    if len(names) <= max_names:
        return ", ".join(names)
    return f"{', '.join(names[: max_names - 2])}, ... {names[-1]}"


def repeated(names: Sequence[str]) -> str | None:
    """First name, in the order of the alphabet, that there is twice."""
    return min((name for name, times in Counter(names).items() if times > 1), default=None)


def choose_columns(
    schema: pa.Schema,
    layout: str | None = None,
    *,
    features: Sequence[str] | None = None,
    id: Given | Sequence[str] = None,
    probability: Given = None,
    weight: Given = None,
    group_size: int | None = None,
    first: Callable[[], pa.Table] | None = None,
) -> Columns:
    """Roles of the columns of a table with this schema.

    ``id``, ``probability`` and ``weight`` are names, False (no column has this role) or None (guess by name). Ambiguous
    columns raise an error that asks which role is meant. ``features`` may hold patterns such as ``WAP*``, which
    take no column that has another role. ``first`` returns a table with the first rows: only these tell the number of
    features in a column of lists of points.
    """
    _check_options(layout, group_size)
    names = list(schema.names)
    if (twice := repeated(names)) is not None:
        raise InputError(f"Duplicate column name {twice!r}. Give each column its own name.")
    if "" in names:
        raise InputError(f"Column {names.index('') + 1} has no name. Give it one.")
    ids = [id] if isinstance(id, str) else list(id or ())
    named = [*ids, *(name for name in (probability, weight) if name)]
    for name in named:
        _require(name, names)
    wanted = None if features is None else _matching(features, names)
    # Patterns do not count.
    both = [name for i, name in enumerate(named) if name in named[:i] or name in (features or ())]
    if both:
        raise InputError(f"Column {both[0]!r} was given two roles. A column has one.")
    # What a pattern catches may still be an id, a probability or a weight; what is named in full is a feature.
    free = [name for name in names if name not in named and name not in (features or ())]
    if id is None:
        ids = _with_names(ID_NAMES, free)[:1]
    by_name = next(iter(_with_names(PROBABILITY_NAMES, free)), None) if probability is None else probability or None
    is_given = layout is not None
    layout = layout or _infer_layout(schema, group_size, bool(ids), by_name)
    if probability and layout not in ("long", "nested"):
        raise InputError(f"A table in the layout {layout!r} has no probabilities, but {probability!r} was named.")
    probability = by_name if layout in ("long", "nested") else None
    if weight and layout == "groups":
        raise InputError(f"A table in the layout 'groups' has no weights, but {weight!r} was named.")
    if weight is None and layout != "groups":
        weight = _infer_weight(free, layout, probability)
    weight = weight or None
    if layout == "long" and id is False:
        raise InputError(
            'The layout "long" needs an id, which tells nodes apart: name its column, id (--id COLUMN). If each row '
            'is a node, say layout="points" (--layout points).'
        )
    if layout == "long" and not ids:
        raise InputError("Which column has the id of the node? Name it: id (--id). No column is called id or node.")
    if layout == "groups" and group_size is None:
        raise InputError("How many rows make a node? Pass group_size (--group-size).")
    _check_types(schema, layout, ids, probability, weight)
    roles = {*ids, probability, weight}
    members = [] if wanted is not None else [n for n in _with_names(MEMBER_NAMES, free) if n not in roles]
    if layout == "points" and members and not is_given and is_number(schema.field(members[0]).type):
        raise InputError(
            f"Does {members[0]!r} number the realizations of a node, or is each row a node of its own? Say which: "
            'layout="long" with an id (--layout long --id COLUMN), or layout="points" (--layout points).'
        )
    if layout == "points" and by_name is not None and wanted is None and not is_given:
        raise InputError(
            f"Does {by_name!r} hold probabilities of realizations, or is it a feature? Say which: "
            'layout="long" with an id (--layout long --id COLUMN), or layout="points" (--layout points).'
        )
    if layout in ("points", "groups") and id is None and not ids and wanted is None:
        _check_no_grouping([schema.field(name) for name in free if name not in roles])
    members = members if layout in ("groups", "long") else []
    points, chosen = _features(schema, layout, wanted, {*roles, *members}, first)
    used = roles | set(chosen) | {points}
    return Columns(
        layout=layout,
        features=tuple(chosen),
        ids=tuple(ids),
        probability=probability,
        weight=weight,
        points=points,
        group_size=group_size if layout == "groups" else None,
        left_out=tuple(name for name in names if name not in used and not name.startswith(UNNAMED_INDEX)),
    )


def _check_no_grouping(fields: Sequence[pa.Field]) -> None:
    """Raise if the name of a feature looks like that of an id."""
    for name in [field.name for field in fields if kind.is_integer(field.type)]:
        if name.lower() in GROUPING_NAMES or GROUPING_END.search(name):
            raise InputError(
                f"Is {name!r} the id of the node that a row belongs to, or a feature? Say which: id={name!r} "
                f"(--id {name}), or id=False (--id none)."
            )


def _infer_weight(free: Sequence[str], layout: str, probability: str | None) -> str | None:
    """Infer the column of weights by its name, if lists or probabilities show that rows belong to nodes.

    Otherwise it may be a feature, such as the weight of a person.
    """
    name = next(iter(_with_names(WEIGHT_NAMES, free)), None)
    if name is None or layout == "nested" or (layout == "long" and probability is not None):
        return name
    raise InputError(
        f"Does {name!r} say how many nodes a row stands for, or is it a feature? Say which: weight={name!r} "
        f"(--weight {name}), or weight=False (--weight none)."
    )


def _check_options(layout: str | None, group_size: int | None) -> None:
    if layout is not None and layout not in LAYOUTS:
        raise InputError(f"There is no layout {layout!r}: choose one of {', '.join(LAYOUTS)}.")
    if group_size is not None and group_size < 1:
        raise InputError(f"group_size must be at least 1, got {group_size}.")
    if group_size is not None and layout not in (None, "groups"):
        raise InputError(f"A group size of {group_size} was given, but the layout is {layout!r} and not 'groups'.")


def _require(name: str, names: Sequence[str]) -> None:
    if name not in names:
        raise InputError(f"There is no column {name!r}. The columns are {_join_names(names, 12)}.")


def _check_types(
    schema: pa.Schema, layout: str, ids: Sequence[str], probability: str | None, weight: str | None
) -> None:
    for name in ids:
        type = schema.field(name).type
        values = type.value_type if kind.is_dictionary(type) else type
        if any(is_kind(values) for is_kind in NO_IDS):
            raise InputError(f"The column {name!r} holds {type}, which cannot be an id. Convert it to text or numbers.")
    for role, column in (("probability", probability), ("weight", weight)):
        if column is None:
            continue
        type = schema.field(column).type
        as_list = role == "probability" and layout == "nested"
        if not (is_list(type) and may_be_number(type.value_type) if as_list else may_be_number(type)):
            wanted = "lists of numbers" if as_list else "numbers"
            raise InputError(f"Column {column!r} holds {type}, but the {role} must be {wanted}.")


def _matching(patterns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns that match a list of names and patterns, in the order of the list."""
    chosen: dict[str, None] = {}
    for pattern in patterns:
        matching = [pattern] if pattern in names else [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            _require(pattern, names)
        chosen.update(dict.fromkeys(matching))
    return list(chosen)


def _with_names(candidates: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns whose names are among the candidates, in upper or lower case, in the order of the candidates."""
    lower = {name.lower(): name for name in reversed(names)}
    return [lower[name] for name in candidates if name in lower]


def _infer_layout(schema: pa.Schema, group_size: int | None, has_ids: bool, probability: str | None) -> str:
    if group_size is not None:
        return "groups"
    if any(is_list(field.type) for field in schema):
        return "nested"
    return "long" if has_ids and probability is not None else "points"


def _features(
    schema: pa.Schema,
    layout: str,
    wanted: list[str] | None,
    roles: set[str | None],
    first: Callable[[], pa.Table] | None,
) -> tuple[str | None, list[str]]:
    """Column with lists of points, if there is one, and names of the features."""
    candidates = [
        field
        for field in schema
        if field.name not in roles
        and (field.name in wanted if wanted is not None else not field.name.startswith(UNNAMED_INDEX))
    ]
    if layout == "nested":
        nested = [f for f in candidates if _depth(f.type) == 2]
        nested.sort(key=lambda field: field.name.lower() not in POINTS_NAMES)
        if nested:
            return nested[0].name, [f"x{j}" for j in range(_n_features(nested[0], first))]
        features = [f.name for f in candidates if _depth(f.type) == 1]
        lacks = "columns of lists"
    else:
        features = [f.name for f in candidates if is_number(f.type) or (wanted is not None and may_be_number(f.type))]
        lacks = "columns of numbers"
    known = set(features)
    if wanted is not None and (odd := [name for name in wanted if name not in known and name not in roles]):
        raise InputError(f"The column {odd[0]!r} holds {schema.field(odd[0]).type}, which cannot be a feature.")
    if not features:
        columns = _join_names([f"{field.name} ({field.type})" for field in schema], 12) or "none"
        raise InputError(
            f"There are no features: no {lacks} except those with another role. The columns are {columns}."
        )
    order = wanted if wanted is not None else features
    return None, [name for name in order if name in known]


def _n_features(field: pa.Field, first: Callable[[], pa.Table] | None) -> int:
    point = field.type.value_type
    if kind.is_fixed_size_list(point):
        if point.list_size > MAX_FEATURES:
            raise InputError(
                f"The column {field.name!r} has points with {point.list_size:,} features, but at most {MAX_FEATURES:,} "
                "are allowed in one column."
            )
        return int(point.list_size)
    values = [] if first is None else first()[field.name].to_pylist()
    sizes = [len(points[0]) for points in values if points and points[0] is not None]
    if not sizes or sizes[0] == 0:
        raise InputError(f"The column {field.name!r} holds no points in its first rows.")
    return sizes[0]


def is_list(type: pa.DataType) -> bool:
    """Whether a column holds lists."""
    return bool(kind.is_list(type) or kind.is_large_list(type) or kind.is_fixed_size_list(type))


def _depth(type: pa.DataType) -> int:
    """How many lists deep the numbers of a column are; 0 where there are no numbers."""
    if is_list(type) and is_number(innermost(type)):
        return 1 + _depth(type.value_type)
    return 0


def innermost(type: pa.DataType) -> pa.DataType:
    """Type of the values in lists of lists."""
    while is_list(type):
        type = type.value_type
    return type


def is_text(type: pa.DataType) -> bool:
    """Whether a column holds text."""
    return bool(kind.is_string(type) or kind.is_large_string(type) or kind.is_string_view(type))


def is_binary(type: pa.DataType) -> bool:
    """Whether a column holds bytes of any length."""
    return bool(kind.is_binary(type) or kind.is_large_binary(type) or kind.is_binary_view(type))


def may_be_number(type: pa.DataType) -> bool:
    """Whether a column can be read as numbers on request."""
    type = type.value_type if kind.is_dictionary(type) else type
    return is_number(type) or is_text(type) or bool(kind.is_null(type))


def is_number(type: pa.DataType) -> bool:
    """Whether a column holds numbers; dates are not."""
    return bool(kind.is_integer(type) or kind.is_floating(type) or kind.is_decimal(type) or kind.is_boolean(type))


# pyarrow cannot compare these, or cannot write them to files.
NO_IDS = (kind.is_nested, kind.is_interval, kind.is_float16)

# Ids of different kinds are different ids.
KINDS_OF_IDS = {
    "text": is_text,
    "bytes": is_binary,
    "whole numbers": kind.is_integer,
    "numbers": kind.is_floating,
    "dates": kind.is_date,
    "times": kind.is_timestamp,
}
KINDS = {"lists": is_list, "numbers": is_number, "text": is_text}


def kind_of(type: pa.DataType, is_id: bool) -> str | None:
    """Describe what a column holds; None if it holds only nulls."""
    type = type.value_type if kind.is_dictionary(type) else type
    kinds = KINDS_OF_IDS if is_id else KINDS
    return None if kind.is_null(type) else next((name for name, fits in kinds.items() if fits(type)), str(type))
