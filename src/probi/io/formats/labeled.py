"""NetCDF, Zarr and GRIB: labeled arrays, of which each node is a row of an Arrow table."""

import contextlib
import json
import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from probi._stores import StorePath
from probi._types import Array
from probi.errors import InputError, MissingExtraError
from probi.inputs.dimensions import choose_roles, listed
from probi.inputs.fields import BLOCK_BYTES, COS_LATITUDE, Block, Field
from probi.io.formats.base import OpenOptions, Source, TableFile
from probi.summary.claims import MAX_CLAIM, MAX_RATIO, exceeds
from probi.tables.to_arrays import list_array, point_array

# Columns beside those of the ids.
COLUMNS = ("points", "probability", "weight")
# Bytes of blocks without a value that are always skipped at the beginning; more only at the same ratio.
MAX_EMPTY = 1 << 31
# Bytes of a feature's name, of the place of a block, and of a chunk while it is read.
NAME_BYTES, PLACE_BYTES, CHUNK_BYTES = 128, 512, 1 << 13


class LabeledFile(TableFile):
    """An opened file of labeled arrays; rows are the nodes that have a realization, in the order of the chunks."""

    def __init__(self, source: Source, options: OpenOptions, engine: str | None) -> None:
        super().__init__(source, options)
        dataset = _open(source, engine)
        _check_claims(source, _claims_of_nodes(dataset, options))
        self.field = _field(dataset, options)
        self._boxes = self.field.boxes()
        self.total = len(self._boxes)
        roles = self.field.roles
        self.options = replace(
            options, node=roles.node, realization=roles.realization or False, variables=roles.variables
        )
        # The first block tells which features have values, and which types ids have.
        self._head: list[tuple[int, Block]] = []
        for number, slices in enumerate(self._boxes):
            block = self.field.read(slices)
            if block.present.any():
                self._head = [(number, block)]
                break
            if (empty := number * BLOCK_BYTES) > max(MAX_EMPTY, MAX_RATIO * (source.size or 0)):
                raise InputError(f"the first {empty / 1e9:.1f} GB of values are all NaN. Leave out such nodes.")
        if not self._head:
            raise InputError("all values are NaN: no node has a realization.")
        ids = list(self._ids(self._head[0][1]))
        # A dimension may be called the same.
        self._names = [f"{name}{'_' * sum(id.rstrip('_') == name for id in ids)}" for name in COLUMNS]
        points, probability, weight = self._names
        self.schema = self._table(self._head[0][1]).schema
        # Variables, with their coordinates where they have further dimensions.
        names = [name for part in self.field.columns for name in _names(self.field.dataset, part)]
        self.feature_names = tuple(name for name, is_kept in zip(names, self.field.kept, strict=True) if is_kept)
        self.roles = {
            "layout": "nested",
            "features": [points],
            "id": ids,
            "probability": probability,
            "weight": weight if weight in self.schema.names else False,
        }

    @cached_property
    def first(self) -> pa.Table:
        """Some first rows."""
        return self._table(self._head[0][1]).slice(0, 100)

    def _table(self, block: Block) -> pa.Table:
        """A row per node of a block."""
        offsets, probabilities = np.asarray(block.offsets, np.int64), block.probabilities
        points, probability, weight = self._names
        columns: dict[str, Any] = {name: pa.array(values) for name, values in self._ids(block).items()}
        columns[points] = list_array(offsets, point_array(np.ascontiguousarray(block.points)))
        if probabilities is None:
            probabilities = np.full(len(block.points), 1.0 / self.field.n_realizations, self.field.dtype)
        columns[probability] = list_array(offsets, pa.array(probabilities))
        if block.weights is not None:
            columns[weight] = pa.array(block.weights)
        return pa.table(columns)

    def _ids(self, block: Block) -> dict[str, Array]:
        """Coordinates of the nodes of a block; positions where no dimension has any."""
        node, ids = self.field.roles.node, block.ids
        if ids is None:
            positions = np.unravel_index(np.flatnonzero(block.present), [_length(block.slices[name]) for name in node])
            return {name: block.slices[name].start + position for name, position in zip(node, positions, strict=True)}
        return {name: ids[name] for name in ids.dtype.names} if ids.dtype.names else {node[0]: ids}

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """A table per block."""
        head, self._head = self._head, []
        start = head[0][0] + 1 if head else 0
        rest = ((number, self.field.read(self._boxes[number])) for number in range(start, len(self._boxes)))
        row = 0
        for number, block in chain(head, rest):
            if block.present.any():
                yield row, self._table(block), number + 1
                row += int(block.present.sum())


