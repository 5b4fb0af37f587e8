"""All that shapes a summary, checked in one place; and what summaries and windows share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from probi._files import Location, as_path, write_atomically
from probi.errors import InputError

if TYPE_CHECKING:
    from probi.coreset.importance import Preset

# Nodes in the audit sample. The standard error of a cost on Covertype is then 1.7 % of it (2,000: 1.9 %).
AUDIT_SIZE = 2500

# Times ``size``: nodes that a leaf has at most, unless they have few coordinates.
USUAL_LEAF = 16

# Of the parameters that count something: more than any memory holds, while a forged file may state any number.
LARGEST_COUNT = 1 << 40


def option_field(default: Any, help: str, **more: Any) -> Any:
    """A field of a dataclass that is an option of the command line: its help, and how typer shows and limits it."""
    return field(default=default, metadata={"help": help, **more})


@dataclass(frozen=True)
class SummaryConfig:
    """Parameters of a summary, as in :class:`probi.Summary`, checked and with defaults filled in.

    Engines, windows and the command line pass it on as a whole; nothing else shapes a summary. The metadata of a field
    describe its command-line option.
    """

    n_clusters: int
    size: int | None = option_field(
        None, "Nodes in the summary; default 200 per cluster. More nodes are more accurate.", metavar="NODES"
    )
    preset: str = option_field("default", "default, paper (PROBI as published) or theory.", metavar="PRESET")
    seed: int = option_field(0, "Seed; the same one gives the same bits.", metavar="N", min=0)
    shard: int = option_field(0, "Number of this part of the data, for probi merge.", metavar="N", min=0)
    max_realizations: int | None = option_field(
        None, "Thin nodes to at most N realizations on arrival; the standard error includes it.", metavar="N", min=1
    )
    epsilon: float | None = option_field(None, "With --preset theory: the largest relative error.", metavar="SHARE")
    delta: float | None = option_field(None, "With --preset theory: probability of a larger error.", metavar="SHARE")
    audit_size: int = option_field(AUDIT_SIZE, "Nodes from which costs are estimated.", metavar="NODES", min=1)

    # Nodes per leaf at most, coresets of one level that become one of the next, the level from which on each joins the
    # one that is there, and leaves of large nodes that join one coreset; 0: as in the preset. Coordinates per leaf, at
    # which it ends with fewer nodes (short_leaves); 0: any number, None: as in the preset. Saved in the file, so that a
    # summary continues as it began even if a later version has other defaults.
    leaf: int = 0
    fan_in: int = 0
    joining_level: int = 0
    leaves_joined: int = 0
    leaf_coordinates: int | None = None

    def __post_init__(self) -> None:
        # Imported here: the command line reads the fields above, and its --help must not load kernels.
        from probi.coreset import PRESETS
        from probi.validation import check_count

        counts = {entry.name: entry.metadata["min"] for entry in fields(self) if "min" in entry.metadata}
        for name, least in {"n_clusters": 1, **counts}.items():
            value = getattr(self, name)
            if value is not None or name != "max_realizations":
                check_count(name, value, least=least)
                object.__setattr__(self, name, int(value))
        preset: Any = self.preset
        if not isinstance(preset, str) or preset not in PRESETS:
            raise InputError(f"preset is {self.preset!r}, but must be one of {', '.join(PRESETS)}.")
        coresets = self.coresets
        object.__setattr__(self, "size", None if self.size is None and self.epsilon is not None else coresets.size)
        if self.leaf_coordinates is None:
            object.__setattr__(self, "leaf_coordinates", coresets.leaf_coordinates)
        check_count("leaf_coordinates", self.leaf_coordinates, least=0)
        for name, least in (("leaf", self.min_leaf), ("fan_in", 2), ("joining_level", 1), ("leaves_joined", 2)):
            value = getattr(self, name) or getattr(coresets, name)
            check_count(name, value, least=least)
            object.__setattr__(self, name, int(value))
        for name, value in self.shared.items():
            if isinstance(value, int) and value > LARGEST_COUNT:
                raise InputError(f"{name} must be at most {LARGEST_COUNT:,}: no memory holds more.")

    @classmethod
    def taken_from(cls, n_clusters: Any, options: dict[str, Any]) -> SummaryConfig:
        """Remove the parameters of a summary from options; ``random_state`` gives the seed."""
        from probi.validation import seed_of

        seed = seed_of(options.pop("random_state", None))
        names = {entry.name for entry in fields(cls)} - {"n_clusters", "seed"}
        return cls(n_clusters, seed=seed, **{name: options.pop(name) for name in names & options.keys()})

    @cached_property
    def coresets(self) -> Preset:
        """How coresets are built, and their size."""
        from probi.coreset import PRESETS

        return PRESETS[self.preset].of(self.n_clusters, self.size, self.epsilon, self.delta)

    @property
    def min_leaf(self) -> int:
        """Nodes per leaf at least."""
        return self.coresets.size * 3 // 2

    @property
    def short_leaves(self) -> tuple[tuple[int, int], ...]:
        """Numbers of nodes and of coordinates at which a leaf ends before it has all its nodes."""
        coordinates = self.leaf_coordinates
        if not coordinates:
            return ()
        usual = min(self.leaf, USUAL_LEAF * self.coresets.size)
        half = max(self.min_leaf, usual // 2)
        return (self.min_leaf, coordinates), (half, coordinates // 4), (usual, coordinates // 16)

    def expected_leaf(self, coordinates_per_node: float) -> int:
        """Nodes of a leaf of such nodes."""
        n = self.leaf
        for least, coordinates in self.short_leaves:
            n = min(n, max(least, math.ceil(coordinates / coordinates_per_node)))
        return n

    def is_wide(self, n_coordinates: float) -> bool:
        """Whether the nodes of a leaf have many coordinates: it ended because of them, with few nodes."""
        return 0 < (self.leaf_coordinates or 0) <= n_coordinates

    def for_shard(self, shard: int) -> SummaryConfig:
        """The same config for another part of the data."""
        return replace(self, shard=shard)

    @cached_property
    def shared(self) -> dict[str, Any]:
        """Parameters that summaries must share to be merged: all but seed and shard."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name not in ("seed", "shard")}


