"""When a file of the journal is used again: nothing acknowledged is lost on the way."""

import asyncio
import threading
from random import Random

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.segments.checkpoint import RecoveryPoints
from coordinator_server.storage.segments.flush_waiter import FlushWaiter
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.journal_format import HEADER_BYTES
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.topics.partition import TopicPartitionLog
from coordinator_server.topics.searches import Searches
from tests.support.journaled_logs import DATA, simulated_disk
from tests.support.records import numbers, record
from tests.support.simulated_disk import SimulatedDisk

BROKEN = OSError(5, "Input/output error")
CAPACITY = HEADER_BYTES + 6_000


@pytest.fixture
def disk() -> SimulatedDisk:
    return simulated_disk()


def journal_without_checkpoints(disk: SimulatedDisk) -> Journal:
    """Return a journal that checkpoints only when the test says so."""
    journal = Journal(DATA, capacity=CAPACITY, files=disk)
    journal._checkpoints.begin = lambda: None  # type: ignore[method-assign]
    return journal


def log_on(disk: SimulatedDisk, journal: Journal, name: str = "orders-0") -> SegmentLog:
    return SegmentLog(DATA / name, files=disk, journal=journal)


def commit(journal: Journal, log: SegmentLog, number: int, size: int = 900) -> None:
    log.append(build_batch([record(number, size)]))
    journal.write(log.take_entries(), [log])
    log.mark_safe(log.end_offset)


def found(log: SegmentLog) -> list[int]:
    return [
        n for header, chunk, at in log.batches() for n in numbers(read_records(header, chunk, at))
    ]


@pytest.mark.interpreted
def test_files_are_replayed_as_they_were_written_whatever_their_generations(
    disk: SimulatedDisk,
) -> None:
    journal = journal_without_checkpoints(disk)
    log = log_on(disk, journal)
    commit(journal, log, 0)
    # The checkpoint frees the full file while the next one is made, which gets a later generation.

    def checkpoint(operation: str) -> None:
        if operation == "open":
            journal.checkpoint()

    disk.on_operation = checkpoint
    count = 1
    while journal._journal_files.generation < 3:
        commit(journal, log, count)
        count += 1
    disk.on_operation = lambda _operation: None
    while journal._journal_files.current is None or journal._journal_files.current.generation != 2:
        commit(journal, log, count)
        count += 1
    for after in (disk.kill(), disk.lose_power(Random(1))):
        assert found(log_on(after, Journal(DATA, files=after))) == list(range(count))


def test_a_recovery_point_that_could_not_be_lowered_is_lowered_by_the_next_try(
    disk: SimulatedDisk,
) -> None:
    points = RecoveryPoints(DATA, disk)
    points.note("orders-0", 9)
    points.write()
    disk.fail("replace", BROKEN)
    with pytest.raises(OSError, match="Input/output"):
        points.lower("orders-0", 8)
    points.lower("orders-0", 8)
    assert RecoveryPoints(DATA, disk).of("orders-0") == 8


def test_what_a_checkpoint_knows_of_a_deleted_log_says_nothing_of_the_next_one(
    disk: SimulatedDisk,
) -> None:
    journal = Journal(DATA, files=disk)
    log = log_on(disk, journal)
    log.append(build_batch([record(0)]))
    log.close()
    assert journal.points.of("orders-0") == 1
    directory = DATA / "orders-0"
    for path in [path for path in disk.names_now if path.parent == directory]:
        disk.remove(path)
    settled = threading.Event()

    def note_of_the_first(operation: str) -> None:
        if operation == "sync_directory" and not settled.is_set():
            settled.set()
            journal.points.note("orders-0", 1)

    disk.on_operation = note_of_the_first
    assert log_on(disk, journal).end_offset == 0
    assert settled.is_set()
    assert journal.points.of("orders-0") == 0


@pytest.fixture
def stale(disk: SimulatedDisk) -> tuple[Journal, SegmentLog]:
    """A journal whose oldest file stays for an idle log that failed; it has much of another log.

    That one was cut to one record since.
    """
    journal = journal_without_checkpoints(disk)
    idle, log = log_on(disk, journal, "idle-0"), log_on(disk, journal)
    commit(journal, idle, 0)
    commit(journal, log, 0)
    append(idle, 1)
    append(log, 91, 92, 93, 94)
    disk.fail("write", BROKEN)
    with pytest.raises(OSError, match="Input/output") as raised:
        journal.write(idle.take_entries() + log.take_entries(), [idle, log])
    for each in (idle, log):
        each.fail(raised.value)
        each.close()
    again = log_on(disk, journal)
    again.truncate(1)
    return journal, again


@pytest.mark.interpreted
def test_nothing_is_kept_of_deleted_logs(disk: SimulatedDisk) -> None:
    journal = journal_without_checkpoints(disk)
    for number in range(20):
        log = log_on(disk, journal, f"passing-{number}")
        commit(journal, log, 0)
        log.close()
        for path in [path for path in disk.names_now if path.parent == log.directory]:
            disk.remove(path)
        del disk.names_now[log.directory]
    left = log_on(disk, journal)
    commit(journal, left, 0)
    assert journal.close()
    assert list(journal._checkpoints.logs) == ["orders-0"]
    assert RecoveryPoints(DATA, disk).names() == {"orders-0"}


def append(log: SegmentLog, *which: int) -> None:
    for number in which:
        log.append(build_batch([record(number)]))


def restarted(disk: SimulatedDisk) -> SegmentLog:
    after = disk.kill()
    return log_on(after, Journal(DATA, files=after))


