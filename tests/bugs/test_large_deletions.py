"""A group with more offsets than one append of the log can end."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey
from coordinator_server.storage.base import LogRecord, OutcomeUnknown
from coordinator_server.storage.memory import MemoryStorage
from tests.support.coordinator_harness import CoordinatorHarness, active, fill, record, settle
from tests.support.group_harness import offset

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


async def loaded(offsets: int) -> CoordinatorHarness:
    storage = NotingStorage()
    value = OffsetCommitValue(1, -1, "", 1_700_000_000_000)
    fill(
        storage,
        PARTITION,
        *(record(OffsetCommitKey("group", "orders", n), value) for n in range(offsets)),
    )
    storage.appends.clear()
    return await CoordinatorHarness(storage).start()


async def test_a_group_of_a_hundred_thousand_offsets_is_deleted_in_several_appends() -> None:
    """B39, redpanda #4900. None is too large, and nobody hears of it before the last."""
    harness = await loaded(MANY)
    harness.memory.hold(PARTITION)
    request = harness.group_client().delete()
    other = harness.group_client("tosti").commit(offset(1))
    await settle()
    assert request.is_parked
    harness.memory.release(PARTITION)
    await settle()
    assert (request.error, other.error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert isinstance(harness.storage, NotingStorage)
    assert sum(harness.storage.appends) == MANY + 2
    assert len(harness.storage.appends) > 100
    assert harness.live_state_is_what_the_log_says()
    again = await CoordinatorHarness(harness.memory).start()
    assert [group.group_id for group in again.coordinator.groups()] == ["tosti"]
    await again.stop()


@pytest.mark.parametrize("way", ["expiry", "deleted topic", "OffsetDelete"])
async def test_however_many_offsets_end_at_once_the_log_takes_it(way: str) -> None:
    """B39, redpanda #4900. Whatever ends them."""
    harness = await loaded(FEW)
    match way:
        case "expiry":
            harness.clock.advance(10 * 604_800_000)
            harness.sweeper.start()
            harness.sweeper.sweep()
        case "deleted topic":
            harness.sweeper.topic_deleted("orders")
        case _:
            request = harness.group_client().delete_offsets(("orders", range(FEW)))
            await settle()
            assert request.error is ErrorCode.NONE
    await settle()
    assert await harness.group_client().fetched() == {}
    assert harness.live_state_is_what_the_log_says()
    await harness.stop()


async def test_a_deletion_of_which_an_append_fails_is_refused_and_can_be_repeated() -> None:
    """B39, redpanda #4900. The group is then what is left of it in the log."""
    harness = await loaded(FEW)
    partition = harness.partition("group")
    harness.memory.hold(PARTITION)
    request = harness.group_client().delete()
    await settle()
    harness.memory.fail_next(PARTITION, OutcomeUnknown("the test says so"))
    harness.memory.release(PARTITION)
    await settle()
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await active(partition)
    assert harness.group_client().state == "Empty"
    assert harness.live_state_is_what_the_log_says()
    again = harness.group_client().delete()
    await settle()
    assert again.error is ErrorCode.NONE
    assert await harness.group_client().fetched() == {}
    await harness.stop()
