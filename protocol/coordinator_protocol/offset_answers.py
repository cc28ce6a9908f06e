"""Answers to OffsetCommit and OffsetFetch, written without making objects of their partitions.

They may have thousands of partitions, and are the same bytes the encoders of their messages write.
An offset goes from its record into the answer as it is: both have offset, leader epoch and metadata
one after another in the same form.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from coordinator_protocol.encoder import string_length
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.offset_commit import OffsetCommitRequestTopic
from coordinator_protocol.offset_value import decode_offset, is_plain_offset
from coordinator_protocol.varints import uvarint

COMMIT_FLEXIBLE: Final = 8
FETCH_FLEXIBLE: Final = 6
FETCH_BATCHED: Final = 8

ROWS_AT_ONCE: Final = 256
"""Partitions of one piece of a long answer."""

Found = bytes | ErrorCode | None
"""An offset as its record has it, the error why it is not told, or None where there is none."""

_int = Struct(">i").pack
_long = Struct(">q").pack
_short = Struct(">h").pack
_usual_row = Struct(">i13s3x").pack
"""Partition, offset with leader epoch and no metadata, no error."""
_epoch_end = Struct(">qi").pack
_NO_OFFSET: Final = _epoch_end(-1, -1) + b"\1"
"""Offset -1, leader epoch -1, empty metadata."""
_NO_ERROR: Final = b"\0\0\0"
"""Error 0 and no tagged fields."""


def commit_accepted(version: int, topics: Iterable[OffsetCommitRequestTopic]) -> bytes:
    """The body of an OffsetCommit response (2-9) in which no partition has an error."""
    parts = [_int(0)] if version >= 3 else []
    topics = list(topics)
    flexible = version >= COMMIT_FLEXIBLE
    parts.append(uvarint(len(topics) + 1) if flexible else _int(len(topics)))
    for topic in topics:
        indexes = tuple([given.partition_index for given in topic.partitions])
        write = _usual_topic if len(indexes) <= _MOST_REMEMBERED else _accepted_topic
        parts.append(write(topic.name, indexes, flexible))
    if flexible:
        parts.append(b"\0")
    return b"".join(parts)


def _accepted_topic(name: str, indexes: Sequence[int], flexible: bool) -> bytes:
    if flexible:
        rows = b"".join([_int(index) + _NO_ERROR for index in indexes])
        return _compact(name) + uvarint(len(indexes) + 1) + rows + b"\0"
    raw = name.encode()
    rows = b"".join([_int(index) + b"\0\0" for index in indexes])
    return _short(len(raw)) + raw + _int(len(indexes)) + rows


_MOST_REMEMBERED: Final = 100
_usual_topic = lru_cache(maxsize=4_096)(_accepted_topic)
"""Clients commit the same few partitions again and again."""


def fetched_topics(topics: Sequence[tuple[str, Sequence[tuple[int, Found]]]]) -> bytes:
    """The array of topics of a flexible OffsetFetch response (6-9)."""
    parts = [uvarint(len(topics) + 1)]
    for name, offsets in topics:
        parts += (_compact(name), uvarint(len(offsets) + 1))
        parts += _rows(offsets)
        parts.append(b"\0")
    return b"".join(parts)


def _rows(offsets: Sequence[tuple[int, Found]]) -> list[bytes]:
    return [
        # What nearly all are: version 4 without metadata or tags.
        _usual_row(partition, found[2:15])
        if type(found) is bytes and len(found) == 24 and found[1] == 4 and found[14] == 1
        else _int(partition) + _fetched(found)
        for partition, found in offsets
    ]


def _fetched(found: Found) -> bytes:
    if found is None:
        return _NO_OFFSET + _NO_ERROR
    if isinstance(found, bytes):
        if is_plain_offset(found):
            return found[2 : 14 + found[14]] + _NO_ERROR
        value = decode_offset(found)
        return _epoch_end(value.offset, value.leader_epoch) + _compact(value.metadata) + _NO_ERROR
    return _NO_OFFSET + _short(found) + b"\0"


def fetched_group(
    group_id: str, topics: Sequence[tuple[str, Sequence[tuple[int, Found]]]], error: ErrorCode
) -> bytes:
    """One group of an OffsetFetch response from version 8 on."""
    return _compact(group_id) + fetched_topics(topics) + _short(error) + b"\0"


def fetched_alone(
    topics: Sequence[tuple[str, Sequence[tuple[int, Found]]]], error: ErrorCode
) -> bytes:
    """The body of an OffsetFetch response of version 6 or 7, which has but one group."""
    return _int(0) + fetched_topics(topics) + _short(error) + b"\0"


def fetched_in_pieces(
    version: int,
    group_id: str,
    topics: Sequence[tuple[str, Sequence[tuple[int, Found]]]],
    error: ErrorCode,
) -> Iterator[bytes]:
    """One group of an OffsetFetch response, bit by bit; before version 8 its whole body."""
    flexible = version >= FETCH_FLEXIBLE
    if version >= FETCH_BATCHED:
        yield _compact(group_id)
    elif version >= 3:
        yield _int(0)
    yield uvarint(len(topics) + 1) if flexible else _int(len(topics))
    for name, offsets in topics:
        count = len(offsets)
        yield _compact(name) + uvarint(count + 1) if flexible else _plain(name) + _int(count)
        for at in range(0, count, ROWS_AT_ONCE):
            some = offsets[at : at + ROWS_AT_ONCE]
            yield b"".join(_rows(some) if flexible else [_plain_row(version, *row) for row in some])
        if flexible:
            yield b"\0"
    if version >= 2:
        yield _short(error) + (b"\0" if flexible else b"")


def _plain_row(version: int, partition: int, found: Found) -> bytes:
    """A partition in a response before version 6."""
    offset, epoch, metadata, error = -1, -1, b"", 0
    if isinstance(found, bytes):
        value = decode_offset(found)
        offset, epoch, metadata = value.offset, value.leader_epoch, value.metadata.encode()
    elif found is not None:
        error = found
    place = _int(partition) + (_epoch_end(offset, epoch) if version >= 5 else _long(offset))
    return place + _short(len(metadata)) + metadata + _short(error)


def _plain(text: str) -> bytes:
    raw = text.encode()
    return _short(len(raw)) + raw


def fetched(groups: Sequence[bytes]) -> bytes:
    """The body of an OffsetFetch response from version 8 on."""
    return b"".join((_int(0), uvarint(len(groups) + 1), *groups, b"\0"))


def _compact(text: str) -> bytes:
    raw = text.encode()
    return string_length(len(raw) + 1) + raw
