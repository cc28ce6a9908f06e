"""Metadata names the one node, and answers topics as Kafka 4.1 does."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_decoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from coordinator_server.api import metadata
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from tests.support.data_plane import make_topics
from tests.support.fake_services import NODE, Denied, FakeCall, fake_services

NOT_ASKED = -(2**31)


@pytest.fixture
def services(tmp_path: Path) -> Services:
    services = fake_services(make_topics(tmp_path))
    services.topics.catalog.create([("orders", 4)])
    return services


def ask(
    services: Services,
    *names: str | None,
    version: int = 13,
    everything: bool = False,
    auto_create: bool = False,
    ids: tuple[bytes, ...] = (),
    topic_operations: bool = False,
    cluster_operations: bool = False,
) -> MetadataResponse:
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]
    request = MetadataRequest(
        topics=None if everything else topics,
        allow_auto_topic_creation=auto_create,
        include_topic_authorized_operations=topic_operations,
        include_cluster_authorized_operations=cluster_operations,
    )
    call = FakeCall(version, int(ApiKey.METADATA))
    response = asyncio.run(metadata.handle(call, request, services))
    if response is not None:
        return response
    (body,) = call.answers
    decoded: MetadataResponse = response_decoder(ApiKey.METADATA, version)(body, 0, len(body))
    return decoded


def only(response: MetadataResponse) -> MetadataResponseTopic:
    (topic,) = response.topics
    return topic


def test_the_answer_names_the_node_the_cluster_and_the_controller(services: Services) -> None:
    response = ask(services)
    (broker,) = response.brokers
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (*NODE, None)
    assert response.controller_id == NODE.node_id
    assert response.cluster_id == "test-cluster"
    assert response.topics == []
    assert response.cluster_authorized_operations == NOT_ASKED


def test_a_known_topic_is_described_with_its_partitions(services: Services) -> None:
    topic = only(ask(services, "orders"))
    known = services.image.get("orders")
    assert known is not None
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "orders", known.topic_id.bytes)
    assert not topic.is_internal
    assert topic.topic_authorized_operations == NOT_ASKED
    assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2, 3]
    first = topic.partitions[0]
    assert (first.error_code, first.leader_id, first.leader_epoch) == (0, NODE.node_id, 0)
    assert first.replica_nodes == first.isr_nodes == [NODE.node_id]
    assert first.offline_replicas == []


def test_a_null_list_asks_for_all_topics_with_the_internal_one(services: Services) -> None:
    described = {topic.name: topic for topic in ask(services, everything=True).topics}
    assert set(described) == {"orders", "__consumer_offsets"}
    assert described["__consumer_offsets"].is_internal
    assert len(described["__consumer_offsets"].partitions) == 3


def test_an_empty_list_asks_for_none_but_in_version_0_for_all(services: Services) -> None:
    assert ask(services, version=1).topics == []
    assert len(ask(services, version=0).topics) == 2


def test_a_name_asked_for_twice_is_answered_once(services: Services) -> None:
    assert only(ask(services, "orders", "orders")).name == "orders"


def test_a_topic_is_found_by_its_id_from_version_12_on(services: Services) -> None:
    known = services.image.get("orders")
    assert known is not None
    topic = only(ask(services, ids=(known.topic_id.bytes,), version=12))
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "orders", 4)


def test_an_unknown_id_is_answered_without_a_name(services: Services) -> None:
    topic = only(ask(services, ids=(b"\1" * 16,)))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (topic.name, topic.topic_id, topic.partitions) == (None, b"\1" * 16, [])


def test_ids_go_before_names_in_a_mixed_request(services: Services) -> None:
    known = services.image.get("orders")
    assert known is not None
    assert only(ask(services, "other", ids=(known.topic_id.bytes,))).name == "orders"


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_version_12_are_an_invalid_request(services: Services, version: int) -> None:
    response = ask(services, ids=(b"\1" * 16,), version=version)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    topic = only(response)
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_REQUEST, "")


def test_neither_name_nor_id_is_an_invalid_request(services: Services) -> None:
    assert ask(services, None).error_code == ErrorCode.INVALID_REQUEST


def test_an_unknown_topic_is_not_made_unless_the_client_allows_it(services: Services) -> None:
    topic = only(ask(services, "new"))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.topic_id == bytes(16)
    assert services.image.get("new") is None


def test_an_unknown_topic_is_not_made_unless_the_config_allows_it(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path), auto_create_topics_enable=False)
    topic = only(ask(services, "new", auto_create=True))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert services.image.get("new") is None


def test_a_topic_made_on_first_use_is_in_the_answer(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path), num_partitions=3)
    topic = only(ask(services, "new", auto_create=True))
    made = services.image.get("new")
    assert made is not None
    assert (topic.error_code, topic.topic_id) == (0, made.topic_id.bytes)
    assert len(topic.partitions) == 3


def test_no_more_topics_are_made_by_themselves_than_the_bound_and_the_client_is_told(
    tmp_path: Path,
) -> None:
    topics = make_topics(tmp_path, auto_create_max=2)
    topics.catalog.create([("declared", 1)])
    services = fake_services(topics)
    with capture_logs() as lines:
        made, refused = ask(services, "new", "newer", auto_create=True).topics
        again = only(ask(services, "newest", auto_create=True))
    assert made.error_code == ErrorCode.NONE
    assert refused.error_code == again.error_code == ErrorCode.POLICY_VIOLATION
    assert services.image.get("newer") is None
    assert [(line["topics"], line["why"]) for line in lines] == [
        (["newer"], "there are auto.create.topics.max=2 topics or more")
    ]
    topics.catalog.delete(["declared"])
    assert only(ask(services, "newer", auto_create=True)).error_code == ErrorCode.NONE


def test_asking_for_all_topics_makes_none(services: Services) -> None:
    ask(services, everything=True, auto_create=True)
    assert set(services.image.topics()) == {"orders", "__consumer_offsets"}


@pytest.mark.parametrize("auto_create", [True, False])
def test_an_illegal_name_is_an_invalid_topic(services: Services, auto_create: bool) -> None:
    topic = only(ask(services, "no/slash", auto_create=auto_create))
    assert (topic.error_code, topic.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "no/slash")


def test_kafkas_own_topics_are_not_made_on_first_use(services: Services) -> None:
    topic = only(ask(services, "__transaction_state", auto_create=True))
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.is_internal


def test_a_request_for_too_many_new_topics_makes_only_so_many(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path), num_partitions=4_000)
    response = ask(services, "a", "b", "c", auto_create=True)
    assert [topic.error_code for topic in response.topics] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_partition_without_a_leader_says_so(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path), leaderless=True)
    partition = only(ask(services, "__consumer_offsets")).partitions[0]
    assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert partition.leader_id == -1


def test_authorized_operations_are_bits_and_given_only_when_asked_for(services: Services) -> None:
    response = ask(services, "orders", version=10, topic_operations=True, cluster_operations=True)
    topic_bits = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
    cluster_bits = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
    assert only(response).topic_authorized_operations == topic_bits
    assert response.cluster_authorized_operations == cluster_bits


def with_denied(tmp_path: Path, denied: Denied) -> Services:
    services = fake_services(make_topics(tmp_path), denied=denied)
    services.topics.catalog.create([("secret", 1)])
    return services


def test_a_topic_that_may_not_be_described_shows_no_id(tmp_path: Path) -> None:
    services = with_denied(tmp_path, {(Operation.DESCRIBE, Resource.TOPIC, "secret")})
    topic = only(ask(services, "secret"))
    assert topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (topic.topic_id, topic.partitions) == (bytes(16), [])


def test_a_topic_that_may_not_be_described_is_not_among_all_topics(tmp_path: Path) -> None:
    services = with_denied(tmp_path, {(Operation.DESCRIBE, Resource.TOPIC, "secret")})
    assert only(ask(services, everything=True)).name == "__consumer_offsets"


def test_a_topic_that_may_not_be_described_shows_no_name_for_its_id(tmp_path: Path) -> None:
    services = with_denied(tmp_path, {(Operation.DESCRIBE, Resource.TOPIC, "secret")})
    known = services.image.get("secret")
    assert known is not None
    topic = only(ask(services, ids=(known.topic_id.bytes,)))
    assert (topic.error_code, topic.name) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def test_a_topic_that_may_not_be_created_is_not(tmp_path: Path) -> None:
    services = with_denied(
        tmp_path,
        {
            (Operation.CREATE, Resource.CLUSTER, "kafka-cluster"),
            (Operation.CREATE, Resource.TOPIC, "mine"),
        },
    )
    response = ask(services, "mine", "yours", auto_create=True)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("mine", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("yours", ErrorCode.NONE),
    ]
    assert services.image.get("mine") is None
