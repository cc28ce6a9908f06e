"""Observations as plain dictionaries: one form for the log, the JSON API and whoever reads them."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from math import isfinite
from typing import Any

from coordinator_server.group.rebalance_events import (
    Culprit,
    MemberRemoved,
    OffsetsRemoved,
    RebalanceEvent,
    RebalanceStarted,
    Refused,
    Round,
    Waited,
)
from coordinator_server.observe.counters import ClientMemory
from coordinator_server.observe.findings import Finding
from coordinator_server.observe.refusals import Refusal, Removed
from coordinator_server.observe.status import (
    Awaited,
    GroupStatus,
    GroupSummary,
    OffsetStatus,
    WaitingStatus,
)

Form = dict[str, Any]


def client_memory_form(memory: ClientMemory) -> Form:
    """The memory budget for data of clients; without a limit that is null."""
    return {
        "used_bytes": memory.used,
        "limit_bytes": int(memory.limit) if isfinite(memory.limit) else None,
        "waiting_connections": memory.waiting,
    }


def culprit_form(culprit: Culprit) -> Form:
    """A member as the coordinator knows it."""
    return culprit._asdict()


def culprit_forms(culprits: Iterable[Culprit], limit: int | None = None) -> list[Form]:
    """Members, at most `limit` of them."""
    return [culprit_form(culprit) for culprit in islice(culprits, limit)]


def _round_form(entry: Round) -> Form:
    return {
        "reason": str(entry.reason),
        "culprit": culprit_form(entry.culprit),
        "client_reason": entry.client_reason,
    }


def started_form(started: RebalanceStarted) -> Form:
    """A rebalance under way."""
    return {
        "group": started.group_id,
        "reason": started.reason.value,
        "client_reason": started.client_reason,
        "culprit": culprit_form(started.culprit),
        "generation": started.generation,
        "members": started.members,
        "started_ms": started.started_ms,
    }


def listed_rebalance_form(event: RebalanceEvent) -> Form:
    """A finished rebalance in a list of groups: how many there were, and nobody but the culprit."""
    return {
        "group": event.group_id,
        "reason": str(event.reason),
        "client_reason": event.client_reason,
        "culprit": culprit_form(event.culprit),
        "state_before": event.state_before,
        "outcome": str(event.outcome),
        "generation_before": event.generation_before,
        "generation_after": event.generation_after,
        "sequence": event.sequence,
        "started_ms": event.started_ms,
        "ended_ms": event.ended_ms,
        "duration_ms": event.duration_ms,
        "join_phase_ms": event.join_phase_ms,
        "sync_phase_ms": event.sync_phase_ms,
        "members_before": event.members_before,
        "members_after": event.members_after,
        "counts": event.counts._asdict(),
    }


def rebalance_form(event: RebalanceEvent, limit: int | None = None) -> Form:
    """A finished rebalance; no list in it is longer than `limit`."""
    form = listed_rebalance_form(event)
    counts = form.pop("counts")
    return {
        **form,
        "joined": culprit_forms(event.joined, limit),
        "left": culprit_forms(event.left, limit),
        "evicted": culprit_forms(event.evicted, limit),
        "waited_for": [_waited_form(waited) for waited in event.waited_for[:limit]],
        "rounds": [_round_form(entry) for entry in event.rounds[:limit]],
        "counts": counts,
    }


def _waited_form(waited: Waited) -> Form:
    return {**culprit_form(waited.member), "waited_ms": waited.waited_ms}


def removal_form(removed: MemberRemoved) -> Form:
    """A member that is gone."""
    return {
        "group": removed.group_id,
        "reason": removed.reason.value,
        "member": culprit_form(removed.member),
    }


def offsets_removed_form(removed: OffsetsRemoved) -> Form:
    """Committed offsets that are gone."""
    return {"group": removed.group_id, "reason": removed.reason.value, "offsets": removed.offsets}


def summary_form(summary: GroupSummary) -> Form:
    """A group in a list."""
    form = asdict(summary)
    return {"group": form.pop("group_id"), **form}


def status_form(status: GroupStatus) -> Form:
    """A group with its members and whom it waits for."""
    members = [
        {
            **culprit_form(entry.member),
            "session_timeout_ms": entry.session_timeout_ms,
            "rebalance_timeout_ms": entry.rebalance_timeout_ms,
            "waits_for": entry.waits_for,
            "topics": list(entry.topics),
            "assigned": {topic: list(partitions) for topic, partitions in entry.assigned.items()},
        }
        for entry in status.members
    ]
    return {
        **summary_form(status.summary),
        "leader": status.leader,
        "state_since_ms": status.state_since_ms,
        "members": members,
        "waiting_for": culprit_forms(status.waiting_for),
    }


def waiting_form(waiting: WaitingStatus) -> Form:
    """Whom a group waits for, and until when."""
    return {
        "group": waiting.group_id,
        "state": waiting.state,
        "phase": waiting.phase,
        "since_ms": waiting.since_ms,
        "deadline_ms": waiting.deadline_ms,
        "waiting": [_awaited_form(awaited) for awaited in waiting.waiting],
        "joined": waiting.joined,
        "expected": waiting.expected,
    }


def _awaited_form(awaited: Awaited) -> Form:
    return {
        **culprit_form(awaited.member),
        "kind": awaited.kind,
        "for": awaited.awaited_for,
        "since_ms": awaited.since_ms,
        "deadline_ms": awaited.deadline_ms,
    }


def offset_form(offset: OffsetStatus) -> Form:
    """A committed offset."""
    return asdict(offset)


def refused_form(refused: Refused) -> Form:
    """A refused request, as it is announced: one, the first of its kind."""
    return refusal_form(Refusal(refused, 1, refused.at_ms, refused.member, refused.detail))


def refusal_form(refusal: Refusal) -> Form:
    """A refused request, and how often the same was refused."""
    return {
        "at_ms": refusal.at_ms,
        "group": refusal.first.group_id,
        "api": refusal.first.api,
        "error": refusal.first.error,
        "rule": refusal.first.rule,
        "detail": refusal.detail,
        "member": culprit_form(refusal.member),
        "of_all": refusal.first.of_all,
        "removed": _removed_form(refusal.removed),
        "count": refusal.count,
        "first_ms": refusal.first.at_ms,
    }


def _removed_form(removed: Removed | None) -> Form | None:
    return removed and {"at_ms": removed.at_ms, "reason": removed.reason.value}


def finding_form(finding: Finding) -> Form:
    """A member that flaps, or a storm of rebalances."""
    return {
        "kind": finding.kind.value,
        "group": finding.group_id,
        "subject": finding.subject.value,
        "value": finding.value,
        "count": finding.count,
        "window_ms": finding.window_ms,
        "first_ms": finding.first_ms,
        "last_ms": finding.last_ms,
        "likely_cause": finding.likely_cause.value,
        "sentence": finding.sentence,
    }
