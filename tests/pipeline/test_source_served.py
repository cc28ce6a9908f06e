"""The source over Fetch: a running server's log has the same rows as its directories."""

import pytest

pytest.importorskip("pyarrow", reason="needs the extra `pipeline`")

import time
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coordinator_pipeline.source.broker import BrokerLog
from coordinator_pipeline.source.directory import DirectoryLog
from coordinator_pipeline.source.errors import SourceError
from coordinator_pipeline.source.options import parse_options
from coordinator_pipeline.source.stream_position import Position
from coordinator_protocol.api_keys import ApiKey
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coordinator_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.kafka import kafka
from tests.support.server import ServerProcess
from tests.support.wire import RawConnection, create_topic

GROUPS = [f"reader-{number}" for number in range(6)]


def commit(bootstrap: str, group: str, offset: int) -> None:
    """Commit an offset as a consumer without members does."""
    partition = {
        "partition_index": 1,
        "committed_offset": offset,
        "committed_leader_epoch": 3,
        "committed_metadata": "where",
    }
    deadline = time.monotonic() + 30
    with RawConnection(bootstrap) as connection:
        while True:
            reply = connection.call(
                "OffsetCommit",
                7,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=[{"name": "orders", "partitions": [partition]}],
            )
            if reply["topics"][0]["partitions"][0]["error_code"] == "NONE":
                return
            # A broker learns of a new topic, and loads its groups, some time after it says so.
            assert time.monotonic() < deadline, reply
            time.sleep(0.05)


def rows(log: BrokerLog | DirectoryLog) -> list[dict[str, Any]]:
    found = []
    for partition in log.partitions():
        start, end = log.bounds(partition)
        batches = list(log.read(partition, start, end))
        found += [row for batch in batches for row in batch.to_pylist()]
    return found


def both(bootstrap: str, data: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of Fetch and those of the files."""
    files = {"path": str(data), "pastHighWatermark": "true"}
    return rows(BrokerLog(parse_options({"bootstrap": bootstrap}))), rows(
        DirectoryLog(parse_options(files))
    )


def test_fetch_from_our_server_gives_the_rows_of_its_directories(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        create_topic(server.bootstrap, "orders", 2)
        for number, group in enumerate(GROUPS):
            commit(server.bootstrap, group, number)
        log = BrokerLog(parse_options({"bootstrap": server.bootstrap}))
        first = log.latest({}, {})
        commit(server.bootstrap, GROUPS[0], 100)
        second = log.latest(first, {})
        moved = [name for name in second if second[name]["next"] > first[name]["next"]]
        assert len(moved) == 1
        begin, end = first[moved[0]]["next"], second[moved[0]]["next"]
        new = [row for batch in log.read(int(moved[0]), begin, end) for row in batch.to_pylist()]
        assert [(row["group_id"], row["committed_offset"]) for row in new] == [(GROUPS[0], 100)]
        sent, stored = both(server.bootstrap, tmp_path / "data")
    assert sent == stored
    commits = [(row["group_id"], row["committed_offset"]) for row in sent if row["kind"] == 1]
    expected = [*((group, number) for number, group in enumerate(GROUPS)), (GROUPS[0], 100)]
    assert sorted(commits) == sorted(expected)


def test_a_stream_over_a_log_that_became_shorter_begins_its_next_incarnation(
    tmp_path: Path,
) -> None:
    with ServerProcess(tmp_path) as server:
        create_topic(server.bootstrap, "orders", 2)
        commit(server.bootstrap, GROUPS[0], 1)
        log = BrokerLog(parse_options({"bootstrap": server.bootstrap}))
        now = log.latest({}, {})
        beyond = {name: Position(form["next"] + 5).form() for name, form in now.items()}
        again = log.latest(beyond, {})
    assert {form["inc"] for form in again.values()} == {1}
    assert [form["from"] for form in again.values()] == [0] * len(again)
    assert [form["next"] for form in again.values()] == [form["next"] for form in now.values()]


class Cluster:
    """A connection to brokers of which some lead nothing: answers as they would."""

    leaders: ClassVar[dict[int, int]] = {}

    def __init__(self, address: tuple[str, int]) -> None: ...

    def close(self) -> None: ...

    def call(self, api_key: ApiKey, version: int, request: Any) -> Any:
        if api_key is ApiKey.LIST_OFFSETS:
            bound = ListOffsetsPartitionResponse(offset=5)
            topic = ListOffsetsTopicResponse(name="t", partitions=[bound])
            return ListOffsetsResponse(topics=[topic])
        partitions = [
            MetadataResponsePartition(partition_index=number, leader_id=leader)
            for number, leader in self.leaders.items()
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)],
            topics=[MetadataResponseTopic(name="t", partitions=partitions)],
        )


def test_a_partition_without_a_leader_is_missed_by_a_batch_and_waited_for_by_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coordinator_pipeline.source.fetch.Connection", Cluster)
    monkeypatch.setattr(Cluster, "leaders", {0: 1, 1: -1})
    log = BrokerLog(parse_options({"bootstrap": "127.0.0.1:1", "topic": "t"}))

    assert log.partitions() == [0, 1]
    with pytest.raises(SourceError, match="t-1: no leader"):
        log.bounds(1)
    start = {"1": Position(4).form()}
    assert log.latest(start, {}) == {"0": Position(5).form()} | start


def test_the_error_names_an_unreachable_address_and_a_missing_topic(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"bootstrap: no answer from 127\.0\.0\.1:1: "):
        BrokerLog(parse_options({"bootstrap": "127.0.0.1:1"})).partitions()
    with pytest.raises(SourceError, match="option bootstrap: 'here', expected host:port"):
        BrokerLog(parse_options({"bootstrap": "here"}))
    with ServerProcess(tmp_path) as server:
        options = {"bootstrap": server.bootstrap, "topic": "missing"}
        with pytest.raises(SourceError, match="topic missing: UNKNOWN_TOPIC_OR_PARTITION"):
            BrokerLog(parse_options(options)).partitions()


def commit_in_transaction(bootstrap: str, group: str, offset: int, *, end: str) -> None:
    """Commit an offset in a transaction and end it by `commit_transaction` or its opposite."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{group}-{end}"})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    producer.init_transactions(30)
    producer.begin_transaction()
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], metadata, 30)
    getattr(producer, end)(30)
    consumer.close()


