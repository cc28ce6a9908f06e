"""What a load makes of the log: what other coordinators got wrong."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.java import partition_for
from coordinator_protocol.offset_value import OffsetCommitValue
from coordinator_protocol.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    RecordKey,
)
from coordinator_server.group.rebalance_events import RebalanceEvent
from coordinator_server.storage.base import LogRecord
from coordinator_server.storage.memory import MemoryStorage
from tests.support.coordinator_harness import CoordinatorHarness, GroupClient, fill, record, settle
from tests.support.group_harness import SESSION_MS, offset

PARTITION = partition_for("group", 2)
WALL = 1_700_000_000_000

GROUP = GroupMetadataKey("group")
OFFSET = OffsetCommitKey("group", "orders", 0)


def group_of(*names: str, generation: int = 1) -> LogRecord:
    members = [
        MemberMetadata(name, None, name, "/host", 60_000, SESSION_MS, b"r", name.encode())
        for name in names
    ]
    leader = names[0] if names else None
    protocol = "range" if names else None
    value = GroupMetadataValue("consumer", generation, protocol, leader, WALL, members)
    return record(GROUP, value)


def committed(number: int, key: OffsetCommitKey = OFFSET, epoch: int = -1) -> LogRecord:
    return record(key, OffsetCommitValue(number, epoch, "", WALL))


def tombstone(key: RecordKey) -> LogRecord:
    return record(key, None)


async def loaded(*entries: LogRecord) -> GroupClient:
    storage = MemoryStorage(2)
    fill(storage, PARTITION, *entries)
    return (await CoordinatorHarness(storage).start()).group_client()


async def restarted(group_client: GroupClient) -> GroupClient:
    """The same log, loaded by the server that comes after."""
    await group_client.harness.stop()
    return (await CoordinatorHarness(group_client.harness.memory).start()).group_client(
        group_client.group_id
    )


async def test_of_several_records_of_a_group_the_last_counts() -> None:
    """B33, kafka #462."""
    group_client = await loaded(
        group_of("a"),
        group_of("a", "b", generation=2),
        committed(1),
        group_of("b", generation=3),
        committed(2),
    )
    assert (list(group_client.classic.members), group_client.classic.generation) == (["b"], 3)
    assert (await group_client.fetched())["orders", 0].offset == 2
    await group_client.harness.stop()


async def test_offsets_committed_under_the_id_of_a_deleted_group_are_kept() -> None:
    """B37, KAFKA-4704. The group's tombstone comes before the simple consumer's commit."""
    group_client = await loaded(group_of("a"), committed(1), tombstone(OFFSET), tombstone(GROUP))
    assert group_client.state == "Dead"
    group_client = await loaded(group_of("a"), tombstone(GROUP), committed(5))
    assert (group_client.state, (await group_client.fetched())["orders", 0].offset) == ("Empty", 5)
    assert group_client.commit(offset(6)).is_parked
    await settle()
    group_client = await restarted(group_client)
    assert (await group_client.fetched())["orders", 0].offset == 6
    await group_client.harness.stop()


@pytest.mark.parametrize(
    "entries",
    [
        [tombstone(GROUP)],
        [tombstone(OFFSET), tombstone(GROUP), tombstone(OFFSET)],
        [tombstone(OFFSET)],
    ],
    ids=["group", "all", "offset"],
)
async def test_a_log_of_tombstones_alone_is_an_empty_one(entries: list[LogRecord]) -> None:
    """B38, KAFKA-17306, KAFKA-19862. What compaction has left of a group that is gone."""
    group_client = await loaded(*entries)
    assert group_client.state == "Dead"
    assert group_client.harness.coordinator.is_ready
    await group_client.settled(group_client.member("a"))
    assert group_client.state == "Stable"
    await group_client.harness.stop()


async def test_tombstones_that_stand_first_do_no_harm_to_what_follows() -> None:
    """B38, KAFKA-17306, KAFKA-19862."""
    group_client = await loaded(tombstone(OFFSET), tombstone(GROUP), group_of("a"), committed(3))
    assert group_client.state == "Stable"
    assert (await group_client.fetched())["orders", 0].offset == 3
    await group_client.harness.stop()


