"""What the bytes of a saved summary claim to hold, before anything is allocated."""

import struct

# Where the messages of an Arrow IPC file begin, and how each of them does.
STREAM = 8
MARKER = b"\xff" * 4
# Numbers in Arrow's format: types of messages, and fields of its tables.
SCHEMA, RECORD_BATCH = 1, 3
HEADER_TYPE, HEADER, BODY_LENGTH, BUFFERS, COMPRESSION = 1, 2, 3, 2, 3
# Decompressed bytes that a file may always claim; more only at this ratio to its own.
MAX_CLAIM, MAX_RATIO = 1 << 27, 1000


def claims_too_much(data: bytes) -> bool:
    """Whether the columns of a file would take far more memory than its bytes can hold, by what their buffers claim.

    A compressed buffer begins with its length. pyarrow would allocate it before it notices that the data ends. Raises
    an error of any kind if the messages are none that a summary has.
    """
    at, claimed = STREAM, 0

    def number(at: int, code: str) -> int:
        return int(struct.unpack_from(f"<{code}", data, at)[0])

    def field(table: int, index: int) -> int:
        """Where a field of a table in Arrow's metadata (FlatBuffers) is; 0 if it is not there."""
        fields = table - number(table, "i")
        offset = number(fields + 4 + 2 * index, "H") if 4 + 2 * index < number(fields, "H") else 0
        return table + offset if offset else 0

    while (n_metadata := number(at + 4, "i")) > 0:
        body = at + 8 + n_metadata
        message = at + 8 + number(at + 8, "I")
        kind = data[field(message, HEADER_TYPE)]
        # pyarrow would also read messages without the marker, and dictionaries.
        if data[at : at + 4] != MARKER or kind not in (SCHEMA, RECORD_BATCH):
            raise ValueError("a message is not of a summary")
        if kind == RECORD_BATCH:
            batch = field(message, HEADER)
            batch += number(batch, "I")
            if field(batch, COMPRESSION) and (buffers := field(batch, BUFFERS)):
                buffers += number(buffers, "I")
                for i in range(number(buffers, "I")):
                    start, length = struct.unpack_from("<qq", data, buffers + 4 + 16 * i)
                    claimed += max(0, number(body + start, "q")) if length >= 8 else 0
        length = field(message, BODY_LENGTH)
        at = body + max(0, number(length, "q") if length else 0)
    if data[at : at + 4] != MARKER:
        raise ValueError("the messages do not end")
    return claimed > max(MAX_CLAIM, MAX_RATIO * len(data))
