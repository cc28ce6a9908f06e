"""What clients see on the wire where other coordinators went wrong; bytes by kio, not by us."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.java import java_hash, partition_for
from coordinator_server.observe.status import Census
from coordinator_server.runtime.status import CoordinatorStatus
from coordinator_server.testing.server import TestCoordinator
from tests.oracle.oracle.wire import Reply, decode_response, encode_request, frame
from tests.support.coordinator_harness import CoordinatorHarness, settle
from tests.support.wire import RawConnection

PROTOCOLS = [{"name": "range", "metadata": b"r"}]
JOIN = {
    "group_id": "g",
    "session_timeout": 10_000,
    "rebalance_timeout": 30_000,
    "protocol_type": "consumer",
    "protocols": PROTOCOLS,
}


class Client(RawConnection):
    """A connection on which an answer may be awaited later."""

    def ask(self, api: str, version: int, /, **values: object) -> None:
        """Send a request; `answer` is to be called for it."""
        self._asked = api, version
        self._socket.sendall(frame(encode_request(api, version, 1, "raw", dict(values))))

    def answer(self) -> Reply:
        """The answer to what was asked last."""
        return decode_response(*self._asked, self._answer())

    def join(self, version: int, /, **values: object) -> Reply:
        """JoinGroup, and again if a member id is required."""
        joined = self.call("JoinGroup", version, **{**JOIN, **values})
        if joined["error_code"] == "MEMBER_ID_REQUIRED":
            again = {**JOIN, **values, "member_id": joined["member_id"]}
            return self.call("JoinGroup", version, **again)
        return joined

    def sync(self, version: int, joined: Reply, assignment: bytes = b"") -> Reply:
        """SyncGroup of a member that leads itself alone, or does not lead."""
        given = [{"member_id": joined["member_id"], "assignment": assignment}]
        return self.call(
            "SyncGroup",
            version,
            group_id="g",
            generation_id=joined["generation_id"],
            member_id=joined["member_id"],
            assignments=given if joined["leader"] == joined["member_id"] else [],
        )


def test_a_client_without_a_rebalance_timeout_is_given_its_session_timeout(
    coordinator: TestCoordinator,
) -> None:
    """B19, brod #465. JoinGroup v0: neither 0 nor -1, or members are kicked out for ever."""
    with Client(coordinator.bootstrap) as first, Client(coordinator.bootstrap) as second:
        old = first.join(0)
        assert old["error_code"] == "NONE"
        first.sync(0, old)
        second.ask("JoinGroup", 0, **JOIN)
        _until_it_rebalances(first, old)
        coordinator.advance(9)
        rejoined = first.call("JoinGroup", 0, **{**JOIN, "member_id": old["member_id"]})
        newcomer = second.answer()
        assert rejoined["generation_id"] == newcomer["generation_id"] == 2
        assert len(rejoined["members"]) == 2


def _until_it_rebalances(client: Client, joined: Reply) -> None:
    """The other connection's request has arrived when heartbeats say so."""
    fields = {"generation_id": joined["generation_id"], "member_id": joined["member_id"]}
    while True:
        reply = client.call("Heartbeat", 3, group_id="g", **fields)
        if reply["error_code"] != "NONE":
            assert reply["error_code"] == "REBALANCE_IN_PROGRESS"
            return


@pytest.mark.parametrize("version", [8, 9])
def test_a_returning_static_leader_is_answered_as_its_version_needs(
    coordinator: TestCoordinator, version: int
) -> None:
    """B29, KAFKA-13435. v9 may be told to skip the assignment; v8 is told somebody else leads."""
    with Client(coordinator.bootstrap) as client:
        first = client.join(version, group_instance_id="i")
        client.sync(4, first, b"mine")
        again = client.join(version, group_instance_id="i")
        assert again["error_code"] == "NONE"
        assert again["member_id"] != first["member_id"]
        if version == 9:
            assert (again["leader"], again["skip_assignment"]) == (again["member_id"], True)
            assert [m["member_id"] for m in again["members"]] == [again["member_id"]]
        else:
            assert (again["leader"], again["members"]) == (first["member_id"], [])
        synced = client.sync(4, {**again, "leader": ""})
        assert synced["assignment"] == b"mine"


