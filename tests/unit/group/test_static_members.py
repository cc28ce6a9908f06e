"""Static members: their restarts, their fencing, and what they never lose (KIP-345, KIP-814)."""

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataKey
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Refuse, Rule
from tests.support.group_harness import DELAY_MS, SESSION_MS, GroupHarness, Member


def statics(*names: str, **how: object) -> tuple[GroupHarness, list[Member]]:
    """A Stable group of static members, the first of them leading."""
    story = GroupHarness()
    members = [story.member(name, f"i-{name}", **how) for name in names]
    story.settle(*members)
    return story, members


def test_a_follower_that_restarts_causes_no_rebalance() -> None:
    story, (a, b) = statics("a", "b")
    new = b.restarted()
    request = new.join()
    assert (request.joined.generation, request.joined.leader) == (1, a.member_id)
    assert (request.joined.members, request.joined.skip_assignment) == ((), False)
    assert new.member_id != b.member_id
    assert story.state == "Stable"
    assert new.sync().assignment == b"b"


def test_the_old_process_of_a_restarted_member_is_fenced() -> None:
    _, (a, b) = statics("a", "b")
    new = b.restarted()
    new.join()
    for request in (b.heartbeat(), b.join(), b.sync(), b.commit()):
        assert (request.error, request.rule) == (
            ErrorCode.FENCED_INSTANCE_ID,
            Rule.INSTANCE_FENCED,
        )
    assert new.heartbeat().error is a.heartbeat().error is ErrorCode.NONE


def test_the_new_member_id_is_in_the_log_before_it_is_told() -> None:
    story, (_, b) = statics("a", "b")
    new = b.restarted()
    new.join()
    assert story.writes[-1].key == GroupMetadataKey("group")
    story.restart()
    assert new.heartbeat().error is ErrorCode.NONE
    assert b.heartbeat().error is ErrorCode.FENCED_INSTANCE_ID


def test_a_leader_that_restarts_leads_on_and_skips_the_assignment() -> None:
    story, (a, b) = statics("a", "b")
    new = a.restarted()
    request = new.join()
    assert request.joined.leader == new.member_id
    assert request.joined.skip_assignment
    assert {member_id for member_id, _, _ in request.joined.members} == {new.member_id, b.member_id}
    assert new.sync().assignment == b"a"
    assert story.classic.leader == new.member_id


def test_a_leader_that_restarts_before_version_9_is_told_its_old_self_leads() -> None:
    story, (a, _) = statics("a", "b")
    new = a.restarted()
    new.skips = False
    request = new.join()
    assert request.joined.leader == a.member_id
    assert (request.joined.members, request.joined.skip_assignment) == ((), False)
    assert story.classic.leader == new.member_id


def test_a_restart_with_news_that_change_nothing_causes_no_rebalance() -> None:
    story, (a, b) = statics("a", "b")
    new = b.restarted()
    new.protocols = (("range", b"news"),)
    new.join()
    assert story.state == "Stable"
    durable = story.durable
    assert durable is not None
    assert {m.subscription for m in durable.members} == {b"r", b"news"}
    assert a.heartbeat().error is ErrorCode.NONE


def test_a_restart_that_changes_the_vote_makes_the_group_rebalance() -> None:
    protocols = (("range", b""), ("roundrobin", b""))
    story, (a, b) = statics("a", "b", protocols=protocols)
    new = b.restarted()
    new.protocols = (("roundrobin", b""),)
    request = new.join()
    assert request.is_parked
    assert story.started[-1].reason == "static_replaced"
    a.join()
    assert request.joined.protocol_name == "roundrobin"


def test_a_restart_that_could_not_be_written_down_makes_the_group_rebalance() -> None:
    story, (a, b) = statics("a", "b", session=60_000)
    story.limits = Limits(max_append_bytes=1_000)
    new = b.restarted()
    new.protocols = (("range", b"x" * 1_000),)
    request = new.join()
    assert request.is_parked
    a.join()
    assert request.joined.generation == 2
    assert a.sync({}).rule is Rule.ASSIGNMENT_TOO_LARGE


