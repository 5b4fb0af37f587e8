"""Tables that are in memory already, such as a partition of a DataFrame."""

from collections.abc import Iterator
from itertools import chain

from probi.io.formats.base import Chunk, Format, OpenOptions, chunks_of, one_piece, rows_per_chunk, trouble_in
from probi.io.sources import Source
from probi.tables.columns import Columns


class Tables:
    """Tables of a source, read like a file."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        self._source = source
        self._tables = iter(source.tables)
        self._head = next(self._tables)
        self.schema = self._head.schema
        self.first = self._head.slice(0, 1000)
        self.total: int | None = None
        self.pieces, self.n_rows = one_piece(source)

    def chunks(self, columns: Columns, skip: int) -> Iterator[Chunk]:
        """Columns that play a role, from row ``skip`` on."""
        names = columns.used
        tables = ((table, 0) for table in chain([self._head], self._tables))
        with trouble_in(self._source):
            yield from chunks_of(tables, names, rows_per_chunk(self.first, names), skip)


FORMAT = Format(endings=(), magic=(), open=Tables)
