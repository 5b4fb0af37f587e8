"""Summary: what is kept of a stream of nodes, in memory that does not grow with it."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probi import _html, _parallel
from probi._inputs import as_nodes
from probi._notes import counted
from probi._random import seed_of
from probi.errors import InputError
from probi.nodes import Nodes
from probi.objective import check_centers, expected_cost, expected_distances
from probi.solver.result import Evaluation
from probi.summary.audit import AuditSample
from probi.summary.config import AUDIT_SIZE, SummaryConfig
from probi.summary.stream import (
    ShardKey,
    Stream,
    Totals,
    all_retained,
    covers,
    final_coreset,
    first_shard,
    merged,
    sums,
    widened,
)
from probi.thinning import ThinningTotals
from probi.validation import LARGEST, SMALLEST

T = TypeVar("T")
Floats = NDArray[np.float64]

# Centers beside the nearest one that a thinned node is taken to have the choice of.
N_CONTENDERS = 3


class Summary:
    """A small weighted summary of a stream of nodes, on which k-median can be solved.

    Reads nodes once, in batches of any size, and keeps a coreset of at most ``size`` of them, an unfilled buffer, and
    an audit sample that tells what centers cost on all the data. Up to ``size`` nodes are kept whole, and everything
    is exact. Summaries of parts of the data merge into one of all of it.

    Parameters
    ----------
    n_clusters : int
        Largest number of clusters to solve for later.
    size : int, default=None
        Nodes in the coreset, at least 4 a cluster. None: 200 a cluster. Larger is slower and nearer to all the data.
    preset : {"default", "paper", "theory"}, default="default"
        "paper" is PROBI as its authors state it (Algorithm 2, section 3.2). The default has a far smaller error.
        "theory" keeps a promise instead of a size, by :func:`probi.coreset.lss.lss_coreset` (Algorithm 1).
    random_state : None, int, Generator or RandomState
        The same seed gives the same bytes, for any split of the stream into batches and any number of threads.
    shard : int, default=0
        Number of this part of the data. Parts that are to be merged need different numbers or different seeds.
    max_realizations : int, default=None
        Most realizations that a node keeps: those with more are thinned when they arrive (:meth:`Nodes.thin`), so that
        memory does not grow with them either. None keeps all. Centers are chosen for what was drawn, so with a few
        nodes of a few realizations the cost that is stated is a little too low.
    epsilon, delta : float, default=None
        For ``preset="theory"``, which needs both: the promise of :func:`probi.coreset.lss.lss_coreset`, for a stream of
        any length and centers out of a list of 65,536 points that was fixed before. It fails to be kept with a
        probability of at most delta. Summaries that are merged share one delta if they have one seed and different
        shards, else each has its own.
    audit_size : int, default=2500
        Nodes of the audit sample, by which costs are estimated. The standard error falls with its root.

    Attributes
    ----------
    n_clusters, size, preset, max_realizations
        As given; in theory, the size that is aimed at.
    n_nodes : int
        Nodes read.
    n_retained : int
        Nodes kept for the coreset, by all levels and the buffer.
    mass : float
        Sum of weight times total probability of all nodes read.
    spread_cost : float
        Sum of mass times spread: what no centers can undo, certified up to 1 %; of thinned nodes an upper bound that is
        close, and nothing more.
    lower_bound : float
        Certified: no centers, however many, cost less.
    thinning_bound : float
        Certified: the cost of no centers changed by more than this because realizations were left out. 0 if none were.
    about : dict
        What the user wants to be known about it, such as names of features: plain values that JSON can hold, saved with
        the summary. A merge keeps what both say alike.

    See Also
    --------
    solve : Find centers for a summary.
    PROBI : The same as a scikit-learn estimator.

    Notes
    -----
    Where the default differs from the paper: cells of a tree take the place of bicriteria centers, importance with a
    systematic sample that of uniform draws from rings, and more coresets are taken together at once.

    Examples
    --------
    >>> import numpy as np
    >>> import probi
    >>> rng = np.random.default_rng(0)
    >>> summary = probi.Summary(n_clusters=2, random_state=0)
    >>> for day in range(50):
    ...     places = rng.normal(size=(200, 3, 2)) + 1 + 8 * rng.integers(2, size=(200, 1, 1))
    ...     summary.update(probi.Nodes.from_dense(places))
    >>> summary
    Summary(10,000 nodes read, 1,600 kept, up to 2 clusters, coreset of 400, mass 10,000)
    >>> result = probi.solve(summary, n_clusters=2, random_state=0)
    >>> result.centers.round(1)
    array([[1., 1.],
           [9., 9.]])
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
        self, config: SummaryConfig, streams: list[Stream], audit: AuditSample, about: dict[str, Any] | None = None
    ) -> Self:
        self._config, self._state = config, (streams, audit)
        self.about: dict[str, Any] = {} if about is None else about
        # Found once for a state and forgotten when it changes.
        self._found: dict[str, Any] = {}
        self._lock = _parallel.Lock()
        return self

    @property
    def _streams(self) -> list[Stream]:
        return self._state[0]

    # -- what goes in -----------------------------------------------------------------------------------------------

    def update(self, nodes: Nodes | ArrayLike) -> None:
        """Read nodes; they are copied as far as they are kept, their ids are not.

        If it fails, or is interrupted, the summary is as it was before.

        Parameters
        ----------
        nodes : Nodes or array-like
            Some more of the stream, with the same features as before; arrays as in :func:`probi.solve`.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> summary.n_nodes, summary.mass
        (3, 3.0)
        """
        nodes = as_nodes(nodes)
        with self._lock:
            if len(nodes) == 0:
                return
            self._found = {}
            streams, audit = self._state
            form = self._form
            if form is not None and form != (nodes.n_features, nodes.dtype):
                self._check_features(nodes.n_features)
                if nodes.dtype == np.float64:
                    streams, audit = _wide(streams, audit)
                nodes = widened(nodes)
            at, stream = _open_stream(streams)
            stream, audit = stream.updated(nodes, audit)
            self._become([*streams[:at], stream, *streams[at + 1 :]], audit)

    def merge(self, other: Summary) -> Self:
        """Add what another summary has read; return this one. The other stays as it is.

        The result does not depend on the order of merges, down to its bytes. Neighbouring shards are taken together as
        soon as a group of them is complete, so many shards do not need more memory than one, but for gaps.

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
        theirs = other._snapshot()
        with self._lock:
            self._check_fits(theirs)
            states = [self._state, theirs._state]
            if None not in (self._form, theirs._form) and self.dtype != theirs.dtype:
                states = [_wide(*state) for state in states]
            (mine, audit), (more, other_audit) = states
            self._become(*merged([*mine, *more], audit.joined(other_audit)))
            self.about = {
                name: value
                for name, value in self.about.items()
                if name in theirs.about and theirs.about[name] == value
            }
        return self

    def scale(self, factor: float) -> None:
        """Multiply the weights of all that was read: below 1 the past fades against what comes.

        Parameters
        ----------
        factor : float
            Above 0. The same one after every batch is exponential decay.

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
        number: Any = factor
        real = isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)
        if not real or not 0.0 < (number := _as_float(number)) <= LARGEST:
            raise InputError(f"The factor is {factor!r}, but must be a positive number.")
        with self._lock:
            mass = self.mass * number
            if self.n_nodes and not SMALLEST < mass < LARGEST:
                raise InputError(f"Scaled by {factor}, the mass is {mass:.0e}, where numbers vanish or overflow.")
            streams, audit = self._state
            self._become([stream.scaled(number) for stream in streams], audit.scaled(number))

    def _become(self, streams: list[Stream], audit: AuditSample) -> None:
        """Go over to a new state, all at once, and forget what was found out about the old one."""
        self._found = {}
        self._state = streams, audit

    def _check_features(self, n_features: int) -> None:
        if self.n_features is not None and n_features != self.n_features:
            raise InputError(
                f"Nodes have {counted(n_features, 'feature')}, but the summary has read nodes with {self.n_features}."
            )

    def _check_fits(self, other: Summary) -> None:
        theirs_given = other._config.shared
        for name, mine in self._config.shared.items():
            if mine != (theirs := theirs_given[name]):
                raise InputError(f"Summaries with {name} {mine!r} and {theirs!r} cannot be merged: make them alike.")
        if self.n_features is not None and other.n_features is not None:
            self._check_features(other.n_features)
        for a in self._streams:
            for b in other._streams:
                if covers(a.key, b.key, self._config.fan_in):
                    shard = min(a.key, b.key, key=lambda key: key.height).number
                    raise InputError(
                        f"Both summaries hold shard {shard} of the same seed: nodes would count twice, or share their "
                        "random numbers. Read one of the parts again under a number of its own: shard (--shard)."
                    )

    # -- what comes out ---------------------------------------------------------------------------------------------

    def coreset(self) -> Nodes:
        """At most ``size`` weighted nodes that stand for all that were read; changes nothing, draws nothing.

        In the paper preset, and in theory, the union of all levels, as in section 3.2.

        Returns
        -------
        Nodes
            All nodes that were read, while there are at most ``size``.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> summary.coreset()
        Nodes(3 nodes, 3 realizations (1 per node), 1 feature, float64, mass 3)
        """
        return self._find("coreset", lambda: final_coreset(self._streams))

    def evaluate(self, centers: ArrayLike) -> Evaluation:
        """Say what centers from anywhere cost on all the data, with a standard error.

        The centers must not have been chosen by looking at the audit sample; those of :func:`probi.solve` were not.

        Parameters
        ----------
        centers : array-like of shape (k, n_features)
            Any number of them.

        Returns
        -------
        Evaluation
            Cost, standard error, and how much of the cost is spread; exact while all nodes are kept.

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
        places = check_centers(centers, self.n_features)
        with self._lock:
            totals, thinning = self._totals()
            if self._is_whole:
                cost, error = expected_cost(all_retained(self._streams), places), 0.0
            else:
                excess, error = self._whole_audit().excess(places)
                # Of the nodes as they are kept: what thinning took from the spread it gave to the excess.
                cost = totals.spread_cost + excess
            chosen = _bias_of_choice(self.coreset(), places) if thinning.variance > 0.0 else 0.0
        # The bias of what was drawn cannot be more than what is certified, of which that of the others is a part.
        bias = min(thinning.bias + chosen, max(thinning.bias, thinning.moved))
        error = math.hypot(error, math.sqrt(thinning.variance), bias)
        if thinning.moved > 0.0:
            # The estimate is of the nodes as they are kept, the bound of those that came.
            cost = max(cost, self.lower_bound)
        return Evaluation(cost, error, min(self.lower_bound, cost), min(self.spread_cost, cost), self.thinning_bound)

    def sample(self) -> Nodes:
        """Some of the nodes that were read, to look at: all of them while all are kept, else the audit sample.

        The audit sample holds up to 2,500 nodes, far ones rather than near ones, with the weights they came with.

        Returns
        -------
        Nodes
            To be drawn in a picture, say. Centers that were chosen by looking at it cannot be evaluated any more.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> len(summary.sample())
        3
        """
        with self._lock:
            if self._is_whole:
                return all_retained(self._streams)
            nodes = self._whole_audit().nodes
            assert nodes is not None  # some nodes were read
            return nodes

    def _whole_audit(self) -> AuditSample:
        def joined() -> AuditSample:
            streams, audit = self._state
            for stream in streams:
                audit = stream.with_waiting(audit)
            return audit

        return self._find("audit", joined)

    def _totals(self) -> tuple[Totals, ThinningTotals]:
        return self._find("totals", lambda: sums(self._streams))

    def _find(self, name: str, compute: Callable[[], T]) -> T:
        with self._lock:
            if name not in self._found:
                self._found[name] = compute()
            found: T = self._found[name]
            return found

    @property
    def n_clusters(self) -> int:
        """Largest number of clusters it is made for."""
        return self._config.n_clusters

    @property
    def size(self) -> int:
        """Nodes in the coreset."""
        return self._config.coresets.size

    @property
    def preset(self) -> str:
        """Which PROBI: "default", "paper" or "theory"."""
        return self._config.preset

    @property
    def max_realizations(self) -> int | None:
        """Most realizations that a node keeps; None keeps all."""
        return self._config.max_realizations

    @property
    def _solver_preset(self) -> str:
        """Preset of the solver that belongs to that of the summary."""
        return self._config.coresets.solver

    @property
    def n_nodes(self) -> int:
        """Nodes read."""
        return sum(stream.n_nodes for stream in self._streams)

    @property
    def n_retained(self) -> int:
        """Nodes kept for the coreset, by all levels and the buffer."""
        return sum(stream.n_retained for stream in self._streams)

    @property
    def _is_whole(self) -> bool:
        """Whether no node was left out or changed, but for thinning on arrival."""
        return all(stream.is_whole for stream in self._streams)

    @property
    def mass(self) -> float:
        """Sum of weight times total probability of all nodes read."""
        return self._totals()[0].mass

    @property
    def spread_cost(self) -> float:
        """Sum of mass times spread of all nodes read, before any were thinned."""
        totals, thinning = self._totals()
        return max(0.0, totals.spread_cost + thinning.spread_cost)

    @property
    def lower_bound(self) -> float:
        """Certified: no centers, however many, cost less."""
        totals, thinning = self._totals()
        return max(0.0, totals.lower_bound + thinning.lower_bound)

    @property
    def thinning_bound(self) -> float:
        """Certified: the cost of no centers changed by more than this because realizations were left out."""
        return self._totals()[1].moved

    @property
    def _form(self) -> tuple[int, np.dtype[Any]] | None:
        for stream in self._streams:
            form = stream.form
            if form is not None:
                return form
        return None

    @property
    def n_features(self) -> int | None:
        """Dimension of the space; None before the first node."""
        return None if self._form is None else self._form[0]

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """float32 or float64, which it becomes with the first such node; None before the first node."""
        return None if self._form is None else self._form[1]

    def __repr__(self) -> str:
        kind = self._config.coresets.description
        if self.max_realizations:
            kind += f", at most {self.max_realizations} realizations per node"
        return (
            f"Summary({counted(self.n_nodes, 'node')} read, {self.n_retained:,} kept, "
            f"up to {counted(self.n_clusters, 'cluster')}, {kind}, mass {self.mass:,.6g})"
        )

    def _repr_html_(self) -> str:
        """Show in a notebook what was read, and what is kept of it."""
        rows = [
            ["nodes read", f"{self.n_nodes:,}"],
            ["nodes kept", f"{self.n_retained:,}"],
            ["mass", f"{self.mass:,.6g}"],
            ["features", "not known yet" if self.n_features is None else f"{self.n_features:,}, {self.dtype}"],
            ["spread of the nodes", f"{self.spread_cost:,.6g}"],
            *([str(name), str(value)] for name, value in list(self.about.items())[: _html.MAX_ROWS]),
        ]
        return _html.table(repr(self), rows)

    # -- copies and files -------------------------------------------------------------------------------------------

    def sealed(self) -> Summary:
        """The same summary with nothing in it but its coreset and its audit sample, to be saved in a small file.

        :func:`probi.solve` finds the same centers for it. It can be merged and updated like any other, and then errs
        about as little, but it is not the same to the bit as a stream that was never sealed: each seal is one more
        reduction of all that was read. Between ``size`` nodes and those that fit the buffer, costs are no longer exact
        but estimated. Of merged shards each keeps a coreset of its own, for merges to come.

        Returns
        -------
        Summary
            A new one; this one stays as it is.

        Examples
        --------
        >>> import numpy as np
        >>> import probi
        >>> summary = probi.Summary(n_clusters=2, random_state=0)
        >>> summary.update(probi.Nodes.from_points(np.random.default_rng(0).normal(size=(10_000, 2))))
        >>> summary.n_retained, summary.sealed().n_retained
        (1600, 400)
        """
        with self._lock:
            alone = len(self._streams) == 1
            streams = [
                stream.sealed(self.coreset() if alone else final_coreset([stream])) if stream.n_nodes else stream
                for stream in self._streams
            ]
            return Summary.__new__(Summary)._set(self._config, streams, self._whole_audit(), copy.deepcopy(self.about))

    def _snapshot(self) -> Summary:
        """The same state, which further updates of this one do not touch."""
        with self._lock:
            streams, audit = self._state
            copies = [stream.copy() for stream in streams]
            return Summary.__new__(Summary)._set(self._config, copies, audit, copy.deepcopy(self.about))

    __copy__ = _snapshot

    def __deepcopy__(self, _: Any) -> Summary:
        return self._snapshot()

    def to_bytes(self) -> bytes:
        """The summary as an Arrow IPC file, in memory; the same state gives the same bytes.

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

        with self._lock:
            return file.summary_to_bytes(self._config, *self._state, self.about)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Summary from :meth:`to_bytes`; damaged, foreign or newer bytes are an error. No code in them is run.

        Parameters
        ----------
        data : bytes
            What :meth:`to_bytes` gave, or the content of a file that :meth:`save` wrote.

        Returns
        -------
        Summary
            As it was.

        Examples
        --------
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> probi.Summary.from_bytes(summary.to_bytes())
        Summary(3 nodes read, 3 kept, up to 1 cluster, coreset of 200, mass 3)
        """
        from probi.summary import file

        return cls.__new__(cls)._set(*file.summary_from_bytes(bytes(data)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary to a file, which any program that knows Arrow can read.

        The file is replaced as a whole: after a crash or on a full disk the old one is still there.

        Parameters
        ----------
        path : str or path-like
            Where.

        Examples
        --------
        >>> import tempfile
        >>> import probi
        >>> summary = probi.Summary(n_clusters=1, random_state=0)
        >>> summary.update(probi.Nodes.from_points([[0.0], [1.0], [5.0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     summary.save(f"{folder}/monday.probi")
        ...     again = probi.Summary.load(f"{folder}/monday.probi")
        >>> again.n_nodes
        3
        """
        from probi._files import write_atomically

        write_atomically(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Summary from a file that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path-like
            Where.

        Returns
        -------
        Summary
            As it was.

        Examples
        --------
        >>> import tempfile
        >>> import probi
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     probi.Summary(n_clusters=3).save(f"{folder}/empty.probi")
        ...     probi.Summary.load(f"{folder}/empty.probi").n_clusters
        3
        """
        from probi._files import read_named

        return read_named(path, cls.from_bytes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Summary.from_bytes, (self.to_bytes(),)


def _bias_of_choice(nodes: Nodes, centers: Floats) -> float:
    """Estimate by how much thinned nodes cost too little because each has the choice between several centers.

    Thinning leaves the expected distance to each center as it is on the mean, but not the smallest of them: of two that
    are nearly equal, the one that is too small by chance is chosen. This is what the next nearest centers add if the
    error of the difference is normal. Its variance is the smaller of two estimates that are too large on the mean: as
    if realizations had been drawn one by one, and what neighbours differ by, since they were drawn along an order.
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
        neighbours = np.arange(1, len(p) + 1)
        neighbours[some.offsets[1:] - 1] = np.maximum(some.offsets[1:] - 2, starts)  # the last one's is before it
        radii = [np.linalg.norm(some.points - centers[order[owners, c]], axis=1) for c in range(nearest)]
        for farther in radii[1:]:
            more = farther - radii[0]
            gaps = np.add.reduceat(p * more, starts)
            means = (gaps / some.total_probabilities)[owners]
            one_by_one = np.add.reduceat((p * (more - means)) ** 2, starts) * sizes / np.maximum(sizes - 1, 1)
            along = 0.5 * np.add.reduceat((p * (more - more[neighbours])) ** 2, starts)
            errors = np.sqrt(np.minimum(one_by_one, along))
            total += float(some.weights @ _expected_shortfall(np.maximum(gaps, 0.0), errors))
    return total


def _expected_shortfall(gaps: Floats, errors: Floats) -> Floats:
    """Mean of max(0, x - gap) for normal x with the given standard deviations around 0."""
    z = np.divide(gaps, errors, out=np.full(len(gaps), np.inf), where=errors > 0.0)
    above = np.array([0.5 * math.erfc(value / math.sqrt(2.0)) for value in z])
    return np.where(errors > 0.0, errors * np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) - gaps * above, 0.0)


def _as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:  # of a whole number with hundreds of digits
        return float("inf")


def _open_stream(streams: list[Stream]) -> tuple[int, Stream]:
    """Stream that goes on, and its place: the first that is no block, or a new one of the next generation."""
    for at, stream in enumerate(streams):
        if stream.key.height == 0:
            return at, stream
    config = streams[0].config
    first = min(streams, key=lambda stream: first_shard(stream.key, config.fan_in)).key
    generation = 1 + max(stream.key.generation for stream in streams)
    return len(streams), Stream(ShardKey(first_shard(first, config.fan_in), 0, generation, first.seed), config)


def _wide(streams: list[Stream], audit: AuditSample) -> tuple[list[Stream], AuditSample]:
    """The same state in float64."""
    return [stream.widened() for stream in streams], audit.with_nodes(widened)
