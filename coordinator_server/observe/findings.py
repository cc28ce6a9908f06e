"""What is found in the rebalances of a group: who flaps, whether it is a storm, the likely cause.

Pure: rebalances come in with their times, findings go out.
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
    """What was found."""

    FLAPPING_MEMBER = "flapping_member"
    REBALANCE_STORM = "rebalance_storm"


class Subject(StrEnum):
    """By what the incidents belong together; the narrower first."""

    MEMBER = "member"
    INSTANCE = "instance"
    CLIENT = "client"
    HOST = "host"


class LikelyCause(StrEnum):
    """What most of the incidents speak for."""

    SESSION_TIMEOUT = "session_timeout"
    POLL_INTERVAL = "poll_interval"
    RESTART = "restart"
    DIFFERING_PROTOCOLS = "differing_protocols"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """Somebody flaps, or a group does not come to rest."""

    kind: FindingKind
    group_id: str
    subject: Subject
    value: str
    """Of the subject: the client id, the host, the member id or the instance id."""
    count: int
    """Rebalances within the window."""
    window_ms: int
    first_ms: int
    """Wall-clock milliseconds of the first and last of them."""
    last_ms: int
    likely_cause: LikelyCause
    sentence: str
    """What was seen and what to do about it."""


@dataclass(frozen=True, slots=True)
class FlappingLimits:
    """From when on it is flapping."""

    window_ms: int = 600_000
    max_by_one: int = 5
    """More rebalances than this by the same culprit within the window are flapping."""
    max_of_group: int = 10
    """More rebalances than this within the window are a storm, whoever caused them."""


class Incident(NamedTuple):
    """A rebalance, or a sign of why there are so many."""

    at_ms: int
    parties: tuple[tuple[Culprit, LikelyCause | None], ...]
    """Whose doing it was, each once, and what it speaks for."""
    is_rebalance: bool
    sequence: int = NOT_WRITTEN
    """Its number in the log, if it is there."""


Elsewhere = Callable[[str, str], bool]
"""Whether a group has a member now that is not on a host."""

MAX_PAST_FINDINGS: Final = 5

POLL_TIMEOUT_WORDS: Final = "poll timeout has expired"
"""What the Java client says when it leaves because its application did not poll (KIP-800)."""

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
    """A rebalance that has ended."""
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
    if entry.client_reason is not None and POLL_TIMEOUT_WORDS in entry.client_reason:
        return LikelyCause.POLL_INTERVAL
    return _SIGNS.get(entry.reason)


def find(
    group_id: str, incidents: list[Incident], limits: FlappingLimits, is_elsewhere: Elsewhere
) -> list[Finding]:
    """Who flaps, by the narrowest subject that explains it, and whether it is a storm.

    A host that all have in common explains nothing.
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
    # What to do about that client is said already where it is a finding of its own.
    is_advised = any(case.concerns(culprit) for case in flapping for culprit in of_client)
    times = [incident.at_ms for incident in rebalances]
    signs = Counter(sign for i in incidents for _, sign in i.parties if sign is not None)
    return _finding(about, times, signs, limits, is_advised=is_advised)


_PLACES = {Subject.MEMBER: 0, Subject.INSTANCE: 1, Subject.CLIENT: 2, Subject.HOST: 3}
"""Of a subject in a culprit."""


class _Case(NamedTuple):
    kind: FindingKind
    group_id: str
    subject: Subject
    value: str

    def concerns(self, culprit: Culprit) -> bool:
        """Whether an incident of this culprit belongs to the case."""
        return culprit[_PLACES[self.subject]] == self.value


def _by(subject: Subject, incidents: list[Incident]) -> dict[str, list[int]]:
    """The numbers of the rebalances of each value of a subject, once each."""
    place = _PLACES[subject]
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
"""How often each cause was spoken for, by the value of a subject."""


def _signs_by(subject: Subject, incidents: list[Incident]) -> Signs:
    """Of everything that happened, a rebalance or not."""
    place = _PLACES[subject]
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
    """What most signs speak for; of as many the first of `LikelyCause`.

    A sign or two among many rebalances, of members that just joined, explain nothing; that one
    member was refused for its protocols does.
    """
    likely = max(LikelyCause, key=lambda cause: signs.get(cause, 0))
    times = signs.get(likely, 0)
    if likely is LikelyCause.DIFFERING_PROTOCOLS and times:
        return likely
    return likely if times * _SIGNS_TO_COUNT >= count else LikelyCause.UNKNOWN


_SIGNS_TO_COUNT: Final = 3
"""One sign is needed for so many rebalances."""


def _sentence(case: _Case, count: int, window_ms: int, cause: LikelyCause | None) -> str:
    minutes = "1 minute" if window_ms == 60_000 else f"{window_ms / 60_000:g} minutes"
    who = f"{case.subject.value} {case.value.removeprefix('/')!r}"
    advice = "" if cause is None else f"; {_ADVICE[cause]}"
    if case.kind is FindingKind.REBALANCE_STORM:
        told = f"group {case.group_id!r} rebalanced {count} times within {minutes}, most often "
        return f"{told}because of {who}{advice}."
    told = f"{who} made group {case.group_id!r} rebalance {count} times within {minutes}"
    return f"{told}{advice}."


def find_past(
    group_id: str, incidents: list[Incident], limits: FlappingLimits, is_elsewhere: Elsewhere
) -> list[Finding]:
    """The same of every window there was, the latest first: each who and each storm once.

    `incidents` are the oldest first. A window that is looked at ends with a rebalance.
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
            # Others went on: the window that ends with the last of these has more of them.
            end = bisect_right(times, last_ms)
            continue
        for finding in here:
            found.setdefault(key_of(finding), finding)
        end = bisect_left(times, min(finding.first_ms for finding in here))
    return list(found.values())


def key_of(finding: Finding) -> tuple[FindingKind, Subject, str]:
    """What makes it the same finding at another time; of a storm the commonest client varies."""
    is_storm = finding.kind is FindingKind.REBALANCE_STORM
    return finding.kind, finding.subject, "" if is_storm else finding.value
