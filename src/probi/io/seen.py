"""Which nodes have been: to notice one whose rows do not stand together, in bounded memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Ids that are remembered, 8 bytes each.
MOST_REMEMBERED = 1 << 22


class Seen:
    """The last few million ids, as sorted runs of hashes that are merged like the levels of a summary."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._runs: list[NDArray[np.int64]] = []
        self._most = most

    def again(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of these ids have been before, or stand twice among them; then remember them."""
        if not len(ids):
            return np.zeros(0, bool)
        keys = _hashes(ids)
        back = np.zeros(len(keys), bool)
        for run in self._runs:
            at = np.searchsorted(run, keys)
            back |= run[np.minimum(at, len(run) - 1)] == keys
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        back[order[1:][ordered[1:] == ordered[:-1]]] = True
        self._remember(ordered)
        return back

    def _remember(self, run: NDArray[np.int64]) -> None:
        # Runs stay below a quarter of what is remembered, so that not everything is forgotten at once.
        while self._runs and len(self._runs[-1]) <= len(run) <= self._most // 8:
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")
        self._runs.append(run)
        # The first run is the oldest.
        while len(self._runs) > 1 and sum(map(len, self._runs)) > self._most:
            self._runs.pop(0)


def _hashes(ids: NDArray[Any]) -> NDArray[np.int64]:
    """Whole numbers as they are; of anything else a hash, which two ids in 10^18 share."""
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
    # Not of numbers: Python's hashes of -1 and -2 are the same, those of their texts are not.
    return np.array([hash(v if isinstance(v, (str, bytes)) else repr(v)) for v in ids.tolist()], np.int64)


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash of whole numbers without collisions (the finalizer of SplitMix64)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
