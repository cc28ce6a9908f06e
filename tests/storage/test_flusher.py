"""Group commit: what is synced when, under each policy, and whom an error concerns."""

import asyncio
import threading
from pathlib import Path
from random import Random

import pytest

from coordinator_protocol.batch import build_batch
from coordinator_server.storage.segments.flusher import Flusher, FlushPolicy
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.records import record
from tests.support.simulated_disk import SimulatedDisk


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


def log_on(disk: SimulatedDisk, name: str = "topic-0") -> SegmentLog:
    log = SegmentLog(Path("/data") / name, files=disk)
    # What opening it has synced does not count.
    disk.syncs = 0
    return log


def append(log: SegmentLog) -> None:
    log.append(build_batch([record(0)]))


class Gate:
    """Holds syncs in their thread until they are let through."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        disk.on_operation = self._pass

    def _pass(self, operation: str) -> None:
        if operation == "sync":
            self.reached.set()
            assert self.open.wait(30)


async def test_commit_is_done_only_when_all_before_it_is_durable(disk: SimulatedDisk) -> None:
    flusher = Flusher(FlushPolicy.COMMIT)
    log = log_on(disk)
    append(log)
    future = flusher.flush(log)
    assert not future.done()
    await future
    assert log.durable_offset == log.end_offset == 1
    await flusher.close()


async def test_one_pass_serves_all_that_came_meanwhile(disk: SimulatedDisk) -> None:
    flusher = Flusher(FlushPolicy.COMMIT)
    log = log_on(disk)
    gate = Gate(disk)
    append(log)
    first = flusher.flush(log)
    await asyncio.to_thread(gate.reached.wait)
    later = []
    for _ in range(20):
        append(log)
        later.append(flusher.flush(log))
    gate.open.set()
    await first
    assert not any(future.done() for future in later)
    await asyncio.gather(*later)
    assert disk.syncs == 2
    assert log.durable_offset == 21
    await flusher.close()


async def test_a_flush_of_nothing_new_costs_no_sync(disk: SimulatedDisk) -> None:
    flusher = Flusher(FlushPolicy.COMMIT)
    await flusher.flush(log_on(disk))
    assert disk.syncs == 0
    await flusher.close()


async def test_an_error_is_only_for_those_of_its_log(disk: SimulatedDisk) -> None:
    flusher = Flusher(FlushPolicy.COMMIT)
    logs = [log_on(disk, name) for name in ("a-0", "b-0")]
    disk.fail("sync", OSError(5, "Input/output error"))
    futures = []
    for log in (logs[0], logs[1], logs[0]):
        append(log)
        futures.append(flusher.flush(log))
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [isinstance(result, OSError) for result in results] == [True, False, True]
    append(logs[1])
    await flusher.flush(logs[1])
    assert logs[1].durable_offset == 2
    await flusher.close()


async def test_a_cancelled_wait_disturbs_nobody(disk: SimulatedDisk) -> None:
    flusher = Flusher(FlushPolicy.COMMIT)
    log = log_on(disk)
    append(log)
    cancelled, kept = flusher.flush(log), flusher.flush(log)
    cancelled.cancel()
    await kept
    assert log.durable_offset == 1
    await flusher.close()


async def test_interval_acknowledges_what_is_written_and_syncs_later(disk: SimulatedDisk) -> None:
    flusher = Flusher(FlushPolicy.INTERVAL, interval_ms=1)
    synced = asyncio.Event()
    loop = asyncio.get_running_loop()
    log = log_on(disk)

    def notice(operation: str) -> None:
        if operation == "sync":
            loop.call_soon_threadsafe(synced.set)

    disk.on_operation = notice
    append(log)
    await flusher.flush(log)
    await asyncio.wait_for(synced.wait(), 30)
    await flusher.close()
    assert log_on(disk.lose_power(Random(1))).end_offset == 1


async def test_os_leaves_syncing_to_the_system_until_the_end(disk: SimulatedDisk) -> None:
    flusher = Flusher(FlushPolicy.OS)
    log = log_on(disk)
    for _ in range(10):
        append(log)
        await flusher.flush(log)
    assert disk.syncs == 0
    await flusher.close()
    assert log_on(disk.lose_power(Random(1))).end_offset == 10


@pytest.mark.parametrize("policy", FlushPolicy)
async def test_closing_syncs_what_is_left(disk: SimulatedDisk, policy: FlushPolicy) -> None:
    flusher = Flusher(policy, interval_ms=3_600_000)
    log = log_on(disk)
    append(log)
    future = flusher.flush(log)
    await flusher.close()
    assert future.done()
    assert log.durable_offset == 1


@pytest.mark.parametrize("policy", [FlushPolicy.INTERVAL, FlushPolicy.OS])
async def test_interval_and_os_lose_only_what_was_not_synced_and_only_with_the_power(
    disk: SimulatedDisk, policy: FlushPolicy
) -> None:
    flusher = Flusher(policy, interval_ms=3_600_000)
    log = log_on(disk)
    for _ in range(3):
        append(log)
    log.sync()
    for _ in range(5):
        append(log)
        await flusher.flush(log)
    left = [log_on(disk.lose_power(Random(seed))).end_offset for seed in range(30)]
    assert 3 <= min(left) < 8
    assert log_on(disk).end_offset == 8, "a process that dies loses nothing"
    await flusher.close()
