"""Static members: what other coordinators got wrong (KIP-345, KIP-814)."""

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_protocol.records import GroupMetadataValue
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Rule
from coordinator_server.storage.base import OutcomeUnknown
from tests.support.coordinator_harness import CoordinatorHarness, opened, settle
from tests.support.group_harness import REBALANCE_MS, SESSION_MS, GroupHarness, Member


def statics(*names: str, **how: object) -> tuple[GroupHarness, list[Member]]:
    """A Stable group of static members, the first of them leading."""
    harness = GroupHarness()
    members = [harness.member(name, f"i-{name}", **how) for name in names]
    harness.settle(*members)
    return harness, members


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance", "CompletingRebalance"])
def test_a_static_member_takes_its_own_place_in_a_full_group(state: str) -> None:
    """B18, KAFKA-20601. It does not make the group larger."""
    harness, (a, b) = statics("a", "b")
    harness.limits = Limits(group_max_size=2)
    if state != "Stable":
        a.join()
    if state == "CompletingRebalance":
        b.join()
    assert harness.state == state
    request = b.restarted().join()
    assert request.is_parked or request.error is ErrorCode.NONE
    assert len(harness.classic.members) == 2


def test_timeouts_of_a_static_member_that_returns_take_effect() -> None:
    """B24, KAFKA-14009. In Stable, without a rebalance, and after a restart of the server too."""
    harness, (a, b) = statics("a", "b")
    new = b.restarted()
    new.session, new.rebalance = 3 * SESSION_MS, 3 * REBALANCE_MS
    new.join()
    for _ in range(2):
        harness.advance(SESSION_MS - 1)
        a.heartbeat()
    assert new.heartbeat().error is ErrorCode.NONE
    harness.restart()
    member = harness.classic.members[new.member_id]
    timeouts = (member.session_timeout_ms, member.rebalance_timeout_ms)
    assert timeouts == (3 * SESSION_MS, 3 * REBALANCE_MS)


def test_of_two_joins_with_one_instance_id_the_second_wins_and_the_first_is_fenced() -> None:
    """B25, KAFKA-8500. Both without member id, in PreparingRebalance."""
    harness = GroupHarness()
    first, second = harness.member("s", "i"), harness.member("s", "i")
    lost = first.join()
    assert harness.state == "PreparingRebalance"
    won = second.join()
    assert (lost.error, lost.rule) == (ErrorCode.FENCED_INSTANCE_ID, Rule.INSTANCE_REPLACED)
    harness.advance(2 * 3_000)
    assert [member_id for member_id, _, _ in won.joined.members] == [second.member_id]


def test_a_static_member_that_returns_while_the_leader_assigns_starts_a_rebalance() -> None:
    """B26, KAFKA-9801. Else it would get the assignment of nobody."""
    harness, (a, b) = statics("a", "b")
    a.join()
    b.join()
    assert harness.state == "CompletingRebalance"
    new = b.restarted()
    waiting = new.join()
    assert (waiting.is_parked, harness.state) == (True, "PreparingRebalance")
    stale = a.sync({a: b"a", b: b"b"})
    assert stale.error is ErrorCode.REBALANCE_IN_PROGRESS
    a.join()
    harness.sync_all(a, new)
    assert harness.classic.members[new.member_id].assignment == b"b"


async def test_the_new_id_of_a_static_member_is_durable_before_it_is_told(
    harness: CoordinatorHarness,
) -> None:
    """B27, KAFKA-10284. After a failover it is valid and the old one is fenced."""
    group_client = harness.group_client()
    a, b = group_client.member("a", "i-a"), group_client.member("b", "i-b")
    await group_client.settled(a, b)
    harness.memory.hold(harness.partition("group").index)
    new = b.restarted()
    request = new.join()
    await settle()
    assert request.is_parked
    harness.memory.release(harness.partition("group").index)
    await settle()
    assert (request.joined.generation, group_client.state) == (1, "Stable")

    successor = await CoordinatorHarness(harness.memory).start()
    elsewhere = successor.group_client()
    for member, error in ((new, ErrorCode.NONE), (b, ErrorCode.FENCED_INSTANCE_ID)):
        member.requests = elsewhere
        assert member.heartbeat().error is error
    await successor.stop()


