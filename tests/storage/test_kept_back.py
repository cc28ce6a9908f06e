"""With a journal the segments get what was appended later, in bulk: nobody can tell by reading."""

import asyncio
import threading
from collections.abc import Callable
from random import Random

import pytest

from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_format import HEADER_BYTES, read_progress
from coordinator_server.storage.segments.journal_replay import replay_all
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.segment import Segment
from coordinator_server.storage.segments.segment_writer import SegmentWriter
from tests.support.journaled_logs import (
    DATA,
    append,
    found,
    journal_on,
    log_on,
    simulated_disk,
    written,
)
from tests.support.simulated_disk import SimulatedDisk

BROKEN = OSError(5, "Input/output error")
FULL = OSError(28, "No space left on device")
UNSYNCED = [FlushPolicy.INTERVAL, FlushPolicy.OS]


@pytest.fixture
def disk() -> SimulatedDisk:
    return simulated_disk()


def closed_segments(log: SegmentLog) -> list[Segment]:
    """Those before the active one, as if all was acknowledged."""
    log.mark_safe(log.end_offset)
    return log.closed_segments()


@pytest.mark.parametrize(
    "look",
    [
        lambda log: log.read(0, 1, 2),
        found,
        SegmentLog.sync,
        SegmentLog.sync_and_note,
        SegmentLog.close,
        lambda log: log.truncate(2),
        lambda log: log.probe(100),
    ],
    ids=["read", "batches", "sync", "sync_and_note", "close", "truncate", "probe"],
)
def test_whoever_needs_the_segment_writes_it_first(
    disk: SimulatedDisk, look: Callable[[SegmentLog], object]
) -> None:
    log = log_on(disk, journal_on(disk))
    append(log, 0, 1)
    assert written(disk) == []
    look(log)
    assert written(disk) == [0, 1]


def test_a_log_that_rolls_and_one_that_is_compacted_have_everything(disk: SimulatedDisk) -> None:
    journal = journal_on(disk)
    log = log_on(disk, journal, size=500)
    append(log, *range(30), size=50)
    closed = closed_segments(log)
    assert len(closed) > 5
    assert all(segment.size == segment.length for segment in closed)
    assert written(disk)[: closed[-1].end_offset] == list(range(closed[-1].end_offset))
    assert found(log) == list(range(30))
    assert log.size == log.closed_bytes + len(log.read(closed[-1].end_offset, 1 << 20, 30))


def test_whoever_fills_a_segment_does_not_wait_until_it_is_synced(disk: SimulatedDisk) -> None:
    log = log_on(disk, journal_on(disk), size=500)
    append(log, 0)
    log.write_out()
    operations: list[str] = []
    disk.on_operation = operations.append
    append(log, *range(1, 8), size=50)
    assert operations == []
    assert len(closed_segments(log)) == 1


def test_a_full_segment_is_synced_before_the_next_has_a_file(disk: SimulatedDisk) -> None:
    log = log_on(disk, journal_on(disk), size=500)
    append(log, *range(8), size=50)
    operations: list[str] = []
    disk.on_operation = operations.append
    log.write_out()
    assert operations == ["append", "sync", "open", "sync_directory", "append"]
    assert written(disk) == found(log) == list(range(8))


def test_segments_that_are_full_before_others_are_synced_get_their_files_in_turn(
    disk: SimulatedDisk,
) -> None:
    log = log_on(disk, journal_on(disk), size=500)
    append(log, *range(20), size=50)
    assert written(disk) == []
    operations: list[str] = []
    disk.on_operation = operations.append
    log.write_out()
    full = len(closed_segments(log))
    assert full > 3
    assert operations == ["append", *["sync", "open", "sync_directory", "append"] * full]
    assert written(disk) == found(log) == list(range(20))


@pytest.mark.parametrize("operation", ["append", "sync", "open", "sync_directory"])
def test_a_full_segment_that_cannot_be_finished_ends_the_log_and_the_journal_has_all(
    disk: SimulatedDisk, operation: str
) -> None:
    journal = journal_on(disk)
    log = log_on(disk, journal, size=500)
    append(log, *range(8), size=50)
    journal.write(log.take_entries(), [log])
    disk.fail(operation, BROKEN)
    for attempt in (log.write_out, log.sync, lambda: append(log, 8)):
        with pytest.raises(OSError, match="Input/output"):
            attempt()
    log.close()
    assert not journal.close(), "the journal was freed of what is nowhere else"
    for seed in range(20):
        after = disk.lose_power(Random(seed))
        assert found(log_on(after, journal_on(after), size=500)) == list(range(8))


