"""CSV of any length: blocks of whole lines, parsed by Arrow; blocks with a bad line are parsed a second time."""

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from probi._types import Integers, Mask
from probi.errors import InputError
from probi.io.formats.base import Format, OpenOptions, Source, TableFile, naming_errors, standard_input
from probi.io.rows import LINE, Rows
from probi.tables.columns import Columns, is_list, is_number, repeated
from probi.tables.to_arrays import NUMBER, PLAIN, convert_texts, one_chunk

BLOCK = 1 << 22
MAX_LINES = 1 << 19  # per block, about: a bad one takes microseconds, and some hundred bytes
HEAD = 1 << 18  # bytes by which types are inferred,
N_TYPED = 1000  # and values of each column in them
FIRST = 1 << 16  # bytes of the first rows, by which columns get their roles
LONGEST_LINE = 1 << 26
DELIMITERS = ",;\t|"
MAX_TRIES = 100  # line ends that are looked at one by one

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")

EMPTY = pa.array([], pa.binary())

# A line with too few or too many cells.
LINES = pa.struct([("line", pa.binary()), ("reason", pa.string())])

# Blocks parsed concurrently, one per thread.
AHEAD = 2


# Codecs, with the bytes that their data begin with, and the endings of names.
COMPRESSIONS = (
    ("gzip", b"\x1f\x8b", ".gz"),
    ("zstd", b"\x28\xb5\x2f\xfd", ".zst"),
    ("bz2", b"BZh", ".bz2"),
    ("lz4", b"\x04\x22\x4d\x18", ".lz4"),
)
ENDINGS = (".csv", ".tsv", ".txt")


