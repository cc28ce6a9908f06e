"""A partition that serves and does not go on is loaded anew; one that only waits is left alone."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Described
from coordinator_server.group.events import Describe
from coordinator_server.runtime.partition import Partition, PartitionState
from coordinator_server.runtime.ticket import CallbackTicket
from coordinator_server.runtime.watchdog import INTERVAL_MS, PartitionWatchdog
from tests.support.group_harness import Request
from tests.unit.runtime.conftest import WRITE_TIMEOUT_MS, Office, settle
from tests.unit.runtime.test_holding import stable


@pytest.fixture
def watchdog(office: Office) -> PartitionWatchdog:
    dog = PartitionWatchdog(
        office.coordinator,
        office.dependencies,
        lambda event, **f: office.reports.append((event, f)),
        clock=office.dependencies.clock,
        timers=office.dependencies.timers,
    )
    dog.start()
    return dog


def describe(office: Office, group_id: str) -> Request:
    request = Request("Describe")
    office.coordinator.submit(group_id, Describe(CallbackTicket(request.answered)))
    return request


@pytest.mark.usefixtures("watchdog")
async def test_a_group_whose_mailbox_nobody_works_off_has_its_partition_loaded_anew(
    office: Office,
) -> None:
    await stable(office, "stuck", session=60_000)
    await stable(office, "other", session=60_000)
    tenure, actor = office.tenure, office.tenure.actors["stuck"]
    actor._busy = True
    waiting = describe(office, "stuck")
    assert actor._task is not None
    actor._task.cancel()
    actor._task = None
    await office.timers.advance(WRITE_TIMEOUT_MS - INTERVAL_MS)
    assert office.tenure is tenure
    await office.timers.advance(3 * INTERVAL_MS)
    assert tenure.ended
    assert waiting.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert office.dependencies.counters.tenures_stalled == 1
    told = dict(office.reports)["partition_stall_found"]
    assert (told["partition"], told["groups"], told["groups_waiting"]) == (0, 2, 1)
    assert WRITE_TIMEOUT_MS <= told["oldest_wait_ms"] < WRITE_TIMEOUT_MS + 2 * INTERVAL_MS
    await office.timers.advance(1_000)
    assert office.state() is PartitionState.ACTIVE
    assert isinstance(describe(office, "stuck").result, Described)


@pytest.mark.usefixtures("watchdog")
async def test_replies_that_nobody_sends_have_their_partition_loaded_anew(office: Office) -> None:
    await stable(office, "group", session=60_000)
    office.tenure._sender._is_sending = True
    waiting = describe(office, "group")
    assert waiting.is_parked
    await office.timers.advance(WRITE_TIMEOUT_MS + 3 * INTERVAL_MS)
    assert isinstance(waiting.result, Described)
    assert office.dependencies.counters.tenures_stalled == 1
    assert isinstance(describe(office, "group").result, Described)


@pytest.mark.usefixtures("watchdog")
async def test_records_that_nobody_sends_off_have_their_partition_loaded_anew(
    office: Office,
) -> None:
    office.tenure.writer._is_flushed_soon = True
    waiting = office.group().commit()
    await office.timers.advance(WRITE_TIMEOUT_MS + 3 * INTERVAL_MS)
    assert waiting.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert office.dependencies.counters.tenures_stalled == 1
    await office.timers.advance(1_000)
    again = office.group().commit()
    await settle()
    assert again.error is ErrorCode.NONE


@pytest.mark.usefixtures("watchdog")
async def test_parked_members_and_a_partition_that_goes_on_are_left_alone(office: Office) -> None:
    a, b = (office.group("two").member(name, session=60_000) for name in "ab")
    for member in (a, b, a):
        member.join()
        await settle()
    tenure = office.tenure
    assert b.join().is_parked or a.member_id
    await office.timers.advance(4 * WRITE_TIMEOUT_MS)
    for _ in range(20):
        office.hold()
        office.group("committing").commit()
        await office.timers.advance(WRITE_TIMEOUT_MS // 2)
        await office.release()
    assert not tenure.ended
    assert office.dependencies.counters.tenures_stalled == 0


@pytest.mark.usefixtures("watchdog")
async def test_a_pause_of_the_process_is_not_taken_for_a_stall(office: Office) -> None:
    await stable(office, "group", session=600_000)
    actor = office.tenure.actors["group"]
    actor._busy = True
    waiting = describe(office, "group")
    await asyncio.sleep(0)
    # One look before the pause and one behind it prove nothing.
    office.clock.advance(20 * WRITE_TIMEOUT_MS)
    for _ in range(2):
        await office.timers.advance(INTERVAL_MS)
    assert office.dependencies.counters.tenures_stalled == 0
    actor._busy = False
    await settle()
    assert isinstance(waiting.result, Described)


@pytest.mark.interpreted
async def test_a_partition_whose_tenure_failed_as_it_began_is_opened_once(
    office: Office, watchdog: PartitionWatchdog, monkeypatch: Any
) -> None:
    partition, begin = office.partition, office.partition._begin_tenure
    begun = 0

    async def begin_and_fail_at_first() -> None:
        nonlocal begun
        begun += 1
        await begin()
        if begun == 1:
            raise MemoryError

    monkeypatch.setattr(partition, "_begin_tenure", begin_and_fail_at_first)
    office.tenure.turn_failed("group", Describe(None), None, RuntimeError("bug"))
    while not begun:
        await office.timers.advance(50)
    assert office.state() is PartitionState.FAILED
    opening = partition._opening
    watchdog.look()
    assert partition._opening is opening is not None
    await office.timers.advance(5_000)
    assert office.state() is PartitionState.ACTIVE
    assert begun == 2


@pytest.mark.interpreted
async def test_the_watchdog_looks_again_after_a_look_has_failed(
    office: Office, watchdog: PartitionWatchdog, monkeypatch: Any
) -> None:
    looks = 0

    def fail(_watchdog: PartitionWatchdog) -> None:
        nonlocal looks
        looks += 1
        raise MemoryError("planted")

    monkeypatch.setattr(PartitionWatchdog, "look", fail)
    for _ in range(3):
        with suppress(MemoryError):
            await office.timers.advance(INTERVAL_MS)
    assert looks == 3
    watchdog.stop()
    await office.timers.advance(3 * INTERVAL_MS)
    assert looks == 3, "it has been stopped"


@pytest.mark.interpreted
async def test_a_partition_that_cannot_be_looked_at_keeps_none_of_the_others_from_it(
    office: Office, watchdog: PartitionWatchdog, monkeypatch: Any
) -> None:
    looked_at: list[int] = []

    def fail_for_the_first(_watchdog: PartitionWatchdog, partition: Partition) -> None:
        looked_at.append(partition.index)
        if partition.index == 0:
            raise RuntimeError("planted")

    monkeypatch.setattr(PartitionWatchdog, "_look_at", fail_for_the_first)
    office.coordinator.partitions.append(
        Partition(1, office.storage, office.dependencies, lambda *_, **__: None)
    )
    await office.timers.advance(INTERVAL_MS)
    assert looked_at == [0, 1]


@pytest.mark.interpreted
async def test_a_partition_whose_task_has_ended_is_opened_anew(
    office: Office, watchdog: PartitionWatchdog, monkeypatch: Any
) -> None:
    partition = office.partition

    async def broken(*, fenced: bool) -> None:
        raise RuntimeError(fenced)

    with monkeypatch.context() as patched:
        patched.setattr(partition, "_reopen", broken)
        office.tenure.turn_failed("group", Describe(None), None, RuntimeError("bug"))
        await settle()
    assert office.state() is PartitionState.FAILED
    watchdog.look()
    await settle()
    assert list(office.coordinator.unserved()) == [
        (0, PartitionState.FAILED, "RuntimeError: False")
    ]
    await office.timers.advance(1_000)
    assert office.state() is PartitionState.ACTIVE
    assert list(office.coordinator.unserved()) == []
