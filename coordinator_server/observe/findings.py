"""Finds flapping members and rebalance storms in the rebalances of a group, with the likely cause.

The functions are pure.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from coordinator_server.group.rebalance_events import (
    NOT_WRITTEN,
    Culprit,
    RebalanceEvent,
    RebalanceReason,
    Round,
)


class FindingKind(StrEnum):
    """Kinds of findings."""

    FLAPPING_MEMBER = "flapping_member"
    REBALANCE_STORM = "rebalance_storm"


class Subject(StrEnum):
    """The attribute that incidents have in common, the most specific first."""

    MEMBER = "member"
    INSTANCE = "instance"
    CLIENT = "client"
    HOST = "host"


class LikelyCause(StrEnum):
    """Likely causes."""

    SESSION_TIMEOUT = "session_timeout"
    POLL_INTERVAL = "poll_interval"
    RESTART = "restart"
    DIFFERING_PROTOCOLS = "differing_protocols"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """A flapping member, client or host, or a rebalance storm of a group."""

    kind: FindingKind
    group_id: str
    subject: Subject
    value: str
    """The member id, instance id, client id or host."""
    count: int
    """Rebalances within the window."""
    window_ms: int
    first_ms: int
    """Wall-clock milliseconds of the first and last of them."""
    last_ms: int
    likely_cause: LikelyCause
    sentence: str
    """Description for people, with advice."""


@dataclass(frozen=True, slots=True)
class FlappingLimits:
    """Thresholds of findings."""

    window_ms: int = 600_000
    max_by_one: int = 5
    """A culprit with more rebalances than this within the window is flapping."""
    max_of_group: int = 10
    """A group with more rebalances than this within the window has a storm."""


class Incident(NamedTuple):
    """A rebalance, or another event that indicates a cause."""

    at_ms: int
    parties: tuple[tuple[Culprit, LikelyCause | None], ...]
    """Each culprit once, with the cause that its rounds indicate."""
    is_rebalance: bool
    sequence: int = NOT_WRITTEN
    """Sequence of the rebalance in the log."""


Elsewhere = Callable[[str, str], bool]
"""Returns whether a group currently has a member that is not on a host."""

MAX_PAST_FINDINGS: Final = 5

POLL_TIMEOUT_REASON: Final = "poll timeout has expired"
"""Part of the leave reason of the Java client after max.poll.interval.ms (KIP-800)."""

_SIGNS = {
    RebalanceReason.SESSION_EXPIRED: LikelyCause.SESSION_TIMEOUT,
    RebalanceReason.MEMBER_LEFT: LikelyCause.RESTART,
    RebalanceReason.STATIC_REPLACED: LikelyCause.RESTART,
    RebalanceReason.METADATA_CHANGED: LikelyCause.DIFFERING_PROTOCOLS,
}

_ADVICE = {
    LikelyCause.SESSION_TIMEOUT: "its sessions expire: check for long pauses, crashes and "
    "network problems, or raise session.timeout.ms",
    LikelyCause.POLL_INTERVAL: "it takes too long between two polls: lower "
    "max.poll.records or raise max.poll.interval.ms",
    LikelyCause.RESTART: "it leaves and returns: check for a deployment or a crash loop, and "
    "set group.instance.id so that restarts cause no rebalance",
    LikelyCause.DIFFERING_PROTOCOLS: "its subscription changes at every join, or its protocols "
    "differ from those of other members: configure all members with the same ones",
    LikelyCause.UNKNOWN: "the coordinator knows no cause: read the client's log",
}


def incident_of(event: RebalanceEvent) -> Incident:
    """The incident of a finished rebalance."""
    return Incident(event.ended_ms, _parties(event), True, event.sequence)


def _parties(event: RebalanceEvent) -> tuple[tuple[Culprit, LikelyCause | None], ...]:
    rounds = event.rounds or (Round(event.reason, event.culprit, event.client_reason),)
    if len(rounds) == 1:
        return ((rounds[0].culprit.brief(), _sign(rounds[0])),)
    parties: dict[Culprit, LikelyCause | None] = {}
    for entry in rounds:
        culprit = entry.culprit.brief()
        parties[culprit] = parties.get(culprit) or _sign(entry)
    return tuple(parties.items())


def _sign(entry: Round) -> LikelyCause | None:
    if entry.client_reason is not None and POLL_TIMEOUT_REASON in entry.client_reason:
        return LikelyCause.POLL_INTERVAL
    return _SIGNS.get(entry.reason)


def find(
    group_id: str, incidents: list[Incident], limits: FlappingLimits, is_elsewhere: Elsewhere
) -> list[Finding]:
    """Find flapping members by the most specific subject, and a rebalance storm.

    A host that all members share is not a finding.
    """
    found: list[Finding] = []
    flapping: list[_Case] = []
    explained: set[int] = set()
    for subject in Subject:
        by_value = _by(subject, incidents)
        if subject is Subject.HOST and len(by_value) == 1:
            by_value = {host: by_value[host] for host in by_value if is_elsewhere(group_id, host)}
        signs: Signs | None = None
        for value, numbers in by_value.items():
            is_many = len(numbers) > limits.max_by_one
            if is_many and len(explained.union(numbers)) - len(explained) > limits.max_by_one:
                about = _Case(FindingKind.FLAPPING_MEMBER, group_id, subject, value)
                flapping.append(about)
                times = [incidents[number].at_ms for number in numbers]
                signs = _signs_by(subject, incidents) if signs is None else signs
                found.append(_finding(about, times, signs.get(value, {}), limits))
                explained.update(numbers)
    rebalances = [incident for incident in incidents if incident.is_rebalance]
    if len(rebalances) > limits.max_of_group:
        found.append(_storm(group_id, rebalances, incidents, limits, flapping))
    return found


def _storm(
    group_id: str,
    rebalances: list[Incident],
    incidents: list[Incident],
    limits: FlappingLimits,
    flapping: list["_Case"],
) -> Finding:
    client = _commonest_client(rebalances)
    about = _Case(FindingKind.REBALANCE_STORM, group_id, Subject.CLIENT, client)
    of_client = {c for i in rebalances for c, _ in i.parties if c.client_id == client}
    # If the client has a finding of its own, that one already contains the advice.
    is_advised = any(case.concerns(culprit) for case in flapping for culprit in of_client)
    times = [incident.at_ms for incident in rebalances]
    signs = Counter(sign for i in incidents for _, sign in i.parties if sign is not None)
    return _finding(about, times, signs, limits, is_advised=is_advised)


_CULPRIT_FIELDS = {Subject.MEMBER: 0, Subject.INSTANCE: 1, Subject.CLIENT: 2, Subject.HOST: 3}
"""Index of each subject in a Culprit."""


class _Case(NamedTuple):
    kind: FindingKind
    group_id: str
    subject: Subject
    value: str

    def concerns(self, culprit: Culprit) -> bool:
        """Whether an incident of this culprit belongs to the case."""
        return culprit[_CULPRIT_FIELDS[self.subject]] == self.value


def _by(subject: Subject, incidents: list[Incident]) -> dict[str, list[int]]:
    """Indexes of the rebalances by value of a subject."""
    place = _CULPRIT_FIELDS[subject]
    by_value: dict[str, list[int]] = {}
    for number, incident in enumerate(incidents):
        for culprit, _ in incident.parties if incident.is_rebalance else ():
            value = culprit[place]
            if value:
                numbers = by_value.get(value)
                if numbers is None:
                    by_value[value] = [number]
                elif numbers[-1] != number:
                    numbers.append(number)
    return by_value


Signs = dict[str, dict[LikelyCause, int]]
"""Number of indications of each cause, by value of a subject."""


def _signs_by(subject: Subject, incidents: list[Incident]) -> Signs:
    """Indications from all incidents, including those that are not rebalances."""
    place = _CULPRIT_FIELDS[subject]
    by_value: Signs = {}
    for incident in incidents:
        for culprit, sign in incident.parties:
            value = culprit[place]
            if value and sign is not None:
                counts = by_value.get(value)
                if counts is None:
                    by_value[value] = {sign: 1}
                else:
                    counts[sign] = counts.get(sign, 0) + 1
    return by_value


def _commonest_client(incidents: Iterable[Incident]) -> str:
    clients = Counter(culprit.client_id for i in incidents for culprit, _ in i.parties)
    return clients.most_common(1)[0][0]


def _finding(
    case: _Case,
    times: list[int],
    signs: Mapping[LikelyCause, int],
    limits: FlappingLimits,
    *,
    is_advised: bool = False,
) -> Finding:
    cause = _likely_cause(signs, len(times))
    return Finding(
        kind=case.kind,
        group_id=case.group_id,
        subject=case.subject,
        value=case.value,
        count=len(times),
        window_ms=limits.window_ms,
        first_ms=min(times),
        last_ms=max(times),
        likely_cause=cause,
        sentence=_sentence(case, len(times), limits.window_ms, None if is_advised else cause),
    )


def _likely_cause(signs: Mapping[LikelyCause, int], count: int) -> LikelyCause:
    """The cause with the most indications; of equal ones the first of `LikelyCause`.

    A few indications among many rebalances are not sufficient, except for refused protocols.
    """
    likely = max(LikelyCause, key=lambda cause: signs.get(cause, 0))
    times = signs.get(likely, 0)
    if likely is LikelyCause.DIFFERING_PROTOCOLS and times:
        return likely
    return likely if times * _SIGNS_TO_COUNT >= count else LikelyCause.UNKNOWN


_SIGNS_TO_COUNT: Final = 3
"""Rebalances per indication at most."""


def _sentence(case: _Case, count: int, window_ms: int, cause: LikelyCause | None) -> str:
    minutes = "1 minute" if window_ms == 60_000 else f"{window_ms / 60_000:g} minutes"
    subject = f"{case.subject.value} {case.value.removeprefix('/')!r}"
    advice = "" if cause is None else f"; {_ADVICE[cause]}"
    if case.kind is FindingKind.REBALANCE_STORM:
        times = f"group {case.group_id!r} rebalanced {count} times within {minutes}, most often "
        return f"{times}because of {subject}{advice}."
    text = f"{subject} made group {case.group_id!r} rebalance {count} times within {minutes}"
    return f"{text}{advice}."


def find_past(
    group_id: str, incidents: list[Incident], limits: FlappingLimits, is_elsewhere: Elsewhere
) -> list[Finding]:
    """Findings of all past windows, the latest first, each subject and each storm once.

    `incidents` are ordered from the oldest. Each window ends with a rebalance.
    """
    found: dict[tuple[FindingKind, Subject, str], Finding] = {}
    least = min(limits.max_by_one, limits.max_of_group)
    times = [incident.at_ms for incident in incidents]
    end = len(incidents)
    while end > least and len(found) < MAX_PAST_FINDINGS:
        start = bisect_left(times, times[end - 1] - limits.window_ms)
        here: list[Finding] = []
        if end - start > least:
            here = find(group_id, incidents[start:end], limits, is_elsewhere)
        if not here:
            end -= 1
            continue
        last_ms = max(finding.last_ms for finding in here)
        if last_ms < times[end - 1]:
            # Other rebalances followed; the window that ends with `last_ms` contains more of these.
            end = bisect_right(times, last_ms)
            continue
        for finding in here:
            found.setdefault(key_of(finding), finding)
        end = bisect_left(times, min(finding.first_ms for finding in here))
    return list(found.values())


def key_of(finding: Finding) -> tuple[FindingKind, Subject, str]:
    """The identity of a finding over time; the client of a storm may change."""
    is_storm = finding.kind is FindingKind.REBALANCE_STORM
    return finding.kind, finding.subject, "" if is_storm else finding.value
