"""Keeps the recent rebalances of groups, in which `findings` looks for flapping and storms."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from typing import Final

from coordinator_server.group.rebalance_events import (
    FIRST_SEQUENCE,
    NOT_WRITTEN,
    MemberRemoved,
    Observation,
    RebalanceEvent,
    Refused,
    RemovalReason,
)
from coordinator_server.observe.findings import (
    Elsewhere,
    Finding,
    FlappingLimits,
    Incident,
    LikelyCause,
    find,
    find_past,
    incident_of,
    key_of,
)
from coordinator_server.observe.timeline import Past

MAX_INCIDENTS: Final = 200
"""Most remembered incidents of a group."""
MAX_SIGNS: Final = 50
"""Most remembered indications of a group that are not rebalances."""
MAX_GROUPS: Final = 1_000


class Flapping:
    """Remembers a bounded number of rebalances within the window, by group."""

    def __init__(
        self,
        wall_ms: Callable[[], int],
        limits: FlappingLimits | None = None,
        past: Past = lambda _group_id: (),
        is_elsewhere: Elsewhere = lambda _group_id, _host: False,
    ) -> None:
        """`wall_ms` is the clock; `past` returns the rebalances in the log.

        A group's past is read at its first event or query.
        """
        self._wall_ms = wall_ms
        self._past = past
        self._is_elsewhere = is_elsewhere
        self._limits = limits or FlappingLimits()
        self._groups: OrderedDict[str, list[Incident]] = OrderedDict()
        self._signs: OrderedDict[str, list[Incident]] = OrderedDict()
        """Also from before the window, because the log does not contain them."""

    def observe(self, observation: Observation) -> None:
        """Remember an observation; an observer of the fan-out."""
        match observation:
            case RebalanceEvent():
                incident = incident_of(observation)
            case MemberRemoved(reason=RemovalReason.JOIN_TIMEOUT):
                sign = (observation.member.brief(), LikelyCause.POLL_INTERVAL)
                incident = Incident(self._wall_ms(), (sign,), False)
            case Refused(rule="protocol_inconsistent"):
                sign = (observation.member, LikelyCause.DIFFERING_PROTOCOLS)
                incident = Incident(observation.at_ms, (sign,), False)
            case _:
                return
        self._remember(observation.group_id, incident)
        if not incident.is_rebalance:
            self._keep_sign(observation.group_id, incident)

    def _keep_sign(self, group_id: str, sign: Incident) -> None:
        signs = self._signs.setdefault(group_id, [])
        signs.append(sign)
        del signs[:-MAX_SIGNS]
        self._signs.move_to_end(group_id)
        if len(self._signs) > MAX_GROUPS:
            self._signs.popitem(last=False)

    def _remember(self, group_id: str, incident: Incident) -> None:
        incidents = self._groups.get(group_id)
        if incidents is None:
            before = [] if incident.sequence == FIRST_SEQUENCE else self._recalled(group_id)
            incidents = self._groups[group_id] = before
        if incident.sequence != NOT_WRITTEN and incident in incidents:
            return  # already read from the log
        incidents.append(incident)
        del incidents[:-MAX_INCIDENTS]
        self._groups.move_to_end(group_id)
        if len(self._groups) > MAX_GROUPS:
            self._groups.popitem(last=False)

    def _recalled(self, group_id: str) -> list[Incident]:
        """The rebalances within the window that the log contains."""
        oldest = self._wall_ms() - self._limits.window_ms
        latest = islice(reversed(self._past(group_id)), MAX_INCIDENTS)
        recent = takewhile(lambda event: event.ended_ms >= oldest, latest)
        return [incident_of(event) for event in recent][::-1]

    def each(self) -> Iterator[list[Finding]]:
        """Yield the findings of one group after the other."""
        for group_id in list(self._groups):
            # The group may have been forgotten meanwhile.
            if group_id in self._groups:
                yield self._of(group_id)

    def findings(self, group_id: str | None = None) -> list[Finding]:
        """The findings of a group, or of all groups; the most rebalances first."""
        each = self.each() if group_id is None else [self._of(group_id)]
        found = [finding for findings in each for finding in findings]
        return sorted(found, key=lambda finding: -finding.count)

    def past_findings(self, group_id: str, events: Sequence[RebalanceEvent]) -> list[Finding]:
        """Findings in past windows of `events` that are not current findings."""
        now = {key_of(finding) for finding in self._of(group_id)}
        incidents = [incident_of(event) for event in events] + self._signs.get(group_id, [])
        incidents.sort(key=lambda incident: incident.at_ms)
        past = find_past(group_id, incidents, self._limits, self._is_elsewhere)
        return [finding for finding in past if key_of(finding) not in now]

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

    def _find(self, group_id: str, incidents: list[Incident]) -> list[Finding]:
        return find(group_id, incidents, self._limits, self._is_elsewhere)
