"""SyncGroup: the leader's assignment, and what becomes of those who do not ask for it."""

from typing import Any

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataValue
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Rule
from tests.support.group_harness import (
    DELAY_MS,
    REBALANCE_MS,
    SESSION_MS,
    GroupHarness,
    Member,
    Request,
)


def completing(*names: str, **how: Any) -> tuple[GroupHarness, list[Member]]:
    """A group that awaits its leader's assignment."""
    story = GroupHarness()
    members = [story.member(name, **how) for name in names]
    for member in members:
        member.enter()
    while story.state == "PreparingRebalance":
        story.advance(DELAY_MS)
    assert story.state == "CompletingRebalance"
    return story, members


def test_a_follower_waits_for_the_leader() -> None:
    _, (a, b) = completing("a", "b", session=60_000)
    waiting = b.sync()
    assert waiting.is_parked
    assert a.sync({a: b"1", b: b"2"}).assignment == b"1"
    assert waiting.assignment == b"2"


def test_a_follower_after_the_leader_is_answered_at_once() -> None:
    story, (a, b) = completing("a", "b", session=60_000)
    a.sync({a: b"1", b: b"2"})
    assert story.state == "Stable"
    assert b.sync().assignment == b"2"


def test_the_answer_names_type_and_protocol() -> None:
    _, (a,) = completing("a", session=60_000)
    result = a.sync().result
    assert (result.protocol_type, result.protocol_name) == ("consumer", "range")  # type: ignore[union-attr]


def test_members_the_leader_forgot_are_assigned_nothing() -> None:
    _, (a, b) = completing("a", "b", session=60_000)
    waiting = b.sync()
    a.sync({a: b"everything"})
    assert waiting.assignment == b""


def test_assignments_for_strangers_are_dropped() -> None:
    story, (a,) = completing("a", session=60_000)
    a.sync({story.member("stranger", member_id="x"): b"x", a: b"1"})
    assert isinstance(story.durable, GroupMetadataValue)
    assert [m.assignment for m in story.durable.members] == [b"1"]


def test_assignments_of_a_follower_are_ignored() -> None:
    _, (a, b) = completing("a", "b", session=60_000)
    waiting = b.sync({b: b"everything"})
    a.sync({a: b"1"})
    assert waiting.assignment == b""


def test_a_repeated_sync_of_a_stable_group_brings_the_same() -> None:
    story, (a,) = completing("a", session=60_000)
    a.sync({a: b"1"})
    assert a.sync().assignment == b"1"
    assert a.sync({a: b"other"}).assignment == b"1"
    assert len(story.writes) == 2


def test_a_repeated_sync_takes_the_place_of_the_parked_one() -> None:
    _, (a, b) = completing("a", "b", session=60_000)
    first, second = b.sync(), b.sync()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    a.sync({b: b"2"})
    assert second.assignment == b"2"


def test_the_assignment_is_written_with_the_time_the_generation_began() -> None:
    story, (a,) = completing("a", session=60_000)
    began = story.wall
    story.advance(500)
    a.sync({a: b"1"})
    durable = story.durable
    assert durable is not None
    assert (durable.generation, durable.leader, durable.protocol) == (1, a.member_id, "range")
    assert durable.current_state_timestamp == began
    (member,) = durable.members
    assert (member.session_timeout, member.rebalance_timeout) == (60_000, REBALANCE_MS)
    assert (member.subscription, member.assignment) == (b"r", b"1")


@pytest.mark.parametrize(
    ("changes", "error", "rule"),
    [
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_UNKNOWN),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION, Rule.GENERATION_DIFFERS),
        (
            {"protocol_type": "connect"},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            Rule.PROTOCOL_INCONSISTENT,
        ),
        (
            {"protocol_name": "other"},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            Rule.PROTOCOL_INCONSISTENT,
        ),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID, Rule.INSTANCE_UNKNOWN),
    ],
)
def test_a_wrong_sync_is_refused_and_changes_nothing(
    changes: dict[str, object], error: ErrorCode, rule: Rule
) -> None:
    story, (a,) = completing("a", session=60_000)
    request = a.sync({a: b"1"}, **changes)
    assert (request.error, request.rule) == (error, rule)
    assert story.state == "CompletingRebalance"


def test_no_protocol_differs_while_the_group_has_none_yet() -> None:
    story = GroupHarness()
    member = story.member("a")
    waiting = member.enter()
    assert (story.state, story.classic.protocol_name) == ("PreparingRebalance", None)
    request = member.sync(generation=story.generation, protocol_name="other")
    assert (request.error, request.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )
    assert waiting.is_parked


