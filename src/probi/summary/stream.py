"""Merge & reduce over streams of nodes: the nodes read become a few coresets per level.

All work happens when a leaf, a fixed number of nodes, is full, and random numbers are keyed by stream and leaf. So the
result does not depend on the split into batches, the number of threads or their timing.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from probi import _parallel
from probi.coreset.importance import Retained, concat_nonempty, nonempty
from probi.errors import InputError
from probi.medians import SPREAD_TOL, certified_medians, measured
from probi.nodes import Nodes
from probi.summary.audit import AuditSample, GrowingSample, Surroundings, Survey
from probi.summary.buffer import Buffer, Form
from probi.summary.config import SummaryConfig
from probi.thinning import NOTHING_LOST, ThinningTotals
from probi.validation import keyed

T = TypeVar("T")
Floats = NDArray[np.float64]

# Purposes of random numbers, as part of their keys.
AUDIT, REDUCE, FINAL, COLLAPSE, THIN = range(5)

# Nodes are numbered up to here, and then from 0 again: kernels count in 64 bits.
MAX_NUMBER = 1 << 62


class Totals(NamedTuple):
    """Sums over nodes."""

    mass: float = 0.0
    spread_cost: float = 0.0
    lower_bound: float = 0.0

    @classmethod
    def of(cls, nodes: Nodes) -> "Totals":
        """Sums over some nodes."""
        mass = nodes.mass
        if nodes.is_certain:
            return cls(float(mass.sum()))
        _, spreads, lower = certified_medians(nodes, SPREAD_TOL)
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
    """Identity of a stream, which keys its random numbers.

    A height above 0 means a block of fan_in ** height neighboring shards, the ``number``-th of them. A generation
    above 0 means nodes added to a summary after its streams had become a block.
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
        """Key without the seed, which tells the coresets of the streams of a summary apart."""
        return self.number, self.height, self.generation


class Seal(NamedTuple):
    """Point at which a stream was reduced to one coreset; all zeros if it never was.

    Attributes
    ----------
    n_nodes : int
        Nodes that the coreset represents.
    leaf : int
        Number of the first leaf after it.
    level : int
        Level of the coreset.
    """

    n_nodes: int = 0
    leaf: int = 0
    level: int = 0


NEVER_SEALED = Seal()


class _Digest(NamedTuple):
    """Results for one leaf."""

    nodes: Nodes
    totals: Totals
    survey: Survey
    uniforms: Floats


class _Read(NamedTuple):
    """What changes from leaf to leaf, in their order."""

    totals: Totals
    surroundings: Surroundings
    audit: GrowingSample

    def after(self, digest: _Digest) -> "_Read":
        """The same after one more leaf."""
        surroundings = self.surroundings.after(digest.survey)
        more = self.audit.sample.candidates(digest.nodes, digest.uniforms, digest.survey, surroundings)
        return _Read(self.totals.plus(digest.totals), surroundings, self.audit.plus(more))


