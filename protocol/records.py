"""The coordinator's records in `__consumer_offsets`: keys and values, as bytes and as objects.

A key is an int16 record type and a body, a value an int16 version and a body; a value of null is a
tombstone. Written as Kafka 4.1.1 writes them (GroupCoordinatorRecordHelpers), all versions are
read, and tagged fields of later versions are kept. Record types not known here are no error.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from protocol.errors import Malformed
from protocol.history import (
    REBALANCE_HISTORY_TYPE,
    PackedHistory,
    RebalanceHistoryKey,
    decode_history_key,
    encode_history_key,
)
from protocol.reader import Reader, Tag
from protocol.varints import uvarint

LEGACY_OFFSET_COMMIT_TYPE: Final = 0
OFFSET_COMMIT_TYPE: Final = 1
GROUP_METADATA_TYPE: Final = 2

NO_TOPIC_ID: Final = bytes(16)


@dataclass(slots=True)
class OffsetCommitKey:
    """Key of a committed offset (types 0 and 1)."""

    group: str
    topic: str
    partition: int


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


@dataclass(slots=True)
class GroupMetadataKey:
    """Key of a classic group (type 2)."""

    group: str


@dataclass(slots=True)
class MemberMetadata:
    """A member of a classic group; timeouts in milliseconds."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: int
    """-1: the record is too old to have one."""
    session_timeout: int
    subscription: bytes
    assignment: bytes
    tags: tuple[Tag, ...] = ()


@dataclass(slots=True)
class GroupMetadataValue:
    """A classic group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    """-1: the record is too old to have one."""
    members: Sequence[MemberMetadata]
    tags: tuple[Tag, ...] = ()


@dataclass(slots=True)
class UnknownKey:
    """A record of a type this version does not know."""

    type: int


RecordKey = OffsetCommitKey | GroupMetadataKey | RebalanceHistoryKey
RecordValue = OffsetCommitValue | GroupMetadataValue | PackedHistory
"""Of a rebalance the bytes themselves: they are read when somebody asks, by `decode_history`."""


# --- writing ---

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TIMEOUTS = struct.Struct(">iii")
"""A member's two, and the length of its subscription."""
_OFFSET_HEAD = struct.Struct(">hqi")
"""Version, offset and leader epoch of an offset's value from version 3 on."""
_PLAIN_OFFSET = struct.Struct(">hqiBqB")
"""A value of version 4: empty metadata, its time, no tagged fields."""


def encode_key(key: RecordKey) -> bytes:
    """The bytes of a key, in the type Kafka 4.1.1 writes."""
    if isinstance(key, OffsetCommitKey):
        return offset_key_prefix(key.group, key.topic) + _INT.pack(key.partition)
    if isinstance(key, RebalanceHistoryKey):
        return encode_history_key(key)
    return b"\0\2" + _string(key.group)


def offset_key_prefix(group: str, topic: str) -> bytes:
    """What the keys of all partitions of a topic begin with; four bytes, the partition, follow."""
    if len(group) + len(topic) > _LONGEST_REMEMBERED:
        return _offset_key_prefix(group, topic)
    return _usual_key_prefix(group, topic)


def _offset_key_prefix(group: str, topic: str) -> bytes:
    return b"\0\1" + _string(group) + _string(topic)


_usual_key_prefix = lru_cache(maxsize=16_384)(_offset_key_prefix)
_LONGEST_REMEMBERED: Final = 600
"""Characters of what is cached."""


