"""Broken rules that no other test would miss."""

from coordinator_server.group.classic.state import ClassicGroupState
from tests.support.story import Story


def said(story: Story) -> str:
    return "\n".join(story.group.broken_rules())


def test_an_assignment_cannot_be_awaited_of_nobody() -> None:
    story = Story()
    story.stable("a")
    story.classic.members.clear()
    story.classic.state = ClassicGroupState.COMPLETING_REBALANCE
    assert "CompletingRebalance without members" in said(story)


def test_the_purgatory_must_not_wake_after_an_id_that_was_handed_out_expires() -> None:
    story = Story()
    story.member("a", session=6_000).join()
    story.classic.purgatory.wake = story.now + 6_001
    assert f"wakes at {story.now + 6_001}, after {story.now + 6_000}" in said(story)


def test_the_purgatory_must_not_wake_after_the_join_phase_ends() -> None:
    story = Story()
    story.member("a", known=False).join()
    story.classic.purgatory.wake = story.now + 3_001
    assert f"wakes at {story.now + 3_001}, after {story.now + 3_000}" in said(story)


def test_the_purgatory_must_not_wake_between_two_deadlines() -> None:
    story = Story()
    for name, session in (("a", 6_000), ("b", 9_000)):
        story.member(name, session=session).join()
    story.classic.purgatory.wake = story.now + 7_000
    assert "the purgatory wakes" in said(story)


def test_the_sessions_of_a_large_group_may_be_looked_at_late_and_its_join_phase_may_not() -> None:
    story = Story()
    for number in range(100):
        story.member(f"m{number}", session=6_000).join()
    story.classic.purgatory.wake = story.now + 6_002
    assert said(story) == ""
    story.classic.purgatory.wake = story.now + 6_003
    assert "the purgatory wakes" in said(story)
    story.member("a", known=False).join()
    story.classic.purgatory.wake = story.now + 3_001
    assert "the purgatory wakes" in said(story)
