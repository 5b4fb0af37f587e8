"""Window: a summary of the last periods of a stream."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from probi import _parallel
from probi._notes import counted
from probi._types import Mask
from probi.errors import InputError
from probi.nodes import Nodes, as_nodes
from probi.summary import Summary
from probi.summary.config import Configured, SummaryConfig
from probi.summary.periods import MOST, Periods
from probi.summary.stream import ShardKey
from probi.validation import check_count

# Every fan-in of merges (2 or 4) divides powers of this, so that groups of shards are groups of consecutive periods.
FAN_IN = 4


class _State(NamedTuple):
    """All mutable state in one tuple, so that it is replaced atomically."""

    summaries: dict[int, Summary]  # by period number; none for periods without nodes
    latest: int | None = None  # number of the latest period seen
    n_late: int = 0
    n_ahead: int = 0
    n_features: int | None = None


class Window(Configured):
    """Summaries of the last periods of a stream, such as the last 24 hours.

    Keeps one :class:`Summary` per period: periods older than ``n_periods`` are dropped when a new one begins, and the
    others are merged on request. Memory is that of ``n_periods`` summaries.

    Parameters
    ----------
    period : int, float, timedelta or timedelta64
        Length of a period, in the unit of the times passed to :meth:`update`. Periods begin at its multiples; for
        dates, counted from the beginning of 1970, UTC.
    n_periods : int
        How many periods count, including the latest, which may not be over.
    n_clusters : int, default=8
        Largest number of clusters to solve for later.
    max_ahead : int, default=None
        How many periods a node may be ahead of the latest one. Nodes further ahead are skipped: they are counted in
        ``n_ahead``, with a warning. So one wrong clock does not empty the window. None means ``n_periods``; a large
        number such as 10**9 sets no limit.
    **summary
        Parameters of the summaries: ``size``, ``preset``, ``random_state``,
        ``max_realizations``, ``epsilon``, ``delta`` and ``audit_size``, as in :class:`Summary`. The same seed gives the
        same bytes, for any split of the stream into batches and any number of threads.

    Attributes
    ----------
    period : int, float or timedelta64
        Length of a period.
    n_periods, n_clusters, size, preset, max_realizations
        As given.
    max_ahead : int
        How many periods a node may be ahead of the latest one.
    n_nodes : int
        Nodes in the periods that count.
    n_late : int
        Nodes skipped because their period no longer counted.
    n_ahead : int
        Nodes skipped because they were more than ``max_ahead`` periods ahead.
    start : int, float, datetime64 or None
        First time that counts; None before the first node.
    stop : int, float, datetime64 or None
        End of the latest period, exclusive; None before the first node.

    See Also
    --------
    Summary : Summarizes the whole stream; its method ``scale`` fades the past instead.

    Notes
    -----
    The times of nodes determine the latest period: there is no clock. :meth:`advance` moves the window when no nodes
    arrive; it is required after a gap of more than ``max_ahead`` periods, or all later nodes are skipped. The time of
    the first node is always accepted, unless :meth:`advance` was called before.

    Examples
    --------
    Sensor readings of one day, with a window of three hours; the sensors move at noon:

    >>> import numpy as np
    >>> import probi
    >>> rng = np.random.default_rng(0)
    >>> window = probi.Window(np.timedelta64(1, "h"), 3, n_clusters=2, random_state=0)
    >>> for minute in range(24 * 60):
    ...     locations = (0, 8) if minute < 720 else (20, 30)
    ...     readings = rng.choice(locations, size=(10, 1, 1)) + rng.normal(size=(10, 5, 2))
    ...     time = np.datetime64("2026-03-01T00:00") + np.timedelta64(minute, "m")
    ...     window.update(probi.Nodes.from_dense(readings), time)
    >>> window
    Window(1,800 nodes in 3 of 3 periods of 1 hour, 0 late, up to 2 clusters, coreset of 400)
    >>> window.start, window.stop
    (np.datetime64('2026-03-01T21:00:00'), np.datetime64('2026-03-02T00:00:00'))
    >>> result = probi.solve(window.summary(), 2, random_state=0)
    >>> np.sort(result.centers, axis=0).round()
    array([[20., 20.],
           [30., 30.]])
    """

    def __init__(
        self, period: Any, n_periods: int, *, n_clusters: int = 8, max_ahead: int | None = None, **summary: Any
    ) -> None:
        config = SummaryConfig.taken_from(n_clusters, summary)
        if summary:
            raise TypeError(f"Window() got an unexpected keyword argument {next(iter(summary))!r}")
        periods = Periods.checked(period)
        self._set(periods, *_checked(periods, n_periods, max_ahead), config, _State({}))

    def _set(self, periods: Periods, n_periods: int, max_ahead: int, config: SummaryConfig, state: _State) -> Self:
        self._periods, self._n_periods, self._max_ahead = periods, n_periods, max_ahead
        self._config, self._state = config, state
        # Merged summaries by number of periods; cleared by the next update.
        self._cache: dict[int, Summary] = {}
        self._lock = _parallel.Lock()
        return self

    # -- reading ----------------------------------------------------------------------------------------------------

    def update(self, nodes: Nodes | ArrayLike, time: Any) -> None:
        """Read nodes with one time, or one time per node.

        A time may be in any period that still counts. Nodes of older periods are skipped and counted in ``n_late``.
        Nodes more than ``max_ahead`` periods ahead of all earlier ones are skipped and counted in ``n_ahead``, with a
        warning. If it fails, even because the warning is turned into an error, the window does not change.

        Parameters
        ----------
        nodes : Nodes or array-like
            Nodes that are kept are copied, with their ids as in :meth:`Summary.update`; arrays as in
            :func:`probi.solve`.
        time : number, datetime, datetime64, or array of shape (n_nodes,)
            One time for all, or one per node, in the order of arrival. Dates without a time zone are UTC.

        Examples
        --------
        >>> import probi
        >>> window = probi.Window(10.0, n_periods=3, n_clusters=1)
        >>> window.update(probi.Nodes.from_points([[1.0], [2.0], [3.0]]), [0.0, 12.5, 31.0])
        >>> window.update(probi.Nodes.from_points([[4.0], [5.0]]), 18.0)
        >>> window.update(probi.Nodes.from_points([[6.0]]), 9.0)
        >>> window
        Window(4 nodes in 2 of 3 periods of 10.0, 1 late, up to 1 cluster, coreset of 200)

        A clock that is years ahead:

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     window.update(probi.Nodes.from_points([[7.0]]), 1e9)
        >>> window.n_nodes, window.n_ahead
        (4, 1)
        """
        nodes = as_nodes(nodes)
        numbers = self._periods.numbers(time)
        if numbers.shape not in ((), (len(nodes),)):
            raise InputError(f"Times have shape {numbers.shape}, but there are {len(nodes)} nodes.")
        with self._lock():
            if len(nodes) == 0:
                return
            n_features = self._state.n_features
            if n_features not in (None, nodes.n_features):
                raise InputError(
                    f"Nodes have {counted(nodes.n_features, 'feature')}, "
                    f"but the window has read nodes with {n_features}."
                )
            self._read(nodes, np.broadcast_to(numbers, len(nodes)))

    def _read(self, nodes: Nodes, numbers: Any) -> None:
        """Update the summaries of the nodes' periods, and switch to the new state."""
        state = self._state
        # Each node is compared with those before it, so the split into batches does not matter.
        ahead = _ahead(numbers, state.latest, self.max_ahead)
        n_ahead = int(ahead.sum())
        if n_ahead:
            self._warn_of_nodes_ahead()
            nodes, numbers = nodes[~ahead], numbers[~ahead]
        if len(nodes) == 0:
            self._state = state._replace(n_ahead=state.n_ahead + n_ahead)
            return
        latest = np.maximum.accumulate(numbers if state.latest is None else np.maximum(numbers, state.latest))
        newest = int(latest[-1])
        counting = self._counting(state.summaries, newest)
        present = [int(number) for number in np.unique(numbers) if number > newest - self.n_periods]
        n_late = state.n_late + int((numbers <= latest - self.n_periods).sum())
        after = _State(counting, newest, n_late, state.n_ahead + n_ahead, nodes.n_features)
        self._cache = {}
        n_before = None
        try:
            for number in present:
                summary = counting[number] if number in counting else self._new_summary(number)
                # Several periods are updated on copies, so that all of them read their nodes, or none.
                counting[number] = summary if len(present) == 1 else summary.__copy__()
                n_before = summary.n_nodes
                own = numbers == number
                counting[number].update(nodes if own.all() else nodes[own])
            self._state = after
        except BaseException:
            # A single summary, which is no copy, may have read its nodes before an interrupt.
            if len(present) == 1 and n_before is not None and counting[present[0]].n_nodes > n_before:
                self._state = after
            raise

    def _warn_of_nodes_ahead(self) -> None:
        # Without the nodes' times: Python then shows the warning only once per line of the caller.
        warnings.warn(
            f"Nodes more than {self.max_ahead:,} periods ahead of the window are skipped (n_ahead counts them). If "
            "their times are right, call advance(time) first, or use a larger max_ahead.",
            stacklevel=4,
        )

    def advance(self, time: Any) -> None:
        """Move the window to a time without reading nodes; periods that no longer count are dropped.

        Parameters
        ----------
        time : number, datetime or datetime64
            The current time, however far ahead. One before the latest changes nothing.

        Examples
        --------
        >>> import probi
        >>> window = probi.Window(10, n_periods=3, n_clusters=1)
        >>> window.update(probi.Nodes.from_points([[1.0]]), 5)
        >>> window.advance(40)
        >>> window.n_nodes, window.start, window.stop
        (0, 20, 50)
        """
        number = self._periods.numbers(time)
        if number.shape != ():
            raise InputError(f"advance takes one time, got an array of shape {number.shape}.")
        with self._lock():
            state = self._state
            latest = int(number) if state.latest is None else max(int(number), state.latest)
            self._cache = {}
            self._state = state._replace(summaries=self._counting(state.summaries, latest), latest=latest)

    def _counting(self, summaries: dict[int, Summary], latest: int) -> dict[int, Summary]:
        """The summaries that count, given the latest period."""
        return {number: summary for number, summary in summaries.items() if number > latest - self.n_periods}

    def _new_summary(self, number: int) -> Summary:
        return Summary.from_config(self._config.for_shard(_shard(number, self.n_periods)))

    # -- results ----------------------------------------------------------------------------------------------------

    def summary(self, last: int | None = None) -> Summary:
        """Summary of the nodes of the last periods.

        A copy: changing it does not change the window.

        Parameters
        ----------
        last : int, default=None
            How many periods, including the latest; at most ``n_periods``. None: all that count.

        Returns
        -------
        Summary
            For :func:`probi.solve`. It does not depend on the split of the stream into batches.

        Examples
        --------
        >>> import probi
        >>> window = probi.Window(10, n_periods=3, n_clusters=1)
        >>> window.update(probi.Nodes.from_points([[1.0], [2.0], [3.0]]), [5, 15, 25])
        >>> window.summary().n_nodes, window.summary(last=1).n_nodes
        (3, 1)
        """
        if last is None:
            last = self.n_periods
        check_count("last", last)
        if last > self.n_periods:
            raise InputError(f"last is {last}, but the window has only {self.n_periods} periods.")
        with self._lock():
            if last not in self._cache:
                self._cache[last] = self._merge(int(last))
            return self._cache[last].__copy__()

    def _merge(self, last: int) -> Summary:
        summaries, latest = self._state.summaries, self._state.latest
        chosen = sorted(number for number in summaries if latest is not None and number > latest - last)
        if not chosen:
            return self._new_summary(0 if latest is None else latest)
        merged = summaries[chosen[0]].__copy__()
        for number in chosen[1:]:
            merged.merge(summaries[number])
        return merged

    @property
    def period(self) -> Any:
        """Length of a period."""
        return self._periods.length

    @property
    def n_periods(self) -> int:
        """How many periods count."""
        return self._n_periods

    @property
    def n_nodes(self) -> int:
        """Nodes in the periods that count."""
        return sum(summary.n_nodes for summary in self._state.summaries.values())

    @property
    def n_late(self) -> int:
        """Nodes skipped because their period no longer counted."""
        return self._state.n_late

    @property
    def max_ahead(self) -> int:
        """How many periods a node may be ahead of the latest one."""
        return self._max_ahead

    @property
    def n_ahead(self) -> int:
        """Nodes skipped because they were more than ``max_ahead`` periods ahead."""
        return self._state.n_ahead

    @property
    def start(self) -> Any:
        """First time that counts; None before the first node."""
        latest = self._state.latest
        return None if latest is None else self._periods.start(latest - self.n_periods + 1)

    @property
    def stop(self) -> Any:
        """End of the latest period; None before the first node."""
        latest = self._state.latest
        return None if latest is None else self._periods.start(latest + 1)

    def __repr__(self) -> str:
        ahead = f", {self.n_ahead:,} too far ahead" if self.n_ahead else ""
        return (
            f"Window({counted(self.n_nodes, 'node')} in {len(self._state.summaries):,} of {self.n_periods:,} periods "
            f"of {self._periods}, {self.n_late:,} late{ahead}, up to {counted(self.n_clusters, 'cluster')}, "
            f"{self._config.coresets.description})"
        )

    # -- copies and files -------------------------------------------------------------------------------------------

    def __copy__(self) -> Window:
        with self._lock():
            copies = {number: summary.__copy__() for number, summary in self._state.summaries.items()}
            state = self._state._replace(summaries=copies)
            return Window.__new__(Window)._set(self._periods, self._n_periods, self._max_ahead, self._config, state)

    def to_bytes(self) -> bytes:
        """The window as the bytes of an Arrow IPC file; the same state gives the same bytes.

        Returns
        -------
        bytes
            For :meth:`from_bytes`.

        Examples
        --------
        >>> import probi
        >>> window = probi.Window(10, n_periods=3, n_clusters=1)
        >>> probi.Window.from_bytes(window.to_bytes())
        Window(0 nodes in 0 of 3 periods of 10, 0 late, up to 1 cluster, coreset of 200)
        """
        from probi.summary import file

        with self._lock():
            counts = self._state._asdict()
            summaries = {period: summary._saved() for period, summary in counts.pop("summaries").items()}
            window = {
                "period": self._periods.to_json(),
                "n_periods": self.n_periods,
                "max_ahead": self.max_ahead,
                "seed": self._config.seed,
                **counts,
            }
            return file.to_bytes(self._config, summaries, window)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Window from :meth:`to_bytes`; damaged, foreign or newer bytes raise an error. Never executes code.

        Parameters
        ----------
        data : bytes
            Output of :meth:`to_bytes`.

        Returns
        -------
        Window
            The saved window.

        Examples
        --------
        >>> import probi
        >>> window = probi.Window(10, n_periods=3, n_clusters=1)
        >>> probi.Window.from_bytes(window.to_bytes()).period
        10
        """
        from probi.summary import file

        config, window, states = file.from_bytes(bytes(data), "window")
        with file.refusing("window"):
            shared = SummaryConfig(**config, seed=window["seed"])
            periods = Periods.from_json(window["period"])
            n_periods, max_ahead = _checked(periods, window["n_periods"], window["max_ahead"])
            counts = (("seed", 0), ("n_late", 0), ("n_ahead", 0), ("latest", -periods.most), ("n_features", 1))
            for name, least in counts:
                if window[name] is not None or name not in ("latest", "n_features"):  # None before the first node
                    check_count(name, window[name], least)
            if window["latest"] is not None and window["latest"] > periods.most:
                raise InputError(f"Not a valid probi window: its latest period is {window['latest']}.")
            summaries = {period: Summary.__new__(Summary)._set(*state) for period, state in states.items()}
            for period, summary in summaries.items():
                _check_belongs(summary, period, shared, window)
            state = _State(summaries, *(window[name] for name in _State._fields[1:]))
            return cls.__new__(cls)._set(periods, n_periods, max_ahead, shared, state)


def _checked(periods: Periods, n_periods: Any, max_ahead: Any) -> tuple[int, int]:
    """Numbers of periods that count, and that a node may be ahead."""
    max_ahead = n_periods if max_ahead is None else max_ahead
    for name, value in (("n_periods", n_periods), ("max_ahead", max_ahead)):
        check_count(name, value)
    if n_periods > periods.most:
        raise InputError(f"n_periods is {n_periods}, which exceeds the limit of {periods.most}.")
    return int(n_periods), min(int(max_ahead), 2 * MOST)  # no two periods are farther apart


def _ahead(numbers: Any, latest: int | None, max_ahead: int) -> Mask:
    """Which nodes are too far ahead of all accepted nodes before them."""
    ahead = np.zeros(len(numbers), bool)
    limit = max_ahead + (int(numbers[0]) if latest is None else latest)
    if numbers.max() > limit:
        for i, number in enumerate(numbers.tolist()):
            ahead[i] = number > limit
            limit = limit if ahead[i] else max(limit, number + max_ahead)
    return ahead


def _shard(number: int, n_periods: int) -> int:
    """Shard number of a period: different for all periods that count at the same time."""
    n_shards = 1
    while n_shards < n_periods:
        n_shards *= FAN_IN
    return number % n_shards


def _check_belongs(summary: Summary, number: int, config: SummaryConfig, header: dict[str, Any]) -> None:
    """Raise unless a summary belongs to a period of this window."""
    key = ShardKey(_shard(number, header["n_periods"]), 0, 0, header["seed"])
    fits = summary._config.shared == config.shared and [stream.key for stream in summary._streams] == [key]
    if not fits or not header["latest"] - header["n_periods"] < number <= header["latest"]:
        raise InputError(f"Not a valid probi window: period {number} does not belong to it.")
    if summary.n_features not in (None, header["n_features"]):
        raise InputError(f"Not a valid probi window: period {number} has other features.")
