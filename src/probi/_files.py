"""Files by their names: found, replaced as a whole, and locked."""

import contextlib
import glob
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from probi._stores import URL, StorePath
from probi.errors import InputError

if sys.platform != "win32":
    import fcntl

# How names of temporary files end.
TEMPORARY = ".part"

_LOCAL = re.compile(r"(?:file|local)://(?:localhost)?(?=/)", re.IGNORECASE)

AnyPath = Path | StorePath
Location = str | os.PathLike[str] | StorePath  # what a user may give


def as_path(name: Location) -> AnyPath:
    """Path of a local file, or of one in a store if the name is a URL."""
    if isinstance(name, StorePath):
        return name
    text = os.fspath(name)
    if local := _LOCAL.match(text):
        return Path(text[local.end() :])
    return StorePath(text) if isinstance(name, str) and URL.fullmatch(text) else Path(name)


def is_pattern(path: AnyPath) -> bool:
    """Whether a path is a pattern of file names; addresses of the web never are."""
    return glob.has_magic(str(path)) and not str(path).startswith(("http://", "https://"))


def paths_matching(pattern: AnyPath) -> list[AnyPath]:
    """Files whose names match a pattern, sorted."""
    if isinstance(pattern, StorePath):
        return list(pattern.matches())
    matching = glob.glob(str(pattern), recursive=True)  # noqa: PTH207
    return [Path(name) for name in sorted(matching) if Path(name).is_file()]


def write_atomically(path: AnyPath, data: bytes) -> None:
    """Replace a file as a whole: a crash leaves the old one or the new one."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def replacing(path: AnyPath) -> Iterator[Path]:
    """Yield a temporary path, and move its content to the path at the end unless an error occurs.

    A file is replaced by a rename in its folder, keeps its permissions, and is found through symbolic links. A device
    or a pipe is written to: a rename would put a file in its place. An object in a store is uploaded.
    """
    if isinstance(path, StorePath):
        with _copied(path.upload) as temporary:
            yield temporary
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_file() or target.is_dir()):
        with _copied(lambda temporary: _copy(temporary, target, path)) as temporary:
            yield temporary
        return
    _remove_abandoned(target)
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}{TEMPORARY}")
    try:
        with _claimed(temporary):
            yield temporary
            _flush(temporary)
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            temporary.replace(target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary), temporary):
            raise _naming(path, error) from error
        raise
    # The rename must be durable too; where folders cannot be opened (Windows) the system ensures it.
    with contextlib.suppress(OSError):
        _flush(target.parent)


def file_key(path: AnyPath) -> Any:
    """Identifies a file under all its names, including symbolic and hard links; a new file by its path."""
    with contextlib.suppress(OSError):
        if isinstance(path, Path):
            stat = path.stat()
            return stat.st_dev, stat.st_ino
    return path.resolve()


@contextlib.contextmanager
def locked_folder(folder: AnyPath) -> Iterator[None]:
    """Raise if another run writes to a folder; others cannot until the end. Without effect in stores and on Windows."""
    if sys.platform == "win32" or not isinstance(folder, Path):
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        if not _lock(handle):
            raise InputError(f"Another run is writing to {folder}. Wait for its end, or use another folder: -o.")
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked_file(path: AnyPath | None) -> Iterator[None]:
    """Raise if another run writes to a file, which need not exist; others cannot until the end.

    The lock is on a file beside it: the file itself is replaced. Without effect in stores and on Windows.
    """
    handle = None
    target = Path(os.path.realpath(path)) if isinstance(path, Path) else None
    if sys.platform != "win32" and target is not None and (target.is_file() or not target.exists()):
        beside = target.with_name(f".{target.name}.lock")
        with contextlib.suppress(OSError):  # a folder that does not exist is an error of who writes
            handle = _lock_beside(beside)
            if handle is None:
                raise InputError(f"Another run is writing to {path}. Wait for its end, or use another name.")
    try:
        yield
    finally:
        if handle is not None:
            with contextlib.suppress(OSError):
                beside.unlink()
            os.close(handle)


def _lock_beside(path: Path) -> int | None:
    """Create and lock a file; None if another process has locked it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _lock(handle):
            os.close(handle)
            return None
        # A lock file that has been removed since then protects nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file; False if another process has. Without effect on file systems without locks."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True


@contextlib.contextmanager
def _copied(copy: Callable[[Path], None]) -> Iterator[Path]:
    """Yield a temporary path elsewhere, and copy its content at the end."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / "content"
        yield temporary
        copy(temporary)


def _copy(file: Path, device: Path, path: Path) -> None:
    """Copy a file to a device or a pipe; ``path`` is its name in errors."""
    import shutil

    try:
        with file.open("rb") as source, device.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    except OSError as error:
        raise _naming(path, error) from error


@contextlib.contextmanager
def _claimed(temporary: Path) -> Iterator[None]:
    """Create a temporary file and lock it, so that others see that its process is alive."""
    if sys.platform == "win32":
        yield
        return
    with temporary.open("wb") as file:
        _lock(file.fileno())
        yield


def _remove_abandoned(target: Path) -> None:
    """Remove temporary files of the same target without a lock: their processes were killed."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):
        for temporary in target.parent.glob(f".{glob.escape(target.name)}.{'[0-9a-f]' * 16}{TEMPORARY}"):
            with contextlib.suppress(OSError), temporary.open("rb") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                temporary.unlink()


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
