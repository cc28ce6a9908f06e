"""The first rebalance of an Empty group waits for others to come (KIP-134)."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.context import Limits
from coordinator_server.group.events import Tick
from tests.support.group_harness import DELAY_MS, GroupHarness


def test_the_first_member_waits_for_the_delay() -> None:
    story = GroupHarness()
    request = story.member("a").enter()
    assert story.advance(DELAY_MS - 1) == []
    assert story.advance(1) == [request]


def test_without_a_delay_a_first_member_that_is_alone_is_answered_at_once() -> None:
    story = GroupHarness(limits=Limits(initial_rebalance_delay_ms=0))
    request = story.member("a").enter()
    assert request.joined.generation == 1
    assert story.state == "CompletingRebalance"


def test_without_a_delay_members_that_come_together_are_answered_at_the_next_look() -> None:
    story = GroupHarness(limits=Limits(initial_rebalance_delay_ms=0))
    members = [story.member(name) for name in "abc"]
    for member in members:
        assert member.join().error is ErrorCode.MEMBER_ID_REQUIRED
    requests = [member.join() for member in members[:2]]
    assert all(request.is_parked for request in requests)
    assert story.advance(0) == requests
    assert {request.joined.generation for request in requests} == {1}


def test_the_delay_is_extended_by_every_newcomer() -> None:
    story = GroupHarness()
    first = story.member("a").enter()
    story.advance(2_000)
    second = story.member("b").enter()
    assert story.advance(3_999) == []
    assert story.advance(1) == [first, second]


def test_one_extension_serves_all_who_came_during_the_delay() -> None:
    story = GroupHarness()
    requests = [story.member(name).enter() for name in "abcd"]
    assert story.advance(2 * DELAY_MS - 1) == []
    assert story.advance(1) == requests


def test_the_delay_ends_with_the_rebalance_timeout_of_the_first_member() -> None:
    story = GroupHarness()
    requests = [story.member("m0", rebalance=7_000).enter()]
    for i in range(1, 5):
        story.advance(1_500)
        requests.append(story.member(f"m{i}", rebalance=7_000).enter())
    story.advance(999)
    assert all(request.is_parked for request in requests)
    assert story.advance(1) == requests
    assert story.now == 1_000_000 + 7_000


@pytest.mark.parametrize("rebalance", [1_000, 0, -1])
def test_a_short_rebalance_timeout_does_not_shorten_the_delay(rebalance: int) -> None:
    story = GroupHarness()
    request = story.member("a", rebalance=rebalance).enter()
    assert story.advance(DELAY_MS - 1) == []
    assert request.is_parked
    story.advance(1)
    assert request.joined.generation == 1


def test_members_that_are_all_there_do_not_end_the_delay() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    assert a.join().is_parked
    assert story.advance(DELAY_MS - 1) == []


def test_a_rebalance_of_a_group_with_members_is_not_delayed() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    request = story.member("b").enter()
    a.join()
    assert request.joined.generation == 2


def test_a_group_that_was_emptied_is_delayed_again() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    request = story.member("b").enter()
    assert story.advance(DELAY_MS - 1) == []
    assert story.advance(1) == [request]


def test_the_delay_goes_on_after_its_only_member_has_left() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    a.leave()
    assert story.state == "PreparingRebalance"
    request = story.member("b").enter()
    story.advance(2 * DELAY_MS)
    assert request.joined.generation == 1


def test_a_group_nobody_is_left_of_after_the_delay_is_empty() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    a.leave()
    story.advance(DELAY_MS)
    assert (story.state, story.generation) == ("Empty", 1)


def test_a_pending_member_does_not_hold_up_the_end_of_the_delay() -> None:
    story = GroupHarness()
    request = story.member("a").enter()
    story.member("b").join()
    assert story.advance(DELAY_MS) == [request]


def test_a_pending_member_that_expires_ends_the_delay() -> None:
    story = GroupHarness(limits=Limits(initial_rebalance_delay_ms=30_000))
    request = story.member("a").enter()
    story.member("b").join()
    story.advance(10_000)
    assert request.joined.generation == 1


def test_newcomers_of_a_delay_that_ended_early_do_not_extend_the_next() -> None:
    story = GroupHarness(limits=Limits(initial_rebalance_delay_ms=10_000))
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
    story = GroupHarness()
    requests = [story.member(name, rebalance=1_000).enter() for name in "ab"]
    story.advance(2_999)
    story.now += 1
    story.handle(Tick())
    assert [request.error for request in requests] == [ErrorCode.NONE] * 2
