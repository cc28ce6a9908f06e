"""Formats a finished rebalance as a line of JSON without the json module, at a tenth of its cost.

The fields are those of `forms.rebalance_form`; a test compares the two.
"""

from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from time import time_ns
from typing import Final

from coordinator_server.clock import utc
from coordinator_server.group.rebalance_events import Counts, Culprit, RebalanceEvent, Round, Waited


def rebalance_line(event: RebalanceEvent, limit: int, node_id: int | None) -> str:
    """The log line of a rebalance; its lists have at most `limit` entries."""
    micros = time_ns() // 1_000
    signed = "" if node_id is None else f', "node_id": {node_id}'
    return (
        f'{{"timestamp": "{_second(micros // 1_000_000)}.{str(micros)[-6:]}Z", "level": "info", '
        f'"event": "rebalance", {rebalance_fields(event, limit)}{signed}}}'
    )


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return utc(seconds * 1000).strftime("%Y-%m-%dT%H:%M:%S")


def rebalance_fields(event: RebalanceEvent, limit: int | None = None) -> str:
    """The fields of `rebalance_form` and their values, without the braces."""
    culprit = event.culprit
    culprit_text = _culprit(culprit)
    return (
        f'"group": {quoted(event.group_id)}, "reason": {_word(event.reason)}, '
        f'"client_reason": {_text(event.client_reason)}, "culprit": {culprit_text}, '
        f'"state_before": {_word(event.state_before)}, "outcome": {_word(event.outcome)}, '
        f'"generation_before": {_number(event.generation_before)}, '
        f'"generation_after": {_number(event.generation_after)}, '
        f'"sequence": {_number(event.sequence)}, '
        f'"started_ms": {event.started_ms}, "ended_ms": {event.ended_ms}, '
        f'"duration_ms": {_number(event.join_phase_ms + event.sync_phase_ms)}, '
        f'"join_phase_ms": {_number(event.join_phase_ms)}, '
        f'"sync_phase_ms": {_number(event.sync_phase_ms)}, '
        f'"members_before": {_number(event.members_before)}, '
        f'"members_after": {_number(event.members_after)}, '
        f'"joined": {_culprits(event.joined, limit, culprit, culprit_text)}, '
        f'"left": {_culprits(event.left, limit, culprit, culprit_text)}, '
        f'"evicted": {_culprits(event.evicted, limit, culprit, culprit_text)}, '
        f'"waited_for": {_waits(event.waited_for, limit)}, '
        f'"rounds": {_rounds(event.rounds, limit, culprit, culprit_text)}, '
        f'"counts": {_counts(event.counts)}'
    )


def _counts(counts: Counts) -> str:
    return (
        f'{{"joined": {_number(counts.joined)}, "left": {_number(counts.left)}, '
        f'"evicted": {_number(counts.evicted)}, "waited_for": {_number(counts.waited_for)}, '
        f'"rounds": {_number(counts.rounds)}}}'
    )


_NUMBERS: Final = [str(number) for number in range(0x100)]
"""Texts of small numbers, which most fields are."""


def _number(number: int) -> str:
    return _NUMBERS[number] if 0 <= number < 0x100 else str(number)


_words: Final[dict[str, str]] = {}
"""Quoted names of reasons, states and outcomes."""
_MAX_WORDS: Final = 256


def _word(word: str) -> str:
    text = _words.get(word)
    if text is None:
        text = quoted(word)
        if len(_words) < _MAX_WORDS:
            _words[word] = text
    return text


def _text(text: str | None) -> str:
    return "null" if text is None else quoted(text)


def _culprits(
    members: Sequence[Culprit], limit: int | None, culprit: Culprit, culprit_text: str
) -> str:
    """Usually there is none, or only the culprit, whose text exists already."""
    if not members:
        return "[]"
    return _list(
        [culprit_text if member is culprit else _culprit(member) for member in members[:limit]]
    )


def _waits(waits: Sequence[Waited], limit: int | None) -> str:
    return _list([_waited(waited) for waited in waits[:limit]]) if waits else "[]"


def _rounds(rounds: Sequence[Round], limit: int | None, culprit: Culprit, culprit_text: str) -> str:
    return _list(
        [
            f'{{"reason": {_word(entry.reason)}, '
            f'"culprit": {culprit_text if entry.culprit is culprit else _culprit(entry.culprit)}, '
            f'"client_reason": {_text(entry.client_reason)}}}'
            for entry in rounds[:limit]
        ]
    )


def _list(forms: list[str]) -> str:
    return f"[{', '.join(forms)}]"


def _culprit(culprit: Culprit) -> str:
    return f"{{{_fields(culprit)}}}"


def _fields(culprit: Culprit) -> str:
    member_id, instance_id, client_id, host = culprit
    return (
        f'"member_id": {quoted(member_id)}, "group_instance_id": {_text(instance_id)}, '
        f'"client_id": {quoted(client_id)}, "client_host": {quoted(host)}'
    )


def _waited(waited: Waited) -> str:
    return f'{{{_fields(waited.member)}, "waited_ms": {waited.waited_ms}}}'