class CsvFile(TableFile):
    """A CSV file, a compressed one, or standard input; opened once, read once."""

    def __init__(self, source: Source, options: OpenOptions) -> None:
        super().__init__(source, options)
        delimiter, decimal, header = options.delimiter, options.decimal, options.header
        self.total = source.size
        self._file: Any = None
        if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii()):
            raise InputError(f"the delimiter {delimiter!r} is not a single ASCII character.")
        if decimal is not None and delimiter == decimal:
            raise InputError(
                f"{decimal!r} cannot both separate cells and be the decimal sign. Name another --delimiter."
            )
        self._decimal = decimal or "."
        self._file, self._bytes = _open(source)
        self.start = block = _first_block(self._bytes, options.max_bytes or BLOCK)
        empty = len(block) - len(block.lstrip(b"\r\n"))  # empty lines at the start
        self._line = 1 + block.count(b"\n", 0, empty)
        block = block[empty:]
        end = _first_line_end(block)
        self.delimiter = delimiter or _infer_delimiter(source, block[:end], self._decimal)
        cells = _split_cells(block[:end], self.delimiter)
        has_header = header if header is not None else not all(map(self._is_number, cells))
        if has_header:
            self.names = _column_names(cells)
            self._line += block.count(b"\n", 0, end)
            block = block[end:]
        else:
            self.names = [f"x{j}" for j in range(len(cells))]
        self._block = block
        self.options = replace(options, delimiter=self.delimiter, header=has_header, max_bytes=None)
        self.decimal_commas: dict[str, str] = {}
        self.schema = self._schema(options.schema)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, but never standard input."""
        if self._file is not None and self.source.path is not None:
            self._file.close()

    @cached_property
    def _head(self) -> pa.Table:
        """The first lines as bytes: what types are inferred from."""
        head = _first_lines(self._block, HEAD)
        return self._texts(head, self.names)[0] if head.strip() else pa.table(dict.fromkeys(self.names, EMPTY))

    @cached_property
    def first(self) -> pa.Table:
        """Some first rows."""
        n_rows = max(1, self._block.count(b"\n", 0, FIRST))
        cells = self._head.slice(0, n_rows)
        columns = [_convert_cells(one_chunk(cells[f.name]), f.type, self._decimal)[0] for f in self.schema]
        return pa.table(columns, self.schema)

    def _schema(self, known: pa.Schema | None) -> pa.Schema:
        """Types inferred from the first lines: integers, floats, lists (as JSON), text; or those of another file."""
        if known is not None:
            types = {field.name: field.type for field in known}
            return pa.schema([(name, types.get(name, pa.string())) for name in self.names])
        return pa.schema([(name, self._infer_type(one_chunk(self._head[name]), name)) for name in self.names])

    def _infer_type(self, texts: pa.Array, name: str) -> pa.DataType:
        """Type that fits most values: a few bad ones must not turn numbers into text."""
        known = islice((text for text in texts.to_pylist() if text is not None), N_TYPED)
        values = [value for text in known if (value := text.decode("utf-8", "replace").strip())]
        if not values:
            return pa.float64()
        if sum(value.startswith("[[") for value in values) * 2 > len(values):
            return pa.list_(pa.list_(pa.float64()))
        if sum(value.startswith("[") for value in values) * 2 > len(values):
            return pa.list_(pa.float64())
        if sum(map(self._is_number, values)) * 2 <= len(values):
            if self._decimal == "." and sum(bool(DECIMAL_COMMA.fullmatch(value)) for value in values) * 2 > len(values):
                self.decimal_commas[name] = next(filter(DECIMAL_COMMA.fullmatch, values))
            return pa.string()
        return pa.int64() if all(map(_is_plain_integer, values)) else pa.float64()

    def _is_number(self, text: str) -> bool:
        try:
            float(_with_point(text, self._decimal))
        except ValueError:
            return False
        return True

    def chunks(self, columns: Columns, skip: int) -> Iterator[Rows]:
        """Columns that play a role, from row ``skip`` on."""
        row, line = 0, self._line
        types = {name: self.schema.field(name).type for name in columns.used}
        # A feature with integers in the first rows may have floats later. Ids are integers or text: 1.10 is not 1.1,
        # and 12e4 not 120000.
        types |= {
            name: pa.string() if name in columns.ids else pa.float64()
            for name, type in types.items()
            if is_number(type) and not (name in columns.ids and type == pa.int64())
        }
        with naming_errors(self.source), contextlib.closing(self), ThreadPoolExecutor(AHEAD, "probi-csv") as pool:
            for data, done, future in _submitted(pool, self._blocks(), lambda data: self._parsed(data, types)):
                table, unread = future.result()
                n_ends = data.count(b"\n")
                before = min(max(0, skip - row), table.num_rows)
                if table.num_rows > before:
                    unread = None if unread is None else unread.slice(before)
                    lines = line + _lines_of_rows(data, n_ends, table.num_rows)
                    yield Rows.starting_at(row + before, table.slice(before), done, unread, lines[before:])
                row += table.num_rows
                line += n_ends
            if row < skip:
                raise InputError(f"it ends at row {row}, before row {skip}, where reading was to resume.")

    def _blocks(self) -> Iterator[tuple[bytes, int]]:
        """Blocks that end with a line, and how far in the file each ends."""
        rest, is_end = self._block, False
        while rest or not is_end:
            if not is_end and rest.count(b"\n") <= MAX_LINES:
                data = self._bytes.read(max(BLOCK, len(rest)))  # a long line is not searched again for each block
                rest, is_end = rest + data, not data
            n_ends, cut = rest.count(b"\n"), len(rest)
            if n_ends > MAX_LINES:
                cut = _last_line_end(rest[: cut * MAX_LINES // n_ends]) or _last_line_end(rest)
            elif not is_end:
                cut = _last_line_end(rest)
            if is_end and cut == 0:  # a quote does not close
                cut = len(rest)
            if cut:
                yield rest[:cut], self._file.tell() if self.total is not None else 0
            rest = rest[cut:]
            if len(rest) > LONGEST_LINE:
                raise InputError(f"a line, or a quote that does not close, is longer than {LONGEST_LINE >> 20} MB.")

    # -- a block ------------------------------------------------------------------------------------------------------

    def _parsed(self, data: bytes, types: dict[str, Any]) -> tuple[pa.Table, pa.Table | None]:
        """Table of a block, and what could not be read of it, as in Rows."""
        if not any(is_list(type) for type in types.values()):
            # Whole numbers that are read as such are ids: 007 must not become 7.
            plain = [name for name, type in types.items() if type == pa.int64()]
            with contextlib.suppress(pa.ArrowInvalid):
                table = self._read(data, types | dict.fromkeys(plain, pa.string()))
                for name in plain:
                    index = table.schema.get_field_index(name)
                    table = table.set_column(index, name, _plain_integers(table[name]))
                return table, None
        return self._parsed_slowly(data, types)

    def _parsed_slowly(self, data: bytes, types: dict[str, Any]) -> tuple[pa.Table, pa.Table | None]:
        """The same with every value read as text first: an invalid number becomes a row error, not an exception."""
        import pyarrow.compute as pc  # takes 40 ms, which other formats do without

        texts, ragged = self._texts(data, list(types))
        columns = {}
        unread = {} if ragged is None else {LINE: ragged}
        for name, type in types.items():
            cells = texts[name].combine_chunks()
            columns[name], bad = _convert_cells(cells, type, self._decimal)
            if bad.any():
                unread[name] = pc.if_else(pa.array(bad), cells, None)
        return pa.table(columns), pa.table(unread) if unread else None

    def _texts(self, data: bytes, names: list[str]) -> tuple[pa.Table, pa.Array | None]:
        """Table of bytes; rows with too few or too many cells are nulls in it, and returned with the reason."""
        ragged: list[Any] = []

        def note(row: Any) -> str:
            ragged.append(row)
            return "skip"

        # Arrow shows a ragged row as text only. Latin-1 maps any bytes to text, and back.
        is_text = _is_utf8(data)
        table = self._read(
            data if is_text else data.decode("latin-1").encode("utf-8"), dict.fromkeys(names, pa.binary()), note
        )
        if not is_text:
            table = pa.table({name: _from_latin(table[name]) for name in names})
        if not ragged:
            return table, None
        n_rows = table.num_rows + len(ragged)
        is_ragged = np.zeros(n_rows, bool)
        is_ragged[[row.number - 1 for row in ragged]] = True
        lines = pa.array(
            [
                {"line": row.text.encode(), "reason": f"has {row.actual_columns} cells instead of {len(self.names)}"}
                for row in ragged
            ],
            LINES,
        )
        return _spread(table, ~is_ragged), _spread(lines, is_ragged)

    def _read(self, data: bytes, types: dict[str, Any], on_ragged: Any = None) -> pa.Table:
        return pacsv.read_csv(
            pa.BufferReader(data),
            # Arrow numbers rows only in one block on one thread.
            pacsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=self.names),
            pacsv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=b'"' in data, invalid_row_handler=on_ragged
            ),
            pacsv.ConvertOptions(
                column_types=types, include_columns=list(types), strings_can_be_null=True, decimal_point=self._decimal
            ),
        )


def _submitted(pool: ThreadPoolExecutor, blocks: Any, parse: Any) -> Iterator[tuple[bytes, int, Future[Any]]]:
    """Yield blocks and what they will be parsed to, in order, while the next ones are parsed."""
    waiting: deque[tuple[bytes, int, Future[Any]]] = deque()
    try:
        for data, done in blocks:
            waiting.append((data, done, pool.submit(parse, data)))
            if len(waiting) > AHEAD:
                yield waiting.popleft()
        yield from waiting
    finally:
        for _, _, future in waiting:
            future.cancel()


# -- bytes ------------------------------------------------------------------------------------------------------------


class _Decompressed(io.RawIOBase):
    """Decompressed bytes; errors of the codec become InputErrors."""

    def __init__(self, raw: Any, codec: str) -> None:
        self._codec = codec
        self._file = gzip.GzipFile(fileobj=raw) if codec == "gzip" else pa.CompressedInputStream(raw, codec)

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._file.read(size))
        except (EOFError, zlib.error, OSError, pa.ArrowException) as error:
            raise InputError(f"the {self._codec} data is damaged or cut off: {error}.") from None


def _open(source: Source) -> tuple[Any, Any]:
    """The file, and its bytes decompressed."""
    raw: Any = standard_input() if source.path is None else source.path.open("rb")
    if not hasattr(raw, "peek"):
        raw = io.BufferedReader(raw, BLOCK)
    start = raw.peek(4)[:4]
    codec = next((codec for codec, magic, _ in COMPRESSIONS if start.startswith(magic)), None)
    return raw, (raw if codec is None else _Decompressed(raw, codec))


def _first_block(file: Any, size: int) -> bytes:
    """Read at least a header and a row: a node with long lists may be larger than a block."""
    block = b""
    rows = b""
    while len(block) <= LONGEST_LINE and not rows[: _last_line_end(rows)].strip():
        more = file.read(max(size, len(block)))
        if not more:
            break
        block += more
        rows = block[_first_line_end(block) :]
    if block[:3] == b"\xef\xbb\xbf":
        block = block[3:]
    if block[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in block[:4096]:
        raise InputError("this is not text in UTF-8 (row 1). Save it as UTF-8, or name its --format.")
    if not block.strip():
        raise InputError("the file is empty: it does not even have a header.")
    if b"\n" not in block and b"\r" in block.rstrip(b"\r"):
        raise InputError("its lines end with a carriage return only, as on old Macs. Save it with other line ends.")
    return block


def _last_line_end(data: bytes) -> int:
    """Where the last complete line ends; line ends within quotes do not count."""
    n_quotes, end = data.count(b'"'), len(data)
    for _ in range(MAX_TRIES):
        at = data.rfind(b"\n", 0, end)
        if at < 0:
            return 0
        n_quotes -= data.count(b'"', at, end)
        if n_quotes % 2 == 0:
            return at + 1
        end = at
    ends = _line_ends(data[:end])
    return int(ends[-1]) if len(ends) else 0


def _first_line_end(data: bytes) -> int:
    """Where the first line that is not empty ends."""
    begin = start = len(data) - len(data.lstrip(b"\r\n"))
    n_quotes = 0
    for _ in range(MAX_TRIES):
        at = data.find(b"\n", start)
        if at < 0:
            return len(data)
        n_quotes += data.count(b'"', start, at)
        if n_quotes % 2 == 0:
            return at + 1
        start = at + 1
    ends = _line_ends(data[begin:])
    return begin + int(ends[0]) if len(ends) else len(data)


def _line_ends(data: bytes) -> Integers:
    """Where all complete lines end: for a quote with many line ends, which one by one would take minutes."""
    signs = np.frombuffer(data, np.uint8)
    quotes, ends = (np.flatnonzero(signs == ord(sign)) for sign in '"\n')
    outside: Integers = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return outside + 1


def _first_lines(block: bytes, size: int) -> bytes:
    """Complete lines from the start, up to ``size`` bytes, but at least one."""
    return block[: max(_last_line_end(block[:size]), _first_line_end(block))]


def _lines_of_rows(data: bytes, n_ends: int, n_rows: int) -> Integers:
    """Line of each row of a block, from 0 on; Arrow skips empty lines, and a cell in quotes may have several."""
    if n_ends + (not data.endswith(b"\n")) == n_rows:
        return np.arange(n_rows)
    signs = np.frombuffer(data, np.uint8)
    quotes, returns, ends = (np.flatnonzero(signs == ord(sign)) for sign in '"\r\n')
    starts, ends = np.append(0, ends + 1), np.append(ends, len(data))
    has_cells = ends - starts > np.searchsorted(returns, ends) - np.searchsorted(returns, starts)
    numbers = np.flatnonzero(has_cells & (np.searchsorted(quotes, starts) % 2 == 0))
    return numbers[np.minimum(np.arange(n_rows), len(numbers) - 1)]


def _spread(rows: Any, places: Mask) -> Any:
    """A table or an array with its rows at some places, and nulls at the others."""
    where = np.cumsum(places) - 1
    return rows.take(pa.array(where, mask=~places))


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _from_latin(column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    return pa.array([None if v is None else v.decode("utf-8").encode("latin-1") for v in values], pa.binary())


def _infer_delimiter(source: Source, line: bytes, decimal: str) -> str:
    if source.path is not None and ".tsv" in source.path.name.lower():
        return "\t"
    text = re.sub(b'"[^"]*"', b"", line).decode("utf-8", "replace")
    among = [sign for sign in DELIMITERS if sign != decimal]
    if any(sign in text for sign in among if sign != ","):
        text = re.sub(r"(?<=\d),(?=\d)", "", text)  # decimal commas, in a file that has no header
    return max(among, key=text.count)  # the first, a comma, where there is none


# -- cells ------------------------------------------------------------------------------------------------------------


def _split_cells(line: bytes, delimiter: str) -> list[str]:
    """Cells of the first line."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("the header (row 0) is not text in UTF-8. Save the file as UTF-8.") from None
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise InputError(f"the first line is not CSV: {error}.") from None


