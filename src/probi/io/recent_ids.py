"""Recent ids of nodes, in bounded memory: they reveal a node whose rows are not contiguous."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from probi._types import Array, Integers, Mask

# Ids that are remembered, 8 bytes each.
MAX_REMEMBERED = 1 << 22


class RecentIds:
    """The last few million ids, as sorted runs of hashes that are merged like the levels of a summary."""

    def __init__(self, max_ids: int = MAX_REMEMBERED) -> None:
        self._runs: list[Integers] = []
        self._max_ids = max_ids

    def copy(self) -> "RecentIds":
        """Return an independent copy."""
        new = RecentIds(self._max_ids)
        new._runs = list(self._runs)  # a run never changes
        return new

    def to_json(self) -> list[list[Any]]:
        """Return plain values: the length of each run, and its differences as text."""
        return [[len(run), _packed(np.diff(run, prepend=0))] for run in self._runs]

    @classmethod
    def from_json(cls, values: Sequence[Sequence[Any]]) -> "RecentIds":
        """Ids from :meth:`to_json`."""
        new = cls()
        new._runs = [np.cumsum(_unpacked(length, text)) for length, text in values]
        return new

    def smallest(self, n: int) -> list[int]:
        """The n smallest hashes of the ids: those of two sets that share many ids have some in common."""
        if not self._runs:
            return []
        hashes = _mixed(np.concatenate(self._runs).view(np.uint64))
        return np.sort(np.partition(hashes, n)[:n] if len(hashes) > n else hashes).tolist()  # type: ignore[no-any-return]

    def seen_before(self, ids: Array) -> Mask:
        """Return which of these ids were seen before, or are duplicates; then remember them."""
        if not len(ids):
            return np.zeros(0, bool)
        keys = _hashes(ids)
        repeated = np.zeros(len(keys), bool)
        for run in self._runs:
            at = np.searchsorted(run, keys)
            repeated |= run[np.minimum(at, len(run) - 1)] == keys
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        repeated[order[1:][ordered[1:] == ordered[:-1]]] = True
        self._remember(ordered)
        return repeated

    def _remember(self, run: Integers) -> None:
        # Runs stay below a quarter of the capacity, so that not everything is forgotten at once.
        while self._runs and len(self._runs[-1]) <= len(run) <= self._max_ids // 8:
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
        # The first run is the oldest.
        while len(self._runs) > 1 and sum(map(len, self._runs)) > self._max_ids:
            self._runs.pop(0)


def _hashes(ids: Array) -> Integers:
    """Integers as they are; a 64-bit hash of anything else, equal for two different ids with probability 5e-20."""
    if ids.dtype.names is not None:
        out = np.zeros(len(ids), np.uint64)
        for name in ids.dtype.names:
            out = _mixed(out + _hashes(ids[name]).view(np.uint64))
        return out.view(np.int64)
    if ids.dtype.kind in "iub":
        return ids.astype(np.int64)
    if ids.dtype.kind == "f":
        return (ids.astype(np.float64) + 0.0).view(np.int64)  # -0.0 is 0.0
    if ids.dtype.kind in "mM":
        return ids.astype(f"{ids.dtype.kind}8[us]").view(np.int64)
    values = ids.tolist()
    try:
        texts = [value.encode() for value in values]
    except (AttributeError, UnicodeEncodeError):  # not all of them are text
        texts = [_bytes(value) for value in values]
    return _hashes_of_texts(texts).view(np.int64)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")


def _hashes_of_texts(texts: list[bytes]) -> NDArray[np.uint64]:
    """Sum of hashes of eight bytes and their index; unlike Python's hash, the same in every process."""
    n_bytes = np.array([len(text) for text in texts])
    data = b"".join([text + b"\0" * (-len(text) % 8) for text in texts])
    words = np.frombuffer(data, "<u8").astype(np.uint64)
    ends = np.append(0, np.cumsum((n_bytes + 7) // 8))
    indices = np.arange(len(words)) - np.repeat(ends[:-1], np.diff(ends))
    sums = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(_mixed(words + _mixed(indices.astype(np.uint64) + np.uint64(1))), out=sums[1:])
    return _mixed(sums[ends[1:]] - sums[ends[:-1]] + n_bytes.astype(np.uint64))


def _packed(numbers: Integers) -> str:
    # Byte by byte: differences of sorted numbers have zeros in front, which compress well side by side.
    planes = np.ascontiguousarray(numbers.astype("<i8").view(np.uint8).reshape(-1, 8).T)
    return base64.b64encode(pa.compress(planes.tobytes(), "zstd", asbytes=True)).decode("ascii")


def _unpacked(length: int, text: str) -> Integers:
    if not 0 < length <= MAX_REMEMBERED:
        raise ValueError("Invalid length of a run of ids.")
    data = pa.decompress(base64.b64decode(text), 8 * length, "zstd", asbytes=True)
    planes = np.frombuffer(data, np.uint8).reshape(8, length)
    return np.ascontiguousarray(planes.T).view("<i8").reshape(length).astype(np.int64)


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash of whole numbers without collisions (the finalizer of SplitMix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
