"""Packages whose public names are loaded when they are first used."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


def lazy(
    package: str, names: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package: names by the module that defines them, and modules of its own."""
    module_of = {name: module for module, some in names.items() for name in some}

    def load(name: str) -> Any:
        if name in modules:
            try:
                return import_module(f"{package}.{name}")
            except ImportError as error:  # an extra: help() and tab completion look at every name, and expect this
                raise AttributeError(str(error)) from error
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: [*module_of, *modules]
