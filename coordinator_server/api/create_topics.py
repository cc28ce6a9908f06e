"""CreateTopics (key 19).

v2: throttle time. v4: partitions and replication factor may be -1, the default (KIP-464).
v5: flexible; the answer tells partitions, replication factor and configs (KIP-525).
v6: may be answered THROTTLING_QUOTA_EXCEEDED, which never happens here. v7: topic ids.

Errors, their order and their words are those of Kafka's `ControllerApis` and
`ReplicationControlManager`. Topic configs are checked and have no effect.
"""

from collections import Counter
from collections.abc import Iterable

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from coordinator_server.api.authorized_operations import CLUSTER_NAME
from coordinator_server.api.call import Call
from coordinator_server.api.controller import is_controller
from coordinator_server.api.services import Services
from coordinator_server.loop.time_slice import TimeSlice
from coordinator_server.ports import Operation, Resource, TopicInfo
from coordinator_server.topics.catalog_interface import Catalog
from coordinator_server.topics.configs import check_configs
from coordinator_server.topics.errors import TopicError
from coordinator_server.topics.limits import MAX_PARTITIONS_PER_REQUEST
from coordinator_server.topics.names import CLUSTER_METADATA_TOPIC

REPLICATION_FACTOR = 1
DEFAULT = -1
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."

Plan = int | TopicError
"""The partitions a topic is to have, or why it is refused."""


async def handle(
    call: Call, request: CreateTopicsRequest, services: Services
) -> CreateTopicsResponse:
    """Create what can be created, with one write, and answer for every name once."""
    if not is_controller(call, services):
        return refuse(request, ErrorCode.NOT_CONTROLLER, call.version)
    mentions = Counter(topic.name for topic in request.topics)
    if _asked_partitions(request, mentions, services) > MAX_PARTITIONS_PER_REQUEST:
        return _refuse_all(mentions, ErrorCode.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
    catalog = services.topics.catalog
    pace = TimeSlice(services.clock)
    plans: dict[str, Plan] = {}
    reserved: list[TopicInfo] = []
    try:
        for topic in request.topics:
            if pace.is_over():
                await pace.rest()
            if topic.name in plans:
                continue
            plan = _plan(call, topic, mentions[topic.name], services)
            if not isinstance(plan, TopicError):
                plan = _reserve(topic.name, plan, catalog, reserved)
            plans[topic.name] = plan
        if request.validate_only:
            catalog.release(reserved)
        else:
            created, reserved = reserved, []
            await catalog.create_reserved(created)
    except OSError as failure:
        return _refuse_all(mentions, ErrorCode.KAFKA_STORAGE_ERROR, f"Not stored: {failure}")
    except BaseException:
        # A client that goes away ends its request: nothing stays reserved.
        catalog.release(reserved)
        raise
    results = []
    for name, plan in plans.items():
        if pace.is_over():
            await pace.rest()
        results.append(_result(call, name, plan, services))
    return CreateTopicsResponse(topics=results)


def _reserve(name: str, partitions: int, catalog: Catalog, reserved: list[TopicInfo]) -> Plan:
    """Reserve the name and partitions of a topic: other requests are served before it is made."""
    try:
        reserved.append(catalog.reserve(name, partitions))
    except TopicError as refusal:
        return refusal
    return partitions


def refuse(request: CreateTopicsRequest, error: ErrorCode, _version: int) -> CreateTopicsResponse:
    """An error for every topic."""
    names = dict.fromkeys(topic.name for topic in request.topics)
    return _refuse_all(names, error, error.message)


def _asked_partitions(
    request: CreateTopicsRequest, mentions: Counter[str], services: Services
) -> int:
    asked = 0
    for topic in request.topics:
        if mentions[topic.name] > 1:
            continue
        if topic.assignments:
            asked += len(topic.assignments)
        elif topic.num_partitions == DEFAULT:
            asked += services.config.num_partitions
        else:
            asked += max(topic.num_partitions, 0)
    return asked


def _refuse_all(names: Iterable[str], error: ErrorCode, message: str) -> CreateTopicsResponse:
    refusal = TopicError(error, message)
    return CreateTopicsResponse(topics=[_refused(name, refusal) for name in names])


def _plan(call: Call, topic: CreatableTopic, mentions: int, services: Services) -> Plan:
    try:
        _check_request(call, topic.name, mentions, services)
        services.topics.catalog.check_new(topic.name)
        _check_configs(topic)
        if topic.assignments:
            return _assigned_partitions(call, topic, services)
        return _placed_partitions(call, topic, services)
    except TopicError as refusal:
        return refusal


def _check_request(call: Call, name: str, mentions: int, services: Services) -> None:
    if mentions > 1:
        raise TopicError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if name == CLUSTER_METADATA_TOPIC:
        raise TopicError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    allowed = services.authorizer.allowed
    if not allowed(call.caller, Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME) and not allowed(
        call.caller, Operation.CREATE, Resource.TOPIC, name
    ):
        raise TopicError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def _check_configs(topic: CreatableTopic) -> None:
    values: dict[str, str] = {}
    nulls: list[str] = []
    for config in topic.configs:
        if config.value is None:
            nulls.append(config.name)
        else:
            values[config.name] = config.value
    if nulls:
        raise TopicError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    check_configs(values)


def _assigned_partitions(call: Call, topic: CreatableTopic, services: Services) -> int:
    if topic.replication_factor != DEFAULT:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not "
            "set to -1.",
        )
    if topic.num_partitions != DEFAULT:
        raise TopicError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    nodes = {node.node_id for node in services.directory.nodes(call.caller.listener)}
    seen: set[int] = set()
    for assignment in topic.assignments:
        if assignment.partition_index in seen:
            raise TopicError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Found multiple manual partition assignments for partition "
                f"{assignment.partition_index}",
            )
        _check_replicas(assignment.broker_ids, nodes)
        seen.add(assignment.partition_index)
    if seen != set(range(len(seen))):
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(seen)


def _check_replicas(replicas: list[int], nodes: set[int]) -> None:
    complaint = ""
    if not replicas:
        complaint = "an empty replica list"
    previous = None
    for replica in sorted(replicas):
        if replica not in nodes:
            complaint = f"broker {replica}, but no such broker is registered"
            break
        if replica == previous:
            complaint = f"the broker {replica} more than once"
            break
        previous = replica
    if complaint:
        raise TopicError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes {complaint}.",
        )


def _placed_partitions(call: Call, topic: CreatableTopic, services: Services) -> int:
    factor, partitions = topic.replication_factor, topic.num_partitions
    if factor < DEFAULT or factor == 0:
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partitions < DEFAULT or partitions == 0:
        raise TopicError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor > REPLICATION_FACTOR:
        nodes = len(services.directory.nodes(call.caller.listener))
        raise TopicError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {nodes} broker(s) are registered.",
        )
    return services.config.num_partitions if partitions == DEFAULT else partitions


def _refused(name: str, refusal: TopicError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name, error_code=refusal.error, error_message=str(refusal), configs=None
    )


def _result(call: Call, name: str, plan: Plan, services: Services) -> CreatableTopicResult:
    if isinstance(plan, TopicError):
        return _refused(name, plan)
    result = CreatableTopicResult(name=name, error_message=None, configs=None)
    created = services.image.get(name)
    if created is not None:
        result.topic_id = created.topic_id.bytes
    if services.authorizer.allowed(call.caller, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, name):
        result.num_partitions = plan
        result.replication_factor = REPLICATION_FACTOR
        result.configs = []
    else:
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return result