def test_type_and_protocol_are_not_checked_where_the_version_has_none() -> None:
    _, (a,) = completing("a", session=60_000)
    assert a.sync({a: b"1"}, protocol_type=None).assignment == b"1"


def test_a_sync_to_a_group_that_does_not_exist_or_is_empty_is_refused() -> None:
    story = GroupHarness()
    assert story.member("a", member_id="x").sync().rule is Rule.GROUP_UNKNOWN
    (a,) = story.stable("a")
    a.leave()
    assert a.sync().rule is Rule.MEMBER_UNKNOWN


# --- those who never ask ---


def test_a_leader_that_never_syncs_is_removed() -> None:
    story, (a, b) = completing("a", "b", rebalance=20_000, session=60_000)
    waiting = b.sync()
    assert story.advance(19_999) == []
    assert story.advance(1) == [waiting]
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert story.removed == [("a", "sync_timeout")]
    assert b.join().joined.leader == b.member_id
    assert a.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_only_heartbeats_is_removed_from_a_stable_group() -> None:
    story, (a, b) = completing("a", "b", rebalance=20_000, session=60_000)
    a.sync({a: b"1", b: b"2"})
    story.advance(19_999)
    assert b.heartbeat().error is ErrorCode.NONE
    story.advance(1)
    assert story.removed == [("b", "sync_timeout")]
    assert story.state == "PreparingRebalance"
    assert a.join().joined.generation == 2


def test_nobody_is_removed_once_everybody_has_synced() -> None:
    story, (a, b) = completing("a", "b", rebalance=20_000, session=60_000)
    b.sync()
    a.sync({})
    story.advance(59_000)
    assert story.state == "Stable"


def test_the_sync_deadline_of_a_generation_that_was_given_up_is_void() -> None:
    story, (a, b) = completing("a", "b", rebalance=20_000, session=60_000)
    story.advance(19_000)
    a.protocols = (("range", b"news"),)
    a.join()
    b.join()
    story.advance(1_000)
    assert story.removed == []
    story.advance(19_000)
    assert sorted(story.removed) == [("a", "sync_timeout"), ("b", "sync_timeout")]
    assert story.state == "Empty"


def test_waiting_for_the_leader_does_not_expire_and_then_there_is_a_full_session() -> None:
    story, (a, b) = completing("a", "b")
    waiting = b.sync()
    for _ in range(4):
        story.advance(SESSION_MS - 1)
        a.heartbeat()
    a.sync({})
    assert waiting.assignment == b""
    story.advance(SESSION_MS - 1)
    assert story.removed == []
    story.advance(1)
    assert sorted(story.removed) == [("a", "session_expired"), ("b", "session_expired")]


def test_the_expiry_of_the_leader_sends_those_who_wait_back_to_join() -> None:
    story, (_, b) = completing("a", "b")
    waiting = b.sync()
    story.advance(SESSION_MS)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert b.join().joined.leader == b.member_id


# --- an assignment that does not fit into the log ---


def test_an_assignment_too_large_for_the_log_is_refused_and_all_join_again() -> None:
    story = GroupHarness(limits=Limits(max_append_bytes=2_000))
    a, b = story.member("a", session=60_000), story.member("b", session=60_000)
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    waiting = b.sync()
    request = a.sync({a: b"x" * 2_000})
    for refused in (request, waiting):
        assert refused.error is ErrorCode.UNKNOWN_SERVER_ERROR
        assert refused.rule is Rule.ASSIGNMENT_TOO_LARGE
    assert story.state == "PreparingRebalance"
    a.join()
    assert b.join().joined.generation == 2
    b.sync()
    assert a.sync({a: b"x"}).assignment == b"x"


def test_what_a_record_has_beside_the_assignment_counts() -> None:
    story, (a,) = completing("a", session=60_000)
    story.limits = Limits(max_append_bytes=1_000)
    assert a.sync({a: b"x" * 800}).rule is Rule.ASSIGNMENT_TOO_LARGE


def test_parked_syncs_are_handed_over_once() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    b.join()
    parked: Request = b.sync()
    assert story.group.take_parked() == [parked]
    assert story.group.take_parked() == []


def test_a_superseded_sync_is_told_that_a_rebalance_is_under_way() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    for member in (a, b):
        member.join()
    first = b.sync()
    b.sync()
    assert (first.error, first.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )


def test_a_follower_that_syncs_late_is_not_removed_from_a_stable_group() -> None:
    story = GroupHarness()
    a, b = story.member("a", session=300_000), story.member("b", session=300_000)
    for member in (a, b):
        member.enter()
    story.advance(6_000)
    a.sync({a: b"a", b: b"b"})
    assert b.sync().assignment == b"b"
    story.advance(120_000)
    assert (story.state, story.removed) == ("Stable", [])
