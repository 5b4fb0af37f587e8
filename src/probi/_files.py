"""Files that are replaced as a whole, and errors that name the file."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from probi.errors import InputError

T = TypeVar("T")


def read_named(path: str | os.PathLike[str], parse: Callable[[bytes], T]) -> T:
    """What a function makes of the content of a file; where that is wrong, the error names the file."""
    try:
        return parse(Path(path).read_bytes())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary name beside it, flush, rename: a crash leaves the old file or the new one."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside the path; what was written there takes its place at the end, if nothing failed."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary), temporary):
            raise _about(path, error) from error
        raise
    # The new name must last too; where folders cannot be opened (Windows) the system sees to that by itself.
    with contextlib.suppress(OSError):
        _flush(path.parent)


def _about(path: Path, error: OSError) -> OSError:
    """The same trouble with the name of the file: of a full disk it is not said, else it is one that nobody knows."""
    if error.errno is None:
        return OSError(f"{path}: {error}")
    return OSError(error.errno, os.strerror(error.errno), str(path))


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
