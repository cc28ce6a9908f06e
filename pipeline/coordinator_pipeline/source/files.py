"""Bytes of segment files, read without trusting that they stay as long as they were."""

import os
from struct import Struct
from typing import Final, NamedTuple

from coordinator_protocol.batch import HEADER_BYTES, LOG_OVERHEAD

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Read at once; some hundred thousand records."""
_STARTS = Struct(">qi").unpack_from
_DELTA = Struct(">i").unpack_from
_DELTA_AT: Final = 23


class Unreadable(OSError):
    """The disk, or whatever the file is on, does not give what is in it."""

    def __init__(self, error: OSError, descriptor: int, at: int) -> None:
        super().__init__(error.errno, error.strerror)
        self.descriptor = descriptor
        self.at = at


def read_at(descriptor: int, at: int, size: int) -> bytes:
    """Up to `size` bytes from a position; fewer only where the file ends. Raises Unreadable."""
    data = b""
    try:
        while len(data) < size and (more := os.pread(descriptor, size - len(data), at + len(data))):
            data += more
    except OSError as error:
        raise Unreadable(error, descriptor, at + len(data)) from None
    return data


def skip_to(descriptor: int, offset: int, at: int = 0) -> int:
    """Position of the first batch from `at` on that ends at or behind an offset.

    Only lengths and offsets are looked at: damage ends the way, for a thorough reader to judge.
    """
    size = os.fstat(descriptor).st_size
    while size - at >= HEADER_BYTES:
        buffer = read_at(descriptor, at, min(CHUNK_BYTES, size - at))
        begin, position = at, 0
        while len(buffer) - position >= HEADER_BYTES:
            base_offset, length = _STARTS(buffer, position)
            delta = _DELTA(buffer, position + _DELTA_AT)[0]
            if base_offset + delta >= offset or length < HEADER_BYTES - LOG_OVERHEAD or delta < 0:
                return begin + position
            if begin + position + LOG_OVERHEAD + length > size:
                return begin + position
            position += LOG_OVERHEAD + length
        at = begin + position
        if len(buffer) < HEADER_BYTES:
            break
    return at


class Tail(NamedTuple):
    """How far the way from batch to batch leads."""

    next_offset: int
    """The offset behind the last batch."""
    last: int
    """Where that batch begins; 0 if there is none."""
    end: int
    """Where it ends: before the end of the file if something else follows."""


def find_tail(descriptor: int, next_offset: int, at: int = 0) -> Tail:
    """Follow the lengths of batches from a position on, trusting them; nothing else is read."""
    size, last = os.fstat(descriptor).st_size, 0
    while size - at >= HEADER_BYTES:
        buffer = read_at(descriptor, at, min(CHUNK_BYTES, size - at))
        position = 0
        while len(buffer) - position >= HEADER_BYTES:
            base_offset, length = _STARTS(buffer, position)
            behind = at + position + LOG_OVERHEAD + length
            if length < HEADER_BYTES - LOG_OVERHEAD or behind > size:
                return Tail(next_offset, last, at + position)
            last = at + position
            next_offset = base_offset + _DELTA(buffer, position + _DELTA_AT)[0] + 1
            position = behind - at
        if position == 0:
            break
        at += position
    return Tail(next_offset, last, at)
