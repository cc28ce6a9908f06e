"""`__consumer_offsets` as clients read it, over the storage the coordinator writes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import pytest

from coordinator_protocol.batch import LogRecord, batches, build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coordinator_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from coordinator_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from coordinator_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coordinator_server.api import create_topics, delete_topics, fetch, list_offsets
from coordinator_server.storage.segments.compact import compact
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.flush_waiter import FlushWaiter
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.storage import SegmentPartitionLog, SegmentStorage
from coordinator_server.topics.service import FetchPart, FetchWant, Topics
from tests.support.appending import appended
from tests.support.data_plane import make_topics
from tests.support.fake_services import FakeCall, fake_services

TOPIC = "__consumer_offsets"
MIB = 1 << 20
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


class NoPace:
    """Compacts as fast as it can."""

    def spend(self, size: int) -> None:
        pass


class Served:
    """A partition of the coordinator's log, written as the coordinator does and read by clients."""

    def __init__(self, data: Path, policy: FlushPolicy, segment_bytes: int) -> None:
        self.directory = DataDirectory(data, node_id=1, cluster_id=None)
        self.flusher = Flusher(policy)
        self.storage = SegmentStorage(
            self.directory,
            self.flusher,
            partitions=3,
            segment_bytes=segment_bytes,
            topic_id=UUID(int=1),
            report=lambda *_, **__: None,
        )
        self.topics: Topics = make_topics(data, flusher=self.flusher)
        self.topics.serve_coordinator_logs(self.storage)
        self.services = fake_services(self.topics)
        self.log: SegmentPartitionLog

    async def write(self, *records: LogRecord) -> int:
        """As the coordinator does, or as a broker whose log was taken over."""
        is_ours = not any(record.transactional or record.control for record in records)
        if is_ours and len({record.timestamp for record in records}) == 1:
            return await appended(self.log, records)
        log, batch = self.storage.open_log(0), build_batch(records)
        assert log is not None
        log.append(batch)
        await self.flusher.flush(log)
        self.storage.acknowledged(0, log, log.end_offset, len(batch))
        return log.end_offset - 1

    async def read(self, offset: int = 0, *, committed: bool = False, **limits: Any) -> FetchPart:
        asked = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": MIB, **limits}
        want = FetchWant(self.topics.catalog.topics()[TOPIC], 0, offset, MIB)
        (part,) = await self.topics.fetch([want], committed=committed, **asked)
        return part

    async def offset_at(self, timestamp: int, isolation_level: int = 0) -> tuple[int, int]:
        partition = ListOffsetsPartition(
            partition_index=0, current_leader_epoch=-1, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])],
        )
        response = await list_offsets.handle(FakeCall(7), request, self.services)
        assert response is not None, "a small answer comes at once"
        (answer,) = response.topics[0].partitions
        assert answer.error_code == ErrorCode.NONE
        return answer.offset, answer.timestamp


