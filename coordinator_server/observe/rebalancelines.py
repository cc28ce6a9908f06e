"""A finished rebalance as a line of JSON, written by hand: whenever a group changes there is one.

It says what `forms.rebalance_form` says, at a tenth of the cost; a test holds them together.
"""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from coordinator_server.group.reasons import Culprit, RebalanceEvent, Round, Waited


def rebalance_line(event: RebalanceEvent, limit: int, node_id: int | None) -> str:
    """What the log says of a rebalance; no list in it is longer than `limit`."""
    seconds, micros = divmod(time.time_ns() // 1_000, 1_000_000)
    now = f"{_second(seconds)}.{micros:06d}Z"
    signed = "" if node_id is None else f', "node_id": {node_id}'
    head = f'"timestamp": "{now}", "level": "info", "event": "rebalance"'
    return f"{{{head}, {rebalance_fields(event, limit)}{signed}}}"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def rebalance_fields(event: RebalanceEvent, limit: int | None = None) -> str:
    """The fields of `rebalance_form` and their values, without the braces."""
    counts = event.counts
    return (
        f'"group": {quoted(event.group_id)}, "reason": {quoted(event.reason)}, '
        f'"client_reason": {_text(event.client_reason)}, "culprit": {_culprit(event.culprit)}, '
        f'"state_before": {quoted(event.state_before)}, "outcome": {quoted(event.outcome)}, '
        f'"generation_before": {event.generation_before}, '
        f'"generation_after": {event.generation_after}, "sequence": {event.sequence}, '
        f'"started_ms": {event.started_ms}, "ended_ms": {event.ended_ms}, '
        f'"duration_ms": {event.duration_ms}, "join_phase_ms": {event.join_phase_ms}, '
        f'"sync_phase_ms": {event.sync_phase_ms}, "members_before": {event.members_before}, '
        f'"members_after": {event.members_after}, '
        f'"joined": {_list(_culprit, event.joined[:limit])}, '
        f'"left": {_list(_culprit, event.left[:limit])}, '
        f'"evicted": {_list(_culprit, event.evicted[:limit])}, '
        f'"waited_for": {_list(_waited, event.waited_for[:limit])}, '
        f'"rounds": {_list(_round, event.rounds[:limit])}, '
        f'"counts": {{"joined": {counts.joined}, "left": {counts.left}, '
        f'"evicted": {counts.evicted}, "waited_for": {counts.waited_for}, '
        f'"rounds": {counts.rounds}}}'
    )


def _text(text: str | None) -> str:
    return "null" if text is None else quoted(text)


def _list(form: Callable[[Any], str], entries: Sequence[Any]) -> str:
    return f"[{', '.join([form(entry) for entry in entries])}]" if entries else "[]"


def _culprit(culprit: Culprit) -> str:
    return f"{{{_fields(culprit)}}}"


@lru_cache(maxsize=16)  # a line has the same one three times
def _fields(culprit: Culprit) -> str:
    member_id, instance_id, client_id, host = culprit
    return (
        f'"member_id": {quoted(member_id)}, "group_instance_id": {_text(instance_id)}, '
        f'"client_id": {quoted(client_id)}, "client_host": {quoted(host)}'
    )


def _waited(waited: Waited) -> str:
    return f'{{{_fields(waited.member)}, "waited_ms": {waited.waited_ms}}}'


def _round(entry: Round) -> str:
    return (
        f'{{"reason": {quoted(entry.reason)}, "culprit": {_culprit(entry.culprit)}, '
        f'"client_reason": {_text(entry.client_reason)}}}'
    )
