"""Finds the batches in the bytes of a log, and what is damaged between them."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator_protocol.batch import HEADER_BYTES, MAGIC, BatchHeader, check_crc, read_header
from coordinator_protocol.errors import Malformed

LARGEST_DELTA = (1 << 31) - 1
"""Offsets of a segment are at most so far from its first one."""


class Span(NamedTuple):
    """A batch whose checksum is right, and where it begins in the bytes."""

    position: int
    header: BatchHeader


@dataclass(slots=True)
class Walk:
    """The batches of some bytes, in order."""

    spans: list[Span] = field(default_factory=list)
    end: int = 0
    """Position behind the last of them."""
    next_offset: int = 0
    """The offset behind the last of them."""
    fault: str | None = None
    """Why no batch begins at `end`; None where the bytes merely end there or within a batch."""


def walk(buffer: bytes, at: int = 0, next_offset: int = 0, largest: int = (1 << 63) - 1) -> Walk:
    """Whole batches from a position on, up to the first damage; offsets rise, up to `largest`.

    No checksum covers offsets.
    """
    found = Walk(end=at, next_offset=next_offset)
    size = len(buffer)
    while size - at >= HEADER_BYTES:
        try:
            header = read_header(buffer, at)
            if header.size > size - at:
                return found
            check_crc(header, buffer, at)
        except Malformed as error:
            found.fault = str(error)
            return found
        if not found.next_offset <= header.base_offset <= largest:
            expected = f"expected {found.next_offset} to {largest}"
            found.fault = f"a batch at offset {header.base_offset}, {expected}"
            return found
        found.spans.append(Span(at, header))
        found.next_offset = header.last_offset + 1
        found.end = at = at + header.size
    return found


def next_whole(buffer: bytes, begin: int, next_offset: int) -> int | None:
    """Where the first whole batch begins, from a position on, that may follow `next_offset`."""
    magics = np.frombuffer(buffer, np.uint8, offset=min(begin + 16, len(buffer)))
    positions: list[int] = (np.flatnonzero(magics == MAGIC) + begin).tolist()
    return next((at for at in positions if is_whole(buffer, at, next_offset)), None)


def is_whole(buffer: bytes, at: int, next_offset: int) -> bool:
    """Whether a batch with a right checksum begins here that may follow `next_offset`."""
    try:
        header = read_header(buffer, at)
        if not 0 <= header.base_offset - next_offset <= LARGEST_DELTA:
            return False
        check_crc(header, buffer, at)
    except Malformed:
        return False
    return True
