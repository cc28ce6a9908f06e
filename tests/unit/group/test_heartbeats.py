"""Heartbeat in every state."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Refuse, Rule
from tests.support.group_harness import DELAY_MS, SESSION_MS, GroupHarness


def test_a_group_that_does_not_exist_knows_no_member() -> None:
    story = GroupHarness()
    request = story.member("a", member_id="x").heartbeat()
    assert (request.error, request.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.GROUP_UNKNOWN)
    assert story.group.is_vacant


def test_an_empty_group_knows_no_member() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    assert a.heartbeat().rule is Rule.MEMBER_UNKNOWN


def test_members_of_a_stable_group_may_go_on() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    assert a.heartbeat().error is ErrorCode.NONE


def test_members_may_heartbeat_while_the_assignment_is_awaited() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    story.advance(DELAY_MS)
    assert story.state == "CompletingRebalance"
    assert a.heartbeat().error is ErrorCode.NONE


def test_members_are_told_to_join_again() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.member("b").enter()
    request = a.heartbeat()
    assert (request.error, request.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )


def test_a_pending_member_is_no_member() -> None:
    story = GroupHarness()
    pending = story.member("a")
    pending.join()
    assert pending.heartbeat().rule is Rule.MEMBER_UNKNOWN


@pytest.mark.parametrize("generation", [-1, 0, 2])
def test_another_generation_is_refused(generation: int) -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    request = a.heartbeat(generation)
    assert (request.error, request.rule) == (
        ErrorCode.ILLEGAL_GENERATION,
        Rule.GENERATION_DIFFERS,
    )


def test_the_refusal_of_a_generation_says_since_when_there_is_another() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    since = story.wall
    story.advance(1_000)
    of_the_past = a.heartbeat(0).result
    assert isinstance(of_the_past, Refuse)
    assert of_the_past.since_ms == since
    a.leave()
    unknown = a.heartbeat().result
    assert isinstance(unknown, Refuse)
    assert unknown.since_ms == -1, "that says nothing"


def test_the_member_is_looked_at_before_the_generation() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.instance = "i"
    assert a.heartbeat(7).rule is Rule.INSTANCE_UNKNOWN


@pytest.mark.parametrize("state", ["Stable", "CompletingRebalance", "PreparingRebalance"])
def test_a_heartbeat_gives_a_full_session(state: str) -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b", session=60_000)
    a.session = b.session = SESSION_MS
    a.protocols = b.protocols = (("range", b"news"),)
    a.join()
    if state != "PreparingRebalance":
        b.join()
    if state == "Stable":
        story.sync_all(a, b)
    assert story.state == state
    member = story.classic.members[b.member_id]
    story.advance(5_000)
    b.heartbeat()
    assert member.session_deadline == story.now + member.session_timeout_ms


def test_a_refused_heartbeat_keeps_no_session_alive() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.advance(5_000)
    a.heartbeat(7)
    story.advance(5_000)
    assert story.removed == [("a", "session_expired")]


def test_a_stranger_is_no_member_even_if_it_knows_the_generation() -> None:
    story = GroupHarness()
    story.stable("a")
    request = story.member("x", member_id="x").heartbeat(generation=1)
    assert (request.error, request.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_UNKNOWN)


def test_whoever_has_another_generation_is_told_since_when_the_group_is_at_its_own() -> None:
    story = GroupHarness()
    made = story.wall
    a, b = story.member("a"), story.member("b")
    a.enter()
    a.member_id = next(iter(story.classic.members))
    story.advance(1_000)
    before = a.heartbeat(generation=5).result
    assert isinstance(before, Refuse)
    assert (before.rule, before.since_ms) == (Rule.GENERATION_DIFFERS, made)
    b.enter()
    story.advance(5_000)
    began = story.wall
    story.advance(1_000)
    story.sync_all(a, b)
    after = b.heartbeat(generation=0).result
    assert isinstance(after, Refuse)
    assert (after.rule, after.since_ms) == (Rule.GENERATION_DIFFERS, began)
