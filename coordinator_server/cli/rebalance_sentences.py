"""Turns reasons of rebalances and of removals into clauses for people."""

from collections.abc import Mapping
from typing import Any, Final

Form = Mapping[str, Any]

CAUSES: Final = {
    "member_joined": "{} joined",
    "member_left": "{} left",
    "session_expired": "the session of {} expired",
    "sync_timeout": "{} did not send SyncGroup in time",
    "pending_expired": "{} did not use its member id in time",
    "static_replaced": "{} replaced the static member with its instance id",
    "leader_rejoined": "the leader {} joined again",
    "follower_rejoined": "{} joined again",
    "metadata_changed": "{} changed its subscription or its protocols",
    "assignment_append_failed": "the log did not take the assignment of the leader {}",
    "admin_removed": "an operator removed {}",
    "admin_rebalance": "{} requested it",
    "over_capacity": "{} exceeded group.max.size",
}
"""A clause for each RebalanceReason; `{}` is the culprit's name."""

_REMOVALS: Final = {
    "left": "it had left",
    "session_expired": "its session had expired",
    "join_timeout": "the group had removed it: it did not join again in time",
    "sync_timeout": "the group had removed it: it did not send SyncGroup in time",
    "pending_expired": "it had not used its member id in time",
    "admin_removed": "an operator had removed it",
    "over_capacity": "the full group had refused it",
}
"""A clause for each RemovalReason."""


def cause_clause(reason: str, culprit: str, client_reason: str | None = None) -> str:
    """The clause after "because": the reason, the culprit's name and the client's own reason."""
    clause = CAUSES.get(reason, f"{reason} by {{}}").replace("{}", culprit)
    return f'{clause} (reason given: "{client_reason}")' if client_reason else clause


def removal_clause(reason: str) -> str:
    """The clause after "because" for a request of a member that the group had removed."""
    return _REMOVALS.get(reason, f"the group had removed it: {reason}")
