"""Real consumers read `__consumer_offsets` from our server as they do from a broker."""

import re
from collections.abc import Iterator

import pytest
from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    TopicPartition,
)
from aiokafka.errors import InvalidTopicError  # type: ignore[import-untyped]

from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import GroupMetadataKey, OffsetCommitKey, decode_key, decode_value
from tests.support.kafka import kafka_tool
from tests.support.kafka_exchange import commit
from tests.support.server import ServerProcess
from tests.support.wire import create_topic

TOPIC = "__consumer_offsets"
GROUPS = [f"reader-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of ours with a commit of every group, its offset being the group's number."""
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        create_topic(server.bootstrap, "orders", 2)
        for number, group in enumerate(GROUPS):
            commit(server.bootstrap, group, number)
        yield server
        assert not server.bugs(), server.bugs()[:5]


async def read_whole(bootstrap: str, isolation_level: str) -> dict[str, OffsetCommitValue]:
    """The last commit of each group, read from the beginning to what were the ends."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level=isolation_level, exclude_internal_topics=False
    )
    await consumer.start()
    found: dict[str, OffsetCommitValue] = {}
    try:
        numbers = await consumer._client._wait_on_metadata(TOPIC)
        assert len(numbers) == 50
        consumer.assign([TopicPartition(TOPIC, number) for number in numbers])
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(consumer.assignment())
        while any([await consumer.position(at) < end for at, end in ends.items()]):
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                for record in records:
                    key = decode_key(record.key)
                    assert isinstance(key, OffsetCommitKey | GroupMetadataKey)
                    value = decode_value(key, record.value)
                    assert isinstance(value, OffsetCommitValue)
                    found[key.group] = value
    finally:
        await consumer.stop()
    return found


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
async def test_aiokafka_reads_all_of_it(server: ServerProcess, isolation_level: str) -> None:
    found = await read_whole(server.bootstrap, isolation_level)
    assert {group: value.offset for group, value in found.items()} == {
        group: number for number, group in enumerate(GROUPS)
    }
    assert {(value.leader_epoch, value.metadata) for value in found.values()} == {(3, "where")}


async def test_a_client_that_produces_to_it_is_told_that_it_may_not(server: ServerProcess) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=server.bootstrap)
    await producer.start()
    try:
        with pytest.raises(InvalidTopicError):
            await producer.send_and_wait(TOPIC, b"mine", partition=0)
    finally:
        await producer.stop()


def test_kafkas_console_consumer_reads_and_formats_a_partition(server: ServerProcess) -> None:
    partition = partition_for(GROUPS[0], 50)
    here = [group for group in GROUPS if partition_for(group, 50) == partition]
    commit(server.bootstrap, GROUPS[0], 0)
    said = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", server.bootstrap, "--topic", TOPIC),
        *("--partition", partition, "--offset", "earliest", "--isolation-level", "read_committed"),
        *("--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"),
        *("--max-messages", len(here) + 1, "--timeout-ms", 20_000),
    )
    found = re.findall(r'"group":"([^"]+)".*?"offset":(\d+)', said.stdout)
    assert sorted(found) == sorted(
        (group, str(GROUPS.index(group))) for group in [*here, GROUPS[0]]
    )
