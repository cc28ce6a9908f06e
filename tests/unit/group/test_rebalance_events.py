"""Why a group rebalanced, who caused it, and what it cost: the events as data."""

from collections.abc import Callable

import pytest

from coordinator_server.group.classic.history import MAX_NAMED, MAX_ROUNDS
from coordinator_server.group.context import Limits
from coordinator_server.group.events import LeavingMember
from coordinator_server.group.rebalance_events import (
    Counts,
    Culprit,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    RebalanceStarted,
    Waited,
)
from tests.support.group_harness import DELAY_MS, REBALANCE_MS, GroupHarness, Member

NEWS = (("range", b"news"),)
Happening = Callable[[GroupHarness, Member, Member], Member]
"""Disturbs a Stable group of two and says who did it."""


def newcomer(story: GroupHarness, _a: Member, _b: Member) -> Member:
    c = story.member("c")
    c.enter("to work")
    return c


def goes(_story: GroupHarness, _a: Member, b: Member) -> Member:
    b.leave("to sleep")
    return b


def is_removed(story: GroupHarness, _a: Member, b: Member) -> Member:
    story.leave(LeavingMember("", b.instance, "to be rid of it"))
    return b


def falls_silent(story: GroupHarness, a: Member, b: Member) -> Member:
    story.advance(5_000)
    a.heartbeat()
    story.advance(5_000)
    return b


def leads_again(_story: GroupHarness, a: Member, _b: Member) -> Member:
    a.join("partitions were added")
    return a


def has_news(_story: GroupHarness, _a: Member, b: Member) -> Member:
    b.protocols = NEWS
    b.join("another subscription")
    return b


def restarts(_story: GroupHarness, a: Member, b: Member) -> Member:
    new = b.restarted()
    new.protocols = (("roundrobin", b""),)
    new.join("deployed")
    a.join()  # which lets the new one learn its id
    return new


def pending_leaves(story: GroupHarness, _a: Member, _b: Member) -> Member:
    c = story.member("c")
    c.join()
    c.leave("changed its mind")
    return c


@pytest.mark.parametrize(
    ("happens", "reason", "client_reason"),
    [
        (newcomer, RebalanceReason.MEMBER_JOINED, "to work"),
        (goes, RebalanceReason.MEMBER_LEFT, "to sleep"),
        (is_removed, RebalanceReason.ADMIN_REMOVED, "to be rid of it"),
        (falls_silent, RebalanceReason.SESSION_EXPIRED, None),
        (leads_again, RebalanceReason.LEADER_REJOINED, "partitions were added"),
        (has_news, RebalanceReason.METADATA_CHANGED, "another subscription"),
        (restarts, RebalanceReason.STATIC_REPLACED, "deployed"),
        (pending_leaves, RebalanceReason.MEMBER_LEFT, "changed its mind"),
    ],
)
def test_a_rebalance_begins_with_its_reason_and_culprit(
    happens: Happening, reason: RebalanceReason, client_reason: str | None
) -> None:
    protocols = (("range", b""), ("roundrobin", b""))
    story = GroupHarness()
    a = story.member("a", protocols=protocols)
    b = story.member("b", "two", protocols=protocols)
    story.settle(a, b)
    before = len(story.started)
    culprit = happens(story, a, b)
    assert story.started[before:] == [
        RebalanceStarted(
            group_id="group",
            reason=reason,
            client_reason=client_reason,
            culprit=Culprit(culprit.member_id, culprit.instance, culprit.name, f"/{culprit.name}"),
            generation=1,
            members=2,
            started_ms=story.wall,
        )
    ]


