"""The history of rebalances in the coordinator's log: record type 32766, unknown to Kafka.

Each finished rebalance is a record of its own, with a key no other has, so that compaction keeps
it. Kafka's coordinator and tools skip record types they do not know.

Key: int16 32766, string group, int32 generation, int64 sequence; strings as in Kafka's
non-flexible messages (int16 length). `generation` is the one after the rebalance, `sequence`
grows by one with every rebalance of the group.

Value, version 0, with compact strings and arrays as in Kafka's flexible messages:

    int16    version
    int64    sequence, as in the key
    int32    generation after
    int64    ended, wall-clock milliseconds
    int64    started, wall-clock milliseconds
    int32    generation before
    int64    join phase, milliseconds
    int64    sync phase, milliseconds
    int32    members before, members after, joined, left, evicted, waited for, rounds: seven counts
    string   reason, outcome, state before: three strings
    array    members: string id, nullable string instance id, string client id, string host
    uvarint  culprit, as an index into members
    string   the client's own reason, nullable
    array    joined: uvarint index; likewise left and evicted: three arrays
    array    waited for: uvarint index, int64 milliseconds
    array    rounds: string reason, uvarint index of the culprit, nullable string client's reason
    tagged fields

The counts are exact, the arrays may have been cut. No value is larger than `MAX_HISTORY_BYTES`.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from coordinator_protocol.errors import Malformed
from coordinator_protocol.reader import Reader
from coordinator_protocol.writing import text_bytes

REBALANCE_HISTORY_TYPE: Final = 32766
HISTORY_VERSION: Final = 0

MAX_HISTORY_BYTES: Final = 8_192
"""The largest value that is written."""
MAX_HISTORY_TEXT: Final = 255
"""Bytes of UTF-8 that are kept of any text in a value."""

PackedHistory = bytes
"""A value as it is in the log."""


@dataclass(slots=True, init=False)
class RebalanceHistoryKey:
    """Key of a finished rebalance (type 32766)."""

    group: str
    generation: int
    sequence: int

    def __init__(self, group: str, generation: int, sequence: int) -> None:
        self.group = group
        self.generation = generation
        self.sequence = sequence


class HistoryMember(NamedTuple):
    """A member, as it was known then."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str


class HistoryRound(NamedTuple):
    """The cause of a round: it began the rebalance, or restarted its join phase."""

    reason: str
    culprit: HistoryMember
    client_reason: str | None


class HistoryWait(NamedTuple):
    """A member that was waited for, and for how long."""

    member: HistoryMember
    waited_ms: int


Counted = tuple[int, int, int, int, int, int, int]
"""The fields of HistoryCounts."""


class HistoryCounts(NamedTuple):
    """Exact numbers, also where the lists are cut."""

    members_before: int
    members_after: int
    joined: int
    left: int
    evicted: int
    waited_for: int
    rounds: int


@dataclass(slots=True, init=False)
class RebalanceHistoryValue:
    """A finished rebalance; `started_ms` and `ended_ms` are wall-clock times."""

    sequence: int
    generation_before: int
    generation_after: int
    started_ms: int
    ended_ms: int
    join_phase_ms: int
    sync_phase_ms: int
    reason: str
    outcome: str
    state_before: str
    culprit: HistoryMember
    client_reason: str | None
    counts: Counted
    joined: Sequence[HistoryMember]
    left: Sequence[HistoryMember]
    evicted: Sequence[HistoryMember]
    waited_for: Sequence[HistoryWait]
    rounds: Sequence[HistoryRound]

    def __init__(
        self,
        sequence: int,
        generation_before: int,
        generation_after: int,
        started_ms: int,
        ended_ms: int,
        join_phase_ms: int,
        sync_phase_ms: int,
        reason: str,
        outcome: str,
        state_before: str,
        culprit: HistoryMember,
        client_reason: str | None,
        counts: Counted,
        joined: Sequence[HistoryMember],
        left: Sequence[HistoryMember],
        evicted: Sequence[HistoryMember],
        waited_for: Sequence[HistoryWait],
        rounds: Sequence[HistoryRound],
    ) -> None:
        self.sequence = sequence
        self.generation_before = generation_before
        self.generation_after = generation_after
        self.started_ms = started_ms
        self.ended_ms = ended_ms
        self.join_phase_ms = join_phase_ms
        self.sync_phase_ms = sync_phase_ms
        self.reason = reason
        self.outcome = outcome
        self.state_before = state_before
        self.culprit = culprit
        self.client_reason = client_reason
        self.counts = counts
        self.joined = joined
        self.left = left
        self.evicted = evicted
        self.waited_for = waited_for
        self.rounds = rounds