def _column_names(cells: list[str]) -> list[str]:
    """Names of the columns in a header; each must have one of its own."""
    names = [cell.strip() for cell in cells]
    if "" in names:
        raise InputError(f"column {names.index('') + 1} has no name in the header (row 0). Name it.")
    if (twice := repeated(names)) is not None:
        raise InputError(f"duplicate column name {twice!r} in the header (row 0).")
    return names


def _convert_cells(texts: pa.Array, type: pa.DataType, decimal: str) -> tuple[pa.Array, Mask]:
    """Convert a column of bytes; values that do not fit are null, and marked in a mask."""
    import pyarrow.compute as pc  # takes 40 ms, which other formats do without

    if is_list(type):
        return convert_texts(texts, type, None, lambda text: pa.scalar(json.loads(text), type).as_py())
    with contextlib.suppress(pa.ArrowInvalid):
        values, none = texts.cast(pa.string()), np.zeros(len(texts), bool)
        if type == pa.string():
            return values, none
        values = pc.utf8_trim_whitespace(values)
        if type == pa.int64():
            return _plain_integers(values), none
        if decimal == ".":
            return values.cast(type), none
    if type == pa.string():
        return convert_texts(texts, type, None, str)
    if type == pa.int64():
        return convert_texts(texts, type, PLAIN, _plain_integer)
    return convert_texts(texts, type, NUMBER if decimal == "." else None, lambda text: _number(text, decimal))


