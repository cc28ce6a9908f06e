"""Members that join: what other coordinators got wrong."""

from functools import partial

import pytest

from coordinator_protocol.errors import ErrorCode
from coordinator_server.group.context import Limits
from coordinator_server.group.effects import Described, Refuse
from coordinator_server.group.events import Describe, Leave, LeavingMember
from coordinator_server.group.rebalance_events import RebalanceReason
from tests.support.group_harness import DELAY_MS, REBALANCE_MS, SESSION_MS, GroupHarness, Request
from tests.support.large_group import LargeGroup, bytecodes

NEW_MEMBER_MS = 300_000
DAY_MS = 24 * 60 * 60 * 1000


def test_retried_joins_of_an_old_client_do_not_pile_up() -> None:
    """B2, KAFKA-7610, ruby-kafka #941. The rebalance outlasts the client's patience."""
    harness = GroupHarness()
    (slow,) = harness.stable("slow", rebalance=4 * NEW_MEMBER_MS, session=2 * NEW_MEMBER_MS)
    requests, most = [], 0
    for number in range(30):
        requests.append(harness.member(f"try {number}", known=False).join())
        harness.advance(60_000)
        if number % 5 == 0:
            slow.heartbeat()
        most = max(most, len(harness.classic.members))
    assert most <= 1 + NEW_MEMBER_MS // 60_000
    given_up = [r for r in requests if not r.is_parked and r.result is not None]
    assert {r.error for r in given_up[:10]} == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_retried_joins_that_have_to_come_back_make_no_members() -> None:
    """B2, KAFKA-7610. From v4 on only ids are handed out, and they expire."""
    harness = GroupHarness()
    for _ in range(20):
        request = harness.member("retry").join()
        assert request.error is ErrorCode.MEMBER_ID_REQUIRED
    assert (harness.state, len(harness.classic.members)) == ("Empty", 0)
    harness.advance(SESSION_MS)
    assert not harness.classic.pending


@pytest.mark.parametrize("end", ["joins", "expires", "leaves"])
def test_the_join_phase_ends_as_soon_as_the_pending_member_is_settled(end: str) -> None:
    """B3, KAFKA-7909. Not at the rebalance timeout, whichever way it goes."""
    harness = GroupHarness()
    a, b = harness.stable("a", "b")
    late = harness.member("late")
    late.join()
    first, second = a.join(), b.join()
    third = harness.member("third", known=False).join()
    assert first.is_parked
    assert third.is_parked
    # In Stable the leader's JoinGroup has begun a rebalance; the follower's is part of it.
    assert second.is_parked
    match end:
        case "joins":
            assert late.join().joined.generation == 2
        case "expires":
            harness.advance(SESSION_MS)
        case "leaves":
            late.leave()
    assert first.joined.generation == second.joined.generation == third.joined.generation == 2


def test_a_pending_member_that_never_comes_back_expires_by_the_session_it_asked_for() -> None:
    """B4, redpanda #3761."""
    harness = GroupHarness()
    (a,) = harness.stable("a")
    harness.member("never", session=6_500).join()
    request = a.join()
    harness.advance(6_499)
    assert request.is_parked
    harness.advance(1)
    assert request.joined.generation == 2
    assert harness.removed == [("never", "pending_expired")]


def test_a_group_whose_last_member_expires_beside_a_pending_one_becomes_empty() -> None:
    """B5, redpanda #25270. The rebalance timeout of no members is 0."""
    harness = GroupHarness()
    harness.stable("a")
    harness.advance(SESSION_MS - 5)
    pending = harness.member("pending")
    pending.join()
    harness.advance(10)
    assert (harness.state, harness.generation) == ("Empty", 2)
    assert pending.join().is_parked
    harness.advance(DELAY_MS)
    assert pending.generation == 3


def test_an_abandoned_member_id_frees_the_group_when_it_is_given_up() -> None:
    """B6, librdkafka #5569, librdkafka #5570. LeaveGroup takes an id that was never used."""
    harness = GroupHarness()
    twice = harness.member("twice")
    twice.join()
    abandoned = twice.member_id
    twice.member_id = ""
    twice.join()
    (other,) = harness.stable("other")
    request = other.join()
    assert request.is_parked
    assert twice.join().is_parked
    harness.leave(LeavingMember(abandoned, None))
    assert request.joined.generation == 2


def test_a_member_can_be_removed_twice_and_its_successor_not_by_its_timer() -> None:
    """B9, franz-go #1437. Books and timers follow the id that is in force."""
    harness = GroupHarness()
    (static, other) = (harness.member("s", "i-s"), harness.member("other"))
    harness.settle(static, other)
    harness.advance(SESSION_MS - 1)
    other.heartbeat()
    new = static.restarted()
    new.join()
    harness.advance(SESSION_MS - 1)  # the deadline of the replaced id lies in between
    assert new.heartbeat().error is ErrorCode.NONE
    assert harness.classic.remove(static.member_id) is None
    gone = harness.classic.members[other.member_id]
    harness.leave(LeavingMember(other.member_id, None), LeavingMember(other.member_id, None))
    assert harness.classic.remove(gone.member_id) is None
    harness.check()
    assert set(harness.classic.members) == {new.member_id}


