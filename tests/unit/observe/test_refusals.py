"""Refused requests: the latest first, equal ones folded, bounded."""

from dataclasses import replace

from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    RebalanceStarted,
    Refused,
    RemovalReason,
)
from coordinator_server.observe.forms import refusal_form
from coordinator_server.observe.refusals import MAX_REMOVED, Refusals, place_of

DETAIL = "it sent generation 7, the group is at 8 since 2026-11-21T12:00:00.000+00:00"


def refused(group: str = "orders", member: str = "m", at_ms: int = 1_000) -> Refused:
    who = Culprit(member, None, "client", "/10.0.0.1")
    rule = "generation_differs"
    return Refused(at_ms, group, "Heartbeat", "ILLEGAL_GENERATION", rule, DETAIL, who)


def told(refusals: Refusals, *observations: Refused) -> None:
    """As the coordinator tells: what is folded is not announced."""
    for observation in observations:
        if not refusals.fold(observation.group_id, place_of(observation), observation.at_ms):
            refusals.observe(observation)


def test_equal_refusals_are_one_that_happened_more_often() -> None:
    refusals = Refusals(lambda: 0)
    told(refusals, refused(at_ms=1_000), refused(member="n", at_ms=1_500), refused(at_ms=2_000))
    assert refusal_form(refusals.of("orders")[0]) == {
        "at_ms": 2_000,
        "group": "orders",
        "api": "Heartbeat",
        "error": "ILLEGAL_GENERATION",
        "rule": "generation_differs",
        "detail": DETAIL,
        "member": {
            "member_id": "m",
            "group_instance_id": None,
            "client_id": "client",
            "client_host": "/10.0.0.1",
        },
        "of_all": False,
        "removed": None,
        "count": 2,
        "first_ms": 1_000,
    }
    assert [refusal.first.member.member_id for refusal in refusals.of("orders")] == ["m", "n"]


def test_the_oldest_kinds_of_a_group_are_forgotten_first() -> None:
    refusals = Refusals(lambda: 0, max_refusals=2)
    told(refusals, *(refused(member=name) for name in "abac"))
    assert [refusal.first.member.member_id for refusal in refusals.of("orders")] == ["c", "a"]


def test_the_group_that_refused_longest_ago_is_forgotten_first() -> None:
    refusals = Refusals(lambda: 0, max_groups=2)
    told(refusals, *(refused(group=name, member=name * 2) for name in ("x", "y")))
    told(refusals, refused(group="x", member="new"), refused(group="z"))
    assert [len(refusals.of(name)) for name in ("x", "y", "z", "never")] == [2, 0, 1, 0]


def test_what_is_no_refusal_is_not_kept(started: RebalanceStarted) -> None:
    refusals = Refusals(lambda: 0)
    refusals.observe(started)
    assert refusals.of("orders") == []


UUIDS = [f"{number:08x}-0000-4000-8000-000000000000" for number in range(3)]


def unknown(member: str) -> Refused:
    detail = f"{member!r} is no member"
    who = Culprit(member, None, "", "")
    return Refused(2_000, "orders", "Heartbeat", "UNKNOWN_MEMBER_ID", "member_unknown", detail, who)


def test_a_client_that_is_unknown_under_ever_new_ids_is_one_refusal() -> None:
    refusals = Refusals(lambda: 1_500)
    told(refusals, *(unknown(f"slow-9-{uuid}") for uuid in UUIDS), unknown("slow-9"), unknown("x"))
    stranger, same = refusals.of("orders")
    assert (stranger.count, same.count) == (1, 4)
    assert (same.member.member_id, same.detail) == ("slow-9", "'slow-9' is no member")
    assert same.first.member.member_id == f"slow-9-{UUIDS[0]}"


def test_an_unknown_member_that_was_removed_is_told_when_and_why() -> None:
    refusals = Refusals(lambda: 1_500)
    slow = Culprit(f"slow-9-{UUIDS[1]}", None, "slow-9", "/10.0.0.7")
    told(refusals, unknown(f"slow-9-{UUIDS[0]}"))
    (refusal,) = refusals.of("orders")
    assert refusal_form(refusal)["removed"] is None
    refusals.observe(MemberRemoved("orders", RemovalReason.SESSION_EXPIRED, slow))
    told(refusals, unknown(slow.member_id))
    form = refusal_form(refusals.of("orders")[0])
    assert form["removed"] == {"at_ms": 1_500, "reason": "session_expired"}
    assert form["member"] == slow._asdict()
    assert form["count"] == 2


def test_a_refusal_of_all_names_who_was_first_and_says_that_all_got_it() -> None:
    refusals = Refusals(lambda: 0)
    first, second = (replace(refused(member=name), of_all=True) for name in "ab")
    told(refusals, first, second)
    form = refusal_form(refusals.of("orders")[0])
    assert (form["of_all"], form["count"], form["member"]["member_id"]) == (True, 2, "a")


def test_who_was_removed_is_remembered_within_bounds() -> None:
    refusals = Refusals(lambda: 1_500, max_groups=1)
    for number in range(MAX_REMOVED + 1):
        who = Culprit(f"m{number}", None, "m", "/10.0.0.7")
        refusals.observe(MemberRemoved("orders", RemovalReason.LEFT, who))
    told(refusals, unknown("m0"), unknown("m1"))
    assert [bool(each.removed) for each in refusals.of("orders")] == [True, False]
    refusals.observe(MemberRemoved("other", RemovalReason.LEFT, who))
    told(refusals, unknown("m2"))
    assert refusals.of("orders")[0].removed is None
