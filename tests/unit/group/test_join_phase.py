"""PreparingRebalance: who is waited for, for how long, and who leads afterwards."""

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.classic.rebalance import SHORTEST_POSTPONEMENT_MS
from coordinator_server.group.effects import Rule
from tests.support.group_harness import REBALANCE_MS, GroupHarness


def keep_alive(story: GroupHarness, ms: int, *members: object) -> None:
    """Let time pass while members heartbeat."""
    for _ in range(ms // 5_000):
        story.advance(5_000)
        for member in members:
            member.heartbeat()  # type: ignore[attr-defined]


def test_the_join_phase_ends_when_everybody_has_joined() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    requests = [a.join(), b.join()]
    assert all(request.is_parked for request in requests)
    last = c.join()
    assert {r.joined.generation for r in (*requests, last)} == {2}


def test_members_that_do_not_join_in_time_are_removed() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    request = a.join()
    keep_alive(story, REBALANCE_MS - 5_000, b)
    assert request.is_parked
    story.advance(5_000)
    assert [member_id for member_id, _, _ in request.joined.members] == [a.member_id]
    assert story.removed == [("b", "join_timeout")]
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_of_the_members_counts() -> None:
    story = GroupHarness()
    a, b = story.member("a", rebalance=20_000), story.member("b", rebalance=30_000)
    story.settle(a, b)
    request = a.join()
    keep_alive(story, 25_000, b)
    assert request.is_parked
    story.advance(5_000)
    assert request.joined.generation == 2


def test_a_late_member_is_not_waited_for_twice() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    keep_alive(story, REBALANCE_MS, b)
    a.sync()
    assert story.state == "Stable"
    again = story.member("b").enter()
    a.join()
    assert again.joined.generation == 3


def test_members_that_wait_do_not_expire_however_long_it_takes() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    request = a.join()
    keep_alive(story, 6 * 10_000 - 5_000, b)
    assert request.is_parked
    assert story.removed == []


def test_members_get_a_full_session_when_the_join_phase_ends() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    keep_alive(story, 50_000, b)
    b.join()
    story.advance(9_999)
    assert story.removed == []
    story.advance(1)
    assert sorted(story.removed) == [("a", "session_expired"), ("b", "session_expired")]


def test_a_leader_that_does_not_join_is_replaced() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    b.protocols = (("range", b"news"),)
    request = b.join()
    keep_alive(story, REBALANCE_MS, a)
    assert request.joined.leader == b.member_id
    assert len(request.joined.members) == 1


def test_the_leader_stays_if_it_joins() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    a.join()
    c.join()
    assert b.join().joined.leader == a.member_id


def test_the_longest_serving_member_leads_when_the_leader_leaves() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    a.leave()
    c.join()
    assert b.join().joined.leader == b.member_id


def test_absent_static_members_stay_and_do_not_lead() -> None:
    story = GroupHarness()
    a = story.member("a", "one", session=1_800_000)
    b = story.member("b")
    story.settle(a, b)
    b.protocols = (("range", b"news"),)
    request = b.join()
    story.advance(REBALANCE_MS)
    assert request.joined.leader == b.member_id
    assert [member_id for member_id, _, _ in request.joined.members] == [a.member_id, b.member_id]
    assert story.removed == []


def test_the_join_phase_is_postponed_if_nobody_joined() -> None:
    story = GroupHarness()
    a, b = (story.member(name, name, session=1_800_000) for name in "ab")
    c = story.member("c")
    story.settle(a, b, c)
    c.leave()
    story.advance(REBALANCE_MS)
    assert (story.state, story.generation) == ("PreparingRebalance", 1)
    request = a.join()
    story.advance(REBALANCE_MS - 1)
    assert request.is_parked
    story.advance(1)
    assert (request.joined.generation, request.joined.leader) == (2, a.member_id)


def test_a_postponed_join_phase_is_not_looked_at_all_the_time() -> None:
    story = GroupHarness()
    a = story.member("a", "one", session=60_000, rebalance=1)
    b = story.member("b", rebalance=1)
    story.settle(a, b)
    b.leave()
    story.advance(1)
    assert story.group.next_deadline() == story.now + SHORTEST_POSTPONEMENT_MS
    assert a.join().joined.generation == 2


def test_the_group_is_empty_when_the_last_who_was_waited_for_expires() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    b.leave()
    story.advance(10_000)
    assert (story.state, story.generation) == ("Empty", 2)
    assert a.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_real_member_may_expire_while_another_is_pending() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    story.member("c", session=40_000).join()
    a.leave()
    story.advance(10_000)
    assert story.state == "PreparingRebalance"
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    story.advance(30_000)
    assert story.state == "Empty"


def test_a_sync_of_the_generation_that_ends_is_refused() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    story.member("c").enter()
    request = b.sync()
    assert (request.error, request.rule) == (
        ErrorCode.REBALANCE_IN_PROGRESS,
        Rule.REBALANCE_UNDER_WAY,
    )
    assert a.sync({a: b""}).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_removed_at_the_end_of_the_join_phase_causes_no_second_rebalance() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    keep_alive(story, REBALANCE_MS, b)
    a.sync()
    keep_alive(story, 20_000, a)
    assert (story.state, story.generation) == ("Stable", 2)


def test_a_join_phase_nobody_came_to_goes_on_for_a_second_at_least() -> None:
    story = GroupHarness()
    a, b = story.member("a", "i"), story.member("b", "j")
    story.settle(a, b)
    a.rebalance = b.rebalance = 0
    story.rejoin(a, b)
    a.leave()
    story.advance(0)
    join = story.classic.purgatory.join
    assert join is not None
    assert join.deadline == story.now + 1_000


def test_a_leader_that_is_not_the_eldest_keeps_leading_when_another_leaves() -> None:
    story = GroupHarness()
    leader = story.member("a", "i")
    b, c = story.member("b"), story.member("c")
    story.settle(leader, b, c)
    again = leader.restarted()
    again.join()
    assert next(iter(story.classic.members)) != again.member_id
    c.leave()
    assert story.classic.leader == again.member_id
