"""The faults that MemoryStorage can be told to have."""

import asyncio

import pytest

from coordinator_server.storage.base import Fenced, OutcomeUnknown
from coordinator_server.storage.memory import MemoryStorage
from tests.support.appending import appended
from tests.support.records import loaded, numbers, record


async def test_a_planned_fault_fails_one_append_and_all_behind_it() -> None:
    storage = MemoryStorage(1)
    log = await storage.claim(0)
    storage.fail_next(0, OSError(28, "No space left on device"))
    futures = [appended(log, [record(number)]) for number in range(2)]
    for future in futures:
        with pytest.raises(OSError, match="No space"):
            await future
    with pytest.raises(OSError, match="No space"):
        await appended(log, [record(2)])
    assert storage.records(0) == []
    log = await storage.claim(0)
    assert await appended(log, [record(3)]) == 0


async def test_records_of_an_unknown_outcome_may_be_stored() -> None:
    storage = MemoryStorage(1)
    for number, stored in enumerate((True, False)):
        log = await storage.claim(0)
        storage.fail_next(0, OutcomeUnknown("no answer"), stored=stored)
        with pytest.raises(OutcomeUnknown):
            await appended(log, [record(number)])
    assert numbers(await loaded(await storage.claim(0))) == [0]


async def test_held_appends_wait_until_they_are_released() -> None:
    storage = MemoryStorage(1)
    log = await storage.claim(0)
    storage.hold(0)
    held = appended(log, [record(0)])
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not held.done()
    assert storage.records(0) == []
    storage.release(0)
    assert held.done()
    assert await appended(log, [record(1)]) == 1


async def test_a_fenced_tenure_is_not_current_and_appends_nothing() -> None:
    storage = MemoryStorage(1)
    log = await storage.claim(0)
    in_flight = appended(log, [record(0)])
    storage.fence(0)
    assert not log.is_current()
    with pytest.raises(Fenced):
        await in_flight
    again = await storage.claim(0)
    assert again.epoch > log.epoch + 1
    assert again.is_current()
    assert await loaded(again) == []
