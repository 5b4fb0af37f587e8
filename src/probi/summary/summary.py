"""Summary of a stream of nodes, in memory that does not grow with the stream."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from probi import _notes, _parallel
from probi._notes import counted
from probi._types import Floats
from probi.errors import InputError
from probi.nodes import Nodes, as_nodes
from probi.objective import check_centers, expected_distances, trimmed_cost
from probi.solver.result import Evaluation
from probi.summary import memory
from probi.summary.audit import AuditSample, GrowingSample
from probi.summary.buffer import Form
from probi.summary.config import AUDIT_SIZE, Configured, SummaryConfig
from probi.summary.stream import (
    ShardKey,
    State,
    Stream,
    Totals,
    all_retained,
    final_coreset,
    first_shard,
    form_of,
    merge_streams,
    sums,
    with_buffers,
)
from probi.thinning import ThinningTotals
from probi.validation import LARGEST, SMALLEST, check_count, check_mass, frozen, plain_ids, seed_of

T = TypeVar("T")

# Centers besides the nearest one that compete for a thinned node.
N_CONTENDERS = 3


class Summary(Configured):
    """A small weighted summary of a stream of nodes, on which k-median can be solved.

    Reads nodes once, in batches of any size, and keeps a coreset of at most ``size`` of them, an unfilled buffer, and
    an audit sample that estimates the cost of centers on all the data. Up to ``size`` nodes are all kept, and every
    result is exact. Summaries of parts of the data can be merged into one of all the data.

    Parameters
    ----------
    n_clusters : int
        Largest number of clusters to solve for later.
    size : int, default=None
        Nodes in the coreset, at least 4 per cluster. None: 200 per cluster. Larger is slower and more accurate.
    preset : {"default", "paper", "theory"}, default="default"
        "paper" is PROBI as published (Algorithm 2, section 3.2). The default has a far smaller error. "theory" has a
        guaranteed error instead of a fixed size, by :func:`probi.coreset.lss.lss_coreset` (Algorithm 1).
    random_state : None, int, Generator or RandomState
        The same seed gives the same bytes, for any split of the stream into batches and any number of threads.
    shard : int, default=0
        Number of this part of the data. Parts to be merged need different numbers or different seeds.
    max_realizations : int, default=None
        Largest number of realizations per node: nodes with more are thinned on arrival (:meth:`Nodes.thin`), so that
        memory does not grow with them either. None keeps all. Centers are chosen for the realizations drawn, so for
        few nodes with few realizations the stated cost is slightly too low.
    epsilon, delta : float, default=None
        For ``preset="theory"``, which needs both: the guarantee of :func:`probi.coreset.lss.lss_coreset`, for a stream
        of any length and centers from a list of 65,536 points fixed beforehand. It fails with probability at most
        delta. Merged summaries share one delta if they have the same seed and different shards, else each has its
        own.
    audit_size : int, default=2500
        Nodes in the audit sample, from which costs are estimated. The standard error falls with its square root.

    Attributes
    ----------
    n_clusters, size, preset, max_realizations
        As given; for "theory", the size aimed at.
    n_nodes : int
        Nodes read.
    n_retained : int
        Nodes kept for the coreset, in all levels and the buffer.
    mass : float
        Sum of weight times total probability of all nodes read.
    spread_cost : float
        Sum of mass times spread: the cost that no centers avoid, certified up to 1 %; for thinned nodes only a close
        upper bound.
    lower_bound : float
        Certified: no centers, however many, cost less.
    thinning_bound : float
        Certified: thinning changed the cost of any centers by at most this. 0 if no node was thinned.
    about : dict
        Metadata of the user, such as feature names: JSON values, saved with the summary. A merge keeps the entries that
        are equal in both.

    See Also
    --------
    solve : Find centers for a summary.
    PROBI : The same as a scikit-learn estimator.

    Notes
    -----
    The default differs from the paper: cells of a tree replace bicriteria centers, a systematic sample by importance
    replaces uniform draws from rings, and more coresets are merged at once.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> rng = np.random.default_rng(0)
    >>> summary = probi.Summary(n_clusters=2, random_state=0)
    >>> for day in range(50):
    ...     points = rng.normal(size=(200, 3, 2)) + 1 + 8 * rng.integers(2, size=(200, 1, 1))
    ...     summary.update(probi.Nodes.from_dense(points))
    >>> summary
    Summary(10,000 nodes read, 1,600 kept, up to 2 clusters, coreset of 400, mass 10,000)
    >>> result = probi.solve(summary, n_clusters=2, random_state=0)
    >>> result.centers.round(1)
    array([[1. , 1. ],
           [9. , 9.1]])
    """

    def __init__(
        self,
        n_clusters: int,
        size: int | None = None,
        preset: str = "default",
        random_state: Any = None,
        shard: int = 0,
        max_realizations: int | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        audit_size: int = AUDIT_SIZE,
    ) -> None:
        seed = seed_of(random_state)
        self._begin(SummaryConfig(n_clusters, size, preset, seed, shard, max_realizations, epsilon, delta, audit_size))

    @classmethod
    def from_config(cls, config: SummaryConfig) -> Self:
        """An empty summary.

        :meta private:
        """
        return cls.__new__(cls)._begin(config)

    def _begin(self, config: SummaryConfig) -> Self:
        stream = Stream(ShardKey(config.shard, 0, 0, config.seed), config)
        return self._set(config, [stream], AuditSample(limit=config.audit_size))

    def _set(
        self, config: SummaryConfig, streams: Sequence[Stream], audit: AuditSample, about: dict[str, Any] | None = None
    ) -> Self:
        self._config = config
        self._state: tuple[Sequence[Stream], GrowingSample] = streams, GrowingSample(audit)
        self.about: dict[str, Any] = {} if about is None else about
        # Results computed once per state; cleared when it changes.
        self._cache: dict[str, Any] = {}
        self._lock = _parallel.Lock()
        return self

    @property
    def _streams(self) -> Sequence[Stream]:
        return self._state[0]

    # -- reading ----------------------------------------------------------------------------------------------------

    def update(self, nodes: Nodes | ArrayLike) -> None:
        """Read nodes. Nodes that are kept are copied, with their ids.

        If it fails or is interrupted, the summary does not change.

        Ids are kept if all nodes of the summary have ids of one kind: whole numbers, numbers, text or dates, or several
        fields of these. Else they are dropped, for all nodes.

        Parameters
        ----------
        nodes : Nodes or array-like
            The next nodes of the stream, with the same features; arrays as in :func:`probi.solve`.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> summary.n_nodes, summary.mass
        (3, 3.0)

        With ids:

        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0]], ids=[17, 4]))
        >>> summary.coreset().ids
        array([17,  4])
        """
        nodes = _with_plain_ids(as_nodes(nodes))
        with self._lock():
            if len(nodes) == 0:
                return
            self._cache = {}
            streams, audit = self._state
            before, new = self._form, Form.of(nodes)
            if before is not None and before != new:
                self._check_features(nodes.n_features)
                form = before.joined(new)
                if form != before:
                    streams, audit = _convert_state(form, streams, audit)
                nodes = form.convert(nodes)
            at, stream = _open_stream(streams)
            if (stream.buffer.n_realizations + nodes.n_realizations) * nodes.n_features > memory.MIN_COORDINATES:
                self._check_memory(nodes, stream.n_nodes + len(nodes))
            stream, audit = stream.updated(nodes, audit)
            self._become([*streams[:at], stream, *streams[at + 1 :]], audit)

    def merge(self, other: Summary) -> Self:
        """Add the nodes that another summary has read, and return this one. The other does not change.

        The result is the same for any order of merges, to the byte; as in :meth:`update`, ids are dropped unless all
        nodes have ids of one kind. Neighboring shards are merged into one coreset as
        soon as a group of them is complete, so many shards need no more memory than one, except for gaps.

        Parameters
        ----------
        other : Summary
            Of another part of the data, made with the same parameters and another ``shard`` or seed.

        Returns
        -------
        Summary
            This one.

        Examples
        --------
        >>> import probi
        >>> north, south = (probi.Summary(1, random_state=0, shard=number) for number in range(2))
        >>> north.update(probi.Nodes.from_points([[0.0], [1.0]]))
        >>> south.update(probi.Nodes.from_points([[5.0]]))
        >>> north.merge(south).n_nodes
        3
        """
        if not isinstance(other, Summary):
            raise InputError(f"Only a Summary can be merged into a Summary, not {type(other).__name__}.")
        self._check_fits(other)
        more, other_audit, about = other._copied()
        with self._lock():
            mine, audit = self._state
            form, other_form = self._form, form_of(more)
            if form is not None and other_form is not None and form != other_form:
                self._check_features(other_form.n_features)
                joined = form.joined(other_form)
                if form != joined:
                    mine, audit = _convert_state(joined, mine, audit)
                if other_form != joined:
                    more, other_audit = _convert_state(joined, more, other_audit)
            state = merge_streams(mine, more, audit.plus(other_audit.joined()))
            about = {name: value for name, value in self.about.items() if name in about and about[name] == value}
            vars(self).update(_cache={}, _state=state, about=about)  # one step, which no interrupt divides
        return self

    def scale(self, factor: float) -> None:
        """Multiply the weights of all nodes read: a factor below 1 fades the past.

        Parameters
        ----------
        factor : float
            Above 0. The same factor after every batch gives exponential decay.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> summary.scale(0.5)
        >>> summary.update(probi.Nodes.from_points([[9.0]]))
        >>> summary.n_nodes, summary.mass
        (4, 2.5)
        """
        number: Any = factor.item() if isinstance(factor, np.generic) else factor
        if not isinstance(number, (int, float)) or isinstance(number, bool) or not 0.0 < number <= LARGEST:
            raise InputError(f"factor must be a positive number, got {factor!r}.")
        number = float(number)
        with self._lock():
            mass = self.mass * number
            if self.n_nodes and not SMALLEST < mass < LARGEST:
                raise InputError(f"Scaled by {factor}, the mass would be {mass:.0e}: it would underflow or overflow.")
            streams, audit = self._state
            self._become([stream.scaled(number) for stream in streams], GrowingSample(audit.joined().scaled(number)))

    def _check_memory(self, nodes: Nodes, n_nodes: int) -> None:
        each = nodes.n_realizations / len(nodes)
        memory.require(memory.estimate(self._config, nodes.n_features, each, nodes.dtype, n_nodes))

    def memory_estimate(
        self, n_features: int, n_realizations: int = 1, *, dtype: Any = "float64", n_nodes: int | None = None
    ) -> int:
        """Bytes that :meth:`update`, :meth:`save` and :func:`probi.solve` take at most, for a stream of such nodes.

        Beside the nodes that are passed, and the process itself. At most twice what they really take, and 32 MB more.
        :meth:`update` refuses nodes that cannot fit.

        Parameters
        ----------
        n_features : int
            Dimension of the space.
        n_realizations : int, default=1
            Of a node, on average.
        dtype : dtype, default="float64"
            Of the points.
        n_nodes : int, default=None
            Length of the stream. None: a billion; longer ones take little more.

        Returns
        -------
        int
            Number of bytes.

        Examples
        --------
        >>> import probi
        >>> probi.Summary(n_clusters=20).memory_estimate(n_features=768) // 1_000_000
        924
        """
        check_count("n_features", n_features)
        check_count("n_realizations", n_realizations)
        check_count("n_nodes", 0 if n_nodes is None else n_nodes, least=0)
        return memory.estimate(self._config, n_features, n_realizations, dtype, n_nodes)

    def _become(self, streams: Sequence[Stream], audit: GrowingSample) -> None:
        """Switch to a new state atomically, and clear the cache."""
        self._cache = {}
        self._state = streams, audit

    def _check_features(self, n_features: int) -> None:
        if self.n_features is not None and n_features != self.n_features:
            raise InputError(
                f"Nodes have {counted(n_features, 'feature')}, but the summary has read nodes with {self.n_features}."
            )

    def _check_fits(self, other: Summary) -> None:
        if self._config.shared == other._config.shared:
            return
        for (name, mine), theirs in zip(self._config.shared.items(), other._config.shared.values(), strict=True):
            if mine != theirs:
                raise InputError(f"Summaries with {name} {mine!r} and {theirs!r} cannot be merged: they must be equal.")

    # -- results ----------------------------------------------------------------------------------------------------

    def coreset(self) -> Nodes:
        """At most ``size`` weighted nodes that represent all nodes read. Deterministic; does not change the summary.

        In the presets "paper" and "theory", the union of all levels, as in section 3.2.

        Returns
        -------
        Nodes
            All nodes read, while there are at most ``size``.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> summary.coreset()
        Nodes(3 nodes, 3 realizations (1 per node), 1 feature, float64, mass 3)
        """
        return self._cached("coreset", lambda: final_coreset(self._streams))

    def evaluate(self, centers: ArrayLike, outlier_distance: float = math.inf) -> Evaluation:
        """Estimate the cost of any centers on all the data, with a standard error.

        The centers must not depend on the audit sample; those of :func:`probi.solve` do not.

        Parameters
        ----------
        centers : array-like of shape (k, n_features)
            Any number of them.
        outlier_distance : float, default=inf
            Nodes whose expected distance to the nearest center exceeds their own spread by more than this cost nothing.

        Returns
        -------
        Evaluation
            Cost, standard error, and the share of the cost that is spread; exact while all nodes are kept.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> cost, standard_error = summary.evaluate([[1.0]])
        >>> cost, standard_error
        (5.0, 0.0)
        """
        if self.n_features is None:
            raise InputError("The summary is empty: it has read no nodes. Update it first.")
        centers = check_centers(centers, self.n_features)
        error = lost = 0.0
        with self._lock():
            totals, thinning = self._totals()
            check_mass(totals.mass)
            if self._is_whole:
                cost, lost = trimmed_cost(all_retained(self._streams), centers, outlier_distance)
            else:
                excess, lost, error = self._full_audit().trimmed_excess(centers, outlier_distance)
                # Both after thinning: what it takes from the spread it adds to the excess.
                cost = totals.spread_cost + excess - lost
            chosen = _bias_of_choice(self.coreset(), centers) if thinning.variance > 0.0 else 0.0
            # Read under the lock: another thread may update the summary as soon as it is released.
            lower_bound, spread_cost, moved = self.lower_bound, self.spread_cost - lost, self.thinning_bound
        if outlier_distance < math.inf:
            lower_bound = 0.0  # others may be outliers of other centers
        # Neither bias can exceed the certified bound, which covers both.
        bias = min(thinning.bias + chosen, max(thinning.bias, thinning.moved))
        error = math.hypot(error, math.sqrt(thinning.variance), bias)
        if thinning.moved > 0.0:
            # The estimate is for thinned nodes, the bound for the original ones.
            cost = max(cost, lower_bound)
        return Evaluation(cost, error, min(lower_bound, cost), min(spread_cost, cost), moved)

    def sample(self) -> Nodes:
        """Some of the nodes read: all of them while all are kept, else the audit sample.

        The audit sample has up to ``audit_size`` nodes, preferably distant ones, with their original weights.

        Returns
        -------
        Nodes
            For plots, say. The estimated cost of centers chosen by looking at it is not valid.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> len(summary.sample())
        3
        """
        with self._lock():
            if self._is_whole:
                return all_retained(self._streams)
            nodes = self._full_audit().nodes
            return all_retained(self._streams) if nodes is None else nodes  # none is audited if all weights are 0

    def _full_audit(self) -> AuditSample:
        return self._cached("audit", lambda: with_buffers(*self._state).joined())

    def _totals(self) -> tuple[Totals, ThinningTotals]:
        return self._cached("totals", lambda: sums(self._streams))

    def _cached(self, name: str, compute: Callable[[], T]) -> T:
        with self._lock():
            if name not in self._cache:
                self._cache[name] = compute()
            result: T = self._cache[name]
            return result

    @property
    def _solver_preset(self) -> str:
        """Preset of the solver that matches that of the summary."""
        return self._config.coresets.solver

    @property
    def n_nodes(self) -> int:
        """Nodes read."""
        return sum(stream.n_nodes for stream in self._streams)

    @property
    def n_retained(self) -> int:
        """Nodes kept for the coreset, in all levels and the buffer."""
        return sum(stream.n_retained for stream in self._streams)

    @property
    def _is_whole(self) -> bool:
        """Whether no node was dropped or changed, except by thinning on arrival."""
        return all(stream.is_whole for stream in self._streams)

    @property
    def mass(self) -> float:
        """Sum of weight times total probability of all nodes read."""
        return self._totals()[0].mass

    @property
    def spread_cost(self) -> float:
        """Sum of mass times spread of all nodes read, before thinning."""
        totals, thinning = self._totals()
        return max(0.0, totals.spread_cost + thinning.spread_cost)

    @property
    def lower_bound(self) -> float:
        """Certified: no centers, however many, cost less."""
        totals, thinning = self._totals()
        return max(0.0, totals.lower_bound + thinning.lower_bound)

    @property
    def thinning_bound(self) -> float:
        """Certified: thinning changed the cost of any centers by at most this."""
        return self._totals()[1].moved

    @property
    def _form(self) -> Form | None:
        return form_of(self._streams)

    @property
    def n_features(self) -> int | None:
        """Dimension of the space; None before the first node."""
        form = self._form
        return None if form is None else form.n_features

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """float32, or float64 after the first such node; None before the first node."""
        form = self._form
        return None if form is None else form.dtype

    def __repr__(self) -> str:
        kind = self._config.coresets.description
        if self.max_realizations:
            kind += f", at most {self.max_realizations} realizations per node"
        return (
            f"Summary({counted(self.n_nodes, 'node')} read, {self.n_retained:,} kept, "
            f"up to {counted(self.n_clusters, 'cluster')}, {kind}, mass {self.mass:,.6g})"
        )

    def _repr_html_(self) -> str:
        """Show in a notebook what was read and what is kept."""
        rows = [
            ["nodes read", f"{self.n_nodes:,}"],
            ["nodes kept", f"{self.n_retained:,}"],
            ["mass", f"{self.mass:,.6g}"],
            ["features", "not known yet" if self.n_features is None else f"{self.n_features:,}, {self.dtype}"],
            ["spread of the nodes", f"{self.spread_cost:,.6g}"],
            *([str(name), str(value)] for name, value in list(self.about.items())[: _notes.MAX_ROWS]),
        ]
        return _notes.html_table(repr(self), rows)

    # -- copies and files -------------------------------------------------------------------------------------------

    def sealed(self) -> Summary:
        """The same summary reduced to its coreset and its audit sample, for a small file.

        :func:`probi.solve` finds the same centers for it. It can be merged and updated like any other, with about the
        same error, but not the same bits as a stream that was never sealed: each seal is one more reduction of all
        nodes read. With more than ``size`` nodes, costs are then estimated even if all nodes fit in the buffer. Merged
        shards keep one coreset each, for later merges.

        Returns
        -------
        Summary
            A new one; this one does not change.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> summary = probi.Summary(n_clusters=2, random_state=0)
        >>> summary.update(probi.Nodes.from_points(np.random.default_rng(0).normal(size=(10_000, 2))))
        >>> summary.n_retained, summary.sealed().n_retained
        (1600, 400)
        """
        with self._lock():
            alone = len(self._streams) == 1
            streams = [
                stream.seal_with(self.coreset() if alone else final_coreset([stream])) if stream.n_nodes else stream
                for stream in self._streams
            ]
            return Summary.__new__(Summary)._set(self._config, streams, self._full_audit(), copy.deepcopy(self.about))

    def _snapshot(self) -> Summary:
        """Copy that later updates of this summary do not change."""
        streams, audit, about = self._copied()
        return Summary.__new__(Summary)._set(self._config, streams, audit.joined(), about)

    def _copied(self) -> tuple[Sequence[Stream], GrowingSample, dict[str, Any]]:
        """Streams, audit sample and metadata that later updates do not change."""
        with self._lock():
            streams, audit = self._state
            return [stream.copy() for stream in streams], audit, copy.deepcopy(self.about)

    __copy__ = _snapshot

    def _saved(self) -> State:
        """Parts that its file holds; the caller prevents updates until they are written."""
        streams, audit = self._state
        return State(self._config, streams, audit.joined(), self.about)

    def to_bytes(self) -> bytes:
        """The summary as the bytes of an Arrow IPC file; the same state gives the same bytes.

        Returns
        -------
        bytes
            For :meth:`from_bytes`.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> probi.Summary.from_bytes(summary.to_bytes()).n_nodes
        3
        """
        from probi.summary import file

        with self._lock():
            return file.to_bytes(self._config, {None: self._saved()})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Summary from :meth:`to_bytes`; damaged, foreign or newer bytes raise an error. Never executes code.

        Parameters
        ----------
        data : bytes
            Output of :meth:`to_bytes`, or the content of a file written by :meth:`save`.

        Returns
        -------
        Summary
            The saved summary.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> probi.Summary.from_bytes(summary.to_bytes())
        Summary(3 nodes read, 3 kept, up to 1 cluster, coreset of 200, mass 3)
        """
        from probi.summary import file

        _, _, states = file.from_bytes(bytes(data), "summary")
        return cls.__new__(cls)._set(*states[None])


