"""Nodes of an unfilled leaf, in arrays that grow: adding a node takes a few microseconds."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from probi import _parallel
from probi._types import Array
from probi.nodes import Nodes
from probi.thinning import NOTHING_LOST, ThinningTotals
from probi.validation import frozen


class Form(NamedTuple):
    """What all nodes of a summary have in common; ``ids`` names the dtype of their ids, None if they have none.

    Its name, because NumPy's float64 equals None.
    """

    n_features: int
    dtype: np.dtype[Any]
    ids: str | None

    @classmethod
    def of(cls, nodes: Nodes) -> "Form":
        """Form of some nodes."""
        return cls(nodes.n_features, nodes.dtype, None if nodes.ids is None else str(nodes.ids.dtype))

    def joined(self, other: "Form") -> "Form":
        """Form that the nodes of both can take: the wider dtype, and ids if both have ids of one dtype."""
        ids = self.ids if self.ids == other.ids else None
        return Form(self.n_features, np.promote_types(self.dtype, other.dtype), ids)

    def convert(self, nodes: Nodes) -> Nodes:
        """The same nodes in this form, which is that of a join."""
        parts = nodes._parts()
        if self.ids is None:
            parts["ids"] = None
        if nodes.dtype != self.dtype:
            for name in ("points", "probabilities"):
                parts[name] = None if parts[name] is None else frozen(parts[name].astype(self.dtype))
        return Nodes._trusted(**parts)


# Bytes from which an array has room for all that is expected.
LARGE = 1 << 20


class Buffer:
    """Copies of nodes in growing arrays."""

    def __init__(self) -> None:
        # Numbers of nodes and realizations, and the thinning totals of the stream up to here. One tuple, so that nodes
        # are added atomically.
        self._used = (0, 0, NOTHING_LOST)
        # By name, as in Nodes: those that some of the nodes were given with.
        self._arrays: dict[str, Array] = {}
        # About how many nodes and realizations it will hold in the end.
        self._expected = (0, 0)
        # At least the largest absolute coordinate.
        self._magnitude = 0.0

    @classmethod
    def of(cls, nodes: Nodes | None, thinning: ThinningTotals = NOTHING_LOST) -> "Buffer":
        """Buffer with copies of nodes."""
        buffer = cls()
        buffer._used = (0, 0, thinning)
        if nodes is not None and len(nodes):
            buffer.append(nodes)
        return buffer

    @classmethod
    def joined(cls, buffers: Sequence["Buffer"]) -> "Buffer":
        """Buffer with copies of the nodes of several of one form."""
        buffer, starts, thinning = cls(), [0], NOTHING_LOST
        for each in buffers:
            starts.append(starts[-1] + each.n_realizations)
            thinning = thinning.plus(each.thinning)
        for name in dict.fromkeys(name for each in buffers for name in each._arrays):
            parts = [each._rows(name) for each in buffers]
            if name == "offsets":
                parts = [np.zeros(1, np.int64), *(rows[1:] + start for rows, start in zip(parts, starts, strict=False))]
            buffer._arrays[name] = np.concatenate(parts)
        buffer._used = (sum(map(len, buffers)), starts[-1], thinning)
        buffer._magnitude = max(each._magnitude for each in buffers)
        return buffer

    def _rows(self, name: str) -> Array:
        """The used rows of an array; ones, or the offsets of certain nodes, if nodes were given without."""
        stop = _n_rows(*self._used[:2])[name]
        if name in self._arrays:
            return self._arrays[name][:stop]
        if name == "offsets":
            return np.arange(stop)
        return np.ones(stop, self._arrays["points"].dtype if name == "probabilities" else np.float64)

    def copy(self) -> "Buffer":
        """Buffer with the same nodes; it shares their memory, which never changes, and has no room for others there."""
        buffer = Buffer()
        buffer._used, buffer._expected, buffer._magnitude = self._used, self._expected, self._magnitude
        buffer._arrays = {
            name: self._arrays[name][:stop] for name, stop in _n_rows(*self._used[:2]).items() if name in self._arrays
        }
        return buffer

    def __len__(self) -> int:
        return self._used[0]

    @property
    def form(self) -> Form:
        """Form of the nodes, if there are any."""
        points, ids = self._arrays["points"], self._arrays.get("ids")
        return Form(points.shape[1], points.dtype, None if ids is None else str(ids.dtype))

    @property
    def thinning(self) -> ThinningTotals:
        """Thinning totals of the stream up to here."""
        return self._used[2]

    def expect(self, n_nodes: int, n_realizations: int) -> None:
        """Announce about how many nodes and realizations it will hold in the end.

        Large arrays get room for all of them at once: the system provides memory only for what is written, while an
        array that grows is in memory twice.
        """
        self._expected = n_nodes, n_realizations

    @property
    def n_realizations(self) -> int:
        """Realizations of all nodes."""
        return self._used[1]

    def append(self, nodes: Nodes, thinning: ThinningTotals | None = None) -> None:
        """Add copies of nodes of the same form; the caller may change their arrays afterwards.

        ``thinning`` are the totals including these nodes; None: these were not thinned.
        """
        n, r = self._write(nodes)
        self._used = (n, r, self.thinning if thinning is None else thinning)

    def followed_by(self, nodes: Nodes) -> Nodes:
        """All nodes followed by others, in the memory of the buffer, but without adding the others to it."""
        return self._views(*self._write(nodes))

    def _write(self, nodes: Nodes) -> tuple[int, int]:
        """Copy nodes after the existing ones; return the numbers of nodes and realizations including them."""
        start, first, _ = self._used
        n, r = start + len(nodes), first + nodes.n_realizations
        self._magnitude = max(self._magnitude, nodes.magnitude)
        for name, given in nodes._parts().items():
            if name == "offsets" and (given is not None or name in self._arrays):
                ends = self._room(name, given, start + 1, n + 1)[start + 1 : n + 1]
                ends[:] = np.arange(1, len(nodes) + 1) if given is None else given[1:]
                ends += first
            elif name in self._arrays or isinstance(given, np.ndarray):
                used, needed = (first, r) if name in ("points", "probabilities") else (start, n)
                _parallel.copy_into(self._room(name, given, used, needed)[used:needed], 1 if given is None else given)
        return n, r

    def _room(self, name: str, given: Array | None, used: int, needed: int) -> Array:
        """The array of this name, of which ``used`` rows are filled, with room for ``needed``.

        It at least doubles when it grows, so that adding takes amortized constant time.
        """
        old = self._arrays.get(name)
        if old is not None and needed <= len(old):
            return old
        like = old if given is None else given
        assert like is not None  # else there is nothing to make room for
        n_rows = max(needed, 16 if old is None else 2 * len(old))
        if n_rows * like[:1].nbytes > LARGE:
            n_rows = max(n_rows, self._expected[name in ("points", "probabilities")] + 1)
        new = np.empty((n_rows, *like.shape[1:]), like.dtype)
        if old is not None:
            new[:used] = old[:used]
        else:
            new[:used] = np.arange(used) if name == "offsets" else 1
        self._arrays[name] = new
        return new

    def some(self) -> Nodes | None:
        """All nodes; None if there are none, as the number of features is then unknown."""
        return self.nodes() if len(self) else None

    def nodes(self) -> Nodes:
        """All nodes, as views: later nodes are appended behind them, so they do not change."""
        return self._views(*self._used[:2])

    def _views(self, n: int, r: int) -> Nodes:
        arrays: dict[str, Any] = {
            name: frozen(self._arrays[name][:stop]) if name in self._arrays else None
            for name, stop in _n_rows(n, r).items()
        }
        return Nodes._trusted(**arrays, magnitude=self._magnitude, statistics={})


def _n_rows(n: int, r: int) -> dict[str, int]:
    """Length of each array of n nodes with r realizations."""
    return {"points": r, "probabilities": r, "offsets": n + 1, "weights": n, "ids": n, "total_probabilities": n}