async def test_a_deleted_group_stays_deleted_over_a_restart() -> None:
    """B39, redpanda #4900. There is a tombstone for it and for each of its offsets."""
    group_client = await loaded(group_of(), *(committed(n, _partition(n)) for n in range(20)))
    request = group_client.delete()
    await settle()
    assert request.error is ErrorCode.NONE
    group_client = await restarted(group_client)
    assert group_client.state == "Dead"
    assert await group_client.fetched() == {}
    assert (await group_client.fetched(("orders", [3])))["orders", 3].offset == -1
    await group_client.harness.stop()


def _partition(number: int) -> OffsetCommitKey:
    return OffsetCommitKey("group", "orders", number)


async def test_memory_is_what_the_log_says_through_all_of_a_groups_life() -> None:
    """B40, redpanda #31483. Checked after everything that happens to it."""
    group_client = await loaded()
    a, b = group_client.member("a", "i-a"), group_client.member("b")

    async def agrees() -> None:
        await settle()
        assert group_client.harness.live_state_is_what_the_log_says()

    await group_client.settled(a, b)
    await agrees()
    a.commit(offset(1), offset(1, 1), offset(1, topic="other"))
    await agrees()
    a.restarted().join()
    await agrees()
    group_client.delete_offsets(("orders", [0]))
    await agrees()
    group_client.harness.sweeper.topic_deleted("other")
    await agrees()
    group_client.advance(10 * SESSION_MS)
    await agrees()
    assert group_client.state == "Empty"
    group_client.harness.clock.advance(8 * 24 * 3_600_000)
    group_client.harness.sweeper.start()
    group_client.harness.sweeper.sweep()
    await agrees()
    assert group_client.state == "Dead"
    assert list(group_client.harness.coordinator.groups()) == []
    await group_client.harness.stop()


async def test_repeated_restarts_give_a_dead_member_one_session_each_and_then_it_goes() -> None:
    """B48, franz-go TestPersistGroupPhantomMemberExpiry. The session starts anew at each load."""
    group_client = await loaded(group_of("dead", "alive"))
    for _ in range(5):
        group_client.advance(SESSION_MS - 1)
        assert set(group_client.classic.members) == {"dead", "alive"}
        group_client = await restarted(group_client)
    group_client.advance(SESSION_MS - 1)
    alive = group_client.member("alive", member_id="alive", generation=1)
    assert alive.heartbeat().error is ErrorCode.NONE
    group_client.advance(1)
    assert set(group_client.classic.members) == {"alive"}
    assert alive.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    await group_client.harness.stop()


async def test_a_stable_group_goes_on_after_a_failover_as_if_nothing_had_been() -> None:
    """B50, redpanda #3732, redpanda #14487. Same generation, members and assignment."""
    group_client = await loaded()
    a, b = members = [group_client.member("a"), group_client.member("b", "i-b")]
    await group_client.settled(*members)
    group_client = await restarted(group_client)
    for member in members:
        member.requests = group_client
        assert member.heartbeat().error is ErrorCode.NONE
        assert member.sync().assignment == member.name.encode()
    assert group_client.state == "Stable"
    assert (a.generation, group_client.classic.generation) == (1, 1)
    assert set(group_client.classic.members) == {a.member_id, b.member_id}
    assert not [o for o in group_client.harness.observed if isinstance(o, RebalanceEvent)]
    await group_client.harness.stop()


@pytest.mark.parametrize("epoch", [-1, 0, 7])
async def test_the_leader_epoch_of_a_commit_is_what_was_committed(epoch: int) -> None:
    """B51, redpanda #17260. Before and after a recovery; -1 if there was none."""
    group_client = await loaded()
    group_client.commit(offset(1, epoch=epoch))
    await settle()
    for _ in range(2):
        assert (await group_client.fetched())["orders", 0].leader_epoch == epoch
        group_client = await restarted(group_client)
    await group_client.harness.stop()
