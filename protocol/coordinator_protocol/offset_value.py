"""The value of a committed offset in the coordinator's log, as bytes and as an object.

A load, a commit and a fetch are made of these: what nearly all have in common is read and written
without looking at each field.
"""

import struct
from dataclasses import dataclass
from typing import Final

from coordinator_protocol.errors import Malformed
from coordinator_protocol.reader import Reader, Tag
from coordinator_protocol.varints import uvarint
from coordinator_protocol.writing import tag_bytes, text_bytes

NO_TOPIC_ID: Final = bytes(16)
TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field: number 0, of 16 bytes."""


@dataclass(slots=True)
class OffsetCommitValue:
    """A committed offset; timestamps in milliseconds since the epoch."""

    offset: int
    leader_epoch: int
    """-1: unknown."""
    metadata: str
    commit_timestamp: int
    expire_timestamp: int = -1
    """-1: by the configured retention."""
    topic_id: bytes = NO_TOPIC_ID
    tags: tuple[Tag, ...] = ()
    """Tagged fields this version does not know."""


_LONG: Final = struct.Struct(">q")
_OFFSET_HEAD: Final = struct.Struct(">hqi")
"""Version, offset and leader epoch of an offset's value from version 3 on."""
_PLAIN_OFFSET: Final = struct.Struct(">hqiBqB")
"""A value of version 4: empty metadata, its time, no tagged fields."""


def encode_offset(value: OffsetCommitValue) -> bytes:
    """The bytes of a value: version 4, or 1 if it has an expire timestamp."""
    if value.expire_timestamp != -1:
        return b"".join(
            (
                b"\0\1",
                _LONG.pack(value.offset),
                text_bytes(value.metadata),
                _LONG.pack(value.commit_timestamp),
                _LONG.pack(value.expire_timestamp),
            )
        )
    tags = value.tags
    if value.topic_id != NO_TOPIC_ID:
        tags = ((0, value.topic_id), *tags)
    metadata = value.metadata.encode("utf-8", "surrogatepass")
    return b"".join(
        (
            _OFFSET_HEAD.pack(4, value.offset, value.leader_epoch),
            uvarint(len(metadata) + 1),
            metadata,
            _LONG.pack(value.commit_timestamp),
            tag_bytes(tags),
        )
    )


def pack_offset(
    offset: int, leader_epoch: int, metadata: str, commit_timestamp: int, expire_timestamp: int = -1
) -> bytes:
    """The value of a committed offset, as `encode_offset` writes it, without making an object."""
    if not metadata and expire_timestamp == -1:
        return _PLAIN_OFFSET.pack(4, offset, leader_epoch, 1, commit_timestamp, 0)
    return encode_offset(
        OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)
    )


def decode_offset(raw: bytes) -> OffsetCommitValue:
    """The value of an offset. Raises Malformed, but not for one that `is_plain_offset`."""
    if is_plain_offset(raw):
        return _decode_plain_offset(raw)
    return _decode_offset(Reader(raw, "offset commit value"))


def is_plain_offset(raw: bytes) -> bool:
    """Whether this is an offset as nearly all are written: version 4 with short metadata."""
    size = len(raw)
    if size < 24 or not raw.startswith(b"\0\4"):
        return False
    metadata = raw[14]
    if not 0 < metadata < 0x80:
        return False
    if size - metadata == 23:
        return raw[-1] == 0
    return size - metadata == 41 and raw[-19:-16] == TOPIC_ID_TAG


def _decode_plain_offset(raw: bytes) -> OffsetCommitValue:
    end = 14 + raw[14]
    topic_id = NO_TOPIC_ID if len(raw) == end + 9 else raw[-16:]
    _, offset, leader_epoch = _OFFSET_HEAD.unpack_from(raw)
    metadata = raw[15:end].decode("utf-8", "replace")
    timestamp = int.from_bytes(raw[end : end + 8], "big", signed=True)
    return OffsetCommitValue(offset, leader_epoch, metadata, timestamp, -1, topic_id)


def _decode_offset(reader: Reader) -> OffsetCommitValue:
    version = reader.version(4)
    value = OffsetCommitValue(
        offset=reader.int64(),
        leader_epoch=reader.int32() if version >= 3 else -1,
        metadata=reader.text(compact=version >= 4),
        commit_timestamp=reader.int64(),
        expire_timestamp=reader.int64() if version == 1 else -1,
    )
    if version >= 4:
        tags = dict(reader.tags())
        value.topic_id = tags.pop(0, NO_TOPIC_ID)
        if len(value.topic_id) != 16:
            raise Malformed(f"offset commit value: a topic id of {len(value.topic_id)} bytes")
        value.tags = tuple(tags.items())
    return value
