"""The rebalances of a group that its log has: packed as they are there, read when asked for.

A group with a history costs some 200 bytes a rebalance; as events it would be thousands.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, TypeVar, cast

from coordinator_protocol.history import (
    HistoryMember,
    HistoryRound,
    HistoryWait,
    PackedHistory,
    RebalanceHistoryKey,
    RebalanceHistoryValue,
    decode_history,
    history_head,
    history_sequence,
)
from coordinator_protocol.history_writer import encode_history
from coordinator_server.group.rebalance_events import (
    FIRST_SEQUENCE,
    Counts,
    Culprit,
    Outcome,
    RebalanceEvent,
    RebalanceReason,
    Round,
    Waited,
)

Word = TypeVar("Word", bound=StrEnum)

Past = tuple[PackedHistory, ...]
"""The oldest first, in the order of their sequence."""


def kept(past: Past, raw: PackedHistory) -> Past:
    """The past with one more rebalance; the log may tell the same one again."""
    if not past:
        return (raw,)
    sequence = history_sequence(raw)
    if history_sequence(past[-1]) < sequence:
        return (*past, raw)
    return (*(other for other in past if history_sequence(other) != sequence), raw)


def dropped(past: Past, key: RebalanceHistoryKey) -> Past:
    """The past without one rebalance, which it need not have."""
    if past and history_sequence(past[0]) == key.sequence:
        return past[1:]
    return tuple(raw for raw in past if history_sequence(raw) != key.sequence)


def key_of(group_id: str, raw: PackedHistory) -> RebalanceHistoryKey:
    """The key under which the log has a rebalance."""
    head = history_head(raw)
    return RebalanceHistoryKey(group_id, head.generation, head.sequence)


def next_sequence(past: Past) -> int:
    """The number of the rebalance that comes next."""
    return history_sequence(past[-1]) + 1 if past else FIRST_SEQUENCE


def aged(past: Past, oldest_ms: int) -> int:
    """How many of the oldest ended before a time (wall-clock milliseconds)."""
    count = 0
    for raw in past:
        if history_head(raw).ended_ms >= oldest_ms:
            break
        count += 1
    return count


class PastEvents(Sequence[RebalanceEvent]):
    """A view of a past that unpacks what is looked at."""

    __slots__ = ("_group_id", "_past")

    def __init__(self, group_id: str, past: Past) -> None:
        self._group_id = group_id
        self._past = past

    def __len__(self) -> int:
        return len(self._past)

    def __repr__(self) -> str:
        return f"<{len(self)} rebalances of {self._group_id!r}>"

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return PastEvents(self._group_id, self._past[index])
        return unpack(self._group_id, self._past[index])

    def __iter__(self) -> Iterator[RebalanceEvent]:
        return (unpack(self._group_id, raw) for raw in self._past)


def pack(event: RebalanceEvent) -> PackedHistory:
    """A finished rebalance as the value of its record."""
    # Members, waits and rounds are tuples of the same fields on both sides.
    joined, left, evicted, waited_for, rounds = event.counts
    value = RebalanceHistoryValue(
        event.sequence,
        event.generation_before,
        event.generation_after,
        event.started_ms,
        event.ended_ms,
        event.join_phase_ms,
        event.sync_phase_ms,
        event.reason,
        event.outcome,
        event.state_before,
        cast("HistoryMember", event.culprit),
        event.client_reason,
        (
            event.members_before,
            event.members_after,
            joined,
            left,
            evicted,
            waited_for,
            rounds,
        ),
        cast("Sequence[HistoryMember]", event.joined),
        cast("Sequence[HistoryMember]", event.left),
        cast("Sequence[HistoryMember]", event.evicted),
        cast("Sequence[HistoryWait]", event.waited_for),
        cast("Sequence[HistoryRound]", event.rounds),
    )
    return encode_history(value)


def unpack(group_id: str, raw: PackedHistory) -> RebalanceEvent:
    """The rebalance of a record. Raises Malformed."""
    value = decode_history(raw)
    before, after, *counts = value.counts
    return RebalanceEvent(
        group_id=group_id,
        reason=_word(RebalanceReason, value.reason),
        client_reason=value.client_reason,
        culprit=Culprit._make(value.culprit),
        state_before=value.state_before,
        outcome=_word(Outcome, value.outcome),
        generation_before=value.generation_before,
        generation_after=value.generation_after,
        started_ms=value.started_ms,
        ended_ms=value.ended_ms,
        join_phase_ms=value.join_phase_ms,
        sync_phase_ms=value.sync_phase_ms,
        members_before=before,
        members_after=after,
        joined=tuple(map(Culprit._make, value.joined)),
        left=tuple(map(Culprit._make, value.left)),
        evicted=tuple(map(Culprit._make, value.evicted)),
        waited_for=tuple(
            Waited(Culprit._make(member), waited_ms) for member, waited_ms in value.waited_for
        ),
        rounds=tuple(
            Round(_word(RebalanceReason, reason), Culprit._make(culprit), client_reason)
            for reason, culprit, client_reason in value.rounds
        ),
        counts=Counts(*counts),
        sequence=value.sequence,
    )


def _word(kind: type[Word], word: str) -> Word:
    """A reason or an outcome; a word of a later version stays as it is, so that it is shown."""
    if word in kind.__members__.values():
        return kind(word)
    unknown = str.__new__(kind, word)
    unknown._name_ = unknown._value_ = word
    return unknown
