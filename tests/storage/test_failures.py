"""Disks that are full, fail or lose a directory: what is answered, and how it goes on."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from coordinator_server.storage.base import CorruptLog, PartitionLog
from coordinator_server.storage.segments import journal_names
from coordinator_server.storage.segments.files import (
    SYSTEM_FILES,
    BlockFile,
    File,
    SystemBlockFile,
    SystemFile,
    SystemFiles,
)
from coordinator_server.storage.segments.flusher import FlushPolicy
from coordinator_server.storage.segments.journal_manifest import JournalManifest
from coordinator_server.storage.segments.threads import STORAGE_THREADS
from tests.storage.conftest import JOURNAL_BYTES, SegmentRig
from tests.support.appending import appended
from tests.support.records import loaded, numbers, record

FULL = OSError(28, "No space left on device")
BROKEN = OSError(5, "Input/output error")


class FaultyFile(SystemFile):
    __slots__ = ("_files",)

    def __init__(self, path: Path, files: "FaultyFiles") -> None:
        super().__init__(path)
        self._files = files

    def append(self, data: bytes) -> None:
        if len(data) > self._files.room:
            super().append(data[:10])
            raise FULL
        super().append(data)

    def sync(self) -> None:
        self._files.syncs += 1
        if self._files.broken:
            raise BROKEN
        super().sync()


class FaultyBlockFile(SystemBlockFile):
    __slots__ = ("_files",)

    def __init__(self, path: Path, files: "FaultyFiles") -> None:
        super().__init__(path)
        self._files = files

    def write(self, at: int, data: bytes, *, durably: bool = True) -> None:
        self._files.syncs += durably
        if self._files.broken:
            super().write(at, data[: len(data) // 2], durably=durably)
            self._files.failed.append(self)
            raise BROKEN
        if len(data) > self._files.room and at + len(data) > self.size():
            raise FULL
        assert self not in self._files.failed, "a descriptor that failed was written again"
        super().write(at, data, durably=durably)
        if self._files.broken_after_write:
            raise BROKEN

    def fill(self, at: int, size: int) -> None:
        self.write(at, bytes(size))


class FaultyFiles(SystemFiles):
    """A real directory on a disk that can be full or broken."""

    def __init__(self) -> None:
        self.room = 1 << 30
        self.broken = False
        self.broken_after_write = False
        """A write in place fails, and is on the disk nevertheless."""
        self.syncs = 0
        self.failed: list[BlockFile] = []

    def open_block(self, path: Path) -> BlockFile:
        return FaultyBlockFile(path, self)

    def open(self, path: Path) -> File:
        return FaultyFile(path, self)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


@pytest.fixture(params=[0, JOURNAL_BYTES], ids=["files", "journal"])
def faulty(tmp_path: Path, files: FaultyFiles, request: pytest.FixtureRequest) -> SegmentRig:
    """With every file synced on its own, and with a journal."""
    return SegmentRig(tmp_path / "data", files=files, journal_bytes=request.param)


async def refused(log: PartitionLog, number: int, size: int = 0) -> str:
    with pytest.raises(OSError, match="Errno") as raised:
        await appended(log, [record(number, size)])
    return str(raised.value)


async def acknowledged_until_refused(log: PartitionLog, first: int, size: int = 0) -> list[int]:
    """With a journal a full disk shows when the segments get what is in there already."""
    acknowledged: list[int] = []
    for number in range(first, first + 1_000):
        try:
            await appended(log, [record(number, size)])
        except OSError as error:
            if error.errno != FULL.errno:
                raise
            return acknowledged
        acknowledged.append(number)
    pytest.fail("nothing was refused")


async def test_a_full_disk_refuses_and_what_was_acknowledged_stays(
    faulty: SegmentRig, files: FaultyFiles
) -> None:
    async with faulty.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(0)])
        files.room = 50
        acknowledged = [0, *await acknowledged_until_refused(log, 1)]
        await log.close()
        files.room = 1 << 30
        log = await storage.claim(0)
        assert numbers(await loaded(log)) == acknowledged
        assert await appended(log, [record(2)]) == len(acknowledged)


async def test_a_partition_is_not_claimed_while_what_failed_would_fail_again(
    faulty: SegmentRig, files: FaultyFiles
) -> None:
    async with faulty.run() as storage:
        await appended(await storage.claim(2), [record(0)])
        log = await storage.claim(0)
        files.room = 500
        acknowledged = await acknowledged_until_refused(log, 1, size=1_000)
        await log.close()
        for room in (50, 500):
            files.room = room
            with pytest.raises(OSError, match="No space left"):
                await storage.claim(0)
        await appended(await storage.claim(1), [record(0)])
        files.room = 2_000 * (1 + len(acknowledged))
        log = await storage.claim(0)
        assert numbers(await loaded(log)) == acknowledged
        assert await appended(log, [record(1, size=1_000)]) == len(acknowledged)


async def test_after_a_failed_sync_the_log_is_cut_to_what_was_durable(
    faulty: SegmentRig, files: FaultyFiles
) -> None:
    async with faulty.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(0)])
        files.broken = True
        assert "Input/output" in await refused(log, 1)
        files.broken = False
        syncs = files.syncs
        assert "Input/output" in await refused(log, 2)
        await log.close()
        assert files.syncs == syncs, "a descriptor that failed was synced again"
        log = await storage.claim(0)
        assert numbers(await loaded(log)) == [0]
        assert await appended(log, [record(3)]) == 1


async def test_a_disk_that_stays_broken_keeps_refusing_the_claim(
    faulty: SegmentRig, files: FaultyFiles
) -> None:
    async with faulty.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(0)])
        files.broken = True
        await refused(log, 1)
        await log.close()
        for _ in range(2):
            with pytest.raises(OSError, match="Input/output"):
                await storage.claim(0)
        files.broken = False
        assert numbers(await loaded(await storage.claim(0))) == [0]


async def test_one_partition_that_fails_does_not_fail_the_others(
    segments: SegmentRig,
) -> None:
    async with segments.run() as storage:
        (segments.path / "__consumer_offsets-0").write_text("in the way of a directory")
        with pytest.raises(OSError, match="__consumer_offsets-0"):
            await storage.claim(0)
        log = await storage.claim(1)
        assert await appended(log, [record(0)]) == 0


@pytest.mark.parametrize("journal_bytes", [0, JOURNAL_BYTES])
async def test_a_log_that_has_lost_acknowledged_records_is_not_served(
    tmp_path: Path, files: FaultyFiles, journal_bytes: int
) -> None:
    rig = SegmentRig(tmp_path / "data", files=files, journal_bytes=journal_bytes)
    async with rig.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(0)])
        await log.close()
    async with rig.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(1)])
        files.broken = True
        await refused(log, 2)
        await log.close()
        files.broken = False
        shutil.rmtree(segment_directory := rig.path / "__consumer_offsets-0")
        with pytest.raises(CorruptLog, match=f"{segment_directory}.*offset [01],.* acknowledged"):
            await storage.claim(0)


async def test_what_the_journal_has_of_a_directory_that_vanished_is_there_again(
    tmp_path: Path, files: FaultyFiles
) -> None:
    rig = SegmentRig(tmp_path / "data", files=files, journal_bytes=JOURNAL_BYTES)
    async with rig.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(0)])
        files.broken = True
        await refused(log, 1)
        await log.close()
        files.broken = False
        shutil.rmtree(rig.path / "__consumer_offsets-0")
        assert numbers(await loaded(await storage.claim(0))) == [0]


async def test_a_segment_that_cannot_be_synced_gets_its_records_from_the_journal(
    tmp_path: Path, files: FaultyFiles
) -> None:
    rig = SegmentRig(tmp_path / "data", files=files, journal_bytes=JOURNAL_BYTES)
    async with rig.run() as storage:
        log = await storage.claim(0)
        for number in range(3):
            await appended(log, [record(number)])
        (segment,) = (rig.path / "__consumer_offsets-0").glob("*.log")
        files.broken = True
        assert storage.open_logs()[0].sync_and_note() is None
        files.broken = False
        # The system has dropped the pages, and reports success from now on.
        segment.write_bytes(b"")
        await refused(log, 3)
        await log.close()
        log = await storage.claim(0)
        assert numbers(await loaded(log)) == [0, 1, 2]
        assert await appended(log, [record(4)]) == 3


def copy_if_there(source: str, target: str) -> None:
    with suppress(FileNotFoundError):
        shutil.copy2(source, target)


def copy_at_a_moment(source: Path, target: Path) -> None:
    """Copy a directory in which a file of the journal may just be removed: not half of that."""
    for _ in range(100):
        shutil.copytree(source, target, copy_function=copy_if_there)
        listed = JournalManifest(target, SYSTEM_FILES).listed()
        if set(listed) <= set(journal_names.numbers(target, "")):
            return
        shutil.rmtree(target)
    pytest.fail("the directory does not come to rest")


async def test_a_write_of_the_journal_that_failed_is_not_replayed_after_it_was_refused(
    tmp_path: Path, files: FaultyFiles
) -> None:
    rig = SegmentRig(tmp_path / "data", files=files, journal_bytes=JOURNAL_BYTES)
    copy = SegmentRig(tmp_path / "copy", journal_bytes=JOURNAL_BYTES)
    async with rig.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(0)])
        files.broken_after_write = True
        await refused(log, 1)
        files.broken_after_write = False
        await log.close()
        log = await storage.claim(0)
        assert numbers(await loaded(log)) == [0]
        await appended(log, [])
        copy_at_a_moment(rig.path, copy.path)
    async with copy.run() as storage:
        assert numbers(await loaded(await storage.claim(0))) == [0]


async def test_a_torn_tail_is_reported_when_it_is_cut(segments: SegmentRig) -> None:
    async with segments.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(0)])
        await log.close()
    directory = segments.path / "__consumer_offsets-0"
    with (directory / "00000000000000000000.log").open("ab") as file:
        file.write(b"torn")
    async with segments.run() as storage:
        log = await storage.claim(0)
        assert numbers(await loaded(log)) == [0]
    assert segments.reports == [("torn_tail_cut", {"directory": str(directory), "bytes": 4})]


@pytest.mark.parametrize("policy", FlushPolicy)
async def test_a_clean_stop_leaves_everything_on_disk(
    tmp_path: Path, files: FaultyFiles, policy: FlushPolicy
) -> None:
    rig = SegmentRig(tmp_path / "data", files=files, policy=policy)
    async with rig.run() as storage:
        log = await storage.claim(0)
        before = files.syncs
        await appended(log, [record(0)])
        assert (files.syncs > before) == (policy is FlushPolicy.COMMIT)
        await log.close()
    assert files.syncs > before


async def test_a_partitions_directory_is_one_a_broker_takes_for_its_own(
    segments: SegmentRig,
) -> None:
    async with segments.run() as storage:
        await storage.claim(2)
    directory = segments.path / "__consumer_offsets-2"
    found = {path.name: path.read_bytes() for path in directory.iterdir()}
    assert found == {
        "00000000000000000000.log": b"",
        "leader-epoch-checkpoint": b"0\n1\n0 0\n",
        "partition.metadata": b"version: 0\ntopic_id: FFsoy7EjTE2ziWU7C9BeKA",
    }


async def test_more_than_may_wait_for_the_disk_is_refused_and_nothing_of_it_is_written(
    segments: SegmentRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with segments.run() as storage:
        log = await storage.claim(0)
        with monkeypatch.context() as full:
            full.setattr(storage.flusher.unwritten, "exceeds_most", True)
            with pytest.raises(OSError, match="too much waits for the disk"):
                await appended(log, [record(0)])
        assert await appended(log, [record(1)]) == 0
        assert numbers(await loaded(log)) == [1]


@pytest.mark.interpreted
async def test_a_log_whose_closing_has_failed_does_not_write_into_the_one_opened_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = SegmentRig(tmp_path / "data", journal_bytes=JOURNAL_BYTES)
    async with rig.run() as storage:
        log = await storage.claim(0)
        with monkeypatch.context() as later:
            later.setattr(storage.flusher._background, "_begin_write_out", lambda: None)
            await appended(log, [record(0)])
            left = storage.open_logs()[0]
            assert left.unwritten_bytes
            later.setattr(STORAGE_THREADS, "run", broken_thread)
            with pytest.raises(RuntimeError, match="a bug"):
                await log.close()
        log = await storage.claim(0)
        with suppress(OSError):
            left.write_out()
        await appended(log, [record(1)])
        await log.close()
    async with rig.run() as storage:
        assert numbers(await loaded(await storage.claim(0))) == [0, 1]


async def broken_thread(_work: object) -> None:
    raise RuntimeError("a bug")
