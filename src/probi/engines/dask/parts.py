"""Dask collections and files as one delayed result per part."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
from dask.delayed import Delayed, delayed

from probi.engines.tasks import Files, Frame, Summarize, Task, n_first, reader_of
from probi.errors import InputError
from probi.nodes import Nodes
from probi.tables.to_arrays import in_order_of_ids
from probi.validation import check_count


def parts_of(source: Any, task: Any, part_bytes: int, reading: dict[str, Any]) -> list[Delayed]:
    """Result of a task for each part of the source."""
    if isinstance(source, dd.DataFrame):
        return parts_of_frame(source, how_to_read(source, reading), task)
    if isinstance(source, da.Array):
        blocks = Blocks(source, reading)
        cells = blocks.array.to_delayed().reshape(-1)
        return [
            named_call("summarize", _summarize_block, task, cell, blocks.group_size, number)
            for number, cell in enumerate(cells)
        ]
    if isinstance(source, db.Bag):
        check_bag(reading)
        return [
            named_call("summarize", _summarize_nodes, task, part, number)
            for number, part in enumerate(source.to_delayed())
        ]
    return parts_of_files(Files.of(reader_of(source, reading), part_bytes), task)


def check_bag(reading: dict[str, Any]) -> None:
    """Raise on reading options, which do not apply to a Bag."""
    if reading:
        raise InputError(f"A Bag of Nodes takes no reading options, got {', '.join(reading)}.")


def parts_of_files(files: Files, task: Task, numbers: Iterable[int] | None = None) -> list[Delayed]:
    """Result of a task for each part of some files, or for the parts with these numbers."""
    shared = delayed(files, pure=True)
    return [
        named_call(_task_name(task), Files.run, shared, task, number)
        for number in (range(len(files.parts)) if numbers is None else numbers)
    ]


def _task_name(task: Task) -> str:
    return "summarize" if isinstance(task, Summarize) else "assign"


def named_call(what: str, function: Callable[..., Any], *arguments: Any) -> Delayed:
    """Delayed call of a function, under the name the dashboard shows."""
    call = delayed(function, name=f"probi-{what}-{dask.base.tokenize(function)}", pure=True)
    name = f"probi-{what}-{dask.base.tokenize(function, *arguments)}"
    return call(*arguments, dask_key_name=name)


def _summarize_nodes(task: Summarize, batches: Iterable[Nodes], number: int) -> bytes:
    return task.of_nodes(batches, number)


# -- arrays -----------------------------------------------------------------------------------------------------------


class Blocks:
    """An array chunked along its first axis only, and between groups of rows."""

    def __init__(self, array: da.Array, reading: dict[str, Any]) -> None:
        unknown = [name for name in reading if name not in ("group_size", "layout")]
        if unknown:
            raise InputError(f"An Array takes no option {unknown[0]}: use a DataFrame for that.")
        if array.ndim not in (2, 3):
            raise InputError(f"An Array of nodes must have 2 or 3 dimensions, got {array.ndim}.")
        self.group_size = 1
        if reading.get("group_size") is not None:
            check_count("group_size", reading["group_size"])
            self.group_size = int(reading["group_size"])
        layouts = (None, "nested") if array.ndim == 3 else (None, "groups" if "group_size" in reading else "points")
        if reading.get("layout") not in layouts:
            raise InputError(f"This Array has the layout {layouts[1]!r}, not {reading['layout']!r}.")
        if array.ndim == 3 and self.group_size > 1:
            raise InputError("group_size is for an Array of rows; this one has nodes along its first axis.")
        if np.isnan(array.shape[0]):
            array = array.compute_chunk_sizes()
        rows = list(array.chunks[0])
        if len(array) % self.group_size:
            raise InputError(f"{len(array):,} rows are not a multiple of group_size {self.group_size}.")
        ends = np.unique(-(-np.cumsum(rows) // self.group_size) * self.group_size)
        chunks = tuple(int(n) for n in np.diff(ends, prepend=0))
        self.array = array.rechunk((chunks, *((-1,) * (array.ndim - 1))))


def nodes_of_block(block: Any, group_size: int) -> Nodes:
    """Nodes of a block of :class:`Blocks`."""
    if block.ndim == 3:
        return Nodes.from_dense(block)
    return Nodes.from_groups(block, group_size) if group_size > 1 else Nodes.from_points(block)


def _summarize_block(task: Summarize, block: Any, group_size: int, number: int) -> bytes:
    try:
        return task.of_nodes([nodes_of_block(block, group_size)], number)
    except InputError as error:
        raise InputError(f"partition {number}: {error}") from None


# -- data frames ------------------------------------------------------------------------------------------------------


def how_to_read(frame: Any, reading: dict[str, Any], space: Any = None) -> Frame:
    """Infer the roles of the columns from the first rows, and estimate scales from many."""
    wanted = n_first(reading)
    enough = wanted if space is None and wanted > n_first({}) else 1
    tables: list[pa.Table] = []
    for part in frame.to_delayed():
        n_rows = sum(map(len, tables))
        if n_rows >= enough:
            break
        (rows,) = dask.compute(delayed(_head)(part, wanted - n_rows))
        tables.append(_table(_with_text_names(rows)))
    return Frame.of(pa.concat_tables(tables, promote_options="permissive"), reading, space)


def _with_text_names(frame: Any) -> Any:
    """The same frame with text column names, as Arrow requires."""
    return frame.rename(columns=dict(zip(frame.columns, map(str, frame.columns), strict=True)))


def parts_of_frame(frame: Any, how: Frame, task: Task) -> list[Delayed]:
    """Result of a task for each partition of a DataFrame; no node is split between two of them."""
    columns = how.known.columns
    frame = _with_text_names(frame)[columns.used]
    if columns.layout == "long":
        # Rows of a node may be in several partitions, and a shuffle brings them in any order.
        # By tasks: other methods depend on the current client, or on a disk that all workers share.
        frame = frame.shuffle(on=list(columns.ids), npartitions=frame.npartitions, shuffle_method="tasks")
    parts = frame.to_delayed()
    tails: list[list[Delayed]] = [[] for _ in parts]
    skips = [0] * len(parts)
    if columns.layout == "groups":
        skips, tails = _borrow_rows(parts, columns.group_size or 1)
    shared = delayed(how, pure=True)
    return [
        named_call(_task_name(task), _run_on_frame, shared, task, number, part, skips[number], tails[number])
        for number, part in enumerate(parts)
    ]


def _borrow_rows(parts: Sequence[Delayed], group_size: int) -> tuple[list[int], list[list[Delayed]]]:
    """Per partition, the leading rows that belong to the one before, and the rows borrowed from those after."""
    lengths = dask.compute(*[delayed(len)(part) for part in parts])
    ends = np.cumsum(lengths)
    skips, tails = [], []
    for number, end in enumerate(ends):
        start = end - lengths[number]
        skip = min(int(-start % group_size), lengths[number])
        # A partition without the start of a group lends all its rows.
        wanted = 0 if skip == lengths[number] else int(-end % group_size)
        tail = []
        for after in range(number + 1, len(parts)):
            if wanted <= 0:
                break
            tail.append(delayed(_head)(parts[after], min(wanted, lengths[after])))
            wanted -= lengths[after]
        skips.append(skip)
        tails.append(tail)
    return skips, tails


def _head(frame: Any, n_rows: int) -> Any:
    return frame.iloc[:n_rows]


def _run_on_frame(how: Frame, task: Task, number: int, frame: Any, skip: int, tail: Sequence[Any]) -> bytes:
    def tables() -> Iterator[pa.Table]:
        table = pa.concat_tables([_table(part) for part in (frame.iloc[skip:], *tail)], promote_options="permissive")
        columns = how.known.columns
        yield in_order_of_ids(table, columns) if columns.layout == "long" else table

    return how.run(task, number, tables())


def _table(frame: Any) -> pa.Table:
    return pa.Table.from_pandas(frame, preserve_index=False)
