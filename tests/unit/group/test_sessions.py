"""Sessions: who expires, who does not, and what becomes of the others."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Rule
from coordinator_server.group.events import Released
from tests.support.group_harness import DELAY_MS, SESSION_MS, GroupHarness


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    story.advance(SESSION_MS - 1)
    b.heartbeat()
    story.advance(1)
    assert story.removed == [("a", "session_expired")]
    assert story.state == "PreparingRebalance"
    assert a.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert b.join().joined.leader == b.member_id


def test_a_group_whose_members_are_all_silent_becomes_empty() -> None:
    story = GroupHarness()
    story.stable("a", "b")
    story.advance(SESSION_MS)
    assert (story.state, story.generation) == ("Empty", 2)
    assert story.durable is not None
    assert story.durable.members == []


def test_a_member_expires_while_the_assignment_is_awaited() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    story.advance(DELAY_MS + SESSION_MS)
    assert story.state == "Empty"
    assert story.removed == [("a", "session_expired")]


def test_the_join_phase_ends_when_the_one_it_waits_for_expires() -> None:
    story = GroupHarness()
    a, _b = story.stable("a", "b")
    request = a.join()
    story.advance(SESSION_MS - 1)
    assert request.is_parked
    story.advance(1)
    assert story.removed == [("b", "session_expired")]
    assert request.joined.generation == 2


def test_a_new_member_that_waits_is_given_five_minutes() -> None:
    story = GroupHarness()
    story.stable("a", session=1_800_000, rebalance=600_000)
    b = story.member("b")
    request = b.enter()
    assert story.advance(299_999) == []
    assert story.advance(1) == [request]
    assert (request.error, request.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_REMOVED)
    assert b.enter().rule is Rule.MEMBER_UNKNOWN


def test_a_new_members_five_minutes_do_not_start_again_with_a_retry() -> None:
    story = GroupHarness()
    story.stable("a", session=1_800_000, rebalance=600_000)
    b = story.member("b")
    b.enter()
    story.advance(200_000)
    request = b.join()
    assert story.advance(99_999) == []
    assert story.advance(1) == [request]


def test_a_member_that_is_new_no_more_has_a_normal_session() -> None:
    story = GroupHarness()
    story.stable("a")
    story.advance(SESSION_MS)
    assert story.removed == [("a", "session_expired")]


def test_sessions_start_anew_when_held_answers_have_left() -> None:
    story = GroupHarness()
    a, _b = story.stable("a", "b")
    story.advance(SESSION_MS - 1)
    story.handle(Released([a.member_id, "gone"]))
    story.advance(SESSION_MS - 1)
    assert story.removed == [("b", "session_expired")]


def test_answers_may_leave_after_the_group_has_gone() -> None:
    story = GroupHarness()
    story.handle(Released(["gone"]))
    assert story.group.is_vacant


def test_members_expire_in_the_order_of_their_deadlines() -> None:
    story = GroupHarness()
    a, b = story.member("a", session=9_000), story.member("b", session=8_000)
    story.settle(a, b)
    story.advance(9_000)
    assert [who for who, _ in story.removed] == ["b", "a"]


def test_deadlines_missed_together_are_worked_off_in_order() -> None:
    story = GroupHarness()
    a, b = story.member("a", session=9_000), story.member("b", session=8_000)
    story.settle(a, b)
    story.now += 60_000
    story.advance(0)
    assert [who for who, _ in story.removed] == ["b", "a"]
    assert story.state == "Empty"
