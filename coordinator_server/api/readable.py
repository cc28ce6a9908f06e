"""Which partitions of a topic a caller may commit offsets of, or delete them."""

from typing import Final

from coordinator_server.api.services import Services
from coordinator_server.ports import Caller, Operation, Resource
from protocol.errors import ErrorCode

_READ: Final = Operation.READ
_TOPIC: Final = Resource.TOPIC
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def readable_partitions(caller: Caller, topic: str, services: Services) -> tuple[int, ErrorCode]:
    """How many there are, counted from 0, and what is wrong with all others."""
    if not services.authorizer.allowed(caller, _READ, _TOPIC, topic):
        return 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = services.image.get(topic)
    return 0 if known is None else known.partitions, _UNKNOWN