def offsets_by_admin(bootstrap: str, groups: list[str]) -> dict[str, int]:
    """The offset that each group has committed last, as Kafka's own API for operators has it."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = {}
    for group in groups:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        (partition,) = asked[group].result(30).topic_partitions
        found[group] = partition.offset
    return found


@pytest.mark.slow
def test_fetch_from_kafka_gives_the_rows_of_its_directories(tmp_path: Path) -> None:
    settings = {
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with kafka(tmp_path, settings) as broker:
        create_topic(broker.bootstrap, "orders", 2)
        for number, group in enumerate(GROUPS):
            if number in (2, 4):
                broker.stop()
                broker.start({"offsets.topic.compression.codec": str(number)})
            commit(broker.bootstrap, group, number)
        commit_in_transaction(broker.bootstrap, "txn", 7, end="commit_transaction")
        commit_in_transaction(broker.bootstrap, "txn", 8, end="abort_transaction")
        sent, stored = both(broker.bootstrap, broker.data)
        admin = offsets_by_admin(broker.bootstrap, [*GROUPS, "txn"])
        options = {"bootstrap": broker.bootstrap, "isolation": "read_committed"}
        committed = rows(BrokerLog(parse_options(options)))
    assert sent == stored
    assert not [row for row in sent if row["problem"]]
    plain = [row for row in sent if row["kind"] == 1 and not row["is_txn"]]
    assert {(row["group_id"], row["committed_offset"]) for row in plain} == {
        (group, number) for number, group in enumerate(GROUPS)
    }
    txn = [(row["committed_offset"], row["control_type"]) for row in sent if row["is_txn"]]
    assert txn == [(7, None), (None, "commit"), (8, None), (None, "abort")]
    seen = [row["committed_offset"] for row in committed if row["is_txn"]]
    assert seen == [7, None, None]
    last = {row["group_id"]: row["committed_offset"] for row in committed if row["kind"] == 1}
    assert last == admin == {group: number for number, group in enumerate(GROUPS)} | {"txn": 7}
