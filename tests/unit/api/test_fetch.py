"""Fetch answers whole batches within its limits, waits for more, and refuses as Kafka refuses."""

import asyncio
from pathlib import Path

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from coordinator_server.api import fetch
from coordinator_server.api.services import Services
from coordinator_server.ports import Operation, Resource
from tests.support.data_plane import make_topics, produced, values_of
from tests.support.fake_services import FakeCall, fake_services

MIB = 1 << 20


@pytest.fixture
async def services(tmp_path: Path) -> Services:
    services = fake_services(make_topics(tmp_path))
    services.topics.catalog.create([("orders", 4), ("payments", 1)])
    await produced(services.topics, "orders", 0, (1000, b"a"), (1001, b"b"))
    await produced(services.topics, "orders", 0, (1002, b"c"))
    await produced(services.topics, "orders", 1, (1000, b"x" * 1000))
    return services


def want(index: int = 0, offset: int = 0, max_bytes: int = MIB, epoch: int = -1) -> FetchPartition:
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
    )


def request(
    *partitions: FetchPartition,
    topic: str = "orders",
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 * MIB,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    replica_id: int = -1,
) -> FetchRequest:
    return FetchRequest(
        topics=[FetchTopic(topic=topic, partitions=list(partitions))],
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        replica_id=replica_id,
    )


async def ask(services: Services, asked: FetchRequest, *, version: int = 12) -> list[PartitionData]:
    response = await fetch.handle(FakeCall(version), asked, services)
    return flat(response)


def flat(response: FetchResponse) -> list[PartitionData]:
    assert (response.error_code, response.session_id) == (0, 0)
    return [data for topic in response.responses for data in topic.partitions]


async def test_records_are_answered_from_the_offset_on(services: Services) -> None:
    (data,) = await ask(services, request(want()))
    assert data.error_code == ErrorCode.NONE
    assert values_of(data.records) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)
    assert (data.aborted_transactions, data.preferred_read_replica) == (None, -1)


async def test_the_batch_that_holds_the_offset_is_answered_whole(services: Services) -> None:
    (data,) = await ask(services, request(want(offset=1)))
    assert values_of(data.records) == [(0, b"a"), (1, b"b"), (2, b"c")]
    (data,) = await ask(services, request(want(offset=2)))
    assert values_of(data.records) == [(2, b"c")]


async def test_the_end_is_empty_and_no_error(services: Services) -> None:
    (data,) = await ask(services, request(want(offset=3)))
    assert (data.error_code, data.records, data.high_watermark) == (0, b"", 3)


@pytest.mark.parametrize("offset", [4, -1, 2**63 - 1])
async def test_an_offset_outside_the_log_is_out_of_range(services: Services, offset: int) -> None:
    (data,) = await ask(services, request(want(offset=offset), max_wait_ms=60_000))
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert data.records == b""


async def test_a_read_committed_fetch_has_an_empty_list_of_aborted_transactions(
    services: Services,
) -> None:
    (data,) = await ask(services, request(want(), isolation_level=1))
    assert data.aborted_transactions == []


async def test_partition_limits_hold_but_for_the_first_batch(services: Services) -> None:
    first, second = await ask(services, request(want(0, max_bytes=1), want(1, max_bytes=1)))
    assert values_of(first.records) == [(0, b"a"), (1, b"b")]
    assert (second.error_code, second.records, second.high_watermark) == (0, b"", 1)


async def test_the_limit_of_the_answer_holds_but_for_the_first_batch(services: Services) -> None:
    answer = await ask(services, request(want(1), want(0), max_bytes=100))
    assert [len(values_of(data.records)) for data in answer] == [1, 0]


@pytest.mark.parametrize("max_bytes", [-1, -(2**31)])
async def test_a_negative_limit_is_an_error_of_the_partition_that_comes_first(
    services: Services, max_bytes: int
) -> None:
    asked = request(want(0), want(1), max_bytes=max_bytes, max_wait_ms=60_000)
    first, second = await ask(services, asked)
    assert (first.error_code, first.high_watermark) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)
    assert values_of(second.records) == [(0, b"x" * 1000)]


