"""Parquet: read by row groups, which workers share."""

import os
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from probi._stores import StorePath
from probi.errors import InputError
from probi.io.formats.base import Format, OpenOptions, Source, TableFile, TableWriter, naming_errors
from probi.summary.claims import exceeds

# Texts are checked in files of fewer bytes: in others they are not far from what they claim.
SMALL = 1 << 20
# Bytes per value from which a column of fixed-size binary is checked as lists are: missing values take as many.
WIDE = 64
# Rows that tell what columns hold, and the bytes that they may take if all repeat the longest text.
N_FIRST, MAX_FIRST = 1000, 1 << 29
# Bytes of row groups that are read together.
TOGETHER = 1 << 26


class ParquetFile(TableFile):
    """An opened Parquet file."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        if source.path is None:
            raise InputError("Parquet cannot be read from standard input: its index is at the end. Name the file.")
        super().__init__(source, options)
        import pyarrow.parquet as pq  # takes 20 ms, which other formats do without

        # Of a store, the columns of some row groups are fetched together, in few requests.
        is_stored = isinstance(source.path, StorePath)
        file = source.path.open() if isinstance(source.path, StorePath) else source.path
        self._file = pq.ParquetFile(file, memory_map=False, pre_buffer=is_stored)
        self.schema = self._file.schema_arrow
        self.total = self.n_rows = self._file.metadata.num_rows
        groups = [self._file.metadata.row_group(g) for g in range(self._file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum([group.num_rows for group in groups])]).astype(np.int64)
        self.pieces = [(int(row), group.total_byte_size) for row, group in zip(self._starts, groups, strict=False)]
        self._n_first = self._check_claims(source)

    def _check_claims(self, source: Source) -> int:
        """Raise on columns that claim far more than their bytes can hold; return how many rows to look at first.

        Numbers are read some rows at a time. Lists and texts may be of any length, and a text that is stored once may
        be that of all rows.
        """
        schema, path = self._file.schema, source.path
        columns = [schema.column(j) for j in range(len(schema))]
        lists = [j for j, column in enumerate(columns) if column.max_repetition_level]
        texts = [j for j, column in enumerate(columns) if column.physical_type == "BYTE_ARRAY"]
        widths: dict[int, int] = {j: column.length for j, column in enumerate(columns) if column.length > WIDE}
        if path is None or not (lists or widths or (texts and (source.size or 0) < SMALL)):
            return N_FIRST
        with path.open("rb") as opened:
            claims = read_claims(opened, len(schema))
        longest = max([1, *widths.values()])
        for number, group in enumerate(claims):
            of_texts = sum(group[j].uncompressed for j in texts)
            of_widths = sum(width * group[j].n_values for j, width in widths.items())
            claimed = sum(8 * group[j].n_values for j in lists) + of_texts + of_widths
            stored = sum(group[j].compressed for j in {*lists, *texts, *widths})
            longest = max(longest, of_texts)
            if exceeds(claimed, stored):
                raise InputError(
                    f"row group {number} claims {claimed / 1e9:,.1f} GB of lists, text or binary in {stored:,} bytes. "
                    "If it is right, write it with smaller row groups."
                )
        return min(N_FIRST, max(1, MAX_FIRST // longest))

    @cached_property
    def first(self) -> pa.Table:
        """Some first rows."""
        # A few rows only: a whole row group may not fit in memory.
        with naming_errors(self.source):
            batches = self._file.iter_batches(
                batch_size=self._n_first, row_groups=[0] if self._file.num_row_groups else []
            )
            return pa.Table.from_batches(list(islice(batches, 1)), self.schema)

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """Tables of ``step`` rows, from the row group on that has row ``skip``."""
        group = max(0, int(np.searchsorted(self._starts, skip, side="right")) - 1)
        row = int(self._starts[group])
        for groups in self._together(group):
            for batch in self._file.iter_batches(batch_size=step, row_groups=groups, columns=names):
                yield row, pa.Table.from_batches([batch]), row + batch.num_rows
                row += batch.num_rows

    def _together(self, first: int) -> Iterator[list[int]]:
        """Row groups from ``first`` on, some at a time: small ones share batches, and memory stays bounded."""
        groups, size = [], 0
        for group in range(first, self._file.num_row_groups):
            groups.append(group)
            size += self.pieces[group][1]
            if size >= TOGETHER:
                yield groups
                groups, size = [], 0
        if groups:
            yield groups


def _create(path: Path, schema: pa.Schema, name: str) -> TableWriter:
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, schema)  # type: ignore[no-any-return]


# -- the footer, read without pyarrow ----------------------------------------------------------------------------------

# pyarrow ends the process when it is asked for a column whose entry in the footer is inconsistent. Reading such a
# column raises an error instead, but then its memory has been allocated.

# Bytes after the footer: its length, and a mark.
TAIL = 8
# Types of values in Thrift's compact protocol; others are integers. Parquet's footer has no maps.
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
FIXED_SIZES = {TRUE: 0, FALSE: 0, BYTE: 1, DOUBLE: 8}
# Fields of the structs of Parquet's format: FileMetaData, RowGroup, ColumnChunk and ColumnMetaData.
ROW_GROUPS, COLUMNS, METADATA = 4, 1, 3
N_VALUES, UNCOMPRESSED, COMPRESSED = 5, 6, 7


class ColumnClaims(NamedTuple):
    """Numbers of values and of bytes of a column in a row group."""

    n_values: int
    uncompressed: int
    compressed: int

    @property
    def are_complete(self) -> bool:
        """Whether the footer has all of them."""
        return None not in self and min(self) >= 0


def read_claims(file: Any, n_columns: int) -> list[list[ColumnClaims]]:
    """Claims of all columns of each row group of an opened file."""
    try:
        file.seek(-TAIL, os.SEEK_END)
        n_bytes = int.from_bytes(file.read(TAIL)[:4], "little")
        file.seek(-TAIL - n_bytes, os.SEEK_END)
        claims = row_group_claims(bytes(file.read(n_bytes)))
        if all(len(group) == n_columns and all(column.are_complete for column in group) for group in claims):
            return claims
    except (LookupError, TypeError, ValueError, RecursionError):
        pass
    raise InputError("its footer is damaged. Write it anew.")


def row_group_claims(footer: bytes) -> list[list[ColumnClaims]]:
    """Claims of all columns of each row group; raises an error of any kind if the footer is damaged."""
    numbers = dict.fromkeys((N_VALUES, UNCOMPRESSED, COMPRESSED))
    groups = _Thrift(footer).struct({ROW_GROUPS: {COLUMNS: {METADATA: numbers}}})[ROW_GROUPS]
    return [[ColumnClaims(*map(column[METADATA].get, numbers)) for column in group[COLUMNS]] for group in groups]


class _Thrift:
    """Bytes of Thrift's compact protocol, of which only some fields are kept."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self, wanted: dict[int, Any]) -> dict[int, Any]:
        """Fields of a struct by number: those wanted, which are numbers (None) or structs with wanted fields."""
        values: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            number = number + (header >> 4) if header >> 4 else self._integer()
            if number in wanted:
                values[number] = self._value(header & 15, wanted[number])
            else:
                self._skip(header & 15)
        return values

    def _value(self, type: int, wanted: Any) -> Any:
        if wanted is None:
            return self._integer()
        if type == STRUCT:
            return self.struct(wanted)
        return [self.struct(wanted) for _ in range(self._list()[0])]

    def _skip(self, type: int, times: int = 1) -> None:
        """Skip values of one type; those of no fixed size end at the end of the bytes, however many there are."""
        if type in FIXED_SIZES:
            self._at += FIXED_SIZES[type] * times
            return
        for _ in range(times):
            if type == BINARY:
                length = self._unsigned()
                self._at += length
            elif type in (LIST, SET):
                length, kind = self._list()
                self._skip(BYTE if kind in (TRUE, FALSE) else kind, length)
            elif type == STRUCT:
                self.struct({})
            else:
                self._unsigned()

    def _list(self) -> tuple[int, int]:
        """Length of a list, and the type of its items."""
        header = self._byte()
        return (self._unsigned() if header >> 4 == 15 else header >> 4), header & 15

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _unsigned(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def _integer(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)


FORMAT = Format(
    endings=(".parquet", ".pq"),
    magic=(b"PAR1",),
    open=ParquetFile,
    create=_create,
)
