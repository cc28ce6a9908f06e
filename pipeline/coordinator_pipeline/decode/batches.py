"""Finds the whole batches in the bytes of a log, and the damage between them."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator_protocol.batch import HEADER_BYTES, MAGIC, BatchHeader, check_crc, read_header
from coordinator_protocol.errors import Malformed

LARGEST_DELTA = (1 << 31) - 1
"""Kafka's limit on the distance of an offset from the base offset of its segment."""


class BatchSpan(NamedTuple):
    """A batch with a correct checksum, and its position in the bytes."""

    position: int
    header: BatchHeader


@dataclass(slots=True)
class BatchWalk:
    """The whole batches found in a buffer, in order."""

    spans: list[BatchSpan] = field(default_factory=list)
    end: int = 0
    """Position after the last batch."""
    next_offset: int = 0
    """The offset after the last batch."""
    fault: str | None = None
    """Why no batch begins at `end`; None if the buffer ends there or within a batch."""


def walk_batches(
    buffer: bytes, at: int = 0, next_offset: int = 0, largest: int = (1 << 63) - 1
) -> BatchWalk:
    """Collect whole batches from position `at` to the first damage.

    Base offsets must rise from `next_offset` and stay at or below `largest`: no checksum covers
    them.
    """
    found = BatchWalk(end=at, next_offset=next_offset)
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
            found.fault = f"a batch has base offset {header.base_offset}, {expected}"
            return found
        found.spans.append(BatchSpan(at, header))
        found.next_offset = header.last_offset + 1
        found.end = at = at + header.size
    return found


def find_whole_batch(buffer: bytes, begin: int, next_offset: int) -> int | None:
    """Find the first whole batch from position `begin` on that may follow `next_offset`."""
    magics = np.frombuffer(buffer, np.uint8, offset=min(begin + 16, len(buffer)))
    positions: list[int] = (np.flatnonzero(magics == MAGIC) + begin).tolist()
    return next((at for at in positions if is_whole_batch(buffer, at, next_offset)), None)


def is_whole_batch(buffer: bytes, at: int, next_offset: int) -> bool:
    """Whether a batch with a correct checksum begins at `at` that may follow `next_offset`."""
    try:
        header = read_header(buffer, at)
        if not 0 <= header.base_offset - next_offset <= LARGEST_DELTA:
            return False
        check_crc(header, buffer, at)
    except Malformed:
        return False
    return True