class Configured(ABC):
    """What summaries and windows share: parameters, copies, bytes and files."""

    _config: SummaryConfig

    @property
    def n_clusters(self) -> int:
        """Largest number of clusters to solve for."""
        return self._config.n_clusters

    @property
    def size(self) -> int:
        """Nodes in the coreset."""
        return self._config.coresets.size

    @property
    def preset(self) -> str:
        """Variant of PROBI: "default", "paper" or "theory"."""
        return self._config.preset

    @property
    def max_realizations(self) -> int | None:
        """Largest number of realizations kept per node; None keeps all."""
        return self._config.max_realizations

    @abstractmethod
    def to_bytes(self) -> bytes:
        """The state as bytes."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore the state from bytes."""

    @abstractmethod
    def __copy__(self) -> Self: ...

    def __deepcopy__(self, _: Any) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def save(self, path: Location) -> None:
        """Write the state to an Arrow IPC file.

        The file is replaced atomically: a crash or a full disk leaves the old one intact.

        Parameters
        ----------
        path : str or path-like
            Path of the file, or a URL such as ``s3://bucket/monday.probi``.

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
        write_atomically(as_path(path), self.to_bytes())

    @classmethod
    def load(cls, path: Location) -> Self:
        """Restore the state from a file that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path-like
            Path of the file, or a URL.

        Returns
        -------
        Summary or Window
            What was saved.

        Examples
        --------
        >>> import tempfile
        >>> import probi
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     probi.Window(10, n_periods=3).save(f"{folder}/last.window")
        ...     probi.Window.load(f"{folder}/last.window").n_periods
        3
        """
        opened = as_path(path)
        try:
            return cls.from_bytes(opened.read_bytes())
        except InputError as error:
            raise InputError(f"{opened}: {error}") from None
