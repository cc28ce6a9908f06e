"""The answer to who coordinates one group, which every connection of a client asks for.

They are the same bytes the encoder of the message writes.
"""

from functools import lru_cache
from typing import Final

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.encoder import string_length
from coordinator_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse

_BEFORE_KEY: Final = 5
"""Bytes: throttle time, and the count of one."""


def coordinator_found(version: int, key: str, node_id: int, host: str, port: int) -> bytes:
    """The body of a FindCoordinator response (4-6) with one key and no error."""
    before, behind = _about_node(version, node_id, host, port)
    raw = key.encode()
    return b"".join((before, string_length(len(raw) + 1), raw, behind))


@lru_cache(maxsize=64)
def _about_node(version: int, node_id: int, host: str, port: int) -> tuple[bytes, bytes]:
    """The bytes before and behind the key."""
    coordinator = Coordinator("", node_id, host, port, 0, "")
    encoded = response_encoder(ApiKey.FIND_COORDINATOR, version)(
        FindCoordinatorResponse(coordinators=[coordinator])
    )
    return encoded[:_BEFORE_KEY], encoded[_BEFORE_KEY + 1 :]