def _bias_of_choice(nodes: Nodes, centers: Floats) -> float:
    """Estimate by how much the cost of thinned nodes is too low because each takes the nearest of several centers.

    Thinning keeps the expected distance to each center unbiased, but not their minimum: of two nearly equal ones, the
    one that is too small by chance wins. This is the contribution of the next nearest centers if the error of the
    difference is normal. Its variance is the smaller of two estimates that are too large on average: as if realizations
    were drawn independently, and from differences of neighbors, because they are drawn along an order.
    """
    nearest = min(len(centers), 1 + N_CONTENDERS)
    if nearest == 1 or len(nodes) == 0:
        return 0.0
    total = 0.0
    for start, stop in nodes.pieces():
        some = nodes[start:stop]
        order = np.argsort(expected_distances(some, centers), axis=1, kind="stable")[:, :nearest]
        sizes = np.diff(some.offsets)
        owners = np.repeat(np.arange(len(some)), sizes)
        p, starts = some.probabilities.astype(np.float64), some.offsets[:-1]
        neighbors = np.arange(1, len(p) + 1)
        # The last realization has its neighbor before it.
        neighbors[some.offsets[1:] - 1] = np.maximum(some.offsets[1:] - 2, starts)
        radii = [np.linalg.norm(some.points - centers[order[owners, c]], axis=1) for c in range(nearest)]
        for farther in radii[1:]:
            more = farther - radii[0]
            gaps = np.add.reduceat(p * more, starts)
            means = (gaps / some.total_probabilities)[owners]
            one_by_one = np.add.reduceat((p * (more - means)) ** 2, starts) * sizes / np.maximum(sizes - 1, 1)
            along = 0.5 * np.add.reduceat((p * (more - more[neighbors])) ** 2, starts)
            errors = np.sqrt(np.minimum(one_by_one, along))
            total += float(some.weights @ _expected_shortfall(np.maximum(gaps, 0.0), errors))
    return total


