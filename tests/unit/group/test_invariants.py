"""The rules of a group notice when they are broken, and a bug leaves nobody waiting."""

from collections.abc import Callable

import pytest

from coordinator_server.group.classic.kind import ClassicKind
from coordinator_server.group.classic.state import ClassicGroup, ClassicGroupState
from coordinator_server.group.events import Describe, Heartbeat
from coordinator_server.group.group import Group, TurnFailed
from coordinator_server.group.purgatory import NEVER, DelayedJoin
from tests.support.group_harness import GroupHarness, Request

_S = ClassicGroupState
Damage = Callable[[ClassicGroup], object]


def first(group: ClassicGroup) -> str:
    return next(iter(group.members))


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda g: setattr(g, "awaiting_join", 1), "awaiting_join is 1"),
        (lambda g: g.supported_protocols.update(x=1), "supported_protocols"),
        (lambda g: setattr(g, "static_members", {"i": "x"}), "static_members"),
        (lambda g: g.members.update(x=g.members.pop(first(g))), "filed under another id"),
        (lambda g: g.pending.update({first(g): next(iter(g.pending.values()))}), "still pending"),
        (lambda g: setattr(g, "leader", None), "leader is None"),
        (lambda g: setattr(g, "leader", "x"), "leader 'x' is no member"),
        (lambda g: g.members.clear(), "Stable without members"),
        (lambda g: setattr(g, "state", _S.EMPTY), "Empty with members"),
        (lambda g: g.supported_protocols.clear(), "no protocol is common"),
        (lambda g: g.park_join(g.members[first(g)], object()), "JoinGroups are parked in Stable"),
        (
            lambda g: setattr(g.members[first(g)], "sync_token", object()),
            "SyncGroups are parked in Stable",
        ),
        (lambda g: setattr(g, "pending_sync", {"x": None}), "somebody who is no member"),
        (lambda g: setattr(g.members[first(g)], "is_new", True), "a new member does not wait"),
        (lambda g: setattr(g, "state", _S.COMPLETING_REBALANCE), "story of a rebalance"),
        (lambda g: setattr(g, "state", _S.PREPARING_REBALANCE), "no deadline"),
        (lambda g: setattr(g.purgatory, "join", DelayedJoin(5)), "a deadline in Stable"),
        (
            lambda g: setattr(g, "pending_sync", {first(g): None}),
            "1 SyncGroups are awaited until None",
        ),
        (
            lambda g: setattr(g.members[first(g)], "session_deadline", NEVER),
            "never expires",
        ),
        (lambda g: setattr(g.purgatory, "wake", NEVER), "the purgatory wakes at"),
    ],
)
def test_a_broken_rule_is_named(damage: Damage, rule: str) -> None:
    story = GroupHarness()
    story.stable("a", "b", session=60_000)
    story.member("c").join()
    assert list(story.group.broken_rules()) == []
    damage(story.classic)
    assert any(rule in said for said in story.group.broken_rules())


def test_syncs_are_awaited_only_while_there_is_a_generation() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    story.classic.pending_sync = {"a": None}
    assert "SyncGroups are awaited in Empty" in list(story.group.broken_rules())


def test_a_group_that_does_not_exist_breaks_no_rule() -> None:
    assert list(Group("group").broken_rules()) == []


@pytest.mark.parametrize(
    ("state", "following"),
    [
        (_S.EMPTY, _S.STABLE),
        (_S.EMPTY, _S.COMPLETING_REBALANCE),
        (_S.STABLE, _S.EMPTY),
        (_S.PREPARING_REBALANCE, _S.STABLE),
        (_S.DEAD, _S.EMPTY),
    ],
)
def test_a_state_cannot_follow_any_other(
    state: ClassicGroupState, following: ClassicGroupState
) -> None:
    group = ClassicKind("group", 0)
    group.state = state
    with pytest.raises(RuntimeError, match=f"{state} -> {following} is not legal"):
        group.transition_to(following, 0)


def test_a_bug_says_which_event_it_was_and_what_was_answered_before() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.classic.members[a.member_id] = None  # type: ignore[assignment]
    event = Heartbeat(Request("Heartbeat"), a.member_id, None, 1)
    with pytest.raises(TurnFailed, match="Heartbeat failed") as failed:
        story.group.handle(event, story.context())
    assert failed.value.event is event
    assert failed.value.effects.replies == []
    assert isinstance(failed.value.__context__, AttributeError | TypeError)


def test_the_parked_are_handed_over_once() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    request = a.join()
    assert story.group.take_parked() == [request]
    assert story.group.take_parked() == []
    story.parked = []
    assert b.join().is_parked
    assert Group("other").take_parked() == []


def test_parked_syncs_are_handed_over_too() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join(), b.join()
    request = b.sync()
    assert story.group.take_parked() == [request]
    story.parked = []
    event = Describe(Request("DescribeGroups"))
    assert len(story.group.handle(event, story.context()).replies) == 1


def said(story: GroupHarness) -> str:
    return "\n".join(story.group.broken_rules())


def test_an_assignment_cannot_be_awaited_of_nobody() -> None:
    story = GroupHarness()
    story.stable("a")
    story.classic.members.clear()
    story.classic.state = ClassicGroupState.COMPLETING_REBALANCE
    assert "CompletingRebalance without members" in said(story)


def test_the_purgatory_must_not_wake_after_an_id_that_was_handed_out_expires() -> None:
    story = GroupHarness()
    story.member("a", session=6_000).join()
    story.classic.purgatory.wake = story.now + 6_001
    assert f"wakes at {story.now + 6_001}, after {story.now + 6_000}" in said(story)


def test_the_purgatory_must_not_wake_after_the_join_phase_ends() -> None:
    story = GroupHarness()
    story.member("a", known=False).join()
    story.classic.purgatory.wake = story.now + 3_001
    assert f"wakes at {story.now + 3_001}, after {story.now + 3_000}" in said(story)


def test_the_purgatory_must_not_wake_between_two_deadlines() -> None:
    story = GroupHarness()
    for name, session in (("a", 6_000), ("b", 9_000)):
        story.member(name, session=session).join()
    story.classic.purgatory.wake = story.now + 7_000
    assert "the purgatory wakes" in said(story)


def test_the_sessions_of_a_large_group_may_be_looked_at_late_and_its_join_phase_may_not() -> None:
    story = GroupHarness()
    for number in range(100):
        story.member(f"m{number}", session=6_000).join()
    story.classic.purgatory.wake = story.now + 6_002
    assert said(story) == ""
    story.classic.purgatory.wake = story.now + 6_003
    assert "the purgatory wakes" in said(story)
    story.member("a", known=False).join()
    story.classic.purgatory.wake = story.now + 3_001
    assert "the purgatory wakes" in said(story)
