"""No generation that members were told of gives its number to another one while a process lives."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Rule
from coordinator_server.runtime.coordinator import Coordinator
from coordinator_server.runtime.failures import Failure
from coordinator_server.runtime.partition import FIRST_BACKOFF_MS, PartitionState
from coordinator_server.runtime.tenure import Tenure
from coordinator_server.storage.base import OutcomeUnknown
from tests.support.group_harness import REBALANCE_MS, SESSION_MS, Member
from tests.unit.runtime.conftest import Office, settle
from tests.unit.runtime.test_holding import stable

DISK = OSError("disk")


async def generation_of(office: Office, *members: Member) -> int:
    """Let these join, after which everybody but the leader's SyncGroup is there."""
    for member in members:
        member.enter()
        await settle()
    await office.timers.advance(0)
    assert len({member.generation for member in members}) == 1
    return members[0].generation


async def assign(office: Office, leader: Member, *followers: Member) -> bytes:
    """Let everybody sync, each with its name; what the last of them is assigned."""
    everybody = (leader, *followers)
    leader.sync({member: member.name.encode() for member in everybody})
    await settle()
    return everybody[-1].sync().assignment


async def log_fails(office: Office) -> None:
    """Another group's record is not taken, and the partition is loaded again."""
    office.group("unlucky").commit()
    await office.fail(DISK)
    await office.timers.advance(2 * FIRST_BACKOFF_MS)
    assert office.state() is PartitionState.ACTIVE


async def test_a_late_sync_for_a_lost_generation_is_not_taken_for_the_next_one(
    office: Office,
) -> None:
    """Seed 51991 of the simulation: the followers' assignments were those of the lost one."""
    leader = await stable(office)
    lost = office.group().member("b", "two")
    assert await generation_of(office, lost, leader) == 2
    late = {leader: b"half", lost: b"half"}
    leader.sync(late)
    await office.fail(DISK)
    await office.timers.advance(2 * FIRST_BACKOFF_MS)
    assert leader.heartbeat(generation=1).error is ErrorCode.NONE
    follower = office.group().member("c", "three")
    assert await generation_of(office, follower, leader) == 3
    assert leader.sync(late, generation=2).rule is Rule.GENERATION_DIFFERS
    assert await assign(office, leader, follower) == b"c"


async def test_a_generation_of_which_only_members_know_is_spent_too(office: Office) -> None:
    leader = await stable(office)
    assert await generation_of(office, leader) == 2
    await log_fails(office)
    assert await generation_of(office, leader) == 3


async def test_a_spent_generation_is_remembered_until_the_group_has_another(
    office: Office,
) -> None:
    leader = await stable(office)
    assert await generation_of(office, leader) == 2
    await log_fails(office)
    await log_fails(office)
    assert await generation_of(office, leader) == 3
    await assign(office, leader)
    await log_fails(office)
    assert await generation_of(office, leader) == 4


async def test_a_generation_that_is_durable_after_all_is_not_spent(office: Office) -> None:
    leader = await stable(office)
    assert await generation_of(office, leader) == 2
    office.storage.fail_next(0, OutcomeUnknown("?"), stored=True)
    leader.sync({leader: b"all"})
    await settle()
    await office.timers.advance(2 * FIRST_BACKOFF_MS)
    assert leader.heartbeat(generation=2).error is ErrorCode.NONE
    assert await generation_of(office, leader) == 3


async def test_a_generation_is_spent_even_if_its_group_was_about_to_end(office: Office) -> None:
    """Seed 277 of the simulation, with the rule that finds this."""
    leader = await stable(office)
    assert await generation_of(office, leader) == 2
    office.hold()
    leader.leave()
    office.group().delete()
    await settle()
    await office.fail(DISK)
    await office.timers.advance(2 * FIRST_BACKOFF_MS)
    assert leader.heartbeat(generation=1).error is ErrorCode.NONE
    assert await generation_of(office, leader) == 4


async def test_a_group_made_anew_begins_at_one(office: Office) -> None:
    """As in Kafka: no member of the one before is a member of it."""
    leader = await stable(office)
    assert await generation_of(office, leader) == 2
    await log_fails(office)
    leader.leave()
    deleted = office.group().delete()
    await settle()
    assert deleted.error is ErrorCode.NONE
    await log_fails(office)
    again = await stable(office)
    assert again.generation == 1


async def test_a_partition_that_was_away_knows_its_spent_generations(office: Office) -> None:
    leader = await stable(office)
    assert await generation_of(office, leader) == 2
    await office.partition.lost()
    office.partition.assigned()
    await settle()
    assert await generation_of(office, leader) == 3


async def test_a_new_process_does_not_know_what_was_spent(office: Office) -> None:
    """As in Kafka, which is a limitation: docs/limitations.md."""
    leader = await stable(office)
    assert await generation_of(office, leader) == 2
    await office.coordinator.stop()
    office.coordinator = Coordinator(
        1, office.storage, office.dependencies, lambda _event, **_: None
    )
    await office.open()
    assert await generation_of(office, leader) == 2


async def test_nothing_is_remembered_of_groups_whose_last_generation_is_durable() -> None:
    office = await Office(2).open()
    leader = await stable(office, session=SESSION_MS, rebalance=REBALANCE_MS)
    partition = office.coordinator.partitions[office.coordinator.partition_for("group")]
    await partition.lost()
    assert partition._generations._spent == {}
    partition.assigned()
    await settle()
    assert await generation_of(office, leader) == 2
    await partition.lost()
    assert partition._generations._spent == {"group": 2}
    await office.coordinator.stop()


async def test_a_tenure_that_ends_before_its_groups_go_on_keeps_what_was_spent(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = await stable(office)
    assert await generation_of(office, leader) == 2

    def end(tenure: Tenure) -> None:
        monkeypatch.undo()
        tenure.end(Failure.APPEND_FAILED, DISK)

    monkeypatch.setattr(Tenure, "begin", end)
    await log_fails(office)
    await office.timers.advance(4 * FIRST_BACKOFF_MS)
    assert await generation_of(office, leader) == 3
