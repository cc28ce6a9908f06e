"""Which partitions of a topic a caller may commit offsets of, or delete them, and the answer."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.services import Services
from coordinator_server.ports import Caller, Operation, Resource

_READ: Final = Operation.READ
_TOPIC: Final = Resource.TOPIC
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

Partition = TypeVar("Partition")


def readable_partitions(caller: Caller, topic: str, services: Services) -> tuple[int, ErrorCode]:
    """The number of partitions, and the error for all others."""
    if not services.authorizer.allowed(caller, _READ, _TOPIC, topic):
        return 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = services.image.get(topic)
    return 0 if known is None else known.partitions, _UNKNOWN


def answered(
    refused: Mapping[str, Sequence[Partition]], verdicts: Sequence[tuple[str, Sequence[Partition]]]
) -> Sequence[tuple[str, Sequence[Partition]]]:
    """The topics of an answer: what the group was not asked for, and its verdicts.

    As in Kafka a topic that was named twice comes twice, unless something was refused.
    """
    if not refused:
        return verdicts
    merged = {topic: list(partitions) for topic, partitions in refused.items()}
    for topic, partitions in verdicts:
        merged.setdefault(topic, []).extend(partitions)
    return list(merged.items())
