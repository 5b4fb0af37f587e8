"""Streams of a summary by shard number.

A tree in which fan_in neighbors meet at each height. One more stream changes only its path to the root, so a merge
takes a time that grows with the logarithm of the number of streams.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from probi.errors import InputError
from probi.summary.audit import AuditSample
from probi.summary.buffer import Form
from probi.summary.stream import ShardKey, Stream, collapse, with_buffers

# None, a stream or block, or trees of neighbors by their number among fan_in of them. Never changes.
Tree = Any


class _Root(NamedTuple):
    """Tree of all shards below fan_in ** height with one seed and generation."""

    height: int = 0
    tree: Tree = None


class Shards(Sequence[Stream]):
    """Streams with any keys, in the order of these. Never changes."""

    def __init__(self, roots: dict[tuple[int, int], _Root] | None = None) -> None:
        self._roots = {} if roots is None else roots
        self._in_order: list[Stream] | None = None

    def __getitem__(self, index: Any) -> Any:
        return self._ordered()[index]

    def __len__(self) -> int:
        return len(self._ordered())

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._ordered())

    def _ordered(self) -> list[Stream]:
        if self._in_order is None:
            self._in_order = sorted(self.in_any_order(), key=lambda stream: stream.key)
        return self._in_order

    def in_any_order(self) -> Iterator[Stream]:
        """Streams, without sorting them all."""
        for root in self._roots.values():
            yield from _streams(root.tree)

    def with_stream(self, stream: Stream, audit: AuditSample) -> tuple["Shards", AuditSample]:
        """Add a stream and collapse groups that are now complete; the audit sample gets the buffers of these."""
        key, fan_in = stream.key, stream.config.fan_in
        height, tree = self._roots.get((key.seed, key.generation), _Root())
        while height < key.height or first_shard(key, fan_in) >= fan_in**height:
            height, tree = height + 1, None if tree is None else {0: tree}
        tree, audit = _with_stream(tree, height, stream, audit)
        return Shards(self._roots | {(key.seed, key.generation): _Root(height, tree)}), audit


def _streams(tree: Tree) -> Iterator[Stream]:
    if isinstance(tree, Stream):
        yield tree
    elif tree is not None:
        for part in tree.values():
            yield from _streams(part)


def _with_stream(tree: Tree, height: int, stream: Stream, audit: AuditSample) -> tuple[Tree, AuditSample]:
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
    group = [parts[i] for i in range(fan_in)]
    return collapse(group), with_buffers(group, audit)


def merge_streams(
    streams: Sequence[Stream], more: Iterable[Stream], audit: AuditSample
) -> tuple[Sequence[Stream], AuditSample]:
    """All streams, with complete groups of neighbors collapsed, and the audit sample with their buffers.

    Which groups are complete does not depend on the order of merges, so neither does the result.
    """
    shards = streams if isinstance(streams, Shards) else Shards()
    for stream in [*(() if shards is streams else streams), *more]:
        shards, audit = shards.with_stream(stream, audit)
    return shards, audit


def form_of(streams: Sequence[Stream]) -> Form | None:
    """Form of the nodes of several streams; None if there are none."""
    some = streams.in_any_order() if isinstance(streams, Shards) else streams
    return next((stream.form for stream in some if stream.form is not None), None)


def first_shard(key: ShardKey, fan_in: int) -> int:
    """Smallest shard number of a stream or block."""
    return int(key.number * fan_in**key.height)