def _expected_shortfall(gaps: Floats, errors: Floats) -> Floats:
    """Mean of max(0, x - gap) for normal x with the given standard deviations around 0."""
    z = np.divide(gaps, errors, out=np.full(len(gaps), np.inf), where=errors > 0.0)
    above = np.array([0.5 * math.erfc(value / math.sqrt(2.0)) for value in z])
    return np.where(errors > 0.0, errors * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) - gaps * above, 0.0)


def _open_stream(streams: Sequence[Stream]) -> tuple[int, Stream]:
    """Index of the stream that reads the next nodes, and the stream: the first non-block, or a new generation."""
    for at, stream in enumerate(streams):
        if stream.key.height == 0:
            return at, stream
    config = streams[0].config
    first = min(streams, key=lambda stream: first_shard(stream.key, config.fan_in)).key
    generation = 1 + max(stream.key.generation for stream in streams)
    return len(streams), Stream(ShardKey(first_shard(first, config.fan_in), 0, generation, first.seed), config)


def _with_plain_ids(nodes: Nodes) -> Nodes:
    """The same nodes with ids of one dtype per kind; ids of other kinds are dropped."""
    if nodes.ids is None:
        return nodes
    ids = plain_ids(nodes.ids)
    return Nodes._trusted(**nodes._parts() | {"ids": None if ids is None else frozen(ids)})


def _convert_state(
    form: Form, streams: Sequence[Stream], audit: GrowingSample
) -> tuple[Sequence[Stream], GrowingSample]:
    """The same state with its nodes in another form."""
    return [stream.convert(form) for stream in streams], GrowingSample(audit.joined().with_nodes(form.convert))
