"""rejected.csv: every row that is in no node, with the reason."""

import contextlib
import csv
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self, TextIO

from probi.io.rows import Rejected

HEADER = Rejected._fields


class Rejects:
    """Appends rows to a file, which is created with the first row: clean input leaves none.

    ``size`` is the length so far. A file of another run is replaced; after a stop it is cut to the size that it had
    at the checkpoint.
    """

    def __init__(self, path: Path, size: int = 0) -> None:
        self.path, self.size = path, size
        self._file: TextIO | None = None
        if size:
            os.truncate(path, size)
        else:
            path.unlink(missing_ok=True)

    def write(self, rows: Iterable[Rejected]) -> None:
        """Add rows."""
        rows = list(rows)
        if not rows:
            return
        try:
            self._append(rows)
        except OSError as error:  # ENOSPC names no file
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _append(self, rows: list[Rejected]) -> None:
        if self._file is None:
            self._file = self.path.open("a", newline="", encoding="utf-8", errors="backslashreplace")
        writer = csv.writer(self._file, lineterminator="\n")
        if self.size == 0:
            writer.writerow(HEADER)
        writer.writerows(rows)
        self._file.flush()
        self.size = self._file.tell()

    def flush(self) -> None:
        """Flush to disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # disk full: already reported
                self._file.close()
