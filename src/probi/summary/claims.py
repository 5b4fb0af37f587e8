"""What the messages of Arrow IPC claim to hold, before anything is allocated.

A compressed buffer begins with its length. pyarrow would allocate it before it notices that the data ends.
"""

import struct
from typing import Any

# Where the messages of an Arrow IPC file begin, and how each of them does.
STREAM = 8
MARKER = b"\xff" * 4
# Numbers in Arrow's format: types of messages, and fields of its tables.
SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3
HEADER_TYPE, HEADER, BODY_LENGTH = 1, 2, 3
DATA, LENGTH, BUFFERS, COMPRESSION = 1, 0, 2, 3
# Decompressed bytes that may always be claimed; more only at this ratio to the bytes that are there.
MAX_CLAIM, MAX_RATIO = 1 << 27, 250


def claims_too_much(data: bytes) -> bool:
    """Whether the columns of a summary would take far more memory than its bytes can hold.

    Raises an error of any kind if the messages are none that a summary has.
    """
    at, claimed = STREAM, 0
    while number(data, at + 4, "i") > 0:
        kind, more, _, end = message_claims(data, at)
        # pyarrow would also read messages without the marker, and dictionaries.
        if data[at : at + 4] != MARKER or kind not in (SCHEMA, RECORD_BATCH):
            raise ValueError("a message is not of a summary")
        at, claimed = end, claimed + more
    if data[at : at + 4] != MARKER:
        raise ValueError("the messages do not end")
    return exceeds(claimed, len(data))


def exceeds(claimed: int, stored: int) -> bool:
    """Whether so many bytes cannot be meant in so few."""
    return claimed > max(MAX_CLAIM, MAX_RATIO * stored)


def message_claims(data: Any, at: int) -> tuple[int, int, int, int]:
    """Type of the message at a place, decompressed bytes of its columns, bytes of its body, and where it ends.

    ``data`` are bytes, or have slices that are. A message before Arrow 0.15 has no marker.
    """
    at += 4 if data[at : at + 4] == MARKER else 0
    body = at + 4 + number(data, at, "i")
    message = at + 4 + number(data, at + 4, "I")
    kind = number(data, _field(data, message, HEADER_TYPE), "B")
    length = _field(data, message, BODY_LENGTH)
    n_body = max(0, number(data, length, "q") if length else 0)
    claimed = 0
    if kind in (DICTIONARY, RECORD_BATCH):
        batch = _table(data, message, HEADER)
        claimed = _batch_claims(data, _table(data, batch, DATA) if kind == DICTIONARY else batch, body)
    return kind, claimed, n_body, body + n_body


def _batch_claims(data: Any, batch: int, body: int) -> int:
    length = _field(data, batch, LENGTH)
    claimed = 8 * number(data, length, "q") if length else 0  # columns of nulls have no buffers
    buffers = _field(data, batch, BUFFERS)
    if not _field(data, batch, COMPRESSION) or not buffers:
        return claimed
    buffers += number(data, buffers, "I")
    of_buffers = 0
    for i in range(number(data, buffers, "I")):
        place = buffers + 4 + 16 * i
        start, n_bytes = struct.unpack("<qq", data[place : place + 16])
        of_buffers += max(0, number(data, body + start, "q")) if n_bytes >= 8 else 0
    return max(claimed, of_buffers)


# -- Arrow's metadata (FlatBuffers) ----------------------------------------------------------------------------------


def number(data: Any, at: int, code: str) -> int:
    """Number at a place."""
    return int(struct.unpack(f"<{code}", data[at : at + struct.calcsize(code)])[0])


def _field(data: Any, table: int, index: int) -> int:
    """Where a field of a table is; 0 if it is not there."""
    fields = table - number(data, table, "i")
    offset = number(data, fields + 4 + 2 * index, "H") if 4 + 2 * index < number(data, fields, "H") else 0
    return table + offset if offset else 0


def _table(data: Any, table: int, index: int) -> int:
    """Where the table is to which a field refers."""
    at = _field(data, table, index)
    return at + number(data, at, "I")


def block_places(data: Any, n_bytes: int) -> list[int]:
    """Where the footer of a file of this many bytes says that dictionaries and batches begin."""
    footer = n_bytes - 10 - number(data, n_bytes - 10, "i")
    footer += number(data, footer, "I")
    places = []
    for index in (2, 3):  # fields of the footer: dictionaries and record batches
        if _field(data, footer, index):
            blocks = _table(data, footer, index)
            places += [number(data, blocks + 4 + 24 * i, "q") for i in range(number(data, blocks, "I"))]
    return places
