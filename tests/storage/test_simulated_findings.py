"""Faults that tests/simulation/storage has found, each by itself."""

import asyncio
import gc
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from coordinator_protocol.batch_builder import NewBatch
from coordinator_server.storage.base import append
from coordinator_server.storage.segments import journal_names
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_file import JournalFile
from coordinator_server.storage.segments.journal_format import (
    HEADER_BYTES,
    NO_HEADER,
    Header,
    file_header,
)
from coordinator_server.storage.segments.journal_manifest import MANIFEST_FILE
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.log_identity import PARTITION_METADATA
from coordinator_server.storage.segments.storage import SegmentStorage
from tests.simulation.storage.process import TOPIC_ID, HeldDirectory
from tests.support.simulated_disk import SimulatedDisk
from tests.support.simulated_log import (
    DATA,
    DIRECTORY,
    append_five,
    append_one,
    simulated_disk,
    write,
)

if TYPE_CHECKING:
    from coordinator_server.storage.segments.files import File


class Killed(BaseException):
    pass


def test_a_journal_file_of_a_killed_process_is_found_after_a_power_loss() -> None:
    disk = simulated_disk()
    # An empty log would have the names in the data directory synced when it is opened.
    log = SegmentLog(DIRECTORY, files=disk)
    append_one(log, b"there before")
    log.close()
    journal = Journal(DATA, files=disk)
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)

    def kill_before_the_name_is_durable(operation: str) -> None:
        if operation == "sync_directory":
            raise Killed

    append_one(log, b"never acknowledged")
    disk.on_operation = kill_before_the_name_is_durable
    with pytest.raises(Killed):
        write(journal, log)
    disk = disk.kill()
    journal = Journal(DATA, files=disk)
    replay_all(journal, DATA, lambda *_args, **_fields: None, disk)
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    append_one(log, b"acknowledged")
    write(journal, log)
    for seed in range(20):
        after = disk.lose_power(Random(seed))
        found = SegmentLog(DIRECTORY, files=after, journal=Journal(DATA, files=after))
        assert found.end_offset == 2


def test_a_log_that_cannot_be_opened_leaves_no_file_open() -> None:
    disk = simulated_disk()
    log = SegmentLog(DIRECTORY, files=disk, segment_bytes=100)
    for number in range(5):
        append_one(log, b"%d" % number)
    log.close()
    opened: list[File] = []
    open_real = disk.open

    def open_some(path: Path) -> Any:
        if path.suffix == ".log" and len(opened) == 3:
            raise OSError(24, "Too many open files")
        file = open_real(path)
        if path.suffix == ".log":
            opened.append(file)
        return file

    disk.open = open_some  # type: ignore[method-assign]
    with pytest.raises(OSError, match="Too many open files"):
        SegmentLog(DIRECTORY, files=disk, segment_bytes=100)
    assert len(opened) == 3
    for file in opened:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.size()


async def test_a_tenure_that_ends_while_its_sync_fails_leaves_no_unseen_error() -> None:
    disk = simulated_disk()
    flusher = Flusher(FlushPolicy.COMMIT)
    storage = SegmentStorage(
        HeldDirectory(1),
        flusher,
        partitions=1,
        segment_bytes=1000,
        topic_id=TOPIC_ID,
        report=lambda *_args, **_fields: None,
        files=disk,
    )
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: reported.append(context))
    log = await storage.claim(0)
    batch = NewBatch(1)
    batch.add(b"key", b"value")
    disk.fail("sync", OSError(5, "Input/output error"))
    appended = append(log, batch)
    await log.close()
    with pytest.raises(OSError, match="Input/output"):
        await appended
    gc.collect()
    assert not reported
    await flusher.close()


def test_power_loss_while_segments_are_cut_off_leaves_no_gap() -> None:
    disk = simulated_disk()
    log = SegmentLog(DIRECTORY, files=disk, segment_bytes=100)
    for number in range(6):
        append_one(log, b"%d" % number)
    log.sync()
    snapshots: list[SimulatedDisk] = []
    disk.on_operation = lambda _operation: snapshots.append(disk.kill())
    log.truncate(1)
    assert len(snapshots) > 5
    for snapshot in snapshots:
        for seed in range(30):
            found = SegmentLog(DIRECTORY, files=snapshot.lose_power(Random(seed)))
            offsets = [header.base_offset for header, _, _ in found.batches()]
            assert offsets == list(range(found.end_offset))


