"""Logs on disk that others could not load."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import pytest

from coordinator_protocol.java import partition_for
from coordinator_server.storage.segments.directory import DataDirectory
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.storage import SegmentStorage
from tests.support.classic import classic_of
from tests.support.coordinator_harness import CoordinatorHarness
from tests.support.coordinator_harness import settle as settle_in_memory
from tests.support.group_harness import offset

PARTITION = partition_for("group", 2)
Start = Callable[..., Awaitable[CoordinatorHarness]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a server on the test's directory; the one before is stopped first."""
    life = AsyncExitStack()

    async def started(segment_bytes: int = 1 << 20) -> CoordinatorHarness:
        await life.aclose()
        directory = DataDirectory(tmp_path, node_id=1, cluster_id="test")
        life.callback(directory.close)
        flusher = Flusher(FlushPolicy.OS, 1000)
        life.push_async_callback(flusher.close)
        storage = SegmentStorage(
            directory,
            flusher,
            partitions=2,
            segment_bytes=segment_bytes,
            topic_id=UUID(int=7),
            report=lambda *_args, **_fields: None,
        )
        harness = await CoordinatorHarness(storage).start()
        life.push_async_callback(harness.stop)
        return harness

    yield started
    await life.aclose()


async def settle(harness: CoordinatorHarness) -> None:
    """As `settle` of memory, with all that the flusher's thread has to write."""
    storage = harness.storage
    assert isinstance(storage, SegmentStorage)
    for _ in range(5):
        await settle_in_memory()
        await asyncio.gather(*(storage.flusher.flush(log) for log in storage.open_logs()))
    await settle_in_memory()


def segments(root: Path) -> list[Path]:
    return sorted((root / f"__consumer_offsets-{PARTITION}").glob("*.log"))


async def test_offsets_in_all_segments_of_a_log_are_loaded(start: Start, tmp_path: Path) -> None:
    """B34, KAFKA-5600. The last of each partition, wherever it lies."""
    harness = await start(segment_bytes=2_000)
    for number in range(100):
        harness.group_client().commit(offset(number, partition=number % 10))
        await settle(harness)
    assert len(segments(tmp_path)) > 3
    harness = await start(segment_bytes=2_000)
    found = await harness.group_client().fetched()
    assert {p: o.offset for (_, p), o in found.items()} == {p: 90 + p for p in range(10)}


async def test_a_log_that_begins_late_and_has_no_records_is_loaded(
    start: Start, tmp_path: Path
) -> None:
    """B35, KAFKA-9065. Neither the next partition nor the sweep waits for it."""
    DataDirectory(tmp_path, node_id=1, cluster_id="test").close()
    directory = tmp_path / f"__consumer_offsets-{PARTITION}"
    directory.mkdir()
    for base in (5, 17):
        (directory / f"{base:020}.log").touch()
    harness = await start()
    assert harness.coordinator.is_ready
    harness.group_client().commit(offset(1))
    await settle(harness)
    harness.sweeper.start()
    harness.sweeper.sweep()
    await settle(harness)
    harness = await start()
    assert (await harness.group_client().fetched())["orders", 0].offset == 1
    assert segments(tmp_path)[-1].name == f"{17:020}.log"


async def test_a_record_larger_than_any_buffer_is_loaded(start: Start) -> None:
    """B36, KAFKA-7286. Kafka's `offsets.load.buffer.size` is 5 MiB."""
    harness = await start()
    group_client = harness.group_client()
    a = group_client.member("a")
    await group_client.all_join(a)
    request = a.sync({a: bytes(12 * 1024 * 1024)})
    await settle(harness)
    assert len(request.assignment) == 12 * 1024 * 1024
    group_client.commit(offset(1), member_id=a.member_id, generation=a.generation)
    await settle(harness)
    harness = await start()
    group = harness.coordinator.group("group")
    assert group is not None
    (member,) = classic_of(group).members.values()
    assert len(member.assignment) == 12 * 1024 * 1024
    assert (await harness.group_client().fetched())["orders", 0].offset == 1


async def test_a_deleted_group_stays_deleted_on_disk(start: Start) -> None:
    """B39, redpanda #4900."""
    harness = await start()
    group_client = harness.group_client()
    a = group_client.member("a", "i-a")
    await group_client.settled(a)
    a.commit(offset(1), offset(1, 1))
    a.leave()
    await settle(harness)
    request = group_client.delete()
    await settle(harness)
    assert not request.is_parked
    harness = await start()
    assert list(harness.coordinator.groups()) == []
    assert await harness.group_client().fetched() == {}