def _length(box: slice) -> int:
    return int(box.stop - box.start)


def _open(source: Source, engine: str | None) -> Any:
    """The Dataset of a file, of which nothing is read yet."""
    if source.path is None:
        raise InputError(f"{source.format} cannot be read from standard input. Name the file.")
    try:
        import xarray  # with pandas, which other formats do without
    except ImportError:
        raise MissingExtraError(f"{source.format} needs xarray: pip install 'probi[xarray]'") from None
    path: Any = str(source.path)
    if isinstance(source.path, StorePath):
        if engine is not None:
            raise InputError("only NetCDF is read from a store. Copy the file to a local disk.")
        path, engine = source.path.open(), "h5netcdf"
    # Decoding dates reads some of them, and an index all its values: what they claim is checked first.
    keywords: dict[str, Any] = {"decode_cf": False, "create_default_indexes": False}
    if engine is not None:
        keywords["engine"] = engine
    if engine == "cfgrib":
        keywords["indexpath"] = ""  # writes no file beside the data
    if engine == "zarr":
        keywords["consolidated"] = False  # on a disk, all metadata are near
        logging.getLogger("asyncio").addFilter(_is_told)
        _check_codecs(Path(path))
    try:
        dataset = xarray.open_dataset(path, **keywords)
    except ImportError as error:
        raise MissingExtraError(f"{source}: {error}") from None
    _check_claims(source, _claims_of_reading(dataset))
    dataset = xarray.decode_cf(dataset)
    # Zarr lists the arrays of a folder in any order, which must not be that of the features.
    return dataset[sorted(dataset.variables, key=str)] if engine == "zarr" else dataset


def _is_told(record: logging.LogRecord) -> bool:
    """Whether a message is shown: not that several arrays of a Zarr folder are damaged, the first of which is told."""
    text = record.getMessage()
    return not (text.startswith("Task exception was never retrieved") and "zarr" in text)


def _check_codecs(folder: Path) -> None:
    """Raise on arrays of Zarr's second version whose values are pickled, before xarray reads any of them."""
    for path in folder.glob("*/.zarray"):
        text = ""
        with contextlib.suppress(ValueError, RecursionError, OSError):  # zarr will tell
            text = json.dumps(json.loads(path.read_bytes()))
        if '"pickle"' in text:
            name = path.parent.name
            raise InputError(f"{name!r} holds pickled objects, which probi does not load: that could run code.")


def _check_claims(source: Source, claims: Iterable[tuple[str, int]]) -> None:
    """Raise if something that is held at once would take far more memory than the bytes of the file can hold.

    Values that a file leaves out are filled in, so a small one may claim any size.
    """
    for what, claimed in claims:
        if claimed > MAX_CLAIM and exceeds(claimed, stored := source.size or 0):
            raise InputError(
                f"{what} claims {claimed / 1e9:,.1f} GB in {stored:,} bytes. If it is right, write all values, in "
                "larger chunks or without compression."
            )


def _claims_of_reading(dataset: Any) -> Iterator[tuple[str, int]]:
    """Bytes of what cannot be read in parts: chunks, and coordinates that become indexes."""
    for name, variable in dataset.variables.items():
        yield f"a chunk of {name!r}", _chunk_bytes(variable)
        if name in variable.dims:
            yield f"coordinate {name!r}", variable.nbytes + _chunk_costs(variable)


