"""A temporary copy on disk of the blocks of labeled arrays, for a second pass over them.

To decompress and decode a block takes several times as long as to write it as it is in memory, and read it again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from probi.inputs.fields import Block

# File systems in memory: a copy there would take the memory that reading in blocks saves.
IN_MEMORY = ("tmpfs", "ramfs")

# Stands for an array that a block does not have: the others have dimensions.
NO_ARRAY = np.empty(())


class BlockCopy:
    """Blocks in a file without a name, which vanishes with the process; none if they do not fit on the disk.

    Parameters
    ----------
    n_bytes : int
        Size of all blocks, about.
    """

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes = n_bytes
        self._file: IO[bytes] | None = None
        self._slices: list[dict[str, slice]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._close()

    @property
    def is_there(self) -> bool:
        """Whether it has all blocks that were added, of which there is at least one."""
        return self._file is not None

    def add(self, block: Block) -> None:
        """Write a block; if that fails, as on a full disk, the copy is given up."""
        if not self._slices:
            self._file = _temporary_file(self._n_bytes)
        self._slices.append(block.slices)
        if self._file is None:
            return
        try:
            for array in block[1:]:
                np.save(self._file, NO_ARRAY if array is None else array, allow_pickle=False)
            self._file.flush()
        except OSError:
            self._close()

    def adding(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks, each after it was added."""
        for block in blocks:
            self.add(block)
            yield block

    def blocks(self) -> Iterator[Block]:
        """Read the blocks, in the order in which they were added."""
        assert self._file is not None
        self._file.seek(0)
        for slices in self._slices:
            yield Block(slices, *(self._load() for _ in Block._fields[1:]))

    def _load(self) -> Any:
        array = np.load(self._file, allow_pickle=False)  # type: ignore[arg-type]
        return array if array.ndim else None

    def _close(self) -> None:
        """Free the disk."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what was not written yet may not fit
                file.close()


def _temporary_file(n_bytes: int) -> IO[bytes] | None:
    """File in the folder for temporary files; None if that is in memory, or would be more than half full then."""
    with suppress(OSError):
        folder = Path(tempfile.gettempdir())
        if shutil.disk_usage(folder).free >= 2 * n_bytes and not _is_in_memory(folder):
            return tempfile.TemporaryFile(prefix="probi-", dir=folder)
    return None


def _is_in_memory(folder: Path) -> bool:
    """Whether a folder is in memory, as /tmp is on some systems; False where that is not known."""
    with suppress(OSError), Path("/proc/self/mountinfo").open(encoding="utf-8", errors="replace") as mounts:
        device = folder.stat().st_dev
        number = f"{os.major(device)}:{os.minor(device)}"
        for line in mounts:
            mount, _, file_system = line.partition(" - ")
            if mount.split()[2] == number:
                return file_system.split()[0] in IN_MEMORY
    return False
