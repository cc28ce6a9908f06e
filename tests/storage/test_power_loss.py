"""What was synced survives the loss of power, whatever becomes of the rest."""

from pathlib import Path
from random import Random
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_protocol.batch import LogRecord, build_batch
from coordinator_protocol.batch_records import read_records
from coordinator_server.storage.base import CorruptLog
from coordinator_server.storage.segments.log import SegmentLog
from coordinator_server.storage.segments.segment import Segment
from tests.support.simulated_disk import SimulatedDisk

DIRECTORY = Path("/data/__consumer_offsets-0")
SEGMENT_BYTES = 3_000

SYNC = 0
STEPS = st.lists(st.sampled_from([SYNC, 1, 1, 30, 200, 700, 2_900, 5_000]), max_size=25)


def a_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.names_now[DIRECTORY.parent] = disk.durable_names[DIRECTORY.parent] = None
    return disk


def open_log(disk: SimulatedDisk) -> SegmentLog:
    return SegmentLog(DIRECTORY, files=disk, segment_bytes=SEGMENT_BYTES)


def append(log: SegmentLog, value: bytes) -> None:
    log.append(build_batch([LogRecord(b"key", value, 1)]))


def values_of(log: SegmentLog) -> list[bytes]:
    return [
        record.value or b""
        for header, chunk, at in log.batches()
        for record in read_records(header, chunk, at)
    ]


def value(number: int, size: int, random: Random) -> bytes:
    return b"%d:" % number + random.randbytes(size)


def play(log: SegmentLog, steps: list[int], written: list[bytes], random: Random) -> None:
    for step in steps:
        if step == SYNC:
            log.sync()
        else:
            written.append(value(len(written), step, random))
            append(log, written[-1])


