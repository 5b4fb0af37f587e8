"""Parquet: read by row groups, which workers share."""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from probi._stores import StorePath
from probi.errors import InputError
from probi.io.formats.base import Format, OpenOptions, Source, TableFile, TableWriter, naming_errors

# Bytes of lists that a row group may always hold; more only at this ratio to its compressed bytes.
MAX_CLAIM, MAX_RATIO = 1 << 27, 1000
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
        self._check_claims(groups)

    def _check_claims(self, groups: list[Any]) -> None:
        """Raise on lists that claim to hold far more than their bytes can: they are read whole, rows some at a time."""
        schema = self._file.schema
        lists = [j for j in range(len(schema)) if schema.column(j).max_repetition_level]
        for number, group in enumerate(groups if lists else ()):
            columns = [group.column(j) for j in lists]
            claimed, stored = sum(8 * c.num_values for c in columns), sum(c.total_compressed_size for c in columns)
            if claimed > max(MAX_CLAIM, MAX_RATIO * stored):
                raise InputError(
                    f"row group {number} claims {claimed / 1e9:,.1f} GB of lists in {stored:,} bytes. If it is right, "
                    "write it with smaller row groups."
                )

    @cached_property
    def first(self) -> pa.Table:
        """Some first rows."""
        # A few rows only: a whole row group may not fit in memory.
        with naming_errors(self.source):
            batches = self._file.iter_batches(batch_size=1000, row_groups=[0] if self._file.num_row_groups else [])
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


FORMAT = Format(
    endings=(".parquet", ".pq"),
    magic=(b"PAR1",),
    open=ParquetFile,
    create=_create,
)