class HistoryHead(NamedTuple):
    """The fixed fields of a value: enough to name its key and to see its age."""

    version: int
    sequence: int
    generation: int
    ended_ms: int


_HEAD: Final = struct.Struct(">hqiq")
_BODY: Final = struct.Struct(">qiqq7i")


def history_head(raw: PackedHistory) -> HistoryHead:
    """The fixed beginning of a value. Raises Malformed."""
    if len(raw) < _HEAD.size:
        raise Malformed(f"rebalance history value: {len(raw)} bytes, expected {_HEAD.size}")
    return HistoryHead._make(_HEAD.unpack_from(raw))


def history_sequence(raw: PackedHistory) -> int:
    """The sequence in a value that is known to be whole."""
    return int.from_bytes(raw[2:10], "big", signed=True)


def is_known_history(raw: PackedHistory) -> bool:
    """Whether a value is of the version that is read here."""
    return len(raw) >= _HEAD.size and history_head(raw).version == HISTORY_VERSION


def encode_history_key(key: RebalanceHistoryKey) -> bytes:
    """The bytes of a key. Raises ValueError for a group id of more than 32767 bytes."""
    generation = key.generation.to_bytes(4, "big", signed=True)
    sequence = key.sequence.to_bytes(8, "big", signed=True)
    return _KEY_TYPE + text_bytes(key.group) + generation + sequence


_KEY_TYPE: Final = REBALANCE_HISTORY_TYPE.to_bytes(2, "big")


def decode_history_key(raw: bytes) -> RebalanceHistoryKey:
    """The key of a finished rebalance, type and all. Raises Malformed."""
    reader = Reader(raw, "rebalance history key")
    kind = reader.int16()
    if kind != REBALANCE_HISTORY_TYPE:
        raise Malformed(f"rebalance history key: type {kind}, expected {REBALANCE_HISTORY_TYPE}")
    return RebalanceHistoryKey(reader.text(), reader.int32(), reader.int64())


def decode_history(raw: PackedHistory) -> RebalanceHistoryValue:
    """A value of version 0. Raises Malformed."""
    head = history_head(raw)
    if head.version != HISTORY_VERSION:
        raise Malformed(f"rebalance history value: version {head.version}, expected 0")
    reader = Reader(raw, "rebalance history value")
    reader.take(_HEAD.size)
    started, generation, join_ms, sync_ms, *counts = _BODY.unpack(reader.take(_BODY.size))
    reason, outcome, state_before = (reader.text(compact=True) for _ in range(3))
    members = [_decode_member(reader) for _ in range(reader.count(compact=True))]
    return RebalanceHistoryValue(
        sequence=head.sequence,
        generation_before=generation,
        generation_after=head.generation,
        started_ms=started,
        ended_ms=head.ended_ms,
        join_phase_ms=join_ms,
        sync_phase_ms=sync_ms,
        reason=reason,
        outcome=outcome,
        state_before=state_before,
        culprit=_pick(reader, members),
        client_reason=reader.nullable_text(compact=True),
        counts=HistoryCounts(*counts),
        joined=_picked(reader, members),
        left=_picked(reader, members),
        evicted=_picked(reader, members),
        waited_for=[
            HistoryWait(_pick(reader, members), reader.int64())
            for _ in range(reader.count(compact=True))
        ],
        rounds=[
            HistoryRound(
                reader.text(compact=True),
                _pick(reader, members),
                reader.nullable_text(compact=True),
            )
            for _ in range(reader.count(compact=True))
        ],
    )


def _decode_member(reader: Reader) -> HistoryMember:
    return HistoryMember(
        reader.text(compact=True),
        reader.nullable_text(compact=True),
        reader.text(compact=True),
        reader.text(compact=True),
    )


def _pick(reader: Reader, members: Sequence[HistoryMember]) -> HistoryMember:
    index = reader.uvarint()
    if index >= len(members):
        raise Malformed(f"rebalance history value: member {index} of {len(members)}")
    return members[index]


def _picked(reader: Reader, members: Sequence[HistoryMember]) -> list[HistoryMember]:
    return [_pick(reader, members) for _ in range(reader.count(compact=True))]
