"""What every storage promises (storage.base), over all of them."""

import asyncio

import pytest

from coordinator_protocol.offset_commit_scanner import OffsetRun
from coordinator_server.storage.base import Fenced, LogRecord, OutcomeUnknown, TooLarge
from tests.storage.conftest import MAX_APPEND_BYTES, PARTITIONS, Rig
from tests.support.appending import appended
from tests.support.records import loaded, numbers, record


async def test_every_partition_is_announced(rig: Rig) -> None:
    ours: list[int] = []

    async def assigned(partition: int) -> None:
        ours.append(partition)

    async def lost(partition: int) -> None:
        raise AssertionError(partition)

    async with rig.run() as storage:
        await storage.start(assigned, lost)
    assert ours == list(range(PARTITIONS))


async def test_a_new_log_is_empty(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        assert await loaded(log) == []
        assert await appended(log, []) == -1


async def test_appended_records_are_found_by_the_next_tenure(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(1)
        assert await appended(log, [record(0)]) == 0
        assert await appended(log, [record(1), record(2), record(3)]) == 3
        await log.close()
        found = await loaded(await storage.claim(1))
    assert numbers(found) == [0, 1, 2, 3]
    assert [each.offset for each in found] == [0, 1, 2, 3]


async def test_records_outlive_the_storage(rig: Rig) -> None:
    for start in range(3):
        async with rig.run() as storage:
            log = await storage.claim(0)
            assert numbers(await loaded(log)) == list(range(start))
            assert await appended(log, [record(start)]) == start
            await log.close()


async def test_records_come_back_as_they_were(rig: Rig) -> None:
    records = [
        LogRecord(b"key", b"value", 5, (("rb.reason", b"member_left"), ("", b""))),
        LogRecord(b"key", None, 5),
        LogRecord(b"", b"", 5),
    ]
    later = [LogRecord(b"key" * 1_000, b"value" * 10_000, 2**41)]
    async with rig.run() as storage:
        log = await storage.claim(0)
        for batch in (records, later):
            await appended(log, batch)
        await log.close()
        found = await loaded(await storage.claim(0))
    assert [each.offset for each in found] == list(range(4))
    for each in found:
        each.offset = -1
    assert found == [*records, *later]


async def test_appends_of_one_turn_keep_their_order(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        done: list[int] = []
        futures = [appended(log, [record(number)]) for number in range(50)]
        for future in futures:
            future.add_done_callback(lambda future: done.append(future.result()))
        assert await asyncio.gather(*futures) == list(range(50))
        await log.close()
        assert done == list(range(50))
        assert numbers(await loaded(await storage.claim(0))) == list(range(50))


async def test_an_empty_append_waits_for_all_before_it(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        before = [appended(log, [record(number)]) for number in range(3)]
        assert await appended(log, []) == 2
        assert all(future.done() for future in before)


async def test_partitions_know_nothing_of_each_other(rig: Rig) -> None:
    async with rig.run() as storage:
        logs = [await storage.claim(partition) for partition in range(PARTITIONS)]
        appends = [appended(log, [record(log.partition)]) for log in logs]
        assert await asyncio.gather(*appends) == [0] * PARTITIONS
        for log in logs:
            await log.close()
            assert numbers(await loaded(await storage.claim(log.partition))) == [log.partition]


async def test_too_large_an_append_is_refused_at_once_and_the_log_goes_on(rig: Rig) -> None:
    async with rig.run() as storage:
        assert storage.max_append_bytes == MAX_APPEND_BYTES
        log = await storage.claim(0)
        before = appended(log, [record(0)])
        with pytest.raises(TooLarge, match=str(MAX_APPEND_BYTES)):
            appended(log, [record(1), record(2, MAX_APPEND_BYTES)])
        assert await appended(log, [record(3)]) == 1
        assert await before == 0
        await log.close()
        assert numbers(await loaded(await storage.claim(0))) == [0, 3]


async def test_a_record_larger_than_any_buffer_is_loaded(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        for number, size in enumerate((10, 2_500_000, 10)):
            await appended(log, [record(number, size)])
        await log.close()
        found = await loaded(await storage.claim(0))
    assert numbers(found) == [0, 1, 2]
    assert len(found[1].value or b"") > 2_500_000


async def test_a_log_of_tombstones_alone_is_loaded(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        await appended(log, [LogRecord(b"gone-%d" % number, None, 1) for number in range(5)])
        await log.close()
        found = await loaded(await storage.claim(0))
    assert [each.value for each in found] == [None] * 5


async def test_a_load_lets_others_have_their_turn(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        await appended(log, [record(number) for number in range(12_000)])
        await log.close()
        log = await storage.claim(0)
        chunks = []
        async for records in log.load():
            assert not isinstance(records, OffsetRun)
            chunks.append(len(records))
    assert sum(chunks) == 12_000
    assert max(chunks) <= 2_000


async def test_every_claim_has_a_higher_epoch(rig: Rig) -> None:
    epochs: list[int] = []
    for _ in range(3):
        async with rig.run() as storage:
            for _ in range(2):
                log = await storage.claim(0)
                epochs.append(log.epoch)
                await log.close()
    assert epochs == sorted(set(epochs))


async def test_a_claim_fences_older_tenures(rig: Rig) -> None:
    async with rig.run() as storage:
        old = await storage.claim(0)
        other = await storage.claim(1)
        assert old.is_current()
        new = await storage.claim(0)
        assert not old.is_current()
        assert new.is_current()
        assert other.is_current()
        with pytest.raises(Fenced):
            await appended(old, [record(1)])
        assert await appended(new, [record(2)]) == 0
        await old.close()
        assert await appended(new, [record(3)]) == 1
        await new.close()
        assert numbers(await loaded(await storage.claim(0))) == [2, 3]


async def test_closing_completes_what_is_in_flight(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        future = appended(log, [record(0)])
        await log.close()
        assert await future == 0
        await log.close()


async def test_a_closed_log_takes_nothing(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        await log.close()
        with pytest.raises(OutcomeUnknown):
            await appended(log, [record(0)])
        assert await loaded(await storage.claim(0)) == []


async def test_an_append_nobody_waits_for_any_more_happens_all_the_same(rig: Rig) -> None:
    async with rig.run() as storage:
        log = await storage.claim(0)
        appended(log, [record(0)]).cancel()
        assert await appended(log, [record(1)]) == 1
        await log.close()
        assert numbers(await loaded(await storage.claim(0))) == [0, 1]
