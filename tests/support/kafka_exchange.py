"""What is written into a coordinator, by any server, and asked of it again by raw requests."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from coordinator_protocol.subscription import Subscription, encode_subscription
from tests.support.data_plane import batch_of
from tests.support.wire import RawConnection

TRANSIENT = (
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "UNKNOWN_TOPIC_OR_PARTITION",
)
"""The last while a broker's own metadata lags behind what its controller has created."""
ASSIGNMENT = b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\1\xff\xff\xff\xff"
"""Partition 1 of `orders`."""
LONG_SESSION_MS = 30 * 60_000
PATIENCE_SECONDS = 60.0


def asked(bootstrap: str, api: str, version: int, /, **values: Any) -> dict[str, Any]:
    """The answer, asked again while the coordinator is not ready."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with RawConnection(bootstrap, timeout=30) as connection:
            reply = connection.call(api, version, **values)
        if not any(error in str(reply) for error in TRANSIENT):
            return reply
        assert time.monotonic() < deadline, f"{api}: {reply}"
        time.sleep(0.05)


def commit(bootstrap: str, group: str, offset: int, *, metadata: str | None = "where") -> None:
    """Commit an offset of `orders` 1, as a consumer that is no member does."""
    partition = {
        "partition_index": 1,
        "committed_offset": offset,
        "committed_leader_epoch": 3,
        "committed_metadata": metadata,
    }
    reply = asked(
        bootstrap,
        "OffsetCommit",
        7,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "orders", "partitions": [partition]}],
    )
    assert reply["topics"][0]["partitions"][0]["error_code"] == "NONE", reply


def join_alone(bootstrap: str, group: str) -> None:
    """Make a group Stable with one static member, whose session outlasts any test."""
    subscription = encode_subscription(Subscription(["orders"]))
    joined = asked(
        bootstrap,
        "JoinGroup",
        5,
        group_id=group,
        session_timeout=LONG_SESSION_MS,
        rebalance_timeout=60_000,
        member_id="",
        group_instance_id=f"{group}-instance",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": subscription}],
    )
    assert joined["error_code"] == "NONE", joined
    synced = asked(
        bootstrap,
        "SyncGroup",
        3,
        group_id=group,
        generation_id=joined["generation_id"],
        member_id=joined["member_id"],
        group_instance_id=f"{group}-instance",
        assignments=[{"member_id": joined["member_id"], "assignment": ASSIGNMENT}],
    )
    assert synced["error_code"] == "NONE", synced


def join_by_the_new_protocol(bootstrap: str, group: str) -> None:
    """Let a member of KIP-848 come, get its partitions, and go."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group}
    consumer = Consumer({**settings, "group.protocol": "consumer"})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while not consumer.assignment():
            consumer.poll(0.1)
            assert time.monotonic() < deadline
    finally:
        consumer.close()


@contextmanager
def transaction(bootstrap: str, name: str, group: str, offset: int) -> Iterator[Producer]:
    """A transaction of a real producer with an offset of `orders` 1 in it, not ended yet."""
    settings = {"bootstrap.servers": bootstrap, "transactional.id": name}
    producer = Producer({**settings, "transaction.timeout.ms": 900_000})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        producer.init_transactions(PATIENCE_SECONDS)
        producer.begin_transaction()
        offsets = [TopicPartition("orders", 1, offset)]
        producer.send_offsets_to_transaction(
            offsets, consumer.consumer_group_metadata(), PATIENCE_SECONDS
        )
        yield producer
    finally:
        consumer.close()


def refusals(bootstrap: str) -> dict[str, str]:
    """What a client is told that wants to write or make the topic of the log."""
    partition = {"index": 0, "records": batch_of((1_700_000_000_000, b"mine"))}
    produced = asked(
        bootstrap,
        "Produce",
        8,
        transactional_id=None,
        acks=-1,
        timeout=10_000,
        topic_data=[{"name": "__consumer_offsets", "partition_data": [partition]}],
    )
    wanted = {"name": "__consumer_offsets", "num_partitions": 50, "replication_factor": 1}
    created = asked(bootstrap, "CreateTopics", 5, topics=[wanted], timeout=10_000)
    return {
        "Produce": produced["responses"][0]["partition_responses"][0]["error_code"],
        "CreateTopics": created["topics"][0]["error_code"],
    }


def answers(bootstrap: str, groups: Iterable[str]) -> dict[str, Any]:
    """What OffsetFetch and DescribeGroups say of each group."""
    return {
        group: (
            asked(bootstrap, "OffsetFetch", 5, group_id=group, topics=None),
            without_operations(asked(bootstrap, "DescribeGroups", 4, groups=[group])),
        )
        for group in groups
    }


def without_operations(reply: dict[str, Any]) -> dict[str, Any]:
    """What a DescribeGroups answer says of the group itself."""
    (group,) = reply["groups"]
    return {name: value for name, value in group.items() if name != "authorized_operations"}


def committed_offset(answer: Any) -> int | None:
    """The offset of `orders` 1 in one of the answers; None where there is none."""
    for topic in answer[0]["topics"]:
        for partition in topic["partitions"]:
            offset: int = partition["committed_offset"]
            return offset
    return None
