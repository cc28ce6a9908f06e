"""CreateTopics creates topics, and refuses with Kafka's errors and words."""

import asyncio
from pathlib import Path

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from coordinator_server.api import create_topics
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from tests.support.data_plane import make_topics
from tests.support.fake_services import NODE, Denied, FakeCall, fake_services


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return fake_services(make_topics(tmp_path), num_partitions=6)


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, list[int]] | None = None,
    configs: dict[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def create(
    services: Services, *topics: CreatableTopic, validate_only: bool = False
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return asyncio.run(create_topics.handle(FakeCall(7), request, services)).topics


def refusal(services: Services, asked: CreatableTopic) -> tuple[ErrorCode, str | None]:
    (result,) = create(services, asked)
    if asked.name != "there":
        assert services.image.get(asked.name) is None
    return ErrorCode(result.error_code), result.error_message


def test_topics_are_created_and_described(services: Services) -> None:
    first, second = create(services, topic("a", 3), topic("b", -1, -1))
    made = services.image.get("a")
    assert made is not None
    assert (first.error_code, first.error_message) == (0, None)
    assert first.topic_id == made.topic_id.bytes
    assert (first.num_partitions, first.replication_factor) == (3, 1)
    assert first.configs == []
    assert second.num_partitions == 6


def test_validation_alone_creates_nothing(services: Services) -> None:
    (result,) = create(services, topic("a", 3), validate_only=True)
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert services.image.get("a") is None


def test_one_refused_topic_does_not_keep_the_others_back(services: Services) -> None:
    results = create(services, topic("a"), topic("b", 0), topic("c"))
    assert [(result.name, result.error_code) for result in results] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_PARTITIONS),
        ("c", ErrorCode.NONE),
    ]


def test_a_duplicate_name_is_refused_and_answered_once(services: Services) -> None:
    assert create(services, topic("a"), topic("b"), topic("a"))[0].error_message == (
        "Duplicate topic name."
    )
    assert services.image.get("a") is None
    assert services.image.get("b") is not None


def test_an_existing_topic_is_refused(services: Services) -> None:
    create(services, topic("there"))
    assert refusal(services, topic("there")) == (
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "Topic 'there' already exists.",
    )


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (topic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: 'a/b'"),
        (topic("__cluster_metadata"), ErrorCode.INVALID_REQUEST, "is prohibited."),
        (topic("a", 0), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (topic("a", -2), ErrorCode.INVALID_PARTITIONS, "non-positive"),
        (topic("a", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
        (topic("a", 0, -2), ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0"),
        (
            topic("a", 1, 2),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The target replication factor of 2 cannot be reached because only 1 broker(s) are",
        ),
        (
            topic("a", configs={"retention.ms": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            topic("a", configs={"retention.ms": "-2", "segment.ms": "5"}),
            ErrorCode.INVALID_CONFIG,
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            topic("a", configs={"retention": "1"}),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: retention",
        ),
        (
            topic("a", 1, -1, {0: [NODE.node_id]}),
            ErrorCode.INVALID_REQUEST,
            "numPartitions was not set to -1.",
        ),
        (
            topic("a", -1, 1, {0: [NODE.node_id]}),
            ErrorCode.INVALID_REQUEST,
            "replication factor was not set to -1.",
        ),
        (
            topic("a", -1, -1, {0: []}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes an empty replica list.",
        ),
        (
            topic("a", -1, -1, {0: [99]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes broker 99, but no such broker is registered.",
        ),
        (
            topic("a", -1, -1, {0: [NODE.node_id, NODE.node_id]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"includes the broker {NODE.node_id} more than once.",
        ),
        (
            topic("a", -1, -1, {1: [NODE.node_id]}),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
def test_refusals_have_kafkas_code_and_words(
    services: Services, asked: CreatableTopic, error: ErrorCode, message: str
) -> None:
    code, text = refusal(services, asked)
    assert code is error
    assert text is not None
    assert message in text


def test_a_partition_assigned_twice_is_refused(services: Services) -> None:
    asked = topic("a", -1, -1, {0: [NODE.node_id]})
    asked.assignments.append(asked.assignments[0])
    assert refusal(services, asked) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "Found multiple manual partition assignments for partition 0",
    )


def test_a_manual_assignment_to_this_node_is_taken(services: Services) -> None:
    assignments = {0: [NODE.node_id], 1: [NODE.node_id]}
    (result,) = create(services, topic("a", -1, -1, assignments))
    assert (result.error_code, result.num_partitions) == (0, 2)


def test_more_than_ten_thousand_partitions_are_refused_as_a_whole(services: Services) -> None:
    results = create(services, topic("a", 9_999), topic("b", 2))
    assert {result.error_code for result in results} == {ErrorCode.POLICY_VIOLATION}
    assert {result.error_message for result in results} == {
        "Excessively large number of partitions per request."
    }
    assert set(services.image.topics()) == {"__consumer_offsets"}


CREATE_DENIED: Denied = {
    (Operation.CREATE, Resource.CLUSTER, "kafka-cluster"),
    (Operation.CREATE, Resource.TOPIC, "a"),
}


def test_creation_needs_create_on_the_cluster_or_the_topic(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path), denied=CREATE_DENIED)
    assert refusal(services, topic("a")) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "Authorization failed.",
    )
    assert create(services, topic("b"))[0].error_code == ErrorCode.NONE


def test_who_may_not_describe_configs_learns_no_more_than_success(tmp_path: Path) -> None:
    denied = {(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "a")}
    services = fake_services(make_topics(tmp_path), denied=denied)
    (result,) = create(services, topic("a", 3))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, -1, -1)
    assert result.configs is None
    assert result.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