def a_disk_where_the_second_segment_may_lack_a_durable_name() -> SimulatedDisk:
    disk = simulated_disk()
    journal = Journal(DATA, files=disk)
    log = SegmentLog(DIRECTORY, files=disk, segment_bytes=100, journal=journal)
    for value in (b"first", b"second"):
        append_one(log, value)
    write(journal, log)
    operations: list[str] = []

    def kill_when_the_second_segment_has_a_file(operation: str) -> None:
        operations.append(operation)
        if operations[-2:] == ["open", "sync_directory"]:
            raise Killed

    disk.on_operation = kill_when_the_second_segment_has_a_file
    with pytest.raises(Killed):
        log.write_out()
    return disk.kill()


def assert_both_segments_survive_power_loss(disk: SimulatedDisk) -> None:
    journal = Journal(DATA, files=disk)
    assert replay_all(journal, DATA, lambda *_args, **_fields: None, disk)
    for seed in range(20):
        found = SegmentLog(DIRECTORY, files=disk.lose_power(Random(seed)))
        assert found.end_offset == 2


def test_a_segment_of_a_killed_process_that_the_journal_fills_has_a_durable_name() -> None:
    assert_both_segments_survive_power_loss(
        a_disk_where_the_second_segment_may_lack_a_durable_name()
    )


def test_a_segment_that_a_killed_recovery_has_filled_has_a_durable_name() -> None:
    disk = a_disk_where_the_second_segment_may_lack_a_durable_name()

    def kill_when_names_are_synced(operation: str) -> None:
        if operation == "sync_directory":
            raise Killed

    journal = Journal(DATA, files=disk)
    disk.on_operation = kill_when_names_are_synced
    with pytest.raises(Killed):
        SegmentLog(DIRECTORY, files=disk, journal=journal)
    assert_both_segments_survive_power_loss(disk.kill())


def test_records_that_a_killed_process_has_cut_stay_away_after_a_power_loss() -> None:
    disk = simulated_disk()
    log = SegmentLog(DIRECTORY, files=disk)
    append_one(log, b"cut")
    log.sync()

    def kill_before_the_cut_is_synced(operation: str) -> None:
        if operation == "sync":
            raise Killed

    disk.on_operation = kill_before_the_cut_is_synced
    with pytest.raises(Killed):
        log.truncate(0)
    disk = disk.kill()
    assert SegmentLog(DIRECTORY, files=disk).end_offset == 0
    for seed in range(20):
        assert SegmentLog(DIRECTORY, files=disk.lose_power(Random(seed))).end_offset == 0


def check_has_five(disk: SimulatedDisk) -> None:
    """All records are there, whatever else was appended and lost with the power."""
    for seed in range(20):
        found = SegmentLog(DIRECTORY, files=disk.lose_power(Random(seed)))
        offsets = [header.base_offset for header, _, _ in found.batches()]
        assert offsets[:5] == list(range(5))
        assert offsets == list(range(found.end_offset))