@pytest.mark.interpreted
def test_what_a_log_was_cut_back_from_does_not_come_back_from_a_file_that_had_to_stay(
    disk: SimulatedDisk, stale: tuple[Journal, SegmentLog]
) -> None:
    journal, log = stale
    other = log_on(disk, journal, "other-0")
    for number in range(1, 10):
        commit(journal, log, number)
        for _ in range(3):
            commit(journal, other, 0, size=2_500)
        journal.checkpoint()
        assert found(restarted(disk)) == list(range(number + 1))


@pytest.mark.interpreted
def test_a_file_that_had_to_stay_holds_back_no_more_than_what_it_could_spoil(
    disk: SimulatedDisk, stale: tuple[Journal, SegmentLog]
) -> None:
    journal, log = stale
    first = journal._journal_files.full[0]
    for number in range(1, 30):
        commit(journal, log, number)
        journal.checkpoint()
    assert journal._journal_files.full == [first]
    idle = log_on(disk, journal, "idle-0")
    assert found(idle)[:1] == [0]
    assert journal.checkpoint()


@pytest.mark.interpreted
def test_without_a_thread_for_the_checkpoint_the_journal_goes_on(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[str] = []
    journal = Journal(
        DATA, capacity=CAPACITY, files=disk, report=lambda event, **_: reports.append(event)
    )
    log = log_on(disk, journal)

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(threading.Thread, "start", start)
        for number in range(10):
            commit(journal, log, number)
    assert set(reports) == {"journal_checkpoint_failed"}
    commit(journal, log, 10)
    assert journal.close()
    assert found(log) == list(range(11))


def test_a_file_that_is_given_up_during_a_checkpoint_is_settled_after_it(
    disk: SimulatedDisk,
) -> None:
    journal = Journal(DATA, capacity=CAPACITY, syncs=False, files=disk)
    log = log_on(disk, journal)
    held, go_on = threading.Event(), threading.Event()

    def hold(operation: str) -> None:
        is_first = operation == "sync" and not held.is_set()
        if is_first and threading.current_thread().name == "journal-checkpoint":
            held.set()
            assert go_on.wait(30)

    disk.on_operation = hold
    count = 0
    while not held.is_set() and count < 1_000:
        commit(journal, log, count)
        count += 1
    current = journal._journal_files.current
    assert current is not None
    journal.abandon([current])
    go_on.set()
    with journal._journal_files.changed:
        assert journal._journal_files.changed.wait_for(
            lambda: journal._checkpoints.running is None, 30
        )
        assert journal._journal_files.full == []
    assert found(log_on(disk.lose_power(Random(1)), Journal(DATA, files=SimulatedDisk()))) == list(
        range(count)
    )


@pytest.mark.interpreted
async def test_a_partition_that_fails_keeps_what_it_is_about_to_acknowledge(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(DATA, files=disk)
    flusher = Flusher(journal=journal, write_out_seconds=3_600)
    partition = TopicPartitionLog(lambda _create: log_on(disk, journal), flusher, Searches())
    await partition.open(create=True)
    log = partition._log
    assert log is not None

    def fail() -> None:
        disk.fail("append", BROKEN)
        with pytest.raises(OSError, match="Input/output"):
            log.write_out()
        partition._drop_if_failed(log)

    end_pass = flusher._end_flush

    def end_pass_after_which_the_log_fails(
        waiting: list[FlushWaiter], failures: dict[SegmentLog, OSError]
    ) -> None:
        # Called before those who wait for the pass: the end of a pass calls them soon, too.
        asyncio.get_running_loop().call_soon(fail)
        end_pass(waiting, failures)

    monkeypatch.setattr(flusher, "_end_flush", end_pass_after_which_the_log_fails)
    await (await partition.append(build_batch([record(0)]))).durable
    assert partition._log is None
    monkeypatch.undo()
    await partition.open()
    assert partition.high_watermark == 1
    await flusher.close()


class TellingLock:
    """A lock that tells when somebody has to wait for it."""

    def __init__(self, waits: threading.Event) -> None:
        self._lock = threading.Lock()
        self._waits = waits

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waits.set()
            self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        self._lock.release()


def test_a_log_that_is_cut_during_a_checkpoint_has_no_recovery_point_behind_its_end(
    disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(DATA, capacity=CAPACITY, files=disk, topic_ids=lambda _topic: "")
    log = log_on(disk, journal)
    commit(journal, log, 0)
    # A pass that fails: the segment has the record, and it is cut as it was not acknowledged.
    append(log, 1)
    cut_or_waits = threading.Event()
    monkeypatch.setattr(log._writer, "_syncing", TellingLock(cut_or_waits))

    def cut() -> None:
        log.truncate(1)
        cut_or_waits.set()

    cutting = threading.Thread(target=cut)
    note = journal.points.note

    def note_while_it_is_cut(directory: str, offset: int) -> None:
        monkeypatch.setattr(journal.points, "note", note)
        cutting.start()
        assert cut_or_waits.wait(30)
        note(directory, offset)

    monkeypatch.setattr(journal.points, "note", note_while_it_is_cut)
    full = journal._journal_files.current
    assert full is not None
    journal._journal_files.full, journal._journal_files.current = [full], None
    journal.checkpoint()
    cutting.join()
    after = disk.kill()
    journal = Journal(DATA, files=after, topic_ids=lambda _topic: "")
    assert found(log_on(after, journal)) == [0]
