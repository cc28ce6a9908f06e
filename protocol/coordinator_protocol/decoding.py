"""Functions of compiled decoders for unusual fields: broken text, long, null or unknown ones.

What reads returns the position behind it, which may lie beyond the end of the frame: the decoder
looks at that when it is done.
"""

import codecs
import re
from typing import Final

from coordinator_protocol.errors import Malformed, TooManyElements

MAX_STRING: Final = 0x7FFF
"""The longest string in bytes, also where the length could say more."""


_ENCODED_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")


def _repair(error: UnicodeError) -> tuple[str, int]:
    """Replace malformed UTF-8 as Java does: like Python, but one mark for an encoded surrogate.

    It does all the rest at once, for a call per malformed byte would be slow.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    rest = _ENCODED_SURROGATE.sub(b"\xff", error.object[error.start :])
    return rest.decode("utf-8", "replace"), len(error.object)


codecs.register_error("kafka", _repair)


def uvarint(buffer: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint as Java's 32-bit int (it may be negative), and the position behind it.

    Raises:
        IndexError: the buffer ends.
        Malformed: it has more than five bytes.
    """
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value if value < 1 << 31 else value - (1 << 32)), at
    raise Malformed("a varint of more than 5 bytes")


def compact_length(buffer: bytes, at: int) -> tuple[int, int]:
    """A compact length or count, negative for null, and the position behind it."""
    value, at = uvarint(buffer, at)
    return (value - 1 if value > -(1 << 31) else (1 << 31) - 1), at


def null(name: str) -> Malformed:
    """The refusal of a null where the schema has none."""
    return Malformed(f"{name} is null, which its version does not allow")


def bad_count(name: str, count: int, left: int) -> Malformed:
    """The refusal of a count that the bytes left cannot hold."""
    if count < 0:
        return null(name)
    return Malformed(f"{name} claims {count} elements in {max(left, 0)} bytes")


def too_many(what: str, most: int) -> TooManyElements:
    """The refusal of a message with more elements than are served."""
    return TooManyElements(f"more than {most} {what}, at most {most} are served in one request")


def long_string(buffer: bytes, at: int, name: str, nullable: bool) -> tuple[str | None, int]:
    """A compact string whose length is null or has several bytes."""
    value, end = long_bytes(buffer, at, name, nullable, MAX_STRING)
    return (None if value is None else value.decode("utf-8", "kafka")), end


def long_bytes(
    buffer: bytes, at: int, name: str, nullable: bool, limit: int = 1 << 31
) -> tuple[bytes | None, int]:
    """Compact bytes whose length is null or has several bytes."""
    length, at = compact_length(buffer, at)
    if length > limit:
        raise Malformed(f"{name} has {length} bytes, at most {limit} are allowed")
    if length >= 0:
        return buffer[at : at + length], at + length
    if not nullable:
        raise null(name)
    return None, at


def skip_tagged_fields(buffer: bytes, at: int, end: int) -> int:
    """The position behind a section of tagged fields."""
    count, at = uvarint(buffer, at)
    if count * 2 > max(end - at, 0):
        raise bad_count("the section of tagged fields", count, end - at)
    for _ in range(count):
        _, at = uvarint(buffer, at)
        size, at = uvarint(buffer, at)
        at = skip(at, end, size)
    return at


def skip(at: int, end: int, size: int) -> int:
    """The position behind an unknown tagged field."""
    if not 0 <= size <= end - at:
        raise Malformed(f"a tagged field claims {size} bytes of {max(end - at, 0)}")
    return at + size