async def test_when_the_new_id_cannot_be_written_the_old_one_stays_valid(
    harness: CoordinatorHarness,
) -> None:
    """B28, KAFKA-18263. The tenure ends; after it the group is what the log says."""
    group_client = harness.group_client()
    a, b = group_client.member("a", "i-a"), group_client.member("b", "i-b", session=SESSION_MS)
    await group_client.settled(a, b)
    partition = harness.partition("group")
    harness.memory.fail_next(partition.index, OutcomeUnknown("the test says so"))
    new = b.restarted()
    request = new.join()
    await settle()
    assert request.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await opened(partition)
    assert a.heartbeat().error is b.heartbeat().error is ErrorCode.NONE
    assert harness.live_state_is_what_the_log_says()

    request = new.join()
    await settle()
    assert (request.joined.generation, group_client.state) == (1, "Stable")
    assert b.heartbeat().error is ErrorCode.FENCED_INSTANCE_ID
    # The timers of the tenure that ended, and of the id that was replaced, are void.
    harness.timers.advance(SESSION_MS - 1)
    assert (a.heartbeat().error, new.heartbeat().error) == (ErrorCode.NONE, ErrorCode.NONE)


@pytest.mark.parametrize("skips", [True, False])
def test_a_static_leader_that_returns_is_not_made_to_assign(*, skips: bool) -> None:
    """B29, KAFKA-13435. From v9 on it is told to skip, before that its old self leads."""
    harness, (a, b) = statics("a", "b", skips=skips)
    new = a.restarted()
    joined = new.join().joined
    if skips:
        assert (joined.leader, joined.skip_assignment) == (new.member_id, True)
        assert {member_id for member_id, _, _ in joined.members} == {new.member_id, b.member_id}
    else:
        assert (joined.leader, joined.skip_assignment) == (a.member_id, False)
        assert joined.members == ()
    assert new.sync().assignment == b"a"
    assert (harness.state, harness.generation) == ("Stable", 1)


def test_of_two_blind_rejoins_the_one_handled_last_wins() -> None:
    """B30, KAFKA-20985. The other is told that it is fenced, and the event says who came."""
    harness, (a, b, c) = statics("a", "b", "c")
    a.join()
    live, abandoned = b.restarted(), b.restarted()
    fenced = live.join()
    last = abandoned.join()
    assert fenced.rule is Rule.INSTANCE_REPLACED
    assert fenced.error is ErrorCode.FENCED_INSTANCE_ID
    c.join()
    harness.sync_all(a, abandoned, c)
    assert last.joined.generation == 2
    assert live.heartbeat().error is ErrorCode.FENCED_INSTANCE_ID
    rounds = [r for r in harness.rebalances[-1].rounds if r.reason == "static_replaced"]
    assert {r.culprit.group_instance_id for r in rounds} == {"i-b"}
    assert rounds[-1].culprit.member_id == abandoned.member_id
    assert len(rounds) == 2


def test_the_rebalance_timeout_removes_dynamic_members_only() -> None:
    """B31, KAFKA-8220. An absent leader is replaced by a member that has joined."""
    harness = GroupHarness()
    leader = harness.member("leader", "i-leader", session=3 * REBALANCE_MS)
    static = harness.member("static", "i-static", session=3 * REBALANCE_MS)
    dynamic = harness.member("dynamic", session=3 * REBALANCE_MS)
    here = harness.member("here")
    harness.settle(leader, static, dynamic, here)
    request = here.join(protocols=(("range", b"news"),))
    harness.advance(REBALANCE_MS)
    assert harness.removed == [("dynamic", "join_timeout")]
    assert (request.joined.generation, request.joined.leader) == (2, here.member_id)
    assert {name for _, name, _ in request.joined.members} == {"i-leader", "i-static", None}


def test_a_generation_begins_only_when_somebody_has_joined() -> None:
    """B31, KAFKA-8220. While only absent static members are there, the join phase goes on."""
    harness, (a, b) = statics("a", "b", session=5 * REBALANCE_MS)
    dynamic = harness.member("d", known=False)
    dynamic.join()
    dynamic.member_id = next(m for m in harness.classic.members if m.startswith("d-"))
    dynamic.leave()
    for _ in range(3):
        harness.advance(REBALANCE_MS)
        assert (harness.state, harness.generation) == ("PreparingRebalance", 1)
    assert harness.removed == [("d", "left")]
    a.join()
    assert b.join().joined.generation == 2


def test_a_static_member_that_was_removed_leaves_nothing_behind_in_the_log() -> None:
    """B39, franz-go TestPersistStaticMemberDeleteCrash. No phantom owns its instance id."""
    harness, (a, b) = statics("a", "b")
    b.leave()
    a.join()
    harness.sync_all(a)
    harness.restart()
    assert harness.classic.static_members == {"i-a": a.member_id}
    assert b.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID
    value = harness.durable
    assert isinstance(value, GroupMetadataValue)
    assert [m.group_instance_id for m in value.members] == ["i-a"]
