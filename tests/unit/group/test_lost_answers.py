"""Answers that never reach their members, dynamic or static, leader or follower, and what follows.

A client that has lost an answer sends its request again, under the member id it knew before.
"""

import pytest

from coordinator_protocol.errors import ErrorCode
from tests.support.group_harness import DELAY_MS, REBALANCE_MS, GroupHarness, Member

KINDS = pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
ROLES = pytest.mark.parametrize("leads", [False, True], ids=["follower", "leader"])


def joined(story: GroupHarness, *, static: bool) -> tuple[Member, Member]:
    """A leader and a follower that have been told their generation and not synced yet."""
    leader = story.member("a", "i" if static else None, session=300_000)
    follower = story.member("b", "j" if static else None, session=300_000)
    leader.enter()
    follower.enter()
    story.advance(2 * DELAY_MS)
    assert (story.state, story.generation) == ("CompletingRebalance", 1)
    assert story.classic.leader == leader.member_id
    return leader, follower


@KINDS
@ROLES
def test_a_lost_answer_to_a_join_is_given_again_and_the_generation_goes_on(
    *, leads: bool, static: bool
) -> None:
    story = GroupHarness()
    leader, follower = joined(story, static=static)
    member = leader if leads else follower
    member.generation = -1
    again = member.join()
    assert again.joined.generation == 1
    told = [member_id for member_id, _, _ in again.joined.members]
    assert told == ([leader.member_id, follower.member_id] if leads else [])
    leader.sync({leader: b"1", follower: b"2"})
    assert follower.sync().assignment == b"2"
    assert (story.state, story.generation, len(story.started)) == ("Stable", 1, 1)


@KINDS
def test_a_follower_that_lost_the_answer_to_its_join_until_the_group_is_stable_still_gets_it(
    *, static: bool
) -> None:
    story = GroupHarness()
    leader, follower = joined(story, static=static)
    leader.sync({leader: b"1", follower: b"2"})
    follower.generation = -1
    assert follower.join().joined.generation == 1
    assert follower.sync().assignment == b"2"
    assert (story.state, len(story.started)) == ("Stable", 1)


@KINDS
@ROLES
def test_a_lost_answer_to_a_sync_is_given_again_and_nothing_is_written(
    *, leads: bool, static: bool
) -> None:
    story = GroupHarness()
    leader, follower = joined(story, static=static)
    leader.sync({leader: b"1", follower: b"2"})
    assert follower.sync().assignment == b"2"
    written = len(story.writes)
    member, assignments = (leader, {leader: b"other"}) if leads else (follower, None)
    assert member.sync(assignments).assignment == (b"1" if leads else b"2")
    assert (story.state, story.generation, len(story.writes)) == ("Stable", 1, written)


@KINDS
def test_a_follower_whose_connection_broke_while_its_sync_waited_asks_again(
    *, static: bool
) -> None:
    story = GroupHarness()
    leader, follower = joined(story, static=static)
    first, again = follower.sync(), follower.sync()
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    leader.sync({leader: b"1", follower: b"2"})
    assert again.assignment == b"2"


@KINDS
def test_a_follower_that_joins_again_after_a_lost_answer_to_its_sync_disturbs_nobody(
    *, static: bool
) -> None:
    story = GroupHarness()
    leader, follower = joined(story, static=static)
    leader.sync({leader: b"1", follower: b"2"})
    follower.sync()
    assert follower.join().joined.generation == 1
    assert follower.sync().assignment == b"2"
    assert (story.state, len(story.started)) == ("Stable", 1)


@KINDS
def test_a_leader_that_joins_again_after_a_lost_answer_to_its_sync_begins_a_rebalance(
    *, static: bool
) -> None:
    """As in Kafka: a leader's JoinGroup in a Stable group asks for new assignments."""
    story = GroupHarness()
    leader, follower = joined(story, static=static)
    leader.sync({leader: b"1", follower: b"2"})
    follower.sync()
    again = leader.join()
    assert (again.is_parked, story.state) == (True, "PreparingRebalance")
    assert follower.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    follower.join()
    assert again.joined.generation == 2
    story.sync_all(leader, follower)
    assert (story.state, story.generation) == ("Stable", 2)


@ROLES
def test_a_static_member_that_was_never_told_its_id_takes_its_own_place(*, leads: bool) -> None:
    """It can only join without a member id: its older self is fenced, and nobody else leaves."""
    story = GroupHarness()
    leader, follower = joined(story, static=True)
    member = leader if leads else follower
    other = follower if leads else leader
    again = member.restarted()
    waits = again.join()
    assert (waits.is_parked, story.state) == (True, "PreparingRebalance")
    assert member.heartbeat(generation=1).error is ErrorCode.FENCED_INSTANCE_ID
    other.join()
    assert (waits.joined.generation, len(story.classic.members)) == (2, 2)
    story.sync_all(*((again, other) if leads else (other, again)))
    assert (story.state, story.removed) == ("Stable", [])


def test_a_new_dynamic_member_that_was_never_told_its_id_joins_as_another() -> None:
    """The id it was given and knows nothing of is waited for as long as its session lasts."""
    story = GroupHarness()
    (a,) = story.stable("a", session=60_000)
    first = story.member("b", session=6_000)
    first.join()
    unheard, first.member_id = first.member_id, ""
    first.enter()
    a.join()
    assert story.state == "PreparingRebalance"
    story.advance(6_000)
    assert (story.generation, len(story.classic.members)) == (2, 2)
    assert unheard not in story.classic.members
    assert story.removed == [("b", "pending_expired")]


@KINDS
def test_a_member_that_never_asks_again_is_waited_for_no_longer_than_the_rebalance_timeout(
    *, static: bool
) -> None:
    """The answer to its JoinGroup was lost, and it with it."""
    story = GroupHarness()
    leader, follower = joined(story, static=static)
    leader.sync({leader: b"1", follower: b"2"})
    assert story.state == "Stable"
    story.advance(REBALANCE_MS - 1)
    assert follower.member_id in story.classic.members
    story.advance(1)
    assert follower.member_id not in story.classic.members
    assert story.removed == [("b", "sync_timeout")]
