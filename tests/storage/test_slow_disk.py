"""A disk whose operations do not end keeps nobody waiting but those who need it."""

import asyncio
import errno
import time
from pathlib import Path
from typing import Any

import pytest

from coordinator_server.app import STOP_SECONDS
from coordinator_server.topics.errors import TopicError
from tests.support.data_plane import batch_of
from tests.support.running_app import Caller, running_app
from tests.support.watched_files import SlowDisk, WatchedFiles

NOW = 1_700_000_000_000
OPERATIONS = ("append", "write", "fill", "sync", "open", "sync_directory", "replace", "truncate")


@pytest.mark.parametrize("policy", ["commit", "interval", "os"])
@pytest.mark.parametrize("journal", ["0", "30000"])
@pytest.mark.parametrize("hanging", [OPERATIONS, ("append",), ("sync",)], ids=len)
async def test_members_stay_while_the_disk_hangs_and_commits_are_answered_when_it_goes_on(
    tmp_path: Path, policy: str, journal: str, hanging: tuple[str, ...]
) -> None:
    disk = SlowDisk()
    settings = {"log.flush": policy, "log.journal.bytes": journal, "log.flush.interval.ms": "5"}
    settings["offsets.commit.timeout.ms"] = "3600000"
    async with running_app(tmp_path, disk, settings) as app:
        with Caller(app) as member, Caller(app) as other:
            joined = await member.join("members")
            disk.hang(*hanging)
            commits = asyncio.create_task(_commit_much(other))
            if "append" in hanging:
                assert await asyncio.to_thread(disk.reached.wait, 30)
            for _ in range(20):
                assert await member.heartbeat(joined) == "NONE"
            disk.go_on()
            assert await commits == ["NONE"] * 20
            assert await other.fetched() == 19


async def _commit_much(caller: Caller) -> list[str]:
    return [await caller.commit(number, partitions=20) for number in range(20)]


@pytest.mark.parametrize("policy", ["commit", "os"])
@pytest.mark.parametrize("journal", ["0", "30000"])
async def test_a_server_whose_disk_hangs_stops_in_time_and_names_what_was_not_flushed(
    tmp_path: Path, policy: str, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    reports: list[tuple[str, dict[str, Any]]] = []
    settings = {"log.flush": policy, "log.journal.bytes": journal}
    try:
        async with running_app(tmp_path, disk, settings) as app:
            monkeypatch.setattr(app._flusher, "_report", lambda e, **f: reports.append((e, f)))
            with Caller(app) as caller:
                assert await caller.commit(1) == "NONE"
                disk.hang(*OPERATIONS)
                waiting = asyncio.create_task(caller.commit(2))
                assert await asyncio.to_thread(disk.reached.wait, 30)
                began = time.monotonic()
                await app.stop()
                assert time.monotonic() - began < 2 * STOP_SECONDS
                await asyncio.gather(waiting, return_exceptions=True)
                disk.go_on()
    finally:
        disk.go_on()
    told = [fields["directories"] for event, fields in reports if event == "logs_not_flushed"]
    assert told
    assert told[0]
    assert all(name.startswith("__consumer_offsets-") for name in told[0])


async def test_producers_wait_for_the_disk_before_they_fill_the_memory(tmp_path: Path) -> None:
    disk = SlowDisk()
    async with running_app(tmp_path, disk, {"log.flush": "os"}) as app:
        unwritten = app._flusher.unwritten
        topic = app.topics.catalog.get("orders")
        assert topic is not None
        await (await app.topics.produce(topic, 0, batch_of((NOW, b"open")))).durable
        disk.hang("append")
        batch = batch_of((NOW, bytes(1_000_000)))
        tasks = [asyncio.create_task(app.topics.produce(topic, 0, batch)) for _ in range(40)]
        assert await asyncio.to_thread(disk.reached.wait, 30)
        while sum(task.done() for task in tasks) < 9:  # noqa: ASYNC110 - checks take threads
            await asyncio.sleep(0.001)
        assert unwritten.bytes < unwritten._room_bytes + len(batch)
        assert not all(task.done() for task in tasks)
        disk.go_on()
        appended = [await task for task in tasks]
        await asyncio.gather(*(each.durable for each in appended))
        assert await app.topics.offsets(topic, 0) == (0, 41)


@pytest.mark.interpreted
async def test_a_producer_is_refused_when_the_disk_takes_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk()
    async with running_app(tmp_path, disk, {"log.flush": "os"}) as app:
        room = app._flusher.unwritten.wait_for_room
        monkeypatch.setattr(app._flusher.unwritten, "wait_for_room", lambda: room(0.01))
        topic = app.topics.catalog.get("orders")
        assert topic is not None
        await (await app.topics.produce(topic, 0, batch_of((NOW, b"open")))).durable
        disk.hang("append")
        batch = batch_of((NOW, bytes(1_000_000)))
        for _ in range(9):
            await app.topics.produce(topic, 0, batch)
        with pytest.raises(TopicError, match="the disk is too slow"):
            await app.topics.produce(topic, 0, batch)
        disk.go_on()


async def test_a_partition_without_a_descriptor_recovers_without_a_restart(tmp_path: Path) -> None:
    is_full = False

    def watch(operation: str, path: Path) -> None:
        if is_full and operation == "open":
            raise OSError(errno.EMFILE, "Too many open files", str(path))

    settings = {"log.journal.bytes": "4096", "offsets.topic.segment.bytes": "1000"}
    async with running_app(tmp_path, WatchedFiles(watch), settings) as app:
        with Caller(app) as caller:
            assert await caller.commit(0) == "NONE"
            is_full = True
            code, number = "NONE", 0
            while code == "NONE":
                number += 1
                assert number < 10_000
                code = await caller.commit(number, partitions=20)
            is_full = False
            for _ in range(200):
                if await caller.commit(number) == "NONE":
                    break
                await asyncio.sleep(0.05)
            assert await caller.fetched() == number
