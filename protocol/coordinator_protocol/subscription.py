"""The consumer protocol's blobs: what members put into JoinGroup and leaders into SyncGroup.

The coordinator treats them as opaque; these readers serve whoever wants to look (OffsetDelete,
expiry, people). Versions above 3 are read as 3, as Kafka does: every version only appends fields.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from coordinator_protocol.errors import Malformed
from coordinator_protocol.reader import Reader
from coordinator_protocol.writing import text_bytes

_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


@dataclass(slots=True)
class Subscription:
    """ConsumerProtocolSubscription."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Since version 1."""
    generation: int = -1
    """Since version 2."""
    rack_id: str | None = None
    """Since version 3."""


@dataclass(slots=True)
class Assignment:
    """ConsumerProtocolAssignment."""

    partitions: Mapping[str, Sequence[int]]
    user_data: bytes | None = None


def subscribed_topics(raw: bytes) -> list[str]:
    """The topics of a subscription, all that version 0 has to be right about. Raises Malformed."""
    reader = Reader(raw, "subscription")
    _version(reader, "subscription")
    return _strings(reader)


def decode_subscription(raw: bytes) -> Subscription:
    """A subscription of any version. Raises Malformed."""
    reader = Reader(raw, "subscription")
    version = _version(reader, "subscription")
    return Subscription(
        topics=_strings(reader),
        user_data=reader.nullable_blob(),
        owned_partitions=_partitions(reader) if version >= 1 else {},
        generation=reader.int32() if version >= 2 else -1,
        rack_id=reader.nullable_text() if version >= 3 else None,
    )


def decode_assignment(raw: bytes) -> Assignment:
    """An assignment of any version; empty bytes assign nothing. Raises Malformed."""
    if not raw:
        return Assignment({})
    reader = Reader(raw, "assignment")
    _version(reader, "assignment")
    return Assignment(_partitions(reader), reader.nullable_blob())


def encode_subscription(subscription: Subscription, version: int = 3) -> bytes:
    """The bytes of a subscription of version 0 to 3."""
    topics = [text_bytes(topic) for topic in subscription.topics]
    parts = [_SHORT.pack(version), _INT.pack(len(topics)), *topics]
    parts.append(_nullable_bytes(subscription.user_data))
    if version >= 1:
        parts.append(_encode_partitions(subscription.owned_partitions))
    if version >= 2:
        parts.append(_INT.pack(subscription.generation))
    if version >= 3:
        parts.append(text_bytes(subscription.rack_id))
    return b"".join(parts)


def encode_assignment(assignment: Assignment, version: int = 3) -> bytes:
    """The bytes of an assignment of version 0 to 3."""
    partitions = _encode_partitions(assignment.partitions)
    return _SHORT.pack(version) + partitions + _nullable_bytes(assignment.user_data)


def _version(reader: Reader, what: str) -> int:
    version = reader.int16()
    if version < 0:
        raise Malformed(f"{what}: version {version}, expected 0 or more")
    return version


def _strings(reader: Reader) -> list[str]:
    return [reader.text() for _ in range(reader.count())]


def _partitions(reader: Reader) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for _ in range(reader.count()):
        of_topic = partitions.setdefault(reader.text(), [])
        of_topic += [reader.int32() for _ in range(reader.count())]
    return partitions


def _nullable_bytes(raw: bytes | None) -> bytes:
    return _INT.pack(-1) if raw is None else _INT.pack(len(raw)) + raw


def _encode_partitions(partitions: Mapping[str, Sequence[int]]) -> bytes:
    parts = [_INT.pack(len(partitions))]
    for topic, numbers in partitions.items():
        parts += (text_bytes(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts)
