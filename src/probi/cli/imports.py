"""Packages that the command line does not import, to start faster."""

import sys
from typing import Any

# pyarrow imports pandas if it is installed, and Numba SciPy's BLAS and coverage: half a second for nothing, since few
# commands use them. The engines do.
_unused = {"pandas", "scipy", "coverage"}


class _BlockedImports:
    """Finder of modules that makes imports of unused packages fail as if they were not installed.

    A None in sys.modules would not do: pyarrow, compiled by Cython, takes it for the module.
    """

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """Find a module."""
        if name in _unused and "xarray" not in sys.modules:  # which needs pandas, and SciPy for old NetCDF
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def block_unused() -> None:
    """Let imports of packages that no command uses fail."""
    sys.meta_path.insert(0, _BlockedImports)


def allow(name: str) -> None:
    """Allow to import a package after all."""
    _unused.discard(name)
