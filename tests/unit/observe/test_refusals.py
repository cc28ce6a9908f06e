"""Refused requests: the latest first, equal ones folded, bounded."""

from coordinator_server.group.reasons import Culprit, RebalanceStarted, Refused
from coordinator_server.observe.forms import refusal_form
from coordinator_server.observe.refusals import Refusals, place_of

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
    refusals = Refusals()
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
        "count": 2,
        "first_ms": 1_000,
    }
    assert [refusal.first.member.member_id for refusal in refusals.of("orders")] == ["m", "n"]


def test_the_oldest_kinds_of_a_group_are_forgotten_first() -> None:
    refusals = Refusals(max_refusals=2)
    told(refusals, *(refused(member=name) for name in "abac"))
    assert [refusal.first.member.member_id for refusal in refusals.of("orders")] == ["c", "a"]


def test_the_group_that_refused_longest_ago_is_forgotten_first() -> None:
    refusals = Refusals(max_groups=2)
    told(refusals, *(refused(group=name, member=name * 2) for name in ("x", "y")))
    told(refusals, refused(group="x", member="new"), refused(group="z"))
    assert [len(refusals.of(name)) for name in ("x", "y", "z", "never")] == [2, 0, 1, 0]


def test_what_is_no_refusal_is_not_kept(started: RebalanceStarted) -> None:
    refusals = Refusals()
    refusals.observe(started)
    assert refusals.of("orders") == []
