"""Read nodes from files in batches of bounded size, none of which splits a node."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa

from probi._files import as_path
from probi._parallel import prefetched
from probi.errors import InputError
from probi.io.formats.base import OpenOptions, Source, TableFile, find_sources, load_format, naming_errors, open_file
from probi.io.node_assembler import Batch, Counts, NodeAssembler, Position, check_left_out
from probi.io.options import Options
from probi.io.recent_ids import RecentIds
from probi.io.rows import FILE
from probi.io.transform import N_ESTIMATED, SCALES, Transform, read_scale
from probi.nodes import Nodes
from probi.tables.columns import Columns, choose_columns, kind_of
from probi.tables.to_arrays import check_inferred_points, float_dtype, repeated_id
from probi.validation import warn_of_rounding

# Files opened concurrently to compare their columns: on a remote file system this is mostly waiting.
MAX_OPEN = 8
# Bytes of a text file that are read to compare its columns.
FIRST_BYTES = 1 << 12


class ReaderInfo(NamedTuple):
    """What one reader has inferred about its files, so that another reader of them need not."""

    schema: Any
    columns: Columns
    dtype: str
    space: Transform
    open_options: tuple[OpenOptions, ...]  # of each file
    versions: tuple[Any, ...]  # of each file, to detect changes


def read(inputs: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **options: Any) -> Reader:
    r"""Open files of nodes; iterate over what is returned to get :class:`~probi.Nodes` in batches of bounded size.

    Parameters
    ----------
    inputs : str, path or several
        Files (Parquet, CSV, compressed CSV, Arrow IPC, NPY, NetCDF, Zarr, GRIB), folders, patterns such as
        ``part-*.parquet``, URLs of any of them such as ``s3://bucket/day/``, or "-" for standard input.
    **options
        How to read, each with a default:

        layout, features, id, probability, weight, group_size, probabilities
            As in :meth:`probi.Nodes.from_table`. Groups are counted from the start of each file.
        node, realization : sequence of str, default=None
            Of NetCDF, Zarr and GRIB, as in :meth:`probi.Nodes.from_xarray`; ``features`` then are variables, and
            ``weight`` may be "cos_latitude".
        id_per_file : bool, default=False
            Whether ids restart in each file: a node is then identified by the name of the file and its id.
        format : {"parquet", "csv", "ipc", "npy", "netcdf", "zarr", "grib"}, default=None
            None: by the name of each file.
        delimiter : str, default=None
            Of CSV. None: the most frequent candidate in the first line.
        header : bool, default=None
            Whether the first line of CSV holds names. None: unless all its cells are numbers.
        decimal : {".", ","}, default=None
            Decimal sign of CSV. None: a point.
        lonlat : (str, str), default=None
            Columns of longitude and latitude, which become points on a sphere, in kilometers.
        scale : {"none", "standard", "robust"} or path, default="none"
            Divide features by their standard deviation or by the distance between their quartiles, estimated from the
            first 100,000 realizations; or by the scales in a JSON file.
        missing : {"error", "skip-row", "skip-node", "absent"}, default="error"
            What to do with rows that lack a value: "skip-row" leaves out the row, "skip-node" its node. "absent" leaves
            out the realization and its probability: with 9 of 10 equally likely realizations, the node is present
            with probability 0.9.
        on_bad : {"stop", "skip"}, default="stop"
            What to do with rows that cannot be used; "skip" leaves out their nodes. Rows of a node that are not
            contiguous always raise an error.
        max_bad : float, default=0.1
            Largest share of rows that may be left out. The share is known only at the end: if it is larger, iterating
            raises an error after the last batch, and results computed from the batches should be discarded.
        gather : bool, default=False
            Gather rows of a node that are not contiguous, in memory.
        dtype : {"float32", "float64"}, default=None
            None: float32 where the types of the columns fit in it.
        max_node_rows : int, default=100000
            A node with more rows is an error.

    Returns
    -------
    Reader
        An iterable of :class:`~probi.Nodes`. Only the first rows have been read, to infer columns and types.

    Examples
    --------
    >>> import probi.io, tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "sensors.csv"
    >>> _ = path.write_text("id,x,y,p\na,0,0,0.5\na,1,0,0.5\nb,9,9,1\n")
    >>> reader = probi.io.read(path)
    >>> print(reader.columns)
    layout long (rows of a node share id); 2 features (x, y); probability p
    >>> probi.Nodes.concat(list(reader))
    Nodes(2 nodes, 3 realizations (1 to 2 per node), 2 features, float64, mass 2)
    >>> folder.cleanup()
    """
    return Reader(inputs, Options(**options))


class Reader:
    r"""Files of nodes; :func:`read` makes it.

    Parameters
    ----------
    inputs : str, path or several
        As in :func:`read`.
    options : Options
        Those of :func:`read`.
    known : ReaderInfo, default=None
        What another reader of the same files has inferred. None: open the first file.

    Attributes
    ----------
    sources : list
        Files, in the order in which they are read.
    columns : Columns
        Roles of the columns: prints as one line.
    space : Transform
        From features to coordinates and back; its scales are known after the first batch.
    counts : Counts
        What became of the rows that were iterated over: ``counts.left_out`` has the number of rows in no node, by
        reason.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import probi.io
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "points.csv"
    >>> _ = path.write_text("x,y\n0,1\n2,3\n4,5\n")
    >>> reader = probi.io.read(path)
    >>> summary = probi.Summary(2, random_state=0)
    >>> for nodes in reader:
    ...     summary.update(nodes)
    >>> summary.n_nodes, reader.space.features
    (3, ('x', 'y'))
    >>> folder.cleanup()
    """

    def __init__(self, inputs: Any, options: Options, known: ReaderInfo | None = None) -> None:
        self.options = options
        are_sources = isinstance(inputs, Sequence) and all(isinstance(entry, Source) for entry in inputs)
        self.sources: list[Source] = list(inputs) if are_sources and inputs else find_sources(inputs, options.format)
        self._first: TableFile | None = None
        self._versions = tuple(source.version for source in self.sources)
        self._must_match = known is not None
        open_options = OpenOptions(options.delimiter, options.header, options.decimal)
        if any(load_format(source.format).is_labeled for source in self.sources):
            open_options = replace(
                open_options, node=options.node, realization=options.realization, variables=options.features,
                weight=options.weight, missing=options.missing, is_scaled=options.scale != "none",
            )  # fmt: skip
        elif options.node or options.realization:
            raise InputError(
                f"node and realization (--node, --realization) are for NetCDF, Zarr and GRIB, but {self.sources[0]} "
                "holds a table."
            )
        self._open_options = [open_options] * len(self.sources)  # completed by inference when a file is opened
        self._seen: RecentIds | None = None
        self.counts = Counts()
        self.schema: Any = None  # of the first file
        self.n_across_files = 0  # nodes whose rows were gathered from several files
        if known is None:
            first = self._first = self._open(0)
            self.schema = first.schema
            with naming_errors(self.sources[0]):
                self.columns = self._choose_columns(first)
                if options.layout is None:
                    check_inferred_points(lambda: first.first, self.columns)
                if self.columns.file is not None:
                    self.schema = self.schema.append(pa.field(self.columns.file, pa.string()))
                self.dtype = self.options.dtype or float_dtype(first.schema, self.columns)
                self._scale_to_estimate, self.space = self._initial_transform()
            self._check_other_files()
        else:
            self._scale_to_estimate = "none"
            self.schema, self.columns, self.dtype, self.space, self._open_options[:], self._versions = known
        self._sizes = [source.size for source in self.sources]

    @property
    def labeled(self) -> OpenOptions | None:
        """How labeled arrays are read; None for tables.

        :meta private:
        """
        return self._open_options[0] if load_format(self.sources[0].format).is_labeled else None

    def known(self) -> ReaderInfo:
        """What another reader of these files needs; reads the start of the data if scales must be estimated.

        :meta private:
        """
        if self._scale_to_estimate != "none":
            for _ in self.batches():
                break
            if self._scale_to_estimate != "none":
                raise InputError(f"{self.sources[0]}: there is no row to estimate scales from.")
        options = tuple(self._open_options)
        return ReaderInfo(self.schema, self.columns, self.dtype, self.space, options, self._versions)

    def _open(self, file: int, schema: Any = None, max_bytes: int | None = None) -> TableFile:
        """Open a file, and remember what was inferred about it."""
        options = replace(self._open_options[file], schema=schema, max_bytes=max_bytes)
        opened = open_file(self.sources[file], options)
        self._open_options[file] = replace(opened.options, schema=None, max_bytes=None)
        return opened

    def _check_other_files(self) -> None:
        """Raise if another file does not have the columns of the first one, before anything is read.

        Only the start of a file is read, or the footer of Parquet; pipes, which can be read only once, are not touched.
        """
        others = [i for i, source in enumerate(self.sources) if i and source.path is not None and source.path.is_file()]
        pool = ThreadPoolExecutor(MAX_OPEN, "probi-look")
        try:
            checks = pool.map(
                lambda file: self._check_like_first(file, self._open(file, max_bytes=FIRST_BYTES)), others
            )
            for _ in checks:  # raises the error of the first file that has one
                pass
        finally:
            pool.shutdown(cancel_futures=True)

    def _check_like_first(self, file: int, opened: TableFile) -> None:
        """Raise if a file lacks a column of the first one, or holds something else in it."""
        name, columns = self.sources[file], self.columns
        missing = [column for column in columns.used if column not in opened.schema.names]
        if missing:
            others = [column for column in opened.schema.names if column not in self.schema.names]
            instead = f" It has {', '.join(others[:6])} instead." if others else ""
            first = "the first rows have" if name.tables is not None else f"{self.sources[0]} has"
            raise InputError(f"{name} has no column {missing[0]!r}, which {first}.{instead}")
        difference = self._difference(file, opened)
        # The types of a file without rows mean nothing.
        if difference is not None and (opened.first.num_rows if opened.n_rows is None else opened.n_rows):
            raise InputError(difference)

    def _difference(self, file: int, opened: TableFile) -> str | None:
        """Describe a column whose type differs from that in the first file; None if there is none."""
        name, first, columns = self.sources[file], self.sources[0], self.columns
        is_text = load_format(name.format).is_text
        # With on_bad="skip", text of another type is skipped row by row.
        for column in columns.used if not (is_text and self.options.on_bad == "skip") else ():
            is_id = column in columns.ids and not is_text
            before, now = (kind_of(schema.field(column).type, is_id) for schema in (self.schema, opened.schema))
            # Ids in CSV that look like numbers are text where those of the first file are.
            if None not in (before, now) and before != now and not (before == "text" and is_text):
                return f"{name} has {now} in column {column!r}, where {first} has {before}. Make them the same."
        if self.options.dtype is None and float_dtype(opened.schema, columns) > self.dtype:
            before = "the first rows" if name.tables is not None else str(first)
            return f"{name} has features in float64, but {before} in float32. Choose one: --dtype."
        return None

    def _choose_columns(self, file: TableFile) -> Columns:
        """Roles of the columns, by the options and the first file."""
        names = ("layout", "features", "id", "probability", "weight", "group_size")
        roles = {name: getattr(self.options, name) for name in names} | dict(file.roles)
        commas = file.decimal_commas
        try:
            columns = choose_columns(file.schema, roles.pop("layout"), first=lambda: file.first, **roles)
            if file.feature_names is not None:
                columns = replace(columns, features=file.feature_names)
        except InputError as error:
            hint = _decimal_hint(commas)
            if not hint and file.delimiter is not None and self.options.delimiter is None:
                hint = f" Cells were taken to end with {file.delimiter!r}: if that is wrong, name the --delimiter."
            raise InputError(f"{error}{hint}") from None
        numbers = {name: commas[name] for name in columns.used if name in commas and name not in columns.ids}
        if numbers:
            raise InputError(f"Numbers are expected in {', '.join(numbers)}.{_decimal_hint(numbers)}")
        left_out = {name: commas[name] for name in columns.left_out if name in commas}
        if left_out and self.options.features is None:
            raise InputError(f"Which columns are features?{_decimal_hint(left_out)} If not, name them: --features.")
        if self.options.probabilities == "normalize" and columns.probability is None:
            raise InputError("There is no column of probabilities to normalize. Name it: --probability.")
        return columns.per_file(file.schema.names) if self.options.id_per_file else columns

    def _initial_transform(self) -> tuple[str, Transform]:
        """Kind of the scales that are still to be estimated, or "none", and the transform without them."""
        space = Transform(self.columns.features, self.options.lonlat)
        if self.options.scale in SCALES:
            return self.options.scale, space
        path = as_path(self.options.scale)
        if not path.is_file():
            raise InputError(f"scale is {str(path)!r}: neither {', '.join(SCALES)} nor a file.")
        return "none", replace(space, scale=read_scale(path, space.coordinate_names))

    def __iter__(self) -> Iterator[Nodes]:
        for batch in self.batches():
            self.counts = batch.counts
            if len(batch.nodes):
                yield batch.nodes
        check_left_out(self.counts, self.options)
        if self.counts.normalized:
            warn_of_rounding(self.counts.normalized, self.counts.nodes)

    def batches(
        self,
        start: Position | None = None,
        counts: Counts | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        stop: Position | None = None,
        list_scattered: bool = False,
    ) -> Generator[Batch, None, None]:
        r"""Batches of nodes and where they come from, read ahead on another thread.

        Parameters
        ----------
        start : Position, default=None
            Where to resume: ``batch.position`` of the last batch before. None: at the beginning.
        counts : Counts, default=None
            What became of the rows before it: ``batch.counts``.
        is_stopped : callable, default never
            Called from time to time; returns whether to stop.
        stop : Position, default=None
            Where to end; a node must begin there. None: at the end of the last file.
        list_scattered : bool, default=False
            Name rows of a node that are not contiguous among the rejected ones, instead of raising an error.

        Returns
        -------
        iterator of Batch
            At least one, so that the counts are known even if no row could be used.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import probi.io
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name) / "points.csv"
        >>> _ = path.write_text("x,y\n0,1\n2,3\n4,5\n")
        >>> (batch,) = probi.io.read(path).batches()
        >>> batch.counts.nodes, tuple(batch.position)
        (3, (0, 3))
        >>> folder.cleanup()
        """
        assembler = NodeAssembler(self, start or Position(), counts or Counts(), stop, list_scattered)
        if start is not None and self._seen is not None:
            assembler.seen = self._seen.copy()
        return prefetched(self._transform(self._check_repeated_ids(assembler.batches())), is_stopped)

    def _check_repeated_ids(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Pass on batches; raise if an id is repeated where the layout "points" was inferred.

        Rows with the same id may be one node, so the layout must then be given.
        """
        if self.options.layout is not None or self.columns.layout != "points" or not self.columns.ids:
            yield from batches
            return
        last_file, seen = -1, RecentIds()
        for batch in batches:
            files = batch.where // FILE
            for file in np.unique(files).tolist():
                seen = seen if file == last_file else RecentIds()  # ids may restart in another file
                ids = cast(Any, batch.nodes.ids)[files == file]
                if (is_repeated := seen.seen_before(ids)).any():
                    value = ids[is_repeated].tolist()[0]
                    with naming_errors(self.sources[file]):
                        raise repeated_id(value if isinstance(value, tuple) else [value])
                last_file = file
            yield batch

    def _transform(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Transform the nodes; the first batches wait until there are enough realizations to estimate scales."""
        waiting: list[Batch] = []
        for batch in batches:
            waiting.append(batch)
            n_waiting = sum(batch.nodes.n_realizations for batch in waiting)
            if self._scale_to_estimate == "none" or n_waiting >= N_ESTIMATED:
                yield from self._transform_waiting(waiting)
                waiting = []
        yield from self._transform_waiting(waiting)

    def _transform_waiting(self, batches: list[Batch]) -> Iterator[Batch]:
        """Transform these batches, after scales are estimated from them if they are not known yet."""
        points = [batch.nodes.points for batch in batches if len(batch.nodes)]
        if self._scale_to_estimate != "none" and points:
            self.space = self.space.scaled_by(self._scale_to_estimate, np.concatenate(points)[:N_ESTIMATED])
            self._scale_to_estimate = "none"
        for batch in batches:
            yield replace(batch, nodes=self.space.nodes(batch.nodes))

    @property
    def id_name(self) -> str:
        """Name of a single column of ids."""
        return self.columns.ids[0] if self.columns.ids else "id"

    def resume_with(self, space: Transform, seen: RecentIds | None = None) -> None:
        """Resume with the transform, scales included, and the ids seen before a stop.

        :meta private:
        """
        self._scale_to_estimate, self.space, self._seen = "none", space, seen

    def digest_of_start(self) -> str:
        """Identify an input that can be read only once, by a hash of its first bytes.

        :meta private:
        """
        return hashlib.sha256(b"" if self._first is None else self._first.start).hexdigest()

    def opened(self, file: int) -> TableFile:
        """Open a file and check its columns; the first is opened only once, because standard input cannot be reopened.

        :meta private:
        """
        if file == 0 and self._first is not None:
            opened, self._first = self._first, None
            return opened
        self.check_unchanged(file)
        # Types of CSV are inferred from the first file only, so that all files have the same types.
        opened = self._open(file, self.schema)
        self._check_like_first(file, opened)
        return opened

    def check_unchanged(self, file: int) -> None:
        """Raise if a file has changed since another reader, whose information is used here, opened it.

        :meta private:
        """
        if self._must_match and self.sources[file].refreshed().version != self._versions[file]:
            raise InputError(
                f"{self.sources[file]} has changed since the first pass over it, so rows and clusters would not match. "
                "Run again when nobody writes to it."
            )

    def fraction(self, file: int, done: int, total: int | None) -> float | None:
        """How much of the input has been read, by bytes.

        :meta private:
        """
        if None in self._sizes:
            return None
        sizes = np.array(self._sizes, float)
        part = sizes[file] * min(1.0, done / total) if total else 0.0
        return float((sizes[:file].sum() + part) / max(1.0, sizes.sum()))


def _decimal_hint(commas: Mapping[str, str]) -> str:
    """Advise on columns of text that look like numbers with a decimal comma."""
    if not commas:
        return ""
    name, value = next(iter(commas.items()))
    return f" Column {name!r} holds {value!r}: if that is a decimal comma, pass --decimal ','."
