"""A sync waits for those who come again, and for nobody else."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Semaphore

from coordinator_protocol.batch import build_batch
from coordinator_server.storage.segments.adaptive_linger import FEWEST, MOST, AdaptiveLinger
from coordinator_server.storage.segments.flusher import Flusher
from coordinator_server.storage.segments.journal import Journal
from coordinator_server.storage.segments.log import SegmentLog
from tests.support.records import record
from tests.support.simulated_disk import SimulatedDisk

DATA = Path("/data")
NEVER = 3_600


HALVES = ({"a": 5, "b": 3}, {"c": 8})
"""Records of those who come while the others are answered, by log."""


def come_in_halves(linger: AdaptiveLinger, passes: int) -> None:
    """Each half comes again during the pass of the other."""
    for number in range(passes):
        linger.ended(HALVES[number % 2], HALVES[(number + 1) % 2])


def waiting_linger() -> AdaptiveLinger:
    linger = AdaptiveLinger()
    come_in_halves(linger, FEWEST + 1)
    return linger


def test_a_pass_waits_for_nearly_all_who_came_again_within_one_pass() -> None:
    linger = AdaptiveLinger()
    come_in_halves(linger, FEWEST)
    assert linger.wanted == 0
    linger.ended(*HALVES)
    assert linger.wanted == 14
    linger.ended({"a": 5, "b": 2, "c": 8}, {"b": 1})
    assert linger.wanted == 14


def test_a_pass_waits_for_both_of_two() -> None:
    linger = AdaptiveLinger()
    for _ in range(FEWEST + 1):
        linger.ended({"a": 1}, {"a": 1})
    assert linger.wanted == 2


def test_nobody_is_waited_for_who_does_not_come_again() -> None:
    linger = AdaptiveLinger()
    for _ in range(1_000):
        linger.ended({"a": 3}, {})
        linger.ended({"a": 3}, {"a": 2})
    assert linger.wanted == 0


def test_others_do_not_count_as_those_who_come_again() -> None:
    linger = AdaptiveLinger()
    for number in range(1_000):
        linger.ended({f"log-{number % 10}": 8}, {f"log-{(number + 1) % 10}": 8})
    assert linger.wanted == 0


def test_one_who_is_late_once_does_not_undo_all_who_were_not() -> None:
    linger = AdaptiveLinger()
    come_in_halves(linger, FEWEST)
    linger.ended(HALVES[0], {"c": 5})
    linger.ended(*HALVES[::-1])
    linger.ended(*HALVES)
    assert linger.wanted == 0
    linger.ended(*HALVES[::-1])
    assert linger.wanted == 14


def test_waiting_in_vain_needs_twice_the_reason_the_next_time() -> None:
    linger = waiting_linger()
    linger.back_off()
    assert linger.wanted == 0
    linger.ended(*HALVES[::-1])
    come_in_halves(linger, 2 * FEWEST - 2)
    assert linger.wanted == 0
    linger.ended(*HALVES)
    assert linger.wanted == 14


def test_there_is_a_most_that_it_needs() -> None:
    linger = waiting_linger()
    for _ in range(20):
        linger.back_off()
    linger.ended(*HALVES[::-1])
    come_in_halves(linger, MOST - 2)
    assert linger.wanted == 0
    linger.ended(*HALVES)
    assert linger.wanted == 14


def test_passes_that_were_worth_waiting_for_make_good_for_one_in_vain() -> None:
    linger = waiting_linger()
    linger.back_off()
    come_in_halves(linger, 2 * FEWEST + 1)
    assert linger.wanted == 14
    for _ in range(FEWEST):
        linger.ended({"a": 5, "b": 3, "c": 8}, {})
    linger.stop()
    linger.ended(*HALVES)
    come_in_halves(linger, FEWEST)
    assert linger.wanted == 0
    linger.ended(*HALVES)
    assert linger.wanted == 14


def test_records_that_come_to_a_log_without_an_answer_are_not_waited_for() -> None:
    """Ten come during every sync, and more while a pass waits."""
    linger = AdaptiveLinger()
    while not linger.wanted:
        linger.ended({"a": 10}, {"a": 10})
    waited = 0
    while linger.wanted:
        linger.ended({"a": linger.wanted}, {"a": 10})
        waited += 1
    assert waited <= 4


# --- the flusher ---


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class Clients:
    """Each appends a record, and another one when it is answered; writes wait to be let through."""

    def __init__(self) -> None:
        disk = SimulatedDisk()
        disk.names_now[DATA] = disk.durable_names[DATA] = None
        journal = Journal(DATA, capacity=1 << 20, files=disk)
        self.flusher = Flusher(journal=journal, write_out_seconds=NEVER, later=self._later)
        self.timers: list[asyncio.Handle] = []
        self.log = SegmentLog(DATA / "a-0", files=disk, journal=journal)
        self.passes = 0
        self._disk = disk
        self._begun = Semaphore(0)
        self._may_end = Semaphore(0)

    def append(self) -> "asyncio.Future[None]":
        self.log.append(build_batch([record(0)]))
        return self.flusher.flush(self.log)

    def _later(self, _seconds: float, call: Callable[[], None]) -> asyncio.Handle:
        self.timers.append(asyncio.Handle(call, [], asyncio.get_running_loop()))
        return self.timers[-1]

    def ring(self) -> None:
        """Let the time pass a pass waits at least."""
        self.timers.pop()._run()

    def _hold(self, operation: str) -> None:
        if operation == "write":
            self.passes += 1
            self._begun.release()
            assert self._may_end.acquire(timeout=30)

    async def come_in_halves(self) -> "asyncio.Future[None]":
        """Two in turns, one during the other's pass, until passes wait; the one who waits."""
        await self.append()
        self._disk.on_operation = self._hold
        waits = self.append()
        for _ in range(FEWEST):
            assert await asyncio.to_thread(self._begun.acquire, timeout=30)
            other = self.append()
            self._may_end.release()
            await waits
            waits = other
        await turns()
        assert (self.passes, waits.done()) == (FEWEST, False)
        self._may_end.release(10)
        return waits


async def test_a_pass_begins_when_those_have_come_it_waits_for() -> None:
    clients = Clients()
    waits = await clients.come_in_halves()
    await asyncio.gather(waits, clients.append())
    assert clients.passes == FEWEST + 1
    await clients.flusher.close()


async def test_a_pass_gives_up_after_some_time_and_the_next_one_does_not_wait() -> None:
    clients = Clients()
    waits = await clients.come_in_halves()
    clients.ring()
    await waits
    await clients.append()
    assert (clients.passes, clients.timers) == (FEWEST + 2, [])
    await clients.flusher.close()


async def test_the_time_is_that_of_one_pass() -> None:
    clients = Clients()
    waits = await clients.come_in_halves()
    await asyncio.gather(waits, clients.append())
    waits = clients.append()
    clients.ring()
    await turns()
    assert not waits.done()
    clients.ring()
    await waits
    await clients.flusher.close()


async def test_nobody_waits_when_nobody_has_come_for_some_time() -> None:
    clients = Clients()
    await asyncio.gather(await clients.come_in_halves(), clients.append())
    clients.ring()
    clients.ring()
    await clients.append()
    assert clients.timers == []
    await clients.flusher.close()


async def test_closing_waits_for_nobody() -> None:
    clients = Clients()
    waits = await clients.come_in_halves()
    await clients.flusher.close()
    assert waits.done()
    assert clients.log.durable_offset == clients.log.end_offset
    assert all(timer.cancelled() for timer in clients.timers)
