"""Answers to JoinGroup and SyncGroup that thousands of members get at once, from a template each.

All members of a generation are told the same but for one field near the end: their id, and what
they are assigned. They are the same bytes the encoders of their messages write.
"""

from functools import lru_cache
from typing import Final

from protocol.api_keys import ApiKey
from protocol.codec import response_encoder
from protocol.encoder import string_length
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.sync_group import SyncGroupResponse
from protocol.varints import uvarint

JOIN_FLEXIBLE: Final = 6
SYNC_FLEXIBLE: Final = 4


def follower_joined(
    version: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
    member_id: str,
) -> bytes:
    """The body of a JoinGroup response (0-9) without members."""
    head = _join_head(version, generation, protocol_type, protocol_name, leader)
    raw = member_id.encode()
    if version >= JOIN_FLEXIBLE:
        return b"".join((head, string_length(len(raw) + 1), raw, b"\1\0"))
    return b"".join((head, len(raw).to_bytes(2, "big"), raw, b"\0\0\0\0"))


def synced(
    version: int, protocol_type: str | None, protocol_name: str | None, assignment: bytes
) -> bytes:
    """The body of a SyncGroup response (0-5) without an error."""
    head = _sync_head(version, protocol_type, protocol_name)
    if version >= SYNC_FLEXIBLE:
        return b"".join((head, uvarint(len(assignment) + 1), assignment, b"\0"))
    return b"".join((head, len(assignment).to_bytes(4, "big"), assignment))


@lru_cache(maxsize=128)
def _join_head(
    version: int,
    generation: int,
    protocol_type: str | None,
    protocol_name: str | None,
    leader: str,
) -> bytes:
    """Up to the member id, which is empty here, like the members that follow it."""
    response = JoinGroupResponse(
        generation_id=generation,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader=leader,
    )
    encoded = response_encoder(ApiKey.JOIN_GROUP, version)(response)
    return encoded[:-3] if version >= JOIN_FLEXIBLE else encoded[:-6]


@lru_cache(maxsize=128)
def _sync_head(version: int, protocol_type: str | None, protocol_name: str | None) -> bytes:
    """Up to the assignment, which is empty here."""
    response = SyncGroupResponse(protocol_type=protocol_type, protocol_name=protocol_name)
    encoded = response_encoder(ApiKey.SYNC_GROUP, version)(response)
    return encoded[:-2] if version >= SYNC_FLEXIBLE else encoded[:-4]
