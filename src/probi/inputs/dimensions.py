"""Roles of the dimensions of labeled arrays: which are nodes, which are realizations; the others are features."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from probi import _notes
from probi.errors import InputError, InputWarning

# Names of dimensions that count realizations, where no coordinate has the standard name of the CF conventions.
REALIZATION_NAMES = (
    "realization", "realisation", "number", "member", "member_id", "ensemble", "ensemble_member", "ens", "mem",
    "sample", "draw",
)  # fmt: skip

Names = str | Sequence[str]


class Roles(NamedTuple):
    """Dimensions of nodes and of realizations, and the variables whose other dimensions are features."""

    node: tuple[str, ...]
    realization: tuple[str, ...]
    variables: tuple[str, ...]


def check_labeled(obj: Any) -> None:
    """Raise unless an object is a DataArray or a Dataset of xarray, or looks like one."""
    if hasattr(obj, "children"):
        raise InputError("obj is a DataTree: give one of its groups, such as obj['/'].to_dataset().")
    if not all(hasattr(obj, name) for name in ("dims", "coords", "sizes", "isel")):
        raise InputError(f"obj must be a DataArray or a Dataset of xarray, not {type(obj).__name__}.")


def choose_roles(
    dataset: Any, node: Names, realization: Names | Literal[False] | None, features: Names | None, strict: bool = True
) -> Roles:
    """Roles of the dimensions of a Dataset; what is not given is inferred by the conventions of the field.

    With ``strict``, variables that are left out although ``features`` is not given are named in a warning.
    """
    nodes = _checked_dims(dataset, "node", as_names("node", node))
    if not nodes:
        raise InputError(f"node is empty: name the dimensions that tell nodes apart, among {listed(dataset)}.")
    if realization is None:
        variables = _variables(dataset, nodes, features, strict)
        realizations = _realization_dims(dataset, nodes, variables)
    else:
        given = () if realization is False else as_names("realization", realization)
        realizations = _checked_dims(dataset, "realization", given)
        both = sorted(set(realizations) & set(nodes))
        if both:
            raise InputError(f"Dimension {both[0]!r} cannot be both node and realization: name it in one of them.")
        variables = _variables(dataset, nodes, features, strict)
    for name in (*nodes, *realizations):
        if dataset.sizes[name] == 0:
            what = "members" if name in realizations else "nodes"
            raise InputError(f"Dimension {name!r} has size 0, so there are no {what}: select at least one.")
    return Roles(nodes, realizations, variables)


def find_realization(dataset: Any, features: Names | None) -> tuple[str, ...]:
    """Dimensions of the realizations, by the conventions of the field."""
    return _realization_dims(dataset, (), _variables(dataset, (), features, strict=False))


def as_names(parameter: str, value: Any) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise InputError(f"{parameter} must be a name or several names, got {wrong[0]!r}.")
    if len(set(names)) < len(names):
        raise InputError(f"{parameter} has a name twice: {', '.join(names)}.")
    return names


def listed(dataset: Any, leave_out: Sequence[str] = ()) -> str:
    """Dimensions and their sizes, for messages."""
    sizes = {name: size for name, size in dataset.sizes.items() if name not in leave_out}
    return ", ".join(f"{name} ({size:,})" for name, size in sizes.items()) or "none"


def written(names: Sequence[str]) -> str:
    """Names as they are written in a call."""
    return repr(names[0]) if len(names) == 1 else repr(tuple(names))


def _checked_dims(dataset: Any, parameter: str, names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name in dataset.sizes:
            continue
        if name in dataset.coords and dataset.coords[name].dims:
            dims = dataset.coords[name].dims
            raise InputError(
                f"{name!r} is a coordinate along {', '.join(map(repr, dims))}, not a dimension: "
                f"write {parameter}={written(dims)}."
            )
        close = difflib.get_close_matches(name, list(dataset.sizes), 1, 0.4)
        advice = f" Write {parameter}={written([close[0] if n == name else n for n in names])}?" if close else ""
        raise InputError(f"There is no dimension {name!r}; there are {listed(dataset)}.{advice}")
    return names


# -- realizations -----------------------------------------------------------------------------------------------------


def _realization_dims(dataset: Any, node: tuple[str, ...], variables: tuple[str, ...]) -> tuple[str, ...]:
    """Dimensions of the realizations: by standard name, then by their names; none if members are the nodes."""
    present = [name for name in dataset.sizes if any(name in dataset[variable].dims for variable in variables)]
    named = _by_standard_name(dataset)
    for candidates in (
        [(name,) for name in named if name in present and name not in node],
        _by_name([name for name in present if name not in node]),
    ):
        if len(candidates) > 1:
            all_names = tuple(name for candidate in candidates for name in candidate)
            raise InputError(
                f"Several dimensions may hold the realizations: {', '.join(map(written, candidates))}. Write "
                f"realization={written(candidates[0])}, or realization={written(all_names)} if all of them do."
            )
        if candidates:
            return candidates[0]
    if set(node) & {*named, *(name for group in _by_name(list(node)) for name in group)}:
        return ()
    others = [name for name in dataset.sizes if name not in node]
    if not others:
        raise InputError("All dimensions are node, so none holds realizations: write realization=False.")
    raise InputError(
        f"Cannot tell which dimension holds the realizations; beside node there are {listed(dataset, node)}. Write "
        f"realization={others[0]!r}, for example, or realization=False if values are certain."
    )


def _by_standard_name(dataset: Any) -> list[str]:
    dims_of_coordinates = (
        coordinate.dims
        for coordinate in dataset.coords.values()
        if coordinate.attrs.get("standard_name") == "realization" and len(coordinate.dims) == 1
    )
    return list(dict.fromkeys(dims[0] for dims in dims_of_coordinates))


def _by_name(dims: list[str]) -> list[tuple[str, ...]]:
    """Candidates among dimensions; chains of draws belong together."""
    matching = [name for name in dims if str(name).lower() in REALIZATION_NAMES]
    chains = [name for name in dims if str(name).lower() == "chain"]
    return [(*chains, name) if str(name).lower() == "draw" else (name,) for name in matching]


# -- variables --------------------------------------------------------------------------------------------------------


def _variables(dataset: Any, node: tuple[str, ...], features: Names | None, strict: bool) -> tuple[str, ...]:
    """Variables of numbers that have the dimensions of the nodes."""
    if features is not None:
        return _chosen(dataset, node, as_names("features", features))
    auxiliary = _auxiliary(dataset)
    variables = [name for name in dataset.data_vars if name not in auxiliary]
    candidates = [name for name in variables if set(node) <= set(dataset[name].dims)]
    numbers = [name for name in candidates if _is_number(dataset[name])]
    if not candidates:
        raise InputError(f"No variable has all dimensions of node={written(node)}: {_with_dims(dataset, variables)}.")
    if not numbers:
        raise InputError(
            f"{_variables_are(candidates)} of dtype {', '.join(str(dataset[name].dtype) for name in candidates)}, not "
            "numbers: encode as numbers, or select other variables."
        )
    if strict and len(numbers) < len(variables):
        left = [name for name in variables if name not in numbers]
        _notes.warn(
            f"Left out {', '.join(map(repr, left))}: not numbers, or without the dimensions of node={written(node)}. "
            f"Write features={written(numbers)} to silence this warning.",
            InputWarning,
        )
    return tuple(numbers)


def _chosen(dataset: Any, node: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise InputError(f"features is empty: name variables, among {', '.join(map(str, dataset.data_vars))}.")
    for name in names:
        if name not in dataset.data_vars:
            known = list(dataset.data_vars)
            if name in dataset.sizes:
                raise InputError(
                    f"{name!r} is a dimension: all dimensions beside node and realization are features. Write "
                    f"features={written(known)}, or leave it out."
                )
            raise InputError(f"There is no variable {name!r}; there are {', '.join(map(repr, known))}.")
        if not _is_number(dataset[name]):
            raise InputError(
                f"Variable {name!r} has dtype {dataset[name].dtype}, not numbers: encode it as numbers, or leave it "
                "out of features."
            )
        lacking = [dim for dim in node if dim not in dataset[name].dims]
        if lacking:
            raise InputError(
                f"Variable {name!r} has no dimension {lacking[0]!r} of node={written(node)}: leave it out of features, "
                "or broadcast it."
            )
    return names


def _is_number(variable: Any) -> bool:
    return variable.dtype.kind in "fiub"


def _auxiliary(dataset: Any) -> set[str]:
    """Variables that describe others by the CF conventions: bounds of cells, grid mappings, cell measures."""
    names: set[str] = set()
    for variable in dataset.variables.values():
        about: Mapping[str, Any] = {**variable.encoding, **variable.attrs}
        for role in ("bounds", "climatology", "grid_mapping", "cell_measures", "ancillary_variables"):
            words = about.get(role)
            if isinstance(words, str):
                names |= {word.rstrip(":") for word in words.split()}
    return names


def _variables_are(names: Sequence[str]) -> str:
    return f"Variable {names[0]!r} is" if len(names) == 1 else f"Variables {', '.join(map(repr, names))} are"


def _with_dims(dataset: Any, names: Sequence[str]) -> str:
    return ", ".join(f"{name} has ({', '.join(map(str, dataset[name].dims))})" for name in names) or "there is none"
