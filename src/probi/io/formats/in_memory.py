"""Tables that are in memory already, such as a partition of a DataFrame."""

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from probi.io.formats.base import Format, OpenOptions, TableFile
from probi.io.sources import Source


class Tables(TableFile):
    """Tables of a source, read like a file."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        super().__init__(source, options)
        self._tables = iter(source.tables)
        self._head = next(self._tables)
        self.schema = self._head.schema
        self.first = self._head.slice(0, 1000)

    def tables(self, names: list[str], step: int, skip: int) -> Iterator[tuple[int, pa.Table, int]]:
        """All tables."""
        row = 0
        for table in chain([self._head], self._tables):
            yield row, table, 0
            row += table.num_rows


FORMAT = Format(endings=(), magic=(), open=Tables)
