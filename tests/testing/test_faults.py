"""Faults on demand, each met by requests over a real socket."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.codec import load_api
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.heartbeat import HeartbeatRequest
from coordinator_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coordinator_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coordinator_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coordinator_server.api.registry import REGISTRY
from coordinator_server.cli.groups.kafka import KafkaConnection, KafkaProblem
from coordinator_server.ports import Resource
from coordinator_server.testing.faults import Which, groups_of
from coordinator_server.testing.server import TestCoordinator

HOUR = 3600.0


class Client:
    """One connection of a consumer without a group's membership."""

    def __init__(self, server: TestCoordinator, client_id: str = "tester") -> None:
        host, port = server.bootstrap.split(":")
        self.connection = KafkaConnection(host, int(port), client_id)

    def commit(self, offset: int, group: str = "g") -> int:
        """Commit for orders-0; the error."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(name="orders", partitions=[partition])
        answer = self.connection.call(
            ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group_id=group, topics=[topic])
        )
        return int(answer.topics[0].partitions[0].error_code)

    def committed(self, group: str = "g") -> int:
        """What is committed for orders-0, or the negative error."""
        topic = OffsetFetchRequestTopic(name="orders", partition_indexes=[0])
        answer = self.connection.call(
            ApiKey.OFFSET_FETCH, OffsetFetchRequest(group_id=group, topics=[topic])
        )
        if answer.error_code:
            return -int(answer.error_code)
        return int(answer.topics[0].partitions[0].committed_offset)

    def heartbeat(self, group: str = "g") -> int:
        """Of nobody; the error."""
        request = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
        return int(self.connection.call(ApiKey.HEARTBEAT, request).error_code)

    def join(self) -> int:
        """As a static member; the error."""
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            group_instance_id="first",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        return int(self.connection.call(ApiKey.JOIN_GROUP, request).error_code)


@pytest.fixture
def server(coordinator: TestCoordinator) -> TestCoordinator:
    coordinator.create_topic("orders")
    return coordinator


@pytest.fixture
def client(server: TestCoordinator) -> Iterator[Client]:
    client = Client(server)
    yield client
    client.connection.close()


@pytest.fixture
def other(server: TestCoordinator) -> Iterator[Client]:
    client = Client(server, "other")
    yield client
    client.connection.close()


@pytest.fixture
def aside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_held_request_is_served_and_answered_when_it_is_released(
    server: TestCoordinator, client: Client, other: Client, aside: ThreadPoolExecutor
) -> None:
    held = server.hold("OffsetCommit")
    answer = aside.submit(client.commit, 7)
    held.wait()
    while other.committed() != 7:
        assert not answer.done()
    assert not answer.done()
    held.release()
    assert answer.result(10) == ErrorCode.NONE


def test_delay_passes_when_the_clock_is_moved(
    server: TestCoordinator, client: Client, other: Client, aside: ThreadPoolExecutor
) -> None:
    delayed = server.delay("OffsetCommit", seconds=HOUR)
    answer = aside.submit(client.commit, 7)
    delayed.wait()
    while other.committed() != 7:
        assert not answer.done()
    server.advance(HOUR - 10)
    assert other.committed() == 7
    assert not answer.done()
    server.advance(10)
    assert answer.result(10) == ErrorCode.NONE


def test_delay_passes_by_itself(server: TestCoordinator, client: Client) -> None:
    delayed = server.delay("Heartbeat", seconds=0.01)
    assert client.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert delayed.met == 1


def test_delayed_answer_can_be_sent_at_once(
    server: TestCoordinator, client: Client, aside: ThreadPoolExecutor
) -> None:
    with server.delay("Heartbeat", seconds=HOUR) as delayed:
        answer = aside.submit(client.heartbeat)
        delayed.wait()
    assert answer.result(10) == ErrorCode.UNKNOWN_MEMBER_ID
    server.advance(HOUR)
    assert client.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_request_is_served_although_the_connection_is_lost(
    server: TestCoordinator, client: Client, other: Client
) -> None:
    server.disconnect("OffsetCommit")
    with pytest.raises(KafkaProblem, match="closed the connection"):
        client.commit(7)
    assert other.committed() == 7
    assert other.commit(8) == ErrorCode.NONE


def test_fault_of_a_group_is_met_by_that_group_alone(
    server: TestCoordinator, client: Client
) -> None:
    server.fail("OffsetCommit", "NOT_COORDINATOR", group="billing")
    assert client.commit(1, "shipping") == ErrorCode.NONE
    assert client.commit(1, "billing") == ErrorCode.NOT_COORDINATOR
    assert client.commit(1, "billing") == ErrorCode.NONE


def test_fault_of_a_client_is_met_by_that_client_alone(
    server: TestCoordinator, client: Client, other: Client
) -> None:
    fault = server.disconnect(None, client="other")
    assert client.commit(1) == ErrorCode.NONE
    with pytest.raises(KafkaProblem, match="closed the connection"):
        other.heartbeat()
    assert (fault.met, server.pending_faults) == (1, 0)


def test_requests_that_come_again_meet_a_fault_until_it_is_cleared(
    server: TestCoordinator, client: Client
) -> None:
    def ask() -> tuple[int, int, int]:
        return client.heartbeat(), client.commit(5), client.committed()

    served = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE, 5
    refused = ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR, -ErrorCode.NOT_COORDINATOR
    assert [ask() for _ in range(4)] == [served] * 4
    with server.fail(None, "NOT_COORDINATOR", times=None) as fault:
        assert [ask() for _ in range(4)] == [refused] * 4
        assert fault.met == 12
    assert ask() == served


def test_faults_are_met_in_the_order_they_were_planned(
    server: TestCoordinator, client: Client
) -> None:
    server.fail("Heartbeat", "NOT_COORDINATOR", times=2)
    server.fail(None, "REBALANCE_IN_PROGRESS")
    assert server.pending_faults == 3
    assert [client.heartbeat() for _ in range(4)] == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


def test_clearing_all_faults_sends_what_they_made_late(
    server: TestCoordinator, client: Client, other: Client, aside: ThreadPoolExecutor
) -> None:
    held, delayed = server.hold("Heartbeat", times=None), server.delay("OffsetCommit", HOUR)
    answers: list[Future[int]] = [aside.submit(client.heartbeat), aside.submit(other.commit, 1)]
    held.wait()
    delayed.wait()
    server.clear_faults()
    assert [each.result(10) for each in answers] == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert client.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_held_answer_leaves_when_the_server_stops(aside: ThreadPoolExecutor) -> None:
    with TestCoordinator() as server:
        held = server.hold("Heartbeat")
        client = Client(server)
        answer = aside.submit(client.heartbeat)
        held.wait()
    assert answer.result(10) == ErrorCode.UNKNOWN_MEMBER_ID
    client.connection.close()


def test_what_does_not_come_is_named(server: TestCoordinator, client: Client) -> None:
    held = server.hold("SyncGroup", group="billing", client="worker")
    client.heartbeat()
    with pytest.raises(TimeoutError, match=r"0 of 1 came .* SYNC_GROUP of group 'billing' of cl"):
        held.wait(timeout=0.01)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda server: server.fail("JoinTheGroup", "NOT_COORDINATOR"), "JoinTheGroup"),
        (lambda server: server.fail("JoinGroup", "NO_SUCH_ERROR"), "NO_SUCH_ERROR"),
        (lambda server: server.fail("JoinGroup", "NOT_COORDINATOR", 0), "times=0"),
        (lambda server: server.delay("JoinGroup", 0), "seconds=0"),
        (lambda server: server.hold("Metadata", group="g"), "Metadata is of no group"),
    ],
)
def test_fault_that_cannot_be_is_refused_by_name(
    coordinator: TestCoordinator, plan: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        plan(coordinator)
    assert coordinator.pending_faults == 0


@pytest.mark.parametrize(
    ("key", "request_fields"),
    [
        (ApiKey.HEARTBEAT, {"group_id": "g"}),
        (ApiKey.OFFSET_FETCH, {"groups": [OffsetFetchRequestGroup(group_id="g")]}),
        (ApiKey.DESCRIBE_GROUPS, {"groups": ["f", "g"]}),
        (ApiKey.DELETE_GROUPS, {"groups_names": ["g"]}),
        (ApiKey.FIND_COORDINATOR, {"coordinator_keys": ["f", "g"]}),
        (ApiKey.FIND_COORDINATOR, {"key": "g"}),
    ],
)
def test_a_group_is_found_wherever_a_request_names_it(
    key: ApiKey, request_fields: dict[str, Any]
) -> None:
    assert "g" in groups_of(load_api(key).request(**request_fields))
    assert "h" not in groups_of(load_api(key).request(**request_fields))


def test_requests_of_groups_can_be_chosen_by_the_group() -> None:
    keys = {api.key for api in REGISTRY.values() if api.resource is Resource.GROUP}
    for key in keys - {ApiKey.LIST_GROUPS}:
        assert Which.named(key.name, "g", None) == Which(key, "g", None)


@pytest.mark.coordinator({"group.initial.rebalance.delay.ms": "3000"})
def test_answer_that_is_made_after_the_release_is_sent_at_once(
    server: TestCoordinator, client: Client, aside: ThreadPoolExecutor
) -> None:
    held = server.hold("JoinGroup")
    answer = aside.submit(client.join)
    held.wait()
    held.release()
    server.advance(3)
    assert answer.result(10) == ErrorCode.NONE
