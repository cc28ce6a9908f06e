"""A finished rebalance of the log as plain dictionaries and lists: how tools show it."""

from typing import Any

from coordinator_protocol.history import HistoryCounts, RebalanceHistoryValue


def history_form(value: RebalanceHistoryValue) -> dict[str, Any]:
    """A value as plain dictionaries and lists, for JSON; members by their four names."""
    return {
        "sequence": value.sequence,
        "generation_before": value.generation_before,
        "generation_after": value.generation_after,
        "started_ms": value.started_ms,
        "ended_ms": value.ended_ms,
        "join_phase_ms": value.join_phase_ms,
        "sync_phase_ms": value.sync_phase_ms,
        "reason": value.reason,
        "outcome": value.outcome,
        "state_before": value.state_before,
        "culprit": value.culprit._asdict(),
        "client_reason": value.client_reason,
        "counts": HistoryCounts._make(value.counts)._asdict(),
        "joined": [member._asdict() for member in value.joined],
        "left": [member._asdict() for member in value.left],
        "evicted": [member._asdict() for member in value.evicted],
        "waited_for": [
            {**wait.member._asdict(), "waited_ms": wait.waited_ms} for wait in value.waited_for
        ],
        "rounds": [
            {**entry._asdict(), "culprit": entry.culprit._asdict()} for entry in value.rounds
        ],
    }
