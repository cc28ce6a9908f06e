"""DeleteTopics (key 20).

v1: throttle time. v4: flexible. v5: error messages. v6: topics by name or by id.

Errors, their order and their words are those of Kafka's `ControllerApis`.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from uuid import UUID

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from coordinator_server.api.authorized_operations import CLUSTER_NAME
from coordinator_server.api.call import Call
from coordinator_server.api.controller import is_controller
from coordinator_server.api.services import Services
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import Operation, Resource, TopicInfo
from coordinator_server.topics.errors import TopicError

ZERO_ID = bytes(16)
UNKNOWN_TOPIC = "This server does not host this topic-partition."
ATTEMPTS = 10
"""To delete topics of which others delete some at the same time."""

Key = tuple[str | None, bytes]
"""A topic as a client names it: by its name or by its id."""


async def handle(
    call: Call, request: DeleteTopicsRequest, services: Services
) -> DeleteTopicsResponse:
    """Delete topics with their records, and answer for every name and id once."""
    if not is_controller(call, services):
        return refuse(request, ErrorCode.NOT_CONTROLLER, call.version)
    mentions = Counter((state.name, state.topic_id) for state in _states(request))
    results: list[DeletableTopicResult] = []
    doomed: dict[str, TopicInfo] = {}
    pace = TimeSlice(services.clock)
    for key, count in mentions.items():
        if pace.is_over():
            await pace.rest()
        try:
            topic = _find(call, key, count, services)
            _check_once(topic, doomed)
            doomed[topic.name] = topic
            results.append(DeletableTopicResult(name=topic.name, topic_id=topic.topic_id.bytes))
        except TopicError as refusal:
            results.append(_failed(key, refusal.error, str(refusal)))
    await _delete(doomed, results, services)
    return DeleteTopicsResponse(responses=results)


async def _delete(
    doomed: dict[str, TopicInfo], results: Iterable[DeletableTopicResult], services: Services
) -> None:
    """Delete topics, and tell in their results what could not be deleted."""
    for _ in range(ATTEMPTS):
        # Others have had turns, and may have deleted some of them.
        for result in results:
            topic = doomed.get(result.name or "")
            if topic is not None and services.image.by_id(topic.topic_id) is None:
                del doomed[topic.name]
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                result.error_message = UNKNOWN_TOPIC
        try:
            await services.topics.delete(list(doomed))
        except TopicError:
            await services.topics.catalog.settle()
        except OSError as failure:
            for result in results:
                if result.name in doomed:
                    result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                    result.error_message = f"Not stored: {failure}"
            return
        else:
            return
    for result in results:
        if result.name in doomed:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = "Others are deleting the same topics."


def refuse(request: DeleteTopicsRequest, error: ErrorCode, _version: int) -> DeleteTopicsResponse:
    """An error for every topic."""
    return DeleteTopicsResponse(
        responses=[
            _failed((state.name, state.topic_id), error, error.message)
            for state in _states(request)
        ]
    )


def _states(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return request.topics or [DeleteTopicState(name=name) for name in request.topic_names]


def _failed(key: Key, error: ErrorCode, message: str) -> DeletableTopicResult:
    name, topic_id = key
    return DeletableTopicResult(
        name=name, topic_id=topic_id, error_code=error, error_message=message
    )


def _find(call: Call, key: Key, mentions: int, services: Services) -> TopicInfo:
    name, topic_id = key
    _check_key(name, topic_id, mentions)
    image = services.image
    topic = image.get(name) if name is not None else image.by_id(UUID(bytes=topic_id))
    allowed = services.authorizer.allowed
    everything = allowed(call.caller, Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME)
    known_as = topic.name if topic is not None else name
    if known_as is not None and not everything:
        _check_authorized(call, known_as, services)
    if topic is None and name is None:
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic is None:
        raise TopicError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            UNKNOWN_TOPIC,
        )
    if topic.internal:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' is internal.")
    return topic


def _check_once(topic: TopicInfo, doomed: Collection[str]) -> None:
    if topic.name in doomed:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            "The provided topic name maps to an ID that was already supplied.",
        )


def _check_key(name: str | None, topic_id: bytes, mentions: int) -> None:
    by_id = topic_id != ZERO_ID
    if name is None and not by_id:
        complaint = "Neither topic name nor id were specified."
    elif name is not None and by_id:
        complaint = "You may not specify both topic name and topic id."
    elif mentions > 1:
        complaint = "Duplicate topic name." if name is not None else "Duplicate topic id."
    else:
        return
    raise TopicError(ErrorCode.INVALID_REQUEST, complaint)


def _check_authorized(call: Call, name: str, services: Services) -> None:
    allowed = services.authorizer.allowed
    if not allowed(call.caller, Operation.DESCRIBE, Resource.TOPIC, name) or not allowed(
        call.caller, Operation.DELETE, Resource.TOPIC, name
    ):
        raise TopicError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
