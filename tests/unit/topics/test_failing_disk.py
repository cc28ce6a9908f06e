"""A partition whose disk failed answers errors, and goes on with what was acknowledged."""

import asyncio
import errno
from pathlib import Path

import pytest

from coordinator_server.storage.segments.files import File, SystemFiles
from coordinator_server.topics.service import Topics
from tests.support.data_plane import batch_of, make_topics, produced, records_in

NOW = 1_700_000_000_000


class Disk(SystemFiles):
    """A file system whose next sync or write fails when it is told to."""

    def __init__(self) -> None:
        self.fail_sync = False
        self.fail_write = False

    def open(self, path: Path) -> File:
        return _DiskFile(super().open(path), self)


class _DiskFile:
    def __init__(self, file: File, disk: Disk) -> None:
        self._file = file
        self._disk = disk
        self.size, self.read, self.close = file.size, file.read, file.close
        self.truncate = file.truncate

    def append(self, data: bytes) -> None:
        if self._disk.fail_write:
            self._disk.fail_write = False
            self._file.append(data[:30])
            raise OSError(errno.ENOSPC, "No space left on device")
        self._file.append(data)

    def sync(self) -> None:
        if self._disk.fail_sync:
            self._disk.fail_sync = False
            raise OSError(errno.EIO, "Input/output error")
        self._file.sync()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def topics(tmp_path: Path, disk: Disk) -> Topics:
    topics = make_topics(tmp_path, files=disk)
    topics.catalog.create([("orders", 1)])
    return topics


async def test_after_a_failed_sync_only_acknowledged_records_are_left(
    topics: Topics, disk: Disk, tmp_path: Path
) -> None:
    topic = topics.catalog.topics()["orders"]
    await produced(topics, "orders", 0, (NOW, b"kept"))
    disk.fail_sync = True
    appended = await topics.produce(topic, 0, batch_of((NOW, b"lost")))
    with pytest.raises(OSError, match="Input/output error"):
        await appended.durable
    assert await topics.offsets(topic, 0) == (0, 1)
    assert await produced(topics, "orders", 0, (NOW, b"again")) == 1
    assert await records_in(topics, "orders", 0) == [(0, b"kept"), (1, b"again")]
    topics.close()
    assert await records_in(make_topics(tmp_path), "orders", 0) == [(0, b"kept"), (1, b"again")]


async def test_a_full_disk_refuses_and_leaves_the_log_whole(topics: Topics, disk: Disk) -> None:
    topic = topics.catalog.topics()["orders"]
    await produced(topics, "orders", 0, (NOW, b"kept"))
    disk.fail_write = True
    appended = await topics.produce(topic, 0, batch_of((NOW, b"lost")))
    with pytest.raises(OSError, match="No space left"):
        await appended.durable
    assert await produced(topics, "orders", 0, (NOW, b"again")) == 1
    assert await records_in(topics, "orders", 0) == [(0, b"kept"), (1, b"again")]


async def test_records_are_not_readable_before_they_are_durable(topics: Topics) -> None:
    topic = topics.catalog.topics()["orders"]
    appended = await topics.produce(topic, 0, batch_of((NOW, b"a")))
    assert not appended.durable.done()
    assert await topics.offsets(topic, 0) == (0, 0)
    assert await records_in(topics, "orders", 0) == []
    await asyncio.wait_for(appended.durable, 10)
    assert await topics.offsets(topic, 0) == (0, 1)
    assert await records_in(topics, "orders", 0) == [(0, b"a")]
