"""Files in object stores and on the web, named by URLs.

A :class:`StorePath` has those methods of ``pathlib.Path`` that probi uses, so that both kinds of file take the same way
through the package. It uses pyarrow's file systems, and fsspec for all others; nothing is imported for it before the
first URL.
"""

import contextlib
import errno
import functools
import glob
import os
import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

from probi.errors import InputError

# Bytes of an upload at a time.
CHUNK = 1 << 23

# How long to try to reach a server of Google.
RETRY_SECONDS = 15

# Where folders are only a part of names, so that none is created.
OBJECT_STORES = ("s3", "gcs", "abfs")

# How stores of fsspec call what changes with the contents of a file, where they say it.
CONTENT_KEYS = ("ETag", "etag", "Last-Modified")

# Of a URL: up to the host or bucket, with protocols that wrap it; the path; then options or signatures, or the URL of
# the archive that holds the file. A question mark without a value after it is part of a pattern.
URL = re.compile(
    r"((?:[\w+.-]+::)*[A-Za-z][\w+.-]+://(?:\[[^]]*\]|(?!::)[^/?])*)/*(.*?)(\?[\w.%-]+=.*|::[\w+.-]+://.*)?", re.DOTALL
)

_URL_IN_TEXT = re.compile(r"([A-Za-z][\w+.-]+://)([^\s'\"<>]*)")
# A text, or the value of an option, that is a URL as a whole may have spaces and quotes in it.
_ISURL = re.compile(r"((?:--[\w-]+=)?(?:[\w+.-]+::)*[A-Za-z][\w+.-]+://)(.*)", re.DOTALL)
# Up to the last @ before the path. A password with a slash, which should have been written %2F, is one all the same,
# but in addresses of the web a number before the slash is a port.
_USER = re.compile(r"([^/?]*|[^/@?:]*:[^@]*)@")
_WEB_USER = re.compile(r"([^/?]*|[^/@?:]*:(?!\d+/)[^@]*)@")
# There, a question mark may be part of a pattern.
_QUERY = re.compile(r"\?[\w.%-]+=.*", re.DOTALL)
_WEB_QUERY = re.compile(r"[?#].*", re.DOTALL)


# Parameters of a part of the path (RFC 3986, section 3.3).
_PARAMETERS = re.compile(r";[\w.%-]+=[^/?#;]*")


def without_secrets(text: str) -> str:
    """Text in which URLs have no users, passwords, parameters or queries, which may hold keys and signatures."""
    url = _ISURL.fullmatch(text)
    return _shown_url(url) if url else _URL_IN_TEXT.sub(_shown_url, text)


def _shown_url(match: re.Match[str]) -> str:
    scheme, rest = match.groups()
    own, *others = re.split(r"::(?=[\w+.-]+:)", rest)
    is_web = "http" in scheme
    if user := (_WEB_USER if is_web else _USER).match(own):
        # There, what is called a user is the container.
        container = user[1].partition(":")[0] if "abfs" in scheme else ""
        own = f"{container}{'@' * bool(container)}{own[user.end() :]}"
    own = _PARAMETERS.sub("", (_WEB_QUERY if is_web else _QUERY).sub("", own))
    return "::".join([scheme + own, *map(without_secrets, others)])


def _secrets_of(url: str) -> list[str]:
    """Parts of a URL that other libraries may quote in their errors."""
    shown = without_secrets(url)
    parts = [part for part in re.split(r"[/@?:;&=]+", url) if len(part) > 2 and part not in shown]
    return [*parts, *map(unquote, parts)]


class StoreStat(NamedTuple):
    """Size and time of modification of a file, named as by ``os.stat``; None if the store does not say."""

    st_size: int | None
    st_mtime_ns: int | None


class _Info(NamedTuple):
    kind: str  # "file", "directory" or "none"
    stat: StoreStat