async def test_a_negative_limit_of_a_partition_is_an_error_of_its_own(services: Services) -> None:
    second, first = await ask(services, request(want(1), want(0, max_bytes=-1)))
    assert len(values_of(second.records)) == 1
    assert (first.error_code, first.records) == (ErrorCode.UNKNOWN_SERVER_ERROR, b"")


async def test_an_empty_partition_does_not_use_up_the_one_batch_rule(services: Services) -> None:
    answer = await ask(services, request(want(2), want(1), max_bytes=1))
    assert [len(values_of(data.records)) for data in answer] == [0, 1]


async def test_the_servers_limit_holds_too(tmp_path: Path) -> None:
    services = fake_services(make_topics(tmp_path, fetch_max_bytes=150))
    services.topics.catalog.create([("orders", 1)])
    for value in (b"a" * 50, b"b" * 50, b"c" * 50):
        await produced(services.topics, "orders", 0, (1000, value))
    (data,) = await ask(services, request(want()))
    assert len(data.records or b"") <= 150
    assert values_of(data.records) == [(0, b"a" * 50)]


@pytest.mark.parametrize("min_bytes", [0, 1])
async def test_enough_bytes_are_answered_without_waiting(
    services: Services, min_bytes: int
) -> None:
    answer = ask(services, request(want(), max_wait_ms=60_000, min_bytes=min_bytes))
    (data,) = await asyncio.wait_for(answer, 10)
    assert len(values_of(data.records)) == 3


async def parked(services: Services, asked: FetchRequest) -> "asyncio.Task[list[PartitionData]]":
    task = asyncio.create_task(ask(services, asked))
    while not services.topics.parked:
        await asyncio.sleep(0)
        assert not task.done()
    return task


async def test_a_parked_fetch_is_woken_by_an_append(services: Services) -> None:
    task = await parked(services, request(want(offset=3), want(2), max_wait_ms=60_000))
    await produced(services.topics, "orders", 2, (1000, b"new"))
    first, second = await asyncio.wait_for(task, 10)
    assert values_of(first.records) == []
    assert values_of(second.records) == [(0, b"new")]
    assert services.topics.parked == 0


async def test_a_parked_fetch_is_not_woken_by_other_partitions(services: Services) -> None:
    task = await parked(services, request(want(offset=3), max_wait_ms=60_000))
    await produced(services.topics, "orders", 2, (1000, b"elsewhere"))
    assert services.topics.parked == 1
    await produced(services.topics, "orders", 0, (1000, b"here"))
    (data,) = await asyncio.wait_for(task, 10)
    assert values_of(data.records) == [(3, b"here")]


async def test_a_parked_fetch_waits_until_min_bytes_have_come(services: Services) -> None:
    asked = request(want(2), want(3), max_wait_ms=60_000, min_bytes=150)
    task = await parked(services, asked)
    await produced(services.topics, "orders", 2, (1000, b"x"))
    assert services.topics.parked == 1
    await produced(services.topics, "orders", 3, (1000, b"y" * 100))
    answer = await asyncio.wait_for(task, 10)
    assert [len(values_of(data.records)) for data in answer] == [1, 1]


async def test_a_fetch_that_waits_in_vain_is_answered_empty(services: Services) -> None:
    (data,) = await ask(services, request(want(2), max_wait_ms=5))
    assert (data.error_code, data.records, data.high_watermark) == (0, b"", 0)
    assert services.topics.parked == 0


async def test_a_cancelled_fetch_leaves_nothing_behind(services: Services) -> None:
    task = await parked(services, request(want(2), max_wait_ms=60_000))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert services.topics.parked == 0
    await produced(services.topics, "orders", 2, (1000, b"a"))


