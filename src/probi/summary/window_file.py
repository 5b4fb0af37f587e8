"""A window as bytes: a ZIP archive with one file per summary, and a JSON header.

The archive is not compressed (the summaries are), so that any unzip can extract them. Its comment is a checksum of the
whole archive, computed with zeros in place of the checksum itself.
"""

import hashlib
import io
import json
import re
import zipfile
from typing import Any

from probi.errors import InputError

# 2 added max_ahead and n_ahead; 3 the whole config of the summaries.
FORMAT = 3
READABLE = (1, 2, 3)
CHECKSUM = re.compile(rb"probi-window-sha256:([0-9a-f]{64})\Z")
NO_CHECKSUM = b"probi-window-sha256:" + b"0" * 64
HEADER = "window.json"

# Timestamp of all members: equal states give the same bytes at any time.
NO_TIME = (1980, 1, 1, 0, 0, 0)


def pack(header: dict[str, Any], summaries: dict[int, bytes]) -> bytes:
    """Write a window: its header, and its summaries by period number."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps({"format": FORMAT, **header, "numbers": sorted(summaries)}, indent=1)
        archive.writestr(zipfile.ZipInfo(HEADER, NO_TIME), text)
        for number in sorted(summaries):
            archive.writestr(zipfile.ZipInfo(_name(number), NO_TIME), summaries[number])
        archive.comment = NO_CHECKSUM
    data = sink.getvalue()
    return CHECKSUM.sub(b"probi-window-sha256:" + hashlib.sha256(data).hexdigest().encode(), data)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[int, bytes]]:
    """Read what :func:`pack` wrote, or raise an InputError."""
    if data.startswith(b"ARROW1") and b"probi-sha256:" in data:
        raise InputError("This is a Summary, not a Window: probi.Summary.load reads it.")
    stated = CHECKSUM.search(data)
    if stated is None:
        raise InputError("Not a probi window, or an incomplete one: it does not end with a checksum.")
    if hashlib.sha256(CHECKSUM.sub(NO_CHECKSUM, data)).hexdigest().encode() != stated[1]:
        raise InputError("The window is damaged or incomplete: its checksum does not match.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
                raise InputError("Not a valid probi window: its parts are compressed.")
            header = json.loads(archive.read(HEADER))
            if header["format"] not in READABLE:
                raise InputError(
                    f"The window has format {header['format']}, but this version of probi reads up to {READABLE[-1]}."
                )
            return header, {number: archive.read(_name(number)) for number in header["numbers"]}
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Not a valid probi window: {error!r}.") from None


def is_window(data: bytes) -> bool:
    """Whether bytes begin like a window; :func:`unpack` then reports what is wrong with them."""
    # In a ZIP archive the name of the first member follows its header of 30 bytes.
    return data.startswith(b"PK") and data[30 : 30 + len(HEADER)] == HEADER.encode()


def _name(number: int) -> str:
    return f"period{number:+d}.probi"
