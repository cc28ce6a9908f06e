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

from collections.abc import Iterable
from uuid import UUID

from coordinator_server.api.authorized_operations import (
    CLUSTER_NAME,
    NOT_ASKED,
    authorized_operations,
    cluster_operations,
)
from coordinator_server.api.call import Call
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource, TopicInfo
from coordinator_server.topics.names import INTERNAL_TOPICS, why_invalid
from coordinator_server.topics.service import LEADER_EPOCH
from protocol.errors import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ZERO_ID = bytes(16)


def handle(call: Call, request: MetadataRequest, services: Services) -> MetadataResponse:
    """Answer with the nodes and the topics that were asked for."""
    asked = request.topics
    all_topics = asked is None or (call.version == 0 and not asked)
    if asked is not None and not all_topics and _is_invalid(call.version, asked):
        return refuse(request, ErrorCode.INVALID_REQUEST, call.version)
    if asked is None or all_topics:
        topics = _all_topics(call, services)
    elif any(topic.topic_id != ZERO_ID for topic in asked):
        topics = _by_id(call, asked, services)
    else:
        names = dict.fromkeys(topic.name or "" for topic in asked)
        topics = _by_name(call, names, request.allow_auto_topic_creation, services)
    if request.include_topic_authorized_operations:
        _add_topic_operations(call, topics, services)
    return _response(call, request, topics, services)


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


def _all_topics(call: Call, services: Services) -> list[MetadataResponseTopic]:
    return [
        _described(call, topic, services)
        for topic in services.image.topics().values()
        if _may_describe(call, topic.name, services)
    ]


def _by_id(
    call: Call, asked: Iterable[MetadataRequestTopic], services: Services
) -> list[MetadataResponseTopic]:
    answer = []
    for topic_id in dict.fromkeys(t.topic_id for t in asked if t.topic_id != ZERO_ID):
        topic = services.image.by_id(UUID(bytes=topic_id))
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
        elif not _may_describe(call, topic.name, services):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            answer.append(_described(call, topic, services))
            continue
        answer.append(MetadataResponseTopic(error_code=error, name=None, topic_id=topic_id))
    return answer


def _by_name(
    call: Call, names: Iterable[str], allow_creation: bool, services: Services
) -> list[MetadataResponseTopic]:
    answer, missing = [], []
    for name in names:
        if not _may_describe(call, name, services):
            answer.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, internal=False))
        elif (topic := services.image.get(name)) is not None:
            answer.append(_described(call, topic, services))
        elif why_invalid(name) is not None:
            answer.append(_failed(name, ErrorCode.INVALID_TOPIC_EXCEPTION))
        else:
            missing.append(name)
    if allow_creation and services.config.auto_create_topics_enable:
        answer += _created(call, missing, services)
    else:
        answer += [_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for name in missing]
    return answer


def _created(call: Call, names: list[str], services: Services) -> list[MetadataResponseTopic]:
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
    too_many = services.topics.auto_create(wanted, services.config.num_partitions)
    for name in wanted:
        topic = services.image.get(name)
        if name in too_many:
            answer.append(_failed(name, ErrorCode.POLICY_VIOLATION))
        elif topic is None:
            answer.append(_failed(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        else:
            answer.append(_described(call, topic, services))
    return answer


def _may_describe(call: Call, name: str, services: Services) -> bool:
    return services.authorizer.allowed(call.caller, Operation.DESCRIBE, Resource.TOPIC, name)


def _failed(name: str, error: ErrorCode, *, internal: bool | None = None) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS if internal is None else internal,
    )


def _described(call: Call, topic: TopicInfo, services: Services) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        is_internal=topic.internal,
        partitions=[
            _partition(call, topic.name, index, services) for index in range(topic.partitions)
        ],
    )


def _partition(call: Call, topic: str, index: int, services: Services) -> MetadataResponsePartition:
    leader = services.directory.leader(topic, index, call.caller.listener)
    if leader is None:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=-1,
            leader_epoch=LEADER_EPOCH,
        )
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=leader.node_id,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=[leader.node_id],
        isr_nodes=[leader.node_id],
    )


def _add_topic_operations(
    call: Call, topics: Iterable[MetadataResponseTopic], services: Services
) -> None:
    for topic in topics:
        if topic.name is not None and topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
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
