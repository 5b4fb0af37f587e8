"""The file formats. A new one is a module that defines FORMAT, and one line here."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probi.io.formats.base import Format

# Name on the command line (--format) and module, which is loaded when it is used: the help needs no pyarrow.
FORMATS = {
    "parquet": "probi.io.formats.parquet",
    "csv": "probi.io.formats.csv_file",
    "ipc": "probi.io.formats.ipc",
    "npy": "probi.io.formats.npy",
}

# Format of sources that are not files but tables in memory, such as a partition of a DataFrame.
IN_MEMORY = "tables"


def load_format(name: str) -> "Format":
    """Return a format by its name."""
    module = "probi.io.formats.base" if name == IN_MEMORY else FORMATS[name]
    return import_module(module).FORMAT  # type: ignore[no-any-return]


def formats_by_ending() -> dict[str, str]:
    """Return the name of the format for each ending of a file's name."""
    return {ending: name for name in FORMATS for ending in load_format(name).endings}


def format_of_name(file_name: str) -> str | None:
    """Return the name of the format that the ending of a file's name says, if it says one."""
    name = file_name.lower()
    return next((format for ending, format in formats_by_ending().items() if name.endswith(ending)), None)


def format_of_bytes(start: bytes) -> str | None:
    """Return the name of the format whose files begin with these bytes, if there is one."""
    return next((name for name in FORMATS if start.startswith(load_format(name).magic)), None)
