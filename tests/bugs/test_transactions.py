"""Transactional commits that a broker has left in the log: what others made of them.

The server does not take transactional commits yet. It loads them.
"""

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import OffsetCommitKey
from coordinator_server.observe.status import Census
from coordinator_server.runtime.status import CoordinatorStatus
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.memory import MemoryStorage
from tests.support.coordinator_harness import CoordinatorHarness, GroupClient, fill, record, settle
from tests.support.group_harness import offset

PARTITION = partition_for("group", 2)
RETENTION_MS = 604_800_000
WALL = 1_700_000_000_000

Load = Callable[..., Awaitable[GroupClient]]


@pytest.fixture
async def load() -> AsyncIterator[Load]:
    """Loads a partition with these records and tells where its group is."""
    async with AsyncExitStack() as stack:

        async def loaded(*entries: LogRecord, storage: MemoryStorage | None = None) -> GroupClient:
            storage = storage or MemoryStorage(2)
            fill(storage, PARTITION, *entries)
            harness = await CoordinatorHarness(storage).start()
            stack.push_async_callback(harness.stop)
            return harness.group_client()

        yield loaded


def committed(number: int, partition: int = 0, producer_id: int = -1) -> LogRecord:
    key = OffsetCommitKey("group", "orders", partition)
    value = OffsetCommitValue(number, -1, "", WALL)
    return record(key, value, producer_id=producer_id, transactional=producer_id >= 0)


def marker(producer_id: int, *, commit: bool) -> LogRecord:
    key = struct.pack(">hh", 0, int(commit))
    return LogRecord(
        key, b"\0\0\0\0\0\0", WALL, producer_id=producer_id, transactional=True, control=True
    )


async def test_an_offset_of_an_open_transaction_is_not_swept_away(load: Load) -> None:
    """B40, redpanda #31483. Nor is the one it would take the place of."""
    group_client = await load(committed(1), committed(1, 1), committed(2, 0, producer_id=9))
    group_client.harness.clock.advance(10 * RETENTION_MS)
    group_client.harness.sweeper.start()
    group_client.harness.sweeper.sweep()
    await settle()
    assert await group_client.fetched() == {
        ("orders", 0): (0, 1, -1, "", ErrorCode.NONE),
    }
    assert group_client.harness.live_state_is_what_the_log_says()
    storage = group_client.harness.memory
    again = await load(marker(9, commit=True), storage=storage)
    assert (await again.fetched())["orders", 0].offset == 2


async def test_a_group_with_nothing_but_an_open_transaction_stays(load: Load) -> None:
    """B40, redpanda #31483."""
    group_client = await load(committed(2, producer_id=9))
    group_client.harness.clock.advance(10 * RETENTION_MS)
    group_client.harness.sweeper.start()
    group_client.harness.sweeper.sweep()
    await settle()
    assert group_client.state == "Empty"
    assert group_client.harness.live_state_is_what_the_log_says()


@pytest.mark.parametrize(
    ("entries", "wins"),
    [
        ([committed(2, producer_id=9), committed(3), marker(9, commit=True)], 3),
        ([committed(3), committed(2, producer_id=9), marker(9, commit=True)], 2),
        (
            [
                committed(2, producer_id=9),
                committed(3, producer_id=8),
                marker(8, commit=True),
                marker(9, commit=True),
            ],
            3,
        ),
        ([committed(1), committed(2, producer_id=9), marker(9, commit=False)], 1),
    ],
    ids=["plain commit later", "plain commit earlier", "two transactions", "abort"],
)
async def test_the_offset_that_stands_last_in_the_log_wins(
    load: Load, entries: list[LogRecord], wins: int
) -> None:
    """B40, redpanda #31483. Not the one whose marker comes last."""
    group_client = await load(*entries)
    assert (await group_client.fetched(("orders", [0]), stable=True))["orders", 0].offset == wins


async def test_a_plain_commit_after_the_load_wins_over_the_transaction_that_is_open(
    load: Load,
) -> None:
    """B40, redpanda #31483. Now, and in the eyes of whoever loads the log next."""
    group_client = await load(committed(2, producer_id=9))
    group_client.commit(offset(3))
    await settle()
    assert group_client.harness.live_state_is_what_the_log_says()
    again = await load(marker(9, commit=True), storage=group_client.harness.memory)
    assert (await again.fetched(("orders", [0])))["orders", 0].offset == 3


async def test_stable_reads_wait_for_an_unfinished_transaction_over_restarts(load: Load) -> None:
    """B47, redpanda #6423, franz-go #581, redpanda #6785. Other partitions are not affected."""
    group_client = await load(committed(1), committed(1, 1), committed(2, producer_id=9))
    topics = ("orders", [0, 1])
    for _ in range(2):
        stable = await group_client.fetched(topics, stable=True)
        assert stable["orders", 0].error is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert stable["orders", 1].offset == 1
        assert (await group_client.fetched(topics))["orders", 0].offset == 1
        group_client = await load(storage=group_client.harness.memory)
    group_client = await load(marker(9, commit=False), storage=group_client.harness.memory)
    assert (await group_client.fetched(topics, stable=True))["orders", 0].offset == 1


async def test_an_unfinished_transaction_is_seen_by_its_age_until_it_ends(load: Load) -> None:
    """B47, redpanda #24637. Whoever is alerted by it can delete the group's offsets."""
    group_client = await load(committed(1), committed(2, producer_id=9))

    def pending(group_client: GroupClient) -> tuple[int, int | None]:
        census = Census.whole(CoordinatorStatus(group_client.harness.coordinator).census())
        return census.pending_offsets, census.oldest_pending_ms

    assert pending(group_client) == (1, WALL)
    again = await load(storage=group_client.harness.memory)
    assert pending(again) == (1, WALL)
    again.delete_offsets(("orders", [0]))
    await settle()
    assert pending(again) == (0, None)
    ended = await load(committed(2, producer_id=8), marker(8, commit=True))
    assert pending(ended) == (0, None)


async def test_deleting_a_group_forgets_what_its_open_transaction_would_commit(
    load: Load,
) -> None:
    """B39, redpanda #4900. A marker that comes later brings nothing back."""
    group_client = await load(committed(1), committed(2, producer_id=9))
    request = group_client.delete()
    await settle()
    assert request.error is ErrorCode.NONE
    assert group_client.state == "Dead"
    again = await load(marker(9, commit=True), storage=group_client.harness.memory)
    assert again.state == "Dead"
