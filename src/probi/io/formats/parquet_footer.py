"""What the footer of a Parquet file says of its columns, read without pyarrow.

pyarrow ends the process when it is asked for a column whose entry in the footer is inconsistent. Reading such a column
raises an error instead, but then its memory has been allocated.
"""

import os
from typing import Any, NamedTuple

from probi.errors import InputError

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
