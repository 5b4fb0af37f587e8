"""Posterior draws of ArviZ, of any version, and of other libraries that keep them in a Dataset."""

from __future__ import annotations

from typing import Any

from probi.errors import InputError
from probi.inputs.dimensions import Names
from probi.inputs.fields import Field


def of_draws(obj: Any, var_names: Names | None, node: Names) -> Field:
    """Draws as a field, whose realizations are chain and draw, or what else counts draws."""
    return Field(_posterior(obj), node, features=var_names, strict=False)


def _posterior(obj: Any) -> Any:
    """The Dataset of the posterior, by what the object has, not by its class: that changed with ArviZ 1.0."""
    if hasattr(obj, "children"):  # a DataTree, or one of its groups
        return (obj["posterior"] if "posterior" in obj.children else obj).to_dataset()
    if hasattr(obj, "dims"):
        return obj
    if hasattr(obj, "posterior"):
        return obj.posterior
    raise InputError(
        "obj has no posterior: give InferenceData, a DataTree or a Dataset with the dimensions chain and draw, not "
        f"{type(obj).__name__}."
    )