def _plain_integers(texts: Any) -> Any:
    """Convert texts to integers; ArrowInvalid if one has leading zeros or is no integer."""
    import pyarrow.compute as pc

    padded = pc.and_(pc.starts_with(texts, "0"), pc.greater(pc.binary_length(texts), 1))
    if pc.any(padded).as_py() or pc.any(pc.starts_with(texts, "-0")).as_py():
        raise pa.ArrowInvalid("A number is padded with zeros.")
    return texts.cast(pa.int64())


def _is_plain_integer(text: str) -> bool:
    """Whether a text is a 64-bit integer that is written as Python writes it."""
    return len(text) < 19 and text.isascii() and text.removeprefix("-").isdecimal() and str(int(text)) == text


def _plain_integer(text: str) -> int:
    if not _is_plain_integer(text.strip()):
        raise ValueError
    return int(text)


def _number(text: str, decimal: str) -> float | None:
    if "_" in text:  # which Python allows
        raise ValueError
    return float(_with_point(text, decimal)) if text.strip() else None


def _with_point(text: str, decimal: str) -> str:
    """Exchange the decimal sign and the point, so that a text with a point is no number."""
    return text.translate(str.maketrans(f"{decimal}.", f".{decimal}"))


# -- writing ----------------------------------------------------------------------------------------------------------


class CsvWriter:
    """Writes CSV; the ending of the name says how it is compressed, and the delimiter."""

    def __init__(self, path: Path, schema: pa.Schema, name: str) -> None:
        codec, ending = next(
            ((codec, ending) for codec, _, ending in COMPRESSIONS if name.endswith(ending)), (None, "")
        )
        self._out = pa.output_stream(path, compression=codec)
        self._delimiter = "\t" if name.removesuffix(ending).endswith(".tsv") else ","
        self._out.write((self._delimiter.join(map(_quoted, schema.names)) + "\n").encode())

    def write_table(self, table: pa.Table) -> None:
        """Append a table."""
        options = pacsv.WriteOptions(include_header=False, delimiter=self._delimiter)
        pacsv.write_csv(_as_text(table), self._out, options)

    def close(self) -> None:
        """Finish the file."""
        self._out.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if set(name) & set(',"\t\n\r') else name


def _as_text(table: pa.Table) -> pa.Table:
    """Encode lists as JSON, and decode dictionaries."""
    for j, field in enumerate(table.schema):
        if pa.types.is_nested(field.type):
            values = [json.dumps(value) for value in table.column(j).to_pylist()]
            table = table.set_column(j, field.name, pa.array(values))
        elif pa.types.is_dictionary(field.type):
            table = table.set_column(j, field.name, table.column(j).cast(field.type.value_type))
    return table


FORMAT = Format(
    endings=(*ENDINGS, *(ending + compressed for *_, compressed in COMPRESSIONS for ending in ENDINGS)),
    magic=tuple(magic for _, magic, _ in COMPRESSIONS),
    open=CsvFile,
    create=CsvWriter,
    is_text=True,
)
