"""ListOffsets finds offsets by timestamp, and refuses as Kafka refuses."""

from pathlib import Path

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import response_encoder
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coordinator_server.api import list_offsets
from coordinator_server.api.services import Services
from coordinator_server.loop.time_slice import LONGEST_MS
from coordinator_server.ports import Operation, Resource
from tests.support.data_plane import make_topics, produced
from tests.support.fake_services import FakeCall, fake_services
from tests.support.time_slices import AdvancingClock, pieces

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


@pytest.fixture
async def services(tmp_path: Path) -> Services:
    services = fake_services(make_topics(tmp_path))
    services.topics.catalog.create([("orders", 2)])
    await produced(services.topics, "orders", 0, (1000, b"a"), (1010, b"b"))
    await produced(services.topics, "orders", 0, (1030, b"c"), (1020, b"d"))
    return services


async def ask(
    services: Services, *partitions: ListOffsetsPartition, topic: str = "orders", version: int = 10
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=list(partitions))])
    response = await list_offsets.handle(FakeCall(version), request, services)
    assert response is not None
    (answered,) = response.topics
    assert answered.name == topic
    return answered.partitions


def at(timestamp: int, index: int = 0, epoch: int = -1) -> ListOffsetsPartition:
    return ListOffsetsPartition(
        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
    )


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (LATEST, (-1, 4, 0)),
        (EARLIEST, (-1, 0, 0)),
        (EARLIEST_LOCAL, (-1, 0, 0)),
        (LATEST_TIERED, (-1, -1, -1)),
        (MAX_TIMESTAMP, (1030, 2, 0)),
        (0, (1000, 0, 0)),
        (1000, (1000, 0, 0)),
        (1001, (1010, 1, 0)),
        (1011, (1030, 2, 0)),
        (1030, (1030, 2, 0)),
        (1031, (-1, -1, -1)),
    ],
)
async def test_offsets_are_found_by_timestamp(
    services: Services, timestamp: int, found: tuple[int, int, int]
) -> None:
    (answer,) = await ask(services, at(timestamp))
    assert answer.error_code == ErrorCode.NONE
    assert (answer.timestamp, answer.offset, answer.leader_epoch) == found


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (LATEST, (-1, 0)),
        (EARLIEST, (-1, 0)),
        (MAX_TIMESTAMP, (-1, -1)),
        (0, (-1, -1)),
    ],
)
async def test_an_empty_partition_has_ends_but_no_records(
    services: Services, timestamp: int, found: tuple[int, int]
) -> None:
    (answer,) = await ask(services, at(timestamp, index=1))
    assert (answer.error_code, answer.timestamp, answer.offset) == (0, *found)


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (-6, 10), (-(2**63), 10)],
)
async def test_a_timestamp_without_a_meaning_in_the_version_is_unsupported(
    services: Services, timestamp: int, version: int
) -> None:
    (answer,) = await ask(services, at(timestamp), version=version)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (answer.timestamp, answer.offset) == (-1, -1)


async def test_the_leader_epoch_is_told_from_version_4_on(services: Services) -> None:
    (answer,) = await ask(services, at(LATEST), version=3)
    assert answer.leader_epoch == -1


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_another_leader_epoch_is_refused(
    services: Services, epoch: int, error: ErrorCode
) -> None:
    (answer,) = await ask(services, at(LATEST, epoch=epoch))
    assert answer.error_code == error


@pytest.mark.parametrize(("topic", "index"), [("nothing", 0), ("orders", 2), ("orders", -1)])
async def test_an_unknown_partition_is_unknown(services: Services, topic: str, index: int) -> None:
    (answer,) = await ask(services, at(LATEST, index=index), topic=topic)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_named_twice_is_an_invalid_request(services: Services) -> None:
    first, second = await ask(services, at(LATEST), at(EARLIEST), at(LATEST, index=1))
    assert first.error_code == ErrorCode.INVALID_REQUEST
    assert (second.partition_index, second.error_code) == (1, ErrorCode.NONE)


@pytest.mark.parametrize(("topic", "index"), [("nothing", 0), ("orders", 9)])
async def test_it_is_one_whether_there_is_such_a_partition_or_not(
    services: Services, topic: str, index: int
) -> None:
    (answer,) = await ask(services, at(LATEST, index=index), at(EARLIEST, index=index), topic=topic)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_who_may_not_describe_a_topic_may_name_it_twice(tmp_path: Path) -> None:
    denied = {(Operation.DESCRIBE, Resource.TOPIC, "orders")}
    services = fake_services(make_topics(tmp_path), denied=denied)
    (answer,) = await ask(services, at(LATEST), at(EARLIEST))
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_describe_on_the_topic_is_needed(tmp_path: Path) -> None:
    denied = {(Operation.DESCRIBE, Resource.TOPIC, "orders")}
    services = fake_services(make_topics(tmp_path), denied=denied)
    services.topics.catalog.create([("orders", 1)])
    (answer,) = await ask(services, at(LATEST))
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_the_log_of_the_offsets_topic_is_not_for_clients(services: Services) -> None:
    (answer,) = await ask(services, at(LATEST), topic="__consumer_offsets")
    assert answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def encoded(version: int, services: Services, request: ListOffsetsRequest) -> bytes:
    call = FakeCall(version, int(ApiKey.LIST_OFFSETS))
    response = await list_offsets.handle(call, request, services)
    if response is not None:
        return response_encoder(ApiKey.LIST_OFFSETS, version)(response)
    (body,) = call.answers
    assert isinstance(body, bytes)
    return body


@pytest.mark.interpreted
@pytest.mark.parametrize("version", range(1, 11))
async def test_a_large_answer_in_pieces_has_the_same_bytes(
    services: Services, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    topics = [
        ListOffsetsTopic(name="orders", partitions=[at(LATEST, index) for index in range(500)]),
        ListOffsetsTopic(name="unknown", partitions=[at(EARLIEST)]),
        ListOffsetsTopic(name="empty"),
    ]
    request = ListOffsetsRequest(topics=topics)
    in_pieces = await encoded(version, services, request)
    monkeypatch.setattr(list_offsets, "SMALL", 100_000)
    assert in_pieces == await encoded(version, services, request)


async def test_a_large_answer_is_made_in_several_turns(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path))
    partitions = [at(LATEST, index) for index in range(10_000)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="none", partitions=partitions)])
    call = FakeCall(7, int(ApiKey.LIST_OFFSETS))
    services.clock = AdvancingClock()
    turns = await pieces(list_offsets.handle(call, request, services))
    assert len(call.answers) == 1
    # Every partition is counted, answered and encoded.
    assert turns > 2 * 10_000 // LONGEST_MS
