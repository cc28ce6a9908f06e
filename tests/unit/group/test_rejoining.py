"""JoinGroup of members, in every state, with and without anything new to say."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataKey
from coordinator_server.group.effects import Refuse, Rule
from coordinator_server.group.events import Loaded
from coordinator_server.group.replay import apply
from tests.support.group_harness import DELAY_MS, GroupHarness

NEWS = (("range", b"other"),)


def test_a_member_may_change_its_mind_while_members_join() -> None:
    story = GroupHarness()
    a = story.member("a")
    a.enter()
    a.protocols = NEWS
    request = a.join()
    story.advance(DELAY_MS)
    assert request.joined.members[0][2] == b"other"


def test_an_unchanged_follower_that_awaits_its_assignment_is_told_the_generation_again() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    again = b.join()
    assert (again.joined.generation, again.joined.members) == (1, ())
    assert story.state == "CompletingRebalance"


def test_an_unchanged_leader_that_has_to_assign_is_told_the_members_again() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    assert [member_id for member_id, _, _ in a.join().joined.members] == [a.member_id, b.member_id]


def test_a_join_answered_again_leaves_a_parked_sync_alone() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    parked = b.sync()
    b.join()
    a.sync({b: b"for b"})
    assert parked.assignment == b"for b"


def test_news_while_the_assignment_is_awaited_start_another_rebalance() -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    synced = a.sync  # the leader has not synced yet
    b.protocols = NEWS
    request = b.join()
    assert request.is_parked
    assert story.state == "PreparingRebalance"
    assert synced({b: b""}).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_unchanged_follower_of_a_stable_group_is_told_the_generation() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    again = b.join()
    assert (again.joined.generation, again.joined.leader) == (1, a.member_id)
    assert again.joined.members == ()
    assert story.state == "Stable"
    assert b.sync().assignment == b"b"


@pytest.mark.parametrize("who", ["leader", "follower"])
def test_news_make_a_stable_group_rebalance(who: str) -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    member = a if who == "leader" else b
    member.protocols = NEWS
    assert member.join().is_parked
    assert story.state == "PreparingRebalance"


def test_a_leader_that_joins_again_makes_a_stable_group_rebalance() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    request = a.join()
    assert request.is_parked
    b.join()
    assert request.joined.generation == 2


def test_a_member_alone_that_joins_again_is_answered_at_once() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    assert a.join().joined.generation == 2
    assert story.state == "CompletingRebalance"


def test_new_timeouts_take_effect() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.session, a.rebalance = 20_000, 90_000
    story.rejoin(a)
    assert story.classic.rebalance_timeout_ms == 90_000
    story.advance(19_999)
    assert story.state == "Stable"
    story.advance(1)
    assert story.state == "Empty"


def test_a_member_of_an_emptied_group_has_to_begin_anew() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    request = a.join()
    assert request.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(request.result, Refuse)
    assert request.result.member_id == a.member_id


def test_generations_go_on_after_the_group_was_empty() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave()
    assert story.generation == 2
    (b,) = story.stable("b")
    assert b.generation == 3


def test_generations_begin_again_after_the_last_number_there_is() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.classic.generation = 2**31 - 1
    assert a.join().joined.generation == 1


def test_a_group_goes_on_behind_a_generation_that_its_log_has_lost() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.restart(spent_generation=4)
    assert story.generation == 1
    assert a.heartbeat().error is ErrorCode.NONE
    assert a.heartbeat(generation=4).error is ErrorCode.ILLEGAL_GENERATION
    assert a.join().joined.generation == 5
    assert a.join().joined.generation == 5
    a.sync({a: b"all"})
    assert a.join().joined.generation == 6
    assert story.classic.spent_generation == 0


def test_a_generation_that_the_log_has_is_not_spent() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    for spent in (0, 1):
        story.restart(spent_generation=spent)
        assert story.classic.spent_generation == 0
        assert a.join().joined.generation == 2
    story.restart(spent_generation=2)
    assert story.classic.last_generation == 2


def test_generations_begin_again_after_a_lost_one_with_the_last_number_there_is() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    story.restart(spent_generation=2**31 - 1)
    assert a.join().joined.generation == 1
    a.sync({a: b"all"})
    assert a.join().joined.generation == 2


def test_the_last_generation_is_known_until_the_end_of_its_group_is_forgotten() -> None:
    """The log may not take the end, and then the group comes back."""
    story = GroupHarness()
    assert story.group.last_generation == 0
    (a,) = story.stable("a")
    assert story.group.last_generation == 1
    story.restart(spent_generation=4)
    assert story.group.last_generation == 4
    a.leave()
    assert (story.generation, story.group.last_generation) == (5, 5)
    story.delete()
    assert story.group.last_generation == 5
    story.stable("b")
    assert (story.generation, story.group.last_generation) == (1, 5)


def test_offsets_of_a_group_that_has_ended_are_not_forgotten_with_it() -> None:
    story = GroupHarness()
    story.commit()
    apply(story.group, GroupMetadataKey("group"), None)
    assert story.state == "Dead"
    assert not story.group.is_vacant


def test_a_group_without_offsets_is_not_vacant() -> None:
    story = GroupHarness()
    story.stable("a")
    assert not story.group.is_vacant


def test_a_group_that_the_log_has_no_record_of_has_no_spent_generation() -> None:
    story = GroupHarness()
    story.restart(spent_generation=4)
    assert story.group.is_vacant
    story.stable("a")
    assert story.generation == 1


def test_a_group_of_which_the_log_has_offsets_alone_goes_on_behind_its_lost_generation() -> None:
    story = GroupHarness()
    story.commit()
    story.restart(spent_generation=4)
    story.stable("a")
    assert story.generation == 5


def test_a_load_that_knows_of_no_lost_generation_lets_a_group_begin_with_the_first() -> None:
    story = GroupHarness()
    story.commit()
    story.handle(Loaded())
    story.stable("a")
    assert story.generation == 1


def test_a_superseded_join_is_told_that_a_rebalance_is_under_way() -> None:
    story = GroupHarness()
    a = story.member("a", known=False)
    first = a.join()
    a.member_id = next(iter(story.classic.members))
    a.join()
    assert (first.error, first.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )
