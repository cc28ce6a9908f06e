"""The rounds of a rebalance, and whom it waited for."""

from coordinator_server.group.context import Limits
from coordinator_server.group.reasons import RebalanceEvent
from tests.support.story import Member, Story


def waited_for(story: Story) -> list[str]:
    """Client ids of whom the last rebalance waited for."""
    return [waited.member.client_id for waited in last_event(story).waited_for]


def last_event(story: Story) -> RebalanceEvent:
    return story.rebalances[-1]


def test_an_event_has_twenty_rounds_and_a_hundred_names_at_most() -> None:
    story = Story()
    members = [story.member(f"m{number}") for number in range(120)]
    story.settle(*members)
    event = last_event(story)
    assert (len(event.rounds), len(event.joined), event.members_after) == (20, 100, 120)


def test_a_further_round_is_not_announced_as_a_beginning() -> None:
    story = Story()
    a, b = story.stable("a", "b")
    a.join()
    b.join()
    begun = len(story.started)
    story.member("c", known=False).join()
    assert story.state == "PreparingRebalance"
    assert len(story.started) == begun
    assert None not in story.observed


def test_of_two_members_the_last_to_join_was_waited_for() -> None:
    story = Story()
    a, b = story.stable("a", "b")
    story.rejoin(a, b)
    assert waited_for(story) == ["b"]


def test_a_member_alone_was_not_waited_for() -> None:
    story = Story()
    (a,) = story.stable("a")
    story.rejoin(a)
    assert waited_for(story) == []


def test_the_last_to_join_was_waited_for_even_if_another_left_after_it() -> None:
    story = Story()
    a, b, c = story.stable("a", "b", "c")
    a.join()
    b.join()
    c.leave()
    story.sync_all(a, b)
    assert waited_for(story) == ["b"]


def parked_with_an_unused_id(story: Story) -> tuple[Member, Member, Member, Member]:
    """Three members that have joined again, and an id somebody was given and has not used."""
    a, b, c = story.stable("a", "b", "c")
    pending = story.member("p")
    pending.join()
    a.join()
    return a, b, c, pending


def test_the_last_to_join_was_waited_for_even_if_one_that_had_joined_before_it_left() -> None:
    story = Story()
    a, b, c, pending = parked_with_an_unused_id(story)
    c.join()
    b.join()
    c.leave()
    pending.leave()
    story.sync_all(a, b)
    assert waited_for(story) == ["b"]


def test_nobody_was_waited_for_if_the_last_to_join_left_again() -> None:
    story = Story()
    a, b, c, pending = parked_with_an_unused_id(story)
    b.join()
    c.join()
    c.leave()
    pending.leave()
    story.sync_all(a, b)
    assert waited_for(story) == []


def test_an_id_that_expires_while_the_assignment_is_awaited_is_no_round() -> None:
    story = Story(limits=Limits(initial_rebalance_delay_ms=0))
    a = story.member("a", session=60_000)
    a.enter()
    story.advance(0)
    story.member("p", session=6_000).join()
    story.advance(6_000)
    a.sync({a: b""})
    assert [cause.reason for cause in last_event(story).rounds] == ["member_joined"]
    assert story.removed == [("p", "pending_expired")]
