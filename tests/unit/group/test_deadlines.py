"""Deadlines as data: lower bounds, no wrap, and no looking for nothing."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic.expiration import tick
from coordinator_server.group.effects import Effects
from coordinator_server.group.events import Tick
from coordinator_server.group.purgatory import NEVER, DelayedJoin, DelayedSync, Purgatory
from tests.support.group_harness import DELAY_MS, SESSION_MS, GroupHarness

LONGEST = 2**31 - 1


def test_a_new_purgatory_waits_for_nothing() -> None:
    assert Purgatory().wake == NEVER


def test_the_purgatory_wakes_for_the_earliest_deadline_it_was_told() -> None:
    purgatory = Purgatory()
    assert purgatory.watch(50) == 50
    purgatory.delay_join(DelayedJoin(30))
    purgatory.delay_sync(DelayedSync(40))
    assert purgatory.wake == 30


def test_a_group_without_members_never_has_to_look() -> None:
    story = GroupHarness()
    assert story.group.next_deadline() == NEVER
    story.commit()
    assert story.group.next_deadline() == NEVER


def test_heartbeats_do_not_move_the_next_look() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    look = story.group.next_deadline()
    for _ in range(3):
        story.advance(3_000)
        a.heartbeat()
        assert story.group.next_deadline() == look


def test_a_look_that_comes_too_early_finds_the_true_deadline() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.advance(9_000)
    a.heartbeat()
    story.advance(1_000)
    assert story.removed == []
    assert story.group.next_deadline() == story.now - 1_000 + SESSION_MS


def test_an_earlier_deadline_moves_the_next_look() -> None:
    story = GroupHarness()
    story.stable("a", session=60_000)
    story.member("b", session=6_000).join()
    assert story.group.next_deadline() == story.now + 6_000


def test_a_tick_before_its_time_changes_nothing() -> None:
    story = GroupHarness()
    story.handle(Tick())
    story.stable("a")
    look = story.group.next_deadline()
    story.advance(look - story.now - 1)
    effects = story.handle(Tick())
    assert (effects.writes, effects.replies, effects.observed) == ([], [], [])
    assert story.group.next_deadline() == look


def test_a_late_tick_does_not_end_a_join_phase_that_an_expiry_has_ended() -> None:
    story = GroupHarness()
    a, _b = story.stable("a", "b", rebalance=20_000)
    request = a.join()
    story.now += 60_000
    story.advance(0)
    assert (request.joined.generation, story.state) == (2, "CompletingRebalance")


def test_a_late_tick_does_not_end_a_sync_phase_that_an_expiry_has_ended() -> None:
    story = GroupHarness()
    a, b = (story.member(name, session=9_000, rebalance=20_000) for name in "ab")
    a.enter()
    b.enter()
    story.advance(2 * DELAY_MS)
    request = b.sync()
    story.now += 60_000
    story.advance(0)
    assert request.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert story.removed == [("a", "session_expired")]


def test_a_late_tick_does_not_remove_twice_whom_the_join_phase_has_removed() -> None:
    story = GroupHarness()
    a, _b = story.stable("a", "b", rebalance=5_000)
    request = a.join()
    story.now += 60_000
    story.advance(0)
    assert request.joined.generation == 2
    assert story.removed == [("b", "join_timeout")]


def test_the_longest_timeouts_there_are_do_not_fire_at_once() -> None:
    story = GroupHarness()
    a, b = (story.member(n, session=1_800_000, rebalance=LONGEST) for n in "ab")
    story.settle(a, b)
    request = a.join()
    join = story.classic.purgatory.join
    assert join is not None
    assert join.deadline == story.now + LONGEST
    for _ in range(3):
        assert story.advance(1_700_000) == []
        b.heartbeat()
    assert request.is_parked
    b.join()
    assert request.joined.generation == 2


def test_an_initial_delay_may_be_extended_up_to_the_longest_rebalance_timeout() -> None:
    story = GroupHarness()
    story.member("a", rebalance=LONGEST).enter()
    join = story.classic.purgatory.join
    assert join is not None
    assert join.remaining_ms == LONGEST - DELAY_MS


@pytest.mark.parametrize("jump_ms", [-86_400_000, 86_400_000])
def test_a_jump_of_the_wall_clock_expires_nobody(jump_ms: int) -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    story.wall += jump_ms
    story.advance(SESSION_MS - 1)
    assert a.heartbeat().error.value == b.heartbeat().error.value == 0
    b.protocols = (("range", b"news"),)
    b.join()
    assert a.join().joined.generation == 2


def test_rebalances_are_measured_by_the_monotonic_clock() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    story.wall -= 86_400_000
    story.advance(1_000)
    b.join()
    story.sync_all(a, b)
    assert story.rebalances[-1].join_phase_ms == 1_000


def test_never_is_the_last_of_javas_long_numbers() -> None:
    assert NEVER == 9_223_372_036_854_775_807


def test_the_earliest_of_the_ids_that_were_handed_out_is_looked_at_next() -> None:
    story = GroupHarness()
    for name, session in (("a", 6_000), ("b", 20_000), ("c", 9_000)):
        story.member(name, session=session).join()
    story.advance(6_000)
    assert story.group.next_deadline() == story.now + 3_000


def test_the_sessions_of_a_hundred_are_looked_at_two_milliseconds_late() -> None:
    story = GroupHarness()
    for number in range(101):
        story.member(f"m{number}", session=6_001 if number else 6_000).join()
    story.advance(6_000)
    assert len(story.classic.pending) == 100
    assert story.group.next_deadline() == story.now + 2


def test_a_tick_before_the_next_look_asks_nobody() -> None:
    story = GroupHarness()
    story.stable("a")
    story.classic.purgatory.wake = story.now + 60_000
    story.now += 30_000
    tick(story.classic, story.context(), Effects())
    assert story.classic.purgatory.wake == story.now + 30_000