def encode_value(value: RecordValue) -> bytes:
    """The bytes of a value, in the version Kafka 4.1.1 writes.

    An offset is written as version 4, as version 1 if it has an expire timestamp; a group as
    version 3, as version 4 if it has tagged fields to keep.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, GroupMetadataValue):
        return _encode_group(value)
    if value.expire_timestamp != -1:
        return b"".join(
            (
                b"\0\1",
                _LONG.pack(value.offset),
                _string(value.metadata),
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
            _encode_tags(tags),
        )
    )


def pack_offset(
    offset: int, leader_epoch: int, metadata: str, commit_timestamp: int, expire_timestamp: int = -1
) -> bytes:
    """The value of a committed offset, as `encode_value` writes it, without making an object."""
    if not metadata and expire_timestamp == -1:
        return _PLAIN_OFFSET.pack(4, offset, leader_epoch, 1, commit_timestamp, 0)
    return encode_value(
        OffsetCommitValue(offset, leader_epoch, metadata, commit_timestamp, expire_timestamp)
    )


def _encode_group(value: GroupMetadataValue) -> bytes:
    if value.tags or any(member.tags for member in value.members):
        return _encode_group_with_tags(value)
    parts = [
        b"\0\3",
        _string(value.protocol_type),
        _INT.pack(value.generation),
        _string(value.protocol),
        _string(value.leader),
        _LONG.pack(value.current_state_timestamp),
        _INT.pack(len(value.members)),
    ]
    length, timeouts = _INT.pack, _TIMEOUTS.pack
    for member in value.members:
        subscription, assignment = member.subscription, member.assignment
        parts += (
            _string(member.member_id),
            _usual_string(member.group_instance_id),
            _usual_string(member.client_id),
            _usual_string(member.client_host),
            timeouts(member.rebalance_timeout, member.session_timeout, len(subscription)),
            subscription,
            length(len(assignment)),
            assignment,
        )
    return b"".join(parts)


def _encode_group_with_tags(value: GroupMetadataValue) -> bytes:
    """Version 4, for tagged fields that somebody else has written."""
    string, blob = _compact_string, _compact_bytes
    parts = [
        b"\0\4",
        string(value.protocol_type),
        _INT.pack(value.generation),
        string(value.protocol),
        string(value.leader),
        _LONG.pack(value.current_state_timestamp),
        uvarint(len(value.members) + 1),
    ]
    for member in value.members:
        parts += (
            string(member.member_id),
            string(member.group_instance_id),
            string(member.client_id),
            string(member.client_host),
            _INT.pack(member.rebalance_timeout),
            _INT.pack(member.session_timeout),
            blob(member.subscription),
            blob(member.assignment),
            _encode_tags(member.tags),
        )
    parts.append(_encode_tags(value.tags))
    return b"".join(parts)


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > 0x7FFF:
        raise ValueError(f"text of {len(raw)} bytes, at most 32767 fit into a record")
    return _SHORT.pack(len(raw)) + raw


def _usual_string(text: str | None) -> bytes:
    """What most members of a group have in common."""
    if text is not None and len(text) > _LONGEST_REMEMBERED:
        return _string(text)
    return _remembered_string(text)


_remembered_string = lru_cache(maxsize=4_096)(_string)


def _compact_string(text: str | None) -> bytes:
    return b"\0" if text is None else _compact_bytes(text.encode("utf-8", "surrogatepass"))


def _compact_bytes(raw: bytes) -> bytes:
    return uvarint(len(raw) + 1) + raw


def _encode_tags(tags: Sequence[Tag]) -> bytes:
    if not tags:
        return b"\0"
    fields = [uvarint(tag) + uvarint(len(raw)) + raw for tag, raw in sorted(tags)]
    return uvarint(len(tags)) + b"".join(fields)


# --- reading ---


def decode_key(raw: bytes) -> RecordKey | UnknownKey:
    """The key of a record. Raises Malformed."""
    if raw[:2] == b"\0\1":
        return _decode_offset_key(raw)
    reader = Reader(raw, "record key")
    kind = reader.int16()
    if kind in (LEGACY_OFFSET_COMMIT_TYPE, OFFSET_COMMIT_TYPE):
        return OffsetCommitKey(reader.text(), reader.text(), reader.int32())
    if kind == GROUP_METADATA_TYPE:
        return GroupMetadataKey(reader.text())
    if kind == REBALANCE_HISTORY_TYPE:
        return _history_key(raw)
    return UnknownKey(kind)


def _history_key(raw: bytes) -> RebalanceHistoryKey | UnknownKey:
    """What cannot be read is somebody else's: no log is given up for a story."""
    try:
        return decode_history_key(raw)
    except Malformed:
        return UnknownKey(REBALANCE_HISTORY_TYPE)


