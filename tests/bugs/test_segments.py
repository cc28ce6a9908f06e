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
from tests.support.desk import Desk
from tests.support.desk import settle as settle_in_memory
from tests.support.story import offset

PARTITION = partition_for("group", 2)
Start = Callable[..., Awaitable[Desk]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a server on the test's directory; the one before is stopped first."""
    life = AsyncExitStack()

    async def started(segment_bytes: int = 1 << 20) -> Desk:
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
        desk = await Desk(storage).start()
        life.push_async_callback(desk.stop)
        return desk

    yield started
    await life.aclose()


async def settle(desk: Desk) -> None:
    """As `settle` of memory, with all that the flusher's thread has to write."""
    storage = desk.storage
    assert isinstance(storage, SegmentStorage)
    for _ in range(5):
        await settle_in_memory()
        await asyncio.gather(*(storage.flusher.flush(log) for log in storage.open_logs()))
    await settle_in_memory()


def segments(root: Path) -> list[Path]:
    return sorted((root / f"__consumer_offsets-{PARTITION}").glob("*.log"))


async def test_offsets_in_all_segments_of_a_log_are_loaded(start: Start, tmp_path: Path) -> None:
    """B34, KAFKA-5600. The last of each partition, wherever it lies."""
    desk = await start(segment_bytes=2_000)
    for number in range(100):
        desk.seat().commit(offset(number, partition=number % 10))
        await settle(desk)
    assert len(segments(tmp_path)) > 3
    desk = await start(segment_bytes=2_000)
    found = await desk.seat().fetched()
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
    desk = await start()
    assert desk.coordinator.is_ready
    desk.seat().commit(offset(1))
    await settle(desk)
    desk.sweeper.start()
    desk.sweeper.sweep()
    await settle(desk)
    desk = await start()
    assert (await desk.seat().fetched())["orders", 0].offset == 1
    assert segments(tmp_path)[-1].name == f"{17:020}.log"


async def test_a_record_larger_than_any_buffer_is_loaded(start: Start) -> None:
    """B36, KAFKA-7286. Kafka's `offsets.load.buffer.size` is 5 MiB."""
    desk = await start()
    seat = desk.seat()
    a = seat.member("a")
    await seat.all_join(a)
    request = a.sync({a: bytes(12 * 1024 * 1024)})
    await settle(desk)
    assert len(request.assignment) == 12 * 1024 * 1024
    seat.commit(offset(1), member_id=a.member_id, generation=a.generation)
    await settle(desk)
    desk = await start()
    group = desk.coordinator.group("group")
    assert group is not None
    (member,) = classic_of(group).members.values()
    assert len(member.assignment) == 12 * 1024 * 1024
    assert (await desk.seat().fetched())["orders", 0].offset == 1


async def test_a_deleted_group_stays_deleted_on_disk(start: Start) -> None:
    """B39, redpanda #4900."""
    desk = await start()
    seat = desk.seat()
    a = seat.member("a", "i-a")
    await seat.settled(a)
    a.commit(offset(1), offset(1, 1))
    a.leave()
    await settle(desk)
    request = seat.delete()
    await settle(desk)
    assert not request.is_parked
    desk = await start()
    assert list(desk.coordinator.groups()) == []
    assert await desk.seat().fetched() == {}
