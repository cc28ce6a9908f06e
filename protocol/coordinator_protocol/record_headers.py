"""The headers of a record, as they stand in it."""

from collections.abc import Sequence
from typing import Final

from coordinator_protocol.varints import TABULATED, VARINTS, varint

Header = tuple[str, bytes]
PackedHeaders = bytes
"""The number of headers, then each of them."""
NO_HEADERS: Final = b"\0"


def packed_headers(headers: Sequence[Header]) -> PackedHeaders:
    """Headers as they stand in a record."""
    if not headers:
        return NO_HEADERS
    parts = [varint(len(headers))]
    for name, blob in headers:
        parts += (sized(name.encode()), sized(blob))
    return b"".join(parts)


def sized(raw: bytes) -> bytes:
    """Bytes behind their length, as names and values stand in headers."""
    size = len(raw)
    return (VARINTS[size] if size < TABULATED else varint(size)) + raw
