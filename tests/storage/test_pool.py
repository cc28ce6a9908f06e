"""Pooled files: few are open, all can be used, and nothing unsynced is closed unseen."""

import errno
import threading
from pathlib import Path

import pytest

from coordinator_server.server.descriptors import SPARE_FILES, file_budget
from coordinator_server.storage.segments.files import File
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.pool import DescriptorPool, PooledFiles, ReservedFiles
from tests.support.journaled_logs import append, found
from tests.support.watched_files import WatchedFiles

PATIENCE = 30


class Disk(WatchedFiles):
    """Counts what is open and what was done."""

    def __init__(self) -> None:
        super().__init__(self._note)
        self.open_files: set[Path] = set()
        self.most = 0
        self.limit = 1 << 30
        self.done: list[str] = []
        self.fail: dict[str, OSError] = {}

    def _note(self, operation: str, path: Path) -> None:
        self.done.append(f"{operation} {path.name}")
        if operation in self.fail:
            raise self.fail.pop(operation)
        if operation == "open":
            if len(self.open_files) >= self.limit:
                raise OSError(errno.EMFILE, "Too many open files")
            self.open_files.add(path)
            self.most = max(self.most, len(self.open_files))
        elif operation == "close":
            self.open_files.discard(path)


@pytest.fixture
def disk() -> Disk:
    return Disk()


def files_of(disk: Disk, path: Path, most: int, count: int) -> tuple[DescriptorPool, list[File]]:
    pool = DescriptorPool(most)
    files = PooledFiles(pool, disk)
    return pool, [files.open(path / str(number)) for number in range(count)]


def test_many_files_are_used_and_few_are_open(disk: Disk, tmp_path: Path) -> None:
    pool, files = files_of(disk, tmp_path, 3, 10)
    for turn in range(3):
        for number, file in enumerate(files):
            file.append(b"%d" % number)
            assert file.size() == turn + 1
    assert [file.read(0, 9) for file in files] == [b"%d" % number * 3 for number in range(10)]
    assert disk.most == 3
    assert pool.open_files == 3
    for file in files:
        file.close()
    assert not disk.open_files
    with pytest.raises(OSError, match="is closed"):
        files[0].read(0, 1)


def test_what_is_not_synced_is_synced_before_it_is_closed(disk: Disk, tmp_path: Path) -> None:
    _, (first, second) = files_of(disk, tmp_path, 1, 2)
    first.append(b"x")
    disk.done.clear()
    second.read(0, 1)
    assert [done for done in disk.done if done.endswith(" 0")] == ["size 0", "sync 0", "close 0"]
    disk.done.clear()
    first.sync()
    assert disk.done == [], "it was opened only to be synced again"


def test_files_without_unsynced_data_are_closed_first(disk: Disk, tmp_path: Path) -> None:
    _, (first, second, third) = files_of(disk, tmp_path, 2, 3)
    second.sync()
    first.append(b"x")
    second.read(0, 1)
    disk.done.clear()
    third.read(0, 1)
    assert "close 1" in disk.done
    assert "close 0" not in disk.done


def test_a_sync_that_failed_when_the_file_was_closed_fails_the_next_sync_and_write(
    disk: Disk, tmp_path: Path
) -> None:
    _, (first, second) = files_of(disk, tmp_path, 1, 2)
    first.append(b"x")
    disk.fail["sync"] = OSError(errno.EIO, "Input/output error")
    second.read(0, 1)
    for use in (first.sync, first.sync, lambda: first.append(b"y"), lambda: first.truncate(0)):
        with pytest.raises(OSError, match="Input/output"):
            use()
    assert first.read(0, 1) == b"x"


def test_a_log_whose_file_could_not_be_synced_when_it_was_closed_fails(
    disk: Disk, tmp_path: Path
) -> None:
    pool = DescriptorPool(1)
    files = PooledFiles(pool, disk)
    log, other = (SegmentLog(tmp_path / name, files=files) for name in ("a-0", "b-0"))
    append(log, 0)
    log.write_out()
    disk.fail["sync"] = OSError(errno.EIO, "Input/output error")
    append(other, 0)
    other.write_out()
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    assert log.failed is not None
    assert other.failed is None
    assert found(other) == [0]


