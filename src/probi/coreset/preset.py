"""A preset of a summary: how nodes are reduced to a coreset, and coresets to one."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from probi.errors import InputError
from probi.nodes import Nodes
from probi.validation import check_count

# Default number of nodes kept per cluster, as in the paper.
SIZE_PER_CLUSTER = 200

# With fewer nodes per cluster a summary is meaningless.
MIN_SIZE_PER_CLUSTER = 4


class Retained(NamedTuple):
    """What is kept of one stream.

    Attributes
    ----------
    coresets : list of Nodes
        Those of the highest level first.
    waiting : Nodes or None
        Nodes that do not fill a leaf yet.
    rng : Generator
        For the final coreset of this stream alone.
    """

    coresets: list[Nodes]
    waiting: Nodes | None
    rng: np.random.Generator

    @property
    def parts(self) -> list[Nodes]:
        """Coresets and waiting nodes."""
        return self.coresets if self.waiting is None else [*self.coresets, self.waiting]


@dataclass(frozen=True)
class Preset(ABC):
    """How coresets of ``size`` nodes are made for ``n_clusters`` clusters. Each subclass is one preset."""

    # The matching preset of the solver.
    solver: ClassVar[str] = "default"
    # Coresets of one level that are merged into one of the next.
    fan_in: ClassVar[int] = 4
    # Coordinates at which a leaf ends before it has all its nodes; 0: it does not.
    leaf_coordinates: ClassVar[int] = 0
    # Level from which on a coreset joins the one that is there, without waiting for a group of them.
    joining_level: ClassVar[float] = math.inf

    n_clusters: int
    size: int

    @classmethod
    def of(cls, n_clusters: int, size: Any, epsilon: Any, delta: Any) -> Self:
        """Return the preset for these parameters, or raise on those that make no sense; None means not given."""
        if epsilon is not None or delta is not None:
            raise InputError('epsilon and delta need preset="theory": only it gives a guarantee.')
        size = SIZE_PER_CLUSTER * n_clusters if size is None else size
        check_count("size", size)
        least = MIN_SIZE_PER_CLUSTER * n_clusters
        if size < least:
            raise InputError(f"A size of {size} is too small for {n_clusters} clusters: give at least {least}.")
        return cls(n_clusters, int(size))

    @property
    def leaf(self) -> int:
        """Nodes that become one coreset."""
        return self.fan_in * self.size

    @abstractmethod
    def reduce(self, parts: Sequence[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        """Choose weighted nodes that stand for those of all parts, of which at least one is not empty.

        The numbers identify this coreset among others of the same summary; the first is its level.
        """

    def reduce_if_larger(self, parts: list[Nodes], rng: np.random.Generator, *numbers: int) -> Nodes:
        """Nodes of all parts as they are if there are at most ``size`` of them, else a coreset."""
        if sum(len(part) for part in parts) <= self.size:
            return concat_nonempty(parts)
        return self.reduce(nonempty(parts), rng, *numbers)

    def block_level(self, n_levels: int) -> int:
        """Level of the coreset that replaces several streams with up to ``n_levels`` levels."""
        return 0

    def final_coreset(self, streams: Sequence[Retained], rng: np.random.Generator) -> Nodes:
        """One coreset of all that is kept of several streams."""
        return self.reduce_if_larger([nodes for stream in streams for nodes in stream.parts], rng)

    @property
    def description(self) -> str:
        """What it keeps, for people."""
        return f"coreset of {self.size:,}"


def nonempty(parts: list[Nodes]) -> list[Nodes]:
    """Drop empty parts (from leaves without mass), which have no medians; keep at least one."""
    return [part for part in parts if len(part)] or parts[:1]


def concat_nonempty(parts: list[Nodes]) -> Nodes:
    """Nodes of all parts."""
    return Nodes.concat(nonempty(parts))