@settings(max_examples=300)
@given(st.lists(STEPS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_what_was_synced_is_there_and_what_is_there_was_written(
    lives: list[list[int]], random: Random
) -> None:
    disk = a_disk()
    written: list[bytes] = []
    for steps in lives:
        log = open_log(disk)
        assert values_of(log) == written
        play(log, steps, written, random)
        durable = log.durable_offset
        disk = disk.lose_power(random)
        found = values_of(open_log(disk))
        assert found == written[: len(found)]
        assert len(found) >= durable
        written = found


@settings(max_examples=200)
@given(STEPS, STEPS, st.randoms(use_true_random=False))
def test_what_a_restart_has_found_is_durable(
    before: list[int], after: list[int], random: Random
) -> None:
    disk = a_disk()
    written: list[bytes] = []
    first = open_log(disk)
    play(first, before, written, random)
    first.write_out()
    log = open_log(disk)  # the process was killed, the system lives on
    assert log.durable_offset == len(written)
    written_later = list(written)
    play(log, after, written_later, random)
    found = values_of(open_log(disk.lose_power(random)))
    assert found[: len(written)] == written


@settings(max_examples=200)
@given(STEPS, st.integers(0, 40), st.randoms(use_true_random=False))
def test_after_a_failed_sync_only_what_was_durable_before_counts(
    steps: list[int], fails_at: int, random: Random
) -> None:
    disk = a_disk()
    log = open_log(disk)
    written: list[bytes] = []
    operations = 0

    def count(operation: str) -> None:
        nonlocal operations
        if operation == "sync":
            operations += 1
            if operations == fails_at:
                disk.fail("sync", OSError(5, "Input/output error"))

    disk.on_operation = count
    try:
        play(log, steps, written, random)
    except OSError:
        assert log.failed is not None
        with pytest.raises(OSError, match="Input/output"):
            log.sync()
        with pytest.raises(OSError, match="Input/output"):
            append(log, b"more")
    disk.on_operation = lambda _operation: None
    durable = log.durable_offset
    log.close()
    again = open_log(disk)
    again.truncate(durable)
    written = written[:durable]
    assert values_of(again) == written
    append(again, b"after")
    again.sync()
    found = values_of(open_log(disk.lose_power(random)))
    assert found == [*written, b"after"]


def opened_anew(log: SegmentLog, disk: SimulatedDisk) -> SegmentLog:
    """What the storage does with a log that has failed."""
    assert log.failed is not None
    disk._faults.clear()
    log.close()
    again = open_log(disk)
    again.truncate(log.durable_offset)
    return again


@pytest.mark.parametrize("operation", ["append", "open", "sync_directory"])
@settings(max_examples=50)
@given(steps=STEPS, random=st.randoms(use_true_random=False))
def test_a_write_that_fails_leaves_nothing_behind_and_takes_nothing_that_was_written(
    operation: str, steps: list[int], random: Random
) -> None:
    disk = a_disk()
    log = open_log(disk)
    written: list[bytes] = []
    for number, step in enumerate(steps):
        if number % 3 == 1:
            disk.fail(operation, OSError(28, "No space left on device"))
        try:
            play(log, [step], written, random)
            log.mark_safe(log.write_out())
        except OSError:
            log = opened_anew(log, disk)
            del written[log.end_offset :]
        disk._faults.clear()
    assert values_of(log) == written
    log.sync()
    assert values_of(open_log(disk.lose_power(random))) == written


@pytest.mark.parametrize("seed", range(20))
def test_what_a_failed_append_left_is_cut_for_good_before_a_segment_is_full(seed: int) -> None:
    disk, random = a_disk(), Random(seed)
    log = open_log(disk)
    written: list[bytes] = []
    play(log, [1, SYNC], written, random)
    disk.fail("append", OSError(28, "No space left on device"))
    append(log, b"lost")
    with pytest.raises(OSError, match="No space"):
        log.write_out()
    log = opened_anew(log, disk)
    play(log, [SEGMENT_BYTES, SYNC], written, random)
    assert values_of(open_log(disk.lose_power(random))) == written


def test_a_log_whose_torn_write_cannot_be_taken_back_takes_no_more() -> None:
    disk = a_disk()
    log = open_log(disk)
    append(log, b"one")
    log.sync()
    disk.fail("append", OSError(28, "No space left on device"))
    disk.fail("truncate", OSError(5, "Input/output error"))
    append(log, b"two")
    with pytest.raises(OSError, match="Input/output"):
        log.write_out()
    with pytest.raises(OSError, match="Input/output"):
        append(log, b"three")
    again = open_log(disk)
    assert again.cut_bytes > 0
    assert values_of(again) == [b"one"]


def test_a_segment_that_lost_durable_bytes_is_not_passed_over() -> None:
    disk = a_disk()
    log = open_log(disk)
    for number in range(5):
        append(log, b"%d" % number * 1_500)
        log.sync()
    first = min(path for path in disk.names_now if path.suffix == ".log")
    inode = disk.names_now[first]
    assert inode is not None
    del inode.current[-10:]
    with pytest.raises(CorruptLog, match=first.name):
        values_of(open_log(disk))


@pytest.mark.interpreted
@pytest.mark.parametrize("written", [False, True])
def test_an_append_that_races_a_sync_is_not_taken_for_durable(
    monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    disk = a_disk()
    log = open_log(disk)
    append(log, b"one")
    log.sync()
    rival = Thread(target=log.sync)
    append_to_segment = Segment.buffer_batch

    def sync_meanwhile(segment: Segment, batch: bytes, end_offset: int, timestamp: int) -> None:
        if written:
            append_to_segment(segment, batch, end_offset, timestamp)
        rival.start()
        rival.join(0.1)  # it may have to wait for this very append
        if not written:
            append_to_segment(segment, batch, end_offset, timestamp)

    monkeypatch.setattr(Segment, "buffer_batch", sync_meanwhile)
    append(log, b"two")
    rival.join()
    for seed in range(20):
        found = values_of(open_log(disk.lose_power(Random(seed))))
        assert len(found) >= log.durable_offset
    log.sync()
    for seed in range(20):
        assert values_of(open_log(disk.lose_power(Random(seed)))) == [b"one", b"two"]