@pytest.mark.parametrize("way", ["leaves", "expires"])
def test_the_join_phase_ends_when_the_last_absent_member_is_gone(way: str) -> None:
    """B10, kop #380."""
    harness = GroupHarness()
    a, b = harness.stable("a", "b")
    request = a.join()
    assert request.is_parked
    if way == "leaves":
        b.leave()
    else:
        harness.advance(SESSION_MS)
    assert request.joined.generation == 2


def test_a_join_repeated_while_it_waits_takes_the_place_of_the_first() -> None:
    """B11, redpanda #3300. It neither fails nor leaves the first without an answer."""
    harness = GroupHarness()
    a, b = harness.stable("a", "b")
    requests = [a.join() for _ in range(4)]
    assert [r.error for r in requests[:3]] == [ErrorCode.REBALANCE_IN_PROGRESS] * 3
    assert b.join().joined.generation == requests[3].joined.generation == 2


@pytest.mark.parametrize("silent", ["leader", "follower"])
def test_a_member_that_heartbeats_and_never_syncs_does_not_hold_the_group(silent: str) -> None:
    """B13, KAFKA-12890. Its time is the rebalance timeout from the end of the join phase."""
    harness = GroupHarness()
    a, b = harness.member("a"), harness.member("b")
    a.enter()
    b.enter()
    harness.advance(2 * DELAY_MS)
    assert harness.state == "CompletingRebalance"
    leader, follower = sorted((a, b), key=lambda m: m.member_id != harness.classic.leader)
    late, good = (leader, follower) if silent == "leader" else (follower, leader)
    synced = good.sync({good: b"all"} if good is leader else None)
    began = harness.now - DELAY_MS
    while harness.now + SESSION_MS // 2 < began + REBALANCE_MS:
        harness.advance(SESSION_MS // 2)
        late.heartbeat()
        if not synced.is_parked:
            good.heartbeat()
    harness.advance(SESSION_MS // 2)
    assert harness.removed == [(late.name, "sync_timeout")]
    if silent == "leader":
        assert synced.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert good.join().joined.leader == good.member_id


def test_heartbeats_are_answered_by_state_and_keep_the_session() -> None:
    """B14, Kafka's own source. What clients of every age expect."""
    harness = GroupHarness()
    a, b = harness.stable("a", "b")
    assert a.heartbeat().error is ErrorCode.NONE
    request = a.join()
    for _ in range(3):
        harness.advance(SESSION_MS - 1)
        assert b.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    b.join()
    assert request.joined.generation == 2
    for _ in range(3):
        harness.advance(SESSION_MS - 1)
        assert a.heartbeat().error is b.heartbeat().error is ErrorCode.NONE
    harness.leave(LeavingMember(a.member_id, None), LeavingMember(b.member_id, None))
    assert harness.state == "Empty"
    assert a.heartbeat().error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_for_newcomers_within_the_rebalance_timeout() -> None:
    """B15, KAFKA-4925. KIP-134: each round of newcomers extends it once more."""
    harness = GroupHarness()
    begun = harness.now
    requests = [harness.member("m0", rebalance=10_000).enter()]
    while requests[0].is_parked:
        harness.advance(DELAY_MS - 1)
        if requests[0].is_parked:
            requests.append(harness.member(f"m{len(requests)}", rebalance=10_000).enter())
        harness.advance(1)
    assert harness.now - begun <= 10_000 + DELAY_MS
    assert len(requests) > 2
    assert {r.joined.generation for r in requests} == {1}


def test_without_a_delay_the_first_member_is_answered_at_once() -> None:
    """B15, KAFKA-4925."""
    harness = GroupHarness(limits=Limits(initial_rebalance_delay_ms=0))
    request = harness.member("a").enter()
    harness.advance(0)
    assert request.joined.generation == 1


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("consumer", ()), ("", (("range", b""),)), ("", ())]
)
def test_a_first_member_without_protocols_does_not_poison_the_group(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    """B16, KAFKA-6005."""
    harness = GroupHarness()
    bad = harness.member("bad", protocol_type=protocol_type, protocols=protocols)
    assert bad.enter().error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    harness.stable("good")
    assert harness.state == "Stable"


def test_of_too_many_members_the_last_to_join_are_refused() -> None:
    """B17, KAFKA-9885, KAFKA-7641. Whoever waits already stays."""
    harness = GroupHarness(limits=Limits(group_max_size=2))
    members = [harness.member(name) for name in "abcd"]
    for member in members:
        assert member.join().error is ErrorCode.MEMBER_ID_REQUIRED
    requests = [member.join() for member in members]
    assert [r.is_parked for r in requests] == [True, True, False, False]
    assert {r.error for r in requests[2:]} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    harness.advance(2 * DELAY_MS)
    assert {r.joined.generation for r in requests[:2]} == {1}


def test_a_lowered_limit_turns_away_just_as_many_as_are_too_many() -> None:
    """B17, KAFKA-9885. Not more of them for the server having been restarted in between."""
    harness = GroupHarness()
    members = harness.stable("a", "b", "c", "d")
    harness.limits = Limits(group_max_size=3)
    for _ in range(2):
        harness.restart()
        assert harness.state == "PreparingRebalance"
    requests = [member.join() for member in members]
    assert [r.error for r in requests] == [*[ErrorCode.NONE] * 3, ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert harness.started[-1].reason is RebalanceReason.OVER_CAPACITY


def test_a_second_member_makes_the_first_rejoin_and_both_are_assigned() -> None:
    """B58, nisshi #625."""
    harness = GroupHarness()
    (first,) = harness.stable("first")
    second = harness.member("second")
    waiting = second.enter()
    assert first.heartbeat().error is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.join().joined.leader == first.member_id
    assert waiting.joined.generation == 2
    assert second.heartbeat().error is ErrorCode.NONE
    parked = second.sync()
    assert first.sync({first: b"0,1", second: b"2"}).assignment == b"0,1"
    assert parked.assignment == b"2"
    assert (harness.state, harness.removed) == ("Stable", [])


@pytest.mark.parametrize(
    ("who", "metadata", "rebalances"),
    [
        ("follower", b"r", False),
        ("follower", b"news", True),
        ("leader", b"r", True),
        ("leader", b"news", True),
    ],
)
def test_who_rejoins_a_stable_group_with_what_decides_whether_it_rebalances(
    who: str, metadata: bytes, *, rebalances: bool
) -> None:
    """B59, franz-go TestGroupRebalanceOnNonLeaderMetadataChange."""
    harness = GroupHarness()
    leader, follower = harness.stable("leader", "follower")
    member = leader if who == "leader" else follower
    request = member.join(protocols=(("range", metadata),))
    assert request.is_parked is rebalances
    assert (harness.state == "PreparingRebalance") is rebalances
    if not rebalances:
        joined = request.joined
        assert (joined.generation, joined.leader, joined.members) == (1, leader.member_id, ())


def test_the_protocol_is_one_all_support_in_the_order_members_prefer() -> None:
    """B62, sarama CHANGELOG, kafkajs #27."""
    harness = GroupHarness()
    offers = ("range sticky roundrobin", "sticky range", "sticky range own")
    members = [
        harness.member(name, protocols=[(p, p.encode()) for p in offer.split()])
        for name, offer in zip("abc", offers, strict=True)
    ]
    requests = [member.enter() for member in members]
    harness.advance(2 * DELAY_MS)
    assert {r.joined.protocol_name for r in requests} == {"sticky"}
    assert {metadata for r in requests for _, _, metadata in r.joined.members} == {b"sticky"}
    refused = harness.member("d", protocols=[("roundrobin", b"")]).enter()
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_clients_reason_is_cut_and_never_a_label() -> None:
    """B57, KAFKA-13783, kafka #11971. A hostile client sends 32 KiB."""
    harness = GroupHarness()
    (a,) = harness.stable("a")
    long = "because " * 4_096
    harness.member("new", known=False).join(long)
    request = Request("LeaveGroup")
    harness.send(Leave(request, [LeavingMember(a.member_id, None, long)]), request)
    told = [harness.started[-1].client_reason, *(r.client_reason for r in harness.rebalances)]
    assert {len(reason) for reason in told if reason is not None} == {255}
    assert harness.started[-1].reason in set(RebalanceReason)


def test_whoever_is_removed_while_it_waits_is_told() -> None:
    """B2, KAFKA-7610. Each of the retried requests gets its one answer."""
    harness = GroupHarness()
    requests = [harness.member(f"m{n}", known=False).join() for n in range(3)]
    harness.leave(*(LeavingMember(member_id, None) for member_id in harness.classic.members))
    assert all(isinstance(r.result, Refuse) for r in requests)


def test_a_group_of_thousands_gets_through_every_phase_and_is_described_meanwhile() -> None:
    """B23, KAFKA-7142, redpanda #4327. The cost of a JoinGroup does not grow with the group."""
    large_group = LargeGroup(3_000)
    large_group.settle()
    costs: list[int] = []
    large_group.join("", "new", requires_known_member_id=False)
    for member_id in large_group.members[:-1]:
        costs.append(
            bytecodes(partial(large_group.join, member_id)) if len(costs) % 500 == 0 else 0
        )
        if not costs[-1]:
            large_group.join(member_id)
    described = large_group.answers[large_group.ask(Describe)]
    assert isinstance(described, Described)
    assert (described.state, len(described.members)) == ("PreparingRebalance", 3_001)
    measured = [cost for cost in costs if cost]
    assert max(measured) < 2 * min(measured)
    large_group.join(large_group.members[-1])
    assert large_group.state == "CompletingRebalance"
    large_group.generation, large_group.leader = 2, large_group.classic.leader or ""
    large_group.sync_all()
    assert large_group.state == "Stable"