def _claims_of_nodes(dataset: Any, options: OpenOptions) -> Iterator[tuple[str, int]]:
    """Bytes of ids and other coordinates, of a node and the names of its features, of places of blocks, of chunks."""
    if options.node is None:  # an error, which is told later
        return
    roles = choose_roles(dataset, options.node, options.realization, options.variables, strict=False)
    read = dataset[list(roles.variables)]
    for name in roles.node:
        yield f"dimension {name!r}", 8 * read.sizes[name]
    for name, coordinate in read.coords.items():
        yield f"coordinate {name!r}", coordinate.nbytes + _chunk_costs(coordinate)
    of_node = n_names = 0
    for name in roles.variables:
        sizes = {dim: size for dim, size in read[name].sizes.items() if dim not in roles.node}
        n_columns = math.prod(size for dim, size in sizes.items() if dim not in roles.realization)
        of_node += n_columns * math.prod(read.sizes[dim] for dim in roles.realization) * 8
        n_names += n_columns
    yield "a node", of_node + NAME_BYTES * n_names
    n_nodes = math.prod(read.sizes[dim] for dim in roles.node)
    yield "the grid of nodes", PLACE_BYTES * n_nodes * of_node // BLOCK_BYTES
    for name in roles.variables:
        yield f"the number of chunks of {name!r}", _chunk_costs(read[name])


def _chunk(variable: Any) -> tuple[int, ...]:
    """Shape of the chunks; empty without."""
    return tuple(map(int, variable.encoding.get("chunksizes") or variable.encoding.get("chunks") or ()))


def _chunk_bytes(variable: Any) -> int:
    """Bytes of a chunk; 0 without chunks."""
    chunk = _chunk(variable)
    return math.prod(chunk) * int(variable.dtype.itemsize) if chunk else 0


def _chunk_costs(variable: Any) -> int:
    """Bytes that all chunks of a variable take beside its values, which also stand for their time.

    A chunk may be longer than its dimension.
    """
    chunk = _chunk(variable)
    n = math.prod(-(-size // max(1, length)) for size, length in zip(variable.shape, chunk, strict=False))
    return n * (CHUNK_BYTES + _chunk_bytes(variable)) - int(variable.nbytes) if chunk else 0


def _field(dataset: Any, options: OpenOptions) -> Field:
    if options.node is None:
        raise InputError(
            f"say which dimensions tell nodes apart: --node, such as --node latitude,longitude. There are "
            f"{listed(dataset)}."
        )
    if options.weight not in (None, False, COS_LATITUDE):
        raise InputError(f"--weight must be {COS_LATITUDE} or none for labeled arrays, got {options.weight!r}.")
    # An empty scale leaves values as they are; the warning that units differ names options of the command line.
    field = Field(
        dataset, options.node, options.realization, options.variables, options.weight or None, {}, options.missing
    )
    units = {name: field.dataset[name].attrs.get("units") for name in field.roles.variables}
    if len({str(unit) for unit in units.values() if unit is not None}) > 1 and not options.is_scaled:
        described = ", ".join(f"{name} ({unit or 'no unit'})" for name, unit in units.items())
        raise InputError(
            f"features have different units: {described}. Scale them (--scale standard, or a file), or select some of "
            "one unit (--features)."
        )
    return field


def _names(dataset: Any, part: Any) -> list[str]:
    """Names of the features of one variable."""
    if not part.dims:
        return [part.name]
    texts = [
        [f"{dim}={_text(value)}" for value in _values(dataset, dim, n)]
        for dim, n in zip(part.dims, part.shape, strict=True)
    ]
    return [f"{part.name}[{', '.join(place)}]" for place in product(*texts)]


def _values(dataset: Any, dim: str, n: int) -> Any:
    return dataset.coords[dim].to_numpy() if dim in dataset.coords else range(n)


def _text(value: Any) -> str:
    """A coordinate as short text."""
    if isinstance(value, np.timedelta64):
        return f"{value / np.timedelta64(1, 'h'):g}h"
    if isinstance(value, np.datetime64):
        return str(value.astype("datetime64[s]")).removesuffix("T00:00:00")
    return f"{value:g}" if isinstance(value, (float, np.floating)) else str(value)
