"""Reads bytes of segment files, which may shrink at any time."""

import os
from struct import Struct
from typing import Final, NamedTuple

from coordinator_protocol.batch import HEADER_BYTES, LOG_OVERHEAD

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""The size of one read: a few hundred thousand records."""
_STARTS = Struct(">qi").unpack_from
_DELTA = Struct(">i").unpack_from
_DELTA_AT: Final = 23


class SegmentReadError(OSError):
    """The operating system could not read a segment file."""

    def __init__(self, error: OSError, descriptor: int, at: int) -> None:
        super().__init__(error.errno, error.strerror)
        self.descriptor = descriptor
        self.at = at


def read_at(descriptor: int, at: int, size: int) -> bytes:
    """Read `size` bytes from a position, or up to the end of the file. Raises SegmentReadError."""
    data = b""
    try:
        while len(data) < size and (more := os.pread(descriptor, size - len(data), at + len(data))):
            data += more
    except OSError as error:
        raise SegmentReadError(error, descriptor, at + len(data)) from None
    return data


def find_batch(descriptor: int, offset: int, at: int = 0) -> int:
    """Find the first batch from position `at` on that ends at or after an offset.

    The search reads lengths and offsets only and stops at damage, which `range_reader` reports.
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


class SegmentTail(NamedTuple):
    """The last batch that the lengths of batches lead to."""

    next_offset: int
    """The offset after the last batch."""
    last: int
    """The position of that batch; 0 if there is none."""
    end: int
    """The position after it: before the end of the file if something else follows."""


def find_tail(descriptor: int, next_offset: int, at: int = 0) -> SegmentTail:
    """Follow the lengths of batches from a position on, without checking checksums."""
    size, last = os.fstat(descriptor).st_size, 0
    while size - at >= HEADER_BYTES:
        buffer = read_at(descriptor, at, min(CHUNK_BYTES, size - at))
        position = 0
        while len(buffer) - position >= HEADER_BYTES:
            base_offset, length = _STARTS(buffer, position)
            behind = at + position + LOG_OVERHEAD + length
            if length < HEADER_BYTES - LOG_OVERHEAD or behind > size:
                return SegmentTail(next_offset, last, at + position)
            last = at + position
            next_offset = base_offset + _DELTA(buffer, position + _DELTA_AT)[0] + 1
            position = behind - at
        if position == 0:
            break
        at += position
    return SegmentTail(next_offset, last, at)
