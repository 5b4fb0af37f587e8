"""Parquet: read by row groups, which workers share."""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from probi.errors import InputError
from probi.io.formats.base import Chunk, Format, OpenOptions, chunks_of, rows_per_chunk, trouble_in
from probi.io.sources import Source
from probi.tables.columns import Columns


class ParquetFile:
    """An opened Parquet file."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        if source.path is None:
            raise InputError("Parquet cannot be read from standard input: its index stands at the end. Name the file.")
        self._source = source
        self._file = pq.ParquetFile(source.path, memory_map=False)
        self.schema = self._file.schema_arrow
        self.total: int | None = self._file.metadata.num_rows
        self.n_rows: int | None = self.total
        groups = [self._file.metadata.row_group(g) for g in range(self._file.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum([group.num_rows for group in groups])]).astype(np.int64)
        self.pieces = [(int(row), group.total_byte_size) for row, group in zip(self._starts, groups, strict=False)]

    @cached_property
    def first(self) -> pa.Table:
        """Some first rows."""
        # By row group and a few rows only: decoding the whole of it would take its memory.
        with trouble_in(self._source):
            batches = self._file.iter_batches(batch_size=1000, row_groups=[0] if self._file.num_row_groups else [])
            return pa.Table.from_batches(list(islice(batches, 1)), self.schema)

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        """Columns that play a role, from row ``skip`` on."""
        names = columns.used
        step = rows_per_chunk(self.first, names)
        group = max(0, int(np.searchsorted(self._starts, skip, side="right")) - 1)
        start = int(self._starts[group])
        with trouble_in(self._source):
            yield from chunks_of(self._tables(names, step, group, start), names, step, skip, start)

    def _tables(self, names: list[str], step: int, group: int, row: int) -> Iterator[tuple[pa.Table, int]]:
        groups = list(range(group, self._file.num_row_groups))
        for batch in self._file.iter_batches(batch_size=step, row_groups=groups, columns=names):
            row += batch.num_rows
            yield pa.Table.from_batches([batch]), row


FORMAT = Format(
    endings=(".parquet", ".pq"),
    magic=(b"PAR1",),
    open=ParquetFile,
    create=lambda path, schema, name: pq.ParquetWriter(path, schema),
)