def test_found_records_whose_sync_has_failed_are_durable_at_the_next_attempt() -> None:
    disk = simulated_disk()
    log = SegmentLog(DIRECTORY, files=disk)
    append_five(log)
    log.write_out()
    disk = disk.kill()
    disk.fail("sync", OSError(5, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        SegmentLog(DIRECTORY, files=disk)
    log = SegmentLog(DIRECTORY, files=disk, segment_bytes=100)
    assert log.end_offset == 5
    append_one(log, b"in the next segment")
    log.write_out()
    assert len(log.base_offsets) == 2
    check_has_five(disk)


def test_found_records_whose_sync_failed_in_a_killed_process_are_durable() -> None:
    disk = simulated_disk()
    log = SegmentLog(DIRECTORY, files=disk)
    append_five(log)
    disk.fail("sync", OSError(5, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    disk = disk.kill()
    assert SegmentLog(DIRECTORY, files=disk).end_offset == 5
    check_has_five(disk)


def test_records_whose_sync_failed_at_the_end_are_durable_when_opened_again() -> None:
    disk = simulated_disk()
    journal = Journal(DATA, writes=False, files=disk)
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    append_one(log, b"0")
    log.sync()
    journal.points.note(log.name, 1)
    for number in range(1, 5):
        append_one(log, b"%d" % number)
    log.write_out()
    disk.fail("sync", OSError(5, "Input/output error"))
    log.close()
    assert SegmentLog(DIRECTORY, files=disk, journal=journal).end_offset == 5
    check_has_five(disk)


def test_a_log_that_was_closed_is_not_written_again_when_it_is_opened() -> None:
    disk = simulated_disk()
    journal = Journal(DATA, files=disk)
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    append_five(log)
    log.close()
    operations: list[str] = []
    disk.on_operation = operations.append
    assert SegmentLog(DIRECTORY, files=disk, journal=journal).end_offset == 5
    assert "write" not in operations


def test_a_file_of_the_journal_that_was_shorter_than_its_header_keeps_that() -> None:
    disk = simulated_disk()
    path = DATA / ".coordinator-journal-0"
    short = JournalFile(path, 0, disk.open_block(path), 100, NO_HEADER)
    header = Header(1, is_synced=True, seed=7, boot=b"1" * 16)
    short.file.write(0, file_header(header))
    short.header, short.position = header, HEADER_BYTES
    short.make_room(1_000, 20_000)
    assert short.file.size() >= HEADER_BYTES + 1_000
    assert short.file.read(0, HEADER_BYTES) == file_header(header)


def test_a_file_of_the_journal_that_may_be_named_in_the_manifest_stays() -> None:
    disk = simulated_disk()
    journal = Journal(DATA, files=disk)
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    replace = disk.replace

    def replace_and_fail(path: Path, data: bytes) -> None:
        replace(path, data)
        if path.name == MANIFEST_FILE:
            raise OSError(5, "the directory could not be synced")

    disk.replace = replace_and_fail  # type: ignore[method-assign]
    append_one(log, b"never acknowledged")
    for _ in range(3):
        with pytest.raises(OSError, match="could not be synced"):
            write(journal, log)
    found = Journal(DATA, files=disk.kill())
    found.check_undamaged(DIRECTORY.name)
    assert journal_names.numbers(DATA, "", disk) == [0]
    disk.replace = replace  # type: ignore[method-assign]
    log.close()
    assert journal.close()
    assert not [name for name in disk.names(DATA) if name.startswith(".coordinator-journal")]


@pytest.mark.interpreted
def test_a_checkpoint_notes_no_recovery_point_of_a_log_that_is_deleted_meanwhile() -> None:
    disk = simulated_disk()
    journal = Journal(DATA, files=disk)
    mark(disk, b"old")
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    append_one(log, b"of a topic that is deleted")
    write(journal, log)
    settle = log.sync_and_note

    def settle_and_delete() -> int | None:
        synced = settle()
        log.fail(OSError("is deleted"))
        journal.forget([DIRECTORY.name])
        disk.drop_directory(DIRECTORY)
        mark(disk, b"new")
        return synced

    log.sync_and_note = settle_and_delete  # type: ignore[method-assign]
    journal.close()
    journal = Journal(DATA, files=disk, topic_ids=lambda _topic: "new")
    assert SegmentLog(DIRECTORY, files=disk, journal=journal).end_offset == 0


def mark(disk: SimulatedDisk, topic_id: bytes) -> None:
    disk.make_directory(DIRECTORY)
    disk.replace(DIRECTORY / PARTITION_METADATA, b"version: 0\ntopic_id: " + topic_id)


@pytest.mark.interpreted
def test_entries_that_a_freed_file_of_the_journal_led_up_to_were_cut_and_are_skipped() -> None:
    disk = simulated_disk()
    journal = Journal(DATA, files=disk, capacity=1)
    journal.begin_checkpoint = lambda: None  # type: ignore[method-assign]
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    other = SegmentLog(DATA / "other-0", files=disk, journal=journal)
    append_one(log, b"not acknowledged")
    write(journal, log)
    append_one(log, b"not acknowledged either")
    append_one(other, b"acknowledged")
    journal.write([*log.take_entries(), *other.take_entries()], [log, other])
    log.fail(OSError("has failed"))
    log.close()
    other.fail(OSError("keeps the second file of the journal"))
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    log.truncate(0)
    journal.close()
    disk = disk.kill()
    log = SegmentLog(DIRECTORY, files=disk, journal=Journal(DATA, files=disk))
    assert log.end_offset == 0


def test_a_log_that_was_closed_counts_for_the_journal_when_its_predecessor_is_removed() -> None:
    disk = simulated_disk()
    journal = Journal(DATA, files=disk, topic_ids=lambda _topic: "new")
    mark(disk, b"new")
    log = SegmentLog(DIRECTORY, files=disk, journal=journal)
    append_one(log, b"of the topic that was created again")
    write(journal, log)
    log.close()
    journal.forget([DIRECTORY.name])
    assert journal.close()
    assert SegmentLog(DIRECTORY, files=disk).end_offset == 1
