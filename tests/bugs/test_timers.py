"""Sessions, deadlines and clocks: what other coordinators got wrong."""

import asyncio

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.events import LeavingMember
from coordinator_server.group.purgatory import NEVER
from coordinator_server.runtime.timers import LoopTimers
from tests.support.coordinator_harness import AdjustableClock, CoordinatorHarness, settle
from tests.support.group_harness import REBALANCE_MS, SESSION_MS, GroupHarness

NEW_MEMBER_MS = 300_000
DAY_MS = 24 * 60 * 60 * 1000


def test_a_former_new_member_expires_by_its_session_timeout() -> None:
    """B1, KAFKA-9752. A JoinGroup before v4, whose five minutes were armed."""
    harness = GroupHarness()
    old, other = harness.member("old", known=False), harness.member("other")
    harness.settle(old, other)
    harness.advance(SESSION_MS - 1)
    other.heartbeat()
    harness.advance(1)
    assert harness.removed == [("old", "session_expired")]
    assert other.join().joined.generation == 2


def test_a_former_new_member_that_heartbeats_outlives_its_five_minutes() -> None:
    """B1, KAFKA-9752. What was armed for the first JoinGroup is void once it is answered."""
    harness = GroupHarness()
    (old,) = harness.stable("old", known=False)
    for _ in range(2 * NEW_MEMBER_MS // SESSION_MS + 1):
        harness.advance(SESSION_MS - 1)
        assert old.heartbeat().error is ErrorCode.NONE


def test_the_timer_of_a_member_that_did_not_rejoin_is_void() -> None:
    """B7, KAFKA-7196. It was removed at the end of the join phase."""
    harness = GroupHarness()
    a, gone = harness.stable("a", "gone", session=2 * REBALANCE_MS)
    a.join()
    harness.advance(REBALANCE_MS)
    a.sync({a: b"a"})
    assert harness.removed == [("gone", "join_timeout")]
    rebalances = len(harness.rebalances)
    for _ in range(4):
        harness.advance(REBALANCE_MS)
        assert a.heartbeat().error is ErrorCode.NONE
    assert len(harness.rebalances) == rebalances
    assert gone.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_timer_that_rings_for_what_is_gone_rings_for_nobody(
    harness: CoordinatorHarness,
) -> None:
    """B8, KAFKA-8896. Member, group and partition are gone, one after the other."""
    group_client = harness.group_client()
    (a,) = members = [group_client.member("a")]
    await group_client.settled(*members)
    group_client.leave(LeavingMember(a.member_id, None))
    await settle()
    group_client.delete()
    await settle()
    assert group_client.state == "Dead"
    harness.timers.advance(2 * SESSION_MS)

    await group_client.settled(again := group_client.member("again"))
    partition = harness.partition("group")
    assert partition.tenure is not None
    await partition.lost()
    harness.timers.advance(2 * SESSION_MS)
    await settle()
    assert again.heartbeat().error is ErrorCode.NOT_COORDINATOR
    assert harness.bugs == []


def test_members_that_wait_do_not_expire_but_new_ones_do() -> None:
    """B12, redpanda #22749."""
    harness = GroupHarness()
    a, slow = harness.stable("a", "slow", session=SESSION_MS, rebalance=4 * NEW_MEMBER_MS)
    waiting = a.join()
    new = harness.member("new", known=False).join()
    for _ in range(NEW_MEMBER_MS // SESSION_MS):
        harness.advance(SESSION_MS - 1)
        slow.heartbeat()
    assert new.is_parked
    harness.advance(1_000)
    assert new.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert waiting.is_parked
    assert slow.join().joined.generation == waiting.joined.generation == 2


def test_the_longest_rebalance_timeout_a_client_can_ask_for_is_waited_for() -> None:
    """B20, KAFKA-13126. `max.poll.interval.ms` of 2147483647 is common."""
    harness = GroupHarness()
    (endless,) = harness.stable("endless", rebalance=2_147_483_647)
    request = harness.member("new").enter()
    for _ in range(20):
        harness.advance(SESSION_MS - 1)
        assert endless.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    join = harness.classic.purgatory.join
    assert request.is_parked
    assert join is not None
    assert join.deadline - harness.now > 2**31 - 21 * SESSION_MS


@pytest.mark.parametrize("far", [2**31 - 1, 2**31, 25 * DAY_MS, 2**62, NEVER])
async def test_a_timer_can_be_armed_however_far_away(far: int) -> None:
    """B20, KAFKA-13126. It neither rings at once nor is refused."""
    rung: list[int] = []
    near = asyncio.Event()
    timers = LoopTimers(asyncio.get_running_loop(), AdjustableClock())
    timer = timers.call_at(far, lambda: rung.append(far))
    timers.call_at(0, near.set)
    await near.wait()
    await settle()
    timer.cancel()
    assert rung == []


@pytest.mark.parametrize("jump", [-DAY_MS, DAY_MS])
def test_a_wall_clock_that_jumps_neither_expires_nor_freezes_anybody(jump: int) -> None:
    """B22, KAFKA-4051."""
    harness = GroupHarness()
    a, b = harness.stable("a", "b")
    harness.wall += jump
    harness.advance(SESSION_MS - 1)
    assert a.heartbeat().error is ErrorCode.NONE
    request = a.join()
    harness.wall -= jump
    harness.advance(1)
    assert harness.removed == [("b", "session_expired")]
    assert request.joined.generation == 2
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
