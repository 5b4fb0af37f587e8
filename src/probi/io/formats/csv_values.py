"""Cells of CSV: the header, numbers, and columns of values."""

import csv
import io
import json
from typing import Any

import numpy as np
import pyarrow as pa

from probi._types import Mask
from probi.errors import InputError
from probi.tables.to_arrays import NUMBER, PLAIN, convert_texts

# -- a header and types ---------------------------------------------------------------------------------------------


def split_cells(line: bytes, delimiter: str) -> list[str]:
    """Cells of the first line."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("the header (row 0) is not text in UTF-8. Save the file as UTF-8.") from None
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise InputError(f"the first line is not CSV: {error}.") from None


def column_names(cells: list[str]) -> list[str]:
    """Names of the columns in a header; each must have one of its own."""
    names = [cell.strip() for cell in cells]
    for j, name in enumerate(names):
        if not name:
            raise InputError(f"column {j + 1} has no name in the header (row 0). Name it.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"duplicate column name {twice[0]!r} in the header (row 0).")
    return names


def is_number_text(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_plain_integer(text: str) -> bool:
    """Whether a text is a 64-bit integer that is written as Python writes it."""
    return len(text) < 19 and text.isascii() and text.lstrip("-").isdecimal() and str(int(text)) == text


# -- values -----------------------------------------------------------------------------------------------------------


def convert_cells(texts: pa.Array, type: pa.DataType, decimal: str) -> tuple[pa.Array, Mask]:
    """Convert a column of bytes; values that do not fit are null, and marked in a mask."""
    if pa.types.is_list(type):
        return _convert_each(texts, type, lambda text: pa.scalar(json.loads(text), type).as_py())
    import pyarrow.compute as pc  # takes 40 ms, which other formats do without

    try:
        values = texts.cast(pa.string())
        if type == pa.string():
            return values, np.zeros(len(texts), bool)
        values = pc.utf8_trim_whitespace(values)
        if type == pa.int64() or decimal == ".":
            return (plain_integers(values) if type == pa.int64() else values.cast(type)), np.zeros(len(texts), bool)
    except pa.ArrowInvalid:
        pass
    if type == pa.string():
        return _convert_each(texts, type, str)
    if type == pa.int64():
        return convert_texts(texts, type, PLAIN, _plain_integer)
    return convert_texts(texts, type, NUMBER if decimal == "." else None, lambda text: _number(text, decimal))


def plain_integers(texts: Any) -> Any:
    """Convert texts to integers; ArrowInvalid if one has leading zeros or is no integer."""
    import pyarrow.compute as pc

    padded = pc.and_(pc.starts_with(texts, "0"), pc.greater(pc.binary_length(texts), 1))
    if pc.any(padded).as_py() or pc.any(pc.starts_with(texts, "-0")).as_py():
        raise pa.ArrowInvalid("A number is padded with zeros.")
    return texts.cast(pa.int64())


def _plain_integer(text: str) -> int:
    if not is_plain_integer(text.strip()):
        raise ValueError
    return int(text)


def _number(text: str, decimal: str) -> float | None:
    if "_" in text:  # which Python allows
        raise ValueError
    text = text if decimal == "." else with_point(text, decimal)
    return float(text) if text.strip() else None


def with_point(text: str, decimal: str) -> str:
    """Exchange the decimal sign and the point, so that a text with a point is no number."""
    return text.translate(str.maketrans(f"{decimal}.", f".{decimal}"))


def _convert_each(texts: pa.Array, type: pa.DataType, convert: Any) -> tuple[pa.Array, Mask]:
    values: list[Any] = []
    bad = np.zeros(len(texts), bool)
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else convert(text.decode("utf-8")))
        except (ValueError, TypeError, pa.ArrowException):
            values.append(None)
            bad[row] = True
    return pa.array(values, type), bad
