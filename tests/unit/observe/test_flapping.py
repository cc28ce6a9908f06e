"""Stories of members that flap, each with the cause that should be suspected."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from coordinator_server.group.rebalance_events import (
    NOBODY,
    Culprit,
    MemberRemoved,
    Observation,
    RebalanceEvent,
    RebalanceReason,
    RebalanceStarted,
    Refused,
    RemovalReason,
    Round,
)
from coordinator_server.observe.findings import (
    Finding,
    FindingKind,
    FlappingLimits,
    LikelyCause,
    Subject,
)
from coordinator_server.observe.flapping import MAX_GROUPS, Flapping
from coordinator_server.observe.forms import finding_form

Make = Callable[..., RebalanceEvent]
R = RebalanceReason
NOON = 1_700_000_000_000
MINUTE = 60_000
POLL_WORDS = "consumer poll timeout has expired."


def client(number: int, name: str = "app", host: str = "/10.0.0.1") -> Culprit:
    """A client that is a new member each time."""
    return Culprit(f"{name}-{number}", None, name, host)


def rebalances(
    make: Make, causes: Iterable[tuple[R, Culprit, str | None]], every_ms: int = MINUTE
) -> list[Observation]:
    return [
        make(rounds=(Round(*cause),), ended_ms=NOON + number * every_ms)
        for number, cause in enumerate(causes)
    ]


def found(
    observations: Iterable[Observation], at: int = NOON + 9 * MINUTE, **limits: int
) -> list[Finding]:
    flapping = Flapping(lambda: at, FlappingLimits(**limits))
    for observation in observations:
        flapping.observe(observation)
    return flapping.findings()


def causes(*reasons: R, words: str | None = None) -> list[tuple[R, Culprit, str | None]]:
    """The same client again and again, as a new member each time."""
    return [(reason, client(number), words) for number, reason in enumerate(reasons)]


@pytest.mark.parametrize(
    ("reasons", "words", "cause"),
    [
        ([R.SESSION_EXPIRED, R.MEMBER_JOINED] * 4, None, LikelyCause.SESSION_TIMEOUT),
        ([R.MEMBER_LEFT, R.MEMBER_JOINED] * 4, POLL_WORDS, LikelyCause.POLL_INTERVAL),
        ([R.MEMBER_LEFT, R.MEMBER_JOINED] * 4, "the consumer is being closed", LikelyCause.RESTART),
        ([R.STATIC_REPLACED] * 8, None, LikelyCause.RESTART),
        ([R.METADATA_CHANGED] * 8, None, LikelyCause.DIFFERING_PROTOCOLS),
        ([R.LEADER_REJOINED] * 8, None, LikelyCause.UNKNOWN),
        ([R.FOLLOWER_REJOINED] * 8, None, LikelyCause.UNKNOWN),
    ],
)
def test_a_client_that_flaps_is_named_with_the_likely_cause(
    make_event: Make, reasons: list[R], words: str | None, cause: LikelyCause
) -> None:
    (finding,) = found(rebalances(make_event, causes(*reasons, words=words)))
    assert (finding.kind, finding.subject) == (FindingKind.FLAPPING_MEMBER, Subject.CLIENT)
    assert (finding.value, finding.count, finding.likely_cause) == ("app", 8, cause)
    assert (finding.first_ms, finding.last_ms) == (NOON, NOON + 7 * MINUTE)
    assert finding.sentence.startswith(
        "client 'app' made group 'orders' rebalance 8 times within 10 minutes; "
    )
    assert finding_form(finding)["likely_cause"] == cause.value


def test_the_narrowest_subject_that_explains_it_is_named(make_event: Make) -> None:
    same = Culprit("app-1", "one", "app", "/10.0.0.1")
    (finding,) = found(rebalances(make_event, [(R.LEADER_REJOINED, same, None)] * 7))
    assert (finding.subject, finding.value) == (Subject.MEMBER, "app-1")


def of_one_host(make: Make) -> list[Observation]:
    """Clients with different names expire, all on one host."""
    who = [client(number, name=f"app-{number}") for number in range(7)]
    return rebalances(make, [(R.SESSION_EXPIRED, one, None) for one in who])


def test_a_host_is_named_where_its_clients_have_different_names(make_event: Make) -> None:
    other = make_event(rounds=(Round(R.MEMBER_JOINED, client(8, "b", "/10.0.0.2"), None),))
    (finding,) = found([*of_one_host(make_event), replace(other, ended_ms=NOON)])
    assert (finding.subject, finding.value) == (Subject.HOST, "/10.0.0.1")


@pytest.mark.parametrize(("is_elsewhere", "named"), [(True, ["/10.0.0.1"]), (False, [])])
def test_a_host_that_all_members_share_is_no_news(
    make_event: Make, is_elsewhere: bool, named: list[str]
) -> None:
    asked: list[tuple[str, str]] = []

    def elsewhere(group_id: str, host: str) -> bool:
        asked.append((group_id, host))
        return is_elsewhere

    flapping = Flapping(lambda: NOON, FlappingLimits(), is_elsewhere=elsewhere)
    for observation in of_one_host(make_event):
        flapping.observe(observation)
    assert [finding.value for finding in flapping.findings()] == named
    assert asked == [("orders", "/10.0.0.1")]


def test_as_many_rebalances_as_are_allowed_are_no_flapping(make_event: Make) -> None:
    assert found(rebalances(make_event, causes(*[R.MEMBER_LEFT] * 5))) == []


def test_what_lies_before_the_window_does_not_count(make_event: Make) -> None:
    observations = rebalances(make_event, causes(*[R.MEMBER_LEFT] * 8))
    assert found(observations, at=NOON + 12 * MINUTE + 1) == []
    assert found(observations, at=NOON + 60 * MINUTE) == []


def test_many_members_that_cause_one_rebalance_each_are_a_storm(make_event: Make) -> None:
    crowd = [
        (R.MEMBER_JOINED, client(n, name=f"app-{n}", host=f"/10.0.0.{n}"), None) for n in range(11)
    ]
    (finding,) = found(rebalances(make_event, crowd, every_ms=1_000))
    assert (finding.kind, finding.count) == (FindingKind.REBALANCE_STORM, 11)
    assert finding.sentence.startswith("group 'orders' rebalanced 11 times within 10 minutes")


def test_a_rolling_start_within_one_rebalance_counts_once(make_event: Make) -> None:
    rounds = tuple(Round(R.MEMBER_JOINED, client(number), None) for number in range(8))
    assert found([make_event(rounds=rounds, ended_ms=NOON)]) == []


def test_an_operator_is_no_flapping_member(make_event: Make) -> None:
    assert found(rebalances(make_event, [(R.ADMIN_REBALANCE, NOBODY, "again")] * 8)) == []


def test_members_that_do_not_join_in_time_work_too_long(make_event: Make) -> None:
    joins = rebalances(make_event, causes(*[R.MEMBER_JOINED] * 7))
    removed = [MemberRemoved("orders", RemovalReason.JOIN_TIMEOUT, client(n)) for n in range(3)]
    (finding,) = found([*joins, *removed])
    assert finding.likely_cause is LikelyCause.POLL_INTERVAL
    assert finding.count == 7


def test_one_expired_session_among_many_joins_explains_nothing(make_event: Make) -> None:
    reasons = [R.SESSION_EXPIRED, *[R.MEMBER_JOINED] * 6]
    (finding,) = found(rebalances(make_event, causes(*reasons)))
    assert finding.likely_cause is LikelyCause.UNKNOWN


def test_refused_protocols_speak_for_differing_ones(make_event: Make) -> None:
    crowd = [
        (R.MEMBER_JOINED, client(n, name=f"app-{n}", host=f"/10.0.0.{n}"), None) for n in range(11)
    ]
    error, rule = "INCONSISTENT_GROUP_PROTOCOL", "protocol_inconsistent"
    refused = Refused(NOON, "orders", "JoinGroup", error, rule, "", client(1))
    observations = [*rebalances(make_event, crowd, every_ms=1_000), refused]
    (finding,) = found(observations)
    assert finding.likely_cause is LikelyCause.DIFFERING_PROTOCOLS
    assert found([replace(refused, rule="group_full")]) == []


def test_rebalances_before_a_restart_count_with_those_after_it(make_event: Make) -> None:
    times = [NOON - 11 * MINUTE, *range(NOON, NOON + 8 * MINUTE, MINUTE)]
    old, *others = [
        make_event(
            rounds=(Round(R.SESSION_EXPIRED, client(1), None),), ended_ms=at, sequence=number
        )
        for number, at in enumerate(times)
    ]
    log = [old, *others[:5]]
    flapping = Flapping(
        lambda: NOON, FlappingLimits(), lambda group: log if group == "orders" else ()
    )
    assert flapping.findings("orders") == []
    for event in others[5:]:
        log.append(event)
        flapping.observe(event)
    (finding,) = flapping.findings("orders")
    assert (finding.count, finding.likely_cause) == (8, LikelyCause.SESSION_TIMEOUT)


def test_a_group_is_not_looked_up_when_it_rebalances_for_the_first_time(make_event: Make) -> None:
    looked_up: list[str] = []

    def past(group_id: str) -> list[RebalanceEvent]:
        looked_up.append(group_id)
        return []

    flapping = Flapping(lambda: NOON, FlappingLimits(), past)
    flapping.observe(make_event(group_id="new", sequence=0))
    flapping.observe(make_event(group_id="old", sequence=1))
    assert looked_up == ["old"]


def test_a_group_that_rests_since_the_restart_is_looked_up_when_somebody_asks(
    make_event: Make,
) -> None:
    log = rebalances(make_event, [(R.SESSION_EXPIRED, client(n), None) for n in range(6)])
    past: list[RebalanceEvent] = [each for each in log if isinstance(each, RebalanceEvent)]
    flapping = Flapping(
        lambda: NOON, FlappingLimits(), lambda group: past if group == "orders" else ()
    )
    (finding,) = flapping.findings("orders")
    assert finding.count == 6
    assert flapping.findings("other") == []
    assert flapping.findings() == []


def test_a_rebalance_that_the_log_had_when_its_signs_came_counts_once(make_event: Make) -> None:
    events = [
        make_event(rounds=(Round(R.SESSION_EXPIRED, client(1), None),), ended_ms=NOON, sequence=n)
        for n in range(6)
    ]
    flapping = Flapping(lambda: NOON, FlappingLimits(), lambda _group: events)
    flapping.observe(MemberRemoved("orders", RemovalReason.JOIN_TIMEOUT, client(1)))
    flapping.observe(events[-1])
    (finding,) = flapping.findings("orders")
    assert finding.count == 6


def test_groups_are_apart_and_bounded(make_event: Make, started: RebalanceStarted) -> None:
    flapping = Flapping(lambda: NOON)
    flapping.observe(started)
    for number in range(MAX_GROUPS + 1):
        for sequence in range(6):
            event = make_event(
                group_id=f"group-{number}", ended_ms=NOON, rounds=(), sequence=sequence
            )
            flapping.observe(event)
    assert flapping.findings("group-0") == []
    assert [finding.group_id for finding in flapping.findings("group-7")] == ["group-7"]
    assert len(flapping.findings()) == MAX_GROUPS


def test_a_group_forgotten_while_all_are_looked_at_is_skipped(make_event: Make) -> None:
    asked: list[str] = []

    def past(group_id: str) -> list[RebalanceEvent]:
        asked.append(group_id)
        return []

    flapping = Flapping(lambda: NOON, FlappingLimits(), past)
    for group_id in ("first", "second", "third"):
        flapping.observe(make_event(group_id=group_id, ended_ms=NOON, sequence=1))
    looking = flapping.each()
    next(looking)
    for number in range(MAX_GROUPS - 1):
        flapping.observe(make_event(group_id=f"other-{number}", ended_ms=NOON, sequence=1))
    asked.clear()
    assert len(list(looking)) == 1
    assert asked == []


def test_the_text_of_a_client_is_kept_short(make_event: Make) -> None:
    who = [client(number, name=f"{number}-{'x' * 30_000}") for number in range(7)]
    same = [one._replace(client_id="y" * 30_000) for one in who]
    (finding,) = found(rebalances(make_event, [(R.SESSION_EXPIRED, one, None) for one in same]))
    assert finding.value == f"{'y' * 254}\N{HORIZONTAL ELLIPSIS}"
    assert finding.likely_cause is LikelyCause.SESSION_TIMEOUT


def test_a_storm_of_a_client_that_is_named_already_gives_no_advice_twice(make_event: Make) -> None:
    flapping, storm = found(rebalances(make_event, causes(*[R.MEMBER_LEFT] * 11), every_ms=1_000))
    assert flapping.sentence.endswith("so that restarts cause no rebalance.")
    assert storm.sentence == (
        "group 'orders' rebalanced 11 times within 10 minutes, most often because of client 'app'."
    )
    assert storm.likely_cause is LikelyCause.RESTART


HOUR = 60 * MINUTE


def past(
    make: Make, times: Iterable[int], signs: Iterable[Observation] = (), at: int = NOON + HOUR
) -> list[Finding]:
    """What is told at a time of rebalances of the same client."""
    events = [
        make(rounds=(Round(R.MEMBER_JOINED, client(number), None),), ended_ms=NOON + time)
        for number, time in enumerate(times)
    ]
    now = [NOON]
    flapping = Flapping(lambda: now[0], FlappingLimits())
    for observation in [*events, *signs]:
        flapping.observe(observation)
    now[0] = at
    return flapping.past_findings("orders", events[::-1])


def test_what_was_found_is_told_until_its_rebalances_are_forgotten(make_event: Make) -> None:
    (finding,) = past(make_event, range(0, 8 * MINUTE, MINUTE))
    assert (finding.value, finding.count) == ("app", 8)
    assert finding.last_ms == NOON + 7 * MINUTE
    assert past(make_event, range(0, 5 * MINUTE, MINUTE)) == []


def test_what_is_found_now_is_not_told_as_past(make_event: Make) -> None:
    assert past(make_event, range(0, 8 * MINUTE, MINUTE), at=NOON + 9 * MINUTE) == []


def test_the_same_finding_of_several_windows_is_told_once_as_it_was_last(make_event: Make) -> None:
    times = [*range(0, 8 * MINUTE, MINUTE), *range(20 * MINUTE, 27 * MINUTE, MINUTE)]
    (finding,) = past(make_event, times)
    assert (finding.count, finding.first_ms) == (7, NOON + 20 * MINUTE)


def test_a_past_finding_counts_all_of_its_window_though_others_went_on(make_event: Make) -> None:
    events = rebalances(make_event, causes(*[R.MEMBER_LEFT] * 8), every_ms=1_000)
    other = Round(R.MEMBER_JOINED, client(9, "other", "/10.0.0.9"), None)
    late = make_event(rounds=(other,), ended_ms=NOON + 10 * MINUTE + 1_500)
    log = [event for event in [*events, late] if isinstance(event, RebalanceEvent)]
    flapping = Flapping(lambda: NOON + HOUR, FlappingLimits())
    (finding,) = flapping.past_findings("orders", log[::-1])
    assert (finding.count, finding.value) == (8, "app")


def test_a_past_finding_still_knows_the_signs_that_no_rebalance_has(make_event: Make) -> None:
    removed = [MemberRemoved("orders", RemovalReason.JOIN_TIMEOUT, client(n)) for n in range(60)]
    (finding,) = past(make_event, [0] * 8, removed)
    assert finding.likely_cause is LikelyCause.POLL_INTERVAL


def test_signs_are_kept_of_so_many_groups_only(make_event: Make) -> None:
    flapping = Flapping(lambda: NOON)
    for number in range(MAX_GROUPS + 1):
        name = f"group-{number}"
        flapping.observe(MemberRemoved(name, RemovalReason.JOIN_TIMEOUT, client(1)))
    assert len(flapping._signs) == MAX_GROUPS
