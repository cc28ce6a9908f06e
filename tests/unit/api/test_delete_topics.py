"""DeleteTopics forgets topics by name and by id, and refuses with Kafka's errors."""

import asyncio
from pathlib import Path

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from coordinator_server.api import delete_topics
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from tests.support.data_plane import make_topics
from tests.support.fake_services import FakeCall, fake_services
from tests.support.time_slices import AdvancingClock, pieces

ZERO = bytes(16)


@pytest.fixture
def services(tmp_path: Path) -> Services:
    services = fake_services(make_topics(tmp_path))
    services.topics.catalog.create([("orders", 2), ("payments", 1)])
    return services


async def delete(services: Services, *states: DeleteTopicState) -> list[DeletableTopicResult]:
    request = DeleteTopicsRequest(topics=list(states))
    return (await delete_topics.handle(FakeCall(6), request, services)).responses


def id_of(services: Services, name: str) -> bytes:
    topic = services.image.get(name)
    assert topic is not None
    return topic.topic_id.bytes


async def test_topics_are_deleted_by_name_before_version_6(services: Services) -> None:
    request = DeleteTopicsRequest(topic_names=["orders"])
    (result,) = (await delete_topics.handle(FakeCall(5), request, services)).responses
    assert (result.name, result.error_code) == ("orders", ErrorCode.NONE)
    assert services.image.get("orders") is None
    assert services.image.get("payments") is not None


async def test_a_topic_is_deleted_by_its_id(services: Services) -> None:
    topic_id = id_of(services, "orders")
    (result,) = await delete(services, DeleteTopicState(name=None, topic_id=topic_id))
    assert (result.name, result.topic_id, result.error_code) == ("orders", topic_id, 0)
    assert services.image.get("orders") is None


async def test_one_refused_topic_does_not_keep_the_others(services: Services) -> None:
    results = await delete(
        services, DeleteTopicState(name="nothing"), DeleteTopicState(name="orders")
    )
    assert [result.error_code for result in results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    assert services.image.get("orders") is None


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (DeleteTopicState(name="nothing"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (DeleteTopicState(name=None, topic_id=b"\1" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
        (DeleteTopicState(name=None, topic_id=ZERO), ErrorCode.INVALID_REQUEST),
        (DeleteTopicState(name="orders", topic_id=b"\1" * 16), ErrorCode.INVALID_REQUEST),
        (DeleteTopicState(name="__consumer_offsets"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_refusals(services: Services, state: DeleteTopicState, error: ErrorCode) -> None:
    (result,) = await delete(services, state)
    assert result.error_code == error
    assert result.error_message
    assert len(services.image.topics()) == 3


async def test_a_topic_named_twice_stays(services: Services) -> None:
    (result,) = await delete(
        services, DeleteTopicState(name="orders"), DeleteTopicState(name="orders")
    )
    assert (result.error_code, result.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Duplicate topic name.",
    )
    assert services.image.get("orders") is not None


async def test_a_topic_named_by_name_and_by_id_is_deleted_once(services: Services) -> None:
    results = await delete(
        services,
        DeleteTopicState(name="orders"),
        DeleteTopicState(name=None, topic_id=id_of(services, "orders")),
    )
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert services.image.get("orders") is None


async def test_deletion_needs_delete_on_the_topic(tmp_path: Path) -> None:
    denied = {
        (Operation.DELETE, Resource.CLUSTER, "kafka-cluster"),
        (Operation.DELETE, Resource.TOPIC, "orders"),
    }
    services = fake_services(make_topics(tmp_path), denied=denied)
    services.topics.catalog.create([("orders", 1), ("payments", 1)])
    results = await delete(
        services, DeleteTopicState(name="orders"), DeleteTopicState(name="payments")
    )
    assert [result.error_code for result in results] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
    ]


async def test_two_requests_that_delete_the_same_topics_are_both_answered(
    services: Services,
) -> None:
    states = [DeleteTopicState(name="orders"), DeleteTopicState(name="payments")]
    first, second = await asyncio.gather(
        delete(services, *states), delete(services, *reversed(states))
    )
    assert [result.error_code for result in first] == [0, 0]
    assert [result.error_code for result in second] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_others_have_turns_while_many_topics_are_deleted(services: Services) -> None:
    names = [f"topic-{number}" for number in range(20)]
    services.topics.catalog.create([(name, 1) for name in names])
    states = [DeleteTopicState(name=name) for name in names]

    services.clock = AdvancingClock()
    handling = delete(services, *states)
    assert await pieces(handling) > 5
    assert services.image.get(names[0]) is None