def test_leaving_is_answered_member_by_member(coordinator: TestCoordinator) -> None:
    """B32, KAFKA-8221. v3 and later: the request as a whole succeeds."""
    with Client(coordinator.bootstrap) as client:
        nobody = client.call("LeaveGroup", 3, group_id="unknown", members=[{"member_id": "m"}])
        assert nobody["error_code"] == "NONE"
        assert [m["error_code"] for m in nobody["members"]] == ["UNKNOWN_MEMBER_ID"]

        joined = client.join(7, group_instance_id="i")
        client.sync(4, joined)
        left = client.call(
            "LeaveGroup",
            4,
            group_id="g",
            members=[
                {"member_id": "stranger"},
                {"member_id": "other", "group_instance_id": "i"},
                {"member_id": "", "group_instance_id": "nobody"},
                {"member_id": "", "group_instance_id": "i"},
            ],
        )
        assert left["error_code"] == "NONE"
        assert [(m["member_id"], m["error_code"]) for m in left["members"]] == [
            ("stranger", "UNKNOWN_MEMBER_ID"),
            ("other", "FENCED_INSTANCE_ID"),
            ("", "UNKNOWN_MEMBER_ID"),
            ("", "NONE"),
        ]
        before = client.call("LeaveGroup", 2, group_id="g", member_id=joined["member_id"])
        assert before["error_code"] == "UNKNOWN_MEMBER_ID"


def committing(version: int, **values: object) -> dict[str, object]:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    return {
        "group_id": "simple",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": "orders", "partitions": [partition]}],
        **values,
    }


def committed_offset(client: Client, topic: str = "orders") -> int:
    asked = [{"name": topic, "partition_indexes": [0]}]
    reply = client.call("OffsetFetch", 5, group_id="simple", topics=asked)
    assert reply["error_code"] == "NONE"
    offset: int = reply["topics"][0]["partitions"][0]["committed_offset"]
    return offset


@pytest.mark.parametrize("version", [2, 3, 4, 5, 9])
def test_a_commit_without_a_retention_of_its_own_is_kept(
    coordinator: TestCoordinator, version: int
) -> None:
    """B46, kop #303. Until v4 the request says -1; from v5 on it says nothing."""
    coordinator.create_topic("orders")
    with Client(coordinator.bootstrap) as client:
        retention = {"retention_time": -1} if version < 5 else {}
        client.call("OffsetCommit", version, **committing(version, **retention))
        coordinator.advance(6 * 24 * 3_600)
        assert committed_offset(client) == 5
        coordinator.advance(2 * 24 * 3_600)
        assert committed_offset(client) == -1


def test_the_offsets_of_a_deleted_topic_do_not_outlive_it(coordinator: TestCoordinator) -> None:
    """B52, franz-go #1411. A topic of the same name begins without any."""
    coordinator.create_topic("orders")
    with Client(coordinator.bootstrap) as client:
        client.call("OffsetCommit", 8, **committing(8))
        assert committed_offset(client) == 5
        client.call("DeleteTopics", 5, topic_names=["orders"], timeout=5_000)
        coordinator.create_topic("orders")
        assert committed_offset(client) == -1
        client.call("OffsetCommit", 8, **committing(8))
        assert committed_offset(client) == 5


def test_the_coordinator_is_the_node_that_metadata_names(coordinator: TestCoordinator) -> None:
    """B53, redpanda #10376. A client that looks the node up finds it, and it answers."""
    with Client(coordinator.bootstrap) as client:
        found = client.call("FindCoordinator", 2, key="g", key_type=0)
        brokers = client.call("Metadata", 9, topics=[])["brokers"]
        assert [(b["node_id"], b["host"], b["port"]) for b in brokers] == [
            (found["node_id"], found["host"], found["port"])
        ]
        assert f"{found['host']}:{found['port']}" == coordinator.bootstrap


def test_groups_lie_in_the_partitions_kafka_puts_them_into() -> None:
    """B56, Kafka's own source. The hash is over UTF-16 units and its least value becomes 0."""
    assert java_hash("polygenelubricants") == -(2**31)
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("group-\U0001f600", 50) == 7


async def test_who_a_rebalance_waits_for_is_named_even_if_it_has_never_joined(
    harness: CoordinatorHarness,
) -> None:
    """B6, librdkafka #5569. An abandoned member id is in the status of the group, and counted."""
    group_client = harness.group_client()
    a = group_client.member("a")
    await group_client.settled(a)
    abandoned = group_client.member("abandoned")
    abandoned.join()
    a.join()
    await settle()
    status = CoordinatorStatus(harness.coordinator)
    group = status.group("group")
    assert group is not None
    assert [culprit.client_id for culprit in group.waiting_for] == ["abandoned"]
    assert Census.whole(status.census()).members["pending"] == 1
    abandoned.leave()
    await settle()
    assert a.generation == 2
    assert Census.whole(status.census()).members["pending"] == 0
    assert a.heartbeat().error is ErrorCode.NONE
