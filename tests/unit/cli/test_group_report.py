"""`groups why` shows findings, refused requests and folded rebalances on one page."""

from collections.abc import Iterable
from typing import Any

import pytest

from coordinator_server.cli.group_report import when, why_lines
from coordinator_server.cli.member_names import MemberNames
from tests.support.canned_http import ANSWERS, EVENT, REFUSAL
from tests.support.commandline import invoke

START = 1_700_000_000_000
UUIDS = [f"{number:04x}{number:04x}-0000-4000-8000-{number:012x}" for number in range(100)]
SENTENCE = "client 'batch-7' made group 'g' rebalance 38 times"


def member(uuid: str, client: str = "batch-7", instance: str | None = None) -> dict[str, Any]:
    return {
        "member_id": f"{instance or client}-{uuid}",
        "group_instance_id": instance,
        "client_id": client,
        "client_host": "/10.0.0.7",
    }


def rebalance(number: int, reason: str, culprit: dict[str, Any], **more: Any) -> dict[str, Any]:
    cause = {"reason": reason, "culprit": culprit, "client_reason": None}
    start = START + number * 1_000
    empty: dict[str, Any] = {"joined": [culprit], "evicted": [], "waited_for": []}
    return {**EVENT, **empty, **cause, "started_ms": start, "rounds": [cause], **more}


def report(events: Iterable[dict[str, Any]], limit: int = 10, **more: Any) -> list[str]:
    answer: dict[str, Any] = {"group": "g", "state": None, "findings": [], "refusals": []}
    return list(why_lines({**answer, "rebalances": list(events)[::-1], **more}, limit))


def test_similar_rebalances_are_folded_though_others_lie_between_them() -> None:
    reasons = ("member_joined", "member_left")
    events = [rebalance(n, reasons[n % 2], member(UUIDS[n])) for n in range(76)]
    who = "client batch-7 at 10.0.0.7"
    at = [when(event["started_ms"]) for event in events]
    assert report(events)[2:] == [
        f"38 rebalances from {at[1]} to {at[75][-8:]} took 2 s in all, each because {who} left",
        f"38 rebalances from {at[0]} to {at[74][-8:]} took 2 s in all, each because {who} joined",
    ]


def test_restarts_of_folded_rebalances_are_counted_below_them() -> None:
    slow = {"reason": "session_expired", "culprit": member(UUIDS[9], "slow-9")}
    rounds = [{"reason": "member_joined", "culprit": member(UUIDS[0])}, slow]
    events = [rebalance(n, "member_joined", member(UUIDS[n]), rounds=rounds) for n in range(3)]
    entry, restarts = report(events, outcome="completed")[2:]
    assert entry.startswith("3 rebalances from ")
    assert entry.endswith(" took 180 ms in all, each because client batch-7 at 10.0.0.7 joined")
    assert restarts == (
        "  restarted 3 times because the session of client slow-9 at 10.0.0.7 expired"
    )


@pytest.mark.parametrize(
    ("reasons", "shown"),
    [
        (("bye", "bye", "bye"), ' (reason given: "bye")'),
        (("bye", "poll", "poll"), ' (reason given 2 times: "poll")'),
        ((None, None, "bye"), ' (reason given once: "bye")'),
        ((None, None, None), ""),
    ],
)
def test_a_folded_entry_has_the_reason_that_the_client_gave(
    reasons: tuple[str | None, ...], shown: str
) -> None:
    events = [
        rebalance(n, "member_left", member(UUIDS[n]), client_reason=reason)
        for n, reason in enumerate(reasons)
    ]
    assert report(events)[2].endswith(f" because client batch-7 at 10.0.0.7 left{shown}")


def test_distant_rebalances_and_other_outcomes_are_not_folded() -> None:
    events = [rebalance(n * 700, "member_joined", member(UUIDS[n])) for n in range(4)]
    ended = [
        rebalance(9_000 + n, "member_left", member(UUIDS[n]), outcome="emptied") for n in range(3)
    ]
    lines = report([*events, *ended])
    assert " and left the group empty, each because client batch-7 at 10.0.0.7 left" in lines[2]
    assert sum(line.startswith("  because") for line in lines) == 4


def test_the_limit_bounds_the_entries_and_a_last_line_names_the_rest() -> None:
    events = [rebalance(n, "member_joined", member(UUIDS[n], f"app-{n}")) for n in range(12)]
    lines = report(events, 3, total=77)
    assert sum(line.startswith("  because") for line in lines) == 3
    assert lines[-1] == "74 more are known: `groups timeline g --limit 77` lists all"
    assert "more are known" not in report(events, 12)[-1]
    refusals = [{**REFUSAL, "api": f"api-{n}"} for n in range(5)]
    lines = report([], 3, refusals=refusals)
    assert "2 more kinds of refusals are known: use a higher --limit or --format json" in lines


