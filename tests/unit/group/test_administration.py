"""What operators do: kick a member, force a rebalance, reset the offsets of an Empty group."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Refuse, Rule
from coordinator_server.group.events import LeavingMember
from coordinator_server.group.rebalance_events import NOBODY, RebalanceReason
from tests.support.group_harness import GroupHarness, offset


def test_a_kicked_member_is_the_culprit_with_the_operators_words() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    assert story.kick(b.member_id, why="stuck since noon").error is ErrorCode.NONE
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    a.sync({a: b""})
    event = story.rebalances[-1]
    assert event.reason is RebalanceReason.ADMIN_REMOVED
    assert (event.culprit.client_id, event.client_reason) == ("b", "stuck since noon")
    assert [who.client_id for who in event.left] == ["b"]
    assert story.removed[-1] == ("b", "admin_removed")


def test_the_last_that_was_waited_for_being_kicked_ends_the_join_phase() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    assert story.force_rebalance().error is ErrorCode.NONE
    joined = a.join()
    story.advance(700)
    story.kick(b.member_id)
    assert joined.joined.generation == 2
    a.sync({a: b""})
    waited = story.rebalances[-1].waited_for
    assert [(who.client_id, waited_ms) for who, waited_ms in waited] == [("b", 700)]


def test_a_kick_without_any_name_finds_nobody() -> None:
    story = GroupHarness()
    story.stable("a")
    assert story.kick("").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert story.kick("", "nobody").error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member_id", "instance", "named"),
    [("gone", None, "'gone'"), ("gone", "one", "'gone'"), ("", "one", "'one'"), ("", None, "''")],
)
def test_a_kick_that_finds_nobody_says_whom_it_looked_for(
    member_id: str, instance: str | None, named: str
) -> None:
    story = GroupHarness()
    story.stable("a")
    refusal = story.kick(member_id, instance).result
    assert isinstance(refusal, Refuse)
    assert (refusal.rule, refusal.detail) == (Rule.MEMBER_UNKNOWN, f"{named} is no member")


def test_a_rebalance_is_forced_neither_twice_nor_on_a_group_without_members() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    story.force_rebalance()
    again = story.force_rebalance()
    assert (again.error, again.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )
    story.leave(*(LeavingMember(member.member_id, None) for member in (a, b)))
    nobody = story.force_rebalance()
    assert (nobody.error, nobody.rule) == (ErrorCode.INVALID_REQUEST, Rule.GROUP_EMPTY)


def test_a_forced_rebalance_has_nobody_as_culprit() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    story.force_rebalance("new brokers")
    b.join(), a.join()
    story.sync_all(a, b)
    event = story.rebalances[-1]
    assert event.reason is RebalanceReason.ADMIN_REBALANCE
    assert (event.culprit, event.client_reason) == (NOBODY, "new brokers")
    assert (event.generation_before, event.generation_after) == (1, 2)


def test_offsets_are_reset_only_where_no_member_would_miss_it() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.commit(offset(7))
    assert story.reset(offset(3)).error is ErrorCode.NON_EMPTY_GROUP
    a.leave()
    assert story.reset(offset(3), offset(4, topic="new")).error is ErrorCode.NONE
    committed = story.group.offsets.committed
    assert committed["orders"][0].offset == 3
    assert committed["new"][0].offset == 4


def test_offsets_that_were_reset_expire_by_the_configured_retention() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    story.reset(offset(3))
    assert story.group.offsets.committed["orders"][0].expire_timestamp == -1


def test_the_history_can_be_left_out_of_the_log() -> None:
    story = GroupHarness(limits=Limits(history_retention_ms=0))
    story.stable("a")
    assert story.group.past == ()
    assert story.rebalances[-1].sequence == -1
