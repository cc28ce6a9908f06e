"""When the flusher brings to the segments what the journal has: later, in bulk, or when asked."""

import asyncio
import threading

import pytest

from coordinator_server.storage.segments.background import WRITE_OUT_BYTES
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from tests.support.journaled_logs import append, journal_on, log_on, simulated_disk, written
from tests.support.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return simulated_disk()


async def test_the_segment_gets_what_the_journal_has_a_moment_later(disk: SimulatedDisk) -> None:
    journal = journal_on(disk)
    flusher = Flusher(journal=journal, write_out_seconds=3_600)
    log = log_on(disk, journal)
    append(log, 0, 1)
    await flusher.flush(log)
    assert (written(disk), log.end_offset, log.durable_offset) == ([], 2, 2)
    append(log, 2)
    writes = 0

    def count(operation: str) -> None:
        nonlocal writes
        writes += operation == "append"

    disk.on_operation = count
    await flusher.close()
    assert written(disk) == [0, 1, 2]
    assert writes == 1


async def test_after_some_time_the_segment_is_written_without_being_asked(
    disk: SimulatedDisk,
) -> None:
    journal = journal_on(disk, syncs=False)
    flusher = Flusher(FlushPolicy.OS, journal=journal, write_out_seconds=0.001)
    log = log_on(disk, journal)
    done = threading.Event()
    disk.on_operation = lambda operation: done.set() if operation == "append" else None
    append(log, 0)
    await flusher.flush(log)
    await asyncio.to_thread(done.wait, 30)
    await flusher.close()
    assert written(disk) == [0]


@pytest.mark.parametrize("policy", [FlushPolicy.COMMIT, FlushPolicy.OS])
async def test_much_that_is_kept_back_is_written_before_its_time(
    disk: SimulatedDisk, policy: FlushPolicy
) -> None:
    journal = journal_on(disk, syncs=policy is FlushPolicy.COMMIT, capacity=8 << 20)
    flusher = Flusher(policy, journal=journal, write_out_seconds=3_600)
    share = 128 * 1024
    logs = [log_on(disk, journal, f"a-{n}") for n in range(2 * WRITE_OUT_BYTES // share)]
    done = threading.Semaphore(0)

    def count(operation: str) -> None:
        if operation == "append":
            done.release()

    disk.on_operation = count
    for log in logs[: len(logs) // 2]:
        append(log, 0, size=share)
        await flusher.flush(log)
    for _ in logs[: len(logs) // 2]:
        assert await asyncio.to_thread(done.acquire, timeout=30)
    for log in logs[len(logs) // 2 : -2]:
        append(log, 0, size=share)
        await flusher.flush(log)
    # It begins to count anew.
    assert not done.acquire(blocking=False)
    await flusher.close()
