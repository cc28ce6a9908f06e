"""Checks of Produce, Fetch and ListOffsets before they use a partition."""

from typing import NoReturn

from coordinator_protocol.errors import ErrorCode
from coordinator_server.api.call import Call
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource, TopicInfo
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.service import LEADER_EPOCH

UNKNOWN_EPOCH = -1


def check_partition(
    call: Call,
    name: str,
    index: int,
    operation: Operation,
    services: Services,
    *,
    leader_epoch: int = UNKNOWN_EPOCH,
) -> TopicInfo:
    """The topic of a partition that exists, may be accessed and is led here.

    Raises TopicError with TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
    """
    if not services.authorizer.allowed(call.caller, operation, Resource.TOPIC, name):
        raise TopicError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"No {operation.name} on '{name}'.")
    topic = services.image.get(name)
    if topic is None or not 0 <= index < topic.partitions:
        raise TopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {index} of '{name}'."
        )
    if topic.internal and (operation is Operation.WRITE or not services.topics.is_readable(topic)):
        _refuse_internal(name, operation)
    _check_leader(call, topic, index, services)
    if leader_epoch not in (UNKNOWN_EPOCH, LEADER_EPOCH):
        older = leader_epoch < LEADER_EPOCH
        raise TopicError(
            ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"Leader epoch {leader_epoch} of '{name}' is not {LEADER_EPOCH}.",
        )
    return topic


def _check_leader(call: Call, topic: TopicInfo, index: int, services: Services) -> None:
    directory, listener = services.directory, call.caller.listener
    if directory.leader(topic.name, index, listener) != directory.this_node(listener):
        raise TopicError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic.name}-{index} is led by another node."
        )


def _refuse_internal(name: str, operation: Operation) -> NoReturn:
    """Kafka refuses to write the coordinator's log with the same error.

    Where there is no log to read, readers get an error after which they give up rather than ask
    for ever.
    """
    if operation is Operation.WRITE:
        raise TopicError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}"
        )
    raise TopicError(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"Internal topic {name} cannot be read by clients."
    )
