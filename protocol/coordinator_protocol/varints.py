"""Kafka's varints: unsigned ones in messages, zigzag ones in the records of a batch."""

from typing import Final

from coordinator_protocol.errors import Malformed

ONE_BYTE: Final = tuple([bytes((number,)) for number in range(0x80)])
"""The unsigned varints that nearly every length is."""


def uvarint(number: int) -> bytes:
    """The varint of a number that is not negative."""
    if number < 0x80:
        return ONE_BYTE[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


TABULATED: Final = 1024
"""The lengths and deltas that nearly every record has."""
VARINTS: Final = [uvarint(number << 1) for number in range(TABULATED)]
"""Zigzag varints by their number."""


def varint(number: int) -> bytes:
    """A zigzag varint."""
    if 0 <= number < TABULATED:
        return VARINTS[number]
    return uvarint(number << 1 if number >= 0 else (-number << 1) - 1)


def read_varint(body: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of at most 10 bytes, and where it ends. Raises Malformed, IndexError."""
    byte = body[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number = byte & 0x7F
    shift = 7
    while byte > 0x7F:
        if shift > 63:
            raise Malformed("a varint of more than 10 bytes")
        byte = body[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), at