def test_findings_come_first_then_those_that_are_over_then_refusals() -> None:
    past = {"sentence": SENTENCE, "last_ms": START}
    event = rebalance(0, "member_joined", member(UUIDS[0]))
    found: dict[str, Any] = {
        "findings": [{"sentence": "now"}],
        "past_findings": [past],
        "refusals": [REFUSAL],
    }
    lines = report([event], **found)
    assert lines[1:4] == ["now", f"until {when(START)}: {SENTENCE}", ""]
    assert "was answered ILLEGAL_GENERATION" in lines[4]
    assert "because batch-7 at 10.0.0.7 joined" in lines[7]


def test_a_member_has_its_id_only_where_another_has_the_same_client_instance_and_host() -> None:
    one, other = member(UUIDS[1]), member(UUIDS[2])
    alone, static = member(UUIDS[3], "web"), member(UUIDS[4], "till", "one")
    again = member(UUIDS[5], "till", "one")
    named = [
        rebalance(n, "member_joined", each) for n, each in enumerate((one, other, alone, static))
    ]
    name = MemberNames({"rebalances": named, "refusals": [], "members": [again]})
    assert name(one) == "batch-7-0001\N{HORIZONTAL ELLIPSIS} at 10.0.0.7"
    assert name(alone) == "web at 10.0.0.7"
    assert name(static) == "till [one] at 10.0.0.7"
    assert name.party(static) == "client till [one] at 10.0.0.7"


def test_an_id_is_as_short_as_it_can_be_without_being_that_of_another() -> None:
    ids = [f"app-0000{n:04x}-0000-4000-8000-000000000000" for n in range(2)]
    odd = ["app-1", "app-2"]
    for both, shown in ((ids, ["app-00000000…", "app-00000001…"]), (odd, odd)):
        members = [{**member("", "app"), "member_id": each} for each in both]
        name = MemberNames({"rebalances": [], "refusals": [], "members": members})
        assert [name(each) for each in members] == [f"{each} at 10.0.0.7" for each in shown]
    same = [f"app-{UUIDS[0][:9]}0000-4000-8000-{n:012x}" for n in range(2)]
    members = [{**member("", "other"), "member_id": each} for each in same]
    name = MemberNames({"rebalances": [], "refusals": [], "members": members})
    assert name(members[0]) == f"{same[0]} of client other at 10.0.0.7"
    unknown = {**members[0], "client_id": "", "client_host": ""}
    assert name(unknown).endswith(" at -")
    assert name.party(unknown) == name(unknown)


def test_a_refusal_of_all_members_names_the_first_one() -> None:
    refusal = {**REFUSAL, "error": "REBALANCE_IN_PROGRESS", "count": 225, "of_all": True}
    line = report([], refusals=[{**refusal, "member": member(UUIDS[0], "web-0")}])[2]
    at = when(REFUSAL["at_ms"])  # type: ignore[arg-type]
    assert line == (
        "225 heartbeats were answered REBALANCE_IN_PROGRESS (normal during a rebalance) "
        f"from {at} to {at[-8:]} (the first came from web-0 at 10.0.0.7) "
        "because it sent generation 7, the group is at 8"
    )


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("session_expired", "its session had expired at "),
        ("new_reason", "the group had removed it: new_reason at "),
    ],
)
def test_an_unknown_member_is_shown_with_the_reason_of_its_removal(reason: str, words: str) -> None:
    removed = {"at_ms": START, "reason": reason}
    (line,) = report([], refusals=[{**REFUSAL, "removed": removed}])[2:3]
    assert f" because {words}" in line
    assert line.endswith(f" at {when(START)[-8:]}")


def test_json_has_as_many_rebalances_as_the_limit_and_text_reads_a_hundred(
    http: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/api/groups/a%2Fb/why"
    monkeypatch.setitem(ANSWERS, f"{path}?limit=5", (200, {"asked": 5}))
    monkeypatch.setitem(ANSWERS, f"{path}?limit=100", ANSWERS[path])
    asked = ("groups", "why", "a/b", "--http", http, "--limit", "5")
    assert invoke(*asked, "--format", "json")[1].split() == ["{", '"asked":', "5", "}"]
    assert invoke(*asked)[0] == 0
    code, _, error = invoke(*asked[:-1], "1001")
    assert code == 2
    assert "1001 is not in the range" in error
