"""Members that make their group rebalance again and again, storms of rebalances, and why.

Pure: what happened comes in with its time, and the time it is asked at is a function given.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice, takewhile
from typing import Final, NamedTuple

from coordinator_server.group.reasons import (
    FIRST_SEQUENCE,
    NOT_WRITTEN,
    Culprit,
    MemberRemoved,
    Observation,
    RebalanceEvent,
    RebalanceReason,
    Refused,
    RemovalReason,
    Round,
)
from coordinator_server.observe.timeline import Past


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


class _Incident(NamedTuple):
    """A rebalance, or a sign of why there are so many."""

    at_ms: int
    parties: tuple[tuple[Culprit, LikelyCause | None], ...]
    """Whose doing it was, each once, and what it speaks for."""
    is_rebalance: bool
    sequence: int = NOT_WRITTEN
    """Its number in the log, if it is there."""


Elsewhere = Callable[[str, str], bool]
"""Whether a group has a member now that is not on a host."""

MAX_INCIDENTS: Final = 200
"""Of a group; older ones are forgotten."""
MAX_GROUPS: Final = 1_000

POLL_TIMEOUT_WORDS: Final = "poll timeout has expired"
"""What the Java client says when it leaves because its application did not poll (KIP-800)."""

_SIGNS = {
    RebalanceReason.SESSION_EXPIRED: LikelyCause.SESSION_TIMEOUT,
    RebalanceReason.MEMBER_LEFT: LikelyCause.RESTART,
    RebalanceReason.STATIC_REPLACED: LikelyCause.RESTART,
    RebalanceReason.METADATA_CHANGED: LikelyCause.DIFFERING_PROTOCOLS,
}

_ADVICE = {
    LikelyCause.SESSION_TIMEOUT: "its sessions expire: look for pauses, crashes or a bad network, "
    "or raise session.timeout.ms",
    LikelyCause.POLL_INTERVAL: "it works longer than it may between two polls: lower "
    "max.poll.records or raise max.poll.interval.ms",
    LikelyCause.RESTART: "it leaves and comes back: look for a deployment or a crash loop, and "
    "give it a group.instance.id so that restarts cost no rebalance",
    LikelyCause.DIFFERING_PROTOCOLS: "it says something else each time it joins, or speaks other "
    "protocols than the rest: let all members subscribe to and be configured with the same",
    LikelyCause.UNKNOWN: "nothing it said or did tells why: look at its own log",
}


class Flapping:
    """Remembers the rebalances within the window, by group; bounded."""

    def __init__(
        self,
        wall_ms: Callable[[], int],
        limits: FlappingLimits | None = None,
        past: Past = lambda _group_id: (),
        is_elsewhere: Elsewhere = lambda _group_id, _host: False,
    ) -> None:
        """`wall_ms` tells the time that findings are asked for, `past` what was before the start.

        A group is looked up there when the first is heard of it, or somebody asks for it.
        """
        self._wall_ms = wall_ms
        self._past = past
        self._is_elsewhere = is_elsewhere
        self._limits = limits or FlappingLimits()
        self._groups: OrderedDict[str, list[_Incident]] = OrderedDict()

    def observe(self, observation: Observation) -> None:
        """Remember what happened; a consumer of the fan-out."""
        match observation:
            case RebalanceEvent():
                incident = _incident(observation)
            case MemberRemoved(reason=RemovalReason.JOIN_TIMEOUT):
                sign = (observation.member.brief(), LikelyCause.POLL_INTERVAL)
                incident = _Incident(self._wall_ms(), (sign,), False)
            case Refused(rule="protocol_inconsistent"):
                sign = (observation.member, LikelyCause.DIFFERING_PROTOCOLS)
                incident = _Incident(observation.at_ms, (sign,), False)
            case _:
                return
        self._remember(observation.group_id, incident)

    def _remember(self, group_id: str, incident: _Incident) -> None:
        incidents = self._groups.get(group_id)
        if incidents is None:
            before = [] if incident.sequence == FIRST_SEQUENCE else self._recalled(group_id)
            incidents = self._groups[group_id] = before
        if incident.sequence != NOT_WRITTEN and incident in incidents:
            return  # the log had it before it was told of
        incidents.append(incident)
        del incidents[:-MAX_INCIDENTS]
        self._groups.move_to_end(group_id)
        if len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)

    def _recalled(self, group_id: str) -> list[_Incident]:
        """The rebalances within the window that the log has."""
        oldest = self._wall_ms() - self._limits.window_ms
        latest = islice(reversed(self._past(group_id)), MAX_INCIDENTS)
        recent = takewhile(lambda event: event.ended_ms >= oldest, latest)
        return [_incident(event) for event in recent][::-1]

    def each(self) -> Iterator[list[Finding]]:
        """What is found of the groups, one after the other: there may be many."""
        for group_id in list(self._groups):
            yield self._of(group_id)

    def findings(self, group_id: str | None = None) -> list[Finding]:
        """What is found of a group, or of all; the most rebalances first."""
        group_ids = list(self._groups) if group_id is None else [group_id]
        found = [finding for name in group_ids for finding in self._of(name)]
        return sorted(found, key=lambda finding: -finding.count)

    def _of(self, group_id: str) -> list[Finding]:
        incidents = self._groups.get(group_id)
        if incidents is None:
            return self._find(group_id, self._recalled(group_id))
        oldest = self._wall_ms() - self._limits.window_ms
        aged = takewhile(lambda incident: incident.at_ms < oldest, incidents)
        del incidents[: len(list(aged))]
        if not incidents:
            del self._groups[group_id]
            return []
        if len(incidents) <= min(self._limits.max_by_one, self._limits.max_of_group):
            return []
        return self._find(group_id, incidents)

    def _find(self, group_id: str, incidents: list[_Incident]) -> list[Finding]:
        return find(group_id, incidents, self._limits, self._is_elsewhere)


def _incident(event: RebalanceEvent) -> _Incident:
    return _Incident(event.ended_ms, _parties(event), True, event.sequence)


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
    group_id: str, incidents: list[_Incident], limits: FlappingLimits, is_elsewhere: Elsewhere
) -> list[Finding]:
    """Who flaps, by the narrowest subject that explains it, and whether it is a storm.

    A host that all have in common explains nothing.
    """
    found: list[Finding] = []
    explained: set[int] = set()
    for subject in Subject:
        by_value = _by(subject, incidents)
        if subject is Subject.HOST and len(by_value) == 1:
            by_value = {host: by_value[host] for host in by_value if is_elsewhere(group_id, host)}
        for value, numbers in by_value.items():
            if len(numbers - explained) > limits.max_by_one:
                about = _Case(FindingKind.FLAPPING_MEMBER, group_id, subject, value)
                times = [incidents[number].at_ms for number in numbers]
                found.append(_finding(about, times, incidents, limits))
                explained |= numbers
    rebalances = [incident for incident in incidents if incident.is_rebalance]
    if len(rebalances) > limits.max_of_group:
        value = _commonest_client(rebalances)
        about = _Case(FindingKind.REBALANCE_STORM, group_id, Subject.CLIENT, value)
        times = [incident.at_ms for incident in rebalances]
        found.append(_finding(about, times, incidents, limits))
    return found


class _Case(NamedTuple):
    kind: FindingKind
    group_id: str
    subject: Subject
    value: str

    def concerns(self, culprit: Culprit) -> bool:
        """Whether an incident of this culprit belongs to the case."""
        return (
            self.kind is FindingKind.REBALANCE_STORM or _value(self.subject, culprit) == self.value
        )


def _value(subject: Subject, culprit: Culprit) -> str | None:
    match subject:
        case Subject.MEMBER:
            return culprit.member_id
        case Subject.INSTANCE:
            return culprit.group_instance_id
        case Subject.CLIENT:
            return culprit.client_id
        case Subject.HOST:
            return culprit.client_host


def _by(subject: Subject, incidents: list[_Incident]) -> dict[str, set[int]]:
    """The numbers of the rebalances of each value of a subject, once each."""
    numbers: dict[str, set[int]] = {}
    for number, incident in enumerate(incidents):
        for culprit, _ in incident.parties if incident.is_rebalance else ():
            value = _value(subject, culprit)
            if value:
                numbers.setdefault(value, set()).add(number)
    return numbers


def _commonest_client(incidents: Iterable[_Incident]) -> str:
    clients = Counter(culprit.client_id for i in incidents for culprit, _ in i.parties)
    return clients.most_common(1)[0][0]


def _finding(
    case: _Case, times: list[int], incidents: list[_Incident], limits: FlappingLimits
) -> Finding:
    cause = _likely_cause(case, len(times), incidents)
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
        sentence=_sentence(case, len(times), limits.window_ms, cause),
    )


def _likely_cause(case: _Case, count: int, incidents: Iterable[_Incident]) -> LikelyCause:
    """What most signs speak for; of as many the first of `LikelyCause`.

    A sign or two among many rebalances, of members that just joined, explain nothing; that one
    member was refused for its protocols does.
    """
    signs = Counter(
        sign
        for incident in incidents
        for culprit, sign in incident.parties
        if sign is not None and case.concerns(culprit)
    )
    likely = max(LikelyCause, key=lambda cause: signs[cause])
    if likely is LikelyCause.DIFFERING_PROTOCOLS and signs[likely]:
        return likely
    return likely if signs[likely] * _SIGNS_TO_COUNT >= count else LikelyCause.UNKNOWN


_SIGNS_TO_COUNT: Final = 3
"""One sign is needed for so many rebalances."""


def _sentence(case: _Case, count: int, window_ms: int, cause: LikelyCause) -> str:
    minutes = f"{window_ms / 60_000:g} minutes"
    who = f"{case.subject.value} {case.value.removeprefix('/')!r}"
    if case.kind is FindingKind.REBALANCE_STORM:
        told = f"group {case.group_id!r} rebalanced {count} times within {minutes}, most often "
        return f"{told}because of {who}; {_ADVICE[cause]}."
    told = f"{who} made group {case.group_id!r} rebalance {count} times within {minutes}"
    return f"{told}; {_ADVICE[cause]}."
