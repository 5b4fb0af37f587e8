"""Nodes of an unfilled leaf, in arrays that grow: adding a node takes a few microseconds."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probi.nodes import Nodes
from probi.thinning import NOTHING_LOST, ThinningTotals
from probi.validation import frozen, largest_magnitude

Array = NDArray[Any]


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
        parts: dict[str, Any] = {} if self.ids is not None else {"ids": None}
        if nodes.dtype != self.dtype:
            parts |= {name: frozen(getattr(nodes, name).astype(self.dtype)) for name in ("points", "probabilities")}
        return Nodes._trusted(**nodes._parts() | parts)


class Buffer:
    """Copies of nodes in growing arrays."""

    def __init__(self) -> None:
        # Numbers of nodes and realizations, and the thinning totals of the stream up to here. One tuple, so that nodes
        # are added atomically.
        self._used = (0, 0, NOTHING_LOST)
        self._points: Array = np.empty((0, 0))
        self._probabilities: Array = np.empty(0)
        self._offsets: Array = np.zeros(1, np.int64)
        self._weights: Array = np.empty(0)
        self._ids: Array | None = None
        self._totals: Array = np.empty(0)

    @classmethod
    def of(cls, nodes: Nodes | None, thinning: ThinningTotals = NOTHING_LOST) -> "Buffer":
        """Buffer with copies of nodes."""
        buffer = cls()
        buffer._used = (0, 0, thinning)
        if nodes is not None and len(nodes):
            buffer.append(nodes)
        return buffer

    def __len__(self) -> int:
        return self._used[0]

    @property
    def form(self) -> Form:
        """Form of the nodes, if there are any."""
        return Form(self._points.shape[1], self._points.dtype, None if self._ids is None else str(self._ids.dtype))

    @property
    def thinning(self) -> ThinningTotals:
        """Thinning totals of the stream up to here."""
        return self._used[2]

    def append(self, nodes: Nodes, thinning: ThinningTotals | None = None) -> None:
        """Add copies of nodes of the same form; the caller may change their arrays afterwards.

        ``thinning`` are the totals including these nodes; None: these were not thinned.
        """
        start, first, before = self._used
        n, r = start + len(nodes), first + nodes.n_realizations
        if n >= len(self._weights) or r >= len(self._points):
            self._grow(nodes, n, r)
        self._points[first:r] = nodes.points
        self._probabilities[first:r] = nodes.probabilities
        self._offsets[start + 1 : n + 1] = nodes.offsets[1:]
        self._offsets[start + 1 : n + 1] += first
        self._weights[start:n] = nodes.weights
        if self._ids is not None:
            self._ids[start:n] = nodes.ids
        self._totals[start:n] = nodes.total_probabilities
        self._used = (n, r, before if thinning is None else thinning)

    def _grow(self, like: Nodes, n_nodes: int, n_realizations: int) -> None:
        """Make room; at least double, so that adding takes amortized constant time."""
        n = max(n_nodes + 1, 2 * len(self._weights), 16)
        r = max(n_realizations + 1, 2 * len(self._points), 16)
        points = np.empty((r, like.n_features), like.dtype)
        probabilities, offsets = np.empty(r, like.dtype), np.zeros(n + 1, np.int64)
        weights, totals = np.empty(n), np.empty(n)
        ids = None if like.ids is None else np.empty(n, like.ids.dtype)
        used, filled, _ = self._used
        if used:
            points[:filled] = self._points[:filled]
            probabilities[:filled] = self._probabilities[:filled]
            offsets[: used + 1] = self._offsets[: used + 1]
            weights[:used] = self._weights[:used]
            totals[:used] = self._totals[:used]
            if ids is not None and self._ids is not None:
                ids[:used] = self._ids[:used]
        self._points, self._probabilities, self._offsets = points, probabilities, offsets
        self._weights, self._totals, self._ids = weights, totals, ids

    def some(self) -> Nodes | None:
        """All nodes; None if there are none, as the number of features is then unknown."""
        return self.nodes() if len(self) else None

    def nodes(self) -> Nodes:
        """All nodes, as views: later nodes are appended behind them, so they do not change."""
        n, r, _ = self._used
        points = frozen(self._points[:r])
        return Nodes._trusted(
            points=points,
            probabilities=frozen(self._probabilities[:r]),
            offsets=frozen(self._offsets[: n + 1]),
            weights=frozen(self._weights[:n]),
            ids=None if self._ids is None else frozen(self._ids[:n]),
            total_probabilities=frozen(self._totals[:n]),
            magnitude=largest_magnitude(points),
            statistics={},
        )
