"""Print the public names of probi, one per line, with their parameters; see docs/reference/stability.md.

``python tools/public_api.py > docs/reference/public_api.txt`` records a change that is meant.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

MODULES = (
    "probi", "probi.coreset.lss", "probi.engines.dask", "probi.engines.spark", "probi.geo", "probi.impute", "probi.io",
    "probi.report", "probi.xarray",
)  # fmt: skip


def public_api() -> list[str]:
    """Lines for all names in ``__all__``, and for the members of the classes among them."""
    lines: list[str] = []
    for name in MODULES:
        module = importlib.import_module(name)
        for public in sorted(module.__all__):
            lines += _lines(f"{name}.{public}", getattr(module, public))
    return lines


def _lines(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_parameters(value)}"
        return
    yield name if issubclass(value, BaseException) else f"{name}{_parameters(value)}"
    for member in sorted(_members(value)):
        attribute = inspect.getattr_static(value, member, None)  # a field has no value yet
        called = isinstance(attribute, classmethod | staticmethod) or inspect.isfunction(attribute)
        yield f"{name}.{member}{_parameters(getattr(value, member)) if called else ''}"


def _members(value: type) -> set[str]:
    """Public members of a class that stand in probi itself; what scikit-learn or Spark adds is theirs."""
    own = [base for base in value.__mro__ if base.__module__.startswith("probi")]
    annotated = {name for base in own for name in inspect.get_annotations(base)}
    names = annotated.union(*map(vars, own))
    return {name for name in names if not name.startswith("_") and not name.endswith("_request")}


def _parameters(value: Any) -> str:
    """Names, kinds and defaults; types are no part of the list: they are written differently from Python to Python."""
    signature = inspect.signature(value)
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<function (\S+) at \w+>", r"\1", text)


if __name__ == "__main__":
    print("# python tools/public_api.py > docs/reference/public_api.txt", *public_api(), sep="\n")
