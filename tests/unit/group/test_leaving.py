"""LeaveGroup: alone, together, by group instance id, and of those who never joined."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.effects import Left, LeftMember, Refuse, Rule
from coordinator_server.group.events import LeavingMember
from tests.support.group_harness import DELAY_MS, GroupHarness, Request


def left(request: Request) -> list[tuple[str, ErrorCode]]:
    """Member ids or instance ids, with what became of them."""
    assert isinstance(request.result, Left)
    return [(m.member_id or m.group_instance_id or "", m.error) for m in request.result.members]


def test_a_group_that_does_not_exist_knows_nobody() -> None:
    request = GroupHarness().leave(LeavingMember("x", None))
    assert (request.error, request.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.GROUP_UNKNOWN)


def test_the_last_member_leaves_an_empty_group() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    assert left(a.leave()) == [(a.member_id, ErrorCode.NONE)]
    assert (story.state, story.generation) == ("Empty", 2)
    durable = story.durable
    assert durable is not None
    assert (durable.generation, durable.members, durable.leader) == (2, [], None)
    assert (durable.protocol_type, durable.protocol) == ("consumer", None)


def test_a_member_that_leaves_makes_the_others_join_again() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    b.leave()
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.join().joined.generation == 2


def test_a_member_that_leaves_is_unknown_at_once() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    b.leave()
    assert left(b.leave()) == [(b.member_id, ErrorCode.UNKNOWN_MEMBER_ID)]
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_who_was_waited_for_may_leave_instead() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    request = a.join()
    b.leave()
    assert request.joined.generation == 2


def test_whoever_leaves_while_its_join_is_parked_gets_an_answer() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    parked = a.join()
    a.leave()
    assert (parked.error, parked.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_REMOVED)
    assert b.join().joined.leader == b.member_id


def test_whoever_leaves_while_its_sync_is_parked_gets_an_answer() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    parked = b.sync()
    b.leave()
    assert (parked.error, parked.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_REMOVED)
    assert story.state == "PreparingRebalance"


def test_several_members_leave_in_one_rebalance() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    request = story.leave(
        LeavingMember(b.member_id, None),
        LeavingMember("x", None),
        LeavingMember(c.member_id, None),
        LeavingMember(c.member_id, None),
    )
    assert left(request) == [
        (b.member_id, ErrorCode.NONE),
        ("x", ErrorCode.UNKNOWN_MEMBER_ID),
        (c.member_id, ErrorCode.NONE),
        (c.member_id, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert a.join().joined.generation == 2
    assert len(story.started) == 2


def test_a_batch_of_strangers_disturbs_nobody() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    left_ones = left(story.leave(LeavingMember("x", None), LeavingMember("", "y")))
    assert {error for _, error in left_ones} == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert a.heartbeat().error is ErrorCode.NONE


def test_an_empty_batch_is_answered() -> None:
    story = GroupHarness()
    story.stable("a")
    assert left(story.leave()) == []


def test_a_static_member_is_removed_by_its_instance_id() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b", "two")
    story.settle(a, b)
    request = story.leave(LeavingMember("", "two"))
    assert isinstance(request.result, Left)
    assert request.result.members == [LeftMember("", "two", ErrorCode.NONE)]
    assert story.removed == [("b", "admin_removed")]
    assert b.heartbeat().rule is Rule.INSTANCE_UNKNOWN


def test_nobody_is_removed_by_no_id_at_all() -> None:
    story = GroupHarness()
    story.settle(story.member("a", ""))
    assert left(story.leave(LeavingMember("", None))) == [("", ErrorCode.UNKNOWN_MEMBER_ID)]
    assert story.state == "Stable"


def test_a_static_member_with_another_member_id_is_fenced() -> None:
    story = GroupHarness()
    a = story.member("a", "one")
    story.settle(a)
    assert left(story.leave(LeavingMember("old", "one"))) == [("old", ErrorCode.FENCED_INSTANCE_ID)]
    assert a.heartbeat().error is ErrorCode.NONE


def test_a_pending_member_may_leave_an_empty_group() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.join()
    assert left(a.leave()) == [(a.member_id, ErrorCode.NONE)]
    assert story.classic.pending == {}
    assert story.state == "Empty"


def test_a_pending_member_that_leaves_makes_a_stable_group_rebalance_as_in_kafka() -> None:
    story = GroupHarness()
    story.stable("a")
    b = story.member("b")
    b.join()
    b.leave()
    assert story.state == "PreparingRebalance"


def test_a_refusal_says_who_was_refused() -> None:
    story = GroupHarness()
    story.stable("a")
    request = story.member("b", member_id="made-up").heartbeat()
    assert isinstance(request.result, Refuse)
    assert "made-up" in request.result.detail


def test_the_first_who_left_of_a_batch_is_the_culprit() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    story.leave(*(LeavingMember(member.member_id, None) for member in (b, c)))
    assert story.started[-1].culprit.client_id == "b"
    assert a.heartbeat().is_parked is False


def test_a_group_whose_last_member_left_does_not_wait_for_ids_that_were_handed_out() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.member("b").join()
    a.leave()
    story.advance(0)
    assert story.state == "Empty"


def test_a_batch_tells_why_each_that_could_not_leave_could_not() -> None:
    story = GroupHarness()
    a, _b = story.stable("a", "b")
    request = story.leave(
        LeavingMember("x", None), LeavingMember(a.member_id, None), LeavingMember("", "nobody")
    )
    assert isinstance(request.result, Left)
    assert request.result == Left(request.result.members), "the explanations are for people"
    assert [(refused.rule, refused.detail) for refused in request.result.refused] == [
        (Rule.MEMBER_UNKNOWN, "'x' is no member"),
        (Rule.INSTANCE_UNKNOWN, "no member has the group instance id 'nobody'"),
    ]
