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

from coordinator_protocol.errors import Malformed
from coordinator_protocol.history import (
    REBALANCE_HISTORY_TYPE,
    PackedHistory,
    RebalanceHistoryKey,
    decode_history_key,
    encode_history_key,
)
from coordinator_protocol.offset_value import OffsetCommitValue, decode_offset, encode_offset
from coordinator_protocol.reader import Reader, Tag
from coordinator_protocol.varints import uvarint
from coordinator_protocol.writing import compact_bytes, compact_text, tag_bytes, text_bytes

LEGACY_OFFSET_COMMIT_TYPE: Final = 0
OFFSET_COMMIT_TYPE: Final = 1
GROUP_METADATA_TYPE: Final = 2


@dataclass(slots=True)
class OffsetCommitKey:
    """Key of a committed offset (types 0 and 1)."""

    group: str
    topic: str
    partition: int


@dataclass(slots=True, init=False)
class GroupMetadataKey:
    """Key of a classic group (type 2)."""

    group: str

    def __init__(self, group: str) -> None:
        self.group = group


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
PackedGroup = bytes
"""A GroupMetadataValue as `encode_group` writes it."""

RecordValue = OffsetCommitValue | GroupMetadataValue | PackedGroup | PackedHistory
"""Of a rebalance the bytes themselves: they are read when somebody asks, by `decode_history`."""


# --- writing ---

_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_TIMEOUTS: Final = struct.Struct(">iii")
"""A member's two, and the length of its subscription."""


def encode_key(key: RecordKey) -> bytes:
    """The bytes of a key, in the type Kafka 4.1.1 writes."""
    if isinstance(key, OffsetCommitKey):
        return offset_key_prefix(key.group, key.topic) + _INT.pack(key.partition)
    if isinstance(key, RebalanceHistoryKey):
        return encode_history_key(key)
    return group_key(key.group)


def group_key(group_id: str) -> bytes:
    """The bytes of a classic group's key."""
    return b"\0\2" + text_bytes(group_id)


def offset_key_prefix(group: str, topic: str) -> bytes:
    """The start of the keys of all partitions of a topic; four bytes, the partition, follow."""
    if len(group) + len(topic) > _LONGEST_REMEMBERED:
        return _offset_key_prefix(group, topic)
    return _usual_key_prefix(group, topic)


def _offset_key_prefix(group: str, topic: str) -> bytes:
    return b"\0\1" + text_bytes(group) + text_bytes(topic)


_usual_key_prefix: Final = lru_cache(maxsize=16_384)(_offset_key_prefix)
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
    return encode_offset(value)


def _encode_group(value: GroupMetadataValue) -> bytes:
    if value.tags or any(member.tags for member in value.members):
        return _encode_group_with_tags(value)
    return encode_group(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        value.current_state_timestamp,
        [
            (
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout,
                member.session_timeout,
                member.subscription,
                member.assignment,
            )
            for member in value.members
        ],
    )


PlainMember = tuple[str, str | None, str, str, int, int, bytes, bytes]
"""The fields of MemberMetadata without tags: a group may have thousands."""


def encode_group(
    protocol_type: str,
    generation: int,
    protocol: str | None,
    leader: str | None,
    current_state_timestamp: int,
    members: Sequence[PlainMember],
) -> bytes:
    """The bytes of a group without tagged fields, which are version 3."""
    parts = [
        b"\0\3",
        text_bytes(protocol_type),
        generation.to_bytes(4, "big", signed=True),
        text_bytes(protocol),
        text_bytes(leader),
        current_state_timestamp.to_bytes(8, "big", signed=True),
        len(members).to_bytes(4, "big"),
    ]
    alike: PlainMember | None = None
    middle = b""
    for member in members:
        member_id, instance_id, client_id, host, rebalance, session, said, assignment = member
        # Most members say of this what the one before has said.
        if (
            alike is None
            or host != alike[3]
            or rebalance != alike[4]
            or session != alike[5]
            or said != alike[6]
        ):
            is_usual = len(host) + len(said) <= _LONGEST_REMEMBERED
            middle = (_usual_middle if is_usual else _middle)(host, rebalance, session, said)
            alike = member
        parts += (
            text_bytes(member_id),
            b"\xff\xff" if instance_id is None else text_bytes(instance_id),
            text_bytes(client_id),
            middle,
            len(assignment).to_bytes(4, "big"),
            assignment,
        )
    return b"".join(parts)


def _middle(host: str, rebalance: int, session: int, subscription: bytes) -> bytes:
    """The fields that most members of a group have in common."""
    return text_bytes(host) + _TIMEOUTS.pack(rebalance, session, len(subscription)) + subscription


_usual_middle: Final = lru_cache(maxsize=4_096)(_middle)


def _encode_group_with_tags(value: GroupMetadataValue) -> bytes:
    """Version 4, for tagged fields that somebody else has written."""
    string, blob = compact_text, compact_bytes
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
            tag_bytes(member.tags),
        )
    parts.append(tag_bytes(value.tags))
    return b"".join(parts)


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
    """An unreadable history record is ignored: it must not fail the log."""
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


def _decode_group(reader: Reader) -> GroupMetadataValue:
    version = reader.version(4)
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