def test_a_file_in_use_stays_open(disk: Disk, tmp_path: Path) -> None:
    pool, (first, second) = files_of(disk, tmp_path, 1, 2)
    reading, go_on = threading.Event(), threading.Event()
    watch = disk.watch

    def hold(operation: str, path: Path) -> None:
        watch(operation, path)
        if operation == "read" and path.name == "0":
            reading.set()
            assert go_on.wait(PATIENCE)

    disk.watch = hold
    results: list[bytes] = []
    first.append(b"x")
    reader = threading.Thread(target=lambda: results.append(first.read(0, 1)))
    reader.start()
    assert reading.wait(PATIENCE)
    second.append(b"y")
    assert pool.open_files == 2
    first.close()
    assert tmp_path / "0" in disk.open_files, "closed while it was read"
    go_on.set()
    reader.join(PATIENCE)
    assert results == [b"x"]
    assert tmp_path / "0" not in disk.open_files


def test_a_file_that_was_removed_or_replaced_is_not_taken_for_the_same(
    disk: Disk, tmp_path: Path
) -> None:
    _, (first, second, third) = files_of(disk, tmp_path, 1, 3)
    first.append(b"x")
    second.append(b"y")
    third.append(b"z")
    (tmp_path / "0").unlink()
    (tmp_path / "1").write_bytes(b"another")
    with pytest.raises(FileNotFoundError):
        first.read(0, 1)
    assert not (tmp_path / "0").exists()
    with pytest.raises(OSError, match="another file"):
        second.read(0, 1)


def test_others_get_the_descriptors_of_idle_files(disk: Disk, tmp_path: Path) -> None:
    pool, files = files_of(disk, tmp_path, 10, 6)
    disk.limit = 6
    reserved = ReservedFiles(pool, disk)
    block = reserved.open_block(tmp_path / "journal")
    log = reserved.open(tmp_path / "segment")
    assert pool.open_files == 4
    assert files[0].size() == 0
    for number in range(3):
        reserved.open(tmp_path / f"more-{number}")
    block.close()
    log.close()


def test_without_idle_files_the_error_is_what_the_system_said(disk: Disk, tmp_path: Path) -> None:
    reserved = ReservedFiles(DescriptorPool(4), disk)
    disk.limit = 0
    with pytest.raises(OSError, match="Too many open files"):
        reserved.open(tmp_path / "segment")


def test_threads_that_use_more_files_than_may_be_open_read_what_they_wrote(
    disk: Disk, tmp_path: Path
) -> None:
    pool, files = files_of(disk, tmp_path, 3, 12)
    failures: list[BaseException] = []

    def use(number: int) -> None:
        try:
            for turn in range(40):
                file = files[(number + turn) % 12]
                file.append(b"x")
                assert file.read(0, 1) == b"x"
                if turn % 5 == 0:
                    file.sync()
        except BaseException as error:  # noqa: BLE001 - told below
            failures.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert sum(file.size() for file in files) == 160
    assert pool.open_files <= 3 + len(threads)


@pytest.mark.parametrize("limit", [256, 1_024, 20_000, 1_048_576])
def test_a_limit_is_shared_out_and_never_exceeded(limit: int) -> None:
    budget = file_budget(limit, 50, 500)
    parts = [budget.coordinator, budget.http, budget.topics, budget.connections, SPARE_FILES]
    assert sum(parts) == limit
    assert min(parts) > 0


def test_a_limit_that_is_too_low_is_named_with_what_is_needed() -> None:
    with pytest.raises(ValueError, match=r"may open 64 files but needs at least 184 .*ulimit -n"):
        file_budget(64, 50, 500)
    assert file_budget(184, 50, 500).connections == 16


def test_a_worker_needs_files_for_its_own_partitions_only() -> None:
    with pytest.raises(ValueError, match=r"needs at least 110 for 13 partitions"):
        file_budget(100, 50, 500, workers=4)
    assert file_budget(110, 50, 500, workers=4).coordinator == 2 * 13 + 16
    assert file_budget(256, 50, 500, workers=4).connections > file_budget(256, 50, 500).connections