def test_no_file_is_made_for_a_log_that_was_closed_while_its_full_segment_was_synced(
    disk: SimulatedDisk,
) -> None:
    journal = journal_on(disk)
    log = log_on(disk, journal, size=500)
    append(log, *range(8), size=50)
    journal.write(log.take_entries(), [log])

    def give_up(operation: str) -> None:
        if operation == "sync":
            disk.on_operation = lambda _operation: None
            log.fail(FULL)
            log.close()

    disk.on_operation = give_up
    with pytest.raises(OSError, match="No space left"):
        log.write_out()
    again = log_on(disk, journal, size=500)
    assert again.closed_segments() == [], "the closed log has made a file"
    assert found(again) == list(range(8))


def test_a_log_that_fails_while_it_is_synced_has_not_been_synced(disk: SimulatedDisk) -> None:
    log = log_on(disk, journal_on(disk))
    append(log, 0)
    disk.on_operation = lambda operation: log.fail(FULL) if operation == "sync" else None
    with pytest.raises(OSError, match="No space left"):
        log.sync()
    assert (log.sync_and_note(), log.durable_offset) == (None, 0)


@pytest.mark.interpreted
def test_what_is_written_while_a_log_is_synced_is_synced_the_next_time_at_the_latest(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = journal_on(disk)
    log = log_on(disk, journal)
    marked, synced = threading.Event(), threading.Event()
    sync_dirty = SegmentWriter._sync_dirty

    def write_slowly(operation: str) -> None:
        if operation == "append":
            marked.set()
            # Whoever syncs waits for this write, so nobody sets it; otherwise it comes at once.
            synced.wait(0.2)
        elif operation == "sync":
            synced.set()

    def while_another_writes(writer: SegmentWriter) -> None:
        monkeypatch.undo()
        append(log, 0)
        journal.write(log.take_entries(), [log])
        disk.on_operation = write_slowly
        other.start()
        assert marked.wait(30)
        sync_dirty(writer)

    other = threading.Thread(target=log.write_out)
    monkeypatch.setattr(SegmentWriter, "_sync_dirty", while_another_writes)
    log.sync()
    other.join()
    disk.on_operation = lambda _operation: None
    assert journal.close()
    assert written(disk.lose_power(Random(1))) == [0], "freed by the journal and never synced"


def test_a_checkpoint_writes_the_segments_before_it_frees_the_journal(disk: SimulatedDisk) -> None:
    journal = journal_on(disk)
    log = log_on(disk, journal)
    append(log, 0, 1)
    journal.write(log.take_entries(), [log])
    assert journal.close()
    assert written(disk.lose_power(Random(1))) == [0, 1]


@pytest.mark.parametrize("policy", FlushPolicy)
async def test_a_segment_that_cannot_be_written_ends_the_log_and_the_journal_stays(
    disk: SimulatedDisk, policy: FlushPolicy
) -> None:
    journal = journal_on(disk, syncs=policy is FlushPolicy.COMMIT)
    flusher = Flusher(policy, 3_600_000, journal, write_out_seconds=3_600)
    log = log_on(disk, journal)
    append(log, 0, 1)
    await flusher.flush(log)
    disk.fail("append", FULL)
    with pytest.raises(OSError, match="No space left"):
        log.write_out()
    with pytest.raises(OSError, match="No space left"):
        append(log, 2)
    with pytest.raises(OSError, match="No space left"):
        found(log)
    with pytest.raises(OSError, match="No space left"):
        await flusher.flush(log)
    log.close()
    assert not journal.close(), "the journal was freed of what is nowhere else"
    after = disk.kill()
    journal = journal_on(after)
    assert found(log_on(after, journal)) == [0, 1]
    await flusher.close()


@pytest.mark.parametrize("policy", UNSYNCED)
async def test_one_write_serves_all_logs_of_a_turn_and_nothing_is_synced_for_it(
    disk: SimulatedDisk, policy: FlushPolicy
) -> None:
    journal = journal_on(disk, syncs=False)
    flusher = Flusher(policy, 3_600_000, journal, write_out_seconds=3_600)
    logs = [log_on(disk, journal, f"a-{number}") for number in range(5)]
    disk.syncs = 0
    operations: list[str] = []
    for turn in range(3):
        disk.on_operation = operations.append
        futures = []
        for log in logs:
            append(log, turn)
            futures.append(flusher.flush(log))
        assert not any(future.done() for future in futures), "acknowledged before it was written"
        await asyncio.gather(*futures)
        # Header and name of the file, then the frame; the progress when nothing follows.
        written = [each for each in operations if each != "note"]
        assert written == [*["open", "write", "replace"] * (turn == 0), "write"]
        operations.clear()
    disk.on_operation = lambda _operation: None
    after = disk.kill()
    journal = journal_on(after)
    assert [found(log_on(after, journal, log.name)) for log in logs] == [[0, 1, 2]] * 5
    await flusher.close()


@pytest.mark.parametrize("syncs", [True, False])
async def test_the_last_frame_is_noted_before_anybody_is_answered(
    disk: SimulatedDisk, syncs: bool
) -> None:
    journal = journal_on(disk, syncs=syncs)
    flusher = Flusher(FlushPolicy.COMMIT if syncs else FlushPolicy.OS, 1_000, journal)
    log = log_on(disk, journal)
    append(log, 0)
    await flusher.flush(log)
    assert journal._journal_files.current is not None
    progress = read_progress(disk.open_block(journal._journal_files.current.path))
    assert progress is not None
    assert progress.sequence == 1
    await flusher.close()


async def test_with_an_interval_the_journal_is_synced_some_time_after(disk: SimulatedDisk) -> None:
    journal = journal_on(disk, syncs=False)
    flusher = Flusher(FlushPolicy.INTERVAL, 1, journal, write_out_seconds=3_600)
    log = log_on(disk, journal)
    synced = threading.Event()
    disk.on_operation = lambda operation: synced.set() if operation == "sync_directory" else None
    append(log, *range(5))
    await flusher.flush(log)
    await asyncio.to_thread(synced.wait, 30)
    await flusher.close()
    for seed in range(20):
        after = disk.lose_power(Random(seed))
        assert found(log_on(after, journal_on(after))) == list(range(5))


async def test_a_journal_that_cannot_be_synced_is_given_up_and_no_log_with_it(
    disk: SimulatedDisk,
) -> None:
    journal = journal_on(disk, syncs=False)
    flusher = Flusher(FlushPolicy.INTERVAL, 3_600_000, journal, write_out_seconds=3_600)
    log = log_on(disk, journal)
    append(log, 0)
    await flusher.flush(log)
    disk.fail("sync", BROKEN)
    failed = journal.sync()
    assert len(failed) == 1
    journal.abandon(failed)
    append(log, 1)
    await flusher.flush(log)
    assert journal.sync() == []
    await flusher.close()
    log.close()
    assert journal.close()
    assert not [path for path in disk.names_now if "journal" in path.name]
    assert written(disk.lose_power(Random(1))) == [0, 1]


async def test_a_journal_that_cannot_be_written_ends_the_logs_of_that_turn(
    disk: SimulatedDisk,
) -> None:
    journal = journal_on(disk, syncs=False)
    flusher = Flusher(FlushPolicy.OS, journal=journal, write_out_seconds=3_600)
    first, other = log_on(disk, journal), log_on(disk, journal, "b-0")
    append(first, 0)
    await flusher.flush(first)
    disk.fail("write", BROKEN)
    append(first, 1)
    with pytest.raises(OSError, match="Input/output"):
        await flusher.flush(first)
    append(other, 0)
    await flusher.flush(other)
    assert first.durable_offset == 1
    first.close()
    again = log_on(disk, journal)
    again.truncate(first.durable_offset)
    assert found(again) == [0]
    await flusher.close()


def test_a_write_that_is_not_synced_never_waits_for_a_checkpoint(disk: SimulatedDisk) -> None:
    journal = journal_on(disk, syncs=False, capacity=HEADER_BYTES + 1_024)
    log = log_on(disk, journal)
    settling, go_on = threading.Event(), threading.Event()

    def hold(operation: str) -> None:
        if operation == "sync" and threading.current_thread().name == "journal-checkpoint":
            settling.set()
            assert go_on.wait(30)

    disk.on_operation = hold
    for number in range(20):
        append(log, number)
        journal.write(log.take_entries(), [log])
        if number == 5:
            assert settling.wait(30)
    go_on.set()
    assert journal.close()
    assert written(disk) == list(range(20))


def test_what_a_journal_still_has_is_not_replayed_over_what_came_later_without_it(
    disk: SimulatedDisk,
) -> None:
    journal = journal_on(disk)
    sick, sound = log_on(disk, journal, "a-0"), log_on(disk, journal, "b-0")
    append(sick, 0)
    append(sound, 0)
    journal.write(sick.take_entries() + sound.take_entries(), [sick, sound])
    aside = disk.names_now.pop(first := DATA / "a-0" / f"{0:020d}.log")
    disk.names_now[first.with_name("strange.log")] = aside
    for number in (1, 2):
        journal = Journal(DATA, writes=False, files=disk)
        assert not replay_all(journal, DATA, lambda *_, **__: None, disk)
        with pytest.raises(CorruptLog):
            log_on(disk, journal, "a-0")
        sound = log_on(disk, journal, "b-0")
        assert found(sound) == list(range(number))
        append(sound, number)
        sound.sync()
