"""One object for what nearly all members have alike, since there may be very many of them."""

from collections.abc import Iterable
from functools import lru_cache
from sys import intern

from coordinator_server.group.events import ProtocolMetadata

__all__ = ["intern", "protocols_alike", "timeout_alike"]


@lru_cache(maxsize=1_024)
def timeout_alike(milliseconds: int) -> int:
    """The same number."""
    return milliseconds


def protocols_alike(protocols: Iterable[ProtocolMetadata]) -> tuple[ProtocolMetadata, ...]:
    """The same protocols in the same order."""
    return tuple([(intern(name), metadata) for name, metadata in protocols])