def _decode_offset_key(raw: bytes) -> OffsetCommitKey:
    """The key nearly every record has, in one go: a load is made of these."""
    size = len(raw)
    topic_at = 4 + (raw[2] << 8 | raw[3]) if size >= 4 else size
    end = topic_at + 2 + (raw[topic_at] << 8 | raw[topic_at + 1]) if size > topic_at + 1 else size
    if size < end + 4:
        raise Malformed(f"record key: {size} bytes, at least {end + 4} are expected")
    return OffsetCommitKey(
        raw[4:topic_at].decode("utf-8", "replace"),
        raw[topic_at + 2 : end].decode("utf-8", "replace"),
        int.from_bytes(raw[end : end + 4], "big", signed=True),
    )


def decode_value(key: RecordKey, raw: bytes) -> RecordValue:
    """The value that belongs to a key; not for tombstones. Raises Malformed."""
    if isinstance(key, OffsetCommitKey):
        return decode_offset(raw)
    if isinstance(key, RebalanceHistoryKey):
        return raw
    return _decode_group(Reader(raw, "group metadata value"))


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


def plain_offset_place(key: bytes) -> tuple[str, str] | None:
    """Group and topic of the key of an offset; None unless it is as `encode_key` writes it.

    Then the partition is its last four bytes, and no other bytes before them mean the same place.
    """
    if not key.startswith(b"\0\1"):
        return None
    found = _decode_offset_key(key)
    if "\ufffd" in found.group + found.topic or encode_key(found) != key:
        return None
    return found.group, found.topic


def _decode_plain_offset(raw: bytes) -> OffsetCommitValue:
    end = 14 + raw[14]
    topic_id = NO_TOPIC_ID if len(raw) == end + 9 else raw[-16:]
    _, offset, leader_epoch = _OFFSET_HEAD.unpack_from(raw)
    metadata = raw[15:end].decode("utf-8", "replace")
    timestamp = int.from_bytes(raw[end : end + 8], "big", signed=True)
    return OffsetCommitValue(offset, leader_epoch, metadata, timestamp, -1, topic_id)


TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field: number 0, of 16 bytes."""


def _version(reader: Reader, newest: int) -> int:
    version = reader.int16()
    if not 0 <= version <= newest:
        raise Malformed(f"version {version}, expected 0 to {newest}")
    return version


def _decode_offset(reader: Reader) -> OffsetCommitValue:
    version = _version(reader, 4)
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


def _decode_group(reader: Reader) -> GroupMetadataValue:
    version = _version(reader, 4)
    compact = version >= 4
    return GroupMetadataValue(
        protocol_type=reader.text(compact=compact),
        generation=reader.int32(),
        protocol=reader.nullable_text(compact=compact),
        leader=reader.nullable_text(compact=compact),
        current_state_timestamp=reader.int64() if version >= 2 else -1,
        members=[_decode_member(reader, version) for _ in range(reader.count(compact=compact))],
        tags=reader.tags() if compact else (),
    )


def _decode_member(reader: Reader, version: int) -> MemberMetadata:
    compact = version >= 4
    return MemberMetadata(
        member_id=reader.text(compact=compact),
        group_instance_id=reader.nullable_text(compact=compact) if version >= 3 else None,
        client_id=reader.text(compact=compact),
        client_host=reader.text(compact=compact),
        rebalance_timeout=reader.int32() if version >= 1 else -1,
        session_timeout=reader.int32(),
        subscription=reader.blob(compact=compact),
        assignment=reader.blob(compact=compact),
        tags=reader.tags() if compact else (),
    )