def test_a_restart_with_new_timeouts_has_them_take_effect() -> None:
    story, (a, b) = statics("a", "b")
    new = b.restarted()
    new.session, new.rebalance = 20_000, 90_000
    new.join()
    assert story.classic.rebalance_timeout_ms == 90_000
    for _ in range(2):
        story.advance(9_000)
        a.heartbeat()
    story.advance(1_999)
    assert story.removed == []
    story.advance(1)
    assert story.removed == [("b", "session_expired")]


def test_a_restart_while_the_assignment_is_awaited_starts_another_rebalance() -> None:
    story = GroupHarness()
    a, b = story.member("a", "one"), story.member("b", "two")
    a.join(), b.join()
    story.advance(2 * DELAY_MS)
    old = b.sync()
    request = b.restarted().join()
    assert (old.error, old.rule) == (ErrorCode.FENCED_INSTANCE_ID, Rule.INSTANCE_REPLACED)
    assert request.is_parked
    assert a.join().joined.generation == 2
    assert {m.member_id for m in story.classic.members.values()} == {
        a.member_id,
        request.joined.member_id,
    }


def test_a_restart_while_members_join_takes_the_parked_ones_place() -> None:
    _story, (a, b) = statics("a", "b")
    a.protocols = (("range", b"news"),)
    parked = a.join()
    request = a.restarted().join()
    assert (parked.error, parked.rule) == (ErrorCode.FENCED_INSTANCE_ID, Rule.INSTANCE_REPLACED)
    assert isinstance(parked.result, Refuse)
    assert parked.result.member_id == a.member_id
    b.join()
    assert len(request.joined.members) == 2


def test_a_restart_can_be_the_last_one_waited_for() -> None:
    _story, (a, b) = statics("a", "b")
    a.protocols = (("range", b"news"),)
    request = a.join()
    b.restarted().join()
    assert request.joined.generation == 2


def test_the_last_of_two_processes_with_one_instance_id_wins() -> None:
    story = GroupHarness()
    first, second = story.member("a", "one"), story.member("a", "one")
    parked, request = first.join(), second.join()
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID
    story.advance(2 * DELAY_MS)
    assert request.joined.member_id == second.member_id
    assert len(story.classic.members) == 1


def test_a_member_that_was_new_waits_without_limit_after_its_restart() -> None:
    story, (a,) = statics("a", session=1_800_000, rebalance=600_000)
    b = story.member("b", "two")
    b.join()
    request = b.restarted().join()
    story.advance(400_000)
    assert request.is_parked
    a.join()
    assert request.joined.generation == 2


def test_a_restarted_follower_still_has_to_sync() -> None:
    story = GroupHarness()
    a, b = (story.member(n, n, session=60_000, rebalance=20_000) for n in "ab")
    a.join(), b.join()
    story.advance(2 * DELAY_MS)
    a.sync({a: b"1", b: b"2"})
    new = b.restarted()
    new.join()
    assert list(story.classic.pending_sync) == [new.member_id]
    story.advance(20_000)
    assert story.removed == [("b", "sync_timeout")]


def test_a_static_member_is_gone_when_its_session_ends() -> None:
    story, (a, b) = statics("a", "b")
    story.advance(SESSION_MS - 1)
    a.heartbeat()
    story.advance(1)
    assert story.removed == [("b", "session_expired")]
    assert b.heartbeat().rule is Rule.INSTANCE_UNKNOWN
    b.restarted().join()
    a.join()
    assert story.state == "CompletingRebalance"


def test_a_static_member_that_knows_its_id_joins_as_any_other() -> None:
    story, (_, b) = statics("a", "b")
    assert b.join().joined.generation == 1
    assert story.state == "Stable"
    b.protocols = (("range", b"news"),)
    assert b.join().is_parked


def test_a_static_member_that_leaves_leaves_no_trace() -> None:
    story, (a, b) = statics("a", "b")
    b.leave()
    assert story.classic.static_members == {"i-a": a.member_id}
    assert b.heartbeat().rule is Rule.INSTANCE_UNKNOWN


def test_a_static_members_id_is_enough_where_no_instance_id_is_sent() -> None:
    story, (a,) = statics("a")
    same = story.member("x", member_id=a.member_id, generation=1)
    assert same.heartbeat().error is ErrorCode.NONE
    same.instance = "i-x"
    assert same.heartbeat().rule is Rule.INSTANCE_UNKNOWN
