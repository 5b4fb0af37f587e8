"""An engine that is this process: what engines share, without any of them."""

import pyarrow as pa

from probi.engines.engine import Engine, no_progress
from probi.engines.tasks import groups, merge, unpack_part


class Tables(tuple):
    """A DataFrame of this engine: tables, each of them a partition of whole nodes."""


class Here(Engine):
    frames = (Tables,)

    def on_files(self, files, task, numbers):
        return [files.run(task, number) for number in numbers]

    def collect(self, parts):
        return parts

    def merge(self, parts, task, on_part=no_progress):
        while len(parts) > 1:
            parts = [merge([parts[i] for i in group]) for group in groups(len(parts), task.fan_in)]
        return parts[0]

    def first_rows(self, frame, n_rows, reading):
        return pa.concat_tables(frame).slice(0, n_rows)

    def on_frame(self, frame, how, task):
        return [how.run(task, number, [table]) for number, table in enumerate(frame)]

    def to_frame(self, parts, empty):
        return pa.concat_tables([unpack_part(data)[0].select(empty.column_names) for data in parts])


def tables_of(columns, starts):
    """Columns as tables that start at these rows."""
    table = pa.table(columns)
    return Tables(table.slice(a, b - a) for a, b in zip(starts, [*starts[1:], len(table)], strict=True))
