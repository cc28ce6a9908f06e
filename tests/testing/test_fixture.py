"""The `coordinator` fixture as a user of it sees it, with a real client."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]
from structlog.testing import capture_logs

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.heartbeat import HeartbeatRequest
from coordinator_server.cli.groups.kafka import KafkaConnection
from coordinator_server.config import ConfigError
from coordinator_server.testing.server import TestCoordinator

PARTITION = TopicPartition("orders", 0)


@contextlib.asynccontextmanager
async def consuming(server: TestCoordinator, group: str = "g") -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=server.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        retry_backoff_ms=20,
        metadata_max_age_ms=500,
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


async def until_rebalanced(server: TestCoordinator, reason: str) -> None:
    async with asyncio.timeout(20):
        while reason not in {event.reason for event in server.rebalances}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_client_produces_consumes_and_finds_its_commit_again(
    coordinator: TestCoordinator,
) -> None:
    coordinator.create_topic("orders", partitions=1)
    producer = AIOKafkaProducer(bootstrap_servers=coordinator.bootstrap)
    await producer.start()
    await producer.send_and_wait("orders", b"first")
    await producer.stop()
    async with consuming(coordinator) as consumer:
        record = await asyncio.wait_for(consumer.getone(), 20)
        assert record.value == b"first"
        await consumer.commit()
    async with consuming(coordinator) as consumer:
        assert await consumer.committed(PARTITION) == 1


async def test_moving_the_clock_expires_a_silent_member(coordinator: TestCoordinator) -> None:
    coordinator.create_topic("orders")
    async with consuming(coordinator):
        coordinator.advance(10)
        await until_rebalanced(coordinator, "session_expired")
    (expired,) = [e for e in coordinator.rebalances if e.reason == "session_expired"]
    assert expired.culprit.client_id.startswith("aiokafka")


async def test_planned_error_is_answered_as_often_as_planned(coordinator: TestCoordinator) -> None:
    coordinator.create_topic("orders")
    async with consuming(coordinator) as consumer:
        coordinator.fail("OffsetCommit", "TOPIC_AUTHORIZATION_FAILED")
        with pytest.raises(KafkaError, match="TopicAuthorizationFailed"):
            await consumer.commit({PARTITION: 0})
        assert coordinator.pending_faults == 0
        await consumer.commit({PARTITION: 0})


async def test_client_commits_again_where_the_answer_was_lost(coordinator: TestCoordinator) -> None:
    coordinator.create_topic("orders")
    async with consuming(coordinator) as consumer:
        lost = coordinator.disconnect("OffsetCommit", group="g")
        await asyncio.wait_for(consumer.commit({PARTITION: 7}), 20)
        assert lost.met == 1
        assert await consumer.committed(PARTITION) == 7


async def test_joining_client_waits_for_an_answer_that_is_held(
    coordinator: TestCoordinator,
) -> None:
    coordinator.create_topic("orders")
    with coordinator.hold("SyncGroup") as held:
        async with asyncio.TaskGroup() as tasks:
            joining = tasks.create_task(join_and_leave(coordinator))
            await asyncio.to_thread(held.wait)
            ended = await asyncio.to_thread(coordinator.wait_for_rebalance)
            assert ended.reason == "member_joined"
            assert not joining.done()
            held.release()


async def join_and_leave(server: TestCoordinator) -> None:
    async with consuming(server):
        pass


def test_rebalances_name_reason_and_culprit(coordinator: TestCoordinator) -> None:
    async def join_and_leave() -> None:
        coordinator.create_topic("orders")
        async with consuming(coordinator, "billing"):
            pass

    asyncio.run(join_and_leave())
    joined, left = coordinator.rebalances
    assert (joined.group_id, joined.reason, left.reason) == (
        "billing",
        "member_joined",
        "member_left",
    )
    assert joined.culprit == left.culprit


async def test_rebalances_are_waited_for_one_after_the_other(coordinator: TestCoordinator) -> None:
    coordinator.create_topic("orders")
    for group in ("g", "billing"):
        async with consuming(coordinator, group):
            pass
    assert coordinator.wait_for_rebalance().reason == "member_joined"
    left = coordinator.wait_for_rebalance("member_left", group="billing")
    assert (left.group_id, left) == ("billing", coordinator.rebalances[-1])
    with pytest.raises(TimeoutError, match=r"no rebalance within 0\.01 s, but nothing$"):
        coordinator.wait_for_rebalance(timeout=0.01)


async def test_rebalance_that_does_not_come_is_named_beside_those_that_did(
    coordinator: TestCoordinator,
) -> None:
    coordinator.create_topic("orders")
    async with consuming(coordinator):
        said = r"no session_expired of group 'g' within 0\.01 s, but member_joined of 'g'$"
        with pytest.raises(TimeoutError, match=said):
            coordinator.wait_for_rebalance("session_expired", group="g", timeout=0.01)
        assert coordinator.wait_for_rebalance().reason == "member_joined"
        coordinator.advance(10)
        expired = await asyncio.to_thread(coordinator.wait_for_rebalance, "session_expired")
        assert expired.culprit.client_id.startswith("aiokafka")


@pytest.mark.coordinator({"node.id": "7"})
def test_settings_are_taken_from_the_marker(coordinator: TestCoordinator) -> None:
    host, port = coordinator.bootstrap.split(":")
    with socket.create_connection((host, int(port))):
        assert coordinator._running().directory.this_node("PLAINTEXT").node_id == 7


def lines_of_a_refusal(server: TestCoordinator) -> set[str]:
    """The names of what the server logs when it refuses a heartbeat."""
    host, port = server.bootstrap.split(":")
    with capture_logs() as lines:
        connection = KafkaConnection(host, int(port))
        answer = connection.call(
            ApiKey.HEARTBEAT, HeartbeatRequest(group_id="g", member_id="m", generation_id=1)
        )
        connection.close()
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    return {line["event"] for line in lines}


def test_refusals_do_not_fill_the_output_of_tests(coordinator: TestCoordinator) -> None:
    assert lines_of_a_refusal(coordinator) == set()


@pytest.mark.coordinator({"log.level": "debug"})
def test_refusals_are_printed_by_whoever_asks_for_them(coordinator: TestCoordinator) -> None:
    assert lines_of_a_refusal(coordinator) == {"refused"}


def test_wrong_setting_is_reported_by_name() -> None:
    with (
        pytest.raises(ConfigError, match=r"group\.max\.size"),
        TestCoordinator({"group.max.size": "many"}),
    ):
        pytest.fail("it must not start")


def test_stopped_coordinator_can_be_followed_by_another() -> None:
    with TestCoordinator() as first:
        one = first.bootstrap
    with TestCoordinator() as second:
        assert second.rebalances == []
        assert one.split(":")[0] == second.bootstrap.split(":")[0]
