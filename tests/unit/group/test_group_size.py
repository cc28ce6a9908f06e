"""group.max.size: the last to come are refused, whoever is in stays."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Refuse, Rule
from tests.support.group_harness import DELAY_MS, GroupHarness


def at_most(size: int) -> GroupHarness:
    return GroupHarness(limits=Limits(group_max_size=size))


def test_a_full_group_refuses_a_newcomer() -> None:
    story = at_most(2)
    a, b = story.stable("a", "b")
    request = story.member("c").join()
    assert (request.error, request.rule) == (ErrorCode.GROUP_MAX_SIZE_REACHED, Rule.GROUP_FULL)
    assert isinstance(request.result, Refuse)
    assert request.result.member_id == ""
    assert a.heartbeat().error is b.heartbeat().error is ErrorCode.NONE


def test_members_of_a_full_group_may_join_again() -> None:
    story = at_most(2)
    a, b = story.stable("a", "b")
    a.join()
    assert b.join().joined.generation == 2


def test_while_members_join_the_first_to_come_are_taken() -> None:
    story = at_most(2)
    requests = [story.member(name, known=False).join() for name in "abc"]
    assert requests[2].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    story.advance(2 * DELAY_MS)
    assert [request.joined.generation for request in requests[:2]] == [1, 1]


def test_a_member_that_waits_may_send_its_join_again() -> None:
    story = at_most(1)
    a = story.member("a")
    a.enter()
    assert a.join().is_parked


def test_a_pending_member_that_comes_too_late_is_forgotten() -> None:
    story = at_most(1)
    late = story.member("b")
    late.join()
    request = story.member("a").enter()
    assert late.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.classic.pending == {}
    story.advance(DELAY_MS)
    assert request.joined.generation == 1


def test_a_member_whose_place_was_taken_is_out_and_the_join_phase_ends() -> None:
    story = at_most(2)
    a, b = story.stable("a", "b")
    newcomer = story.member("c", known=False)
    a.leave()
    request = newcomer.join()
    second = story.member("d", known=False).join()
    late = b.join()
    assert late.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.removed[-1] == ("b", "over_capacity")
    assert {request.joined.generation, second.joined.generation} == {2}


def test_a_restarted_static_member_takes_its_own_place_in_a_full_group() -> None:
    story = at_most(2)
    a, b = story.member("a", "one"), story.member("b", "two")
    story.settle(a, b)
    assert b.restarted().join().joined.generation == 1
    a.join()
    assert story.state == "PreparingRebalance"
    assert story.member("c", "three").join().is_parked
    assert b.restarted().join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_that_waits_may_restart_in_a_full_group() -> None:
    story = at_most(1)
    a = story.member("a", "one")
    parked = a.join()
    request = a.restarted().join()
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID
    story.advance(DELAY_MS)
    assert request.joined.generation == 1


def test_a_group_loaded_over_its_limit_rebalances_down_to_it() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    story.limits = Limits(group_max_size=2)
    story.restart()
    assert story.state == "PreparingRebalance"
    assert a.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert a.commit().error is ErrorCode.NONE
    first, second = a.join(), b.join()
    assert c.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert {first.joined.generation, second.joined.generation} == {2}
    assert story.started[-1].reason == "over_capacity"


def test_a_group_loaded_with_as_many_members_as_it_may_have_goes_on() -> None:
    story = at_most(2)
    a, b = story.stable("a", "b")
    story.restart()
    assert story.state == "Stable"
    assert a.heartbeat().error is b.heartbeat().error is ErrorCode.NONE


def test_an_empty_group_takes_everybody_at_first() -> None:
    story = at_most(1)
    assert story.member("a").join().error is ErrorCode.MEMBER_ID_REQUIRED
    assert story.member("b").join().error is ErrorCode.MEMBER_ID_REQUIRED


def test_the_old_process_of_a_restarted_member_is_no_member_of_a_full_group() -> None:
    story = GroupHarness(limits=Limits(group_max_size=1))
    (old,) = story.stable("a", instance="i")
    assert old.restarted().join().error is ErrorCode.NONE
    assert old.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
