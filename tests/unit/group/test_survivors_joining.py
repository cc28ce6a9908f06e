"""Details of joining that no other test would miss; most were found by `make mutate`."""

import pytest

from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Rule
from coordinator_server.group.events import Tick
from protocol.errors import ErrorCode
from tests.support.story import Story


def test_a_superseded_join_is_told_that_a_rebalance_is_under_way() -> None:
    story = Story()
    a = story.member("a", known=False)
    first = a.join()
    a.member_id = next(iter(story.classic.members))
    a.join()
    assert (first.error, first.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )


def test_a_superseded_sync_is_told_that_a_rebalance_is_under_way() -> None:
    story = Story()
    a, b = story.stable("a", "b")
    for member in (a, b):
        member.join()
    first = b.sync()
    b.sync()
    assert (first.error, first.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )


def test_the_old_process_of_a_restarted_member_is_no_member_of_a_full_group() -> None:
    story = Story(limits=Limits(group_max_size=1))
    (old,) = story.stable("a", instance="i")
    assert old.restarted().join().error is ErrorCode.NONE
    assert old.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_newcomers_of_a_delay_that_ended_early_do_not_extend_the_next() -> None:
    story = Story(limits=Limits(initial_rebalance_delay_ms=10_000))
    a, b = story.member("a"), story.member("b")
    story.member("never", session=6_000).join()
    a.enter()
    b.enter()
    story.advance(6_000)
    assert story.state == "CompletingRebalance"
    a.leave()
    b.leave()
    assert story.state == "Empty"
    alone = story.member("c").enter()
    story.advance(9_999)
    assert alone.is_parked
    story.advance(1)
    assert alone.error is ErrorCode.NONE


def test_a_delay_that_cannot_be_extended_ends_at_the_first_look() -> None:
    story = Story()
    requests = [story.member(name, rebalance=1_000).enter() for name in "ab"]
    story.advance(2_999)
    story.now += 1
    story.handle(Tick())
    assert [request.error for request in requests] == [ErrorCode.NONE] * 2


def test_a_join_phase_nobody_came_to_goes_on_for_a_second_at_least() -> None:
    story = Story()
    a, b = story.member("a", "i"), story.member("b", "j")
    story.settle(a, b)
    a.rebalance = b.rebalance = 0
    story.rejoin(a, b)
    a.leave()
    story.advance(0)
    join = story.classic.purgatory.join
    assert join is not None
    assert join.deadline == story.now + 1_000


def test_a_group_whose_last_member_left_does_not_wait_for_ids_that_were_handed_out() -> None:
    story = Story()
    (a,) = story.stable("a")
    story.member("b").join()
    a.leave()
    story.advance(0)
    assert story.state == "Empty"


def test_members_vote_only_for_what_all_support() -> None:
    story = Story()
    offers = ("x", "range", "sticky"), ("y", "sticky", "range"), ("z", "sticky", "range")
    members = [
        story.member(f"m{number}", protocols=[(name, b"") for name in names])
        for number, names in enumerate(offers)
    ]
    requests = [member.enter() for member in members]
    story.advance(6_000)
    assert {request.joined.protocol_name for request in requests} == {"sticky"}


def test_a_leader_that_is_not_the_eldest_keeps_leading_when_another_leaves() -> None:
    story = Story()
    leader = story.member("a", "i")
    b, c = story.member("b"), story.member("c")
    story.settle(leader, b, c)
    again = leader.restarted()
    again.join()
    assert next(iter(story.classic.members)) != again.member_id
    c.leave()
    assert story.classic.leader == again.member_id


def test_what_a_member_was_assigned_is_shown_while_others_join() -> None:
    story = Story()
    story.stable("a", "b")
    story.member("c", known=False).join()
    shown = story.describe()
    assert shown.state == "PreparingRebalance"
    assert sorted(member.assignment for member in shown.members) == [b"", b"a", b"b"]


def test_a_follower_that_syncs_late_is_not_removed_from_a_stable_group() -> None:
    story = Story()
    a, b = story.member("a", session=300_000), story.member("b", session=300_000)
    for member in (a, b):
        member.enter()
    story.advance(6_000)
    a.sync({a: b"a", b: b"b"})
    assert b.sync().assignment == b"b"
    story.advance(120_000)
    assert (story.state, story.removed) == ("Stable", [])


@pytest.mark.parametrize("generation", [0, 5])
def test_nobody_commits_with_a_generation_for_a_group_without_members(generation: int) -> None:
    story = Story()
    assert story.commit(generation=generation).error is ErrorCode.GROUP_ID_NOT_FOUND
    story.commit()
    assert story.state == "Empty"
    assert story.commit(generation=generation).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("generation", [0, 5])
def test_a_commit_with_a_generation_names_its_member(generation: int) -> None:
    story = Story()
    story.stable("a")
    refused = story.commit(generation=generation)
    assert (refused.error, refused.rule) == (ErrorCode.UNKNOWN_MEMBER_ID, Rule.MEMBER_UNKNOWN)