@pytest.fixture
async def served(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    policy, segment_bytes = getattr(request, "param", (FlushPolicy.COMMIT, 1 << 30))
    served = Served(tmp_path, policy, segment_bytes)
    served.log = await served.storage.claim(0)
    yield served
    await served.log.close()
    await served.flusher.close()
    served.directory.close()


def record(key: str, value: str | None = "v", timestamp: int = 1000) -> LogRecord:
    return LogRecord(key.encode(), None if value is None else value.encode(), timestamp)


def of_producer(key: str, producer_id: int) -> LogRecord:
    return LogRecord(
        key.encode(), b"v", 1000, producer_id=producer_id, producer_epoch=0, transactional=True
    )


def marker(kind: bytes, producer_id: int) -> LogRecord:
    return LogRecord(
        kind,
        b"\0\0\0\0\0\0",
        1000,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def keys(part: FetchPart) -> list[tuple[int, bytes | None]]:
    return [
        (found.offset, found.key)
        for at, header in batches(part.records)
        for found in read_records(header, part.records, at)
    ]


async def test_every_record_is_read_with_its_headers(served: Served) -> None:
    written = record("a")
    written.headers = (("rb.reason", b"member_left"),)
    await served.write(written, record("b", None))
    part = await served.read()
    ((at, header),) = batches(part.records)
    first, second = read_records(header, part.records, at)
    assert (first.key, first.headers) == (b"a", (("rb.reason", b"member_left"),))
    assert (second.key, second.value) == (b"b", None)
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (2, 2, 0)


async def test_a_parked_fetch_is_woken_by_the_next_commit(served: Served) -> None:
    await served.write(record("a"))
    await served.read()
    waiting = asyncio.ensure_future(served.read(1, max_wait_ms=60_000))
    while not served.topics.parked:
        await asyncio.sleep(0)
        assert not waiting.done()
    await served.write(record("b"))
    assert keys(await asyncio.wait_for(waiting, 10)) == [(1, b"b")]


@pytest.mark.parametrize("served", [(FlushPolicy.OS, 1 << 30)], indirect=True)
async def test_what_is_acknowledged_unsynced_is_readable_too(served: Served) -> None:
    await served.write(record("a"))
    assert keys(await served.read()) == [(0, b"a")]
    await served.write(record("b"))
    assert keys(await served.read(1)) == [(1, b"b")]


@pytest.mark.interpreted
async def test_nothing_that_is_not_durable_yet_can_be_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await served.write(record("a"))
    await served.read()
    unsynced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    hold_flushes(served, unsynced, monkeypatch)
    written = appended(served.log, [record("b")])
    part = await served.read(1)
    assert (part.records, part.high_watermark) == (b"", 1)
    unsynced.set_result(None)
    await written
    await asyncio.sleep(0)
    assert keys(await served.read(1)) == [(1, b"b")]


def hold_flushes(
    served: Served, until: "asyncio.Future[None]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let appends become durable only with a future."""
    wait = served.flusher.wait

    def held(waiter: FlushWaiter) -> None:
        until.add_done_callback(lambda _: wait(waiter))

    monkeypatch.setattr(served.flusher, "wait", held)


async def test_an_offset_beyond_the_end_is_out_of_range(served: Served) -> None:
    await served.write(record("a"))
    assert (await served.read(1)).error is ErrorCode.NONE
    assert (await served.read(2)).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await served.read(-1)).error is ErrorCode.OFFSET_OUT_OF_RANGE


async def test_readers_of_committed_records_stop_at_the_first_open_transaction(
    served: Served,
) -> None:
    await served.write(record("a"))
    await served.write(of_producer("b", 7))
    await served.write(record("c"))
    part = await served.read(committed=True)
    assert keys(part) == [(0, b"a")]
    assert (part.high_watermark, part.last_stable_offset, part.aborted) == (3, 1, [])
    assert len(keys(await served.read())) == 3
    await served.write(marker(COMMIT, 7))
    part = await served.read(committed=True)
    assert (len(keys(part)), part.last_stable_offset, part.aborted) == (4, 4, [])


@pytest.mark.interpreted
async def test_readers_of_committed_records_are_told_of_aborted_transactions(
    served: Served,
) -> None:
    await served.write(record("a"))
    await served.write(of_producer("b", 7))
    await served.write(of_producer("c", 8))
    await served.write(marker(ABORT, 7))
    await served.write(marker(COMMIT, 8))
    part = await served.read(committed=True)
    assert [tuple(each) for each in part.aborted] == [(7, 1, 3)]
    assert (await served.read(4, committed=True)).aborted == []
    assert (await served.read()).aborted == []
    answer = await answered(served, isolation_level=1)
    assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [
        (7, 1)
    ]
    assert (await answered(served, isolation_level=0)).aborted_transactions is None


async def answered(served: Served, isolation_level: int) -> Any:
    """The partition's answer to a Fetch."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MIB)
    request = FetchRequest(
        topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        max_bytes=MIB,
        isolation_level=isolation_level,
    )
    response = await fetch.handle(FakeCall(12), request, served.services)
    return response.responses[0].partitions[0]


@pytest.mark.interpreted
async def test_list_offsets_knows_ends_timestamps_and_isolation(served: Served) -> None:
    assert await served.offset_at(-1) == (0, -1)
    await served.write(record("a", timestamp=1000), record("b", timestamp=3000))
    await served.write(of_producer("c", 7))
    await served.write(record("d", timestamp=2000))
    assert (await served.offset_at(-2), await served.offset_at(-1)) == ((0, -1), (4, -1))
    assert await served.offset_at(-1, isolation_level=1) == (2, -1)
    assert await served.offset_at(1500) == (1, 3000)
    assert await served.offset_at(-3) == (1, 3000)
    assert await served.offset_at(4000) == (-1, -1)


@pytest.mark.parametrize("served", [(FlushPolicy.COMMIT, 300)], indirect=True)
async def test_a_reader_goes_on_where_segments_were_compacted_away(served: Served) -> None:
    for number in range(40):
        await served.write(record("same", f"value {number}"), record(f"other {number % 2}"))
    first = await served.read()
    assert keys(first)[0][0] == 0
    log = served.storage.open_log(0)
    assert log is not None
    before = log.size
    compact(log, throttle=NoPace(), wall_ms=lambda: 10_000_000_000, delete_retention_ms=0)
    assert log.size < before
    read, offset = [], 0
    while offset < (part := await served.read(offset)).high_watermark:
        read += keys(part)
        offset = list(batches(part.records))[-1][1].last_offset + 1
    assert [at for at, _ in read] == sorted({at for at, _ in read})
    assert read[-1] == (79, b"other 1")
    assert {key for _, key in read} == {b"same", b"other 0", b"other 1"}


async def test_reading_goes_on_in_the_next_tenure(served: Served) -> None:
    await served.write(record("a"))
    await served.read()
    await served.log.close()
    gone = await served.read()
    assert gone.error is ErrorCode.KAFKA_STORAGE_ERROR
    served.log = await served.storage.claim(0)
    await served.write(record("b"))
    assert keys(await served.read()) == [(0, b"a"), (1, b"b")]


async def test_a_log_that_was_there_before_is_read_from_its_beginning(
    tmp_path: Path, served: Served
) -> None:
    await served.log.close()
    log = SegmentLog(tmp_path / f"{TOPIC}-0")
    for transaction in ([of_producer("a", 7)], [marker(ABORT, 7)], [of_producer("b", 7)]):
        log.append(build_batch(transaction))
    log.close()
    served.log = await served.storage.claim(0)
    part = await served.read(committed=True)
    assert ([tuple(each) for each in part.aborted], part.last_stable_offset) == ([(7, 0, 1)], 2)


@pytest.mark.interpreted
async def test_the_topic_can_neither_be_created_nor_deleted(served: Served) -> None:
    wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    created = await create_topics.handle(
        FakeCall(5), CreateTopicsRequest(topics=[wanted]), served.services
    )
    assert created.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    deleted = await delete_topics.handle(
        FakeCall(6), DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), served.services
    )
    assert deleted.responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert served.topics.catalog.get(TOPIC) is not None


@pytest.mark.interpreted
async def test_a_search_keeps_nobody_from_reading(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = Event(), Event()

    def slowly(_timestamp: int, _log: SegmentLog, _up_to: int, _stopping: Event) -> None:
        begun.set()
        may_end.wait(10)

    monkeypatch.setattr("coordinator_server.topics.service.first_from", slowly)
    await served.write(record("a"))
    asking = asyncio.create_task(served.offset_at(1))
    await asyncio.to_thread(begun.wait, 10)
    async with asyncio.timeout(5):
        assert (await served.read()).records
    may_end.set()
    assert await asking == (-1, -1)