@dataclass(eq=False)
class Stream:
    """State of one stream: coresets by level, and the nodes of the unfilled leaf.

    Attributes
    ----------
    key : ShardKey
    config : SummaryConfig
    n_digested : int
        Nodes of full leaves, and those before a seal.
    totals : Totals
        Over these nodes.
    levels : list of lists of Nodes
        Coresets; one of level l represents fan_in ** l leaves.
    buffer : Buffer
    surroundings : Surroundings or None
        Of full leaves; None while there are none.
    seal : Seal
        The last time it was sealed.
    leaf_number : int
        Number of the unfilled leaf.
    """

    key: ShardKey
    config: SummaryConfig
    n_digested: int = 0
    totals: Totals = field(default_factory=Totals)
    levels: list[list[Nodes]] = field(default_factory=list)
    buffer: Buffer = field(default_factory=Buffer)
    surroundings: Surroundings | None = None
    seal: Seal = NEVER_SEALED
    leaf_number: int = 0
    _buffered: Nodes | None = None

    def updated(self, nodes: Nodes, audit: GrowingSample) -> tuple["Stream", GrowingSample]:
        """Read nodes; return the stream after them, and the audit sample including those of full leaves.

        While the leaf does not fill, returns this stream, updated; else a new one, and this one is unchanged.
        """
        nodes, thinning = self._thin(nodes)
        ends = self._leaf_ends(nodes)
        if not ends:
            if len(self.buffer) == 0:
                self.buffer.expect(*self._expected_leaf(nodes))
            self.buffer.append(nodes, thinning)
            return self, audit
        # The first leaf begins in the buffer.
        first = self.buffer.followed_by(nodes[: ends[0]]) if len(self.buffer) else nodes[: ends[0]]
        leaves = [first, *(nodes[a:b] for a, b in pairwise(ends))]
        surroundings = self.surroundings or Surroundings.of(without_statistics(first))
        levels, read = self._digest_all(leaves, _Read(self.totals, surroundings, audit))
        n_digested = self.n_digested + len(self.buffer) + ends[-1]
        rest = self._new_buffer(nodes, ends[-1], thinning)
        number = self.leaf_number + len(leaves)
        return Stream(
            self.key, self.config, n_digested, read.totals, levels, rest, read.surroundings, self.seal, number
        ), read.audit  # fmt: skip

    def _leaf_ends(self, nodes: Nodes) -> list[int]:
        """Numbers of nodes after which a leaf ends.

        It has its nodes, or half of them and a quarter of its coordinates, or few nodes and all its coordinates. A
        function of the stream node by node, so it does not depend on the split into batches.
        """
        config = self.config
        ends: list[int] = []
        offsets = None if nodes.is_certain else nodes.offsets
        begin, first = -len(self.buffer), -self.buffer.n_realizations
        while True:
            end = begin + config.leaf
            for least, coordinates in config.short_leaves:
                full = first - (-coordinates // nodes.n_features)  # rounded up
                full = full if offsets is None else int(np.searchsorted(offsets, full))
                end = min(end, max(full, begin + least, 1))
            if end > len(nodes):
                return ends
            ends.append(end)
            begin, first = end, end if offsets is None else int(offsets[end])

    def _expected_leaf(self, nodes: Nodes) -> tuple[int, int]:
        """Nodes and realizations of a leaf of nodes like these."""
        each = nodes.n_realizations / len(nodes)
        n = self.config.expected_leaf(each * nodes.n_features)
        return n, int(n * each)

    def _new_buffer(self, nodes: Nodes, start: int, thinning: ThinningTotals) -> Buffer:
        """Buffer with the last nodes."""
        buffer = Buffer.of(None, thinning)
        buffer.expect(*self._expected_leaf(nodes))
        if start < len(nodes):
            buffer.append(nodes[start:])
        return buffer

    def _digest_all(self, leaves: list[Nodes], read: _Read) -> tuple[list[list[Nodes]], _Read]:
        """Process full leaves; return levels and sums after them.

        Tasks are in the order in which one thread runs them: a group of coresets is merged as soon as it is complete.
        More threads process the next leaves meanwhile.
        """
        tasks: list[_parallel.Task] = []

        def add(function: Callable[..., Any], *needs: int) -> int:
            tasks.append(_parallel.Task(function, needs))
            return len(tasks) - 1

        levels = [[add(partial(_same, coreset)) for coreset in level] for level in self.levels]
        last = add(partial(_same, read))
        for number, leaf in enumerate(leaves, self.leaf_number):
            digest = add(partial(self._digest, leaf, number, read.surroundings))
            last = add(_Read.after, last, digest)
            if self.config.is_wide(leaf.n_realizations * leaf.n_features):
                level, joined = _take_joined(levels, 0, number, self.config.leaves_joined)
                _place(levels, level, add(partial(self._reduce_leaf, number), digest, *joined))
                continue
            _place(levels, 0, add(partial(self._reduce_leaf, number), digest))
            self._merge_full_groups(levels, number + 1, add)
        add(lambda *results: results, last, *(number for level in levels for number in level))
        after, *coresets = _parallel.run_tasks(tasks, at_once=len(leaves))
        rest = iter(coresets)
        return [[next(rest) for _ in level] for level in levels], after

    @property
    def n_nodes(self) -> int:
        """Nodes read."""
        return self.n_digested + len(self.buffer)

    @property
    def is_whole(self) -> bool:
        """Whether all nodes read are kept unchanged, except for thinning on arrival.

        The number of nodes kept does not tell: in preset "theory" a reduce may keep every node with fewer
        realizations. Leaves have at least twice ``size`` nodes, so at most ``size`` digested nodes means small shards
        that were merged without a reduce.
        """
        return self.n_digested <= self.config.coresets.size

    @property
    def thinning(self) -> ThinningTotals:
        """Thinning totals of the nodes read."""
        return self.buffer.thinning

    def _thin(self, nodes: Nodes) -> tuple[Nodes, ThinningTotals]:
        """Nodes thinned to the allowed number of realizations, and the thinning totals including them."""
        limit = self.config.max_realizations
        if limit is None or np.diff(nodes.offsets).max() <= limit:
            return nodes, self.thinning
        first = self.n_nodes % MAX_NUMBER
        drawn, thin = nodes._thin(limit, int(self.key.random(THIN).integers(2**64, dtype=np.uint64)), first)
        lost = np.flatnonzero(drawn.spreads[:, 0] >= 0.0)
        differences = np.zeros((2, len(nodes)))
        _, spreads, lower = certified_medians(thin.take(lost), SPREAD_TOL)
        differences[:, lost] = drawn.spreads[lost].T - [spreads, lower]
        weights = nodes.weights
        with np.errstate(over="ignore"):
            variances = weights**2 * drawn.variances
        thinning = self.thinning.then(
            variances, weights * drawn.moved, *(nodes.mass * differences), weights * drawn.biases
        )
        if not math.isfinite(thinning.variance):
            raise InputError("Weights and coordinates are so large that the error of thinning overflows. Divide them.")
        return thin, thinning

    def _digest(self, nodes: Nodes, number: int, surroundings: Surroundings) -> _Digest:
        """Process a leaf with a number."""
        leaf = without_statistics(nodes)
        return _Digest(
            nodes=leaf,
            totals=Totals.of(leaf),
            survey=surroundings.survey(leaf),
            uniforms=self._uniforms(number, len(leaf)),
        )

    def _reduce_leaf(self, number: int, digest: _Digest, *coresets: Nodes) -> Nodes:
        """Reduce a leaf, and coresets of earlier ones with it."""
        parts = [*coresets, digest.nodes]
        return self._reduce(parts, self.key.random(REDUCE, 0, number), 0, number, *self.key.numbers)

    def _reduce(self, parts: list[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        return self.config.coresets.reduce(nonempty(parts), rng, *numbers)

    def _uniforms(self, leaf_number: int, n: int) -> Floats:
        """Random numbers in (0, 1] for the first n nodes of a leaf."""
        uniforms = self.key.random(AUDIT, leaf_number).random(n)
        return np.subtract(1.0, uniforms, out=uniforms)

    def _merge_full_groups(self, levels: list[list[int]], n_leaves: int, add: Callable[..., int]) -> None:
        """Add tasks that reduce each group of fan_in coresets of a level to one of the next level.

        ``levels`` hold the numbers of the tasks whose results are the coresets.
        """
        fan_in, seal, level = self.config.fan_in, self.seal, 0
        n_ever = n_leaves - seal.leaf
        while level < len(levels):
            # Coresets of this level ever made since the seal, and groups of them. Groups before the seal have numbers
            # below that of its leaf.
            n_ever += level == seal.level and seal.n_nodes > 0
            full, n_ever = len(levels[level]) // fan_in, n_ever // fan_in
            for i in range(full):
                group = levels[level][i * fan_in : (i + 1) * fan_in]
                number, place = seal.leaf + n_ever - full + i, level + 1
                if place >= self.config.joining_level:
                    place, joined = _take_joined(levels, place, number, fan_in)
                    group += joined
                _place(levels, place, add(partial(self._reduce_group, level + 1, number), *group))
            levels[level] = levels[level][full * fan_in :]
            level += 1

    def _reduce_group(self, level: int, number: int, *group: Nodes) -> Nodes:
        """Reduce coresets to one of the given level."""
        return self._reduce(list(group), self.key.random(REDUCE, level, number), level, number, *self.key.numbers)

    # -- state of the nodes read so far -----------------------------------------------------------------------------

    def buffered(self) -> Nodes | None:
        """Nodes in the buffer, with their medians; computed once per state."""
        if len(self.buffer) == 0:
            return None
        if self._buffered is None or len(self._buffered) != len(self.buffer):
            self._buffered = measured(self.buffer.nodes())
        return self._buffered

    def parts(self) -> list[Nodes]:
        """Coresets of all levels and the nodes in the buffer: together a coreset of all nodes read."""
        buffered = self.buffered()
        return self._coresets() + ([] if buffered is None else [buffered])

    def retained(self) -> Retained:
        """The same, with random numbers for a final coreset."""
        return Retained(self._coresets(), self.buffered(), self.key.random(FINAL, self.n_nodes))

    def _coresets(self) -> list[Nodes]:
        """Those of the highest level first."""
        return [coreset for level in reversed(self.levels) for coreset in level]

    @property
    def n_retained(self) -> int:
        """Nodes kept."""
        return len(self.buffer) + sum(len(coreset) for level in self.levels for coreset in level)

    def candidates(self, audit: AuditSample) -> AuditSample:
        """Nodes in the buffer that may join an audit sample."""
        buffered = self.buffered()
        if buffered is None:
            return AuditSample(limit=audit.limit)
        surroundings = self.surroundings or Surroundings.of(buffered)
        survey = surroundings.survey(buffered)
        uniforms = self._uniforms(self.leaf_number, len(buffered))
        return audit.candidates(buffered, uniforms, survey, surroundings.after(survey))

    def seal_with(self, coreset: Nodes) -> "Stream":
        """The same stream with one coreset for all nodes read; the audit sample must already include the buffer."""
        buffered, surroundings = self.buffered(), self.surroundings
        if buffered is not None:
            surroundings = surroundings or Surroundings.of(buffered)
            surroundings = surroundings.after(surroundings.survey(buffered))
        level = max(0, len(self.levels) - 1)
        seal = Seal(self.n_nodes, self.leaf_number + (buffered is not None), level)
        if self.key.height > 0:  # a block, which reads no more nodes
            seal = NEVER_SEALED
        levels: list[list[Nodes]] = []
        _place(levels, level, coreset)
        buffer = Buffer.of(None, self.thinning)
        return Stream(
            self.key, self.config, self.n_nodes, self.all_totals(), levels, buffer, surroundings, seal, seal.leaf
        )  # fmt: skip

    def all_totals(self) -> Totals:
        """Sums over all nodes read."""
        buffered = self.buffered()
        return self.totals if buffered is None else self.totals.plus(Totals.of(buffered))

    def scaled(self, factor: float) -> "Stream":
        """The same stream with all weights multiplied."""
        changed = self._with_each(lambda nodes: nodes.with_weights(nodes.weights * factor))
        rescaled = self.thinning.scaled(factor)
        surroundings = self.surroundings and self.surroundings.scaled(factor)
        buffer = Buffer.of(changed.buffer.some(), rescaled)
        return replace(changed, totals=self.totals.scaled(factor), buffer=buffer, surroundings=surroundings)

    def convert(self, form: Form) -> "Stream":
        """The same stream with its nodes in another form."""
        return self._with_each(form.convert)

    def copy(self) -> "Stream":
        """Copy of the stream that can be updated by itself; nodes never change and are shared."""
        levels = [level.copy() for level in self.levels]
        return Stream(
            self.key, self.config, self.n_digested, self.totals, levels, self.buffer.copy(), self.surroundings,
            self.seal, self.leaf_number, self._buffered,
        )  # fmt: skip

    def _with_each(self, change: Callable[[Nodes], Nodes]) -> "Stream":
        some = self.buffer.some()
        buffer = Buffer.of(None if some is None else change(some), self.thinning)
        return replace(
            self,
            _buffered=None,
            levels=[[change(coreset) for coreset in level] for level in self.levels],
            buffer=buffer,
        )

    @property
    def form(self) -> Form | None:
        """Form of the nodes; None if there are none."""
        if len(self.buffer):
            return self.buffer.form
        for level in self.levels:
            for coreset in level:
                return Form.of(coreset)
        return None


class State(NamedTuple):
    """All of a summary that its file holds; ``about`` are the metadata of its user."""

    config: SummaryConfig
    streams: Sequence[Stream]
    audit: AuditSample
    about: dict[str, Any]


def without_statistics(nodes: Nodes) -> Nodes:
    """The same nodes without cached statistics, as the buffer returns them."""
    return Nodes._trusted(**nodes._parts() | {"statistics": {}})


def _same(value: T) -> T:
    return value


def _place(levels: list[list[T]], level: int, coreset: T) -> None:
    while len(levels) <= level:
        levels.append([])
    levels[level].append(coreset)


def _take_joined(levels: list[list[T]], level: int, number: int, n_joined: int) -> tuple[int, list[T]]:
    """Where to place the ``number``-th coreset of a level, and those that it is reduced with, taken from the levels.

    Groups that wait to be merged take memory. So each is reduced together with the one that is there already, and
    every ``n_joined``-th with that of the next level too, and so on.
    """
    first = level
    while number % n_joined == n_joined - 1:
        level, number = level + 1, number // n_joined
    joined = [coreset for some in reversed(levels[first : level + 1]) for coreset in some]
    levels[first : level + 1] = [[] for _ in levels[first : level + 1]]
    return level, joined


def collapse(streams: Sequence[Stream]) -> Stream:
    """Merge fan_in neighboring streams or blocks into one block with one coreset."""
    first, config = streams[0].key, streams[0].config
    key = ShardKey(first.number // config.fan_in, first.height + 1, first.generation, first.seed)
    n_nodes = sum(stream.n_nodes for stream in streams)
    block = Stream(key, config, n_nodes)
    thinning = NOTHING_LOST
    for stream in streams:
        block.totals = block.totals.plus(stream.all_totals())
        thinning = thinning.plus(stream.thinning)
    block.buffer = Buffer.of(None, thinning)
    parts = [nodes for stream in streams for nodes in stream.parts()]
    if parts:
        level = config.coresets.block_level(max(len(stream.levels) for stream in streams))
        make_rng = partial(key.random, COLLAPSE, n_nodes)
        _place(block.levels, level, config.coresets.reduce_if_larger(parts, make_rng, level, 0, *key.numbers))
    return block


def with_small_joined(streams: Sequence[Stream]) -> Sequence[Stream]:
    """The same streams, but those that have filled no leaf as one: to measure one node takes as long as a hundred."""
    small = [stream for stream in streams if len(stream.buffer) and stream.surroundings is None]
    if len(small) < 2:
        return streams
    others = [stream for stream in streams if not len(stream.buffer) or stream.surroundings is not None]
    return [Stream(small[0].key, small[0].config, buffer=Buffer.joined([stream.buffer for stream in small])), *others]


def with_buffers(streams: Sequence[Stream], audit: GrowingSample) -> GrowingSample:
    """Audit sample with the nodes in the buffers of several streams."""
    return audit.plus(*(stream.candidates(audit.sample) for stream in streams if len(stream.buffer)))


def all_retained(streams: Sequence[Stream]) -> Nodes:
    """All nodes kept by several streams: a union of coresets, or all nodes read while none was dropped."""
    return concat_nonempty([nodes for stream in streams for nodes in stream.parts()])


def final_coreset(streams: Sequence[Stream]) -> Nodes:
    """The coreset of several streams. Deterministic: the generator is keyed by the data read."""
    n_nodes = sum(stream.n_nodes for stream in streams)
    retained = [stream.retained() for stream in streams]
    if not any(some.parts for some in retained):
        raise InputError("The summary is empty: it has read no nodes. Update it first.")
    return streams[0].config.coresets.final_coreset(retained, streams[0].key.random(FINAL, n_nodes))


def sums(streams: Sequence[Stream]) -> tuple[Totals, ThinningTotals]:
    """Sums over all nodes of several streams after thinning, and their thinning totals."""
    columns = zip(*(stream.all_totals() for stream in streams), strict=True)
    losses = zip(*(stream.thinning for stream in streams), strict=True)
    return Totals(*(math.fsum(column) for column in columns)), ThinningTotals(*(math.fsum(loss) for loss in losses))


# -- streams by shard number -------------------------------------------------------------------------------------------

# A tree in which fan_in neighbors meet at each height. One more stream changes only its path to the root, so a merge
# takes a time that grows with the logarithm of the number of streams.

# None, a stream or block, or trees of neighbors by their number among fan_in of them. Never changes.
Tree = Any


class _Root(NamedTuple):
    """Tree of all shards below fan_in ** height with one seed and generation."""

    height: int = 0
    tree: Tree = None


class Shards(Sequence[Stream]):
    """Streams with any keys, in the order of these. Never changes."""

    def __init__(self, roots: dict[tuple[int, int], _Root] | None = None, form: Form | None = None) -> None:
        self._roots = {} if roots is None else roots
        self._in_order: list[Stream] | None = None
        self.form = form  # of all nodes; None if there are none

    def __getitem__(self, index: Any) -> Any:
        return self._ordered()[index]

    def __len__(self) -> int:
        return len(self._ordered())

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._ordered())

    def _ordered(self) -> list[Stream]:
        if self._in_order is None:
            streams = (stream for root in self._roots.values() for stream in _streams(root.tree))
            self._in_order = sorted(streams, key=lambda stream: stream.key)
        return self._in_order

    def with_stream(self, stream: Stream, audit: GrowingSample) -> tuple["Shards", GrowingSample]:
        """Add a stream and collapse groups that are now complete; the audit sample gets the buffers of these."""
        key, fan_in = stream.key, stream.config.fan_in
        height, tree = self._roots.get((key.seed, key.generation), _Root())
        while height < key.height or first_shard(key, fan_in) >= fan_in**height:
            height, tree = height + 1, None if tree is None else {0: tree}
        tree, audit = _with_stream(tree, height, stream, audit)
        roots = self._roots | {(key.seed, key.generation): _Root(height, tree)}
        return Shards(roots, self.form or stream.form), audit


def _streams(tree: Tree) -> Iterator[Stream]:
    if isinstance(tree, Stream):
        yield tree
    elif tree is not None:
        for part in tree.values():
            yield from _streams(part)


def _with_stream(tree: Tree, height: int, stream: Stream, audit: GrowingSample) -> tuple[Tree, GrowingSample]:
    """Tree of a height with one more stream, and the audit sample with the buffers of streams that were collapsed."""
    key, fan_in = stream.key, stream.config.fan_in
    if isinstance(tree, Stream) or (height == key.height and tree is not None):
        shard = min((key, next(_streams(tree)).key), key=lambda one: one.height).number
        raise InputError(
            f"Both summaries hold shard {shard} of the same seed: nodes would count twice, or share "
            "random numbers. Read one of the parts again with another shard number (--shard)."
        )
    if height == key.height:
        return stream, audit
    number = key.number // fan_in ** (height - 1 - key.height) % fan_in
    part, audit = _with_stream(tree and tree.get(number), height - 1, stream, audit)
    parts = {**(tree or {}), number: part}
    if key.generation or len(parts) < fan_in or not all(isinstance(each, Stream) for each in parts.values()):
        return parts, audit
    group = with_small_joined([parts[i] for i in range(fan_in)])
    return collapse(group), with_buffers(group, audit)


def merge_streams(
    streams: Sequence[Stream], more: Iterable[Stream], audit: GrowingSample
) -> tuple["Shards", GrowingSample]:
    """All streams, with complete groups of neighbors collapsed, and the audit sample with their buffers.

    Which groups are complete does not depend on the order of merges, so neither does the result.
    """
    shards = streams if isinstance(streams, Shards) else Shards()
    for stream in [*(() if shards is streams else streams), *more]:
        shards, audit = shards.with_stream(stream, audit)
    return shards, audit


def form_of(streams: Sequence[Stream]) -> Form | None:
    """Form of the nodes of several streams; None if there are none."""
    if isinstance(streams, Shards):
        return streams.form
    return next((form for stream in streams if (form := stream.form) is not None), None)


def first_shard(key: ShardKey, fan_in: int) -> int:
    """Smallest shard number of a stream or block."""
    return int(key.number * fan_in**key.height)
