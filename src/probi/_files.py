"""Atomic file replacement, and errors that name the file."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from probi.errors import InputError

T = TypeVar("T")


def read_named(path: str | os.PathLike[str], parse: Callable[[bytes], T]) -> T:
    """Parse the content of a file; an InputError names the file."""
    try:
        return parse(Path(path).read_bytes())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write a temporary file, flush, rename: a crash leaves the old file or the new one."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the same folder, and rename it to the path at the end unless an error occurs."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary), temporary):
            raise _naming(path, error) from error
        raise
    # The rename must be durable too; where folders cannot be opened (Windows) the system ensures it.
    with contextlib.suppress(OSError):
        _flush(path.parent)


def _naming(path: Path, error: OSError) -> OSError:
    """The same error naming the user's file; ENOSPC names none, other errors name the temporary one."""
    if error.errno is None:
        return OSError(f"{path}: {error}")
    return OSError(error.errno, os.strerror(error.errno), str(path))


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