def test_a_first_rebalance_tells_everything() -> None:
    story = GroupHarness()
    began = story.wall
    a = story.member("a")
    a.enter("hello")
    story.advance(1_000)
    b = story.member("b")
    b.enter()
    story.advance(5_000)
    story.advance(250)
    story.sync_all(a, b)
    who = [Culprit(m.member_id, None, m.name, f"/{m.name}") for m in (a, b)]
    (event,) = story.rebalances
    assert event == RebalanceEvent(
        group_id="group",
        reason=RebalanceReason.MEMBER_JOINED,
        client_reason="hello",
        culprit=who[0],
        state_before="Empty",
        outcome=Outcome.COMPLETED,
        generation_before=0,
        generation_after=1,
        started_ms=began,
        ended_ms=began + 6_250,
        join_phase_ms=6_000,
        sync_phase_ms=250,
        members_before=0,
        members_after=2,
        joined=tuple(who),
        left=(),
        evicted=(),
        waited_for=(Waited(who[0], 250),),
        rounds=event.rounds,
        counts=Counts(joined=2, left=0, evicted=0, waited_for=1, rounds=2),
        sequence=0,
    )
    assert [(r.reason.value, r.culprit) for r in event.rounds] == [
        ("member_joined", who[0]),
        ("member_joined", who[1]),
    ]


def test_the_last_to_join_is_the_one_who_was_waited_for() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    c = story.member("c")
    c.enter()
    story.advance(2_000)
    b.join()
    story.advance(3_000)
    a.join()
    story.sync_all(a, b, c)
    event = story.rebalances[-1]
    assert [who.member.client_id for who in event.waited_for] == ["a"]
    assert (event.join_phase_ms, event.members_before, event.members_after) == (5_000, 2, 3)


def test_those_who_did_not_come_are_named_once_however_often_they_were_waited_for() -> None:
    story = GroupHarness()
    a = story.member("a", "one", session=1_800_000)
    b, c = story.member("b", "two", session=1_800_000), story.member("c")
    story.settle(a, b, c)
    c.leave()
    story.advance(2 * REBALANCE_MS)
    b.join()
    story.advance(REBALANCE_MS)
    b.sync()
    event = story.rebalances[-1]
    assert [who.member.client_id for who in event.waited_for] == ["a", "b"]
    assert event.evicted == ()
    assert event.join_phase_ms == 3 * REBALANCE_MS


def test_a_member_that_left_while_it_was_the_last_was_not_waited_for() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    b.protocols = NEWS
    b.join()
    a.join()
    a.leave()
    c.leave()
    b.sync()
    event = story.rebalances[-1]
    assert event.waited_for == ()
    assert [who.client_id for who in event.left] == ["a", "c"]


def test_what_sets_a_rebalance_back_is_a_round_of_it() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    c, d = story.member("c"), story.member("d")
    c.enter("first")
    d.enter("second")
    b.leave("third")
    a.join()
    c.protocols = NEWS
    c.join("fourth")
    story.advance(1_000)
    a.join(), d.join()
    story.sync_all(a, c, d)
    event = story.rebalances[-1]
    assert [(r.reason.value, r.client_reason) for r in event.rounds] == [
        ("member_joined", "first"),
        ("member_joined", "second"),
        ("member_left", "third"),
        ("metadata_changed", "fourth"),
    ]
    assert (event.generation_before, event.generation_after) == (1, 3)
    assert (event.reason, event.client_reason) == (RebalanceReason.MEMBER_JOINED, "first")
    assert [who.client_id for who in event.joined] == ["c", "d"]
    assert [who.client_id for who in event.left] == ["b"]
    assert len(story.started) == 2


def test_members_that_expire_or_never_join_are_evicted() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c", rebalance=8_000)
    a.protocols = NEWS
    a.join()
    story.advance(5_000)
    b.heartbeat()
    story.advance(3_000)
    a.sync()
    event = story.rebalances[-1]
    assert [who.client_id for who in event.evicted] == ["b", "c"]
    assert [who.member.client_id for who in event.waited_for] == ["b", "c"]
    assert event.members_after == 1
    assert c.member_id not in story.classic.members


def test_a_sync_timeout_goes_on_as_a_round() -> None:
    story = GroupHarness()
    a, b = (story.member(name, session=60_000, rebalance=20_000) for name in "ab")
    a.enter(), b.enter()
    story.advance(2 * DELAY_MS)
    b.sync()
    story.advance(20_000)
    b.join()
    b.sync({b: b""})
    (event,) = story.rebalances
    assert [r.reason.value for r in event.rounds] == [
        "member_joined",
        "member_joined",
        "sync_timeout",
    ]
    assert event.rounds[-1].culprit.client_id == "a"
    assert [who.member.client_id for who in event.waited_for] == ["a"]
    assert event.generation_after == 2


