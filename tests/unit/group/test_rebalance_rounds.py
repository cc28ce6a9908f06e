"""The rounds of a rebalance, and whom it waited for."""

from coordinator_server.group.context import Limits
from coordinator_server.group.rebalance_events import RebalanceEvent
from tests.support.group_harness import REBALANCE_MS, GroupHarness, Member


def waited_for(story: GroupHarness) -> list[str]:
    """Client ids of whom the last rebalance waited for."""
    return [waited.member.client_id for waited in last_event(story).waited_for]


def last_event(story: GroupHarness) -> RebalanceEvent:
    return story.rebalances[-1]


def test_an_event_has_twenty_rounds_and_a_hundred_names_at_most() -> None:
    story = GroupHarness()
    members = [story.member(f"m{number}") for number in range(120)]
    story.settle(*members)
    event = last_event(story)
    assert (len(event.rounds), len(event.joined), event.members_after) == (20, 100, 120)


def test_a_further_round_is_not_announced_as_a_beginning() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    b.join()
    begun = len(story.started)
    story.member("c", known=False).join()
    assert story.state == "PreparingRebalance"
    assert len(story.started) == begun
    assert None not in story.observed


def test_of_two_members_the_last_to_join_was_waited_for() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    story.rejoin(a, b)
    assert waited_for(story) == ["b"]


def test_a_member_alone_was_not_waited_for() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.rejoin(a)
    assert waited_for(story) == []


def test_the_last_to_join_was_waited_for_even_if_another_left_after_it() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    a.join()
    b.join()
    c.leave()
    story.sync_all(a, b)
    assert waited_for(story) == ["b"]


def parked_with_an_unused_id(story: GroupHarness) -> tuple[Member, Member, Member, Member]:
    """Three members that have joined again, and an id somebody was given and has not used."""
    a, b, c = story.stable("a", "b", "c")
    pending = story.member("p")
    pending.join()
    a.join()
    return a, b, c, pending


def test_the_last_to_join_was_waited_for_even_if_one_that_had_joined_before_it_left() -> None:
    story = GroupHarness()
    a, b, c, pending = parked_with_an_unused_id(story)
    c.join()
    b.join()
    c.leave()
    pending.leave()
    story.sync_all(a, b)
    assert waited_for(story) == ["b"]


def test_nobody_was_waited_for_if_the_last_to_join_left_again() -> None:
    story = GroupHarness()
    a, b, c, pending = parked_with_an_unused_id(story)
    b.join()
    c.join()
    c.leave()
    pending.leave()
    story.sync_all(a, b)
    assert waited_for(story) == []


def test_an_id_that_expires_while_the_assignment_is_awaited_is_no_round() -> None:
    story = GroupHarness(limits=Limits(initial_rebalance_delay_ms=0))
    a = story.member("a", session=60_000)
    a.enter()
    story.advance(0)
    story.member("p", session=6_000).join()
    story.advance(6_000)
    a.sync({a: b""})
    assert [cause.reason for cause in last_event(story).rounds] == ["member_joined"]
    assert story.removed == [("p", "pending_expired")]


def waits(story: GroupHarness) -> list[tuple[str, int]]:
    """Client ids of whom the last rebalance waited for, and for how many milliseconds."""
    return [(waited.member.client_id, waited.waited_ms) for waited in last_event(story).waited_for]


def test_a_round_that_begins_while_the_assignment_is_awaited_has_a_wait_of_its_own() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    b.join()
    story.advance(1_000)
    b.protocols = (("range", b"news"),)
    b.join()
    story.advance(2_000)
    a.join()
    story.sync_all(a, b)
    event = last_event(story)
    assert [cause.reason for cause in event.rounds] == ["leader_rejoined", "metadata_changed"]
    assert dict(waits(story))["a"] == 2_000


def test_whoever_joined_and_then_left_was_not_waited_for() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    b.protocols = (("range", b"news"),)
    b.join()
    story.advance(700)
    b.leave()
    a.join()
    story.advance(300)
    c.join()
    story.sync_all(a, c)
    assert waits(story) == [("c", 1_000)]


def test_an_id_that_was_not_used_was_waited_for_until_it_was_given_back() -> None:
    story = GroupHarness()
    a, b, c, pending = parked_with_an_unused_id(story)
    b.join()
    c.join()
    story.advance(700)
    pending.leave()
    story.sync_all(a, b, c)
    assert ("p", 700) in waits(story)


def test_an_id_that_is_given_back_during_the_initial_delay_was_not_waited_for() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter()
    b.enter()
    pending = story.member("p")
    pending.join()
    story.advance(700)
    pending.leave()
    story.advance(6_000)
    story.sync_all(a, b)
    assert "p" not in waited_for(story)


def test_an_id_that_is_given_back_while_the_assignment_is_awaited_was_not_waited_for() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    b.join()
    pending = story.member("p")
    pending.join()
    story.advance(700)
    pending.leave()
    story.rejoin(b, a)
    assert "p" not in waited_for(story)


def test_a_member_whose_session_ended_before_it_joined_was_waited_for_until_then() -> None:
    story = GroupHarness()
    a, _b, c = story.stable("a", "b", "c")
    story.advance(4_000)
    c.heartbeat()
    a.join()
    c.join()
    story.advance(6_000)
    story.sync_all(a, c)
    assert story.removed == [("b", "session_expired")]
    assert ("b", 6_000) in waits(story)


def test_a_new_member_whose_five_minutes_ended_had_joined_and_was_not_waited_for() -> None:
    story = GroupHarness()
    a, c = story.stable("a", "c", session=1_800_000, rebalance=600_000)
    story.member("b").enter()
    story.advance(300_000)
    assert story.removed == [("b", "session_expired")]
    a.join()
    story.advance(1_000)
    c.join()
    story.sync_all(a, c)
    assert waits(story) == [("c", 301_000)]


def test_a_member_alone_was_not_waited_for_however_long_it_took_to_assign() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.join()
    story.advance(500)
    a.sync({a: b""})
    assert last_event(story).sync_phase_ms == 500
    assert waits(story) == []


def test_who_came_last_is_not_charged_with_the_time_of_one_that_never_came() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c", session=10_000)
    story.advance(1_000)
    b.heartbeat()
    c.heartbeat()
    b.protocols = (("range", b"news"),)
    b.join()
    story.advance(1_000)
    c.join()
    story.advance(8_000)
    assert a.member_id not in story.classic.members
    story.sync_all(b, c)
    assert waits(story) == [("a", 9_000), ("c", 1_000)]


def test_an_id_that_is_not_used_until_the_deadline_was_waited_for() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b", session=60_000, rebalance=20_000)
    story.member("p", session=60_000).join()
    a.join()
    story.advance(100)
    b.join()
    story.advance(19_900)
    story.sync_all(a, b)
    assert waits(story) == [("p", 20_000)]


def test_nobody_was_waited_for_longer_than_the_join_phase_lasted() -> None:
    story = GroupHarness()
    a = story.member("a", "one", session=1_800_000)
    b, c = story.member("b", "two", session=1_800_000), story.member("c")
    story.settle(a, b, c)
    c.leave()
    story.advance(3 * REBALANCE_MS)
    b.join()
    story.advance(REBALANCE_MS)
    b.sync({b: b""})
    assert last_event(story).join_phase_ms == 4 * REBALANCE_MS
    assert waits(story) == [("a", 4 * REBALANCE_MS), ("b", 3 * REBALANCE_MS)]
