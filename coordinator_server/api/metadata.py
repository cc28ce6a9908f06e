"""Metadata (key 3): the nodes, and the leaders of topic partitions.

v0: an empty list of topics asks for all of them; from v1 that is a null list, empty means none.
v1: rack, controller id, internal topics. v2: cluster id. v3: throttle time.
v4: allow_auto_topic_creation; older clients always allow it.
v5: offline replicas. v7: leader epoch. v8: authorized operations. v9: flexible.
v10: topic ids in the answer. v11: no cluster_authorized_operations any more.
v12: topics may be asked for by id. v13: error code for the whole answer.

A topic that is made on first use is in the answer at once: Kafka makes it behind the answer and
says UNKNOWN_TOPIC_OR_PARTITION the first time, which costs every client a retry.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple
from uuid import UUID

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coordinator_server.api.authorized_operations import (
    CLUSTER_NAME,
    NOT_ASKED,
    authorized_operations,
    cluster_operations,
)
from coordinator_server.api.call import Call
from coordinator_server.api.memory import Growth
from coordinator_server.api.metadata_topics import TopicWriter
from coordinator_server.api.services import Services
from coordinator_server.api.streaming_response import around
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import Operation, Resource, TopicInfo
from coordinator_server.topics.names import INTERNAL_TOPICS, why_invalid
from coordinator_server.topics.service import LEADER_EPOCH

ZERO_ID = bytes(16)
FIRST_OPERATIONS: Final = 8
LAST_CLUSTER_OPERATIONS: Final = 10
FIRST_WITH_ERROR: Final = 13

SMALL: Final = 256
"""Topics and partitions up to which a response is made at once."""

PIECE_BYTES: Final = 65_536
"""Size to which the pieces of a large response are joined."""


async def handle(
    call: Call, request: MetadataRequest, services: Services
) -> MetadataResponse | None:
    """Answer with the nodes and the topics that were asked for."""
    asked = request.topics
    all_topics = asked is None or (call.version == 0 and not asked)
    if asked is not None and not all_topics and _is_invalid(call.version, asked):
        return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
    pace = TimeSlice(services.clock)
    if asked is None or all_topics:
        topics = await _all_topics(call, services, pace)
    elif any(topic.topic_id != ZERO_ID for topic in asked):
        topics = await _by_id(call, asked, services, pace)
    else:
        names = dict.fromkeys(topic.name or "" for topic in asked)
        topics = await _by_name(call, names, request.allow_auto_topic_creation, services, pace)
    if len(topics) <= SMALL and _is_small(topics):
        for message, known in topics:
            if known is not None:
                message.partitions = [
                    _partition(_leader(call, services, known.name, index), index)
                    for index in range(known.partitions)
                ]
            _add_operations(call, request, message, services)
        return _response(call, request, [message for message, _ in topics], services)
    await _send(call, request, topics, services, pace)
    return None


class _Answered(NamedTuple):
    """A topic of the response."""

    message: MetadataResponseTopic
    """Without partitions."""
    known: TopicInfo | None
    """The topic that has the partitions; None for one that is refused."""


def _is_small(topics: Iterable[_Answered]) -> bool:
    return sum(1 + (known.partitions if known else 0) for _, known in topics) <= SMALL


async def _send(
    call: Call,
    request: MetadataRequest,
    topics: Sequence[_Answered],
    services: Services,
    pace: TimeSlice,
) -> None:
    """Answer with a large response; others have their turns while it is encoded."""
    version = call.version
    writer = TopicWriter(version, partial(_leader, call, services), _partition)
    empty = _response(call, request, [], services)
    behind = 4 if FIRST_OPERATIONS <= version <= LAST_CLUSTER_OPERATIONS else 0
    behind += 2 if version >= FIRST_WITH_ERROR else 0
    before, after = around(call, empty, len(topics), behind)
    parts: list[bytes] = [before]
    some: list[bytes] = []
    size = total = 0
    growth = Growth(call)
    for message, known in topics:
        _add_operations(call, request, message, services)
        pieces = (
            (writer.whole(message),) if known is None else writer.pieces(version, message, known)
        )
        for piece in pieces:
            some.append(piece)
            size += len(piece)
            if size > PIECE_BYTES:
                parts.append(b"".join(some))
                total += size
                some, size = [], 0
                await growth.allowed(total)
            if pace.is_over():
                await pace.rest()
    call.answer_parts([*parts, *some, after])


def refuse(request: MetadataRequest, error: ErrorCode, _version: int) -> MetadataResponse:
    """An error for the answer and for every topic that was asked for."""
    refused = [
        MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics or ()
    ]
    return MetadataResponse(topics=refused, error_code=error)


def _is_invalid(version: int, asked: Iterable[MetadataRequestTopic]) -> bool:
    if version < 12:
        return any(topic.name is None or topic.topic_id != ZERO_ID for topic in asked)
    return any(topic.name is None and topic.topic_id == ZERO_ID for topic in asked)


async def _all_topics(call: Call, services: Services, pace: TimeSlice) -> list[_Answered]:
    answer = []
    # Changes replace the mapping, they do not disturb who goes over this one.
    for topic in services.image.topics().values():
        if pace.is_over():
            await pace.rest()
        if _may_describe(call, topic.name, services):
            answer.append(_described(topic))
    return answer


async def _by_id(
    call: Call, asked: Iterable[MetadataRequestTopic], services: Services, pace: TimeSlice
) -> list[_Answered]:
    answer = []
    for topic_id in dict.fromkeys(t.topic_id for t in asked if t.topic_id != ZERO_ID):
        if pace.is_over():
            await pace.rest()
        topic = services.image.by_id(UUID(bytes=topic_id))
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not _may_describe(call, topic.name, services):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            answer.append(_described(topic))
            continue
        refused = MetadataResponseTopic(error_code=error, name=None, topic_id=topic_id)
        answer.append(_Answered(refused, None))
    return answer


async def _by_name(
    call: Call, names: Iterable[str], allow_creation: bool, services: Services, pace: TimeSlice
) -> list[_Answered]:
    answer, missing = [], []
    for name in names:
        if pace.is_over():
            await pace.rest()
        if not _may_describe(call, name, services):
            answer.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, internal=False))
        elif (topic := services.image.get(name)) is not None:
            answer.append(_described(topic))
        elif why_invalid(name) is not None:
            answer.append(_failed(name, ErrorCode.INVALID_TOPIC_EXCEPTION))
        else:
            missing.append(name)
    if missing and allow_creation and services.config.auto_create_topics_enable:
        answer += await _created(call, missing, services, pace)
    else:
        answer += [_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in missing]
    return answer


async def _created(
    call: Call, names: list[str], services: Services, pace: TimeSlice
) -> list[_Answered]:
    may_create = services.authorizer.allowed(
        call.caller, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME
    )
    answer = []
    wanted = []
    for name in names:
        if not may_create and not services.authorizer.allowed(
            call.caller, Operation.CREATE, Resource.TOPIC, name
        ):
            answer.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            wanted.append(name)
    too_many = await services.topics.auto_creation.create(wanted, services.config.num_partitions)
    for name in wanted:
        if pace.is_over():
            await pace.rest()
        topic = services.image.get(name)
        if topic is not None:
            answer.append(_described(topic))
        elif name in too_many:
            answer.append(_failed(name, ErrorCode.POLICY_VIOLATION))
        else:
            answer.append(_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return answer


def _may_describe(call: Call, name: str, services: Services) -> bool:
    return services.authorizer.allowed(call.caller, Operation.DESCRIBE, Resource.TOPIC, name)


def _failed(name: str, error: ErrorCode, *, internal: bool | None = None) -> _Answered:
    message = MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS if internal is None else internal,
    )
    return _Answered(message, None)


def _described(topic: TopicInfo) -> _Answered:
    message = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        is_internal=topic.internal,
    )
    return _Answered(message, topic)


def _leader(call: Call, services: Services, topic: str, index: int) -> int | None:
    leader = services.directory.leader(topic, index, call.caller.listener)
    return None if leader is None else leader.node_id


def _partition(leader: int | None, index: int) -> MetadataResponsePartition:
    if leader is None:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=-1,
            leader_epoch=LEADER_EPOCH,
        )
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=[leader],
        isr_nodes=[leader],
    )


def _add_operations(
    call: Call, request: MetadataRequest, topic: MetadataResponseTopic, services: Services
) -> None:
    if not request.include_topic_authorized_operations or topic.name is None:
        return
    if topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        topic.topic_authorized_operations = authorized_operations(
            services.authorizer, call.caller, Resource.TOPIC, topic.name
        )


def _response(
    call: Call,
    request: MetadataRequest,
    topics: list[MetadataResponseTopic],
    services: Services,
) -> MetadataResponse:
    listener = call.caller.listener
    directory = services.directory
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = cluster_operations(services.authorizer, call.caller)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
            for node in directory.nodes(listener)
        ],
        cluster_id=directory.cluster_id,
        controller_id=directory.controller(listener).node_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )
