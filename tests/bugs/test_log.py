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
from tests.support.desk import Desk, Seat, fill, record, settle
from tests.support.story import SESSION_MS, offset

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


async def loaded(*entries: LogRecord) -> Seat:
    storage = MemoryStorage(2)
    fill(storage, PARTITION, *entries)
    return (await Desk(storage).start()).seat()


async def restarted(seat: Seat) -> Seat:
    """The same log, loaded by the server that comes after."""
    await seat.desk.stop()
    return (await Desk(seat.desk.memory).start()).seat(seat.group_id)


async def test_of_several_records_of_a_group_the_last_counts() -> None:
    """B33, kafka #462."""
    seat = await loaded(
        group_of("a"),
        group_of("a", "b", generation=2),
        committed(1),
        group_of("b", generation=3),
        committed(2),
    )
    assert (list(seat.classic.members), seat.classic.generation) == (["b"], 3)
    assert (await seat.fetched())["orders", 0].offset == 2
    await seat.desk.stop()


async def test_offsets_committed_under_the_id_of_a_deleted_group_are_kept() -> None:
    """B37, KAFKA-4704. The group's tombstone comes before the simple consumer's commit."""
    seat = await loaded(group_of("a"), committed(1), tombstone(OFFSET), tombstone(GROUP))
    assert seat.state == "Dead"
    seat = await loaded(group_of("a"), tombstone(GROUP), committed(5))
    assert (seat.state, (await seat.fetched())["orders", 0].offset) == ("Empty", 5)
    assert seat.commit(offset(6)).is_parked
    await settle()
    seat = await restarted(seat)
    assert (await seat.fetched())["orders", 0].offset == 6
    await seat.desk.stop()


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
    seat = await loaded(*entries)
    assert seat.state == "Dead"
    assert seat.desk.coordinator.is_ready
    await seat.settled(seat.member("a"))
    assert seat.state == "Stable"
    await seat.desk.stop()


async def test_tombstones_that_stand_first_do_no_harm_to_what_follows() -> None:
    """B38, KAFKA-17306, KAFKA-19862."""
    seat = await loaded(tombstone(OFFSET), tombstone(GROUP), group_of("a"), committed(3))
    assert seat.state == "Stable"
    assert (await seat.fetched())["orders", 0].offset == 3
    await seat.desk.stop()


async def test_a_deleted_group_stays_deleted_over_a_restart() -> None:
    """B39, redpanda #4900. There is a tombstone for it and for each of its offsets."""
    seat = await loaded(group_of(), *(committed(n, _partition(n)) for n in range(20)))
    request = seat.delete()
    await settle()
    assert request.error is ErrorCode.NONE
    seat = await restarted(seat)
    assert seat.state == "Dead"
    assert await seat.fetched() == {}
    assert (await seat.fetched(("orders", [3])))["orders", 3].offset == -1
    await seat.desk.stop()


def _partition(number: int) -> OffsetCommitKey:
    return OffsetCommitKey("group", "orders", number)


async def test_memory_is_what_the_log_says_through_all_of_a_groups_life() -> None:
    """B40, redpanda #31483. Checked after everything that happens to it."""
    seat = await loaded()
    a, b = seat.member("a", "i-a"), seat.member("b")

    async def agrees() -> None:
        await settle()
        assert seat.desk.live_state_is_what_the_log_says()

    await seat.settled(a, b)
    await agrees()
    a.commit(offset(1), offset(1, 1), offset(1, topic="other"))
    await agrees()
    a.restarted().join()
    await agrees()
    seat.delete_offsets(("orders", [0]))
    await agrees()
    seat.desk.sweeper.topic_deleted("other")
    await agrees()
    seat.advance(10 * SESSION_MS)
    await agrees()
    assert seat.state == "Empty"
    seat.desk.clock.advance(8 * 24 * 3_600_000)
    seat.desk.sweeper.start()
    seat.desk.sweeper.sweep()
    await agrees()
    assert seat.state == "Dead"
    assert list(seat.desk.coordinator.groups()) == []
    await seat.desk.stop()


async def test_repeated_restarts_give_a_dead_member_one_session_each_and_then_it_goes() -> None:
    """B48, franz-go TestPersistGroupPhantomMemberExpiry. The session starts anew at each load."""
    seat = await loaded(group_of("dead", "alive"))
    for _ in range(5):
        seat.advance(SESSION_MS - 1)
        assert set(seat.classic.members) == {"dead", "alive"}
        seat = await restarted(seat)
    seat.advance(SESSION_MS - 1)
    alive = seat.member("alive", member_id="alive", generation=1)
    assert alive.heartbeat().error is ErrorCode.NONE
    seat.advance(1)
    assert set(seat.classic.members) == {"alive"}
    assert alive.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    await seat.desk.stop()


async def test_a_stable_group_goes_on_after_a_failover_as_if_nothing_had_been() -> None:
    """B50, redpanda #3732, redpanda #14487. Same generation, members and assignment."""
    seat = await loaded()
    a, b = members = [seat.member("a"), seat.member("b", "i-b")]
    await seat.settled(*members)
    seat = await restarted(seat)
    for member in members:
        member.story = seat
        assert member.heartbeat().error is ErrorCode.NONE
        assert member.sync().assignment == member.name.encode()
    assert seat.state == "Stable"
    assert (a.generation, seat.classic.generation) == (1, 1)
    assert set(seat.classic.members) == {a.member_id, b.member_id}
    assert not [o for o in seat.desk.observed if isinstance(o, RebalanceEvent)]
    await seat.desk.stop()


@pytest.mark.parametrize("epoch", [-1, 0, 7])
async def test_the_leader_epoch_of_a_commit_is_what_was_committed(epoch: int) -> None:
    """B51, redpanda #17260. Before and after a recovery; -1 if there was none."""
    seat = await loaded()
    seat.commit(offset(1, epoch=epoch))
    await settle()
    for _ in range(2):
        assert (await seat.fetched())["orders", 0].leader_epoch == epoch
        seat = await restarted(seat)
    await seat.desk.stop()
