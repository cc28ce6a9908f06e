"""A group with more offsets than one append of the log can end."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey
from coordinator_server.storage.base import LogRecord, OutcomeUnknown
from coordinator_server.storage.memory import MemoryStorage
from tests.support.desk import Desk, active, fill, record, settle
from tests.support.story import offset

PARTITION = partition_for("group", 2)
MANY = 100_000
FEW = 2_000
MOST_BYTES = 20_000
"""What the log takes at once: some hundreds of tombstones."""


class NotingStorage(MemoryStorage):
    """Remembers how large each append was, in records."""

    def __init__(self) -> None:
        super().__init__(2, max_append_bytes=MOST_BYTES)
        self.appends: list[int] = []

    def store(self, partition: int, records: "list[LogRecord]") -> int:  # type: ignore[override]
        self.appends.append(len(records))
        return super().store(partition, records)


async def loaded(offsets: int) -> Desk:
    storage = NotingStorage()
    value = OffsetCommitValue(1, -1, "", 1_700_000_000_000)
    fill(
        storage,
        PARTITION,
        *(record(OffsetCommitKey("group", "orders", n), value) for n in range(offsets)),
    )
    storage.appends.clear()
    return await Desk(storage).start()


async def test_a_group_of_a_hundred_thousand_offsets_is_deleted_in_several_appends() -> None:
    """B39, redpanda #4900. None is too large, and nobody hears of it before the last."""
    desk = await loaded(MANY)
    desk.memory.hold(PARTITION)
    request = desk.seat().delete()
    other = desk.seat("tosti").commit(offset(1))
    await settle()
    assert request.is_parked
    desk.memory.release(PARTITION)
    await settle()
    assert (request.error, other.error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert isinstance(desk.storage, NotingStorage)
    assert sum(desk.storage.appends) == MANY + 2
    assert len(desk.storage.appends) > 100
    assert desk.live_state_is_what_the_log_says()
    again = await Desk(desk.memory).start()
    assert [group.group_id for group in again.coordinator.groups()] == ["tosti"]
    await again.stop()


@pytest.mark.parametrize("way", ["expiry", "deleted topic", "OffsetDelete"])
async def test_however_many_offsets_end_at_once_the_log_takes_it(way: str) -> None:
    """B39, redpanda #4900. Whatever ends them."""
    desk = await loaded(FEW)
    match way:
        case "expiry":
            desk.clock.advance(10 * 604_800_000)
            desk.sweeper.start()
            desk.sweeper.sweep()
        case "deleted topic":
            desk.sweeper.topic_deleted("orders")
        case _:
            request = desk.seat().delete_offsets(("orders", range(FEW)))
            await settle()
            assert request.error is ErrorCode.NONE
    await settle()
    assert await desk.seat().fetched() == {}
    assert desk.live_state_is_what_the_log_says()
    await desk.stop()


async def test_a_deletion_of_which_an_append_fails_is_refused_and_can_be_repeated() -> None:
    """B39, redpanda #4900. The group is then what is left of it in the log."""
    desk = await loaded(FEW)
    partition = desk.partition("group")
    desk.memory.hold(PARTITION)
    request = desk.seat().delete()
    await settle()
    desk.memory.fail_next(PARTITION, OutcomeUnknown("the test says so"))
    desk.memory.release(PARTITION)
    await settle()
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await active(partition)
    assert desk.seat().state == "Empty"
    assert desk.live_state_is_what_the_log_says()
    again = desk.seat().delete()
    await settle()
    assert again.error is ErrorCode.NONE
    assert await desk.seat().fetched() == {}
    await desk.stop()
