"""Observations as plain dictionaries: one form for the log, the JSON API and whoever reads them."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from typing import Any

from coordinator_server.group.reasons import (
    Culprit,
    MemberRemoved,
    RebalanceEvent,
    RebalanceStarted,
    Round,
)
from coordinator_server.observe.status import GroupStatus, GroupSummary

Form = dict[str, Any]


def culprit_form(culprit: Culprit) -> Form:
    """A member as the coordinator knows it."""
    return culprit._asdict()


def culprit_forms(culprits: Iterable[Culprit], limit: int | None = None) -> list[Form]:
    """Members, at most `limit` of them."""
    return [culprit_form(culprit) for culprit in islice(culprits, limit)]


def _round_form(entry: Round) -> Form:
    return {
        "reason": entry.reason.value,
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


def rebalance_form(event: RebalanceEvent, limit: int | None = None) -> Form:
    """A finished rebalance; no list in it is longer than `limit`."""
    return {
        "group": event.group_id,
        "reason": event.reason.value,
        "client_reason": event.client_reason,
        "culprit": culprit_form(event.culprit),
        "state_before": event.state_before,
        "outcome": event.outcome.value,
        "generation_before": event.generation_before,
        "generation_after": event.generation_after,
        "started_ms": event.started_ms,
        "join_phase_ms": event.join_phase_ms,
        "sync_phase_ms": event.sync_phase_ms,
        "members_before": event.members_before,
        "members_after": event.members_after,
        "joined": culprit_forms(event.joined, limit),
        "left": culprit_forms(event.left, limit),
        "evicted": culprit_forms(event.evicted, limit),
        "waited_for": culprit_forms(event.waited_for, limit),
        "rounds": [_round_form(entry) for entry in event.rounds[:limit]],
    }


def removal_form(removed: MemberRemoved) -> Form:
    """A member that is gone."""
    return {
        "group": removed.group_id,
        "reason": removed.reason.value,
        "member": culprit_form(removed.member),
    }


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
        }
        for entry in status.members
    ]
    return {
        **summary_form(status.summary),
        "leader": status.leader,
        "members": members,
        "waiting_for": culprit_forms(status.waiting_for),
    }