def test_an_assignment_too_large_is_a_round_with_its_size() -> None:
    story = GroupHarness(limits=Limits(max_append_bytes=1_000))
    a = story.member("a")
    a.enter()
    story.advance(DELAY_MS)
    a.sync({a: b"x" * 1_000})
    a.join()
    a.sync({a: b"x"})
    (event,) = story.rebalances
    assert event.rounds[-1].reason is RebalanceReason.ASSIGNMENT_APPEND_FAILED
    assert "the log takes 1000" in (event.rounds[-1].client_reason or "")


def test_a_pending_member_that_expires_is_a_round() -> None:
    story = GroupHarness()
    (a,) = story.stable("a", session=60_000)
    b = story.member("b")
    b.enter()
    story.member("c").join()
    a.join()
    story.advance(10_000)
    story.sync_all(a, b)
    assert [r.reason.value for r in story.rebalances[-1].rounds] == [
        "member_joined",
        "pending_expired",
    ]


def test_a_group_that_is_emptied_ends_its_rebalance() -> None:
    story = GroupHarness()
    (a,) = story.stable("a")
    a.leave("bye")
    event = story.rebalances[-1]
    assert (event.outcome, event.state_before) == (Outcome.EMPTIED, "Stable")
    assert (event.generation_before, event.generation_after) == (1, 2)
    assert (event.members_before, event.members_after) == (1, 0)
    assert (event.join_phase_ms, event.sync_phase_ms) == (0, 0)


@pytest.mark.parametrize("phase", ["join", "sync"])
def test_the_end_of_a_tenure_aborts_the_rebalance_under_way(phase: str) -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    a.join()
    story.advance(1_000)
    if phase == "sync":
        b.join()
        story.advance(500)
    (event,) = story.group.abort(story.context()).observed
    assert isinstance(event, RebalanceEvent)
    assert event.outcome is Outcome.ABORTED
    assert event.join_phase_ms == 1_000
    assert event.sync_phase_ms == (500 if phase == "sync" else 0)
    assert event.generation_after == (2 if phase == "sync" else 1)


def test_a_group_at_rest_has_nothing_to_abort() -> None:
    story = GroupHarness()
    assert story.group.abort(story.context()).observed == []
    story.stable("a")
    assert story.group.abort(story.context()).observed == []


@pytest.mark.parametrize(
    ("said", "kept"), [(None, None), ("", ""), ("x" * 255, "x" * 255), ("x" * 32_000, "x" * 255)]
)
def test_a_clients_reason_is_cut(said: str | None, kept: str | None) -> None:
    story = GroupHarness()
    a, b = story.member("a"), story.member("b")
    a.enter(said)
    b.enter(said)
    assert story.started[0].client_reason == kept
    story.advance(2 * DELAY_MS)
    story.sync_all(a, b)
    assert [r.client_reason for r in story.rebalances[0].rounds] == [kept, kept]


def test_an_event_names_no_more_than_it_can_carry() -> None:
    story = GroupHarness()
    members = [story.member(f"m{i}", known=False) for i in range(MAX_NAMED + 20)]
    for member in members:
        member.join()
    story.advance(2 * DELAY_MS)
    story.sync_all(*members)
    (event,) = story.rebalances
    assert event.members_after == MAX_NAMED + 20
    assert len(event.joined) == MAX_NAMED
    assert len(event.rounds) == MAX_ROUNDS


def test_removals_are_told_with_their_reasons() -> None:
    story = GroupHarness()
    a, b, c = story.stable("a", "b", "c")
    c.leave()
    a.join()
    for _ in range(12):
        story.advance(5_000)
        b.heartbeat()
    assert story.removed == [("c", "left"), ("b", "join_timeout")]


def test_a_stable_group_does_not_rebalance_for_nothing() -> None:
    story = GroupHarness()
    a, b = story.stable("a", "b")
    before = list(story.observed)
    for _ in range(10):
        story.advance(5_000)
        a.heartbeat(), b.heartbeat()
        b.join(), b.sync()
    assert story.observed == before