async def test_parked_fetches_are_answered_at_shutdown_and_none_is_parked_after(
    services: Services,
) -> None:
    task = await parked(services, request(want(2), max_wait_ms=60_000))
    services.topics.release()
    (data,) = await asyncio.wait_for(task, 10)
    assert (data.error_code, data.records) == (0, b"")
    again = ask(services, request(want(2), max_wait_ms=60_000))
    assert len(await asyncio.wait_for(again, 10)) == 1


async def test_a_parked_fetch_learns_that_its_topic_was_deleted(services: Services) -> None:
    asked = request(want(0), topic="payments", max_wait_ms=60_000)
    task = await parked(services, asked)
    await services.topics.delete(["payments"])
    (data,) = await asyncio.wait_for(task, 10)
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("topic", "index"), [("nothing", 0), ("orders", 4), ("orders", -1)])
async def test_an_unknown_partition_is_unknown(services: Services, topic: str, index: int) -> None:
    (data,) = await ask(services, request(want(index), topic=topic, max_wait_ms=60_000))
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (data.high_watermark, data.records) == (-1, b"")


async def test_an_unknown_partition_does_not_hurry_the_others(services: Services) -> None:
    task = await parked(services, request(want(9), want(2), max_wait_ms=60_000))
    await produced(services.topics, "orders", 2, (1000, b"a"))
    unknown, found = await asyncio.wait_for(task, 10)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert values_of(found.records) == [(0, b"a")]


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_another_leader_epoch_is_refused_at_once(
    services: Services, epoch: int, error: ErrorCode
) -> None:
    asked = request(want(epoch=epoch), want(2), max_wait_ms=60_000)
    data, _ = await asyncio.wait_for(ask(services, asked), 10)
    assert data.error_code == error


async def test_no_follower_is_served(services: Services) -> None:
    (data,) = await ask(services, request(want(), replica_id=3))
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("session_epoch", [0, -1])
async def test_whole_requests_are_served_without_a_session(
    services: Services, session_epoch: int
) -> None:
    (data,) = await ask(services, request(want(), session_epoch=session_epoch))
    assert len(values_of(data.records)) == 3


async def test_a_session_we_never_gave_is_not_found(services: Services) -> None:
    asked = request(want(), session_id=77, session_epoch=1)
    response = await fetch.handle(FakeCall(12), asked, services)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (response.session_id, response.responses) == (0, [])


async def test_a_request_for_nothing_is_answered_at_once(services: Services) -> None:
    asked = FetchRequest(topics=[], max_wait_ms=60_000, min_bytes=1)
    response = await asyncio.wait_for(fetch.handle(FakeCall(12), asked, services), 10)
    assert response.responses == []


async def test_a_partition_mentioned_twice_is_answered_once(services: Services) -> None:
    answer = await ask(services, request(want(0, offset=0), want(0, offset=3)))
    assert [data.records for data in answer] == [b""]


async def test_answers_keep_the_order_of_the_request(services: Services) -> None:
    asked = FetchRequest(
        topics=[
            FetchTopic(topic="payments", partitions=[want(0)]),
            FetchTopic(topic="orders", partitions=[want(3), want(0)]),
        ]
    )
    response = await fetch.handle(FakeCall(12), asked, services)
    assert [
        (topic.topic, [data.partition_index for data in topic.partitions])
        for topic in response.responses
    ] == [("payments", [0]), ("orders", [3, 0])]


async def test_read_on_the_topic_is_needed(tmp_path: Path) -> None:
    denied = {(Operation.READ, Resource.TOPIC, "orders")}
    services = fake_services(make_topics(tmp_path), denied=denied)
    services.topics.catalog.create([("orders", 1)])
    (data,) = await ask(services, request(want()))
    assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_the_log_of_the_offsets_topic_is_not_for_clients(services: Services) -> None:
    (data,) = await ask(services, request(want(), topic="__consumer_offsets"))
    assert data.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_a_fetch_opens_no_file_of_a_partition_without_records(
    services: Services, tmp_path: Path
) -> None:
    await ask(services, request(want(3)))
    assert not (tmp_path / "orders-3").exists()
