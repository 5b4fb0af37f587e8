"""From what a user names (a file, a folder, a pattern, "-") to a list of files with their formats."""

import glob
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from probi.errors import InputError
from probi.io.formats import FORMATS, format_of_bytes, format_of_name, formats_by_ending

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Source:
    """One file; without a path, standard input or tables in memory."""

    path: Path | None
    format: str
    name: str | None = None  # what it is called in messages and results, if not by its path
    tables: Any = None  # an iterable of Arrow tables of the same schema, not empty

    def __str__(self) -> str:
        return self.name or ("standard input" if self.path is None else str(self.path))

    @property
    def size(self) -> int | None:
        """Bytes, where they are known."""
        return None if self.path is None or not self.path.is_file() else self.path.stat().st_size


def find_sources(inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], format: str | None) -> list[Source]:
    """Files that the inputs mean, in order; those of a folder or a pattern are sorted by name."""
    if format is not None and format not in FORMATS:
        raise InputError(f"Unknown format {format!r}; use one of {', '.join(FORMATS)}.")
    names = [inputs] if isinstance(inputs, (str, os.PathLike)) else list(inputs)
    if not names:
        raise InputError("No input file was given.")
    if STANDARD_INPUT in names:
        if len(names) > 1:
            raise InputError("Standard input ('-') cannot be read together with other files.")
        return [Source(None, format or "csv")]
    paths = [path for name in names for path in _paths(os.fspath(name), format)]
    seen = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path} was given twice; its nodes would count twice.")
        seen.add(path.resolve())
    return [Source(path, format or _format(path)) for path in paths]


def _paths(name: str, format: str | None) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        # Hidden files are markers of Spark, Hive and editors, not data.
        paths = [p for p in sorted(path.rglob("*")) if p.is_file() and not _is_hidden(p.relative_to(path))]
        paths = [p for p in paths if format is not None or format_of_name(p.name) is not None]
        if not paths:
            raise InputError(f"{name} contains no file that ends in {', '.join(formats_by_ending())}.")
        return paths
    if path.exists():
        return [path]
    if glob.has_magic(name):
        paths = [Path(p) for p in sorted(glob.glob(name, recursive=True)) if Path(p).is_file()]  # noqa: PTH207
        if not paths:
            raise InputError(f"No file matches the pattern {name}.")
        return paths
    raise InputError(f"There is no file {name}.")


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _format(path: Path) -> str:
    format = format_of_name(path.name)
    if format is not None:
        return format
    if not path.is_file():  # reading a pipe or a device would consume it
        return "csv"
    with path.open("rb") as file:
        format = format_of_bytes(file.read(6))
    if format is None:
        raise InputError(f"Cannot infer a format for {path}; pass format (--format).")
    return format


def standard_input() -> Any:
    """Standard input as bytes.

    Opened anew where it is a real file: Python's own object must not be locked by a reading thread at the end.
    """
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (AttributeError, OSError):
        return sys.stdin.buffer