class StorePath:
    """File or folder in a store; its text has no secrets.

    Parameters
    ----------
    url : str
        Credentials in it are used; without them, those of the environment are.
    """

    def __init__(self, url: str, info: _Info | None = None) -> None:
        match = URL.fullmatch(url)
        if match is None:
            raise InputError(f"{without_secrets(url)!r} is not a URL.")
        self._root, key, suffix = match.groups()
        self._key, self._suffix = key.rstrip("/"), suffix or ""
        self._info = info  # of a listing, which is not asked for again

    # -- the name -----------------------------------------------------------------------------------------------------

    @property
    def _url(self) -> str:
        return f"{self._root}{'/' * bool(self._key)}{self._key}{self._suffix}"

    def __str__(self) -> str:
        return without_secrets(self._url)

    def __repr__(self) -> str:
        return f"StorePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorePath) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __lt__(self, other: "StorePath") -> bool:
        return self._key.split("/") < other._key.split("/")  # as Path

    def __reduce__(self) -> tuple[Any, ...]:
        return StorePath, (self._url,)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return posixpath.basename(self._key or self._root)

    @property
    def suffix(self) -> str:
        """Ending of the name."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> "StorePath":
        """Folder in which it is."""
        return self._at(posixpath.dirname(self._key))

    def __truediv__(self, name: str) -> "StorePath":
        return self._at(f"{self._key}/{name}".lstrip("/"))

    def with_suffix(self, suffix: str) -> "StorePath":
        """The same with another ending."""
        return self._at(str(PurePosixPath(self._key).with_suffix(suffix)))

    def relative_to(self, folder: "StorePath") -> PurePosixPath:
        """Path from a folder."""
        return PurePosixPath(self._key).relative_to(folder._key)

    def resolve(self) -> "StorePath":
        """Itself."""
        return self

    absolute = resolve

    def _at(self, key: str, info: _Info | None = None) -> "StorePath":
        path = StorePath(self._root, info)
        path._key, path._suffix = key, self._suffix
        return path

    # -- what is there ------------------------------------------------------------------------------------------------

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._looked_up().kind == "file"

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return self._looked_up().kind == "directory"

    def exists(self) -> bool:
        """Whether it is there."""
        return self._looked_up().kind != "none"

    def stat(self) -> StoreStat:
        """Size and time of modification."""
        info = self._looked_up()
        if info.kind == "none":
            raise _not_found(self)
        return info.stat

    def _looked_up(self) -> _Info:
        if self._info is not None:
            return self._info
        with _naming_errors(self):
            return _info_of(self._store.get_file_info(self._path))

    def with_cached_info(self) -> "StorePath":
        """The same path, which asks the store for size and time only once."""
        return self._at(self._key, self._looked_up())

    def without_cached_info(self) -> "StorePath":
        """The same path, which asks the store again for size and time."""
        other = _of_fsspec(self._store)
        if other is not None:
            other.invalidate_cache()
        return self._at(self._key)

    def version(self) -> tuple[Any, ...]:
        """What changes when the file does: its size, the second of its modification, and tags of its contents."""
        stat, other = self.stat(), _of_fsspec(self._store)
        with _naming_errors(self):
            said = {} if other is None else other.info(self._path)
        # A listing has fractions of a second, a question about one file has none.
        second = None if stat.st_mtime_ns is None else stat.st_mtime_ns // 10**9
        return stat.st_size, second, *(str(said[key]) for key in CONTENT_KEYS if key in said)

    def rglob(self, pattern: str) -> list["StorePath"]:
        """All files and folders below a folder whose names match."""
        return [path for path in self._listed(recursive=True) if fnmatchcase(path.name, pattern)]

    def _listed(self, recursive: bool = False) -> list["StorePath"]:
        from pyarrow.fs import FileSelector

        with _naming_errors(self):
            folder = self._path.strip("/")
            infos = self._store.get_file_info(FileSelector(self._path, recursive=recursive, allow_not_found=True))
            names = [info.path.strip("/")[len(folder) :].strip("/") for info in infos]
        return [
            self._at(f"{self._key}/{name}".lstrip("/"), _info_of(info)) for name, info in zip(names, infos, strict=True)
        ]

    def matches(self) -> list["StorePath"]:
        """Files whose names match this path as a pattern, by the rules of ``glob.glob``."""
        paths = [self._at("")]
        parts = self._key.split("/")
        for i, part in enumerate(parts):
            is_last = i == len(parts) - 1
            if part == "**":
                below = [path for folder in paths for path in folder._shown()]
                paths = below if is_last else [*paths, *(path for path in below if path.is_dir())]
            elif glob.has_magic(part):
                children = [path for folder in paths for path in folder._listed()]
                paths = [path for path in children if _matches(path.name, part) and (is_last or path.is_dir())]
            else:
                paths = [path / part for path in paths]
        return sorted({path for path in paths if path.is_file()}, key=str)

    def _shown(self) -> list["StorePath"]:
        """All that is below and not hidden."""
        below = self._listed(recursive=True)
        return [p for p in below if not any(name.startswith(".") for name in p.relative_to(self).parts)]

    # -- contents -----------------------------------------------------------------------------------------------------

    def open(self, mode: str = "rb") -> Any:
        """Open the file to read bytes, anywhere in it."""
        assert mode == "rb"
        with _naming_errors(self):
            return self._store.open_input_file(self._path)

    def read_bytes(self) -> bytes:
        """Contents of the file."""
        with _naming_errors(self), self._store.open_input_file(self._path) as file:
            return bytes(file.read())

    def read_text(self, encoding: str) -> str:
        """Contents of the file as text."""
        return self.read_bytes().decode(encoding)

    def upload(self, file: Path) -> None:
        """Replace the contents by those of a local file.

        Stores replace an object when all of it has arrived. This is one call, which Ctrl-C does not interrupt: an
        interrupted one would close the object, and leave a part of it.
        """
        from pyarrow.fs import LocalFileSystem, copy_files

        with _naming_errors(self):
            other = _of_fsspec(self._store)
            if other is not None:
                other.put_file(str(file), self._path)
                return
            copy_files(
                str(file), self._path, source_filesystem=LocalFileSystem(), destination_filesystem=self._store,
                chunk_size=CHUNK,
            )  # fmt: skip

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the file."""
        try:
            with _naming_errors(self):
                self._store.delete_file(self._path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Create the folder; where there are none, check that the bucket exists."""
        with _naming_errors(self):
            if self._store.type_name not in OBJECT_STORES:
                self._store.create_dir(self._path, recursive=parents)
                return
            bucket = self._path.partition("/")[0]
            try:
                is_missing = _info_of(self._store.get_file_info(bucket)).kind == "none"
            except OSError:  # who may write need not be allowed to look
                return
            if is_missing:
                raise InputError(f"There is no bucket {bucket}, in which {self} would be.")

    # -- the store ----------------------------------------------------------------------------------------------------

    @property
    def _store(self) -> Any:
        return self._located[0]

    @property
    def _path(self) -> str:
        """How the store calls it."""
        return self._located[1]

    @property
    def _located(self) -> tuple[Any, str]:
        native = None if "::" in self._root + self._suffix[:2] else _native_store(self._root, self._suffix)
        if native is not None:
            store, base = native
            return store, f"{base.rstrip('/')}/{self._key}" if self._key else base
        return _fsspec_store(self._url)


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


@functools.lru_cache(maxsize=64)
def _native_store(root: str, suffix: str) -> tuple[Any, str] | None:
    """File system of pyarrow and the path of its root; None if pyarrow has none for such a URL."""
    from pyarrow import ArrowInvalid, ArrowNotImplementedError
    from pyarrow.fs import FileSystem

    if root.startswith(("gs://", "gcs://")) and "retry_limit_seconds=" not in suffix:
        suffix += f"{'&' if suffix else '?'}retry_limit_seconds={RETRY_SECONDS}"  # a quarter of an hour by default
    try:
        store, base = FileSystem.from_uri(root + suffix)
    except (ArrowInvalid, ArrowNotImplementedError):
        return None
    return store, base


def _fsspec_store(url: str) -> tuple[Any, str]:
    """File system of fsspec as one of pyarrow, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise InputError(
            f"{without_secrets(url)} needs fsspec, which is not installed: pip install 'probi[stores]'."
        ) from None
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    try:
        store, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise InputError(f"{without_secrets(url)} cannot be opened: {_sentence(error, url)}.") from None
    return PyFileSystem(FSSpecHandler(store)), path


def _of_fsspec(store: Any) -> Any:
    """File system of fsspec that one of pyarrow wraps; None if it wraps none."""
    return getattr(getattr(store, "handler", None), "fs", None)


def _info_of(info: Any) -> _Info:
    kind = {"File": "file", "Directory": "directory"}.get(info.type.name, "none")
    return _Info(kind, StoreStat(info.size if kind == "file" else None, info.mtime_ns))


def _not_found(path: StorePath) -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _sentence(error: Exception, url: str) -> str:
    """Text of an error, on one line, without secrets, also those of a URL that is quoted in part."""
    text = str(error)
    for secret in _secrets_of(url):
        text = text.replace(secret, "…")
    return _URL_IN_TEXT.sub(_shown_url, " ".join(text.split()))[:300].rstrip(".")


@contextlib.contextmanager
def _naming_errors(path: StorePath) -> Iterator[None]:
    """Re-raise any error of a store as an OSError that names the file; the original could name its secrets."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise _not_found(path) from None
    except Exception as error:
        raise OSError(f"{path}: {_sentence(error, path._url)}") from None
