"""Merge & reduce over one stream of nodes: what has been read becomes a few coresets, by level.

Everything here happens at leaf borders, a leaf being a fixed number of nodes, and random numbers are keyed by stream
and leaf. So neither the split into batches nor the number of threads nor their timing changes a bit of the result.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi._random import keyed
from probi.coreset import importance, lss, paper
from probi.coreset.lss import Promise
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians, measured
from probi.nodes import Nodes
from probi.summary.audit import AuditSample, Surroundings
from probi.summary.buffer import Buffer
from probi.thinning import NOTHING_LOST, ThinningTotals
from probi.validation import check_count, frozen

Floats = NDArray[np.float64]

REDUCES: dict[str, Callable[[Sequence[Nodes], int, int, np.random.Generator], Nodes]] = {
    "default": importance.reduce,
    "paper": paper.reduce,
}

# The preset whose sizes follow from a promise.
THEORY = "theory"
PRESETS = (*REDUCES, THEORY)

# Nodes kept for each cluster, as in the paper.
SIZE_A_CLUSTER = 200

# With fewer nodes for each cluster a summary says nothing.
LEAST_SIZE_A_CLUSTER = 4

# In theory a coreset has no size before it is there. A leaf is four times what buckets would hold if a coreset of so
# many nodes had eight of them for each cluster: enough to be reduced.
THEORY_NODES, THEORY_BUCKETS = 1 << 16, 8

# In summaries up to this size a leaf has eight times as many nodes, in larger ones four times: larger leaves mean fewer
# levels, less error and less work, but more nodes that wait in the buffer.
SMALL_SIZE = 1 << 13

# Leaves that are worked on before their coresets are taken together, by as many threads as there are.
LEAVES_AT_ONCE = 16

# What random numbers are for, as part of their keys.
AUDIT, REDUCE, FINAL, COLLAPSE, THIN = range(5)


@dataclass(frozen=True)
class Plan:
    """What is kept of a stream: parameters that all parts of a summary share."""

    n_clusters: int
    size: int
    preset: str
    max_realizations: int | None = None
    promise: Promise | None = None

    @classmethod
    def checked(
        cls,
        n_clusters: Any,
        size: Any,
        preset: Any,
        max_realizations: Any = None,
        epsilon: Any = None,
        delta: Any = None,
    ) -> "Plan":
        """Return a plan, or raise on parameters that make no sense; a size of None is that of the paper."""
        check_count("n_clusters", n_clusters)
        if max_realizations is not None:
            check_count("max_realizations", max_realizations)
        if not isinstance(preset, str) or preset not in PRESETS:
            raise InputError(f"preset is {preset!r}, but must be one of {', '.join(PRESETS)}.")
        promise = _promise(preset, size, epsilon, delta)
        if promise is not None:
            size = THEORY_BUCKETS * n_clusters * promise.share(0).planned_draws(THEORY_NODES, int(n_clusters))
        size = SIZE_A_CLUSTER * n_clusters if size is None else size
        check_count("size", size)
        least = LEAST_SIZE_A_CLUSTER * n_clusters
        if size < least:
            raise InputError(f"A size of {size} is too small for {n_clusters} clusters: give at least {least}.")
        return cls(int(n_clusters), int(size), preset, max_realizations and int(max_realizations), promise)

    def parameters(self) -> dict[str, Any]:
        """What :meth:`checked` takes to make this plan again."""
        given = {"n_clusters": self.n_clusters, "size": None if self.promise else self.size, "preset": self.preset}
        epsilon, delta = self.promise or (None, None)
        return given | {"max_realizations": self.max_realizations, "epsilon": epsilon, "delta": delta}

    @property
    def fan_in(self) -> int:
        """Coresets of one level that become one of the next; the paper's is 2."""
        return 2 if self.preset == "paper" else 4

    @property
    def leaf(self) -> int:
        """Nodes that become one coreset. Those of the paper's B_0 and B_1 together are a leaf of its scheme."""
        few = self.preset == "default" and self.size <= SMALL_SIZE
        return (2 * self.fan_in if few else self.fan_in) * self.size

    def reduce(self, parts: list[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        """Take nodes together and choose ``size`` of them, or as many as a promise needs.

        The numbers tell this coreset from others of the same summary; the first is its level.
        """
        parts = _with_nodes(parts)
        if self.promise is not None:
            return lss.reduce(parts, self.n_clusters, self.promise.share(*numbers), rng)
        return REDUCES[self.preset](parts, self.size, self.n_clusters, rng)


def _promise(preset: str, size: Any, epsilon: Any, delta: Any) -> Promise | None:
    if preset != THEORY:
        if epsilon is not None or delta is not None:
            raise InputError('epsilon and delta are promises that only preset="theory" makes.')
        return None
    if size is not None:
        raise InputError('With preset="theory" the size follows from epsilon and delta: do not give one.')
    if epsilon is None or delta is None:
        raise InputError(
            'preset="theory" needs epsilon and delta, the largest error and how often it may be exceeded: '
            'Summary(..., preset="theory", epsilon=0.2, delta=0.1).'
        )
    return Promise.checked(epsilon, delta)


class Totals(NamedTuple):
    """Sums over nodes."""

    mass: float = 0.0
    spread_cost: float = 0.0
    lower_bound: float = 0.0

    @classmethod
    def of(cls, nodes: Nodes) -> "Totals":
        """Sums over some nodes."""
        _, spreads, lower = certified_medians(nodes, SPREAD_TOL)
        mass = nodes.mass
        return cls(float(mass.sum()), float((mass * spreads).sum()), float((mass * lower).sum()))

    def plus(self, other: "Totals") -> "Totals":
        """Sums over the nodes of both; the bound is rounded down, so that it holds after any number of leaves."""
        mass, spread_cost, lower_bound = (a + b for a, b in zip(self, other, strict=True))
        if math.fsum((self.lower_bound, other.lower_bound, -lower_bound)) < 0.0:
            lower_bound = math.nextafter(lower_bound, -math.inf)
        return Totals(mass, spread_cost, lower_bound)

    def scaled(self, factor: float) -> "Totals":
        """Sums with all weights multiplied."""
        return Totals(*(factor * value for value in self))


class ShardKey(NamedTuple):
    """Which stream this is: what tells its random numbers from those of others.

    A height above 0 is not one stream but a block of fan_in ** height neighbouring shards, the ``number``-th of them. A
    generation above 0 is what was added to a summary after its streams had become a block.
    """

    number: int
    height: int
    generation: int
    seed: int

    def random(self, purpose: int, *more: int) -> np.random.Generator:
        """Return the generator for one purpose."""
        return keyed(self.seed, self.number, self.height, self.generation, purpose, *more)

    @property
    def numbers(self) -> tuple[int, int, int]:
        """What tells its coresets from those of other streams of a summary."""
        return self.number, self.height, self.generation


class Seal(NamedTuple):
    """Where a stream was reduced to one coreset before it went on; all zeros if it never was.

    Attributes
    ----------
    n_nodes : int
        Nodes that the coreset stands for.
    leaf : int
        Number of the first leaf after it.
    level : int
        Level at which it stands.
    """

    n_nodes: int = 0
    leaf: int = 0
    level: int = 0


NEVER_SEALED = Seal()


class _Digest(NamedTuple):
    """All that is known of a leaf."""

    nodes: Nodes
    coreset: Nodes
    totals: Totals
    distances: Floats
    uniforms: Floats


@dataclass(eq=False)
class Stream:
    """State of one stream: coresets by level, and nodes that do not fill a leaf yet.

    Attributes
    ----------
    key : ShardKey
    plan : Plan
    n_digested : int
        Nodes of full leaves, and those before a seal.
    totals : Totals
        Over those.
    levels : list of lists of Nodes
        Coresets; one of level l stands for fan_in ** l leaves.
    buffer : Buffer
    surroundings : Surroundings or None
        Of full leaves; None while there are none.
    seal : Seal
        The last time that it was sealed.
    """

    key: ShardKey
    plan: Plan
    n_digested: int = 0
    totals: Totals = field(default_factory=Totals)
    levels: list[list[Nodes]] = field(default_factory=list)
    buffer: Buffer = field(default_factory=Buffer)
    surroundings: Surroundings | None = None
    seal: Seal = NEVER_SEALED
    _waiting: Nodes | None = None

    def updated(self, nodes: Nodes, audit: AuditSample) -> tuple["Stream", AuditSample]:
        """Read nodes; return the stream after them, and the audit sample with those of full leaves.

        As long as the buffer does not fill the stream is the same one; else a new one, and nothing happened to this.
        """
        leaf = self.plan.leaf
        waiting = len(self.buffer)
        nodes, thinning = self._thinned(nodes)
        if waiting + len(nodes) < leaf:
            self.buffer.append(nodes, thinning)
            return self, audit
        n_leaves = (waiting + len(nodes)) // leaf
        number = self._leaf_number
        levels, totals = [list(level) for level in self.levels], self.totals
        around = self.surroundings or Surroundings.around(self._leaf(nodes, 0))
        for start in range(0, n_leaves, LEAVES_AT_ONCE):
            pieces = [(i, i + 1) for i in range(start, min(start + LEAVES_AT_ONCE, n_leaves))]
            for digest in _parallel.run(self._digest, pieces, nodes, number, around):
                totals = totals.plus(digest.totals)
                _place(levels, 0, digest.coreset)
                around = around.after(digest.nodes, digest.distances)
                audit = audit.added(digest.nodes, digest.uniforms, around.sizes(digest.nodes, digest.distances))
            self._take_together(levels, number + pieces[-1][1])
        rest = Buffer.of(nodes[n_leaves * leaf - waiting :], thinning)
        n_digested = self.n_digested + n_leaves * leaf
        return Stream(self.key, self.plan, n_digested, totals, levels, rest, around, self.seal), audit

    @property
    def n_nodes(self) -> int:
        """Nodes read."""
        return self.n_digested + len(self.buffer)

    @property
    def is_whole(self) -> bool:
        """Whether all nodes read are kept as they came, but for thinning on arrival.

        The number of nodes that are kept cannot tell: in theory a reduce may keep every node with fewer realizations.
        Leaves have at least twice ``size`` nodes, so no more than ``size`` that are digested are those of shards that
        were taken together as they were.
        """
        return self.n_digested <= self.plan.size

    @property
    def thinning(self) -> ThinningTotals:
        """What thinning did to the nodes read."""
        return self.buffer.thinning

    def _thinned(self, nodes: Nodes) -> tuple[Nodes, ThinningTotals]:
        """Nodes with as many realizations as may be kept, and what that did to all nodes read up to them."""
        most = self.plan.max_realizations
        if most is None or np.diff(nodes.offsets).max() <= most:
            return nodes, self.thinning
        found, thin = nodes.thinned(most, int(self.key.random(THIN).integers(2**64, dtype=np.uint64)), self.n_nodes)
        lost = np.flatnonzero(found.spreads[:, 0] >= 0.0)
        differences = np.zeros((2, len(nodes)))
        _, spreads, lower = certified_medians(thin.take(lost), SPREAD_TOL)
        differences[:, lost] = found.spreads[lost].T - [spreads, lower]
        weights = nodes.weights
        return thin, self.thinning.then(
            weights**2 * found.variances, weights * found.moved, *(nodes.mass * differences), weights * found.biases
        )

    @property
    def _leaf_number(self) -> int:
        """Number of the leaf that the buffer is going to fill."""
        return self.seal.leaf + (self.n_digested - self.seal.n_nodes) // self.plan.leaf

    def _leaf(self, nodes: Nodes, i: int) -> Nodes:
        """Nodes of the i-th leaf of what waits in the buffer and the given nodes."""
        leaf, waiting = self.plan.leaf, len(self.buffer)
        part = without_statistics(nodes[max(0, i * leaf - waiting) : (i + 1) * leaf - waiting])
        return Nodes.concat([self.buffer.nodes(), part]) if i == 0 and waiting else part

    def _digest(self, nodes: Nodes, number: int, around: Surroundings, i: int, _: int) -> _Digest:
        """Work on the i-th leaf of what waits in the buffer and the given nodes."""
        part = self._leaf(nodes, i)
        return _Digest(
            nodes=part,
            totals=Totals.of(part),
            distances=around.distances(part),
            uniforms=self._uniforms(number + i, len(part)),
            coreset=self.plan.reduce([part], self.key.random(REDUCE, 0, number + i), 0, number + i, *self.key.numbers),
        )

    def _uniforms(self, leaf_number: int, n: int) -> Floats:
        """Random numbers in (0, 1] for the nodes of a leaf, or its first n."""
        return 1.0 - self.key.random(AUDIT, leaf_number).random(n)

    def _take_together(self, levels: list[list[Nodes]], n_leaves: int) -> None:
        """Make one coreset of fan_in of the same level, as long as there are so many."""
        fan_in, seal, level = self.plan.fan_in, self.seal, 0
        n_ever = n_leaves - seal.leaf
        while level < len(levels):
            # Coresets of this level that there have ever been since the seal, and groups of them. Numbers of groups
            # before the seal are below that of its leaf.
            n_ever += level == seal.level and seal.n_nodes > 0
            full, n_ever = len(levels[level]) // fan_in, n_ever // fan_in
            first_new = seal.leaf + n_ever - full
            pieces = [(i, i + 1) for i in range(full)]
            for coreset in _parallel.run(self._group, pieces, levels[level], level + 1, first_new):
                _place(levels, level + 1, coreset)
            levels[level] = levels[level][full * fan_in :]
            level += 1

    def _group(self, coresets: list[Nodes], level: int, first_new: int, i: int, _: int) -> Nodes:
        """Make a coreset of a level of the i-th fan_in coresets of the level below."""
        group = coresets[i * self.plan.fan_in : (i + 1) * self.plan.fan_in]
        number = first_new + i
        return self.plan.reduce(group, self.key.random(REDUCE, level, number), level, number, *self.key.numbers)

    # -- what it says about the nodes read so far -------------------------------------------------------------------

    def waiting(self) -> Nodes | None:
        """Nodes in the buffer, with their medians; made once for a state."""
        if len(self.buffer) == 0:
            return None
        if self._waiting is None or len(self._waiting) != len(self.buffer):
            self._waiting = measured(self.buffer.nodes())
        return self._waiting

    def retained(self) -> list[Nodes]:
        """Coresets of all levels, and what waits in the buffer: together a coreset of all nodes read."""
        waiting = self.waiting()
        kept = [coreset for level in reversed(self.levels) for coreset in level]
        return kept if waiting is None else [*kept, waiting]

    @property
    def n_retained(self) -> int:
        """Nodes kept."""
        return len(self.buffer) + sum(len(coreset) for level in self.levels for coreset in level)

    def with_waiting(self, audit: AuditSample) -> AuditSample:
        """Audit sample with the nodes in the buffer."""
        waiting = self.waiting()
        if waiting is None:
            return audit
        around = self.surroundings or Surroundings.around(waiting)
        distances = around.distances(waiting)
        sizes = around.after(waiting, distances).sizes(waiting, distances)
        return audit.added(waiting, self._uniforms(self._leaf_number, len(waiting)), sizes)

    def sealed(self, coreset: Nodes) -> "Stream":
        """The same stream with all that was read as one coreset; the buffer must be in the audit sample already."""
        waiting, around = self.waiting(), self.surroundings
        if waiting is not None:
            around = around or Surroundings.around(waiting)
            around = around.after(waiting, around.distances(waiting))
        level = max(0, len(self.levels) - 1)
        seal = Seal(self.n_nodes, self._leaf_number + (waiting is not None), level)
        if self.key.height > 0:  # a block, which does not go on
            seal = NEVER_SEALED
        levels: list[list[Nodes]] = []
        _place(levels, level, coreset)
        buffer = Buffer.of(None, self.thinning)
        return Stream(self.key, self.plan, self.n_nodes, self.all_totals(), levels, buffer, around, seal)

    def all_totals(self) -> Totals:
        """Sums over all nodes read."""
        waiting = self.waiting()
        return self.totals if waiting is None else self.totals.plus(Totals.of(waiting))

    def paper_coreset(self) -> list[Nodes]:
        """Union of all buckets, B_0 reduced (section 3.2); B_1 holds nodes as they were read."""
        waiting = self.waiting()
        kept = [coreset for level in reversed(self.levels) for coreset in level]
        if waiting is None:
            return kept
        size = self.plan.size
        if len(waiting) >= size:
            kept.append(waiting[:size])
            waiting = waiting[size:]
        if len(waiting):
            kept.append(self.plan.reduce([waiting], self.key.random(FINAL, self.n_nodes)))
        return kept

    def scaled(self, factor: float) -> "Stream":
        """The same stream with all weights multiplied."""
        changed = self._with_each(lambda nodes: nodes.with_weights(nodes.weights * factor))
        rescaled = self.thinning.scaled(factor)
        around = self.surroundings and self.surroundings.scaled(factor)
        buffer = Buffer.of(changed.buffer.some(), rescaled)
        return replace(changed, totals=self.totals.scaled(factor), buffer=buffer, surroundings=around)

    def widened(self) -> "Stream":
        """The same stream in float64."""
        return self._with_each(widened)

    def copy(self) -> "Stream":
        """The same stream, with a buffer of its own; coresets never change and are shared."""
        return self._with_each(lambda nodes: nodes)

    def _with_each(self, change: Callable[[Nodes], Nodes]) -> "Stream":
        some = self.buffer.some()
        buffer = Buffer.of(None if some is None else change(some), self.thinning)
        return replace(
            self, _waiting=None, levels=[[change(coreset) for coreset in level] for level in self.levels], buffer=buffer
        )

    @property
    def form(self) -> tuple[int, np.dtype[Any]] | None:
        """Number of features and dtype of the nodes; None if there are none."""
        if len(self.buffer):
            return self.buffer.form
        for level in self.levels:
            for coreset in level:
                return coreset.n_features, coreset.dtype
        return None


def without_statistics(nodes: Nodes) -> Nodes:
    """The same nodes without ids and without what may be known of them, as they would come out of the buffer."""
    return Nodes._trusted(**nodes._parts() | {"ids": None, "statistics": {}})


def widened(nodes: Nodes) -> Nodes:
    """The same nodes as float64."""
    if nodes.dtype == np.float64:
        return nodes
    wide = {name: frozen(getattr(nodes, name).astype(np.float64)) for name in ("points", "probabilities")}
    return Nodes._trusted(**nodes._parts() | wide)


def _place(levels: list[list[Nodes]], level: int, coreset: Nodes) -> None:
    while len(levels) <= level:
        levels.append([])
    levels[level].append(coreset)


def collapsed(streams: list[Stream]) -> Stream:
    """One block of fan_in neighbouring streams or blocks: one coreset of what they keep."""
    first, plan = streams[0].key, streams[0].plan
    key = ShardKey(first.number // plan.fan_in, first.height + 1, first.generation, first.seed)
    n_nodes = sum(stream.n_nodes for stream in streams)
    block = Stream(key, plan, n_nodes)
    thinning = NOTHING_LOST
    for stream in streams:
        block.totals = block.totals.plus(stream.all_totals())
        thinning = thinning.plus(stream.thinning)
    block.buffer = Buffer.of(None, thinning)
    parts = [nodes for stream in streams for nodes in stream.retained()]
    if parts:
        # In theory a coreset of coresets stands a level above them, where it may err less.
        level = max(len(stream.levels) for stream in streams) if plan.promise else 0
        _place(
            block.levels, level, reduce_if_larger(plan, parts, key.random(COLLAPSE, n_nodes), level, 0, *key.numbers)
        )
    return block


def reduce_if_larger(plan: Plan, parts: list[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
    """Nodes of all parts as they are if there are at most ``size`` of them, else a coreset."""
    if sum(len(part) for part in parts) <= plan.size:
        return concat_nonempty(parts)
    return plan.reduce(parts, rng, *numbers)


def concat_nonempty(parts: list[Nodes]) -> Nodes:
    """Nodes of all parts."""
    return Nodes.concat(_with_nodes(parts))


def _with_nodes(parts: list[Nodes]) -> list[Nodes]:
    """All parts but the empty ones (of leaves without mass), which know nothing of their medians; at least one."""
    return [part for part in parts if len(part)] or parts[:1]


def all_retained(streams: list[Stream]) -> Nodes:
    """All that is kept of several streams: more than a coreset, and all nodes as long as none was left out."""
    return concat_nonempty([nodes for stream in streams for nodes in stream.retained()])


def final_coreset(streams: list[Stream]) -> Nodes:
    """The coreset of several streams; it draws nothing: its random numbers depend on what was read alone."""
    plan = streams[0].plan
    n_nodes = sum(stream.n_nodes for stream in streams)
    parts = [nodes for stream in streams for nodes in stream.retained()]
    if not parts:
        raise InputError("The summary is empty: it has read no nodes. Update it first.")
    if plan.promise is not None:
        # Their union keeps the promise; another reduce would cost some of it.
        return concat_nonempty(parts)
    if plan.preset == "paper" and sum(len(part) for part in parts) > plan.size:
        return concat_nonempty([nodes for stream in streams for nodes in stream.paper_coreset()])
    return reduce_if_larger(plan, parts, streams[0].key.random(FINAL, n_nodes))


def first_shard(key: ShardKey, fan_in: int) -> int:
    """Smallest shard number of a stream or block."""
    return int(key.number * fan_in**key.height)


def covers(a: ShardKey, b: ShardKey, fan_in: int) -> bool:
    """Whether a block or stream holds nodes of the same stream as another."""
    if a.seed != b.seed or a.generation != b.generation:
        return False
    block = fan_in ** max(a.height, b.height)
    return bool(first_shard(a, fan_in) // block == first_shard(b, fan_in) // block)


def merged(streams: list[Stream], audit: AuditSample) -> tuple[list[Stream], AuditSample]:
    """Streams in order, with complete groups of neighbours taken together, and the audit sample with their buffers.

    Which groups are complete does not depend on the order in which streams came, so neither does the result.
    """
    fan_in = streams[0].plan.fan_in
    height = 0
    while height <= max(stream.key.height for stream in streams):
        groups: dict[tuple[int, int], list[Stream]] = {}
        for stream in sorted(streams, key=lambda stream: stream.key):
            key = stream.key
            if key.height == height and key.generation == 0:
                groups.setdefault((key.seed, key.number // fan_in), []).append(stream)
        for group in groups.values():
            if len(group) == fan_in:
                for stream in group:
                    audit = stream.with_waiting(audit)
                    streams.remove(stream)
                streams.append(collapsed(group))
        height += 1
    return sorted(streams, key=lambda stream: stream.key), audit


def sums(streams: list[Stream]) -> tuple[Totals, ThinningTotals]:
    """Sums over all nodes of several streams, as they are kept, and what thinning did to them."""
    columns = zip(*(stream.all_totals() for stream in streams), strict=True)
    losses = zip(*(stream.thinning for stream in streams), strict=True)
    return Totals(*(math.fsum(column) for column in columns)), ThinningTotals(*(math.fsum(loss) for loss in losses))
