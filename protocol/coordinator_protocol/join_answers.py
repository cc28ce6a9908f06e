"""Answers to JoinGroup and SyncGroup that thousands of members get at once, from a template each.

All members of a generation are told the same but for one field near the end: their id, and what
they are assigned. The leader is told of thousands. They are the same bytes the encoders of their
messages write; texts have been found to fit.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.encoder import string_length
from coordinator_protocol.messages.join_group import JoinGroupResponse
from coordinator_protocol.messages.sync_group import SyncGroupResponse
from coordinator_protocol.varints import uvarint
from coordinator_protocol.writing import text_bytes

JOIN_FLEXIBLE: Final = 6
JOIN_INSTANCES: Final = 5
"""The first version of JoinGroup with group instance ids."""
JOIN_SKIPS: Final = 9
"""The first version of JoinGroup that tells a leader to skip the assignment."""
SYNC_FLEXIBLE: Final = 4

Member = tuple[str, str | None, bytes]
"""A member as its leader is told of it: id, group instance id, metadata."""


def follower_joined(
    version: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    member_id: str,
) -> bytes:
    """The body of a JoinGroup response (0-9) without members."""
    head = _follower_head(version, generation, protocol_type, protocol_name, leader)
    return _to_nobody_else(version, head, member_id)


def not_joined(version: int, error: int, protocol_name: str | None, member_id: str) -> bytes:
    """The body of a JoinGroup response (0-9) with an error."""
    head = _follower_head(version, -1, None, protocol_name, "", error)
    return _to_nobody_else(version, head, member_id)


def leader_joined(
    version: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    member_id: str,
    members: Sequence[Member],
    skip_assignment: bool = False,
) -> bytes:
    """The body of a JoinGroup response (0-9) that tells of the members."""
    head = _join_head(version, generation, protocol_type, protocol_name)
    led = _led_by(version, leader, skip_assignment=skip_assignment)
    if version >= JOIN_FLEXIBLE:
        parts = [head, led, _compact(member_id), uvarint(len(members) + 1)]
        for name, instance_id, metadata in members:
            parts += (
                _compact(name),
                b"\0" if instance_id is None else _compact(instance_id),
                uvarint(len(metadata) + 1),
                metadata,
                b"\0",
            )
        parts.append(b"\0")
        return b"".join(parts)
    parts = [head, led, text_bytes(member_id), len(members).to_bytes(4, "big")]
    for name, instance_id, metadata in members:
        instance = text_bytes(instance_id) if version >= JOIN_INSTANCES else b""
        parts += (text_bytes(name), instance, len(metadata).to_bytes(4, "big"), metadata)
    return b"".join(parts)


def _compact(text: str) -> bytes:
    raw = text.encode()
    return string_length(len(raw) + 1) + raw


def _to_nobody_else(version: int, head: bytes, member_id: str) -> bytes:
    if version >= JOIN_FLEXIBLE:
        return head + _compact(member_id) + b"\1\0"
    return head + text_bytes(member_id) + b"\0\0\0\0"


def synced(
    version: int, protocol_type: str | None, protocol_name: str | None, assignment: bytes
) -> bytes:
    """The body of a SyncGroup response (0-5) without an error."""
    head = _sync_head(version, protocol_type, protocol_name)
    if version >= SYNC_FLEXIBLE:
        return b"".join((head, uvarint(len(assignment) + 1), assignment, b"\0"))
    return b"".join((head, len(assignment).to_bytes(4, "big"), assignment))


@lru_cache(maxsize=128)
def _follower_head(
    version: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    error: int = 0,
) -> bytes:
    """Up to the member id."""
    head = _join_head(version, generation, protocol_type, protocol_name, error)
    return head + _led_by(version, leader)


def _led_by(version: int, leader: str, *, skip_assignment: bool = False) -> bytes:
    """From the leader up to the member id."""
    if version < JOIN_FLEXIBLE:
        return text_bytes(leader)
    if version < JOIN_SKIPS:
        return _compact(leader)
    return _compact(leader) + (b"\1" if skip_assignment else b"\0")


@lru_cache(maxsize=128)
def _join_head(
    version: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    error: int = 0,
) -> bytes:
    """Up to the leader, which is empty here, like the member id and the members behind it."""
    response = JoinGroupResponse(
        error_code=error,
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
    )
    encoded = response_encoder(ApiKey.JOIN_GROUP, version)(response)
    if version < JOIN_FLEXIBLE:
        return encoded[:-8]
    return encoded[:-4] if version < JOIN_SKIPS else encoded[:-5]


@lru_cache(maxsize=128)
def _sync_head(version: int, protocol_type: str | None, protocol_name: str | None) -> bytes:
    """Up to the assignment, which is empty here."""
    response = SyncGroupResponse(protocol_type=protocol_type, protocol_name=protocol_name)
    encoded = response_encoder(ApiKey.SYNC_GROUP, version)(response)
    return encoded[:-2] if version >= SYNC_FLEXIBLE else encoded[:-4]
