"""Reads the usual OffsetFetch request, flexible versions 6 to 9: one group, some or all topics."""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

from coordinator_protocol.fields import short_text

FIRST_BATCHED: Final = 8
FIRST_WITH_EPOCH: Final = 9
FIRST_WITH_STABLE: Final = 7

_ONE: Final = 2
"""The compact count of an array with one element."""


def read_offset_fetch(
    buffer: bytes, at: int, end: int, version: int
) -> tuple[str, list[tuple[str, list[int]]] | None, bool] | None:
    """The group, the topics with their partitions (None for all) and whether to be stable.

    Returns None for an unusual request. Raises IndexError, struct.error or ValueError for bytes
    that are none.
    """
    is_batched = version >= FIRST_BATCHED
    if is_batched:
        if buffer[at] != _ONE:
            return None
        at += 1
    group_id, at = short_text(buffer, at)
    if version >= FIRST_WITH_EPOCH:
        at = (short_text(buffer, at)[1] if buffer[at] else at + 1) + 4
    topics, at = _topics(buffer, at, end)
    if is_batched:
        if buffer[at]:
            return None
        at += 1
    require_stable = False
    if version >= FIRST_WITH_STABLE:
        require_stable = buffer[at] != 0
        at += 1
    if buffer[at] or at + 1 != end:
        return None
    return group_id, topics, require_stable


def _topics(buffer: bytes, at: int, end: int) -> tuple[list[tuple[str, list[int]]] | None, int]:
    left = buffer[at] - 1
    at += 1
    if left < 0:
        return None, at
    if left >= 0x7F:
        raise ValueError("many topics")
    topics = []
    while left:
        left -= 1
        name, at = short_text(buffer, at)
        count = buffer[at]
        at += 1
        if count >= 0x80:
            high = buffer[at]
            at += 1
            if high >= 0x80:
                raise ValueError("many partitions")
            count = count & 0x7F | high << 7
        if not count or at + 4 * (count - 1) >= end:
            raise ValueError("null, or more partitions than bytes")
        count -= 1
        topics.append((name, list(_indexes(count)(buffer, at))))
        at += 4 * count
        if buffer[at]:
            raise ValueError("tagged fields")
        at += 1
    return topics, at


@lru_cache(maxsize=128)
def _indexes(count: int) -> Callable[[bytes, int], tuple[int, ...]]:
    return Struct(f">{count}i").unpack_from
